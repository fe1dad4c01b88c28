/* SPDX-License-Identifier: Apache-2.0
 *
 * The header by which a proxy in front tells whose connection it passes on: the PROXY protocol, in
 * its text (version 1) and binary form (version 2). Pure computation over borrowed bytes; any
 * thread.
 */
#ifndef RLB_WIRE_PROXY_LINE_H
#define RLB_WIRE_PROXY_LINE_H

#include "common/wire/http1_request.h"

enum {
    PROXY_LINE_TEXT_MAX = 107, /* of version 1, CRLF included: the protocol's own bound */
    /* Of version 2, all in all, where a length may say 65,551. Senders add names and certificates'
     * subjects to the addresses, not certificates. */
    PROXY_LINE_BINARY_MAX = 4096,
};

enum proxy_family {
    PROXY_NOBODY, /* the proxy's own connection, or one it cannot name: the socket's addresses hold
                   */
    PROXY_INET,
    PROXY_INET6,
    PROXY_UNIX, /* its paths mean nothing on this machine, and are left out */
};

struct proxy_line {
    size_t bytes; /* of the header; 0: it is not whole yet */
    enum proxy_family family;
    bool tls; /* the client has TLS with the proxy, which says so (version 2 only) */
    unsigned char source[16], destination[16]; /* 4 or 16 bytes, in network order */
    uint16_t source_port, destination_port;
};

/*
 * Read the header at the start of BYTES. What follows it is not looked at.
 *   out  with FAULT_NONE: the header, or bytes == 0 when more of it must come
 * Errors: FAULT_PROXY_MISSING: these bytes begin no such header (known with the first wrong one);
 * FAULT_PROXY_LINE: malformed; FAULT_PROXY_TOO_LONG; FAULT_PROXY_CHECKSUM: it has a CRC32c of its
 * own, and another one.
 * Source: "The PROXY protocol, versions 1 & 2", sections 2.1 and 2.2. Stricter than it: version 2
 * must have its records whole, even though nobody wants them, and at most one checksum and one
 * about TLS (PP2_TYPE_SSL, section 2.2.6), whose own records must be whole, too.
 */
enum request_fault proxy_line_check(struct slice bytes, struct proxy_line *out) must_check;

#endif
