/* SPDX-License-Identifier: Apache-2.0
 *
 * FORWARD: what passes between client and worker, and how a request ends that no other worker gets.
 * What is sent again is tested in retry_test.c.
 */
#include "tests/support/exchange_rig.h"

#define HEAD_10 "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
#define GOT_HEAD_10 "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 10\r\n\r\n"

/* ---- what passes ---- */

static void a_body_reaches_the_worker_behind_its_head(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, RIG_OK);
    rig_post(r, "/", "body");
    struct slice got = text_slice(&rig_call(r, 0)->bytes);
    assert_non_null(memmem(got.p, got.len, "\r\nContent-Length: 4\r\n\r\nbody", 27));
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded received_bytes=4 sent_bytes=2");
    rig_end(r);
}

static void a_large_body_reaches_the_worker_whole(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);
    struct text bytes = {0};

    rig_plan(r, RIG_OK);
    text_add(&bytes, SLICE_LIT("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n"));
    for (int i = 0; i < 100000; ++i)
        text_addf(&bytes, "%010d", i);
    rig_send_bytes(r, text_slice(&bytes));
    const struct text *got = &rig_call(r, 0)->bytes;
    assert_true(got->len > 1000000);
    assert_memory_equal(got->p + got->len - 1000000, bytes.p + bytes.len - 1000000, 1000000);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded received_bytes=1000000");
    text_fini(&bytes);
    rig_end(r);
}

static void interim_responses_are_not_passed_on(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" RIG_OK);
    rig_get(r, "/");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded status=200 tries=1");
    rig_end(r);
}

static void an_endless_row_of_interim_responses_is_a_bad_response(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1, .settings = "retries: 0\n");
    struct text many = {0};

    for (int i = 0; i < 101; ++i)
        text_add(&many, SLICE_LIT("HTTP/1.1 103 Early Hints\r\n\r\n"));
    rig_plan(r, text_cstr(&many));
    rig_get(r, "/");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=bad-response status=502");
    text_fini(&many);
    rig_end(r);
}

static void an_upgrade_that_was_not_requested_is_a_bad_response(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1, .settings = "retries: 0\n");

    rig_plan(r, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n");
    rig_get(r, "/");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=bad-response status=502");
    assert_int_equal(rig_open(r, 0), 0);
    rig_end(r);
}

static void no_length_is_announced_with_204(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n");
    rig_get(r, "/");
    rig_client_got(r, "HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n");
    rig_row(r, "outcome=responded status=204");
    assert_int_equal(rig_open(r, 0), 1);
    rig_end(r);
}

static void a_304_passes_with_its_length_and_no_body(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: \"a\"\r\n\r\n");
    rig_get(r, "/");
    rig_client_got(r, "HTTP/1.1 304 Not Modified\r\nConnection: keep-alive\r\n"
                      "Content-Length: 5\r\nETag: \"a\"\r\n\r\n");
    rig_row(r, "outcome=responded status=304");
    assert_int_equal(rig_open(r, 0), 1);
    rig_end(r);
}

static void a_response_of_several_parts_is_passed_on_part_by_part(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, HEAD_10 "abc");
    rig_get(r, "/");
    rig_client_got(r, GOT_HEAD_10 "abc");
    rig_pass(r, 1000);
    rig_respond(r, 0, "def");
    rig_client_got(r, "def");
    rig_pass(r, 1000);
    rig_respond(r, 0, "ghij");
    rig_client_got(r, "ghij");
    rig_row(r, "outcome=responded sent_bytes=10 first_byte_us=0 service_us=2000000 "
               "total_us=2000000");
    assert_int_equal(rig_open(r, 0), 1);
    rig_end(r);
}

static void a_chunked_response_passes_chunk_by_chunk(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    rig_get(r, "/");
    rig_client_got(r, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    rig_respond(r, 0, "2\r\nde\r\n0\r\n\r\n");
    rig_client_got(r, "2\r\nde\r\n0\r\n\r\n");
    rig_row(r, "outcome=responded sent_bytes=5");
    assert_int_equal(rig_open(r, 0), 1);
    rig_end(r);
}

static void a_response_to_a_head_request_has_no_body(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
    rig_send(r, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_client_got(r, GOT_HEAD_10);
    rig_row(r, "outcome=responded sent_bytes=0");
    assert_int_equal(rig_open(r, 0), 1);
    rig_end(r);
}

/* ---- the worker's connection afterwards ---- */

static void a_connection_that_the_worker_closes_is_not_reused(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", RIG_OK);
    rig_get(r, "/1");
    rig_get(r, "/2");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK);
    assert_int_equal(rig_call(r, 1)->connection, 1);
    rig_row(r, "outcome=responded tries=1");
    rig_row(r, "outcome=responded tries=1");
    assert_int_equal(rig_open(r, 0), 1);
    rig_end(r);
}

static void bytes_behind_a_response_close_its_connection(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, RIG_OK "more", RIG_OK);
    rig_get(r, "/1");
    assert_int_equal(rig_open(r, 0), 0);
    rig_get(r, "/2");
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=1");
    rig_row(r, "outcome=responded tries=1");
    rig_end(r);
}

