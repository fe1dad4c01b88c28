/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/inspect/inspect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/json.h"

#define AT "2026-11-22 07:00:"

static void add(struct trace_report *r, const char *line)
{
    struct trace_line l;

    assert_null(trace_line_parse(slice_of(line), &l));
    trace_report_add(r, &l);
}

static void add_all(struct trace_report *r, const char *const *lines, size_t n)
{
    for (size_t i = 0; i < n; ++i)
        add(r, lines[i]);
    trace_report_end(r);
}

static void times_of_a_url_are_from_called_to_responded(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "S 0 " AT "00",        "B 1 " AT "01 GET /a", "I 1 " AT "02 0",       "C 1 " AT "03",
        "B 2 " AT "03 GET /a", "I 2 " AT "03 0",      "C 2 " AT "03",         "A 1 " AT "04 200 5",
        "E 1 " AT "09",        "A 2 " AT "06 500 5",  "E 2 " AT "09.5",       "B 3 " AT "10 GET /b",
        "I 3 " AT "10 0",      "C 3 " AT "10",        "A 3 " AT "10.5 404 1", "E 3 " AT "11",
    };
    struct trace_report r = {0};

    add_all(&r, lines, ARRAY_LEN(lines));
    assert_int_equal(r.finished, 3);
    assert_int_equal(r.restarts, 0);
    assert_int_equal(map_count(&r.urls), 2);
    const struct trace_url *u = r.by_impact[0];

    assert_string_equal(u->path, "/a");
    assert_int_equal(u->finished, 2);
    assert_int_equal(u->min_us, 1000000);
    assert_int_equal(u->median_us, 2000000);
    assert_int_equal(u->max_us, 3000000);
    assert_int_equal(u->sum_us, 4000000);
    assert_int_equal(u->statuses[2], 1);
    assert_int_equal(u->statuses[5], 1);
    assert_int_equal(r.by_impact[1]->statuses[4], 1);
    assert_int_equal(r.busiest, 2);
    trace_report_fini(&r);
}

static void the_median_is_the_middle_one(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "B 1 " AT "01 GET /", "C 1 " AT "01", "A 1 " AT "10 200 5", "E 1 " AT "10",
        "B 1 " AT "11 GET /", "C 1 " AT "11", "A 1 " AT "12 200 5", "E 1 " AT "12",
        "B 1 " AT "13 GET /", "C 1 " AT "13", "A 1 " AT "15 200 5", "E 1 " AT "15",
    };
    struct trace_report r = {0};

    add_all(&r, lines, ARRAY_LEN(lines));
    assert_int_equal(r.by_impact[0]->median_us, 2000000);
    assert_int_equal(r.unfinished_all, 0);
    trace_report_fini(&r);
}

static void requests_in_progress_at_a_restart_never_end(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "S 0 " AT "00", "B 1 " AT "01 POST /a", "I 1 " AT "01 0",      "C 1 " AT "01",
        "S 0 " AT "05", "E 1 " AT "06",         "B 2 " AT "07 GET /b",
    };
    struct trace_report r = {0};

    add_all(&r, lines, ARRAY_LEN(lines));
    assert_int_equal(r.restarts, 1);
    assert_int_equal(r.finished, 0);
    assert_int_equal(r.unfinished_all, 2);
    assert_string_equal(r.unfinished[0]->id, "1");
    assert_string_equal(r.unfinished[0]->method, "POST");
    assert_int_equal(r.unfinished[0]->state, TRACE_APP);
    assert_int_equal(r.unfinished[0]->age_us, 4000000);
    assert_string_equal(r.unfinished[0]->why, "the server was restarted");
    assert_int_equal(r.unfinished[1]->state, TRACE_INPUT);
    assert_string_equal(r.unfinished[1]->why, "in progress at the end of the log");
    trace_report_fini(&r);
}

static void our_own_ends_are_distinguished(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "B 1 " AT "01 GET /a",
        "- 1 " AT "02 resumelb.rejected 503 queue full",
        "B 2 " AT "02 GET /a",
        "C 2 " AT "02",
        "- 2 " AT "02 resumelb.again",
        "- 2 " AT "03 zc.example.extension message",
        "- 2 " AT "04 resumelb.failed 502 the application failed",
        "- 0 " AT "05 resumelb.upgraded",
    };
    struct trace_report r = {0};

    add_all(&r, lines, ARRAY_LEN(lines));
    assert_int_equal(r.rejected, 1);
    assert_int_equal(r.again, 1);
    assert_int_equal(r.upgrades, 1);
    assert_int_equal(r.unfinished_all, 1);
    assert_int_equal(r.by_impact[0]->rejected, 1);
    assert_int_equal(r.by_impact[0]->unfinished, 1);
    assert_string_equal(r.unfinished[0]->why, "failed: 502 the application failed");
    trace_report_fini(&r);
}

