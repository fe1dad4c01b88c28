/* SPDX-License-Identifier: Apache-2.0
 *
 * A client's connection. libh2o drives the socket; we are told of its end (on_close), look at it
 * now and then (the sweep), and act on it only by shutdown(2), which libh2o then finds out about:
 * there is no other way to close a connection that libh2o owns.
 */
#include "common/net/http_conn.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <sys/ioctl.h>

enum {
    /* Between the two GOAWAYs of a drain: a round trip, for requests that are on their way. */
    GOAWAY_MS = 1000,
    /* A head larger than libh2o allows never gets here, so no more needs to be searched. */
    HEAD_SEARCH_MAX = H2O_MAX_REQLEN,
};

static void enter_phase(struct http_conn *c, enum conn_phase phase)
{
    c->phase = phase;
    c->phase_since_ms = loop_now_ms(c->server->loop);
    pace_rest(&c->body_pace);
}

/* ---- addresses ---- */

void small_addr_set(struct small_addr *a, const struct addr *from)
{
    small_addr_fini(a);
    a->len = from->len;
    if (from->len <= sizeof(a->in6)) {
        memcpy(&a->in6, &from->sa, from->len);
        return;
    }
    a->large = xmalloc(sizeof(*from));
    *a->large = *from;
}

void small_addr_get(const struct small_addr *a, struct addr *out)
{
    if (a->len > sizeof(a->in6)) {
        *out = *a->large;
        return;
    }
    /* At once: what is behind LEN is nobody's. */
    memcpy(&out->in6, &a->in6, sizeof(out->in6));
    out->len = a->len;
}

void small_addr_fini(struct small_addr *a)
{
    if (a->len > sizeof(a->in6))
        free(a->large);
    a->len = 0;
}

/* ---- life ---- */

static void on_close(void *data)
{
    struct http_conn *c = data;
    struct http_server *s = c->server;

    http_short_lost(c);
    ASSERT(list_empty(&c->replies));
    if (c->listener->accept.ssl_ctx != NULL && c->ssl == NULL && c->tap.state != TAP_UNSERVED)
        http_server_count(s, COUNT_TLS_FAILED + c->tls_failure);
    http_tap_fini(c);
    address_counts_leave(s->options.addresses, &c->address);
    list_remove(&c->unseen);
    list_remove(&c->node);
    small_addr_fini(&c->peer);
    small_addr_fini(&c->local);
    --s->nconns;
    http_listener_release(c->listener);
    slab_give(&s->conn_slab, c);
    http_server_conn_gone(s);
}

void http_conn_set_socket(struct http_conn *c, h2o_socket_t *sock)
{
    c->sock = sock;
    sock->on_close.cb = on_close;
    sock->on_close.data = c;
}

struct http_conn *http_conn_create(struct http_listener *l, h2o_socket_t *sock,
                                   const struct addr *peer)
{
    struct http_conn *c = slab_take(&l->server->conn_slab);

    small_addr_set(&c->peer, peer);
    c->server = l->server;
    c->listener = l;
    ++l->refs;
    http_conn_set_socket(c, sock);
    list_init(&c->replies);
    list_init(&c->tap.node);
    list_init(&c->unseen);
    list_push_back(&c->server->conns, &c->node);
    ++c->server->nconns;
    http_server_load_changed(c->server);
    enter_phase(c, PHASE_NEW);
    return c;
}

const struct body_file *http_conn_body_file(const struct http_conn *c)
{
    return c->body;
}

void *http_conn_tag(const struct http_conn *c)
{
    return c->listener->tag;
}

void http_conn_copy_peer(const struct http_conn *c, struct addr *out)
{
    small_addr_get(&c->peer, out);
}

const struct addr *http_conn_peer(struct http_conn *c)
{
    struct addr *shown = &c->server->shown[0];

    small_addr_get(&c->peer, shown);
    return shown;
}

const struct addr *http_conn_local(struct http_conn *c)
{
    struct addr *shown = &c->server->shown[1];

    if (c->local.len == 0 && c->listener->local.len != 0)
        return &c->listener->local;
    if (c->local.len != 0) {
        small_addr_get(&c->local, shown);
        return shown;
    }
    *shown = (struct addr){0};
    shown->len = h2o_socket_getsockname(c->sock, &shown->sa);
    small_addr_set(&c->local, shown);
    return shown;
}

bool http_conn_is_tls(const struct http_conn *c)
{
    return c->sock->ssl != NULL;
}

bool http_conn_client_has_tls(const struct http_conn *c)
{
    return http_conn_is_tls(c) || c->tls_before_us;
}

