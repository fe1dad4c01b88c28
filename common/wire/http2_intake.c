/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames are taken head first (on_head). DATA is passed on as it comes; of every other kind the
 * payload is collected, and looked at as a whole (on_payload). Section numbers are of RFC 9113.
 *
 * Errors of a stream that the protocol leaves no honest client a reason for are taken for errors of
 * the connection, as section 5.4.1 allows: they are what makes servers reset requests that they are
 * busy with. A malformed request is an error of its stream alone.
 */
#include "common/wire/http2_fields.h"
#include "common/wire/http2_frame.h"

#include <stdlib.h>

enum { KEPT_ROOM_MAX = 16 * 1024 /* of buffers, between blocks */ };

void http2_room_fini(struct http2_room *r)
{
    text_fini(&r->pseudos);
    text_fini(&r->regulars);
    text_fini(&r->authority);
    text_fini(&r->written);
}

struct http2_intake *http2_intake_create(struct http2_room *room,
                                         bool (*is_known)(void *context, uint32_t stream),
                                         void *context)
{
    struct http2_intake *in = xcalloc(1, sizeof(*in));

    in->room = room;
    in->streams.is_known = is_known;
    in->streams.context = context;
    hpack_init(&in->hpack);
    return in;
}

void http2_intake_destroy(struct http2_intake *in)
{
    if (in == NULL)
        return;
    hpack_fini(&in->hpack);
    http2_streams_fini(&in->streams);
    text_fini(&in->payload);
    text_fini(&in->block);
    free(in);
}

void http2_intake_close(struct http2_intake *in)
{
    in->closing = true;
}

enum request_fault http2_intake_fault(struct http2_intake *in, uint32_t id)
{
    const struct http2_stream *s = http2_streams_find(&in->streams, id);

    return s != NULL ? s->fault : FAULT_NONE;
}

bool http2_intake_busy(const struct http2_intake *in)
{
    return (in->block_stream != 0 && !in->closing) || http2_streams_busy(&in->streams);
}

/* ---- bytes ---- */

static void drop_room(struct text *t)
{
    text_clear(t);
    if (t->room > KEPT_ROOM_MAX) {
        text_fini(t);
        *t = (struct text){0};
    }
}

static size_t at_most(size_t n, size_t max)
{
    return n < max ? n : max;
}

/* The first N that are left of BYTES, or as many as there are. */
static struct slice take(struct slice *bytes, size_t n)
{
    struct slice taken = {bytes->p, at_most(bytes->len, n)};

    bytes->p += taken.len;
    bytes->len -= taken.len;
    return taken;
}

/* ---- streams ---- */

static void say_malformed(struct http2_frame *f, enum request_fault fault, size_t credit)
{
    *f->event = (struct http2_event){
        .kind = HTTP2_MALFORMED, .stream = f->stream, .amount = (uint32_t)credit, .fault = fault};
}

/* The reader has begun with the request, and must not go on. */
static void reset_reader(struct http2_frame *f)
{
    http2_put_head(f->out, 4, TYPE_RST_STREAM, 0, f->stream);
    text_add(f->out, SLICE_LIT("\0\0\0\1")); /* PROTOCOL_ERROR */
}

/* ---- DATA: section 6.1 ---- */

/* The frame goes nowhere. */
static void swallow(struct http2_frame *f)
{
    f->in->skip = true;
    *f->event = (struct http2_event){.kind = HTTP2_SWALLOWED, .amount = (uint32_t)f->len};
}

/* The reader gets the request as far as it is, as if it were whole, so that it can answer. */
static void end_for_reader(struct http2_frame *f, struct http2_stream *s, enum request_fault fault)
{
    http2_put_head(f->out, 0, TYPE_DATA, FLAG_END_STREAM, f->stream);
    s->fault = fault;
    s->dead = true;
}

void http2_intake_give_up(struct http2_intake *in, uint32_t id, enum request_fault fault,
                          struct text *out)
{
    struct http2_stream *s = http2_streams_find(&in->streams, id);
    struct http2_frame f = {.out = out, .stream = id};

