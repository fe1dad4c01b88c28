/* SPDX-License-Identifier: Apache-2.0
 *
 * The applications, and the pool of all of them. The structure is that of Phusion Passenger's
 * ApplicationPool: groups of processes under one budget.
 */
#include "worker-agent/pool/app_pool.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "worker-agent/pool/restart_watch.h"
#include "worker-agent/pool/resume_store.h"
#include "worker-agent/pool/slot.h"

/* How often the core checks for expired times: idle processes, back-offs. */
enum {
    TICK_MS = 1000,
    /* How long the supervisor may take to detect that an agent has died, and to report its
       processes: until then no process is started in their place. */
    THAW_MS = 100,
};

/* Has C decide again after a change. */
static void app_pool_tick(struct app_pool *pool, struct core *c)
{
    core_tick(c, loop_now_ms(pool->loop));
    app_pool_settle(pool);
}

/* ---- an application: its slots and settings ---- */

static void app_pool_describe(const struct log_subject *self, struct log_text *out)
{
    log_put(out, "application=%s", ((const struct app_group *)(const void *)self)->name);
}

static void publish_slots(struct app_group *g)
{
    struct slot *s;

    list_for_each_entry (s, &g->core.slots, core.node)
        slot_publish(s);
}

/* Copies the effective settings, and the host's budget, to the core; core_tick() must follow. */
static void apply_settings(struct app_group *g)
{
    const struct agent_app_settings *s = g->s;
    struct core_group *c = &g->core;
    unsigned before = c->max_processes;

    c->concurrency = s->concurrency != 0 ? (unsigned)s->concurrency : APP_CONCURRENCY_MAX;
    c->queue = s->queue == APP_QUEUE_PRIVATE ? CORE_QUEUE_PRIVATE : CORE_QUEUE_GLOBAL;
    c->max_queue = (size_t)s->max_queue;
    if (g->max_memory_bytes != s->max_memory_bytes)
        g->over_memory = (struct over_memory){.delay_ms = 0};
    g->max_memory_bytes = s->max_memory_bytes;
    if (g->at_start->attach != NULL) {
        c->max_processes = c->nslots;
        return;
    }
    c->min_processes = (unsigned)s->min_processes;
    c->max_processes = app_config_slots(g->at_start, s, g->pool->core.max);
    c->max_requests = (uint64_t)s->max_requests;
    c->max_idle_ms = s->max_idle_time_ms;
    /* Creates further slots while running. */
    while (g->started && c->nslots < c->max_processes) {
        struct slot *last = slot_create(g);

        if (!slot_listen(last)) {
            log_error(g, "slot-create-failed",
                      "slot=%u wanted=%u action=\"continue with %u slots\"", last->core.n,
                      c->max_processes, last->core.n);
            slot_destroy(last);
            break;
        }
        slot_publish(last);
    }
    /* Dormant slots are enabled or disabled by this. */
    if (g->started && c->max_processes != before)
        publish_slots(g);
}

static void apply_and_tick(struct app_group *g)
{
    apply_settings(g);
    app_pool_tick(g->pool, g->core.core);
}

/* ---- restart.txt ---- */

static void on_restart_file(void *context)
{
    struct app_group *g = context;

    log_info(g, "restart-file-changed", "directory=%s", g->config->s.restart_dir);
    group_count(g, AGENT_STAT_restarts);
    log_info(g, "application-restarting", "action=\"replace processes one after the other\"");
    ++g->core.generation;
    app_pool_tick(g->pool, g->core.core);
}

/* Whether each request gets a process that is started for it. */
static void set_one_shot(void *context, bool one_shot)
{
    struct app_group *g = context;

    if (g->core.one_shot == one_shot || g->at_start->attach != NULL)
        return;
    log_info(g, "application-one-request-per-process", "on=%s", one_shot ? "yes" : "no");
    g->core.one_shot = one_shot;
    /* Running processes were started before the file appeared. */
    g->core.generation += one_shot;
    app_pool_tick(g->pool, g->core.core);
}

/* SINCE_NS: an older file has been handled already. */
static void watch_restarts(struct app_group *g, int64_t since_ns)
{
    static const struct restart_events events = {on_restart_file, set_one_shot};
    const struct agent_app_settings *s = &g->config->s;

    if (g->at_start->attach != NULL ||
        restart_directory_is(g->restart_directory, s->root, s->restart_dir))
        return;
    restart_directory_remove(g->restart_directory);
    set_one_shot(g, false);
    g->restart_directory =
        restart_directory_add(g->pool->restarts, s->root, s->restart_dir, since_ns, &events, g);
}

