/* SPDX-License-Identifier: Apache-2.0
 *
 * A field section of an HTTP/2 request, decoded from its header block: the request's head, or its
 * trailers.
 *
 * The bytes of a section are in scratch memory, which is shared by the connections of one thread
 * and outlives them: a section is valid until the next one is decoded. It can be moved into memory
 * of the owner by http2_head_move(). Plain computation; the thread of the scratch memory.
 */
#pragma once

#include "common/wire/http1_head.h"
#include "common/wire/http2/hpack.h"

/*
 * The client's side of a stream: what is still to come of a request. Embedded in the stream of the
 * owner, which copies its initial value from the request's head and sets DISCARD; everything else
 * is written by the reader.
 */
struct http2_side {
    bool ended;    /* by END_STREAM or RST_STREAM: nothing more may come */
    bool discard;  /* the rest is not needed: it is not checked, nor is anything here updated */
    bool sized;    /* the request has a Content-Length */
    uint64_t left; /* when sized: bytes of the body that have not been announced by a frame */
};

/* RFC 9113 section 5.3, RFC 7540 section 5.3. */
struct http2_priority {
    uint32_t depends_on; /* a stream, or 0 */
    unsigned weight;     /* 1..256 */
    bool exclusive;
};

struct http2_head {
    uint32_t stream;
    bool trailers; /* it is the section after the body: there are only fields, and all of them */
    struct http2_side side; /* initial value; left is the Content-Length */
    struct slice method, scheme, path;
    struct slice authority; /* of :authority, or of Host if there was none. p == NULL: neither */
    struct slice host;      /* of Host. p == NULL: absent */
    struct message_field *fields; /* without Host and Content-Length (trailers: all) */
    size_t nfields;
    uint32_t kinds;    /* FIELD_BIT of each field that is there */
    size_t list_bytes; /* as of RFC 9113 section 6.5.2, pseudo-header fields included */
    bool weighted;     /* it came with a priority */
    struct http2_priority priority; /* when weighted */
    struct slice bytes;             /* every name and value above is a part of these */
};

/* Memory of sections. All zero at first; freed by http2_scratch_fini. */
struct http2_scratch {
    bool busy; /* a section is in it */
    char *bytes;
    size_t len, room;
    struct message_field *fields;
    size_t fields_room;
};

void http2_scratch_fini(struct http2_scratch *s);

/*
 * Decodes a whole header block.
 *   s        holds the section until http2_head_release
 *   table    of the connection; updated
 *   l        limits of the decoded list
 *   out      stream, trailers, side.ended, weighted and priority are given; the rest is 0, and set
 *   fault    why the section is malformed, or FAULT_NONE. OUT then has what came before the fault,
 *            in which any of its parts may be missing; the table is updated all the same.
 * Returns FAULT_NONE, or FAULT_HTTP2_COMPRESSION or FAULT_HEADERS_TOO_LARGE: then the table cannot
 * be used any more, and the connection must be closed.
 */
enum request_fault http2_head_decode(struct http2_scratch *s, struct hpack *table,
                                     struct slice block, const struct hpack_limits *l,
                                     struct http2_head *out, enum request_fault *fault) must_check;
/* The section in S is not used any more. Reduces what S retains. */
void http2_head_release(struct http2_scratch *s);

/*
 * Copies the bytes of a section to TO, which has room for head->bytes.len of them; its slices then
 * refer to the copy. The array of fields stays where it is.
 */
void http2_head_move(struct http2_head *head, char *to);
