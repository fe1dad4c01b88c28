/* SPDX-License-Identifier: Apache-2.0
 *
 *   drain    STOPPING, listeners close -> each front reports when its last exchange is gone
 *            (drain_timeout: cut) -> idle connections close, fronts go -> memberships, state files
 *            -> loops end -> main.c frees everything in reverse
 *
 * When a new process takes over (SIGUSR2), it keeps the sockets open, and idle clients have half
 * of drain_timeout for one more request: closing a connection just as a POST arrives on it would
 * fail a request that must not be repeated.
 *
 * A stop while starting, and a start that fails, take the same path. Loops post to one another
 * (connections handed over) until the last of them has closed its idle ones, so all of them run
 * until then.
 */
#include <unistd.h>

#include "common/base/log.h"
#include "lb/backends/membership.h"
#include "lb/backends/peers.h"
#include "lb/backends/self_measure.h"
#include "lb/program/lb_parts.h"
#include "lb/request/front.h"

enum {
    /* After a cut: a process that hangs here would block a restart. */
    CUT_TIMEOUT_MS = 5000,
};

/* ---- the end ---- */

static void end_when_closed(struct lb *lb)
{
    if (lb->data_loops == NULL && lb->parts->admin_gone)
        loop_stop(lb->control);
}

static void on_admin_stopped(void *context)
{
    struct lb *lb = context;

    lb->parts->admin_gone = true;
    end_when_closed(lb);
}

static void on_all_closed(void *context)
{
    struct lb *lb = context;

    data_loops_stop(lb);
    if (!lb->parts->admin_gone)
        admin_cut(lb->parts->admin);
    end_when_closed(lb);
}

/* No exchange or connection is left: ends the control side, while loops still take its messages. */
static void on_fronts_closed(void *context)
{
    struct lb *lb = context;
    struct lb_parts *p = lb->parts;

    timer_stop(&p->timer);
    for (size_t i = 0; i < lb->napplications; ++i) {
        membership_stop(lb->applications[i]);
        ejection_stop(lb->applications[i]);
    }
    self_measure_destroy(lb->self_measure);
    lb->self_measure = NULL;
    data_loops_call(lb, NULL, on_all_closed, lb);
}

/* On the loop. */
static void close_front(struct lb_loop *ll, void *context)
{
    struct lb *lb = context;

    for (size_t i = 0; i < lb->napplications; ++i)
        conn_pool_close_loop(lb->applications[i]->conn_pool, ll->loop);
    front_destroy(ll->front);
    ll->front = NULL;
}

/* ---- drain ---- */

/* On the control loop. */
static void on_lb_stop_drained(struct loop_message *m)
{
    struct lb_parts *p = container_of(m, struct lb_parts, drained);

    p->lb->phase = LB_CLOSING;
    p->lb->fronts_up = false;
    admin_stop(p->admin, on_admin_stopped, p->lb);
    data_loops_call(p->lb, close_front, on_fronts_closed, p->lb);
}

/* On the loop. The last one reports it. */
static void on_front_done(void *context)
{
    struct lb *lb = context;

    if (atomic_fetch_sub_explicit(&lb->parts->draining, 1, memory_order_acq_rel) == 1)
        loop_post(lb->control, &lb->parts->drained);
}

static void drain_front(struct lb_loop *ll, void *context)
{
    const struct lb *lb = context;

    front_drain(ll->front, lb->parts->handed_over, on_front_done, context);
}

void lb_cut(struct lb *lb)
{
    struct lb_parts *p = lb->parts;

    if (p->cut || lb->phase != LB_DRAINING)
        return;
    p->cut = true;
    data_loops_call(lb, front_cut, NULL, NULL);
    timer_start(lb->control, &p->timer, CUT_TIMEOUT_MS);
}

static void begin_drain(struct lb *lb, uint64_t timeout_ms)
{
    lb->phase = LB_DRAINING;
    lb->parts->drained.run = on_lb_stop_drained;
    atomic_store_explicit(&lb->parts->draining, lb->nloops, memory_order_relaxed);
    for (size_t i = 0; i < lb->napplications; ++i) {
        if (lb->applications[i]->membership != NULL)
            membership_unregister(lb->applications[i]->membership);
    }
    peers_stop(lb->peers);
    data_loops_call(lb, drain_front, NULL, lb);
    timer_start(lb->control, &lb->parts->timer, timeout_ms);
}

void lb_drain(struct lb *lb)
{
    struct lb_parts *p = lb->parts;

    if (lb->phase >= LB_DRAINING)
        return;
    upgrade_abandon(&p->upgrade);
    daemon_notify("STOPPING=1");
    begin_drain(lb, lb->settings.drain_timeout_ms);
    if (p->listeners != NULL)
        listeners_withdraw(p->listeners);
}

void lb_hand_over(void *context)
{
    struct lb *lb = context;
    struct lb_parts *p = lb->parts;

    ASSERT(lb->phase == LB_SERVING);
    p->handed_over = true;
    p->idle_grace = true;
    self_measure_hand_over(lb->self_measure);
    for (size_t i = 0; i < lb->napplications; ++i)
        membership_hand_over(lb->applications[i]->membership);
    listeners_leave(p->listeners);
    admin_hold(p->admin, true);
    begin_drain(lb, lb->settings.drain_timeout_ms / 2);
}

/* The time of idle clients for one more request is over. */
static void end_idle_grace(struct lb *lb)
{
    struct lb_parts *p = lb->parts;

    p->idle_grace = false;
    data_loops_call(lb, front_shut_idle, NULL, NULL);
    timer_start(lb->control, &p->timer, lb->settings.drain_timeout_ms / 2);
}

void lb_drain_again(struct lb *lb)
{
    struct lb_parts *p = lb->parts;

    /* A service manager that ends both processes has sent it to the new one as well. */
    if (!p->handed_over || p->sigterm_received) {
        lb_cut(lb);
        return;
    }
    p->sigterm_received = true;
    if (p->idle_grace)
        end_idle_grace(lb);
}

void lb_on_drain_timer(struct lb *lb)
{
    /* The last resort: what was learnt is saved, the kernel cleans up the rest. */
    if (lb->parts->cut) {
        log_error(NULL, "stop-timeout", "loops=%u reason=\"aborted requests did not end\"",
                  atomic_load_explicit(&lb->parts->draining, memory_order_relaxed));
        self_measure_destroy(lb->self_measure);
        daemon_exit(lb->parts->exit_code);
    }
    if (lb->parts->idle_grace) {
        end_idle_grace(lb);
        return;
    }
    int64_t requests = 0;
    for (size_t i = 0; i < lb->napplications; ++i)
        requests += stats_sum(lb->applications[i]->stats, APP_STAT_requests_active);
    log_warn(NULL, "drain-timeout", "drain_timeout_ms=%llu requests_cut=%lld",
             (unsigned long long)lb->settings.drain_timeout_ms, (long long)requests);
    lb_cut(lb);
}
