/* SPDX-License-Identifier: Apache-2.0
 *
 * Several load balancers in front of the same workers, in virtual time: each has its own pool, and
 * gets its own kind of requests at its own times. Workers serve one request at a time, cache the
 * data of the classes they served last, and report their requests in flight in each response.
 * Requests and responses are delayed a little, so reports are slightly old when they arrive.
 *
 *   arrival -> pool_get -> (transit) -> the worker's queue -> served, reported -> (transit)
 *           -> worker_report, pool_put
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "common/skills/meter.h"
#include "routing/pool.h"
#include "sim/parts.h"
#include "tests/sim/seed.h"
#include "tests/sim/small_cache.h"
#include "tests/support/pool_check.h"

enum {
    BALANCERS_MAX = 4,
    WORKERS = 16,
    CLASSES = 120,
    HISTORY = 200,
    REQUESTS = 60000,
    LEARNING = REQUESTS / 4, /* not measured */
    MAX_AGE_MS = 2000,
};

static const double LOAD_S = 0.020;
static const double TRANSIT_S = 0.0005;

/* What one load balancer gets. */
struct several_traffic {
    int first, classes; /* of them, all alike */
    double serve_s;
    double rate; /* requests per second, at random times */
};

struct story {
    int nbalancers;
    struct several_traffic traffic[BALANCERS_MAX];
    enum pool_policy policy;
};

struct job {
    struct pool_pick pick;
    int balancer, worker, cls;
    double asked_s, due_s; /* DUE_S: the end of its transit */
    uint64_t total;        /* what the worker reports with it */
    struct job *next;
};

/* Of jobs, first in first out: a transit takes as long for each. */
struct line {
    struct job *first, *last;
    size_t n;
};

struct sim_worker {
    struct meter *meter;
    struct small_cache cache;
    struct line queue;
    double begun_s, done_s; /* of the first */
};

struct balancer {
    struct pool *pool;
    struct worker *workers[WORKERS];
    struct several_traffic traffic;
    double next_s; /* when its next request comes */
};

struct sim {
    struct draw draw;
    int nbalancers;
    struct balancer balancers[BALANCERS_MAX];
    struct sim_worker workers[WORKERS];
    struct line to_worker, to_balancer;
    double now_s;
    size_t asked;
    size_t loads;
    double *took_s; /* of the requests measured */
    size_t nmeasured;
    size_t longest; /* queue of a worker, ever */
};

/* ---- lines ---- */

static void push(struct line *l, struct job *j)
{
    j->next = NULL;
    if (l->first != NULL)
        l->last->next = j;
    else
        l->first = j;
    l->last = j;
    ++l->n;
}

static struct job *pop(struct line *l)
{
    struct job *j = l->first;

    l->first = j->next;
    --l->n;
    return j;
}

/* ---- workers ---- */

static struct slice class_of(int cls, char name[16])
{
    return (struct slice){name, (size_t)snprintf(name, 16, "c%d", cls)};
}

static void begin(struct sim *s, struct sim_worker *w)
{
    const struct job *j = w->queue.first;

    if (j == NULL)
        return;
    bool had = small_cache_use(&w->cache, j->cls);
    s->loads += !had;
    w->begun_s = s->now_s;
    w->done_s = s->now_s + s->balancers[j->balancer].traffic.serve_s + (had ? 0 : LOAD_S);
}

static void tell_resume(struct sim *s, int worker)
{
    struct resume r = {0};

    meter_resume(s->workers[worker].meter, SIZE_MAX, &r);
    for (int i = 0; i < s->nbalancers; ++i)
        pool_new_resume(s->balancers[i].pool, s->balancers[i].workers[worker], &r, "", "", NULL);
    resume_fini(&r);
}

static void finish(struct sim *s, int worker)
{
    struct sim_worker *w = &s->workers[worker];
    char name[16];

    /* As an agent counts: with the one that gets a response. */
    uint64_t total = w->queue.n;
    struct job *j = pop(&w->queue);
    j->total = total;
    j->due_s = s->now_s + TRANSIT_S;
    push(&s->to_balancer, j);
    if (meter_add(w->meter, class_of(j->cls, name), s->now_s - w->begun_s, false))
        tell_resume(s, worker);
    begin(s, w);
}

static void arrive(struct sim *s)
{
    struct job *j = pop(&s->to_worker);
    struct sim_worker *w = &s->workers[j->worker];

    push(&w->queue, j);
    if (w->queue.n > s->longest)
        s->longest = w->queue.n;
    if (w->queue.n == 1)
        begin(s, w);
}

/* ---- load balancers ---- */

