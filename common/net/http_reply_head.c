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

enum {
    STATUS_LINE = sizeof("HTTP/1.1 200 \r\n") - 1,
    /* The longest of each: Date, Connection, Content-Length, Transfer-Encoding; the end. */
    OWN_FIELDS =
        sizeof("Date: \r\nConnection: keep-alive\r\nContent-Length: 18446744073709551615\r\n"
               "Transfer-Encoding: chunked\r\n\r\n") -
        1 + H2O_TIMESTR_RFC1123_LEN,
};

/* The last output stream of an HTTP/1 connection. */
struct last_stream {
    h2o_ostream_t super;
    int head_sent;
};

static char *put_number(char *at, uint64_t n)
{
    char digits[20];
    size_t i = sizeof(digits);

    do {
        digits[--i] = (char)('0' + n % 10);
    } while ((n /= 10) != 0);
    return put_bytes(at, digits + i, sizeof(digits) - i);
}

static char *put_status_line(char *at, int status, const char *reason, size_t reason_len)
{
    ASSERT(status >= 100);
    ASSERT(status <= 999);
    at = PUT(at, "HTTP/1.1 ");
    *at++ = (char)('0' + status / 100);
    *at++ = (char)('0' + status / 10 % 10);
    *at++ = (char)('0' + status % 10);
    *at++ = ' ';
    at = put_slice(at, (struct slice){reason, reason_len});
    return PUT(at, "\r\n");
}

static char *put_own_fields(char *at, const h2o_req_t *req, h2o_iovec_t server)
{
    h2o_context_t *ctx = req->conn->ctx;

    (void)h2o_get_timestamp(ctx, NULL, NULL); /* brings the cache up to date */
    at = PUT(at, "Date: ");
    at = put_bytes(at, ctx->_timestamp_cache.value->rfc1123, H2O_TIMESTR_RFC1123_LEN);
    at = req->http1_is_persistent ? PUT(at, "\r\nConnection: keep-alive\r\n")
                                  : PUT(at, "\r\nConnection: close\r\n");
    if (req->res.content_length != SIZE_MAX) {
        at = PUT(at, "Content-Length: ");
        at = put_number(at, req->res.content_length);
        at = PUT(at, "\r\n");
    }
    if (server.len == 0)
        return at;
    at = PUT(at, "Server: ");
    at = put_slice(at, slice_of_iovec(server));
    return PUT(at, "\r\n");
}

static char *put_field(char *at, const h2o_header_t *h)
{
    const char *name = h->orig_name != NULL ? h->orig_name : h->name->base;

    return put_line(at, (struct slice){name, h->name->len}, slice_of_iovec(h->value));
}

static size_t room_for(const h2o_req_t *req, size_t reason_len, h2o_iovec_t server)
{
    size_t n = STATUS_LINE + reason_len + OWN_FIELDS + sizeof("Server: \r\n") + server.len;

    for (size_t i = 0; i < req->res.headers.size; ++i)
        n += req->res.headers.entries[i].name->len + req->res.headers.entries[i].value.len + 4;
    return n;
}

h2o_iovec_t http_reply_write_head(h2o_req_t *req, struct slice lines, bool chunked)
{
    struct last_stream *last = (void *)req->_ostr_top;
    h2o_iovec_t server = req->conn->ctx->globalconf->server_name;
    size_t reason_len = strlen(req->res.reason);
    size_t room = room_for(req, reason_len, server) + lines.len;
    char *head = h2o_mem_alloc_pool(&req->pool, room);

    if (last != NULL) { /* libh2o has the request */
        ASSERT(last->super.next == NULL);
        ASSERT(last->head_sent == 0);
        last->head_sent = 1;
    }
    char *at = put_status_line(head, req->res.status, req->res.reason, reason_len);
    at = put_own_fields(at, req, server);
    for (size_t i = 0; i < req->res.headers.size; ++i)
        at = put_field(at, &req->res.headers.entries[i]);
    at = put_slice(at, lines);
    if (chunked)
        at = PUT(at, "Transfer-Encoding: chunked\r\n");
    at = PUT(at, "\r\n");
    ASSERT((size_t)(at - head) <= room);
    return h2o_iovec_init(head, (size_t)(at - head));
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
