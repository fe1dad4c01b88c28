/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/2 on the server: concurrent streams, windows in both directions, faults of streams and of
 * connections.
 */
#include "tests/unit/http/http2_fixture.h"

enum { STREAMS = 100, WINDOW = 16 * 1024 * 1024 };

static uint32_t id_of(unsigned n)
{
    return 2 * n + 1;
}

/* ---- streams ---- */

static void as_many_requests_run_as_are_announced(void **state)
{
    struct h2 *h = *state;
    struct text t = {0};

    h2_connect(h);
    for (unsigned i = 0; i <= STREAMS; ++i)
        h2_frame(&t, TYPE_HEADERS, H2_WHOLE, id_of(i), H2_GET);
    h2_send_text(h, &t);
    h2_until(h, h2_has_reset, id_of(STREAMS));
    assert_int_equal(h2_of(h, id_of(STREAMS))->reset, HTTP2_ERROR_REFUSED_STREAM);
    assert_int_equal(h->base.requests, STREAMS);
    for (unsigned i = STREAMS; i-- != 0;) {
        h2_response(h, i, 100);
        h2_until(h, h2_has_ended, id_of(i));
        assert_int_equal(h2_of(h, id_of(i))->bytes, 100);
        assert_int_equal(h->base.gone, STREAMS - i);
    }
    assert_true(h->base.gone_done);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, id_of(STREAMS + 1), H2_GET);
    h2_until(h, h2_has_requests, STREAMS + 1);
    assert_int_equal(h->client.goaways, 0);
}

static void a_reset_stream_ends_its_request_and_no_other(void **state)
{
    struct h2 *h = *state;

    h2_connect(h);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 1, H2_GET);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 3, H2_GET);
    h2_until(h, h2_has_requests, 2);
    h2_send(h, TYPE_RST_STREAM, 0, 1, h2_u32(HTTP2_ERROR_CANCEL));
    fixture_await_gone(&h->base, 1);
    assert_false(h->base.gone_done);
    h2_response(h, 1, 10);
    h2_until(h, h2_has_ended, 3);
    assert_false(h2_of(h, 1)->heads);
}

static void a_response_that_is_cut_is_reset_after_what_was_sent(void **state)
{
    struct h2 *h = *state;

    h2_connect(h);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 1, H2_GET);
    h2_until(h, h2_has_requests, 1);
    h->responses[0]->req->res.status = 200;
    http_response_start(h->responses[0], 10);
    http_response_send(h->responses[0], body_of("abc"), false);
    http_response_abort(h->responses[0]);
    h2_until(h, h2_has_reset, 1);
    assert_int_equal(h2_of(h, 1)->reset, HTTP2_ERROR_INTERNAL);
    assert_int_equal(h2_of(h, 1)->bytes, 3);
    assert_false(h2_of(h, 1)->ended);
    assert_int_equal(h->base.gone, 1);
    assert_false(h->base.gone_done);
    assert_int_equal(h->base.sent_bytes, 3);
}

static void the_end_of_a_connection_ends_all_its_requests(void **state)
{
    struct h2 *h = *state;
    struct text t = {0};

    h2_connect(h);
    for (unsigned i = 0; i < STREAMS; ++i)
        h2_frame(&t, TYPE_HEADERS, H2_WHOLE, id_of(i), H2_GET);
    h2_send_text(h, &t);
    h2_until(h, h2_has_requests, STREAMS);
    for (unsigned i = 0; i < STREAMS; i += 2)
        h2_response(h, i, 50000);
    raw_reset(&h->client.peer);
    fixture_await_gone(&h->base, STREAMS);
}

/* ---- windows ---- */

