/* SPDX-License-Identifier: Apache-2.0
 *
 * An application process from the request to the supervisor until it has ended, and the requests
 * that wait for it: start, readiness, crash, max_requests, queues, replacement, stop, adoption.
 */
#include "tests/support/agent_rig.h"
#include "worker-agent/pool/app_pool.h"

#define OK_CLOSED "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n$close"
#define NOT_READY "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n$close"

/* ---- start and readiness ---- */

static void a_process_is_ready_when_its_probe_succeeds(void **state)
{
    struct agent_rig *r = rig_start(.probes = true);

    (void)state;
    rig_process_got(r, 0, "p0", "GET /ready HTTP/1.1\r\nHost: localhost\r\n");
    assert_string_equal(rig_state(r, 0), "starting");
    rig_supervisor_got(r, "spawn p0\n");
    rig_get(r, "/a");
    assert_int_equal(rig_calls(r), 1);
    rig_plan(r, "", RIG_OK);
    rig_respond(r, 0, OK_CLOSED);
    assert_string_equal(rig_state(r, 0), "ready");
    rig_supervisor_got(r, "note p0 ready\n");
    rig_client_got(r, RIG_GOT_OK);
    rig_end(r);
}

static void any_status_below_500_means_ready(void **state)
{
    struct agent_rig *r = rig_start(.probes = true);

    (void)state;
    rig_respond(r, 0, "HTTP/1.1 499 None\r\nContent-Length: 0\r\n\r\n$close");
    assert_string_equal(rig_state(r, 0), "ready");
    rig_end(r);
}

static void a_probe_that_fails_is_repeated_at_growing_intervals(void **state)
{
    static const uint64_t delays_ms[] = {10, 20, 40, 80, 160, 250, 250};
    struct agent_rig *r = rig_start(.probes = true);

    (void)state;
    for (unsigned i = 0; i < 7; ++i) {
        rig_respond(r, i,
                    i % 2 == 0 ? "HTTP/1.1 500 Bad\r\nContent-Length: 0\r\n\r\n$close" : "$close");
        assert_string_equal(rig_state(r, 0), "starting");
        rig_pass(r, delays_ms[i] - 1);
        assert_int_equal(rig_calls(r), i + 1);
        rig_pass(r, 1);
        assert_int_equal(rig_calls(r), i + 2);
    }
    rig_respond(r, 7, OK_CLOSED);
    assert_string_equal(rig_state(r, 0), "ready");
    rig_end(r);
}

static void a_process_that_is_not_ready_in_time_is_stopped_and_another_started(void **state)
{
    struct agent_rig *r = rig_start(.probes = true, .settings = "start_timeout: 5s");

    (void)state;
    rig_supervisor_got(r, "spawn p0\n");
    rig_get(r, "/a");
    rig_pass(r, 4999);
    assert_string_equal(rig_state(r, 0), "starting");
    rig_pass(r, 1);
    rig_supervisor_got(r, "note p0 leaving\nsignal p0 15\n");
    assert_int_equal(rig_stat(r, AGENT_STAT_spawn_failures), 1);
    rig_client_got_status(r, 503, "Resumelb-Unprocessed: 1\r\n", "no process");
    rig_pass(r, 3000);
    rig_supervisor_got(r, "spawn p1\n");
    rig_plan(r, "", "", RIG_OK);
    rig_respond(r, 1, OK_CLOSED);
    rig_get(r, "/b");
    rig_client_got(r, RIG_GOT_OK);
    rig_process_got(r, 2, "p1", "GET /b ");
    rig_end(r);
}

