/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of the load balancer: a drain lets requests end, a cut ends them.
 */
#include "tests/support/exchange_rig.h"

#define GOT_LAST "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
#define UPGRADE "GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
#define SWITCHED                                                                                   \
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
#define GOT_SWITCHED                                                                               \
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"

static void an_idle_client_is_closed_by_a_drain(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_drain(r, false);
    rig_client_is_closed(r, true);
    rig_client_close(r);
    assert_true(rig_drained(r));
    rig_end(r);
}

static void a_request_in_progress_ends_before_the_drain(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "");
    rig_get(r, "/");
    rig_drain(r, false);
    rig_pass(r, 3000);
    assert_false(rig_drained(r));
    rig_respond(r, 0, RIG_OK);
    rig_client_got(r, GOT_LAST);
    rig_client_is_closed(r, true);
    rig_client_close(r);
    rig_row(r, "outcome=responded status=200 total_us=3000000");
    assert_true(rig_drained(r));
    rig_end(r);
}

static void a_request_that_is_retried_ends_before_the_drain(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "", "");
    rig_get(r, "/");
    rig_drain(r, false);
    rig_respond(r, 0, "$close");
    rig_respond(r, 1, RIG_OK);
    rig_client_got(r, GOT_LAST);
    rig_client_close(r);
    rig_row(r, "outcome=responded status=200 tries=2");
    assert_true(rig_drained(r));
    rig_end(r);
}

static void a_patient_drain_serves_one_more_request_of_an_idle_client(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_drain(r, true);
    rig_client_is_closed(r, false);
    rig_plan(r, RIG_OK);
    rig_get(r, "/");
    rig_client_got(r, GOT_LAST);
    rig_client_is_closed(r, true);
    rig_client_close(r);
    rig_row(r, "outcome=responded status=200");
    assert_true(rig_drained(r));
    rig_end(r);
}

static void idle_clients_of_a_patient_drain_are_closed_when_their_time_is_over(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_drain(r, true);
    assert_false(rig_drained(r));
    rig_shut_idle(r);
    rig_client_is_closed(r, true);
    rig_client_close(r);
    assert_true(rig_drained(r));
    rig_end(r);
}

static void a_cut_rejects_a_request_without_a_response(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "");
    rig_get(r, "/");
    rig_drain(r, false);
    rig_cut(r);
    rig_client_got_status(r, 503, "Connection: close\r\n");
    rig_client_is_closed(r, true);
    rig_client_close(r);
    rig_row(r, "outcome=shutting-down status=503 tries=1");
    assert_int_equal(rig_open(r, 0), 0);
    assert_true(rig_drained(r));
    rig_end(r);
}

static void a_cut_truncates_a_response(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    rig_get(r, "/");
    rig_client_got(r,
                   "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 10\r\n\r\nhalf");
    rig_drain(r, false);
    rig_cut(r);
    rig_client_got(r, "");
    rig_client_is_closed(r, true);
    rig_client_close(r);
    rig_row(r, "outcome=shutting-down status=200 sent_bytes=4");
    rig_end(r);
}

static void a_cut_ends_requests_that_wait(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .settings = "max_connections: 1\n"
                           "limits: {one: {workers: 1, key: a, match: {path: \"/l\"}}}\n");

    rig_plan(r, "");
    rig_get(r, "/l"); /* holds the lease, and the connection */
    (void)rig_client(r);
    rig_get(r, "/l"); /* waits for the lease */
    (void)rig_client(r);
    rig_get(r, "/c"); /* waits for the connection */
    rig_drain(r, false);
    rig_cut(r);
    for (unsigned c = 0; c < 3; ++c) {
        rig_use(r, c);
        rig_client_got_status(r, 503, "");
        rig_client_close(r);
        rig_row(r, "outcome=shutting-down status=503");
    }
    assert_int_equal(rig_stat(r, APP_STAT_waiting_for_limit), 0);
    assert_int_equal(rig_stat(r, APP_STAT_connection_waiting), 0);
    assert_int_equal(rig_calls(r), 1);
    assert_true(rig_drained(r));
    rig_end(r);
}

static void a_cut_ends_requests_without_a_worker(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1);

    rig_feed(r, 0, RIG_RESUME("i0", "draining"));
    rig_get(r, "/");
    assert_int_equal(rig_stat(r, APP_STAT_requests_waiting), 1);
    rig_drain(r, false);
    rig_cut(r);
    rig_client_got_status(r, 503, "");
    rig_client_close(r);
    rig_row(r, "outcome=shutting-down status=503 tries=0");
    assert_true(rig_drained(r));
    rig_end(r);
}

static void a_tunnel_ends_with_a_drain_unless_that_is_patient(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, SWITCHED);
    rig_send(r, UPGRADE);
    rig_client_got(r, GOT_SWITCHED);
    rig_drain(r, false);
    rig_client_is_closed(r, true);
    rig_client_close(r);
    rig_row(r, "outcome=tunnelled status=101");
    assert_true(rig_drained(r));
    rig_end(r);
    r = rig_start(state, .workers = 1);
    rig_plan(r, SWITCHED);
    rig_send(r, UPGRADE);
    rig_client_got(r, GOT_SWITCHED);
    rig_drain(r, true);
    rig_pass(r, 10000);
    rig_client_is_closed(r, false);
    rig_respond(r, 0, "more");
    rig_client_got(r, "more");
    rig_shut_idle(r);
    rig_client_is_closed(r, true);
    rig_client_close(r);
    rig_row(r, "outcome=tunnelled status=101 sent_bytes=4");
    assert_true(rig_drained(r));
    rig_end(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_client_is_closed_by_a_drain),
        cmocka_unit_test(a_request_in_progress_ends_before_the_drain),
        cmocka_unit_test(a_request_that_is_retried_ends_before_the_drain),
        cmocka_unit_test(a_patient_drain_serves_one_more_request_of_an_idle_client),
        cmocka_unit_test(idle_clients_of_a_patient_drain_are_closed_when_their_time_is_over),
        cmocka_unit_test(a_cut_rejects_a_request_without_a_response),
        cmocka_unit_test(a_cut_truncates_a_response),
        cmocka_unit_test(a_cut_ends_requests_that_wait),
        cmocka_unit_test(a_cut_ends_requests_without_a_worker),
        cmocka_unit_test(a_tunnel_ends_with_a_drain_unless_that_is_patient),
    };

    return cmocka_run_group_tests_name("stop", tests, NULL, NULL);
}
