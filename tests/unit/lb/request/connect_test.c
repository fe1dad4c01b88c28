/* SPDX-License-Identifier: Apache-2.0
 *
 * ROUTE and CONNECT: requests that wait for a worker or for a connection, which connections are
 * reused, and how they are handed on.
 */
#include "tests/support/exchange_rig.h"

#define UNPROCESSED "HTTP/1.1 503 Busy\r\nResumelb-Unprocessed: 1\r\nContent-Length: 0\r\n\r\n"
#define FAILED_PROCESS "HTTP/1.1 502 Failed\r\nResumelb-Failed: 1\r\nContent-Length: 0\r\n\r\n"

/* Another client sends a GET for TARGET. */
static void get_beside(struct exchange_rig *r, const char *target)
{
    (void)rig_client(r);
    rig_get(r, target);
}

/* ---- no worker ---- */

static void a_request_waits_for_a_worker_at_most_worker_wait_timeout(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1, .settings = "worker_wait_timeout: 4s\n");

    rig_feed(r, 0, RIG_RESUME("i0", "draining"));
    rig_get(r, "/");
    assert_int_equal(rig_stat(r, APP_STAT_requests_waiting), 1);
    assert_int_equal(rig_pass_to_row(r), 4000);
    rig_client_got_status(r, 503, "Retry-After: 1\r\n");
    rig_row(r, "outcome=no-worker status=503 tries=0 worker= worker_wait_us=4000000");
    rig_end(r);
}

static void a_request_that_waits_gets_the_worker_that_appears(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1);

    rig_plan(r, RIG_OK, RIG_OK);
    rig_feed(r, 0, RIG_RESUME("i0", "draining"));
    rig_get(r, "/1");
    get_beside(r, "/2");
    rig_pass(r, 3000);
    assert_int_equal(rig_calls(r), 0);
    rig_feed(r, 0, RIG_RESUME("i1", "ready"));
    rig_worker_got(r, 0, "w0", "GET /1 ");
    rig_worker_got(r, 1, "w0", "GET /2 ");
    rig_client_got(r, RIG_GOT_OK);
    rig_use(r, 0);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1 worker_wait_us=3000000 tries=1");
    rig_row(r, "outcome=responded target=/2 worker_wait_us=3000000 tries=1");
    rig_end(r);
}

static void without_worker_wait_timeout_no_request_waits(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1, .settings = "worker_wait_timeout: 0s\n");

    rig_feed(r, 0, RIG_RESUME("i0", "draining"));
    rig_get(r, "/");
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=no-worker status=503 total_us=0");
    rig_end(r);
}

static void a_request_above_worker_wait_max_is_rejected(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1, .settings = "worker_wait_max: 1\n");

    rig_feed(r, 0, RIG_RESUME("i0", "draining"));
    rig_get(r, "/1");
    get_beside(r, "/2");
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=wait-queue-full status=503 target=/2 total_us=0");
    rig_use(r, 0);
    assert_int_equal(rig_pass_to_row(r), 5000);
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=no-worker target=/1");
    rig_end(r);
}

static void a_client_that_leaves_while_it_waits_frees_its_place(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1, .settings = "worker_wait_max: 1\n");

    rig_plan(r, RIG_OK);
    rig_feed(r, 0, RIG_RESUME("i0", "draining"));
    rig_get(r, "/1");
    rig_client_close(r);
    rig_row(r, "outcome=client-gone status=499 target=/1 tries=0");
    get_beside(r, "/2");
    assert_int_equal(rig_stat(r, APP_STAT_requests_waiting), 1);
    rig_feed(r, 0, RIG_RESUME("i1", "ready"));
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/2");
    rig_end(r);
}

/* ---- all workers reject it ---- */

