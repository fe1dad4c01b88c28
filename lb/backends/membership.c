/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of the configuration and the sources (source.c) write into one table of backends, each
 * its own part. Code that changes a backend must touch it; then every touched one is checked for
 * whether anything still holds it (backend_update). Nothing here scans the whole table when one
 * backend changes.
 */
#include "lb/backends/membership_internal.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/program/daemon.h"
#include "lb/core/limits_live.h"
#include "version.h"

enum {
    SECOND_MS = 1000,
};

/* ---- the table ---- */

struct backend *membership_find(const struct membership *ms, const char *name)
{
    if (ms == NULL)
        return NULL;
    return map_entry(map_find(&ms->known, name, strlen(name)), struct backend, in_known);
}

struct backend *membership_at(struct membership *ms, const struct addr *addr)
{
    struct addr plain = addr_plain(addr);
    const char *name = addr_text(&plain);
    struct backend *b = membership_find(ms, name);

    if (b != NULL)
        return b;
    b = xcalloc(1, sizeof(*b));
    b->app = ms->app;
    b->name = xstrdup(name);
    b->addr = plain;
    b->share = MEMBER_SHARE_ALL;
    membership_sort(b);
    map_add(&ms->known, &b->in_known, b->name, strlen(b->name));
    if (drained_names_has(ms->drained, name))
        backend_drain(b, true);
    return b;
}

void membership_store_drained(struct backend *b)
{
    drained_names_set(b->app->membership->drained, b->name, b->drained);
}

const char *membership_drained_unsaved(const struct membership *ms)
{
    return drained_names_unsaved(ms->drained);
}

void membership_forget(struct membership *ms, struct backend *b)
{
    /* At our own shutdown its name stays in the file, for the next process. */
    if (b->drained && ms->app->lb->phase <= LB_SERVING)
        drained_names_set(ms->drained, b->name, false);
    map_remove(&ms->known, &b->in_known);
    backend_destroy(b);
    membership_find_again(b);
    if (b == ms->activation.active)
        activation_end(ms);
    list_remove(&b->touched);
    list_remove(&b->in_kind);
}

void membership_touch(struct backend *b)
{
    if (!list_linked(&b->touched))
        list_push_back(&b->app->membership->touched, &b->touched);
}

void membership_update(struct membership *ms)
{
    struct backend *b;

    while ((b = list_pop_entry(&ms->touched, struct backend, touched)) != NULL) {
        source_configure(b);
        if (!backend_update(b))
            membership_forget(ms, b);
    }
    membership_reserve(ms);
}

void membership_each(const struct membership *ms,
                     void (*each)(void *context, const struct backend *b), void *context)
{
    map_for_each (struct backend, b, &ms->known, in_known)
        each(context, b);
}

static void compare_status(void *context, const struct backend *b)
{
    struct checks_rejected *r = context;
    bool fails = b->check.record.failing && b->check.record.other == 0;

    if (!b->check.active)
        return;
    if (!fails || (r->host == NULL ? b->check.status / 100 != 4 : b->check.status != r->status))
        r->status = 0;
    else
        r->status = b->check.status;
    r->host = b->name;
}

bool membership_checks_rejected(const struct membership *ms, struct checks_rejected *out)
{
    const char *host = active_check_host(ms->app);

    *out = (struct checks_rejected){0};
    membership_each(ms, compare_status, out);
    if (host != NULL)
        out->host = host;
    return out->status != 0;
}

void membership_check_failed(const struct backend *b)
{
    struct checks_rejected r;

    if (membership_checks_rejected(b->app->membership, &r))
        log_error(NULL, "health-checks-rejected",
                  "application=%s status=%d host=%s "
                  "hint=\"health_check_path, health_check_host: all workers reject these\"",
                  b->app->name, r.status, r.host);
}

/* ---- settings ---- */

static void settings_changed(struct application *a)
{
    const struct membership *ms = a->membership;

    map_for_each (struct backend, b, &ms->known, in_known) {
        if (b->worker != NULL)
            member_settings_changed(member_of(b->worker));
        active_check_settings(&b->check);
        active_check_settings(&b->standby.check);
    }
    membership_reserve(a->membership);
    limits_live_settings_changed(a->limits);
}

