/* SPDX-License-Identifier: Apache-2.0
 *
 * A tunnel: the client's socket and the worker's, joined after a 101. Two flows, one each way:
 *
 *     read some -> stop reading -> write it all -> count it -> read again
 *
 * which is the back-pressure. Plain sockets are read by hand into a bounded buffer, and so is a
 * worker's TLS (tls_link.h); a client's TLS only by libh2o, into the socket's input. The end of one
 * side is passed on as a half-close where that is possible; TLS knows none that peers could be
 * trusted with, so there it ends the tunnel.
 */
#include "common/net/http_conn.h"
#include "common/net/tls_link.h"

#include <errno.h>
#include <stdlib.h>

enum { TUNNEL_READ_MAX = 32 * 1024 };

struct flow {
    struct http_tunnel *tunnel;
    h2o_socket_t *from, *to;
    struct tls_link *from_tls, *to_tls; /* of the worker; NULL: plain, or libh2o's */
    struct slice left;                  /* with TO_TLS: not written yet */
    uint64_t bytes;                     /* taken by TO */
    size_t writing; /* of BUF or of FROM's input, with libh2o until it calls back */
    bool from_input;
    bool ended; /* FROM has sent its last byte */
    char *buf;  /* TUNNEL_READ_MAX, made at the first read */
};

struct http_tunnel {
    struct list node; /* in the server's */
    struct http_server *server;
    struct flow up, down; /* to the worker, to the client */
    h2o_socket_t *client, *worker;
    struct http_tunnel_end end;
    struct timer idle;
    uint64_t idle_ms;
    struct loop_deferred report;
    bool starting; /* libh2o has been told of us and will call http_tunnel_start */
    bool over;
};

static void on_readable(h2o_socket_t *sock, const char *err);
static void on_written(h2o_socket_t *sock, const char *err);
static void on_end(struct flow *f);
static void on_all_written(struct flow *f);

/* ---- the end ---- */

static void run_report(struct loop_deferred *d)
{
    struct http_tunnel *t = container_of(d, struct http_tunnel, report);
    struct http_server *s = t->server;

    if (t->end.ended != NULL)
        t->end.ended(t->end.context, t->up.bytes, t->down.bytes);
    free(t->up.buf);
    free(t->down.buf);
    free(t);
    --s->ntunnels;
    http_server_conn_gone(s);
}

static void close_socket(h2o_socket_t **sock)
{
    if (*sock == NULL)
        return;
    (*sock)->data = NULL;
    if (tls_link_of(*sock) != NULL)
        tls_link_bye(tls_link_of(*sock));
    h2o_socket_close(*sock);
    *sock = NULL;
}

static void end_tunnel(struct http_tunnel *t)
{
    if (t->over)
        return;
    t->over = true;
    list_remove(&t->node);
    timer_stop(&t->idle);
    close_socket(&t->client);
    close_socket(&t->worker);
    if (!t->starting)
        loop_defer(t->server->loop, &t->report);
}

static void on_idle(struct timer *timer)
{
    end_tunnel(container_of(timer, struct http_tunnel, idle));
}

void http_tunnels_end(struct http_server *s)
{
    while (list_linked(&s->tunnels))
        end_tunnel(list_first(&s->tunnels, struct http_tunnel, node));
}

/* ---- the flows ---- */

static void on_writable(h2o_socket_t *sock, const char *err);

static void write_tls(struct flow *f)
{
    while (f->left.len != 0) {
        ssize_t n = tls_link_send(f->to_tls, SLICE_NULL, f->left);

        if (n >= 0) {
            f->left.p += n;
            f->left.len -= (size_t)n;
        } else if (errno == EAGAIN) {
            h2o_socket_notify_write(f->to, on_writable);
            return;
        } else {
            end_tunnel(f->tunnel);
            return;
        }
    }
    on_all_written(f);
}

static void on_writable(h2o_socket_t *sock, const char *err)
{
    struct http_tunnel *t = sock->data;

    (void)err;
    write_tls(&t->up);
}

static void write_out(struct flow *f, const char *bytes, size_t len, bool from_input)
{
    h2o_iovec_t iov = h2o_iovec_init(bytes, len);
    struct http_tunnel *t = f->tunnel;

    f->writing = len;
    f->from_input = from_input;
    if (t->idle_ms != 0)
        timer_start(t->server->loop, &t->idle, t->idle_ms);
    h2o_socket_read_stop(f->from);
    if (f->to_tls == NULL) {
        h2o_socket_write(f->to, &iov, 1, on_written);
        return;
    }
    f->left = (struct slice){bytes, len};
    write_tls(f);
}

