/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker as the pool sees it: one incarnation behind one address. Reference counted: the pool's
 * membership holds one, each request routed to it holds one (pool_get .. pool_put), whoever made it
 * holds one. It outlives the pool's membership until the last request is put.
 * Constant after creation but for what pool.c keeps under the pool's lock, and the last report of
 * its backlog. May be the subject of a log line (common/base/log.h).
 */
#ifndef RLB_ROUTING_WORKER_H
#define RLB_ROUTING_WORKER_H

#include "common/base/base.h"

enum {
    /* Requests in hand that a worker may report: what stands beside a time in one word. An agent's
     * limits (max_queue, concurrency) end at 1,010,000. */
    WORKER_REPORT_MAX = (1 << 24) - 1,
    /* How long one that has refused a request is spared, when nothing of it says that it takes some
     * again: one that is stuck refuses a few requests in that time, rather than each; one that has
     * room again (another load balancer's were served) is idle no longer than this. */
    WORKER_REFUSAL_MS = 250,
};

struct worker;

struct worker_options {
    struct slice name;        /* the address, canonical text; also its name in logs */
    struct slice incarnation; /* this life of it; may be empty for workers without an agent */
    unsigned concurrency; /* requests it can serve at once; >= 1; how many waiters a join lets go */
    void *context;        /* the load balancer's own record (connections, meter); not touched */
    /* Called once, with no lock held, when the last reference goes; or NULL. */
    void (*context_release)(void *context);
};

struct worker *worker_create(const struct worker_options *o);
struct worker *worker_ref(struct worker *w);
void worker_unref(struct worker *w);

/*
 * W says that it has TOTAL requests in hand, whoever sent them: those beyond our own are others'.
 * Call while the request that was answered still counts (before its pool_put). Any loop; no lock,
 * so that it costs a request nothing where nobody else sends any.
 *   total   <= WORKER_REPORT_MAX
 *   now_ms  monotonic milliseconds, of the clock that pool_get is given
 */
void worker_report(struct worker *w, uint64_t total, uint64_t now_ms);

/*
 * W has refused a request, its queue being full (or whatever it is, it had no byte of it): it is
 * picked for others only when there is nobody else, until it answers one, or WORKER_REFUSAL_MS have
 * passed. Any loop; no lock.
 */
void worker_refused(struct worker *w, uint64_t now_ms);
/* W has answered a request: so it takes some. Any loop; no lock. */
void worker_answered(struct worker *w);

/* Whether W has more requests in hand from this load balancer than it serves at once, so that some
 * wait at its agent. Any loop; no lock. */
bool worker_is_over(const struct worker *w);

const char *worker_name(const struct worker *w);
struct slice worker_name_slice(const struct worker *w);
const char *worker_incarnation(const struct worker *w);
void *worker_context(const struct worker *w);

#endif
