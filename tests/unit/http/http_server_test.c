/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests and responses. Requests rejected: request_check_test.c. Responses held back:
 * http_response_test.c. Connections, time and tunnels: http_conn_test.c.
 */
#include "tests/unit/http/http_server_fixture.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

/* ---- ordinary requests ---- */

static void request_is_handed_over_and_responded(void **state)
{
    struct fixture *f = *state;

    f->response = response_hello;
    fixture_send(f, "POST /p?q=1 HTTP/1.1\r\nHost: a.example:80\r\nContent-Length: 3\r\n\r\nabc");
    fixture_await(f, "\r\n\r\nhello");
    assert_string_equal(text_cstr(&f->method), "POST");
    assert_string_equal(text_cstr(&f->path), "/p?q=1");
    assert_string_equal(text_cstr(&f->authority), "a.example:80");
    assert_string_equal(text_cstr(&f->body), "abc");
    assert_true(raw_has(&f->client, "HTTP/1.1 200 OK\r\n"));
    assert_true(raw_has(&f->client, "Content-Length: 5\r\n"));
    assert_true(raw_has(&f->client, "Content-Type: text/plain\r\n"));
    assert_true(raw_has(&f->client, "Connection: keep-alive\r\n"));
    assert_false(raw_has(&f->client, "Server:"));
    fixture_await_gone(f, 1);
    assert_true(f->gone_done);
    assert_int_equal(f->sent_bytes, 5);
    assert_true(addr_is_loopback(&f->peer));
    assert_ptr_equal(f->tag, f);
}

static void respond_later(struct fixture *f, struct call *call)
{
    (void)f;
    (void)call;
}

static void response_may_come_later(void **state)
{
    struct fixture *f = *state;

    f->response = respond_later;
    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    fixture_turns(f, 5);
    response_hello(f, f->call);
    fixture_await(f, "hello");
}

static void pipelined_requests_get_a_response_in_order(void **state)
{
    struct fixture *f = *state;
    struct text t = {0};

    f->response = response_hello;
    for (int i = 0; i < 50; ++i)
        text_add(&t, SLICE_LIT(GET));
    fixture_send(f, text_cstr(&t));
    fixture_await_gone(f, 50);
    assert_int_equal(f->requests, 50);
    assert_true(f->gone_done);
    text_fini(&t);
}

static void pipelined_request_waits_for_the_response_before_it(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET GET);
    fixture_await_requests(f, 1);
    fixture_turns(f, 20);
    assert_int_equal(f->requests, 1);
    response_hello(f, f->call);
    fixture_await_requests(f, 2);
    response_hello(f, f->call);
    fixture_await_gone(f, 2);
}

