/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of a type of keys, one by one: slots, and the type's own limits.
 */
#include "tests/unit/counters/counter_fixture.h"

/* ---- slots ---- */

static void over_slots_one_waits_and_the_next_free_slot_goes_to_the_oldest_of_the_type(void **state)
{
    (void)state;
    assert_int_equal(slots(0, "t:a", 1, 1), COUNTER_LOCKED);
    assert_int_equal(slots(1, "t:b", 1, 1), COUNTER_WAIT);
    assert_int_equal(slots(2, "t:c", 1, 1), COUNTER_WAIT);
    assert_int_equal(slots(3, "u:a", 1, 1), COUNTER_LOCKED);
    assert_int_equal(stats()->held, 2);
    assert_string_equal(release(3), "");
    assert_string_equal(release(0), "1 L");
    assert_string_equal(leave(1), "2 L");
}

static void over_slots_one_that_may_not_wait_is_notified_and_makes_no_key(void **state)
{
    struct counter_request ask = ask_for("t:b");

    (void)state;
    slots(0, "t:a", 1, 1);
    ask.slots = 1;
    ask.timeout_ms = 0;
    assert_int_equal(acquire(1, ask), COUNTER_TIMEOUT);
    assert_int_equal(stats()->keys, 1);
}

static void the_own_key_comes_before_older_waiters_of_the_type(void **state)
{
    (void)state;
    slots(0, "t:a", 1, 1);
    slots(1, "t:b", 1, 1);
    slots(2, "t:a", 1, 1);
    assert_string_equal(release(0), "2 L");
    assert_string_equal(release(2), "1 L");
}

static void a_request_with_more_slots_overtakes_those_that_wait(void **state)
{
    (void)state;
    slots(0, "t:a", 1, 1);
    assert_int_equal(slots(1, "t:b", 1, 1), COUNTER_WAIT);
    assert_int_equal(slots(2, "t:c", 1, 2), COUNTER_LOCKED);
    assert_int_equal(slots(3, "t:d", 1, 0), COUNTER_LOCKED);
}

static void an_any_waiter_in_the_line_becomes_a_holder_when_a_slot_frees_elsewhere(void **state)
{
    struct counter_request ask = ask_for("t:b");

    (void)state;
    slots(0, "t:a", 1, 1);
    ask.kind = COUNTER_ANY;
    ask.slots = 1;
    assert_int_equal(acquire(1, ask), COUNTER_WAIT);
    assert_int_equal(slots(2, "t:b", 1, 1), COUNTER_WAIT);
    assert_string_equal(release(0), "1 L");
    assert_int_equal(stats()->waited_any_us, now_us - locks[2].since_us + 1);
}

static void done_takes_any_waiters_out_of_the_line_too(void **state)
{
    struct counter_request ask = ask_for("t:b");

    (void)state;
    slots(0, "t:a", 1, 2);
    slots(1, "t:b", 2, 2);
    ask.kind = COUNTER_ANY;
    ask.workers = 2;
    ask.slots = 2;
    assert_int_equal(acquire(2, ask), COUNTER_WAIT);
    assert_int_equal(locks[2].in_line, 1);
    assert_int_equal(slots(3, "t:c", 1, 2), COUNTER_WAIT);
    assert_string_equal(release(1), "2 D, 3 L");
    assert_string_equal(release(0), "");
}

/* Waits for a slot of its type; then its key fills up; then a release of the key serves it. */
static void a_waiter_whose_key_has_filled_up_leaves_the_line_and_is_served_by_its_key(void **state)
{
    (void)state;
    slots(0, "t:a", 1, 1);
    slots(1, "t:b", 1, 1);
    slots(2, "t:c", 1, 1);
    assert_int_equal(slots(3, "t:b", 1, 9), COUNTER_LOCKED);
    assert_int_equal(locks[1].in_line, 1);
    assert_string_equal(release(0), "2 L");
    assert_int_equal(locks[1].in_line, 0);
    assert_string_equal(release(2), "");
    assert_string_equal(release(3), "1 L");
}

