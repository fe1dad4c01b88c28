/* SPDX-License-Identifier: Apache-2.0
 *
 * What the clients of several loops know together of their pool counter daemons: whether a daemon
 * responds, whether it knows `slots`, and how many connections lead to it. A daemon exists while
 * some client refers to it. The owner outlives the clients. Any thread; one lock.
 *
 * Waiting for a lock is silent whether the daemon works or hangs. So a client that has asked and
 * has received nothing, and of which no other loop has received anything either, sends a probe over
 * another connection: STATS UPTIME, which every daemon answers at once. One loop probes at a time,
 * for all. Failures count in the daemon's breaker; when it opens, all
 * loops treat the daemon as unresponsive, and probe it from time to time until it answers.
 */
#ifndef RLB_LIMITER_COUNTER_HEALTH_H
#define RLB_LIMITER_COUNTER_HEALTH_H

#include "common/base/base.h"
#include "common/net/addr.h"

enum {
    COUNTER_CONNECTIONS_MAX = 4096, /* to one daemon, of all loops; unless set otherwise */
    /* Types of keys that a warning about a daemon without `slots` names: the rules of an
     * application. */
    COUNTER_SLOTS_TYPES_MAX = 64,
};

struct counter_health;
struct counter_daemon;

/* NAME: of the application, for log lines; copied. */
struct counter_health *counter_health_create(const char *name);
/* No daemon is referred to any more. NULL is fine. */
void counter_health_destroy(struct counter_health *h);
/* Connections to each daemon, at least 1. Lowered: nothing is closed. */
void counter_health_set_connections(struct counter_health *h, unsigned max);
unsigned counter_health_connections(struct counter_health *h);
const char *counter_health_name(const struct counter_health *h);

/* The daemon NAME at A: one reference, which counter_daemon_put drops. */
struct counter_daemon *counter_daemon_get(struct counter_health *h, struct slice name,
                                          const struct addr *a);
void counter_daemon_put(struct counter_daemon *d);

/* ---- connections ---- */

/*
 * Counts one connection; counter_daemon_release is its end. False: there are as many as there may
 * be. BEYOND: one more in any case, for a probe or to replace a connection that is dead.
 */
bool counter_daemon_reserve(struct counter_daemon *d, bool beyond) must_check;
void counter_daemon_release(struct counter_daemon *d);

/* ---- whether it responds ---- */

struct counter_daemon_state {
    bool resting;      /* unresponsive: not to be asked */
    uint64_t rests;    /* how often it has been found so */
    uint64_t rest_ms;  /* what is left of the rest */
    uint64_t heard_ms; /* the last reply on any loop; monotonic */
};
struct counter_daemon_state counter_daemon_look(struct counter_daemon *d, uint64_t now_ms);

/*
 * Whether the caller is to send a probe now: nothing was received for SILENT_MS, or a back-off is
 * over; and no other loop probes. True: must be followed by counter_daemon_heard or _failed of that
 * probe, and always by counter_daemon_end_probe.
 */
bool counter_daemon_begin_probe(struct counter_daemon *d, uint64_t silent_ms,
                                uint64_t now_ms) must_check;
/* No effect on the state that its reply or failure has set. */
void counter_daemon_end_probe(struct counter_daemon *d, uint64_t now_ms);
/* A reply. True: the daemon was unresponsive until now. */
bool counter_daemon_heard(struct counter_daemon *d, uint64_t now_ms);
/* No reply where one was due, or none that is one. The length of the rest that begins; 0: none. */
uint64_t counter_daemon_failed(struct counter_daemon *d, bool probe, uint64_t now_ms);

/* ---- slots ---- */

/*
 * A request with `slots` for keys of TYPE is sent. True: the caller is to ask the daemon whether it
 * knows them, and to report by counter_daemon_slots. Warns, once per daemon and type, when it does
 * not.
 */
bool counter_daemon_needs_slots(struct counter_daemon *d, struct slice type) must_check;
enum counter_slots { COUNTER_SLOTS_UNKNOWN, COUNTER_SLOTS_KNOWN, COUNTER_SLOTS_IGNORED };
void counter_daemon_slots(struct counter_daemon *d, enum counter_slots s);

/* ---- breaker ---- */

/*
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
    COUNTER_BREAKER_PROBE, /* proceed, and report the result: others wait for it */
    COUNTER_BREAKER_REST,  /* do not try */
};

/* PROBE is to be followed by counter_breaker_succeeded, _failed or _no_verdict. */
enum counter_breaker_leave counter_breaker_ask(struct counter_breaker *b, uint64_t now_ms);
void counter_breaker_succeeded(struct counter_breaker *b);
/* PROBE: the failed attempt was a probe. Other failures during a back-off are ignored. Returns
 * whether a back-off begins. */
bool counter_breaker_failed(struct counter_breaker *b, bool probe, uint64_t now_ms);
/* The probe has ended without a result: the next attempt becomes the probe. */
void counter_breaker_no_verdict(struct counter_breaker *b, uint64_t now_ms);

#endif
