/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/json.h"
#include "common/base/literal.h"

enum { ENTRIES = 1000 };

/* In memory of exactly its size, so that reading past the end shows. */
static enum err parse(struct slice s, json_t **v, struct literal_problem *p)
{
    size_t entries = ENTRIES;
    char *exact = xmalloc(s.len + 1);

    memcpy(exact + 1, s.p, s.len);
    enum err e = literal_parse((struct slice){exact + 1, s.len}, &entries, v, p);
    free(exact);
    return e;
}

static void values_are_read_and_written_as_python_does(void **state)
{
    static const struct {
        const char *text;
        const char *json;
        const char *printed; /* NULL: as it came */
    } rows[] = {
        {"'abc'", "\"abc\"", NULL},
        {"\"abc\"", "\"abc\"", "'abc'"},
        {"u'abc'", "\"abc\"", "'abc'"},
        {"U\"a'b\"", "\"a'b\"", "\"a'b\""},
        {"'a\"b'", "\"a\\\"b\"", NULL},
        {"'a\\'b\"'", "\"a'b\\\"\"", NULL},
        {"b'abc'", "\"abc\"", "'abc'"},
        {"'\\\\\\'\\\"\\n\\r\\t'", "\"\\\\'\\\"\\n\\r\\t\"", "'\\\\\\'\"\\n\\r\\t'"},
        {"'\\a\\b\\f\\v'", "\"\\u0007\\b\\f\\u000b\"", "'\\x07\\x08\\x0c\\x0b'"},
        {"'\\x41\\101\\7'", "\"AA\\u0007\"", "'AA\\x07'"},
        {"'\\q'", "\"\\\\q\"", "'\\\\q'"},
        {"b'\\u0041'", "\"\\\\u0041\"", "'\\\\u0041'"},
        {"'\\u00e4\\U0001f600'", "\"\xc3\xa4\xf0\x9f\x98\x80\"", "'\xc3\xa4\xf0\x9f\x98\x80'"},
        {"u'\\ud83d\\ude00'", "\"\xf0\x9f\x98\x80\"", "'\xf0\x9f\x98\x80'"},
        {"u'\\xe4'", "\"\xc3\xa4\"", "'\xc3\xa4'"},
        {"'\\xc3\\xa4'", "\"\xc3\xa4\"", "'\xc3\xa4'"},
        {"u'\\x9b\\u2028'", "\"\xc2\x9b\xe2\x80\xa8\"", NULL},
        {"'a' \"b\"\tu'c'", "\"abc\"", "'abc'"},
        {"'''a'''", "\"a\"", "'a'"},
        {"''", "\"\"", NULL},
        {"0", "0", NULL},
        {"-7", "-7", NULL},
        {"+7", "7", "7"},
        {"81176L", "81176", "81176"},
        {"0x1F", "31", "31"},
        {"-0xff", "-255", "-255"},
        {"0o17", "15", "15"},
        {"0b101", "5", "5"},
        {"9223372036854775807", "9223372036854775807", NULL},
        {"-9223372036854775808", "-9223372036854775808", NULL},
        {"1.5", "1.5", NULL},
        {".5", "0.5", "0.5"},
        {"5.", "5.0", "5.0"},
        {"-2.5E-3", "-0.0025", "-0.0025"},
        {"1e22", "1e+22", "1e+22"},
        {"-0.0", "-0.0", NULL},
        {"True", "true", NULL},
        {"False", "false", NULL},
        {"None", "null", NULL},
        {"[]", "[]", NULL},
        {"()", "[]", "[]"},
        {"(1)", "1", "1"},
        {"(1,)", "[1]", "[1]"},
        {"( 1 , 2 )", "[1,2]", "[1, 2]"},
        {"[1, [2, 'x'], ]", "[1,[2,\"x\"]]", "[1, [2, 'x']]"},
        {"{}", "{}", NULL},
        {"{'b': 1, u'a': {'c': None}}", "{\"a\":{\"c\":null},\"b\":1}",
         "{'a': {'c': None}, 'b': 1}"},
        {" 1\t", "1", "1"},
        {"[[[[[[[1]]]]]]]", "[[[[[[[1]]]]]]]", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        struct literal_problem p = {0};
        struct text text = {0};
        json_t *v = NULL;
        json_t *want = json_loads(rows[i].json, JSON_DECODE_ANY, NULL);

        assert_non_null(want);
        if (parse(slice_of(rows[i].text), &v, &p) != ERR_OK)
            fail_msg("%s: %s at %zu", rows[i].text, p.why, p.at);
        if (!json_equal(v, want))
            fail_msg("%s: not %s", rows[i].text, rows[i].json);
        literal_print(v, &text);
        assert_string_equal(text_cstr(&text),
                            rows[i].printed != NULL ? rows[i].printed : rows[i].text);
        json_decref(v);
        json_decref(want);
        text_fini(&text);
    }
}

static void an_invalid_literal_is_rejected_at_its_first_wrong_byte(void **state)
{
    static const struct {
        const char *text;
        enum err e;
        size_t at;
        const char *why;
    } rows[] = {
        {"", ERR_SYNTAX, 0, "value is missing"},
        {"  ", ERR_SYNTAX, 2, "value is missing"},
        {"x", ERR_SYNTAX, 0, "expected a string"},
        {"true", ERR_SYNTAX, 0, "expected a string"},
        {"nan", ERR_SYNTAX, 0, "expected a string"},
        {"Truely", ERR_SYNTAX, 0, "expected a string"},
        {"__import__('os')", ERR_SYNTAX, 0, "expected a string"},
        {"1 + 1", ERR_SYNTAX, 2, "unexpected text after"},
        {"'a' % 1", ERR_SYNTAX, 4, "unexpected text after"},
        {"1 # one", ERR_SYNTAX, 2, "unexpected text after"},
        {"'a", ERR_SYNTAX, 0, "unterminated string"},
        {"'a\\'", ERR_SYNTAX, 0, "unterminated string"},
        {"r'a'", ERR_SYNTAX, 0, "raw strings"},
        {"'\\x4'", ERR_SYNTAX, 4, "hexadecimal"},
        {"'\\u00e'", ERR_SYNTAX, 6, "hexadecimal"},
        {"'\\N{DIGIT ONE}'", ERR_SYNTAX, 2, "names of characters"},
        {"'\\777'", ERR_RANGE, 2, "octal"},
        {"u'\\ud83d'", ERR_RANGE, 4, "half of a surrogate"},
        {"u'\\ude00'", ERR_RANGE, 4, "half of a surrogate"},
        {"u'\\ud83d\\u0041'", ERR_RANGE, 4, "half of a surrogate"},
        {"'\\U00110000'", ERR_RANGE, 3, "above U+10FFFF"},
        {"-", ERR_SYNTAX, 0, "not a number"},
        {"--1", ERR_SYNTAX, 0, "not a number"},
        {".", ERR_SYNTAX, 0, "not a number"},
        {"1e", ERR_SYNTAX, 0, "not a number"},
        {"010", ERR_SYNTAX, 0, "begins with 0"},
        {"-010", ERR_SYNTAX, 0, "begins with 0"},
        {"1_000", ERR_SYNTAX, 1, "not part of a number"},
        {"1j", ERR_SYNTAX, 1, "not part of a number"},
        {"1.2.3", ERR_SYNTAX, 3, "not part of a number"},
        {"1.5L", ERR_SYNTAX, 3, "not part of a number"},
        {"0x", ERR_SYNTAX, 2, "not a digit"},
        {"0b12", ERR_SYNTAX, 3, "not a digit"},
        {"9223372036854775808", ERR_RANGE, 0, "64 bits"},
        {"0xffffffffffffffff", ERR_RANGE, 0, "64 bits"},
        {"0x10000000000000000", ERR_RANGE, 0, "64 bits"},
        {"100000000000000000000000000", ERR_RANGE, 0, "64 bits"},
        {"1e999", ERR_RANGE, 0, "number out of range"},
        {"[1", ERR_SYNTAX, 2, "expected ',' or ']'"},
        {"[1 2]", ERR_SYNTAX, 3, "expected ',' or ']'"},
        {"[,]", ERR_SYNTAX, 1, "expected a string"},
        {"(1", ERR_SYNTAX, 2, "expected ',' or ')'"},
        {"{'a'}", ERR_SYNTAX, 4, "expected ':'"},
        {"{'a': 1", ERR_SYNTAX, 7, "expected ',' or '}'"},
        {"{1: 2}", ERR_SYNTAX, 1, "a key must be"},
        {"{'a': 1, 'a': 2}", ERR_SYNTAX, 9, "duplicate key"},
        {"['\\xff']", ERR_SYNTAX, 1, "bytes that are not text"},
        {"{'\\x00': 1}", ERR_SYNTAX, 1, "bytes that are not text"},
        {"[[[[[[[[1]]]]]]]]", ERR_TOO_LARGE, 7, "nested too deep"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        struct literal_problem p = {0};
        json_t *v = NULL;
        enum err e = parse(slice_of(rows[i].text), &v, &p);

        assert_null(v);
        if (e != rows[i].e)
            fail_msg("%s: %s", rows[i].text, err_text(e));
        if (strstr(p.why, rows[i].why) == NULL)
            fail_msg("%s: says '%s'", rows[i].text, p.why);
        if (p.at != rows[i].at)
            fail_msg("%s: at %zu", rows[i].text, p.at);
    }
}

static void values_of_one_node_are_counted_in_all(void **state)
{
    size_t entries = 5;
    json_t *v = NULL;
    struct literal_problem p = {0};

    (void)state;
    assert_int_equal(literal_parse(SLICE_LIT("[1, 2]"), &entries, &v, &p), ERR_OK);
    json_decref(v);
    assert_int_equal(entries, 1);
    assert_int_equal(literal_parse(SLICE_LIT("[1, 2]"), &entries, &v, &p), ERR_TOO_LARGE);
    assert_int_equal(entries, 1);
    assert_string_equal(p.why, "too many values in one node");
}

static void bytes_that_are_no_text_come_back_as_they_were(void **state)
{
    struct literal_problem p = {0};
    struct text text = {0};
    json_t *v = NULL;

    (void)state;
    assert_int_equal(parse(SLICE_LIT("b'\\xff\\0\\n\\'\\303'"), &v, &p), ERR_OK);
    assert_int_equal(json_string_length(v), 5);
    assert_memory_equal(json_string_value(v), "\xff\0\n'\xc3", 5);
    literal_print(v, &text);
    assert_string_equal(text_cstr(&text), "b\"\\xff\\x00\\n'\\xc3\"");
    json_decref(v);
    text_fini(&text);
}

static void only_what_can_be_seen_is_visible(void **state)
{
    static const char *const hidden[] = {"\n",           "\x1b[2J",      "\x7f",         "\xc2\x85",
                                         "\xe2\x80\xae", "\xef\xbb\xbf", "\xe2\x80\x8b", "\xff"};

    (void)state;
    assert_true(literal_is_visible(SLICE_LIT("a b\xc3\xa4\xf0\x9f\x98\x80")));
    for (size_t i = 0; i < ARRAY_LEN(hidden); ++i)
        assert_false(literal_is_visible(slice_of(hidden[i])));
    assert_true(literal_is_text(SLICE_LIT("\n\x1b")));
    assert_false(literal_is_text(SLICE_LIT("a\0b")));
    assert_false(literal_is_text(SLICE_LIT("a\xc3")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_and_written_as_python_does),
        cmocka_unit_test(an_invalid_literal_is_rejected_at_its_first_wrong_byte),
        cmocka_unit_test(values_of_one_node_are_counted_in_all),
        cmocka_unit_test(bytes_that_are_no_text_come_back_as_they_were),
        cmocka_unit_test(only_what_can_be_seen_is_visible),
    };

    return cmocka_run_group_tests_name("literal", tests, NULL, NULL);
}
