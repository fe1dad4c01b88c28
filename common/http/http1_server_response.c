/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1 responses: the head, written around the lines that came from the worker; chunks; and the
 * way to the client's descriptor. Written: at once, as far as the transport takes it; the rest when
 * it takes bytes again. Moved: by splice(2), from the worker's socket to a pipe and from there to
 * the client's, so that nothing is copied. The pipe is the server's, and empty again when a call
 * returns: what the client does not take at once is read out of it, and queued like all else.
 */
#include "common/base/bytes.h"
#include "common/http/http1_server_stream.h"
#include "common/net/body_piece.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    STATUS_LINE = sizeof("HTTP/1.1 200 \r\n") - 1,
    /* The longest of each: Date, Connection, Content-Length, Server without its value. */
    OWN_FIELDS = sizeof("Date: \r\nConnection: upgrade, keep-alive\r\n"
                        "Content-Length: 18446744073709551615\r\nServer: \r\n") -
                 1 + HTTP_DATE_BYTES,
    /* Before the lines of http_response_room(): for status line, own fields and a few others. */
    FRONT_ROOM = 256,
    /* After the fields. */
    BEHIND_ROOM = sizeof("Transfer-Encoding: chunked\r\n\r\n") - 1,
    /* A body that is not larger is copied behind its head, so that both are one piece to send. */
    JOIN_MAX = 4096,
    /* The most that is allowed without privileges. A pipe holds pages, many of which may be filled
     * in part only. */
    PIPE_BYTES = 1024 * 1024,
};

/* ---- the piece ---- */

void http1_server_drop_piece(struct http_response *r)
{
    struct http_piece *p = &r->piece;

    if (p->p == NULL)
        return;
    if (p->room == LOOP_BLOCK_BYTES)
        loop_free_block(r->conn->server->loop, p->p);
    else
        free(p->p);
    p->p = NULL;
}

/* Returns an empty piece, with room for FRONT bytes before its position and BEHIND after it. */
static struct http_piece take_piece(const struct http_response *r, size_t front, size_t behind)
{
    size_t bytes = front + behind;
    struct http_piece p = {.room = LOOP_BLOCK_BYTES, .from = front, .to = front};

    if (bytes <= LOOP_BLOCK_BYTES) {
        p.p = loop_alloc_block(r->conn->server->loop);
    } else {
        p.room = bytes;
        p.p = xmalloc(bytes);
    }
    return p;
}

char *http_response_room(struct http_response *r, size_t bytes)
{
    if (r->over)
        return NULL;
    ASSERT(r->req->stream == NULL);
    http1_server_drop_piece(r);
    r->piece = take_piece(r, FRONT_ROOM, bytes + BEHIND_ROOM);
    return r->piece.p + r->piece.from;
}

void http_response_lines(struct http_response *r, size_t bytes)
{
    if (r->over)
        return;
    r->piece.to = r->piece.from + bytes;
    ASSERT(r->piece.to + BEHIND_ROOM <= r->piece.room);
}

/* ---- the head ---- */

/* Each of these writes what ends at AT, and returns where it begins. */
static char *slice_before(char *at, struct slice s)
{
    (void)put_slice(at - s.len, s);
    return at - s.len;
}

#define BEFORE(at, literal) slice_before((at), SLICE_LIT(literal))

/* The status line and the server's own fields. */
static char *front_before(char *at, const struct http_request *req, struct http_server *s,
                          struct slice reason, struct slice server)
{
    int status = req->res.status;

