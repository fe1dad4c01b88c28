/* SPDX-License-Identifier: Apache-2.0
 *
 * Distribution of settings: the control thread creates an immutable snapshot and posts it to each
 * loop, which stores it in `next` and switches to it at the end of that turn. A sleeping loop is
 * woken by the message, so a change is effective everywhere at once.
 */
#include "lb/core/application.h"

#include <limits.h>

#include "common/base/clock.h"
#include "common/base/map.h"
#include "lb/limits/limit.h"
#include "lb/limits/rate_rule.h"
#include "lb/rules/header_rules.h"

#include <limits.h>
#include <stdlib.h>

#include "common/counters/pool_counter_client.h"
#include "common/counters/pool_counter_health.h"
#include "common/upstream/http1_client.h"
#include "lb/config/configuration.h"
#include "lb/core/lb.h"
#include "lb/rules/poison.h"

static const struct stat_row stat_rows[] = {
#define STAT(...) STATS_ROW(__VA_ARGS__)
#include "lb/core/stats.def"
};
const struct stats_table application_stats = {.rows = stat_rows, .n = ARRAY_LEN(stat_rows)};

/* ---- snapshots ---- */

/* LIST is valid: app_settings_check has accepted it. */
static void compile_networks(const char *name, const struct text_list *list, struct networks *out)
{
    char why[SETTINGS_WHY_ROOM];
    size_t at;
    bool compiled = config_networks(name, list, out, &at, why);

    ASSERT(compiled);
}

struct app_snapshot *app_snapshot_create(const struct app_settings *s, struct limit_set *limits,
                                         struct header_rules *headers, struct rate_rules *rates)
{
    struct app_snapshot *snapshot = xcalloc(1, sizeof(*snapshot));
    const struct text_list *private = &snapshot->s.private_headers;

    app_settings_copy(s, &snapshot->s);
    compile_networks("trusted_proxies", &s->trusted_proxies, &snapshot->trusted);
    compile_networks("route_trace", &s->route_trace, &snapshot->route_trace);
    ASSERT(private->n <= CACHE_NAMES_MAX);
    for (size_t i = 0; i < private->n; ++i)
        snapshot->private_headers.names[snapshot->private_headers.n++] =
            slice_of(private->items[i]);
    compile_networks("provider_networks", &s->provider_networks, &snapshot->providers);
    snapshot->limits = limit_set_ref(limits);
    snapshot->headers = header_rules_ref(headers);
    snapshot->rates = rate_rules_ref(rates);
    atomic_init(&snapshot->refs, 1);
    return snapshot;
}

DEFINE_REF(app_snapshot)

void app_snapshot_unref(struct app_snapshot *s)
{
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    limit_set_unref(s->limits);
    header_rules_unref(s->headers);
    rate_rules_unref(s->rates);
    networks_fini(&s->trusted);
    networks_fini(&s->route_trace);
    networks_fini(&s->providers);
    app_settings_fini(&s->s);
    free(s);
}

/* ---- the application ---- */

static void application_describe(const struct log_subject *self, struct log_text *out)
{
    log_put(out, "application=%s", ((const struct application *)(const void *)self)->name);
}

static struct response_store_limits response_store_limits(const struct app_settings *s)
{
    return (struct response_store_limits){
        .max_bytes = (size_t)s->stored_memory_bytes,
        .max_responses = (size_t)s->stored_max,
        .max_response_bytes = (size_t)s->stored_max_size_bytes,
        .max_age_s = s->stored_max_age_ms / 1000,
    };
}

static struct ejection_rule ejection_rule(const struct app_settings *s)
{
    return (struct ejection_rule){
        .time_ms = s->eject_time_ms,
        .time_max_ms = s->eject_time_max_ms,
        .probe_ms = s->eject_probe_ms,
        .checks = s->health_check_path != NULL,
        .after_refused = (unsigned)s->eject_after_refused,
        .after = (unsigned)s->eject_after,
        .max_share = s->eject_max,
    };
}

static struct pool_settings pool_settings(const struct lb *lb, const struct app_settings *s)
{
    struct pool_settings out = POOL_SETTINGS_OF(s);

    out.max_waiting = (size_t)s->worker_wait_max;
    /* Balancers with the same random choices would send their requests to the same workers. */
    out.seed = map_hash(lb->instance, strlen(lb->instance));
    return out;
}

struct application *application_create(struct lb *lb, struct application_config *config)
{
    struct application *a = xcalloc(1, sizeof(*a));
    struct pool_settings ps = pool_settings(lb, &config->s);

