/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limits/request_match.h"

#include "classifiers/search.h"
#include "lb/rules/template.h"
#include "tests/unit/lb/limits/limit_fixture.h"

/* Whether a limit with ROW: PATTERN counts a GET of TARGET with class CLS. */
static bool fits(const char *row, const char *pattern, const char *cls, const char *target)
{
    struct limit limit = limit_of(SETTINGS({row, pattern}, ));
    struct classify_request r = request_for(target, NULL);
    bool fit = request_match_fits(limit.match, slice_of(cls), &r);

    limit_fini(&limit);
    return fit;
}

static void a_rule_without_patterns_counts_every_request(void **state)
{
    struct limit limit = limit_of(SETTINGS());
    struct classify_request r = request_for("/%00?", NULL);

    (void)state;
    assert_true(request_match_fits(limit.match, SLICE_LIT(""), &r));
    limit_fini(&limit);
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

/* Some workers resolve these and some do not: a limit is for both. */
static void no_other_spelling_of_a_path_gets_around_a_limit(void **state)
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
    struct limit limit =
        limit_of(SETTINGS({"class", "a"}, {"path", "prefix:/p"}, {"method", "GET"}, ));
    struct classify_request r = request_for("/p/q", NULL);

    (void)state;
    assert_true(request_match_fits(limit.match, SLICE_LIT("a"), &r));
    assert_false(request_match_fits(limit.match, SLICE_LIT("b"), &r));
    r.method = SLICE_LIT("POST");
    assert_false(request_match_fits(limit.match, SLICE_LIT("a"), &r));
    r = request_for("/q", NULL);
    assert_false(request_match_fits(limit.match, SLICE_LIT("a"), &r));
    limit_fini(&limit);
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

static void patterns_that_cannot_mean_anything_are_rejected(void **state)
{
    (void)state;
    assert_no_limit(SETTINGS({"class", "regex:("}, ), "class", "at its character 2");
    assert_no_limit(SETTINGS({"path", "regex:"}, ), "path", "the pattern is empty");
    assert_no_limit(SETTINGS({"method", "prefix:"}, ), "method", "the pattern is empty");
    assert_no_limit(SETTINGS({"path", "report"}, ), "path", "/...");
    assert_no_limit(SETTINGS({"path", "exact:"}, ), "path", "/...");
    assert_no_limit(SETTINGS({"class", "caf\xc3\xa9"}, ), "class", "percent-encoded");
    assert_no_limit(SETTINGS({"class", "two words"}, ), "class", "percent-encoded");
}

static void patterns_have_a_length_at_most(void **state)
{
    char *good = path_of("a", LIMIT_PATTERN_MAX - 1);
    char *bad = path_of("a", LIMIT_PATTERN_MAX);
    char *longest = path_of("a", SEARCH_PATTERN_BYTES_MAX);
    char *regex = xasprintf("regex:%s", longest);

    (void)state;
    assert_true(fits("path", good, "", good));
    assert_no_limit(SETTINGS({"path", bad}, ), "path", "longer than");
    assert_no_limit(SETTINGS({"path", regex}, ), "path", "longer than");
    free(good);
    free(bad);
    free(longest);
    free(regex);
}

/* ---- keys ---- */

struct made {
    char bytes[LIMIT_KEY_MAX + 1];
    size_t len;
};

static struct made key_with(const struct setting *settings, const char *cls,
                            const struct classify_request *r)
{
    struct limit limit = limit_of(settings);
    struct made m = {0};
    struct slice key = request_match_key(limit.match, limit.name, slice_of(cls), r, m.bytes);

    assert_ptr_equal(key.p, m.bytes);
    m.len = key.len;
    m.bytes[m.len] = '\0';
    limit_fini(&limit);
    return m;
}

static struct made key_of(const char *template, const char *cls, const char *target,
                          const struct field *fields)
{
    struct classify_request r = request_for(target, fields);

    return key_with(SETTINGS({"key", template}, ), cls, &r);
}

static void assert_key(const char *template, const char *cls, const char *target,
                       const struct field *fields, const char *expected)
{
    struct made m = key_of(template, cls, target, fields);

    assert_string_equal(m.bytes, expected);
}

static void the_key_is_the_class_when_nothing_else_is_reported(void **state)
{
    struct classify_request r = request_for("/", NULL);
    struct made m = key_with(SETTINGS(), "caf%C3%A9", &r);

    (void)state;
    assert_string_equal(m.bytes, "shop:caf%C3%A9");
    m = key_with(SETTINGS(), "", &r);
    assert_string_equal(m.bytes, "shop:");
}

static void templates_have_texts_values_and_braces(void **state)
{
    const struct field fields[] = {{"X-Tenant", "acme"}, {NULL, NULL}};

    (void)state;
    assert_key("all", "c", "/", NULL, "shop:all");
    assert_key("{class}", "c", "/", NULL, "shop:c");
    assert_key("t={HTTP_X_TENANT};{class}", "c", "/", fields, "shop:t=acme;c");
    assert_key("{{{class}}}", "c", "/", NULL, "shop:{c}");
    assert_key("{{class}}", "c", "/", NULL, "shop:{class}");
    assert_key("{REQUEST_METHOD}{PATH_INFO}", "c", "/a%20b", NULL, "shop:GET|/a%20b");
    assert_key("{QUERY_STRING}", "c", "/?a=%41", NULL, "shop:a=%2541");
    assert_key("{HTTP_X_NONE}-", "c", "/", NULL, "shop:-");
    /* Clients choose the case of the host. */
    assert_key("{HTTP_HOST}.{SERVER_NAME}", "c", "/", NULL,
               "shop:www%2Eexample%2Ecom.www.example.com");
}

static void bytes_that_would_end_a_value_are_encoded_within_it(void **state)
{
    const struct field fields[] = {{"A", "x-y"}, {"B", "x|y"}, {"C", "x%y"}, {NULL, NULL}};

    (void)state;
    assert_key("{HTTP_A}-{HTTP_B}", "", "/", fields, "shop:x%2Dy-x|y");
    assert_key("{HTTP_A}{HTTP_B}{HTTP_A}", "", "/", fields, "shop:x-y|x%7Cy|x-y");
    assert_key("{HTTP_C}%2D{HTTP_B}", "", "/", fields, "shop:x%25y|%2Dx|y");
    assert_key("{class}|{HTTP_B}", "a|b", "/", fields, "shop:a%7Cb|x|y");
}

static void hostile_bytes_come_out_as_visible_ascii(void **state)
{
    struct classify_request r = request_for("/%00%0a%0D%7f%ff%20%25", NULL);
    struct made m = key_with(SETTINGS({"key", "{PATH_INFO}"}, ), "", &r);

    (void)state;
    assert_string_equal(m.bytes, "shop:/%00%0A%0D%7F%FF%20%25");
}

/* All pairs of values, in all templates of two: other values, other keys. */
static void different_values_never_make_the_same_key(void **state)
{
    static const char *const values[] = {"",   "a",  "ab",   "b",     "|",   "a|",  "|a", "%",
                                         "%7", "7C", "%7C",  "a%7Cb", "a|b", "a||", "-",  "a-",
                                         "-a", " ",  "\xff", "%2D",   "2D",  "%25", "~",  ":"};
    static const char *const templates[] = {
        "{HTTP_A}{HTTP_B}",   "{HTTP_A}-{HTTP_B}", "{HTTP_A}|{HTTP_B}",  "{HTTP_A}%2D{HTTP_B}",
        "{HTTP_A}7C{HTTP_B}", "{HTTP_A}a{HTTP_B}", "{HTTP_A}--{HTTP_B}", "{HTTP_A}%{HTTP_B}"};
    size_t n = ARRAY_LEN(values);
    struct made *made = xcalloc(n * n, sizeof(*made));

    (void)state;
    for (size_t t = 0; t < ARRAY_LEN(templates); ++t) {
        for (size_t i = 0; i < n * n; ++i) {
            const struct field fields[] = {
                {"A", values[i / n]}, {"B", values[i % n]}, {NULL, NULL}};

            made[i] = key_of(templates[t], "", "/", fields);
            for (size_t k = 0; k < i; ++k)
                assert_string_not_equal(made[i].bytes, made[k].bytes);
        }
    }
    free(made);
}

static struct made url_key(const char *host, const char *target, bool tls)
{
    struct classify_request r = request_for(target, NULL);

    r.host = slice_of(host);
    r.tls = tls;
    return key_with(SETTINGS({"mode", "any"}, ), "ignored", &r);
}

static void with_mode_any_the_key_is_the_whole_url(void **state)
{
    struct made m = url_key("WWW.Example.com:8080", "/a%20b/C?x=Y&z", true);

    (void)state;
    assert_string_equal(m.bytes, "shop:GET|https|www.example.com:8080|/a%2520b/C?x=Y&z");
    m = url_key("", "/", false);
    assert_string_equal(m.bytes, "shop:GET|http||/");
}

static void different_urls_never_make_the_same_key(void **state)
{
    static const struct {
        const char *host, *target;
        bool tls;
    } urls[] = {
        {"a", "/", false},       {"a", "/", true},      {"b", "/", false},
        {"a", "/?", false},      {"a", "/?x", false},   {"a", "/%3fx", false},
        {"a", "/%3Fx", false},   {"a", "/x", false},    {"a", "/X", false},
        {"a", "/x/", false},     {"a", "//x", false},   {"a|", "/", false},
        {"a|/", "/", false},     {"a", "/|", false},    {"a", "/%7C", false},
        {"a", "/%257C", false},  {"a", "/ ", false},    {"a", "/%20", false},
        {"a", "/+", false},      {"a:80", "/", false},  {"a", "/?x?y", false},
        {"a", "/?x%3Fy", false}, {"a", "/\xff", false}, {"a", "/%FF", false},
    };
    struct made made[ARRAY_LEN(urls)];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(urls); ++i) {
        made[i] = url_key(urls[i].host, urls[i].target, urls[i].tls);
        for (size_t k = 0; k < i; ++k)
            assert_string_not_equal(made[i].bytes, made[k].bytes);
    }
}

