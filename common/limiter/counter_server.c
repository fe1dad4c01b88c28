/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers of a client: which of them a key belongs to, and the connections each of them has. A
 * server that goes is out of the ring at once; it stays in memory while a connection needs it.
 */
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/limiter/counter_client_internal.h"
#include "common/limiter/counter_health.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void counter_server_join(struct counter_server *s, struct counter_conn *c);
static void counter_server_part(struct counter_conn *c);

/* ---- connections ---- */

/*
 * A connection is a descriptor and a watch on it. At most one short line is being sent: a socket
 * that does not accept all of it at once is treated as failed. At most one line is expected, so
 * bytes behind it are a fault.
 */

enum {
    /* No data is exchanged while a lock is held. These detect within about a minute that the
     * daemon's host has vanished. */
    KEEPALIVE_AFTER_S = 30,
    KEEPALIVE_EVERY_S = 10,
    KEEPALIVE_PROBES = 3,
};

/* ---- reading ---- */

static enum counter_trouble receive(struct counter_conn *c)
{
    ssize_t n = recv(c->fd, c->in + c->in_len, sizeof(c->in) - c->in_len, MSG_DONTWAIT);

    if (n > 0)
        c->in_len += (size_t)n;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        return COUNTER_TROUBLE_CLOSED;
    return COUNTER_TROUBLE_NONE;
}

static void on_readable(void *context)
{
    struct counter_conn *c = context;
    struct counter_reply reply;
    size_t used;

    enum counter_trouble trouble = receive(c);
    if (trouble != COUNTER_TROUBLE_NONE) {
        counter_conn_ended(c, trouble);
        return;
    }
    enum err e = counter_reply_parse((struct slice){c->in, c->in_len}, &reply, &used);
    if (e == ERR_NOT_FOUND && c->state == COUNTER_CONN_INQUIRING &&
        counter_reply_unknown_stat((struct slice){c->in, c->in_len})) {
        e = ERR_OK;
        reply = (struct counter_reply){.kind = COUNTER_REPLY_ERROR};
        used = c->in_len;
    }
    if (e == ERR_NOT_FOUND)
        return;
    if (e != ERR_OK || used != c->in_len) {
        counter_conn_ended(c, COUNTER_TROUBLE_FAULT);
        return;
    }
    c->in_len = 0;
    counter_conn_replied(c, &reply);
}

/* Whether no bytes have arrived and the peer has not closed, as far as the kernel knows. */
static bool counter_conn_alive(struct counter_conn *c)
{
    char byte;
    ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == -1 && (errno == EAGAIN || errno == EINTR);
}

/* ---- writing ---- */

bool counter_conn_send(struct counter_conn *c, struct slice line)
{
    ssize_t n;

    do
        n = send(c->fd, line.p, line.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n == -1 && errno == EINTR);
    return n == (ssize_t)line.len;
}

/* ---- opening ---- */

static enum counter_trouble trouble_of_errno(int error)
{
    switch (error) {
    case 0:
        return COUNTER_TROUBLE_NONE;
    case ETIMEDOUT:
        return COUNTER_TROUBLE_CONNECT_TIMEOUT;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EADDRNOTAVAIL: /* out of local ports */
    case EAGAIN:        /* the same; or the queue of a unix socket is full for the moment */
        return COUNTER_TROUBLE_SYSTEM;
    default:
        return COUNTER_TROUBLE_CONNECT;
    }
}

static void on_connected(void *context)
{
    struct counter_conn *c = context;
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    if (error != 0) {
        counter_conn_ended(c, trouble_of_errno(error));
        return;
    }
    watch_read(c->watch, true);
    counter_conn_connected(c);
}

static void run_end_later(struct loop_deferred *d)
{
    struct counter_conn *c = container_of(d, struct counter_conn, end_later);

    counter_conn_ended(c, c->trouble);
}

static void set_option(int fd, int level, int name, int value)
{
    /* One that is refused costs comfort only. */
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

static void set_options(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_AFTER_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EVERY_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
}

/* Returns an errno; 0 if connected or in progress. */
static int start_connect(struct counter_conn *c, const struct addr *a)
{
    int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd == -1)
        return errno;
    if (a->sa.sa_family != AF_UNIX)
        set_options(fd);
    int error = connect(fd, &a->sa, a->len) == 0 ? 0 : errno;
    if (error != 0 && error != EINPROGRESS) {
        close(fd);
        return error;
    }
    c->fd = fd;
    c->watch = watch_start_as_is(c->loop, fd, on_readable, c);
    watch_read(c->watch, false);
    watch_write(c->watch, on_connected);
    return 0;
}