static void read_own(struct flow *f);

/* Read on, or first pass on what libh2o has read already, or TLS. */
static void go_on(struct flow *f)
{
    h2o_buffer_t *input = f->from->input;

    if (input->size != 0) {
        write_out(f, input->bytes, input->size, true);
        return;
    }
    if (f->ended) {
        on_end(f);
        return;
    }
    h2o_socket_dont_read(f->from, f->from->ssl == NULL);
    h2o_socket_read_start(f->from, on_readable);
    if (f->from_tls != NULL && tls_link_more(f->from_tls))
        read_own(f);
}

/* FROM has ended and TO has all of it. */
static void on_end(struct flow *f)
{
    struct http_tunnel *t = f->tunnel;

    f->ended = true;
    h2o_socket_read_stop(f->from);
    if ((t->up.ended && t->down.ended) || f->to->ssl != NULL || f->to_tls != NULL) {
        end_tunnel(t);
        return;
    }
    shutdown(h2o_socket_get_fd(f->to), SHUT_WR);
}

static struct flow *flow_from(h2o_socket_t *sock)
{
    struct http_tunnel *t = sock->data;

    return t->up.from == sock ? &t->up : &t->down;
}

static ssize_t receive(const struct flow *f)
{
    if (f->from_tls != NULL)
        return tls_link_recv(f->from_tls, f->buf, TUNNEL_READ_MAX);
    return recv(h2o_socket_get_fd(f->from), f->buf, TUNNEL_READ_MAX, MSG_DONTWAIT);
}

static void read_own(struct flow *f)
{
    if (f->buf == NULL)
        f->buf = xmalloc(TUNNEL_READ_MAX);
    ssize_t n = receive(f);

    if (n > 0)
        write_out(f, f->buf, (size_t)n, false);
    else if (n == 0)
        on_end(f);
    else if (errno != EAGAIN && errno != EINTR)
        end_tunnel(f->tunnel);
}

static void on_readable(h2o_socket_t *sock, const char *err)
{
    struct flow *f = flow_from(sock);

    if (sock->ssl == NULL) {
        read_own(f);
        return;
    }
    if (err != NULL && err != h2o_socket_error_closed) {
        end_tunnel(f->tunnel);
        return;
    }
    f->ended = err != NULL;
    if (f->ended || sock->input->size != 0)
        go_on(f);
}

static void on_written(h2o_socket_t *sock, const char *err)
{
    struct http_tunnel *t = sock->data;
    struct flow *f = t->up.to == sock ? &t->up : &t->down;

    if (err != NULL)
        end_tunnel(t);
    else
        on_all_written(f);
}

static void on_all_written(struct flow *f)
{
    f->bytes += f->writing;
    if (f->from_input)
        h2o_buffer_consume(&f->from->input, f->writing);
    f->writing = 0;
    go_on(f);
}

/* ---- the start ---- */

struct http_tunnel *http_tunnel_create(struct http_server *s, h2o_socket_t *worker,
                                       uint64_t idle_timeout_ms, const struct http_tunnel_end *end)
{
    struct http_tunnel *t = xcalloc(1, sizeof(*t));

    t->server = s;
    t->worker = worker;
    t->end = *end;
    t->idle_ms = idle_timeout_ms;
    t->report.run = run_report;
    t->starting = true;
    timer_init(&t->idle, on_idle);
    worker->data = t;
    list_push_back(&s->tunnels, &t->node);
    ++s->ntunnels;
    return t;
}

void http_tunnel_start(void *tunnel, h2o_socket_t *client, size_t request_bytes)
{
    struct http_tunnel *t = tunnel;

    t->starting = false;
    t->client = client;
    if (t->over) {
        /* Ended by a drain or a cut while the 101 was on its way. */
        close_socket(&t->client);
        loop_defer(t->server->loop, &t->report);
        return;
    }
    if (client == NULL) {
        end_tunnel(t);
        return;
    }
    h2o_buffer_consume(&client->input, request_bytes);
    http_tap_release(client->on_close.data);
    client->data = t;
    if (t->idle_ms != 0)
        timer_start(t->server->loop, &t->idle, t->idle_ms);
    struct tls_link *tls = tls_link_of(t->worker);

    t->up = (struct flow){.tunnel = t, .from = client, .to = t->worker, .to_tls = tls};
    t->down = (struct flow){.tunnel = t, .from = t->worker, .to = client, .from_tls = tls};
    go_on(&t->up);
    if (!t->over)
        go_on(&t->down);
}