    in->to_store = 0;
    if (s != NULL && !s->dead)
        end_for_reader(&f, s, fault);
}

/* What was passed before, and has opened the connection's window, stays with the reader. */
static bool is_to_be_stored(const struct http2_frame *f, const struct http2_stream *s, size_t body)
{
    return s->stored || (s->body > body && s->body + s->left > f->limits->memory_bytes);
}

/* The owner gets BODY bytes of the frame. */
static void store(struct http2_frame *f, struct http2_stream *s, size_t body)
{
    *f->event = (struct http2_event){.kind = HTTP2_BODY,
                                     .stream = f->stream,
                                     .amount = (uint32_t)f->len,
                                     .before = s->body - body};
    f->in->skip = true;
    f->in->to_store = body;
    s->stored = true;
}

static enum request_fault pass_data(struct http2_frame *f, struct http2_stream *s, size_t padding)
{
    struct http2_intake *in = f->in;
    size_t body = f->len - padding;
    bool ends = (f->flags & FLAG_END_STREAM) != 0;
    bool wrong = s->sized && (body > s->left || (ends && body != s->left));

    s->body += body;
    if (s->dead) {
        swallow(f);
    } else if (wrong) {
        in->skip = true;
        s->dead = true;
        reset_reader(f);
        say_malformed(f, FAULT_BODY_LENGTH, f->len);
    } else if (s->body > f->limits->body_bytes) {
        end_for_reader(f, s, FAULT_BODY_TOO_LARGE);
        swallow(f);
    } else {
        s->left -= s->sized ? body : 0;
        if (is_to_be_stored(f, s, body)) {
            store(f, s, body);
            return FAULT_NONE;
        }
        http2_put_head(f->out, f->len, TYPE_DATA, f->flags & (FLAG_END_STREAM | FLAG_PADDED),
                       f->stream);
        text_add(f->out, f->payload); /* how much padding, if any */
    }
    return FAULT_NONE;
}

/* The head is here and, when there is padding, its length. */
static enum request_fault on_data(struct http2_frame *f)
{
    struct http2_intake *in = f->in;
    struct http2_stream *s = http2_streams_find(&in->streams, f->stream);
    size_t padding = 0;

    if (f->stream == 0 || http2_streams_idle(&in->streams, f->stream))
        return FAULT_HTTP2_PROTOCOL;
    if (s == NULL)
        return FAULT_HTTP2_CLOSED;
    if ((f->flags & FLAG_PADDED) != 0) {
        padding = 1 + (size_t)(unsigned char)f->payload.p[0];
        if (padding > f->len)
            return FAULT_HTTP2_PROTOCOL;
    }
    return pass_data(f, s, padding);
}

/* ---- HEADERS and CONTINUATION: sections 6.2, 6.10, 8.1 ---- */

/* As one HEADERS frame, and CONTINUATION frames if it does not fit into one. */
static void put_block(struct http2_frame *f, struct slice block)
{
    unsigned flags =
        (f->in->block_ends ? FLAG_END_STREAM : 0U) | (f->in->block_weighs ? FLAG_PRIORITY : 0U);
    unsigned type = TYPE_HEADERS;

    do {
        size_t n = at_most(block.len, HTTP2_FRAME_MAX);
        http2_put_head(f->out, n, type, flags | (n == block.len ? FLAG_END_HEADERS : 0U),
                       f->stream);
        text_add(f->out, (struct slice){block.p, n});
        block.p += n;
        block.len -= n;
        type = TYPE_CONTINUATION;
        flags = 0;
    } while (block.len != 0);
}

/* A field section while it is decoded, and the parts of the block that is made of it. */
struct section {
    struct http2_fields rules;
    enum request_fault fault; /* the first; later fields are ignored then */
    struct hpack_writer *writer;
    struct text pseudos, regulars, authority, host;
};

