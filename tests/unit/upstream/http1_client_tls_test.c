/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker's connection with TLS: what the library has read ahead, and messages of TLS itself.
 */
#include "tests/support/self_signed.h"
#include "tests/unit/upstream/http1_client_fixture.h"

enum { RECORD_BYTES = 16 * 1024, RECORDS = 20 };

/* The worker's side; its records pass through memory. */
static SSL_CTX *context;
static SSL *worker;
static BIO *in, *out;
static size_t fed;

static void flush_records(struct fixture *f)
{
    struct text all = {0};
    size_t n = BIO_ctrl_pending(out);

    if (n == 0)
        return;
    assert_int_equal(BIO_read(out, text_reserve(&all, n), (int)n), (int)n);
    all.len = n;
    raw_send_bytes(f->loop, &f->worker, text_slice(&all));
    text_fini(&all);
}

static bool is_connected(void *fixture)
{
    struct fixture *f = fixture;

    raw_read(&f->worker, SIZE_MAX);
    if (fed < f->worker.in.len)
        BIO_write(in, f->worker.in.p + fed, (int)(f->worker.in.len - fed));
    fed = f->worker.in.len;
    (void)SSL_do_handshake(worker);
    flush_records(f);
    return f->connected && SSL_is_init_finished(worker) == 1;
}

static void connect_with_tls(struct fixture *f)
{
    struct diag d = {0};
    struct worker_tls *tls = worker_tls_create(&(struct worker_tls_options){.verify = false}, &d);
    struct tls_peer *peer = tls_peer_create(tls, "worker.test", "app", "worker", 1);

    http1_client_close(&f->conn);
    raw_close(&f->worker);
    fed = f->worker.in.len;
    f->connected = false;
    f->attempt = http1_client_connect_tls(f->loop, &f->addr, peer, NULL, 5000, on_connect, f);
    raw_accept(f->loop, f->listener, &f->worker);
    raw_turn_until(f->loop, is_connected, f);
    assert_int_equal(f->connect_error, ERR_OK);
    tls_peer_unref(peer);
    worker_tls_unref(tls);
}

static int setup_tls(void **state)
{
    int failed = setup(state);

    context = self_signed_context(&(struct tls_context_options){0});
    worker = SSL_new(context);
    in = BIO_new(BIO_s_mem());
    out = BIO_new(BIO_s_mem());
    SSL_set_bio(worker, in, out);
    SSL_set_accept_state(worker);
    connect_with_tls(*state);
    return failed;
}

static int teardown_tls(void **state)
{
    SSL_free(worker);
    SSL_CTX_free(context);
    return teardown(state);
}

static void tls_write(struct fixture *f, const char *bytes, size_t n)
{
    assert_int_equal(SSL_write(worker, bytes, (int)n), (int)n);
    flush_records(f);
}

static void pause_and_resume(struct fixture *f)
{
    http1_client_pause(f->conn);
    http1_client_resume(f->conn);
}

static void reading_may_pause_and_resume_at_every_part_of_what_was_read_ahead(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);
    char head[64];
    char *body = xcalloc(1, RECORD_BYTES);

    f->at_body = pause_and_resume;
    start(f, &r);
    http1_client_room(f->conn, 1); /* a record is read in several parts */
    snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n",
             RECORDS * RECORD_BYTES);
    tls_write(f, head, strlen(head));
    for (int i = 0; i < RECORDS; ++i)
        tls_write(f, body, RECORD_BYTES);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->ended);
    assert_int_equal(f->body_bytes, RECORDS * RECORD_BYTES);
    assert_true(f->bodies > RECORDS);
    free(body);
}

/* N messages of TLS itself, none of them with data. */
static void send_messages(struct fixture *f, unsigned n, bool tickets)
{
    for (unsigned i = 0; i < n; ++i) {
        int queued = tickets ? SSL_new_session_ticket(worker)
                             : SSL_key_update(worker, SSL_KEY_UPDATE_NOT_REQUESTED);
        assert_int_equal(queued, 1);
        assert_int_equal(SSL_do_handshake(worker), 1);
    }
    flush_records(f);
}

static void assert_flood_ends_the_connection(struct fixture *f, unsigned n, bool tickets)
{
    struct http1_client_request r = get_request(f);

    start(f, &r);
    send_messages(f, n, tickets);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->failed);
    assert_int_equal(f->error, ERR_TLS_FAILED);
    assert_false(http1_client_reusable(f->conn));
}

static void a_flood_of_key_updates_ends_the_connection(void **state)
{
    assert_flood_ends_the_connection(*state, 1000, false);
}

static void a_flood_of_session_tickets_ends_the_connection(void **state)
{
    assert_flood_ends_the_connection(*state, 100, true);
}

static void some_messages_of_tls_are_accepted_between_responses(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    for (unsigned i = 0; i < 2; ++i) {
        start(f, &r);
        send_messages(f, 2, i == 0);
        tls_write(f, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 40);
        raw_turn_until(f->loop, is_over, f);
        assert_true(f->ended);
        assert_body(f, "ok");
        assert_true(http1_client_reusable(f->conn));
    }
}

#define TLS_TEST(name) cmocka_unit_test_setup_teardown(name, setup_tls, teardown_tls)

/* ---- whether a request that failed may have arrived ---- */

/* The first response, so that the handshake is acknowledged. */
static void respond_once(struct fixture *f)
{
    static const char response[] = "HTTP/1.1 204 No Content\r\n\r\n";
    struct http1_client_request r = get_request(f);

    start(f, &r);
    tls_write(f, response, sizeof(response) - 1);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->ended);
}

static void end_with_close_notify(struct fixture *f)
{
    raw_await_bytes(f->loop, &f->worker, fed + 1);
    (void)SSL_shutdown(worker);
    flush_records(f);
    raw_close(&f->worker);
}

static void a_request_sent_after_the_workers_close_notify_has_not_arrived(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    r.once = true;
    respond_once(f);
    end_with_close_notify(f);
    start(f, &r);
    raw_turn_until(f->loop, is_over, f);
    assert_int_equal(f->error, ERR_PEER_CLOSED);
    assert_false(f->failure.written);
}

static void a_request_that_was_acknowledged_before_close_notify_may_have_arrived(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    r.once = true;
    respond_once(f);
    raw_await_bytes(f->loop, &f->worker, fed + 1);
    fed = f->worker.in.len;
    start(f, &r);
    end_with_close_notify(f);
    raw_turn_until(f->loop, is_over, f);
    assert_int_equal(f->error, ERR_PEER_CLOSED);
    assert_true(f->failure.written);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TLS_TEST(reading_may_pause_and_resume_at_every_part_of_what_was_read_ahead),
        TLS_TEST(a_flood_of_key_updates_ends_the_connection),
        TLS_TEST(a_flood_of_session_tickets_ends_the_connection),
        TLS_TEST(some_messages_of_tls_are_accepted_between_responses),
        TLS_TEST(a_request_sent_after_the_workers_close_notify_has_not_arrived),
        TLS_TEST(a_request_that_was_acknowledged_before_close_notify_may_have_arrived),
    };

    return cmocka_run_group_tests_name("http1_tls", tests, NULL, NULL);
}
