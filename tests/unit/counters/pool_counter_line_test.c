/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "common/counters/pool_counter_line.h"

/* ---- cutting ---- */

struct cutter {
    struct slice in;
    bool skipping;
};

static void expect_line(struct cutter *c, const char *wanted)
{
    struct slice line;

    assert_int_equal(pool_counter_line_cut(&c->in, &c->skipping, &line), CUT_LINE);
    assert_int_equal(line.len, strlen(wanted));
    assert_memory_equal(line.p, wanted, line.len);
}

static void expect_cut(struct cutter *c, enum pool_counter_cut wanted, size_t rest)
{
    struct slice line;

    assert_int_equal(pool_counter_line_cut(&c->in, &c->skipping, &line), wanted);
    assert_int_equal(c->in.len, rest);
}

static void lines_end_in_a_newline_and_lose_one_carriage_return(void **state)
{
    struct cutter c = {.in = SLICE_LIT("one\ntwo\r\nthree\r\r\n\n\r\nrest")};

    (void)state;
    expect_line(&c, "one");
    expect_line(&c, "two");
    expect_line(&c, "three\r");
    expect_line(&c, "");
    expect_line(&c, "");
    expect_cut(&c, CUT_REST, 4);
    assert_false(c.skipping);
}

static void an_empty_input_is_an_incomplete_line(void **state)
{
    struct cutter c = {.in = SLICE_NULL};

    (void)state;
    expect_cut(&c, CUT_REST, 0);
}

/* LENGTH bytes of 'x', then a newline, then "ok\n". The caller frees it. */
static char *long_line(size_t length)
{
    char *bytes = malloc(length + 4);

    assert_non_null(bytes);
    memset(bytes, 'x', length);
    memcpy(bytes + length, "\nok\n", 4);
    return bytes;
}

static void a_line_of_the_longest_length_is_one(void **state)
{
    char *bytes = long_line(POOL_COUNTER_LINE_MAX - 1);
    struct cutter c = {.in = {bytes, POOL_COUNTER_LINE_MAX + 3}};
    struct slice line;

    (void)state;
    assert_int_equal(pool_counter_line_cut(&c.in, &c.skipping, &line), CUT_LINE);
    assert_int_equal(line.len, POOL_COUNTER_LINE_MAX - 1);
    expect_line(&c, "ok");
    free(bytes);
}

static void a_longer_line_that_is_whole_is_reported_once(void **state)
{
    char *bytes = long_line(POOL_COUNTER_LINE_MAX);
    struct cutter c = {.in = {bytes, POOL_COUNTER_LINE_MAX + 4}};

    (void)state;
    expect_cut(&c, CUT_LONG, 3);
    expect_line(&c, "ok");
    expect_cut(&c, CUT_REST, 0);
    free(bytes);
}

static void a_longer_line_in_pieces_is_reported_once_and_skipped(void **state)
{
    char *bytes = long_line((size_t)3 * POOL_COUNTER_LINE_MAX);
    struct cutter c = {.in = {bytes, POOL_COUNTER_LINE_MAX}};

    (void)state;
    expect_cut(&c, CUT_LONG, 0);
    assert_true(c.skipping);
    c.in = (struct slice){bytes, POOL_COUNTER_LINE_MAX};
    expect_cut(&c, CUT_REST, 0);
    assert_true(c.skipping);
    c.in = (struct slice){bytes + (size_t)2 * POOL_COUNTER_LINE_MAX, POOL_COUNTER_LINE_MAX + 4};
    expect_line(&c, "ok");
    assert_false(c.skipping);
    free(bytes);
}

static void one_byte_less_than_too_long_is_kept(void **state)
{
    char *bytes = long_line(POOL_COUNTER_LINE_MAX);
    struct cutter c = {.in = {bytes, POOL_COUNTER_LINE_MAX - 1}};

    (void)state;
    expect_cut(&c, CUT_REST, POOL_COUNTER_LINE_MAX - 1);
    free(bytes);
}

/* ---- reading ---- */

static struct pool_counter_line parse_as(struct slice line, bool fractions)
{
    struct pool_counter_line l;

    pool_counter_line_parse(line, fractions, &l);
    return l;
}

