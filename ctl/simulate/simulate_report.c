/* SPDX-License-Identifier: Apache-2.0
 *
 * Results as tables, as JSON and as a chart.
 */
#include "common/base/json.h"
#include "ctl/simulate/simulate.h"
#include "routing/pool.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

static double share_of(uint64_t part, uint64_t all)
{
    return (double)part / (double)(all != 0 ? all : 1);
}

void simulate_print_log(const struct simulate *s, struct text *out)
{
    const struct simulate_log *log = &s->log;
    size_t bad = requests_bad(&log->in);

    text_addf(out, "%s: %zu requests over %.0f s%s\n", s->log_file, log->requests, log->span_s,
              log->cut ? ", and more that were not read" : "");
    if (bad == 0)
        return;
    text_addf(out, "  %zu of %zu lines cannot be used, the first is line %zu:\n", bad,
              log->in.lines, log->in.first_bad);
    for (unsigned f = 0; f < ACCESS_FAULTS; ++f) {
        if (log->in.faults[f] != 0)
            text_addf(out, "  %8zu  %s\n", log->in.faults[f], access_fault_texts[f]);
    }
}

/* ---- tables ---- */

/* "12 % fewer", "3.4 times as many", "the same". */
static void add_change(struct text *out, double from, double to, const char *less, const char *more)
{
    double change = from > 0 ? to / from - 1 : 0;

    if (fabs(change) < 0.005)
        text_add(out, SLICE_LIT("the same"));
    else if (change < 0)
        text_addf(out, "%.0f %% %s", -100 * change, less);
    else if (change < 1)
        text_addf(out, "%.0f %% %s", 100 * change, more);
    else
        text_addf(out, "%.1f times %s", change + 1,
                  strcmp(more, "more") == 0 ? "as many" : "as high");
}

void simulate_print_gain(const struct simulate_runs *t, struct text *out)
{
    const struct simulate_variant *from = simulate_baseline(t);
    const struct simulate_variant *to = simulate_best(t, 0, simulate_requested(t->simulate));
    const struct sim_figures *a = &from->result.main;
    const struct sim_figures *b = &to->result.main;

    if (from == to) {
        text_add(out, SLICE_LIT("Nothing here is better than "));
        simulate_label(t->simulate, from, out);
        text_add(out, SLICE_LIT("."));
        return;
    }
    text_add(out, SLICE_LIT("With "));
    simulate_label(t->simulate, to, out);
    text_add(out, SLICE_LIT(" rather than "));
    simulate_label(t->simulate, from, out);
    text_addf(out, ": %.2f loads per request rather than %.2f (", b->loads, a->loads);
    add_change(out, a->loads, b->loads, "fewer", "more");
    text_addf(out, "), %.0f requests a second rather than %.0f (", b->rate, a->rate);
    add_change(out, a->rate, b->rate, "fewer", "more");
    text_addf(out, "), and p99 is %.0f ms rather than %.0f (", b->p99_ms, a->p99_ms);
    add_change(out, a->p99_ms, b->p99_ms, "lower", "higher");
    text_add(out, SLICE_LIT(")."));
}

