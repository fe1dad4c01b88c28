/* SPDX-License-Identifier: Apache-2.0
 *
 * The client to pool counter daemons, and servers that do what no daemon should. The test itself is
 * the server, byte by byte.
 */
#include "common/counters/pool_counter_line.h"
#include "tests/unit/counters/counter_played.h"

#include <netinet/tcp.h>

/* ---- what is said ---- */

/* The next connection asks whether the daemon knows slots: RESPONSE is the response. */
static void response_inquiry(struct world *w, const char *response)
{
    struct raw_peer inquiry;

    raw_init(&inquiry);
    raw_accept(w->f.loop, w->listener, &inquiry);
    raw_await(w->f.loop, &inquiry, "STATS SLOTS\n");
    raw_send(w->f.loop, &inquiry, response);
    raw_await_end(w->f.loop, &inquiry);
    raw_fini(&inquiry);
}

static void a_daemon_is_asked_once_whether_it_knows_slots(void **state)
{
    static const char *const responses[] = {"slots: 1\n", "ERROR WRONG_STAT", "ERROR WRONG_STAT\n"};
    struct counter_request r = waiting;
    struct world *w = *state;

    r.slots = 7;
    for (size_t i = 0; i < ARRAY_LEN(responses); ++i) {
        struct asker a[2] = {0};

        create(w, (struct pool_counter_client_settings){.response_timeout_ms = LONG_MS});
        begin(w, &a[0], &r);
        response_inquiry(w, responses[i]);
        leave(&a[0]);
        begin(w, &a[1], &r);
        assert_int_equal(view(&w->f).connections, 1);
        leave(&a[1]);
        assert_false(view(&w->f).suspended);
    }
}

static void requests_report_whole_seconds_rounded_up(void **state)
{
    static const struct {
        uint64_t timeout_ms;
        const char *line;
    } lines[] = {
        {LONG_MS + 999, "ACQ4ANY a%20b 2 5 61 7\n"},
        {30500, "ACQ4ANY a%20b 2 5 31 7\n"},
        {0, "ACQ4ANY a%20b 2 5 0 7\n"},
        {UINT64_MAX, "ACQ4ANY a%20b 2 5 2147483647 7\n"},
    };
    struct world *w = *state;

    for (size_t i = 0; i < ARRAY_LEN(lines); ++i) {
        struct counter_request r = {SLICE_LIT("a b"),   SLICE_NULL, COUNTER_ANY, 2, 5, 7,
                                    lines[i].timeout_ms};
        struct asker a = {0};
        begin(w, &a, &r);
        if (i == 0)
            response_inquiry(w, "slots: 1\n");
        assert_true(slice_is(text_slice(&w->peer.in), lines[i].line));
        leave(&a);
        raw_await_end(w->f.loop, &w->peer);
    }
}

static void a_response_may_come_byte_by_byte(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    begin(w, &a, &waiting);
    for (const char *p = "LOCKED\n"; *p != '\0'; ++p) {
        assert_false(a.reported);
        raw_send_bytes(w->f.loop, &w->peer, (struct slice){p, 1});
        loop_turn(w->f.loop, RAW_TURN_MS);
    }
    assert_int_equal(await_response(&a), COUNTER_LOCKED);
    release(&a);
}

static void a_line_that_is_no_decision_makes_the_key_unreachable(void **state)
{
    char over_long[2 * POOL_COUNTER_RESPONSE_LINE_MAX] = "";
    const char *const words[] = {
        "LOCK_HELD\n",
        "NOT_LOCKED\n",
        "RELEASED\n",
        "DONE\n", /* to a request with ACQ4ME */
        "ERROR BAD_SYNTAX\n",
        "uptime: 0 days, 0h 0m 1s\n",
        "\n",
        "locked\n",
        "LOCKED\r\n",
        "LOCKED\nLOCKED\n",
        "LOCKED\nL",
        "HTTP/1.0 400 Bad Request\r\n\r\n",
        over_long,
    };
    struct world *w = *state;

    memset(over_long, '-', sizeof(over_long) - 1);
    for (size_t i = 0; i < ARRAY_LEN(words); ++i) {
        struct asker a = {0};
        create(w, (struct pool_counter_client_settings){.connect_timeout_ms = LONG_MS});
        (void)responded_by(w, &a, words[i]);
        check_unreachable(&a, POOL_COUNTER_TROUBLE_FAULT);
        raw_await_end(w->f.loop, &w->peer);
        assert_int_equal(view(&w->f).connections, 0);
    }
}

static void nul_bytes_are_no_decision(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    begin(w, &a, &waiting);
    raw_send_bytes(w->f.loop, &w->peer, SLICE_LIT("LOCKED\0\n"));
    check_unreachable(&a, POOL_COUNTER_TROUBLE_FAULT);
}

