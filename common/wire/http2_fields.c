/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/http2_fields.h"

#include "common/wire/http1_bytes.h"

enum pseudo { PSEUDO_METHOD, PSEUDO_SCHEME, PSEUDO_PATH, PSEUDO_AUTHORITY, PSEUDOS };

static const struct slice pseudo_names[PSEUDOS] = {
    [PSEUDO_METHOD] = {":method", 7},
    [PSEUDO_SCHEME] = {":scheme", 7},
    [PSEUDO_PATH] = {":path", 5},
    [PSEUDO_AUTHORITY] = {":authority", 10},
};

static bool has(const struct http2_fields *f, enum pseudo p)
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

/* Which values make a request malformed; what a well-formed one may not ask for is said later. */
static bool value_fits(enum pseudo p, struct slice value)
{
    switch (p) {
    case PSEUDO_METHOD:
        return http1_is_token(value);
    case PSEUDO_SCHEME:
        return is_scheme(value);
    case PSEUDO_PATH:
        return value.len != 0 && http1_is_text(value);
    case PSEUDO_AUTHORITY:
        return http1_is_text(value);
    case PSEUDOS:
        break;
    }
    UNREACHABLE();
}

/* What was told by the sender's table has been looked at before. */
static bool is_checked(const struct hpack_origin *o)
{
    return o->mark != NULL && o->mark->checked;
}

static void write_field(struct http2_fields *f, struct text *part, const struct hpack_field *field,
                        const struct hpack_origin *o)
{
    hpack_write(f->writer, part, field, o);
    if (o->mark != NULL)
        o->mark->checked = true;
}

static enum request_fault take_pseudo(struct http2_fields *f, const struct hpack_field *field,
                                      const struct hpack_origin *o)
{
    enum pseudo p = 0;

    while (p < PSEUDOS && !slice_eq(pseudo_names[p], field->name))
        ++p;
    if (p == PSEUDOS || f->trailers || f->regular || has(f, p))
        return FAULT_PSEUDO_FIELD;
    if (!is_checked(o) && !value_fits(p, field->value))
        return p == PSEUDO_METHOD ? FAULT_METHOD : FAULT_PSEUDO_FIELD;
    f->pseudo |= 1U << p;
    if (p == PSEUDO_METHOD)
        f->connect = slice_is(field->value, "CONNECT");
    if (p == PSEUDO_AUTHORITY)
        text_add(&f->authority, field->value);
    write_field(f, &f->pseudos, field, o);
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

static enum request_fault take_host(struct http2_fields *f, struct slice value)
{
    if (f->has_host)
        return FAULT_HOST_REPEATED;
    f->has_host = true;
    text_add(&f->host, value);
    return FAULT_NONE;
}

static enum request_fault check_regular(const struct hpack_field *field)
{
    if (!is_lower_token(field->name) || !http1_is_text(field->value) ||
        slice_trim(field->value).len != field->value.len)
        return FAULT_HEADER;
    return is_of_connection(field) ? FAULT_CONNECTION_FIELD : FAULT_NONE;
}

static enum request_fault take_regular(struct http2_fields *f, const struct hpack_field *field,
                                       const struct hpack_origin *o)
{
    enum request_fault fault = is_checked(o) ? FAULT_NONE : check_regular(field);

    f->regular = true;
    if (fault != FAULT_NONE)
        return fault;
    if (f->trailers)
        return FAULT_NONE;
    if (slice_is(field->name, "host"))
        return take_host(f, field->value);
    /* The reader counts for itself; and of a body that is too large it gets none. */
    if (slice_is(field->name, "content-length"))
        return take_length(f, field->value);
    write_field(f, &f->regulars, field, o);
    return FAULT_NONE;
}

void http2_fields_take(void *fields, const struct hpack_field *field, const struct hpack_origin *o)
{
    struct http2_fields *f = fields;

    if (f->fault != FAULT_NONE)
        return;
    if (field->name.len != 0 && field->name.p[0] == ':')
        f->fault = take_pseudo(f, field, o);
    else
        f->fault = take_regular(f, field, o);
}

/* ---- all of them ---- */

/* Section 8.3.1, and 8.5 of CONNECT, which has neither scheme nor path. */
static enum request_fault check_pseudos(struct http2_fields *f)
{
    bool scheme = has(f, PSEUDO_SCHEME);
    bool path = has(f, PSEUDO_PATH);
    bool whole = f->connect ? !scheme && !path : scheme && path;

    if (!has(f, PSEUDO_METHOD) || !whole)
        return FAULT_PSEUDO_FIELD;
    if (f->has_host && has(f, PSEUDO_AUTHORITY) &&
        !slice_eq_nocase(text_slice(&f->host), text_slice(&f->authority)))
        return FAULT_AUTHORITY;
    return FAULT_NONE;
}

/* Of who has told it by Host alone. */
static void put_authority(const struct http2_fields *f, struct text *out)
{
    struct hpack_field field = {pseudo_names[PSEUDO_AUTHORITY], text_slice(&f->host)};

    if (!has(f, PSEUDO_AUTHORITY) && f->has_host)
        hpack_put_literal(out, &field);
}

enum request_fault http2_fields_end(struct http2_fields *f, struct text *out)
{
    if (f->fault == FAULT_NONE && !f->trailers)
        f->fault = check_pseudos(f);
    if (f->fault != FAULT_NONE || f->trailers)
        return f->fault;
    text_add(out, text_slice(&f->pseudos));
    if (f->connect) {
        /* No form that anybody here takes: so it is refused by an answer. */
        hpack_put_literal(out,
                          &(struct hpack_field){pseudo_names[PSEUDO_SCHEME], SLICE_LIT("https")});
        hpack_put_literal(out, &(struct hpack_field){pseudo_names[PSEUDO_PATH], SLICE_LIT("*")});
    }
    put_authority(f, out);
    text_add(out, text_slice(&f->regulars));
    return FAULT_NONE;
}
