/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of an application over a real directory tree: the test writes nodes, turns the
 * loop, and checks the application's snapshot and the status.
 */
#include "lb/core/limits_live.h"

#include <sys/stat.h>

#include "lb/limits/limit.h"
#include "lb/limits/limit_lease.h"
#include "tests/unit/lb/core/control_fixture.h"

enum { TURNS_MAX = 2000, TURN_MS = 5 };

#define HEAD "listen: [\"127.0.0.1:0\"]\nworkers: [\"127.0.0.1:1\"]\nsettings_hold: 1ms\n"
#define DATABASE "limits: {database: {workers: 4, match: {path: /report}}}\n"

struct fixture {
    struct control *c;
    struct tree *tree;
    struct snapshot *snapshot;
    char *memory_file;
};

/* ---- the tree ---- */

/* In the test's directory. */
static void run(const struct fixture *f, const char *command, const char *name)
{
    char *line = xasprintf("cd %s && %s%s", f->c->directory, command, name);

    assert_int_equal(system(line), 0);
    free(line);
}

/* limits/NAME says JSON. */
static void tree_says(const struct fixture *f, const char *name, const char *json)
{
    char *directory = xasprintf("%s/tree/limits/%s", f->c->directory, name);
    char *parent = xasprintf("%s/tree/limits", f->c->directory);
    char *file = xasprintf("%s/properties.json", directory);
    char *fresh = xasprintf("%s/.fresh", directory);

    (void)mkdir(parent, 0777);
    (void)mkdir(directory, 0777);
    FILE *out = fopen(fresh, "w");
    assert_non_null(out);
    fputs(json, out);
    fclose(out);
    assert_int_equal(rename(fresh, file), 0);
    free(fresh);
    free(file);
    free(parent);
    free(directory);
}

static void tree_drops(const struct fixture *f, const char *name)
{
    run(f, "rm -r tree/limits/", name);
}

static void follow_tree(struct fixture *f)
{
    struct diag d = {0};
    char *url = xasprintf("directory:%s/tree", f->c->directory);

    assert_int_equal(tree_open(f->c->lb.control, slice_of(url), NULL, &f->tree, &d), ERR_OK);
    f->snapshot = snapshot_open(f->c->lb.control, f->memory_file, url);
    limits_live_start(f->c->app->limits, f->tree, f->snapshot, 10);
    free(url);
    diag_fini(&d);
}

static void leave_tree(struct fixture *f)
{
    limits_live_stop(f->c->app->limits);
    if (f->tree != NULL)
        tree_close(f->tree);
    snapshot_close(f->snapshot);
    f->tree = NULL;
    f->snapshot = NULL;
}

/* ---- set-up ---- */

static void start(struct fixture *f, const char *yaml)
{
    f->c = control_create(yaml);
    f->memory_file = xasprintf("%s/memory.json", f->c->directory);
    run(f, "mkdir tree", "");
    f->c->app->limits = limits_live_create(f->c->app, &f->c->config.applications[0].limits, "");
}

static int set_up(void **state)
{
    *state = xcalloc(1, sizeof(struct fixture));
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    if (f->c != NULL) {
        leave_tree(f);
        limits_live_destroy(f->c->app->limits);
        control_destroy(f->c);
    }
    free(f->memory_file);
    free(f);
    return 0;
}

/* ---- looking ---- */

static const struct limit *limit(const struct fixture *f, const char *name)
{
    const struct limit_set *now = f->c->app->settings->limits;

    for (size_t i = 0; now != NULL && i < now->n; ++i) {
        if (strcmp(now->limits[i].name, name) == 0)
            return &now->limits[i];
    }
    return NULL;
}

/* The effective `workers` of NAME, or 0 if there is no such limit. */
static int64_t workers(const struct fixture *f, const char *name)
{
    const struct limit *r = limit(f, name);

    return r != NULL ? r->s.workers : 0;
}

static void wait_workers(const struct fixture *f, const char *name, int64_t wanted)
{
    for (int i = 0; i < TURNS_MAX && workers(f, name) != wanted; ++i)
        loop_turn(f->c->lb.control, TURN_MS);
    assert_int_equal(workers(f, name), wanted);
}

