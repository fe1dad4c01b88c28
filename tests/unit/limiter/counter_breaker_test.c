/* SPDX-License-Identifier: Apache-2.0 */
#include "common/limiter/counter_health.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { NOW_MS = 1000000 };

/* A breaker that has just begun to rest. */
static struct counter_breaker resting(void)
{
    struct counter_breaker b = {0};

    for (unsigned i = 1; i < COUNTER_BREAKER_FAILURES_MAX; ++i)
        assert_false(counter_breaker_failed(&b, false, NOW_MS));
    assert_true(counter_breaker_failed(&b, false, NOW_MS));
    return b;
}

static void it_releases_all_while_all_is_well(void **state)
{
    struct counter_breaker b = {0};

    (void)state;
    for (unsigned i = 0; i < 100; ++i) {
        assert_int_equal(counter_breaker_ask(&b, NOW_MS + i), COUNTER_BREAKER_GO);
        counter_breaker_succeeded(&b);
    }
}

static void failures_open_it_only_in_a_row(void **state)
{
    struct counter_breaker b = {0};

    (void)state;
    for (unsigned i = 0; i < 100; ++i) {
        for (unsigned k = 1; k < COUNTER_BREAKER_FAILURES_MAX; ++k)
            assert_false(counter_breaker_failed(&b, false, NOW_MS));
        assert_int_equal(counter_breaker_ask(&b, NOW_MS), COUNTER_BREAKER_GO);
        counter_breaker_succeeded(&b);
    }
    b = resting();
    assert_int_equal(counter_breaker_ask(&b, NOW_MS), COUNTER_BREAKER_REST);
}

static void after_its_rest_one_goes_ahead_and_the_others_wait_for_its_fate(void **state)
{
    struct counter_breaker b = resting();
    uint64_t over_ms = NOW_MS + COUNTER_BREAKER_REST_FIRST_MS;

    (void)state;
    assert_int_equal(counter_breaker_ask(&b, over_ms - 1), COUNTER_BREAKER_REST);
    assert_int_equal(counter_breaker_ask(&b, over_ms), COUNTER_BREAKER_PROBE);
    assert_int_equal(counter_breaker_ask(&b, over_ms), COUNTER_BREAKER_REST);
    assert_int_equal(counter_breaker_ask(&b, over_ms * 2), COUNTER_BREAKER_REST);
    counter_breaker_succeeded(&b);
    assert_int_equal(counter_breaker_ask(&b, over_ms), COUNTER_BREAKER_GO);
    /* All is forgotten: it takes as many failures as before, and the first rest is short again. */
    for (unsigned i = 1; i < COUNTER_BREAKER_FAILURES_MAX; ++i)
        assert_false(counter_breaker_failed(&b, false, over_ms));
    assert_true(counter_breaker_failed(&b, false, over_ms));
    assert_int_equal(b.until_ms, over_ms + COUNTER_BREAKER_REST_FIRST_MS);
}

static void each_rest_is_twice_as_long_up_to_a_limit(void **state)
{
    struct counter_breaker b = resting();
    uint64_t now_ms = NOW_MS;
    uint64_t rest_ms = COUNTER_BREAKER_REST_FIRST_MS;

    (void)state;
    for (unsigned i = 0; i < 20; ++i) {
        assert_int_equal(b.until_ms, now_ms + rest_ms);
        now_ms = b.until_ms;
        assert_int_equal(counter_breaker_ask(&b, now_ms), COUNTER_BREAKER_PROBE);
        now_ms += 100; /* a rest begins when its probe has failed */
        assert_true(counter_breaker_failed(&b, true, now_ms));
        rest_ms *= 2;
        if (rest_ms > COUNTER_BREAKER_REST_MAX_MS)
            rest_ms = COUNTER_BREAKER_REST_MAX_MS;
    }
    assert_int_equal(rest_ms, COUNTER_BREAKER_REST_MAX_MS);
}

static void those_that_went_before_make_no_rest_longer_but_may_end_it(void **state)
{
    struct counter_breaker b = resting();
    uint64_t over_ms = b.until_ms;

    (void)state;
    assert_false(counter_breaker_failed(&b, false, NOW_MS + 10));
    assert_int_equal(b.until_ms, over_ms);
    assert_int_equal(counter_breaker_ask(&b, over_ms), COUNTER_BREAKER_PROBE);
    assert_false(counter_breaker_failed(&b, false, over_ms));
    assert_int_equal(b.state, COUNTER_BREAKER_PROBED);
    counter_breaker_succeeded(&b);
    assert_int_equal(counter_breaker_ask(&b, over_ms), COUNTER_BREAKER_GO);
}

static void a_probe_that_reports_nothing_is_followed_by_the_next(void **state)
{
    struct counter_breaker b = resting();
    uint64_t over_ms = b.until_ms;

    (void)state;
    assert_int_equal(counter_breaker_ask(&b, over_ms), COUNTER_BREAKER_PROBE);
    counter_breaker_no_verdict(&b, over_ms + 5);
    assert_int_equal(counter_breaker_ask(&b, over_ms + 5), COUNTER_BREAKER_PROBE);
    assert_true(counter_breaker_failed(&b, true, over_ms + 5));
    assert_int_equal(b.until_ms, over_ms + 5 + UINT64_C(2) * COUNTER_BREAKER_REST_FIRST_MS);
    /* Of one that is not out it changes nothing. */
    counter_breaker_no_verdict(&b, over_ms + 6);
    assert_int_equal(counter_breaker_ask(&b, over_ms + 6), COUNTER_BREAKER_REST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_releases_all_while_all_is_well),
        cmocka_unit_test(failures_open_it_only_in_a_row),
        cmocka_unit_test(after_its_rest_one_goes_ahead_and_the_others_wait_for_its_fate),
        cmocka_unit_test(each_rest_is_twice_as_long_up_to_a_limit),
        cmocka_unit_test(those_that_went_before_make_no_rest_longer_but_may_end_it),
        cmocka_unit_test(a_probe_that_reports_nothing_is_followed_by_the_next),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
