/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "common/skills/meter.h"
#include "tests/support/skills_check.h"

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

#define assert_near(a, b) assert_true(near((a), (b)))

static struct meter *meter_over(uint64_t history, uint64_t max_skill_age)
{
    struct meter_settings s = {
        .history = history, .max_skill_age = max_skill_age, .max_classes = 1000};

    return meter_create(&s);
}

static bool serve(struct meter *m, const char *cls, double service_s)
{
    bool due = meter_add(m, slice_of(cls), service_s, false);

    meter_check(m);
    return due;
}

static double score(struct meter *m, const char *cls)
{
    const double *s = meter_score(m, slice_of(cls));

    ASSERT(s != NULL);
    return *s;
}

static void a_score_is_requests_per_second_of_service(void **state)
{
    struct meter *m = meter_over(9999, METER_SKILL_AGE_DEFAULT);

    (void)state;
    serve(m, "a", 0.25);
    assert_near(score(m, "a"), 4);
    serve(m, "b", 0.5);
    assert_near(score(m, "b"), 2);
    assert_near(score(m, "a"), 4);
    assert_null(meter_score(m, SLICE_LIT("c")));
    assert_int_equal(meter_generation(m), 2);
    meter_destroy(m);
}

static void recent_requests_weigh_more(void **state)
{
    struct meter *m = meter_over(5, METER_SKILL_AGE_DEFAULT);

    (void)state;
    serve(m, "a", 0.5);
    serve(m, "a", 0.25);
    assert_near(score(m, "a"), (0.8 + 1) / (0.5 * 0.8 + 0.25));
    /* Requests of others age the class's totals, which shows at its next request. */
    serve(m, "b", 1);
    serve(m, "b", 1);
    serve(m, "a", 0.25);
    double kept = 0.8 * 0.8 * 0.8;
    assert_near(score(m, "a"), (1.8 * kept + 1) / (0.65 * kept + 0.25));
    meter_destroy(m);
}

static void a_resume_is_due_every_history_requests(void **state)
{
    struct meter *m = meter_over(3, METER_SKILL_AGE_DEFAULT);
    struct meter_settings s = {
        .history = 2, .max_skill_age = METER_SKILL_AGE_DEFAULT, .max_classes = 10};

    (void)state;
    assert_false(serve(m, "a", 1));
    assert_false(serve(m, "a", 1));
    assert_true(serve(m, "a", 1));
    meter_set(m, &s);
    assert_true(serve(m, "a", 1));
    assert_false(serve(m, "a", 1));
    assert_true(serve(m, "a", 1));
    meter_destroy(m);
}

static void classes_too_old_are_dropped_when_a_resume_is_due(void **state)
{
    struct meter *m = meter_over(4, 5);

    (void)state;
    serve(m, "old", 1);
    serve(m, "kept", 1);
    for (int i = 3; i < 8; ++i) {
        assert_non_null(meter_score(m, SLICE_LIT("old")));
        serve(m, i == 3 ? "kept" : "new", 1);
    }
    assert_true(serve(m, "new", 1));
    assert_null(meter_score(m, SLICE_LIT("old")));
    assert_non_null(meter_score(m, SLICE_LIT("kept")));
    meter_destroy(m);
}

static void any_age_counts_in_requests_also_one_below_history(void **state)
{
    /* Requests a b c d make a resume; their ages then are 3, 2, 1, 0. */
    static const struct {
        uint64_t age;
        size_t left;
    } of[] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 4}, {METER_SKILL_AGE_DEFAULT, 4}};
    static const char *const classes[] = {"d", "c", "b", "a"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(of); ++i) {
        struct meter *m = meter_over(4, of[i].age);

        for (size_t k = ARRAY_LEN(classes); k-- != 0;)
            assert_int_equal(serve(m, classes[k], 1), k == 0);
        assert_int_equal(meter_class_count(m), of[i].left);
        for (size_t k = 0; k < of[i].left; ++k)
            assert_non_null(meter_score(m, slice_of(classes[k])));
        meter_destroy(m);
    }
}

