/* SPDX-License-Identifier: Apache-2.0
 *
 * A response while it is sent to the client.
 *
 *     NEW -> HELD -> OPEN -> CLOSED
 *
 * HELD: the head is in the request and waits a moment; nothing has been sent, so it can still be
 * withdrawn, back to NEW. CLOSED: the protocol has the end, or the client has disconnected.
 *
 * The protocols: http1_server_send and http2_send get some of the body, and the head with the
 * first. If they cannot take all of it, the bytes stay until http_response_proceed; there is one
 * send at a time. After the last one comes http_response_finished, never inside the send. There is
 * one function that sends (pump), guarded by in_flight.
 *
 * `over` is the only end: all is released, gone() has been called, and further calls of the user do
 * nothing. It comes from http_response_finished or http_response_lost, or when a tunnel starts.
 */
#include "common/base/text.h"
#include "common/http/http_server_internal.h"
#include "common/net/body_piece.h"

enum {
    RESPONSE_IOV_MAX = 64,
    /* Of one send, which has at least one whole body; a larger one would only delay drained(). */
    RESPONSE_SEND_MAX = 256 * 1024,
    /* Vectors of http1_server_send's around those: interim head, head, chunk's head; its end. */
    IOV_BEFORE = 3,
    IOV_AFTER = 1,
};

enum response_state { RESPONSE_NEW, RESPONSE_HELD, RESPONSE_OPEN, RESPONSE_CLOSED };

static bool is_http2(const struct http_response *r)
{
    return r->req->stream != NULL;
}

/* ---- clients that are slow ---- */

/*
 * Those that take a response below the rate that is set, or nothing at all. What a client takes is
 * what its kernel has acknowledged (http_conn_progress): what is in our socket's buffer is not with
 * the client. Of HTTP/2 this is the connection's, so that a stream that has to wait for others, by
 * the client's priorities, is not slow. But of a stream that waits for its window alone, its own
 * bytes count, and of one that waits for the connection's window, the bytes of all responses.
 */

/* Checks the progress four times in send_timeout, which is exceeded by a quarter at most. */
static void start_send_timer(struct http_response *r)
{
    struct http_server *s = r->conn->server;

    timer_start(s->loop, &r->send_timer, s->options.send_timeout_ms / 4 + 1);
}

static void on_send_timer(struct timer *t)
{
    struct http_response *r = container_of(t, struct http_response, send_timer);
    struct http_server *s = r->conn->server;
    uint64_t progress;

    if (!is_http2(r) || !http2_waits_for_window(r, &progress))
        progress = http_conn_progress(r->conn);
    if (!pace_stalled(&r->stall, progress, s->options.send_timeout_ms, loop_active_ms(s->loop))) {
        start_send_timer(r);
        return;
    }
    http_server_count(&s->counts.send_timeouts);
    http_conn_reset(r->conn);
}

/* Bytes wait for the client. */
static void arm_send_timer(struct http_response *r)
{
    pace_reset(&r->stall);
    if (r->conn->server->options.send_timeout_ms != 0)
        start_send_timer(r);
}

void http_response_sweep(struct http_conn *c, uint64_t now_ms)
{
    const struct http_server_options *o = &c->server->options;
    bool waits = false;
    bool slow = false;
    uint64_t sent;
    struct http_response *r;

    if (o->min_send_rate == 0)
        return;
    list_for_each_entry (r, &c->responses, node) {
        waits = waits || r->in_flight;
        if (slow || !is_http2(r))
            continue;
        if (r->in_flight && http2_waits_for_window(r, &sent))
            slow =
                pace_too_slow(&r->pace, sent, o->min_send_rate, o->min_send_rate_grace_ms, now_ms);
        else
            pace_reset(&r->pace);
    }
    /* The queue of a unix socket does not measure what its peer has read: it is always full while
     * a client reads steadily. */
    bool measured = c->listener->local.sa.sa_family != AF_UNIX;
    if (!waits)
        pace_reset(&c->send_pace);
    else if (!slow && measured)
        slow = pace_too_slow(&c->send_pace, http_conn_progress(c), o->min_send_rate,
                             o->min_send_rate_grace_ms, now_ms);
    if (!slow)
        return;
    http_server_count(&c->server->counts.slow_readers);
    http_conn_reset(c);
}

