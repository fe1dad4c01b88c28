/* SPDX-License-Identifier: Apache-2.0
 *
 * Worker connections: opened by hand, as libh2o's own connect hides why it failed. libh2o's socket
 * serves as a watch on the descriptor only (H2O_SOCKET_FLAG_DONT_READ): reading and writing are
 * ours, so that every read is bounded, goes straight to where the bytes stay, and errno is seen.
 * Interest in reading is never given up but for back-pressure, which costs no system call on reuse
 * and shows the end of an idle connection at once. With TLS (tls_link.h) all that stays the same.
 */
#include "common/net/http1_conn.h"

#include "common/net/body_file.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    /* A unix socket whose backlog is full says so at once instead of letting us wait. */
    CONNECT_AGAIN_MS = 20,
};

struct http1_connect {
    struct loop *loop;
    struct addr addr;
    struct tls_peer *peer; /* counted; NULL: plain */
    h2o_socket_t *sock;
    struct tls_link *tls; /* SOCK's, while its handshake goes on */
    struct timer timeout;
    struct timer again;
    struct loop_deferred end; /* what is known at once is told later */
    enum err result;
    void (*cb)(void *context, struct http1_conn *c, enum err e);
    void *context;
};

/* ---- connections ---- */

static void on_readable(h2o_socket_t *sock, const char *err);

void http1_conn_read_start(struct http1_conn *c)
{
    h2o_socket_dont_read(c->sock, 1);
    h2o_socket_read_start(c->sock, on_readable);
    c->quiet_since = loop_waits(c->loop);
}

void http1_conn_read_stop(struct http1_conn *c)
{
    if (c->sock != NULL)
        h2o_socket_read_stop(c->sock);
}

/* Bytes or an end without a request: whoever has the connection finds it dead; the pool drops it.
 */
static void on_idle_event(struct http1_conn *c)
{
    if (c->tls != NULL && !c->dead && tls_link_quiet(c->tls))
        return; /* a session ticket */
    c->dead = true;
    http1_conn_read_stop(c);
    if (conn_in_use(&c->pooled))
        return;
    conn_forget(&c->pooled);
    http1_close(c);
}

static void on_readable(h2o_socket_t *sock, const char *err)
{
    struct http1_conn *c = sock->data;

    (void)err; /* nothing was read, so nothing can have failed */
    if (c->x.state == EXCHANGE_NONE)
        on_idle_event(c);
    else
        http1_exchange_readable(c);
}

static void on_writable(h2o_socket_t *sock, const char *err)
{
    (void)err;
    http1_exchange_writable(sock->data);
}

/* HEAD, then what is left of the body, LEFT bytes, from its file. */
static ssize_t send_file(struct http1_conn *c, struct slice head, size_t left)
{
    int fd = h2o_socket_get_fd(c->sock);
    ssize_t sent = 0;

    if (head.len != 0) {
        do
            sent = send(fd, head.p, head.len, MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE);
        while (sent == -1 && errno == EINTR);
        if (sent < 0 || (size_t)sent < head.len)
            return sent;
    }
    ssize_t n = body_file_send(c->x.request.body_file, fd, left);
    /* The next one tells of the error. */
    return n >= 0 ? sent + n : sent != 0 ? sent : n;
}

ssize_t http1_conn_send(struct http1_conn *c, struct slice head, struct slice body)
{
    if (c->tls != NULL)
        return tls_link_send(c->tls, head, body);
    if (c->x.request.body_file != NULL && body.len != 0)
        return send_file(c, head, body.len);
    struct iovec iov[2] = {
        {writable(head.p), head.len},
        {writable(body.p), body.len},
    };
    bool has_head = head.len != 0;
    struct msghdr m = {
        .msg_iov = has_head ? iov : iov + 1,
        .msg_iovlen = has_head && body.len != 0 ? 2 : 1,
    };
    ssize_t n;

    do
        n = sendmsg(h2o_socket_get_fd(c->sock), &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n == -1 && errno == EINTR);
    return n;
}

void http1_conn_reset_at_close(struct http1_conn *c)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    int fd = h2o_socket_get_fd(c->sock);
    int queued = 0;

    if (ioctl(fd, SIOCOUTQ, &queued) == 0 && queued != 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}

void http1_conn_await_writable(struct http1_conn *c)
{
    if (!h2o_socket_is_writing(c->sock))
        h2o_socket_notify_write(c->sock, on_writable);
}

static void run_work(struct loop_deferred *d)
{
    http1_exchange_work(container_of(d, struct http1_conn, work));
}

static void on_timer(struct timer *t)
{
    http1_exchange_expired(container_of(t, struct http1_conn, timer));
}

static void free_conn(struct loop_deferred *d)
{
    struct http1_conn *c = container_of(d, struct http1_conn, free_later);

    http1_exchange_fini(c);
    free(c);
}

static struct http1_conn *create_conn(struct loop *l, h2o_socket_t *sock)
{
    struct http1_conn *c = xcalloc(1, sizeof(*c));

