/* SPDX-License-Identifier: Apache-2.0
 *
 * /metrics: the metrics of stats.def, and further ones that have labels of their own or are
 * read from elsewhere. Labels are names of the configuration, constants, or classes: at most
 * CLASS_BYTES_MAX bytes of visible ASCII (classify.c). The names of groups of classes have a
 * blank, which no class has.
 */
#include "lb/status/status.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/tree/tree.h"
#include "lb/access/access_log.h"
#include "lb/backends/member.h"
#include "lb/backends/membership.h"
#include "lb/core/limits_live.h"
#include "lb/limits/rate_rule.h"
#include "lb/request/front.h"
#include "lb/status/class_metrics.h"
#include "lb/status/observer.h"

#define PREFIX "resumelb"

/* Maximum series of a metric of workers: those of the first workers of an application. */
enum { WORKER_SERIES_MAX = 1000 };

static const char NO_CLASS[] = "no class";
static const char OTHERS[] = "other classes";

struct limit_page {
    struct limit_view view;
    const struct limit *limit;
    struct limit_settings s; /* those of LIMIT, which owns their texts */
};

struct app_page {
    struct application *app;
    struct text label_text;
    struct slice labels;
    struct pool_view pool;
    struct response_store_stats stored;
    struct limit_page *limits; /* NLIMITS of them */
    size_t nlimits;
};

/* Data of one page, read once, so that its metrics are consistent. */
struct page {
    struct lb *lb;
    size_t n; /* applications */
    struct app_page *apps;
    struct http_server_counts counts; /* of all fronts */
};

/* For metrics of applications; CONTEXT is a struct page. */
#define app_page_for_each(a, context)                                                              \
    for (const struct app_page *a = ((const struct page *)(context))->apps,                        \
                               *end = a + ((const struct page *)(context))->n;                     \
         a < end; ++a)

/* ---- the program ---- */

static void each_front(struct metrics *m, const void *context)
{
    metrics_put(m, &((const struct page *)context)->counts, SLICE_NULL, SLICE_NULL);
}

static void each_rejection(struct metrics *m, const void *context)
{
    const struct page *p = context;

    for (int i = FAULT_NONE + 1; i < FAULT_COUNT; ++i)
        metrics_put_number(m, p->counts.rejected[i], SLICE_NULL,
                           slice_of(request_fault_text((enum request_fault)i)));
}

static void each_tls_version(struct metrics *m, const void *context)
{
    const struct page *p = context;

    metrics_put_number(m, p->counts.tls12, SLICE_NULL, SLICE_LIT("1.2"));
    metrics_put_number(m, p->counts.tls13, SLICE_NULL, SLICE_LIT("1.3"));
}

static void each_tls_failure(struct metrics *m, const void *context)
{
    const struct page *p = context;

    for (int i = 0; i < TLS_FAILURES; ++i)
        metrics_put_number(m, p->counts.tls_failed[i], SLICE_NULL,
                           slice_of(tls_failure_text((enum tls_failure)i)));
}

/* Outcomes of requests without an application. */
static void each_unrouted_outcome(struct metrics *m, const void *context)
{
    const struct page *p = context;

    for (int o = 0; o < OUTCOMES; ++o) {
        uint64_t n = load_relaxed(&p->lb->unrouted[o]);

        if (n != 0 || o == OUTCOME_NO_APPLICATION)
            metrics_put_number(m, n, SLICE_NULL, slice_of(outcome_text((enum outcome)o)));
    }
}

static void each_line_outcome(struct metrics *m, const void *context)
{
    const struct page *p = context;
    struct access_counts c = {0};

    if (p->lb->access_log != NULL)
        access_log_count(p->lb->access_log, &c);
    metrics_put_number(m, c.written, SLICE_NULL, SLICE_LIT("written"));
    metrics_put_number(m, c.dropped, SLICE_NULL, SLICE_LIT("dropped"));
    metrics_put_number(m, c.left_out, SLICE_NULL, SLICE_LIT("left-out"));
}

static void each_lb(struct metrics *m, const void *context)
{
    metrics_put(m, ((const struct page *)context)->lb, SLICE_NULL, SLICE_NULL);
}