static void data_waits_for_both_windows_and_an_end_for_none(void **state)
{
    struct h2 *h = *state;

    h2_connect(h);
    h2_setting(h, HTTP2_SETTING_INITIAL_WINDOW, 0);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 1, H2_GET);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 3, H2_GET);
    h2_until(h, h2_has_requests, 2);
    h2_response(h, 0, 100000);
    h2_response(h, 1, 0);
    h2_until(h, h2_has_ended, 3);
    h2_ping(h);
    assert_int_equal(h2_of(h, 1)->heads, 1);
    assert_int_equal(h2_of(h, 1)->bytes, 0);
    h2_window(h, 1, 1000);
    h2_ping(h);
    h2_ping(h);
    assert_int_equal(h2_of(h, 1)->bytes, 1000);
    h2_setting(h, HTTP2_SETTING_INITIAL_WINDOW, 200000);
    h2_ping(h);
    h2_ping(h);
    assert_int_equal(h2_of(h, 1)->bytes, 65535);
    assert_int_equal(h->base.gone, 1);
    h2_window(h, 0, 100000);
    h2_until(h, h2_has_ended, 1);
    assert_int_equal(h2_of(h, 1)->bytes, 100000);
    fixture_await_gone(&h->base, 2);
    assert_int_equal(h->base.sent_bytes, 100000);
}

static void streams_with_windows_have_turns(void **state)
{
    struct h2 *h = *state;

    h2_connect(h);
    h2_setting(h, HTTP2_SETTING_INITIAL_WINDOW, WINDOW);
    h2_window(h, 0, WINDOW);
    for (unsigned i = 0; i < 4; ++i)
        h2_send(h, TYPE_HEADERS, H2_WHOLE, id_of(i), H2_GET);
    h2_until(h, h2_has_requests, 4);
    for (unsigned i = 0; i < 4; ++i)
        h2_response(h, i, 1000000);
    h2_until(h, h2_has_ended, 1);
    for (unsigned i = 1; i < 4; ++i)
        assert_true(h2_of(h, id_of(i))->bytes > 500000);
    for (unsigned i = 1; i < 4; ++i)
        h2_until(h, h2_has_ended, id_of(i));
    for (unsigned i = 0; i < 4; ++i)
        assert_int_equal(h2_of(h, id_of(i))->bytes, 1000000);
}

/* GET with `priority: VALUE`. */
static void send_get(struct h2 *h, uint32_t id, const char *value)
{
    struct text block = {0};
    char len = (char)strlen(value);

    text_add(&block, H2_GET);
    text_add(&block, SLICE_LIT("\0\x8priority"));
    text_add(&block, (struct slice){&len, 1});
    text_add(&block, slice_of(value));
    h2_send(h, TYPE_HEADERS, H2_WHOLE, id, text_slice(&block));
    text_fini(&block);
}

static void send_update(struct h2 *h, uint32_t id, const char *value)
{
    struct text payload = {0};

    text_add(&payload, h2_u32(id));
    text_add(&payload, slice_of(value));
    h2_send(h, TYPE_PRIORITY_UPDATE, 0, 0, text_slice(&payload));
    text_fini(&payload);
}

/* Opens the windows when all N responses wait, and compares the order of their ends. */
static void check_order(struct h2 *h, unsigned n, const uint32_t *expected)
{
    h2_until(h, h2_has_requests, n + 1);
    for (unsigned i = 1; i <= n; ++i)
        h2_response(h, i, 100000);
    h2_ping(h);
    h2_window(h, 0, WINDOW);
    for (unsigned i = 0; i < n; ++i)
        h2_until(h, h2_has_ended, expected[i]);
    for (unsigned i = 0; i < n; ++i)
        assert_int_equal(h->client.ended[i], expected[i]);
}

/* The window of the connection is used up by a first response, so that others have to wait. */
static void use_window(struct h2 *h)
{
    h2_connect(h);
    h2_setting(h, HTTP2_SETTING_INITIAL_WINDOW, WINDOW);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 999, H2_GET);
    h2_until(h, h2_has_requests, 1);
    h2_response(h, 0, 65535);
    h2_until(h, h2_has_ended, 999);
    h->client.nended = 0;
}

static void more_urgent_responses_are_sent_first(void **state)
{
    struct h2 *h = *state;

    use_window(h);
    send_get(h, 1001, "u=5");
    send_get(h, 1003, "u=1");
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 1005, H2_GET); /* 3 */
    send_get(h, 1007, "u=0, i");
    send_get(h, 1009, "u=1");
    check_order(h, 5, (const uint32_t[]){1007, 1003, 1009, 1005, 1001});
}

