/* SPDX-License-Identifier: Apache-2.0
 *
 * Searches one parameter after the other: the best classifier for each policy; then its settings,
 * and with these the best policy; then the number of workers that is as good as today.
 */
#include "ctl/simulate/simulate.h"
#include "sim/parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- workloads drawn at random ---- */

/*
 * They reveal policies that are tuned for a single workload. Each is a variant of `steady`, with
 * parameters drawn over orders of magnitude, because their distribution is unknown.
 */

enum tuned_figure { LOADS, RATE, P99, MEASURES };
/* Up to this much worse than the best is nearly the best. */
static const double NEARLY = 0.05;
/* Below the best by more, a policy does not keep up: its few loads may be due to less work. */
static const double KEEPS_UP = 0.1;

/* How often a policy was the best, or nearly. */
struct score {
    unsigned best[MEASURES], nearly[MEASURES], all;
    /* ... of those that keep up in throughput, and how often it does. */
    unsigned keeps_up, best_kept[MEASURES], nearly_kept[MEASURES];
};

/* Between LOW and HIGH, each order of magnitude as likely. */
static double draw_between(struct draw *d, double low, double high)
{
    return low * pow(high / low, draw_unit(d));
}

/* The smaller the better. */
static double measure_of(const struct simulate_variant *v, enum tuned_figure m)
{
    const struct sim_figures *f = &v->result.main;

    return m == LOADS ? f->loads : m == RATE ? 1 / fmax(f->rate, 1e-9) : f->p99_ms;
}

/* The best M of the variants with a measure RATE of at most SLOWEST (HUGE_VAL: of all). */
static double best_of(const struct simulate_runs *t, enum tuned_figure m, double slowest)
{
    double best = HUGE_VAL;

    for (size_t i = 0; i < t->nvariants; ++i) {
        if (measure_of(&t->variants[i], RATE) <= slowest)
            best = fmin(best, measure_of(&t->variants[i], m));
    }
    return best;
}

static void tune_count(const struct simulate_runs *t, struct score *scores)
{
    double slowest = best_of(t, RATE, HUGE_VAL) / (1 - KEEPS_UP);

    for (size_t i = 0; i < t->nvariants; ++i) {
        struct score *score = &scores[i];
        bool kept = measure_of(&t->variants[i], RATE) <= slowest;
        unsigned nearly = 0;

        for (enum tuned_figure m = 0; m < MEASURES; ++m) {
            double v = measure_of(&t->variants[i], m);
            double best = best_of(t, m, HUGE_VAL);
            double best_kept = best_of(t, m, slowest);

            score->best[m] += v <= best;
            score->nearly[m] += v <= best * (1 + NEARLY);
            score->best_kept[m] += kept && v <= best_kept;
            score->nearly_kept[m] += kept && v <= best_kept * (1 + NEARLY);
            nearly += v <= best * (1 + NEARLY);
        }
        score->all += nearly == MEASURES;
        score->keeps_up += kept;
    }
}

/* Scores of all, and of those that do not pay for it with throughput. */
static void print_scores(const struct simulate *s, const struct score *scores, struct text *out)
{
    struct table all;
    struct table kept;

    table_begin(&all, "policy|>loads/req: best|>within 5 %|>req/s: best|>within 5 %|>p99: best|"
                      ">within 5 %|>within 5 % in all");
    table_begin(&kept, "policy|>keeps up|>loads/req: best|>within 5 %|>p99: best|>within 5 %");
    for (size_t i = 0; i < s->npolicies * s->classifiers.n; ++i) {
        const struct simulate_variant v = {.policy = i % s->npolicies,
                                           .classifier = i / s->npolicies};
        const struct score *score = &scores[i];

        simulate_add_label(&all, s, &v);
        simulate_add_label(&kept, s, &v);
        table_addf(&kept, "%u", score->keeps_up);
        for (unsigned m = 0; m < MEASURES; ++m) {
            table_numbers(&all, "%u %u", score->best[m], score->nearly[m]);
            if (m != RATE)
                table_numbers(&kept, "%u %u", score->best_kept[m], score->nearly_kept[m]);
        }
        table_addf(&all, "%u", score->all);
    }
    text_addf(out,
              "\nOf %u workloads, in how many is a policy the best, or within 5 %% of it "
              "(loads/req, req/s, p99)?\n\n",
              s->nrandom);
    table_end(&all, out);
    text_add(out,
             SLICE_LIT("\nIn how many does it keep up, within 10 % of the highest req/s, and is "
                       "it the best of those that do?\n\n"));
    table_end(&kept, out);
}

