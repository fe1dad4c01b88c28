/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1 requests in pieces of any size: what is rejected, and when; and what is served.
 */
#include "tests/unit/http/http_server_fixture.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define CHUNKED "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

static void assert_rejected(struct fixture *f, const char *request, size_t piece,
                            enum request_fault fault, const char *status)
{
    uint64_t before = fixture_rejected(f, fault);
    unsigned requests = f->requests;

    fixture_send_pieces(f, slice_of(request), piece);
    raw_await_end(f->loop, &f->client);
    if (!f->client.ended || !raw_has(&f->client, status) ||
        !raw_has(&f->client, "Connection: close\r\n") || fixture_rejected(f, fault) != before + 1 ||
        f->requests != requests)
        fail_msg("pieces of %zu: %s\n->\n%s", piece, request, text_cstr(&f->client.in));
    fixture_forget_client(f);
}

static void bad_chunks_are_rejected_however_they_are_cut(void **state)
{
    static const struct {
        const char *request;
        enum request_fault fault;
    } cases[] = {
        {CHUNKED "3zz\r\nabc\r\n0\r\n\r\n", FAULT_CHUNK_SIZE},
        {CHUNKED "3\nabc\r\n0\r\n\r\n", FAULT_BARE_LINE_END},
        {CHUNKED "3\r\nabcd\r\n0\r\n\r\n", FAULT_CHUNK_END},
        {CHUNKED "3; x\r\nabc\r\n0\r\n\r\n", FAULT_CHUNK_EXTENSION},
        {CHUNKED "3\r\nabc\r\n0\r\nA b\r\n\r\n", FAULT_TRAILER},
        {CHUNKED "3\r\nabc\r\n0\r\n\r\r\n", FAULT_BARE_LINE_END},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        assert_rejected(*state, cases[i].request, 1, cases[i].fault, "HTTP/1.1 400 ");
        assert_rejected(*state, cases[i].request, 7, cases[i].fault, "HTTP/1.1 400 ");
        assert_rejected(*state, cases[i].request, 4096, cases[i].fault, "HTTP/1.1 400 ");
    }
}

static void over_100_fields_are_431_whole_or_not(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);
    struct text t = {0};

    o.max.fields = 0;
    http_server_set(f->server, &o);
    text_add(&t, SLICE_LIT("GET / HTTP/1.1\r\nHost: a\r\n"));
    for (int i = 0; i < 100; ++i)
        text_addf(&t, "X-%d: y\r\n", i);
    assert_rejected(f, text_cstr(&t), 4096, FAULT_HEADERS_TOO_MANY, "HTTP/1.1 431 ");
    text_add(&t, SLICE_LIT("\r\n"));
    assert_rejected(f, text_cstr(&t), 4096, FAULT_HEADERS_TOO_MANY, "HTTP/1.1 431 ");
    assert_rejected(f, text_cstr(&t), 100, FAULT_HEADERS_TOO_MANY, "HTTP/1.1 431 ");
    text_fini(&t);
}

static void an_endless_head_is_431_as_soon_as_it_is_too_large(void **state)
{
    struct text t = {0};

    text_addf(&t, "GET / HTTP/1.1\r\nHost: a\r\nX: %09000d", 0);
    assert_rejected(*state, text_cstr(&t), 1000, FAULT_HEADERS_TOO_LARGE, "HTTP/1.1 431 ");
    text_fini(&t);
}

static void a_bare_line_end_is_rejected_before_the_head_is_whole(void **state)
{
    assert_rejected(*state, "GET / HTTP/1.1\r\nHost: a\nX", 4096, FAULT_BARE_LINE_END,
                    "HTTP/1.1 400 ");
    assert_rejected(*state, "\nGET", 4096, FAULT_BLANK_LINE, "HTTP/1.1 400 ");
    assert_rejected(*state, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 4096, FAULT_VERSION,
                    "HTTP/1.1 505 ");
}

static void good_bodies_pass_however_they_are_cut(void **state)
{
    struct fixture *f = *state;
    static const size_t pieces[] = {1, 2, 5, 17, 4096};

    f->response = response_hello;
    for (size_t i = 0; i < ARRAY_LEN(pieces); ++i) {
        fixture_send_pieces(f, SLICE_LIT(CHUNKED "3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n"),
                            pieces[i]);
        fixture_await_requests(f, (unsigned)(3 * i + 1));
        assert_string_equal(text_cstr(&f->body), "abcde");
        fixture_send_pieces(
            f, SLICE_LIT("POST /l HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n1234"),
            pieces[i]);
        fixture_await_requests(f, (unsigned)(3 * i + 2));
        assert_string_equal(text_cstr(&f->body), "1234");
        fixture_send_pieces(f, SLICE_LIT(GET), pieces[i]);
        fixture_await_requests(f, (unsigned)(3 * i + 3));
        fixture_await_gone(f, (unsigned)(3 * i + 3));
    }
    assert_false(f->client.ended);
}