static struct pool_counter_line parse(const char *line)
{
    return parse_as(slice_of(line), false);
}

static void verbs_are_recognised_in_the_originals_way(void **state)
{
    static const struct {
        const char *line;
        enum pool_counter_verb verb;
    } rows[] = {
        {"ACQ4ME k 1 1 1", VERB_ACQUIRE},
        {"ACQ4ANY k 1 1 1", VERB_ACQUIRE},
        {"ACQ4ME ", VERB_ACQUIRE},
        {"RELEASE", VERB_RELEASE},
        {"RELEASE key", VERB_RELEASE},
        {"RELEASExyz", VERB_RELEASE},
        {"STATS FULL", VERB_STATS},
        {"STATS ", VERB_STATS},
        {"", VERB_NONE},
        {"STATS", VERB_NONE},
        {"ACQ4ME", VERB_NONE},
        {"ACQ4ANY", VERB_NONE},
        {" RELEASE", VERB_NONE},
        {"release", VERB_NONE},
        {"RELEAS", VERB_NONE},
        {"acq4me k 1 1 1", VERB_NONE},
        {"ACQ4ME\tk 1 1 1", VERB_NONE},
        {"STATS\tFULL", VERB_NONE},
        {"ACQ4YOU k 1 1 1", VERB_NONE},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        if (parse(rows[i].line).verb != rows[i].verb)
            fail_msg("\"%s\"", rows[i].line);
    }
}

static void an_acquire_has_its_kind_key_and_numbers(void **state)
{
    struct pool_counter_line l = parse("ACQ4ANY  some:key   2  30    4 5 more");

    (void)state;
    assert_true(l.well_formed);
    assert_int_equal(l.ask.kind, COUNTER_ANY);
    assert_true(slice_is(l.ask.key, "some:key"));
    assert_int_equal(l.ask.workers, 2);
    assert_int_equal(l.ask.maxqueue, 30);
    assert_int_equal(l.ask.timeout_ms, 4000);
    assert_int_equal(l.ask.slots, 5);
    assert_int_equal(parse("ACQ4ME k 1 1 1").ask.kind, COUNTER_ME);
    assert_int_equal(parse("ACQ4ME k 1 1 1").ask.slots, 0);
}

static void without_key_workers_or_maxqueue_it_is_not_well_formed(void **state)
{
    static const char *const bad[] = {
        "ACQ4ME ",          "ACQ4ME    ",       "ACQ4ME k",        "ACQ4ME k 1",
        "ACQ4ME k 0 1 1",   "ACQ4ME k 1 0 1",   "ACQ4ME k -1 1 1", "ACQ4ME k +1 1 1",
        "ACQ4ME k 1x 1 1",  "ACQ4ME k 1.5 1 1", "ACQ4ME k\t1 1",   "ACQ4ME k 1 1\t1 1",
        "ACQ4ME k 0x1 1 1",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        if (parse(bad[i]).well_formed)
            fail_msg("\"%s\"", bad[i]);
        assert_int_equal(parse(bad[i]).verb, VERB_ACQUIRE);
    }
}

static void a_timeout_that_is_no_number_does_not_wait(void **state)
{
    static const char *const none[] = {"ACQ4ME k 1 1",      "ACQ4ME k 1 1 0",    "ACQ4ME k 1 1 x",
                                       "ACQ4ME k 1 1 -1",   "ACQ4ME k 1 1 0.25", "ACQ4ME k 1 1 1.5",
                                       "ACQ4ME k 1 1 000 7"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(none); ++i) {
        assert_true(parse(none[i]).well_formed);
        assert_int_equal(parse(none[i]).ask.timeout_ms, 0);
    }
}

static void tabs_and_all_other_bytes_are_part_of_a_word(void **state)
{
    struct pool_counter_line l = parse("ACQ4ME a\tb\r\x01\xff%20 1 1 1");

    (void)state;
    assert_true(l.well_formed);
    assert_true(slice_is(l.ask.key, "a\tb\r\x01\xff%20"));
}

