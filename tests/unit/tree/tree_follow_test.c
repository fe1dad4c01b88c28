/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tree/tree_fixture.h"

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/tree/tree_backend.h"
#include "tests/support/log_capture.h"

static void a_node_link_leads_to_its_target(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/lb", "{\"workers ->\":\"/shared/workers\"}");
    put_node(w, "/shared/workers", "{\"x\":1}");
    watch(w, &r, "/lb/workers");
    assert_true(r.exists);
    assert_true(is_json(r.properties, "{\"x\":1}"));
    put_node(w, "/shared/workers", "{\"x\":2}");
    wait_for(w, is_json(r.properties, "{\"x\":2}"));
    unwatch(&r);
}

static void links_work_in_the_middle_and_relative_to_their_node(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/a", "{\"b ->\":\"../c/d\"}");
    put_node(w, "/c/d", "{\"e ->\":\"f\"}");
    put_node(w, "/c/d/f/g", "{\"x\":1}");
    watch(w, &r, "/a/b/e/g");
    assert_true(is_json(r.properties, "{\"x\":1}"));
    unwatch(&r);
}

static void a_real_child_hides_a_link(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/a", "{\"b ->\":\"/c\"}");
    put_node(w, "/c", "{\"x\":\"link\"}");
    watch(w, &r, "/a/b");
    assert_true(is_json(r.properties, "{\"x\":\"link\"}"));
    put_node(w, "/a/b", "{\"x\":\"child\"}");
    wait_for(w, is_json(r.properties, "{\"x\":\"child\"}"));
    remove_all(at(w, "/a/b"));
    wait_for(w, is_json(r.properties, "{\"x\":\"link\"}"));
    unwatch(&r);
}

static void a_link_may_change_or_its_target_come_later(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/a", "{\"b ->\":\"/one\"}");
    watch(w, &r, "/a/b");
    assert_false(r.exists);
    put_node(w, "/one", "{\"x\":1}");
    wait_for(w, is_json(r.properties, "{\"x\":1}"));
    put_node(w, "/two", "{\"x\":2}");
    put_node(w, "/a", "{\"b ->\":\"/two\"}");
    wait_for(w, is_json(r.properties, "{\"x\":2}"));
    put_node(w, "/a", "{}");
    wait_for(w, !r.exists);
    assert_true(is_json(r.properties, "{\"x\":2}"));
    unwatch(&r);
}

static void providers_may_be_linked_to(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/a", "{\"providers ->\":\"/other/providers\"}");
    make(at(w, "/other/providers"));
    json_t *none = json_object();
    struct tree_registration *p = tree_register(w->tree, "/other", "10.0.0.1:80", none);
    watch(w, &r, "/a");
    wait_for(w, is_json(r.providers, "{\"10.0.0.1:80\":{}}"));
    assert_true(is_json(r.properties, "{}"));
    tree_unregister(p);
    json_decref(none);
    unwatch(&r);
}

static void loops_of_links_are_rejected(void **state)
{
    static const char *const loops[] = {
        "{\"b ->\":\"/a/b\"}",
        "{\"b ->\":\"c\",\"c ->\":\"b\"}",
        "{\"b ->\":\"b/deeper\"}",
        "{\"b ->\":\"c/c\",\"c ->\":\"b/b\"}",
    };
    struct world *w = *state;

    for (size_t i = 0; i < ARRAY_LEN(loops); ++i) {
        struct record r;

        put_node(w, "/a", loops[i]);
        watch(w, &r, "/a/b");
        assert_false(r.exists);
        assert_non_null(strstr(r.problem, "link loop"));
        put_node(w, "/ok", "{\"x\":1}");
        put_node(w, "/a", "{\"b ->\":\"/ok\"}");
        wait_for(w, r.exists);
        assert_string_equal(r.problem, "");
        unwatch(&r);
    }
}

static void endless_chains_of_links_are_cut(void **state)
{
    struct world *w = *state;
    struct record r;
    struct text text = {0};

    for (int i = 0; i < 100; ++i)
        text_addf(&text, "%s\"n%d ->\":\"n%d\"", i == 0 ? "{" : ",", i, i + 1);
    text_add_char(&text, '}');
    put_node(w, "/a", text_cstr(&text));
    put_node(w, "/a/n100", "{\"x\":1}");
    watch(w, &r, "/a/n0");
    assert_false(r.exists);
    assert_non_null(strstr(r.problem, "links in a row"));
    unwatch(&r);
    watch(w, &r, "/a/n80");
    assert_true(is_json(r.properties, "{\"x\":1}"));
    unwatch(&r);
    text_fini(&text);
}

