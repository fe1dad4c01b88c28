/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/priority_field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void values_state_urgency_and_incremental(void **state)
{
    static const struct {
        struct slice value;
        unsigned level;
        bool incremental;
    } rows[] = {
#define ROW(value, level, incremental) {{value, sizeof(value) - 1}, level, incremental}
        ROW("", 3, false),
        ROW("u=0", 0, false),
        ROW("u=7", 7, false),
        ROW("i", 3, true),
        ROW("u=1, i", 1, true),
        ROW("i,u=1", 1, true),
        ROW("u=5 \t,\t i=?1", 5, true),
        ROW("i=?1, i=?0", 3, false),
        ROW("u=2, u=4", 4, false),
        ROW("u=2;a;b=\"x\", i;q=1", 2, true),
        /* Unknown members. */
        ROW("u=1, x=\"a,u=7\", i", 1, true),
        ROW("u=1, x=\"a\\\",u=7\", i", 1, true),
        ROW("x=(1 2, u=7), u=2", 2, false),
        ROW("*a.b_c-d=:YQ==:, u=2", 2, false),
        /* Out of range, or of another type: not stated. */
        ROW("u=8, i", 3, true),
        ROW("u=-1", 3, false),
        ROW("u=1.0", 3, false),
        ROW("u=a, i=1", 3, false),
        ROW("u", 3, false),
        ROW("i=?2", 3, false),
        /* Malformed. */
        ROW("u=1,", 3, false),
        ROW("u=1, ", 3, false),
        ROW(",", 3, false),
        ROW("u=1,,i", 3, false),
        ROW("u=1, U=2", 3, false),
        ROW("u=1 i", 3, false),
        ROW("u=, i", 3, false),
        ROW("u=1, x=\"a", 3, false),
        ROW("u=1, x=\"a\\", 3, false),
        ROW("u=1, x=(a", 3, false),
        ROW("u=1, \x80", 3, false),
        ROW("u=1, \0", 3, false),
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        /* As long as the value: the sanitizers would report a byte more. */
        char *copy = xmalloc(rows[i].value.len + 1);

        memcpy(copy, rows[i].value.p, rows[i].value.len + 1);
        struct urgency u =
            priority_field_parse((struct slice){copy, rows[i].value.len}, URGENCY_UNSTATED);
        if (u.level != rows[i].level || u.incremental != rows[i].incremental)
            fail_msg("%s: %u %d", rows[i].value.p, u.level, u.incremental);
        free(copy);
    }
}

static void parameters_that_are_not_stated_remain(void **state)
{
    static const struct urgency base = {.level = 6, .incremental = true};
    struct urgency u;

    (void)state;
    u = priority_field_parse(SLICE_LIT("u=1"), base);
    assert_int_equal(u.level, 1);
    assert_true(u.incremental);
    u = priority_field_parse(SLICE_LIT("i=?0, u=9"), base);
    assert_int_equal(u.level, 6);
    assert_false(u.incremental);
    u = priority_field_parse(SLICE_LIT("u=1, ?"), base);
    assert_int_equal(u.level, 6);
    assert_true(u.incremental);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_state_urgency_and_incremental),
        cmocka_unit_test(parameters_that_are_not_stated_remain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
