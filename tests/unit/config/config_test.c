/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/config/config.h"

/* Whatever TEXT is rejected for must read exactly EXPECTED. */
static void expect_rejected(struct slice text, const char *expected)
{
    struct config c;
    struct diag d = {0};

    assert_false(config_parse("f.yaml", text, &c, &d));
    assert_string_equal(d.text, expected);
    diag_fini(&d);
}

static struct config parse(const char *text)
{
    struct config c;
    struct diag d = {0};

    if (!config_parse("f.yaml", slice_of(text), &c, &d))
        fail_msg("rejected: %s", d.text);
    assert_null(d.text);
    return c;
}

static void nodes_remember_where_they_stood(void **state)
{
    struct config c = parse("# first\nadmin: {address: 'x y'}\nlisten:\n  - 8080\n  - \"8081\"\n");
    const struct config_node *admin = config_get(c.root, "admin");
    const struct config_node *listen = config_get(c.root, "listen");

    (void)state;
    assert_string_equal(c.file, "f.yaml");
    assert_int_equal(c.root->n, 2);
    assert_int_equal(admin->kind, CONFIG_MAP);
    assert_int_equal(admin->line, 2);
    assert_int_equal(admin->column, 8);
    const struct config_node *address = config_get(admin, "address");
    assert_true(slice_is(address->text, "x y"));
    assert_true(address->quoted);
    assert_int_equal(address->column, 18);
    assert_int_equal(listen->kind, CONFIG_LIST);
    assert_int_equal(listen->n, 2);
    assert_true(slice_is(listen->items[0]->text, "8080"));
    assert_false(listen->items[0]->quoted);
    assert_true(listen->items[1]->quoted);
    assert_int_equal(listen->items[1]->line, 5);
    assert_int_equal(listen->items[1]->column, 5);
    assert_null(config_get(c.root, "nothing"));
    config_fini(&c);
}

static void columns_count_characters_not_bytes(void **state)
{
    struct config c = parse("{\"\xc3\xa9\xc3\xa9\": 1, b: 2}\n");

    (void)state;
    assert_int_equal(config_get(c.root, "b")->column, 14);
    config_fini(&c);
}

static void an_empty_file_is_an_empty_map(void **state)
{
    static const char *const texts[] = {"", "\n# nothing\n", "---\n", "---\n...\n"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); ++i) {
        struct config c = parse(texts[i]);

        assert_int_equal(c.root->kind, CONFIG_MAP);
        assert_int_equal(c.root->n, 0);
        config_fini(&c);
    }
}

static void unsupported_yaml_is_rejected_all_at_once(void **state)
{
    (void)state;
    expect_rejected(SLICE_LIT("a: &x 1\nb: *x\nc: !!str 4\n<<: 1\n"),
                    "f.yaml:1:4: anchors (\"&name\") are not supported; write the value\n"
                    "f.yaml:2:4: references (\"*name\") are not supported; write the value\n"
                    "f.yaml:3:4: tags (\"!type\") are not supported; remove it\n"
                    "f.yaml:4:1: merging (\"<<\") is not supported; write the values\n");
    expect_rejected(SLICE_LIT("a: 1\n---\nb: 2\n"),
                    "f.yaml:2:1: a second document (\"---\") is not supported\n");
    expect_rejected(SLICE_LIT("? [a]\n: 2\n"), "f.yaml:1:3: a name cannot be a list or a map\n");
    expect_rejected(SLICE_LIT("\"\": 2\n"), "f.yaml:1:1: a name cannot be empty\n");
    expect_rejected(SLICE_LIT("- a\n"),
                    "f.yaml:1:1: a configuration is made of \"name: value\" lines\n");
}

static void duplicate_names_are_rejected_at_their_place(void **state)
{
    (void)state;
    expect_rejected(SLICE_LIT("a: 1\nb: {c: 1, d: 2, c: 3}\na: 3\na: 4\n"),
                    "f.yaml:2:17: \"c\" is a duplicate (first in line 2)\n"
                    "f.yaml:3:1: \"a\" is a duplicate (first in line 1)\n"
                    "f.yaml:4:1: \"a\" is a duplicate (first in line 1)\n");
}

