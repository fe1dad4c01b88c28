/* SPDX-License-Identifier: Apache-2.0
 *
 * A client's connection: accepted, then served by what its bytes are:
 *
 *     PROXIED -> HANDSHAKE -> HTTP1 or HTTP2 -> LINGER -> CLOSED
 *                             HTTP1 -> TUNNEL ----------> CLOSED
 *
 * The descriptor is only closed by http_conn_close(). Memory is freed at the end of the turn.
 */
#include "common/http/http_server_internal.h"

#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static void on_readable(void *context);

void http_conn_enter(struct http_conn *c, enum conn_phase phase)
{
    struct http_server *s = c->server;

    if ((c->phase == PHASE_IDLE) != (phase == PHASE_IDLE)) {
        list_remove(&c->node);
        list_push_back(phase == PHASE_IDLE ? &s->idle : &s->conns, &c->node);
    }
    /* The time limit of the first head begins with the connection: a client must not gain time by
     * sending a byte now and then. */
    bool begun = c->phase == PHASE_NEW && phase == PHASE_HEAD;
    c->phase = phase;
    if (!begun)
        c->phase_since_ms = loop_now_ms(s->loop);
    pace_rest(&c->body_pace);
    if (phase == PHASE_IDLE)
        http_accept_resume(s);
}

bool http_conn_phase_over(const struct http_conn *c, uint64_t limit_ms, uint64_t now_ms)
{
    return limit_ms != 0 && now_ms > c->phase_since_ms && now_ms - c->phase_since_ms >= limit_ms;
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
    /* As a whole: what is behind LEN is not used. */
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

void http_conn_destroy(struct http_conn *c)
{
    struct http_server *s = c->server;

    ASSERT(c->state == CONN_CLOSED);
    ASSERT(list_empty(&c->replies));
    list_remove(&c->end.node);
    list_remove(&c->node);
    address_counts_leave(s->options.addresses, &c->address);
    small_addr_fini(&c->peer);
    small_addr_fini(&c->local);
    if (c->linger != NULL)
        text_fini(&c->linger->out);
    free(c->linger);
    if (c->proxied != NULL)
        text_fini(c->proxied);
    free(c->proxied);
    http_listener_release(c->listener);
    slab_give(&s->conn_slab, c);
}

static void run_end(struct loop_deferred *d)
{
    http_conn_destroy(container_of(d, struct http_conn, end));
}

void http_conn_close(struct http_conn *c)
{
    enum conn_state state = c->state;

    if (state == CONN_CLOSED)
        return;
    c->state = CONN_CLOSED;
    if (state == CONN_HANDSHAKE)
        http_server_count(c->server, COUNT_TLS_FAILED + c->tls_failure);
    if (c->http2 != NULL)
        http2_fini(c);
    http1_fini(c);
    transport_close(&c->transport);
    list_remove(&c->node);
    list_push_back(&c->server->closed, &c->node);
    loop_defer(c->server->loop, &c->end);
    --c->server->nconns;
    http_accept_give_back(c->server);
    http_server_conn_gone(c->server);
}

void http_conn_reset(struct http_conn *c)
{
    if (c->state == CONN_CLOSED)
        return;
    transport_abort_at_close(&c->transport);
    http_conn_close(c);
}

static struct http_conn *create(struct http_listener *l, int fd, const struct addr *peer)
{
    struct http_conn *c = slab_take(&l->server->conn_slab);

    small_addr_set(&c->peer, peer);
    c->server = l->server;
    c->listener = l;
    ++l->refs;
    c->end.run = run_end;
    list_init(&c->replies);
    list_push_back(&c->server->conns, &c->node);
    ++c->server->nconns;
    http_server_load_changed(c->server);
    http_conn_enter(c, PHASE_NEW);
    transport_open(&c->transport, fd);
    transport_attach_client(&c->transport, c->server->loop, on_readable, c);
    return c;
}

/* ---- what is known of it ---- */

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
    if (addr_of_socket(c->transport.fd, shown) == ERR_OK)
        small_addr_set(&c->local, shown);
    return shown;
}

