/* SPDX-License-Identifier: Apache-2.0
 *
 * What is sent over HTTP/2 (RFC 9113). Frames are appended to one output per connection, and given
 * to the transport at the end of the turn, so that those of many streams go together.
 *
 *     control frames, resets       at once
 *     heads, ends without bytes    at once, or when there is room (due): they need no window
 *     DATA                         if no other stream waits: at once, as far as the windows allow;
 *                                  else a frame at a time, in the order of urgency or of the
 *                                  priority tree, while the transport takes bytes
 *
 * A header block changes the client's table, so that it is sent in any case once it is encoded.
 */
#include "common/base/bytes.h"
#include "common/http/http2_stream.h"

#include <stdlib.h>

enum {
    OUTPUT_ROOM = 4096,        /* what an output begins with */
    TURN_BYTES = 256 * 1024,   /* then other connections have their turn */
    COMPACT_BYTES = 48 * 1024, /* of output that has been taken, before it is moved away */
    UPDATES_PER_FRAME = 2,     /* of the stream's window, and of the connection's */
    UPDATES_MAX = 10000,
};

/* ---- frames ---- */

static char *put_u32(char *at, uint32_t v)
{
    const char bytes[] = {(char)(v >> 24), (char)(v >> 16), (char)(v >> 8), (char)v};

    return put_bytes(at, bytes, sizeof(bytes));
}

static char *write_head(char *at, size_t len, enum http2_type type, unsigned flags, uint32_t id)
{
    at[0] = (char)(len >> 16);
    at[1] = (char)(len >> 8);
    at[2] = (char)len;
    at[3] = (char)type;
    at[4] = (char)flags;
    return put_u32(at + 5, id);
}

static size_t frame_bytes(const char *at)
{
    const unsigned char *p = (const unsigned char *)at;

    return HTTP2_HEAD_BYTES + ((size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2]);
}

static char *reserve_output(struct http2_server *h2, size_t n)
{
    return text_reserve(&h2->out, h2->out.room == 0 && n < OUTPUT_ROOM ? OUTPUT_ROOM : n);
}

char *http2_put_frame(struct http2_server *h2, size_t len, enum http2_type type, unsigned flags,
                      uint32_t id)
{
    char *at = reserve_output(h2, HTTP2_HEAD_BYTES + len);

    h2->out.len += HTTP2_HEAD_BYTES + len;
    http2_schedule(h2);
    return write_head(at, len, type, flags, id);
}

static char *put_setting(char *at, enum http2_setting id, uint32_t value)
{
    *at++ = 0;
    *at++ = (char)id;
    return put_u32(at, value);
}

void http2_put_settings(struct http2_server *h2)
{
    size_t settings = priority_tree_has_effect ? 3 : 4;
    char *at = http2_put_frame(h2, settings * HTTP2_SETTING_BYTES, TYPE_SETTINGS, 0, 0);

    at = put_setting(at, HTTP2_SETTING_STREAMS, HTTP2_STREAMS_MAX);
    at = put_setting(at, HTTP2_SETTING_INITIAL_WINDOW, HTTP2_WINDOW);
    at = put_setting(at, HTTP2_SETTING_FRAME_MAX, HTTP2_FRAME_ACCEPTED);
    if (!priority_tree_has_effect)
        (void)put_setting(at, HTTP2_SETTING_NO_RFC7540_PRIORITIES, 1);
    http2_put_window(h2, 0, HTTP2_WINDOW - HTTP2_INITIAL_WINDOW);
}

void http2_put_reset(struct http2_server *h2, uint32_t id, enum http2_error code)
{
    (void)put_u32(http2_put_frame(h2, 4, TYPE_RST_STREAM, 0, id), code);
}

void http2_put_goaway(struct http2_server *h2, uint32_t last_id, enum http2_error code)
{
    (void)put_u32(put_u32(http2_put_frame(h2, 8, TYPE_GOAWAY, 0, 0), last_id), code);
}