static void urgency_in_several_field_lines_is_one_statement(void **state)
{
    struct h2 *h = *state;
    struct text block = {0};

    text_add(&block, H2_GET);
    text_add(&block, SLICE_LIT("\0\x8priority\1i\0\x8priority\3u=1"));
    use_window(h);
    send_get(h, 1001, "u=2");
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 1003, text_slice(&block));
    check_order(h, 2, (const uint32_t[]){1003, 1001});
    text_fini(&block);
}

static void priority_updates_change_the_order(void **state)
{
    struct h2 *h = *state;

    use_window(h);
    send_update(h, 1005, "u=0"); /* before its request, which says otherwise */
    send_get(h, 1001, "u=1");
    send_get(h, 1003, "u=2");
    send_get(h, 1005, "u=7");
    send_update(h, 1001, "u=6");
    check_order(h, 3, (const uint32_t[]){1005, 1003, 1001});
}

static void workers_field_has_precedence_over_the_clients(void **state)
{
    struct h2 *h = *state;

    use_window(h);
    send_get(h, 1001, "u=1");
    send_get(h, 1003, "u=3");
    h2_until(h, h2_has_requests, 3);
    http_request_add_response(h->responses[2]->req, "Priority", SLICE_LIT("u=0"));
    check_order(h, 2, (const uint32_t[]){1003, 1001});
}

static void first_urgency_replaces_dependencies(void **state)
{
    struct h2 *h = *state;

    use_window(h);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 1001, H2_GET);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 1003, H2_GET);
    h2_send(h, TYPE_PRIORITY, 0, 1001, SLICE_LIT("\0\0\3\xeb\xff")); /* after 1003 */
    h2_until(h, h2_has_requests, 3);
    h2_response(h, 1, 100000);
    h2_response(h, 2, 100000);
    h2_ping(h);
    send_get(h, 1005, "u=1");
    h2_until(h, h2_has_requests, 4);
    h2_response(h, 3, 100000);
    h2_send(h, TYPE_PRIORITY, 0, 1001, SLICE_LIT("\0\0\3\xeb\xff")); /* has no effect */
    h2_ping(h);
    h2_window(h, 0, WINDOW);
    h2_until(h, h2_has_ended, 1003);
    assert_int_equal(h->client.ended[0], 1005);
    assert_int_equal(h->client.ended[1], 1001);
    assert_int_equal(h->client.nended, 3);
}

static void an_overflow_of_a_streams_window_resets_that_stream(void **state)
{
    struct h2 *h = *state;

    h2_connect(h);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 1, H2_GET);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 3, H2_GET);
    h2_until(h, h2_has_requests, 2);
    h2_window(h, 1, INT32_MAX);
    h2_until(h, h2_has_reset, 1);
    assert_int_equal(h2_of(h, 1)->reset, HTTP2_ERROR_FLOW_CONTROL);
    assert_int_equal(h->base.gone, 1);
    h2_response(h, 1, 10);
    h2_until(h, h2_has_ended, 3);
    assert_int_equal(h->client.goaways, 0);
    h2_window(h, 0, INT32_MAX);
    h2_until(h, h2_is_over, 0);
    assert_int_equal(h->client.code, HTTP2_ERROR_FLOW_CONTROL);
    assert_int_equal(h->client.last_id, 3);
}

static void an_upload_whose_window_overflows_is_reported(void **state)
{
    struct h2 *h = *state;

    h2_connect(h);
    h2_send(h, TYPE_HEADERS, FLAG_END_HEADERS, 1, H2_POST);
    h2_window(h, 1, INT32_MAX);
    h2_until(h, h2_has_reset, 1);
    assert_int_equal(h2_of(h, 1)->reset, HTTP2_ERROR_FLOW_CONTROL);
    assert_int_equal(fixture_rejected(&h->base, FAULT_HTTP2_WINDOW), 1);
    h2_ping(h);
    assert_int_equal(h->client.goaways, 0);
    for (unsigned i = 1; i <= 10; ++i) {
        h2_send(h, TYPE_HEADERS, FLAG_END_HEADERS, id_of(i), H2_POST);
        h2_window(h, id_of(i), INT32_MAX);
    }
    h2_until(h, h2_is_over, 0);
    assert_int_equal(h->client.code, HTTP2_ERROR_ENHANCE_YOUR_CALM);
    assert_int_equal(fixture_rejected(&h->base, FAULT_HTTP2_WINDOW), 11);
    assert_int_equal(h->base.requests, 0);
}

