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

static void count_live(struct app_group *g)
{
    struct live_settings_counts now;
    struct live_settings_counts *told = &g->told;

    live_settings_counts(g->live, &now);
    stat_add(g->cell, AGENT_STAT_settings_changes, (int64_t)(now.changes - told->changes));
    stat_add(g->cell, AGENT_STAT_settings_refused, (int64_t)(now.refusals - told->refusals));
    stat_add(g->cell, AGENT_STAT_refused_settings, (int64_t)now.refused - (int64_t)told->refused);
    stat_add(g->cell, AGENT_STAT_settings_held, (int64_t)now.held - (int64_t)told->held);
    *told = now;
}

static void on_live_changed(void *context, bool values)
{
    struct app_group *g = context;

    count_live(g);
    for (unsigned n = 0; values && n < g->nslots; ++n)
        slot_settings_changed(g->slots[n]);
}

static bool check_live(void *context, const void *s, char why[SETTINGS_WHY_ROOM])
{
    (void)context;
    return app_settings_check(s, why);
}

static uint64_t hold_ms(void *context, const void *now)
{
    (void)now;
    return ((const struct app_group *)context)->pool->settings_hold_ms;
}

static bool is_away(void *context)
{
    const struct app_group *g = context;
    struct tree_status tree;

    if (g->pool->tree == NULL)
        return false;
    tree_status(g->pool->tree, &tree);
    return !tree.connected;
}

static struct live_settings *create_live(struct app_group *g, const struct app_config *c)
{
    static const struct settings_table *const tables[] = {&app_table};
    const struct live_settings_options o = {.loop = g->pool->loop,
                                            .tables = tables,
                                            .ntables = ARRAY_LEN(tables),
                                            .yaml = &c->s,
                                            .origins = c->origins,
                                            .path = g->path,
                                            .subject = g,
                                            .check = check_live,
                                            .hold_ms = hold_ms,
                                            .away = is_away,
                                            .changed = on_live_changed,
                                            .context = g};

    return live_settings_create(&o);
}

struct app_group *app_group_create(struct app_pool *pool, const struct app_config *c)
{
    struct app_group *g = xcalloc(1, sizeof(*g));

    g->subject.describe = describe;
    g->pool = pool;
    g->config = c;
    g->name = xstrdup(c->name);
    g->path = xstrdup(c->path);
    g->advertise = xstrdup(c->s.advertise);
    g->stats = stats_create(&agent_stats_table, 1);
    g->cell = stats_cell(g->stats, 0);
    g->live = create_live(g, c);
    g->s = live_settings_now(g->live);
    g->nmin = c->nmin;
    if (c->attach != NULL) {
        g->attach = xcalloc(c->nslots, sizeof(*g->attach));
        memcpy(g->attach, c->attach, c->nslots * sizeof(*g->attach));
    }
    failures_init(&g->failures, c->nslots);
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

static void watch_settings(struct app_group *g)
{
    const struct app_pool *pool = g->pool;

    if (pool->tree == NULL)
        return;
    char *file = xasprintf("%s/%s/tree.json", pool->state_dir, g->name);
    char *place = xasprintf("%s %s", pool->tree_url, g->path);
    g->memory = tree_memory_open(pool->loop, file, place);
    g->watch =
        settings_watch_start(pool->tree, g->path, g->live, g->memory, pool->tree_start_wait_ms);
    free(place);
    free(file);
}

void app_group_start(struct app_group *g)
{
    /* Settings first: what a process is started with and how long it may take. */
    watch_settings(g);
    for (unsigned n = 0; n < g->nslots; ++n)
        slot_start(g->slots[n]);
}

/* Whether what needs a restart is as it was. */
static bool same_shape(const struct app_group *g, const struct app_config *c)
{
    const struct app_settings *old = &g->config->s;
    bool same_attach = c->s.attach.n == old->attach.n;
    bool same_advertise = g->advertise == NULL
                              ? c->s.advertise == NULL
                              : c->s.advertise != NULL && strcmp(c->s.advertise, g->advertise) == 0;

    for (size_t i = 0; same_attach && i < c->s.attach.n; ++i)
        same_attach = strcmp(c->s.attach.items[i], old->attach.items[i]) == 0;
    return same_attach && same_advertise && strcmp(c->s.address, old->address) == 0 &&
           strcmp(c->path, g->path) == 0 && c->nslots == g->nslots && c->nmin == g->nmin;
}

void app_group_configure(struct app_group *g, const struct app_config *c)
{
    if (!same_shape(g, c))
        log_warn(g, "configuration-needs-restart",
                 "settings=\"address, advertise, path, attach, min_processes, max_processes\"");
    if (strcmp(c->spec, g->config->spec) != 0)
        log_info(g, "configuration-for-new-processes",
                 "reason=\"command, environment, root, user or version has changed\"");
    g->config = c;
    live_settings_set_yaml(g->live, &c->s, c->origins);
}

void app_group_destroy(struct app_group *g)
{
    if (g == NULL)
        return;
    settings_watch_stop(g->watch);
    tree_memory_close(g->memory);
    for (unsigned n = 0; n < g->nslots; ++n)
        slot_destroy(g->slots[n]);
    free(g->slots);
    failures_fini(&g->failures);
    live_settings_destroy(g->live);
    stats_destroy(g->stats);
    free(g->attach);
    free(g->advertise);
    free(g->path);
    free(g->name);
    free(g);
}
