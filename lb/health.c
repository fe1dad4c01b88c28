/* SPDX-License-Identifier: Apache-2.0
 *
 *   data loop   refused -> eject() under members_lock -> message to the control loop
 *   control     message -> timer -> available again
 *
 * A data loop decides alone and at once, so that the requests behind this one do not try the same
 * worker; the control loop only ends it. An ejection holds a reference to the worker.
 */
#include "lb/health.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "lb/lb.h"
#include "lb/member.h"
#include "lb/route_wait.h"

struct ejection {
    struct list node; /* lb->ejections */
    struct loop_message message;
    struct timer timer;
    struct worker *worker; /* counted */
    uint64_t for_ms;
};

static void end(struct ejection *e)
{
    struct member *m = member_of(e->worker);

    timer_stop(&e->timer);
    list_remove(&e->node);
    atomic_store_explicit(&m->ejected_until_ms, 0, memory_order_relaxed);
    member_set_unavailable(m, MEMBER_EJECTED, false);
    worker_unref(e->worker);
    free(e);
}

static void on_timer(struct timer *t)
{
    end(container_of(t, struct ejection, timer));
}

/* On the control loop. */
static void on_ejected(struct loop_message *msg)
{
    struct ejection *e = container_of(msg, struct ejection, message);
    struct member *m = member_of(e->worker);
    struct lb *lb = m->app->lb;

    list_push_back(&lb->ejections, &e->node);
    timer_start(lb->control, &e->timer, e->for_ms);
    stat_add(application_control_stats(m->app), APP_STAT_ejections, 1);
    log_warn(NULL, "worker-ejected", "application=%s worker=%s for_ms=%llu why=refused",
             m->app->name, worker_name(e->worker), (unsigned long long)e->for_ms);
    /* Others may have left meanwhile. */
    health_check(m->app);
}

/* Unless it is the only one available, or ejected already. */
static bool eject(struct member *m, uint64_t until_ms)
{
    struct application *a = m->app;
    struct list released;
    bool done = false;

    list_init(&released);
    pthread_mutex_lock(&a->members_lock);
    bool last = m->unavailable == 0 && a->navailable <= 1;
    if (m->joined && (m->unavailable & MEMBER_EJECTED) == 0 && !last) {
        if (m->unavailable == 0) {
            --a->navailable;
            pool_set_available(a->pool, m->worker, false, &released);
        }
        m->unavailable |= MEMBER_EJECTED;
        atomic_store_explicit(&m->ejected_until_ms, until_ms, memory_order_relaxed);
        done = true;
    }
    pthread_mutex_unlock(&a->members_lock);
    route_wait_wake(&released);
    return done;
}

void member_connect_failed(struct member *m, uint64_t now_ms)
{
    uint64_t for_ms = atomic_load_explicit(&m->app->eject_time_ms, memory_order_relaxed);

    if (for_ms == 0 || !eject(m, now_ms + for_ms))
        return;
    struct ejection *e = xcalloc(1, sizeof(*e));
    e->worker = worker_ref(m->worker);
    e->for_ms = for_ms;
    e->message.run = on_ejected;
    timer_init(&e->timer, on_timer);
    loop_post(m->app->lb->control, &e->message);
}

void health_check(struct application *a)
{
    struct list *it = NULL;
    struct list *tmp = NULL;

    pthread_mutex_lock(&a->members_lock);
    bool none = a->navailable == 0;
    pthread_mutex_unlock(&a->members_lock);
    if (!none)
        return;
    list_for_each_safe (it, tmp, &a->lb->ejections) {
        struct ejection *e = list_entry(it, struct ejection, node);

        if (member_of(e->worker)->app == a)
            end(e);
    }
}

void health_stop(struct lb *lb)
{
    struct list *it = NULL;
    struct list *tmp = NULL;

    list_for_each_safe (it, tmp, &lb->ejections)
        end(list_entry(it, struct ejection, node));
}
