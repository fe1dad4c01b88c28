/* SPDX-License-Identifier: Apache-2.0
 *
 * Client connections of the HTTP server: their time, their number, their end, and tunnels.
 */
#include "common/http/http_server_internal.h"
#include "tests/unit/http/http_server_fixture.h"
#include "tests/unit/http/tunnel_fixture.h"

#include <netinet/tcp.h>

#include <stdio.h>

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define UPGRADE "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

/* ---- time ---- */

static void head_that_does_not_come_is_cut_off(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    o.header_timeout_ms = 50;
    fixture_restart(f, &o);
    raw_connect(&f->addr, &f->client);
    raw_await_end(f->loop, &f->client);
    assert_int_equal(fixture_counts(f).header_timeouts, 1);
}

struct until {
    struct loop *loop;
    uint64_t ms;
};

static bool time_is_over(void *context)
{
    struct until *u = context;

    return loop_now_ms(u->loop) >= u->ms;
}

static void pass_time(struct fixture *f, uint64_t ms)
{
    raw_turn_until(f->loop, time_is_over,
                   &(struct until){.loop = f->loop, .ms = loop_now_ms(f->loop) + ms});
}

static void idle_connection_is_served_after_a_pause_and_ended_when_its_time_is_over(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    o.header_timeout_ms = 40; /* so that sweeps are frequent */
    fixture_restart(f, &o);
    f->response = response_hello;
    fixture_send(f, GET);
    fixture_await_gone(f, 1);
    pass_time(f, 300);
    fixture_send(f, GET);
    fixture_await_gone(f, 2);
    pass_time(f, 300);
    assert_int_equal(http_server_connections(f->server), 1);
    o.keep_alive_timeout_ms = 60;
    http_server_set(f->server, &o);
    raw_await_end(f->loop, &f->client);
    fixture_await_connections(f, 0);
}

static void idle_connection_is_ended_by_a_drain(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    o.header_timeout_ms = 40;
    fixture_restart(f, &o);
    f->response = response_hello;
    fixture_send(f, GET);
    fixture_await_gone(f, 1);
    pass_time(f, 300);
    http_server_shut_idle(f->server);
    raw_await_end(f->loop, &f->client);
    fixture_await_connections(f, 0);
}

static void head_that_trickles_is_cut_off(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    o.header_timeout_ms = 60;
    o.max.head_bytes = 0; /* or a fast machine gets over it */
    fixture_restart(f, &o);
    fixture_send(f, "GET / HTTP/1.1\r\n");
    /* One byte each turn, which must not buy more time. */
    while (!f->client.ended && !f->client.reset) {
        (void)send(f->client.fd, "X", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        loop_turn(f->loop, RAW_TURN_MS);
        raw_read(&f->client, SIZE_MAX);
    }
    assert_int_equal(fixture_counts(f).header_timeouts, 1);
    assert_int_equal(f->requests, 0);
}

static void body_that_does_not_come_is_cut_off(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    o.body_timeout_ms = 50;
    fixture_restart(f, &o);
    fixture_send(f, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc");
    raw_await_end(f->loop, &f->client);
    assert_int_equal(fixture_counts(f).body_timeouts, 1);
    assert_int_equal(f->requests, 0);
}

static void idle_connection_is_closed(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    o.keep_alive_timeout_ms = 50;
    fixture_restart(f, &o);
    f->response = response_hello;
    fixture_send(f, GET);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "hello"));
    assert_true(f->client.ended);
    assert_int_equal(fixture_counts(f).header_timeouts, 0);
}

static void connection_with_a_request_is_not_idle(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    o.keep_alive_timeout_ms = o.header_timeout_ms = o.body_timeout_ms = 20;
    fixture_restart(f, &o);
    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    uint64_t until_us = clock_mono_us() + 100000;
    while (clock_mono_us() < until_us)
        loop_turn(f->loop, RAW_TURN_MS);
    response_hello(f, f->call);
    fixture_await(f, "hello");
}

static void fill_until_stuck(struct fixture *f)
{
    static char part[65536];

    while (f->call->response.queued_bytes <= 8 * sizeof(part)) {
        http_response_send(&f->call->response, body_piece_copy((struct slice){part, sizeof(part)}),
                           false);
        loop_turn(f->loop, 0);
    }
}

static void client_that_takes_nothing_is_cut_off(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    o.send_timeout_ms = 50;
    fixture_restart(f, &o);
    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, UINT64_MAX);
    fill_until_stuck(f);
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
    assert_int_equal(fixture_counts(f).send_timeouts, 1);
    fixture_await_connections(f, 0);
}

