/* SPDX-License-Identifier: Apache-2.0
 *
 * A frame is read in three steps, each of which may be interrupted by the end of the input:
 *
 *   head      9 bytes. What it alone determines is checked at once (on_head).
 *   prefix    the bytes of fixed length at the start of the payload that have to be seen together,
 *             at most 8 (on_prefix). All there is of the small frames; for SETTINGS one parameter
 *             after the other.
 *   rest      DATA and fragments of header blocks, passed on as they come (on_rest); anything else
 *             is skipped.
 *
 * Section numbers are of RFC 9113. Errors of a stream for which the protocol leaves an honest
 * client no reason are taken for errors of the connection, as section 5.4.1 allows: they are what
 * makes servers reset requests that are in progress. A malformed request is an error of its stream
 * alone.
 */
#include "common/wire/http2/http2_reader_state.h"

#include <stdlib.h>

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

/* Copies up to WANT bytes in all to TO, which has *HAVE. Returns whether all are there. */
static bool collect(struct slice *bytes, unsigned char *to, uint8_t *have, size_t want)
{
    struct slice taken = http2_reader_take(bytes, want - *have);

    if (taken.len != 0)
        memcpy(to + *have, taken.p, taken.len);
    *have += (uint8_t)taken.len;
    return *have == want;
}

/* ---- small frames: sections 6.3 to 6.9 ---- */

static enum request_fault check_settings(struct http2_reader *r)
{
    size_t len = r->frame.len;

    if (r->frame.stream != 0)
        return FAULT_HTTP2_PROTOCOL;
    if (len % HTTP2_SETTING_BYTES != 0 || (http2_reader_has_flag(r, FLAG_ACK) && len != 0))
        return FAULT_HTTP2_FRAME_SIZE;
    r->prefix_wanted = len != 0 ? HTTP2_SETTING_BYTES : 0;
    return FAULT_NONE;
}

/* Section 6.5.2. */
static enum request_fault check_setting(unsigned id, uint32_t value)
{
    if (id == HTTP2_SETTING_ENABLE_PUSH && value > 1)
        return FAULT_HTTP2_PROTOCOL;
    if (id == HTTP2_SETTING_INITIAL_WINDOW && value > HTTP2_WINDOW_MAX)
        return FAULT_HTTP2_WINDOW;
    if (id == HTTP2_SETTING_FRAME_MAX && (value < HTTP2_FRAME_MAX || value > HTTP2_FRAME_LIMIT))
        return FAULT_HTTP2_PROTOCOL;
    return FAULT_NONE;
}

static enum request_fault on_settings(struct http2_reader *r)
{
    if (r->prefix_bytes != 0) {
        unsigned id = (unsigned)r->prefix[0] << 8 | r->prefix[1];
        uint32_t value = http2_get32(r->prefix + 2);
        enum request_fault fault = check_setting(id, value);
        if (fault == FAULT_NONE)
            fault = r->events->setting(r->owner, id, value);
        if (fault != FAULT_NONE)
            return fault;
    }
    if (r->left != 0) {
        r->prefix_bytes = 0; /* for the next parameter */
        return FAULT_NONE;
    }
    r->settled = true;
    return http2_reader_has_flag(r, FLAG_ACK) ? r->events->settings_ack(r->owner)
                                              : r->events->settings_end(r->owner);
}

static enum request_fault on_priority(struct http2_reader *r)
{
    struct http2_priority p;

    if (!http2_reader_parse_priority(r->prefix, r->frame.stream, &p))
        return FAULT_HTTP2_PROTOCOL;
    return r->events->priority(r->owner, r->frame.stream, &p);
}

static enum request_fault on_rst_stream(struct http2_reader *r)
{
    struct http2_side *side = http2_reader_open_side(r, r->frame.stream);

    if (side != NULL && !side->discard)
        side->ended = true;
    return r->events->reset(r->owner, r->frame.stream, http2_get32(r->prefix));
}

static enum request_fault on_window_update(struct http2_reader *r)
{
    uint32_t amount = http2_get32(r->prefix) & INT32_MAX;

    return amount != 0 ? r->events->window(r->owner, r->frame.stream, amount)
                       : FAULT_HTTP2_PROTOCOL;
}

/* ---- frames ---- */

/* Checks a frame with a fixed payload of BYTES bytes; OF_STREAM: whether it must belong to a
 * stream. */
static enum request_fault check_small(struct http2_reader *r, bool of_stream, uint8_t bytes)
{
    if ((r->frame.stream != 0) != of_stream)
        return FAULT_HTTP2_PROTOCOL;
    r->prefix_wanted = bytes;
    return r->frame.len == bytes ? FAULT_NONE : FAULT_HTTP2_FRAME_SIZE;
}

/* Of one of four bytes, about a stream that is not idle or, if CONNECTION, about that. */
static enum request_fault check_of_used(struct http2_reader *r, bool connection)
{
    uint32_t id = r->frame.stream;

    if (r->frame.len != 4)
        return FAULT_HTTP2_FRAME_SIZE;
    r->prefix_wanted = 4;
    return http2_reader_is_idle(r, id) && !(connection && id == 0) ? FAULT_HTTP2_PROTOCOL
                                                                   : FAULT_NONE;
}

