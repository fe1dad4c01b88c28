/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/inspect/inspect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Every setting of the three programs. */
static const struct {
    const char *name, *type, *unit;
} rows[] = {
#define ROW(name, type, unit, ...) {#name, #type, #unit},
#include "ctl/inspect/report_rows.def"
};

static void report(const char *yaml, struct text *out)
{
    struct config c;
    struct diag d = {0};

    text_clear(out);
    assert_true(config_parse("test.yaml", slice_of(yaml), &c, &d));
    ctl_report_configuration(&c, out);
    config_fini(&c);
    diag_fini(&d);
}

static void expect(const char *yaml, const char *expected)
{
    struct text out = {0};

    report(yaml, &out);
    assert_string_equal(text_cstr(&out), expected);
    text_fini(&out);
}

/* A secret: of type SECRET, or a text, list or map with a unit that permits any contents. */
static bool may_be_secret(const char *type, const char *unit)
{
    static const char *const units[] = {"OPTIONS", "TEXT", "VALUES", "WORDS"};

    for (size_t i = 0; i < ARRAY_LEN(units); ++i) {
        if (strcmp(unit, units[i]) == 0)
            return true;
    }
    return strcmp(type, "SECRET") == 0;
}

static void no_secret_setting_is_reported_as_a_scalar_a_list_or_a_map(void **state)
{
    static const char *const forms[] = {"%s: hush", "a: {b: {%s: 'hush'}}", "%s: [x, hush]",
                                        "%s: {path: hush, threads: hush}", "%s: [{path: hush}]"};
    struct text out = {0};
    unsigned secrets = 0, reported = 0;
    char yaml[200];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        bool secret = may_be_secret(rows[i].type, rows[i].unit);

        for (size_t k = 0; k < ARRAY_LEN(forms) && secret; ++k) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(yaml, sizeof(yaml), forms[k], rows[i].name);
#pragma GCC diagnostic pop
            report(yaml, &out);
            if (strstr(text_cstr(&out), "hush") != NULL)
                fail_msg("%s: %s", yaml, text_cstr(&out));
        }
        secrets += secret;
        if (!secret && strcmp(rows[i].type, "NODE") != 0) {
            snprintf(yaml, sizeof(yaml), "%s: plain", rows[i].name);
            report(yaml, &out);
            reported += strstr(text_cstr(&out), "plain") != NULL;
        }
    }
    text_fini(&out);
    /* token, actions_token, command, environment, set, add, options, and free texts. */
    assert_true(secrets >= 7);
    /* Few share a name with a secret one: server_name. */
    assert_true(reported >= 200);
}

static void names_chosen_by_users_are_reported_and_their_values_are_not(void **state)
{
    (void)state;
    expect("applications:\n  shop:\n    pool_counters:\n      page: {workers: 3, key: '{class}'}\n"
           "    workers: [10.0.0.1:80, {address: '10.0.0.2:80'}]\n    tokne: hush\n",
           "applications:\n  shop:\n    pool_counters:\n      page:\n        workers: 3\n"
           "        key: {class}\n    workers:\n      - 10.0.0.1:80\n      -\n"
           "        address: 10.0.0.2:80\n    tokne: ***\n");
}

static void a_path_with_a_query_and_a_url_with_a_user_are_not_reported(void **state)
{
    (void)state;
    expect("health_check_path: /ok\n", "health_check_path: /ok\n");
    expect("health_check_path: /ok?key=hush\n", "health_check_path: ***\n");
    expect("tree: zookeeper://a:hush@zk1/x\n", "tree: ***\n");
    expect("tree: zookeeper://zk1:2181/x\n", "tree: zookeeper://zk1:2181/x\n");
}

static void a_regular_expression_and_an_absent_value_are_reported(void **state)
{
    (void)state;
    expect("classifier: {regex: {variable: PATH_INFO, pattern: '^/(?<class>[^/]+)'}}\nuser: ~\n",
           "classifier:\n  regex:\n    variable: PATH_INFO\n    pattern: ^/(?<class>[^/]+)\n"
           "user: ~\n");
}