    ASSERT(status >= 100);
    ASSERT(status <= 999);
    if (server.len != 0) {
        at = BEFORE(at, "\r\n");
        at = slice_before(at, server);
        at = BEFORE(at, "Server: ");
    }
    if (req->res.content_length != UINT64_MAX) {
        at = BEFORE(at, "\r\n");
        at = put_u64_before(at, req->res.content_length);
        at = BEFORE(at, "Content-Length: ");
    }
    if (status == 101)
        at = BEFORE(at, "\r\nConnection: upgrade\r\n");
    else if (status == 426)
        at = req->keep_alive ? BEFORE(at, "\r\nConnection: upgrade, keep-alive\r\n")
                             : BEFORE(at, "\r\nConnection: upgrade, close\r\n");
    else
        at = req->keep_alive ? BEFORE(at, "\r\nConnection: keep-alive\r\n")
                             : BEFORE(at, "\r\nConnection: close\r\n");
    at = slice_before(at, (struct slice){http_server_date(s), HTTP_DATE_BYTES});
    at = BEFORE(at, "Date: ");
    if (status == 200 && reason.len == 2 && memcmp(reason.p, "OK", 2) == 0)
        return BEFORE(at, "HTTP/1.1 200 OK\r\n");
    at = BEFORE(at, "\r\n");
    at = slice_before(at, reason);
    *--at = ' ';
    at = put_u64_before(at, (unsigned)status);
    return BEFORE(at, "HTTP/1.1 ");
}

/* The head of R's response, written into its piece around the lines that are there. */
static struct iovec write_head(struct http_response *r)
{
    struct http_request *req = r->req;
    struct http_server *s = r->conn->server;
    struct http_piece *p = &r->piece;
    struct slice server = slice_of(s->server_name);
    struct slice reason = slice_of(req->res.reason);
    const struct message_field *at = req->res.fields.at;
    size_t n = req->res.fields.n;
    size_t fields = 0;

    for (size_t i = 0; i < n; ++i)
        fields += at[i].name.len + at[i].value.len + PUT_LINE_EXTRA;
    size_t front = STATUS_LINE + reason.len + OWN_FIELDS + server.len + fields;

    if (p->p == NULL || p->from < front || p->room - p->to < BEHIND_ROOM) {
        struct slice there = {p->p, p->p != NULL ? p->to - p->from : 0};
        struct http_piece larger = take_piece(r, front, there.len + BEHIND_ROOM);

        if (there.len != 0)
            there.p += p->from;
        larger.to = (size_t)(put_slice(larger.p + larger.from, there) - larger.p);
        http1_server_drop_piece(r);
        *p = larger;
    }
    char *head = p->p + p->from - fields;
    char *end = head;
    for (size_t i = 0; i < n; ++i)
        end = put_line(end, at[i].name, at[i].value);
    ASSERT(end == p->p + p->from);
    head = front_before(head, req, s, reason, server);
    ASSERT((size_t)(p->p + p->from - head) <= front);
    end = p->p + p->to;
    if (r->chunked)
        end = PUT(end, "Transfer-Encoding: chunked\r\n");
    end = PUT(end, "\r\n");
    p->from = (size_t)(head - p->p);
    p->to = (size_t)(end - p->p);
    return (struct iovec){head, p->to - p->from};
}

struct http_tunnel_bytes http1_server_upgrade(struct http_response *r)
{
    const struct http1_server_stream *x = r->conn->http1;
    struct http_tunnel_bytes bytes = {.to_worker = {0}, .to_client = {0}};
    struct iovec head = write_head(r);

    text_add(&bytes.to_worker, (struct slice){x->in + x->in_used, x->in_len - x->in_used});
    text_add(&bytes.to_worker, text_slice(&x->rest));
    text_add(&bytes.to_client, (struct slice){head.iov_base, head.iov_len});
    return bytes;
}

/* Of N vectors the first is the head: the others, which are R's sending, are put behind it if they
 * are small. Returns how many there are then. */