/* ---- the end ---- */

static void end_response(struct http_response *r, bool done)
{
    struct http_server *s = r->conn->server;

    if (r->over)
        return;
    /* One that leaves while it receives the response has been served like any other. */
    bool unserved = !done && r->state == RESPONSE_NEW;
    r->over = true;
    r->state = RESPONSE_CLOSED;
    if (is_http2(r)) /* a reset leaves a part */
        r->sent_bytes = http2_sent_bytes(r);
    timer_stop(&r->send_timer);
    list_remove(&r->held_node);
    body_pieces_release(&r->parts);
    body_pieces_release(&r->sending);
    http1_server_drop_piece(r);
    r->queued_bytes = 0;
    list_remove(&r->node);
    --s->nrequests;
    http_server_load_changed(s);
    r->conn->abandoned += unserved;
    if (!done)
        http_server_count(&s->counts.abandoned);
    r->events->gone(r->context, done);
}

void http_response_lost(struct http_response *r)
{
    end_response(r, false);
}

/* ---- sending ---- */

/* The data in transit has been sent. */
static void release_sent(struct http_response *r)
{
    size_t bytes = r->joined_bytes + body_pieces_bytes(&r->sending);

    r->queued_bytes -= bytes;
    r->sent_bytes += bytes;
    r->joined_bytes = 0;
    body_pieces_release(&r->sending);
    if (r->queued_bytes != 0)
        return;
    if (is_http2(r))
        pace_reset(&r->pace);
    pace_reset(&r->conn->send_pace);
}

void http_response_finished(struct http_response *r)
{
    struct http_conn *c = r->conn;
    bool http2 = is_http2(r);

    release_sent(r);
    end_response(r, true);
    if (!http2 && !http_conn_is_closed(c))
        http1_server_finish(c);
}

/* Starts one send. Returns whether another one can follow at once. May end R. */
static bool pump_once(struct http_response *r)
{
    struct iovec room[IOV_BEFORE + RESPONSE_IOV_MAX + IOV_AFTER];
    struct iovec *iov = room + IOV_BEFORE;
    size_t n = 0;
    size_t bytes = 0;

    ASSERT(r->state == RESPONSE_OPEN);
    ASSERT(!r->in_flight);
    list_remove(&r->held_node);
    while (list_linked(&r->parts) && bytes < RESPONSE_SEND_MAX) {
        struct body_piece *b = list_first(&r->parts, struct body_piece, node);
        if (n + b->nparts > RESPONSE_IOV_MAX)
            break;
        for (size_t i = 0; i < b->nparts; ++i)
            iov[n++] = (struct iovec){writable_bytes(b->parts[i].p), b->parts[i].len};
        bytes += b->bytes;
        list_remove(&b->node);
        list_push_back(&r->sending, &b->node);
    }
    if (n == 0 && r->abort_queued) {
        r->state = RESPONSE_CLOSED;
        r->in_flight = true;
        arm_send_timer(r);
        if (is_http2(r))
            http2_cut(r);
        else
            http1_server_cut(r);
        return false;
    }
    bool more = list_linked(&r->parts);
    bool last = r->final_queued && !more;
    if (n == 0 && r->head_sent && !last)
        return false;
    if (last)
        r->state = RESPONSE_CLOSED;
    bool taken = is_http2(r) ? http2_send(r, iov, n, last) : http1_server_send(r, iov, n, last);
    r->head_sent = true;
    if (taken)
        release_sent(r);
    r->in_flight = !taken || last;
    if (!taken)
        arm_send_timer(r);
    return !r->in_flight && (more || r->abort_queued);
}

