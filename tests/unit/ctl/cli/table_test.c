/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cli/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct table_column columns[] = {{"name", false}, {"n", true}, {"last", false}};

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
    struct table t;
    struct text out = {0};

    (void)state;
    table_init(&t, columns, ARRAY_LEN(columns));
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
    table_init(&t, columns, ARRAY_LEN(columns));
    table_print(&t, 0, &out);
    assert_int_equal(out.len, 0);
    table_fini(&t);
}

static void cells_cannot_command_the_terminal(void **state)
{
    struct table t;
    struct text out = {0};

    (void)state;
    table_init(&t, columns, 1);
    table_add(&t, SLICE_LIT("\x1b[2Jx\n"));
    table_print(&t, 0, &out);
    assert_string_equal(text_cstr(&out), "name\n\\x1b[2Jx\\x0a\n");
    text_fini(&out);
    table_fini(&t);
}

static void many_rows_are_kept(void **state)
{
    struct table t;
    struct text out = {0};

    (void)state;
    table_init(&t, columns, 2);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(without_rows_nothing_is_printed),
        cmocka_unit_test(cells_cannot_command_the_terminal),
        cmocka_unit_test(many_rows_are_kept),
        cmocka_unit_test(durations_have_two_parts_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