static void without_a_probe_the_first_request_is_the_probe(void **state)
{
    struct agent_rig *r = rig_start(.unprobed = true, .settings = "concurrency: 2");

    (void)state;
    assert_string_equal(rig_state(r, 0), "starting");
    rig_get(r, "/a");
    rig_client(r, "slot0");
    rig_get(r, "/b");
    rig_process_got(r, 0, "p0", "GET /a ");
    assert_int_equal(rig_calls(r), 1);
    rig_plan(r, "", RIG_OK);
    rig_respond(r, 0, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
    assert_string_equal(rig_state(r, 0), "ready");
    rig_client_got_status(r, 200, NULL);
    rig_respond(r, 0, "ok");
    rig_use(r, 0);
    rig_client_got_status(r, 200, NULL);
    rig_end(r);
}

static void a_first_request_without_a_response_leaves_the_next_as_the_probe(void **state)
{
    struct agent_rig *r = rig_start(.unprobed = true);

    (void)state;
    rig_plan(r, "$close", RIG_OK);
    rig_get(r, "/a");
    rig_client_got_status(r, 502, NULL);
    assert_string_equal(rig_state(r, 0), "starting");
    rig_pass(r, 60);
    rig_get(r, "/b");
    rig_client_got_status(r, 200, NULL);
    assert_string_equal(rig_state(r, 0), "ready");
    rig_end(r);
}

static void a_first_request_has_start_timeout_for_its_response(void **state)
{
    struct agent_rig *r =
        rig_start(.unprobed = true, .settings = "start_timeout: 5s, first_byte_timeout: 1s");

    (void)state;
    rig_pass(r, 10000);
    rig_get(r, "/a");
    rig_pass(r, 4900);
    rig_client_got(r, "");
    rig_pass(r, 200);
    rig_client_got_status(r, 502, "Resumelb-Failed: 1\r\n");
    assert_int_equal(rig_stat(r, AGENT_STAT_spawn_failures), 1);
    rig_end(r);
}

static void a_start_that_the_supervisor_rejects_is_a_failure(void **state)
{
    struct agent_rig *r = rig_start(.spawns_later = true);

    (void)state;
    rig_get(r, "/a");
    assert_string_equal(rig_state(r, 0), "spawning");
    rig_rejected(r, 0, "no such file");
    assert_int_equal(rig_stat(r, AGENT_STAT_spawn_failures), 1);
    assert_string_equal(rig_state(r, 0), "ended");
    rig_client_got_status(r, 503, "Resumelb-Unprocessed: 1\r\n", "no process");
    /* The next start is delayed. */
    assert_int_equal(rig_processes(r), 1);
    rig_get(r, "/b");
    rig_client_got_status(r, 503, "no process");
    rig_pass(r, 3000);
    assert_int_equal(rig_processes(r), 2);
    rig_end(r);
}

static void a_supervisor_that_does_not_respond_fails_the_start(void **state)
{
    struct agent_rig *r = rig_start(.spawns_later = true);

    (void)state;
    rig_pass(r, 29999);
    assert_string_equal(rig_state(r, 0), "spawning");
    rig_pass(r, 1);
    assert_string_equal(rig_state(r, 0), "ended");
    assert_int_equal(rig_stat(r, AGENT_STAT_spawn_failures), 1);
    rig_supervisor_got(r, "spawn p0\n");
    /* When it is reported after all, it is killed. */
    rig_spawned(r, 0);
    rig_supervisor_got(r, "signal p0 9\n");
    rig_end(r);
}

static void an_adopted_process_that_was_ready_serves_at_once(void **state)
{
    struct agent_rig *r = rig_start(.adopted = "ready", .probes = true);

    (void)state;
    assert_string_equal(rig_state(r, 0), "ready");
    rig_supervisor_got(r, "note p0 ready\n");
    rig_plan(r, RIG_OK);
    rig_get(r, "/a");
    rig_process_got(r, 0, "p0", "GET /a ");
    rig_client_got(r, RIG_GOT_OK);
    assert_int_equal(rig_stat(r, AGENT_STAT_adopted), 1);
    assert_int_equal(rig_stat(r, AGENT_STAT_spawns), 0);
    rig_end(r);
}

static void an_adopted_process_that_was_starting_is_probed(void **state)
{
    struct agent_rig *r = rig_start(.adopted = "", .probes = true);

    (void)state;
    assert_string_equal(rig_state(r, 0), "starting");
    rig_process_got(r, 0, "p0", "GET /ready ");
    rig_respond(r, 0, OK_CLOSED);
    assert_string_equal(rig_state(r, 0), "ready");
    rig_end(r);
}

static void an_adopted_process_that_was_leaving_is_stopped(void **state)
{
    struct agent_rig *r = rig_start(.adopted = "leaving");

    (void)state;
    rig_supervisor_got(r, "note p0 leaving\nsignal p0 15\nspawn p1\nnote p1 ready\n");
    assert_string_equal(rig_state(r, 0), "ended");
    rig_end(r);
}

/* ---- crashes ---- */

static void a_request_waits_for_the_successor_of_a_process_that_died_idle(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, RIG_OK);
    rig_die(r, 0, "signal 11");
    assert_int_equal(rig_stat(r, AGENT_STAT_deaths), 1);
    rig_get(r, "/a");
    rig_client_got(r, "");
    assert_int_equal(rig_processes(r), 1);
    rig_pass(r, 3000);
    assert_int_equal(rig_processes(r), 2);
    rig_process_got(r, 0, "p1", "GET /a ");
    rig_client_got(r, RIG_GOT_OK);
    rig_end(r);
}