static void the_method_and_a_stripped_prefix_are_part_of_a_url(void **state)
{
    struct classify_request r = request_for("/b", NULL);
    struct made plain = key_with(SETTINGS({"mode", "any"}, ), "", &r);

    (void)state;
    r.method = SLICE_LIT("HEAD");
    struct made head = key_with(SETTINGS({"mode", "any"}, ), "", &r);
    r.method = SLICE_LIT("GET");
    r.script_name = SLICE_LIT("/a");
    struct made stripped = key_with(SETTINGS({"mode", "any"}, ), "", &r);
    assert_string_not_equal(plain.bytes, head.bytes);
    assert_string_equal(stripped.bytes, "shop:GET|http|www.example.com|/a/b");
}

/* A path for which the key {PATH_INFO} has LEN bytes in all; LAST is its last byte. */
static struct made key_long(size_t len, char last)
{
    char *path = xmalloc(len);

    memset(path, 'x', len);
    path[0] = '/';
    path[len - strlen("shop:") - 1] = last;
    path[len - strlen("shop:")] = '\0';
    struct made m = key_of("{PATH_INFO}", "", path, NULL);
    free(path);
    return m;
}

static void a_key_too_long_ends_in_a_hash_of_all_of_it(void **state)
{
    struct made longest = key_long(LIMIT_KEY_MAX - 1, 'x');
    struct made cut = key_long(LIMIT_KEY_MAX, 'x');

    (void)state;
    assert_int_equal(longest.len, LIMIT_KEY_MAX - 1);
    assert_null(strchr(longest.bytes, '~'));
    assert_int_equal(cut.len, LIMIT_KEY_MAX);
    assert_memory_equal(cut.bytes, longest.bytes, LIMIT_KEY_MAX - LIMIT_KEY_HASH - 1);
    assert_int_equal(cut.bytes[LIMIT_KEY_MAX - LIMIT_KEY_HASH - 1], '~');
    assert_int_equal(strspn(cut.bytes + LIMIT_KEY_MAX - LIMIT_KEY_HASH, "0123456789abcdef"),
                     LIMIT_KEY_HASH);
    /* The hash is of all, wherever in it the difference is, and always the same. */
    for (size_t len = LIMIT_KEY_MAX; len < LIMIT_KEY_MAX + 1500; len += 7) {
        struct made x = key_long(len, 'x');
        struct made y = key_long(len, 'y');
        struct made again = key_long(len, 'x');

        assert_string_not_equal(x.bytes, y.bytes);
        assert_string_equal(x.bytes, again.bytes);
        assert_int_equal(x.len, LIMIT_KEY_MAX);
    }
}

