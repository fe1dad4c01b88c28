/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tree/tree_fixture.h"

#include "common/base/limits.h"

#include <sys/resource.h>

static void a_node_that_is_made_later_is_noticed(void **state)
{
    struct world *w = *state;
    struct record r;

    watch(w, &r, "/a/b");
    assert_false(r.exists);
    assert_true(is_json(r.properties, "{}"));
    make(at(w, ""));
    turn_for(w, 10);
    assert_false(r.exists);
    make(at(w, "/a"));
    turn_for(w, 10);
    put_node(w, "/a/b", "{\"x\":1}");
    wait_for(w, is_json(r.properties, "{\"x\":1}"));
    assert_true(r.exists);
    assert_true(r.parses);
    assert_string_equal(r.problem, "");
    unwatch(&r);
}

static void a_root_below_missing_directories_is_noticed(void **state)
{
    struct world *w = *state;
    char *root = xasprintf("%s/run/deep/tree", w->directory);
    struct tree *other = open_tree(w->loop, root);
    struct record r = {0};

    struct tree_status status;
    tree_status(other, &status);
    assert_false(status.connected);
    r.watch = tree_watch(other, "/", record_changed, &r);
    wait_for(w, r.reports == 1);
    char *file = xasprintf("%s/properties.json", root);
    make(root);
    write_file(file, "{\"x\":2}");
    wait_for(w, is_json(r.properties, "{\"x\":2}"));
    tree_status(other, &status);
    assert_true(status.connected);
    unwatch(&r);
    tree_close(other);
    free(file);
    free(root);
}

static void properties_are_seen_however_they_are_written(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/a", "{\"x\":1}");
    watch(w, &r, "/a");
    assert_true(is_json(r.properties, "{\"x\":1}"));
    write_file(at(w, "/a/properties.json"), "{\"x\":2}");
    wait_for(w, is_json(r.properties, "{\"x\":2}"));
    put_node(w, "/a", "{\"x\":3}");
    wait_for(w, is_json(r.properties, "{\"x\":3}"));
    /* As an editor does that keeps the old file. */
    assert_int_equal(rename(at(w, "/a/properties.json"), at(w, "/a/backup~")), 0);
    turn_for(w, 5);
    write_file(at(w, "/a/properties.json"), "{\"x\":4}");
    wait_for(w, is_json(r.properties, "{\"x\":4}"));
    assert_int_equal(r.reports, 4);
    unwatch(&r);
}