    list_init(&c->pooled.stack_node);
    c->loop = l;
    c->sock = sock;
    c->tls = tls_link_of(sock);
    c->moving.fd = -1;
    c->work.run = run_work;
    c->free_later.run = free_conn;
    timer_init(&c->timer, on_timer);
    sock->data = c;
    http1_conn_read_start(c);
    return c;
}

void http1_close(struct http1_conn *c)
{
    ASSERT(!c->closed);
    c->closed = true;
    c->dead = true;
    c->x.state = EXCHANGE_NONE;
    ++c->serial;
    timer_stop(&c->timer);
    list_remove(&c->work.node);
    if (c->tls != NULL)
        tls_link_bye(c->tls);
    if (c->sock != NULL)
        h2o_socket_close(c->sock);
    else if (c->moving.fd != -1)
        h2o_socket_dispose_export(&c->moving);
    c->sock = NULL;
    c->tls = NULL;
    loop_defer(c->loop, &c->free_later);
}

struct pooled_conn *http1_pooled(struct http1_conn *c)
{
    return &c->pooled;
}

struct http1_conn *http1_of_pooled(struct pooled_conn *p)
{
    return container_of(p, struct http1_conn, pooled);
}

struct loop *http1_loop(const struct http1_conn *c)
{
    return c->loop;
}

bool http1_is_tls(const struct http1_conn *c, bool *resumed)
{
    *resumed = c->tls != NULL && tls_link_resumed(c->tls);
    return c->tls != NULL;
}

bool http1_reusable(const struct http1_conn *c)
{
    return !c->dead && c->x.state == EXCHANGE_NONE;
}

bool http1_any_written(const struct http1_conn *c)
{
    return c->x.any_written;
}

bool http1_any_received(const struct http1_conn *c)
{
    return c->x.any_received;
}

struct http1_times http1_times(const struct http1_conn *c)
{
    return c->x.times;
}

struct st_h2o_socket_t *http1_take_socket(struct http1_conn **cp)
{
    struct http1_conn *c = *cp;
    h2o_socket_t *sock = c->sock;
    size_t early = c->in.len - c->in.used;

    ASSERT(c->x.state == EXCHANGE_TUNNEL);
    *cp = NULL;
    h2o_socket_read_stop(sock);
    h2o_socket_dont_read(sock, 0);
    if (early != 0) {
        memcpy(h2o_buffer_reserve(&sock->input, early).base, c->in.p + c->in.used, early);
        sock->input->size += early;
    }
    sock->data = NULL;
    c->sock = NULL;
    c->tls = NULL;
    http1_close(c);
    return sock;
}

/* ---- for the pool ---- */

/*
 * Whether the loop's last wait would have told of anything there was to read: then on_readable has
 * seen it. What TLS has read ahead is in no socket.
 */
static bool is_heard(const struct http1_conn *c)
{
    return c->quiet_since < loop_waits(c->loop) && loop_heard_all(c->loop) &&
           h2o_socket_is_reading(c->sock) && (c->tls == NULL || !tls_link_more(c->tls));
}

