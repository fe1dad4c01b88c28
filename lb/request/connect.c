/* SPDX-License-Identifier: Apache-2.0
 *
 * ROUTE and CONNECT: from a class to a leased connection.
 *
 *   exchange_route -> pick --(parked)--> on_woken -> pick again
 *                      |
 *   exchange_connect <-+      an idle connection -----------------> exchange_forward
 *         |                   queued -----> on_conn_ready --------> exchange_forward
 *         +-------------------permission -> open -> on_connected -> exchange_forward
 *
 * A worker that is over its limits or accepts no connection is excluded, and another one is picked.
 * Neither counts as one of `retries`: the worker has not received a byte. At most TRIED_MAX workers
 * are excluded. If all have rejected it, being full, the exchange waits and tries them again
 * (route_wait.h), for at most worker_wait_timeout.
 */
#include "lb/request/exchange.h"

#include "common/base/log.h"

enum {
    /*
     * Maximum time a request is queued if no worker rejected it for being full, but all of them
     * failed it. Within this time the agent of a worker with a dead process has reported that, and
     * the worker is gone or replaced. Otherwise the worker is alive, and fails such requests.
     */
    FAILED_WAIT_MS = 250,
};

static void pick_worker(struct exchange *x);

/* Queues X, for at most MOST_MS. */
static noinline_ void begin_wait(struct exchange *x, enum exchange_wait wait, uint64_t most_ms)
{
    x->wait = wait;
    x->has_waited = true;
    stat_add(x->al->stats,
             wait == WAIT_CONNECTION ? APP_STAT_connection_waiting : APP_STAT_requests_waiting, 1);
    /* Applies once per worker, even if several of its connections turn out to be closed. */
    if (!timer_running(&x->waits.timer))
        timer_start(x->lb_loop->loop, &x->waits.timer, most_ms);
}

/* No effect if X is in no queue. For a connection, the time-out continues. */
static void end_wait(struct exchange *x)
{
    enum exchange_wait wait = x->wait;

    if (wait == WAIT_NONE)
        return;
    x->wait = WAIT_NONE;
    stat_add(x->al->stats,
             wait == WAIT_CONNECTION ? APP_STAT_connection_waiting : APP_STAT_requests_waiting, -1);
    if (wait != WAIT_CONNECTION)
        timer_stop(&x->waits.timer);
    if (wait == WAIT_REJECTED)
        rejected_queue_leave(&x->al->rejected, &x->waits.rejected);
}

void exchange_reroute(struct exchange *x, enum outcome why)
{
    exchange_exclude(x, why, true);
    if (x->nbarred == TRIED_MAX)
        exchange_fail(x, why);
    else
        exchange_route(x);
}

/* ---- ROUTE: requests that all workers reject ---- */

/* All workers have been tried: waits, or fails the request. */
static cold_ void queue_rejected(struct exchange *x)
{
    bool again = x->waits.rejected_since_ms != 0;
    uint64_t now_ms = loop_active_ms(x->lb_loop->loop);
    uint64_t most_ms = exchange_settings(x)->worker_wait_timeout_ms;

    if (x->ntried == x->nbarred && (!x->may_return || most_ms > FAILED_WAIT_MS))
        most_ms = x->may_return ? FAILED_WAIT_MS : 0;
    x->has_waited = true;
    if (!again)
        x->waits.rejected_since_ms = now_ms;
    /* The time counts from the first wait. */
    uint64_t waited_ms = now_ms - x->waits.rejected_since_ms;
    if (waited_ms >= most_ms)
        exchange_fail(x, x->failure);
    else if (!rejected_queue_join(&x->al->rejected, &x->waits.rejected,
                                  (size_t)exchange_settings(x)->worker_wait_max, again))
        exchange_fail(x, OUTCOME_WAIT_QUEUE_FULL);
    else
        begin_wait(x, WAIT_REJECTED, most_ms - waited_ms);
}

