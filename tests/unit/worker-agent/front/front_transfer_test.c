/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests at a slot that last: uploads, clients that leave, back-pressure, tunnels.
 */
#include "tests/support/agent_rig.h"
#include "worker-agent/front/front.h"

#include <sys/socket.h>

#define HEAD_OF_10 "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
#define UPGRADE                                                                                    \
    "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"                 \
    "Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n"
#define SWITCHING                                                                                  \
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

enum { KIB = 1024 };

/* N bytes; the caller frees them. */
static struct slice bytes_of(size_t n)
{
    char *p = xcalloc(1, n);

    memset(p, 'x', n);
    return (struct slice){p, n};
}

/* ---- uploads ---- */

static void a_slow_upload_holds_no_process(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, RIG_OK, RIG_OK);
    rig_send(r, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc");
    rig_pass(r, 10000);
    rig_client(r, "slot0");
    rig_get(r, "/b");
    rig_client_got(r, RIG_GOT_OK);
    rig_process_got(r, 0, "p0", "GET /b ");
    rig_use(r, 0);
    rig_send(r, "def");
    rig_process_got(r, 1, "p0", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabcdef");
    rig_client_got(r, RIG_GOT_OK);
    rig_end(r);
}

/* A process reads nothing after its first response; then a POST with a body above body_spill. */
static struct agent_rig *start_blocked_upload(void)
{
    struct agent_rig *r = rig_start(.program = "body_spill: 64KiB\n");
    struct slice body = bytes_of(2 * KIB * KIB);

    rig_plan(r, RIG_OK "$deaf");
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_send(r, "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 2097152\r\n\r\n");
    rig_send_bytes(r, body);
    free((char *)(uintptr_t)body.p);
    return r;
}

static void a_large_upload_reaches_a_process_that_reads_late(void **state)
{
    struct agent_rig *r = start_blocked_upload();

    (void)state;
    rig_pass(r, 1000);
    assert_int_equal(rig_calls(r), 1);
    rig_call_peer(r, 0)->deaf = false;
    rig_settle(r);
    rig_process_got(r, 1, "p0", "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 2097152\r\n\r\nxx");
    rig_respond(r, 1, RIG_OK);
    rig_client_got(r, RIG_GOT_OK);
    rig_end(r);
}

static void a_client_that_leaves_within_the_upload_frees_the_place(void **state)
{
    struct agent_rig *r = start_blocked_upload();

    (void)state;
    rig_client_close(r);
    assert_int_equal(rig_stat(r, AGENT_STAT_requests_running), 0);
    rig_call_peer(r, 0)->deaf = false;
    rig_settle(r);
    assert_int_equal(rig_open(r), 0);
    assert_int_equal(rig_calls(r), 1);
    assert_int_equal(rig_stat(r, AGENT_STAT_clients_gone), 1);
    rig_end(r);
}

static void a_response_before_the_end_of_the_upload_reaches_the_client(void **state)
{
    struct agent_rig *r = start_blocked_upload();

    (void)state;
    rig_respond(r, 0, "HTTP/1.1 413 Large\r\nContent-Length: 3\r\n\r\nbig");
    rig_client_got_status(r, 413, "big");
    assert_int_equal(rig_stat(r, AGENT_STAT_requests_running), 0);
    rig_call_peer(r, 0)->deaf = false;
    rig_settle(r);
    assert_int_equal(rig_open(r), 0);
    rig_end(r);
}

/* ---- clients that leave ---- */

static void a_client_that_leaves_while_it_waits_frees_its_place_in_the_queue(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_get(r, "/a");
    rig_client(r, "slot0");
    rig_get(r, "/b");
    assert_int_equal(rig_stat(r, AGENT_STAT_requests_waiting), 1);
    rig_client_close(r);
    assert_int_equal(rig_stat(r, AGENT_STAT_requests_waiting), 0);
    rig_respond(r, 0, RIG_OK);
    rig_use(r, 0);
    rig_client_got(r, RIG_GOT_OK);
    assert_int_equal(rig_calls(r), 1);
    assert_int_equal(rig_stat(r, AGENT_STAT_clients_gone), 1);
    rig_end(r);
}

static void a_process_finishes_the_request_of_a_client_that_has_left(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, "", RIG_OK);
    rig_get(r, "/a");
    rig_client_close(r);
    rig_client(r, "slot0");
    rig_get(r, "/b");
    rig_pass(r, 10000);
    assert_int_equal(rig_calls(r), 1);
    rig_respond(r, 0, RIG_OK);
    rig_process_got(r, 1, "p0", "GET /b ");
    rig_client_got(r, RIG_GOT_OK);
    assert_int_equal(rig_call(r, 1)->connection, rig_call(r, 0)->connection);
    rig_end(r);
}

