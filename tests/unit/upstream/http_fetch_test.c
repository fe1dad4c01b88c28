/* SPDX-License-Identifier: Apache-2.0
 *
 * One request with a deadline; the server is played by hand.
 */
#include "common/upstream/http_fetch.h"

#include "tests/support/raw_peer.h"

/* More than any test takes. */
enum { PATIENCE_MS = 600 * 1000 };

struct fixture {
    struct loop *loop;
    int listener;
    struct addr addr;
    struct raw_peer server;
    struct http_fetch *fetch;
    struct http_fetch_request q;
    struct text body;
    unsigned heads, times_done;
    bool done, stop_at_head, stop_at_body, free_at_end, again_at_end, extend;
    enum err e;
};

/* The fetch is on its own, so that its end may free it. */
static struct fixture *the;

static void on_head(struct http_fetch *f, const struct http1_head *head)
{
    assert_int_equal(f->status, head->status);
    ++the->heads;
    if (the->stop_at_head)
        http_fetch_stop(f);
}

static void on_body(struct http_fetch *f, struct slice bytes)
{
    text_add(&the->body, bytes);
    if (the->extend)
        http_fetch_extend(f, 1);
    if (the->stop_at_body)
        http_fetch_stop(f);
}

static void start(struct fixture *f, const char *request)
{
    text_add(&f->q.bytes, slice_of(request));
    http_fetch_start(f->fetch, f->loop, &f->q);
    f->q.bytes = (struct text){0};
    assert_false(f->done); /* not inside the call */
    assert_non_null(f->fetch->loop);
}

static void on_done(struct http_fetch *f, enum err e)
{
    assert_null(f->loop);
    the->e = e;
    the->done = true;
    ++the->times_done;
    if (the->free_at_end) {
        free(f);
        the->fetch = NULL;
    } else if (the->again_at_end) {
        the->again_at_end = the->done = false;
        start(the, "GET /2 HTTP/1.1\r\nHost: w\r\n\r\n");
    }
}

static const struct http_fetch_events all_events = {
    .on_head = on_head, .on_body = on_body, .done = on_done};
static const struct http_fetch_events only_done = {.done = on_done};

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    raw_ignore_sigpipe();
    f->loop = loop_create(0);
    f->listener = raw_listen(&f->addr);
    f->fetch = xcalloc(1, sizeof(*f->fetch));
    f->q = (struct http_fetch_request){
        .addr = &f->addr, .timeout_ms = PATIENCE_MS, .events = &all_events};
    raw_init(&f->server);
    *state = the = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    if (f->fetch != NULL)
        http_fetch_stop(f->fetch);
    loop_turn(f->loop, 0);
    free(f->fetch);
    raw_fini(&f->server);
    close(f->listener);
    loop_destroy(f->loop);
    text_fini(&f->body);
    free(f);
    return 0;
}

static void get(struct fixture *f)
{
    start(f, "GET / HTTP/1.1\r\nHost: w\r\n\r\n");
    raw_accept(f->loop, f->listener, &f->server);
    raw_await(f->loop, &f->server, "\r\n\r\n");
}

static void await_done(struct fixture *f, enum err e)
{
    raw_turn_until_set(f->loop, &f->done);
    for (int i = 0; i < 3; ++i)
        loop_turn(f->loop, RAW_TURN_MS);
    assert_int_equal(f->times_done, 1);
    assert_int_equal(f->e, e);
}

static void turn_some(struct fixture *f)
{
    for (int i = 0; i < 20; ++i)
        loop_turn(f->loop, 0);
}

