/* SPDX-License-Identifier: Apache-2.0
 *
 * The client to pool counter daemons, and servers that do what no daemon should. The test itself is
 * the server, byte by byte.
 */
#include "common/core/counter_breaker.h"
#include "tests/unit/net/counter_fixture.h"

struct world {
    struct fixture f;
    struct addr addr;
    int listener;
    struct raw_peer peer; /* the server's end of the latest connection */
};

enum { LONG_MS = 60000, BRIEF_MS = 30 };

static const struct counter_request waiting = {
    .key = {"page:1", 6},
    .kind = COUNTER_ME,
    .workers = 1,
    .maxqueue = 10,
    .timeout_ms = LONG_MS,
};

static struct counter_request within(uint64_t timeout_ms)
{
    struct counter_request r = waiting;

    r.timeout_ms = timeout_ms;
    return r;
}

static void create(struct world *w, struct counter_client_settings s)
{
    counter_client_destroy(w->f.client);
    create_client(&w->f, &w->addr, s);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    fixture_open(&w->f);
    raw_init(&w->peer);
    w->listener = raw_listen(&w->addr);
    create(w, (struct counter_client_settings){.connect_timeout_ms = LONG_MS,
                                               .answer_timeout_ms = LONG_MS});
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    fixture_close(&w->f);
    raw_fini(&w->peer);
    if (w->listener != -1)
        close(w->listener);
    free(w);
    return 0;
}

static const struct counter_client_stats *stats(const struct world *w)
{
    return counter_client_stats(w->f.client);
}

/* Forget the latest connection, and wait for the next. */
static void accept_next(struct world *w)
{
    raw_fini(&w->peer);
    raw_accept(w->f.loop, w->listener, &w->peer);
}

/* Ask for R, up to its request on a connection of its own. */
static void begin(struct world *w, struct asker *a, const struct counter_request *r)
{
    acquire(&w->f, a, r);
    accept_next(w);
    raw_await(w->f.loop, &w->peer, "\n");
}

static void say(struct world *w, const char *text)
{
    raw_send(w->f.loop, &w->peer, text);
}

/* A request that was answered with WORD. */
static enum counter_result answered_by(struct world *w, struct asker *a, const char *word)
{
    begin(w, a, &waiting);
    say(w, word);
    return await_answer(a);
}

/* A connection that is kept: its first lock is had and given back. */
static void keep_one(struct world *w)
{
    struct asker a = {0};

    assert_int_equal(answered_by(w, &a, "LOCKED\n"), COUNTER_RESULT_LOCKED);
    release(&a);
    raw_await(w->f.loop, &w->peer, "RELEASE\n");
    say(w, "RELEASED\n");
    await_idle(&w->f, 1);
    text_clear(&w->peer.in);
}

static void check_unreachable(struct asker *a, enum counter_trouble why)
{
    assert_int_equal(await_answer(a), COUNTER_RESULT_UNREACHABLE);
    assert_int_equal(a->call.why, why);
}

/* ---- what is said ---- */

static void requests_tell_whole_seconds_rounded_up(void **state)
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
        struct counter_request r = {SLICE_LIT("a b"), COUNTER_ANY, 2, 5, 7, lines[i].timeout_ms};
        struct asker a = {0};
        begin(w, &a, &r);
        assert_true(slice_is(text_slice(&w->peer.in), lines[i].line));
        leave(&a);
        raw_await_end(w->f.loop, &w->peer);
    }
}

static void a_reply_may_come_byte_by_byte(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    begin(w, &a, &waiting);
    for (const char *p = "LOCKED\n"; *p != '\0'; ++p) {
        assert_false(a.told);
        raw_send_bytes(w->f.loop, &w->peer, (struct slice){p, 1});
        loop_turn(w->f.loop, RAW_TURN_MS);
    }
    assert_int_equal(await_answer(&a), COUNTER_RESULT_LOCKED);
    release(&a);
}

