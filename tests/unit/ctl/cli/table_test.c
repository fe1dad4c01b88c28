/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cli/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
    struct table t;
    struct text out = {0};

    (void)state;
    table_begin(&t, "name|>n|last");
    table_add(&t, SLICE_LIT("a"));
    table_addf(&t, "%d", 7);
    table_add(&t, SLICE_LIT("x"));
    table_add(&t, SLICE_LIT("longer"));
    table_addf(&t, "%d", 1234);
    table_add(&t, SLICE_LIT("yy"));
    table_print(&t, 2, &out);
    assert_string_equal(text_cstr(&out), "  name       n  last\n"
                                         "  a          7  x\n"
                                         "  longer  1234  yy\n");
    text_fini(&out);
    table_fini(&t);
}

static void without_rows_nothing_is_printed(void **state)
{
    struct table t;
    struct text out = {0};

    (void)state;
    table_begin(&t, "name|>n|last");
    table_print(&t, 0, &out);
    assert_int_equal(out.len, 0);
    table_fini(&t);
}

static void cells_cannot_command_the_terminal(void **state)
{
    struct table t;
    struct text out = {0};

    (void)state;
    table_begin(&t, "a = 1");
    table_add(&t, SLICE_LIT("\x1b[2Jx\n"));
    table_print(&t, 0, &out);
    assert_string_equal(text_cstr(&out), "a = 1\n\\x1b[2Jx\\x0a\n");
    text_fini(&out);
    table_fini(&t);
}

static void many_rows_are_kept(void **state)
{
    struct table t;
    struct text out = {0};

    (void)state;
    table_begin(&t, "name|>n");
    for (int i = 0; i < 2000; ++i)
        table_addf(&t, "%04d", i);
    table_print(&t, 0, &out);
    /* 4 + 2 + 4 and the end of the line, for the titles and 1000 rows. */
    assert_int_equal(out.len, 11 * 1001);
    assert_string_equal(text_cstr(&out) + out.len - 11, "1998  1999\n");
    text_fini(&out);
    table_fini(&t);
}

static void durations_have_two_parts_at_most(void **state)
{
    static const struct {
        double seconds;
        const char *text;
    } rows[] = {{0, "0s"},          {-5, "0s"},        {59.9, "59s"},
                {60, "1m 0s"},      {3599, "59m 59s"}, {3600, "1h 0m"},
                {86399, "23h 59m"}, {90000, "1d 1h"},  {1e300, "0s"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        struct text out = {0};

        page_add_duration(&out, rows[i].seconds);
        assert_string_equal(text_cstr(&out), rows[i].text);
        text_fini(&out);
    }
}

static void formats_show_members_and_leave_out_parts(void **state)
{
    static const struct {
        const char *format, *text;
    } rows[] = {
        {"{s}, {n}, {none}, {o.s}", "a\\x22, -, -, b"},
        {"{s:w}", "a\""},
        {"{n:i} {n:d} {none:i} {none:d} {r:i}", "7 7 - 0 2"},
        {"{r:%.1f s} {s:%.1f s} {n:t} {n:T} {n:m}",
         "2.5 s - 7s 1970-01-01 00:00:07 1970-01-01 00:00"},
        {"x[, {none}][, {empty}][, {zero:d}][, {n:d}]y", "x, 7y"},
        {"[{yes:?}1][{no:?}2][{yes:!}3][{no:!}4 {s:w}][{none:!}5]", "14 a\"5"},
    };
    json_t *v = json_pack("{s:s, s:i, s:f, s:s, s:i, s:b, s:b, s:{s:s}}", "s", "a\"", "n", 7, "r",
                          2.5, "empty", "", "zero", 0, "yes", 1, "no", 0, "o", "s", "b");

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        struct text out = {0};

        page_add(&out, v, rows[i].format);
        assert_string_equal(text_cstr(&out), rows[i].text);
        text_fini(&out);
    }
    json_decref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(without_rows_nothing_is_printed),
        cmocka_unit_test(cells_cannot_command_the_terminal),
        cmocka_unit_test(many_rows_are_kept),
        cmocka_unit_test(durations_have_two_parts_at_most),
        cmocka_unit_test(formats_show_members_and_leave_out_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