static void progress_is_checked_four_times_in_send_timeout(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    o.send_timeout_ms = 3600000;
    fixture_restart(f, &o);
    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, UINT64_MAX);
    fill_until_stuck(f);
    const struct http_response *r = &f->call->response;
    assert_true(timer_running(&r->send_timer));
    assert_true(r->send_timer.due_ms <= loop_now_ms(f->loop) + o.send_timeout_ms / 4 + 2);
}

static void client_that_takes_a_little_now_and_then_is_not_cut_off(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    o.send_timeout_ms = 3000;
    fixture_restart(f, &o);
    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, UINT64_MAX);
    fill_until_stuck(f);
    uint64_t until_us = clock_mono_us() + 4500000;
    while (clock_mono_us() < until_us) {
        raw_read(&f->client, 256 * 1024);
        text_clear(&f->client.in);
        if (f->call->response.queued_bytes < 8 * 65536)
            fill_until_stuck(f);
        loop_turn(f->loop, RAW_TURN_MS);
    }
    assert_int_equal(f->gone, 0);
    assert_int_equal(fixture_counts(f).send_timeouts, 0);
}

/* ---- number ---- */

static void connections_over_the_limit_wait_until_one_ends(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);
    struct raw_peer first;

    o.max_connections = 1;
    fixture_restart(f, &o);
    f->response = response_hello;
    raw_connect(&f->addr, &first);
    fixture_await_connections(f, 1);
    fixture_send(f, GET);
    fixture_turns(f, 20);
    assert_int_equal(f->requests, 0);
    assert_int_equal(http_server_connections(f->server), 1);
    assert_int_equal(fixture_counts(f).accept_pauses, 1);
    raw_fini(&first);
    fixture_await(f, "hello");
}

static void accepting_pauses_while_there_are_no_descriptors(void **state)
{
    struct fixture *f = *state;

    f->response = response_hello;
    fixture_send(f, GET); /* connected, as the backlog takes it */
    struct rlimit before = fixture_take_descriptors();
    while (fixture_counts(f).accept_pauses == 0)
        loop_turn(f->loop, RAW_TURN_MS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(f->requests, 0);
    fixture_await(f, "hello");
}

static void unix_sockets_are_served(void **state)
{
    struct fixture *f = *state;
    struct addr_listen_options lo = {0};
    struct http_listen_options o = {.tag = &o};
    char name[64];
    struct addr a;
    int fd = -1;

    f->response = response_hello;
    snprintf(name, sizeof(name), "unix:@resumelb-http-test-%d", (int)getpid());
    assert_int_equal(addr_parse(slice_of(name), &a), ERR_OK);
    assert_int_equal(addr_listen(&a, &lo, &fd), ERR_OK);
    struct http_listener *l = http_server_listen(f->server, fd, &o);
    raw_connect(&a, &f->client);
    fixture_send(f, GET);
    fixture_await(f, "hello");
    assert_int_equal(f->peer.sa.sa_family, AF_UNIX);
    assert_ptr_equal(f->tag, &o);
    raw_close(&f->client);
    fixture_await_connections(f, 0);
    http_listener_close(l);
}

static void connection_outlives_its_listener(void **state)
{
    struct fixture *f = *state;

    f->response = response_hello;
    raw_connect(&f->addr, &f->client);
    fixture_await_connections(f, 1);
    http_listener_close(f->listener);
    fixture_send(f, GET);
    fixture_await(f, "hello");
    assert_ptr_equal(f->tag, f);
}

/* ---- ends ---- */

static void on_drain_done(void *context)
{
    struct fixture *f = context;

    assert_false(f->drain_done);
    f->drain_done = true;
}

static void drain_of_an_empty_server_is_done_later(void **state)
{
    struct fixture *f = *state;

    http_server_drain(f->server, on_drain_done, f);
    assert_false(f->drain_done);
    raw_turn_until_set(f->loop, &f->drain_done);
}

static void drain_closes_idle_connections_and_waits_for_busy_ones(void **state)
{
    struct fixture *f = *state;
    struct raw_peer idle;
    struct raw_peer fresh;

    f->response = response_hello;
    fixture_send(f, GET);
    fixture_await(f, "hello");
    idle = f->client;
    raw_init(&f->client);
    raw_connect(&f->addr, &fresh);
    f->response = NULL;
    fixture_send(f, GET);
    fixture_await_requests(f, 2);
    http_server_drain(f->server, on_drain_done, f);
    raw_await_end(f->loop, &idle);
    raw_await_end(f->loop, &fresh);
    fixture_turns(f, 5);
    assert_false(f->drain_done);
    response_hello(f, f->call);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "Connection: close\r\n"));
    assert_true(raw_has(&f->client, "hello"));
    raw_turn_until_set(f->loop, &f->drain_done);
    assert_true(f->gone_done);
    raw_fini(&idle);
    raw_fini(&fresh);
}

