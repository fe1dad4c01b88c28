/* SPDX-License-Identifier: Apache-2.0
 *
 * Worker connections. Every read is bounded and goes straight to where the bytes stay. Interest in
 * reading is never given up but for back-pressure, which costs no system call on reuse and shows
 * the end of an idle connection at once.
 */
#include "common/net/body_file.h"
#include "common/upstream/http1_client_internal.h"

#include <netinet/tcp.h>
#include <stdlib.h>

/* ---- input ---- */

/*
 * How much is read, and where the heads of responses are read to: blocks that the loop keeps, as
 * nearly each is empty again within the turn; larger ones come and go.
 */

_Static_assert(sizeof(struct held_body) + HTTP1_INPUT_BYTES <= LOOP_BLOCK_BYTES,
               "a block holds an input");

static struct held_body *memory_of(const struct http1_input *in)
{
    return container_of(in->p, struct held_body, bytes);
}

static bool is_block(const struct http1_input *in)
{
    return in->room == HTTP1_INPUT_BYTES;
}

void http1_input_free(struct loop *l, struct http1_input *in)
{
    if (in->p == NULL)
        return;
    if (is_block(in))
        loop_give_block(l, memory_of(in));
    else
        free(memory_of(in));
}

struct held_body *http1_input_take(struct loop *l, struct http1_input *in)
{
    struct held_body *h = memory_of(in);

    held_body_init(h, is_block(in) ? l : NULL);
    *in = (struct http1_input){0};
    return h;
}

void http1_input_make_room(struct loop *l, struct http1_input *in, size_t first)
{
    if (in->p != NULL && in->len < in->room)
        return;
    if (in->p != NULL && in->used != 0) {
        memmove(in->p, in->p + in->used, in->len - in->used);
        in->len -= in->used;
        in->scanned -= in->used;
        in->used = 0;
        return;
    }
    struct held_body *h = in->p != NULL ? memory_of(in) : NULL;
    if (h == NULL && first == HTTP1_INPUT_BYTES) {
        h = loop_take_block(l);
        in->room = first;
    } else {
        in->room = in->room == 0 ? first : in->room * 2;
        h = xrealloc(h, sizeof(*h) + in->room);
    }
    in->p = h->bytes;
}

size_t http1_next_read_bytes(const struct http1_exchange *x)
{
    size_t room = at_least(x->room_bytes, HTTP1_BODY_READ_MIN);
    size_t bytes = x->read_bytes < room ? x->read_bytes : room;

    if (x->framing.kind == HTTP1_BODY_LENGTH && x->framing.left < bytes)
        return (size_t)x->framing.left;
    return bytes;
}

void http1_adapt_read_bytes(struct http1_exchange *x, size_t room, size_t n)
{
    if (n == room && x->read_bytes < HTTP1_BODY_READ_MAX)
        x->read_bytes *= 2;
    else if (n < x->read_bytes / 4 && x->read_bytes > HTTP1_BODY_READ_MIN)
        x->read_bytes /= 2;
}

/* ---- connections ---- */

enum {
    /* If the backlog of a unix socket is full, connect(2) fails immediately instead of waiting. */
    CONNECT_AGAIN_MS = 20,
};

struct http1_connect {
    struct loop *loop;
    struct addr addr;
    struct tls_peer *peer; /* counted; NULL: plain */
    struct transport transport;
    struct timer timeout;
    struct timer again;
    struct loop_deferred end; /* a result that is known immediately is reported later */
    int error;                /* errno of the last step that failed */
    void (*cb)(void *context, struct http1_conn *c, enum err e);
    void *context;
};

/* ---- connections ---- */

static void on_readable(void *context);

void http1_conn_read_start(struct http1_conn *c)
{
    transport_read(&c->transport, true);
    c->quiet_since = loop_waits(c->loop);
}

void http1_conn_read_stop(struct http1_conn *c)
{
    if (transport_is_open(&c->transport))
        transport_read(&c->transport, false);
}

/* Bytes or an end without a request: a user of the connection finds it dead; the pool drops it. */
static cold_ void on_idle_event(struct http1_conn *c)
{
    if (c->transport.tls != NULL && !c->dead && transport_is_quiet(&c->transport))
        return; /* a session ticket */
    c->dead = true;
    http1_conn_read_stop(c);
    if (conn_in_use(&c->pooled))
        return;
    conn_forget(&c->pooled);
    http1_close(c);
}

