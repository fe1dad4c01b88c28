/* SPDX-License-Identifier: Apache-2.0
 *
 * Random workloads, which reveal policies that are tuned for a single one. Each is a variant of
 * `steady`; the parameters are drawn over orders of magnitude, because their distribution is
 * unknown.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/cli/table.h"
#include "ctl/simulate/simulate.h"
#include "sim/draw.h"

enum measure { LOADS, RATE, P99, MEASURES };
static const char *const measure_names[MEASURES] = {"loads/req", "req/s", "p99"};
/* As good as the best. */
static const double NEARLY = 0.05;
/* A policy with this much less throughput than the best may have few loads, or a low p99, only
 * because it does less. */
static const double KEEPS_UP = 0.1;

/* How often a policy was the best, or nearly. */
struct score {
    unsigned best[MEASURES], nearly[MEASURES], all;
    /* ... of those that keep up in throughput, and how often it does. */
    unsigned keeps_up, best_kept[MEASURES], nearly_kept[MEASURES];
};

/* Between LOW and HIGH, each order of magnitude as likely. */
static double spread(struct draw *d, double low, double high)
{
    return low * pow(high / low, draw_unit(d));
}

static void draw_options(uint64_t seed, const struct plan_options *base, struct plan_options *out)
{
    struct draw d = draw_of(seed);

    *out = *base;
    out->workload.seed = seed;
    out->workload.zipf = 0.5 + 0.8 * draw_unit(&d);
    out->workload.sites = (uint32_t)spread(&d, 50, 2000);
    out->workload.site_objects = (uint32_t)spread(&d, 20, 200);
    out->workload.request_objects = (uint32_t)spread(&d, 5, 40);
    out->world.workers = (unsigned)spread(&d, 4, 40);
    out->world.cache = (uint32_t)spread(&d, 500, 8000);
    out->world.base_ns = (uint64_t)spread(&d, 2e6, 50e6);
    out->world.hit_ns = (uint64_t)spread(&d, 5e3, 100e3);
    out->world.load_ns = (uint64_t)spread(&d, .5e6, 10e6);
    out->clients = out->world.workers * (1 + draw_below(&d, 6));
}

/* The smaller the better. */
static double measure_of(const struct simulate_variant *v, enum measure m)
{
    const struct figures *f = &v->result.main;

    return m == LOADS ? f->loads : m == RATE ? 1 / fmax(f->rate, 1e-9) : f->p99_ms;
}

/* The best of all, or of those that keep up with a MEASURE of RATE of SLOWEST. */
static double best_of(const struct simulate_story *t, enum measure m, double slowest)
{
    double best = HUGE_VAL;

    for (size_t i = 0; i < t->nvariants; ++i) {
        if (measure_of(&t->variants[i], RATE) <= slowest)
            best = fmin(best, measure_of(&t->variants[i], m));
    }
    return best;
}

static void count(const struct simulate_story *t, struct score *scores)
{
    unsigned *nearly = xcalloc(t->nvariants, sizeof(nearly[0]));
    double slowest = best_of(t, RATE, HUGE_VAL) / (1 - KEEPS_UP);

    for (enum measure m = 0; m < MEASURES; ++m) {
        double best = best_of(t, m, HUGE_VAL);
        double best_kept = best_of(t, m, slowest);

        for (size_t i = 0; i < t->nvariants; ++i) {
            double v = measure_of(&t->variants[i], m);
            bool kept = measure_of(&t->variants[i], RATE) <= slowest;

            scores[i].best[m] += v <= best;
            scores[i].nearly[m] += v <= best * (1 + NEARLY);
            scores[i].best_kept[m] += kept && v <= best_kept;
            scores[i].nearly_kept[m] += kept && v <= best_kept * (1 + NEARLY);
            nearly[i] += v <= best * (1 + NEARLY);
        }
    }
    for (size_t i = 0; i < t->nvariants; ++i) {
        scores[i].all += nearly[i] == MEASURES;
        scores[i].keeps_up += measure_of(&t->variants[i], RATE) <= slowest;
    }
    free(nearly);
}

static void add_row(struct table *table, const struct simulate_story *t)
{
    const struct plan_options *o = &t->plan->options;

    table_addf(table, "%" PRIu64, o->workload.seed);
    table_addf(table, "%u", o->world.workers);
    table_addf(table, "%" PRIu32, o->world.cache);
    table_addf(table, "%u", o->clients);
    table_addf(table, "%" PRIu32, o->workload.sites);
    table_addf(table, "%.2f", o->workload.zipf);
    table_addf(table, "%" PRIu32, o->workload.site_objects);
    table_addf(table, "%" PRIu32, o->workload.request_objects);
    table_addf(table, "%.1f", (double)o->world.base_ns / 1e6);
    table_addf(table, "%.0f", (double)o->world.hit_ns / 1e3);
    table_addf(table, "%.1f", (double)o->world.load_ns / 1e6);
}

static const struct table_column work_columns[] = {
    {"seed", true},    {"workers", true}, {"cache", true},   {"clients", true},
    {"sites", true},   {"zipf", true},    {"objects", true}, {"per request", true},
    {"base ms", true}, {"hit us", true},  {"load ms", true},
};
static const struct table_column figure_columns[] = {
    {"seed", true}, {"policy", false}, {"loads/req", true}, {"req/s", true}, {"p99 ms", true},
};
static const struct table_column score_columns[] = {
    {"policy", false},     {"loads/req: best", true},   {"within 5 %", true},
    {"req/s: best", true}, {"within 5 %", true},        {"p99: best", true},
    {"within 5 %", true},  {"within 5 % in all", true},
};

