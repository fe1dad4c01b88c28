/* SPDX-License-Identifier: Apache-2.0
 *
 * Responses with a head that is held until the body begins, and may be withdrawn until then; bodies
 * that are lent. Other tests of responses: http_server_test.c.
 */
#include "tests/unit/http/http_server_fixture.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

enum { HOLD_LONG_MS = 60000, HOLD_SHORT_MS = 20 };

static void hold_response(struct call *call, int status, uint64_t length, uint64_t hold_ms)
{
    struct http_request *req = call->response.req;

    req->res.status = status;
    http_request_add_response(req, "X-Held", SLICE_LIT("1"));
    http_response_hold(&call->response, length, hold_ms);
}

static void held_response_goes_out_with_its_first_bytes(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    hold_response(f->call, 200, 5, HOLD_LONG_MS);
    loop_turn(f->loop, 0);
    assert_false(raw_has(&f->client, "HTTP/1.1"));
    http_response_send(&f->call->response, body_of("hello"), true);
    fixture_await(f, "X-Held: 1\r\n");
    fixture_await(f, "\r\n\r\nhello");
    fixture_await_gone(f, 1);
    assert_true(f->gone_done);
}

static void held_response_goes_out_when_its_time_is_up(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    hold_response(f->call, 200, 5, HOLD_SHORT_MS);
    fixture_await(f, "X-Held: 1\r\n");
    assert_false(http_response_withdraw(&f->call->response));
    http_response_send(&f->call->response, body_of("hello"), true);
    fixture_await(f, "\r\n\r\nhello");
}

static void held_response_that_is_taken_back_leaves_no_trace_in_the_next(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    hold_response(f->call, 503, 99, HOLD_LONG_MS);
    assert_true(http_response_withdraw(&f->call->response));
    start_response(f->call, 200, 5);
    http_response_send(&f->call->response, body_of("hello"), true);
    fixture_await(f, "\r\n\r\nhello");
    assert_true(raw_has(&f->client, "HTTP/1.1 200 OK\r\n"));
    assert_false(raw_has(&f->client, "X-Held"));
    assert_false(raw_has(&f->client, "99"));
}

static void put_lines(struct call *call, const char *lines)
{
    size_t bytes = strlen(lines);

    memcpy(http_response_room(&call->response, bytes), lines, bytes);
    http_response_lines(&call->response, bytes);
}

