/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of networks, for access control and for trust in proxies. A value; any thread.
 */
#pragma once

#include "common/net/addr.h"

enum {
    /* Maximum size of a list: a look-up compares the address with each network. */
    NETWORKS_MAX = 256,
};

struct network {
    int family; /* AF_INET, AF_INET6 */
    unsigned char bytes[16];
    unsigned bits;
};

struct networks {
    struct network *items;
    size_t n;
    bool loopback;   /* 127.0.0.0/8 and ::1 */
    bool unix_peers; /* all peers connected by unix sockets */
};

/*
 * Adds "10.0.0.0/8", "fd00::/8", "10.1.2.3", "loopback" or "unix". Errors: ERR_SYNTAX; ERR_RANGE if
 * bits are set beyond the prefix; ERR_TOO_LARGE if N has NETWORKS_MAX networks already.
 */
enum err networks_add(struct networks *n, struct slice text) must_check;
/* Returns true if both have the same networks in the same order. */
bool networks_equal(const struct networks *a, const struct networks *b);
void networks_fini(struct networks *n);
bool networks_contain_(const struct networks *n, const struct addr *peer);
/* Returns true if PEER is in a network of N. IPv4-mapped IPv6 addresses are treated as IPv4. */
static inline bool networks_have(const struct networks *n, const struct addr *peer)
{
    /* Most lists are empty. */
    return (n->n != 0 || n->loopback || n->unix_peers) && networks_contain_(n, peer);
}

/* ---- clients behind trusted proxies ---- */

/*
 * Determines a client's address. X-Forwarded-For is read from its end, because each proxy appends
 * the address of its peer. Elements before the first address that does not belong to a trusted
 * proxy may be forged.
 */
enum {
    /* Maximum number of consecutive proxies, because the client chooses the length of the list. */
    CLIENT_HOPS_MAX = 32,
};

/*
 * Parses one element of X-Forwarded-For: "192.0.2.1", "192.0.2.1:4711", "2001:db8::1",
 * "[2001:db8::1]" or "[2001:db8::1]:4711"; without a port it is 0. Returns false for anything else
 * ("unknown", a name), without changing OUT.
 */
bool client_addr_parse(struct slice text, struct addr *out) must_check;

/* State of a search. Initialize CLIENT with the address of the peer, and HOPS with 0. */
struct client_search {
    const struct networks *trusted;
    struct addr client; /* the last address that a trusted host has reported */
    unsigned hops;
};
/*
 * Continues the search with the value of one X-Forwarded-For field; the last field must be passed
 * first. Returns false if the search has ended: the client was found, or an element is not an
 * address. Earlier fields must then be ignored.
 */
bool client_addr_search(struct client_search *s, struct slice value);
