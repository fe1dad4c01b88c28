/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges: what goes out, what comes back, and when. The connections: http1_conn_test.c.
 */
#include "tests/unit/upstream/http1_client_fixture.h"

/* ---- ordinary exchanges ---- */

static void request_is_written_and_a_response_with_a_length_read(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    r.head = SLICE_LIT("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n");
    r.body = SLICE_LIT("abc");
    start(f, &r);
    raw_await(f->loop, &f->worker, "Content-Length: 3\r\n\r\nabc");
    raw_send(f->loop, &f->worker, "HTTP/1.1 201 Made\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello");
    raw_turn_until(f->loop, is_over, f);
    assert_false(f->failed);
    assert_int_equal(f->status, 201);
    assert_string_equal(text_cstr(&f->reason), "Made");
    assert_int_equal(f->nheaders, 2);
    assert_body(f, "hello");
    assert_true(http1_client_reusable(f->conn));
    struct http1_client_times t = http1_client_times(f->conn);
    assert_true(t.written_us != 0);
    assert_true(t.first_byte_us >= t.written_us);
    assert_true(t.last_byte_us >= t.first_byte_us);
}

static void a_connection_serves_one_request_after_another(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 5; ++i) {
        exchange(f, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        assert_body(f, "ok");
        assert_true(http1_client_reusable(f->conn));
    }
}

static void head_and_body_of_one_segment_come_in_one_turn(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    while (f->heads == 0)
        loop_turn(f->loop, RAW_TURN_MS);
    assert_true(f->ended);
}

static void responses_without_a_body_end_with_their_head(void **state)
{
    struct fixture *f = *state;

    exchange(f, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_true(f->ended);
    assert_true(http1_client_reusable(f->conn));
    exchange(f, "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n");
    assert_true(f->ended);
    assert_true(http1_client_reusable(f->conn));
    exchange(f, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_true(f->ended);
    assert_int_equal(f->bodies, 0);
    assert_true(http1_client_reusable(f->conn));
}

static void response_to_head_has_no_body_whatever_it_announces(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    r.is_head = true;
    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n");
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->ended);
    assert_int_equal(f->bodies, 0);
    assert_true(http1_client_reusable(f->conn));
}

static void chunks_are_decoded(void **state)
{
    struct fixture *f = *state;

    exchange(f, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                "3\r\nabc\r\n5;ext=1\r\ndefgh\r\n0\r\nTrailer: x\r\n\r\n");
    assert_true(f->ended);
    assert_body(f, "abcdefgh");
    assert_true(http1_client_reusable(f->conn));
}

static void chunks_cut_anywhere_are_decoded(void **state)
{
    struct fixture *f = *state;
    const char *response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                           "3\r\nabc\r\n0A\r\n0123456789\r\n0\r\n\r\n";
    struct http1_client_request r = get_request(f);

    start(f, &r);
    for (const char *p = response; *p != '\0'; ++p) {
        raw_send_bytes(f->loop, &f->worker, (struct slice){p, 1});
        loop_turn(f->loop, RAW_TURN_MS);
    }
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->ended);
    assert_body(f, "abc0123456789");
    assert_true(http1_client_reusable(f->conn));
}