static void a_request_that_all_agents_reject_waits_and_is_retried(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .agents = 2);

    rig_plan(r, UNPROCESSED, UNPROCESSED, RIG_OK);
    rig_post(r, "/", "body");
    rig_client_got(r, "");
    assert_int_equal(rig_stat(r, APP_STAT_requests_waiting), 1);
    (void)rig_pass_to_row(r);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded status=200 tries=3");
    assert_int_equal(rig_stat(r, APP_STAT_unprocessed), 2);
    rig_end(r);
}

static void a_request_that_all_agents_reject_for_worker_wait_timeout_is_503(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1, .settings = "worker_wait_timeout: 1s\n");

    rig_always(r, UNPROCESSED);
    rig_get(r, "/");
    assert_int_equal(rig_pass_to_row(r), 1000);
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=workers-busy status=503 total_us=1000000");
    assert_true(rig_calls(r) > 1);
    rig_end(r);
}

static void a_request_beyond_worker_wait_max_that_all_agents_reject_is_503(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1, .settings = "worker_wait_max: 1\n");

    rig_plan(r, UNPROCESSED, UNPROCESSED, RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=wait-queue-full status=503 target=/2 tries=1");
    (void)rig_pass_to_row(r);
    rig_use(r, 0);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1 tries=2");
    rig_end(r);
}

static void without_worker_wait_timeout_a_rejection_by_all_agents_is_503(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1, .settings = "worker_wait_timeout: 0s\n");

    rig_plan(r, UNPROCESSED);
    rig_get(r, "/");
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=workers-busy status=503 tries=1 total_us=0");
    rig_end(r);
}

static void a_request_whose_only_process_died_waits_250_ms_for_the_next_one(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1);

    rig_plan(r, FAILED_PROCESS);
    rig_get(r, "/");
    assert_int_equal(rig_pass_to_row(r), 250);
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=worker-failed status=502 tries=1");
    rig_end(r);
}

static void a_request_whose_only_process_died_gets_the_next_one(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1);

    rig_plan(r, FAILED_PROCESS, RIG_OK);
    rig_get(r, "/");
    rig_pass(r, 100);
    rig_client_got(r, "");
    rig_feed(r, 0, RIG_RESUME("i1", "ready"));
    rig_pass(r, 140);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded status=200 tries=2");
    rig_end(r);
}

static void a_client_that_leaves_while_all_reject_its_request_ends_the_wait(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1);

    rig_plan(r, UNPROCESSED);
    rig_get(r, "/");
    rig_client_close(r);
    rig_row(r, "outcome=client-gone status=499 tries=1");
    assert_int_equal(rig_stat(r, APP_STAT_requests_waiting), 0);
    rig_pass(r, 10000);
    assert_int_equal(rig_calls(r), 1);
    rig_end(r);
}

/* ---- ejection ---- */

static void a_worker_that_refuses_is_ejected_and_returns(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_refuse(r, 0, true);
    rig_plan(r, RIG_OK, RIG_OK, RIG_OK, RIG_OK);
    rig_get(r, "/1");
    rig_row(r, "tries=2 worker=w1");
    rig_get(r, "/2");
    rig_row(r, "tries=1 worker=w1");
    rig_refuse(r, 0, false);
    rig_pass(r, 1000);
    rig_get(r, "/3");
    rig_get(r, "/4");
    rig_worker_got(r, 2, "w0", "GET /3 ");
    rig_row(r, "tries=1 worker=w0");
    rig_row(r, "tries=1 worker=w1");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK RIG_GOT_OK RIG_GOT_OK);
    rig_end(r);
}

static void an_ejected_worker_is_better_than_none(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = "eject_probe: 60s\n");

    rig_refuse(r, 0, true);
    rig_plan(r, RIG_OK, "$close", RIG_OK);
    rig_get(r, "/1");
    rig_row(r, "tries=2 worker=w1");
    rig_refuse(r, 0, false);
    rig_refuse(r, 1, true);
    rig_get(r, "/2");
    rig_worker_got(r, 1, "w1", "GET /2 ");
    rig_worker_got(r, 2, "w0", "GET /2 ");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 worker=w0");
    rig_end(r);
}

