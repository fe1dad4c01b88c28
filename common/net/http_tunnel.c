/* SPDX-License-Identifier: Apache-2.0
 *
 * A tunnel: the client's socket and the worker's byte stream, joined after a 101. Two flows, one
 * each way:
 *
 *     read some -> stop reading -> write it all -> count it -> read again
 *
 * which is the back-pressure. A plain client is read by hand into a bounded buffer, as the worker
 * is; a client's TLS only by libh2o, into the socket's input. The end of one side is passed on as a
 * half-close where that is possible; TLS knows none that peers could be trusted with, so there it
 * ends the tunnel.
 */
#include "common/net/http_conn.h"

#include <stdlib.h>

enum { TUNNEL_READ_MAX = 32 * 1024 };

struct flow {
    uint64_t bytes; /* taken by the other side */
    size_t writing; /* of BUF, of the client's input or of what came early */
    bool not_read;  /* these are of the latter two */
    bool ended;     /* this side has sent its last byte */
    char *buf;      /* TUNNEL_READ_MAX, made at the first read */
};

struct http_tunnel {
    struct list node; /* in the server's */
    struct http_server *server;
    struct flow up, down; /* to the worker, to the client */
    h2o_socket_t *client;
    struct http1_upgraded worker;
    struct iovec left; /* for the worker: not written yet */
    struct http_tunnel_end end;
    struct timer idle;
    uint64_t idle_ms;
    struct loop_deferred report;
    bool starting; /* libh2o has been told of us and will call http_tunnel_start */
    bool over;
};

/* ---- the end ---- */

static void run_report(struct loop_deferred *d)
{
    struct http_tunnel *t = container_of(d, struct http_tunnel, report);
    struct http_server *s = t->server;

    if (t->end.ended != NULL)
        t->end.ended(t->end.context, t->up.bytes, t->down.bytes);
    free(t->up.buf);
    free(t->down.buf);
    text_fini(&t->worker.early);
    free(t);
    --s->ntunnels;
    http_server_conn_gone(s);
}

static void close_client(struct http_tunnel *t)
{
    if (t->client == NULL)
        return;
    t->client->data = NULL;
    h2o_socket_close(t->client);
    t->client = NULL;
}