static uint64_t now_ms(const struct sim *s)
{
    return (uint64_t)(s->now_s * 1000);
}

static void ask(struct sim *s, int balancer)
{
    struct balancer *b = &s->balancers[balancer];
    struct job *j = calloc(1, sizeof(*j));
    char name[16];

    assert_non_null(j);
    j->balancer = balancer;
    j->cls = b->traffic.first + (int)draw_below(&s->draw, (uint32_t)b->traffic.classes);
    j->asked_s = s->now_s;
    j->due_s = s->now_s + TRANSIT_S;
    struct pool_request r = {.cls = class_of(j->cls, name)};
    assert_int_equal(pool_get(b->pool, &r, now_ms(s) * 1000, &j->pick), ERR_OK);
    j->worker = (int)((struct sim_worker *)worker_context(j->pick.worker) - s->workers);
    push(&s->to_worker, j);
    ++s->asked;
    b->next_s = s->now_s - log(1 - draw_unit(&s->draw)) / b->traffic.rate;
}

static void take_response(struct sim *s)
{
    struct job *j = pop(&s->to_balancer);

    worker_report(j->pick.worker, j->total, now_ms(s));
    pool_put(s->balancers[j->balancer].pool, &j->pick, NULL, NULL);
    if (s->asked > LEARNING && s->nmeasured < REQUESTS)
        s->took_s[s->nmeasured++] = s->now_s - j->asked_s;
    free(j);
}

/* ---- the course of events ---- */

enum sim_event { ARRIVE, RESPONSE, FINISH, ASK };

static void step(struct sim *s)
{
    enum sim_event what = ARRIVE;
    double next_s = HUGE_VAL;
    int which = 0;

    if (s->to_worker.first != NULL)
        next_s = s->to_worker.first->due_s;
    if (s->to_balancer.first != NULL && s->to_balancer.first->due_s < next_s) {
        what = RESPONSE;
        next_s = s->to_balancer.first->due_s;
    }
    for (int i = 0; i < WORKERS; ++i) {
        if (s->workers[i].queue.n != 0 && s->workers[i].done_s < next_s) {
            what = FINISH;
            next_s = s->workers[i].done_s;
            which = i;
        }
    }
    for (int i = 0; i < s->nbalancers; ++i) {
        if (s->balancers[i].next_s < next_s) {
            what = ASK;
            next_s = s->balancers[i].next_s;
            which = i;
        }
    }
    s->now_s = next_s;
    switch (what) {
    case ARRIVE:
        arrive(s);
        return;
    case RESPONSE:
        take_response(s);
        return;
    case FINISH:
        finish(s, which);
        return;
    case ASK:
        ask(s, which);
        return;
    }
}

static void start(struct sim *s, const struct story *story, bool shared, uint64_t seed)
{
    struct pool_settings settings = {.policy = story->policy,
                                     .variance = 4,
                                     .backlog_history = 9,
                                     .unskilled_score = 1,
                                     .max_classes = 10000,
                                     .backlog_shared = shared,
                                     .backlog_max_age_ms = MAX_AGE_MS};
    struct meter_settings measure = {
        .history = HISTORY, .max_skill_age = METER_SKILL_AGE_DEFAULT, .max_classes = 10000};

    *s = (struct sim){.draw = draw_of(seed), .nbalancers = story->nbalancers};
    s->took_s = calloc(REQUESTS, sizeof(*s->took_s));
    assert_non_null(s->took_s);
    for (int i = 0; i < s->nbalancers; ++i) {
        s->balancers[i] =
            (struct balancer){.pool = pool_create(&settings, ""), .traffic = story->traffic[i]};
        for (int k = 0; k < WORKERS; ++k) {
            struct worker_options o = {
                .name = SLICE_LIT("w"), .concurrency = 1, .context = &s->workers[k]};

            s->balancers[i].workers[k] = worker_create(&o);
        }
    }
    for (int i = 0; i < WORKERS; ++i) {
        s->workers[i].meter = meter_create(&measure);
        small_cache_init(&s->workers[i].cache);
        tell_resume(s, i);
    }
}

/* No more requests: those in flight are finished. */
static void settle(struct sim *s)
{
    size_t left = 0;

    for (int i = 0; i < s->nbalancers; ++i)
        s->balancers[i].next_s = HUGE_VAL;
    do {
        left = s->to_worker.n;
        for (int i = 0; i < WORKERS; ++i)
            left += s->workers[i].queue.n;
        if (left != 0 || s->to_balancer.n != 0)
            step(s);
    } while (left != 0 || s->to_balancer.n != 0);
}