    a->subject.describe = application_describe;
    a->lb = lb;
    a->name = xstrdup(config->name);
    a->is_default = config->s.is_default || config->s.hosts.n == 0;
    a->path_text = xslicedup(config->path);
    a->path = slice_of(a->path_text);
    a->classifier = config->classifier;
    config->classifier = NULL;
    a->error_pages = config->error_pages;
    config->error_pages.n = 0;
    a->worker_tls = config->worker_tls;
    config->worker_tls = (struct tls_workers){0};
    a->pool = pool_create(&ps, classifier_fingerprint(a->classifier));
    rate_rules_attach(config->rates, NULL);
    a->settings = app_snapshot_create(&config->s, NULL, config->headers, config->rates);
    struct response_store_limits limits = response_store_limits(&config->s);
    stored_memory_init(&a->stored_memory, limits.max_bytes);
    a->store = response_store_create(&limits, &a->stored_memory);
    pthread_mutex_init(&a->members_lock, NULL);
    list_init(&a->ejections);
    list_init(&a->members);
    a->best_priority = UINT_MAX;
    a->eject = ejection_rule(&config->s);
    a->poison = poison_create();
    a->pool_counter_health = pool_counter_health_create(a->name);
    pool_counter_health_set_connections(a->pool_counter_health,
                                        (unsigned)config->s.pool_counter_connections);
    return a;
}

void application_attach(struct application *a, struct loop *const *loops, unsigned nloops)
{
    a->conn_pool = conn_pool_create(&http1_client_pool_ops, loops, nloops);
    a->stats = stats_create(&application_stats, nloops + 1);
    a->loops = xcalloc_lines(nloops, sizeof(*a->loops));
    for (unsigned i = 0; i < nloops; ++i) {
        struct application_loop *al = &a->loops[i];

        al->app = a;
        al->settings = app_snapshot_ref(a->settings);
        al->stats = stats_cell(a->stats, i);
        list_init(&al->exchanges);
        rejected_queue_init(&al->rejected, loops[i], &a->nrejected);
    }
}

void application_destroy(struct application *a)
{
    if (a == NULL)
        return;
    if (a->loops != NULL) {
        for (unsigned i = 0; i < a->lb->nloops; ++i) {
            app_snapshot_unref(a->loops[i].settings);
            app_snapshot_unref(a->loops[i].next);
        }
    }
    free(a->loops);
    conn_pool_destroy(a->conn_pool);
    stats_destroy(a->stats);
    pool_destroy(a->pool);
    response_store_destroy(a->store);
    poison_destroy(a->poison);
    pool_counter_health_destroy(a->pool_counter_health);
    app_snapshot_unref(a->settings);
    classifier_destroy(a->classifier);
    error_pages_fini(&a->error_pages);
    tls_workers_fini(&a->worker_tls);
    free(a->path_text);
    free(a->name);
    pthread_mutex_destroy(&a->members_lock);
    free(a);
}

struct stats_cell *application_control_stats(const struct application *a)
{
    return stats_cell(a->stats, a->lb->nloops);
}

/* ---- pool counter daemons ---- */

static void set_counters(struct application_loop *al)
{
    const struct app_settings *s = application_settings(al);
    struct pool_counter_server_address servers[POOL_COUNTER_SERVERS_MAX];
    size_t n = limit_servers(&s->pool_counter_servers, servers);

    pool_counter_client_set_timeouts(al->counters, s->pool_counter_connect_timeout_ms,
                                     s->pool_counter_response_timeout_ms);
    pool_counter_client_set_servers(al->counters, servers, n);
}

struct pool_counter_client *application_counters(struct application_loop *al, struct loop *l)
{
    if (al->counters == NULL) {
        struct pool_counter_client_settings o = {.health = al->app->pool_counter_health};

        al->counters = pool_counter_client_create(l, &o);
        set_counters(al);
    }
    return al->counters;
}

void application_loop_end(struct application_loop *al)
{
    pool_counter_client_destroy(al->counters);
    al->counters = NULL;
}

/* ---- a change of settings ---- */

struct publication {
    struct loop_message message;
    struct application_loop *al;
    struct app_snapshot *snapshot;
};

/* On the loop. */
static void on_publication(struct loop_message *m)
{
    struct publication *p = container_of(m, struct publication, message);

    app_snapshot_unref(p->al->next);
    p->al->next = p->snapshot;
    free(p);
}

void application_take_settings(struct application_loop *al)
{
    struct app_snapshot *old = al->settings;

    if (al->next == NULL)
        return;
    al->settings = al->next;
    al->next = NULL;
    app_snapshot_unref(old);
    const struct app_settings *s = application_settings(al);
    pool_counter_health_set_connections(al->app->pool_counter_health,
                                        (unsigned)s->pool_counter_connections);
    if (al->counters != NULL)
        set_counters(al);
}

