/* SPDX-License-Identifier: Apache-2.0
 *
 * Command line -> plans -> variants -> table, JSON or picture.
 */
#include "ctl/simulate/simulate.h"
#include "common/base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- options ---- */

/*
 * The numbers of the model: row, option, what its value is called, default, bounds, whether it is a
 * whole number, help. The defaults are what the benchmark has (bench/affinity): the same figures
 * mean the same.
 */
/* clang-format off */
#define NUMBERS \
    NUMBER(workers, "workers", "N", 16, 1, WORLD_WORKERS_MAX, true, "workers (16)") \
    NUMBER(cache, "cache", "N", 2000, 1, WORLD_CACHE_MAX, true, "objects that a worker's cache holds (2000)") \
    NUMBER(base_ms, "base-ms", "MS", 10, 0, 60000, false, "work of a request that finds all its objects (10)") \
    NUMBER(hit_us, "hit-us", "US", 20, 0, 1e6, false, "... and for each object in the cache (20)") \
    NUMBER(load_ms, "load-ms", "MS", 2, 0, 60000, false, "... and for each that is loaded (2)") \
    NUMBER(db_slots, "db-slots", "N", 0, 0, WORLD_DB_SLOTS_MAX, true, "loads that all workers can have in progress at once; 0: no bound (0)") \
    NUMBER(clients, "clients", "N", 64, 1, 1e6, true, "closed loop: number of clients, each with one request at a time (64)") \
    NUMBER(rate, "rate", "N", 0, 0.001, 1e6, false, "open loop: requests per second, at random times") \
    NUMBER(speed, "speed", "FACTOR", 0, 1e-6, 1e6, false, "open loop: at the times of the log, divided by this factor") \
    NUMBER(requests, "requests", "N", 0, 2, TRACE_REQUESTS_MAX, true, "number of requests: of a log at most, of a scenario over all phases") \
    NUMBER(sites, "sites", "N", 500, 1, WORKLOAD_SITES_MAX, true, "sites (500)") \
    NUMBER(zipf, "zipf", "S", 0.9, 0, 10, false, "how uneven their shares are (0.9); simul: nearly even, as in simul.py") \
    NUMBER(site_objects, "site-objects", "N", 60, 1, WORKLOAD_SITE_OBJECTS_MAX, true, "objects of a site: four standard deviations (60)") \
    NUMBER(objects, "objects", "N", 20, 1, TRACE_PAGE_OBJECTS_MAX, true, "random objects per page (20)") \
    NUMBER(balancers, "balancers", "N", 1, 1, WORLD_BALANCERS_MAX, true, "load balancers before the same workers (1)") \
    NUMBER(report_delay_ms, "report-delay-ms", "MS", 0, 0, 60000, false, "delay after which balancers receive reports sent to others; 0: never (0)") \
    NUMBER(homes_delay_ms, "homes-delay-ms", "MS", 1000, 0, 60000, false, "interval at which workers publish homes; 0: never, each balancer decides alone (1000)") \
    NUMBER(history, "history", "N", 200, 1, 1e6, true, "requests between a worker's resumes (200)") \
    NUMBER(seed, "seed", "N", 1, 0, 4294967295.0, true, "seed of all random numbers (1)") \
    NUMBER(random, "random", "N", 0, 1, SIMULATE_RANDOM_MAX, true, "number of random workloads: how often is each policy among the best?")
/* clang-format on */

enum {
#define NUMBER(row, ...) NUMBER_##row,
    NUMBERS
#undef NUMBER
};

static const struct number {
    const char *name;
    double value, min, max;
    bool whole;
} numbers[] = {
#define NUMBER(row, name, called, value, min, max, whole, help) {name, value, min, max, whole},
    NUMBERS
#undef NUMBER
};
_Static_assert(ARRAY_LEN(numbers) == SIMULATE_NUMBERS, "one value each");

