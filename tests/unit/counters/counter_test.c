/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of one key, one by one; the bounds of the table; its reports.
 */
#include "tests/unit/counters/counter_fixture.h"

/* The next allocations are rejected while this is set: the linker puts these before the library's.
 */
static bool no_memory;
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return no_memory ? NULL : __real_malloc(bytes);
}

/* ---- one key ---- */

static void maxqueue_limits_holders_too_and_is_checked_before_room(void **state)
{
    struct counter_request ask = ask_for("k");

    (void)state;
    assert_int_equal(me(0, "k", 3), COUNTER_LOCKED);
    ask.workers = 3;
    ask.maxqueue = 1;
    assert_int_equal(acquire(1, ask), COUNTER_QUEUE_FULL);
    ask.maxqueue = 2;
    assert_int_equal(acquire(1, ask), COUNTER_LOCKED);
    assert_int_equal(stats()->full, 1);
}

static void a_request_that_may_not_wait_is_notified_at_once(void **state)
{
    struct counter_request ask = ask_for("k");

    (void)state;
    ask.timeout_ms = 0;
    assert_int_equal(acquire(0, ask), COUNTER_LOCKED);
    assert_int_equal(acquire(1, ask), COUNTER_TIMEOUT);
    assert_int_equal(stats()->timeouts_at_once, 1);
    assert_int_equal(stats()->waiting, 0);
}

static void a_release_is_done_for_all_any_and_then_locked_for_the_oldest_me(void **state)
{
    (void)state;
    assert_int_equal(any(0, "k", 1), COUNTER_LOCKED);
    assert_int_equal(any(1, "k", 1), COUNTER_WAIT);
    assert_int_equal(me(2, "k", 1), COUNTER_WAIT);
    assert_int_equal(me(3, "k", 1), COUNTER_WAIT);
    assert_int_equal(any(4, "k", 1), COUNTER_WAIT);
    assert_string_equal(release(0), "1 D, 4 D, 2 L");
    assert_string_equal(release(2), "3 L");
    assert_string_equal(release(3), "");
    assert_int_equal(stats()->keys, 0);
}

static void a_leaving_holder_gives_its_place_to_me_before_any_and_none_is_done(void **state)
{
    (void)state;
    me(0, "k", 1);
    any(1, "k", 1);
    any(2, "k", 1);
    me(3, "k", 1);
    assert_string_equal(leave(0), "3 L");
    assert_string_equal(leave(3), "1 L");
    assert_string_equal(leave(1), "2 L");
    assert_string_equal(leave(2), "");
}

static void a_request_with_more_workers_overtakes_those_that_wait(void **state)
{
    (void)state;
    me(0, "k", 1);
    assert_int_equal(me(1, "k", 1), COUNTER_WAIT);
    assert_int_equal(me(2, "k", 2), COUNTER_LOCKED);
}

static void a_waiter_that_is_woken_is_not_judged_by_its_own_workers_again(void **state)
{
    (void)state;
    me(0, "k", 3);
    me(1, "k", 3);
    assert_int_equal(me(2, "k", 1), COUNTER_WAIT);
    assert_string_equal(release(0), "2 L");
    assert_int_equal(stats()->held, 2);
}

static void giving_up_a_wait_by_release_is_done_for_the_other_any_and_for_none_else(void **state)
{
    (void)state;
    me(0, "k", 1);
    me(1, "k", 1);
    any(2, "k", 1);
    any(3, "k", 1);
    assert_string_equal(release(2), "3 D");
    assert_int_equal(stats()->waiting, 1);
    assert_int_equal(stats()->held, 1);
    assert_int_equal(stats()->released, 1);
    assert_int_equal(stats()->processed, 0);
    assert_int_equal(stats()->given_up, 1);
    assert_int_equal(stats()->gained_us, 0);
}

static void a_waiter_that_leaves_or_expires_wakes_none(void **state)
{
    (void)state;
    me(0, "k", 1);
    any(1, "k", 1);
    me(2, "k", 1);
    any(3, "k", 1);
    assert_string_equal(leave(1), "");
    now_us = locks[2].since_us + 50;
    counter_expire(table, &locks[2], now_us);
    counter_check(table);
    assert_int_equal(stats()->timeouts, 1);
    assert_int_equal(stats()->wasted_us, 50);
    assert_int_equal(stats()->given_up, 1);
    assert_string_equal(leave(0), "3 L");
}