static void a_file_in_the_middle_of_being_written_is_not_reported(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/a", "{\"x\":1}");
    watch(w, &r, "/a");
    int fd = open(at(w, "/a/properties.json"), O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(write(fd, "{\"x\":", 5), 5);
    turn_for(w, 30);
    assert_int_equal(write(fd, "2}", 2), 2);
    close(fd);
    wait_for(w, is_json(r.properties, "{\"x\":2}"));
    assert_int_equal(r.reports, 2);
    unwatch(&r);
}

static void a_properties_file_that_vanished_is_like_a_broken_one(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/a", "{\"x\":1}");
    watch(w, &r, "/a");
    unlink(at(w, "/a/properties.json"));
    wait_for(w, !r.parses);
    assert_true(r.exists);
    assert_string_equal(r.problem, "properties.json: does not exist");
    assert_true(is_json(r.properties, "{\"x\":1}"));
    assert_int_equal(r.reports, 2);
    put_node(w, "/a", "{}");
    wait_for(w, r.parses);
    assert_true(is_json(r.properties, "{}"));
    /* What never said anything says nothing still. */
    unlink(at(w, "/a/properties.json"));
    turn_for(w, 200);
    assert_true(r.parses);
    assert_int_equal(r.reports, 3);
    unwatch(&r);
}

static void a_node_removed_keeps_its_last_properties_until_it_is_back(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/a/b", "{\"x\":1}");
    watch(w, &r, "/a/b");
    remove_all(at(w, "/a"));
    wait_for(w, !r.exists);
    assert_false(r.parses);
    assert_true(is_json(r.properties, "{\"x\":1}"));
    /* For a moment it exists without properties: that must not look like their absence. */
    make(at(w, "/a/b"));
    turn_for(w, 30);
    assert_true(is_json(r.properties, "{\"x\":1}"));
    put_node(w, "/a/b", "{\"x\":2}");
    wait_for(w, is_json(r.properties, "{\"x\":2}"));
    assert_true(r.exists);
    /* All the way up, root and its parent included. */
    remove_all(w->root);
    wait_for(w, !r.exists);
    put_node(w, "/a/b", "{\"x\":3}");
    wait_for(w, is_json(r.properties, "{\"x\":3}"));
    unwatch(&r);
}

static void a_node_renamed_away_and_another_in_its_place_are_distinguished(void **state)
{
    struct world *w = *state;
    struct record a;
    struct record b;

    put_node(w, "/a/n", "{\"x\":1}");
    watch(w, &a, "/a/n");
    watch(w, &b, "/b/n");
    assert_int_equal(rename(at(w, "/a"), at(w, "/b")), 0);
    wait_for(w, !a.exists && b.exists);
    assert_true(is_json(b.properties, "{\"x\":1}"));
    write_file(at(w, "/b/n/properties.json"), "{\"x\":2}");
    wait_for(w, is_json(b.properties, "{\"x\":2}"));
    assert_true(is_json(a.properties, "{\"x\":1}"));
    put_node(w, "/a/n", "{\"x\":3}");
    wait_for(w, is_json(a.properties, "{\"x\":3}"));
    unwatch(&a);
    unwatch(&b);
}

static void an_invalid_object_is_a_problem_and_keeps_the_last_good_one(void **state)
{
    static const char *const bad[] = {"{\"x\":",           "",           "[1]", "12",
                                      "{\"x\":1,\"x\":2}", "{\"x\":1} y"};
    struct world *w = *state;
    struct record r;

    put_node(w, "/a", "{\"x\":1}");
    watch(w, &r, "/a");
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        put_node(w, "/a", bad[i]);
        wait_for(w, !r.parses);
        assert_true(r.exists);
        assert_non_null(strstr(r.problem, "properties.json: "));
        assert_true(is_json(r.properties, "{\"x\":1}"));
        put_node(w, "/a", "{\"x\":1}");
        wait_for(w, r.parses);
        assert_string_equal(r.problem, "");
    }
    unwatch(&r);
}

static void too_large_properties_are_a_problem(void **state)
{
    struct world *w = *state;
    struct record r;
    char *large = xmalloc(NODE_BYTES_MAX + 64);

    put_node(w, "/a", "{\"x\":1}");
    watch(w, &r, "/a");
    memset(large, ' ', NODE_BYTES_MAX + 1);
    memcpy(large + NODE_BYTES_MAX - 6, "{\"x\":2}", 8);
    put_node(w, "/a", large);
    wait_for(w, !r.parses);
    assert_non_null(strstr(r.problem, "over 1048576 bytes"));
    assert_true(is_json(r.properties, "{\"x\":1}"));
    /* One byte less is not too large. */
    put_node(w, "/a", large + 1);
    wait_for(w, is_json(r.properties, "{\"x\":2}"));
    free(large);
    unwatch(&r);
}

static void properties_that_are_no_plain_file_are_a_problem(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/a", "{\"x\":1}");
    put_node(w, "/secret", "{\"x\":9}");
    watch(w, &r, "/a");
    unlink(at(w, "/a/properties.json"));
    assert_int_equal(mkfifo(at(w, "/a/properties.json"), 0660), 0);
    wait_for(w, !r.parses && strstr(r.problem, "not a regular file") != NULL);
    unlink(at(w, "/a/properties.json"));
    put_node(w, "/a", "{\"x\":2}");
    wait_for(w, r.parses && is_json(r.properties, "{\"x\":2}"));
    unlink(at(w, "/a/properties.json"));
    assert_int_equal(symlink("../secret/properties.json", at(w, "/a/properties.json")), 0);
    wait_for(w, !r.parses && strstr(r.problem, "not a regular file") != NULL);
    assert_true(is_json(r.properties, "{\"x\":2}"));
    /* Nor is a link to a directory a node. */
    assert_int_equal(symlink("secret", at(w, "/link")), 0);
    struct record linked;
    watch(w, &linked, "/link");
    assert_false(linked.exists);
    unwatch(&linked);
    unwatch(&r);
}

