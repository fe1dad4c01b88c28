/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/simulate/simulate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

enum { MANY = 64 };

/* Classes with so many requests each; the first may be the nameless one. */
struct made {
    char names[MANY][24];
    struct class_count classes[MANY];
    struct class_counts counts;
};

static void make(struct made *m, const uint64_t *requests, size_t n, bool nameless)
{
    *m = (struct made){0};
    for (size_t i = 0; i < n; ++i) {
        if (i != 0 || !nameless)
            snprintf(m->names[i], sizeof(m->names[i]), "c%zu", i);
        m->classes[i] =
            (struct class_count){.name = slice_of(m->names[i]), .requests = requests[i]};
        m->counts.requests += requests[i];
    }
    m->counts.classes = m->classes;
    m->counts.n = n;
    classify_sort(&m->counts);
}

static void expect_warnings(const struct made *m, size_t n, const char *part)
{
    struct class_facts f;
    size_t lines = 0;

    classify_facts(&m->counts, &f);
    for (size_t i = 0; i < f.warnings.len; ++i)
        lines += f.warnings.p[i] == '\n';
    assert_int_equal(lines, n);
    if (part != NULL && strstr(text_cstr(&f.warnings), part) == NULL)
        fail_msg("no warning has '%s' in it", part);
    text_fini(&f.warnings);
}

static void the_largest_come_first_and_ties_by_name(void **state)
{
    struct made m;

    (void)state;
    make(&m, (const uint64_t[]){2, 5, 5, 1}, 4, false);
    assert_true(slice_is(m.classes[0].name, "c1"));
    assert_true(slice_is(m.classes[1].name, "c2"));
    assert_true(slice_is(m.classes[2].name, "c0"));
    assert_true(slice_is(m.classes[3].name, "c3"));
}

static void facts_state_how_uneven_the_classes_are(void **state)
{
    struct made m;
    struct class_facts f;

    (void)state;
    make(&m, (const uint64_t[]){5, 5, 5, 5}, 4, false);
    classify_facts(&m.counts, &f);
    assert_true(fabs(f.as_if_equal - 4) < 1e-9);
    assert_true(fabs(f.largest - 0.25) < 1e-9);
    assert_int_equal(f.single, 0);
    text_fini(&f.warnings);
    make(&m, (const uint64_t[]){98, 1, 1}, 3, true);
    classify_facts(&m.counts, &f);
    assert_true(f.as_if_equal < 1.2);
    assert_true(fabs(f.nameless - 0.98) < 1e-9);
    assert_true(fabs(f.largest - 0.01) < 1e-9);
    assert_int_equal(f.single, 2);
    text_fini(&f.warnings);
}

static void a_good_classifier_is_not_warned_of(void **state)
{
    struct made m;

    (void)state;
    make(&m, (const uint64_t[]){10, 9, 8, 7, 6}, 5, false);
    expect_warnings(&m, 0, NULL);
}

static void one_class_with_half_the_traffic_is_warned_of(void **state)
{
    struct made m;

    (void)state;
    make(&m, (const uint64_t[]){50, 30, 20}, 3, false);
    expect_warnings(&m, 1, "50 % of the traffic (c0)");
    make(&m, (const uint64_t[]){49, 31, 20}, 3, false);
    expect_warnings(&m, 0, NULL);
}

static void one_class_for_all_is_warned_of(void **state)
{
    struct made m;

    (void)state;
    make(&m, (const uint64_t[]){100}, 1, false);
    expect_warnings(&m, 1, "all requests are of one class");
}

static void many_first_requests_of_classes_are_reported_with_what_decides(void **state)
{
    struct made m;
    uint64_t ones[MANY];

    (void)state;
    for (size_t i = 0; i < MANY; ++i)
        ones[i] = 1;
    make(&m, ones, MANY, false);
    expect_warnings(&m, 1, "100 % of the requests are the first of their class");
    expect_warnings(&m, 1, "right if each class has data of its own, such as a session");
    /* Four requests of each class, then five. */
    for (size_t i = 0; i < MANY; ++i)
        ones[i] = 4;
    make(&m, ones, MANY, false);
    expect_warnings(&m, 1, "25 % of the requests are the first of their class");
    for (size_t i = 0; i < MANY; ++i)
        ones[i] = 5;
    make(&m, ones, MANY, false);
    expect_warnings(&m, 0, NULL);
}

static void requests_without_a_class_are_warned_of(void **state)
{
    struct made m;

    (void)state;
    make(&m, (const uint64_t[]){10, 45, 45}, 3, true);
    expect_warnings(&m, 1, "10 % of the requests have no class");
    make(&m, (const uint64_t[]){100}, 1, true);
    expect_warnings(&m, 1, "100 % of the requests have no class");
}

static void a_few_requests_prove_nothing(void **state)
{
    struct made m;

    (void)state;
    make(&m, (const uint64_t[]){19}, 1, false);
    expect_warnings(&m, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_come_first_and_ties_by_name),
        cmocka_unit_test(facts_state_how_uneven_the_classes_are),
        cmocka_unit_test(a_good_classifier_is_not_warned_of),
        cmocka_unit_test(one_class_with_half_the_traffic_is_warned_of),
        cmocka_unit_test(one_class_for_all_is_warned_of),
        cmocka_unit_test(many_first_requests_of_classes_are_reported_with_what_decides),
        cmocka_unit_test(requests_without_a_class_are_warned_of),
        cmocka_unit_test(a_few_requests_prove_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
