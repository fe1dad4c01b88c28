/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/simulate/simulate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 100 };

/* Latencies of 1 .. 100 ms, of two classes in turn. */
struct made {
    struct playback_request requests[N];
    struct playback_record records[N];
    struct playback playback;
    struct playback_server server;
};

static void make(struct made *m)
{
    *m = (struct made){0};
    for (uint32_t i = 0; i < N; ++i) {
        m->requests[i].cls = i % 2;
        m->records[i] = (struct playback_record){.latency_us = (N - i) * 1000,
                                                 .loads = PLAYBACK_NO_LOADS,
                                                 .status = 200,
                                                 .played = true};
    }
    m->playback.requests = m->requests;
    m->playback.n = N;
    m->server.records = m->records;
}

static struct playback_figures figures(const struct made *m, uint32_t cls)
{
    struct playback_figures f;

    playback_figures(&m->playback, &m->server, cls, &f);
    return f;
}

static void percentiles_are_of_the_nearest_rank(void **state)
{
    struct made m;

    (void)state;
    make(&m);
    struct playback_figures f = figures(&m, UINT32_MAX);
    assert_int_equal(f.n, N);
    assert_true(f.p50_ms == 50 && f.p90_ms == 90 && f.p99_ms == 99 && f.max_ms == 100);
    assert_true(f.loads < 0);
    f = figures(&m, 1);
    assert_int_equal(f.n, N / 2);
    assert_true(f.p50_ms == 49 && f.max_ms == 99);
}

static void errors_count_and_only_what_got_a_response_has_a_latency(void **state)
{
    struct made m;

    (void)state;
    make(&m);
    m.records[0].status = 0; /* the slowest */
    m.records[1].status = 500;
    m.records[2].status = 404;
    m.records[3].played = false;
    struct playback_figures f = figures(&m, UINT32_MAX);
    assert_int_equal(f.n, N - 1);
    assert_int_equal(f.errors, 2);
    assert_true(f.max_ms == 99);
}

static void loads_are_of_those_that_reported(void **state)
{
    struct made m;

    (void)state;
    make(&m);
    m.records[0].loads = 3;
    m.records[1].loads = 0;
    assert_true(figures(&m, UINT32_MAX).loads == 1.5);
    assert_true(figures(&m, 0).loads == 3);
}

static void an_empty_playback_has_no_figures(void **state)
{
    struct made m;

    (void)state;
    make(&m);
    struct playback_figures f = figures(&m, 7);
    assert_int_equal(f.n, 0);
    assert_true(f.p50_ms == 0 && f.max_ms == 0 && f.loads < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_of_the_nearest_rank),
        cmocka_unit_test(errors_count_and_only_what_got_a_response_has_a_latency),
        cmocka_unit_test(loads_are_of_those_that_reported),
        cmocka_unit_test(an_empty_playback_has_no_figures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