void http2_put_window(struct http2_server *h2, uint32_t id, uint32_t amount)
{
    (void)put_u32(http2_put_frame(h2, 4, TYPE_WINDOW_UPDATE, 0, id), amount);
}

/* ---- heads ---- */

/* Returns where its frame begins; the block is appended to the output. */
static size_t begin_block(struct http2_server *h2, int status)
{
    size_t at = h2->out.len;

    (void)reserve_output(h2, HTTP2_HEAD_BYTES);
    h2->out.len += HTTP2_HEAD_BYTES;
    hpack_encoder_begin(&h2->encoder, &h2->out);
    hpack_encoder_status(&h2->encoder, &h2->out, status);
    return at;
}

static void end_block(struct http2_server *h2, size_t at, uint32_t id, bool ends)
{
    size_t len = h2->out.len - at - HTTP2_HEAD_BYTES;
    unsigned flags = ends ? FLAG_END_STREAM : 0;
    enum http2_type type = TYPE_HEADERS;
    struct text block = {0};

    http2_schedule(h2);
    if (len <= HTTP2_FRAME_MAX) {
        write_head(h2->out.p + at, len, type, flags | FLAG_END_HEADERS, id);
        return;
    }
    /* It is too long for one frame. */
    text_add(&block, (struct slice){h2->out.p + at + HTTP2_HEAD_BYTES, len});
    h2->out.len = at;
    for (size_t from = 0; from < len;) {
        size_t n = len - from < HTTP2_FRAME_MAX ? len - from : HTTP2_FRAME_MAX;

        if (from + n == len)
            flags |= FLAG_END_HEADERS;
        memcpy(http2_put_frame(h2, n, type, flags, id), block.p + from, n);
        from += n;
        type = TYPE_CONTINUATION;
        flags = 0;
    }
    text_fini(&block);
}

static void put_field(struct http2_server *h2, struct slice name, struct slice value)
{
    hpack_encoder_field(&h2->encoder, &h2->out, name, value);
}

/* Date, Server, and Content-Length unless it is UINT64_MAX. */
static void put_own_fields(struct http2_server *h2, uint64_t content_length)
{
    struct http_server *s = h2->conn->server;
    char digits[PUT_U64_MAX];
    char *end = digits + sizeof(digits);

    put_field(h2, SLICE_LIT("date"), (struct slice){http_server_date(s), HTTP_DATE_BYTES});
    if (*s->server_name != '\0')
        put_field(h2, SLICE_LIT("server"), slice_of(s->server_name));
    if (content_length == UINT64_MAX)
        return;
    char *first = put_u64_before(end, content_length);
    put_field(h2, SLICE_LIT("content-length"), (struct slice){first, (size_t)(end - first)});
}

void http2_put_continue(struct http2_server *h2, uint32_t id)
{
    end_block(h2, begin_block(h2, 100), id, false);
}

void http2_put_response(struct http2_server *h2, uint32_t id, int status, const char *text,
                        bool is_head)
{
    struct slice body = slice_of(text);
    int64_t len = (int64_t)body.len;
    bool fits = is_head || (len <= h2->send_window && len <= h2->initial_window);
    size_t at = begin_block(h2, status);

    put_own_fields(h2, fits ? body.len : 0);
    if (fits)
        put_field(h2, SLICE_LIT("content-type"), SLICE_LIT("text/plain; charset=utf-8"));
    end_block(h2, at, id, is_head || !fits);
    if (is_head || !fits)
        return;
    (void)put_slice(http2_put_frame(h2, body.len, TYPE_DATA, FLAG_END_STREAM, id), body);
    h2->send_window -= len;
}

/* ---- turns ---- */

static void activate_stream(struct http2_stream *s)
{
    struct http2_server *h2 = s->h2;

    if (s->active || s->left == 0 || s->send_window <= 0 || !s->head_put)
        return;
    if (h2->urgency != NULL) {
        http2_urgency_activate(h2->urgency, &s->urgency);
    } else {
        if (h2->tree == NULL)
            h2->tree = priority_tree_create();
        if (s->entry == NULL)
            s->entry = priority_tree_open(h2->tree, s->id, NULL, s);
        priority_tree_activate(s->entry);
    }
    s->active = true;
    ++h2->nactive;
    http2_schedule(h2);
}

