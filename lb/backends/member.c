/* SPDX-License-Identifier: Apache-2.0
 *
 * Several threads change whether a member is in the pool and available (a data loop ejects it, the
 * control thread does the rest). Changes must reach the pool in the order in which they are
 * recorded: each is made under app->members_lock, which is held during the call of the pool. Lock
 * order: meter_lock, app->members_lock, the pool's lock.
 */
#include "lb/backends/member.h"

#include <limits.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/upstream/http_fetch.h"
#include "lb/backends/active_check.h"
#include "lb/core/lb.h"
#include "lb/core/route_wait.h"

static unsigned connections_of(const struct member *m, const struct app_settings *s)
{
    uint64_t all = (uint64_t)(m->max_connections >= 0 ? m->max_connections : s->max_connections);

    /* Rounded up: 0 would be no limit. */
    return (unsigned)((all * (uint64_t)m->share + MEMBER_SHARE_ALL - 1) / MEMBER_SHARE_ALL);
}

/*
 * For a worker without an agent, only max_connections shows that it serves one request at a time:
 * its concurrency is 1 unless it is set.
 */
static void apply_limits(struct member *m, const struct app_settings *s)
{
    bool one = connections_of(m, s) == 1 || (m->has_feed && m->concurrency == 1);

    atomic_store_explicit(&m->serves_one, one, memory_order_relaxed);
    tunnel_limit_set(&m->tunnels,
                     (unsigned)(m->max_tunnels >= 0 ? m->max_tunnels : s->max_tunnels));
}

static struct conn_pool_settings conn_settings(const struct app_settings *s)
{
    return (struct conn_pool_settings){.idle_timeout_ms = s->idle_connection_timeout_ms,
                                       .max_waiting = (size_t)s->max_connection_waiting};
}

struct meter_settings member_meter_settings(const struct app_settings *s)
{
    return (struct meter_settings){.history = (uint64_t)s->history,
                                   .max_skill_age = (uint64_t)s->max_skill_age,
                                   .max_classes = (size_t)s->max_skills};
}

/* With the worker's last reference; any thread. */
static void member_release(void *context)
{
    struct member *m = context;

    conn_backend_release(m->backend);
    tls_peer_unref(m->tls);
    meter_destroy(m->meter);
    home_records_destroy(m->homes);
    state_file_fini(&m->measured.file);
    free(m);
}

/* On the control thread. */
static void on_report(struct loop_message *msg)
{
    struct member *m = container_of(msg, struct member, report);

    /* First: what is certain from here on is posted again. */
    atomic_store(&m->reporting, false);
    member_report(m, atomic_exchange(&m->certain, false));
    worker_unref(m->worker);
}

struct worker *member_create(const char *name, const char *instance, const char *version,
                             const struct member *from)
{
    const struct app_settings *s = &from->app->settings->s;
    struct conn_pool_settings cs = conn_settings(s);
    struct member *m = xcalloc(1, sizeof(*m));

    *m = *from;
    if (m->tls != NULL)
        tls_peer_ref(m->tls);
    m->concurrency = m->concurrency > 0 ? m->concurrency : 1;
    m->share = m->share > 0 ? m->share : MEMBER_SHARE_ALL;
    m->report.run = on_report;
    apply_limits(m, s);
    snprintf(m->version, sizeof(m->version), "%s", version);
    m->backend = conn_pool_backend(m->app->conn_pool, slice_of(name), slice_of(instance),
                                   connections_of(m, s), &cs);
    if (!m->has_feed) {
        struct meter_settings ms = member_meter_settings(s);

        m->meter = meter_create(&ms);
        if (m->app->lb->peers != NULL)
            m->homes = home_records_create((size_t)s->max_skills);
    }
    m->worker = worker_create(&(struct worker_options){.name = slice_of(name),
                                                       .instance = slice_of(instance),
                                                       .concurrency = m->concurrency,
                                                       .context = m,
                                                       .context_release = member_release});
    return m->worker;
}