static void on_timer(struct timer *t)
{
    counter_conn_expired(container_of(t, struct counter_conn, timer));
}

static void run_free(struct loop_deferred *d)
{
    free(container_of(d, struct counter_conn, free_later));
}

struct counter_conn *counter_conn_open(struct counter_server *s, bool beyond)
{
    struct counter_client *client = s->client;

    if (!counter_daemon_reserve(s->daemon, beyond))
        return NULL;
    struct counter_conn *c = xcalloc(1, sizeof(*c));
    c->loop = client->loop;
    c->fd = -1;
    c->state = COUNTER_CONN_CONNECTING;
    c->end_later.run = run_end_later;
    c->free_later.run = run_free;
    timer_init(&c->timer, on_timer);
    counter_server_join(s, c);
    ++client->stats.opened;
    c->trouble = trouble_of_errno(start_connect(c, &s->addr));
    if (c->trouble != COUNTER_TROUBLE_NONE)
        loop_defer(c->loop, &c->end_later);
    else
        timer_start(c->loop, &c->timer, client->connect_timeout_ms);
    return c;
}

void counter_conn_close(struct counter_conn *c)
{
    ASSERT(c->server != NULL);
    timer_stop(&c->timer);
    list_remove(&c->end_later.node);
    /* Closed in an orderly way, whatever the connection holds: a reset that is lost is not sent
     * again, and the daemon would keep a place occupied. */
    watch_stop(c->watch);
    c->watch = NULL;
    if (c->fd != -1)
        close(c->fd);
    c->fd = -1;
    counter_server_part(c);
    loop_defer(c->loop, &c->free_later);
}

/* ---- servers ---- */

/* ---- connections of a server ---- */

static void destroy_server(struct counter_server *s)
{
    ASSERT(s->nall == 0);
    timer_stop(&s->watch);
    counter_daemon_put(s->daemon);
    list_remove(&s->in_retired);
    free(s->name);
    free(s);
}

/* Adds C to its server, or removes it; removal may free the server. */
static void counter_server_join(struct counter_server *s, struct counter_conn *c)
{
    c->server = s;
    list_push_back(&s->all, &c->in_server);
    ++s->nall;
}

static void leave_kept(struct counter_conn *c)
{
    if (c->state != COUNTER_CONN_KEPT)
        return;
    list_remove(&c->in_kept);
    --c->server->nkept;
}

static void end_probe(struct counter_conn *c)
{
    if (c->probe)
        counter_daemon_end_probe(c->server->daemon);
    c->probe = false;
}

static void counter_server_part(struct counter_conn *c)
{
    struct counter_server *s = c->server;

    end_probe(c);
    if (c->inquiry)
        counter_daemon_slots(s->daemon, COUNTER_SLOTS_UNKNOWN);
    counter_daemon_release(s->daemon);
    leave_kept(c);
    list_remove(&c->in_server);
    --s->nall;
    c->server = NULL;
    if (s->retired && s->nall == 0)
        destroy_server(s);
}

struct counter_conn *counter_server_take(struct counter_server *s)
{
    while (!list_empty(&s->kept)) {
        struct counter_conn *c = list_first(&s->kept, struct counter_conn, in_kept);

        /* The peer may have closed it since the loop last polled. */
        if (!counter_conn_alive(c)) {
            counter_conn_close(c);
            continue;
        }
        leave_kept(c);
        timer_stop(&c->timer);
        c->reused = true;
        return c;
    }
    return NULL;
}

void counter_server_keep(struct counter_conn *c)
{
    struct counter_server *s = c->server;

    ASSERT(c->call == NULL);
    end_probe(c);
    if (s->retired || s->nkept >= s->client->max_idle) {
        counter_conn_close(c);
        return;
    }
    c->state = COUNTER_CONN_KEPT;
    list_push_front(&s->kept, &c->in_kept);
    ++s->nkept;
    timer_start(c->loop, &c->timer, s->client->idle_ms);
}

/* ---- how it fares ---- */

static void drop_kept(struct counter_server *s)
{
    while (!list_empty(&s->kept))
        counter_conn_close(list_first(&s->kept, struct counter_conn, in_kept));
}

