/* SPDX-License-Identifier: Apache-2.0
 *
 * An HTTP/2 connection: reading, rates of frames, settings, time limits, and GOAWAY. See
 * http2_stream.h for the parts.
 *
 * It ends in one of four ways:
 *     an error of the client's    GOAWAY with a code, http2_end()
 *     idle, or no more streams    GOAWAY without an error, the same
 *     the client closes, or the transport fails: http_conn_close()
 *     the server closes it        http2_fini()
 */
#include "common/base/bytes.h"
#include "common/http/http2_stream.h"

#include <stdlib.h>

enum {
    /* Per second and connection, where no client has a reason to come near. */
    SETTINGS_MAX = 50,
    EMPTY_DATA_MAX = 100,
    CONTINUATION_MAX = 500,
    BLOCK_FRAMES_MAX = 32,
    /* A head not far above the limits gets a response, and the connection stays open. */
    SIZE_FACTOR = 2,
    LIST_MAX = 1024 * 1024,
    /* Between the two GOAWAYs of a drain: a round trip, for requests in flight. */
    GOAWAY_MS = 1000,
    GOAWAY_ALL = INT32_MAX,
};

/* ---- phases ---- */

/* PING, SETTINGS and such do not make an idle connection live longer. */
static void update_phase(struct http2_server *h2)
{
    static const enum conn_phase phases[] = {[HTTP2_PHASE_PREFACE] = PHASE_NEW,
                                             [HTTP2_PHASE_IDLE] = PHASE_IDLE,
                                             [HTTP2_PHASE_BLOCK] = PHASE_HEAD,
                                             [HTTP2_PHASE_FRAME] = PHASE_HEAD};
    struct http_conn *c = h2->conn;
    enum conn_phase before = c->phase;
    enum http2_phase input = http2_reader_phase(h2->reader);
    enum conn_phase phase = h2->nstreams != 0 ? PHASE_BUSY : phases[input];
    uint32_t last = http2_reader_last_stream(h2->reader);

    /* Since when the present header block, or a frame of an idle connection, is incomplete. */
    if (phase != PHASE_HEAD && input != HTTP2_PHASE_BLOCK)
        h2->head_since_ms = 0;
    else if (h2->head_since_ms == 0 || h2->head_after != last)
        h2->head_since_ms = loop_active_ms(h2->conn->server->loop);
    h2->head_after = last;
    if (phase == before)
        return;
    http_conn_enter(c, phase);
    if (phase != PHASE_IDLE)
        return;
    if (before == PHASE_HEAD && h2->idle_since_ms != 0)
        c->phase_since_ms = h2->idle_since_ms;
    h2->idle_since_ms = c->phase_since_ms;
    /* Memory is released. */
    if (http2_unsent(h2) == 0) {
        text_fini(&h2->out);
        h2->out = (struct text){0};
        h2->out_at = 0;
    }
    if (h2->tree != NULL)
        priority_tree_trim(h2->tree);
}

/* ---- life ---- */

static void http2_destroy(struct http2_server *h2)
{
    http2_reader_destroy(h2->reader);
    hpack_encoder_fini(&h2->encoder);
    priority_tree_destroy(h2->tree);
    http2_urgency_destroy(h2->urgency);
    text_fini(&h2->out);
    free(h2->resets);
    free(h2);
}

void http2_leave(struct http2_server *h2)
{
    if (--h2->depth != 0)
        return;
    if (h2->closed)
        http2_destroy(h2);
    else
        update_phase(h2);
}

void http2_fini(struct http_conn *c)
{
    struct http2_server *h2 = c->http2;

    c->http2 = NULL;
    h2->closed = true;
    list_remove(&h2->flush.node);
    ++h2->depth;
    while (list_linked(&h2->streams))
        http2_stream_destroy(list_first(&h2->streams, struct http2_stream, node), true);
    if (--h2->depth == 0)
        http2_destroy(h2);
}

/* With GOAWAY, after what is in the output; the client can still read that. */
static void http2_end(struct http2_server *h2, enum http2_error code)
{
    struct http_conn *c = h2->conn;
    struct text rest = {0};

    if (h2->closed)
        return;
    if (http2_reader_has_preface(h2->reader) && (!h2->closing || code != HTTP2_ERROR_NONE))
        http2_put_goaway(h2, h2->last_id, code);
    if (http2_unsent(h2) != 0)
        text_add(&rest, (struct slice){h2->out.p + h2->out_at, http2_unsent(h2)});
    transport_await_writable(&c->transport, NULL);
    http2_fini(c);
    http_conn_linger(c, &rest);
}

void http2_end_idle(struct http_conn *c)
{
    http2_end(c->http2, HTTP2_ERROR_NONE);
}

void http2_end_if_done(struct http2_server *h2)
{
    if (h2->closing && !h2->closed && h2->nstreams == 0 && http2_unsent(h2) == 0)
        http2_end(h2, HTTP2_ERROR_NONE);
}

/* ---- faults ---- */

static cold_ void http2_fail(struct http2_server *h2, enum request_fault f)
{
    if (h2->closed)
        return;
    http_server_rejected(h2->conn, f, 0, NULL);
    http2_end(h2, http2_error_of(f));
}

