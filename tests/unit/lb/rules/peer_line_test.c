/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/peer_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/limits.h"

#define DIGITS "0123456789abcdef"

static void assert_line(bool first, struct slice bytes, enum peer_line_kind kind)
{
    char why[JSON_WHY_ROOM];
    struct peer_line l;
    const char *got = peer_line_read(&l, first, bytes, why);

    if (got != NULL)
        fail_msg("%.*s: %s", (int)bytes.len, bytes.p, got);
    assert_int_equal(l.kind, kind);
    peer_line_fini(&l);
}

static void assert_rejected(bool first, struct slice bytes, const char *why)
{
    char reason[JSON_WHY_ROOM];
    struct peer_line l;
    const char *got = peer_line_read(&l, first, bytes, reason);

    if (got == NULL || strstr(got, why) == NULL)
        fail_msg("%.100s: %s, expected %s", bytes.p, got != NULL ? got : "accepted", why);
    peer_line_fini(&l);
}

static void lines_of_each_kind_are_read(void **state)
{
    (void)state;
    assert_line(true, SLICE_NULL, PEER_LINE_EMPTY);
    assert_line(true,
                SLICE_LIT("{\"v\":1,\"balancer\":\"" DIGITS DIGITS
                          "\",\"applications\":{\"shop\":\"" DIGITS "\"}}"),
                PEER_LINE_FIRST);
    assert_line(false, SLICE_LIT("{\"v\":1,\"application\":\"shop\",\"worker\":\"10.0.0.7:80\"}"),
                PEER_LINE_WORKER);
    assert_line(false, SLICE_LIT("{\"v\":1,\"homes\":{\"a\":[2,1,\"new\",\"\",0.5]}}"),
                PEER_LINE_HOMES);
    assert_line(false,
                SLICE_LIT("{\"v\":1,\"application\":\"shop\",\"in_flight\":{\"w\":1000000}}"),
                PEER_LINE_IN_FLIGHT);
    assert_line(false, SLICE_LIT("{\"end\":\"stop\"}"), PEER_LINE_END);
}

static void a_first_line_with_another_spelling_of_an_instance_is_rejected(void **state)
{
    (void)state;
    assert_rejected(
        true,
        SLICE_LIT("{\"v\":1,\"balancer\":\"0123456789ABCDEF" DIGITS "\",\"applications\":{}}"),
        "invalid instance");
    assert_rejected(true,
                    SLICE_LIT("{\"v\":1,\"balancer\":\"" DIGITS DIGITS "0\",\"applications\":{}}"),
                    "not the stream");
    assert_rejected(
        true,
        SLICE_LIT("{\"v\":1,\"balancer\":\"" DIGITS DIGITS "\",\"applications\":{\"shop\":7}}"),
        "invalid fingerprint");
    assert_rejected(true, SLICE_LIT("{\"v\":1,\"homes\":{}}"), "not the stream");
    assert_rejected(true, SLICE_LIT("{\"end\":\"stop\"}"), "not version 1");
}

static void numbers_out_of_their_range_are_rejected(void **state)
{
    const char *const numbers[] = {"-1",   "1000001", "99999999999999999999", "1.5", "\"1\"",
                                   "null", "NaN"};
    const char *const whys[] = {"number", "number", "too big integer", "number",
                                "number", "number", "invalid token"};
    char line[200];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(numbers); ++i) {
        snprintf(line, sizeof(line), "{\"v\":1,\"application\":\"shop\",\"in_flight\":{\"w\":%s}}",
                 numbers[i]);
        assert_rejected(false, slice_of(line), whys[i]);
    }
    assert_rejected(false, SLICE_LIT("{\"v\":1,\"application\":\"shop\",\"in_flight\":[1]}"),
                    "not an object");
    assert_rejected(false, SLICE_LIT("{\"v\":1,\"homes\":{\"a\":[2,1,\"new\",\"\",1e999]}}"),
                    "real number overflow");
    assert_rejected(false, SLICE_LIT("{\"application\":\"shop\",\"worker\":\"w\"}"),
                    "not version 1");
}

/* A name that is cut to its limit would be that of another worker. */
static void names_over_their_limit_are_rejected(void **state)
{
    char line[400];

    (void)state;
    snprintf(line, sizeof(line), "{\"v\":1,\"application\":\"shop\",\"in_flight\":{\"%0255d\":1}}",
             0);
    assert_line(false, slice_of(line), PEER_LINE_IN_FLIGHT);
    snprintf(line, sizeof(line), "{\"v\":1,\"application\":\"shop\",\"in_flight\":{\"%0256d\":1}}",
             0);
    assert_rejected(false, slice_of(line), "name of a worker");
    snprintf(line, sizeof(line), "{\"v\":1,\"application\":\"shop\",\"worker\":\"%0256d\"}", 0);
    assert_rejected(false, slice_of(line), "name of a worker");
    assert_rejected(false, SLICE_LIT("{\"v\":1,\"application\":\"shop\"}"), "name of a worker");
}

static void a_line_has_a_bound_of_bytes_rows_and_workers(void **state)
{
    struct text line = {0};

    (void)state;
    text_add(&line, SLICE_LIT("{\"v\":1,\"homes\":{\"a\":[2,1,\"new\",\"\",0]"));
    for (unsigned i = 1; i < HOME_LINE_ROWS_MAX; ++i)
        text_addf(&line, ",\"%u\":[2,1,\"new\",\"\",0]", i);
    struct text more = {0};
    text_add(&more, text_slice(&line));
    text_add(&line, SLICE_LIT("}}"));
    text_add(&more, SLICE_LIT(",\"b\":[2,1,\"new\",\"\",0]}}"));
    assert_line(false, text_slice(&line), PEER_LINE_HOMES);
    assert_rejected(false, text_slice(&more), "too many classes");

    text_clear(&line);
    text_add(&line, SLICE_LIT("{\"v\":1,\"application\":\"shop\",\"in_flight\":{\"a\":1"));
    for (unsigned i = 0; i < JSON_ENTRIES_MAX; ++i)
        text_addf(&line, ",\"%u\":1", i);
    text_add(&line, SLICE_LIT("}}"));
    assert_rejected(false, text_slice(&line), "more than 50000 values");

    text_clear(&line);
    while (line.len <= RESUME_LINE_MAX)
        text_add(&line, SLICE_LIT("                                "));
    assert_rejected(false, text_slice(&line), "longer than 1048576 bytes");
    text_fini(&line);
    text_fini(&more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_each_kind_are_read),
        cmocka_unit_test(a_first_line_with_another_spelling_of_an_instance_is_rejected),
        cmocka_unit_test(numbers_out_of_their_range_are_rejected),
        cmocka_unit_test(names_over_their_limit_are_rejected),
        cmocka_unit_test(a_line_has_a_bound_of_bytes_rows_and_workers),
    };

    return cmocka_run_group_tests_name("peer_line", tests, NULL, NULL);
}
