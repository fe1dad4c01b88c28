/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that leave. While an HTTP/1 request is with us, libh2o does not read its socket, and
 * would not learn that the client has left. So we put a callback of our own on the socket that does
 * not read either (H2O_SOCKET_FLAG_DONT_READ). This also keeps the socket in epoll, which saves two
 * system calls per request. It stays there until the last part of the response has been sent.
 *
 * Bytes that nobody reads (a next request, a record of TLS) would call it again and again, so it is
 * taken away when some come, and a sweep looks for the end behind them.
 */
#include "common/net/http_conn.h"

#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum {
    SWEEP_MS = 500,
    SWEEP_MAX = 1000, /* connections; with more, the rest follows soon */
    SWEEP_ON_MS = 10,
    TLS_ALERT = 0x15,
};

/* Whether what lies unread begins with a record's head: nothing of the last one is still to come.
 */
static bool between_records(const SSL *ssl)
{
    return SSL_has_pending(ssl) == 0 && strcmp(SSL_rstate_string(ssl), "RH") == 0;
}

/*
 * Whether what lies unread begins with an alert: TLS's last word, or a failure. TLS 1.3 hides it
 * among what may be a request, and lets a client end one direction alone (RFC 8446 section 6.1).
 */
static bool said_goodbye(const struct http_conn *c)
{
    unsigned char type;

    return c->ssl != NULL && SSL_version(c->ssl) < TLS1_3_VERSION && between_records(c->ssl) &&
           recv(h2o_socket_get_fd(c->sock), &type, 1, MSG_PEEK | MSG_DONTWAIT) == 1 &&
           type == TLS_ALERT;
}

/* Whether the peer has sent its last byte, or can get none. What it sent may still be unread. */
static bool peer_has_left(const struct http_conn *c)
{
    struct pollfd p = {.fd = h2o_socket_get_fd(c->sock), .events = POLLRDHUP};
    int ends = POLLHUP | POLLERR | (c->keep_half ? 0 : POLLRDHUP);

    if (c->read_shut)
        return false;
    if (poll(&p, 1, 0) > 0 && (p.revents & ends) != 0)
        return true;
    return !c->keep_half && said_goodbye(c);
}

static void leave(struct http_conn *c)
{
    if (list_linked(&c->replies))
        http_reply_client_left(list_first(&c->replies, struct http_reply, node));
}

static void on_sweep(struct timer *t)
{
    struct http_server *s = container_of(t, struct http_server, unseen_timer);
    struct list rest;
    struct list *node;

    list_init(&rest);
    list_splice_back(&rest, &s->unseen);
    for (int i = 0; i < SWEEP_MAX && (node = list_pop_front(&rest)) != NULL; ++i) {
        struct http_conn *c = list_entry(node, struct http_conn, unseen);

        list_push_back(&s->unseen, &c->unseen);
        if (peer_has_left(c))
            leave(c);
    }
    bool more = list_linked(&rest);
    /* Those that have not been looked at come first. */
    list_splice_back(&rest, &s->unseen);
    list_splice_back(&s->unseen, &rest);
    if (list_linked(&s->unseen))
        timer_start(s->loop, t, more ? SWEEP_ON_MS : SWEEP_MS);
}

void http_watch_start_server(struct http_server *s)
{
    list_init(&s->unseen);
    timer_init(&s->unseen_timer, on_sweep);
}

void http_watch_stop_server(struct http_server *s)
{
    timer_stop(&s->unseen_timer);
}

static void on_client_event(h2o_socket_t *sock, const char *err)
{
    struct http_conn *c = sock->on_close.data;
    struct http_server *s = c->server;

    (void)err; /* nothing is read */
    if (peer_has_left(c)) {
        leave(c);
        return;
    }
    h2o_socket_read_stop(sock);
    list_push_back(&s->unseen, &c->unseen);
    if (!timer_running(&s->unseen_timer))
        timer_start(s->loop, &s->unseen_timer, SWEEP_MS);
}

void http_conn_watch(struct http_conn *c)
{
    ASSERT(!c->http2);
    c->keep_half = false;
    if (c->read_shut)
        return;
    c->watching = true;
    h2o_socket_dont_read(c->sock, 1);
    h2o_socket_read_start(c->sock, on_client_event);
}

void http_conn_unwatch(struct http_conn *c)
{
    if (!c->watching)
        return;
    c->watching = false;
    list_remove(&c->unseen);
    h2o_socket_dont_read(c->sock, c->tap.reads);
    h2o_socket_read_stop(c->sock);
}
