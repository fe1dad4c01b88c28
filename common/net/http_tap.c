/* SPDX-License-Identifier: Apache-2.0
 *
 * libh2o starts reading anew whenever it has paused, and then its own callback stands where ours
 * was: after each request (HTTP/1), after "100 Continue", while output waits to be taken (HTTP/2).
 * Nothing is read before the loop waits again, so it is enough to look right before: connections
 * that it may have happened to are in the server's list "untapped" then.
 *
 * An answer of our own is written past libh2o, which at that point only reads. It learns of it when
 * it is told that the client has left, and then closes the connection as it does for any other.
 */
#include "common/net/http_conn.h"

#include <h2o/http1.h>
#include <h2o/http2.h>
#include <stdlib.h>

enum {
    /* Of what is held back, handed on at once: more would be copied again for each request. */
    HAND_ON_MAX = 8192,
    /* Of one connection, before the others have their turn. */
    READS_PER_EVENT = 4,
};

static void on_read(h2o_socket_t *sock, const char *err);

/* ---- the place of the callback ---- */

bool http_tap_in_place(const struct http_conn *c)
{
    return c->sock->_cb.read == on_read;
}

static bool take_place(struct http_conn *c)
{
    if (c->sock->_cb.read == c->tap.read)
        c->sock->_cb.read = on_read;
    return http_tap_in_place(c);
}

static bool is_busy(const struct http_conn *c)
{
    return !c->http2 && list_linked(&c->replies);
}

void http_tap_look_again(struct http_conn *c)
{
    if (c->tap.state != TAP_NONE && !list_linked(&c->tap.node))
        list_push_back(&c->server->untapped, &c->tap.node);
}

bool http_tap_pass_on(struct http_conn *c, const char *err)
{
    bool gone = false;

    if (http_conn_is_closing(c))
        return false;
    ASSERT(c->tap.gone == NULL);
    c->tap.gone = &gone;
    c->tap.read(c->sock, err);
    if (gone)
        return false;
    c->tap.gone = NULL;
    if (http_conn_is_closing(c))
        return false;
    if (!take_place(c) && !is_busy(c))
        http_tap_look_again(c);
    return true;
}

/* ---- refusing ---- */

static void on_answered(h2o_socket_t *sock, const char *err)
{
    struct http_conn *c = sock->on_close.data;

    if (c->tap.refused->ended)
        c->tap.read(sock, h2o_socket_error_closed);
    else if (err != NULL)
        http_conn_cut(c);
    else if (sock->ssl == NULL)
        shutdown(h2o_socket_get_fd(sock), SHUT_WR);
}

void http_tap_write_refusal(struct http_conn *c)
{
    const struct text *answer = &c->tap.refused->answer;
    h2o_iovec_t bytes = h2o_iovec_init(answer->p, answer->len);

    h2o_socket_write(c->sock, &bytes, 1, on_answered);
}

void http_tap_linger(struct http_conn *c)
{
    c->tap.state = TAP_REFUSED;
    if (c->tap.refused == NULL)
        c->tap.refused = xcalloc(1, sizeof(*c->tap.refused));
    c->tap.refused->until_ms = loop_now_ms(c->server->loop) + TAP_LINGER_MS;
}

void http_tap_refuse_for(struct http_conn *c, enum request_fault f,
                         const struct http1_request_facts *r)
{
    http_tap_report(c, f, r);
    http_tap_drop_spill(c);
    http_tap_linger(c);
    if (c->http2) {
        http_tap_say_goaway(c, f);
        return;
    }
    bool follows = http_tap_says_continue(c);
    if (c->sock->_cb.write != NULL && !follows) {
        http_conn_cut(c);
        return;
    }
    http_tap_put_answer(c, request_fault_status(f), request_fault_text(f), &c->tap.refused->answer);
    if (!follows)
        http_tap_write_refusal(c);
}

void http_tap_end_http2(struct http_conn *c, enum request_fault f)
{
    http_tap_refuse_for(c, f, NULL);
}

