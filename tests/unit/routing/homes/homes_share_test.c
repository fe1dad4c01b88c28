/* SPDX-License-Identifier: Apache-2.0
 *
 * At how many workers one class may live.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/homes/homes_fixture.h"

static void a_class_that_is_asked_for_more_than_one_worker_serves_gets_further_homes(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 16, 1);
    lodgers_serve_others(&f);
    for (int i = 0; i < 120; ++i)
        ask(&f, "hot");
    /* max_share of 16, and three sevenths of that when the demand is above it. */
    assert_int_equal(homes_count(&f, "hot"), 7);
    assert_int_equal(f.choice.homes_max, 7);
    lodgers_end(&f);
}

static void a_flood_is_held_to_fewer_homes_than_a_large_class(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 16, 1);
    lodgers_serve_others(&f);
    /* More work than all workers do in the time of 40 requests. */
    for (int i = 0; i < 1000; ++i)
        ask(&f, "hot");
    assert_int_equal(f.choice.homes_max, 3);
    assert_int_equal(homes_count(&f, "hot"), 3);
    lodgers_end(&f);
}

static void max_share_can_be_the_whole_pool(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 8, 1);
    lodgers_serve_others(&f);
    homes_set(f.homes, &(struct homes_settings){.max_classes = 1000, .max_share = 1});
    for (int i = 0; i < 300; ++i)
        ask(&f, "hot");
    assert_int_equal(homes_count(&f, "hot"), 8);
    homes_set(f.homes, &(struct homes_settings){.max_classes = 1000, .max_share = 0.25});
    /* A flood: three sevenths of that. */
    ask(&f, "hot");
    assert_int_equal(homes_count(&f, "hot"), 1);
    lodgers_end(&f);
}

static void a_class_that_is_nearly_all_there_is_may_live_nearly_everywhere(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 16, 1);
    for (int i = 0; i < 1000; ++i)
        ask(&f, "all");
    assert_int_equal(homes_count(&f, "all"), 16);
    /* Six times what the others use is theirs. */
    for (int i = 0; i < 60; ++i)
        ask(&f, "others");
    ask(&f, "all");
    assert_in_range(homes_count(&f, "all"), 8, 12);
    for (int i = 0; i < 140; ++i)
        ask(&f, "others");
    ask(&f, "all");
    assert_int_equal(homes_count(&f, "all"), 3);
    lodgers_end(&f);
}

static void max_share_may_hold_even_where_there_is_nothing_else(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 16, 1);
    homes_set(f.homes,
              &(struct homes_settings){.max_classes = 1000, .max_share = 0.5, .always = true});
    for (int i = 0; i < 90; ++i)
        ask(&f, "all");
    assert_int_equal(homes_count(&f, "all"), 8);
    lodgers_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_that_is_asked_for_more_than_one_worker_serves_gets_further_homes),
        cmocka_unit_test(a_flood_is_held_to_fewer_homes_than_a_large_class),
        cmocka_unit_test(max_share_can_be_the_whole_pool),
        cmocka_unit_test(a_class_that_is_nearly_all_there_is_may_live_nearly_everywhere),
        cmocka_unit_test(max_share_may_hold_even_where_there_is_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
