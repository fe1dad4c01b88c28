/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP: one socket per loop with SO_REUSEPORT, so that the kernel spreads connections (the loops
 * even out the rest, common/http/http_balance.h). That option would also let a second process of
 * the same user share the address unnoticed; so the address is first bound once without it, which
 * fails if any process listens there. unix: one socket, with a duplicate of its descriptor per
 * loop.
 *
 * Closing one of several SO_REUSEPORT sockets resets the connections in its queue. So a process
 * that follows another one takes over all of its sockets: if it has fewer loops, some accept from
 * several; if it has more, some share one. An additional socket would receive a part of the new
 * connections, which would be lost if the new process ended before it serves.
 */
#include "lb/program/lb_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/program/inherited.h"
#include "lb/request/front.h"

struct listener {
    struct listen_config *config; /* borrowed */
    struct addr bound;
    int *fds;    /* NFDS; number k belongs to loop k % nloops; -1: not bound */
    size_t nfds; /* at least nloops */
    bool others; /* its socket is also of another process, which may need its name */
};

struct listeners {
    struct listener *items;
    size_t n;
    unsigned nloops;
    /* NULL: not open yet. Afterwards the descriptors belong to the loops. */
    struct loop *control;
    struct timer certificates; /* interval of the check of their files */
};

enum { CERTIFICATES_MS = 1000 };

static void on_certificates_timer(struct timer *timer)
{
    struct listeners *ls = container_of(timer, struct listeners, certificates);

    for (size_t i = 0; i < ls->n; ++i) {
        if (ls->items[i].config->tls != NULL)
            tls_listener_poll(ls->items[i].config->tls, addr_text(&ls->items[i].bound),
                              loop_now_ms(ls->control));
    }
    timer_start(ls->control, &ls->certificates, CERTIFICATES_MS);
}

static bool is_unix(const struct addr *a)
{
    return a->sa.sa_family == AF_UNIX;
}

static void listeners_complain(const char *address, enum err e)
{
    log_error(NULL, "listen-failed", "address=%s reason=\"%s\"", address,
              e == ERR_SYSTEM ? strerror(errno) : err_text(e));
}

/* Opens L's sockets: the N inherited ones, LEFT, or new ones. Loops without one of their own share
 * one if it was inherited or is a unix socket. */
static enum err open_sockets(struct listener *l, const int *left, size_t n, unsigned nloops)
{
    const struct addr *a = &l->config->addr;
    const struct addr_listen_options o = {
        .reuse_port = !is_unix(a), .mode = l->config->mode, .bound_only = true};
    enum err e = ERR_OK;

    l->others = n != 0;
    l->nfds = n > nloops ? n : nloops;
    l->fds = xcalloc(l->nfds, sizeof(int));
    for (size_t i = 0; i < l->nfds; ++i)
        l->fds[i] = i < n ? left[i] : -1;
    if (n == 0 && !is_unix(a) && addr_port(a) != 0) {
        /* Fails if a process listens there; listening would accept connections and reset them. */
        struct addr_listen_options probe = {.reuse_port = false, .bound_only = true};
        int fd = -1;

        e = addr_listen(a, &probe, &fd);
        if (e == ERR_OK)
            close(fd);
    }
    if (n == 0) {
        n = 1;
        if (e == ERR_OK)
            e = addr_listen(a, &o, &l->fds[0]);
    }
    if (e == ERR_OK)
        e = addr_of_socket(l->fds[0], &l->bound);
    for (size_t i = n; i < l->nfds && e == ERR_OK; ++i) {
        if (l->others || is_unix(a)) {
            l->fds[i] = fcntl(l->fds[i % n], F_DUPFD_CLOEXEC, 0);
            e = l->fds[i] >= 0 ? ERR_OK : ERR_SYSTEM;
        } else {
            e = addr_listen(&l->bound, &o, &l->fds[i]);
        }
    }
    return e;
}

struct listeners *listeners_create(struct configuration *config, unsigned nloops,
                                   struct inherited *inherited)
{
    struct listeners *ls = xcalloc(1, sizeof(*ls));
    bool good = true;

    ls->nloops = nloops;
    timer_init(&ls->certificates, on_certificates_timer);
    ls->items = xcalloc(config->nlistens, sizeof(*ls->items));
    ls->n = config->nlistens;
    for (size_t i = 0; i < ls->n && good; ++i) {
        struct listen_config *c = &config->listens[i];
        int *left;
        size_t n = inherited_take_listener(inherited, &c->addr, addr_text(&c->addr), &left);

        ls->items[i].config = c;
        enum err e = open_sockets(&ls->items[i], left, n, nloops);
        good = e == ERR_OK;
        if (!good)
            listeners_complain(c->text, e);
        free(left);
    }
    if (good)
        return ls;
    listeners_withdraw(ls);
    listeners_destroy(ls);
    return NULL;
}