static void response_to_head_announces_a_length_and_has_no_body(void **state)
{
    struct fixture *f = *state;

    f->response = response_hello;
    fixture_send(f, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" GET);
    fixture_await(f, "hello");
    assert_true(raw_has(&f->client, "Content-Length: 5\r\n"));
    assert_true(raw_has(&f->client, "text/plain\r\n\r\nHTTP/1.1 200 OK"));
    assert_false(raw_has(&f->client, "helloHTTP"));
}

static void response_empty(struct fixture *f, struct call *call)
{
    (void)f;
    start_response(call, 204, UINT64_MAX);
    http_response_send(&call->response, NULL, true);
}

static void no_content_has_neither_length_nor_chunks(void **state)
{
    struct fixture *f = *state;

    f->response = response_empty;
    fixture_send(f, GET GET);
    fixture_await_gone(f, 2);
    fixture_await(f, "\r\n\r\nHTTP/1.1 204 No Content\r\n");
    assert_false(raw_has(&f->client, "Content-Length"));
    assert_false(raw_has(&f->client, "chunked"));
}

static void response_not_modified(struct fixture *f, struct call *call)
{
    (void)f;
    start_response(call, 304, 1234);
    http_response_send(&call->response, NULL, true);
}

static void not_modified_may_announce_a_length(void **state)
{
    struct fixture *f = *state;

    f->response = response_not_modified;
    fixture_send(f, GET GET);
    fixture_await_gone(f, 2);
    fixture_await(f, "Content-Length: 1234\r\n");
    assert_true(f->gone_done);
}

/* ---- framing ---- */

static void response_of_unknown_length(struct fixture *f, struct call *call)
{
    (void)f;
    start_response(call, 404, UINT64_MAX);
    http_response_send(&call->response, body_of("some "), false);
    http_response_send(&call->response, body_of("bytes, seventeen"), true);
}

static void any_status_of_unknown_length_is_chunked(void **state)
{
    struct fixture *f = *state;

    f->response = response_of_unknown_length;
    fixture_send(f, GET GET);
    fixture_await_gone(f, 2);
    fixture_await(f, "\r\n\r\n5\r\nsome \r\n10\r\nbytes, seventeen\r\n0\r\n\r\nHTTP/1.1 404");
    assert_true(raw_has(&f->client, "Transfer-Encoding: chunked\r\n"));
    assert_true(raw_has(&f->client, "Connection: keep-alive\r\n"));
    assert_int_equal(f->sent_bytes, 21);
}

static void old_client_sees_the_end_of_unknown_length_by_close(void **state)
{
    struct fixture *f = *state;

    f->response = response_of_unknown_length;
    fixture_send(f, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    raw_await_end(f->loop, &f->client);
    assert_true(f->client.ended);
    assert_true(raw_has(&f->client, "\r\n\r\nsome bytes, seventeen"));
    assert_true(raw_has(&f->client, "Connection: close\r\n"));
    assert_false(raw_has(&f->client, "chunked"));
    assert_string_equal(text_cstr(&f->authority), "");
}

static void head_goes_out_without_waiting_for_the_body(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, UINT64_MAX);
    fixture_await(f, "\r\n\r\n");
    http_response_send(&f->call->response, body_of("late"), false);
    fixture_await(f, "4\r\nlate\r\n");
    http_response_send(&f->call->response, NULL, true);
    fixture_await(f, "0\r\n\r\n");
    fixture_await_gone(f, 1);
    assert_true(f->gone_done);
}

static void bytes_over_the_announced_length_are_dropped(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, 3);
    http_response_send(&f->call->response, body_of("abcdef"), false);
    http_response_send(&f->call->response, body_of("g"), true);
    fixture_await_requests(f, 2);
    f->response = response_hello;
    response_hello(f, f->call);
    fixture_await(f, "\r\n\r\nabcHTTP/1.1 200");
}

static void fewer_bytes_than_announced_are_cut_short(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, 10);
    http_response_send(&f->call->response, body_of("abc"), true);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "\r\n\r\nabc"));
    assert_int_equal(f->gone, 1);
    assert_false(f->gone_done);
}

static void chunked_response_that_is_aborted_has_no_last_chunk(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, UINT64_MAX);
    http_response_send(&f->call->response, body_of("abc"), false);
    http_response_abort(&f->call->response);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "3\r\nabc\r\n"));
    assert_false(raw_has(&f->client, "\r\n0\r\n"));
    assert_false(f->gone_done);
}

static void aborted_response_that_would_end_by_close_is_reset(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, "GET / HTTP/1.0\r\n\r\n");
    fixture_await_requests(f, 1);
    start_response(f->call, 200, UINT64_MAX);
    http_response_send(&f->call->response, body_of("abc"), false);
    fixture_await(f, "abc");
    http_response_abort(&f->call->response);
    raw_await_end(f->loop, &f->client);
    assert_true(f->client.reset);
    assert_false(f->gone_done);
}

static void abort_before_the_start_is_a_bad_gateway(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    http_response_abort(&f->call->response);
    fixture_await(f, "HTTP/1.1 502 Bad Gateway\r\n");
    raw_await_end(f->loop, &f->client);
}

/* ---- back-pressure ---- */

enum { PART_BYTES = 64 * 1024, PARTS = 256 };

