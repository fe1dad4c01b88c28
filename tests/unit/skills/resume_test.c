/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "common/skills/resume.h"
#include "tests/support/resume_find.h"

static void rows_stay_in_the_order_they_were_added(void **state)
{
    struct resume r = {0};

    (void)state;
    resume_push(&r, SLICE_LIT("b.example"), 2.5);
    resume_push(&r, SLICE_LIT("a.example"), -1);
    resume_push(&r, SLICE_NULL, 0);
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

static void a_copy_owns_its_rows(void **state)
{
    struct resume a = {0};
    struct resume b = {0};

    (void)state;
    for (int i = 0; i < 100; ++i) {
        char name[16];

        snprintf(name, sizeof(name), "c%d", i);
        resume_push(&a, slice_of(name), i);
    }
    resume_push(&b, SLICE_LIT("old"), 1);
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
        cmocka_unit_test(a_copy_owns_its_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