/* Each variant's figures, what is specific to the scenario, and the result of its shadow_policy. */
static void print_tables(const struct simulate_runs *t, struct text *out)
{
    const struct plan_result *first = &t->variants[0].result;
    struct text titles = {0};
    struct table figures, extras, shadows;

    table_begin(&figures,
                "policy|>loads/req|>req/s|>p50 ms|>p90 ms|>p99 ms|>busiest: requests|>work|"
                ">in >1 cache %|>caches/object|>workers/class|>failed");
    text_add(&titles, SLICE_LIT("policy"));
    for (size_t k = 0; k < first->nextras; ++k)
        text_addf(&titles, "|>%s", first->extras[k].title);
    table_begin(&extras, text_cstr(&titles));
    text_fini(&titles);
    table_begin(&shadows, "policy, with a shadow|>differed %|>policy: skilled %|>shadow|"
                          ">policy: wait ms/req|>shadow|>overdue");
    for (size_t i = 0; i < t->nvariants; ++i) {
        const struct plan_result *r = &t->variants[i].result;
        const struct sim_figures *f = &r->main;
        const struct pool_shadow_counts *c = &r->shadow;

        simulate_add_label(&figures, t->simulate, &t->variants[i]);
        table_numbers(&figures, "%.2f %.0f %.0f %.0f %.0f %.2f %.2f %.1f %.2f %.1f %zu", f->loads,
                      f->rate, f->p50_ms, f->p90_ms, f->p99_ms, f->share_max, f->busy_max,
                      100 * share_of(r->overlap.shared, r->overlap.distinct),
                      share_of(r->overlap.cached, r->overlap.distinct), f->class_workers,
                      f->failed);
        if (first->nextras != 0)
            simulate_add_label(&extras, t->simulate, &t->variants[i]);
        for (size_t k = 0; k < r->nextras; ++k)
            table_addf(&extras, "%.*f", r->extras[k].decimals, r->extras[k].value);
        if (c->requests == 0)
            continue;
        simulate_add_label(&shadows, t->simulate, &t->variants[i]);
        table_numbers(&shadows, "%.1f %.1f %.1f %.1f %.1f %" PRIu64,
                      100 * share_of(c->differed, c->requests),
                      100 * share_of(c->live_skilled, c->requests),
                      100 * share_of(c->shadow_skilled, c->requests),
                      share_of(c->live_wait_us, c->requests) / 1e3,
                      share_of(c->shadow_wait_us, c->requests) / 1e3, c->overdue);
    }
    table_end(&figures, out);
    text_add(out, table_has_rows(&extras) ? SLICE_LIT("\n") : SLICE_NULL);
    table_end(&extras, out);
    text_add(out, table_has_rows(&shadows) ? SLICE_LIT("\n") : SLICE_NULL);
    table_end(&shadows, out);
}

void simulate_print(const struct simulate_runs *t, struct text *out)
{
    const struct plan_options *o = &t->plan->options;
    const struct plan_phase *phase = &t->plan->phases[t->plan->main];

    if (out->len != 0)
        text_add_char(out, '\n');
    text_addf(out, "%s: %s\n", scenario_name(t->plan->scenario), scenario_doc(t->plan->scenario));
    text_addf(out,
              "  %u workers with caches of %" PRIu32 " objects; %g ms a request, %g us a hit, "
              "%g ms a load",
              o->world.workers, o->world.cache, (double)o->world.base_ns / 1e6,
              (double)o->world.hit_ns / 1e3, (double)o->world.load_ns / 1e6);
    if (o->world.db_slots != 0)
        text_addf(out, ", %u loads at a time", o->world.db_slots);
    if (o->world.concurrency != 1)
        text_addf(out, "; %u requests at once", o->world.concurrency);
    if (o->world.time_scale != 1)
        text_addf(out, "; times x %g", o->world.time_scale);
    if (o->world.balancers > 1)
        text_addf(out, "; %u balancers", o->world.balancers);
    if (phase->clients != 0)
        text_addf(out, "; %u clients", phase->clients);
    text_addf(out, "; %zu requests, of which the %zu of '%s' are measured\n\n", t->plan->trace.n,
              phase->n, phase->name);
    print_tables(t, out);
    text_add(out, SLICE_LIT("\n  "));
    simulate_print_gain(t, out);
    text_add_char(out, '\n');
}

/* ---- JSON ---- */

