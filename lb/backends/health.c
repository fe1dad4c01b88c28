/* SPDX-License-Identifier: Apache-2.0
 *
 * Passive ejection: a worker that fails several requests in a row receives no requests for a while
 * (ejection_rule.h). A worker to which connections fail receives none until it accepts a
 * connection, which is probed without sending a request. Ejection fails open: the only available
 * worker is not ejected, and a request that finds only ejected workers ends all ejections.
 * Ejections are started by data loops and ended by the control loop.
 *
 *   data loop   failure -> eject_locked() under members_lock -> message to the control loop
 *   control     message -> timer -> available again
 *               message -> timer -> a connection is tried -> available again, or another timer
 *   any thread  no other worker is left -> all are available again, at once -> message
 *
 * A data loop decides alone and at once, so that the requests behind this one do not try the same
 * worker, and so that a request without any other worker can try the ejected ones. The control loop
 * ends an ejection when its time is over, and frees it. An ejection is effective while it is in the
 * application's list. It holds a reference to the worker.
 */
#include "lb/backends/member.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/upstream/http1_client.h"
#include "lb/core/lb.h"
#include "lb/core/route_wait.h"

struct ejection {
    struct list node; /* app->ejections, while effective; under members_lock */
    struct loop_message message;
    bool on_its_way; /* the message is, and frees it if it is over by then; under members_lock */
    bool counted;    /* control thread */
    struct timer timer;
    struct worker *worker; /* counted */
    uint64_t for_ms;
    enum worker_fault why;
    /* Control thread, while it is tried by connecting. */
    uint64_t probe_ms;      /* the next pause; 0: it is not tried */
    uint64_t probe_most_ms; /* those after it */
    struct http1_connect *attempt;
};

static void free_ejection(struct ejection *e)
{
    timer_stop(&e->timer);
    if (e->attempt != NULL)
        http1_connect_cancel(e->attempt);
    worker_unref(e->worker);
    free(e);
}

/* members_lock is held. */
static void end_locked(struct ejection *e, struct list *released)
{
    struct member *m = member_of(e->worker);
    struct application *a = m->app;

    list_remove(&e->node);
    atomic_store_explicit(&m->ejected_until_ms, 0, memory_order_relaxed);
    m->unavailable &= ~(unsigned)MEMBER_EJECTED;
    if (m->joined && m->unavailable == 0) {
        ++a->navailable;
        pool_set_available(a->pool, m->worker, true, released);
    }
}

/* members_lock is held. OVER: messages to be posted once it is not. */
static void end_all_locked(struct application *a, struct list *released, struct list *over)
{
    struct list *it = NULL;
    struct list *tmp = NULL;

    list_for_each_safe (it, tmp, &a->ejections) {
        struct ejection *e = list_entry(it, struct ejection, node);

        end_locked(e, released);
        if (!e->on_its_way) {
            e->on_its_way = true;
            list_push_back(over, &e->message.node);
        }
    }
}

static void post_all(struct application *a, struct list *over)
{
    struct list *node = NULL;

    while ((node = list_pop_front(over)) != NULL)
        loop_post(a->lb->control, list_entry(node, struct loop_message, node));
}

/* Its time is over, or the worker accepts connections. */
static void end(struct ejection *e)
{
    struct application *a = member_of(e->worker)->app;
    struct list released;

    list_init(&released);
    pthread_mutex_lock(&a->members_lock);
    bool in_force = list_linked(&e->node);
    if (in_force) {
        strikes_served(&member_of(e->worker)->strikes);
        end_locked(e, &released);
    }
    pthread_mutex_unlock(&a->members_lock);
    route_wait_wake(&released);
    /* Otherwise the thread that ended it has posted the message. */
    if (in_force)
        free_ejection(e);
}

/* ---- tried by connecting ---- */

