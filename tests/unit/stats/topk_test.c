/* SPDX-License-Identifier: Apache-2.0 */

/* With what is private to it, for topk_check(). */
#include "common/stats/topk.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "common/counters/counter.h"

/* Asserts all invariants. */
static void topk_check(const struct topk *top)
{
    ASSERT(top->n <= top->max);
    for (size_t i = 0; i < top->n; ++i) {
        const struct topk_entry *e = top->heap[i];

        ASSERT(e->at == i);
        ASSERT(topk_find(top, (struct slice){e->key, e->node.len}) == e);
        ASSERT(i == 0 || top->heap[(i - 1) / 2]->sum <= e->sum);
        ASSERT(e->over <= e->sum);
        ASSERT(e->count >= 1);
    }
}

static void add(struct topk *top, const char *key, uint64_t sum)
{
    topk_add(top, slice_of(key), sum);
    topk_check(top);
}

static void assert_row(const struct topk_row *row, const char *key, uint64_t sum, uint64_t over,
                       uint64_t count)
{
    assert_true(slice_eq(row->key, slice_of(key)));
    assert_int_equal(row->sum, sum);
    assert_int_equal(row->over, over);
    assert_int_equal(row->count, count);
}

static void sums_are_exact_while_there_are_entries_for_all(void **state)
{
    struct topk *top = topk_create(3, COUNTER_NAME_MAX);
    struct topk_row rows[9];

    (void)state;
    add(top, "a", 5);
    add(top, "b", 20);
    add(top, "c", 9);
    add(top, "a", 6);
    assert_int_equal(topk_read(top, rows, 9), 3);
    assert_row(&rows[0], "b", 20, 0, 1);
    assert_row(&rows[1], "a", 11, 0, 2);
    assert_row(&rows[2], "c", 9, 0, 1);
    assert_int_equal(topk_total(top), 40);
    topk_destroy(top);
}

static void a_new_key_replaces_the_least_and_inherits_its_sum_as_doubt(void **state)
{
    struct topk *top = topk_create(2, COUNTER_NAME_MAX);
    struct topk_row rows[2];

    (void)state;
    add(top, "a", 5);
    add(top, "b", 20);
    add(top, "a longer one", 7);
    assert_int_equal(topk_read(top, rows, 2), 2);
    assert_row(&rows[0], "b", 20, 0, 1);
    assert_row(&rows[1], "a longer one", 12, 5, 1);
    add(top, "c", 100);
    assert_int_equal(topk_read(top, rows, 2), 2);
    assert_row(&rows[0], "c", 112, 12, 1);
    assert_row(&rows[1], "b", 20, 0, 1);
    topk_destroy(top);
}

static void a_name_without_weight_takes_no_entry(void **state)
{
    struct topk *top = topk_create(1, COUNTER_NAME_MAX);
    struct topk_row rows[1];

    (void)state;
    add(top, "a", 1);
    add(top, "b", 0);
    assert_int_equal(topk_read(top, rows, 1), 1);
    assert_row(&rows[0], "a", 1, 0, 1);
    topk_destroy(top);
}

static void fewer_rows_than_entries_are_those_with_the_most(void **state)
{
    struct topk *top = topk_create(TOPK_ENTRIES, COUNTER_NAME_MAX);
    struct topk_row rows[2];

    (void)state;
    for (unsigned i = 1; i <= 50; ++i) {
        char key[16];

        snprintf(key, sizeof(key), "%u", i);
        add(top, key, i * 7 % 51);
    }
    assert_int_equal(topk_read(top, rows, 2), 2);
    assert_row(&rows[0], "29", 50, 0, 1); /* 29 * 7 is 3 * 51 + 50 */
    assert_row(&rows[1], "7", 49, 0, 1);
    assert_int_equal(topk_read(top, NULL, 0), 0);
    topk_destroy(top);
}

static void keys_are_exact_bytes_and_may_be_empty(void **state)
{
    struct topk *top = topk_create(3, COUNTER_NAME_MAX);
    struct topk_row rows[3];

    (void)state;
    topk_add(top, SLICE_NULL, 1);
    topk_add(top, (struct slice){"\0", 1}, 2);
    topk_add(top, (struct slice){"\0\0", 2}, 3);
    topk_add(top, SLICE_NULL, 9);
    topk_check(top);
    assert_int_equal(topk_read(top, rows, 3), 3);
    assert_int_equal(rows[0].key.len, 0);
    assert_int_equal(rows[0].sum, 10);
    assert_int_equal(rows[1].key.len, 2);
    assert_int_equal(rows[2].key.len, 1);
    topk_destroy(top);
}