static void end_tunnel(struct http_tunnel *t)
{
    if (t->over)
        return;
    t->over = true;
    list_remove(&t->node);
    timer_stop(&t->idle);
    close_client(t);
    transport_close(&t->worker.transport);
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

static void restart_idle_timer(struct http_tunnel *t)
{
    if (t->idle_ms != 0)
        timer_start(t->server->loop, &t->idle, t->idle_ms);
}

/* Where bytes of F go that were read now. */
static char *room_of(struct flow *f)
{
    if (f->buf == NULL)
        f->buf = xmalloc(TUNNEL_READ_MAX);
    return f->buf;
}

/* ---- from the client to the worker ---- */

static void go_on_up(struct http_tunnel *t);

static void on_worker_writable(void *context);

static void write_up(struct http_tunnel *t)
{
    while (t->left.iov_len != 0) {
        ssize_t n = transport_send(&t->worker.transport, &t->left, 1, 0);

        if (n == -1 && errno == EAGAIN) {
            transport_await_writable(&t->worker.transport, on_worker_writable);
            return;
        }
        if (n == -1) {
            end_tunnel(t);
            return;
        }
        t->left.iov_base = (char *)t->left.iov_base + n;
        t->left.iov_len -= (size_t)n;
    }
    t->up.bytes += t->up.writing;
    if (t->up.not_read)
        h2o_buffer_consume(&t->client->input, t->up.writing);
    t->up.writing = 0;
    go_on_up(t);
}

static void on_worker_writable(void *context)
{
    write_up(context);
}

static void send_up(struct http_tunnel *t, char *bytes, size_t len, bool from_input)
{
    t->up.writing = len;
    t->up.not_read = from_input;
    t->left = (struct iovec){bytes, len};
    restart_idle_timer(t);
    h2o_socket_read_stop(t->client);
    write_up(t);
}

/* The client has ended, and the worker has all of it. */
static void end_up(struct http_tunnel *t)
{
    t->up.ended = true;
    h2o_socket_read_stop(t->client);
    if (t->down.ended || (transport_end_sending(&t->worker.transport) == -1 && errno == ENOTSUP))
        end_tunnel(t);
}

static void read_client(struct http_tunnel *t)
{
    char *room = room_of(&t->up);
    ssize_t n = recv(h2o_socket_get_fd(t->client), room, TUNNEL_READ_MAX, MSG_DONTWAIT);

    if (n > 0)
        send_up(t, room, (size_t)n, false);
    else if (n == 0)
        end_up(t);
    else if (errno != EAGAIN && errno != EINTR)
        end_tunnel(t);
}

static void on_client_readable(h2o_socket_t *sock, const char *err)
{
    struct http_tunnel *t = sock->data;

    if (sock->ssl == NULL) {
        read_client(t);
        return;
    }
    if (err != NULL && err != h2o_socket_error_closed) {
        end_tunnel(t);
        return;
    }
    t->up.ended = err != NULL;
    if (t->up.ended || sock->input->size != 0)
        go_on_up(t);
}

/* Read on, or first pass on what libh2o has read already. */
static void go_on_up(struct http_tunnel *t)
{
    h2o_buffer_t *input = t->client->input;

    if (input->size != 0) {
        send_up(t, input->bytes, input->size, true);
        return;
    }
    if (t->up.ended) {
        end_up(t);
        return;
    }
    h2o_socket_dont_read(t->client, t->client->ssl == NULL);
    h2o_socket_read_start(t->client, on_client_readable);
}

/* ---- from the worker to the client ---- */

static void go_on_down(struct http_tunnel *t);

static void on_client_written(h2o_socket_t *sock, const char *err)
{
    struct http_tunnel *t = sock->data;

    if (err != NULL) {
        end_tunnel(t);
        return;
    }
    t->down.bytes += t->down.writing;
    if (t->down.not_read)
        text_fini(&t->worker.early);
    t->down.writing = 0;
    go_on_down(t);
}

static void send_down(struct http_tunnel *t, char *bytes, size_t len, bool early)
{
    h2o_iovec_t iov = {bytes, len};

    t->down.writing = len;
    t->down.not_read = early;
    restart_idle_timer(t);
    transport_read(&t->worker.transport, false);
    h2o_socket_write(t->client, &iov, 1, on_client_written);
}

/* The worker has ended, and the client has all of it. */
static void end_down(struct http_tunnel *t)
{
    t->down.ended = true;
    transport_read(&t->worker.transport, false);
    if (t->up.ended || t->client->ssl != NULL)
        end_tunnel(t);
    else
        shutdown(h2o_socket_get_fd(t->client), SHUT_WR);
}

static void read_worker(struct http_tunnel *t)
{
    char *room = room_of(&t->down);
    ssize_t n = transport_recv(&t->worker.transport, room, TUNNEL_READ_MAX);

    if (n > 0)
        send_down(t, room, (size_t)n, false);
    else if (n == 0)
        end_down(t);
    else if (errno != EAGAIN && errno != EINTR)
        end_tunnel(t);
}

static void on_worker_readable(void *context)
{
    read_worker(context);
}

static void go_on_down(struct http_tunnel *t)
{
    struct text *early = &t->worker.early;

    if (early->len != 0) {
        send_down(t, early->p, early->len, true);
        return;
    }
    transport_read(&t->worker.transport, true);
    if (transport_read_ahead(&t->worker.transport))
        read_worker(t);
}

/* ---- the start ---- */

struct http_tunnel *http_tunnel_create(struct http_server *s, const struct http1_upgraded *worker,
                                       uint64_t idle_timeout_ms, const struct http_tunnel_end *end)
{
    struct http_tunnel *t = xcalloc(1, sizeof(*t));

    t->server = s;
    t->worker = *worker;
    t->end = *end;
    t->idle_ms = idle_timeout_ms;
    t->report.run = run_report;
    t->starting = true;
    timer_init(&t->idle, on_idle);
    transport_attach(&t->worker.transport, s->loop, on_worker_readable, t);
    transport_read(&t->worker.transport, false);
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
        close_client(t);
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
    restart_idle_timer(t);
    go_on_up(t);
    if (!t->over)
        go_on_down(t);
}
