/* SPDX-License-Identifier: Apache-2.0
 *
 * /status.json and /resumes.json. Everything is copied out of the parts when it is asked for: each
 * pool in pieces (pool_scan), the rest as it is at the moment.
 */
#include "lb/status/status.h"
#include "lb/backends/peers.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/json.h"
#include "common/base/map.h"
#include "lb/access/access_log.h"
#include "lb/backends/membership.h"
#include "lb/core/limits_live.h"
#include "lb/limits/rate_rule.h"
#include "lb/request/front.h"
#include "lb/rules/poison.h"
#include "lb/status/observer.h"
#include "routing/pool.h"
#include "version.h"

/* ---- workers ---- */

/* A row of the table of workers. */
struct worker_row {
    double rate; /* set if workers have to be selected */
    struct map_node by_worker;
    const char *name;
    const struct backend *known;    /* NULL: not known any more */
    struct worker *worker;          /* or NULL */
    const struct worker_view *view; /* or NULL */
};

struct workers_page {
    struct json_writer *w;
    const struct pool_view *pool;
    const struct application *app;
    uint64_t now_ms;
    struct worker_row *rows;
    size_t n;
};

static void put_member(struct json_writer *w, struct member *m, uint64_t now_ms)
{
    uint64_t ejected = load_relaxed(&m->ejected_until_ms);
    struct conn_backend_view v;

    json_put_int(w, "requests", (int64_t)load_relaxed(&m->requests));
    json_put_int(w, "failures", (int64_t)load_relaxed(&m->failures));
    json_put_real(w, "service_s", (double)load_relaxed(&m->service_us) / 1e6);
    json_put_bool(w, "ejected", ejected != 0);
    if (ejected != 0) {
        unsigned why = atomic_load_explicit(&m->ejected_why, memory_order_relaxed);

        json_put_text(w, "ejected_why", slice_of(worker_fault_text((enum worker_fault)why)));
        json_put_real(w, "ejected_for_s",
                      ejected > now_ms ? (double)(ejected - now_ms) / 1000 : 0.0);
    }
    conn_backend_view(m->backend, &v);
    json_open_object(w, "connections");
    json_put_int(w, "in_use", v.in_use);
    json_put_int(w, "idle", v.idle);
    json_put_int(w, "opening", v.opening);
    json_put_int(w, "waiting", v.waiting);
    json_put_int(w, "max", v.max_connections);
    json_put_int(w, "opened", (int64_t)v.opened);
    json_put_int(w, "reused", (int64_t)v.reused);
    json_put_int(w, "handed_over", (int64_t)v.handed_over);
    json_close_object(w);
    json_put_int(w, "tunnels", tunnel_limit_open(&m->tunnels));
    json_put_int(w, "max_tunnels", tunnel_limit_max(&m->tunnels));
}

static const char *state_of(const struct worker_row *r)
{
    return r->known != NULL ? backend_state(r->known) : "leaving";
}

static void put_worker(struct workers_page *p, const struct worker_row *r)
{
    static const struct worker_view no_view = {.version = ""};
    const struct worker_view *v = r->view != NULL ? r->view : &no_view;
    uint64_t oldest_ms = v->oldest_us / 1000;
    const struct backend *k = r->known;
    struct json_writer *w = p->w;

    json_open_object(w, NULL);
    json_put_text(w, "name", slice_of(r->name));
    json_put_text(w, "state", slice_of(state_of(r)));
    if (k != NULL)
        source_describe(k, w);
    if (k != NULL && k->peer != NULL)
        json_put_text(w, "tls", slice_of(tls_peer_name(k->peer)));
    if (k != NULL && k->standby.addr.len != 0) {
        json_put_text(w, "standby", slice_of(addr_text(&k->standby.addr)));
        json_put_bool(w, "on_standby", k->standby.in_use);
    }
    json_put_text(w, "instance", slice_of(r->worker != NULL ? worker_instance(r->worker) : ""));
    json_put_text(w, "version", slice_of(v->version));
    json_put_bool(w, "active", v->active);
    json_put_bool(w, "available", v->available);
    json_put_int(w, "backlog", (int64_t)v->backlog);
    json_put_int(w, "backlog_others", (int64_t)pool_view_others(p->pool, v, p->now_ms));
    json_put_real(w, "mean_backlog", v->mean_backlog);
    /* The age of the oldest request in flight, and its arrival (Unix time). */
    if (v->oldest_us == 0) {
        json_put_null(w, "oldest_s");
        json_put_null(w, "oldest_time");
    } else {
        double age = p->now_ms > oldest_ms ? (double)(p->now_ms - oldest_ms) / 1000 : 0;
        double arrival = (double)(clock_wall_us() / 1000000) - age;

        json_put_real(w, "oldest_s", age);
        json_put_real(w, "oldest_time", (double)(int64_t)(arrival * 1000) / 1000);
    }
    json_put_int(w, "skills", (int64_t)v->nskills);
    if (r->worker != NULL)
        put_member(w, member_of(r->worker), p->now_ms);
    if (k != NULL && k->check.active) {
        json_open_object(w, "check");
        json_put_bool(w, "failing", k->check.record.failing);
        json_put_int(w, "checks", (int64_t)k->check.checks);
        json_put_int(w, "failures", (int64_t)k->check.failures);
        json_put_text(w, "why", slice_of(k->check.why));
        json_close_object(w);
    }
    if (k != NULL)
        observer_describe_worker(p->app->lb->observer, p->app->number, r->name, w);
    json_close_object(w);
}

