/* SPDX-License-Identifier: Apache-2.0
 *
 * The phases of each scenario. Numbers of requests are those of the benchmark of the same names
 * (bench/affinity), so that the figures can be compared.
 */
#include "sim/scenario.h"

#include <limits.h>
#include <stdlib.h>

/* Positions in the phase in which it happens, before scaling. */
enum {
    COLD_TO = 2000,
    HOT_FROM = 1500,
    HOT_TO = 9000,
    HOT_LATE = (HOT_FROM + HOT_TO) / 2,
    NEW_AT = 1500,
    FULL_LAST = 4000,
    CRASH_AT = 2000,
    DRAINED_AT = CRASH_AT + 300,
    CRASH_AFTER = 1000,
    REPLACED_AT = 5000,
    WARM_LATE = 5000,
    SHIFT_AT = 2000,
    SHIFT_AFTER = 2000,
    /* In sessions: when all clients are in the midst of some. */
    GONE_AT = 4000,
    BACK_AT = 5000,
};

/* ---- what is measured ---- */

/* Tags of a stretch are one higher than those of a figures_part, so that 0 means every tag. */
enum { NORMAL_ONLY = TRACE_TAG_NORMAL + 1, SPECIAL_ONLY = TRACE_TAG_SPECIAL + 1 };

/* Requests of one phase; positions are not scaled. */
struct phase_part {
    size_t phase;
    int from, to; /* below 0: from the phase's end; TO 0: to its end */
    int tag;
};

/*
 * In place of a figure: the new workers' share in percent; the replaced one's, over the mean; and
 * of the worker that is back since the first request of the part, of the sessions that begin then,
 * or of those that had begun: the seconds after which it has half of its fair share, and the
 * number of requests until then.
 */
enum {
    SEEN_NEW_COUNT = INT_MAX - 5,
    SEEN_NEW_S,
    SEEN_OLD_COUNT,
    SEEN_OLD_S,
    NEW_PERCENT,
    REPLACED_SHARE,
};

/* One figure of some of the requests. */
struct scenario_measure {
    const char *key, *title;
    int decimals;
    size_t figure; /* its offset in struct sim_figures, a double */
    struct phase_part of;
};

#define FIGURE(member) offsetof(struct sim_figures, member)

