/* SPDX-License-Identifier: Apache-2.0
 *
 * One request at a slot or at the application's own address: its response, the held head, retries,
 * failures, and what the process receives.
 */
#include "tests/support/agent_rig.h"
#include "worker-agent/front/front.h"

#define HEAD_OF_10 "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
#define GOT_HEAD_OF_10                                                                             \
    "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 10\r\nResumelb-Backlog: "        \
    "1\r\n\r\n"

/* ---- responses ---- */

static void a_request_reaches_the_process_and_its_response_the_client(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, RIG_OK);
    rig_get(r, "/a");
    rig_process_got(r, 0, "p0", "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_client_got(r, RIG_GOT_OK);
    rig_supervisor_got(r, "spawn p0\nnote p0 ready\n");
    assert_int_equal(rig_stat(r, AGENT_STAT_responses_2xx), 1);
    rig_end(r);
}

static void a_connection_to_a_process_is_used_again(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, RIG_OK, RIG_OK);
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_get(r, "/b");
    rig_client_got(r, RIG_GOT_OK);
    assert_int_equal(rig_call(r, 1)->connection, rig_call(r, 0)->connection);
    assert_int_equal(rig_open(r), 1);
    rig_end(r);
}

static void a_response_without_a_length_ends_with_its_connection(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, "HTTP/1.1 200 OK\r\n\r\nall of it$close");
    rig_get(r, "/a");
    rig_client_got(r, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nResumelb-Backlog: 1\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n9\r\nall of it\r\n0\r\n\r\n");
    assert_int_equal(rig_open(r), 0);
    rig_end(r);
}

static void a_head_request_has_no_body_and_keeps_the_connection(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, HEAD_OF_10);
    rig_send(r, "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_client_got(r, GOT_HEAD_OF_10);
    assert_int_equal(rig_open(r), 1);
    rig_end(r);
}

static void headers_of_the_connection_and_of_agents_are_removed_from_a_response(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, "HTTP/1.1 200 OK\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
                "Resumelb-Unprocessed: 1\r\nResumelb-Backlog: 77\r\nX-Own: 2\r\n"
                "Content-Length: 0\r\n\r\n");
    rig_get(r, "/a");
    rig_client_got_status(r, 200, "X-Own: 2\r\n", "!X-Hop", "!Keep-Alive", "!Unprocessed", "!77",
                          "Resumelb-Backlog: 1\r\n");
    rig_end(r);
}

static void the_reported_backlog_includes_the_requests_that_wait(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_get(r, "/a");
    rig_client(r, "slot0");
    rig_get(r, "/b");
    rig_client(r, "slot0");
    rig_get(r, "/c");
    assert_int_equal(rig_calls(r), 1);
    rig_plan(r, "", RIG_OK, RIG_OK);
    rig_respond(r, 0, RIG_OK);
    rig_use(r, 0);
    rig_client_got_status(r, 200, "Resumelb-Backlog: 3\r\n");
    rig_use(r, 1);
    rig_client_got_status(r, 200, "Resumelb-Backlog: 2\r\n");
    rig_use(r, 2);
    rig_client_got_status(r, 200, "Resumelb-Backlog: 1\r\n");
    rig_end(r);
}

static void interim_responses_are_not_the_response(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n");
    rig_get(r, "/a");
    rig_client_got(r, "");
    rig_respond(r, 0, RIG_OK);
    rig_client_got(r, RIG_GOT_OK);
    assert_int_equal(rig_stat(r, AGENT_STAT_responses_2xx), 1);
    rig_end(r);
}

static void responses_are_counted_by_their_status(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, "HTTP/1.1 304 Same\r\n\r\n", "HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n",
             "HTTP/1.1 599 Bad\r\nContent-Length: 0\r\n\r\n");
    rig_get(r, "/a");
    rig_client_got_status(r, 304, NULL);
    rig_get(r, "/a");
    rig_client_got_status(r, 404, NULL);
    rig_get(r, "/a");
    rig_client_got_status(r, 599, NULL);
    assert_int_equal(rig_stat(r, AGENT_STAT_responses_2xx), 0);
    assert_int_equal(rig_stat(r, AGENT_STAT_responses_3xx), 1);
    assert_int_equal(rig_stat(r, AGENT_STAT_responses_4xx), 1);
    assert_int_equal(rig_stat(r, AGENT_STAT_responses_5xx), 1);
    rig_end(r);
}