/* ---- settings that follow a node of the tree ---- */

/* Has LIVE follow the node PATH. FILE, which is freed, stores the node's last contents. */
static void watch_node(const struct app_pool *pool, const char *path, struct live_settings *live,
                       char *file, struct snapshot **snapshot)
{
    char *tree = xasprintf("%s %s", pool->at_start->s.tree, path);

    *snapshot = snapshot_open(pool->loop, file, tree);
    free(tree);
    free(file);
    live_settings_follow(live, pool->tree, *snapshot, LIVE_SETTINGS_PART,
                         pool->s->tree_start_wait_ms);
}

static void on_live_changed(void *context, bool values)
{
    struct app_group *g = context;
    struct slot *s;
    const struct live_settings_counts old = g->reported;

    live_settings_counts(g->live, &g->reported);
    stat_add(g->cell, AGENT_STAT_settings_changes, (int64_t)(g->reported.changes - old.changes));
    stat_add(g->cell, AGENT_STAT_settings_rejected,
             (int64_t)(g->reported.rejections - old.rejections));
    stat_add(g->cell, AGENT_STAT_rejected_settings,
             (int64_t)g->reported.rejected - (int64_t)old.rejected);
    stat_add(g->cell, AGENT_STAT_settings_held, (int64_t)g->reported.held - (int64_t)old.held);
    if (!values)
        return;
    apply_and_tick(g);
    list_for_each_entry (s, &g->core.slots, core.node)
        slot_settings_changed(s);
}

static bool check_live(void *context, const void *settings, char why[SETTINGS_WHY_ROOM])
{
    const struct app_group *g = context;
    const struct agent_app_settings *s = settings;
    unsigned room = app_config_room(g->at_start);

    if (!app_settings_check(s, why))
        return false;
    if (g->at_start->attach != NULL || (s->max_processes <= room && s->min_processes <= room))
        return true;
    snprintf(why, SETTINGS_WHY_ROOM, "address has room for %u slots, and changes at a restart only",
             room);
    return false;
}

static uint64_t app_pool_hold_ms(void *context, unused_ const void *now)
{
    return ((const struct app_group *)context)->pool->s->settings_hold_ms;
}

static struct app_group *create_group(struct app_pool *pool, const struct app_config *c)
{
    static const struct settings_table *const tables[] = {&app_table};
    struct app_group *g = xcalloc(1, sizeof(*g));

    g->subject.describe = app_pool_describe;
    g->pool = pool;
    g->at_start = g->config = c;
    g->name = c->name;
    g->oldest_ns = restart_now_ns();
    g->stats = stats_create(&agent_stats_table, 1);
    g->cell = stats_cell(g->stats, 0);
    g->own_listeners = xcalloc(c->nlisten_addrs, sizeof(*g->own_listeners));
    for (size_t i = 0; i < c->nlisten_addrs; ++i)
        g->own_listeners[i] = (struct front_listener){.group = g, .addr = c->listen_addrs[i]};
    g->live = live_settings_create(&(struct live_settings_options){.loop = pool->loop,
                                                                   .tables = tables,
                                                                   .ntables = ARRAY_LEN(tables),
                                                                   .yaml = &c->s,
                                                                   .origins = c->origins,
                                                                   .path = c->path,
                                                                   .subject = g,
                                                                   .check = check_live,
                                                                   .hold_ms = app_pool_hold_ms,
                                                                   .changed = on_live_changed,
                                                                   .context = g});
    g->s = live_settings_now(g->live);
    core_group_init(g->at_start->attach != NULL ? &pool->attached : &pool->core, &g->core);
    while (g->core.nslots < c->nslots)
        (void)slot_create(g);
    apply_and_tick(g);
    return g;
}

/* ---- the host's settings ---- */

static void apply_budget(struct app_pool *pool)
{
    pool->core.max = (unsigned)pool->s->max_processes;
    pool->core.overlap = pool->s->replace_overlap;
}

