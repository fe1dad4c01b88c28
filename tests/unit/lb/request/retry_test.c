/* SPDX-License-Identifier: Apache-2.0
 *
 * "Retries, exactly" of docs/guide/routing.md, row by row.
 */
#include "tests/support/exchange_rig.h"

#define UNPROCESSED "HTTP/1.1 503 Busy\r\nResumelb-Unprocessed: 1\r\nContent-Length: 4\r\n\r\nfull"
#define FAILED_PROCESS "HTTP/1.1 502 Failed\r\nResumelb-Failed: 1\r\nContent-Length: 4\r\n\r\ndied"

static void a_request_reaches_one_worker_and_its_response_the_client(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, RIG_OK);
    rig_get(r, "/a");
    rig_worker_got(r, 0, "w0",
                   "GET /a HTTP/1.1\r\nHost: h\r\nResumelb-Class: h\r\n"
                   "Resumelb-Classifier: ");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded status=200 tries=1 worker=w0 sent_bytes=2 total_us=0");
    assert_int_equal(rig_open(r, 0), 1);
    assert_int_equal(rig_accepted(r, 1), 0);
    rig_end(r);
}

static void an_agent_serves_as_a_listed_worker_does(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1);

    rig_plan(r, RIG_OK);
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=1 worker=w0");
    rig_end(r);
}

static void tls_on_both_sides_changes_nothing(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .tls = true, .worker_tls = true);

    rig_plan(r, "$reset", RIG_OK);
    rig_get(r, "/a");
    rig_worker_got(r, 0, "w0", "GET /a HTTP/1.1\r\nHost: h\r\n");
    rig_worker_got(r, 1, "w1", "GET /a HTTP/1.1\r\nHost: h\r\n");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 worker=w1");
    rig_end(r);
}

static void a_refused_connection_sends_a_get_to_another_worker(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = "retries: 0\n");

    rig_refuse(r, 0, true);
    rig_plan(r, RIG_OK);
    rig_get(r, "/");
    rig_worker_got(r, 0, "w1", "GET / ");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 worker=w1 reason=retry");
    assert_int_equal(rig_stat(r, APP_STAT_retries), 0);
    assert_int_equal(rig_stat(r, APP_STAT_connect_failures), 1);
    rig_end(r);
}

static void a_refused_connection_sends_a_post_to_another_worker(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = "retries: 0\n");

    rig_refuse(r, 0, true);
    rig_plan(r, RIG_OK);
    rig_post(r, "/", "body");
    rig_worker_got(r, 0, "w1", "POST / ");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 received_bytes=4");
    rig_end(r);
}

static void without_another_worker_a_refused_connection_is_502(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = "retries: 0\n");

    rig_refuse(r, 0, true);
    rig_refuse(r, 1, true);
    rig_get(r, "/");
    rig_client_got_status(r, 502, "Cache-Control: no-store\r\n");
    rig_row(r, "outcome=connect-failed status=502 tries=2");
    rig_end(r);
}

static void a_get_on_a_closed_idle_connection_is_sent_again_to_the_same_worker(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = "retries: 0\n");

    rig_plan(r, RIG_OK, RIG_OK, "$close", RIG_OK);
    rig_get(r, "/1");
    rig_get(r, "/2");
    rig_get(r, "/3");
    rig_worker_got(r, 2, "w0", "GET /3 ");
    rig_worker_got(r, 3, "w0", "GET /3 ");
    assert_int_equal(rig_call(r, 2)->connection, 0);
    assert_int_equal(rig_call(r, 3)->connection, 1);
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=1 worker=w0");
    rig_row(r, "outcome=responded tries=1 worker=w1");
    rig_row(r, "outcome=responded tries=1 worker=w0");
    assert_int_equal(rig_stat(r, APP_STAT_retries_fresh), 1);
    assert_int_equal(rig_stat(r, APP_STAT_retries), 0);
    rig_end(r);
}