/* ---- the held head ---- */

static void a_head_is_held_for_20_ms(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, HEAD_OF_10);
    rig_get(r, "/a");
    rig_pass(r, 19);
    rig_client_got(r, "");
    rig_pass(r, 1);
    rig_client_got(r, GOT_HEAD_OF_10);
    rig_respond(r, 0, "0123456789");
    rig_client_got(r, "0123456789");
    rig_end(r);
}

static void a_head_is_sent_with_the_first_bytes_of_its_body(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, HEAD_OF_10);
    rig_get(r, "/a");
    rig_respond(r, 0, "01234");
    rig_client_got(r, GOT_HEAD_OF_10 "01234");
    rig_respond(r, 0, "56789");
    rig_client_got(r, "56789");
    rig_end(r);
}

static void a_process_that_dies_while_its_head_is_held_has_failed_the_request(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, HEAD_OF_10 "$die");
    rig_get(r, "/a");
    rig_client_got_status(r, 502, "Resumelb-Failed: 1\r\n", "Resumelb-Backlog: 1\r\n",
                          "!Unprocessed");
    assert_int_equal(rig_stat(r, AGENT_STAT_failures), 1);
    rig_client_is_closed(r, false);
    rig_end(r);
}

static void a_response_that_ends_early_is_cut_for_the_client(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, HEAD_OF_10 "0123$die");
    rig_get(r, "/a");
    rig_client_got(r, GOT_HEAD_OF_10 "0123");
    rig_client_is_closed(r, true);
    assert_int_equal(rig_stat(r, AGENT_STAT_failures), 1);
    rig_end(r);
}

static void a_process_that_dies_after_its_head_was_sent_cuts_the_response(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, HEAD_OF_10);
    rig_get(r, "/a");
    rig_pass(r, 20);
    rig_respond(r, 0, "$die");
    rig_client_got(r, GOT_HEAD_OF_10);
    rig_client_is_closed(r, true);
    rig_end(r);
}

/* ---- retries on idle connections ---- */

static void a_get_on_a_dead_idle_connection_is_sent_again(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, RIG_OK, "$close", RIG_OK);
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_get(r, "/b");
    rig_process_got(r, 2, "p0", "GET /b HTTP/1.1\r\n");
    rig_client_got(r, RIG_GOT_OK);
    assert_int_not_equal(rig_call(r, 2)->connection, rig_call(r, 1)->connection);
    assert_int_equal(rig_stat(r, AGENT_STAT_retries_fresh), 1);
    assert_int_equal(rig_stat(r, AGENT_STAT_failures), 0);
    rig_end(r);
}

static void
a_post_uses_no_idle_connection_of_a_process_that_just_closed_one_on_a_request(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, RIG_OK, "$close", RIG_OK, RIG_OK, RIG_OK);
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_get(r, "/b"); /* is sent twice */
    rig_client_got(r, RIG_GOT_OK);
    rig_post(r, "/c", "body");
    rig_client_got(r, RIG_GOT_OK);
    assert_int_not_equal(rig_call(r, 3)->connection, rig_call(r, 2)->connection);
    rig_pass(r, 60000);
    rig_get(r, "/d");
    rig_client_got(r, RIG_GOT_OK);
    rig_plan(r, RIG_OK);
    rig_post(r, "/e", "body");
    rig_client_got(r, RIG_GOT_OK);
    assert_int_equal(rig_call(r, 5)->connection, rig_call(r, 4)->connection);
    rig_end(r);
}

