/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser of what a client sends over HTTP/2 (RFC 9113, RFC 7541): bytes in pieces of any size
 * become events for the owner of the connection. Received bytes are never changed, and nothing is
 * produced that has to be parsed again.
 *
 * Here: the preface; order, sizes, flags, padding and stream numbers of frames; header blocks and
 * their limits; the rules for fields; Content-Length against DATA. With the owner: streams, windows
 * (also their overflow), rates of frames, limits of requests and bodies, and all that is sent.
 *
 * The only state of a stream that is needed here is struct http2_side, which the owner embeds in
 * its streams and finds by a number. The reader has no table of its own.
 *
 * Owned by its connection; the scratch memory, the limits and the table of events outlive it. Plain
 * computation; the connection's thread. Memory besides: the table of HPACK, and while a header
 * block comes in pieces, at most block_bytes of it.
 */
#pragma once

#include "common/wire/http2/http2_head.h"

/* ---- the numbers of HTTP/2: frame types, flags, settings, error codes and sizes ---- */

enum {
    HTTP2_PREFACE_BYTES = 24, /* section 3.4 */
    HTTP2_HEAD_BYTES = 9,     /* section 4.1 */
    HTTP2_FRAME_MAX = 16384,  /* the default of SETTINGS_MAX_FRAME_SIZE; what is sent */
    /*
     * SETTINGS_MAX_FRAME_SIZE as it is announced: what is received. DATA is passed on as it comes,
     * so that a large frame costs no memory; header blocks have a limit of their own. Clients that
     * copy their buffer for each frame, as python3-h2 does, need fewer frames.
     */
    HTTP2_FRAME_ACCEPTED = 1024 * 1024,
    HTTP2_FRAME_LIMIT = (1 << 24) - 1, /* its largest value */
    HTTP2_PRIORITY_BYTES = 5,
    HTTP2_SETTING_BYTES = 6,
    HTTP2_PRIORITY_VALUE_MAX = 128, /* of a PRIORITY_UPDATE frame; a longer one states nothing */
    HTTP2_WINDOW_MAX = INT32_MAX,
};

/* Section 6. */
enum http2_type {
    TYPE_DATA = 0,
    TYPE_HEADERS = 1,
    TYPE_PRIORITY = 2,
    TYPE_RST_STREAM = 3,
    TYPE_SETTINGS = 4,
    TYPE_PUSH_PROMISE = 5,
    TYPE_PING = 6,
    TYPE_GOAWAY = 7,
    TYPE_WINDOW_UPDATE = 8,
    TYPE_CONTINUATION = 9,
    HTTP2_TYPES,                 /* this one and those above are extensions */
    TYPE_PRIORITY_UPDATE = 0x10, /* RFC 9218 section 7.1 */
};

enum {
    FLAG_END_STREAM = 0x1,
    FLAG_ACK = 0x1,
    FLAG_END_HEADERS = 0x4,
    FLAG_PADDED = 0x8,
    FLAG_PRIORITY = 0x20,
};

/* Section 6.5.2. */
enum http2_setting {
    HTTP2_SETTING_HEADER_TABLE = 1,
    HTTP2_SETTING_ENABLE_PUSH = 2,
    HTTP2_SETTING_STREAMS = 3,
    HTTP2_SETTING_INITIAL_WINDOW = 4,
    HTTP2_SETTING_FRAME_MAX = 5,
    HTTP2_SETTING_HEADER_LIST = 6,
    HTTP2_SETTING_NO_RFC7540_PRIORITIES = 9, /* RFC 9218 section 2.1 */
};

/* Section 7. */
enum http2_error {
    HTTP2_ERROR_NONE = 0,
    HTTP2_ERROR_PROTOCOL = 1,
    HTTP2_ERROR_INTERNAL = 2,
    HTTP2_ERROR_FLOW_CONTROL = 3,
    HTTP2_ERROR_SETTINGS_TIMEOUT = 4,
    HTTP2_ERROR_STREAM_CLOSED = 5,
    HTTP2_ERROR_FRAME_SIZE = 6,
    HTTP2_ERROR_REFUSED_STREAM = 7,
    HTTP2_ERROR_CANCEL = 8,
    HTTP2_ERROR_COMPRESSION = 9,
    HTTP2_ERROR_CONNECT = 10,
    HTTP2_ERROR_ENHANCE_YOUR_CALM = 11,
};