static void a_forged_key_does_not_equal_one_that_was_cut(void **state)
{
    struct made cut = key_long(LIMIT_KEY_MAX + 50, 'x');
    struct made forged = key_of("{PATH_INFO}", "", cut.bytes + strlen("shop:"), NULL);

    (void)state;
    assert_string_not_equal(forged.bytes, cut.bytes);
}

static void mistakes_in_a_template_are_reported_with_their_place(void **state)
{
    (void)state;
    assert_no_limit(SETTINGS({"key", "a{class"}, ), "key",
                    "write {{ for a brace (at its character 2)");
    assert_no_limit(SETTINGS({"key", "ab}"}, ), "key", "at its character 3");
    assert_no_limit(SETTINGS({"key", "{PATHINFO}"}, ), "key", "{PATH_INFO}");
    assert_no_limit(SETTINGS({"key", "{}"}, ), "key", "at its character 2");
    assert_no_limit(SETTINGS({"key", "{HTTP_}"}, ), "key", "at its character 2");
    assert_no_limit(SETTINGS({"key", "{http_x}"}, ), "key", "at its character 2");
    assert_no_limit(SETTINGS({"key", "{HTTP_X-Y}"}, ), "key", "at its character 2");
    assert_no_limit(SETTINGS({"key", "a b"}, ), "key",
                    "visible ASCII is permitted here (at its character 2)");
    assert_no_limit(SETTINGS({"key", "\xc3\xa9"}, ), "key", "visible ASCII");
}

