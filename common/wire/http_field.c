/* SPDX-License-Identifier: Apache-2.0
 *
 * Each name is compared with the one or two known ones of its length. Names that are recognized by
 * a prefix, or spelled with '_', are handled out of line, because they are rare.
 */
#include "common/wire/http_field.h"

#include "common/wire/http1_bytes.h"

#define LETTER(c) (UINT32_C(1) << ((c)&31))

/* R for Resumelb-*, X for X-Forwarded-* and X-SSL-Client-*. */
const uint32_t http_field_letters[FIELD_LENGTHS + 1] = {
    [2] = LETTER('t'),
    [4] = LETTER('d') | LETTER('h'),
    [5] = LETTER('p'),
    [6] = LETTER('c') | LETTER('e') | LETTER('s'),
    [7] = LETTER('t') | LETTER('u') | LETTER('r'),
    [8] = LETTER('p'),
    [9] = LETTER('f') | LETTER('x') | LETTER('r'),
    [10] = LETTER('c') | LETTER('k') | LETTER('r') | LETTER('u'),
    [11] = LETTER('r'),
    [12] = LETTER('x') | LETTER('r'),
    [13] = LETTER('x') | LETTER('r'),
    [14] = LETTER('c') | LETTER('h') | LETTER('x') | LETTER('r'),
    [15] = LETTER('x') | LETTER('r'),
    [16] = LETTER('p') | LETTER('x') | LETTER('r'),
    [17] = LETTER('t') | LETTER('x') | LETTER('r'),
    [18] = LETTER('x') | LETTER('r'),
    [19] = LETTER('p') | LETTER('x') | LETTER('r'),
    [20] = LETTER('x') | LETTER('r'),
};

enum { LONGEST_NAME = 19 };

static bool begins_with(struct slice name, struct slice with)
{
    if (name.len < with.len)
        return false;
    for (size_t i = 0; i < with.len; ++i) {
        if (http1_variable_byte(name.p[i]) != with.p[i])
            return false;
    }
    return true;
}

/* The kind of a name that http_field_of() does not know as spelled: a prefix, or '_' for '-'. */
static noinline_ enum http_field unusual_field(struct slice name)
{
    char room[LONGEST_NAME];

    if (begins_with(name, SLICE_LIT("resumelb-")))
        return FIELD_OURS;
    if (name.len <= LONGEST_NAME && slice_find(name, '_') != SIZE_MAX) {
        /* The kind of the same name with '-' for '_'. */
        for (size_t i = 0; i < name.len; ++i)
            room[i] = http1_variable_byte(name.p[i]);
        enum http_field field = http_field_of((struct slice){room, name.len});

        if (field == FIELD_FRAMING)
            return FIELD_HOP;
        return field == FIELD_USER_AGENT ? FIELD_OTHER : field;
    }
    if (begins_with(name, SLICE_LIT("x-forwarded-")))
        return FIELD_CLAIM;
    return begins_with(name, SLICE_LIT("x-ssl-client-")) ? FIELD_CLIENT_CERTIFICATE : FIELD_OTHER;
}

#define IS(literal, field)                                                                         \
    if (SLICE_IS_WORD(name, literal))                                                              \
    return field

enum http_field http_field_of(struct slice name)
{
    switch (name.len) {
    case 2:
        IS("te", FIELD_HOP);
        break;
    case 4:
        IS("date", FIELD_DATE);
        IS("host", FIELD_FRAMING);
        break;
    case 5:
        /* "httpoxy": CGI-like interfaces make HTTP_PROXY of it, which many clients obey. */
        IS("proxy", FIELD_HOP);
        break;
    case 6:
        IS("server", FIELD_SERVER);
        IS("cookie", FIELD_COOKIE);
        IS("expect", FIELD_HOP);
        break;
    case 7:
        IS("trailer", FIELD_HOP);
        IS("upgrade", FIELD_HOP);
        IS("referer", FIELD_REFERER);
        break;
    case 8:
        IS("priority", FIELD_PRIORITY);
        break;
    case 9:
        IS("forwarded", FIELD_FORWARDED);
        IS("x-real-ip", FIELD_CLAIM);
        break;
    case 10:
        IS("connection", FIELD_CONNECTION);
        IS("keep-alive", FIELD_HOP);
        IS("user-agent", FIELD_USER_AGENT);
        break;
    case 12:
        IS("x-request-id", FIELD_REQUEST_ID);
        break;
    case 14:
        IS("content-length", FIELD_FRAMING);
        IS("http2-settings", FIELD_HOP);
        break;
    case 15:
        IS("x-forwarded-for", FIELD_FOR);
        break;
    case 16:
        IS("x-forwarded-host", FIELD_FORWARDED_HOST);
        IS("proxy-connection", FIELD_HOP);
        break;
    case 17:
        IS("x-forwarded-proto", FIELD_PROTO);
        IS("transfer-encoding", FIELD_HOP);
        break;
    case LONGEST_NAME:
        IS("proxy-authorization", FIELD_HOP);
        break;
    default:
        break;
    }
    return unusual_field(name);
}