static void take_field(void *section, const struct hpack_field *field, const struct hpack_origin *o)
{
    struct section *s = section;
    enum http2_use use;

    if (s->fault != FAULT_NONE)
        return;
    s->fault = http2_fields_take(&s->rules, field, o, &use);
    if (s->fault != FAULT_NONE || s->rules.trailers)
        return;
    if (use == HTTP2_USE_HOST)
        text_add(&s->host, field->value);
    if (use == HTTP2_USE_AUTHORITY)
        text_add(&s->authority, field->value);
    /* The reader counts for itself; and of a body that is too large it gets none. */
    if (use != HTTP2_USE_HOST && use != HTTP2_USE_LENGTH)
        hpack_write(s->writer, use == HTTP2_USE_FIELD ? &s->regulars : &s->pseudos, field, o);
}

static void put_pseudo(struct text *out, const char *name, struct slice value)
{
    hpack_put_literal(out, &(struct hpack_field){slice_of(name), value});
}

/* Appends the block, if the section is valid (nothing of trailers). */
static enum request_fault end_section(struct section *s, struct text *out)
{
    if (s->fault == FAULT_NONE)
        s->fault = http2_fields_end(&s->rules, text_slice(&s->authority), text_slice(&s->host));
    if (s->fault != FAULT_NONE || s->rules.trailers)
        return s->fault;
    text_add(out, text_slice(&s->pseudos));
    if (s->rules.connect) {
        /* No form of it is served, so it is answered with an error. */
        put_pseudo(out, ":scheme", SLICE_LIT("https"));
        put_pseudo(out, ":path", SLICE_LIT("*"));
    }
    if ((s->rules.pseudo & 1U << HTTP2_USE_AUTHORITY) == 0 && s->rules.has_host)
        put_pseudo(out, ":authority", text_slice(&s->host));
    text_add(out, text_slice(&s->regulars));
    return FAULT_NONE;
}

static enum request_fault end_trailers(struct http2_frame *f, struct http2_stream *s,
                                       struct section *section)
{
    enum request_fault fault = end_section(section, &f->in->room->written);

    if (fault == FAULT_NONE && s->sized && s->left != 0)
        fault = FAULT_BODY_LENGTH;
    if (!s->dead && fault == FAULT_NONE) {
        http2_put_head(f->out, 0, TYPE_DATA, FLAG_END_STREAM, f->stream);
    } else if (!s->dead) {
        reset_reader(f);
        say_malformed(f, fault, 0);
    }
    http2_streams_remove(&f->in->streams, s);
    return FAULT_NONE;
}

static enum request_fault end_request(struct http2_frame *f, struct section *section)
{
    const struct http2_fields *fields = &section->rules;
    struct http2_intake *in = f->in;
    struct http2_stream *s =
        in->block_ends ? NULL : http2_streams_add(&in->streams, f->stream, f->now_ms);
    enum request_fault fault = end_section(section, &in->room->written);

    if (s == NULL && !in->block_ends)
        return FAULT_FRAMES_STREAMS;
    if (fault == FAULT_NONE && in->block_ends && fields->sized && fields->content_length != 0)
        fault = FAULT_BODY_LENGTH;
    if (s != NULL) {
        s->dead = in->closing || fault != FAULT_NONE;
        s->sized = fields->sized;
        s->left = fields->content_length;
    }
    if (in->closing)
        return FAULT_NONE;
    ++in->requests;
    if (fault != FAULT_NONE) {
        say_malformed(f, fault, 0);
        return FAULT_NONE;
    }
    in->max_passed = f->stream;
    put_block(f, text_slice(&in->room->written));
    if (s != NULL && s->sized && s->left > f->limits->body_bytes) {
        end_for_reader(f, s, FAULT_BODY_TOO_LARGE);
        *f->event = (struct http2_event){.kind = HTTP2_SWALLOWED};
    }
    if (in->requests >= f->limits->requests) {
        in->closing = true;
        *f->event = (struct http2_event){.kind = HTTP2_LAST, .stream = f->stream};
    }
    return FAULT_NONE;
}

