/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections that a proxy in front passes on: it says first, before TLS and HTTP, whose they are.
 * Until it has said so the socket is ours, and not libh2o's; what comes behind the header stays in
 * the socket's input, where TLS and HTTP begin to read.
 *
 * Nobody but the proxies listed is heard at all: whoever may send this header can claim any
 * address. And nothing is answered, as it is not known yet in which protocol.
 *
 * Once it is known whose a connection is, it is counted (address_counts.h), before TLS costs us
 * anything.
 */
#include "common/base/log.h"
#include "common/net/http_conn.h"
#include "common/wire/proxy_line.h"

/* The connection goes. */
static rare void refuse(struct http_conn *c, enum request_fault f)
{
    const struct http_refusal r = {.conn = c, .fault = f};

    http_server_refused(c->server, &r);
    h2o_socket_close(c->sock);
}

/* ---- how many of one address ---- */

static rare void tell_over_limit(struct http_conn *c)
{
    const struct http_server_options *o = &c->server->options;
    char client[ADDR_TEXT_MAX];
    uint64_t untold;

    if (address_counts_tell(o->addresses, loop_now_ms(c->server->loop), &untold)) {
        log_warn(NULL, "address-over-limit",
                 "client=%s max_connections_per_address=%zu not_logged_before=%llu",
                 addr_host(http_conn_peer(c), client), o->max_connections_per_address,
                 (unsigned long long)untold);
    }
}

/* Whether its peer may have one more; counts it, or counts that it may not. */
static bool admit(struct http_conn *c)
{
    const struct http_server_options *o = &c->server->options;

    if (o->addresses == NULL || o->max_connections_per_address == 0 ||
        address_counts_join(o->addresses, http_conn_peer(c), o->max_connections_per_address,
                            &c->address))
        return true;
    if (o->exempt != NULL && o->exempt(o->context, http_conn_peer(c)))
        return true;
    http_server_count(c->server, COUNT_REFUSED + FAULT_ADDRESS_CONNECTIONS);
    tell_over_limit(c);
    return false;
}

/* C may be gone then. */
static void serve(struct http_conn *c)
{
    if (admit(c))
        http_tap_accept(c);
    else
        h2o_socket_close(c->sock);
}

/* ---- the header ---- */

static struct addr addr_of(enum proxy_family family, const unsigned char bytes[16], uint16_t port)
{
    struct addr a = {0};

    switch (family) {
    case PROXY_INET:
        a.in.sin_family = AF_INET;
        a.in.sin_port = htons(port);
        memcpy(&a.in.sin_addr, bytes, sizeof(a.in.sin_addr));
        a.len = sizeof(a.in);
        break;
    case PROXY_INET6:
        a.in6.sin6_family = AF_INET6;
        a.in6.sin6_port = htons(port);
        memcpy(&a.in6.sin6_addr, bytes, sizeof(a.in6.sin6_addr));
        a.len = sizeof(a.in6);
        break;
    case PROXY_UNIX:
        a.sa.sa_family = AF_UNIX;
        a.len = sizeof(a.sa.sa_family);
        break;
    case PROXY_NOBODY:
        break;
    }
    return a;
}

static void take(struct http_conn *c, const struct proxy_line *line)
{
    c->tls_before_us = line->tls;
    if (line->family != PROXY_NOBODY) {
        struct addr peer = addr_of(line->family, line->source, line->source_port);
        struct addr local = addr_of(line->family, line->destination, line->destination_port);

        small_addr_set(&c->peer, &peer);
        small_addr_set(&c->local, &local);
    }
    h2o_socket_read_stop(c->sock);
    h2o_buffer_consume(&c->sock->input, line->bytes);
    serve(c);
}

static void on_read(h2o_socket_t *sock, const char *err)
{
    struct http_conn *c = sock->on_close.data;
    struct proxy_line line;

    if (err != NULL) {
        /* Who only looks whether somebody listens says nothing. */
        if (sock->input->size != 0 && !c->read_shut)
            refuse(c, FAULT_PROXY_LINE);
        else
            h2o_socket_close(sock);
        return;
    }
    enum request_fault f =
        proxy_line_check((struct slice){sock->input->bytes, sock->input->size}, &line);

    if (f != FAULT_NONE)
        refuse(c, f);
    else if (line.bytes != 0)
        take(c, &line);
}

void http_proxied_accept(struct http_conn *c)
{
    const struct networks *from = c->listener->proxy_from;

    if (from == NULL)
        serve(c);
    else if (networks_have(from, http_conn_peer(c)))
        h2o_socket_read_start(c->sock, on_read);
    else
        refuse(c, FAULT_PROXY_SENDER);
}

bool http_proxied_sweep(struct http_conn *c, uint64_t now_ms)
{
    uint64_t limit_ms = c->server->options.header_timeout_ms;

    if (c->tap.state != TAP_UNSERVED)
        return false;
    if (limit_ms != 0 && now_ms >= c->phase_since_ms + limit_ms)
        refuse(c, FAULT_PROXY_LATE);
    return true;
}
