/* SPDX-License-Identifier: Apache-2.0
 *
 * Between http2_intake.c, which takes frames apart, and http2_control.c, which looks at those that
 * carry no part of a request.
 */
#ifndef RLB_WIRE_HTTP2_FRAME_H
#define RLB_WIRE_HTTP2_FRAME_H

#include "common/wire/http2_intake.h"

/* The present frame, and what comes of it. */
struct http2_frame {
    struct http2_intake *in;
    const struct http2_limits *limits;
    size_t len;
    unsigned type, flags;
    uint32_t stream;
    struct slice payload; /* as much of it as has to be seen */
    uint64_t now_ms;
    struct text *out;
    struct http2_event *event;
};

void http2_put_head(struct text *out, size_t len, unsigned type, unsigned flags, uint32_t stream);

/* What each says, whole as it is. */
enum request_fault http2_on_priority(struct http2_frame *f);
enum request_fault http2_on_rst_stream(struct http2_frame *f);
enum request_fault http2_on_settings(struct http2_frame *f);
enum request_fault http2_on_ping_or_goaway(struct http2_frame *f);
enum request_fault http2_on_window_update(struct http2_frame *f);

#endif