static void a_get_that_fails_before_a_byte_goes_to_another_worker(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "$close", RIG_OK);
    rig_get(r, "/");
    rig_worker_got(r, 0, "w0", "GET / ");
    rig_worker_got(r, 1, "w1", "GET / ");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 worker=w1");
    assert_int_equal(rig_stat(r, APP_STAT_retries), 1);
    rig_end(r);
}

static void a_post_whose_worker_closes_is_502(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "$close");
    rig_post(r, "/", "body");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=worker-failed status=502 tries=1 worker=w0");
    assert_int_equal(rig_calls(r), 1);
    rig_end(r);
}

static void a_time_out_is_504_and_not_retried(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 2, .settings = "first_byte_timeout: 30s\n");

    rig_plan(r, "");
    rig_get(r, "/");
    rig_client_got(r, "");
    assert_int_equal(rig_pass_to_row(r), 30000);
    rig_client_got_status(r, 504, "");
    rig_row(r, "outcome=first-byte-timeout status=504 tries=1 total_us=30000000");
    assert_int_equal(rig_open(r, 0), 0);
    rig_end(r);
}

static void a_body_that_ends_early_truncates_the_response(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf$close");
    rig_get(r, "/");
    rig_client_got(r,
                   "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 10\r\n\r\nhalf");
    rig_client_is_closed(r, true);
    rig_row(r, "outcome=cut-short status=200 tries=1 sent_bytes=4");
    rig_end(r);
}

static void a_post_that_no_process_got_goes_to_another_worker(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 2, .agents = 2, .settings = "retries: 0\n");

    rig_plan(r, UNPROCESSED, RIG_OK);
    rig_post(r, "/", "body");
    rig_worker_got(r, 0, "w0", "POST / ");
    rig_worker_got(r, 1, "w1", "POST / ");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 worker=w1");
    assert_int_equal(rig_stat(r, APP_STAT_retries), 0);
    rig_end(r);
}

static void a_get_whose_process_died_behind_its_agent_goes_to_another_worker(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .agents = 2);

    rig_plan(r, FAILED_PROCESS, RIG_OK);
    rig_get(r, "/");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 worker=w1");
    assert_int_equal(rig_stat(r, APP_STAT_retries), 1);
    rig_end(r);
}

/* ---- the head that is held for 20 ms ---- */

static void a_worker_that_dies_after_its_head_alone_is_replaced_by_another(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", RIG_OK);
    rig_get(r, "/");
    rig_pass(r, 19);
    rig_client_got(r, "");
    rig_respond(r, 0, "$close");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded status=200 tries=2 worker=w1");
    rig_end(r);
}

