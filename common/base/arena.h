/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for many small things that end together. What is taken is never given back by itself.
 *
 * Embedded in its owner, with room of the owner's that is used up first: where that is enough,
 * nothing is allocated. One thread's.
 */
#ifndef RLB_BASE_ARENA_H
#define RLB_BASE_ARENA_H

#include "common/base/base.h"

/* Memory beyond the owner's initial buffer is allocated in blocks of this size; large allocations
 * get a block of their own. */
enum { ARENA_BLOCK_BYTES = 4096, ARENA_ALIGN = 16 };

struct arena_block;

struct arena {
    char *at, *end; /* Uses the buffer ROOM of BYTES bytes first. ROOM is borrowed until
                     * arena_fini() and must be aligned to ARENA_ALIGN. */
    struct arena_block *blocks;
};

/* ROOM, of BYTES, is borrowed until arena_fini, and aligned to ARENA_ALIGN. */
static inline void arena_init(struct arena *a, void *room, size_t bytes)
{
#ifdef RLB_CHECKED
    /* Every allocation gets a heap block of its own, so that the sanitizer detects overruns. */
    bytes = 0;
#endif
    a->at = room;
    a->end = a->at + bytes;
    a->blocks = NULL;
}
/* Frees all allocations of the arena. */
static inline void arena_fini(struct arena *a);

/* ---- inside ---- */

void *arena_take_more(struct arena *a, size_t n) returns_nonnull_ cold_;
void arena_free_blocks(struct arena *a);

static inline void arena_fini(struct arena *a)
{
    if (a->blocks != NULL)
        arena_free_blocks(a);
}

/* N bytes, aligned as malloc does; not zeroed. Aborts instead of returning NULL. */
static inline void *arena_take(struct arena *a, size_t n)
{
    size_t room = (size_t)(a->end - a->at);

    if (n > room)
        return arena_take_more(a, n);
    void *p = a->at;

    n = (n + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    a->at += n < room ? n : room;
    return p;
}

#endif