/* clang-format off */
static const struct scenario_measure of_steady[] = {
    {"cold_loads", "cold: loads/req", 1, FIGURE(loads), {.phase = 0, .to = COLD_TO}},
    {"open_loads", "open: loads/req", 2, FIGURE(loads), {.phase = 2}},
    {"open_p50_ms", "open: p50 ms", 0, FIGURE(p50_ms), {.phase = 2}},
    {"open_p99_ms", "open: p99 ms", 0, FIGURE(p99_ms), {.phase = 2}},
    {.key = NULL},
};
static const struct scenario_measure of_hot[] = {
    {"before_p99_ms", "before: p99 ms", 0, FIGURE(p99_ms), {.phase = 1, .to = HOT_FROM}},
    {"before_loads", "before: loads/req", 2, FIGURE(loads), {.phase = 1, .to = HOT_FROM}},
    {"attack_loads", "attack: others' loads/req", 2, FIGURE(loads), {.phase = 1, .from = HOT_FROM, .to = HOT_TO, .tag = NORMAL_ONLY}},
    {"attack_p99_ms", "whole attack: others' p99 ms", 0, FIGURE(p99_ms), {.phase = 1, .from = HOT_FROM, .to = HOT_TO, .tag = NORMAL_ONLY}},
    {"after_loads", "after: loads/req", 2, FIGURE(loads), {.phase = 1, .from = HOT_TO}},
    {"hot_p50_ms", "hot class: p50 ms", 0, FIGURE(p50_ms), {.phase = 1, .from = HOT_LATE, .to = HOT_TO, .tag = SPECIAL_ONLY}},
    {"hot_p99_ms", "p99 ms", 0, FIGURE(p99_ms), {.phase = 1, .from = HOT_LATE, .to = HOT_TO, .tag = SPECIAL_ONLY}},
    {"hot_workers", "its workers", 0, FIGURE(workers), {.phase = 1, .from = HOT_LATE, .to = HOT_TO, .tag = SPECIAL_ONLY}},
    {.key = NULL},
};
static const struct scenario_measure of_newworkers[] = {
    {"light_share", "light: share of the new, %", 1, NEW_PERCENT, {.phase = 1, .from = -NEW_AT}},
    {"light_loads_before", "before: loads/req", 2, FIGURE(loads), {.phase = 1, .to = NEW_AT}},
    {"light_loads", "last third: loads/req", 2, FIGURE(loads), {.phase = 1, .from = -NEW_AT}},
    {"light_p99_ms", "p99 ms", 0, FIGURE(p99_ms), {.phase = 1, .from = -NEW_AT}},
    {"full_share", "full: share of the new, %", 1, NEW_PERCENT, {.phase = 2, .from = FULL_LAST}},
    {.key = NULL},
};
static const struct scenario_measure of_crash[] = {
    {"before_loads", "before: loads/req", 2, FIGURE(loads), {.phase = 1, .to = CRASH_AT}},
    {"just_down_loads", "just after", 2, FIGURE(loads), {.phase = 1, .from = CRASH_AT, .to = CRASH_AT + CRASH_AFTER}},
    {"down_loads", "down", 2, FIGURE(loads), {.phase = 1, .from = CRASH_AT, .to = REPLACED_AT}},
    {"after_loads", "replaced", 2, FIGURE(loads), {.phase = 1, .from = REPLACED_AT}},
    {"last_loads", "last", 2, FIGURE(loads), {.phase = 1, .from = -CRASH_AFTER}},
    {"before_p99_ms", "before: p99 ms", 0, FIGURE(p99_ms), {.phase = 1, .to = CRASH_AT}},
    {"down_p99_ms", "down: p99 ms", 0, FIGURE(p99_ms), {.phase = 1, .from = CRASH_AT, .to = REPLACED_AT}},
    {"max_ms", "max ms", 0, FIGURE(max_ms), {.phase = 1}},
    {"new_share", "share of the new, fair = 1", 2, REPLACED_SHARE, {.phase = 1, .from = -CRASH_AFTER}},
    {"later_share", "later", 2, REPLACED_SHARE, {.phase = 2}},
    {.key = NULL},
};
static const struct scenario_measure of_rolling[] = {
    {"before_loads", "before: loads/req", 2, FIGURE(loads), {.phase = 0, .from = WARM_LATE}},
    {"replaced_loads", "replaced: loads/req", 2, FIGURE(loads), {.phase = 1}},
    {"replaced_p99_ms", "p99 ms", 0, FIGURE(p99_ms), {.phase = 1}},
    {"killed_loads", "killed: loads/req", 2, FIGURE(loads), {.phase = 2}},
    {"killed_p99_ms", "p99 ms", 0, FIGURE(p99_ms), {.phase = 2}},
    {.key = NULL},
};
static const struct scenario_measure of_hetero[] = {
    {"cheap_p50_ms", "cheap: p50 ms", 0, FIGURE(p50_ms), {.phase = 1, .tag = NORMAL_ONLY}},
    {"cheap_p99_ms", "p99 ms", 0, FIGURE(p99_ms), {.phase = 1, .tag = NORMAL_ONLY}},
    {"costly_p50_ms", "costly: p50 ms", 0, FIGURE(p50_ms), {.phase = 1, .tag = SPECIAL_ONLY}},
    {"costly_p99_ms", "p99 ms", 0, FIGURE(p99_ms), {.phase = 1, .tag = SPECIAL_ONLY}},
    {.key = NULL},
};
static const struct scenario_measure of_shift[] = {
    {"before_loads", "before: loads/req", 2, FIGURE(loads), {.phase = 1, .to = SHIFT_AT}},
    {"next_loads", "just after", 2, FIGURE(loads), {.phase = 1, .from = SHIFT_AT, .to = SHIFT_AT + SHIFT_AFTER}},
    {"last_loads", "last", 2, FIGURE(loads), {.phase = 1, .from = -SHIFT_AFTER}},
    {"before_p99_ms", "before: p99 ms", 0, FIGURE(p99_ms), {.phase = 1, .to = SHIFT_AT}},
    {"next_p99_ms", "just after", 0, FIGURE(p99_ms), {.phase = 1, .from = SHIFT_AT, .to = SHIFT_AT + SHIFT_AFTER}},
    {"last_p99_ms", "last", 0, FIGURE(p99_ms), {.phase = 1, .from = -SHIFT_AFTER}},
    {"last_rate", "last: req/s", 0, FIGURE(rate), {.phase = 1, .from = -SHIFT_AFTER}},
    {"last_share_max", "last: busiest, of requests", 2, FIGURE(share_max), {.phase = 1, .from = -SHIFT_AFTER}},
    {.key = NULL},
};
static const struct scenario_measure of_sessions[] = {
    {"hit_share", "cached", 3, FIGURE(hit_share), {.phase = 1}},
    {"moved", "later requests elsewhere", 3, FIGURE(moved), {.phase = 1}},
    {"open_loads", "open: loads/req", 2, FIGURE(loads), {.phase = 2}},
    {"open_hit_share", "cached", 3, FIGURE(hit_share), {.phase = 2}},
    {"open_moved", "later requests elsewhere", 3, FIGURE(moved), {.phase = 2}},
    {"open_p50_ms", "p50 ms", 0, FIGURE(p50_ms), {.phase = 2}},
    {"open_p99_ms", "p99 ms", 0, FIGURE(p99_ms), {.phase = 2}},
    {.key = NULL},
};
static const struct scenario_measure of_streams[] = {
    {"back_new_s", "back: half of new sessions after s", 2, SEEN_NEW_S, {.phase = 0, .from = BACK_AT}},
    {"back_new_missed", "sessions", 0, SEEN_NEW_COUNT, {.phase = 0, .from = BACK_AT}},
    {"back_old_s", "of older ones after s", 2, SEEN_OLD_S, {.phase = 0, .from = BACK_AT}},
    {"back_old_missed", "requests", 0, SEEN_OLD_COUNT, {.phase = 0, .from = BACK_AT}},
    {"added_new_s", "new: half of new sessions after s", 2, SEEN_NEW_S, {.phase = 1, .from = BACK_AT}},
    {"added_new_missed", "sessions", 0, SEEN_NEW_COUNT, {.phase = 1, .from = BACK_AT}},
    {"added_old_s", "of older ones after s", 2, SEEN_OLD_S, {.phase = 1, .from = BACK_AT}},
    {"added_old_missed", "requests", 0, SEEN_OLD_COUNT, {.phase = 1, .from = BACK_AT}},
    {"moved", "later requests elsewhere", 3, FIGURE(moved), {.phase = 0}},
    {.key = NULL},
};
static const struct scenario_measure of_replay[] = {
    {"first_loads", "first half: loads/req", 2, FIGURE(loads), {.phase = 0}},
    {.key = NULL},
};
/* clang-format on */

