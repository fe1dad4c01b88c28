/* SPDX-License-Identifier: Apache-2.0
 *
 * Accepts connections. The number per listener and turn is limited, so that existing clients are
 * served in between. Connections above max_connections, or without a free file descriptor, wait in
 * the socket's queue.
 */
#include "poolcounter/server_internal.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"

enum {
    /* TCP keep-alive: after the first probe. */
    PROBE_INTERVAL_S = 10,
    PROBES = 3,
};

/* ---- options ---- */

static void set_option(int fd, int level, int name, int value)
{
    if (setsockopt(fd, level, name, &value, sizeof(value)) != 0)
        log_warn(NULL, "socket-option-refused", "option=%d reason=\"%s\"", name, strerror(errno));
}

/*
 * Sets the options of FD, a listening socket (later connections inherit them, without a system call
 * each) or a client's. No delay: otherwise the second of two consecutive answers could wait for the
 * client's delayed acknowledgment. No pacing, which the machine's congestion control may imply (bbr
 * does): answers have a few bytes and cannot cause congestion, and pacing runs a kernel timer for
 * each send. Every kernel has reno; a failure to select it has no further consequences.
 */
static void set_options(const struct server *s, int fd)
{
    uint64_t idle_ms = s->config->s.keep_alive_ms;
    struct addr a;

    if (addr_of_socket(fd, &a) != ERR_OK || a.sa.sa_family == AF_UNIX)
        return;
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
    if (idle_ms == 0)
        return;
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, (int)(idle_ms / 1000));
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_INTERVAL_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
}

void listeners_add(struct server *s, const int *fds, size_t n)
{
    ASSERT(n <= LISTENERS_MAX);
    for (size_t i = 0; i < n; ++i) {
        s->listeners[s->nlisteners++] =
            (struct listener){.watched.kind = WATCHED_LISTENER, .fd = fds[i]};
        set_options(s, fds[i]);
    }
}

/* ---- accepting ---- */

static size_t clients_max(const struct server *s)
{
    size_t max = (size_t)s->config->s.max_connections;

    return max != 0 ? max : SIZE_MAX;
}

static void watch_listener(struct server *s, struct listener *l, bool accepting)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = l};

    if (l->accepting == accepting)
        return;
    if (epoll_ctl(s->epoll, accepting ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, l->fd, &event) == 0)
        l->accepting = accepting;
}

static void pause_over(struct timer *t)
{
    listeners_resume(container_of(t, struct server, accept_again));
}

void listeners_pause(struct server *s)
{
    s->accepting = false;
    for (size_t i = 0; i < s->nlisteners; ++i)
        watch_listener(s, &s->listeners[i], false);
    s->accept_again.expired = pause_over;
    server_timer_start(s, &s->accept_again, ACCEPT_PAUSE_MS);
}

void listeners_resume(struct server *s)
{
    if (s->accepting || s->handed_over)
        return;
    s->accepting = true;
    timer_stop(&s->accept_again);
    for (size_t i = 0; i < s->nlisteners; ++i) {
        watch_listener(s, &s->listeners[i], true);
        if (s->listeners[i].accepting)
            continue;
        /* Memory of the kernel is out: another time. */
        listeners_pause(s);
        return;
    }
}

void listeners_close(struct server *s)
{
    for (size_t i = 0; i < s->nlisteners; ++i) {
        watch_listener(s, &s->listeners[i], false);
        close(s->listeners[i].fd);
    }
    s->nlisteners = 0;
    timer_stop(&s->accept_again);
}

/* ---- accept ---- */

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static bool is_over_limit(const struct server *s, const struct source_entry *source)
{
    int64_t max = s->config->s.max_connections_per_address;

    return source != NULL && max != 0 && source->clients > (size_t)max;
}

static void welcome(struct server *s, int fd, const struct sockaddr *peer)
{
    struct source_entry *source = sources_join(&s->sources, peer);

    stat_add(s->cell, STAT_connections_accepted, 1);
    if (is_over_limit(s, source)) {
        log_warn(NULL, "client-refused", "reason=\"max_connections_per_address\"");
        close(fd);
    } else if (client_create(s, fd, source) != NULL) {
        return;
    }
    stat_add(s->cell, STAT_connections_refused, 1);
    sources_leave(&s->sources, source);
}

/* Returns false if there are no more connections to accept, or none can be accepted now. */
static bool accept_one(struct server *s, struct listener *l)
{
    struct sockaddr_storage peer = {0};
    socklen_t len = sizeof(peer);

    if (s->nclients >= clients_max(s)) {
        stat_add(s->cell, STAT_accept_pauses, 1);
        listeners_pause(s);
        return false;
    }
    int fd = accept4(l->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        if (!l->has_options)
            set_options(s, fd);
        welcome(s, fd, (const struct sockaddr *)&peer);
        return true;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
        l->has_options = true;
        return false;
    }
    int error = errno;
    if (error == EINTR)
        return true;
    stat_add(s->cell, STAT_connect_errors, 1);
    if (!is_shortage(error))
        return error == ECONNABORTED; /* the others of the network: in the next turn */
    log_warn(NULL, "accepting-paused", "clients=%zu reason=\"%s\" hint=\"raise LimitNOFILE\"",
             s->nclients, strerror(error));
    stat_add(s->cell, STAT_accept_pauses, 1);
    listeners_pause(s);
    return false;
}

void listeners_accept(struct server *s, struct listener *l)
{
    for (unsigned i = 0; i < ACCEPTS_MAX && l->accepting; ++i) {
        if (!accept_one(s, l))
            return;
    }
}