static void what_is_no_decision_leaves_the_key_unreachable(void **state)
{
    static const char *const words[] = {
        "LOCK_HELD\n",
        "NOT_LOCKED\n",
        "RELEASED\n",
        "DONE\n", /* to one who wants to do it himself */
        "ERROR BAD_SYNTAX\n",
        "uptime: 0 days, 0h 0m 1s\n",
        "\n",
        "locked\n",
        "LOCKED\r\n",
        "LOCKED\nLOCKED\n",
        "LOCKED\nL",
        "HTTP/1.0 400 Bad Request\r\n\r\n",
        "------------------------------------------------------------------------------------------"
        "-"
        "-------------------------------------------------------------------------------------",
    };
    struct world *w = *state;

    for (size_t i = 0; i < ARRAY_LEN(words); ++i) {
        struct asker a = {0};
        create(w, (struct counter_client_settings){.connect_timeout_ms = LONG_MS});
        (void)answered_by(w, &a, words[i]);
        check_unreachable(&a, COUNTER_TROUBLE_FAULT);
        raw_await_end(w->f.loop, &w->peer);
        assert_int_equal(view(&w->f).connections, 0);
        assert_int_equal(stats(w)->unreachable[COUNTER_TROUBLE_FAULT], 1);
    }
}

static void nul_bytes_are_no_decision(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    begin(w, &a, &waiting);
    raw_send_bytes(w->f.loop, &w->peer, SLICE_LIT("LOCKED\0\n"));
    check_unreachable(&a, COUNTER_TROUBLE_FAULT);
}

static void an_end_instead_of_an_answer_leaves_the_key_unreachable(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    begin(w, &a, &waiting);
    raw_close(&w->peer);
    check_unreachable(&a, COUNTER_TROUBLE_CLOSED);
    begin(w, &a, &waiting);
    raw_reset(&w->peer);
    check_unreachable(&a, COUNTER_TROUBLE_CLOSED);
    begin(w, &a, &waiting);
    say(w, "LOCKE");
    raw_close(&w->peer);
    check_unreachable(&a, COUNTER_TROUBLE_CLOSED);
    assert_int_equal(stats(w)->repeated, 0);
    assert_int_equal(stats(w)->rests, 1);
}

/* ---- silence ---- */

static void no_silence_is_longer_than_the_wait(void **state)
{
    struct world *w = *state;
    struct counter_request brief = within(BRIEF_MS);
    struct asker a = {0};

    begin(w, &a, &brief);
    say(w, "LOCK"); /* and never the rest of it */
    assert_int_equal(await_answer(&a), COUNTER_RESULT_TIMEOUT);
    raw_await(w->f.loop, &w->peer, "STATS UPTIME\n");
    assert_int_equal(view(&w->f).connections, 1);
}

static void who_may_not_wait_is_told_of_silence(void **state)
{
    struct world *w = *state;
    struct counter_request at_once = within(0);
    struct asker a = {0};

    create(w, (struct counter_client_settings){.answer_timeout_ms = BRIEF_MS});
    begin(w, &a, &at_once);
    check_unreachable(&a, COUNTER_TROUBLE_SILENT);
    raw_await_end(w->f.loop, &w->peer);
}