static void put_variant(struct json_writer *w, const struct simulate *s,
                        const struct simulate_variant *v)
{
    const struct simulate_classifier *c = &s->classifiers.all[v->classifier];
    const struct plan_result *r = &v->result;
    const struct sim_figures *f = &r->main;

    json_open_object(w, NULL);
    json_put_text(w, "policy", slice_of(s->policies[v->policy].label));
    json_put_text(w, "classifier", slice_of(c->label));
    json_put_int(w, "classes", c->classes.names.n);
    json_put_int(w, "requests", (int64_t)f->n);
    json_put_int(w, "failed", (int64_t)f->failed);
    json_put_real(w, "seconds", f->wall_s);
    json_put_real(w, "rate", f->rate);
    json_put_real(w, "loads", f->loads);
    json_put_real(w, "hit_share", f->hit_share);
    json_put_real(w, "mean_ms", f->mean_ms);
    json_put_real(w, "p50_ms", f->p50_ms);
    json_put_real(w, "p90_ms", f->p90_ms);
    json_put_real(w, "p99_ms", f->p99_ms);
    json_put_real(w, "max_ms", f->max_ms);
    json_put_real(w, "share_max", f->share_max);
    json_put_real(w, "busy_max", f->busy_max);
    json_put_real(w, "busy", f->busy);
    json_put_real(w, "moved", f->moved);
    json_put_real(w, "class_workers", f->class_workers);
    json_put_int(w, "cached", (int64_t)r->overlap.cached);
    json_put_int(w, "distinct", (int64_t)r->overlap.distinct);
    json_put_int(w, "in_several_caches", (int64_t)r->overlap.shared);
    if (r->shadow.requests != 0) {
        json_open_object(w, "shadow");
        pool_shadow_put_json(&r->shadow, w);
        json_close_object(w);
    }
    json_open_object(w, "of_scenario");
    for (size_t i = 0; i < r->nextras; ++i)
        json_put_real(w, r->extras[i].key, r->extras[i].value);
    json_close_object(w);
    json_open_object(w, "reasons");
    for (unsigned i = 0; i < PICK_REASONS; ++i) {
        if (r->reasons[i] > 0)
            json_put_real(w, pick_reason_text((enum pick_reason)i), r->reasons[i]);
    }
    json_close_object(w);
    json_open_array(w, "worker_shares");
    for (unsigned i = 0; i < r->nshares; ++i)
        json_put_real(w, NULL, r->shares[i]);
    json_close_array(w);
    json_close_object(w);
}

void simulate_print_json(const struct simulate_runs *all, size_t n, struct text *out)
{
    struct json_writer w = {.out = out};

    json_open_object(&w, NULL);
    if (n != 0 && all[0].simulate->log_file != NULL) {
        const struct simulate_log *log = &all[0].simulate->log;

        json_open_object(&w, "log");
        json_put_int(&w, "lines", (int64_t)log->in.lines);
        json_put_int(&w, "requests", (int64_t)log->requests);
        json_put_int(&w, "bad_lines", (int64_t)requests_bad(&log->in));
        json_put_int(&w, "first_bad_line", (int64_t)log->in.first_bad);
        json_put_bool(&w, "cut", log->cut);
        json_put_real(&w, "span_s", log->span_s);
        json_close_object(&w);
    }
    json_open_array(&w, "scenarios");
    for (size_t i = 0; i < n; ++i) {
        const struct plan *p = all[i].plan;
        const struct plan_options *o = &p->options;

        json_open_object(&w, NULL);
        json_put_text(&w, "scenario", slice_of(scenario_name(p->scenario)));
        json_open_object(&w, "model");
        json_put_int(&w, "workers", o->world.workers);
        json_put_int(&w, "concurrency", o->world.concurrency);
        json_put_int(&w, "cache", o->world.cache);
        json_put_real(&w, "base_ms", (double)o->world.base_ns / 1e6);
        json_put_real(&w, "hit_us", (double)o->world.hit_ns / 1e3);
        json_put_real(&w, "load_ms", (double)o->world.load_ns / 1e6);
        json_put_real(&w, "scale", o->world.time_scale);
        json_put_int(&w, "db_slots", o->world.db_slots);
        json_put_int(&w, "balancers", o->world.balancers);
        json_put_int(&w, "clients", p->phases[p->main].clients);
        json_put_int(&w, "seed", (int64_t)o->workload.seed);
        json_put_int(&w, "requests", (int64_t)p->trace.n);
        json_close_object(&w);
        json_open_array(&w, "variants");
        for (size_t k = 0; k < all[i].nvariants; ++k)
            put_variant(&w, all[i].simulate, &all[i].variants[k]);
        json_close_array(&w);
        json_close_object(&w);
    }
    json_close_array(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
}

/* ---- a chart ---- */

/*
 * The chart: the gain in words, four metrics as bars, and three line charts side by side. A color
 * is the same variant everywhere. SVG without a library: a few rectangles and lines.
 *
 *     +------------------------------------------------+
 *     | title, model, the gain in words                |
 *     | labels | loads | requests/s | p99 | busiest    |
 *     | loads over time | p99 over time | per worker   |
 *     +------------------------------------------------+
 */

enum {
    VARIANTS_MAX = 12, /* more colors could not be distinguished */
    WIDTH = 1080,
    MARGIN = 32,
    HEAD = 158,
    LABEL = 208,
    BAR = 26,
    GAP = 16,
    CHART = 210,
    WORDS_PER_LINE = 118,
};

static const char *const colours[VARIANTS_MAX] = {
    "#0b6bb8", "#d1652a", "#2a9d6f", "#b8438d", "#8a6d00", "#5b5bd6",
    "#c23b3b", "#3f8f9f", "#7a7a2a", "#a05fc0", "#555555", "#9c5a3c",
};

/* A panel of bars: one figure of all variants. */
static const struct bars {
    const char *title, *hint;
    size_t figure; /* its place in struct sim_figures */
    int decimals;
} panels[] = {
    {"Loads per request", "fewer is better", offsetof(struct sim_figures, loads), 2},
    {"Requests a second", "more is better", offsetof(struct sim_figures, rate), 0},
    {"p99 response time", "ms; less is better", offsetof(struct sim_figures, p99_ms), 0},
    {"Busiest worker", "its work; 1 is even", offsetof(struct sim_figures, busy_max), 2},
};

struct plot {
    const struct simulate_runs *runs;
    struct text *out;
    size_t n; /* variants shown */
    const struct simulate_variant *best;
};

printf_like(5, 6) static void add_text(struct text *out, double x, double y, const char *classes,
                                       const char *fmt, ...)
{
    char *words = NULL;
    va_list args;

    va_start(args, fmt);
    if (vasprintf(&words, fmt, args) < 0)
        out_of_memory();
    va_end(args);
    text_addf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, classes);
    text_add_html(out, slice_of(words));
    text_add(out, SLICE_LIT("</text>\n"));
    free(words);
}