static void on_readable(void *context)
{
    struct http1_conn *c = context;

    if (c->x.state == EXCHANGE_NONE)
        on_idle_event(c);
    else
        http1_exchange_readable(c);
}

static void on_writable(void *context)
{
    http1_exchange_writable(context);
}

/* HEAD, then what is left of the body, LEFT bytes, from its file. */
static noinline_ ssize_t send_file(struct http1_conn *c, struct slice head, size_t left)
{
    struct iovec iov = {writable(head.p), head.len};
    ssize_t sent = 0;

    if (head.len != 0) {
        sent = transport_send(&c->transport, &iov, 1, MSG_MORE);
        if (sent < 0 || (size_t)sent < head.len)
            return sent;
    }
    ssize_t n = body_file_send(c->x.request.body_file, &c->transport, left);
    /* The next call reports the error. */
    return n >= 0 ? sent + n : sent != 0 ? sent : n;
}

ssize_t http1_conn_send(struct http1_conn *c, struct slice head, struct slice body)
{
    if (c->x.request.body_file != NULL && body.len != 0 && c->transport.tls == NULL)
        return send_file(c, head, body.len);
    struct iovec iov[2] = {
        {writable(head.p), head.len},
        {writable(body.p), body.len},
    };
    bool has_head = head.len != 0;

    return transport_send(&c->transport, has_head ? iov : iov + 1,
                          has_head && body.len != 0 ? 2 : 1, 0);
}

void http1_conn_await_writable(struct http1_conn *c)
{
    transport_await_writable(&c->transport, on_writable);
}

static void run_work(struct loop_deferred *d)
{
    http1_exchange_work(container_of(d, struct http1_conn, work));
}

static void on_timer(struct timer *t)
{
    struct http1_conn *c = container_of(t, struct http1_conn, deadline.timer);

    if (deadline_passed(c->loop, &c->deadline))
        http1_exchange_expired(c);
}

static void free_conn(struct loop_deferred *d)
{
    struct http1_conn *c = container_of(d, struct http1_conn, free_later);

    http1_exchange_fini(c);
    free(c);
}

/* Creates a connection from the result of A, which is consumed. */
static struct http1_conn *create_conn(struct http1_connect *a)
{
    struct http1_conn *c = xcalloc(1, sizeof(*c));

    list_init(&c->pooled.stack_node);
    c->loop = a->loop;
    c->transport = a->transport;
    a->transport = TRANSPORT_CLOSED;
    transport_attach(&c->transport, c->loop, on_readable, c);
    c->work.run = run_work;
    c->free_later.run = free_conn;
    deadline_init(&c->deadline, on_timer);
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
    deadline_stop(&c->deadline);
    list_remove(&c->work.node);
    transport_close(&c->transport);
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
    *resumed = c->transport.tls != NULL && tls_link_resumed(c->transport.tls);
    return c->transport.tls != NULL;
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

const char *http1_failure_text(const struct http1_conn *c, enum err e)
{
    enum response_fault f = c != NULL ? c->x.fault : RESPONSE_FAULT_NONE;

    return f != RESPONSE_FAULT_NONE ? response_fault_text(f) : err_text(e);
}

struct http1_times http1_times(const struct http1_conn *c)
{
    return c->x.times;
}

struct http1_upgraded http1_take_upgraded(struct http1_conn **cp)
{
    struct http1_conn *c = *cp;
    struct http1_upgraded u = {.transport = c->transport};