static void no_age_given_is_ten_times_history(void **state)
{
    struct meter *m = meter_over(2, METER_SKILL_AGE_DEFAULT);

    (void)state;
    serve(m, "old", 1);
    while (meter_generation(m) < 20)
        serve(m, "new", 1);
    assert_non_null(meter_score(m, SLICE_LIT("old")));
    serve(m, "new", 1);
    assert_true(serve(m, "new", 1));
    assert_null(meter_score(m, SLICE_LIT("old")));
    meter_destroy(m);
}

static void an_error_never_raises_a_score(void **state)
{
    struct meter *m = meter_over(9, METER_SKILL_AGE_DEFAULT);

    (void)state;
    serve(m, "a", 0.5);
    serve(m, "a", 0.25);
    double before = score(m, "a");
    for (int i = 0; i < 20; ++i) {
        meter_add(m, SLICE_LIT("a"), 0.0001, true);
        assert_near(score(m, "a"), before);
    }
    meter_add(m, SLICE_LIT("a"), 10, true);
    assert_true(score(m, "a") < before);
    meter_destroy(m);
}

static void an_error_makes_no_class_known(void **state)
{
    struct meter *m = meter_over(2, METER_SKILL_AGE_DEFAULT);

    (void)state;
    assert_false(meter_add(m, SLICE_LIT("a"), 0.0001, true));
    assert_null(meter_score(m, SLICE_LIT("a")));
    assert_true(meter_add(m, SLICE_LIT("a"), 0.0001, true));
    assert_int_equal(meter_generation(m), 2);
    assert_int_equal(meter_class_count(m), 0);
    meter_destroy(m);
}

static void no_request_is_faster_than_the_clock_can_measure(void **state)
{
    struct meter *m = meter_over(9, METER_SKILL_AGE_DEFAULT);

    (void)state;
    serve(m, "a", 0);
    assert_near(score(m, "a"), 1e9);
    serve(m, "b", -3);
    assert_near(score(m, "b"), 1e9);
    meter_destroy(m);
}

static struct resume kept_resume(void)
{
    struct resume r = {0};

    resume_push(&r, SLICE_LIT("a"), 8);
    resume_push(&r, SLICE_LIT("zero"), 0);
    return r;
}

static void a_loaded_score_is_what_it_was(void **state)
{
    struct meter *m = meter_over(100, METER_SKILL_AGE_DEFAULT);
    struct resume r = kept_resume();

    (void)state;
    serve(m, "forgotten", 1);
    meter_load(m, &r);
    assert_null(meter_score(m, SLICE_LIT("forgotten")));
    assert_int_equal(meter_generation(m), 0);
    assert_near(score(m, "a"), 8);
    serve(m, "a", 0.125);
    assert_near(score(m, "a"), 8);
    serve(m, "a", 1);
    assert_true(score(m, "a") < 8);
    assert_true(score(m, "a") > 7);
    assert_true(score(m, "zero") == 0);
    meter_destroy(m);
    resume_fini(&r);
}

static void a_loaded_score_without_requests_has_no_age(void **state)
{
    struct meter *m = meter_over(2, 2);
    struct resume r = kept_resume();

    (void)state;
    meter_load(m, &r);
    for (int i = 0; i < 4; ++i)
        serve(m, "b", 1);
    assert_null(meter_score(m, SLICE_LIT("a")));
    assert_true(score(m, "zero") == 0);
    meter_add(m, SLICE_LIT("zero"), 0.5, true);
    assert_true(score(m, "zero") == 0);
    serve(m, "zero", 0.5);
    assert_near(score(m, "zero"), 2);
    meter_destroy(m);
    resume_fini(&r);
}

static void a_loaded_score_out_of_all_proportion_does_no_harm(void **state)
{
    struct meter *m = meter_over(100, METER_SKILL_AGE_DEFAULT);
    struct resume r = {0};

    (void)state;
    resume_push(&r, SLICE_LIT("tiny"), 5e-324);
    resume_push(&r, SLICE_LIT("huge"), 1e308);
    meter_load(m, &r);
    serve(m, "tiny", 1);
    serve(m, "huge", 1);
    assert_true(isfinite(score(m, "tiny")));
    assert_true(isfinite(score(m, "huge")));
    meter_destroy(m);
    resume_fini(&r);
}