static void a_waiter_with_more_workers_may_be_the_one_of_its_key_with_room(void **state)
{
    (void)state;
    slots(0, "t:a", 1, 2);
    slots(1, "t:b", 1, 2);
    assert_int_equal(slots(2, "t:b", 1, 2), COUNTER_WAIT); /* its key is full */
    assert_int_equal(slots(3, "t:b", 2, 2), COUNTER_WAIT); /* its type is */
    assert_string_equal(release(0), "3 L");
    assert_string_equal(release(3), "2 L");
}

static void the_type_of_a_key_is_that_of_its_first_ask_for_as_long_as_it_lives(void **state)
{
    struct counter_request ask = ask_for("t:a");

    (void)state;
    slots(0, "t:a", 9, 1);
    ask.type = SLICE_LIT("u");
    ask.workers = 9;
    ask.slots = 1;
    assert_int_equal(acquire(1, ask), COUNTER_WAIT); /* it counts in t, which is full */
    ask.type = SLICE_NULL;
    assert_int_equal(acquire(2, ask), COUNTER_WAIT);
    assert_int_equal(slots(3, "u:a", 1, 1), COUNTER_LOCKED);
    leave(1);
    leave(2);
    leave(0);
    ask.type = SLICE_LIT("u");
    assert_int_equal(acquire(4, ask), COUNTER_WAIT); /* born again, in u */
    assert_string_equal(release(3), "4 L");
}

static void slots_mean_nothing_to_a_key_of_no_type(void **state)
{
    (void)state;
    assert_int_equal(slots(0, "a", 2, 1), COUNTER_LOCKED);
    assert_int_equal(slots(1, "a", 2, 1), COUNTER_LOCKED);
    assert_int_equal(slots(2, "b", 2, 1), COUNTER_LOCKED);
}

/* ---- a type's own limits ---- */

static void a_types_own_limits_bind_whatever_a_request_states(void **state)
{
    (void)state;
    assert_string_equal(limit("t", 2, 3), "");
    assert_int_equal(me(0, "t:a", 9), COUNTER_LOCKED);
    assert_int_equal(me(1, "t:a", 9), COUNTER_LOCKED);
    assert_int_equal(me(2, "t:a", 9), COUNTER_WAIT);
    assert_int_equal(slots(3, "t:b", 9, 9), COUNTER_LOCKED);
    assert_int_equal(slots(4, "t:b", 9, 9), COUNTER_WAIT);
    assert_string_equal(release(0), "2 L");
}

static void when_slots_are_lowered_leavers_are_not_replaced_until_there_is_room(void **state)
{
    (void)state;
    me(0, "t:a", 2);
    me(1, "t:a", 2);
    me(2, "t:a", 2);
    me(3, "t:b", 1);
    assert_string_equal(limit("t", 0, 2), "");
    assert_int_equal(stats()->held, 3);
    assert_string_equal(release(0), "");
    assert_string_equal(release(1), "2 L");
}

static void a_key_that_lost_its_last_holder_waits_in_the_line_by_age(void **state)
{
    (void)state;
    me(0, "t:a", 1);
    me(1, "t:a", 1); /* older than the next, but its key is full: not in the line */
    slots(2, "t:b", 1, 0);
    me(3, "t:c", 1);
    limit("t", 0, 2);
    assert_int_equal(me(4, "t:d", 1), COUNTER_WAIT);
    assert_string_equal(release(0), "");
    assert_int_equal(locks[1].in_line, 1);
    assert_string_equal(release(2), "1 L");
    assert_string_equal(release(3), "4 L");
}

static void a_key_that_kept_a_holder_waits_in_the_line_too(void **state)
{
    (void)state;
    me(0, "t:a", 2);
    me(1, "t:a", 2);
    me(2, "t:a", 2);
    me(3, "t:b", 1);
    limit("t", 0, 2);
    assert_string_equal(release(0), "");
    assert_string_equal(release(3), "2 L");
}

static void when_workers_are_lowered_a_freed_slot_goes_to_another_key(void **state)
{
    (void)state;
    slots(0, "t:a", 2, 3);
    slots(1, "t:a", 2, 3);
    slots(2, "t:a", 2, 3);
    slots(3, "t:b", 1, 3);
    assert_int_equal(slots(4, "t:c", 1, 3), COUNTER_WAIT);
    assert_string_equal(limit("t", 1, 0), "");
    assert_string_equal(release(0), "4 L");
    assert_string_equal(release(1), "2 L");
}

