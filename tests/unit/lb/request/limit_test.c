/* SPDX-License-Identifier: Apache-2.0
 *
 * LIMIT: waits, rejections, coalescing and stale responses, and when leases are released.
 */
#include "tests/support/exchange_rig.h"

#define ONE "limits: {one: {workers: 1, key: \"all\", "
#define ANY "limits: {any: {workers: 1, mode: any, "
#define PAGE "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\npage"
#define GOT_PAGE                                                                                   \
    "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 4\r\n"                           \
    "Cache-Control: max-age=60\r\n\r\npage"

/* Another client sends a GET for TARGET. */
static void get_beside(struct exchange_rig *r, const char *target)
{
    (void)rig_client(r);
    rig_get(r, target);
}

/* Client C has received GOT. */
static void client_got(struct exchange_rig *r, unsigned c, const char *got)
{
    rig_use(r, c);
    rig_client_got(r, got);
}

/* ---- waiting ---- */

static void a_request_waits_for_the_lease_of_another_one(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ONE "timeout: 5s}}\n");

    rig_plan(r, "", RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    assert_int_equal(rig_stat(r, APP_STAT_waiting_for_limit), 1);
    assert_int_equal(rig_calls(r), 1);
    rig_pass(r, 2000);
    rig_respond(r, 0, RIG_OK);
    client_got(r, 0, RIG_GOT_OK);
    client_got(r, 1, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1 limit_wait_us=0");
    rig_row(r, "outcome=responded target=/2 limit_wait_us=2000000 tries=1 worker=w1");
    assert_int_equal(rig_stat(r, APP_STAT_waiting_for_limit), 0);
    rig_end(r);
}

static void waiting_requests_get_their_leases_in_order(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ONE "timeout: 5s}}\n");

    rig_plan(r, "", RIG_OK, RIG_OK, RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    get_beside(r, "/3");
    get_beside(r, "/4");
    rig_respond(r, 0, RIG_OK);
    for (unsigned c = 0; c < 4; ++c)
        client_got(r, c, RIG_GOT_OK);
    rig_row(r, "target=/1 outcome=responded");
    rig_row(r, "target=/2 outcome=responded");
    rig_row(r, "target=/3 outcome=responded");
    rig_row(r, "target=/4 outcome=responded");
    rig_end(r);
}

static void a_request_without_a_lease_in_time_is_rejected_with_the_limits_status(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .workers = 2, .settings = ONE "timeout: 3s, status: 429, retry_after: 7s}}\n");

    rig_plan(r, "");
    rig_get(r, "/1");
    get_beside(r, "/2");
    assert_int_equal(rig_pass_to_row(r), 3000);
    rig_client_got_status(r, 429, "Retry-After: 7\r\n");
    rig_row(r, "outcome=limit-timeout status=429 target=/2 limit_wait_us=3000000 tries=0");
    rig_respond(r, 0, RIG_OK);
    client_got(r, 0, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1");
    rig_end(r);
}

static void a_request_above_maxqueue_is_rejected_at_once(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ONE "maxqueue: 2}}\n");

    rig_plan(r, "", RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    get_beside(r, "/3");
    rig_client_got_status(r, 503, "Retry-After: 1\r\n");
    rig_row(r, "outcome=limit-full status=503 target=/3 total_us=0");
    rig_respond(r, 0, RIG_OK);
    client_got(r, 0, RIG_GOT_OK);
    client_got(r, 1, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1");
    rig_row(r, "outcome=responded target=/2");
    rig_end(r);
}

static void a_request_with_timeout_0_does_not_wait(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ONE "timeout: 0s}}\n");

    rig_plan(r, "");
    rig_get(r, "/1");
    get_beside(r, "/2");
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=limit-timeout status=503 target=/2 total_us=0");
    rig_respond(r, 0, RIG_OK);
    client_got(r, 0, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1");
    rig_end(r);
}

static void a_client_that_leaves_while_it_waits_frees_its_place(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ONE "maxqueue: 2}}\n");

    rig_plan(r, "", RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    rig_client_close(r);
    rig_row(r, "outcome=client-gone status=499 target=/2 tries=0");
    assert_int_equal(rig_stat(r, APP_STAT_waiting_for_limit), 0);
    get_beside(r, "/3");
    rig_respond(r, 0, RIG_OK);
    client_got(r, 0, RIG_GOT_OK);
    client_got(r, 2, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1");
    rig_row(r, "outcome=responded target=/3");
    rig_end(r);
}

static void a_client_that_leaves_at_its_worker_releases_its_lease(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ONE "timeout: 5s}}\n");

    rig_plan(r, "", RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    rig_use(r, 0);
    rig_client_close(r);
    rig_row(r, "outcome=client-gone target=/1");
    rig_row(r, "outcome=responded target=/2");
    client_got(r, 1, RIG_GOT_OK);
    rig_end(r);
}

static void a_lease_is_released_with_the_workers_last_byte(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 2, .settings = ONE "timeout: 5s}}\nresponse_buffer: 2MiB\n");
    struct text large = {0};

    text_add(&large, SLICE_LIT("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"));
    for (int i = 0; i < 100000; ++i)
        text_addf(&large, "%010d", i);
    rig_plan(r, text_cstr(&large), RIG_OK);
    rig_deaf(r, true);
    rig_get(r, "/1");
    assert_int_equal(rig_stat(r, APP_STAT_requests_active), 1);
    get_beside(r, "/2"); /* the first client has not read its response yet */
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/2 limit_wait_us=0");
    rig_use(r, 0);
    rig_deaf(r, false);
    assert_true(rig_peer(r)->in.len > 1000000);
    text_clear(&rig_peer(r)->in);
    rig_row(r, "outcome=responded target=/1 sent_bytes=1000000");
    text_fini(&large);
    rig_end(r);
}

static void a_failed_request_releases_its_lease(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 1, .settings = ONE "timeout: 5s}}\nretries: 0\n");

    rig_plan(r, "", RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    rig_respond(r, 0, "$close");
    client_got(r, 1, RIG_GOT_OK);
    rig_use(r, 0);
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=worker-failed target=/1");
    rig_row(r, "outcome=responded target=/2");
    rig_end(r);
}

static void a_retried_request_keeps_its_lease(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ONE "timeout: 5s}}\n");

    rig_plan(r, "", "", RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    rig_respond(r, 0, "$close");
    rig_worker_got(r, 1, "w1", "GET /1 ");
    assert_int_equal(rig_calls(r), 2);
    rig_respond(r, 1, RIG_OK);
    client_got(r, 0, RIG_GOT_OK);
    client_got(r, 1, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1 tries=2");
    rig_row(r, "outcome=responded target=/2");
    rig_end(r);
}

static void other_keys_do_not_wait(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .workers = 2, .settings = "limits: {path: {workers: 1, key: \"{PATH_INFO}\"}}\n");

    rig_plan(r, "", RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/2 limit_wait_us=0");
    rig_respond(r, 0, RIG_OK);
    client_got(r, 0, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1");
    rig_end(r);
}

static void slots_limit_all_keys_together(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 2,
                  .settings = "limits: {path: {workers: 1, slots: 1, key: \"{PATH_INFO}\"}}\n");

    rig_plan(r, "", RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    assert_int_equal(rig_calls(r), 1);
    rig_respond(r, 0, RIG_OK);
    client_got(r, 0, RIG_GOT_OK);
    client_got(r, 1, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1");
    rig_row(r, "outcome=responded target=/2");
    rig_end(r);
}

static void a_request_acquires_one_limit_after_the_other(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 2,
                  .settings = "limits: {a: {workers: 1, key: a, match: {path: \"prefix:/a\"}}, "
                              "b: {workers: 1, key: b}}\n");

    rig_plan(r, "", RIG_OK, RIG_OK);
    rig_get(r, "/b");     /* holds b */
    get_beside(r, "/a1"); /* holds a, waits for b */
    get_beside(r, "/a2"); /* waits for a */
    assert_int_equal(rig_stat(r, APP_STAT_waiting_for_limit), 2);
    rig_use(r, 1);
    rig_client_close(r);
    rig_row(r, "outcome=client-gone target=/a1");
    assert_int_equal(rig_stat(r, APP_STAT_waiting_for_limit), 1);
    rig_respond(r, 0, RIG_OK);
    client_got(r, 0, RIG_GOT_OK);
    client_got(r, 2, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/b");
    rig_row(r, "outcome=responded target=/a2");
    get_beside(r, "/a3");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/a3 limit_wait_us=0");
    rig_end(r);
}

static void a_shadow_limit_rejects_and_delays_nothing(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 2, .settings = ONE "timeout: 1s, maxqueue: 1, shadow: on}}\n");

    rig_plan(r, "", RIG_OK);
    rig_get(r, "/1");
    get_beside(r, "/2");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/2 limit_wait_us=0");
    rig_respond(r, 0, RIG_OK);
    client_got(r, 0, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1");
    rig_end(r);
}

static void a_request_that_does_not_match_passes(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 2, .settings = ONE "match: {method: POST}}}\n");

    rig_plan(r, "", RIG_OK);
    rig_post(r, "/1", "body");
    get_beside(r, "/2");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/2");
    rig_respond(r, 0, RIG_OK);
    client_got(r, 0, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/1");
    rig_end(r);
}

static void total_timeout_includes_the_wait_for_a_limit(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 2, .settings = ONE "timeout: 30s}}\ntotal_timeout: 10s\n");

    rig_plan(r, "");
    rig_get(r, "/1");
    rig_pass(r, 5000);
    get_beside(r, "/2");
    assert_int_equal(rig_pass_to_row(r), 5000);
    rig_use(r, 0);
    rig_client_got_status(r, 504, "");
    rig_row(r, "outcome=total-timeout target=/1");
    rig_plan(r, "");
    assert_int_equal(rig_calls(r), 2);
    assert_int_equal(rig_pass_to_row(r), 5000);
    rig_use(r, 1);
    rig_client_got_status(r, 504, "");
    rig_row(r, "outcome=total-timeout target=/2 limit_wait_us=5000000 total_us=10000000");
    rig_end(r);
}

/* ---- a daemon that is not there ---- */

static void an_unreachable_daemon_admits_or_rejects_as_configured(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .settings = "pool_counter_servers: [\"127.0.0.1:1\"]\n" ONE "where: daemon}}\n");

    rig_plan(r, RIG_OK);
    rig_get(r, "/");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded");
    rig_end(r);
    r = rig_start(state, .settings = "pool_counter_servers: [\"127.0.0.1:1\"]\n" ONE
                                     "where: daemon, on_unreachable: closed}}\n");
    rig_get(r, "/");
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=limit-unreachable status=503 tries=0");
    rig_end(r);
}

/* ---- coalescing ---- */

static void requests_that_wait_for_the_same_url_get_one_response(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ANY "timeout: 5s}}\n");

    rig_plan(r, "");
    rig_get(r, "/");
    get_beside(r, "/");
    get_beside(r, "/");
    assert_int_equal(rig_stat(r, APP_STAT_waiting_for_limit), 2);
    rig_respond(r, 0, PAGE);
    client_got(r, 0, GOT_PAGE);
    for (unsigned c = 1; c < 3; ++c) {
        rig_use(r, c);
        rig_client_got_status(r, 200, "Cache-Control: max-age=60\r\n", "Cache-Status: ");
    }
    assert_int_equal(rig_calls(r), 1);
    rig_row(r, "outcome=responded status=200 tries=1");
    rig_row(r, "outcome=coalesced status=200 tries=0 sent_bytes=4 worker=");
    rig_row(r, "outcome=coalesced status=200 tries=0 sent_bytes=4");
    rig_end(r);
}

static void a_leader_that_leaves_passes_the_work_to_the_next_request(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ANY "timeout: 5s}}\n");

    rig_plan(r, "", "");
    rig_get(r, "/");
    get_beside(r, "/");
    get_beside(r, "/");
    rig_use(r, 0);
    rig_client_close(r);
    rig_row(r, "outcome=client-gone tries=1");
    assert_int_equal(rig_calls(r), 2);
    assert_int_equal(rig_stat(r, APP_STAT_waiting_for_limit), 1);
    rig_respond(r, 1, PAGE);
    client_got(r, 1, GOT_PAGE);
    rig_use(r, 2);
    rig_client_got_status(r, 200, "Cache-Status: ");
    rig_row(r, "outcome=responded");
    rig_row(r, "outcome=coalesced");
    rig_end(r);
}

static void a_leader_that_leaves_within_its_response_passes_the_work_on(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ANY "timeout: 5s}}\n");

    rig_plan(r, "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\npa",
             PAGE);
    rig_get(r, "/");
    rig_client_got(r, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 4\r\n"
                      "Cache-Control: max-age=60\r\n\r\npa");
    get_beside(r, "/");
    rig_use(r, 0);
    rig_client_close(r);
    client_got(r, 1, GOT_PAGE);
    rig_row(r, "outcome=client-gone status=200 sent_bytes=2");
    rig_row(r, "outcome=responded status=200 tries=1");
    rig_end(r);
}