static void syntax_errors_are_reported_in_plain_words(void **state)
{
    (void)state;
    expect_rejected(SLICE_LIT("a: b: c\n"), "f.yaml:1:5: \":\" is not permitted here (check the "
                                            "indentation, or put the text in quotes)\n");
    expect_rejected(SLICE_LIT("a:\n\t- b\n"), "f.yaml:2:1: a tab cannot be used for indentation\n");
    expect_rejected(SLICE_LIT("a: @x\n"),
                    "f.yaml:1:4: a text that starts like this must be in quotes\n");
    expect_rejected(SLICE_LIT("x: 1\na: \"x\nb: 2\n"), "f.yaml:2:4: unterminated text in quotes\n");
    expect_rejected(SLICE_LIT("a: [1, 2\nb: 3\n"),
                    "f.yaml:2:2: expected \",\" or \"]\" in this list\n");
    expect_rejected(SLICE_LIT("a: 1\nb\n"), "f.yaml:2:1: expected \":\" after this name\n");
}

static void bytes_that_are_no_text_are_rejected(void **state)
{
    (void)state;
    expect_rejected(SLICE_LIT("a: 1\nb: x\xff\n"), "f.yaml:2:5: not valid UTF-8\n");
    expect_rejected(SLICE_LIT("a: \xc0\x80\n"), "f.yaml:1:4: not valid UTF-8\n");
    expect_rejected(SLICE_LIT("a: \xed\xa0\x80\n"), "f.yaml:1:4: not valid UTF-8\n");
    expect_rejected(SLICE_LIT("a: \x01\n"), "f.yaml:1:4: control characters are not allowed\n");
    expect_rejected(SLICE_LIT("a: x\0y\n"), "f.yaml:1:5: control characters are not allowed\n");
    expect_rejected(SLICE_LIT("a: \"x\\0y\"\n"),
                    "f.yaml:1:4: a text cannot contain a NUL (\"\\0\")\n");
}

static void a_byte_order_mark_at_the_start_is_skipped(void **state)
{
    static const char *const texts[] = {"a: 1\n", "# comment\na: 1\n", "---\na: 1\n", "{a: 1}"};
    char text[64];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); ++i) {
        snprintf(text, sizeof(text), "\xef\xbb\xbf%s", texts[i]);
        struct config c = parse(text);

        assert_true(slice_is(config_get(c.root, "a")->text, "1"));
        config_fini(&c);
    }
    struct config empty = parse("\xef\xbb\xbf");
    assert_int_equal(empty.root->n, 0);
    config_fini(&empty);
    expect_rejected(SLICE_LIT("\xef\xbb\xbf"
                              "a: 1\na: 2\n"),
                    "f.yaml:2:1: \"a\" is a duplicate (first in line 1)\n");
}

static void utf_16_and_utf_32_are_rejected_by_their_names(void **state)
{
    const struct slice texts[] = {SLICE_LIT("\xff\xfe"
                                            "a\0:\0"),
                                  SLICE_LIT("\xfe\xff\0a\0:"), SLICE_LIT("a\0:\0"),
                                  SLICE_LIT("\0a\0:"),
                                  SLICE_LIT("\xff\xfe\0\0"
                                            "a\0\0\0")};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); ++i)
        expect_rejected(texts[i], "f.yaml: is in UTF-16 or UTF-32: save it as UTF-8\n");
}

static void nesting_size_and_number_of_nodes_are_bounded(void **state)
{
    struct text t = {0};
    struct config c;
    struct diag d = {0};

    (void)state;
    text_add(&t, SLICE_LIT("a: "));
    for (int i = 0; i < CONFIG_DEPTH_MAX - 1; ++i)
        text_add_char(&t, '[');
    for (int i = 0; i < CONFIG_DEPTH_MAX - 1; ++i)
        text_add_char(&t, ']');
    assert_true(config_parse("f", text_slice(&t), &c, &d));
    config_fini(&c);

    text_clear(&t);
    text_add(&t, SLICE_LIT("a: "));
    for (int i = 0; i < 100000; ++i)
        text_add_char(&t, '[');
    expect_rejected(text_slice(&t), "f.yaml:1:19: lists and maps are nested too deeply\n");

    text_clear(&t);
    text_add(&t, SLICE_LIT("a: ["));
    for (int i = 0; i < CONFIG_NODES_MAX; ++i)
        text_add(&t, SLICE_LIT("1,"));
    assert_false(config_parse("f", text_slice(&t), &c, &d));
    assert_non_null(strstr(d.text, "too many values"));
    diag_fini(&d);

    text_clear(&t);
    text_reserve(&t, CONFIG_BYTES_MAX + 1);
    memset(t.p, '#', CONFIG_BYTES_MAX + 1);
    t.len = CONFIG_BYTES_MAX + 1;
    expect_rejected(text_slice(&t), "f.yaml: larger than 4194304 bytes\n");
    text_fini(&t);
}

