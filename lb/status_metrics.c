/* SPDX-License-Identifier: Apache-2.0
 *
 * /metrics: the figures of stats.def, and those beside them that have labels of their own.
 */
#include "lb/status.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "lb/member.h"

/* Series of one family for workers; an application with more has its first ones shown. */
enum { WORKER_SERIES_MAX = 1000 };

/* In a label's value, backslash, quote and line end are escaped. */
static void add_label(struct text *out, const char *name, const char *value)
{
    text_addf(out, "%s=\"", name);
    for (const char *p = value; *p != '\0'; ++p) {
        if (*p == '\n') {
            text_add(out, SLICE_LIT("\\n"));
            continue;
        }
        if (*p == '\\' || *p == '"')
            text_add_char(out, '\\');
        text_add_char(out, *p);
    }
    text_add_char(out, '"');
}

static void add_family(struct text *out, const char *name, const char *kind, const char *doc)
{
    text_addf(out, "# HELP resumelb_%s %s\n# TYPE resumelb_%s %s\n", name, doc, name, kind);
}

/* "resumelb_NAME{application=...,LABEL=VALUE} " */
static void add_series(struct text *out, const char *name, const char *application,
                       const char *label, const char *value)
{
    text_addf(out, "resumelb_%s{", name);
    add_label(out, "application", application);
    if (label != NULL) {
        text_add_char(out, ',');
        add_label(out, label, value);
    }
    text_add(out, SLICE_LIT("} "));
}

static void add_outcomes(const struct lb *lb, struct text *out)
{
    add_family(out, "outcomes_total", "counter", "How requests ended.");
    for (size_t i = 0; i < lb->napplications; ++i) {
        struct application *a = lb->applications[i];

        for (int o = 0; o < OUTCOMES; ++o) {
            uint64_t n = 0;

            for (unsigned k = 0; k < lb->nloops; ++k)
                n += atomic_load_explicit(&a->loops[k].outcomes[o], memory_order_relaxed);
            add_series(out, "outcomes_total", a->name, "outcome", outcome_text((enum outcome)o));
            text_addf(out, "%llu\n", (unsigned long long)n);
        }
    }
}

static void add_unrouted(struct lb *lb, struct text *out)
{
    add_family(out, "unrouted_total", "counter", "How requests ended that no application had.");
    for (int o = 0; o < OUTCOMES; ++o) {
        uint64_t n = atomic_load_explicit(&lb->unrouted[o], memory_order_relaxed);

        if (n == 0 && o != OUTCOME_NO_APPLICATION)
            continue;
        text_add(out, SLICE_LIT("resumelb_unrouted_total{"));
        add_label(out, "outcome", outcome_text((enum outcome)o));
        text_addf(out, "} %llu\n", (unsigned long long)n);
    }
}

static void add_picks(const struct lb *lb, const struct pool_view *views, struct text *out)
{
    add_family(out, "picks_total", "counter", "Workers picked, by reason.");
    for (size_t i = 0; i < lb->napplications; ++i) {
        for (int r = 0; r < PICK_REASONS; ++r) {
            add_series(out, "picks_total", lb->applications[i]->name, "reason",
                       pick_reason_text((enum pick_reason)r));
            text_addf(out, "%llu\n", (unsigned long long)views[i].picks[r]);
        }
    }
}

struct pool_figure {
    const char *name, *doc;
    double (*get)(const struct pool_view *v);
};

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

static double pool_waiting(const struct pool_view *v)
{
    return (double)v->waiting;
}

static const struct pool_figure pool_figures[] = {
    {"pool_backlog", "Requests handed to workers and not finished.", pool_backlog},
    {"pool_mean_backlog", "The decayed average of the pool's backlog.", pool_mean_backlog},
    {"pool_workers", "Workers in the pool.", pool_workers},
    {"pool_workers_active", "Workers that may be picked.", pool_active},
    {"pool_classes", "Classes with scores.", pool_classes},
    {"pool_waiting", "Requests that wait for any worker.", pool_waiting},
};

static void add_pools(const struct lb *lb, const struct pool_view *views, struct text *out)
{
    for (size_t f = 0; f < ARRAY_LEN(pool_figures); ++f) {
        add_family(out, pool_figures[f].name, "gauge", pool_figures[f].doc);
        for (size_t i = 0; i < lb->napplications; ++i) {
            add_series(out, pool_figures[f].name, lb->applications[i]->name, NULL, NULL);
            text_addf(out, "%.9g\n", pool_figures[f].get(&views[i]));
        }
    }
}

struct worker_figure {
    const char *name, *kind, *doc;
    double (*get)(const struct worker_view *v);
};

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

    return v->oldest_ms != 0 && now_ms > v->oldest_ms ? (double)(now_ms - v->oldest_ms) / 1000 : 0;
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

static const struct worker_figure worker_figures[] = {
    {"worker_backlog", "gauge", "Requests in hand.", worker_backlog},
    {"worker_mean_backlog", "gauge", "The decayed average of the backlog.", worker_mean_backlog},
    {"worker_oldest_request_seconds", "gauge", "Age of the oldest request in hand.", worker_oldest},
    {"worker_skills", "gauge", "Classes the worker has a score for.", worker_skills},
    {"worker_available", "gauge", "0: ejected, draining or silent.", worker_available},
    {"worker_requests_total", "counter", "Requests served.", worker_requests},
    {"worker_failures_total", "counter", "Answers 5xx, and requests without a whole answer.",
     worker_failures},
    {"worker_service_seconds_total", "counter", "Time spent on requests.", worker_service},
};

static void add_workers(const struct lb *lb, const struct pool_view *views, struct text *out)
{
    for (size_t f = 0; f < ARRAY_LEN(worker_figures); ++f) {
        const struct worker_figure *figure = &worker_figures[f];

        add_family(out, figure->name, figure->kind, figure->doc);
        for (size_t i = 0; i < lb->napplications; ++i) {
            for (size_t k = 0; k < views[i].n && k < WORKER_SERIES_MAX; ++k) {
                add_series(out, figure->name, lb->applications[i]->name, "worker",
                           views[i].workers[k].name);
                text_addf(out, "%.15g\n", figure->get(&views[i].workers[k]));
            }
        }
    }
}

static void add_stats(const struct lb *lb, struct text *out)
{
    struct stats_set *sets = xcalloc(lb->napplications + 1, sizeof(*sets));
    struct text *labels = xcalloc(lb->napplications + 1, sizeof(*labels));

    for (size_t i = 0; i < lb->napplications; ++i) {
        add_label(&labels[i], "application", lb->applications[i]->name);
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

    for (size_t i = 0; i < lb->napplications; ++i)
        pool_view(lb->applications[i]->pool, false, &views[i]);
    add_stats(lb, out);
    add_outcomes(lb, out);
    add_unrouted(lb, out);
    add_picks(lb, views, out);
    add_pools(lb, views, out);
    add_workers(lb, views, out);
    for (size_t i = 0; i < lb->napplications; ++i)
        pool_view_fini(&views[i]);
    free(views);
}
