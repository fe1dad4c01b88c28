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

/* Newworkers: those from this one on are new. */
static inline unsigned plan_first_new(const struct plan *p)
{
    return p->options.world.workers * 3 / 4;
}

/* Scenario crash: the number of the killed worker. */
static inline unsigned plan_crashed(const struct plan *p)
{
    enum { CRASHED = 5 };

    return CRASHED % p->options.world.workers;
}

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

/* ---- building ---- */

/* N requests of the benchmark, in this plan; at least one. */
static size_t plan_scaled(const struct plan *p, size_t n)
{
    double scaled = (double)n * p->options.scale;

    return scaled < 1 ? 1 : (size_t)scaled;
}

static struct plan_phase *add_phase(struct plan *p, const char *name, unsigned clients)
{
    ASSERT(p->nphases < PLAN_PHASES_MAX);
    struct plan_phase *phase = &p->phases[p->nphases++];

    phase->name = name;
    phase->clients = clients;
    return phase;
}

/* A phase with as many clients as there are, unless all is to come at a rate. */
static enum err closed(struct plan *p, const char *name, struct workload_part part)
{
    bool open = p->options.rate > 0;
    struct plan_phase *phase = add_phase(p, name, open ? 0 : p->options.clients);

    part.rate = open ? p->options.rate : 0;
    part.n = plan_scaled(p, part.n);
    return workload_draw(&p->options.workload, &part, &phase->trace);
}

static enum err open_loop(struct plan *p, const char *name, struct workload_part part)
{
    struct plan_phase *phase = add_phase(p, name, 0);

    part.n = plan_scaled(p, part.n);
    return workload_draw(&p->options.workload, &part, &phase->trace);
}

static void add_event(struct plan_phase *phase, size_t at, enum world_change change,
                      unsigned worker)
{
    phase->events = xrealloc(phase->events, (phase->nevents + 1) * sizeof(phase->events[0]));
    phase->events[phase->nevents++] =
        (struct world_event){.at = at, .change = change, .worker = worker};
}

static enum err build_steady(struct plan *p)
{
    enum err e = closed(p, "cold", (struct workload_part){.n = 10000, .seed = 1});

    p->main = 1;
    if (e == ERR_OK)
        e = closed(p, "steady", (struct workload_part){.n = 8000, .seed = 2});
    if (e == ERR_OK)
        e = open_loop(p, "open", (struct workload_part){.n = 4000, .seed = 3, .rate = 400});
    return e;
}

static enum err build_light(struct plan *p)
{
    enum { CLIENTS = 8 };
    p->options.clients = CLIENTS;
    enum err e = closed(p, "warm", (struct workload_part){.n = 8000, .seed = 1});

    p->main = 1;
    return e == ERR_OK ? closed(p, "light", (struct workload_part){.n = 4000, .seed = 2}) : e;
}

static enum err build_hot(struct plan *p, enum workload_hot kind)
{
    struct workload_part hot = {.n = 10500,
                                .seed = 2,
                                .rate = 300,
                                .hot = kind,
                                .hot_from = plan_scaled(p, HOT_FROM),
                                .hot_to = plan_scaled(p, HOT_TO),
                                .hot_share = .6};
    enum err e = closed(p, "warm", (struct workload_part){.n = 8000, .seed = 1});

    p->main = 1;
    return e == ERR_OK ? open_loop(p, "hot", hot) : e;
}

static enum err build_flash(struct plan *p)
{
    return build_hot(p, WORKLOAD_FLASH);
}

static enum err build_crawl(struct plan *p)
{
    return build_hot(p, WORKLOAD_CRAWL);
}

static enum err build_newworkers(struct plan *p)
{
    unsigned first = plan_first_new(p);
    struct workload_part light = {.n = 4500, .seed = 2, .rate = 150};
    enum err e = closed(p, "warm", (struct workload_part){.n = 8000, .seed = 1});