/* Replaces the snapshot of A, here and on its loops. */
static void replace_snapshot(struct application *a, const struct app_settings *s,
                             struct limit_set *limits, struct header_rules *headers,
                             struct rate_rules *rates)
{
    struct app_snapshot *old = a->settings;

    a->settings = app_snapshot_create(s, limits, headers, rates);
    app_snapshot_unref(old);
    if (a->loops == NULL)
        return;
    for (unsigned i = 0; i < a->lb->nloops; ++i) {
        struct publication *p = xcalloc(1, sizeof(*p));

        p->message.run = on_publication;
        p->al = &a->loops[i];
        p->snapshot = app_snapshot_ref(a->settings);
        loop_post(a->lb->loops[i].loop, &p->message);
    }
}

void application_publish(struct application *a, const struct app_settings *s)
{
    /* Settings that determine which requests take part in storing. */
    static const char *const sharing[] = {"stored_with_cookies", "stored_with_certificates",
                                          "private_headers"};
    const struct app_snapshot *old = a->settings;
    struct pool_settings ps = pool_settings(a->lb, s);
    struct response_store_limits limits = response_store_limits(s);
    bool same = app_settings_same(&old->s, s, sharing, ARRAY_LEN(sharing));

    pool_set(a->pool, &ps);
    pthread_mutex_lock(&a->members_lock);
    a->eject = ejection_rule(s);
    pthread_mutex_unlock(&a->members_lock);
    stored_memory_set_max(&a->stored_memory, limits.max_bytes);
    response_store_set_limits(a->store, &limits, clock_mono_us());
    replace_snapshot(a, s, old->limits, old->headers, old->rates);
    if (!same)
        response_store_clear(a->store, clock_mono_us());
}

void application_set_rules(struct application *a, struct limit_set *limits,
                           struct header_rules *headers, struct rate_rules *rates)
{
    rate_rules_attach(rates, a->settings->rates);
    replace_snapshot(a, &a->settings->s, limits, headers, rates);
}

void application_set_limits(struct application *a, struct limit_set *limits)
{
    application_set_rules(a, limits, a->settings->headers, a->settings->rates);
}

/* ---- live settings ---- */

static bool application_check(void *context, const void *s, char why[SETTINGS_WHY_ROOM])
{
    const struct application *a = context;
    uint64_t total = atomic_load_explicit(&a->lb->response_buffers_total, memory_order_relaxed);

    return app_settings_check(s, total, why);
}

static uint64_t application_hold_ms(unused_ void *context, const void *now)
{
    return ((const struct app_settings *)now)->settings_hold_ms;
}

void application_count_settings(struct application *a, const struct live_settings_counts *now,
                                struct live_settings_counts *reported)
{
    struct stats_cell *cell = application_control_stats(a);

    stat_add(cell, APP_STAT_settings_changes, (int64_t)(now->changes - reported->changes));
    stat_add(cell, APP_STAT_settings_rejected, (int64_t)(now->rejections - reported->rejections));
    stat_add(cell, APP_STAT_rejected_settings,
             (int64_t)now->rejected - (int64_t)reported->rejected);
    stat_add(cell, APP_STAT_settings_held, (int64_t)now->held - (int64_t)reported->held);
    *reported = *now;
}

static void on_application_changed(void *context, bool values)
{
    struct application *a = context;
    struct live_settings_counts now;

    live_settings_counts(a->live, &now);
    application_count_settings(a, &now, &a->live_reported);
    if (!values)
        return;
    application_publish(a, live_settings_now(a->live));
    a->live_changed(a);
}

void application_live_start(struct application *a, const struct application_config *config,
                            const char *path, void (*changed)(struct application *a))
{
    static const struct settings_table *const tables[] = {&application_table, &pool_table};

    a->live_reported = (struct live_settings_counts){0};
    a->live_changed = changed;
    a->live =
        live_settings_create(&(struct live_settings_options){.loop = a->lb->control,
                                                             .tables = tables,
                                                             .ntables = ARRAY_LEN(tables),
                                                             .yaml = &config->s,
                                                             .origins = config->origins,
                                                             .path = path,
                                                             .subject = a,
                                                             .check = application_check,
                                                             .hold_ms = application_hold_ms,
                                                             .frozen = app_row_frozen,
                                                             .changed = on_application_changed,
                                                             .context = a});
}

