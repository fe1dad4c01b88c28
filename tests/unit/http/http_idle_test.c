/* SPDX-License-Identifier: Apache-2.0
 *
 * Idle client connections: they hold no memory but their own, and are served again, or closed.
 */
#include "common/http/http_server_internal.h"
#include "tests/unit/http/http_server_fixture.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define HELLO "hello"

static struct http_server_options quick_sweep(struct fixture *f)
{
    struct http_server_options o = fixture_options(f);

    o.header_timeout_ms = 80; /* so that sweeps are frequent */
    return o;
}

static int setup(void **state)
{
    int failed = fixture_setup(state);
    struct fixture *f = *state;

    assert_int_equal(failed, 0);
    struct http_server_options o = quick_sweep(f);
    fixture_restart(f, &o);
    f->response = response_hello;
    return 0;
}

static size_t count_idle(const struct http_server *s)
{
    struct list *it;
    size_t n = 0;

    list_for_each (it, &s->idle) {
        const struct http_conn *c = list_entry(it, struct http_conn, node);

        assert_int_equal(c->phase, PHASE_IDLE);
        assert_null(c->http1); /* and so neither a buffer nor a request */
        assert_true(list_empty(&c->responses));
        ++n;
    }
    return n;
}

static bool has_idle(void *context)
{
    const struct fixture_wait *w = context;

    return count_idle(w->fixture->server) == w->count;
}

/* Until COUNT connections are idle. */
static void await_idle(struct fixture *f, unsigned count)
{
    raw_turn_until(f->loop, has_idle, &(struct fixture_wait){.fixture = f, .count = count});
}

struct input {
    struct fixture *fixture;
    size_t bytes;
};

static struct http_conn *only_conn(const struct fixture *f)
{
    return list_first(&f->server->conns, struct http_conn, node);
}

static bool has_input(void *context)
{
    const struct input *w = context;

    return !list_empty(&w->fixture->server->conns) &&
           only_conn(w->fixture)->received_bytes == w->bytes;
}

static void
a_small_incomplete_head_takes_its_bytes_only_and_a_large_one_is_not_copied_again(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);
    struct text head = {0};

    o.max.head_bytes = 64 * 1024;
    fixture_restart(f, &o);
    fixture_send(f, "GET / HTTP/1.1\r\nX: ");
    raw_turn_until(f->loop, has_input, &(struct input){f, 19});
    assert_non_null(only_conn(f)->partial);
    for (int i = 0; i < LOOP_BLOCK_BYTES; ++i)
        text_add_char(&head, 'y');
    fixture_send(f, text_cstr(&head));
    raw_turn_until(f->loop, has_input, &(struct input){f, 19 + LOOP_BLOCK_BYTES});
    const struct http1_server_stream *x = only_conn(f)->http1;
    assert_non_null(x);
    fixture_send(f, "y");
    raw_turn_until(f->loop, has_input, &(struct input){f, 20 + LOOP_BLOCK_BYTES});
    assert_ptr_equal(only_conn(f)->http1, x);
    assert_null(only_conn(f)->partial);
    text_fini(&head);
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

/* One request, after which the connection is idle. */
static void be_idle(struct fixture *f)
{
    fixture_send(f, GET);
    fixture_await_gone(f, 1);
    await_idle(f, 1);
    assert_int_equal(http_server_connections(f->server), 1);
}

