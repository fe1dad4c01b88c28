/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/arena.h"

#include <stdlib.h>

struct arena_block {
    _Alignas(ARENA_ALIGN) struct arena_block *next;
    _Alignas(ARENA_ALIGN) char bytes[];
};

static char *add_block(struct arena *a, size_t n)
{
    struct arena_block *b = xmalloc(sizeof(*b) + n);

    b->next = a->blocks;
    a->blocks = b;
    return b->bytes;
}

void *arena_take_more(struct arena *a, size_t n)
{
    ASSERT(n <= SIZE_MAX / 2);
#ifdef RLB_CHECKED
    return add_block(a, n);
#endif
    /* The rest of the present block may suffice for other requests. */
    if (n > ARENA_BLOCK_BYTES / 4)
        return add_block(a, n);
    a->at = add_block(a, ARENA_BLOCK_BYTES);
    a->end = a->at + ARENA_BLOCK_BYTES;
    return arena_take(a, n);
}

void arena_free_blocks(struct arena *a)
{
    while (a->blocks != NULL) {
        struct arena_block *b = a->blocks;

        a->blocks = b->next;
        free(b);
    }
}