static void add_known(void *context, const struct backend *k)
{
    struct workers_page *p = context;

    if ((p->n & (p->n + 1)) == 0)
        p->rows = xrealloc(p->rows, 2 * (p->n + 1) * sizeof(*p->rows));
    p->rows[p->n++] = (struct worker_row){.name = k->name, .known = k, .worker = k->worker};
}

static bool contains_text(const char *text, struct slice part)
{
    return part.len == 0 || memmem(text, strlen(text), part.p, part.len) != NULL;
}

/* Selects the workers with Q in their name, state or version; if too many, the busiest of them.
 * Writes the numbers of workers that were known, active and found. */
static void choose_workers(struct workers_page *p, struct slice q, size_t most)
{
    struct json_writer *w = p->w;
    size_t active = 0;
    size_t found = 0;

    for (size_t i = 0; i < p->n; ++i) {
        const struct worker_row *r = &p->rows[i];

        active += r->view != NULL && r->view->active;
        if (contains_text(r->name, q) || contains_text(state_of(r), q) ||
            (r->view != NULL && contains_text(r->view->version, q)))
            p->rows[found++] = *r;
    }
    json_put_int(w, "workers_known", (int64_t)p->n);
    json_put_int(w, "workers_active", (int64_t)active);
    json_put_int(w, "workers_found", (int64_t)found);
    p->n = found;
    if (found <= most)
        return;
    for (size_t i = 0; i < found; ++i)
        p->rows[i].rate =
            observer_worker_rate(p->app->lb->observer, p->app->number, p->rows[i].name);
    qsort(p->rows, found, sizeof(*p->rows), descending_reals);
    p->n = most;
}

static void put_workers(struct json_writer *w, const struct application *a,
                        const struct pool_view *pv, const struct status_choice *choice)
{
    struct workers_page p = {.w = w, .pool = pv, .app = a, .now_ms = clock_mono_us() / 1000};
    size_t nviews = pv->n + pv->ndetached;
    struct map rows = {0};

    if (a->membership != NULL)
        membership_each(a->membership, add_known, &p);
    p.rows = xrealloc(p.rows, (p.n + nviews + 1) * sizeof(*p.rows));
    for (size_t i = 0; i < p.n; ++i) {
        if (p.rows[i].worker != NULL)
            map_add(&rows, &p.rows[i].by_worker, &p.rows[i].worker, sizeof(p.rows[i].worker));
    }
    /* Removed workers with requests in flight are not known any more, and are listed last. */
    for (size_t i = 0; i < nviews; ++i) {
        const struct worker_view *v = &pv->workers[i];
        struct worker_row *r =
            map_entry(map_find(&rows, &v->worker, sizeof(v->worker)), struct worker_row, by_worker);

        if (r == NULL) {
            r = &p.rows[p.n++];
            *r = (struct worker_row){.name = v->name, .worker = v->worker};
        }
        r->view = v;
    }
    map_clear(&rows);
    if (choice->workers_max != 0)
        choose_workers(&p, choice->q, choice->workers_max);
    json_open_array(w, "workers");
    for (size_t i = 0; i < p.n; ++i)
        put_worker(&p, &p.rows[i]);
    json_close_array(w);
    free(p.rows);
}