const SSL *http_conn_ssl(const struct http_conn *c)
{
    return c->ssl;
}

void http_conn_secured(struct http_conn *c, const SSL *ssl)
{
    if (c->ssl != NULL)
        return;
    c->ssl = ssl;
    http_server_count(c->server, SSL_version(ssl) >= TLS1_3_VERSION ? COUNT_TLS13 : COUNT_TLS12);
    if (SSL_session_reused(ssl))
        http_server_count(c->server, COUNT_TLS_RESUMED);
}

bool http_conn_is_closing(const struct http_conn *c)
{
    return c->sock->ssl != NULL && c->ssl != NULL &&
           (SSL_get_shutdown(c->ssl) & SSL_SENT_SHUTDOWN) != 0;
}

void http_conn_shut_read(struct http_conn *c)
{
    c->read_shut = true;
    shutdown(h2o_socket_get_fd(c->sock), SHUT_RD);
}

static rare void shut_both(struct http_conn *c)
{
    c->read_shut = true;
    c->cut = true;
    shutdown(h2o_socket_get_fd(c->sock), SHUT_RDWR);
}

void http_conn_cut(struct http_conn *c)
{
    shut_both(c);
    /* Between two parts of a response libh2o neither reads nor writes, so it would not notice. */
    if (!c->http2 && list_linked(&c->replies))
        http_reply_client_left(list_first(&c->replies, struct http_reply, node));
}

/* ---- requests ---- */

void http_conn_begin(struct http_conn *c)
{
    ++c->requests;
    ++c->server->nrequests;
    http_server_load_changed(c->server);
    enter_phase(c, PHASE_BUSY);
}

/*
 * Who gives up so many requests, and most of them, wears us out on purpose, whichever side resets
 * their streams (CVE-2023-44487, CVE-2025-8671).
 */
static bool gives_up_too_often(const struct http_conn *c)
{
    uint32_t max = c->server->options.http2_abandoned;

    return c->http2 && !c->cut && max != 0 && c->abandoned >= max && c->abandoned > c->requests / 2;
}

void http_conn_end(struct http_conn *c, bool done)
{
    --c->server->nrequests;
    http_server_load_changed(c->server);
    if (!done) {
        ++c->abandoned;
        http_server_count(c->server, COUNT_ABANDONED);
    }
    http_tap_look_again(c);
    (void)http_tap_is_dying(c);
    if (gives_up_too_often(c)) {
        http_server_count(c->server, COUNT_RESETS);
        shut_both(c);
    }
    if (list_linked(&c->replies))
        return;
    enter_phase(c, PHASE_IDLE);
    /* One that was told to stay may have one more request on its way. */
    if (!c->cut && !c->tunnelled && c->server->shuts_idle && !c->http2)
        http_conn_shut_read(c);
}

/* ---- progress ---- */

uint64_t http_conn_progress(const struct http_conn *c)
{
    int fd = h2o_socket_get_fd(c->sock);
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    int queued = 0;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0)
        return info.tcpi_bytes_acked;
    /* A unix socket: what waits in it shrinks when the peer reads. */
    (void)ioctl(fd, SIOCOUTQ, &queued);
    return UINT64_MAX - (uint64_t)queued;
}

/* ---- the sweep ---- */

static bool head_complete(const struct http_conn *c)
{
    const h2o_buffer_t *in = c->sock->input;
    size_t len = in->size < HEAD_SEARCH_MAX ? in->size : HEAD_SEARCH_MAX;

    /* libh2o takes bare LFs, too. */
    return memmem(in->bytes, len, "\n\r\n", 3) != NULL || memmem(in->bytes, len, "\n\n", 2) != NULL;
}

/* Before the first request only ALPN can tell. */
static bool speaks_http2(const struct http_conn *c)
{
    if (c->http2)
        return true;
    /* No version: no handshake has begun, and asking for its result would crash. */
    if (c->sock->ssl == NULL || h2o_socket_get_ssl_protocol_version(c->sock) == NULL)
        return false;
    h2o_iovec_t protocol = h2o_socket_ssl_get_selected_protocol(c->sock);
    return h2o_memis(protocol.base, protocol.len, H2O_STRLIT("h2"));
}

static enum conn_phase observed_phase(const struct http_conn *c)
{
    if (list_linked(&c->replies))
        return PHASE_BUSY;
    if (speaks_http2(c))
        return PHASE_IDLE;
    if (c->sock->input->size == 0)
        return c->requests == 0 ? PHASE_NEW : PHASE_IDLE;
    return head_complete(c) ? PHASE_BODY : PHASE_HEAD;
}