static void a_crash_within_a_request_fails_it_and_rejects_those_that_wait(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_get(r, "/a");
    rig_client(r, "slot0");
    rig_get(r, "/b");
    rig_respond(r, 0, "$die");
    assert_int_equal(rig_stat(r, AGENT_STAT_deaths), 1);
    assert_string_equal(rig_state(r, 0), "ended");
    rig_client_got_status(r, 503, "Resumelb-Unprocessed: 1\r\n", "no process");
    rig_pass(r, 3000);
    rig_plan(r, "", RIG_OK);
    rig_get(r, "/c");
    rig_process_got(r, 1, "p1", "GET /c ");
    rig_client_got_status(r, 200, NULL);
    rig_use(r, 0);
    rig_client_got_status(r, 502, "Resumelb-Failed: 1\r\n");
    rig_end(r);
}

static void after_a_lost_request_the_next_waits_for_the_report_of_a_death(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, "$close");
    rig_get(r, "/a");
    rig_client_got_status(r, 502, NULL);
    rig_get(r, "/b");
    rig_pass(r, 49);
    assert_int_equal(rig_calls(r), 1);
    /* The death is reported: the request was sent to no process that was dead already. */
    rig_die(r, 0, "signal 11");
    rig_client_got_status(r, 503, "Resumelb-Unprocessed: 1\r\n", "no process");
    assert_int_equal(rig_stat(r, AGENT_STAT_failures), 1);
    rig_end(r);
}

static void after_a_lost_request_a_process_that_lives_serves_after_50_ms(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, "$close", RIG_OK);
    rig_get(r, "/a");
    rig_client_got_status(r, 502, NULL);
    rig_get(r, "/b");
    rig_pass(r, 49);
    rig_client_got(r, "");
    rig_pass(r, 1);
    rig_client_got(r, RIG_GOT_OK);
    rig_process_got(r, 1, "p0", "GET /b ");
    rig_end(r);
}

static void a_process_that_exits_well_is_no_failure(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, RIG_OK, RIG_OK);
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_die(r, 0, SUPERVISOR_EXIT_SUCCESS);
    assert_int_equal(rig_stat(r, AGENT_STAT_deaths), 0);
    assert_string_equal(rig_state(r, 1), "ready");
    rig_get(r, "/b");
    rig_process_got(r, 1, "p1", "GET /b ");
    rig_client_got(r, RIG_GOT_OK);
    rig_end(r);
}

static void a_process_that_exits_well_before_it_has_served_has_failed(void **state)
{
    struct agent_rig *r = rig_start(.probes = true);

    (void)state;
    rig_die(r, 0, SUPERVISOR_EXIT_SUCCESS);
    assert_int_equal(rig_stat(r, AGENT_STAT_deaths), 1);
    rig_end(r);
}

static void a_process_that_refuses_connections_is_detached_and_replaced(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_refuse(r, 0);
    rig_get(r, "/a");
    rig_client_got_status(r, 503, "process not reached");
    rig_pass(r, 3000);
    rig_supervisor_got(r, "spawn p0\nnote p0 ready\nnote p0 leaving\nsignal p0 15\n"
                          "spawn p1\nnote p1 ready\n");
    rig_end(r);
}

