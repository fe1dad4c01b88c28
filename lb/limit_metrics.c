/* SPDX-License-Identifier: Apache-2.0
 *
 * The families of pool counters, by application and counter; of their daemons, by application and
 * server; of copies, by application. Each counter is looked at once for a page: its figures are of
 * one moment. Names of counters are letters and digits, and at most LIMIT_RULES_MAX of an
 * application; those of servers are an operator's.
 */
#include "lb/limit_status.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "lb/lb.h"
#include "lb/status.h"

static void add_head(struct text *out, const char *name, const char *kind, const char *doc)
{
    text_addf(out, "# HELP resumelb_%s %s\n# TYPE resumelb_%s %s\n", name, doc, name, kind);
}

/* "resumelb_NAME{application=...,LABEL=VALUE} "; LABEL may be NULL. */
static void add_series(struct text *out, const char *name, const struct application *a,
                       const char *label, struct slice value)
{
    text_addf(out, "resumelb_%s{", name);
    status_add_label(out, "application", slice_of(a->name));
    if (label != NULL) {
        text_add_char(out, ',');
        status_add_label(out, label, value);
    }
    text_add(out, SLICE_LIT("} "));
}

/* ---- counters ---- */

static const struct limit_rules *rules_of(const struct application *a)
{
    static const struct limit_rules none = {.n = 0};

    return a->settings->limits != NULL ? a->settings->limits : &none;
}

static struct limit_view *view_all(const struct lb *lb)
{
    uint64_t now_us = clock_mono_us();
    size_t n = 0;

    for (size_t i = 0; i < lb->napplications; ++i)
        n += rules_of(lb->applications[i])->n;
    struct limit_view *views = xcalloc(n + 1, sizeof(*views));
    n = 0;
    for (size_t i = 0; i < lb->napplications; ++i) {
        const struct limit_rules *r = rules_of(lb->applications[i]);

        for (size_t k = 0; k < r->n; ++k)
            limit_view(&r->rules[k], now_us, &views[n++], NULL);
    }
    return views;
}

static void add_figure(const struct lb *lb, const struct limit_figure *f,
                       const struct limit_view *views, struct text *out)
{
    add_head(out, f->metric, f->kind, f->doc);
    for (size_t i = 0; i < lb->napplications; ++i) {
        const struct limit_rules *r = rules_of(lb->applications[i]);

        for (size_t k = 0; k < r->n; ++k) {
            uint64_t n = limit_figure_of(f, views++);

            add_series(out, f->metric, lb->applications[i], "counter", slice_of(r->rules[k].name));
            if (limit_figure_is_time(f))
                text_addf(out, "%.15g\n", (double)n / 1e6);
            else
                text_addf(out, "%" PRIu64 "\n", n);
        }
    }
}

/* What the figures are to be compared with. */
struct limit_setting {
    const char *metric, *doc;
    int64_t (*of)(const struct counter_settings *s);
};

static int64_t workers_of(const struct counter_settings *s)
{
    return s->workers;
}

static int64_t maxqueue_of(const struct counter_settings *s)
{
    return s->maxqueue;
}

static int64_t slots_of(const struct counter_settings *s)
{
    return s->slots;
}

static const struct limit_setting settings[] = {
    {"pool_limit_workers", "The setting workers: so many may hold one key.", workers_of},
    {"pool_limit_maxqueue", "The setting maxqueue: so many may hold one key or wait for it.",
     maxqueue_of},
    {"pool_limit_slots", "The setting slots: so many may hold it, all keys together; 0: any.",
     slots_of},
};

static void add_setting(const struct lb *lb, const struct limit_setting *s, struct text *out)
{
    add_head(out, s->metric, "gauge", s->doc);
    for (size_t i = 0; i < lb->napplications; ++i) {
        const struct limit_rules *r = rules_of(lb->applications[i]);

        for (size_t k = 0; k < r->n; ++k) {
            add_series(out, s->metric, lb->applications[i], "counter", slice_of(r->rules[k].name));
            text_addf(out, "%" PRId64 "\n", s->of(&r->rules[k].s));
        }
    }
}

/* ---- daemons ---- */

struct daemon_figure {
    const char *metric, *unit, *doc;
    uint64_t (*of)(const struct limit_daemon_view *v);
};

