/* SPDX-License-Identifier: Apache-2.0
 *
 * What does not get as far as the handler, and in which form the rest does.
 */
#include "tests/unit/http/http_server_fixture.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

struct rejection {
    const char *request;
    enum request_fault fault;
    const char *response;
};

static void assert_rejected(struct fixture *f, const struct rejection *r)
{
    struct http_server_counts before;
    struct http_server_counts after;

    http_server_read_counts(f->server, &before);
    fixture_send(f, r->request);
    raw_await_end(f->loop, &f->client);
    http_server_read_counts(f->server, &after);
    if (!raw_has(&f->client, r->response) || !raw_has(&f->client, "Connection: close") ||
        after.rejected[r->fault] != before.rejected[r->fault] + 1)
        fail_msg("%s\n->\n%s", r->request, text_cstr(&f->client.in));
    assert_int_equal(f->requests, 0);
    fixture_forget_client(f);
}

static void ambiguous_requests_are_rejected(void **state)
{
    static const struct rejection rejections[] = {
        {"\r\n\r\n" GET, FAULT_BLANK_LINE, "400"},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", FAULT_AUTHORITY, "400"},
        {"GET /#a HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_TARGET, "400"},
        {"GET / HTTP/1.1\nHost: a\n\n", FAULT_BARE_LINE_END, "400"},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: a\n\r\n", FAULT_BARE_LINE_END, "400"},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", FAULT_HEADER, "400"},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
         FAULT_LENGTH_REPEATED, "400"},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\n",
         FAULT_LENGTH_AND_CODING, "400"},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\n",
         FAULT_CODING, "400"},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
         "chunked\r\n\r\n0\r\n\r\n",
         FAULT_CODING_REPEATED, "400"},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", FAULT_CODING_TOO_OLD,
         "400"},
        {"GET / HTTP/1.1\r\n\r\n", FAULT_HOST_MISSING, "400"},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", FAULT_HOST_REPEATED, "400"},
        {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", FAULT_AUTHORITY, "400"},
        {"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", FAULT_AUTHORITY, "400"},
        {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", FAULT_AUTHORITY, "400"},
        {"GET path HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_TARGET, "400"},
        {"GET * HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_TARGET, "400"},
        {"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_CONNECT, "501"},
        {"CONNECT http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_CONNECT, "501"},
        {"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_TARGET, "400"},
        {"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_TARGET, "400"},
        {"GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_TARGET, "400"},
        {"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_TARGET, "400"},
        {"GET http://a#b HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_TARGET, "400"},
        {"GET http:a HTTP/1.1\r\nHost: a\r\n\r\n", FAULT_TARGET, "400"},
        {"GET http://a/ HTTP/1.1\r\n\r\n", FAULT_HOST_MISSING, "400"},
        {"GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", FAULT_HOST_REPEATED, "400"},
        {"GET http://a/ HTTP/1.1\r\nHost: a/b\r\n\r\n", FAULT_AUTHORITY, "400"},
        {"POST / HTTP/1.1\r\nHost: a\r\nExpect: the-best\r\nContent-Length: 1\r\n\r\n",
         FAULT_EXPECTATION, "417"},
        {"GET / HTTP/1.1\r\nHost: a\r\nExpect: the-best\r\n\r\n", FAULT_EXPECTATION, "417"},
        {"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1048577\r\n\r\n",
         FAULT_BODY_TOO_LARGE, "HTTP/1.1 413 "},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n",
         FAULT_BODY_TOO_LARGE, "HTTP/1.1 413 "},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n"
         "ffffd\r\n",
         FAULT_BODY_TOO_LARGE, "HTTP/1.1 413 "},
    };

    for (size_t i = 0; i < ARRAY_LEN(rejections); ++i)
        assert_rejected(*state, &rejections[i]);
}

static void too_many_and_too_large_headers_are_rejected(void **state)
{
    struct text t = {0};

    text_add(&t, SLICE_LIT("GET / HTTP/1.1\r\nHost: a\r\n"));
    for (int i = 0; i < 20; ++i)
        text_addf(&t, "X-%d: y\r\n", i);
    text_add(&t, SLICE_LIT("\r\n"));
    assert_rejected(*state,
                    &(struct rejection){text_cstr(&t), FAULT_HEADERS_TOO_MANY, "HTTP/1.1 431 "});
    text_clear(&t);
    text_addf(&t, "GET / HTTP/1.1\r\nHost: a\r\nX: %08192d\r\n\r\n", 0);
    assert_rejected(*state,
                    &(struct rejection){text_cstr(&t), FAULT_HEADERS_TOO_LARGE, "HTTP/1.1 431 "});
    text_fini(&t);
}

static void a_target_above_the_limit_of_heads_is_414_whole_or_not(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);
    struct text t = {0};

    text_addf(&t, "GET /%0*d HTTP/1.1\r\nHost: a\r\n\r\n", (int)o.max.head_bytes, 0);
    assert_rejected(f, &(struct rejection){text_cstr(&t), FAULT_TARGET_TOO_LARGE, "HTTP/1.1 414 "});
    text_clear(&t);
    text_addf(&t, "GET /%0*d", (int)o.max.head_bytes, 0);
    assert_rejected(f, &(struct rejection){text_cstr(&t), FAULT_TARGET_TOO_LARGE, "HTTP/1.1 414 "});
    text_clear(&t);
    text_addf(&t, "GET /%0*d HTTP/1.1\r\nHost: a\r\nX: %0*d\r\n\r\n", (int)o.max.head_bytes / 2, 0,
              (int)o.max.head_bytes / 2, 0);
    assert_rejected(f,
                    &(struct rejection){text_cstr(&t), FAULT_HEADERS_TOO_LARGE, "HTTP/1.1 431 "});
    text_clear(&t);
    text_addf(&t, "%0*d", (int)o.max.head_bytes + 1, 0);
    assert_rejected(f,
                    &(struct rejection){text_cstr(&t), FAULT_HEADERS_TOO_LARGE, "HTTP/1.1 431 "});
    text_fini(&t);
}

static void rejections_of_head_have_no_content(void **state)
{
    struct text large = {0};
    struct fixture *f = *state;

    text_addf(&large, "HEAD / HTTP/1.1\r\nHost: a\r\nX: %08192d\r\n\r\n", 0);
    const char *const requests[][2] = {
        {"HEAD / HTTP/1.1\r\nHost: a b\r\n\r\n", "400"},
        {"HEAD / HTTP/1.1\nHost: a\n\n", "400"},
        {"HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999999\r\n\r\n", "413"},
        {"HEAD / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", "417"},
        {text_cstr(&large), "431"},
        {"HEAD / HTTP/2.0\r\nHost: a\r\n\r\n", "505"},
    };

    for (size_t i = 0; i < ARRAY_LEN(requests); ++i) {
        fixture_send(f, requests[i][0]);
        raw_await_end(f->loop, &f->client);
        struct slice in = text_slice(&f->client.in);
        assert_true(raw_has(&f->client, requests[i][1]));
        assert_true(raw_has(&f->client, "Content-Length: "));
        if (!slice_ends(in, SLICE_LIT("\r\n\r\n")))
            fail_msg("%s\n->\n%s", requests[i][0], text_cstr(&f->client.in));
        fixture_forget_client(f);
    }
    text_fini(&large);
}

static void an_absolute_target_states_more_than_host(void **state)
{
    static const struct {
        const char *request, *path, *authority;
    } cases[] = {
        {"GET http://b.example/x HTTP/1.1\r\nHost: a\r\n\r\n", "/x", "b.example"},
        {"GET https://b.example:444?x HTTP/1.1\r\nHost: a\r\n\r\n", "/?x", "b.example:444"},
        {"GET HTTP://b.example HTTP/1.1\r\nHost:\r\n\r\n", "/", "b.example"},
        {"GET http://[::1]:8/ HTTP/1.0\r\n\r\n", "/", "[::1]:8"},
        {"OPTIONS http://b.example HTTP/1.1\r\nHost: a\r\n\r\n", "*", "b.example"},
        {"OPTIONS http://b.example/ HTTP/1.1\r\nHost: a\r\n\r\n", "/", "b.example"},
        {"OPTIONS http://b.example?x HTTP/1.1\r\nHost: a\r\n\r\n", "/?x", "b.example"},
    };
    struct fixture *f = *state;

    f->response = response_hello;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        fixture_send(f, cases[i].request);
        fixture_await(f, "hello");
        assert_string_equal(text_cstr(&f->path), cases[i].path);
        assert_string_equal(text_cstr(&f->authority), cases[i].authority);
        fixture_forget_client(f);
    }
}

static void a_chunked_body_may_be_as_large_as_any_other(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    o.max.body_bytes = 5;
    http_server_set(f->server, &o);
    f->response = response_hello;
    fixture_send(f, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    fixture_await_requests(f, 1);
    assert_string_equal(text_cstr(&f->body), "abcde");
    fixture_send(f, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nfghij");
    fixture_await_requests(f, 2);
    assert_string_equal(text_cstr(&f->body), "fghij");
}

static void absolute_target_that_agrees_with_host_is_taken_apart(void **state)
{
    struct fixture *f = *state;

    f->response = response_hello;
    fixture_send(f, "GET http://A.example/x?y HTTP/1.1\r\nHost: a.example\r\n\r\n");
    fixture_await(f, "hello");
    assert_string_equal(text_cstr(&f->path), "/x?y");
    assert_string_equal(text_cstr(&f->authority), "A.example");
    fixture_send(f, "GET http://a.example?y HTTP/1.1\r\nHost: a.example\r\n\r\n");
    fixture_await_requests(f, 2);
    assert_string_equal(text_cstr(&f->path), "/?y");
}

static void options_star_is_handed_over(void **state)
{
    struct fixture *f = *state;

    f->response = response_hello;
    fixture_send(f, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    fixture_await(f, "hello");
    assert_string_equal(text_cstr(&f->path), "*");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ambiguous_requests_are_rejected),
        TEST(too_many_and_too_large_headers_are_rejected),
        TEST(absolute_target_that_agrees_with_host_is_taken_apart),
        TEST(a_target_above_the_limit_of_heads_is_414_whole_or_not),
        TEST(rejections_of_head_have_no_content),
        TEST(an_absolute_target_states_more_than_host),
        TEST(a_chunked_body_may_be_as_large_as_any_other),
        TEST(options_star_is_handed_over),
    };

    return cmocka_run_group_tests_name("request_check", tests, NULL, NULL);
}
