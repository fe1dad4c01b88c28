/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/wire/cache_fixture.h"

/* Owned by the caller. */
static struct text key_of(const char *response, const char *request)
{
    struct message a;
    struct message b;
    struct text key = {0};

    assert_true(cache_variant_key(fields_of(&a, response), fields_of(&b, request), &key));
    return key;
}

static bool has_key(const char *response, const char *request)
{
    struct message a;
    struct message b;
    struct text key = {0};

    text_add_char(&key, 'x');
    bool good = cache_variant_key(fields_of(&a, response), fields_of(&b, request), &key);
    assert_int_equal(key.len, good ? key.len : 1);
    text_fini(&key);
    return good;
}

static void assert_key(const char *response, const char *request, const char *expected)
{
    struct text key = key_of(response, request);

    assert_string_equal(text_cstr(&key), expected);
    text_fini(&key);
}

/* Whether the response to REQUEST is the one for OTHER too. */
static bool serves(const char *response, const char *request, const char *other)
{
    struct message m;
    struct text key = key_of(response, request);
    bool same = cache_variant_matches(text_slice(&key), fields_of(&m, other));

    /* The same by the key that it would get itself. */
    struct text again = key_of(response, other);
    assert_int_equal(same, slice_eq(text_slice(&key), text_slice(&again)));
    text_fini(&again);
    text_fini(&key);
    return same;
}

static void response_without_vary_is_for_all(void **state)
{
    (void)state;
    assert_key("Content-Type: text/html", "Accept: a\nCookie: b", "");
    assert_true(serves("Vary:", "Accept: a", "Accept: b"));
}

static void key_has_each_name_once_in_order_and_lower_case(void **state)
{
    (void)state;
    assert_key("Vary: Cookie, ACCEPT-Encoding,,\nvary: cookie , Accept", "accept-encoding: gzip",
               "accept\naccept-encoding=gzip\ncookie\n");
}

/* RFC 9111 4.1 */
static void request_is_served_when_all_named_fields_are_the_same(void **state)
{
    const char *vary = "Vary: Accept-Encoding, Accept-Language";

    (void)state;
    assert_true(serves(vary, "Accept-Encoding: gzip\nAccept-Language: de\nX: 1",
                       "X: 2\naccept-language:  de \nACCEPT-ENCODING: gzip"));
    assert_false(serves(vary, "Accept-Encoding: gzip\nAccept-Language: de",
                        "Accept-Encoding: gzip\nAccept-Language: fr"));
    assert_false(serves(vary, "Accept-Encoding: gzip", "Accept-Encoding: GZIP"));
}

static void absent_field_is_not_an_empty_one(void **state)
{
    (void)state;
    assert_key("Vary: Accept", "Accept:", "accept=\n");
    assert_false(serves("Vary: Accept", "", "Accept:"));
    assert_true(serves("Vary: Accept", "", "X: 1"));
}

/* RFC 9110 5.3: lines of one field are a list. */
static void lines_of_one_field_are_joined(void **state)
{
    (void)state;
    assert_true(serves("Vary: Accept", "Accept: a\nAccept: b", "Accept: a, b"));
    assert_false(serves("Vary: Accept", "Accept: a\nAccept: b", "Accept: b, a"));
}

/* RFC 9113 8.2.3 */
static void pieces_of_a_cookie_are_joined_as_cookies(void **state)
{
    (void)state;
    assert_true(serves("Vary: Cookie", "cookie: a=1\ncookie: b=2", "Cookie: a=1; b=2"));
}

static void two_names_for_one_variable_are_one_name(void **state)
{
    (void)state;
    assert_false(serves("Vary: Accept-Language", "Accept_Language: fr", ""));
    assert_false(serves("Vary: Accept-Language", "Accept-Language: de",
                        "Accept-Language: de\nACCEPT_LANGUAGE: fr"));
}

static void where_a_client_states_it_is_seen_from_counts_without_vary(void **state)
{
    static const char *const fields[] = {
        "X-Forwarded-Host: evil.example", "x_forwarded_host: evil.example",
        "X-Forwarded-Proto: http",        "Forwarded: host=evil.example",
        "X-HTTP-Method-Override: DELETE", "X-Original-URL: /other",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(fields); ++i) {
        assert_false(serves("", fields[i], ""));
        assert_false(serves("", "", fields[i]));
        assert_true(serves("", fields[i], fields[i]));
        assert_false(serves("Vary: Accept", fields[i], ""));
    }
}

