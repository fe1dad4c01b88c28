/* SPDX-License-Identifier: Apache-2.0
 *
 * The tap on HTTP/2 connections. libh2o reads what http2_intake.c has written, never what the
 * client has: so it is spared what it is lenient about, or falls over. What is left of that, and
 * what only libh2o can say to the client, is done in its own connection (h2o/http2_internal.h),
 * between its calls: windows of streams that it has ended, resets, GOAWAY.
 */
#include "common/net/http_conn.h"

#include <h2o/http2.h>
#include <h2o/http2_internal.h>

enum {
    /* Per second and connection, where no client has a reason to come near. */
    SETTINGS_MAX = 50,
    EMPTY_DATA_MAX = 100,
    CONTINUATION_MAX = 500,
    BLOCK_FRAMES_MAX = 32,
    /* What is not far above the settings gets an answer (http_check.c), with the connection kept.
     */
    SIZE_FACTOR = 2,
    FIELDS_MAX = 4 * H2O_MAX_HEADERS,
    /* libh2o takes no larger header blocks; some room for what it counts apart. */
    LIST_MAX = H2O_MAX_REQLEN - 64,
    MALFORMED_MAX = 10, /* requests of one connection; then it is ended */
    GOAWAY_ALL = INT32_MAX,
};

static h2o_http2_conn_t *inner(const struct http_conn *c)
{
    return c->sock->data;
}

/* Have libh2o read BYTES. False: the connection has gone. */
static bool add_input(struct http_conn *c, struct slice bytes)
{
    h2o_iovec_t room = h2o_buffer_reserve(&c->sock->input, bytes.len);

    memcpy(room.base, bytes.p, bytes.len);
    c->sock->input->size += bytes.len;
    c->sock->bytes_read = bytes.len;
    return http_tap_pass_on(c, NULL);
}

/* ---- limits ---- */

static uint32_t or_none(uint32_t limit)
{
    return limit != 0 ? limit : UINT32_MAX;
}

static size_t list_bytes(const struct http_server_options *o)
{
    size_t bytes = o->max_header_bytes;

    return bytes != 0 && bytes < LIST_MAX / SIZE_FACTOR ? SIZE_FACTOR * bytes : LIST_MAX;
}

static struct http2_limits limits_of(const struct http_server_options *o)
{
    return (struct http2_limits){
        .per_second =
            {
                [HTTP2_PING] = or_none(o->http2_pings),
                [HTTP2_SETTINGS] = SETTINGS_MAX,
                [HTTP2_EMPTY_DATA] = EMPTY_DATA_MAX,
                [HTTP2_CONTINUATION] = CONTINUATION_MAX,
                [HTTP2_PRIORITY] = or_none(o->http2_priorities),
                [HTTP2_WINDOW_UPDATE] = or_none(o->http2_window_updates),
                [HTTP2_RST_STREAM] = or_none(o->http2_resets),
                [HTTP2_UNKNOWN] = or_none(o->http2_unknown_frames),
            },
        .block_frames = BLOCK_FRAMES_MAX,
        .block_bytes = list_bytes(o),
        .list = {.list_bytes = list_bytes(o), .fields = FIELDS_MAX},
        .requests = or_none(o->http2_requests),
        .body_bytes = o->max_body_bytes,
        .memory_bytes = o->spill_dir != NULL ? o->body_spill_bytes : UINT64_MAX,
    };
}

/* ---- libh2o's streams ---- */

static bool is_known(void *context, uint32_t stream)
{
    return h2o_http2_conn_get_stream(inner(context), stream) != NULL;
}

/*
 * libh2o activates a stream whose window opens, also one that it has ended and that only waits for
 * its bytes to be written; and fails an assertion then. Such a window is put so low that it never
 * opens: nothing more will be sent in it.
 */
