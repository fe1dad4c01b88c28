/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tree/provider_file.h"
#include "common/tree/store.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/file.h"
#include "common/wire/json.h"

struct world {
    char folder[64]; /* removed at the end */
    struct store *store;
    struct diag diag;
};

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static int setup(void **state)
{
    struct world *w = xcalloc(1, sizeof(*w));
    const struct store_options o = {.timeout_ms = 200};

    snprintf(w->folder, sizeof(w->folder), RLB_TEST_DIR "/rlb-store-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    char *url = xasprintf("directory:%s/tree//", w->folder);
    assert_int_equal(store_open(slice_of(url), &o, &w->store, &w->diag), ERR_OK);
    free(url);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    store_close(w->store);
    diag_fini(&w->diag);
    nftw(w->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(w);
    return 0;
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

    if (store_create(w->store, path, v, &w->diag) != ERR_OK)
        fail_msg("%s: %s", path, w->diag.text != NULL ? w->diag.text : "");
    json_decref(v);
}

static void expect_properties(struct world *w, const char *path, const char *properties)
{
    struct store_node n;
    json_t *want = json(properties);

    assert_int_equal(store_read(w->store, path, &n, &w->diag), ERR_OK);
    assert_true(json_equal(n.properties, want));
    json_decref(want);
    store_node_fini(&n);
}

/* The children of PATH, joined by blanks. */
static void expect_children(struct world *w, const char *path, const char *names)
{
    struct store_node n;
    struct text all = {0};

    assert_int_equal(store_read(w->store, path, &n, &w->diag), ERR_OK);
    for (size_t i = 0; i < n.nchildren; ++i)
        text_addf(&all, "%s%s", i != 0 ? " " : "", n.children[i]);
    assert_string_equal(text_cstr(&all), names);
    text_fini(&all);
    store_node_fini(&n);
}

static void expect_told(struct world *w, const char *what)
{
    if (w->diag.text == NULL || strstr(w->diag.text, what) == NULL)
        fail_msg("says '%s', not '%s'", w->diag.text != NULL ? w->diag.text : "", what);
    diag_fini(&w->diag);
}

static void put_bytes(struct world *w, const char *path, struct slice bytes)
{
    char *file = xasprintf("%s/tree%s", w->folder, path);

    assert_int_equal(file_write(file, bytes), ERR_OK);
    free(file);
}

static void expect_bytes(struct world *w, const char *path, struct slice bytes)
{
    char *file = xasprintf("%s/tree%s", w->folder, path);
    struct text got = {0};

    assert_int_equal(file_read(file, 1 << 20, &got), ERR_OK);
    assert_int_equal(got.len, bytes.len);
    assert_memory_equal(got.p, bytes.p, bytes.len);
    text_fini(&got);
    free(file);
}

static struct provider_file put_provider(struct world *w, const char *folder, const char *name)
{
    char *full = xasprintf("%s/tree%s", w->folder, folder);
    struct provider_file f = {.fd = -1};

    assert_int_equal(provider_file_put(&f, full, name, SLICE_LIT("{\"pid\":1}")), ERR_OK);
    free(full);
    return f;
}

static void let_go(struct provider_file *f)
{
    close(f->fd);
    f->fd = -1;
}

/* ---- tests ---- */

static void node_is_made_with_all_above_it_and_read_back(void **state)
{
    struct world *w = *state;
    struct store_node n;
    struct stat st;

    assert_int_equal(store_read(w->store, "", &n, &w->diag), ERR_NOT_FOUND);
    create(w, "/a/b/c", "{\"x\": 1, \"l ->\": \"/a\"}");
    expect_properties(w, "/a/b/c", "{\"x\": 1, \"l ->\": \"/a\"}");
    expect_properties(w, "/a", "{}");
    create(w, "/a/aa", "{}");
    expect_children(w, "/a", "aa b");
    expect_children(w, "", "a");
    json_t *none = json_object();
    assert_int_equal(store_create(w->store, "/a/b", none, &w->diag), ERR_EXISTS);
    json_decref(none);
    assert_int_equal(store_read(w->store, "/a/x", &n, &w->diag), ERR_NOT_FOUND);
    assert_null(w->diag.text);
    /* Whatever the umask, the group is let in. */
    char *file = xasprintf("%s/tree/a/b/c", w->folder);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0770);
    free(file);
    file = xasprintf("%s/tree/a/b/c/properties.json", w->folder);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    free(file);
}

static void write_replaces_only_the_version_it_was_made_of(void **state)
{
    struct world *w = *state;
    struct store_node first;
    json_t *v = json("{\"x\": 2}");

    create(w, "/a", "{\"x\": 1, \"y\": 1}");
    assert_int_equal(store_read(w->store, "/a", &first, &w->diag), ERR_OK);
    assert_int_equal(store_write(w->store, "/a", v, &first.version, &w->diag), ERR_OK);
    expect_properties(w, "/a", "{\"x\": 2}");
    json_object_set_new(v, "x", json_integer(3));
    assert_int_equal(store_write(w->store, "/a", v, &first.version, &w->diag), ERR_BUSY);
    expect_properties(w, "/a", "{\"x\": 2}");
    assert_int_equal(store_write(w->store, "/a", v, NULL, &w->diag), ERR_OK);
    expect_properties(w, "/a", "{\"x\": 3}");
    assert_int_equal(store_write(w->store, "/b", v, NULL, &w->diag), ERR_NOT_FOUND);
    json_object_clear(v);
    assert_int_equal(store_write(w->store, "/a", v, NULL, &w->diag), ERR_OK);
    expect_bytes(w, "/a/properties.json", SLICE_LIT("{}"));
    assert_null(w->diag.text);
    store_node_fini(&first);
    json_decref(v);
}

static void write_waits_for_the_folder_but_not_for_ever(void **state)
{
    struct world *w = *state;
    json_t *v = json("{\"x\": 1}");

    create(w, "/a", "{}");
    char *folder = xasprintf("%s/tree/a", w->folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(store_write(w->store, "/a", v, NULL, &w->diag), ERR_SYSTEM);
    expect_told(w, "/a: cannot lock its folder: Connection timed out");
    close(fd);
    assert_int_equal(store_write(w->store, "/a", v, NULL, &w->diag), ERR_OK);
    free(folder);
    json_decref(v);
}

static void data_that_are_no_json_are_shown_and_survive(void **state)
{
    struct world *w = *state;
    struct store_node n;

    create(w, "/a", "{}");
    put_bytes(w, "/a/properties.json", SLICE_LIT("{\"x\": 1,}"));
    assert_int_equal(store_read(w->store, "/a", &n, &w->diag), ERR_OK);
    assert_non_null(n.problem);
    assert_string_equal(json_string_value(json_object_get(n.properties, "string_value")),
                        "{\"x\": 1,}");
    store_node_fini(&n);

    put_bytes(w, "/a/properties.json", SLICE_LIT("\xff\0\n"));
    assert_int_equal(store_read(w->store, "/a", &n, &w->diag), ERR_OK);
    assert_null(n.problem);
    assert_int_equal(store_write(w->store, "/a", n.properties, NULL, &w->diag), ERR_OK);
    expect_bytes(w, "/a/properties.json", SLICE_LIT("\xff\0\n"));
    store_node_fini(&n);

    /* A text is put into JSON: programs that watch want that. */
    json_t *v = json("{\"string_value\": \"text\"}");
    assert_int_equal(store_write(w->store, "/a", v, NULL, &w->diag), ERR_OK);
    expect_bytes(w, "/a/properties.json", SLICE_LIT("{\"string_value\":\"text\"}"));
    json_decref(v);

    char *large = xmalloc(NODE_BYTES_MAX + 1);
    memset(large, ' ', NODE_BYTES_MAX + 1);
    put_bytes(w, "/a/properties.json", (struct slice){large, NODE_BYTES_MAX + 1});
    assert_int_equal(store_read(w->store, "/a", &n, &w->diag), ERR_TOO_LARGE);
    expect_told(w, "/a: properties.json has more than 1048576 bytes");
    memset(large, 'x', NODE_BYTES_MAX);
    v = json_pack("{s:s%}", "x", large, (size_t)NODE_BYTES_MAX);
    assert_int_equal(store_write(w->store, "/a", v, NULL, &w->diag), ERR_TOO_LARGE);
    expect_told(w, "/a: over 1048576 bytes");
    json_decref(v);
    free(large);
}

static void names_that_cannot_be_nodes_are_refused(void **state)
{
    struct world *w = *state;
    static const char *const bad[] = {"/.hidden", "/properties.json", "/..", "/."};
    json_t *none = json_object();
    struct text path = {0};
    struct store_node n;

    create(w, "", "{\"top\": 1}");
    expect_properties(w, "", "{\"top\": 1}");
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        assert_int_equal(store_create(w->store, bad[i], none, &w->diag), ERR_UNSUPPORTED);
        expect_told(w, "no name for a node here");
        assert_int_equal(store_read(w->store, bad[i], &n, &w->diag), ERR_NOT_FOUND);
    }
    text_addf(&path, "/%0*d", TREE_PATH_MAX, 1);
    assert_int_equal(store_create(w->store, text_cstr(&path), none, &w->diag), ERR_TOO_LARGE);
    expect_told(w, "path longer than 512");
    text_fini(&path);
    json_decref(none);
}

static void symbolic_links_are_not_followed_below_the_root(void **state)
{
    struct world *w = *state;
    struct store_node n;
    json_t *v = json("{\"x\": 1}");

    create(w, "/a/b", "{}");
    char *link = xasprintf("%s/tree/link", w->folder);
    char *file = xasprintf("%s/tree/a/b/properties.json", w->folder);
    assert_int_equal(symlink("a", link), 0);
    assert_int_equal(store_read(w->store, "/link", &n, &w->diag), ERR_NOT_FOUND);
    assert_int_equal(store_read(w->store, "/link/b", &n, &w->diag), ERR_NOT_FOUND);
    assert_int_equal(store_write(w->store, "/link/b", v, NULL, &w->diag), ERR_NOT_FOUND);
    expect_children(w, "", "a");
    assert_int_equal(symlink("/etc/passwd", file), 0);
    assert_int_equal(store_read(w->store, "/a/b", &n, &w->diag), ERR_UNSUPPORTED);
    expect_told(w, "no regular file");
    /* What is written replaces the link, not what it leads to. */
    assert_int_equal(store_write(w->store, "/a/b", v, NULL, &w->diag), ERR_OK);
    expect_properties(w, "/a/b", "{\"x\": 1}");
    json_decref(v);
    free(link);
    free(file);
}

static void an_entry_at_the_temporary_name_is_replaced_and_not_written_through(void **state)
{
    struct world *w = *state;
    json_t *v = json("{\"x\": 1}");

    create(w, "/a", "{}");
    char *victim = xasprintf("%s/victim", w->folder);
    char *tmp = xasprintf("%s/tree/a/.new-properties-%ld", w->folder, (long)getpid());
    assert_int_equal(file_write(victim, SLICE_LIT("precious")), ERR_OK);
    /* A hard link leads to another file, too. */
    assert_int_equal(link(victim, tmp), 0);
    assert_int_equal(store_write(w->store, "/a", v, NULL, &w->diag), ERR_OK);
    expect_bytes(w, "/../victim", SLICE_LIT("precious"));
    expect_properties(w, "/a", "{\"x\": 1}");
    assert_int_equal(symlink(victim, tmp), 0);
    assert_int_equal(store_write(w->store, "/a", v, NULL, &w->diag), ERR_OK);
    expect_bytes(w, "/../victim", SLICE_LIT("precious"));
    assert_int_not_equal(access(tmp, F_OK), 0);
    json_decref(v);
    free(victim);
    free(tmp);
}

static void providers_are_there_while_they_are_held(void **state)
{
    struct world *w = *state;
    struct store_node n;
    json_t *v = json("{}");

    create(w, "/a/providers", "{}");
    struct provider_file f = put_provider(w, "/a/providers", "127.0.0.1:80");
    expect_children(w, "/a/providers", "127.0.0.1:80");
    assert_int_equal(store_read(w->store, "/a/providers/127.0.0.1:80", &n, &w->diag), ERR_OK);
    assert_true(n.provider);
    assert_int_equal(json_integer_value(json_object_get(n.properties, "pid")), 1);
    store_node_fini(&n);
    assert_int_equal(store_write(w->store, "/a/providers/127.0.0.1:80", v, NULL, &w->diag),
                     ERR_UNSUPPORTED);
    expect_told(w, "belongs to the process that registered it");
    assert_int_equal(store_read(w->store, "/a/providers/127.0.0.1:80/x", &n, &w->diag),
                     ERR_NOT_FOUND);
    let_go(&f);
    expect_children(w, "/a/providers", "");
    assert_int_equal(store_read(w->store, "/a/providers/127.0.0.1:80", &n, &w->diag),
                     ERR_NOT_FOUND);
    assert_null(w->diag.text);
    json_decref(v);
}

/* The fates told, as "PATH:FATE " each. */
static void note_fate(void *context, const char *path, enum store_fate fate)
{
    text_addf(context, "%s:%d ", path, (int)fate);
}

static void deleting_spares_providers_and_what_is_above_them(void **state)
{
    struct world *w = *state;
    struct text fates = {0};

    create(w, "/a/b/providers", "{\"x\": 1}");
    create(w, "/a/c/d", "{}");
    create(w, "/a/providers", "{}");
    put_bytes(w, "/a/providers/.new-left-over", SLICE_LIT("x"));
    struct provider_file f = put_provider(w, "/a/b/providers", "h:1");
    struct provider_file dead = put_provider(w, "/a/providers", "h:2");
    let_go(&dead);
    static const char after_dry[] =
        "/a/b/providers/h:1:1 /a/b/providers:2 /a/b:2 /a/c/d:0 /a/c:0 /a/providers:0 /a:2 ";
    for (int dry = 1; dry >= 0; --dry) {
        assert_int_equal(store_delete(w->store, "/a", dry != 0, note_fate, &fates, &w->diag),
                         ERR_OK);
        assert_string_equal(text_cstr(&fates), after_dry);
        text_clear(&fates);
        expect_children(w, "/a", dry ? "b c providers" : "b");
    }
    expect_properties(w, "/a/b/providers", "{\"x\": 1}");
    let_go(&f);
    assert_int_equal(store_delete(w->store, "/a", false, note_fate, &fates, &w->diag), ERR_OK);
    assert_string_equal(text_cstr(&fates), "/a/b/providers:0 /a/b:0 /a:0 ");
    expect_children(w, "", "");
    assert_int_equal(store_delete(w->store, "/a", false, note_fate, &fates, &w->diag),
                     ERR_NOT_FOUND);
    text_fini(&fates);
}

static void what_cannot_be_removed_keeps_its_properties(void **state)
{
    struct world *w = *state;
    struct text fates = {0};
    char *pipe = xasprintf("%s/tree/a/pipe", w->folder);

    create(w, "/a", "{\"x\": 1}");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(store_delete(w->store, "/a", false, note_fate, &fates, &w->diag), ERR_BUSY);
    assert_int_equal(fates.len, 0);
    expect_properties(w, "/a", "{\"x\": 1}");
    text_fini(&fates);
    free(pipe);
}

/* ---- links ---- */

static void expect_resolved(struct world *w, const char *path, enum err want, const char *real)
{
    char out[TREE_PATH_MAX + 1];
    enum err e = store_resolve(w->store, path, out, &w->diag);

    if (e != want)
        fail_msg("%s: %s", path, err_text(e));
    if (real != NULL)
        assert_string_equal(out, real);
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
    assert_null(w->diag.text);
    expect_resolved(w, "/loop/a", ERR_RANGE, NULL);
    expect_told(w, "link loop: comes back to /loop/a");
    expect_resolved(w, "/ghm/out", ERR_RANGE, NULL);
    expect_told(w, "/ghm: link to ../..: leaves the tree");
    expect_resolved(w, "/..", ERR_RANGE, NULL);
    diag_fini(&w->diag);
}

static void expect_found(struct world *w, const char *path, const char *name, enum err want,
                         const char *text)
{
    json_t *v = NULL;
    struct text printed = {0};
    enum err e = store_property(w->store, path, name, &v, &w->diag);

    if (e != want)
        fail_msg("%s %s: %s", path, name, err_text(e));
    if (want == ERR_OK) {
        json_print(v, &printed);
        assert_string_equal(text_cstr(&printed), text);
    } else {
        assert_null(v);
    }
    json_decref(v);
    text_fini(&printed);
}

static void properties_are_followed_through_links(void **state)
{
    struct world *w = *state;

    create(w, "/lb",
           "{\"variance\": 4, \"deep =>\": \"../a deeper\", \"own\": 1, \"own =>\": \"/a\"}");
    create(w, "/a",
           "{\"threads =>\": \"/lb variance\", \"deeper =>\": \"/a threads\","
           "\"gone =>\": \"/nowhere\", \"missing =>\": \"/lb\","
           "\"x =>\": \"/a y\", \"y =>\": \"/a x\", \"out =>\": \"../..\"}");
    expect_found(w, "/lb", "variance", ERR_OK, "4");
    expect_found(w, "/lb", "own", ERR_OK, "1");
    expect_found(w, "/a", "threads", ERR_OK, "4");
    expect_found(w, "/lb", "deep", ERR_OK, "4");
    expect_found(w, "/a", "none", ERR_NOT_FOUND, NULL);
    assert_null(w->diag.text);
    expect_found(w, "/a", "gone", ERR_NOT_FOUND, NULL);
    expect_told(w, "/nowhere: linked to for property gone, but does not exist");
    expect_found(w, "/a", "missing", ERR_NOT_FOUND, NULL);
    expect_told(w, "/lb: has no property missing to link to");
    expect_found(w, "/a", "x", ERR_RANGE, NULL);
    expect_told(w, "more than 32 links in a row");
    expect_found(w, "/a", "out", ERR_RANGE, NULL);
    expect_told(w, "leaves the tree");
}

static void urls_that_name_no_store_are_refused(void **state)
{
    static const char *const bad[] = {"",      "directory",   "directory:",      "directory:x",
                                      "xyz:/", "zookeeper:/", "zookeeper://a:b", "/tmp"};
    struct world *w = *state;
    const struct store_options o = {0};
    struct store *s = NULL;

    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        assert_int_not_equal(store_open(slice_of(bad[i]), &o, &s, &w->diag), ERR_OK);
        assert_null(s);
        expect_told(w, "want");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(node_is_made_with_all_above_it_and_read_back, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(write_replaces_only_the_version_it_was_made_of, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(write_waits_for_the_folder_but_not_for_ever, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(data_that_are_no_json_are_shown_and_survive, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(names_that_cannot_be_nodes_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(symbolic_links_are_not_followed_below_the_root, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            an_entry_at_the_temporary_name_is_replaced_and_not_written_through, setup, teardown),
        cmocka_unit_test_setup_teardown(providers_are_there_while_they_are_held, setup, teardown),
        cmocka_unit_test_setup_teardown(deleting_spares_providers_and_what_is_above_them, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_removed_keeps_its_properties, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(links_lead_as_they_do_for_watches, setup, teardown),
        cmocka_unit_test_setup_teardown(properties_are_followed_through_links, setup, teardown),
        cmocka_unit_test_setup_teardown(urls_that_name_no_store_are_refused, setup, teardown),
    };

    return cmocka_run_group_tests_name("store_directory", tests, NULL, NULL);
}
