/* SPDX-License-Identifier: Apache-2.0 */
#include "common/h2o/priority_tree.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { STREAMS = 200 };

/* A tree with streams 1, 3, 5, ...; what it returns for one is its number in .turns. */
struct fixture {
    struct priority_tree *tree;
    struct priority_entry *entries[STREAMS];
    unsigned turns[STREAMS];
};

static struct fixture f;

static int create(void **state)
{
    (void)state;
    f = (struct fixture){.tree = priority_tree_create()};
    return 0;
}

static void close_stream(uint32_t id)
{
    priority_tree_close(f.tree, f.entries[id]);
    f.entries[id] = NULL;
}

static int destroy(void **state)
{
    (void)state;
    for (uint32_t id = 0; id < STREAMS; ++id) {
        if (f.entries[id] != NULL)
            close_stream(id);
    }
    priority_tree_destroy(f.tree);
    return 0;
}

static void open_stream(uint32_t id, uint32_t dependency, uint16_t weight)
{
    struct priority p = {.dependency = dependency, .weight = weight};

    f.entries[id] = priority_tree_open(f.tree, id, &p, &f.turns[id]);
}

static void open_active(uint32_t id, uint32_t dependency, uint16_t weight)
{
    open_stream(id, dependency, weight);
    priority_tree_activate(f.entries[id]);
}

/* The ID of the stream that sends next, or 0. */
static uint32_t next(void)
{
    unsigned *turns = priority_tree_next(f.tree);

    if (turns == NULL)
        return 0;
    ++*turns;
    return (uint32_t)(turns - f.turns);
}

static void run(unsigned turns)
{
    memset(f.turns, 0, sizeof(f.turns));
    for (unsigned i = 0; i < turns; ++i)
        assert_int_not_equal(next(), 0);
}

static void empty_tree_has_no_turn(void **state)
{
    (void)state;
    assert_int_equal(next(), 0);
    open_stream(1, 0, 16);
    assert_int_equal(next(), 0);
}

static void active_stream_has_turns_until_it_is_deactivated(void **state)
{
    (void)state;
    open_active(1, 0, 16);
    assert_int_equal(next(), 1);
    assert_int_equal(next(), 1);
    priority_tree_deactivate(f.entries[1]);
    assert_int_equal(next(), 0);
    /* Also before the scheduler has noticed. */
    priority_tree_activate(f.entries[1]);
    priority_tree_deactivate(f.entries[1]);
    priority_tree_activate(f.entries[1]);
    assert_int_equal(next(), 1);
}

static void siblings_share_by_weight(void **state)
{
    (void)state;
    open_active(1, 0, 16);
    open_active(3, 0, 16);
    open_active(5, 0, 32);
    run(400);
    assert_in_range(f.turns[1], 95, 105);
    assert_in_range(f.turns[3], 95, 105);
    assert_in_range(f.turns[5], 195, 205);
}

static void dependents_wait_for_the_stream_they_depend_on(void **state)
{
    (void)state;
    open_active(1, 0, 16);
    open_active(3, 1, 256);
    open_active(5, 3, 256);
    for (int i = 0; i < 10; ++i)
        assert_int_equal(next(), 1);
    priority_tree_deactivate(f.entries[1]); /* as if its window were used up */
    assert_int_equal(next(), 3);
    priority_tree_deactivate(f.entries[3]);
    assert_int_equal(next(), 5);
    priority_tree_activate(f.entries[1]);
    assert_int_equal(next(), 1);
}

static void dependents_of_a_closed_stream_share_its_weight(void **state)
{
    (void)state;
    open_active(1, 0, 100);
    open_active(3, 1, 10);
    open_active(5, 1, 30);
    open_active(7, 0, 100);
    close_stream(1);
    run(800);
    assert_in_range(f.turns[3], 90, 110);
    assert_in_range(f.turns[5], 290, 310);
    assert_in_range(f.turns[7], 390, 410);
}

