/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1 requests of a connection, one after the other:
 *
 *     idle -> HEAD -> (SIZED or CHUNKED) -> BUSY -> idle, or closed
 *
 * A request is handed over when it is complete. While it is BUSY nothing is read: bytes of a next
 * request stay in the kernel, or in the stream if they were read with this one. The end of the
 * client is noticed all the same, as the poller reports it also behind unread bytes.
 */
#include "common/http/http1_server_stream.h"
#include "common/net/body_piece.h"

#include <errno.h>
#include <stdlib.h>

enum {
    CHUNKED_READ_MAX = 64 * 1024,
};

/* Unused streams retained for later requests. None in checked builds, to detect uses after free. */
#ifdef RLB_CHECKED
enum { SPARE_MAX = 0 };
#else
enum { SPARE_MAX = 64 };
#endif

static void http1_server_reject(struct http_conn *c, enum request_fault f) cold_;

static const char continue_head[] = "HTTP/1.1 100 Continue\r\n\r\n";

/* ---- life ---- */

void http1_server_stop(struct http_server *s)
{
    struct list *node;

    while ((node = list_pop_front(&s->http1_server_spares)) != NULL)
        free(list_entry(node, struct http1_server_stream, spare));
}

static void run_finish(struct loop_deferred *d)
{
    struct http1_server_stream *x = container_of(d, struct http1_server_stream, finish);

    http_response_finished(list_first(&x->conn->responses, struct http_response, node));
}

static struct fair_owner body_owner(struct body_sink *b)
{
    const struct http1_server_stream *x = container_of(b, struct http1_server_stream, body);

    return http_conn_owner(x->conn, &x->req);
}

static void on_body_lost(struct body_sink *b)
{
    http1_server_reject(container_of(b, struct http1_server_stream, body)->conn,
                        FAULT_BODY_NO_ROOM);
}

static const struct body_sink_user sink_user = {.owner = body_owner, .lost = on_body_lost};

static struct http1_server_stream *http1_server_create_stream(struct http_conn *c)
{
    struct list *node = list_pop_front(&c->server->http1_server_spares);
    struct http1_server_stream *x;

    if (node != NULL) {
        --c->server->nspares;
        x = list_entry(node, struct http1_server_stream, spare);
    } else {
        x = xmalloc(sizeof(*x));
    }
    /* All but the large arrays at its end. */
    memset(x, 0, offsetof(struct http1_server_stream, unsent));
    x->conn = c;
    list_init(&x->spare);
    x->unsent_at = x->unsent_n = 0;
    x->last = false;
    x->finish = (struct loop_deferred){.run = run_finish};
    list_init(&x->finish.node);
    http_request_init(&x->req, x->taken, sizeof(x->taken));
    x->in = loop_alloc_block(c->server->loop);
    x->in_room = LOOP_BLOCK_BYTES;
    x->body.user = &sink_user;
    x->req.sink = &x->body;
    c->http1 = x;
    return x;
}

static void free_input(struct http1_server_stream *x)
{
    if (x->in_room == LOOP_BLOCK_BYTES)
        loop_free_block(x->conn->server->loop, x->in);
    else
        free(x->in);
}

static void http1_server_destroy_stream(struct http_conn *c)
{
    struct http1_server_stream *x = c->http1;
    struct http_server *s = c->server;

    c->http1 = NULL;
    list_remove(&x->finish.node);
    http_request_fini(&x->req);
    free_input(x);
    body_sink_fini(&x->body, &s->body_bin);
    text_fini(&x->rest);
    if (s->nspares + 1 <= SPARE_MAX) { /* which may be 0 */
        ++s->nspares;
        list_push_front(&s->http1_server_spares, &x->spare);
    } else {
        free(x);
    }
}

void http1_server_fini(struct http_conn *c)
{
    if (list_linked(&c->responses) && c->http1 != NULL) {
        struct http_response *r = list_first(&c->responses, struct http_response, node);

        if (list_linked(&c->http1->finish.node))
            http_response_finished(r); /* all of it has been sent */
        else
            http_response_lost(r);
    }
    if (c->http1 != NULL)
        http1_server_destroy_stream(c);
    free(c->partial);
    c->partial = NULL;
}

/* ---- rejecting ---- */

void http1_server_put_response(const struct http_conn *c, int status, const char *why, bool is_head,
                               struct text *out)
{
    struct http_server *s = c->server;

