/* SPDX-License-Identifier: Apache-2.0
 *
 * Command line -> plans -> variants -> table, JSON or picture.
 */
#include "ctl/simulate/simulate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "ctl/cli/ctl.h"

void simulate_fini(struct simulate *s)
{
    for (size_t i = 0; i < s->npolicies; ++i)
        simulate_policy_fini(&s->policies[i]);
    for (size_t i = 0; i < s->nclassifiers; ++i)
        simulate_classifier_fini(&s->classifiers[i]);
    s->npolicies = s->nclassifiers = 0;
}

void simulate_run(const struct simulate *s, const struct plan *plan, struct simulate_story *out)
{
    size_t n = 0;

    *out = (struct simulate_story){.simulate = s, .plan = plan};
    out->nvariants = s->npolicies * s->nclassifiers;
    out->variants = xcalloc(out->nvariants, sizeof(out->variants[0]));
    for (size_t c = 0; c < s->nclassifiers; ++c) {
        for (size_t p = 0; p < s->npolicies; ++p) {
            struct simulate_variant *v = &out->variants[n++];

            v->policy = p;
            v->classifier = c;
            plan_run(plan, &s->classifiers[c].classes, &s->policies[p].settings, &v->result);
        }
    }
}

void simulate_story_fini(struct simulate_story *t)
{
    for (size_t i = 0; i < t->nvariants; ++i)
        plan_result_fini(&t->variants[i].result);
    free(t->variants);
    *t = (struct simulate_story){0};
}

void simulate_label(const struct simulate *s, const struct simulate_variant *v, struct text *out)
{
    text_addf(out, "%s", s->policies[v->policy].label);
    if (s->nclassifiers > 1)
        text_addf(out, " by %s", s->classifiers[v->classifier].label);
}

const char *const simulate_common[SIMULATE_COMMON] = {"least_backlog", "classless", "round_robin"};

const struct simulate_variant *simulate_baseline(const struct simulate_story *t)
{
    for (size_t k = 0; k < SIMULATE_COMMON; ++k) {
        for (size_t i = 0; i < t->nvariants; ++i) {
            const char *label = t->simulate->policies[t->variants[i].policy].label;

            if (strcmp(label, simulate_common[k]) == 0)
                return &t->variants[i];
        }
    }
    return &t->variants[t->nvariants - 1];
}

/* Whether A is to be had rather than B. */
static bool is_better(const struct simulate_story *t, const struct figures *a,
                      const struct figures *b)
{
    static const double ALIKE = 0.01;
    bool closed = t->plan->phases[t->plan->main].clients != 0;
    double x = closed ? a->rate : -a->p99_ms;
    double y = closed ? b->rate : -b->p99_ms;
    double size = x > 0 ? x : -x;

    if (a->failed != b->failed)
        return a->failed < b->failed;
    if (x - y > ALIKE * size || y - x > ALIKE * size)
        return x > y;
    return closed ? a->p99_ms < b->p99_ms : a->loads < b->loads;
}

const struct simulate_variant *simulate_best(const struct simulate_story *t)
{
    const struct simulate_variant *best = &t->variants[0];

    for (size_t i = 1; i < t->nvariants; ++i) {
        if (t->variants[i].policy < simulate_asked(t->simulate) &&
            is_better(t, &t->variants[i].result.main, &best->result.main))
            best = &t->variants[i];
    }
    return best;
}

static enum err write_plot(const struct simulate_story *t, struct diag *d)
{
    const char *file = t->simulate->plot_file;
    struct text svg = {0};

    simulate_plot(t, &svg);
    enum err e = file_write(file, text_slice(&svg));
    if (e != ERR_OK)
        diag_add(d, file, 0, 0, "%s", strerror(errno));
    text_fini(&svg);
    return e;
}

/* The plan of a scenario, of as many requests as were asked for, with all classes. */
static enum err make_plan(struct simulate *s, enum scenario which, struct plan **out,
                          struct diag *d)
{
    enum err e = plan_create(which, &s->plan, out);

    if (e == ERR_OK && s->requests != 0) {
        struct plan_options scaled = s->plan;

        scaled.scale = (double)s->requests / (double)plan_requests(*out);
        plan_destroy(*out);
        *out = NULL;
        e = plan_create(which, &scaled, out);
    }
    for (size_t i = 0; i < s->nclassifiers && e == ERR_OK; ++i) {
        if (!simulate_classify_plan(&s->classifiers[i], *out))
            e = ERR_TOO_LARGE;
    }
    if (e != ERR_OK)
        diag_add(d, NULL, 0, 0, "%s: %s", scenario_name(which), err_text(e));
    return e;
}

/* One story: run, and printed unless it is for JSON. */
static enum err tell(const struct simulate *s, const struct plan *plan,
                     struct simulate_story *story, struct text *out, struct diag *d)
{
    simulate_run(s, plan, story);
    if (!s->json)
        simulate_print(story, out);
    return s->plot_file != NULL ? write_plot(story, d) : ERR_OK;
}

static enum err tell_scenarios(struct simulate *s, struct text *out, struct diag *d)
{
    struct plan *plans[SCENARIOS] = {NULL};
    struct simulate_story stories[SCENARIOS] = {0};
    const struct simulate_story *told[SCENARIOS];
    size_t n = 0;
    enum err e = ERR_OK;

    for (unsigned i = 0; i < SCENARIOS && e == ERR_OK; ++i) {
        if (!s->scenarios[i])
            continue;
        e = make_plan(s, (enum scenario)i, &plans[i], d);
        if (e == ERR_OK && s->tune)
            e = simulate_tune(s, plans[i], out, d);
        else if (e == ERR_OK)
            e = tell(s, plans[i], &stories[i], out, d);
        told[n++] = &stories[i];
    }
    if (e == ERR_OK && s->json)
        simulate_print_json(told, n, out);
    for (unsigned i = 0; i < SCENARIOS; ++i) {
        simulate_story_fini(&stories[i]);
        plan_destroy(plans[i]);
    }
    return e;
}

static enum err tell_log(struct simulate *s, struct text *out, struct diag *d)
{
    struct plan *plan = NULL;
    struct simulate_story story = {0};
    const struct simulate_story *told[] = {&story};
    enum err e = simulate_read_log(s, &plan, d);

    if (e == ERR_OK && !s->json)
        simulate_print_log(s, out);
    if (e == ERR_OK && s->tune)
        e = simulate_tune(s, plan, out, d);
    else if (e == ERR_OK)
        e = tell(s, plan, &story, out, d);
    if (e == ERR_OK && s->json)
        simulate_print_json(told, 1, out);
    simulate_story_fini(&story);
    plan_destroy(plan);
    return e;
}

int ctl_simulate_main(int argc, char **argv)
{
    struct simulate s;
    struct text out = {0};
    struct diag d = {0};
    enum err e;
    int code = simulate_parse(argc, argv, &s);

    if (code >= 0) {
        simulate_fini(&s);
        return code;
    }
    if (s.nrandom != 0)
        e = simulate_random(&s, &out, &d);
    else if (s.log_file != NULL)
        e = tell_log(&s, &out, &d);
    else
        e = tell_scenarios(&s, &out, &d);
    if (out.len != 0 && (fwrite(out.p, 1, out.len, stdout) != out.len || fflush(stdout) != 0)) {
        perror("resumelbctl: stdout");
        e = ERR_SYSTEM;
    }
    if (d.text != NULL)
        fprintf(stderr, "resumelbctl: %s", d.text);
    diag_fini(&d);
    text_fini(&out);
    simulate_fini(&s);
    return e == ERR_OK ? CTL_OK : CTL_FAILED;
}