/* Routes X again, also to workers that were excluded for a time. */
static cold_ void pick_of_all(struct exchange *x)
{
    while (x->ntried > x->nbarred)
        worker_unref(x->tried[--x->ntried]);
    pick_worker(x);
}

static void on_rejected_go(struct rejected_wait *w)
{
    struct exchange *x = container_of(w, struct exchange, waits.rejected);

    ASSERT(x->step == STEP_ROUTE);
    end_wait(x);
    pick_of_all(x);
}

void exchange_reroute_rejected(struct exchange *x, enum outcome why)
{
    exchange_exclude(x, why, false);
    if (x->ntried != TRIED_MAX) {
        exchange_route(x);
        return;
    }
    exchange_enter(x, STEP_ROUTE);
    queue_rejected(x);
}

/* ---- ROUTE ---- */

/* For pool_get() with an upgrade request: returns true if W has its maximum number of tunnels. */
static bool is_full_of_tunnels(void *context, const struct worker *w)
{
    struct exchange *x = context;
    bool full = !tunnel_limit_has_room(&member_of(w)->tunnels);

    x->tunnels_full = x->tunnels_full || full;
    return full;
}

/* pool_get() has failed with E: waits, or fails the request with the outcome of the last attempt,
 * or with that of E if there was none. */
static cold_ void no_worker(struct exchange *x, enum err e)
{
    enum outcome o = e == ERR_QUEUE_FULL ? OUTCOME_WAIT_QUEUE_FULL : OUTCOME_NO_WORKER;

    if (x->tunnels_full && e == ERR_NO_WORKER)
        o = x->failure = OUTCOME_TUNNELS_FULL;
    if (e == ERR_NO_WORKER && x->may_repeat) {
        x->may_repeat = false;
        pick_of_all(x);
    } else if (e == ERR_NO_WORKER && x->ntried != 0) {
        queue_rejected(x);
    } else {
        exchange_fail(x, x->ntried != 0 || x->waits.rejected_since_ms != 0 ? x->failure : o);
    }
}

/* Returns true if X may probe an ejected worker, and one is to be probed: losing X costs nothing
 * but time, as it is repeated at another worker. */
static inline bool may_probe(const struct exchange *x)
{
    return atomic_load_explicit(&x->app->noffered, memory_order_relaxed) != 0 && x->safe &&
           !x->websocket && x->picks == 0 && x->wait == WAIT_NONE &&
           exchange_settings(x)->retries != 0;
}

static void pick_worker(struct exchange *x)
{
    struct list released;
    enum err e = ERR_NO_WORKER;
    struct pool_request r = {
        .cls = x->cls,
        .cls_hash = x->cls_hash,
        .excluded = x->tried,
        .nexcluded = x->ntried,
        .retry = x->picks != 0,
        .released = &released,
    };

    /* A waiting request must pass its waiter, even if waiting has been switched off meanwhile. */
    if (x->wait == WAIT_WORKER || exchange_settings(x)->worker_wait_timeout_ms != 0)
        r.waiter = &x->waits.route.waiter;
    if (x->websocket) {
        x->tunnels_full = false;
        r.unfit = is_full_of_tunnels;
        r.unfit_context = x;
    }
    list_init(&released);
    if (may_probe(x) && member_probe(x->app, loop_now_us(x->lb_loop->loop), &x->pick))
        e = ERR_OK;
    else
        e = pool_get(x->app->pool, &r, loop_now_us(x->lb_loop->loop), &x->pick);
    /* A worker that just rejected a request is better than none, unless only tunnels are full. */
    if (e == ERR_NO_WORKER && !x->tunnels_full && ejection_fail_open(x->app, x->tried, x->ntried))
        e = pool_get(x->app->pool, &r, loop_now_us(x->lb_loop->loop), &x->pick);

    route_wait_wake(&released);
    if (e == ERR_BUSY) {
        /* If it was released in vain, the time-out of the wait continues. */
        if (x->wait != WAIT_WORKER)
            begin_wait(x, WAIT_WORKER, exchange_settings(x)->worker_wait_timeout_ms);
        return;
    }
    end_wait(x);
    if (e != ERR_OK) {
        no_worker(x, e);
        return;
    }
    x->member = member_of(x->pick.worker);
    x->served = (struct pool_served){.failed = true};
    ++x->picks;
    x->fresh = x->left_over;
    if (x->last != NULL) {
        worker_unref(x->last);
        stat_add(x->al->stats, APP_STAT_retries, x->retry_due);
        x->retry_due = false;
    }
    x->last = x->pick.worker;
    exchange_connect(x);
}

