/* SPDX-License-Identifier: Apache-2.0
 *
 * A tunnel: the client's byte stream and the worker's, joined after a 101. Two flows, one in each
 * direction:
 *
 *     read some -> stop reading -> write all of it -> count it -> read again
 *
 * which is the back-pressure. The end of one side is passed on as a half-close where that is
 * possible; over TLS, where peers do not treat it as one, it ends the tunnel. A side that has
 * failed accepts nothing more, but what it sent before is still passed on; the other side then gets
 * no close_notify.
 */
#include "common/http/http_server_internal.h"

#include <errno.h>
#include <stdlib.h>

enum {
    TUNNEL_READ_MAX = 32 * 1024,
};

struct flow {
    struct http_tunnel *tunnel;
    struct transport *from, *to;
    uint64_t bytes;    /* taken by TO */
    struct text early; /* to be sent first */
    char *buf;         /* TUNNEL_READ_MAX, from the first read on */
    struct iovec left; /* of EARLY or BUF: not yet taken by TO */
    size_t head_bytes; /* of EARLY, which do not count: the 101 */
    bool ended;        /* FROM has sent its last byte, or TO has failed */
};

struct http_tunnel {
    struct list node; /* in the server's */
    struct http_server *server;
    struct flow up, down; /* to the worker, to the client */
    struct http_conn *client;
    struct transport worker;
    struct http_tunnel_end end;
    struct timer idle;
    uint64_t idle_ms;
    struct loop_deferred later; /* reads what TLS has read ahead; if over, reports and frees T */
    bool over;
    bool failed; /* a side has failed, which is not an end of the stream */
};

/* ---- the end ---- */

static void finish_tunnel(struct http_tunnel *t)
{
    struct http_server *s = t->server;

    if (t->end.ended != NULL)
        t->end.ended(t->end.context, t->up.bytes, t->down.bytes);
    free(t->up.buf);
    free(t->down.buf);
    text_fini(&t->up.early);
    text_fini(&t->down.early);
    free(t);
    --s->ntunnels;
    http_server_conn_closed(s);
}

static void end_tunnel(struct http_tunnel *t)
{
    if (t->over)
        return;
    t->over = true;
    list_remove(&t->node);
    timer_stop(&t->idle);
    if (t->failed) {
        transport_cut_at_close(&t->client->transport);
        transport_cut_at_close(&t->worker);
    }
    if (t->client != NULL)
        http_conn_close(t->client);
    transport_close(&t->worker);
    loop_defer_once(t->server->loop, &t->later);
}

