/* SPDX-License-Identifier: Apache-2.0 */
#include "classifiers/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct search *compiled(const char *pattern)
{
    char why[SEARCH_WHY_ROOM];
    struct search *s = search_compile(pattern, why);

    if (s == NULL)
        fail_msg("%s", why);
    return s;
}

static void a_search_finds_the_part_that_its_group_took(void **state)
{
    struct search *s = compiled("a(?<word>[a-z]+)(x)?");
    struct slice part = SLICE_NULL;

    (void)state;
    uint32_t group = (uint32_t)search_group(s, "word");
    assert_int_equal(group, 1);
    assert_int_equal(search_run(s, SLICE_LIT("1abc2"), group, &part), SEARCH_FOUND);
    assert_true(slice_is(part, "bc"));
    assert_int_equal(search_run(s, SLICE_LIT("1abc2"), 0, &part), SEARCH_FOUND);
    assert_true(slice_is(part, "abc"));
    /* A group that took no part is not an empty one. */
    assert_int_equal(search_run(s, SLICE_LIT("1abc2"), 2, &part), SEARCH_FOUND);
    assert_null(part.p);
    assert_int_equal(search_run(s, SLICE_LIT("1a2"), group, &part), SEARCH_NONE);
    search_destroy(s);
}

static void bytes_are_bytes_and_nothing_may_be_searched_too(void **state)
{
    struct search *s = compiled("^.$");
    struct search *empty = compiled("^$");
    struct slice part;

    (void)state;
    assert_int_equal(search_run(s, (struct slice){"\0", 1}, 0, &part), SEARCH_FOUND);
    assert_int_equal(search_run(s, SLICE_LIT("\xff"), 0, &part), SEARCH_FOUND);
    assert_int_equal(search_run(s, SLICE_NULL, 0, &part), SEARCH_NONE);
    assert_int_equal(search_run(empty, SLICE_NULL, 0, &part), SEARCH_FOUND);
    search_destroy(s);
    search_destroy(empty);
}

static void a_search_that_exceeds_its_limits_is_reported(void **state)
{
    char subject[SEARCH_SUBJECT_BYTES_MAX + 1];
    struct search *backtracks = compiled("^(a|a)+$");
    struct search *simple = compiled("b");
    struct slice part;

    (void)state;
    memset(subject, 'a', sizeof(subject));
    subject[200] = '!';
    assert_int_equal(search_run(backtracks, (struct slice){subject, 201}, 0, &part),
                     SEARCH_EXCEEDED);
    assert_int_equal(
        search_run(simple, (struct slice){subject, SEARCH_SUBJECT_BYTES_MAX}, 0, &part),
        SEARCH_NONE);
    assert_int_equal(search_run(simple, (struct slice){subject, sizeof(subject)}, 0, &part),
                     SEARCH_EXCEEDED);
    search_destroy(backtracks);
    search_destroy(simple);
}

static void groups_are_found_by_name_where_there_is_one_of_it(void **state)
{
    struct search *one = compiled("(?<a>x)");
    struct search *several = compiled("(?J)(?<a>x)|(?<a>y)");

    (void)state;
    assert_int_equal(search_group(one, "b"), 0);
    assert_true(search_group(several, "a") < 0);
    assert_int_equal(search_group(one, "a"), 1);
    search_destroy(one);
    search_destroy(several);
    search_destroy(NULL);
}

static void a_pattern_that_is_none_is_rejected_with_its_place(void **state)
{
    char longest[SEARCH_PATTERN_BYTES_MAX + 2];
    char why[SEARCH_WHY_ROOM];

    (void)state;
    assert_null(search_compile("ab(", why));
    assert_non_null(strstr(why, "at its character 4"));
    assert_null(search_compile("(*UTF)a", why));
    memset(longest, 'a', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    assert_null(search_compile(longest, why));
    assert_non_null(strstr(why, "longer than 4096 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_search_finds_the_part_that_its_group_took),
        cmocka_unit_test(bytes_are_bytes_and_nothing_may_be_searched_too),
        cmocka_unit_test(a_search_that_exceeds_its_limits_is_reported),
        cmocka_unit_test(groups_are_found_by_name_where_there_is_one_of_it),
        cmocka_unit_test(a_pattern_that_is_none_is_rejected_with_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
