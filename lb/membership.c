/* SPDX-License-Identifier: Apache-2.0
 *
 * Three sources write into one table of known_workers, each its own part: the list of the
 * configuration, the answers of the resolver, and the providers of the tree. After each, every
 * entry is asked whether anything holds it still (known_worker_update).
 *
 * Who vanishes from the tree stays while its stream is open: a live worker outranks a missing node.
 * When more than discovery_max_drop of them vanish at once, self-measured ones stay too, while
 * their connections work.
 */
#include "lb/membership.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/tree/tree.h"
#include "lb/application_live.h"
#include "lb/lb.h"
#include "lb/resolver.h"
#include "version.h"

enum {
    /* How often those that linger are looked at. */
    LINGER_LOOK_MS = 1000,
    /* What vanishes within this time vanishes at once: a lost session takes its nodes away in
       several steps. */
    VANISH_WINDOW_MS = 500,
    /* Providers refused that the status page shows. */
    REFUSED_MAX = 100,
};

/* A host name the configuration lists. */
struct named_worker {
    struct membership *membership;
    struct worker_config config; /* owned copy */
    struct resolve_request request;
    bool answered;
    struct addr *addrs;
    size_t naddrs;
};

struct membership {
    struct application *app;
    struct map known; /* of known_worker, by name */
    struct worker_config *listed;
    size_t nlisted;
    struct named_worker **named;
    size_t nnamed;
    struct timer resolve_timer, linger_timer, vanish_timer;
    size_t window_base; /* registered when the present window began */
    struct tree *tree;  /* NULL: none */
    char *path;         /* the application's node in it */
    struct tree_watch *settings_watch, *workers_watch;
    struct tree_registration *registration;
    bool tree_read;           /* the providers have been told once */
    struct text_list refused; /* providers */
    bool stopping;
};

static const struct app_settings *settings(const struct membership *ms)
{
    return &ms->app->settings->s;
}

static struct loop *control(const struct membership *ms)
{
    return ms->app->lb->control;
}

/* ---- the table ---- */

static struct known_worker *known_at(struct membership *ms, const struct addr *addr)
{
    char name[ADDR_TEXT_MAX];

    addr_format(addr, name);
    struct known_worker *k =
        map_entry(map_find(&ms->known, name, strlen(name)), struct known_worker, in_known);
    if (k != NULL)
        return k;
    k = known_worker_create(ms, ms->app, name, addr);
    map_add(&ms->known, &k->in_known, k->name, strlen(k->name));
    return k;
}

void membership_forget(struct membership *ms, struct known_worker *k)
{
    map_remove(&ms->known, &k->in_known);
    known_worker_destroy(k);
}

static void update_all(struct membership *ms)
{

    map_for_each_safe (struct known_worker, k, &ms->known, in_known) {
        if (!known_worker_update(k))
            membership_forget(ms, k);
    }
    membership_reserve(ms);
}

void membership_each(const struct membership *ms,
                     void (*each)(void *context, const struct known_worker *k), void *context)
{
    map_for_each (struct known_worker, k, &ms->known, in_known)
        each(context, k);
}

/* ---- cold and starting ones ---- */

static bool is_reserve(const struct known_worker *k)
{
    return k->streams && k->worker != NULL && !k->silent &&
           (k->last.state == RESUME_COLD || k->last.state == RESUME_STARTING);
}

/* The one to bring in, or NULL when one is in already, or none is there. */
static struct known_worker *choose_reserve(struct membership *ms)
{
    struct known_worker *best = NULL;

    map_for_each (struct known_worker, k, &ms->known, in_known) {
        if (!is_reserve(k))
            continue;
        if (known_worker_in_pool(k))
            return NULL;
        if (best == NULL || (best->last.state == RESUME_COLD && k->last.state == RESUME_STARTING))
            best = k;
    }
    return best;
}

