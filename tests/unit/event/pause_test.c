/* SPDX-License-Identifier: Apache-2.0
 *
 * The process is paused: its monotonic clock jumps between two turns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/event/loop.h"

enum { MS = 1000, SECOND = 1000 * MS };

static uint64_t mono_us;

uint64_t __wrap_clock_mono_us(void);
uint64_t __wrap_clock_mono_us(void)
{
    return mono_us;
}

static int expired;

static void on_expired(struct timer *t)
{
    (void)t;
    ++expired;
}

static int set_up(void **state)
{
    mono_us = 1000 * (uint64_t)SECOND;
    expired = 0;
    *state = loop_create(0);
    return 0;
}

static int tear_down(void **state)
{
    loop_destroy(*state);
    return 0;
}

/* N turns, with a step of the clock before each. */
static void run(struct loop *l, int n, uint64_t step_us)
{
    for (int i = 0; i < n; ++i) {
        mono_us += step_us;
        loop_turn(l, 0);
    }
}

static void a_pause_is_not_the_time_of_a_timer(void **state)
{
    struct loop *l = *state;
    struct timer t;

    timer_init(&t, on_expired);
    timer_start(l, &t, 10 * 1000);
    run(l, 9, SECOND);
    run(l, 1, 60 * (uint64_t)SECOND);
    assert_int_equal(expired, 0);
    /* 9.1 s have counted. */
    run(l, 8, 100 * MS);
    assert_int_equal(expired, 0);
    run(l, 2, 100 * MS);
    assert_int_equal(expired, 1);
}

static void a_pause_is_not_the_time_of_a_deadline_set_before(void **state)
{
    struct loop *l = *state;
    struct deadline d;

    deadline_init(&d, on_expired);
    deadline_set(l, &d, 3000);
    run(l, 1, SECOND);
    deadline_set(l, &d, 10 * 1000);
    run(l, 1, 60 * (uint64_t)SECOND);
    run(l, 9, SECOND);
    /* The timer expired, but the deadline has not passed. */
    assert_int_equal(expired, 1);
    assert_false(deadline_passed(l, &d));
    run(l, 2, SECOND);
    assert_int_equal(expired, 2);
    assert_true(deadline_passed(l, &d));
    deadline_stop(&d);
}

static void a_timer_that_is_started_after_a_pause_takes_its_time(void **state)
{
    struct loop *l = *state;
    struct timer before, after;

    timer_init(&before, on_expired);
    timer_start(l, &before, 3600 * 1000);
    run(l, 1, 60 * (uint64_t)SECOND);
    timer_init(&after, on_expired);
    timer_start(l, &after, 1000);
    run(l, 9, 100 * MS);
    assert_int_equal(expired, 0);
    run(l, 2, 100 * MS);
    assert_int_equal(expired, 1);
    timer_stop(&before);
}

static void the_monotonic_clock_shows_the_pause(void **state)
{
    struct loop *l = *state;
    struct timer t;

    timer_init(&t, on_expired);
    timer_start(l, &t, 3600 * 1000);
    uint64_t before_ms = loop_now_ms(l);
    uint64_t active_ms = loop_active_ms(l);
    run(l, 1, 60 * (uint64_t)SECOND);
    assert_int_equal(loop_now_ms(l) - before_ms, 60 * 1000);
    assert_in_range(loop_active_ms(l) - active_ms, 0, 1000);
    timer_stop(&t);
}

static void timers_expire_even_if_each_turn_is_late(void **state)
{
    struct loop *l = *state;
    struct timer t;

    timer_init(&t, on_expired);
    timer_start(l, &t, 1000);
    run(l, 20, 10 * (uint64_t)SECOND);
    assert_int_equal(expired, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_pause_is_not_the_time_of_a_timer),
        TEST(a_pause_is_not_the_time_of_a_deadline_set_before),
        TEST(a_timer_that_is_started_after_a_pause_takes_its_time),
        TEST(the_monotonic_clock_shows_the_pause),
        TEST(timers_expire_even_if_each_turn_is_late),
    };

    return cmocka_run_group_tests_name("pause", tests, NULL, NULL);
}
