/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums that decay, beside sums that are multiplied by exp(-t / TAU) whenever time passes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/stats/decay.h"

#define TAU_US 1e6
/* What a figure may be off by, of itself: the polynomial's error, and rounding. */
#define TOLERANCE 1e-9

static uint64_t seed = 88172645463325252u;

static uint64_t below(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % n;
}

static bool alike(double a, double b)
{
    return fabs(a - b) <= TOLERANCE * fabs(b);
}

/* From a microsecond to several epochs: mostly less than an anchor lasts, or a little more. */
static uint64_t step_us(void)
{
    switch (below(400)) {
    case 0:
        return below(200 * (uint64_t)TAU_US);
    case 1:
    case 2:
        return below(10 * (uint64_t)TAU_US);
    default:
        return below(3 * (uint64_t)(TAU_US * FADING_ANCHOR_TAUS));
    }
}

static void a_weight_is_exp_of_the_time_since_the_epoch(void **state)
{
    struct fading_clock c;
    unsigned epochs = 0;
    uint64_t now_us = 0;

    (void)state;
    fading_clock_init(&c, TAU_US);
    assert_true(c.weight == 1);
    for (int i = 0; i < 100000; ++i) {
        now_us += step_us();
        bool began = fading_advance(&c, now_us);
        assert_int_equal(c.now_us, now_us);
        assert_true(alike(c.weight, exp((double)(now_us - c.epoch_us) / TAU_US)));
        assert_true(!began || c.epoch_us == now_us);
        epochs += began;
    }
    assert_true(epochs > 10);
}

static void a_sum_is_what_is_left_of_its_values(void **state)
{
    struct fading_clock c;
    struct fading often = {0};
    struct fading seldom = {0};
    double often_left = 0;
    double seldom_left = 0;
    uint64_t now_us = 0;

    (void)state;
    fading_clock_init(&c, TAU_US);
    for (int i = 0; i < 100000; ++i) {
        uint64_t passed_us = step_us();
        double kept = exp(-(double)passed_us / TAU_US);
        double value = (double)(1 + below(1000));

        now_us += passed_us;
        (void)fading_advance(&c, now_us);
        often_left = often_left * kept + value;
        seldom_left *= kept;
        fading_add(&often, value, &c);
        if (below(1000) == 0) {
            fading_add(&seldom, value, &c);
            seldom_left += value;
        }
        assert_true(alike(fading_value(&often, &c), often_left));
        /* What is forgotten may be nothing at all. */
        assert_true(alike(fading_value(&seldom, &c), seldom_left) || seldom_left < 1e-15);
        assert_true(alike(fading_sum(&often, &c) / c.weight, fading_value(&often, &c)));
    }
}

static void a_mean_that_is_given_a_value_has_it(void **state)
{
    struct fading_clock c;

    (void)state;
    fading_clock_init(&c, TAU_US);
    (void)fading_advance(&c, 12345678);
    struct fading f = fading_of(7, &c);
    assert_true(alike(fading_value(&f, &c), 7));
    (void)fading_advance(&c, 12345678 + (uint64_t)TAU_US);
    assert_true(alike(fading_value(&f, &c), 7 / exp(1)));
}

static void a_sum_is_never_below_nothing(void **state)
{
    struct fading_clock c;
    struct fading f;

    (void)state;
    fading_clock_init(&c, TAU_US);
    (void)fading_advance(&c, 100);
    f = fading_of(3, &c);
    fading_add(&f, -2, &c);
    assert_true(alike(fading_value(&f, &c), 1));
    fading_add(&f, -2, &c);
    assert_true(fading_value(&f, &c) == 0);
}

static void a_sum_of_an_earlier_epoch_is_brought_over(void **state)
{
    struct fading_clock c;

    (void)state;
    fading_clock_init(&c, TAU_US);
    uint64_t now_us = (uint64_t)((FADING_EPOCH_TAUS - 1) * TAU_US);
    assert_false(fading_advance(&c, now_us));
    struct fading f = fading_of(5, &c);
    assert_true(fading_advance(&c, now_us + 2 * (uint64_t)TAU_US));
    assert_true(alike(fading_value(&f, &c), 5 * exp(-2)));
    fading_add(&f, 1, &c);
    assert_int_equal(f.epoch_us, c.epoch_us);
    assert_true(alike(fading_value(&f, &c), 1 + 5 * exp(-2)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_weight_is_exp_of_the_time_since_the_epoch),
        cmocka_unit_test(a_sum_is_what_is_left_of_its_values),
        cmocka_unit_test(a_mean_that_is_given_a_value_has_it),
        cmocka_unit_test(a_sum_is_never_below_nothing),
        cmocka_unit_test(a_sum_of_an_earlier_epoch_is_brought_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