struct slice http_conn_host(struct http_conn *c, struct http_request *req)
{
    const struct addr *local = http_conn_local(c);
    char text[ADDR_TEXT_MAX];

    if (local->sa.sa_family == AF_UNIX)
        return SLICE_LIT("localhost");
    return http_request_keep(req, slice_of(addr_format(local, text)));
}

bool http_conn_is_tls(const struct http_conn *c)
{
    return c->listener->ssl != NULL;
}

bool http_conn_client_has_tls(const struct http_conn *c)
{
    return http_conn_is_tls(c) || c->tls_before_us;
}

const SSL *http_conn_ssl(const struct http_conn *c)
{
    return c->secured ? transport_ssl(&c->transport) : NULL;
}

/* ---- the handshake ---- */

static void note_secured(struct http_conn *c)
{
    const SSL *ssl = transport_ssl(&c->transport);

    c->secured = true;
    http_server_count(c->server, SSL_version(ssl) >= TLS1_3_VERSION ? COUNT_TLS13 : COUNT_TLS12);
    if (SSL_session_reused(ssl))
        http_server_count(c->server, COUNT_TLS_RESUMED);
}

static bool negotiated_http2(const struct http_conn *c)
{
    const unsigned char *name;
    unsigned len;

    SSL_get0_alpn_selected(transport_ssl(&c->transport), &name, &len);
    return slice_eq((struct slice){(const char *)name, len}, SLICE_LIT("h2"));
}

static void start_http(struct http_conn *c, bool http2)
{
    c->state = http2 ? CONN_HTTP2 : CONN_HTTP1;
    if (http2)
        http2_start(c);
}

/*
 * OpenSSL has sent its alert, if it has one. The client must be able to read that, or the answer to
 * one that speaks plain HTTP: both are lost if unread bytes reset the connection.
 */
static cold_ void handshake_failed(struct http_conn *c)
{
    struct text answer = {0};

    http_server_count(c->server, COUNT_TLS_FAILED + c->tls_failure);
    transport_drop_tls(&c->transport);
    if (c->tls_failure == TLS_FAILURE_PLAIN_HTTP && c->listener->tells_plain)
        http1_put_answer(c, 400, "this address speaks TLS: use https\n", &answer);
    http_conn_linger(c, &answer);
}

static void handshake(void *conn)
{
    struct http_conn *c = conn;

    switch (tls_link_handshake(c->transport.tls)) {
    case TLS_DONE:
        note_secured(c);
        start_http(c, negotiated_http2(c));
        /* Data received with the end of the handshake is not reported by a poll. */
        if (!http_conn_is_closed(c) && transport_read_ahead(&c->transport))
            on_readable(c);
        return;
    case TLS_READS:
        return;
    case TLS_WRITES:
        transport_await_writable(&c->transport, handshake);
        return;
    case TLS_FAILED:
        handshake_failed(c);
        return;
    }
    UNREACHABLE();
}

void http_conn_serve(struct http_conn *c)
{
    if (!http_proxied_admit(c)) {
        http_conn_close(c);
        return;
    }
    if (c->listener->ssl == NULL) {
        start_http(c, c->listener->http2);
        return;
    }
    c->state = CONN_HANDSHAKE;
    if (!transport_accept_tls(&c->transport, c->listener->ssl, &c->tls_failure))
        http_conn_close(c);
}

void http_conn_accept(struct http_listener *l, int fd, const struct addr *peer)
{
    struct http_conn *c = create(l, fd, peer);

    if (l->proxy_from != NULL)
        http_proxied_start(c);
    else
        http_conn_serve(c);
}

/* ---- lingering ---- */

static void flush_linger(void *conn)
{
    struct http_conn *c = conn;
    struct http_linger *l = c->linger;

    while (l->out_at < l->out.len) {
        struct iovec iov = {l->out.p + l->out_at, l->out.len - l->out_at};
        ssize_t n = transport_send(&c->transport, &iov, 1, 0);

        if (n == -1 && errno == EAGAIN) {
            transport_await_writable(&c->transport, flush_linger);
            return;
        }
        if (n == -1) {
            http_conn_close(c);
            return;
        }
        l->out_at += (size_t)n;
    }
    transport_end(&c->transport);
}

