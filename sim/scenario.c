/* SPDX-License-Identifier: Apache-2.0
 *
 * The phases of each scenario. Numbers of requests are those of the benchmark of the same names
 * (bench/affinity), so that figures of the one can be held against those of the other.
 */
#include "sim/scenario.h"

#include <stdlib.h>

#include "sim/scenario_measure.h"

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

size_t plan_scaled(const struct plan *p, size_t n)
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