static void a_get_is_sent_again_once_only(void **state)
{
    struct agent_rig *r = rig_start(.settings = "concurrency: 2");

    (void)state;
    rig_get(r, "/a");
    rig_client(r, "slot0");
    rig_get(r, "/b");
    rig_plan(r, "", "", "$close", "$close");
    rig_respond(r, 0, RIG_OK);
    rig_respond(r, 1, RIG_OK);
    rig_client_got_status(r, 200, NULL);
    /* Two connections are idle; the second attempt does not use the other one. */
    rig_get(r, "/c");
    rig_client_got_status(r, 502, "Resumelb-Failed: 1\r\n");
    assert_int_equal(rig_calls(r), 4);
    assert_int_equal(rig_call(r, 3)->connection, 2 + rig_call(r, 0)->connection);
    assert_int_equal(rig_stat(r, AGENT_STAT_retries_fresh), 1);
    rig_use(r, 0);
    rig_client_got_status(r, 200, NULL);
    rig_end(r);
}

static void a_post_that_was_written_is_not_sent_again(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, RIG_OK, "$close");
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_post(r, "/b", "body");
    assert_int_equal(rig_call(r, 1)->connection, rig_call(r, 0)->connection);
    rig_client_got_status(r, 502, "Resumelb-Failed: 1\r\n");
    assert_int_equal(rig_calls(r), 2);
    assert_int_equal(rig_stat(r, AGENT_STAT_retries_fresh), 0);
    rig_end(r);
}

static void a_get_on_a_new_connection_is_not_sent_again(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, "$close");
    rig_get(r, "/a");
    rig_client_got_status(r, 502, "Resumelb-Failed: 1\r\n", "the application failed");
    assert_int_equal(rig_calls(r), 1);
    rig_end(r);
}

static void a_response_that_has_begun_is_not_requested_again(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, RIG_OK, "HTTP/1.1 200$close");
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_get(r, "/b");
    rig_client_got_status(r, 502, "Resumelb-Failed: 1\r\n");
    assert_int_equal(rig_calls(r), 2);
    rig_end(r);
}

static void a_connection_that_closed_while_idle_is_not_used(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, RIG_OK, RIG_OK);
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_respond(r, 0, "$close");
    rig_post(r, "/b", "body");
    rig_client_got(r, RIG_GOT_OK);
    assert_int_equal(rig_stat(r, AGENT_STAT_retries_fresh), 0);
    rig_end(r);
}

static void a_post_uses_no_connection_that_idled_for_long(void **state)
{
    struct agent_rig *r = rig_start(.settings = "unsafe_reuse_idle: 300ms");

    (void)state;
    rig_plan(r, RIG_OK, RIG_OK, RIG_OK);
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_pass(r, 400);
    rig_post(r, "/b", "body");
    rig_client_got(r, RIG_GOT_OK);
    assert_int_not_equal(rig_call(r, 1)->connection, rig_call(r, 0)->connection);
    rig_pass(r, 400);
    rig_get(r, "/c");
    rig_client_got(r, RIG_GOT_OK);
    assert_int_equal(rig_open(r), 2);
    rig_end(r);
}

static void a_post_uses_no_idle_connection_without_unsafe_reuse_idle(void **state)
{
    struct agent_rig *r = rig_start(.settings = "unsafe_reuse_idle: 0s");

    (void)state;
    rig_plan(r, RIG_OK, RIG_OK);
    rig_post(r, "/a", "body");
    rig_client_got(r, RIG_GOT_OK);
    rig_post(r, "/b", "body");
    rig_client_got(r, RIG_GOT_OK);
    assert_int_not_equal(rig_call(r, 1)->connection, rig_call(r, 0)->connection);
    rig_end(r);
}

static void a_408_on_an_idle_connection_that_closes_means_try_again(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, RIG_OK, "HTTP/1.1 408 Late\r\nConnection: close\r\nContent-Length: 0\r\n\r\n$close",
             RIG_OK);
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_get(r, "/b");
    rig_client_got(r, RIG_GOT_OK);
    assert_int_equal(rig_stat(r, AGENT_STAT_retries_fresh), 1);
    assert_int_equal(rig_stat(r, AGENT_STAT_responses_4xx), 0);
    rig_end(r);
}