static bool conn_alive(struct pooled_conn *p, bool sure)
{
    struct http1_conn *c = http1_of_pooled(p);
    char byte;

    if (c->dead)
        return false;
    if (!sure && is_heard(c))
        return true;
    /* Its end may have come since the loop last looked. */
    if (c->tls != NULL)
        return tls_link_quiet(c->tls);
    ssize_t n = recv(h2o_socket_get_fd(c->sock), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == -1 && (errno == EAGAIN || errno == EINTR);
}

static void close_pooled(struct pooled_conn *p)
{
    http1_close(http1_of_pooled(p));
}

static bool detach_conn(struct pooled_conn *p)
{
    struct http1_conn *c = http1_of_pooled(p);

    /* TLS stays where it is: its sessions are its loop's. */
    if (c->dead || c->tls != NULL || h2o_socket_is_writing(c->sock))
        return false;
    h2o_socket_read_stop(c->sock);
    if (h2o_socket_export(c->sock, &c->moving) != 0) {
        http1_conn_read_start(c);
        return false;
    }
    c->sock = NULL;
    return true;
}

static bool attach_conn(struct pooled_conn *p, struct loop *l)
{
    struct http1_conn *c = http1_of_pooled(p);

    c->loop = l;
    c->sock = h2o_socket_import(loop_h2o(l), &c->moving);
    c->sock->data = c;
    http1_conn_read_start(c);
    return true;
}

const struct conn_pool_ops http1_conn_pool_ops = {
    .alive = conn_alive,
    .close = close_pooled,
    .detach = detach_conn,
    .attach = attach_conn,
};

/* ---- opening ---- */

static void free_attempt(struct http1_connect *a)
{
    timer_stop(&a->timeout);
    timer_stop(&a->again);
    list_remove(&a->end.node);
    if (a->sock != NULL)
        h2o_socket_close(a->sock);
    tls_peer_unref(a->peer);
    free(a);
}

static void end_attempt(struct http1_connect *a, enum err e)
{
    void (*cb)(void *, struct http1_conn *, enum err) = a->cb;
    void *context = a->context;
    struct http1_conn *c = NULL;

    if (e == ERR_OK) {
        c = create_conn(a->loop, a->sock);
        a->sock = NULL;
    }
    free_attempt(a);
    cb(context, c, e);
}

static void on_handshake(h2o_socket_t *sock, const char *err);

static void shake_hands(struct http1_connect *a)
{
    switch (tls_link_handshake(a->tls)) {
    case TLS_DONE:
        end_attempt(a, ERR_OK);
        return;
    case TLS_READS:
        h2o_socket_dont_read(a->sock, 1);
        h2o_socket_read_start(a->sock, on_handshake);
        return;
    case TLS_WRITES:
        h2o_socket_read_stop(a->sock);
        if (!h2o_socket_is_writing(a->sock))
            h2o_socket_notify_write(a->sock, on_handshake);
        return;
    case TLS_FAILED:
        end_attempt(a, ERR_TLS_FAILED);
        return;
    }
    UNREACHABLE();
}

static void on_handshake(h2o_socket_t *sock, const char *err)
{
    (void)err;
    shake_hands(sock->data);
}

/* What connect(2) has come to. */
static void connected(struct http1_connect *a, enum err e)
{
    if (e != ERR_OK || a->peer == NULL) {
        end_attempt(a, e);
        return;
    }
    a->tls = tls_link_create(a->peer, a->sock, loop_index(a->loop));
    if (a->tls == NULL)
        end_attempt(a, ERR_TLS_FAILED);
    else
        shake_hands(a);
}

static void run_end(struct loop_deferred *d)
{
    struct http1_connect *a = container_of(d, struct http1_connect, end);

    connected(a, a->result);
}

static void on_timeout(struct timer *t)
{
    struct http1_connect *a = container_of(t, struct http1_connect, timeout);

    if (a->tls != NULL)
        tls_link_say(a->tls, "no end of the handshake in time");
    end_attempt(a, ERR_CONNECT_TIMEOUT);
}

static enum err error_of_errno(int error)
{
    switch (error) {
    case 0:
        return ERR_OK;
    case ECONNREFUSED:
    case ENOENT: /* of a unix socket */
        return ERR_CONNECT_REFUSED;
    case ETIMEDOUT:
        return ERR_CONNECT_TIMEOUT;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EADDRNOTAVAIL: /* out of local ports */
        return ERR_SYSTEM;
    default:
        return ERR_CONNECT_FAILED;
    }
}

static void on_connected(h2o_socket_t *sock, const char *err)
{
    struct http1_connect *a = sock->data;
    int error = 0;
    socklen_t len = sizeof(error);

    (void)err;
    if (getsockopt(h2o_socket_get_fd(sock), SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    connected(a, error_of_errno(error));
}

/* errno of the attempt to connect; EINPROGRESS when it goes on. */
static int start_connect(int fd, const struct addr *addr)
{
    int on = 1;

    if (addr->sa.sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return connect(fd, &addr->sa, addr->len) == 0 ? 0 : errno;
}

static void end_later(struct http1_connect *a, enum err e)
{
    a->result = e;
    loop_defer(a->loop, &a->end);
}

static void try_connect(struct http1_connect *a)
{
    int fd = socket(a->addr.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd == -1) {
        end_later(a, error_of_errno(errno));
        return;
    }
    int error = start_connect(fd, &a->addr);
    if (error == EAGAIN && a->addr.sa.sa_family == AF_UNIX) {
        close(fd);
        timer_start(a->loop, &a->again, CONNECT_AGAIN_MS);
        return;
    }
    if (error != 0 && error != EINPROGRESS) {
        close(fd);
        end_later(a, error_of_errno(error));
        return;
    }
    a->sock = h2o_evloop_socket_create(loop_h2o(a->loop), fd, 0);
    a->sock->data = a;
    if (error == 0)
        end_later(a, ERR_OK);
    else
        h2o_socket_notify_write(a->sock, on_connected);
}

static void on_again(struct timer *t)
{
    try_connect(container_of(t, struct http1_connect, again));
}

struct http1_connect *http1_connect(struct loop *l, const struct addr *addr, uint64_t timeout_ms,
                                    void (*cb)(void *context, struct http1_conn *c, enum err e),
                                    void *context)
{
    return http1_connect_tls(l, addr, NULL, timeout_ms, cb, context);
}

struct http1_connect *http1_connect_tls(struct loop *l, const struct addr *addr,
                                        struct tls_peer *peer, uint64_t timeout_ms,
                                        void (*cb)(void *context, struct http1_conn *c, enum err e),
                                        void *context)
{
    struct http1_connect *a = xcalloc(1, sizeof(*a));

    a->loop = l;
    a->addr = *addr;
    a->peer = peer != NULL ? tls_peer_ref(peer) : NULL;
    a->cb = cb;
    a->context = context;
    a->end.run = run_end;
    timer_init(&a->timeout, on_timeout);
    timer_init(&a->again, on_again);
    if (timeout_ms != 0)
        timer_start(l, &a->timeout, timeout_ms);
    try_connect(a);
    return a;
}

void http1_connect_cancel(struct http1_connect *attempt)
{
    free_attempt(attempt);
}
