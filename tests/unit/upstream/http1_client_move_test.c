/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies that the user has moved instead of getting them: when that is asked for, what follows from
 * each of the user's responses, and that an exchange ends as any other does.
 */
#include "tests/unit/upstream/http1_client_fixture.h"

#include <sys/ioctl.h>

enum { LARGE = 300000, MIDDLE = 60000 };

/* What on_moving did; the tests run one by one. */
static struct {
    unsigned asked, rejected;
    bool reject, pause;
    bool whole;     /* takes all or nothing */
    size_t at_most; /* 0: as many as are requested */
    size_t bytes;
} moved;

static ssize_t take(void *context, struct transport *from, size_t max)
{
    struct fixture *f = context;
    size_t room = moved.at_most != 0 && moved.at_most < max ? moved.at_most : max;

    int there = 0;

    if (moved.whole && (ioctl(from->fd, FIONREAD, &there) != 0 || (size_t)there < max)) {
        errno = EAGAIN;
        return -1;
    }
    ++moved.asked;
    if (moved.reject) {
        ++moved.rejected;
        errno = ENOTSUP;
        return -1;
    }
    ssize_t n = recv(from->fd, text_reserve(&f->body, room), room, MSG_DONTWAIT);
    if (n > 0) {
        f->body.len += (size_t)n;
        f->body_bytes += (size_t)n;
        moved.bytes += (size_t)n;
    }
    if (n > 0 && moved.pause)
        http1_client_pause(f->conn);
    return n;
}

static const struct http1_client_events moving_events = {
    .on_head = on_head,
    .on_body = on_body,
    .on_moving = take,
    .on_error = on_error,
    .on_upgrade = on_upgrade,
};

static struct http1_client_request moving_request(struct fixture *f)
{
    struct http1_client_request r = get_request(f);

    memset(&moved, 0, sizeof(moved));
    r.moves = true;
    r.events = &moving_events;
    return r;
}

static char *numbered(size_t bytes)
{
    char *p = xmalloc(bytes);

    for (size_t i = 0; i < bytes; ++i)
        p[i] = (char)(i * 7 + i / 251);
    return p;
}

/* The head of a response, and BYTES of its body of ANNOUNCED bytes. */
static void respond(struct fixture *f, size_t announced, const char *body, size_t bytes)
{
    char head[100];

    snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", announced);
    raw_send(f->loop, &f->worker, head);
    raw_send_bytes(f->loop, &f->worker, (struct slice){body, bytes});
}

static void exchange_large(struct fixture *f, const struct http1_client_request *r)
{
    char *body = numbered(LARGE);

    start(f, r);
    respond(f, LARGE, body, LARGE);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->ended);
    assert_int_equal(f->body.len, LARGE);
    assert_memory_equal(f->body.p, body, LARGE);
    free(body);
}

static void large_body_is_moved_whole_and_the_connection_serves_again(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = moving_request(f);

    for (int i = 0; i < 3; ++i) {
        exchange_large(f, &r);
        assert_true(moved.bytes > 0);
        assert_true(moved.bytes <= f->body.len * (unsigned)(i + 1));
        assert_true(http1_client_reusable(f->conn));
    }
    exchange(f, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsmall");
    assert_body(f, "small");
}

static void body_that_cannot_be_moved_is_read(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = moving_request(f);

    moved.reject = true;
    exchange_large(f, &r);
    assert_true(moved.rejected > 0);
    assert_int_equal(moved.bytes, 0);
    assert_true(http1_client_reusable(f->conn));
}

static void a_body_that_is_small_or_has_no_length_is_not_moved(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = moving_request(f);
    char *body = numbered(LARGE);

    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n");
    raw_send_bytes(f->loop, &f->worker, (struct slice){body, LARGE});
    raw_send(f->loop, &f->worker, "\r\n0\r\n\r\n");
    raw_turn_until(f->loop, is_over, f);
    assert_int_equal(f->body_bytes, LARGE);
    start(f, &r);
    respond(f, 1000, body, 1000);
    raw_turn_until(f->loop, is_over, f);
    assert_int_equal(f->body_bytes, 1000);
    start(f, &r);
    await_request(f);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\n\r\n");
    raw_send_bytes(f->loop, &f->worker, (struct slice){body, LARGE});
    raw_close(&f->worker);
    raw_turn_until(f->loop, is_over, f);
    assert_int_equal(f->body_bytes, LARGE);
    assert_int_equal(moved.asked, 0);
    free(body);
}

static void body_that_is_cut_short_while_it_is_moved_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = moving_request(f);
    char *body = numbered(LARGE);

    start(f, &r);
    await_request(f);
    respond(f, LARGE + 1, body, LARGE);
    raw_close(&f->worker);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->failed);
    assert_int_equal(f->error, ERR_PEER_CLOSED);
    assert_true(moved.bytes > 0);
    assert_int_equal(f->body_bytes, LARGE);
    assert_false(http1_client_reusable(f->conn));
    free(body);
}

