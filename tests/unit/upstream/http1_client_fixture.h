/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection, its worker played by hand, and everything the client reports of it.
 */
#pragma once

#include "common/upstream/http1_client.h"
#include "tests/support/raw_peer.h"

#include <netinet/in.h>
#include <sys/stat.h>

struct fixture {
    struct loop *loop;
    int listener;
    struct addr addr;
    struct http1_client_connect *attempt;
    struct http1_client_conn *conn;
    enum err connect_error;
    bool connected;
    struct raw_peer worker;
    /* of the present exchange */
    int status;
    unsigned heads, bodies;
    size_t body_bytes, nheaders;
    struct text body, reason;
    bool ended, failed, upgraded;
    enum err error;
    struct http1_client_failure failure;
    size_t parts_max;
    void (*at_head)(struct fixture *f);
    void (*at_body)(struct fixture *f);
    void (*at_end)(struct fixture *f);
};

static inline void on_connect(void *context, struct http1_client_conn *c, enum err e)
{
    struct fixture *f = context;

    f->attempt = NULL;
    f->conn = c;
    f->connect_error = e;
    f->connected = true;
}

static inline void at_end(struct fixture *f)
{
    f->ended = true;
    if (f->at_end != NULL)
        f->at_end(f);
}

static inline void on_head(void *context, const struct http1_head *head, bool final)
{
    struct fixture *f = context;

    ++f->heads;
    f->status = head->status;
    f->nheaders = head->nheaders;
    text_clear(&f->reason);
    text_add(&f->reason, head->reason);
    if (f->at_head != NULL)
        f->at_head(f);
    if (final)
        at_end(f);
}

static inline void on_body(void *context, struct body_piece *body, bool last)
{
    struct fixture *f = context;

    ++f->bodies;
    f->body_bytes += body->bytes;
    if (body->nparts > f->parts_max)
        f->parts_max = body->nparts;
    for (size_t i = 0; i < body->nparts; ++i) {
        if (f->body.len < 1 << 20)
            text_add(&f->body, body->parts[i]);
    }
    body_piece_release(body);
    if (f->at_body != NULL)
        f->at_body(f);
    if (last)
        at_end(f);
}

static inline void on_error(void *context, const struct http1_client_failure *failure)
{
    struct fixture *f = context;

    assert_false(f->ended);
    assert_false(f->failed);
    f->failed = true;
    f->error = failure->error;
    f->failure = *failure;
}

static inline void on_upgrade(void *context, const struct http1_head *head)
{
    struct fixture *f = context;

    f->status = head->status;
    f->upgraded = true;
}

static const struct http1_client_events events = {
    .on_head = on_head,
    .on_body = on_body,
    .on_error = on_error,
    .on_upgrade = on_upgrade,
};

static inline void forget_exchange(struct fixture *f)
{
    f->status = 0;
    f->heads = f->bodies = 0;
    f->body_bytes = 0;
    f->parts_max = 0;
    text_clear(&f->body);
    f->ended = f->failed = f->upgraded = false;
    f->error = ERR_OK;
}

static inline void connect_to_worker(struct fixture *f)
{
    f->connected = false;
    f->attempt = http1_client_connect_tls(f->loop, &f->addr, NULL, NULL, 5000, on_connect, f);
    raw_turn_until_set(f->loop, &f->connected);
    assert_int_equal(f->connect_error, ERR_OK);
    raw_accept(f->loop, f->listener, &f->worker);
}

static inline int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    raw_ignore_sigpipe();
    f->loop = loop_create(0);
    f->listener = raw_listen(&f->addr);
    raw_init(&f->worker);
    connect_to_worker(f);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;

    http1_client_close(&f->conn);
    raw_fini(&f->worker);
    close(f->listener);
    loop_destroy(f->loop);
    text_fini(&f->body);
    text_fini(&f->reason);
    free(f);
    return 0;
}

static inline struct http1_client_request get_request(struct fixture *f)
{
    return (struct http1_client_request){
        .head = SLICE_LIT("GET / HTTP/1.1\r\nHost: w\r\n\r\n"),
        .first_byte_timeout_ms = 10000,
        .between_bytes_timeout_ms = 10000,
        .events = &events,
        .context = f,
    };
}

/* Also prevents a reset of the worker's end of the connection for bytes that it did not read. */
static inline void await_request(struct fixture *f)
{
    raw_await(f->loop, &f->worker, "\r\n\r\n");
}

static inline void start(struct fixture *f, const struct http1_client_request *r)
{
    forget_exchange(f);
    http1_client_request(f->conn, r);
}

static inline bool is_over(void *context)
{
    struct fixture *f = context;

    return f->ended || f->failed || f->upgraded;
}

/* One GET, with the response RESPONSE; until the exchange is over. */
static inline void exchange(struct fixture *f, const char *response)
{
    struct http1_client_request r = get_request(f);

    start(f, &r);
    raw_send(f->loop, &f->worker, response);
    raw_turn_until(f->loop, is_over, f);
}

static inline void assert_body(struct fixture *f, const char *expected)
{
    assert_string_equal(text_cstr(&f->body), expected);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