/* A change of which members are in the pool, and available there; under members_lock. */
struct members_change {
    struct list released; /* waiting requests that may continue */
    struct list over;     /* ejections that are over, or were probed, by their message.node */
};

static void member_begin(struct application *a, struct members_change *c)
{
    list_init(&c->released);
    list_init(&c->over);
    pthread_mutex_lock(&a->members_lock);
}

/* Unlocks, and then notifies. */
static void member_end(struct application *a, struct members_change *c)
{
    struct loop_message *m;

    pthread_mutex_unlock(&a->members_lock);
    route_wait_wake(&c->released);
    while ((m = list_pop_entry(&c->over, struct loop_message, node)) != NULL)
        loop_post(a->lb->control, m);
}

/* ---- priorities ---- */

static void lose_available_locked(struct application *a, struct members_change *c);

/* A reason not to pick M begins or ends. */
static void set_unavailable_locked(struct member *m, enum member_unavailable why, bool on,
                                   struct members_change *c)
{
    struct application *a = m->app;
    bool before = m->unavailable == 0;

    m->unavailable = on ? m->unavailable | (unsigned)why : m->unavailable & ~(unsigned)why;
    bool after = m->unavailable == 0;
    if (!m->joined || before == after)
        return;
    pool_set_available(a->pool, m->worker, after, &c->released);
    if (after)
        ++a->navailable;
    else
        lose_available_locked(a, c);
}

static bool is_tried(const struct member *m, struct worker *const *tried, size_t ntried)
{
    while (ntried > 0) {
        if (tried[--ntried] == m->worker)
            return true;
    }
    return false;
}

/* The workers in reserve are those above the lowest priority number of which any other than those
 * in TRIED would be available; none if there is no such number. */
static void update_reserve_locked(struct application *a, struct worker *const *tried, size_t ntried,
                                  struct members_change *c)
{
    unsigned best = UINT_MAX;
    struct member *m;

    list_for_each_entry (m, &a->members, node) {
        if ((m->unavailable & ~(unsigned)MEMBER_RESERVE) == 0 && m->priority < best &&
            !is_tried(m, tried, ntried))
            best = m->priority;
    }
    a->best_priority = best;
    /* In this order, some worker is available all the time. */
    for (int on = 0; on <= 1; ++on) {
        list_for_each_entry (m, &a->members, node) {
            if ((m->priority > best) == (on != 0))
                set_unavailable_locked(m, MEMBER_RESERVE, on != 0, c);
        }
    }
}

static void lose_available_locked(struct application *a, struct members_change *c)
{
    if (--a->navailable == 0 && a->tiered)
        update_reserve_locked(a, NULL, 0, c);
}

/* Whether a worker in reserve could be used. */
static bool spare_locked(const struct application *a)
{
    const struct member *m;

    if (!a->tiered)
        return false;
    list_for_each_entry (m, &a->members, node) {
        if (m->unavailable == MEMBER_RESERVE)
            return true;
    }
    return false;
}

void member_update_reserve(struct application *a)
{
    const struct member *m;
    struct members_change c;

    member_begin(a, &c);
    a->tiered = false;
    list_for_each_entry (m, &a->members, node)
        a->tiered = a->tiered || m->priority != 0;
    update_reserve_locked(a, NULL, 0, &c);
    member_end(a, &c);
}

void member_set_priority(struct member *m, unsigned priority)
{
    if (m->priority == priority)
        return;
    pthread_mutex_lock(&m->app->members_lock);
    m->priority = priority;
    pthread_mutex_unlock(&m->app->members_lock);
    member_update_reserve(m->app);
}

bool member_in_reserve(const struct member *m)
{
    pthread_mutex_lock(&m->app->members_lock);
    bool in = (m->unavailable & MEMBER_RESERVE) != 0;
    pthread_mutex_unlock(&m->app->members_lock);
    return in;
}

/* ---- in the pool ---- */

