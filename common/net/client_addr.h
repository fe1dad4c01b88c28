/* SPDX-License-Identifier: Apache-2.0
 *
 * Who a client is, behind proxies whose word is believed: X-Forwarded-For read from its end, as
 * each proxy adds there whom it was asked by. What stands before the first address that is no
 * trusted proxy's, anybody may have written. Pure functions; any thread.
 */
#ifndef RLB_NET_CLIENT_ADDR_H
#define RLB_NET_CLIENT_ADDR_H

#include "common/net/networks.h"

enum {
    /* Proxies in a row that are gone through; the client chooses how long a list is. */
    CLIENT_HOPS_MAX = 32,
};

/*
 * One element of X-Forwarded-For: "192.0.2.1", "192.0.2.1:4711", "2001:db8::1", "[2001:db8::1]" or
 * "[2001:db8::1]:4711"; without a port it is 0. Errors: ERR_SYNTAX, whatever else it is ("unknown",
 * a name); OUT is untouched then.
 */
enum err client_addr_parse(struct slice text, struct addr *out) must_check;

/* How far reading has come. Begin with the peer itself and HOPS 0. */
struct client_search {
    const struct networks *trusted;
    struct addr client; /* the last address that somebody trusted has named */
    unsigned hops;
};
/*
 * Go on with the value of one X-Forwarded-For field: the last field first. False: the client is
 * found, or what stands there is no address; fields before this one say nothing more.
 */
bool client_addr_search(struct client_search *s, struct slice value);

#endif
