/* SPDX-License-Identifier: Apache-2.0
 *
 * The SRV records (RFC 2782) of a DNS message. Values; any thread.
 */
#pragma once

#include "common/base/base.h"

enum {
    DNS_NAME_MAX = 253,
    DNS_SRV_MAX = 1024, /* records that are read; more indicate an error in the zone */
};

struct dns_srv {
    char target[DNS_NAME_MAX + 1]; /* letters, digits, '-', '_' and '.'; without a final dot */
    uint16_t priority, weight, port;
};

/*
 * Reads the records of the answer section of MESSAGE into OUT (room for DNS_SRV_MAX): sets *N, and
 * *TTL_S to the least time to live of all records of the section (UINT32_MAX: there are none).
 * Records with the target "." or an unusual name are left out. Returns false if MESSAGE is
 * malformed.
 */
bool dns_srv_parse(struct slice message, struct dns_srv *out, size_t *n,
                   uint32_t *ttl_s) must_check;