    ASSERT(c->x.state == EXCHANGE_TUNNEL);
    *cp = NULL;
    c->transport = TRANSPORT_CLOSED;
    text_add(&u.early, (struct slice){c->in.p + c->in.used, c->in.len - c->in.used});
    http1_close(c);
    return u;
}

/* ---- for the pool ---- */

/*
 * Whether the loop's last wait would have reported any readable data: then on_readable has seen it.
 * Data that TLS has read ahead is not in a socket any more.
 */
static bool is_heard(const struct http1_conn *c)
{
    return c->quiet_since < loop_waits(c->loop) && loop_heard_all(c->loop) &&
           transport_is_heard(&c->transport);
}

static bool conn_alive(struct pooled_conn *p, bool sure)
{
    struct http1_conn *c = http1_of_pooled(p);

    if (c->dead)
        return false;
    /* The peer may have closed it since the loop last polled. */ return (!sure && is_heard(c)) ||
        transport_is_quiet(&c->transport);
}

static void close_pooled(struct pooled_conn *p)
{
    http1_close(http1_of_pooled(p));
}

static bool detach_conn(struct pooled_conn *p)
{
    struct http1_conn *c = http1_of_pooled(p);

    /* TLS stays where it is: its sessions are its loop's. */
    if (c->dead || c->transport.tls != NULL || watch_writes(c->transport.watch))
        return false;
    transport_detach(&c->transport);
    deadline_stop(&c->deadline);
    return true;
}

static bool attach_conn(struct pooled_conn *p, struct loop *l)
{
    struct http1_conn *c = http1_of_pooled(p);

    c->loop = l;
    transport_attach(&c->transport, l, on_readable, c);
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
    transport_close(&a->transport);
    tls_peer_unref(a->peer);
    free(a);
}

static void end_attempt(struct http1_connect *a, enum err e)
{
    void (*cb)(void *, struct http1_conn *, enum err) = a->cb;
    void *context = a->context;
    struct http1_conn *c = NULL;
    int error = a->error;

    if (e == ERR_OK)
        c = create_conn(a);
    free_attempt(a);
    errno = error;
    cb(context, c, e);
}

static void on_handshake(void *context);

static void shake_hands(struct http1_connect *a)
{
    switch (tls_link_handshake(a->transport.tls)) {
    case TLS_DONE:
        end_attempt(a, ERR_OK);
        return;
    case TLS_READS:
        transport_read(&a->transport, true);
        return;
    case TLS_WRITES:
        transport_read(&a->transport, false);
        transport_await_writable(&a->transport, on_handshake);
        return;
    case TLS_FAILED:
        end_attempt(a, ERR_TLS_FAILED);
        return;
    }
    UNREACHABLE();
}

static void on_handshake(void *context)
{
    shake_hands(context);
}

/* To its loop, for nothing yet. */
static void attach(struct http1_connect *a)
{
    transport_attach(&a->transport, a->loop, on_handshake, a);
    transport_read(&a->transport, false);
}

/* Handles the result of connect(2). */
static void connected(struct http1_connect *a, enum err e)
{
    if (e != ERR_OK || a->peer == NULL) {
        end_attempt(a, e);
        return;
    }
    if (!transport_secure(&a->transport, a->peer, loop_index(a->loop))) {
        end_attempt(a, ERR_TLS_FAILED);
        return;
    }
    attach(a);
    shake_hands(a);
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

static void run_end(struct loop_deferred *d)
{
    struct http1_connect *a = container_of(d, struct http1_connect, end);

    connected(a, error_of_errno(a->error));
}

static void on_timeout(struct timer *t)
{
    struct http1_connect *a = container_of(t, struct http1_connect, timeout);

    if (a->transport.tls != NULL)
        tls_link_say(a->transport.tls, "handshake not completed in time");
    end_attempt(a, ERR_CONNECT_TIMEOUT);
}

static void on_connected(void *context)
{
    struct http1_connect *a = context;
    socklen_t len = sizeof(a->error);

    if (getsockopt(a->transport.fd, SOL_SOCKET, SO_ERROR, &a->error, &len) != 0)
        a->error = errno;
    connected(a, error_of_errno(a->error));
}

/* Starts connecting. Returns an errno; EINPROGRESS if the attempt continues, 0 if connected. */
static int start_connect(int fd, const struct addr *addr)
{
    int on = 1;

    if (addr->sa.sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return connect(fd, &addr->sa, addr->len) == 0 ? 0 : errno;
}

static void end_later(struct http1_connect *a, int error)
{
    a->error = error;
    loop_defer(a->loop, &a->end);
}

static void try_connect(struct http1_connect *a)
{
    int fd = socket(a->addr.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd == -1) {
        end_later(a, errno);
        return;
    }
    int error = start_connect(fd, &a->addr);
    if (error == EAGAIN && a->addr.sa.sa_family == AF_UNIX) {
        close(fd);
        a->error = error;
        timer_start(a->loop, &a->again, CONNECT_AGAIN_MS);
        return;
    }
    if (error != 0 && error != EINPROGRESS) {
        close(fd);
        end_later(a, error);
        return;
    }
    transport_open(&a->transport, fd);
    if (error == 0) {
        end_later(a, 0);
        return;
    }
    attach(a);
    transport_await_writable(&a->transport, on_connected);
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
    a->transport = TRANSPORT_CLOSED;
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