/* The status' entry of NAME, a new reference, or NULL. */
static json_t *described(const struct fixture *f, const char *name)
{
    struct text out = {0};
    struct json_writer w = {.out = &out};
    json_t *found = NULL;

    json_open_object(&w, NULL);
    limits_live_describe(f->c->app->limits, &w);
    json_close_object(&w);
    json_t *all = json_loads(text_cstr(&out), 0, NULL);
    assert_non_null(all);
    const json_t *list = json_object_get(all, "limits");
    for (size_t i = 0; i < json_array_size(list); ++i) {
        json_t *one = json_array_get(list, i);

        if (strcmp(json_string_value(json_object_get(one, "name")), name) == 0)
            found = json_incref(one);
    }
    json_decref(all);
    text_fini(&out);
    return found;
}

/* Whether the status has WORDS in member WHAT of NAME, or of what is rejected of it. */
static bool shows(const struct fixture *f, const char *name, const char *what, const char *words)
{
    json_t *one = described(f, name);
    char *text = one != NULL ? json_dumps(json_object_get(one, what), JSON_ENCODE_ANY) : NULL;
    bool found = text != NULL && strstr(text, words) != NULL;

    free(text);
    json_decref(one);
    return found;
}

static void wait_shown(const struct fixture *f, const char *name, const char *what,
                       const char *words)
{
    for (int i = 0; i < TURNS_MAX && !shows(f, name, what, words); ++i)
        loop_turn(f->c->lb.control, TURN_MS);
    if (!shows(f, name, what, words))
        fail_msg("%s: %s does not come to have %s", name, what, words);
}

static void wait_gone(const struct fixture *f, const char *name)
{
    json_t *one = NULL;

    for (int i = 0; i < TURNS_MAX && (one = described(f, name)) != NULL; ++i) {
        json_decref(one);
        loop_turn(f->c->lb.control, TURN_MS);
    }
    assert_null(one);
}

/* ---- tests ---- */

static void the_rules_of_the_file_are_effective_at_once_in_its_order(void **state)
{
    struct fixture *f = *state;

    start(f, HEAD "limits: {z: {workers: 3}, a: {workers: 2}, m: {}}\n");
    const struct limit_set *now = f->c->app->settings->limits;
    assert_int_equal(now->n, 3);
    assert_string_equal(now->limits[0].name, "z");
    assert_string_equal(now->limits[1].name, "a");
    assert_string_equal(now->limits[2].name, "m");
    assert_int_equal(now->limits[2].s.workers, 1);
    assert_true(shows(f, "z", "origin", "yaml"));
    assert_true(shows(f, "z", "in_force", "true"));
}

static void an_application_without_rules_has_no_set_of_them(void **state)
{
    struct fixture *f = *state;

    start(f, HEAD);
    assert_null(f->c->app->settings->limits);
}

static void the_tree_goes_over_the_file_and_gives_it_back(void **state)
{
    struct fixture *f = *state;

    start(f, HEAD DATABASE);
    follow_tree(f);
    const struct limit_counter *counter = limit(f, "database")->counter;
    tree_says(f, "database", "{\"workers\": 9, \"timeout\": \"2s\"}");
    wait_workers(f, "database", 9);
    assert_int_equal(limit(f, "database")->s.timeout_ms, 2000);
    assert_string_equal(limit(f, "database")->s.path, "/report");
    assert_ptr_equal(limit(f, "database")->counter, counter);
    tree_says(f, "database", "{}");
    wait_workers(f, "database", 4);
    tree_says(f, "database", "{\"workers\": 8}");
    wait_workers(f, "database", 8);
    tree_drops(f, "database");
    wait_workers(f, "database", 4);
    assert_ptr_equal(limit(f, "database")->counter, counter);
}

static void the_tree_has_rules_of_its_own_after_those_of_the_file(void **state)
{
    struct fixture *f = *state;

    start(f, HEAD DATABASE);
    tree_says(f, "b", "{\"workers\": 2, \"key\": \"all\"}");
    tree_says(f, "a", "{\"workers\": 3, \"class\": \"x\"}");
    follow_tree(f);
    wait_workers(f, "b", 2);
    wait_workers(f, "a", 3);
    const struct limit_set *now = f->c->app->settings->limits;
    assert_string_equal(now->limits[0].name, "database");
    assert_string_equal(now->limits[1].name, "a");
    assert_string_equal(now->limits[2].name, "b");
    assert_true(shows(f, "a", "origin", "tree"));
    tree_drops(f, "a");
    wait_gone(f, "a");
    assert_int_equal(workers(f, "a"), 0);
    assert_int_equal(workers(f, "b"), 2);
}