static void on_second(struct timer *t)
{
    struct membership *ms = container_of(t, struct membership, each_second);
    struct application *a = ms->app;

    if (a->worker_tls.tls != NULL)
        worker_tls_poll(a->worker_tls.tls, a->name);
    if (a->tiered)
        member_update_reserve(a);
    timer_start(a->lb->control, t, SECOND_MS);
}

/*
 * ---- the registered load balancers ----
 *
 * One may be registered under several names, one for each address that it listens on. Instances are
 * counted, not names. A registration without an instance (another program) is not counted.
 */

/* Returns the number of the first 16 hexadecimal digits; 0 if the instance is invalid. */
static uint64_t id_of(struct slice instance)
{
    uint64_t id = 0;

    if (instance.len != BALANCER_INSTANCE_ROOM - 1)
        return 0;
    for (size_t i = 0; i < 16; ++i) {
        int digit = ascii_hex_digit(instance.p[i]);

        if (digit < 0)
            return 0;
        id = id << 4 | (unsigned)digit;
    }
    return id;
}

/* With an agent the workers themselves store the homes that the load balancers in the tree share.
 */
static bool shares_by_tree(const struct application *a)
{
    return a->tree != NULL && a->settings->s.resume != RESUME_FROM_MEASURE;
}

void membership_set_peers(const struct membership *ms, const uint64_t ids[], size_t n, size_t self)
{
    if (!shares_by_tree(ms->app))
        pool_set_balancers(ms->app->pool, ids, n > 1 ? n : 0, n > 1 ? self : 0);
}

static void on_balancers_changed(void *context, const struct tree_view *node)
{
    struct membership *ms = context;
    const struct application *a = ms->app;
    struct balancers *b = &ms->balancers;
    uint64_t ids[HOMES_BALANCERS_MAX + 1];
    size_t n = 0;
    size_t self = 0;
    const char *name;
    json_t *properties;

    if (!node->providers_known)
        return;
    /* In order; one more than may be is enough to know that they are too many. */
    json_object_foreach (node->providers, name, properties) {
        uint64_t id = id_of(json_text(properties, BALANCER_INSTANCE));
        size_t at = 0;

        if (n == ARRAY_LEN(ids))
            break;
        while (at < n && ids[at] < id)
            ++at;
        if (id == 0 || (at < n && ids[at] == id))
            continue;
        memmove(&ids[at + 1], &ids[at], (n - at) * sizeof(ids[0]));
        ids[at] = id;
        ++n;
    }
    if (n == b->n && memcmp(ids, b->ids, n * sizeof(ids[0])) == 0)
        return;
    memcpy(b->ids, ids, n * sizeof(ids[0]));
    b->n = n;
    while (self < n && ids[self] != b->own)
        ++self;
    bool shared = n > 1 && n <= HOMES_BALANCERS_MAX && self < n && shares_by_tree(a);
    if (shares_by_tree(a))
        pool_set_balancers(a->pool, b->ids, shared ? n : 0, shared ? self : 0);
    log_info(NULL, "balancers-changed", "application=%s registered=%zu shared=%s", a->name, n,
             shared ? "yes" : "no");
}

/* ---- the whole ---- */

/* The tree that another application has opened in the same way as A; NULL: none. */
static struct tree *shared_tree(const struct application *a)
{
    static const char *const rows[] = {"tree", "zookeeper_auth", "zookeeper_session_timeout"};

    for (size_t i = 0; i < a->lb->napplications; ++i) {
        const struct application *other = a->lb->applications[i];

        if (other != a && other->tree != NULL &&
            app_settings_same(&a->settings->s, &other->settings->s, rows, ARRAY_LEN(rows)))
            return other->tree;
    }
    return NULL;
}

static enum err start_tree(struct membership *ms, struct diag *d)
{
    struct application *a = ms->app;
    const struct app_settings *s = &a->settings->s;
    const struct tree_options o = {.auth_file = s->zookeeper_auth,
                                   .session_timeout_ms = s->zookeeper_session_timeout_ms};
    struct lb *lb = a->lb;
    uint64_t wait_ms = lb->settings.tree_start_wait_ms;