/* The plan's options, of the numbers. */
static void set_options(struct simulate *s)
{
    const double *v = s->numbers;

    s->plan.world.workers = (unsigned)v[NUMBER_workers];
    s->plan.world.cache = (uint32_t)v[NUMBER_cache];
    s->plan.world.base_ns = (uint64_t)(v[NUMBER_base_ms] * 1e6);
    s->plan.world.hit_ns = (uint64_t)(v[NUMBER_hit_us] * 1e3);
    s->plan.world.load_ns = (uint64_t)(v[NUMBER_load_ms] * 1e6);
    s->plan.world.db_slots = (unsigned)v[NUMBER_db_slots];
    s->plan.world.history = (unsigned)v[NUMBER_history];
    s->plan.world.balancers = (unsigned)v[NUMBER_balancers];
    s->plan.world.report_delay_ns = (uint64_t)(v[NUMBER_report_delay_ms] * 1e6);
    s->plan.world.homes_delay_ns = (uint64_t)(v[NUMBER_homes_delay_ms] * 1e6);
    s->plan.workload.sites = (uint32_t)v[NUMBER_sites];
    s->plan.workload.zipf = v[NUMBER_zipf];
    s->plan.workload.site_objects = (uint32_t)v[NUMBER_site_objects];
    s->plan.workload.request_objects = (uint32_t)v[NUMBER_objects];
    s->plan.workload.seed = (uint64_t)v[NUMBER_seed];
    s->plan.clients = (unsigned)v[NUMBER_clients];
    s->plan.rate = v[NUMBER_rate];
    s->plan.speed = v[NUMBER_speed];
    s->plan.scale = 1;
    s->requests = (size_t)v[NUMBER_requests];
    s->nrandom = (unsigned)v[NUMBER_random];
}

static void describe_choices(struct text *out)
{
    text_add(out, SLICE_LIT("\npolicies: there are "));
    simulate_policy_names(out);
    text_add(out, SLICE_LIT("\n\nscenarios:\n"));
    for (unsigned i = 0; i < SCENARIO_replay; ++i)
        text_addf(out, "  %-11s %s\n", scenario_name((enum scenario)i),
                  scenario_doc((enum scenario)i));
}

static int complain(const char *what, const char *which)
{
    return ctl_usage_error(&ctl_word_simulate, what, which);
}

static int take_number(struct ctl_options *o, const struct ctl_flag *f, const char *value)
{
    struct simulate *s = container_of(o, struct simulate, o);
    const struct number *n = &numbers[f->at];
    bool is_zipf = f->at == NUMBER_zipf;
    bool simul = is_zipf && strcmp(value, "simul") == 0;
    double v;
    char what[160];

    s->given |= 1u << f->at;
    if (is_zipf)
        s->plan.workload.simul = simul;
    if (simul)
        return CTL_OK;
    if (parse_double(slice_of(value), &v) && v >= n->min && v <= n->max &&
        (!n->whole || (double)(uint64_t)v == v)) {
        s->numbers[f->at] = v;
        return CTL_OK;
    }
    snprintf(what, sizeof(what), "--%s: expected %s from %.10g to %.10g%s, not", n->name,
             n->whole ? "a whole number" : "a number", n->min, n->max, is_zipf ? " or simul" : "");
    return complain(what, value);
}

static int take_scenario(struct ctl_options *o, const struct ctl_flag *f, const char *name)
{
    struct simulate *s = container_of(o, struct simulate, o);
    enum scenario found = scenario_find(slice_of(name));

    (void)f;
    if (strcmp(name, "all") == 0) {
        for (unsigned i = 0; i < SCENARIO_replay; ++i)
            s->scenarios[i] = true;
        return CTL_OK;
    }
    if (found >= SCENARIO_replay)
        return complain("no such scenario", name);
    s->scenarios[found] = true;
    return CTL_OK;
}

static int add_classifier(struct simulate *s, const char *spec)
{
    struct diag d = {0};

    if (s->nclassifiers == SIMULATE_CLASSIFIERS_MAX)
        return complain("--classifier: too many", spec);
    if (!simulate_read_classifier(spec, &s->classifiers[s->nclassifiers], &d))
        return ctl_usage_problems(&ctl_word_simulate, &d);
    ++s->nclassifiers;
    return CTL_OK;
}

static int take_classifier(struct ctl_options *o, const struct ctl_flag *f, const char *spec)
{
    (void)f;
    return add_classifier(container_of(o, struct simulate, o), spec);
}

static int add_policies(struct simulate *s, const char *list)
{
    struct diag d = {0};

    if (!simulate_read_policies(list, s->policies, &s->npolicies, &d))
        return ctl_usage_problems(&ctl_word_simulate, &d);
    return CTL_OK;
}

static int take_policies(struct ctl_options *o, const struct ctl_flag *f, const char *list)
{
    (void)f;
    return add_policies(container_of(o, struct simulate, o), list);
}