void http_conn_linger(struct http_conn *c, struct text *out)
{
    if (c->state == CONN_CLOSED) {
        text_fini(out);
        return;
    }
    ASSERT(c->linger == NULL);
    c->state = CONN_LINGER;
    c->linger = xcalloc(1, sizeof(*c->linger));
    c->linger->out = *out;
    *out = (struct text){0};
    c->linger->until_ms = loop_now_ms(c->server->loop) + LINGER_MS;
    http_conn_enter(c, PHASE_BUSY);
    transport_read_level(&c->transport, WATCH_BYTES);
    flush_linger(c);
}

static void discard(struct http_conn *c)
{
    char *room = http_server_read_room(c->server);
    ssize_t n;

    do {
        n = transport_recv(&c->transport, room, READ_ROOM_BYTES);
        c->linger->dropped += n > 0 ? (size_t)n : 0;
    } while (n > 0 && c->linger->dropped <= LINGER_BYTES && transport_read_ahead(&c->transport));
    if (n > 0 ? c->linger->dropped <= LINGER_BYTES : n == -1 && errno == EAGAIN)
        return;
    if (n == 0 && c->linger->out_at < c->linger->out.len)
        transport_read_level(&c->transport, WATCH_FAILURE); /* it may still read */
    else
        http_conn_close(c);
}

/* ---- events ---- */

static void on_readable(void *context)
{
    struct http_conn *c = context;

    switch (c->state) {
    case CONN_PROXIED:
        http_proxied_readable(c);
        return;
    case CONN_HANDSHAKE:
        handshake(c);
        return;
    case CONN_HTTP1:
        http1_readable(c);
        return;
    case CONN_HTTP2:
        http2_readable(c);
        return;
    case CONN_LINGER:
        discard(c);
        return;
    case CONN_TUNNEL:
    case CONN_CLOSED:
        break;
    }
    UNREACHABLE();
}

/* ---- requests ---- */

void http_conn_begin(struct http_conn *c)
{
    ++c->requests;
    ++c->server->nrequests;
    http_server_load_changed(c->server);
}

void http_conn_end(struct http_conn *c, bool done)
{
    --c->server->nrequests;
    http_server_load_changed(c->server);
    if (!done) {
        ++c->abandoned;
        http_server_count(c->server, COUNT_ABANDONED);
    }
}

/* ---- progress ---- */

uint64_t http_conn_progress(const struct http_conn *c)
{
    int fd = c->transport.fd;
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

static void sweep_new(struct http_conn *c, uint64_t now_ms)
{
    if (!http_conn_phase_over(c, c->server->options.header_timeout_ms, now_ms))
        return;
    http_server_count(c->server, COUNT_HEADER_TIMEOUTS);
    http_conn_close(c);
}

void http_conn_sweep(struct http_conn *c, uint64_t now_ms)
{
    switch (c->state) {
    case CONN_PROXIED:
        http_proxied_sweep(c, now_ms);
        return;
    case CONN_HANDSHAKE:
        sweep_new(c, now_ms);
        return;
    case CONN_HTTP1:
        if (c->phase == PHASE_NEW)
            sweep_new(c, now_ms);
        else
            http1_sweep(c, now_ms);
        return;
    case CONN_HTTP2:
        http2_sweep(c, now_ms);
        return;
    case CONN_LINGER:
        if (now_ms >= c->linger->until_ms)
            http_conn_close(c);
        return;
    case CONN_TUNNEL:
    case CONN_CLOSED:
        return;
    }
    UNREACHABLE();
}

void http_conn_drain(struct http_conn *c)
{
    bool waits = c->phase == PHASE_IDLE || c->phase == PHASE_NEW;

    if (c->state == CONN_HTTP2) {
        http2_drain(c, false);
        return;
    }
    /* A request that is there already is served; the response is the last one. */
    if (waits && c->state != CONN_LINGER && c->state != CONN_TUNNEL &&
        (c->state != CONN_HTTP1 || !transport_has_input(&c->transport)))
        http_conn_close(c);
}
