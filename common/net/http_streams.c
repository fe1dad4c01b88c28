/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow bodies of HTTP/2: libh2o shows us a request when it is complete, so that a body on its way
 * is followed here, by the frames that the tap sees.
 *
 * A stream whose body is too slow is reset, and the connection's others go on: libh2o is shown a
 * WINDOW_UPDATE of nothing for it, which is an error of that stream alone, so it says RST_STREAM
 * and forgets it. In the middle of a frame nothing can be put in between; the connection of a
 * client who stays there is cut.
 */
#include "common/net/http_conn.h"

static void report(struct http_conn *c, enum request_fault f)
{
    const struct http_refusal r = {.conn = c, .fault = f, .version = 0x200};

    if (f == FAULT_BODY_TIMEOUT)
        http_server_count(c->server, COUNT_BODY_TIMEOUTS);
    http_server_refused(c->server, &r);
}

/* The connection may go. */
static void reset(struct http_conn *c, uint32_t stream)
{
    char frame[] = "\0\0\4\10\0iiii\0\0\0"; /* and a 0 */

    for (int i = 0; i < 4; ++i)
        frame[5 + i] = (char)(stream >> (24 - 8 * i));
    http_tap_inject(c, (struct slice){frame, sizeof(frame)});
}

static enum request_fault fault_of(const struct http_conn *c, struct http2_upload *u,
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
static bool refuse(struct http_conn *c, size_t i, enum request_fault f, uint64_t now_ms)
{
    struct http2_uploads *u = &c->uploads;
    struct http2_upload *up = &u->items[i];
    uint32_t stream = up->stream;

    if (http2_uploads_between_frames(u) && c->sock->input->size == 0) {
        http2_uploads_drop(u, i);
        report(c, f);
        reset(c, stream);
        return true;
    }
    if (up->due_ms == 0)
        up->due_ms = now_ms + c->server->options.min_body_rate_grace_ms;
    if (now_ms < up->due_ms)
        return false;
    report(c, f);
    http_conn_cut(c);
    return true;
}

void http_streams_follow(struct http_conn *c, struct slice fresh)
{
    http2_uploads_follow(&c->uploads, fresh, loop_now_ms(c->server->loop));
}

void http_streams_sweep(struct http_conn *c, uint64_t now_ms)
{
    struct http2_uploads *u = &c->uploads;

    if (u->n == 0)
        http2_uploads_fini(u);
    if (c->cut || c->tap.state != TAP_HTTP2)
        return;
    /* One a sweep is reset: with it the connection may go. */
    for (size_t i = 0; i < u->n; ++i) {
        enum request_fault f =
            u->items[i].due_ms != 0 ? FAULT_BODY_RATE : fault_of(c, &u->items[i], now_ms);

        if (f != FAULT_NONE && refuse(c, i, f, now_ms))
            return;
    }
}

bool http_stream_waits_for_window(const struct http_reply *r)
{
    return r->req->bytes_sent != r->handed_bytes && !h2o_socket_is_writing(r->conn->sock);
}
