/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections that a proxy in front passes on: a header before TLS and HTTP has the addresses of
 * the client's connection. What follows it stays in the kernel, where TLS and HTTP begin to read:
 * bytes are peeked, and only those of the header are taken.
 *
 * Peers other than the proxies listed are closed, because the header can claim any address. Nothing
 * is answered, as the protocol is not known yet.
 *
 * The connection is counted for the client's address (address_counts.h) before TLS begins.
 */
#include "common/base/log.h"
#include "common/http/http_server_internal.h"
#include "common/wire/proxy_line.h"

#include <errno.h>
#include <stdlib.h>

enum { PEEK_MAX = 4096 };

/* The connection goes. */
static cold_ void refuse(struct http_conn *c, enum request_fault f)
{
    const struct http_refusal r = {.conn = c, .fault = f};

    http_server_refused(c->server, &r);
    http_conn_close(c);
}

/* ---- how many of one address ---- */

static cold_ void tell_over_limit(struct http_conn *c)
{
    const struct http_server_options *o = &c->server->options;
    char client[ADDR_TEXT_MAX];
    uint64_t unreported;

    if (address_counts_tell(o->addresses, loop_now_ms(c->server->loop), &unreported)) {
        log_warn(NULL, "address-over-limit",
                 "client=%s max_connections_per_address=%zu not_logged_before=%llu",
                 addr_host(http_conn_peer(c), client), o->max_connections_per_address,
                 (unsigned long long)unreported);
    }
}

/* Whether its peer may have one more; counts it, or counts that it may not. */
bool http_proxied_admit(struct http_conn *c)
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
    text_fini(c->proxied);
    free(c->proxied);
    c->proxied = NULL;
    http_conn_serve(c);
}

/* The first N bytes at ROOM are what the transport has; the header may end among them. */
static void take_some(struct http_conn *c, char *room, size_t n)
{
    size_t before = c->proxied->len;
    struct proxy_line line;

    text_add(c->proxied, (struct slice){room, n});
    enum request_fault f = proxy_line_check(text_slice(c->proxied), &line);
    if (f != FAULT_NONE) {
        refuse(c, f);
        return;
    }
    size_t used = line.bytes != 0 ? line.bytes - before : n;
    if (transport_recv(&c->transport, room, used) != (ssize_t)used)
        http_conn_close(c);
    else if (line.bytes != 0)
        take(c, &line);
}

void http_proxied_readable(struct http_conn *c)
{
    char *room = http_server_read_room(c->server);
    ssize_t n = transport_peek(&c->transport, room, PEEK_MAX);

    if (n > 0) {
        take_some(c, room, (size_t)n);
        return;
    }
    if (n == -1 && (errno == EAGAIN || errno == EINTR))
        return;
    /* A peer that only probes the port sends nothing. */
    if (c->proxied->len != 0)
        refuse(c, FAULT_PROXY_LINE);
    else
        http_conn_close(c);
}

void http_proxied_start(struct http_conn *c)
{
    if (!networks_have(c->listener->proxy_from, http_conn_peer(c))) {
        refuse(c, FAULT_PROXY_SENDER);
        return;
    }
    c->state = CONN_PROXIED;
    c->proxied = xcalloc(1, sizeof(*c->proxied));
}

void http_proxied_sweep(struct http_conn *c, uint64_t now_ms)
{
    if (http_conn_phase_over(c, c->server->options.header_timeout_ms, now_ms))
        refuse(c, FAULT_PROXY_LATE);
}
