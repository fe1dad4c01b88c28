/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the connections of each client address over all loops. An IPv6 client can choose any
 * address of its /64, so a /64 counts as one address; IPv4-mapped IPv6 counts as IPv4; unix peers
 * have no address and are not counted. The table has an entry for each connected address only. Any
 * thread; one internal lock, a leaf.
 */
#ifndef RLB_NET_ADDRESS_COUNTS_H
#define RLB_NET_ADDRESS_COUNTS_H

#include "common/net/addr.h"

struct address_counts;
struct address_count; /* of one address: what its connections hold on to */

enum {
    /*
     * Maximum number of connected addresses, 48 bytes each. Beyond it, connections of new addresses
     * are accepted without being counted: a limit per address does not stop a client that has so
     * many addresses.
     */
    ADDRESS_COUNTS_MAX = 1 << 20,
};

struct address_counts *address_counts_create(void);
/* Every connection must have been removed. NULL is allowed. */
void address_counts_destroy(struct address_counts *t);

/*
 * Adds a connection of PEER. Returns false if PEER has MAX connections already.
 *   *out  to be passed to address_counts_leave(); NULL if the connection is not counted
 */
bool address_counts_join(struct address_counts *t, const struct addr *peer, size_t max,
                         struct address_count **out) must_check;
void address_counts_leave(struct address_counts *t, struct address_count **one);

/* Whether a rejection at NOW_MS is to be logged: at most one per second is. Sets *UNTOLD to the
 * number of rejections not logged since the last logged one. */
bool address_counts_tell(struct address_counts *t, uint64_t now_ms,
                         uint64_t *unreported) must_check;

#endif