/*
 * A client that abandons so many requests, and most of them, wears the server out on purpose,
 * whichever side resets their streams (CVE-2023-44487, CVE-2025-8671).
 */
void http2_count_abandoned(struct http2_server *h2)
{
    const struct http_conn *c = h2->conn;
    uint32_t max = c->server->options.http2_abandoned;

    if (h2->closed || max == 0 || c->abandoned < max || c->abandoned <= c->requests / 2)
        return;
    http_server_count(&c->server->counts.resets);
    http2_fail(h2, FAULT_FRAMES_ABANDONED);
}

/* ---- events of the reader that are about the connection ---- */

static enum request_fault on_frame(void *owner, const struct http2_frame_head *h)
{
    struct http2_server *h2 = owner;
    uint64_t now_ms = loop_now_ms(h2->conn->server->loop);

    if (h2->closed) /* by an event before: the rest of the input is not read */
        return FAULT_HTTP2_CLOSED;
    if (h2->conn->server->draining)
        http2_drain(h2->conn, false);
    if (h->type == TYPE_WINDOW_UPDATE && h2->updates != 0) {
        --h2->updates;
        return FAULT_NONE;
    }
    enum request_fault f =
        http2_meter_count(&h2->meter, h2->per_second, h->type, h->flags, h->len, now_ms);
    if (f != FAULT_NONE || http2_unsent(h2) < HTTP2_UNREAD_MAX)
        return f;
    /* Frames that require a response, from a client that does not read it. */
    switch (h->type) {
    case TYPE_PING:
        return FAULT_FRAMES_PING;
    case TYPE_SETTINGS:
        return FAULT_FRAMES_SETTINGS;
    case TYPE_HEADERS:
        return FAULT_FRAMES_STREAMS;
    default:
        return FAULT_NONE;
    }
}

static enum request_fault on_window(void *owner, uint32_t id, uint32_t amount)
{
    struct http2_server *h2 = owner;

    if (id == 0)
        return http2_grow_window(h2, NULL, amount) ? FAULT_NONE : FAULT_HTTP2_WINDOW;
    struct http2_stream *s = http2_find(h2, id);
    return s == NULL || http2_grow_window(h2, s, amount) ? FAULT_NONE : http2_on_overflow(s);
}

static enum request_fault on_setting(void *owner, unsigned id, uint32_t value)
{
    struct http2_server *h2 = owner;
    struct http2_stream *s;

    if (id == HTTP2_SETTING_HEADER_TABLE) {
        if (!h2->table_reported || value < h2->table_lowest)
            h2->table_lowest = value;
        h2->table_last = value;
        h2->table_reported = true;
    } else if (id == HTTP2_SETTING_NO_RFC7540_PRIORITIES && value == 1) {
        http2_use_urgency(h2);
    } else if (id == HTTP2_SETTING_INITIAL_WINDOW) {
        int64_t more = (int64_t)value - h2->initial_window;

        h2->initial_window = value;
        list_for_each_entry (s, &h2->streams, node) {
            if (!http2_grow_window(h2, s, more))
                return FAULT_HTTP2_WINDOW;
        }
    }
    return FAULT_NONE;
}

static enum request_fault on_settings_end(void *owner)
{
    struct http2_server *h2 = owner;

    (void)http2_put_frame(h2, 0, TYPE_SETTINGS, FLAG_ACK, 0);
    if (h2->table_reported) {
        hpack_encoder_limit(&h2->encoder, h2->table_lowest);
        hpack_encoder_limit(&h2->encoder, h2->table_last);
    }
    h2->table_reported = false;
    return FAULT_NONE;
}

static enum request_fault on_ping(void *owner, struct slice payload, bool ack)
{
    if (!ack)
        (void)put_slice(http2_put_frame(owner, payload.len, TYPE_PING, FLAG_ACK, 0), payload);
    return FAULT_NONE;
}

static const struct http2_events events = {
    .side = http2_on_side,
    .frame = on_frame,
    .request = http2_on_request,
    .malformed = http2_on_malformed,
    .data = http2_on_data,
    .trailers = http2_on_trailers,
    .reset = http2_on_reset,
    .window = on_window,
    .setting = on_setting,
    .settings_end = on_settings_end,
    .ping = on_ping,
    .priority = http2_on_priority,
    .priority_update = http2_on_priority_update,
};

/* ---- limits ---- */

static uint32_t or_none(uint32_t limit)
{
    return limit != 0 ? limit : UINT32_MAX;
}

