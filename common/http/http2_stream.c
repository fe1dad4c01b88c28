/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests over HTTP/2: from a decoded head, and DATA, to struct http_request; and how a stream is
 * rejected or reset.
 *
 * What violates the protocol is reset; what gets a status over HTTP/1 gets the
 * same one. If this side ends a stream before the client does, further frames of it can be in
 * flight: its number is retained for a while (h2->resets), and these frames are discarded.
 */
#include "common/http/http2_stream.h"

#include <stdlib.h>

enum {
    /* Of what is discarded, before a reset notifies the client that it is not needed. Not at once:
     * curl 7.88 takes the reset for a failure if it comes with the response. */
    DISCARDED_MAX = 64 * 1024,
    FIELDS_MORE = 4,  /* that handlers add */
    EXCESS_MAX = 256, /* requests in a row beyond what was announced, without an end */
};

/* Of all streams that are discarded. Never written to. */
static struct http2_side discarded = {.discard = true};

/* ---- streams ---- */

static unsigned stream_bucket_of(uint32_t id)
{
    return (id >> 1) % HTTP2_BUCKETS;
}

struct http2_stream *http2_find(const struct http2_server *h2, uint32_t id)
{
    struct http2_stream *s = h2->buckets[stream_bucket_of(id)];

    while (s != NULL && s->id != id)
        s = s->next;
    return s;
}

/* The client may still send on the stream ID, which has SIDE. */
static void add_discarded(struct http2_server *h2, uint32_t id, const struct http2_side *side)
{
    if (side->ended)
        return;
    if (h2->resets == NULL)
        h2->resets = xcalloc(HTTP2_RESETS_STORED, sizeof(*h2->resets));
    h2->resets[h2->next_reset] = id;
    h2->next_reset = (h2->next_reset + 1) % HTTP2_RESETS_STORED;
}

void http2_stream_destroy(struct http2_stream *s, bool lost)
{
    struct http2_server *h2 = s->h2;
    struct http2_stream **at = &h2->buckets[stream_bucket_of(s->id)];
    struct http_response *r = s->req.response;

    /* It is not found any more. */
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    list_remove(&s->node);
    if (s->side.discard) /* the client may send the body that it was not asked for */
        add_discarded(h2, s->id, &s->side);
    --h2->nstreams;
    if (s->state == HTTP2_STREAM_BODY)
        --h2->nbodies;
    http2_output_remove(s);
    if (r != NULL && lost)
        http_response_lost(r);
    else if (r != NULL)
        http_response_finished(r);
    body_sink_fini(&s->body, &h2->conn->server->body_bin);
    http_request_fini(&s->req);
    free(s);
}

/* ---- streams that are discarded ---- */

/* Where ID is among them; NULL: it is not. */
static uint32_t *find_discarded(const struct http2_server *h2, uint32_t id)
{
    uint32_t *at = h2->resets;

    while (at != NULL && *at != id) {
        if (++at == h2->resets + HTTP2_RESETS_STORED)
            at = NULL;
    }
    return at;
}

static void remove_discarded(struct http2_server *h2, uint32_t id)
{
    uint32_t *found = find_discarded(h2, id);

    if (found != NULL)
        *found = 0;
}

struct http2_side *http2_on_side(void *owner, uint32_t id)
{
    const struct http2_server *h2 = owner;
    struct http2_stream *s = http2_find(h2, id);

    if (s != NULL)
        return &s->side;
    return find_discarded(h2, id) != NULL ? &discarded : NULL;
}

/* ---- resets and rejections ---- */

/* Its request or response is incomplete: S is freed. Calls http_response_lost(). */
static void reset_stream(struct http2_stream *s, enum http2_error code)
{
    http2_put_reset(s->h2, s->id, code);
    add_discarded(s->h2, s->id, &s->side);
    http2_stream_destroy(s, true);
}

/* Too many end the connection. */
static enum request_fault count_rejected(struct http2_server *h2)
{
    return ++h2->conn->rejected > HTTP2_REJECTED_MAX ? FAULT_FRAMES_RESETS : FAULT_NONE;
}

/* S, which has not been handed over, gets a response with the status of F. */
static cold_ void respond_fault(struct http2_stream *s, enum request_fault f)
{
    struct http2_server *h2 = s->h2;
    int status = request_fault_status(f);

    http_server_rejected(h2->conn, f, status, &s->req);
    http2_put_response(h2, s->id, status, request_fault_text(f), slice_is(s->req.method, "HEAD"));
    add_discarded(h2, s->id, &s->side);
    http2_stream_destroy(s, true);
}

