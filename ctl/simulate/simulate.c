/* SPDX-License-Identifier: Apache-2.0
 *
 * Command line -> plans -> variants -> table, JSON or picture.
 */
#include "ctl/simulate/simulate.h"
#include "common/base/file.h"
#include "routing/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- options ---- */

/*
 * The numeric options: row, member, scale, name of the option and of its value, default, bounds,
 * help. The defaults are those of the benchmark (bench/affinity), so that results are comparable.
 */
/* clang-format off */
#define NUMBERS \
    NUMBER(workers, plan.world.workers, 1, "workers", "N", 16, 1, WORLD_WORKERS_MAX, "workers (16)") \
    NUMBER(concurrency, plan.world.concurrency, 1, "concurrency", "N", 1, 1, WORLD_CONCURRENCY_MAX, "requests that each worker serves at once (1)") \
    NUMBER(cache, plan.world.cache, 1, "cache", "N", 2000, 1, WORLD_CACHE_MAX, "objects that a worker's cache holds (2000)") \
    NUMBER(base_ms, plan.world.base_ns, 1e6, "base-ms", "MS", 10, 0, 60000, "work of a request that finds all its objects (10)") \
    NUMBER(hit_us, plan.world.hit_ns, 1e3, "hit-us", "US", 20, 0, 1e6, "... and for each object in the cache (20)") \
    NUMBER(load_ms, plan.world.load_ns, 1e6, "load-ms", "MS", 2, 0, 60000, "... and for each that is loaded (2)") \
    NUMBER(scale, plan.world.time_scale, 1, "scale", "F", 1, 0.001, 10000, "all times of work and of arrivals are multiplied by this (1)") \
    NUMBER(db_slots, plan.world.db_slots, 1, "db-slots", "N", 0, 0, WORLD_DB_SLOTS_MAX, "loads that all workers can have in progress at once; 0: no bound (0)") \
    NUMBER(clients, plan.clients, 1, "clients", "N", 64, 1, 1e6, "closed loop: number of clients, each with one request at a time (64)") \
    NUMBER(rate, plan.rate, 1, "rate", "N", 0, 0.001, 1e6, "open loop: requests per second, at random times") \
    NUMBER(speed, plan.speed, 1, "speed", "FACTOR", 0, 1e-6, 1e6, "open loop: at the times of the log, divided by this factor") \
    NUMBER(requests, requests, 1, "requests", "N", 0, 2, TRACE_REQUESTS_MAX, "number of requests: of a log at most, of a scenario over all phases") \
    NUMBER(sites, plan.workload.sites, 1, "sites", "N", 500, 1, WORKLOAD_SITES_MAX, "sites (500)") \
    NUMBER(zipf, plan.workload.zipf, 1, "zipf", "S", 0.9, 0, 10, "how uneven their shares are (0.9); simul: nearly even, as in simul.py") \
    NUMBER(site_objects, plan.workload.site_objects, 1, "site-objects", "N", 60, 1, WORKLOAD_SITE_OBJECTS_MAX, "objects of a site: four standard deviations (60)") \
    NUMBER(objects, plan.workload.request_objects, 1, "objects", "N", 20, 1, TRACE_PAGE_OBJECTS_MAX, "random objects per page (20)") \
    NUMBER(balancers, plan.world.balancers, 1, "balancers", "N", 1, 1, WORLD_BALANCERS_MAX, "load balancers before the same workers (1)") \
    NUMBER(report_delay_ms, plan.world.report_delay_ns, 1e6, "report-delay-ms", "MS", 0, 0, 60000, "delay after which balancers receive reports sent to others; 0: never (0)") \
    NUMBER(homes_delay_ms, plan.world.homes_delay_ns, 1e6, "homes-delay-ms", "MS", 1000, 0, 60000, "interval at which workers publish homes; 0: never, each balancer decides alone (1000)") \
    NUMBER(history, plan.world.history, 1, "history", "N", 200, 1, 1e6, "requests between a worker's resumes (200)") \
    NUMBER(seed, plan.workload.seed, 1, "seed", "N", 1, 0, 4294967295.0, "seed of all random numbers (1)") \
    NUMBER(random, nrandom, 1, "random", "N", 0, 1, SIMULATE_RANDOM_MAX, "number of random workloads: how often is each policy among the best?")
/* clang-format on */

enum {
#define NUMBER(row, ...) NUMBER_##row,
    NUMBERS
#undef NUMBER
};
enum number_type { UINT32, UINT64, REAL };
#define TYPE_OF(member)                                                                            \
    _Generic(((struct simulate *)0)->member, uint32_t : UINT32, uint64_t : UINT64, double : REAL)