    text_addf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\n", status, http_status_reason(status),
              http_server_date(s));
    if (*s->server_name != '\0')
        text_addf(out, "Server: %s\r\n", s->server_name);
    text_addf(out,
              "Connection: close\r\nContent-Length: %zu\r\n"
              "Content-Type: text/plain; charset=utf-8\r\n\r\n%s",
              strlen(why), is_head ? "" : why);
}

/* The known parts of a request with an incomplete or invalid head. */
static void note_facts(struct http_request *req, const struct http1_request_facts *facts)
{
    req->method = facts->method;
    req->target = facts->target;
    req->authority = facts->host;
}

/* Reject the request that is incomplete: in its head, or in its body. */
static void http1_server_reject(struct http_conn *c, enum request_fault f)
{
    struct http1_server_stream *x = c->http1;
    struct text response = {0};

    if (x->head_bytes == 0) {
        struct http1_request_facts facts;
        /* For the parts of the request line. */
        enum request_fault unused =
            http1_request_read((struct slice){x->in, x->in_len}, &facts, NULL, 0);
        (void)unused;
        note_facts(&x->req, &facts);
        f = request_line_fault(&c->server->options.max, f, &x->req);
    }
    http_server_rejected(c, f, request_fault_status(f), &x->req);
    text_add(&response, (struct slice){x->interim.iov_base, x->interim.iov_len});
    http1_server_put_response(c, request_fault_status(f), request_fault_text(f),
                              slice_is(x->req.method, "HEAD"), &response);
    http1_server_destroy_stream(c);
    http_conn_linger(c, &response);
}

/* ---- the head ---- */

/*
 * Scans for the end of the head. Returns true when it is there. A head that is too large, or has a
 * line end that is not CRLF, is rejected even if it is incomplete.
 */
static bool find_head_end(struct http1_server_stream *x, enum request_fault *f)
{
    const struct request_sizes *max = &x->conn->server->options.max;
    const char *p = x->in;

    while (x->scanned < x->in_len) {
        const char *lf = memchr(p + x->scanned, '\n', x->in_len - x->scanned);
        if (lf == NULL)
            break;
        size_t at = (size_t)(lf - p);
        x->scanned = (uint32_t)at + 1;
        /* One empty line may stand before the request. */
        if (at == 1 && p[0] == '\r')
            continue;
        if (at < 2 || p[at - 1] != '\r')
            *f = at == 0 || (p[0] == '\r' && p[1] != '\n') ? FAULT_BLANK_LINE : FAULT_BARE_LINE_END;
        else if (p[at - 2] == '\n')
            return true;
        else
            *f = request_check_head(max, at, x->lines++);
        if (*f != FAULT_NONE)
            return false;
    }
    x->scanned = (uint32_t)x->in_len;
    *f = request_check_head(max, x->in_len, 0);
    return false;
}

static void put_request(struct http1_server_stream *x, const struct http1_request_facts *facts)
{
    const struct message_field *from = x->conn->server->http1_server_fields;
    struct http_request *req = &x->req;
    struct message_fields *fields = &req->fields;
    struct message_field *to = x->fields;
    size_t room = ARRAY_LEN(x->conn->server->http1_server_fields);
    /* Of too many, for which request_check() rejects the request, only the first are there. */
    size_t n = facts->nheaders < room ? facts->nheaders : room;
    uint32_t kinds = 0;

    note_facts(req, facts);
    if (req->authority.p == NULL)
        req->authority = SLICE_LIT("");
    req->version = facts->minor_version != 0 ? 0x101 : 0x100;
    req->keep_alive = facts->keep_alive;
    req->received_ms = loop_wall_ms(x->conn->server->loop);
    fields->room = HTTP1_SERVER_FIELDS_ROOM;
    if (n + HTTP1_SERVER_FIELDS_MORE > HTTP1_SERVER_FIELDS_ROOM) {
        fields->room = n + HTTP1_SERVER_FIELDS_MORE;
        to = http_request_take(req, fields->room * sizeof(*to));
    }
    fields->at = to;
    for (const struct message_field *h = from; h != from + n; ++h) {
        if (h->kind == FIELD_FRAMING) /* known without it */
            continue;
        *to++ = *h;
        kinds |= FIELD_BIT(h->kind);
    }
    fields->n = (size_t)(to - fields->at);
    fields->kinds = kinds;
    if (facts->upgrades)
        req->upgrade = message_fields_find(fields, SLICE_LIT("upgrade"), NULL)->value;
}

/* ---- the body ---- */

