/* SPDX-License-Identifier: Apache-2.0
 *
 * A client's connection: accepted, then served by what its bytes are:
 *
 *     PROXIED -> HANDSHAKE -> HTTP1 or HTTP2 -> LINGER -> CLOSED
 *                             HTTP1 -> TUNNEL ----------> CLOSED
 *
 * The descriptor is only closed by http_conn_close(). Memory is freed at the end of the turn.
 */
#include "common/base/log.h"
#include "common/http/http_server_internal.h"
#include "common/wire/proxy_line.h"

#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { PEEK_MAX = 4096 };

static void on_conn_readable(void *context);

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
        c->phase_since_ms = loop_active_ms(s->loop);
    pace_reset(&c->body_pace);
    if (phase == PHASE_IDLE)
        http_accept_resume(s);
}

bool http_conn_phase_over(const struct http_conn *c, uint64_t limit_ms, uint64_t now_ms)
{
    return limit_ms != 0 && now_ms > c->phase_since_ms && now_ms - c->phase_since_ms >= limit_ms;
}

/* ---- addresses ---- */

static void small_addr_fini(struct small_addr *a)
{
    if (a->len > sizeof(a->in6))
        free(a->large);
    a->len = 0;
}

/* IPv4-mapped addresses, as a proxy or a socket of both families reports them, are stored as IPv4:
 * each client has one address. */
static void small_addr_set(struct small_addr *a, const struct addr *from)
{
    struct addr plain = addr_plain(from);

    small_addr_fini(a);
    a->len = plain.len;
    if (plain.len <= sizeof(a->in6)) {
        memcpy(&a->in6, &plain.sa, plain.len);
        return;
    }
    a->large = xmalloc(sizeof(plain));
    *a->large = plain;
}

static void small_addr_get(const struct small_addr *a, struct addr *out)
{
    if (a->len > sizeof(a->in6)) {
        *out = *a->large;
        return;
    }
    /* As a whole: bytes after LEN are not used. */
    memcpy(&out->in6, &a->in6, sizeof(out->in6));
    out->len = a->len;
}

/* ---- life ---- */

void http_conn_destroy(struct http_conn *c)
{
    struct http_server *s = c->server;

    ASSERT(c->state == CONN_CLOSED);
    ASSERT(list_empty(&c->responses));
    list_remove(&c->later.node);
    list_remove(&c->node);
    address_counts_remove(s->options.addresses, &c->address);
    small_addr_fini(&c->peer);
    small_addr_fini(&c->local);
    if (c->linger != NULL)
        text_fini(&c->linger->out);
    free(c->linger);
    if (c->proxied != NULL)
        text_fini(c->proxied);
    free(c->proxied);
    http_listener_release(c->listener);
    slab_free(&s->conn_slab, c);
}

static void conn_run_later(struct loop_deferred *d)
{
    struct http_conn *c = container_of(d, struct http_conn, later);

    if (c->state == CONN_CLOSED)
        http_conn_destroy(c);
    else if (c->state != CONN_TUNNEL && transport_read_ahead(&c->transport))
        on_conn_readable(c);
}

void http_conn_read_ahead_later(struct http_conn *c)
{
    if (transport_read_ahead(&c->transport))
        loop_defer_once(c->server->loop, &c->later);
}

void http_conn_close(struct http_conn *c)
{
    enum conn_state state = c->state;

    if (state == CONN_CLOSED)
        return;
    if (state != CONN_HANDSHAKE && c->transport.tls != NULL && c->transport.tls->flooded)
        http_server_rejected(c, FAULT_TLS_MESSAGES, 0, NULL);
    c->state = CONN_CLOSED;
    if (state == CONN_HANDSHAKE)
        http_server_count(&c->server->counts.tls_failed[c->tls_failure]);
    if (c->http2 != NULL)
        http2_fini(c);
    http1_server_fini(c);
    transport_close(&c->transport);
    list_remove(&c->node);
    list_push_back(&c->server->closed, &c->node);
    loop_defer_once(c->server->loop, &c->later);
    --c->server->nconns;
    http_accept_release(c->server);
    http_server_conn_closed(c->server);
}

