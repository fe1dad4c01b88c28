/* SPDX-License-Identifier: Apache-2.0
 *
 * How much is read, and where the heads of responses are read to: blocks that the loop keeps, as
 * nearly each is empty again within the turn; larger ones come and go.
 */
#include "common/upstream/http1_conn.h"

#include <stdlib.h>

_Static_assert(sizeof(struct held_body) + HTTP1_INPUT_BYTES <= LOOP_BLOCK_BYTES,
               "a block holds an input");

static struct held_body *memory_of(const struct http1_input *in)
{
    return container_of(in->p, struct held_body, bytes);
}

static bool is_block(const struct http1_input *in)
{
    return in->room == HTTP1_INPUT_BYTES;
}

void http1_input_free(struct loop *l, struct http1_input *in)
{
    if (in->p == NULL)
        return;
    if (is_block(in))
        loop_give_block(l, memory_of(in));
    else
        free(memory_of(in));
}

struct held_body *http1_input_take(struct loop *l, struct http1_input *in)
{
    struct held_body *h = memory_of(in);

    held_body_init(h, is_block(in) ? l : NULL);
    *in = (struct http1_input){0};
    return h;
}

void http1_input_make_room(struct loop *l, struct http1_input *in, size_t first)
{
    if (in->p != NULL && in->len < in->room)
        return;
    if (in->p != NULL && in->used != 0) {
        memmove(in->p, in->p + in->used, in->len - in->used);
        in->len -= in->used;
        in->scanned -= in->used;
        in->used = 0;
        return;
    }
    struct held_body *h = in->p != NULL ? memory_of(in) : NULL;
    if (h == NULL && first == HTTP1_INPUT_BYTES) {
        h = loop_take_block(l);
        in->room = first;
    } else {
        in->room = in->room == 0 ? first : in->room * 2;
        h = xrealloc(h, sizeof(*h) + in->room);
    }
    in->p = h->bytes;
}

size_t http1_next_read_bytes(const struct http1_exchange *x)
{
    size_t room = at_least(x->room_bytes, HTTP1_BODY_READ_MIN);
    size_t bytes = x->read_bytes < room ? x->read_bytes : room;

    if (x->framing.kind == HTTP1_BODY_LENGTH && x->framing.left < bytes)
        return (size_t)x->framing.left;
    return bytes;
}

void http1_adapt_read_bytes(struct http1_exchange *x, size_t room, size_t n)
{
    if (n == room && x->read_bytes < HTTP1_BODY_READ_MAX)
        x->read_bytes *= 2;
    else if (n < x->read_bytes / 4 && x->read_bytes > HTTP1_BODY_READ_MIN)
        x->read_bytes /= 2;
}