void membership_reserve(struct membership *ms)
{
    bool warm = false;

    if (ms->stopping)
        return;
    map_for_each (struct known_worker, k, &ms->known, in_known)
        warm = warm || (known_worker_warm(k) && known_worker_in_pool(k));
    if (!warm) {
        struct known_worker *k = choose_reserve(ms);

        if (k != NULL)
            known_worker_join(k);
        return;
    }
    map_for_each (struct known_worker, k, &ms->known, in_known) {
        if (is_reserve(k) && k->last.state == RESUME_COLD && known_worker_in_pool(k))
            known_worker_leave(k);
    }
}

/* ---- listed ---- */

static void list_one(struct membership *ms, const struct worker_config *w, const struct addr *addr)
{
    struct known_worker *k = known_at(ms, addr);

    k->listed = true;
    k->source = w->source;
    k->max_connections = w->max_connections;
    k->concurrency = w->concurrency;
    text_copy(k->listed_version, sizeof(k->listed_version), w->version != NULL ? w->version : "");
}

/* From the list and what its names stand for now. */
static void relist(struct membership *ms)
{
    map_for_each (struct known_worker, k, &ms->known, in_known)
        k->listed = false;
    for (size_t i = 0; i < ms->nlisted; ++i) {
        if (!ms->listed[i].named)
            list_one(ms, &ms->listed[i], &ms->listed[i].addr);
    }
    for (size_t i = 0; i < ms->nnamed; ++i) {
        struct named_worker *n = ms->named[i];

        for (size_t k = 0; k < n->naddrs; ++k)
            list_one(ms, &n->config, &n->addrs[k]);
    }
    update_all(ms);
}

static bool same_addrs(const struct named_worker *n, const struct addr *addrs, size_t naddrs)
{
    if (n->naddrs != naddrs)
        return false;
    for (size_t i = 0; i < naddrs; ++i) {
        if (!addr_equal(&n->addrs[i], &addrs[i]))
            return false;
    }
    return true;
}

static void on_resolved(struct resolve_request *r, enum err e, const struct addr *addrs, size_t n)
{
    struct named_worker *nw = container_of(r, struct named_worker, request);
    struct membership *ms = nw->membership;

    nw->answered = true;
    if (e != ERR_OK || n == 0) {
        /* The last answer stays: a name server that fails removes nobody. */
        log_warn(NULL, "worker-not-resolved", "application=%s worker=%s why=\"%s\"", ms->app->name,
                 nw->config.text, err_text(e));
        return;
    }
    if (same_addrs(nw, addrs, n))
        return;
    free(nw->addrs);
    nw->addrs = xcalloc(n, sizeof(*addrs));
    memcpy(nw->addrs, addrs, n * sizeof(*addrs));
    nw->naddrs = n;
    log_info(NULL, "worker-resolved", "application=%s worker=%s addresses=%zu", ms->app->name,
             nw->config.text, n);
    relist(ms);
}

static void ask_all(struct membership *ms)
{
    for (size_t i = 0; i < ms->nnamed; ++i) {
        struct named_worker *n = ms->named[i];

        if (n->request.job == NULL)
            resolver_ask(ms->app->lb->resolver, slice_of(n->config.text), &n->request);
    }
    if (ms->nnamed > 0)
        timer_start(control(ms), &ms->resolve_timer, settings(ms)->resolve_interval_ms);
}

static void on_resolve_timer(struct timer *t)
{
    ask_all(container_of(t, struct membership, resolve_timer));
}

static struct worker_config config_copy(const struct worker_config *w)
{
    struct worker_config copy = *w;

    copy.text = xstrdup(w->text);
    copy.version = xstrdup(w->version);
    return copy;
}

static void named_free(struct named_worker *n)
{
    resolver_cancel(&n->request);
    free(n->config.text);
    free(n->config.version);
    free(n->addrs);
    free(n);
}

