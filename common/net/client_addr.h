/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines a client's address behind trusted proxies. X-Forwarded-For is read from its end,
 * because each proxy appends the address of its peer. Elements before the first address that does
 * not belong to a trusted proxy may be forged. Pure functions; any thread.
 */
#ifndef RLB_NET_CLIENT_ADDR_H
#define RLB_NET_CLIENT_ADDR_H

#include "common/net/networks.h"

enum {
    /* Maximum number of consecutive proxies, because the client chooses the length of the list. */
    CLIENT_HOPS_MAX = 32,
};

/*
 * Parses one element of X-Forwarded-For: "192.0.2.1", "192.0.2.1:4711", "2001:db8::1",
 * "[2001:db8::1]" or "[2001:db8::1]:4711"; without a port it is 0. Errors: ERR_SYNTAX for anything
 * else ("unknown", a name); OUT is not changed then.
 */
enum err client_addr_parse(struct slice text, struct addr *out) must_check;

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

#endif
