/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/pool/app_group.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker-agent/pool/restart_watch.h"
#include "worker-agent/pool/slot.h"

static void describe(const struct log_subject *self, struct log_text *out)
{
    log_put(out, "application=%s", ((const struct app_group *)(const void *)self)->name);
}

static void count_live(struct app_group *g)
{
    struct live_settings_counts now;
    struct live_settings_counts *reported = &g->reported;

    live_settings_counts(g->live, &now);
    stat_add(g->cell, AGENT_STAT_settings_changes, (int64_t)(now.changes - reported->changes));
    stat_add(g->cell, AGENT_STAT_settings_refused, (int64_t)(now.refusals - reported->refusals));
    stat_add(g->cell, AGENT_STAT_refused_settings,
             (int64_t)now.refused - (int64_t)reported->refused);
    stat_add(g->cell, AGENT_STAT_settings_held, (int64_t)now.held - (int64_t)reported->held);
    *reported = now;
}

/* ---- slots ---- */

static void add_slot(struct app_group *g)
{
    size_t n = g->nslots + 1;

    g->slots = xrealloc(g->slots, n * sizeof(struct slot *));
    g->core_slots = xrealloc(g->core_slots, n * sizeof(struct core_slot *));
    g->slots[g->nslots] = slot_create(g, g->nslots);
    g->core_slots[g->nslots] = &g->slots[g->nslots]->core;
    ++g->nslots;
}

/* The core knows those that listen. */
static void show_slots(struct app_group *g)
{
    g->core.slots = g->core_slots;
    g->core.nslots = g->nslots;
}

/* More slots than there are, while running. */
static void grow(struct app_group *g, unsigned wanted)
{
    while (g->nslots < wanted) {
        add_slot(g);
        struct slot *s = g->slots[g->nslots - 1];

        if (!slot_listen(s)) {
            log_error(g, "slot-create-failed",
                      "slot=%u wanted=%u action=\"continue with %u slots\"", s->n, wanted, s->n);
            --g->nslots;
            slot_destroy(s);
            show_slots(g);
            return;
        }
        show_slots(g);
        slot_publish(s);
    }
}

/* Copies the effective settings to the core. The caller must then call core_tick. */
static void take_settings(struct app_group *g)
{
    const struct app_settings *s = g->s;
    struct core_group *c = &g->core;

    c->concurrency = s->concurrency != 0 ? (unsigned)s->concurrency : APP_CONCURRENCY_MAX;
    c->queue = s->queue == APP_QUEUE_PRIVATE ? CORE_QUEUE_PRIVATE : CORE_QUEUE_GLOBAL;
    c->max_queue = (size_t)s->max_queue;
    if (g->max_memory_bytes != s->max_memory_bytes)
        g->over_memory = (struct over_memory){.delay_ms = 0};
    g->max_memory_bytes = s->max_memory_bytes;
    if (g->attach == NULL) {
        unsigned wanted =
            app_config_slots(s, g->has_address ? &g->address : NULL, g->pool->core.max);

        c->min_processes = (unsigned)s->min_processes;
        c->max_processes = wanted;
        c->max_requests = (uint64_t)s->max_requests;
        c->max_idle_ms = s->max_idle_time_ms;
        if (g->started)
            grow(g, wanted);
    }
}

static void apply(struct app_group *g)
{
    take_settings(g);
    core_tick(g->core.core, loop_now_ms(g->pool->loop));
    app_pool_settle(g->pool);
}

static void publish_slots(struct app_group *g)
{
    for (unsigned n = 0; n < g->nslots; ++n)
        slot_publish(g->slots[n]);
}

void app_group_budget_changed(struct app_group *g)
{
    unsigned before = g->core.max_processes;

    take_settings(g);
    /* Cold ones come into use, or go out of it. */
    if (g->started && g->core.max_processes != before)
        publish_slots(g);
}

/* ---- restart.txt ---- */

