/* SPDX-License-Identifier: Apache-2.0
 *
 * A search one thing at a time: each policy's classifier, as they belong together; then its
 * settings, and by that the policy; then how many workers it takes to be as good as today.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ctl/cli/table.h"
#include "ctl/simulate/simulate.h"

enum { VALUES_MAX = 6 };

/* Values that are tried, of settings that a policy goes by. The others have none. */
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
    struct figures figures;
};

/* The search so far. */
struct tuning {
    struct simulate *s;
    struct plan *plan;
    struct text *out;
    struct candidate candidates[SIMULATE_POLICIES_MAX];
    size_t ncandidates;
    struct candidate *best;
    struct figures today;
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

static struct candidate *best_candidate(struct tuning *t)
{
    struct candidate *best = &t->candidates[0];

    for (size_t i = 1; i < t->ncandidates; ++i) {
        if (is_better(t, &t->candidates[i].figures, &best->figures))
            best = &t->candidates[i];
    }
    return best;
}

/* Each policy's classifier, where it was asked for. */
static void take_candidates(struct tuning *t, const struct simulate_story *story)
{
    for (size_t p = 0; p < simulate_asked(t->s); ++p) {
        struct candidate *c = &t->candidates[t->ncandidates++];
        bool first = true;

        *c = (struct candidate){0};
        for (size_t i = 0; i < story->nvariants; ++i) {
            const struct simulate_variant *v = &story->variants[i];

            if (v->policy != p || !(first || is_better(t, &v->result.main, &c->figures)))
                continue;
            first = false;
            c->classifier = v->classifier;
            c->figures = v->result.main;
        }
        copy_policy(&t->s->policies[p], &c->policy);
    }
}

/* Every policy with every classifier. */
static void choose_classifiers(struct tuning *t)
{
    struct simulate_story story;
    struct table table;
    struct text label = {0};

    simulate_run(t->s, t->plan, &story);
    t->today = simulate_baseline(&story)->result.main;
    take_candidates(t, &story);
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
    text_add(t->out, SLICE_LIT("\n   "));
    for (size_t i = 0; i < t->s->nclassifiers; ++i)
        text_addf(t->out, "%s%s makes %u classes", i != 0 ? ", " : "", t->s->classifiers[i].label,
                  t->s->classifiers[i].classes.names.n);
    text_add(t->out, SLICE_LIT(".\n\n"));
    text_fini(&label);
    simulate_story_fini(&story);
}

static void add_candidate(const struct tuning *t, struct table *table, const struct candidate *c)
{
    struct text label = {0};

    text_addf(&label, "%s", c->policy.label);
    if (t->s->nclassifiers > 1)
        text_addf(&label, " by %s", t->s->classifiers[c->classifier].label);
    add_row(table, text_slice(&label), &c->figures);
    text_fini(&label);
}

/* One setting's values, from the candidate's best so far. */
static void try_setting(const struct tuning *t, const struct tried *r, struct candidate *c,
                        struct table *table)
{
    struct candidate from = {0};

    copy_policy(&c->policy, &from.policy);
    for (size_t i = 0; i < VALUES_MAX && r->values[i] != NULL; ++i) {
        struct candidate other = {.classifier = c->classifier};

        if (!simulate_vary_policy(&from.policy, r->setting, r->values[i], &other.policy))
            continue;
        other.figures = run(t, other.classifier, &other.policy.settings);
        if (!same(&other.figures, &c->figures)) {
            add_candidate(t, table, &other);
            if (is_better(t, &other.figures, &c->figures)) {
                c->figures = other.figures;
                copy_policy(&other.policy, &c->policy);
            }
        }
        simulate_policy_fini(&other.policy);
    }
    simulate_policy_fini(&from.policy);
}

static void choose_settings(struct tuning *t)
{
    struct table table;

    table_init(&table, columns, ARRAY_LEN(columns));
    for (size_t k = 0; k < t->ncandidates; ++k) {
        struct candidate *c = &t->candidates[k];

        add_candidate(t, &table, c);
        for (size_t i = 0; i < ARRAY_LEN(tried); ++i) {
            if (tried[i].policy == c->policy.settings.policy)
                try_setting(t, &tried[i], c, &table);
        }
    }
    t->best = best_candidate(t);
    text_add(t->out, SLICE_LIT("2. Settings\n\n"));
    print_table(&table, t->out);
    text_addf(
        t->out,
        "\n   The best: %s. What is within 1 %% counts as the same; what makes no difference is "
        "left out.\n\n",
        t->best->policy.label);
}

/* Returns true if F is not worse than the current configuration in the relevant metrics. */
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
        struct figures f = run(t, t->best->classifier, &t->best->policy.settings);
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
    choose_classifiers(&t);
    choose_settings(&t);
    choose_workers(&t);
    text_addf(out, "\npolicy: %s\nclassifier: %s\n", t.best->policy.label,
              s->classifiers[t.best->classifier].label);
    for (size_t i = 0; i < t.ncandidates; ++i)
        simulate_policy_fini(&t.candidates[i].policy);
    return ERR_OK;
}
