/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections of the HTTP server with TLS, and with the header of a proxy in front: handshakes and
 * what failed ones leave on the wire, requests, ends, and tunnels.
 */
#include "tests/unit/http/http_server_fixture.h"
#include "tests/unit/http/tls_client.h"
#include "tests/unit/http/tunnel_fixture.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define UPGRADE "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
#define PROXY "PROXY TCP4 192.0.2.1 198.51.100.9 51000 443\r\n"

enum { MANY_BYTES = 1000000 };

/* The client of the test that runs. */
static struct tls_client client;
static struct networks proxies;

/* A server with one listener, as O specifies, with the context of T. */
static void listen_as(struct fixture *f, const struct tls_context_options *t,
                      struct http_listen_options o)
{
    struct http_server_options so = fixture_options(f);
    int fd = raw_listen(&f->addr);

    fixture_stop(f);
    f->server = http_server_create(f->loop, &so);
    o.ssl = t != NULL ? self_signed_context(t) : NULL;
    o.tag = f;
    f->listener = http_server_listen(f->server, fd, &o);
    SSL_CTX_free(o.ssl);
    f->response = response_hello;
}

static int setup(void **state)
{
    int failed = fixture_setup(state);
    struct fixture *f = *state;

    listen_as(f, &(struct tls_context_options){0},
              (struct http_listen_options){.responds_plain = true});
    tls_client_init(&client, f);
    assert_int_equal(networks_add(&proxies, SLICE_LIT("loopback")), ERR_OK);
    return failed;
}

static int teardown(void **state)
{
    tls_client_fini(&client);
    int failed = fixture_teardown(state);
    networks_fini(&proxies);
    proxies = (struct networks){0};
    return failed;
}

static uint64_t failed_for(struct fixture *f, enum tls_failure why)
{
    return fixture_counts(f).tls_failed[why];
}

static char *letters(size_t bytes)
{
    char *p = xmalloc(bytes + 1);

    for (size_t i = 0; i < bytes; ++i)
        p[i] = (char)('a' + i % 23);
    p[bytes] = '\0';
    return p;
}

/* ---- handshakes that fail ---- */

/*
 * The client sends its hello and MORE bytes behind it. The alert is all that it gets, and it gets
 * that, as the server does not close while bytes are unread.
 */
static void assert_alert(struct fixture *f, int alert, size_t more)
{
    char *junk = letters(more);

    tls_client_connect(&client);
    assert_int_not_equal(SSL_do_handshake(client.ssl), 1);
    tls_flush(&client);
    raw_send_bytes(f->loop, &f->client, (struct slice){junk, more});
    raw_await_end(f->loop, &f->client);
    assert_true(f->client.ended);
    assert_int_equal(f->client.in.len, 7);
    const unsigned char *record = (const unsigned char *)f->client.in.p;
    assert_int_equal(record[0], SSL3_RT_ALERT);
    assert_int_equal(record[5], SSL3_AL_FATAL);
    assert_int_equal(record[6], alert);
    /* It waits for the client's end. */
    assert_int_equal(http_server_connections(f->server), 1);
    tls_client_close(&client);
    fixture_await_connections(f, 0);
    free(junk);
}

static void client_of_an_old_version_gets_protocol_version(void **state)
{
    struct fixture *f = *state;

    listen_as(f, &(struct tls_context_options){.tls13_only = true},
              (struct http_listen_options){0});
    SSL_CTX_set_max_proto_version(client.context, TLS1_2_VERSION);
    assert_alert(f, SSL_AD_PROTOCOL_VERSION, 0);
    assert_alert(f, SSL_AD_PROTOCOL_VERSION, 100000);
    assert_int_equal(failed_for(f, TLS_FAILURE_VERSION), 2);
}

static void client_without_a_common_suite_gets_handshake_failure(void **state)
{
    struct fixture *f = *state;

    SSL_CTX_set_max_proto_version(client.context, TLS1_2_VERSION);
    assert_int_equal(SSL_CTX_set_cipher_list(client.context, "ECDHE-ECDSA-AES128-SHA256"), 1);
    assert_alert(f, SSL_AD_HANDSHAKE_FAILURE, 0);
    assert_alert(f, SSL_AD_HANDSHAKE_FAILURE, 100000);
    assert_int_equal(failed_for(f, TLS_FAILURE_NOTHING_IN_COMMON), 2);
}