static void an_ejected_worker_returns_for_a_request_that_all_others_failed(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = "eject_probe: 60s\n");

    rig_refuse(r, 0, true);
    rig_plan(r, RIG_OK, "HTTP/1.1$close", RIG_OK);
    rig_get(r, "/1");
    rig_row(r, "tries=2 worker=w1");
    rig_refuse(r, 0, false);
    rig_get(r, "/2"); /* w1 fails once, and is not ejected */
    rig_worker_got(r, 1, "w1", "GET /2 ");
    rig_worker_got(r, 2, "w0", "GET /2 ");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 worker=w0");
    rig_end(r);
}

static void a_probe_that_fails_is_repeated_at_another_worker(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .workers = 2,
        .settings = "eject_after: 1\neject_time: 60s\neject_time_max: 60s\neject_probe: 250ms\n"
                    "first_byte_timeout: 2s\npoison_deaths: 0\n");

    rig_plan(r, "$close", RIG_OK, "", RIG_OK, RIG_OK);
    rig_get(r, "/1");
    rig_row(r, "tries=2 worker=w1");
    rig_pass(r, 2000);
    rig_get(r, "/2"); /* the probe; a time-out is retried only then */
    rig_worker_got(r, 2, "w0", "GET /2 ");
    assert_int_equal(rig_pass_to_row(r), 2000);
    rig_row(r, "outcome=responded tries=2 worker=w1 target=/2");
    rig_get(r, "/3");
    rig_row(r, "outcome=responded tries=1 worker=w1");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK RIG_GOT_OK);
    rig_end(r);
}

static void a_probe_that_is_answered_ends_the_ejection(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .workers = 2,
        .settings = "eject_after: 1\neject_time: 60s\neject_time_max: 60s\npoison_deaths: 0\n");

    rig_plan(r, "$close", RIG_OK, RIG_OK, RIG_OK, RIG_OK);
    rig_get(r, "/1");
    rig_row(r, "tries=2 worker=w1");
    rig_pass(r, 2000);
    rig_get(r, "/2");
    rig_row(r, "outcome=responded tries=1 worker=w0 reason=probe");
    rig_get(r, "/3");
    rig_get(r, "/4");
    rig_row(r, "outcome=responded tries=1 worker=w0 reason=round_robin");
    rig_row(r, "outcome=responded tries=1 worker=w1 reason=round_robin");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK RIG_GOT_OK RIG_GOT_OK);
    rig_end(r);
}

static void no_post_probes_an_ejected_worker(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .workers = 2,
        .settings = "eject_after: 1\neject_time: 60s\neject_time_max: 60s\npoison_deaths: 0\n");

    rig_plan(r, "$close", RIG_OK, RIG_OK);
    rig_get(r, "/1");
    rig_row(r, "tries=2 worker=w1");
    rig_pass(r, 2000);
    rig_post(r, "/2", "body");
    rig_row(r, "outcome=responded tries=1 worker=w1 reason=round_robin");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK);
    rig_end(r);
}

static void without_retries_no_request_probes_an_ejected_worker(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .workers = 2,
        .settings = "eject_after: 1\neject_time: 60s\neject_time_max: 60s\npoison_deaths: 0\n"
                    "retries: 0\n");

    rig_plan(r, "$close", RIG_OK, RIG_OK);
    rig_get(r, "/1");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=worker-failed tries=1 worker=w0");
    rig_pass(r, 2000);
    rig_get(r, "/2");
    rig_get(r, "/3");
    rig_row(r, "outcome=responded tries=1 worker=w1");
    rig_row(r, "outcome=responded tries=1 worker=w1");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK);
    rig_end(r);
}

/* ---- connections ---- */