static void the_failure_of_a_leader_is_not_shared(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 2, .settings = ANY "timeout: 5s}}\nretries: 0\n");

    rig_plan(r, "", "");
    rig_get(r, "/");
    get_beside(r, "/");
    get_beside(r, "/");
    rig_respond(r, 0, "$close");
    rig_use(r, 0);
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=worker-failed");
    assert_int_equal(rig_calls(r), 2);
    rig_respond(r, 1, PAGE);
    client_got(r, 1, GOT_PAGE);
    rig_use(r, 2);
    rig_client_got_status(r, 200, "Cache-Status: ");
    rig_row(r, "outcome=responded");
    rig_row(r, "outcome=coalesced");
    rig_end(r);
}

static void a_500_of_a_leader_is_not_shared(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ANY "timeout: 5s}}\n");

    rig_plan(r, "", PAGE);
    rig_get(r, "/");
    get_beside(r, "/");
    rig_respond(r, 0, "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n");
    rig_use(r, 0);
    rig_client_got_status(r, 500, "");
    client_got(r, 1, GOT_PAGE);
    rig_row(r, "outcome=responded status=500");
    rig_row(r, "outcome=responded status=200");
    rig_end(r);
}

static void a_private_response_lets_the_others_do_their_own_work(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ANY "timeout: 5s}}\n");
    static const char own[] =
        "HTTP/1.1 200 OK\r\nCache-Control: private\r\nContent-Length: 3\r\n\r\nown";

    rig_plan(r, "", own, own);
    rig_get(r, "/");
    get_beside(r, "/");
    get_beside(r, "/");
    rig_respond(r, 0, own);
    assert_int_equal(rig_calls(r), 3);
    for (unsigned c = 0; c < 3; ++c) {
        client_got(r, c,
                   "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n"
                   "Cache-Control: private\r\n\r\nown");
        rig_row(r, "outcome=responded tries=1");
    }
    rig_end(r);
}

