/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks up host names and services in the DNS and in /etc/hosts, without threads and without
 * blocking: by c-ares, on the loop of its creator, which owns it. Search domains and name servers
 * are those of /etc/resolv.conf, which is read again when it changes.
 */
#pragma once

#include "common/event/loop.h"
#include "common/net/addr.h"

enum {
    /* Of one answer: the others are dropped. */
    RESOLVED_ADDRS_MAX = 2000,
    /* Look-ups in progress; others wait. More would overflow the socket buffers of a name server,
     * and each lost datagram costs a time-out. */
    RESOLVER_IN_FLIGHT_MAX = 128,
    /* How long a name server may take for the first attempt, twice that for the second one; then as
     * long by TCP. */
    RESOLVER_TIMEOUT_MS = 2000,
    RESOLVER_TRIES = 2,
};

enum resolve_family {
    RESOLVE_AUTO, /* the IPv4 addresses; if there are none, the IPv6 ones */
    RESOLVE_IPV4,
    RESOLVE_IPV6,
    RESOLVE_BOTH
};

struct resolved {
    struct addr addr;
    const char *host;          /* that has the address; valid as long as the answer */
    unsigned priority, weight; /* of the service; 0 of a name */
};

struct resolve_answer {
    const struct resolved *items; /* sorted: equal answers compare equal; each address once */
    size_t n;
    bool truncated; /* there were more than RESOLVED_ADDRS_MAX */
    uint32_t ttl_s; /* the least one of the answer; 0 of /etc/hosts */
    /* NULL: it is complete, and not empty. */
    const char *problem;
    bool empty; /* the problem is that the name does not exist, or has no addresses */
};

/* A look-up of one name. Embedded in its owner. */
struct resolve_request {
    const char *name; /* NAME:PORT, or _SERVICE._PROTOCOL.NAME; borrowed while in progress */
    bool service;
    enum resolve_family family;
    /* Never called from inside resolver_query, nor after resolver_cancel. */
    void (*done)(struct resolve_request *q, const struct resolve_answer *a);
    /* The resolver's. */
    struct list waiting;
    struct lookup *lookup; /* in progress, or NULL */
};

struct resolver;

/* SERVERS: the name servers, ADDRESS or ADDRESS:PORT, separated by commas; NULL: those of
 * /etc/resolv.conf. Files are read, and sockets opened, only with the first request. */
struct resolver *resolver_create(struct loop *l, const char *servers);
/* Every request has been answered or cancelled. NULL is allowed. */
void resolver_destroy(struct resolver *r);
/* Uses other servers from now on. Look-ups in progress begin again. */
void resolver_set_servers(struct resolver *r, const char *servers);
/* Starts Q, which must not be in progress. */
void resolver_query(struct resolver *r, struct resolve_request *q);
/* No effect if Q is not in progress. */
void resolver_cancel(struct resolve_request *q);