static void request_that_races_with_the_drain_gets_a_response(void **state)
{
    struct fixture *f = *state;

    f->response = response_hello;
    fixture_send(f, GET);
    fixture_await(f, "hello");
    text_clear(&f->client.in);
    fixture_await_gone(f, 1);
    fixture_send(f, GET); /* in the socket, not yet seen by the loop */
    http_server_drain(f->server, on_drain_done, f);
    raw_turn_until_set(f->loop, &f->drain_done);
    raw_await_end(f->loop, &f->client);
    assert_int_equal(f->requests, 2);
    assert_true(raw_has(&f->client, "hello"));
}

static void response_that_has_begun_before_the_drain_is_completed(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    start_response(f->call, 200, UINT64_MAX);
    http_response_send(&f->call->response, body_of("begin"), false);
    fixture_await(f, "begin");
    http_server_drain(f->server, on_drain_done, f);
    fixture_turns(f, 5);
    http_response_send(&f->call->response, body_of("end"), true);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "3\r\nend\r\n0\r\n\r\n"));
    assert_true(f->gone_done);
    raw_turn_until_set(f->loop, &f->drain_done);
}

static void cut_ends_everything(void **state)
{
    struct fixture *f = *state;
    struct raw_peer waiting;
    struct raw_peer streaming;
    struct raw_peer idle;

    raw_connect(&f->addr, &idle);
    raw_connect(&f->addr, &waiting);
    raw_send(f->loop, &waiting, GET);
    fixture_await_requests(f, 1);
    raw_connect(&f->addr, &streaming);
    raw_send(f->loop, &streaming, GET);
    fixture_await_requests(f, 2);
    start_response(f->call, 200, UINT64_MAX);
    http_response_send(&f->call->response, body_of("begin"), false);
    raw_await(f->loop, &streaming, "begin");
    fixture_send(f, GET);
    fixture_await_requests(f, 3);
    start_response(f->call, 200, UINT64_MAX);
    fill_until_stuck(f);
    http_server_cut(f->server);
    fixture_await_gone(f, 3);
    fixture_await_connections(f, 0);
    raw_await_end(f->loop, &streaming);
    assert_false(raw_has(&streaming, "\r\n0\r\n"));
    raw_fini(&idle);
    raw_fini(&waiting);
    raw_fini(&streaming);
}

static void tunnel_passes_early_and_later_bytes_both_ways(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;

    fixture_send(f, UPGRADE "early up");
    open_tunnel(f, &w, "early down", 0);
    fixture_await(f, "\r\n\r\nearly down");
    assert_true(raw_has(&f->client, "HTTP/1.1 101 Switching Protocols\r\n"));
    assert_true(raw_has(&f->client, "Connection: upgrade\r\n"));
    raw_await(f->loop, &w, "early up");
    assert_int_equal(f->gone, 1);
    assert_true(f->gone_done);
    assert_int_equal(f->server->ntunnels, 1);
    raw_send(f->loop, &w, "more down");
    fixture_await(f, "more down");
    fixture_send(f, "more up");
    raw_await(f->loop, &w, "more up");
    raw_close(&f->client);
    raw_await_end(f->loop, &w);
    raw_close(&w);
    raw_turn_until_set(f->loop, &f->tunnel_ended);
    assert_int_equal(f->up_bytes, strlen("early upmore up"));
    assert_int_equal(f->down_bytes, strlen("early downmore down"));
    raw_turn_until(f->loop, fixture_is_empty, f);
    raw_fini(&w);
}

static void tunnel_passes_on_a_half_close(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;

    fixture_send(f, UPGRADE);
    open_tunnel(f, &w, "", 0);
    fixture_send(f, "last up");
    assert_int_equal(shutdown(f->client.fd, SHUT_WR), 0);
    raw_await_end(f->loop, &w);
    assert_true(raw_has(&w, "last up"));
    raw_send(f->loop, &w, "still down");
    fixture_await(f, "still down");
    raw_close(&w);
    raw_await_end(f->loop, &f->client);
    assert_true(f->client.ended);
    raw_turn_until_set(f->loop, &f->tunnel_ended);
    raw_fini(&w);
}