static void a_408_on_a_new_connection_is_the_response(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, "HTTP/1.1 408 Late\r\nConnection: close\r\nContent-Length: 0\r\n\r\n$close");
    rig_get(r, "/a");
    rig_client_got_status(r, 408, NULL);
    assert_int_equal(rig_calls(r), 1);
    rig_end(r);
}

static void a_408_for_a_post_is_the_response(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, RIG_OK,
             "HTTP/1.1 408 Late\r\nConnection: close\r\nContent-Length: 0\r\n\r\n$close");
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_post(r, "/b", "body");
    rig_client_got_status(r, 408, NULL);
    rig_end(r);
}

/* ---- failures ---- */

static void an_invalid_response_is_a_failure(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, "hello\r\n\r\n");
    rig_get(r, "/a");
    rig_client_got_status(r, 502, "Resumelb-Failed: 1\r\n");
    assert_int_equal(rig_open(r), 0);
    rig_end(r);
}

static void a_silent_process_is_late_and_stopped_if_it_serves_one_at_a_time(void **state)
{
    struct agent_rig *r = rig_start(.settings = "first_byte_timeout: 2s");

    (void)state;
    rig_get(r, "/a");
    rig_supervisor_got(r, "spawn p0\nnote p0 ready\n");
    rig_pass(r, 1990);
    rig_client_got(r, "");
    rig_pass(r, 20);
    rig_client_got_status(r, 504, "!Resumelb-Failed", "!Unprocessed", "in time");
    assert_int_equal(rig_stat(r, AGENT_STAT_timeouts), 1);
    rig_pass(r, 2000);
    rig_supervisor_got(r, "note p0 leaving\nsignal p0 15\nspawn p1\nnote p1 ready\n");
    rig_end(r);
}

static void a_silent_process_that_serves_several_is_left_alone(void **state)
{
    struct agent_rig *r = rig_start(.settings = "first_byte_timeout: 2s, concurrency: 2");

    (void)state;
    rig_get(r, "/a");
    rig_pass(r, 2010);
    rig_client_got_status(r, 504, NULL);
    rig_supervisor_got(r, "spawn p0\nnote p0 ready\n");
    assert_string_equal(rig_state(r, 0), "ready");
    rig_end(r);
}

static void a_late_response_on_an_idle_connection_is_not_requested_again(void **state)
{
    struct agent_rig *r = rig_start(.settings = "first_byte_timeout: 2s, concurrency: 2");

    (void)state;
    rig_plan(r, RIG_OK);
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_get(r, "/b");
    rig_pass(r, 2010);
    rig_client_got_status(r, 504, NULL);
    assert_int_equal(rig_calls(r), 2);
    rig_end(r);
}

static void a_response_that_stalls_is_cut(void **state)
{
    struct agent_rig *r = rig_start(.settings = "between_bytes_timeout: 3s");

    (void)state;
    rig_plan(r, HEAD_OF_10 "0123");
    rig_get(r, "/a");
    rig_client_got(r, GOT_HEAD_OF_10 "0123");
    rig_pass(r, 2900);
    rig_client_is_closed(r, false);
    rig_pass(r, 200);
    rig_client_is_closed(r, true);
    assert_int_equal(rig_stat(r, AGENT_STAT_timeouts), 1);
    /* It had begun to respond: it is not regarded as stuck. */
    assert_string_equal(rig_state(r, 0), "ready");
    rig_end(r);
}

static void a_process_that_refuses_connections_has_not_got_the_request(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_refuse(r, 0);
    rig_post(r, "/a", "body");
    rig_client_got_status(r, 503, "Resumelb-Unprocessed: 1\r\n", "process not reached");
    assert_int_equal(rig_stat(r, AGENT_STAT_connect_failures), 1);
    assert_int_equal(rig_stat(r, AGENT_STAT_failures), 0);
    rig_end(r);
}

