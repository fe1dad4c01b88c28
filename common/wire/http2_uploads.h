/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies that an HTTP/2 client is sending, followed by the heads of its frames: which streams
 * have one that is not complete, and how much of it has come. What the server makes of the frames
 * is not known here; so a stream may stay that the server has ended. Plain computation over
 * borrowed bytes, in whatever pieces they come; time is an argument; one thread at a time.
 */
#ifndef RLB_WIRE_HTTP2_UPLOADS_H
#define RLB_WIRE_HTTP2_UPLOADS_H

#include "common/base/base.h"
#include "common/base/pace.h"

/* Streams that are followed: more than any server here has open on a connection. */
enum { HTTP2_UPLOADS_MAX = 128 };

struct http2_upload {
    uint32_t stream;
    uint64_t begun_ms;
    uint64_t bytes; /* of DATA frames, padding included */
    /* The user's: how fast they come; and when it is too slow, how long it is borne. */
    struct pace pace;
    uint64_t due_ms;
};

/* All zero is the start of a connection, which begins with the client's preface. */
struct http2_uploads {
    struct http2_upload *items; /* NULL until there is one; room for HTTP2_UPLOADS_MAX */
    size_t n;
    uint32_t last_stream;   /* the highest whose HEADERS have come */
    unsigned preface_bytes; /* seen */
    unsigned head_bytes;    /* of the present frame's head, in head */
    unsigned char head[9];
    size_t left;   /* of the present frame's payload */
    bool in_block; /* a header block is not complete: only CONTINUATION may come */
};

/* Go on with BYTES, which came at NOW_MS. */
void http2_uploads_follow(struct http2_uploads *u, struct slice bytes, uint64_t now_ms);
/* Whether the client is between two frames, and may send any next. */
bool http2_uploads_between_frames(const struct http2_uploads *u);
/* Forget the i-th; the last one takes its place. */
void http2_uploads_drop(struct http2_uploads *u, size_t i);
void http2_uploads_fini(struct http2_uploads *u);

#endif
