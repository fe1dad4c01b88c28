/* SPDX-License-Identifier: Apache-2.0
 *
 * The points of all servers, sorted; a key belongs to the first point at or behind its own hash,
 * the ring's beginning following its end.
 */
#include "common/limiter/hash_ring.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wundef"
#include <xxhash.h>
#pragma GCC diagnostic pop

/* Of the keys; point I of a server is its name hashed with the seed I + 1. Part of what load
 * balancers agree on: never to be changed. */
static const uint64_t KEY_SEED = 0;

struct point {
    uint64_t at;
    uint32_t server;
};

struct hash_ring {
    size_t n;
    struct point points[];
};

static int compare_names(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len != 0 ? memcmp(a.p, b.p, len) : 0;

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* By place; by name if two servers collide, so that the result does not depend on the order in
 * which servers are given. */
static int compare_points(const void *x, const void *y, void *names)
{
    const struct point *a = x;
    const struct point *b = y;
    const struct slice *name = names;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return compare_names(name[a->server], name[b->server]);
}

struct hash_ring *hash_ring_create(const struct slice *names, size_t n)
{
    ASSERT(n <= HASH_RING_SERVERS_MAX);
    size_t npoints = n * HASH_RING_POINTS;
    struct hash_ring *r = xmalloc(sizeof(*r) + npoints * sizeof(r->points[0]));

    r->n = npoints;
    for (size_t i = 0; i < npoints; ++i) {
        size_t server = i / HASH_RING_POINTS;
        uint64_t seed = i % HASH_RING_POINTS + 1;

        r->points[i] = (struct point){
            .at = XXH3_64bits_withSeed(names[server].p, names[server].len, seed),
            .server = (uint32_t)server,
        };
    }
    /* A comparison takes no const context; it does not write. */
    qsort_r(r->points, npoints, sizeof(r->points[0]), compare_points,
            (void *)(uintptr_t)(const void *)names);
    return r;
}

void hash_ring_destroy(struct hash_ring *r)
{
    free(r);
}

size_t hash_ring_find(const struct hash_ring *r, struct slice key)
{
    uint64_t at = XXH3_64bits_withSeed(key.p, key.len, KEY_SEED);
    size_t from = 0;
    size_t to = r->n;

    if (r->n == 0)
        return SIZE_MAX;
    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (r->points[middle].at < at)
            from = middle + 1;
        else
            to = middle;
    }
    return r->points[from == r->n ? 0 : from].server;
}
