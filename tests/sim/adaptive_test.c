/* SPDX-License-Identifier: Apache-2.0
 *
 * What policy adaptive promises, in virtual time: the scenarios of bench/affinity, with figures
 * that must be reached. Each figure is the median over three seeds, or over as many as
 * RLB_SIM_SEEDS says, at most nine; nothing here depends on the machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "tests/sim/affinity.h"

enum { SEEDS_USUAL = 3, SEEDS_MAX = 9, FIGURES_MAX = 8, CLIENTS = 64 };

/* What one scenario has shown. */
struct outcome {
    const char *names[FIGURES_MAX];
    double values[FIGURES_MAX][SEEDS_MAX];
    size_t n;
    size_t seeds;
    size_t seed;
};

static const enum pool_policy policy = POOL_POLICY_ADAPTIVE;

static void show(struct outcome *o, const char *name, double value)
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

    if (!parse_u64(slice_of(getenv("RLB_SIM_SEEDS")), SEEDS_MAX, &n) || n == 0)
        return SEEDS_USUAL;
    return n;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(struct outcome *o, const char *name)
{
    for (size_t i = 0; i < o->n; ++i) {
        if (strcmp(o->names[i], name) != 0)
            continue;
        qsort(o->values[i], o->seeds, sizeof(double), by_value);
        return o->values[i][o->seeds / 2];
    }
    UNREACHABLE();
}

typedef void (*scenario_fn)(struct affinity *a, struct outcome *o);

static struct outcome play(const char *name, scenario_fn scenario)
{
    struct outcome o = {.seeds = seed_count()};
    uint64_t seed = random_seed();

    for (o.seed = 0; o.seed < o.seeds; ++o.seed) {
        struct affinity *a = affinity_create(policy, seed + (uint64_t)o.seed);

        scenario(a, &o);
        affinity_destroy(a);
    }
    printf("%s, seeds %llu-%llu:", name, (unsigned long long)seed,
           (unsigned long long)(seed + o.seeds - 1));
    for (size_t i = 0; i < o.n; ++i)
        printf("  %s %.3g", o.names[i], median(&o, o.names[i]));
    printf("\n");
    return o;
}

static void warm_up(struct affinity *a, size_t requests)
{
    affinity_run(a, &(struct phase){.requests = requests, .clients = CLIENTS});
}

#define assert_at_most(o, name, limit) assert_true(median((o), (name)) <= (limit))
#define assert_at_least(o, name, limit) assert_true(median((o), (name)) >= (limit))

/* ---- steady ---- */

static void steady(struct affinity *a, struct outcome *o)
{
    warm_up(a, 10000);
    const struct record *r = affinity_run(a, &(struct phase){.requests = 8000, .clients = CLIENTS});
    struct figures f = affinity_figures(r, 0, 8000, TAG_ANY);
    show(o, "loads", f.loads);
    show(o, "rate", f.rate);
    show(o, "p99", f.p99);
    show(o, "busiest", f.busiest);
    show(o, "overlap", affinity_overlap(a));
    r = affinity_run(a, &(struct phase){.requests = 4000, .rate = 400});
    show(o, "open loads", affinity_figures(r, 0, 4000, TAG_ANY).loads);
}

static void steady_work_has_few_loads_much_throughput_and_even_workers(void **state)
{
    struct outcome o = play("steady", steady);

    (void)state;
    assert_at_most(&o, "loads", 0.95);
    assert_at_least(&o, "rate", 1250);
    assert_at_most(&o, "p99", 130);
    assert_at_most(&o, "busiest", 1.15);
    assert_at_most(&o, "open loads", 0.90);
}

static void light(struct affinity *a, struct outcome *o)
{
    affinity_run(a, &(struct phase){.requests = 8000, .clients = 8});
    const struct record *r = affinity_run(a, &(struct phase){.requests = 4000, .clients = 8});
    struct figures f = affinity_figures(r, 0, 4000, TAG_ANY);
    show(o, "loads", f.loads);
    show(o, "rate", f.rate);
}