static void each_variant_is_requested_once(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ANY "timeout: 5s}}\n");
    static const char german[] = "GET / HTTP/1.1\r\nHost: h\r\nAccept-Language: de\r\n\r\n";
    static const char variant[] = "HTTP/1.1 200 OK\r\nVary: Accept-Language\r\n"
                                  "Cache-Control: max-age=60\r\nContent-Length: 1\r\n\r\n";
    char *english_page = xasprintf("%se", variant);
    char *german_page = xasprintf("%sd", variant);

    rig_plan(r, "", "");
    rig_get(r, "/");
    (void)rig_client(r);
    rig_send(r, german);
    (void)rig_client(r);
    rig_send(r, german);
    rig_respond(r, 0, english_page);
    assert_int_equal(rig_calls(r), 2);
    rig_respond(r, 1, german_page);
    assert_int_equal(rig_calls(r), 2);
    rig_row(r, "outcome=responded tries=1");
    rig_row(r, "outcome=responded tries=1");
    rig_row(r, "outcome=coalesced tries=0");
    for (unsigned c = 0; c < 3; ++c) {
        rig_use(r, c);
        assert_int_equal(rig_peer(r)->in.p[rig_peer(r)->in.len - 1], c == 0 ? 'e' : 'd');
        rig_client_got_status(r, 200, "Vary: Accept-Language\r\n");
    }
    free(english_page);
    free(german_page);
    rig_end(r);
}