static void when_limits_are_raised_the_oldest_that_may_continue_are_served_at_once(void **state)
{
    (void)state;
    limit("t", 1, 1);
    me(0, "t:a", 2);
    me(1, "t:a", 1);
    me(2, "t:a", 2);
    slots(3, "t:b", 1, 1);
    me(4, "t:c", 1);
    assert_string_equal(limit("t", 0, 2), "2 L");
    /* 1 still has no worker of its own to take, and 3 no slot. */
    assert_string_equal(limit("t", 0, 0), "4 L");
    assert_string_equal(release(4), "3 L");
}

static void a_type_exists_while_it_has_a_key_or_limits(void **state)
{
    (void)state;
    limit("t", 0, 1);
    me(0, "t:a", 1);
    assert_string_equal(limit("t", 0, 0), "");
    assert_int_equal(me(1, "t:b", 1), COUNTER_LOCKED);
    limit("t", 0, 2); /* existing holders are counted */
    assert_int_equal(me(2, "t:c", 1), COUNTER_WAIT);
    leave(2);
    leave(1);
    leave(0);
    me(0, "t:a", 1);
    me(1, "t:b", 1);
    assert_int_equal(me(2, "t:c", 1), COUNTER_WAIT);
}

static void limits_are_rejected_for_no_name_for_a_long_one_and_for_too_many(void **state)
{
    static char name[COUNTER_NAME_MAX + 1];
    struct counter_limits one = {1, 0};
    struct counter_limits none = {0, 0};

    (void)state;
    assert_int_equal(counter_set_limits(table, SLICE_NULL, one, 1, &woken_list), ERR_RANGE);
    struct slice longest = {name, sizeof(name)};
    assert_int_equal(counter_set_limits(table, longest, one, 1, &woken_list), ERR_RANGE);
    for (unsigned i = 0; i < COUNTER_LIMITED_MAX; ++i)
        assert_int_equal(
            counter_set_limits(table, (struct slice){(char *)&i, sizeof(i)}, one, 1, &woken_list),
            ERR_OK);
    assert_int_equal(counter_set_limits(table, slice_of("t"), one, 1, &woken_list), ERR_TOO_LARGE);
    unsigned i = 7;
    struct slice seventh = {(char *)&i, sizeof(i)};
    assert_int_equal(counter_set_limits(table, seventh, one, 1, &woken_list), ERR_OK);
    assert_int_equal(counter_set_limits(table, seventh, none, 1, &woken_list), ERR_OK);
    assert_int_equal(counter_set_limits(table, slice_of("t"), one, 1, &woken_list), ERR_OK);
    counter_check(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(over_slots_one_waits_and_the_next_free_slot_goes_to_the_oldest_of_the_type),
        RULE(over_slots_one_that_may_not_wait_is_notified_and_makes_no_key),
        RULE(the_own_key_comes_before_older_waiters_of_the_type),
        RULE(a_request_with_more_slots_overtakes_those_that_wait),
        RULE(an_any_waiter_in_the_line_becomes_a_holder_when_a_slot_frees_elsewhere),
        RULE(done_takes_any_waiters_out_of_the_line_too),
        RULE(a_waiter_whose_key_has_filled_up_leaves_the_line_and_is_served_by_its_key),
        RULE(a_waiter_with_more_workers_may_be_the_one_of_its_key_with_room),
        RULE(the_type_of_a_key_is_that_of_its_first_ask_for_as_long_as_it_lives),
        RULE(slots_mean_nothing_to_a_key_of_no_type),
        RULE(a_types_own_limits_bind_whatever_a_request_states),
        RULE(when_slots_are_lowered_leavers_are_not_replaced_until_there_is_room),
        RULE(a_key_that_lost_its_last_holder_waits_in_the_line_by_age),
        RULE(a_key_that_kept_a_holder_waits_in_the_line_too),
        RULE(when_workers_are_lowered_a_freed_slot_goes_to_another_key),
        RULE(when_limits_are_raised_the_oldest_that_may_continue_are_served_at_once),
        RULE(a_type_exists_while_it_has_a_key_or_limits),
        RULE(limits_are_rejected_for_no_name_for_a_long_one_and_for_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