/* The same; faults of the client are counted, which a lack of room is not. */
static cold_ enum request_fault stream_reject(struct http2_stream *s, enum request_fault f)
{
    struct http2_server *h2 = s->h2;

    respond_fault(s, f);
    return f != FAULT_BODY_NO_ROOM ? count_rejected(h2) : FAULT_NONE;
}

static struct fair_owner body_owner(struct body_sink *b)
{
    const struct http2_stream *s = container_of(b, struct http2_stream, body);

    return http_conn_owner(s->h2->conn, &s->req);
}

static void on_body_lost(struct body_sink *b)
{
    respond_fault(container_of(b, struct http2_stream, body), FAULT_BODY_NO_ROOM);
}

static const struct body_sink_user sink_user = {.owner = body_owner, .lost = on_body_lost};

enum request_fault http2_on_malformed(void *owner, uint32_t id, unused_ struct http2_side *side,
                                      struct http2_head *head, enum request_fault fault)
{
    struct http2_server *h2 = owner;
    struct http2_stream *s = head == NULL ? http2_find(h2, id) : NULL;

    if (head != NULL && h2->closing) {
        add_discarded(h2, id, &head->side);
        return FAULT_NONE;
    }
    http_server_rejected(h2->conn, fault, 0, s != NULL ? &s->req : NULL);
    if (s != NULL) {
        reset_stream(s, http2_error_of(fault));
    } else {
        http2_put_reset(h2, id, http2_error_of(fault));
        h2->last_id = id;
        add_discarded(h2, id, &head->side);
    }
    return count_rejected(h2);
}

enum request_fault http2_on_reset(void *owner, uint32_t id, unused_ uint32_t code)
{
    struct http2_server *h2 = owner;
    struct http2_stream *s = http2_find(h2, id);

    if (s == NULL) {
        remove_discarded(h2, id);
        return FAULT_NONE;
    }
    if (s->state == HTTP2_STREAM_BODY)
        http_server_rejected(h2->conn, FAULT_BODY_BROKEN_OFF, 0, &s->req);
    http2_stream_destroy(s, true);
    http2_count_abandoned(h2);
    return FAULT_NONE;
}

enum request_fault http2_on_overflow(struct http2_stream *s)
{
    struct http2_server *h2 = s->h2;
    bool incomplete = s->state == HTTP2_STREAM_BODY;
    uint64_t abandoned = h2->conn->abandoned + 1; /* also if the response had begun */

    if (incomplete)
        http_server_rejected(h2->conn, FAULT_HTTP2_WINDOW, 0, &s->req);
    reset_stream(s, HTTP2_ERROR_FLOW_CONTROL);
    if (incomplete)
        return count_rejected(h2);
    h2->conn->abandoned = abandoned;
    http2_count_abandoned(h2);
    return FAULT_NONE;
}

void http2_report_ended(struct http2_server *h2)
{
    const struct http2_stream *s;

    list_for_each_entry (s, &h2->streams, node) {
        if (s->state == HTTP2_STREAM_BODY)
            http_server_rejected(h2->conn, FAULT_BODY_BROKEN_OFF, 0, &s->req);
    }
}

/* ---- the head of a request ---- */

/* RFC 9113 section 8.2.3: cookies may come in several fields, and are one for HTTP/1. */
static struct slice joined_cookies(struct http_request *req, const struct http2_head *head)
{
    size_t bytes = 0;

    for (size_t i = 0; i < head->nfields; ++i) {
        if (head->fields[i].kind == FIELD_COOKIE)
            bytes += head->fields[i].value.len + 2;
    }
    char *p = http_request_take(req, bytes);
    char *at = p;
    for (size_t i = 0; i < head->nfields; ++i) {
        const struct message_field *h = &head->fields[i];
        if (h->kind != FIELD_COOKIE)
            continue;
        if (at != p) {
            *at++ = ';';
            *at++ = ' ';
        }
        if (h->value.len != 0)
            memcpy(at, h->value.p, h->value.len);
        at += h->value.len;
    }
    return (struct slice){p, (size_t)(at - p)};
}

static struct http2_stream *stream_create(struct http2_server *h2, struct http2_head *head)
{
    struct http2_stream *s = xmalloc(sizeof(*s));
    struct http2_stream **bucket = &h2->buckets[stream_bucket_of(head->stream)];
    struct http_request *req = &s->req;
    struct message_fields *fields = &req->fields;
    struct message_field *cookie = NULL;
    bool joined = false;

