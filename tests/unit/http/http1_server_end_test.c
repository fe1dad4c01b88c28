/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1 connections that end while a request is in progress, by the client or by the server; and
 * what a client is sent before its request is complete.
 */
#include "tests/unit/http/http_server_fixture.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

static bool is_gone(void *context)
{
    struct fixture *f = context;

    return http_server_connections(f->server) == 0;
}

static void client_that_leaves_ends_its_request_and_those_behind_it(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 2; ++i) {
        fixture_send(f, i == 0 ? GET : GET GET);
        fixture_await_requests(f, i + 1);
        if (i == 0)
            raw_reset(&f->client);
        fixture_forget_client(f);
        fixture_await_gone(f, i + 1);
        assert_false(f->gone_done);
        raw_turn_until(f->loop, is_gone, f);
        assert_int_equal(f->requests, i + 1);
    }
}

static void client_that_closes_its_half_gets_its_response_when_it_may(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    http_response_allow_half_close(&f->call->response);
    assert_int_equal(shutdown(f->client.fd, SHUT_WR), 0);
    fixture_turns(f, 10);
    assert_int_equal(f->gone, 0);
    response_hello(f, f->call);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "\r\n\r\nhello"));
    assert_true(f->gone_done);
    raw_turn_until(f->loop, is_gone, f);
}

static void client_that_closes_its_half_is_taken_for_one_that_has_left(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    assert_int_equal(shutdown(f->client.fd, SHUT_WR), 0);
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
    raw_await_end(f->loop, &f->client);
    raw_turn_until(f->loop, is_gone, f);
}

/* The bytes of the next request are in the kernel, in front of the client's end. */
static void end_of_the_client_is_noticed_behind_unread_requests(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    fixture_send(f, GET GET);
    fixture_turns(f, 5);
    assert_int_equal(f->gone, 0);
    assert_int_equal(shutdown(f->client.fd, SHUT_WR), 0);
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
    assert_int_equal(f->requests, 1);
    raw_turn_until(f->loop, is_gone, f);
}

static void client_that_may_close_its_half_has_its_unread_requests_served(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    http_response_allow_half_close(&f->call->response);
    fixture_send(f, GET);
    fixture_turns(f, 5);
    assert_int_equal(shutdown(f->client.fd, SHUT_WR), 0);
    fixture_turns(f, 5);
    assert_int_equal(f->gone, 0);
    struct call *call = f->call;
    f->response = response_hello;
    response_hello(f, call);
    raw_await_end(f->loop, &f->client);
    assert_int_equal(f->requests, 2);
    assert_int_equal(f->gone, 2);
    assert_true(f->client.ended);
    raw_turn_until(f->loop, is_gone, f);
}

static void client_that_may_close_its_half_is_noticed_when_it_resets(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    http_response_allow_half_close(&f->call->response);
    assert_int_equal(shutdown(f->client.fd, SHUT_WR), 0);
    fixture_turns(f, 5);
    assert_int_equal(f->gone, 0);
    raw_reset(&f->client);
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
}