/* F: why the request is rejected; WHOLE: it is complete, and handed over. C may be closed. True:
 * more is to be read. */
static bool advance_request(struct http_conn *c, enum request_fault f, bool whole)
{
    struct http1_server_stream *x = c->http1;
    struct http_server *s = c->server;

    if (f == FAULT_NONE) {
        if (!whole)
            return true;
        if (x->in_place)
            x->req.body = (struct slice){x->in + x->head_bytes, (size_t)x->left};
        else if (x->req.body.p != NULL)
            x->req.body = body_sink_bytes(&x->body);
        if (x->req.body.p == NULL && x->body.file != NULL)
            f = FAULT_BODY_NO_ROOM;
    }
    if (f != FAULT_NONE) {
        http1_server_reject(c, f);
        return false;
    }
    x->state = HTTP1_SERVER_BUSY;
    http_conn_enter(c, PHASE_BUSY);
    c->half_close_allowed = false;
    x->req.body_file = x->req.body.len != 0 ? x->body.file : NULL;
    http_server_count(&s->counts.requests);
    s->options.on_request(s->options.context, &x->req, c);
    return false;
}

/* N bytes of a chunked body at P, where memory may be written to. True: more is to be read. */
static bool take_chunks(struct http_conn *c, char *p, size_t n)
{
    struct http1_server_stream *x = c->http1;
    size_t used;
    size_t data;
    bool ended;
    enum request_fault f = http1_chunked_take(&x->chunks, p, n, &used, &data, &ended);

    if (f == FAULT_NONE)
        f = request_check_body(&c->server->options.max, x->chunks.data_bytes);
    if (f == FAULT_NONE) {
        if (used != n)
            text_add(&x->rest, (struct slice){p + used, n - used});
        if (!body_sink_add(&x->body, &c->server->options.sinks, (struct slice){p, data}))
            f = FAULT_BODY_NO_ROOM;
    }
    return advance_request(c, f, ended);
}

/* The head is complete. True: more is to be read. */
static bool begin_body(struct http_conn *c, const struct http1_request_facts *facts)
{
    struct http1_server_stream *x = c->http1;
    const struct body_sink_limits *sinks = &c->server->options.sinks;
    size_t here = x->in_len - x->head_bytes;

    x->in_used = x->head_bytes;
    if (!facts->chunked && !facts->has_length)
        return advance_request(c, FAULT_NONE, true);
    bool asks = facts->expects && facts->minor_version != 0 && here == 0 &&
                (facts->chunked || facts->content_length != 0);
    if (asks && http_server_declines(c, &x->req)) {
        x->declined = true;
        x->req.keep_alive = false;
        return advance_request(c, FAULT_NONE, true);
    }
    x->req.body = SLICE_LIT("");
    x->state = facts->chunked ? HTTP1_SERVER_CHUNKED : HTTP1_SERVER_SIZED;
    http_conn_enter(c, PHASE_BODY);
    if (asks) {
        x->interim = (struct iovec){writable_bytes(continue_head), sizeof(continue_head) - 1};
        http1_server_write_on(c);
    }
    if (facts->chunked) {
        x->in_used = x->in_len;
        return here == 0 || take_chunks(c, x->in + x->head_bytes, here);
    }
    x->left = facts->content_length;
    bool whole = here >= x->left;
    x->in_place = x->left <= x->in_room - x->head_bytes &&
                  (sinks->directory == NULL || x->left <= sinks->memory_bytes) &&
                  (whole || body_sink_count(&x->body, sinks, x->in_room));
    bool room = true;
    if (x->in_place) {
        x->in_used += whole ? (size_t)x->left : 0;
    } else {
        struct slice bytes = {x->in + x->head_bytes, whole ? (size_t)x->left : here};

        x->in_used += bytes.len;
        room = body_sink_expect(&x->body, sinks, x->left) && body_sink_add(&x->body, sinks, bytes);
        x->left -= bytes.len;
    }
    return advance_request(c, room ? FAULT_NONE : FAULT_BODY_NO_ROOM, whole);
}

