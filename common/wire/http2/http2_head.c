/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and values are copied into one piece of memory, in the order in which they come. When that
 * has to grow, the slices that refer to it are moved along: so each byte is copied once, unless a
 * section is unusually large.
 */
#include "common/wire/http2/http2_head.h"
#include "common/wire/http1_bytes.h"
#include "common/wire/http1_head.h"
#include "common/wire/http2/hpack.h"

#include <stdlib.h>

/* The kind of a field. */
enum http2_use {
    HTTP2_USE_METHOD,
    HTTP2_USE_SCHEME,
    HTTP2_USE_PATH,
    HTTP2_USE_AUTHORITY,
    HTTP2_USE_HOST,
    HTTP2_USE_LENGTH, /* Content-Length; its value is in struct http2_fields */
    HTTP2_USE_FIELD,  /* any other; and every field of trailers */
};

/* All zero is the start of a request's section; set TRAILERS for the one after its body. */
struct http2_fields {
    bool trailers;
    bool regular, connect, has_host;
    bool sized;              /* it has a Content-Length */
    uint64_t content_length; /* when sized */
    unsigned pseudo;         /* a bit, by enum http2_use, for each pseudo-header field so far */
};

/* ---- rules ---- */

/*
 * The rules for a field section of a request (RFC 9113 section 8): pseudo-header fields, each once
 * and before all others; names and values without forbidden bytes; no field that belongs to a
 * connection of HTTP/1; Content-Length once and numeric; Host equal to :authority.
 */

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

static enum request_fault take_pseudo(struct http2_fields *f, const struct hpack_field *field,
                                      bool checked, enum http2_use *use)
{
    enum http2_use p = 0;

    while (p < ARRAY_LEN(pseudo_names) && !slice_eq(pseudo_names[p], field->name))
        ++p;
    if (p == ARRAY_LEN(pseudo_names) || f->trailers || f->regular || has(f, p))
        return FAULT_PSEUDO_FIELD;
    if (!checked && !value_fits(p, field->value))
        return p == HTTP2_USE_METHOD ? FAULT_METHOD : FAULT_PSEUDO_FIELD;
    f->pseudo |= 1U << p;
    if (p == HTTP2_USE_METHOD)
        f->connect = slice_is(field->value, "CONNECT");
    *use = p;
    return FAULT_NONE;
}

/* ---- the others: sections 8.2, 8.2.1 and 8.2.2 ---- */

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
    for (size_t i = 0; i < field->name.len; ++i) {
        if (field->name.p[i] >= 'A' && field->name.p[i] <= 'Z')
            return FAULT_HEADER;
    }
    if (!http1_is_token(field->name) || !http1_is_text(field->value) ||
        slice_trim(field->value).len != field->value.len)
        return FAULT_HEADER;
    return is_of_connection(field) ? FAULT_CONNECTION_FIELD : FAULT_NONE;
}

