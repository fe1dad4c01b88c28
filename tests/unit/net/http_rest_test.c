/* SPDX-License-Identifier: Apache-2.0
 *
 * Idle client connections that libh2o is taken off, and that come back.
 */
#include "tests/unit/net/http_server_fixture.h"

#include <sys/resource.h>

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define HELLO "hello"

static struct http_server_counts counts(struct fixture *f)
{
    struct http_server_counts c;

    http_server_read_counts(f->server, &c);
    return c;
}

static struct http_server_options quick_rest(struct fixture *f)
{
    struct http_server_options o = fixture_options(f);

    o.rest_ms = 1;
    o.header_timeout_ms = 80; /* so that sweeps are frequent */
    return o;
}

static int setup(void **state)
{
    int failed = fixture_setup(state);
    struct fixture *f = *state;

    assert_int_equal(failed, 0);
    struct http_server_options o = quick_rest(f);
    fixture_restart(f, &o);
    f->answer = answer_hello;
    return 0;
}

static bool has_rested(void *context)
{
    const struct fixture_wait *w = context;

    return counts(w->fixture).rests >= w->count;
}

static void await_rests(struct fixture *f, unsigned count)
{
    raw_turn_until(f->loop, has_rested, &(struct fixture_wait){.fixture = f, .count = count});
}

static bool has_connections(void *context)
{
    const struct fixture_wait *w = context;

    return http_server_connections(w->fixture->server) == w->count;
}

static void await_connections(struct fixture *f, unsigned count)
{
    raw_turn_until(f->loop, has_connections, &(struct fixture_wait){.fixture = f, .count = count});
}

struct until {
    struct loop *loop;
    uint64_t ms;
};

static bool time_is_over(void *context)
{
    const struct until *u = context;

    return loop_now_ms(u->loop) >= u->ms;
}

static void pass_time(struct fixture *f, uint64_t ms)
{
    raw_turn_until(f->loop, time_is_over,
                   &(struct until){.loop = f->loop, .ms = loop_now_ms(f->loop) + ms});
}

/* One request, and then the connection rests. */
static void rest_once(struct fixture *f)
{
    fixture_send(f, GET);
    fixture_await_gone(f, 1);
    await_rests(f, 1);
    assert_int_equal(http_server_connections(f->server), 1);
}

