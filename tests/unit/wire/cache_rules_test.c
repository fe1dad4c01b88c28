/* SPDX-License-Identifier: Apache-2.0
 *
 * Sections are of RFC 9111 unless another one is named.
 */
#include "tests/unit/wire/cache_fixture.h"

/* Each rejected message stands beside one that differs in the reason only, and is not rejected. */

/* ---- requests ---- */

static bool may_share(const char *request)
{
    struct cache_wish wish;

    return check_request(request, &wish);
}

static void plain_get_may_share(void **state)
{
    (void)state;
    assert_true(may_share(""));
    assert_true(may_share("Accept: */*\nUser-Agent: x\nConnection: keep-alive, Close\n"
                          "Content-Length: 0"));
}

static void only_get_may_share(void **state)
{
    static const char *const methods[] = {"HEAD", "POST", "PUT", "DELETE", "get", "", "OPTIONS"};
    struct cache_wish wish;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(methods); ++i) {
        struct cache_request r = {.method = slice_of(methods[i])};

        assert_false(cache_check_request(&r, &cookies_allowed, &wish));
    }
}

static void request_with_a_body_does_not_share(void **state)
{
    struct cache_request r = {.method = SLICE_LIT("GET"), .body = true};
    struct cache_wish wish;

    (void)state;
    assert_false(cache_check_request(&r, &cookies_allowed, &wish));
    assert_false(may_share("Content-Length: 5"));
    assert_false(may_share("Transfer-Encoding: chunked"));
}

static void upgrade_does_not_share(void **state)
{
    struct cache_request r = {.method = SLICE_LIT("GET"), .upgrade = true};
    struct cache_wish wish;

    (void)state;
    assert_false(cache_check_request(&r, &cookies_allowed, &wish));
    assert_false(may_share("Upgrade: websocket"));
}

/* 3.5 */
static void a_request_with_credentials_does_not_share(void **state)
{
    (void)state;
    assert_false(may_share("Authorization: Basic eDp5"));
    assert_true(may_share("X-Authorization: Basic eDp5"));
    assert_false(may_share("authorization:"));
    assert_false(may_share("Proxy_Authorization: x"));
}

static bool shares_by(const struct cache_policy *policy, const char *text)
{
    struct message m;
    struct cache_request r = request_of(&m, text);
    struct cache_wish wish;
    bool all = cache_check_request(&r, policy, &wish);

    assert_int_equal(cache_has_user(r.fields, policy), !all);
    return all;
}

static void
one_that_has_a_cookie_or_a_certificate_shares_where_the_configuration_reports_it(void **state)
{
    static const struct cache_policy none = {0};
    static const struct cache_policy both = {.cookies = true, .certificates = true};
    static const char *const verified[] = {
        "X-SSL-Client-Verify: SUCCESS", "x_ssl_client_verify: FAILED:expired",
        "X-SSL-Client-S-DN: CN=ann", "X-SSL-Client-Verify: NONE\nX-SSL-Client-S-DN: CN=ann"};

    (void)state;
    assert_false(shares_by(&none, "Cookie: a=1"));
    assert_true(shares_by(&both, "Cookie: a=1"));
    for (size_t i = 0; i < ARRAY_LEN(verified); ++i) {
        assert_false(shares_by(&none, verified[i]));
        assert_true(shares_by(&both, verified[i]));
    }
    assert_true(shares_by(&none, "X-SSL-Client-Verify: NONE\nX-SSL-Client-S-DN:"));
    assert_false(shares_by(&both, "Authorization: Basic eDp5"));
}

static void a_request_with_a_private_field_does_not_share(void **state)
{
    static const struct cache_names names = {2, {{"X-API-Key", 9}, {"remote_user", 11}}};
    static const struct cache_policy policy = {.private_fields = &names};

    (void)state;
    assert_false(shares_by(&policy, "x_api_key: 1"));
    assert_false(shares_by(&policy, "Accept: a\nRemote-User:"));
    assert_true(shares_by(&policy, "X-API-Keys: 1\nAPI-Key: 2"));
}

