/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects of one size, side by side in blocks of their own. For what lives long beside what comes
 * and goes: among other memory each would keep a page of its own from being given back.
 *
 * Embedded in its owner, who outlives the objects. One thread's.
 */
#ifndef RLB_BASE_SLAB_H
#define RLB_BASE_SLAB_H

#include "common/base/list.h"

struct slab {
    size_t object_bytes;
    struct list open; /* blocks that have room; those in use longest come first */
    size_t blocks, objects;
};

/* OBJECT_BYTES: at most a hundredth of a block. */
enum { SLAB_BLOCK_BYTES = 64 * 1024, SLAB_OBJECT_MAX = SLAB_BLOCK_BYTES / 100 };

void slab_init(struct slab *s, size_t object_bytes);
/* Every object has been given back. */
void slab_fini(struct slab *s);
/* A zeroed object, aligned as malloc does. Aborts instead of returning NULL. */
void *slab_take(struct slab *s) returns_nonnull_;
void slab_give(struct slab *s, void *object);

#endif
