/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/program/line_delta.h"

#include <stdlib.h>

enum { LINES = 64 };

/* As the page's script does it. */
static void apply(struct slice before, struct slice delta, struct text *out)
{
    struct slice lines[LINES];
    size_t n = 0;

    while (before.len != 0) {
        assert_true(n < LINES);
        lines[n++] = slice_cut(&before, '\n');
    }
    while (delta.len != 0) {
        struct slice step = slice_cut(&delta, '\n');

        assert_true(step.len != 0);
        if (step.p[0] == '+') {
            text_add(out, (struct slice){step.p + 1, step.len - 1});
            text_add_char(out, '\n');
            continue;
        }
        assert_int_equal(step.p[0], '=');
        char *end = NULL;
        size_t from = strtoul(step.p + 1, &end, 10);
        assert_int_equal(*end, ',');
        size_t count = strtoul(end + 1, NULL, 10);
        assert_true(count != 0);
        assert_true(from + count <= n);
        for (size_t i = from; i < from + count; ++i) {
            text_add(out, lines[i]);
            text_add_char(out, '\n');
        }
    }
}

static void expect(const char *before, const char *now, const char *want)
{
    struct text delta = {0};
    struct text made = {0};

    line_delta(slice_of(before), slice_of(now), '\n', &delta);
    if (want != NULL)
        assert_string_equal(text_cstr(&delta), want);
    apply(slice_of(before), text_slice(&delta), &made);
    assert_string_equal(text_cstr(&made), now);
    text_fini(&made);
    text_fini(&delta);
}

static void lines_that_are_the_same_are_named_and_others_reported(void **state)
{
    (void)state;
    expect("a\nb\nc\n", "a\nb\nc\n", "=0,3\n");
    expect("a\nb\nc\n", "a\nx\nc\n", "=0,1\n+x\n=2,1\n");
    expect("a\nb\nc\n", "c\na\nb\n", "=2,1\n=0,2\n");
    expect("a\nb\nc\n", "b\n", "=1,1\n");
    expect("", "a\n\n", "+a\n+\n");
    expect("a\n", "", "");
    expect("", "", "");
}

static void duplicate_lines_keep_their_neighbours(void **state)
{
    (void)state;
    expect("<tr>\n1\n<tr>\n2\n", "<tr>\n1\n<tr>\n3\n", "=0,3\n+3\n");
    expect("<tr>\n<tr>\n<tr>\n", "<tr>\n<tr>\n<tr>\n<tr>\n", "=0,3\n=0,1\n");
    expect("+1\n=0,1\n", "=0,1\n+1\n", "=1,1\n=0,1\n");
}

static void a_last_line_without_an_end_has_one_afterwards(void **state)
{
    struct text delta = {0};

    (void)state;
    line_delta(SLICE_LIT("a\nb"), SLICE_LIT("b\na"), '\n', &delta);
    assert_string_equal(text_cstr(&delta), "=1,1\n=0,1\n");
    text_fini(&delta);
}

static void members_that_are_replaced_keep_the_place_of_those_that_are_equal(void **state)
{
    struct text delta = {0};

    (void)state;
    line_delta(SLICE_LIT("{a,1,2,0,0,b,1,2,0,0}"), SLICE_LIT("{a,1,3,0,0,b,9,2,2,0}"), ',', &delta);
    assert_string_equal(text_cstr(&delta), "=0,2\n+3\n=3,3\n+9\n=7,1\n=2,1\n=9,1\n");
    text_fini(&delta);
}

static void any_two_texts_are_made_of_each_other(void **state)
{
    uint32_t seed = 7;

    (void)state;
    for (int round = 0; round < 20000; ++round) {
        char texts[2][LINES + 1];

        for (int k = 0; k < 2; ++k) {
            size_t len = 0;

            seed = seed * 1664525u + 1013904223u;
            size_t most = (seed >> 16) % LINES;
            while (len < most) {
                seed = seed * 1664525u + 1013904223u;
                texts[k][len++] = "ab\n\n"[(seed >> 20) % 4];
            }
            if (len != 0)
                texts[k][len - 1] = '\n';
            texts[k][len] = '\0';
        }
        expect(texts[0], texts[1], NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_that_are_the_same_are_named_and_others_reported),
        cmocka_unit_test(duplicate_lines_keep_their_neighbours),
        cmocka_unit_test(a_last_line_without_an_end_has_one_afterwards),
        cmocka_unit_test(members_that_are_replaced_keep_the_place_of_those_that_are_equal),
        cmocka_unit_test(any_two_texts_are_made_of_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
