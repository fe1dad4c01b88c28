/* SPDX-License-Identifier: Apache-2.0
 *
 * Where workers are known from: those that the configuration lists, those that are registered in
 * the tree, and the addresses that the host names among both stand for.
 *
 * Each provider of the tree is compared with the previous reading, so that only those that changed
 * cost anything, even among a thousand. A provider with an address as its name, in any spelling,
 * registers the known worker there: two such providers are one worker.
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
    /* Providers refused that the status page shows. */
    REFUSED_SHOWN_MAX = 100,
    /* Host names among providers: each is looked up again and again, one after the other. */
    HOST_NAMES_MAX = 1000,
    /* From a change until what there is is handed to the snapshot, which takes its time again. */
    KEEP_DELAY_MS = 50,
    KEEP_PAUSE_MS = 1000,
};

/* ---- host names ---- */

/* A host name of a worker, resolved at once, and again every resolve_interval. */
struct host_name {
    struct application *app;
    char *text;    /* NAME:PORT */
    bool answered; /* once, if only by an error */
    struct addr *addrs;
    size_t naddrs;
    /* The addresses are others than before. Never inside a call of this header. */
    void (*changed)(void *context);
    void *context;
    struct resolve_request request;
    struct timer again;
    bool failing; /* already logged */
};

static bool same_addrs(const struct host_name *h, const struct addr *addrs, size_t naddrs)
{
    if (h->naddrs != naddrs)
        return false;
    for (size_t i = 0; i < naddrs; ++i) {
        if (!addr_equal(&h->addrs[i], &addrs[i]))
            return false;
    }
    return true;
}

static void on_resolved(struct resolve_request *r, enum err e, const struct addr *addrs, size_t n)
{
    struct host_name *h = container_of(r, struct host_name, request);

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
    if (same_addrs(h, addrs, n))
        return;
    free(h->addrs);
    h->addrs = xcalloc(n, sizeof(*addrs));
    memcpy(h->addrs, addrs, n * sizeof(*addrs));
    h->naddrs = n;
    log_info_folded(NULL, "worker-resolved", "application=%s worker=%s count=%zu", h->app->name,
                    h->text, n);
    h->changed(h->context);
}

static void ask_name(struct host_name *h)
{
    timer_stop(&h->again);
    if (h->request.job == NULL)
        resolver_ask(h->app->lb->resolver, slice_of(h->text), &h->request);
}

