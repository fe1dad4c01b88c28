/* SPDX-License-Identifier: Apache-2.0
 *
 * An owner of an HTTP/2 reader that writes down what is reported, one line per event, so that two
 * readings can be compared. Pieces of one DATA frame are joined. It checks what must hold for any
 * input. Streams are in a small table, as a connection would have them.
 */
#pragma once

#include "common/wire/http2/http2_reader.h"

#include <stdlib.h>

enum { HTTP2_OWNER_STREAMS_MAX = 64 };

struct http2_owner_stream {
    uint32_t id;
    struct http2_side side;
};

struct http2_owner {
    /* What it does; all zero is usual. */
    bool no_frames;       /* frames are not written down */
    bool discards;        /* it does not need the rest of any request */
    bool forgets;         /* it drops every stream at once */
    unsigned frames_max;  /* it rejects the first one after so many; 0: never */
    unsigned fails_after; /* events, counted without frame; 0: never */
    /* What came. */
    struct text log;
    struct text body;     /* of the DATA frame in progress */
    uint32_t body_stream; /* of that; 0: none */
    size_t body_flow;
    bool body_discarded, body_ends;
    unsigned events, frames;
    struct slice input; /* of the present call */
    uint32_t last_request;
    struct http2_reader *reader;
    struct http2_scratch scratch;
    size_t nstreams;
    struct http2_owner_stream streams[HTTP2_OWNER_STREAMS_MAX];
};

static inline struct http2_owner_stream *http2_owner_find(struct http2_owner *o, uint32_t id)
{
    for (size_t i = 0; i < o->nstreams; ++i) {
        if (o->streams[i].id == id)
            return &o->streams[i];
    }
    return NULL;
}

static inline void http2_owner_drop(struct http2_owner *o, uint32_t id)
{
    struct http2_owner_stream *s = http2_owner_find(o, id);

    if (s != NULL)
        *s = o->streams[--o->nstreams];
}

static inline enum request_fault http2_owner_add(struct http2_owner *o, uint32_t id,
                                                 struct http2_side side)
{
    ASSERT(http2_owner_find(o, id) == NULL);
    if (side.ended || o->forgets)
        return FAULT_NONE;
    if (o->nstreams == HTTP2_OWNER_STREAMS_MAX)
        return FAULT_FRAMES_STREAMS;
    o->streams[o->nstreams++] = (struct http2_owner_stream){id, side};
    return FAULT_NONE;
}

/* ---- writing down ---- */

static inline void http2_owner_flush(struct http2_owner *o)
{
    if (o->body_stream == 0)
        return;
    text_addf(&o->log, "%s %u", o->body_discarded ? "discard" : "data", o->body_stream);
    if (o->body.len != 0) {
        text_add_char(&o->log, ' ');
        text_add_escaped(&o->log, text_slice(&o->body));
    }
    if (o->body_flow != o->body.len)
        text_addf(&o->log, " +%zu", o->body_flow - o->body.len);
    text_addf(&o->log, "%s\n", o->body_ends ? " ends" : "");
    text_clear(&o->body);
    o->body_stream = 0;
    o->body_flow = 0;
    o->body_ends = o->body_discarded = false;
}

static inline enum request_fault http2_owner_count(struct http2_owner *o)
{
    return ++o->events == o->fails_after ? FAULT_FRAMES_RESETS : FAULT_NONE;
}

static inline void http2_owner_add_part(struct http2_owner *o, const struct http2_head *head,
                                        struct slice s)
{
    text_add_char(&o->log, ' ');
    if (s.p == NULL)
        text_add_char(&o->log, '-');
    else
        ASSERT(s.p >= head->bytes.p && s.p + s.len <= head->bytes.p + head->bytes.len);
    text_add_escaped(&o->log, s);
}

static inline void http2_owner_add_head(struct http2_owner *o, const struct http2_head *head)
{
    uint32_t kinds = 0;

    for (size_t i = 0; i < head->nfields; ++i) {
        const struct message_field *h = &head->fields[i];

        http2_owner_add_part(o, head, h->name);
        text_add_char(&o->log, ':');
        http2_owner_add_part(o, head, h->value);
        ASSERT(h->kind == http_field_kind(h->name));
        kinds |= FIELD_BIT(h->kind);
    }
    ASSERT(kinds == head->kinds);
    if (head->side.sized)
        text_addf(&o->log, " length %ju", (uintmax_t)head->side.left);
    if (head->weighted)
        text_addf(&o->log, " weight %u of %u%s", head->priority.weight, head->priority.depends_on,
                  head->priority.exclusive ? " exclusive" : "");
    text_addf(&o->log, "%s\n", head->side.ended ? " ends" : "");
}