static void problems_are_reported_up_to_a_bound(void **state)
{
    struct text t = {0};
    struct config c;
    struct diag d = {0};
    size_t lines = 0;

    (void)state;
    for (int i = 0; i < 1000; ++i)
        text_addf(&t, "k%d: *x\n", i);
    assert_false(config_parse("f", text_slice(&t), &c, &d));
    assert_int_equal(d.errors, 1000);
    for (const char *p = d.text; *p != '\0'; ++p)
        lines += *p == '\n';
    assert_int_equal(lines, CONFIG_PROBLEMS_MAX + 1);
    assert_non_null(strstr(d.text, "f: further problems are not shown\n"));
    diag_fini(&d);
    text_fini(&t);
}

static void problems_add_to_those_there_already(void **state)
{
    struct config c;
    struct diag d = {0};

    (void)state;
    diag_add(&d, "g.yaml", 0, 0, "first");
    assert_true(config_parse("f.yaml", SLICE_LIT("a: 1\n"), &c, &d));
    config_complain(&c, config_get(c.root, "a"), &d, "second %d", 2);
    config_complain(&c, NULL, &d, "third");
    assert_string_equal(d.text, "f.yaml:1:4: second 2\nf.yaml: third\ng.yaml: first\n");
    config_fini(&c);
    diag_fini(&d);
}

static void reading_reports_why_a_file_cannot_be_read(void **state)
{
    struct config c;
    struct diag d = {0};

    (void)state;
    assert_false(config_read("/nonexistent/x.yaml", &c, &d));
    assert_string_equal(d.text, "/nonexistent/x.yaml: cannot be read: not found\n");
    diag_fini(&d);
    assert_false(config_read("/proc", &c, &d));
    assert_string_equal(d.text, "/proc: cannot be read: Is a directory\n");
    diag_fini(&d);
}

static void reading_takes_a_file(void **state)
{
    char path[] = RLB_TEST_DIR "/config_test.XXXXXX";
    int fd = mkstemp(path);
    struct config c;
    struct diag d = {0};

    (void)state;
    assert_int_not_equal(fd, -1);
    assert_int_equal(write(fd, "a: 1\n", 5), 5);
    close(fd);
    assert_true(config_read(path, &c, &d));
    assert_string_equal(c.file, path);
    assert_true(slice_is(config_get(c.root, "a")->text, "1"));
    config_fini(&c);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_remember_where_they_stood),
        cmocka_unit_test(columns_count_characters_not_bytes),
        cmocka_unit_test(an_empty_file_is_an_empty_map),
        cmocka_unit_test(unsupported_yaml_is_rejected_all_at_once),
        cmocka_unit_test(duplicate_names_are_rejected_at_their_place),
        cmocka_unit_test(syntax_errors_are_reported_in_plain_words),
        cmocka_unit_test(bytes_that_are_no_text_are_rejected),
        cmocka_unit_test(a_byte_order_mark_at_the_start_is_skipped),
        cmocka_unit_test(utf_16_and_utf_32_are_rejected_by_their_names),
        cmocka_unit_test(nesting_size_and_number_of_nodes_are_bounded),
        cmocka_unit_test(problems_are_reported_up_to_a_bound),
        cmocka_unit_test(problems_add_to_those_there_already),
        cmocka_unit_test(reading_reports_why_a_file_cannot_be_read),
        cmocka_unit_test(reading_takes_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