/* ---- applications ---- */

static void each_outcome(struct metrics *m, const void *context)
{
    app_page_for_each (a, context) {
        for (int o = 0; o < OUTCOMES; ++o) {
            uint64_t n = 0;

            for (unsigned k = 0; k < a->app->lb->nloops; ++k)
                n += load_relaxed(&a->app->loops[k].outcomes[o]);
            metrics_put_number(m, n, a->labels, slice_of(outcome_text((enum outcome)o)));
        }
    }
}

static void each_application(struct metrics *m, const void *context)
{
    app_page_for_each (a, context)
        metrics_put(m, a, a->labels, SLICE_NULL);
}

/* The object of a counter is a struct member, that of a gauge a struct worker_view. */
static void each_worker(struct metrics *m, const void *context)
{
    app_page_for_each (a, context) {
        for (size_t k = 0; k < a->pool.n && k < WORKER_SERIES_MAX; ++k) {
            const struct worker_view *w = &a->pool.workers[k];

            metrics_put(m, m->row->kind == STAT_COUNTER ? (const void *)member_of(w->worker) : w,
                        a->labels, slice_of(w->name));
        }
    }
}

static void each_pick(struct metrics *m, const void *context)
{
    app_page_for_each (a, context) {
        for (int r = 0; r < PICK_REASONS; ++r)
            metrics_put_number(m, a->pool.picks[r], a->labels,
                               slice_of(pick_reason_text((enum pick_reason)r)));
    }
}

static double oldest_s(const void *object)
{
    const struct worker_view *w = object;
    uint64_t now_ms = clock_mono_us() / 1000;
    uint64_t oldest_ms = w->oldest_us / 1000;

    return oldest_ms != 0 && now_ms > oldest_ms ? (double)(now_ms - oldest_ms) / 1000 : 0;
}

static double count_tunnels(const void *object)
{
    return tunnel_limit_open(&member_of(((const struct worker_view *)object)->worker)->tunnels);
}

/* Visits each application with a tree. The object is a struct membership_figures, of which the
 * first member is a struct tree_status. */
static void each_tree(struct metrics *m, const void *context)
{
    app_page_for_each (a, context) {
        const struct membership *ms = a->app->membership;
        struct membership_figures f;

        if (ms != NULL && membership_figures(ms, &f))
            metrics_put(m, &f, a->labels, SLICE_NULL);
    }
}

static void each_discovery(struct metrics *m, const void *context)
{
    const struct page *p = context;

    for (size_t i = 0; i < p->n; ++i) {
        struct membership_figures f;

        if (p->apps[i].app->membership == NULL)
            continue;
        (void)membership_figures(p->apps[i].app->membership, &f);
        metrics_put(m, &f, p->apps[i].labels, SLICE_NULL);
    }
}

/* ---- limits and rates ---- */

static void each_limit(struct metrics *m, const void *context)
{
    app_page_for_each (a, context) {
        for (size_t k = 0; k < a->nlimits; ++k)
            metrics_put(m, &a->limits[k], a->labels, slice_of(a->limits[k].limit->name));
    }
}

static void each_limit_daemon(struct metrics *m, const void *context)
{
    struct limit_daemon_view daemons[POOL_COUNTER_SERVERS_MAX];

    app_page_for_each (a, context) {
        size_t n = limit_daemons(a->app, daemons);

        for (size_t k = 0; k < n; ++k)
            metrics_put(m, &daemons[k], a->labels, daemons[k].name);
    }
}

static void each_rate(struct metrics *m, const void *context)
{
    app_page_for_each (a, context) {
        const struct rate_rules *r = a->app->settings->rates;

        for (size_t k = 0; r != NULL && k < r->n; ++k) {
            struct rate_view v;

            rate_counter_view(r->rules[k].counter, &v);
            metrics_put(m, &v, a->labels, slice_of(r->rules[k].name));
        }
    }
}

/* ---- classes ---- */

struct classes_page {
    struct metrics *m;
    const struct app_page *app;
};

