/* SPDX-License-Identifier: Apache-2.0
 *
 * The phases of each scenario. Numbers of requests are those of the benchmark of the same names
 * (bench/affinity), so that figures of the one can be held against those of the other.
 */
#include "sim/scenario.h"

#include <math.h>
#include <stdlib.h>

/* Positions in the phase in which it happens, before scaling. */
enum {
    COLD_TO = 2000,
    HOT_FROM = 1500,
    HOT_TO = 9000,
    NEW_AT = 1500,
    FULL_LAST = 4000,
    CRASH_AT = 2000,
    DRAINED_AFTER = 300,
    JUST_AFTER = 1000,
    REPLACED_AT = 5000,
    SHIFT_AT = 2000,
    SHIFT_AFTER = 2000,
};

static const char *const names[SCENARIOS] = {
#define SCENARIO(name, doc) [SCENARIO_##name] = #name,
#include "sim/scenario.def"
#undef SCENARIO
};
static const char *const docs[SCENARIOS] = {
#define SCENARIO(name, doc) [SCENARIO_##name] = (doc),
#include "sim/scenario.def"
#undef SCENARIO
};

const char *scenario_name(enum scenario s)
{
    ASSERT((unsigned)s < SCENARIOS);
    return names[s];
}

const char *scenario_doc(enum scenario s)
{
    ASSERT((unsigned)s < SCENARIOS);
    return docs[s];
}

enum scenario scenario_find(struct slice name)
{
    unsigned s = 0;

    while (s < SCENARIOS && !slice_is(name, names[s]))
        ++s;
    return (enum scenario)s;
}

/* ---- plans ---- */

/* Newworkers: those from this one on are new. */
static unsigned first_new(const struct plan *p)
{
    return p->options.world.workers * 3 / 4;
}

/* Crash: the number of the worker that is killed. */
static unsigned crashed(const struct plan *p)
{
    return 5 % p->options.world.workers;
}

/* N requests of the benchmark, in this plan; at least one. */
static size_t scaled(const struct plan *p, size_t n)
{
    double v = (double)n * p->options.scale;

    return v < 1 ? 1 : (size_t)v;
}

static void add_event(struct plan_phase *phase, size_t at, enum world_change change,
                      unsigned worker)
{
    phase->events = xrealloc(phase->events, (phase->nevents + 1) * sizeof(phase->events[0]));
    phase->events[phase->nevents++] =
        (struct world_event){.at = at, .change = change, .worker = worker};
}

static void start_new_workers(struct plan *p)
{
    for (unsigned i = first_new(p); i < p->options.world.workers; ++i) {
        add_event(&p->phases[0], 0, WORLD_KILL, i);
        add_event(&p->phases[1], scaled(p, NEW_AT), WORLD_START, i);
    }
}

static void crash(struct plan *p)
{
    add_event(&p->phases[1], scaled(p, CRASH_AT), WORLD_KILL, crashed(p));
    add_event(&p->phases[1], scaled(p, REPLACED_AT), WORLD_START, crashed(p));
}

static void drain(struct plan *p)
{
    add_event(&p->phases[1], scaled(p, CRASH_AT), WORLD_DRAIN, crashed(p));
    add_event(&p->phases[1], scaled(p, CRASH_AT + DRAINED_AFTER), WORLD_KILL, crashed(p));
    add_event(&p->phases[1], scaled(p, REPLACED_AT), WORLD_START, crashed(p));
}

static void replace_and_kill(struct plan *p)
{
    unsigned workers = p->options.world.workers;

    for (unsigned i = 0; i < workers; ++i) {
        size_t killed = p->phases[2].trace.n * i / workers;

        add_event(&p->phases[1], p->phases[1].trace.n * i / workers, WORLD_REPLACE, i);
        add_event(&p->phases[2], killed, WORLD_KILL, i);
        add_event(&p->phases[2], killed, WORLD_START, i);
    }
}

/* ---- a run, and the measurement of what its scenario is about ---- */

enum { ALL_TAGS = -1 };

/* A plan that has been run. */
struct done {
    const struct plan *plan;
    struct world_record *records[PLAN_PHASES_MAX];
    struct plan_result *out;
};

static size_t phase_n(const struct done *d, size_t phase)
{
    return d->plan->phases[phase].trace.n;
}

