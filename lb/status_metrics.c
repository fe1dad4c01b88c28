/* SPDX-License-Identifier: Apache-2.0
 *
 * /metrics: the figures of stats.def, and those beside them that have labels of their own or are
 * read from elsewhere: `families`.
 */
#include "lb/status.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/tree/tree_figures.h"
#include "lb/access_log.h"
#include "lb/class_metrics.h"
#include "lb/lb_parts.h"
#include "lb/limit_status.h"
#include "lb/member.h"
#include "lb/membership.h"
#include "lb/rate_status.h"

/* Series of one family for workers; an application with more has its first ones shown. */
enum { WORKER_SERIES_MAX = 1000 };

/* In a label's value, backslash, quote and line end are escaped. */
void status_add_label(struct text *out, const char *name, struct slice value)
{
    text_addf(out, "%s=\"", name);
    for (size_t i = 0; i < value.len; ++i) {
        if (value.p[i] == '\n') {
            text_add(out, SLICE_LIT("\\n"));
            continue;
        }
        if (value.p[i] == '\\' || value.p[i] == '"')
            text_add_char(out, '\\');
        text_add_char(out, value.p[i]);
    }
    text_add_char(out, '"');
}

/* What one page is made of. */
struct page {
    struct lb *lb;
    const struct pool_view *views;    /* per application */
    struct http_server_counts counts; /* of all fronts */
    struct text *out;
};

/* A figure that stats.def cannot hold, for its labels or because it is read from elsewhere. */
struct family {
    const char *name, *kind, *unit;
    const char *label; /* beside "application"; NULL: none */
    const char *doc;
    void (*add)(const struct page *p, const struct family *f);
    /* What add_fronts, add_pools, add_workers and add_trees show. */
    uint64_t (*of_fronts)(const struct http_server_counts *c);
    double (*of_pool)(const struct pool_view *v);
    double (*of_worker)(const struct worker_view *v);
    uint64_t (*of_tree)(const struct membership_figures *m);
};

/* "resumelb_NAME{application=...,LABEL=VALUE} "; APPLICATION and VALUE may be NULL. */
static void add_series(struct text *out, const struct family *f, const char *application,
                       const char *value)
{
    text_addf(out, "resumelb_%s", f->name);
    if (application == NULL && value == NULL) {
        text_add_char(out, ' ');
        return;
    }
    text_add_char(out, '{');
    if (application != NULL)
        status_add_label(out, "application", slice_of(application));
    if (application != NULL && value != NULL)
        text_add_char(out, ',');
    if (value != NULL)
        status_add_label(out, f->label, slice_of(value));
    text_add(out, SLICE_LIT("} "));
}

static void add_outcomes(const struct page *p, const struct family *f)
{
    for (size_t i = 0; i < p->lb->napplications; ++i) {
        struct application *a = p->lb->applications[i];

        for (int o = 0; o < OUTCOMES; ++o) {
            uint64_t n = 0;

            for (unsigned k = 0; k < p->lb->nloops; ++k)
                n += atomic_load_explicit(&a->loops[k].outcomes[o], memory_order_relaxed);
            add_series(p->out, f, a->name, outcome_text((enum outcome)o));
            text_addf(p->out, "%llu\n", (unsigned long long)n);
        }
    }
}

/* Nobody's: these have no application to name. */
static void add_unrouted(const struct page *p, const struct family *f)
{
    for (int o = 0; o < OUTCOMES; ++o) {
        uint64_t n = atomic_load_explicit(&p->lb->unrouted[o], memory_order_relaxed);

        if (n == 0 && o != OUTCOME_NO_APPLICATION)
            continue;
        add_series(p->out, f, NULL, outcome_text((enum outcome)o));
        text_addf(p->out, "%llu\n", (unsigned long long)n);
    }
}

static void add_access_lines(const struct page *p, const struct family *f)
{
    struct access_counts c = {0};

    if (p->lb->access_log != NULL)
        access_log_count(p->lb->access_log, &c);
    const struct {
        const char *fate;
        uint64_t n;
    } rows[] = {{"written", c.written}, {"dropped", c.dropped}, {"left-out", c.left_out}};

    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        add_series(p->out, f, NULL, rows[i].fate);
        text_addf(p->out, "%llu\n", (unsigned long long)rows[i].n);
    }
}

/* ---- clients ---- */

