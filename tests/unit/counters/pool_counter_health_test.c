/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/text.h"
#include "common/counters/pool_counter_health.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NOW_MS = 1000000, SILENT_MS = 100 };

struct world {
    struct pool_counter_health *health;
    struct pool_counter_daemon *daemon;
};

static int setup(void **state)
{
    struct world *w = xcalloc(1, sizeof(*w));
    struct addr a;

    assert_int_equal(addr_parse(SLICE_LIT("127.0.0.1:7531"), &a), ERR_OK);
    w->health = pool_counter_health_create("shop");
    w->daemon = pool_counter_daemon_get(w->health, SLICE_LIT("pool-a"), &a);
    assert_false(pool_counter_daemon_responded(w->daemon, NOW_MS));
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    pool_counter_daemon_put(w->daemon);
    pool_counter_health_destroy(w->health);
    free(w);
    return 0;
}

static uint64_t failed(struct pool_counter_daemon *d, uint64_t now_ms)
{
    return pool_counter_daemon_failed(d, false, now_ms);
}

/* The daemon has just been suspended. */
static struct pool_counter_daemon *suspended_daemon(void **state)
{
    struct pool_counter_daemon *d = ((struct world *)*state)->daemon;

    for (unsigned i = 1; i < POOL_COUNTER_FAILURES_MAX; ++i)
        assert_int_equal(failed(d, NOW_MS), 0);
    assert_int_equal(failed(d, NOW_MS), POOL_COUNTER_SUSPENSION_FIRST_MS);
    return d;
}

static bool is_suspended(struct pool_counter_daemon *d)
{
    return pool_counter_daemon_read(d, NOW_MS).suspended;
}

static uint64_t suspended_left_ms(struct pool_counter_daemon *d, uint64_t now_ms)
{
    return pool_counter_daemon_read(d, now_ms).suspended_ms;
}

static bool begin_probe(struct pool_counter_daemon *d, uint64_t now_ms)
{
    return pool_counter_daemon_begin_probe(d, SILENT_MS, now_ms);
}

static void one_loop_probes_a_daemon_that_is_silent(void **state)
{
    struct pool_counter_daemon *d = ((struct world *)*state)->daemon;

    assert_false(begin_probe(d, NOW_MS - 1));
    assert_false(begin_probe(d, NOW_MS + SILENT_MS - 1));
    assert_true(begin_probe(d, NOW_MS + SILENT_MS));
    assert_false(begin_probe(d, NOW_MS + SILENT_MS));
    pool_counter_daemon_end_probe(d);
    assert_true(begin_probe(d, NOW_MS + SILENT_MS));
}

static void failures_suspend_the_daemon_only_in_a_row(void **state)
{
    struct pool_counter_daemon *d = ((struct world *)*state)->daemon;

    for (unsigned i = 0; i < 100; ++i) {
        for (unsigned k = 1; k < POOL_COUNTER_FAILURES_MAX; ++k)
            assert_int_equal(failed(d, NOW_MS), 0);
        assert_false(is_suspended(d));
        assert_false(pool_counter_daemon_responded(d, NOW_MS));
    }
    assert_true(is_suspended(suspended_daemon(state)));
}

static void after_a_suspension_one_probes_and_the_others_wait_for_the_result(void **state)
{
    struct pool_counter_daemon *d = suspended_daemon(state);
    uint64_t over_ms = NOW_MS + POOL_COUNTER_SUSPENSION_FIRST_MS;

    assert_false(begin_probe(d, over_ms - 1));
    assert_true(begin_probe(d, over_ms));
    assert_false(begin_probe(d, over_ms));
    assert_false(begin_probe(d, over_ms * 2));
    assert_true(is_suspended(d));
    assert_true(pool_counter_daemon_responded(d, over_ms));
    pool_counter_daemon_end_probe(d);
    assert_false(is_suspended(d));
    /* All is forgotten: it takes as many failures as before, and the first suspension is short
     * again. */
    for (unsigned i = 1; i < POOL_COUNTER_FAILURES_MAX; ++i)
        assert_int_equal(failed(d, over_ms), 0);
    assert_int_equal(failed(d, over_ms), POOL_COUNTER_SUSPENSION_FIRST_MS);
    assert_int_equal(suspended_left_ms(d, over_ms), POOL_COUNTER_SUSPENSION_FIRST_MS);
}

