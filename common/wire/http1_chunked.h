/* SPDX-License-Identifier: Apache-2.0
 *
 * The chunked coding of bodies (RFC 9112 section 7.1), decoded in whatever pieces they come. Both
 * sides accept CRLF as the only line end, and bound extensions and trailers, which are discarded.
 * Requests are read strictly: no blanks around sizes and extensions, and only well-formed
 * extensions and trailers. Plain computation over borrowed bytes; any thread.
 */
#pragma once

#include "common/wire/http1_head.h"

/* All zero is the start of a body. */
struct http1_chunked {
    uint64_t left;       /* data bytes left in this chunk */
    uint64_t data_bytes; /* of all chunks so far, by their sizes */
    unsigned state;
    unsigned digits;          /* of the present chunk size */
    unsigned extension_bytes; /* of all chunks so far; in a response, of this one */
    unsigned trailer_bytes, trailers;
};

/* ---- responses ---- */

/*
 * Decodes BYTES from the front: sets *DATA to the next run of body bytes, which may be empty, and
 * *USED to the number of input bytes consumed. Must be called again with the remaining bytes until
 * there are none. Returns ERR_OK, ERR_NOT_FOUND if the body has ended (bytes after *USED do not
 * belong to the message), ERR_SYNTAX, or ERR_TOO_LARGE.
 */
enum err http1_chunked_decode(struct http1_chunked *d, struct slice bytes, struct slice *data,
                              size_t *used) must_check;
/* The fault after http1_chunked_decode() has returned ERR_SYNTAX or ERR_TOO_LARGE. */
enum response_fault http1_chunked_fault(const struct http1_chunked *d);

/* ---- requests ---- */

/*
 * Checks LEN bytes, which follow those of the previous call, and moves the data among them to their
 * start.
 *   *used   how many of them belong to this body: all, unless it ends among them, or is at fault.
 *           The bytes after these stay as they are
 *   *data   how many bytes of data there are
 *   *ended  whether the body has ended; bytes after *USED belong to another request
 */
enum request_fault http1_chunked_take(struct http1_chunked *d, char *bytes, size_t len,
                                      size_t *used, size_t *data, bool *ended) must_check noinline_;
