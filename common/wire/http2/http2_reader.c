/* SPDX-License-Identifier: Apache-2.0
 *
 * A frame is read in three steps, each of which may be interrupted by the end of the input:
 *
 *   head      9 bytes. What it alone determines is checked at once (on_http2_reader_head).
 *   prefix    the bytes of fixed length at the start of the payload that have to be read together,
 *             at most 8 (on_prefix). Small frames have nothing else; each parameter of a SETTINGS
 *             frame is a prefix of its own.
 *   rest      DATA and fragments of header blocks, passed on as they come; anything else is
 *             skipped.
 *
 * Section numbers are of RFC 9113. Stream errors that no correct client causes are treated as
 * connection errors, as section 5.4.1 allows: attackers use them to make servers reset requests in
 * progress. A malformed request is an error of its stream alone.
 */
#include "common/wire/http2/http2_reader.h"
#include "common/wire/http1_bytes.h"

#include <stdlib.h>

enum { HTTP2_PREFIX_BYTES_MAX = 8, SECOND_MS = 1000 };

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
    uint8_t prefix_expected;
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
    /* Stream numbers: the highest that was used; the bounds (exclusive) of those that were skipped
     * last; the last that was reported as a request or a malformed one. */
    uint32_t max_id, skipped_above, skipped_below, handed_id;
    struct hpack hpack;
};

/* The first bytes of *BYTES, at most MAX, which are removed there and from the present payload. */
static struct slice take_payload(struct http2_reader *r, struct slice *bytes, size_t max)
{
    struct slice taken = slice_take(bytes, max);

    r->left -= taken.len;
    return taken;
}

static bool has_flag(const struct http2_reader *r, unsigned flag)
{
    return (r->frame.flags & flag) != 0;
}

/* Whether the client has not used the stream yet, or never can: section 5.1.1. */
static bool is_idle(const struct http2_reader *r, uint32_t id)
{
    return id > r->max_id || (id & 1) == 0;
}

/* The client's side of a stream, if it is open. NULL: closed. */
static struct http2_side *open_side(const struct http2_reader *r, uint32_t id)
{
    struct http2_side *side = r->events->side(r->owner, id);

    return side != NULL && !side->ended ? side : NULL;
}

/* ---- DATA: section 6.1 ---- */

/* The prefix is complete. */
static enum request_fault begin_data(struct http2_reader *r)
{
    r->uncounted = r->prefix_bytes;
    r->padding = r->prefix_bytes != 0 ? r->prefix[0] : 0;
    if (r->padding > r->left)
        return FAULT_HTTP2_PROTOCOL;
    size_t body = r->left - r->padding;
    struct http2_side *side = open_side(r, r->frame.stream);
    if (side == NULL || side->discard || !side->sized)
        return FAULT_NONE;
    if (body > side->left || (has_flag(r, FLAG_END_STREAM) && body != side->left)) {
        side->discard = true;
        return r->events->malformed(r->owner, r->frame.stream, side, NULL, FAULT_BODY_LENGTH);
    }
    side->left -= body;
    return FAULT_NONE;
}