/* Memory that was allocated for the blocks before: without it each would cost eight calls. */
static struct section lend_room(struct http2_intake *in, bool trailers)
{
    return (struct section){.rules.trailers = trailers,
                            .writer = &in->writer,
                            .pseudos = in->room->pseudos,
                            .regulars = in->room->regulars,
                            .authority = in->room->authority};
}

static void take_room_back(struct http2_intake *in, const struct section *fields)
{
    struct http2_room *room = in->room;

    room->pseudos = fields->pseudos;
    room->regulars = fields->regulars;
    room->authority = fields->authority;
    drop_room(&room->pseudos);
    drop_room(&room->regulars);
    drop_room(&room->authority);
    drop_room(&room->written);
}

static enum request_fault end_block(struct http2_frame *f, struct slice coded)
{
    struct http2_intake *in = f->in;
    struct http2_stream *open = http2_streams_find(&in->streams, f->stream);
    struct section fields = lend_room(in, open != NULL);
    enum request_fault fault = FAULT_NONE;

    if (in->block_weighs) {
        text_add(&in->room->written, (struct slice){coded.p, HTTP2_PRIORITY_BYTES});
        coded.p += HTTP2_PRIORITY_BYTES;
        coded.len -= HTTP2_PRIORITY_BYTES;
    }
    switch (hpack_decode(&in->hpack, coded, &f->limits->list, take_field, &fields)) {
    case HPACK_OK:
        fault = open != NULL ? end_trailers(f, open, &fields) : end_request(f, &fields);
        break;
    case HPACK_MALFORMED:
        fault = FAULT_HTTP2_COMPRESSION;
        break;
    case HPACK_TOO_LARGE:
        fault = FAULT_HEADERS_TOO_LARGE;
        break;
    }
    if (open == NULL && in->max_passed != f->stream)
        hpack_writer_forget(&in->writer);
    text_fini(&fields.host);
    take_room_back(in, &fields);
    in->block_stream = 0;
    return fault;
}

static enum request_fault add_to_block(struct http2_frame *f, struct slice part)
{
    struct http2_intake *in = f->in;

    if (in->block.len + part.len > f->limits->block_bytes)
        return FAULT_HEADERS_TOO_LARGE;
    bool ends = (f->flags & FLAG_END_HEADERS) != 0;
    if (ends && in->block.len == 0)
        return end_block(f, part);
    text_add(&in->block, part);
    if (!ends)
        return FAULT_NONE;
    enum request_fault fault = end_block(f, text_slice(&in->block));
    text_fini(&in->block);
    in->block = (struct text){0};
    return fault;
}

/* Which stream a HEADERS frame may be of. */
static enum request_fault open_stream(struct http2_frame *f)
{
    struct http2_intake *in = f->in;

    if ((f->stream & 1) == 0) /* 0, too */
        return FAULT_HTTP2_PROTOCOL;
    if (f->stream > in->streams.max_id) {
        in->streams.max_id = f->stream;
        return FAULT_NONE;
    }
    if (http2_streams_find(&in->streams, f->stream) == NULL)
        return FAULT_HTTP2_CLOSED;
    return in->block_ends ? FAULT_NONE : FAULT_HTTP2_PROTOCOL;
}

static enum request_fault on_headers(struct http2_frame *f)
{
    struct http2_intake *in = f->in;
    struct slice part = f->payload;

    in->block_ends = (f->flags & FLAG_END_STREAM) != 0;
    in->block_weighs = (f->flags & FLAG_PRIORITY) != 0;
    in->block_frames = 0;
    enum request_fault fault = open_stream(f);
    if (fault != FAULT_NONE)
        return fault;
    if ((f->flags & FLAG_PADDED) != 0) {
        size_t padding = part.len != 0 ? (size_t)(unsigned char)part.p[0] + 1 : 1;
        if (padding > part.len)
            return FAULT_HTTP2_PROTOCOL;
        part.p += 1;
        part.len -= padding;
    }
    if (in->block_weighs && part.len < HTTP2_PRIORITY_BYTES)
        return FAULT_HTTP2_FRAME_SIZE;
    if (in->block_weighs && (http2_get32(part.p) & INT32_MAX) == f->stream)
        return FAULT_HTTP2_PROTOCOL;
    in->block_stream = f->stream;
    return add_to_block(f, part);
}

