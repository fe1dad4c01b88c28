/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tree/provider_file.h"
#include "common/tree/tree_op.h"
#include "tests/unit/tree/tree_fixture.h"

#include <sys/file.h>

#include "common/base/limits.h"

/* The errors of the operations of this test. */
static struct diag reported;

static void on_done(struct tree_op *op)
{
    *(bool *)op->context = true;
}

static enum err run(struct world *w, struct tree_op *op)
{
    bool done = false;

    op->diag = &reported;
    op->done = on_done;
    op->context = &done;
    tree_op_begin(w->tree, op);
    assert_false(done);
    wait_for(w, done);
    return op->result;
}

static enum err read_node(struct world *w, const char *path, struct tree_record *out)
{
    struct tree_op op = {.kind = TREE_READ, .path = path};
    enum err e = run(w, &op);

    *out = op.record;
    return e;
}

static enum err write_node(struct world *w, const char *path, const json_t *properties,
                           const uint64_t *version)
{
    struct tree_op op = {
        .kind = TREE_WRITE, .path = path, .properties = properties, .version = version};

    return run(w, &op);
}

static enum err create_node(struct world *w, const char *path, const json_t *properties)
{
    struct tree_op op = {.kind = TREE_CREATE, .path = path, .properties = properties};

    return run(w, &op);
}

static enum err remove_node(struct world *w, const char *path)
{
    struct tree_op op = {.kind = TREE_REMOVE, .path = path};

    return run(w, &op);
}

static int teardown_reported(void **state)
{
    diag_fini(&reported);
    return teardown(state);
}

static json_t *json(const char *text)
{
    json_t *v = json_loads(text, 0, NULL);

    assert_non_null(v);
    return v;
}

static void create(struct world *w, const char *path, const char *properties)
{
    json_t *v = json(properties);

    if (create_node(w, path, v) != ERR_OK)
        fail_msg("%s: %s", path, reported.text != NULL ? reported.text : "");
    json_decref(v);
}

static void expect_properties(struct world *w, const char *path, const char *properties)
{
    struct tree_record n;
    json_t *want = json(properties);

    assert_int_equal(read_node(w, path, &n), ERR_OK);
    assert_true(json_equal(n.properties, want));
    json_decref(want);
    tree_record_fini(&n);
}

/* The children of PATH, joined by blanks. */
static void expect_children(struct world *w, const char *path, const char *names)
{
    struct tree_record n;
    struct text all = {0};
    const char *name;
    json_t *unused;

    assert_int_equal(read_node(w, path, &n), ERR_OK);
    json_object_foreach (n.children, name, unused)
        text_addf(&all, "%s%s", all.len != 0 ? " " : "", name);
    assert_string_equal(text_cstr(&all), names);
    text_fini(&all);
    tree_record_fini(&n);
}

static void expect_reported(const char *what)
{
    if (reported.text == NULL || strstr(reported.text, what) == NULL)
        fail_msg("says '%s', not '%s'", reported.text != NULL ? reported.text : "", what);
    diag_fini(&reported);
}

static void put_bytes(struct world *w, const char *path, struct slice bytes)
{
    char *file = xasprintf("%s%s", w->root, path);

    assert_int_equal(file_write(file, bytes, 0640), ERR_OK);
    free(file);
}

static void expect_bytes(struct world *w, const char *path, struct slice bytes)
{
    char *file = xasprintf("%s%s", w->root, path);
    struct text got = {0};

    assert_int_equal(file_read(file, 1 << 20, &got), ERR_OK);
    assert_int_equal(got.len, bytes.len);
    assert_memory_equal(got.p, bytes.p, bytes.len);
    text_fini(&got);
    free(file);
}

/* Returns the descriptor by which it is held. */
static int put_provider(struct world *w, const char *directory, const char *name)
{
    char *full = xasprintf("%s%s/%s", w->root, directory, name);
    int f = -1;

    assert_int_equal(provider_file_put(&f, full, SLICE_LIT("{\"pid\":1}")), ERR_OK);
    free(full);
    return f;
}

/* ---- tests ---- */