static enum request_fault report_data(struct http2_reader *r, struct slice body, size_t flow,
                                      bool ends)
{
    struct http2_side *side = open_side(r, r->frame.stream);
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

/* The rest of the payload, as far as it is there. */
static enum request_fault pass_data(struct http2_reader *r, struct slice *bytes)
{
    size_t body_left = r->left > r->padding ? r->left - r->padding : 0;
    struct slice body = take_payload(r, bytes, body_left);
    size_t flow = r->uncounted + body.len;

    if (body.len == body_left)
        flow += take_payload(r, bytes, r->left).len;
    bool ends = r->left == 0 && has_flag(r, FLAG_END_STREAM);
    r->uncounted = 0;
    return flow != 0 || ends ? report_data(r, body, flow, ends) : FAULT_NONE;
}

/* ---- HEADERS and CONTINUATION: sections 6.2, 6.10, 8.1 ---- */

/*
 * Which stream a HEADERS frame may be of. A lower number is either that of a stream which was used,
 * or of one that was skipped and must not be used any more (section 5.1.1). Only the numbers that
 * were skipped last are known.
 */
static enum request_fault check_headers(struct http2_reader *r)
{
    uint32_t id = r->frame.stream;

    if ((id & 1) == 0) /* 0, too */
        return FAULT_HTTP2_PROTOCOL;
    r->block_trailers = id <= r->max_id;
    if (!r->block_trailers) {
        if (id > r->max_id + 2) {
            r->skipped_above = r->max_id;
            r->skipped_below = id;
        }
        r->max_id = id;
    } else if (open_side(r, id) == NULL) {
        bool skipped = id > r->skipped_above && id < r->skipped_below;
        return skipped ? FAULT_HTTP2_PROTOCOL : FAULT_HTTP2_CLOSED;
    } else if (!has_flag(r, FLAG_END_STREAM)) {
        return FAULT_HTTP2_PROTOCOL;
    }
    size_t expected = (has_flag(r, FLAG_PADDED) ? 1 : 0) +
                      (has_flag(r, FLAG_PRIORITY) ? HTTP2_PRIORITY_BYTES : 0);
    r->prefix_expected = (uint8_t)(expected < r->frame.len ? expected : r->frame.len);
    r->block_stream = id;
    r->block_frames = 0;
    r->block_bytes = 0;
    r->block_ends = has_flag(r, FLAG_END_STREAM);
    r->block_weighted = has_flag(r, FLAG_PRIORITY);
    return FAULT_NONE;
}

/* Parses five bytes at P. Returns false if STREAM depends on itself. */
static bool parse_priority(const unsigned char *p, uint32_t stream, struct http2_priority *out)
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

static enum request_fault begin_headers(struct http2_reader *r)
{
    const unsigned char *p = r->prefix;
    size_t payload = r->frame.len;

    if (has_flag(r, FLAG_PADDED)) {
        if (payload == 0 || *p >= payload)
            return FAULT_HTTP2_PROTOCOL;
        r->padding = *p++;
        payload -= 1 + r->padding;
    }
    if (r->block_weighted) {
        if (payload < HTTP2_PRIORITY_BYTES)
            return FAULT_HTTP2_FRAME_SIZE;
        if (!parse_priority(p, r->frame.stream, &r->block_priority))
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
    struct http2_side *side = open_side(r, head->stream);
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
    return r->events->malformed(r->owner, head->stream, side, NULL, fault);
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
    if (fault == FAULT_NONE && head.trailers) {
        fault = end_trailers(r, &head, malformed);
    } else if (fault == FAULT_NONE) {
        r->handed_id = head.stream;
        fault = malformed == FAULT_NONE
                    ? r->events->request(r->owner, &head)
                    : r->events->malformed(r->owner, head.stream, NULL, &head, malformed);
    }
    http2_head_release(r->scratch);
    return fault;
}

/* A block that came in one piece is decoded where it is. Padding after it is skipped. */
static enum request_fault pass_fragment(struct http2_reader *r, struct slice *bytes)
{
    enum request_fault fault = FAULT_NONE;
    size_t fragment = r->left > r->padding ? r->left - r->padding : 0;
    struct slice piece = take_payload(r, bytes, fragment);
    bool complete = piece.len == fragment && has_flag(r, FLAG_END_HEADERS) && r->block_stream != 0;

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
        take_payload(r, bytes, r->left);
    return fault;
}

/* ---- PRIORITY_UPDATE: RFC 9218 section 7.1 ---- */

/* The value is collected where header blocks are, of which none is in progress. */
static enum request_fault pass_update(struct http2_reader *r, struct slice *bytes)
{
    enum request_fault fault = FAULT_NONE;
    uint32_t id = http2_get32(r->prefix) & INT32_MAX;

    text_add(&r->block, take_payload(r, bytes, r->left));
    if (r->left == 0) {
        fault = r->events->priority_update(r->owner, id, text_slice(&r->block));
        text_fini(&r->block);
        r->block = (struct text){0};
    }
    return fault;
}

/* ---- frames ---- */

struct http2_reader *http2_reader_create(const struct http2_events *events, void *owner,
                                         const struct http2_reader_limits *limits,
                                         struct http2_scratch *scratch)
{
    struct http2_reader *r = xcalloc(1, sizeof(*r));

    r->events = events;
    r->owner = owner;
    r->limits = limits;
    r->scratch = scratch;
    hpack_init(&r->hpack);
    return r;
}

void http2_reader_destroy(struct http2_reader *r)
{
    if (r == NULL)
        return;
    ASSERT(!r->reading);
    hpack_fini(&r->hpack);
    text_fini(&r->block);
    free(r);
}

bool http2_reader_has_preface(const struct http2_reader *r)
{
    return r->preface_bytes == HTTP2_PREFACE_BYTES;
}

uint32_t http2_reader_last_stream(const struct http2_reader *r)
{
    return r->handed_id;
}

enum http2_phase http2_reader_phase(const struct http2_reader *r)
{
    if (!r->settled)
        return HTTP2_PHASE_PREFACE;
    if (r->block_stream != 0)
        return HTTP2_PHASE_BLOCK;
    return r->head_bytes != 0 ? HTTP2_PHASE_FRAME : HTTP2_PHASE_IDLE;
}

enum http2_error http2_error_of(enum request_fault fault)
{
    static const uint8_t codes[FAULT_COUNT] = {
        [FAULT_HEADER] = HTTP2_ERROR_PROTOCOL,
        [FAULT_LENGTH_REPEATED] = HTTP2_ERROR_PROTOCOL,
        [FAULT_LENGTH] = HTTP2_ERROR_PROTOCOL,
        [FAULT_HOST_REPEATED] = HTTP2_ERROR_PROTOCOL,
        [FAULT_AUTHORITY] = HTTP2_ERROR_PROTOCOL,
        [FAULT_METHOD] = HTTP2_ERROR_PROTOCOL,
        [FAULT_PSEUDO_FIELD] = HTTP2_ERROR_PROTOCOL,
        [FAULT_CONNECTION_FIELD] = HTTP2_ERROR_PROTOCOL,
        [FAULT_BODY_LENGTH] = HTTP2_ERROR_PROTOCOL,
        [FAULT_HTTP2_PREFACE] = HTTP2_ERROR_PROTOCOL,
        [FAULT_HTTP2_PROTOCOL] = HTTP2_ERROR_PROTOCOL,
        [FAULT_HTTP2_FRAME_SIZE] = HTTP2_ERROR_FRAME_SIZE,
        [FAULT_HTTP2_COMPRESSION] = HTTP2_ERROR_COMPRESSION,
        [FAULT_HTTP2_CLOSED] = HTTP2_ERROR_STREAM_CLOSED,
        [FAULT_HTTP2_WINDOW] = HTTP2_ERROR_FLOW_CONTROL,
    };

    ASSERT(fault < FAULT_COUNT);
    if (fault == FAULT_NONE)
        return HTTP2_ERROR_NONE;
    return codes[fault] != 0 ? codes[fault] : HTTP2_ERROR_ENHANCE_YOUR_CALM;
}

/* Copies up to TOTAL bytes to TO, which has *HAVE. Returns whether all are there. */
static bool collect_bytes(struct slice *bytes, unsigned char *to, uint8_t *have, size_t total)
{
    struct slice taken = slice_take(bytes, total - *have);

    if (taken.len != 0)
        memcpy(to + *have, taken.p, taken.len);
    *have += (uint8_t)taken.len;
    return *have == total;
}

/* The ranges are those of section 6.5.2. */
static enum request_fault on_settings(struct http2_reader *r)
{
    if (r->prefix_bytes != 0) {
        unsigned id = (unsigned)r->prefix[0] << 8 | r->prefix[1];
        uint32_t value = http2_get32(r->prefix + 2);

        if ((id == HTTP2_SETTING_ENABLE_PUSH || id == HTTP2_SETTING_NO_RFC7540_PRIORITIES) &&
            value > 1)
            return FAULT_HTTP2_PROTOCOL;
        if (id == HTTP2_SETTING_INITIAL_WINDOW && value > HTTP2_WINDOW_MAX)
            return FAULT_HTTP2_WINDOW;
        if (id == HTTP2_SETTING_FRAME_MAX && (value < HTTP2_FRAME_MAX || value > HTTP2_FRAME_LIMIT))
            return FAULT_HTTP2_PROTOCOL;
        enum request_fault fault = r->events->setting(r->owner, id, value);
        if (fault != FAULT_NONE)
            return fault;
    }
    if (r->left != 0) {
        r->prefix_bytes = 0; /* for the next parameter */
        return FAULT_NONE;
    }
    r->settled = true;
    return has_flag(r, FLAG_ACK) ? FAULT_NONE : r->events->settings_end(r->owner);
}

/* Checks a frame with a payload of BYTES; OF_STREAM: whether it must belong to a stream. */
static enum request_fault check_small(struct http2_reader *r, bool of_stream, uint8_t bytes)
{
    if ((r->frame.stream != 0) != of_stream)
        return FAULT_HTTP2_PROTOCOL;
    r->prefix_expected = bytes;
    return r->frame.len == bytes ? FAULT_NONE : FAULT_HTTP2_FRAME_SIZE;
}

/* Checks a frame of four bytes, for a stream that is not idle or, if CONNECTION, for stream 0. */
static enum request_fault check_of_used(struct http2_reader *r, bool connection)
{
    uint32_t id = r->frame.stream;

    if (r->frame.len != 4)
        return FAULT_HTTP2_FRAME_SIZE;
    r->prefix_expected = 4;
    return is_idle(r, id) && !(connection && id == 0) ? FAULT_HTTP2_PROTOCOL : FAULT_NONE;
}

/* The checks that the head of the frame alone allows, and which prefix is expected. */
static enum request_fault check_type(struct http2_reader *r)
{
    size_t len = r->frame.len;

    switch (r->frame.type) {
    case TYPE_DATA:
        if (has_flag(r, FLAG_PADDED) && len == 0)
            return FAULT_HTTP2_FRAME_SIZE;
        if (is_idle(r, r->frame.stream)) /* 0, too */
            return FAULT_HTTP2_PROTOCOL;
        if (open_side(r, r->frame.stream) == NULL)
            return FAULT_HTTP2_CLOSED;
        r->prefix_expected = has_flag(r, FLAG_PADDED) ? 1 : 0;
        return FAULT_NONE;
    case TYPE_HEADERS:
        return check_headers(r);
    case TYPE_PRIORITY:
        return check_small(r, true, HTTP2_PRIORITY_BYTES);
    case TYPE_RST_STREAM:
        return check_of_used(r, false);
    case TYPE_SETTINGS:
        if (r->frame.stream != 0)
            return FAULT_HTTP2_PROTOCOL;
        if (len % HTTP2_SETTING_BYTES != 0 || (has_flag(r, FLAG_ACK) && len != 0))
            return FAULT_HTTP2_FRAME_SIZE;
        r->prefix_expected = len != 0 ? HTTP2_SETTING_BYTES : 0;
        return FAULT_NONE;
    case TYPE_PUSH_PROMISE:
        return FAULT_HTTP2_PROTOCOL;
    case TYPE_PING:
        return check_small(r, false, 8);
    case TYPE_GOAWAY: /* skipped */
        if (r->frame.stream != 0)
            return FAULT_HTTP2_PROTOCOL;
        return len < 8 ? FAULT_HTTP2_FRAME_SIZE : FAULT_NONE;
    case TYPE_WINDOW_UPDATE:
        return check_of_used(r, true);
    case TYPE_CONTINUATION:
        return ++r->block_frames > r->limits->block_frames ? FAULT_FRAMES_CONTINUATION : FAULT_NONE;
    case TYPE_PRIORITY_UPDATE:
        if (r->frame.stream != 0)
            return FAULT_HTTP2_PROTOCOL;
        r->prefix_expected = 4;
        return len < 4 ? FAULT_HTTP2_FRAME_SIZE : FAULT_NONE;
    default: /* an extension: section 5.5 */
        return FAULT_NONE;
    }
}

static enum request_fault on_http2_reader_head(struct http2_reader *r)
{
    const struct http2_frame_head *f = &r->frame;
    const unsigned char *h = r->head;

    r->frame = (struct http2_frame_head){.len = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2],
                                         .type = h[3],
                                         .flags = h[4],
                                         .stream = http2_get32(h + 5) & INT32_MAX};
    r->left = f->len;
    r->padding = r->uncounted = 0;
    r->prefix_bytes = r->prefix_expected = 0;
    r->in_rest = false;
    bool continues = f->type == TYPE_CONTINUATION;
    if (!r->settled && (f->type != TYPE_SETTINGS || (f->flags & FLAG_ACK) != 0))
        return FAULT_HTTP2_PROTOCOL; /* section 3.4 */
    /* A larger SETTINGS frame could have many thousands of parameters, and each costs work. */
    if (f->len > (f->type == TYPE_SETTINGS ? HTTP2_FRAME_MAX : HTTP2_FRAME_ACCEPTED))
        return FAULT_HTTP2_FRAME_SIZE;
    enum request_fault fault = r->events->frame(r->owner, f);
    if (fault != FAULT_NONE)
        return fault;
    if (continues != (r->block_stream != 0) || (continues && f->stream != r->block_stream))
        return FAULT_HTTP2_PROTOCOL; /* section 6.10 */
    return check_type(r);
}

static enum request_fault on_prefix(struct http2_reader *r)
{
    struct http2_priority p;
    struct http2_side *side;
    uint32_t amount;

    switch (r->frame.type) {
    case TYPE_DATA:
        return begin_data(r);
    case TYPE_HEADERS:
        return begin_headers(r);
    case TYPE_PRIORITY:
        return parse_priority(r->prefix, r->frame.stream, &p)
                   ? r->events->priority(r->owner, r->frame.stream, &p)
                   : FAULT_HTTP2_PROTOCOL;
    case TYPE_RST_STREAM:
        side = open_side(r, r->frame.stream);
        if (side != NULL && !side->discard)
            side->ended = true;
        return r->events->reset(r->owner, r->frame.stream, http2_get32(r->prefix));
    case TYPE_SETTINGS:
        return on_settings(r);
    case TYPE_PING:
        return r->events->ping(r->owner, (struct slice){(const char *)r->prefix, r->prefix_bytes},
                               has_flag(r, FLAG_ACK));
    case TYPE_WINDOW_UPDATE:
        amount = http2_get32(r->prefix) & INT32_MAX;
        return amount != 0 ? r->events->window(r->owner, r->frame.stream, amount)
                           : FAULT_HTTP2_PROTOCOL;
    case TYPE_CONTINUATION:
        return begin_fragment(r);
    case TYPE_PRIORITY_UPDATE: /* 0, or a stream that would have to be pushed: an error */
        return (r->prefix[3] & 1) != 0 ? FAULT_NONE : FAULT_HTTP2_PROTOCOL;
    default:
        return FAULT_NONE;
    }
}

static enum request_fault read_frame(struct http2_reader *r, struct slice *bytes)
{
    enum request_fault fault = FAULT_NONE;

    if (r->head_bytes < HTTP2_HEAD_BYTES) {
        if (!collect_bytes(bytes, r->head, &r->head_bytes, HTTP2_HEAD_BYTES))
            return FAULT_NONE;
        fault = on_http2_reader_head(r);
    }
    /* The prefix; of SETTINGS there are several. */
    while (fault == FAULT_NONE && !r->in_rest) {
        uint8_t before = r->prefix_bytes;
        bool complete = collect_bytes(bytes, r->prefix, &r->prefix_bytes, r->prefix_expected);

        r->left -= r->prefix_bytes - before;
        if (!complete)
            return FAULT_NONE;
        fault = on_prefix(r);
        if (fault == FAULT_NONE)
            r->in_rest = r->frame.type != TYPE_SETTINGS || r->left == 0;
    }
    if (fault == FAULT_NONE && r->in_rest) {
        if (r->frame.type == TYPE_DATA)
            fault = pass_data(r, bytes);
        else if (r->frame.type == TYPE_HEADERS || r->frame.type == TYPE_CONTINUATION)
            fault = pass_fragment(r, bytes);
        else if (r->frame.type == TYPE_PRIORITY_UPDATE &&
                 r->frame.len <= 4 + HTTP2_PRIORITY_VALUE_MAX)
            fault = pass_update(r, bytes);
        else
            take_payload(r, bytes, r->left);
    }
    if (r->in_rest && r->left == 0)
        r->head_bytes = 0;
    return fault;
}

enum request_fault http2_reader_read(struct http2_reader *r, struct slice bytes)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"; /* section 3.4 */

    _Static_assert(sizeof(preface) - 1 == HTTP2_PREFACE_BYTES, "not a preface");
    ASSERT(!r->reading);
    r->reading = true;
    if (r->fault == FAULT_NONE && !http2_reader_has_preface(r)) {
        struct slice taken = slice_take(&bytes, HTTP2_PREFACE_BYTES - r->preface_bytes);

        if (taken.len != 0 && memcmp(taken.p, preface + r->preface_bytes, taken.len) != 0)
            r->fault = FAULT_HTTP2_PREFACE;
        else
            r->preface_bytes += (uint8_t)taken.len;
    }
    while (r->fault == FAULT_NONE && bytes.len != 0)
        r->fault = read_frame(r, &bytes);
    r->reading = false;
    return r->fault;
}

