/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/lb/core/control_fixture.h"

static unsigned changes;

static void on_changed(struct application *a)
{
    (void)a;
    ++changes;
}

static int set_up(void **state)
{
    struct control *c = control_create("listen: [\"127.0.0.1:0\"]\n"
                                       "workers: [\"127.0.0.1:1\"]\n"
                                       "settings_hold: 1ms\n"
                                       "pool: {variance: 6}\n");

    application_live_start(c->app, &c->config.applications[0], "/", on_changed);
    changes = 0;
    *state = c;
    return 0;
}

static int tear_down(void **state)
{
    struct control *c = *state;

    live_settings_destroy(c->app->live);
    control_destroy(c);
    return 0;
}

/* The application's node says JSON now. */
static void tree_says(struct control *c, const char *json)
{
    json_t *properties = json_loads(json, 0, NULL);
    struct tree_view node = {.exists = true, .parses = true, .properties = properties};

    assert_non_null(properties);
    live_settings_node(c->app->live, &node);
    json_decref(properties);
}

static json_t *described(const struct control *c)
{
    struct text out = {0};
    struct json_writer w = {.out = &out};

    json_open_object(&w, NULL);
    live_settings_describe(c->app->live, &w);
    json_close_object(&w);
    json_t *v = json_loads(text_cstr(&out), 0, NULL);
    assert_non_null(v);
    text_fini(&out);
    return v;
}

static void assert_setting(const struct control *c, const char *name, const char *value,
                           const char *origin)
{
    json_t *d = described(c);
    const json_t *row = json_object_get(json_object_get(d, "settings"), name);

    assert_string_equal(json_string_value(json_object_get(row, "value")), value);
    assert_string_equal(json_string_value(json_object_get(row, "origin")), origin);
    json_decref(d);
}

static void assert_rejected(const struct control *c, const char *name, const char *words)
{
    json_t *d = described(c);
    const json_t *list = json_object_get(d, "rejected");
    const char *why = NULL;

    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *r = json_array_get(list, i);

        if (strcmp(json_string_value(json_object_get(r, "name")), name) == 0)
            why = json_string_value(json_object_get(r, "why"));
    }
    assert_non_null(why);
    assert_non_null(strstr(why, words));
    json_decref(d);
}

static void the_tree_goes_over_yaml_and_yaml_over_the_default(void **state)
{
    struct control *c = *state;

    assert_setting(c, "variance", "6", "yaml");
    assert_setting(c, "retries", "2", "default");
    tree_says(c, "{\"variance\": 2.5, \"retries\": 7}");
    assert_setting(c, "variance", "2.5", "tree");
    assert_setting(c, "retries", "7", "tree");
    assert_int_equal(c->app->settings->s.retries, 7);
    tree_says(c, "{}");
    assert_setting(c, "variance", "6", "yaml");
    assert_setting(c, "retries", "2", "default");
    assert_int_equal(changes, 2);
}

static void the_pool_gets_its_settings_at_once(void **state)
{
    struct control *c = *state;
    struct pool_view v;

    tree_says(c, "{\"policy\": \"classless\", \"worker_wait_max\": 5}");
    pool_scan(c->app->pool, false, &v);
    assert_int_equal(v.settings.policy, POOL_POLICY_CLASSLESS);
    assert_int_equal(v.settings.max_waiting, 5);
    pool_view_fini(&v);
}

static void a_bad_property_is_rejected_alone_and_keeps_its_last_good_value(void **state)
{
    struct control *c = *state;

    tree_says(c, "{\"variance\": 3, \"retries\": 1}");
    tree_says(c, "{\"variance\": \"lots\", \"retries\": 4, \"connect_timeout\": [1]}");
    assert_setting(c, "variance", "3", "tree");
    assert_setting(c, "retries", "4", "tree");
    assert_setting(c, "connect_timeout", "3.5s", "default");
    assert_rejected(c, "variance", "");
    assert_rejected(c, "connect_timeout", "not a single value");
    assert_int_equal(stats_sum(c->app->stats, APP_STAT_settings_rejected), 2);
}