static void add_head(const struct plot *p)
{
    enum { LINE = 19 };
    const struct plan_options *o = &p->runs->plan->options;
    const struct plan *plan = p->runs->plan;
    const struct simulate *s = p->runs->simulate;
    struct text gain = {0};
    double y = 116;

    add_text(p->out, MARGIN, 44, "title", "What would resumelb do?");
    if (s->log_file != NULL)
        add_text(p->out, MARGIN, 68, "sub", "%zu requests of the access log %s", s->log.requests,
                 s->log_file);
    else
        add_text(p->out, MARGIN, 68, "sub", "%s: %s", scenario_name(plan->scenario),
                 scenario_doc(plan->scenario));
    add_text(p->out, MARGIN, 87, "sub",
             "%u workers with caches of %" PRIu32
             " objects; a request takes %g ms, and %g ms more for each load",
             o->world.workers, o->world.cache, (double)o->world.base_ns / 1e6,
             (double)o->world.load_ns / 1e6);
    simulate_print_gain(p->runs, &gain);
    for (struct slice words = text_slice(&gain); words.len != 0; y += LINE) {
        size_t n = words.len < WORDS_PER_LINE ? words.len : WORDS_PER_LINE;

        while (n != words.len && n != 0 && words.p[n] != ' ')
            --n;
        if (n == 0)
            n = WORDS_PER_LINE;
        add_text(p->out, MARGIN, y, "gain", "%.*s", (int)n, words.p);
        words = slice_trim((struct slice){words.p + n, words.len - n});
    }
    text_fini(&gain);
}

static double value_of(const struct plot *p, const struct bars *b, size_t variant)
{
    const struct sim_figures *f = &p->runs->variants[variant].result.main;

    return *(const double *)((const char *)f + b->figure);
}