static uint64_t connections_of(const struct limit_daemon_view *v)
{
    return v->connections;
}

static uint64_t idle_of(const struct limit_daemon_view *v)
{
    return v->idle;
}

static uint64_t resting_of(const struct limit_daemon_view *v)
{
    return v->resting ? 1 : 0;
}

static const struct daemon_figure daemon_figures[] = {
    {"pool_limit_server_connections", "connections",
     "Connections to a pool counter daemon; at most a second old.", connections_of},
    {"pool_limit_server_idle", "connections", "Of these, kept for the next request.", idle_of},
    {"pool_limit_server_resting", "yes or no",
     "1: the daemon is left alone for a while, as it has failed too often.", resting_of},
};

static void add_daemons(const struct lb *lb, const struct daemon_figure *f, struct text *out)
{
    struct limit_daemon_view daemons[COUNTER_SERVERS_MAX];

    add_head(out, f->metric, "gauge", f->doc);
    for (size_t i = 0; i < lb->napplications; ++i) {
        size_t n = limit_daemons(lb->applications[i], daemons);

        for (size_t k = 0; k < n; ++k) {
            add_series(out, f->metric, lb->applications[i], "server", daemons[k].name);
            text_addf(out, "%" PRIu64 "\n", f->of(&daemons[k]));
        }
    }
}

/* ---- copies ---- */

struct copies_figure {
    const char *metric, *kind, *unit, *doc;
    uint64_t (*of)(const struct copies_stats *s);
};

#define COPIES_FIGURE(member, ...)                                                                 \
    static uint64_t copies_##member(const struct copies_stats *s)                                  \
    {                                                                                              \
        return s->member;                                                                          \
    }
#include "lb/limit_figure.def"

static const struct copies_figure copies_figures[] = {
#define COPIES_FIGURE(member, metric, kind, unit, doc) {metric, kind, unit, doc, copies_##member},
#include "lb/limit_figure.def"
};

static void add_copies(const struct lb *lb, const struct copies_figure *f, struct text *out)
{
    add_head(out, f->metric, f->kind, f->doc);
    for (size_t i = 0; i < lb->napplications; ++i) {
        struct copies_stats s;

        copies_read_stats(lb->applications[i]->copies, &s);
        add_series(out, f->metric, lb->applications[i], NULL, SLICE_NULL);
        text_addf(out, "%" PRIu64 "\n", f->of(&s));
    }
}

/* ---- all of them ---- */

void limit_metrics(const struct lb *lb, struct text *out)
{
    struct limit_view *views = view_all(lb);

    for (size_t i = 0; i < LIMIT_FIGURES; ++i)
        add_figure(lb, &limit_figures[i], views, out);
    free(views);
    for (size_t i = 0; i < ARRAY_LEN(settings); ++i)
        add_setting(lb, &settings[i], out);
    for (size_t i = 0; i < ARRAY_LEN(daemon_figures); ++i)
        add_daemons(lb, &daemon_figures[i], out);
    for (size_t i = 0; i < ARRAY_LEN(copies_figures); ++i)
        add_copies(lb, &copies_figures[i], out);
}

static void describe(FILE *out, const char *metric, const char *kind, const char *unit,
                     const char *label, const char *doc)
{
    fprintf(out, "| `resumelb_%s` | %s | %s | %s | %s |\n", metric, kind, unit, label, doc);
}

void limit_metrics_describe(FILE *out)
{
    for (size_t i = 0; i < LIMIT_FIGURES; ++i) {
        const struct limit_figure *f = &limit_figures[i];

        describe(out, f->metric, f->kind, f->unit, "counter", f->doc);
    }
    for (size_t i = 0; i < ARRAY_LEN(settings); ++i)
        describe(out, settings[i].metric, "gauge", "requests", "counter", settings[i].doc);
    for (size_t i = 0; i < ARRAY_LEN(daemon_figures); ++i)
        describe(out, daemon_figures[i].metric, "gauge", daemon_figures[i].unit, "server",
                 daemon_figures[i].doc);
    for (size_t i = 0; i < ARRAY_LEN(copies_figures); ++i) {
        const struct copies_figure *f = &copies_figures[i];

        describe(out, f->metric, f->kind, f->unit, "", f->doc);
    }
}
