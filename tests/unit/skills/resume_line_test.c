/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/skills/resume.h"
#include "tests/support/resume_find.h"

enum { MAX_SKILLS = 100 };

#define HEAD "\"v\":1,\"instance\":\"i1\",\"application\":\"shop\""
#define GOOD "{" HEAD ",\"state\":\"ready\",\"generation\":7,\"skills\":{}}"

static void parse(const char *line, struct resume_line *l)
{
    char why[160] = "";

    if (resume_line_parse(slice_of(line), MAX_SKILLS, l, why) != ERR_OK)
        fail_msg("rejected: %s", why);
}

static void expect_rejected(struct slice line, enum err error, const char *reason)
{
    struct resume_line l = {.generation = 99};
    char why[160] = "";

    assert_int_equal(resume_line_parse(line, MAX_SKILLS, &l, why), error);
    if (strstr(why, reason) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", why, reason);
    /* untouched */
    assert_int_equal(l.generation, 99);
    assert_int_equal(l.skills.n, 0);
}

static void a_whole_line_is_read(void **state)
{
    struct resume_line l;

    (void)state;
    parse("{\"v\":1,\"instance\":\"ab12\",\"application\":\"shop\",\"version\":\"1.4\","
          "\"fingerprint\":\"0123456789abcdef\",\"state\":\"draining\",\"generation\":7,"
          "\"concurrency\":3,\"skills\":{\"b.example\":35.2,\"a.example\":4,\"\":0}}",
          &l);
    assert_int_equal(l.end, RESUME_END_NONE);
    assert_string_equal(l.instance, "ab12");
    assert_string_equal(l.application, "shop");
    assert_string_equal(l.version, "1.4");
    assert_string_equal(l.fingerprint, "0123456789abcdef");
    assert_int_equal(l.state, RESUME_DRAINING);
    assert_int_equal(l.generation, 7);
    assert_int_equal(l.concurrency, 3);
    assert_int_equal(l.skills.n, 3);
    assert_true(slice_is(l.skills.rows[0].cls, "b.example"));
    assert_true(l.skills.rows[0].score == 35.2);
    assert_true(l.skills.rows[1].score == 4);
    assert_true(*resume_find(&l.skills, SLICE_LIT("")) == 0);
    resume_line_fini(&l);
    assert_null(l.skills.rows);
}

static void absent_members_have_defaults_and_unknown_ones_are_ignored(void **state)
{
    struct resume_line l;

    (void)state;
    parse("{" HEAD
          ",\"state\":\"dormant\",\"generation\":0,\"skills\":{},\"mood\":[1,{\"x\":null}]}",
          &l);
    assert_string_equal(l.version, "");
    assert_string_equal(l.fingerprint, "");
    assert_int_equal(l.concurrency, 1);
    assert_int_equal(l.state, RESUME_DORMANT);
    resume_line_fini(&l);
}

static void the_end_of_a_stream_is_reported(void **state)
{
    struct resume_line l;

    (void)state;
    parse("{\"end\":\"drain\"}", &l);
    assert_int_equal(l.end, RESUME_END_DRAIN);
    parse("{\"end\":\"upgrade\",\"more\":1}", &l);
    assert_int_equal(l.end, RESUME_END_UPGRADE);
    parse("{\"end\":\"stop\"}", &l);
    assert_int_equal(l.end, RESUME_END_STOP);
    expect_rejected(SLICE_LIT("{\"end\":\"\"}"), ERR_RANGE, "end:");
    expect_rejected(SLICE_LIT("{\"end\":\"lunch\"}"), ERR_RANGE, "end:");
    expect_rejected(SLICE_LIT("{\"end\":1}"), ERR_RANGE, "end:");
}

static void an_empty_line_is_a_keep_alive(void **state)
{
    (void)state;
    expect_rejected(SLICE_LIT(""), ERR_NOT_FOUND, "empty");
}

static void malformed_lines_are_rejected_with_the_member_at_fault(void **state)
{
    (void)state;
    expect_rejected(SLICE_LIT("[]"), ERR_SYNTAX, "not an object");
    expect_rejected(SLICE_LIT("{}"), ERR_SYNTAX, "v: missing");
    expect_rejected(SLICE_LIT("{\"v\":2}"), ERR_RANGE, "v: ");
    expect_rejected(SLICE_LIT("{\"v\":\"1\"}"), ERR_SYNTAX, "v: not a whole number");
    expect_rejected(SLICE_LIT("{\"v\":1}"), ERR_SYNTAX, "instance: missing");
    expect_rejected(SLICE_LIT("{\"v\":1,\"instance\":\"\"}"), ERR_SYNTAX, "instance: empty");
    expect_rejected(SLICE_LIT("{\"v\":1,\"instance\":7}"), ERR_SYNTAX, "instance: not a text");
    expect_rejected(SLICE_LIT("{\"v\":1,\"instance\":\"a\\nb\"}"), ERR_SYNTAX, "control");
    expect_rejected(SLICE_LIT("{\"v\":1,\"instance\":\"i\"}"), ERR_SYNTAX, "application: missing");
    expect_rejected(SLICE_LIT("{" HEAD ",\"state\":\"asleep\",\"generation\":7,\"skills\":{}}"),
                    ERR_RANGE, "state:");
    expect_rejected(SLICE_LIT("{" HEAD ",\"generation\":7,\"skills\":{}}"), ERR_RANGE, "state:");
    expect_rejected(SLICE_LIT("{" HEAD ",\"state\":\"ready\",\"skills\":{}}"), ERR_SYNTAX,
                    "generation: missing");
    expect_rejected(SLICE_LIT("{" HEAD ",\"state\":\"ready\",\"generation\":-1,\"skills\":{}}"),
                    ERR_RANGE, "generation:");
    expect_rejected(SLICE_LIT("{" HEAD ",\"state\":\"ready\",\"generation\":1.5,\"skills\":{}}"),
                    ERR_SYNTAX, "generation:");
    expect_rejected(SLICE_LIT("{" HEAD ",\"state\":\"ready\",\"generation\":7}"), ERR_SYNTAX,
                    "skills:");
    expect_rejected(SLICE_LIT("{" HEAD ",\"state\":\"ready\",\"generation\":7,\"skills\":[]}"),
                    ERR_SYNTAX, "skills:");
    expect_rejected(
        SLICE_LIT("{" HEAD
                  ",\"concurrency\":0,\"state\":\"ready\",\"generation\":7,\"skills\":{}}"),
        ERR_RANGE, "concurrency:");
    expect_rejected(SLICE_LIT("{" HEAD ",\"concurrency\":null,\"state\":\"ready\",\"generation\":7,"
                              "\"skills\":{}}"),
                    ERR_SYNTAX, "concurrency:");
    expect_rejected(SLICE_LIT(GOOD GOOD), ERR_SYNTAX, "end of file expected");
}

static void fingerprints_are_sixteen_hex_digits_or_none(void **state)
{
    struct resume_line l;

    (void)state;
    parse("{" HEAD ",\"fingerprint\":\"\",\"state\":\"ready\",\"generation\":7,\"skills\":{}}", &l);
    resume_line_fini(&l);
    expect_rejected(SLICE_LIT("{" HEAD ",\"fingerprint\":\"0123\"}"), ERR_SYNTAX, "fingerprint:");
    expect_rejected(SLICE_LIT("{" HEAD ",\"fingerprint\":\"0123456789ABCDEF\"}"), ERR_SYNTAX,
                    "fingerprint:");
    expect_rejected(SLICE_LIT("{" HEAD ",\"fingerprint\":\"0123456789abcdef0\"}"), ERR_TOO_LARGE,
                    "fingerprint:");
}

static void expect_skills_rejected(const char *skills, enum err error, const char *reason)
{
    char *line =
        xasprintf("{" HEAD ",\"state\":\"ready\",\"generation\":7,\"skills\":{%s}}", skills);

    expect_rejected(slice_of(line), error, reason);
    free(line);
}

static void scores_are_finite_and_not_negative(void **state)
{
    (void)state;
    expect_skills_rejected("\"a\":1,\"b\":-0.5", ERR_RANGE, "score");
    expect_skills_rejected("\"a\":1e999", ERR_SYNTAX, "overflow");
    expect_skills_rejected("\"a\":\"1\"", ERR_SYNTAX, "score");
    expect_skills_rejected("\"a\":true", ERR_SYNTAX, "score");
    expect_skills_rejected("\"a\":null", ERR_SYNTAX, "score");
}

static void classes_are_encoded_short_and_different(void **state)
{
    char longest[CLASS_BYTES_MAX + 2];
    char *line;
    struct resume_line l;

    (void)state;
    expect_skills_rejected("\"a b\":1", ERR_SYNTAX, "class");
    expect_skills_rejected("\"\xc3\xa9\":1", ERR_SYNTAX, "class");
    expect_skills_rejected("\"a\\u001f\":1", ERR_SYNTAX, "class");
    expect_skills_rejected("\"a\\u007f\":1", ERR_SYNTAX, "class");
    expect_skills_rejected("\"a\":1,\"a\":2", ERR_SYNTAX, "duplicate");
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    line = xasprintf("\"%s\":1", longest);
    expect_skills_rejected(line, ERR_SYNTAX, "class");
    free(line);
    longest[CLASS_BYTES_MAX] = '\0';
    line =
        xasprintf("{" HEAD ",\"state\":\"ready\",\"generation\":7,\"skills\":{\"%s\":1}}", longest);
    parse(line, &l);
    assert_int_equal(l.skills.rows[0].cls.len, CLASS_BYTES_MAX);
    resume_line_fini(&l);
    free(line);
}

static void texts_and_skills_are_bounded(void **state)
{
    struct text t = {0};
    struct resume_line l;

    (void)state;
    text_addf(&t, "{\"v\":1,\"instance\":\"%065d\"}", 1);
    expect_rejected(text_slice(&t), ERR_TOO_LARGE, "instance: too long");
    text_clear(&t);
    text_addf(&t, "{\"v\":1,\"instance\":\"i\",\"application\":\"%0101d\"}", 1);
    expect_rejected(text_slice(&t), ERR_TOO_LARGE, "application: too long");

    for (int n = MAX_SKILLS; n <= MAX_SKILLS + 1; ++n) {
        text_clear(&t);
        text_add(&t, SLICE_LIT("{" HEAD ",\"state\":\"ready\",\"generation\":7,\"skills\":{"));
        for (int i = 0; i < n; ++i)
            text_addf(&t, "%s\"c%d\":1", i != 0 ? "," : "", i);
        text_add(&t, SLICE_LIT("}}"));
        if (n > MAX_SKILLS) {
            expect_rejected(text_slice(&t), ERR_TOO_LARGE, "skills:");
            continue;
        }
        parse(text_cstr(&t), &l);
        assert_int_equal(l.skills.n, MAX_SKILLS);
        resume_line_fini(&l);
    }
    text_clear(&t);
    text_reserve(&t, RESUME_LINE_MAX + 1);
    memset(t.p, ' ', RESUME_LINE_MAX + 1);
    t.len = RESUME_LINE_MAX + 1;
    expect_rejected(text_slice(&t), ERR_TOO_LARGE, "longer than");
    text_fini(&t);
}

static void a_printed_line_is_read_back(void **state)
{
    struct resume_line l = {.instance = "i\"1\\",
                            .application = "caf\xc3\xa9",
                            .version = "",
                            .fingerprint = "00000000deadbeef",
                            .state = RESUME_STARTING,
                            .generation = 1ULL << 40,
                            .concurrency = 8};
    struct resume_line again;
    struct text t = {0};
    char why[160];

    (void)state;
    resume_push(&l.skills, SLICE_LIT("b%20\"c"), 0.1 + 0.2);
    resume_push(&l.skills, SLICE_LIT(""), 1e-300);
    text_add(&t, SLICE_LIT("before\n"));
    assert_int_equal(resume_line_print(&l, &t), 0);
    struct slice line = text_slice(&t);
    assert_true(slice_is(slice_cut(&line, '\n'), "before"));
    struct slice printed = slice_cut(&line, '\n');
    assert_int_equal(line.len, 0);
    assert_int_equal(resume_line_parse(printed, MAX_SKILLS, &again, why), ERR_OK);
    assert_string_equal(again.instance, l.instance);
    assert_string_equal(again.application, l.application);
    assert_string_equal(again.fingerprint, l.fingerprint);
    assert_int_equal(again.state, l.state);
    assert_int_equal(again.generation, l.generation);
    assert_int_equal(again.concurrency, 8);
    assert_int_equal(again.skills.n, 2);
    assert_true(slice_eq(again.skills.rows[0].cls, l.skills.rows[0].cls));
    assert_true(again.skills.rows[0].score == 0.1 + 0.2);
    assert_true(again.skills.rows[1].score == 1e-300);
    resume_line_fini(&again);
    resume_line_fini(&l);

    text_clear(&t);
    l.end = RESUME_END_UPGRADE;
    assert_int_equal(resume_line_print(&l, &t), 0);
    assert_string_equal(text_cstr(&t), "{\"end\":\"upgrade\"}\n");
    text_fini(&t);
}

static void rows_that_do_not_fit_are_left_out_and_counted(void **state)
{
    struct resume_line l = {.instance = "i", .application = "a", .concurrency = 1};
    struct resume_line again;
    struct text t = {0};
    char name[CLASS_BYTES_MAX + 1];
    char why[160];

    (void)state;
    for (int i = 0; i < 6000; ++i) {
        snprintf(name, sizeof(name), "%0*d", CLASS_BYTES_MAX, i);
        resume_push(&l.skills, slice_of(name), i);
    }
    size_t left_out = resume_line_print(&l, &t);
    assert_in_range(left_out, 1, 5999);
    assert_in_range(t.len, RESUME_LINE_MAX - CLASS_BYTES_MAX - 20, RESUME_LINE_MAX);
    --t.len;
    assert_int_equal(resume_line_parse(text_slice(&t), 6000, &again, why), ERR_OK);
    assert_int_equal(again.skills.n, 6000 - left_out);
    resume_line_fini(&again);
    resume_line_fini(&l);

    /* Many short ones: as many as a reader takes. */
    l = (struct resume_line){.instance = "i", .application = "a", .concurrency = 1};
    for (int i = 0; i < JSON_ENTRIES_MAX + 100; ++i) {
        snprintf(name, sizeof(name), "%d", i);
        resume_push(&l.skills, slice_of(name), 1);
    }
    text_clear(&t);
    left_out = resume_line_print(&l, &t);
    assert_in_range(left_out, 100, 200);
    --t.len;
    assert_int_equal(resume_line_parse(text_slice(&t), JSON_ENTRIES_MAX, &again, why), ERR_OK);
    resume_line_fini(&again);
    resume_line_fini(&l);
    text_fini(&t);
}

static void states_have_words(void **state)
{
    (void)state;
    assert_string_equal(resume_state_text(RESUME_STARTING), "starting");
    assert_string_equal(resume_state_text(RESUME_DRAINING), "draining");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_line_is_read),
        cmocka_unit_test(absent_members_have_defaults_and_unknown_ones_are_ignored),
        cmocka_unit_test(the_end_of_a_stream_is_reported),
        cmocka_unit_test(an_empty_line_is_a_keep_alive),
        cmocka_unit_test(malformed_lines_are_rejected_with_the_member_at_fault),
        cmocka_unit_test(fingerprints_are_sixteen_hex_digits_or_none),
        cmocka_unit_test(scores_are_finite_and_not_negative),
        cmocka_unit_test(classes_are_encoded_short_and_different),
        cmocka_unit_test(texts_and_skills_are_bounded),
        cmocka_unit_test(a_printed_line_is_read_back),
        cmocka_unit_test(rows_that_do_not_fit_are_left_out_and_counted),
        cmocka_unit_test(states_have_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