static void put_class(void *context, const char *cls, const struct class_figures *f)
{
    const struct classes_page *c = context;
    const char *name = cls == NULL ? OTHERS : cls;
    struct pool_class_view v;

    if (cls != NULL && *cls == '\0')
        name = NO_CLASS;
    /* All but the number of its workers are members of F. */
    if (c->m->row->type != METRIC_GET) {
        metrics_put(c->m, f, c->app->labels, slice_of(name));
    } else if (cls != NULL) {
        pool_class_view(c->app->app->pool, slice_of(cls), &v);
        metrics_put_number(c->m, v.lives ? v.homes : v.total, c->app->labels, slice_of(name));
    }
}

/* Applications without metrics of classes have none to show. */
static void each_class(struct metrics *m, const void *context)
{
    app_page_for_each (a, context) {
        const struct lb *lb = a->app->lb;
        struct classes_page c = {m, a};

        if (a->app->settings->s.metrics_classes != 0)
            class_metrics_each(observer_class_metrics(lb->observer, a->app->number), put_class, &c);
    }
}

/* ---- the table ---- */

/* clang-format off */
#define LABELLED(name, unit, label, each, doc) {name, STAT_COUNTER, unit, label, doc, each, METRIC_GET, 0, 0, NULL}
#define FRONTS(name, unit, member, doc) {name, STAT_COUNTER, unit, NULL, doc, each_front, METRIC_MEMBER(COUNT, struct http_server_counts, member)}
#define LB(name, unit, member, doc) {name, STAT_GAUGE, unit, NULL, doc, each_lb, METRIC_MEMBER(ATOMIC, struct lb, member)}
#define POOL(name, kind, unit, type, member, doc) {name, STAT_##kind, unit, NULL, doc, each_application, METRIC_MEMBER(type, struct app_page, pool.member)}
#define WORKER(name, unit, type, member, doc) {name, STAT_GAUGE, unit, "worker", doc, each_worker, METRIC_MEMBER(type, struct worker_view, member)}
#define MEMBER(name, unit, type, field, doc) {name, STAT_COUNTER, unit, "worker", doc, each_worker, METRIC_MEMBER(type, struct member, field)}
#define TREE(name, unit, member, doc) {name, STAT_GAUGE, unit, NULL, doc, each_tree, METRIC_MEMBER(COUNT, struct membership_figures, member)}
#define DISCOVERY(name, unit, member, doc) {name, STAT_GAUGE, unit, NULL, doc, each_discovery, METRIC_MEMBER(COUNT, struct membership_figures, member)}
#define LIMIT_SETTING(name, member, doc) {name, STAT_GAUGE, "requests", "limit", doc, each_limit, METRIC_MEMBER(COUNT, struct limit_page, s.member)}
#define LIMIT_DAEMON(name, unit, member, doc) {name, STAT_GAUGE, unit, "server", doc, each_limit_daemon, METRIC_MEMBER(COUNT, struct limit_daemon_view, now.member)}
#define RATE(name, kind, unit, member, doc) {name, STAT_##kind, unit, "rate", doc, each_rate, METRIC_MEMBER(COUNT, struct rate_view, member)}
#define CLASS(name, unit, type, member, doc) {name, STAT_COUNTER, unit, "class", doc, each_class, METRIC_MEMBER(type, struct class_figures, member)}