static size_t response_join(struct http_response *r, struct iovec *vectors, size_t n)
{
    struct http_piece *p = &r->piece;
    size_t bytes = 0;

    for (size_t i = 1; i < n; ++i)
        bytes += vectors[i].iov_len;
    if (bytes > JOIN_MAX || bytes > p->room - p->to)
        return n;
    char *at = p->p + p->to;
    for (size_t i = 1; i < n; ++i)
        at = put_slice(at, (struct slice){vectors[i].iov_base, vectors[i].iov_len});
    p->to += bytes;
    vectors[0].iov_len += bytes;
    r->joined_bytes = body_pieces_bytes(&r->sending);
    body_pieces_release(&r->sending);
    return 1;
}

/* ---- chunked framing of HTTP/1.1 responses without a known length ---- */

static struct iovec text_iovec(const char *text)
{
    return (struct iovec){writable_bytes(text), strlen(text)};
}

/*
 * Makes the N vectors of IOV the body of one chunk, and the last chunk with it if that ENDS the
 * response; there is room for one vector before them and one after.
 */
static noinline_ size_t frame_chunk(struct http_response *r, struct iovec **iov, size_t n,
                                    bool ends)
{
    char *end = r->chunk_head + sizeof(r->chunk_head);
    char *at = end;
    size_t bytes = 0;

    for (size_t i = 0; i < n; ++i)
        bytes += (*iov)[i].iov_len;
    if (bytes == 0) {
        (*iov)[0] = text_iovec("0\r\n\r\n");
        return ends ? 1 : 0;
    }
    (*iov)[n] = text_iovec(ends ? "\r\n0\r\n\r\n" : "\r\n");
    *--at = '\n';
    *--at = '\r';
    do
        *--at = "0123456789abcdef"[bytes & 0xf];
    while ((bytes >>= 4) != 0);
    *--*iov = (struct iovec){at, (size_t)(end - at)};
    return n + 2;
}

/* ---- writing ---- */

bool http_write(struct transport *t, struct iovec **iov, size_t *n, int flags)
{
    while (*n != 0) {
        ssize_t sent = transport_send(t, *iov, *n, flags);

        if (sent == -1)
            return false;
        size_t bytes = (size_t)sent;
        while (*n != 0 && bytes >= (*iov)->iov_len) {
            bytes -= (*iov)->iov_len;
            ++*iov;
            --*n;
        }
        if (*n == 0)
            break;
        (*iov)->iov_base = (char *)(*iov)->iov_base + bytes;
        (*iov)->iov_len -= bytes;
        /* A plain one that has taken a part has no room for the rest. */
        if (t->tls == NULL) {
            errno = EAGAIN;
            return false;
        }
    }
    return true;
}

bool http1_server_send(struct http_response *r, struct iovec *iov, size_t n, bool last)
{
    struct http_conn *c = r->conn;
    struct http1_server_stream *x = c->http1;
    bool ends = last && r->chunked; /* by a chunk of its own, if need be */
    bool head = !r->head_sent;

    if (r->chunked)
        n = frame_chunk(r, &iov, n, ends);
    if (head) {
        *--iov = write_head(r);
        n = response_join(r, iov, n + 1);
        r->head_sent = true;
        /* "100 Continue", of which the client has not taken all, precedes the head. */
        if (x->interim.iov_len != 0) {
            *--iov = x->interim;
            x->interim.iov_len = 0;
            ++n;
        }
    }
    if (!http_write(&c->transport, &iov, &n, r->moving ? MSG_MORE : 0)) {
        ASSERT(n <= HTTP1_SERVER_UNSENT_MAX);
        memcpy(x->unsent, iov, n * sizeof(*iov));
        x->unsent_at = 0;
        x->unsent_n = n;
        x->last = last;
        /* A failure is found when it is tried again. */
        transport_await_writable(&c->transport, http1_server_write_on);
        return false;
    }
    http1_server_drop_piece(r);
    /* The caller still uses the request. */
    if (last)
        loop_defer_once(c->server->loop, &x->finish);
    return true;
}

