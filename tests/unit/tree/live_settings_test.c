/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/log.h"
#include "common/tree/live_settings.h"
#include "common/tree/tree_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/log_capture.h"

/* A program's settings in small: two scopes over one struct. */
#define ROWS_A(X)                                                                                  \
    X(low, INT, N, "1", "0", "100", LIVE, "")                                                      \
    X(high, INT, N, "10", "0", "100", LIVE, "")                                                    \
    X(pause, TIME, MS, "5s", "1ms", "1h", LIVE, "")                                                \
    X(mode, CHOICE, MODE, "a", "a|b", NULL, LIVE, "")                                              \
    X(command, TEXT, FILE, NULL, NULL, NULL, LOCAL, "")                                            \
    X(threads, INT, N, "1", "1", "64", BOOT, "")                                                   \
    X(via, BOOL, SWITCH, "true", NULL, NULL, LOCAL, "")                                            \
    X(key, SECRET, SECRET, NULL, NULL, NULL, LIVE, "")
#define ROWS_B(X) X(ratio, REAL, RATIO, "4", "0.1", "1000", LIVE, "")

struct small {
    ROWS_A(SETTINGS_FIELD)
    ROWS_B(SETTINGS_FIELD)
};
#define ROW(...) SETTINGS_ROW(struct small, __VA_ARGS__)
static const struct setting_row rows_a[] = {ROWS_A(ROW)};
static const struct setting_row rows_b[] = {ROWS_B(ROW)};
static const struct settings_table table_a = {.scope = "A",
                                              .where = "top",
                                              .rows = rows_a,
                                              .n = ARRAY_LEN(rows_a),
                                              .bytes = sizeof(struct small)};
static const struct settings_table table_b = {.scope = "B",
                                              .where = "b",
                                              .rows = rows_b,
                                              .n = ARRAY_LEN(rows_b),
                                              .bytes = sizeof(struct small)};
static const struct settings_table *const tables[] = {&table_a, &table_b};
enum { NROWS = ARRAY_LEN(rows_a) + ARRAY_LEN(rows_b) };

struct fixture {
    struct loop *loop;
    struct small yaml;
    enum setting_origin origins[NROWS];
    struct live_settings *live;
    const struct small *now;
    uint64_t hold_ms;
    int64_t most; /* of high, by a rule */
    struct tree tree;
    bool away;
    unsigned values_changed, reported;
};

static struct fixture f;

static bool check(void *context, const void *s, char why[SETTINGS_WHY_ROOM])
{
    const struct small *v = s;

    (void)context;
    if (v->low <= v->high && v->high <= f.most)
        return true;
    snprintf(why, SETTINGS_WHY_ROOM, "low is above high, or high above the rule's");
    return false;
}

static uint64_t hold_ms(void *context, const void *now)
{
    (void)context;
    (void)now;
    return f.hold_ms;
}

/* A tree that may be away, and never has read a node. */
static void status(const struct tree *t, struct tree_status *out)
{
    (void)t;
    out->connected = !f.away;
}

static void ignore(struct tree_node *n)
{
    (void)n;
}

static const struct tree_backend backend = {
    .status = status, .observe = ignore, .refresh = ignore, .forget = ignore};

static bool frozen(const struct setting_row *row)
{
    return row->when == SETTING_LOCAL && strcmp(row->name, "via") != 0;
}

static void changed(void *context, bool values)
{
    (void)context;
    f.values_changed += values;
    ++f.reported;
}

static int start(void **state)
{
    (void)state;
    f = (struct fixture){.loop = loop_create(0), .hold_ms = 20, .most = 100};
    settings_defaults(&table_a, &f.yaml);
    f.yaml.ratio = 6;
    f.origins[NROWS - 1] = ORIGIN_YAML;
    const struct live_settings_options o = {.loop = f.loop,
                                            .tables = tables,
                                            .ntables = ARRAY_LEN(tables),
                                            .yaml = &f.yaml,
                                            .origins = f.origins,
                                            .path = "/shop",
                                            .check = check,
                                            .hold_ms = hold_ms,
                                            .frozen = frozen,
                                            .changed = changed};
    f.live = live_settings_create(&o);
    f.tree = (struct tree){.backend = &backend, .loop = f.loop, .top = ""};
    list_init(&f.tree.broken);
    f.now = live_settings_now(f.live);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    live_settings_destroy(f.live);
    settings_fini(&table_a, &f.yaml);
    loop_destroy(f.loop);
    return 0;
}

