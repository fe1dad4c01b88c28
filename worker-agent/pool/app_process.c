/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/pool/slot.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/program/daemon.h"
#include "worker-agent/process/proc_table.h"

const char *const process_state_texts[] = {
#define STATE(name, text, next, doc) text,
#include "worker-agent/config/process_state.def"
};

#define TO(name) (1U << PROCESS_##name)
static const unsigned legal_next[] = {
#define STATE(name, text, next, doc) (next),
#include "worker-agent/config/process_state.def"
};
#undef TO

/* ---- life ---- */

enum {
    /* Maximum time for the supervisor to respond, and for a stray process to end. */
    SUPERVISOR_RESPONSE_MS = 30000,
    STRAY_STOP_MS = 10000,
    /* Maximum time until the death of a process is reported after its connection broke. */
    HOLD_MS = 50,
    /* Before the second readiness probe; doubled up to the maximum. */
    PROBE_DELAY_FIRST_MS = 10,
    PROBE_DELAY_MAX_MS = 250,
};

/* P is to replace its slot's process. */
static bool is_replacement(const struct app_process *p)
{
    return p->slot != NULL && p->slot->core.replacement == &p->core;
}

static void process_describe(const struct log_subject *self, struct log_text *out)
{
    const struct app_process *p = (const struct app_process *)(const void *)self;

    log_put(out, "application=%s slot=%d pid=%ld", p->group != NULL ? p->group->name : "-",
            p->slot != NULL ? (int)p->slot->core.n : -1, (long)p->pid);
}

static void process_free_now(struct loop_deferred *d)
{
    struct app_process *p = container_of(d, struct app_process, freeing);

    last_lines_fini(&p->output.last);
    free(p);
}

/* The only writer of a process's state. P may be freed at the end of the loop iteration. */
static void process_enter(struct app_process *p, enum process_state state)
{
    struct app_pool *pool = p->pool;
    uint64_t now_ms = loop_now_ms(pool->loop);

    ASSERT((legal_next[p->state] & 1U << state) != 0);
    p->state = state;
    p->since_ms = now_ms;
    if (state == PROCESS_READY)
        p->ready_since_ms = now_ms;
    if (state != PROCESS_ENDED) {
        if (p->slot != NULL)
            slot_publish(p->slot);
        return;
    }
    list_remove(&p->node);
    if (p->group != NULL)
        stat_add(p->group->cell, AGENT_STAT_processes, -1);
    if (pool->draining && list_empty(&pool->processes) && pool->empty != NULL)
        pool->empty(pool->context);
}

void app_process_failed(struct app_process *p, enum failure_kind kind, const char *how)
{
    struct failure what = {.kind = kind, .pid = p->pid, .at_ms = loop_now_ms(p->pool->loop)};
    struct slot *s = p->slot;

    if (s == NULL)
        return;
    what.slot = s->core.n;
    snprintf(what.id, sizeof(what.id), "%s", p->id);
    snprintf(what.how, sizeof(what.how), "%s", how);
    failure_record(&s->failure, &what, process_output_last(&p->output));
    s->group->last_failure = s->failure;
    failure_log(s->failure, p);
}

/* P failed to start, or stopped serving unexpectedly: counts that in ROW, arms the back-off. */
static void process_fail(struct app_process *p, enum failure_kind kind, const char *how,
                         enum agent_stat row)
{
    app_process_failed(p, kind, how);
    group_count(p->group, row);
    slot_process_failed(p);
}

static void stop_probing(struct app_process *p)
{
    http_fetch_stop(&p->probe);
    timer_stop(&p->probe_retry);
}

static void process_stop_waiting(struct app_process *p)
{
    stop_probing(p);
    warm_up_stop(&p->warm_up);
    timer_stop(&p->deadline);
    timer_stop(&p->shutdown);
    timer_stop(&p->held);
}

void app_process_release(struct app_process *p)
{
    struct slot *s = p->slot;

    process_stop_waiting(p);
    usage_stop(&p->usage);
    process_output_stop(&p->output);
    if (p->backend != NULL) {
        conn_backend_retire(p->backend);
        conn_backend_release(p->backend);
        p->backend = NULL;
    }
    /* Not linked: the process enters PROCESS_ENDED here, which it does not leave. */
    loop_defer(p->pool->loop, &p->freeing);
    if (s != NULL) {
        slot_abandon_running(&p->core);
        core_exited(&p->core);
        slot_reject_hopeless(s);
    } else {
        --p->pool->core.strays;
    }
    p->slot = NULL;
    process_enter(p, PROCESS_ENDED);
    app_pool_settle(p->pool);
}