/* A name that was listed before, with what it resolved to; or a new one. */
static struct named_worker *take_named(struct named_worker **old, size_t nold, const char *text)
{
    for (size_t i = 0; i < nold; ++i) {
        struct named_worker *n = old[i];

        if (n != NULL && strcmp(n->config.text, text) == 0) {
            old[i] = NULL;
            return n;
        }
    }
    struct named_worker *n = xcalloc(1, sizeof(*n));
    n->request.done = on_resolved;
    return n;
}

static void set_list(struct membership *ms, const struct worker_config *workers, size_t nworkers)
{
    struct named_worker **old = ms->named;
    size_t nold = ms->nnamed;

    for (size_t i = 0; i < ms->nlisted; ++i) {
        free(ms->listed[i].text);
        free(ms->listed[i].version);
    }
    free(ms->listed);
    ms->listed = xcalloc(nworkers + 1, sizeof(*ms->listed));
    ms->named = xcalloc(nworkers + 1, sizeof(struct named_worker *));
    ms->nlisted = nworkers;
    ms->nnamed = 0;
    for (size_t i = 0; i < nworkers; ++i) {
        ms->listed[i] = config_copy(&workers[i]);
        if (!workers[i].named)
            continue;
        struct named_worker *n = take_named(old, nold, workers[i].text);
        n->membership = ms;
        free(n->config.text);
        free(n->config.version);
        n->config = config_copy(&workers[i]);
        ms->named[ms->nnamed++] = n;
    }
    for (size_t i = 0; i < nold; ++i) {
        if (old[i] != NULL)
            named_free(old[i]);
    }
    free(old);
    timer_stop(&ms->resolve_timer);
    relist(ms);
    ask_all(ms);
}

/* ---- registered ---- */

static void copy_property(const json_t *properties, const char *name, char *out, size_t room)
{
    struct text value = {0};

    out[0] = '\0';
    if (json_scalar_text(json_object_get(properties, name), &value))
        text_copy(out, room, text_cstr(&value));
    text_fini(&value);
}

static void refuse_provider(struct membership *ms, const char *name, const char *why, bool first)
{
    char escaped[LOG_ESCAPED_ROOM];

    log_escape(slice_of(name), escaped);
    if (first)
        log_warn(NULL, "provider-refused", "application=%s provider=%s why=\"%s\"", ms->app->name,
                 escaped, why);
    if (ms->refused.n == REFUSED_MAX)
        return;
    ms->refused.items = xrealloc(ms->refused.items, (ms->refused.n + 1) * sizeof(char *));
    ms->refused.items[ms->refused.n++] = xstrdup(escaped);
}

static bool has_text(const struct text_list *l, const char *text)
{
    for (size_t i = 0; i < l->n; ++i) {
        if (strcmp(l->items[i], text) == 0)
            return true;
    }
    return false;
}

static void text_list_free(struct text_list *l)
{
    for (size_t i = 0; i < l->n; ++i)
        free(l->items[i]);
    free(l->items);
    *l = (struct text_list){0};
}

static void take_provider(struct membership *ms, const struct tree_provider *p,
                          const struct text_list *refused_before)
{
    struct slice application = json_text(p->properties, "application");
    bool first = !has_text(refused_before, p->name);
    struct addr addr;

    if (addr_parse(slice_of(p->name), &addr) != ERR_OK) {
        refuse_provider(ms, p->name, "its name is no numeric or unix address", first);
        return;
    }
    if (application.p != NULL && !slice_is(application, ms->app->name)) {
        refuse_provider(ms, p->name, "it belongs to another application", first);
        return;
    }
    struct known_worker *k = known_at(ms, &addr);
    k->marked = true;
    k->registered = true;
    copy_property(p->properties, "version", k->version, sizeof(k->version));
    copy_property(p->properties, "incarnation", k->incarnation, sizeof(k->incarnation));
    if (k->incarnation[0] == '\0')
        copy_property(p->properties, "pid", k->incarnation, sizeof(k->incarnation));
}

