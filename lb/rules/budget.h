/* SPDX-License-Identifier: Apache-2.0
 *
 * Places that requests of several loops take before they do something, and return afterwards. Any
 * thread; no lock. Zero before the first use.
 *
 *   retry_budget  how many of an application's requests may be retries at once: when much fails,
 *                 tries of what has failed already must not be a second load on what is left.
 *                 Embedded in the application
 *   tunnel_limit  how many upgraded connections (WebSocket) one worker may have. A request for one
 *                 takes a place before it is sent to the worker, and returns it when it ends
 *                 without an upgrade, or when its tunnel ends: so the limit also holds for
 *                 handshakes in flight on several loops. Embedded in a member
 */
#ifndef RLB_LB_RULES_BUDGET_H
#define RLB_LB_RULES_BUDGET_H

#include "common/base/base.h"

#include <stdatomic.h>

struct retry_budget {
    _Atomic size_t taken; /* requests in flight that are retries */
};

/*
 * Reserves a retry of a request. Returns false if the budget is exhausted.
 *   active  requests in flight, including this one
 *   share   permitted fraction of them, 0..1
 *   least   number that is always permitted
 */
bool retry_budget_take(struct retry_budget *b, size_t active, double share, size_t least);
/* Once for each that was taken. */
void retry_budget_give(struct retry_budget *b) noinline_;

struct tunnel_limit {
    _Atomic size_t max;    /* 0: no limit */
    _Atomic size_t places; /* taken: by handshakes in flight, and by tunnels */
    _Atomic size_t open;   /* of these, tunnels */
};

/* A lower limit ends no tunnel. */
void tunnel_limit_set(struct tunnel_limit *t, unsigned max);
bool tunnel_limit_has_room(const struct tunnel_limit *t);
/* Takes a place. False: all are taken. Pair with tunnel_limit_give, or with the next two. */
bool tunnel_limit_take(struct tunnel_limit *t) must_check;
void tunnel_limit_give(struct tunnel_limit *t);
/* The request that holds the place is a tunnel now; that tunnel has ended, and its place is free.
 */
void tunnel_limit_opened(struct tunnel_limit *t);
void tunnel_limit_closed(struct tunnel_limit *t);

static inline unsigned tunnel_limit_max(const struct tunnel_limit *t)
{
    return (unsigned)atomic_load_explicit(&t->max, memory_order_relaxed);
}

/* Tunnels at present. */
static inline unsigned tunnel_limit_open(const struct tunnel_limit *t)
{
    return (unsigned)atomic_load_explicit(&t->open, memory_order_relaxed);
}

#endif
