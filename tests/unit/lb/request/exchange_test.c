/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of steps. What an exchange does along it is tested end to end (tests/e2e).
 */
#include "lb/request/exchange.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static bool step_may(int from, int to)
{
    return (step_successors[from] & (1u << to)) != 0;
}

static void a_request_starts_with_its_class_and_ends_with_its_account(void **state)
{
    (void)state;
    assert_int_equal(STEP_CLASSIFY, 0);
    for (int s = 0; s < STEPS; ++s) {
        assert_false(step_may(s, STEP_CLASSIFY));
        assert_false(step_may(STEP_ACCOUNT, s));
    }
}

static void a_connection_is_released_before_any_other_step(void **state)
{
    (void)state;
    for (int s = 0; s < STEPS; ++s) {
        assert_int_equal(step_may(STEP_CONNECT, s), s == STEP_FORWARD || s == STEP_RELEASE);
        assert_int_equal(step_may(STEP_FORWARD, s), s == STEP_RELEASE);
    }
}

static void delivering_a_response_is_never_followed_by_another_try(void **state)
{
    (void)state;
    for (int s = 0; s < STEPS; ++s)
        assert_int_equal(step_may(STEP_DELIVER, s), s == STEP_ACCOUNT);
}

static void every_step_can_be_reached_and_left(void **state)
{
    unsigned reached = 1u << STEP_CLASSIFY;

    (void)state;
    for (int round = 0; round < STEPS; ++round) {
        for (int from = 0; from < STEPS; ++from) {
            for (int to = 0; to < STEPS; ++to)
                reached |= (reached & (1u << from)) != 0 && step_may(from, to) ? 1u << to : 0;
        }
    }
    assert_int_equal(reached, (1u << STEPS) - 1);
    for (int s = 0; s < STEP_ACCOUNT; ++s) {
        bool left = false;

        for (int to = 0; to < STEPS; ++to)
            left |= step_may(s, to);
        assert_true(left);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_starts_with_its_class_and_ends_with_its_account),
        cmocka_unit_test(a_connection_is_released_before_any_other_step),
        cmocka_unit_test(delivering_a_response_is_never_followed_by_another_try),
        cmocka_unit_test(every_step_can_be_reached_and_left),
    };

    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