/* There are new bytes in a head. True: more is to be read. */
static bool http1_server_take_head(struct http_conn *c)
{
    struct http1_server_stream *x = c->http1;
    struct http_server *s = c->server;
    struct http1_request_facts facts;
    enum request_fault f = FAULT_NONE;

    bool ends = x->in_len >= 4 && memcmp(x->in + x->in_len - 4, "\r\n\r\n", 4) == 0;
    if (!ends && !find_head_end(x, &f))
        return advance_request(c, f, false);
    f = http1_request_read((struct slice){x->in, x->in_len}, &facts, s->http1_server_fields,
                           ARRAY_LEN(s->http1_server_fields));
    if (f == FAULT_NONE) {
        const struct request_sizes sizes = {facts.bytes, facts.nheaders, facts.content_length};

        x->head_bytes = facts.bytes;
        put_request(x, &facts);
        f = request_check(&x->req, &sizes, &s->options.max);
    }
    return f != FAULT_NONE ? advance_request(c, f, false) : begin_body(c, &facts);
}

/* ---- reading ---- */

/* A head that has filled its room, and is not too large yet. */
static void grow_input(struct http1_server_stream *x)
{
    size_t room = 2 * x->in_room;
    char *in = xmalloc(room);

    memcpy(in, x->in, x->in_len);
    free_input(x);
    x->in = in;
    x->in_room = room;
}

/* An incomplete head, which may stay so for long, takes no more memory than its bytes. Not one that
 * has outgrown its block: it would be copied at each arrival of a few bytes. */
static noinline_ void store_partial(struct http_conn *c)
{
    const struct http1_server_stream *x = c->http1;
    struct http1_server_partial *p = xmalloc(sizeof(*p) + x->in_len);

    p->len = x->in_len;
    p->scanned = x->scanned;
    p->lines = x->lines;
    memcpy(p->bytes, x->in, x->in_len);
    http1_server_destroy_stream(c);
    c->partial = p;
}

/* A stream with an input that begins with BYTES. */
static struct http1_server_stream *create_with(struct http_conn *c, struct slice bytes)
{
    struct http1_server_stream *x = http1_server_create_stream(c);

    while (x->in_room < bytes.len)
        grow_input(x);
    memcpy(x->in, bytes.p, bytes.len);
    x->in_len = bytes.len;
    return x;
}

static noinline_ void restore_partial(struct http_conn *c)
{
    struct http1_server_partial *p = c->partial;
    struct http1_server_stream *x = create_with(c, (struct slice){p->bytes, p->len});

    x->scanned = p->scanned;
    x->lines = p->lines;
    free(p);
    c->partial = NULL;
}

/* Where the next bytes go. */
static struct iovec room_of(struct http_conn *c)
{
    struct http1_server_stream *x = c->http1;
    size_t max = READ_ROOM_BYTES;

    if (x->state == HTTP1_SERVER_HEAD || x->in_place) {
        if (x->in_len == x->in_room)
            grow_input(x);
        return (struct iovec){x->in + x->in_len, x->in_room - x->in_len};
    }
    if (x->state == HTTP1_SERVER_CHUNKED)
        return (struct iovec){http_server_read_room(c->server), CHUNKED_READ_MAX};
    max = x->left < max ? (size_t)x->left : max;
    size_t room = body_sink_room(&x->body);
    if (room == 0)
        return (struct iovec){http_server_read_room(c->server), max};
    return (struct iovec){x->body.memory.p + x->body.memory.len, max < room ? max : room};
}

/* N bytes were received at the place given by room_of. Returns true if more is to be read. */
static bool http1_server_take(struct http_conn *c, char *p, size_t n)
{
    struct http1_server_stream *x = c->http1;
    enum request_fault f = FAULT_NONE;

    c->received_bytes += n;
    if (x->state == HTTP1_SERVER_HEAD) {
        if (x->in_len == 0)
            http_conn_enter(c, PHASE_HEAD);
        x->in_len += n;
        return http1_server_take_head(c);
    }
    if (x->state == HTTP1_SERVER_CHUNKED)
        return take_chunks(c, p, n);
    if (x->in_place) {
        x->in_len += n;
        bool whole = x->in_len - x->head_bytes >= x->left;
        if (whole)
            x->in_used = x->head_bytes + (size_t)x->left;
        return advance_request(c, f, whole);
    }
    x->left -= n;
    if (p == x->body.memory.p + x->body.memory.len) {
        x->body.memory.len += n; /* it was read to its place */
        x->body.bytes += n;
    } else if (!body_sink_add(&x->body, &c->server->options.sinks, (struct slice){p, n})) {
        f = FAULT_BODY_NO_ROOM;
    }
    return advance_request(c, f, x->left == 0);
}