static void an_end_instead_of_a_response_leaves_the_key_unreachable(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    begin(w, &a, &waiting);
    raw_close(&w->peer);
    check_unreachable(&a, POOL_COUNTER_TROUBLE_CLOSED);
    begin(w, &a, &waiting);
    raw_reset(&w->peer);
    check_unreachable(&a, POOL_COUNTER_TROUBLE_CLOSED);
    begin(w, &a, &waiting);
    say(w, "LOCKE");
    raw_close(&w->peer);
    check_unreachable(&a, POOL_COUNTER_TROUBLE_CLOSED);
    assert_int_equal(stats(w)->repeated, 0);
    assert_int_equal(stats(w)->suspensions, 1);
}

/* ---- silence ---- */

static void no_silence_is_longer_than_the_wait(void **state)
{
    struct world *w = *state;
    struct counter_request brief = within(BRIEF_MS);
    struct asker a = {0};

    begin(w, &a, &brief);
    say(w, "LOCK"); /* and never the rest of it */
    assert_int_equal(await_response(&a), COUNTER_TIMEOUT);
    raw_await_end(w->f.loop, &w->peer);
}

static void a_call_that_may_not_wait_is_notified_of_silence(void **state)
{
    struct world *w = *state;
    struct counter_request at_once = within(0);
    struct asker a = {0};

    create(w, (struct pool_counter_client_settings){.response_timeout_ms = BRIEF_MS});
    begin(w, &a, &at_once);
    check_unreachable(&a, POOL_COUNTER_TROUBLE_SILENT);
    raw_await_end(w->f.loop, &w->peer);
}

/* The next connection is a probe, which gets a response. */
static void response_probe(struct world *w, struct raw_peer *probe)
{
    raw_accept(w->f.loop, w->listener, probe);
    raw_await(w->f.loop, probe, "STATS UPTIME\n");
    raw_send(w->f.loop, probe, "uptime: 0 days, 0h 0m 1s\n");
}

static void a_daemon_that_responds_probes_may_be_waited_for(void **state)
{
    struct world *w = *state;
    struct raw_peer probe;
    struct asker a = {0};

    raw_init(&probe);
    create(w, (struct pool_counter_client_settings){.response_timeout_ms = BRIEF_MS});
    begin(w, &a, &waiting);
    response_probe(w, &probe);
    /* The next ones use the same connection. */
    for (unsigned i = 0; i < POOL_COUNTER_FAILURES_MAX; ++i) {
        text_clear(&probe.in);
        raw_await(w->f.loop, &probe, "STATS UPTIME\n");
        raw_send(w->f.loop, &probe, "uptime: 0 days, 0h 0m 1s\n");
    }
    assert_false(a.reported);
    say(w, "LOCKED\n");
    assert_int_equal(await_response(&a), COUNTER_LOCKED);
    assert_int_equal(stats(w)->opened, 2);
    release(&a);
    raw_fini(&probe);
}

static void a_call_does_not_wait_for_a_daemon_that_responds_no_probe(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    create(w, (struct pool_counter_client_settings){.response_timeout_ms = BRIEF_MS});
    begin(w, &a, &waiting);
    check_unreachable(&a, POOL_COUNTER_TROUBLE_SILENT);
    assert_true(view(&w->f).suspended);
    assert_int_equal(stats(w)->probes, POOL_COUNTER_FAILURES_MAX);
}

static void a_new_response_timeout_holds_for_calls_in_progress(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    create(w,
           (struct pool_counter_client_settings){.response_timeout_ms = UINT64_C(1000) * LONG_MS});
    begin(w, &a, &waiting);
    pool_counter_client_set_timeouts(w->f.client, LONG_MS, BRIEF_MS);
    check_unreachable(&a, POOL_COUNTER_TROUBLE_SILENT);
}

static void loops_share_what_one_of_them_finds_out(void **state)
{
    struct pool_counter_client_settings s = {.response_timeout_ms = BRIEF_MS};
    struct world *w = *state;
    struct fixture other = {.loop = w->f.loop, .health = w->f.health};
    struct asker a = {0};
    struct asker b = {0};

    create(w, s);
    create_client(&other, &w->addr, s);
    begin(w, &a, &waiting);
    acquire(&other, &b, &waiting);
    check_unreachable(&a, POOL_COUNTER_TROUBLE_SILENT);
    check_unreachable(&b, POOL_COUNTER_TROUBLE_SILENT);
    uint64_t suspensions =
        stats(w)->suspensions + pool_counter_client_stats(other.client)->suspensions;
    uint64_t probes = stats(w)->probes + pool_counter_client_stats(other.client)->probes;
    assert_int_equal(suspensions, 1);
    assert_int_equal(probes, POOL_COUNTER_FAILURES_MAX);
    pool_counter_client_destroy(other.client);
}