static const struct metric metrics[] = {
    FRONTS("client_connections_total", "connections", accepted, "Connections of clients."),
    FRONTS("client_header_timeouts_total", "connections", header_timeouts, "Connections closed because a request's head was too slow (header_timeout)."),
    FRONTS("client_body_timeouts_total", "connections", body_timeouts, "Requests rejected because their body was not complete in time (body_timeout); those below min_body_rate are in client_rejected_total."),
    FRONTS("client_send_timeouts_total", "connections", send_timeouts, "Connections closed because the client read nothing of a response for send_timeout."),
    FRONTS("client_slow_readers_total", "connections", slow_readers, "Connections closed because the client read its responses more slowly than min_send_rate."),
    FRONTS("client_resets_total", "connections", resets, "HTTP/2 connections closed because the client abandoned most of many requests."),
    FRONTS("client_abandoned_total", "requests", abandoned, "Requests of clients that left before the response was complete."),
    FRONTS("accept_pauses_total", "pauses", accept_pauses, "Times accepting paused: too many connections, or no descriptors."),
    LB("body_memory_bytes", "bytes", body_totals.memory_bytes, "Memory of the bodies of requests in progress (request_buffers_total)."),
    LB("body_file_bytes", "bytes", body_totals.file_bytes.used, "Bytes of request bodies in files (body_spill_total)."),
    LB("body_files", "files", body_totals.files.used, "Files of request and response bodies, one descriptor each; at most 1,024, and an eighth of the descriptors that are not reserved."),
    LABELLED("tls_handshakes_total", "handshakes", "version", each_tls_version, "Completed TLS handshakes, by version."),
    FRONTS("tls_resumed_total", "handshakes", tls_resumed, "Of those: with a resumed session."),
    LABELLED("tls_failures_total", "handshakes", "reason", each_tls_failure, "TLS handshakes that failed."),
    LABELLED("client_rejected_total", "requests", "reason", each_rejection, "Requests rejected as invalid, before an application was selected."),
    LABELLED("outcomes_total", "requests", "outcome", each_outcome, "How requests ended."),
    LABELLED("unrouted_total", "requests", "outcome", each_unrouted_outcome, "How requests without an application ended."),
    METRIC_LOG_DROPPED(each_lb),
    METRIC_STATE_UNSAVED(each_lb),
    LABELLED("access_log_lines_total", "lines", "fate", each_line_outcome, "Lines of the access log: written, dropped because the file was too slow or could not be written, left out by access_log_sample."),
    LABELLED("picks_total", "picks", "reason", each_pick, "Workers selected, by reason."),
    POOL("pool_backlog", GAUGE, "requests", COUNT, backlog, "Requests in flight at workers."),
    POOL("pool_mean_backlog", GAUGE, "requests", REAL, mean_backlog, "The decayed mean of the pool's backlog."),
    POOL("pool_workers", GAUGE, "workers", COUNT, n, "Workers in the pool."),
    POOL("pool_workers_active", GAUGE, "workers", COUNT, nactive, "Workers that may be selected."),
    POOL("pool_classes", GAUGE, "classes", COUNT, classes, "Classes with scores."),
    POOL("pool_waiting", GAUGE, "requests", COUNT, waiting, "Requests that wait for any worker."),
    POOL("shadow_picks_total", COUNTER, "picks", COUNT, shadow.requests, "Selections that shadow_policy has made too."),
    POOL("shadow_differed_total", COUNTER, "picks", COUNT, shadow.differed, "Of these, those where it selected another worker."),
    POOL("shadow_policy_skilled_total", COUNTER, "picks", COUNT, shadow.live_skilled, "Of these, those where policy selected a worker that had a request of the class among its last 256."),
    POOL("shadow_skilled_total", COUNTER, "picks", COUNT, shadow.shadow_skilled, "Of these, those where shadow_policy selected such a worker, by its own selections."),
    POOL("shadow_policy_wait_seconds_total", COUNTER, "seconds", TIME, shadow.live_wait_us, "How long these waited at their workers, if workers serve in order, as many at once as they have threads."),
    POOL("shadow_wait_seconds_total", COUNTER, "seconds", TIME, shadow.shadow_wait_us, "How long they would have waited at the workers of shadow_policy, each with its actual service time."),
    POOL("shadow_overdue_total", COUNTER, "requests", COUNT, shadow.overdue, "Requests that shadow_policy ended early, because too many had ended in fact but not by its selections: a worker would have been overloaded."),
    WORKER("worker_backlog", "requests", COUNT, backlog, "Requests in flight."),
    WORKER("worker_mean_backlog", "requests", REAL, mean_backlog, "The decayed mean of the backlog."),
    {"worker_oldest_request_seconds", STAT_GAUGE, "seconds", "worker", "Age of the oldest request in flight that has no response yet: of a response in progress (a stream, a tunnel, a download) the worker has sent the head.", each_worker, .get = oldest_s},
    WORKER("worker_skills", "classes", COUNT, nskills, "Classes the worker has a score for."),
    WORKER("worker_available", "yes or no", COUNT, available, "0: ejected, unhealthy, draining or silent."),
    MEMBER("worker_requests_total", "requests", ATOMIC, requests, "Requests served."),
    MEMBER("worker_failures_total", "requests", ATOMIC, failures, "Responses 5xx, and requests without a complete response."),
    MEMBER("worker_service_seconds_total", "seconds", ATOMIC_TIME, service_us, "Time spent on requests."),
    {"worker_tunnels", STAT_GAUGE, "tunnels", "worker", "Upgraded connections (WebSocket) to it.", each_worker, .get = count_tunnels},
    DISCOVERY("held_workers", "workers", held, "Workers that are held although no source reports them any more."),
    DISCOVERY("called_workers", "workers", called, "Workers registered by calls at the admin address."),
    DISCOVERY("failing_names", "names", failing, "Listed host names and services with a last response that failed or was empty."),
    TREE("tree_registered", "yes or no", registered, "1: this load balancer is registered under all its names."),
    TREE("tree_providers", "workers", providers, "Workers registered."),
    TREE("tree_rejected_providers", "providers", rejected, "Registrations rejected: of another application, or with a name that has no permitted address."),
    TREE("tree_held_workers", "workers", held, "Workers that are held although their registration ended, because many ended at once."),
    TREE("tree_remembered", "yes or no", remembered, "1: the tree has not responded yet; workers and settings are those of the cached snapshot."),
#define LIMIT_FIGURE(member, json, type, name, kind, unit, doc) {name, STAT_##kind, unit, "limit", doc, each_limit, METRIC_MEMBER(type, struct limit_page, view.member)},
#include "lb/core/limit_figure.def"
    LIMIT_SETTING("limit_workers", workers, "The setting workers: how many may hold one key."),
    LIMIT_SETTING("limit_maxqueue", maxqueue, "The setting maxqueue: how many may hold one key or wait for it."),
    LIMIT_SETTING("limit_slots", slots, "The setting slots: how many may hold it, all keys together; 0: any number."),
    LIMIT_DAEMON("pool_counter_server_connections", "connections", connections, "Connections to a pool counter daemon."),
    LIMIT_DAEMON("pool_counter_server_idle", "connections", idle, "Of these, idle."),
    LIMIT_DAEMON("pool_counter_server_suspended", "yes or no", suspended, "1: the daemon is suspended because it failed repeatedly."),
#define STORED_FIGURE(member, name, kind, unit, doc) {name, STAT_##kind, unit, NULL, doc, each_application, METRIC_MEMBER(COUNT, struct app_page, stored.member)},
#include "lb/core/limit_figure.def"
    RATE("rate_passed_total", COUNTER, "requests", passed, "Requests that a rate admitted."),
    RATE("rate_rejected_total", COUNTER, "requests", rejected, "Requests that a rate rejected."),
    RATE("rate_shadow_rejected_total", COUNTER, "requests", shadow_rejected, "Requests that a rate with shadow: true would have rejected."),
    RATE("rate_keys", GAUGE, "keys", keys, "Keys with a count."),
    RATE("rate_evicted_total", COUNTER, "keys", evicted, "Keys that were dropped to make room: max_keys may be too small."),
};