static void a_burst_is_reported_at_once_and_then_seldom(void **state)
{
    enum { CHANGES = 3000 };
    struct world *w = *state;
    struct record r;
    char text[32];

    put_node(w, "/a", "{\"x\":-1}");
    watch(w, &r, "/a");
    turn_for(w, 25);
    uint64_t start_us = clock_mono_us();
    put_node(w, "/a", "{\"x\":0}");
    /* The first report waits for no pause: turns that wait for nothing are enough. */
    for (int i = 0; i < 4; ++i)
        loop_turn(w->loop, 0);
    assert_int_equal(r.reports, 2);
    for (int i = 1; i <= CHANGES; ++i) {
        snprintf(text, sizeof(text), "{\"x\":%d}", i);
        put_node(w, "/a", text);
        if (i % 8 == 0)
            loop_turn(w->loop, 0);
    }
    wait_for(w, is_json(r.properties, text));
    uint64_t took_ms = (clock_mono_us() - start_us) / 1000;
    assert_true(r.reports >= 3);
    assert_true(r.reports <= 2 + 1 + took_ms / 20);
    unwatch(&r);
}

static void lost_events_make_it_read_all_again(void **state)
{
    struct world *w = *state;
    struct record r;
    unsigned long max = 16384;
    FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "r");

    if (f != NULL) {
        assert_int_equal(fscanf(f, "%lu", &max), 1);
        fclose(f);
    }
    put_node(w, "/a/providers", "{}");
    put_node(w, "/a", "{\"x\":1}");
    watch(w, &r, "/a");
    /* Two names in turn, as equal events in a row are one. */
    for (unsigned long i = 0; i < max / 2 + 10; ++i) {
        (void)mkdir(at(w, "/a/c1"), 0770);
        (void)rmdir(at(w, "/a/c1"));
    }
    put_node(w, "/a", "{\"x\":2}");
    make(at(w, "/a/c2"));
    wait_for(w,
             is_json(r.properties, "{\"x\":2}") && is_json(r.children, "[\"c2\",\"providers\"]"));
    /* And the watch still holds. */
    put_node(w, "/a", "{\"x\":3}");
    wait_for(w, is_json(r.properties, "{\"x\":3}"));
    unwatch(&r);
}

static void without_inotify_it_looks_by_itself(void **state)
{
    struct world *w = *state;
    struct record r = {0};
    struct rlimit limit;
    struct rlimit none;
    int next = dup(0);

    /* No further descriptor can be had while the tree opens. */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = (rlim_t)next;
    close(next);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct tree *blind = open_tree(w->loop, w->root);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    r.watch = tree_watch(blind, "/a", record_changed, &r);
    wait_for(w, r.reports == 1);
    put_node(w, "/a", "{\"x\":1}");
    wait_for(w, is_json(r.properties, "{\"x\":1}"));
    json_t *none_yet = json_object();
    struct tree_registration *p = tree_register(w->tree, "/a", "10.0.0.1:80", none_yet);
    wait_for(w, is_json(r.providers, "{\"10.0.0.1:80\":{}}"));
    tree_unregister(p);
    wait_for(w, is_json(r.providers, "{}"));
    json_decref(none_yet);
    unwatch(&r);
    tree_close(blind);
}

static void child_nodes_are_listed_in_order(void **state)
{
    struct world *w = *state;
    struct record r;

    make(at(w, "/a/two"));
    make(at(w, "/a/one"));
    make(at(w, "/a/.hidden"));
    write_file(at(w, "/a/file"), "");
    watch(w, &r, "/a");
    assert_true(is_json(r.children, "[\"one\",\"two\"]"));
    make(at(w, "/a/three"));
    wait_for(w, is_json(r.children, "[\"one\",\"three\",\"two\"]"));
    rmdir(at(w, "/a/one"));
    wait_for(w, is_json(r.children, "[\"three\",\"two\"]"));
    for (int i = 0; i < 40; ++i) {
        char path[32];

        snprintf(path, sizeof(path), "/a/n%02d", i);
        make(at(w, path));
    }
    wait_for(w, json_array_size(r.children) == 42);
    assert_string_equal(json_string_value(json_array_get(r.children, 39)), "n39");
    unwatch(&r);
}