static void a_request_waits_for_the_connection_of_another_one(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "max_connections: 1\n");

    rig_plan(r, "", RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    assert_int_equal(rig_stat(r, APP_STAT_connection_waiting), 1);
    rig_pass(r, 2000);
    rig_respond(r, 0, RIG_OK);
    rig_client_got(r, RIG_GOT_OK);
    rig_use(r, 0);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1");
    rig_row(r, "outcome=responded target=/2 connection_wait_us=2000000 tries=1");
    assert_int_equal(rig_accepted(r, 0), 1);
    rig_end(r);
}

static void a_waiting_request_gets_the_place_of_a_connection_that_was_closed(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "max_connections: 1\n");

    rig_plan(r, "", RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    rig_respond(r, 0, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok$close");
    rig_client_got(r, RIG_GOT_OK);
    rig_use(r, 0);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1");
    rig_row(r, "outcome=responded target=/2 tries=1");
    assert_int_equal(rig_accepted(r, 0), 2);
    rig_end(r);
}

static void a_request_that_gets_no_connection_in_time_tries_another_worker(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .workers = 2, .settings = "max_connections: 1\nconnection_wait_timeout: 3s\n");

    rig_plan(r, "", "", RIG_OK, RIG_OK);
    rig_get(r, "/1");    /* w0 */
    get_beside(r, "/2"); /* w1 */
    get_beside(r, "/3"); /* waits for w0 */
    rig_pass(r, 1000);
    rig_respond(r, 1, RIG_OK);
    rig_row(r, "outcome=responded target=/2 worker=w1");
    assert_int_equal(rig_pass_to_row(r), 2000);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/3 worker=w1 tries=2 connection_wait_us=3000000");
    rig_respond(r, 0, RIG_OK);
    rig_row(r, "outcome=responded target=/1 worker=w0");
    for (unsigned c = 0; c < 2; ++c) {
        rig_use(r, c);
        rig_client_got(r, RIG_GOT_OK);
    }
    rig_get(r, "/4");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/4");
    rig_end(r);
}

static void a_request_that_gets_no_connection_anywhere_is_503(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .settings = "max_connections: 1\nconnection_wait_timeout: 3s\n");

    rig_plan(r, "");
    rig_get(r, "/1");
    get_beside(r, "/2");
    assert_int_equal(rig_pass_to_row(r), 3000);
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=workers-busy status=503 target=/2 tries=1");
    rig_use(r, 0);
    rig_respond(r, 0, RIG_OK);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1");
    rig_end(r);
}

static void a_full_queue_for_connections_rejects_at_once(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .settings = "max_connections: 1\nmax_connection_waiting: 1\n");

    rig_plan(r, "", RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    get_beside(r, "/3");
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=workers-busy status=503 target=/3 tries=1 total_us=0");
    rig_respond(r, 0, RIG_OK);
    for (unsigned c = 0; c < 2; ++c) {
        rig_use(r, c);
        rig_client_got(r, RIG_GOT_OK);
    }
    rig_row(r, "outcome=responded target=/1");
    rig_row(r, "outcome=responded target=/2");
    rig_end(r);
}

static void a_client_that_leaves_while_it_waits_for_a_connection_leaves_the_queue(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "max_connections: 1\n");

    rig_plan(r, "", RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    rig_client_close(r);
    rig_row(r, "outcome=client-gone target=/2 tries=1 status=499");
    assert_int_equal(rig_stat(r, APP_STAT_connection_waiting), 0);
    get_beside(r, "/3");
    rig_respond(r, 0, RIG_OK);
    rig_client_got(r, RIG_GOT_OK);
    rig_worker_got(r, 1, "w0", "GET /3 ");
    rig_use(r, 0);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1");
    rig_row(r, "outcome=responded target=/3");
    rig_end(r);
}