/* Requests FROM .. TO of a phase, as many as it has. */
static struct figures_part part_of(const struct done *d, size_t phase, size_t from, size_t to,
                                   int tag)
{
    size_t n = phase_n(d, phase);

    to = to < n ? to : n;
    return (struct figures_part){.from = from < to ? from : to, .to = to, .tag = tag};
}

static struct figures measure(const struct done *d, size_t phase, size_t from, size_t to, int tag)
{
    struct figures_part part = part_of(d, phase, from, to, tag);
    struct figures f;

    figures_of(d->records[phase], &part, d->plan->options.world.workers, &f);
    return f;
}

static struct figures measure_all(const struct done *d, size_t phase, int tag)
{
    return measure(d, phase, 0, SIZE_MAX, tag);
}

/* Share of workers FIRST .. LAST - 1 of the requests from FROM on. */
static double share(const struct done *d, size_t phase, size_t from, unsigned first, unsigned last)
{
    struct figures_part part = part_of(d, phase, from, SIZE_MAX, ALL_TAGS);

    return figures_share(d->records[phase], &part, first, last);
}

static void extra(struct done *d, const char *key, const char *title, int decimals, double value)
{
    struct plan_result *r = d->out;

    ASSERT(r->nextras < PLAN_EXTRAS_MAX);
    r->extras[r->nextras++] =
        (struct plan_extra){.key = key, .title = title, .value = value, .decimals = decimals};
}

static void measure_steady(struct done *d)
{
    size_t cold = scaled(d->plan, COLD_TO);
    struct figures first = measure(d, 0, 0, cold, ALL_TAGS);
    struct figures open = measure_all(d, 2, ALL_TAGS);

    extra(d, "cold_loads", "cold: loads/req", 1, first.loads);
    extra(d, "open_loads", "open: loads/req", 2, open.loads);
    extra(d, "open_p50_ms", "open: p50 ms", 0, open.p50_ms);
    extra(d, "open_p99_ms", "open: p99 ms", 0, open.p99_ms);
}

static void measure_hot(struct done *d)
{
    size_t from = scaled(d->plan, HOT_FROM);
    size_t to = scaled(d->plan, HOT_TO);
    size_t half = (from + to) / 2;
    struct figures before = measure(d, 1, 0, from, ALL_TAGS);
    struct figures others = measure(d, 1, from, to, TRACE_TAG_NORMAL);
    struct figures after = measure(d, 1, to, SIZE_MAX, ALL_TAGS);
    struct figures hot = measure(d, 1, half, to, TRACE_TAG_SPECIAL);

    d->out->main = measure(d, 1, half, to, TRACE_TAG_NORMAL);
    extra(d, "before_p99_ms", "before: p99 ms", 0, before.p99_ms);
    extra(d, "before_loads", "before: loads/req", 2, before.loads);
    extra(d, "attack_loads", "attack: others' loads/req", 2, others.loads);
    extra(d, "attack_p99_ms", "whole attack: others' p99 ms", 0, others.p99_ms);
    extra(d, "after_loads", "after: loads/req", 2, after.loads);
    extra(d, "hot_p50_ms", "hot class: p50 ms", 0, hot.p50_ms);
    extra(d, "hot_p99_ms", "p99 ms", 0, hot.p99_ms);
    extra(d, "hot_workers", "its workers", 0, hot.workers);
}

static void measure_newworkers(struct done *d)
{
    size_t at = scaled(d->plan, NEW_AT);
    size_t full = scaled(d->plan, FULL_LAST);
    size_t n = phase_n(d, 1);
    size_t last = n > at ? n - at : 0;
    unsigned first = first_new(d->plan);
    unsigned all = d->plan->options.world.workers;
    struct figures light = measure(d, 1, last, n, ALL_TAGS);

    d->out->main = measure(d, 2, full, SIZE_MAX, ALL_TAGS);
    extra(d, "light_share", "light: share of the new, %", 1, 100 * share(d, 1, last, first, all));
    extra(d, "light_loads_before", "before: loads/req", 2, measure(d, 1, 0, at, ALL_TAGS).loads);
    extra(d, "light_loads", "last third: loads/req", 2, light.loads);
    extra(d, "light_p99_ms", "p99 ms", 0, light.p99_ms);
    extra(d, "full_share", "full: share of the new, %", 1, 100 * share(d, 2, full, first, all));
}