static inline uint32_t http2_get32(const void *bytes)
{
    const unsigned char *p = bytes;

    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* ---- the reader ---- */

struct http2_reader;

struct http2_reader_limits {
    uint32_t block_frames;    /* CONTINUATION frames of one header block */
    size_t block_bytes;       /* of one header block, as sent, without padding and priority */
    struct hpack_limits list; /* of one section, decoded */
};

struct http2_frame_head {
    size_t len; /* of the payload */
    unsigned type, flags;
    uint32_t stream; /* without the reserved bit */
};

/* A part of a DATA frame. */
struct http2_data {
    uint32_t stream;
    struct http2_side *side; /* NULL: the owner has dropped the stream since the frame began */
    struct slice bytes;      /* part of the input; p == NULL if side is NULL, or its discard set */
    size_t flow; /* bytes to be counted for both windows: those, padding, or what was discarded */
    bool ends;   /* the client's side of the stream; there may be no bytes then */
};

/*
 * What is reported, in the order of the bytes. OWNER is that of http2_reader_create. Each may
 * return a fault: nothing more is read then, and http2_reader_read returns it. The reader must not
 * be destroyed, nor used to read, within an event. Pointers and slices are valid during the call.
 */
struct http2_events {
    /*
     * The client's side of STREAM, a number that was used or skipped before. NULL: closed. A side
     * with discard set is not changed; so one may represent many streams.
     */
    struct http2_side *(*side)(void *owner, uint32_t stream);
    /* A frame begins. It has passed the checks of section 3.4 and of its size. */
    enum request_fault (*frame)(void *owner, const struct http2_frame_head *h);
    /*
     * A request. To receive more of it, unless head->side.ended is set, the owner copies head->side
     * and from then on returns the copy in side(); when it does not need the rest, it sets discard.
     * A stream that is not found is closed: further DATA of it would be an error of the connection.
     */
    enum request_fault (*request)(void *owner, struct http2_head *head);
    /*
     * FAULT of a request or a stream: a stream error PROTOCOL_ERROR (section 8.1.1). Of a request,
     * HEAD is what is known of it, and SIDE is NULL. The owner responds, or resets the stream; if
     * head->side.ended is not set, it discards what is still to come of it. Later, HEAD is NULL and
     * SIDE that of the stream: its discard is already set, and its ended if this came by trailers.
     */
    enum request_fault (*malformed)(void *owner, uint32_t stream, struct http2_side *side,
                                    struct http2_head *head, enum request_fault fault);
    enum request_fault (*data)(void *owner, const struct http2_data *d);
    /* The end of a request with trailers. Of a side to be discarded, data() reports the end. */
    enum request_fault (*trailers)(void *owner, struct http2_side *side, struct http2_head *head);
    /* RST_STREAM, also of a stream that is closed. */
    enum request_fault (*reset)(void *owner, uint32_t stream, uint32_t code);
    /* A window grows by AMOUNT, at least 1: of STREAM, which may be closed, or of the connection
     * (0). */
    enum request_fault (*window)(void *owner, uint32_t stream, uint32_t amount);
    /* A parameter of SETTINGS, also an unknown one. Ranges of the known ones were checked. */
    enum request_fault (*setting)(void *owner, unsigned id, uint32_t value);
    /* The SETTINGS frame is complete, and has to be acknowledged. */
    enum request_fault (*settings_end)(void *owner);
    /* Eight bytes, which have to be returned unless it is an acknowledgement. */
    enum request_fault (*ping)(void *owner, struct slice payload, bool ack);
    /* PRIORITY of a stream in any state, or that of trailers. */
    enum request_fault (*priority)(void *owner, uint32_t stream, const struct http2_priority *p);
    /* PRIORITY_UPDATE: VALUE as of a `priority` field, for STREAM, which may be idle or closed. */
    enum request_fault (*priority_update)(void *owner, uint32_t stream, struct slice value);
};

/* Which part of the input is incomplete, for time limits. */
enum http2_phase {
    HTTP2_PHASE_PREFACE, /* the preface or the first SETTINGS frame is not complete */
    HTTP2_PHASE_IDLE,    /* between frames */
    HTTP2_PHASE_BLOCK,   /* a header block has begun and is not complete */
    HTTP2_PHASE_FRAME,   /* any other frame, or the head of one, is not complete */
};

/* At the start of a connection. Pair with http2_reader_destroy(). */
struct http2_reader *http2_reader_create(const struct http2_events *events, void *owner,
                                         const struct http2_reader_limits *limits,
                                         struct http2_scratch *scratch) returns_nonnull_;
/* Takes NULL. */
void http2_reader_destroy(struct http2_reader *r);
/*
 * Reads BYTES, all of them, and calls the events that they complete.
 * Returns FAULT_NONE, or why the connection has to be closed, and from then on the same again
 * without reading. The error code to send is that of http2_error_of().
 */
enum request_fault http2_reader_read(struct http2_reader *r, struct slice bytes) must_check;

enum http2_phase http2_reader_phase(const struct http2_reader *r);
/* Whether the preface is complete: before, the client may speak another protocol. */
bool http2_reader_has_preface(const struct http2_reader *r);
/* The highest stream that was handed on, as a request or a malformed one; 0: none. */
uint32_t http2_reader_last_stream(const struct http2_reader *r);
/* The error code of a fault, of a connection or of a stream. */
enum http2_error http2_error_of(enum request_fault fault);

/* ---- rates of frames ---- */

/*
 * Counts the frames of each type that a client sends, to detect clients that send many frames that
 * cost the server more than the client. Part of its connection; time is an argument.
 */

/* Place of extensions, and of what clients must not send, in an array by type. */
#define HTTP2_UNKNOWN HTTP2_TYPES

/* Must be all zero at the start of a connection. */
struct http2_meter {
    uint64_t second_ms; /* start of the current second */
    uint32_t counts[HTTP2_TYPES + 1];
};

/*
 * Counts a frame received at NOW_MS. PER_SECOND has a limit for each type: of DATA for empty frames
 * that do not end their stream; HEADERS and GOAWAY have none; PRIORITY_UPDATE counts as PRIORITY.
 * Returns FAULT_NONE, or the fault for
 * the exceeded limit.
 */
enum request_fault http2_meter_count(struct http2_meter *m,
                                     const uint32_t per_second[HTTP2_TYPES + 1], unsigned type,
                                     unsigned flags, size_t len, uint64_t now_ms) must_check;
