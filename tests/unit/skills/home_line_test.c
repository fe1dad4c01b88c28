/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/skills/home_records.h"

#define ROWS(rows) "{\"v\":1,\"homes\":{" rows "}}"

static void a_printed_line_is_read_back(void **state)
{
    const struct home_row rows[] = {
        {.cls = SLICE_LIT("a.example"), .kind = HOME_NEW, .since_age_ms = 7, .rate = 0.25},
        {.cls = SLICE_LIT("b\"\\"),
         .kind = HOME_REASSIGN,
         .from = SLICE_LIT("127.0.0.1:9001"),
         .since_age_ms = UINT64_MAX,
         .used_age_ms = 3}};
    struct text line = {0};
    struct home_line l;
    char why[160] = "";

    (void)state;
    home_line_print(rows, 2, &line);
    assert_true(home_line_is(text_slice(&line)));
    assert_int_equal(home_line_parse((struct slice){line.p, line.len - 1}, &l, why), ERR_OK);
    assert_int_equal(l.n, 2);
    assert_true(slice_is(l.rows[0].cls, "a.example"));
    assert_int_equal(l.rows[0].kind, HOME_NEW);
    assert_int_equal(l.rows[0].since_age_ms, 7);
    assert_true(l.rows[0].rate == 0.25);
    assert_true(slice_is(l.rows[1].cls, "b\"\\"));
    assert_true(slice_is(l.rows[1].from, "127.0.0.1:9001"));
    assert_int_equal(l.rows[1].since_age_ms, HOME_AGE_MAX_MS);
    assert_int_equal(l.rows[1].used_age_ms, 3);
    home_line_fini(&l);
    text_fini(&line);
}

