/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and values are copied into one piece of memory, in the order in which they come. When that
 * has to grow, the slices that refer to it are moved along: so each byte is copied once, unless a
 * section is unusually large.
 */
#include "common/wire/http2/http2_head.h"
#include "common/wire/http1_bytes.h"

#include <stdlib.h>

enum {
    FIRST_BYTES = 2048,
    RETAINED_BYTES_MAX = 16 * 1024, /* between sections */
    RETAINED_FIELDS_MAX = 128,
};

/* A section while it is decoded. */
struct head_decoding {
    struct http2_scratch *scratch;
    struct http2_head *head;
    bool regular;             /* after the pseudo-header fields */
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

/* Copies BYTES into the scratch memory, behind those of the section so far. Returns the copy. */
static struct slice http2_head_store(struct head_decoding *d, struct slice bytes)
{
    struct http2_scratch *s = d->scratch;
    size_t room = s->room == 0 ? FIRST_BYTES : s->room;

    while (room - s->len < bytes.len)
        room *= 2;
    if (room != s->room) {
        char *grown = xmalloc(room);
        http2_head_move(d->head, grown);
        free(s->bytes);
        s->bytes = grown;
        s->room = room;
        d->head->bytes.p = grown;
    }
    char *at = s->bytes + s->len;
    if (bytes.len != 0)
        memcpy(at, bytes.p, bytes.len);
    s->len += bytes.len;
    d->head->bytes.len = s->len;
    return (struct slice){at, bytes.len};
}

/* ---- rules ---- */

/*
 * The rules for a field section of a request (RFC 9113 section 8): pseudo-header fields, each once
 * and before all others; names and values without forbidden bytes; no field that belongs to a
 * connection of HTTP/1; Content-Length once and numeric; Host the same as :authority.
 */

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

/* AUTHORITY without an empty port, and without the default port of SCHEME. */
static struct slice without_port(struct slice authority, struct slice scheme)
{
    struct slice port =
        slice_eq_nocase(scheme, SLICE_LIT("https")) ? SLICE_LIT(":443") : SLICE_LIT(":80");

    if (slice_ends(authority, SLICE_LIT(":")))
        port = SLICE_LIT(":");
    if (slice_ends(authority, port))
        authority.len -= port.len;
    return authority;
}

/* Section 8.3.1: Host and :authority are the same after normalization by the scheme. */
static bool hosts_differ(const struct http2_head *h)
{
    return h->host.p != NULL && h->authority.p != NULL &&
           !slice_eq_nocase(without_port(h->host, h->scheme),
                            without_port(h->authority, h->scheme));
}

static bool is_path(struct slice s)
{
    return s.len != 0 && http1_is_text(s);
}

/* Section 8.3. FITS: whether a value is well-formed. What a well-formed one may ask for is checked
 * later. */
static const struct pseudo_field {
    struct slice name;
    size_t offset; /* in struct http2_head */
    bool (*fits)(struct slice value);
    enum request_fault fault;
} pseudo_fields[] = {
    {{":method", 7}, offsetof(struct http2_head, method), http1_is_token, FAULT_METHOD},
    {{":scheme", 7}, offsetof(struct http2_head, scheme), is_scheme, FAULT_PSEUDO_FIELD},
    {{":path", 5}, offsetof(struct http2_head, path), is_path, FAULT_PSEUDO_FIELD},
    {{":authority", 10}, offsetof(struct http2_head, authority), http1_is_text, FAULT_PSEUDO_FIELD},
};

static enum request_fault take_pseudo(struct head_decoding *d, const struct hpack_field *field,
                                      bool checked)
{
    const struct pseudo_field *p = pseudo_fields;

    while (p != pseudo_fields + ARRAY_LEN(pseudo_fields) && !slice_eq(p->name, field->name))
        ++p;
    if (p == pseudo_fields + ARRAY_LEN(pseudo_fields) || d->head->trailers || d->regular)
        return FAULT_PSEUDO_FIELD;
    struct slice *value = (void *)((char *)d->head + p->offset);
    if (value->p != NULL)
        return FAULT_PSEUDO_FIELD;
    if (!checked && !p->fits(field->value))
        return p->fault;
    *value = http2_head_store(d, field->value);
    return FAULT_NONE;
}

/* Sections 8.2, 8.2.1 and 8.2.2. */
static enum request_fault check_regular(const struct hpack_field *field)
{
    static const char *const of_connection[] = {"connection",       "keep-alive",
                                                "proxy-connection", "transfer-encoding",
                                                "upgrade",          "http2-settings"};