/* Runs one workload and adds it to the tables. */
static enum err run_one(struct simulate *s, uint64_t seed, struct table tables[2],
                        struct score *scores)
{
    struct plan_options o = s->plan;
    struct draw d = draw_of(seed);
    struct plan *plan = NULL;
    struct simulate_runs runs;

    o.workload.seed = seed;
    o.workload.zipf = 0.5 + 0.8 * draw_unit(&d);
    o.workload.sites = (uint32_t)draw_between(&d, 50, 2000);
    o.workload.site_objects = (uint32_t)draw_between(&d, 20, 200);
    o.workload.request_objects = (uint32_t)draw_between(&d, 5, 40);
    o.world.workers = (unsigned)draw_between(&d, 4, 40);
    o.world.cache = (uint32_t)draw_between(&d, 500, 8000);
    o.world.base_ns = (uint64_t)draw_between(&d, 2e6, 50e6);
    o.world.hit_ns = (uint64_t)draw_between(&d, 5e3, 100e3);
    o.world.load_ns = (uint64_t)draw_between(&d, .5e6, 10e6);
    o.clients = o.world.workers * (1 + draw_below(&d, 6));
    enum err e = plan_create(SCENARIO_steady, &o, &plan);
    if (e == ERR_OK)
        e = simulate_classify_plan(&s->classifiers, plan);
    if (e != ERR_OK) {
        plan_destroy(plan);
        return e;
    }
    simulate_run(s, plan, &runs);
    o = plan->options;
    table_numbers(&tables[0], "%" PRIu64 " %u %" PRIu32 " %u %" PRIu32 " %.2f", seed,
                  o.world.workers, o.world.cache, o.clients, o.workload.sites, o.workload.zipf);
    table_numbers(&tables[0], "%" PRIu32 " %" PRIu32 " %.1f %.0f %.1f", o.workload.site_objects,
                  o.workload.request_objects, (double)o.world.base_ns / 1e6,
                  (double)o.world.hit_ns / 1e3, (double)o.world.load_ns / 1e6);
    for (size_t i = 0; i < runs.nvariants; ++i) {
        const struct sim_figures *f = &runs.variants[i].result.main;

        table_addf(&tables[1], "%" PRIu64, seed);
        simulate_add_label(&tables[1], s, &runs.variants[i]);
        table_numbers(&tables[1], "%.2f %.0f %.0f", f->loads, f->rate, f->p99_ms);
    }
    tune_count(&runs, scores);
    free(runs.variants);
    plan_destroy(plan);
    return ERR_OK;
}

enum err simulate_random(struct simulate *s, struct text *out, struct diag *d)
{
    struct score *scores = xcalloc(s->npolicies * s->classifiers.n, sizeof(scores[0]));
    struct table tables[2];
    enum err e = ERR_OK;

    table_begin(&tables[0],
                ">seed|>workers|>cache|>clients|>sites|>zipf|>objects|>per request|>base ms|"
                ">hit us|>load ms");
    table_begin(&tables[1], ">seed|policy|>loads/req|>req/s|>p99 ms");
    for (unsigned i = 0; i < s->nrandom && e == ERR_OK; ++i)
        e = run_one(s, s->plan.workload.seed + i, tables, scores);
    if (e == ERR_OK) {
        text_add(out, SLICE_LIT("The workloads:\n\n"));
        table_print(&tables[0], 2, out);
        text_add(out, SLICE_LIT("\nResults:\n\n"));
        table_print(&tables[1], 2, out);
        print_scores(s, scores, out);
    } else {
        diag_add(d, NULL, 0, 0, "--random: %s", err_text(e));
    }
    table_fini(&tables[0]);
    table_fini(&tables[1]);
    free(scores);
    return e;
}