void http_conn_reset(struct http_conn *c)
{
    if (c->state == CONN_CLOSED)
        return;
    transport_abort_at_close(&c->transport);
    http_conn_close(c);
}

/* ---- what is known of it ---- */

void *http_conn_tag(const struct http_conn *c)
{
    return c->listener->options.tag;
}

void http_conn_copy_peer(const struct http_conn *c, struct addr *out)
{
    small_addr_get(&c->peer, out);
}

struct fair_owner http_conn_owner(const struct http_conn *c, const struct http_request *req)
{
    const struct http_server_options *o = &c->server->options;
    struct addr client;

    http_conn_copy_peer(c, &client);
    if (o->client_of != NULL)
        o->client_of(o->context, req, &client);
    return fair_owner_of(&client, c);
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

    if (local->sa.sa_family == AF_UNIX)
        return SLICE_LIT("localhost");
    return http_request_retain(req, slice_of(addr_text(local)));
}

bool http_conn_client_has_tls(const struct http_conn *c)
{
    return c->listener->options.ssl != NULL || c->tls_before_us;
}

const SSL *http_conn_ssl(const struct http_conn *c)
{
    return c->state != CONN_HANDSHAKE ? transport_ssl(&c->transport) : NULL;
}

/* ---- the header of a proxy in front ---- */

/*
 * It precedes TLS and HTTP. What follows it stays in the kernel, where these begin to read: bytes
 * are peeked, and only those of the header are taken. Connections of peers other than the proxies
 * listed are closed, because the header can claim any address; no response is sent, as the protocol
 * is not known yet.
 */

/* Reports F, and closes C without a response. */
static cold_ void conn_reject(struct http_conn *c, enum request_fault f)
{
    http_server_rejected(c, f, 0, NULL);
    http_conn_close(c);
}

/* Whether C's peer may have one more connection. Counts the connection, or its rejection. */
static bool conn_admit(struct http_conn *c)
{
    const struct http_server_options *o = &c->server->options;
    char client[ADDR_TEXT_MAX];
    uint64_t unreported;

    if (o->addresses == NULL || o->max_connections_per_address == 0 ||
        address_counts_add(o->addresses, http_conn_peer(c), o->max_connections_per_address,
                           &c->address))
        return true;
    if (o->exempt != NULL && o->exempt(o->context, http_conn_peer(c)))
        return true;
    http_server_count(&c->server->counts.rejected[FAULT_ADDRESS_CONNECTIONS]);
    if (address_counts_should_log(o->addresses, loop_now_ms(c->server->loop), &unreported)) {
        log_warn(NULL, "address-over-limit",
                 "client=%s max_connections_per_address=%zu not_logged_before=%llu",
                 addr_host(http_conn_peer(c), client), o->max_connections_per_address,
                 (unsigned long long)unreported);
    }
    return false;
}

static void conn_serve(struct http_conn *c);

static struct addr addr_of(enum proxy_family family, const unsigned char bytes[16], uint16_t port)
{
    struct addr a = {0};

    if (family == PROXY_INET) {
        a.in.sin_family = AF_INET;
        a.in.sin_port = htons(port);
        memcpy(&a.in.sin_addr, bytes, sizeof(a.in.sin_addr));
        a.len = sizeof(a.in);
    } else if (family == PROXY_INET6) {
        a.in6.sin6_family = AF_INET6;
        a.in6.sin6_port = htons(port);
        memcpy(&a.in6.sin6_addr, bytes, sizeof(a.in6.sin6_addr));
        a.len = sizeof(a.in6);
    } else {
        ASSERT(family == PROXY_UNIX);
        a.sa.sa_family = AF_UNIX;
        a.len = sizeof(a.sa.sa_family);
    }
    return a;
}