static void a_response_is_received_and_the_connection_closed(void **state)
{
    struct fixture *f = *state;

    get(f);
    assert_string_equal(text_cstr(&f->server.in), "GET / HTTP/1.1\r\nHost: w\r\n\r\n");
    raw_send(f->loop, &f->server,
             "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 203 Fine\r\nTransfer-Encoding: chunked\r\n\r\n"
             "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    await_done(f, ERR_OK);
    assert_int_equal(f->heads, 1);
    assert_int_equal(f->fetch->status, 203);
    assert_int_equal(f->fetch->body_bytes, 5);
    assert_string_equal(text_cstr(&f->body), "abcde");
    raw_await_end(f->loop, &f->server);
}

static void a_response_without_a_body_ends_with_its_head(void **state)
{
    struct fixture *f = *state;

    f->q.events = &only_done;
    get(f);
    raw_send(f->loop, &f->server, "HTTP/1.1 204 No Content\r\n\r\n");
    await_done(f, ERR_OK);
    assert_int_equal(f->fetch->status, 204);
}

static void the_head_may_suffice(void **state)
{
    struct fixture *f = *state;

    f->q.events = &only_done;
    f->q.head_only = true;
    get(f);
    raw_send(f->loop, &f->server, "HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\n");
    await_done(f, ERR_OK);
    assert_int_equal(f->fetch->status, 500);
    raw_await_end(f->loop, &f->server);
}

static void without_a_request_it_only_connects(void **state)
{
    struct fixture *f = *state;

    start(f, "");
    await_done(f, ERR_OK);
    assert_int_equal(f->fetch->status, 0);
    raw_accept(f->loop, f->listener, &f->server);
    raw_await_end(f->loop, &f->server);
}

static void a_refused_connection_has_its_cause(void **state)
{
    struct fixture *f = *state;
    struct addr a;
    int fd = raw_reserve(&a);

    f->q.addr = &a;
    start(f, "GET / HTTP/1.1\r\nHost: w\r\n\r\n");
    await_done(f, ERR_CONNECT_REFUSED);
    close(fd);
    assert_int_equal(f->fetch->connect_errno, ECONNREFUSED);
}

static void a_response_that_is_cut_short_is_an_error(void **state)
{
    struct fixture *f = *state;

    get(f);
    raw_send(f->loop, &f->server, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc");
    raw_close(&f->server);
    await_done(f, ERR_PEER_CLOSED);
    assert_int_equal(f->fetch->connect_errno, 0);
}

static void an_upgrade_is_an_error(void **state)
{
    struct fixture *f = *state;

    get(f);
    raw_send(f->loop, &f->server, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n");
    await_done(f, ERR_BAD_RESPONSE);
}

static void a_body_over_its_limit_ends_it(void **state)
{
    struct fixture *f = *state;

    f->q.body_max = 4;
    get(f);
    raw_send(f->loop, &f->server, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcde");
    await_done(f, ERR_TOO_LARGE);
    assert_int_equal(f->body.len, 0);
    assert_int_equal(f->fetch->status, 200);
}

static void one_deadline_covers_connecting_and_the_response(void **state)
{
    struct fixture *f = *state;

    f->q.timeout_ms = 20;
    start(f, "GET / HTTP/1.1\r\nHost: w\r\n\r\n");
    raw_turn_until_set(f->loop, &f->done);
    assert_true(f->e == ERR_TIMEOUT || f->e == ERR_CONNECT_TIMEOUT);
}

static void with_a_limit_for_connecting_the_other_one_begins_with_the_request(void **state)
{
    struct fixture *f = *state;

    f->q.connect_timeout_ms = PATIENCE_MS;
    f->q.timeout_ms = 1;
    start(f, "GET / HTTP/1.1\r\nHost: w\r\n\r\n");
    await_done(f, ERR_TIMEOUT);
}

static void the_deadline_can_be_set_again(void **state)
{
    struct fixture *f = *state;

    f->extend = true;
    get(f);
    raw_send(f->loop, &f->server, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc");
    await_done(f, ERR_TIMEOUT);
    assert_int_equal(f->body.len, 3);
}

static void a_fetch_may_be_stopped_at_any_time(void **state)
{
    struct fixture *f = *state;

    http_fetch_stop(f->fetch);
    start(f, "GET / HTTP/1.1\r\nHost: w\r\n\r\n");
    http_fetch_stop(f->fetch);
    raw_accept(f->loop, f->listener, &f->server);
    raw_await_end(f->loop, &f->server);
    raw_fini(&f->server);
    raw_init(&f->server);
    get(f);
    http_fetch_stop(f->fetch);
    raw_await_end(f->loop, &f->server);
    turn_some(f);
    assert_false(f->done);
}

static void a_fetch_may_be_stopped_within_its_events(void **state)
{
    struct fixture *f = *state;
    bool *flags[] = {&f->stop_at_head, &f->stop_at_body};

    for (size_t i = 0; i < ARRAY_LEN(flags); ++i) {
        *flags[i] = true;
        get(f);
        raw_send(f->loop, &f->server, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
        raw_await_end(f->loop, &f->server);
        turn_some(f);
        assert_false(f->done);
        assert_int_equal(f->heads, i + 1);
        assert_int_equal(f->body.len, 3 * i);
        *flags[i] = false;
        raw_fini(&f->server);
        raw_init(&f->server);
    }
}

static void the_end_of_a_fetch_may_free_it(void **state)
{
    struct fixture *f = *state;

    f->free_at_end = true;
    get(f);
    raw_send(f->loop, &f->server, "HTTP/1.1 204 No Content\r\n\r\n");
    await_done(f, ERR_OK);
}

static void the_end_of_a_fetch_may_start_it_again(void **state)
{
    struct fixture *f = *state;

    f->again_at_end = true;
    get(f);
    raw_send(f->loop, &f->server, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
    raw_await_end(f->loop, &f->server);
    raw_fini(&f->server);
    raw_init(&f->server);
    raw_accept(f->loop, f->listener, &f->server);
    raw_await(f->loop, &f->server, "\r\n\r\n");
    raw_send(f->loop, &f->server, "HTTP/1.1 204 No Content\r\n\r\n");
    raw_turn_until_set(f->loop, &f->done);
    assert_int_equal(f->times_done, 2);
    assert_int_equal(f->fetch->status, 204);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_response_is_received_and_the_connection_closed),
        TEST(a_response_without_a_body_ends_with_its_head),
        TEST(the_head_may_suffice),
        TEST(without_a_request_it_only_connects),
        TEST(a_refused_connection_has_its_cause),
        TEST(a_response_that_is_cut_short_is_an_error),
        TEST(an_upgrade_is_an_error),
        TEST(a_body_over_its_limit_ends_it),
        TEST(one_deadline_covers_connecting_and_the_response),
        TEST(with_a_limit_for_connecting_the_other_one_begins_with_the_request),
        TEST(the_deadline_can_be_set_again),
        TEST(a_fetch_may_be_stopped_at_any_time),
        TEST(a_fetch_may_be_stopped_within_its_events),
        TEST(the_end_of_a_fetch_may_free_it),
        TEST(the_end_of_a_fetch_may_start_it_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
