/* SPDX-License-Identifier: Apache-2.0
 *
 * A request's field section as RFC 9113 section 8 allows it, and put in one form: pseudo-header
 * fields, each once, and before the others; Host told by :authority. Plain computation over
 * borrowed bytes; owned by whoever reads the section, for that time.
 */
#ifndef RLB_WIRE_HTTP2_FIELDS_H
#define RLB_WIRE_HTTP2_FIELDS_H

#include "common/wire/hpack_writer.h"
#include "common/wire/http1_request.h"

/* All zero but for the writer is the start of a request's; set TRAILERS for those after its body.
 * Its texts are freed, or used again when cleared, by its owner. */
struct http2_fields {
    struct hpack_writer *writer; /* of the block that this makes; of none in trailers */
    bool trailers;
    enum request_fault fault; /* the first; the rest is not looked at then */
    unsigned pseudo;          /* bits of those seen */
    bool regular, connect, sized;
    uint64_t content_length;       /* when sized */
    struct text pseudos, regulars; /* parts of the block */
    struct text authority, host;
    bool has_host;
};

/* The next field. For hpack_decode. */
void http2_fields_take(void *fields, const struct hpack_field *f, const struct hpack_origin *o);
/* All have been taken. FAULT_NONE: the block was appended to OUT (nothing of trailers). */
enum request_fault http2_fields_end(struct http2_fields *f, struct text *out) must_check;

#endif