static void send_part(struct fixture *f, struct call *call)
{
    static char part[PART_BYTES];

    (void)f;
    http_response_send(&call->response, body_piece_copy((struct slice){part, sizeof(part)}), false);
}

static void slow_client_holds_the_queue_and_drained_lets_it_on(void **state)
{
    struct fixture *f = *state;
    size_t sent = 0;
    size_t queued_max = 0;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, (uint64_t)PART_BYTES * PARTS);
    /* The sockets buffer some; then the queue grows, as the client does not read. */
    while (sent < PARTS && f->call->response.queued_bytes <= 4 * PART_BYTES) {
        send_part(f, f->call);
        ++sent;
        loop_turn(f->loop, 0);
    }
    assert_true(sent < PARTS);
    unsigned drained = f->drained;
    fixture_turns(f, 20);
    assert_int_equal(f->drained, drained);
    while (sent < PARTS) {
        raw_read(&f->client, SIZE_MAX);
        loop_turn(f->loop, 0);
        if (f->call->response.queued_bytes > 2 * PART_BYTES)
            continue;
        send_part(f, f->call);
        ++sent;
        if (f->call->response.queued_bytes > queued_max)
            queued_max = f->call->response.queued_bytes;
    }
    assert_true(f->drained > drained);
    assert_true(queued_max <= 4 * PART_BYTES);
    http_response_send(&f->call->response, NULL, true);
    raw_await_bytes(f->loop, &f->client, (size_t)PART_BYTES * PARTS);
    fixture_await_gone(f, 1);
    assert_true(f->gone_done);
    assert_int_equal(f->sent_bytes, (uint64_t)PART_BYTES * PARTS);
}

/* Send parts until the client's connection takes no more. */
static void fill(struct fixture *f)
{
    while (f->call->response.queued_bytes == 0)
        send_part(f, f->call);
    assert_int_equal(f->drained, 0);
}

static void end_on_drained(struct fixture *f, struct call *call)
{
    f->at_drained = NULL;
    http_response_send(&call->response, body_of("end"), true);
}

static void response_may_be_completed_within_drained(void **state)
{
    struct fixture *f = *state;

    f->at_drained = end_on_drained;
    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, UINT64_MAX);
    fill(f);
    fixture_await(f, "\r\n3\r\nend\r\n0\r\n\r\n");
    fixture_await_gone(f, 1);
    assert_true(f->gone_done);
}

static void abort_on_drained(struct fixture *f, struct call *call)
{
    f->at_drained = NULL;
    http_response_abort(&call->response);
}

static void response_may_be_aborted_within_drained(void **state)
{
    struct fixture *f = *state;

    f->at_drained = abort_on_drained;
    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, (uint64_t)PART_BYTES * PARTS);
    fill(f);
    raw_await_end(f->loop, &f->client);
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
}

/* ---- clients that leave ---- */

static void client_that_leaves_while_we_wait_is_noticed(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    raw_close(&f->client);
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
    raw_turn_until(f->loop, fixture_is_empty, f);
}

static void client_that_leaves_behind_a_pipelined_request_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    o.keep_alive_timeout_ms = 100; /* so that the sweep comes soon */
    http_server_set(f->server, &o);
    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    fixture_send(f, GET);
    fixture_turns(f, 5);
    raw_close(&f->client);
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
    assert_int_equal(f->requests, 1);
}

static void client_that_leaves_between_two_parts_is_noticed(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, UINT64_MAX);
    http_response_send(&f->call->response, body_of("begin"), false);
    fixture_await(f, "begin");
    raw_close(&f->client);
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
    raw_turn_until(f->loop, fixture_is_empty, f);
}

static void client_that_leaves_within_a_send_is_noticed(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, UINT64_MAX);
    while (f->call->response.queued_bytes <= 8 * PART_BYTES) {
        send_part(f, f->call);
        loop_turn(f->loop, 0);
    }
    raw_reset(&f->client);
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
    raw_turn_until(f->loop, fixture_is_empty, f);
}