/* A connection that is closed with unread bytes is reset by the kernel, with all it has to send. */
static void last_response_reaches_a_client_that_has_sent_more(void **state)
{
    enum { LARGE = 1024 * 1024 };
    static char body[LARGE];
    struct fixture *f = *state;

    fixture_send(f, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    fixture_await_requests(f, 1);
    fixture_send(f, GET);
    fixture_turns(f, 5);
    memset(body, 'z', LARGE);
    start_response(f->call, 200, LARGE);
    http_response_send(&f->call->response, body_piece_copy((struct slice){body, LARGE}), true);
    fixture_send(f, GET);
    raw_await_end(f->loop, &f->client);
    assert_true(f->client.ended);
    assert_true(raw_has(&f->client, "Connection: close\r\n"));
    assert_true(f->client.in.len > LARGE);
    assert_int_equal(f->requests, 1);
    raw_close(&f->client);
    raw_turn_until(f->loop, is_gone, f);
}

static void rejected_client_that_is_still_sending_gets_its_response(void **state)
{
    enum { LARGE = 1024 * 1024 };
    static char body[LARGE];
    struct fixture *f = *state;

    fixture_send(f, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n");
    raw_send_bytes(f->loop, &f->client, (struct slice){body, LARGE});
    raw_await_end(f->loop, &f->client);
    assert_true(f->client.ended);
    assert_true(raw_has(&f->client, "HTTP/1.1 413 "));
    assert_int_equal(fixture_rejected(f, FAULT_BODY_TOO_LARGE), 1);
    assert_int_equal(http_server_connections(f->server), 1);
    raw_close(&f->client);
    raw_turn_until(f->loop, is_gone, f);
}

/* ---- 100 Continue ---- */

#define EXPECT "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"

static void client_that_waits_is_asked_to_continue(void **state)
{
    static const char *const requests[][2] = {
        {EXPECT "Content-Length: 5\r\n\r\n", "12345"},
        {EXPECT "Content-Length: 50000\r\n\r\n", NULL},
        {EXPECT "Transfer-Encoding: chunked\r\n\r\n", "5\r\n12345\r\n0\r\n\r\n"},
    };
    static char body[50000];
    struct fixture *f = *state;

    f->response = response_hello;
    for (unsigned i = 0; i < ARRAY_LEN(requests); ++i) {
        fixture_send(f, requests[i][0]);
        fixture_await(f, "HTTP/1.1 100 Continue\r\n\r\n");
        assert_int_equal(f->requests, i);
        if (requests[i][1] != NULL)
            fixture_send(f, requests[i][1]);
        else
            raw_send_bytes(f->loop, &f->client, (struct slice){body, sizeof(body)});
        fixture_await(f, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n");
        fixture_await(f, "hello");
        fixture_await_gone(f, i + 1);
        text_clear(&f->client.in);
    }
    assert_int_equal(http_server_connections(f->server), 1);
}

static void client_that_need_not_wait_is_not_notified(void **state)
{
    static const char *const requests[] = {
        "POST / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n"
        "Content-Length: 1\r\n\r\nx",
        EXPECT "Content-Length: 0\r\n\r\n",
        EXPECT "\r\n",
        EXPECT "Content-Length: 1\r\n\r\nx",
        EXPECT "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    };
    struct fixture *f = *state;

    f->response = response_hello;
    for (unsigned i = 0; i < ARRAY_LEN(requests); ++i) {
        fixture_send(f, requests[i]);
        fixture_await(f, "hello");
        fixture_await_gone(f, i + 1);
        assert_false(raw_has(&f->client, "100 Continue"));
        text_clear(&f->client.in);
    }
}

static void old_client_is_not_notified_even_if_it_waits(void **state)
{
    struct fixture *f = *state;

    f->response = response_hello;
    fixture_send(f, "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
    fixture_turns(f, 10);
    raw_read(&f->client, SIZE_MAX);
    assert_int_equal(f->client.in.len, 0);
    fixture_send(f, "x");
    fixture_await(f, "hello");
    assert_false(raw_has(&f->client, "100 Continue"));
}

/* ---- by the server ---- */

static void drain_lets_the_request_end_and_then_closes(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    http_server_drain(f->server, NULL, NULL);
    fixture_turns(f, 5);
    response_hello(f, f->call);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "Connection: close\r\n"));
    assert_true(raw_has(&f->client, "\r\n\r\nhello"));
}

static void cut_ends_a_request_that_waits_and_one_that_is_written(void **state)
{
    enum { LARGE = 16 * 1024 * 1024 };
    struct fixture *f = *state;
    char *p = xmalloc(LARGE);

    memset(p, 'z', LARGE);
    for (unsigned i = 0; i < 2; ++i) {
        fixture_send(f, GET GET);
        fixture_await_requests(f, i + 1);
        if (i == 1) {
            start_response(f->call, 200, LARGE);
            http_response_send(&f->call->response, body_piece_copy((struct slice){p, LARGE}), true);
        }
        fixture_turns(f, 5);
        http_server_cut(f->server);
        raw_turn_until(f->loop, is_gone, f);
        assert_int_equal(f->gone, i + 1);
        assert_false(f->gone_done);
        fixture_forget_client(f);
    }
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(client_that_leaves_ends_its_request_and_those_behind_it),
        TEST(client_that_closes_its_half_gets_its_response_when_it_may),
        TEST(client_that_closes_its_half_is_taken_for_one_that_has_left),
        TEST(end_of_the_client_is_noticed_behind_unread_requests),
        TEST(client_that_may_close_its_half_has_its_unread_requests_served),
        TEST(client_that_may_close_its_half_is_noticed_when_it_resets),
        TEST(last_response_reaches_a_client_that_has_sent_more),
        TEST(rejected_client_that_is_still_sending_gets_its_response),
        TEST(client_that_waits_is_asked_to_continue),
        TEST(client_that_need_not_wait_is_not_notified),
        TEST(old_client_is_not_notified_even_if_it_waits),
        TEST(drain_lets_the_request_end_and_then_closes),
        TEST(cut_ends_a_request_that_waits_and_one_that_is_written),
    };

    return cmocka_run_group_tests_name("http1_end", tests, NULL, NULL);
}
