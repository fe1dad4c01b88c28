/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>

#include "common/stats/stats.h"

enum { REQUESTS, ACTIVE, SERVICE, ROWS };
static const struct stat_row rows[] = {
    STATS_ROW(requests, COUNTER, REQUESTS, "Requests \\ responded.")
        STATS_ROW(active, GAUGE, REQUESTS, "Requests in flight.")
            STATS_ROW(service_us, HISTOGRAM, US, "Time a|b.")};
static const struct stats_table table = {rows, ROWS};

static void cells_are_summed(void **state)
{
    struct stats *s = stats_create(&table, 3);

    (void)state;
    assert_int_equal(stats_sum(s, REQUESTS), 0);
    stat_add(stats_cell(s, 0), REQUESTS, 2);
    stat_add(stats_cell(s, 2), REQUESTS, 40);
    stat_add(stats_cell(s, 0), ACTIVE, 1);
    stat_add(stats_cell(s, 1), ACTIVE, -1);
    stat_add(stats_cell(s, 1), ACTIVE, 3);
    assert_int_equal(stats_sum(s, REQUESTS), 42);
    assert_int_equal(stats_sum(s, ACTIVE), 3);
    stats_destroy(s);
    stats_destroy(NULL);
}

static void cells_never_share_a_cache_line(void **state)
{
    struct stats *s = stats_create(&table, 2);

    (void)state;
    assert_int_equal((uintptr_t)stats_cell(s, 0) % 64, 0);
    assert_int_equal((uintptr_t)stats_cell(s, 1) % 64, 0);
    stats_destroy(s);
}

static void observations_fall_into_their_buckets_bounds_included(void **state)
{
    struct stats *s = stats_create(&table, 2);
    struct stat_histogram h;

    (void)state;
    stat_observe(stats_cell(s, 0), SERVICE, 0);
    stat_observe(stats_cell(s, 0), SERVICE, 100);
    stat_observe(stats_cell(s, 1), SERVICE, 101);
    stat_observe(stats_cell(s, 1), SERVICE, 100000000);
    stat_observe(stats_cell(s, 1), SERVICE, 100000001);
    stats_histogram(s, SERVICE, &h);
    assert_int_equal(h.count, 5);
    assert_int_equal(h.sum_us, 200000202);
    assert_int_equal(h.buckets[0], 2);
    assert_int_equal(h.buckets[1], 1);
    assert_int_equal(h.buckets[STATS_BUCKETS - 2], 1);
    assert_int_equal(h.buckets[STATS_BUCKETS - 1], 1);
    assert_int_equal(stats_sum(s, SERVICE), 5);
    stats_destroy(s);
}

static size_t bucket_of(uint64_t us)
{
    struct stats *s = stats_create(&table, 1);
    struct stat_histogram h;
    size_t i = 0;

    stat_observe(stats_cell(s, 0), SERVICE, us);
    stats_histogram(s, SERVICE, &h);
    assert_int_equal(h.count, 1);
    while (h.buckets[i] == 0)
        ++i;
    stats_destroy(s);
    return i;
}

static void each_bound_is_within_its_bucket_and_a_microsecond_more_is_not(void **state)
{
    static const uint64_t steps[] = {10, 25, 50};
    uint64_t power = 10;

    (void)state;
    for (size_t i = 0; i < STATS_BUCKETS - 1; ++i) {
        uint64_t bound = steps[i % 3] * power;

        assert_int_equal(bucket_of(bound), i);
        assert_int_equal(bucket_of(bound + 1), i + 1);
        power *= i % 3 == 2 ? 10 : 1;
    }
    for (unsigned bits = 28; bits < 64; ++bits)
        assert_int_equal(bucket_of(UINT64_C(1) << bits), STATS_BUCKETS - 1);
    assert_int_equal(bucket_of(UINT64_MAX), STATS_BUCKETS - 1);
    assert_int_equal(bucket_of(1), 0);
}

static void quantiles_are_linear_within_a_bucket(void **state)
{
    struct stats *s = stats_create(&table, 1);
    struct stat_histogram h;

    (void)state;
    stats_histogram(s, SERVICE, &h);
    assert_int_equal(stats_quantile(&h, 0.5), 0);
    /* ten from 1 to 2.5 ms, ten from 2.5 to 5 ms */
    for (int i = 0; i < 10; ++i) {
        stat_observe(stats_cell(s, 0), SERVICE, 2000);
        stat_observe(stats_cell(s, 0), SERVICE, 3000);
    }
    stats_histogram(s, SERVICE, &h);
    assert_int_equal(stats_quantile(&h, 0), 1000);
    assert_int_equal(stats_quantile(&h, 0.25), 1750);
    assert_int_equal(stats_quantile(&h, 0.5), 2500);
    assert_int_equal(stats_quantile(&h, 0.75), 3750);
    assert_int_equal(stats_quantile(&h, 1), 5000);
    assert_int_equal(stats_quantile(&h, 7), 5000);
    stat_observe(stats_cell(s, 0), SERVICE, UINT64_C(3600000000));
    stats_histogram(s, SERVICE, &h);
    assert_int_equal(stats_quantile(&h, 1), 100000000);
    stats_destroy(s);
}

/* ---- threads ---- */

enum { WRITERS = 4, ROUNDS = 20000 };

static void *write_cell(void *arg)
{
    struct stats_cell *c = arg;

    for (int i = 0; i < ROUNDS; ++i) {
        stat_add(c, REQUESTS, 1);
        stat_add(c, ACTIVE, i % 2 == 0 ? 1 : -1);
        stat_observe(c, SERVICE, (uint64_t)i);
    }
    return NULL;
}

static void a_reader_sees_counters_grow_while_others_write(void **state)
{
    struct stats *s = stats_create(&table, WRITERS);
    pthread_t threads[WRITERS];
    struct stat_histogram h;
    int64_t last = 0;

    (void)state;
    for (size_t i = 0; i < WRITERS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, write_cell, stats_cell(s, i)), 0);
    while (last < WRITERS * ROUNDS) {
        int64_t now = stats_sum(s, REQUESTS);

        assert_true(now >= last);
        last = now;
        stats_histogram(s, SERVICE, &h);
        assert_true(h.count <= WRITERS * ROUNDS);
    }
    for (size_t i = 0; i < WRITERS; ++i)
        pthread_join(threads[i], NULL);
    stats_histogram(s, SERVICE, &h);
    assert_int_equal(h.count, WRITERS * ROUNDS);
    assert_int_equal(h.sum_us, (uint64_t)WRITERS * ROUNDS * (ROUNDS - 1) / 2);
    assert_int_equal(stats_sum(s, ACTIVE), 0);
    stats_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_summed),
        cmocka_unit_test(cells_never_share_a_cache_line),
        cmocka_unit_test(observations_fall_into_their_buckets_bounds_included),
        cmocka_unit_test(each_bound_is_within_its_bucket_and_a_microsecond_more_is_not),
        cmocka_unit_test(quantiles_are_linear_within_a_bucket),
        cmocka_unit_test(a_reader_sees_counters_grow_while_others_write),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
