/* SPDX-License-Identifier: Apache-2.0
 *
 * What a header field is to a proxy: told by its name, once, by the parsers of heads, and kept
 * beside the field. Pure functions over borrowed bytes; any thread.
 */
#ifndef RLB_WIRE_HTTP_FIELD_H
#define RLB_WIRE_HTTP_FIELD_H

#include "common/base/base.h"

enum http_field {
    FIELD_OTHER,
    /* Concerns one connection only, is framing, or is Proxy: never passed on. */
    FIELD_HOP,
    FIELD_CONNECTION, /* that, too */
    FIELD_FRAMING,    /* and these: Host, Content-Length */
    FIELD_OURS,       /* Resumelb-*: between load balancer and agent */
    FIELD_COOKIE,
    FIELD_FOR,   /* X-Forwarded-For */
    FIELD_PROTO, /* X-Forwarded-Proto */
    FIELD_FORWARDED_HOST,
    FIELD_FORWARDED, /* RFC 7239: as little to be believed as the three above */
    /* Any other X-Forwarded-*, and X-Real-IP: applications take a scheme or an address from them */
    FIELD_CLAIM,
    FIELD_REQUEST_ID,
    FIELD_DATE,
    FIELD_SERVER,
    /* Nothing is done to these but that somebody looks for them. */
    FIELD_REFERER,
    FIELD_USER_AGENT,
    FIELD_CLIENT_CERTIFICATE, /* X-SSL-Client-*: what a load balancer says of that */
};
/* Several kinds as one number. */
#define FIELD_BIT(kind) (UINT32_C(1) << (kind))

/*
 * In any case, and with '_' for '-': to a CGI or WSGI application both are one variable. But
 * nothing is framing, or looked for, in that spelling.
 */
enum http_field http_field_of(struct slice name);
/* By a name's length: the letters that one of a field that is not FIELD_OTHER may begin with, each
 * a bit. Longer ones: as the last. */
enum { FIELD_LENGTHS = 20 };
extern const uint32_t http_field_letters[FIELD_LENGTHS + 1];
/* The same as http_field_of: most fields are told from the others by length and first letter. */
static inline enum http_field http_field_kind(struct slice name)
{
    uint32_t letters = http_field_letters[name.len < FIELD_LENGTHS ? name.len : FIELD_LENGTHS];

    if (letters == 0 || (letters >> (name.p[0] & 31) & 1) == 0)
        return FIELD_OTHER;
    return http_field_of(name);
}
/* Whether a field of that kind concerns one connection only, or is framing. */
static inline bool http_field_is_hop(enum http_field kind)
{
    return kind == FIELD_HOP || kind == FIELD_CONNECTION || kind == FIELD_FRAMING;
}

#endif
