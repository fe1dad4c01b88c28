/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker as the pool sees it: one instance at one address. Reference counted: its creator, the
 * pool's membership and each request routed to it (pool_get .. pool_put) hold one reference each.
 * It outlives the pool's membership until the last request is put. Constant after creation except
 * for what pool.c stores under the pool's lock, and the last report of its backlog. May be the
 * subject of a log line (common/base/log.h).
 */
#pragma once

#include "common/base/base.h"

enum {
    /* Maximum number of requests in flight that a worker may report: fits in one word together with
     * a time. An agent's limits (max_queue, concurrency) allow at most 1,010,000. */
    WORKER_REPORT_MAX = (1 << 24) - 1,
    /* How long a worker that has rejected a request is spared unless it responds to one. A stuck
     * worker thus rejects only a few requests in that time instead of each; a worker that has
     * capacity again (because requests of another load balancer were served) is idle no longer than
     * this. */
    WORKER_REJECTION_MS = 250,
};

struct worker;

struct worker_options {
    struct slice name; /* the address in canonical form; also its name in logs */
    /* identifies the instance; may be empty for workers without an agent */
    struct slice instance;
    unsigned concurrency; /* requests served at once, and waiters released when it joins; >= 1 */
    void *context;        /* the load balancer's data (connections, meter); not accessed */
    /* Called once, with no lock held, when the last reference is released; or NULL. */
    void (*context_release)(void *context);
};

struct worker *worker_create(const struct worker_options *o);
struct worker *worker_ref(struct worker *w);
void worker_unref(struct worker *w);

/*
 * W reports TOTAL requests in flight from all senders: those beyond our own are of other load
 * balancers. Call while the request still counts (before its pool_put). Any loop; acquires
 * no lock, so it is free of cost if there are no other load balancers.
 *   total   <= WORKER_REPORT_MAX
 *   now_ms  monotonic milliseconds, of the clock that pool_get is given
 */
void worker_report(struct worker *w, uint64_t total, uint64_t now_ms);

/* The requests in flight at W from this load balancer. Any loop; acquires no lock. */
uint64_t worker_in_flight(const struct worker *w);

/* W has rejected a request before it received any byte. Until it responds to one, or
 * WORKER_REJECTION_MS, it is picked only if all others are excluded or have rejected one. Any loop;
 * acquires no lock. */
void worker_declined(struct worker *w, uint64_t now_ms);
/* W has responded to a request, so it accepts requests. Any loop; acquires no lock. */
void worker_responded(struct worker *w);

/* Returns true if W has more requests in flight from this load balancer than it serves at once, so
 * that some wait at its agent. Any loop; acquires no lock. */
bool worker_is_over(const struct worker *w);

const char *worker_name(const struct worker *w);
struct slice worker_name_slice(const struct worker *w);
const char *worker_instance(const struct worker *w);
void *worker_context(const struct worker *w);
