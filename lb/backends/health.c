/* SPDX-License-Identifier: Apache-2.0
 *
 * Passive ejection: a worker that fails several requests in a row receives no requests for a while
 * (ejection_rule.h). A worker to which connections fail receives none until it accepts a
 * connection, which is probed without sending a request. Ejection fails open: the only available
 * worker is not ejected, and a request that finds only ejected workers ends all ejections.
 * Ejections are started by data loops and ended by the control loop.
 *
 *   data loop   failure -> fail_locked() under members_lock -> message to the control loop
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
static void end_locked(struct ejection *e, struct member_change *c)
{
    struct member *m = member_of(e->worker);

    list_remove(&e->node);
    atomic_store_explicit(&m->ejected_until_ms, 0, memory_order_relaxed);
    member_set_unavailable_locked(m, MEMBER_EJECTED, false, c);
}

/* members_lock is held. */
static void end_all_locked(struct application *a, struct member_change *c)
{
    struct list *it = NULL;
    struct list *tmp = NULL;

    list_for_each_safe (it, tmp, &a->ejections) {
        struct ejection *e = list_entry(it, struct ejection, node);

        end_locked(e, c);
        if (!e->on_its_way) {
            e->on_its_way = true;
            list_push_back(&c->over, &e->message.node);
        }
    }
}

/* Its time is over, or the worker accepts connections. */
static void end(struct ejection *e)
{
    struct application *a = member_of(e->worker)->app;
    struct member_change c;

    member_change_begin(a, &c);
    bool in_force = list_linked(&e->node);
    if (in_force) {
        strikes_served(&member_of(e->worker)->strikes);
        end_locked(e, &c);
    }
    member_change_end(a, &c);
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

/*
 * members_lock is held. The last available worker is not ejected: no other worker would take its
 * requests.
 */
static bool may_eject_locked(struct member *m, enum worker_fault why)
{
    struct list *it = NULL;
    size_t out = 0; /* without those that have left meanwhile: they are not among `njoined` */

    if (!m->joined || (m->unavailable & MEMBER_EJECTED) != 0)
        return false;
    list_for_each (it, &m->app->ejections)
        out += member_of(list_entry(it, struct ejection, node)->worker)->joined;
    return ejection_fits(&m->app->eject, why, out, m->app->njoined) &&
           (m->unavailable != 0 || m->app->navailable > 1);
}

/* members_lock is held. The ejection that has begun with this failure, or NULL. */
static struct ejection *fail_locked(struct member *m, enum worker_fault f, uint64_t now_ms,
                                    struct member_change *c)
{
    struct application *a = m->app;
    uint64_t for_ms = strikes_add(&m->strikes, &a->eject, f);
    uint64_t probe_ms = strikes_probe_ms(&m->strikes, &a->eject, f);

    atomic_store_explicit(&m->struck, true, memory_order_relaxed);
    if (for_ms == 0)
        return NULL;
    /* All that are left fail: those that failed before may do better by now. */
    if (m->unavailable == 0 && a->navailable <= 1)
        end_all_locked(a, c);
    if (!may_eject_locked(m, f))
        return NULL;
    struct ejection *e = xcalloc(1, sizeof(*e));

    *e = (struct ejection){.message.run = on_message,
                           .on_its_way = true,
                           .worker = worker_ref(m->worker),
                           .for_ms = for_ms,
                           .why = f,
                           .probe_ms = probe_ms,
                           .probe_most_ms = 2 * probe_ms < for_ms ? 2 * probe_ms : for_ms};
    timer_init(&e->timer, on_timer);
    list_push_back(&a->ejections, &e->node);
    member_set_unavailable_locked(m, MEMBER_EJECTED, true, c);
    atomic_store_explicit(&m->ejected_why, (unsigned)f, memory_order_relaxed);
    atomic_store_explicit(&m->ejected_until_ms, now_ms + for_ms, memory_order_relaxed);
    return e;
}

void member_failed(struct member *m, enum worker_fault f, uint64_t now_ms)
{
    struct application *a = m->app;
    struct member_change c;

    if (worker_fault_connects(f))
        atomic_fetch_add_explicit(&m->connect_failures, 1, memory_order_relaxed);
    member_change_begin(a, &c);
    struct ejection *e = fail_locked(m, f, now_ms, &c);
    member_change_end(a, &c);
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
    struct member_change c;

    member_change_begin(a, &c);
    bool any = any_untried_locked(a, tried, ntried);
    if (any)
        end_all_locked(a, &c);
    member_change_end(a, &c);
    return any;
}

void health_check(struct application *a)
{
    struct member_change c;

    member_change_begin(a, &c);
    if (a->navailable == 0)
        end_all_locked(a, &c);
    member_change_end(a, &c);
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
