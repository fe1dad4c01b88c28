/* SPDX-License-Identifier: Apache-2.0
 *
 * Header fields of messages that a proxy passes on: what each is, and how it is written. Pure
 * functions over what they are given; any thread.
 */
#ifndef RLB_NET_HTTP_FIELDS_H
#define RLB_NET_HTTP_FIELDS_H

#include "common/base/text.h"
#include "common/wire/http1_head.h"

struct message_fields; /* http_request.h */

enum http_field {
    FIELD_OTHER,
    FIELD_HOP,        /* concerns one connection only, or is framing: never passed on */
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

/* Whether a Connection field of the request, or of the response, lists NAME. */
bool http_request_lists(const struct message_fields *fields, struct slice name);
bool http_response_lists(const struct http1_head *head, struct slice name);

/* One line of a head. */
void http_put_field(struct text *out, struct slice name, struct slice value);
/* Content-Length, for a request with a body (NULL: none) or whose method announces one even when
 * empty. */
void http_put_length(struct slice method, struct slice body, struct text *out);

#endif