/* ---- tuning ---- */

enum { VALUES_MAX = 6 };

/* Values to try, of the settings that a policy uses. Other policies have none. */
static const struct tried {
    enum pool_policy policy;
    const char *setting;
    const char *values[VALUES_MAX];
} tried[] = {
    {POOL_POLICY_RESUME, "variance", {"1", "2", "3", "6", "8"}},
    {POOL_POLICY_RESUME, "backlog_history", {"5", "15", "30"}},
    {POOL_POLICY_RESUME, "unskilled_score", {"0.1", "10", "100"}},
    {POOL_POLICY_HASH, "hash_balance_factor", {"110", "125", "150", "300", "500", "0"}},
    {POOL_POLICY_ADAPTIVE, "max_share", {"0.15", "0.25", "0.35", "0.6", "0.8", "1"}},
};

/* The best of a policy so far. */
struct candidate {
    size_t classifier;
    struct simulate_policy policy; /* its own label */
    struct sim_figures figures;
};

/* The search so far. */
struct tuning {
    struct simulate *s;
    struct plan *plan;
    struct text *out;
    struct candidate candidates[SIMULATE_POLICIES_MAX];
    size_t ncandidates;
    struct candidate *best;
    struct sim_figures today;
};

static struct sim_figures tune_main(const struct tuning *t, size_t classifier,
                                    const struct pool_settings *settings)
{
    struct plan_result r;

    plan_run(t->plan, &t->s->classifiers.all[classifier].classes, settings, &r);
    return r.main;
}

/* After the label. */
static void add_row(struct table *table, const struct sim_figures *f)
{
    table_numbers(table, "%.2f %.0f %.0f %.0f %.2f", f->loads, f->rate, f->p50_ms, f->p99_ms,
                  f->busy_max);
}

static const char columns[] = "|>loads/req|>req/s|>p50 ms|>p99 ms|>busiest";

/* Every policy with every classifier. */
static void choose_classifiers(struct tuning *t)
{
    struct simulate_runs runs;
    struct table table;

    simulate_run(t->s, t->plan, &runs);
    t->today = simulate_baseline(&runs)->result.main;
    for (size_t p = 0; p < t->ncandidates; ++p) {
        const struct simulate_variant *v = simulate_best(&runs, p, p + 1);
        struct candidate *c = &t->candidates[p];

        *c = (struct candidate){v->classifier, t->s->policies[p], v->result.main};
        c->policy.label = xstrdup(c->policy.label);
    }
    table_begin(&table, columns);
    for (size_t i = 0; i < runs.nvariants; ++i) {
        simulate_add_label(&table, t->s, &runs.variants[i]);
        add_row(&table, &runs.variants[i].result.main);
    }
    text_add(t->out, SLICE_LIT("1. Policy and classifier\n\n"));
    table_end(&table, t->out);
    text_add(t->out, SLICE_LIT("\n   "));
    simulate_print_gain(&runs, t->out);
    text_add(t->out, SLICE_LIT("\n   "));
    for (size_t i = 0; i < t->s->classifiers.n; ++i)
        text_addf(t->out, "%s%s makes %u classes", i != 0 ? ", " : "",
                  t->s->classifiers.all[i].label, t->s->classifiers.all[i].classes.names.n);
    text_add(t->out, SLICE_LIT(".\n\n"));
    free(runs.variants);
}

static void add_candidate(const struct tuning *t, struct table *table, const struct candidate *c)
{
    if (t->s->classifiers.n > 1)
        table_addf(table, "%s by %s", c->policy.label, t->s->classifiers.all[c->classifier].label);
    else
        table_add(table, slice_of(c->policy.label));
    add_row(table, &c->figures);
}