/* ---- workers that come and go ---- */

/* N requests of the benchmark, in this plan; at least one. */
static size_t scale_count(const struct plan *p, size_t n)
{
    double v = (double)n * p->options.scale;

    return v < 1 ? 1 : (size_t)v;
}

/* Newworkers: those from this one on are new. */
static unsigned first_new(const struct plan *p)
{
    return p->options.world.workers * 3 / 4;
}

/* Crash: the number of the worker that is killed. */
static unsigned crashed_worker(const struct plan *p)
{
    return 5 % p->options.world.workers;
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
        add_event(&p->phases[1], scale_count(p, NEW_AT), WORLD_START, i);
    }
}

static void plan_crash(struct plan *p)
{
    bool drains = p->scenario == SCENARIO_drain;

    if (drains)
        add_event(&p->phases[1], scale_count(p, CRASH_AT), WORLD_DRAIN, crashed_worker(p));
    add_event(&p->phases[1], scale_count(p, drains ? DRAINED_AT : CRASH_AT), WORLD_KILL,
              crashed_worker(p));
    add_event(&p->phases[1], scale_count(p, REPLACED_AT), WORLD_START, crashed_worker(p));
}

/* It is lost and returns; then it is killed, and a new one starts in its place. */
static void lose_and_kill(struct plan *p)
{
    for (size_t i = 0; i < p->nphases; ++i) {
        add_event(&p->phases[i], scale_count(p, GONE_AT), i == 0 ? WORLD_LOSE : WORLD_KILL,
                  crashed_worker(p));
        add_event(&p->phases[i], scale_count(p, BACK_AT), WORLD_START, crashed_worker(p));
    }
}