/* So few requests that who has more to do is a matter of chance. */
static void quiet(struct affinity *a, struct outcome *o)
{
    affinity_run(a, &(struct phase){.requests = 8000, .rate = 10});
    const struct record *r = affinity_run(a, &(struct phase){.requests = 4000, .rate = 10});
    show(o, "loads", affinity_figures(r, 0, 4000, TAG_ANY).loads);
}

static void quiet_work_keeps_its_caches(void **state)
{
    struct outcome o = play("quiet", quiet);

    (void)state;
    assert_at_most(&o, "loads", 1.4);
}

static void light_work_keeps_its_caches(void **state)
{
    struct outcome o = play("light", light);

    (void)state;
    assert_at_most(&o, "loads", 1.0);
}

/* ---- one class floods ---- */

enum { HOT_FROM = 1500, HOT_TO = 9000, HOT_ALL = 10500, HOT_LATE = (HOT_FROM + HOT_TO) / 2 };

static void flood(struct affinity *a, struct outcome *o, bool crawls)
{
    warm_up(a, 8000);
    const struct record *r = affinity_run(
        a, &(struct phase){.requests = HOT_ALL,
                           .rate = 300,
                           .attack = {HOT_FROM, HOT_TO, .share = 0.6, .crawls = crawls}});
    struct figures others = affinity_figures(r, HOT_LATE, HOT_TO, 0);
    struct figures hot = affinity_figures(r, HOT_LATE, HOT_TO, 1);
    show(o, "others' p90", others.p90);
    show(o, "others' p99", others.p99);
    show(o, "hot p99", hot.p99);
    show(o, "hot workers", (double)hot.workers);
    show(o, "all of it: others' p99", affinity_figures(r, HOT_FROM, HOT_TO, 0).p99);
}

static void flash(struct affinity *a, struct outcome *o)
{
    flood(a, o, false);
}

static void crawl(struct affinity *a, struct outcome *o)
{
    flood(a, o, true);
}

static void others_hardly_notice_a_flash_crowd(void **state)
{
    struct outcome o = play("flash", flash);

    (void)state;
    assert_at_most(&o, "others' p99", 60);
    assert_at_most(&o, "hot p99", 200);
    assert_at_most(&o, "hot workers", 7);
    assert_at_most(&o, "all of it: others' p99", 120);
}

static void others_hardly_notice_an_endless_crawl(void **state)
{
    struct outcome o = play("crawl", crawl);

    (void)state;
    assert_at_most(&o, "others' p90", 40);
    assert_at_most(&o, "others' p99", 65);
    assert_at_most(&o, "hot workers", 5);
}

/* ---- workers come and go ---- */

static void new_workers(struct affinity *a, struct outcome *o)
{
    enum { FIRST = AFFINITY_WORKERS * 3 / 4, ALL = 4500, STARTED = 1500 };
    double share = 0;

    affinity_kill(a, FIRST, AFFINITY_WORKERS);
    warm_up(a, 8000);
    const struct record *r = affinity_run(
        a, &(struct phase){.requests = ALL,
                           .rate = 150,
                           .events = {{STARTED, FIRST, AFFINITY_WORKERS, .start = true}},
                           .nevents = 1});
    struct figures f = affinity_figures(r, ALL - STARTED, ALL, TAG_ANY);
    for (int w = FIRST; w < AFFINITY_WORKERS; ++w)
        share += f.share[w];
    show(o, "share", share);
    show(o, "loads", f.loads);
    r = affinity_run(a, &(struct phase){.requests = 6000, .clients = CLIENTS});
    show(o, "full rate", affinity_figures(r, 4000, 6000, TAG_ANY).rate);
}

static void new_workers_draw_their_share_under_light_load(void **state)
{
    struct outcome o = play("new workers", new_workers);

    (void)state;
    assert_at_least(&o, "share", 0.20);
}