static enum request_fault take_regular(struct http2_fields *f, const struct hpack_field *field,
                                       bool checked, enum http2_use *use)
{
    enum request_fault fault = checked ? FAULT_NONE : check_regular(field);

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

/*
 * Checks the next field of a section, in order. A field of the sender's dynamic table is checked
 * when it is used for the first time.
 *   checked  as given by hpack_decode
 *   use      set when FAULT_NONE is returned
 * Returns the first rule that the field violates. No more fields must be given after a fault.
 */
static enum request_fault check_field(struct http2_fields *f, const struct hpack_field *field,
                                      bool *checked, enum http2_use *use)
{
    bool pseudo = field->name.len != 0 && field->name.p[0] == ':';
    bool known = checked != NULL && *checked;
    enum request_fault fault =
        pseudo ? take_pseudo(f, field, known, use) : take_regular(f, field, known, use);

    if (fault == FAULT_NONE && checked != NULL)
        *checked = true;
    return fault;
}

/* ---- the whole: section 8.3.1, and 8.5 of CONNECT, which has neither scheme nor path ---- */

/*
 * Checks the section as a whole, after its last field.
 *   authority, host   values of :authority and Host; ignored if there was none
 */
static enum request_fault check_section(const struct http2_fields *f, struct slice authority,
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

/* ---- sections ---- */

enum {
    FIRST_BYTES = 2048,
    FIRST_FIELDS = 32,
    KEPT_BYTES_MAX = 16 * 1024, /* between sections */
    KEPT_FIELDS_MAX = 128,
};

/* A section while it is decoded. */
struct decoding {
    struct http2_scratch *scratch;
    struct http2_head *head;
    struct http2_fields rules;
    enum request_fault fault; /* the first; later fields are ignored then */
};

void http2_scratch_fini(struct http2_scratch *s)
{
    ASSERT(!s->busy);
    free(s->bytes);
    free(s->fields);
    *s = (struct http2_scratch){0};
}

/* ---- memory ---- */

static void move_slice(struct slice *s, const char *from, const char *to)
{
    if (s->p != NULL)
        s->p = to + (s->p - from);
}

void http2_head_move(struct http2_head *head, char *to)
{
    const char *from = head->bytes.p;
    struct slice *const parts[] = {&head->method,    &head->scheme, &head->path,
                                   &head->authority, &head->host,   &head->bytes};

    if (head->bytes.len != 0)
        memcpy(to, from, head->bytes.len);
    for (size_t i = 0; i < ARRAY_LEN(parts); ++i)
        move_slice(parts[i], from, to);
    for (size_t i = 0; i < head->nfields; ++i) {
        move_slice(&head->fields[i].name, from, to);
        move_slice(&head->fields[i].value, from, to);
    }
}

static void grow_bytes(struct decoding *d, size_t n)
{
    struct http2_scratch *s = d->scratch;
    size_t room = s->room == 0 ? FIRST_BYTES : 2 * s->room;

    while (room - s->len < n)
        room *= 2;
    char *bytes = xmalloc(room);
    http2_head_move(d->head, bytes);
    free(s->bytes);
    s->bytes = bytes;
    s->room = room;
    d->head->bytes.p = bytes;
}

/* A copy of S, in one piece with those before. */
static struct slice store(struct decoding *d, struct slice bytes)
{
    struct http2_scratch *s = d->scratch;

    if (s->room - s->len < bytes.len || s->room == 0)
        grow_bytes(d, bytes.len);
    char *at = s->bytes + s->len;
    if (bytes.len != 0)
        memcpy(at, bytes.p, bytes.len);
    s->len += bytes.len;
    d->head->bytes.len = s->len;
    return (struct slice){at, bytes.len};
}

static void store_field(struct decoding *d, const struct hpack_field *field)
{
    struct http2_scratch *s = d->scratch;

    if (d->head->nfields == s->fields_room) {
        s->fields_room = s->fields_room == 0 ? FIRST_FIELDS : 2 * s->fields_room;
        s->fields = xrealloc(s->fields, s->fields_room * sizeof(*s->fields));
        d->head->fields = s->fields;
    }
    struct http1_header *h = &s->fields[d->head->nfields++];
    *h = (struct http1_header){0};
    /* One at a time, as storing the value may move the name. */
    h->name = store(d, field->name);
    h->value = store(d, field->value);
    h->kind = http_field_kind(h->name);
    d->head->kinds |= FIELD_BIT(h->kind);
}

void http2_head_release(struct http2_scratch *s)
{
    ASSERT(s->busy);
    s->busy = false;
    s->len = 0;
    if (s->room > KEPT_BYTES_MAX) {
        free(s->bytes);
        s->bytes = NULL;
        s->room = 0;
    }
    if (s->fields_room > KEPT_FIELDS_MAX) {
        free(s->fields);
        s->fields = NULL;
        s->fields_room = 0;
    }
}

/* ---- fields ---- */

static void take_field(void *decoding, const struct hpack_field *field, bool *checked)
{
    struct decoding *d = decoding;
    struct http2_head *head = d->head;
    enum http2_use use;

    head->list_bytes += field->name.len + field->value.len + HPACK_FIELD_OVERHEAD;
    if (d->fault == FAULT_NONE)
        d->fault = check_field(&d->rules, field, checked, &use);
    if (d->fault != FAULT_NONE)
        return;
    switch (use) {
    case HTTP2_USE_METHOD:
        head->method = store(d, field->value);
        break;
    case HTTP2_USE_SCHEME:
        head->scheme = store(d, field->value);
        break;
    case HTTP2_USE_PATH:
        head->path = store(d, field->value);
        break;
    case HTTP2_USE_AUTHORITY:
        head->authority = store(d, field->value);
        break;
    case HTTP2_USE_HOST:
        head->host = store(d, field->value);
        break;
    case HTTP2_USE_LENGTH:
        break;
    case HTTP2_USE_FIELD:
        store_field(d, field);
        break;
    }
}

static enum request_fault end_section(struct decoding *d)
{
    struct http2_head *head = d->head;
    enum request_fault fault = d->fault;

    if (fault == FAULT_NONE)
        fault = check_section(&d->rules, head->authority, head->host);
    if (head->authority.p == NULL)
        head->authority = head->host;
    head->side.sized = d->rules.sized;
    head->side.left = d->rules.sized ? d->rules.content_length : 0;
    if (fault == FAULT_NONE && head->side.ended && head->side.left != 0)
        fault = FAULT_BODY_LENGTH;
    return fault;
}

enum request_fault http2_head_decode(struct http2_scratch *s, struct hpack *table,
                                     struct slice block, const struct hpack_limits *l,
                                     struct http2_head *out, enum request_fault *fault)
{
    struct decoding d = {.scratch = s, .head = out, .rules.trailers = out->trailers};

    ASSERT(!s->busy);
    ASSERT(s->len == 0);
    s->busy = true;
    *out = (struct http2_head){.stream = out->stream,
                               .trailers = out->trailers,
                               .side.ended = out->side.ended,
                               .fields = s->fields,
                               .weighted = out->weighted,
                               .priority = out->priority,
                               .bytes = {s->bytes, 0}};
    switch (hpack_decode(table, block, l, take_field, &d)) {
    case HPACK_OK:
        *fault = end_section(&d);
        return FAULT_NONE;
    case HPACK_MALFORMED:
        return FAULT_HTTP2_COMPRESSION;
    case HPACK_TOO_LARGE:
        return FAULT_HEADERS_TOO_LARGE;
    }
    UNREACHABLE();
}
