/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim/world.h"

enum { REQUESTS = 2000, CLIENTS = 16, WORKERS = 4 };

/* What happens, and its records. */
struct play {
    struct world_options options;
    struct workload_part part;
    unsigned clients;
    const struct world_event *events;
    size_t nevents;
    struct trace trace;
    struct world_record records[REQUESTS];
    struct sim_figures figures; /* of all */
};

static struct play play_of(bool sessions)
{
    return (struct play){.options = {.workers = WORKERS,
                                     .cache = 10000,
                                     .base_ns = 10000000,
                                     .load_ns = 1000000,
                                     .history = 200,
                                     .balancers = 1},
                         .part = {.n = REQUESTS, .seed = 1, .sessions = sessions},
                         .clients = CLIENTS};
}

static void run(struct play *p)
{
    const struct workload w = {
        .sites = 50, .zipf = 0.9, .site_objects = 60, .request_objects = 20, .seed = 1};
    const struct pool_settings s = {.policy = POOL_POLICY_ADAPTIVE,
                                    .variance = 4,
                                    .backlog_history = 9,
                                    .unskilled_score = 1,
                                    .max_share = 0.4375,
                                    .max_classes = 10000,
                                    .max_waiting = 1};
    const struct figures_part all = {.to = REQUESTS, .tag = -1};
    uint32_t classes[REQUESTS];
    struct names names = {0};

    trace_fini(&p->trace);
    assert_int_equal(workload_draw(&w, &p->part, &p->trace), ERR_OK);
    for (size_t i = 0; i < REQUESTS; ++i) {
        const struct trace_page *page = &p->trace.pages[p->trace.requests[i].page];

        assert_true(names_intern(&names, trace_host(&p->trace, page), &classes[i]));
    }
    struct sim_world *world = world_create(&p->options, &s);
    world_run(world,
              &(struct world_run){.trace = &p->trace,
                                  .n = REQUESTS,
                                  .classes = classes,
                                  .names = &names,
                                  .clients = p->clients,
                                  .speed = 1,
                                  .events = p->events,
                                  .nevents = p->nevents},
              p->records);
    world_destroy(world);
    names_fini(&names);
    figures_of(p->records, &all, WORKERS, &p->figures);
}

/* Of the requests since AT_US. */
static double share_since(const struct play *p, uint64_t at_us, unsigned worker)
{
    size_t all = 0;
    size_t own = 0;

    for (size_t i = 0; i < REQUESTS; ++i) {
        all += p->records[i].start_us >= at_us;
        own += p->records[i].start_us >= at_us && p->records[i].worker == worker;
    }
    assert_true(all != 0);
    return (double)own / (double)all;
}

static void assert_one_after_the_other(const struct play *p, uint64_t pause_us)
{
    size_t followed = 0;
    uint64_t waited_us = 0;

    for (size_t i = 1; i < REQUESTS; ++i) {
        const struct world_record *r = &p->records[i];

        assert_int_equal(r->follows, p->trace.requests[i].follows);
        if (!r->follows)
            continue;
        assert_true(r->start_us >= r[-1].start_us + r[-1].latency_us);
        waited_us += r->start_us - r[-1].start_us - r[-1].latency_us;
        ++followed;
    }
    assert_true(followed > REQUESTS / 2);
    assert_in_range(waited_us / followed, pause_us * 9 / 10, pause_us * 11 / 10);
}

static void requests_of_a_session_come_one_after_the_other(void **state)
{
    struct play p = play_of(true);

    (void)state;
    run(&p);
    assert_one_after_the_other(&p, 0);
    assert_true(p.figures.moved < .1);
    /* An open loop: after a pause. */
    p.clients = 0;
    p.part.rate = 100;
    p.part.think_s = .5;
    run(&p);
    assert_one_after_the_other(&p, 500000);
    assert_true(p.figures.rate > 60);
    assert_true(p.figures.rate < 110);
    trace_fini(&p.trace);
}

static void a_session_continues_after_its_worker_was_killed(void **state)
{
    static const struct world_event events[] = {{REQUESTS / 2, WORLD_KILL, 1}};
    struct play p = play_of(true);

    (void)state;
    p.events = events;
    p.nevents = 1;
    run(&p);
    assert_int_equal(p.figures.failed, 0);
    assert_one_after_the_other(&p, 0);
    assert_true(p.figures.moved > 0);
    trace_fini(&p.trace);
}

static void a_worker_with_more_places_serves_more_at_once(void **state)
{
    struct play p = play_of(false);

    (void)state;
    p.clients = 400;
    run(&p);
    double rate = p.figures.rate;
    assert_true(p.figures.p50_ms > 500);
    p.options.concurrency = 400;
    run(&p);
    /* Nothing waits. */
    assert_true(p.figures.rate > 20 * rate);
    for (size_t i = 0; i < REQUESTS; ++i)
        assert_int_equal(p.records[i].latency_us, p.records[i].service_us);
    trace_fini(&p.trace);
}

/* Killed, and back after a tenth of the requests: it gets some, whether it is new or known. */
static void a_worker_returns(enum world_change away)
{
    const struct world_event events[] = {{REQUESTS / 2, away, 1},
                                         {REQUESTS * 6 / 10, WORLD_START, 1}};
    struct play p = play_of(false);

    p.events = events;
    p.nevents = ARRAY_LEN(events);
    run(&p);
    assert_int_equal(p.figures.failed, 0);
    for (size_t i = REQUESTS / 2; i < events[1].at; ++i)
        assert_int_not_equal(p.records[i].worker, 1);
    assert_true(share_since(&p, p.records[events[1].at].start_us, 1) > .5 / WORKERS);
    trace_fini(&p.trace);
}

static void a_lost_worker_gets_nothing_until_it_returns(void **state)
{
    (void)state;
    a_worker_returns(WORLD_LOSE);
    a_worker_returns(WORLD_KILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_of_a_session_come_one_after_the_other),
        cmocka_unit_test(a_session_continues_after_its_worker_was_killed),
        cmocka_unit_test(a_worker_with_more_places_serves_more_at_once),
        cmocka_unit_test(a_lost_worker_gets_nothing_until_it_returns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
