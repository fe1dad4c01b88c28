/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "common/base/text.h"
#include "tests/support/log_capture.h"

/* The time of this program: folding goes by the second. */
static struct timespec now = {.tv_sec = 1795000000, .tv_nsec = 999999999};

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = now;
    return 0;
}

static unsigned lines_of(const char *text)
{
    unsigned n = 0;

    for (; *text != '\0'; ++text)
        n += *text == '\n';
    return n;
}

struct thing {
    struct log_subject subject;
    int number;
};

static void describe_thing(const struct log_subject *self, struct log_text *out)
{
    log_put(out, "thing=%d", ((const struct thing *)(const void *)self)->number);
}

static void a_line_has_time_level_event_subject_and_values(void **state)
{
    struct thing thing = {.subject = {describe_thing}, .number = 5};
    struct log_capture c;

    (void)state;
    log_capture_start(&c);
    log_info(&thing, "thing-made", "size=%d", 3);
    log_error(NULL, "thing-lost", "why=%s", "unknown");
    const char *text = log_capture_end(&c);
    /* 2026-01-31T12:00:00.000Z */
    assert_int_equal(text[10], 'T');
    assert_int_equal(text[23], 'Z');
    assert_true(strncmp(text + 24, " info thing-made thing=5 size=3\n", 32) == 0);
    assert_non_null(strstr(text, "Z error thing-lost why=unknown\n"));
    assert_int_equal(lines_of(text), 2);
}

static void levels_below_the_threshold_are_silent(void **state)
{
    struct log_capture c;

    (void)state;
    log_capture_start(&c);
    log_debug(NULL, "quiet", "n=%d", 1);
    log_set_level(LOG_LEVEL_DEBUG);
    assert_true(log_wants(LOG_LEVEL_DEBUG));
    log_debug(NULL, "loud", "n=%d", 2);
    log_set_level(LOG_LEVEL_ERROR);
    log_warn(NULL, "quiet", "n=%d", 3);
    log_set_level(LOG_LEVEL_INFO);
    const char *text = log_capture_end(&c);
    assert_int_equal(lines_of(text), 1);
    assert_non_null(strstr(text, "debug loud n=2"));
}

static void equal_lines_are_written_once_a_second_and_then_counted(void **state)
{
    struct log_capture c;

    (void)state;
    log_capture_start(&c);
    for (int i = 0; i < 10; ++i)
        log_warn(NULL, "went-wrong", "i=%d", 1);
    log_warn(NULL, "other", "i=%d", 0);
    ++now.tv_sec;
    log_warn(NULL, "went-wrong", "i=%d", 1);
    const char *text = log_capture_end(&c);
    assert_int_equal(lines_of(text), 4);
    assert_non_null(strstr(text, "went-wrong i=1\n"));
    assert_non_null(strstr(text, "warn went-wrong folded=9\n"));
}

/* Of one rejected setting, and another: neither hides the other. */
static void different_lines_of_an_event_are_all_written_up_to_a_bound(void **state)
{
    enum { MANY = 10000 };
    struct log_capture c;
    char summary[64];

    (void)state;
    log_capture_start(&c);
    for (int i = 0; i < MANY; ++i)
        log_info_folded(NULL, "thing-vanished", "i=%d", i);
    log_error(NULL, "thing-rejected", "name=a");
    log_error(NULL, "thing-rejected", "name=b");
    log_error(NULL, "thing-rejected", "name=a");
    log_flush();
    ++now.tv_sec;
    log_flush();
    log_flush_all();
    const char *text = log_capture_end(&c);
    assert_int_equal(lines_of(text), LOG_LINES_PER_SECOND + 4);
    assert_non_null(strstr(text, "thing-vanished i=0\n"));
    assert_non_null(strstr(text, "thing-vanished i=9\n"));
    assert_non_null(strstr(text, "thing-rejected name=a\n"));
    assert_non_null(strstr(text, "thing-rejected name=b\n"));
    snprintf(summary, sizeof(summary), "thing-vanished folded=%d\n", MANY - LOG_LINES_PER_SECOND);
    assert_non_null(strstr(text, summary));
    assert_non_null(strstr(text, "thing-rejected folded=1\n"));
}

static void folded_lines_are_reported_before_the_end(void **state)
{
    struct log_capture c;

    (void)state;
    ++now.tv_sec;
    log_capture_start(&c);
    log_warn(NULL, "late", "i=%d", 1);
    log_warn(NULL, "late", "i=%d", 1);
    log_flush_all();
    assert_non_null(strstr(log_capture_end(&c), "warn late folded=1\n"));
}

static void a_value_that_is_cut_keeps_its_quotes(void **state)
{
    static char value[6000];
    struct log_capture c;

    (void)state;
    memset(value, ' ', sizeof(value) - 1);
    log_capture_start(&c);
    log_info(NULL, "long", "value=%s more=%d", value, 1);
    const char *text = log_capture_end(&c);
    assert_int_equal(lines_of(text), 1);
    assert_string_equal(text + strlen(text) - 6, " ...\"\n");
}

