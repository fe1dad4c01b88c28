/* SPDX-License-Identifier: Apache-2.0
 *
 * A search one thing at a time: the classifier and the policy, as they belong together; then the
 * policy's settings; then how many workers it takes to be as good as today.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ctl/simulate.h"
#include "ctl/table.h"

/* Values that are tried, of settings that some policies have. Others' figures are the same then,
 * and they are left out. */
static const struct {
    const char *setting;
    const char *values[6];
} tried[] = {
    {"variance", {"1", "2", "3", "6", "8"}},
    {"backlog_history", {"5", "15", "30"}},
    {"unskilled_score", {"0.1", "10", "100"}},
};

/* The search so far. */
struct tuning {
    struct simulate *s;
    struct plan *plan;
    struct text *out;
    size_t classifier;
    struct simulate_policy policy; /* the best; its own label */
    struct figures today, best;
};

static struct figures run(const struct tuning *t, size_t classifier,
                          const struct pool_settings *settings)
{
    struct plan_result r;

    plan_run(t->plan, &t->s->classifiers[classifier].classes, settings, &r);
    struct figures f = r.main;
    plan_result_fini(&r);
    return f;
}

static void add_row(struct table *table, struct slice label, const struct figures *f)
{
    table_add(table, label);
    table_addf(table, "%.2f", f->loads);
    table_addf(table, "%.0f", f->rate);
    table_addf(table, "%.0f", f->p50_ms);
    table_addf(table, "%.0f", f->p99_ms);
    table_addf(table, "%.2f", f->busy_max);
}

static const struct table_column columns[] = {
    {"", false},      {"loads/req", true}, {"req/s", true},
    {"p50 ms", true}, {"p99 ms", true},    {"busiest", true},
};

static void print_table(struct table *table, struct text *out)
{
    table_print(table, 2, out);
    table_fini(table);
}

static void copy_policy(const struct simulate_policy *from, struct simulate_policy *to)
{
    char *label = xstrdup(from->label);

    simulate_policy_fini(to);
    *to = *from;
    to->label = label;
}

/* Every policy with every classifier. */
static void choose_policy(struct tuning *t)
{
    struct simulate_story story;
    struct table table;
    struct text label = {0};

    simulate_run(t->s, t->plan, &story);
    const struct simulate_variant *best = simulate_best(&story);
    t->classifier = best->classifier;
    t->best = best->result.main;
    t->today = simulate_baseline(&story)->result.main;
    copy_policy(&t->s->policies[best->policy], &t->policy);
    table_init(&table, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < story.nvariants; ++i) {
        text_clear(&label);
        simulate_label(t->s, &story.variants[i], &label);
        add_row(&table, text_slice(&label), &story.variants[i].result.main);
    }
    text_add(t->out, SLICE_LIT("1. Policy and classifier\n\n"));
    print_table(&table, t->out);
    text_add(t->out, SLICE_LIT("\n   "));
    simulate_print_gain(&story, t->out);
    text_addf(t->out, "\n   %s makes %u classes.\n\n", t->s->classifiers[t->classifier].label,
              t->s->classifiers[t->classifier].classes.names.n);
    text_fini(&label);
    simulate_story_fini(&story);
}

static bool same(const struct figures *a, const struct figures *b)
{
    return a->loads == b->loads && a->rate == b->rate && a->p99_ms == b->p99_ms;
}

/* Whether A is to be had rather than B: as simulate_best has it, of these two. */
static bool is_better(const struct tuning *t, const struct figures *a, const struct figures *b)
{
    struct simulate_variant variants[2] = {{.result.main = *b}, {.result.main = *a}};
    struct simulate_story story = {
        .simulate = t->s, .plan = t->plan, .variants = variants, .nvariants = 2};

    return simulate_best(&story) == &variants[1];
}

/* One setting's values, from the best so far. */
static void try_setting(struct tuning *t, const char *setting, const char *const *values, size_t n,
                        struct table *table)
{
    struct simulate_policy from = {0};

    copy_policy(&t->policy, &from);
    for (size_t i = 0; i < n && values[i] != NULL; ++i) {
        struct simulate_policy policy;

        if (!simulate_vary_policy(&from, setting, values[i], &policy))
            continue;
        struct figures f = run(t, t->classifier, &policy.settings);
        if (!same(&f, &t->best)) {
            add_row(table, slice_of(policy.label), &f);
            if (is_better(t, &f, &t->best)) {
                t->best = f;
                copy_policy(&policy, &t->policy);
            }
        }
        simulate_policy_fini(&policy);
    }
    simulate_policy_fini(&from);
}

static void choose_settings(struct tuning *t)
{
    struct table table;

    table_init(&table, columns, ARRAY_LEN(columns));
    add_row(&table, slice_of(t->policy.label), &t->best);
    for (size_t i = 0; i < ARRAY_LEN(tried); ++i)
        try_setting(t, tried[i].setting, tried[i].values, ARRAY_LEN(tried[i].values), &table);
    text_add(t->out, SLICE_LIT("2. Settings\n\n"));
    print_table(&table, t->out);
    text_addf(t->out, "\n   The best: %s. What is within 1 %% counts as the same.\n\n",
              t->policy.label);
}

/* Whether F is no worse than what there is today, where it counts. */
static bool suffices(const struct tuning *t, const struct figures *f)
{
    bool closed = t->plan->phases[t->plan->main].clients != 0;

    if (f->failed > t->today.failed)
        return false;
    return closed ? f->rate >= t->today.rate : f->p99_ms <= t->today.p99_ms;
}

static void choose_workers(struct tuning *t)
{
    unsigned all = t->plan->options.world.workers;
    unsigned fewest = 0;
    unsigned last = 0;
    struct table table;
    char label[48];

    table_init(&table, columns, ARRAY_LEN(columns));
    for (unsigned quarter = 1; quarter <= 6; ++quarter) {
        unsigned n = all * quarter / 4;

        if (n == 0 || n == last || n > WORLD_WORKERS_MAX)
            continue;
        last = n;
        t->plan->options.world.workers = n;
        struct figures f = run(t, t->classifier, &t->policy.settings);
        snprintf(label, sizeof(label), "%u workers", n);
        add_row(&table, slice_of(label), &f);
        if (fewest == 0 && suffices(t, &f))
            fewest = n;
    }
    t->plan->options.world.workers = all;
    add_row(&table, SLICE_LIT("today"), &t->today);
    text_add(t->out, SLICE_LIT("3. Workers\n\n"));
    print_table(&table, t->out);
    if (fewest != 0)
        text_addf(t->out, "\n   %u workers do what %u do today", fewest, all);
    else
        text_addf(t->out, "\n   Fewer than %u workers would be worse than today", all);
    text_add(t->out, t->plan->phases[t->plan->main].clients != 0
                         ? SLICE_LIT(", in requests a second.\n")
                         : SLICE_LIT(", in p99.\n"));
}

enum err simulate_tune(struct simulate *s, struct plan *plan, struct text *out, struct diag *d)
{
    struct tuning t = {.s = s, .plan = plan, .out = out};

    /* Events name workers: with fewer there would be others to kill. */
    if (plan->phases[0].nevents + plan->phases[plan->main].nevents != 0) {
        diag_add(d, NULL, 0, 0, "--tune: not in a scenario in which workers come and go");
        return ERR_UNSUPPORTED;
    }
    choose_policy(&t);
    choose_settings(&t);
    choose_workers(&t);
    text_addf(out, "\npolicy: %s\nclassifier: %s\n", t.policy.label,
              s->classifiers[t.classifier].label);
    simulate_policy_fini(&t.policy);
    return ERR_OK;
}
