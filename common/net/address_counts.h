/* SPDX-License-Identifier: Apache-2.0
 *
 * How many connections each client address has, over all loops. An IPv6 client has a whole /64 to
 * choose from, so that counts as one; IPv4 within IPv6 counts as IPv4; unix peers have no address
 * and are not counted. The table has an entry for each address that is connected, and none for
 * others. Any thread; its own lock, a leaf.
 */
#ifndef RLB_NET_ADDRESS_COUNTS_H
#define RLB_NET_ADDRESS_COUNTS_H

#include "common/net/addr.h"

struct address_counts;
struct address_count; /* of one address: what its connections hold on to */

enum {
    /* Addresses that are connected at a time, 48 bytes each; above it new ones are let in, not
     * counted: who has so many is not stopped by a limit for each. */
    ADDRESS_COUNTS_MAX = 1 << 20,
};

struct address_counts *address_counts_create(void);
/* Every connection has left. NULL is fine. */
void address_counts_destroy(struct address_counts *t);

/*
 * One more connection of PEER. False: it has MAX already.
 *   *out  what to give to address_counts_leave; NULL: it is not counted
 */
bool address_counts_join(struct address_counts *t, const struct addr *peer, size_t max,
                         struct address_count **out) must_check;
void address_counts_leave(struct address_counts *t, struct address_count **one);
/* Addresses that are connected. */
size_t address_counts_size(struct address_counts *t);

/* Whether somebody who was turned away at NOW_MS is to be logged: one a second. *UNTOLD: how many
 * were not, since the last that was. */
bool address_counts_tell(struct address_counts *t, uint64_t now_ms, uint64_t *untold) must_check;

#endif