static void the_windows_of_a_body_are_renewed_in_large_parts(void **state)
{
    enum { FRAMES = 300 };
    struct h2 *h = *state;
    static char bytes[HTTP2_FRAME_MAX];
    struct http_server_options o = fixture_options(&h->base);

    o.max.body_bytes = 64 << 20;
    h2_restart(h, &o);
    h2_connect(h);
    h2_send(h, TYPE_HEADERS, FLAG_END_HEADERS, 1, H2_POST);
    for (int i = 0; i < FRAMES; ++i)
        h2_send(h, TYPE_DATA, i == FRAMES - 1 ? H2_END : 0, 1,
                (struct slice){bytes, sizeof(bytes)});
    h2_until(h, h2_has_requests, 1);
    h2_ping(h);
    assert_int_equal(h->base.body.len, FRAMES * sizeof(bytes));
    uint64_t renewed = h->client.window - (WINDOW - 65535);
    assert_true(renewed > FRAMES * sizeof(bytes) - (1 << 20) - sizeof(bytes));
    assert_true(h2_of(h, 1)->window > FRAMES * sizeof(bytes) - (2 << 20) - sizeof(bytes));
}

/* ---- requests ---- */

static void an_expectation_is_met_by_an_interim_response(void **state)
{
    struct h2 *h = *state;

    h2_connect(h);
    h2_send(h, TYPE_HEADERS, FLAG_END_HEADERS, 1, H2_EXPECT);
    h2_until(h, h2_has_head, 1);
    assert_int_equal(h2_of(h, 1)->interim, 100);
    assert_false(h2_of(h, 1)->ended);
    h2_send(h, TYPE_DATA, H2_END, 1, SLICE_LIT("abc"));
    h2_until(h, h2_has_requests, 1);
    assert_true(slice_is(text_slice(&h->base.body), "abc"));
    h2_response(h, 0, 1);
    h2_until(h, h2_has_ended, 1);
    assert_int_equal(h2_of(h, 1)->heads, 2);
    assert_int_equal(h2_of(h, 1)->status, 200);
}

static bool decline(void *context, const struct http_request *req, struct http_conn *conn)
{
    (void)context;
    (void)req;
    (void)conn;
    return true;
}

static void a_body_that_was_not_asked_for_does_not_end_the_response(void **state)
{
    struct h2 *h = *state;
    static char bytes[HTTP2_FRAME_MAX];
    struct http_server_options o = fixture_options(&h->base);

    o.declines = decline;
    h2_restart(h, &o);
    h2_connect(h);
    h2_setting(h, HTTP2_SETTING_INITIAL_WINDOW, 0);
    h2_send(h, TYPE_HEADERS, FLAG_END_HEADERS, 1, H2_EXPECT);
    h2_until(h, h2_has_requests, 1);
    assert_int_equal(h->base.body.len, 0);
    h2_response(h, 0, 10);
    for (int i = 0; i < 10; ++i)
        h2_send(h, TYPE_DATA, 0, 1, (struct slice){bytes, sizeof(bytes)});
    h2_ping(h);
    assert_int_equal(h2_of(h, 1)->reset, -1);
    assert_int_equal(h2_of(h, 1)->interim, 0);
    h2_window(h, 1, 10);
    h2_until(h, h2_has_ended, 1);
    assert_int_equal(h2_of(h, 1)->bytes, 10);
    /* After the response the rest of the request is not needed. */
    h2_send(h, TYPE_DATA, 0, 1, (struct slice){bytes, sizeof(bytes)});
    h2_until(h, h2_has_reset, 1);
    assert_int_equal(h2_of(h, 1)->reset, HTTP2_ERROR_NONE);
    assert_int_equal(h->client.goaways, 0);
}

