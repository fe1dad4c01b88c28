/* SPDX-License-Identifier: Apache-2.0
 *
 * WebSockets: requests for an upgrade, tunnels, and their limits.
 */
#include "tests/support/exchange_rig.h"

#define UPGRADE "GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
#define SWITCHED                                                                                   \
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
#define GOT_SWITCHED                                                                               \
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
#define UNPROCESSED "HTTP/1.1 503 Busy\r\nResumelb-Unprocessed: 1\r\nContent-Length: 0\r\n\r\n"

/* Another client requests an upgrade. */
static void upgrade_beside(struct exchange_rig *r)
{
    (void)rig_client(r);
    rig_send(r, UPGRADE);
}

static void an_upgrade_becomes_a_tunnel_for_bytes_in_both_directions(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, SWITCHED "hello");
    rig_send(r, UPGRADE);
    rig_worker_got(r, 0, "w0", "GET /chat HTTP/1.1\r\nHost: h\r\n");
    rig_client_got(r, GOT_SWITCHED "hello");
    assert_int_equal(rig_stat(r, APP_STAT_tunnels), 1);
    rig_send(r, "question");
    rig_tunnel_got(r, 0, "question");
    rig_respond(r, 0, "answer");
    rig_client_got(r, "answer");
    rig_pass(r, 5000);
    rig_client_close(r);
    rig_row(r, "outcome=tunnelled status=101 received_bytes=8 sent_bytes=11 tries=1 "
               "target=/chat total_us=5000000");
    assert_int_equal(rig_open(r, 0), 0);
    assert_int_equal(rig_stat(r, APP_STAT_tunnels), 0);
    rig_end(r);
}

static void bytes_sent_with_the_request_reach_the_worker_after_the_101(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "");
    rig_send(r, UPGRADE "early");
    rig_tunnel_got(r, 0, "");
    rig_respond(r, 0, SWITCHED);
    rig_client_got(r, GOT_SWITCHED);
    rig_tunnel_got(r, 0, "early");
    rig_client_close(r);
    rig_row(r, "outcome=tunnelled status=101 received_bytes=5");
    rig_end(r);
}

static void a_worker_that_ends_its_tunnel_ends_the_clients_connection(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, SWITCHED);
    rig_send(r, UPGRADE);
    rig_respond(r, 0, "bye$close");
    rig_client_got(r, GOT_SWITCHED "bye");
    rig_client_is_closed(r, true);
    rig_client_close(r);
    rig_row(r, "outcome=tunnelled status=101 sent_bytes=3");
    rig_end(r);
}

static void one_direction_of_a_tunnel_may_end_first(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, SWITCHED);
    rig_send(r, UPGRADE);
    rig_client_half_close(r);
    assert_true(rig_call(r, 0)->peer->ended);
    rig_pass(r, 1000);
    rig_respond(r, 0, "late");
    rig_client_got(r, GOT_SWITCHED "late");
    rig_respond(r, 0, "$close");
    rig_client_is_closed(r, true);
    rig_row(r, "outcome=tunnelled sent_bytes=4 received_bytes=0");
    rig_end(r);
}

static void a_silent_tunnel_ends_after_tunnel_idle_timeout(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "tunnel_idle_timeout: 30s\n");

    rig_plan(r, SWITCHED);
    rig_send(r, UPGRADE);
    rig_pass(r, 20000);
    rig_send(r, "x");
    uint64_t ms = rig_pass_to_row(r);
    assert_true(ms >= 30000);
    assert_true(ms <= 60000);
    rig_client_got(r, GOT_SWITCHED);
    rig_client_is_closed(r, true);
    rig_tunnel_got(r, 0, "x");
    rig_row(r, "outcome=tunnelled received_bytes=1");
    rig_end(r);
}

static void total_timeout_does_not_end_a_tunnel(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "total_timeout: 5s\n");

    rig_plan(r, SWITCHED);
    rig_send(r, UPGRADE);
    rig_pass(r, 60000);
    rig_client_is_closed(r, false);
    rig_client_got(r, GOT_SWITCHED);
    rig_client_close(r);
    rig_row(r, "outcome=tunnelled status=101");
    rig_end(r);
}