static void node_is_made_with_all_above_it_and_read_back(void **state)
{
    struct world *w = *state;
    struct tree_record n;
    struct stat st;

    assert_int_equal(read_node(w, "", &n), ERR_NOT_FOUND);
    create(w, "/a/b/c", "{\"x\": 1, \"l ->\": \"/a\"}");
    expect_properties(w, "/a/b/c", "{\"x\": 1, \"l ->\": \"/a\"}");
    expect_properties(w, "/a", "{}");
    create(w, "/a/aa", "{}");
    expect_children(w, "/a", "aa b");
    expect_children(w, "", "a");
    json_t *none = json_object();
    assert_int_equal(create_node(w, "/a/b", none), ERR_EXISTS);
    json_decref(none);
    assert_int_equal(read_node(w, "/a/x", &n), ERR_NOT_FOUND);
    assert_null(reported.text);
    /* Whatever the umask, the group is let in. */
    char *file = xasprintf("%s/tree/a/b/c", w->directory);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0770);
    free(file);
    file = xasprintf("%s/tree/a/b/c/properties.json", w->directory);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    free(file);
}

static void write_replaces_only_the_version_it_was_made_of(void **state)
{
    struct world *w = *state;
    struct tree_record first;
    json_t *v = json("{\"x\": 2}");

    create(w, "/a", "{\"x\": 1, \"y\": 1}");
    assert_int_equal(read_node(w, "/a", &first), ERR_OK);
    assert_int_equal(write_node(w, "/a", v, &first.version), ERR_OK);
    expect_properties(w, "/a", "{\"x\": 2}");
    json_object_set_new(v, "x", json_integer(3));
    assert_int_equal(write_node(w, "/a", v, &first.version), ERR_BUSY);
    expect_properties(w, "/a", "{\"x\": 2}");
    assert_int_equal(write_node(w, "/a", v, NULL), ERR_OK);
    expect_properties(w, "/a", "{\"x\": 3}");
    assert_int_equal(write_node(w, "/b", v, NULL), ERR_NOT_FOUND);
    json_object_clear(v);
    assert_int_equal(write_node(w, "/a", v, NULL), ERR_OK);
    expect_bytes(w, "/a/properties.json", SLICE_LIT("{}"));
    assert_null(reported.text);
    tree_record_fini(&first);
    json_decref(v);
}

static void write_waits_for_the_directory_but_not_for_ever(void **state)
{
    struct world *w = *state;
    json_t *v = json("{\"x\": 1}");

    create(w, "/a", "{}");
    char *directory = xasprintf("%s/tree/a", w->directory);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    struct tree_op op = {.kind = TREE_WRITE, .path = "/a", .properties = v, .timeout_ms = 200};
    assert_int_equal(run(w, &op), ERR_TIMEOUT);
    expect_reported("/a: cannot lock its directory: Connection timed out");
    close(fd);
    assert_int_equal(write_node(w, "/a", v, NULL), ERR_OK);
    free(directory);
    json_decref(v);
}

static void data_that_are_no_json_are_shown_and_survive(void **state)
{
    struct world *w = *state;
    struct tree_record n;

    create(w, "/a", "{}");
    put_bytes(w, "/a/properties.json", SLICE_LIT("{\"x\": 1,}"));
    assert_int_equal(read_node(w, "/a", &n), ERR_OK);
    assert_non_null(n.problem);
    assert_string_equal(json_string_value(json_object_get(n.properties, "string_value")),
                        "{\"x\": 1,}");
    tree_record_fini(&n);

    put_bytes(w, "/a/properties.json", SLICE_LIT("\xff\0\n"));
    assert_int_equal(read_node(w, "/a", &n), ERR_OK);
    assert_null(n.problem);
    assert_int_equal(write_node(w, "/a", n.properties, NULL), ERR_OK);
    expect_bytes(w, "/a/properties.json", SLICE_LIT("\xff\0\n"));
    tree_record_fini(&n);

    /* A text is put into JSON: programs that watch want that. */
    json_t *v = json("{\"string_value\": \"text\"}");
    assert_int_equal(write_node(w, "/a", v, NULL), ERR_OK);
    expect_bytes(w, "/a/properties.json", SLICE_LIT("{\"string_value\":\"text\"}"));
    json_decref(v);

    char *large = xmalloc(NODE_BYTES_MAX + 1);
    memset(large, ' ', NODE_BYTES_MAX + 1);
    put_bytes(w, "/a/properties.json", (struct slice){large, NODE_BYTES_MAX + 1});
    assert_int_equal(read_node(w, "/a", &n), ERR_TOO_LARGE);
    expect_reported("/a: properties.json has more than 1048576 bytes");
    memset(large, 'x', NODE_BYTES_MAX);
    v = json_pack("{s:s%}", "x", large, (size_t)NODE_BYTES_MAX);
    assert_int_equal(write_node(w, "/a", v, NULL), ERR_TOO_LARGE);
    expect_reported("/a: over 1048576 bytes");
    json_decref(v);
    free(large);
}