static void a_request_with_a_users_identity_takes_no_part(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ANY "timeout: 5s}}\n");

    rig_plan(r, "", PAGE);
    rig_get(r, "/");
    (void)rig_client(r);
    rig_send(r, "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic x\r\n\r\n");
    assert_int_equal(rig_calls(r), 1);
    rig_respond(r, 0, PAGE);
    rig_worker_got(r, 1, "w1", "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic x\r\n");
    client_got(r, 0, GOT_PAGE);
    client_got(r, 1, GOT_PAGE);
    rig_row(r, "outcome=responded tries=1");
    rig_row(r, "outcome=responded tries=1");
    rig_end(r);
}

static void a_user_whose_identity_is_removed_by_a_header_rule_takes_no_part(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 2,
                  .settings = ANY "timeout: 5s}}\nheaders: {request: {remove: [Authorization]}}\n");

    rig_plan(r, "", PAGE);
    rig_get(r, "/");
    (void)rig_client(r);
    rig_send(r, "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic x\r\n\r\n");
    rig_respond(r, 0, PAGE);
    rig_worker_got(r, 1, "w1", "GET / HTTP/1.1\r\nHost: h\r\nResumelb-Class: ");
    client_got(r, 0, GOT_PAGE);
    client_got(r, 1, GOT_PAGE);
    rig_row(r, "outcome=responded tries=1");
    rig_row(r, "outcome=responded tries=1");
    rig_end(r);
}

