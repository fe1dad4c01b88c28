/* SPDX-License-Identifier: Apache-2.0
 *
 * The frames of which requests consist: DATA, HEADERS, CONTINUATION. Section numbers are of
 * RFC 9113.
 */
#include "common/wire/http2/http2_reader_state.h"

static enum request_fault report_malformed(struct http2_reader *r, struct http2_side *side,
                                           struct http2_head *head, enum request_fault fault)
{
    const struct http2_malformed m = {
        .stream = r->frame.stream, .fault = fault, .side = side, .head = head};

    return r->events->malformed(r->owner, &m);
}

/* ---- DATA: section 6.1 ---- */

enum request_fault http2_reader_check_data(struct http2_reader *r)
{
    if (http2_reader_has_flag(r, FLAG_PADDED) && r->frame.len == 0)
        return FAULT_HTTP2_FRAME_SIZE;
    if (http2_reader_is_idle(r, r->frame.stream)) /* 0, too */
        return FAULT_HTTP2_PROTOCOL;
    if (http2_reader_open_side(r, r->frame.stream) == NULL)
        return FAULT_HTTP2_CLOSED;
    r->prefix_wanted = http2_reader_has_flag(r, FLAG_PADDED) ? 1 : 0;
    return FAULT_NONE;
}

enum request_fault http2_reader_begin_data(struct http2_reader *r)
{
    r->uncounted = r->prefix_bytes;
    r->padding = r->prefix_bytes != 0 ? r->prefix[0] : 0;
    if (r->padding > r->left)
        return FAULT_HTTP2_PROTOCOL;
    size_t body = r->left - r->padding;
    struct http2_side *side = http2_reader_open_side(r, r->frame.stream);
    if (side == NULL || side->discard || !side->sized)
        return FAULT_NONE;
    if (body > side->left || (http2_reader_has_flag(r, FLAG_END_STREAM) && body != side->left)) {
        side->discard = true;
        return report_malformed(r, side, NULL, FAULT_BODY_LENGTH);
    }
    side->left -= body;
    return FAULT_NONE;
}

static enum request_fault report_data(struct http2_reader *r, struct slice body, size_t flow,
                                      bool ends)
{
    struct http2_side *side = http2_reader_open_side(r, r->frame.stream);
    bool discard = side == NULL || side->discard;
    const struct http2_data d = {.stream = r->frame.stream,
                                 .side = side,
                                 .bytes = discard ? SLICE_NULL : body,
                                 .flow = flow,
                                 .ends = ends};

    if (ends && !discard)
        side->ended = true;
    return r->events->data(r->owner, &d);
}

enum request_fault http2_reader_pass_data(struct http2_reader *r, struct slice *bytes)
{
    size_t body_left = r->left > r->padding ? r->left - r->padding : 0;
    struct slice body = http2_reader_take_payload(r, bytes, body_left);
    size_t flow = r->uncounted + body.len;

    if (body.len == body_left)
        flow += http2_reader_take_payload(r, bytes, r->left).len;
    bool ends = r->left == 0 && http2_reader_has_flag(r, FLAG_END_STREAM);
    r->uncounted = 0;
    return flow != 0 || ends ? report_data(r, body, flow, ends) : FAULT_NONE;
}

/* ---- HEADERS and CONTINUATION: sections 6.2, 6.10, 8.1 ---- */

static void note_new_stream(struct http2_reader *r, uint32_t id)
{
    if (id > r->max_id + 2) {
        r->skipped_above = r->max_id;
        r->skipped_below = id;
    }
    r->max_id = id;
}

/*
 * Which stream a HEADERS frame may be of. A lower number is either that of a stream which was used,
 * or of one that was skipped and must not be used any more (section 5.1.1). Only the numbers that
 * were skipped last are known.
 */
enum request_fault http2_reader_check_headers(struct http2_reader *r)
{
    uint32_t id = r->frame.stream;

    if ((id & 1) == 0) /* 0, too */
        return FAULT_HTTP2_PROTOCOL;
    r->block_trailers = id <= r->max_id;
    if (!r->block_trailers) {
        note_new_stream(r, id);
    } else if (http2_reader_open_side(r, id) == NULL) {
        bool skipped = id > r->skipped_above && id < r->skipped_below;
        return skipped ? FAULT_HTTP2_PROTOCOL : FAULT_HTTP2_CLOSED;
    } else if (!http2_reader_has_flag(r, FLAG_END_STREAM)) {
        return FAULT_HTTP2_PROTOCOL;
    }
    size_t want = (http2_reader_has_flag(r, FLAG_PADDED) ? 1 : 0) +
                  (http2_reader_has_flag(r, FLAG_PRIORITY) ? HTTP2_PRIORITY_BYTES : 0);
    r->prefix_wanted = (uint8_t)(want < r->frame.len ? want : r->frame.len);
    r->block_stream = id;
    r->block_frames = 0;
    r->block_bytes = 0;
    r->block_ends = http2_reader_has_flag(r, FLAG_END_STREAM);
    r->block_weighted = http2_reader_has_flag(r, FLAG_PRIORITY);
    return FAULT_NONE;
}