static void many_small_chunks_come_in_few_parts(void **state)
{
    struct fixture *f = *state;
    struct text t = {0};

    text_add(&t, SLICE_LIT("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
    for (int i = 0; i < 2000; ++i)
        text_addf(&t, "1\r\n%d\r\n", i % 10);
    for (int i = 0; i < 40; ++i)
        text_addf(&t, "12c\r\n%0300d\r\n", i);
    text_add(&t, SLICE_LIT("0\r\n\r\n"));
    exchange(f, text_cstr(&t));
    assert_true(f->ended);
    assert_int_equal(f->body_bytes, 2000 + 40 * 300);
    assert_true(f->parts_max <= BODY_PIECE_PARTS_MAX);
    assert_memory_equal(f->body.p, "01234567890123", 14);
    assert_memory_equal(f->body.p + 2000 + 300 * 40 - 3, "039", 3);
    text_fini(&t);
}

static void body_without_framing_ends_with_the_connection(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    start(f, &r);
    await_request(f);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\n\r\nsome");
    raw_send(f->loop, &f->worker, " bytes");
    raw_close(&f->worker);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->ended);
    assert_body(f, "some bytes");
    assert_false(http1_client_reusable(f->conn));
}

static void interim_responses_are_dropped(void **state)
{
    struct fixture *f = *state;

    exchange(f, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    assert_true(f->ended);
    assert_int_equal(f->heads, 1);
    assert_int_equal(f->status, 200);
    assert_true(http1_client_reusable(f->conn));
}

static void large_bodies_stream_both_ways(void **state)
{
    struct fixture *f = *state;
    size_t bytes = (size_t)64 << 20;
    char *body = xcalloc(1, bytes);
    struct http1_client_request r = get_request(f);
    char head[100];

    snprintf(head, sizeof(head), "POST / HTTP/1.1\r\nContent-Length: %zu\r\n\r\n", bytes);
    memcpy(body + bytes - 4, "last", 4);
    r.head = slice_of(head);
    r.body = (struct slice){body, bytes};
    start(f, &r);
    memset(head, 'x', sizeof(head)); /* the client no longer needs the head */
    raw_await_bytes(f->loop, &f->worker, bytes + 45);
    assert_true(raw_has(&f->worker, "Content-Length: 67108864\r\n\r\n"));
    assert_memory_equal(f->worker.in.p + f->worker.in.len - 4, "last", 4);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
    raw_send_bytes(f->loop, &f->worker, r.body);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->ended);
    assert_int_equal(f->body_bytes, bytes);
    assert_true(http1_client_reusable(f->conn));
    free(body);
}

/* ---- early, late, short, long ---- */

static void early_response_is_passed_on_and_the_connection_not_reused(void **state)
{
    struct fixture *f = *state;
    size_t bytes = (size_t)16 << 20; /* more than the sockets hold */
    char *body = xcalloc(1, bytes);
    struct http1_client_request r = get_request(f);

    r.body = (struct slice){body, bytes};
    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->ended);
    assert_int_equal(f->status, 413);
    assert_body(f, "no");
    assert_false(http1_client_reusable(f->conn));
    assert_int_equal(http1_client_times(f->conn).written_us, 0);
    free(body);
}

static void response_cut_short_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    start(f, &r);
    await_request(f);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    raw_close(&f->worker);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->failed);
    assert_int_equal(f->error, ERR_PEER_CLOSED);
    assert_body(f, "half");
    assert_false(http1_client_reusable(f->conn));
}

static void chunked_response_cut_short_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    start(f, &r);
    await_request(f);
    raw_send(f->loop, &f->worker,
             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
    raw_close(&f->worker);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->failed);
    assert_int_equal(f->error, ERR_PEER_CLOSED);
}

static void reset_within_a_body_that_ends_by_close_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\n\r\nsome");
    while (f->bodies == 0)
        loop_turn(f->loop, RAW_TURN_MS);
    raw_reset(&f->worker);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->failed);
    assert_int_equal(f->error, ERR_PEER_RESET);
}

static void pause_at_first_body(struct fixture *f)
{
    if (f->bodies == 1)
        http1_client_pause(f->conn);
}

/*
 * The response to an upload that is not complete has no length, and END ends the worker's side. The
 * client writes, in vain, before it reads the end.
 */
static void end_during_an_upload(struct fixture *f, void (*end)(struct fixture *f))
{
    size_t bytes = (size_t)16 << 20;
    char *body = xcalloc(1, bytes);
    struct http1_client_request r = get_request(f);

    r.body = (struct slice){body, bytes};
    f->at_body = pause_at_first_body;
    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\n\r\nsome");
    while (f->bodies == 0)
        loop_turn(f->loop, RAW_TURN_MS);
    end(f);
    for (int i = 0; i < 20; ++i)
        loop_turn(f->loop, 0);
    http1_client_resume(f->conn);
    raw_turn_until(f->loop, is_over, f);
    free(body);
}

static void close_unread(struct fixture *f)
{
    raw_close(&f->worker); /* with unread bytes, so that it is a reset */
}

static void end_then_close_unread(struct fixture *f)
{
    assert_int_equal(shutdown(f->worker.fd, SHUT_WR), 0);
    raw_close(&f->worker);
}

static void reset_that_the_upload_finds_is_not_the_end_of_a_body(void **state)
{
    struct fixture *f = *state;

    end_during_an_upload(f, close_unread);
    assert_true(f->failed);
    assert_int_equal(f->error, ERR_PEER_RESET);
    assert_body(f, "some");
}

static void end_that_precedes_a_reset_is_the_end_of_a_body(void **state)
{
    struct fixture *f = *state;

    end_during_an_upload(f, end_then_close_unread);
    assert_true(f->ended);
    assert_body(f, "some");
}

static void connection_closed_before_a_response_is_reported_with_how_far_it_got(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    start(f, &r);
    await_request(f);
    raw_close(&f->worker);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->failed);
    assert_int_equal(f->error, ERR_PEER_CLOSED);
    assert_true(f->failure.written);
    assert_false(f->failure.received);
}

