/* SPDX-License-Identifier: Apache-2.0
 *
 * The client to pool counter daemons: servers that rest, waits that end here and there, owners.
 */
#include "tests/unit/counters/counter_played.h"

#include <stdio.h>
#include <sys/resource.h>

/* ---- suspension ---- */

/* The probe at the end of a rest, which no call asks for. */
static void accept_probe(struct world *w)
{
    accept_next(w);
    raw_await(w->f.loop, &w->peer, "STATS UPTIME\n");
}

static bool is_well(void *context)
{
    return !view(context).suspended;
}

static void a_suspended_server_is_probed_before_any_call_is_sent(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    for (unsigned i = 0; i < POOL_COUNTER_FAILURES_MAX; ++i)
        assert_int_equal(responded_by(w, &a, "?\n"), COUNTER_UNREACHABLE);
    assert_true(view(&w->f).suspended);
    for (unsigned round = 0; round < 2; ++round) {
        accept_probe(w);
        acquire(&w->f, &a, &waiting);
        check_unreachable(&a, POOL_COUNTER_TROUBLE_SUSPENDED);
        if (round == 0) {
            say(w, "LOCKED\n");
            raw_await_end(w->f.loop, &w->peer);
            assert_int_equal(stats(w)->suspensions, 2);
        }
    }
    say(w, "uptime: 0 days, 0h 0m 1s\n");
    raw_turn_until(w->f.loop, is_well, &w->f);
    acquire(&w->f, &a, &waiting);
    raw_await(w->f.loop, &w->peer, "ACQ4ME page:1 1 10 60\n");
    say(w, "LOCKED\n");
    assert_int_equal(await_response(&a), COUNTER_LOCKED);
    release(&a);
}

/* ---- servers that go ---- */

static void connections_of_a_server_that_goes_are_closed_when_they_are_free(void **state)
{
    struct world *w = *state;
    struct asker waits = {0};
    struct asker holds = {0};

    assert_int_equal(responded_by(w, &holds, "LOCKED\n"), COUNTER_LOCKED);
    struct raw_peer holder = w->peer;
    raw_init(&w->peer);
    begin(w, &waits, &waiting);
    pool_counter_client_set_servers(w->f.client, NULL, 0);
    say(w, "QUEUE_FULL\n");
    assert_int_equal(await_response(&waits), COUNTER_QUEUE_FULL);
    raw_await_end(w->f.loop, &w->peer);
    release(&holds);
    raw_await(w->f.loop, &holder, "RELEASE\n");
    assert_false(holder.ended);
    raw_send(w->f.loop, &holder, "RELEASED\n");
    raw_await_end(w->f.loop, &holder);
    assert_int_equal(stats(w)->unreleased, 0);
    raw_fini(&holder);
}

static void an_idle_connection_ends_with_its_server(void **state)
{
    struct world *w = *state;

    keep_one(w);
    pool_counter_client_set_servers(w->f.client, NULL, 0);
    raw_await_end(w->f.loop, &w->peer);
}

/* ---- owners ---- */

struct last_asker {
    struct pool_counter_call call;
    struct fixture *f;
    bool reported;
};

static void destroy_all(struct pool_counter_call *c, enum counter_result r)
{
    struct last_asker *a = container_of(c, struct last_asker, call);
    struct fixture *f = a->f;

    assert_int_equal(r, COUNTER_QUEUE_FULL);
    pool_counter_client_destroy(f->client);
    f->client = NULL;
    ++f->responses;
    free(a);
}

static bool was_responded(void *context)
{
    return ((struct fixture *)context)->responses != 0;
}

static void the_last_response_may_be_the_end_of_everything(void **state)
{
    struct world *w = *state;
    struct last_asker *a = calloc(1, sizeof(*a));

    a->f = &w->f;
    a->call.responded = destroy_all;
    pool_counter_client_acquire(w->f.client, &a->call, &waiting);
    accept_next(w);
    raw_await(w->f.loop, &w->peer, "\n");
    say(w, "QUEUE_FULL\n");
    raw_turn_until(w->f.loop, was_responded, &w->f);
    raw_await_end(w->f.loop, &w->peer);
}

static void a_call_that_leaves_before_the_loop_turns_receives_nothing(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    pool_counter_client_set_servers(w->f.client, NULL, 0);
    acquire(&w->f, &a, &waiting);
    leave(&a);
    for (unsigned i = 0; i < 3; ++i)
        loop_turn(w->f.loop, 0);
    assert_false(a.reported);
    leave(&a); /* free already */
    acquire(&w->f, &a, &waiting);
    check_unreachable(&a, POOL_COUNTER_TROUBLE_NO_SERVER);
}