static void calls_after_gone_do_nothing(struct call *call)
{
    http_response_send(&call->response, body_of("late"), false);
    http_response_abort(&call->response);
    http_response_simple(&call->response, 200, "text/plain", SLICE_LIT("late"));
}

static void keep_call(void *context, bool done)
{
    struct call *call = context;

    ++call->fixture->gone;
    call->fixture->gone_done = done;
}

static void calls_after_the_client_has_gone_do_nothing(void **state)
{
    static const struct http_response_events events = {.gone = keep_call};
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    struct call *call = f->call;
    call->response.events = &events;
    raw_close(&f->client);
    fixture_await_gone(f, 1);
    calls_after_gone_do_nothing(call);
    raw_turn_until(f->loop, fixture_is_empty, f);
    calls_after_gone_do_nothing(call);
    assert_int_equal(f->gone, 1);
    free(call);
}

/* ---- request bodies ---- */

static void chunked_request_is_handed_over_whole(void **state)
{
    struct fixture *f = *state;

    f->response = response_hello;
    fixture_send(f, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    fixture_turns(f, 5);
    assert_int_equal(f->requests, 0);
    fixture_send(f, "2\r\nde\r\n0\r\n\r\n");
    fixture_await_requests(f, 1);
    assert_string_equal(text_cstr(&f->body), "abcde");
    fixture_send(f, GET);
    fixture_await_gone(f, 2);
}

static void body_over_its_limit_is_rejected(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n");
    fixture_await(f, "HTTP/1.1 413 ");
    raw_await_end(f->loop, &f->client);
    assert_int_equal(f->requests, 0);
}

static void large_body_is_spilled_to_a_file(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);
    size_t bytes = (size_t)8 << 20;
    char *body = xmalloc(bytes);
    char head[100];

    o.max.body_bytes = (size_t)16 << 20;
    o.sinks.memory_bytes = (size_t)1 << 20;
    o.sinks.directory = "/tmp";
    fixture_restart(f, &o);
    f->response = response_hello;
    memset(body, 'b', bytes);
    snprintf(head, sizeof(head), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n",
             bytes);
    fixture_send(f, head);
    raw_send_bytes(f->loop, &f->client, (struct slice){body, bytes});
    fixture_await(f, "hello");
    assert_int_equal(f->body.len, bytes);
    assert_memory_equal(f->body.p, body, bytes);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(request_is_handed_over_and_responded),
        TEST(response_may_come_later),
        TEST(pipelined_requests_get_a_response_in_order),
        TEST(pipelined_request_waits_for_the_response_before_it),
        TEST(response_to_head_announces_a_length_and_has_no_body),
        TEST(no_content_has_neither_length_nor_chunks),
        TEST(not_modified_may_announce_a_length),
        TEST(any_status_of_unknown_length_is_chunked),
        TEST(old_client_sees_the_end_of_unknown_length_by_close),
        TEST(head_goes_out_without_waiting_for_the_body),
        TEST(bytes_over_the_announced_length_are_dropped),
        TEST(fewer_bytes_than_announced_are_cut_short),
        TEST(chunked_response_that_is_aborted_has_no_last_chunk),
        TEST(aborted_response_that_would_end_by_close_is_reset),
        TEST(abort_before_the_start_is_a_bad_gateway),
        TEST(slow_client_holds_the_queue_and_drained_lets_it_on),
        TEST(response_may_be_completed_within_drained),
        TEST(response_may_be_aborted_within_drained),
        TEST(client_that_leaves_while_we_wait_is_noticed),
        TEST(client_that_leaves_behind_a_pipelined_request_is_noticed),
        TEST(client_that_leaves_between_two_parts_is_noticed),
        TEST(client_that_leaves_within_a_send_is_noticed),
        TEST(calls_after_the_client_has_gone_do_nothing),
        TEST(chunked_request_is_handed_over_whole),
        TEST(body_over_its_limit_is_rejected),
        TEST(large_body_is_spilled_to_a_file),
    };

    return cmocka_run_group_tests_name("http_server", tests, NULL, NULL);
}