/* ---- max_requests, restart and detach ---- */

/* As restart.txt does it. */
static void restart(struct agent_rig *r)
{
    struct app_group *g = rig_agent(r)->pool.groups[0];

    ++g->core.generation;
    core_tick(g->core.core, loop_now_ms(rig_agent(r)->loop));
    app_pool_settle(g->pool);
    rig_settle(r);
}

static void a_process_gets_max_requests_and_its_replacement_the_next(void **state)
{
    struct agent_rig *r = rig_start(.settings = "max_requests: 3");

    (void)state;
    rig_plan(r, RIG_OK, RIG_OK, RIG_OK, RIG_OK);
    for (unsigned i = 0; i < 4; ++i) {
        rig_get(r, "/a");
        rig_client_got(r, RIG_GOT_OK);
    }
    rig_process_got(r, 2, "p0", "GET /a ");
    rig_process_got(r, 3, "p1", "GET /a ");
    assert_string_equal(rig_state(r, 0), "ended");
    assert_int_equal(rig_stat(r, AGENT_STAT_replaced), 1);
    assert_int_equal(rig_stat(r, AGENT_STAT_deaths), 0);
    rig_end(r);
}

static void a_replacement_takes_over_when_it_is_ready_and_the_old_process_finishes(void **state)
{
    struct agent_rig *r = rig_start(.probes = true);

    (void)state;
    rig_respond(r, 0, OK_CLOSED);
    rig_get(r, "/a");
    restart(r);
    rig_process_got(r, 2, "p1", "GET /ready ");
    assert_string_equal(rig_state(r, 0), "ready");
    rig_respond(r, 2, OK_CLOSED);
    assert_string_equal(rig_state(r, 0), "leaving");
    assert_string_equal(rig_state(r, 1), "ready");
    rig_respond(r, 1, RIG_OK);
    rig_client_got(r, RIG_GOT_OK);
    assert_string_equal(rig_state(r, 0), "ended");
    rig_supervisor_got(r, "spawn p0\nnote p0 ready\nspawn p1\nnote p1 ready\nnote p0 leaving\n"
                          "note p0 leaving\nsignal p0 15\n");
    rig_end(r);
}

static void a_replacement_without_a_probe_gets_requests_that_can_be_repeated(void **state)
{
    struct agent_rig *r = rig_start(.unprobed = true);

    (void)state;
    rig_plan(r, RIG_OK, RIG_OK, RIG_OK);
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    restart(r);
    assert_string_equal(rig_state(r, 1), "starting");
    rig_post(r, "/b", "body");
    rig_process_got(r, 1, "p0", "POST /b ");
    rig_client_got(r, RIG_GOT_OK);
    rig_get(r, "/c");
    rig_process_got(r, 2, "p1", "GET /c ");
    rig_client_got(r, RIG_GOT_OK);
    assert_string_equal(rig_state(r, 0), "ended");
    assert_string_equal(rig_state(r, 1), "ready");
    rig_end(r);
}

static void a_detached_process_finishes_its_requests_within_shutdown_timeout(void **state)
{
    struct agent_rig *r =
        rig_start(.settings = "shutdown_timeout: 5s, stop_timeout: 2s", .stubborn = true);

    (void)state;
    rig_get(r, "/a");
    app_process_detach(slot_process(rig_slot(r, 0)));
    rig_settle(r);
    assert_string_equal(rig_state(r, 0), "leaving");
    rig_supervisor_got(r, "spawn p0\nnote p0 ready\nnote p0 leaving\nspawn p1\nnote p1 ready\n");
    rig_pass(r, 4999);
    assert_string_equal(rig_state(r, 0), "leaving");
    rig_pass(r, 1);
    assert_string_equal(rig_state(r, 0), "stopping");
    rig_supervisor_got(r, "note p0 leaving\nsignal p0 15\n");
    rig_pass(r, 1999);
    assert_string_equal(rig_state(r, 0), "stopping");
    rig_pass(r, 1);
    rig_supervisor_got(r, "note p0 leaving\nsignal p0 9\n");
    assert_string_equal(rig_state(r, 0), "ended");
    rig_client_got_status(r, 502, NULL);
    rig_end(r);
}