static void keys_are_exact_bytes_of_any_length_from_none(void **state)
{
    struct counter_request ask = ask_for("");

    (void)state;
    assert_int_equal(acquire(0, ask), COUNTER_LOCKED);
    ask.key = SLICE_NULL;
    assert_int_equal(acquire(1, ask), COUNTER_WAIT);
    ask.key = (struct slice){"a\0b", 3};
    assert_int_equal(acquire(2, ask), COUNTER_LOCKED);
    ask.key = (struct slice){"a\0c", 3};
    assert_int_equal(acquire(3, ask), COUNTER_LOCKED);
    ask.key = (struct slice){"a", 1};
    assert_int_equal(acquire(4, ask), COUNTER_LOCKED);
    assert_int_equal(counter_key_of(&locks[3]).len, 3);
    assert_memory_equal(counter_key_of(&locks[3]).p, "a\0c", 3);
}

static void the_type_is_what_stands_before_the_first_colon(void **state)
{
    (void)state;
    assert_true(slice_eq(counter_type_of(slice_of("a:b:c")), slice_of("a")));
    assert_true(slice_eq(counter_type_of(slice_of("abc")), slice_of("abc")));
    assert_int_equal(counter_type_of(slice_of(":abc")).len, 0);
    assert_int_equal(counter_type_of(SLICE_NULL).len, 0);
}

/* ---- bounds ---- */

static void a_full_table_rejects_keys_but_serves_those_it_has(void **state)
{
    (void)state;
    me(0, "1", 2);
    me(1, "2", 1);
    me(2, "3", 1);
    me(3, "4", 1);
    assert_int_equal(me(4, "5", 1), COUNTER_LOCKED);
    assert_int_equal(me(5, "6", 1), COUNTER_NO_ROOM);
    assert_int_equal(me(5, "1", 2), COUNTER_LOCKED);
    release(4);
    assert_int_equal(me(4, "6", 1), COUNTER_LOCKED);
    assert_int_equal(stats()->no_room, 1);
    assert_int_equal(stats()->keys, 5);
}

static void a_full_table_rejects_waiters_but_not_those_that_need_not_wait(void **state)
{
    (void)state;
    for (size_t i = 0; i < 7; ++i)
        assert_int_equal(me(i, "k", 1), i == 0 ? COUNTER_LOCKED : COUNTER_WAIT);
    assert_int_equal(me(7, "k", 1), COUNTER_NO_ROOM);
    assert_int_equal(me(7, "k", 2), COUNTER_LOCKED);
    assert_int_equal(stats()->waiting, 6);
}

static void a_name_that_is_too_long_is_rejected(void **state)
{
    static char name[COUNTER_NAME_MAX + 1];
    struct counter_request ask = ask_for("k");

    (void)state;
    ask.type = (struct slice){name, sizeof(name)};
    assert_int_equal(acquire(0, ask), COUNTER_NO_ROOM);
    ask.type = SLICE_NULL;
    ask.key = (struct slice){name, sizeof(name)};
    assert_int_equal(acquire(0, ask), COUNTER_NO_ROOM);
    ask.key.len = COUNTER_NAME_MAX;
    assert_int_equal(acquire(0, ask), COUNTER_LOCKED);
}

static void without_memory_one_is_notified_and_nothing_changes(void **state)
{
    struct counter_limits limits = {1, 0};

    (void)state;
    me(0, "t:a", 1);
    no_memory = true;
    enum counter_result new_key = me(1, "t:b", 1);
    enum counter_result old_key = me(2, "t:a", 1);
    enum err limited = counter_set_limits(table, slice_of("u"), limits, now_us, &woken_list);
    struct counter_table *none = counter_table_create(1, 1);
    no_memory = false;
    assert_int_equal(new_key, COUNTER_NO_ROOM);
    assert_int_equal(old_key, COUNTER_WAIT);
    assert_int_equal(limited, ERR_TOO_LARGE);
    assert_null(none);
    assert_int_equal(stats()->keys, 1);
    assert_int_equal(me(1, "t:b", 1), COUNTER_LOCKED);
}

