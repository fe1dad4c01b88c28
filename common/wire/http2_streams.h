/* SPDX-License-Identifier: Apache-2.0
 *
 * The streams of an HTTP/2 connection as its client has left them: which are idle, which it has not
 * ended yet (open), and how much of their bodies is to come. All others are closed. Part of its
 * connection; plain computation.
 */
#ifndef RLB_WIRE_HTTP2_STREAMS_H
#define RLB_WIRE_HTTP2_STREAMS_H

#include "common/base/base.h"

enum { HTTP2_OPEN_MAX = 256 }; /* more than may be open at once */

struct http2_stream {
    uint32_t id;
    bool dead; /* the reader does not know it any more, or never did */
    bool sized;
    uint64_t left; /* when sized: of its body */
};

/* All zero but for is_known is the start of a connection. */
struct http2_streams {
    uint32_t max_id; /* seen */
    size_t nopen;
    struct http2_stream open[HTTP2_OPEN_MAX];     /* oldest first */
    bool (*is_known)(void *context, uint32_t id); /* to the reader: or it may be forgotten */
    void *context;
};

/* The open stream ID, until the next is added or removed. NULL: it is not open. */
struct http2_stream *http2_streams_find(struct http2_streams *s, uint32_t id);
/* A new one. NULL: there are HTTP2_OPEN_MAX that the reader knows. */
struct http2_stream *http2_streams_add(struct http2_streams *s, uint32_t id);
/* The client has ended it. */
void http2_streams_remove(struct http2_streams *s, struct http2_stream *stream);
/* Whether a client has not begun with stream ID, or never can. */
bool http2_streams_idle(const struct http2_streams *s, uint32_t id);
/* Whether the reader waits for the rest of one. */
bool http2_streams_busy(const struct http2_streams *s);

#endif
