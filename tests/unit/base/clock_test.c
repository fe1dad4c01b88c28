/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "common/base/clock.h"

static uint64_t kernel_us(clockid_t clock)
{
    struct timespec ts;

    assert_int_equal(clock_gettime(clock, &ts), 0);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void monotonic_time_is_in_microseconds_of_the_monotonic_clock(void **state)
{
    (void)state;
    uint64_t before = kernel_us(CLOCK_MONOTONIC);
    uint64_t now = clock_mono_us();
    assert_in_range(now, before, kernel_us(CLOCK_MONOTONIC));
}

static void wall_time_is_in_microseconds_since_1970(void **state)
{
    enum { STEP_US = 60 * 1000 * 1000 }; /* the clock may be set during the test */

    (void)state;
    uint64_t before = kernel_us(CLOCK_REALTIME);
    uint64_t now = clock_wall_us();
    assert_in_range(now, before - STEP_US, before + STEP_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(monotonic_time_is_in_microseconds_of_the_monotonic_clock),
        cmocka_unit_test(wall_time_is_in_microseconds_since_1970),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