/* ---- reported values ---- */

static void the_oldest_holder_is_the_one_granted_first(void **state)
{
    (void)state;
    assert_null(counter_oldest(table));
    me(0, "a", 1);
    me(1, "b", 1);
    me(2, "a", 1);
    assert_ptr_equal(counter_oldest(table), &locks[0]);
    release(0); /* its place is 2's now, which is younger than 1 */
    assert_ptr_equal(counter_oldest(table), &locks[1]);
    release(1);
    assert_ptr_equal(counter_oldest(table), &locks[2]);
    assert_int_equal(locks[2].since_us, now_us - 1); /* since it was handed over */
}

static void times_are_summed_by_how_a_wait_and_a_hold_ended(void **state)
{
    struct counter_request ask = ask_for("k");

    (void)state;
    assert_int_equal(counter_acquire(table, &locks[0], &ask, 1000), COUNTER_LOCKED);
    assert_int_equal(counter_acquire(table, &locks[1], &ask, 1010), COUNTER_WAIT);
    ask.kind = COUNTER_ANY;
    assert_int_equal(counter_acquire(table, &locks[2], &ask, 1020), COUNTER_WAIT);
    assert_int_equal(counter_acquire(table, &locks[3], &ask, 1030), COUNTER_WAIT);
    counter_release(table, &locks[0], 1100, &woken_list);
    assert_string_equal(woken(), "2 D, 3 D, 1 L");
    assert_int_equal(stats()->processing_us, 100);
    assert_int_equal(stats()->gained_us, 200);
    assert_int_equal(stats()->waited_good_us, 80 + 70);
    assert_int_equal(stats()->waited_me_us, 90);
    assert_int_equal(counter_acquire(table, &locks[4], &ask, 1200), COUNTER_WAIT);
    counter_leave(table, &locks[1], 1300, &woken_list);
    assert_string_equal(woken(), "4 L");
    assert_int_equal(stats()->waited_any_us, 100);
    assert_int_equal(stats()->processing_us, 300);
    now_us = 1300;
    counter_leave(table, &locks[4], 1200, &woken_list); /* a clock that went back adds nothing */
    assert_int_equal(stats()->processing_us, 300);
    assert_int_equal(stats()->acquired, 3);
    assert_int_equal(stats()->released, 1);
    assert_int_equal(stats()->processed, 3);
    assert_int_equal(stats()->done, 2);
}

static void a_lock_that_is_woken_and_not_yet_notified_may_leave_and_is_in_no_list_then(void **state)
{
    (void)state;
    me(0, "k", 1);
    me(1, "k", 1);
    me(2, "k", 1);
    counter_release(table, &locks[0], ++now_us, &woken_list);
    counter_leave(table, &locks[1], ++now_us, &woken_list);
    assert_string_equal(woken(), "2 L");
    assert_int_equal(me(1, "k", 1), COUNTER_WAIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(maxqueue_limits_holders_too_and_is_checked_before_room),
        RULE(a_request_that_may_not_wait_is_notified_at_once),
        RULE(a_release_is_done_for_all_any_and_then_locked_for_the_oldest_me),
        RULE(a_leaving_holder_gives_its_place_to_me_before_any_and_none_is_done),
        RULE(a_request_with_more_workers_overtakes_those_that_wait),
        RULE(a_waiter_that_is_woken_is_not_judged_by_its_own_workers_again),
        RULE(giving_up_a_wait_by_release_is_done_for_the_other_any_and_for_none_else),
        RULE(a_waiter_that_leaves_or_expires_wakes_none),
        RULE(keys_are_exact_bytes_of_any_length_from_none),
        RULE(the_type_is_what_stands_before_the_first_colon),
        RULE(a_full_table_rejects_keys_but_serves_those_it_has),
        RULE(a_full_table_rejects_waiters_but_not_those_that_need_not_wait),
        RULE(a_name_that_is_too_long_is_rejected),
        RULE(without_memory_one_is_notified_and_nothing_changes),
        RULE(the_oldest_holder_is_the_one_granted_first),
        RULE(times_are_summed_by_how_a_wait_and_a_hold_ended),
        RULE(a_lock_that_is_woken_and_not_yet_notified_may_leave_and_is_in_no_list_then),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
