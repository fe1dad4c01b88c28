/* SPDX-License-Identifier: Apache-2.0
 *
 * One answer's way to the client.
 *
 *     NEW -> HELD -> OPEN -> CLOSED     CLOSED: libh2o has the end, or there is nobody to send it
 * to | ^----+ ^     ^| |   withdraw   |+-- pump: waiting parts -> h2o_send -> on_proceed -> ...
 *      +--> TUNNEL
 *
 * HELD: all that is known stands in the request and waits a moment; nothing has gone out, so it can
 * still be taken back.
 *
 * libh2o's rules (each broken one kills the process): one h2o_send at a time, the bytes stay until
 * it asks for more, none after the final one, and after that the request may be gone before the
 * call returns. So there is one function that sends (pump), guarded by in_flight.
 *
 * HTTP/1: libh2o does not tell whether the final h2o_send succeeded. So all bytes, the last chunk
 * included, go out by sends that are not final, and an empty final one follows when they have been
 * taken: that one needs no system call. Most are never libh2o's: they are written by ourselves as
 * far as the socket takes them, and bodies may be moved from the worker's (http_reply_direct.c).
 * Of a request that goes past libh2o (http_short.c) what is left is written by that, and the end is
 * told to that; there is no h2o_send at all.
 * HTTP/2: the final send carries the last bytes, if there are any left (http2_end.c), and
 * req->bytes_sent tells at the end whether all were sent.
 *
 * over is the one end: gone() has been called, everything is released, and what the user still
 * calls does nothing. It comes from the destructor of the request's pool, from libh2o's stop, or
 * from us noticing that the client has left.
 */
#include "common/base/text.h"
#include "common/net/http_conn.h"

#include <h2o/http1.h>
#include <stdlib.h>

enum {
    REPLY_IOV_MAX = 64,
    /* One send: more would only put off drained(). At least one whole body, though. */
    REPLY_SEND_MAX = 256 * 1024,
    /* Vectors of our own around those: head, chunk's head; its end. */
    IOV_BEFORE = 2,
    IOV_AFTER = 1,
};

/* In the request's pool, whose end calls on_pool_cleared. */
struct reply_guard {
    struct http_reply *reply; /* NULL once that is over */
};

enum reply_state { REPLY_NEW, REPLY_HELD, REPLY_OPEN, REPLY_TUNNEL, REPLY_CLOSED };

static bool is_bodyless(const struct http_request *req)
{
    return req->res.status < 200 || req->res.status == 204 || req->res.status == 304 ||
           slice_is(req->method, "HEAD");
}

/* ---- the end ---- */

static void end_reply(struct http_reply *r, bool done)
{
    if (r->over)
        return;
    r->over = true;
    r->state = REPLY_CLOSED;
    if (r->guard != NULL)
        r->guard->reply = NULL; /* the pool may live on, while R need not */
    if (r->conn->http2) /* after the final send nobody asks for more, and a reset leaves a part */
        r->sent_bytes = r->req->library->bytes_sent;
    timer_stop(&r->send_timer);
    http_unhold(r);
    list_remove(&r->end_later.node);
    http1_bodies_release(&r->parts);
    http1_bodies_release(&r->sending);
    http_reply_drop_piece(r);
    r->queued_bytes = 0;
    list_remove(&r->node);
    http_conn_end(r->conn, done);
    r->events->gone(r->context, done);
}

static bool is_done(const struct http_reply *r)
{
    if (r->done || !r->conn->http2)
        return r->done;
    /* libh2o has the end; has the client's connection? */
    return r->last_in_flight && r->req->library->bytes_sent == r->handed_bytes;
}

void http_reply_lost(struct http_reply *r)
{
    end_reply(r, is_done(r));
}

static void on_pool_cleared(void *memory)
{
    const struct reply_guard *guard = memory;
    struct http_reply *r = guard->reply;

    if (r != NULL)
        http_reply_lost(r);
}