static void deactivate_stream(struct http2_stream *s)
{
    if (!s->active)
        return;
    if (s->h2->urgency != NULL)
        http2_urgency_deactivate(&s->urgency);
    else
        priority_tree_deactivate(s->entry);
    s->active = false;
    --s->h2->nactive;
}

static struct http2_stream *next_stream(struct http2_server *h2)
{
    if (h2->urgency == NULL)
        return priority_tree_next(h2->tree);
    struct urgency_entry *e = http2_urgency_next(h2->urgency);
    return e != NULL ? container_of(e, struct http2_stream, urgency) : NULL;
}

void http2_use_urgency(struct http2_server *h2)
{
    struct http2_stream *s;

    if (h2->urgency != NULL)
        return;
    h2->urgency = http2_urgency_create();
    list_for_each_entry (s, &h2->streams, node) {
        s->urgency = (struct urgency_entry){.id = s->id, .urgency = URGENCY_UNSTATED};
        if (s->active)
            http2_urgency_activate(h2->urgency, &s->urgency);
        if (s->entry != NULL)
            priority_tree_close(h2->tree, s->entry);
        s->entry = NULL;
    }
    priority_tree_destroy(h2->tree);
    h2->tree = NULL;
}

/* What FIELDS state, in one line or in several; the rest is that of U. */
static struct urgency stated_urgency(const struct message_fields *fields, struct urgency u)
{
    const struct message_field *f = NULL;

    if (!message_fields_may_have(fields, FIELD_BIT(FIELD_PRIORITY)))
        return u;
    while ((f = message_fields_find(fields, SLICE_LIT("priority"), f)) != NULL)
        u = priority_field_parse(f->value, u);
    return u;
}

void http2_set_urgency(struct http2_stream *s)
{
    struct http2_server *h2 = s->h2;
    const struct message_fields *fields = &s->req.fields;
    bool stated = message_fields_may_have(fields, FIELD_BIT(FIELD_PRIORITY));

    if (h2->urgency == NULL && !stated)
        return;
    http2_use_urgency(h2);
    s->urgency = (struct urgency_entry){.id = s->id, .urgency = URGENCY_UNSTATED};
    /* A frame that came before is more recent: section 7. */
    if (!http2_urgency_announced(h2->urgency, s->id, &s->urgency.urgency))
        s->urgency.urgency = stated_urgency(fields, URGENCY_UNSTATED);
}

/* The worker knows more of the response than the client: its field has precedence (section 8). */
static void merge_urgency(struct http2_stream *s)
{
    if (s->h2->urgency != NULL)
        http2_urgency_change(s->h2->urgency, &s->urgency,
                             stated_urgency(&s->req.res.fields, s->urgency.urgency));
}

enum request_fault http2_on_priority_update(void *owner, uint32_t id, struct slice value)
{
    struct http2_server *h2 = owner;
    struct urgency u = priority_field_parse(value, URGENCY_UNSTATED);
    struct http2_stream *s = http2_find(h2, id);

    http2_use_urgency(h2);
    if (s != NULL)
        http2_urgency_change(h2->urgency, &s->urgency, u);
    else if (id > http2_reader_last_stream(h2->reader))
        http2_urgency_announce(h2->urgency, id, u);
    return FAULT_NONE;
}

enum request_fault http2_on_priority(void *owner, uint32_t id, const struct http2_priority *p)
{
    struct http2_server *h2 = owner;
    struct priority given = {
        .dependency = p->depends_on, .weight = (uint16_t)p->weight, .exclusive = p->exclusive};
    struct http2_stream *s = http2_find(h2, id);