/* ---- figures ---- */

static void put_rates(struct json_writer *w, const struct application *a)
{
    const struct rate_rules *r = a->settings->rates;

    json_open_array(w, "rates");
    for (size_t i = 0; r != NULL && i < r->n; ++i) {
        const struct rate_rule *rule = &r->rules[i];
        struct rate_view v;

        rate_counter_view(rule->counter, &v);
        json_open_object(w, NULL);
        json_put_text(w, "name", slice_of(rule->name));
        json_put_int(w, "interval_ns", (int64_t)rule->rate.interval_ns);
        json_put_int(w, "burst", (int64_t)rule->rate.burst);
        json_put_bool(w, "shadow", rule->shadow);
        json_put_int(w, "passed", (int64_t)v.passed);
        json_put_int(w, "rejected", (int64_t)v.rejected);
        json_put_int(w, "shadow_rejected", (int64_t)v.shadow_rejected);
        json_put_int(w, "keys", (int64_t)v.keys);
        json_put_int(w, "evicted", (int64_t)v.evicted);
        json_close_object(w);
    }
    json_close_array(w);
}

static void put_pool(struct json_writer *w, const struct pool_view *pv)
{
    json_put_text(w, "policy", slice_of(pool_policy_text(pv->settings.policy)));
    json_put_real(w, "variance", pv->settings.variance);
    json_put_bool(w, "single_version", pv->settings.single_version);
    json_put_text(w, "active_version", slice_of(pv->active_version));
    json_put_int(w, "backlog", (int64_t)pv->backlog);
    json_put_real(w, "mean_backlog", pv->mean_backlog);
    json_put_real(w, "max_backlog", pv->max_backlog);
    json_put_int(w, "waiting", (int64_t)pv->waiting);
    json_put_int(w, "classes", (int64_t)pv->classes);
    json_open_object(w, "shadow");
    json_put_text(w, "policy",
                  pv->settings.shadowed ? slice_of(pool_policy_text(pv->settings.shadow))
                                        : SLICE_LIT("off"));
    pool_shadow_put_json(&pv->shadow, w);
    json_close_object(w);
    json_open_object(w, "picks");
    for (int r = 0; r < PICK_REASONS; ++r)
        json_put_int(w, pick_reason_text((enum pick_reason)r), (int64_t)pv->picks[r]);
    json_close_object(w);
}

static void put_checks_rejected(struct json_writer *w, const struct application *a)
{
    struct checks_rejected r;

    if (a->membership == NULL || !membership_checks_rejected(a->membership, &r)) {
        json_put_null(w, "checks_rejected");
        return;
    }
    json_open_object(w, "checks_rejected");
    json_put_int(w, "status", r.status);
    json_put_text(w, "host", slice_of(r.host));
    json_close_object(w);
}

static void put_application(struct json_writer *w, const struct application *a,
                            const struct status_choice *choice)
{
    struct pool_view pv;
    struct poison_view poisons;

    pool_scan(a->pool, false, &pv);
    json_open_object(w, a->name);
    json_open_array(w, "hosts");
    for (size_t i = 0; i < a->settings->s.hosts.n; ++i)
        json_put_text(w, NULL, slice_of(a->settings->s.hosts.items[i]));
    json_close_array(w);
    json_put_text(w, "path", a->path.len > 0 ? a->path : SLICE_LIT("/"));
    json_put_text(w, "classifier", slice_of(classifier_kind(a->classifier)));
    json_put_text(w, "fingerprint", slice_of(classifier_fingerprint(a->classifier)));
    put_pool(w, &pv);
    observer_describe(a->lb->observer, a->number, w);
    observer_describe_classes(a->lb->observer, a->number, choice->q, w);
    put_workers(w, a, &pv, choice);
    put_checks_rejected(w, a);
    json_open_object(w, "outcomes");
    for (int o = 0; o < OUTCOMES; ++o) {
        uint64_t n = 0;

        for (unsigned i = 0; i < a->lb->nloops; ++i)
            n += load_relaxed(&a->loops[i].outcomes[o]);
        json_put_int(w, outcome_text((enum outcome)o), (int64_t)n);
    }
    json_close_object(w);
    poison_view(a->poison, clock_mono_us() / 1000, &poisons);
    json_open_array(w, "poison");
    for (size_t i = 0; i < poisons.nheld; ++i) {
        json_open_object(w, NULL);
        json_put_text(w, "class", slice_of(poisons.held[i].cls));
        json_put_text(w, "path", slice_of(poisons.held[i].path));
        json_put_real(w, "for_s", (double)poisons.held[i].for_ms / 1000);
        json_close_object(w);
    }
    json_close_array(w);
    stats_describe(a->stats, "stats", w);
    limit_status_describe(a, w);
    put_rates(w, a);
    if (a->live != NULL)
        live_settings_describe(a->live, w);
    if (a->limits != NULL)
        limits_live_describe(a->limits, w);
    if (a->membership != NULL)
        membership_describe(a->membership, w);
    json_close_object(w);
    pool_view_fini(&pv);
}