static void pump_body(struct http_response *r)
{
    while (pump_once(r))
        continue;
}

void http_response_proceed(struct http_response *r)
{
    size_t before = r->queued_bytes;

    r->in_flight = false;
    timer_stop(&r->send_timer);
    release_sent(r);
    bool drained = r->queued_bytes < before && !r->final_queued && !r->abort_queued;
    pump_body(r);
    /* R is not over: only a queued final or abort can end it in pump_body(). */
    if (drained && r->events->drained != NULL)
        r->events->drained(r->context);
}

bool http_response_flows(const struct http_response *r)
{
    return (r->state == RESPONSE_HELD || r->state == RESPONSE_OPEN) && !r->in_flight &&
           list_empty(&r->parts) && !r->final_queued && !r->abort_queued;
}

/* Its head goes out with the next pump. */
static void open_response(struct http_response *r)
{
    struct http_request *req = r->req;
    bool endless = req->res.content_length == UINT64_MAX && !r->bodyless;

    /* RFC 9112 6.1: HTTP/1.1 responses without a known length come in chunks. */
    r->chunked = endless && req->version == 0x101;
    if ((endless && req->version < 0x101) || r->conn->server->draining)
        req->keep_alive = false;
    r->state = RESPONSE_OPEN;
}

void http_response_flush(struct http_response *r)
{
    if (r->state == RESPONSE_HELD)
        open_response(r);
    pump_body(r);
}

/* ---- what the user calls ---- */

void http_response_init(struct http_response *r, struct http_request *req, struct http_conn *c,
                        const struct http_response_events *e, void *context)
{
    memset(r, 0, offsetof(struct http_response, stall));
    r->req = req;
    req->response = r;
    r->conn = c;
    r->events = e;
    r->context = context;
    r->left_bytes = UINT64_MAX;
    r->state = RESPONSE_NEW;
    list_init(&r->parts);
    list_init(&r->sending);
    timer_init(&r->send_timer, on_send_timer);
    if (is_http2(r))
        pace_reset(&r->pace);
    list_push_back(&c->responses, &r->node);
    ++c->requests;
    ++c->server->nrequests;
    http_server_load_changed(c->server);
}

void http_response_allow_half_close(struct http_response *r)
{
    r->conn->half_close_allowed = !is_http2(r);
}

/* The contents of the head. */
static void prepare_head(struct http_response *r, uint64_t content_length)
{
    struct http_request *req = r->req;

    ASSERT(r->state == RESPONSE_NEW);
    ASSERT(req->res.status >= 200);
    /* Some servers send "OK" with any status. */
    if (req->res.reason == NULL || (req->res.status != 200 && strcmp(req->res.reason, "OK") == 0))
        req->res.reason = http_status_reason(req->res.status);
    r->bodyless = req->res.status < 200 || req->res.status == 204 || req->res.status == 304 ||
                  slice_is(req->method, "HEAD");
    /* The length of a 304 describes a body that is not sent: some HTTP/2 clients reject it. */
    bool omitted = req->res.status == 204 || (req->res.status == 304 && is_http2(r));
    bool announced = content_length != UINT64_MAX && !omitted;
    req->res.content_length = announced ? content_length : UINT64_MAX;
    if (announced && !r->bodyless)
        r->left_bytes = content_length;
}

void http_response_hold(struct http_response *r, uint64_t content_length, uint64_t hold_ms)
{
    if (r->over)
        return;
    prepare_head(r, content_length);
    if (hold_ms != 0)
        r->state = RESPONSE_HELD;
    else
        open_response(r);
    http_schedule_flush(r, hold_ms);
}

