/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/trace_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct trace_line parsed(const char *line)
{
    struct trace_line l;
    const char *why = trace_line_parse(slice_of(line), &l);

    if (why != NULL)
        fail_msg("%s: %s", line, why);
    return l;
}

static void rejected(const char *line, const char *why)
{
    struct trace_line l;
    const char *reason = trace_line_parse(slice_of(line), &l);

    if (reason == NULL || strcmp(reason, why) != 0)
        fail_msg("%s: %s", line, reason != NULL ? reason : "taken");
}

static void is(struct slice s, const char *text)
{
    assert_int_equal(s.len, strlen(text));
    assert_memory_equal(s.p, text, s.len);
}

static void prints(const struct trace_line *l, const char *text)
{
    struct text out = {0};

    trace_line_print(l, &out);
    assert_string_equal(text_cstr(&out), text);
    text_fini(&out);
}

static void each_stage_is_read(void **state)
{
    (void)state;
    struct trace_line l = parsed("B 12.1 2026-11-22 07:00:00.000001 GET /a b");

    assert_int_equal(l.stage, 'B');
    is(l.id, "12.1");
    assert_int_equal(l.time_us, 1795330800000001);
    is(l.method, "GET");
    is(l.path, "/a b");
    assert_int_equal(parsed("I 1 2026-11-22 07:00:00.5 77").bytes, 77);
    assert_int_equal(parsed("C 1 2026-11-22 07:00:00").stage, 'C');
    l = parsed("A 1 2026-11-22 07:00:00.5 404 -");
    assert_int_equal(l.status, 404);
    assert_true(l.bytes == TRACE_LINE_UNKNOWN);
    assert_int_equal(parsed("E 1 2026-11-22 07:00:00.5").stage, 'E');
    assert_int_equal(parsed("S 0 2026-11-22 07:00:00.5").stage, 'S');
    assert_int_equal(parsed("X 0 2026-11-22 07:00:00.5").stage, 'X');
    is(parsed("D 1 2026-11-22 07:00:00.5 42 0 x 2 1").text, "42 0 x 2 1");
    l = parsed("- 1 2026-11-22 07:00:00.5 a.b c d");
    is(l.name, "a.b");
    is(l.text, "c d");
}

static void times_of_the_original_are_read(void **state)
{
    (void)state;
    assert_int_equal(parsed("C -1214390740 2007-04-27T20:16:55.703829").time_us, 1177705015703829);
    assert_int_equal(parsed("C 1 2007-04-27 20:16:55").time_us, 1177705015000000);
    assert_int_equal(parsed("C 1 1970-01-01 00:00:00.25").time_us, 250000);
    assert_int_equal(parsed("C 1 2024-02-29 00:00:00").time_us, 1709164800000000);
}

static void an_invalid_record_is_rejected(void **state)
{
    (void)state;
    rejected("", "not a record of a trace log");
    rejected("Q 1 2026-11-22 07:00:00.5", "not a record of a trace log");
    rejected("BB 1 2026-11-22 07:00:00.5 GET /", "not a record of a trace log");
    rejected("E  2026-11-22 07:00:00.5", "name of the request is missing");
    rejected("E 1 2026-02-29 07:00:00", "no time");
    rejected("E 1 2026-13-01 07:00:00", "no time");
    rejected("E 1 2026-11-22 24:00:00", "no time");
    rejected("E 1 2026-11-22 07:00:00.", "no time");
    rejected("E 1 2026-11-22 07:00:00.1234567", "no time");
    rejected("E 1 1969-12-31 23:59:59", "no time");
    rejected("E 1 2026-11-22 07:00:00.5 more", "unexpected text after the time");
    rejected("B 1 2026-11-22 07:00:00.5 GET", "no method and path");
    rejected("I 1 2026-11-22 07:00:00.5 -1", "no number of bytes");
    rejected("I 1 2026-11-22 07:00:00.5", "no number of bytes");
    rejected("A 1 2026-11-22 07:00:00.5 99 1", "no status");
    rejected("A 1 2026-11-22 07:00:00.5 200", "no number of bytes");
    rejected("- 1 2026-11-22 07:00:00.5", "no name");
    rejected("E 1 2026-11-22 07:00:00.5\r", "a control character");
}

static void a_record_that_is_too_long_is_rejected(void **state)
{
    (void)state;
    char *line = malloc(TRACE_LINE_MAX + 2);
    int n = snprintf(line, TRACE_LINE_MAX, "B 1 2026-11-22 07:00:00 GET /");

    memset(line + n, 'x', (size_t)(TRACE_LINE_MAX + 1 - n));
    line[TRACE_LINE_MAX + 1] = '\0';
    rejected(line, "too long");
    line[TRACE_LINE_MAX] = '\0';
    assert_int_equal(parsed(line).stage, 'B');
    free(line);
}

static void bytes_from_clients_stay_within_their_field(void **state)
{
    (void)state;
    struct trace_line l = {.stage = 'B',
                           .id = SLICE_LIT("1.2"),
                           .time_us = 1795330800000001,
                           .method = SLICE_LIT("G T\n"),
                           .path = SLICE_LIT("/\nE 1.2\xff")};

    prints(&l, "B 1.2 2026-11-22 07:00:00.000001 G_T\\x0a /\\x0aE 1.2\\xff\n");
    l.method = l.path = SLICE_NULL;
    prints(&l, "B 1.2 2026-11-22 07:00:00.000001 - -\n");
}

static void the_longest_path_still_makes_a_record(void **state)
{
    (void)state;
    char path[TRACE_LINE_PATH_MAX + 10];
    struct trace_line l = {.stage = 'B',
                           .id = SLICE_LIT("1"),
                           .method = SLICE_LIT("GET"),
                           .path = {path, sizeof(path)}};
    struct trace_line again;
    struct text out = {0};

    memset(path, 0xff, sizeof(path));
    trace_line_print(&l, &out);
    assert_null(trace_line_parse((struct slice){out.p, out.len - 1}, &again));
    assert_int_equal(again.path.len, 4 * TRACE_LINE_PATH_MAX);
    text_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stage_is_read),
        cmocka_unit_test(times_of_the_original_are_read),
        cmocka_unit_test(an_invalid_record_is_rejected),
        cmocka_unit_test(a_record_that_is_too_long_is_rejected),
        cmocka_unit_test(bytes_from_clients_stay_within_their_field),
        cmocka_unit_test(the_longest_path_still_makes_a_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