static void tell(const char *properties)
{
    struct tree_view node = {.exists = properties != NULL, .parses = true};

    node.properties = properties != NULL ? json_loads(properties, 0, NULL) : json_object();
    assert_non_null(node.properties);
    live_settings_node(f.live, &node);
    json_decref(node.properties);
}

static json_t *described(void)
{
    struct text out = {0};
    struct json_writer w = {.out = &out};

    json_open_object(&w, NULL);
    live_settings_describe(f.live, &w);
    json_close_object(&w);
    json_t *v = json_loads(text_cstr(&out), 0, NULL);
    assert_non_null(v);
    text_fini(&out);
    return v;
}

static size_t rejected_now(void)
{
    struct live_settings_counts c;

    live_settings_counts(f.live, &c);
    return c.rejected;
}

static uint64_t rejections(void)
{
    struct live_settings_counts c;

    live_settings_counts(f.live, &c);
    return c.rejections;
}

static bool is_held(void)
{
    struct live_settings_counts c;

    live_settings_counts(f.live, &c);
    return c.held;
}

/* That NAME is rejected, with these words and this value. */
static void assert_rejected(const char *name, const char *value, const char *words)
{
    json_t *d = described();
    const json_t *list = json_object_get(d, "rejected");
    const json_t *found = NULL;

    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *r = json_array_get(list, i);

        if (strcmp(json_string_value(json_object_get(r, "name")), name) == 0)
            found = r;
    }
    assert_non_null(found);
    assert_string_equal(json_string_value(json_object_get(found, "path")), "/shop");
    assert_string_equal(json_string_value(json_object_get(found, "value")), value);
    assert_non_null(strstr(json_string_value(json_object_get(found, "why")), words));
    json_decref(d);
}

static const struct setting_row *row_called(const char *name)
{
    const struct setting_row *row = settings_find(&table_a, slice_of(name));

    if (row == NULL)
        row = settings_find(&table_b, slice_of(name));
    assert_non_null(row);
    return row;
}

static enum setting_origin origin(const char *name)
{
    return live_settings_origin(f.live, row_called(name));
}

static void null_is_absent(void **state)
{
    (void)state;
    tell("{\"high\": 50, \"ratio\": 8, \"command\": null, \"key\": null}");
    assert_int_equal(f.now->high, 50);
    assert_int_equal(rejections(), 0);
    tell("{\"high\": null, \"ratio\": null, \"threads\": null}");
    assert_int_equal(f.now->high, 10);
    assert_int_equal(origin("high"), ORIGIN_DEFAULT);
    assert_true(f.now->ratio == 6);
    assert_int_equal(origin("ratio"), ORIGIN_YAML);
    assert_int_equal(rejections(), 0);
    assert_int_equal(rejected_now(), 0);
}

static void whole_numbers_lose_their_fraction(void **state)
{
    static const struct {
        const char *json;
        int64_t number;
    } cases[] = {{"7.9", 7}, {"7.0", 7}, {"1.99e1", 19}, {"100.999", 100}, {"-0.5", 0}, {"3", 3}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        char *json = xasprintf("{\"low\": 0, \"high\": %s, \"ratio\": 7.9}", cases[i].json);

        tell(json);
        assert_int_equal(f.now->high, cases[i].number);
        assert_int_equal(origin("high"), ORIGIN_TREE);
        assert_true(f.now->ratio == 7.9);
        assert_int_equal(rejections(), 0);
        free(json);
    }
}

