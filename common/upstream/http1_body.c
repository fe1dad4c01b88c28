/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks are decoded in place: large ones become parts of their own, small ones are moved together
 * over the framing between them, so that a body of one-byte chunks does not cost a part for each.
 */
#include "common/upstream/http1_body.h"
#include "common/base/bytes.h"
#include "common/wire/http1_bytes.h"

#include <stdlib.h>

enum {
    MERGE_MAX = 256, /* a chunk up to this size is moved rather than listed */
    /* Up to this much is copied rather than keeping a whole block alive for it. */
    COMPACT_MAX = 2048,
};

void held_body_init(struct held_body *h, struct loop *home)
{
    h->body = (struct http1_body){.parts = h->parts};
    list_init(&h->body.node);
    h->home = home;
}

struct held_body *held_body_create(size_t room)
{
    struct held_body *h = xmalloc(sizeof(*h) + room);

    held_body_init(h, NULL);
    return h;
}

struct held_body *held_body_resize(struct held_body *h, size_t bytes)
{
    ASSERT(h->body.nparts == 0);
    h = xrealloc(h, sizeof(*h) + bytes);
    held_body_init(h, NULL);
    return h;
}

void http1_body_release(struct http1_body *b)
{
    if (b == NULL)
        return;
    struct held_body *h = container_of(b, struct held_body, body);
    if (b->release != NULL)
        b->release(b->hold);
    if (h->home != NULL)
        loop_give_block(h->home, h);
    else
        free(h);
}

void http1_bodies_release(struct list *bodies)
{
    struct list *node;

    while ((node = list_pop_front(bodies)) != NULL)
        http1_body_release(list_entry(node, struct http1_body, node));
}

size_t http1_bodies_bytes(const struct list *bodies)
{
    const struct http1_body *b;
    size_t bytes = 0;

    list_for_each_entry (b, bodies, node)
        bytes += b->bytes;
    return bytes;
}

void http1_body_clip(struct http1_body *b, uint64_t max)
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

static void add_part(struct held_body *h, struct slice data)
{
    ASSERT(h->body.nparts < HTTP1_BODY_PARTS_MAX);
    h->parts[h->body.nparts++] = data;
    h->body.bytes += data.len;
}

struct http1_body *http1_body_copy(struct slice bytes)
{
    struct held_body *h = held_body_create(bytes.len);

    if (bytes.len != 0) {
        memcpy(h->bytes, bytes.p, bytes.len);
        add_part(h, (struct slice){h->bytes, bytes.len});
    }
    return &h->body;
}

struct http1_body *http1_body_borrow(struct slice bytes, void (*release)(void *hold), void *hold)
{
    struct held_body *h = held_body_create(0);

    h->body.hold = hold;
    h->body.release = release;
    if (bytes.len != 0)
        add_part(h, bytes);
    return &h->body;
}

struct http1_body *http1_body_compact(struct http1_body *b)
{
    if (container_of(b, struct held_body, body)->home == NULL || b->bytes > COMPACT_MAX)
        return b;
    struct held_body *h = held_body_create(b->bytes);
    char *at = h->bytes;
    for (size_t i = 0; i < b->nparts; ++i)
        at = put_slice(at, b->parts[i]);
    if (b->bytes != 0)
        add_part(h, (struct slice){h->bytes, b->bytes});
    http1_body_release(b);
    return &h->body;
}

static noinline_ enum err take_chunks(struct held_body *h, struct http1_chunked *chunked,
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
        size_t n = h->body.nparts;
        if (data.len != 0 && (n == 0 || (data.len > MERGE_MAX && n < HTTP1_BODY_PARTS_MAX))) {
            add_part(h, data);
        } else if (data.len != 0) {
            /* Within one writable buffer, and DATA always behind *LAST. */
            struct slice *last = &h->parts[n - 1];

            memmove(writable(last->p) + last->len, data.p, data.len);
            last->len += data.len;
            h->body.bytes += data.len;
        }
    }
    return e;
}

enum err held_body_take(struct held_body *h, struct body_framing *f, struct slice *bytes)
{
    ASSERT(h->body.nparts == 0);
    switch (f->kind) {
    case HTTP1_BODY_CHUNKED:
        return take_chunks(h, &f->chunked, bytes);
    case HTTP1_BODY_LENGTH:
        add_part(h, slice_take(bytes, bytes->len < f->left ? bytes->len : (size_t)f->left));
        f->left -= h->body.bytes;
        return f->left == 0 ? ERR_NOT_FOUND : ERR_OK;
    case HTTP1_BODY_CLOSE:
        add_part(h, slice_take(bytes, bytes->len));
        return ERR_OK;
    case HTTP1_BODY_NONE:
        break;
    }
    UNREACHABLE();
}
