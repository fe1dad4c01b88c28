/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/stats/decay.h"

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b));
}

#define assert_near(a, b) assert_true(near((a), (b)))

static void the_first_value_is_the_mean(void **state)
{
    struct decayed d = {0};

    (void)state;
    decayed_add(&d, decay_over(9), 3);
    assert_near(d.mean, 3);
    assert_near(d.weight, 1);
}

static void a_constant_value_stays_the_mean(void **state)
{
    struct decayed d = {0};

    (void)state;
    for (int i = 0; i < 1000; ++i)
        decayed_add(&d, decay_over(50), 7);
    assert_near(d.mean, 7);
    /* The weight of so many values is what the decay forgets per value, in reverse. */
    assert_true(d.weight < 50);
    assert_true(d.weight > 49.99);
}

static void later_values_weigh_more(void **state)
{
    struct decayed d = {0};

    (void)state;
    decayed_add(&d, 0.5, 1);
    decayed_add(&d, 0.5, 2);
    assert_near(d.sum, 2.5);
    assert_near(d.weight, 1.5);
    assert_near(d.mean, 2.5 / 1.5);
}

static void over_one_value_nothing_else_counts(void **state)
{
    struct decayed d = {0};

    (void)state;
    decayed_add(&d, decay_over(1), 5);
    decayed_add(&d, decay_over(1), 11);
    assert_near(d.mean, 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_value_is_the_mean),
        cmocka_unit_test(a_constant_value_stays_the_mean),
        cmocka_unit_test(later_values_weigh_more),
        cmocka_unit_test(over_one_value_nothing_else_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