static void read_header(struct http_conn *c)
{
    char *room = http_server_read_room(c->server);
    size_t before = c->proxied->len;
    ssize_t n = transport_peek(&c->transport, room, PEEK_MAX);
    struct proxy_line line;

    if (n == -1 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        /* A peer that only probes the port sends nothing. */
        if (before != 0)
            conn_reject(c, FAULT_PROXY_LINE);
        else
            http_conn_close(c);
        return;
    }
    text_add(c->proxied, (struct slice){room, (size_t)n});
    enum request_fault f = proxy_line_check(text_slice(c->proxied), &line);
    if (f != FAULT_NONE) {
        conn_reject(c, f);
        return;
    }
    /* The header may end among the bytes that were peeked. */
    size_t used = line.bytes != 0 ? line.bytes - before : (size_t)n;
    if (transport_recv(&c->transport, room, used) != (ssize_t)used) {
        http_conn_close(c);
        return;
    }
    if (line.bytes == 0)
        return;
    c->tls_before_us = line.tls;
    if (line.family != PROXY_UNKNOWN) {
        struct addr peer = addr_of(line.family, line.source, line.source_port);
        struct addr local = addr_of(line.family, line.destination, line.destination_port);

        small_addr_set(&c->peer, &peer);
        small_addr_set(&c->local, &local);
    }
    text_fini(c->proxied);
    free(c->proxied);
    c->proxied = NULL;
    conn_serve(c);
}

/* ---- the handshake ---- */

static void start_http(struct http_conn *c, bool http2)
{
    c->state = http2 ? CONN_HTTP2 : CONN_HTTP1;
    if (http2)
        http2_start(c);
}

static void continue_handshake(void *conn)
{
    struct http_conn *c = conn;
    struct http_server_counts *counts = &c->server->counts;
    const SSL *ssl = transport_ssl(&c->transport);
    struct text response = {0};
    const unsigned char *name;
    unsigned len;

    switch (tls_link_handshake(c->transport.tls)) {
    case TLS_DONE:
        break;
    case TLS_READS:
        return;
    case TLS_WRITES:
        transport_await_writable(&c->transport, continue_handshake);
        return;
    case TLS_FAILED:
        /*
         * OpenSSL has sent its alert, if it has one. The client must be able to read that, or the
         * response to one that speaks plain HTTP: both are lost if unread bytes reset the
         * connection.
         */
        http_server_count(&counts->tls_failed[c->tls_failure]);
        tls_link_destroy(c->transport.tls);
        c->transport.tls = NULL;
        if (c->tls_failure == TLS_FAILURE_PLAIN_HTTP && c->listener->options.responds_plain)
            http1_server_put_response(c, 400, "this address speaks TLS: use https\n", false,
                                      &response);
        http_conn_linger(c, &response);
        return;
    }
    http_server_count(SSL_version(ssl) >= TLS1_3_VERSION ? &counts->tls13 : &counts->tls12);
    if (SSL_session_reused(ssl))
        http_server_count(&counts->tls_resumed);
    SSL_get0_alpn_selected(ssl, &name, &len);
    start_http(c, slice_eq((struct slice){(const char *)name, len}, SLICE_LIT("h2")));
    /* Data received with the end of the handshake is not reported by a poll. */
    if (!http_conn_is_closed(c) && transport_read_ahead(&c->transport))
        on_conn_readable(c);
}

/* The PROXY header, if there is one, has been read: continue with TLS or HTTP. C may be closed. */
static void conn_serve(struct http_conn *c)
{
    const struct http_listen_options *l = &c->listener->options;

    if (!conn_admit(c)) {
        http_conn_close(c);
        return;
    }
    if (l->ssl == NULL) {
        start_http(c, l->http2);
        return;
    }
    c->state = CONN_HANDSHAKE;
    c->transport.tls = tls_link_accept(l->ssl, c->transport.fd, &c->tls_failure);
    if (c->transport.tls == NULL)
        http_conn_close(c);
}