static void exclusive_stream_adopts_its_siblings(void **state)
{
    struct priority p = {.weight = 16, .exclusive = true};

    (void)state;
    open_active(1, 0, 16);
    open_active(3, 0, 16);
    f.entries[5] = priority_tree_open(f.tree, 5, &p, &f.turns[5]);
    priority_tree_activate(f.entries[5]);
    run(10);
    assert_int_equal(f.turns[5], 10);
    close_stream(5);
    run(10);
    assert_int_equal(f.turns[1], 5);
    assert_int_equal(f.turns[3], 5);
}

static void stream_can_be_moved_below_its_own_dependent(void **state)
{
    struct priority p = {.dependency = 5, .weight = 16};

    (void)state;
    open_active(1, 0, 16);
    open_active(3, 1, 16);
    open_active(5, 3, 16);
    /* RFC 7540 5.3.3: first stream 5 moves to where stream 1 was. */
    assert_true(priority_tree_change(f.tree, 1, &p, false));
    assert_int_equal(next(), 5);
    priority_tree_deactivate(f.entries[5]);
    assert_int_equal(next(), 1);
    priority_tree_deactivate(f.entries[1]);
    assert_int_equal(next(), 3);
}

static void unknown_streams_are_not_depended_on(void **state)
{
    struct priority p = {.dependency = 99, .weight = 256, .exclusive = true};

    (void)state;
    assert_false(priority_tree_change(f.tree, 7, &p, false));
    open_active(1, 0, 16);
    /* Hence of default weight, and not exclusive. */
    f.entries[3] = priority_tree_open(f.tree, 3, &p, &f.turns[3]);
    priority_tree_activate(f.entries[3]);
    run(100);
    assert_int_equal(f.turns[1], 50);
    close_stream(1);
    p.dependency = 1;
    assert_true(priority_tree_change(f.tree, 3, &p, false));
    assert_int_equal(next(), 3);
}

static void idle_streams_can_be_reserved_and_opened(void **state)
{
    struct priority leaders = {.weight = 200};
    struct priority followers = {.weight = 50};

    (void)state;
    assert_true(priority_tree_change(f.tree, 3, &leaders, true));
    assert_true(priority_tree_change(f.tree, 5, &followers, true));
    assert_int_equal(next(), 0);
    open_active(7, 3, 1);
    open_active(9, 5, 256);
    run(500);
    assert_in_range(f.turns[7], 390, 410);
    assert_in_range(f.turns[9], 90, 110);
    f.entries[3] = priority_tree_open(f.tree, 3, NULL, &f.turns[3]);
    priority_tree_activate(f.entries[3]);
    run(500);
    assert_in_range(f.turns[3], 390, 410);
    assert_in_range(f.turns[9], 90, 110);
}

static void idle_streams_are_bounded(void **state)
{
    struct priority p = PRIORITY_DEFAULT;

    (void)state;
    for (uint32_t i = 0; i < PRIORITY_IDLE_MAX; ++i)
        assert_true(priority_tree_change(f.tree, 2 * i + 101, &p, true));
    assert_false(priority_tree_change(f.tree, 99, &p, true));
    open_active(101, 0, 16); /* one of these is not idle any more */
    assert_true(priority_tree_change(f.tree, 99, &p, true));
    assert_false(priority_tree_change(f.tree, 97, &p, true));
}

static void tree_without_entries_can_be_trimmed(void **state)
{
    (void)state;
    priority_tree_trim(f.tree);
    open_active(1, 0, 16);
    assert_int_equal(next(), 1);
    priority_tree_trim(f.tree);
    assert_int_equal(next(), 1);
    close_stream(1);
    priority_tree_trim(f.tree);
    assert_int_equal(next(), 0);
    open_active(1, 0, 16);
    assert_int_equal(next(), 1);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, create, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(empty_tree_has_no_turn),
        TEST(active_stream_has_turns_until_it_is_deactivated),
        TEST(siblings_share_by_weight),
        TEST(dependents_wait_for_the_stream_they_depend_on),
        TEST(dependents_of_a_closed_stream_share_its_weight),
        TEST(exclusive_stream_adopts_its_siblings),
        TEST(stream_can_be_moved_below_its_own_dependent),
        TEST(unknown_streams_are_not_depended_on),
        TEST(idle_streams_can_be_reserved_and_opened),
        TEST(idle_streams_are_bounded),
        TEST(tree_without_entries_can_be_trimmed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