static void the_rest_of_a_response_without_a_client_is_read_for_a_second(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, HEAD_OF_10 "0123");
    rig_get(r, "/a");
    rig_client_close(r);
    text_clear(&rig_peer(r)->in);
    rig_pass(r, 999);
    assert_int_equal(rig_open(r), 1);
    assert_int_equal(rig_stat(r, AGENT_STAT_requests_running), 1);
    rig_pass(r, 1);
    assert_int_equal(rig_open(r), 0);
    assert_int_equal(rig_stat(r, AGENT_STAT_requests_running), 0);
    rig_end(r);
}

static void a_response_that_begins_without_a_client_is_read_for_a_second(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_get(r, "/a");
    rig_client_close(r);
    rig_pass(r, 5000);
    rig_respond(r, 0, HEAD_OF_10 "0123");
    rig_pass(r, 999);
    assert_int_equal(rig_open(r), 1);
    rig_pass(r, 1);
    assert_int_equal(rig_open(r), 0);
    rig_end(r);
}

static void a_response_that_ends_within_that_second_leaves_its_connection_usable(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, HEAD_OF_10 "0123");
    rig_get(r, "/a");
    rig_client_close(r);
    text_clear(&rig_peer(r)->in);
    rig_pass(r, 500);
    rig_respond(r, 0, "456789");
    rig_pass(r, 2000);
    assert_int_equal(rig_open(r), 1);
    rig_end(r);
}

static void a_process_that_dies_without_a_client_frees_the_place(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_get(r, "/a");
    rig_client_close(r);
    rig_respond(r, 0, "$die");
    assert_int_equal(rig_stat(r, AGENT_STAT_requests_running), 0);
    assert_int_equal(rig_stat(r, AGENT_STAT_failures), 1);
    rig_end(r);
}

/* ---- back-pressure ---- */

/* The head of a response of 8 MiB, of which the process sends all that is read. */
#define LARGE "HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n"

static void respond_large(struct agent_rig *r, unsigned call)
{
    struct slice body = bytes_of(8 * KIB * KIB);

    rig_respond(r, call, LARGE);
    rig_respond_bytes(r, call, body);
    free((char *)(uintptr_t)body.p);
}

static void a_client_that_does_not_read_holds_response_buffer_at_most(void **state)
{
    struct agent_rig *r = rig_start(.settings = "response_buffer: 256KiB");
    const size_t *held = &rig_agent(r)->front->buffered_bytes;

    (void)state;
    rig_get(r, "/a");
    rig_deaf(r, true);
    respond_large(r, 0);
    assert_in_range(*held, 256 * KIB, 512 * KIB);
    size_t before = rig_call_peer(r, 0)->out.len;
    rig_pass(r, 5000);
    assert_int_equal(rig_call_peer(r, 0)->out.len, before);
    rig_deaf(r, false);
    assert_int_equal(*held, 0);
    assert_true(rig_peer(r)->in.len > 8 * KIB * KIB);
    text_clear(&rig_peer(r)->in);
    rig_end(r);
}