static void lines_follow_the_fields_and_go_with_a_response_that_is_taken_back(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    put_lines(f->call, "X-Line: 1\r\nX-Line: 2\r\n");
    hold_response(f->call, 503, 99, HOLD_LONG_MS);
    assert_true(http_response_withdraw(&f->call->response));
    put_lines(f->call, "X-Line: 3\r\n");
    hold_response(f->call, 200, UINT64_MAX, HOLD_LONG_MS);
    http_response_send(&f->call->response, body_of("hello"), true);
    fixture_await(f, "\r\nX-Held: 1\r\nX-Line: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "5\r\nhello\r\n0\r\n\r\n");
    assert_false(raw_has(&f->client, "X-Line: 1"));
}

/* A head and its body are one piece then, the rest of which waits. */
static void small_response_that_the_socket_does_not_take_at_once_comes_whole(void **state)
{
    enum { BODY = 4000, RESPONSES_MAX = 20000 };
    struct fixture *f = *state;
    char body[BODY];
    unsigned n = 0;

    do {
        fixture_send(f, GET);
        fixture_await_requests(f, ++n);
        assert_true(n < RESPONSES_MAX);
        memset(body, 'a' + (int)(n % 26), BODY);
        start_response(f->call, 200, BODY);
        http_response_send(&f->call->response, body_piece_copy((struct slice){body, BODY}), true);
        fixture_turns(f, 2);
    } while (f->gone == n);
    assert_int_equal(f->call->response.queued_bytes, BODY);
    assert_int_equal(f->call->response.sent_bytes, 0);
    raw_await_bytes(f->loop, &f->client, (size_t)n * BODY);
    body[BODY - 1] = '\0';
    fixture_await(f, body);
    fixture_await_gone(f, n);
    assert_true(f->gone_done);
    raw_read(&f->client, SIZE_MAX);
    struct slice end = {f->client.in.p + f->client.in.len - BODY, BODY};
    assert_memory_equal(end.p, body, BODY - 1);
    assert_int_equal(end.p[BODY - 1], 'a' + (int)(n % 26));
    struct slice head = {end.p - 4, 4};
    assert_true(slice_is(head, "\r\n\r\n"));
}

static void lines_that_fill_more_than_a_block_come_whole(void **state)
{
    enum { LINE = 100, LINES = 400 };
    struct fixture *f = *state;
    char lines[LINE * LINES + 1];

    for (size_t i = 0; i < LINES; ++i) {
        char *at = lines + i * LINE;
        snprintf(at, LINE, "X-%03zu: ", i);
        memset(at + 7, 'v', LINE - 9);
        memcpy(at + LINE - 2, "\r\n", 2);
    }
    lines[LINE * LINES] = '\0';
    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    put_lines(f->call, lines);
    hold_response(f->call, 200, 5, HOLD_LONG_MS);
    http_response_send(&f->call->response, body_of("hello"), true);
    fixture_await(f, "\r\n\r\nhello");
    assert_true(raw_has(&f->client, lines));
    assert_true(raw_has(&f->client, "Content-Length: 5\r\n"));
}

static void head_has_date_connection_and_length_first(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    hold_response(f->call, 299, 1234567890, HOLD_LONG_MS);
    f->call->response.req->res.reason = "As It Was";
    http_response_send(&f->call->response, body_of("hello"), false);
    fixture_await(f, "\r\n\r\nhello");
    assert_true(raw_has(&f->client, "HTTP/1.1 299 As It Was\r\nDate: "));
    assert_true(raw_has(&f->client, " GMT\r\nConnection: keep-alive\r\n"
                                    "Content-Length: 1234567890\r\n"));
}

static void held_response_that_is_aborted_is_a_bad_gateway(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    hold_response(f->call, 200, 5, HOLD_LONG_MS);
    http_response_abort(&f->call->response);
    fixture_await(f, "HTTP/1.1 502 Bad Gateway\r\n");
    raw_await_end(f->loop, &f->client);
    assert_false(raw_has(&f->client, "X-Held"));
}

static void client_that_leaves_a_held_response_is_noticed(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    hold_response(f->call, 200, 5, HOLD_LONG_MS);
    raw_close(&f->client);
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
}

/* ---- bodies that the caller owns ---- */

struct lender {
    unsigned lent;
    char bytes[1024 * 1024];
};

static void give_back(void *hold)
{
    struct lender *l = hold;

    assert_true(l->lent > 0);
    --l->lent;
}

static struct body_piece *borrow(struct lender *l, size_t bytes)
{
    ++l->lent;
    return body_piece_borrow((struct slice){l->bytes, bytes}, give_back, l);
}

static struct lender *create_lender(void)
{
    struct lender *l = xcalloc(1, sizeof(*l));

    memset(l->bytes, 'x', sizeof(l->bytes));
    memcpy(l->bytes, "lent", 4);
    return l;
}

static void borrowed_body_is_given_back_once_it_has_been_sent(void **state)
{
    struct fixture *f = *state;
    struct lender *l = create_lender();

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, 4);
    http_response_send(&f->call->response, borrow(l, 4), true);
    fixture_await(f, "\r\n\r\nlent");
    fixture_await_gone(f, 1);
    assert_int_equal(l->lent, 0);
    free(l);
}

static void borrowed_body_stays_borrowed_until_the_client_has_taken_it_or_left(void **state)
{
    struct fixture *f = *state;
    struct lender *l = create_lender();
    const unsigned pieces = 64; /* more than the sockets hold */

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, UINT64_MAX);
    for (unsigned i = 0; i < pieces; ++i)
        http_response_send(&f->call->response, borrow(l, sizeof(l->bytes)), i == pieces - 1);
    fixture_turns(f, 20);
    assert_in_range(l->lent, 1, pieces);
    raw_reset(&f->client);
    fixture_await_gone(f, 1);
    assert_int_equal(l->lent, 0);
    free(l);
}

static void borrowed_body_that_is_not_sent_is_given_back_at_once(void **state)
{
    struct fixture *f = *state;
    struct lender *l = create_lender();

    fixture_send(f, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    fixture_await_requests(f, 1);
    start_response(f->call, 200, 4);
    http_response_send(&f->call->response, borrow(l, 4), true);
    assert_int_equal(l->lent, 0);
    fixture_await(f, "Content-Length: 4\r\n");
    assert_false(raw_has(&f->client, "lent"));
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(held_response_goes_out_with_its_first_bytes),
        TEST(held_response_goes_out_when_its_time_is_up),
        TEST(held_response_that_is_taken_back_leaves_no_trace_in_the_next),
        TEST(lines_follow_the_fields_and_go_with_a_response_that_is_taken_back),
        TEST(small_response_that_the_socket_does_not_take_at_once_comes_whole),
        TEST(lines_that_fill_more_than_a_block_come_whole),
        TEST(head_has_date_connection_and_length_first),
        TEST(held_response_that_is_aborted_is_a_bad_gateway),
        TEST(client_that_leaves_a_held_response_is_noticed),
        TEST(borrowed_body_is_given_back_once_it_has_been_sent),
        TEST(borrowed_body_stays_borrowed_until_the_client_has_taken_it_or_left),
        TEST(borrowed_body_that_is_not_sent_is_given_back_at_once),
    };

    return cmocka_run_group_tests_name("http_response", tests, NULL, NULL);
}
