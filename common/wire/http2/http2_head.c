/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and values are copied into one piece of memory, in the order in which they come. When that
 * has to grow, the slices that refer to it are moved along: so each byte is copied once, unless a
 * section is unusually large.
 */
#include "common/wire/http2/http2_head.h"

#include "common/wire/http2/http2_fields.h"

#include <stdlib.h>

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

static struct http1_header *add_field(struct decoding *d)
{
    struct http2_scratch *s = d->scratch;

    if (d->head->nfields == s->fields_room) {
        s->fields_room = s->fields_room == 0 ? FIRST_FIELDS : 2 * s->fields_room;
        s->fields = xrealloc(s->fields, s->fields_room * sizeof(*s->fields));
        d->head->fields = s->fields;
    }
    struct http1_header *new = &s->fields[d->head->nfields++];
    *new = (struct http1_header){0};
    return new;
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

static void store_field(struct decoding *d, const struct hpack_field *field)
{
    struct http1_header *h = add_field(d);

    /* One at a time, as storing the value may move the name. */
    h->name = store(d, field->name);
    h->value = store(d, field->value);
    h->kind = http_field_kind(h->name);
    d->head->kinds |= FIELD_BIT(h->kind);
}

static void take_field(void *decoding, const struct hpack_field *field,
                       const struct hpack_origin *o)
{
    struct decoding *d = decoding;
    struct http2_head *head = d->head;
    enum http2_use use;

    head->list_bytes += field->name.len + field->value.len + HPACK_FIELD_OVERHEAD;
    if (d->fault == FAULT_NONE)
        d->fault = http2_fields_take(&d->rules, field, o, &use);
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
        fault = http2_fields_end(&d->rules, head->authority, head->host);
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