static void a_process_is_read_again_when_half_of_response_buffer_is_sent(void **state)
{
    struct agent_rig *r = rig_start(.settings = "response_buffer: 1MiB");
    const size_t *held = &rig_agent(r)->front->buffered_bytes;
    char bytes[16 * KIB];
    size_t last = 0;

    (void)state;
    rig_get(r, "/a");
    rig_deaf(r, true);
    respond_large(r, 0);
    size_t unsent = rig_call_peer(r, 0)->out.len;
    while (rig_call_peer(r, 0)->out.len == unsent) {
        last = *held;
        ssize_t n = recv(rig_peer(r)->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        assert_true(n > 0);
        rig_settle(r);
    }
    assert_in_range(last, 512 * KIB + 1, 1280 * KIB);
    assert_in_range(*held, 1024 * KIB, 1280 * KIB);
    rig_deaf(r, false);
    text_clear(&rig_peer(r)->in);
    rig_end(r);
}

static void above_the_total_of_all_responses_each_holds_16_kib(void **state)
{
    struct agent_rig *r = rig_start(.settings = "response_buffer: 2MiB, concurrency: 2",
                                    .program = "response_buffers_total: 1MiB\n");
    const size_t *held = &rig_agent(r)->front->buffered_bytes;

    (void)state;
    rig_get(r, "/a");
    rig_deaf(r, true);
    respond_large(r, 0);
    size_t first = *held;
    assert_in_range(first, 1024 * KIB, 1280 * KIB);
    rig_client(r, "slot0");
    rig_get(r, "/b");
    rig_deaf(r, true);
    respond_large(r, 1);
    assert_in_range(*held - first, 16 * KIB, 272 * KIB);
    for (unsigned c = 0; c < 2; ++c) {
        rig_use(r, c);
        rig_deaf(r, false);
        assert_true(rig_peer(r)->in.len > 8 * KIB * KIB);
        text_clear(&rig_peer(r)->in);
    }
    rig_end(r);
}

static void a_paused_response_is_read_to_its_end_when_the_client_leaves(void **state)
{
    struct agent_rig *r = rig_start(.settings = "response_buffer: 256KiB");

    (void)state;
    rig_get(r, "/a");
    rig_deaf(r, true);
    respond_large(r, 0);
    assert_true(rig_call_peer(r, 0)->out.len > 0);
    rig_peer(r)->deaf = false;
    rig_client_close(r);
    text_clear(&rig_peer(r)->in);
    assert_int_equal(rig_call_peer(r, 0)->out.len, 0);
    assert_int_equal(rig_open(r), 1);
    assert_int_equal(rig_stat(r, AGENT_STAT_requests_running), 0);
    rig_end(r);
}

/* ---- tunnels ---- */

static void an_upgraded_connection_carries_bytes_both_ways_and_holds_no_place(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, SWITCHING "early", RIG_OK);
    rig_send(r, UPGRADE);
    rig_client_got(r, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"
                      "Resumelb-Backlog: 1\r\nUpgrade: websocket\r\n\r\nearly");
    rig_send(r, "up");
    assert_true(slice_is(text_slice(&rig_call_peer(r, 0)->in), "up"));
    rig_respond(r, 0, "down");
    rig_client_got(r, "down");
    rig_client(r, "slot0");
    rig_get(r, "/b");
    rig_client_got_status(r, 200, "Resumelb-Backlog: 1\r\n");
    assert_int_equal(rig_stat(r, AGENT_STAT_tunnels), 1);
    assert_int_equal(rig_stat(r, AGENT_STAT_tunnels_open), 1);
    rig_use(r, 0);
    rig_respond(r, 0, "$close");
    rig_client_is_closed(r, true);
    assert_int_equal(rig_stat(r, AGENT_STAT_tunnels_open), 0);
    rig_end(r);
}