    memset(s, 0, offsetof(struct http2_stream, few));
    s->h2 = h2;
    s->id = head->stream;
    s->side = head->side;
    s->pieces = s->few;
    s->send_window = h2->initial_window;
    s->body.user = &sink_user;
    s->next = *bucket;
    *bucket = s;
    list_push_back(&h2->streams, &s->node);
    list_init(&s->line);
    ++h2->nstreams;
    ++h2->nbodies;
    http_request_init(req, s->room, sizeof(s->room));
    if (head->bytes.len != 0)
        http2_head_move(head, http_request_take(req, head->bytes.len));
    req->method = head->method;
    req->target = head->path.p != NULL ? head->path : SLICE_LIT("");
    req->authority = head->authority.p != NULL ? head->authority : SLICE_LIT("");
    req->version = 0x200;
    req->keep_alive = true;
    req->received_ms = loop_wall_ms(h2->conn->server->loop);
    req->sink = &s->body;
    req->stream = s;
    fields->room = head->nfields + FIELDS_MORE;
    fields->at = http_request_take(req, fields->room * sizeof(*fields->at));
    struct message_field *to = fields->at;
    for (size_t i = 0; i < head->nfields; ++i) {
        const struct message_field *h = &head->fields[i];
        if (h->kind == FIELD_COOKIE && cookie != NULL) {
            if (!joined)
                cookie->value = joined_cookies(req, head);
            joined = true;
            continue;
        }
        if (h->kind == FIELD_COOKIE)
            cookie = to;
        *to++ = *h;
    }
    fields->n = (size_t)(to - fields->at);
    fields->kinds = head->kinds;
    return s;
}

/* ---- the whole request ---- */

/* The request is complete. */
static enum request_fault hand_over(struct http2_stream *s)
{
    struct http2_server *h2 = s->h2;
    struct http_server *server = h2->conn->server;

    s->state = HTTP2_STREAM_BUSY;
    --h2->nbodies;
    s->req.body_file = s->body.file;
    http_server_count(&server->counts.requests);
    server->options.on_request(server->options.context, &s->req, h2->conn);
    /* The reader stops when the connection has been closed meanwhile. */
    return h2->closed ? FAULT_HTTP2_CLOSED : FAULT_NONE;
}

static enum request_fault complete_body(struct http2_stream *s)
{
    s->req.body = body_sink_bytes(&s->body);
    if (s->req.body.p == NULL)
        return stream_reject(s, FAULT_BODY_NO_ROOM);
    return hand_over(s);
}

enum request_fault http2_on_request(void *owner, struct http2_head *head)
{
    struct http2_server *h2 = owner;
    const struct http_server *server = h2->conn->server;
    const struct http_server_options *o = &server->options;
    const struct message_field *expect = NULL;

    if (h2->closing) { /* GOAWAY has named the last stream */
        add_discarded(h2, head->stream, &head->side);
        return FAULT_NONE;
    }
    if (h2->nstreams >= HTTP2_STREAMS_MAX) { /* one too many: no response, and not served */
        http2_put_reset(h2, head->stream, HTTP2_ERROR_REFUSED_STREAM);
        add_discarded(h2, head->stream, &head->side);
        h2->excess += !head->side.ended;
        return h2->excess > EXCESS_MAX ? FAULT_FRAMES_STREAMS : FAULT_NONE;
    }
    h2->excess = 0;
    h2->last_id = head->stream;
    struct http2_stream *s = stream_create(h2, head);
    /* Cookies are one field by now, as over HTTP/1; the sizes are those of all that were sent. */
    const struct request_sizes sizes = {head->list_bytes, s->req.fields.n,
                                        head->side.sized ? head->side.left : 0};
    enum request_fault f = request_check(&s->req, &sizes, &o->max);
    if (o->http2_requests != 0 && ++h2->requests >= o->http2_requests) {
        h2->closing = true;
        http2_put_goaway(h2, h2->last_id, HTTP2_ERROR_NONE);
    }
    if (f == FAULT_NONE && message_fields_may_have(&s->req.fields, FIELD_BIT(FIELD_HOP)))
        expect = message_fields_find(&s->req.fields, SLICE_LIT("expect"), NULL);
    if (expect != NULL && !slice_eq_nocase(expect->value, SLICE_LIT("100-continue")))
        f = FAULT_EXPECTATION;
    if (f != FAULT_NONE)
        return stream_reject(s, f);
    http2_set_urgency(s);
    if (head->weighted)
        (void)http2_on_priority(h2, s->id, &head->priority);
    if (head->side.ended)
        return hand_over(s);
    if (expect != NULL && http_server_declines(h2->conn, &s->req)) {
        s->side.discard = true;
        return hand_over(s);
    }
    s->begun_ms = loop_active_ms(server->loop);
    if (s->side.sized && !body_sink_expect(&s->body, &server->options.sinks, s->side.left))
        return stream_reject(s, FAULT_BODY_NO_ROOM);
    if (expect != NULL)
        http2_put_continue(h2, s->id);
    return FAULT_NONE;
}