static void vary_by_everything_is_rejected(void **state)
{
    (void)state;
    assert_false(has_key("Vary: *", ""));
    assert_true(has_key("Vary: Accept\nVary: Cookie, x", ""));
    assert_false(has_key("Vary: Accept\nVary: Cookie, *", ""));
}

static void vary_by_what_we_set_for_each_request_is_rejected(void **state)
{
    (void)state;
    assert_false(has_key("Vary: x_request_id", ""));
    assert_false(has_key("Vary: X-Request-ID", ""));
    assert_true(has_key("Vary: X-Request", ""));
    assert_false(has_key("Vary: Resumelb-Class", ""));
}

static void vary_that_is_no_list_of_names_is_malformed(void **state)
{
    (void)state;
    assert_true(has_key("Vary: a, b", ""));
    assert_false(has_key("Vary: a b", ""));
    assert_false(has_key("Vary: a;q=1", ""));
    assert_true(has_key("Vary: **", "")); /* a name, if an odd one */
}

static struct text repeat(const char *start, const char *piece, size_t n)
{
    struct text t = {0};

    text_add(&t, slice_of(start));
    for (size_t i = 0; i < n; ++i)
        text_addf(&t, "%s", piece);
    return t;
}

static void vary_over_its_limits_is_rejected(void **state)
{
    struct text names = repeat("Vary: ", "a,", VARY_NAMES_MAX);
    struct text more = repeat("Vary: ", "a,", VARY_NAMES_MAX + 1);
    struct text bytes = repeat("Vary: ", ",", VARY_BYTES_MAX);
    struct text more_bytes = repeat("Vary: ", ",", VARY_BYTES_MAX + 1);

    (void)state;
    assert_true(has_key(text_cstr(&names), ""));
    assert_false(has_key(text_cstr(&more), ""));
    assert_true(has_key(text_cstr(&bytes), ""));
    assert_false(has_key(text_cstr(&more_bytes), ""));
    text_fini(&names);
    text_fini(&more);
    text_fini(&bytes);
    text_fini(&more_bytes);
}

static void key_over_its_limit_is_rejected_and_matches_nothing(void **state)
{
    struct text fits = repeat("Cookie: ", "x", VARIANT_KEY_MAX - strlen("cookie=\n"));
    struct text more = repeat("Cookie: ", "x", VARIANT_KEY_MAX + 1 - strlen("cookie=\n"));
    struct text key = key_of("Vary: Cookie", text_cstr(&fits));
    struct message m;

    (void)state;
    assert_int_equal(key.len, VARIANT_KEY_MAX);
    assert_true(cache_variant_matches(text_slice(&key), fields_of(&m, text_cstr(&fits))));
    assert_false(cache_variant_matches(text_slice(&key), fields_of(&m, text_cstr(&more))));
    assert_false(has_key("Vary: Cookie", text_cstr(&more)));
    text_fini(&fits);
    text_fini(&more);
    text_fini(&key);
}

static void value_with_a_line_end_cannot_pose_as_another_line(void **state)
{
    struct message_field h = {.name = SLICE_LIT("accept"), .value = SLICE_LIT("a\ncookie=b")};
    struct message m;
    struct text key = {0};

    (void)state;
    assert_false(cache_variant_key(fields_of(&m, "Vary: Accept, Cookie"),
                                   (struct cache_fields){&h, 1}, &key));
    assert_false(
        cache_variant_matches(SLICE_LIT("accept=a\ncookie=b\n"), (struct cache_fields){&h, 1}));
    text_fini(&key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(response_without_vary_is_for_all),
        cmocka_unit_test(key_has_each_name_once_in_order_and_lower_case),
        cmocka_unit_test(request_is_served_when_all_named_fields_are_the_same),
        cmocka_unit_test(absent_field_is_not_an_empty_one),
        cmocka_unit_test(lines_of_one_field_are_joined),
        cmocka_unit_test(pieces_of_a_cookie_are_joined_as_cookies),
        cmocka_unit_test(two_names_for_one_variable_are_one_name),
        cmocka_unit_test(where_a_client_states_it_is_seen_from_counts_without_vary),
        cmocka_unit_test(vary_by_everything_is_rejected),
        cmocka_unit_test(vary_by_what_we_set_for_each_request_is_rejected),
        cmocka_unit_test(vary_that_is_no_list_of_names_is_malformed),
        cmocka_unit_test(vary_over_its_limits_is_rejected),
        cmocka_unit_test(key_over_its_limit_is_rejected_and_matches_nothing),
        cmocka_unit_test(value_with_a_line_end_cannot_pose_as_another_line),
    };

    return cmocka_run_group_tests_name("cache_variant", tests, NULL, NULL);
}