static void a_head_without_a_body_is_passed_on_after_20_ms(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
    rig_get(r, "/");
    rig_pass(r, 20);
    rig_client_got(r, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n");
    rig_respond(r, 0, "$close");
    rig_client_is_closed(r, true);
    rig_row(r, "outcome=cut-short status=200 tries=1 sent_bytes=0");
    assert_int_equal(rig_calls(r), 1);
    rig_end(r);
}

static void a_head_of_a_post_whose_worker_dies_within_20_ms_becomes_502(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n$close");
    rig_post(r, "/", "body");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=worker-failed status=502 tries=1");
    rig_end(r);
}

/* ---- idle connections that turn out to be closed ---- */

/* One worker, with an idle connection of its first response. */
static struct exchange_rig *start_idle(void **state, const char *settings, const char *second,
                                       const char *third)
{
    struct exchange_rig *r = rig_start(state, .workers = 1, .settings = settings);

    rig_plan(r, RIG_OK, second);
    if (third != NULL)
        rig_plan(r, third);
    rig_get(r, "/1");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=1");
    rig_pass(r, 100);
    return r;
}

static void a_reset_idle_connection_is_as_a_closed_one(void **state)
{
    struct exchange_rig *r = start_idle(state, "retries: 0\n", "$reset", RIG_OK);

    rig_get(r, "/2");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=1");
    assert_int_equal(rig_accepted(r, 0), 2);
    assert_int_equal(rig_stat(r, APP_STAT_retries_fresh), 1);
    rig_end(r);
}

static void a_head_request_is_repeated_as_a_get_is(void **state)
{
    struct exchange_rig *r = start_idle(state, "retries: 0\n", "$close", RIG_OK);

    rig_send(r, "HEAD /2 HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_worker_got(r, 2, "w0", "HEAD /2 ");
    rig_client_got(r, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n");
    rig_row(r, "outcome=responded tries=1 method=HEAD");
    rig_end(r);
}

static void a_post_of_which_a_byte_was_written_to_an_idle_connection_is_lost(void **state)
{
    struct exchange_rig *r = start_idle(state, "", "$close", NULL);

    rig_post(r, "/2", "body");
    assert_int_equal(rig_call(r, 1)->connection, 0);
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=worker-failed status=502 tries=1 method=POST");
    assert_int_equal(rig_accepted(r, 0), 1);
    rig_end(r);
}

static void a_second_closed_connection_is_a_failure_of_the_worker(void **state)
{
    struct exchange_rig *r = start_idle(state, "retries: 0\n", "$close", "$close");

    rig_get(r, "/2");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=worker-failed status=502 tries=1");
    assert_int_equal(rig_stat(r, APP_STAT_retries_fresh), 1);
    rig_end(r);
}

static void a_408_that_closes_an_idle_connection_is_not_the_response(void **state)
{
    struct exchange_rig *r =
        start_idle(state, "retries: 0\n",
                   "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                   "$close",
                   RIG_OK);

    rig_get(r, "/2");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded status=200 tries=1");
    assert_int_equal(rig_accepted(r, 0), 2);
    assert_int_equal(rig_stat(r, APP_STAT_retries_fresh), 1);
    rig_end(r);
}

static void a_408_that_keeps_the_connection_is_the_response(void **state)
{
    struct exchange_rig *r =
        start_idle(state, "", "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", NULL);

    rig_get(r, "/2");
    rig_client_got(
        r, "HTTP/1.1 408 Request Timeout\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n");
    rig_row(r, "outcome=responded status=408 tries=1");
    assert_int_equal(rig_open(r, 0), 1);
    rig_end(r);
}

static void a_408_on_a_new_connection_is_the_response(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    rig_get(r, "/");
    rig_client_got_status(r, 408, "");
    rig_row(r, "outcome=responded status=408 tries=1");
    assert_int_equal(rig_calls(r), 1);
    rig_end(r);
}

static void a_408_to_a_post_is_passed_on(void **state)
{
    struct exchange_rig *r = start_idle(
        state, "", "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        NULL);

    rig_post(r, "/2", "body");
    rig_client_got_status(r, 408, "");
    rig_row(r, "outcome=responded status=408 tries=1 method=POST");
    rig_end(r);
}

/* ---- bytes left over from the response before ---- */

static void bytes_left_over_send_a_get_to_another_worker_as_a_retry(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, RIG_OK, RIG_OK, "left over\r\n\r\n", RIG_OK);
    rig_get(r, "/1");
    rig_get(r, "/2");
    rig_get(r, "/3");
    rig_worker_got(r, 2, "w0", "GET /3 ");
    rig_worker_got(r, 3, "w1", "GET /3 ");
    assert_int_equal(rig_call(r, 3)->connection, 1);
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK RIG_GOT_OK);
    rig_row(r, "tries=1 worker=w0");
    rig_row(r, "tries=1 worker=w1");
    rig_row(r, "outcome=responded tries=2 worker=w1");
    assert_int_equal(rig_stat(r, APP_STAT_retries), 1);
    assert_int_equal(rig_stat(r, APP_STAT_retries_fresh), 0);
    rig_end(r);
}

static void bytes_left_over_without_another_worker_send_a_get_to_the_same_one(void **state)
{
    struct exchange_rig *r = start_idle(state, "", "left over\r\n\r\n", RIG_OK);

    rig_get(r, "/2");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 worker=w0");
    assert_int_equal(rig_accepted(r, 0), 2);
    assert_int_equal(rig_stat(r, APP_STAT_retries), 1);
    rig_end(r);
}

static void bytes_left_over_without_a_retry_send_a_get_to_the_same_worker(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = "retries: 0\n");

    rig_plan(r, RIG_OK, RIG_OK, "left over\r\n\r\n", RIG_OK);
    rig_get(r, "/1");
    rig_get(r, "/2");
    rig_get(r, "/3");
    rig_worker_got(r, 3, "w0", "GET /3 ");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK RIG_GOT_OK);
    rig_row(r, "tries=1 worker=w0");
    rig_row(r, "tries=1 worker=w1");
    rig_row(r, "outcome=responded tries=1 worker=w0");
    assert_int_equal(rig_stat(r, APP_STAT_retries), 0);
    assert_int_equal(rig_stat(r, APP_STAT_retries_fresh), 1);
    rig_end(r);
}

