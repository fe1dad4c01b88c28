/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow bodies of HTTP/2: libh2o shows us a request when it is complete, so that a body on its way
 * is followed here, by the streams that the tap knows.
 *
 * A stream whose body is too slow is reset, and the connection's others go on. In the middle of a
 * DATA frame that libh2o has a part of nothing can be put in between; the connection of a client
 * who stays there is cut.
 */
#include "common/net/http_conn.h"

static void report(struct http_conn *c, enum request_fault f)
{
    const struct http_refusal r = {.conn = c, .fault = f, .version = 0x200};

    if (f == FAULT_BODY_TIMEOUT)
        http_server_count(c->server, COUNT_BODY_TIMEOUTS);
    http_server_refused(c->server, &r);
}

static enum request_fault fault_of(const struct http_conn *c, struct http2_stream *u,
                                   uint64_t now_ms)
{
    const struct http_server_options *o = &c->server->options;

    if (o->body_timeout_ms != 0 && now_ms - u->begun_ms >= o->body_timeout_ms)
        return FAULT_BODY_TIMEOUT;
    if (pace_too_slow(&u->pace, u->bytes, o->min_body_rate, o->min_body_rate_grace_ms, now_ms))
        return FAULT_BODY_RATE;
    return FAULT_NONE;
}

/* True: the connection is no longer to be looked at. */
static bool refuse(struct http_conn *c, struct http2_stream *s, enum request_fault f,
                   uint64_t now_ms)
{
    if (http_tap_may_inject_http2(c)) {
        report(c, f);
        http_tap_reset_http2(c, s);
        return true;
    }
    if (s->due_ms == 0)
        s->due_ms = now_ms + c->server->options.min_body_rate_grace_ms;
    if (now_ms < s->due_ms)
        return false;
    report(c, f);
    http_conn_cut(c);
    return true;
}

void http_streams_sweep(struct http_conn *c, uint64_t now_ms)
{
    if (c->cut || c->tap.state != TAP_HTTP2)
        return;
    struct http2_streams *streams = &c->tap.http2->streams;
    /* One a sweep is reset: with it the connection may go. */
    for (size_t i = 0; i < streams->nopen; ++i) {
        struct http2_stream *s = &streams->open[i];

        if (!http2_streams_waited_for(streams, s))
            continue;
        enum request_fault f = s->due_ms != 0 ? FAULT_BODY_RATE : fault_of(c, s, now_ms);
        if (f != FAULT_NONE && refuse(c, s, f, now_ms))
            return;
    }
}

bool http_stream_waits_for_window(const struct http_reply *r)
{
    return r->req->library->bytes_sent != r->handed_bytes && !h2o_socket_is_writing(r->conn->sock);
}