/* ---- ending it ---- */

static void process_end(struct app_process *p, int signal_number)
{
    /* No further request is sent to it. */
    if (p->slot != NULL)
        core_end(&p->core, CORE_REPLACED);
    app_pool_settle(p->pool);
    process_stop_waiting(p);
    if (p->state == PROCESS_SPAWNING) {
        /* It has no pid yet. When it is reported as spawned, its id is unknown: it is killed. */
        app_process_release(p);
        return;
    }
    /* Another agent must not regard it as one that serves. */
    supervisor_link_note(p->pool->supervisor, p->id, PROCESS_NOTE_LEAVING);
    supervisor_link_signal(p->pool->supervisor, p->id, signal_number);
    if (signal_number == SIGTERM)
        timer_start(p->pool->loop, &p->deadline,
                    p->group != NULL ? p->group->s->stop_timeout_ms : STRAY_STOP_MS);
    process_enter(p, signal_number == SIGTERM ? PROCESS_STOPPING : PROCESS_KILLING);
}

void app_process_kill(struct app_process *p)
{
    if (p->state != PROCESS_KILLING)
        process_end(p, SIGKILL);
}

void app_process_stop(struct app_process *p)
{
    if (!app_process_is_ending(p))
        process_end(p, SIGTERM);
}

void app_process_detach(struct app_process *p)
{
    if (p->slot == NULL || p->core.state == CORE_LEAVING)
        return;
    log_info(p, "process-detached", "reason=\"requested by an operator\" requests=%u",
             p->core.sessions);
    core_detach(&p->core, CORE_REPLACED);
    app_pool_settle(p->pool);
}

void app_process_unreachable(struct app_process *p)
{
    if (p->slot == NULL || p->core.state == CORE_LEAVING)
        return;
    log_warn(p, "process-detached", "reason=\"connection failed\" requests=%u", p->core.sessions);
    slot_process_failed(p);
    app_pool_settle(p->pool);
}

void app_process_begin_leaving(struct app_process *p)
{
    uint64_t patience_ms = p->group->s->shutdown_timeout_ms;

    if (p->state >= PROCESS_LEAVING || p->state == PROCESS_SPAWNING)
        return;
    process_stop_waiting(p);
    supervisor_link_note(p->pool->supervisor, p->id, PROCESS_NOTE_LEAVING);
    if (patience_ms != 0)
        timer_start(p->pool->loop, &p->shutdown, patience_ms);
    process_enter(p, PROCESS_LEAVING);
}

static void on_shutdown(struct timer *t)
{
    struct app_process *p = container_of(t, struct app_process, shutdown);

    log_warn(p, "process-shutdown-timeout", "requests=%u action=SIGTERM", p->core.sessions);
    app_process_stop(p);
}

void app_process_hold(struct app_process *p)
{
    if (p->slot == NULL)
        return;
    core_hold(&p->core, true);
    timer_start(p->pool->loop, &p->held, HOLD_MS);
}

static void on_held_over(struct timer *t)
{
    struct app_process *p = container_of(t, struct app_process, held);

    core_hold(&p->core, false);
    app_pool_settle(p->pool);
}

enum { START_HINT_MAX = 100 + 2 * ADDR_TEXT_MAX };

/* What an operator can do about P, which is not ready in time. Reads /proc. */
static void start_hint(const struct app_process *p, char out[START_HINT_MAX])
{
    uid_t any;
    struct addr at;
    unsigned port = addr_port(&p->addr);
    bool by_port = p->group->config->listen == LISTEN_BY_PORT;
    bool listens = process_listener_find("/proc", p->pid, port, &at);
    bool reached = by_port ? port_owner_find("/proc", port, p->pid, 0, &any) != PORT_NONE
                           : listens && addr_equal(&at, &p->addr);

    if (p->probe.connect_errno == EPERM)
        snprintf(out, START_HINT_MAX, "its socket must be bound by its user, and not be a link");
    else if (p->probe_status == 0 && listens && !reached)
        snprintf(out, START_HINT_MAX, "it listens at %s and must listen at %s", addr_text(&at),
                 addr_text(&p->addr));
    else if (p->probe_status == 0 && by_port && !listens)
        snprintf(out, START_HINT_MAX, "it does not listen yet; it must listen at %s",
                 addr_text(&p->addr));
    else
        snprintf(out, START_HINT_MAX, "raise start_timeout if it is only slow");
}