static void bytes_left_over_twice_are_a_bad_response(void **state)
{
    struct exchange_rig *r = start_idle(state, "", "left over\r\n\r\n", "left over\r\n\r\n");

    rig_get(r, "/2");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=bad-response status=502 tries=2");
    rig_end(r);
}

static void bytes_left_over_are_a_bad_response_to_a_post(void **state)
{
    struct exchange_rig *r = start_idle(state, "", "left over\r\n\r\n", NULL);

    rig_post(r, "/2", "body");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=bad-response status=502 tries=1");
    rig_end(r);
}

static void no_response_on_a_new_connection_is_left_over(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "rubbish\r\n\r\n", "rubbish\r\n\r\n");
    rig_get(r, "/");
    rig_client_got_status(r, 502, "");
    rig_worker_got(r, 1, "w1", "GET / ");
    rig_row(r, "outcome=bad-response status=502 tries=2");
    assert_int_equal(rig_stat(r, APP_STAT_retries), 1);
    rig_end(r);
}

/* ---- failures of the worker ---- */

static void a_reset_before_a_response_sends_a_get_to_another_worker(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "$reset", RIG_OK);
    rig_get(r, "/");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 worker=w1");
    assert_int_equal(rig_stat(r, APP_STAT_retries), 1);
    rig_end(r);
}

static void half_a_head_is_no_response(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "HTTP/1.1 200 OK\r\nContent-Le$close", RIG_OK);
    rig_get(r, "/");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 worker=w1");
    rig_end(r);
}

static void an_interim_response_does_not_prevent_a_retry(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n$close", RIG_OK);
    rig_get(r, "/");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 worker=w1");
    rig_end(r);
}

static void retries_end_at_their_number(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 4, .settings = "retries: 2\npoison_deaths: 0\n");

    rig_plan(r, "$close", "$reset", "$close");
    rig_get(r, "/");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=worker-failed status=502 tries=3 worker=w2");
    assert_int_equal(rig_calls(r), 3);
    assert_int_equal(rig_stat(r, APP_STAT_retries), 2);
    rig_end(r);
}

static void a_worker_that_failed_is_not_tried_again(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = "retries: 5\n");

    rig_plan(r, "$close", "$close");
    rig_get(r, "/");
    rig_worker_got(r, 0, "w0", "GET / ");
    rig_worker_got(r, 1, "w1", "GET / ");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=worker-failed status=502 tries=2 worker=w1 total_us=0");
    assert_int_equal(rig_stat(r, APP_STAT_retries), 1);
    rig_end(r);
}

static void refused_connections_do_not_count_as_retries(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 4, .settings = "retries: 1\n");

    rig_refuse(r, 0, true);
    rig_refuse(r, 2, true);
    rig_plan(r, "$close", RIG_OK);
    rig_get(r, "/");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=4 worker=w3");
    assert_int_equal(rig_stat(r, APP_STAT_retries), 1);
    assert_int_equal(rig_stat(r, APP_STAT_connect_failures), 2);
    rig_end(r);
}