    a->tree = shared_tree(a);
    if (a->tree == NULL) {
        enum err e = tree_open(lb->control, slice_of(s->tree), &o, &a->tree, d);

        if (e != ERR_OK)
            return e;
    }
    char *tree = xasprintf("%s %s", s->tree, ms->path);
    char *file = NULL;
    /* In the directory that the application has for its workers' resumes as well. */
    if (lb->settings.state_dir != NULL)
        file = xasprintf("%s/%s/tree.json", lb->settings.state_dir, a->name);
    ms->snapshot = snapshot_open(lb->control, file, tree);
    free(file);
    free(tree);
    live_settings_follow(a->live, a->tree, ms->snapshot, LIVE_SETTINGS_PART, wait_ms);
    limits_live_start(a->limits, a->tree, ms->snapshot, wait_ms);
    providers_start(ms, wait_ms);
    daemon_random_id(ms->instance);
    ms->balancers.own = id_of(slice_of(ms->instance));
    ms->balancers.watch = tree_watch(a->tree, ms->path, on_balancers_changed, ms);
    return ERR_OK;
}

enum err membership_start(struct application *a, struct application_config *config, struct diag *d)
{
    struct membership *ms = xcalloc(1, sizeof(*ms));
    const char *path = config->s.tree_path;

    ms->app = a;
    ms->path = xstrdup(path != NULL ? path : "");
    list_init(&ms->touched);
    for (size_t i = 0; i < WORKER_KINDS; ++i)
        list_init(&ms->kinds[i]);
    timer_init(&ms->each_second, on_second);
    timer_start(a->lb->control, &ms->each_second, SECOND_MS);
    list_init(&ms->sources);
    list_init(&ms->held.list);
    timer_init(&ms->held.check, held_check);
    timer_init(&ms->activation.check, activation_check);
    a->membership = ms;
    application_live_start(a, config, path != NULL ? path : "/", settings_changed);
    a->limits = limits_live_create(a, &config->limits, ms->path);
    char *file = NULL;
    if (a->lb->settings.state_dir != NULL)
        file = xasprintf("%s/%s/names.json", a->lb->settings.state_dir, a->name);
    ms->names = snapshot_open(a->lb->control, file, "names");
    free(file);
    ms->drained = drained_names_open(a->lb->control, a->lb->settings.state_dir, a->name);
    listed_workers_swap(ms, &config->workers, &config->nworkers);
    ms->calls = call_source_open(ms);
    return config->s.tree != NULL ? start_tree(ms, d) : ERR_OK;
}

void membership_recheck_providers(struct membership *ms)
{
    struct source *s;

    list_for_each_entry (s, &ms->sources, node)
        source_recheck(s);
    membership_update(ms);
}

void membership_reload(struct membership *ms, struct application_config *config)
{
    tls_workers_take(&ms->app->worker_tls, &config->worker_tls);
    map_for_each (struct backend, b, &ms->known, in_known)
        membership_touch(b);
    listed_workers_swap(ms, &config->workers, &config->nworkers);
    live_settings_set_yaml(ms->app->live, &config->s, config->origins);
    limits_live_set_yaml(ms->app->limits, &config->limits);
    application_set_rules(ms->app, ms->app->settings->limits, config->headers, config->rates);
    membership_recheck_providers(ms);
}

void membership_stop(struct application *a)
{
    struct membership *ms = a->membership;
    struct worker_config *none = NULL;
    size_t nnone = 0;

    if (ms == NULL)
        return;
    ms->stopping = true;
    timer_stop(&ms->each_second);
    if (a->tree != NULL) {
        membership_unregister(ms);
        live_settings_unfollow(a->live);
        limits_live_stop(a->limits);
        tree_unwatch(ms->balancers.watch);
        /* The pool decides alone from now on. */
        pool_set_balancers(a->pool, NULL, 0, 0);
        providers_stop(ms);
        snapshot_close(ms->snapshot);
        if (shared_tree(a) == NULL)
            tree_close(a->tree);
        a->tree = NULL;
    }
    listed_workers_swap(ms, &none, &nnone);
    call_source_close(ms->calls);
    map_for_each_safe (struct backend, b, &ms->known, in_known)
        membership_forget(ms, b);
    ASSERT(list_empty(&ms->held.list));
    timer_stop(&ms->held.check);
    timer_stop(&ms->activation.check);
    worker_configs_free(none, nnone);
    free(ms->listed.names);
    snapshot_close(ms->names);
    drained_names_close(ms->drained);
    limits_live_destroy(a->limits);
    a->limits = NULL;
    live_settings_destroy(a->live);
    a->live = NULL;
    a->membership = NULL;
    free(ms->path);
    free(ms);
}

