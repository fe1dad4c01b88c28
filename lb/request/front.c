/* SPDX-License-Identifier: Apache-2.0
 *
 * Thin on purpose: connections are common/http/http_server's, and what becomes of a request is
 * the exchange's.
 */
#include "lb/request/front.h"

#include "lb/request/exchange.h"

#include <stdio.h>
#include <stdlib.h>

/* The proxies that the first application trusts that trusts PEER; NULL: none does. The application
 * of a request is not known before its body is complete. */
static const struct networks *find_trusting(const struct lb_front *f, const struct addr *peer)
{
    const struct lb *lb = f->lb_loop->lb;

    for (size_t i = 0; i < lb->napplications; ++i) {
        const struct application_loop *al = application_on(lb->applications[i], f->lb_loop->index);

        if (networks_have(&al->settings->trusted, peer))
            return &al->settings->trusted;
    }
    return NULL;
}

/* Limits per address do not apply to trusted proxies, which many clients share. */
static bool is_trusted_proxy(void *context, const struct addr *peer)
{
    return find_trusting(context, peer) != NULL;
}

static void find_client(void *context, const struct http_request *req, struct addr *address)
{
    const struct networks *trusted = find_trusting(context, address);

    if (trusted != NULL)
        (void)exchange_find_client(trusted, &req->fields, address);
}

static struct http_server_options options_of(struct lb_front *f,
                                             const struct http_server_options *limits)
{
    struct http_server_options o = *limits;
    struct lb *lb = f->lb_loop->lb;

    o.on_request = exchange_create;
    o.on_rejected = account_rejected;
    o.declines = exchange_declines;
    o.addresses = lb->addresses;
    o.balance = lb->balance;
    o.connections = &lb->client_connections;
    o.sinks.totals = &lb->body_totals;
    o.exempt = is_trusted_proxy;
    o.client_of = find_client;
    o.context = f;
    return o;
}

struct lb_front *front_create(struct lb_loop *lb_loop, const struct http_server_options *limits)
{
    struct lb_front *f = xcalloc(1, sizeof(*f));
    char id[64];

    f->lb_loop = lb_loop;
    snprintf(id, sizeof(id), "%.12s%04x%016x", lb_loop->lb->instance, lb_loop->index, 0);
    memcpy(lb_loop->exchange_id, id, EXCHANGE_ID_LEN);
    list_init(&f->spare);
    spill_loop_init(&f->spills, &lb_loop->lb->spill_space, lb_loop->loop);
    f->own_server = limits->server_name.len != 0;
    struct http_server_options o = options_of(f, limits);

    f->server = http_server_create(lb_loop->loop, &o);
    return f;
}

void front_listen(struct lb_front *f, int fd, const struct http_listen_options *o)
{
    (void)http_server_listen(f->server, fd, o);
}

void front_set(struct lb_loop *ll, void *limits)
{
    struct http_server_options o = options_of(ll->front, limits);

    http_server_set(ll->front->server, &o);
}

/* An exchange may outlive its connection: it is freed between turns, or after a wake-up. */
void front_check_done(struct lb_front *f)
{
    void (*done)(void *) = f->done;

    if (f->live != 0 || done == NULL)
        return;
    f->done = NULL;
    done(f->done_context);
}

static void on_server_done(void *context)
{
    struct lb_front *f = context;

    f->server_done = true;
    front_check_done(f);
}

void front_drain(struct lb_front *f, bool patient, void (*done)(void *context), void *context)
{
    f->done = done;
    f->done_context = context;
    if (patient)
        http_server_retire(f->server, on_server_done, f);
    else
        http_server_drain(f->server, on_server_done, f);
}

void front_shut_idle(struct lb_loop *ll, unused_ void *unused)
{
    http_server_shut_idle(ll->front->server);
}

void front_cut(struct lb_loop *ll, unused_ void *unused)
{
    for (size_t i = 0; i < ll->lb->napplications; ++i) {
        struct application_loop *al = application_on(ll->lb->applications[i], ll->index);
        struct exchange *x;

        list_for_each_entry_safe (x, &al->exchanges, node)
            exchange_cut(x);
    }
    http_server_cut(ll->front->server);
}

void front_destroy(struct lb_front *f)
{
    struct exchange *x;

    http_server_destroy(f->server);
    ASSERT(f->live == 0);
    list_for_each_entry_safe (x, &f->spare, node)
        free(x);
    text_fini(&f->head);
    spill_loop_fini(&f->spills);
    free(f);
}

void front_read_counts(const struct lb_front *f, struct http_server_counts *out)
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