/* A GET with N fields NAME of BYTES bytes each. */
static void send_with_fields(struct h2 *h, uint32_t id, struct slice name, unsigned n, size_t bytes)
{
    struct hpack_encoder e;
    struct text block = {0};
    struct text value = {0};
    unsigned type = TYPE_HEADERS;
    unsigned flags = H2_END;

    hpack_encoder_init(&e);
    text_add(&block, H2_GET);
    for (size_t i = 0; i < bytes; ++i)
        text_add_char(&value, 'v');
    for (unsigned i = 0; i < n; ++i)
        hpack_encoder_field(&e, &block, name, text_slice(&value));
    for (size_t at = 0; at < block.len;) {
        size_t part = block.len - at < HTTP2_FRAME_MAX ? block.len - at : HTTP2_FRAME_MAX;

        flags |= at + part == block.len ? FLAG_END_HEADERS : 0;
        h2_send(h, type, flags, id, (struct slice){block.p + at, part});
        at += part;
        type = TYPE_CONTINUATION;
        flags = 0;
    }
    hpack_encoder_fini(&e);
    text_fini(&block);
    text_fini(&value);
}

static void cookies_are_one_field_whose_size_counts(void **state)
{
    struct h2 *h = *state;
    struct http_server_options o = fixture_options(&h->base);

    o.max.fields = 100;
    o.max.head_bytes = 64 * 1024;
    h2_restart(h, &o);
    h2_connect(h);
    send_with_fields(h, 1, SLICE_LIT("cookie"), 500, 20);
    h2_until(h, h2_has_requests, 1);
    assert_int_equal(h->responses[0]->req->fields.n, 1);
    assert_int_equal(h->responses[0]->req->fields.at[0].value.len, 500 * 22 - 2);
    send_with_fields(h, 3, SLICE_LIT("cookie"), 120, 600);
    h2_until(h, h2_has_ended, 3);
    assert_int_equal(h2_of(h, 3)->status, 431);
    send_with_fields(h, 5, SLICE_LIT("x-one"), 101, 1);
    h2_until(h, h2_has_ended, 5);
    assert_int_equal(h2_of(h, 5)->status, 431);
    assert_int_equal(h->base.requests, 1);
    assert_int_equal(h->client.goaways, 0);
}

static void trailers_end_a_request_and_are_dropped(void **state)
{
    struct h2 *h = *state;

    h2_connect(h);
    h2_send(h, TYPE_HEADERS, FLAG_END_HEADERS, 1, H2_POST);
    h2_send(h, TYPE_DATA, 0, 1, SLICE_LIT("abc"));
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 1, SLICE_LIT("\0\3x-a\1b"));
    h2_until(h, h2_has_requests, 1);
    assert_true(slice_is(text_slice(&h->base.body), "abc"));
    assert_int_equal(h->responses[0]->req->fields.n, 0);
}

static void a_body_that_is_too_large_gets_a_response_and_no_longer_read(void **state)
{
    struct h2 *h = *state;
    static char bytes[HTTP2_FRAME_MAX];

    h2_connect(h);
    h2_send(h, TYPE_HEADERS, FLAG_END_HEADERS, 1, H2_POST);
    for (int i = 0; i < 100; ++i)
        h2_send(h, TYPE_DATA, 0, 1, (struct slice){bytes, sizeof(bytes)});
    h2_until(h, h2_has_reset, 1);
    assert_int_equal(h2_of(h, 1)->status, 413);
    assert_true(h2_of(h, 1)->ended);
    assert_int_equal(h2_of(h, 1)->reset, HTTP2_ERROR_NONE);
    h2_send(h, TYPE_DATA, H2_END, 1, SLICE_LIT("abc"));
    h2_ping(h);
    assert_int_equal(h->client.goaways, 0);
    assert_int_equal(h->base.requests, 0);
}

