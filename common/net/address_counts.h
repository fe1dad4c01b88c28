/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the connections of each client address over all loops. IPv4-mapped IPv6 counts as IPv4;
 * unix peers have no address and are not counted. The table has an entry for each connected address
 * only. Any thread; one internal lock, a leaf.
 */
#pragma once

#include "common/net/addr.h"

struct address_counts;
struct address_count; /* count of one address, referenced by its connections */

enum {
    /*
     * Maximum number of connected addresses, 48 bytes each. Beyond it, connections of new addresses
     * are accepted without being counted: a limit per address does not stop a client that has so
     * many addresses.
     */
    ADDRESS_COUNTS_MAX = 1 << 20,
    /* Number of bytes of an IPv6 address that distinguish clients on the internet, where a
     * client can choose any address of its /64; and hosts of a local network. */
    ADDRESS_COUNTS_OF_CLIENTS = 8,
    ADDRESS_COUNTS_OF_HOSTS = 16,
    ADDRESS_KEY_BYTES = 16, /* an IPv6 address */
};

/* Writes what distinguishes the client PEER from others: of IPv6 the first IPV6_BYTES. Returns
 * false for unix peers, which have the key of zeros. */
bool address_key(const struct addr *peer, size_t ipv6_bytes, unsigned char key[ADDRESS_KEY_BYTES]);

/* IPV6_BYTES is ADDRESS_COUNTS_OF_CLIENTS or ADDRESS_COUNTS_OF_HOSTS. */
struct address_counts *address_counts_create(size_t ipv6_bytes);
/* Every connection must have been removed. NULL is allowed. */
void address_counts_destroy(struct address_counts *t);

/*
 * Adds a connection of PEER. Returns false if PEER has MAX connections already.
 *   *out  to be passed to address_counts_remove(); NULL if the connection is not counted
 */
bool address_counts_add(struct address_counts *t, const struct addr *peer, size_t max,
                        struct address_count **out) must_check;
void address_counts_remove(struct address_counts *t, struct address_count **one);
/* Number of connected addresses. */
size_t address_counts_size(struct address_counts *t);

/* Returns true if a rejection at NOW_MS is to be logged, which is at most one per second. Sets
 * *UNREPORTED to the number of rejections since the last logged one. */
bool address_counts_should_log(struct address_counts *t, uint64_t now_ms,
                               uint64_t *unreported) must_check;