static void measure_crash(struct done *d)
{
    size_t at = scaled(d->plan, CRASH_AT);
    size_t back = scaled(d->plan, REPLACED_AT);
    size_t some = scaled(d->plan, JUST_AFTER);
    size_t n = phase_n(d, 1);
    size_t last = n > some ? n - some : 0;
    unsigned victim = crashed(d->plan);
    double workers = d->plan->options.world.workers;
    struct figures before = measure(d, 1, 0, at, ALL_TAGS);
    struct figures down = measure(d, 1, at, back, ALL_TAGS);

    extra(d, "before_loads", "before: loads/req", 2, before.loads);
    extra(d, "just_down_loads", "just after", 2, measure(d, 1, at, at + some, ALL_TAGS).loads);
    extra(d, "down_loads", "down", 2, down.loads);
    extra(d, "after_loads", "replaced", 2, measure(d, 1, back, SIZE_MAX, ALL_TAGS).loads);
    extra(d, "last_loads", "last", 2, measure(d, 1, last, n, ALL_TAGS).loads);
    extra(d, "before_p99_ms", "before: p99 ms", 0, before.p99_ms);
    extra(d, "down_p99_ms", "down: p99 ms", 0, down.p99_ms);
    extra(d, "max_ms", "max ms", 0, d->out->main.max_ms);
    extra(d, "new_share", "share of the new, fair = 1", 2,
          workers * share(d, 1, last, victim, victim + 1));
    extra(d, "later_share", "later", 2, workers * share(d, 2, 0, victim, victim + 1));
}

static void measure_rolling(struct done *d)
{
    struct figures killed = measure_all(d, 2, ALL_TAGS);
    size_t half = phase_n(d, 0) / 2;

    extra(d, "before_loads", "before: loads/req", 2, measure(d, 0, half, SIZE_MAX, ALL_TAGS).loads);
    extra(d, "replaced_loads", "replaced: loads/req", 2, d->out->main.loads);
    extra(d, "replaced_p99_ms", "p99 ms", 0, d->out->main.p99_ms);
    extra(d, "killed_loads", "killed: loads/req", 2, killed.loads);
    extra(d, "killed_p99_ms", "p99 ms", 0, killed.p99_ms);
}

static void measure_hetero(struct done *d)
{
    struct figures cheap = measure_all(d, 1, TRACE_TAG_NORMAL);
    struct figures costly = measure_all(d, 1, TRACE_TAG_SPECIAL);

    extra(d, "cheap_p50_ms", "cheap: p50 ms", 0, cheap.p50_ms);
    extra(d, "cheap_p99_ms", "p99 ms", 0, cheap.p99_ms);
    extra(d, "costly_p50_ms", "costly: p50 ms", 0, costly.p50_ms);
    extra(d, "costly_p99_ms", "p99 ms", 0, costly.p99_ms);
}

static void measure_shift(struct done *d)
{
    size_t at = scaled(d->plan, SHIFT_AT);
    size_t some = scaled(d->plan, SHIFT_AFTER);
    size_t n = phase_n(d, 1);
    struct figures before = measure(d, 1, 0, at, ALL_TAGS);
    struct figures next = measure(d, 1, at, at + some, ALL_TAGS);
    struct figures last = measure(d, 1, n > some ? n - some : 0, n, ALL_TAGS);

    extra(d, "before_loads", "before: loads/req", 2, before.loads);
    extra(d, "next_loads", "just after", 2, next.loads);
    extra(d, "last_loads", "last", 2, last.loads);
    extra(d, "before_p99_ms", "before: p99 ms", 0, before.p99_ms);
    extra(d, "next_p99_ms", "just after", 0, next.p99_ms);
    extra(d, "last_p99_ms", "last", 0, last.p99_ms);
    extra(d, "last_rate", "last: req/s", 0, last.rate);
    extra(d, "last_share_max", "last: busiest, of requests", 2, last.share_max);
}

static void measure_replay(struct done *d)
{
    extra(d, "first_loads", "first half: loads/req", 2, measure_all(d, 0, ALL_TAGS).loads);
}

/* ---- the scenarios ---- */