static void replace_and_kill(struct plan *p)
{
    unsigned workers = p->options.world.workers;

    for (unsigned i = 0; i < workers; ++i) {
        size_t killed = p->phases[2].n * i / workers;

        add_event(&p->phases[1], p->phases[1].n * i / workers, WORLD_REPLACE, i);
        add_event(&p->phases[2], killed, WORLD_KILL, i);
        add_event(&p->phases[2], killed, WORLD_START, i);
    }
}

/* ---- the scenarios ---- */

/* Phase N is drawn by seed N + 1. Without a rate it is a closed loop. Positions are not scaled. */
static const struct {
    const char *name, *doc;
    struct {
        const char *name;
        struct workload_part part;
    } phases[PLAN_PHASES_MAX];
    struct phase_part main;
    unsigned clients, db_slots; /* in place of the options; 0: theirs */
    void (*arrange)(struct plan *p);
    const struct scenario_measure *measures;
} scenarios[SCENARIOS] = {
#define SCENARIO(name, doc, ...) [SCENARIO_##name] = {#name, doc, __VA_ARGS__},
#include "sim/scenario.def"
};

const char *scenario_name(enum scenario s)
{
    ASSERT((unsigned)s < SCENARIOS);
    return scenarios[s].name;
}

const char *scenario_doc(enum scenario s)
{
    ASSERT((unsigned)s < SCENARIOS);
    return scenarios[s].doc;
}

enum scenario scenario_find(const char *name)
{
    unsigned s = 0;

    while (s < SCENARIOS && strcmp(name, scenarios[s].name) != 0)
        ++s;
    return (enum scenario)s;
}

size_t scenario_requests(enum scenario s)
{
    size_t n = 0;

    for (size_t i = 0; i < PLAN_PHASES_MAX; ++i)
        n += scenarios[s].phases[i].part.n;
    return n;
}

/* ---- plans ---- */

static struct plan *new_plan(enum scenario s, const struct plan_options *o)
{
    struct plan *p = xcalloc(1, sizeof(*p));

    ASSERT(o->clients >= 1);
    p->scenario = s;
    p->options = *o;
    p->main = scenarios[s].main.phase;
    return p;
}

enum err plan_create(enum scenario s, const struct plan_options *o, struct plan **out)
{
    struct plan *p = new_plan(s, o);
    enum err e = ERR_OK;

    ASSERT(o->scale > 0);
    if (scenarios[s].clients != 0)
        p->options.clients = scenarios[s].clients;
    if (scenarios[s].db_slots != 0 && o->world.db_slots == 0)
        p->options.world.db_slots = scenarios[s].db_slots;
    for (size_t i = 0; i < PLAN_PHASES_MAX && e == ERR_OK; ++i) {
        struct workload_part part = scenarios[s].phases[i].part;

        if (scenarios[s].phases[i].name == NULL)
            continue;
        if (part.rate <= 0)
            part.rate = p->options.rate;
        part.seed = i + 1;
        part.n = scale_count(p, part.n);
        part.hot_from = scale_count(p, part.hot_from);
        part.hot_to = scale_count(p, part.hot_to);
        if (part.shift_at != 0) {
            part.shift_at = scale_count(p, part.shift_at);
            part.shift = p->options.workload.sites / 2;
        }
        /* A closed loop unless the phase, or the plan, has a rate. */
        p->phases[p->nphases++] =
            (struct plan_phase){.name = scenarios[s].phases[i].name,
                                .first = p->trace.n,
                                .n = part.n,
                                .clients = part.rate > 0 ? 0 : p->options.clients};
        e = workload_draw(&p->options.workload, &part, &p->trace);
    }
    if (e == ERR_OK && scenarios[s].arrange != NULL)
        scenarios[s].arrange(p);
    if (e == ERR_OK)
        *out = p;
    else
        plan_destroy(p);
    return e;
}