    p->main = 2;
    if (e == ERR_OK)
        e = open_loop(p, "light", light);
    if (e == ERR_OK)
        e = closed(p, "full", (struct workload_part){.n = 6000, .seed = 3});
    for (unsigned i = first; i < p->options.world.workers && e == ERR_OK; ++i) {
        add_event(&p->phases[0], 0, WORLD_KILL, i);
        add_event(&p->phases[1], plan_scaled(p, NEW_AT), WORLD_START, i);
    }
    return e;
}

static enum err build_crash(struct plan *p)
{
    enum err e = closed(p, "warm", (struct workload_part){.n = 10000, .seed = 1});

    p->main = 1;
    if (e == ERR_OK)
        e = closed(p, "crash", (struct workload_part){.n = 8000, .seed = 2});
    if (e == ERR_OK)
        e = closed(p, "later", (struct workload_part){.n = 8000, .seed = 3});
    if (e == ERR_OK) {
        add_event(&p->phases[1], plan_scaled(p, CRASH_AT), WORLD_KILL, plan_crashed(p));
        add_event(&p->phases[1], plan_scaled(p, REPLACED_AT), WORLD_START, plan_crashed(p));
    }
    return e;
}

/* As crash, for comparison. */
static enum err build_drain(struct plan *p)
{
    enum err e = build_crash(p);

    if (e != ERR_OK)
        return e;
    struct plan_phase *phase = &p->phases[1];
    struct world_event gone = phase->events[0];
    phase->events[0].change = WORLD_DRAIN;
    gone.at = plan_scaled(p, CRASH_AT + DRAINED_AFTER);
    add_event(phase, phase->events[1].at, WORLD_START, gone.worker);
    phase->events[1] = gone;
    return ERR_OK;
}

static enum err build_rolling(struct plan *p)
{
    unsigned workers = p->options.world.workers;
    enum err e = closed(p, "warm", (struct workload_part){.n = 10000, .seed = 1});

    p->main = 1;
    if (e == ERR_OK)
        e = closed(p, "replaced", (struct workload_part){.n = 16000, .seed = 2});
    if (e == ERR_OK)
        e = closed(p, "killed", (struct workload_part){.n = 16000, .seed = 3});
    for (unsigned i = 0; i < workers && e == ERR_OK; ++i) {
        size_t replaced = p->phases[1].trace.n * i / workers;
        size_t killed = p->phases[2].trace.n * i / workers;

        add_event(&p->phases[1], replaced, WORLD_REPLACE, i);
        add_event(&p->phases[2], killed, WORLD_KILL, i);
        add_event(&p->phases[2], killed, WORLD_START, i);
    }
    return e;
}

static enum err build_hetero(struct plan *p)
{
    enum err e = closed(p, "warm", (struct workload_part){.n = 6000, .seed = 1, .costly = true});

    p->main = 1;
    if (e == ERR_OK)
        e = closed(p, "hetero", (struct workload_part){.n = 6000, .seed = 2, .costly = true});
    return e;
}

static enum err build_shift(struct plan *p)
{
    struct workload_part shift = {.n = 10000,
                                  .seed = 2,
                                  .shift_at = plan_scaled(p, SHIFT_AT),
                                  .shift = p->options.workload.sites / 2};
    enum err e = closed(p, "warm", (struct workload_part){.n = 10000, .seed = 1});

    p->main = 1;
    return e == ERR_OK ? closed(p, "shift", shift) : e;
}

static enum err build_shareddb(struct plan *p)
{
    enum { SLOTS = 6 };
    enum err e = closed(p, "warm", (struct workload_part){.n = 6000, .seed = 1});

    p->main = 1;
    if (p->options.world.db_slots == 0)
        p->options.world.db_slots = SLOTS;
    return e == ERR_OK ? closed(p, "shareddb", (struct workload_part){.n = 6000, .seed = 2}) : e;
}

static enum err (*const builders[SCENARIOS])(struct plan *p) = {
    [SCENARIO_steady] = build_steady,         [SCENARIO_light] = build_light,
    [SCENARIO_flash] = build_flash,           [SCENARIO_crawl] = build_crawl,
    [SCENARIO_newworkers] = build_newworkers, [SCENARIO_crash] = build_crash,
    [SCENARIO_drain] = build_drain,           [SCENARIO_rolling] = build_rolling,
    [SCENARIO_hetero] = build_hetero,         [SCENARIO_shift] = build_shift,
    [SCENARIO_shareddb] = build_shareddb,
};

