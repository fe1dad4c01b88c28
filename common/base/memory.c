/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/memory.h"

#include <stdalign.h>
#include <stdlib.h>
#include <sys/mman.h>

/* ---- arenas ---- */

struct arena_block {
    _Alignas(ARENA_ALIGN) struct arena_block *next;
    _Alignas(ARENA_ALIGN) char bytes[];
};

static char *add_arena_block(struct arena *a, size_t n)
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
    return add_arena_block(a, n);
#endif
    /* The rest of the current block may suffice for other allocations. */
    if (n > ARENA_BLOCK_BYTES / 4)
        return add_arena_block(a, n);
    a->at = add_arena_block(a, ARENA_BLOCK_BYTES);
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

/*
 * ---- slabs ---- A block is aligned to its size, so that the address of an object gives its block.
 * Objects that were never allocated are not touched, so their pages use no memory. An empty block
 * is freed if another one has free space.
 */

#ifdef RLB_CHECKED
/* Each object is a heap block of its own and is freed with it, so that the sanitizer detects uses
 * after free, and memory that is referenced from objects is not reported as leaked. */
enum { OBJECTS_MAX = 1, SPARE_BLOCKS = 0 };
#else
enum { OBJECTS_MAX = SLAB_BLOCK_BYTES, SPARE_BLOCKS = 1 };
#endif

/* An object that was returned. */
struct gap {
    struct gap *next;
};

struct block {
    struct list node; /* unlinked: full */
    struct gap *gaps;
    size_t fresh; /* objects at the end of the block that were never allocated */
    size_t taken;
    alignas(max_align_t) char objects[];
};

static size_t objects_of_block(const struct slab *s)
{
    size_t n = (SLAB_BLOCK_BYTES - sizeof(struct block)) / s->object_bytes;

    return n < OBJECTS_MAX ? n : OBJECTS_MAX;
}

void slab_init(struct slab *s, size_t object_bytes)
{
    size_t unit = alignof(max_align_t);

    ASSERT(object_bytes != 0);
    ASSERT(object_bytes <= SLAB_OBJECT_MAX);
    *s = (struct slab){.object_bytes = (object_bytes + unit - 1) / unit * unit};
    list_init(&s->open);
}

static cold_ struct block *add_block(struct slab *s)
{
#ifdef RLB_CHECKED
    struct block *b = aligned_alloc(SLAB_BLOCK_BYTES, SLAB_BLOCK_BYTES);

    ASSERT(b != NULL);
#else
    /* Mapped instead of allocated: the alignment would leave a hole in the heap. */
    char *p = mmap(NULL, (size_t)2 * SLAB_BLOCK_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        out_of_memory();
    size_t before = -(uintptr_t)p & (SLAB_BLOCK_BYTES - 1);
    if (before != 0)
        munmap(p, before);
    munmap(p + before + SLAB_BLOCK_BYTES, SLAB_BLOCK_BYTES - before);
    struct block *b = (struct block *)(void *)(p + before);
#endif
    *b = (struct block){.fresh = objects_of_block(s)};
    list_push_back(&s->open, &b->node);
    ++s->blocks;
    return b;
}

static cold_ void drop_block(struct slab *s, struct block *b)
{
    list_remove(&b->node);
#ifdef RLB_CHECKED
    free(b);
#else
    munmap(b, SLAB_BLOCK_BYTES);
#endif
    --s->blocks;
}

void slab_fini(struct slab *s)
{
    ASSERT(s->objects == 0);
    while (!list_empty(&s->open))
        drop_block(s, list_first(&s->open, struct block, node));
    ASSERT(s->blocks == 0);
}

void *slab_alloc(struct slab *s)
{
    struct block *b =
        list_empty(&s->open) ? add_block(s) : list_first(&s->open, struct block, node);
    void *object = b->gaps;

    if (b->gaps != NULL)
        b->gaps = b->gaps->next;
    else
        object = b->objects + (objects_of_block(s) - b->fresh--) * s->object_bytes;
    ++b->taken;
    ++s->objects;
    if (b->gaps == NULL && b->fresh == 0)
        list_remove(&b->node);
    return memset(object, 0, s->object_bytes);
}

void slab_free(struct slab *s, void *object)
{
    size_t offset = (uintptr_t)object & (SLAB_BLOCK_BYTES - 1);
    struct block *b = (struct block *)(void *)((char *)object - offset);
    struct gap *g = object;

    ASSERT(b->taken != 0);
    g->next = b->gaps;
    b->gaps = g;
    --b->taken;
    --s->objects;
    /* Blocks that were full are the oldest, and are filled first. */
    if (!list_linked(&b->node))
        list_push_front(&s->open, &b->node);
    if (b->taken == 0 && (SPARE_BLOCKS == 0 || s->open.next != s->open.prev))
        drop_block(s, b);
}
