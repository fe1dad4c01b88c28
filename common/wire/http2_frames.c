/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/http2_frames.h"

enum {
    PREFACE_BYTES = 24, /* RFC 9113 section 3.4 */
    HEAD_BYTES = 9,
    SECOND_MS = 1000,
};

/* RFC 9113 section 6. */
enum frame_type {
    TYPE_DATA = 0,
    TYPE_HEADERS = 1,
    TYPE_PRIORITY = 2,
    TYPE_RST_STREAM = 3,
    TYPE_SETTINGS = 4,
    TYPE_PING = 6,
    TYPE_GOAWAY = 7,
    TYPE_WINDOW_UPDATE = 8,
    TYPE_CONTINUATION = 9,
};

enum { FLAG_END_STREAM = 1 };

static const enum request_fault faults[HTTP2_KINDS] = {
    [HTTP2_PING] = FAULT_FRAMES_PING,
    [HTTP2_SETTINGS] = FAULT_FRAMES_SETTINGS,
    [HTTP2_EMPTY_DATA] = FAULT_FRAMES_EMPTY_DATA,
    [HTTP2_CONTINUATION] = FAULT_FRAMES_CONTINUATION,
    [HTTP2_PRIORITY] = FAULT_FRAMES_PRIORITY,
    [HTTP2_WINDOW_UPDATE] = FAULT_FRAMES_WINDOW_UPDATE,
    [HTTP2_RST_STREAM] = FAULT_FRAMES_RST_STREAM,
    [HTTP2_UNKNOWN] = FAULT_FRAMES_UNKNOWN,
};

/* HTTP2_KINDS: of a kind that is not counted. */
static enum http2_kind kind_of(unsigned type, unsigned flags, size_t len)
{
    switch (type) {
    case TYPE_DATA:
        return len == 0 && (flags & FLAG_END_STREAM) == 0 ? HTTP2_EMPTY_DATA : HTTP2_KINDS;
    case TYPE_HEADERS:
    case TYPE_GOAWAY:
        return HTTP2_KINDS;
    case TYPE_PRIORITY:
        return HTTP2_PRIORITY;
    case TYPE_RST_STREAM:
        return HTTP2_RST_STREAM;
    case TYPE_SETTINGS:
        return HTTP2_SETTINGS;
    case TYPE_PING:
        return HTTP2_PING;
    case TYPE_WINDOW_UPDATE:
        return HTTP2_WINDOW_UPDATE;
    case TYPE_CONTINUATION:
        return HTTP2_CONTINUATION;
    default:
        return HTTP2_UNKNOWN;
    }
}

/* A header block is a HEADERS frame and the CONTINUATION frames that follow. */
static enum request_fault count_block(struct http2_frames *m,
                                      const struct http2_frame_limits *limits, unsigned type,
                                      size_t len)
{
    if (type != TYPE_CONTINUATION) {
        m->block_frames = 0;
        m->block_bytes = 0;
    }
    if (type != TYPE_HEADERS && type != TYPE_CONTINUATION)
        return FAULT_NONE;
    m->block_bytes += len;
    if (m->block_bytes > limits->block_bytes)
        return FAULT_HEADERS_TOO_LARGE;
    if (type == TYPE_CONTINUATION && ++m->block_frames > limits->block_frames)
        return FAULT_FRAMES_CONTINUATION;
    return FAULT_NONE;
}

static enum request_fault on_frame(struct http2_frames *m, const struct http2_frame_limits *limits)
{
    const unsigned char *h = m->head;
    size_t len = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2];
    enum http2_kind kind = kind_of(h[3], h[4], len);

    m->left = len;
    m->head_bytes = 0;
    if (kind != HTTP2_KINDS && ++m->counts[kind] > limits->per_second[kind])
        return faults[kind];
    return count_block(m, limits, h[3], len);
}

static size_t at_most(size_t n, size_t max)
{
    return n < max ? n : max;
}

enum request_fault http2_frames_check(struct http2_frames *m,
                                      const struct http2_frame_limits *limits, struct slice bytes,
                                      uint64_t now_ms)
{
    enum request_fault f = FAULT_NONE;

    if (now_ms - m->second_ms >= SECOND_MS) {
        m->second_ms = now_ms;
        memset(m->counts, 0, sizeof(m->counts));
    }
    size_t i = at_most(bytes.len, PREFACE_BYTES - m->preface_bytes);
    m->preface_bytes += (unsigned)i;
    while (f == FAULT_NONE && i < bytes.len) {
        if (m->left != 0) {
            size_t n = at_most(bytes.len - i, m->left);
            m->left -= n;
            i += n;
            continue;
        }
        m->head[m->head_bytes++] = (unsigned char)bytes.p[i++];
        if (m->head_bytes == HEAD_BYTES)
            f = on_frame(m, limits);
    }
    return f;
}
