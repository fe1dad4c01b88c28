/* SPDX-License-Identifier: Apache-2.0
 *
 * The meaning of a header field for a proxy. The parsers of heads determine it once, by the name,
 * and store it with the field. Pure functions over borrowed bytes; any thread.
 */
#pragma once

#include "common/base/base.h"

enum http_field {
    FIELD_OTHER,
    /* Hop-by-hop, framing, Proxy, or listed by Connection: never forwarded. */
    FIELD_HOP,
    FIELD_CONNECTION, /* not forwarded either */
    FIELD_FRAMING,    /* not forwarded either: Host, Content-Length */
    FIELD_OURS,       /* Resumelb-*: between load balancer and agent */
    FIELD_COOKIE,
    FIELD_FOR,   /* X-Forwarded-For */
    FIELD_PROTO, /* X-Forwarded-Proto */
    FIELD_FORWARDED_HOST,
    FIELD_FORWARDED, /* RFC 7239: as untrusted as the three above */
    /* Any other X-Forwarded-*, and X-Real-IP: applications take a scheme or an address from them */
    FIELD_CLAIM,
    FIELD_REQUEST_ID,
    FIELD_DATE,
    FIELD_SERVER,
    /* Forwarded unchanged; these have a kind only so that they can be found. */
    FIELD_REFERER,
    FIELD_USER_AGENT,
    FIELD_PRIORITY,           /* RFC 9218 */
    FIELD_CLIENT_CERTIFICATE, /* X-SSL-Client-*: set by a load balancer to describe the
                               * certificate */
};
/* A field of either message. HTTP/2 has names in lower case, HTTP/1 in any case. */
struct message_field {
    struct slice name;  /* as received */
    struct slice value; /* trimmed */
    enum http_field kind;
};
/* A set of kinds as a bit mask. */
#define FIELD_BIT(kind) (UINT32_C(1) << (kind))
/* Hop-by-hop, or framing. */
#define FIELDS_HOP (FIELD_BIT(FIELD_HOP) | FIELD_BIT(FIELD_CONNECTION) | FIELD_BIT(FIELD_FRAMING))

/* Fields that only a trusted proxy may state. */
#define FIELD_CLAIMS                                                                               \
    (FIELD_BIT(FIELD_FOR) | FIELD_BIT(FIELD_PROTO) | FIELD_BIT(FIELD_FORWARDED_HOST) |             \
     FIELD_BIT(FIELD_FORWARDED) | FIELD_BIT(FIELD_CLAIM) | FIELD_BIT(FIELD_REQUEST_ID) |           \
     FIELD_BIT(FIELD_CLIENT_CERTIFICATE))

/*
 * Names are compared without case, and '_' equals '-', as both are one variable for a CGI or WSGI
 * application. But a framing field spelled with '_' is FIELD_HOP, and User_Agent is FIELD_OTHER.
 */
enum http_field http_field_of(struct slice name);
/* Indexed by the length of a name: the set of first letters of known names (not FIELD_OTHER) with
 * that length, as a bit mask. The last entry is for all longer names. */
enum { FIELD_LENGTHS = 20 };
extern const uint32_t http_field_letters[FIELD_LENGTHS + 1];
/* http_field_of(), but most unknown names are recognized by their length and first letter. */
static inline enum http_field http_field_kind(struct slice name)
{
    uint32_t letters = http_field_letters[name.len < FIELD_LENGTHS ? name.len : FIELD_LENGTHS];

    if (letters == 0 || (letters >> (name.p[0] & 31) & 1) == 0)
        return FIELD_OTHER;
    return http_field_of(name);
}
