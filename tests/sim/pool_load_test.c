/* SPDX-License-Identifier: Apache-2.0
 *
 * The main benefit, in virtual time: workers that serve one request at a time and cache the data of
 * the classes they served last, clients in a closed loop, and few classes that are requested often.
 * If a worker does not have the data of a class, it must load them, which takes several times as
 * long as the request itself. Policy resume must load less than classless.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "common/skills/meter.h"
#include "routing/pool.h"
#include "sim/parts.h"
#include "tests/sim/seed.h"
#include "tests/sim/small_cache.h"
#include "tests/support/pool_check.h"

enum { WORKERS = 8, CLIENTS = 16, CLASSES = 200, REQUESTS = 60000, HISTORY = 200 };

static const double SERVE_S = 0.010;
static const double LOAD_S = 0.040;
static const double ZIPF = 0.9;

struct client {
    int cls;
    struct pool_pick pick;
    int next; /* in the queue of its worker, or -1 */
};

struct sim_worker {
    struct worker *worker;
    struct meter *meter;
    struct small_cache cache;
    int first; /* clients that queue, first to last; -1 is none */
    int last;
    double begun_s;
    double done_s; /* of the first */
};

struct sim {
    struct pool *pool;
    struct draw draw;
    double cumulative[CLASSES]; /* of the probabilities of classes */
    struct sim_worker workers[WORKERS];
    struct client clients[CLIENTS];
    double now_s;
    unsigned long loads;
    unsigned long served;
};

static struct slice class_of(int cls, char name[16])
{
    return (struct slice){name, (size_t)snprintf(name, 16, "c%d", cls)};
}

static int draw_class(struct sim *s)
{
    double at = draw_unit(&s->draw) * s->cumulative[CLASSES - 1];
    int cls = 0;

    while (s->cumulative[cls] <= at)
        ++cls;
    return cls;
}

static void begin(struct sim *s, struct sim_worker *w)
{
    w->begun_s = w->done_s = s->now_s;
    if (w->first == -1)
        return;
    bool had = small_cache_use(&w->cache, s->clients[w->first].cls);
    s->loads += !had;
    w->done_s += SERVE_S + (had ? 0 : LOAD_S);
}

static void ask(struct sim *s, int client)
{
    struct client *c = &s->clients[client];
    char name[16];

    c->cls = draw_class(s);
    c->next = -1;
    struct pool_request r = {.cls = class_of(c->cls, name)};
    assert_int_equal(pool_get(s->pool, &r, (uint64_t)(s->now_s * 1e6), &c->pick), ERR_OK);
    struct sim_worker *w = worker_context(c->pick.worker);
    if (w->first != -1) {
        s->clients[w->last].next = client;
        w->last = client;
        return;
    }
    w->first = w->last = client;
    begin(s, w);
}

static void send_resume(struct sim *s, struct sim_worker *w)
{
    struct resume r = {0};

    meter_resume(w->meter, SIZE_MAX, &r);
    pool_new_resume(s->pool, w->worker, &r, "", "", NULL);
    resume_fini(&r);
}

static void finish(struct sim *s, struct sim_worker *w)
{
    int client = w->first;
    struct client *c = &s->clients[client];
    char name[16];

    s->now_s = w->done_s;
    ++s->served;
    if (meter_add(w->meter, class_of(c->cls, name), w->done_s - w->begun_s, false))
        send_resume(s, w);
    struct pool_served how = {.now_us = (uint64_t)(s->now_s * 1e6),
                              .service_us = (uint64_t)((w->done_s - w->begun_s) * 1e6)};
    pool_put(s->pool, &c->pick, &how, NULL);
    w->first = c->next;
    begin(s, w);
    ask(s, client);
}

static struct sim_worker *next_to_finish(struct sim *s)
{
    struct sim_worker *next = NULL;

