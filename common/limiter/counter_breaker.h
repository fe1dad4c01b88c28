/* SPDX-License-Identifier: Apache-2.0
 *
 * A circuit breaker: decides whether a server that has failed is tried again. Pure computation;
 * time is an argument. Embedded in its server; one thread. Zero-initialized, it is closed.
 *
 *     CLOSED   All attempts are allowed. FAILURES_MAX failures in a row: RESTING.
 *     RESTING  No attempt is allowed. After the rest period, the next attempt is the probe: PROBED.
 *     PROBED   No other attempt is allowed. If the probe fails: RESTING, for twice the previous
 *              period, at most REST_MAX.
 *
 * Any success, also of an attempt that began earlier: CLOSED.
 */
#ifndef RLB_LIMITER_COUNTER_BREAKER_H
#define RLB_LIMITER_COUNTER_BREAKER_H

#include "common/base/base.h"

enum {
    /* One failure may be a lost packet, two a restart. */
    COUNTER_BREAKER_FAILURES_MAX = 3,
    COUNTER_BREAKER_REST_FIRST_MS = 500,
    /* A server that comes back is not left alone for longer than this. */
    COUNTER_BREAKER_REST_MAX_MS = 10000,
};

enum counter_breaker_state {
    COUNTER_BREAKER_CLOSED,
    COUNTER_BREAKER_RESTING,
    COUNTER_BREAKER_PROBED
};

struct counter_breaker {
    enum counter_breaker_state state;
    unsigned failures; /* in a row, while CLOSED */
    uint64_t rest_ms;  /* the rest's length; while PROBED, the last one's */
    uint64_t until_ms; /* while RESTING */
};

enum counter_breaker_leave {
    COUNTER_BREAKER_GO,
    COUNTER_BREAKER_PROBE, /* go, and tell what becomes of it: others wait for that */
    COUNTER_BREAKER_REST,  /* do not try */
};

/* PROBE is to be followed by counter_breaker_succeeded, _failed or _no_verdict. */
enum counter_breaker_leave counter_breaker_ask(struct counter_breaker *b, uint64_t now_ms);
void counter_breaker_succeeded(struct counter_breaker *b);
/* PROBE: what was let go as one. Others that fail while it rests tell nothing new. Whether a rest
 * begins. */
bool counter_breaker_failed(struct counter_breaker *b, bool probe, uint64_t now_ms);
/* The probe has ended without a result: the next attempt becomes the probe. */
void counter_breaker_no_verdict(struct counter_breaker *b, uint64_t now_ms);

#endif