static void bytes_after_the_end_forbid_reuse(void **state)
{
    struct fixture *f = *state;

    exchange(f, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok+");
    assert_true(f->ended);
    assert_body(f, "ok");
    assert_false(http1_client_reusable(f->conn));
}

static void both_a_coding_and_a_length_forbid_reuse(void **state)
{
    struct fixture *f = *state;

    exchange(f, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
                "2\r\nok\r\n0\r\n\r\n");
    assert_true(f->ended);
    assert_body(f, "ok");
    assert_false(http1_client_reusable(f->conn));
}

static void bytes_after_the_last_chunk_forbid_reuse(void **state)
{
    struct fixture *f = *state;

    exchange(f, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP");
    assert_true(f->ended);
    assert_body(f, "ok");
    assert_false(http1_client_reusable(f->conn));
}

static void connection_close_forbids_reuse(void **state)
{
    struct fixture *f = *state;

    exchange(f, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n\r\n");
    assert_true(f->ended);
    assert_false(http1_client_reusable(f->conn));
}

/* ---- garbage ---- */

static void assert_bad_response(struct fixture *f, const char *response)
{
    exchange(f, response);
    if (!f->failed)
        fail_msg("accepted: %s", response);
    assert_int_equal(f->error, ERR_BAD_RESPONSE);
    assert_false(http1_client_reusable(f->conn));
    http1_client_close(&f->conn);
    raw_fini(&f->worker);
    connect_to_worker(f);
}

static void garbage_is_rejected(void **state)
{
    static const char *const garbage[] = {
        "garbage\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\r\nNo colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(garbage); ++i)
        assert_bad_response(*state, garbage[i]);
}

/* N of them, and then a response. */
static struct text interim_responses(unsigned n)
{
    struct text t = {0};

    while (n-- != 0)
        text_add(&t, SLICE_LIT("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"));
    text_add(&t, SLICE_LIT("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"));
    return t;
}

static void a_hundred_interim_responses_pass_before_each_response(void **state)
{
    struct fixture *f = *state;
    struct text t = interim_responses(HTTP1_CLIENT_INTERIM_MAX);

    assert_int_equal(HTTP1_CLIENT_INTERIM_MAX, 100);
    for (unsigned i = 0; i < 3; ++i) {
        exchange(f, text_cstr(&t));
        assert_true(f->ended);
        assert_body(f, "ab");
        assert_true(http1_client_reusable(f->conn));
    }
    text_fini(&t);
}

static void one_interim_response_more_is_rejected(void **state)
{
    struct text t = interim_responses(HTTP1_CLIENT_INTERIM_MAX + 1);

    assert_bad_response(*state, text_cstr(&t));
    text_fini(&t);
}

static void endless_head_is_rejected(void **state)
{
    struct fixture *f = *state;
    struct text t = {0};

    text_add(&t, SLICE_LIT("HTTP/1.1 200 OK\r\nX: "));
    while (t.len < RESPONSE_HEAD_MAX)
        text_add(&t, SLICE_LIT("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
    exchange(f, text_cstr(&t));
    assert_true(f->failed);
    assert_int_equal(f->error, ERR_TOO_LARGE);
    text_fini(&t);
}

static void large_head_in_many_pieces_is_read(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n");
    for (int i = 0; i < 90; ++i) {
        char line[600];
        snprintf(line, sizeof(line), "X-%d: %0500d\r\n", i, i);
        raw_send(f->loop, &f->worker, line);
        loop_turn(f->loop, 0);
    }
    raw_send(f->loop, &f->worker, "\r\nok");
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->ended);
    assert_int_equal(f->nheaders, 91);
    assert_body(f, "ok");
    assert_true(http1_client_reusable(f->conn));
}

/* ---- back-pressure ---- */

static void pause_at_head(struct fixture *f)
{
    http1_client_pause(f->conn);
}

static void paused_response_is_not_read(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);
    size_t bytes = (size_t)32 << 20;
    char *body = xcalloc(1, bytes);
    size_t sent = 0;
    int stuck = 0;

    f->at_body = pause_at_first_body;
    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\nContent-Length: 33554432\r\n\r\n");
    /* Until the sockets are full and stay so over many turns. */
    while (stuck < 50) {
        ssize_t n = send(f->worker.fd, body + sent, bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        stuck = n > 0 ? 0 : stuck + 1;
        loop_turn(f->loop, 0);
    }
    assert_true(sent < bytes);
    assert_int_equal(f->bodies, 1);
    assert_true(f->body_bytes <= (size_t)256 << 10);
    f->at_body = NULL;
    http1_client_resume(f->conn);
    raw_send_bytes(f->loop, &f->worker, (struct slice){body + sent, bytes - sent});
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->ended);
    assert_int_equal(f->body_bytes, bytes);
    free(body);
}

static void bytes_read_with_the_head_wait_for_resume(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    f->at_head = pause_at_head;
    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhe");
    while (f->heads == 0)
        loop_turn(f->loop, RAW_TURN_MS);
    raw_send(f->loop, &f->worker, "ad");
    for (int i = 0; i < 20; ++i)
        loop_turn(f->loop, 0);
    assert_int_equal(f->bodies, 0);
    http1_client_resume(f->conn);
    assert_int_equal(f->bodies, 0); /* not inside the call */
    raw_turn_until(f->loop, is_over, f);
    assert_body(f, "head");
    assert_true(http1_client_reusable(f->conn));
}

/* ---- time ---- */

static void silence_before_the_first_byte_times_out(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    r.first_byte_timeout_ms = 20;
    start(f, &r);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->failed);
    assert_int_equal(f->error, ERR_TIMEOUT);
    assert_string_equal(f->failure.setting, "first_byte_timeout");
    assert_false(http1_client_reusable(f->conn));
}

static void silence_within_a_body_times_out(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    r.between_bytes_timeout_ms = 20;
    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhe");
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->failed);
    assert_int_equal(f->error, ERR_TIMEOUT);
    assert_string_equal(f->failure.setting, "between_bytes_timeout");
    assert_body(f, "he");
}

static void worker_that_does_not_take_the_request_times_out(void **state)
{
    struct fixture *f = *state;
    size_t bytes = (size_t)16 << 20;
    char *body = xcalloc(1, bytes);
    struct http1_client_request r = get_request(f);

    r.body = (struct slice){body, bytes};
    r.between_bytes_timeout_ms = 20;
    start(f, &r);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->failed);
    assert_int_equal(f->error, ERR_TIMEOUT);
    assert_string_equal(f->failure.setting, "between_bytes_timeout");
    assert_true(f->failure.written);
    free(body);
}

static void time_stops_while_paused(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    f->at_head = pause_at_head;
    r.between_bytes_timeout_ms = 10;
    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
    while (f->heads == 0)
        loop_turn(f->loop, RAW_TURN_MS);
    uint64_t until_us = clock_mono_us() + 50000;
    while (clock_mono_us() < until_us)
        loop_turn(f->loop, RAW_TURN_MS);
    assert_false(f->failed);
    raw_send(f->loop, &f->worker, "ok");
    http1_client_resume(f->conn);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->ended);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(request_is_written_and_a_response_with_a_length_read),
        TEST(a_connection_serves_one_request_after_another),
        TEST(head_and_body_of_one_segment_come_in_one_turn),
        TEST(responses_without_a_body_end_with_their_head),
        TEST(response_to_head_has_no_body_whatever_it_announces),
        TEST(chunks_are_decoded),
        TEST(chunks_cut_anywhere_are_decoded),
        TEST(many_small_chunks_come_in_few_parts),
        TEST(body_without_framing_ends_with_the_connection),
        TEST(interim_responses_are_dropped),
        TEST(large_bodies_stream_both_ways),
        TEST(early_response_is_passed_on_and_the_connection_not_reused),
        TEST(response_cut_short_is_an_error),
        TEST(chunked_response_cut_short_is_an_error),
        TEST(reset_within_a_body_that_ends_by_close_is_an_error),
        TEST(reset_that_the_upload_finds_is_not_the_end_of_a_body),
        TEST(end_that_precedes_a_reset_is_the_end_of_a_body),
        TEST(connection_closed_before_a_response_is_reported_with_how_far_it_got),
        TEST(bytes_after_the_end_forbid_reuse),
        TEST(both_a_coding_and_a_length_forbid_reuse),
        TEST(bytes_after_the_last_chunk_forbid_reuse),
        TEST(connection_close_forbids_reuse),
        TEST(garbage_is_rejected),
        TEST(a_hundred_interim_responses_pass_before_each_response),
        TEST(one_interim_response_more_is_rejected),
        TEST(endless_head_is_rejected),
        TEST(large_head_in_many_pieces_is_read),
        TEST(paused_response_is_not_read),
        TEST(bytes_read_with_the_head_wait_for_resume),
        TEST(silence_before_the_first_byte_times_out),
        TEST(silence_within_a_body_times_out),
        TEST(worker_that_does_not_take_the_request_times_out),
        TEST(time_stops_while_paused),
    };

    return cmocka_run_group_tests_name("http1_client", tests, NULL, NULL);
}
