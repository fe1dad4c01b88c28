/* SPDX-License-Identifier: Apache-2.0
 *
 * The small frames: RFC 9113 sections 6.3 to 6.9.
 */
#include "common/wire/http2_frame.h"

void http2_put_head(struct text *out, size_t len, unsigned type, unsigned flags, uint32_t stream)
{
    const unsigned char head[HTTP2_HEAD_BYTES] = {
        (unsigned char)(len >> 16),    (unsigned char)(len >> 8),    (unsigned char)len,
        (unsigned char)type,           (unsigned char)flags,         (unsigned char)(stream >> 24),
        (unsigned char)(stream >> 16), (unsigned char)(stream >> 8), (unsigned char)stream,
    };

    text_add(out, (struct slice){(const char *)head, sizeof(head)});
}

/* Whether frames about stream ID, apart from DATA, mean something to the reader. */
static bool is_passed(struct http2_intake *in, uint32_t id)
{
    const struct http2_stream *s = http2_streams_find(&in->streams, id);

    return id <= in->max_passed && (s == NULL || !s->dead);
}

static void pass_whole(struct http2_frame *f)
{
    http2_put_head(f->out, f->len, f->type, f->flags & FLAG_ACK, f->stream);
    text_add(f->out, f->payload);
}

enum request_fault http2_on_priority(struct http2_frame *f)
{
    if (f->stream == 0)
        return FAULT_HTTP2_PROTOCOL;
    if (f->len != HTTP2_PRIORITY_BYTES)
        return FAULT_HTTP2_FRAME_SIZE;
    if ((http2_get32(f->payload.p) & INT32_MAX) == f->stream)
        return FAULT_HTTP2_PROTOCOL;
    f->flags = 0;
    pass_whole(f);
    return FAULT_NONE;
}

enum request_fault http2_on_rst_stream(struct http2_frame *f)
{
    struct http2_intake *in = f->in;

    if (f->len != 4)
        return FAULT_HTTP2_FRAME_SIZE;
    if (http2_streams_idle(&in->streams, f->stream)) /* 0, too */
        return FAULT_HTTP2_PROTOCOL;
    bool passed = is_passed(in, f->stream);
    struct http2_stream *s = http2_streams_find(&in->streams, f->stream);
    if (s != NULL)
        http2_streams_remove(&in->streams, s);
    if (!passed)
        return FAULT_NONE;
    f->flags = 0;
    pass_whole(f);
    *f->event = (struct http2_event){.kind = HTTP2_RESET, .stream = f->stream};
    return FAULT_NONE;
}

static enum request_fault check_setting(const char *p, struct http2_event *event)
{
    unsigned id = (unsigned)(unsigned char)p[0] << 8 | (unsigned char)p[1];
    uint32_t value = http2_get32(p + 2);

    if (id == HTTP2_SETTING_ENABLE_PUSH && value > 1)
        return FAULT_HTTP2_PROTOCOL;
    if (id == HTTP2_SETTING_INITIAL_WINDOW && value > HTTP2_WINDOW_MAX)
        return FAULT_HTTP2_WINDOW;
    if (id == HTTP2_SETTING_FRAME_MAX && (value < HTTP2_FRAME_MAX || value > HTTP2_FRAME_LIMIT))
        return FAULT_HTTP2_PROTOCOL;
    if (id == HTTP2_SETTING_INITIAL_WINDOW)
        *event = (struct http2_event){.kind = HTTP2_SETTLED, .amount = value};
    return FAULT_NONE;
}

enum request_fault http2_on_settings(struct http2_frame *f)
{
    struct http2_intake *in = f->in;

    if (f->stream != 0)
        return FAULT_HTTP2_PROTOCOL;
    if (f->len % HTTP2_SETTING_BYTES != 0 || ((f->flags & FLAG_ACK) != 0 && f->len != 0))
        return FAULT_HTTP2_FRAME_SIZE;
    in->settled = true;
    for (size_t at = 0; at < f->len; at += HTTP2_SETTING_BYTES) {
        enum request_fault fault = check_setting(f->payload.p + at, f->event);
        if (fault != FAULT_NONE)
            return fault;
    }
    pass_whole(f);
    return FAULT_NONE;
}

enum request_fault http2_on_ping_or_goaway(struct http2_frame *f)
{
    bool fits = f->type == TYPE_PING ? f->len == 8 : f->len >= 8;

    if (f->stream != 0)
        return FAULT_HTTP2_PROTOCOL;
    if (!fits)
        return FAULT_HTTP2_FRAME_SIZE;
    pass_whole(f);
    return FAULT_NONE;
}

enum request_fault http2_on_window_update(struct http2_frame *f)
{
    struct http2_intake *in = f->in;

    if (f->len != 4)
        return FAULT_HTTP2_FRAME_SIZE;
    uint32_t amount = http2_get32(f->payload.p) & INT32_MAX;
    if (amount == 0 || (f->stream != 0 && http2_streams_idle(&in->streams, f->stream)))
        return FAULT_HTTP2_PROTOCOL;
    if (f->stream != 0 && !is_passed(in, f->stream))
        return FAULT_NONE;
    f->flags = 0;
    pass_whole(f);
    *f->event = (struct http2_event){.kind = HTTP2_WINDOW,
                                     .stream = f->stream,
                                     .amount = amount,
                                     .frame_bytes = HTTP2_HEAD_BYTES + f->len};
    return FAULT_NONE;
}