static void on_process_deadline(struct timer *t)
{
    struct app_process *p = container_of(t, struct app_process, deadline);
    char hint[START_HINT_MAX];

    switch (p->state) {
    case PROCESS_SPAWNING:
        log_error(p, "process-spawn-failed", "reason=\"the supervisor does not respond\"");
        app_process_on_start_rejected(p, "no response");
        return;
    case PROCESS_STARTING:
        start_hint(p, hint);
        log_warn(p, "process-start-timeout",
                 "start_timeout_ms=%llu last_status=%d action=\"stop it and retry\" hint=\"%s\"",
                 (unsigned long long)p->group->s->start_timeout_ms, p->probe_status, hint);
        process_fail(p, FAILURE_START_TIMEOUT, "", AGENT_STAT_spawn_failures);
        app_process_stop(p);
        return;
    case PROCESS_STOPPING:
        log_warn(p, "process-stop-timeout", "action=SIGKILL");
        app_process_kill(p);
        return;
    case PROCESS_READY:
    case PROCESS_LEAVING:
    case PROCESS_KILLING:
    case PROCESS_ENDED:
        break;
    }
    UNREACHABLE();
}

/* ---- getting ready ---- */

static void become_ready(struct app_process *p)
{
    bool succeeds = is_replacement(p);

    /* The other agent ends it: it must not get the slot's requests here. */
    if (p->pool->handed_over && succeeds)
        return;
    timer_stop(&p->deadline);
    supervisor_link_note(p->pool->supervisor, p->id, PROCESS_NOTE_READY);
    log_info(p, "process-ready", "instance=%s after_ms=%llu", p->id,
             (unsigned long long)(loop_now_ms(p->pool->loop) - p->since_ms));
    p->slot->start_failures = 0;
    core_ready(&p->core, loop_now_ms(p->pool->loop));
    if (succeeds) {
        p->group->replace_delay_ms = 0;
        group_count(p->group, AGENT_STAT_replaced);
    }
    process_enter(p, PROCESS_READY);
    app_pool_settle(p->pool);
}

static void accept_first(struct app_process *p)
{
    /* From now on its first request, which may arrive much later, shows whether it serves. */
    timer_stop(&p->deadline);
    core_probing(&p->core, true);
    slot_publish(p->slot);
    app_pool_settle(p->pool);
}

static void on_warm(struct warm_up *w)
{
    struct app_process *p = container_of(w, struct app_process, warm_up);

    log_info(p, "process-warmed-up", "responded=%u failed=%u", w->responded, w->failed);
    stat_add(p->group->cell, AGENT_STAT_warm_up_requests, w->responded + w->failed);
    stat_add(p->group->cell, AGENT_STAT_warm_up_failures, w->failed);
    become_ready(p);
}

/*
 * A port that was free when it was chosen may be bound by any local user before the process does:
 * what responds at P's port must be P. False: it is not, and P is being ended.
 */
static bool owns_its_port(struct app_process *p)
{
    const struct app_config *c = p->group->config;
    uid_t started_as = c->user.required ? c->user.uid : geteuid();
    uid_t foreign = 0;
    char how[FAILURE_HOW_MAX];

    if (c->listen != LISTEN_BY_PORT)
        return true;
    switch (port_owner_find("/proc", addr_port(&p->addr), p->pid, started_as, &foreign)) {
    case PORT_OWN:
        return true;
    case PORT_FOREIGN:
        snprintf(how, sizeof(how), "port %u: the listener is of user %ld and not of this process",
                 addr_port(&p->addr), (long)foreign);
        break;
    case PORT_NONE:
        snprintf(how, sizeof(how), "port %u: the listener is closed", addr_port(&p->addr));
        break;
    case PORT_UNKNOWN:
        snprintf(how, sizeof(how), "port %u: /proc/net/tcp cannot be read", addr_port(&p->addr));
        break;
    }
    log_error(p, "process-port-not-owned", "reason=\"%s\" action=\"stop it and retry\"", how);
    process_fail(p, FAILURE_PORT_TAKEN, how, AGENT_STAT_spawn_failures);
    app_process_stop(p);
    return false;
}