static void settings_other_than_defaults_are_reported_without_secrets(void **state)
{
    struct text out = {0};
    json_t *page = json_loads(
        "{\"program\":{\"settings\":{\"threads\":{\"value\":\"4\",\"origin\":\"yaml\"},"
        "\"user\":{\"value\":\"\",\"origin\":\"default\"},"
        "\"token\":{\"value\":\"hush\",\"origin\":\"yaml\"}}},"
        "\"applications\":{\"shop\":{\"settings\":{\"variance\":{\"value\":\"9\",\"origin\":"
        "\"tree\"},\"description\":{\"value\":\"hush\",\"origin\":\"yaml\"}},"
        "\"rejected\":[{\"name\":\"max_share\",\"why\":\"hush\"}]}}}",
        0, NULL);

    (void)state;
    ctl_report_settings(page, &out);
    assert_string_equal(text_cstr(&out), "program:\n  threads = 4 (yaml)\n  token = *** (yaml)\n"
                                         "shop:\n  variance = 9 (tree)\n"
                                         "  description = *** (yaml)\n  rejected: max_share\n");
    json_decref(page);
    text_fini(&out);
}

static void the_last_hundred_events_are_reported_without_values_of_secret_settings(void **state)
{
    struct text out = {0};
    json_t *events = json_array();
    json_t *page = json_pack("{s:o}", "events", events);

    (void)state;
    for (int i = 0; i < 150; ++i)
        json_array_append_new(events, json_pack("{s:i, s:s, s:s, s:s, s:s}", "time", i, "kind",
                                                "joined", "application", "shop", "subject",
                                                "10.0.0.1:80", "text", "ready"));
    json_array_append_new(events, json_pack("{s:i, s:s, s:s, s:s, s:s}", "time", 150, "kind",
                                            "setting", "application", "shop", "subject",
                                            "description", "text", "hush"));
    ctl_report_events(page, &out);
    assert_null(strstr(text_cstr(&out), "00:00:50 "));
    assert_memory_equal(out.p, "1970-01-01 00:00:51 joined shop 10.0.0.1:80 ready\n", 50);
    assert_non_null(strstr(text_cstr(&out), "00:02:30 setting shop description ***\n"));
    json_decref(page);
    text_fini(&out);
}

static void the_status_is_reported_without_output_of_processes_and_without_requests(void **state)
{
    static const char *const pages[] = {
        "{\"program\":\"resumelb-agent\",\"version\":\"0.2.0\",\"applications\":{\"shop\":{"
        "\"counts\":{},\"slots\":[],\"last_failure\":{\"what\":\"died\",\"lines\":[\"hush\"]},"
        "\"settings\":{\"description\":{\"value\":\"hush\",\"origin\":\"tree\"}}}}}",
        "{\"program\":\"resumelb\",\"version\":\"0.2.0\",\"applications\":{\"shop\":{"
        "\"workers\":[],\"poison\":[{\"class\":\"hush\",\"path\":\"/hush\"}]}}}",
        "{\"version\":\"0.2.0\",\"types\":[],"
        "\"counters\":{},\"most_waited_for\":[{\"key\":\"hush\"}]}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pages); ++i) {
        struct text out = {0};
        json_t *page = json_loads(pages[i], 0, NULL);

        assert_non_null(page);
        assert_int_equal(ctl_report_status(page, &(struct ctl_options){0}, &out), ERR_OK);
        assert_non_null(strstr(text_cstr(&out), " 0.2.0, "));
        assert_null(strstr(text_cstr(&out), "hush"));
        json_decref(page);
        text_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_secret_setting_is_reported_as_a_scalar_a_list_or_a_map),
        cmocka_unit_test(names_chosen_by_users_are_reported_and_their_values_are_not),
        cmocka_unit_test(a_path_with_a_query_and_a_url_with_a_user_are_not_reported),
        cmocka_unit_test(a_regular_expression_and_an_absent_value_are_reported),
        cmocka_unit_test(settings_other_than_defaults_are_reported_without_secrets),
        cmocka_unit_test(the_last_hundred_events_are_reported_without_values_of_secret_settings),
        cmocka_unit_test(the_status_is_reported_without_output_of_processes_and_without_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
