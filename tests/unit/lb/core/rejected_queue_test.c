/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/core/route_wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

enum { WAITERS = 8 };

struct waiter {
    struct rejected_wait wait;
    struct fixture *fixture;
    bool comes_back; /* is rejected again */
    unsigned turns;
};

struct fixture {
    struct loop *loop;
    struct rejected_queue line;
    _Atomic size_t all;
    struct waiter waiters[WAITERS];
    unsigned gone[WAITERS * 4]; /* waiters that continued, in order */
    unsigned ngone;
    struct waiter *victim; /* leaves the queue when another waiter continues */
};

static void on_go(struct rejected_wait *w)
{
    struct waiter *me = container_of(w, struct waiter, wait);
    struct fixture *f = me->fixture;

    ++me->turns;
    assert_true(f->ngone < ARRAY_LEN(f->gone));
    f->gone[f->ngone++] = (unsigned)(me - f->waiters);
    if (me->comes_back)
        assert_true(rejected_queue_join(&f->line, w, 0, true));
    if (f->victim != NULL)
        rejected_queue_leave(&f->line, &f->victim->wait);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    f->loop = loop_create(0);
    rejected_queue_init(&f->line, f->loop, &f->all);
    for (unsigned i = 0; i < WAITERS; ++i) {
        f->waiters[i].fixture = f;
        f->waiters[i].wait.go_on = on_go;
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < WAITERS; ++i)
        rejected_queue_leave(&f->line, &f->waiters[i].wait);
    assert_int_equal(f->all, 0);
    loop_destroy(f->loop);
    free(f);
    return 0;
}

static void join(struct fixture *f, unsigned n)
{
    for (unsigned i = 0; i < n; ++i)
        assert_true(rejected_queue_join(&f->line, &f->waiters[i].wait, WAITERS, false));
}

static void run_until(struct fixture *f, unsigned ngone)
{
    for (int turns = 0; f->ngone < ngone; ++turns) {
        assert_true(turns < 10000);
        loop_turn(f->loop, 100);
    }
}

static void requests_do_not_continue_inside_of_a_call(void **state)
{
    struct fixture *f = *state;

    join(f, 2);
    rejected_queue_served(&f->line);
    assert_int_equal(f->ngone, 0);
    run_until(f, 2);
}

static void all_continue_in_the_order_they_came_though_nothing_gets_a_response(void **state)
{
    struct fixture *f = *state;

    join(f, 4);
    run_until(f, 4);
    for (unsigned i = 0; i < 4; ++i)
        assert_int_equal(f->gone[i], i);
    assert_int_equal(f->all, 0);
}

static void a_response_releases_two_at_once(void **state)
{
    struct fixture *f = *state;

    join(f, 4);
    rejected_queue_served(&f->line);
    run_until(f, 1);
    assert_int_equal(f->ngone, 2);
    assert_int_equal(f->all, 2);
}

static void a_request_that_returns_in_vain_keeps_the_first_place(void **state)
{
    struct fixture *f = *state;

    f->waiters[0].comes_back = true;
    join(f, 2);
    run_until(f, 3);
    f->waiters[0].comes_back = false;
    for (unsigned i = 0; i < 3; ++i)
        assert_int_equal(f->gone[i], 0);
    run_until(f, 5);
    assert_int_equal(f->gone[4], 1);
}

static void more_than_may_wait_are_not_taken_whatever_the_loop(void **state)
{
    struct fixture *f = *state;

    join(f, 2);
    assert_false(rejected_queue_join(&f->line, &f->waiters[2].wait, 2, false));
    f->all += 5; /* on other loops */
    assert_false(rejected_queue_join(&f->line, &f->waiters[2].wait, 7, false));
    f->all -= 5;
    assert_true(rejected_queue_join(&f->line, &f->waiters[2].wait, 3, false));
}

static void a_request_that_leaves_does_not_continue(void **state)
{
    struct fixture *f = *state;

    join(f, 3);
    rejected_queue_leave(&f->line, &f->waiters[1].wait);
    rejected_queue_leave(&f->line, &f->waiters[1].wait);
    run_until(f, 2);
    assert_int_equal(f->waiters[1].turns, 0);
    assert_int_equal(f->all, 0);
}

static void a_request_that_leaves_while_it_is_released_is_counted_once(void **state)
{
    struct fixture *f = *state;

    join(f, 2);
    f->victim = &f->waiters[1];
    rejected_queue_served(&f->line);
    run_until(f, 1);
    loop_turn(f->loop, 0);
    assert_int_equal(f->waiters[1].turns, 0);
    assert_int_equal(f->all, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(requests_do_not_continue_inside_of_a_call, setup, teardown),
        cmocka_unit_test_setup_teardown(
            all_continue_in_the_order_they_came_though_nothing_gets_a_response, setup, teardown),
        cmocka_unit_test_setup_teardown(a_response_releases_two_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_that_returns_in_vain_keeps_the_first_place, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(more_than_may_wait_are_not_taken_whatever_the_loop, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_request_that_leaves_does_not_continue, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_that_leaves_while_it_is_released_is_counted_once,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
