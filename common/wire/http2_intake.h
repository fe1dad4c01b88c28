/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client sends over HTTP/2, read strictly (RFC 9113, RFC 7541) and written anew for a
 * lenient reader behind: whole frames in their places, each request's fields as literals in one
 * header block, without padding; of trailers the end alone; nothing of extensions. What must not
 * get there does not, and small things do not become large ones: header lists are bounded while
 * they are decoded.
 *
 * One per connection, which owns it. Plain computation over borrowed bytes, in whatever pieces they
 * come; time is an argument. Memory: a header block within the limits, a frame, HTTP2_OPEN_MAX
 * streams, and HPACK's table.
 */
#ifndef RLB_WIRE_HTTP2_INTAKE_H
#define RLB_WIRE_HTTP2_INTAKE_H

#include "common/wire/hpack_writer.h"
#include "common/wire/http2_meter.h"
#include "common/wire/http2_streams.h"

struct http2_limits {
    uint32_t per_second[HTTP2_KINDS];
    uint32_t block_frames;    /* CONTINUATION frames of one header block */
    size_t block_bytes;       /* of one header block, as sent */
    struct hpack_limits list; /* of one, decoded */
    uint64_t requests;        /* of the connection */
    uint64_t body_bytes;      /* of a request */
    uint64_t memory_bytes;    /* of its body that the reader gets; a larger one is the owner's */
};

enum http2_event_kind {
    HTTP2_NOTHING,
    HTTP2_WINDOW,    /* stream's grows by amount */
    HTTP2_SETTLED,   /* all streams' windows are now counted from amount */
    HTTP2_RESET,     /* stream was reset by the client */
    HTTP2_MALFORMED, /* stream's request is: tell the client, and give back amount of its window */
    HTTP2_SWALLOWED, /* amount of DATA came for nobody: give back so much of its window */
    HTTP2_LAST,      /* stream is the last that is taken: tell the client */
    HTTP2_BODY,      /* bytes are of stream's body, after those that the reader has got (before): to
                        be stored before the reader gets the output. Give back amount of both
                        windows. */
};

/* What the reader's owner has to see to once the bytes before it have been read. */
struct http2_event {
    enum http2_event_kind kind;
    uint32_t stream;
    uint32_t amount;
    enum request_fault fault; /* of MALFORMED */
    size_t frame_bytes;       /* of WINDOW: the last of the output, which may be taken back */
    struct slice bytes;       /* borrowed from the input */
    uint64_t before;          /* of the first of a stream's */
};

/* Memory for what a block is made into. Empty but while one is, so that connections share it. */
struct http2_room {
    struct text pseudos, regulars, authority, written;
};

struct http2_intake {
    unsigned preface_bytes; /* received, and right */
    unsigned head_bytes;    /* of the present frame's head, in head */
    unsigned char head[HTTP2_HEAD_BYTES];
    size_t left;         /* of the present frame's payload */
    bool looked_at;      /* what of it had to be seen to say where it goes */
    bool skip;           /* it goes nowhere */
    size_t to_store;     /* of it: bytes of a body that are the owner's */
    struct text payload; /* the start of what has to be seen of it, while the rest is to come */
    bool settled;        /* the client's SETTINGS have come */
    /* A header block under way, or 0. */
    uint32_t block_stream;
    bool block_ends;   /* its stream */
    bool block_weighs; /* it has a priority, the first five bytes */
    uint32_t block_frames;
    struct text block; /* so far, if it came in several frames */
    struct http2_room *room;
    /* Streams. */
    struct http2_streams streams;
    uint32_t max_passed; /* the last that was given to the reader */
    bool closing;        /* no new ones are given any more */
    uint64_t requests;
    struct http2_meter meter;
    struct hpack hpack;
    struct hpack_writer writer;
};

void http2_room_fini(struct http2_room *r);
/* Freed by http2_intake_destroy, which takes NULL. ROOM, all zero at first, is its thread's and
 * outlives it. IS_KNOWN: as of http2_streams. */
struct http2_intake *http2_intake_create(struct http2_room *room,
                                         bool (*is_known)(void *context, uint32_t stream),
                                         void *context);
void http2_intake_destroy(struct http2_intake *in);
/*
 * Go on with BYTES, which came at NOW_MS, until they are used up, or there is an event; those that
 * are left stay in BYTES. What the reader gets is appended to OUT. FAULT_NONE, or why the
 * connection must end; then OUT has what came before.
 */
enum request_fault http2_intake_take(struct http2_intake *in, const struct http2_limits *l,
                                     struct slice *bytes, uint64_t now_ms, struct text *out,
                                     struct http2_event *event) must_check;
/* Whether the connection preface is complete: before, the reader has got nothing. */
static inline bool http2_intake_has_preface(const struct http2_intake *in)
{
    return in->preface_bytes == HTTP2_PREFACE_BYTES;
}
/* From now on no new streams are given to the reader. */
void http2_intake_close(struct http2_intake *in);
/* The owner cannot store stream ID's body: if it is not complete, it is ended for the reader, in
 * OUT. */
void http2_intake_give_up(struct http2_intake *in, uint32_t id, enum request_fault fault,
                          struct text *out);
/* Why the reader has got stream ID without its body, or FAULT_NONE. In the event's turn. */
enum request_fault http2_intake_fault(struct http2_intake *in, uint32_t id);
/* Whether a request is under way whose body, or head, is not complete. */
bool http2_intake_busy(const struct http2_intake *in);

#endif