static void links_out_of_the_tree_are_rejected(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/a", "{\"b ->\":\"../../etc\",\"c ->\":\"/../x\"}");
    watch(w, &r, "/a/b");
    assert_non_null(strstr(r.problem, "leaves the tree"));
    unwatch(&r);
    watch(w, &r, "/a/c");
    assert_non_null(strstr(r.problem, "leaves the tree"));
    unwatch(&r);
    watch(w, &r, "/../x");
    assert_false(r.exists);
    assert_non_null(strstr(r.problem, "leaves the tree"));
    unwatch(&r);
}

static void property_links_give_the_other_nodes_value(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/base", "{\"variance\":2,\"other\":3}");
    put_node(w, "/lb",
             "{\"variance =>\":\"/base\",\"history =>\":\"../base other\",\"own\":1,"
             "\"own =>\":\"/base other\"}");
    watch(w, &r, "/lb");
    assert_true(is_json(r.properties, "{\"history\":3,\"own\":1,\"variance\":2}"));
    put_node(w, "/base", "{\"variance\":5,\"other\":3}");
    wait_for(w, is_json(r.properties, "{\"history\":3,\"own\":1,\"variance\":5}"));
    unwatch(&r);
}

static void property_links_go_through_others(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/a", "{\"x =>\":\"/n/b y\"}");
    put_node(w, "/n", "{\"b ->\":\"/c\"}");
    put_node(w, "/c", "{\"y =>\":\"/d  z \"}");
    put_node(w, "/d", "{\"z\":[1]}");
    watch(w, &r, "/a");
    assert_true(is_json(r.properties, "{\"x\":[1]}"));
    assert_string_equal(r.problem, "");
    put_node(w, "/d", "{\"z\":[2]}");
    wait_for(w, is_json(r.properties, "{\"x\":[2]}"));
    unwatch(&r);
}

static void a_property_link_to_nowhere_keeps_its_last_value(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/base", "{\"x\":2}");
    put_node(w, "/a", "{\"x =>\":\"/base\",\"y\":1}");
    watch(w, &r, "/a");
    assert_true(is_json(r.properties, "{\"x\":2,\"y\":1}"));
    remove_all(at(w, "/base"));
    wait_for(w, strstr(r.problem, "does not exist") != NULL);
    assert_true(r.parses);
    assert_true(is_json(r.properties, "{\"x\":2,\"y\":1}"));
    put_node(w, "/a", "{\"x =>\":\"/base\",\"y\":2}");
    wait_for(w, is_json(r.properties, "{\"x\":2,\"y\":2}"));
    put_node(w, "/base", "{\"z\":1}");
    wait_for(w, strstr(r.problem, "has no property x") != NULL);
    put_node(w, "/base", "{\"x\":3}");
    wait_for(w, is_json(r.properties, "{\"x\":3,\"y\":2}"));
    assert_string_equal(r.problem, "");
    unwatch(&r);
}

static void loops_of_property_links_are_rejected(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/a", "{\"x =>\":\"/b y\",\"z\":1,\"self =>\":\"/a\"}");
    put_node(w, "/b", "{\"y =>\":\"/a x\"}");
    watch(w, &r, "/a");
    assert_true(r.parses);
    assert_true(is_json(r.properties, "{\"z\":1}"));
    assert_non_null(strstr(r.problem, "property link loop"));
    unwatch(&r);
}

static void a_flood_of_property_links_is_cut(void **state)
{
    struct world *w = *state;
    struct record r;
    struct text text = {0};

    for (int i = 0; i < 5000; ++i)
        text_addf(&text, "%s\"p%d =>\":\"/n%d\"", i == 0 ? "{" : ",", i, i);
    text_add(&text, SLICE_LIT(",\"x\":1}"));
    put_node(w, "/a", text_cstr(&text));
    watch(w, &r, "/a");
    assert_true(is_json(r.properties, "{\"x\":1}"));
    assert_string_not_equal(r.problem, "");
    text_fini(&text);
    unwatch(&r);
}

static unsigned times(const char *text, const char *what)
{
    unsigned n = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; ++at)
        ++n;
    return n;
}