/* One setting's values, from the candidate's best so far. */
static void try_setting(const struct tuning *t, const struct tried *r, struct candidate *c,
                        struct table *table)
{
    for (size_t i = 0; i < VALUES_MAX && r->values[i] != NULL; ++i) {
        struct candidate other = {.classifier = c->classifier};

        if (!simulate_vary_policy(&c->policy, r->setting, r->values[i], &other.policy))
            continue;
        other.figures = tune_main(t, other.classifier, &other.policy.settings);
        if (other.figures.loads != c->figures.loads || other.figures.rate != c->figures.rate ||
            other.figures.p99_ms != c->figures.p99_ms) {
            add_candidate(t, table, &other);
            if (simulate_is_better(t->plan, &other.figures, &c->figures)) {
                struct candidate worse = *c;

                *c = other;
                other = worse;
            }
        }
        free(other.policy.label);
    }
}

static void choose_settings(struct tuning *t)
{
    struct table table;

    table_begin(&table, columns);
    for (size_t k = 0; k < t->ncandidates; ++k) {
        struct candidate *c = &t->candidates[k];

        add_candidate(t, &table, c);
        for (size_t i = 0; i < ARRAY_LEN(tried); ++i) {
            if (tried[i].policy == c->policy.settings.policy)
                try_setting(t, &tried[i], c, &table);
        }
        if (k == 0 || simulate_is_better(t->plan, &c->figures, &t->best->figures))
            t->best = c;
    }
    text_add(t->out, SLICE_LIT("2. Settings\n\n"));
    table_end(&table, t->out);
    text_addf(
        t->out,
        "\n   The best: %s. What is within 1 %% counts as the same; what makes no difference is "
        "left out.\n\n",
        t->best->policy.label);
}

static void choose_workers(struct tuning *t)
{
    bool closed = t->plan->phases[t->plan->main].clients != 0;
    unsigned all = t->plan->options.world.workers;
    unsigned fewest = 0;
    unsigned last = 0;
    struct table table;

    table_begin(&table, columns);
    for (unsigned quarter = 1; quarter <= 6; ++quarter) {
        unsigned n = all * quarter / 4;

        if (n == 0 || n == last || n > WORLD_WORKERS_MAX)
            continue;
        last = n;
        t->plan->options.world.workers = n;
        struct sim_figures f = tune_main(t, t->best->classifier, &t->best->policy.settings);
        table_addf(&table, "%u workers", n);
        add_row(&table, &f);
        /* Not worse than today, in what counts. */
        if (fewest == 0 && f.failed <= t->today.failed &&
            (closed ? f.rate >= t->today.rate : f.p99_ms <= t->today.p99_ms))
            fewest = n;
    }
    t->plan->options.world.workers = all;
    table_add(&table, SLICE_LIT("today"));
    add_row(&table, &t->today);
    text_add(t->out, SLICE_LIT("3. Workers\n\n"));
    table_end(&table, t->out);
    if (fewest != 0)
        text_addf(t->out, "\n   %u workers do what %u do today", fewest, all);
    else
        text_addf(t->out, "\n   Fewer than %u workers would be worse than today", all);
    text_add(t->out, closed ? SLICE_LIT(", in requests a second.\n") : SLICE_LIT(", in p99.\n"));
}

enum err simulate_tune(struct simulate *s, struct plan *plan, struct text *out, struct diag *d)
{
    struct tuning t = {.s = s, .plan = plan, .out = out, .ncandidates = simulate_requested(s)};

    /* Events refer to workers by number: with fewer workers they would affect others. */
    if (plan->phases[0].nevents + plan->phases[plan->main].nevents != 0) {
        diag_add(d, NULL, 0, 0, "--tune: not in a scenario in which workers come and go");
        return ERR_UNSUPPORTED;
    }
    choose_classifiers(&t);
    choose_settings(&t);
    choose_workers(&t);
    text_addf(out, "\npolicy: %s\nclassifier: %s\n", t.best->policy.label,
              s->classifiers.all[t.best->classifier].label);
    for (size_t i = 0; i < t.ncandidates; ++i)
        free(t.candidates[i].policy.label);
    return ERR_OK;
}