static void sum_counts(const struct lb *lb, struct http_server_counts *sum)
{
    for (unsigned i = 0; lb->parts->fronts_up && i < lb->nloops; ++i) {
        struct http_server_counts c;

        front_read_counts(lb->loops[i].front, &c);
        sum->accepted += c.accepted;
        sum->abandoned += c.abandoned;
        sum->header_timeouts += c.header_timeouts;
        sum->body_timeouts += c.body_timeouts;
        sum->send_timeouts += c.send_timeouts;
        sum->slow_readers += c.slow_readers;
        sum->resets += c.resets;
        sum->accept_pauses += c.accept_pauses;
        sum->tls12 += c.tls12;
        sum->tls13 += c.tls13;
        sum->tls_resumed += c.tls_resumed;
        for (size_t k = 0; k < TLS_FAILURES; ++k)
            sum->tls_failed[k] += c.tls_failed[k];
        for (size_t k = 0; k < FAULT_COUNT; ++k)
            sum->refused[k] += c.refused[k];
    }
}

static uint64_t fronts_accepted(const struct http_server_counts *c)
{
    return c->accepted;
}

static uint64_t fronts_abandoned(const struct http_server_counts *c)
{
    return c->abandoned;
}

static uint64_t fronts_header_timeouts(const struct http_server_counts *c)
{
    return c->header_timeouts;
}

static uint64_t fronts_body_timeouts(const struct http_server_counts *c)
{
    return c->body_timeouts;
}

static uint64_t fronts_send_timeouts(const struct http_server_counts *c)
{
    return c->send_timeouts;
}

static uint64_t fronts_slow_readers(const struct http_server_counts *c)
{
    return c->slow_readers;
}

static uint64_t fronts_resets(const struct http_server_counts *c)
{
    return c->resets;
}

static uint64_t fronts_accept_pauses(const struct http_server_counts *c)
{
    return c->accept_pauses;
}

static uint64_t fronts_tls_resumed(const struct http_server_counts *c)
{
    return c->tls_resumed;
}

static void add_fronts(const struct page *p, const struct family *f)
{
    add_series(p->out, f, NULL, NULL);
    text_addf(p->out, "%llu\n", (unsigned long long)f->of_fronts(&p->counts));
}

static void add_refused(const struct page *p, const struct family *f)
{
    for (int i = FAULT_NONE + 1; i < FAULT_COUNT; ++i) {
        add_series(p->out, f, NULL, request_fault_text((enum request_fault)i));
        text_addf(p->out, "%llu\n", (unsigned long long)p->counts.refused[i]);
    }
}

static void add_handshakes(const struct page *p, const struct family *f)
{
    add_series(p->out, f, NULL, "1.2");
    text_addf(p->out, "%llu\n", (unsigned long long)p->counts.tls12);
    add_series(p->out, f, NULL, "1.3");
    text_addf(p->out, "%llu\n", (unsigned long long)p->counts.tls13);
}

static void add_tls_failures(const struct page *p, const struct family *f)
{
    for (int i = 0; i < TLS_FAILURES; ++i) {
        add_series(p->out, f, NULL, tls_failure_text((enum tls_failure)i));
        text_addf(p->out, "%llu\n", (unsigned long long)p->counts.tls_failed[i]);
    }
}

/* ---- pools ---- */

static void add_picks(const struct page *p, const struct family *f)
{
    for (size_t i = 0; i < p->lb->napplications; ++i) {
        for (int r = 0; r < PICK_REASONS; ++r) {
            add_series(p->out, f, p->lb->applications[i]->name,
                       pick_reason_text((enum pick_reason)r));
            text_addf(p->out, "%llu\n", (unsigned long long)p->views[i].picks[r]);
        }
    }
}

static double pool_backlog(const struct pool_view *v)
{
    return (double)v->backlog;
}

static double pool_mean_backlog(const struct pool_view *v)
{
    return v->mean_backlog;
}

static double pool_workers(const struct pool_view *v)
{
    return (double)v->n;
}

static double pool_active(const struct pool_view *v)
{
    return (double)v->nactive;
}

static double pool_classes(const struct pool_view *v)
{
    return (double)v->classes;
}

static double shadow_requests(const struct pool_view *v)
{
    return (double)v->shadow.requests;
}

static double shadow_differed(const struct pool_view *v)
{
    return (double)v->shadow.differed;
}

static double shadow_policy_skilled(const struct pool_view *v)
{
    return (double)v->shadow.live_skilled;
}

static double shadow_skilled(const struct pool_view *v)
{
    return (double)v->shadow.shadow_skilled;
}