static struct plan *new_plan(enum scenario s, const struct plan_options *o)
{
    struct plan *p = xcalloc(1, sizeof(*p));

    ASSERT(o->clients >= 1);
    p->scenario = s;
    p->options = *o;
    return p;
}

enum err plan_create(enum scenario s, const struct plan_options *o, struct plan **out)
{
    struct plan *p = new_plan(s, o);

    ASSERT(builders[s] != NULL);
    ASSERT(o->scale > 0);
    enum err e = builders[s](p);
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

    add_phase(p, "first half", clients)->trace = *first;
    add_phase(p, "second half", clients)->trace = *second;
    *first = *second = (struct trace){0};
    p->main = 1;
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

static struct figures measure(const struct done *d, size_t phase, struct figures_part part)
{
    struct figures f;

    figures_of(d->records[phase], &part, d->plan->options.world.workers, &f);
    return f;
}

static struct figures measure_all(const struct done *d, size_t phase, int tag)
{
    return measure(d, phase, part_of(d, phase, 0, SIZE_MAX, tag));
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
    size_t cold = plan_scaled(d->plan, COLD_TO);
    struct figures first = measure(d, 0, part_of(d, 0, 0, cold, ALL_TAGS));
    struct figures open = measure_all(d, 2, ALL_TAGS);

