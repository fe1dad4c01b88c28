/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser of HTTP/1 request heads, and of the parts of a request line that HTTP/2 carries as
 * they are. It is strict: a request that two parsers could read differently can be used for
 * smuggling (RFC 9112 section 11.2). Pure functions over borrowed bytes; any thread.
 */
#ifndef RLB_WIRE_HTTP1_REQUEST_H
#define RLB_WIRE_HTTP1_REQUEST_H

#include "common/base/err.h"
#include "common/wire/http1_head.h"

enum request_fault {
#define FAULT(name, status, text) FAULT_##name,
#include "common/wire/request_fault.def"
#undef FAULT
    FAULT_COUNT
};

/* "more than one Host". Never NULL. */
const char *request_fault_text(enum request_fault f);
/* The status to refuse with. */
int request_fault_status(enum request_fault f);

struct http1_request_facts {
    size_t bytes; /* the head with its blank line */
    size_t nheaders;
    int minor_version;
    bool chunked;
    bool keep_alive;                   /* the connection may stay */
    bool has_length;                   /* Content-Length is there */
    bool expects, upgrades;            /* Expect is, Upgrade is */
    uint64_t content_length;           /* 0 when there is none */
    struct slice method, target, host; /* host: NULL when there is none */
};
/*
 * Checks the request head at the start of BYTES; one empty line before it counts as part of it. The
 * bytes after it are not examined.
 *
 *   out  filled as far as the head was read; complete if FAULT_NONE is returned
 *
 * Returns the first fault, in the order of the bytes; an incomplete head is FAULT_REQUEST_LINE or
 * FAULT_HEADER.
 */
enum request_fault http1_request_check(struct slice bytes,
                                       struct http1_request_facts *out) must_check;
/*
 * The same, and what the fields are: the first MAX of them go to FIELDS, in the order in which they
 * came, with names as sent and values trimmed; out->nheaders may be more.
 */
enum request_fault http1_request_read(struct slice bytes, struct http1_request_facts *out,
                                      struct http1_header *fields, size_t max) must_check;

/* A target in origin form: "/", followed by valid bytes of a target. */
bool http_target_is_path(struct slice target);
/*
 * host[:port] as Host and :authority have it: a name, an IPv4 address or an IPv6 one in brackets.
 * Not empty (RFC 9110 4.2.1), no user, no path.
 */
bool http_authority_valid(struct slice authority) noinline_;
/*
 * Split "http://authority/path" (or https; the path may be missing) into its parts. False for
 * anything else.
 */
bool http_target_split(struct slice target, struct slice *authority, struct slice *path);

#endif
