/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "ctl/simulate/access_line.h"

/* 2026-11-22 06:25:00 UTC */
static const uint64_t MORNING_MS = 1795328700000;

static char room[4096];

static enum access_fault read_line(const char *line, struct access_line *out)
{
    assert_true(strlen(line) + ACCESS_HOST_MAX <= sizeof(room));
    return access_line_parse(slice_of(line), room, out);
}

static void assert_slice(struct slice s, const char *expected)
{
    assert_int_equal(s.len, strlen(expected));
    assert_memory_equal(s.p != NULL ? s.p : "", expected, s.len);
}

static void a_combined_line_without_host_is_read(void **state)
{
    struct access_line l;

    (void)state;
    assert_int_equal(read_line("10.0.0.1 - bob [22/Nov/2026:06:25:00 +0000] \"GET /a/b?c=d "
                               "HTTP/1.1\" 200 512 \"http://r/\" \"Agent \\\"x\\\"\"",
                               &l),
                     ACCESS_FAULT_NONE);
    assert_slice(l.method, "GET");
    assert_slice(l.path, "/a/b");
    assert_slice(l.query, "c=d");
    assert_slice(l.host, "");
    assert_slice(l.client, "10.0.0.1");
    assert_slice(l.referer, "http://r/");
    assert_slice(l.agent, "Agent \"x\"");
    assert_int_equal(l.status, 200);
    assert_int_equal(l.time_ms, MORNING_MS);
}

static void a_host_first_counts_without_port_and_in_lower_case(void **state)
{
    struct access_line l;

    (void)state;
    assert_int_equal(read_line("WWW.Example.com:443 ::1 - - [22/Nov/2026:07:55:00 +0130] \"HEAD / "
                               "HTTP/2.0\" 304 - \"-\" \"-\"",
                               &l),
                     ACCESS_FAULT_NONE);
    assert_slice(l.host, "www.example.com");
    assert_slice(l.client, "::1");
    assert_slice(l.referer, "");
    assert_int_equal(l.time_ms, MORNING_MS);
}

static void a_common_line_has_no_agent(void **state)
{
    struct access_line l;

    (void)state;
    assert_int_equal(read_line("h - - [22/Nov/2026:04:25:00 -0200] \"GET /x HTTP/1.0\" 404 0", &l),
                     ACCESS_FAULT_NONE);
    assert_int_equal(l.time_ms, MORNING_MS);
    assert_slice(l.agent, "");
}

static void an_absolute_target_names_the_host(void **state)
{
    struct access_line l;

    (void)state;
    assert_int_equal(read_line("h - - [22/Nov/2026:06:25:00 +0000] \"GET "
                               "http://A.example:8080?x HTTP/1.1\" 200 1",
                               &l),
                     ACCESS_FAULT_NONE);
    assert_slice(l.host, "a.example");
    assert_slice(l.path, "/");
    assert_slice(l.query, "x");
    assert_int_equal(read_line("h - - [22/Nov/2026:06:25:00 +0000] \"GET "
                               "http://A.example:8080/p?x HTTP/1.1\" 200 1",
                               &l),
                     ACCESS_FAULT_NONE);
    assert_slice(l.host, "a.example");
    assert_slice(l.path, "/p");
    assert_slice(l.query, "x");
}

static void our_own_fields_behind_the_agent_are_read(void **state)
{
    struct access_line l;

    (void)state;
    assert_int_equal(read_line("h - - [22/Nov/2026:06:25:00 +0000] \"GET /\\x22q HTTP/1.1\" 200 1 "
                               "\"-\" \"a\" host=\"B.example:1\" tries=1 service_us=1234 "
                               "outcome=\"ok\"",
                               &l),
                     ACCESS_FAULT_NONE);
    assert_slice(l.host, "b.example");
    assert_slice(l.path, "/\"q");
    assert_int_equal(l.service_us, 1234);
}

static void a_line_in_json_is_read(void **state)
{
    struct access_line l;

    (void)state;
    assert_int_equal(
        read_line("{\"time\":\"2026-11-22T06:25:00.123Z\",\"client\":\"::1\",\"method\":"
                  "\"GET\",\"target\":\"/p?q\",\"status\":200,\"host\":\"[::1]:80\","
                  "\"agent\":\"c\",\"service_us\":99}",
                  &l),
        ACCESS_FAULT_NONE);
    assert_slice(l.host, "[::1]");
    assert_slice(l.path, "/p");
    assert_slice(l.agent, "c");
    assert_int_equal(l.time_ms, MORNING_MS + 123);
    assert_int_equal(l.service_us, 99);
}