/* ---- rates of frames ---- */

enum request_fault http2_meter_count(struct http2_meter *m,
                                     const uint32_t per_second[HTTP2_TYPES + 1], unsigned type,
                                     unsigned flags, size_t len, uint64_t now_ms)
{
    static const uint8_t faults[HTTP2_TYPES + 1] = {
        [TYPE_DATA] = FAULT_FRAMES_EMPTY_DATA,
        [TYPE_PRIORITY] = FAULT_FRAMES_PRIORITY,
        [TYPE_RST_STREAM] = FAULT_FRAMES_RST_STREAM,
        [TYPE_SETTINGS] = FAULT_FRAMES_SETTINGS,
        [TYPE_PING] = FAULT_FRAMES_PING,
        [TYPE_WINDOW_UPDATE] = FAULT_FRAMES_WINDOW_UPDATE,
        [TYPE_CONTINUATION] = FAULT_FRAMES_CONTINUATION,
        [HTTP2_UNKNOWN] = FAULT_FRAMES_UNKNOWN,
    };

    if (type == TYPE_PRIORITY_UPDATE)
        type = TYPE_PRIORITY;
    else if (type >= HTTP2_TYPES || type == TYPE_PUSH_PROMISE)
        type = HTTP2_UNKNOWN;
    if (now_ms - m->second_ms >= SECOND_MS) {
        m->second_ms = now_ms;
        memset(m->counts, 0, sizeof(m->counts));
    }
    if (type == TYPE_DATA && (len != 0 || (flags & FLAG_END_STREAM) != 0))
        return FAULT_NONE;
    return ++m->counts[type] > per_second[type] ? faults[type] : FAULT_NONE;
}