/*
 * Those registered before and not in this reading. Self-measured ones stay until the window is
 * over, when it is known how many went at once; for one with a stream, that decides.
 */
static void note_vanished(struct membership *ms, size_t before)
{
    map_for_each (struct known_worker, k, &ms->known, in_known) {
        if (!k->registered || k->marked)
            continue;
        k->registered = false;
        k->vanished = true;
        k->lingering = !k->streams;
        log_info(NULL, "provider-vanished", "application=%s worker=%s", ms->app->name, k->name);
        if (timer_running(&ms->vanish_timer))
            continue;
        ms->window_base = before;
        timer_start(control(ms), &ms->vanish_timer, VANISH_WINDOW_MS);
    }
}

static void on_window_over(struct timer *t)
{
    struct membership *ms = container_of(t, struct membership, vanish_timer);
    size_t n = 0;

    map_for_each (struct known_worker, k, &ms->known, in_known)
        n += k->vanished && !k->registered;
    bool hold = (double)n > settings(ms)->discovery_max_drop * (double)ms->window_base;
    if (hold)
        log_warn(NULL, "providers-held-back", "application=%s vanished=%zu of=%zu", ms->app->name,
                 n, ms->window_base);
    map_for_each (struct known_worker, k, &ms->known, in_known) {
        if (!k->vanished)
            continue;
        k->vanished = false;
        k->lingering = k->lingering && hold && known_worker_connected(k);
        if (k->lingering && !timer_running(&ms->linger_timer))
            timer_start(control(ms), &ms->linger_timer, LINGER_LOOK_MS);
    }
    update_all(ms);
}

static void on_workers(void *context, const struct tree_node *node)
{
    struct membership *ms = context;
    struct text_list refused_before = ms->refused;
    size_t before = 0;

    ms->tree_read = true;
    if (!node->providers_known)
        return;
    ms->refused = (struct text_list){0};
    map_for_each (struct known_worker, k, &ms->known, in_known) {
        k->marked = false;
        before += k->registered;
    }
    for (size_t i = 0; i < node->nproviders; ++i)
        take_provider(ms, &node->providers[i], &refused_before);
    note_vanished(ms, before);
    text_list_free(&refused_before);
    update_all(ms);
}

static void on_linger(struct timer *t)
{
    struct membership *ms = container_of(t, struct membership, linger_timer);
    bool any = false;

    map_for_each (struct known_worker, k, &ms->known, in_known) {
        k->lingering = k->lingering && (k->vanished || known_worker_connected(k));
        any = any || k->lingering;
    }
    if (any)
        timer_start(control(ms), &ms->linger_timer, LINGER_LOOK_MS);
    update_all(ms);
}

static void on_settings(void *context, const struct tree_node *node)
{
    struct membership *ms = context;

    live_settings_node(application_live_engine(ms->app->live), node);
}

/* ---- the whole ---- */

static void settings_changed(struct application *a)
{
    const struct membership *ms = a->membership;

    map_for_each (struct known_worker, k, &ms->known, in_known) {
        if (k->worker != NULL)
            member_settings_changed(member_of(k->worker));
    }
}

static bool is_away(struct application *a)
{
    struct tree_status tree;

    if (a->membership->tree == NULL)
        return false;
    tree_status(a->membership->tree, &tree);
    return !tree.connected;
}

enum err membership_start(struct application *a, const struct application_config *config,
                          struct diag *d)
{
    struct membership *ms = xcalloc(1, sizeof(*ms));

