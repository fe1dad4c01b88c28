/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/http2/http2_meter.h"

enum { SECOND_MS = 1000 };

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

enum request_fault http2_meter_count(struct http2_meter *m, const uint32_t *per_second,
                                     unsigned type, unsigned flags, size_t len, uint64_t now_ms)
{
    enum http2_kind kind = kind_of(type, flags, len);

    if (now_ms - m->second_ms >= SECOND_MS) {
        m->second_ms = now_ms;
        memset(m->counts, 0, sizeof(m->counts));
    }
    return kind != HTTP2_KINDS && ++m->counts[kind] > per_second[kind] ? faults[kind] : FAULT_NONE;
}