/* Something was read from a refused connection, or it has ended. */
static rare void on_read_refused(struct http_conn *c, size_t fresh, const char *err)
{
    c->sock->input->size -= fresh;
    c->tap.refused->dropped += fresh;
    if (err == NULL && c->tap.refused->dropped > TAP_LINGER_BYTES && !c->cut)
        http_conn_cut(c);
    if (err == NULL)
        return;
    if (c->sock->_cb.write == on_answered) {
        h2o_socket_read_stop(c->sock);
        c->tap.refused->ended = true;
        return;
    }
    (void)http_tap_pass_on(c, err);
}

/* ---- HTTP/1 ---- */

/* Of FRESH bytes at the end of the input, take those of the body. *REST: those after it. */
static bool take_sized(struct http_conn *c, size_t fresh, size_t *rest)
{
    struct http_tap *t = &c->tap;
    size_t used = fresh < t->left ? fresh : (size_t)t->left;

    t->left -= used;
    *rest = fresh - used;
    if (http_tap_spilling(c))
        return http_tap_spill(c, used, *rest);
    if (t->left == 0)
        t->state = TAP_HEAD;
    return true;
}

static bool take_chunks(struct http_conn *c, size_t fresh, size_t *rest)
{
    struct http_tap *t = &c->tap;
    const h2o_buffer_t *in = c->sock->input;
    struct slice bytes = {in->bytes + in->size - fresh, fresh};
    size_t used;
    bool ended;
    enum request_fault f = request_chunks_check(&t->chunks, bytes, &used, &ended);

    if (f == FAULT_NONE)
        f = http_check_body(c, t->chunks.data_bytes);
    if (f != FAULT_NONE) {
        http_tap_refuse(c, f);
        return false;
    }
    *rest = fresh - used;
    if (!http_tap_spilling(c) && !ended && http_tap_outgrows_memory(c)) {
        if (!http_tap_begin_spill(c))
            return false;
        used = in->size - t->head_bytes;
    }
    if (http_tap_spilling(c) && !http_tap_spill(c, used, *rest))
        return false;
    if (ended)
        t->state = TAP_HEAD;
    return true;
}

static bool take_body(struct http_conn *c, size_t fresh, size_t *rest)
{
    return c->tap.state == TAP_LENGTH ? take_sized(c, fresh, rest) : take_chunks(c, fresh, rest);
}

static bool take_http1(struct http_conn *c, size_t fresh, size_t *rest)
{
    if (c->tap.state == TAP_HEAD) {
        if (!http_tap_take_head(c, fresh, rest))
            return false;
        if (c->tap.state == TAP_HEAD)
            return true;
        fresh = *rest;
        if (http_tap_wants_spill(c) && !http_tap_begin_spill(c))
            return false;
        http_tap_make_room(c, fresh);
    }
    *rest = 0;
    return fresh == 0 || take_body(c, fresh, rest);
}

/*
 * What has come, or ERR, goes to who serves the request: once its head is whole, or all of it, on
 * the short way. False: the connection has gone.
 */
static bool give(struct http_conn *c, const char *err)
{
    struct http_tap *t = &c->tap;
    bool whole = t->state == TAP_HEAD && t->scanned == 0 && c->sock->input->size != 0;

    if (err != NULL)
        return http_tap_pass_on(c, err);
    if (t->brief && !whole)
        return true;
    if (t->brief && !c->cut)
        return http_short_begin(c);
    /* It may still become one for a file. */
    if (t->state == TAP_CHUNKED && c->server->options.spill_dir != NULL)
        return true;
    return (t->state == TAP_HEAD && !whole) || http_tap_pass_on(c, NULL);
}

/* Hand on what was held back, until there is a whole request. The connection may go. */
static void hand_on_http1(struct http_conn *c)
{
    struct http_tap *t = &c->tap;

    while (t->held_at < t->held.len && http_tap_in_place(c)) {
        size_t n = t->held.len - t->held_at;
        size_t rest = 0;

        n = n < HAND_ON_MAX ? n : HAND_ON_MAX;
        h2o_iovec_t room = h2o_buffer_reserve(&c->sock->input, n);
        memcpy(room.base, t->held.p + t->held_at, n);
        c->sock->input->size += n;
        if (!take_http1(c, n, &rest))
            return;
        c->sock->input->size -= rest;
        c->sock->bytes_read = n - rest;
        t->held_at += n - rest;
        if (http_tap_spilling(c) && !http_tap_spilled(c))
            continue;
        if (http_tap_spilling(c)) {
            http_tap_go_on_spilling(c);
            return;
        }
        if (!give(c, NULL))
            return;
    }
    http_tap_drop_held(c);
}