static void update_phase(struct http_conn *c)
{
    enum conn_phase phase = observed_phase(c);

    if (phase == c->phase)
        return;
    /* The time for the first head counts from the start: or a byte now and then would buy more. */
    if (c->phase == PHASE_NEW && phase == PHASE_HEAD)
        c->phase = phase;
    else
        enter_phase(c, phase);
}

static bool phase_over(const struct http_conn *c, uint64_t limit_ms, uint64_t now_ms)
{
    return limit_ms != 0 && now_ms > c->phase_since_ms && now_ms - c->phase_since_ms >= limit_ms;
}

/* libh2o ends idle HTTP/2 connections by itself; but any frame counts as life there, and what is
 * uploaded is not seen by us until it is complete. So we only bound both together. */
static uint64_t idle_limit_ms(const struct http_conn *c)
{
    const struct http_server_options *o = &c->server->options;

    if (!speaks_http2(c))
        return o->keep_alive_timeout_ms;
    if (o->keep_alive_timeout_ms == 0 || o->body_timeout_ms == 0)
        return 0;
    return o->keep_alive_timeout_ms + o->body_timeout_ms;
}

/*
 * Nothing happens to an idle connection until bytes come, or its time is over, so that thousands
 * of these cost nothing but memory, and not much of that.
 */
static void rest(struct http_conn *c, uint64_t now_ms)
{
    if (c->tap.state != TAP_HEAD && c->tap.state != TAP_RESTING)
        return;
    if (c->read_shut || c->cut || c->server->draining || !http_rest_is_due(c, now_ms))
        return;
    http_rest_soon(c);
    list_remove(&c->node);
    list_push_back(&c->server->resting, &c->node);
    c->resting = true;
}

void http_conn_wake(struct http_conn *c)
{
    if (!c->resting)
        return;
    c->resting = false;
    list_remove(&c->tap.node);
    list_remove(&c->node);
    list_push_back(&c->server->conns, &c->node);
}

void http_conns_wake(struct http_server *s)
{
    while (!list_empty(&s->resting))
        http_conn_wake(list_first(&s->resting, struct http_conn, node));
}

void http_conn_sweep(struct http_conn *c, uint64_t now_ms)
{
    const struct http_server_options *o = &c->server->options;

    if (c->tunnelled || http_proxied_sweep(c, now_ms) || http_tap_sweep(c, now_ms))
        return;
    if (c->http2 && c->server->draining)
        http_tap_drain_http2(c, now_ms - c->server->drain_ms >= GOAWAY_MS);
    update_phase(c);
    if (c->http2)
        http_streams_sweep(c, now_ms);
    switch (c->phase) {
    case PHASE_NEW:
        if (phase_over(c, o->header_timeout_ms, now_ms)) {
            http_server_count(c->server, COUNT_HEADER_TIMEOUTS);
            shut_both(c);
            enter_phase(c, c->phase); /* counted once */
        }
        return;
    case PHASE_HEAD:
        if (phase_over(c, o->header_timeout_ms, now_ms)) {
            http_server_count(c->server, COUNT_HEADER_TIMEOUTS);
            http_tap_refuse(c, FAULT_HEAD_TIMEOUT);
        }
        return;
    case PHASE_BODY:
        if (phase_over(c, o->body_timeout_ms, now_ms)) {
            http_server_count(c->server, COUNT_BODY_TIMEOUTS);
            http_tap_refuse(c, FAULT_BODY_TIMEOUT);
        } else {
            http_slow_sweep_body(c, now_ms);
        }
        return;
    case PHASE_IDLE:
        if (!phase_over(c, idle_limit_ms(c), now_ms)) {
            rest(c, now_ms);
            return;
        }
        /* The second time it is one that libh2o closes, and that does not take TLS's last word. */
        if (c->read_shut)
            shut_both(c);
        else
            http_conn_shut_read(c);
        return;
    case PHASE_BUSY:
        http_slow_sweep_send(c, now_ms);
        return;
    }
    UNREACHABLE();
}

void http_conn_drain(struct http_conn *c)
{
    if (c->tunnelled || http_conn_is_closing(c))
        return;
    if (c->tap.state == TAP_UNSERVED) {
        http_conn_shut_read(c);
        return;
    }
    update_phase(c);
    if (c->http2)
        http_tap_drain_http2(c, false);
    /* A request that comes in just now is read before the end is. */
    if (!speaks_http2(c) && (c->phase == PHASE_IDLE || c->phase == PHASE_NEW))
        http_conn_shut_read(c);
}
