/* SPDX-License-Identifier: Apache-2.0
 *
 * How many upgraded connections (WebSocket) one worker has, and how many it may have. Embedded in a
 * member. A request for one takes a place before it is sent to the worker, and returns it when it
 * ends without an upgrade, or when its tunnel ends: so the limit also holds for handshakes in
 * flight on several loops. Any thread; no lock. Zero before its first use.
 */
#ifndef RLB_LB_RULES_TUNNEL_LIMIT_H
#define RLB_LB_RULES_TUNNEL_LIMIT_H

#include "common/base/base.h"

#include <stdatomic.h>

struct tunnel_limit {
    _Atomic unsigned max;    /* 0: no limit */
    _Atomic unsigned places; /* taken: by handshakes in flight, and by tunnels */
    _Atomic unsigned open;   /* of these, tunnels */
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
    return atomic_load_explicit(&t->max, memory_order_relaxed);
}

/* Tunnels at present. */
static inline unsigned tunnel_limit_open(const struct tunnel_limit *t)
{
    return atomic_load_explicit(&t->open, memory_order_relaxed);
}

#endif