static const struct metric of_classes[] = {
    CLASS("class_requests_total", "requests", WHOLE, requests, "Requests of the class."),
    CLASS("class_failures_total", "requests", WHOLE, failed, "Of these: responses 5xx, and those without a complete response."),
    CLASS("class_limited_total", "requests", WHOLE, limited, "Of these: ended at a limit or a rate, or waited a millisecond or more for one."),
    CLASS("class_waited_total", "requests", WHOLE, waited, "Of these: waited a millisecond or more until a worker was selected."),
    CLASS("class_skilled_total", "requests", WHOLE, skilled, "Of these: sent to a worker that is skilled at the class."),
    CLASS("class_overflow_total", "requests", WHOLE, overflow, "Of these: sent to another worker, because the skilled ones were overloaded."),
    CLASS("class_unskilled_total", "requests", WHOLE, unskilled, "Of these: sent to a worker for any other reason, for example the first of a class."),
    CLASS("class_seconds_total", "seconds", MICROS, seconds, "Time from a request's arrival to the last byte read by the client; divided by class_requests_total, the mean."),
    CLASS("class_wait_seconds_total", "seconds", MICROS, wait_seconds, "Of it: waiting for a worker and a connection to it."),
    {"class_workers", STAT_GAUGE, "workers", "class", "Workers of the class: its homes with policy adaptive, else the eligible ones with a score for it.", each_class, METRIC_GET, 0, 0, NULL},
};
/* clang-format on */

