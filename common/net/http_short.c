/* SPDX-License-Identifier: Apache-2.0
 *
 * The short way of an HTTP/1 request: past libh2o. What the tap has read needs no second parser,
 * and libh2o's own request costs, to be made and set free, more than all else that it does for one.
 * So where nothing of libh2o's is needed, the handler gets a request that is made here: a h2o_req_t
 * with a connection of its own that knows no more than the socket. Handlers see no difference.
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
#include "common/base/text.h"
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

struct http_short {
    h2o_conn_t super;
    struct http_conn *conn;
    h2o_buffer_t *input; /* the request's bytes */
    h2o_req_t req;
};

/* ---- a connection for the request ---- */

static struct http_conn *conn_of(h2o_conn_t *super)
{
    return container_of(super, struct http_short, super)->conn;
}

static socklen_t get_sockname(h2o_conn_t *super, struct sockaddr *sa)
{
    return h2o_socket_getsockname(conn_of(super)->sock, sa);
}

static socklen_t get_peername(h2o_conn_t *super, struct sockaddr *sa)
{
    return h2o_socket_getpeername(conn_of(super)->sock, sa);
}

static h2o_socket_t *get_socket(h2o_conn_t *super)
{
    return conn_of(super)->sock;
}

static const h2o_conn_callbacks_t callbacks = {
    .get_sockname = get_sockname,
    .get_peername = get_peername,
    .get_socket = get_socket,
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
    struct http_server *s = c->server;
    struct http_short *q = h2o_mem_alloc_recycle(&s->spare_requests, sizeof(*q));
    h2o_req_t *req = &q->req;

    q->super = (h2o_conn_t){
        .ctx = &s->ctx,
        .hosts = c->listener->accept.hosts,
        .callbacks = &callbacks,
    };
    q->conn = c;
    q->input = c->sock->input;
    h2o_buffer_init(&c->sock->input, &h2o_socket_buffer_prototype);
    memset(req, 0, offsetof(h2o_req_t, pool));
    h2o_mem_init_pool(&req->pool);
    req->conn = &q->super;
    req->res.reason = "OK";
    req->res.content_length = SIZE_MAX;
    req->preferred_chunk_size = SIZE_MAX;
    return q;
}

/* The request is over, for whoever has it in hand, too. */
static void end(struct http_conn *c)
{
    struct http_short *q = c->brief;

    if (list_linked(&c->replies))
        http_reply_lost(list_first(&c->replies, struct http_reply, node));
    h2o_mem_clear_pool(&q->req.pool);
    c->brief = NULL;
    h2o_buffer_dispose(&q->input);
    h2o_mem_free_recycle(&c->server->spare_requests, q);
}

/* The connection goes, as libh2o ends it when the client has left. */
static void end_and_close(struct http_conn *c)
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

static h2o_iovec_t iovec_of(struct slice s)
{
    return h2o_iovec_init(s.p, s.len);
}

/* The request line and Host, as libh2o tells them. */
static void put_target(struct http_short *q, const struct http1_request_facts *facts)
{
    h2o_req_t *req = &q->req;
    bool tls = q->conn->sock->ssl != NULL;
    struct slice authority = facts->host.p != NULL ? facts->host : SLICE_LIT("");

    req->version = facts->minor_version != 0 ? 0x101 : 0x100;
    req->http1_is_persistent = facts->keep_alive;
    req->method = req->input.method = iovec_of(facts->method);
    req->authority = req->input.authority = iovec_of(authority);
    req->path = req->input.path = iovec_of(facts->target);
    req->scheme = req->input.scheme = tls ? &H2O_URL_SCHEME_HTTPS : &H2O_URL_SCHEME_HTTP;
    req->path_normalized = h2o_url_normalize_path(&req->pool, req->path.base, req->path.len,
                                                  &req->query_at, &req->norm_indexes);
    req->input.query_at = req->query_at;
    req->processed_at.at = *h2o_get_timestamp(q->super.ctx, NULL, NULL);
}

/* How much put_fields needs. */
static size_t room_for_fields(const struct http1_header *fields, size_t n)
{
    size_t bytes = n * (sizeof(h2o_header_t) + sizeof(h2o_iovec_t));

    for (size_t i = 0; i < n; ++i)
        bytes += fields[i].name.len;
    return bytes;
}

/* Those that libh2o takes out of the others, as they are known without them. */
static bool is_framing(const h2o_token_t *token)
{
    return token == H2O_TOKEN_HOST || token == H2O_TOKEN_CONTENT_LENGTH;
}

static void put_fields(struct http_short *q, const struct http1_header *fields, size_t n)
{
    h2o_headers_t *to = &q->req.headers;
    char *room = h2o_mem_alloc_pool(&q->req.pool, room_for_fields(fields, n));
    h2o_iovec_t *names = (h2o_iovec_t *)(void *)(room + n * sizeof(*to->entries));
    char *lower = (char *)(names + n);

    to->entries = (h2o_header_t *)(void *)room;
    to->capacity = n;
    for (size_t i = 0; i < n; ++i) {
        struct slice name = fields[i].name;

        ascii_lower_copy(lower, name);
        const h2o_token_t *token = h2o_lookup_token(lower, name.len);
        if (token != NULL && is_framing(token))
            continue;
        h2o_header_t *h = &to->entries[to->size++];
        *h = (h2o_header_t){.orig_name = name.p, .value = iovec_of(fields[i].value)};
        if (token != NULL) {
            h->name = http_field_token_name(token);
            continue;
        }
        *names = h2o_iovec_init(lower, name.len);
        h->name = names++;
        lower += name.len;
    }
}

static void put_body(struct http_short *q, const struct http1_request_facts *facts)
{
    if (facts->has_length)
        q->req.entity =
            h2o_iovec_init(q->input->bytes + facts->bytes, (size_t)facts->content_length);
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
    put_target(c->brief, facts);
    put_fields(c->brief, s->head.fields, facts->nheaders);
    put_body(c->brief, facts);
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
    bool stays = c->brief->req.http1_is_persistent;

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