static void on_restart_file(void *context)
{
    struct app_group *g = context;

    log_info(g, "restart-file-changed", "directory=%s", g->config->s.restart_dir);
    group_count(g, AGENT_STAT_restarts);
    log_info(g, "application-restarting", "action=\"replace processes one after the other\"");
    ++g->core.generation;
    core_tick(g->core.core, loop_now_ms(g->pool->loop));
    app_pool_settle(g->pool);
}

/* Whether each request gets a process that is started for it. */
static void set_one_shot(void *context, bool one_shot)
{
    struct app_group *g = context;

    if (g->core.one_shot == one_shot || g->attach != NULL)
        return;
    log_info(g, "application-one-request-per-process", "on=%s", one_shot ? "yes" : "no");
    g->core.one_shot = one_shot;
    /* Running processes were started before the file appeared. */
    g->core.generation += one_shot;
    core_tick(g->core.core, loop_now_ms(g->pool->loop));
    app_pool_settle(g->pool);
}

/* SINCE_NS: a file older than that has been obeyed. */
static void watch_restarts(struct app_group *g, int64_t since_ns)
{
    static const struct restart_events events = {on_restart_file, set_one_shot};
    const struct app_settings *s = &g->config->s;

    if (g->attach != NULL || restart_directory_is(g->restart_directory, s->root, s->restart_dir))
        return;
    restart_directory_remove(g->restart_directory);
    set_one_shot(g, false);
    g->restart_directory =
        restart_directory_add(g->pool->restarts, s->root, s->restart_dir, since_ns, &events, g);
}

/* ---- live settings ---- */

static void on_live_changed(void *context, bool values)
{
    struct app_group *g = context;

    count_live(g);
    if (!values)
        return;
    apply(g);
    for (unsigned n = 0; n < g->nslots; ++n)
        slot_settings_changed(g->slots[n]);
}