static void sink_ended(h2o_http2_stream_t *s)
{
    if (s->state == H2O_HTTP2_STREAM_STATE_END_STREAM)
        s->output_window._avail = HTTP2_WINDOW_SUNK;
}

static bool overflows(const h2o_http2_window_t *w, int64_t more)
{
    return w->_avail + more > INT32_MAX;
}

/* Section 6.9.1. libh2o would reset the stream of a request that we are busy with. */
static bool may_grow(struct http_conn *c, const struct http2_event *e)
{
    h2o_http2_conn_t *conn = inner(c);

    if (e->stream == 0)
        return !overflows(&conn->_write.window, e->amount);
    h2o_http2_stream_t *s = h2o_http2_conn_get_stream(conn, e->stream);
    if (s == NULL) /* closed; or its HEADERS are about to be passed, too */
        return e->stream <= conn->pull_stream_ids.max_open ||
               e->amount + conn->peer_settings.initial_window_size <= INT32_MAX;
    sink_ended(s);
    return !overflows(&s->output_window, e->amount);
}

/* Section 6.9.2: a change of the initial window is one of every stream's. */
static bool may_settle(struct http_conn *c, const struct http2_event *e)
{
    h2o_http2_conn_t *conn = inner(c);
    int64_t more = (int64_t)e->amount - conn->peer_settings.initial_window_size;
    bool may = true;

    for (khint_t i = 0; i != kh_end(conn->streams); ++i) {
        if (!kh_is_used(conn->streams->flags, i))
            continue;
        h2o_http2_stream_t *s = kh_val(conn->streams, i);
        sink_ended(s);
        may = may && !overflows(&s->output_window, more);
    }
    return may;
}

/* ---- what the client is told ---- */

static void reset_stream(struct http_conn *c, uint32_t stream, bool malformed)
{
    h2o_http2_conn_t *conn = inner(c);

    if (conn->state >= H2O_HTTP2_CONN_STATE_IS_CLOSING)
        return;
    /* Macros, that check at compile time what sign the error has. */
    if (malformed)
        h2o_http2_encode_rst_stream_frame(&conn->_write.buf, stream, -H2O_HTTP2_ERROR_PROTOCOL);
    else
        h2o_http2_encode_rst_stream_frame(&conn->_write.buf, stream, -H2O_HTTP2_ERROR_CANCEL);
    h2o_http2_conn_request_write(conn);
}

/* STREAM's, or the connection's (0). */
static void give_back_window(struct http_conn *c, uint32_t stream, uint32_t bytes)
{
    h2o_http2_conn_t *conn = inner(c);

    if (bytes == 0 || conn->state >= H2O_HTTP2_CONN_STATE_IS_CLOSING)
        return;
    h2o_http2_encode_window_update_frame(&conn->_write.buf, stream, (int32_t)bytes);
    h2o_http2_conn_request_write(conn);
}

static void put_goaway(struct http_conn *c, uint32_t last_stream)
{
    h2o_http2_conn_t *conn = inner(c);

    if (conn->state >= H2O_HTTP2_CONN_STATE_IS_CLOSING)
        return;
    h2o_http2_encode_goaway_frame(&conn->_write.buf, last_stream, H2O_HTTP2_ERROR_NONE,
                                  (h2o_iovec_t){NULL, 0});
    h2o_http2_conn_request_write(conn);
}

/* libh2o drops bodies once it has half closed a connection, so it must not before they are here. */
static void close_when_complete(struct http_conn *c)
{
    h2o_http2_conn_t *conn = inner(c);

    if (!c->tap.http2->closing || conn->state != H2O_HTTP2_CONN_STATE_OPEN ||
        http2_intake_busy(c->tap.http2))
        return;
    conn->state = H2O_HTTP2_CONN_STATE_HALF_CLOSED;
    h2o_http2_conn_request_write(conn);
}