    if (h2->urgency != NULL)
        return FAULT_NONE;
    if (h2->tree == NULL)
        h2->tree = priority_tree_create();
    if (s != NULL && s->entry == NULL) {
        s->entry = priority_tree_open(h2->tree, id, &given, s);
    } else {
        bool idle = (id & 1) != 0 && id > http2_reader_last_stream(h2->reader);

        (void)priority_tree_change(h2->tree, id, &given, idle);
    }
    return FAULT_NONE;
}

bool http2_grow_window(struct http2_server *h2, struct http2_stream *s, int64_t amount)
{
    int64_t *window = s != NULL ? &s->send_window : &h2->send_window;

    if (s != NULL && s->state == HTTP2_STREAM_ENDING)
        return true;
    if (*window + amount > HTTP2_WINDOW_MAX)
        return false;
    *window += amount;
    if (s == NULL)
        http2_schedule(h2);
    else if (s->send_window > 0)
        activate_stream(s);
    else
        deactivate_stream(s);
    return true;
}

/* ---- one stream ---- */

/* The last data of S is in the output. */
static void end_stream(struct http2_stream *s)
{
    struct http2_server *h2 = s->h2;

    s->state = HTTP2_STREAM_ENDING;
    s->end_at = h2->out_taken + http2_unsent(h2);
    list_remove(&s->line);
    list_push_back(&h2->ending, &s->line);
}

static size_t sendable_bytes(const struct http2_stream *s)
{
    int64_t window = s->send_window < s->h2->send_window ? s->send_window : s->h2->send_window;
    size_t most = s->left < HTTP2_FRAME_MAX ? s->left : HTTP2_FRAME_MAX;

    if (window <= 0)
        return 0;
    return most < (size_t)window ? most : (size_t)window;
}

/* One DATA frame of N bytes. */
static void put_data(struct http2_stream *s, size_t n)
{
    struct http2_server *h2 = s->h2;
    bool ends = s->last && n == s->left;
    char *to = http2_put_frame(h2, n, TYPE_DATA, ends ? FLAG_END_STREAM : 0, s->id);

    s->left -= n;
    s->body_bytes += n;
    h2->data_bytes += n;
    s->send_window -= (int64_t)n;
    h2->send_window -= (int64_t)n;
    while (n != 0) {
        struct iovec *v = &s->pieces[s->piece];
        size_t some = v->iov_len < n ? v->iov_len : n;

        if (some != 0)
            memcpy(to, v->iov_base, some);
        to += some;
        n -= some;
        v->iov_base = (char *)v->iov_base + some;
        v->iov_len -= some;
        if (v->iov_len == 0)
            ++s->piece;
    }
    if (h2->updates < UPDATES_MAX)
        h2->updates += UPDATES_PER_FRAME;
    if (ends)
        end_stream(s);
}

/* The head, or the end if there are no bytes; whatever needs no window. */
static void put_head_or_end(struct http2_stream *s)
{
    struct http2_server *h2 = s->h2;
    const struct http_response_head *res = &s->req.res;
    bool ends = s->last && s->left == 0;

    if (!s->head_put) {
        size_t at = begin_block(h2, res->status);

        merge_urgency(s);
        put_own_fields(h2, res->content_length);
        for (size_t i = 0; i < res->fields.n; ++i)
            put_field(h2, res->fields.at[i].name, res->fields.at[i].value);
        end_block(h2, at, s->id, ends);
        s->head_put = true;
    } else if (ends) {
        (void)http2_put_frame(h2, 0, TYPE_DATA, FLAG_END_STREAM, s->id);
    }
    if (ends)
        end_stream(s);
}

static void drop_pieces(struct http2_stream *s)
{
    if (s->pieces != s->few)
        free(s->pieces);
    s->pieces = s->few;
    s->npieces = s->piece = s->left = 0;
}

/* Copies the pieces that are left, which are in an array of http2_send's caller. */
static void store_pieces(struct http2_stream *s)
{
    size_t n = s->npieces - s->piece;
    const struct iovec *from = n != 0 ? s->pieces + s->piece : NULL;

    s->pieces = n <= ARRAY_LEN(s->few) ? s->few : xmalloc(n * sizeof(*from));
    if (n != 0)
        memcpy(s->pieces, from, n * sizeof(*from));
    s->npieces = n;
    s->piece = 0;
}