struct plan *plan_replay(const struct plan_options *o, struct trace *t)
{
    struct plan *p = new_plan(SCENARIO_replay, o);
    unsigned clients = o->speed > 0 || o->rate > 0 ? 0 : o->clients;
    size_t half = t->n / 2;

    p->phases[0] = (struct plan_phase){"first half", 0, half, clients, NULL, 0};
    p->phases[1] = (struct plan_phase){"second half", half, t->n - half, clients, NULL, 0};
    p->nphases = 2;
    /* The first of a phase is due at once. */
    for (size_t i = t->n; i-- != 0;)
        t->requests[i].due_ns -= t->requests[i < half ? 0 : half].due_ns;
    p->trace = *t;
    *t = (struct trace){0};
    return p;
}

void plan_destroy(struct plan *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < p->nphases; ++i)
        free(p->phases[i].events);
    trace_fini(&p->trace);
    free(p);
}

/* ---- a run, and its measurement ---- */

/* Returns POSITION, scaled, from the start of a phase of N requests. */
static size_t scenario_index_of(const struct plan *p, int position, size_t n)
{
    size_t at = position != 0 ? scale_count(p, (size_t)abs(position)) : 0;

    at = at < n ? at : n;
    return position < 0 ? n - at : at;
}

static struct figures_part part_of(const struct plan *p, const struct phase_part *s)
{
    const struct plan_phase *phase = &p->phases[s->phase];
    size_t to = s->to != 0 ? scenario_index_of(p, s->to, phase->n) : phase->n;
    size_t from = scenario_index_of(p, s->from, phase->n);

    return (struct figures_part){
        .from = phase->first + (from < to ? from : to), .to = phase->first + to, .tag = s->tag - 1};
}

/*
 * The crashed worker is back when the first session of PART begins. It has half of its fair share
 * from the first request to it on that is followed by enough of them: of WINDOW requests for each
 * worker, half a WINDOW. NEW: of the sessions that begin from then on; else of later requests of
 * the others. Returns the time, or with COUNT the number of requests, until then; if it never has,
 * until the last one.
 */
static double time_until_half(const struct plan *p, const struct world_record *records,
                              const struct figures_part *part, bool new, bool count)
{
    enum { WINDOW = 8 };
    const struct plan_phase *phase =
        part->from < p->phases[1].first ? &p->phases[0] : &p->phases[1];
    unsigned workers = p->options.world.workers;
    uint64_t *starts = xcalloc(phase->n, sizeof(starts[0])); /* lowest bit: to the worker */
    size_t back = part->from;
    uint64_t began_us = 0;
    size_t n = 0;

    while (back < part->to && records[back].follows)
        ++back;
    uint64_t back_us = back < part->to ? records[back].start_us : 0;
    for (size_t i = phase->first; i < part->to; ++i) {
        const struct world_record *r = &records[i];

        if (!r->follows)
            began_us = r->start_us;
        if (!r->failed && r->start_us >= back_us && (new ? !r->follows : began_us < back_us))
            starts[n++] = r->start_us << 1 | (r->worker == crashed_worker(p));
    }
    qsort(starts, n, sizeof(starts[0]), ascending_u64);
    size_t at = 0;
    for (size_t own = 0; at < n; own = 0, ++at) {
        for (size_t i = at; i < n && i < at + (size_t)WINDOW * workers; ++i)
            own += starts[i] & 1;
        if ((starts[at] & 1) != 0 && own >= WINDOW / 2)
            break;
    }
    size_t last = at < n || n == 0 ? at : n - 1;
    double s = n != 0 ? (double)((starts[last] >> 1) - back_us) / 1e6 : 0;
    free(starts);
    return count ? (double)at : s;
}

static void measure_run(const struct plan *p, const struct world_record *records,
                        struct plan_result *r)
{
    const struct scenario_measure *m = scenarios[p->scenario].measures;
    unsigned workers = p->options.world.workers;
    unsigned victim = crashed_worker(p);