static void a_nul_ends_the_line(void **state)
{
    struct pool_counter_line l = parse_as(SLICE_LIT("STATS UPTIME\0x"), false);

    (void)state;
    assert_int_equal(l.verb, VERB_STATS);
    assert_true(slice_is(l.what, "UPTIME"));
    assert_false(parse_as(SLICE_LIT("ACQ4ME k\0 1 1 1"), false).well_formed);
    assert_true(parse_as(SLICE_LIT("ACQ4ME k 1 1\0 1"), false).well_formed);
    assert_int_equal(parse_as(SLICE_LIT("ACQ4ME\0 k 1 1 1"), false).verb, VERB_NONE);
    assert_int_equal(parse_as(SLICE_LIT("\0"), false).verb, VERB_NONE);
}

static void numbers_may_have_leading_zeros_and_saturate(void **state)
{
    struct pool_counter_line l =
        parse("ACQ4ME k 0000000000000000007 4294967296 99999999999999999999999");

    (void)state;
    assert_int_equal(l.ask.workers, 7);
    assert_int_equal(l.ask.maxqueue, UINT32_MAX);
    assert_int_equal(l.ask.timeout_ms, (uint64_t)UINT32_MAX * 1000);
    assert_int_equal(parse("ACQ4ME k 4294967295 1 1").ask.workers, UINT32_MAX);
}

static uint64_t fraction(const char *timeout)
{
    char line[100];

    snprintf(line, sizeof(line), "ACQ4ME k 1 1 %s", timeout);
    return parse_as(slice_of(line), true).ask.timeout_ms;
}

static void fractions_are_milliseconds_by_option(void **state)
{
    (void)state;
    assert_int_equal(fraction("0.25"), 250);
    assert_int_equal(fraction("1.5"), 1500);
    assert_int_equal(fraction("2"), 2000);
    assert_int_equal(fraction("0.0019"), 1);
    assert_int_equal(fraction("0.00000000000000000001"), 1);
    assert_int_equal(fraction("0.99999999999999999999"), 999);
    assert_int_equal(fraction("0.0"), 0);
    assert_int_equal(fraction("99999999999.9"), (uint64_t)UINT32_MAX * 1000 + 900);
}

static void a_fraction_is_digits_a_dot_and_digits(void **state)
{
    (void)state;
    assert_int_equal(fraction(".5"), 0);
    assert_int_equal(fraction("1."), 0);
    assert_int_equal(fraction("1.5.5"), 0);
    assert_int_equal(fraction("1,5"), 0);
    assert_int_equal(fraction("-1.5"), 0);
    assert_int_equal(fraction("1.x"), 0);
    assert_int_equal(fraction("1e3"), 0);
}

static void the_argument_of_stats_is_all_that_follows(void **state)
{
    (void)state;
    assert_true(slice_is(parse("STATS FULL").what, "FULL"));
    assert_true(slice_is(parse("STATS  full ").what, " full "));
    assert_int_equal(parse("STATS ").what.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_end_in_a_newline_and_lose_one_carriage_return),
        cmocka_unit_test(an_empty_input_is_an_incomplete_line),
        cmocka_unit_test(a_line_of_the_longest_length_is_one),
        cmocka_unit_test(a_longer_line_that_is_whole_is_reported_once),
        cmocka_unit_test(a_longer_line_in_pieces_is_reported_once_and_skipped),
        cmocka_unit_test(one_byte_less_than_too_long_is_kept),
        cmocka_unit_test(verbs_are_recognised_in_the_originals_way),
        cmocka_unit_test(an_acquire_has_its_kind_key_and_numbers),
        cmocka_unit_test(without_key_workers_or_maxqueue_it_is_not_well_formed),
        cmocka_unit_test(a_timeout_that_is_no_number_does_not_wait),
        cmocka_unit_test(tabs_and_all_other_bytes_are_part_of_a_word),
        cmocka_unit_test(a_nul_ends_the_line),
        cmocka_unit_test(numbers_may_have_leading_zeros_and_saturate),
        cmocka_unit_test(fractions_are_milliseconds_by_option),
        cmocka_unit_test(a_fraction_is_digits_a_dot_and_digits),
        cmocka_unit_test(the_argument_of_stats_is_all_that_follows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
