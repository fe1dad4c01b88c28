/* SPDX-License-Identifier: Apache-2.0
 *
 * Places that requests of several loops take before they do something, and return afterwards. Any
 * thread; no lock. Zero before the first use.
 *
 *   retry_budget  how many of an application's requests may be retries at once: when many requests
 *                 fail, retries must not multiply the load on the remaining workers. Embedded in
 *                 the application
 *   tunnel_limit  how many upgraded connections (WebSocket) one worker may have. A request for one
 *                 takes a place before it is sent to the worker, and returns it when it ends
 *                 without an upgrade, or when its tunnel ends: so the limit also holds for
 *                 handshakes in flight on several loops. Embedded in a member
 */
#pragma once

#include "common/base/base.h"

struct retry_budget {
    _Atomic size_t taken; /* requests in flight that are retries */
};

struct tunnel_limit {
    _Atomic size_t max;    /* 0: no limit */
    _Atomic size_t places; /* taken: by handshakes in flight, and by tunnels */
    _Atomic size_t open;   /* of these, tunnels */
};

static inline bool budget_acquire_(_Atomic size_t *used, size_t most)
{
    size_t n = atomic_load_explicit(used, memory_order_relaxed);

    do {
        if (n >= most)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(used, &n, n + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

static inline void budget_release_(_Atomic size_t *used)
{
    size_t before = atomic_fetch_sub_explicit(used, 1, memory_order_relaxed);

    ASSERT(before > 0);
}

/*
 * Reserves a retry of a request. Returns false if the budget is exhausted.
 *   active  requests in flight, including this one
 *   share   permitted fraction of them, 0..1
 *   least   number that is always permitted
 */
static inline bool retry_budget_acquire(struct retry_budget *b, size_t active, double share,
                                        size_t least)
{
    size_t by_share = (size_t)(share * (double)active);

    return budget_acquire_(&b->taken, by_share > least ? by_share : least);
}

/* Once for each that was taken. */
static inline void retry_budget_release(struct retry_budget *b)
{
    budget_release_(&b->taken);
}

static inline unsigned tunnel_limit_max(const struct tunnel_limit *t)
{
    return (unsigned)atomic_load_explicit(&t->max, memory_order_relaxed);
}

/* Tunnels at present. */
static inline unsigned tunnel_limit_open(const struct tunnel_limit *t)
{
    return (unsigned)atomic_load_explicit(&t->open, memory_order_relaxed);
}

/* A lower limit ends no tunnel. */
static inline void tunnel_limit_set(struct tunnel_limit *t, unsigned max)
{
    atomic_store_explicit(&t->max, max, memory_order_relaxed);
}

static inline size_t tunnel_limit_most_(const struct tunnel_limit *t)
{
    size_t max = tunnel_limit_max(t);

    return max != 0 ? max : SIZE_MAX;
}

static inline bool tunnel_limit_has_room(const struct tunnel_limit *t)
{
    return atomic_load_explicit(&t->places, memory_order_relaxed) < tunnel_limit_most_(t);
}

/* Takes a place. False: all are taken. Pair with tunnel_limit_release, or with the next two. */
static inline bool must_check tunnel_limit_acquire(struct tunnel_limit *t)
{
    return budget_acquire_(&t->places, tunnel_limit_most_(t));
}

static inline void tunnel_limit_release(struct tunnel_limit *t)
{
    budget_release_(&t->places);
}

/* The request that holds the place is a tunnel now. */
static inline void tunnel_limit_opened(struct tunnel_limit *t)
{
    atomic_fetch_add_explicit(&t->open, 1, memory_order_relaxed);
}

/* That tunnel has ended, and its place is free. */
static inline void tunnel_limit_closed(struct tunnel_limit *t)
{
    budget_release_(&t->open);
    budget_release_(&t->places);
}