/* RFC 9110 14.2, 13.1, 10.1.1 */
static void ranges_conditions_and_expectations_do_not_share(void **state)
{
    (void)state;
    assert_false(may_share("Range: bytes=0-1"));
    assert_false(may_share("If-None-Match: \"x\""));
    assert_false(may_share("If-Modified-Since: x"));
    assert_false(may_share("If-Match: *"));
    assert_false(may_share("If-Range: \"x\""));
    assert_false(may_share("If-Unmodified-Since: x"));
    assert_false(may_share("If_None_Match: \"x\""));
    assert_false(may_share("Expect: 100-continue"));
    assert_true(may_share("Ranges: bytes=0-1\nIf: *\nIf-None: \"x\"\nExpected: 100-continue"));
}

/* 5.2.1.4, 5.2.1.5, 5.4 */
static void request_for_a_response_of_its_own_does_not_share(void **state)
{
    (void)state;
    assert_true(may_share("Cache-Control: cache"));
    assert_false(may_share("Cache-Control: no-cache"));
    assert_true(may_share("Cache-Control: max-age=5, store"));
    assert_false(may_share("Cache-Control: max-age=5, no-store"));
    assert_false(may_share("Pragma: x, No-Cache"));
    assert_true(may_share("Pragma: x"));
    assert_true(may_share("Cache-Control: a=b"));
    assert_false(may_share("Cache-Control: ="));
}

/* RFC 9110 7.6.1 */
static void request_that_takes_fields_back_does_not_share(void **state)
{
    (void)state;
    assert_true(may_share("Accept-Language: fr\nConnection: close, keep-alive"));
    assert_false(may_share("Accept-Language: fr\nConnection: close, Accept-Language"));
}

static void wishes_are_read(void **state)
{
    struct cache_wish w;

    (void)state;
    assert_true(check_request("Cache-Control: max-age=0, max-stale=5, min-fresh=2", &w));
    assert_int_equal(w.max_age_s, 0);
    assert_int_equal(w.max_stale_s, 5);
    assert_int_equal(w.min_fresh_s, 2);
    assert_true(check_request("", &w));
    assert_int_equal(w.max_age_s, CACHE_SECONDS_NONE);
}

/* 4.4 */
static void unsafe_method_that_succeeds_invalidates(void **state)
{
    (void)state;
    assert_true(cache_invalidates(SLICE_LIT("POST"), 200));
    assert_true(cache_invalidates(SLICE_LIT("PUT"), 204));
    assert_true(cache_invalidates(SLICE_LIT("DELETE"), 303));
    assert_true(cache_invalidates(SLICE_LIT("FROBNICATE"), 200));
    assert_false(cache_invalidates(SLICE_LIT("POST"), 400));
    assert_false(cache_invalidates(SLICE_LIT("POST"), 500));
    assert_false(cache_invalidates(SLICE_LIT("POST"), 101));
    assert_false(cache_invalidates(SLICE_LIT("GET"), 200));
    assert_false(cache_invalidates(SLICE_LIT("HEAD"), 200));
    assert_false(cache_invalidates(SLICE_LIT("OPTIONS"), 200));
    assert_false(cache_invalidates(SLICE_LIT("TRACE"), 200));
}

/* ---- responses ---- */

static bool is_shared(int status, const char *response)
{
    struct cache_facts facts;

    return check_response(status, response, &facts);
}

/* RFC 9110 15.1 */
static void heuristically_cacheable_statuses_are_shared(void **state)
{
    static const int statuses[] = {200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(statuses); ++i)
        assert_true(is_shared(statuses[i], ""));
}

/* 3 */
static void other_statuses_are_shared_only_with_explicit_freshness(void **state)
{
    static const int statuses[] = {201, 302, 303, 307, 400, 403, 429, 299, 499};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(statuses); ++i) {
        assert_false(is_shared(statuses[i], ""));
        assert_true(is_shared(statuses[i], "Cache-Control: max-age=5"));
        assert_true(is_shared(statuses[i], "Cache-Control: s-maxage=5"));
        assert_true(is_shared(statuses[i], "Cache-Control: public"));
        assert_true(is_shared(statuses[i], "Expires: Sun, 01 Mar 2026 12:00:01 GMT"));
    }
}

