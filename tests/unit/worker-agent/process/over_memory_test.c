/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker-agent/process/process_usage.h"

enum { LONG_MS = OVER_MEMORY_SOON_MS, SHORT_MS = OVER_MEMORY_SOON_MS - 1 };

static void processes_that_served_for_long_are_replaced_at_once(void **state)
{
    struct over_memory o = {0};

    (void)state;
    for (uint64_t now_ms = 1; now_ms < 100; ++now_ms) {
        assert_true(over_memory_may_replace(&o, LONG_MS, now_ms));
        assert_true(o.not_before_ms <= now_ms);
        assert_false(over_memory_warns(&o));
    }
}

static void processes_soon_over_the_limit_wait_twice_as_long_each_time(void **state)
{
    struct over_memory o = {0};
    uint64_t expected_ms = OVER_MEMORY_DELAY_MS;
    uint64_t now_ms = 5000;
    unsigned reported = 0;

    (void)state;
    for (unsigned i = 0; i < 100; ++i) {
        assert_true(over_memory_may_replace(&o, SHORT_MS, now_ms));
        assert_int_equal(o.not_before_ms - now_ms, expected_ms);
        reported += over_memory_warns(&o);
        /* The first may have been an unlucky one; then it is said once. */
        assert_int_equal(reported, i == 0 ? 0 : 1);
        assert_false(over_memory_may_replace(&o, SHORT_MS, now_ms + expected_ms - 1));
        now_ms += expected_ms;
        assert_true(o.not_before_ms <= now_ms);
        expected_ms *= 2;
        if (expected_ms > OVER_MEMORY_DELAY_MAX_MS)
            expected_ms = OVER_MEMORY_DELAY_MAX_MS;
    }
    assert_int_equal(expected_ms, OVER_MEMORY_DELAY_MAX_MS);
}

static void a_process_that_lasted_resets_the_delay(void **state)
{
    struct over_memory o = {0};
    uint64_t now_ms = 1000;

    (void)state;
    for (unsigned i = 0; i < 4; ++i) {
        assert_true(over_memory_may_replace(&o, 0, now_ms));
        now_ms += o.delay_ms;
    }
    assert_true(over_memory_warns(&o));
    /* Not while others still have to wait. */
    assert_false(over_memory_may_replace(&o, LONG_MS, now_ms - 1));
    assert_true(over_memory_may_replace(&o, LONG_MS, now_ms));
    assert_true(o.not_before_ms <= now_ms);
    assert_true(over_memory_may_replace(&o, 0, now_ms));
    assert_int_equal(o.not_before_ms - now_ms, OVER_MEMORY_DELAY_MS);
    assert_false(over_memory_warns(&o));
    assert_true(over_memory_may_replace(&o, 0, now_ms + OVER_MEMORY_DELAY_MS));
    assert_true(over_memory_warns(&o));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_that_served_for_long_are_replaced_at_once),
        cmocka_unit_test(processes_soon_over_the_limit_wait_twice_as_long_each_time),
        cmocka_unit_test(a_process_that_lasted_resets_the_delay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
