/* SPDX-License-Identifier: Apache-2.0 */
#include "common/counters/rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/text.h"

#define SECOND 1000000000ULL

static void a_rate_is_a_number_in_a_time(void **state)
{
    static const char *const bad[] = {"",     "/s",    "5",   "5/",    "5/w", "5/s ", " 5/s",
                                      "-5/s", "5.5/s", "x/s", "5/s/s", "5/S", "5 /s"};
    uint64_t count = 0;
    uint64_t ns = 0;

    (void)state;
    assert_int_equal(rate_parse(SLICE_LIT("100/s"), &count, &ns), ERR_OK);
    assert_int_equal(count, 100);
    assert_int_equal(ns, SECOND / 100);
    assert_int_equal(rate_parse(SLICE_LIT("5/m"), &count, &ns), ERR_OK);
    assert_int_equal(ns, 12 * SECOND);
    assert_int_equal(rate_parse(SLICE_LIT("1/d"), &count, &ns), ERR_OK);
    assert_int_equal(ns, 86400 * SECOND);
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i)
        assert_int_equal(rate_parse(slice_of(bad[i]), &count, &ns), ERR_SYNTAX);
    assert_int_equal(rate_parse(SLICE_LIT("0/s"), &count, &ns), ERR_RANGE);
    assert_int_equal(rate_parse(SLICE_LIT("1000001/s"), &count, &ns), ERR_RANGE);
    assert_int_equal(ns, 86400 * SECOND);
}

static void a_burst_passes_at_once_and_the_rest_evenly(void **state)
{
    struct lru *t = lru_create(10);
    const struct rate r = {.interval_ns = SECOND, .burst = 3};
    uint64_t now = 100 * SECOND;

    (void)state;
    for (int i = 0; i < 3; ++i)
        assert_int_equal(rate_take(t, 7, now, &r), 0);
    assert_int_equal(rate_take(t, 7, now, &r), SECOND);
    assert_int_equal(rate_take(t, 7, now + SECOND / 4, &r), 3 * SECOND / 4);
    assert_int_equal(rate_take(t, 7, now + SECOND, &r), 0);
    assert_int_equal(rate_take(t, 7, now + SECOND, &r), SECOND);
    assert_int_equal(rate_take(t, 8, now, &r), 0);
    assert_int_equal(lru_count(t), 2);
    lru_destroy(t);
}

static void a_request_passes_after_the_wait_it_was_told(void **state)
{
    struct lru *t = lru_create(10);
    const struct rate r = {.interval_ns = 333333333, .burst = 2};
    uint64_t now = SECOND;

    (void)state;
    for (int i = 0; i < 1000; ++i) {
        uint64_t wait = rate_take(t, 1, now, &r);

        if (wait == 0)
            continue;
        assert_true(wait <= r.interval_ns);
        assert_true(rate_take(t, 1, now + wait - 1, &r) == 1);
        assert_int_equal(rate_take(t, 1, now + wait, &r), 0);
        now += wait + (uint64_t)i * 1000;
    }
    lru_destroy(t);
}

static void time_that_goes_back_lets_no_more_through(void **state)
{
    struct lru *t = lru_create(10);
    const struct rate r = {.interval_ns = SECOND, .burst = 1};

    (void)state;
    assert_int_equal(rate_take(t, 1, 10 * SECOND, &r), 0);
    assert_int_equal(rate_take(t, 1, 9 * SECOND, &r), SECOND);
    assert_int_equal(rate_take(t, 1, 11 * SECOND, &r), 0);
    lru_destroy(t);
}

static void another_rate_does_not_inherit_a_long_wait(void **state)
{
    struct lru *t = lru_create(10);
    const struct rate slow = {.interval_ns = 3600 * SECOND, .burst = 2};
    const struct rate fast = {.interval_ns = SECOND, .burst = 2};

    (void)state;
    assert_int_equal(rate_take(t, 1, SECOND, &slow), 0);
    assert_int_equal(rate_take(t, 1, SECOND, &slow), 0);
    assert_int_equal(rate_take(t, 1, SECOND, &fast), SECOND);
    lru_destroy(t);
}

/* Using all keys once, the oldest first, leaves them in their order. */
static void lru_check(struct lru *t)
{
    size_t n = lru_count(t);
    uint64_t *keys = calloc(n, sizeof(*keys));
    uint64_t *again = calloc(n, sizeof(*again));

    lru_keys(t, keys);
    for (size_t i = n; i-- > 0;)
        assert_true(lru_use(t, keys[i]));
    assert_int_equal(lru_count(t), n);
    lru_keys(t, again);
    assert_memory_equal(keys, again, n * sizeof(*keys));
    free(keys);
    free(again);
}

