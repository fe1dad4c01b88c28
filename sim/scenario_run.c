/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a plan, and measures what its scenario is about.
 */
#include <math.h>
#include <stdlib.h>

#include "sim/scenario_measure.h"

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
    unsigned who = plan_crashed(d->plan);
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
          workers * figures_share(d->records[1], &last, who, who + 1));
    extra(d, "later_share", "later", 2,
          workers * figures_share(d->records[2], &later, who, who + 1));
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
