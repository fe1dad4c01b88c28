/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the heads of responses are read to: blocks that the loop keeps, as nearly each is empty
 * again within the turn; larger ones come and go.
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
