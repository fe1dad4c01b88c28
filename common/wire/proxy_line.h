/* SPDX-License-Identifier: Apache-2.0
 *
 * The PROXY protocol header, in which a proxy in front reports the addresses of the connection that
 * it forwards, in text (version 1) and binary form (version 2). Pure computation over borrowed
 * bytes; any thread.
 */
#pragma once

#include "common/wire/http1_head.h"

enum {
    PROXY_LINE_TEXT_MAX = 107, /* for version 1, CRLF included: the protocol's own limit */
    /* For version 2, in total; the length field allows 65,551. Senders add names and subjects of
     * certificates to the addresses, but not certificates. */
    PROXY_LINE_BINARY_MAX = 4096,
};

/* As in version 2. */
enum proxy_family {
    PROXY_UNKNOWN, /* a connection of the proxy itself, or one that it cannot name: use the
                    * socket's addresses */
    PROXY_INET,
    PROXY_INET6,
    PROXY_UNIX, /* the paths are meaningless on this machine and are omitted */
};

struct proxy_line {
    size_t bytes; /* of the header; 0: it is incomplete */
    enum proxy_family family;
    bool tls; /* the client uses TLS to the proxy, as that reports (version 2 only) */
    unsigned char source[16], destination[16]; /* 4 or 16 bytes, in network byte order */
    uint16_t source_port, destination_port;
};

/*
 * Parses the header at the start of BYTES. The bytes after it are not examined.
 *   out  set on FAULT_NONE: the header, or bytes == 0 if more bytes are needed
 * Errors: FAULT_PROXY_MISSING if BYTES do not begin with such a header (detected at the first wrong
 * byte); FAULT_PROXY_LINE if it is malformed; FAULT_PROXY_TOO_LONG; FAULT_PROXY_CHECKSUM if its
 * CRC32c is wrong.
 *
 * Source: "The PROXY protocol, versions 1 & 2", sections 2.1 and 2.2. Stricter than the
 * specification: version 2 must have complete records, even though their content is not used, with
 * at most one checksum and one TLS record (PP2_TYPE_SSL, section 2.2.6), of complete records too.
 */
enum request_fault proxy_line_check(struct slice bytes, struct proxy_line *out) must_check;
