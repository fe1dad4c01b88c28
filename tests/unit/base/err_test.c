/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/err.h"

static void every_error_has_a_text_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < ERR_COUNT; ++i) {
        assert_true(strlen(err_text((enum err)i)) > 0);
        for (int k = 0; k < i; ++k)
            assert_string_not_equal(err_text((enum err)i), err_text((enum err)k));
    }
    assert_string_equal(err_text(ERR_CONNECT_REFUSED), "connection refused");
}

static void a_diagnosis_collects_lines_with_their_places(void **state)
{
    struct diag d = {0};

    (void)state;
    diag_add(&d, "a.yaml", 3, 7, "bad %s", "value");
    diag_add(&d, "a.yaml", 0, 0, "missing");
    diag_add(&d, NULL, 0, 0, "no file at all");
    assert_int_equal(d.errors, 3);
    assert_string_equal(d.text, "a.yaml:3:7: bad value\na.yaml: missing\nno file at all\n");
    diag_fini(&d);
    assert_null(d.text);
    assert_int_equal(d.errors, 0);
}

static void a_diagnosis_is_in_the_order_of_places(void **state)
{
    struct diag d = {0};

    (void)state;
    diag_add(&d, NULL, 0, 0, "nowhere");
    diag_add(&d, "a.yaml", 0, 0, "whole");
    diag_add(&d, "b.yaml", 1, 1, "other file");
    diag_add(&d, "a.yaml", 12, 1, "late");
    diag_add(&d, "a.yaml", 3, 9, "column 9");
    diag_add(&d, "a.yaml", 3, 2, "column 2");
    diag_add(&d, "a.yaml", 3, 9, "column 9 again");
    assert_int_equal(d.errors, 7);
    assert_string_equal(d.text, "a.yaml:3:2: column 2\n"
                                "a.yaml:3:9: column 9\n"
                                "a.yaml:3:9: column 9 again\n"
                                "a.yaml:12:1: late\n"
                                "a.yaml: whole\n"
                                "b.yaml:1:1: other file\n"
                                "nowhere\n");
    diag_fini(&d);
    assert_int_equal(d.nlines, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_a_text_of_its_own),
        cmocka_unit_test(a_diagnosis_collects_lines_with_their_places),
        cmocka_unit_test(a_diagnosis_is_in_the_order_of_places),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