static void crash(struct affinity *a, struct outcome *o)
{
    enum { DOWN = 2000, UP = 5000, ALL = 8000, VICTIM = 5 };

    warm_up(a, 10000);
    const struct record *r =
        affinity_run(a, &(struct phase){.requests = ALL,
                                        .clients = CLIENTS,
                                        .events = {{DOWN, VICTIM, VICTIM + 1, .start = false},
                                                   {UP, VICTIM, VICTIM + 1, .start = true}},
                                        .nevents = 2});
    struct figures last = affinity_figures(r, ALL - 1000, ALL, TAG_ANY);
    show(o, "share of fair", last.share[VICTIM] * AFFINITY_WORKERS);
    show(o, "p99 while down", affinity_figures(r, DOWN, UP, TAG_ANY).p99);
    r = affinity_run(a, &(struct phase){.requests = 8000, .clients = CLIENTS});
    struct figures after = affinity_figures(r, 0, 8000, TAG_ANY);
    show(o, "later share of fair", after.share[VICTIM] * AFFINITY_WORKERS);
}

static void a_replaced_worker_comes_to_its_share(void **state)
{
    struct outcome o = play("crash", crash);

    (void)state;
    assert_at_least(&o, "share of fair", 0.75);
    assert_at_most(&o, "p99 while down", 150);
    assert_at_least(&o, "later share of fair", 0.9);
}

/* ---- work that differs, work that changes ---- */

static void hetero(struct affinity *a, struct outcome *o)
{
    affinity_run(a, &(struct phase){.requests = 6000, .clients = CLIENTS, .costly = 0.1});
    const struct record *r =
        affinity_run(a, &(struct phase){.requests = 6000, .clients = CLIENTS, .costly = 0.1});
    show(o, "rate", affinity_figures(r, 0, 6000, TAG_ANY).rate);
    show(o, "cheap p99", affinity_figures(r, 0, 6000, 0).p99);
}

static void classes_of_different_cost_are_balanced_by_work(void **state)
{
    struct outcome o = play("hetero", hetero);

    (void)state;
    /* The goal is 700: which sites cost more matters. */
    assert_at_least(&o, "rate", 670);
    assert_at_most(&o, "cheap p99", 280);
}

static void shift(struct affinity *a, struct outcome *o)
{
    warm_up(a, 10000);
    warm_up(a, 2000);
    const struct record *r = affinity_run(
        a, &(struct phase){.requests = 8000, .clients = CLIENTS, .rotate = AFFINITY_SITES / 2});
    show(o, "loads", affinity_figures(r, 0, 2000, TAG_ANY).loads);
    show(o, "last rate", affinity_figures(r, 6000, 8000, TAG_ANY).rate);
}

static void a_shift_of_popularity_is_followed(void **state)
{
    struct outcome o = play("shift", shift);

    (void)state;
    assert_at_most(&o, "loads", 2.1);
}

static void shared_database(struct affinity *a, struct outcome *o)
{
    affinity_limit_database(a, 6);
    warm_up(a, 6000);
    const struct record *r = affinity_run(a, &(struct phase){.requests = 6000, .clients = CLIENTS});
    show(o, "rate", affinity_figures(r, 0, 6000, TAG_ANY).rate);
}

static void a_shared_database_is_spared(void **state)
{
    struct outcome o = play("shareddb", shared_database);

    (void)state;
    assert_at_least(&o, "rate", 890);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_work_has_few_loads_much_throughput_and_even_workers),
        cmocka_unit_test(light_work_keeps_its_caches),
        cmocka_unit_test(quiet_work_keeps_its_caches),
        cmocka_unit_test(others_hardly_notice_a_flash_crowd),
        cmocka_unit_test(others_hardly_notice_an_endless_crawl),
        cmocka_unit_test(new_workers_draw_their_share_under_light_load),
        cmocka_unit_test(a_replaced_worker_comes_to_its_share),
        cmocka_unit_test(classes_of_different_cost_are_balanced_by_work),
        cmocka_unit_test(a_shift_of_popularity_is_followed),
        cmocka_unit_test(a_shared_database_is_spared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
