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
    int *fds;    /* NFDS, of which each nloops-th is of one loop; -1: not bound */
    size_t nfds; /* at least nloops */
    bool others; /* its socket is also of another process, which may need its name */
};

struct listeners {
    struct listener *items;
    size_t n;
    unsigned nloops;
    bool given; /* the descriptors, to the loops: they stay numbered here, and open till a drain */
    struct loop *control; /* NULL: not open yet */
    struct timer look;    /* at the files of certificates */
};

enum { LOOK_MS = 1000 };

static void on_look(struct timer *timer)
{
    struct listeners *ls = container_of(timer, struct listeners, look);
    char address[ADDR_TEXT_MAX];

    for (size_t i = 0; i < ls->n; ++i) {
        if (ls->items[i].config->tls != NULL)
            tls_listener_look(ls->items[i].config->tls, addr_format(&ls->items[i].bound, address),
                              loop_now_ms(ls->control));
    }
    timer_start(ls->control, &ls->look, LOOK_MS);
}

static bool is_unix(const struct addr *a)
{
    return a->sa.sa_family == AF_UNIX;
}

static void complain(const char *address, enum err e)
{
    log_error(NULL, "listen-failed", "address=%s reason=\"%s\"", address,
              e == ERR_SYSTEM ? strerror(errno) : err_text(e));
}

/*
 * Checks that no process listens on A yet. Binding is sufficient, as it fails if any process
 * listens there. Listening would accept connections meanwhile, and reset them when the socket is
 * closed.
 */
static enum err probe(const struct addr *a)
{
    struct addr_listen_options o = {.reuse_port = false, .bound_only = true};
    int fd = -1;

    if (is_unix(a) || addr_port(a) == 0)
        return ERR_OK;
    enum err e = addr_listen(a, &o, &fd);
    if (e == ERR_OK)
        close(fd);
    return e;
}

static enum err bind_one(struct listener *l, unsigned i)
{
    const struct addr *a = &l->config->addr;
    struct addr_listen_options o = {
        .reuse_port = !is_unix(a), .mode = l->config->mode, .bound_only = true};

    if (i > 0 && is_unix(a)) {
        l->fds[i] = fcntl(l->fds[0], F_DUPFD_CLOEXEC, 0);
        return l->fds[i] >= 0 ? ERR_OK : ERR_SYSTEM;
    }
    enum err e = addr_listen(i == 0 ? a : &l->bound, &o, &l->fds[i]);
    if (e == ERR_OK && i == 0)
        e = addr_of_socket(l->fds[0], &l->bound);
    return e;
}

static void alloc_fds(struct listener *l, size_t n)
{
    l->nfds = n;
    l->fds = xcalloc(n, sizeof(int));
    for (size_t i = 0; i < n; ++i)
        l->fds[i] = -1;
}

static bool bind_all(struct listener *l, unsigned nloops)
{
    enum err e = probe(&l->config->addr);

    alloc_fds(l, nloops);
    for (unsigned i = 0; i < nloops && e == ERR_OK; ++i)
        e = bind_one(l, i);
    if (e != ERR_OK)
        complain(l->config->text, e);
    return e == ERR_OK;
}

/* Take the N sockets LEFT. False: out of descriptors. */
static bool follow(struct listener *l, const int *left, size_t n, unsigned nloops)
{
    bool good = addr_of_socket(left[0], &l->bound) == ERR_OK;

    alloc_fds(l, n > nloops ? n : nloops);
    for (size_t i = 0; i < n; ++i)
        l->fds[i] = left[i];
    for (size_t i = n; i < l->nfds && good; ++i) {
        l->fds[i] = fcntl(l->fds[i % n], F_DUPFD_CLOEXEC, 0);
        good = l->fds[i] >= 0;
    }
    l->others = true;
    return good;
}