static void a_worker_that_declines_an_upgrade_gives_the_response(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", RIG_OK);
    rig_send(r, UPGRADE);
    rig_client_got_status(r, 403, "");
    rig_get(r, "/");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded status=403 tries=1");
    rig_row(r, "outcome=responded status=200 tries=1");
    assert_int_equal(rig_accepted(r, 0), 1);
    rig_end(r);
}

static void an_upgrade_to_another_protocol_is_a_bad_response(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "retries: 0\n");

    rig_plan(r, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
    rig_send(r, UPGRADE);
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=bad-response status=502");
    rig_end(r);
}

static void a_failed_upgrade_is_tried_at_another_worker(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "$close", SWITCHED);
    rig_send(r, UPGRADE);
    rig_worker_got(r, 1, "w1", "GET /chat ");
    rig_client_got(r, GOT_SWITCHED);
    rig_client_close(r);
    rig_row(r, "outcome=tunnelled tries=2 worker=w1");
    rig_end(r);
}

static void a_tunnel_is_in_no_backlog(void **state)
{
    struct exchange_rig *r = rig_start(state, .agents = 1);

    rig_plan(r, SWITCHED, RIG_OK);
    rig_send(r, UPGRADE);
    rig_client_got(r, GOT_SWITCHED);
    (void)rig_client(r);
    rig_get(r, "/");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded backlog=0");
    rig_use(r, 0);
    rig_client_close(r);
    rig_row(r, "outcome=tunnelled");
    rig_end(r);
}

static void a_tunnel_keeps_the_place_at_a_worker_that_serves_one_connection(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "max_connections: 1\n");

    rig_plan(r, SWITCHED, RIG_OK);
    rig_send(r, UPGRADE);
    rig_client_got(r, GOT_SWITCHED);
    (void)rig_client(r);
    rig_get(r, "/");
    assert_int_equal(rig_stat(r, APP_STAT_connection_waiting), 1);
    rig_pass(r, 1000);
    rig_use(r, 0);
    rig_client_close(r);
    rig_use(r, 1);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=tunnelled");
    rig_row(r, "outcome=responded connection_wait_us=1000000");
    rig_end(r);
}

static void an_upgrade_beyond_max_tunnels_goes_to_another_worker(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 2, .settings = "max_tunnels: 1\nworker_wait_timeout: 1s\n");

    rig_plan(r, SWITCHED, SWITCHED);
    rig_send(r, UPGRADE);
    upgrade_beside(r);
    rig_worker_got(r, 0, "w0", "GET /chat ");
    rig_worker_got(r, 1, "w1", "GET /chat ");
    upgrade_beside(r);
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=tunnels-full status=503 tries=0");
    for (unsigned c = 0; c < 2; ++c) {
        rig_use(r, c);
        rig_client_got(r, GOT_SWITCHED);
        rig_client_close(r);
        rig_row(r, "outcome=tunnelled tries=1");
    }
    rig_plan(r, SWITCHED);
    upgrade_beside(r);
    rig_client_got(r, GOT_SWITCHED);
    rig_client_close(r);
    rig_row(r, "outcome=tunnelled tries=1");
    rig_end(r);
}

static void an_upgrade_in_progress_counts_in_max_tunnels(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "max_tunnels: 1\n");

    rig_plan(r, "", SWITCHED);
    rig_send(r, UPGRADE);
    upgrade_beside(r);
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=tunnels-full status=503");
    rig_respond(r, 0, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    rig_use(r, 0);
    rig_client_got_status(r, 403, "");
    rig_row(r, "outcome=responded status=403");
    rig_send(r, UPGRADE);
    rig_client_got(r, GOT_SWITCHED);
    rig_client_close(r);
    rig_row(r, "outcome=tunnelled");
    rig_end(r);
}