static enum request_fault check_type(struct http2_reader *r)
{
    switch (r->frame.type) {
    case TYPE_DATA:
        return http2_reader_check_data(r);
    case TYPE_HEADERS:
        return http2_reader_check_headers(r);
    case TYPE_PRIORITY:
        return check_small(r, true, HTTP2_PRIORITY_BYTES);
    case TYPE_RST_STREAM:
        return check_of_used(r, false);
    case TYPE_SETTINGS:
        return check_settings(r);
    case TYPE_PUSH_PROMISE:
        return FAULT_HTTP2_PROTOCOL;
    case TYPE_PING:
        return check_small(r, false, 8);
    case TYPE_GOAWAY:
        r->prefix_wanted = 8; /* debug data is skipped */
        if (r->frame.stream != 0)
            return FAULT_HTTP2_PROTOCOL;
        return r->frame.len < 8 ? FAULT_HTTP2_FRAME_SIZE : FAULT_NONE;
    case TYPE_WINDOW_UPDATE:
        return check_of_used(r, true);
    case TYPE_CONTINUATION:
        return http2_reader_check_continuation(r);
    default: /* an extension: section 5.5 */
        return FAULT_NONE;
    }
}

static void parse_head(struct http2_reader *r)
{
    const unsigned char *h = r->head;

    r->frame = (struct http2_frame_head){.len = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2],
                                         .type = h[3],
                                         .flags = h[4],
                                         .stream = http2_get32(h + 5) & INT32_MAX};
    r->left = r->frame.len;
    r->padding = r->uncounted = 0;
    r->prefix_bytes = r->prefix_wanted = 0;
    r->in_rest = false;
}

static enum request_fault on_head(struct http2_reader *r)
{
    const struct http2_frame_head *f = &r->frame;

    parse_head(r);
    bool continues = f->type == TYPE_CONTINUATION;
    if (!r->settled && (f->type != TYPE_SETTINGS || (f->flags & FLAG_ACK) != 0))
        return FAULT_HTTP2_PROTOCOL; /* section 3.4 */
    /* Thousands of settings in one frame would be work without an end. */
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
    switch (r->frame.type) {
    case TYPE_DATA:
        return http2_reader_begin_data(r);
    case TYPE_HEADERS:
        return http2_reader_begin_headers(r);
    case TYPE_PRIORITY:
        return on_priority(r);
    case TYPE_RST_STREAM:
        return on_rst_stream(r);
    case TYPE_SETTINGS:
        return on_settings(r);
    case TYPE_PING:
        return r->events->ping(r->owner, (struct slice){(const char *)r->prefix, r->prefix_bytes},
                               http2_reader_has_flag(r, FLAG_ACK));
    case TYPE_GOAWAY:
        return r->events->goaway(r->owner, http2_get32(r->prefix) & INT32_MAX,
                                 http2_get32(r->prefix + 4));
    case TYPE_WINDOW_UPDATE:
        return on_window_update(r);
    case TYPE_CONTINUATION:
        return http2_reader_begin_continuation(r);
    default:
        return FAULT_NONE;
    }
}

static enum request_fault on_rest(struct http2_reader *r, struct slice *bytes)
{
    if (r->frame.type == TYPE_DATA)
        return http2_reader_pass_data(r, bytes);
    if (r->frame.type == TYPE_HEADERS || r->frame.type == TYPE_CONTINUATION)
        return http2_reader_pass_fragment(r, bytes);
    http2_reader_take_payload(r, bytes, r->left);
    return FAULT_NONE;
}

/* Collects and handles the prefix. Of SETTINGS there are several. */
static enum request_fault read_prefix(struct http2_reader *r, struct slice *bytes)
{
    while (!r->in_rest) {
        uint8_t before = r->prefix_bytes;
        bool complete = collect(bytes, r->prefix, &r->prefix_bytes, r->prefix_wanted);

        r->left -= r->prefix_bytes - before;
        if (!complete)
            return FAULT_NONE;
        enum request_fault fault = on_prefix(r);
        if (fault != FAULT_NONE)
            return fault;
        r->in_rest = r->frame.type != TYPE_SETTINGS || r->left == 0;
    }
    return FAULT_NONE;
}

static enum request_fault read_frame(struct http2_reader *r, struct slice *bytes)
{
    enum request_fault fault = FAULT_NONE;

    if (r->head_bytes < HTTP2_HEAD_BYTES) {
        if (!collect(bytes, r->head, &r->head_bytes, HTTP2_HEAD_BYTES))
            return FAULT_NONE;
        fault = on_head(r);
    }
    if (fault == FAULT_NONE)
        fault = read_prefix(r, bytes);
    if (fault == FAULT_NONE && r->in_rest)
        fault = on_rest(r, bytes);
    if (r->in_rest && r->left == 0)
        r->head_bytes = 0;
    return fault;
}

/* Section 3.4. */
static enum request_fault read_preface(struct http2_reader *r, struct slice *bytes)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct slice taken = http2_reader_take(bytes, HTTP2_PREFACE_BYTES - r->preface_bytes);

    _Static_assert(sizeof(preface) - 1 == HTTP2_PREFACE_BYTES, "not a preface");
    if (taken.len != 0 && memcmp(taken.p, preface + r->preface_bytes, taken.len) != 0)
        return FAULT_HTTP2_PREFACE;
    r->preface_bytes += (uint8_t)taken.len;
    return FAULT_NONE;
}

enum request_fault http2_reader_read(struct http2_reader *r, struct slice bytes)
{
    ASSERT(!r->reading);
    r->reading = true;
    if (r->fault == FAULT_NONE && !http2_reader_has_preface(r))
        r->fault = read_preface(r, &bytes);
    while (r->fault == FAULT_NONE && bytes.len != 0)
        r->fault = read_frame(r, &bytes);
    r->reading = false;
    return r->fault;
}