static void halved_sums_keep_their_order(void **state)
{
    struct topk *top = topk_create(2, COUNTER_NAME_MAX);
    struct topk_row rows[2];

    (void)state;
    add(top, "a", 5);
    add(top, "b", 20);
    add(top, "c", 8);
    topk_halve(top);
    topk_check(top);
    assert_int_equal(topk_total(top), 16);
    assert_int_equal(topk_read(top, rows, 2), 2);
    assert_row(&rows[0], "b", 10, 0, 1);
    assert_row(&rows[1], "c", 6, 2, 1);
    topk_destroy(top);
}

static void a_smaller_summary_keeps_the_largest_sums(void **state)
{
    struct topk *top = topk_create(3, COUNTER_NAME_MAX);
    struct topk_row rows[9];

    (void)state;
    add(top, "a", 5);
    add(top, "b", 20);
    add(top, "c", 9);
    topk_resize(top, 2);
    topk_check(top);
    assert_int_equal(topk_read(top, rows, 9), 2);
    assert_int_equal(topk_total(top), 29);
    topk_resize(top, 9);
    add(top, "d", 1);
    assert_int_equal(topk_read(top, rows, 9), 3);
    assert_row(&rows[0], "b", 20, 0, 1);
    assert_row(&rows[1], "c", 9, 0, 1);
    assert_row(&rows[2], "d", 1, 0, 1);
    topk_destroy(top);
}

static void keys_are_cut(void **state)
{
    struct topk *top = topk_create(3, 2);
    struct topk_row row;

    (void)state;
    add(top, "abc", 1);
    add(top, "abd", 2);
    assert_int_equal(topk_read(top, &row, 1), 1);
    assert_row(&row, "ab", 3, 0, 2);
    topk_destroy(top);
}

enum { KEYS = 2000, ENTRIES = 64, ADDITIONS = 200000 };

static size_t find_row(const struct topk_row *rows, size_t n, unsigned key)
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
    struct topk *top = topk_create(ENTRIES, COUNTER_NAME_MAX);
    static uint64_t exact[KEYS];
    struct topk_row rows[ENTRIES];
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
        uint64_t sum = random % 1000 + (key % 100 == 7 ? 20000 : 0);
        snprintf(text, sizeof(text), "%u", key);
        topk_add(top, slice_of(text), sum);
        exact[key] += sum;
        total += sum;
        if (i % 1000 == 0)
            topk_check(top);
    }
    assert_int_equal(topk_total(top), total);
    size_t n = topk_read(top, rows, ENTRIES);
    assert_int_equal(n, ENTRIES);
    for (unsigned key = 0; key < KEYS; ++key) {
        size_t at = find_row(rows, n, key);

        if (exact[key] > total / ENTRIES) {
            assert_in_range(at, 0, n - 1);
            ++heavy;
        }
        if (at == n)
            continue;
        assert_true(rows[at].sum >= exact[key]);
        assert_true(rows[at].sum - rows[at].over <= exact[key]);
        assert_true(rows[at].over <= total / ENTRIES);
    }
    assert_true(heavy >= 3);
    for (size_t i = 1; i < n; ++i)
        assert_true(rows[i - 1].sum >= rows[i].sum);
    topk_destroy(top);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact_while_there_are_entries_for_all),
        cmocka_unit_test(a_new_key_replaces_the_least_and_inherits_its_sum_as_doubt),
        cmocka_unit_test(a_name_without_weight_takes_no_entry),
        cmocka_unit_test(fewer_rows_than_entries_are_those_with_the_most),
        cmocka_unit_test(keys_are_exact_bytes_and_may_be_empty),
        cmocka_unit_test(halved_sums_keep_their_order),
        cmocka_unit_test(a_smaller_summary_keeps_the_largest_sums),
        cmocka_unit_test(keys_are_cut),
        cmocka_unit_test(the_three_promises_hold_against_exact_sums_of_many_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