/* 3, 3.3 */
static void partial_interim_and_not_modified_are_never_shared(void **state)
{
    static const int statuses[] = {100, 101, 103, 199, 206, 304};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(statuses); ++i)
        assert_false(is_shared(statuses[i], "Cache-Control: public, max-age=5"));
}

static void error_of_the_server_is_not_shared_whatever_it_states(void **state)
{
    (void)state;
    assert_true(is_shared(499, "Cache-Control: max-age=5"));
    assert_false(is_shared(500, "Cache-Control: max-age=5"));
    assert_true(is_shared(501, "Cache-Control: max-age=5"));
    assert_false(is_shared(503, "Cache-Control: public"));
    assert_false(is_shared(599, "Cache-Control: public"));
}

/* 5.2.2.3 */
static void must_understand_outweighs_no_store_for_a_known_status_only(void **state)
{
    (void)state;
    assert_true(is_shared(200, "Cache-Control: must-understand, no-store"));
    assert_true(is_shared(302, "Cache-Control: must-understand, max-age=1"));
    assert_true(is_shared(299, "Cache-Control: max-age=1"));
    assert_false(is_shared(299, "Cache-Control: must-understand, max-age=1"));
    assert_false(is_shared(299, "Cache-Control: must-understand, max-age=1, no-store"));
}

/* 5.2.2.4, 5.2.2.5, 5.2.2.7, 7.3 */
static void a_private_response_is_not_shared(void **state)
{
    static const struct {
        const char *shared, *rejected;
    } pairs[] = {
        {"Cache-Control: store", "Cache-Control: no-store"},
        {"Cache-Control: max-age=9, cache", "Cache-Control: max-age=9, no-cache"},
        {"Cache-Control: cache=\"x\"", "Cache-Control: no-cache=\"x\""},
        {"Cache-Control: privat", "Cache-Control: private"},
        {"Cache-Control: public, privat=\"x\"", "Cache-Control: public, private=\"x\""},
        {"Cache-Control: public\nCookie: a=b", "Cache-Control: public\nSet-Cookie: a=b"},
        {"Cache-Control: max-age=60, x", "Cache-Control: max-age=60; x"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); ++i) {
        assert_true(is_shared(200, pairs[i].shared));
        assert_false(is_shared(200, pairs[i].rejected));
    }
}

/* 4, 4.2.4: waiting requests were sent before it was generated; validation is not required. */
static void response_that_is_stale_at_once_is_shared(void **state)
{
    (void)state;
    assert_true(is_shared(200, "Cache-Control: max-age=0"));
    assert_true(is_shared(200, "Expires: 0"));
    assert_true(is_shared(200, "Cache-Control: max-age=5\nAge: 9"));
}

/* 5.2.2.2, 5.2.2.8, 5.2.2.10 */
static void response_that_is_stale_at_once_and_must_be_validated_is_not_shared(void **state)
{
    (void)state;
    assert_false(is_shared(200, "Cache-Control: max-age=0, must-revalidate"));
    assert_false(is_shared(200, "Cache-Control: max-age=0, proxy-revalidate"));
    assert_false(is_shared(200, "Cache-Control: s-maxage=0, max-age=60"));
    assert_false(is_shared(200, "Cache-Control: must-revalidate"));
    assert_false(is_shared(200, "Cache-Control: max-age=5, must-revalidate\nAge: 5"));
    assert_true(is_shared(200, "Cache-Control: max-age=5, must-revalidate\nAge: 4"));
    assert_true(is_shared(200, "Cache-Control: s-maxage=5"));
}

/* ---- lifetime and age ---- */

/* 4.2.1 */
static void lifetime_is_s_maxage_then_max_age_then_expires(void **state)
{
    const char *expires = "Date: Sun, 01 Mar 2026 12:00:00 GMT\n"
                          "Expires: Sun, 01 Mar 2026 12:00:30 GMT\n";
    struct text both = {0};

    (void)state;
    assert_int_equal(facts_of(expires).lifetime_s, 30);
    text_addf(&both, "%sCache-Control: max-age=20", expires);
    assert_int_equal(facts_of(text_cstr(&both)).lifetime_s, 20);
    text_addf(&both, ", s-maxage=10");
    assert_int_equal(facts_of(text_cstr(&both)).lifetime_s, 10);
    assert_int_equal(facts_of("").lifetime_s, 0);
    text_fini(&both);
}