static void on_host_changed(void *context, bool values)
{
    struct app_pool *pool = context;
    unsigned always = 0;

    /* After a handover the new agent decides; on_thaw() calls this again. */
    if (!values || pool->configuring || pool->handed_over)
        return;
    apply_budget(pool);
    for (size_t i = 0; i < pool->ngroups; ++i) {
        apply_settings(pool->groups[i]);
        if (pool->groups[i]->at_start->attach == NULL)
            always += pool->groups[i]->core.min_processes;
    }
    /* The file's values are checked together. Those of the tree come from separate nodes in any
     * order, so the maximum takes precedence, and a conflict is logged. */
    if (pool->core.max != 0 && always > pool->core.max)
        log_warn(NULL, "max-processes-too-low",
                 "max_processes=%u min_processes=%u action=\"apply max_processes\"", pool->core.max,
                 always);
    app_pool_tick(pool, &pool->core);
}

static bool wants_restart(const struct setting_row *row)
{
    return (row->when == SETTING_BOOT || row->when == SETTING_LOCAL) &&
           strcmp(row->name, "allow") != 0;
}

static uint64_t host_hold_ms(unused_ void *context, const void *now)
{
    return ((const struct agent_settings *)now)->settings_hold_ms;
}

void app_pool_start_host(struct app_pool *pool, const struct agent_config *c)
{
    static const struct settings_table *const tables[] = {&agent_table};
    const struct live_settings_options o = {.loop = pool->loop,
                                            .tables = tables,
                                            .ntables = ARRAY_LEN(tables),
                                            .yaml = &c->s,
                                            .origins = c->origins,
                                            .path = c->host_path != NULL ? c->host_path : "(none)",
                                            .hold_ms = host_hold_ms,
                                            .frozen = wants_restart,
                                            .changed = on_host_changed,
                                            .context = pool};

    pool->at_start = c;
    pool->live = live_settings_create(&o);
    pool->s = live_settings_now(pool->live);
    if (pool->tree != NULL && c->host_path == NULL) {
        log_warn(NULL, "host-name-invalid",
                 "reason=\"host name is not a valid node name\" hint=\"set host_path\"");
    } else if (pool->tree != NULL) {
        watch_node(pool, c->host_path, pool->live,
                   xasprintf("%s/" HOST_MEMORY_NAME, c->s.state_dir), &pool->snapshot);
        live_settings_recall(pool->live);
    }
    apply_budget(pool);
}

/* ---- from the supervisor ---- */

static void app_pool_adopt(struct app_pool *pool, struct adoptable_process *k)
{
    struct app_group *g = NULL;
    struct slot *found = NULL;
    struct slot *s;

    for (size_t i = 0; i < pool->ngroups; ++i) {
        if (strcmp(pool->groups[i]->name, k->application) == 0)
            g = pool->groups[i];
    }
    if (g != NULL) {
        list_for_each_entry (s, &g->core.slots, core.node)
            found = s->core.n == k->slot ? s : found;
    }
    bool fits = found != NULL && found->attached == NULL && found->core.process == NULL &&
                strcmp(k->spec, g->config->spec) == 0 && strcmp(k->note, PROCESS_NOTE_LEAVING) != 0;
    int64_t began_ns = restart_now_ns() - (int64_t)k->age_ms * 1000000;

    if (app_process_adopt(pool, fits ? found : NULL, k) && g != NULL && began_ns < g->oldest_ns)
        g->oldest_ns = began_ns;
}

struct app_process *app_pool_process(const struct app_pool *pool, struct slice id)
{
    struct app_process *p;

    list_for_each_entry (p, &pool->processes, node) {
        if (slice_is(id, p->id))
            return p;
    }
    return NULL;
}

static void on_lost(void *context)
{
    struct app_pool *pool = context;

    pool->supervisor_lost(pool->context);
}

