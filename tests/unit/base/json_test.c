/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/json.h"
#include "common/base/limits.h"

static void expect_rejected(struct slice text, enum err error, const char *reason)
{
    json_t *v = NULL;
    char why[JSON_WHY_ROOM] = "";

    assert_int_equal(json_parse(text, 1000, &v, why), error);
    assert_null(v);
    if (strstr(why, reason) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", why, reason);
    /* A reason is fit for a log line. */
    for (const char *c = why; *c != '\0'; ++c)
        assert_in_range(*c, 0x20, 0x7e);
    assert_int_equal(json_parse(text, 1000, &v, NULL), error);
}

static json_t *parse(const char *text)
{
    json_t *v = NULL;
    char why[JSON_WHY_ROOM] = "";

    if (json_parse(slice_of(text), 1 << 20, &v, why) != ERR_OK)
        fail_msg("rejected: %s", why);
    return v;
}

static void one_value_of_any_kind_is_taken(void **state)
{
    static const char *const texts[] = {"{}",  "[]",  "null",  "true",
                                        "-12", "1.5", "\"x\"", "{\"a\":[1,{\"b\":null}]}"};
    struct text t = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); ++i) {
        json_t *v = parse(texts[i]);

        text_clear(&t);
        json_print(v, &t);
        assert_string_equal(text_cstr(&t), texts[i]);
        json_decref(v);
    }
    text_fini(&t);
}

static void invalid_json_is_rejected_with_its_place(void **state)
{
    (void)state;
    expect_rejected(SLICE_LIT(""), ERR_SYNTAX, "line 1");
    expect_rejected(SLICE_NULL, ERR_SYNTAX, "line 1");
    expect_rejected(SLICE_LIT("{}\n {}"), ERR_SYNTAX, "line 2, column 2: end of file expected");
    expect_rejected(SLICE_LIT("{\"a\":1,\"a\":2}"), ERR_SYNTAX, "duplicate");
    expect_rejected(SLICE_LIT("{a:1}"), ERR_SYNTAX, "string or '}' expected");
    expect_rejected(SLICE_LIT("[1,]"), ERR_SYNTAX, "line 1");
    expect_rejected(SLICE_LIT("NaN"), ERR_SYNTAX, "line 1");
    expect_rejected(SLICE_LIT("01"), ERR_SYNTAX, "line 1");
    expect_rejected(SLICE_LIT("1e999"), ERR_SYNTAX, "real number overflow");
    expect_rejected(SLICE_LIT("99999999999999999999"), ERR_SYNTAX, "too big integer");
    expect_rejected(SLICE_LIT("\"a"), ERR_SYNTAX, "line 1");
    expect_rejected(SLICE_LIT("\"\x1b[31m\""), ERR_SYNTAX, "control character");
}

static void nul_and_bytes_that_are_no_utf8_are_rejected(void **state)
{
    (void)state;
    expect_rejected(SLICE_LIT("\"a\\u0000b\""), ERR_SYNTAX, "\\u0000");
    expect_rejected(SLICE_LIT("{\"a\\u0000b\":1}"), ERR_SYNTAX, "u0000");
    expect_rejected(SLICE_LIT("\"a\0b\""), ERR_SYNTAX, "NUL byte");
    expect_rejected(SLICE_LIT("1\0"), ERR_SYNTAX, "NUL byte");
    expect_rejected(SLICE_LIT("\"\xff\""), ERR_SYNTAX, "unable to decode");
    expect_rejected(SLICE_LIT("\"\xed\xa0\x80\""), ERR_SYNTAX, "unable to decode");
    expect_rejected(SLICE_LIT("\"\\ud800\""), ERR_SYNTAX, "line 1");
}

static void repeat(struct text *t, const char *s, int times)
{
    for (int i = 0; i < times; ++i)
        text_add(t, slice_of(s));
}