static void a_response_before_the_end_of_the_request_closes_the_connection(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);
    char *body = xcalloc(1, 3000001);

    memset(body, 'x', 3000000);
    rig_plan(r, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno$end");
    rig_early(r, 0);
    rig_post(r, "/", body);
    rig_client_got(r, "HTTP/1.1 413 Too Large\r\nConnection: keep-alive\r\n"
                      "Content-Length: 2\r\n\r\nno");
    rig_row(r, "outcome=responded status=413 received_bytes=3000000");
    assert_int_equal(rig_open(r, 0), 0);
    free(body);
    rig_end(r);
}

/* ---- time-outs ---- */

static void a_pause_within_a_response_truncates_it(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 2, .settings = "between_bytes_timeout: 10s\n");

    rig_plan(r, HEAD_10 "abc");
    rig_get(r, "/");
    rig_pass(r, 9999);
    rig_respond(r, 0, "d");
    rig_client_got(r, GOT_HEAD_10 "abcd");
    assert_int_equal(rig_pass_to_row(r), 10000);
    rig_client_is_closed(r, true);
    rig_row(r, "outcome=response-timeout status=200 sent_bytes=4 tries=1");
    assert_int_equal(rig_open(r, 0), 0);
    rig_end(r);
}

static void the_time_to_the_first_byte_ends_with_any_byte(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .settings = "first_byte_timeout: 5s\nbetween_bytes_timeout: 20s\nretries: 0\n");

    rig_plan(r, "");
    rig_get(r, "/");
    rig_pass(r, 4999);
    rig_respond(r, 0, "HTTP/1.1");
    rig_pass(r, 10000);
    rig_respond(r, 0, " 200 OK\r\nContent-Length: 2\r\n\r\nok");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded first_byte_us=4999000 service_us=14999000");
    rig_end(r);
}

static void half_a_head_that_stalls_is_504(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .workers = 2, .settings = "first_byte_timeout: 5s\nbetween_bytes_timeout: 20s\n");

    rig_plan(r, "HTTP/1.1 200 O");
    rig_get(r, "/");
    assert_int_equal(rig_pass_to_row(r), 20000);
    rig_client_got_status(r, 504, "");
    rig_row(r, "outcome=first-byte-timeout status=504 tries=1");
    rig_end(r);
}

static void a_post_without_a_response_in_time_is_504(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2, .settings = "first_byte_timeout: 5s\n");

    rig_plan(r, "");
    rig_post(r, "/", "body");
    assert_int_equal(rig_pass_to_row(r), 5000);
    rig_client_got_status(r, 504, "");
    rig_row(r, "outcome=first-byte-timeout status=504 tries=1 total_us=5000000");
    rig_end(r);
}

static void total_timeout_counts_over_all_tries(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 3, .settings = "total_timeout: 10s\n");

    rig_plan(r, "", "");
    rig_get(r, "/");
    rig_pass(r, 6000);
    rig_respond(r, 0, "$close");
    assert_int_equal(rig_calls(r), 2);
    assert_int_equal(rig_pass_to_row(r), 4000);
    rig_client_got_status(r, 504, "");
    rig_row(r, "outcome=total-timeout status=504 tries=2 total_us=10000000");
    assert_int_equal(rig_open(r, 1), 0);
    rig_end(r);
}

static void total_timeout_truncates_a_response_that_has_begun(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "total_timeout: 10s\n");

    rig_plan(r, HEAD_10 "abc");
    rig_get(r, "/");
    assert_int_equal(rig_pass_to_row(r), 10000);
    rig_client_got(r, GOT_HEAD_10 "abc");
    rig_client_is_closed(r, true);
    rig_row(r, "outcome=response-timeout status=200 sent_bytes=3");
    rig_end(r);
}

static void total_timeout_withdraws_a_head_that_is_held(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "total_timeout: 1s\n");

    rig_plan(r, "");
    rig_get(r, "/");
    rig_pass(r, 990);
    rig_respond(r, 0, HEAD_10);
    assert_int_equal(rig_pass_to_row(r), 10);
    rig_client_got_status(r, 504, "");
    rig_row(r, "outcome=total-timeout status=504");
    rig_end(r);
}

/* ---- bad responses ---- */

