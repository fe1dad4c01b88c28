/* SPDX-License-Identifier: Apache-2.0
 *
 * Listeners, and accepting connections: with as few system calls as possible, on the loop that has
 * the fewest in flight (http_balance.h).
 */
#include "common/base/log.h"
#include "common/http/http_server_internal.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    ACCEPTS_PER_EVENT = 16, /* then connections that exist have their turn */
    FULL_TURNS = 8,         /* in a row, then more are accepted at a time */
    ACCEPT_AGAIN_MS = 100,  /* after descriptors or memory ran out */
    /* A client that has vanished without closing is noticed after about two minutes. */
    KEEP_ALIVE_IDLE_S = 60,
    KEEP_ALIVE_INTERVAL_S = 15,
    KEEP_ALIVE_PROBES = 4,
    DEFER_S = 1, /* one round of the kernel's retries, then it is accepted as it is */
    USER_TIMEOUT_MAX_MS = 24 * 3600 * 1000,
};

static void on_accept(void *listener);

static void stop_accepting(struct http_server *s)
{
    struct list *it;

    s->accept_paused = true;
    http_server_load_changed(s);
    list_for_each (it, &s->listeners)
        watch_read(list_entry(it, struct http_listener, node)->watch, false);
}

static void pause_accepting(struct http_server *s)
{
    if (s->accept_paused)
        return;
    http_server_count(s, COUNT_ACCEPT_PAUSES);
    stop_accepting(s);
}