static void a_client_that_leaves_while_its_connection_opens_returns_the_permission(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "max_connections: 1\n");

    rig_hang(r, 0);
    rig_get(r, "/1");
    rig_client_close(r);
    rig_row(r, "outcome=client-gone target=/1 tries=1 status=499");
    rig_refuse(r, 0, false);
    rig_plan(r, RIG_OK);
    get_beside(r, "/2");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/2 connection_wait_us=0");
    rig_end(r);
}

static void a_connection_that_opens_late_serves_its_request(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "connect_timeout: 3s\n");

    rig_hang(r, 0);
    rig_get(r, "/");
    rig_pass(r, 1000);
    rig_refuse(r, 0, false);
    rig_plan(r, RIG_OK);
    (void)rig_pass_to_row(r);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=1");
    rig_end(r);
}

static void a_request_waits_for_a_descriptor(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);
    struct rlimit before = rig_take_descriptors();

    rig_plan(r, RIG_OK);
    rig_post(r, "/", "body");
    assert_int_equal(rig_stat(r, APP_STAT_requests_waiting), 1);
    rig_pass(r, 1000);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    (void)rig_pass_to_row(r);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded status=200");
    assert_int_equal(rig_open(r, 0) + rig_open(r, 1), 1);
    rig_end(r);
}

static void a_request_without_a_descriptor_in_time_is_502(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 1, .settings = "worker_wait_timeout: 2s\n");
    struct rlimit before = rig_take_descriptors();

    rig_get(r, "/");
    assert_int_equal(rig_pass_to_row(r), 2000);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=connect-failed status=502 total_us=2000000");
    rig_end(r);
}

static void an_idle_connection_is_closed_for_its_descriptor(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, RIG_OK, RIG_OK);
    rig_get(r, "/1");
    struct rlimit before = rig_take_descriptors();
    rig_get(r, "/2"); /* the end at the worker has no descriptor yet */
    assert_int_equal(rig_open(r, 0), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    rig_settle(r);
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK);
    rig_row(r, "outcome=responded worker=w0 tries=1");
    rig_row(r, "outcome=responded worker=w1 tries=1");
    rig_end(r);
}

/* ---- idle connections ---- */

static void an_idle_connection_is_reused(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, RIG_OK, RIG_OK, RIG_OK);
    rig_get(r, "/1");
    rig_pass(r, 59000);
    rig_get(r, "/2");
    rig_pass(r, 59000);
    rig_get(r, "/3");
    for (int i = 0; i < 3; ++i)
        rig_row(r, "outcome=responded tries=1");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK RIG_GOT_OK);
    assert_int_equal(rig_accepted(r, 0), 1);
    assert_int_equal(rig_stat(r, APP_STAT_connections_reused), 2);
    rig_end(r);
}

static void an_idle_connection_is_closed_after_its_time(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "idle_connection_timeout: 10s\n");

    rig_plan(r, RIG_OK);
    rig_get(r, "/1");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded");
    rig_pass(r, 9999);
    assert_int_equal(rig_open(r, 0), 1);
    rig_pass(r, 1100);
    assert_int_equal(rig_open(r, 0), 0);
    rig_end(r);
}

static void an_idle_connection_that_was_closed_before_is_not_used(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, RIG_OK, RIG_OK);
    rig_get(r, "/1");
    rig_respond(r, 0, "$close");
    rig_get(r, "/2");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=1");
    rig_row(r, "outcome=responded tries=1");
    assert_int_equal(rig_stat(r, APP_STAT_retries_fresh), 0);
    assert_int_equal(rig_accepted(r, 0), 2);
    rig_end(r);
}