    ms->app = a;
    timer_init(&ms->resolve_timer, on_resolve_timer);
    timer_init(&ms->linger_timer, on_linger);
    timer_init(&ms->vanish_timer, on_window_over);
    a->membership = ms;
    a->live =
        application_live_create(a, config, config->s.tree_path != NULL ? config->s.tree_path : "/",
                                settings_changed, is_away);
    set_list(ms, config->workers, config->nworkers);
    if (config->s.tree == NULL)
        return ERR_OK;
    const struct tree_options o = {.auth_file = config->s.zookeeper_auth,
                                   .session_timeout_ms = config->s.zookeeper_session_timeout_ms};
    enum err e = tree_open(control(ms), slice_of(config->s.tree), &o, &ms->tree, d);
    if (e != ERR_OK)
        return e;
    ms->path = xstrdup(config->s.tree_path != NULL ? config->s.tree_path : "");
    char *workers = xasprintf("%s/workers", ms->path);
    ms->settings_watch = tree_watch(ms->tree, ms->path, on_settings, ms);
    ms->workers_watch = tree_watch(ms->tree, workers, on_workers, ms);
    free(workers);
    return ERR_OK;
}

void membership_reload(struct membership *ms, const struct application_config *config)
{
    set_list(ms, config->workers, config->nworkers);
    live_settings_set_yaml(application_live_engine(ms->app->live), &config->s, config->origins);
}

static void close_tree(struct membership *ms)
{
    if (ms->tree == NULL)
        return;
    membership_unregister(ms);
    if (ms->settings_watch != NULL)
        tree_unwatch(ms->settings_watch);
    if (ms->workers_watch != NULL)
        tree_unwatch(ms->workers_watch);
    tree_close(ms->tree);
    free(ms->path);
}

void membership_stop(struct application *a)
{
    struct membership *ms = a->membership;

    if (ms == NULL)
        return;
    ms->stopping = true;
    close_tree(ms);
    timer_stop(&ms->resolve_timer);
    timer_stop(&ms->linger_timer);
    timer_stop(&ms->vanish_timer);
    map_for_each_safe (struct known_worker, k, &ms->known, in_known)
        membership_forget(ms, k);
    for (size_t i = 0; i < ms->nnamed; ++i)
        named_free(ms->named[i]);
    free(ms->named);
    for (size_t i = 0; i < ms->nlisted; ++i) {
        free(ms->listed[i].text);
        free(ms->listed[i].version);
    }
    free(ms->listed);
    text_list_free(&ms->refused);
    application_live_destroy(a->live);
    a->live = NULL;
    a->membership = NULL;
    free(ms);
}

bool membership_settled(const struct membership *ms)
{
    for (size_t i = 0; i < ms->nnamed; ++i) {
        if (!ms->named[i]->answered)
            return false;
    }
    map_for_each (struct known_worker, k, &ms->known, in_known) {
        if (!known_worker_settled(k))
            return false;
    }
    return ms->tree == NULL || ms->tree_read;
}

void membership_register(struct membership *ms, const char *name, const char *admin)
{
    if (ms->tree == NULL || ms->registration != NULL)
        return;
    json_t *properties = json_pack("{s:i, s:s, s:s}", "pid", (int)getpid(), "version", RLB_VERSION,
                                   "application", ms->app->name);

    ASSERT(properties != NULL);
    if (admin != NULL)
        json_object_set_new(properties, "admin", json_string(admin));
    ms->registration = tree_register(ms->tree, ms->path, name, properties);
    json_decref(properties);
}

void membership_unregister(struct membership *ms)
{
    if (ms->registration != NULL)
        tree_unregister(ms->registration);
    ms->registration = NULL;
}

void membership_describe(const struct membership *ms, struct json_writer *w)
{
    struct tree_status tree = {0};

    if (ms->tree != NULL)
        tree_status(ms->tree, &tree);
    json_open_object(w, "tree");
    json_put_bool(w, "used", ms->tree != NULL);
    json_put_bool(w, "connected", tree.connected);
    json_put_bool(w, "registered", ms->registration != NULL && tree_registered(ms->registration));
    json_open_array(w, "refused_providers");
    for (size_t i = 0; i < ms->refused.n; ++i)
        json_put_text(w, NULL, slice_of(ms->refused.items[i]));
    json_close_array(w);
    json_close_object(w);
}