static void end_failed(struct http_tunnel *t)
{
    t->failed = true;
    end_tunnel(t);
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

/* ---- one direction ---- */

static void write_on(void *flow);

static struct flow *opposite_flow(const struct flow *f)
{
    struct http_tunnel *t = f->tunnel;

    return f == &t->up ? &t->down : &t->up;
}

/* TO has failed: a peer that closes with unread bytes resets the connection. The bytes that it sent
 * before can still be read. */
static cold_ void receiver_failed(struct flow *f)
{
    f->tunnel->failed = true;
    f->left.iov_len = 0;
    f->ended = true;
    transport_read_level(f->from, WATCH_FAILURE);
    if (opposite_flow(f)->ended)
        end_tunnel(f->tunnel);
}

/* False: TO takes no more now, so that FROM is not read, or the tunnel has ended. */
static bool write_left(struct flow *f)
{
    size_t bytes = f->left.iov_len;
    struct iovec *iov = &f->left;
    size_t n = bytes != 0 ? 1 : 0;

    bool all = http_write(f->to, &iov, &n, 0);
    if (!all && errno != EAGAIN) {
        receiver_failed(f);
        return false;
    }
    if (all)
        f->left.iov_len = 0;
    /* The head of the 101 comes first, and does not count. */
    size_t sent = bytes - f->left.iov_len;
    size_t of_head = sent < f->head_bytes ? sent : f->head_bytes;
    f->head_bytes -= of_head;
    f->bytes += sent - of_head;
    if (!all) {
        transport_read(f->from, false);
        transport_await_writable(f->to, write_on);
        return false;
    }
    text_fini(&f->early);
    f->early = (struct text){0};
    return true;
}

static void tunnel_read_some(struct flow *f)
{
    struct http_tunnel *t = f->tunnel;

    if (f->buf == NULL)
        f->buf = xmalloc(TUNNEL_READ_MAX);
    for (int i = 0; i < READS_PER_EVENT; ++i) {
        ssize_t n = transport_recv(f->from, f->buf, TUNNEL_READ_MAX);

        if (n == -1 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n == -1) {
            end_failed(t);
            return;
        }
        if (n == 0) {
            /* It has ended, and TO has all of it. */
            f->ended = true;
            transport_read_level(f->from, WATCH_FAILURE);
            if (opposite_flow(f)->ended || transport_end_sending(f->to) == -1)
                end_tunnel(t);
            return;
        }
        restart_idle_timer(t);
        f->left = (struct iovec){f->buf, (size_t)n};
        if (!write_left(f) || !transport_read_ahead(f->from))
            return;
    }
    loop_defer_once(t->server->loop, &t->later);
}

/* Continues, or starts, with what is left for TO. */
static void resume_flow(struct flow *f)
{
    if (!write_left(f))
        return;
    restart_idle_timer(f->tunnel);
    transport_read(f->from, true);
    if (transport_read_ahead(f->from))
        tunnel_read_some(f);
}

static void run_later(struct loop_deferred *d)
{
    struct http_tunnel *t = container_of(d, struct http_tunnel, later);
    struct flow *flows[] = {&t->up, &t->down};

    if (t->over) {
        finish_tunnel(t);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(flows) && !t->over; ++i) {
        if (!flows[i]->ended && flows[i]->left.iov_len == 0 && transport_read_ahead(flows[i]->from))
            tunnel_read_some(flows[i]);
    }
}

/* One of the two takes bytes again. */
static void write_on(void *flow)
{
    struct http_tunnel *t = ((struct flow *)flow)->tunnel;
    struct flow *flows[] = {&t->up, &t->down};

    for (size_t i = 0; i < ARRAY_LEN(flows) && !t->over; ++i) {
        if (flows[i]->left.iov_len != 0)
            resume_flow(flows[i]);
    }
}

static void on_tunnel_readable(void *flow)
{
    struct flow *f = flow;

    if (!f->ended && f->left.iov_len == 0)
        tunnel_read_some(f);
    else
        end_failed(f->tunnel);
}

/* ---- the start ---- */

void http_tunnel_start(struct http_server *s, struct http_conn *c, struct http_tunnel_bytes *early,
                       const struct upgraded_transport *worker, uint64_t idle_timeout_ms,
                       const struct http_tunnel_end *end)
{
    struct http_tunnel *t = xcalloc(1, sizeof(*t));

    t->server = s;
    t->client = c;
    t->worker = worker->transport;
    t->end = *end;
    t->idle_ms = idle_timeout_ms;
    t->later.run = run_later;
    timer_init(&t->idle, on_idle);
    transport_attach(&t->worker, s->loop, on_tunnel_readable, &t->down);
    list_push_back(&s->tunnels, &t->node);
    ++s->ntunnels;
    struct text worker_early = worker->early;
    if (c == NULL || http_conn_is_closed(c)) {
        text_fini(&worker_early);
        if (early != NULL) {
            text_fini(&early->to_worker);
            text_fini(&early->to_client);
        }
        t->client = NULL;
        end_tunnel(t);
        return;
    }
    c->state = CONN_TUNNEL;
    transport_attach(&c->transport, s->loop, on_tunnel_readable, &t->up);
    t->up = (struct flow){
        .tunnel = t, .from = &c->transport, .to = &t->worker, .early = early->to_worker};
    t->down = (struct flow){
        .tunnel = t, .from = &t->worker, .to = &c->transport, .early = early->to_client};
    t->down.head_bytes = t->down.early.len;
    text_add(&t->down.early, text_slice(&worker_early));
    text_fini(&worker_early);
    t->down.left = (struct iovec){t->down.early.p, t->down.early.len};
    t->up.left = (struct iovec){t->up.early.p, t->up.early.len};
    restart_idle_timer(t);
    resume_flow(&t->down);
    if (!t->over)
        resume_flow(&t->up);
}