static void rest(struct ejection *e)
{
    struct member *m = member_of(e->worker);
    struct loop *l = m->app->lb->control;
    uint64_t pause_ms = e->probe_ms;

    pthread_mutex_lock(&m->app->members_lock);
    bool in_force = list_linked(&e->node);
    if (in_force)
        atomic_store_explicit(&m->ejected_until_ms, loop_now_ms(l) + pause_ms,
                              memory_order_relaxed);
    pthread_mutex_unlock(&m->app->members_lock);
    if (!in_force)
        return;
    timer_start(l, &e->timer, pause_ms);
    e->probe_ms = e->probe_most_ms;
}

static void on_connected(void *context, struct http1_conn *c, enum err failed)
{
    struct ejection *e = context;

    (void)failed;
    e->attempt = NULL;
    if (c == NULL) {
        rest(e);
        return;
    }
    http1_close(c);
    log_info_folded(NULL, "worker-readmitted", "application=%s worker=%s",
                    member_of(e->worker)->app->name, worker_name(e->worker));
    end(e);
}

/* A worker that has left the pool meanwhile reports its return itself. */
static bool is_to_be_tried(struct ejection *e)
{
    struct member *m = member_of(e->worker);

    if (e->probe_ms == 0)
        return false;
    pthread_mutex_lock(&m->app->members_lock);
    bool yes = m->joined && list_linked(&e->node);
    pthread_mutex_unlock(&m->app->members_lock);
    return yes;
}

static void on_timer(struct timer *t)
{
    struct ejection *e = container_of(t, struct ejection, timer);
    struct member *m = member_of(e->worker);

    if (!is_to_be_tried(e)) {
        end(e);
        return;
    }
    e->attempt = http1_connect_tls(m->app->lb->control, &m->addr, m->tls,
                                   m->app->settings->s.connect_timeout_ms, on_connected, e);
}

static void count(struct ejection *e)
{
    struct application *a = member_of(e->worker)->app;

    if (e->counted)
        return;
    e->counted = true;
    stat_add(application_control_stats(a), APP_STAT_ejections, 1);
    log_warn(NULL, "worker-ejected", "application=%s worker=%s for_ms=%llu reason=%s", a->name,
             worker_name(e->worker), (unsigned long long)e->for_ms, worker_fault_text(e->why));
}

/* On the control loop: it has begun, or it is over already. */
static void on_message(struct loop_message *msg)
{
    struct ejection *e = container_of(msg, struct ejection, message);
    struct application *a = member_of(e->worker)->app;

    count(e);
    pthread_mutex_lock(&a->members_lock);
    e->on_its_way = false;
    bool in_force = list_linked(&e->node);
    pthread_mutex_unlock(&a->members_lock);
    if (!in_force) {
        free_ejection(e);
        return;
    }
    if (e->probe_ms != 0)
        rest(e);
    else
        timer_start(a->lb->control, &e->timer, e->for_ms);
    /* Others may have left meanwhile. */
    health_check(a);
}

/* members_lock is held. Those that have left meanwhile are no part of the workers there are. */
static size_t count_out_locked(struct application *a)
{
    struct list *it = NULL;
    size_t n = 0;

    list_for_each (it, &a->ejections)
        n += member_of(list_entry(it, struct ejection, node)->worker)->joined;
    return n;
}

/*
 * members_lock is held. The last available worker is not ejected: no other worker would take its
 * requests.
 */
static bool may_eject_locked(struct member *m, enum worker_fault why)
{
    if (!m->joined || (m->unavailable & MEMBER_EJECTED) != 0)
        return false;
    if (!ejection_fits(&m->app->eject, why, count_out_locked(m->app), m->app->njoined))
        return false;
    return m->unavailable != 0 || m->app->navailable > 1;
}

/* members_lock is held. */
static void eject_locked(struct member *m, uint64_t now_ms, struct ejection *e,
                         struct list *released)
{
    struct application *a = m->app;
    uint64_t until_ms = now_ms + e->for_ms;

    if (m->unavailable == 0) {
        --a->navailable;
        pool_set_available(a->pool, m->worker, false, released);
    }
    m->unavailable |= MEMBER_EJECTED;
    atomic_store_explicit(&m->ejected_why, (unsigned)e->why, memory_order_relaxed);
    atomic_store_explicit(&m->ejected_until_ms, until_ms, memory_order_relaxed);
    list_push_back(&a->ejections, &e->node);
    e->on_its_way = true;
}