/* ---- the body ---- */

/* Bytes that were received of the connection's window, or of S's, are given back in large parts. */
static void renew_window(struct http2_server *h2, struct http2_stream *s, size_t used)
{
    uint32_t *credit = s != NULL ? &s->credit : &h2->credit;

    *credit += (uint32_t)used;
    if (*credit < HTTP2_CREDIT)
        return;
    http2_put_window(h2, s != NULL ? s->id : 0, *credit);
    *credit = 0;
}

/* RFC 9113 section 8.1: the rest of a request that has a response is not needed. A stream with
 * an incomplete response is not reset, as that would end the response. */
static void discard_data(struct http2_server *h2, const struct http2_data *d)
{
    if (d->ends) {
        remove_discarded(h2, d->stream);
        return;
    }
    h2->discarded_bytes += d->flow;
    if (h2->discarded_bytes <= DISCARDED_MAX || http2_find(h2, d->stream) != NULL)
        return;
    h2->discarded_bytes = 0;
    http2_put_reset(h2, d->stream, HTTP2_ERROR_NONE);
}

enum request_fault http2_on_data(void *owner, const struct http2_data *d)
{
    struct http2_server *h2 = owner;
    const struct http_server *server = h2->conn->server;

    if (d->flow > HTTP2_WINDOW - h2->credit)
        return FAULT_HTTP2_WINDOW;
    renew_window(h2, NULL, d->flow);
    if (d->side == NULL || d->side->discard) {
        discard_data(h2, d);
        return FAULT_NONE;
    }
    struct http2_stream *s = container_of(d->side, struct http2_stream, side);
    ASSERT(s->state == HTTP2_STREAM_BODY);
    if (d->flow > HTTP2_WINDOW - s->credit)
        return http2_on_overflow(s);
    enum request_fault f = request_check_body(&server->options.max, s->body.bytes + d->bytes.len);
    if (f == FAULT_NONE && d->bytes.len != 0 &&
        !body_sink_add(&s->body, &server->options.sinks, d->bytes))
        f = FAULT_BODY_NO_ROOM;
    if (f != FAULT_NONE)
        return stream_reject(s, f);
    if (d->ends)
        return complete_body(s);
    renew_window(h2, s, d->flow);
    return FAULT_NONE;
}

enum request_fault http2_on_trailers(unused_ void *owner, struct http2_side *side,
                                     struct http2_head *head)
{
    (void)head; /* trailers are dropped */
    return complete_body(container_of(side, struct http2_stream, side));
}

/* ---- bodies that are too slow ---- */

void http2_sweep_bodies(struct http2_server *h2, uint64_t now_ms)
{
    const struct http_server_options *o = &h2->conn->server->options;
    struct list *it;
    struct list *next;

    if (h2->nbodies == 0)
        return;
    list_for_each_safe (it, next, &h2->streams) {
        struct http2_stream *s = list_entry(it, struct http2_stream, node);
        if (s->state != HTTP2_STREAM_BODY)
            continue;
        bool late = o->body_timeout_ms != 0 && now_ms - s->begun_ms >= o->body_timeout_ms;
        if (!late && !pace_too_slow(&s->pace, s->body.bytes, o->min_body_rate,
                                    o->min_body_rate_grace_ms, now_ms))
            continue;
        if (late)
            http_server_count(&h2->conn->server->counts.body_timeouts);
        http_server_rejected(h2->conn, late ? FAULT_BODY_TIMEOUT : FAULT_BODY_RATE, 0, &s->req);
        reset_stream(
            s, HTTP2_ERROR_CANCEL); /* calls no http_response_lost(): there is no response yet */
    }
}
