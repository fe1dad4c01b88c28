/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/json.h"
#include "common/base/limits.h"
#include "ctl/tree/tree_text.h"

static json_t *parse(struct slice text)
{
    json_t *tree = NULL;
    struct diag d = {0};

    if (tree_text_parse(text, "f", &tree, &d) != ERR_OK)
        fail_msg("rejected: %s", d.text);
    return tree;
}

/* The tree as {name: [properties, {children}]}. */
static json_t *as_json(const json_t *n)
{
    json_t *all = json_object();
    const char *name;
    json_t *child;

    json_object_foreach (json_object_get(n, "nodes"), name, child) {
        json_object_set_new(
            all, name, json_pack("[O, o]", tree_text_member(child, "properties"), as_json(child)));
    }
    return all;
}

static void expect_tree(const char *text, const char *json)
{
    json_t *tree = parse(slice_of(text));
    json_t *got = as_json(tree);
    json_t *want = json_loads(json, 0, NULL);
    struct text shown = {0};

    assert_non_null(want);
    json_print(got, &shown);
    if (!json_equal(got, want))
        fail_msg("%s\nis %s", text, text_cstr(&shown));
    text_fini(&shown);
    json_decref(got);
    json_decref(want);
    json_decref(tree);
}

static void lines_become_nodes_properties_and_links(void **state)
{
    static const struct {
        const char *text;
        const char *json;
    } rows[] = {
        {"", "{}"},
        {"\n  # nothing\n\n", "{}"},
        {"/a", "{\"a\": [{}, {}]}"},
        {"\xef\xbb\xbf/a", "{\"a\": [{}, {}]}"},
        {"/a : some type of thing \n", "{\"a\": [{\"type\": \"some type of thing\"}, {}]}"},
        {"/a: b", "{\"a\": [{\"type\": \"b\"}, {}]}"},
        {"/a :b", "{\"a\": [{\"type\": \"b\"}, {}]}"},
        {"/a:b", "{\"a:b\": [{}, {}]}"},
        {"/a:b c", "{\"a\": [{\"type\": \"b c\"}, {}]}"},
        {"/1.2.3.4:80 : x", "{\"1.2.3.4:80\": [{\"type\": \"x\"}, {}]}"},
        {"/[::1]:80", "{\"[::1]:80\": [{}, {}]}"},
        {"/a\n  b = 1\n  c -> /d\n  e => /f\n  g => ../h i\n",
         "{\"a\": [{\"b\": 1, \"c ->\": \"/d\", \"e =>\": \"/f\", \"g =>\": \"../h i\"}, {}]}"},
        {"/a\n b=1\n c->/d\n e=>/f\n g =>/h i\n",
         "{\"a\": [{\"b\": 1, \"c ->\": \"/d\", \"e =>\": \"/f\", \"g =>\": \"/h i\"}, {}]}"},
        {"/a\n  x = 'y => z'\n", "{\"a\": [{\"x\": \"y => z\"}, {}]}"},
        {"/a\n  x = '-> # /b : c'\n", "{\"a\": [{\"x\": \"-> # /b : c\"}, {}]}"},
        {"/a\n  b=c= 1\n", "{\"a\": [{\"b=c\": 1}, {}]}"},
        {"/a\n  /x = 1\n", "{\"a\": [{\"/x\": 1}, {}]}"},
        {"/a\n  /x:type=5\n", "{\"a\": [{\"/x:type\": 5}, {}]}"},
        {"/a\n  type = 5\n", "{\"a\": [{\"type\": 5}, {}]}"},
        {"/a\n  x = 1\n  /b\n    y = 2\n  z = 3\n/c\n",
         "{\"a\": [{\"x\": 1, \"z\": 3}, {\"b\": [{\"y\": 2}, {}]}], \"c\": [{}, {}]}"},
        {"   /a\n      x = 1\n   /b\n\t\t\t\ty = 2\r\n",
         "{\"a\": [{\"x\": 1}, {}], \"b\": [{\"y\": 2}, {}]}"},
        {"/a\n  x = u'1.2.3.4:80'\n  n = 81176L\n  l = (1, [2.5, None])\n",
         "{\"a\": [{\"x\": \"1.2.3.4:80\", \"n\": 81176, \"l\": [1, [2.5, null]]}, {}]}"},
        {"/\xc3\xa4\n  \xc3\xb6 = 'a\tb'\n", "{\"\xc3\xa4\": [{\"\xc3\xb6\": \"a\\tb\"}, {}]}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i)
        expect_tree(rows[i].text, rows[i].json);
}

static void errors_are_reported_with_line_and_column(void **state)
{
    static const struct {
        const char *text;
        const char *said;
    } rows[] = {
        {"x = 1\n", "f:1:1: a property above the first node\n"},
        {"x -> /a\n", "f:1:1: a property above the first node\n"},
        {"nonsense\n", "f:1:9: expected '/NODE', 'NAME = VALUE'"},
        {"/a\n  b c\n", "f:2:5: expected '/NODE', 'NAME = VALUE'"},
        {"/a b\n", "f:1:4: expected '/NAME' or '/NAME : TYPE'\n"},
        {"/a :\n", "f:1:4: expected '/NAME' or '/NAME : TYPE'\n"},
        {"/\n", "f:1:2: expected '/NAME' or '/NAME : TYPE'\n"},
        {"/ : x\n", "f:1:3: expected '/NAME' or '/NAME : TYPE'\n"},
        {"/a\n  b ->\n", "f:2:5: expected the target of a link"},
        {"/a\n  b -> c d\n", "f:2:5: expected the target of a link"},
        {"/a\n  b =>\n", "f:2:5: expected the target of a link"},
        {"/a\n  b => c d e\n", "f:2:5: expected the target of a link"},
        {"/a\n  b =\n", "f:2:5: expected a value after '='\n"},
        {"/a\n  b = c\n", "f:2:7: expected a string, number"},
        {"/a\n  b = [1, x]\n", "f:2:11: expected a string, number"},
        {"/a\n  b='x=1'\n", "f:2:3: a quote in a name"},
        {"/a\n  \"b\" = 1\n", "f:2:3: a quote in a name"},
        {"/a\n  b=>c = 'd e f'\n", "f:2:3: '=>' in a property's name\n"},
        {"/a/b\n", "f:1:1: a '/' in a node's name"},
        {"/..\n", "f:1:1: '.' and '..' are not valid names\n"},
        {"/a\xe2\x80\xaez\n", "f:1:1: an invisible character in a name\n"},
        {"/a : b\xc2\x9b\n", "f:1:6: an invisible character in a type\n"},
        {"/a\n  b -> /\xef\xbb\xbf\n", "f:2:8: an invisible character in a link\n"},
        {"/a\n  b = 1\n    c = 2\n", "f:3:5: indented deeper than a property"},
        {"/a\n  /b\n  c = 1\n    /d\n", "f:4:5: indented deeper than a property"},
        {"/a\n    b = 1\n  /c\n", "f:3:3: indented unlike any node above\n"},
        {"  /a\n/b\n", "f:2:1: indented unlike any node above\n"},
        {"/a\n  b = 1\n  b = 2\n", "f:3:3: duplicate property\n"},
        {"/a : b\n  type = 2\n", "f:2:3: duplicate property\n"},
        {"/a\n  b -> c\n  b -> d\n", "f:3:3: duplicate property\n"},
        {"/a\n/b\n/a\n", "f:3:1: duplicate node\n"},
        {"/a\n  x = b'\\xff'\n", "f:2:3: bytes that are not text"},
        {"/a\n  string_value = '\\0'\n  b = 1\n", "f:3:3: bytes that are not text"},
        {"/a\n  b = 1\n  string_value = '\\0'\n", "f:3:3: bytes that are not text"},
        {"/a\n  b = 'x\x01'\n", "f:2:9: a control byte\n"},
        {"/a\rb\n", "f:1:3: a control byte\n"},
        {"# \x1b\n", "f:1:3: a control byte\n"},
        {"/a\xff\n", "f:1:3: not UTF-8\n"},
        /* Bad values do not hide one another. */
        {"/a\n  b = x\n  c = y\n", "f:2:7: expected a string, number, list, dict, True, False or "
                                   "None\nf:3:7: expected a string"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        json_t *tree = NULL;
        struct diag d = {0};

        if (tree_text_parse(slice_of(rows[i].text), "f", &tree, &d) == ERR_OK)
            fail_msg("not rejected: %s", rows[i].text);
        assert_null(tree);
        if (strncmp(d.text, rows[i].said, strlen(rows[i].said)) != 0)
            fail_msg("%s\nhas the message: %s", rows[i].text, d.text);
        diag_fini(&d);
    }
}

static void expect_too_large(struct text *text, const char *why)
{
    json_t *tree = NULL;
    struct diag d = {0};

    assert_int_equal(tree_text_parse(text_slice(text), "f", &tree, &d), ERR_TOO_LARGE);
    if (strstr(d.text, why) == NULL)
        fail_msg("says '%s'", d.text);
    diag_fini(&d);
    text_clear(text);
}

static void size_of_a_text_is_bounded(void **state)
{
    struct text t = {0};
    struct diag d = {0};
    json_t *tree = NULL;

    (void)state;
    for (size_t i = 0; i <= TREE_TEXT_NODES_MAX; ++i)
        text_addf(&t, "/%zu\n", i);
    expect_too_large(&t, "f:100001:1: too many nodes");

    for (int i = 0; i <= TREE_TEXT_DEPTH_MAX; ++i)
        text_addf(&t, "%*s/a\n", i, "");
    json_decref(parse(text_slice(&t)));
    text_addf(&t, "%*s/a\n", TREE_TEXT_DEPTH_MAX + 1, "");
    expect_too_large(&t, "f:66:66: nodes nested too deep");

    text_addf(&t, "/a\n  b = '%0*d'\n", TREE_TEXT_LINE_MAX - 8, 1);
    json_decref(parse(text_slice(&t)));
    text_clear(&t);
    text_addf(&t, "/a\n  b = '%0*d'\n", TREE_TEXT_LINE_MAX - 7, 1);
    expect_too_large(&t, "f:2:");

    memset(text_reserve(&t, TREE_TEXT_BYTES_MAX + 1), '\n', TREE_TEXT_BYTES_MAX + 1);
    t.len = TREE_TEXT_BYTES_MAX + 1;
    expect_too_large(&t, "f:1:1: file too long");

    text_addf(&t, "/%0*d\n", TREE_TEXT_NAME_MAX, 1);
    json_decref(parse(text_slice(&t)));
    text_clear(&t);
    text_addf(&t, "/%0*d\n", TREE_TEXT_NAME_MAX + 1, 1);
    assert_int_equal(tree_text_parse(text_slice(&t), "f", &tree, &d), ERR_SYNTAX);
    assert_string_equal(d.text, "f:1:1: name too long\n");
    diag_fini(&d);
    text_clear(&t);

    text_add(&t, SLICE_LIT("/a\n"));
    for (int i = 0; i < 10; ++i) {
        text_addf(&t, "  p%d = [", i);
        for (int k = 0; k < JSON_ENTRIES_MAX / 10; ++k)
            text_add(&t, SLICE_LIT("0,"));
        text_add(&t, SLICE_LIT("]\n"));
    }
    expect_too_large(&t, "too many values in one node");
    text_fini(&t);
}

static void only_so_many_problems_are_reported(void **state)
{
    struct text t = {0};
    struct diag d = {0};
    json_t *tree = NULL;

    (void)state;
    text_add(&t, SLICE_LIT("/a\n"));
    for (int i = 0; i < 2 * TREE_TEXT_PROBLEMS_MAX; ++i)
        text_addf(&t, "  p%d = x\n", i);
    assert_int_equal(tree_text_parse(text_slice(&t), "f", &tree, &d), ERR_SYNTAX);
    assert_int_equal(d.errors, TREE_TEXT_PROBLEMS_MAX);
    diag_fini(&d);
    text_fini(&t);
}

static void line_of_operators_takes_no_longer_than_another(void **state)
{
    struct text t = {0};
    struct diag d = {0};
    json_t *tree = NULL;

    (void)state;
    /* Would take hours if each operator were tried against all of the rest. */
    text_add(&t, SLICE_LIT("/a\n  "));
    while (t.len < TREE_TEXT_LINE_MAX - 100)
        text_add(&t, SLICE_LIT("=>->:"));
    text_add(&t, SLICE_LIT(" a b c d\n"));
    assert_int_equal(tree_text_parse(text_slice(&t), "f", &tree, &d), ERR_SYNTAX);
    diag_fini(&d);
    text_fini(&t);
}

static void expect_printed(const char *text, const char *printed)
{
    json_t *tree = parse(slice_of(text));
    struct text out = {0};
    struct diag d = {0};

    assert_int_equal(tree_text_print(tree, &out, &d), 0);
    assert_null(d.text);
    assert_string_equal(text_cstr(&out), printed);
    json_decref(tree);
    tree = parse(text_slice(&out));
    text_clear(&out);
    assert_int_equal(tree_text_print(tree, &out, &d), 0);
    assert_string_equal(text_cstr(&out), printed);
    json_decref(tree);
    text_fini(&out);
}

static void tree_is_printed_sorted_and_reads_back_the_same(void **state)
{
    (void)state;
    expect_printed("/lb : load balancer\n"
                   "    variance = 4\n"
                   "    main -> /ghm/databases/main\n"
                   "    a -> /b\n"
                   "    threads=>/lb  variance\n"
                   "    /providers\n"
                   "    address = u'1.2.3.4:80'\n"
                   "    /alpha:\tbeta gamma\n"
                   "/10\n"
                   "/1\n",
                   "/1\n"
                   "/10\n"
                   "/lb : load balancer\n"
                   "  address = '1.2.3.4:80'\n"
                   "  threads => /lb  variance\n"
                   "  variance = 4\n"
                   "  a -> /b\n"
                   "  main -> /ghm/databases/main\n"
                   "  /alpha : beta gamma\n"
                   "  /providers\n");
    expect_printed("/a\n  type = ''\n/b\n  type = ' x'\n/c\n  type = [1]\n/d\n  type = 'x'\n",
                   "/a\n  type = ''\n/b\n  type = ' x'\n/c\n  type = [1]\n/d : x\n");
    expect_printed("/a\n  string_value = '\\xff'\n", "/a\n  string_value = b'\\xff'\n");
}

static void names_that_the_format_cannot_state_are_left_out_and_reported(void **state)
{
    static const char *const nodes[] = {"a b", "a=b", "a->b", "#a=b", "a\n", "\xff", ""};
    static const char *const keys[] = {"a b", "", "a'b", "#", "x -> ", "a\xe2\x80\xae", "b -> =>"};
    json_t *top = json_object();
    json_t *good = tree_text_add(top, SLICE_LIT("good"));
    struct text out = {0};
    struct diag d = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(nodes); ++i) {
        json_t *n = tree_text_add(top, slice_of(nodes[i]));

        tree_text_add(n, SLICE_LIT("below"));
    }
    for (size_t i = 0; i < ARRAY_LEN(keys); ++i)
        json_object_set_new_nocheck(tree_text_member(good, "properties"), keys[i],
                                    json_string("/x"));
    json_object_set_new(tree_text_member(good, "properties"), "l ->", json_integer(1));
    json_object_set_new(tree_text_member(good, "properties"), "m ->", json_string("/x /y"));
    json_object_set_new(tree_text_member(good, "properties"), "n =>", json_string("/x y z"));
    json_object_set_new(tree_text_member(good, "properties"), "o =>", json_string(" /x"));
    json_object_set_new(tree_text_member(good, "properties"), "p", json_integer(1));
    json_object_set_new(tree_text_member(top, "properties"), "p", json_integer(1));
    size_t n = tree_text_print(top, &out, &d);
    assert_int_equal(n, ARRAY_LEN(nodes) + ARRAY_LEN(keys) + 5);
    assert_int_equal(d.errors, n);
    assert_non_null(strstr(d.text, "/: not representable in this format: properties of the top"));
    assert_non_null(
        strstr(d.text, "/a b: not representable in this format: a node with an odd name"));
    assert_non_null(
        strstr(d.text, "/good, l ->: not representable in this format: a property or link"));
    assert_null(strstr(text_cstr(&out), "below"));
    /* Only comments in their place. */
    json_t *again = parse(text_slice(&out));
    json_t *kept = tree_text_member(again, "nodes");
    assert_int_equal(json_object_size(kept), 1);
    json_t *properties = tree_text_member(json_object_get(kept, "good"), "properties");
    assert_int_equal(json_object_size(properties), 1);
    json_decref(again);
    json_decref(top);
    diag_fini(&d);
    text_fini(&out);
}

static void people_are_shown_odd_names_in_quotes_and_remarks(void **state)
{
    json_t *top = json_object();
    json_t *odd = tree_text_add(top, SLICE_LIT("a b\n"));
    struct text out = {0};

    (void)state;
    json_object_set_new(odd, "remark", json_string("a \x1b provider"));
    json_object_set_new(tree_text_member(odd, "properties"), "c d", json_integer(1));
    json_object_set_new(tree_text_member(odd, "properties"), "e f ->", json_string("/x y"));
    json_object_set_new(tree_text_member(odd, "properties"), "g =>", json_null());
    tree_text_add(odd, SLICE_LIT("below"));
    json_object_set_new(tree_text_member(top, "properties"), "p", json_integer(1));
    assert_int_equal(tree_text_print(top, &out, NULL), 0);
    assert_string_equal(text_cstr(&out), "p = 1\n"
                                         "/'a b\\n'\n"
                                         "  # a \\x1b provider\n"
                                         "  'c d' = 1\n"
                                         "  'g =>' None\n"
                                         "  'e f ->' '/x y'\n"
                                         "  /below\n");
    json_decref(top);
    text_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_nodes_properties_and_links),
        cmocka_unit_test(errors_are_reported_with_line_and_column),
        cmocka_unit_test(size_of_a_text_is_bounded),
        cmocka_unit_test(only_so_many_problems_are_reported),
        cmocka_unit_test(line_of_operators_takes_no_longer_than_another),
        cmocka_unit_test(tree_is_printed_sorted_and_reads_back_the_same),
        cmocka_unit_test(names_that_the_format_cannot_state_are_left_out_and_reported),
        cmocka_unit_test(people_are_shown_odd_names_in_quotes_and_remarks),
    };

    return cmocka_run_group_tests_name("tree_text", tests, NULL, NULL);
}
