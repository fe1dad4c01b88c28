/* SPDX-License-Identifier: Apache-2.0
 *
 * Selects the loop that serves a client. The kernel distributes new connections over the loops'
 * sockets by a hash; it knows neither how much each loop has in flight nor whether a loop is
 * blocked. Therefore the loop that has accepted a connection checks the load of the others, and
 * passes the connection by message to one that clearly has less in flight. Thus a loop with more
 * than the others gets no more connections, and a loop that does not handle the connections passed
 * to it gets no further ones.
 *
 * Owned by the program; shared by servers of the same listeners, with one entry for each; must
 * outlive their loops. The number in flight is written by its loop only and read by the others
 * without a lock. Each entry has a mutex for the connections passed to it; no callbacks are called
 * under it.
 */
#pragma once

#include "common/event/loop.h"
#include "common/net/addr.h"

struct http_balance;

/* An accepted connection that is not served yet. */
struct http_accepted {
    int fd;
    unsigned listener; /* http_listen_options.number */
    struct addr peer;
};

/* Creates the entries 0..N-1; no server has joined yet. */
struct http_balance *http_balance_create(unsigned n);
/* When all loops are gone. NULL is fine. */
void http_balance_destroy(struct http_balance *b);

/* On loop L: connections are passed to entry I from now on. TAKE is called on L, later, once for
 * each of them, and takes over its descriptor. */
void http_balance_join(struct http_balance *b, unsigned i, struct loop *l,
                       void (*take)(void *context, const struct http_accepted *a), void *context);
/* On its loop: no more is given to it; what was given and not yet taken is taken now. */
void http_balance_leave(struct http_balance *b, unsigned i);
/* On its loop: sets its load; UINT64_MAX: it can take no more at present. */
void http_balance_set_load(struct http_balance *b, unsigned i, uint64_t in_flight);
/* On the loop of entry I, which has accepted A: whether another one takes it, with its
 * descriptor. */
bool http_balance_pass_on(struct http_balance *b, unsigned i, const struct http_accepted *a,
                          uint64_t now_ms) must_check;

struct http_balance_view {
    uint64_t in_flight;
    uint64_t given; /* to others */
    uint64_t taken; /* from others */
};
/* Any thread. */
void http_balance_view(const struct http_balance *b, unsigned i, struct http_balance_view *out);