bool http_response_withdraw(struct http_response *r)
{
    struct http_request *req = r->req;

    if (r->over || r->state != RESPONSE_HELD)
        return false;
    list_remove(&r->held_node);
    body_pieces_release(&r->parts);
    r->queued_bytes = 0;
    r->left_bytes = UINT64_MAX;
    r->state = RESPONSE_NEW;
    req->res.status = 0;
    req->res.reason = NULL;
    req->res.content_length = UINT64_MAX;
    req->res.fields.n = 0;
    http1_server_drop_piece(r);
    return true;
}

void http_response_send(struct http_response *r, struct body_piece *body, bool final)
{
    if (r->over) {
        body_piece_release(body);
        return;
    }
    ASSERT(r->state == RESPONSE_OPEN || r->state == RESPONSE_HELD);
    ASSERT(!r->final_queued);
    ASSERT(!r->abort_queued);
    if (body != NULL && r->left_bytes != UINT64_MAX) {
        body_piece_clip(body, r->left_bytes);
        r->left_bytes -= body->bytes;
    }
    if (body == NULL || r->bodyless || body->bytes == 0) {
        body_piece_release(body);
    } else {
        /* Data sent with the head is copied after it. */
        if (is_http2(r) || r->head_sent || r->in_flight)
            body = body_piece_compact(body);
        list_push_back(&r->parts, &body->node);
        r->queued_bytes += body->bytes;
    }
    bool cut_short = final && r->left_bytes != 0 && r->left_bytes != UINT64_MAX;
    r->final_queued = final && !cut_short;
    r->abort_queued = cut_short;
    if (r->state == RESPONSE_HELD) {
        if (list_empty(&r->parts) && !r->final_queued && !r->abort_queued)
            return;
        open_response(r);
    }
    if (!r->in_flight)
        pump_body(r);
}

void http_response_abort(struct http_response *r)
{
    if (r->over || r->final_queued || r->abort_queued)
        return;
    (void)http_response_withdraw(r);
    if (r->state == RESPONSE_NEW) {
        r->req->keep_alive = false;
        http_response_simple(r, 502, "text/plain; charset=utf-8", SLICE_LIT("Bad Gateway\n"));
        return;
    }
    ASSERT(r->state == RESPONSE_OPEN);
    r->abort_queued = true;
    if (!r->in_flight)
        pump_body(r);
}

void http_response_cut(struct http_response *r)
{
    http_response_abort(r);
    if (r->over || r->state != RESPONSE_OPEN)
        return;
    body_pieces_release(&r->parts);
    r->queued_bytes = r->joined_bytes + body_pieces_bytes(&r->sending);
    r->state = RESPONSE_CLOSED;
    if (is_http2(r))
        http2_cut(r);
    else
        http1_server_cut(r);
}

void http_response_drop_body(struct http_response *r)
{
    if (r->over)
        return;
    r->req->body = SLICE_NULL;
    r->req->body_file = NULL;
    body_sink_fini(r->req->sink, &r->conn->server->body_bin);
}

void http_response_simple(struct http_response *r, int status, const char *content_type,
                          struct slice body)
{
    struct http_request *req = r->req;

    if (r->over)
        return;
    req->res.status = status;
    req->res.reason = http_status_reason(status);
    http_request_add_response(req, "Content-Type", slice_of(content_type));
    http_response_start(r, body.len);
    http_response_send(r, body_piece_copy(body), true);
}

void http_response_tunnel(struct http_response *r, const struct upgraded_transport *worker,
                          uint64_t idle_timeout_ms, const struct http_tunnel_end *end)
{
    struct http_server *s = r->conn->server;

    if (r->over) {
        http_tunnel_start(s, NULL, NULL, worker, idle_timeout_ms, end);
        return;
    }
    ASSERT(r->state == RESPONSE_NEW);
    ASSERT(!is_http2(r));
    r->req->res.status = 101;
    r->req->res.reason = http_status_reason(101);
    struct http_tunnel_bytes early = http1_server_upgrade(r);
    struct http_conn *c = r->conn;
    end_response(r, true);
    http1_server_fini(c);
    http_tunnel_start(s, c, &early, worker, idle_timeout_ms, end);
}