static void on_woken(struct route_wait *w)
{
    struct exchange *x = container_of(w, struct exchange, waits.route);

    ASSERT(x->step == STEP_ROUTE);
    pick_worker(x);
}

void exchange_route(struct exchange *x)
{
    exchange_enter(x, STEP_ROUTE);
    pick_worker(x);
}

/* ---- CONNECT ---- */

static void on_worker_connected(void *context, struct http1_client_conn *c, enum err e);

/* Returns true if X must not be repeated and therefore gets a new connection: an idle one may
 * close while the request is sent. */
static inline bool must_be_fresh(const struct exchange *x)
{
    return !x->safe && (exchange_settings(x)->unsafe_reuse_idle_ms == 0 ||
                        conn_is_restricted(x->member->backend, loop_now_ms(x->lb_loop->loop)));
}

/* Continues according to RESULT, that of conn_checkout(). */
static void on_checkout(struct exchange *x, enum conn_result result)
{
    switch (result) {
    case CONN_REUSED:
        x->http = http1_client_of_pooled(x->waits.conn.conn);
        stat_add(x->al->stats, APP_STAT_connections_reused, 1);
        exchange_forward(x);
        return;
    case CONN_OPEN:
        x->has_waited = true;
        x->attempt_us = loop_now_us(x->lb_loop->loop);
        x->waits.attempt = http1_client_connect_tls(
            x->lb_loop->loop, &x->member->addr, x->member->tls, x->member->backend,
            exchange_settings(x)->connect_timeout_ms, on_worker_connected, x);
        return;
    case CONN_WAIT:
        begin_wait(x, WAIT_CONNECTION, exchange_settings(x)->connection_wait_timeout_ms);
        return;
    case CONN_REJECTED:
        /* The queue is full, or the worker's instance was replaced. */
        exchange_reroute(x, x->waits.conn.error == ERR_QUEUE_FULL ? OUTCOME_WORKERS_BUSY
                                                                  : OUTCOME_NO_WORKER);
        return;
    }
}

static void checkout_connection(struct exchange *x)
{
    uint64_t unsafe_idle_ms = exchange_settings(x)->unsafe_reuse_idle_ms;
    struct conn_checkout o = {
        .fresh = x->fresh || must_be_fresh(x),
        .max_idle_ms = x->safe ? 0 : unsafe_idle_ms,
    };

    on_checkout(x, conn_checkout(x->member->backend, x->lb_loop->loop, &o, &x->waits.conn));
}

static void on_conn_ready(struct conn_waiter *w)
{
    struct exchange *x = container_of(w, struct exchange, waits.conn);

    end_wait(x);
    /* The pool has not validated connections that were moved to this loop. */
    if (w->result != CONN_REUSED || (!must_be_fresh(x) && http1_client_pool_ops.alive(w->conn))) {
        on_checkout(x, w->result);
        return;
    }
    struct http1_client_conn *dead = http1_client_of_pooled(w->conn);
    http1_client_close(&dead);
    x->fresh = true;
    checkout_connection(x);
}

