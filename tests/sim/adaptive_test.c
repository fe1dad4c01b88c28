/* SPDX-License-Identifier: Apache-2.0
 *
 * What policy adaptive promises, in virtual time (sim/world.h): the scenarios of bench/affinity,
 * with figures that must be reached by the median over SEEDS_ALL seeds, as many as `make soak`
 * plays (RLB_SIM_SEEDS). The median over fewer may differ by NOISE; nothing here depends on the
 * machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "sim/workload.h"
#include "sim/world.h"
#include "tests/sim/plan.h"
#include "tests/sim/seed.h"

enum { SEEDS_USUAL = 9, SEEDS_ALL = 90, FIGURES_MAX = 8, CLIENTS = 64, WORKERS = 16, SITES = 500 };
static const double NOISE = 0.07;

/* A world, and what has been measured in it. */
struct play {
    struct sim_world *world;
    uint64_t seed;
    unsigned phases;
    struct trace trace;
    struct world_record *records; /* of the last phase */
};

/* A phase of a play: its requests, and how they come. */
struct phase {
    struct workload_part part; /* seeds are those of the play */
    unsigned clients;          /* 0: at part.rate */
    const struct world_event *events;
    size_t nevents;
};

/* What one scenario has shown. */
struct run_outcome {
    const char *names[FIGURES_MAX];
    double values[FIGURES_MAX][SEEDS_ALL];
    size_t n;
    size_t seeds;
    size_t seed;
};

static void show(struct run_outcome *o, const char *name, double value)
{
    size_t i = 0;

    while (i < o->n && strcmp(o->names[i], name) != 0)
        ++i;
    if (i == o->n) {
        ASSERT(o->n < FIGURES_MAX);
        o->names[o->n++] = name;
    }
    o->values[i][o->seed] = value;
}

static size_t seed_count(void)
{
    uint64_t n = 0;

    if (!parse_u64(slice_of(getenv("RLB_SIM_SEEDS")), SEEDS_ALL, &n) || n == 0)
        return SEEDS_USUAL;
    return n;
}