static void a_post_after_unsafe_reuse_idle_gets_a_new_connection(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "unsafe_reuse_idle: 500ms\n");

    rig_plan(r, RIG_OK, RIG_OK, RIG_OK, RIG_OK);
    rig_get(r, "/1");
    rig_pass(r, 400);
    rig_post(r, "/2", "body");
    assert_int_equal(rig_call(r, 1)->connection, 0);
    rig_pass(r, 500);
    rig_post(r, "/3", "body");
    assert_int_equal(rig_call(r, 2)->connection, 1);
    rig_pass(r, 600);
    rig_get(r, "/4");
    assert_int_equal(rig_accepted(r, 0), 2);
    for (int i = 0; i < 4; ++i)
        rig_row(r, "outcome=responded tries=1");
    text_clear(&rig_peer(r)->in);
    rig_end(r);
}

static void a_post_right_after_the_first_response_reuses_its_connection(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, RIG_OK, RIG_OK);
    rig_get(r, "/1");
    rig_post(r, "/2", "body");
    assert_int_equal(rig_accepted(r, 0), 1);
    rig_row(r, "outcome=responded tries=1");
    rig_row(r, "outcome=responded tries=1");
    text_clear(&rig_peer(r)->in);
    rig_end(r);
}

static void no_post_uses_idle_connections_of_a_worker_that_just_closed_one(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, RIG_OK, "$close", RIG_OK, RIG_OK, RIG_OK, RIG_OK);
    rig_get(r, "/1");
    rig_get(r, "/2"); /* sent again on connection 1 */
    assert_int_equal(rig_accepted(r, 0), 2);
    rig_pass(r, 100);
    rig_post(r, "/3", "body");
    assert_int_equal(rig_call(r, 3)->connection, 2);
    rig_pass(r, 59800);
    rig_get(r, "/4");
    rig_pass(r, 200);
    rig_post(r, "/5", "body");
    assert_true(rig_call(r, 5)->connection < 3);
    for (int i = 0; i < 5; ++i)
        rig_row(r, "outcome=responded tries=1");
    text_clear(&rig_peer(r)->in);
    rig_end(r);
}

static void unsafe_reuse_idle_0_gives_each_post_a_new_connection(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "unsafe_reuse_idle: 0s\n");

    rig_plan(r, RIG_OK, RIG_OK, RIG_OK);
    rig_get(r, "/1");
    rig_get(r, "/2");
    rig_pass(r, 100);
    rig_post(r, "/3", "body");
    assert_int_equal(rig_call(r, 2)->connection, 1);
    for (int i = 0; i < 3; ++i)
        rig_row(r, "outcome=responded tries=1");
    text_clear(&rig_peer(r)->in);
    rig_end(r);
}

static void a_post_at_the_limit_closes_an_idle_connection_to_open_its_own(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .settings = "unsafe_reuse_idle: 0s\nmax_connections: 1\n");

    rig_plan(r, RIG_OK, RIG_OK);
    rig_get(r, "/1");
    rig_post(r, "/2", "body");
    assert_int_equal(rig_call(r, 1)->connection, 1);
    assert_int_equal(rig_open(r, 0), 1);
    rig_row(r, "outcome=responded tries=1");
    rig_row(r, "outcome=responded tries=1 connection_wait_us=0");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK);
    rig_end(r);
}

static void a_new_instance_gets_no_connection_of_the_one_before(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1);

    rig_plan(r, RIG_OK, RIG_OK);
    rig_get(r, "/1");
    assert_int_equal(rig_open(r, 0), 2); /* its stream, and one idle connection */
    rig_feed(r, 0, RIG_RESUME("i1", "ready"));
    assert_int_equal(rig_open(r, 0), 1);
    rig_get(r, "/2");
    assert_true(rig_call(r, 1)->connection != rig_call(r, 0)->connection);
    rig_row(r, "outcome=responded tries=1");
    rig_row(r, "outcome=responded tries=1");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK);
    rig_end(r);
}