static void a_resume_has_the_known_first_and_no_more_rows_than_asked(void **state)
{
    struct meter_settings s = {
        .history = 1000000, .max_skill_age = METER_SKILL_AGE_DEFAULT, .max_classes = 100};
    struct meter *m = meter_create(&s);
    struct resume r = {0};
    char name[32];

    (void)state;
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 20; ++i) {
            snprintf(name, sizeof(name), "k%d", i);
            serve(m, name, 1);
        }
    }
    for (int i = 0; i < 5000; ++i) {
        snprintf(name, sizeof(name), "flood%d", i);
        serve(m, name, 1);
    }
    assert_int_equal(meter_class_count(m), 100);
    meter_resume(m, 21, &r);
    assert_int_equal(r.n, 21);
    assert_true(slice_is(r.rows[0].cls, "k19"));
    assert_true(slice_is(r.rows[19].cls, "k0"));
    assert_true(slice_is(r.rows[20].cls, "flood4999"));
    resume_fini(&r);
    meter_destroy(m);
}

static void a_flood_takes_no_skill_from_the_known(void **state)
{
    struct meter_settings s = {
        .history = 9999, .max_skill_age = METER_SKILL_AGE_DEFAULT, .max_classes = 1000};
    struct meter *m = meter_create(&s);
    char name[32];

    (void)state;
    for (int i = 0; i < 250; ++i)
        serve(m, i % 2 != 0 ? "rare" : "other", 0.5);
    for (int i = 0; i < 50000; ++i) {
        snprintf(name, sizeof(name), "flood%d", i);
        meter_add(m, slice_of(name), 0.001, false);
        if (i % 1000 == 999)
            meter_add(m, SLICE_LIT("rare"), 0.5, false);
    }
    meter_check(m);
    assert_near(score(m, "rare"), 2);
    assert_int_equal(meter_class_count(m), 1000);
    meter_destroy(m);
}

static void note_class(void *context, const struct meter_class *c)
{
    struct meter_class *last = context;

    *last = *c;
}

static void meter_each_shows_the_parts_of_a_score(void **state)
{
    struct meter *m = meter_over(4, METER_SKILL_AGE_DEFAULT);
    struct meter_class c = {0};

    (void)state;
    serve(m, "a", 0.5);
    serve(m, "a", 0.25);
    meter_each(m, note_class, &c);
    assert_true(slice_is(c.cls, "a"));
    assert_int_equal(c.generation, 2);
    assert_near(c.requests, 1.75);
    assert_near(c.service_s, 0.625);
    assert_near(meter_decay(m), 0.75);
    meter_destroy(m);
}

static void a_forgotten_class_is_not_in_the_next_resume(void **state)
{
    struct meter *m = meter_over(4, METER_SKILL_AGE_DEFAULT);
    struct slice a = SLICE_LIT("a");

    (void)state;
    serve(m, "a", 0.5);
    serve(m, "b", 0.5);
    uint64_t before = meter_generation(m);
    assert_int_equal(meter_forget(m, &a), 1);
    assert_int_equal(meter_forget(m, &a), 0);
    assert_null(meter_score(m, a));
    assert_true(meter_generation(m) > before);
    assert_int_equal(meter_forget(m, NULL), 1);
    assert_int_equal(meter_class_count(m), 0);
    meter_check(m);
    meter_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_score_is_requests_per_second_of_service),
        cmocka_unit_test(recent_requests_weigh_more),
        cmocka_unit_test(a_resume_is_due_every_history_requests),
        cmocka_unit_test(classes_too_old_are_dropped_when_a_resume_is_due),
        cmocka_unit_test(any_age_counts_in_requests_also_one_below_history),
        cmocka_unit_test(no_age_given_is_ten_times_history),
        cmocka_unit_test(an_error_never_raises_a_score),
        cmocka_unit_test(an_error_makes_no_class_known),
        cmocka_unit_test(no_request_is_faster_than_the_clock_can_measure),
        cmocka_unit_test(a_loaded_score_is_what_it_was),
        cmocka_unit_test(a_loaded_score_without_requests_has_no_age),
        cmocka_unit_test(a_loaded_score_out_of_all_proportion_does_no_harm),
        cmocka_unit_test(a_resume_has_the_known_first_and_no_more_rows_than_asked),
        cmocka_unit_test(a_flood_takes_no_skill_from_the_known),
        cmocka_unit_test(meter_each_shows_the_parts_of_a_score),
        cmocka_unit_test(a_forgotten_class_is_not_in_the_next_resume),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