static void the_key_used_least_recently_goes(void **state)
{
    struct lru *t = lru_create(2);
    const struct rate r = {.interval_ns = SECOND, .burst = 1};

    (void)state;
    assert_int_equal(rate_take(t, 1, SECOND, &r), 0);
    assert_int_equal(rate_take(t, 2, SECOND, &r), 0);
    /* Being rejected is a use too: hammering keeps a key where it is. */
    assert_int_equal(rate_take(t, 1, SECOND, &r), SECOND);
    assert_int_equal(rate_take(t, 3, SECOND, &r), 0);
    assert_int_equal(lru_count(t), 2);
    assert_int_equal(lru_evicted(t), 1);
    assert_int_equal(rate_take(t, 1, SECOND, &r), SECOND);
    assert_int_equal(rate_take(t, 2, SECOND, &r), 0);
    lru_check(t);
    lru_destroy(t);
}

/* ---- against a naive model: levels that fill with time, and keys in a list by use ---- */

enum { MODEL_KEYS = 40 };

struct model {
    size_t n, max;
    struct {
        uint64_t key, level, at;
    } keys[MODEL_KEYS]; /* the oldest first */
};

static bool model_take(struct model *m, uint64_t key, uint64_t now, const struct rate *r)
{
    uint64_t full = r->burst * r->interval_ns;
    uint64_t level = full;
    size_t i = 0;

    while (i < m->n && m->keys[i].key != key)
        ++i;
    if (i < m->n) {
        level = m->keys[i].level + (now - m->keys[i].at);
        level = level < full ? level : full;
    } else if (m->n == m->max) {
        i = 0;
    } else {
        ++m->n;
    }
    memmove(&m->keys[i], &m->keys[i + 1], (m->n - 1 - i) * sizeof(m->keys[0]));
    bool may = level >= r->interval_ns;
    m->keys[m->n - 1].key = key;
    m->keys[m->n - 1].level = may ? level - r->interval_ns : level;
    m->keys[m->n - 1].at = now;
    return may;
}

static uint64_t random_of(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void the_rate_equals_a_bucket_of_tokens(void **state)
{
    uint64_t seed = 88172645463325252ULL;
    size_t passed = 0;
    size_t rejected = 0;

    (void)state;
    for (int round = 0; round < 60; ++round) {
        struct model m = {.max = 1 + random_of(&seed) % (MODEL_KEYS - 1)};
        struct lru *t = lru_create(m.max);
        const struct rate r = {.interval_ns = 1 + random_of(&seed) % 1000,
                               .burst = 1 + random_of(&seed) % 20};
        uint64_t keys = 1 + random_of(&seed) % (MODEL_KEYS + 10);
        uint64_t now = 1000000;

        for (int i = 0; i < 5000; ++i) {
            uint64_t key = random_of(&seed) % keys * 0x9e3779b97f4a7c15ULL;
            bool may = rate_take(t, key, now, &r) == 0;

            assert_int_equal(may, model_take(&m, key, now, &r));
            passed += may;
            rejected += !may;
            now += random_of(&seed) % (r.interval_ns * 2 / keys + 2);
        }
        lru_check(t);
        assert_int_equal(lru_count(t), m.n);
        lru_destroy(t);
    }
    assert_true(passed > 1000);
    assert_true(rejected > 1000);
}

static void the_table_grows_up_to_its_bound_and_no_further(void **state)
{
    struct lru *t = lru_create(5000);
    const struct rate r = {.interval_ns = SECOND, .burst = 1};

    (void)state;
    for (uint64_t i = 0; i < 20000; ++i) {
        assert_int_equal(rate_take(t, i * 0x9e3779b97f4a7c15ULL, SECOND, &r), 0);
        assert_true(lru_count(t) <= 5000);
    }
    assert_int_equal(lru_evicted(t), 15000);
    lru_check(t);
    lru_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_is_a_number_in_a_time),
        cmocka_unit_test(a_burst_passes_at_once_and_the_rest_evenly),
        cmocka_unit_test(a_request_passes_after_the_wait_it_was_told),
        cmocka_unit_test(time_that_goes_back_lets_no_more_through),
        cmocka_unit_test(another_rate_does_not_inherit_a_long_wait),
        cmocka_unit_test(the_key_used_least_recently_goes),
        cmocka_unit_test(the_rate_equals_a_bucket_of_tokens),
        cmocka_unit_test(the_table_grows_up_to_its_bound_and_no_further),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