void status_json(struct lb *lb, const struct status_choice *choice, struct text *out)
{
    static const char *const phases[] = {"starting", "serving", "draining", "closing"};
    struct json_writer w = {.out = out};
    uint64_t now_ms = clock_mono_us() / 1000;

    json_open_object(&w, NULL);
    json_put_text(&w, "program", SLICE_LIT("resumelb"));
    json_put_text(&w, "version", SLICE_LIT(RLB_VERSION));
    json_put_int(&w, "pid", getpid());
    json_put_text(&w, "instance", slice_of(lb->instance));
    json_put_real(&w, "uptime_s", (double)(now_ms - lb->started_ms) / 1000);
    json_put_text(&w, "phase", slice_of(phases[lb->phase]));
    json_put_int(&w, "threads", lb->nloops);
    json_open_array(&w, "loops");
    for (unsigned i = 0; lb->fronts_up && i < lb->nloops; ++i) {
        struct http_server_counts c;
        struct http_balance_view v;

        front_read_counts(lb->loops[i].front, &c);
        http_balance_view(lb->balance, i, &v);
        json_open_object(&w, NULL);
        json_put_real(&w, "cpu", lb->loops[i].cpu >= 0 ? lb->loops[i].cpu : (double)NAN);
        json_put_int(&w, "in_hand", (int64_t)v.in_flight);
        json_put_int(&w, "accepted", (int64_t)c.accepted);
        json_put_int(&w, "given", (int64_t)v.given);
        json_put_int(&w, "taken", (int64_t)v.taken);
        json_put_int(&w, "requests", (int64_t)c.requests);
        json_close_object(&w);
    }
    json_close_array(&w);
    json_put_int(&w, "buffered_bytes",
                 (int64_t)atomic_load_explicit(&lb->buffered_bytes, memory_order_relaxed));
    struct access_counts lines = {0};

    if (lb->access_log != NULL)
        access_log_count(lb->access_log, &lines);
    json_put_int(&w, "access_log_dropped", (int64_t)lines.dropped);
    state_files_describe(&w);
    peers_describe(lb->peers, &w);
    json_open_object(&w, "unrouted");
    for (int o = 0; o < OUTCOMES; ++o) {
        uint64_t n = load_relaxed(&lb->unrouted[o]);

        if (n != 0)
            json_put_int(&w, outcome_text((enum outcome)o), (int64_t)n);
    }
    json_close_object(&w);
    json_open_object(&w, "applications");
    for (size_t i = 0; i < lb->napplications; ++i)
        put_application(&w, lb->applications[i], choice);
    json_close_object(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
}

void status_resumes(struct lb *lb, struct text *out)
{
    struct json_writer w = {.out = out};

    json_open_object(&w, NULL);
    json_open_object(&w, "applications");
    for (size_t i = 0; i < lb->napplications; ++i) {
        struct pool_view pv;

        pool_scan(lb->applications[i]->pool, true, &pv);
        json_open_object(&w, lb->applications[i]->name);
        for (size_t k = 0; k < pv.n; ++k) {
            const struct resume *r = &pv.workers[k].skills;

            json_open_object(&w, pv.workers[k].name);
            for (size_t n = 0; n < r->n; ++n)
                json_put_real_named(&w, r->rows[n].cls, r->rows[n].score);
            json_close_object(&w);
        }
        json_close_object(&w);
        pool_view_fini(&pv);
    }
    json_close_object(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
}
