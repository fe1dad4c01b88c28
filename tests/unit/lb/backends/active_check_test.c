/* SPDX-License-Identifier: Apache-2.0
 *
 * What results add up to, and when the next check is; the checks themselves are in the end-to-end
 * tests, with real connections.
 */
#include "lb/backends/active_check.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void a_worker_fails_after_so_many_failures_in_a_row(void **state)
{
    (void)state;
    struct check_record r = {0};

    assert_false(check_record_add(&r, false, 3, 2));
    assert_false(check_record_add(&r, false, 3, 2));
    assert_false(check_record_add(&r, true, 3, 2));
    assert_false(check_record_add(&r, false, 3, 2));
    assert_false(check_record_add(&r, false, 3, 2));
    assert_true(check_record_add(&r, false, 3, 2));
    assert_true(r.failing);
    assert_false(check_record_add(&r, false, 3, 2));
}

static void a_worker_passes_again_after_enough_successes_in_a_row(void **state)
{
    (void)state;
    struct check_record r = {.failing = true};

    assert_false(check_record_add(&r, true, 3, 2));
    assert_false(check_record_add(&r, false, 3, 2));
    assert_false(check_record_add(&r, true, 3, 2));
    assert_true(check_record_add(&r, true, 3, 2));
    assert_false(r.failing);
}

static void a_status_passes_that_is_wanted(void **state)
{
    (void)state;
    assert_true(check_status_passes(200, 0));
    assert_true(check_status_passes(399, 0));
    assert_false(check_status_passes(400, 0));
    assert_false(check_status_passes(503, 0));
    assert_true(check_status_passes(418, 418));
    assert_false(check_status_passes(200, 204));
}

static void checks_are_spread_over_the_interval_and_stay_near_it(void **state)
{
    (void)state;
    uint64_t first_min = UINT64_MAX;
    uint64_t first_max = 0;

    for (uint64_t h = 0; h < 100000; ++h) {
        uint64_t first = check_delay_ms(1000, true, h);
        uint64_t next = check_delay_ms(1000, false, h);

        first_min = first < first_min ? first : first_min;
        first_max = first > first_max ? first : first_max;
        assert_in_range(next, 900, 1100);
    }
    assert_int_equal(first_min, 0);
    assert_int_equal(first_max, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_fails_after_so_many_failures_in_a_row),
        cmocka_unit_test(a_worker_passes_again_after_enough_successes_in_a_row),
        cmocka_unit_test(a_status_passes_that_is_wanted),
        cmocka_unit_test(checks_are_spread_over_the_interval_and_stay_near_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
