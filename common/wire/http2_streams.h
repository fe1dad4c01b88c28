/* SPDX-License-Identifier: Apache-2.0
 *
 * The streams of an HTTP/2 connection as its client has left them: which are idle, which it has not
 * ended yet (open), and how much of their bodies is to come. All others are closed. Part of its
 * connection; plain computation.
 */
#ifndef RLB_WIRE_HTTP2_STREAMS_H
#define RLB_WIRE_HTTP2_STREAMS_H

#include "common/base/base.h"
#include "common/base/pace.h"
#include "common/wire/http1_request.h"

enum { HTTP2_OPEN_MAX = 256 }; /* more than may be open at once */

struct http2_stream {
    uint32_t id;
    bool dead; /* the reader does not know it any more, or never did */
    bool sized;
    bool stored;              /* the rest of its body is the owner's */
    uint64_t left;            /* when sized: of its body */
    enum request_fault fault; /* with which the reader has got it, whole as it may seem */
    uint64_t begun_ms;
    uint64_t bytes; /* of DATA that have come, padding included */
    uint64_t body;  /* and those that are announced by frames' heads, without it */
    /* The owner's: how fast they come; and when that is too slow, how long it is borne. */
    struct pace pace;
    uint64_t due_ms;
};

/* All zero but for is_known is the start of a connection. */
struct http2_streams {
    uint32_t max_id; /* seen */
    size_t nopen, room;
    struct http2_stream *open;                    /* oldest first */
    bool (*is_known)(void *context, uint32_t id); /* to the reader: or it may be forgotten */
    void *context;
};

/* The open stream ID, until the next is added or removed. NULL: it is not open. */
struct http2_stream *http2_streams_find(struct http2_streams *s, uint32_t id);
/* A new one. NULL: there are HTTP2_OPEN_MAX that the reader knows. */
struct http2_stream *http2_streams_add(struct http2_streams *s, uint32_t id, uint64_t now_ms);
void http2_streams_fini(struct http2_streams *s);
/* The client has ended it. */
void http2_streams_remove(struct http2_streams *s, struct http2_stream *stream);
/* Whether a client has not begun with stream ID, or never can. */
bool http2_streams_idle(const struct http2_streams *s, uint32_t id);
/* Whether the reader waits for the rest of an open one. */
bool http2_streams_waited_for(const struct http2_streams *s, const struct http2_stream *stream);
/* Whether it does for any. */
bool http2_streams_busy(const struct http2_streams *s);

#endif
