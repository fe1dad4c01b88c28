/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/app_group.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker-agent/app_pool.h"
#include "worker-agent/slot.h"

static void describe(const struct log_subject *self, char *out, size_t room)
{
    snprintf(out, room, "application=%s", ((const struct app_group *)(const void *)self)->name);
}

static void on_live_changed(struct live_settings *l)
{
    struct app_group *g = container_of(l, struct app_group, live);

    stat_add(g->cell, AGENT_STAT_settings_changes,
             (int64_t)l->changes - stats_sum(g->stats, AGENT_STAT_settings_changes));
    stat_add(g->cell, AGENT_STAT_settings_refused,
             (int64_t)l->refused - stats_sum(g->stats, AGENT_STAT_settings_refused));
    for (unsigned n = 0; n < g->nslots; ++n)
        slot_settings_changed(g->slots[n]);
}

static void on_node(void *context, const struct tree_node *node)
{
    struct app_group *g = context;

    live_settings_node(&g->live, node, g->pool->settings_hold_ms);
}

struct app_group *app_group_create(struct app_pool *pool, const struct app_config *c)
{
    struct app_group *g = xcalloc(1, sizeof(*g));

    g->subject.describe = describe;
    g->pool = pool;
    g->config = c;
    g->name = xstrdup(c->name);
    g->path = xstrdup(c->path);
    g->stats = stats_create(&agent_stats_table, 1);
    g->cell = stats_cell(g->stats, 0);
    live_settings_init(&g->live, pool->loop, &c->s, c->origins);
    g->live.subject = g;
    g->live.changed = on_live_changed;
    g->s = &g->live.now;
    g->nmin = c->nmin;
    if (c->attach != NULL) {
        g->attach = xcalloc(c->nslots, sizeof(*g->attach));
        memcpy(g->attach, c->attach, c->nslots * sizeof(*g->attach));
    }
    g->slots = xcalloc(c->nslots + 1, sizeof(struct slot *));
    while (g->nslots < c->nslots) {
        g->slots[g->nslots] = slot_create(g, g->nslots);
        ++g->nslots;
    }
    return g;
}

bool app_group_listen(struct app_group *g)
{
    for (unsigned n = 0; n < g->nslots; ++n) {
        if (!slot_listen(g->slots[n]))
            return false;
    }
    return true;
}

void app_group_start(struct app_group *g)
{
    /* Settings first: what a process is started with and how long it may take. */
    if (g->pool->tree != NULL)
        g->watch = tree_watch(g->pool->tree, g->path, on_node, g);
    for (unsigned n = 0; n < g->nslots; ++n)
        slot_start(g->slots[n]);
}

/* Whether what needs a restart is as it was. */
static bool same_shape(const struct app_group *g, const struct app_config *c)
{
    const struct app_settings *old = &g->config->s;
    bool same_attach = c->s.attach.n == old->attach.n;

    for (size_t i = 0; same_attach && i < c->s.attach.n; ++i)
        same_attach = strcmp(c->s.attach.items[i], old->attach.items[i]) == 0;
    return same_attach && strcmp(c->s.address, old->address) == 0 &&
           strcmp(c->path, g->path) == 0 && c->nslots == g->nslots && c->nmin == g->nmin;
}

void app_group_configure(struct app_group *g, const struct app_config *c)
{
    if (!same_shape(g, c))
        log_warn(g, "configuration-needs-restart",
                 "settings=\"address, path, attach, min_processes, max_processes\"");
    if (strcmp(c->spec, g->config->spec) != 0)
        log_info(g, "configuration-for-new-processes",
                 "reason=\"command, environment, root, user or version has changed\"");
    g->config = c;
    live_settings_base(&g->live, &c->s, c->origins);
}

void app_group_destroy(struct app_group *g)
{
    if (g == NULL)
        return;
    tree_unwatch(g->watch);
    for (unsigned n = 0; n < g->nslots; ++n)
        slot_destroy(g->slots[n]);
    free(g->slots);
    live_settings_fini(&g->live);
    stats_destroy(g->stats);
    free(g->attach);
    free(g->path);
    free(g->name);
    free(g);
}