/* ---- the page ---- */

_Static_assert(offsetof(struct membership_figures, tree) == 0, "objects of each_tree");

void status_metrics(struct lb *lb, struct metrics *m)
{
    struct page p = {.lb = lb, .n = lb->napplications};
    struct stats_set *sets = xcalloc(p.n + 1, sizeof(*sets));

    m->prefix = PREFIX;
    p.apps = xcalloc(p.n + 1, sizeof(*p.apps));
    for (size_t i = 0; i < p.n; ++i) {
        struct app_page *a = &p.apps[i];
        const struct limit_set *r = lb->applications[i]->settings->limits;

        a->app = lb->applications[i];
        metrics_add_label(&a->label_text, "application", slice_of(a->app->name));
        a->labels = text_slice(&a->label_text);
        sets[i] = (struct stats_set){a->app->stats, a->labels};
        pool_scan(a->app->pool, false, &a->pool);
        response_store_read_stats(a->app->store, &a->stored);
        a->nlimits = r != NULL ? r->n : 0;
        a->limits = xcalloc(a->nlimits + 1, sizeof(*a->limits));
        for (size_t k = 0; k < a->nlimits; ++k) {
            a->limits[k].limit = &r->limits[k];
            a->limits[k].s = r->limits[k].s;
            limit_view(&r->limits[k], clock_mono_us(), &a->limits[k].view, NULL);
        }
    }
    /* All members of the struct are such numbers. */
    for (unsigned i = 0; lb->fronts_up && i < lb->nloops; ++i) {
        struct http_server_counts c;
        const uint64_t *from = (const void *)&c;
        uint64_t *to = (void *)&p.counts;

        front_read_counts(lb->loops[i].front, &c);
        for (size_t k = 0; k < sizeof(c) / sizeof(*from); ++k)
            to[k] += from[k];
    }
    metrics_put_stats(m, sets, p.n);
    metrics_put_all(m, metrics, ARRAY_LEN(metrics), &p);
    metrics_put_all(m, of_classes, ARRAY_LEN(of_classes), &p);
    for (size_t i = 0; i < TREE_METRICS; ++i) {
        metrics_begin(m, &tree_metrics[i]);
        each_tree(m, &p);
    }
    free(sets);
    for (size_t i = 0; i < p.n; ++i) {
        pool_view_fini(&p.apps[i].pool);
        text_fini(&p.apps[i].label_text);
        free(p.apps[i].limits);
    }
    free(p.apps);
}

void status_metrics_describe(FILE *out)
{
    metrics_describe_stats(PREFIX, &application_stats, out);
    fprintf(
        out,
        "\nMetrics of clients, of the pool, and those with their own label; of workers, the first "
        "%d of an application.\n\n",
        WORKER_SERIES_MAX);
    metrics_describe_head(out);
    metrics_describe(PREFIX, metrics, ARRAY_LEN(metrics), out);
    fprintf(out,
            "\nMetrics of classes: of each application the busiest `metrics_classes`, by `class`; "
            "the sum of "
            "the others is `%s`, requests without a class are `%s`. A class keeps its series until "
            "another has %d times as many requests over the last %d s or so (at most one in 10 s "
            "is replaced), and one that was replaced begins at 0 when it returns; the sum over "
            "`class` is the application's. Above some thousand requests a second requests are "
            "sampled, so these metrics are estimates; those by application are not.\n\n",
            OTHERS, NO_CLASS, CLASS_METRICS_LEAD, CLASS_METRICS_FADE_S);
    metrics_describe_head(out);
    metrics_describe(PREFIX, of_classes, ARRAY_LEN(of_classes), out);
    metrics_describe(PREFIX, tree_metrics, TREE_METRICS, out);
}