static void unchanged_properties_are_not_reported(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/a", "{\"x\":1,\"y\":[1,2]}");
    watch(w, &r, "/a");
    put_node(w, "/a", "{\"y\": [1, 2], \"x\": 1}");
    make(at(w, "/b"));
    put_node(w, "/a/c", "{}");
    wait_for(w, r.reports == 2);
    assert_true(is_json(r.children, "[\"c\"]"));
    put_node(w, "/a/c", "{\"z\":1}");
    turn_for(w, 60);
    assert_int_equal(r.reports, 2);
    unwatch(&r);
}

struct ending {
    struct world *world;
    struct tree_watch *watch;
    unsigned reports;
    bool had_properties;
};

static void end_itself(void *context, const struct tree_view *node)
{
    struct ending *e = context;

    ++e->reports;
    tree_unwatch(e->watch);
    /* Still there for the rest of the call. */
    e->had_properties = json_object_size(node->properties) == 1;
}

static void a_watch_may_end_itself_when_called(void **state)
{
    struct world *w = *state;
    struct ending e = {.world = w};

    put_node(w, "/a", "{\"x\":1}");
    e.watch = tree_watch(w->tree, "/a", end_itself, &e);
    wait_for(w, e.reports == 1);
    assert_true(e.had_properties);
    put_node(w, "/a", "{\"x\":2}");
    turn_for(w, 40);
    assert_int_equal(e.reports, 1);
}

static void urls_that_name_no_place_are_rejected(void **state)
{
    static const struct {
        const char *url;
        enum err error;
        const char *says;
    } rows[] = {
        {"", ERR_SYNTAX, "expected directory:/path"},
        {"directory", ERR_SYNTAX, "expected directory:/path"},
        {"directory:", ERR_SYNTAX, "expected directory:/path"},
        {"directory:run/tree", ERR_SYNTAX, "absolute"},
        {"directory:/", ERR_SYNTAX, "root directory"},
        {"directory:////", ERR_SYNTAX, "root directory"},
        {"gopher://x/", ERR_UNSUPPORTED, "expected directory:/path"},
    };
    struct world *w = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        struct tree *t = NULL;
        struct diag d = {0};

        assert_int_equal(tree_open(w->loop, slice_of(rows[i].url), NULL, &t, &d), rows[i].error);
        assert_null(t);
        assert_int_equal(d.errors, 1);
        assert_non_null(strstr(d.text, rows[i].says));
        diag_fini(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        tree_test(a_node_that_is_made_later_is_noticed),
        tree_test(a_root_below_missing_directories_is_noticed),
        tree_test(properties_are_seen_however_they_are_written),
        tree_test(a_file_in_the_middle_of_being_written_is_not_reported),
        tree_test(a_properties_file_that_vanished_is_like_a_broken_one),
        tree_test(a_node_removed_keeps_its_last_properties_until_it_is_back),
        tree_test(a_node_renamed_away_and_another_in_its_place_are_distinguished),
        tree_test(an_invalid_object_is_a_problem_and_keeps_the_last_good_one),
        tree_test(too_large_properties_are_a_problem),
        tree_test(properties_that_are_no_plain_file_are_a_problem),
        tree_test(a_burst_is_reported_at_once_and_then_seldom),
        tree_test(lost_events_make_it_read_all_again),
        tree_test(without_inotify_it_looks_by_itself),
        tree_test(child_nodes_are_listed_in_order),
        tree_test(unchanged_properties_are_not_reported),
        tree_test(a_watch_may_end_itself_when_called),
        tree_test(urls_that_name_no_place_are_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