/* Without a turn of the loop: what is sent lies there when the next begins. */
static void send_unseen(struct fixture *f, const char *text)
{
    assert_int_equal(send(f->client.fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* ---- coming back ---- */

static void connection_that_rests_is_served_again_and_again(void **state)
{
    struct fixture *f = *state;

    rest_once(f);
    struct addr peer = f->peer;
    for (unsigned i = 2; i < 6; ++i) {
        fixture_send(f, GET);
        fixture_await_gone(f, i);
        assert_true(f->gone_done);
        assert_memory_equal(&f->peer, &peer, sizeof(peer));
        assert_ptr_equal(f->tag, f);
        await_rests(f, i);
    }
    assert_int_equal(http_server_connections(f->server), 1);
    assert_int_equal(counts(f).accepted, 1);
    assert_int_equal(counts(f).abandoned, 0);
}

static void pipelined_requests_wake_it(void **state)
{
    struct fixture *f = *state;

    rest_once(f);
    fixture_send(f, GET "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
                        "GET /last HTTP/1.1\r\nHos");
    fixture_await_gone(f, 3);
    assert_string_equal(text_cstr(&f->body), "abc");
    fixture_send(f, "t: a\r\n\r\n");
    fixture_await_gone(f, 4);
    assert_string_equal(text_cstr(&f->path), "/last");
    await_rests(f, 2);
    assert_int_equal(counts(f).rests, 2);
}

static void head_that_comes_byte_by_byte_wakes_it(void **state)
{
    struct fixture *f = *state;

    rest_once(f);
    for (const char *p = GET; *p != '\0'; ++p) {
        send_unseen(f, (char[]){*p, '\0'});
        fixture_turns(f, 2);
    }
    fixture_await_gone(f, 2);
}

static void request_that_comes_at_that_very_moment_is_answered(void **state)
{
    enum { ROUNDS = 120, STEPS = 30 };
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_gone(f, 1);
    for (unsigned i = 0; i < ROUNDS; ++i) {
        pass_time(f, i % STEPS);
        text_clear(&f->client.in);
        send_unseen(f, GET);
        fixture_await(f, HELLO);
        fixture_await_gone(f, i + 2);
    }
    assert_true(counts(f).rests > 0);
    assert_int_equal(counts(f).accepted, 1);
}

static void body_and_its_head_apart_reach_the_handler(void **state)
{
    struct fixture *f = *state;

    rest_once(f);
    fixture_send(f, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    pass_time(f, 60);
    assert_int_equal(counts(f).rests, 1);
    fixture_send(f, "def");
    fixture_await_gone(f, 2);
    assert_string_equal(text_cstr(&f->body), "abcdef");
}

/* ---- not resting ---- */

static void connection_that_is_not_idle_does_not_rest(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = quick_rest(f);

    o.header_timeout_ms = 60000;
    o.body_timeout_ms = 80;
    fixture_restart(f, &o);
    fixture_send(f, GET "GET /");
    fixture_await_gone(f, 1);
    pass_time(f, 100); /* half a head */
    assert_int_equal(counts(f).rests, 0);
    f->answer = NULL;
    fixture_send(f, " HTTP/1.1\r\nHost: a\r\n\r\n");
    fixture_await_requests(f, 2);
    pass_time(f, 100); /* a request */
    assert_int_equal(counts(f).rests, 0);
    answer_hello(f, f->call);
    fixture_await_gone(f, 2);
    await_rests(f, 1);
}

static void without_descriptors_it_stays_as_it_is(void **state)
{
    struct fixture *f = *state;
    struct rlimit before;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    fixture_send(f, GET);
    fixture_await_gone(f, 1);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    pass_time(f, 100);
    uint64_t rests = counts(f).rests;
    fixture_send(f, GET);
    fixture_await_gone(f, 2);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    await_rests(f, (unsigned)rests + 1);
}

/* ---- ends ---- */

static void client_that_closes_meanwhile_is_noticed(void **state)
{
    struct fixture *f = *state;

    rest_once(f);
    raw_close(&f->client);
    await_connections(f, 0);
}

static void client_that_resets_meanwhile_is_noticed(void **state)
{
    struct fixture *f = *state;

    rest_once(f);
    raw_reset(&f->client);
    await_connections(f, 0);
}

static void half_a_head_after_a_rest_is_refused_in_time(void **state)
{
    struct fixture *f = *state;

    rest_once(f);
    fixture_send(f, "GET / HTTP/1.1\r\nHo");
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "HTTP/1.1 408 "));
    assert_int_equal(counts(f).header_timeouts, 1);
    raw_close(&f->client); /* which the server awaits for a while (http_tap_test.c) */
    await_connections(f, 0);
}

static void it_is_ended_when_its_time_is_over(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = quick_rest(f);

    o.keep_alive_timeout_ms = 200;
    fixture_restart(f, &o);
    rest_once(f);
    raw_await_end(f->loop, &f->client);
    assert_true(f->client.ended);
    await_connections(f, 0);
    assert_int_equal(f->requests, 1);
}

static void new_limits_hold_for_those_that_rest(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = quick_rest(f);

    rest_once(f);
    o.keep_alive_timeout_ms = 40;
    http_server_set(f->server, &o);
    raw_await_end(f->loop, &f->client);
    await_connections(f, 0);
}

static void drain_ends_it(void **state)
{
    struct fixture *f = *state;

    rest_once(f);
    http_server_shut_idle(f->server);
    raw_await_end(f->loop, &f->client);
    await_connections(f, 0);
}

static void set_flag(void *context)
{
    struct fixture *f = context;

    f->drain_done = true;
}

static void one_more_answer_of_a_server_that_retires_says_close(void **state)
{
    struct fixture *f = *state;

    rest_once(f);
    http_server_retire(f->server, set_flag, f);
    text_clear(&f->client.in);
    fixture_send(f, GET);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "Connection: close\r\n"));
    assert_true(raw_has(&f->client, HELLO));
    raw_turn_until_set(f->loop, &f->drain_done);
}

