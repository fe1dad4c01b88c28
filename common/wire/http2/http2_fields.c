/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/http2/http2_fields.h"

#include "common/wire/http1_bytes.h"

static const struct slice pseudo_names[] = {
    [HTTP2_USE_METHOD] = {":method", 7},
    [HTTP2_USE_SCHEME] = {":scheme", 7},
    [HTTP2_USE_PATH] = {":path", 5},
    [HTTP2_USE_AUTHORITY] = {":authority", 10},
};

static bool has(const struct http2_fields *f, enum http2_use p)
{
    return (f->pseudo & 1U << p) != 0;
}

/* ---- pseudo-header fields: section 8.3 ---- */

/* RFC 3986 section 3.1. */
static bool is_scheme(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        char c = ascii_lower(s.p[i]);
        bool letter = c >= 'a' && c <= 'z';
        bool other = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
        if (!letter && (i == 0 || !other))
            return false;
    }
    return s.len != 0;
}

/* Which values make a request malformed. What a well-formed one may ask for is checked later. */
static bool value_fits(enum http2_use p, struct slice value)
{
    switch (p) {
    case HTTP2_USE_METHOD:
        return http1_is_token(value);
    case HTTP2_USE_SCHEME:
        return is_scheme(value);
    case HTTP2_USE_PATH:
        return value.len != 0 && http1_is_text(value);
    case HTTP2_USE_AUTHORITY:
        return http1_is_text(value);
    case HTTP2_USE_HOST:
    case HTTP2_USE_LENGTH:
    case HTTP2_USE_FIELD:
        break;
    }
    UNREACHABLE();
}

/* A field of the sender's dynamic table is checked when it is used for the first time. */
static bool is_checked(const struct hpack_origin *o)
{
    return o->mark != NULL && o->mark->checked;
}

static enum request_fault take_pseudo(struct http2_fields *f, const struct hpack_field *field,
                                      const struct hpack_origin *o, enum http2_use *use)
{
    enum http2_use p = 0;

    while (p < ARRAY_LEN(pseudo_names) && !slice_eq(pseudo_names[p], field->name))
        ++p;
    if (p == ARRAY_LEN(pseudo_names) || f->trailers || f->regular || has(f, p))
        return FAULT_PSEUDO_FIELD;
    if (!is_checked(o) && !value_fits(p, field->value))
        return p == HTTP2_USE_METHOD ? FAULT_METHOD : FAULT_PSEUDO_FIELD;
    f->pseudo |= 1U << p;
    if (p == HTTP2_USE_METHOD)
        f->connect = slice_is(field->value, "CONNECT");
    *use = p;
    return FAULT_NONE;
}

/* ---- the others: sections 8.2, 8.2.1 and 8.2.2 ---- */

static bool is_lower_token(struct slice name)
{
    for (size_t i = 0; i < name.len; ++i) {
        if (name.p[i] >= 'A' && name.p[i] <= 'Z')
            return false;
    }
    return http1_is_token(name);
}

static bool is_of_connection(const struct hpack_field *field)
{
    static const char *const names[] = {"connection",        "keep-alive", "proxy-connection",
                                        "transfer-encoding", "upgrade",    "http2-settings"};

    for (size_t i = 0; i < ARRAY_LEN(names); ++i) {
        if (slice_is(field->name, names[i]))
            return true;
    }
    return slice_is(field->name, "te") &&
           !slice_eq_nocase(slice_trim(field->value), SLICE_LIT("trailers"));
}

static enum request_fault take_length(struct http2_fields *f, struct slice value)
{
    if (f->sized)
        return FAULT_LENGTH_REPEATED;
    f->sized = true;
    /* Digits alone: RFC 9110 section 8.6. */
    for (size_t i = 0; i < value.len; ++i) {
        if (value.p[i] < '0' || value.p[i] > '9')
            return FAULT_LENGTH;
    }
    return parse_u64(value, UINT64_MAX - 1, &f->content_length) ? FAULT_NONE : FAULT_LENGTH;
}

static enum request_fault check_regular(const struct hpack_field *field)
{
    if (!is_lower_token(field->name) || !http1_is_text(field->value) ||
        slice_trim(field->value).len != field->value.len)
        return FAULT_HEADER;
    return is_of_connection(field) ? FAULT_CONNECTION_FIELD : FAULT_NONE;
}

static enum request_fault take_regular(struct http2_fields *f, const struct hpack_field *field,
                                       const struct hpack_origin *o, enum http2_use *use)
{
    enum request_fault fault = is_checked(o) ? FAULT_NONE : check_regular(field);

    f->regular = true;
    *use = HTTP2_USE_FIELD;
    if (fault != FAULT_NONE || f->trailers)
        return fault;
    if (slice_is(field->name, "host")) {
        fault = f->has_host ? FAULT_HOST_REPEATED : FAULT_NONE;
        f->has_host = true;
        *use = HTTP2_USE_HOST;
    } else if (slice_is(field->name, "content-length")) {
        fault = take_length(f, field->value);
        *use = HTTP2_USE_LENGTH;
    }
    return fault;
}

enum request_fault http2_fields_take(struct http2_fields *f, const struct hpack_field *field,
                                     const struct hpack_origin *o, enum http2_use *use)
{
    bool pseudo = field->name.len != 0 && field->name.p[0] == ':';
    enum request_fault fault =
        pseudo ? take_pseudo(f, field, o, use) : take_regular(f, field, o, use);

    if (fault == FAULT_NONE && o->mark != NULL)
        o->mark->checked = true;
    return fault;
}

/* ---- the whole: section 8.3.1, and 8.5 of CONNECT, which has neither scheme nor path ---- */

enum request_fault http2_fields_end(const struct http2_fields *f, struct slice authority,
                                    struct slice host)
{
    bool scheme = has(f, HTTP2_USE_SCHEME);
    bool path = has(f, HTTP2_USE_PATH);
    bool whole = f->connect ? !scheme && !path : scheme && path;

    if (f->trailers)
        return FAULT_NONE;
    if (!has(f, HTTP2_USE_METHOD) || !whole)
        return FAULT_PSEUDO_FIELD;
    if (f->has_host && has(f, HTTP2_USE_AUTHORITY) && !slice_eq_nocase(host, authority))
        return FAULT_AUTHORITY;
    return FAULT_NONE;
}
