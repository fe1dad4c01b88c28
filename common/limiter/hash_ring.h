/* SPDX-License-Identifier: Apache-2.0
 *
 * Consistent hashing: which of several named servers a key belongs to. Everybody who knows the same
 * names gets the same answer, on every machine and in whatever order the names are told, for the
 * hash has no secret; and a server that comes or goes moves its own share of the keys only. After
 * David Karger and others, "Consistent Hashing and Random Trees" (1997). Plain computation; made
 * once and then constant: any thread.
 *
 * There is one answer to a key. That its server may be away is not the ring's business: who goes on
 * to the next one then has two servers counting the same key.
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