static void tunnel_holds_back_a_sender_whose_receiver_does_not_read(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;
    static char part[65536];
    size_t sent = 0;
    int stuck = 0;

    fixture_send(f, UPGRADE);
    open_tunnel(f, &w, "", 0);
    fixture_await(f, "\r\n\r\n");
    while (stuck < 50) {
        ssize_t n = send(w.fd, part, sizeof(part), MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        stuck = n > 0 ? 0 : stuck + 1;
        loop_turn(f->loop, 0);
    }
    text_clear(&f->client.in);
    raw_await_bytes(f->loop, &f->client, sent);
    raw_fini(&w);
}

static void tunnel_that_carries_nothing_ends(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;

    fixture_send(f, UPGRADE);
    open_tunnel(f, &w, "", 30);
    raw_turn_until_set(f->loop, &f->tunnel_ended);
    raw_await_end(f->loop, &w);
    raw_await_end(f->loop, &f->client);
    raw_fini(&w);
}

static void tunnel_passes_on_a_half_close_of_the_worker(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;

    fixture_send(f, UPGRADE);
    open_tunnel(f, &w, "last down", 0);
    assert_int_equal(shutdown(w.fd, SHUT_WR), 0);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "\r\n\r\nlast down"));
    fixture_send(f, "still up");
    raw_await(f->loop, &w, "still up");
    raw_close(&f->client);
    raw_await_end(f->loop, &w);
    raw_turn_until_set(f->loop, &f->tunnel_ended);
    raw_turn_until(f->loop, fixture_is_empty, f);
    raw_fini(&w);
}

static void tunnel_ends_when_the_client_resets(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;

    fixture_send(f, UPGRADE);
    open_tunnel(f, &w, "", 0);
    fixture_await(f, "\r\n\r\n");
    raw_reset(&f->client);
    raw_await_end(f->loop, &w);
    raw_turn_until_set(f->loop, &f->tunnel_ended);
    raw_turn_until(f->loop, fixture_is_empty, f);
    raw_fini(&w);
}

static void bytes_sent_before_a_worker_closed_are_passed_on_though_it_accepts_no_more(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;
    static char last[100000]; /* more than one read takes */

    fixture_send(f, UPGRADE);
    open_tunnel(f, &w, "", 0);
    fixture_await(f, "\r\n\r\n");
    text_clear(&f->client.in);
    /* Both in one turn. */
    assert_int_equal(send(w.fd, last, sizeof(last), MSG_NOSIGNAL), sizeof(last));
    raw_close(&w);
    assert_int_equal(send(f->client.fd, "up", 2, MSG_NOSIGNAL), 2);
    raw_await_bytes(f->loop, &f->client, sizeof(last));
    raw_await_end(f->loop, &f->client);
    raw_turn_until_set(f->loop, &f->tunnel_ended);
    raw_turn_until(f->loop, fixture_is_empty, f);
    raw_fini(&w);
}

/* Each side has closed its half, or is held back: a reset is all that can still come. */
static void reset_is_noticed_where_nothing_is_read(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;

    fixture_send(f, UPGRADE);
    open_tunnel(f, &w, "", 0);
    fixture_await(f, "\r\n\r\n");
    assert_int_equal(shutdown(f->client.fd, SHUT_WR), 0);
    raw_await_end(f->loop, &w);
    fixture_turns(f, 5);
    assert_false(f->tunnel_ended);
    raw_reset(&f->client);
    raw_turn_until_set(f->loop, &f->tunnel_ended);
    raw_turn_until(f->loop, fixture_is_empty, f);
    raw_fini(&w);
}

/* What follows an upgrade that has a body is the tunnel's. */
static void early_bytes_behind_a_body_reach_the_worker(void **state)
{
    static const char *const bodies[] = {
        "Content-Length: 3\r\n\r\nabcearly",
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nearly",
    };
    struct fixture *f = *state;
    struct raw_peer w;

    for (unsigned i = 0; i < ARRAY_LEN(bodies); ++i) {
        fixture_send(f, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
                        "Upgrade: websocket\r\n");
        fixture_send(f, bodies[i]);
        fixture_await_requests(f, i + 1);
        open_tunnel(f, &w, "", 0);
        raw_await(f->loop, &w, "early");
        assert_string_equal(text_cstr(&w.in), "early");
        raw_fini(&w);
        fixture_forget_client(f);
        raw_turn_until_set(f->loop, &f->tunnel_ended);
        f->tunnel_ended = false;
    }
}