static double shadow_policy_wait(const struct pool_view *v)
{
    return (double)v->shadow.live_wait_us / 1e6;
}

static double shadow_wait(const struct pool_view *v)
{
    return (double)v->shadow.shadow_wait_us / 1e6;
}

static double shadow_overdue(const struct pool_view *v)
{
    return (double)v->shadow.overdue;
}

static double pool_waiting(const struct pool_view *v)
{
    return (double)v->waiting;
}

static void add_pools(const struct page *p, const struct family *f)
{
    for (size_t i = 0; i < p->lb->napplications; ++i) {
        add_series(p->out, f, p->lb->applications[i]->name, NULL);
        text_addf(p->out, "%.9g\n", f->of_pool(&p->views[i]));
    }
}

static double load(_Atomic uint64_t *n)
{
    return (double)atomic_load_explicit(n, memory_order_relaxed);
}

static double worker_backlog(const struct worker_view *v)
{
    return (double)v->backlog;
}

static double worker_mean_backlog(const struct worker_view *v)
{
    return v->mean_backlog;
}

static double worker_oldest(const struct worker_view *v)
{
    uint64_t now_ms = clock_mono_us() / 1000;
    uint64_t oldest_ms = v->oldest_us / 1000;

    return oldest_ms != 0 && now_ms > oldest_ms ? (double)(now_ms - oldest_ms) / 1000 : 0;
}

static double worker_skills(const struct worker_view *v)
{
    return (double)v->nskills;
}

static double worker_available(const struct worker_view *v)
{
    return v->available ? 1 : 0;
}

static double worker_requests(const struct worker_view *v)
{
    return load(&member_of(v->worker)->requests);
}

static double worker_failures(const struct worker_view *v)
{
    return load(&member_of(v->worker)->failures);
}

static double worker_service(const struct worker_view *v)
{
    return load(&member_of(v->worker)->service_us) / 1e6;
}

static double worker_tunnels(const struct worker_view *v)
{
    return tunnel_limit_open(&member_of(v->worker)->tunnels);
}

static void add_workers(const struct page *p, const struct family *f)
{
    for (size_t i = 0; i < p->lb->napplications; ++i) {
        const struct pool_view *v = &p->views[i];

        for (size_t k = 0; k < v->n && k < WORKER_SERIES_MAX; ++k) {
            add_series(p->out, f, p->lb->applications[i]->name, v->workers[k].name);
            text_add_real(p->out, f->of_worker(&v->workers[k]));
            text_add_char(p->out, '\n');
        }
    }
}

/* ---- trees ---- */

static uint64_t tree_registered_here(const struct membership_figures *f)
{
    return f->registered ? 1 : 0;
}

static uint64_t tree_providers(const struct membership_figures *f)
{
    return f->providers;
}

static uint64_t tree_refused(const struct membership_figures *f)
{
    return f->refused;
}

static uint64_t tree_held(const struct membership_figures *f)
{
    return f->held;
}

static uint64_t tree_remembered(const struct membership_figures *f)
{
    return f->remembered ? 1 : 0;
}

/* Of each application that has a tree. */
static void add_trees(const struct page *p, const struct family *f)
{
    for (size_t i = 0; i < p->lb->napplications; ++i) {
        const struct application *a = p->lb->applications[i];
        struct membership_figures figures;

        if (a->membership == NULL || !membership_figures(a->membership, &figures))
            continue;
        add_series(p->out, f, a->name, NULL);
        text_addf(p->out, "%llu\n", (unsigned long long)f->of_tree(&figures));
    }
}

/* What any program shows of its tree, by application. */
static void add_tree_figures(const struct lb *lb, struct text *out)
{
    for (size_t i = 0; i < TREE_FIGURES; ++i) {
        const struct tree_figure *t = &tree_figures[i];
        const struct family f = {.name = t->metric};

        text_addf(out, "# HELP resumelb_%s %s\n# TYPE resumelb_%s %s\n", t->metric, t->doc,
                  t->metric, t->kind);
        for (size_t k = 0; k < lb->napplications; ++k) {
            const struct application *a = lb->applications[k];
            struct membership_figures figures;

            if (a->membership == NULL || !membership_figures(a->membership, &figures))
                continue;
            add_series(out, &f, a->name, NULL);
            text_addf(out, "%llu\n", (unsigned long long)t->of(&figures.tree));
        }
    }
}

