/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the HTTP/2 frames of each kind that a client sends, to detect clients that send many
 * frames of a kind that costs the server more than the client. Only frame headers are examined.
 * Part of its connection; plain computation, time is an argument.
 */
#ifndef RLB_WIRE_HTTP2_HTTP2_METER_H
#define RLB_WIRE_HTTP2_HTTP2_METER_H

#include "common/wire/http1_request.h"
#include "common/wire/http2/http2_types.h"

enum http2_kind {
    HTTP2_PING,
    HTTP2_SETTINGS,
    HTTP2_EMPTY_DATA, /* which does not end its stream */
    HTTP2_CONTINUATION,
    HTTP2_PRIORITY,
    HTTP2_WINDOW_UPDATE,
    HTTP2_RST_STREAM,
    HTTP2_UNKNOWN, /* extensions, and what clients must not send */
    HTTP2_KINDS,
};

/* Must be all zero at the start of a connection. */
struct http2_meter {
    uint64_t second_ms; /* start of the current second */
    uint32_t counts[HTTP2_KINDS];
};

/*
 * Counts a frame received at NOW_MS. PER_SECOND has a limit for each kind. Returns FAULT_NONE, or
 * the fault for the exceeded limit.
 */
enum request_fault http2_meter_count(struct http2_meter *m, const uint32_t *per_second,
                                     unsigned type, unsigned flags, size_t len,
                                     uint64_t now_ms) must_check;

#endif