static void on_pool_message(void *context, const char *op, const char *id, const json_t *m,
                            int *passed)
{
    struct app_pool *pool = context;
    struct app_process *p = app_pool_process(pool, slice_of(id));
    bool spawning = p != NULL && p->state == PROCESS_SPAWNING;
    struct adoptable_process k;

    if (strcmp(op, "spawned") == 0 && spawning) {
        app_process_on_spawned(p, (pid_t)json_integer_value(json_object_get(m, "pid")),
                               message_string(m, "address"), *passed);
        *passed = -1;
    } else if (strcmp(op, "spawned") == 0) {
        /* It was abandoned meanwhile. */
        supervisor_link_signal(pool->supervisor, id, SIGKILL);
    } else if (strcmp(op, "rejected") == 0 && spawning) {
        app_process_on_start_rejected(p, message_string(m, "why"));
    } else if (strcmp(op, "died") == 0 && p != NULL) {
        app_process_on_died(p, message_string(m, "how"));
    } else if (strcmp(op, "busy") == 0 && p != NULL && p->slot != NULL) {
        /* Requests of the old agent at this process still count in its concurrency. */
        core_elsewhere(&p->core, message_count(m, "n"));
        app_pool_settle(pool);
    } else if (strcmp(op, "process") == 0) {
        adoptable_process_read(m, *passed, &k);
        app_pool_adopt(pool, &k);
        *passed = k.output_fd;
    }
}

static const struct supervisor_link_events supervisor_events = {on_pool_message, on_lost};

/* ---- start and reload ---- */

bool app_pool_start(struct app_pool *pool, const struct agent_config *c,
                    struct adoptable_list *adopted)
{
    supervisor_link_start(pool->supervisor, pool->loop, &supervisor_events, pool);
    pool->store = resume_store_create();
    app_pool_start_host(pool, c);
    pool->usage = process_usage_create(pool->loop, "/proc", pool->s->usage_interval_ms);
    pool->restarts = restart_watch_create(pool->loop, &restart_times_default);
    pool->groups = xcalloc(c->napps + 1, sizeof(struct app_group *));
    while (pool->ngroups < c->napps) {
        pool->groups[pool->ngroups] = create_group(pool, c->apps[pool->ngroups]);
        ++pool->ngroups;
    }
    for (size_t i = 0; i < pool->ngroups; ++i) {
        struct app_group *g = pool->groups[i];
        struct slot *s;

        list_for_each_entry (s, &g->core.slots, core.node) {
            if (!slot_listen(s))
                return false;
        }
        for (size_t n = 0; n < g->at_start->nlisten_addrs; ++n) {
            if (!pool->listen(pool->front, &g->own_listeners[n]))
                return false;
        }
    }
    /* Adopts ready processes first: another process of the same slot was its replacement. */
    for (int ready = 1; ready >= 0; --ready) {
        for (size_t i = 0; i < adopted->n; ++i) {
            if ((strcmp(adopted->items[i].note, PROCESS_NOTE_READY) == 0) == (ready == 1))
                app_pool_adopt(pool, &adopted->items[i]);
        }
    }
    for (size_t i = 0; i < pool->ngroups; ++i) {
        struct app_group *g = pool->groups[i];

        /* Settings first: what a process is started with and how long it may take. */
        if (pool->tree != NULL)
            watch_node(pool, g->at_start->path, g->live,
                       xasprintf("%s/%s/tree.json", pool->at_start->s.state_dir, g->name),
                       &g->snapshot);
        g->started = true;
        apply_and_tick(g);
        publish_slots(g);
        watch_restarts(g, g->oldest_ns);
    }
    timer_start(pool->loop, &pool->tick, TICK_MS);
    return true;
}

void app_pool_configure(struct app_pool *pool, const struct agent_config *c)
{
    static const char *const at_start[] = {"address", "listen", "advertise", "path", "attach"};

    /* The groups are configured below, each with its own settings and the new budget together. */
    pool->configuring = true;
    live_settings_set_yaml(pool->live, &c->s, c->origins);
    pool->configuring = false;
    apply_budget(pool);
    process_usage_set_interval(pool->usage, pool->s->usage_interval_ms);
    for (size_t i = 0; i < pool->ngroups; ++i) {
        struct app_group *g = pool->groups[i];
        const struct app_config *a = agent_config_app(c, g->name);
        bool same = true;

        ASSERT(a != NULL);
        for (size_t n = 0; n < ARRAY_LEN(at_start); ++n)
            same &= settings_same(settings_find(&app_table, slice_of(at_start[n])), &g->config->s,
                                  &a->s);
        if (!same)
            log_warn(g, "config-restart-required",
                     "setting=\"address, listen, advertise, path or attach\"");
        bool absolute = a->s.restart_dir[0] == '/';
        if (strcmp(a->spec, g->config->spec) != 0) {
            log_warn(g, "config-change-deferred",
                     "reason=\"command, environment, root, user, group, socket or version has "
                     "changed\" old_processes=%u action=\"running processes are unchanged\" "
                     "hint=\"touch %s%s%s/restart.txt to replace them\"",
                     g->core.nprocesses, absolute ? "" : a->s.root, absolute ? "" : "/",
                     a->s.restart_dir);
        }
        g->config = a;
        watch_restarts(g, restart_now_ns());
        live_settings_set_yaml(g->live, &a->s, a->origins);
        apply_and_tick(g);
    }
    app_pool_settle(pool);
}