static void a_minute_reports_what_was_in_progress(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "B 1 2026-11-22 07:00:01 GET /a", "I 1 2026-11-22 07:00:01 0",
        "C 1 2026-11-22 07:00:02",        "B 2 2026-11-22 07:00:59 GET /a",
        "A 1 2026-11-22 07:01:01 200 1",  "E 1 2026-11-22 07:01:02",
    };
    struct trace_report r = {0};

    add_all(&r, lines, ARRAY_LEN(lines));
    assert_int_equal(r.nminutes, 2);
    assert_int_equal(r.minutes[0].most, 2);
    assert_int_equal(r.minutes[0].states[TRACE_APP], 1);
    assert_int_equal(r.minutes[0].states[TRACE_INPUT], 1);
    assert_int_equal(r.minutes[1].finished, 1);
    assert_int_equal(r.minutes[1].total_us, 61000000);
    assert_int_equal(r.minutes[1].app_us, 59000000);
    assert_int_equal(r.minutes[1].states[TRACE_INPUT], 1);
    assert_int_equal(r.minutes[1].states[TRACE_APP], 0);
    trace_report_fini(&r);
}

static void too_many_urls_are_one_and_too_many_requests_are_left_out(void **state)
{
    (void)state;
    struct trace_report r = {0};
    char line[100];

    for (int i = 0; i < TRACE_ACTIVE_MAX + 5; ++i) {
        snprintf(line, sizeof(line), "B %d " AT "01 GET /%d", i, i);
        add(&r, line);
    }
    assert_int_equal(map_count(&r.active), TRACE_ACTIVE_MAX);
    assert_int_equal(r.left_out, 5);
    for (int i = 0; i < 3; ++i) {
        snprintf(line, sizeof(line), "E %d " AT "02", i);
        add(&r, line);
        snprintf(line, sizeof(line), "B new%d " AT "02 GET /new%d", i, i);
        add(&r, line);
    }
    assert_int_equal(map_count(&r.urls), TRACE_URLS_MAX + 1);
    trace_report_end(&r);
    assert_int_equal(r.nunfinished, TRACE_UNFINISHED_MAX);
    assert_int_equal(r.unfinished_all, TRACE_ACTIVE_MAX);
    assert_string_equal(r.by_impact[0]->path, "(others)");
    assert_int_equal(r.by_impact[0]->unfinished, 3);
    trace_report_fini(&r);
}

static void json_is_valid_whatever_the_log_states(void **state)
{
    (void)state;
    static const char *const lines[] = {"B 1 " AT "01 GET /\xff\"\\", "C 1 " AT "01"};
    struct trace_report r = {0};
    struct text out = {0};
    json_t *v;

    add_all(&r, lines, ARRAY_LEN(lines));
    trace_report_json(&r, 0, &out);
    assert_int_equal(json_parse(text_slice(&out), 1 << 20, &v, NULL), ERR_OK);
    assert_int_equal(json_array_size(json_object_get(v, "unfinished")), 1);
    assert_int_equal(json_integer_value(json_object_get(v, "requests")), 1);
    json_decref(v);
    text_clear(&out);
    trace_report_print(&r, 0, false, &out);
    assert_non_null(strstr(text_cstr(&out), "1 unfinished"));
    assert_null(memchr(out.p, 0xff, out.len));
    text_fini(&out);
    trace_report_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_of_a_url_are_from_called_to_responded),
        cmocka_unit_test(the_median_is_the_middle_one),
        cmocka_unit_test(requests_in_progress_at_a_restart_never_end),
        cmocka_unit_test(our_own_ends_are_distinguished),
        cmocka_unit_test(a_minute_reports_what_was_in_progress),
        cmocka_unit_test(too_many_urls_are_one_and_too_many_requests_are_left_out),
        cmocka_unit_test(json_is_valid_whatever_the_log_states),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