static void hand_on(struct http_conn *c)
{
    if (c->http2)
        http_tap_hand_on_http2(c);
    else
        hand_on_http1(c);
}

/* FRESH bytes have come, or the end. False: nothing more is to be done now; C may be gone. */
static bool take(struct http_conn *c, size_t fresh, const char *err)
{
    size_t rest = 0;

    if (c->tap.state == TAP_REFUSED) {
        on_read_refused(c, fresh, err);
        return false;
    }
    c->received_bytes += fresh;
    if (err == NULL && fresh != 0 && c->http2) {
        http_tap_take_http2(c, fresh);
        return false;
    }
    if (err == NULL && fresh != 0) {
        if (!take_http1(c, fresh, &rest))
            return false;
        http_tap_hold_back(c, rest);
        if (http_tap_spilling(c) && c->tap.state != TAP_CHUNKED) {
            http_tap_go_on_spilling(c);
            return false;
        }
    }
    if (!give(c, err) || !http_tap_in_place(c))
        return false;
    if (c->tap.scanned != 0)
        http_tap_shrink_head(c);
    return c->tap.state == TAP_LENGTH || c->tap.state == TAP_CHUNKED;
}

static void on_read(h2o_socket_t *sock, const char *err)
{
    struct http_conn *c = sock->on_close.data;
    size_t fresh = sock->bytes_read;
    enum tap_read got = TAP_READ_FULL;

    http_conn_wake(c);
    if (!c->tap.reads) {
        if (fresh == 0 && err == NULL && http_tap_spilling(c))
            return;
        (void)take(c, fresh, err);
        return;
    }
    if (http_tap_spilling(c) && c->tap.state != TAP_CHUNKED) {
        http_tap_go_on_spilling(c);
        return;
    }
    for (int i = 0; i < READS_PER_EVENT && got == TAP_READ_FULL; ++i) {
        got = http_tap_receive(c, &fresh, &err);
        if (got == TAP_READ_NOTHING || !take(c, fresh, err))
            return;
    }
}

void http_tap_read_on(struct http_conn *c)
{
    h2o_socket_read_start(c->sock, on_read);
}

/* ---- once a turn ---- */

/* What is held back comes before what is still to be read, so reading has to wait for it. */
static apart void put_off_reading(struct http_conn *c)
{
    struct http_server *s = c->server;

    h2o_socket_read_stop(c->sock);
    list_push_back(&s->holding, &c->tap.node);
    if (!list_linked(&s->tap_hand_on.node))
        loop_defer(s->loop, &s->tap_hand_on);
}

static void look(struct http_conn *c)
{
    if (c->tap.state == TAP_NONE || http_conn_is_closing(c))
        return;
    if (take_place(c)) {
        if (c->tap.held_at < c->tap.held.len)
            put_off_reading(c);
    } else if (!is_busy(c)) {
        list_push_back(&c->server->untapped, &c->tap.node);
    }
}

static void run_look(struct loop_deferred *d)
{
    struct http_server *s = container_of(d, struct http_server, tap_look);
    struct list now;
    struct list *node;

    if (list_empty(&s->untapped))
        return;
    list_init(&now);
    list_splice_back(&now, &s->untapped);
    while ((node = list_pop_front(&now)) != NULL)
        look(list_entry(node, struct http_conn, tap.node));
}

static void run_hand_on(struct loop_deferred *d)
{
    struct http_server *s = container_of(d, struct http_server, tap_hand_on);
    struct list now;
    struct list *node;

    list_init(&now);
    list_splice_back(&now, &s->holding);
    while ((node = list_pop_front(&now)) != NULL) {
        struct http_conn *c = list_entry(node, struct http_conn, tap.node);
        if (http_conn_is_closing(c))
            continue;
        http_tap_read_on(c);
        hand_on(c);
    }
}