static void an_invalid_response_is_502(void **state)
{
    static const char *const bad[] = {
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nbad field\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    };
    struct exchange_rig *r = rig_start(state, .settings = "retries: 0\n");

    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        rig_plan(r, bad[i]);
        rig_get(r, "/");
        rig_client_got_status(r, 502, "");
        rig_row(r, "outcome=bad-response status=502 tries=1");
        assert_int_equal(rig_open(r, 0), 0);
    }
    rig_end(r);
}

static void a_head_that_is_too_large_is_502(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "retries: 0\n");
    struct text head = {0};

    text_add(&head, SLICE_LIT("HTTP/1.1 200 OK\r\nA: "));
    for (int i = 0; i < 200000; ++i)
        text_add_char(&head, 'x');
    text_add(&head, SLICE_LIT("\r\nContent-Length: 0\r\n\r\n"));
    rig_plan(r, text_cstr(&head));
    rig_get(r, "/");
    rig_client_got_status(r, 502, "");
    rig_row(r, "outcome=bad-response status=502 tries=1");
    text_fini(&head);
    rig_end(r);
}

/* ---- the client leaves ---- */

static void a_client_that_leaves_ends_its_request_at_the_worker(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "");
    rig_get(r, "/");
    rig_client_close(r);
    rig_row(r, "outcome=client-gone status=499 tries=1");
    assert_int_equal(rig_open(r, 0), 0);
    rig_end(r);
}

static void a_client_that_resets_ends_its_request_at_the_worker(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, HEAD_10 "abc");
    rig_get(r, "/");
    rig_client_got(r, GOT_HEAD_10 "abc");
    rig_client_reset(r);
    rig_row(r, "outcome=client-gone status=200 sent_bytes=3");
    assert_int_equal(rig_open(r, 0), 0);
    rig_end(r);
}

static void a_client_that_closes_its_sending_side_is_gone_unless_that_is_ignored(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_plan(r, "");
    rig_get(r, "/");
    rig_client_half_close(r);
    rig_row(r, "outcome=client-gone status=499");
    rig_end(r);
    r = rig_start(state, .workers = 1, .settings = "ignore_client_abort: true\n");
    rig_plan(r, "");
    rig_get(r, "/");
    rig_client_half_close(r);
    rig_pass(r, 1000);
    rig_respond(r, 0, RIG_OK);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded status=200 total_us=1000000");
    rig_end(r);
}

static void a_client_that_leaves_while_a_retry_is_in_progress_ends_it(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 2);

    rig_plan(r, "$close", "");
    rig_get(r, "/");
    assert_int_equal(rig_calls(r), 2);
    rig_client_close(r);
    rig_row(r, "outcome=client-gone status=499 tries=2 worker=w1");
    assert_int_equal(rig_open(r, 1), 0);
    rig_end(r);
}

/* ---- requests that kill workers ---- */

static void a_request_that_killed_workers_is_rejected_for_a_time(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .workers = 4,
        .settings = "retries: 1\npoison_deaths: 2\npoison_hold: 30s\npoison_window: 60s\n");

    rig_plan(r, "$close", "$close", RIG_OK, RIG_OK);
    rig_get(r, "/bad");
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=poisoned status=503 tries=2");
    rig_get(r, "/bad?other=query");
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=poisoned status=503 tries=0");
    rig_get(r, "/good");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded");
    assert_int_equal(rig_stat(r, APP_STAT_poison_holds), 1);
    rig_pass(r, 30000);
    rig_get(r, "/bad");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded tries=1");
    rig_end(r);
}

static void a_post_that_killed_workers_ends_as_it_would_have(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 4, .settings = "poison_deaths: 2\neject_after: 0\n");

    rig_plan(r, "$close", "$close");
    rig_post(r, "/bad", "body");
    rig_post(r, "/bad", "body");
    rig_post(r, "/bad", "body");
    rig_row(r, "outcome=worker-failed status=502 tries=1");
    rig_row(r, "outcome=worker-failed status=502 tries=1");
    rig_row(r, "outcome=poisoned status=503 tries=0");
    text_clear(&rig_peer(r)->in);
    rig_end(r);
}

static void a_request_that_waited_while_its_like_killed_workers_is_rejected(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .workers = 1, .settings = "poison_deaths: 1\nretries: 0\nmax_connections: 1\n");

    rig_plan(r, "");
    rig_get(r, "/bad");
    (void)rig_client(r);
    rig_get(r, "/bad");
    rig_client_got(r, "");
    rig_respond(r, 0, "$close");
    rig_client_got_status(r, 503, "");
    rig_use(r, 0);
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=poisoned status=503 tries=1");
    rig_row(r, "outcome=poisoned status=503 tries=1");
    assert_int_equal(rig_calls(r), 1);
    rig_end(r);
}