static double noise(size_t seeds)
{
    return seeds < SEEDS_ALL ? NOISE : 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(struct run_outcome *o, const char *name)
{
    for (size_t i = 0; i < o->n; ++i) {
        if (strcmp(o->names[i], name) != 0)
            continue;
        qsort(o->values[i], o->seeds, sizeof(double), by_value);
        return o->values[i][o->seeds / 2];
    }
    UNREACHABLE();
}

typedef void (*scenario_fn)(struct play *p, struct run_outcome *o);

static void begin(struct play *p, uint64_t seed, unsigned db_slots)
{
    const struct world_options o = {.workers = WORKERS,
                                    .cache = 2000,
                                    .base_ns = 10000000,
                                    .hit_ns = 20000,
                                    .load_ns = 2000000,
                                    .db_slots = db_slots,
                                    .history = 200,
                                    .balancers = 1,
                                    /* As a proxy measures it. */
                                    .queue_is_service = true};
    const struct pool_settings s = {.policy = POOL_POLICY_ADAPTIVE,
                                    .variance = 4,
                                    .backlog_history = 9,
                                    .max_share = 0.4375,
                                    .unskilled_score = 1,
                                    .max_classes = 100000,
                                    .max_waiting = 1};

    *p = (struct play){.world = world_create(&o, &s), .seed = seed};
}

static void end(struct play *p)
{
    world_destroy(p->world);
    trace_fini(&p->trace);
    free(p->records);
}

static void run(struct play *p, const struct phase *ph)
{
    const struct workload w = {
        .sites = SITES, .zipf = 0.9, .site_objects = 60, .request_objects = 20, .seed = p->seed};
    struct workload_part part = ph->part;
    struct names names = {0};

    part.seed = ++p->phases;
    trace_fini(&p->trace);
    assert_int_equal(workload_draw(&w, &part, &p->trace), ERR_OK);
    uint32_t *classes = xcalloc(p->trace.n, sizeof(*classes));
    for (size_t i = 0; i < p->trace.n; ++i) {
        const struct trace_page *page = &p->trace.pages[p->trace.requests[i].page];

        assert_true(names_intern(&names, trace_host(&p->trace, page), &classes[i]));
    }
    p->records = xrealloc(p->records, p->trace.n * sizeof(*p->records));
    world_run(p->world,
              &(struct world_run){.trace = &p->trace,
                                  .n = p->trace.n,
                                  .classes = classes,
                                  .names = &names,
                                  .clients = ph->clients,
                                  .speed = 1,
                                  .events = ph->events,
                                  .nevents = ph->nevents},
              p->records);
    names_fini(&names);
    free(classes);
}

enum { TAG_ANY = -1 };

/* Of the requests [FROM, TO) of the last phase, those with TAG. */
static struct sim_figures figures(const struct play *p, size_t from, size_t to, int tag)
{
    const struct figures_part part = {.from = from, .to = to, .tag = tag};
    struct sim_figures f;

    figures_of(p->records, &part, WORKERS, &f);
    assert_int_equal(f.failed, 0);
    return f;
}

/* Of the requests [FROM, TO) of the last phase, the part that the workers [FIRST, LAST) had. */
static double share(const struct play *p, size_t from, size_t to, unsigned first, unsigned last)
{
    return figures_share(p->records, &(struct figures_part){.from = from, .to = to, .tag = TAG_ANY},
                         first, last);
}

/* With a database that serves DB_SLOTS at a time; 0: any number. */
static struct run_outcome play_with(const char *name, unsigned db_slots, scenario_fn scenario)
{
    struct run_outcome o = {.seeds = seed_count()};
    uint64_t seed = simulation_seed();

    for (o.seed = 0; o.seed < o.seeds; ++o.seed) {
        struct play p;

        begin(&p, seed + (uint64_t)o.seed, db_slots);
        scenario(&p, &o);
        end(&p);
    }
    printf("%s, seeds %llu-%llu:", name, (unsigned long long)seed,
           (unsigned long long)(seed + o.seeds - 1));
    for (size_t i = 0; i < o.n; ++i)
        printf("  %s %.3g", o.names[i], median(&o, o.names[i]));
    printf("\n");
    return o;
}

static struct run_outcome play(const char *name, scenario_fn scenario)
{
    return play_with(name, 0, scenario);
}

static void run_closed(struct play *p, size_t requests, unsigned clients)
{
    run(p, &(struct phase){.part = {.n = requests}, .clients = clients});
}

static void run_open(struct play *p, size_t requests, double rate)
{
    run(p, &(struct phase){.part = {.n = requests, .rate = rate}});
}

#define assert_at_most(o, name, limit)                                                             \
    assert_true(median((o), (name)) <= (limit) * (1 + noise((o)->seeds)))
#define assert_at_least(o, name, limit)                                                            \
    assert_true(median((o), (name)) >= (limit) * (1 - noise((o)->seeds)))

/* ---- steady ---- */

static void steady(struct play *p, struct run_outcome *o)
{
    struct world_overlap overlap;

    run_closed(p, 10000, CLIENTS);
    run_closed(p, 8000, CLIENTS);
    struct sim_figures f = figures(p, 0, 8000, TAG_ANY);
    show(o, "loads", f.loads);
    show(o, "rate", f.rate);
    show(o, "p99", f.p99_ms);
    show(o, "busiest", f.share_max);
    world_overlap(p->world, &overlap);
    show(o, "overlap", (double)overlap.shared / (double)overlap.distinct);
    run_open(p, 4000, 400);
    show(o, "open loads", figures(p, 0, 4000, TAG_ANY).loads);
}

static void steady_work_has_few_loads_much_throughput_and_even_workers(void **state)
{
    struct run_outcome o = play("steady", steady);

    (void)state;
    assert_at_most(&o, "loads", 0.95);
    assert_at_least(&o, "rate", 1250);
    assert_at_most(&o, "p99", 130);
    assert_at_most(&o, "busiest", 1.15);
    assert_at_most(&o, "open loads", 0.90);
}

static void light(struct play *p, struct run_outcome *o)
{
    run_closed(p, 8000, 8);
    run_closed(p, 4000, 8);
    struct sim_figures f = figures(p, 0, 4000, TAG_ANY);
    show(o, "loads", f.loads);
    show(o, "rate", f.rate);
}

/* So few requests that the distribution of load over the workers is random. */
static void quiet(struct play *p, struct run_outcome *o)
{
    run_open(p, 8000, 10);
    run_open(p, 4000, 10);
    show(o, "loads", figures(p, 0, 4000, TAG_ANY).loads);
}

static void quiet_work_keeps_its_caches(void **state)
{
    struct run_outcome o = play("quiet", quiet);

    (void)state;
    assert_at_most(&o, "loads", 1.4);
}

static void light_work_keeps_its_caches(void **state)
{
    struct run_outcome o = play("light", light);

    (void)state;
    assert_at_most(&o, "loads", 1.0);
}

/* ---- sessions ---- */

static void sessions(struct play *p, struct run_outcome *o)
{
    run(p, &(struct phase){.part = {.n = 6000, .sessions = true}, .clients = CLIENTS});
    run(p, &(struct phase){.part = {.n = 6000, .sessions = true, .rate = 400, .think_s = .1}});
    struct sim_figures f = figures(p, 0, 6000, TAG_ANY);
    show(o, "cached", f.hit_share);
    show(o, "moved", f.moved);
}

static void sessions_stay_where_they_were(void **state)
{
    struct run_outcome o = play("sessions", sessions);

    (void)state;
    assert_at_least(&o, "cached", 0.86);
    assert_at_most(&o, "moved", 0.002);
}

/* ---- one class floods ---- */

enum { HOT_FROM = 1500, HOT_TO = 9000, HOT_ALL = 10500, HOT_LATE = (HOT_FROM + HOT_TO) / 2 };

static void flood(struct play *p, struct run_outcome *o, bool crawls)
{
    run_closed(p, 8000, CLIENTS);
    run(p, &(struct phase){.part = {.n = HOT_ALL,
                                    .rate = 300,
                                    .hot = crawls ? WORKLOAD_CRAWL : WORKLOAD_FLASH,
                                    .hot_from = HOT_FROM,
                                    .hot_to = HOT_TO,
                                    .hot_share = 0.6}});
    struct sim_figures others = figures(p, HOT_LATE, HOT_TO, TRACE_TAG_NORMAL);
    struct sim_figures hot = figures(p, HOT_LATE, HOT_TO, TRACE_TAG_SPECIAL);
    show(o, "others' p90", others.p90_ms);
    show(o, "others' p99", others.p99_ms);
    show(o, "hot p99", hot.p99_ms);
    show(o, "hot workers", hot.workers);
    show(o, "all of it: others' p99", figures(p, HOT_FROM, HOT_TO, TRACE_TAG_NORMAL).p99_ms);
}

static void flash(struct play *p, struct run_outcome *o)
{
    flood(p, o, false);
}

static void crawl(struct play *p, struct run_outcome *o)
{
    flood(p, o, true);
}

static void a_flash_crowd_hardly_delays_other_classes(void **state)
{
    struct run_outcome o = play("flash", flash);

    (void)state;
    assert_at_most(&o, "others' p99", 60);
    assert_at_most(&o, "hot p99", 200);
    assert_at_most(&o, "hot workers", 7);
    assert_at_most(&o, "all of it: others' p99", 120);
}

static void an_endless_crawl_hardly_delays_other_classes(void **state)
{
    struct run_outcome o = play("crawl", crawl);

    (void)state;
    assert_at_most(&o, "others' p90", 40);
    assert_at_most(&o, "others' p99", 65);
    assert_at_most(&o, "hot workers", 5);
}

/* ---- workers come and go ---- */

static void new_workers(struct play *p, struct run_outcome *o)
{
    enum { FIRST = WORKERS * 3 / 4, ALL = 4500, STARTED = 1500 };
    struct world_event killed[WORKERS - FIRST];
    struct world_event started[WORKERS - FIRST];

    for (unsigned i = 0; i < ARRAY_LEN(killed); ++i) {
        killed[i] = (struct world_event){0, WORLD_KILL, FIRST + i};
        started[i] = (struct world_event){STARTED, WORLD_START, FIRST + i};
    }
    run(p, &(struct phase){.part = {.n = 8000},
                           .clients = CLIENTS,
                           .events = killed,
                           .nevents = ARRAY_LEN(killed)});
    run(p, &(struct phase){
               .part = {.n = ALL, .rate = 150}, .events = started, .nevents = ARRAY_LEN(started)});
    show(o, "share", share(p, ALL - STARTED, ALL, FIRST, WORKERS));
    show(o, "loads", figures(p, ALL - STARTED, ALL, TAG_ANY).loads);
    run_closed(p, 6000, CLIENTS);
    show(o, "full rate", figures(p, 4000, 6000, TAG_ANY).rate);
}

static void new_workers_get_their_share_under_light_load(void **state)
{
    struct run_outcome o = play("new workers", new_workers);

    (void)state;
    assert_at_least(&o, "share", 0.20);
}

static void crash(struct play *p, struct run_outcome *o)
{
    enum { DOWN = 2000, UP = 5000, ALL = 8000, VICTIM = 5 };
    static const struct world_event events[] = {{DOWN, WORLD_KILL, VICTIM},
                                                {UP, WORLD_START, VICTIM}};

    run_closed(p, 10000, CLIENTS);
    run(p, &(struct phase){.part = {.n = ALL},
                           .clients = CLIENTS,
                           .events = events,
                           .nevents = ARRAY_LEN(events)});
    show(o, "share of fair", share(p, ALL - 1000, ALL, VICTIM, VICTIM + 1) * WORKERS);
    show(o, "p99 while down", figures(p, DOWN, UP, TAG_ANY).p99_ms);
    run_closed(p, 8000, CLIENTS);
    show(o, "later share of fair", share(p, 0, 8000, VICTIM, VICTIM + 1) * WORKERS);
}

static void a_replaced_worker_comes_to_its_share(void **state)
{
    struct run_outcome o = play("crash", crash);

    (void)state;
    assert_at_least(&o, "share of fair", 0.75);
    assert_at_most(&o, "p99 while down", 150);
    assert_at_least(&o, "later share of fair", 0.9);
}

/* ---- work that differs, work that changes ---- */

static void hetero(struct play *p, struct run_outcome *o)
{
    const struct phase ph = {.part = {.n = 6000, .costly = true}, .clients = CLIENTS};

    run(p, &ph);
    run(p, &ph);
    show(o, "rate", figures(p, 0, 6000, TAG_ANY).rate);
    show(o, "cheap p99", figures(p, 0, 6000, TRACE_TAG_NORMAL).p99_ms);
}

static void classes_of_different_cost_are_balanced_by_work(void **state)
{
    struct run_outcome o = play("hetero", hetero);

    (void)state;
    /* The goal is 700: which sites cost more matters. */
    assert_at_least(&o, "rate", 670);
    assert_at_most(&o, "cheap p99", 280);
}

static void shift(struct play *p, struct run_outcome *o)
{
    run_closed(p, 10000, CLIENTS);
    run_closed(p, 2000, CLIENTS);
    run(p, &(struct phase){.part = {.n = 8000, .shift = SITES / 2}, .clients = CLIENTS});
    show(o, "loads", figures(p, 0, 2000, TAG_ANY).loads);
    show(o, "last rate", figures(p, 6000, 8000, TAG_ANY).rate);
}

static void a_shift_of_popularity_is_followed(void **state)
{
    struct run_outcome o = play("shift", shift);

    (void)state;
    assert_at_most(&o, "loads", 2.1);
}

static void shared_database(struct play *p, struct run_outcome *o)
{
    run_closed(p, 6000, CLIENTS);
    run_closed(p, 6000, CLIENTS);
    show(o, "rate", figures(p, 0, 6000, TAG_ANY).rate);
}

static void a_shared_database_is_spared(void **state)
{
    struct run_outcome o = play_with("shareddb", 6, shared_database);

    (void)state;
    assert_at_least(&o, "rate", 890);
}

/* ---- any scale of times ---- */

/* What does not depend on the scale, or has been divided by it. */
struct scaled_figures {
    double loads, mean_ms, busiest, home_share;
};

static struct scaled_figures figures_at(enum scenario scenario, unsigned balancers, double factor)
{
    const size_t seeds = (seed_count() + 2) / 3;
    struct scaled_figures sum = {0};
    struct plan_result r;

    for (size_t i = 0; i < seeds; ++i) {
        struct plan_options o = plan_usual(simulation_seed() + i);

        o.scale = 0.5;
        o.world.balancers = balancers;
        o.world.time_scale = factor;
        run_scenario(scenario, &o, &r);
        sum.loads += r.main.loads / (double)seeds;
        sum.mean_ms += r.main.mean_ms / factor / (double)seeds;
        sum.busiest += r.main.busy_max / (double)seeds;
        sum.home_share += r.reasons[PICK_HOME] / (double)seeds;
    }
    printf("%s, %u balancers, x %g:  loads %.3g  mean ms / F %.3g  busiest %.3g  home %.4g\n",
           scenario_name(scenario), balancers, factor, sum.loads, sum.mean_ms, sum.busiest,
           sum.home_share);
    return sum;
}

/* Within 3 % with many seeds; with few by so many NOISE more. */
static bool is_alike(double a, double b, double times)
{
    const double alike = 0.03 + times * noise(seed_count());

    return a <= b * (1 + alike) && b <= a * (1 + alike);
}

/* The busiest of 16 workers differs more between seeds than a mean. */
static bool are_alike(const struct scaled_figures *a, const struct scaled_figures *b)
{
    return is_alike(a->loads, b->loads, 1) && is_alike(a->mean_ms, b->mean_ms, 1) &&
           is_alike(a->busiest, b->busiest, 2) && is_alike(a->home_share, b->home_share, 1);
}

static void requests_of_any_duration_have_the_same_results(void **state)
{
    static const double factors[] = {0.1, 10, 1000};
    unsigned differ = 0;

    (void)state;
    for (enum scenario s = 0; s < SCENARIO_replay; ++s) {
        const struct scaled_figures usual = figures_at(s, 1, 1);

        for (size_t i = 0; i < ARRAY_LEN(factors); ++i) {
            const struct scaled_figures f = figures_at(s, 1, factors[i]);

            differ += !are_alike(&f, &usual);
        }
    }
    assert_int_equal(differ, 0);
}

/* What balancers learn of each other does not take longer then, so they load less. */
static void several_balancers_load_no_more_for_long_requests(void **state)
{
    static const enum scenario scenarios[] = {SCENARIO_steady, SCENARIO_crash};
    static const double factors[] = {10, 100};
    const double most = 1.03 + noise(seed_count());

    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(scenarios); ++k) {
        const struct scaled_figures usual = figures_at(scenarios[k], 2, 1);

        for (size_t i = 0; i < ARRAY_LEN(factors); ++i)
            assert_true(figures_at(scenarios[k], 2, factors[i]).loads <= most * usual.loads);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_work_has_few_loads_much_throughput_and_even_workers),
        cmocka_unit_test(light_work_keeps_its_caches),
        cmocka_unit_test(quiet_work_keeps_its_caches),
        cmocka_unit_test(sessions_stay_where_they_were),
        cmocka_unit_test(a_flash_crowd_hardly_delays_other_classes),
        cmocka_unit_test(an_endless_crawl_hardly_delays_other_classes),
        cmocka_unit_test(new_workers_get_their_share_under_light_load),
        cmocka_unit_test(a_replaced_worker_comes_to_its_share),
        cmocka_unit_test(classes_of_different_cost_are_balanced_by_work),
        cmocka_unit_test(a_shift_of_popularity_is_followed),
        cmocka_unit_test(a_shared_database_is_spared),
        cmocka_unit_test(requests_of_any_duration_have_the_same_results),
        cmocka_unit_test(several_balancers_load_no_more_for_long_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