/* Waiting calls are ended as those are that ask from now on. */
static void let_waiters_go(struct counter_server *s)
{
    struct list *it;

    list_for_each (it, &s->all) {
        struct counter_conn *c = list_entry(it, struct counter_conn, in_server);

        if (c->state == COUNTER_CONN_ASKING && !list_linked(&c->end_later.node)) {
            c->trouble = COUNTER_TROUBLE_SILENT;
            loop_defer(c->loop, &c->end_later);
        }
    }
}

struct counter_daemon_state counter_server_look(struct counter_server *s)
{
    struct counter_daemon_state now = counter_daemon_look(s->daemon, loop_now_ms(s->client->loop));

    if (now.rests != s->rests) {
        s->rests = now.rests;
        drop_kept(s); /* of a server that is gone there are none: S stays */
        let_waiters_go(s);
    }
    return now;
}

void counter_server_good(struct counter_conn *c)
{
    struct counter_server *s = c->server;

    if (counter_daemon_heard(s->daemon, loop_now_ms(c->loop)))
        log_info(NULL, "counter-server-restored", "server=%s", s->name);
}

void counter_server_bad(struct counter_conn *c)
{
    struct counter_server *s = c->server;
    uint64_t rest_ms = counter_daemon_failed(s->daemon, c->probe, loop_now_ms(c->loop));

    /* At once: the next probe of a daemon that may hang, or the wait for the end of its rest. */
    if (c->probe || rest_ms != 0)
        timer_start(c->loop, &s->watch, 0);
    if (rest_ms == 0)
        return;
    ++s->client->stats.rests;
    (void)counter_server_look(s); /* C itself is not among those closed */
    log_warn(NULL, "counter-server-suspended", "server=%s for_ms=%llu", s->name,
             (unsigned long long)rest_ms);
}

/* ---- whether it responds ---- */

static void probe(struct counter_server *s)
{
    struct counter_conn *c = counter_server_take(s);

    ++s->client->stats.probes;
    if (c != NULL) {
        c->probe = true;
        if (!counter_conn_send_and_await(c, COUNTER_CONN_GREETING, COUNTER_UPTIME_LINE))
            counter_conn_close(c);
        return;
    }
    counter_conn_open(s, true)->probe = true;
}

static bool is_asked(const struct counter_server *s)
{
    struct list *it;

    list_for_each (it, &s->all) {
        if (list_entry(it, struct counter_conn, in_server)->state == COUNTER_CONN_ASKING)
            return true;
    }
    return false;
}

static void on_watch(struct timer *t)
{
    struct counter_server *s = container_of(t, struct counter_server, watch);
    uint64_t silent_ms = s->client->answer_timeout_ms;
    struct loop *l = s->client->loop;
    struct counter_daemon_state now = counter_server_look(s);

    if (!now.resting && s->asked_ms <= now.heard_ms && !is_asked(s))
        return;
    if (now.resting)
        timer_start(l, &s->watch, now.rest_ms != 0 ? now.rest_ms : COUNTER_REST_FIRST_MS);
    else
        timer_start(l, &s->watch, silent_ms);
    if (counter_daemon_begin_probe(s->daemon, silent_ms, loop_now_ms(l)))
        probe(s);
}

void counter_server_watch(struct counter_server *s)
{
    struct loop *l = s->client->loop;

    s->asked_ms = loop_now_ms(l);
    if (!timer_running(&s->watch))
        timer_start(l, &s->watch, s->client->answer_timeout_ms);
}

void counter_server_restart_watch(struct counter_server *s)
{
    if (timer_running(&s->watch))
        timer_start(s->client->loop, &s->watch, s->client->answer_timeout_ms);
}

void counter_server_inquire(struct counter_server *s, struct slice type)
{
    if (counter_daemon_needs_slots(s->daemon, type))
        counter_conn_open(s, true)->inquiry = true;
}

/* ---- the set of servers ---- */

struct counter_server *counter_server_of(struct counter_client *c, struct slice word)
{
    size_t i = hash_ring_find(c->ring, word);

    return i != SIZE_MAX ? c->servers[i] : NULL;
}

static bool is_visible(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] < 0x21 || s.p[i] > 0x7e)
            return false;
    }
    return true;
}

