/* SPDX-License-Identifier: Apache-2.0
 *
 * How much is read, and where the heads of responses are read to: blocks that the loop keeps, as
 * nearly each is empty again within the turn; larger ones come and go.
 */
#include "common/net/http1_conn.h"

#include <stdlib.h>

void http1_input_free(struct loop *l, struct http1_input *in)
{
    if (in->room == LOOP_BLOCK_BYTES)
        loop_give_block(l, in->p);
    else
        free(in->p);
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
    if (in->p == NULL && first == LOOP_BLOCK_BYTES) {
        in->p = loop_take_block(l);
        in->room = first;
        return;
    }
    in->room = in->room == 0 ? first : in->room * 2;
    in->p = xrealloc(in->p, in->room);
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