static void each_kind_of_bad_property_is_rejected_alone_with_its_value_and_reason(void **state)
{
    static const struct {
        const char *name, *json, *value, *words;
    } cases[] = {
        {"high", "\"lots\"", "lots", "whole number"},
        {"high", "101", "101", "100"},
        {"high", "-1", "-1", "0"},
        {"high", "[1]", "[1]", "not a single value"},
        {"high", "{\"a\":1}", "{\"a\":1}", "not a single value"},
        {"high", "1e300", "1e+300", "whole number"},
        {"high", "100.9e1", "1009", "100"},
        {"high", "\"7.9\"", "7.9", "whole number"},
        {"high", "\"1\\n2\"", "1\n2", ""},
        {"pause", "\"1 year\"", "1 year", ""},
        {"mode", "\"c\"", "c", "a"},
        {"ratio", "0", "0", "0.1"},
        {"command", "\"/bin/sh\"", "/bin/sh", "configuration file only"},
        {"via", "false", "false", "configuration file only"},
        {"threads", "8", "8", "restart"},
        {"key", "[\"hush\"]", "***", "invalid value"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        char *json =
            xasprintf("{\"low\": %zu, \"%s\": %s}", i % 5 + 2, cases[i].name, cases[i].json);

        tell("{}");
        tell(json);
        assert_int_equal(f.now->low, i % 5 + 2);
        assert_rejected(cases[i].name, cases[i].value, cases[i].words);
        assert_non_null(
            strstr(live_settings_rejection(f.live, row_called(cases[i].name)), cases[i].words));
        assert_null(live_settings_rejection(f.live, row_called("low")));
        assert_int_equal(rejected_now(), 1);
        assert_true(origin(cases[i].name) != ORIGIN_TREE);
        free(json);
    }
    assert_int_equal(f.now->high, 10);
    assert_null(f.now->command);
    assert_null(f.now->key);
    assert_int_equal(rejections(), ARRAY_LEN(cases));
}

static void a_long_value_is_cut(void **state)
{
    char *json = xasprintf("{\"mode\": \"%0500d\"}", 7);

    (void)state;
    tell(json);
    free(json);
    json_t *d = described();
    const json_t *r = json_array_get(json_object_get(d, "rejected"), 0);
    assert_true(json_string_length(json_object_get(r, "value")) < 200);
    json_decref(d);
}

static void the_tree_stands_above_yaml_and_absent_is_yaml_again(void **state)
{
    (void)state;
    tell("{\"ratio\": 2.5, \"high\": \"7\", \"key\": \"hush\"}");
    assert_true(f.now->ratio == 2.5);
    assert_int_equal(f.now->high, 7);
    assert_string_equal(f.now->key, "hush");
    assert_int_equal(origin("ratio"), ORIGIN_TREE);
    tell("{}");
    assert_true(f.now->ratio == 6);
    assert_int_equal(f.now->high, 10);
    assert_null(f.now->key);
    assert_int_equal(origin("ratio"), ORIGIN_YAML);
    assert_int_equal(origin("high"), ORIGIN_DEFAULT);
    assert_int_equal(f.values_changed, 2);
}

static void a_rejected_value_keeps_the_last_good_one_with_its_origin(void **state)
{
    (void)state;
    tell("{\"ratio\": 2}");
    tell("{\"ratio\": \"x\", \"high\": \"x\"}");
    assert_true(f.now->ratio == 2);
    assert_int_equal(origin("ratio"), ORIGIN_TREE);
    assert_int_equal(origin("high"), ORIGIN_DEFAULT);
    /* What never was good in the tree follows YAML. */
    f.yaml.ratio = 8;
    f.yaml.high = 20;
    live_settings_set_yaml(f.live, &f.yaml, f.origins);
    assert_true(f.now->ratio == 2);
    assert_int_equal(f.now->high, 20);
}

static void a_rejection_is_reported_once_while_it_lasts_and_again_for_another_value(void **state)
{
    (void)state;
    tell("{\"mode\": \"c\"}");
    tell("{\"mode\": \"c\", \"low\": 2}");
    assert_int_equal(rejections(), 1);
    tell("{\"mode\": \"d\", \"low\": 2}");
    assert_int_equal(rejections(), 2);
    tell("{\"mode\": \"b\"}");
    assert_int_equal(rejected_now(), 0);
    assert_int_equal(f.now->mode, 1);
}

static void each_unknown_name_of_a_change_is_reported(void **state)
{
    struct log_capture c;

    (void)state;
    log_flush_all();
    log_capture_start(&c);
    /* What is the tree's own, and what is known, is not among them. */
    tell("{\"type\": true, \"pool ->\": true, \"high\": 7, \"odd \\\"one\\\"\": 1, \"odd2\": 1, "
         "\"odd3\": 1}");
    const char *text = log_capture_end(&c);
    assert_non_null(strstr(text, "setting-unknown path=/shop setting=\"odd \\\"one\\\"\"\n"));
    assert_non_null(strstr(text, "setting-unknown path=/shop setting=\"odd2\"\n"));
    assert_non_null(strstr(text, "setting-unknown path=/shop setting=\"odd3\"\n"));
    assert_null(strstr(text, "setting=\"type\""));
    assert_null(strstr(text, "setting=\"high\""));
}

static void each_rejection_of_a_change_is_reported(void **state)
{
    struct log_capture c;

    (void)state;
    log_flush_all();
    log_capture_start(&c);
    tell("{\"ratio\": \"x\", \"mode\": \"not\\none\"}");
    const char *text = log_capture_end(&c);
    assert_non_null(strstr(text, "setting-rejected path=/shop setting=ratio value=\"x\" reason="));
    assert_non_null(
        strstr(text, "setting-rejected path=/shop setting=mode value=\"not\\none\" reason="));
}

static void a_broken_rule_across_fields_rejects_all_that_changed(void **state)
{
    (void)state;
    tell("{\"ratio\": 3, \"low\": 2}");
    tell("{\"ratio\": 5, \"low\": 50}");
    assert_true(f.now->ratio == 3);
    assert_int_equal(f.now->low, 2);
    assert_rejected("ratio", "5", "low is above high");
    assert_rejected("low", "50", "low is above high");
    /* One that is taken away breaks the rule as well. */
    tell("{\"low\": 50, \"high\": 60}");
    assert_int_equal(f.now->low, 50);
    tell("{\"low\": 50}");
    assert_int_equal(f.now->high, 60);
    assert_int_equal(origin("high"), ORIGIN_TREE);
    assert_rejected("high", "(absent)", "low is above high");
}

static void when_the_rules_change_what_broke_them_goes_back_to_yaml(void **state)
{
    (void)state;
    tell("{\"high\": 90, \"ratio\": 3}");
    f.most = 50;
    live_settings_set_yaml(f.live, &f.yaml, f.origins);
    assert_int_equal(f.now->high, 10);
    assert_rejected("high", "90", "above the rule's");
}

static void a_frozen_setting_keeps_the_value_of_the_start(void **state)
{
    (void)state;
    f.yaml.command = xstrdup("/bin/true");
    f.yaml.via = false;
    live_settings_set_yaml(f.live, &f.yaml, f.origins);
    assert_null(f.now->command);
    assert_false(f.now->via);
}

static void a_node_that_is_gone_broken_or_raw_text_is_held_then_given_up(void **state)
{
    json_t *raw = json_pack("{s:s}", "string_value", "hello");
    json_t *nothing = json_object();
    const struct tree_view nodes[] = {
        {.properties = nothing},
        {.exists = true, .problem = (char[]){"not JSON"}, .properties = nothing},
        {.exists = true, .parses = true, .properties = raw},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(nodes); ++i) {
        tell("{\"high\": 7}");
        live_settings_node(f.live, &nodes[i]);
        assert_true(is_held());
        assert_int_equal(f.now->high, 7);
        live_settings_node(f.live, &nodes[i]);
        tell("{\"high\": 7}");
        assert_false(is_held());
        live_settings_node(f.live, &nodes[i]);
        while (is_held())
            loop_turn(f.loop, 100);
        assert_int_equal(f.now->high, 10);
        assert_int_equal(origin("high"), ORIGIN_DEFAULT);
    }
    json_decref(raw);
    json_decref(nothing);
}

static void a_node_that_comes_back_empty_is_still_held(void **state)
{
    (void)state;
    tell("{\"high\": 7}");
    tell(NULL);
    tell("{}");
    assert_true(is_held());
    assert_int_equal(f.now->high, 7);
    while (is_held())
        loop_turn(f.loop, 100);
    assert_int_equal(f.now->high, 10);
    /* Emptied where it stands, it is empty at once. */
    tell("{\"high\": 7}");
    tell("{}");
    assert_false(is_held());
    assert_int_equal(f.now->high, 10);
}

static void values_are_held_while_the_tree_is_unreachable(void **state)
{
    (void)state;
    f.away = true;
    f.hold_ms = 1;
    live_settings_follow(f.live, &f.tree, NULL, "", 3600 * 1000);
    tell("{\"high\": 7}");
    tell(NULL);
    for (int i = 0; i < 20; ++i)
        loop_turn(f.loop, 5);
    assert_true(is_held());
    assert_int_equal(f.now->high, 7);
    f.away = false;
    while (is_held())
        loop_turn(f.loop, 100);
    assert_int_equal(f.now->high, 10);
}

static void a_node_that_never_reported_anything_holds_nothing(void **state)
{
    (void)state;
    tell(NULL);
    tell("{}");
    tell(NULL);
    assert_false(is_held());
    assert_int_equal(f.reported, 0);
}

static void restored_values_are_checked_and_replaced_by_the_tree(void **state)
{
    json_t *old = json_loads("{\"high\": 7, \"low\": \"x\", \"command\": \"/bin/sh\"}", 0, NULL);
    struct live_settings_counts c;

    (void)state;
    live_settings_restore(f.live, old, 60);
    live_settings_counts(f.live, &c);
    assert_true(c.remembered);
    assert_int_equal(c.rejected, 2);
    assert_int_equal(f.now->high, 7);
    assert_null(f.now->command);
    json_t *d = described();
    assert_true(json_number_value(json_object_get(d, "remembered_age_s")) >= 60);
    json_decref(d);
    /* A tree that was wiped meanwhile: held, as if it had been said in this life. */
    tell(NULL);
    assert_true(is_held());
    assert_int_equal(f.now->high, 7);
    tell("{\"high\": 8}");
    live_settings_counts(f.live, &c);
    assert_false(c.remembered);
    assert_int_equal(f.now->high, 8);
    live_settings_restore(f.live, old, 60);
    assert_int_equal(f.now->high, 8);
    json_decref(old);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(null_is_absent),
        TEST(whole_numbers_lose_their_fraction),
        TEST(each_kind_of_bad_property_is_rejected_alone_with_its_value_and_reason),
        TEST(a_long_value_is_cut),
        TEST(the_tree_stands_above_yaml_and_absent_is_yaml_again),
        TEST(a_rejected_value_keeps_the_last_good_one_with_its_origin),
        TEST(a_rejection_is_reported_once_while_it_lasts_and_again_for_another_value),
        TEST(each_unknown_name_of_a_change_is_reported),
        TEST(each_rejection_of_a_change_is_reported),
        TEST(a_broken_rule_across_fields_rejects_all_that_changed),
        TEST(when_the_rules_change_what_broke_them_goes_back_to_yaml),
        TEST(a_frozen_setting_keeps_the_value_of_the_start),
        TEST(a_node_that_is_gone_broken_or_raw_text_is_held_then_given_up),
        TEST(a_node_that_comes_back_empty_is_still_held),
        TEST(values_are_held_while_the_tree_is_unreachable),
        TEST(a_node_that_never_reported_anything_holds_nothing),
        TEST(restored_values_are_checked_and_replaced_by_the_tree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
