/* SPDX-License-Identifier: Apache-2.0
 *
 * The client to pool counter daemons, against real ones.
 */
#include "common/counters/pool_counter_health.h"
#include "tests/support/poolcounterd.h"
#include "tests/unit/counters/pool_counter_client_fixture.h"

#include <stdio.h>

enum { LONG_MS = 10000 };

struct world {
    struct fixture f;
    struct poolcounterd daemon;
};

static const struct counter_request waiting = {
    .key = {"page:1", 6},
    .kind = COUNTER_ME,
    .workers = 1,
    .maxqueue = 10,
    .timeout_ms = LONG_MS,
};

static struct counter_request with_key(struct slice key)
{
    struct counter_request r = waiting;

    r.key = key;
    return r;
}

static struct counter_request of_kind(enum counter_kind kind)
{
    struct counter_request r = waiting;

    r.kind = kind;
    return r;
}

static struct counter_request within(uint64_t timeout_ms)
{
    struct counter_request r = waiting;

    r.timeout_ms = timeout_ms;
    return r;
}

static struct counter_request queued(uint32_t maxqueue, uint64_t timeout_ms)
{
    struct counter_request r = within(timeout_ms);

    r.maxqueue = maxqueue;
    return r;
}

/* Patient, as it shares the machine with others. */
static const struct pool_counter_client_settings patient = {
    .connect_timeout_ms = 5000,
    .response_timeout_ms = 5000,
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    fixture_open(&w->f);
    poolcounterd_start(&w->daemon);
    create_client(&w->f, &w->daemon.addr, patient);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    fixture_close(&w->f);
    poolcounterd_end(&w->daemon);
    free(w);
    return 0;
}

/* Until CALL's place in the daemon's queue can be seen: one more than MAXQUEUE - 1 are in it. */
static void await_queue(struct fixture *f, uint32_t count)
{
    struct counter_request r = queued(count, 0);
    struct asker probe = {0};

    while (ask(f, &probe, &r) != COUNTER_QUEUE_FULL)
        assert_int_equal(probe.result, COUNTER_TIMEOUT);
}

/* ---- the ordinary ---- */

static void a_lock_is_had_and_its_connection_idle_for_the_next(void **state)
{
    struct fixture *f = *state;
    struct asker a = {0};

    for (unsigned i = 0; i < 5; ++i) {
        assert_int_equal(ask(f, &a, &waiting), COUNTER_LOCKED);
        assert_int_equal(view(f).idle, 0);
        release(&a);
        await_idle(f, 1);
    }
    assert_int_equal(pool_counter_client_stats(f->client)->opened, 1);
    assert_int_equal(pool_counter_client_stats(f->client)->reused, 4);
    assert_int_equal(pool_counter_client_stats(f->client)->unreleased, 0);
}

static void the_second_asker_waits_for_the_first_one_to_release(void **state)
{
    struct fixture *f = *state;
    struct asker first = {0};
    struct asker second = {0};

    assert_int_equal(ask(f, &first, &waiting), COUNTER_LOCKED);
    acquire(f, &second, &waiting);
    await_queue(f, 2);
    assert_false(second.reported);
    release(&first);
    assert_int_equal(await_response(&second), COUNTER_LOCKED);
    release(&second);
    await_idle(f, view(f).connections);
}

static void a_full_queue_and_a_wait_that_is_not_wanted_are_reported_at_once(void **state)
{
    struct fixture *f = *state;
    struct counter_request full = queued(1, LONG_MS);
    struct counter_request at_once = within(0);
    struct asker holder = {0};
    struct asker other = {0};

    assert_int_equal(ask(f, &holder, &at_once), COUNTER_LOCKED);
    assert_int_equal(ask(f, &other, &full), COUNTER_QUEUE_FULL);
    assert_int_equal(ask(f, &other, &at_once), COUNTER_TIMEOUT);
    assert_int_equal(view(f).idle, 1); /* both over the same connection */
    assert_int_equal(pool_counter_client_stats(f->client)->opened, 2);
    release(&holder);
}

static void a_release_notifies_calls_that_take_any_result(void **state)
{
    struct fixture *f = *state;
    struct counter_request any = of_kind(COUNTER_ANY);
    struct asker holder = {0};
    struct asker waiters[3] = {0};

    assert_int_equal(ask(f, &holder, &any), COUNTER_LOCKED);
    for (unsigned i = 0; i < 3; ++i)
        acquire(f, &waiters[i], &any);
    await_queue(f, 4);
    release(&holder);
    for (unsigned i = 0; i < 3; ++i)
        assert_int_equal(await_response(&waiters[i]), COUNTER_DONE);
    /* Nothing is held, and nothing waits: every connection is to be had again. */
    await_idle(f, view(f).connections);
}