void http_tap_drain_http2(struct http_conn *c, bool last)
{
    struct http_tap *t = &c->tap;

    if (t->state != TAP_HTTP2 || t->http2->closing || http_conn_is_closing(c))
        return;
    if (!last && !t->goaway_sent)
        put_goaway(c, GOAWAY_ALL);
    t->goaway_sent = true;
    if (!last)
        return;
    http2_intake_close(t->http2);
    put_goaway(c, t->http2->max_passed);
    close_when_complete(c);
}

/*
 * What libh2o answers with the error that is wanted. ENHANCE_YOUR_CALM it says to who gives
 * priorities to too many streams that do not exist, and then none is allowed.
 */
static struct slice wrong_frame(enum request_fault f)
{
    switch (f) {
    case FAULT_HTTP2_PROTOCOL: /* DATA of stream 0 */
        return SLICE_LIT("\0\0\0\0\0\0\0\0\0");
    case FAULT_HTTP2_FRAME_SIZE: /* an empty PING */
        return SLICE_LIT("\0\0\0\6\0\0\0\0\0");
    case FAULT_HTTP2_COMPRESSION: /* HEADERS with index 0 */
        return SLICE_LIT("\0\0\1\1\5\x7f\xff\xff\xff\x80");
    case FAULT_HTTP2_CLOSED: /* HEADERS of a stream that nobody can have open */
        return SLICE_LIT("\0\0\1\1\5\0\0\0\1\x80");
    case FAULT_HTTP2_WINDOW: /* twice all that there is */
        return SLICE_LIT("\0\0\4\x8\0\0\0\0\0\x7f\xff\xff\xff"
                         "\0\0\4\x8\0\0\0\0\0\x7f\xff\xff\xff");
    default:
        return SLICE_LIT("\0\0\5\2\0\x7f\xff\xff\xff\0\0\0\0\0");
    }
}

void http_tap_say_goaway(struct http_conn *c, enum request_fault f)
{
    h2o_globalconf_t *conf = &c->server->conf;
    size_t max = conf->http2.max_streams_for_priority;
    struct slice frame = wrong_frame(f);

    h2o_buffer_consume(&c->sock->input, c->sock->input->size);
    if (!http2_intake_has_preface(c->tap.http2)) {
        /* It would take the frame for a part of the preface. GOAWAY may be omitted then. */
        (void)http_tap_pass_on(c, h2o_socket_error_closed);
        return;
    }
    conf->http2.max_streams_for_priority = 0;
    (void)add_input(c, frame);
    conf->http2.max_streams_for_priority = max;
}

/* ---- one stream ---- */

bool http_tap_may_inject_http2(const struct http_conn *c)
{
    return c->sock->input->size == 0 && inner(c)->state < H2O_HTTP2_CONN_STATE_IS_CLOSING;
}

void http_tap_reset_http2(struct http_conn *c, struct http2_stream *s)
{
    char frame[] = "\0\0\4\3\0iiii\0\0\0\b"; /* CANCEL */

    for (int i = 0; i < 4; ++i)
        frame[5 + i] = (char)(s->id >> (24 - 8 * i));
    s->dead = true;
    http_tap_forget_stored(c, s->id);
    reset_stream(c, s->id, false);
    (void)add_input(c, (struct slice){frame, sizeof(frame) - 1});
}

uint32_t http_tap_stream_http2(h2o_req_t *req)
{
    return H2O_STRUCT_FROM_MEMBER(h2o_http2_stream_t, req, req)->stream_id;
}

enum request_fault http_tap_fault_http2(const struct http_conn *c, h2o_req_t *req)
{
    return http2_intake_fault(c->tap.http2, http_tap_stream_http2(req));
}

/* ---- reading ---- */

void http_tap_begin_http2(struct http_conn *c)
{
    c->tap.http2 = http2_intake_create(&c->server->http2_room, is_known, c);
    list_init(&c->tap.stored);
}