static void client_without_a_common_protocol_gets_no_application_protocol(void **state)
{
    struct fixture *f = *state;

    SSL_CTX_set_alpn_protos(client.context, (const unsigned char *)"\3ftp", 4);
    assert_alert(f, SSL_AD_NO_APPLICATION_PROTOCOL, 0);
    assert_alert(f, SSL_AD_NO_APPLICATION_PROTOCOL, 100000);
    assert_int_equal(failed_for(f, TLS_FAILURE_NOTHING_IN_COMMON), 2);
}

static void client_that_closes_within_the_handshake_is_counted_once(void **state)
{
    struct fixture *f = *state;

    tls_client_connect(&client);
    assert_int_not_equal(SSL_do_handshake(client.ssl), 1);
    struct text hello = tls_records(&client);
    raw_send_bytes(f->loop, &f->client, (struct slice){hello.p, hello.len / 2});
    fixture_await_connections(f, 1);
    fixture_turns(f, 3);
    tls_client_close(&client);
    fixture_await_connections(f, 0);
    assert_int_equal(failed_for(f, TLS_FAILURE_CLOSED), 1);
    text_fini(&hello);
}

static void handshake_that_takes_too_long_ends(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    o.header_timeout_ms = 50;
    http_server_set(f->server, &o);
    raw_connect(&f->addr, &f->client);
    fixture_send(f, "\x16\x03\x01");
    raw_await_end(f->loop, &f->client);
    fixture_await_connections(f, 0);
    assert_int_equal(failed_for(f, TLS_FAILURE_CLOSED), 1);
    assert_int_equal(fixture_counts(f).header_timeouts, 1);
}

/* ---- no TLS at all ---- */