/* Phase N is drawn by seed N + 1. Without a rate it is a closed loop. Positions are not scaled. */
static const struct {
    struct {
        const char *name;
        struct workload_part part;
    } phases[PLAN_PHASES_MAX];
    size_t main;
    unsigned clients, db_slots; /* in place of the options; 0: theirs */
    void (*arrange)(struct plan *p);
    void (*measure)(struct done *d);
} scenarios[SCENARIOS] = {
    [SCENARIO_steady] = {{{"cold", {.n = 10000}},
                          {"steady", {.n = 8000}},
                          {"open", {.n = 4000, .rate = 400}}},
                         .main = 1,
                         .measure = measure_steady},
    [SCENARIO_light] = {{{"warm", {.n = 8000}}, {"light", {.n = 4000}}}, .main = 1, .clients = 8},
#define HOT(kind)                                                                                  \
    {                                                                                              \
        .n = 10500, .rate = 300, .hot = (kind), .hot_from = HOT_FROM, .hot_to = HOT_TO,            \
        .hot_share = .6                                                                            \
    }
    [SCENARIO_flash] = {{{"warm", {.n = 8000}}, {"hot", HOT(WORKLOAD_FLASH)}},
                        .main = 1,
                        .measure = measure_hot},
    [SCENARIO_crawl] = {{{"warm", {.n = 8000}}, {"hot", HOT(WORKLOAD_CRAWL)}},
                        .main = 1,
                        .measure = measure_hot},
    [SCENARIO_newworkers] = {{{"warm", {.n = 8000}},
                              {"light", {.n = 4500, .rate = 150}},
                              {"full", {.n = 6000}}},
                             .main = 2,
                             .arrange = start_new_workers,
                             .measure = measure_newworkers},
    [SCENARIO_crash] = {{{"warm", {.n = 10000}}, {"crash", {.n = 8000}}, {"later", {.n = 8000}}},
                        .main = 1,
                        .arrange = crash,
                        .measure = measure_crash},
    [SCENARIO_drain] = {{{"warm", {.n = 10000}}, {"crash", {.n = 8000}}, {"later", {.n = 8000}}},
                        .main = 1,
                        .arrange = drain,
                        .measure = measure_crash},
    [SCENARIO_rolling] = {{{"warm", {.n = 10000}},
                           {"replaced", {.n = 16000}},
                           {"killed", {.n = 16000}}},
                          .main = 1,
                          .arrange = replace_and_kill,
                          .measure = measure_rolling},
    [SCENARIO_hetero] = {{{"warm", {.n = 6000, .costly = true}},
                          {"hetero", {.n = 6000, .costly = true}}},
                         .main = 1,
                         .measure = measure_hetero},
    [SCENARIO_shift] = {{{"warm", {.n = 10000}}, {"shift", {.n = 10000, .shift_at = SHIFT_AT}}},
                        .main = 1,
                        .measure = measure_shift},
    [SCENARIO_shareddb] = {{{"warm", {.n = 6000}}, {"shareddb", {.n = 6000}}},
                           .main = 1,
                           .db_slots = 6},
    [SCENARIO_replay] = {.measure = measure_replay},
};

/* Draws phase I of P's scenario; one without a rate has as many clients as there are, unless all is
 * to come at a rate. */
static enum err add_phase(struct plan *p, size_t i)
{
    struct workload_part part = scenarios[p->scenario].phases[i].part;
    struct plan_phase *phase = &p->phases[p->nphases++];

    if (part.rate <= 0)
        part.rate = p->options.rate;
    part.seed = i + 1;
    part.n = scaled(p, part.n);
    part.hot_from = scaled(p, part.hot_from);
    part.hot_to = scaled(p, part.hot_to);
    if (part.shift_at != 0) {
        part.shift_at = scaled(p, part.shift_at);
        part.shift = p->options.workload.sites / 2;
    }
    phase->name = scenarios[p->scenario].phases[i].name;
    phase->clients = part.rate > 0 ? 0 : p->options.clients;
    return workload_draw(&p->options.workload, &part, &phase->trace);
}

static struct plan *new_plan(enum scenario s, const struct plan_options *o)
{
    struct plan *p = xcalloc(1, sizeof(*p));

    ASSERT(o->clients >= 1);
    p->scenario = s;
    p->options = *o;
    p->main = 1;
    return p;
}

enum err plan_create(enum scenario s, const struct plan_options *o, struct plan **out)
{
    struct plan *p = new_plan(s, o);
    enum err e = ERR_OK;

    ASSERT(o->scale > 0);
    p->main = scenarios[s].main;
    if (scenarios[s].clients != 0)
        p->options.clients = scenarios[s].clients;
    if (scenarios[s].db_slots != 0 && o->world.db_slots == 0)
        p->options.world.db_slots = scenarios[s].db_slots;
    for (size_t i = 0; i < PLAN_PHASES_MAX && e == ERR_OK; ++i) {
        if (scenarios[s].phases[i].name != NULL)
            e = add_phase(p, i);
    }
    if (e == ERR_OK && scenarios[s].arrange != NULL)
        scenarios[s].arrange(p);
    if (e == ERR_OK)
        *out = p;
    else
        plan_destroy(p);
    return e;
}