static void a_head_request_is_rejected_without_content(void **state)
{
    struct h2 *h = *state;

    h2_connect(h);
    /* HEAD with Expect: x. */
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 1, SLICE_LIT("\x02\4HEAD\x87\x84\x41\1a\x0f\x14\1x"));
    h2_until(h, h2_has_ended, 1);
    assert_int_equal(h2_of(h, 1)->status, 417);
    assert_int_equal(h2_of(h, 1)->bytes, 0);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 3, SLICE_LIT("\x82\x87\x84\x41\1a\x0f\x14\1x"));
    h2_until(h, h2_has_ended, 3);
    assert_int_equal(h2_of(h, 3)->status, 417);
    assert_int_not_equal(h2_of(h, 3)->bytes, 0);
}

static void a_path_above_the_limit_of_heads_is_414(void **state)
{
    struct h2 *h = *state;
    struct http_server_options o = fixture_options(&h->base);
    struct text block = {0};

    o.max.head_bytes = 4096;
    h2_restart(h, &o);
    h2_connect(h);
    text_add(&block, SLICE_LIT("\x82\x87\x41\1a\4\x7f\x82\x1f/")); /* :path of 4097 bytes */
    for (int i = 0; i < 4096; ++i)
        text_add_char(&block, 'x');
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 1, text_slice(&block));
    h2_until(h, h2_has_ended, 1);
    assert_int_equal(h2_of(h, 1)->status, 414);
    text_fini(&block);
}

static void more_requests_than_are_tolerated_that_violate_rules_end_the_connection(void **state)
{
    struct h2 *h = *state;

    h2_connect(h);
    for (unsigned i = 0; i < 12; ++i)
        h2_send(h, TYPE_HEADERS, H2_WHOLE, id_of(i), SLICE_LIT("\x82\x87\4\1b\x41\1a"));
    h2_until(h, h2_is_over, 0);
    assert_int_equal(h->client.code, HTTP2_ERROR_ENHANCE_YOUR_CALM);
    assert_int_equal(h->client.last_id, id_of(10));
    assert_int_equal(h2_of(h, id_of(10))->status, 400);
    assert_false(h2_of(h, id_of(11))->heads);
}

/* ---- the connection ---- */

static void any_size_of_the_clients_table_is_honored(void **state)
{
    struct h2 *h = *state;

    h2_connect(h);
    for (unsigned i = 0; i < 4; ++i) {
        if (i == 2)
            h2_setting(h, HTTP2_SETTING_HEADER_TABLE, 0);
        h2_send(h, TYPE_HEADERS, H2_WHOLE, id_of(i), H2_GET);
        h2_until(h, h2_has_requests, i + 1);
        h2_response(h, i, 10);
        h2_until(h, h2_has_ended, id_of(i));
        if (i == 2)
            assert_int_equal(h->client.first_byte, 0x20);
    }
    assert_int_equal(h->client.table.bytes, 0);
}

static bool has_settings(struct h2 *h, uint64_t n)
{
    return h->client.settings == n;
}