static void on_stop(h2o_generator_t *super, h2o_req_t *req)
{
    (void)req;
    end_reply(container_of(super, struct http_reply, super), false);
}

/* An answer that nobody will read, so that libh2o lets go of the request. Nothing of R after it. */
static void give_up(struct http_request *req)
{
    h2o_send_error_generic(req->library, 502, http_status_reason(502), "",
                           H2O_SEND_ERROR_HTTP1_CLOSE_CONNECTION);
}

void http_reply_client_left(struct http_reply *r)
{
    struct http_request *req = r->req;
    struct http_conn *c = r->conn;
    int fd = h2o_socket_get_fd(c->sock);
    bool started = r->state == REPLY_OPEN;

    http_conn_unwatch(c);
    /* A client that only closed its half gets nothing either; who leaves while we work says so. */
    shutdown(fd, SHUT_RDWR);
    c->cut = c->read_shut = true;
    if (r->in_flight || r->state == REPLY_TUNNEL || r->state == REPLY_CLOSED)
        return; /* it is being written: who writes finds out, or http_reply_proceed does */
    end_reply(r, false);
    if (c->brief != NULL)
        http_short_cut(c, h2o_iovec_init(NULL, 0));
    else if (started)
        h2o_send(req->library, NULL, 0, H2O_SEND_STATE_ERROR);
    else
        give_up(req);
}

/* ---- sending ---- */

static void pump(struct http_reply *r);

/* Move waiting bodies to SENDING, as many as one send may have. */
static size_t gather(struct http_reply *r, h2o_iovec_t *iov)
{
    size_t n = 0;
    size_t bytes = 0;

    while (list_linked(&r->parts) && bytes < REPLY_SEND_MAX) {
        struct http1_body *b = list_first(&r->parts, struct http1_body, node);
        if (n + b->nparts > REPLY_IOV_MAX)
            break;
        for (size_t i = 0; i < b->nparts; ++i)
            iov[n++] = h2o_iovec_init(b->parts[i].p, b->parts[i].len);
        bytes += b->bytes;
        list_remove(&b->node);
        list_push_back(&r->sending, &b->node);
    }
    r->handed_bytes += bytes;
    return n;
}

/* HTTP/1: all has been taken. Nothing of R after it. */
static void finish(struct http_reply *r)
{
    r->done = true;
    r->state = REPLY_CLOSED;
    if (r->conn->brief != NULL) {
        http_short_finish(r->conn);
        return;
    }
    http_conn_unwatch(r->conn);
    h2o_send(r->req->library, NULL, 0, H2O_SEND_STATE_FINAL);
}