static void a_wait_that_ends_here_shows_whether_the_daemon_responds(void **state)
{
    struct world *w = *state;
    struct counter_request brief = within(BRIEF_MS / 2);
    struct asker a = {0};

    create(w, (struct pool_counter_client_settings){.response_timeout_ms = BRIEF_MS});
    begin(w, &a, &brief);
    assert_int_equal(await_response(&a), COUNTER_TIMEOUT);
    raw_await_end(w->f.loop, &w->peer);
    while (!view(&w->f).suspended)
        loop_turn(w->f.loop, RAW_TURN_MS);
    assert_int_equal(stats(w)->probes, POOL_COUNTER_FAILURES_MAX);
}

static void a_release_without_response_ends_its_connection(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    create(w, (struct pool_counter_client_settings){.response_timeout_ms = BRIEF_MS});
    assert_int_equal(responded_by(w, &a, "LOCKED\n"), COUNTER_LOCKED);
    release(&a);
    raw_await_end(w->f.loop, &w->peer);
    assert_int_equal(stats(w)->unreleased, 1);
    assert_int_equal(view(&w->f).connections, 0);
    /* As is one with a wrong response. */
    assert_int_equal(responded_by(w, &a, "LOCKED\n"), COUNTER_LOCKED);
    release(&a);
    say(w, "NOT_LOCKED\n");
    raw_await_end(w->f.loop, &w->peer);
    assert_int_equal(stats(w)->unreleased, 2);
}

/* ---- connecting ---- */

/* Fills the accept queue of a listener: the kernel accepts no more connections. */
static void fill(const struct addr *a, int listener, int *fds, size_t n)
{
    assert_int_equal(listen(listener, 0), 0);
    for (size_t i = 0; i < n; ++i) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_true(fds[i] != -1);
        (void)connect(fds[i], &a->sa, a->len);
    }
}

static void a_connection_that_does_not_come_about_is_given_up_in_time(void **state)
{
    struct world *w = *state;
    struct counter_request brief = within(BRIEF_MS);
    struct asker a = {0};
    int fds[4];

    fill(&w->addr, w->listener, fds, ARRAY_LEN(fds));
    /* After the call's own timeout; the attempt continues, and its result reaches the breaker. */
    acquire(&w->f, &a, &brief);
    check_unreachable(&a, POOL_COUNTER_TROUBLE_CONNECT_TIMEOUT);
    assert_int_equal(view(&w->f).connections, 1);
    /* By the time to connect. */
    create(w, (struct pool_counter_client_settings){.connect_timeout_ms = BRIEF_MS});
    for (unsigned i = 0; i < POOL_COUNTER_FAILURES_MAX; ++i) {
        acquire(&w->f, &a, &waiting);
        check_unreachable(&a, POOL_COUNTER_TROUBLE_CONNECT_TIMEOUT);
        assert_int_equal(view(&w->f).connections, 0);
    }
    assert_true(view(&w->f).suspended);
    for (size_t i = 0; i < ARRAY_LEN(fds); ++i)
        close(fds[i]);
}

static void a_connection_whose_asker_leaves_is_kept_for_the_next(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    acquire(&w->f, &a, &waiting);
    leave(&a); /* before the loop has turned: nothing is asked yet */
    await_idle(&w->f, 1);
    assert_false(a.reported);
    acquire(&w->f, &a, &waiting);
    accept_next(w);
    raw_await(w->f.loop, &w->peer, "ACQ4ME page:1 1 10 60\n");
    assert_int_equal(stats(w)->reused, 1);
    assert_int_equal(stats(w)->opened, 1);
    leave(&a);
    raw_await_end(w->f.loop, &w->peer);
}

/* ---- idle connections ---- */