static void at_most_eight_workers_are_tried(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = RIG_WORKERS_MAX, .settings = "eject_time: 0s\n");

    for (unsigned w = 0; w < RIG_WORKERS_MAX; ++w)
        rig_refuse(r, w, true);
    rig_get(r, "/");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=connect-failed status=502 tries=8 total_us=0");
    rig_end(r);
}

static void a_connection_that_is_not_accepted_in_time_sends_a_get_to_another_worker(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = "connect_timeout: 3s\n");

    rig_hang(r, 0);
    rig_plan(r, RIG_OK);
    rig_get(r, "/");
    assert_int_equal(rig_pass_to_row(r), 3000);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 worker=w1 connection_wait_us=3000000");
    assert_int_equal(rig_stat(r, APP_STAT_connect_failures), 1);
    rig_end(r);
}

static void the_retry_budget_ends_retries(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 3, .settings = "retry_budget: 0\nretry_budget_min: 1\n");

    /* The first retry is in progress while the second one is due. */
    rig_plan(r, "$close", "", "$close");
    rig_get(r, "/1");
    (void)rig_client(r);
    rig_get(r, "/2");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=worker-failed status=502 tries=1 target=/2");
    assert_int_equal(rig_stat(r, APP_STAT_retries_over_budget), 1);
    rig_use(r, 0);
    rig_respond(r, 1, RIG_OK);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 target=/1");
    rig_end(r);
}

static void the_retry_budget_is_released_with_the_response(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 3, .settings = "retry_budget: 0\nretry_budget_min: 1\n");

    rig_plan(r, "$close", RIG_OK, "$close", RIG_OK);
    rig_get(r, "/1");
    rig_get(r, "/2");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2");
    rig_row(r, "outcome=responded tries=2");
    assert_int_equal(rig_stat(r, APP_STAT_retries_over_budget), 0);
    rig_end(r);
}

static void a_retry_that_fails_again_takes_one_place_of_the_budget(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .workers = 3, .settings = "retry_budget: 0\nretry_budget_min: 1\nretries: 2\n");

    rig_plan(r, "$close", "$close", RIG_OK);
    rig_get(r, "/1");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=3");
    rig_end(r);
}

static void a_retry_without_another_worker_is_not_counted(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "$close");
    rig_get(r, "/");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=worker-failed tries=1");
    assert_int_equal(rig_stat(r, APP_STAT_retries), 0);
    rig_end(r);
}

static void no_retries_are_made_without_a_budget(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 2, .settings = "retry_budget: 0\nretry_budget_min: 0\n");

    rig_plan(r, "$close");
    rig_get(r, "/");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=worker-failed tries=1");
    assert_int_equal(rig_stat(r, APP_STAT_retries_over_budget), 1);
    rig_end(r);
}

/* ---- agents ---- */

static void a_process_that_died_behind_its_agent_is_502_to_a_post(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .agents = 2);

    rig_plan(r, FAILED_PROCESS);
    rig_post(r, "/", "body");
    rig_client_got_status(r, 502, "Cache-Control: no-store\r\n");
    rig_row(r, "outcome=worker-failed status=502 tries=1");
    rig_end(r);
}

static void fields_of_agents_are_ignored_from_other_workers(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, UNPROCESSED, FAILED_PROCESS);
    rig_get(r, "/1");
    rig_client_got_status(r, 503, "Content-Length: 4\r\n");
    rig_get(r, "/2");
    rig_client_got_status(r, 502, "Content-Length: 4\r\n");
    rig_row(r, "outcome=responded status=503 tries=1");
    rig_row(r, "outcome=responded status=502 tries=1");
    rig_end(r);
}

static void the_connection_of_a_discarded_response_is_reused_if_it_has_no_body(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .agents = 2);

    rig_plan(r, "HTTP/1.1 503 Busy\r\nResumelb-Unprocessed: 1\r\nContent-Length: 0\r\n\r\n", RIG_OK,
             RIG_OK, RIG_OK);
    rig_get(r, "/1");
    rig_row(r, "outcome=responded tries=2 worker=w1");
    rig_get(r, "/2");
    rig_row(r, "outcome=responded tries=1 worker=w1");
    rig_pass(r, 1000); /* until then w0 is taken for full */
    rig_get(r, "/3");
    rig_row(r, "outcome=responded tries=1 worker=w0");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK RIG_GOT_OK);
    assert_int_equal(rig_call(r, 3)->connection, rig_call(r, 0)->connection);
    rig_end(r);
}

