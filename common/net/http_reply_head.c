/* SPDX-License-Identifier: Apache-2.0
 *
 * The framing of an HTTP/1 answer. Its head is written by us: libh2o prints its own by format,
 * which costs as much as all else that it does for a request. It sends ours as the first bytes of
 * the body, and is told that its own has gone: by a flag behind the last output stream of the
 * connection, a private field that is locked to this version of the library as the tap's is
 * (http_tap_library.c). Each answer proves that libh2o has understood: it notes when its own head
 * goes out, and must not.
 */
#include "common/base/put.h"
#include "common/net/http_conn.h"
#include "common/net/http_fields.h"

#include <stdlib.h>

enum {
    STATUS_LINE = sizeof("HTTP/1.1 200 \r\n") - 1,
    /* The longest of each: Date, Connection, Content-Length, Server without what it says. */
    OWN_FIELDS =
        sizeof("Date: \r\nConnection: keep-alive\r\nContent-Length: 18446744073709551615\r\n"
               "Server: \r\n") -
        1 + H2O_TIMESTR_RFC1123_LEN,
    /* Before lines that are there first: of both, with a reason and a Server of usual lengths. */
    FRONT_ROOM = 256,
    /* After the fields. */
    BEHIND_ROOM = sizeof("Transfer-Encoding: chunked\r\n\r\n") - 1,
    /* A body that is not larger is copied behind its head, so that both are one piece to send. */
    JOIN_MAX = 4096,
};

/* The last output stream of an HTTP/1 connection. */
struct last_stream {
    h2o_ostream_t super;
    int head_sent;
};

/* ---- the piece ---- */

void http_reply_free_piece(struct http_reply *r)
{
    struct http_piece *p = &r->piece;

    if (p->room == LOOP_BLOCK_BYTES)
        loop_give_block(r->conn->server->loop, p->p);
    else
        free(p->p);
    p->p = NULL;
}

/* Nothing is there yet, with FRONT bytes before it and BEHIND bytes after it. */
static struct http_piece take_piece(const struct http_reply *r, size_t front, size_t behind)
{
    size_t bytes = front + behind;
    struct http_piece p = {.room = LOOP_BLOCK_BYTES, .from = front, .to = front};

    if (bytes <= LOOP_BLOCK_BYTES) {
        p.p = loop_take_block(r->conn->server->loop);
    } else {
        p.room = bytes;
        p.p = xmalloc(bytes);
    }
    return p;
}

/* There are FRONT bytes before what is there, and BEHIND after it. */
static void make_room(struct http_reply *r, size_t front, size_t behind)
{
    const struct http_piece old = r->piece;

    if (old.p != NULL && old.from >= front && old.room - old.to >= behind)
        return;
    struct slice there = {old.p, old.p != NULL ? old.to - old.from : 0};
    if (there.len != 0)
        there.p += old.from;
    struct http_piece p = take_piece(r, front, there.len + behind);
    p.to = (size_t)(put_slice(p.p + p.from, there) - p.p);
    http_reply_drop_piece(r);
    r->piece = p;
}

char *http_reply_room(struct http_reply *r, size_t bytes)
{
    if (r->over)
        return NULL;
    ASSERT(!r->conn->http2);
    http_reply_drop_piece(r);
    r->piece = take_piece(r, FRONT_ROOM, bytes + BEHIND_ROOM);
    return r->piece.p + r->piece.from;
}

void http_reply_lines(struct http_reply *r, size_t bytes)
{
    if (r->over)
        return;
    r->piece.to = r->piece.from + bytes;
    ASSERT(r->piece.to + BEHIND_ROOM <= r->piece.room);
}

void http_reply_keep_piece(struct http_reply *r, h2o_iovec_t *v)
{
    const struct http_piece *p = &r->piece;

    if (p->p != NULL && v->base >= p->p && v->base < p->p + p->room) {
        char *to = http_request_take(r->req, v->len);
        memcpy(to, v->base, v->len);
        v->base = to;
    }
    http_reply_drop_piece(r);
}

/* ---- the head ---- */

/* Each of these writes what ends at AT, and returns where it begins. */
static char *before(char *at, const char *p, size_t n)
{
    at -= n;
    memcpy(at, p, n);
    return at;
}

static char *slice_before(char *at, struct slice s)
{
    (void)put_slice(at - s.len, s);
    return at - s.len;
}

#define BEFORE(at, literal) before((at), "" literal, sizeof(literal) - 1)

static char *status_line_before(char *at, int status, const char *reason, size_t reason_len)
{
    ASSERT(status >= 100);
    ASSERT(status <= 999);
    if (status == 200 && reason_len == 2 && memcmp(reason, "OK", 2) == 0)
        return BEFORE(at, "HTTP/1.1 200 OK\r\n");
    at = BEFORE(at, "\r\n");
    at = slice_before(at, (struct slice){reason, reason_len});
    *--at = ' ';
    at = put_u64_before(at, (unsigned)status);
    return BEFORE(at, "HTTP/1.1 ");
}