static void a_follower_that_leaves_changes_nothing(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ANY "timeout: 5s}}\n");

    rig_plan(r, "");
    rig_get(r, "/");
    get_beside(r, "/");
    rig_client_close(r);
    rig_row(r, "outcome=client-gone status=499 tries=0");
    rig_respond(r, 0, PAGE);
    client_got(r, 0, GOT_PAGE);
    rig_row(r, "outcome=responded");
    assert_int_equal(rig_calls(r), 1);
    rig_end(r);
}

static void a_follower_that_leaves_within_a_stored_response_was_served_it(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ANY "timeout: 5s}}\n");
    struct text page = {0};

    text_add(&page, SLICE_LIT("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n"
                              "Content-Length: 900000\r\n\r\n"));
    for (int i = 0; i < 90000; ++i)
        text_addf(&page, "%010d", i);
    rig_plan(r, "");
    rig_get(r, "/");
    (void)rig_client(r);
    rig_deaf(r, true);
    rig_get(r, "/");
    rig_respond_bytes(r, 0, text_slice(&page));
    rig_row(r, "outcome=responded sent_bytes=900000");
    rig_client_close(r);
    rig_row(r, "outcome=coalesced status=200 tries=0");
    rig_use(r, 0);
    text_clear(&rig_peer(r)->in);
    text_fini(&page);
    rig_end(r);
}

