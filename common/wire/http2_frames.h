/* SPDX-License-Identifier: Apache-2.0
 *
 * A meter of the HTTP/2 frames that a client sends: who sends many of a kind that costs the server
 * more than the client, or never ends a header block, wears the server out on purpose. Looks at
 * frame heads only; whether they are valid is for somebody else. Plain computation over borrowed
 * bytes, in whatever pieces they come; time is an argument; any thread.
 */
#ifndef RLB_WIRE_HTTP2_FRAMES_H
#define RLB_WIRE_HTTP2_FRAMES_H

#include "common/wire/http1_request.h"

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

struct http2_frame_limits {
    uint32_t per_second[HTTP2_KINDS];
    uint32_t block_frames; /* CONTINUATION frames of one header block */
    size_t block_bytes;    /* of one header block, as sent */
};

/* All zero is the start of a connection, which begins with the client's preface. */
struct http2_frames {
    unsigned preface_bytes; /* seen */
    unsigned head_bytes;    /* of the present frame's head, in head */
    unsigned char head[9];
    size_t left; /* of the present frame's payload */
    uint32_t block_frames;
    size_t block_bytes;
    uint64_t second_ms; /* when the present second began */
    uint32_t counts[HTTP2_KINDS];
};

/*
 * Go on with BYTES, which came at NOW_MS. FAULT_NONE, or the limit that is exceeded; then the rest
 * has not been looked at.
 */
enum request_fault http2_frames_check(struct http2_frames *m,
                                      const struct http2_frame_limits *limits, struct slice bytes,
                                      uint64_t now_ms) must_check;

#endif