static void wait_for_room(struct http_server *s, bool waits)
{
    struct http_connections *all = s->options.connections;

    if (all == NULL || s->waits_for_room == waits)
        return;
    s->waits_for_room = waits;
    if (waits)
        atomic_fetch_add_explicit(&all->waiting, 1, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(&all->waiting, 1, memory_order_relaxed);
}

/*
 * Takes a place for one more connection, before it is accepted: what is in transit to another loop
 * has a descriptor, too, and several loops accept at the same time.
 */
static bool take_place(struct http_server *s)
{
    const struct http_server_options *o = &s->options;

    if (o->connections == NULL)
        return !http_server_full(s);
    size_t before = atomic_fetch_add_explicit(&o->connections->n, 1, memory_order_relaxed);
    if (o->max_connections == 0 || before < o->max_connections)
        return true;
    http_accept_give_back(s);
    return false;
}

void http_accept_give_back(struct http_server *s)
{
    if (s->options.connections != NULL)
        atomic_fetch_sub_explicit(&s->options.connections->n, 1, memory_order_relaxed);
}

void http_accept_resume(struct http_server *s)
{
    struct list *it;

    bool full = http_server_full(s) && list_empty(&s->idle); /* those make room */

    if (!s->accept_paused || s->held || full || timer_running(&s->accept_again))
        return;
    s->accept_paused = false;
    wait_for_room(s, false);
    http_server_load_changed(s);
    list_for_each (it, &s->listeners)
        watch_read(list_entry(it, struct http_listener, node)->watch, true);
}

static void on_accept_again(struct timer *t)
{
    http_accept_resume(container_of(t, struct http_server, accept_again));
}

void http_server_load_changed(struct http_server *s)
{
    uint64_t in_flight = s->accept_paused ? UINT64_MAX : (uint64_t)s->nconns + s->nrequests;

    if (s->balanced)
        http_balance_has(s->options.balance, loop_index(s->loop), in_flight);
}

void http_server_hold(struct http_server *s, bool hold)
{
    s->held = hold;
    if (hold && !s->accept_paused)
        stop_accepting(s);
    else
        http_accept_resume(s);
}

static void on_accept_error(struct http_server *s, int error)
{
    bool out_of_something =
        error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;

    /* Anything else concerns one connection (accept(2)), or no connection was waiting. */
    if (!out_of_something)
        return;
    log_warn(NULL, "accept-failed", "reason=\"%s\" connections=%zu for_ms=%d", strerror(error),
             s->nconns, ACCEPT_AGAIN_MS);
    timer_start(s->loop, &s->accept_again, ACCEPT_AGAIN_MS);
    pause_accepting(s);
    /* Descriptors freed meanwhile are for requests that wait for a connection to a worker. */
    (void)http_server_make_room(s);
}

/* Take on a connection that is this loop's. */
static void serve(struct http_listener *l, const struct http_accepted *a)
{
    struct http_server *s = l->server;

    if (l->allows != NULL && !l->allows(s->options.context, l->tag, &a->peer)) {
        close(a->fd);
        http_accept_give_back(s);
        return;
    }
    http_conn_accept(l, a->fd, &a->peer);
}

/* One that another loop has accepted. */
static void take(void *context, const struct http_accepted *a)
{
    struct http_server *s = context;
    struct list *it;

    list_for_each (it, &s->listeners) {
        struct http_listener *l = list_entry(it, struct http_listener, node);

        if (l->number == a->listener) {
            serve(l, a);
            return;
        }
    }
    UNREACHABLE(); /* before the first listener is closed, the server's place is left */
}

static bool given_away(const struct http_listener *l, const struct http_accepted *a)
{
    const struct http_server_options *o = &l->server->options;

    struct loop *loop = l->server->loop;

    return o->balance != NULL &&
           http_balance_give(o->balance, loop_index(loop), a, loop_now_ms(loop));
}

static bool accept_one(const struct http_listener *l, struct http_accepted *out)
{
    out->listener = l->number;
    out->peer.len = sizeof(out->peer.un);
    out->fd = accept4(l->fd, &out->peer.sa, &out->peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    /* The path of a unix client may be longer by the zero that it did not have. */
    if (out->peer.len > sizeof(out->peer.un))
        out->peer.len = sizeof(out->peer.un);
    return out->fd >= 0;
}

/*
 * A call that finds no connection costs as much as one that accepts one. So at most as many are
 * accepted at a time as the last time; and more, after there have been as many for some time.
 */
static void on_accept(void *listener)
{
    struct http_listener *l = listener;
    struct http_server *s = l->server;
    struct http_accepted a;

    for (unsigned i = 0; i < l->at_a_time; ++i) {
        if (s->held)
            return;
        if (!take_place(s) && !(http_server_make_room(s) && take_place(s))) {
            wait_for_room(s, true);
            pause_accepting(s);
            return;
        }
        if (!accept_one(l, &a)) {
            int error = errno;
            http_accept_give_back(s);
            on_accept_error(s, error);
            l->at_a_time = i != 0 ? i : 1;
            l->full_turns = 0;
            return;
        }
        http_server_count(s, COUNT_ACCEPTED);
        if (!given_away(l, &a))
            serve(l, &a);
    }
    if (++l->full_turns < FULL_TURNS)
        return;
    l->full_turns = 0;
    if (l->at_a_time < ACCEPTS_PER_EVENT)
        l->at_a_time *= 2;
}

void http_listener_release(struct http_listener *l)
{
    ASSERT(l->refs != 0);
    if (--l->refs != 0)
        return;
    SSL_CTX_free(l->ssl);
    free(l);
}

/*
 * A client that has vanished while data for it is queued is detected as early as an idle one; the
 * kernel would retry for a quarter of an hour. This time-out also counts while a client responds
 * but accepts no data; send_timeout is the limit for that, so this must not be shorter.
 */
static unsigned user_timeout_ms(const struct http_server_options *o)
{
    uint64_t gone_ms =
        UINT64_C(1000) * (KEEP_ALIVE_IDLE_S + KEEP_ALIVE_PROBES * KEEP_ALIVE_INTERVAL_S);
    uint64_t ms = o->send_timeout_ms > gone_ms / 2 ? 2 * o->send_timeout_ms : gone_ms;

    return o->send_timeout_ms == 0 || ms > USER_TIMEOUT_MAX_MS ? USER_TIMEOUT_MAX_MS : (unsigned)ms;
}

static void set_user_timeout(const struct http_server *s, int fd)
{
    unsigned ms = user_timeout_ms(&s->options);

    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

void http_accept_set(struct http_server *s)
{
    struct list *it;

    list_for_each (it, &s->listeners)
        set_user_timeout(s, list_entry(it, struct http_listener, node)->fd);
    http_accept_resume(s);
}

/* Accepted sockets inherit these; a unix socket has none of them. */
static void set_inherited(int fd)
{
    int on = 1;
    int idle = KEEP_ALIVE_IDLE_S;
    int interval = KEEP_ALIVE_INTERVAL_S;
    int probes = KEEP_ALIVE_PROBES;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

/* Also off: the socket may come from another process. */
static void defer_accept(int fd, bool on)
{
    int seconds = on ? DEFER_S : 0;

    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
}

/* The socket's, where all its connections have the same. */
static void know_local(struct http_listener *l, int fd)
{
    struct addr a = {0};

    if (addr_of_socket(fd, &a) == ERR_OK && !addr_is_wildcard(&a))
        l->local = a;
}

/* Only now, as it can serve what it is given by any listener: all are added in one go. */
static void join_balance(struct http_server *s)
{
    const struct http_balance_place p = {.loop = s->loop, .take = take, .context = s};

    if (s->balanced || s->options.balance == NULL)
        return;
    s->balanced = true;
    http_balance_join(s->options.balance, loop_index(s->loop), &p);
    http_server_load_changed(s);
}

/* Connections from other loops are taken before the first listener is closed. */
static void leave_balance(struct http_server *s)
{
    if (!s->balanced)
        return;
    s->balanced = false;
    http_balance_leave(s->options.balance, loop_index(s->loop));
}

struct http_listener *http_server_listen(struct http_server *s, int fd,
                                         const struct http_listen_options *o)
{
    struct http_listener *l = xcalloc(1, sizeof(*l));

    ASSERT(!s->draining);
    l->server = s;
    l->fd = fd;
    l->ssl = o->ssl;
    if (o->ssl != NULL)
        SSL_CTX_up_ref(o->ssl);
    l->http2 = o->http2;
    l->tells_plain = o->tells_plain;
    l->proxy_from = o->proxy_from;
    l->tag = o->tag;
    l->allows = o->allows;
    l->number = o->number;
    l->at_a_time = 1;
    l->refs = 1;
    know_local(l, fd);
    set_inherited(fd);
    defer_accept(fd, o->defer_accept);
    set_user_timeout(s, fd);
    l->watch = watch_start_client(s->loop, fd, on_accept, l);
    watch_read(l->watch, !s->accept_paused);
    list_push_back(&s->listeners, &l->node);
    join_balance(s);
    return l;
}

void http_server_each_socket(const struct http_server *s,
                             void (*each)(void *context, int fd, void *tag), void *context)
{
    struct list *it;

    list_for_each (it, &s->listeners) {
        const struct http_listener *l = list_entry(it, struct http_listener, node);

        each(context, l->fd, l->tag);
    }
}

void http_listener_close(struct http_listener *l)
{
    leave_balance(l->server);
    list_remove(&l->node);
    watch_stop(l->watch);
    l->watch = NULL;
    close(l->fd);
    http_listener_release(l);
}

void http_accept_close(struct http_server *s)
{
    struct list *it;
    struct list *next;

    list_for_each_safe (it, next, &s->listeners)
        http_listener_close(list_entry(it, struct http_listener, node));
}

void http_accept_init(struct http_server *s)
{
    list_init(&s->listeners);
    timer_init(&s->accept_again, on_accept_again);
}

void http_accept_fini(struct http_server *s)
{
    wait_for_room(s, false);
    http_accept_close(s);
    timer_stop(&s->accept_again);
}