/* 5.3 */
static void expires_counts_from_date_or_else_from_now_and_the_earliest_counts(void **state)
{
    (void)state;
    assert_int_equal(facts_of("Expires: Sun, 01 Mar 2026 12:00:30 GMT").lifetime_s, 30);
    assert_int_equal(facts_of("Expires: Sun, 01 Mar 2026 11:00:00 GMT").lifetime_s, 0);
    assert_int_equal(facts_of("Expires: Sun, 01 Mar 2026 12:00:30 GMT\n"
                              "Expires: Sun, 01 Mar 2026 12:00:10 GMT")
                         .lifetime_s,
                     10);
    assert_int_equal(facts_of("Expires: Sun, 01 Mar 2026 12:00:30 GMT\nExpires: never").lifetime_s,
                     0);
    assert_int_equal(facts_of("Expires: Fri, 31 Dec 9999 23:59:59 GMT").lifetime_s,
                     CACHE_SECONDS_MAX);
}

/* 4.2.3 */
static void age_is_the_larger_of_what_date_and_age_state(void **state)
{
    struct message m;
    struct cache_facts facts;
    struct cache_response r = {.status = 200, .received_s = NOW_S, .delay_s = 3};

    (void)state;
    r.fields = fields_of(&m, "Date: Sun, 01 Mar 2026 11:59:50 GMT\nAge: 5");
    assert_true(cache_check_response(&r, &facts));
    assert_int_equal(facts.age_s, 10);
    r.fields = fields_of(&m, "Date: Sun, 01 Mar 2026 11:59:50 GMT\nAge: 9");
    assert_true(cache_check_response(&r, &facts));
    assert_int_equal(facts.age_s, 12);
    r.fields = fields_of(&m, "");
    assert_true(cache_check_response(&r, &facts));
    assert_int_equal(facts.age_s, 3);
    r.fields = fields_of(&m, "Date: Sun, 01 Mar 2026 13:00:00 GMT"); /* a clock ahead of ours */
    assert_true(cache_check_response(&r, &facts));
    assert_int_equal(facts.age_s, 3);
}

/* 5.1 */
static void the_first_age_counts_and_an_invalid_one_is_ignored(void **state)
{
    (void)state;
    assert_int_equal(facts_of("Age: 7, 99").age_s, 7);
    assert_int_equal(facts_of("Age: 7\nAge: 99").age_s, 7);
    assert_int_equal(facts_of("Age: x\nAge: 99").age_s, 0);
    assert_int_equal(facts_of("Age: -4").age_s, 0);
    assert_int_equal(facts_of("Age: 99999999999999999999").age_s, CACHE_SECONDS_MAX);
}

/* ---- serving stale ---- */

static const struct cache_wish no_wish = {CACHE_SECONDS_NONE, CACHE_SECONDS_NONE,
                                          CACHE_SECONDS_NONE};

static bool stale_at(const char *response, const char *request, uint64_t age_s)
{
    struct cache_facts facts = facts_of(response);
    struct cache_wish wish;

    assert_true(check_request(request, &wish));
    return cache_may_serve_stale(&facts, &wish, age_s);
}

/* 4.2.4 */
static void stale_response_stands_in_unless_it_forbids(void **state)
{
    (void)state;
    assert_true(stale_at("", "", 1000));
    assert_true(stale_at("Cache-Control: max-age=5", "", 1000));
    assert_true(stale_at("Cache-Control: max-age=5, must-revalidate", "", 4));
    assert_false(stale_at("Cache-Control: max-age=5, must-revalidate", "", 5));
    assert_false(stale_at("Cache-Control: max-age=5, proxy-revalidate", "", 5));
    assert_true(stale_at("Cache-Control: s-maxage=5", "", 4));
    assert_false(stale_at("Cache-Control: s-maxage=5", "", 5));
}

/* RFC 5861 4 */
static void stale_if_error_states_how_stale_it_may_be(void **state)
{
    (void)state;
    assert_true(stale_at("Cache-Control: max-age=5, stale-if-error=10", "", 15));
    assert_false(stale_at("Cache-Control: max-age=5, stale-if-error=10", "", 16));
    assert_false(stale_at("Cache-Control: max-age=5, stale-if-error=10, must-revalidate", "", 6));
    assert_true(stale_at("Cache-Control: stale-if-error=0", "", 0));
    assert_false(stale_at("Cache-Control: stale-if-error=0", "", 1));
}