enum err counter_client_check(const struct counter_server_address *servers, size_t n)
{
    if (n > COUNTER_SERVERS_MAX)
        return ERR_TOO_LARGE;
    for (size_t i = 0; i < n; ++i) {
        if (servers[i].name.len == 0 || servers[i].name.len > COUNTER_SERVER_NAME_MAX)
            return ERR_RANGE;
        if (!is_visible(servers[i].name))
            return ERR_SYNTAX;
        for (size_t k = 0; k < i; ++k) {
            if (slice_eq(servers[i].name, servers[k].name))
                return ERR_EXISTS;
        }
    }
    return ERR_OK;
}

static struct counter_server *create_server(struct counter_client *c,
                                            const struct counter_server_address *a)
{
    struct counter_server *s = xcalloc(1, sizeof(*s));

    s->client = c;
    s->name = xslicedup(a->name);
    s->addr = a->addr;
    s->daemon = counter_daemon_get(c->health, a->name, &a->addr);
    s->rests = counter_daemon_look(s->daemon, 0).rests;
    timer_init(&s->watch, on_watch);
    list_init(&s->in_retired);
    list_init(&s->all);
    list_init(&s->kept);
    return s;
}

/* No key is S's from now on. */
static void retire(struct counter_server *s)
{
    struct list *it;
    struct list *next;

    s->retired = true;
    list_push_back(&s->client->retired, &s->in_retired);
    /* The last of them takes the server along: none is closed before all it is asked for is. */
    ++s->nall;
    list_for_each_safe (it, next, &s->all) {
        struct counter_conn *c = list_entry(it, struct counter_conn, in_server);
        bool wanted = c->call != NULL || c->state == COUNTER_CONN_RELEASING;

        if (!wanted)
            counter_conn_close(c);
    }
    if (--s->nall == 0)
        destroy_server(s);
}

/* The server of that name and address, taken out of OLD, or a new one. */
static struct counter_server *take_or_create(struct counter_client *c,
                                             const struct counter_server_address *a,
                                             struct counter_server **old, size_t nold)
{
    for (size_t i = 0; i < nold; ++i) {
        struct counter_server *s = old[i];

        if (s != NULL && slice_is(a->name, s->name) && addr_equal(&a->addr, &s->addr)) {
            old[i] = NULL;
            return s;
        }
    }
    return create_server(c, a);
}

void counter_client_set_servers(struct counter_client *c,
                                const struct counter_server_address *servers, size_t n)
{
    struct counter_server *old[COUNTER_SERVERS_MAX];
    struct slice names[COUNTER_SERVERS_MAX];
    size_t nold = c->nservers;

    ASSERT(counter_client_check(servers, n) == ERR_OK);
    memcpy(old, c->servers, sizeof(old));
    for (size_t i = 0; i < n; ++i) {
        c->servers[i] = take_or_create(c, &servers[i], old, nold);
        names[i] = slice_of(c->servers[i]->name);
    }
    c->nservers = n;
    hash_ring_destroy(c->ring);
    c->ring = hash_ring_create(names, n);
    for (size_t i = 0; i < nold; ++i) {
        if (old[i] != NULL)
            retire(old[i]);
    }
}

static void drop_all_of(struct counter_server *s)
{
    struct list *it;
    struct list *next;

    ++s->nall; /* as in retire */
    list_for_each_safe (it, next, &s->all)
        counter_conn_close(list_entry(it, struct counter_conn, in_server));
    --s->nall;
    destroy_server(s);
}

void counter_server_drop_all(struct counter_client *c)
{
    struct list *node;

    for (size_t i = 0; i < c->nservers; ++i)
        drop_all_of(c->servers[i]);
    c->nservers = 0;
    while ((node = list_pop_front(&c->retired)) != NULL)
        drop_all_of(list_entry(node, struct counter_server, in_retired));
    hash_ring_destroy(c->ring);
}

/* ---- to be shown ---- */

size_t counter_client_servers(const struct counter_client *c)
{
    return c->nservers;
}

struct counter_server_view counter_client_server(const struct counter_client *c, size_t i)
{
    ASSERT(i < c->nservers);
    const struct counter_server *s = c->servers[i];
    struct counter_daemon_state now = counter_daemon_look(s->daemon, loop_now_ms(c->loop));

    return (struct counter_server_view){
        .name = slice_of(s->name),
        .addr = s->addr,
        .connections = s->nall,
        .idle = s->nkept,
        .resting = now.resting,
        .rest_ms = now.rest_ms,
    };
}
