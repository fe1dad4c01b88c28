/* SPDX-License-Identifier: Apache-2.0 */
#include "common/core/counter_top.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "common/core/counter.h"

static void add(struct counter_top *top, const char *key, uint64_t waited_us)
{
    counter_top_add(top, slice_of(key), waited_us);
    counter_top_check(top);
}

static void assert_row(const struct counter_top_row *row, const char *key, uint64_t waited_us,
                       uint64_t over_us, uint64_t waits)
{
    assert_true(slice_eq(row->key, slice_of(key)));
    assert_int_equal(row->waited_us, waited_us);
    assert_int_equal(row->over_us, over_us);
    assert_int_equal(row->waits, waits);
}

static void sums_are_exact_while_there_are_entries_for_all(void **state)
{
    struct counter_top *top = counter_top_create(3);
    struct counter_top_row rows[9];

    (void)state;
    add(top, "a", 5);
    add(top, "b", 20);
    add(top, "c", 9);
    add(top, "a", 6);
    assert_int_equal(counter_top_read(top, rows, 9), 3);
    assert_row(&rows[0], "b", 20, 0, 1);
    assert_row(&rows[1], "a", 11, 0, 2);
    assert_row(&rows[2], "c", 9, 0, 1);
    assert_int_equal(counter_top_total_us(top), 40);
    counter_top_destroy(top);
}

static void a_new_key_replaces_the_least_and_inherits_its_sum_as_doubt(void **state)
{
    struct counter_top *top = counter_top_create(2);
    struct counter_top_row rows[2];

    (void)state;
    add(top, "a", 5);
    add(top, "b", 20);
    add(top, "a longer one", 7);
    assert_int_equal(counter_top_read(top, rows, 2), 2);
    assert_row(&rows[0], "b", 20, 0, 1);
    assert_row(&rows[1], "a longer one", 12, 5, 1);
    add(top, "c", 100);
    assert_int_equal(counter_top_read(top, rows, 2), 2);
    assert_row(&rows[0], "c", 112, 12, 1);
    assert_row(&rows[1], "b", 20, 0, 1);
    counter_top_destroy(top);
}

static void who_has_not_waited_takes_no_entry(void **state)
{
    struct counter_top *top = counter_top_create(1);
    struct counter_top_row rows[1];

    (void)state;
    add(top, "a", 1);
    add(top, "b", 0);
    assert_int_equal(counter_top_read(top, rows, 1), 1);
    assert_row(&rows[0], "a", 1, 0, 1);
    counter_top_destroy(top);
}

static void fewer_rows_than_entries_are_those_with_the_most(void **state)
{
    struct counter_top *top = counter_top_create(COUNTER_TOP_ENTRIES);
    struct counter_top_row rows[2];

    (void)state;
    for (unsigned i = 1; i <= 50; ++i) {
        char key[16];

        snprintf(key, sizeof(key), "%u", i);
        add(top, key, i * 7 % 51);
    }
    assert_int_equal(counter_top_read(top, rows, 2), 2);
    assert_row(&rows[0], "29", 50, 0, 1); /* 29 * 7 is 3 * 51 + 50 */
    assert_row(&rows[1], "7", 49, 0, 1);
    assert_int_equal(counter_top_read(top, NULL, 0), 0);
    counter_top_destroy(top);
}

static void a_cleared_summary_starts_anew(void **state)
{
    struct counter_top *top = counter_top_create(1);
    struct counter_top_row rows[1];

    (void)state;
    add(top, "a", 5);
    counter_top_clear(top);
    counter_top_check(top);
    assert_int_equal(counter_top_read(top, rows, 1), 0);
    assert_int_equal(counter_top_total_us(top), 0);
    add(top, "b", 2);
    assert_int_equal(counter_top_read(top, rows, 1), 1);
    assert_row(&rows[0], "b", 2, 0, 1);
    counter_top_destroy(top);
}

static void keys_are_exact_bytes_and_may_be_empty(void **state)
{
    struct counter_top *top = counter_top_create(3);
    struct counter_top_row rows[3];

    (void)state;
    counter_top_add(top, SLICE_NULL, 1);
    counter_top_add(top, (struct slice){"\0", 1}, 2);
    counter_top_add(top, (struct slice){"\0\0", 2}, 3);
    counter_top_add(top, SLICE_NULL, 9);
    counter_top_check(top);
    assert_int_equal(counter_top_read(top, rows, 3), 3);
    assert_int_equal(rows[0].key.len, 0);
    assert_int_equal(rows[0].waited_us, 10);
    assert_int_equal(rows[1].key.len, 2);
    assert_int_equal(rows[2].key.len, 1);
    counter_top_destroy(top);
}

enum { KEYS = 2000, ENTRIES = 64, ADDITIONS = 200000 };

static size_t find_row(const struct counter_top_row *rows, size_t n, unsigned key)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", key);
    for (size_t i = 0; i < n; ++i) {
        if (slice_eq(rows[i].key, slice_of(text)))
            return i;
    }
    return n;
}

static void the_three_promises_hold_against_exact_sums_of_many_keys(void **state)
{
    struct counter_top *top = counter_top_create(ENTRIES);
    static uint64_t exact[KEYS];
    struct counter_top_row rows[ENTRIES];
    uint64_t random = 88172645463325252ULL, total = 0;
    unsigned heavy = 0;

    (void)state;
    for (unsigned i = 0; i < ADDITIONS; ++i) {
        char text[16];

        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        /* Few keys are frequent: the product of two is small more often than not. */
        unsigned key = (unsigned)((random >> 40) % KEYS * ((random >> 20) % KEYS) / KEYS);
        uint64_t waited_us = random % 1000 + (key % 100 == 7 ? 20000 : 0);
        snprintf(text, sizeof(text), "%u", key);
        counter_top_add(top, slice_of(text), waited_us);
        exact[key] += waited_us;
        total += waited_us;
        if (i % 1000 == 0)
            counter_top_check(top);
    }
    assert_int_equal(counter_top_total_us(top), total);
    size_t n = counter_top_read(top, rows, ENTRIES);
    assert_int_equal(n, ENTRIES);
    for (unsigned key = 0; key < KEYS; ++key) {
        size_t at = find_row(rows, n, key);

        if (exact[key] > total / ENTRIES) {
            assert_in_range(at, 0, n - 1);
            ++heavy;
        }
        if (at == n)
            continue;
        assert_true(rows[at].waited_us >= exact[key]);
        assert_true(rows[at].waited_us - rows[at].over_us <= exact[key]);
        assert_true(rows[at].over_us <= total / ENTRIES);
    }
    assert_true(heavy >= 3);
    for (size_t i = 1; i < n; ++i)
        assert_true(rows[i - 1].waited_us >= rows[i].waited_us);
    counter_top_destroy(top);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact_while_there_are_entries_for_all),
        cmocka_unit_test(a_new_key_replaces_the_least_and_inherits_its_sum_as_doubt),
        cmocka_unit_test(who_has_not_waited_takes_no_entry),
        cmocka_unit_test(fewer_rows_than_entries_are_those_with_the_most),
        cmocka_unit_test(a_cleared_summary_starts_anew),
        cmocka_unit_test(keys_are_exact_bytes_and_may_be_empty),
        cmocka_unit_test(the_three_promises_hold_against_exact_sums_of_many_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