static void allow_descriptors(bool more)
{
    struct rlimit limit;
    int next = 0;

    /* The lowest free one is the first that is rejected. */
    while (fcntl(next, F_GETFD) != -1)
        ++next;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = more ? limit.rlim_max : (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static bool was_probed(void *context)
{
    const struct world *w = context;

    return stats(w)->probes != 0 && view(&w->f).connections == 0;
}

static void a_probe_for_which_there_is_no_descriptor_does_not_end_all_probes(void **state)
{
    struct world *w = *state;
    struct asker a = {0};

    for (unsigned i = 0; i < POOL_COUNTER_FAILURES_MAX; ++i)
        assert_int_equal(responded_by(w, &a, "?\n"), COUNTER_UNREACHABLE);
    raw_close(&w->peer);
    allow_descriptors(false);
    raw_turn_until(w->f.loop, was_probed, w);
    allow_descriptors(true);
    assert_int_equal(stats(w)->suspensions, 1); /* it is not the server's fault */
    accept_probe(w);
}

/* ---- waits that the daemon is about to end itself ---- */

static void a_late_lock_is_not_kept(void **state)
{
    static const struct {
        const char *word;
        unsigned connections;
    } late[] = {{"TIMEOUT\n", 1}, {"LOCKED\n", 0}};
    struct counter_request second = within(1000);
    struct world *w = *state;

    for (size_t i = 0; i < ARRAY_LEN(late); ++i) {
        struct asker a = {0};
        keep_one(w);
        acquire(&w->f, &a, &second);
        raw_await(w->f.loop, &w->peer, "ACQ4ME page:1 1 10 1\n");
        assert_int_equal(await_response(&a), COUNTER_TIMEOUT);
        assert_int_equal(view(&w->f).idle, 0);
        say(w, late[i].word);
        await_connections(&w->f, late[i].connections);
        await_idle(&w->f, late[i].connections);
        raw_close(&w->peer);
        await_connections(&w->f, 0);
    }
}

static void a_daemon_that_does_not_end_a_wait_is_known_as_silent(void **state)
{
    struct counter_request second = within(1000);
    struct world *w = *state;
    struct asker a[POOL_COUNTER_FAILURES_MAX] = {0};

    create(w, (struct pool_counter_client_settings){.connect_timeout_ms = LONG_MS,
                                                    .response_timeout_ms = 1100});
    for (size_t i = 0; i < ARRAY_LEN(a); ++i)
        acquire(&w->f, &a[i], &second);
    for (size_t i = 0; i < ARRAY_LEN(a); ++i)
        assert_int_equal(await_response(&a[i]), COUNTER_TIMEOUT);
    assert_false(view(&w->f).suspended);
    await_connections(&w->f, 0);
    assert_true(view(&w->f).suspended);
}

/* ---- unix sockets ---- */

static void a_daemon_may_listen_on_a_unix_socket(void **state)
{
    struct world *w = *state;
    struct asker a = {0};
    char name[ADDR_TEXT_MAX];

    close(w->listener);
    snprintf(name, sizeof(name), "unix:@rlb-counter-%d", (int)getpid());
    assert_int_equal(addr_parse(slice_of(name), &w->addr), ERR_OK);
    struct addr_listen_options o = {.backlog = 4};
    assert_int_equal(addr_listen(&w->addr, &o, &w->listener), ERR_OK);
    create(w, (struct pool_counter_client_settings){.response_timeout_ms = LONG_MS});
    keep_one(w);
    close(w->listener);
    w->listener = -1;
    raw_close(&w->peer);
    await_connections(&w->f, 0);
    acquire(&w->f, &a, &waiting);
    check_unreachable(&a, POOL_COUNTER_TROUBLE_CONNECT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_suspended_server_is_probed_before_any_call_is_sent),
        CASE(connections_of_a_server_that_goes_are_closed_when_they_are_free),
        CASE(an_idle_connection_ends_with_its_server),
        CASE(a_probe_for_which_there_is_no_descriptor_does_not_end_all_probes),
        CASE(the_last_response_may_be_the_end_of_everything),
        CASE(a_call_that_leaves_before_the_loop_turns_receives_nothing),
        CASE(a_late_lock_is_not_kept),
        CASE(a_daemon_that_does_not_end_a_wait_is_known_as_silent),
        CASE(a_daemon_may_listen_on_a_unix_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
