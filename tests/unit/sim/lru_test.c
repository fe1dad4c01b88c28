/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim/draw.h"
#include "sim/lru.h"

static void the_object_used_longest_ago_goes_first(void **state)
{
    struct lru *c = lru_create(2);

    (void)state;
    assert_false(lru_use(c, 1));
    assert_false(lru_use(c, 2));
    assert_true(lru_use(c, 1));
    assert_false(lru_use(c, 3));
    assert_true(lru_use(c, 1));
    assert_false(lru_use(c, 2));
    assert_int_equal(lru_count(c), 2);
    lru_clear(c);
    assert_int_equal(lru_count(c), 0);
    assert_false(lru_use(c, 1));
    lru_check(c);
    lru_destroy(c);
}

/* The same as a list that is searched from its end. */
static void a_cache_agrees_with_a_plain_list(void **state)
{
    enum { SIZE = 37, KEYS = 90, STEPS = 20000 };
    uint64_t list[SIZE];
    uint64_t keys[SIZE];
    size_t n = 0;
    struct draw d = draw_of(2);
    struct lru *c = lru_create(SIZE);

    (void)state;
    for (size_t i = 0; i < STEPS; ++i) {
        uint64_t key = draw_below(&d, KEYS);
        size_t at = 0;

        while (at < n && list[at] != key)
            ++at;
        bool had = at < n;
        assert_int_equal(lru_use(c, key), had);
        n += !had && n < SIZE;
        if (!had)
            at = n - 1;
        memmove(list + 1, list, at * sizeof(list[0]));
        list[0] = key;
        assert_int_equal(lru_count(c), n);
        lru_keys(c, keys);
        assert_memory_equal(keys, list, n * sizeof(list[0]));
        lru_check(c);
    }
    lru_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_object_used_longest_ago_goes_first),
        cmocka_unit_test(a_cache_agrees_with_a_plain_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
