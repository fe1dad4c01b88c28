/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of an HTTP/2 answer that has no bytes left to go with it: of one without a body, of one
 * whose last bytes went before it was known that they were the last, of one that is cut.
 *
 * No window bounds it (RFC 9113 section 6.9.1), but libh2o waits for one, the stream's and the
 * connection's, as for any bytes: a client that has given none, because it downloads something
 * large or wants to read nothing yet, would see no end. So it is put behind what libh2o has
 * written, and the stream is taken to where libh2o has it after its last frame: as libh2o itself
 * does with a push that it cancels.
 */
#include "common/net/http_conn.h"

#include <h2o/http2.h>
#include <h2o/http2_internal.h>

enum { FLAGS_AT = 4 }; /* in a frame's head */

static void put_empty_data(h2o_http2_conn_t *conn, uint32_t stream)
{
    h2o_iovec_t room = h2o_buffer_reserve(&conn->_write.buf, H2O_HTTP2_FRAME_HEADER_SIZE);

    ASSERT(room.base != NULL);
    h2o_http2_encode_frame_header((uint8_t *)room.base, 0, H2O_HTTP2_FRAME_TYPE_DATA,
                                  H2O_HTTP2_FRAME_FLAG_END_STREAM, (int32_t)stream);
    conn->_write.buf->size += H2O_HTTP2_FRAME_HEADER_SIZE;
}

/* The HEADERS frame at AT is the last of its stream; what continues it has no such flag. */
static void end_by_head(h2o_http2_conn_t *conn, size_t at)
{
    ASSERT(conn->_write.buf->size >= at + H2O_HTTP2_FRAME_HEADER_SIZE);
    char *head = conn->_write.buf->bytes + at;
    ASSERT(head[FLAGS_AT - 1] == H2O_HTTP2_FRAME_TYPE_HEADERS);
    head[FLAGS_AT] |= H2O_HTTP2_FRAME_FLAG_END_STREAM;
}

void http2_end_send(struct http_reply *r, bool first, h2o_send_state_t state)
{
    h2o_http2_conn_t *conn = r->conn->sock->data;
    h2o_req_t *req = r->req->library;
    h2o_http2_stream_t *s = H2O_STRUCT_FROM_MEMBER(h2o_http2_stream_t, req, req);
    size_t at = conn->_write.buf->size;

    /* Without a window it is not among those that libh2o has turns for; and it must have none by
     * what follows its request in the same bytes, which libh2o may be in the middle of. */
    s->output_window._avail = HTTP2_WINDOW_SUNK;
    if (first)
        http2_head_send(r, NULL, 0, state);
    else
        h2o_send(req, NULL, 0, state);
    /* One that was reset, or whose connection is about to close, sends nothing more. */
    if (s->state != H2O_HTTP2_STREAM_STATE_SEND_BODY_IS_FINAL ||
        conn->state >= H2O_HTTP2_CONN_STATE_IS_CLOSING)
        return;
    if (state == H2O_SEND_STATE_ERROR)
        h2o_http2_encode_rst_stream_frame(&conn->_write.buf, s->stream_id,
                                          -H2O_HTTP2_ERROR_PROTOCOL);
    else if (first)
        end_by_head(conn, at);
    else
        put_empty_data(conn, s->stream_id);
    h2o_http2_stream_set_state(conn, s, H2O_HTTP2_STREAM_STATE_END_STREAM);
    ASSERT(!h2o_linklist_is_linked(&s->_refs.link));
    h2o_linklist_insert(&conn->_write.streams_to_proceed, &s->_refs.link);
}
