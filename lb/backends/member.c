/* SPDX-License-Identifier: Apache-2.0
 *
 * Several threads change whether a member is in the pool and available (a data loop ejects it, the
 * control thread does the rest). Changes must reach the pool in the order in which they are
 * recorded: each is made under app->members_lock, which is held during the call of the pool. Lock
 * order: meter_lock, app->members_lock, the pool's lock.
 */
#include "lb/backends/member.h"

#include <stdlib.h>

#include "lb/core/lb.h"
#include "lb/core/route_wait.h"

static unsigned connections_of(const struct member *m, const struct app_settings *s)
{
    return (unsigned)(m->max_connections >= 0 ? m->max_connections : s->max_connections);
}

static unsigned tunnels_of(const struct member *m, const struct app_settings *s)
{
    return (unsigned)(m->max_tunnels >= 0 ? m->max_tunnels : s->max_tunnels);
}

/*
 * For a worker without an agent, only max_connections shows that it serves one request at a time:
 * its concurrency is 1 unless it is set.
 */
static void apply_limits(struct member *m, const struct app_settings *s)
{
    bool one = connections_of(m, s) == 1 || (m->has_feed && m->concurrency == 1);

    atomic_store_explicit(&m->serves_one, one, memory_order_relaxed);
    tunnel_limit_set(&m->tunnels, tunnels_of(m, s));
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

void text_copy(char *out, size_t room, const char *s)
{
    size_t n = strnlen(s, room - 1);

    memcpy(out, s, n);
    out[n] = '\0';
}

/* With the worker's last reference; any thread. */
static void release(void *context)
{
    struct member *m = context;

    conn_backend_release(m->backend);
    tls_peer_unref(m->tls);
    meter_destroy(m->meter);
    free(m);
}

/* On the control thread. */
static void on_report(struct loop_message *msg)
{
    struct member *m = container_of(msg, struct member, report);
    bool certain = atomic_exchange(&m->certain, false);

    atomic_store(&m->reporting, false);
    m->reports(m, certain);
    worker_unref(m->worker);
}

void member_report(struct member *m, bool certain)
{
    if (certain)
        atomic_store(&m->certain, true);
    if (atomic_exchange(&m->reporting, true))
        return;
    worker_ref(m->worker);
    loop_post(m->app->lb->control, &m->report);
}

struct worker *member_create(const struct member_options *o)
{
    const struct app_settings *s = &o->app->settings->s;
    struct conn_pool_settings cs = conn_settings(s);
    struct member *m = xcalloc(1, sizeof(*m));
    struct worker_options wo = {.name = slice_of(o->name),
                                .incarnation = slice_of(o->incarnation),
                                .concurrency = o->concurrency > 0 ? o->concurrency : 1,
                                .context = m,
                                .context_release = release};

    m->app = o->app;
    m->addr = *o->addr;
    m->tls = o->tls != NULL ? tls_peer_ref(o->tls) : NULL;
    m->reports = o->reports;
    m->report.run = on_report;
    m->has_feed = o->has_feed;
    m->max_connections = o->max_connections;
    m->max_tunnels = o->max_tunnels;
    m->concurrency = wo.concurrency;
    apply_limits(m, s);
    text_copy(m->version, sizeof(m->version), o->version);
    m->backend =
        conn_pool_backend(o->app->conn_pool, wo.name, wo.incarnation, connections_of(m, s), &cs);
    if (!o->has_feed) {
        struct meter_settings ms = member_meter_settings(s);

        m->meter = meter_create(&ms);
    }
    m->worker = worker_create(&wo);
    return m->worker;
}

void member_change_begin(struct application *a, struct member_change *c)
{
    list_init(&c->released);
    list_init(&c->over);
    pthread_mutex_lock(&a->members_lock);
}

void member_change_end(struct application *a, struct member_change *c)
{
    struct list *node;

    pthread_mutex_unlock(&a->members_lock);
    route_wait_wake(&c->released);
    while ((node = list_pop_front(&c->over)) != NULL)
        loop_post(a->lb->control, list_entry(node, struct loop_message, node));
}

void member_set_unavailable_locked(struct member *m, enum member_unavailable why, bool on,
                                   struct member_change *c)
{
    struct application *a = m->app;
    bool before = m->unavailable == 0;

    m->unavailable = on ? m->unavailable | (unsigned)why : m->unavailable & ~(unsigned)why;
    bool after = m->unavailable == 0;
    if (!m->joined || before == after)
        return;
    if (after)
        ++a->navailable;
    else
        --a->navailable;
    pool_set_available(a->pool, m->worker, after, &c->released);
}

void member_resume(struct member *m, const struct resume *r, const char *version,
                   const char *fingerprint)
{
    struct application *a = m->app;
    struct member_change c;

    member_change_begin(a, &c);
    bool first = !m->joined;
    m->joined = true;
    if (first) {
        ++a->njoined;
        a->navailable += m->unavailable == 0;
    }
    pool_new_resume(a->pool, m->worker, r, version, fingerprint, &c.released);
    if (first && m->unavailable != 0)
        pool_set_available(a->pool, m->worker, false, &c.released);
    member_change_end(a, &c);
}

void member_leave(struct member *m)
{
    struct application *a = m->app;
    struct member_change c;

    member_change_begin(a, &c);
    if (m->joined) {
        --a->njoined;
        a->navailable -= m->unavailable == 0;
    }
    m->joined = false;
    pool_remove(a->pool, m->worker, &c.released);
    member_change_end(a, &c);
    health_check(a);
}

void member_retire(struct member *m)
{
    member_leave(m);
    conn_backend_retire(m->backend);
}

bool member_set_unavailable(struct member *m, enum member_unavailable why, bool on)
{
    struct member_change c;

    member_change_begin(m->app, &c);
    unsigned before = m->unavailable;
    member_set_unavailable_locked(m, why, on, &c);
    bool changed = m->unavailable != before;
    member_change_end(m->app, &c);
    return changed;
}

void member_set_limits(struct member *m, int64_t max_connections, int64_t max_tunnels)
{
    if (m->max_connections == max_connections && m->max_tunnels == max_tunnels)
        return;
    m->max_connections = max_connections;
    m->max_tunnels = max_tunnels;
    member_settings_changed(m);
}

void member_set_concurrency(struct member *m, unsigned concurrency)
{
    m->concurrency = concurrency;
    apply_limits(m, &m->app->settings->s);
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
