/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "common/wire/json.h"
#include "worker-agent/live_settings.h"

struct fixture {
    struct loop *loop;
    struct app_settings base;
    enum setting_origin *origins;
    struct live_settings live;
    unsigned told;
};

static struct fixture f;

static void on_changed(struct live_settings *l)
{
    (void)l;
    ++f.told;
}

static int start(void **state)
{
    (void)state;
    f = (struct fixture){.loop = loop_create(0)};
    settings_defaults(&app_table, &f.base);
    f.origins = calloc(app_table.n, sizeof(*f.origins));
    live_settings_init(&f.live, f.loop, &f.base, f.origins);
    f.live.changed = on_changed;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    live_settings_fini(&f.live);
    settings_fini(&app_table, &f.base);
    free(f.origins);
    loop_destroy(f.loop);
    return 0;
}

static void tell(const char *properties)
{
    struct tree_node node = {.exists = properties != NULL, .parses = true};
    char why[JSON_WHY_ROOM];

    if (properties == NULL)
        node.properties = json_object();
    else
        assert_int_equal(json_parse(slice_of(properties), 10000, &node.properties, why), ERR_OK);
    live_settings_node(&f.live, &node, 20);
    json_decref(node.properties);
}

static size_t row(const char *name)
{
    const struct setting_row *r = settings_find(&app_table, slice_of(name));

    assert_non_null(r);
    return (size_t)(r - app_table.rows);
}

static void the_tree_stands_above_the_file_and_gives_way_again(void **state)
{
    (void)state;
    tell("{\"history\": 7, \"queue_timeout\": \"250ms\", \"persistent\": false}");
    assert_int_equal(f.live.now.history, 7);
    assert_int_equal(f.live.now.queue_timeout_ms, 250);
    assert_false(f.live.now.persistent);
    assert_int_equal(f.live.now_origins[row("history")], ORIGIN_TREE);
    assert_int_equal(f.live.changes, 3);
    tell("{}");
    assert_int_equal(f.live.now.history, 9999);
    assert_int_equal(f.live.now_origins[row("history")], ORIGIN_DEFAULT);
    assert_int_equal(f.told, 2);
}

static void a_bad_value_keeps_the_last_good_one(void **state)
{
    (void)state;
    tell("{\"history\": 7}");
    tell("{\"history\": \"many\", \"max_queue\": 3}");
    assert_int_equal(f.live.now.history, 7);
    assert_int_equal(f.live.now_origins[row("history")], ORIGIN_TREE);
    assert_int_equal(f.live.now.max_queue, 3);
    assert_non_null(f.live.refusals[row("history")]);
    tell("{\"history\": [1]}");
    assert_int_equal(f.live.now.history, 7);
    tell("{\"history\": 8}");
    assert_int_equal(f.live.now.history, 8);
    assert_null(f.live.refusals[row("history")]);
}

static void what_is_not_live_is_refused(void **state)
{
    (void)state;
    tell("{\"command\": \"/bin/sh\", \"user\": \"root\", \"attach\": \"10.0.0.1:1\", "
         "\"max_processes\": 9, "
         "\"ready_probe\": \"/x\", \"environment\": \"X\"}");
    assert_int_equal(f.live.now.command.n, 0);
    assert_null(f.live.now.user);
    assert_int_equal(f.live.now.max_processes, 0);
    assert_int_equal(f.live.refused, 6);
    assert_int_equal(f.live.changes, 0);
}

static void a_check_across_fields_refuses_all_that_changed(void **state)
{
    (void)state;
    tell("{\"history\": 7}");
    tell("{\"history\": 8, \"respawn_delay\": \"10s\", \"respawn_delay_max\": \"1s\"}");
    assert_int_equal(f.live.now.history, 7);
    assert_int_equal(f.live.now.respawn_delay_ms, 100);
    assert_int_equal(f.live.now.respawn_delay_max_ms, 30000);
    assert_non_null(f.live.refusals[row("history")]);
}

static void a_node_that_is_gone_is_held_for_a_while(void **state)
{
    (void)state;
    tell("{\"history\": 7}");
    tell(NULL);
    assert_true(f.live.held);
    assert_int_equal(f.live.now.history, 7);
    while (f.live.held)
        loop_turn(f.loop, 100);
    assert_int_equal(f.live.now.history, 9999);
}

static void a_node_that_comes_back_in_time_ends_the_hold(void **state)
{
    (void)state;
    tell("{\"history\": 7}");
    tell(NULL);
    tell("{\"history\": 6}");
    assert_false(f.live.held);
    assert_false(timer_running(&f.live.hold));
    assert_int_equal(f.live.now.history, 6);
}

static void a_new_file_stands_below_the_same_tree(void **state)
{
    struct app_settings base;

    (void)state;
    tell("{\"history\": 7}");
    settings_defaults(&app_table, &base);
    base.history = 50;
    base.max_queue = 5;
    live_settings_base(&f.live, &base, f.origins);
    assert_int_equal(f.live.now.history, 7);
    assert_int_equal(f.live.now.max_queue, 5);
    tell("{}");
    assert_int_equal(f.live.now.history, 50);
    live_settings_base(&f.live, &f.base, f.origins);
    settings_fini(&app_table, &base);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_tree_stands_above_the_file_and_gives_way_again),
        TEST(a_bad_value_keeps_the_last_good_one),
        TEST(what_is_not_live_is_refused),
        TEST(a_check_across_fields_refuses_all_that_changed),
        TEST(a_node_that_is_gone_is_held_for_a_while),
        TEST(a_node_that_comes_back_in_time_ends_the_hold),
        TEST(a_new_file_stands_below_the_same_tree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
