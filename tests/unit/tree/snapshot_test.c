/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tree/snapshot.h"

#include "common/base/file.h"
#include "tests/unit/tree/tree_fixture.h"

struct mem {
    struct world *w;
    char path[160];
};

static int start(void **state)
{
    struct mem *f = xcalloc(1, sizeof(*f));
    void *w = NULL;

    assert_int_equal(setup(&w), 0);
    f->w = w;
    snprintf(f->path, sizeof(f->path), "%s/memory.json", f->w->directory);
    *state = f;
    return 0;
}

static int stop(void **state)
{
    struct mem *f = *state;
    void *w = f->w;

    free(f);
    return teardown(&w);
}

static void keep(struct snapshot *m, const char *part, const char *json)
{
    json_t *content = json_loads(json, 0, NULL);

    assert_non_null(content);
    snapshot_store(m, part, content);
    json_decref(content);
}

static void a_stored_part_is_there_in_the_next_process(void **state)
{
    struct mem *f = *state;
    struct snapshot *m = snapshot_open(f->w->loop, f->path, "directory:/x");
    struct stat st;

    assert_null(snapshot_part(m, "settings"));
    keep(m, "settings", "{\"retries\":7}");
    keep(m, "providers", "{\"127.0.0.1:1\":{\"version\":\"2\"}}");
    snapshot_close(m);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    m = snapshot_open(f->w->loop, f->path, "directory:/x");
    assert_true(is_json(snapshot_part(m, "settings"), "{\"retries\":7}"));
    assert_true(is_json(snapshot_part(m, "providers"), "{\"127.0.0.1:1\":{\"version\":\"2\"}}"));
    assert_true(snapshot_age_s(m) < 60);
    snapshot_close(m);
}

static void a_snapshot_is_written_a_moment_after_the_change(void **state)
{
    struct mem *f = *state;
    struct snapshot *m = snapshot_open(f->w->loop, f->path, "p");
    uint64_t from_us = clock_mono_us();

    keep(m, "settings", "{\"a\":1}");
    keep(m, "settings", "{\"a\":2}");
    wait_for(f->w, access(f->path, F_OK) == 0);
    assert_true(clock_mono_us() - from_us >= (SNAPSHOT_DELAY_MS - 10) * 1000);
    struct snapshot *other = snapshot_open(f->w->loop, f->path, "p");
    assert_true(is_json(snapshot_part(other, "settings"), "{\"a\":2}"));
    snapshot_close(other);
    snapshot_close(m);
}

static void another_tree_is_not_remembered(void **state)
{
    struct mem *f = *state;
    struct snapshot *m = snapshot_open(f->w->loop, f->path, "here");

    keep(m, "settings", "{\"a\":1}");
    snapshot_close(m);
    m = snapshot_open(f->w->loop, f->path, "there");
    assert_null(snapshot_part(m, "settings"));
    snapshot_close(m);
    /* Nor is it spoilt by that. */
    m = snapshot_open(f->w->loop, f->path, "here");
    assert_non_null(snapshot_part(m, "settings"));
    snapshot_close(m);
}

static void a_file_that_is_torn_or_strange_is_set_aside(void **state)
{
    static const char *const files[] = {
        "",
        "{\"v\":1,\"tree\":\"p\",\"sav",
        "[]",
        "{\"v\":2,\"tree\":\"p\",\"saved\":1,\"parts\":{}}",
        "{\"v\":1,\"tree\":\"p\",\"saved\":-1,\"parts\":{}}",
        "{\"v\":1,\"tree\":\"p\",\"saved\":1,\"parts\":[]}",
        "{\"v\":1,\"tree\":\"p\",\"saved\":1,\"parts\":{\"settings\":[1]}}",
        "{\"v\":1,\"tree\":\"p\",\"saved\":1,\"parts\":{\"settings\":{}}} x",
    };
    struct mem *f = *state;
    char *bad = xasprintf("%s.bad", f->path);

    for (size_t i = 0; i < ARRAY_LEN(files); ++i) {
        write_file(f->path, files[i]);
        struct snapshot *m = snapshot_open(f->w->loop, f->path, "p");
        assert_null(snapshot_part(m, "settings"));
        snapshot_close(m);
        assert_int_equal(access(f->path, F_OK), -1);
        assert_int_equal(unlink(bad), 0);
    }
    free(bad);
}

static void a_snapshot_that_cannot_be_written_is_written_later(void **state)
{
    struct mem *f = *state;
    char *directory = xasprintf("%s.d", f->path);
    char *path = xasprintf("%s/memory.json", directory);

    write_file(directory, "not a directory");
    struct snapshot *m = snapshot_open(f->w->loop, path, "p");
    keep(m, "settings", "{\"a\":1}");
    while (state_files_unsaved() == 0)
        loop_turn(f->w->loop, 1000);
    assert_int_equal(unlink(directory), 0);
    /* Without another change. */
    while (state_files_unsaved() != 0)
        loop_turn(f->w->loop, 1000);
    assert_int_equal(access(path, F_OK), 0);
    snapshot_close(m);
    assert_int_equal(unlink(path) | rmdir(directory), 0);
    free(path);
    free(directory);
}

static void a_snapshot_that_could_not_be_read_back_is_not_written(void **state)
{
    struct mem *f = *state;
    struct snapshot *m = snapshot_open(f->w->loop, f->path, "p");
    json_t *many = json_object();

    keep(m, "settings", "{\"a\":1}");
    snapshot_close(m);
    m = snapshot_open(f->w->loop, f->path, "p");
    for (int i = 0; i < 60000; ++i) {
        char name[32];

        snprintf(name, sizeof(name), "n%d", i);
        json_object_set_new(many, name, json_integer(i));
    }
    snapshot_store(m, "providers", many);
    json_decref(many);
    snapshot_close(m);
    m = snapshot_open(f->w->loop, f->path, "p");
    assert_non_null(snapshot_part(m, "settings"));
    assert_null(snapshot_part(m, "providers"));
    snapshot_close(m);
}

static void a_deleted_part_is_not_there_in_the_next_process(void **state)
{
    struct mem *f = *state;
    struct snapshot *m = snapshot_open(f->w->loop, f->path, "p");

    keep(m, "settings", "{\"a\":1}");
    keep(m, "limits/x", "{\"b\":1}");
    snapshot_close(m);
    m = snapshot_open(f->w->loop, f->path, "p");
    snapshot_delete(m, "limits/x");
    snapshot_delete(m, "never there");
    assert_null(snapshot_part(m, "limits/x"));
    snapshot_close(m);
    m = snapshot_open(f->w->loop, f->path, "p");
    assert_non_null(snapshot_part(m, "settings"));
    assert_null(snapshot_part(m, "limits/x"));
    snapshot_close(m);
}

static void without_a_file_nothing_is_kept(void **state)
{
    struct mem *f = *state;
    struct snapshot *m = snapshot_open(f->w->loop, NULL, "p");

    keep(m, "settings", "{\"a\":1}");
    snapshot_close(m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_stored_part_is_there_in_the_next_process),
        TEST(a_snapshot_is_written_a_moment_after_the_change),
        TEST(another_tree_is_not_remembered),
        TEST(a_file_that_is_torn_or_strange_is_set_aside),
        TEST(a_snapshot_that_could_not_be_read_back_is_not_written),
        TEST(a_snapshot_that_cannot_be_written_is_written_later),
        TEST(a_deleted_part_is_not_there_in_the_next_process),
        TEST(without_a_file_nothing_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