static void a_follower_that_waits_too_long_is_rejected(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ANY "timeout: 2s}}\n");

    rig_plan(r, "");
    rig_get(r, "/");
    get_beside(r, "/");
    assert_int_equal(rig_pass_to_row(r), 2000);
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=limit-timeout status=503");
    rig_respond(r, 0, PAGE);
    client_got(r, 0, GOT_PAGE);
    rig_row(r, "outcome=responded");
    rig_end(r);
}

static void a_request_after_the_response_does_its_own_work(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = ANY "timeout: 5s}}\n");

    rig_plan(r, PAGE, PAGE);
    rig_get(r, "/");
    rig_get(r, "/");
    rig_client_got(r, GOT_PAGE GOT_PAGE);
    rig_row(r, "outcome=responded tries=1");
    rig_row(r, "outcome=responded tries=1");
    rig_end(r);
}

/* ---- stale responses ---- */

/* A response for / is stored, and a request for /busy holds the lease of the limit. */
static struct exchange_rig *start_stale(void **state, const char *settings)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = settings);

    rig_plan(r, PAGE, "");
    rig_get(r, "/");
    rig_client_got(r, GOT_PAGE);
    rig_row(r, "outcome=responded");
    get_beside(r, "/busy");
    rig_pass(r, 100000);
    assert_int_equal(rig_calls(r), 2);
    rig_use(r, 0);
    return r;
}