/* ---- what the core decides ---- */

static void count_end(const struct app_process *p)
{
    enum core_reason why = p->core.marked;
    static const char *const words[] = {
        [CORE_KEEP] = "none",         [CORE_IDLE] = "idle",         [CORE_GIVES_WAY] = "gives-way",
        [CORE_OVER_MAX] = "over-max", [CORE_OUTDATED] = "outdated", [CORE_SPENT] = "spent",
        [CORE_REPLACED] = "replaced",
    };

    log_info(p, "process-stopping", "reason=%s requests=%llu", words[why],
             (unsigned long long)p->core.served);
    if (why == CORE_IDLE)
        group_count(p->group, AGENT_STAT_ended_idle);
    if (why == CORE_GIVES_WAY)
        group_count(p->group, AGENT_STAT_gave_way);
    if (why == CORE_OVER_MAX)
        group_count(p->group, AGENT_STAT_ended_over_max);
}

static void carry_out(struct app_pool *pool, struct core *c)
{
    struct core_action a;
    struct app_process *p;

    while ((a = core_next(c, loop_now_ms(pool->loop))).what != CORE_NOTHING) {
        switch (a.what) {
        case CORE_REPORT:
            slot_changed(slot_of(a.slot));
            break;
        case CORE_GO:
            slot_request_continue(a.request);
            break;
        case CORE_SPAWN:
            app_process_spawn(slot_of(a.slot));
            break;
        case CORE_END:
            p = app_process_of(a.process);
            /* After a handover, the new agent decides. And the old agent may send requests to its
             * processes until it reports that it does not (app_pool_old_agent_exited). */
            if (pool->handed_over || (pool->old_agent_sends && p->adopted) ||
                app_process_is_ending(p))
                break;
            count_end(p);
            app_process_stop(p);
            break;
        case CORE_NOTHING:
            break;
        }
    }
}

static void settle_now(struct loop_deferred *d)
{
    struct app_pool *pool = container_of(d, struct app_pool, settling);
    uint64_t now_ms = loop_now_ms(pool->loop);

    carry_out(pool, &pool->core);
    carry_out(pool, &pool->attached);
    uint64_t due_ms = core_due_ms(&pool->core, now_ms);
    if (due_ms != UINT64_MAX)
        timer_start(pool->loop, &pool->due, due_ms - now_ms);
    else
        timer_stop(&pool->due);
}

static void on_due(struct timer *t)
{
    struct app_pool *pool = container_of(t, struct app_pool, due);

    app_pool_tick(pool, &pool->core);
}

static void on_app_pool_tick(struct timer *t)
{
    struct app_pool *pool = container_of(t, struct app_pool, tick);

    timer_start(pool->loop, t, TICK_MS);
    app_pool_tick(pool, &pool->core);
}

/* ---- all slots, all processes; another agent takes over ---- */

static void each_slot(struct app_pool *pool, void (*each)(struct slot *s))
{
    struct slot *s;

    for (size_t i = 0; i < pool->ngroups; ++i) {
        list_for_each_entry (s, &pool->groups[i]->core.slots, core.node)
            each(s);
    }
}

void app_pool_each_process(struct app_pool *pool, void (*each)(struct app_process *p))
{
    struct app_process *p;

    list_for_each_entry_safe (p, &pool->processes, node)
        each(p);
}

void app_pool_supervisor_lost(struct app_pool *pool)
{
    struct app_process *p;

    app_pool_leave(pool);
    list_for_each_entry_safe (p, &pool->processes, node) {
        if (p->pid > 0)
            kill(-p->pid, SIGKILL);
        app_process_on_died(p, "the supervisor has exited");
    }
}

void app_pool_hand_over(struct app_pool *pool)
{
    timer_stop(&pool->thaw);
    pool->handed_over = true;
    pool->core.stopped = true;
    app_pool_each_process(pool, app_process_hand_over);
}