static void on_probed(struct http_fetch *f, enum err e)
{
    struct app_process *p = container_of(f, struct app_process, probe);

    if (f->status != 0)
        p->probe_status = f->status;
    if (e != ERR_OK || f->status >= 500) {
        timer_start(p->pool->loop, &p->probe_retry, p->probe_delay_ms);
        p->probe_delay_ms *= 2;
        if (p->probe_delay_ms > PROBE_DELAY_MAX_MS)
            p->probe_delay_ms = PROBE_DELAY_MAX_MS;
        return;
    }
    stop_probing(p);
    if (!owns_its_port(p))
        return;
    if (p->group->config->s.ready_probe == NULL)
        accept_first(p);
    /* A replacement is warmed up while the slot's requests still go to the old process. */
    else if (is_replacement(p) && warm_up_start(&p->warm_up, p->pool->loop, &p->addr,
                                                &p->slot->targets, p->group->s->warm_up_timeout_ms))
        timer_stop(&p->deadline);
    else
        become_ready(p);
}

static void probe_ready(struct app_process *p)
{
    static const struct http_fetch_events events = {.done = on_probed};
    const char *path = p->group->config->s.ready_probe;
    struct http_fetch_request q = {.addr = &p->addr,
                                   .timeout_ms = p->group->s->start_timeout_ms,
                                   .head_only = true,
                                   .events = &events};

    if (path != NULL) {
        text_addf(&q.bytes,
                  "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: resumelb-agent\r\n"
                  "Connection: close\r\n\r\n",
                  path, p->group->config->s.ready_probe_host);
    }
    http_fetch_start(&p->probe, p->pool->loop, &q);
}

static void on_process_retry(struct timer *t)
{
    probe_ready(container_of(t, struct app_process, probe_retry));
}

static void begin_starting(struct app_process *p)
{
    const struct app_config *c = p->group->config;
    bool binds_itself = c->listen == LISTEN_BY_PORT || c->listen == LISTEN_BY_SOCKET;

    if (c->s.ready_probe == NULL && !binds_itself) {
        accept_first(p);
        return;
    }
    timer_start(p->pool->loop, &p->deadline, p->group->s->start_timeout_ms);
    p->probe_delay_ms = PROBE_DELAY_FIRST_MS;
    probe_ready(p);
}

void app_process_first_done(struct app_process *p, bool responded)
{
    if (p->state != PROCESS_STARTING)
        return;
    if (responded)
        become_ready(p);
    else
        accept_first(p);
}

/* ---- creation ---- */

static struct app_process *process_create(struct app_pool *pool, struct slot *s, const char *id)
{
    struct app_process *p = xcalloc(1, sizeof(*p));

    p->pool = pool;
    p->subject.describe = process_describe;
    p->slot = s;
    p->group = s != NULL ? s->group : NULL;
    snprintf(p->id, sizeof(p->id), "%s", id);
    snprintf(p->version, sizeof(p->version), "%s", s != NULL ? s->group->config->s.version : "");
    /* With {socket} the user of the process can write the directory of its socket. */
    if (s != NULL && s->group->config->listen == LISTEN_BY_SOCKET &&
        s->group->config->user.required && s->group->config->user.uid != geteuid())
        p->addr.owner = s->group->config->user.uid;
    p->freeing.run = process_free_now;
    p->output.fd = -1;
    p->warm_up.done = on_warm;
    timer_init(&p->deadline, on_process_deadline);
    timer_init(&p->probe_retry, on_process_retry);
    timer_init(&p->shutdown, on_shutdown);
    timer_init(&p->held, on_held_over);
    p->since_ms = loop_now_ms(pool->loop);
    p->state = PROCESS_SPAWNING;
    list_push_back(&pool->processes, &p->node);
    if (p->group != NULL)
        group_count(p->group, AGENT_STAT_processes);
    return p;
}

void app_process_spawn(struct slot *s)
{
    struct app_pool *pool = s->group->pool;
    char id[INSTANCE_MAX + 1];

    daemon_random_id(id);
    /* The instance of a dormant slot is already published. */
    struct app_process *p = process_create(pool, s, s->instance_used ? id : s->instance);
    core_enter(&s->core, &p->core, loop_now_ms(pool->loop));
    group_count(s->group, AGENT_STAT_spawns);
    timer_start(pool->loop, &p->deadline, SUPERVISOR_RESPONSE_MS);
    supervisor_link_send(pool->supervisor, spawn_request_message(s->group->config, s->core.n, p->id,
                                                                 s->group->s->stop_timeout_ms));
}