void member_resume(struct member *m, const struct resume *r, const char *version,
                   const char *fingerprint)
{
    struct application *a = m->app;
    struct members_change c;

    member_begin(a, &c);
    bool first = !m->joined;
    m->joined = true;
    if (first) {
        ++a->njoined;
        a->navailable += m->unavailable == 0;
        list_push_back(&a->members, &m->node);
    }
    pool_new_resume(a->pool, m->worker, r, version, fingerprint, &c.released);
    if (first && m->unavailable != 0)
        pool_set_available(a->pool, m->worker, false, &c.released);
    a->tiered = a->tiered || m->priority != 0;
    if (first && a->tiered && m->priority > a->best_priority)
        set_unavailable_locked(m, MEMBER_RESERVE, true, &c);
    else if (first && a->tiered && m->priority < a->best_priority)
        update_reserve_locked(a, NULL, 0, &c);
    member_end(a, &c);
}

void member_leave(struct member *m)
{
    struct application *a = m->app;
    struct members_change c;

    member_begin(a, &c);
    bool joined = m->joined;
    m->joined = false;
    list_remove(&m->node);
    pool_remove(a->pool, m->worker, &c.released);
    a->njoined -= joined;
    if (joined && m->unavailable == 0)
        lose_available_locked(a, &c);
    member_end(a, &c);
    ejection_check(a);
}

bool member_set_unavailable(struct member *m, enum member_unavailable why, bool on)
{
    struct members_change c;

    member_begin(m->app, &c);
    unsigned before = m->unavailable;
    set_unavailable_locked(m, why, on, &c);
    bool changed = m->unavailable != before;
    member_end(m->app, &c);
    return changed;
}

void member_settings_changed(struct member *m)
{
    const struct app_settings *s = &m->app->settings->s;
    struct conn_pool_settings cs = conn_settings(s);

    apply_limits(m, s);
    conn_backend_set(m->backend, connections_of(m, s), &cs);
    if (m->meter != NULL) {
        struct meter_settings ms = member_meter_settings(s);

        latch_lock(&m->meter_lock);
        meter_set(m->meter, &ms);
        latch_unlock(&m->meter_lock);
    }
}

/* ---- records for peers ---- */

void member_housed(struct member *m, struct slice cls, const struct home_report *r)
{
    latch_lock(&m->homes_lock);
    home_records_use(m->homes, cls, r->kind, r->from, clock_mono_us());
    latch_unlock(&m->homes_lock);
}

void member_home_served(struct member *m, struct slice cls, uint64_t service_us)
{
    latch_lock(&m->homes_lock);
    uint64_t now_us = clock_mono_us();
    home_records_use(m->homes, cls, HOME_USED, SLICE_NULL, now_us);
    home_records_served(m->homes, cls, service_us, now_us);
    latch_unlock(&m->homes_lock);
}

/*
 * ---- ejection ----
 *
 * Passive ejection: a worker that fails several requests in a row receives no requests until it
 * passes a probe (ejection_rule.h): it accepts a connection, passes a health check, or responds to
 * a client's GET. If no GET arrives, or it is not probed, its ejection ends after its time.
 * Ejection fails open: the only available worker is not ejected, and a request that finds only
 * ejected workers ends all ejections. Ejections are started by data loops and ended by the control
 * loop, except by a probe.
 *
 *   data loop   failure -> fail_locked() under members_lock -> message to the control loop
 *   control     message -> timer -> available again
 *               message -> timer -> it is probed -> available again, or another timer
 *               message -> timer -> the next GET may probe it -> timer -> available again
 *   data loop   the GET probes it -> available again -> message; or message -> timer
 *   any thread  no other worker is left -> all are available again, at once -> message
 *
 * A data loop decides alone and at once, so that the requests behind this one do not try the same
 * worker, and so that a request without any other worker can try the ejected ones. The control loop
 * ends an ejection when its time is over, and frees it. An ejection is effective while it is in the
 * application's list. It holds a reference to the worker.
 */

