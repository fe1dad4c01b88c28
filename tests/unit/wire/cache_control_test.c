/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/wire/cache_fixture.h"

/* In memory of exactly its size, so that reading past the end shows. */
static struct cache_control parse_bytes(struct slice value)
{
    struct cache_control c;
    char *exact = xmalloc(value.len + (value.len == 0));

    if (value.len != 0)
        memcpy(exact, value.p, value.len);
    struct message_field h = {.name = SLICE_LIT("Cache-Control"), .value = {exact, value.len}};
    cache_control_parse((struct cache_fields){&h, 1}, &c);
    free(exact);
    return c;
}

static struct cache_control parse(const char *value)
{
    return parse_bytes(slice_of(value));
}

/* RFC 9111 5.2 */
static void directives_are_read_in_any_case_and_order(void **state)
{
    struct cache_control c = parse("Public, MAX-AGE=60 ,,\tno-cache,must-revalidate, S-MaxAge=5");

    (void)state;
    assert_false(c.malformed);
    assert_true(c.public_);
    assert_true(c.no_cache);
    assert_true(c.must_revalidate);
    assert_false(c.private_);
    assert_false(c.no_store);
    assert_int_equal(c.max_age_s, 60);
    assert_int_equal(c.s_maxage_s, 5);
    assert_int_equal(c.stale_if_error_s, CACHE_SECONDS_NONE);
}

static void message_without_directives_states_nothing(void **state)
{
    struct cache_control c = parse(" , ,");

    (void)state;
    assert_false(c.malformed);
    assert_false(c.no_store || c.no_cache || c.private_ || c.public_);
    assert_int_equal(c.max_age_s, CACHE_SECONDS_NONE);
    assert_int_equal(c.max_stale_s, CACHE_SECONDS_NONE);
}

/* RFC 9111 5.2.2.4, 5.2.2.7 */
static void private_and_no_cache_count_with_names_of_fields_too(void **state)
{
    struct cache_control c = parse("private=\"Set-Cookie, X-A\", no-cache=X-B, max-age=3");

    (void)state;
    assert_false(c.malformed);
    assert_true(c.private_);
    assert_true(c.no_cache);
    assert_int_equal(c.max_age_s, 3);
}

static void words_within_quotes_are_no_directives(void **state)
{
    struct cache_control c = parse("ext=\"no-store, private, \\\", no-cache\", max-age=\"9\"");

    (void)state;
    assert_false(c.malformed);
    assert_false(c.no_store || c.private_ || c.no_cache);
    assert_int_equal(c.max_age_s, 9);
}

/* RFC 9111 5.2.3 */
static void unknown_directives_are_read_over(void **state)
{
    struct cache_control c = parse("no-storex, xno-store, immutable, community=\"UCI\", max-age=1");

    (void)state;
    assert_false(c.malformed);
    assert_false(c.no_store);
    assert_int_equal(c.max_age_s, 1);
}

/* RFC 9111 4.2.1 */
static void the_strictest_of_several_numbers_counts(void **state)
{
    (void)state;
    assert_int_equal(parse("max-age=60, max-age=5, max-age=99").max_age_s, 5);
    assert_int_equal(parse("max-stale, max-stale=4").max_stale_s, 4);
    assert_int_equal(parse("min-fresh=3, min-fresh=8, min-fresh=1").min_fresh_s, 8);
}

static void number_that_is_none_is_the_strictest(void **state)
{
    static const char *const wrong[] = {"max-age",      "max-age=x",      "max-age=1x",
                                        "max-age=\"\"", "max-age=-1",     "max-age=1.5",
                                        "max-age=0x10", "max-age=\" 1\"", "max-age=5, max-age=x"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(wrong); ++i) {
        struct cache_control c = parse(wrong[i]);

        assert_false(c.malformed);
        assert_int_equal(c.max_age_s, 0);
    }
    assert_int_equal(parse("min-fresh=x").min_fresh_s, CACHE_SECONDS_MAX);
    assert_int_equal(parse("stale-if-error").stale_if_error_s, 0);
    assert_int_equal(parse("max-stale=x").max_stale_s, 0);
    assert_int_equal(parse("max-stale").max_stale_s, CACHE_SECONDS_MAX);
}

/* RFC 9111 1.2.2 */
static void number_that_is_too_large_is_the_largest(void **state)
{
    (void)state;
    assert_int_equal(parse("max-age=2147483648").max_age_s, CACHE_SECONDS_MAX);
    assert_int_equal(parse("max-age=2147483649").max_age_s, CACHE_SECONDS_MAX);
    assert_int_equal(parse("max-age=99999999999999999999999").max_age_s, CACHE_SECONDS_MAX);
    assert_int_equal(parse("max-age=000000000000000000000007").max_age_s, 7);
}

static void an_invalid_list_of_directives_is_malformed(void **state)
{
    static const char *const wrong[] = {
        "max-age=60; public", "no-store=",   "=5",         "max-age= 5", "max-age =5",
        "ext=\"unclosed",     "ext=\"a\\",   "ext=\"a\"b", "a b",        "\"no-store\"",
        "max-age=5 no-store", "ext=\"a\\\"", "@",          "a=b=c",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(wrong); ++i)
        assert_true(parse(wrong[i]).malformed);
    assert_true(parse_bytes((struct slice){"a\0b", 3}).malformed);
    assert_true(parse_bytes((struct slice){"a=\"\n\"", 5}).malformed);
}

static void several_lines_are_one_list(void **state)
{
    struct message m;
    struct cache_control c;

    (void)state;
    cache_control_parse(fields_of(&m, "cache-control: no-store\nX: private\nCACHE-CONTROL: "
                                      "max-age=2\nCache-Control:"),
                        &c);
    assert_true(c.no_store);
    assert_false(c.private_);
    assert_int_equal(c.max_age_s, 2);
    cache_control_parse(fields_of(&m, "cache-control: max-age=2\ncache-control: ext=\"\n"), &c);
    assert_true(c.malformed);
}

static struct cache_control parse_many(const char *directive, size_t n)
{
    struct text t = {0};

    for (size_t i = 0; i < n; ++i)
        text_addf(&t, "%s,", directive);
    struct cache_control c = parse_bytes(text_slice(&t));
    text_fini(&t);
    return c;
}

static void directives_and_bytes_over_their_limits_are_malformed(void **state)
{
    (void)state;
    assert_false(parse_many("public", CACHE_DIRECTIVES_MAX).malformed);
    assert_true(parse_many("public", CACHE_DIRECTIVES_MAX + 1).malformed);
    assert_false(parse_many("", CACHE_CONTROL_BYTES_MAX).malformed);
    assert_true(parse_many("", CACHE_CONTROL_BYTES_MAX + 1).malformed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directives_are_read_in_any_case_and_order),
        cmocka_unit_test(message_without_directives_states_nothing),
        cmocka_unit_test(private_and_no_cache_count_with_names_of_fields_too),
        cmocka_unit_test(words_within_quotes_are_no_directives),
        cmocka_unit_test(unknown_directives_are_read_over),
        cmocka_unit_test(the_strictest_of_several_numbers_counts),
        cmocka_unit_test(number_that_is_none_is_the_strictest),
        cmocka_unit_test(number_that_is_too_large_is_the_largest),
        cmocka_unit_test(an_invalid_list_of_directives_is_malformed),
        cmocka_unit_test(several_lines_are_one_list),
        cmocka_unit_test(directives_and_bytes_over_their_limits_are_malformed),
    };

    return cmocka_run_group_tests_name("cache_control", tests, NULL, NULL);
}
