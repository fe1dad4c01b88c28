/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow clients: those that send a body, or take a response, below the rates that are set, or take
 * nothing at all.
 *
 * What a client takes is what its kernel has acknowledged (http_conn_progress): what is in our
 * socket's buffer is not with the client. Of HTTP/2 this is the connection's, so that a stream that
 * has to wait for others, by the client's priorities, is not slow. But a stream that waits for the
 * client's windows alone waits for no other stream, and its own bytes count.
 */
#include "common/http/http_server_internal.h"

/* ---- nothing taken at all ---- */

/* A number that changes while the client takes this answer. */
static uint64_t send_progress(const struct http_reply *r)
{
    return r->req->stream != NULL && http2_waits_for_window(r) ? http2_sent_bytes(r)
                                                               : http_conn_progress(r->conn);
}

static void on_send_timer(struct timer *t)
{
    struct http_reply *r = container_of(t, struct http_reply, send_timer);
    struct http_server *s = r->conn->server;
    uint64_t progress = send_progress(r);
    bool stalled = r->watched_progress && progress == r->progress;

    r->watched_progress = true;
    r->progress = progress;
    if (!stalled) {
        timer_start(s->loop, t, s->options.send_timeout_ms);
        return;
    }
    http_server_count(s, COUNT_SEND_TIMEOUTS);
    http_conn_reset(r->conn);
}

void http_slow_init(struct http_reply *r)
{
    timer_init(&r->send_timer, on_send_timer);
    if (r->req->stream != NULL)
        pace_rest(&r->pace);
}

void http_slow_arm_timer(struct http_reply *r)
{
    uint64_t ms = r->conn->server->options.send_timeout_ms;

    r->watched_progress = false;
    if (ms != 0)
        timer_start(r->conn->server->loop, &r->send_timer, ms);
}

/* ---- too little taken ---- */

void http_slow_drained(struct http_reply *r)
{
    if (r->req->stream != NULL)
        pace_rest(&r->pace);
    pace_rest(&r->conn->send_pace);
}

static bool stream_too_slow(struct http_reply *r, uint64_t now_ms)
{
    const struct http_server_options *o = &r->conn->server->options;

    if (!r->in_flight || !http2_waits_for_window(r)) {
        pace_rest(&r->pace);
        return false;
    }
    return pace_too_slow(&r->pace, http2_sent_bytes(r), o->min_send_rate, o->min_send_rate_grace_ms,
                         now_ms);
}

void http_slow_sweep_send(struct http_conn *c, uint64_t now_ms)
{
    const struct http_server_options *o = &c->server->options;
    bool waits = false;
    bool slow = false;
    struct list *it;

    if (o->min_send_rate == 0)
        return;
    list_for_each (it, &c->replies) {
        struct http_reply *r = list_entry(it, struct http_reply, node);

        waits = waits || r->in_flight;
        slow = slow || (r->req->stream != NULL && stream_too_slow(r, now_ms));
    }
    if (!waits)
        pace_rest(&c->send_pace);
    else if (!slow)
        slow = pace_too_slow(&c->send_pace, http_conn_progress(c), o->min_send_rate,
                             o->min_send_rate_grace_ms, now_ms);
    if (!slow)
        return;
    http_server_count(c->server, COUNT_SLOW_READERS);
    http_conn_reset(c);
}

/* ---- too little sent ---- */

bool http_slow_body(struct http_conn *c, uint64_t now_ms)
{
    const struct http_server_options *o = &c->server->options;

    return pace_too_slow(&c->body_pace, c->received_bytes, o->min_body_rate,
                         o->min_body_rate_grace_ms, now_ms);
}