void http1_server_write_on(void *conn)
{
    struct http_conn *c = conn;
    struct http1_server_stream *x = c->http1;

    if (x == NULL)
        return;
    if (x->state != HTTP1_SERVER_BUSY) {
        struct iovec *interim = &x->interim;
        size_t n = interim->iov_len != 0 ? 1 : 0;

        if (!http_write(&c->transport, &interim, &n, 0) && errno == EAGAIN)
            transport_await_writable(&c->transport, http1_server_write_on);
        else
            x->interim.iov_len = 0; /* a failure is found, and reported, by the next read */
        return;
    }
    if (x->unsent_n == 0)
        return;
    struct http_response *r = list_first(&c->responses, struct http_response, node);
    struct iovec *iov = &x->unsent[x->unsent_at];
    bool taken = http_write(&c->transport, &iov, &x->unsent_n, 0);
    x->unsent_at = (size_t)(iov - x->unsent);
    if (!taken && errno == EAGAIN) {
        transport_await_writable(&c->transport, http1_server_write_on);
        return;
    }
    if (!taken) {
        http_conn_close(c);
        return;
    }
    http1_server_drop_piece(r);
    if (x->last)
        http_response_finished(r);
    else
        http_response_proceed(r);
}

void http1_server_cut(struct http_response *r)
{
    struct http_conn *c = r->conn;
    bool ends_by_close = r->req->version < 0x101 && r->left_bytes == UINT64_MAX;

    if (!r->head_sent) {
        r->req->keep_alive = false;
        struct iovec head = write_head(r);
        struct iovec *iov = &head;
        size_t n = 1;
        (void)http_write(&c->transport, &iov, &n, 0); /* what it does not take is cut, too */
    }
    /* Where the end of the connection is the end of the body, only a reset shows the cut. */
    if (ends_by_close)
        http_conn_reset(c);
    else
        http_conn_close(c);
}

/* ---- moving ---- */

static bool open_pipe(struct http_server *s)
{
    if (s->pipe[0] != -1)
        return true;
    if (pipe2(s->pipe, O_NONBLOCK | O_CLOEXEC) == -1) {
        s->pipe[0] = s->pipe[1] = -1;
        return false;
    }
    /* Where that is too much, less is moved at once. */
    (void)fcntl(s->pipe[0], F_SETPIPE_SZ, PIPE_BYTES);
    return true;
}

ssize_t http_response_move(struct http_response *r, struct transport *from, size_t max)
{
    /* UINT64_MAX: the body is chunked or ends at close, or the response has no body. */
    if (r == NULL || r->over || r->req->stream != NULL || r->conn->transport.tls != NULL ||
        !http_response_flows(r) || r->left_bytes == UINT64_MAX || r->left_bytes < max ||
        !open_pipe(r->conn->server)) {
        errno = ENOTSUP;
        return -1;
    }
    struct http_server *s = r->conn->server;
    ssize_t n = transport_splice(from, from->fd, s->pipe[1], max);
    /* Data that cannot be spliced may still be read, or reading reports the error. */
    if (n == -1 && errno != EAGAIN)
        errno = ENOTSUP;
    if (n <= 0)
        return n;
    if (!r->head_sent) {
        r->moving = true;
        http_response_flush(r);
        r->moving = false;
    }
    size_t left = (size_t)n;
    while (left != 0 && !r->in_flight) {
        ssize_t taken =
            transport_splice(&r->conn->transport, s->pipe[0], r->conn->transport.fd, left);
        if (taken <= 0)
            break; /* a failure is found by the next send */
        left -= (size_t)taken;
        r->sent_bytes += (size_t)taken;
        r->left_bytes -= (size_t)taken;
    }
    if (left == 0)
        return n;
    char *rest = xmalloc(left);
    for (size_t at = 0; at < left;) {
        ssize_t got = read(s->pipe[0], rest + at, left - at);
        ASSERT(got > 0 || (got == -1 && errno == EINTR));
        at += got > 0 ? (size_t)got : 0;
    }
    http_response_send(r, body_piece_borrow((struct slice){rest, left}, free, rest), false);
    return n;
}
