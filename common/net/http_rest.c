/* SPDX-License-Identifier: Apache-2.0
 *
 * Idle HTTP/1 connections without libh2o. It keeps more for a connection between two requests
 * than all the rest of it takes, and has no call that gives this up. But it closes its connection,
 * and the socket, when the callback that reads is told of an end. So the socket is emptied before:
 * the descriptor lives on as a duplicate, and the state of TLS is taken over by a new socket. When
 * bytes come, libh2o gets that as it gets a new connection's (http_tap.c): what counts over the
 * connection's life is in struct http_conn, which stays.
 *
 * This takes half a dozen system calls, so it is done for those that have been idle for a while,
 * and for so many at a time that nobody waits for it.
 */
#include "common/net/http_conn.h"

#include <fcntl.h>
#include <malloc.h>

enum {
    REST_MS = 1000,
    TAKEN_AT_A_TIME = 64,
    TAKE_ON_MS = 10,
    GIVE_BACK_AFTER = 512,
    GIVE_BACK_SHARE = 8, /* of all connections */
};

/* ---- taking libh2o off ---- */

/* Whether libh2o waits for a request of which nothing has come. */
static bool awaits_request(const struct http_conn *c)
{
    return c->tap.state == TAP_HEAD && http_tap_in_place(c) && !h2o_socket_is_writing(c->sock) &&
           c->sock->input->size == 0 && c->tap.held.len == 0 && !c->read_shut && !c->cut;
}

static void on_closed(void *data)
{
    bool *closed = data;

    *closed = true;
}

/* What OLD has, which is an empty socket then. False: there are no descriptors. */
static bool move_out(h2o_socket_t *old, h2o_socket_export_t *out)
{
    *out = (h2o_socket_export_t){.fd = fcntl(h2o_socket_get_fd(old), F_DUPFD_CLOEXEC, 0)};
    if (out->fd == -1)
        return false;
    out->ssl = old->ssl;
    old->ssl = NULL;
    h2o_buffer_init(&out->input, &h2o_socket_buffer_prototype);
    return true;
}

static void take_off(struct http_conn *c)
{
    h2o_socket_t *old = c->sock;
    h2o_socket_export_t kept;
    bool closed = false;

    if (!awaits_request(c) || !move_out(old, &kept))
        return;
    old->on_close.cb = on_closed;
    old->on_close.data = &closed;
    c->tap.read(old, h2o_socket_error_closed);
    ASSERT(closed);
    http_conn_set_socket(c, h2o_socket_import(loop_h2o(c->server->loop), &kept));
    http_tap_wait(c);
    ++c->server->taken_off;
    http_server_count(c->server, COUNT_RESTS);
}

/* To the system, what many have freed: not for a few, as it looks at all that is free. */
static void give_back(struct http_server *s)
{
    if (s->taken_off < GIVE_BACK_AFTER || s->taken_off < s->nconns / GIVE_BACK_SHARE)
        return;
    s->taken_off = 0;
    (void)malloc_trim(0);
}

/* ---- when ---- */

static void on_timer(struct timer *t)
{
    struct http_server *s = container_of(t, struct http_server, rest_timer);
    struct list *node;

    for (int i = 0; i < TAKEN_AT_A_TIME && (node = list_pop_front(&s->tired)) != NULL; ++i)
        take_off(list_entry(node, struct http_conn, tap.node));
    if (list_linked(&s->tired))
        timer_start(s->loop, t, TAKE_ON_MS);
    else
        give_back(s);
}

bool http_rest_is_due(const struct http_conn *c, uint64_t now_ms)
{
    uint64_t ms = c->server->options.rest_ms;

    return now_ms >= c->phase_since_ms + (ms != 0 ? ms : REST_MS);
}

void http_rest_soon(struct http_conn *c)
{
    struct http_server *s = c->server;

    if (!awaits_request(c) || list_linked(&c->tap.node))
        return;
    list_push_back(&s->tired, &c->tap.node);
    if (!timer_running(&s->rest_timer))
        timer_start(s->loop, &s->rest_timer, 0);
}

void http_rest_start_server(struct http_server *s)
{
    list_init(&s->tired);
    timer_init(&s->rest_timer, on_timer);
}

void http_rest_stop_server(struct http_server *s)
{
    timer_stop(&s->rest_timer);
}