static void reject(const char *line, enum err error, const char *reason)
{
    struct home_line l = {.n = 99};
    char why[160] = "";

    assert_int_equal(home_line_parse(slice_of(line), &l, why), error);
    if (strstr(why, reason) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", why, reason);
    assert_int_equal(l.n, 99);
}

static void an_invalid_line_is_rejected(void **state)
{
    (void)state;
    reject("{\"v\":2,\"homes\":{}}", ERR_RANGE, "version");
    reject("{\"v\":1}", ERR_SYNTAX, "not an object");
    reject("[]", ERR_SYNTAX, "not an object");
    reject(ROWS("\"a\":1"), ERR_SYNTAX, "not [since");
    reject(ROWS("\"a\":[1,1,\"new\",\"\"]"), ERR_SYNTAX, "not [since");
    reject(ROWS("\"a b\":[1,1,\"new\",\"\",0]"), ERR_SYNTAX, "not encoded");
    reject(ROWS("\"a\":[-1,1,\"new\",\"\",0]"), ERR_RANGE, "age");
    reject(ROWS("\"a\":[1,1.5,\"new\",\"\",0]"), ERR_RANGE, "age");
    reject(ROWS("\"a\":[1,2,\"new\",\"\",0]"), ERR_RANGE, "age");
    reject(ROWS("\"a\":[604800001,2,\"new\",\"\",0]"), ERR_RANGE, "age");
    reject(ROWS("\"a\":[1,1,7,\"\",0]"), ERR_SYNTAX, "not a text");
    reject(ROWS("\"a\":[1,1,\"moved\",\"\",0]"), ERR_RANGE, "kind");
    reject(ROWS("\"a\":[1,1,\"\",\"\",0]"), ERR_RANGE, "kind");
    reject(ROWS("\"a\":[1,1,\"reassign\",\"\",0]"), ERR_SYNTAX, "origin");
    reject(ROWS("\"a\":[1,1,\"reassign\",\"a b\",0]"), ERR_SYNTAX, "origin");
    reject(ROWS("\"a\":[1,1,\"new\",\"w\",0]"), ERR_SYNTAX, "origin");
    reject(ROWS("\"a\":[1,1,\"new\",\"\",-0.5]"), ERR_RANGE, "rate");
    reject(ROWS("\"a\":[1,1,\"new\",\"\",1e9]"), ERR_RANGE, "rate");
    reject(ROWS("\"a\":[1,1,\"new\",\"\",\"1\"]"), ERR_RANGE, "rate");
}

static void a_line_has_so_many_rows_and_no_more(void **state)
{
    struct home_row rows[HOME_LINE_ROWS_MAX] = {{.kind = HOME_USED}};
    static char names[HOME_LINE_ROWS_MAX][CLASS_BYTES_MAX + 1];
    struct text line = {0};
    struct home_line l;
    char why[160] = "";

    (void)state;
    for (size_t i = 0; i < HOME_LINE_ROWS_MAX; ++i) {
        snprintf(names[i], sizeof(names[i]), "%0*zu", CLASS_BYTES_MAX, i);
        rows[i].cls = slice_of(names[i]);
    }
    home_line_print(rows, HOME_LINE_ROWS_MAX, &line);
    assert_int_equal(home_line_parse((struct slice){line.p, line.len - 1}, &l, why), ERR_OK);
    assert_int_equal(l.n, HOME_LINE_ROWS_MAX);
    home_line_fini(&l);
    line.len -= 3;
    text_add(&line, SLICE_LIT(",\"x\":[1,1,\"new\",\"\",0]}}"));
    assert_int_equal(home_line_parse(text_slice(&line), &l, why), ERR_TOO_LARGE);
    text_fini(&line);
}

static void a_resume_is_no_such_line(void **state)
{
    (void)state;
    assert_false(home_line_is(SLICE_LIT("")));
    assert_false(home_line_is(SLICE_LIT("{\"v\":1,\"instance\":\"i\",\"homes\":{}}")));
}

static void expect_reported(const char *value, enum home_kind kind, bool passing, const char *from)
{
    struct home_report t;
    struct text printed = {0};

    assert_int_equal(home_report_parse(slice_of(value), &t), ERR_OK);
    assert_int_equal(t.kind, kind);
    assert_int_equal(t.passing, passing);
    assert_true(slice_eq(t.from, slice_of(from)));
    home_report_print(&t, &printed);
    assert_string_equal(text_cstr(&printed), value);
    text_fini(&printed);
}

static void a_report_to_a_worker_is_one_of_four(void **state)
{
    static const char *const bad[] = {"",
                                      "used",
                                      "NEW",
                                      "reassign",
                                      "reassign; from=",
                                      "reassign;from=w",
                                      "new; from=w",
                                      "reassign; from=a b"};
    struct home_report t;

    (void)state;
    expect_reported("new", HOME_NEW, false, "");
    expect_reported("replicate", HOME_REPLICATE, false, "");
    expect_reported("reassign; from=127.0.0.1:9001", HOME_REASSIGN, false, "127.0.0.1:9001");
    expect_reported("passing", HOME_USED, true, "");
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i)
        assert_int_equal(home_report_parse(slice_of(bad[i]), &t), ERR_SYNTAX);
}

static void each_kind_has_a_word_of_its_own(void **state)
{
    (void)state;
    for (int k = 0; k < HOME_KINDS; ++k) {
        const struct home_row row = {.cls = SLICE_LIT("a"),
                                     .kind = (enum home_kind)k,
                                     .from = k == HOME_REASSIGN ? SLICE_LIT("b:1") : SLICE_NULL};
        struct text text = {0};
        struct home_line l;
        char why[160];

        home_line_print(&row, 1, &text);
        assert_int_equal(home_line_parse((struct slice){text.p, text.len - 1}, &l, why), ERR_OK);
        assert_int_equal(l.rows[0].kind, k);
        home_line_fini(&l);
        text_fini(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_a_word_of_its_own),
        cmocka_unit_test(a_printed_line_is_read_back),
        cmocka_unit_test(an_invalid_line_is_rejected),
        cmocka_unit_test(a_line_has_so_many_rows_and_no_more),
        cmocka_unit_test(a_resume_is_no_such_line),
        cmocka_unit_test(a_report_to_a_worker_is_one_of_four),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