static void each_suspension_is_twice_as_long_up_to_a_limit(void **state)
{
    struct pool_counter_daemon *d = suspended_daemon(state);
    uint64_t now_ms = NOW_MS;
    uint64_t suspended_ms = POOL_COUNTER_SUSPENSION_FIRST_MS;

    for (unsigned i = 0; i < 20; ++i) {
        assert_int_equal(suspended_left_ms(d, now_ms), suspended_ms);
        assert_int_equal(pool_counter_daemon_read(d, now_ms).suspensions, i + 1);
        now_ms += suspended_ms;
        assert_true(begin_probe(d, now_ms));
        now_ms += 100; /* a suspension begins when its probe has failed */
        suspended_ms *= 2;
        if (suspended_ms > POOL_COUNTER_SUSPENSION_MAX_MS)
            suspended_ms = POOL_COUNTER_SUSPENSION_MAX_MS;
        assert_int_equal(pool_counter_daemon_failed(d, true, now_ms), suspended_ms);
        pool_counter_daemon_end_probe(d);
    }
    assert_int_equal(suspended_ms, POOL_COUNTER_SUSPENSION_MAX_MS);
}

static void lines_sent_before_a_pause_do_not_prolong_it_but_may_end_it(void **state)
{
    struct pool_counter_daemon *d = suspended_daemon(state);
    uint64_t over_ms = NOW_MS + POOL_COUNTER_SUSPENSION_FIRST_MS;

    assert_int_equal(failed(d, NOW_MS + 10), 0);
    assert_int_equal(pool_counter_daemon_failed(d, true, NOW_MS + 10), 0);
    assert_int_equal(suspended_left_ms(d, NOW_MS), POOL_COUNTER_SUSPENSION_FIRST_MS);
    assert_true(begin_probe(d, over_ms));
    assert_int_equal(failed(d, over_ms), 0);
    assert_false(begin_probe(d, over_ms));
    assert_true(pool_counter_daemon_responded(d, over_ms));
    assert_false(is_suspended(d));
}

static void a_probe_without_a_result_is_followed_by_the_next(void **state)
{
    struct pool_counter_daemon *d = suspended_daemon(state);
    uint64_t over_ms = NOW_MS + POOL_COUNTER_SUSPENSION_FIRST_MS;

    assert_true(begin_probe(d, over_ms));
    pool_counter_daemon_end_probe(d);
    assert_true(begin_probe(d, over_ms + 5));
    assert_int_equal(pool_counter_daemon_failed(d, true, over_ms + 5),
                     2 * POOL_COUNTER_SUSPENSION_FIRST_MS);
    pool_counter_daemon_end_probe(d);
    assert_int_equal(suspended_left_ms(d, over_ms + 5), 2 * POOL_COUNTER_SUSPENSION_FIRST_MS);
    assert_false(begin_probe(d, over_ms + 6));
}

static void connections_are_counted_and_bounded(void **state)
{
    struct world *w = *state;

    pool_counter_health_set_connections(w->health, 1);
    assert_true(pool_counter_daemon_reserve(w->daemon, false));
    assert_false(pool_counter_daemon_reserve(w->daemon, false));
    assert_true(pool_counter_daemon_reserve(w->daemon, true));
    pool_counter_daemon_release(w->daemon);
    assert_false(pool_counter_daemon_reserve(w->daemon, false));
    pool_counter_daemon_release(w->daemon);
    assert_true(pool_counter_daemon_reserve(w->daemon, false));
    pool_counter_daemon_release(w->daemon);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_loop_probes_a_daemon_that_is_silent),
        TEST(failures_suspend_the_daemon_only_in_a_row),
        TEST(after_a_suspension_one_probes_and_the_others_wait_for_the_result),
        TEST(each_suspension_is_twice_as_long_up_to_a_limit),
        TEST(lines_sent_before_a_pause_do_not_prolong_it_but_may_end_it),
        TEST(a_probe_without_a_result_is_followed_by_the_next),
        TEST(connections_are_counted_and_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