static inline void http2_owner_add_request(struct http2_owner *o, const struct http2_head *head)
{
    http2_owner_add_part(o, head, head->method);
    http2_owner_add_part(o, head, head->scheme);
    http2_owner_add_part(o, head, head->authority);
    http2_owner_add_part(o, head, head->path);
    http2_owner_add_head(o, head);
}

/* ---- events ---- */

static struct http2_side *http2_owner_side(void *owner, uint32_t stream)
{
    struct http2_owner_stream *s = http2_owner_find(owner, stream);

    ASSERT((stream & 1) != 0);
    return s != NULL ? &s->side : NULL;
}

static enum request_fault http2_owner_frame(void *owner, const struct http2_frame_head *h)
{
    struct http2_owner *o = owner;

    http2_owner_flush(o);
    ASSERT(h->len <= HTTP2_FRAME_ACCEPTED);
    if (!o->no_frames)
        text_addf(&o->log, "frame %u %x %zu %u\n", h->type, h->flags, h->len, h->stream);
    return o->frames_max != 0 && ++o->frames > o->frames_max ? FAULT_FRAMES_UNKNOWN : FAULT_NONE;
}

static enum request_fault http2_owner_request(void *owner, struct http2_head *head)
{
    struct http2_owner *o = owner;
    struct http2_side side = head->side;

    ASSERT(head->stream > o->last_request);
    ASSERT(head->method.len != 0);
    ASSERT(!side.ended || !side.sized || side.left == 0);
    o->last_request = head->stream;
    ASSERT(http2_reader_last_stream(o->reader) == head->stream);
    text_addf(&o->log, "request %u", head->stream);
    http2_owner_add_request(o, head);
    side.discard = o->discards;
    enum request_fault f = http2_owner_add(o, head->stream, side);
    return f != FAULT_NONE ? f : http2_owner_count(o);
}

static enum request_fault http2_owner_malformed(void *owner, uint32_t stream,
                                                struct http2_side *side, struct http2_head *head,
                                                enum request_fault fault)
{
    struct http2_owner *o = owner;
    enum request_fault f = FAULT_NONE;

    ASSERT(fault != FAULT_NONE);
    ASSERT(http2_error_of(fault) == HTTP2_ERROR_PROTOCOL);
    ASSERT((side == NULL) != (head == NULL));
    text_addf(&o->log, "malformed %u: %s", stream, request_fault_text(fault));
    if (head != NULL) {
        struct http2_side first = head->side;

        ASSERT(stream > o->last_request);
        o->last_request = stream;
        text_addf(&o->log, "%s\n", first.ended ? ", ends" : "");
        first.discard = true;
        f = http2_owner_add(o, stream, first);
    } else {
        ASSERT(side->discard);
        text_addf(&o->log, "%s\n", side->ended ? ", ends" : "");
        if (side->ended)
            http2_owner_drop(o, stream);
    }
    return f != FAULT_NONE ? f : http2_owner_count(o);
}

static enum request_fault http2_owner_data(void *owner, const struct http2_data *d)
{
    struct http2_owner *o = owner;
    bool discarded = d->side == NULL || d->side->discard;

    ASSERT(d->flow != 0 || d->ends);
    ASSERT(d->bytes.len <= d->flow);
    ASSERT(!discarded || d->bytes.p == NULL);
    ASSERT(discarded || d->side->ended == d->ends);
    ASSERT(o->body_stream == 0 || (o->body_stream == d->stream && !o->body_ends));
    if (d->bytes.len != 0) {
        ASSERT(d->bytes.p >= o->input.p);
        ASSERT(d->bytes.p + d->bytes.len <= o->input.p + o->input.len);
    }
    o->body_stream = d->stream;
    o->body_flow += d->flow;
    o->body_ends = d->ends;
    o->body_discarded = discarded;
    text_add(&o->body, d->bytes);
    if (!d->ends)
        return FAULT_NONE;
    http2_owner_flush(o);
    http2_owner_drop(o, d->stream);
    return http2_owner_count(o);
}

static enum request_fault http2_owner_trailers(void *owner, struct http2_side *side,
                                               struct http2_head *head)
{
    struct http2_owner *o = owner;

    ASSERT(side->ended);
    ASSERT(!side->discard);
    ASSERT(!side->sized || side->left == 0);
    text_addf(&o->log, "trailers %u", head->stream);
    http2_owner_add_head(o, head);
    http2_owner_drop(o, head->stream);
    return http2_owner_count(o);
}