static void pipelined_requests_are_handed_on_one_by_one(void **state)
{
    struct fixture *f = *state;
    struct text t = {0};

    f->response = response_hello;
    for (int i = 0; i < 500; ++i) {
        text_addf(&t, "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", i);
        text_add(&t, SLICE_LIT(CHUNKED "3\r\nabc\r\n0\r\n\r\n"));
    }
    text_add(&t, SLICE_LIT("GET /last HTTP/1.1\r\nHost: a\r\n\r\n"));
    fixture_send(f, text_cstr(&t));
    fixture_await_gone(f, 1001);
    assert_string_equal(text_cstr(&f->path), "/last");
    text_fini(&t);
}

static void a_bad_pipelined_request_is_rejected_after_the_good_ones(void **state)
{
    struct fixture *f = *state;

    f->response = response_hello;
    fixture_send(f, GET GET CHUNKED "3\r\nabc\r\n0\r\n\r\n" CHUNKED "1 \r\nx\r\n0\r\n\r\n" GET);
    raw_await_end(f->loop, &f->client);
    assert_int_equal(f->requests, 3);
    assert_int_equal(fixture_rejected(f, FAULT_CHUNK_SIZE), 1);
    assert_true(f->client.ended);
    assert_true(raw_has(&f->client, "400 Bad Request"));
    assert_true(raw_has(&f->client, "malformed chunk size"));
}

static void a_body_after_100_continue_is_checked_and_passes(void **state)
{
    struct fixture *f = *state;

    f->response = response_hello;
    fixture_send(f, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n");
    fixture_await(f, "100 Continue");
    fixture_send(f, "3\r\nabc\r\n0\r\n\r\n" GET);
    fixture_await_gone(f, 2);
    fixture_send(f, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    fixture_turns(f, 5);
    fixture_send(f, "x\r\n");
    raw_await_end(f->loop, &f->client);
    assert_int_equal(fixture_rejected(f, FAULT_CHUNK_SIZE), 1);
    assert_int_equal(f->requests, 2);
}

struct seen {
    unsigned calls;
    enum request_fault fault;
    int status, version;
    struct text target;
};

static struct seen seen;

static void on_rejected(void *context, const struct http_rejection *r)
{
    struct fixture *f = context;

    assert_ptr_equal(http_conn_tag(r->conn), f);
    ++seen.calls;
    seen.fault = r->fault;
    seen.status = r->status;
    seen.version = r->version;
    text_clear(&seen.target);
    text_add(&seen.target, r->target);
}

static void rejections_are_reported_with_what_was_read(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    seen = (struct seen){0};
    o.on_rejected = on_rejected;
    fixture_restart(f, &o);
    assert_rejected(f, "GET /x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 4096, FAULT_HOST_REPEATED,
                    "400");
    assert_int_equal(seen.calls, 1);
    assert_string_equal(text_cstr(&seen.target), "/x");
    assert_rejected(f, CHUNKED "zz\r\n", 4096, FAULT_CHUNK_SIZE, "400");
    assert_int_equal(seen.calls, 2);
    assert_int_equal(seen.fault, FAULT_CHUNK_SIZE);
    assert_int_equal(seen.status, 400);
    assert_int_equal(seen.version, 0x101);
    assert_string_equal(text_cstr(&seen.target), "/c");
    assert_rejected(f, "POST /o HTTP/1.0\r\nContent-Length: 999999999\r\n\r\n", 4096,
                    FAULT_BODY_TOO_LARGE, "413");
    assert_int_equal(seen.version, 0x100);
    text_fini(&seen.target);
}

static bool is_forgotten(void *context)
{
    struct fixture *f = context;

    return http_server_connections(f->server) == 0;
}

static void a_rejected_client_that_continues_sending_is_cut(void **state)
{
    struct fixture *f = *state;

    raw_connect(&f->addr, &f->client);
    fixture_send(f, CHUNKED "zz\r\n");
    raw_await_end(f->loop, &f->client);
    /* It has its response, but does not close. */
    assert_int_equal(http_server_connections(f->server), 1);
    fixture_send(f, "still here");
    raw_turn_until(f->loop, is_forgotten, f);
    assert_int_equal(fixture_rejected(f, FAULT_CHUNK_SIZE), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bad_chunks_are_rejected_however_they_are_cut),
        TEST(over_100_fields_are_431_whole_or_not),
        TEST(an_endless_head_is_431_as_soon_as_it_is_too_large),
        TEST(a_bare_line_end_is_rejected_before_the_head_is_whole),
        TEST(good_bodies_pass_however_they_are_cut),
        TEST(pipelined_requests_are_handed_on_one_by_one),
        TEST(a_bad_pipelined_request_is_rejected_after_the_good_ones),
        TEST(a_body_after_100_continue_is_checked_and_passes),
        TEST(rejections_are_reported_with_what_was_read),
        TEST(a_rejected_client_that_continues_sending_is_cut),
    };

    return cmocka_run_group_tests_name("http1_pieces", tests, NULL, NULL);
}