static void bytes_depth_and_entries_are_bounded(void **state)
{
    struct text t = {0};
    json_t *v = NULL;

    (void)state;
    assert_int_equal(json_parse(SLICE_LIT("[1, 2]"), 5, &v, NULL), ERR_TOO_LARGE);
    assert_int_equal(json_parse(SLICE_LIT("[1, 2]"), 6, &v, NULL), ERR_OK);
    json_decref(v);

    repeat(&t, "[", JSON_DEPTH_MAX);
    repeat(&t, "]", JSON_DEPTH_MAX);
    v = parse(text_cstr(&t));
    json_decref(v);
    v = NULL;
    text_clear(&t);
    repeat(&t, "{\"a\":", JSON_DEPTH_MAX + 1);
    assert_int_equal(json_parse(text_slice(&t), 1 << 20, &v, NULL), ERR_TOO_LARGE);

    text_clear(&t);
    text_add(&t, SLICE_LIT("[1"));
    repeat(&t, ",1", JSON_ENTRIES_MAX - 1);
    text_add(&t, SLICE_LIT("]"));
    v = parse(text_cstr(&t));
    json_decref(v);
    v = NULL;
    t.len -= 1;
    text_add(&t, SLICE_LIT(",1]"));
    assert_int_equal(json_parse(text_slice(&t), 1 << 20, &v, NULL), ERR_TOO_LARGE);
    assert_null(v);
    text_fini(&t);
}

static void brackets_in_strings_do_not_count(void **state)
{
    json_t *v = parse("\"[[[[[[[[[[[[ \\\" {{{{{{{{{{{{\"");

    (void)state;
    assert_true(json_is_string(v));
    json_decref(v);
    v = parse("[[[[[[[[]]]]]]],[[[[[[[\"\\\\\"]]]]]]]]");
    assert_int_equal(json_array_size(v), 2);
    json_decref(v);
}

static void members_are_read_as_texts(void **state)
{
    json_t *v = parse("{\"a\":\"x\",\"b\":\"\",\"c\":1}");

    (void)state;
    assert_true(slice_is(json_text(v, "a"), "x"));
    assert_non_null(json_text(v, "b").p);
    assert_null(json_text(v, "c").p);
    assert_null(json_text(v, "d").p);
    assert_null(json_text(json_object_get(v, "a"), "a").p);
    assert_null(json_text(NULL, "a").p);
    json_decref(v);
}

static void scalars_become_the_texts_settings_take(void **state)
{
    static const char *const texts[][2] = {{"true", "true"}, {"false", "false"}, {"12", "12"},
                                           {"-3", "-3"},     {"1.5", "1.5"},     {"0.1", "0.1"},
                                           {"4.0", "4"},     {"\"abc\"", "abc"}, {"1e3", "1000"}};
    struct text t = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); ++i) {
        json_t *v = parse(texts[i][0]);

        text_clear(&t);
        assert_true(json_scalar_text(v, &t));
        assert_string_equal(text_cstr(&t), texts[i][1]);
        json_decref(v);
    }
    text_clear(&t);
    json_t *v = parse("[null, [], {}]");
    for (size_t i = 0; i < 3; ++i)
        assert_false(json_scalar_text(json_array_get(v, i), &t));
    assert_int_equal(t.len, 0);
    json_decref(v);
    text_fini(&t);
}

static void printing_sorts_and_keeps_numbers_short_and_their_kind(void **state)
{
    json_t *v = parse("{\"b\": 0.1, \"a\": {\"z\": 4.0, \"y\": 1e300}, \"c\": \"\\u00e9\\n\\\"\"}");
    struct text t = {0};

    (void)state;
    json_print(v, &t);
    assert_string_equal(text_cstr(&t),
                        "{\"a\":{\"y\":1e+300,\"z\":4.0},\"b\":0.1,\"c\":\"\xc3\xa9\\n\\\"\"}");
    json_t *again = parse(text_cstr(&t));
    assert_true(json_equal(v, again));
    json_decref(again);
    json_decref(v);
    text_fini(&t);
}

