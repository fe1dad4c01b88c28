/* SPDX-License-Identifier: Apache-2.0
 *
 * How many HTTP/2 frames of each kind a client sends: who sends many of a kind that costs the
 * server more than the client wears it out on purpose. Looks at frame heads only. Part of its
 * connection; plain computation, time is an argument.
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

/* All zero is the start of a connection. */
struct http2_meter {
    uint64_t second_ms; /* when the present second began */
    uint32_t counts[HTTP2_KINDS];
};

/*
 * Count a frame that came at NOW_MS. PER_SECOND has a limit for each kind. FAULT_NONE, or the limit
 * that is exceeded.
 */
enum request_fault http2_meter_count(struct http2_meter *m, const uint32_t *per_second,
                                     unsigned type, unsigned flags, size_t len,
                                     uint64_t now_ms) must_check;

#endif
