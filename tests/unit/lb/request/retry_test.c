/* SPDX-License-Identifier: Apache-2.0
 *
 * "Retries, exactly" of docs/guide/routing.md, row by row.
 */
#include "tests/support/exchange_rig.h"

#define OK_UNPROCESSED                                                                             \
    "HTTP/1.1 503 Busy\r\nResumelb-Unprocessed: 1\r\nContent-Length: 4\r\n\r\nfull"
#define FAILED_PROCESS "HTTP/1.1 502 Failed\r\nResumelb-Failed: 1\r\nContent-Length: 4\r\n\r\ndied"

static void a_request_reaches_one_worker_and_its_response_the_client(void **state)
{
    struct exchange_rig *r = rig_start(.workers = 2);

    (void)state;
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
    struct exchange_rig *r = rig_start(.agents = 1);

    (void)state;
    rig_plan(r, RIG_OK);
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=1 worker=w0");
    rig_end(r);
}

static void tls_on_both_sides_changes_nothing(void **state)
{
    struct exchange_rig *r = rig_start(.workers = 2, .tls = true, .worker_tls = true);

    (void)state;
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
    struct exchange_rig *r = rig_start(.workers = 2, .settings = "retries: 0\n");

    (void)state;
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
    struct exchange_rig *r = rig_start(.workers = 2, .settings = "retries: 0\n");

    (void)state;
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
    struct exchange_rig *r = rig_start(.workers = 2, .settings = "retries: 0\n");

    (void)state;
    rig_refuse(r, 0, true);
    rig_refuse(r, 1, true);
    rig_get(r, "/");
    rig_client_got_status(r, 502, "Cache-Control: no-store\r\n");
    rig_row(r, "outcome=connect-failed status=502 tries=2");
    rig_end(r);
}

static void a_get_on_a_closed_idle_connection_is_sent_again_to_the_same_worker(void **state)
{
    struct exchange_rig *r = rig_start(.workers = 2, .settings = "retries: 0\n");

    (void)state;
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
    struct exchange_rig *r = rig_start(.workers = 2);

    (void)state;
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
    struct exchange_rig *r = rig_start(.workers = 2);

    (void)state;
    rig_plan(r, "$close");
    rig_post(r, "/", "body");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=worker-failed status=502 tries=1 worker=w0");
    assert_int_equal(rig_calls(r), 1);
    rig_end(r);
}

static void a_time_out_is_504_and_not_retried(void **state)
{
    struct exchange_rig *r = rig_start(.workers = 2, .settings = "first_byte_timeout: 30s\n");

    (void)state;
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
    struct exchange_rig *r = rig_start(.workers = 2);

    (void)state;
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
    struct exchange_rig *r = rig_start(.workers = 2, .agents = 2, .settings = "retries: 0\n");

    (void)state;
    rig_plan(r, OK_UNPROCESSED, RIG_OK);
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
    struct exchange_rig *r = rig_start(.workers = 2, .agents = 2);

    (void)state;
    rig_plan(r, FAILED_PROCESS, RIG_OK);
    rig_get(r, "/");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=2 worker=w1");
    assert_int_equal(rig_stat(r, APP_STAT_retries), 1);
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
    };

    return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