/* Returns when the other end's kernel has acknowledged the end. */
static void end_unseen(struct raw_peer *p)
{
    uint64_t deadline_us = clock_mono_us() + RAW_DEADLINE_MS * UINT64_C(1000);
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);

    assert_int_equal(shutdown(p->fd, SHUT_WR), 0);
    while (info.tcpi_state != TCP_FIN_WAIT2) {
        assert_int_equal(getsockopt(p->fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
        assert_true(clock_mono_us() < deadline_us);
    }
}

static void an_idle_connection_that_ends_or_speaks_is_not_used(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    keep_one(w);
    raw_close(&w->peer);
    await_connections(&w->f, 0);
    keep_one(w);
    say(w, "LOCKED\n");
    await_connections(&w->f, 0);
    /* Also when the loop had no time to see it: the end is there, and the loop has not turned. */
    keep_one(w);
    end_unseen(&w->peer);
    assert_int_equal(responded_by(w, &a, "LOCKED\n"), COUNTER_LOCKED);
    release(&a);
    assert_int_equal(stats(w)->repeated, 0);
    assert_int_equal(stats(w)->lost, 0);
}

static void an_idle_connection_that_ends_without_response_is_tried_once_again(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    keep_one(w);
    acquire(&w->f, &a, &waiting);
    raw_await(w->f.loop, &w->peer, "ACQ4ME page:1 1 10 60\n");
    raw_reset(&w->peer);
    accept_next(w);
    raw_await(w->f.loop, &w->peer, "ACQ4ME page:1 1 10 60\n");
    assert_false(a.reported);
    say(w, "QUEUE_FULL\n");
    assert_int_equal(await_response(&a), COUNTER_QUEUE_FULL);
    assert_int_equal(stats(w)->repeated, 1);
    /* And only once. */
    await_idle(&w->f, 1);
    text_clear(&w->peer.in);
    acquire(&w->f, &a, &waiting);
    raw_await(w->f.loop, &w->peer, "\n");
    raw_close(&w->peer);
    accept_next(w);
    raw_await(w->f.loop, &w->peer, "\n");
    raw_close(&w->peer);
    check_unreachable(&a, POOL_COUNTER_TROUBLE_CLOSED);
    assert_int_equal(stats(w)->repeated, 2);
    assert_int_equal(stats(w)->opened, 3);
}

static void an_idle_connection_that_ends_within_a_response_is_not_tried_again(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    keep_one(w);
    acquire(&w->f, &a, &waiting);
    raw_await(w->f.loop, &w->peer, "\n");
    say(w, "LOCK");
    raw_close(&w->peer);
    check_unreachable(&a, POOL_COUNTER_TROUBLE_CLOSED);
    assert_int_equal(stats(w)->repeated, 0);
}

static void a_repeated_call_gets_no_more_time(void **state)
{
    struct world *w = *state;
    struct counter_request brief = within(3000);
    struct asker a = {0};

    keep_one(w);
    acquire(&w->f, &a, &brief);
    raw_await(w->f.loop, &w->peer, "\n");
    raw_close(&w->peer);
    uint64_t from_us = clock_mono_us();
    accept_next(w);
    raw_await(w->f.loop, &w->peer, "ACQ4ME page:1 1 10 3\n");
    assert_int_equal(await_response(&a), COUNTER_TIMEOUT);
    assert_true(a.call.due_ms <= from_us / 1000 + 3000);
}

/* ---- held ---- */

static void a_lock_whose_connection_ends_or_speaks_is_lost(void **state)
{
    struct world *w = *state;

    for (unsigned i = 0; i < 3; ++i) {
        struct asker a = {0};
        assert_int_equal(responded_by(w, &a, "LOCKED\n"), COUNTER_LOCKED);
        if (i == 0)
            raw_close(&w->peer);
        else if (i == 1)
            raw_reset(&w->peer);
        else
            say(w, "TIMEOUT\n");
        raw_turn_until_set(w->f.loop, &a.lost);
        assert_int_equal(view(&w->f).connections, 0);
        if (i == 1)
            leave(&a);
        else
            release(&a);
    }
    assert_int_equal(stats(w)->lost, 3);
    assert_int_equal(stats(w)->unreleased, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(requests_report_whole_seconds_rounded_up),
        CASE(a_response_may_come_byte_by_byte),
        CASE(a_line_that_is_no_decision_makes_the_key_unreachable),
        CASE(nul_bytes_are_no_decision),
        CASE(an_end_instead_of_a_response_leaves_the_key_unreachable),
        CASE(no_silence_is_longer_than_the_wait),
        CASE(a_call_that_may_not_wait_is_notified_of_silence),
        CASE(a_daemon_that_responds_probes_may_be_waited_for),
        CASE(a_call_does_not_wait_for_a_daemon_that_responds_no_probe),
        CASE(a_new_response_timeout_holds_for_calls_in_progress),
        CASE(loops_share_what_one_of_them_finds_out),
        CASE(a_wait_that_ends_here_shows_whether_the_daemon_responds),
        CASE(a_daemon_is_asked_once_whether_it_knows_slots),
        CASE(a_release_without_response_ends_its_connection),
        CASE(a_connection_that_does_not_come_about_is_given_up_in_time),
        CASE(a_connection_whose_asker_leaves_is_kept_for_the_next),
        CASE(an_idle_connection_that_ends_or_speaks_is_not_used),
        CASE(an_idle_connection_that_ends_without_response_is_tried_once_again),
        CASE(an_idle_connection_that_ends_within_a_response_is_not_tried_again),
        CASE(a_repeated_call_gets_no_more_time),
        CASE(a_lock_whose_connection_ends_or_speaks_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
