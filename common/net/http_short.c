/* SPDX-License-Identifier: Apache-2.0
 *
 * The short way of an HTTP/1 request: past libh2o. What the tap has read needs no second parser,
 * and libh2o's own request costs, to be made and set free, more than all else that it does for one.
 * So where nothing of libh2o's is needed, the handler's request is filled here, of what was read.
 * Handlers see no difference.
 *
 *     tap has a whole request -> begin -> handler -> http_reply.c -> finish -> the tap reads on
 *                                                       |
 *                                                       +-> cut, drop: the connection closes
 *
 * libh2o's connection stays where it is, between two requests: it is told nothing, sees no byte,
 * and serves the next request that does not fit. What belongs to the request is not in the socket:
 * the input that it was read to goes with it. So libh2o may close the connection, as it does when
 * it is told that the client has left, whatever is under way here.
 */
#include "common/base/checked.h"
#include "common/net/http_conn.h"
#include "common/net/http_fields.h"

#include <stdlib.h>

/* Requests whose memory is kept for the next ones: none where it is seen who uses it after that. */
#ifdef RLB_CHECKED
enum { SPARE_MAX = 0 };
#else
enum { SPARE_MAX = 64 };
#endif

/* Of a body: what is larger is received by libh2o's rules, or goes to a file. */
enum { BODY_MAX = 64 * 1024 };

enum {
    FIELDS_ROOM = 24,  /* more are elsewhere */
    FIELDS_MORE = 4,   /* that handlers add */
    TAKEN_ROOM = 1024, /* for what handlers take */
};

struct http_short {
    struct http_conn *conn;
    h2o_buffer_t *input; /* the request's bytes */
    struct http_request req;
    struct message_field fields[FIELDS_ROOM];
    _Alignas(ARENA_ALIGN) char taken[TAKEN_ROOM];
};

/* ---- life ---- */

void http_short_start_server(struct http_server *s)
{
    s->spare_requests.max = SPARE_MAX;
}

void http_short_stop_server(struct http_server *s)
{
    while (s->spare_requests.cnt != 0)
        free(h2o_mem_alloc_recycle(&s->spare_requests, sizeof(struct http_short)));
}

/* C's input is the request's from here on. */
static struct http_short *create(struct http_conn *c)
{
    struct http_short *q = h2o_mem_alloc_recycle(&c->server->spare_requests, sizeof(*q));

    q->conn = c;
    q->input = c->sock->input;
    h2o_buffer_init(&c->sock->input, &h2o_socket_buffer_prototype);
    return q;
}

/* The request is over, for whoever has it in hand, too. */
static void end(struct http_conn *c)
{
    struct http_short *q = c->brief;

    if (list_linked(&c->replies))
        http_reply_lost(list_first(&c->replies, struct http_reply, node));
    http_request_fini(&q->req);
    c->brief = NULL;
    h2o_buffer_dispose(&q->input);
    h2o_mem_free_recycle(&c->server->spare_requests, q);
}

/* The connection goes, as libh2o ends it when the client has left. */
static apart void end_and_close(struct http_conn *c)
{
    end(c);
    c->tap.read(c->sock, h2o_socket_error_closed);
}

void http_short_lost(struct http_conn *c)
{
    if (c->brief != NULL)
        end(c);
}

/* ---- the request ---- */

bool http_short_fits(const struct http_conn *c, const struct http1_request_facts *facts)
{
    /* What is padded is changed for libh2o: its fields are not where they were read. */
    if (facts->chunked || facts->expects || facts->upgrades || facts->padded)
        return false;
    if (facts->content_length > BODY_MAX || http_tap_wants_spill(c))
        return false;
    if (c->server->options.long_way)
        return false;
    return facts->target.p[0] == '/' && !slice_is(facts->method, "CONNECT") && !c->cut &&
           !h2o_socket_is_writing(c->sock);
}