/* Of a probe by a request; under members_lock. */
enum request_probe { PROBE_PAUSED, PROBE_OFFERED, PROBE_TAKEN };

struct ejection {
    struct list node; /* app->ejections, while effective; under members_lock */
    struct loop_message message;
    bool in_flight; /* the message is, and frees it if it has ended by then; under members_lock */
    bool counted;   /* control thread */
    struct timer timer;
    struct worker *worker; /* counted */
    uint64_t for_ms;
    enum worker_fault why;
    enum worker_probe how;
    enum request_probe request;
    bool passed; /* a request has; under members_lock */
    /* Control thread. */
    uint64_t probe_ms;      /* the next pause; 0: it is not probed */
    uint64_t probe_then_ms; /* those after it */
    struct http_fetch fetch;
};

static void free_ejection(struct ejection *e)
{
    timer_stop(&e->timer);
    http_fetch_stop(&e->fetch);
    worker_unref(e->worker);
    free(e);
}

static void set_request_locked(struct ejection *e, enum request_probe to)
{
    struct application *a = member_of(e->worker)->app;

    if (to == PROBE_OFFERED)
        atomic_fetch_add_explicit(&a->noffered, 1, memory_order_relaxed);
    else if (e->request == PROBE_OFFERED)
        atomic_fetch_sub_explicit(&a->noffered, 1, memory_order_relaxed);
    e->request = to;
}

/* Posts the message of E, once MEMBER_END has unlocked. */
static void notify_locked(struct ejection *e, struct members_change *c)
{
    if (e->in_flight)
        return;
    e->in_flight = true;
    list_push_back(&c->over, &e->message.node);
}

static void end_locked(struct ejection *e, struct members_change *c)
{
    struct member *m = member_of(e->worker);

    set_request_locked(e, PROBE_PAUSED);
    list_remove(&e->node);
    atomic_store_explicit(&m->ejected_until_ms, 0, memory_order_relaxed);
    set_unavailable_locked(m, MEMBER_EJECTED, false, c);
}

static void end_all_locked(struct application *a, struct members_change *c)
{
    while (!list_empty(&a->ejections)) {
        struct ejection *e = list_first(&a->ejections, struct ejection, node);

        end_locked(e, c);
        notify_locked(e, c);
    }
}

/* Its time is over, or the worker has passed a probe. */
static void end_ejection(struct ejection *e)
{
    struct application *a = member_of(e->worker)->app;
    struct members_change c;

    member_begin(a, &c);
    bool effective = list_linked(&e->node);
    if (effective) {
        failure_record_served(&member_of(e->worker)->failed);
        end_locked(e, &c);
    }
    member_end(a, &c);
    /* Otherwise the thread that ended it has posted the message. */
    if (effective)
        free_ejection(e);
}

/* ---- probing ---- */

static void pause_probe(struct ejection *e)
{
    struct member *m = member_of(e->worker);
    struct loop *l = m->app->lb->control;
    uint64_t pause_ms = e->probe_ms;

    pthread_mutex_lock(&m->app->members_lock);
    bool effective = list_linked(&e->node);
    if (effective)
        atomic_store_explicit(&m->ejected_until_ms, loop_now_ms(l) + pause_ms,
                              memory_order_relaxed);
    pthread_mutex_unlock(&m->app->members_lock);
    if (!effective)
        return;
    timer_start(l, &e->timer, pause_ms);
    e->probe_ms = e->probe_then_ms;
}

static void log_readmitted(const struct ejection *e)
{
    log_info_folded(NULL, "worker-readmitted", "application=%s worker=%s",
                    member_of(e->worker)->app->name, worker_name(e->worker));
}

static void on_probe_done(struct http_fetch *f, enum err failed)
{
    struct ejection *e = container_of(f, struct ejection, fetch);
    const struct application *a = member_of(e->worker)->app;

    if (e->how == PROBE_CHECK ? !active_check_passes(a, failed, f->status) : failed != ERR_OK) {
        pause_probe(e);
        return;
    }
    log_readmitted(e);
    end_ejection(e);
}