static void a_broken_link_is_logged_once_and_when_it_resolves_again(void **state)
{
    struct world *w = *state;
    struct record workers;
    struct record below;
    struct record holder;
    struct log_capture c;

    log_flush_all();
    log_capture_start(&c);
    put_node(w, "/a", "{\"workers ->\":\"../none\",\"x\":1}");
    watch(w, &workers, "/a/workers");
    watch(w, &below, "/a/workers/deep");
    assert_non_null(strstr(workers.problem, "node /none does not exist"));
    /* A change of other properties of the node does not notify watches through the link. */
    put_node(w, "/a", "{\"workers ->\":\"../none\",\"x\":2}");
    watch(w, &holder, "/a");
    wait_for(w, is_json(holder.properties, "{\"x\":2}"));
    put_node(w, "/none", "{\"y\":1}");
    wait_for(w, workers.exists && workers.problem[0] == '\0');
    put_node(w, "/none/deep", "{}");
    wait_for(w, below.exists);
    unwatch(&workers);
    unwatch(&below);
    unwatch(&holder);
    const char *text = log_capture_end(&c);
    assert_int_equal(times(text, "warn tree-link-broken"), 1);
    assert_non_null(strstr(text,
                           "warn tree-link-broken path=/a/workers reason=\"/a: link workers -> "
                           "../none: node /none does not exist; create it or correct the "
                           "link\" action=\"keep the last known state\"\n"));
    assert_int_equal(times(text, "info tree-links-resolved"), 1);
}

static void a_broken_property_link_is_reported_beside_others(void **state)
{
    struct world *w = *state;
    struct record r;
    struct record other;
    struct text out = {0};
    struct json_writer jw = {.out = &out};

    put_node(w, "/a", "{\"x =>\":\"../defaults\"}");
    put_node(w, "/b", "{\"x =>\":\"/../..\"}");
    put_node(w, "/defaults", "{}");
    watch(w, &r, "/a");
    watch(w, &other, "/b");
    json_open_object(&jw, NULL);
    tree_describe_broken_links(w->tree, "/a", &jw);
    json_close_object(&jw);
    assert_string_equal(text_cstr(&out),
                        "{\"broken_links\":[\"/a: property link x =>: node /defaults has no "
                        "property x; set it or correct the link\"]}");
    assert_non_null(strstr(other.problem, "leaves the tree"));
    put_node(w, "/defaults", "{\"x\":1}");
    wait_for(w, is_json(r.properties, "{\"x\":1}"));
    text_clear(&out);
    jw = (struct json_writer){.out = &out};
    json_open_object(&jw, NULL);
    tree_describe_broken_links(w->tree, "/a", &jw);
    json_close_object(&jw);
    assert_string_equal(text_cstr(&out), "{\"broken_links\":[]}");
    text_fini(&out);
    unwatch(&r);
    unwatch(&other);
}

static void paths_are_joined_and_made_plain(void **state)
{
    static const struct {
        const char *base;
        const char *path;
        const char *result; /* NULL: leaves the tree */
    } rows[] = {
        {"", "", ""},
        {"", "/", ""},
        {"", "a", "/a"},
        {"", "/a//b/", "/a/b"},
        {"/a", "b", "/a/b"},
        {"/a", "/b", "/b"},
        {"/a/b", "../c", "/a/c"},
        {"/a/b", "./c/.", "/a/b/c"},
        {"/a", "..", ""},
        {"/a", "../..", NULL},
        {"", "..", NULL},
        {"/a", "/../b", NULL},
        {"/a", "b/../../c", "/c"},
        {"/a", "...", "/a/..."},
    };
    char out[TREE_PATH_MAX + 1];
    char longest[TREE_PATH_MAX + 2];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        enum err e = tree_path_join(rows[i].base, slice_of(rows[i].path), out);

        assert_int_equal(e, rows[i].result != NULL ? ERR_OK : ERR_RANGE);
        if (rows[i].result != NULL)
            assert_string_equal(out, rows[i].result);
    }
    memset(longest, 'x', sizeof(longest));
    longest[0] = '/';
    assert_int_equal(tree_path_join("", (struct slice){longest, TREE_PATH_MAX}, out), ERR_OK);
    assert_int_equal(strlen(out), TREE_PATH_MAX);
    assert_int_equal(tree_path_join("", (struct slice){longest, TREE_PATH_MAX + 1}, out),
                     ERR_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        tree_test(a_node_link_leads_to_its_target),
        tree_test(links_work_in_the_middle_and_relative_to_their_node),
        tree_test(a_real_child_hides_a_link),
        tree_test(a_link_may_change_or_its_target_come_later),
        tree_test(providers_may_be_linked_to),
        tree_test(loops_of_links_are_rejected),
        tree_test(endless_chains_of_links_are_cut),
        tree_test(links_out_of_the_tree_are_rejected),
        tree_test(property_links_give_the_other_nodes_value),
        tree_test(property_links_go_through_others),
        tree_test(a_property_link_to_nowhere_keeps_its_last_value),
        tree_test(loops_of_property_links_are_rejected),
        tree_test(a_flood_of_property_links_is_cut),
        tree_test(a_broken_link_is_logged_once_and_when_it_resolves_again),
        tree_test(a_broken_property_link_is_reported_beside_others),
        cmocka_unit_test(paths_are_joined_and_made_plain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