static void on_again(struct timer *t)
{
    ask_name(container_of(t, struct host_name, again));
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
    timer_init(&h->again, on_again);
    ask_name(h);
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

struct listed_workers {
    struct membership *membership;
    struct worker_config *items; /* owned */
    struct host_name **names;    /* per item; NULL: it is an address */
    size_t n;
};

static void list_one(struct membership *ms, const struct worker_config *w, const struct addr *addr)
{
    struct known_worker *k = membership_at(ms, addr);

    k->listed = w;
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
        k->listed = NULL;
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

/* A name that was listed before, with what it resolved to, asked for again; or a new one. */
static struct host_name *take_name(struct listed_workers *l, struct host_name **old, size_t nold,
                                   const char *text)
{
    for (size_t i = 0; i < nold; ++i) {
        struct host_name *h = old[i];

        if (h != NULL && strcmp(h->text, text) == 0) {
            old[i] = NULL;
            ask_name(h);
            return h;
        }
    }
    return create_name(l->membership->app, text, relist, l);
}

void listed_workers_swap(struct listed_workers *l, struct worker_config **workers, size_t *n)
{
    struct listed_workers old = *l;

    l->items = *workers;
    l->n = *n;
    l->names = xcalloc(l->n + 1, sizeof(struct host_name *));
    for (size_t i = 0; i < l->n; ++i) {
        if (l->items[i].named)
            l->names[i] = take_name(l, old.names, old.n, l->items[i].text);
    }
    for (size_t i = 0; i < old.n; ++i)
        destroy_name(old.names[i]);
    free(old.names);
    relist(l);
    *workers = old.items;
    *n = old.n;
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
        destroy_name(l->names[i]);
    free(l->names);
    worker_configs_free(l->items, l->n);
    free(l);
}

/* ---- the tree ---- */

static const char part_name[] = "providers"; /* of the snapshot */

struct provider {
    struct providers *set;
    char *name;
    json_t *properties;          /* as reported last; counted */
    struct known_worker *worker; /* the worker that it registers; NULL: none */
    struct host_name *host;      /* its name is one */
    const char *why;             /* it is refused; NULL: it is not */
};

struct providers {
    struct membership *membership;
    struct tree_watch *watch;
    struct provider **items; /* by name */
    size_t n;
    size_t nhosts, nrefused;
    size_t nregistered; /* known workers with a provider */
    char *problem;      /* of the last reading; NULL: none */
    bool heard;         /* received from the tree */
    bool remembered;    /* restored from the snapshot of a previous run */
    size_t before;      /* registered before this reading */
    struct timer keep, wait;
    uint64_t kept_ms;
};

static struct loop *control(const struct providers *set)
{
    return set->membership->app->lb->control;
}

static const char *app_name(const struct providers *set)
{
    return set->membership->app->name;
}

/* ---- one provider ---- */

static void copy_property(const json_t *properties, const char *name, char *out, size_t room)
{
    struct text value = {0};

    out[0] = '\0';
    if (json_scalar_text(json_object_get(properties, name), &value))
        text_copy(out, room, text_cstr(&value));
    text_fini(&value);
}

/* The properties of the worker that it registers. */
static void take_facts(struct provider *p)
{
    struct known_worker *k = p->worker;

    copy_property(p->properties, "version", k->version, sizeof(k->version));
    copy_property(p->properties, "incarnation", k->incarnation, sizeof(k->incarnation));
    if (k->incarnation[0] == '\0')
        copy_property(p->properties, "pid", k->incarnation, sizeof(k->incarnation));
    membership_touch(k);
}

static void attach(struct provider *p, const struct addr *addr)
{
    struct providers *set = p->set;
    struct known_worker *k = membership_at(set->membership, addr);

    p->worker = k;
    if (p->host != NULL)
        known_worker_set_host(k, p->name);
    if (k->registrations++ == 0) {
        ++set->nregistered;
        k->refuted = false;
        membership_find_again(k);
    }
    take_facts(p);
}

/* P registers its worker no longer. EXPECTED: the worker may return, and is missing until then. */
static void detach(struct provider *p, bool expected)
{
    struct known_worker *k = p->worker;

    if (k == NULL)
        return;
    p->worker = NULL;
    if (--k->registrations == 0) {
        --p->set->nregistered;
        if (expected && !p->set->membership->stopping)
            membership_miss(k, p->set->before);
    }
    membership_touch(k);
}

static void set_refused(struct provider *p, const char *why)
{
    char escaped[LOG_CUT_ROOM];

    if (why != NULL && p->why != why)
        log_warn(NULL, "registration-rejected", "application=%s provider=%s reason=\"%s\"",
                 app_name(p->set), log_cut(slice_of(p->name), escaped), why);
    p->set->nrefused += (why != NULL) - (p->why != NULL);
    p->why = why;
}

/* Why P may not register a worker at A; NULL: it may. */
static const char *refusal_of(const struct provider *p, const struct addr *a)
{
    const struct membership *ms = p->set->membership;
    const struct app_snapshot *now = ms->app->settings;
    const struct provider_limits limits = {
        .networks = now->s.provider_networks.n != 0 ? &now->providers : NULL,
        .remote = tree_is_remote(ms->tree),
        .own = ms->app->lb->own,
        .nown = ms->app->lb->nown};

    return provider_limits_refusal(&limits, a);
}

/* P is at A. */
static void place(struct provider *p, const struct addr *a)
{
    const char *why = refusal_of(p, a);
    struct addr plain = addr_plain(a);

    set_refused(p, why);
    if (why != NULL) {
        detach(p, false);
    } else if (p->worker != NULL && addr_equal(&p->worker->addr, &plain)) {
        take_facts(p);
    } else {
        detach(p, true);
        attach(p, a);
    }
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

        if (refusal_of(p, a) != NULL)
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

    p->set->before = p->set->nregistered;
    place(p, choose_addr(p));
    membership_settle(p->set->membership);
}

static void drop_host(struct provider *p)
{
    if (p->host == NULL)
        return;
    destroy_name(p->host);
    p->host = NULL;
    --p->set->nhosts;
}

/* Why not; NULL: it is one of ours, at ADDR, or has a host name. */
static const char *judge(const struct provider *p, struct addr *addr, bool *named)
{
    struct slice application = json_text(p->properties, "application");
    enum err e = addr_parse(slice_of(p->name), addr);

    *named = e == ERR_UNSUPPORTED;
    if (e != ERR_OK && !*named)
        return "name is not an address";
    if (!*named && addr->sa.sa_family != AF_UNIX && addr_port(addr) == 0)
        return "its name has no port";
    if (application.p != NULL && !slice_is(application, p->set->membership->app->name))
        return "it belongs to another application";
    if (*named && p->host == NULL && p->set->nhosts == HOST_NAMES_MAX)
        return "too many host names";
    return NULL;
}

/* Its properties are new (or it is). */
static void take(struct provider *p)
{
    struct addr addr;
    bool named = false;
    const char *why = judge(p, &addr, &named);

    if (why != NULL) {
        set_refused(p, why);
        drop_host(p);
        detach(p, true);
    } else if (!named) {
        place(p, &addr);
    } else if (p->host == NULL) {
        set_refused(p, NULL);
        ++p->set->nhosts;
        p->host = create_name(p->set->membership->app, p->name, on_host_changed, p);
    } else if (p->host->naddrs != 0) {
        place(p, choose_addr(p));
    }
}

static struct provider *add(struct providers *set, const struct tree_provider *from)
{
    struct provider *p = xcalloc(1, sizeof(*p));

    p->set = set;
    p->name = xstrdup(from->name);
    p->properties = json_incref(from->properties);
    take(p);
    return p;
}

static void change(struct provider *p, json_t *properties)
{
    /* The same object, mostly: a tree reports what has not changed as it was. */
    bool same = p->properties == properties || json_equal(p->properties, properties);

    if (p->properties != properties) {
        json_decref(p->properties);
        p->properties = json_incref(properties);
    }
    if (!same)
        take(p);
}

static void drop(struct provider *p)
{
    set_refused(p, NULL);
    drop_host(p);
    detach(p, true);
    json_decref(p->properties);
    free(p->name);
    free(p);
}

void providers_keep(struct providers *set)
{
    if (timer_running(&set->keep))
        return;
    bool lately = loop_now_ms(control(set)) - set->kept_ms < KEEP_PAUSE_MS;
    timer_start(control(set), &set->keep, lately ? KEEP_PAUSE_MS : KEEP_DELAY_MS);
}

/* ---- a reading ---- */

/* FRESH (NULL: nothing) is what there is: compare with what there was. */
static void report(struct providers *set, const struct tree_set *fresh)
{
    size_t n = tree_set_count(fresh);
    struct provider **items = xcalloc(n + 1, sizeof(*items));
    size_t nitems = 0;
    size_t i = 0;
    size_t k = 0;

    set->before = set->nregistered;
    while (i < set->n || k < n) {
        int order = i == set->n ? 1
                    : k == n    ? -1
                                : strcmp(set->items[i]->name, fresh->items[k].name);

        if (order < 0) {
            drop(set->items[i++]);
        } else if (order > 0) {
            items[nitems++] = add(set, &fresh->items[k++]);
        } else {
            items[nitems] = set->items[i++];
            change(items[nitems++], fresh->items[k++].properties);
        }
    }
    free(set->items);
    set->items = items;
    set->n = nitems;
    providers_keep(set);
}

/* ---- the previous run ---- */

static void keep_facts(json_t *kept, const char *name, const char *version, const char *incarnation)
{
    json_t *facts = json_object();

    if (version[0] != '\0')
        json_object_set_new(facts, "version", json_string(version));
    if (incarnation[0] != '\0')
        json_object_set_new(facts, "incarnation", json_string(incarnation));
    /* A name that is not UTF-8 is not kept. */
    json_object_set_new(kept, name, facts);
}

static void keep_missing(json_t *kept, const struct list *missing)
{
    struct list *it;

    list_for_each (it, missing) {
        const struct known_worker *k = list_entry(it, struct known_worker, missing);

        keep_facts(kept, k->name, k->version, k->incarnation);
    }
}

static void keep_now(struct providers *set)
{
    json_t *kept = json_object();

    set->kept_ms = loop_now_ms(control(set));
    for (size_t i = 0; i < set->n; ++i) {
        const struct provider *p = set->items[i];

        if (p->worker != NULL)
            keep_facts(kept, p->name, p->worker->version, p->worker->incarnation);
    }
    /* Workers that are held here must not be removed there. */
    keep_missing(kept, &set->membership->missing.vanished);
    keep_missing(kept, &set->membership->missing.held);
    snapshot_store(set->membership->snapshot, part_name, kept);
    json_decref(kept);
}

static void on_keep(struct timer *t)
{
    keep_now(container_of(t, struct providers, keep));
}

/*
 * Reports the providers of the snapshot as if they came from the tree; does not settle the
 * membership.
 */
static void recall(struct providers *set)
{
    json_t *part = snapshot_part(set->membership->snapshot, part_name);
    struct tree_set *fresh = tree_set_create();
    const char *name;
    json_t *properties;

    json_object_foreach(part, name, properties)
    {
        if (json_is_object(properties))
            tree_set_add(fresh, xstrdup(name), json_incref(properties));
    }
    tree_set_sort(fresh);
    if (fresh->n > 0) {
        set->remembered = true;
        report(set, fresh);
    }
    tree_set_replace(&fresh, NULL);
}

/* Restores the snapshot if the tree has not sent the providers, or not in time. */
static void remember(struct providers *set)
{
    if (set->heard || set->remembered)
        return;
    recall(set);
    if (!set->remembered)
        return;
    log_warn(NULL, "registrations-from-snapshot",
             "application=%s providers=%zu age_s=%llu reason=\"%s\"", app_name(set), set->n,
             (unsigned long long)snapshot_age_s(set->membership->snapshot),
             "no reply from the tree");
    membership_settle(set->membership);
}

static void on_wait_over(struct timer *t)
{
    remember(container_of(t, struct providers, wait));
}

/* ---- readings of the tree ---- */

static void on_workers(void *context, const struct tree_view *node)
{
    struct providers *set = context;

    free(set->problem);
    set->problem = xstrdup(node->exists || !node->providers_known ? node->problem : NULL);
    if (!node->providers_known) {
        /* It answers, but not this. */
        remember(set);
        return;
    }
    if (!set->heard && !set->remembered)
        recall(set);
    set->heard = true;
    set->remembered = false;
    timer_stop(&set->wait);
    report(set, node->providers);
    membership_settle(set->membership);
}

struct providers *providers_create(struct membership *ms, uint64_t wait_ms)
{
    struct providers *set = xcalloc(1, sizeof(*set));
    char *path = xasprintf("%s/workers", ms->path);

    set->membership = ms;
    timer_init(&set->keep, on_keep);
    timer_init(&set->wait, on_wait_over);
    timer_start(control(set), &set->wait, wait_ms);
    set->watch = tree_watch(ms->tree, path, on_workers, set);
    free(path);
    return set;
}

void providers_destroy(struct providers *set)
{
    if (set == NULL)
        return;
    tree_unwatch(set->watch);
    if (timer_running(&set->keep))
        keep_now(set);
    timer_stop(&set->keep);
    timer_stop(&set->wait);
    for (size_t i = 0; i < set->n; ++i)
        drop(set->items[i]);
    free(set->problem);
    free(set->items);
    free(set);
}

void providers_judge(struct providers *set)
{
    set->before = set->nregistered;
    for (size_t i = 0; i < set->n; ++i)
        take(set->items[i]);
    membership_settle(set->membership);
}

bool providers_settled(const struct providers *set)
{
    for (size_t i = 0; i < set->n && set->nhosts > 0; ++i) {
        if (set->items[i]->host != NULL && !set->items[i]->host->answered)
            return false;
    }
    return set->heard || set->remembered;
}

/* ---- status ---- */

void providers_figures(const struct providers *set, struct membership_figures *out)
{
    out->providers = set->nregistered;
    out->refused = set->nrefused;
    out->held = set->membership->missing.nheld;
    out->remembered = set->remembered;
}

/* The names of the first rejected ones; WHY: as objects, with the reason. */
static void put_refused(const struct providers *set, struct json_writer *w, bool why)
{
    size_t shown = 0;

    for (size_t i = 0; i < set->n && shown < REFUSED_SHOWN_MAX; ++i) {
        const struct provider *p = set->items[i];
        char escaped[LOG_CUT_ROOM];

        if (p->why == NULL)
            continue;
        if (why)
            json_open_object(w, NULL);
        json_put_text(w, why ? "name" : NULL, slice_of(log_cut(slice_of(p->name), escaped)));
        if (why) {
            json_put_text(w, "why", slice_of(p->why));
            json_close_object(w);
        }
        ++shown;
    }
}

void providers_describe(const struct providers *set, struct json_writer *w)
{
    struct list *it;

    if (set->problem != NULL)
        json_put_text(w, "providers_problem", slice_of(set->problem));
    else
        json_put_null(w, "providers_problem");
    json_open_array(w, "refused_providers");
    put_refused(set, w, false);
    json_close_array(w);
    json_open_array(w, "provider_refusals");
    put_refused(set, w, true);
    json_close_array(w);
    json_open_array(w, "held_workers");
    list_for_each (it, &set->membership->missing.held)
        json_put_text(w, NULL, slice_of(list_entry(it, struct known_worker, missing)->name));
    json_close_array(w);
    if (list_empty(&set->membership->missing.held)) {
        json_put_null(w, "confirm_removal");
        return;
    }
    char *confirm = xasprintf(CONFIRM_REMOVAL, app_name(set));
    json_put_text(w, "confirm_removal", slice_of(confirm));
    free(confirm);
}