static void start_probe(struct ejection *e)
{
    static const struct http_fetch_events probe_events = {.done = on_probe_done};
    struct member *m = member_of(e->worker);
    struct http_fetch_request q = {.addr = &m->addr,
                                   .peer = m->tls,
                                   .timeout_ms = m->app->settings->s.connect_timeout_ms,
                                   .events = &probe_events};

    if (e->how == PROBE_CHECK)
        active_check_request(m->app, worker_name(m->worker), &q);
    http_fetch_start(&e->fetch, m->app->lb->control, &q);
}

static void on_member_timer(struct timer *t)
{
    struct ejection *e = container_of(t, struct ejection, timer);
    struct member *m = member_of(e->worker);

    /* A worker that has left the pool meanwhile reports its return itself. */
    pthread_mutex_lock(&m->app->members_lock);
    enum request_probe request = e->request;
    bool probe = e->probe_ms != 0 && request != PROBE_OFFERED && m->joined && list_linked(&e->node);
    if (probe && e->how == PROBE_REQUEST && request == PROBE_PAUSED)
        set_request_locked(e, PROBE_OFFERED);
    pthread_mutex_unlock(&m->app->members_lock);
    if (!probe || (e->how == PROBE_CHECK && m->app->settings->s.health_check_path == NULL))
        end_ejection(e);
    else if (e->how != PROBE_REQUEST)
        start_probe(e);
    else if (request == PROBE_PAUSED)
        timer_start(m->app->lb->control, &e->timer, e->for_ms);
    /* Otherwise it is being probed, and the message follows. */
}

/* On the control loop: it has begun, a request has probed it, or it is over already. */
static void on_member_message(struct loop_message *msg)
{
    struct ejection *e = container_of(msg, struct ejection, message);
    struct application *a = member_of(e->worker)->app;

    if (!e->counted) {
        e->counted = true;
        stat_add(application_control_stats(a), APP_STAT_ejections, 1);
        log_warn(NULL, "worker-ejected", "application=%s worker=%s for_ms=%llu reason=%s", a->name,
                 worker_name(e->worker), (unsigned long long)e->for_ms, worker_fault_text(e->why));
    }
    pthread_mutex_lock(&a->members_lock);
    e->in_flight = false;
    bool effective = list_linked(&e->node);
    bool passed = e->passed;
    pthread_mutex_unlock(&a->members_lock);
    if (!effective) {
        if (passed)
            log_readmitted(e);
        free_ejection(e);
        return;
    }
    if (e->probe_ms != 0)
        pause_probe(e);
    else
        timer_start(a->lb->control, &e->timer, e->for_ms);
    /* Others may have left meanwhile. */
    ejection_check(a);
}

/* The ejection that has begun with this failure, or NULL. */
static struct ejection *fail_locked(struct member *m, enum worker_fault f, uint64_t now_ms,
                                    struct members_change *c)
{
    struct application *a = m->app;
    uint64_t for_ms = failure_record_add(&m->failed, &a->eject, f);
    struct ejection *e;
    size_t out = 0; /* without those that have left meanwhile: they are not among `njoined` */

    atomic_store_explicit(&m->has_failures, true, memory_order_relaxed);
    if (for_ms == 0)
        return NULL;
    /* All that are left fail: those that failed before may do better by now. */
    bool last = m->unavailable == 0 && a->navailable <= 1 && !spare_locked(a);
    if (last)
        end_all_locked(a, c);
    /* The last available worker is not ejected: no other worker would take its requests. */
    if (!m->joined || (m->unavailable & MEMBER_EJECTED) != 0 || (last && a->navailable <= 1))
        return NULL;
    list_for_each_entry (e, &a->ejections, node)
        out += member_of(e->worker)->joined;
    if (!ejection_fits(&a->eject, f, out, a->njoined))
        return NULL;
    e = xcalloc(1, sizeof(*e));
    *e = (struct ejection){.message.run = on_member_message,
                           .in_flight = true,
                           .worker = worker_ref(m->worker),
                           .for_ms = for_ms,
                           .why = f,
                           .how = worker_probe_for(&a->eject, f, !m->has_feed)};
    failure_record_probe_ms(&m->failed, &a->eject, e->how, &e->probe_ms, &e->probe_then_ms);
    timer_init(&e->timer, on_member_timer);
    list_push_back(&a->ejections, &e->node);
    set_unavailable_locked(m, MEMBER_EJECTED, true, c);
    atomic_store_explicit(&m->ejected_why, (unsigned)f, memory_order_relaxed);
    atomic_store_explicit(&m->ejected_until_ms, now_ms + for_ms, memory_order_relaxed);
    return e;
}