static void
one_that_leaves_without_having_worked_is_followed_by_one_of_those_that_wait(void **state)
{
    struct fixture *f = *state;
    struct counter_request any = of_kind(COUNTER_ANY);
    struct asker holder = {0};
    struct asker first = {0};
    struct asker second = {0};

    assert_int_equal(ask(f, &holder, &any), COUNTER_LOCKED);
    acquire(f, &first, &any);
    await_queue(f, 2);
    acquire(f, &second, &any);
    await_queue(f, 3);
    leave(&holder);
    assert_int_equal(await_response(&first), COUNTER_LOCKED);
    assert_false(second.reported);
    release(&first);
    assert_int_equal(await_response(&second), COUNTER_DONE);
}

static void a_call_that_leaves_while_it_waits_frees_its_place_in_the_queue(void **state)
{
    struct fixture *f = *state;
    struct counter_request two = queued(2, 0);
    struct asker holder = {0};
    struct asker waiter = {0};
    struct asker probe = {0};

    assert_int_equal(ask(f, &holder, &waiting), COUNTER_LOCKED);
    acquire(f, &waiter, &waiting);
    await_queue(f, 2);
    leave(&waiter);
    /* The queue of two has room again: a request with timeout 0 then gets TIMEOUT. */
    uint64_t deadline_us = clock_mono_us() + RAW_DEADLINE_MS * UINT64_C(1000);
    while (ask(f, &probe, &two) != COUNTER_TIMEOUT) {
        assert_int_equal(probe.result, COUNTER_QUEUE_FULL);
        assert_true(clock_mono_us() < deadline_us);
    }
    assert_false(waiter.reported);
    release(&holder);
}

/* ---- time ---- */

static void a_wait_ends_at_its_own_time_within_the_second(void **state)
{
    struct fixture *f = *state;
    struct counter_request longer = within(450);
    struct counter_request shorter = within(150);
    struct asker holder = {0};
    struct asker a = {0};
    struct asker b = {0};

    assert_int_equal(ask(f, &holder, &waiting), COUNTER_LOCKED);
    uint64_t from_us = clock_mono_us();
    acquire(f, &a, &longer);
    acquire(f, &b, &shorter); /* both are sent to the daemon with a timeout of one second */
    assert_int_equal(await_response(&b), COUNTER_TIMEOUT);
    assert_true(clock_mono_us() - from_us >= UINT64_C(150000));
    assert_int_equal(await_response(&a), COUNTER_TIMEOUT);
    assert_true(clock_mono_us() - from_us >= UINT64_C(450000));
    assert_true(b.order < a.order);
    /* Both have left: their connections end when the daemon has shown that it lives. */
    await_connections(f, 1);
    assert_int_equal(pool_counter_client_stats(f->client)->suspensions, 0);
    release(&holder);
    await_idle(f, 1);
}

static void a_wait_of_whole_seconds_is_ended_by_the_daemon_and_costs_no_connection(void **state)
{
    struct fixture *f = *state;
    struct counter_request second = within(1000);
    struct asker holder = {0};
    struct asker a = {0};

    assert_int_equal(ask(f, &holder, &waiting), COUNTER_LOCKED);
    /* Over a connection that is there, so that both clocks begin together. */
    await_queue(f, 1);
    await_idle(f, 1);
    assert_int_equal(ask(f, &a, &second), COUNTER_TIMEOUT);
    await_idle(f, 1);
    assert_int_equal(pool_counter_client_stats(f->client)->opened, 2);
    release(&holder);
}

/* ---- keys ---- */