/* As the options are now. */
static void set_limits(struct http2_server *h2)
{
    const struct http_server_options *o = &h2->conn->server->options;
    size_t bytes = o->max.head_bytes != 0 ? o->max.head_bytes : REQUEST_HEAD_MAX;

    bytes = bytes < LIST_MAX / SIZE_FACTOR ? SIZE_FACTOR * bytes : LIST_MAX;
    h2->limits = (struct http2_reader_limits){
        .block_frames = BLOCK_FRAMES_MAX,
        .block_bytes = bytes,
        /* Cookies may come in any number of fields; each counts for so many bytes at least. */
        .list = {.list_bytes = bytes, .fields = bytes / HPACK_FIELD_OVERHEAD},
    };
    h2->per_second[TYPE_PING] = or_none(o->http2_pings);
    h2->per_second[TYPE_SETTINGS] = SETTINGS_MAX;
    h2->per_second[TYPE_DATA] = EMPTY_DATA_MAX;
    h2->per_second[TYPE_CONTINUATION] = CONTINUATION_MAX;
    h2->per_second[TYPE_PRIORITY] = or_none(o->http2_priorities);
    h2->per_second[TYPE_WINDOW_UPDATE] = or_none(o->http2_window_updates);
    h2->per_second[TYPE_RST_STREAM] = or_none(o->http2_resets);
    h2->per_second[HTTP2_UNKNOWN] = or_none(o->http2_unknown_frames);
}

/* ---- reading ---- */

/* Bodies are read in large pieces. */
static void http2_read_some(struct http2_server *h2)
{
    struct http_conn *c = h2->conn;
    struct http_server *s = c->server;
    bool large = h2->nbodies != 0;
    char *room = large ? http_server_read_room(s) : loop_alloc_block(s->loop);
    size_t bytes = large ? READ_ROOM_BYTES : LOOP_BLOCK_BYTES;
    bool more = true;

    set_limits(h2);
    for (int i = 0; more && i < READS_PER_EVENT; ++i) {
        ssize_t n = transport_recv(&c->transport, room, bytes);

        if (n > 0) {
            c->received_bytes += (size_t)n;
            enum request_fault f = http2_reader_read(h2->reader, (struct slice){room, (size_t)n});
            if (f != FAULT_NONE)
                http2_fail(h2, f);
        } else if (n == 0 || errno != EAGAIN) {
            http2_report_ended(h2);
            http_conn_close(c);
        }
        more = n > 0 && !h2->closed && ((size_t)n == bytes || transport_read_ahead(&c->transport));
    }
    if (!large)
        loop_free_block(s->loop, room);
    if (!h2->closed)
        http_conn_read_ahead_later(c);
}

void http2_readable(struct http_conn *c)
{
    struct http2_server *h2 = http2_enter(c->http2);

    http2_read_some(h2);
    if (!h2->closed)
        http2_end_if_done(h2);
    http2_leave(h2);
}

void http2_start(struct http_conn *c)
{
    struct http2_server *h2 = http2_enter(xcalloc(1, sizeof(*h2)));

    c->http2 = h2;
    h2->conn = c;
    list_init(&h2->streams);
    set_limits(h2);
    h2->reader = http2_reader_create(&events, h2, &h2->limits, &c->server->http2_scratch);
    http2_output_init(h2);
    /* RFC 9113 section 3.4: at once, as a client may wait for them before it speaks. */
    http2_put_settings(h2);
    if (transport_read_ahead(&c->transport))
        http2_read_some(h2);
    http2_leave(h2);
}

/* ---- time ---- */

void http2_drain(struct http_conn *c, bool last)
{
    struct http2_server *h2 = c->http2;

    if (h2 == NULL || !http2_reader_has_preface(h2->reader) || h2->closing ||
        (!last && h2->goaway_ms != 0))
        return;
    http2_put_goaway(h2, last ? h2->last_id : GOAWAY_ALL, HTTP2_ERROR_NONE);
    h2->goaway_ms = loop_active_ms(c->server->loop);
    h2->closing = last; /* the output that is due ends the connection, if there are no streams */
}

void http2_sweep(struct http_conn *c, uint64_t now_ms)
{
    struct http2_server *h2 = http2_enter(c->http2);
    struct http_server *s = c->server;
    const struct http_server_options *o = &s->options;
    bool head_late = o->header_timeout_ms != 0 && h2->head_since_ms != 0 &&
                     now_ms > h2->head_since_ms &&
                     now_ms - h2->head_since_ms >= o->header_timeout_ms;

    /* A client that has not begun to speak may do so until idle connections are closed. */
    if (s->draining) {
        bool due = now_ms - (h2->goaway_ms != 0 ? h2->goaway_ms : s->drain_ms) >= GOAWAY_MS;

        http2_drain(c, false);
        if (due && http2_reader_has_preface(h2->reader))
            http2_drain(c, true);
        else if (due && s->shuts_idle)
            http2_end(h2, HTTP2_ERROR_NONE);
    }
    if (h2->closed) {
        http2_leave(h2);
        return;
    }
    http2_sweep_bodies(h2, now_ms);
    /* Whether the client has taken nothing of the output for too long. */
    if (h2->blocked && o->send_timeout_ms != 0 &&
        pace_stalled(&h2->stall, http_conn_progress(c), o->send_timeout_ms, now_ms)) {
        http_server_count(&s->counts.send_timeouts);
        http_conn_reset(c);
    } else if (head_late) {
        http_server_count(&s->counts.header_timeouts);
        http2_fail(h2, FAULT_HEAD_TIMEOUT);
    } else if (c->phase == PHASE_BUSY) {
        http_response_sweep(c, now_ms);
    }
    http2_leave(h2);
}