void http_conn_accept(struct http_listener *l, int fd, const struct addr *peer)
{
    struct http_conn *c = slab_alloc(&l->server->conn_slab);

    small_addr_set(&c->peer, peer);
    c->server = l->server;
    c->listener = l;
    ++l->refs;
    c->later.run = conn_run_later;
    list_init(&c->responses);
    list_push_back(&c->server->conns, &c->node);
    ++c->server->nconns;
    http_server_load_changed(c->server);
    http_conn_enter(c, PHASE_NEW);
    transport_open(&c->transport, fd);
    transport_attach(&c->transport, c->server->loop, on_conn_readable, c);
    watch_set_client(c->transport.watch);
    if (l->options.proxy_from == NULL) {
        conn_serve(c);
    } else if (!networks_have(l->options.proxy_from, http_conn_peer(c))) {
        conn_reject(c, FAULT_PROXY_SENDER);
    } else {
        c->state = CONN_PROXIED;
        c->proxied = xcalloc(1, sizeof(*c->proxied));
    }
}

/* ---- lingering ---- */

static void flush_linger(void *conn)
{
    struct http_conn *c = conn;
    struct iovec *iov = &c->linger->left;
    size_t n = iov->iov_len != 0 ? 1 : 0;

    if (http_write(&c->transport, &iov, &n, 0)) {
        c->linger->left.iov_len = 0;
        transport_end(&c->transport);
    } else if (errno == EAGAIN) {
        transport_await_writable(&c->transport, flush_linger);
    } else {
        http_conn_close(c);
    }
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
    c->linger->left = (struct iovec){out->p, out->len};
    *out = (struct text){0};
    c->linger->until_ms = loop_active_ms(c->server->loop) + LINGER_MS;
    http_conn_enter(c, PHASE_BUSY);
    transport_read_level(&c->transport, WATCH_BYTES);
    flush_linger(c);
}

static void discard_input(struct http_conn *c)
{
    char *room = http_server_read_room(c->server);
    ssize_t n = transport_recv(&c->transport, room, READ_ROOM_BYTES);

    c->linger->dropped += n > 0 ? (size_t)n : 0;
    if (n > 0 ? c->linger->dropped <= LINGER_BYTES : n == -1 && errno == EAGAIN) {
        http_conn_read_ahead_later(c);
        return;
    }
    if (n == 0 && c->linger->left.iov_len != 0)
        transport_read_level(&c->transport, WATCH_FAILURE); /* it may still read */
    else
        http_conn_close(c);
}

/* ---- events ---- */

static void on_conn_readable(void *context)
{
    struct http_conn *c = context;

    switch (c->state) {
    case CONN_PROXIED:
        read_header(c);
        return;
    case CONN_HANDSHAKE:
        continue_handshake(c);
        return;
    case CONN_HTTP1:
        http1_server_readable(c);
        return;
    case CONN_HTTP2:
        http2_readable(c);
        return;
    case CONN_LINGER:
        discard_input(c);
        return;
    case CONN_TUNNEL:
    case CONN_CLOSED:
        break;
    }
    UNREACHABLE();
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

void http_conn_sweep(struct http_conn *c)
{
    uint64_t now_ms = loop_active_ms(c->server->loop);
    uint64_t limit_ms = c->server->options.header_timeout_ms;
    bool late = c->phase == PHASE_NEW && http_conn_phase_over(c, limit_ms, now_ms);

    if (late && c->state == CONN_PROXIED) {
        conn_reject(c, FAULT_PROXY_LATE);
    } else if (late) {
        http_server_count(&c->server->counts.header_timeouts);
        http_conn_close(c);
    } else if (c->state == CONN_HTTP1) {
        http1_server_sweep(c, now_ms);
    } else if (c->state == CONN_HTTP2) {
        http2_sweep(c, now_ms);
    } else if (c->state == CONN_LINGER && now_ms >= c->linger->until_ms) {
        http_conn_close(c);
    }
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
