/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/core/resume.h"

static void rows_stay_in_the_order_they_were_added(void **state)
{
    struct resume r = {0};

    (void)state;
    assert_int_equal(resume_add(&r, SLICE_LIT("b.example"), 2.5), ERR_OK);
    assert_int_equal(resume_add(&r, SLICE_LIT("a.example"), -1), ERR_OK);
    assert_int_equal(resume_add(&r, SLICE_NULL, 0), ERR_OK);
    assert_int_equal(r.n, 3);
    assert_true(slice_is(r.rows[0].cls, "b.example"));
    assert_true(slice_is(r.rows[1].cls, "a.example"));
    assert_int_equal(r.rows[2].cls.len, 0);
    assert_true(*resume_find(&r, SLICE_LIT("a.example")) == -1);
    assert_true(*resume_find(&r, SLICE_NULL) == 0);
    assert_null(resume_find(&r, SLICE_LIT("c.example")));
    resume_fini(&r);
    assert_int_equal(r.n, 0);
}

static void add_refuses_scores_that_are_no_numbers(void **state)
{
    struct resume r = {0};

    (void)state;
    assert_int_equal(resume_add(&r, SLICE_LIT("a"), NAN), ERR_RANGE);
    assert_int_equal(resume_add(&r, SLICE_LIT("a"), INFINITY), ERR_RANGE);
    assert_int_equal(resume_add(&r, SLICE_LIT("a"), -INFINITY), ERR_RANGE);
    assert_int_equal(r.n, 0);
    resume_fini(&r);
}

static void add_refuses_a_class_that_is_too_long(void **state)
{
    char name[CLASS_BYTES_MAX + 1];
    struct resume r = {0};

    (void)state;
    memset(name, 'x', sizeof(name));
    assert_int_equal(resume_add(&r, (struct slice){name, sizeof(name)}, 1), ERR_TOO_LARGE);
    assert_int_equal(resume_add(&r, (struct slice){name, CLASS_BYTES_MAX}, 1), ERR_OK);
    resume_fini(&r);
}

static void a_copy_owns_its_rows(void **state)
{
    struct resume a = {0};
    struct resume b = {0};

    (void)state;
    for (int i = 0; i < 100; ++i) {
        char name[16];

        snprintf(name, sizeof(name), "c%d", i);
        assert_int_equal(resume_add(&a, slice_of(name), i), ERR_OK);
    }
    assert_int_equal(resume_add(&b, SLICE_LIT("old"), 1), ERR_OK);
    resume_copy(&b, &a);
    resume_fini(&a);
    assert_int_equal(b.n, 100);
    assert_true(*resume_find(&b, SLICE_LIT("c99")) == 99);
    assert_null(resume_find(&b, SLICE_LIT("old")));
    resume_copy(&b, &a);
    assert_int_equal(b.n, 0);
    resume_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_stay_in_the_order_they_were_added),
        cmocka_unit_test(add_refuses_scores_that_are_no_numbers),
        cmocka_unit_test(add_refuses_a_class_that_is_too_long),
        cmocka_unit_test(a_copy_owns_its_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