bool http2_reader_parse_priority(const unsigned char *p, uint32_t stream,
                                 struct http2_priority *out)
{
    uint32_t depends_on = http2_get32(p);

    *out = (struct http2_priority){.depends_on = depends_on & INT32_MAX,
                                   .weight = p[4] + 1U,
                                   .exclusive = depends_on >> 31 != 0};
    return out->depends_on != stream; /* RFC 7540 section 5.3.1 */
}

/* The rest of the frame, but for its padding, is a fragment of the block. */
static enum request_fault begin_fragment(struct http2_reader *r)
{
    r->block_bytes += r->left - r->padding;
    return r->block_bytes > r->limits->block_bytes ? FAULT_HEADERS_TOO_LARGE : FAULT_NONE;
}

enum request_fault http2_reader_begin_headers(struct http2_reader *r)
{
    const unsigned char *p = r->prefix;
    size_t payload = r->frame.len;

    if (http2_reader_has_flag(r, FLAG_PADDED)) {
        if (payload == 0 || *p >= payload)
            return FAULT_HTTP2_PROTOCOL;
        r->padding = *p++;
        payload -= 1 + r->padding;
    }
    if (r->block_weighted) {
        if (payload < HTTP2_PRIORITY_BYTES)
            return FAULT_HTTP2_FRAME_SIZE;
        if (!http2_reader_parse_priority(p, r->frame.stream, &r->block_priority))
            return FAULT_HTTP2_PROTOCOL;
    }
    return begin_fragment(r);
}

static enum request_fault end_trailers(struct http2_reader *r, struct http2_head *head,
                                       enum request_fault fault)
{
    if (head->weighted) {
        enum request_fault f = r->events->priority(r->owner, head->stream, &head->priority);
        if (f != FAULT_NONE)
            return f;
    }
    struct http2_side *side = http2_reader_open_side(r, head->stream);
    if (side == NULL)
        return FAULT_NONE;
    if (side->discard)
        return report_data(r, SLICE_NULL, 0, true);
    if (fault == FAULT_NONE && side->sized && side->left != 0)
        fault = FAULT_BODY_LENGTH;
    side->ended = true;
    if (fault == FAULT_NONE)
        return r->events->trailers(r->owner, side, head);
    side->discard = true;
    return report_malformed(r, side, NULL, fault);
}

static enum request_fault end_request(struct http2_reader *r, struct http2_head *head,
                                      enum request_fault fault)
{
    r->handed_id = head->stream;
    if (fault == FAULT_NONE)
        return r->events->request(r->owner, head);
    return report_malformed(r, NULL, head, fault);
}

static enum request_fault end_block(struct http2_reader *r, struct slice block)
{
    struct http2_head head = {.stream = r->block_stream,
                              .trailers = r->block_trailers,
                              .side.ended = r->block_ends,
                              .weighted = r->block_weighted,
                              .priority = r->block_priority};
    enum request_fault malformed = FAULT_NONE;
    enum request_fault fault =
        http2_head_decode(r->scratch, &r->hpack, block, &r->limits->list, &head, &malformed);

    r->block_stream = 0;
    if (fault == FAULT_NONE)
        fault =
            head.trailers ? end_trailers(r, &head, malformed) : end_request(r, &head, malformed);
    http2_head_release(r->scratch);
    return fault;
}

enum request_fault http2_reader_check_continuation(struct http2_reader *r)
{
    return ++r->block_frames > r->limits->block_frames ? FAULT_FRAMES_CONTINUATION : FAULT_NONE;
}

enum request_fault http2_reader_begin_continuation(struct http2_reader *r)
{
    return begin_fragment(r);
}

/* A block that came in one piece is decoded where it is. Padding after it is skipped. */
enum request_fault http2_reader_pass_fragment(struct http2_reader *r, struct slice *bytes)
{
    enum request_fault fault = FAULT_NONE;
    size_t fragment = r->left > r->padding ? r->left - r->padding : 0;
    struct slice piece = http2_reader_take_payload(r, bytes, fragment);
    bool complete =
        piece.len == fragment && http2_reader_has_flag(r, FLAG_END_HEADERS) && r->block_stream != 0;

    if (complete && r->block.len == 0) {
        fault = end_block(r, piece);
    } else {
        text_add(&r->block, piece);
        if (complete) {
            fault = end_block(r, text_slice(&r->block));
            text_fini(&r->block);
            r->block = (struct text){0};
        }
    }
    if (piece.len == fragment)
        http2_reader_take_payload(r, bytes, r->left);
    return fault;
}
