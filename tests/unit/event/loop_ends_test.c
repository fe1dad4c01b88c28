/* SPDX-License-Identifier: Apache-2.0
 *
 * What runs at the end of a loop's turn: work of each turn, and deferred work.
 */
#include "common/event/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int set_up(void **state)
{
    *state = loop_create(7);
    return 0;
}

static int tear_down(void **state)
{
    loop_destroy(*state);
    return 0;
}

struct counted_deferred {
    struct loop_deferred d;
    struct loop *loop;
    int times;
    bool again;
};

static void on_deferred(struct loop_deferred *d)
{
    struct counted_deferred *c = container_of(d, struct counted_deferred, d);

    ++c->times;
    if (c->again)
        loop_defer(c->loop, d);
}

static void deferred_work_runs_once_after_the_turn(void **state)
{
    struct loop *l = *state;
    struct counted_deferred c = {.d.run = on_deferred, .loop = l};

    loop_defer(l, &c.d);
    assert_int_equal(c.times, 0);
    loop_turn(l, 10000); /* and the loop does not sleep before */
    assert_int_equal(c.times, 1);
    loop_turn(l, 0);
    assert_int_equal(c.times, 1);
}

static void work_deferred_by_deferred_work_runs_in_the_same_turn_but_not_without_end(void **state)
{
    struct loop *l = *state;
    struct counted_deferred c = {.d.run = on_deferred, .loop = l, .again = true};

    loop_defer(l, &c.d);
    loop_turn(l, 0);
    assert_int_equal(c.times, 2);
    loop_turn(l, 10000); /* nor does the loop sleep over what is left */
    assert_int_equal(c.times, 4);
    c.again = false;
    loop_turn(l, 10000);
    assert_int_equal(c.times, 5);
}

struct countdown {
    struct loop *loop;
    struct loop_deferred d;
    struct loop_message m;
    int left;
};

static void count_down_deferred(struct loop_deferred *d)
{
    struct countdown *c = container_of(d, struct countdown, d);

    loop_post(c->loop, &c->m);
}

static void count_down_message(struct loop_message *m)
{
    struct countdown *c = container_of(m, struct countdown, m);

    if (--c->left != 0)
        loop_defer(c->loop, &c->d);
}

static void settling_runs_all_that_work_and_messages_lead_to(void **state)
{
    struct loop *l = *state;
    struct countdown c = {l, {.run = count_down_deferred}, {.run = count_down_message}, 10};

    loop_defer(l, &c.d);
    loop_settle(l);
    assert_int_equal(c.left, 0);
}

static void work_that_is_deferred_again_before_it_runs_runs_once(void **state)
{
    struct loop *l = *state;
    struct counted_deferred c = {.d.run = on_deferred, .loop = l};

    loop_defer_once(l, &c.d);
    loop_defer_once(l, &c.d);
    loop_turn(l, 0);
    assert_int_equal(c.times, 1);
    loop_defer_once(l, &c.d);
    loop_turn(l, 0);
    assert_int_equal(c.times, 2);
}

struct parting {
    struct loop_deferred d;
    struct loop_deferred *other;
    int times;
};

static void on_parting(struct loop_deferred *d)
{
    struct parting *p = container_of(d, struct parting, d);

    ++p->times;
    if (p->times == 2) {
        list_remove(&p->other->node);
        list_remove(&d->node);
    }
}

static void work_of_each_turn_runs_until_it_is_removed(void **state)
{
    struct loop *l = *state;
    struct parting a = {.d.run = on_parting};
    struct parting b = {.d.run = on_parting, .other = &a.d};

    a.other = &b.d;
    loop_each_turn(l, &a.d);
    loop_each_turn(l, &b.d);
    loop_turn(l, 0);
    assert_int_equal(a.times + b.times, 2);
    loop_turn(l, 0);
    assert_int_equal(a.times, 2);
    assert_int_equal(b.times, 1);
    loop_turn(l, 0);
    assert_int_equal(a.times + b.times, 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(deferred_work_runs_once_after_the_turn),
        TEST(settling_runs_all_that_work_and_messages_lead_to),
        TEST(work_that_is_deferred_again_before_it_runs_runs_once),
        TEST(work_deferred_by_deferred_work_runs_in_the_same_turn_but_not_without_end),
        TEST(work_of_each_turn_runs_until_it_is_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