static double add_bars(const struct plot *p)
{
    enum { LABEL_BYTES = 30, VALUE = 52, TITLE = 20, HINT = 37, FIRST = 48 };
    double width = (WIDTH - 2.0 * MARGIN - LABEL) / (double)ARRAY_LEN(panels);
    struct text label = {0};

    for (size_t i = 0; i < p->n; ++i) {
        const struct simulate_variant *v = &p->runs->variants[i];

        text_clear(&label);
        simulate_label(p->runs->simulate, v, &label);
        if (label.len > LABEL_BYTES) {
            label.len = LABEL_BYTES - 3;
            text_add(&label, SLICE_LIT("..."));
        }
        text_addf(p->out, "<g fill=\"%s\">", colours[i]);
        add_text(p->out, MARGIN, HEAD + FIRST + (double)(i * BAR) + 13.5,
                 v == p->best ? "l b" : "l", "%.*s", SLICE_FMT(text_slice(&label)));
        text_add(p->out, SLICE_LIT("</g>\n"));
    }
    text_fini(&label);
    for (size_t k = 0; k < ARRAY_LEN(panels); ++k) {
        const struct bars *b = &panels[k];
        double x = MARGIN + LABEL + (double)k * width;
        double room = width - GAP - VALUE;
        double max = 0;

        for (size_t i = 0; i < p->n; ++i)
            max = fmax(max, value_of(p, b, i));
        max = max > 0 ? max : 1;
        add_text(p->out, x, HEAD + TITLE, "h", "%s", b->title);
        add_text(p->out, x, HEAD + HINT, "hint", "%s", b->hint);
        for (size_t i = 0; i < p->n; ++i) {
            double v = value_of(p, b, i);
            double y = HEAD + FIRST + (double)(i * BAR);
            bool is_best = &p->runs->variants[i] == p->best;

            text_addf(p->out,
                      "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\" "
                      "fill=\"%s\" opacity=\"%s\"/>\n",
                      x, y, fmax(1, room * v / max), BAR - 8, colours[i], is_best ? "1" : "0.72");
            add_text(p->out, x + fmax(1, room * v / max) + 5, y + 13.5, is_best ? "v b" : "v",
                     "%.*f", b->decimals, v);
        }
    }
    return HEAD + FIRST + (double)(p->n * BAR) + GAP;
}

/* A chart of a line for each variant. */
static const struct curves {
    const char *title, *hint;
    size_t first; /* of the points, doubles in struct plan_result */
    bool in_time; /* from left to right, a point for each window; else one for each worker */
} curves[] = {
    {"Loads per request, over time", "as caches fill and classes find their workers",
     offsetof(struct plan_result, windows) + offsetof(struct plan_window, loads), true},
    {"p99 response time, over time", "ms",
     offsetof(struct plan_result, windows) + offsetof(struct plan_window, p99_ms), true},
    {"Requests of each worker", "over the mean; the busiest is on the left",
     offsetof(struct plan_result, shares), false},
};

struct chart {
    const struct curves *curves;
    double x, y, width;
    size_t points;
    double max; /* of the values */
};

static double value_at(const struct plot *p, const struct chart *c, size_t variant, size_t i)
{
    const char *first = (const char *)&p->runs->variants[variant].result + c->curves->first;

    return c->curves->in_time ? *(const double *)(first + i * sizeof(struct plan_window))
                              : ((const double *)first)[i] * (double)c->points;
}

static double chart_y(const struct chart *c, double v)
{
    return c->y + CHART - CHART * fmin(v, c->max) / c->max;
}

