/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections that end while a request is on its way past libh2o: by the client, by the server, and
 * by libh2o, which waits beside.
 */
#include "tests/unit/net/http_short_fixture.h"

#include <sys/time.h>
#include <time.h>

/* What libh2o takes for the present time is so much later than it is. */
static time_t clock_ahead_s;

/* libh2o's timers go by it; as it is a shared library, this has to be seen. */
__attribute__((visibility("default"), used)) int gettimeofday(struct timeval *tv, void *zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    tv->tv_sec = now.tv_sec + clock_ahead_s;
    tv->tv_usec = now.tv_nsec / 1000;
    return 0;
}

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
    assert_int_equal(short_way(f), 2);
}

static void client_that_closes_its_half_gets_its_answer_when_it_may(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    http_reply_keep_half_closed(&f->call->reply);
    assert_int_equal(shutdown(f->client.fd, SHUT_WR), 0);
    fixture_turns(f, 10);
    assert_int_equal(f->gone, 0);
    answer_hello(f, f->call);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "\r\n\r\nhello"));
    assert_true(f->gone_done);
    raw_turn_until(f->loop, is_gone, f);
    assert_int_equal(short_way(f), 1);
}

static void drain_lets_the_request_end_and_then_closes(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    http_server_drain(f->server, NULL, NULL);
    fixture_turns(f, 5);
    answer_hello(f, f->call);
    raw_await_end(f->loop, &f->client);
    assert_true(raw_has(&f->client, "Connection: close\r\n"));
    assert_true(raw_has(&f->client, "\r\n\r\nhello"));
    assert_int_equal(short_way(f), 1);
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
            start_answer(f->call, 200, LARGE);
            http_reply_send(&f->call->reply, http1_body_copy((struct slice){p, LARGE}), true);
        }
        fixture_turns(f, 5);
        http_server_cut(f->server);
        raw_turn_until(f->loop, is_gone, f);
        assert_int_equal(f->gone, i + 1);
        assert_false(f->gone_done);
        fixture_forget_client(f);
    }
    assert_int_equal(short_way(f), 2);
    free(p);
}

static void connection_stays_while_libh2o_waits_beside_for_days(void **state)
{
    struct fixture *f = *state;

    f->answer = answer_hello;
    fixture_send(f, GET);
    fixture_await_gone(f, 1);
    f->answer = NULL;
    fixture_send(f, GET);
    fixture_await_requests(f, 2);
    clock_ahead_s = (time_t)100 * 24 * 3600;
    fixture_turns(f, 5);
    answer_hello(f, f->call);
    fixture_await_gone(f, 2);
    assert_true(f->gone_done);
    assert_int_equal(http_server_connections(f->server), 1);
    assert_int_equal(short_way(f), 2);
}

static void request_ends_when_libh2o_closes_the_connection_beside_it(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, GET);
    fixture_await_requests(f, 1);
    clock_ahead_s = (time_t)11 * 365 * 24 * 3600;
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
    raw_await_end(f->loop, &f->client);
    raw_turn_until(f->loop, is_gone, f);
    assert_int_equal(short_way(f), 1);
}

static int setup(void **state)
{
    clock_ahead_s = 0;
    return short_setup(state);
}

#define END(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        END(client_that_leaves_ends_its_request_and_those_behind_it),
        END(client_that_closes_its_half_gets_its_answer_when_it_may),
        END(drain_lets_the_request_end_and_then_closes),
        END(cut_ends_a_request_that_waits_and_one_that_is_written),
        END(connection_stays_while_libh2o_waits_beside_for_days),
        END(request_ends_when_libh2o_closes_the_connection_beside_it),
    };

    return cmocka_run_group_tests_name("http_short_end", tests, NULL, NULL);
}