static char *own_fields_before(char *at, const struct http_request *req, h2o_context_t *ctx)
{
    h2o_iovec_t server = ctx->globalconf->server_name;

    if (server.len != 0) {
        at = BEFORE(at, "\r\n");
        at = slice_before(at, slice_of_iovec(server));
        at = BEFORE(at, "Server: ");
    }
    if (req->res.content_length != UINT64_MAX) {
        at = BEFORE(at, "\r\n");
        at = put_u64_before(at, req->res.content_length);
        at = BEFORE(at, "Content-Length: ");
    }
    at = req->keep_alive ? BEFORE(at, "\r\nConnection: keep-alive\r\n")
                         : BEFORE(at, "\r\nConnection: close\r\n");
    /* Brings the cache up to date: of this second, where libh2o's own is of the millisecond. */
    if ((uint64_t)ctx->_timestamp_cache.tv_at.tv_sec != h2o_now(ctx->loop) / 1000)
        (void)h2o_get_timestamp(ctx, NULL, NULL);
    at = before(at, ctx->_timestamp_cache.value->rfc1123, H2O_TIMESTR_RFC1123_LEN);
    return BEFORE(at, "Date: ");
}

static size_t bytes_of_fields(const struct message_fields *fields)
{
    size_t n = 0;

    for (size_t i = 0; i < fields->n; ++i)
        n += fields->at[i].name.len + fields->at[i].value.len + PUT_LINE_EXTRA;
    return n;
}

h2o_iovec_t http_reply_write_head(struct http_reply *r)
{
    struct http_request *req = r->req;
    struct http_piece *p = &r->piece;
    h2o_context_t *ctx = &r->conn->server->ctx;
    size_t server_len = ctx->globalconf->server_name.len;
    size_t reason_len = strlen(req->res.reason);
    size_t fields = bytes_of_fields(&req->res.fields);
    size_t front = STATUS_LINE + reason_len + OWN_FIELDS + server_len + fields;

    make_room(r, front, BEHIND_ROOM);
    if (req->library != NULL) {
        struct last_stream *last = (void *)req->library->_ostr_top;

        ASSERT(last->super.next == NULL);
        ASSERT(last->head_sent == 0);
        last->head_sent = 1;
    }
    char *head = p->p + p->from - fields;
    char *end = head;
    for (size_t i = 0; i < req->res.fields.n; ++i)
        end = put_line(end, req->res.fields.at[i].name, req->res.fields.at[i].value);
    ASSERT(end == p->p + p->from);
    head = own_fields_before(head, req, ctx);
    head = status_line_before(head, req->res.status, req->res.reason, reason_len);
    ASSERT((size_t)(p->p + p->from - head) <= front);
    end = p->p + p->to;
    if (r->chunked)
        end = PUT(end, "Transfer-Encoding: chunked\r\n");
    end = PUT(end, "\r\n");
    p->from = (size_t)(head - p->p);
    p->to = (size_t)(end - p->p);
    return h2o_iovec_init(head, p->to - p->from);
}

size_t http_reply_join(struct http_reply *r, h2o_iovec_t *vectors, size_t n)
{
    struct http_piece *p = &r->piece;
    size_t bytes = 0;

    for (size_t i = 1; i < n; ++i)
        bytes += vectors[i].len;
    if (bytes > JOIN_MAX || bytes > p->room - p->to)
        return n;
    char *at = p->p + p->to;
    for (size_t i = 1; i < n; ++i)
        at = put_slice(at, slice_of_iovec(vectors[i]));
    p->to += bytes;
    vectors[0].len += bytes;
    r->joined_bytes = http1_bodies_bytes(&r->sending);
    http1_bodies_release(&r->sending);
    return 1;
}

void http_reply_check_head(const h2o_req_t *req)
{
    ASSERT(req->timestamps.response_start_at.tv_sec == 0);
}

/* ---- chunked framing of HTTP/1.1 answers without a known length ---- */

static size_t write_chunk_head(char *out, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = 0;
    int shift = 0;

    while (shift + 4 < (int)(8 * sizeof(bytes)) && bytes >> (shift + 4) != 0)
        shift += 4;
    for (; shift >= 0; shift -= 4)
        out[n++] = digits[bytes >> shift & 0xf];
    out[n++] = '\r';
    out[n++] = '\n';
    return n;
}

size_t http_reply_frame_chunk(struct http_reply *r, h2o_iovec_t **iov, size_t n, bool ends)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n; ++i)
        bytes += (*iov)[i].len;
    if (bytes == 0) {
        (*iov)[0] = h2o_iovec_init(H2O_STRLIT("0\r\n\r\n"));
        return ends ? 1 : 0;
    }
    (*iov)[n] =
        ends ? h2o_iovec_init(H2O_STRLIT("\r\n0\r\n\r\n")) : h2o_iovec_init(H2O_STRLIT("\r\n"));
    *--*iov = h2o_iovec_init(r->chunk_head, write_chunk_head(r->chunk_head, bytes));
    return n + 2;
}
