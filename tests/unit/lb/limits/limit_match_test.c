/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limits/limit_match.h"

#include "classifiers/search.h"
#include "tests/unit/lb/limits/limit_fixture.h"

/* Whether a rule with ROW: PATTERN counts a GET of TARGET with class CLS. */
static bool fits(const char *row, const char *pattern, const char *cls, const char *target)
{
    struct limit_rule rule = rule_of(SETTINGS({row, pattern}, ));
    struct classify_request r = request_for(target, NULL);
    bool fit = limit_rule_fits(&rule, slice_of(cls), &r);

    limit_rule_fini(&rule);
    return fit;
}

static void a_rule_without_patterns_counts_every_request(void **state)
{
    struct limit_rule rule = rule_of(SETTINGS());
    struct classify_request r = request_for("/%00?", NULL);

    (void)state;
    assert_null(rule.match);
    assert_true(limit_rule_fits(&rule, SLICE_LIT(""), &r));
    limit_rule_fini(&rule);
}

static void classes_are_compared_as_a_whole_by_prefix_or_by_search(void **state)
{
    (void)state;
    assert_true(fits("class", "search", "search", "/"));
    assert_false(fits("class", "search", "search2", "/"));
    assert_false(fits("class", "search", "", "/"));
    assert_true(fits("class", "exact:prefix:x", "prefix:x", "/"));
    assert_true(fits("class", "exact:", "", "/"));
    assert_false(fits("class", "exact:", "a", "/"));
    assert_true(fits("class", "prefix:shop-", "shop-7", "/"));
    assert_false(fits("class", "prefix:shop-", "shop", "/"));
    assert_true(fits("class", "regex:^[ab]+$", "abba", "/"));
    assert_true(fits("class", "regex:b", "abba", "/"));
    assert_false(fits("class", "regex:^b", "abba", "/"));
}

static void paths_are_compared_decoded_and_without_their_query(void **state)
{
    (void)state;
    assert_true(fits("path", "/report", "", "/report?x=1"));
    assert_true(fits("path", "/report", "", "/re%70ort"));
    assert_true(fits("path", "exact:/caf\xc3\xa9", "", "/caf%C3%A9"));
    assert_false(fits("path", "/report", "", "/report/"));
    assert_false(fits("path", "/report", "", "/repor%"));
    assert_true(fits("path", "prefix:/a/", "", "/%61%2fb"));
    assert_false(fits("path", "prefix:/a/", "", "/%61"));
    assert_true(fits("path", "regex:/[0-9]+$", "", "/x/%31%32"));
    /* Decoded once. */
    assert_false(fits("path", "/a", "", "/%2561"));
    assert_true(fits("path", "/%61", "", "/%2561"));
}

/* Some workers resolve these and some do not: a rule is for both. */
static void no_other_spelling_of_a_path_gets_around_a_rule(void **state)
{
    (void)state;
    assert_true(fits("path", "/admin", "", "/a/../admin"));
    assert_true(fits("path", "/admin", "", "/a/%2e%2E/%61dmin"));
    assert_true(fits("path", "/admin", "", "//admin"));
    assert_true(fits("path", "prefix:/admin/", "", "/a%2f..%2Fadmin/x"));
    assert_true(fits("path", "regex:^/admin$", "", "/./admin"));
    assert_true(fits("path", "prefix:/a/", "", "/a/../admin"));
    assert_false(fits("path", "/admin", "", "/admin/.."));
    assert_false(fits("path", "/admin", "", "/a/../b"));
}

static void a_zero_byte_neither_ends_a_path_nor_hides_it(void **state)
{
    (void)state;
    assert_false(fits("path", "/a", "", "/a%00"));
    assert_true(fits("path", "prefix:/a", "", "/a%00b"));
    assert_true(fits("path", "regex:b$", "", "/a%00b"));
}

static void methods_are_compared_as_they_are(void **state)
{
    (void)state;
    assert_true(fits("method", "GET", "", "/"));
    assert_false(fits("method", "get", "", "/"));
    assert_true(fits("method", "regex:^(GET|HEAD)$", "", "/"));
    assert_false(fits("method", "POST", "", "/"));
}

static void all_patterns_must_fit(void **state)
{
    struct limit_rule rule =
        rule_of(SETTINGS({"class", "a"}, {"path", "prefix:/p"}, {"method", "GET"}, ));
    struct classify_request r = request_for("/p/q", NULL);

    (void)state;
    assert_true(limit_rule_fits(&rule, SLICE_LIT("a"), &r));
    assert_false(limit_rule_fits(&rule, SLICE_LIT("b"), &r));
    r.method = SLICE_LIT("POST");
    assert_false(limit_rule_fits(&rule, SLICE_LIT("a"), &r));
    r = request_for("/q", NULL);
    assert_false(limit_rule_fits(&rule, SLICE_LIT("a"), &r));
    limit_rule_fini(&rule);
}

