/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS for the client of the HTTP server's fixture: its records pass through memory, so that the
 * test decides when they are sent, and sees what comes as it is on the wire. Include after the
 * fixture of HTTP servers.
 */
#pragma once

#include "tests/support/self_signed.h"

struct tls_client {
    struct fixture *fixture;
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out; /* records from the server, and to it; SSL's */
    size_t fed;    /* of the client's bytes */
    struct text plain;
    bool ended;       /* by close_notify */
    const char *text; /* what tls_await waits for */
};

static inline void tls_client_init(struct tls_client *t, struct fixture *f)
{
    *t = (struct tls_client){.fixture = f, .context = SSL_CTX_new(TLS_client_method())};
    SSL_CTX_set_alpn_protos(t->context, (const unsigned char *)"\x08http/1.1", 9);
}

static inline void tls_client_close(struct tls_client *t)
{
    SSL_free(t->ssl);
    t->ssl = NULL;
    t->fed = 0;
    t->ended = false;
    text_clear(&t->plain);
    fixture_forget_client(t->fixture);
}

static inline void tls_client_fini(struct tls_client *t)
{
    tls_client_close(t);
    SSL_CTX_free(t->context);
    text_fini(&t->plain);
}

/* A connection to the server, over which nothing has been sent. */
static inline void tls_client_connect(struct tls_client *t)
{
    t->ssl = SSL_new(t->context);
    t->in = BIO_new(BIO_s_mem());
    t->out = BIO_new(BIO_s_mem());
    SSL_set_bio(t->ssl, t->in, t->out);
    SSL_set_connect_state(t->ssl);
    raw_connect(&t->fixture->addr, &t->fixture->client);
}

/* The records that wait to be sent. */
static inline struct text tls_records(struct tls_client *t)
{
    struct text all = {0};
    size_t n = BIO_ctrl_pending(t->out);

    if (n != 0) {
        assert_int_equal(BIO_read(t->out, text_reserve(&all, n), (int)n), (int)n);
        all.len = n;
    }
    return all;
}

static inline void tls_flush(struct tls_client *t)
{
    struct text all = tls_records(t);

    if (all.len != 0)
        raw_send_bytes(t->fixture->loop, &t->fixture->client, text_slice(&all));
    text_fini(&all);
}

/* Passes the received bytes to TLS. */
static inline void tls_feed(struct tls_client *t)
{
    struct raw_peer *p = &t->fixture->client;

    raw_read(p, SIZE_MAX);
    if (t->fed < p->in.len)
        BIO_write(t->in, p->in.p + t->fed, (int)(p->in.len - t->fed));
    t->fed = p->in.len;
}

static inline bool tls_is_up(void *context)
{
    struct tls_client *t = context;

    tls_feed(t);
    int done = SSL_do_handshake(t->ssl);
    tls_flush(t);
    return done == 1;
}

static inline void tls_handshake(struct tls_client *t)
{
    raw_turn_until(t->fixture->loop, tls_is_up, t);
}

static inline void tls_client_open(struct tls_client *t)
{
    tls_client_connect(t);
    tls_handshake(t);
}

static inline void tls_send_bytes(struct tls_client *t, struct slice bytes)
{
    assert_int_equal(SSL_write(t->ssl, bytes.p, (int)bytes.len), (int)bytes.len);
    tls_flush(t);
}

static inline void tls_send(struct tls_client *t, const char *text)
{
    tls_send_bytes(t, slice_of(text));
}

static inline void tls_read(struct tls_client *t)
{
    int n;

    tls_feed(t);
    do {
        n = SSL_read(t->ssl, text_reserve(&t->plain, 16384), 16384);
        t->plain.len += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    t->ended |= SSL_get_error(t->ssl, n) == SSL_ERROR_ZERO_RETURN;
}

static inline bool tls_has(const struct tls_client *t, const char *text)
{
    return t->plain.len != 0 && memmem(t->plain.p, t->plain.len, text, strlen(text)) != NULL;
}

static inline bool tls_has_come(void *context)
{
    struct tls_client *t = context;

    tls_read(t);
    return tls_has(t, t->text);
}

static inline void tls_await(struct tls_client *t, const char *text)
{
    t->text = text;
    raw_turn_until(t->fixture->loop, tls_has_come, t);
}

static inline bool tls_is_over(void *context)
{
    struct tls_client *t = context;

    tls_read(t);
    return t->fixture->client.ended || t->fixture->client.reset;
}

/* Until the connection has ended, in whatever way. */
static inline void tls_await_end(struct tls_client *t)
{
    raw_turn_until(t->fixture->loop, tls_is_over, t);
}

/* The client's close_notify; the connection stays open. */
static inline void tls_say_end(struct tls_client *t)
{
    (void)SSL_shutdown(t->ssl);
    tls_flush(t);
}