static enum request_fault on_continuation(struct http2_frame *f)
{
    if (++f->in->block_frames > f->limits->block_frames)
        return FAULT_FRAMES_CONTINUATION;
    return add_to_block(f, f->payload);
}

/* ---- frames ---- */

/* How much of the payload must be here before on_payload. */
static size_t wanted(const struct http2_frame *f)
{
    if (f->type >= HTTP2_TYPES)
        return 0;
    if (f->type == TYPE_DATA)
        return (f->flags & FLAG_PADDED) != 0 && f->len != 0 ? 1 : 0;
    return f->len;
}

static enum request_fault on_payload(struct http2_frame *f)
{
    switch (f->type) {
    case TYPE_DATA:
        return (f->flags & FLAG_PADDED) != 0 && f->len == 0 ? FAULT_HTTP2_FRAME_SIZE : on_data(f);
    case TYPE_HEADERS:
        return on_headers(f);
    case TYPE_PRIORITY:
        return http2_on_priority(f);
    case TYPE_RST_STREAM:
        return http2_on_rst_stream(f);
    case TYPE_SETTINGS:
        return http2_on_settings(f);
    case TYPE_PUSH_PROMISE:
        return FAULT_HTTP2_PROTOCOL;
    case TYPE_PING:
    case TYPE_GOAWAY:
        return http2_on_ping_or_goaway(f);
    case TYPE_WINDOW_UPDATE:
        return http2_on_window_update(f);
    case TYPE_CONTINUATION:
        return on_continuation(f);
    default: /* an extension: section 5.5 */
        f->in->skip = true;
        return FAULT_NONE;
    }
}

/* What the head alone tells. */
static enum request_fault on_head(const struct http2_frame *f)
{
    struct http2_intake *in = f->in;
    bool continues = f->type == TYPE_CONTINUATION;

    if (!in->settled && (f->type != TYPE_SETTINGS || (f->flags & FLAG_ACK) != 0))
        return FAULT_HTTP2_PROTOCOL; /* section 3.4 */
    if (f->len > HTTP2_FRAME_MAX)
        return FAULT_HTTP2_FRAME_SIZE;
    enum request_fault fault =
        http2_meter_count(&in->meter, f->limits->per_second, f->type, f->flags, f->len, f->now_ms);
    if (fault != FAULT_NONE)
        return fault;
    if (continues != (in->block_stream != 0) || (continues && f->stream != in->block_stream))
        return FAULT_HTTP2_PROTOCOL; /* section 6.10 */
    return FAULT_NONE;
}

static void read_head(struct http2_frame *f)
{
    const unsigned char *h = f->in->head;

    f->len = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2];
    f->type = h[3];
    f->flags = h[4];
    f->stream = http2_get32(h + 5) & INT32_MAX;
}

/* N bytes of DATA have come. */
static void count_data(struct http2_frame *f, size_t n)
{
    struct http2_stream *s = http2_streams_find(&f->in->streams, f->stream);

    if (s != NULL)
        s->bytes += n;
}

/* All of it is here. */
static void end_frame(struct http2_frame *f)
{
    struct http2_intake *in = f->in;

    in->head_bytes = 0;
    if (f->type != TYPE_DATA || (f->flags & FLAG_END_STREAM) == 0)
        return;
    struct http2_stream *s = http2_streams_find(&in->streams, f->stream);
    if (s == NULL)
        return;
    if (s->stored && !s->dead)
        http2_put_head(f->out, 0, TYPE_DATA, FLAG_END_STREAM, f->stream);
    http2_streams_remove(&in->streams, s);
}