struct retiring {
    struct loop_message message;
    struct fixture *fixture;
};

static void run_retire(struct loop_message *m)
{
    struct fixture *f = container_of(m, struct retiring, message)->fixture;

    http_server_retire(f->server, set_flag, f);
}

static struct retiring retiring = {.message.run = run_retire};

/* The server is told to retire in the turn in which the answer is written. */
static void answer_and_retire(struct fixture *f, struct call *call)
{
    answer_hello(f, call);
    retiring.fixture = f;
    loop_post(f->loop, &retiring.message);
    f->answer = answer_hello;
}

static void who_was_told_to_stay_just_before_the_server_retired_is_answered_once_more(void **state)
{
    struct fixture *f = *state;

    f->answer = answer_and_retire;
    fixture_send(f, GET);
    fixture_await_gone(f, 1);
    raw_await(f->loop, &f->client, HELLO);
    assert_false(raw_has(&f->client, "Connection: close"));
    pass_time(f, 10);
    assert_int_equal(http_server_connections(f->server), 1);
    text_clear(&f->client.in);
    fixture_send(f, GET);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, HELLO));
    assert_true(raw_has(&f->client, "Connection: close\r\n"));
    raw_turn_until_set(f->loop, &f->drain_done);
}

static void request_that_races_with_the_drain_is_answered(void **state)
{
    struct fixture *f = *state;

    rest_once(f);
    text_clear(&f->client.in);
    send_unseen(f, GET);
    http_server_drain(f->server, set_flag, f);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, HELLO));
    raw_turn_until_set(f->loop, &f->drain_done);
}

static void cut_ends_it(void **state)
{
    struct fixture *f = *state;

    rest_once(f);
    http_server_cut(f->server);
    raw_await_end(f->loop, &f->client);
    await_connections(f, 0);
}

/* ---- many ---- */

static void many_rest_and_are_all_served_again(void **state)
{
    enum { MANY = 300 };
    struct fixture *f = *state;
    struct raw_peer peers[MANY];

    for (unsigned i = 0; i < MANY; ++i) {
        raw_connect(&f->addr, &peers[i]);
        raw_send(f->loop, &peers[i], GET);
        fixture_turns(f, 2);
    }
    fixture_await_gone(f, MANY);
    await_rests(f, MANY);
    for (unsigned i = 0; i < MANY; i += 2)
        raw_send(f->loop, &peers[i], GET);
    fixture_await_gone(f, MANY + MANY / 2);
    await_rests(f, MANY + MANY / 2);
    assert_int_equal(http_server_connections(f->server), MANY);
    for (unsigned i = 0; i < MANY; ++i)
        raw_fini(&peers[i]);
    await_connections(f, 0);
}

#define REST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REST(connection_that_rests_is_served_again_and_again),
        REST(pipelined_requests_wake_it),
        REST(head_that_comes_byte_by_byte_wakes_it),
        REST(request_that_comes_at_that_very_moment_is_answered),
        REST(body_and_its_head_apart_reach_the_handler),
        REST(connection_that_is_not_idle_does_not_rest),
        REST(without_descriptors_it_stays_as_it_is),
        REST(client_that_closes_meanwhile_is_noticed),
        REST(client_that_resets_meanwhile_is_noticed),
        REST(half_a_head_after_a_rest_is_refused_in_time),
        REST(it_is_ended_when_its_time_is_over),
        REST(new_limits_hold_for_those_that_rest),
        REST(drain_ends_it),
        REST(one_more_answer_of_a_server_that_retires_says_close),
        REST(who_was_told_to_stay_just_before_the_server_retired_is_answered_once_more),
        REST(request_that_races_with_the_drain_is_answered),
        REST(cut_ends_it),
        REST(many_rest_and_are_all_served_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