static void a_wait_that_ends_here_shows_whether_the_daemon_lives(void **state)
{
    struct world *w = *state;
    struct counter_request brief = within(BRIEF_MS);
    struct asker a = {0};

    /* It does, and even decides meanwhile: that is nothing against it. */
    for (unsigned i = 0; i < COUNTER_BREAKER_FAILURES_MAX; ++i) {
        begin(w, &a, &brief);
        assert_int_equal(await_answer(&a), COUNTER_RESULT_TIMEOUT);
        raw_await(w->f.loop, &w->peer, "STATS UPTIME\n");
        say(w, i == 0 ? "TIMEOUT\nuptime: 0 days, 0h 0m 1s\n" : "uptime: 0 days, 0h 0m 1s\n");
        raw_await_end(w->f.loop, &w->peer);
    }
    assert_false(view(&w->f).resting);
    /* It does not. */
    create(w, (struct counter_client_settings){.answer_timeout_ms = BRIEF_MS});
    for (unsigned i = 0; i < COUNTER_BREAKER_FAILURES_MAX; ++i) {
        assert_false(view(&w->f).resting);
        begin(w, &a, &brief);
        assert_int_equal(await_answer(&a), COUNTER_RESULT_TIMEOUT);
        raw_await_end(w->f.loop, &w->peer);
    }
    assert_true(view(&w->f).resting);
}

static void a_release_without_answer_ends_its_connection(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    create(w, (struct counter_client_settings){.answer_timeout_ms = BRIEF_MS});
    assert_int_equal(answered_by(w, &a, "LOCKED\n"), COUNTER_RESULT_LOCKED);
    release(&a);
    raw_await_end(w->f.loop, &w->peer);
    assert_int_equal(stats(w)->unreleased, 1);
    assert_int_equal(view(&w->f).connections, 0);
    /* As is one with a wrong answer. */
    assert_int_equal(answered_by(w, &a, "LOCKED\n"), COUNTER_RESULT_LOCKED);
    release(&a);
    say(w, "NOT_LOCKED\n");
    raw_await_end(w->f.loop, &w->peer);
    assert_int_equal(stats(w)->unreleased, 2);
}

/* ---- connecting ---- */

/* A listener whose queue is full: the kernel answers no more connections. */
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
    /* By the call's own time; the attempt goes on, and the breaker hears of it. */
    acquire(&w->f, &a, &brief);
    check_unreachable(&a, COUNTER_TROUBLE_CONNECT_TIMEOUT);
    assert_int_equal(view(&w->f).connections, 1);
    /* By the time to connect. */
    create(w, (struct counter_client_settings){.connect_timeout_ms = BRIEF_MS});
    for (unsigned i = 0; i < COUNTER_BREAKER_FAILURES_MAX; ++i) {
        acquire(&w->f, &a, &waiting);
        check_unreachable(&a, COUNTER_TROUBLE_CONNECT_TIMEOUT);
        assert_int_equal(view(&w->f).connections, 0);
    }
    assert_true(view(&w->f).resting);
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
    assert_false(a.told);
    acquire(&w->f, &a, &waiting);
    accept_next(w);
    raw_await(w->f.loop, &w->peer, "ACQ4ME page:1 1 10 60\n");
    assert_int_equal(stats(w)->reused, 1);
    assert_int_equal(stats(w)->opened, 1);
    leave(&a);
    raw_await_end(w->f.loop, &w->peer);
}

/* ---- kept connections ---- */

static void a_kept_connection_that_ends_or_speaks_is_not_used(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    keep_one(w);
    raw_close(&w->peer);
    await_connections(&w->f, 0);
    keep_one(w);
    say(w, "LOCKED\n");
    await_connections(&w->f, 0);
    /* Also when the loop had no time to see it. */
    keep_one(w);
    raw_reset(&w->peer);
    assert_int_equal(answered_by(w, &a, "LOCKED\n"), COUNTER_RESULT_LOCKED);
    release(&a);
    assert_int_equal(stats(w)->lost, 0);
    assert_int_equal(stats(w)->results[COUNTER_RESULT_UNREACHABLE], 0);
}

static void a_kept_connection_that_ends_without_answer_is_tried_once_anew(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    keep_one(w);
    acquire(&w->f, &a, &waiting);
    raw_await(w->f.loop, &w->peer, "ACQ4ME page:1 1 10 60\n");
    raw_reset(&w->peer);
    accept_next(w);
    raw_await(w->f.loop, &w->peer, "ACQ4ME page:1 1 10 60\n");
    assert_false(a.told);
    say(w, "QUEUE_FULL\n");
    assert_int_equal(await_answer(&a), COUNTER_RESULT_QUEUE_FULL);
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
    check_unreachable(&a, COUNTER_TROUBLE_CLOSED);
    assert_int_equal(stats(w)->repeated, 2);
    assert_int_equal(stats(w)->opened, 3);
}