    for (int i = 0; i < WORKERS; ++i) {
        struct sim_worker *w = &s->workers[i];

        if (w->first != -1 && (next == NULL || w->done_s < next->done_s))
            next = w;
    }
    assert_non_null(next);
    return next;
}

static void start(struct sim *s, uint64_t seed, enum pool_policy policy)
{
    struct pool_settings settings = {.policy = policy,
                                     .variance = 4,
                                     .backlog_history = 9,
                                     .unskilled_score = 1,
                                     .max_classes = 10000};
    struct meter_settings measure = {
        .history = HISTORY, .max_skill_age = METER_SKILL_AGE_DEFAULT, .max_classes = 10000};
    double sum = 0;

    *s = (struct sim){.pool = pool_create(&settings, ""), .draw = draw_of(seed)};
    for (int i = 0; i < CLASSES; ++i)
        s->cumulative[i] = sum += pow(i + 1, -ZIPF);
    for (int i = 0; i < WORKERS; ++i) {
        struct sim_worker *w = &s->workers[i];
        struct worker_options o = {.name = SLICE_LIT("w"), .concurrency = 1, .context = w};

        *w = (struct sim_worker){
            .worker = worker_create(&o), .meter = meter_create(&measure), .first = -1};
        small_cache_init(&w->cache);
        send_resume(s, w);
    }
    for (int i = 0; i < CLIENTS; ++i)
        ask(s, i);
}

static void end(struct sim *s)
{
    for (int i = 0; i < WORKERS; ++i)
        pool_remove(s->pool, s->workers[i].worker, NULL);
    for (int i = 0; i < CLIENTS; ++i)
        pool_put(s->pool, &s->clients[i].pick, NULL, NULL);
    for (int i = 0; i < WORKERS; ++i) {
        worker_unref(s->workers[i].worker);
        meter_destroy(s->workers[i].meter);
    }
    pool_destroy(s->pool);
}

struct run_outcome {
    double loads_per_request;
    double requests_per_s;
};

/* Of the second half: the first is for learning. */
static struct run_outcome run(uint64_t seed, enum pool_policy policy)
{
    struct sim s;

    start(&s, seed, policy);
    const unsigned long learnt = REQUESTS / 2;
    while (s.served < learnt)
        finish(&s, next_to_finish(&s));
    unsigned long loads = s.loads;
    double since_s = s.now_s;
    while (s.served < REQUESTS)
        finish(&s, next_to_finish(&s));
    pool_check(s.pool);
    double requests = (double)(REQUESTS - learnt);
    struct run_outcome o = {.loads_per_request = (double)(s.loads - loads) / requests,
                            .requests_per_s = requests / (s.now_s - since_s)};
    end(&s);
    return o;
}

static void resumes_save_loads_and_time(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 3; ++i) {
        uint64_t seed = simulation_seed() + i;
        struct run_outcome classless = run(seed, POOL_POLICY_CLASSLESS);
        struct run_outcome resume = run(seed, POOL_POLICY_RESUME);

        print_message("seed %llu: loads per request %.3f classless, %.3f resume; requests per "
                      "second %.0f, %.0f\n",
                      (unsigned long long)seed, classless.loads_per_request,
                      resume.loads_per_request, classless.requests_per_s, resume.requests_per_s);
        assert_true(resume.loads_per_request < 0.5 * classless.loads_per_request);
        assert_true(resume.requests_per_s > classless.requests_per_s);
    }
}

static void the_same_seed_gives_the_same_outcome(void **state)
{
    (void)state;
    struct run_outcome a = run(simulation_seed(), POOL_POLICY_RESUME);
    struct run_outcome b = run(simulation_seed(), POOL_POLICY_RESUME);
    assert_true(a.loads_per_request == b.loads_per_request);
    assert_true(a.requests_per_s == b.requests_per_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resumes_save_loads_and_time),
        cmocka_unit_test(the_same_seed_gives_the_same_outcome),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