static void a_node_that_does_not_state_how_many_of_what_is_no_limit(void **state)
{
    struct fixture *f = *state;

    start(f, HEAD);
    follow_tree(f);
    tree_says(f, "rest", "{\"timeout\": \"3s\"}");
    wait_shown(f, "rest", "why", "no property workers");
    tree_says(f, "rest", "{\"workers\": 3}");
    wait_shown(f, "rest", "why", "none of key, class, path and method");
    assert_null(f->c->app->settings->limits);
    /* Not a limit for everything, because its path is not understood. */
    tree_says(f, "rest", "{\"workers\": 3, \"key\": \"all\", \"path\": [1]}");
    wait_shown(f, "rest", "why", "is rejected");
    assert_null(f->c->app->settings->limits);
    tree_says(f, "rest", "{\"workers\": 3, \"key\": \"all\", \"path\": \"/a\"}");
    wait_workers(f, "rest", 3);
    /* That one was good: it stays. */
    tree_says(f, "rest", "{\"workers\": 5, \"key\": \"all\", \"path\": [1]}");
    wait_workers(f, "rest", 5);
    assert_string_equal(limit(f, "rest")->s.path, "/a");
}

static void invalid_values_are_rejected_with_their_reason(void **state)
{
    struct fixture *f = *state;

    start(f, HEAD DATABASE);
    follow_tree(f);
    tree_says(f, "database", "{\"workers\": 6, \"timeout\": \"soon\", \"page\": \"/etc/passwd\"}");
    wait_workers(f, "database", 6);
    assert_true(shows(f, "database", "rejected", "configuration file only"));
    assert_true(shows(f, "database", "rejected", "timeout"));
    assert_null(limit(f, "database")->s.page);
    tree_says(f, "database", "{\"workers\": 500}");
    wait_shown(f, "database", "rejected", "is above maxqueue");
    assert_int_equal(workers(f, "database"), 6);
    tree_says(f, "database", "{\"workers\": 7, \"path\": \"regex:(\"}");
    wait_shown(f, "database", "rejected", "at its character 2");
    assert_int_equal(workers(f, "database"), 6);
    assert_true(stats_sum(f->c->app->stats, APP_STAT_settings_rejected) >= 4);
    tree_says(f, "database", "{\"workers\": 7}");
    wait_workers(f, "database", 7);
    assert_int_equal(stats_sum(f->c->app->stats, APP_STAT_rejected_settings), 0);
}

static void names_that_are_none_are_passed_over(void **state)
{
    struct fixture *f = *state;

    start(f, HEAD);
    tree_says(f, "a%b", "{\"workers\": 2, \"key\": \"all\"}");
    tree_says(f, "good", "{\"workers\": 2, \"key\": \"all\"}");
    follow_tree(f);
    wait_workers(f, "good", 2);
    assert_int_equal(f->c->app->settings->limits->n, 1);
    assert_null(described(f, "a%b"));
}

static void the_number_of_rules_is_bounded_and_those_of_the_file_come_first(void **state)
{
    struct fixture *f = *state;
    char name[16];

    start(f, HEAD DATABASE);
    for (int i = 0; i < LIMITS_MAX; ++i) {
        snprintf(name, sizeof(name), "r%03d", i);
        tree_says(f, name, "{\"workers\": 2, \"key\": \"all\"}");
    }
    follow_tree(f);
    snprintf(name, sizeof(name), "r%03d", LIMITS_MAX - 1);
    wait_shown(f, name, "why", "too many");
    assert_int_equal(f->c->app->settings->limits->n, LIMITS_MAX);
    assert_int_equal(workers(f, "database"), 4);
    tree_drops(f, "r000");
    wait_workers(f, name, 2);
}

static void reread_into(struct fixture *f, struct configuration *c, const char *yaml)
{
    struct diag d = {0};
    char *path = xasprintf("%s/again.yaml", f->c->directory);
    FILE *out = fopen(path, "w");

    assert_non_null(out);
    fputs(yaml, out);
    fclose(out);
    assert_true(configuration_read(path, c, &d));
    free(path);
    diag_fini(&d);
}

static void reread(struct fixture *f, const char *yaml)
{
    struct configuration c;

    reread_into(f, &c, yaml);
    limits_live_set_yaml(f->c->app->limits, &c.applications[0].limits);
    configuration_fini(&c);
}