static void drain_ends_tunnels(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;

    fixture_send(f, UPGRADE);
    open_tunnel(f, &w, "", 0);
    fixture_await(f, "\r\n\r\n");
    http_server_drain(f->server, on_drain_done, f);
    raw_turn_until_set(f->loop, &f->drain_done);
    assert_true(f->tunnel_ended);
    raw_await_end(f->loop, &w);
    raw_fini(&w);
}

static void drain_ends_a_tunnel_that_is_just_starting(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;

    fixture_send(f, UPGRADE);
    open_tunnel(f, &w, "", 0);
    http_server_drain(f->server, on_drain_done, f);
    raw_turn_until_set(f->loop, &f->drain_done);
    assert_true(f->tunnel_ended);
    raw_await_end(f->loop, &f->client);
    raw_fini(&w);
}

static void tunnel_for_a_client_that_has_left_ends_at_once(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;

    fixture_send(f, UPGRADE);
    fixture_await_requests(f, 1);
    raw_reset(&f->client);
    open_tunnel(f, &w, "", 0);
    raw_turn_until_set(f->loop, &f->tunnel_ended);
    raw_await_end(f->loop, &w);
    assert_int_equal(f->down_bytes, 0);
    raw_fini(&w);
}

static void note_user_timeout(struct fixture *f, struct call *call)
{
    int fd = call->response.conn->transport.fd;
    unsigned ms = 0;
    socklen_t len = sizeof(ms);

    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &len), 0);
    f->up_bytes = ms;
    response_hello(f, call);
}

static void vanished_clients_are_given_up_but_not_before_send_timeout(void **state)
{
    static const struct {
        uint64_t send_timeout_ms, user_timeout_ms;
    } cases[] = {{1000, 120000}, {60000, 120000}, {90000, 180000}, {0, 24 * 3600 * 1000}};
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    f->response = note_user_timeout;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        o.send_timeout_ms = cases[i].send_timeout_ms;
        http_server_set(f->server, &o);
        fixture_send(f, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        fixture_await(f, "hello");
        assert_int_equal(f->up_bytes, cases[i].user_timeout_ms);
        fixture_forget_client(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(vanished_clients_are_given_up_but_not_before_send_timeout),
        TEST(head_that_does_not_come_is_cut_off),
        TEST(head_that_trickles_is_cut_off),
        TEST(idle_connection_is_served_after_a_pause_and_ended_when_its_time_is_over),
        TEST(idle_connection_is_ended_by_a_drain),
        TEST(body_that_does_not_come_is_cut_off),
        TEST(idle_connection_is_closed),
        TEST(connection_with_a_request_is_not_idle),
        TEST(client_that_takes_nothing_is_cut_off),
        TEST(progress_is_checked_four_times_in_send_timeout),
        TEST(client_that_takes_a_little_now_and_then_is_not_cut_off),
        TEST(connections_over_the_limit_wait_until_one_ends),
        TEST(accepting_pauses_while_there_are_no_descriptors),
        TEST(unix_sockets_are_served),
        TEST(connection_outlives_its_listener),
        TEST(drain_of_an_empty_server_is_done_later),
        TEST(drain_closes_idle_connections_and_waits_for_busy_ones),
        TEST(request_that_races_with_the_drain_gets_a_response),
        TEST(response_that_has_begun_before_the_drain_is_completed),
        TEST(cut_ends_everything),
        TEST(tunnel_passes_early_and_later_bytes_both_ways),
        TEST(tunnel_passes_on_a_half_close),
        TEST(tunnel_holds_back_a_sender_whose_receiver_does_not_read),
        TEST(tunnel_that_carries_nothing_ends),
        TEST(tunnel_passes_on_a_half_close_of_the_worker),
        TEST(tunnel_ends_when_the_client_resets),
        TEST(bytes_sent_before_a_worker_closed_are_passed_on_though_it_accepts_no_more),
        TEST(reset_is_noticed_where_nothing_is_read),
        TEST(early_bytes_behind_a_body_reach_the_worker),
        TEST(drain_ends_tunnels),
        TEST(drain_ends_a_tunnel_that_is_just_starting),
        TEST(tunnel_for_a_client_that_has_left_ends_at_once),
    };

    return cmocka_run_group_tests_name("http_conn", tests, NULL, NULL);
}