/* What is queued has been taken, and the rest will not come. Nothing of R after it. */
static rare void send_cut(struct http_reply *r)
{
    bool ends_by_close = r->req->version < 0x101 && r->left_bytes == UINT64_MAX;
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    h2o_iovec_t head = {NULL, 0};

    r->state = REPLY_CLOSED;
    r->in_flight = true;
    if (!r->conn->http2)
        http_conn_unwatch(r->conn);
    /* Where the end of the connection is the end of the body, only a reset can tell. */
    if (ends_by_close)
        setsockopt(h2o_socket_get_fd(r->conn->sock), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    http_slow_arm_timer(r);
    if (r->conn->http2) {
        http2_end_send(r, !r->head_sent, H2O_SEND_STATE_ERROR);
        return;
    }
    if (!r->head_sent) {
        r->req->keep_alive = false;
        head = http_reply_write_head(r);
        http_reply_keep_piece(r, &head);
    }
    if (r->conn->brief != NULL) {
        http_short_cut(r->conn, head);
        return;
    }
    r->req->library->http1_is_persistent = r->req->keep_alive;
    h2o_send(r->req->library, &head, head.len != 0 ? 1 : 0, H2O_SEND_STATE_ERROR);
}

/* What was being sent is with the client's kernel. */
static void release_sent(struct http_reply *r)
{
    size_t bytes = r->joined_bytes + http1_bodies_bytes(&r->sending);

    r->queued_bytes -= bytes;
    r->sent_bytes += bytes;
    r->joined_bytes = 0;
    http1_bodies_release(&r->sending);
    if (r->queued_bytes == 0)
        http_slow_drained(r);
}

/*
 * The same without libh2o. The end of all is put off, as whoever called has the request in hand.
 */
static void sent_directly(struct http_reply *r, bool last)
{
    release_sent(r);
    if (!last)
        return;
    r->in_flight = true;
    r->last_in_flight = true;
    loop_defer(r->conn->server->loop, &r->end_later);
}

static void on_end_later(struct loop_deferred *d)
{
    struct http_reply *r = container_of(d, struct http_reply, end_later);

    r->in_flight = false;
    finish(r);
}

/* Of IOV's vectors N are the body's, with room for ours around them. */
static void send_http1(struct http_reply *r, h2o_iovec_t *iov, size_t n, bool last)
{
    bool ends = last && r->chunked; /* by a chunk of its own, if need be */
    bool head = !r->head_sent;

    if (n == 0 && !head && !ends) {
        if (last)
            sent_directly(r, true);
        return;
    }
    if (r->chunked)
        n = http_reply_frame_chunk(r, &iov, n, ends);
    if (head) {
        *--iov = http_reply_write_head(r);
        n = http_reply_join(r, iov, n + 1);
    }
    r->head_sent = true;
    bool sent = http_direct_write(r, &iov, &n);
    if (head && sent)
        http_reply_drop_piece(r);
    else if (head)
        http_reply_keep_piece(r, iov);
    if (sent) {
        sent_directly(r, last);
        return;
    }
    r->in_flight = true;
    r->last_in_flight = last;
    http_slow_arm_timer(r);
    if (r->conn->brief != NULL) {
        http_short_write(r, iov, n);
        return;
    }
    h2o_send(r->req->library, iov, n, H2O_SEND_STATE_IN_PROGRESS);
    if (head)
        http_reply_check_head(r->req->library);
}

static apart void send_http2(struct http_reply *r, h2o_iovec_t *iov, size_t n, bool last)
{
    h2o_send_state_t state = last ? H2O_SEND_STATE_FINAL : H2O_SEND_STATE_IN_PROGRESS;
    bool first = !r->head_sent;

    if (n == 0 && !first && !last)
        return;
    r->head_sent = true;
    r->in_flight = true;
    r->last_in_flight = last;
    if (last)
        r->state = REPLY_CLOSED;
    http_slow_arm_timer(r);
    if (n == 0 && last)
        http2_end_send(r, first, state);
    else if (first)
        http2_head_send(r, iov, n, state);
    else
        h2o_send(r->req->library, iov, n, state);
}

/* Send what may be sent at once. May be the end of R; whether there is more to send. */
static bool pump_once(struct http_reply *r)
{
    h2o_iovec_t room[IOV_BEFORE + REPLY_IOV_MAX + IOV_AFTER];
    h2o_iovec_t *iov = room + IOV_BEFORE;

    ASSERT(r->state == REPLY_OPEN);
    ASSERT(!r->in_flight);
    http_unhold(r);
    size_t n = gather(r, iov);
    if (n == 0 && r->abort_queued) {
        send_cut(r);
        return false;
    }
    bool more = list_linked(&r->parts);
    bool last = r->final_queued && !more;
    if (r->conn->http2)
        send_http2(r, iov, n, last);
    else
        send_http1(r, iov, n, last);
    /* Of R there may be nothing after the last. */
    return (more || (!last && n != 0 && r->abort_queued)) && !r->in_flight;
}

static void pump(struct http_reply *r)
{
    while (pump_once(r))
        continue;
}

void http_reply_proceed(struct http_reply *r)
{
    size_t before = r->queued_bytes;

    r->in_flight = false;
    timer_stop(&r->send_timer);
    release_sent(r);
    bool drained = r->queued_bytes < before && !r->final_queued && !r->abort_queued;
    if (r->last_in_flight) {
        finish(r);
    } else if (r->conn->cut && !r->conn->http2) {
        http_reply_client_left(r); /* all had been written when it left */
        return;
    } else {
        pump(r);
    }
    /* Had that been the end, one of the two would have been queued. */
    if (drained && r->events->drained != NULL)
        r->events->drained(r->context);
}

static void on_proceed(h2o_generator_t *super, h2o_req_t *req)
{
    (void)req;
    http_reply_proceed(container_of(super, struct http_reply, super));
}

static void decide_persistence(struct http_reply *r)
{
    struct http_request *req = r->req;
    bool ends_by_close =
        req->version < 0x101 && req->res.content_length == UINT64_MAX && !r->bodyless;

    if (ends_by_close || r->conn->server->draining)
        req->keep_alive = false;
}

/* RFC 9112 6.1: HTTP/1.1 answers without a known length come in chunks. */
static bool is_chunked(const struct http_reply *r)
{
    return r->req->version == 0x101 && r->req->res.content_length == UINT64_MAX && !r->bodyless;
}

bool http_reply_flows(const struct http_reply *r)
{
    return (r->state == REPLY_HELD || r->state == REPLY_OPEN) && !r->in_flight &&
           list_empty(&r->parts) && !r->final_queued && !r->abort_queued;
}

/* The answer begins for libh2o. Its head goes out with the next pump. */
static void open_reply(struct http_reply *r)
{
    decide_persistence(r);
    if (r->conn->brief == NULL) {
        http_library_answer(r->req);
        h2o_start_response(r->req->library, &r->super);
    }
    r->chunked = is_chunked(r);
    r->state = REPLY_OPEN;
}

void http_reply_flush(struct http_reply *r)
{
    if (r->state == REPLY_HELD)
        open_reply(r);
    pump(r);
}

/* ---- what the user calls ---- */

void http_reply_init(struct http_reply *r, struct http_request *req, struct http_conn *c,
                     const struct http_reply_events *e, void *context)
{
    memset(r, 0, offsetof(struct http_reply, super));
    r->req = req;
    r->conn = c;
    r->events = e;
    r->context = context;
    r->left_bytes = UINT64_MAX;
    r->state = REPLY_NEW;
    list_init(&r->parts);
    list_init(&r->sending);
    http_slow_init(r);
    r->end_later.run = on_end_later;
    if (c->brief == NULL) {
        r->super = (h2o_generator_t){.proceed = on_proceed, .stop = on_stop};
        r->guard = h2o_mem_alloc_shared(&req->library->pool, sizeof(*r->guard), on_pool_cleared);
        r->guard->reply = r;
    }
    list_push_back(&c->replies, &r->node);
    http_conn_begin(c);
    if (!c->http2)
        http_conn_watch(c);
}

void http_reply_keep_half_closed(struct http_reply *r)
{
    r->conn->keep_half = !r->conn->http2;
}

/* All but giving it to libh2o. */
static void prepare(struct http_reply *r, uint64_t content_length)
{
    struct http_request *req = r->req;

    ASSERT(r->state == REPLY_NEW);
    ASSERT(req->res.status >= 200);
    /* Some servers say "OK" whatever it is. */
    if (req->res.reason == NULL || (req->res.status != 200 && strcmp(req->res.reason, "OK") == 0))
        req->res.reason = http_status_reason(req->res.status);
    r->bodyless = is_bodyless(req);
    /* That of a 304 tells what it does not bring: clients of HTTP/2 have taken it for a fault. */
    bool untold = req->res.status == 204 || (req->res.status == 304 && r->conn->http2);
    bool announced = content_length != UINT64_MAX && !untold;
    req->res.content_length = announced ? content_length : UINT64_MAX;
    if (announced && !r->bodyless)
        r->left_bytes = content_length;
}

void http_reply_start(struct http_reply *r, uint64_t content_length)
{
    if (r->over)
        return;
    prepare(r, content_length);
    open_reply(r);
    http_hold(r, 0);
}

void http_reply_hold(struct http_reply *r, uint64_t content_length, uint64_t hold_ms)
{
    if (r->over)
        return;
    prepare(r, content_length);
    r->state = REPLY_HELD;
    http_hold(r, hold_ms);
}

bool http_reply_withdraw(struct http_reply *r)
{
    struct http_request *req = r->req;

    if (r->over || r->state != REPLY_HELD)
        return false;
    http_unhold(r);
    http1_bodies_release(&r->parts);
    r->queued_bytes = 0;
    r->left_bytes = UINT64_MAX;
    r->state = REPLY_NEW;
    req->res.status = 0;
    req->res.reason = NULL;
    req->res.content_length = UINT64_MAX;
    req->res.fields.n = 0;
    http_reply_drop_piece(r);
    return true;
}

static void queue_body(struct http_reply *r, struct http1_body *b)
{
    if (r->left_bytes != UINT64_MAX) {
        http1_body_clip(b, r->left_bytes);
        r->left_bytes -= b->bytes;
    }
    if (r->bodyless || b->bytes == 0) {
        http1_body_release(b);
        return;
    }
    /* What goes out with the head is copied behind that. */
    if (r->conn->http2 || r->head_sent || r->in_flight)
        b = http1_body_compact(b);
    list_push_back(&r->parts, &b->node);
    r->queued_bytes += b->bytes;
}

void http_reply_send(struct http_reply *r, struct http1_body *body, bool final)
{
    if (r->over) {
        http1_body_release(body);
        return;
    }
    ASSERT(r->state == REPLY_OPEN || r->state == REPLY_HELD);
    ASSERT(!r->final_queued);
    ASSERT(!r->abort_queued);
    if (body != NULL)
        queue_body(r, body);
    bool cut_short = final && r->left_bytes != 0 && r->left_bytes != UINT64_MAX;
    r->final_queued = final && !cut_short;
    r->abort_queued = cut_short;
    if (r->state == REPLY_HELD) {
        if (list_empty(&r->parts) && !r->final_queued && !r->abort_queued)
            return;
        open_reply(r);
    }
    if (!r->in_flight)
        pump(r);
}

void http_reply_abort(struct http_reply *r)
{
    if (r->over || r->final_queued || r->abort_queued)
        return;
    (void)http_reply_withdraw(r);
    if (r->state == REPLY_NEW) {
        r->req->keep_alive = false;
        http_reply_simple(r, 502, "text/plain; charset=utf-8", SLICE_LIT("Bad Gateway\n"));
        return;
    }
    ASSERT(r->state == REPLY_OPEN);
    r->abort_queued = true;
    if (!r->in_flight)
        pump(r);
}

void http_reply_simple(struct http_reply *r, int status, const char *content_type,
                       struct slice body)
{
    struct http_request *req = r->req;

    if (r->over)
        return;
    req->res.status = status;
    req->res.reason = http_status_reason(status);
    http_request_answer(req, "Content-Type", slice_of(content_type));
    http_reply_start(r, body.len);
    http_reply_send(r, http1_body_copy(body), true);
}

void http_reply_tunnel(struct http_reply *r, const struct http1_upgraded *worker,
                       uint64_t idle_timeout_ms, const struct http_tunnel_end *end)
{
    struct http_tunnel *t = http_tunnel_create(r->conn->server, worker, idle_timeout_ms, end);

    if (r->over) {
        http_tunnel_start(t, NULL, 0);
        return;
    }
    ASSERT(r->state == REPLY_NEW);
    ASSERT(!r->conn->http2);
    ASSERT(r->conn->brief == NULL); /* it has not asked for one */
    r->state = REPLY_TUNNEL;
    r->done = true;
    r->conn->tunnelled = true;
    http_conn_unwatch(r->conn);
    r->req->res.status = 101;
    r->req->res.reason = http_status_reason(101);
    http_library_answer(r->req);
    http_slow_arm_timer(r);
    h2o_http1_upgrade(r->req->library, NULL, 0, http_tunnel_start, t);
}