struct plan *plan_replay(const struct plan_options *o, struct trace *first, struct trace *second)
{
    struct plan *p = new_plan(SCENARIO_replay, o);
    unsigned clients = o->speed > 0 || o->rate > 0 ? 0 : o->clients;

    p->phases[0] = (struct plan_phase){"first half", *first, clients, NULL, 0};
    p->phases[1] = (struct plan_phase){"second half", *second, clients, NULL, 0};
    p->nphases = 2;
    *first = *second = (struct trace){0};
    return p;
}

void plan_destroy(struct plan *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < p->nphases; ++i) {
        trace_fini(&p->phases[i].trace);
        free(p->phases[i].events);
    }
    free(p);
}

size_t plan_requests(const struct plan *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->nphases; ++i)
        n += p->phases[i].trace.n;
    return n;
}

/* ---- the course ---- */

/* Each phase gets windows in proportion to its requests, at least one. */
static void cut_windows(struct done *d)
{
    struct plan_result *r = d->out;
    size_t total = plan_requests(d->plan);

    for (size_t i = 0; i < d->plan->nphases; ++i) {
        size_t n = phase_n(d, i);
        size_t pieces = n * (PLAN_WINDOWS - PLAN_PHASES_MAX) / (total != 0 ? total : 1) + 1;

        r->begins[i] = r->nwindows;
        for (size_t k = 0; k < pieces; ++k) {
            size_t from = n * k / pieces;
            size_t to = n * (k + 1) / pieces;
            struct figures all = measure(d, i, from, to, ALL_TAGS);
            struct figures normal = measure(d, i, from, to, TRACE_TAG_NORMAL);

            ASSERT(r->nwindows < PLAN_WINDOWS);
            r->windows[r->nwindows++] = (struct plan_window){
                .loads = all.loads, .p99_ms = normal.n != 0 ? normal.p99_ms : all.p99_ms};
        }
    }
}

static int more_first(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x < y) - (x > y);
}

static void share_out(struct done *d)
{
    struct plan_result *r = d->out;
    const struct world_record *records = d->records[d->plan->main];
    size_t n = phase_n(d, d->plan->main);

    r->nshares = d->plan->options.world.workers;
    r->shares = xcalloc(r->nshares, sizeof(r->shares[0]));
    for (size_t i = 0; i < n; ++i) {
        if (!records[i].failed)
            r->shares[records[i].worker] += 1.0 / (double)n;
    }
    qsort(r->shares, r->nshares, sizeof(r->shares[0]), more_first);
}

void plan_run(const struct plan *p, const struct plan_classes *c, const struct pool_settings *s,
              struct plan_result *out)
{
    struct world *w = world_create(&p->options.world, s);
    struct done d = {.plan = p, .out = out};

    *out = (struct plan_result){0};
    for (size_t i = 0; i < p->nphases; ++i) {
        const struct plan_phase *phase = &p->phases[i];
        struct world_run run = {
            .trace = &phase->trace,
            .classes = c->of[i],
            .names = &c->names,
            .clients = phase->clients,
            .speed = p->scenario == SCENARIO_replay && p->options.speed > 0 ? p->options.speed : 1,
            .events = phase->events,
            .nevents = phase->nevents};

        d.records[i] = xcalloc(phase->trace.n != 0 ? phase->trace.n : 1, sizeof(*d.records[i]));
        if (i == p->main)
            world_add_shadow(w, -1, &out->shadow);
        world_run(w, &run, d.records[i]);
        if (i != p->main)
            continue;
        world_overlap(w, &out->overlap);
        world_add_shadow(w, 1, &out->shadow);
    }
    world_destroy(w);
    out->main = measure_all(&d, p->main, ALL_TAGS);
    if (scenarios[p->scenario].measure != NULL)
        scenarios[p->scenario].measure(&d);
    cut_windows(&d);
    share_out(&d);
    for (size_t i = 0; i < p->nphases; ++i)
        free(d.records[i]);
}

void plan_result_fini(struct plan_result *r)
{
    free(r->shares);
    r->shares = NULL;
}