/* Reads what there is, until a request is complete. C may be closed. */
static void read_request(struct http_conn *c)
{
    if (c->partial != NULL)
        restore_partial(c);
    else if (c->http1 == NULL)
        (void)http1_server_create_stream(c);
    for (int i = 0; i < READS_PER_EVENT; ++i) {
        struct iovec room = room_of(c);
        ssize_t n = transport_recv(&c->transport, room.iov_base, room.iov_len);

        if (n == -1 && (errno == EAGAIN || errno == EINTR))
            break;
        if (n <= 0) {
            if (c->http1->head_bytes != 0)
                http_server_rejected(c, FAULT_BODY_BROKEN_OFF,
                                     request_fault_status(FAULT_BODY_BROKEN_OFF), &c->http1->req);
            http_conn_close(c);
            return;
        }
        if (!http1_server_take(c, room.iov_base, (size_t)n))
            return;
        if ((size_t)n < room.iov_len && !transport_read_ahead(&c->transport))
            break;
    }
    http_conn_read_ahead_later(c);
    struct http1_server_stream *x = c->http1;
    if (x->state != HTTP1_SERVER_HEAD)
        return;
    if (x->in_len == 0)
        http1_server_destroy_stream(c);
    else if (x->in_room == LOOP_BLOCK_BYTES)
        store_partial(c);
}

void http1_server_readable(struct http_conn *c)
{
    if (c->http1 == NULL || c->http1->state != HTTP1_SERVER_BUSY) {
        read_request(c);
        return;
    }
    /* A client with a request in progress: has it disconnected? */
    bool ended = watch_ended(c->transport.watch);
    bool quiet = c->transport.tls != NULL && !ended && transport_is_quiet(&c->transport);

    if (c->transport.tls != NULL && c->transport.tls->ended)
        ended = true;
    if (quiet && !ended)
        return;
    if (ended && (!c->half_close_allowed || transport_has_failed(&c->transport))) {
        http_conn_close(c);
        return;
    }
    /* Its end is then reported although bytes of the next request are unread. */
    transport_read_level(&c->transport, c->half_close_allowed ? WATCH_FAILURE : WATCH_END);
}

/* ---- the next request ---- */

void http1_server_finish(struct http_conn *c)
{
    const struct http_server *s = c->server;
    struct http1_server_stream *x = c->http1;
    /* The bytes that were read after the present request. */
    struct slice rest = {x->in + x->in_used, x->in_len - x->in_used};
    struct text next = {0};

    if (rest.len == 0)
        rest = text_slice(&x->rest);
    if (!x->req.keep_alive) {
        /* The kernel resets a connection that is closed with unread bytes. */
        bool more = rest.len != 0 || x->declined || transport_has_input(&c->transport);

        http1_server_destroy_stream(c);
        if (more)
            http_conn_linger(c, &next);
        else
            http_conn_close(c);
        return;
    }
    text_add(&next, rest);
    http1_server_destroy_stream(c);
    x = next.len != 0 ? create_with(c, text_slice(&next)) : NULL;
    text_fini(&next);
    http_conn_enter(c, x != NULL ? PHASE_HEAD : PHASE_IDLE);
    transport_read_level(&c->transport, WATCH_BYTES);
    if (x != NULL && !http1_server_take_head(c))
        return;
    if (x == NULL && s->shuts_idle)
        http_conn_drain(c);
    if (!http_conn_is_closed(c) && (x != NULL || transport_read_ahead(&c->transport)))
        read_request(c);
}

/* ---- time ---- */

void http1_server_sweep(struct http_conn *c, uint64_t now_ms)
{
    const struct http_server_options *o = &c->server->options;

    if (c->phase == PHASE_HEAD && http_conn_phase_over(c, o->header_timeout_ms, now_ms)) {
        http_server_count(&c->server->counts.header_timeouts);
        if (c->partial != NULL)
            restore_partial(c);
        http1_server_reject(c, FAULT_HEAD_TIMEOUT);
    } else if (c->phase == PHASE_BODY && http_conn_phase_over(c, o->body_timeout_ms, now_ms)) {
        http_server_count(&c->server->counts.body_timeouts);
        http1_server_reject(c, FAULT_BODY_TIMEOUT);
    } else if (c->phase == PHASE_BODY &&
               pace_too_slow(&c->body_pace, c->received_bytes, o->min_body_rate,
                             o->min_body_rate_grace_ms, now_ms)) {
        http1_server_reject(c, FAULT_BODY_RATE);
    } else if (c->phase == PHASE_BUSY) {
        http_response_sweep(c, now_ms);
    }
}