static bool open_one(struct listener *l, struct inherited *inherited, unsigned nloops)
{
    const struct addr *a = &l->config->addr;
    char name[ADDR_TEXT_MAX];
    int *left;
    size_t n = inherited_take_listener(inherited, a, addr_format(a, name), &left);

    if (n == 0)
        return bind_all(l, nloops);
    bool good = follow(l, left, n, nloops);
    if (!good)
        complain(l->config->text, ERR_SYSTEM);
    free(left);
    return good;
}

struct listeners *listeners_create(struct configuration *config, unsigned nloops,
                                   struct inherited *inherited)
{
    struct listeners *ls = xcalloc(1, sizeof(*ls));
    bool good = true;

    ls->nloops = nloops;
    timer_init(&ls->look, on_look);
    ls->items = xcalloc(config->nlistens, sizeof(*ls->items));
    ls->n = config->nlistens;
    for (size_t i = 0; i < ls->n; ++i) {
        ls->items[i].config = &config->listens[i];
        good = good && open_one(&ls->items[i], inherited, nloops);
    }
    if (good)
        return ls;
    listeners_withdraw(ls);
    listeners_destroy(ls);
    return NULL;
}

static void say_notes(const struct listener *l)
{
    char address[ADDR_TEXT_MAX];

    if (l->config->tls != NULL)
        tls_listener_say_notes(l->config->tls, addr_format(&l->bound, address));
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
                                        .answers_plain = true,
                                        .defer_accept = c->defer_accept,
                                        .number = (unsigned)i,
                                        .tag = c->redirect_https != 0 ? &c->redirect_https : NULL,
                                        .proxy_from = c->proxied ? &c->proxy_from : NULL};

        for (size_t k = ll->index; k < l->nfds; k += ls->nloops)
            front_listen(ll->front, l->fds[k], &o);
    }
}

/* Inherited sockets already listen. */
static bool start_listening(const struct listener *l)
{
    enum err e = ERR_OK;
    char address[ADDR_TEXT_MAX];

    for (size_t k = 0; k < l->nfds && e == ERR_OK; ++k)
        e = addr_start_listening(l->fds[k], 0);
    if (e != ERR_OK)
        complain(addr_format(&l->bound, address), e);
    return e == ERR_OK;
}

bool listeners_open(struct listeners *ls, struct lb *lb)
{
    for (size_t i = 0; i < ls->n; ++i) {
        if (!start_listening(&ls->items[i]))
            return false;
    }
    ls->given = true;
    data_loops_call(lb, open_on, NULL, ls);
    for (size_t i = 0; i < ls->n; ++i) {
        ls->items[i].others = false;
        say_notes(&ls->items[i]);
    }
    ls->control = lb->control;
    timer_start(ls->control, &ls->look, LOOK_MS);
    return true;
}

const struct addr *listeners_address(const struct listeners *ls, size_t i)
{
    return &ls->items[i].bound;
}

void listeners_withdraw(struct listeners *ls)
{
    timer_stop(&ls->look);
    for (size_t i = 0; i < ls->n; ++i) {
        const struct addr *a = &ls->items[i].bound;

        if (!ls->items[i].others && a->len > 0 && is_unix(a) && a->un.sun_path[0] == '/')
            unlink(a->un.sun_path);
    }
}

void listeners_each_socket(const struct listeners *ls, listener_socket_fn each, void *context)
{
    ASSERT(ls->given);
    for (size_t i = 0; i < ls->n; ++i) {
        for (size_t k = 0; k < ls->items[i].nfds; ++k)
            each(context, i, &ls->items[i].config->addr, ls->items[i].fds[k]);
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
        say_notes(&ls->items[i]);
    }
}

void listeners_destroy(struct listeners *ls)
{
    if (ls == NULL)
        return;
    timer_stop(&ls->look);
    for (size_t i = 0; i < ls->n; ++i) {
        struct listener *l = &ls->items[i];

        for (size_t k = 0; k < l->nfds && !ls->given; ++k) {
            if (l->fds[k] >= 0)
                close(l->fds[k]);
        }
        free(l->fds);
    }
    free(ls->items);
    free(ls);
}