static void rejection_does_not_replace_a_page(void **state)
{
    struct cache_facts facts;

    (void)state;
    assert_true(check_response(403, "Cache-Control: max-age=60", &facts));
    assert_true(cache_may_share(&facts, 1));
    assert_false(cache_may_serve_stale(&facts, &no_wish, 1));
    assert_true(check_response(404, "", &facts));
    assert_true(cache_may_serve_stale(&facts, &no_wish, 1));
}

/* 5.2.1.1, 5.2.1.2, 5.2.1.3 */
static void request_states_how_old_its_response_may_be(void **state)
{
    (void)state;
    assert_false(stale_at("", "Cache-Control: max-age=60", 1));
    assert_true(stale_at("Cache-Control: max-age=9", "Cache-Control: max-age=3", 3));
    assert_false(stale_at("Cache-Control: max-age=9", "Cache-Control: max-age=3", 4));
    assert_true(stale_at("Cache-Control: max-age=9", "Cache-Control: max-age=3, max-stale=1", 4));
    assert_true(stale_at("Cache-Control: max-age=9", "Cache-Control: max-stale=5", 14));
    assert_false(stale_at("Cache-Control: max-age=9", "Cache-Control: max-stale=5", 15));
    assert_true(stale_at("Cache-Control: max-age=9", "Cache-Control: max-stale", 15000));
    assert_true(stale_at("Cache-Control: max-age=9", "Cache-Control: min-fresh=5", 4));
    assert_false(stale_at("Cache-Control: max-age=9", "Cache-Control: min-fresh=5", 5));
    assert_false(stale_at("Cache-Control: max-age=9", "Cache-Control: min-fresh=0", 9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_get_may_share),
        cmocka_unit_test(only_get_may_share),
        cmocka_unit_test(request_with_a_body_does_not_share),
        cmocka_unit_test(upgrade_does_not_share),
        cmocka_unit_test(a_request_with_credentials_does_not_share),
        cmocka_unit_test(
            one_that_has_a_cookie_or_a_certificate_shares_where_the_configuration_reports_it),
        cmocka_unit_test(a_request_with_a_private_field_does_not_share),
        cmocka_unit_test(ranges_conditions_and_expectations_do_not_share),
        cmocka_unit_test(request_for_a_response_of_its_own_does_not_share),
        cmocka_unit_test(request_that_takes_fields_back_does_not_share),
        cmocka_unit_test(wishes_are_read),
        cmocka_unit_test(unsafe_method_that_succeeds_invalidates),
        cmocka_unit_test(heuristically_cacheable_statuses_are_shared),
        cmocka_unit_test(other_statuses_are_shared_only_with_explicit_freshness),
        cmocka_unit_test(partial_interim_and_not_modified_are_never_shared),
        cmocka_unit_test(error_of_the_server_is_not_shared_whatever_it_states),
        cmocka_unit_test(must_understand_outweighs_no_store_for_a_known_status_only),
        cmocka_unit_test(a_private_response_is_not_shared),
        cmocka_unit_test(response_that_is_stale_at_once_is_shared),
        cmocka_unit_test(response_that_is_stale_at_once_and_must_be_validated_is_not_shared),
        cmocka_unit_test(lifetime_is_s_maxage_then_max_age_then_expires),
        cmocka_unit_test(expires_counts_from_date_or_else_from_now_and_the_earliest_counts),
        cmocka_unit_test(age_is_the_larger_of_what_date_and_age_state),
        cmocka_unit_test(the_first_age_counts_and_an_invalid_one_is_ignored),
        cmocka_unit_test(stale_response_stands_in_unless_it_forbids),
        cmocka_unit_test(stale_if_error_states_how_stale_it_may_be),
        cmocka_unit_test(rejection_does_not_replace_a_page),
        cmocka_unit_test(request_states_how_old_its_response_may_be),
    };

    return cmocka_run_group_tests_name("cache_rules", tests, NULL, NULL);
}
