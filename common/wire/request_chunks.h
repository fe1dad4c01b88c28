/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the body of a chunked request is framed as RFC 9112 section 7.1 has it, before a more
 * lenient decoder reads it, and the data in it. Plain computation over borrowed bytes, in whatever
 * pieces they come; any thread.
 */
#ifndef RLB_WIRE_REQUEST_CHUNKS_H
#define RLB_WIRE_REQUEST_CHUNKS_H

#include "common/wire/http1_request.h"

/* All zero is the start of a body. */
struct request_chunks {
    uint64_t left;       /* data bytes left in this chunk */
    uint64_t data_bytes; /* of all chunks so far, as their sizes say */
    unsigned state;
    unsigned digits;          /* of the present chunk size */
    unsigned extension_bytes; /* of all chunks so far */
    unsigned trailer_bytes, trailers;
};

/*
 * Go on with BYTES.
 *   *used   how many of them are of this body: all, unless it ends among them, or is at fault
 *   *ended  whether the body has ended; what comes then is another request's
 * No blanks are taken around sizes and extensions, and no line end but CRLF. Extensions of a body
 * and its trailers are bounded.
 */
enum request_fault request_chunks_check(struct request_chunks *c, struct slice bytes, size_t *used,
                                        bool *ended) must_check apart;
/*
 * Of LEN BYTES that were checked, keep the data alone, at their start; returns its length. C is
 * another one, that has got all that came before them in this body.
 */
size_t request_chunks_strip(struct request_chunks *c, char *bytes, size_t len) apart;

#endif