static const struct table_column kept_columns[] = {
    {"policy", false},    {"keeps up", true},  {"loads/req: best", true},
    {"within 5 %", true}, {"p99: best", true}, {"within 5 %", true},
};

static void add_figures(struct table *table, const struct simulate_story *t)
{
    struct text label = {0};

    for (size_t i = 0; i < t->nvariants; ++i) {
        const struct figures *f = &t->variants[i].result.main;

        text_clear(&label);
        simulate_label(t->simulate, &t->variants[i], &label);
        table_addf(table, "%" PRIu64, t->plan->options.workload.seed);
        table_add(table, text_slice(&label));
        table_addf(table, "%.2f", f->loads);
        table_addf(table, "%.0f", f->rate);
        table_addf(table, "%.0f", f->p99_ms);
    }
    text_fini(&label);
}

static void add_label(struct table *table, const struct simulate *s, size_t variant)
{
    struct simulate_variant v = {.policy = variant % s->npolicies,
                                 .classifier = variant / s->npolicies};
    struct text label = {0};

    simulate_label(s, &v, &label);
    table_add(table, text_slice(&label));
    text_fini(&label);
}

static void print_table(struct table *table, struct text *out)
{
    table_print(table, 2, out);
    table_fini(table);
}

static void print_scores(const struct simulate *s, const struct score *scores, struct text *out)
{
    struct table table;

    table_init(&table, score_columns, ARRAY_LEN(score_columns));
    for (size_t i = 0; i < s->npolicies * s->nclassifiers; ++i) {
        add_label(&table, s, i);
        for (unsigned m = 0; m < MEASURES; ++m) {
            table_addf(&table, "%u", scores[i].best[m]);
            table_addf(&table, "%u", scores[i].nearly[m]);
        }
        table_addf(&table, "%u", scores[i].all);
    }
    text_addf(out,
              "\nOf %u workloads, in how many is a policy the best, or within 5 %% of it (%s, %s, "
              "%s)?\n\n",
              s->nrandom, measure_names[LOADS], measure_names[RATE], measure_names[P99]);
    print_table(&table, out);
}

/* The same without those that pay for it with throughput. */
static void print_kept(const struct simulate *s, const struct score *scores, struct text *out)
{
    struct table table;

    table_init(&table, kept_columns, ARRAY_LEN(kept_columns));
    for (size_t i = 0; i < s->npolicies * s->nclassifiers; ++i) {
        add_label(&table, s, i);
        table_addf(&table, "%u", scores[i].keeps_up);
        for (unsigned m = 0; m < MEASURES; ++m) {
            if (m == RATE)
                continue;
            table_addf(&table, "%u", scores[i].best_kept[m]);
            table_addf(&table, "%u", scores[i].nearly_kept[m]);
        }
    }
    text_add(out,
             SLICE_LIT("\nIn how many does it keep up, within 10 % of the highest req/s, and is "
                       "it the best of those that do?\n\n"));
    print_table(&table, out);
}

/* Run one, into the tables. */
static enum err run_one(struct simulate *s, uint64_t seed, struct table tables[2],
                        struct score *scores)
{
    struct plan_options o;
    struct plan *plan = NULL;
    struct simulate_story story;
    enum err e;

    draw_options(seed, &s->plan, &o);
    e = plan_create(SCENARIO_steady, &o, &plan);
    for (size_t i = 0; i < s->nclassifiers && e == ERR_OK; ++i) {
        if (!simulate_classify_plan(&s->classifiers[i], plan))
            e = ERR_TOO_LARGE;
    }
    if (e == ERR_OK) {
        simulate_run(s, plan, &story);
        add_row(&tables[0], &story);
        add_figures(&tables[1], &story);
        count(&story, scores);
        simulate_story_fini(&story);
    }
    plan_destroy(plan);
    return e;
}

enum err simulate_random(struct simulate *s, struct text *out, struct diag *d)
{
    struct score *scores = xcalloc(s->npolicies * s->nclassifiers, sizeof(scores[0]));
    struct table tables[2];
    enum err e = ERR_OK;

    table_init(&tables[0], work_columns, ARRAY_LEN(work_columns));
    table_init(&tables[1], figure_columns, ARRAY_LEN(figure_columns));
    for (unsigned i = 0; i < s->nrandom && e == ERR_OK; ++i)
        e = run_one(s, s->plan.workload.seed + i, tables, scores);
    if (e == ERR_OK) {
        text_add(out, SLICE_LIT("The workloads:\n\n"));
        table_print(&tables[0], 2, out);
        text_add(out, SLICE_LIT("\nWhat came of them:\n\n"));
        table_print(&tables[1], 2, out);
        print_scores(s, scores, out);
        print_kept(s, scores, out);
    } else {
        diag_add(d, NULL, 0, 0, "--random: %s", err_text(e));
    }
    table_fini(&tables[0]);
    table_fini(&tables[1]);
    free(scores);
    return e;
}
