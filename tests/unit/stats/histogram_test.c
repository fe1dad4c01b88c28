/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/stats/histogram.h"

static void an_empty_one_has_no_quantiles(void **state)
{
    struct histogram h = {0};

    (void)state;
    assert_true(histogram_quantile(&h, 0.5) == 0);
    assert_true(histogram_count(&h) == 0);
}

static void a_quantile_is_right_within_a_sixteenth(void **state)
{
    (void)state;
    for (uint64_t us = 1; us < UINT32_MAX / 3; us = us * 3 + 1) {
        struct histogram h = {0};

        histogram_add(&h, us, 1);
        double q = histogram_quantile(&h, 0.5);
        assert_true(q >= (double)us * 15 / 16 - 1);
        assert_true(q <= (double)us * 17 / 16 + 1);
    }
}

static void quantiles_are_in_the_order_of_what_was_counted(void **state)
{
    struct histogram h = {0};

    (void)state;
    for (unsigned i = 0; i < 99; ++i)
        histogram_add(&h, 1000, 1);
    histogram_add(&h, 1000000, 1);
    assert_true(histogram_quantile(&h, 0.5) < 1100);
    assert_true(histogram_quantile(&h, 0.995) > 900000);
    assert_true(histogram_count(&h) == 100);
}

static void heavier_values_count_more_and_scaling_forgets(void **state)
{
    struct histogram h = {0};

    (void)state;
    histogram_add(&h, 10, 3);
    histogram_scale(&h, 0.5);
    histogram_add(&h, 100000, 1);
    assert_true(histogram_count(&h) == 2.5);
    assert_true(histogram_quantile(&h, 0.5) < 12);
    assert_true(histogram_quantile(&h, 0.7) > 90000);
}

static void times_beyond_an_hour_are_the_last_bucket(void **state)
{
    struct histogram h = {0};

    (void)state;
    histogram_add(&h, UINT64_MAX, 1);
    histogram_add(&h, UINT32_MAX, 1);
    assert_true(histogram_count(&h) == 2);
    assert_true(histogram_quantile(&h, 0.5) > 4e9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_one_has_no_quantiles),
        cmocka_unit_test(a_quantile_is_right_within_a_sixteenth),
        cmocka_unit_test(quantiles_are_in_the_order_of_what_was_counted),
        cmocka_unit_test(heavier_values_count_more_and_scaling_forgets),
        cmocka_unit_test(times_beyond_an_hour_are_the_last_bucket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