/* ---- queues ---- */

static void requests_of_a_slot_get_its_process_in_their_order(void **state)
{
    struct agent_rig *r = rig_start(.settings = "concurrency: 2");

    (void)state;
    rig_plan(r, "", "", RIG_OK, RIG_OK);
    for (unsigned i = 0; i < 4; ++i) {
        static const char *const targets[] = {"/0", "/1", "/2", "/3"};

        if (i != 0)
            rig_client(r, "slot0");
        rig_get(r, targets[i]);
    }
    assert_int_equal(rig_calls(r), 2);
    assert_int_equal(rig_stat(r, AGENT_STAT_requests_waiting), 2);
    rig_respond(r, 1, RIG_OK);
    rig_process_got(r, 2, "p0", "GET /2 ");
    rig_process_got(r, 3, "p0", "GET /3 ");
    rig_respond(r, 0, RIG_OK);
    for (unsigned i = 0; i < 4; ++i) {
        rig_use(r, i);
        rig_client_got_status(r, 200, NULL);
    }
    rig_end(r);
}

static void a_full_queue_rejects_a_request_unprocessed(void **state)
{
    struct agent_rig *r = rig_start(.settings = "max_queue: 1");

    (void)state;
    rig_plan(r, "", RIG_OK);
    rig_get(r, "/a");
    rig_client(r, "slot0");
    rig_get(r, "/b");
    rig_client(r, "slot0");
    rig_get(r, "/c");
    rig_client_got_status(r, 503, "Resumelb-Unprocessed: 1\r\n", "Resumelb-Backlog: 3\r\n",
                          "queue full");
    assert_int_equal(rig_stat(r, AGENT_STAT_queue_full), 1);
    rig_respond(r, 0, RIG_OK);
    rig_use(r, 0);
    rig_client_got_status(r, 200, NULL);
    rig_use(r, 1);
    rig_client_got_status(r, 200, NULL);
    rig_end(r);
}

static void a_request_waits_for_queue_timeout(void **state)
{
    struct agent_rig *r = rig_start(.settings = "queue_timeout: 2s");

    (void)state;
    rig_get(r, "/a");
    rig_client(r, "slot0");
    rig_get(r, "/b");
    rig_pass(r, 1999);
    rig_client_got(r, "");
    rig_pass(r, 1);
    rig_client_got_status(r, 503, "Resumelb-Unprocessed: 1\r\n", "waited too long");
    assert_int_equal(rig_stat(r, AGENT_STAT_queue_timeouts), 1);
    rig_respond(r, 0, RIG_OK);
    rig_use(r, 0);
    rig_client_got(r, RIG_GOT_OK);
    assert_int_equal(rig_calls(r), 1);
    rig_end(r);
}

static void a_request_may_wait_for_the_start_of_a_process_beyond_queue_timeout(void **state)
{
    struct agent_rig *r =
        rig_start(.probes = true, .settings = "queue_timeout: 1s, start_timeout: 10s");

    (void)state;
    rig_get(r, "/a");
    rig_pass(r, 9000);
    rig_client_got(r, "");
    rig_plan(r, "", RIG_OK);
    rig_respond(r, 0, OK_CLOSED);
    rig_client_got(r, RIG_GOT_OK);
    rig_end(r);
}

/* Two processes; four requests at the application's own address, of which two wait. */
static struct agent_rig *start_two_processes(const char *settings)
{
    struct agent_rig *r = rig_start(.settings = settings);

    for (unsigned i = 0; i < 4; ++i) {
        rig_client(r, "own");
        rig_get(r, "/a");
    }
    assert_int_equal(rig_calls(r), 2);
    assert_int_not_equal(rig_call(r, 0)->process, rig_call(r, 1)->process);
    return r;
}

