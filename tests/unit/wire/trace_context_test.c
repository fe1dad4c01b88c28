/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/trace_context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"

static bool parses(const char *text)
{
    struct trace_parent p;

    return trace_parent_parse(slice_of(text), &p);
}

static void a_parent_is_read_and_written_as_it_was(void **state)
{
    struct trace_parent p;
    char text[TRACE_PARENT_LEN];

    (void)state;
    assert_true(trace_parent_parse(SLICE_LIT("00-" TRACE "-" SPAN "-fe"), &p));
    assert_memory_equal(p.trace_id, TRACE, TRACE_ID_LEN);
    assert_memory_equal(p.span_id, SPAN, SPAN_ID_LEN);
    assert_int_equal(p.flags, 0xfe);
    trace_parent_print(&p, text);
    assert_memory_equal(text, "00-" TRACE "-" SPAN "-fe", TRACE_PARENT_LEN);
}

static void an_invalid_traceparent_is_rejected(void **state)
{
    (void)state;
    assert_false(parses(""));
    assert_false(parses("00-" TRACE "-" SPAN "-0"));
    assert_false(parses(" 00-" TRACE "-" SPAN "-01"));
    assert_false(parses("00-" TRACE "-" SPAN "-01 "));
    assert_false(parses("00-" TRACE "-" SPAN "-01-more"));
    assert_false(parses("ff-" TRACE "-" SPAN "-01"));
    assert_false(parses("0A-" TRACE "-" SPAN "-01"));
    assert_false(parses("00_" TRACE "-" SPAN "-01"));
    assert_false(parses("00-" TRACE "_" SPAN "-01"));
    assert_false(parses("00-" TRACE "-" SPAN "_01"));
    assert_false(parses("00-" TRACE "-" SPAN "-0g"));
    assert_false(parses("00-0AF7651916cd43dd8448eb211c80319c-" SPAN "-01"));
    assert_false(parses("00-00000000000000000000000000000000-" SPAN "-01"));
    assert_false(parses("00-" TRACE "-0000000000000000-01"));
}

static void a_later_version_is_read_as_far_as_it_is_known(void **state)
{
    (void)state;
    assert_true(parses("cc-" TRACE "-" SPAN "-01"));
    assert_true(parses("cc-" TRACE "-" SPAN "-01-what-will-be"));
    assert_false(parses("cc-" TRACE "-" SPAN "-01.what-will-be"));
}

static bool state_ok(const char *text)
{
    size_t members = 0;

    return trace_state_valid(slice_of(text), &members);
}

static void a_state_is_members_within_bounds(void **state)
{
    char long_value[600];
    size_t members = 0;

    (void)state;
    assert_true(state_ok(""));
    assert_true(state_ok("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"));
    assert_true(state_ok("a=1 , ,\tb=2 3"));
    assert_true(state_ok("0tenant@system=x"));
    assert_false(state_ok("a"));
    assert_false(state_ok("a="));
    assert_false(state_ok("=1"));
    assert_false(state_ok("A=1"));
    assert_false(state_ok("0a=1"));
    assert_false(state_ok("@system=1"));
    assert_false(state_ok("tenant@=1"));
    assert_false(state_ok("tenant@system-too-long-x=1"));
    assert_false(state_ok("a=b=c"));
    assert_false(state_ok("a=\x80"));
    memset(long_value, 'a', sizeof(long_value));
    long_value[1] = '=';
    assert_true(trace_state_valid((struct slice){long_value, 258}, &members));
    assert_false(trace_state_valid((struct slice){long_value, 259}, &members));
    members = TRACE_STATE_MEMBERS_MAX - 1;
    assert_true(trace_state_valid(SLICE_LIT("a=1"), &members));
    assert_false(trace_state_valid(SLICE_LIT("a=1"), &members));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parent_is_read_and_written_as_it_was),
        cmocka_unit_test(an_invalid_traceparent_is_rejected),
        cmocka_unit_test(a_later_version_is_read_as_far_as_it_is_known),
        cmocka_unit_test(a_state_is_members_within_bounds),
    };

    return cmocka_run_group_tests_name("trace_context", tests, NULL, NULL);
}
