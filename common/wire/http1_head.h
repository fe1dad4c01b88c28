/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.x response heads and body framing, from bytes. Pure functions over borrowed bytes; any
 * thread.
 */
#ifndef RLB_WIRE_HTTP1_HEAD_H
#define RLB_WIRE_HTTP1_HEAD_H

#include "common/base/err.h"
#include "common/base/limits.h"
#include "common/wire/http_field.h"

enum response_fault {
#define FAULT(name, text) RESPONSE_FAULT_##name,
#include "common/wire/response_fault.def"
#undef FAULT
    RESPONSE_FAULT_COUNT
};
/* "different values of Content-Length". Never NULL. */
const char *response_fault_text(enum response_fault f);

struct http1_header {
    struct slice name;  /* as sent */
    struct slice value; /* trimmed */
    enum http_field kind;
};

enum http1_framing {
    HTTP1_BODY_NONE,   /* HEAD, 1xx, 204, 304, or Content-Length: 0 */
    HTTP1_BODY_LENGTH, /* content_length bytes */
    HTTP1_BODY_CHUNKED,
    HTTP1_BODY_CLOSE /* until the connection closes: never reusable */
};

struct http1_head {
    int status;        /* 100..999 */
    int minor_version; /* 0, or 1 for all above */
    struct slice reason;
    struct http1_header headers[RESPONSE_HEADERS_MAX];
    size_t nheaders;
    size_t bytes; /* length of the head with its blank line */
    enum http1_framing framing;
    uint64_t
        content_length;    /* as announced (also for HEAD and 304); UINT64_MAX: none that counts */
    bool keep_alive;       /* by version and Connection; never with both CL and TE */
    bool connection_lists; /* Connection has other options than keep-alive or close */
    enum response_fault fault; /* set by ERR_SYNTAX and ERR_TOO_LARGE alone */
};

/*
 * Parse one response head at the start of BYTES.
 *   is_head  the request was a HEAD
 * Errors: ERR_BUSY more bytes are needed; ERR_SYNTAX malformed, or no single valid framing
 * (differing Content-Lengths, TE in HTTP/1.0, unknown transfer codings, ...); ERR_TOO_LARGE over
 * RESPONSE_HEAD_MAX bytes or RESPONSE_HEADERS_MAX fields.
 */
enum err http1_head_parse(struct slice bytes, bool is_head, struct http1_head *out) must_check;
/* Whether a 101 selects PROTOCOL, the one that was requested. */
bool http1_head_switches_to(const struct http1_head *head, struct slice protocol);

#endif