static void client_that_speaks_plain_http_gets_a_response_so(void **state)
{
    struct fixture *f = *state;
    char *body = letters(MANY_BYTES);

    fixture_send(f, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    raw_send_bytes(f->loop, &f->client, (struct slice){body, MANY_BYTES});
    raw_await_end(f->loop, &f->client);
    assert_true(f->client.ended);
    assert_true(raw_has(&f->client, "HTTP/1.1 400 Bad Request\r\n"));
    assert_true(raw_has(&f->client, "this address speaks TLS"));
    assert_int_equal(failed_for(f, TLS_FAILURE_PLAIN_HTTP), 1);
    assert_int_equal(f->requests, 0);
    raw_close(&f->client);
    fixture_await_connections(f, 0);
    assert_int_equal(failed_for(f, TLS_FAILURE_CLOSED), 0);
    free(body);
}

static void plain_http_gets_no_response_where_it_is_not_wanted(void **state)
{
    struct fixture *f = *state;

    listen_as(f, &(struct tls_context_options){0}, (struct http_listen_options){0});
    fixture_send(f, GET);
    raw_await_end(f->loop, &f->client);
    assert_false(raw_has(&f->client, "HTTP/1.1"));
    assert_int_equal(failed_for(f, TLS_FAILURE_PLAIN_HTTP), 1);
    raw_close(&f->client);
    fixture_await_connections(f, 0);
}

/* ---- requests ---- */

static void requests_are_served_one_after_the_other(void **state)
{
    struct fixture *f = *state;

    tls_client_open(&client);
    for (unsigned i = 1; i < 4; ++i) {
        text_clear(&client.plain);
        tls_send(&client, GET);
        tls_await(&client, "\r\n\r\nhello");
        fixture_await_gone(f, i);
    }
    assert_int_equal(fixture_counts(f).tls13, 1);
    assert_int_equal(http_server_connections(f->server), 1);
}

static void pipelined_requests_of_one_record_are_all_served(void **state)
{
    struct fixture *f = *state;

    tls_client_open(&client);
    tls_send(&client, GET "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" GET
                          "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "3\r\ndef\r\n0\r\n\r\n" GET);
    fixture_await_gone(f, 5);
    assert_true(f->gone_done);
}

static void record_in_pieces_and_requests_in_records_of_a_byte_are_served(void **state)
{
    struct fixture *f = *state;

    tls_client_open(&client);
    for (const char *p = GET; *p != '\0'; ++p) {
        tls_send_bytes(&client, (struct slice){p, 1});
        fixture_turns(f, 1);
    }
    fixture_await_gone(f, 1);
    assert_int_equal(SSL_write(client.ssl, GET, sizeof(GET) - 1), (int)sizeof(GET) - 1);
    struct text record = tls_records(&client);
    fixture_send_pieces(f, text_slice(&record), 1);
    fixture_await_gone(f, 2);
    text_fini(&record);
}

static void response_large(struct fixture *f, struct call *call)
{
    (void)f;
    char *p = letters(MANY_BYTES);

    start_response(call, 200, MANY_BYTES + 4);
    http_response_send(&call->response, body_piece_copy((struct slice){p, MANY_BYTES}), false);
    http_response_send(&call->response, body_of("end."), true);
    free(p);
}

static void large_bodies_pass_both_ways(void **state)
{
    struct fixture *f = *state;
    char *body = letters(MANY_BYTES);

    f->response = response_large;
    tls_client_open(&client);
    for (unsigned i = 1; i < 3; ++i) {
        text_clear(&client.plain);
        tls_send(&client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
        tls_send_bytes(&client, (struct slice){body, MANY_BYTES});
        tls_await(&client, "end.");
        fixture_await_gone(f, i);
        assert_true(f->gone_done);
        assert_int_equal(f->body.len, MANY_BYTES);
        assert_memory_equal(f->body.p, body, MANY_BYTES);
        assert_true(tls_has(&client, body));
    }
    free(body);
}

static void rejected_client_that_is_still_sending_gets_its_response(void **state)
{
    struct fixture *f = *state;
    char *body = letters(MANY_BYTES);

    tls_client_open(&client);
    tls_send(&client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2500000\r\n\r\n");
    for (int i = 0; i < 5; ++i)
        tls_send_bytes(&client, (struct slice){body, MANY_BYTES});
    tls_await_end(&client);
    assert_true(tls_has(&client, "HTTP/1.1 413 "));
    assert_true(client.ended);
    assert_true(f->client.ended);
    free(body);
}

/* ---- ends ---- */

static void end_of_tls_without_that_of_the_connection_closes_an_idle_one(void **state)
{
    struct fixture *f = *state;

    tls_client_open(&client);
    tls_send(&client, GET);
    tls_await(&client, "hello");
    fixture_await_gone(f, 1);
    tls_say_end(&client);
    fixture_await_connections(f, 0);
    tls_await_end(&client);
    assert_true(client.ended);
    assert_true(f->client.ended);
}

static void end_of_tls_ends_a_request_in_progress(void **state)
{
    struct fixture *f = *state;

    f->response = NULL;
    tls_client_open(&client);
    tls_send(&client, GET);
    fixture_await_requests(f, 1);
    tls_say_end(&client);
    fixture_await_gone(f, 1);
    assert_false(f->gone_done);
    fixture_await_connections(f, 0);
}

static void request_that_may_outlive_the_end_of_tls_is_served(void **state)
{
    struct fixture *f = *state;

    f->response = NULL;
    tls_client_open(&client);
    tls_send(&client, GET);
    fixture_await_requests(f, 1);
    http_response_allow_half_close(&f->call->response);
    tls_say_end(&client);
    fixture_turns(f, 10);
    assert_int_equal(f->gone, 0);
    response_hello(f, f->call);
    tls_await(&client, "hello");
    fixture_await_gone(f, 1);
    assert_true(f->gone_done);
    fixture_await_connections(f, 0);
}

static void idle_connection_is_notified_of_its_end(void **state)
{
    struct fixture *f = *state;

    tls_client_open(&client);
    tls_send(&client, GET);
    tls_await(&client, "hello");
    fixture_await_gone(f, 1);
    http_server_drain(f->server, NULL, NULL);
    tls_await_end(&client);
    assert_true(client.ended);
    assert_true(f->client.ended);
}

static void request_that_has_come_when_a_drain_begins_is_served(void **state)
{
    struct fixture *f = *state;

    tls_client_open(&client);
    tls_send(&client, GET);
    tls_await(&client, "hello");
    fixture_await_gone(f, 1);
    assert_int_equal(SSL_write(client.ssl, GET, sizeof(GET) - 1), sizeof(GET) - 1);
    struct text record = tls_records(&client);
    /* Without a turn of the loop. */
    assert_int_equal(send(f->client.fd, record.p, record.len, MSG_NOSIGNAL), record.len);
    text_fini(&record);
    http_server_drain(f->server, NULL, NULL);
    tls_await(&client, "Connection: close");
    assert_int_equal(f->requests, 2);
}

static void response_that_is_cut_where_its_end_is_the_connections_has_no_end_in_tls(void **state)
{
    struct fixture *f = *state;

    f->response = NULL;
    tls_client_open(&client);
    tls_send(&client, "GET / HTTP/1.0\r\n\r\n");
    fixture_await_requests(f, 1);
    f->call->response.req->res.status = 200;
    http_response_start(&f->call->response, UINT64_MAX);
    http_response_send(&f->call->response, body_piece_copy(SLICE_LIT("a part")), false);
    tls_await(&client, "a part");
    http_response_abort(&f->call->response);
    raw_await_end(f->loop, &f->client);
    tls_read(&client);
    assert_false(client.ended);
}

/* ---- records, and writes that fail ---- */

static unsigned records; /* with data, from the server */

static void count_record(int ours, int version, int type, const void *bytes, size_t len, SSL *ssl,
                         void *context)
{
    (void)version;
    (void)ssl;
    (void)context;
    records += !ours && type == SSL3_RT_INNER_CONTENT_TYPE && len == 1 &&
               *(const unsigned char *)bytes == SSL3_RT_APPLICATION_DATA;
}

/* The request's response: BYTES that end in "Z", of known length or in chunks. */
static void response_letters(struct fixture *f, size_t bytes, bool chunked)
{
    char *body = letters(bytes);
    unsigned requests = f->requests + 1;

    records = 0;
    text_clear(&client.plain);
    body[bytes - 1] = 'Z';
    tls_send(&client, GET);
    fixture_await_requests(f, requests);
    start_response(f->call, 200, chunked ? UINT64_MAX : bytes);
    http_response_send(&f->call->response, body_piece_copy((struct slice){body, bytes}), true);
    tls_await(&client, chunked ? "Z\r\n0\r\n\r\n" : "Z");
    fixture_await_gone(f, requests);
    free(body);
}

static void response_takes_as_few_records_as_it_has_bytes(void **state)
{
    enum { RECORD_BYTES = 16384 };
    struct fixture *f = *state;

    f->response = NULL;
    SSL_CTX_set_msg_callback(client.context, count_record);
    tls_client_open(&client);
    for (int chunked = 0; chunked < 2; ++chunked) {
        static const size_t sizes[] = {1, 4000, 5000, 16000};

        for (size_t i = 0; i < ARRAY_LEN(sizes); ++i) {
            response_letters(f, sizes[i], chunked != 0);
            assert_int_equal(records, 1);
        }
    }
    response_letters(f, MANY_BYTES, false);
    assert_int_equal(records, client.plain.len / RECORD_BYTES + 1);
}

static void response_that_cannot_be_written_is_not_complete(void **state)
{
    struct fixture *f = *state;

    f->response = NULL;
    for (unsigned n = 1; n <= 2; ++n) {
        tls_client_open(&client);
        tls_send(&client, GET);
        fixture_await_requests(f, n);
        if (n == 1)
            raw_reset(&f->client); /* seen by the write first */
        start_response(f->call, 200, MANY_BYTES * 10);
        char *body = letters(MANY_BYTES * 10);
        http_response_send(&f->call->response,
                           body_piece_borrow((struct slice){body, MANY_BYTES * 10}, free, body),
                           true);
        if (n == 2) {
            fixture_turns(f, 10);
            assert_int_equal(f->gone, 1);
            raw_reset(&f->client); /* within the write */
        }
        fixture_await_gone(f, n);
        assert_false(f->gone_done);
        assert_true(f->sent_bytes < MANY_BYTES * 10);
        tls_client_close(&client);
    }
    assert_int_equal(fixture_counts(f).abandoned, 2);
}

static void drain_within_a_handshake_ends_it(void **state)
{
    struct fixture *f = *state;

    tls_client_connect(&client);
    assert_int_not_equal(SSL_do_handshake(client.ssl), 1);
    fixture_await_connections(f, 1);
    http_server_drain(f->server, NULL, NULL);
    raw_await_end(f->loop, &f->client);
    fixture_await_connections(f, 0);
}

/* ---- messages of TLS itself, and small records ---- */

/* Queues N messages; the next flush sends them. */
static void put_key_updates(int n)
{
    for (int i = 0; i < n; ++i) {
        assert_int_equal(SSL_key_update(client.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(client.ssl), 1);
    }
}

static void assert_flooded(struct fixture *f, unsigned connections)
{
    tls_await_end(&client);
    fixture_await_connections(f, 0);
    assert_int_equal(fixture_rejected(f, FAULT_TLS_MESSAGES), connections);
    tls_client_close(&client);
}

static void a_flood_of_key_updates_ends_the_connection(void **state)
{
    struct fixture *f = *state;

    /* Idle, in more records than one call may read; with a part of a request, and with a request in
     * progress, in fewer. */
    tls_client_open(&client);
    put_key_updates(1000);
    tls_flush(&client);
    assert_flooded(f, 1);
    tls_client_open(&client);
    tls_send(&client, "GET / HTTP/1.1\r\n");
    put_key_updates(40);
    tls_flush(&client);
    assert_flooded(f, 2);
    f->response = NULL;
    tls_client_open(&client);
    tls_send(&client, GET);
    fixture_await_requests(f, 1);
    put_key_updates(40);
    tls_flush(&client);
    assert_flooded(f, 3);
    fixture_await_gone(f, 1);
}

static void key_updates_between_requests_are_accepted(void **state)
{
    struct fixture *f = *state;

    tls_client_open(&client);
    for (unsigned n = 1; n <= 5; ++n) {
        put_key_updates(1);
        tls_send(&client, GET);
        fixture_await_requests(f, n);
    }
    assert_int_equal(fixture_rejected(f, FAULT_TLS_MESSAGES), 0);
}

/* The client's hello, with MORE bytes in its list of protocols, in records of one byte. */
static void send_hello_in_small_records(struct fixture *f, size_t more)
{
    enum { HEAD = 5 };
    unsigned char protocols[1024] = "\x08http/1.1";
    char group[] = "P-256";
    struct text small = {0};

    for (size_t at = 9; at < 9 + more; at += 2)
        protocols[at] = 1, protocols[at + 1] = 'x';
    SSL_CTX_set_alpn_protos(client.context, protocols, (unsigned)(9 + more));
    /* The keys of other groups take a thousand bytes. */
    SSL_CTX_set1_groups_list(client.context, group);
    tls_client_connect(&client);
    assert_int_not_equal(SSL_do_handshake(client.ssl), 1);
    struct text hello = tls_records(&client);
    for (size_t i = HEAD; i < hello.len; ++i) {
        text_add(&small, (struct slice){hello.p, 3});
        text_add(&small, (struct slice){"\0\1", 2});
        text_add(&small, (struct slice){hello.p + i, 1});
    }
    raw_send_bytes(f->loop, &f->client, text_slice(&small));
    text_fini(&hello);
    text_fini(&small);
}

static void a_handshake_in_too_many_small_records_fails(void **state)
{
    struct fixture *f = *state;

    send_hello_in_small_records(f, 0);
    tls_handshake(&client);
    tls_send(&client, GET);
    tls_await(&client, "hello");
    tls_client_close(&client);
    fixture_await_connections(f, 0);
    send_hello_in_small_records(f, 1000);
    raw_await_end(f->loop, &f->client);
    tls_client_close(&client);
    fixture_await_connections(f, 0);
    assert_int_equal(failed_for(f, TLS_FAILURE_OTHER), 1);
}

/* ---- tunnels ---- */

static void tunnel_passes_early_and_later_bytes_both_ways(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;

    f->response = NULL;
    tls_client_open(&client);
    tls_send(&client, UPGRADE "early up");
    open_tunnel(f, &w, "early down", 0);
    tls_await(&client, "\r\n\r\nearly down");
    raw_await(f->loop, &w, "early up");
    raw_send(f->loop, &w, "more down");
    tls_await(&client, "more down");
    tls_send(&client, "more up");
    raw_await(f->loop, &w, "more up");
    /* Over TLS there is no half-close: the end of one side is that of both. */
    raw_close(&w);
    tls_await_end(&client);
    assert_true(client.ended);
    raw_turn_until_set(f->loop, &f->tunnel_ended);
    assert_int_equal(f->up_bytes, strlen("early upmore up"));
    assert_int_equal(f->down_bytes, strlen("early downmore down"));
    fixture_await_connections(f, 0);
    raw_fini(&w);
}

static bool is_readable(void *peer)
{
    char byte;

    return recv(((struct raw_peer *)peer)->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

static void failure_of_the_worker_is_not_an_orderly_end_of_a_tunnel(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;

    f->response = NULL;
    tls_client_open(&client);
    tls_send(&client, UPGRADE "unread");
    open_tunnel(f, &w, "", 0);
    tls_await(&client, "\r\n\r\n");
    raw_turn_until(f->loop, is_readable, &w);
    raw_close(&w); /* with unread bytes, which resets it */
    tls_await_end(&client);
    assert_false(client.ended);
    raw_turn_until_set(f->loop, &f->tunnel_ended);
    raw_fini(&w);
}

static void tunnel_ends_when_the_client_reports_it(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;

    f->response = NULL;
    tls_client_open(&client);
    tls_send(&client, UPGRADE);
    open_tunnel(f, &w, "", 0);
    tls_await(&client, "\r\n\r\n");
    tls_send(&client, "last");
    tls_say_end(&client);
    raw_await_end(f->loop, &w);
    assert_true(raw_has(&w, "last"));
    raw_close(&w);
    raw_turn_until_set(f->loop, &f->tunnel_ended);
    raw_fini(&w);
}

static void tunnel_passes_many_bytes_both_ways(void **state)
{
    struct fixture *f = *state;
    struct raw_peer w;
    char *p = letters(MANY_BYTES);

    f->response = NULL;
    tls_client_open(&client);
    tls_send(&client, UPGRADE);
    open_tunnel(f, &w, "", 0);
    tls_await(&client, "\r\n\r\n");
    tls_send_bytes(&client, (struct slice){p, MANY_BYTES});
    raw_await_bytes(f->loop, &w, MANY_BYTES);
    assert_memory_equal(w.in.p, p, MANY_BYTES);
    raw_send_bytes(f->loop, &w, (struct slice){p, MANY_BYTES});
    raw_send(f->loop, &w, "end.");
    tls_await(&client, "end.");
    assert_true(tls_has(&client, p));
    raw_fini(&w);
    free(p);
}

/* ---- a proxy in front ---- */

static void assert_proxied_peer(const struct fixture *f)
{
    char text[ADDR_TEXT_MAX];

    assert_string_equal(addr_host(&f->peer, text), "192.0.2.1");
}

static void tls_follows_a_proxy_header_however_it_is_cut(void **state)
{
    static const size_t pieces[] = {1, 2, 5, 20, sizeof(PROXY) - 2, sizeof(PROXY) + 3, 4096};
    struct fixture *f = *state;

    listen_as(f, &(struct tls_context_options){0},
              (struct http_listen_options){.proxy_from = &proxies});
    for (size_t i = 0; i < ARRAY_LEN(pieces); ++i) {
        tls_client_connect(&client);
        assert_int_not_equal(SSL_do_handshake(client.ssl), 1);
        struct text hello = tls_records(&client);
        struct text all = {0};
        text_add(&all, SLICE_LIT(PROXY));
        text_add(&all, text_slice(&hello));
        fixture_send_pieces(f, text_slice(&all), pieces[i]);
        tls_handshake(&client);
        tls_send(&client, GET);
        tls_await(&client, "hello");
        assert_proxied_peer(f);
        tls_client_close(&client);
        fixture_await_connections(f, 0);
        text_fini(&hello);
        text_fini(&all);
    }
}

static void plain_requests_follow_a_proxy_header_however_it_is_cut(void **state)
{
    struct fixture *f = *state;

    listen_as(f, NULL, (struct http_listen_options){.proxy_from = &proxies});
    for (size_t piece = 1; piece < sizeof(PROXY GET); piece += 9) {
        fixture_send_pieces(f, SLICE_LIT(PROXY GET), piece);
        fixture_await(f, "hello");
        assert_proxied_peer(f);
        fixture_forget_client(f);
        fixture_await_connections(f, 0);
    }
}

static void connection_without_a_valid_proxy_header_is_closed_in_silence(void **state)
{
    struct fixture *f = *state;
    struct networks none = {0};

    listen_as(f, NULL, (struct http_listen_options){.proxy_from = &proxies});
    fixture_send(f, GET);
    raw_await_end(f->loop, &f->client);
    assert_int_equal(f->client.in.len, 0);
    assert_int_equal(fixture_rejected(f, FAULT_PROXY_MISSING), 1);
    fixture_forget_client(f);
    listen_as(f, NULL, (struct http_listen_options){.proxy_from = &none});
    raw_connect(&f->addr, &f->client);
    raw_await_end(f->loop, &f->client);
    assert_int_equal(f->client.in.len, 0);
    assert_int_equal(fixture_rejected(f, FAULT_PROXY_SENDER), 1);
    assert_int_equal(f->requests, 0);
}

static void proxy_header_that_does_not_come_is_not_awaited_for_ever(void **state)
{
    struct fixture *f = *state;
    struct http_server_options o = fixture_options(f);

    listen_as(f, NULL, (struct http_listen_options){.proxy_from = &proxies});
    o.header_timeout_ms = 50;
    http_server_set(f->server, &o);
    fixture_send(f, "PROXY TC");
    raw_await_end(f->loop, &f->client);
    assert_int_equal(fixture_rejected(f, FAULT_PROXY_LATE), 1);
}

#define TLS(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TLS(client_of_an_old_version_gets_protocol_version),
        TLS(client_without_a_common_suite_gets_handshake_failure),
        TLS(client_without_a_common_protocol_gets_no_application_protocol),
        TLS(client_that_closes_within_the_handshake_is_counted_once),
        TLS(handshake_that_takes_too_long_ends),
        TLS(client_that_speaks_plain_http_gets_a_response_so),
        TLS(plain_http_gets_no_response_where_it_is_not_wanted),
        TLS(requests_are_served_one_after_the_other),
        TLS(pipelined_requests_of_one_record_are_all_served),
        TLS(record_in_pieces_and_requests_in_records_of_a_byte_are_served),
        TLS(large_bodies_pass_both_ways),
        TLS(rejected_client_that_is_still_sending_gets_its_response),
        TLS(end_of_tls_without_that_of_the_connection_closes_an_idle_one),
        TLS(end_of_tls_ends_a_request_in_progress),
        TLS(request_that_may_outlive_the_end_of_tls_is_served),
        TLS(idle_connection_is_notified_of_its_end),
        TLS(request_that_has_come_when_a_drain_begins_is_served),
        TLS(response_that_is_cut_where_its_end_is_the_connections_has_no_end_in_tls),
        TLS(response_takes_as_few_records_as_it_has_bytes),
        TLS(response_that_cannot_be_written_is_not_complete),
        TLS(drain_within_a_handshake_ends_it),
        TLS(a_flood_of_key_updates_ends_the_connection),
        TLS(key_updates_between_requests_are_accepted),
        TLS(a_handshake_in_too_many_small_records_fails),
        TLS(tunnel_passes_early_and_later_bytes_both_ways),
        TLS(failure_of_the_worker_is_not_an_orderly_end_of_a_tunnel),
        TLS(tunnel_ends_when_the_client_reports_it),
        TLS(tunnel_passes_many_bytes_both_ways),
        TLS(tls_follows_a_proxy_header_however_it_is_cut),
        TLS(plain_requests_follow_a_proxy_header_however_it_is_cut),
        TLS(connection_without_a_valid_proxy_header_is_closed_in_silence),
        TLS(proxy_header_that_does_not_come_is_not_awaited_for_ever),
    };

    return cmocka_run_group_tests_name("http_tls", tests, NULL, NULL);
}