static enum request_fault http2_owner_reset(void *owner, uint32_t stream, uint32_t code)
{
    struct http2_owner *o = owner;

    text_addf(&o->log, "reset %u %u\n", stream, code);
    http2_owner_drop(o, stream);
    return http2_owner_count(o);
}

static enum request_fault http2_owner_window(void *owner, uint32_t stream, uint32_t amount)
{
    struct http2_owner *o = owner;

    ASSERT(amount != 0);
    text_addf(&o->log, "window %u %u\n", stream, amount);
    return http2_owner_count(o);
}

static enum request_fault http2_owner_setting(void *owner, unsigned id, uint32_t value)
{
    struct http2_owner *o = owner;

    text_addf(&o->log, "setting %u %u\n", id, value);
    return http2_owner_count(o);
}

static enum request_fault http2_owner_settings_end(void *owner)
{
    struct http2_owner *o = owner;

    text_addf(&o->log, "settings\n");
    return http2_owner_count(o);
}

static enum request_fault http2_owner_ping(void *owner, struct slice payload, bool ack)
{
    struct http2_owner *o = owner;

    ASSERT(payload.len == 8);
    text_addf(&o->log, "ping%s ", ack ? " ack" : "");
    text_add_escaped(&o->log, payload);
    text_add_char(&o->log, '\n');
    return http2_owner_count(o);
}

static enum request_fault http2_owner_priority(void *owner, uint32_t stream,
                                               const struct http2_priority *p)
{
    struct http2_owner *o = owner;

    ASSERT(stream != 0 && stream != p->depends_on);
    ASSERT(p->weight >= 1 && p->weight <= 256);
    text_addf(&o->log, "priority %u weight %u of %u%s\n", stream, p->weight, p->depends_on,
              p->exclusive ? " exclusive" : "");
    return http2_owner_count(o);
}

static enum request_fault http2_owner_priority_update(void *owner, uint32_t stream,
                                                      struct slice value)
{
    struct http2_owner *o = owner;

    ASSERT(stream != 0 && value.len <= HTTP2_PRIORITY_VALUE_MAX);
    text_addf(&o->log, "urgency %u %.*s\n", stream, SLICE_FMT(value));
    return http2_owner_count(o);
}

static const struct http2_events http2_owner_events = {
    .side = http2_owner_side,
    .frame = http2_owner_frame,
    .request = http2_owner_request,
    .malformed = http2_owner_malformed,
    .data = http2_owner_data,
    .trailers = http2_owner_trailers,
    .reset = http2_owner_reset,
    .window = http2_owner_window,
    .setting = http2_owner_setting,
    .settings_end = http2_owner_settings_end,
    .ping = http2_owner_ping,
    .priority = http2_owner_priority,
    .priority_update = http2_owner_priority_update,
};

/* ---- use ---- */

/* O: all zero but for what it does. */
static inline void http2_owner_start(struct http2_owner *o,
                                     const struct http2_reader_limits *limits)
{
    o->reader = http2_reader_create(&http2_owner_events, o, limits, &o->scratch);
}

/* The input is read from a copy of its own length, so that a sanitizer sees accesses beyond it. */
static inline enum request_fault http2_owner_read(struct http2_owner *o, struct slice bytes)
{
    char *copy = xmalloc(bytes.len + 1);

    if (bytes.len != 0)
        memcpy(copy + 1, bytes.p, bytes.len);
    o->input = (struct slice){copy + 1, bytes.len};
    enum request_fault f = http2_reader_read(o->reader, o->input);
    ASSERT(memcmp(copy + 1, bytes.len != 0 ? bytes.p : copy + 1, bytes.len) == 0);
    ASSERT(!o->scratch.busy);
    free(copy);
    return f;
}

/* Reads BYTES in pieces: PIECE(CONTEXT) gives the length of each, at least 1. */
static inline enum request_fault http2_owner_read_pieces(struct http2_owner *o, struct slice bytes,
                                                         size_t (*piece)(void *context),
                                                         void *context)
{
    enum request_fault f = FAULT_NONE;

    while (f == FAULT_NONE && bytes.len != 0) {
        size_t n = piece(context);

        n = n < bytes.len ? n : bytes.len;
        f = http2_owner_read(o, (struct slice){bytes.p, n});
        bytes.p += n;
        bytes.len -= n;
    }
    return f;
}

static inline void http2_owner_finish(struct http2_owner *o)
{
    http2_reader_destroy(o->reader);
    http2_scratch_fini(&o->scratch);
    text_fini(&o->log);
    text_fini(&o->body);
}
