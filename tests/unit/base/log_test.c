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

static void describe_thing(const struct log_subject *self, char *out, size_t room)
{
    snprintf(out, room, "thing=%d", ((const struct thing *)(const void *)self)->number);
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

/* Folding goes by the second; start at the begin of one. */
static void wait_for_a_new_second(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    nanosleep(&(struct timespec){.tv_nsec = 1000000000 - now.tv_nsec - 1}, NULL);
}

static void repeated_failures_fold_into_one_line_a_second(void **state)
{
    struct log_capture c;

    (void)state;
    wait_for_a_new_second();
    log_capture_start(&c);
    for (int i = 0; i < 10; ++i)
        log_warn(NULL, "went-wrong", "i=%d", i);
    log_warn(NULL, "other", "i=%d", 0);
    wait_for_a_new_second();
    log_warn(NULL, "went-wrong", "i=%d", 10);
    const char *text = log_capture_end(&c);
    assert_int_equal(lines_of(text), 3);
    assert_non_null(strstr(text, "went-wrong i=0\n"));
    assert_non_null(strstr(text, "went-wrong i=10 folded=9\n"));
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

static void bytes_of_strangers_are_escaped_and_cut(void **state)
{
    char out[LOG_ESCAPED_ROOM];
    char raw[LOG_VALUE_MAX + 1];

    (void)state;
    assert_string_equal(log_escape(SLICE_LIT("a b\n\"\\\xff"), out), "a\\x20b\\x0a\\x22\\x5c\\xff");
    memset(raw, '\n', sizeof(raw));
    log_escape((struct slice){raw, sizeof(raw)}, out);
    assert_int_equal(strlen(out), LOG_VALUE_MAX * 4 + 3);
    assert_string_equal(out + strlen(out) - 3, "...");
    assert_string_equal(log_escape(SLICE_NULL, out), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_level_event_subject_and_values),
        cmocka_unit_test(levels_below_the_threshold_are_silent),
        cmocka_unit_test(repeated_failures_fold_into_one_line_a_second),
        cmocka_unit_test(a_long_line_is_cut_and_still_one_line),
        cmocka_unit_test(bytes_of_strangers_are_escaped_and_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
