/* SPDX-License-Identifier: Apache-2.0
 *
 * Consistent hashing: assigns each key to one of several named servers. The hash has no secret, so
 * all that know the same names get the same answer, on every machine and in whatever order the
 * names are given. A server that is added or removed moves only its own share of the keys. After
 * David Karger and others, "Consistent Hashing and Random Trees" (1997). Pure computation; constant
 * once created: any thread.
 *
 * Each key has exactly one server. The ring does not know whether a server is available: a caller
 * that falls back to the next server has two servers counting the same key.
 */
#ifndef RLB_LIMITER_HASH_RING_H
#define RLB_LIMITER_HASH_RING_H

#include "common/base/base.h"

enum {
    /* Points of one server on the ring: shares are within about a fifth of even then. Load
     * balancers that disagree in it disagree about servers. */
    HASH_RING_POINTS = 160,
    HASH_RING_SERVERS_MAX = 1024,
};

struct hash_ring;

/* N names, at most HASH_RING_SERVERS_MAX, distinct; borrowed for the call. */
struct hash_ring *hash_ring_create(const struct slice *names, size_t n);
/* NULL is fine. */
void hash_ring_destroy(struct hash_ring *r);

/* Index of KEY's server among the names; SIZE_MAX when there are none. O(log of the points). */
size_t hash_ring_find(const struct hash_ring *r, struct slice key);

#endif
