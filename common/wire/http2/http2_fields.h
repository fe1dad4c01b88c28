/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules for a field section of a request (RFC 9113 section 8): pseudo-header fields, each once
 * and before all others; names and values without forbidden bytes; no field that belongs to a
 * connection of HTTP/1; Content-Length once and numeric; Host equal to :authority. What becomes of
 * the fields is decided by the caller.
 *
 * Embedded in the decoder of the section, for that time. Plain computation over borrowed bytes;
 * any thread.
 */
#ifndef RLB_WIRE_HTTP2_HTTP2_FIELDS_H
#define RLB_WIRE_HTTP2_HTTP2_FIELDS_H

#include "common/wire/http1_request.h"
#include "common/wire/http2/hpack.h"

/* What a field is. */
enum http2_use {
    HTTP2_USE_METHOD,
    HTTP2_USE_SCHEME,
    HTTP2_USE_PATH,
    HTTP2_USE_AUTHORITY,
    HTTP2_USE_HOST,
    HTTP2_USE_LENGTH, /* Content-Length; its value is in struct http2_fields */
    HTTP2_USE_FIELD,  /* any other; and every field of trailers */
};

/* All zero is the start of a request's section; set TRAILERS for the one after its body. */
struct http2_fields {
    bool trailers;
    bool regular, connect, has_host;
    bool sized;              /* it has a Content-Length */
    uint64_t content_length; /* when sized */
    unsigned pseudo;         /* a bit, by enum http2_use, for each pseudo-header field so far */
};

/*
 * Checks the next field of a section, in order, and notes in its mark that its bytes were checked.
 *   o     as given by hpack_decode
 *   use   set when FAULT_NONE is returned
 * Returns the first rule that the field violates. No more fields must be given after a fault.
 */
enum request_fault http2_fields_take(struct http2_fields *f, const struct hpack_field *field,
                                     const struct hpack_origin *o, enum http2_use *use) must_check;
/*
 * Checks the section as a whole, after its last field.
 *   authority, host   values of :authority and Host; ignored if there was none
 */
enum request_fault http2_fields_end(const struct http2_fields *f, struct slice authority,
                                    struct slice host) must_check;

#endif