static void names_that_cannot_be_nodes_are_rejected(void **state)
{
    struct world *w = *state;
    static const char *const bad[] = {"/.hidden", "/properties.json", "/..", "/."};
    json_t *none = json_object();
    struct text path = {0};
    struct tree_record n;

    create(w, "", "{\"top\": 1}");
    expect_properties(w, "", "{\"top\": 1}");
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        assert_int_equal(create_node(w, bad[i], none), ERR_UNSUPPORTED);
        expect_reported("not a valid node name here");
        assert_int_equal(read_node(w, bad[i], &n), ERR_NOT_FOUND);
    }
    text_addf(&path, "/%0*d", TREE_PATH_MAX, 1);
    assert_int_equal(create_node(w, text_cstr(&path), none), ERR_TOO_LARGE);
    expect_reported("path longer than 512");
    text_fini(&path);
    json_decref(none);
}

static void symbolic_links_are_not_followed_below_the_root(void **state)
{
    struct world *w = *state;
    struct tree_record n;
    json_t *v = json("{\"x\": 1}");

    create(w, "/a/b", "{}");
    char *link = xasprintf("%s/tree/link", w->directory);
    char *file = xasprintf("%s/tree/a/b/properties.json", w->directory);
    assert_int_equal(symlink("a", link), 0);
    assert_int_equal(read_node(w, "/link", &n), ERR_NOT_FOUND);
    assert_int_equal(read_node(w, "/link/b", &n), ERR_NOT_FOUND);
    assert_int_equal(write_node(w, "/link/b", v, NULL), ERR_NOT_FOUND);
    expect_children(w, "", "a");
    assert_int_equal(symlink("/etc/passwd", file), 0);
    assert_int_equal(read_node(w, "/a/b", &n), ERR_UNSUPPORTED);
    expect_reported("not a regular file");
    /* What is written replaces the link, not what it leads to. */
    assert_int_equal(write_node(w, "/a/b", v, NULL), ERR_OK);
    expect_properties(w, "/a/b", "{\"x\": 1}");
    json_decref(v);
    free(link);
    free(file);
}

static void unfinished_nodes_of_a_program_with_the_same_pid_are_its_own(void **state)
{
    struct world *w = *state;
    json_t *v = json("{\"x\": 1}");

    create(w, "/a", "{}");
    char *node = xasprintf("%s/tree/.new-node-%ld", w->directory, (long)getpid());
    char *file = xasprintf("%s/tree/a/.new-properties-%ld", w->directory, (long)getpid());
    assert_int_equal(mkdir(node, 0770), 0);
    assert_int_equal(file_write(file, SLICE_LIT("{}"), 0640), ERR_OK);
    create(w, "/b", "{}");
    assert_int_equal(write_node(w, "/a", v, NULL), ERR_OK);
    expect_properties(w, "/a", "{\"x\": 1}");
    assert_int_equal(access(node, F_OK), 0);
    assert_int_equal(access(file, F_OK), 0);
    json_decref(v);
    free(node);
    free(file);
}

static void providers_are_there_while_they_are_held(void **state)
{
    struct world *w = *state;
    struct tree_record n;
    json_t *v = json("{}");

    create(w, "/a/providers", "{}");
    int f = put_provider(w, "/a/providers", "127.0.0.1:80");
    expect_children(w, "/a/providers", "127.0.0.1:80");
    assert_int_equal(read_node(w, "/a/providers/127.0.0.1:80", &n), ERR_OK);
    assert_true(n.provider);
    assert_int_equal(json_integer_value(json_object_get(n.properties, "pid")), 1);
    tree_record_fini(&n);
    assert_int_equal(write_node(w, "/a/providers/127.0.0.1:80", v, NULL), ERR_UNSUPPORTED);
    expect_reported("belongs to the process that registered it");
    assert_int_equal(read_node(w, "/a/providers/127.0.0.1:80/x", &n), ERR_NOT_FOUND);
    close(f);
    expect_children(w, "/a/providers", "");
    assert_int_equal(read_node(w, "/a/providers/127.0.0.1:80", &n), ERR_NOT_FOUND);
    assert_null(reported.text);
    json_decref(v);
}