/* clang-format off */
#define FRONTS(name_, unit_, of_, doc_) {.name = name_, .kind = "counter", .unit = unit_, .doc = doc_, .add = add_fronts, .of_fronts = of_}
#define POOL(name_, unit_, of_, doc_) {.name = name_, .kind = "gauge", .unit = unit_, .doc = doc_, .add = add_pools, .of_pool = of_}
#define SHADOW(name_, unit_, of_, doc_) {.name = name_, .kind = "counter", .unit = unit_, .doc = doc_, .add = add_pools, .of_pool = of_}
#define WORKER(name_, kind_, unit_, of_, doc_) {.name = name_, .kind = kind_, .unit = unit_, .label = "worker", .doc = doc_, .add = add_workers, .of_worker = of_}
#define TREE(name_, unit_, of_, doc_) {.name = name_, .kind = "gauge", .unit = unit_, .doc = doc_, .add = add_trees, .of_tree = of_}

static const struct family families[] = {
    FRONTS("client_connections_total", "connections", fronts_accepted, "Connections of clients."),
    FRONTS("client_header_timeouts_total", "connections", fronts_header_timeouts, "Connections ended, their request's head being too slow."),
    FRONTS("client_body_timeouts_total", "connections", fronts_body_timeouts, "Requests refused, their body not being complete in time (body_timeout); those below min_body_rate are in client_refused_total."),
    FRONTS("client_send_timeouts_total", "connections", fronts_send_timeouts, "Connections cut, their client taking too little of a response."),
    FRONTS("client_slow_readers_total", "connections", fronts_slow_readers, "Connections cut, their client taking less of its responses than min_send_rate."),
    FRONTS("client_resets_total", "connections", fronts_resets, "HTTP/2 connections cut for abandoning most of many requests."),
    FRONTS("client_abandoned_total", "requests", fronts_abandoned, "Requests whose client left before it had the whole response."),
    FRONTS("accept_pauses_total", "pauses", fronts_accept_pauses, "Times accepting paused: too many connections, or no descriptors."),
    {"tls_handshakes_total", "counter", "handshakes", "version", "TLS handshakes finished, by version.", add_handshakes, NULL, NULL, NULL, NULL},
    FRONTS("tls_resumed_total", "handshakes", fronts_tls_resumed, "Of those: with a session of before."),
    {"tls_failures_total", "counter", "handshakes", "reason", "TLS handshakes not finished.", add_tls_failures, NULL, NULL, NULL, NULL},
    {"client_refused_total", "counter", "requests", "reason", "Requests refused as not valid, before any application had them.", add_refused, NULL, NULL, NULL, NULL},
    {"outcomes_total", "counter", "requests", "outcome", "How requests ended.", add_outcomes, NULL, NULL, NULL, NULL},
    {"unrouted_total", "counter", "requests", "outcome", "How requests ended that no application had.", add_unrouted, NULL, NULL, NULL, NULL},
    {"access_log_lines_total", "counter", "lines", "fate", "Lines of the access log: written, dropped because the file was too slow or took none, left out by access_log_sample.", add_access_lines, NULL, NULL, NULL, NULL},
    {"picks_total", "counter", "picks", "reason", "Workers picked, by reason.", add_picks, NULL, NULL, NULL, NULL},
    POOL("pool_backlog", "requests", pool_backlog, "Requests handed to workers and not finished."),
    POOL("pool_mean_backlog", "requests", pool_mean_backlog, "The decayed average of the pool's backlog."),
    POOL("pool_workers", "workers", pool_workers, "Workers in the pool."),
    POOL("pool_workers_active", "workers", pool_active, "Workers that may be picked."),
    POOL("pool_classes", "classes", pool_classes, "Classes with scores."),
    POOL("pool_waiting", "requests", pool_waiting, "Requests that wait for any worker."),
    SHADOW("shadow_picks_total", "picks", shadow_requests, "Picks that shadow_policy has made too."),
    SHADOW("shadow_differed_total", "picks", shadow_differed, "Of these, those where it named another worker."),
    SHADOW("shadow_policy_skilled_total", "picks", shadow_policy_skilled, "Of these, those where policy named a worker that had one of the class among its last 256 requests."),
    SHADOW("shadow_skilled_total", "picks", shadow_skilled, "Of these, those where shadow_policy named such a worker, by its own picks."),
    SHADOW("shadow_policy_wait_seconds_total", "seconds", shadow_policy_wait, "How long these waited at their workers, if workers serve in order, as many at once as they have threads."),
    SHADOW("shadow_wait_seconds_total", "seconds", shadow_wait, "How long they would have waited where shadow_policy put them, each served for as long as in truth."),
    SHADOW("shadow_overdue_total", "requests", shadow_overdue, "Requests that shadow_policy let end early, as too many had ended in truth and not by its picks: some worker would have had more than it can do."),
    WORKER("worker_backlog", "gauge", "requests", worker_backlog, "Requests in hand."),
    WORKER("worker_mean_backlog", "gauge", "requests", worker_mean_backlog, "The decayed average of the backlog."),
    WORKER("worker_oldest_request_seconds", "gauge", "seconds", worker_oldest, "Age of the oldest request in hand that has no response yet: of a response under way (a stream, a tunnel, a download) the worker has sent the head."),
    WORKER("worker_skills", "gauge", "classes", worker_skills, "Classes the worker has a score for."),
    WORKER("worker_available", "gauge", "yes or no", worker_available, "0: ejected, unhealthy, draining or silent."),
    WORKER("worker_requests_total", "counter", "requests", worker_requests, "Requests served."),
    WORKER("worker_failures_total", "counter", "requests", worker_failures, "Answers 5xx, and requests without a whole answer."),
    WORKER("worker_service_seconds_total", "counter", "seconds", worker_service, "Time spent on requests."),
    WORKER("worker_tunnels", "gauge", "tunnels", worker_tunnels, "Upgraded connections (WebSocket) to it."),
    TREE("tree_registered", "yes or no", tree_registered_here, "1: this load balancer is registered under all its names."),
    TREE("tree_providers", "workers", tree_providers, "Workers registered."),
    TREE("tree_refused_providers", "providers", tree_refused, "Registrations refused: of another application, or without an address for a name."),
    TREE("tree_held_workers", "workers", tree_held, "Workers kept although their registration vanished, with those of many others."),
    TREE("tree_remembered", "yes or no", tree_remembered, "1: the tree has not answered yet; workers and settings are those of another life."),
};
/* clang-format on */

