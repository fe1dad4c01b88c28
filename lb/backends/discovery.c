/* SPDX-License-Identifier: Apache-2.0
 *
 * Where workers are known from: those that the configuration lists, those that are registered in
 * the tree, and the addresses that the host names among both stand for.
 *
 * The first reading is compared with the snapshot of a previous run: a tree that was wiped
 * meanwhile does not remove workers that are alive.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/net/addr.h"
#include "lb/backends/membership_internal.h"

enum {
    /* Rejected providers that the status page shows. */
    REJECTED_SHOWN_MAX = 100,
    /* From a change until the providers are given to the snapshot, which has a delay of its own. */
    STORE_DELAY_MS = 50,
    STORE_PAUSE_MS = 1000,
};

/* ---- host names ---- */

static void on_resolved(struct resolve_request *r, enum err e, const struct addr *addrs, size_t n)
{
    struct host_name *h = container_of(r, struct host_name, request);
    size_t same = 0;

    h->answered = true;
    timer_start(h->app->lb->control, &h->again, h->app->settings->s.resolve_interval_ms);
    if (e != ERR_OK || n == 0) {
        /* The last addresses are retained: a failing name server does not remove workers. */
        if (!h->failing)
            log_warn(NULL, "worker-not-resolved", "application=%s worker=%s reason=\"%s\"",
                     h->app->name, h->text, err_text(e));
        h->failing = true;
        return;
    }
    h->failing = false;
    while (h->naddrs == n && same < n && addr_equal(&h->addrs[same], &addrs[same]))
        ++same;
    if (same == n)
        return;
    free(h->addrs);
    h->addrs = xcalloc(n, sizeof(*addrs));
    memcpy(h->addrs, addrs, n * sizeof(*addrs));
    h->naddrs = n;
    log_info_folded(NULL, "worker-resolved", "application=%s worker=%s count=%zu", h->app->name,
                    h->text, n);
    h->changed(h->context);
}

static void resolve_host(struct timer *again)
{
    struct host_name *h = container_of(again, struct host_name, again);

    timer_stop(again);
    if (h->request.job == NULL)
        resolver_query(h->app->lb->resolver, slice_of(h->text), &h->request);
}

struct host_name *create_name(struct application *a, const char *text,
                              void (*changed)(void *context), void *context)
{
    struct host_name *h = xcalloc(1, sizeof(*h));

    h->app = a;
    h->text = xstrdup(text);
    h->changed = changed;
    h->context = context;
    h->request.done = on_resolved;
    timer_init(&h->again, resolve_host);
    resolve_host(&h->again);
    return h;
}

void destroy_name(struct host_name *h)
{
    if (h == NULL)
        return;
    resolver_cancel(&h->request);
    timer_stop(&h->again);
    free(h->addrs);
    free(h->text);
    free(h);
}

/* ---- the list of the configuration ---- */

/* Updates the listed workers from the list and the present addresses of its names. */
static void update_listed(void *context)
{
    struct membership *ms = context;
    const struct listed_workers *l = &ms->listed;

    map_for_each (struct backend, b, &ms->known, in_known) {
        b->listed = NULL;
        membership_touch(b);
    }
    for (size_t i = 0; i < l->n; ++i) {
        const struct host_name *h = l->names[i];
        const struct addr *addrs = h != NULL ? h->addrs : &l->items[i].addr;
        size_t naddrs = h != NULL ? h->naddrs : 1;

        for (size_t a = 0; a < naddrs; ++a) {
            struct backend *b = membership_at(ms, &addrs[a]);

            b->listed = &l->items[i];
            if (h != NULL)
                backend_set_host(b, h->text);
            membership_touch(b);
        }
    }
    membership_update(ms);
}

/* A name that OLD lists, with its addresses, which is resolved again; or a new one. */
static struct host_name *take_name(struct membership *ms, struct listed_workers *old,
                                   const char *text)
{
    for (size_t i = 0; i < old->n; ++i) {
        struct host_name *h = old->names[i];

        if (h != NULL && strcmp(h->text, text) == 0) {
            old->names[i] = NULL;
            resolve_host(&h->again);
            return h;
        }
    }
    return create_name(ms->app, text, update_listed, ms);
}

void listed_workers_swap(struct membership *ms, struct worker_config **workers, size_t *n)
{
    struct listed_workers *l = &ms->listed;
    struct listed_workers old = *l;

    *l = (struct listed_workers){
        .items = *workers, .n = *n, .names = xcalloc(*n + 1, sizeof(struct host_name *))};
    for (size_t i = 0; i < l->n; ++i) {
        if (l->items[i].named)
            l->names[i] = take_name(ms, &old, l->items[i].s.address);
    }
    for (size_t i = 0; i < old.n; ++i)
        destroy_name(old.names[i]);
    free(old.names);
    update_listed(ms);
    *workers = old.items;
    *n = old.n;
}

/* ---- the tree ---- */

static const char part_name[] = "providers"; /* of the snapshot */

void providers_store(struct membership *ms)
{
    if (timer_running(&ms->providers.store))
        return;
    bool lately = loop_now_ms(ms->app->lb->control) - ms->providers.stored_ms < STORE_PAUSE_MS;
    timer_start(ms->app->lb->control, &ms->providers.store,
                lately ? STORE_PAUSE_MS : STORE_DELAY_MS);
}

/* ---- the previous run ---- */

/* NAME: that of B or of its provider. One that is not UTF-8 is not stored. */
static void store_backend(json_t *stored, const char *name, const struct backend *b)
{
    json_t *properties = json_object();

    if (b->version[0] != '\0')
        json_object_set_new(properties, "version", json_string(b->version));
    if (b->instance[0] != '\0')
        json_object_set_new(properties, "instance", json_string(b->instance));
    json_object_set_new(stored, name, properties);
}