/* ---- connections ---- */

static bool make_backend(struct app_process *p, const char *address)
{
    uid_t owner = p->addr.owner;

    if (addr_parse(slice_of(address), &p->addr) != ERR_OK)
        return false;
    p->addr.owner = owner;
    if (p->group == NULL)
        return true;
    const struct conn_pool_settings cs = group_conn_settings(p->group);
    /* No limit here: the slot limits how many are in use at once. */
    p->backend = conn_pool_backend(p->pool->conn_pool, slice_of(address), slice_of(p->id), 0, &cs);
    return true;
}

void app_process_settings_changed(struct app_process *p)
{
    const struct conn_pool_settings cs = group_conn_settings(p->group);

    p->usage.limit_bytes = p->group->s->max_memory_bytes;
    if (p->backend != NULL)
        conn_backend_set(p->backend, 0, &cs);
}

/* ---- what it uses ---- */

static void on_over_memory(struct usage_target *t)
{
    struct app_process *p = container_of(t, struct app_process, usage);
    uint64_t now_ms = loop_now_ms(p->pool->loop);
    uint64_t lasted_ms = 0;

    /* Not one that is being replaced, or has served no request: the next would be no better. */
    if (p->state != PROCESS_READY || p->core.marked != CORE_KEEP || p->core.served == 0)
        return;
    if (t->over_since_ms > p->ready_since_ms)
        lasted_ms = t->over_since_ms - p->ready_since_ms;
    if (!over_memory_may_replace(&p->group->over_memory, lasted_ms, now_ms))
        return;
    log_warn(p, "process-over-max-memory",
             "memory_bytes=%llu max_memory_bytes=%llu processes=%u requests=%llu ready_ms=%llu "
             "next_in_ms=%llu",
             (unsigned long long)t->usage.pss_bytes, (unsigned long long)t->limit_bytes,
             t->usage.processes, (unsigned long long)p->core.served,
             (unsigned long long)(now_ms - p->ready_since_ms),
             (unsigned long long)p->group->over_memory.delay_ms);
    if (over_memory_warns(&p->group->over_memory)) {
        log_warn(
            p->group, "max-memory-too-low",
            "memory_bytes=%llu max_memory_bytes=%llu reason=\"processes are over it soon after "
            "they are ready\" action=\"replace one at a time, doubling the interval\" "
            "hint=\"raise max_memory\"",
            (unsigned long long)t->usage.pss_bytes, (unsigned long long)t->limit_bytes);
    }
    group_count(p->group, AGENT_STAT_over_max_memory);
    log_info(p, "process-replacement-scheduled",
             "reason=\"over max_memory\" action=\"replace it, then stop it\"");
    core_mark(&p->core, CORE_REPLACED);
    app_pool_settle(p->pool);
}

static void watch_usage(struct app_process *p)
{
    p->usage.over = on_over_memory;
    p->usage.limit_bytes = p->group->s->max_memory_bytes;
    usage_start(p->pool->usage, &p->usage, p->pid);
}

/* ---- from the supervisor ---- */

void app_process_on_spawned(struct app_process *p, pid_t pid, const char *address, int output_fd)
{
    timer_stop(&p->deadline);
    p->pid = pid;
    watch_usage(p);
    process_output_start(&p->output, p->pool->loop, output_fd, p, p->group->cell);
    bool good = make_backend(p, address);
    log_info(p, "process-spawned", "instance=%s address=%s", p->id, address);
    process_enter(p, PROCESS_STARTING);
    if (good) {
        begin_starting(p);
        return;
    }
    log_error(p, "process-address-invalid",
              "reason=\"supervisor and agent are of incompatible versions\"");
    app_process_kill(p);
}