static void in_a_global_queue_the_first_process_that_is_free_serves_next(void **state)
{
    struct agent_rig *r = start_two_processes("min_processes: 2, queue: global");

    (void)state;
    rig_plan(r, "", "", RIG_OK, RIG_OK);
    rig_respond(r, 0, RIG_OK);
    assert_int_equal(rig_calls(r), 4);
    assert_int_equal(rig_call(r, 2)->process, rig_call(r, 0)->process);
    assert_int_equal(rig_call(r, 3)->process, rig_call(r, 0)->process);
    rig_respond(r, 1, RIG_OK);
    for (unsigned i = 1; i <= 4; ++i) {
        rig_use(r, i);
        rig_client_got_status(r, 200, NULL);
    }
    rig_end(r);
}

static void in_private_queues_each_process_has_its_own_requests(void **state)
{
    struct agent_rig *r = start_two_processes("min_processes: 2, queue: private");

    (void)state;
    rig_plan(r, "", "", RIG_OK, RIG_OK);
    rig_respond(r, 0, RIG_OK);
    assert_int_equal(rig_calls(r), 3);
    assert_int_equal(rig_call(r, 2)->process, rig_call(r, 0)->process);
    rig_respond(r, 1, RIG_OK);
    assert_int_equal(rig_calls(r), 4);
    assert_int_equal(rig_call(r, 3)->process, rig_call(r, 1)->process);
    for (unsigned i = 1; i <= 4; ++i) {
        rig_use(r, i);
        rig_client_got_status(r, 200, NULL);
    }
    rig_end(r);
}

static void a_slot_without_a_process_gets_one_for_a_request_and_loses_it_when_idle(void **state)
{
    struct agent_rig *r =
        rig_start(.settings = "min_processes: 0, max_processes: 1, max_idle_time: 10s");

    (void)state;
    assert_int_equal(rig_processes(r), 0);
    rig_plan(r, RIG_OK);
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_pass(r, 9000);
    assert_string_equal(rig_state(r, 0), "ready");
    rig_pass(r, 2000);
    assert_string_equal(rig_state(r, 0), "ended");
    assert_int_equal(rig_stat(r, AGENT_STAT_ended_idle), 1);
    rig_end(r);
}

/* ---- the end ---- */

static void a_stop_finishes_requests_then_ends_processes_then_the_agent(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, "", RIG_OK);
    rig_get(r, "/a");
    agent_drain(rig_agent(r));
    rig_pass(r, 1000);
    /* Load balancers have not reacted yet: requests are served. */
    rig_client(r, "slot0");
    rig_get(r, "/b");
    rig_respond(r, 0, RIG_OK);
    rig_client_got_status(r, 200, NULL);
    rig_get(r, "/c");
    rig_pass(r, 2000);
    rig_client(r, "slot0");
    rig_get(r, "/d");
    rig_client_got_status(r, 503, "Resumelb-Unprocessed: 1\r\n", "stopping");
    assert_string_equal(rig_state(r, 0), "ready");
    rig_respond(r, 2, RIG_OK);
    rig_pass(r, 100);
    rig_supervisor_got(r, "spawn p0\nnote p0 ready\nnote p0 leaving\nsignal p0 15\nbye\n");
    rig_use(r, 0);
    rig_client_got_status(r, 200, NULL);
    rig_use(r, 1);
    rig_client_got_status(r, 200, NULL);
    rig_pass(r, 10000);
    assert_true(rig_stopped(r));
    rig_end(r);
}

static void a_stop_cuts_requests_after_drain_timeout(void **state)
{
    struct agent_rig *r = rig_start(.program = "drain_timeout: 5s\n");

    (void)state;
    rig_get(r, "/a");
    agent_drain(rig_agent(r));
    rig_pass(r, 4980);
    rig_client_is_closed(r, false);
    rig_pass(r, 40);
    rig_client_got_status(r, 502, NULL);
    rig_client_is_closed(r, true);
    rig_end(r);
}

static void a_stop_without_requests_is_quiet_for_600_ms(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    agent_drain(rig_agent(r));
    rig_pass(r, 600);
    assert_int_equal(rig_agent(r)->phase, AGENT_DRAINING);
    rig_pass(r, 100);
    assert_true(rig_agent(r)->phase > AGENT_DRAINING);
    rig_end(r);
}

