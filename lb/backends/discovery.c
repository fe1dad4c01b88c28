/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree as a source of workers (source.c): its providers, and those of the previous run.
 *
 * The first reading is compared with the snapshot of a previous run: a tree that was wiped
 * meanwhile does not remove workers that are alive.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/net/addr.h"
#include "lb/backends/membership_internal.h"

enum {
    /* From a change until the providers are given to the snapshot, which has a delay of its own. */
    STORE_DELAY_MS = 50,
    STORE_PAUSE_MS = 1000,
};

static const char part_name[] = "providers"; /* of the snapshot */

void providers_store(struct membership *ms)
{
    if (ms->app->tree == NULL || timer_running(&ms->providers.store))
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

bool providers_settled(const struct membership *ms)
{
    return ms->app->tree == NULL || ms->providers.received || ms->providers.restored;
}

/* ---- status ---- */

void providers_describe(const struct membership *ms, struct json_writer *w)
{
    if (ms->providers.problem != NULL)
        json_put_text(w, "providers_problem", slice_of(ms->providers.problem));
    else
        json_put_null(w, "providers_problem");
    source_describe_rejected(&ms->providers.source, w, "rejected_providers", false);
    source_describe_rejected(&ms->providers.source, w, "provider_rejections", true);
}