bool app_process_adopt(struct app_pool *pool, struct slot *s, struct adoptable_process *k)
{
    struct app_process *p = process_create(pool, s, k->id);
    bool good = make_backend(p, k->address) && s != NULL;

    p->pid = k->pid;
    p->adopted = true;
    process_output_start(&p->output, pool->loop, k->output_fd, p,
                         s != NULL ? s->group->cell : NULL);
    k->output_fd = -1;
    log_info(p, "process-adopted", "instance=%s address=%s state=%s action=%s", p->id, k->address,
             k->note, s != NULL ? "\"continue\"" : "\"end it\"");
    if (!good) {
        p->slot = NULL;
        ++pool->core.strays;
        process_enter(p, PROCESS_STARTING);
        if (!pool->old_agent_sends)
            app_process_stop(p);
        return false;
    }
    core_enter(&s->core, &p->core, loop_now_ms(pool->loop));
    core_elsewhere(&p->core, k->busy);
    process_enter(p, PROCESS_STARTING);
    group_count(s->group, AGENT_STAT_adopted);
    watch_usage(p);
    p->has_served = strcmp(k->note, PROCESS_NOTE_READY) == 0;
    if (p->has_served)
        become_ready(p);
    else
        begin_starting(p);
    return true;
}

void app_process_on_start_rejected(struct app_process *p, const char *why)
{
    log_error(p, "process-spawn-failed", "reason=\"%s\"", why);
    process_fail(p, FAILURE_NOT_SPAWNED, why, AGENT_STAT_spawn_failures);
    app_process_release(p);
}

void app_process_on_died(struct app_process *p, const char *how)
{
    uint64_t lived_ms = loop_now_ms(p->pool->loop) - p->since_ms;

    /* A process without an application waits for the old agent before it is stopped. */
    if (app_process_is_ending(p) || p->group == NULL) {
        log_info(p, "process-stopped", "how=\"%s\"", how);
    } else if (p->has_served && strcmp(how, SUPERVISOR_EXIT_SUCCESS) == 0) {
        /* For example its server's own limit of requests. Waiting requests get the next process. */
        log_info(p, "process-exited", "requests=%llu action=\"start another if it is needed\"",
                 (unsigned long long)p->core.served);
    } else {
        bool ended_well = p->state == PROCESS_STARTING && strcmp(how, SUPERVISOR_EXIT_SUCCESS) == 0;
        const char *hint = ended_well ? "let it run in the foreground, not as a daemon"
                                      : "see process-last-output and the kernel's log";

        log_warn(p, "process-died", "how=\"%s\" state=%s state_ms=%llu requests=%llu hint=\"%s\"",
                 how, process_state_texts[p->state], (unsigned long long)lived_ms,
                 (unsigned long long)p->core.served, hint);
        /* Its last output may still be in the pipe. */
        process_output_stop(&p->output);
        process_fail(p, p->ready_since_ms != 0 ? FAILURE_DIED : FAILURE_DIED_STARTING, how,
                     AGENT_STAT_deaths);
    }
    app_process_release(p);
}

/* ---- another agent takes over: both have the process, only the new one may end it ---- */

void app_process_hand_over(struct app_process *p)
{
    /* Two readers would split its lines between them. */
    process_output_mute(&p->output, true);
    /* The new agent ends replacements that are not ready yet: they must get no requests. */
    if (is_replacement(p)) {
        stop_probing(p);
        timer_stop(&p->deadline);
        timer_stop(&p->held);
        core_hold(&p->core, true);
    }
}

void app_process_take_back(struct app_process *p)
{
    process_output_mute(&p->output, false);
    /* The supervisor ignored requests of this agent meanwhile. */
    if (p->state == PROCESS_STOPPING)
        supervisor_link_signal(p->pool->supervisor, p->id, SIGTERM);
    else if (p->state == PROCESS_KILLING)
        supervisor_link_signal(p->pool->supervisor, p->id, SIGKILL);
    else if (p->slot != NULL && p->core.ending)
        app_process_stop(p);
    else if (is_replacement(p)) {
        core_hold(&p->core, false);
        if (p->state == PROCESS_STARTING)
            begin_starting(p);
    }
}

void app_process_old_agent_exited(struct app_process *p)
{
    if (p->slot == NULL || p->core.ending)
        app_process_stop(p);
}

void app_process_report_busy(struct app_process *p)
{
    unsigned n = 0;

    if (p->slot != NULL)
        n = p->core.places;
    /* These requests precede any that another agent has for the process. */
    if (p->slot != NULL && p->slot->core.process == &p->core)
        n += (unsigned)p->slot->core.nwaiting;
    if (n == p->busy_reported || p->pid == 0)
        return;
    p->busy_reported = n;
    supervisor_link_busy(p->pool->supervisor, p->id, n);
}