    if (m == NULL)
        return;
    for (; m->key != NULL; ++m) {
        struct figures_part part = part_of(p, &m->of);
        double value;

        if (m->figure == NEW_PERCENT) {
            value = 100 * figures_share(records, &part, first_new(p), workers);
        } else if (m->figure == REPLACED_SHARE) {
            value = workers * figures_share(records, &part, victim, victim + 1);
        } else if (m->figure >= SEEN_NEW_COUNT) {
            value = time_until_half(p, records, &part, m->figure <= SEEN_NEW_S,
                                    m->figure == SEEN_NEW_COUNT || m->figure == SEEN_OLD_COUNT);
        } else {
            struct sim_figures f;

            figures_of(records, &part, workers, &f);
            value = *(const double *)((const char *)&f + m->figure);
        }
        ASSERT(r->nextras < PLAN_EXTRAS_MAX);
        r->extras[r->nextras++] = (struct plan_extra){
            .key = m->key, .title = m->title, .value = value, .decimals = m->decimals};
    }
}

/* The course: each phase gets windows in proportion to its requests, at least one. */
static void cut_windows(const struct plan *p, const struct world_record *records,
                        struct plan_result *r)
{
    size_t total = p->trace.n;

    for (size_t i = 0; i < p->nphases; ++i) {
        const struct plan_phase *phase = &p->phases[i];
        size_t pieces = phase->n * (PLAN_WINDOWS - PLAN_PHASES_MAX) / (total != 0 ? total : 1) + 1;

        r->begins[i] = r->nwindows;
        for (size_t k = 0; k < pieces; ++k) {
            struct figures_part part = {.from = phase->first + phase->n * k / pieces,
                                        .to = phase->first + phase->n * (k + 1) / pieces,
                                        .tag = -1};
            struct sim_figures all, normal;

            figures_of(records, &part, p->options.world.workers, &all);
            part.tag = TRACE_TAG_NORMAL;
            figures_of(records, &part, p->options.world.workers, &normal);
            ASSERT(r->nwindows < PLAN_WINDOWS);
            r->windows[r->nwindows++] = (struct plan_window){
                .loads = all.loads, .p99_ms = normal.n != 0 ? normal.p99_ms : all.p99_ms};
        }
    }
}

void plan_run(const struct plan *p, const struct plan_classes *c, const struct pool_settings *s,
              struct plan_result *out)
{
    struct sim_world *w = world_create(&p->options.world, s);
    struct world_record *records = xcalloc(p->trace.n + 1, sizeof(records[0]));

    *out = (struct plan_result){0};
    for (size_t i = 0; i < p->nphases; ++i) {
        const struct plan_phase *phase = &p->phases[i];
        struct world_run run = {.trace = &p->trace,
                                .first = phase->first,
                                .n = phase->n,
                                .classes = c->of,
                                .names = &c->names,
                                .clients = phase->clients,
                                .speed = p->options.speed > 0 ? p->options.speed : 1,
                                .events = phase->events,
                                .nevents = phase->nevents};

        if (i == p->main)
            world_add_shadow(w, -1, &out->shadow);
        world_run(w, &run, records);
        if (i != p->main)
            continue;
        world_overlap(w, &out->overlap);
        world_add_shadow(w, 1, &out->shadow);
    }
    world_destroy(w);
    struct figures_part main = part_of(p, &scenarios[p->scenario].main);
    figures_of(records, &main, p->options.world.workers, &out->main);
    if (p->options.world.concurrency != 0)
        out->main.busy /= p->options.world.concurrency;
    measure_run(p, records, out);
    cut_windows(p, records, out);
    const struct plan_phase *phase = &p->phases[p->main];
    out->nshares = p->options.world.workers;
    for (size_t i = phase->first; i < phase->first + phase->n; ++i) {
        if (records[i].failed)
            continue;
        out->shares[records[i].worker] += 1.0 / (double)phase->n;
        out->reasons[records[i].reason] += 1.0 / (double)phase->n;
    }
    qsort(out->shares, out->nshares, sizeof(out->shares[0]), descending_reals);
    free(records);
}