static void only_nodes_without_others_below_are_removed(void **state)
{
    struct world *w = *state;

    create(w, "/a/providers", "{\"x\": 1}");
    put_bytes(w, "/a/providers/.new-left-over", SLICE_LIT("x"));
    int f = put_provider(w, "/a/providers", "h:1");
    int dead = put_provider(w, "/a/providers", "h:2");
    close(dead);
    assert_int_equal(remove_node(w, "/a"), ERR_BUSY);
    assert_int_equal(remove_node(w, "/a/providers"), ERR_BUSY);
    expect_children(w, "/a/providers", "h:1");
    expect_properties(w, "/a/providers", "{\"x\": 1}");
    close(f);
    assert_int_equal(remove_node(w, "/a/providers"), ERR_OK);
    assert_int_equal(remove_node(w, "/a"), ERR_OK);
    assert_int_equal(remove_node(w, "/a"), ERR_NOT_FOUND);
    expect_children(w, "", "");
    assert_null(reported.text);
}

static void a_node_that_cannot_be_removed_keeps_its_properties(void **state)
{
    struct world *w = *state;

    create(w, "/a", "{\"x\": 1}");
    assert_int_equal(mkfifo(at(w, "/a/pipe"), 0600), 0);
    assert_int_equal(remove_node(w, "/a"), ERR_BUSY);
    expect_properties(w, "/a", "{\"x\": 1}");
}

static void a_directory_has_no_permissions_of_its_own(void **state)
{
    struct tree_op op = {.kind = TREE_RESET_ACL, .path = "/a"};

    assert_int_equal(run(*state, &op), ERR_UNSUPPORTED);
    expect_reported("permissions of a directory are set by chmod and chown");
}

/* ---- links ---- */

static void expect_resolved(struct world *w, const char *path, enum err want, const char *real)
{
    struct tree_op op = {.kind = TREE_RESOLVE, .path = path};
    enum err e = run(w, &op);

    if (e != want)
        fail_msg("%s: %s", path, err_text(e));
    if (real != NULL)
        assert_string_equal(op.at, real);
}

static void links_lead_as_they_do_for_watches(void **state)
{
    struct world *w = *state;

    create(w, "/lb", "{\"main ->\": \"/ghm/databases/main\", \"real ->\": \"/ghm\"}");
    create(w, "/lb/real", "{}");
    create(w, "/ghm", "{\"db ->\": \"databases\", \"up ->\": \"../lb\", \"out ->\": \"../..\"}");
    create(w, "/ghm/databases/main/providers", "{}");
    create(w, "/loop", "{\"a ->\": \"/loop/b\", \"b ->\": \"/loop/a\", \"no ->\": \"/nowhere\"}");
    expect_resolved(w, "", ERR_OK, "");
    expect_resolved(w, "/lb//./x/../main/", ERR_OK, "/ghm/databases/main");
    expect_resolved(w, "lb/main/providers", ERR_OK, "/ghm/databases/main/providers");
    expect_resolved(w, "/lb/main/other", ERR_NOT_FOUND, "/ghm/databases/main/other");
    expect_resolved(w, "/lb/real", ERR_OK, "/lb/real");
    expect_resolved(w, "/ghm/db/main", ERR_OK, "/ghm/databases/main");
    expect_resolved(w, "/ghm/up/main", ERR_OK, "/ghm/databases/main");
    expect_resolved(w, "/loop/no", ERR_NOT_FOUND, "/nowhere");
    expect_resolved(w, "/nowhere/at/all", ERR_NOT_FOUND, "/nowhere/at/all");
    assert_null(reported.text);
    expect_resolved(w, "/loop/a", ERR_RANGE, NULL);
    expect_reported("link loop: returns to /loop/a");
    expect_resolved(w, "/ghm/out", ERR_RANGE, NULL);
    expect_reported("/ghm: link to ../..: leaves the tree");
    expect_resolved(w, "/..", ERR_RANGE, NULL);
    diag_fini(&reported);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown_reported)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(node_is_made_with_all_above_it_and_read_back),
        TEST(write_replaces_only_the_version_it_was_made_of),
        TEST(write_waits_for_the_directory_but_not_for_ever),
        TEST(data_that_are_no_json_are_shown_and_survive),
        TEST(names_that_cannot_be_nodes_are_rejected),
        TEST(symbolic_links_are_not_followed_below_the_root),
        TEST(unfinished_nodes_of_a_program_with_the_same_pid_are_its_own),
        TEST(providers_are_there_while_they_are_held),
        TEST(only_nodes_without_others_below_are_removed),
        TEST(a_node_that_cannot_be_removed_keeps_its_properties),
        TEST(a_directory_has_no_permissions_of_its_own),
        TEST(links_lead_as_they_do_for_watches),
    };

    return cmocka_run_group_tests_name("tree_op", tests, NULL, NULL);
}