static void an_idle_tunnel_ends(void **state)
{
    struct agent_rig *r = rig_start(.settings = "tunnel_idle_timeout: 5s");

    (void)state;
    rig_plan(r, SWITCHING);
    rig_send(r, UPGRADE);
    rig_client_got_status(r, 101, NULL);
    rig_pass(r, 4000);
    rig_respond(r, 0, "x");
    rig_pass(r, 4000);
    rig_client_is_closed(r, false);
    rig_pass(r, 3000);
    rig_client_got(r, "x");
    rig_client_is_closed(r, true);
    rig_end(r);
}

static void upgraded_connections_above_their_limit_are_rejected(void **state)
{
    struct agent_rig *r = rig_start(.settings = "upgrade_concurrency: 1");

    (void)state;
    rig_plan(r, SWITCHING, RIG_OK);
    rig_send(r, UPGRADE);
    rig_client_got_status(r, 101, NULL);
    rig_client(r, "slot0");
    rig_send(r, UPGRADE);
    rig_client_got_status(r, 503, "Resumelb-Unprocessed: 1\r\n", "too many upgraded connections");
    assert_int_equal(rig_calls(r), 1);
    assert_int_equal(rig_stat(r, AGENT_STAT_upgrades_rejected), 1);
    rig_get(r, "/b");
    rig_client_got_status(r, 200, NULL);
    rig_use(r, 0);
    rig_client_close(r);
    rig_end(r);
}

static void an_upgrade_is_closed_if_the_client_has_left(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_send(r, UPGRADE);
    rig_client_close(r);
    assert_int_equal(rig_stat(r, AGENT_STAT_requests_running), 1);
    rig_respond(r, 0, SWITCHING);
    assert_int_equal(rig_open(r), 0);
    assert_int_equal(rig_stat(r, AGENT_STAT_tunnels_open), 0);
    rig_end(r);
}

static void an_upgrade_that_the_process_declines_is_an_ordinary_response(void **state)
{
    struct agent_rig *r = rig_start(.settings = NULL);

    (void)state;
    rig_plan(r, RIG_OK, RIG_OK);
    rig_send(r, UPGRADE);
    rig_client_got(r, RIG_GOT_OK);
    rig_get(r, "/a");
    rig_client_got(r, RIG_GOT_OK);
    rig_end(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_upload_holds_no_process),
        cmocka_unit_test(a_large_upload_reaches_a_process_that_reads_late),
        cmocka_unit_test(a_client_that_leaves_within_the_upload_frees_the_place),
        cmocka_unit_test(a_response_before_the_end_of_the_upload_reaches_the_client),
        cmocka_unit_test(a_client_that_leaves_while_it_waits_frees_its_place_in_the_queue),
        cmocka_unit_test(a_process_finishes_the_request_of_a_client_that_has_left),
        cmocka_unit_test(the_rest_of_a_response_without_a_client_is_read_for_a_second),
        cmocka_unit_test(a_response_that_begins_without_a_client_is_read_for_a_second),
        cmocka_unit_test(a_response_that_ends_within_that_second_leaves_its_connection_usable),
        cmocka_unit_test(a_process_that_dies_without_a_client_frees_the_place),
        cmocka_unit_test(a_client_that_does_not_read_holds_response_buffer_at_most),
        cmocka_unit_test(a_process_is_read_again_when_half_of_response_buffer_is_sent),
        cmocka_unit_test(above_the_total_of_all_responses_each_holds_16_kib),
        cmocka_unit_test(a_paused_response_is_read_to_its_end_when_the_client_leaves),
        cmocka_unit_test(an_upgraded_connection_carries_bytes_both_ways_and_holds_no_place),
        cmocka_unit_test(an_idle_tunnel_ends),
        cmocka_unit_test(upgraded_connections_above_their_limit_are_rejected),
        cmocka_unit_test(an_upgrade_is_closed_if_the_client_has_left),
        cmocka_unit_test(an_upgrade_that_the_process_declines_is_an_ordinary_response),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