static const struct number {
    const char *name;
    size_t at; /* in struct simulate */
    enum number_type type;
    double scale; /* the member is so many times the option's value */
    double value, min, max;
} numbers[] = {
#define NUMBER(row, member, scale, name, called, value, min, max, help)                            \
    {name, offsetof(struct simulate, member), TYPE_OF(member), scale, value, min, max},
    NUMBERS
#undef NUMBER
};

static void set_number(struct simulate *s, const struct number *n, double v)
{
    void *to = (char *)s + n->at;

    v *= n->scale;
    if (n->type == REAL)
        *(double *)to = v;
    else if (n->type == UINT64)
        *(uint64_t *)to = (uint64_t)v;
    else
        *(uint32_t *)to = (uint32_t)v;
}

static void describe_choices(struct text *out)
{
    text_add(out, SLICE_LIT("\npolicies: there are "));
    for (int p = 0; p < POOL_POLICIES; ++p)
        text_addf(out, "%s%s", p != 0 ? ", " : "", pool_policy_text((enum pool_policy)p));
    text_add(out, SLICE_LIT("\n\nscenarios:\n"));
    for (unsigned i = 0; i < SCENARIO_replay; ++i)
        text_addf(out, "  %-11s %s\n", scenario_name((enum scenario)i),
                  scenario_doc((enum scenario)i));
}

static int simulate_error(const char *what, const char *which)
{
    return ctl_usage_error(&ctl_word_simulate, what, which);
}

static int take_number(struct ctl_options *o, const struct ctl_flag *f, const char *value)
{
    struct simulate *s = container_of(o, struct simulate, o);
    const struct number *n = &numbers[f->at];
    bool is_zipf = f->at == NUMBER_zipf;
    bool simul = is_zipf && strcmp(value, "simul") == 0;
    bool whole = n->type != REAL && n->scale == 1;
    double v;
    char what[160];

    s->given |= 1u << f->at;
    if (is_zipf)
        s->plan.workload.simul = simul;
    if (simul)
        return CTL_OK;
    if (parse_double(slice_of(value), &v) && v >= n->min && v <= n->max &&
        (!whole || (double)(uint64_t)v == v)) {
        set_number(s, n, v);
        return CTL_OK;
    }
    snprintf(what, sizeof(what), "--%s: expected %s from %.10g to %.10g%s, not", n->name,
             whole ? "a whole number" : "a number", n->min, n->max, is_zipf ? " or simul" : "");
    return simulate_error(what, value);
}

static int take_scenario(struct ctl_options *o, unused_ const struct ctl_flag *f, const char *name)
{
    struct simulate *s = container_of(o, struct simulate, o);
    enum scenario found = scenario_find(name);

    if (strcmp(name, "all") == 0) {
        for (unsigned i = 0; i < SCENARIO_replay; ++i)
            s->scenarios[i] = true;
        return CTL_OK;
    }
    if (found >= SCENARIO_replay)
        return simulate_error("no such scenario", name);
    s->scenarios[found] = true;
    return CTL_OK;
}

static int take_policies(struct ctl_options *o, unused_ const struct ctl_flag *f, const char *list)
{
    struct simulate *s = container_of(o, struct simulate, o);
    struct diag d = {0};

    if (!simulate_read_policies(list, s->policies, &s->npolicies, &d))
        return ctl_usage_problems(&ctl_word_simulate, &d);
    return CTL_OK;
}

