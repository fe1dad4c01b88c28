/* SPDX-License-Identifier: Apache-2.0
 *
 * The strict second look at a request that a lenient parser has accepted: raw HTTP/1 heads, and the
 * parts of a request line that HTTP/2 carries as they are. Whoever forwards a request that two
 * parsers could read differently lends itself to smuggling (RFC 9112 section 11.2). Pure functions
 * over borrowed bytes; any thread.
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
    bool padded;                       /* blanks follow a field's value */
    bool has_length;                   /* Content-Length is there */
    bool expects, upgrades;            /* Expect is, Upgrade is */
    uint64_t content_length;           /* 0 when there is none */
    struct slice method, target, host; /* host: NULL when there is none */
};
/*
 * Check the request head at the start of BYTES; one empty line before it counts as part of it.
 * What follows it is not looked at.
 *   out  filled as far as the head was read; whole when FAULT_NONE is returned
 * The first fault met, in the order of the bytes; a head that is not whole is FAULT_REQUEST_LINE or
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

/*
 * Rename each Expect to TE, which means nothing to anybody here, in a head that was checked: in
 * HTTP/1.0 it has to be ignored (RFC 9110 10.1.1), which libh2o does not.
 */
void http1_request_forget_expect(char *head, size_t bytes);
/*
 * Rename Content-Length the same way: the head becomes that of a request without a body. Returns
 * whether its client waits for "100 Continue"; of that no more is told to anybody.
 */
bool http1_request_hide_body(char *head, size_t bytes);
/*
 * Move the blanks that follow the values of a head that was checked, and is PADDED, before them:
 * libh2o takes them for part of the value.
 */
void http1_request_straighten(char *head, size_t bytes);

/* A target in origin form: "/", and after it what may stand in a target. */
bool http_target_is_path(struct slice target);
/*
 * host[:port] as Host and :authority have it: a name, an IPv4 address or an IPv6 one in brackets.
 * Not empty (RFC 9110 4.2.1), no user, no path.
 */
bool http_authority_valid(struct slice authority) apart;
/*
 * Split "http://authority/path" (or https; the path may be missing) into its parts. False for
 * anything else.
 */
bool http_target_split(struct slice target, struct slice *authority, struct slice *path);

#endif
