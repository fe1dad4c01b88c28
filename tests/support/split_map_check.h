/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants of a split_map.
 */
#pragma once

#include "common/base/map.h"

static inline void split_map_check(const struct split_map *m)
{
    struct split_node *node = NULL;
    size_t n = 0;

    ASSERT(m->full >= (size_t)1 << SPLIT_MAP_FIRST_BITS);
    ASSERT(m->buckets >= m->full);
    ASSERT(m->buckets < 2 * m->full);
    /* An entry is found only in the bucket of its hash. */
    while ((node = split_map_next(m, node)) != NULL) {
        ASSERT(split_map_find(m, split_map_key(m, node)) == node);
        ++n;
    }
    ASSERT(n == m->n);
}