static void a_long_line_is_cut_and_still_one_line(void **state)
{
    static char value[6000];
    struct log_capture c;

    (void)state;
    memset(value, 'x', sizeof(value) - 1);
    log_capture_start(&c);
    log_info(NULL, "long", "value=%s", value);
    const char *text = log_capture_end(&c);
    assert_int_equal(lines_of(text), 1);
    assert_true(strlen(text) < 4200);
}

static const char *logged(struct log_capture *c, const char *value)
{
    log_capture_start(c);
    log_info(NULL, "quoting", "bare=%s quoted=\"%s\" slice=%.*s n=%d", value, value,
             (int)strlen(value), value, 7);
    return strchr(log_capture_end(c), '=') + 1;
}

static void a_value_with_blanks_or_quotes_is_quoted(void **state)
{
    struct log_capture c;

    (void)state;
    assert_string_equal(logged(&c, "plain"), "plain quoted=\"plain\" slice=plain n=7\n");
    assert_string_equal(logged(&c, "unix:/a b\"c"),
                        "\"unix:/a b\\\"c\" quoted=\"unix:/a b\\\"c\" slice=\"unix:/a b\\\"c\" "
                        "n=7\n");
    assert_string_equal(logged(&c, "a\\b"), "\"a\\\\b\" quoted=\"a\\\\b\" slice=\"a\\\\b\" n=7\n");
    /* Well-formed UTF-8 stays. */
    assert_string_equal(logged(&c, "K\xc3\xb6ln"),
                        "K\xc3\xb6ln quoted=\"K\xc3\xb6ln\" slice=K\xc3\xb6ln n=7\n");
}

static void no_value_contains_a_raw_control_character(void **state)
{
    static const struct {
        const char *raw, *shown;
    } rows[] = {
        {"a\nb", "\"a\\nb\""},          {"a\r\t", "\"a\\r\\t\""},       {"\x1b[2J", "\"\\x1b[2J\""},
        {"\x7f", "\"\\x7f\""},          {"\xc2\x85", "\"\\xc2\\x85\""}, /* U+0085, a line end */
        {"\xc2\x9f", "\"\\xc2\\x9f\""}, {"\x9b", "\"\\x9b\""},          /* not UTF-8 */
        {"\xff", "\"\\xff\""},
    };
    struct log_capture c;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        const char *text = logged(&c, rows[i].raw);

        assert_memory_equal(text, rows[i].shown, strlen(rows[i].shown));
        for (const char *at = text; at[1] != '\0'; ++at)
            assert_false((unsigned char)*at < 0x20 || *at == 0x7f);
    }
}

/* All that printf knows and the log may need. */
static void conversions_are_those_of_printf(void **state)
{
    struct log_capture c;

    (void)state;
    log_capture_start(&c);
    log_info(NULL, "kinds", "a=%d b=%u c=%ld d=%lu e=%lld f=%llu g=%zu h=%x i=%c j=%.2f k=%5d l=%%",
             -1, 2U, -3L, 4UL, -5LL, 6ULL, (size_t)7, 255U, 'c', 1.5, 9);
    assert_non_null(
        strstr(log_capture_end(&c),
               "kinds a=-1 b=2 c=-3 d=4 e=-5 f=6 g=7 h=ff i=c j=1.50 k=\"    9\" l=%\n"));
    log_capture_start(&c);
    log_info(NULL, "mixed", "at=%s:%u why=\"more than %d\" %s=%s", "a b", 80U, 3, "key", "v w");
    assert_non_null(
        strstr(log_capture_end(&c), "mixed at=\"a b:80\" why=\"more than 3\" key=\"v w\"\n"));
}

static void long_values_from_outside_are_cut(void **state)
{
    char out[LOG_CUT_ROOM];
    char raw[LOG_VALUE_MAX + 1];

    (void)state;
    assert_string_equal(log_cut((struct slice){"a\0b", 3}, out), "a?b");
    memset(raw, 'x', sizeof(raw));
    log_cut((struct slice){raw, sizeof(raw)}, out);
    assert_int_equal(strlen(out), LOG_VALUE_MAX + 3);
    assert_string_equal(out + strlen(out) - 4, "x...");
    assert_string_equal(log_cut(SLICE_NULL, out), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_level_event_subject_and_values),
        cmocka_unit_test(levels_below_the_threshold_are_silent),
        cmocka_unit_test(equal_lines_are_written_once_a_second_and_then_counted),
        cmocka_unit_test(different_lines_of_an_event_are_all_written_up_to_a_bound),
        cmocka_unit_test(folded_lines_are_reported_before_the_end),
        cmocka_unit_test(a_value_that_is_cut_keeps_its_quotes),
        cmocka_unit_test(a_long_line_is_cut_and_still_one_line),
        cmocka_unit_test(a_value_with_blanks_or_quotes_is_quoted),
        cmocka_unit_test(no_value_contains_a_raw_control_character),
        cmocka_unit_test(conversions_are_those_of_printf),
        cmocka_unit_test(long_values_from_outside_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