static void keys_of_any_bytes_are_different_keys(void **state)
{
    struct fixture *f = *state;
    struct asker askers[10] = {0};
    char longest[3][3000];

    memset(longest, 'x', sizeof(longest));
    longest[0][2999] = 'a';
    longest[1][2999] = 'b';
    memset(longest[2], '\n', sizeof(longest[2]));
    const struct slice keys[10] = {
        SLICE_LIT("a b"),
        SLICE_LIT("a%20b"),
        SLICE_LIT("a\tb"),
        SLICE_LIT("a\nRELEASE\nb"),
        SLICE_LIT("\0"),
        SLICE_NULL,
        SLICE_LIT("\xff 1 1 1"),
        {longest[0], sizeof(longest[0])},
        {longest[1], sizeof(longest[1])},
        {longest[2], sizeof(longest[2])},
    };
    for (unsigned i = 0; i < 10; ++i) {
        struct counter_request r = with_key(keys[i]);
        r.timeout_ms = 0;
        assert_int_equal(ask(f, &askers[i], &r), COUNTER_LOCKED);
    }
    for (unsigned i = 0; i < 10; ++i) {
        struct counter_request r = with_key(keys[i]);
        struct asker again = {0};
        r.timeout_ms = 0;
        assert_int_equal(ask(f, &again, &r), COUNTER_TIMEOUT);
    }
    for (unsigned i = 0; i < 10; ++i)
        release(&askers[i]);
}

/* ---- a daemon that goes ---- */

static void a_lock_is_lost_with_its_daemon_and_its_release_does_nothing(void **state)
{
    struct world *w = *state;
    struct fixture *f = &w->f;
    struct asker a = {0};

    assert_int_equal(ask(f, &a, &waiting), COUNTER_LOCKED);
    poolcounterd_kill(&w->daemon);
    raw_turn_until_set(f->loop, &a.lost);
    assert_int_equal(pool_counter_client_stats(f->client)->lost, 1);
    poolcounterd_restart(&w->daemon);
    release(&a);
    assert_int_equal(ask(f, &a, &waiting), COUNTER_LOCKED);
    release(&a);
    await_idle(f, 1);
}

static void a_waiting_call_is_notified_when_the_daemon_exits(void **state)
{
    struct world *w = *state;
    struct fixture *f = &w->f;
    struct asker holder = {0};
    struct asker waiter = {0};

    assert_int_equal(ask(f, &holder, &waiting), COUNTER_LOCKED);
    acquire(f, &waiter, &waiting);
    await_queue(f, 2);
    poolcounterd_kill(&w->daemon);
    /* On any connection: a new one is closed; on an idle one the request is retried and rejected.
     */
    assert_int_equal(await_response(&waiter), COUNTER_UNREACHABLE);
    assert_true(waiter.call.why == POOL_COUNTER_TROUBLE_CLOSED ||
                waiter.call.why == POOL_COUNTER_TROUBLE_CONNECT);
    raw_turn_until_set(f->loop, &holder.lost);
    leave(&holder);
}

static void idle_connections_do_not_outlive_their_daemon(void **state)
{
    struct world *w = *state;
    struct fixture *f = &w->f;
    struct asker a = {0};

    for (unsigned i = 0; i < 10; ++i) {
        assert_int_equal(ask(f, &a, &waiting), COUNTER_LOCKED);
        release(&a);
        await_idle(f, 1);
        poolcounterd_kill(&w->daemon);
        poolcounterd_restart(&w->daemon);
        if (i % 2 == 0)
            await_idle(f, 0);
    }
}

static void a_server_that_rejects_is_left_alone_and_found_when_it_is_back(void **state)
{
    struct world *w = *state;
    struct fixture *f = &w->f;
    struct asker a = {0};

    poolcounterd_kill(&w->daemon);
    for (unsigned i = 0; i < POOL_COUNTER_FAILURES_MAX; ++i) {
        assert_int_equal(ask(f, &a, &waiting), COUNTER_UNREACHABLE);
        assert_int_equal(a.call.why, POOL_COUNTER_TROUBLE_CONNECT);
    }
    assert_int_equal(ask(f, &a, &waiting), COUNTER_UNREACHABLE);
    assert_int_equal(a.call.why, POOL_COUNTER_TROUBLE_SUSPENDED);
    assert_true(view(f).suspended);
    assert_int_equal(pool_counter_client_stats(f->client)->opened, POOL_COUNTER_FAILURES_MAX);
    assert_int_equal(pool_counter_client_stats(f->client)->suspensions, 1);
    poolcounterd_restart(&w->daemon);
    uint64_t deadline_us = clock_mono_us() + RAW_DEADLINE_MS * UINT64_C(1000);
    while (ask(f, &a, &waiting) != COUNTER_LOCKED) {
        assert_int_equal(a.call.why, POOL_COUNTER_TROUBLE_SUSPENDED);
        assert_true(clock_mono_us() < deadline_us);
    }
    assert_false(view(f).suspended);
    release(&a);
}