static void templates_are_bounded(void **state)
{
    char longest[LIMIT_TEMPLATE_MAX + 2];
    struct text many = {0};

    (void)state;
    memset(longest, 'x', sizeof(longest));
    longest[LIMIT_TEMPLATE_MAX] = '\0';
    struct made m = key_of(longest, "", "/", NULL);
    assert_int_equal(m.len, strlen("shop:") + LIMIT_TEMPLATE_MAX);
    longest[LIMIT_TEMPLATE_MAX] = 'x';
    longest[LIMIT_TEMPLATE_MAX + 1] = '\0';
    assert_no_limit(SETTINGS({"key", longest}, ), "key", "longer than");
    for (size_t i = 0; i < TEMPLATE_PARTS_MAX; ++i)
        text_add(&many, SLICE_LIT("{class}"));
    m = key_of(text_cstr(&many), "c", "/", NULL);
    assert_int_equal(m.len, strlen("shop:") + TEMPLATE_PARTS_MAX * 2 - 1);
    text_add(&many, SLICE_LIT("{class}"));
    assert_no_limit(SETTINGS({"key", text_cstr(&many)}, ), "key", "more than 16");
    text_fini(&many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_without_patterns_counts_every_request),
        cmocka_unit_test(classes_are_compared_as_a_whole_by_prefix_or_by_search),
        cmocka_unit_test(paths_are_compared_decoded_and_without_their_query),
        cmocka_unit_test(no_other_spelling_of_a_path_gets_around_a_limit),
        cmocka_unit_test(a_zero_byte_neither_ends_a_path_nor_hides_it),
        cmocka_unit_test(methods_are_compared_as_they_are),
        cmocka_unit_test(all_patterns_must_fit),
        cmocka_unit_test(a_path_that_a_search_gives_up_on_is_counted),
        cmocka_unit_test(
            a_path_too_long_to_search_is_counted_and_one_just_short_enough_is_searched),
        cmocka_unit_test(patterns_that_cannot_mean_anything_are_rejected),
        cmocka_unit_test(patterns_have_a_length_at_most),
        cmocka_unit_test(the_key_is_the_class_when_nothing_else_is_reported),
        cmocka_unit_test(templates_have_texts_values_and_braces),
        cmocka_unit_test(bytes_that_would_end_a_value_are_encoded_within_it),
        cmocka_unit_test(hostile_bytes_come_out_as_visible_ascii),
        cmocka_unit_test(different_values_never_make_the_same_key),
        cmocka_unit_test(with_mode_any_the_key_is_the_whole_url),
        cmocka_unit_test(different_urls_never_make_the_same_key),
        cmocka_unit_test(the_method_and_a_stripped_prefix_are_part_of_a_url),
        cmocka_unit_test(a_key_too_long_ends_in_a_hash_of_all_of_it),
        cmocka_unit_test(a_forged_key_does_not_equal_one_that_was_cut),
        cmocka_unit_test(mistakes_in_a_template_are_reported_with_their_place),
        cmocka_unit_test(templates_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