    for (size_t i = 0; i < field->name.len; ++i) {
        if (field->name.p[i] >= 'A' && field->name.p[i] <= 'Z')
            return FAULT_HEADER;
    }
    if (!http1_is_token(field->name) || !http1_is_text(field->value) ||
        slice_trim(field->value).len != field->value.len)
        return FAULT_HEADER;
    for (size_t i = 0; i < ARRAY_LEN(of_connection); ++i) {
        if (slice_is(field->name, of_connection[i]))
            return FAULT_CONNECTION_FIELD;
    }
    return slice_is(field->name, "te") && !slice_eq_nocase(field->value, SLICE_LIT("trailers"))
               ? FAULT_CONNECTION_FIELD
               : FAULT_NONE;
}

static enum request_fault take_regular(struct head_decoding *d, const struct hpack_field *field,
                                       bool checked)
{
    enum request_fault fault = checked ? FAULT_NONE : check_regular(field);
    struct http2_scratch *s = d->scratch;
    struct http2_head *head = d->head;
    struct http2_side *side = &head->side;

    d->regular = true;
    if (fault != FAULT_NONE)
        return fault;
    if (!head->trailers && slice_is(field->name, "content-length")) {
        if (side->sized)
            return FAULT_LENGTH_REPEATED;
        side->sized = true;
        return parse_u64(field->value, UINT64_MAX - 1, &side->left) ? FAULT_NONE : FAULT_LENGTH;
    }
    if (!head->trailers && slice_is(field->name, "host")) {
        if (head->host.p != NULL)
            return FAULT_HOST_REPEATED;
        head->host = http2_head_store(d, field->value);
        return FAULT_NONE;
    }
    s->fields = xgrow(s->fields, head->nfields + 1, &s->fields_room, sizeof(*s->fields));
    head->fields = s->fields;
    struct message_field *h = &s->fields[head->nfields++];
    /* Both are set one at a time, as storing a part may move all that are stored. */
    *h = (struct message_field){0};
    h->name = http2_head_store(d, field->name);
    h->value = http2_head_store(d, field->value);
    h->kind = http_field_kind(h->name);
    head->kinds |= FIELD_BIT(h->kind);
    return FAULT_NONE;
}

/* A field of the sender's dynamic table is checked when it is used for the first time. */
static void take_field(void *decoding, const struct hpack_field *field, bool *checked)
{
    struct head_decoding *d = decoding;
    bool pseudo = field->name.len != 0 && field->name.p[0] == ':';
    bool known = checked != NULL && *checked;

    d->head->list_bytes += field->name.len + field->value.len + HPACK_FIELD_OVERHEAD;
    if (d->fault != FAULT_NONE)
        return;
    d->fault = pseudo ? take_pseudo(d, field, known) : take_regular(d, field, known);
    if (d->fault == FAULT_NONE && checked != NULL)
        *checked = true;
}

enum request_fault http2_head_decode(struct http2_scratch *s, struct hpack *table,
                                     struct slice block, const struct hpack_limits *l,
                                     struct http2_head *out, enum request_fault *fault)
{
    struct head_decoding d = {.scratch = s, .head = out};

    ASSERT(!s->busy);
    ASSERT(s->len == 0);
    s->busy = true;
    ASSERT(out->nfields == 0);
    out->fields = s->fields;
    out->bytes = (struct slice){s->bytes, 0};
    enum request_fault unusable = hpack_decode(table, block, l, take_field, &d);
    if (unusable != FAULT_NONE)
        return unusable;
    *fault = d.fault;
    if (d.fault == FAULT_NONE && !out->trailers) {
        /* Section 8.3.1, and 8.5 of CONNECT, which has neither scheme nor path. */
        bool scheme = out->scheme.p != NULL;
        bool path = out->path.p != NULL;
        bool whole = slice_is(out->method, "CONNECT") ? !scheme && !path : scheme && path;

        if (out->method.p == NULL || !whole)
            *fault = FAULT_PSEUDO_FIELD;
        else if (hosts_differ(out))
            *fault = FAULT_AUTHORITY;
        else if (out->side.ended && out->side.left != 0)
            *fault = FAULT_BODY_LENGTH;
    }
    if (out->authority.p == NULL)
        out->authority = out->host;
    return FAULT_NONE;
}

void http2_head_release(struct http2_scratch *s)
{
    ASSERT(s->busy);
    s->busy = false;
    s->len = 0;
    if (s->room > RETAINED_BYTES_MAX) {
        free(s->bytes);
        s->bytes = NULL;
        s->room = 0;
    }
    if (s->fields_room > RETAINED_FIELDS_MAX) {
        free(s->fields);
        s->fields = NULL;
        s->fields_room = 0;
    }
}