static void store_now(struct timer *t)
{
    struct membership *ms = container_of(t, struct membership, providers.store);
    const struct source *s = &ms->providers.source;
    json_t *stored = json_object();
    const struct backend *b;

    ms->providers.stored_ms = loop_now_ms(ms->app->lb->control);
    for (size_t i = 0; i < s->n; ++i) {
        const struct provider *p = s->items[i];

        if (p->worker != NULL)
            store_backend(stored, p->name, p->worker);
    }
    /* Workers that are held here must not be removed there. */
    list_for_each_entry (b, &s->vanished, missing)
        store_backend(stored, b->name, b);
    list_for_each_entry (b, &ms->held.list, missing) {
        if (b->lost_by == s)
            store_backend(stored, b->name, b);
    }
    snapshot_store(ms->snapshot, part_name, stored);
    json_decref(stored);
}

static void read_providers(struct membership *ms, json_t *found)
{
    source_report(&ms->providers.source, found);
    providers_store(ms);
}

/* Reports the providers of the snapshot as the tree would; does not settle the membership. */
static void restore_providers(struct membership *ms)
{
    json_t *part = snapshot_part(ms->snapshot, part_name);
    json_t *found = json_object();
    const char *name;
    json_t *properties;

    json_object_foreach (part, name, properties) {
        if (json_is_object(properties))
            json_object_set(found, name, properties);
    }
    found = tree_set_sorted(found);
    if (json_object_size(found) > 0) {
        ms->providers.restored = true;
        read_providers(ms, found);
    }
    json_decref(found);
}

/* Restores the snapshot if the tree has not sent the providers, or not in time. */
static void restore_late(struct timer *wait)
{
    struct membership *ms = container_of(wait, struct membership, providers.wait);

    if (ms->providers.received || ms->providers.restored)
        return;
    restore_providers(ms);
    if (!ms->providers.restored)
        return;
    log_warn(NULL, "registrations-from-snapshot",
             "application=%s providers=%zu age_s=%llu reason=\"%s\"", ms->app->name,
             ms->providers.source.n, (unsigned long long)snapshot_age_s(ms->snapshot),
             "no response from the tree");
    membership_update(ms);
}

/* ---- readings of the tree ---- */

static void on_workers(void *context, const struct tree_view *node)
{
    struct membership *ms = context;

    free(ms->providers.problem);
    ms->providers.problem = xstrdup(node->exists || !node->providers_known ? node->problem : NULL);
    if (!node->providers_known) {
        /* The tree is reachable, but has not reported the providers. */
        restore_late(&ms->providers.wait);
        return;
    }
    if (!ms->providers.received && !ms->providers.restored)
        restore_providers(ms);
    ms->providers.received = true;
    ms->providers.restored = false;
    timer_stop(&ms->providers.wait);
    read_providers(ms, node->providers);
    membership_update(ms);
}

void providers_start(struct membership *ms, uint64_t wait_ms)
{
    char *path = xasprintf("%s/workers", ms->path);

    source_init(&ms->providers.source, ms, SOURCE_TREE);
    timer_init(&ms->providers.store, store_now);
    timer_init(&ms->providers.wait, restore_late);
    timer_start(ms->app->lb->control, &ms->providers.wait, wait_ms);
    ms->providers.watch = tree_watch(ms->app->tree, path, on_workers, ms);
    free(path);
}

void providers_stop(struct membership *ms)
{
    struct tree_source *set = &ms->providers;

    tree_unwatch(set->watch);
    if (timer_running(&set->store))
        store_now(&set->store);
    timer_stop(&set->store);
    timer_stop(&set->wait);
    source_fini(&set->source);
    free(set->problem);
}

bool discovery_settled(const struct membership *ms)
{
    const struct listed_workers *l = &ms->listed;
    const struct tree_source *set = &ms->providers;

    for (size_t i = 0; i < l->n; ++i) {
        if (l->names[i] != NULL && !l->names[i]->answered)
            return false;
    }
    return ms->app->tree == NULL || set->received || set->restored;
}

/* ---- status ---- */

/* Array NAME: the names of the first rejected ones; WHY: as objects, with the reason. */
static void put_rejected(const struct membership *ms, struct json_writer *w, const char *name,
                         bool why)
{
    const struct source *s = &ms->providers.source;
    size_t shown = 0;

    json_open_array(w, name);
    for (size_t i = 0; i < s->n && shown < REJECTED_SHOWN_MAX; ++i) {
        const struct provider *p = s->items[i];

        if (p->why == NULL)
            continue;
        if (why)
            json_open_object(w, NULL);
        json_put_text(w, why ? "name" : NULL, slice_of(log_shown(slice_of(p->name))));
        if (why) {
            json_put_text(w, "why", slice_of(p->why));
            json_close_object(w);
        }
        ++shown;
    }
    json_close_array(w);
}

void providers_describe(const struct membership *ms, struct json_writer *w)
{
    const struct backend *b;

    if (ms->providers.problem != NULL)
        json_put_text(w, "providers_problem", slice_of(ms->providers.problem));
    else
        json_put_null(w, "providers_problem");
    put_rejected(ms, w, "rejected_providers", false);
    put_rejected(ms, w, "provider_rejections", true);
    json_open_array(w, "held_workers");
    list_for_each_entry (b, &ms->held.list, missing)
        json_put_text(w, NULL, slice_of(b->name));
    json_close_array(w);
    if (list_empty(&ms->held.list)) {
        json_put_null(w, "confirm_removal");
        return;
    }
    char *confirm = xasprintf(CONFIRM_REMOVAL, ms->app->name);
    json_put_text(w, "confirm_removal", slice_of(confirm));
    free(confirm);
}
