/* SPDX-License-Identifier: Apache-2.0
 *
 * Source of the shape: the ApplicationPool algorithm (groups of processes under one budget).
 */
#include "worker-agent/pool/app_pool.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "worker-agent/pool/app_group.h"
#include "worker-agent/pool/host_settings.h"
#include "worker-agent/pool/restart_watch.h"
#include "worker-agent/pool/slot.h"

/* How often the core checks for expired times: idle processes, back-offs. */
enum {
    TICK_MS = 1000,
    /* How long the supervisor may take to detect that an agent has died, and to report its
       processes: until then no process is started in their place. */
    THAW_MS = 100,
};

static void settle_now(struct loop_deferred *d);
static void on_due(struct timer *t);
static void on_tick(struct timer *t);
static void on_thaw(struct timer *t);

/* ---- life ---- */

void app_pool_init(struct app_pool *pool)
{
    for (size_t i = 0; i < PROCESS_STATES; ++i)
        list_init(&pool->by_state[i]);
    core_init(&pool->core);
    pool->process_events = &slot_process_events;
    pool->settling.run = settle_now;
    timer_init(&pool->due, on_due);
    timer_init(&pool->tick, on_tick);
    timer_init(&pool->thaw, on_thaw);
}

static struct app_group *find_group(const struct app_pool *pool, const char *name)
{
    for (size_t i = 0; i < pool->ngroups; ++i) {
        if (strcmp(pool->groups[i]->name, name) == 0)
            return pool->groups[i];
    }
    return NULL;
}

/* ---- the host's settings ---- */

static void take_budget(struct app_pool *pool)
{
    const struct agent_settings *s = host_settings_now(pool->host);

    pool->core.max = (unsigned)s->max_processes;
    pool->core.overlap = s->replace_overlap;
}

/* The file's values are checked together. Those of the tree come from separate nodes in any order,
 * so the maximum takes precedence, and a conflict is logged. */
static void warn_of_minima(const struct app_pool *pool)
{
    unsigned always = 0;

    for (size_t i = 0; i < pool->ngroups; ++i) {
        if (pool->groups[i]->attach == NULL)
            always += pool->groups[i]->core.min_processes;
    }
    if (pool->core.max != 0 && always > pool->core.max)
        log_warn(NULL, "max-processes-too-low",
                 "max_processes=%u min_processes=%u action=\"apply max_processes\"", pool->core.max,
                 always);
}

static void on_host_changed(void *context)
{
    struct app_pool *pool = context;

    /* Handed over, it is the other agent's; on_thaw looks again. */
    if (pool->configuring || pool->handed_over)
        return;
    take_budget(pool);
    for (size_t i = 0; i < pool->ngroups; ++i)
        app_group_budget_changed(pool->groups[i]);
    warn_of_minima(pool);
    core_tick(&pool->core, loop_now_ms(pool->loop));
    app_pool_settle(pool);
}

static void start_host(struct app_pool *pool, const struct agent_config *c)
{
    const struct host_settings_options o = {.loop = pool->loop,
                                            .tree = pool->tree,
                                            .tree_url = pool->tree_url,
                                            .state_dir = pool->state_dir,
                                            .wait_ms = pool->tree_start_wait_ms,
                                            .changed = on_host_changed,
                                            .context = pool};

    pool->host = host_settings_create(&o, c);
    host_settings_start(pool->host);
    take_budget(pool);
}

/* ---- start and reload ---- */

static void adopt(struct app_pool *pool, struct kept_process *k)
{
    struct app_group *g = find_group(pool, k->application);
    struct slot *s = g != NULL && k->slot < g->nslots ? g->slots[k->slot] : NULL;
    bool fits = s != NULL && s->attached == NULL && s->core.process == NULL &&
                strcmp(k->spec, g->config->spec) == 0 && !app_process_was_leaving(k);

    if (!fits) {
        (void)app_process_adopt(pool, NULL, k);
        return;
    }
    int64_t began_ns = restart_now_ns() - (int64_t)k->age_ms * 1000000;
    if (slot_adopt(s, k) && began_ns < g->oldest_ns)
        g->oldest_ns = began_ns;
}

bool app_pool_start(struct app_pool *pool, const struct agent_config *c, struct kept_list *adopted)
{
    start_host(pool, c);
    pool->usage = process_usage_create(pool->loop, "/proc", c->s.usage_interval_ms);
    pool->restarts = restart_watch_create(pool->loop, &restart_times_default);
    pool->groups = xcalloc(c->napps + 1, sizeof(struct app_group *));
    pool->attached = xcalloc(c->napps + 1, sizeof(struct app_group *));
    for (size_t i = 0; i < c->napps; ++i) {
        struct app_group *g = app_group_create(pool, c->apps[i]);

        pool->groups[pool->ngroups++] = g;
        if (g->attach != NULL)
            pool->attached[pool->nattached++] = g;
    }
    for (size_t i = 0; i < pool->ngroups; ++i) {
        if (!app_group_listen(pool->groups[i]))
            return false;
    }
    /* Adopts ready processes first: another process of the same slot was its replacement. */
    for (int ready = 1; ready >= 0; --ready) {
        for (size_t i = 0; i < adopted->n; ++i) {
            if (app_process_was_ready(&adopted->items[i]) == (ready == 1))
                adopt(pool, &adopted->items[i]);
        }
    }
    for (size_t i = 0; i < pool->ngroups; ++i)
        app_group_start(pool->groups[i]);
    timer_start(pool->loop, &pool->tick, TICK_MS);
    return true;
}