/* What has to be seen of the payload is at F, or is collected until it is whole: then false. */
static bool see_payload(struct http2_frame *f, struct slice *bytes)
{
    struct http2_intake *in = f->in;
    size_t want = wanted(f);

    f->payload = take(bytes, want - in->payload.len);
    in->left -= f->payload.len;
    if (f->payload.len == want)
        return true;
    text_add(&in->payload, f->payload);
    f->payload = text_slice(&in->payload);
    return in->payload.len == want;
}

/* Take the payload from BYTES on, as far as it is there. */
static enum request_fault take_payload(struct http2_frame *f, struct slice *bytes)
{
    struct http2_intake *in = f->in;

    if (!in->looked_at) {
        if (!see_payload(f, bytes))
            return FAULT_NONE;
        enum request_fault fault = on_payload(f);
        in->looked_at = true;
        text_fini(&in->payload);
        in->payload = (struct text){0};
        if (fault != FAULT_NONE)
            return fault;
    }
    struct slice rest = take(bytes, in->left);
    if (in->to_store != 0) {
        f->event->kind = HTTP2_BODY;
        f->event->stream = f->stream;
        f->event->bytes = (struct slice){rest.p, at_most(rest.len, in->to_store)};
        in->to_store -= f->event->bytes.len;
    }
    if (!in->skip)
        text_add(f->out, rest);
    if (f->type == TYPE_DATA)
        count_data(f, rest.len);
    in->left -= rest.len;
    return FAULT_NONE;
}

/* Section 3.4. The reader gets it once it is complete. */
static enum request_fault take_preface(struct http2_intake *in, struct slice *bytes,
                                       struct text *out)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct slice taken = take(bytes, HTTP2_PREFACE_BYTES - in->preface_bytes);

    _Static_assert(sizeof(preface) - 1 == HTTP2_PREFACE_BYTES, "not a preface");
    if (memcmp(taken.p, preface + in->preface_bytes, taken.len) != 0)
        return FAULT_HTTP2_PREFACE;
    in->preface_bytes += (unsigned)taken.len;
    if (http2_intake_has_preface(in))
        text_add(out, (struct slice){preface, HTTP2_PREFACE_BYTES});
    return FAULT_NONE;
}

/* True: the head is whole. */
static bool take_head(struct http2_intake *in, struct slice *bytes)
{
    struct slice taken = take(bytes, HTTP2_HEAD_BYTES - in->head_bytes);

    memcpy(in->head + in->head_bytes, taken.p, taken.len);
    in->head_bytes += (unsigned)taken.len;
    return in->head_bytes == HTTP2_HEAD_BYTES;
}

static enum request_fault take_frame(struct http2_frame *f, struct slice *bytes)
{
    struct http2_intake *in = f->in;

    if (in->head_bytes < HTTP2_HEAD_BYTES) {
        if (!take_head(in, bytes))
            return FAULT_NONE;
        read_head(f);
        in->left = f->len;
        in->looked_at = in->skip = false;
        in->to_store = 0;
        enum request_fault fault = on_head(f);
        if (fault != FAULT_NONE)
            return fault;
    }
    read_head(f);
    enum request_fault fault = take_payload(f, bytes);
    if (in->looked_at && in->left == 0)
        end_frame(f);
    return fault;
}

enum request_fault http2_intake_take(struct http2_intake *in, const struct http2_limits *l,
                                     struct slice *bytes, uint64_t now_ms, struct text *out,
                                     struct http2_event *event)
{
    enum request_fault fault = FAULT_NONE;

    *event = (struct http2_event){0};
    if (!http2_intake_has_preface(in))
        fault = take_preface(in, bytes, out);
    while (fault == FAULT_NONE && event->kind == HTTP2_NOTHING && bytes->len != 0) {
        struct http2_frame f = {
            .in = in, .limits = l, .now_ms = now_ms, .out = out, .event = event};
        fault = take_frame(&f, bytes);
    }
    return fault;
}
