/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of a response that go to the client's socket directly: those that are written at once,
 * and those that are moved from a socket.
 */
#include "tests/unit/http/http_server_fixture.h"

#include <poll.h>

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

enum { BODY = 100000, HUGE_BODY = 32 * 1024 * 1024, HOLD_LONG_MS = 60000 };

/* A stream; the response reads from one end, the test writes to the other. */
struct stream {
    struct transport from;
    int to;
};

static struct stream open_stream(int family)
{
    struct stream s;
    struct addr addr;
    struct raw_peer peer;

    if (family == AF_UNIX) {
        int fds[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
                         0);
        transport_open(&s.from, fds[0]);
        s.to = fds[1];
        return s;
    }
    int listener = raw_listen(&addr);
    raw_connect(&addr, &peer);
    s.to = peer.fd;
    struct pollfd p = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&p, 1, RAW_DEADLINE_MS), 1);
    transport_open(&s.from, accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    assert_true(transport_is_open(&s.from));
    close(listener);
    return s;
}

static void close_stream(struct stream *s)
{
    transport_close(&s->from);
    if (s->to != -1)
        close(s->to);
}

static char *numbered(size_t bytes)
{
    char *p = xmalloc(bytes);

    for (size_t i = 0; i < bytes; ++i)
        p[i] = (char)(i * 7 + i / 251);
    return p;
}

static size_t write_some(const struct stream *s, const char *p, size_t bytes)
{
    ssize_t n = send(s->to, p, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

    assert_true(n > 0 || (n == -1 && errno == EAGAIN));
    return n > 0 ? (size_t)n : 0;
}

/* A body in transit. */
struct course {
    struct stream *stream;
    const char *p;
    size_t bytes, written, moved;
    uint64_t deadline_us;
};

static struct course course_of(struct stream *s, const char *p, size_t bytes)
{
    return (struct course){
        .stream = s,
        .p = p,
        .bytes = bytes,
        .deadline_us = clock_mono_us() + RAW_DEADLINE_MS * UINT64_C(1000),
    };
}

/* A step; false: what is there has to be read. */
static bool move_on(struct fixture *f, struct course *c)
{
    if (c->written < c->bytes)
        c->written += write_some(c->stream, c->p + c->written, c->bytes - c->written);
    ssize_t n = http_response_move(&f->call->response, &c->stream->from, c->bytes - c->moved);
    int error = n == -1 ? errno : 0;

    assert_true(n > 0 || error == EAGAIN || error == ENOTSUP);
    c->moved += n > 0 ? (size_t)n : 0;
    loop_turn(f->loop, 0);
    assert_true(clock_mono_us() < c->deadline_us);
    return error != ENOTSUP;
}

/* The rest of C; the client reads meanwhile. */
static void move_rest(struct fixture *f, struct course *c)
{
    while (c->moved < c->bytes) {
        (void)move_on(f, c);
        raw_read(&f->client, SIZE_MAX);
    }
}

static void move_all(struct fixture *f, struct stream *s, const char *p, size_t bytes)
{
    struct course c = course_of(s, p, bytes);

    move_rest(f, &c);
}

static void end_response(struct fixture *f)
{
    http_response_send(&f->call->response, body_piece_copy(SLICE_NULL), true);
}

/* The client has a head, and then P. */
static void assert_client_has(struct fixture *f, const char *p, size_t bytes)
{
    fixture_await(f, "\r\n\r\n");
    const char *end = memmem(f->client.in.p, f->client.in.len, "\r\n\r\n", 4);
    size_t head = (size_t)(end + 4 - f->client.in.p);

    raw_await_bytes(f->loop, &f->client, head + bytes);
    assert_int_equal(f->client.in.len, head + bytes);
    assert_memory_equal(f->client.in.p + head, p, bytes);
}

static void move_response(struct fixture *f, int family, bool held)
{
    struct stream s = open_stream(family);
    char *body = numbered(BODY);

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    f->call->response.req->res.status = 200;
    if (held) {
        http_response_hold(&f->call->response, BODY, HOLD_LONG_MS);
    } else {
        http_response_start(&f->call->response, BODY);
        fixture_await(f, "\r\n\r\n");
    }
    move_all(f, &s, body, BODY);
    assert_int_equal(f->call->response.left_bytes, 0);
    end_response(f);
    assert_client_has(f, body, BODY);
    assert_true(raw_has(&f->client, "HTTP/1.1 200 OK\r\n"));
    assert_true(raw_has(&f->client, "Content-Length: 100000\r\n"));
    fixture_await_gone(f, 1);
    assert_true(f->gone_done);
    assert_int_equal(f->sent_bytes, BODY);
    free(body);
    close_stream(&s);
}

static void body_is_moved_from_a_socket_of_the_internet(void **state)
{
    move_response(*state, AF_INET, false);
}

static void body_is_moved_from_a_unix_socket(void **state)
{
    move_response(*state, AF_UNIX, false);
}

static void head_that_is_held_goes_out_before_the_first_byte_that_is_moved(void **state)
{
    move_response(*state, AF_INET, true);
}

static void the_next_request_follows_on_the_same_connection(void **state)
{
    struct fixture *f = *state;

    move_response(f, AF_INET, true);
    text_clear(&f->client.in);
    f->response = response_hello;
    fixture_send(f, GET);
    fixture_await(f, "\r\n\r\nhello");
    fixture_await_gone(f, 2);
}

static bool queue_is_empty(void *context)
{
    struct fixture *f = context;

    raw_read(&f->client, SIZE_MAX);
    return f->call->response.queued_bytes == 0;
}

static void bytes_that_the_client_does_not_take_are_queued_and_nothing_more_is_moved(void **state)
{
    struct fixture *f = *state;
    struct stream s = open_stream(AF_INET);
    char *body = numbered(HUGE_BODY);
    struct course c = course_of(&s, body, HUGE_BODY);

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, HUGE_BODY);
    fixture_await(f, "\r\n\r\n");
    while (move_on(f, &c))
        assert_true(c.moved < HUGE_BODY);
    assert_true(f->call->response.queued_bytes > 0);
    assert_int_equal(f->call->response.sent_bytes + f->call->response.queued_bytes, c.moved);
    assert_int_equal(f->drained, 0);
    /* The client takes it after all. */
    raw_turn_until(f->loop, queue_is_empty, f);
    assert_true(f->drained > 0);
    move_rest(f, &c);
    end_response(f);
    assert_client_has(f, body, HUGE_BODY);
    fixture_await_gone(f, 1);
    assert_true(f->gone_done);
    assert_int_equal(f->sent_bytes, HUGE_BODY);
    free(body);
    close_stream(&s);
}