static void a_daemon_that_has_stopped_is_left_alone_and_found_when_it_continues(void **state)
{
    struct world *w = *state;
    struct fixture *f = &w->f;
    struct counter_request brief = within(20);
    struct asker a = {0};

    pool_counter_client_destroy(f->client);
    create_client(f, &w->daemon.addr,
                  (struct pool_counter_client_settings){.response_timeout_ms = 100});
    poolcounterd_stop(&w->daemon);
    /* It accepts all the same, for the kernel does. */
    uint64_t deadline_us = clock_mono_us() + RAW_DEADLINE_MS * UINT64_C(1000);
    while (ask(f, &a, &brief) == COUNTER_TIMEOUT)
        assert_true(clock_mono_us() < deadline_us);
    assert_int_equal(a.result, COUNTER_UNREACHABLE);
    /* It may have been waiting there when the others' silence was noticed. */
    if (a.call.why == POOL_COUNTER_TROUBLE_SILENT)
        assert_int_equal(ask(f, &a, &brief), COUNTER_UNREACHABLE);
    assert_int_equal(a.call.why, POOL_COUNTER_TROUBLE_SUSPENDED);
    kill(w->daemon.pid, SIGCONT);
    while (ask(f, &a, &waiting) != COUNTER_LOCKED) {
        assert_int_equal(a.result, COUNTER_UNREACHABLE);
        assert_true(clock_mono_us() < deadline_us);
    }
    release(&a);
}

/* ---- limits, and servers that change ---- */

static void a_call_that_finds_all_connections_taken_learns_so(void **state)
{
    struct world *w = *state;
    struct fixture *f = &w->f;
    struct pool_counter_client_settings s = patient;
    struct asker a[2] = {0};
    struct asker late = {0};

    pool_counter_client_destroy(f->client);
    pool_counter_health_set_connections(f->health, 2);
    create_client(f, &w->daemon.addr, s);
    assert_int_equal(ask(f, &a[0], &waiting), COUNTER_LOCKED);
    acquire(f, &a[1], &waiting);
    assert_int_equal(ask(f, &late, &waiting), COUNTER_NO_ROOM);
    release(&a[0]);
    assert_int_equal(await_response(&a[1]), COUNTER_LOCKED);
    await_idle(f, 1);
    assert_int_equal(
        ask(f, &late,
            &(struct counter_request){
                .key = SLICE_LIT("other"), .workers = 1, .maxqueue = 1, .timeout_ms = LONG_MS}),
        COUNTER_LOCKED);
    release(&a[1]);
    release(&late);
}

static void idle_connections_over_the_limit_are_closed(void **state)
{
    struct world *w = *state;
    struct fixture *f = &w->f;
    struct pool_counter_client_settings s = patient;
    struct asker a[8] = {0};

    pool_counter_client_destroy(f->client);
    s.max_idle = 3;
    create_client(f, &w->daemon.addr, s);
    struct counter_request many = waiting;
    many.workers = 8;
    for (unsigned i = 0; i < 8; ++i)
        assert_int_equal(ask(f, &a[i], &many), COUNTER_LOCKED);
    for (unsigned i = 0; i < 8; ++i)
        release(&a[i]);
    await_connections(f, 3);
    assert_int_equal(view(f).idle, 3);
}

static void an_idle_connection_is_closed_when_none_wants_it(void **state)
{
    struct world *w = *state;
    struct fixture *f = &w->f;
    struct pool_counter_client_settings s = patient;
    struct asker a = {0};

    pool_counter_client_destroy(f->client);
    s.idle_ms = 20;
    create_client(f, &w->daemon.addr, s);
    assert_int_equal(ask(f, &a, &waiting), COUNTER_LOCKED);
    release(&a);
    await_connections(f, 0);
}

static void a_lock_stays_when_its_server_goes(void **state)
{
    struct world *w = *state;
    struct fixture *f = &w->f;
    struct poolcounterd second = {0};
    struct asker a = {0};
    struct asker b = {0};

    poolcounterd_start(&second);
    const struct pool_counter_server_address two = {SLICE_LIT("two"), second.addr};
    const struct pool_counter_server_address one = {SLICE_LIT("one"), w->daemon.addr};
    assert_int_equal(ask(f, &a, &waiting), COUNTER_LOCKED);
    acquire(f, &b, &waiting);
    await_queue(f, 2);
    pool_counter_client_set_servers(f->client, &two, 1);
    assert_int_equal(pool_counter_health_view(f->health, two.name, &two.addr, 0).connections, 0);
    /* The key now belongs to the other server; the waiter at the first one still waits there. */
    struct asker c = {0};
    assert_int_equal(ask(f, &c, &waiting), COUNTER_LOCKED);
    assert_false(a.lost);
    assert_false(b.reported);
    release(&a);
    assert_int_equal(await_response(&b), COUNTER_LOCKED);
    pool_counter_client_set_servers(f->client, &one, 1);
    pool_counter_client_set_servers(f->client, NULL, 0);
    struct asker nobody = {0};
    assert_int_equal(ask(f, &nobody, &waiting), COUNTER_UNREACHABLE);
    assert_int_equal(nobody.call.why, POOL_COUNTER_TROUBLE_NO_SERVER);
    release(&c);
    leave(&b);
    poolcounterd_end(&second);
}