static void the_writer_places_commas_and_names(void **state)
{
    struct text t = {0};
    struct json_writer w = {.out = &t};

    (void)state;
    json_open_object(&w, NULL);
    json_put_int(&w, "i", INT64_MIN);
    json_put_real(&w, "r", 0.1);
    json_put_real(&w, "n", (double)NAN);
    json_put_real(&w, "f", -HUGE_VAL);
    json_put_bool(&w, "b", true);
    json_put_null(&w, "z");
    json_open_array(&w, "list");
    json_open_array(&w, NULL);
    json_close_array(&w);
    json_open_object(&w, NULL);
    json_close_object(&w);
    json_put_text(&w, NULL, SLICE_NULL);
    json_close_array(&w);
    json_put_real_named(&w, SLICE_LIT("a\"\xff"), 1);
    json_put_real_named(&w, SLICE_NULL, 2);
    json_close_object(&w);
    assert_string_equal(text_cstr(&t),
                        "{\"i\":-9223372036854775808,\"r\":0.1,\"n\":null,\"f\":null,"
                        "\"b\":true,\"z\":null,\"list\":[[],{},\"\"],"
                        "\"a\\\"\xef\xbf\xbd\":1,\"\":2}");
    json_decref(parse(text_cstr(&t)));
    text_fini(&t);
}

static void expect_written(struct slice bytes, const char *written)
{
    struct text t = {0};
    struct json_writer w = {.out = &t};

    json_put_text(&w, NULL, bytes);
    assert_string_equal(text_cstr(&t), written);
    text_fini(&t);
}

static void the_writer_replaces_what_is_no_utf8(void **state)
{
    (void)state;
    expect_written(SLICE_LIT("a\x01\x7f\"\\\n"), "\"a\\u0001\\u007f\\\"\\\\\\n\"");
    expect_written(SLICE_LIT("\0"), "\"\\u0000\"");
    expect_written(SLICE_LIT("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
                   "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    /* cut short, overlong, surrogate, beyond the last */
    expect_written(SLICE_LIT("\xe2\x82"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    expect_written(SLICE_LIT("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    expect_written(SLICE_LIT("\xe0\x80\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    expect_written(SLICE_LIT("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    expect_written(SLICE_LIT("\xf4\x90\x80\x80"),
                   "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    expect_written(SLICE_LIT("\xe2(\xa1"), "\"\xef\xbf\xbd(\xef\xbf\xbd\"");
}

static void the_writer_leaves_no_control_character(void **state)
{
    (void)state;
    expect_written(SLICE_LIT("\xc2\x80\xc2\x85\xc2\x9b\xc2\x9f\xc2\xa0"),
                   "\"\\u0080\\u0085\\u009b\\u009f\xc2\xa0\"");
    /* Single bytes of them are not UTF-8. */
    expect_written(SLICE_LIT("\x80\x9f"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void whatever_bytes_are_written_can_be_read(void **state)
{
    struct text t = {0};

    (void)state;
    for (unsigned a = 1; a < 256; ++a) {
        for (unsigned b = 1; b < 256; ++b) {
            char bytes[] = {(char)a, (char)b, (char)0x80};
            struct json_writer w = {.out = &t};

            text_clear(&t);
            json_put_text(&w, NULL, (struct slice){bytes, 3});
            json_decref(parse(text_cstr(&t)));
        }
    }
    text_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_value_of_any_kind_is_taken),
        cmocka_unit_test(invalid_json_is_rejected_with_its_place),
        cmocka_unit_test(nul_and_bytes_that_are_no_utf8_are_rejected),
        cmocka_unit_test(bytes_depth_and_entries_are_bounded),
        cmocka_unit_test(brackets_in_strings_do_not_count),
        cmocka_unit_test(members_are_read_as_texts),
        cmocka_unit_test(scalars_become_the_texts_settings_take),
        cmocka_unit_test(printing_sorts_and_keeps_numbers_short_and_their_kind),
        cmocka_unit_test(the_writer_places_commas_and_names),
        cmocka_unit_test(the_writer_replaces_what_is_no_utf8),
        cmocka_unit_test(the_writer_leaves_no_control_character),
        cmocka_unit_test(whatever_bytes_are_written_can_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