static void add_stats(const struct lb *lb, struct text *out)
{
    struct stats_set *sets = xcalloc(lb->napplications + 1, sizeof(*sets));
    struct text *labels = xcalloc(lb->napplications + 1, sizeof(*labels));

    for (size_t i = 0; i < lb->napplications; ++i) {
        status_add_label(&labels[i], "application", slice_of(lb->applications[i]->name));
        sets[i] = (struct stats_set){lb->applications[i]->stats, text_cstr(&labels[i])};
    }
    stats_prometheus("resumelb", sets, lb->napplications, out);
    for (size_t i = 0; i < lb->napplications; ++i)
        text_fini(&labels[i]);
    free(labels);
    free(sets);
}

void status_metrics(struct lb *lb, struct text *out)
{
    struct pool_view *views = xcalloc(lb->napplications + 1, sizeof(*views));
    struct page page = {.lb = lb, .views = views, .out = out};

    for (size_t i = 0; i < lb->napplications; ++i)
        pool_look(lb->applications[i]->pool, false, &views[i]);
    add_stats(lb, out);
    sum_counts(lb, &page.counts);
    for (size_t i = 0; i < ARRAY_LEN(families); ++i) {
        const struct family *f = &families[i];

        text_addf(out, "# HELP resumelb_%s %s\n# TYPE resumelb_%s %s\n", f->name, f->doc, f->name,
                  f->kind);
        f->add(&page, f);
    }
    limit_metrics(lb, out);
    rate_metrics(lb, out);
    class_metrics_page(lb, out);
    add_tree_figures(lb, out);
    for (size_t i = 0; i < lb->napplications; ++i)
        pool_view_fini(&views[i]);
    free(views);
}

void status_metrics_describe(FILE *out)
{
    fprintf(out,
            "\nThose of clients, of the pool, and with a label of their own; of workers, the first "
            "%d of an "
            "application.\n\n"
            "| metric | kind | unit | label | meaning |\n| --- | --- | --- | --- | --- |\n",
            WORKER_SERIES_MAX);
    for (size_t i = 0; i < ARRAY_LEN(families); ++i) {
        const struct family *f = &families[i];

        fprintf(out, "| `resumelb_%s` | %s | %s | %s | %s |\n", f->name, f->kind, f->unit,
                f->label != NULL ? f->label : "", f->doc);
    }
    limit_metrics_describe(out);
    rate_metrics_describe(out);
    class_metrics_describe(out);
    tree_figures_describe("resumelb", "", out);
}
