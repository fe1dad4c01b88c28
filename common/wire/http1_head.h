/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.x heads and body framing, from bytes, and the parts of a request line that HTTP/2 carries
 * as they are. The parsers are strict: a message that two parsers could read differently can be
 * used for smuggling (RFC 9112 section 11.2). Pure functions over borrowed bytes; any thread.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/wire/http_field.h"

/* ---- responses ---- */

enum response_fault {
#define FAULT(name, text) RESPONSE_FAULT_##name,
#include "common/wire/response_fault.def"
    RESPONSE_FAULT_COUNT
};
/* "different values of Content-Length". Never NULL. */
const char *response_fault_text(enum response_fault f);

enum http1_framing {
    HTTP1_BODY_NONE,   /* HEAD, 1xx, 204, 304, or Content-Length: 0 */
    HTTP1_BODY_LENGTH, /* content_length bytes */
    HTTP1_BODY_CHUNKED,
    HTTP1_BODY_CLOSE /* until the connection closes: never reusable */
};

struct http1_head {
    int status;        /* 100..999; with ERR_SYNTAX 0: BYTES do not begin with a status line */
    int minor_version; /* 0, or 1 for all above */
    struct slice reason;
    struct message_field headers[RESPONSE_HEADERS_MAX];
    size_t nheaders;
    size_t bytes; /* length of the head with its blank line */
    enum http1_framing framing;
    uint64_t
        content_length; /* as announced (also for HEAD and 304); UINT64_MAX: none that counts */
    bool keep_alive;    /* by version and Connection; never with both CL and TE */
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
/* Whether F of HEAD is passed on to a client of HTTP VERSION, if the kinds DROPPED (bits) are not.
 * The field that names the protocols that a 426 requires always is (RFC 9110 section 15.5.22). */
static inline bool http1_head_passes(const struct http1_head *head, const struct message_field *f,
                                     int version, uint32_t dropped)
{
    return (FIELD_BIT(f->kind) & dropped) == 0 || (head->status == 426 && version < 0x200 &&
                                                   slice_eq_nocase(f->name, SLICE_LIT("upgrade")));
}

/* ---- requests ---- */

enum request_fault {
#define FAULT(name, status, text) FAULT_##name,
#include "common/wire/request_fault.def"
    FAULT_COUNT
};

/* "more than one Host". Never NULL. */
const char *request_fault_text(enum request_fault f);
/* The status of the error response; 0: FAULT_NONE. */
int request_fault_status(enum request_fault f);

struct http1_request_facts {
    size_t bytes; /* the head with its blank line */
    size_t nheaders;
    int minor_version;
    bool chunked;
    bool keep_alive;                   /* the connection may stay */
    bool has_length;                   /* Content-Length is there */
    bool expects;                      /* Expect is there */
    bool upgrades;                     /* Upgrade is, and Connection lists it */
    uint64_t content_length;           /* 0 when there is none */
    struct slice method, target, host; /* host: NULL when there is none */
};
/*
 * Check the request head at the start of BYTES; one empty line before it counts as part of it. The
 * bytes after it are not examined.
 *   out     filled as far as the head was read; whole when FAULT_NONE is returned
 *   fields  NULL, or room for MAX of the fields: the first ones, in the order in which they came,
 *           with names as sent and values trimmed; out->nheaders may be more
 * Returns the first fault met, in the order of the bytes; a head that is not whole is
 * FAULT_REQUEST_LINE or FAULT_HEADER.
 */
enum request_fault http1_request_read(struct slice bytes, struct http1_request_facts *out,
                                      struct message_field *fields, size_t max) must_check;

/* A target in origin form: "/", followed by valid bytes of a target. */
bool http_target_is_path(struct slice target);
/*
 * host[:port] as Host and :authority have it: a name, an IPv4 address or an IPv6 one in brackets.
 * Not empty (RFC 9110 4.2.1), no user, no path.
 */
bool http_authority_valid(struct slice authority) noinline_;
/* Splits "http://authority/path" (or https; the path may be missing). False for anything else. */
bool http_target_split(struct slice target, struct slice *authority, struct slice *path);