/* The tree turns off what shares responses, and on again where the file has it. */
static void responses_are_shared_only_where_the_file_reports_it(void **state)
{
    static const char shares[] = "limits: {database: {workers: 4, mode: any, on_busy: stale, "
                                 "match: {path: /report}}}\n";
    struct fixture *f = *state;
    char *yaml = xasprintf("%s%s", HEAD, shares);

    start(f, HEAD DATABASE);
    follow_tree(f);
    tree_says(
        f, "database",
        "{\"workers\": 5, \"mode\": \"any\", \"on_full\": \"stale\", \"on_timeout\": \"stale\", "
        "\"on_busy\": \"stale\"}");
    tree_says(f, "own", "{\"workers\": 6, \"path\": \"/a\", \"mode\": \"any\"}");
    wait_workers(f, "database", 5);
    wait_workers(f, "own", 6);
    assert_false(f->c->app->settings->limits->any_stores);
    assert_true(shows(f, "database", "rejected", "shares responses between clients"));
    json_t *d = described(f, "database");
    assert_int_equal(json_array_size(json_object_get(d, "rejected")), 4);
    json_decref(d);
    /* The file says two of them as well. */
    reread(f, yaml);
    loop_turn(f->c->lb.control, 0);
    assert_int_equal(limit(f, "database")->s.mode, LIMIT_ANY);
    assert_int_equal(limit(f, "database")->s.on_busy, LIMIT_BUSY_STALE);
    assert_int_equal(limit(f, "database")->s.on_full, LIMIT_RESPONSE_ERROR);
    assert_int_equal(limit(f, "own")->s.mode, LIMIT_EACH);
    tree_says(f, "database", "{\"workers\": 7, \"mode\": \"each\", \"on_busy\": \"wait\"}");
    wait_workers(f, "database", 7);
    assert_false(f->c->app->settings->limits->any_stores);
    tree_says(f, "database", "{\"workers\": 8, \"mode\": \"any\"}");
    wait_workers(f, "database", 8);
    assert_int_equal(limit(f, "database")->s.mode, LIMIT_ANY);
    /* And no longer: the value of the tree does not stay effective as the last good one. */
    reread(f, HEAD DATABASE);
    loop_turn(f->c->lb.control, 0);
    assert_int_equal(limit(f, "database")->s.mode, LIMIT_EACH);
    assert_int_equal(workers(f, "database"), 8);
    free(yaml);
}

static void a_file_read_again_adds_changes_and_removes_rules(void **state)
{
    struct fixture *f = *state;

    start(f, HEAD "limits: {a: {workers: 2}, b: {workers: 3}}\n");
    struct limit_counter *counter = limit_counter_ref(limit(f, "a")->counter);
    reread(f, HEAD "limits: {c: {workers: 5}, a: {workers: 7}}\n");
    wait_workers(f, "a", 7);
    assert_int_equal(workers(f, "b"), 0);
    assert_string_equal(f->c->app->settings->limits->limits[0].name, "c");
    assert_ptr_equal(limit(f, "a")->counter, counter);
    limit_counter_unref(counter);
    reread(f, HEAD);
    wait_workers(f, "a", 0);
    assert_null(f->c->app->settings->limits);
}

static void properties_of_a_rule_that_is_gone_do_not_make_a_rule_for_everything(void **state)
{
    struct fixture *f = *state;

    start(f, HEAD DATABASE);
    tree_says(f, "database", "{\"workers\": 9}");
    follow_tree(f);
    wait_workers(f, "database", 9);
    reread(f, HEAD);
    wait_workers(f, "database", 0);
    assert_true(shows(f, "database", "why", "none of key"));
}

static void a_rule_that_comes_back_while_it_is_held_counts_on(void **state)
{
    struct fixture *f = *state;

    start(f, HEAD);
    follow_tree(f);
    tree_says(f, "a", "{\"workers\": 3, \"key\": \"all\"}");
    wait_workers(f, "a", 3);
    struct limit_counter *held = limit_counter_ref(limit(f, "a")->counter);
    tree_drops(f, "a");
    wait_gone(f, "a");
    tree_says(f, "a", "{\"workers\": 4, \"key\": \"all\"}");
    wait_workers(f, "a", 4);
    assert_ptr_equal(limit(f, "a")->counter, held);
    limit_counter_unref(held);
}