static void put_facts(struct http_short *q, const struct http1_request_facts *facts)
{
    q->req = (struct http_request){
        .method = facts->method,
        .target = facts->target,
        .authority = facts->host.p != NULL ? facts->host : SLICE_LIT(""),
        .version = facts->minor_version != 0 ? 0x101 : 0x100,
        .keep_alive = facts->keep_alive,
        .received_ms = h2o_now(q->conn->server->ctx.loop), /* wall time, as the turn has it */
        .res.content_length = UINT64_MAX,
    };
    arena_init(&q->req.arena, q->taken, sizeof(q->taken));
    if (facts->has_length)
        q->req.body = (struct slice){q->input->bytes + facts->bytes, (size_t)facts->content_length};
}

/* All but those that are known without them. */
static void put_fields(struct http_short *q, const struct http1_header *from, size_t n)
{
    struct message_fields *fields = &q->req.fields;
    struct message_field *to = q->fields;
    uint32_t kinds = 0;

    fields->room = FIELDS_ROOM;
    if (n + FIELDS_MORE > FIELDS_ROOM) {
        fields->room = n + FIELDS_MORE;
        to = http_request_take(&q->req, fields->room * sizeof(*to));
    }
    fields->at = to;
    for (const struct http1_header *h = from; h != from + n; ++h) {
        if (h->kind == FIELD_FRAMING)
            continue;
        *to++ = (struct message_field){.name = h->name, .value = h->value, .kind = h->kind};
        kinds |= FIELD_BIT(h->kind);
    }
    fields->n = (size_t)(to - fields->at);
    fields->kinds = kinds;
}

/* What is known of C's request since its head was read; if that has moved since, read it again. */
static const struct http1_request_facts *facts_of(struct http_conn *c)
{
    struct http_head_read *h = &c->server->head;
    struct slice bytes = {c->sock->input->bytes, c->sock->input->size};

    if (h->conn == c && h->facts.method.p == bytes.p + c->tap.method.at)
        return &h->facts;
    enum request_fault f = http1_request_read(bytes, &h->facts, h->fields, ARRAY_LEN(h->fields));
    ASSERT(f == FAULT_NONE);
    return &h->facts;
}

bool http_short_begin(struct http_conn *c)
{
    struct http_server *s = c->server;
    const struct http1_request_facts *facts = facts_of(c);
    bool gone = false;

    ASSERT(c->brief == NULL);
    ASSERT(list_empty(&c->replies));
    ASSERT(c->sock->input->size == facts->bytes + facts->content_length);
    c->tap.brief = false;
    s->head.conn = NULL;
    if (c->read_shut)
        h2o_socket_read_stop(c->sock); /* nobody will watch it meanwhile */
    c->brief = create(c);
    put_facts(c->brief, facts);
    put_fields(c->brief, s->head.fields, facts->nheaders);
    c->body = NULL;
    ASSERT(c->tap.gone == NULL);
    c->tap.gone = &gone;
    http_server_count(s, COUNT_REQUESTS);
    http_server_count(s, COUNT_SHORT);
    s->options.on_request(s->options.context, &c->brief->req, c);
    if (gone)
        return false;
    c->tap.gone = NULL;
    return true;
}

/* ---- the answer ---- */

static void on_written(h2o_socket_t *sock, const char *err)
{
    struct http_conn *c = sock->on_close.data;

    if (err != NULL)
        end_and_close(c);
    else
        http_reply_proceed(list_first(&c->replies, struct http_reply, node));
}

void http_short_write(struct http_reply *r, h2o_iovec_t *iov, size_t n)
{
    h2o_socket_write(r->conn->sock, iov, n, on_written);
}

void http_short_finish(struct http_conn *c)
{
    bool stays = c->brief->req.keep_alive;

    http_conn_unwatch(c);
    if (!stays) {
        end_and_close(c);
        return;
    }
    end(c);
    http_tap_read_on(c);
}

static void on_cut_written(h2o_socket_t *sock, const char *err)
{
    (void)err;
    end_and_close(sock->on_close.data);
}

void http_short_cut(struct http_conn *c, h2o_iovec_t head)
{
    if (head.len != 0)
        h2o_socket_write(c->sock, &head, 1, on_cut_written);
    else
        end_and_close(c);
}