static bool all_have_come(void *context)
{
    struct fixture *f = context;

    return f->body_bytes == LARGE - 1000;
}

static void bytes_after_the_end_of_a_moved_body_are_nobodys(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = moving_request(f);
    char *body = numbered(LARGE);

    start(f, &r);
    respond(f, LARGE - 1000, body, LARGE);
    raw_turn_until(f->loop, all_have_come, f);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->ended);
    assert_int_equal(f->body_bytes, LARGE - 1000);
    /* They are in the socket; its next check finds them. */
    for (int i = 0; i < 10; ++i)
        loop_turn(f->loop, 0);
    assert_false(http1_client_reusable(f->conn));
    free(body);
}

static void connection_is_listened_to_after_a_pause_at_the_last_byte(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = moving_request(f);
    char *body = numbered(MIDDLE);

    moved.whole = moved.pause = true;
    start(f, &r);
    respond(f, MIDDLE, body, MIDDLE);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->ended);
    assert_int_equal(moved.asked, 1);
    assert_true(http1_client_reusable(f->conn));
    raw_close(&f->worker);
    for (int i = 0; i < 1000 && http1_client_reusable(f->conn); ++i)
        loop_turn(f->loop, RAW_TURN_MS);
    assert_false(http1_client_reusable(f->conn));
    free(body);
}

static bool has_been_asked(void *context)
{
    (void)context;
    return moved.asked != 0;
}

static void pause_stops_moving_until_resumed(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = moving_request(f);
    char *body = numbered(LARGE);

    moved.pause = true;
    moved.at_most = 10000;
    start(f, &r);
    respond(f, LARGE, body, LARGE);
    raw_turn_until(f->loop, has_been_asked, f);
    for (int i = 0; i < 20; ++i)
        loop_turn(f->loop, 0);
    assert_int_equal(moved.asked, 1);
    assert_int_equal(moved.bytes, 10000);
    moved.pause = false;
    http1_client_resume(f->conn);
    raw_turn_until(f->loop, is_over, f);
    assert_int_equal(f->body.len, LARGE);
    assert_memory_equal(f->body.p, body, LARGE);
    free(body);
}

static void silence_within_a_body_that_is_moved_times_out(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = moving_request(f);
    char *body = numbered(LARGE);

    r.between_bytes_timeout_ms = 50;
    start(f, &r);
    respond(f, LARGE, body, LARGE - 100000);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->failed);
    assert_int_equal(f->error, ERR_TIMEOUT);
    assert_true(moved.bytes > 0);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(large_body_is_moved_whole_and_the_connection_serves_again),
        TEST(body_that_cannot_be_moved_is_read),
        TEST(a_body_that_is_small_or_has_no_length_is_not_moved),
        TEST(body_that_is_cut_short_while_it_is_moved_is_an_error),
        TEST(bytes_after_the_end_of_a_moved_body_are_nobodys),
        TEST(connection_is_listened_to_after_a_pause_at_the_last_byte),
        TEST(pause_stops_moving_until_resumed),
        TEST(silence_within_a_body_that_is_moved_times_out),
    };

    return cmocka_run_group_tests_name("http1_move", tests, NULL, NULL);
}