#define HOLDING "listen: [\"127.0.0.1:0\"]\nworkers: [\"127.0.0.1:1\"]\nsettings_hold: 1h\n"

/* Another run, with the same snapshot. */
static void start_again(struct fixture *f, const char *yaml)
{
    struct configuration again;

    leave_tree(f);
    limits_live_destroy(f->c->app->limits);
    reread_into(f, &again, yaml);
    f->c->app->limits = limits_live_create(f->c->app, &again.applications[0].limits, "");
    configuration_fini(&again);
    assert_int_equal(workers(f, "a"), 0);
}

static void
what_a_wiped_tree_said_last_is_held_and_a_rule_taken_out_of_a_whole_one_is_not(void **state)
{
    struct fixture *f = *state;

    start(f, HOLDING DATABASE);
    follow_tree(f);
    tree_says(f, "a", "{\"workers\": 3, \"key\": \"all\"}");
    tree_says(f, "b", "{\"workers\": 2, \"key\": \"all\"}");
    tree_says(f, "database", "{\"workers\": 6}");
    wait_workers(f, "a", 3);
    wait_workers(f, "b", 2);
    wait_workers(f, "database", 6);
    start_again(f, HOLDING DATABASE);
    run(f, "rm -r tree/limits", "");
    follow_tree(f);
    wait_workers(f, "a", 3);
    wait_workers(f, "b", 2);
    wait_workers(f, "database", 6);
    wait_shown(f, "a", "held", "true");
    /* Back, but for one that was taken out on purpose meanwhile. */
    tree_says(f, "b", "{\"workers\": 2, \"key\": \"all\"}");
    tree_says(f, "database", "{\"workers\": 6}");
    wait_shown(f, "b", "held", "false");
    start_again(f, HOLDING DATABASE);
    follow_tree(f);
    wait_workers(f, "b", 2);
    assert_null(described(f, "a"));
}

static void a_tree_that_does_not_respond_is_remembered(void **state)
{
    struct fixture *f = *state;
    struct diag d = {0};
    const char *url = "zookeeper://127.0.0.1:1/none";

    start(f, HOLDING);
    FILE *out = fopen(f->memory_file, "w");
    assert_non_null(out);
    fprintf(out,
            "{\"v\":1,\"tree\":\"%s\",\"saved\":1700000000,\"parts\":{\"limits\":{\"a\":true,"
            "\"../b\":true,\"c\":7},\"limits/a\":{\"workers\":3,\"key\":\"all\","
            "\"page\":\"/etc/passwd\"},\"limits/../b\":{\"workers\":3,\"key\":\"x\"}}}",
            url);
    fclose(out);
    assert_int_equal(tree_open(f->c->lb.control, slice_of(url), NULL, &f->tree, &d), ERR_OK);
    f->snapshot = snapshot_open(f->c->lb.control, f->memory_file, url);
    limits_live_start(f->c->app->limits, f->tree, f->snapshot, 10);
    wait_workers(f, "a", 3);
    assert_true(shows(f, "a", "remembered", "true"));
    assert_true(shows(f, "a", "rejected", "configuration file only"));
    assert_int_equal(f->c->app->settings->limits->n, 1);
    diag_fini(&d);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_rules_of_the_file_are_effective_at_once_in_its_order),
        TEST(an_application_without_rules_has_no_set_of_them),
        TEST(the_tree_goes_over_the_file_and_gives_it_back),
        TEST(the_tree_has_rules_of_its_own_after_those_of_the_file),
        TEST(a_node_that_does_not_state_how_many_of_what_is_no_limit),
        TEST(invalid_values_are_rejected_with_their_reason),
        TEST(names_that_are_none_are_passed_over),
        TEST(the_number_of_rules_is_bounded_and_those_of_the_file_come_first),
        TEST(responses_are_shared_only_where_the_file_reports_it),
        TEST(a_file_read_again_adds_changes_and_removes_rules),
        TEST(properties_of_a_rule_that_is_gone_do_not_make_a_rule_for_everything),
        TEST(a_rule_that_comes_back_while_it_is_held_counts_on),
        TEST(what_a_wiped_tree_said_last_is_held_and_a_rule_taken_out_of_a_whole_one_is_not),
        TEST(a_tree_that_does_not_respond_is_remembered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