/* Adds the usual configuration as the reference for comparison, unless it is present. */
static int add_today(struct simulate *s)
{
    for (size_t i = 0; i < s->npolicies; ++i) {
        for (size_t k = 0; k < SIMULATE_COMMON; ++k) {
            if (strcmp(s->policies[i].label, simulate_common[k]) == 0)
                return CTL_OK;
        }
    }
    s->adds_today = true;
    return add_policies(s, simulate_common[0]);
}

/* ---- numbers that would change nothing ---- */

static bool is_open(const struct simulate *s)
{
    return s->plan.rate > 0 || s->plan.speed > 0;
}

static bool is_light(const struct simulate *s)
{
    for (unsigned i = 0; i < SCENARIOS; ++i) {
        if (s->scenarios[i] != (i == SCENARIO_light))
            return false;
    }
    return true;
}

static bool has_log(const struct simulate *s)
{
    return s->log_file != NULL;
}

static bool is_drawn(const struct simulate *s)
{
    return s->nrandom != 0;
}

static const struct idle {
    bool (*beside)(const struct simulate *s);
    const char *why;
    const char *names[10];
} idle[] = {
    {is_open,
     "with --rate or --speed no client waits for a response before its next request",
     {"clients"}},
    {is_light, "scenario light has 8 clients", {"clients"}},
    {has_log, "a log has its own", {"sites", "zipf", "site-objects"}},
    {is_drawn,
     "--random chooses it",
     {"workers", "cache", "base-ms", "hit-us", "load-ms", "clients", "sites", "zipf",
      "site-objects", "objects"}},
};

static bool is_given(const struct simulate *s, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(numbers); ++i) {
        if (strcmp(numbers[i].name, name) == 0)
            return (s->given >> i & 1) != 0;
    }
    UNREACHABLE();
}

static int check_idle(const struct simulate *s)
{
    char what[64];

    for (size_t i = 0; i < ARRAY_LEN(idle); ++i) {
        if (!idle[i].beside(s))
            continue;
        for (size_t k = 0; k < ARRAY_LEN(idle[i].names) && idle[i].names[k] != NULL; ++k) {
            snprintf(what, sizeof(what), "--%s changes nothing here", idle[i].names[k]);
            if (is_given(s, idle[i].names[k]))
                return complain(what, idle[i].why);
        }
    }
    return CTL_OK;
}

/* Checks for options that exclude each other, and for missing ones. */
static int complete(struct simulate *s)
{
    size_t nscenarios = 0;
    int code = CTL_OK;

    for (unsigned i = 0; i < SCENARIOS; ++i)
        nscenarios += s->scenarios[i];
    if (s->log_file != NULL && nscenarios != 0)
        return complain("a log or a scenario, not both", NULL);
    if (s->log_file == NULL && s->plan.speed > 0)
        return complain("--speed is for a log: generated work has no recorded times", NULL);
    if (s->plan.speed > 0 && s->plan.rate > 0)
        return complain("--speed or --rate, not both", NULL);
    if (s->nrandom != 0 && (s->log_file != NULL || nscenarios != 0 || s->tune || s->plot_file))
        return complain("--random chooses its own work: no log, scenario, --tune or --plot", NULL);
    if ((s->plot_file != NULL || s->tune) && nscenarios > 1)
        return complain("--plot and --tune are for one scenario", NULL);
    if ((s->tune || s->nrandom != 0) && s->o.json)
        return complain("--json is not for --tune and --random", NULL);
    if ((uint64_t)s->plan.world.workers * s->plan.world.cache > WORLD_CACHED_MAX)
        return complain("--workers times --cache is too much", NULL);
    code = check_idle(s);
    if (code != CTL_OK)
        return code;
    if (nscenarios == 0 && s->log_file == NULL)
        s->scenarios[SCENARIO_steady] = true;
    if (s->npolicies == 0)
        code = add_policies(s, "all");
    if (code == CTL_OK && s->tune)
        code = add_today(s);
    if (code == CTL_OK && s->nclassifiers == 0)
        code = add_classifier(s, "host");
    if (code == CTL_OK && s->tune && s->nclassifiers + 2 <= SIMULATE_CLASSIFIERS_MAX) {
        code = add_classifier(s, "segment");
        if (code == CTL_OK)
            code = add_classifier(s, "path");
    }
    return code;
}

/* ---- the command ---- */

static void simulate_fini(struct simulate *s)
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

