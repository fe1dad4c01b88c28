/* SPDX-License-Identifier: Apache-2.0
 *
 * Thin on purpose: connections are common/http/http_server's, and what becomes of a request is
 * the exchange's.
 */
#include "lb/request/front.h"

#include "lb/request/exchange.h"

#include <stdlib.h>

struct front {
    struct exchange_loop exchanges;
    struct http_server *server;
    struct http_listener **listeners;
    size_t nlisteners;
    /*
     * While draining: the connections of the server are closed. DONE is called when the exchanges
     * have ended as well.
     */
    bool server_done;
    void (*done)(void *context);
    void *done_context;
};

static void on_request(void *context, struct http_request *req, struct http_conn *conn)
{
    struct front *f = context;

    exchange_create(&f->exchanges, req, conn);
}

static void on_refused(void *context, const struct http_refusal *r)
{
    const struct front *f = context;

    account_refused(f->exchanges.home, r);
}

/* Limits per address do not apply to trusted proxies, which many clients share. */
static bool is_trusted_proxy(void *context, const struct addr *peer)
{
    const struct front *f = context;
    const struct lb_loop *home = f->exchanges.home;
    const struct lb *lb = home->lb;

    for (size_t i = 0; i < lb->napplications; ++i) {
        const struct application_loop *al = application_on(lb->applications[i], home->index);

        if (networks_have(&al->settings->trusted, peer))
            return true;
    }
    return false;
}

static struct http_server_options options_of(struct front *f,
                                             const struct http_server_options *limits)
{
    struct http_server_options o = *limits;
    struct lb *lb = f->exchanges.home->lb;

    o.on_request = on_request;
    o.on_refused = on_refused;
    o.addresses = lb->addresses;
    o.balance = lb->balance;
    o.connections = &lb->client_connections;
    o.sinks.totals = &lb->body_totals;
    o.exempt = is_trusted_proxy;
    o.context = f;
    return o;
}

struct front *front_create(struct lb *lb, struct loop *l, const struct http_server_options *limits)
{
    struct front *f = xcalloc(1, sizeof(*f));

    exchange_loop_init(&f->exchanges, &lb->loops[loop_index(l)]);
    f->exchanges.own_server = limits->server_name.len != 0;
    struct http_server_options o = options_of(f, limits);

    f->server = http_server_create(l, &o);
    return f;
}

void front_listen(struct front *f, int fd, const struct http_listen_options *o)
{
    f->listeners = xrealloc(f->listeners, (f->nlisteners + 1) * sizeof(*f->listeners));
    f->listeners[f->nlisteners++] = http_server_listen(f->server, fd, o);
}

void front_set(struct front *f, const struct http_server_options *limits)
{
    struct http_server_options o = options_of(f, limits);

    http_server_set(f->server, &o);
}

static void close_listeners(struct front *f)
{
    while (f->nlisteners != 0)
        http_listener_close(f->listeners[--f->nlisteners]);
    free(f->listeners);
    f->listeners = NULL;
}

/* An exchange may outlive its connection: it is freed between turns, or after a wake-up. */
static void notify_when_done(struct exchange_loop *exchanges)
{
    struct front *f = container_of(exchanges, struct front, exchanges);
    void (*done)(void *) = f->done;

    if (!f->server_done || exchanges->live != 0 || done == NULL)
        return;
    f->done = NULL;
    done(f->done_context);
}

static void on_server_done(void *context)
{
    struct front *f = context;

    f->server_done = true;
    notify_when_done(&f->exchanges);
}

void front_drain(struct front *f, bool patient, void (*done)(void *context), void *context)
{
    close_listeners(f);
    f->done = done;
    f->done_context = context;
    f->exchanges.idle = notify_when_done;
    if (patient)
        http_server_retire(f->server, on_server_done, f);
    else
        http_server_drain(f->server, on_server_done, f);
}

void front_shut_idle(struct front *f)
{
    http_server_shut_idle(f->server);
}

void front_cut(struct front *f)
{
    const struct lb_loop *home = f->exchanges.home;

    for (size_t i = 0; i < home->lb->napplications; ++i) {
        struct application_loop *al = application_on(home->lb->applications[i], home->index);
        struct exchange *x;

        list_for_each_entry_safe (x, &al->exchanges, node)
            exchange_cut(x);
    }
    http_server_cut(f->server);
}

void front_destroy(struct front *f)
{
    if (f == NULL)
        return;
    close_listeners(f);
    http_server_destroy(f->server);
    exchange_loop_fini(&f->exchanges);
    free(f);
}

void front_read_counts(const struct front *f, struct http_server_counts *out)
{
    http_server_read_counts(f->server, out);
}

/* ---- from http to https ---- */

enum { HTTPS_PORT = 443 };

bool redirect_location(unsigned port, struct slice authority, struct slice target, struct text *out)
{
    struct slice host = host_without_port(authority);

    if (host.len == 0)
        return false;
    text_addf(out, "https://%.*s", SLICE_FMT(host));
    if (port != HTTPS_PORT)
        text_addf(out, ":%u", port);
    if (target.p[0] == '*')
        target = SLICE_LIT("/");
    for (size_t i = 0; i < target.len; ++i) {
        unsigned char c = (unsigned char)target.p[i];

        /* Bytes beyond ASCII are invalid in a URI. */
        if (c < 0x80)
            text_add_char(out, (char)c);
        else
            text_addf(out, "%%%02X", c);
    }
    return true;
}