static void an_idle_connection_that_was_closed_is_no_death(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .workers = 1, .settings = "poison_deaths: 1\nretries: 0\n");

    rig_plan(r, RIG_OK, "$close", RIG_OK);
    rig_post(r, "/", "1");
    rig_pass(r, 100);
    rig_post(r, "/", "2");
    rig_post(r, "/", "3");
    rig_row(r, "outcome=responded");
    rig_row(r, "outcome=worker-failed status=502");
    rig_row(r, "outcome=responded");
    text_clear(&rig_peer(r)->in);
    assert_int_equal(rig_stat(r, APP_STAT_poison_holds), 0);
    rig_end(r);
}

/* ---- requests of the load balancer's own ---- */

static void a_method_that_is_not_permitted_reaches_no_worker(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "methods: [GET]\n");

    rig_send(r, "DELETE / HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_client_got_status(r, 405, "Allow: GET\r\n");
    rig_row(r, "outcome=method-not-allowed status=405 tries=0");
    rig_send(r, "FROB / HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_client_got_status(r, 501, "");
    rig_row(r, "outcome=method-unknown status=501 tries=0");
    assert_int_equal(rig_calls(r), 0);
    rig_end(r);
}

static void a_rate_rejects_with_the_time_of_the_next_request(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .settings = "rates: {all: {rate: 1/m, key: \"all\"}}\n");

    rig_plan(r, RIG_OK, RIG_OK);
    rig_get(r, "/1");
    rig_client_got(r, RIG_GOT_OK);
    rig_pass(r, 20000);
    rig_get(r, "/2");
    rig_client_got_status(r, 429, "Retry-After: 40\r\n");
    rig_pass(r, 40000);
    rig_get(r, "/3");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded");
    rig_row(r, "outcome=rate-limited status=429 tries=0");
    rig_row(r, "outcome=responded");
    rig_end(r);
}

static void a_request_that_is_not_http_reaches_no_worker(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    rig_send(r, "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n");
    rig_client_got_status(r, 400, "Connection: close\r\n");
    rig_client_is_closed(r, true);
    rig_row(r, "outcome=rejected status=400");
    rig_end(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_reaches_the_worker_behind_its_head),
        cmocka_unit_test(a_large_body_reaches_the_worker_whole),
        cmocka_unit_test(interim_responses_are_not_passed_on),
        cmocka_unit_test(an_endless_row_of_interim_responses_is_a_bad_response),
        cmocka_unit_test(an_upgrade_that_was_not_requested_is_a_bad_response),
        cmocka_unit_test(no_length_is_announced_with_204),
        cmocka_unit_test(a_304_passes_with_its_length_and_no_body),
        cmocka_unit_test(a_response_of_several_parts_is_passed_on_part_by_part),
        cmocka_unit_test(a_chunked_response_passes_chunk_by_chunk),
        cmocka_unit_test(a_response_to_a_head_request_has_no_body),
        cmocka_unit_test(a_connection_that_the_worker_closes_is_not_reused),
        cmocka_unit_test(bytes_behind_a_response_close_its_connection),
        cmocka_unit_test(a_response_before_the_end_of_the_request_closes_the_connection),
        cmocka_unit_test(a_pause_within_a_response_truncates_it),
        cmocka_unit_test(the_time_to_the_first_byte_ends_with_any_byte),
        cmocka_unit_test(half_a_head_that_stalls_is_504),
        cmocka_unit_test(a_post_without_a_response_in_time_is_504),
        cmocka_unit_test(total_timeout_counts_over_all_tries),
        cmocka_unit_test(total_timeout_truncates_a_response_that_has_begun),
        cmocka_unit_test(total_timeout_withdraws_a_head_that_is_held),
        cmocka_unit_test(an_invalid_response_is_502),
        cmocka_unit_test(a_head_that_is_too_large_is_502),
        cmocka_unit_test(a_client_that_leaves_ends_its_request_at_the_worker),
        cmocka_unit_test(a_client_that_resets_ends_its_request_at_the_worker),
        cmocka_unit_test(a_client_that_closes_its_sending_side_is_gone_unless_that_is_ignored),
        cmocka_unit_test(a_client_that_leaves_while_a_retry_is_in_progress_ends_it),
        cmocka_unit_test(a_request_that_killed_workers_is_rejected_for_a_time),
        cmocka_unit_test(a_post_that_killed_workers_ends_as_it_would_have),
        cmocka_unit_test(a_request_that_waited_while_its_like_killed_workers_is_rejected),
        cmocka_unit_test(an_idle_connection_that_was_closed_is_no_death),
        cmocka_unit_test(a_method_that_is_not_permitted_reaches_no_worker),
        cmocka_unit_test(a_rate_rejects_with_the_time_of_the_next_request),
        cmocka_unit_test(a_request_that_is_not_http_reaches_no_worker),
    };

    return cmocka_run_group_tests_name("forward", tests, NULL, NULL);
}