void app_pool_fini(struct app_pool *pool)
{
    timer_stop(&pool->due);
    timer_stop(&pool->tick);
    timer_stop(&pool->thaw);
    for (size_t i = 0; i < pool->ngroups; ++i)
        app_group_destroy(pool->groups[i]);
    list_remove(&pool->settling.node);
    host_settings_destroy(pool->host);
    restart_watch_destroy(pool->restarts);
    process_usage_destroy(pool->usage);
    free(pool->attached);
    free(pool->groups);
}

void app_pool_configure(struct app_pool *pool, const struct agent_config *c)
{
    /* The groups follow below, each with its own settings and the budget at once. */
    pool->configuring = true;
    host_settings_configure(pool->host, c);
    pool->configuring = false;
    take_budget(pool);
    pool->settings_hold_ms = c->s.settings_hold_ms;
    process_usage_set_interval(pool->usage, c->s.usage_interval_ms);
    for (size_t i = 0; i < pool->ngroups; ++i) {
        const struct app_config *a = agent_config_app(c, pool->groups[i]->name);

        ASSERT(a != NULL);
        app_group_configure(pool->groups[i], a);
    }
    app_pool_settle(pool);
}

/* ---- what the core decides ---- */

static void count_end(const struct app_process *p, enum core_reason why)
{
    static const char *const words[] = {
        [CORE_KEEP] = "none",         [CORE_IDLE] = "idle",         [CORE_GIVES_WAY] = "gives-way",
        [CORE_OVER_MAX] = "over-max", [CORE_OUTDATED] = "outdated", [CORE_SPENT] = "spent",
        [CORE_REPLACED] = "replaced",
    };

    log_info(p, "process-stopping", "reason=%s requests=%llu", words[why],
             (unsigned long long)p->requests);
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

    while (core_next(c, loop_now_ms(pool->loop), &a) != CORE_NOTHING) {
        switch (a.what) {
        case CORE_TELL:
            slot_changed(slot_of(a.slot));
            break;
        case CORE_GO:
            slot_request_go(a.request);
            break;
        case CORE_SPAWN:
            slot_spawn(slot_of(a.slot));
            break;
        case CORE_END:
            /* After a handover, the new agent decides. And the old agent may send requests to its
             * processes until it reports that it does not (app_pool_before_gone). */
            if (pool->handed_over || (pool->before_sends && app_process_of(a.process)->adopted))
                break;
            if (!app_process_ends(app_process_of(a.process)))
                count_end(app_process_of(a.process), a.why);
            app_process_stop(app_process_of(a.process));
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
    for (size_t i = 0; i < pool->nattached; ++i)
        carry_out(pool, &pool->attached[i]->attach_core);
    uint64_t due_ms = core_due_ms(&pool->core, now_ms);
    if (due_ms != UINT64_MAX)
        timer_start(pool->loop, &pool->due, due_ms - now_ms);
    else
        timer_stop(&pool->due);
}

static void on_due(struct timer *t)
{
    struct app_pool *pool = container_of(t, struct app_pool, due);

    core_tick(&pool->core, loop_now_ms(pool->loop));
    app_pool_settle(pool);
}

static void on_tick(struct timer *t)
{
    struct app_pool *pool = container_of(t, struct app_pool, tick);

    timer_start(pool->loop, t, TICK_MS);
    core_tick(&pool->core, loop_now_ms(pool->loop));
    app_pool_settle(pool);
}

/* ---- from the supervisor ---- */

struct app_process *app_pool_process(const struct app_pool *pool, struct slice id)
{
    for (size_t i = 0; i < PROCESS_ENDED; ++i) {
        struct list *it;

        list_for_each (it, &pool->by_state[i]) {
            struct app_process *p = list_entry(it, struct app_process, state_node);

            if (slice_is(id, p->id))
                return p;
        }
    }
    return NULL;
}

static void on_spawned(void *context, const char *id, pid_t pid, const char *address, int output_fd)
{
    struct app_pool *pool = context;
    struct app_process *p = app_pool_process(pool, slice_of(id));

    if (p != NULL && p->state == PROCESS_SPAWNING) {
        app_process_on_spawned(p, pid, address, output_fd);
        return;
    }
    /* It was given up. */
    supervisor_link_signal(pool->supervisor, id, SIGKILL);
    if (output_fd >= 0)
        close(output_fd);
}

static void on_refused(void *context, const char *id, const char *why)
{
    struct app_process *p = app_pool_process(context, slice_of(id));

    if (p != NULL && p->state == PROCESS_SPAWNING)
        app_process_on_refused(p, why);
}

static void on_died(void *context, const char *id, const char *how)
{
    struct app_process *p = app_pool_process(context, slice_of(id));

    if (p != NULL)
        app_process_on_died(p, how);
}

/* Requests of the old agent at this process still count in its concurrency. */
static void on_busy(void *context, const char *id, unsigned n)
{
    struct app_process *p = app_pool_process(context, slice_of(id));

    if (p == NULL)
        return;
    p->busy_elsewhere = n;
    if (p->slot == NULL)
        return;
    core_elsewhere(&p->core, n);
    app_pool_settle(p->pool);
}

static void on_left(void *context, struct kept_process *k)
{
    adopt(context, k);
}

static void on_lost(void *context)
{
    struct app_pool *pool = context;

    pool->supervisor_lost(pool->context);
}

const struct supervisor_link_events app_pool_supervisor_events = {
    .spawned = on_spawned,
    .refused = on_refused,
    .died = on_died,
    .busy = on_busy,
    .left = on_left,
    .lost = on_lost,
};

void app_pool_supervisor_lost(struct app_pool *pool)
{
    app_pool_leave(pool);
    for (size_t i = 0; i < PROCESS_ENDED; ++i) {
        while (!list_empty(&pool->by_state[i])) {
            struct app_process *p = list_first(&pool->by_state[i], struct app_process, state_node);

            if (p->pid > 0)
                kill(-p->pid, SIGKILL);
            app_process_on_died(p, "the supervisor has exited");
        }
    }
}

/* ---- another agent takes over ---- */

static void each_slot(struct app_pool *pool, void (*each)(struct slot *s))
{
    for (size_t i = 0; i < pool->ngroups; ++i) {
        for (unsigned n = 0; n < pool->groups[i]->nslots; ++n)
            each(pool->groups[i]->slots[n]);
    }
}

static void each_process(struct app_pool *pool, void (*each)(struct app_process *p))
{
    for (size_t i = 0; i < PROCESS_ENDED; ++i) {
        struct list *it;
        struct list *next;

        list_for_each_safe (it, next, &pool->by_state[i])
            each(list_entry(it, struct app_process, state_node));
    }
}

void app_pool_hand_over(struct app_pool *pool)
{
    timer_stop(&pool->thaw);
    pool->handed_over = true;
    pool->core.stopped = true;
    each_process(pool, app_process_hand_over);
}

static void on_thaw(struct timer *t)
{
    struct app_pool *pool = container_of(t, struct app_pool, thaw);

    pool->core.stopped = pool->draining;
    /* Apply what the tree has reported meanwhile. */
    on_host_changed(pool);
}

void app_pool_take_back(struct app_pool *pool)
{
    pool->handed_over = pool->sealed = false;
    each_process(pool, app_process_take_back);
    each_slot(pool, slot_publish);
    timer_start(pool->loop, &pool->thaw, THAW_MS);
}

static void hand_over_names(struct slot *s)
{
    slot_unregister(s);
    resume_streams_end(s, RESUME_END_UPGRADE);
    /* A slot without a process can only get one from the new agent. */
    slot_refuse_hopeless(s);
}

void app_pool_hand_over_names(struct app_pool *pool)
{
    each_slot(pool, hand_over_names);
}

void app_pool_before_gone(struct app_pool *pool)
{
    if (!pool->before_sends)
        return;
    pool->before_sends = false;
    each_process(pool, app_process_before_gone);
}

void app_pool_tell_busy(struct app_pool *pool)
{
    each_process(pool, app_process_tell_busy);
}

void app_pool_let_go(struct app_pool *pool)
{
    each_process(pool, app_process_let_go);
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
    size_t n = 0;

    for (size_t i = 0; i < pool->ngroups; ++i) {
        for (unsigned k = 0; k < pool->groups[i]->nslots; ++k) {
            const struct slot *s = pool->groups[i]->slots[k];

            n += s->core.nwaiting + s->nrunning;
        }
        n += pool->groups[i]->core.nwaiting;
    }
    return n;
}

static void leave(struct slot *s)
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
    each_slot(pool, leave);
}

static void refuse_waiting(struct slot *s)
{
    slot_refuse_waiting(s, SLOT_STOPPED);
}

void app_pool_stop(struct app_pool *pool, bool at_once)
{
    app_pool_leave(pool);
    each_slot(pool, refuse_waiting);
    for (size_t i = 0; i < pool->ngroups; ++i)
        slot_refuse_waiting_any(pool->groups[i], SLOT_STOPPED);
    for (size_t i = 0; i < PROCESS_KILLING; ++i) {
        struct list *it;
        struct list *next;

        list_for_each_safe (it, next, &pool->by_state[i]) {
            struct app_process *p = list_entry(it, struct app_process, state_node);

            if (at_once)
                app_process_kill(p);
            else
                app_process_stop(p);
        }
    }
    if (pool->count == 0)
        pool->empty(pool->context);
}

void app_pool_stop_listening(struct app_pool *pool)
{
    for (size_t i = 0; i < pool->ngroups; ++i)
        app_group_stop_listening(pool->groups[i]);
}