static void the_fault_of_a_line_is_reported(void **state)
{
    static const struct {
        const char *line;
        enum access_fault fault;
    } cases[] = {
        {"", ACCESS_FAULT_FIELDS},
        {"garbage", ACCESS_FAULT_FIELDS},
        {"v h - - more [22/Nov/2026:06:25:00 +0000] \"GET / HTTP/1.1\" 200 1", ACCESS_FAULT_FIELDS},
        {"a:b h - - [22/Nov/2026:06:25:00 +0000] \"GET / HTTP/1.1\" 200 1", ACCESS_FAULT_HOST},
        {"a/b h - - [22/Nov/2026:06:25:00 +0000] \"GET / HTTP/1.1\" 200 1", ACCESS_FAULT_HOST},
        {"h - - [32/Nov/2026:06:25:00 +0000] \"GET / HTTP/1.1\" 200 1", ACCESS_FAULT_TIME},
        {"h - - [22/Now/2026:06:25:00 +0000] \"GET / HTTP/1.1\" 200 1", ACCESS_FAULT_TIME},
        {"h - - [22/Nov/2026:06:25:00 +0000", ACCESS_FAULT_TIME},
        {"h - - [22/Nov/2026:06:25:00 +0000] \"-\" 408 0", ACCESS_FAULT_REQUEST},
        {"h - - [22/Nov/2026:06:25:00 +0000] \"GET x HTTP/1.1\" 400 0", ACCESS_FAULT_REQUEST},
        {"h - - [22/Nov/2026:06:25:00 +0000] \"G E T / HTTP/1.1\" 400 0", ACCESS_FAULT_REQUEST},
        {"h - - [22/Nov/2026:06:25:00 +0000] \"GET / HTTP/1.1", ACCESS_FAULT_QUOTES},
        {"h - - [22/Nov/2026:06:25:00 +0000] \"GET /\\q HTTP/1.1\" 200 0", ACCESS_FAULT_QUOTES},
        {"h - - [22/Nov/2026:06:25:00 +0000] \"GET / HTTP/1.1\" 99 0", ACCESS_FAULT_STATUS},
        {"h - - [22/Nov/2026:06:25:00 +0000] \"GET / HTTP/1.1\" 200 x", ACCESS_FAULT_STATUS},
        {"{\"time\":1}", ACCESS_FAULT_TIME},
        {"{\"time\":", ACCESS_FAULT_JSON},
    };
    struct access_line l;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i)
        assert_int_equal(read_line(cases[i].line, &l), cases[i].fault);
}

static void a_line_over_the_limit_is_rejected(void **state)
{
    char *line = xmalloc(ACCESS_LINE_MAX + 1);
    struct access_line l;

    (void)state;
    memset(line, 'a', ACCESS_LINE_MAX + 1);
    assert_int_equal(access_line_parse((struct slice){line, ACCESS_LINE_MAX + 1}, room, &l),
                     ACCESS_FAULT_TOO_LONG);
    free(line);
}

static void equal_times_are_spread_over_what_the_log_resolves(void **state)
{
    struct requests r = {.is_fine = false};
    /* Every second value is a due time, as in an array of structs. */
    uint64_t due_ns[] = {0, 7, 0, 7, 0, 7, 0, 7, 3000000000, 7};

    (void)state;
    requests_spread(&r, due_ns, 2 * sizeof(due_ns[0]), 5);
    assert_int_equal(due_ns[0], 0);
    assert_int_equal(due_ns[1], 7);
    assert_int_equal(due_ns[2], 250000000);
    assert_int_equal(due_ns[6], 750000000);
    assert_int_equal(due_ns[8], 3000000000);
    uint64_t fine_ns[] = {0, 5000000, 5000000};
    r.is_fine = true;
    requests_spread(&r, fine_ns, sizeof(fine_ns[0]), 3);
    assert_int_equal(fine_ns[1], 5000000);
    assert_int_equal(fine_ns[2], 5500000);
}

static void a_byte_order_mark_before_the_first_line_is_skipped(void **state)
{
    char path[] = RLB_TEST_DIR "/access_line_test.XXXXXX";
    int fd = mkstemp(path);
    const struct slice text = SLICE_LIT("\xef\xbb\xbf/first\n/second\n");
    struct requests r;
    struct access_line line;
    struct diag d = {0};

    (void)state;
    assert_int_equal(write(fd, text.p, text.len), text.len);
    close(fd);
    assert_int_equal(requests_open(path, &r, &d), ERR_OK);
    assert_true(requests_next(&r, &line));
    assert_true(slice_is(line.path, "/first"));
    assert_true(requests_next(&r, &line));
    assert_true(slice_is(line.path, "/second"));
    assert_false(requests_next(&r, &line));
    fclose(r.in);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_order_mark_before_the_first_line_is_skipped),
        cmocka_unit_test(a_combined_line_without_host_is_read),
        cmocka_unit_test(a_host_first_counts_without_port_and_in_lower_case),
        cmocka_unit_test(a_common_line_has_no_agent),
        cmocka_unit_test(an_absolute_target_names_the_host),
        cmocka_unit_test(our_own_fields_behind_the_agent_are_read),
        cmocka_unit_test(a_line_in_json_is_read),
        cmocka_unit_test(the_fault_of_a_line_is_reported),
        cmocka_unit_test(a_line_over_the_limit_is_rejected),
        cmocka_unit_test(equal_times_are_spread_over_what_the_log_resolves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
