/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/resume_find.h"
#include "tests/support/skills_check.h"
#include "worker-agent/pool/slot_meter.h"

static const struct meter_settings settings = {
    .history = 2, .max_skill_age = METER_SKILL_AGE_DEFAULT, .max_classes = 100};
static const struct slice one = {"1111111111111111", 16};
static const struct slice two = {"2222222222222222", 16};
static const struct slice three = {"3333333333333333", 16};

static bool add(struct slot_meters *m, struct slice fingerprint, const char *cls)
{
    return slot_meters_add(m, fingerprint, slice_of(cls), 0.5, false);
}

static void a_resume_is_made_every_history_requests_of_one_fingerprint(void **state)
{
    struct slot_meters m = {.settings = settings, .max_skills = 10};

    (void)state;
    assert_false(add(&m, one, "a"));
    assert_false(add(&m, two, "b"));
    assert_true(add(&m, one, "a"));
    const struct slot_meter *found = slot_meters_find(&m, one);
    assert_int_equal(found->generation, 1);
    assert_non_null(resume_find(&found->resume, slice_of("a")));
    assert_null(resume_find(&found->resume, slice_of("b")));
    assert_int_equal(slot_meters_find(&m, two)->resume.n, 0);
    slot_meters_fini(&m);
}

static void a_renewed_resume_has_what_is_measured_and_publication_stays_when_it_was(void **state)
{
    struct slot_meters m = {.settings = settings, .max_skills = 10};

    (void)state;
    m.settings.history = 4;
    for (int i = 1; i <= 8; ++i) {
        bool due = slot_meters_add(&m, one, slice_of(i == 3 ? "late" : "a"), 0.5, false);

        assert_int_equal(due, i % 4 == 0);
        slot_meters_renew(&m);
        const struct slot_meter *found = slot_meters_find(&m, one);
        assert_int_equal(found->generation, i / 4);
        assert_int_equal(meter_generation(found->meter), i);
        assert_int_equal(found->resume.n, i < 3 ? 1 : 2);
        const double *score = meter_score(found->meter, slice_of("a"));
        ASSERT(score != NULL);
        assert_true(*resume_find(&found->resume, slice_of("a")) == *score);
    }
    slot_meters_fini(&m);
}

static void the_latest_two_fingerprints_are_kept(void **state)
{
    struct slot_meters m = {.settings = settings, .max_skills = 10};

    (void)state;
    add(&m, one, "a");
    add(&m, two, "a");
    add(&m, one, "a");
    add(&m, three, "a");
    assert_non_null(slot_meters_find(&m, one));
    assert_null(slot_meters_find(&m, two));
    assert_string_equal(slot_meters_find(&m, SLICE_NULL)->fingerprint, three.p);
    slot_meters_fini(&m);
}

static void a_file_gives_back_what_was_put_in(void **state)
{
    struct slot_meters m = {.settings = settings, .max_skills = 10};
    struct slot_meters again = {.settings = settings, .max_skills = 10};
    const struct resume_line who = {.instance = "i", .application = "shop", .concurrency = 1};
    struct text text = {0};
    char why[160];

    (void)state;
    for (int i = 0; i < 4; ++i) {
        add(&m, one, i % 2 == 0 ? "a" : "b");
        add(&m, two, "c");
    }
    slot_meters_print(&m, &who, &text);
    assert_true(slot_meters_load(&again, text_slice(&text), why));
    assert_string_equal(slot_meters_find(&again, SLICE_NULL)->fingerprint, two.p);
    const struct slot_meter *before = slot_meters_find(&m, one);
    const struct slot_meter *after = slot_meters_find(&again, one);
    assert_int_equal(after->generation, before->generation);
    assert_int_equal(after->resume.n, 2);
    assert_true(*resume_find(&after->resume, slice_of("a")) ==
                *resume_find(&before->resume, slice_of("a")));
    slot_meters_fini(&m);
    slot_meters_fini(&again);
    text_fini(&text);
}

static void a_torn_or_strange_file_changes_nothing(void **state)
{
    static const char *const bad[] = {"", "{\"v\":1", "x\n", "{\"end\":\"stop\"}\n"};
    struct slot_meters m = {.settings = settings, .max_skills = 10};
    char why[160];

    (void)state;
    add(&m, one, "a");
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        why[0] = '\0';
        assert_false(slot_meters_load(&m, slice_of(bad[i]), why));
        assert_true(why[0] != '\0');
    }
    assert_non_null(slot_meters_find(&m, one));
    slot_meters_fini(&m);
}

static void a_file_cut_within_its_second_line_is_rejected_whole(void **state)
{
    struct slot_meters m = {.settings = settings, .max_skills = 10};
    const struct resume_line who = {.instance = "i", .application = "shop", .concurrency = 1};
    struct text text = {0};
    char why[160];

    (void)state;
    for (int i = 0; i < 2; ++i) {
        add(&m, one, "a");
        add(&m, two, "c");
    }
    slot_meters_print(&m, &who, &text);
    struct slot_meters again = {.settings = settings, .max_skills = 10};
    for (size_t cut = 1; cut < text.len; ++cut) {
        struct slice torn = {text.p, cut};

        /* The one place where a cut leaves a good file: between the lines. */
        assert_int_equal(slot_meters_load(&again, torn, why), text.p[cut - 1] == '\n');
    }
    slot_meters_fini(&m);
    slot_meters_fini(&again);
    text_fini(&text);
}

static void only_max_skills_are_published(void **state)
{
    struct slot_meters m = {.settings = settings, .max_skills = 3};

    (void)state;
    m.settings.history = 50;
    for (int i = 0; i < 50; ++i) {
        char cls[20];

        snprintf(cls, sizeof(cls), "c%d", i);
        slot_meters_add(&m, one, slice_of(cls), 0.5, false);
    }
    assert_int_equal(slot_meters_find(&m, one)->resume.n, 3);
    slot_meters_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resume_is_made_every_history_requests_of_one_fingerprint),
        cmocka_unit_test(a_renewed_resume_has_what_is_measured_and_publication_stays_when_it_was),
        cmocka_unit_test(the_latest_two_fingerprints_are_kept),
        cmocka_unit_test(a_file_gives_back_what_was_put_in),
        cmocka_unit_test(a_torn_or_strange_file_changes_nothing),
        cmocka_unit_test(a_file_cut_within_its_second_line_is_rejected_whole),
        cmocka_unit_test(only_max_skills_are_published),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
