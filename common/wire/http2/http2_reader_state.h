/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the reader: between http2_reader.c, which takes frames apart, and
 * http2_reader_request.c, which reads those that carry parts of requests.
 */
#ifndef RLB_WIRE_HTTP2_HTTP2_READER_STATE_H
#define RLB_WIRE_HTTP2_HTTP2_READER_STATE_H

#include "common/wire/http2/http2_reader.h"

enum { HTTP2_PREFIX_BYTES_MAX = 8 };

struct http2_reader {
    const struct http2_events *events;
    void *owner;
    const struct http2_reader_limits *limits;
    struct http2_scratch *scratch;
    enum request_fault fault;
    bool reading;
    bool settled; /* the first SETTINGS frame is complete */
    bool in_rest; /* the prefix of the present frame is complete */
    uint8_t preface_bytes, head_bytes, prefix_bytes; /* received */
    uint8_t prefix_wanted;
    unsigned char head[HTTP2_HEAD_BYTES];
    unsigned char prefix[HTTP2_PREFIX_BYTES_MAX];
    struct http2_frame_head frame; /* when the head is complete */
    size_t left;                   /* of the payload */
    size_t padding;                /* at its end */
    size_t uncounted;              /* of DATA: the length of the padding, if not yet reported */
    /* A header block in progress, or 0. */
    uint32_t block_stream;
    bool block_trailers, block_ends, block_weighted;
    struct http2_priority block_priority; /* when weighted */
    uint32_t block_frames;
    size_t block_bytes;
    struct text block; /* so far, if it came in several pieces */
    /* Streams: the highest number that was used; the numbers that were skipped last, between the
     * next two; and the last one that was handed on. */
    uint32_t max_id, skipped_above, skipped_below, handed_id;
    struct hpack hpack;
};

/* The first bytes of *BYTES, at most MAX, which are removed there. */
static inline struct slice http2_reader_take(struct slice *bytes, size_t max)
{
    struct slice taken = {bytes->p, bytes->len < max ? bytes->len : max};

    if (taken.len != 0)
        bytes->p += taken.len;
    bytes->len -= taken.len;
    return taken;
}

/* The same of the payload of the present frame. */
static inline struct slice http2_reader_take_payload(struct http2_reader *r, struct slice *bytes,
                                                     size_t max)
{
    struct slice taken = http2_reader_take(bytes, max);

    r->left -= taken.len;
    return taken;
}

static inline bool http2_reader_has_flag(const struct http2_reader *r, unsigned flag)
{
    return (r->frame.flags & flag) != 0;
}

/* Whether the client has not used the stream yet, or never can: section 5.1.1. */
static inline bool http2_reader_is_idle(const struct http2_reader *r, uint32_t id)
{
    return id > r->max_id || (id & 1) == 0;
}

/* The client's side of a stream, if it is open. NULL: closed. */
static inline struct http2_side *http2_reader_open_side(const struct http2_reader *r, uint32_t id)
{
    struct http2_side *side = r->events->side(r->owner, id);

    return side != NULL && !side->ended ? side : NULL;
}

/* The checks that the head of the frame alone allows, and which prefix is wanted. */
enum request_fault http2_reader_check_data(struct http2_reader *r);
enum request_fault http2_reader_check_headers(struct http2_reader *r);
enum request_fault http2_reader_check_continuation(struct http2_reader *r);
/* The prefix is complete. */
enum request_fault http2_reader_begin_data(struct http2_reader *r);
enum request_fault http2_reader_begin_headers(struct http2_reader *r);
enum request_fault http2_reader_begin_continuation(struct http2_reader *r);
/* The rest of the payload, as far as it is there. */
enum request_fault http2_reader_pass_data(struct http2_reader *r, struct slice *bytes);
enum request_fault http2_reader_pass_fragment(struct http2_reader *r, struct slice *bytes);
/* Parses five bytes at P. Returns false if STREAM depends on itself. */
bool http2_reader_parse_priority(const unsigned char *p, uint32_t stream,
                                 struct http2_priority *out);

#endif