static void an_upgrade_that_an_agent_rejects_does_not_make_the_worker_full(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .agents = 2);

    rig_plan(r, UNPROCESSED, SWITCHED, RIG_OK, RIG_OK);
    rig_send(r, UPGRADE);
    rig_client_got(r, GOT_SWITCHED);
    (void)rig_client(r);
    rig_get(r, "/1");
    rig_get(r, "/2");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1 worker=w0");
    rig_row(r, "outcome=responded target=/2 worker=w1");
    rig_use(r, 0);
    rig_client_close(r);
    rig_row(r, "outcome=tunnelled tries=2 worker=w1");
    rig_end(r);
}

static void a_handshake_releases_its_lease_unless_the_limit_holds_tunnels(void **state)
{
    static const char *const limits[] = {
        "limits: {one: {workers: 1, key: a, timeout: 1s}}\n",
        "limits: {one: {workers: 1, key: a, timeout: 1s, hold_tunnels: on}}\n"};

    for (size_t i = 0; i < ARRAY_LEN(limits); ++i) {
        struct exchange_rig *r = rig_start(state, .workers = 2, .settings = limits[i]);

        rig_plan(r, SWITCHED);
        rig_send(r, UPGRADE);
        rig_client_got(r, GOT_SWITCHED);
        (void)rig_client(r);
        if (i == 0)
            rig_plan(r, RIG_OK);
        rig_get(r, "/");
        rig_pass(r, 1000);
        if (i == 0)
            rig_client_got(r, RIG_GOT_OK);
        else
            rig_client_got_status(r, 503, "");
        rig_row(r, i == 0 ? "outcome=responded limit_wait_us=0" : "outcome=limit-timeout");
        rig_use(r, 0);
        rig_client_close(r);
        rig_row(r, "outcome=tunnelled");
        rig_end(r);
    }
}

static void a_tunnel_passes_between_tls_on_both_sides(void **state)
{
    struct exchange_rig *r = rig_start(state, .tls = true, .worker_tls = true);

    rig_plan(r, SWITCHED "hello");
    rig_send(r, UPGRADE);
    rig_client_got(r, GOT_SWITCHED "hello");
    rig_send(r, "question");
    rig_tunnel_got(r, 0, "question");
    rig_respond(r, 0, "bye$close");
    rig_client_got(r, "bye");
    rig_client_is_closed(r, true);
    rig_client_close(r);
    rig_row(r, "outcome=tunnelled status=101 received_bytes=8 sent_bytes=8");
    rig_end(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_upgrade_becomes_a_tunnel_for_bytes_in_both_directions),
        cmocka_unit_test(bytes_sent_with_the_request_reach_the_worker_after_the_101),
        cmocka_unit_test(a_worker_that_ends_its_tunnel_ends_the_clients_connection),
        cmocka_unit_test(one_direction_of_a_tunnel_may_end_first),
        cmocka_unit_test(a_silent_tunnel_ends_after_tunnel_idle_timeout),
        cmocka_unit_test(total_timeout_does_not_end_a_tunnel),
        cmocka_unit_test(a_worker_that_declines_an_upgrade_gives_the_response),
        cmocka_unit_test(an_upgrade_to_another_protocol_is_a_bad_response),
        cmocka_unit_test(a_failed_upgrade_is_tried_at_another_worker),
        cmocka_unit_test(a_tunnel_is_in_no_backlog),
        cmocka_unit_test(a_tunnel_keeps_the_place_at_a_worker_that_serves_one_connection),
        cmocka_unit_test(an_upgrade_beyond_max_tunnels_goes_to_another_worker),
        cmocka_unit_test(an_upgrade_in_progress_counts_in_max_tunnels),
        cmocka_unit_test(an_upgrade_that_an_agent_rejects_does_not_make_the_worker_full),
        cmocka_unit_test(a_handshake_releases_its_lease_unless_the_limit_holds_tunnels),
        cmocka_unit_test(a_tunnel_passes_between_tls_on_both_sides),
    };

    return cmocka_run_group_tests_name("tunnel", tests, NULL, NULL);
}
