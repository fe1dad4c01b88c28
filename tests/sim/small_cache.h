/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache of a simulated worker: a few classes, most recently used first; -1 is none. Embedded in
 * the worker.
 */
#pragma once

#include <stdbool.h>
#include <string.h>

enum { SMALL_CACHE = 20 };

struct small_cache {
    int classes[SMALL_CACHE];
};

static inline void small_cache_init(struct small_cache *c)
{
    memset(c->classes, -1, sizeof(c->classes));
}

/* Whether the worker had the data of CLS; it has them now. */
static inline bool small_cache_use(struct small_cache *c, int cls)
{
    int at = 0;

    while (at < SMALL_CACHE && c->classes[at] != cls)
        ++at;
    bool had = at < SMALL_CACHE;
    memmove(c->classes + 1, c->classes,
            (size_t)(had ? at : SMALL_CACHE - 1) * sizeof(c->classes[0]));
    c->classes[0] = cls;
    return had;
}