static void log_notes(const struct listener *l)
{
    if (l->config->tls != NULL)
        tls_listener_log_notes(l->config->tls, addr_text(&l->bound));
}

/* On the loop. */
static void open_on(struct lb_loop *ll, void *context)
{
    struct listeners *ls = context;

    for (size_t i = 0; i < ls->n; ++i) {
        const struct listener *l = &ls->items[i];
        struct listen_config *c = l->config;
        struct http_listen_options o = {.ssl = c->tls != NULL ? tls_listener_context(c->tls) : NULL,
                                        .http2 = c->http2,
                                        .responds_plain = true,
                                        .defer_accept = c->defer_accept,
                                        .number = (unsigned)i,
                                        .tag = c->redirect_https != 0 ? &c->redirect_https : NULL,
                                        .proxy_from = c->proxied ? &c->proxy_from : NULL};

        for (size_t k = ll->index; k < l->nfds; k += ls->nloops)
            front_listen(ll->front, l->fds[k], &o);
    }
}

bool listeners_open(struct listeners *ls, struct lb *lb)
{
    for (size_t i = 0; i < ls->n; ++i) {
        const struct listener *l = &ls->items[i];
        enum err e = ERR_OK;

        for (size_t k = 0; k < l->nfds && e == ERR_OK; ++k)
            e = addr_start_listening(l->fds[k], 0); /* no effect on an inherited socket */
        if (e != ERR_OK) {
            listeners_complain(addr_text(&l->bound), e);
            return false;
        }
    }
    data_loops_call(lb, open_on, NULL, ls);
    for (size_t i = 0; i < ls->n; ++i) {
        ls->items[i].others = false;
        log_notes(&ls->items[i]);
    }
    ls->control = lb->control;
    timer_start(ls->control, &ls->certificates, CERTIFICATES_MS);
    return true;
}

const struct addr *listeners_address(const struct listeners *ls, size_t i)
{
    return &ls->items[i].bound;
}

void listeners_withdraw(struct listeners *ls)
{
    timer_stop(&ls->certificates);
    for (size_t i = 0; i < ls->n; ++i) {
        const struct addr *a = &ls->items[i].bound;

        if (!ls->items[i].others && a->len > 0 && is_unix(a) && a->un.sun_path[0] == '/')
            unlink(a->un.sun_path);
    }
}

void listeners_pass(const struct listeners *ls, struct upgrade *u)
{
    ASSERT(ls->control != NULL);
    for (size_t i = 0; i < ls->n; ++i) {
        const char *name = addr_text(&ls->items[i].config->addr);

        for (size_t k = 0; k < ls->items[i].nfds; ++k)
            upgrade_pass(u, "socket", name, (int)i, ls->items[i].fds[k]);
    }
}

void listeners_leave(struct listeners *ls)
{
    for (size_t i = 0; i < ls->n; ++i)
        ls->items[i].others = true;
    listeners_withdraw(ls);
}

bool listeners_match(const struct listeners *ls, const struct configuration *config)
{
    if (ls->n != config->nlistens)
        return false;
    for (size_t i = 0; i < ls->n; ++i) {
        const struct listen_config *is = ls->items[i].config;
        const struct listen_config *c = &config->listens[i];

        if (!addr_equal(&is->addr, &c->addr) || is->http2 != c->http2 || is->mode != c->mode ||
            (is->tls != NULL) != (c->tls != NULL) || is->proxied != c->proxied ||
            is->defer_accept != c->defer_accept || is->redirect_https != c->redirect_https ||
            !networks_equal(&is->proxy_from, &c->proxy_from))
            return false;
    }
    return true;
}

void listeners_take_certificates(struct listeners *ls, const struct configuration *config)
{
    if (!listeners_match(ls, config))
        return;
    for (size_t i = 0; i < ls->n; ++i) {
        if (ls->items[i].config->tls != NULL)
            tls_listener_take(ls->items[i].config->tls, config->listens[i].tls);
        log_notes(&ls->items[i]);
    }
}

void listeners_destroy(struct listeners *ls)
{
    if (ls == NULL)
        return;
    timer_stop(&ls->certificates);
    for (size_t i = 0; i < ls->n; ++i) {
        struct listener *l = &ls->items[i];

        for (size_t k = 0; k < l->nfds && ls->control == NULL; ++k) {
            if (l->fds[k] >= 0)
                close(l->fds[k]);
        }
        free(l->fds);
    }
    free(ls->items);
    free(ls);
}