bool membership_settled(const struct membership *ms)
{
    const struct source *s;

    map_for_each (struct backend, b, &ms->known, in_known) {
        if (b->started && b->streams && !b->feed.settled)
            return false;
    }
    list_for_each_entry (s, &ms->sources, node) {
        if (!source_settled(s))
            return false;
    }
    return listed_workers_settled(ms) && providers_settled(ms);
}

/* ---- own registration ---- */

void membership_register(struct membership *ms, char *const *names, size_t n, const char *admin)
{
    if (ms->app->tree == NULL || ms->entries != NULL)
        return;
    const struct application *a = ms->app;
    const char *description = a->settings->s.description;
    json_t *properties = json_pack("{s:i, s:s, s:s, s:s}", "pid", (int)getpid(), "version",
                                   RLB_VERSION, "application", a->name, "classifier_fingerprint",
                                   classifier_fingerprint(a->classifier));

    ASSERT(properties != NULL);
    if (admin != NULL)
        json_object_set_new(properties, "admin", json_string(admin));
    /* One that is not UTF-8 is left out. */
    if (description != NULL)
        json_object_set_new(properties, "description", json_string(description));
    json_object_set_new(properties, BALANCER_INSTANCE, json_string(ms->instance));
    ms->entries = xcalloc(n + 1, sizeof(struct tree_registration *));
    while (ms->nentries < n) {
        ms->entries[ms->nentries] =
            tree_register(ms->app->tree, ms->path, names[ms->nentries], properties);
        ++ms->nentries;
    }
    json_decref(properties);
}

void membership_unregister(struct membership *ms)
{
    while (ms->nentries > 0)
        tree_unregister(ms->entries[--ms->nentries]);
    free(ms->entries);
    ms->entries = NULL;
}

/* ---- status ---- */

bool membership_figures(const struct membership *ms, struct membership_figures *out)
{
    *out = (struct membership_figures){.registered = ms->nentries > 0,
                                       .providers = ms->providers.source.nregistered,
                                       .rejected = ms->providers.source.nrejected,
                                       .held = list_length(&ms->held.list),
                                       .called = call_source_count(ms->calls),
                                       .failing = listed_workers_failing(ms),
                                       .remembered = ms->providers.restored};
    if (ms->app->tree == NULL)
        return false;
    tree_status(ms->app->tree, &out->tree);
    for (size_t i = 0; i < ms->nentries; ++i)
        out->registered = out->registered && tree_registered(ms->entries[i]);
    return true;
}

void membership_describe(const struct membership *ms, struct json_writer *w)
{
    struct membership_figures f;
    const struct backend *b;
    bool used = membership_figures(ms, &f);

    call_source_describe(ms->calls, w);
    tree_describe_broken_links(ms->app->tree, ms->path, w);
    json_open_object(w, "tree");
    json_put_bool(w, "used", used);
    json_put_text(w, "path", slice_of(ms->path[0] != '\0' ? ms->path : "/"));
    json_put_bool(w, "registered", f.registered);
    tree_status_describe(&f.tree, w);
    json_put_int(w, "providers", (int64_t)f.providers);
    json_put_int(w, "balancers", ms->balancers.n > 1 ? (int64_t)ms->balancers.n : 1);
    json_put_int(w, "rejected", (int64_t)f.rejected);
    json_put_int(w, "held", (int64_t)f.held);
    json_put_bool(w, "remembered", f.remembered);
    if (f.remembered)
        json_put_int(w, "remembered_age_s", (int64_t)snapshot_age_s(ms->snapshot));
    if (used)
        providers_describe(ms, w);
    json_open_array(w, "held_workers");
    list_for_each_entry (b, &ms->held.list, missing)
        json_put_text(w, NULL, slice_of(b->name));
    json_close_array(w);
    char *confirm = list_empty(&ms->held.list) ? NULL : xasprintf(CONFIRM_REMOVAL, ms->app->name);
    if (confirm != NULL)
        json_put_text(w, "confirm_removal", slice_of(confirm));
    else
        json_put_null(w, "confirm_removal");
    free(confirm);
    json_close_object(w);
    listed_workers_describe(ms, w);
}