void simulate_add_label(struct table *table, const struct simulate *s,
                        const struct simulate_variant *v)
{
    struct text label = {0};

    simulate_label(s, v, &label);
    table_add(table, text_slice(&label));
    text_fini(&label);
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

bool simulate_is_better(const struct plan *p, const struct figures *a, const struct figures *b)
{
    static const double ALIKE = 0.01;
    bool closed = p->phases[p->main].clients != 0;
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
            simulate_is_better(t->plan, &t->variants[i].result.main, &best->result.main))
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
    if (!s->o.json)
        simulate_print(story, out);
    return s->plot_file != NULL ? write_plot(story, d) : ERR_OK;
}

static enum err tell_scenarios(struct simulate *s, struct text *out, struct diag *d)
{
    struct plan *plans[SCENARIOS] = {NULL};
    struct simulate_story stories[SCENARIOS] = {0};
    const struct simulate_story *reported[SCENARIOS];
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
        reported[n++] = &stories[i];
    }
    if (e == ERR_OK && s->o.json)
        simulate_print_json(reported, n, out);
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
    const struct simulate_story *reported[] = {&story};
    enum err e = simulate_read_log(s, &plan, d);

    if (e == ERR_OK && !s->o.json)
        simulate_print_log(s, out);
    if (e == ERR_OK && s->tune)
        e = simulate_tune(s, plan, out, d);
    else if (e == ERR_OK)
        e = tell(s, plan, &story, out, d);
    if (e == ERR_OK && s->o.json)
        simulate_print_json(reported, 1, out);
    simulate_story_fini(&story);
    plan_destroy(plan);
    return e;
}

static int run_simulate(const struct ctl_command *c, int argc, char **argv)
{
    struct simulate s = {.nclassifiers = 0};
    struct text out = {0};
    struct diag d = {0};
    enum err e;

    for (size_t i = 0; i < SIMULATE_NUMBERS; ++i)
        s.numbers[i] = numbers[i].value;
    int code = ctl_parse(c, argc, argv, &s.o);
    if (code < 0) {
        s.log_file = s.o.words[0];
        set_options(&s);
        code = complete(&s) == CTL_OK ? -1 : CTL_USAGE;
    }
    if (code < 0) {
        if (s.nrandom != 0)
            e = simulate_random(&s, &out, &d);
        else if (s.log_file != NULL)
            e = tell_log(&s, &out, &d);
        else
            e = tell_scenarios(&s, &out, &d);
        code = ctl_finish(e, &out, &d);
    }
    simulate_fini(&s);
    return code;
}

static const struct ctl_flag simulate_flags[] = {
    {'p', "policy", "LIST", NULL, "policies, or all; NAME:SETTING=VALUE sets one (all)",
     CTL_OWN(take_policies)},
    {'c', "classifier", "SPEC", "host segment path regex:",
     "host, segment (of the path: its first), path or regex:VARIABLE:PATTERN; may be given several "
     "times (host)",
     CTL_OWN(take_classifier)},
    {'s', "scenario", "NAME",
     "steady light flash crawl newworkers crash drain rolling hetero shift shareddb all",
     "instead of a log; all: every scenario; may be given several times (steady)",
     CTL_OWN(take_scenario)},
    {'o', "plot", "FILE.svg", CTL_FILES, "chart (SVG)", CTL_TEXT(struct simulate, plot_file)},
    {'j', "json", NULL, NULL, "for programs", CTL_SET(struct ctl_options, json)},
    {0, "tune", NULL, NULL, "search the best classifier, policy, settings and number of workers",
     CTL_SET(struct simulate, tune)},
    {0, "queue-is-service", NULL, NULL, "reported times include the wait at the worker",
     CTL_SET(struct simulate, plan.world.queue_is_service)},
    CTL_FLAG_HELP,
#define NUMBER(row, name, called, value, min, max, whole, help)                                    \
    {0, name, called, NULL, help, take_number, NUMBER_##row, 0, 0},
    NUMBERS
#undef NUMBER
};
const struct ctl_command ctl_word_simulate = {
    .name = "simulate",
    .arguments = "[ACCESS-LOG]",
    .summary = "what each policy would do for an access log, or for generated work",
    .text = "What would resumelb do for these requests? Replays an access log (combined format, "
            "with or\n"
            "without the virtual host first; our own in JSON; - for standard input), or generated "
            "work,\n"
            "in virtual time, with the code that selects workers in the server.\n",
    .describe = describe_choices,
    .completes = CTL_FILES,
    .flags = simulate_flags,
    .nflags = ARRAY_LEN(simulate_flags),
    .run = run_simulate,
};
