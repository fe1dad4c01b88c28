/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/clock.h"
#include "common/event/loop.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Counts what expires, and what has passed of it. */
struct watched {
    struct deadline deadline;
    struct loop *loop;
    unsigned expired, passed;
};

static void on_timer(struct timer *t)
{
    struct watched *w = container_of(t, struct watched, deadline.timer);

    ++w->expired;
    w->passed += deadline_passed(w->loop, &w->deadline);
}

static int set_up(void **state)
{
    *state = loop_create(0);
    return 0;
}

static int tear_down(void **state)
{
    loop_destroy(*state);
    return 0;
}

static void init(struct watched *w, struct loop *l)
{
    *w = (struct watched){.loop = l};
    deadline_init(&w->deadline, on_timer);
}

static void turn_until_passed(struct watched *w)
{
    while (w->passed == 0)
        loop_turn(w->loop, 1000);
}

static void a_deadline_passes_once_and_not_before_its_delay(void **state)
{
    struct watched w;
    uint64_t started_us = clock_mono_us();

    init(&w, *state);
    deadline_set(w.loop, &w.deadline, 3);
    turn_until_passed(&w);
    assert_true(clock_mono_us() - started_us >= 3000);
    assert_false(deadline_is_set(&w.deadline));
    assert_false(timer_running(&w.deadline.timer));
}

static void a_deadline_set_later_passes_later_though_its_timer_expires_before(void **state)
{
    struct watched w;
    uint64_t started_us = clock_mono_us();

    init(&w, *state);
    deadline_set(w.loop, &w.deadline, 1);
    uint64_t due_ms = w.deadline.timer.due_ms;
    deadline_set(w.loop, &w.deadline, 20);
    assert_int_equal(w.deadline.timer.due_ms, due_ms);
    while (w.expired == 0)
        loop_turn(w.loop, 1000);
    if (w.passed == 0) /* unless the machine has slept over both */
        assert_int_equal(w.deadline.timer.due_ms, w.deadline.due_ms);
    turn_until_passed(&w);
    assert_true(clock_mono_us() - started_us >= 20000);
    assert_int_equal(w.passed, 1);
}

static void a_deadline_set_earlier_passes_earlier(void **state)
{
    struct watched w;

    init(&w, *state);
    deadline_set(w.loop, &w.deadline, 3600 * 1000);
    deadline_set(w.loop, &w.deadline, 2);
    assert_int_equal(w.deadline.timer.due_ms, w.deadline.due_ms);
    turn_until_passed(&w);
    assert_int_equal(w.expired, 1);
}

static void a_cleared_deadline_does_not_pass_when_its_timer_expires(void **state)
{
    struct watched w;

    init(&w, *state);
    deadline_set(w.loop, &w.deadline, 1);
    deadline_clear(&w.deadline);
    assert_false(deadline_is_set(&w.deadline));
    while (w.expired == 0)
        loop_turn(w.loop, 1000);
    assert_int_equal(w.passed, 0);
    assert_false(timer_running(&w.deadline.timer));
}

static void a_stopped_deadline_leaves_the_loop(void **state)
{
    struct watched w;

    init(&w, *state);
    deadline_set(w.loop, &w.deadline, 1);
    deadline_stop(&w.deadline);
    assert_false(timer_running(&w.deadline.timer));
    assert_false(deadline_is_set(&w.deadline));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_deadline_passes_once_and_not_before_its_delay, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_deadline_set_later_passes_later_though_its_timer_expires_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_deadline_set_earlier_passes_earlier, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cleared_deadline_does_not_pass_when_its_timer_expires,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stopped_deadline_leaves_the_loop, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