static void on_worker_connected(void *context, struct http1_client_conn *c, enum err e)
{
    struct exchange *x = context;

    x->waits.attempt = NULL;
    if (c != NULL) {
        bool resumed;

        stat_add(x->al->stats, APP_STAT_connects, 1);
        stat_observe(x->al->stats, APP_STAT_connect_us,
                     loop_now_us(x->lb_loop->loop) - x->attempt_us);
        if (http1_client_is_tls(c, &resumed)) {
            stat_add(x->al->stats, APP_STAT_worker_tls_connects, 1);
            stat_add(x->al->stats, APP_STAT_worker_tls_resumed, resumed);
        }
        x->http = c;
        exchange_forward(x);
        return;
    }
    stat_add(x->al->stats, APP_STAT_connect_failures, 1);
    stat_add(x->al->stats, APP_STAT_worker_tls_failures, e == ERR_TLS_FAILED);
    if (e == ERR_CONNECT_TIMEOUT)
        log_warn(NULL, "connect-failed",
                 "application=%s worker=%s reason=\"%s\" setting=connect_timeout", x->app->name,
                 worker_name(x->member->worker), err_text(e));
    else
        log_warn(NULL, "connect-failed", "application=%s worker=%s reason=\"%s\"", x->app->name,
                 worker_name(x->member->worker), err_text(e));
    /* Out of descriptors: another worker would not help. An idle connection is closed; if by
     * another loop, the request is queued like those that all workers reject. */
    if (e == ERR_SYSTEM && conn_pool_make_room(x->app->conn_pool, x->lb_loop->loop)) {
        checkout_connection(x);
        return;
    }
    if (e == ERR_SYSTEM) {
        exchange_exclude(x, OUTCOME_CONNECT_FAILED, false);
        exchange_enter(x, STEP_ROUTE);
        queue_rejected(x);
        return;
    }
    enum worker_fault fault = e == ERR_TLS_FAILED ? FAULT_TLS : FAULT_REFUSED;
    if (e == ERR_CONNECT_TIMEOUT)
        fault = FAULT_CONNECT_TIMEOUT;
    member_failed(x->member, fault, loop_now_ms(x->lb_loop->loop));
    x->may_return = x->may_return || member_may_return(x->member);
    exchange_reroute(x, OUTCOME_CONNECT_FAILED);
}

void exchange_connect(struct exchange *x)
{
    exchange_enter(x, STEP_CONNECT);
    /* One tunnel of the worker, even if several connections to it are tried. */
    if (x->websocket && !x->tunnel_counted)
        x->tunnel_counted = tunnel_limit_acquire(&x->member->tunnels);
    if (x->websocket && !x->tunnel_counted)
        exchange_reroute(x, OUTCOME_TUNNELS_FULL);
    else
        checkout_connection(x);
}

/* ---- both ---- */

static void on_wait_timeout(struct timer *t)
{
    struct exchange *x = container_of(t, struct exchange, waits.timer);

    if (x->wait == WAIT_CONNECTION) {
        exchange_reroute(x, OUTCOME_WORKERS_BUSY);
    } else if (x->wait != WAIT_NONE) {
        exchange_stop_waiting(x);
        no_worker(x, ERR_BUSY);
    }
}

static void on_settled(struct route_wait *w)
{
    struct exchange *x = container_of(w, struct exchange, waits.route);

    /* The client may still be receiving the response that was sent instead. Not linked: while a
     * wake-up is owed, exchange_account() leaves it to this. */
    if (x->step == STEP_ACCOUNT)
        loop_defer(x->lb_loop->loop, &x->deferred);
}

void exchange_make_waits(struct exchange *x)
{
    x->waits = (struct exchange_waits){
        .conn.ready = on_conn_ready,
        .rejected.go_on = on_rejected_go,
    };
    timer_init(&x->waits.timer, on_wait_timeout);
    route_wait_init(&x->waits.route, x->lb_loop->loop);
    x->waits.route.woken = on_woken;
    x->waits.route.settled = on_settled;
}

void exchange_leave_queues_(struct exchange *x)
{
    enum exchange_wait wait = x->wait;

    timer_stop(&x->waits.timer);
    end_wait(x);
    if (wait == WAIT_WORKER)
        route_wait_cancel(&x->waits.route, x->app->pool);
    else if (wait == WAIT_CONNECTION)
        conn_cancel(&x->waits.conn);
    http1_client_connect_cancel(&x->waits.attempt);
}