static void settings_come_before_the_client_speaks(void **state)
{
    struct h2 *h = *state;

    raw_connect(&h->addr, &h->client.peer);
    h2_until(h, has_settings, 1);
    raw_send(h->base.loop, &h->client.peer, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    h2_send(h, TYPE_SETTINGS, 0, 0, SLICE_NULL);
    h2_ping(h);
    assert_int_equal(h->client.settings, 1);
    assert_int_equal(h->client.goaways, 0);
}

static void request_number(struct h2 *h, unsigned i)
{
    h2_send(h, TYPE_HEADERS, H2_WHOLE, id_of(i), H2_GET);
    h2_until(h, h2_has_requests, i + 1);
}

/* Request number I, and a part of its response. */
static void begin_response(struct h2 *h, unsigned i)
{
    request_number(h, i);
    h->responses[i]->req->res.status = 200;
    http_response_start(h->responses[i], 100);
    http_response_send(h->responses[i], body_of("abc"), false);
    h2_until(h, h2_has_head, id_of(i));
}

/* Requests that the client resets: before their responses, or AFTER these have begun. */
static void abandon(struct h2 *h, unsigned n, bool after)
{
    for (unsigned i = 0; i < n; ++i) {
        if (after)
            begin_response(h, i);
        else
            request_number(h, i);
        h2_send(h, TYPE_RST_STREAM, 0, id_of(i), h2_u32(HTTP2_ERROR_CANCEL));
        fixture_await_gone(&h->base, i + 1);
    }
}

static void abandoning_responses_that_have_begun_does_not_end_the_connection(void **state)
{
    struct h2 *h = *state;
    struct http_server_options o = fixture_options(&h->base);

    o.http2_abandoned = 10;
    h2_restart(h, &o);
    h2_connect(h);
    abandon(h, 30, true);
    h2_ping(h);
    assert_int_equal(h->client.goaways, 0);
    assert_int_equal(fixture_counts(&h->base).abandoned, 30);
}

static void abandoning_most_requests_before_their_responses_ends_the_connection(void **state)
{
    struct h2 *h = *state;
    struct http_server_options o = fixture_options(&h->base);

    o.http2_abandoned = 10;
    h2_restart(h, &o);
    h2_connect(h);
    abandon(h, 10, false);
    h2_until(h, h2_is_over, 0);
    assert_int_equal(h->client.code, HTTP2_ERROR_ENHANCE_YOUR_CALM);
    assert_int_equal(fixture_rejected(&h->base, FAULT_FRAMES_ABANDONED), 1);
}

static void overflowing_the_windows_of_responses_that_have_begun_ends_the_connection(void **state)
{
    struct h2 *h = *state;
    struct http_server_options o = fixture_options(&h->base);

    o.http2_abandoned = 10;
    h2_restart(h, &o);
    h2_connect(h);
    for (unsigned i = 0; i < 10; ++i) {
        begin_response(h, i);
        h2_window(h, id_of(i), INT32_MAX);
        fixture_await_gone(&h->base, i + 1);
    }
    h2_until(h, h2_is_over, 0);
    assert_int_equal(h->client.code, HTTP2_ERROR_ENHANCE_YOUR_CALM);
    assert_int_equal(fixture_rejected(&h->base, FAULT_FRAMES_ABANDONED), 1);
}

static void other_protocols_get_settings_and_are_closed(void **state)
{
    struct h2 *h = *state;
    struct http_server_counts counts;

    raw_connect(&h->addr, &h->client.peer);
    raw_send(h->base.loop, &h->client.peer, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    h2_until(h, h2_is_over, 0);
    assert_int_equal(h->client.settings, 1);
    assert_int_equal(h->client.goaways, 0);
    assert_int_equal(h->base.requests, 0);
    http_server_read_counts(h->base.server, &counts);
    assert_int_equal(counts.rejected[FAULT_HTTP2_PREFACE], 1);
}

static void an_error_after_the_preface_ends_with_goaway(void **state)
{
    struct h2 *h = *state;

    raw_connect(&h->addr, &h->client.peer);
    raw_send(h->base.loop, &h->client.peer, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    h2_send(h, TYPE_PING, 0, 0, SLICE_LIT("12345678"));
    h2_until(h, h2_is_over, 0);
    assert_int_equal(h->client.settings, 1);
    assert_int_equal(h->client.code, HTTP2_ERROR_PROTOCOL);
}

static void frames_of_servers_end_the_connection(void **state)
{
    struct h2 *h = *state;

    h2_connect(h);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 1, H2_GET);
    h2_until(h, h2_has_requests, 1);
    h2_send(h, TYPE_PUSH_PROMISE, FLAG_END_HEADERS, 1, SLICE_LIT("\0\0\0\2"));
    h2_until(h, h2_is_over, 0);
    assert_int_equal(h->client.code, HTTP2_ERROR_PROTOCOL);
    assert_int_equal(h->client.last_id, 1);
    assert_int_equal(h->base.gone, 1);
}

struct pinging {
    struct h2 *h;
    struct text pings;
    size_t at; /* of PINGS, sent again and again */
};

static bool is_rejected_for_pings(void *context)
{
    struct pinging *p = context;
    struct http_server_counts counts;

    ssize_t n = send(p->h->client.peer.fd, p->pings.p + p->at, p->pings.len - p->at,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        p->at = (p->at + (size_t)n) % p->pings.len;
    http_server_read_counts(p->h->base.server, &counts);
    return counts.rejected[FAULT_FRAMES_PING] == 1;
}

static void a_client_that_does_not_read_what_it_asks_for_is_rejected(void **state)
{
    struct h2 *h = *state;
    struct pinging p = {.h = h};

    h2_connect(h);
    for (int i = 0; i < 1000; ++i)
        h2_frame(&p.pings, TYPE_PING, 0, 0, SLICE_LIT("12345678"));
    raw_turn_until(h->base.loop, is_rejected_for_pings, &p);
    text_fini(&p.pings);
}

static void a_drain_names_all_streams_first(void **state)
{
    struct h2 *h = *state;

    h2_connect(h);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 1, H2_GET);
    h2_until(h, h2_has_requests, 1);
    http_server_retire(h->base.server, NULL, NULL);
    h2_until(h, h2_has_goaway, 0);
    assert_int_equal(h->client.last_id, INT32_MAX);
    h2_send(h, TYPE_HEADERS, H2_WHOLE, 3, H2_GET);
    h2_until(h, h2_has_requests, 2);
    h2_response(h, 0, 10);
    h2_response(h, 1, 10);
    h2_until(h, h2_is_over, 0);
    assert_int_equal(h->client.goaways, 2);
    assert_int_equal(h->client.last_id, 3);
    assert_true(h2_of(h, 3)->ended);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        H2_TEST(as_many_requests_run_as_are_announced),
        H2_TEST(a_reset_stream_ends_its_request_and_no_other),
        H2_TEST(a_response_that_is_cut_is_reset_after_what_was_sent),
        H2_TEST(the_end_of_a_connection_ends_all_its_requests),
        H2_TEST(data_waits_for_both_windows_and_an_end_for_none),
        H2_TEST(streams_with_windows_have_turns),
        H2_TEST(more_urgent_responses_are_sent_first),
        H2_TEST(urgency_in_several_field_lines_is_one_statement),
        H2_TEST(priority_updates_change_the_order),
        H2_TEST(workers_field_has_precedence_over_the_clients),
        H2_TEST(first_urgency_replaces_dependencies),
        H2_TEST(an_overflow_of_a_streams_window_resets_that_stream),
        H2_TEST(an_upload_whose_window_overflows_is_reported),
        H2_TEST(the_windows_of_a_body_are_renewed_in_large_parts),
        H2_TEST(an_expectation_is_met_by_an_interim_response),
        H2_TEST(a_body_that_was_not_asked_for_does_not_end_the_response),
        H2_TEST(cookies_are_one_field_whose_size_counts),
        H2_TEST(trailers_end_a_request_and_are_dropped),
        H2_TEST(a_body_that_is_too_large_gets_a_response_and_no_longer_read),
        H2_TEST(a_head_request_is_rejected_without_content),
        H2_TEST(a_path_above_the_limit_of_heads_is_414),
        H2_TEST(more_requests_than_are_tolerated_that_violate_rules_end_the_connection),
        H2_TEST(any_size_of_the_clients_table_is_honored),
        H2_TEST(settings_come_before_the_client_speaks),
        H2_TEST(abandoning_responses_that_have_begun_does_not_end_the_connection),
        H2_TEST(abandoning_most_requests_before_their_responses_ends_the_connection),
        H2_TEST(overflowing_the_windows_of_responses_that_have_begun_ends_the_connection),
        H2_TEST(other_protocols_get_settings_and_are_closed),
        H2_TEST(an_error_after_the_preface_ends_with_goaway),
        H2_TEST(frames_of_servers_end_the_connection),
        H2_TEST(a_client_that_does_not_read_what_it_asks_for_is_rejected),
        H2_TEST(a_drain_names_all_streams_first),
    };

    return cmocka_run_group_tests_name("http2_server", tests, NULL, NULL);
}