/* Without a turn of the loop: what is sent lies there when the next begins. */
static void send_unseen(struct fixture *f, const char *text)
{
    assert_int_equal(send(f->client.fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* ---- served again ---- */

static void idle_connection_is_served_again_and_again(void **state)
{
    struct fixture *f = *state;

    be_idle(f);
    struct addr peer = f->peer;
    for (unsigned i = 2; i < 6; ++i) {
        fixture_send(f, GET);
        fixture_await_gone(f, i);
        assert_true(f->gone_done);
        assert_memory_equal(&f->peer, &peer, sizeof(peer));
        assert_ptr_equal(f->tag, f);
        await_idle(f, 1);
    }
    assert_int_equal(http_server_connections(f->server), 1);
    assert_int_equal(fixture_counts(f).accepted, 1);
    assert_int_equal(fixture_counts(f).abandoned, 0);
}

static void pipelined_requests_are_all_served(void **state)
{
    struct fixture *f = *state;

    be_idle(f);
    fixture_send(f, GET "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
                        "GET /last HTTP/1.1\r\nHos");
    fixture_await_gone(f, 3);
    assert_string_equal(text_cstr(&f->body), "abc");
    fixture_send(f, "t: a\r\n\r\n");
    fixture_await_gone(f, 4);
    assert_string_equal(text_cstr(&f->path), "/last");
    await_idle(f, 1);
}

static void head_that_comes_byte_by_byte_is_served(void **state)
{
    struct fixture *f = *state;

    be_idle(f);
    for (const char *p = GET; *p != '\0'; ++p) {
        send_unseen(f, (char[]){*p, '\0'});
        fixture_turns(f, 2);
    }
    fixture_await_gone(f, 2);
}

static void request_that_comes_at_that_very_moment_gets_a_response(void **state)
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
    assert_int_equal(fixture_counts(f).accepted, 1);
}

static void body_and_its_head_apart_reach_the_handler(void **state)
{
    struct fixture *f = *state;

    be_idle(f);
    fixture_send(f, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    pass_time(f, 60);
    assert_int_equal(count_idle(f->server), 0);
    fixture_send(f, "def");
    fixture_await_gone(f, 2);
    assert_string_equal(text_cstr(&f->body), "abcdef");
}

/* ---- not idle ---- */

static void connection_with_a_part_of_a_request_or_one_in_progress_is_not_idle(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = quick_sweep(f);

    o.header_timeout_ms = 60000;
    o.body_timeout_ms = 80;
    fixture_restart(f, &o);
    fixture_send(f, GET "GET /");
    fixture_await_gone(f, 1);
    pass_time(f, 100); /* half a head */
    assert_int_equal(count_idle(f->server), 0);
    f->response = NULL;
    fixture_send(f, " HTTP/1.1\r\nHost: a\r\n\r\n");
    fixture_await_requests(f, 2);
    pass_time(f, 100); /* a request */
    assert_int_equal(count_idle(f->server), 0);
    response_hello(f, f->call);
    fixture_await_gone(f, 2);
    await_idle(f, 1);
}

static void without_descriptors_it_is_served_all_the_same(void **state)
{
    struct fixture *f = *state;

    be_idle(f);
    struct rlimit before = fixture_take_descriptors();
    fixture_send(f, GET);
    fixture_await_gone(f, 2);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    await_idle(f, 1);
}

/* ---- ends ---- */

static void client_that_closes_meanwhile_is_noticed(void **state)
{
    struct fixture *f = *state;

    be_idle(f);
    raw_close(&f->client);
    fixture_await_connections(f, 0);
}

static void client_that_resets_meanwhile_is_noticed(void **state)
{
    struct fixture *f = *state;

    be_idle(f);
    raw_reset(&f->client);
    fixture_await_connections(f, 0);
}

static void half_a_head_is_rejected_in_time(void **state)
{
    struct fixture *f = *state;

    be_idle(f);
    fixture_send(f, "GET / HTTP/1.1\r\nHo");
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "HTTP/1.1 408 "));
    assert_int_equal(fixture_counts(f).header_timeouts, 1);
    raw_close(&f->client); /* which the server awaits for a while */
    fixture_await_connections(f, 0);
}

static void an_idle_connection_ends_after_its_timeout(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = quick_sweep(f);

    o.keep_alive_timeout_ms = 200;
    fixture_restart(f, &o);
    be_idle(f);
    raw_await_end(f->loop, &f->client);
    assert_true(f->client.ended);
    fixture_await_connections(f, 0);
    assert_int_equal(f->requests, 1);
}

static void new_limits_hold_for_those_that_are_idle(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = quick_sweep(f);

    be_idle(f);
    o.keep_alive_timeout_ms = 40;
    http_server_set(f->server, &o);
    raw_await_end(f->loop, &f->client);
    fixture_await_connections(f, 0);
}

static void drain_ends_it(void **state)
{
    struct fixture *f = *state;

    be_idle(f);
    http_server_shut_idle(f->server);
    raw_await_end(f->loop, &f->client);
    fixture_await_connections(f, 0);
}

static void set_flag(void *context)
{
    struct fixture *f = context;

    f->drain_done = true;
}

static void one_more_response_of_a_server_that_retires_states_close(void **state)
{
    struct fixture *f = *state;

    be_idle(f);
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

/* The server starts to retire in the turn in which the response is written. */
static void response_and_retire(struct fixture *f, struct call *call)
{
    response_hello(f, call);
    retiring.fixture = f;
    loop_post(f->loop, &retiring.message);
    f->response = response_hello;
}

static void connection_idle_just_before_the_server_retired_gets_a_response_once_more(void **state)
{
    struct fixture *f = *state;

    f->response = response_and_retire;
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

static void request_that_races_with_the_drain_gets_a_response(void **state)
{
    struct fixture *f = *state;

    be_idle(f);
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

    be_idle(f);
    http_server_cut(f->server);
    raw_await_end(f->loop, &f->client);
    fixture_await_connections(f, 0);
}

/* ---- many ---- */

static void many_are_idle_and_all_served_again(void **state)
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
    await_idle(f, MANY);
    for (unsigned i = 0; i < MANY; i += 2)
        raw_send(f->loop, &peers[i], GET);
    fixture_await_gone(f, MANY + MANY / 2);
    await_idle(f, MANY);
    assert_int_equal(http_server_connections(f->server), MANY);
    for (unsigned i = 0; i < MANY; ++i)
        raw_fini(&peers[i]);
    fixture_await_connections(f, 0);
}

/* ---- too many ---- */

static void the_longest_idle_makes_room_for_a_new_connection(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = quick_sweep(f);
    struct raw_peer first;
    struct raw_peer second;

    o.max_connections = 2;
    http_server_set(f->server, &o);
    be_idle(f);
    first = f->client;
    raw_init(&f->client);
    raw_connect(&f->addr, &second);
    raw_send(f->loop, &second, GET);
    raw_await(f->loop, &second, HELLO);
    await_idle(f, 2);
    fixture_send(f, GET);
    fixture_await(f, HELLO);
    raw_await_end(f->loop, &first);
    assert_true(first.ended);
    await_idle(f, 2);
    text_clear(&second.in);
    raw_send(f->loop, &second, GET);
    raw_await(f->loop, &second, HELLO);
    assert_int_equal(http_server_connections(f->server), 2);
    assert_int_equal(fixture_counts(f).accept_pauses, 0);
    raw_fini(&first);
    raw_fini(&second);
}

static void connection_that_becomes_idle_makes_room_for_those_that_wait(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = quick_sweep(f);
    struct raw_peer busy;

    o.max_connections = 1;
    http_server_set(f->server, &o);
    f->response = NULL;
    raw_connect(&f->addr, &busy);
    raw_send(f->loop, &busy, GET);
    fixture_await_requests(f, 1);
    struct call *call = f->call;
    f->response = response_hello;
    fixture_send(f, GET);
    fixture_turns(f, 10);
    assert_int_equal(f->requests, 1);
    assert_int_equal(fixture_counts(f).accept_pauses, 1);
    response_hello(f, call);
    raw_await(f->loop, &busy, HELLO);
    fixture_await(f, HELLO);
    raw_await_end(f->loop, &busy);
    raw_fini(&busy);
}

#define IDLE(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IDLE(a_small_incomplete_head_takes_its_bytes_only_and_a_large_one_is_not_copied_again),
        IDLE(idle_connection_is_served_again_and_again),
        IDLE(pipelined_requests_are_all_served),
        IDLE(head_that_comes_byte_by_byte_is_served),
        IDLE(request_that_comes_at_that_very_moment_gets_a_response),
        IDLE(body_and_its_head_apart_reach_the_handler),
        IDLE(connection_with_a_part_of_a_request_or_one_in_progress_is_not_idle),
        IDLE(without_descriptors_it_is_served_all_the_same),
        IDLE(client_that_closes_meanwhile_is_noticed),
        IDLE(client_that_resets_meanwhile_is_noticed),
        IDLE(half_a_head_is_rejected_in_time),
        IDLE(an_idle_connection_ends_after_its_timeout),
        IDLE(new_limits_hold_for_those_that_are_idle),
        IDLE(drain_ends_it),
        IDLE(one_more_response_of_a_server_that_retires_states_close),
        IDLE(connection_idle_just_before_the_server_retired_gets_a_response_once_more),
        IDLE(request_that_races_with_the_drain_gets_a_response),
        IDLE(cut_ends_it),
        IDLE(many_are_idle_and_all_served_again),
        IDLE(the_longest_idle_makes_room_for_a_new_connection),
        IDLE(connection_that_becomes_idle_makes_room_for_those_that_wait),
    };

    return cmocka_run_group_tests_name("http_idle", tests, NULL, NULL);
}