static void add_chart(const struct plot *p, struct chart *c)
{
    enum { BELOW = 16 };
    const struct plan_result *r = &p->runs->variants[0].result;
    const struct plan *plan = p->runs->plan;

    for (size_t i = 0; i < p->n; ++i) {
        for (size_t k = 0; k < c->points; ++k)
            c->max = fmax(c->max, value_at(p, c, i, k));
    }
    c->max = c->max > 0 ? c->max * 1.05 : 1;
    /* A round number that is not below a quarter of the largest value: about four lines across. */
    double size = pow(10, floor(log10(c->max / 4)));
    double digits = c->max / 4 / size;
    double step = size * (digits <= 1 ? 1 : digits <= 2 ? 2 : digits <= 5 ? 5 : 10);
    add_text(p->out, c->x, c->y - 30, "h", "%s", c->curves->title);
    add_text(p->out, c->x, c->y - 13, "hint", "%s", c->curves->hint);
    for (unsigned i = 0; i * step <= c->max * 1.0001; ++i) {
        double y = chart_y(c, i * step);

        text_addf(p->out,
                  "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#dfe3e8\"/>\n",
                  c->x, y, c->x + c->width, y);
        add_text(p->out, c->x - 6, y + 4, "tick", "%g", i * step);
    }
    /* The best on top of the others. */
    for (size_t i = 0; i < 2 * p->n; ++i) {
        size_t variant = i % p->n;
        bool is_best = &p->runs->variants[variant] == p->best;

        if (is_best != (i >= p->n))
            continue;
        text_add(p->out, SLICE_LIT("<polyline fill=\"none\" points=\""));
        for (size_t k = 0; k < c->points; ++k)
            text_addf(p->out, "%.1f,%.1f ", c->x + c->width * ((double)k + .5) / (double)c->points,
                      chart_y(c, value_at(p, c, variant, k)));
        text_addf(p->out, "\" stroke=\"%s\" stroke-width=\"%s\" stroke-linejoin=\"round\"/>\n",
                  colours[variant], is_best ? "3" : "1.6");
    }
    if (!c->curves->in_time)
        return;
    /* Where phases begin; the measured one is bold. */
    for (size_t i = 0; i < plan->nphases; ++i) {
        double x = c->x + c->width * (double)r->begins[i] / (double)r->nwindows;

        text_addf(p->out,
                  "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#8a929c\" "
                  "stroke-dasharray=\"4 4\"/>\n",
                  x, c->y, x, c->y + CHART + BELOW);
        add_text(p->out, x + 4, c->y + CHART + BELOW, i == plan->main ? "hint b" : "hint", "%s",
                 plan->phases[i].name);
    }
}

/* Three charts beside one another; returns where they end. */
static double add_charts(const struct plot *p, double y)
{
    enum { TITLES = 56, AXIS = 34, SHARES = 300 };
    const struct plan_result *first = &p->runs->variants[0].result;
    double all = WIDTH - 2 * MARGIN - AXIS;
    double half = (all - SHARES - 2 * (AXIS + GAP)) / 2;
    double x = MARGIN + AXIS;

    for (size_t i = 0; i < ARRAY_LEN(curves); ++i) {
        bool in_time = curves[i].in_time;
        struct chart c = {.curves = &curves[i],
                          .x = x,
                          .y = y + TITLES,
                          .width = in_time ? half : SHARES,
                          .points = in_time ? first->nwindows : first->nshares};

        add_chart(p, &c);
        x += c.width + AXIS + GAP;
    }
    return y + TITLES + CHART;
}

static const char style[] =
    "<style>text{font-family:system-ui,'Segoe UI','DejaVu Sans',sans-serif;font-size:13px;"
    "fill:#1c2733}.title{font-size:25px;font-weight:700}.sub{fill:#55606e}.gain{font-size:15px;"
    "font-weight:600}.h{font-size:14px;font-weight:600}.hint{font-size:12px;fill:#6a7480}"
    ".tick{font-size:11px;fill:#6a7480;text-anchor:end}.l{fill:inherit}.v{font-size:12.5px}"
    ".b{font-weight:700}</style>\n";

void simulate_plot(const struct simulate_runs *t, struct text *out)
{
    enum { FOOT = 64 };
    struct text body = {0};
    struct plot p = {.runs = t,
                     .out = &body,
                     .n = t->nvariants < VARIANTS_MAX ? t->nvariants : VARIANTS_MAX,
                     .best = simulate_best(t, 0, simulate_requested(t->simulate))};

    add_head(&p);
    double y = add_charts(&p, add_bars(&p));
    if (p.n < t->nvariants)
        add_text(&body, MARGIN, y + FOOT - 14, "hint", "The first twelve are shown.");
    int height = (int)y + FOOT;
    text_addf(out,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 "
              "%d %d\">\n",
              WIDTH, height, WIDTH, height);
    text_add(out, slice_of(style));
    text_add(out, SLICE_LIT("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"));
    text_add(out, text_slice(&body));
    text_add(out, SLICE_LIT("</svg>\n"));
    text_fini(&body);
}