static void on_thaw(struct timer *t)
{
    struct app_pool *pool = container_of(t, struct app_pool, thaw);

    pool->core.stopped = pool->draining;
    /* Apply what the tree has reported meanwhile. */
    on_host_changed(pool, true);
}

void app_pool_take_back(struct app_pool *pool)
{
    pool->handed_over = pool->sealed = false;
    app_pool_each_process(pool, app_process_take_back);
    each_slot(pool, slot_publish);
    timer_start(pool->loop, &pool->thaw, THAW_MS);
}

static void hand_over_names(struct slot *s)
{
    slot_unregister(s);
    resume_streams_end(s, RESUME_END_UPGRADE);
    /* A slot without a process can only get one from the new agent. */
    slot_reject_hopeless(s);
}

void app_pool_hand_over_names(struct app_pool *pool)
{
    each_slot(pool, hand_over_names);
}

void app_pool_old_agent_exited(struct app_pool *pool)
{
    if (!pool->old_agent_sends)
        return;
    pool->old_agent_sends = false;
    app_pool_each_process(pool, app_process_old_agent_exited);
}

/* ---- the end ---- */

void app_pool_drain(struct app_pool *pool)
{
    if (pool->draining)
        return;
    pool->draining = true;
    pool->core.stopped = true;
    each_slot(pool, slot_publish);
}

size_t app_pool_requests(const struct app_pool *pool)
{
    const struct slot *s;
    size_t n = 0;

    for (size_t i = 0; i < pool->ngroups; ++i) {
        list_for_each_entry (s, &pool->groups[i]->core.slots, core.node)
            n += s->core.nwaiting + s->nrunning;
        n += pool->groups[i]->core.nwaiting;
    }
    return n;
}

static void app_pool_leave_slot(struct slot *s)
{
    resume_streams_end(s, RESUME_END_STOP);
    slot_unregister(s);
}

void app_pool_leave(struct app_pool *pool)
{
    app_pool_drain(pool);
    if (pool->leaving)
        return;
    pool->leaving = true;
    each_slot(pool, app_pool_leave_slot);
}

void app_pool_stop(struct app_pool *pool, bool at_once)
{
    app_pool_leave(pool);
    /* The pool is leaving: all waiting requests are rejected. */
    each_slot(pool, slot_reject_hopeless);
    app_pool_each_process(pool, at_once ? app_process_kill : app_process_stop);
    if (list_empty(&pool->processes))
        pool->empty(pool->context);
}

void app_pool_stop_listening(struct app_pool *pool)
{
    for (size_t i = 0; i < pool->ngroups; ++i) {
        struct app_group *g = pool->groups[i];
        struct slot *s;

        list_for_each_entry (s, &g->core.slots, core.node)
            listener_close(&s->listens);
        for (size_t n = 0; n < g->at_start->nlisten_addrs; ++n)
            listener_close(&g->own_listeners[n]);
    }
}

/* ---- life ---- */

void app_pool_init(struct app_pool *pool)
{
    list_init(&pool->processes);
    core_init(&pool->core);
    core_init(&pool->attached);
    pool->settling.run = settle_now;
    timer_init(&pool->due, on_due);
    timer_init(&pool->tick, on_app_pool_tick);
    timer_init(&pool->thaw, on_thaw);
}

void app_pool_fini(struct app_pool *pool)
{
    timer_stop(&pool->due);
    timer_stop(&pool->tick);
    timer_stop(&pool->thaw);
    app_pool_stop_listening(pool);
    for (size_t i = 0; i < pool->ngroups; ++i) {
        struct app_group *g = pool->groups[i];
        struct slot *s;

        live_settings_unfollow(g->live);
        snapshot_close(g->snapshot);
        restart_directory_remove(g->restart_directory);
        list_for_each_entry_safe (s, &g->core.slots, core.node)
            slot_destroy(s);
        core_group_fini(&g->core);
        free(g->own_listeners);
        live_settings_destroy(g->live);
        stats_destroy(g->stats);
        free(g);
    }
    list_remove(&pool->settling.node);
    live_settings_destroy(pool->live);
    snapshot_close(pool->snapshot);
    restart_watch_destroy(pool->restarts);
    process_usage_destroy(pool->usage);
    resume_store_destroy(pool->store);
    free(pool->groups);
    free(pool->agent_name);
}
