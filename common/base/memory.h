/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocators for groups of objects: an arena for objects that are freed together, a slab for
 * objects of one size. Each is embedded in its owner and used by one thread.
 */
#pragma once

#include "common/base/list.h"

/*
 * ---- arenas ---- Allocates many small objects that are freed together, not one by one. The
 * owner's initial buffer is used first; nothing is allocated while it suffices.
 */

/* Memory beyond the owner's initial buffer is allocated in blocks of this size; large allocations
 * get a block of their own. */
enum { ARENA_BLOCK_BYTES = 4096, ARENA_ALIGN = 16 };

struct arena_block;

struct arena {
    char *at, *end; /* unused part of the current block */
    struct arena_block *blocks;
};

/* ROOM, a buffer of BYTES bytes aligned to ARENA_ALIGN, is borrowed until arena_fini(). NULL and
 * 0: no initial buffer. */
static inline void arena_init(struct arena *a, void *room, size_t bytes)
{
#ifdef RLB_CHECKED
    /* Every allocation gets a heap block of its own, so that the sanitizer detects overruns. */
    bytes = 0;
#endif
    a->at = room;
    a->end = bytes != 0 ? a->at + bytes : a->at; /* ROOM may be NULL then */
    a->blocks = NULL;
}

void *arena_take_more(struct arena *a, size_t n) returns_nonnull_ cold_;
void arena_free_blocks(struct arena *a);

/* Frees all allocations of the arena. */
static inline void arena_fini(struct arena *a)
{
    if (a->blocks != NULL)
        arena_free_blocks(a);
}

/* Returns N bytes, aligned as by malloc and not zeroed. Aborts if out of memory. */
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

/*
 * ---- slabs ----
 *
 * Allocates objects of one size next to each other in separate blocks. For long-lived objects that
 * are allocated between short-lived ones: scattered over the heap, each would prevent a page of its
 * own from being returned to the system. The slab outlives them.
 */

struct slab {
    size_t object_bytes;
    struct list open; /* blocks with free space, longest in use first */
    size_t blocks, objects;
};

/* Maximum for OBJECT_BYTES: a hundredth of a block. */
enum { SLAB_BLOCK_BYTES = 64 * 1024, SLAB_OBJECT_MAX = SLAB_BLOCK_BYTES / 100 };

void slab_init(struct slab *s, size_t object_bytes);
/* All objects must have been returned with slab_free(). */
void slab_fini(struct slab *s);
/* Returns a zeroed object, aligned as by malloc. Aborts if out of memory. */
void *slab_alloc(struct slab *s) returns_nonnull_;
void slab_free(struct slab *s, void *object);