static bool check_live(void *context, const void *settings, char why[SETTINGS_WHY_ROOM])
{
    const struct app_group *g = context;
    const struct app_settings *s = settings;
    unsigned room = g->has_address ? slot_address_room(&g->address) : APP_SLOTS_MAX;

    if (!app_settings_check(s, why))
        return false;
    if (g->attach != NULL || (s->max_processes <= room && s->min_processes <= room))
        return true;
    snprintf(why, SETTINGS_WHY_ROOM, "address has room for %u slots, and changes at a restart only",
             room);
    return false;
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

/* Settings that stay as they were at the start, regardless of later configurations. */
static void copy_addresses(struct app_group *g, const struct app_config *c)
{
    char why[SETTINGS_WHY_ROOM];

    g->has_address = c->has_address;
    if (g->has_address) {
        enum err e = slot_address_parse(slice_of(c->s.address), 1, &g->address, why);

        ASSERT(e == ERR_OK);
    }
    if (c->attach != NULL) {
        g->attach = xcalloc(c->nslots, sizeof(*g->attach));
        memcpy(g->attach, c->attach, c->nslots * sizeof(*g->attach));
    }
    g->front_listener.group = g;
    g->nlisten_addrs = c->nlisten_addrs;
    g->listeners = xcalloc(c->nlisten_addrs + 1, sizeof(struct http_listener *));
    g->listen_addrs = xcalloc(c->nlisten_addrs + 1, sizeof(*g->listen_addrs));
    for (size_t i = 0; i < c->nlisten_addrs; ++i)
        g->listen_addrs[i] = c->listen_addrs[i];
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
    g->oldest_ns = restart_now_ns();
    g->stats = stats_create(&agent_stats_table, 1);
    g->cell = stats_cell(g->stats, 0);
    g->live = create_live(g, c);
    g->s = live_settings_now(g->live);
    copy_addresses(g, c);
    core_init(&g->attach_core);
    core_group_init(g->attach != NULL ? &g->attach_core : &pool->core, &g->core);
    failures_init(&g->failures, c->nslots);
    while (g->nslots < c->nslots)
        add_slot(g);
    show_slots(g);
    apply(g);
    return g;
}

bool app_group_listen(struct app_group *g)
{
    for (unsigned n = 0; n < g->nslots; ++n) {
        if (!slot_listen(g->slots[n]))
            return false;
    }
    for (size_t i = 0; i < g->nlisten_addrs; ++i) {
        g->listeners[i] =
            g->pool->listen(g->pool->front, &g->listen_addrs[i], &g->front_listener, g);
        if (g->listeners[i] == NULL)
            return false;
    }
    return true;
}

void app_group_stop_listening(struct app_group *g)
{
    for (unsigned n = 0; n < g->nslots; ++n)
        slot_stop_listening(g->slots[n]);
    for (size_t i = 0; i < g->nlisten_addrs; ++i)
        slot_close_listener(g->pool, &g->listeners[i], &g->listen_addrs[i]);
}

static void watch_settings(struct app_group *g)
{
    const struct app_pool *pool = g->pool;

    if (pool->tree == NULL)
        return;
    char *file = xasprintf("%s/%s/tree.json", pool->state_dir, g->name);
    char *place = xasprintf("%s %s", pool->tree_url, g->path);
    g->snapshot = snapshot_open(pool->loop, file, place);
    g->watch = settings_watch_start(pool->tree, g->path, g->live, g->snapshot, SETTINGS_WATCH_PART,
                                    pool->tree_start_wait_ms);
    free(place);
    free(file);
}

void app_group_start(struct app_group *g)
{
    /* Settings first: what a process is started with and how long it may take. */
    watch_settings(g);
    g->started = true;
    apply(g);
    publish_slots(g);
    watch_restarts(g, g->oldest_ns);
}

/* Whether what needs a restart is as it was. */
static bool same_shape(const struct app_group *g, const struct app_config *c)
{
    static const char *const names[] = {"address", "listen", "advertise", "path", "attach"};

    for (size_t i = 0; i < ARRAY_LEN(names); ++i) {
        const struct setting_row *row = settings_find(&app_table, slice_of(names[i]));

        if (!settings_same(row, &g->config->s, &c->s))
            return false;
    }
    return true;
}

static void say_old_ones_stay(const struct app_group *g)
{
    const struct app_settings *s = &g->config->s;
    bool absolute = s->restart_dir[0] == '/';

    log_warn(g, "config-change-deferred",
             "reason=\"command, environment, root, user, group, socket or version has changed\" "
             "old_processes=%u action=\"running processes are unchanged\" "
             "hint=\"touch %s%s%s/restart.txt to replace them\"",
             g->core.nprocesses, absolute ? "" : s->root, absolute ? "" : "/", s->restart_dir);
}

void app_group_configure(struct app_group *g, const struct app_config *c)
{
    if (!same_shape(g, c))
        log_warn(g, "config-restart-required",
                 "setting=\"address, listen, advertise, path or attach\"");
    bool other_processes = strcmp(c->spec, g->config->spec) != 0;
    g->config = c;
    if (other_processes)
        say_old_ones_stay(g);
    watch_restarts(g, restart_now_ns());
    live_settings_set_yaml(g->live, &c->s, c->origins);
    app_group_budget_changed(g);
    core_tick(g->core.core, loop_now_ms(g->pool->loop));
    app_pool_settle(g->pool);
}

void app_group_destroy(struct app_group *g)
{
    if (g == NULL)
        return;
    settings_watch_stop(g->watch);
    snapshot_close(g->snapshot);
    restart_directory_remove(g->restart_directory);
    app_group_stop_listening(g);
    for (unsigned n = 0; n < g->nslots; ++n)
        slot_end_attached(g->slots[n]);
    core_group_fini(&g->core);
    for (unsigned n = 0; n < g->nslots; ++n)
        slot_destroy(g->slots[n]);
    free(g->slots);
    free(g->core_slots);
    free(g->listeners);
    free(g->listen_addrs);
    slot_address_fini(&g->address);
    failures_fini(&g->failures);
    live_settings_destroy(g->live);
    stats_destroy(g->stats);
    free(g->attach);
    free(g->advertise);
    free(g->path);
    free(g->name);
    free(g);
}