static void assert_not_moved(struct fixture *f, struct stream *s, size_t max)
{
    assert_int_equal(http_response_move(&f->call->response, &s->from, max), -1);
    assert_int_equal(errno, ENOTSUP);
}

static void
responses_in_chunks_or_without_a_body_and_more_than_announced_are_not_moved(void **state)
{
    struct fixture *f = *state;
    struct stream s = open_stream(AF_INET);

    assert_int_equal(write_some(&s, "hello", 5), 5);
    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    assert_not_moved(f, &s, 5); /* not begun */
    start_response(f->call, 200, UINT64_MAX);
    fixture_await(f, "\r\n\r\n");
    assert_not_moved(f, &s, 5);
    end_response(f);
    fixture_await_gone(f, 1);
    fixture_send(f, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    fixture_await_requests(f, 2);
    start_response(f->call, 200, 5);
    assert_not_moved(f, &s, 5);
    end_response(f);
    fixture_await_gone(f, 2);
    fixture_send(f, GET);
    fixture_await_requests(f, 3);
    start_response(f->call, 200, 4);
    assert_not_moved(f, &s, 5);
    assert_int_equal(http_response_move(&f->call->response, &s.from, 4), 4);
    end_response(f);
    fixture_await(f, "\r\n\r\nhell");
    fixture_await_gone(f, 3);
    close_stream(&s);
}

static void a_null_response_is_not_moved(void **state)
{
    (void)state;
    assert_int_equal(http_response_move(NULL, NULL, 1), -1);
    assert_int_equal(errno, ENOTSUP);
}

/* Once there is something to move, or the end. */
static ssize_t first_move(struct fixture *f, struct stream *s)
{
    struct pollfd p = {.fd = s->from.fd, .events = POLLIN};

    assert_int_equal(poll(&p, 1, RAW_DEADLINE_MS), 1);
    return http_response_move(&f->call->response, &s->from, BODY);
}

static void end_and_emptiness_of_the_socket_are_distinguished(void **state)
{
    struct fixture *f = *state;
    struct stream s = open_stream(AF_INET);

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, BODY);
    assert_int_equal(http_response_move(&f->call->response, &s.from, BODY), -1);
    assert_int_equal(errno, EAGAIN);
    close(s.to);
    s.to = -1;
    assert_int_equal(first_move(f, &s), 0);
    http_response_abort(&f->call->response);
    raw_await_end(f->loop, &f->client);
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
    close_stream(&s);
}