static void a_kept_connection_that_ends_within_an_answer_is_not_tried_anew(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    keep_one(w);
    acquire(&w->f, &a, &waiting);
    raw_await(w->f.loop, &w->peer, "\n");
    say(w, "LOCK");
    raw_close(&w->peer);
    check_unreachable(&a, COUNTER_TROUBLE_CLOSED);
    assert_int_equal(stats(w)->repeated, 0);
}

static void what_is_asked_anew_gets_no_more_time(void **state)
{
    struct world *w = *state;
    struct counter_request brief = within(200);
    struct asker a = {0};

    keep_one(w);
    acquire(&w->f, &a, &brief);
    raw_await(w->f.loop, &w->peer, "\n");
    raw_close(&w->peer);
    uint64_t from_us = clock_mono_us();
    accept_next(w);
    raw_await(w->f.loop, &w->peer, "ACQ4ME page:1 1 10 1\n");
    assert_int_equal(await_answer(&a), COUNTER_RESULT_TIMEOUT);
    assert_true(a.call.due_ms <= from_us / 1000 + 200);
}

/* ---- held ---- */

static void a_lock_whose_connection_ends_or_speaks_is_lost(void **state)
{
    struct world *w = *state;

    for (unsigned i = 0; i < 3; ++i) {
        struct asker a = {0};
        assert_int_equal(answered_by(w, &a, "LOCKED\n"), COUNTER_RESULT_LOCKED);
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

/* ---- rest ---- */

static void a_server_that_rested_is_greeted_before_anybody_queues_there(void **state)
{
    struct world *w = *state;
    struct asker a = {0};
    struct asker b = {0};

    for (unsigned i = 0; i < COUNTER_BREAKER_FAILURES_MAX; ++i)
        assert_int_equal(answered_by(w, &a, "?\n"), COUNTER_RESULT_UNREACHABLE);
    assert_true(view(&w->f).resting);
    for (unsigned round = 0; round < 2; ++round) {
        /* The rest is over when a connection is made. */
        uint64_t deadline_us = clock_mono_us() + RAW_DEADLINE_MS * UINT64_C(1000);
        uint64_t opened = stats(w)->opened;
        while (acquire(&w->f, &a, &waiting), stats(w)->opened == opened) {
            check_unreachable(&a, COUNTER_TROUBLE_RESTING);
            assert_true(clock_mono_us() < deadline_us);
            loop_turn(w->f.loop, RAW_TURN_MS);
        }
        accept_next(w);
        raw_await(w->f.loop, &w->peer, "STATS UPTIME\n");
        /* Meanwhile nobody else goes. */
        acquire(&w->f, &b, &waiting);
        check_unreachable(&b, COUNTER_TROUBLE_RESTING);
        if (round == 0) {
            say(w, "LOCKED\n");
            check_unreachable(&a, COUNTER_TROUBLE_FAULT);
            assert_int_equal(stats(w)->rests, 2);
        }
    }
    say(w, "uptime: 0 days, 0h 0m 1s\n");
    raw_await(w->f.loop, &w->peer, "ACQ4ME page:1 1 10 60\n");
    /* While it waits, all is well for the others. */
    assert_false(view(&w->f).resting);
    say(w, "LOCKED\n");
    assert_int_equal(await_answer(&a), COUNTER_RESULT_LOCKED);
    release(&a);
}

static void a_greeting_whose_asker_has_left_still_ends_the_rest(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    for (unsigned i = 0; i < COUNTER_BREAKER_FAILURES_MAX; ++i)
        assert_int_equal(answered_by(w, &a, "?\n"), COUNTER_RESULT_UNREACHABLE);
    uint64_t opened = stats(w)->opened;
    uint64_t deadline_us = clock_mono_us() + RAW_DEADLINE_MS * UINT64_C(1000);
    while (acquire(&w->f, &a, &waiting), stats(w)->opened == opened) {
        check_unreachable(&a, COUNTER_TROUBLE_RESTING);
        assert_true(clock_mono_us() < deadline_us);
        loop_turn(w->f.loop, RAW_TURN_MS);
    }
    accept_next(w);
    raw_await(w->f.loop, &w->peer, "STATS UPTIME\n");
    leave(&a);
    say(w, "uptime: 0 days, 0h 0m 1s\n");
    await_idle(&w->f, 1);
    assert_false(view(&w->f).resting);
}

/* ---- owners ---- */

struct last_asker {
    struct counter_call call;
    struct fixture *f;
    bool told;
};

static void destroy_all(struct counter_call *c, enum counter_result r)
{
    struct last_asker *a = container_of(c, struct last_asker, call);
    struct fixture *f = a->f;

    assert_int_equal(r, COUNTER_RESULT_QUEUE_FULL);
    counter_client_destroy(f->client);
    f->client = NULL;
    ++f->answers;
    free(a);
}

static bool was_answered(void *context)
{
    return ((struct fixture *)context)->answers != 0;
}

static void the_last_answer_may_be_the_end_of_everything(void **state)
{
    struct world *w = *state;
    struct last_asker *a = calloc(1, sizeof(*a));

    a->f = &w->f;
    a->call.answered = destroy_all;
    counter_client_acquire(w->f.client, &a->call, &waiting);
    accept_next(w);
    raw_await(w->f.loop, &w->peer, "\n");
    say(w, "QUEUE_FULL\n");
    raw_turn_until(w->f.loop, was_answered, &w->f);
    raw_await_end(w->f.loop, &w->peer);
}

static void whoever_leaves_before_the_loop_turns_hears_nothing(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    counter_client_set_servers(w->f.client, NULL, 0);
    acquire(&w->f, &a, &waiting);
    leave(&a);
    for (unsigned i = 0; i < 3; ++i)
        loop_turn(w->f.loop, 0);
    assert_false(a.told);
    leave(&a); /* free already */
    acquire(&w->f, &a, &waiting);
    check_unreachable(&a, COUNTER_TROUBLE_NO_SERVER);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(requests_tell_whole_seconds_rounded_up),
        CASE(a_reply_may_come_byte_by_byte),
        CASE(what_is_no_decision_leaves_the_key_unreachable),
        CASE(nul_bytes_are_no_decision),
        CASE(an_end_instead_of_an_answer_leaves_the_key_unreachable),
        CASE(no_silence_is_longer_than_the_wait),
        CASE(who_may_not_wait_is_told_of_silence),
        CASE(a_wait_that_ends_here_shows_whether_the_daemon_lives),
        CASE(a_release_without_answer_ends_its_connection),
        CASE(a_connection_that_does_not_come_about_is_given_up_in_time),
        CASE(a_connection_whose_asker_leaves_is_kept_for_the_next),
        CASE(a_kept_connection_that_ends_or_speaks_is_not_used),
        CASE(a_kept_connection_that_ends_without_answer_is_tried_once_anew),
        CASE(a_kept_connection_that_ends_within_an_answer_is_not_tried_anew),
        CASE(what_is_asked_anew_gets_no_more_time),
        CASE(a_lock_whose_connection_ends_or_speaks_is_lost),
        CASE(a_server_that_rested_is_greeted_before_anybody_queues_there),
        CASE(a_greeting_whose_asker_has_left_still_ends_the_rest),
        CASE(the_last_answer_may_be_the_end_of_everything),
        CASE(whoever_leaves_before_the_loop_turns_hears_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