/* Before libh2o has it: why it must not. */
static enum request_fault before_passing(struct http_conn *c, const struct http2_event *e)
{
    if (e->kind == HTTP2_WINDOW && !may_grow(c, e))
        return FAULT_HTTP2_WINDOW;
    if (e->kind == HTTP2_SETTLED && !may_settle(c, e))
        return FAULT_HTTP2_WINDOW;
    if (e->kind == HTTP2_BODY && !http_tap_store(c, e->stream, (size_t)e->before, e->bytes))
        http2_intake_give_up(c->tap.http2, e->stream, FAULT_BODY_NO_ROOM, &c->server->passed);
    return FAULT_NONE;
}

static enum request_fault after_passing(struct http_conn *c, const struct http2_event *e)
{
    switch (e->kind) {
    case HTTP2_MALFORMED:
        http_tap_report(c, e->fault, NULL);
        http_tap_forget_stored(c, e->stream);
        reset_stream(c, e->stream, true);
        give_back_window(c, 0, e->amount);
        if (++c->refused > MALFORMED_MAX)
            return FAULT_FRAMES_RESETS;
        break;
    case HTTP2_SWALLOWED:
        give_back_window(c, 0, e->amount);
        break;
    case HTTP2_BODY:
        give_back_window(c, 0, e->amount);
        if (is_known(c, e->stream))
            give_back_window(c, e->stream, e->amount);
        break;
    case HTTP2_RESET:
        http_tap_forget_stored(c, e->stream);
        break;
    case HTTP2_LAST:
        put_goaway(c, e->stream);
        break;
    case HTTP2_NOTHING:
    case HTTP2_WINDOW:
    case HTTP2_SETTLED:
        break;
    }
    close_when_complete(c);
    return FAULT_NONE;
}

static bool pass_new(struct http_conn *c)
{
    return c->server->passed.len == 0 || add_input(c, text_slice(&c->server->passed));
}

/* As far as there is nothing to see to. False: the connection has gone, or is refused. */
static bool read_some(struct http_conn *c)
{
    struct http_tap *t = &c->tap;
    struct text *passed = &c->server->passed;
    struct http2_limits limits = limits_of(&c->server->options);
    struct slice bytes = {t->held.p + t->held_at, t->held.len - t->held_at};
    struct http2_event e;

    text_clear(passed);
    enum request_fault f =
        http2_intake_take(t->http2, &limits, &bytes, loop_now_ms(c->server->loop), passed, &e);
    t->held_at = t->held.len - bytes.len;
    enum request_fault bad = before_passing(c, &e);
    if (bad != FAULT_NONE)
        passed->len = 0;
    if (!pass_new(c))
        return false;
    f = f == FAULT_NONE ? bad : f;
    if (f == FAULT_NONE)
        f = after_passing(c, &e);
    if (f != FAULT_NONE)
        http_tap_end_http2(c, f);
    return f == FAULT_NONE;
}

void http_tap_hand_on_http2(struct http_conn *c)
{
    struct http_tap *t = &c->tap;

    while (t->state == TAP_HTTP2 && t->held_at < t->held.len && http_tap_in_place(c)) {
        if (!read_some(c))
            return;
    }
    http_tap_drop_held(c);
}

void http_tap_take_http2(struct http_conn *c, size_t fresh)
{
    h2o_buffer_t *in = c->sock->input;

    in->size -= fresh;
    text_add(&c->tap.held, (struct slice){in->bytes + in->size, fresh});
    http_tap_hand_on_http2(c);
}

bool http_tap_is_dying(struct http_conn *c)
{
    if (!c->http2)
        return false;
    h2o_http2_conn_t *conn = inner(c);
    /* The one moment when there is something that is being written, and nobody to be told of it. */
    bool dying = conn->_write.buf_in_flight != NULL && c->sock->_cb.write == NULL;
    if (dying)
        conn->state = H2O_HTTP2_CONN_STATE_IS_CLOSING;
    return dying;
}