/* "/" and N times what UNIT is. */
static char *path_of(const char *unit, size_t n)
{
    struct text t = {0};

    text_add_char(&t, '/');
    for (size_t i = 0; i < n; ++i)
        text_add(&t, slice_of(unit));
    char *path = xstrdup(text_cstr(&t));
    text_fini(&t);
    return path;
}

static void a_path_that_a_search_gives_up_on_is_counted(void **state)
{
    /* Exponential without bounds: each 'a' doubles the ways to split them. */
    char *few = path_of("a", 5);
    char *many = path_of("a", 2000);
    char *few_and_more = xasprintf("%s!", few);
    char *many_and_more = xasprintf("%s!", many);

    (void)state;
    assert_true(fits("path", "regex:^/(a|a)+$", "", few));
    assert_false(fits("path", "regex:^/(a|a)+$", "", few_and_more));
    assert_true(fits("path", "regex:^/(a|a)+$", "", many_and_more));
    free(few);
    free(many);
    free(few_and_more);
    free(many_and_more);
}

static void a_path_too_long_to_search_is_counted_and_one_just_short_enough_is_searched(void **state)
{
    char *fitting = path_of("a", SEARCH_SUBJECT_BYTES_MAX - 1);
    char *longer = path_of("a", SEARCH_SUBJECT_BYTES_MAX);
    char *encoded = path_of("%61", SEARCH_SUBJECT_BYTES_MAX - 1);
    char *encoded_longer = path_of("%61", SEARCH_SUBJECT_BYTES_MAX);

    (void)state;
    assert_false(fits("path", "regex:x", "", fitting));
    assert_true(fits("path", "regex:x", "", longer));
    assert_false(fits("path", "regex:x", "", encoded));
    assert_true(fits("path", "regex:x", "", encoded_longer));
    /* Others look no further than they must. */
    assert_false(fits("path", "/aaa", "", encoded_longer));
    assert_true(fits("path", "prefix:/aaa", "", encoded_longer));
    free(fitting);
    free(longer);
    free(encoded);
    free(encoded_longer);
}

static void patterns_that_cannot_mean_anything_are_refused(void **state)
{
    (void)state;
    assert_no_rule(SETTINGS({"class", "regex:("}, ), "class", "at its character 2");
    assert_no_rule(SETTINGS({"path", "regex:"}, ), "path", "the pattern is empty");
    assert_no_rule(SETTINGS({"method", "prefix:"}, ), "method", "the pattern is empty");
    assert_no_rule(SETTINGS({"path", "report"}, ), "path", "/...");
    assert_no_rule(SETTINGS({"path", "exact:"}, ), "path", "/...");
    assert_no_rule(SETTINGS({"class", "caf\xc3\xa9"}, ), "class", "percent-encoded");
    assert_no_rule(SETTINGS({"class", "two words"}, ), "class", "percent-encoded");
}

static void patterns_have_a_length_at_most(void **state)
{
    char *good = path_of("a", LIMIT_PATTERN_MAX - 1);
    char *bad = path_of("a", LIMIT_PATTERN_MAX);
    char *longest = path_of("a", SEARCH_PATTERN_BYTES_MAX);
    char *regex = xasprintf("regex:%s", longest);

    (void)state;
    assert_true(fits("path", good, "", good));
    assert_no_rule(SETTINGS({"path", bad}, ), "path", "longer than");
    assert_no_rule(SETTINGS({"path", regex}, ), "path", "longer than");
    free(good);
    free(bad);
    free(longest);
    free(regex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_without_patterns_counts_every_request),
        cmocka_unit_test(classes_are_compared_as_a_whole_by_prefix_or_by_search),
        cmocka_unit_test(paths_are_compared_decoded_and_without_their_query),
        cmocka_unit_test(no_other_spelling_of_a_path_gets_around_a_rule),
        cmocka_unit_test(a_zero_byte_neither_ends_a_path_nor_hides_it),
        cmocka_unit_test(methods_are_compared_as_they_are),
        cmocka_unit_test(all_patterns_must_fit),
        cmocka_unit_test(a_path_that_a_search_gives_up_on_is_counted),
        cmocka_unit_test(
            a_path_too_long_to_search_is_counted_and_one_just_short_enough_is_searched),
        cmocka_unit_test(patterns_that_cannot_mean_anything_are_refused),
        cmocka_unit_test(patterns_have_a_length_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