static void end(struct sim *s)
{
    for (int i = 0; i < s->nbalancers; ++i) {
        pool_check(s->balancers[i].pool);
        for (int k = 0; k < WORKERS; ++k) {
            pool_remove(s->balancers[i].pool, s->balancers[i].workers[k], NULL);
            worker_unref(s->balancers[i].workers[k]);
        }
        pool_destroy(s->balancers[i].pool);
    }
    for (int i = 0; i < WORKERS; ++i)
        meter_destroy(s->workers[i].meter);
    free(s->took_s);
}

struct run_outcome {
    double mean_ms, p99_ms;
    double loads; /* per request */
    size_t longest;
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static struct run_outcome run(const struct story *story, bool shared, uint64_t seed)
{
    struct sim s;
    double sum_s = 0;

    start(&s, story, shared, seed);
    while (s.asked < REQUESTS)
        step(&s);
    settle(&s);
    qsort(s.took_s, s.nmeasured, sizeof(*s.took_s), ascending);
    for (size_t i = 0; i < s.nmeasured; ++i)
        sum_s += s.took_s[i];
    struct run_outcome o = {.mean_ms = sum_s / (double)s.nmeasured * 1000,
                            .p99_ms = s.took_s[s.nmeasured * 99 / 100] * 1000,
                            .loads = (double)s.loads / REQUESTS,
                            .longest = s.longest};
    end(&s);
    return o;
}

/* One load balancer has a heavy class that needs 5 workers, the other a hundred light ones. */
static const struct story two = {
    .nbalancers = 2,
    .policy = POOL_POLICY_RESUME,
    .traffic = {{0, 1, 0.040, 120}, {1, 100, 0.005, 800}},
};
static const struct story four = {
    .nbalancers = 4,
    .policy = POOL_POLICY_RESUME,
    .traffic = {{0, 1, 0.040, 150},
                {1, 39, 0.005, 300},
                {40, 40, 0.005, 300},
                {80, 40, 0.005, 300}},
};
/* All get the same. */
static const struct story alike = {
    .nbalancers = 4,
    .policy = POOL_POLICY_RESUME,
    .traffic = {{0, 100, 0.008, 300},
                {0, 100, 0.008, 300},
                {0, 100, 0.008, 300},
                {0, 100, 0.008, 300}},
};
static const struct story two_classless = {
    .nbalancers = 2,
    .policy = POOL_POLICY_CLASSLESS,
    .traffic = {{0, 1, 0.040, 120}, {1, 10, 0.005, 800}},
};

/* With the requests of others, and without: means and 99th percentiles in ms. */
static void compare(const char *name, const struct story *story, uint64_t seed,
                    struct run_outcome *with, struct run_outcome *without)
{
    *with = run(story, true, seed);
    *without = run(story, false, seed);
    print_message(
        "%s, seed %llu: mean %.1f ms, p99 %.1f ms, longest queue %zu, loads per request %.3f; "
        "each on its own %.1f, %.1f, %zu, %.3f\n",
        name, (unsigned long long)seed, with->mean_ms, with->p99_ms, with->longest, with->loads,
        without->mean_ms, without->p99_ms, without->longest, without->loads);
}

static void a_worker_that_one_has_filled_is_spared_by_the_others(void **state)
{
    struct run_outcome with, without;

    (void)state;
    for (uint64_t i = 0; i < 3; ++i) {
        compare("two", &two, simulation_seed() + i, &with, &without);
        assert_true(with.p99_ms < 0.5 * without.p99_ms);
        assert_true(with.longest < without.longest);
        compare("four", &four, simulation_seed() + i, &with, &without);
        assert_true(with.p99_ms < 0.5 * without.p99_ms);
        assert_true(with.longest < without.longest);
    }
}

static void load_balancers_with_the_same_traffic_are_better_off_too(void **state)
{
    struct run_outcome with, without;

    (void)state;
    for (uint64_t i = 0; i < 3; ++i) {
        compare("alike", &alike, simulation_seed() + i, &with, &without);
        assert_true(with.mean_ms < without.mean_ms);
        assert_true(with.p99_ms < without.p99_ms);
    }
}

static void the_least_backlog_of_all_is_served_sooner_than_that_of_one(void **state)
{
    struct run_outcome with, without;

    (void)state;
    for (uint64_t i = 0; i < 3; ++i) {
        compare("classless", &two_classless, simulation_seed() + i, &with, &without);
        assert_true(with.mean_ms < without.mean_ms);
    }
}

static void the_same_seed_gives_the_same_outcome(void **state)
{
    (void)state;
    struct run_outcome a = run(&four, true, simulation_seed());
    struct run_outcome b = run(&four, true, simulation_seed());
    assert_true(a.mean_ms == b.mean_ms);
    assert_true(a.p99_ms == b.p99_ms);
}

/* The requests of others in flight that BALANCER assumes, at all workers. */
static uint64_t others(struct sim *s, int balancer)
{
    struct pool_view v;
    uint64_t sum = 0;

    pool_view(s->balancers[balancer].pool, false, &v);
    for (size_t i = 0; i < v.n; ++i)
        sum += pool_view_others(&v, &v.workers[i], now_ms(s));
    pool_view_fini(&v);
    return sum;
}

static bool has_in_flight(struct sim *s, int balancer)
{
    struct pool_view v;

    pool_view(s->balancers[balancer].pool, false, &v);
    uint64_t backlog = v.backlog;
    pool_view_fini(&v);
    return backlog != 0;
}

static void reports_of_a_load_balancer_that_is_gone_expire(void **state)
{
    struct sim s;

    (void)state;
    start(&s, &two, true, simulation_seed());
    while (s.asked < LEARNING)
        step(&s);
    assert_true(others(&s, 1) > 0);
    /* The balancer with the heavy class sends no more; its requests in flight are served. */
    s.balancers[0].next_s = HUGE_VAL;
    while (has_in_flight(&s, 0))
        step(&s);
    double gone_s = s.now_s;
    while (s.now_s < gone_s + MAX_AGE_MS / 1000.0)
        step(&s);
    /* There are no new reports on workers that it avoids: the old ones have expired by age. */
    for (int i = 0; i < 1000; ++i) {
        step(&s);
        assert_int_equal(others(&s, 1), 0);
    }
    settle(&s);
    end(&s);
}

/* The process of WORKER dies with all its requests; another one gets its address. */
static void replace(struct sim *s, int worker)
{
    struct sim_worker *w = &s->workers[worker];
    struct resume none = {0};

    while (w->queue.n != 0) {
        struct job *j = pop(&w->queue);

        pool_put(s->balancers[j->balancer].pool, &j->pick, NULL, NULL);
        free(j);
    }
    for (int i = 0; i < s->nbalancers; ++i) {
        struct balancer *b = &s->balancers[i];
        struct worker_options o = {.name = SLICE_LIT("w"), .concurrency = 1, .context = w};

        pool_remove(b->pool, b->workers[worker], NULL);
        worker_unref(b->workers[worker]);
        b->workers[worker] = worker_create(&o);
        pool_new_resume(b->pool, b->workers[worker], &none, "", "", NULL);
    }
}

static uint64_t others_at(struct sim *s, int balancer, int worker)
{
    struct pool_view v;
    uint64_t found = UINT64_MAX;

    pool_view(s->balancers[balancer].pool, false, &v);
    for (size_t i = 0; i < v.n; ++i) {
        if (v.workers[i].worker == s->balancers[balancer].workers[worker])
            found = pool_view_others(&v, &v.workers[i], now_ms(s));
    }
    pool_view_fini(&v);
    return found;
}

static void the_next_life_of_a_worker_begins_with_nothing_in_flight(void **state)
{
    struct sim s;
    int busiest = 0;

    (void)state;
    start(&s, &two, true, simulation_seed());
    while (s.asked < LEARNING)
        step(&s);
    for (int i = 0; i < WORKERS; ++i) {
        if (others_at(&s, 1, i) > others_at(&s, 1, busiest))
            busiest = i;
    }
    assert_true(others_at(&s, 1, busiest) > 0);
    replace(&s, busiest);
    assert_int_equal(others_at(&s, 0, busiest), 0);
    assert_int_equal(others_at(&s, 1, busiest), 0);
    /* Responses in transit are from the previous process. */
    for (size_t left = s.to_balancer.n; left != 0 && s.to_balancer.n != 0; --left)
        take_response(&s);
    assert_int_equal(others_at(&s, 0, busiest), 0);
    assert_int_equal(others_at(&s, 1, busiest), 0);
    settle(&s);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_one_has_filled_is_spared_by_the_others),
        cmocka_unit_test(load_balancers_with_the_same_traffic_are_better_off_too),
        cmocka_unit_test(the_least_backlog_of_all_is_served_sooner_than_that_of_one),
        cmocka_unit_test(reports_of_a_load_balancer_that_is_gone_expire),
        cmocka_unit_test(the_next_life_of_a_worker_begins_with_nothing_in_flight),
        cmocka_unit_test(the_same_seed_gives_the_same_outcome),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