/* Checks for numbers that would change nothing. */
static int check_unused_options(const struct simulate *s)
{
#define GIVEN(row) (UINT32_C(1) << NUMBER_##row)
    const uint32_t sites = GIVEN(sites) | GIVEN(zipf) | GIVEN(site_objects);
    bool is_light = s->scenarios[SCENARIO_light];
    char what[64];

    for (unsigned i = 0; i < SCENARIOS; ++i)
        is_light = is_light && s->scenarios[i] == (i == SCENARIO_light);
    const struct {
        bool applies;
        uint32_t idle;
        const char *why;
    } cases[] = {
        {s->plan.rate > 0 || s->plan.speed > 0, GIVEN(clients),
         "with --rate or --speed no client waits for a response before its next request"},
        {is_light, GIVEN(clients), "scenario light has 8 clients"},
        {s->log_file != NULL, sites, "a log has its own"},
        {s->nrandom != 0,
         sites | GIVEN(workers) | GIVEN(cache) | GIVEN(base_ms) | GIVEN(hit_us) | GIVEN(load_ms) |
             GIVEN(clients) | GIVEN(objects),
         "--random chooses it"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        uint32_t idle = cases[i].applies ? s->given & cases[i].idle : 0;

        if (idle == 0)
            continue;
        snprintf(what, sizeof(what), "--%s changes nothing here",
                 numbers[__builtin_ctz(idle)].name);
        return simulate_error(what, cases[i].why);
    }
    return CTL_OK;
}

/* The usual policies of other load balancers, which do not use classes; the best first. */
static const char *const common[] = {"least_backlog", "classless", "round_robin"};

/* Checks for options that exclude each other, and for missing ones. */
static int simulate_complete(struct simulate *s)
{
    bool has_today = false;
    size_t nscenarios = 0;
    int code = CTL_OK;

    for (unsigned i = 0; i < SCENARIOS; ++i)
        nscenarios += s->scenarios[i];
    if (s->log_file != NULL && nscenarios != 0)
        return simulate_error("a log or a scenario, not both", NULL);
    if (s->log_file == NULL && s->plan.speed > 0)
        return simulate_error("--speed is for a log: generated work has no recorded times", NULL);
    if (s->plan.speed > 0 && s->plan.rate > 0)
        return simulate_error("--speed or --rate, not both", NULL);
    if (s->nrandom != 0 && (s->log_file != NULL || nscenarios != 0 || s->tune || s->plot_file))
        return simulate_error("--random chooses its own work: no log, scenario, --tune or --plot",
                              NULL);
    if ((s->plot_file != NULL || s->tune) && nscenarios > 1)
        return simulate_error("--plot and --tune are for one scenario", NULL);
    if ((s->tune || s->nrandom != 0) && s->o.json)
        return simulate_error("--json is not for --tune and --random", NULL);
    if ((uint64_t)s->plan.world.workers * s->plan.world.cache > WORLD_CACHED_MAX)
        return simulate_error("--workers times --cache is too much", NULL);
    code = check_unused_options(s);
    if (code != CTL_OK)
        return code;
    if (nscenarios == 0)
        s->scenarios[s->log_file != NULL ? SCENARIO_replay : SCENARIO_steady] = true;
    if (s->npolicies == 0)
        code = take_policies(&s->o, NULL, "all");
    for (size_t i = 0; i < s->npolicies; ++i) {
        for (size_t k = 0; k < ARRAY_LEN(common); ++k)
            has_today = has_today || strcmp(s->policies[i].label, common[k]) == 0;
    }
    /* The usual configuration as the reference for comparison. */
    if (code == CTL_OK && s->tune && !has_today) {
        s->adds_today = true;
        code = take_policies(&s->o, NULL, common[0]);
    }
    if (code == CTL_OK && s->classifiers.n == 0)
        code = simulate_add_classifier(&s->o, &s->classifiers, "host");
    if (code == CTL_OK && s->tune && s->classifiers.n + 2 <= SIMULATE_CLASSIFIERS_MAX) {
        code = simulate_add_classifier(&s->o, &s->classifiers, "segment");
        if (code == CTL_OK)
            code = simulate_add_classifier(&s->o, &s->classifiers, "path");
    }
    return code;
}

/* ---- the command ---- */

void simulate_run(const struct simulate *s, const struct plan *plan, struct simulate_runs *out)
{
    size_t n = 0;

    *out = (struct simulate_runs){.simulate = s, .plan = plan};
    out->nvariants = s->npolicies * s->classifiers.n;
    out->variants = xcalloc(out->nvariants, sizeof(out->variants[0]));
    for (size_t c = 0; c < s->classifiers.n; ++c) {
        for (size_t p = 0; p < s->npolicies; ++p) {
            struct simulate_variant *v = &out->variants[n++];

            v->policy = p;
            v->classifier = c;
            plan_run(plan, &s->classifiers.all[c].classes, &s->policies[p].settings, &v->result);
        }
    }
}

void simulate_label(const struct simulate *s, const struct simulate_variant *v, struct text *out)
{
    text_addf(out, "%s", s->policies[v->policy].label);
    if (s->classifiers.n > 1)
        text_addf(out, " by %s", s->classifiers.all[v->classifier].label);
}

void simulate_add_label(struct table *table, const struct simulate *s,
                        const struct simulate_variant *v)
{
    struct text label = {0};

    simulate_label(s, v, &label);
    table_add(table, text_slice(&label));
    text_fini(&label);
}

const struct simulate_variant *simulate_baseline(const struct simulate_runs *t)
{
    for (size_t k = 0; k < ARRAY_LEN(common); ++k) {
        for (size_t i = 0; i < t->nvariants; ++i) {
            const char *label = t->simulate->policies[t->variants[i].policy].label;

            if (strcmp(label, common[k]) == 0)
                return &t->variants[i];
        }
    }
    return &t->variants[t->nvariants - 1];
}

bool simulate_is_better(const struct plan *p, const struct sim_figures *a,
                        const struct sim_figures *b)
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

const struct simulate_variant *simulate_best(const struct simulate_runs *t, size_t first,
                                             size_t last)
{
    const struct simulate_variant *best = &t->variants[first];

    for (size_t i = first + 1; i < t->nvariants; ++i) {
        const struct simulate_variant *v = &t->variants[i];

        if (v->policy >= first && v->policy < last &&
            simulate_is_better(t->plan, &v->result.main, &best->result.main))
            best = v;
    }
    return best;
}

/* Runs each scenario with the requested number of requests; prints it unless JSON is wanted. */
static enum err run_scenarios(struct simulate *s, struct text *out, struct diag *d)
{
    struct plan *plans[SCENARIOS] = {NULL};
    struct simulate_runs all[SCENARIOS] = {0};
    struct text svg = {0};
    size_t n = 0;
    enum err e = ERR_OK;

    for (enum scenario which = 0; which < SCENARIOS && e == ERR_OK; ++which) {
        struct plan_options scaled = s->plan;

        if (!s->scenarios[which])
            continue;
        if (which == SCENARIO_replay) {
            e = simulate_read_log(s, &plans[n], d);
        } else {
            if (s->requests != 0)
                scaled.scale = (double)s->requests / (double)scenario_requests(which);
            e = plan_create(which, &scaled, &plans[n]);
            if (e == ERR_OK)
                e = simulate_classify_plan(&s->classifiers, plans[n]);
            if (e != ERR_OK)
                diag_add(d, NULL, 0, 0, "%s: %s", scenario_name(which), err_text(e));
        }
        if (e == ERR_OK && s->log_file != NULL && !s->o.json)
            simulate_print_log(s, out);
        if (e == ERR_OK && s->tune) {
            e = simulate_tune(s, plans[n], out, d);
        } else if (e == ERR_OK) {
            simulate_run(s, plans[n], &all[n]);
            if (!s->o.json)
                simulate_print(&all[n], out);
            if (s->plot_file != NULL) {
                simulate_plot(&all[n], &svg);
                e = file_write_output(s->plot_file, text_slice(&svg), 0640);
                if (e != ERR_OK)
                    diag_add(d, s->plot_file, 0, 0, "%s", strerror(errno));
                text_fini(&svg);
            }
        }
        ++n;
    }
    if (e == ERR_OK && s->o.json)
        simulate_print_json(all, n, out);
    while (n-- != 0) {
        free(all[n].variants);
        plan_destroy(plans[n]);
    }
    return e;
}

static int simulate_main(const struct ctl_command *c, int argc, char **argv)
{
    struct simulate s = {.plan.scale = 1};

    for (size_t i = 0; i < ARRAY_LEN(numbers); ++i)
        set_number(&s, &numbers[i], numbers[i].value);
    int code = ctl_parse(c, argc, argv, &s.o);
    if (code < 0) {
        s.log_file = s.o.words[0];
        code = simulate_complete(&s) == CTL_OK ? -1 : CTL_USAGE;
    }
    if (code < 0) {
        enum err e = s.nrandom != 0 ? simulate_random(&s, &s.o.out, &s.o.diag)
                                    : run_scenarios(&s, &s.o.out, &s.o.diag);
        code = ctl_finish(&s.o, e);
    }
    for (size_t i = 0; i < s.npolicies; ++i)
        free(s.policies[i].label);
    simulate_classifiers_fini(&s.classifiers);
    return code;
}

static const struct ctl_flag simulate_flags[] = {
    {'p', "policy", "LIST", NULL, "policies, or all; NAME:SETTING=VALUE sets one (all)",
     CTL_OWN(take_policies)},
    {'c', "classifier", "SPEC", "host segment path regex:",
     "host, segment (of the path: its first), path or regex:VARIABLE:PATTERN; may be given several "
     "times (host)",
     SIMULATE_CLASSIFIERS(struct simulate, classifiers, SIMULATE_CLASSIFIERS_MAX)},
    {'s', "scenario", "NAME",
     "steady light flash crawl newworkers crash drain rolling hetero shift shareddb "
     "sessions streams all",
     "instead of a log; all: every scenario; may be given several times (steady)",
     CTL_OWN(take_scenario)},
    {'o', "plot", "FILE.svg", CTL_FILES, "chart (SVG)", CTL_TEXT(struct simulate, plot_file)},
    {'j', "json", NULL, NULL, "for programs", CTL_SET(struct ctl_options, json)},
    {0, "tune", NULL, NULL, "search the best classifier, policy, settings and number of workers",
     CTL_SET(struct simulate, tune)},
    {0, "queue-is-service", NULL, NULL, "reported times include the wait at the worker",
     CTL_SET(struct simulate, plan.world.queue_is_service)},
    CTL_FLAG_HELP,
#define NUMBER(row, member, scale, name, called, value, min, max, help)                            \
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
    CTL_FLAGS(simulate_flags),
    .run = simulate_main,
};