void http2_output_remove(struct http2_stream *s)
{
    deactivate_stream(s);
    if (s->entry != NULL)
        priority_tree_close(s->h2->tree, s->entry);
    s->entry = NULL;
    list_remove(&s->line);
    drop_pieces(s);
}

/* ---- responses ---- */

static bool has_room(const struct http2_server *h2)
{
    return http2_unsent(h2) < HTTP2_OUTPUT_MAX;
}

bool http2_send(struct http_response *r, struct iovec *iov, size_t n, bool last)
{
    struct http2_stream *s = r->req->stream;
    struct http2_server *h2 = s->h2;
    size_t bytes = 0;

    if (h2->closed)
        return false;
    ASSERT(s->state == HTTP2_STREAM_BUSY);
    ASSERT(s->left == 0);
    ASSERT(!s->last);
    for (size_t i = 0; i < n; ++i)
        bytes += iov[i].iov_len;
    if (bytes == 0 && s->head_put && !last)
        return true;
    s->last = last;
    s->left = bytes;
    s->pieces = iov;
    s->npieces = n;
    s->piece = 0;
    if (!has_room(h2) && (!s->head_put || bytes == 0)) {
        store_pieces(s);
        list_push_back(&h2->due, &s->line);
        return false;
    }
    put_head_or_end(s);
    /* As much of the pieces as goes out before any other stream's. */
    while (h2->nactive == 0 && has_room(h2) && s->left != 0 && (n = sendable_bytes(s)) != 0)
        put_data(s, n);
    if (s->left == 0) {
        s->pieces = s->few;
        s->npieces = 0;
        return true;
    }
    store_pieces(s);
    activate_stream(s);
    return false;
}

void http2_cut(struct http_response *r)
{
    struct http2_stream *s = r->req->stream;

    if (s->h2->closed || s->state == HTTP2_STREAM_ENDING)
        return;
    deactivate_stream(s);
    drop_pieces(s);
    s->cut = true;
    http2_put_reset(s->h2, s->id, HTTP2_ERROR_INTERNAL);
    end_stream(s);
}

bool http2_waits_for_window(const struct http_response *r, uint64_t *sent)
{
    const struct http2_stream *s = r->req->stream;

    if (s->left == 0 || http2_unsent(s->h2) != 0)
        return false;
    *sent = s->send_window <= 0 ? http2_sent_bytes(r) : s->h2->data_bytes;
    return true;
}

uint64_t http2_sent_bytes(const struct http_response *r)
{
    const struct http2_stream *s = r->req->stream;
    const struct http2_server *h2 = s->h2;
    uint64_t bytes = s->body_bytes;

    if (http2_unsent(h2) == 0)
        return bytes;
    /* Subtracts the DATA bytes that the transport has not taken. */
    for (size_t at = 0; at < h2->out.len; at += frame_bytes(h2->out.p + at)) {
        const char *head = h2->out.p + at;
        size_t end = at + frame_bytes(head);
        size_t from = at + HTTP2_HEAD_BYTES > h2->out_at ? at + HTTP2_HEAD_BYTES : h2->out_at;

        if (head[3] == TYPE_DATA && http2_get32(head + 5) == s->id && end > from)
            bytes -= end - from;
    }
    return bytes;
}

/* ---- the transport ---- */

/* Removes frames that were taken from the start of the output. */
static void compact_output(struct http2_server *h2)
{
    size_t at = 0;

    if (h2->out_at == h2->out.len) {
        h2->out.len = h2->out_at = 0;
        return;
    }
    if (h2->out_at < COMPACT_BYTES)
        return;
    for (size_t end = frame_bytes(h2->out.p); end <= h2->out_at;
         end += frame_bytes(h2->out.p + end))
        at = end;
    memmove(h2->out.p, h2->out.p + at, h2->out.len - at);
    h2->out.len -= at;
    h2->out_at -= at;
}

