/* SPDX-License-Identifier: Apache-2.0
 *
 * Where workers are known from: those that the configuration lists, those that are registered in
 * the tree, and the addresses that the host names among both stand for.
 *
 * Each provider of the tree is compared with the previous reading, so that only those that changed
 * cost anything, even among a thousand. A provider with an address as its name, in any spelling,
 * registers the backend there: two such providers are one backend.
 *
 * The first reading is compared with the snapshot of a previous run: a tree that was wiped
 * meanwhile does not remove workers that are alive.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/net/addr.h"
#include "lb/backends/membership_internal.h"
#include "lb/rules/provider_limits.h"

enum {
    /* Rejected providers that the status page shows. */
    REJECTED_SHOWN_MAX = 100,
    /* Host names among providers: each is resolved at intervals, one after the other. */
    HOST_NAMES_MAX = 1000,
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

static struct host_name *create_name(struct application *a, const char *text,
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

static void destroy_name(struct host_name *h)
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

struct provider {
    struct membership *membership;
    char *name;
    json_t *properties;     /* as reported last; counted */
    struct backend *worker; /* the backend that it registers; NULL: none */
    struct host_name *host; /* its name is one */
    const char *why;        /* the reason why it is rejected; NULL: it is not */
};

/* ---- one provider ---- */

static void copy_property(const json_t *properties, const char *name, char *out, size_t room)
{
    struct text value = {0};

    if (!json_scalar_text(json_object_get(properties, name), &value))
        text_clear(&value);
    snprintf(out, room, "%s", text_cstr(&value));
    text_fini(&value);
}

/* P registers its backend no longer. EXPECTED: it may return, and is missing until then. */
static void detach_provider(struct provider *p, bool expected)
{
    struct membership *ms = p->membership;
    struct backend *b = p->worker;

    if (b == NULL)
        return;
    p->worker = NULL;
    if (--b->registrations == 0) {
        --ms->providers.nregistered;
        if (expected && !ms->stopping)
            membership_miss(b, ms->providers.before);
    }
    membership_touch(b);
}

static void set_rejected(struct provider *p, const char *why)
{
    if (why != NULL && p->why != why)
        log_warn(NULL, "registration-rejected", "application=%s provider=%s reason=\"%s\"",
                 p->membership->app->name, log_shown(slice_of(p->name)), why);
    p->membership->providers.nrejected += (why != NULL) - (p->why != NULL);
    p->why = why;
}

/* Why P may not register a worker at A; NULL: it may. */
static const char *rejection_of(const struct provider *p, const struct addr *a)
{
    const struct membership *ms = p->membership;
    const struct app_snapshot *now = ms->app->settings;
    const struct provider_limits limits = {
        .networks = now->s.provider_networks.n != 0 ? &now->providers : NULL,
        .remote = tree_is_remote(ms->app->tree),
        .own = ms->app->lb->own,
        .nown = ms->app->lb->nown};

    return provider_limits_rejection(&limits, a);
}

/* Registers the worker of P at A, unless that is rejected. */
static void discovery_set_address(struct provider *p, const struct addr *a)
{
    const char *why = rejection_of(p, a);
    struct addr plain = addr_plain(a);

    set_rejected(p, why);
    if (why != NULL) {
        detach_provider(p, false);
        return;
    }
    if (p->worker == NULL || !addr_equal(&p->worker->addr, &plain)) {
        detach_provider(p, true);
        p->worker = membership_at(p->membership, a);
        if (p->host != NULL)
            backend_set_host(p->worker, p->name);
        if (p->worker->registrations++ == 0) {
            ++p->membership->providers.nregistered;
            p->worker->refuted = false;
            membership_find_again(p->worker);
        }
    }
    struct backend *b = p->worker;
    copy_property(p->properties, "version", b->version, sizeof(b->version));
    copy_property(p->properties, "instance", b->instance, sizeof(b->instance));
    if (b->instance[0] == '\0')
        copy_property(p->properties, "pid", b->instance, sizeof(b->instance));
    membership_touch(b);
}

/*
 * A registration is of one process, and a name may have several addresses (such as one of each
 * family). The first permitted one is used, IPv4 before IPv6, so that the process is one worker.
 */
static const struct addr *choose_addr(const struct provider *p)
{
    const struct host_name *h = p->host;
    const struct addr *best = NULL;

    for (size_t i = 0; i < h->naddrs; ++i) {
        const struct addr *a = &h->addrs[i];

        if (rejection_of(p, a) != NULL)
            continue;
        if (a->sa.sa_family == AF_INET)
            return a;
        if (best == NULL)
            best = a;
    }
    return best != NULL || h->naddrs == 0 ? best : &h->addrs[0];
}

static void on_host_changed(void *context)
{
    struct provider *p = context;

    p->membership->providers.before = p->membership->providers.nregistered;
    discovery_set_address(p, choose_addr(p));
    membership_update(p->membership);
}

static void drop_host(struct provider *p)
{
    if (p->host == NULL)
        return;
    destroy_name(p->host);
    p->host = NULL;
    --p->membership->providers.nhosts;
}

/* Its properties are new (or it is). */
static void discovery_take(struct provider *p)
{
    struct slice application = json_text(p->properties, "application");
    struct providers *set = &p->membership->providers;
    const char *why = NULL;
    struct addr addr;
    enum err e = addr_parse(slice_of(p->name), &addr);
    bool named = e == ERR_UNSUPPORTED;

    if (e != ERR_OK && !named)
        why = "name is not an address";
    else if (!named && addr.sa.sa_family != AF_UNIX && addr_port(&addr) == 0)
        why = "its name has no port";
    else if (application.p != NULL && !slice_is(application, p->membership->app->name))
        why = "it is registered for another application";
    else if (named && p->host == NULL && set->nhosts == HOST_NAMES_MAX)
        why = "too many host names";
    if (why != NULL) {
        set_rejected(p, why);
        drop_host(p);
        detach_provider(p, true);
    } else if (!named) {
        discovery_set_address(p, &addr);
    } else if (p->host == NULL) {
        set_rejected(p, NULL);
        ++set->nhosts;
        p->host = create_name(p->membership->app, p->name, on_host_changed, p);
    } else if (p->host->naddrs != 0) {
        discovery_set_address(p, choose_addr(p));
    }
}

static void discovery_drop(struct provider *p)
{
    set_rejected(p, NULL);
    drop_host(p);
    detach_provider(p, true);
    json_decref(p->properties);
    free(p->name);
    free(p);
}

void providers_store(struct membership *ms)
{
    if (timer_running(&ms->providers.store))
        return;
    bool lately = loop_now_ms(ms->app->lb->control) - ms->providers.stored_ms < STORE_PAUSE_MS;
    timer_start(ms->app->lb->control, &ms->providers.store,
                lately ? STORE_PAUSE_MS : STORE_DELAY_MS);
}

/* ---- a reading ---- */

/* Compares the providers FOUND (NULL: none) with the present ones. */
static void discovery_report(struct membership *ms, json_t *found)
{
    struct providers *set = &ms->providers;
    struct provider **items = xcalloc(json_object_size(found) + 1, sizeof(*items));
    size_t n = 0;
    size_t old = 0;
    const char *name;
    json_t *properties;

    set->before = set->nregistered;
    json_object_foreach (found, name, properties) {
        int order = -1;

        while (old < set->n && (order = strcmp(set->items[old]->name, name)) < 0)
            discovery_drop(set->items[old++]);
        bool known = old < set->n && order == 0;
        struct provider *p = known ? set->items[old++] : xcalloc(1, sizeof(*p));
        items[n++] = p;
        if (!known) {
            p->membership = ms;
            p->name = xstrdup(name);
        } else if (p->properties == properties) {
            /* As most are: a tree reports unchanged properties as the same object. */
            continue;
        }
        bool same = json_equal(p->properties, properties);
        json_decref(p->properties);
        p->properties = json_incref(properties);
        if (!same)
            discovery_take(p);
    }
    while (old < set->n)
        discovery_drop(set->items[old++]);
    free(set->items);
    set->items = items;
    set->n = n;
    providers_store(ms);
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
    json_t *stored = json_object();
    const struct backend *b;

    ms->providers.stored_ms = loop_now_ms(ms->app->lb->control);
    for (size_t i = 0; i < ms->providers.n; ++i) {
        const struct provider *p = ms->providers.items[i];

        if (p->worker != NULL)
            store_backend(stored, p->name, p->worker);
    }
    /* Workers that are held here must not be removed there. */
    list_for_each_entry (b, &ms->missing.vanished, missing)
        store_backend(stored, b->name, b);
    list_for_each_entry (b, &ms->missing.held, missing)
        store_backend(stored, b->name, b);
    snapshot_store(ms->snapshot, part_name, stored);
    json_decref(stored);
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
        discovery_report(ms, found);
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
             ms->providers.n, (unsigned long long)snapshot_age_s(ms->snapshot),
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
    discovery_report(ms, node->providers);
    membership_update(ms);
}

void providers_start(struct membership *ms, uint64_t wait_ms)
{
    char *path = xasprintf("%s/workers", ms->path);

    timer_init(&ms->providers.store, store_now);
    timer_init(&ms->providers.wait, restore_late);
    timer_start(ms->app->lb->control, &ms->providers.wait, wait_ms);
    ms->providers.watch = tree_watch(ms->app->tree, path, on_workers, ms);
    free(path);
}

void providers_stop(struct membership *ms)
{
    struct providers *set = &ms->providers;

    tree_unwatch(set->watch);
    if (timer_running(&set->store))
        store_now(&set->store);
    timer_stop(&set->store);
    timer_stop(&set->wait);
    for (size_t i = 0; i < set->n; ++i)
        discovery_drop(set->items[i]);
    free(set->problem);
    free(set->items);
}

void membership_recheck_providers(struct membership *ms)
{
    ms->providers.before = ms->providers.nregistered;
    for (size_t i = 0; i < ms->providers.n; ++i)
        discovery_take(ms->providers.items[i]);
    membership_update(ms);
}

bool discovery_settled(const struct membership *ms)
{
    const struct listed_workers *l = &ms->listed;
    const struct providers *set = &ms->providers;

    for (size_t i = 0; i < l->n; ++i) {
        if (l->names[i] != NULL && !l->names[i]->answered)
            return false;
    }
    for (size_t i = 0; i < set->n && set->nhosts > 0; ++i) {
        if (set->items[i]->host != NULL && !set->items[i]->host->answered)
            return false;
    }
    return ms->app->tree == NULL || set->received || set->restored;
}

/* ---- status ---- */

/* Array NAME: the names of the first rejected ones; WHY: as objects, with the reason. */
static void put_rejected(const struct membership *ms, struct json_writer *w, const char *name,
                         bool why)
{
    size_t shown = 0;

    json_open_array(w, name);
    for (size_t i = 0; i < ms->providers.n && shown < REJECTED_SHOWN_MAX; ++i) {
        const struct provider *p = ms->providers.items[i];

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
    list_for_each_entry (b, &ms->missing.held, missing)
        json_put_text(w, NULL, slice_of(b->name));
    json_close_array(w);
    if (list_empty(&ms->missing.held)) {
        json_put_null(w, "confirm_removal");
        return;
    }
    char *confirm = xasprintf(CONFIRM_REMOVAL, ms->app->name);
    json_put_text(w, "confirm_removal", slice_of(confirm));
    free(confirm);
}