static void a_request_that_waits_for_a_retired_instance_gets_the_next_one(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1, .settings = "max_connections: 1\n");

    rig_plan(r, "", RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    assert_int_equal(rig_stat(r, APP_STAT_connection_waiting), 1);
    rig_feed(r, 0, RIG_RESUME("i1", "ready"));
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/2 tries=2");
    rig_use(r, 0);
    rig_respond(r, 0, RIG_OK);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1 tries=1");
    assert_int_equal(rig_open(r, 0), 2);
    rig_end(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_waits_for_a_worker_at_most_worker_wait_timeout),
        cmocka_unit_test(a_request_that_waits_gets_the_worker_that_appears),
        cmocka_unit_test(without_worker_wait_timeout_no_request_waits),
        cmocka_unit_test(a_request_above_worker_wait_max_is_rejected),
        cmocka_unit_test(a_client_that_leaves_while_it_waits_frees_its_place),
        cmocka_unit_test(a_request_that_all_agents_reject_waits_and_is_retried),
        cmocka_unit_test(a_request_that_all_agents_reject_for_worker_wait_timeout_is_503),
        cmocka_unit_test(a_request_beyond_worker_wait_max_that_all_agents_reject_is_503),
        cmocka_unit_test(without_worker_wait_timeout_a_rejection_by_all_agents_is_503),
        cmocka_unit_test(a_request_whose_only_process_died_waits_250_ms_for_the_next_one),
        cmocka_unit_test(a_request_whose_only_process_died_gets_the_next_one),
        cmocka_unit_test(a_client_that_leaves_while_all_reject_its_request_ends_the_wait),
        cmocka_unit_test(a_worker_that_refuses_is_ejected_and_returns),
        cmocka_unit_test(an_ejected_worker_is_better_than_none),
        cmocka_unit_test(an_ejected_worker_returns_for_a_request_that_all_others_failed),
        cmocka_unit_test(a_probe_that_fails_is_repeated_at_another_worker),
        cmocka_unit_test(a_probe_that_is_answered_ends_the_ejection),
        cmocka_unit_test(no_post_probes_an_ejected_worker),
        cmocka_unit_test(without_retries_no_request_probes_an_ejected_worker),
        cmocka_unit_test(a_request_waits_for_the_connection_of_another_one),
        cmocka_unit_test(a_waiting_request_gets_the_place_of_a_connection_that_was_closed),
        cmocka_unit_test(a_request_that_gets_no_connection_in_time_tries_another_worker),
        cmocka_unit_test(a_request_that_gets_no_connection_anywhere_is_503),
        cmocka_unit_test(a_full_queue_for_connections_rejects_at_once),
        cmocka_unit_test(a_client_that_leaves_while_it_waits_for_a_connection_leaves_the_queue),
        cmocka_unit_test(a_client_that_leaves_while_its_connection_opens_returns_the_permission),
        cmocka_unit_test(a_connection_that_opens_late_serves_its_request),
        cmocka_unit_test(a_request_waits_for_a_descriptor),
        cmocka_unit_test(a_request_without_a_descriptor_in_time_is_502),
        cmocka_unit_test(an_idle_connection_is_closed_for_its_descriptor),
        cmocka_unit_test(an_idle_connection_is_reused),
        cmocka_unit_test(an_idle_connection_is_closed_after_its_time),
        cmocka_unit_test(an_idle_connection_that_was_closed_before_is_not_used),
        cmocka_unit_test(a_post_after_unsafe_reuse_idle_gets_a_new_connection),
        cmocka_unit_test(a_post_right_after_the_first_response_reuses_its_connection),
        cmocka_unit_test(no_post_uses_idle_connections_of_a_worker_that_just_closed_one),
        cmocka_unit_test(unsafe_reuse_idle_0_gives_each_post_a_new_connection),
        cmocka_unit_test(a_post_at_the_limit_closes_an_idle_connection_to_open_its_own),
        cmocka_unit_test(a_new_instance_gets_no_connection_of_the_one_before),
        cmocka_unit_test(a_request_that_waits_for_a_retired_instance_gets_the_next_one),
    };

    return cmocka_run_group_tests_name("connect", tests, NULL, NULL);
}