/* More of what waits, as long as there is room. */
static void fill_output(struct http2_server *h2)
{
    compact_output(h2);
    while (has_room(h2) && list_linked(&h2->due)) {
        struct http2_stream *s = list_first(&h2->due, struct http2_stream, line);
        list_remove(&s->line);
        put_head_or_end(s);
        if (s->state == HTTP2_STREAM_ENDING)
            continue;
        if (s->left == 0)
            list_push_back(&h2->copied, &s->line);
        else
            activate_stream(s);
    }
    while (has_room(h2) && h2->nactive != 0 && h2->send_window > 0) {
        struct http2_stream *s = next_stream(h2);
        ASSERT(s != NULL);
        put_data(s, sendable_bytes(s));
        if (s->left == 0 || s->send_window <= 0)
            deactivate_stream(s);
        if (s->left != 0)
            continue;
        drop_pieces(s);
        if (s->state != HTTP2_STREAM_ENDING)
            list_push_back(&h2->copied, &s->line);
    }
}

static void on_writable(void *context);

static void wait_for_room(struct http2_server *h2)
{
    h2->blocked = true;
    pace_reset(&h2->stall);
    transport_await_writable(&h2->conn->transport, on_writable);
}

static void http2_output_flush(struct http2_server *h2)
{
    uint64_t until = h2->out_taken + TURN_BYTES;
    struct list lines;
    struct list *line;

    do {
        fill_output(h2);
        if (http2_unsent(h2) == 0)
            break;
        struct iovec iov = {h2->out.p + h2->out_at, http2_unsent(h2)};
        ssize_t n = transport_send(&h2->conn->transport, &iov, 1, 0);
        if (n == -1 && errno != EAGAIN) {
            http2_report_ended(h2);
            http_conn_close(h2->conn);
            return;
        }
        size_t sent = n > 0 ? (size_t)n : 0;
        h2->out_at += sent;
        h2->out_taken += sent;
        if (sent < iov.iov_len)
            wait_for_room(h2);
        /* Responses of which all is in the output continue. */
        list_init(&lines);
        list_splice_back(&lines, &h2->copied);
        while ((line = list_pop_front(&lines)) != NULL) {
            http_response_proceed(list_entry(line, struct http2_stream, line)->req.response);
            if (h2->closed)
                return; /* and with it those in LINES, which have left it by themselves */
        }
        /* Responses of which all has been taken are complete. */
        while (list_linked(&h2->ending)) {
            struct http2_stream *s = list_first(&h2->ending, struct http2_stream, line);
            if (s->end_at > h2->out_taken)
                break;
            http2_stream_destroy(s, s->cut);
            if (h2->closed)
                return;
        }
        if (!h2->blocked && h2->out_taken >= until)
            wait_for_room(h2);
    } while (!h2->blocked);
    list_remove(&h2->flush.node); /* all that has been scheduled meanwhile is done */
    compact_output(h2);
    http2_end_if_done(h2);
}

static void on_writable(void *context)
{
    struct http_conn *c = context;

    if (c->http2 == NULL)
        return;
    struct http2_server *h2 = http2_enter(c->http2);
    h2->blocked = false;
    http2_output_flush(h2);
    http2_leave(h2);
}

static void on_flush(struct loop_deferred *d)
{
    struct http2_server *h2 = http2_enter(container_of(d, struct http2_server, flush));

    http2_output_flush(h2);
    http2_leave(h2);
}

void http2_schedule(struct http2_server *h2)
{
    if (!h2->blocked && !h2->closed)
        loop_defer_once(h2->conn->server->loop, &h2->flush);
}

void http2_output_init(struct http2_server *h2)
{
    hpack_encoder_init(&h2->encoder);
    list_init(&h2->due);
    list_init(&h2->copied);
    list_init(&h2->ending);
    h2->flush.run = on_flush;
    h2->send_window = h2->initial_window = HTTP2_INITIAL_WINDOW;
}
