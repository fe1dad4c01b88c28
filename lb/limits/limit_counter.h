/* SPDX-License-Identifier: Apache-2.0
 *
 * What one pool counter of an application counts, over all loops: counter tables behind a mutex,
 * and figures. Reference counted: by the rules that name it, and by each request that holds it or
 * waits for it; so a rule may be removed while its locks are held. Any thread.
 */
#ifndef RLB_LB_LIMITS_LIMIT_COUNTER_H
#define RLB_LB_LIMITS_LIMIT_COUNTER_H

#include "common/limiter/counter.h"
#include "common/stats/topk.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    /* Keys of one counter with a holder or a waiter; each has at least one request in flight. */
    LIMIT_KEYS_MAX = 1000000,
    LIMIT_WAITERS_MAX = 1000000,
};

/* Results of a counter; one cell for all loops, because each count is made under the mutex. */
struct limit_figures {
    _Atomic uint64_t coalesced, stale;              /* answers from a copy */
    _Atomic uint64_t refused_full, refused_timeout; /* answers of ours */
    _Atomic uint64_t refused_connections;           /* the same */
    _Atomic uint64_t shadow_full, shadow_busy;      /* would have been refused; would have waited */
    _Atomic uint64_t unreachable_open, unreachable_closed;
    _Atomic uint64_t abandoned;                   /* the client left while it waited */
    _Atomic uint64_t daemon_held, daemon_waiting; /* gauges, of where: daemon */
    _Atomic uint64_t daemon_locked, daemon_lost;
};

struct limit_counter {
    _Atomic unsigned refs;
    char *name;
    pthread_mutex_t lock; /* table, flights, top */
    struct counter_table *table;
    /* where: daemon with mode any: requests of this load balancer for the same key. Separate, as
     * the limits of `table` bind requests that stay there when `where` changes. */
    struct counter_table *flights;
    struct topk *top; /* keys by time waited */
    struct limit_figures figures;
};

struct limit_counter *limit_counter_create(const char *name);
struct limit_counter *limit_counter_ref(struct limit_counter *c);
/* NULL is fine. */
void limit_counter_unref(struct limit_counter *c);

/*
 * Sets the counter's own limits, which override those in the waiters' requests. Notifies the
 * waiters that can now proceed.
 */
void limit_counter_set(struct limit_counter *c, struct counter_limits limits);

#endif