static void settings_that_name_files_or_addresses_are_not_taken_from_the_tree(void **state)
{
    struct control *c = *state;

    tree_says(c, "{\"error_page\": \"/etc/passwd\", \"workers\": \"10.0.0.1:80\", \"via\": false}");
    assert_rejected(c, "error_page", "configuration file only");
    assert_rejected(c, "workers", "configuration file only");
    assert_rejected(c, "via", "configuration file only");
    assert_int_equal(c->app->settings->s.error_page.n, 0);
    assert_true(c->app->settings->s.via);
}

static void a_broken_rule_across_fields_rejects_all_that_changed(void **state)
{
    struct control *c = *state;

    tree_says(c, "{\"retries\": 3}");
    tree_says(c, "{\"retries\": 5, \"response_buffer\": \"1GiB\"}");
    assert_setting(c, "retries", "3", "tree");
    assert_setting(c, "response_buffer", "256KiB", "default");
    assert_rejected(c, "retries", "response_buffers_total");
    assert_rejected(c, "response_buffer", "response_buffers_total");
}

static void a_rejection_is_counted_once_while_it_lasts(void **state)
{
    struct control *c = *state;

    tree_says(c, "{\"variance\": \"lots\"}");
    tree_says(c, "{\"variance\": \"lots\", \"retries\": 1}");
    assert_int_equal(stats_sum(c->app->stats, APP_STAT_settings_rejected), 1);
    assert_int_equal(stats_sum(c->app->stats, APP_STAT_rejected_settings), 1);
    tree_says(c, "{\"variance\": 5}");
    assert_int_equal(stats_sum(c->app->stats, APP_STAT_rejected_settings), 0);
    json_t *d = described(c);
    assert_int_equal(json_array_size(json_object_get(d, "rejected")), 0);
    json_decref(d);
}

static void a_node_that_broke_or_vanished_holds_for_a_while(void **state)
{
    struct control *c = *state;
    json_t *nothing = json_object();
    struct tree_view broken = {
        .exists = true, .problem = (char[]){"not JSON"}, .properties = nothing};
    struct tree_view gone = {.properties = nothing};

    tree_says(c, "{\"retries\": 7}");
    live_settings_node(c->app->live, &broken);
    assert_setting(c, "retries", "7", "tree");
    tree_says(c, "{\"retries\": 7}");
    live_settings_node(c->app->live, &gone);
    assert_setting(c, "retries", "7", "tree");
    /* settings_hold is 1 ms here. */
    while (c->app->settings->s.retries == 7)
        loop_turn(c->lb.control, 1000);
    assert_setting(c, "retries", "2", "default");
    json_decref(nothing);
}

static void yaml_read_again_changes_what_the_tree_does_not_state(void **state)
{
    struct control *c = *state;
    struct app_settings *yaml = &c->config.applications[0].s;

    tree_says(c, "{\"retries\": 7}");
    yaml->retries = 9;
    yaml->variance = 8;
    yaml->via = false;
    free(yaml->tree);
    yaml->tree = xstrdup("directory:/elsewhere");
    live_settings_set_yaml(c->app->live, yaml, c->config.applications[0].origins);
    assert_setting(c, "retries", "7", "tree");
    assert_setting(c, "variance", "8", "yaml");
    assert_false(c->app->settings->s.via);
    assert_null(c->app->settings->s.tree);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_tree_goes_over_yaml_and_yaml_over_the_default),
        TEST(the_pool_gets_its_settings_at_once),
        TEST(a_bad_property_is_rejected_alone_and_keeps_its_last_good_value),
        TEST(settings_that_name_files_or_addresses_are_not_taken_from_the_tree),
        TEST(a_broken_rule_across_fields_rejects_all_that_changed),
        TEST(a_rejection_is_counted_once_while_it_lasts),
        TEST(a_node_that_broke_or_vanished_holds_for_a_while),
        TEST(yaml_read_again_changes_what_the_tree_does_not_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
