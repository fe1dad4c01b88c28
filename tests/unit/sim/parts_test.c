/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/lru.h"
#include "sim/parts.h"

static void events_come_by_time_and_then_in_the_order_they_were_added(void **state)
{
    enum { EVENTS = 5000, TIMES = 40 };
    struct event_queue q = {0};
    struct draw d = draw_of(1);
    uint64_t last_ns = 0;
    static char added[EVENTS];
    ptrdiff_t last_added = 0;

    (void)state;
    for (size_t i = 0; i < EVENTS; ++i)
        event_queue_add(&q, draw_below(&d, TIMES), &added[i]);
    for (size_t i = 0; i < EVENTS; ++i) {
        assert_non_null(event_queue_peek(&q));
        struct queued_event e = event_queue_take(&q);
        ptrdiff_t number = (char *)e.what - added;

        assert_true(e.at_ns >= last_ns);
        if (i != 0 && e.at_ns == last_ns)
            assert_true(number > last_added);
        last_ns = e.at_ns;
        last_added = number;
    }
    assert_null(event_queue_peek(&q));
    event_queue_fini(&q);
}

static void an_event_added_meanwhile_takes_its_place(void **state)
{
    struct event_queue q = {0};
    int what[5];

    (void)state;
    event_queue_add(&q, 10, &what[1]);
    event_queue_add(&q, 30, &what[3]);
    assert_ptr_equal(event_queue_take(&q).what, &what[1]);
    event_queue_add(&q, 20, &what[2]);
    event_queue_add(&q, 30, &what[4]);
    assert_ptr_equal(event_queue_take(&q).what, &what[2]);
    assert_ptr_equal(event_queue_take(&q).what, &what[3]);
    assert_ptr_equal(event_queue_take(&q).what, &what[4]);
    event_queue_fini(&q);
}

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
    }
    lru_destroy(c);
}

static void a_text_has_one_number_and_is_counted(void **state)
{
    enum { TEXTS = 1000 };
    struct names t = {0};
    char text[16];
    uint32_t number;

    (void)state;
    for (unsigned i = 0; i < 3 * TEXTS; ++i) {
        snprintf(text, sizeof(text), "%u", i % TEXTS);
        assert_true(names_intern(&t, i % TEXTS != 0 ? slice_of(text) : SLICE_NULL, &number));
        assert_int_equal(number, i % TEXTS);
    }
    assert_int_equal(t.n, TEXTS);
    assert_int_equal(names_get(&t, 0).len, 0);
    assert_true(slice_is(names_get(&t, TEXTS - 1), "999"));
    assert_int_equal(names_uses(&t, 7), 3);
    names_fini(&t);
    assert_int_equal(t.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_by_time_and_then_in_the_order_they_were_added),
        cmocka_unit_test(an_event_added_meanwhile_takes_its_place),
        cmocka_unit_test(the_object_used_longest_ago_goes_first),
        cmocka_unit_test(a_cache_agrees_with_a_plain_list),
        cmocka_unit_test(a_text_has_one_number_and_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