static void end_stale(struct exchange_rig *r)
{
    rig_respond(r, 1, RIG_OK);
    client_got(r, 1, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/busy");
    rig_end(r);
}

static void a_full_limit_serves_a_stale_response(void **state)
{
    struct exchange_rig *r = start_stale(
        state,
        ONE "maxqueue: 1, on_full: stale}}\nfirst_byte_timeout: 10m\nkeep_alive_timeout: 10m\n");

    rig_get(r, "/");
    rig_client_got_status(r, 200, "Cache-Status: ", "Age: 100\r\n");
    rig_row(r, "outcome=stale status=200 tries=0 target=/ total_us=0");
    rig_get(r, "/other");
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=limit-full status=503 target=/other");
    end_stale(r);
}

static void a_limit_serves_a_stale_response_after_its_timeout(void **state)
{
    struct exchange_rig *r = start_stale(
        state,
        ONE "timeout: 3s, on_timeout: stale}}\nfirst_byte_timeout: 10m\nkeep_alive_timeout: 10m\n");

    rig_get(r, "/");
    assert_int_equal(rig_pass_to_row(r), 3000);
    rig_client_got_status(r, 200, "Cache-Status: ", "Age: 103\r\n");
    rig_row(r, "outcome=stale status=200 target=/ limit_wait_us=3000000");
    end_stale(r);
}

static void a_busy_limit_serves_a_stale_response_at_once_or_queues(void **state)
{
    struct exchange_rig *r = start_stale(
        state,
        ONE "timeout: 30s, on_busy: stale}}\nfirst_byte_timeout: 10m\nkeep_alive_timeout: 10m\n");

    rig_get(r, "/");
    rig_client_got_status(r, 200, "Cache-Status: ");
    rig_row(r, "outcome=stale status=200 target=/ total_us=0");
    rig_plan(r, RIG_OK);
    rig_get(r, "/other"); /* nothing is stored: it waits */
    rig_pass(r, 1000);
    rig_client_got(r, "");
    rig_respond(r, 1, RIG_OK);
    client_got(r, 0, RIG_GOT_OK);
    client_got(r, 1, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/busy");
    rig_row(r, "outcome=responded target=/other limit_wait_us=1000000");
    rig_end(r);
}

static void a_response_that_is_too_old_is_not_served(void **state)
{
    struct exchange_rig *r =
        start_stale(state, ONE "maxqueue: 1, on_full: stale}}\nfirst_byte_timeout: "
                               "10m\nkeep_alive_timeout: 10m\nstored_max_age: 60s\n");

    rig_get(r, "/");
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=limit-full status=503 target=/");
    end_stale(r);
}

static void a_post_invalidates_what_is_stored_of_its_target(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .workers = 2,
        .settings = "limits: {one: {workers: 1, key: \"all\", maxqueue: 1, on_full: stale}}\n");

    rig_plan(r, PAGE, RIG_OK, "");
    rig_get(r, "/");
    rig_post(r, "/", "change");
    rig_client_got(r, GOT_PAGE RIG_GOT_OK);
    rig_row(r, "outcome=responded");
    rig_row(r, "outcome=responded method=POST");
    get_beside(r, "/busy");
    rig_use(r, 0);
    rig_get(r, "/");
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=limit-full status=503 target=/");
    rig_respond(r, 2, RIG_OK);
    client_got(r, 1, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/busy");
    rig_end(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_waits_for_the_lease_of_another_one),
        cmocka_unit_test(waiting_requests_get_their_leases_in_order),
        cmocka_unit_test(a_request_without_a_lease_in_time_is_rejected_with_the_limits_status),
        cmocka_unit_test(a_request_above_maxqueue_is_rejected_at_once),
        cmocka_unit_test(a_request_with_timeout_0_does_not_wait),
        cmocka_unit_test(a_client_that_leaves_while_it_waits_frees_its_place),
        cmocka_unit_test(a_client_that_leaves_at_its_worker_releases_its_lease),
        cmocka_unit_test(a_lease_is_released_with_the_workers_last_byte),
        cmocka_unit_test(a_failed_request_releases_its_lease),
        cmocka_unit_test(a_retried_request_keeps_its_lease),
        cmocka_unit_test(other_keys_do_not_wait),
        cmocka_unit_test(slots_limit_all_keys_together),
        cmocka_unit_test(a_request_acquires_one_limit_after_the_other),
        cmocka_unit_test(a_shadow_limit_rejects_and_delays_nothing),
        cmocka_unit_test(a_request_that_does_not_match_passes),
        cmocka_unit_test(total_timeout_includes_the_wait_for_a_limit),
        cmocka_unit_test(an_unreachable_daemon_admits_or_rejects_as_configured),
        cmocka_unit_test(requests_that_wait_for_the_same_url_get_one_response),
        cmocka_unit_test(a_leader_that_leaves_passes_the_work_to_the_next_request),
        cmocka_unit_test(a_leader_that_leaves_within_its_response_passes_the_work_on),
        cmocka_unit_test(the_failure_of_a_leader_is_not_shared),
        cmocka_unit_test(a_500_of_a_leader_is_not_shared),
        cmocka_unit_test(a_private_response_lets_the_others_do_their_own_work),
        cmocka_unit_test(each_variant_is_requested_once),
        cmocka_unit_test(a_request_with_a_users_identity_takes_no_part),
        cmocka_unit_test(a_user_whose_identity_is_removed_by_a_header_rule_takes_no_part),
        cmocka_unit_test(a_follower_that_leaves_changes_nothing),
        cmocka_unit_test(a_follower_that_leaves_within_a_stored_response_was_served_it),
        cmocka_unit_test(a_follower_that_waits_too_long_is_rejected),
        cmocka_unit_test(a_request_after_the_response_does_its_own_work),
        cmocka_unit_test(a_full_limit_serves_a_stale_response),
        cmocka_unit_test(a_limit_serves_a_stale_response_after_its_timeout),
        cmocka_unit_test(a_busy_limit_serves_a_stale_response_at_once_or_queues),
        cmocka_unit_test(a_response_that_is_too_old_is_not_served),
        cmocka_unit_test(a_post_invalidates_what_is_stored_of_its_target),
    };

    return cmocka_run_group_tests_name("limit", tests, NULL, NULL);
}
