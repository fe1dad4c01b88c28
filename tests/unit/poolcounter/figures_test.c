/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "poolcounter/server_internal.h"

static const uint64_t SECOND = 1000000;

static void expect(const struct stats_figures *f, const char *what, bool extra, const char *wanted)
{
    struct text out = {0};

    text_add(&out, SLICE_LIT("before "));
    assert_int_equal(stats_text(f, slice_of(what), extra, &out), wanted != NULL);
    if (wanted == NULL)
        wanted = "";
    assert_string_equal(text_cstr(&out) + strlen("before "), wanted);
    text_fini(&out);
}

static void full_is_written_as_the_original_writes_it(void **state)
{
    const struct stats_figures f = {
        .counters =
            {
                .acquired = 1,
                .released = 2,
                .processed = 4,
                .full = 8,
                .keys = 3,
                .held = 4,
                .waiting = 5,
                .processing_us = 10 * SECOND,
                .gained_us = 61 * SECOND + 5,
                .waited_me_us = 3600 * SECOND,
                .waited_any_us = SECOND / 2,
                .waited_good_us = (2 * 86400 + 3 * 3600 + 4 * 60 + 5) * SECOND + 678901,
                .wasted_us = 59 * SECOND + 999999,
            },
        .uptime_us = (633 * 86400 + 1 * 3600 + 42 * 60 + 26) * SECOND + 999999,
        .stats[STAT_connect_errors] = 6,
        .stats[STAT_failed_sends] = 7,
        .stats[STAT_lock_mismatch] = 9,
        .stats[STAT_lock_while_waiting] = 10,
        .stats[STAT_release_mismatch] = 11,
    };

    (void)state;
    expect(&f, "FULL", false,
           "uptime: 633 days, 1h 42m 26s\n"
           "total processing time: 10.000000s\n"
           "average processing time: 2.500000s\n"
           "gained time: 1m 1.000005s\n"
           "waiting time: 1h 0m 0.500000s\n"
           "waiting time for me: 1h 0m 0.000000s\n"
           "waiting time for anyone: 0.500000s\n"
           "waiting time for good: 2 days 3h 4m 5.678901s\n"
           "wasted timeout time: 59.999999s\n"
           "total_acquired: 1\n"
           "total_releases: 2\n"
           "hashtable_entries: 3\n"
           "processing_workers: 4\n"
           "waiting_workers: 5\n"
           "connect_errors: 6\n"
           "failed_sends: 7\n"
           "full_queues: 8\n"
           "lock_mismatch: 9\n"
           "lock_while_waiting: 10\n"
           "release_mismatch: 11\n"
           "processed_count: 4\n"
           "\n");
}

static void names_are_compared_without_case_to_their_end(void **state)
{
    const struct stats_figures f = {.uptime_us = 61 * SECOND, .counters.waiting = 5};

    (void)state;
    expect(&f, "uptime", false, "uptime: 0 days, 0h 1m 1s\n");
    expect(&f, "UpTime", false, "uptime: 0 days, 0h 1m 1s\n");
    expect(&f, "WAITING_workers", false, "waiting_workers: 5\n");
    expect(&f, "uptime ", false, NULL);
    expect(&f, "upti", false, NULL);
    expect(&f, "", false, NULL);
    expect(&f, "waiting time", false, NULL);
}

static void our_own_counters_are_known_by_option_and_stand_last(void **state)
{
    const struct stats_figures f = {
        .stats[STAT_connections] = 3, .stats[STAT_bad_commands] = 4, .counters.done = 5};
    struct text out = {0};

    (void)state;
    expect(&f, "done", false, NULL);
    expect(&f, "done", true, "done: 5\n");
    assert_true(stats_text(&f, SLICE_LIT("full"), true, &out));
    const char *tail = strstr(text_cstr(&out), "processed_count");
    assert_non_null(tail);
    assert_string_equal(tail, "processed_count: 0\n"
                              "connections: 3\n"
                              "done: 5\n"
                              "timeouts: 0\n"
                              "immediate_timeouts: 0\n"
                              "abandoned_waits: 0\n"
                              "out_of_memory: 0\n"
                              "bad_commands: 4\n"
                              "\n");
    text_fini(&out);
}

static void an_average_of_no_requests_is_zero(void **state)
{
    const struct stats_figures f = {.counters.processing_us = 5};
    struct text out = {0};

    (void)state;
    assert_true(stats_text(&f, SLICE_LIT("FULL"), false, &out));
    assert_non_null(strstr(text_cstr(&out), "average processing time: 0.000000s\n"));
    text_fini(&out);
}

static void the_first_types_have_entries_and_the_rest_share_one(void **state)
{
    struct types t = {.max = 2};

    (void)state;
    struct type_entry *a = types_get(&t, SLICE_LIT("a"));
    struct type_entry *b = types_get(&t, SLICE_LIT("b"));
    assert_ptr_not_equal(a, b);
    assert_true(slice_is(a->name, "a"));
    assert_ptr_equal(types_get(&t, SLICE_LIT("c")), &t.others);
    assert_ptr_equal(types_get(&t, SLICE_LIT("")), &t.others);
    assert_ptr_equal(types_get(&t, SLICE_LIT("a")), a);
    types_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_types_have_entries_and_the_rest_share_one),
        cmocka_unit_test(full_is_written_as_the_original_writes_it),
        cmocka_unit_test(names_are_compared_without_case_to_their_end),
        cmocka_unit_test(our_own_counters_are_known_by_option_and_stand_last),
        cmocka_unit_test(an_average_of_no_requests_is_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
