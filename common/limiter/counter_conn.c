/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection is a descriptor and a watch on it. At most one short line is being sent: a socket
 * that does not accept all of it at once is treated as failed. At most one line is expected, so
 * bytes behind it are a fault.
 */
#include "common/limiter/counter_conn.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

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

bool counter_conn_alive(struct counter_conn *c)
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

struct counter_conn *counter_conn_open(struct counter_server *s)
{
    struct counter_client *client = s->client;
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