    extra(d, "cold_loads", "cold: loads/req", 1, first.loads);
    extra(d, "open_loads", "open: loads/req", 2, open.loads);
    extra(d, "open_p50_ms", "open: p50 ms", 0, open.p50_ms);
    extra(d, "open_p99_ms", "open: p99 ms", 0, open.p99_ms);
}

static void measure_hot(struct done *d)
{
    size_t from = plan_scaled(d->plan, HOT_FROM);
    size_t to = plan_scaled(d->plan, HOT_TO);
    size_t half = (from + to) / 2;
    struct figures before = measure(d, 1, part_of(d, 1, 0, from, ALL_TAGS));
    struct figures others = measure(d, 1, part_of(d, 1, from, to, TRACE_TAG_NORMAL));
    struct figures after = measure(d, 1, part_of(d, 1, to, SIZE_MAX, ALL_TAGS));
    struct figures hot = measure(d, 1, part_of(d, 1, half, to, TRACE_TAG_SPECIAL));

    d->out->main = measure(d, 1, part_of(d, 1, half, to, TRACE_TAG_NORMAL));
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
    size_t at = plan_scaled(d->plan, NEW_AT);
    size_t n = phase_n(d, 1);
    unsigned first = plan_first_new(d->plan);
    unsigned all = d->plan->options.world.workers;
    struct figures_part last = part_of(d, 1, n > at ? n - at : 0, n, ALL_TAGS);
    struct figures_part full = part_of(d, 2, plan_scaled(d->plan, FULL_LAST), SIZE_MAX, ALL_TAGS);

    d->out->main = measure(d, 2, full);
    extra(d, "light_share", "light: share of the new, %", 1,
          100 * figures_share(d->records[1], &last, first, all));
    extra(d, "light_loads_before", "before: loads/req", 2,
          measure(d, 1, part_of(d, 1, 0, at, ALL_TAGS)).loads);
    extra(d, "light_loads", "last third: loads/req", 2, measure(d, 1, last).loads);
    extra(d, "light_p99_ms", "p99 ms", 0, measure(d, 1, last).p99_ms);
    extra(d, "full_share", "full: share of the new, %", 1,
          100 * figures_share(d->records[2], &full, first, all));
}

static void measure_crash(struct done *d)
{
    size_t at = plan_scaled(d->plan, CRASH_AT);
    size_t back = plan_scaled(d->plan, REPLACED_AT);
    size_t some = plan_scaled(d->plan, JUST_AFTER);
    size_t n = phase_n(d, 1);
    unsigned crashed = plan_crashed(d->plan);
    double workers = d->plan->options.world.workers;
    struct figures before = measure(d, 1, part_of(d, 1, 0, at, ALL_TAGS));
    struct figures down = measure(d, 1, part_of(d, 1, at, back, ALL_TAGS));
    struct figures_part last = part_of(d, 1, n > some ? n - some : 0, n, ALL_TAGS);
    struct figures_part later = part_of(d, 2, 0, SIZE_MAX, ALL_TAGS);

    extra(d, "before_loads", "before: loads/req", 2, before.loads);
    extra(d, "just_down_loads", "just after", 2,
          measure(d, 1, part_of(d, 1, at, at + some, ALL_TAGS)).loads);
    extra(d, "down_loads", "down", 2, down.loads);
    extra(d, "after_loads", "replaced", 2,
          measure(d, 1, part_of(d, 1, back, SIZE_MAX, ALL_TAGS)).loads);
    extra(d, "last_loads", "last", 2, measure(d, 1, last).loads);
    extra(d, "before_p99_ms", "before: p99 ms", 0, before.p99_ms);
    extra(d, "down_p99_ms", "down: p99 ms", 0, down.p99_ms);
    extra(d, "max_ms", "max ms", 0, d->out->main.max_ms);
    extra(d, "new_share", "share of the new, fair = 1", 2,
          workers * figures_share(d->records[1], &last, crashed, crashed + 1));
    extra(d, "later_share", "later", 2,
          workers * figures_share(d->records[2], &later, crashed, crashed + 1));
}

static void measure_rolling(struct done *d)
{
    struct figures killed = measure_all(d, 2, ALL_TAGS);
    size_t half = phase_n(d, 0) / 2;

    extra(d, "before_loads", "before: loads/req", 2,
          measure(d, 0, part_of(d, 0, half, SIZE_MAX, ALL_TAGS)).loads);
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
    size_t at = plan_scaled(d->plan, SHIFT_AT);
    size_t some = plan_scaled(d->plan, SHIFT_AFTER);
    size_t n = phase_n(d, 1);
    struct figures before = measure(d, 1, part_of(d, 1, 0, at, ALL_TAGS));
    struct figures next = measure(d, 1, part_of(d, 1, at, at + some, ALL_TAGS));
    struct figures last = measure(d, 1, part_of(d, 1, n > some ? n - some : 0, n, ALL_TAGS));

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

static void (*const measures[SCENARIOS])(struct done *d) = {
    [SCENARIO_steady] = measure_steady,   [SCENARIO_flash] = measure_hot,
    [SCENARIO_crawl] = measure_hot,       [SCENARIO_newworkers] = measure_newworkers,
    [SCENARIO_crash] = measure_crash,     [SCENARIO_drain] = measure_crash,
    [SCENARIO_rolling] = measure_rolling, [SCENARIO_hetero] = measure_hetero,
    [SCENARIO_shift] = measure_shift,     [SCENARIO_replay] = measure_replay,
};

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
            struct figures all = measure(d, i, part_of(d, i, from, to, ALL_TAGS));
            struct figures normal = measure(d, i, part_of(d, i, from, to, TRACE_TAG_NORMAL));

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

static void shadow_since(const struct world *w, const struct pool_shadow_counts *before,
                         struct pool_shadow_counts *out)
{
    world_shadow(w, out);
    out->requests -= before->requests;
    out->differed -= before->differed;
    out->live_skilled -= before->live_skilled;
    out->shadow_skilled -= before->shadow_skilled;
    out->live_wait_us -= before->live_wait_us;
    out->shadow_wait_us -= before->shadow_wait_us;
    out->overdue -= before->overdue;
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
        struct pool_shadow_counts before;
        world_shadow(w, &before);
        world_run(w, &run, d.records[i]);
        if (i != p->main)
            continue;
        world_overlap(w, &out->overlap);
        shadow_since(w, &before, &out->shadow);
    }
    world_destroy(w);
    out->main = measure_all(&d, p->main, ALL_TAGS);
    if (measures[p->scenario] != NULL)
        measures[p->scenario](&d);
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
