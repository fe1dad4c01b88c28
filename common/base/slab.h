/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocates objects of one size next to each other in separate blocks. For long-lived objects that
 * are allocated between short-lived ones: scattered over the heap, each would prevent a page of its
 * own from being returned to the system.
 *
 * Embedded in its owner, which must outlive the objects. One thread's.
 */
#ifndef RLB_BASE_SLAB_H
#define RLB_BASE_SLAB_H

#include "common/base/list.h"

struct slab {
    size_t object_bytes;
    struct list open; /* blocks with free space, longest in use first */
    size_t blocks, objects;
};

/* Maximum for OBJECT_BYTES: a hundredth of a block. */
enum { SLAB_BLOCK_BYTES = 64 * 1024, SLAB_OBJECT_MAX = SLAB_BLOCK_BYTES / 100 };

void slab_init(struct slab *s, size_t object_bytes);
/* All objects must have been returned with slab_give(). */
void slab_fini(struct slab *s);
/* Returns a zeroed object, aligned as by malloc. Aborts if out of memory. */
void *slab_take(struct slab *s) returns_nonnull_;
void slab_give(struct slab *s, void *object);

#endif
