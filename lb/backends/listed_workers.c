/* SPDX-License-Identifier: Apache-2.0
 *
 * The workers that the configuration lists, and what the host names among them stand for.
 */
#include <stdlib.h>

#include "common/net/addr.h"
#include "lb/backends/host_name.h"
#include "lb/backends/membership_internal.h"

struct listed_workers {
    struct membership *membership;
    struct worker_config *items; /* owned copies */
    struct host_name **names;    /* per item; NULL: it is an address */
    size_t n;
};

static void list_one(struct membership *ms, const struct worker_config *w, const struct addr *addr)
{
    struct known_worker *k = membership_at(ms, addr);

    k->listed = true;
    k->source = w->source;
    k->max_connections = w->max_connections;
    k->max_tunnels = w->max_tunnels;
    k->concurrency = w->concurrency;
    text_copy(k->listed_version, sizeof(k->listed_version), w->version != NULL ? w->version : "");
    k->listed_tls = w->tls;
    text_copy(k->listed_server_name, sizeof(k->listed_server_name),
              w->server_name != NULL ? w->server_name : "");
    k->listed_standby = w->standby;
    if (w->named)
        known_worker_set_host(k, w->text);
    membership_touch(k);
}

/* From the list and what its names stand for now. */
static void relist(void *context)
{
    const struct listed_workers *l = context;
    struct membership *ms = l->membership;

    map_for_each (struct known_worker, k, &ms->known, in_known) {
        k->listed = false;
        membership_touch(k);
    }
    for (size_t i = 0; i < l->n; ++i) {
        const struct host_name *h = l->names[i];

        if (h == NULL)
            list_one(ms, &l->items[i], &l->items[i].addr);
        for (size_t a = 0; h != NULL && a < h->naddrs; ++a)
            list_one(ms, &l->items[i], &h->addrs[a]);
    }
    membership_settle(ms);
}

static struct worker_config config_copy(const struct worker_config *w)
{
    struct worker_config copy = *w;

    copy.text = xstrdup(w->text);
    copy.version = xstrdup(w->version);
    copy.server_name = xstrdup(w->server_name);
    return copy;
}

static void items_free(struct worker_config *items, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        free(items[i].text);
        free(items[i].version);
        free(items[i].server_name);
    }
    free(items);
}

/* A name that was listed before, with what it resolved to, asked for again; or a new one. */
static struct host_name *take_name(struct listed_workers *l, struct host_name **old, size_t nold,
                                   const char *text)
{
    for (size_t i = 0; i < nold; ++i) {
        struct host_name *h = old[i];

        if (h != NULL && strcmp(h->text, text) == 0) {
            old[i] = NULL;
            host_name_ask(h);
            return h;
        }
    }
    return host_name_create(l->membership->app, text, relist, l);
}

void listed_workers_set(struct listed_workers *l, const struct worker_config *workers, size_t n)
{
    struct host_name **old = l->names;
    size_t nold = l->n;

    items_free(l->items, l->n);
    l->items = xcalloc(n + 1, sizeof(*l->items));
    l->names = xcalloc(n + 1, sizeof(struct host_name *));
    l->n = n;
    for (size_t i = 0; i < n; ++i) {
        l->items[i] = config_copy(&workers[i]);
        if (workers[i].named)
            l->names[i] = take_name(l, old, nold, workers[i].text);
    }
    for (size_t i = 0; i < nold; ++i)
        host_name_destroy(old[i]);
    free(old);
    relist(l);
}

bool listed_workers_settled(const struct listed_workers *l)
{
    for (size_t i = 0; i < l->n; ++i) {
        if (l->names[i] != NULL && !l->names[i]->answered)
            return false;
    }
    return true;
}

struct listed_workers *listed_workers_create(struct membership *ms)
{
    struct listed_workers *l = xcalloc(1, sizeof(*l));

    l->membership = ms;
    return l;
}

void listed_workers_destroy(struct listed_workers *l)
{
    for (size_t i = 0; i < l->n; ++i)
        host_name_destroy(l->names[i]);
    free(l->names);
    items_free(l->items, l->n);
    free(l);
}
