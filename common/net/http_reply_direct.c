/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of an HTTP/1 answer that go to the client's socket without libh2o.
 *
 * Written by ourselves: libh2o writes at once too, but tells that it has done so only after the
 * other sockets of the turn have been read. Until then each of their buffers is in use, and all of
 * them together are more than the processor's cache holds. What the socket takes here is free again
 * before the next one is read.
 *
 * Moved: by splice(2), from the worker's socket to a pipe and from there to the client's, so that
 * nothing is copied. The pipe is the server's, and empty again when a call returns: what the client
 * does not take at once is read out of it, and queued like all else. So whatever holds for bytes
 * that were read holds for these: response_buffer, slow readers, answers that are cut.
 */
#include "common/event/sys.h"
#include "common/net/http_conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    /* As much as may be asked for without privileges. Its rooms are for pages, of which many may
     * be filled in part only. */
    PIPE_BYTES = 1024 * 1024,
};

/* ---- written ---- */

/* Take BYTES off the front of the *N vectors at *IOV. */
static void skip(h2o_iovec_t **iov, size_t *n, size_t bytes)
{
    while (*n != 0 && bytes >= (*iov)->len) {
        bytes -= (*iov)->len;
        ++*iov;
        --*n;
    }
    if (*n != 0) {
        (*iov)->base += bytes;
        (*iov)->len -= bytes;
    }
}

bool http_direct_write(struct http_reply *r, h2o_iovec_t **iov, size_t *n)
{
    h2o_socket_t *sock = r->conn->sock;
    ssize_t sent;

    _Static_assert(sizeof(h2o_iovec_t) == sizeof(struct iovec), "the same two words");
    if (sock->ssl != NULL || h2o_socket_is_writing(sock))
        return false;
    do
        sent = sys_send_pieces(h2o_socket_get_fd(sock), (struct iovec *)(void *)*iov, *n,
                               MSG_DONTWAIT | MSG_NOSIGNAL | (r->moving ? MSG_MORE : 0));
    while (sent == -1 && errno == EINTR);
    if (sent > 0)
        skip(iov, n, (size_t)sent);
    return *n == 0;
}

/* ---- moved ---- */

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

void http_direct_fini(struct http_server *s)
{
    if (s->pipe[0] == -1)
        return;
    close(s->pipe[0]);
    close(s->pipe[1]);
}

static bool may_move(const struct http_reply *r, size_t max)
{
    const struct http_conn *c = r->conn;

    /* No length is known of bodies in chunks, and of answers that have none. */
    return !r->over && !c->http2 && c->sock->ssl == NULL && http_reply_flows(r) &&
           r->left_bytes != UINT64_MAX && r->left_bytes >= max && !h2o_socket_is_writing(c->sock) &&
           open_pipe(c->server);
}

/* What is in the pipe, BYTES. */
static struct http1_body *read_pipe(struct http_server *s, size_t bytes)
{
    char *p = xmalloc(bytes);

    for (size_t n = 0; n < bytes;) {
        ssize_t got = read(s->pipe[0], p + n, bytes - n);
        ASSERT(got > 0 || (got == -1 && errno == EINTR));
        n += got > 0 ? (size_t)got : 0;
    }
    return http1_body_borrow((struct slice){p, bytes}, free, p);
}

/* Of BYTES in the pipe, how many the client's socket takes. A failure is for libh2o to find. */
static size_t empty_pipe(struct http_reply *r, size_t bytes)
{
    int to = h2o_socket_get_fd(r->conn->sock);
    size_t taken = 0;
    ssize_t n = 1;

    while (taken < bytes && n > 0) {
        do
            n = splice(r->conn->server->pipe[0], NULL, to, NULL, bytes - taken,
                       SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
        while (n == -1 && errno == EINTR);
        taken += n > 0 ? (size_t)n : 0;
    }
    r->sent_bytes += taken;
    r->left_bytes -= taken;
    return taken;
}

ssize_t http_reply_move(struct http_reply *r, struct transport *from, size_t max)
{
    if (r == NULL || !may_move(r, max)) {
        errno = ENOTSUP;
        return -1;
    }
    struct http_server *s = r->conn->server;
    ssize_t n = transport_splice(from, s->pipe[1], max);
    /* What cannot be moved may still be read, or that tells why not. */
    if (n == -1 && errno != EAGAIN)
        errno = ENOTSUP;
    if (n <= 0)
        return n;
    if (!r->head_sent) {
        r->moving = true;
        http_reply_flush(r);
        r->moving = false;
    }
    size_t left = (size_t)n - (r->in_flight ? 0 : empty_pipe(r, (size_t)n));
    if (left != 0)
        http_reply_send(r, read_pipe(s, left), false);
    return n;
}