void http_tap_start_server(struct http_server *s)
{
    list_init(&s->untapped);
    list_init(&s->holding);
    s->tap_look.run = run_look;
    s->tap_hand_on.run = run_hand_on;
    loop_before_wait(s->loop, &s->tap_look);
    http_tap_check_library(s->loop);
}

void http_tap_stop_server(struct http_server *s)
{
    list_remove(&s->tap_look.node);
    list_remove(&s->tap_hand_on.node);
}

/* ---- life ---- */

/* What came with the end of the handshake is held back until libh2o has set itself up. */
static bool serve(struct http_conn *c, bool http2)
{
    h2o_accept_ctx_t *accept = &c->listener->accept;
    struct timeval now = *h2o_get_timestamp(accept->ctx, NULL, NULL);
    h2o_socket_t *sock = c->sock;
    bool gone = false;

    if (sock->input->size != 0) {
        text_add(&c->tap.held, (struct slice){sock->input->bytes, sock->input->size});
        h2o_buffer_consume(&sock->input, sock->input->size);
    }
    c->http2 = http2;
    c->tap.state = http2 ? TAP_HTTP2 : TAP_HEAD;
    c->tap.gone = &gone;
    if (http2) {
        http_tap_begin_http2(c);
        h2o_http2_accept(accept, sock, now);
    } else {
        h2o_http1_accept(accept, sock, now);
    }
    if (gone)
        return false;
    c->tap.gone = NULL;
    c->tap.read = sock->_cb.read;
    ASSERT(c->tap.read != NULL);
    sock->_cb.read = on_read;
    c->tap.reads = !http2 && sock->ssl == NULL;
    h2o_socket_dont_read(sock, c->tap.reads);
    return true;
}

/* Bytes are there, for the first time or after a rest. What is TLS's is read by libh2o, now. */
static void on_first(h2o_socket_t *sock, const char *err)
{
    struct http_conn *c = sock->on_close.data;

    (void)err; /* nothing is read */
    http_conn_wake(c);
    if (serve(c, false) && c->tap.reads)
        on_read(sock, NULL);
}

/* Who says nothing costs no more than the socket. */
static void await_first(struct http_conn *c)
{
    h2o_socket_dont_read(c->sock, 1);
    h2o_socket_read_start(c->sock, on_first);
}

void http_tap_wait(struct http_conn *c)
{
    c->tap.state = TAP_RESTING;
    await_first(c);
}

static void on_handshake(h2o_socket_t *sock, const char *err)
{
    struct http_conn *c = sock->on_close.data;

    if (err != NULL && c->tls_failure == TLS_FAILURE_PLAIN_HTTP && c->listener->tells_plain) {
        http_plain_refuse(c);
        return;
    }
    if (err != NULL) {
        h2o_socket_close(sock);
        return;
    }
    h2o_iovec_t protocol = h2o_socket_ssl_get_selected_protocol(sock);

    if (serve(c, h2o_memis(protocol.base, protocol.len, H2O_STRLIT("h2"))))
        hand_on(c);
}

void http_tap_accept(struct http_conn *c)
{
    SSL_CTX *ssl = c->listener->accept.ssl_ctx;

    c->tap.state = TAP_NONE;
    if (ssl != NULL) {
        h2o_socket_ssl_handshake(c->sock, ssl, NULL, on_handshake);
    } else if (!c->listener->http2 && c->sock->input->size == 0) {
        await_first(c);
    } else if (serve(c, c->listener->http2)) {
        hand_on(c);
    }
}

void http_tap_fini(struct http_conn *c)
{
    struct http_tap *t = &c->tap;

    http_tap_fini_spill(c);
    http2_intake_destroy(t->http2);
    if (t->gone != NULL)
        *t->gone = true;
    list_remove(&t->node);
    text_fini(&t->held);
    if (t->refused != NULL)
        text_fini(&t->refused->answer);
    free(t->refused);
}