/*
 * ---- hosts to applications ----
 *
 * Selects the application for a Host and path: a table of hosts, exact and wildcard
 * ("*.shop.example" is stored as ".shop.example"), each with its applications, longest path first.
 *
 *   a.b.example  ->  "a.b.example", then ".b.example", ".example", then the default
 *
 * For a Host that has entries, but none for the path, the search continues at the next wider one.
 * The default is only for Hosts that no application has.
 */

enum { HOST_ROOM = 256 };

struct host_entry {
    struct map_node in_hosts;
    char *host;
    struct application **applications; /* longest path first */
    size_t n;
};

struct application_index {
    struct map hosts;           /* of host_entry, by host */
    struct host_entry fallback; /* hosts that no application has */
    struct application *only;   /* serves every Host and path; or NULL */
};

static void entry_add(struct host_entry *e, struct application *a)
{
    size_t i = e->n;

    e->applications = xrealloc(e->applications, (e->n + 1) * sizeof(struct application *));
    for (; i > 0 && e->applications[i - 1]->path.len < a->path.len; --i)
        e->applications[i] = e->applications[i - 1];
    e->applications[i] = a;
    ++e->n;
}

static struct host_entry *entry_find(const struct application_index *x, struct slice host)
{
    return map_entry(map_find(&x->hosts, host.p, host.len), struct host_entry, in_hosts);
}

struct application_index *application_index_create(struct application *const *applications,
                                                   size_t n)
{
    struct application_index *x = xcalloc(1, sizeof(*x));

    for (size_t i = 0; i < n; ++i) {
        struct application *a = applications[i];
        const struct text_list *hosts = &a->settings->s.hosts;

        for (size_t k = 0; k < hosts->n; ++k) {
            const char *host = hosts->items[k];
            struct slice key = slice_of(host[0] == '*' ? host + 1 : host);
            struct host_entry *e = entry_find(x, key);

            if (e == NULL) {
                e = xcalloc(1, sizeof(*e));
                e->host = xslicedup(key);
                map_add(&x->hosts, &e->in_hosts, e->host, key.len);
            }
            entry_add(e, a);
        }
        if (a->is_default)
            entry_add(&x->fallback, a);
    }
    if (x->hosts.first == NULL && x->fallback.n == 1 && x->fallback.applications[0]->path.len == 0)
        x->only = x->fallback.applications[0];
    return x;
}

void application_index_destroy(struct application_index *x)
{
    if (x == NULL)
        return;
    map_for_each_safe (struct host_entry, e, &x->hosts, in_hosts) {
        map_remove(&x->hosts, &e->in_hosts);
        free(e->applications);
        free(e->host);
        free(e);
    }
    free(x->fallback.applications);
    free(x);
}

static struct application *entry_pick(const struct host_entry *e, struct slice path)
{
    for (size_t i = 0; i < e->n; ++i) {
        struct application *a = e->applications[i];
        size_t n = a->path.len;

        /* "/w" takes /w and /w/x, not /wonder. */
        if (slice_starts(path, a->path) &&
            (n == 0 || path.len == n || path.p[n] == '/' || path.p[n] == '?'))
            return a;
    }
    return NULL;
}

/* Writes HOST to OUT in lower case, without port and trailing dot; empty if it is too long. */
static noinline_ struct slice normalize_host(struct slice host, char out[HOST_ROOM])
{
    size_t n = host_without_port(host).len;

    if (n > 0 && host.p[n - 1] == '.')
        --n;
    if (n >= HOST_ROOM)
        n = 0;
    ascii_lower_copy(out, (struct slice){host.p, n});
    return (struct slice){out, n};
}

struct application *application_only(const struct lb *lb)
{
    return lb->index->only;
}

struct application *application_find(const struct lb *lb, struct slice host, struct slice path)
{
    const struct application_index *x = lb->index;
    char room[HOST_ROOM];
    bool known = false;

    if (x->hosts.first == NULL)
        return entry_pick(&x->fallback, path);
    struct slice name = normalize_host(host, room);
    while (name.len > 0) {
        const struct host_entry *e = entry_find(x, name);
        struct application *a = e != NULL ? entry_pick(e, path) : NULL;

        if (a != NULL)
            return a;
        known = known || e != NULL;
        /* "a.b.c" -> ".b.c" -> ".c" */
        const char *dot = name.len > 1 ? memchr(name.p + 1, '.', name.len - 1) : NULL;
        if (dot == NULL)
            break;
        name = (struct slice){dot, name.len - (size_t)(dot - name.p)};
    }
    return known ? NULL : entry_pick(&x->fallback, path);
}