static struct ejection *new_ejection(struct member *m, enum worker_fault why, uint64_t for_ms)
{
    struct ejection *e = xcalloc(1, sizeof(*e));

    e->worker = worker_ref(m->worker);
    e->for_ms = for_ms;
    e->why = why;
    e->message.run = on_message;
    timer_init(&e->timer, on_timer);
    return e;
}

/* members_lock is held. The ejection that has begun with this failure, or NULL. */
static struct ejection *fail_locked(struct member *m, enum worker_fault f, uint64_t now_ms,
                                    struct list *released, struct list *over)
{
    struct application *a = m->app;
    uint64_t for_ms = strikes_add(&m->strikes, &a->eject, f);
    uint64_t probe_ms = strikes_probe_ms(&m->strikes, &a->eject, f);

    atomic_store_explicit(&m->struck, true, memory_order_relaxed);
    if (for_ms == 0)
        return NULL;
    /* All that are left fail: those that failed before may do better by now. */
    if (m->unavailable == 0 && a->navailable <= 1)
        end_all_locked(a, released, over);
    if (!may_eject_locked(m, f))
        return NULL;
    struct ejection *e = new_ejection(m, f, for_ms);

    e->probe_ms = probe_ms;
    e->probe_most_ms = 2 * probe_ms < for_ms ? 2 * probe_ms : for_ms;
    eject_locked(m, now_ms, e, released);
    return e;
}

void member_failed(struct member *m, enum worker_fault f, uint64_t now_ms)
{
    struct application *a = m->app;
    struct list released;
    struct list over;

    if (worker_fault_connects(f))
        atomic_fetch_add_explicit(&m->connect_failures, 1, memory_order_relaxed);
    list_init(&released);
    list_init(&over);
    pthread_mutex_lock(&a->members_lock);
    struct ejection *e = fail_locked(m, f, now_ms, &released, &over);
    pthread_mutex_unlock(&a->members_lock);
    route_wait_wake(&released);
    post_all(a, &over);
    if (m->reports != NULL)
        member_report(m, e != NULL || worker_fault_connects(f));
    if (e != NULL)
        loop_post(a->lb->control, &e->message);
}

void member_forgive(struct member *m)
{
    pthread_mutex_lock(&m->app->members_lock);
    strikes_clear(&m->strikes);
    atomic_store_explicit(&m->struck, false, memory_order_relaxed);
    pthread_mutex_unlock(&m->app->members_lock);
}

/* members_lock is held. Whether an ejected worker is none of TRIED. */
static bool any_untried_locked(struct application *a, struct worker *const *tried, size_t ntried)
{
    struct list *it = NULL;

    list_for_each (it, &a->ejections) {
        const struct worker *w = list_entry(it, struct ejection, node)->worker;
        size_t i = 0;

        while (i < ntried && tried[i] != w)
            ++i;
        if (i == ntried)
            return true;
    }
    return false;
}

bool health_fail_open(struct application *a, struct worker *const *tried, size_t ntried)
{
    struct list released;
    struct list over;

    list_init(&released);
    list_init(&over);
    pthread_mutex_lock(&a->members_lock);
    bool any = any_untried_locked(a, tried, ntried);
    if (any)
        end_all_locked(a, &released, &over);
    pthread_mutex_unlock(&a->members_lock);
    route_wait_wake(&released);
    post_all(a, &over);
    return any;
}

void health_check(struct application *a)
{
    struct list released;
    struct list over;

    list_init(&released);
    list_init(&over);
    pthread_mutex_lock(&a->members_lock);
    if (a->navailable == 0)
        end_all_locked(a, &released, &over);
    pthread_mutex_unlock(&a->members_lock);
    route_wait_wake(&released);
    post_all(a, &over);
}

void health_stop(struct application *a)
{
    struct list *it = NULL;
    struct list *tmp = NULL;

    list_for_each_safe (it, tmp, &a->ejections) {
        struct ejection *e = list_entry(it, struct ejection, node);

        list_remove(&e->node);
        if (!e->on_its_way)
            free_ejection(e);
    }
}
