/* SPDX-License-Identifier: Apache-2.0
 *
 * The head of an HTTP/2 response. libh2o puts each field into the client's table, and looks through
 * all that is there for the next one. A field that is never the same again would fill the table
 * with what nobody refers to, and push out what is: it is kept from libh2o, and added to the block
 * once that is made, as a literal that no table keeps.
 */
#include "common/net/http_conn.h"

#include <h2o/http2.h>
#include <h2o/http2_internal.h>

#define UNIQUE_NAME "x-request-id"

enum {
    VALUE_MAX = 126,   /* its length is one byte then */
    HEAD_MAX = 12000,  /* with which the block is sure to be one frame, with some room */
    PER_FIELD_MAX = 8, /* what coding may add to one */
};

/* A literal: its kind, the name and its length, the value and its length. */
struct literal {
    char bytes[1 + sizeof(UNIQUE_NAME) + 1 + VALUE_MAX];
    size_t len;
};

static bool fits_one_frame(const h2o_headers_t *headers)
{
    size_t bytes = 0;

    for (size_t i = 0; i < headers->size; ++i)
        bytes += headers->entries[i].name->len + headers->entries[i].value.len + PER_FIELD_MAX;
    return bytes <= HEAD_MAX;
}

static bool is_unique(const h2o_header_t *h)
{
    return h->name->len == sizeof(UNIQUE_NAME) - 1 && h->value.len <= VALUE_MAX &&
           memcmp(h->name->base, UNIQUE_NAME, sizeof(UNIQUE_NAME) - 1) == 0;
}

/* Move the field from HEADERS to OUT. False: there is none. */
static bool take_out(h2o_headers_t *headers, struct literal *out)
{
    size_t i = 0;

    while (i < headers->size && !is_unique(&headers->entries[i]))
        ++i;
    if (i == headers->size || !fits_one_frame(headers))
        return false;
    const h2o_iovec_t value = headers->entries[i].value;
    char *to = out->bytes;

    *to++ = 0;
    *to++ = sizeof(UNIQUE_NAME) - 1;
    memcpy(to, UNIQUE_NAME, sizeof(UNIQUE_NAME) - 1);
    to += sizeof(UNIQUE_NAME) - 1;
    *to++ = (char)value.len;
    if (value.len != 0)
        memcpy(to, value.base, value.len);
    out->len = (size_t)(to - out->bytes) + value.len;
    --headers->size;
    memmove(&headers->entries[i], &headers->entries[i + 1],
            (headers->size - i) * sizeof(*headers->entries));
    return true;
}

static size_t frame_length(const h2o_buffer_t *b, size_t at)
{
    const unsigned char *p = (const unsigned char *)b->bytes + at;

    return (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
}

/* Add L to the block in the HEADERS frame that is the output from AT on. */
static void add_to_block(h2o_http2_conn_t *conn, size_t at, const struct literal *l)
{
    size_t size = conn->_write.buf->size;

    if (size == at) /* nothing goes out any more */
        return;
    ASSERT(size >= at + H2O_HTTP2_FRAME_HEADER_SIZE);
    const char *head = conn->_write.buf->bytes + at;
    ASSERT(head[3] == H2O_HTTP2_FRAME_TYPE_HEADERS);
    ASSERT((head[4] & H2O_HTTP2_FRAME_FLAG_END_HEADERS) != 0);
    size_t len = frame_length(conn->_write.buf, at);
    ASSERT(at + H2O_HTTP2_FRAME_HEADER_SIZE + len == size);

    h2o_iovec_t room = h2o_buffer_reserve(&conn->_write.buf, l->len);
    ASSERT(room.base != NULL);
    memcpy(room.base, l->bytes, l->len);
    conn->_write.buf->size += l->len;
    len += l->len;
    char *length = conn->_write.buf->bytes + at;
    length[0] = (char)(len >> 16);
    length[1] = (char)(len >> 8);
    length[2] = (char)len;
}

void http2_head_send(struct http_reply *r, h2o_iovec_t *iov, size_t n, h2o_send_state_t state)
{
    h2o_http2_conn_t *conn = r->conn->sock->data;
    h2o_req_t *req = r->req->library;
    size_t at = conn->_write.buf->size;
    struct literal unique;

    if (!take_out(&req->res.headers, &unique)) {
        h2o_send(req, iov, n, state);
        return;
    }
    /* The request may go with it; the connection stays, as it has yet to write. */
    h2o_send(req, iov, n, state);
    add_to_block(conn, at, &unique);
}