static void response_that_is_cut_after_what_was_moved_ends_with_that(void **state)
{
    struct fixture *f = *state;
    struct stream s = open_stream(AF_INET);
    char *body = numbered(BODY);

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, BODY + 1);
    move_all(f, &s, body, BODY);
    http_response_abort(&f->call->response);
    assert_client_has(f, body, BODY);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "Content-Length: 100001\r\n"));
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
    free(body);
    close_stream(&s);
}

static void client_that_leaves_what_is_moved_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct stream s = open_stream(AF_INET);
    char *body = numbered(BODY);

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, HUGE_BODY);
    fixture_await(f, "\r\n\r\n");
    raw_reset(&f->client);
    assert_true(write_some(&s, body, BODY) > 0);
    assert_true(first_move(f, &s) > 0);
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
    free(body);
    close_stream(&s);
}

/* ---- written at once ---- */

static void count_release(void *hold)
{
    ++*(unsigned *)hold;
}

static void memory_is_free_again_before_the_call_returns_when_the_client_takes_all(void **state)
{
    struct fixture *f = *state;
    unsigned released = 0;
    char *body = numbered(BODY);

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, 20);
    http_response_send(&f->call->response,
                       body_piece_borrow((struct slice){body, 10}, count_release, &released),
                       false);
    assert_int_equal(released, 1);
    assert_int_equal(f->call->response.queued_bytes, 0);
    http_response_send(&f->call->response,
                       body_piece_borrow((struct slice){body + 10, 10}, count_release, &released),
                       true);
    assert_int_equal(released, 2);
    assert_int_equal(f->gone, 0); /* the caller still owns the response */
    assert_client_has(f, body, 20);
    fixture_await_gone(f, 1);
    assert_true(f->gone_done);
    assert_int_equal(f->sent_bytes, 20);
    assert_int_equal(f->drained, 0);
    free(body);
}

static void client_that_leaves_after_the_last_byte_has_been_served(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, 5);
    http_response_send(&f->call->response, body_of("hello"), true);
    raw_close(&f->client);
    fixture_await_gone(f, 1);
    assert_true(f->gone_done);
    assert_int_equal(f->sent_bytes, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(body_is_moved_from_a_socket_of_the_internet),
        TEST(body_is_moved_from_a_unix_socket),
        TEST(head_that_is_held_goes_out_before_the_first_byte_that_is_moved),
        TEST(the_next_request_follows_on_the_same_connection),
        TEST(bytes_that_the_client_does_not_take_are_queued_and_nothing_more_is_moved),
        TEST(responses_in_chunks_or_without_a_body_and_more_than_announced_are_not_moved),
        TEST(a_null_response_is_not_moved),
        TEST(end_and_emptiness_of_the_socket_are_distinguished),
        TEST(response_that_is_cut_after_what_was_moved_ends_with_that),
        TEST(client_that_leaves_what_is_moved_is_noticed),
        TEST(memory_is_free_again_before_the_call_returns_when_the_client_takes_all),
        TEST(client_that_leaves_after_the_last_byte_has_been_served),
    };

    return cmocka_run_group_tests_name("http_response_move", tests, NULL, NULL);
}