void member_failed(struct member *m, enum worker_fault f, uint64_t now_ms)
{
    struct application *a = m->app;
    struct members_change c;

    if (worker_fault_connects(f))
        atomic_fetch_add_explicit(&m->connect_failures, 1, memory_order_relaxed);
    member_begin(a, &c);
    struct ejection *e = fail_locked(m, f, now_ms, &c);
    member_end(a, &c);
    if (m->has_standby) {
        if (e != NULL || worker_fault_connects(f))
            atomic_store(&m->certain, true);
        if (!atomic_exchange(&m->reporting, true)) {
            worker_ref(m->worker);
            loop_post(a->lb->control, &m->report);
        }
    }
    if (e != NULL)
        loop_post(a->lb->control, &e->message);
}

bool member_probe(struct application *a, uint64_t now_us, struct pool_pick *out)
{
    struct ejection *e;
    bool found = false;

    pthread_mutex_lock(&a->members_lock);
    list_for_each_entry (e, &a->ejections, node) {
        const struct member *m = member_of(e->worker);

        if (e->request != PROBE_OFFERED || !m->joined || m->unavailable != MEMBER_EJECTED ||
            !pool_get_at(a->pool, e->worker, now_us, out))
            continue;
        set_request_locked(e, PROBE_TAKEN);
        found = true;
        break;
    }
    pthread_mutex_unlock(&a->members_lock);
    return found;
}

void member_probed(struct member *m, bool passed)
{
    struct application *a = m->app;
    struct ejection *e;
    struct members_change c;

    member_begin(a, &c);
    list_for_each_entry (e, &a->ejections, node) {
        if (e->worker != m->worker || e->request != PROBE_TAKEN)
            continue;
        e->passed = passed;
        set_request_locked(e, PROBE_PAUSED);
        if (passed)
            end_locked(e, &c);
        notify_locked(e, &c);
        break;
    }
    member_end(a, &c);
}

void member_clear_failures(struct member *m)
{
    pthread_mutex_lock(&m->app->members_lock);
    m->failed = (struct failure_record){0};
    atomic_store_explicit(&m->has_failures, false, memory_order_relaxed);
    pthread_mutex_unlock(&m->app->members_lock);
}

bool ejection_fail_open(struct application *a, struct worker *const *tried, size_t ntried)
{
    const struct ejection *e;
    struct members_change c;
    bool any = false;

    member_begin(a, &c);
    if (spare_locked(a)) {
        size_t before = a->navailable;

        update_reserve_locked(a, tried, ntried, &c);
        any = a->navailable > before;
    }
    bool spare = any;
    list_for_each_entry (e, &a->ejections, node)
        any = any || !is_tried(member_of(e->worker), tried, ntried);
    if (any && !spare)
        end_all_locked(a, &c);
    member_end(a, &c);
    return any;
}

void ejection_check(struct application *a)
{
    struct members_change c;

    member_begin(a, &c);
    if (a->navailable == 0)
        end_all_locked(a, &c);
    member_end(a, &c);
}

void ejection_stop(struct application *a)
{
    struct ejection *e;

    while ((e = list_pop_entry(&a->ejections, struct ejection, node)) != NULL) {
        if (!e->in_flight)
            free_ejection(e);
    }
}