static void a_process_that_ignores_sigterm_is_killed_after_stop_timeout(void **state)
{
    struct agent_rig *r = rig_start(.settings = "stop_timeout: 3s", .stubborn = true);

    (void)state;
    app_process_stop(slot_process(rig_slot(r, 0)));
    rig_settle(r);
    assert_string_equal(rig_state(r, 0), "stopping");
    rig_pass(r, 2999);
    assert_string_equal(rig_state(r, 0), "stopping");
    rig_pass(r, 1);
    assert_string_equal(rig_state(r, 0), "ended");
    rig_end(r);
}

static void a_lost_supervisor_ends_all_requests_and_the_agent(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_get(r, "/a");
    rig_client(r, "slot0");
    rig_get(r, "/b");
    rig_lose_supervisor(r);
    assert_int_equal(rig_agent(r)->exit_code, EXIT_FAILURE);
    assert_string_equal(rig_state(r, 0), "ended");
    rig_client_got_status(r, 503, "Resumelb-Unprocessed: 1\r\n");
    rig_use(r, 0);
    rig_client_got_status(r, 502, NULL);
    rig_end(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_is_ready_when_its_probe_succeeds),
        cmocka_unit_test(any_status_below_500_means_ready),
        cmocka_unit_test(a_probe_that_fails_is_repeated_at_growing_intervals),
        cmocka_unit_test(a_process_that_is_not_ready_in_time_is_stopped_and_another_started),
        cmocka_unit_test(without_a_probe_the_first_request_is_the_probe),
        cmocka_unit_test(a_first_request_without_a_response_leaves_the_next_as_the_probe),
        cmocka_unit_test(a_first_request_has_start_timeout_for_its_response),
        cmocka_unit_test(a_start_that_the_supervisor_rejects_is_a_failure),
        cmocka_unit_test(a_supervisor_that_does_not_respond_fails_the_start),
        cmocka_unit_test(an_adopted_process_that_was_ready_serves_at_once),
        cmocka_unit_test(an_adopted_process_that_was_starting_is_probed),
        cmocka_unit_test(an_adopted_process_that_was_leaving_is_stopped),
        cmocka_unit_test(a_request_waits_for_the_successor_of_a_process_that_died_idle),
        cmocka_unit_test(a_crash_within_a_request_fails_it_and_rejects_those_that_wait),
        cmocka_unit_test(after_a_lost_request_the_next_waits_for_the_report_of_a_death),
        cmocka_unit_test(after_a_lost_request_a_process_that_lives_serves_after_50_ms),
        cmocka_unit_test(a_process_that_exits_well_is_no_failure),
        cmocka_unit_test(a_process_that_exits_well_before_it_has_served_has_failed),
        cmocka_unit_test(a_process_that_refuses_connections_is_detached_and_replaced),
        cmocka_unit_test(a_process_gets_max_requests_and_its_replacement_the_next),
        cmocka_unit_test(a_replacement_takes_over_when_it_is_ready_and_the_old_process_finishes),
        cmocka_unit_test(a_replacement_without_a_probe_gets_requests_that_can_be_repeated),
        cmocka_unit_test(a_detached_process_finishes_its_requests_within_shutdown_timeout),
        cmocka_unit_test(requests_of_a_slot_get_its_process_in_their_order),
        cmocka_unit_test(a_full_queue_rejects_a_request_unprocessed),
        cmocka_unit_test(a_request_waits_for_queue_timeout),
        cmocka_unit_test(a_request_may_wait_for_the_start_of_a_process_beyond_queue_timeout),
        cmocka_unit_test(in_a_global_queue_the_first_process_that_is_free_serves_next),
        cmocka_unit_test(in_private_queues_each_process_has_its_own_requests),
        cmocka_unit_test(a_slot_without_a_process_gets_one_for_a_request_and_loses_it_when_idle),
        cmocka_unit_test(a_stop_finishes_requests_then_ends_processes_then_the_agent),
        cmocka_unit_test(a_stop_cuts_requests_after_drain_timeout),
        cmocka_unit_test(a_stop_without_requests_is_quiet_for_600_ms),
        cmocka_unit_test(a_process_that_ignores_sigterm_is_killed_after_stop_timeout),
        cmocka_unit_test(a_lost_supervisor_ends_all_requests_and_the_agent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