static void at_its_own_address_another_process_is_tried(void **state)
{
    struct agent_rig *r = rig_start(.settings = "min_processes: 2");

    (void)state;
    rig_refuse(r, 0);
    rig_plan(r, RIG_OK, RIG_OK);
    rig_client(r, "own");
    rig_post(r, "/a", "body");
    rig_client_got_status(r, 200, NULL);
    rig_post(r, "/b", "body");
    rig_client_got_status(r, 200, NULL);
    rig_process_got(r, 0, "p1", "POST /a HTTP/1.1\r\n");
    rig_process_got(r, 1, "p1", "POST /b HTTP/1.1\r\n");
    rig_end(r);
}

static void at_its_own_address_ten_processes_are_tried(void **state)
{
    struct agent_rig *r = rig_start(.settings = "min_processes: 12");

    (void)state;
    for (unsigned p = 0; p < 12; ++p)
        rig_refuse(r, p);
    rig_client(r, "own");
    rig_get(r, "/a");
    rig_client_got_status(r, 503, "Retry-After: 1\r\n", "process not reached", "!Resumelb");
    assert_int_equal(rig_stat(r, AGENT_STAT_connect_failures), 10);
    assert_int_equal(rig_stat(r, AGENT_STAT_tries_elsewhere), 9);
    rig_end(r);
}

static void at_its_own_address_a_received_request_is_not_tried_again(void **state)
{
    struct agent_rig *r = rig_start(.settings = "min_processes: 2");

    (void)state;
    rig_client(r, "own");
    rig_plan(r, "$close");
    rig_get(r, "/a");
    rig_client_got_status(r, 502, "!Resumelb", "!Retry-After");
    assert_int_equal(rig_calls(r), 1);
    rig_end(r);
}

static void show_errors_adds_what_the_process_wrote_last(void **state)
{
    struct agent_rig *r = rig_start(.settings = "show_errors: true");

    (void)state;
    rig_get(r, "/a");
    rig_output(r, 0, "Error: <no> database\n");
    rig_respond(r, 0, "$close");
    rig_client_got_status(r, 502, "Content-Type: text/plain", "Error: <no> database",
                          "X-Content-Type-Options: nosniff\r\n");
    rig_send(r, "GET /a HTTP/1.1\r\nHost: h\r\nAccept: image/png, text/html;q=1\r\n\r\n");
    rig_pass(r, 60);
    rig_respond(r, 1, "$close");
    rig_client_got_status(r, 502, "Content-Type: text/html", "Error: &lt;no&gt; database",
                          "Content-Security-Policy: default-src 'none'");
    rig_end(r);
}

static void without_show_errors_nothing_of_the_process_is_shown(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_get(r, "/a");
    rig_output(r, 0, "Error: no database\n");
    rig_respond(r, 0, "$close");
    rig_client_got_status(r, 502, "!database");
    rig_end(r);
}

/* ---- what a process receives ---- */

static void a_process_receives_the_class_and_no_other_header_of_load_balancers(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, RIG_OK, RIG_OK);
    rig_send(r, "GET /a HTTP/1.1\r\nHost: h\r\nResumelb-Class: c1\r\nResumelb-Classifier: "
                "0123456789abcdef\r\nX-Forwarded-For: 192.0.2.1\r\nConnection: x-hop\r\n"
                "X-Hop: 1\r\n\r\n");
    rig_process_got(r, 0, "p0",
                    "GET /a HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.1\r\n"
                    "Resumelb-Class: c1\r\n\r\n");
    rig_client_got(r, RIG_GOT_OK);
    rig_client(r, "own");
    rig_send(r, "GET /a HTTP/1.1\r\nHost: h\r\nResumelb-Class: c1\r\n\r\n");
    assert_null(strstr(text_cstr(&((struct agent_rig_call *)(uintptr_t)rig_call(r, 1))->bytes),
                       "Resumelb"));
    rig_client_got_status(r, 200, "!Resumelb");
    rig_end(r);
}

/* ---- the end ---- */

