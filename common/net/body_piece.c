/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks are decoded in place: large ones become parts of their own, small ones are moved together
 * over the framing between them, so that a body of one-byte chunks does not cost a part for each.
 */
#include "common/net/body_piece.h"
#include "common/base/bytes.h"
#include "common/wire/http1_bytes.h"

#include <stdlib.h>

enum {
    MERGE_MAX = 256, /* a chunk up to this size is moved rather than listed */
    /* Up to this much is copied rather than keeping a whole block alive for it. */
    COMPACT_MAX = 2048,
};

void body_piece_init(struct body_piece *b, struct loop *loop)
{
    list_init(&b->node);
    b->nparts = b->bytes = 0;
    b->release = NULL;
    b->hold = NULL;
    b->loop = loop;
}

struct body_piece *body_piece_create(size_t room)
{
    struct body_piece *b = xmalloc(sizeof(*b) + room);

    body_piece_init(b, NULL);
    return b;
}

struct body_piece *body_piece_resize(struct body_piece *b, size_t bytes)
{
    ASSERT(b->nparts == 0);
    b = xrealloc(b, sizeof(*b) + bytes);
    body_piece_init(b, NULL);
    return b;
}

void body_piece_release(struct body_piece *b)
{
    if (b == NULL)
        return;
    if (b->release != NULL)
        b->release(b->hold);
    if (b->loop != NULL)
        loop_free_block(b->loop, b);
    else
        free(b);
}

void body_pieces_release(struct list *bodies)
{
    struct list *node;

    while ((node = list_pop_front(bodies)) != NULL)
        body_piece_release(list_entry(node, struct body_piece, node));
}

size_t body_pieces_bytes(const struct list *bodies)
{
    const struct body_piece *b;
    size_t bytes = 0;

    list_for_each_entry (b, bodies, node)
        bytes += b->bytes;
    return bytes;
}

void body_piece_clip(struct body_piece *b, uint64_t max)
{
    while (b->bytes > max) {
        struct slice *part = &b->parts[b->nparts - 1];
        size_t excess = (size_t)(b->bytes - max);
        size_t cut = excess < part->len ? excess : part->len;
        part->len -= cut;
        b->bytes -= cut;
        if (part->len == 0)
            --b->nparts;
    }
}

static void add_part(struct body_piece *b, struct slice data)
{
    ASSERT(b->nparts < BODY_PIECE_PARTS_MAX);
    b->parts[b->nparts++] = data;
    b->bytes += data.len;
}

struct body_piece *body_piece_copy(struct slice bytes)
{
    struct body_piece *b = body_piece_create(bytes.len);

    if (bytes.len != 0) {
        memcpy(b->memory, bytes.p, bytes.len);
        add_part(b, (struct slice){b->memory, bytes.len});
    }
    return b;
}

struct body_piece *body_piece_borrow(struct slice bytes, void (*release)(void *hold), void *hold)
{
    struct body_piece *b = body_piece_create(0);

    b->hold = hold;
    b->release = release;
    if (bytes.len != 0)
        add_part(b, bytes);
    return b;
}

struct body_piece *body_piece_compact(struct body_piece *b)
{
    if (b->loop == NULL || b->bytes > COMPACT_MAX)
        return b;
    struct body_piece *copy = body_piece_create(b->bytes);
    char *at = copy->memory;
    for (size_t i = 0; i < b->nparts; ++i)
        at = put_slice(at, b->parts[i]);
    if (b->bytes != 0)
        add_part(copy, (struct slice){copy->memory, b->bytes});
    body_piece_release(b);
    return copy;
}

static noinline_ enum err take_chunks(struct body_piece *b, struct http1_chunked *chunked,
                                      struct slice *bytes)
{
    enum err e = ERR_OK;

    while (e == ERR_OK && bytes->len != 0) {
        struct slice data;
        size_t used;
        e = http1_chunked_decode(chunked, *bytes, &data, &used);
        if (e != ERR_OK && e != ERR_NOT_FOUND)
            return e;
        slice_take(bytes, used);
        size_t n = b->nparts;
        if (data.len != 0 && (n == 0 || (data.len > MERGE_MAX && n < BODY_PIECE_PARTS_MAX))) {
            add_part(b, data);
        } else if (data.len != 0) {
            /* Within one writable buffer, and DATA always behind *LAST. */
            struct slice *last = &b->parts[n - 1];

            memmove(writable_bytes(last->p) + last->len, data.p, data.len);
            last->len += data.len;
            b->bytes += data.len;
        }
    }
    return e;
}

enum err body_piece_take(struct body_piece *b, struct body_framing *f, struct slice *bytes)
{
    ASSERT(b->nparts == 0);
    switch (f->kind) {
    case HTTP1_BODY_CHUNKED:
        return take_chunks(b, &f->chunked, bytes);
    case HTTP1_BODY_LENGTH:
        add_part(b, slice_take(bytes, bytes->len < f->left ? bytes->len : (size_t)f->left));
        f->left -= b->bytes;
        return f->left == 0 ? ERR_NOT_FOUND : ERR_OK;
    case HTTP1_BODY_CLOSE:
        add_part(b, slice_take(bytes, bytes->len));
        return ERR_OK;
    case HTTP1_BODY_NONE:
        break;
    }
    UNREACHABLE();
}