static void a_server_that_stays_keeps_its_connections(void **state)
{
    struct world *w = *state;
    struct fixture *f = &w->f;
    struct asker a = {0};
    const struct pool_counter_server_address both[2] = {
        {SLICE_LIT("zero"), w->daemon.addr},
        {SLICE_LIT("one"), w->daemon.addr},
    };

    assert_int_equal(ask(f, &a, &waiting), COUNTER_LOCKED);
    release(&a);
    await_idle(f, 1);
    pool_counter_client_set_servers(f->client, both, 2);
    assert_int_equal(
        pool_counter_health_view(f->health, both[0].name, &both[0].addr, 0).connections, 0);
    assert_int_equal(view(f).idle, 1);
    /* Another address under the same name is another server. */
    struct pool_counter_server_address moved = both[1];
    assert_int_equal(addr_parse(SLICE_LIT("127.0.0.1:1"), &moved.addr), ERR_OK);
    pool_counter_client_set_servers(f->client, &moved, 1);
    assert_int_equal(pool_counter_health_view(f->health, moved.name, &moved.addr, 0).connections,
                     0);
    assert_int_equal(view(f).connections, 0);
}

static void names_are_checked(void **state)
{
    struct pool_counter_server_address s[POOL_COUNTER_SERVERS_MAX + 1];
    char names[POOL_COUNTER_SERVERS_MAX + 1][8];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(s); ++i) {
        snprintf(names[i], sizeof(names[i]), "s%zu", i);
        s[i] = (struct pool_counter_server_address){.name = slice_of(names[i])};
    }
    assert_int_equal(pool_counter_servers_check(s, POOL_COUNTER_SERVERS_MAX), ERR_OK);
    assert_int_equal(pool_counter_servers_check(s, POOL_COUNTER_SERVERS_MAX + 1), ERR_TOO_LARGE);
    s[1].name = s[0].name;
    assert_int_equal(pool_counter_servers_check(s, 2), ERR_EXISTS);
    s[1].name = SLICE_LIT("");
    assert_int_equal(pool_counter_servers_check(s, 2), ERR_RANGE);
    s[1].name = SLICE_LIT("a b");
    assert_int_equal(pool_counter_servers_check(s, 2), ERR_SYNTAX);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_lock_is_had_and_its_connection_idle_for_the_next),
        CASE(the_second_asker_waits_for_the_first_one_to_release),
        CASE(a_full_queue_and_a_wait_that_is_not_wanted_are_reported_at_once),
        CASE(a_release_notifies_calls_that_take_any_result),
        CASE(one_that_leaves_without_having_worked_is_followed_by_one_of_those_that_wait),
        CASE(a_call_that_leaves_while_it_waits_frees_its_place_in_the_queue),
        CASE(a_wait_ends_at_its_own_time_within_the_second),
        CASE(a_wait_of_whole_seconds_is_ended_by_the_daemon_and_costs_no_connection),
        CASE(keys_of_any_bytes_are_different_keys),
        CASE(a_lock_is_lost_with_its_daemon_and_its_release_does_nothing),
        CASE(a_waiting_call_is_notified_when_the_daemon_exits),
        CASE(idle_connections_do_not_outlive_their_daemon),
        CASE(a_server_that_rejects_is_left_alone_and_found_when_it_is_back),
        CASE(a_daemon_that_has_stopped_is_left_alone_and_found_when_it_continues),
        CASE(a_call_that_finds_all_connections_taken_learns_so),
        CASE(idle_connections_over_the_limit_are_closed),
        CASE(an_idle_connection_is_closed_when_none_wants_it),
        CASE(a_lock_stays_when_its_server_goes),
        CASE(a_server_that_stays_keeps_its_connections),
        cmocka_unit_test(names_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