static void requests_that_are_cut_end_at_both_sides(void **state)
{
    struct agent_rig *r = rig_start(.settings = "concurrency: 2");

    (void)state;
    rig_get(r, "/a");
    rig_client(r, "slot0");
    rig_get(r, "/b");
    rig_respond(r, 1, HEAD_OF_10 "01");
    rig_client_got(r, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 10\r\n"
                      "Resumelb-Backlog: 2\r\n\r\n01");
    front_cut(rig_agent(r)->front);
    rig_settle(r);
    rig_client_is_closed(r, true);
    rig_use(r, 0);
    rig_client_got_status(r, 502, NULL);
    rig_client_is_closed(r, true);
    assert_int_equal(rig_open(r), 0);
    assert_int_equal(rig_stat(r, AGENT_STAT_requests_running), 0);
    rig_end(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_reaches_the_process_and_its_response_the_client),
        cmocka_unit_test(a_connection_to_a_process_is_used_again),
        cmocka_unit_test(a_response_without_a_length_ends_with_its_connection),
        cmocka_unit_test(a_head_request_has_no_body_and_keeps_the_connection),
        cmocka_unit_test(headers_of_the_connection_and_of_agents_are_removed_from_a_response),
        cmocka_unit_test(the_reported_backlog_includes_the_requests_that_wait),
        cmocka_unit_test(interim_responses_are_not_the_response),
        cmocka_unit_test(responses_are_counted_by_their_status),
        cmocka_unit_test(a_head_is_held_for_20_ms),
        cmocka_unit_test(a_head_is_sent_with_the_first_bytes_of_its_body),
        cmocka_unit_test(a_process_that_dies_while_its_head_is_held_has_failed_the_request),
        cmocka_unit_test(a_response_that_ends_early_is_cut_for_the_client),
        cmocka_unit_test(a_process_that_dies_after_its_head_was_sent_cuts_the_response),
        cmocka_unit_test(a_get_on_a_dead_idle_connection_is_sent_again),
        cmocka_unit_test(
            a_post_uses_no_idle_connection_of_a_process_that_just_closed_one_on_a_request),
        cmocka_unit_test(a_get_is_sent_again_once_only),
        cmocka_unit_test(a_post_that_was_written_is_not_sent_again),
        cmocka_unit_test(a_get_on_a_new_connection_is_not_sent_again),
        cmocka_unit_test(a_response_that_has_begun_is_not_requested_again),
        cmocka_unit_test(a_connection_that_closed_while_idle_is_not_used),
        cmocka_unit_test(a_post_uses_no_connection_that_idled_for_long),
        cmocka_unit_test(a_post_uses_no_idle_connection_without_unsafe_reuse_idle),
        cmocka_unit_test(a_408_on_an_idle_connection_that_closes_means_try_again),
        cmocka_unit_test(a_408_on_a_new_connection_is_the_response),
        cmocka_unit_test(a_408_for_a_post_is_the_response),
        cmocka_unit_test(an_invalid_response_is_a_failure),
        cmocka_unit_test(a_silent_process_is_late_and_stopped_if_it_serves_one_at_a_time),
        cmocka_unit_test(a_silent_process_that_serves_several_is_left_alone),
        cmocka_unit_test(a_late_response_on_an_idle_connection_is_not_requested_again),
        cmocka_unit_test(a_response_that_stalls_is_cut),
        cmocka_unit_test(a_process_that_refuses_connections_has_not_got_the_request),
        cmocka_unit_test(at_its_own_address_another_process_is_tried),
        cmocka_unit_test(at_its_own_address_ten_processes_are_tried),
        cmocka_unit_test(at_its_own_address_a_received_request_is_not_tried_again),
        cmocka_unit_test(show_errors_adds_what_the_process_wrote_last),
        cmocka_unit_test(without_show_errors_nothing_of_the_process_is_shown),
        cmocka_unit_test(a_process_receives_the_class_and_no_other_header_of_load_balancers),
        cmocka_unit_test(requests_that_are_cut_end_at_both_sides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