static void the_connection_of_a_discarded_body_is_closed(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .agents = 2);

    rig_plan(r, UNPROCESSED, RIG_OK);
    rig_get(r, "/1");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 worker=w1");
    assert_int_equal(rig_open(r, 0), 1); /* its stream */
    rig_end(r);
}

/* ---- after the first byte ---- */

static void a_chunked_response_that_fails_has_no_last_chunk(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n$close");
    rig_get(r, "/");
    rig_client_got(r, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
    rig_client_is_closed(r, true);
    rig_row(r, "outcome=cut-short status=200 tries=1");
    assert_int_equal(rig_calls(r), 1);
    rig_end(r);
}

static void an_invalid_chunk_truncates_the_response(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
    rig_get(r, "/");
    rig_respond(r, 0, "rubbish\r\n");
    rig_client_got(r, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
    rig_client_is_closed(r, true);
    rig_row(r, "outcome=cut-short status=200 tries=1");
    assert_int_equal(rig_open(r, 0), 0);
    rig_end(r);
}

static void a_response_that_ends_with_its_connection_is_complete_unless_that_was_reset(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "HTTP/1.1 200 OK\r\n\r\nall$close", "HTTP/1.1 200 OK\r\n\r\nhalf");
    rig_get(r, "/1");
    rig_client_got(r, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n3\r\nall\r\n0\r\n\r\n");
    rig_row(r, "outcome=responded status=200 tries=1 sent_bytes=3");
    rig_get(r, "/2");
    rig_respond(r, 1, "$reset");
    rig_client_got(r, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
    rig_client_is_closed(r, true);
    rig_row(r, "outcome=cut-short status=200 tries=1 sent_bytes=4");
    rig_end(r);
}

static void truncation_without_any_framing_lacks_close_notify(void **state)
{
    struct exchange_rig *r = rig_start(state, .tls = true, .worker_tls = true);

    rig_plan(r, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n$reset");
    rig_send(r, "GET / HTTP/1.0\r\nHost: h\r\n\r\n");
    rig_client_got(r, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf");
    rig_client_is_closed(r, true);
    assert_true(rig_peer(r)->truncated);
    rig_row(r, "outcome=cut-short status=200 tries=1 protocol=HTTP/1.0");
    rig_end(r);
}

static void a_response_without_any_framing_ends_with_close_notify(void **state)
{
    struct exchange_rig *r = rig_start(state, .tls = true, .worker_tls = true);

    rig_plan(r, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nall\r\n0\r\n\r\n");
    rig_send(r, "GET / HTTP/1.0\r\nHost: h\r\n\r\n");
    rig_client_got(r, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall");
    rig_client_is_closed(r, true);
    assert_false(rig_peer(r)->truncated);
    rig_row(r, "outcome=responded status=200 tries=1 protocol=HTTP/1.0");
    rig_end(r);
}

static void a_client_that_sends_pipelined_requests_gets_its_responses_in_order(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "$close", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1",
             "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
    rig_send(r, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_client_got(r, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n1"
                      "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n2");
    rig_row(r, "outcome=responded target=/1 tries=2");
    rig_row(r, "outcome=responded target=/2 tries=1");
    rig_end(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_reaches_one_worker_and_its_response_the_client),
        cmocka_unit_test(an_agent_serves_as_a_listed_worker_does),
        cmocka_unit_test(tls_on_both_sides_changes_nothing),
        cmocka_unit_test(a_refused_connection_sends_a_get_to_another_worker),
        cmocka_unit_test(a_refused_connection_sends_a_post_to_another_worker),
        cmocka_unit_test(without_another_worker_a_refused_connection_is_502),
        cmocka_unit_test(a_get_on_a_closed_idle_connection_is_sent_again_to_the_same_worker),
        cmocka_unit_test(a_get_that_fails_before_a_byte_goes_to_another_worker),
        cmocka_unit_test(a_post_whose_worker_closes_is_502),
        cmocka_unit_test(a_time_out_is_504_and_not_retried),
        cmocka_unit_test(a_body_that_ends_early_truncates_the_response),
        cmocka_unit_test(a_post_that_no_process_got_goes_to_another_worker),
        cmocka_unit_test(a_get_whose_process_died_behind_its_agent_goes_to_another_worker),
        cmocka_unit_test(a_worker_that_dies_after_its_head_alone_is_replaced_by_another),
        cmocka_unit_test(a_head_without_a_body_is_passed_on_after_20_ms),
        cmocka_unit_test(a_head_of_a_post_whose_worker_dies_within_20_ms_becomes_502),
        cmocka_unit_test(a_reset_idle_connection_is_as_a_closed_one),
        cmocka_unit_test(a_head_request_is_repeated_as_a_get_is),
        cmocka_unit_test(a_post_of_which_a_byte_was_written_to_an_idle_connection_is_lost),
        cmocka_unit_test(a_second_closed_connection_is_a_failure_of_the_worker),
        cmocka_unit_test(a_408_that_closes_an_idle_connection_is_not_the_response),
        cmocka_unit_test(a_408_that_keeps_the_connection_is_the_response),
        cmocka_unit_test(a_408_on_a_new_connection_is_the_response),
        cmocka_unit_test(a_408_to_a_post_is_passed_on),
        cmocka_unit_test(bytes_left_over_send_a_get_to_another_worker_as_a_retry),
        cmocka_unit_test(bytes_left_over_without_another_worker_send_a_get_to_the_same_one),
        cmocka_unit_test(bytes_left_over_without_a_retry_send_a_get_to_the_same_worker),
        cmocka_unit_test(bytes_left_over_twice_are_a_bad_response),
        cmocka_unit_test(bytes_left_over_are_a_bad_response_to_a_post),
        cmocka_unit_test(no_response_on_a_new_connection_is_left_over),
        cmocka_unit_test(a_reset_before_a_response_sends_a_get_to_another_worker),
        cmocka_unit_test(half_a_head_is_no_response),
        cmocka_unit_test(an_interim_response_does_not_prevent_a_retry),
        cmocka_unit_test(retries_end_at_their_number),
        cmocka_unit_test(a_worker_that_failed_is_not_tried_again),
        cmocka_unit_test(refused_connections_do_not_count_as_retries),
        cmocka_unit_test(at_most_eight_workers_are_tried),
        cmocka_unit_test(a_connection_that_is_not_accepted_in_time_sends_a_get_to_another_worker),
        cmocka_unit_test(the_retry_budget_ends_retries),
        cmocka_unit_test(the_retry_budget_is_released_with_the_response),
        cmocka_unit_test(a_retry_that_fails_again_takes_one_place_of_the_budget),
        cmocka_unit_test(a_retry_without_another_worker_is_not_counted),
        cmocka_unit_test(no_retries_are_made_without_a_budget),
        cmocka_unit_test(a_process_that_died_behind_its_agent_is_502_to_a_post),
        cmocka_unit_test(fields_of_agents_are_ignored_from_other_workers),
        cmocka_unit_test(the_connection_of_a_discarded_response_is_reused_if_it_has_no_body),
        cmocka_unit_test(the_connection_of_a_discarded_body_is_closed),
        cmocka_unit_test(a_chunked_response_that_fails_has_no_last_chunk),
        cmocka_unit_test(an_invalid_chunk_truncates_the_response),
        cmocka_unit_test(
            a_response_that_ends_with_its_connection_is_complete_unless_that_was_reset),
        cmocka_unit_test(truncation_without_any_framing_lacks_close_notify),
        cmocka_unit_test(a_response_without_any_framing_ends_with_close_notify),
        cmocka_unit_test(a_client_that_sends_pipelined_requests_gets_its_responses_in_order),
    };

    return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
