/* SPDX-License-Identifier: Apache-2.0
 *
 *           SIGTERM            quiet, or grace over           no request left, or drain_timeout
 *   RUNNING -------> DRAINING ----------------------> LEAVING --------------------+
 *      |                                                                          v
 *      +--- SIGINT, supervisor lost ----------------------> STOPPING: processes end
 *                                                                                 |
 *                         loop stops <---- CLOSING <---- supervisor has ended ----+
 *
 * DRAINING: slots publish "draining" and continue to serve until load balancers have reacted: no
 * request for a while, or the grace period is over. Listening sockets close last: connections in
 * their backlog at that time are lost.
 *
 * SIGUSR2: a new agent takes over (common/program/upgrade.h), and this one exits. HANDING_OVER:
 * neither agent accepts; connections wait in the backlogs of the sockets, which both have, until
 * the new agent has received the processes from the supervisor. HANDED_OVER: the new agent accepts.
 * The old one finishes its requests, on connections that each get one more response; if the new
 * agent dies meanwhile, the old one takes everything back.
 */
#include "worker-agent/program/agent.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "worker-agent/pool/slot.h"

enum {
    TICK_MS = 20,
    GRACE_MS = 2000,
    /* For load balancers to take the last bytes of responses. */
    CLOSE_MS = 2000,
    /* For a supervisor that does not end. Processes have their stop_timeout, then SIGKILL. */
    SUPERVISOR_END_MS = 60000,
    /* How long no agent may accept. */
    RELEASE_MS = 5000,
    /* After requests were cut: for clients to notice. */
    CUT_MS = 1000,
};

const char *const agent_phase_texts[] = {"running", "draining", "leaving", "stopping", "closing"};

static void agent_stop_enter(struct agent *a, enum agent_phase phase)
{
    log_info(NULL, "agent-phase-changed", "from=%s to=%s requests=%zu connections=%zu",
             agent_phase_texts[a->phase], agent_phase_texts[phase], app_pool_requests(&a->pool),
             http_server_connections(a->front->server));
    a->phase = phase;
    a->phase_since_ms = loop_active_ms(a->loop);
}

static void on_admin_closed(void *context)
{
    struct agent *a = context;

    timer_stop(&a->tick);
    loop_stop(a->loop);
}

static void on_closed(void *context)
{
    admin_stop(((const struct agent *)context)->admin, on_admin_closed, context);
}

/* The supervisor has ended, and with it every process. */
static void close_down(struct agent *a)
{
    if (a->phase == AGENT_CLOSING)
        return;
    agent_stop_enter(a, AGENT_CLOSING);
    app_pool_stop_listening(&a->pool);
    http_server_drain(a->front->server, on_closed, a);
}

static void on_empty(void *context)
{
    struct agent *a = context;

    if (a->supervisor_gone)
        close_down(a);
    else
        supervisor_link_detach(a->pool.supervisor);
}

static void stop_processes(struct agent *a, bool at_once)
{
    agent_stop_enter(a, AGENT_STOPPING);
    a->pool.empty = on_empty;
    app_pool_stop(&a->pool, at_once);
}

static bool phase_is_over(const struct agent *a, uint64_t ms)
{
    return loop_active_ms(a->loop) - a->phase_since_ms >= ms;
}

static void on_agent_stop_tick(struct timer *t)
{
    struct agent *a = container_of(t, struct agent, tick);
    uint64_t now_ms = loop_active_ms(a->loop);
    bool late = now_ms >= a->drain_until_ms;
    size_t requests = app_pool_requests(&a->pool);

    timer_start(a->loop, t, TICK_MS);
    switch (a->phase) {
    case AGENT_RUNNING:
        break;
    case AGENT_DRAINING:
        if (requests > 0)
            a->quiet_since_ms = 0;
        else if (a->quiet_since_ms == 0)
            a->quiet_since_ms = now_ms;
        if ((a->quiet_since_ms == 0 || now_ms - a->quiet_since_ms < FRONT_QUIET_MS) &&
            !phase_is_over(a, GRACE_MS) && !late)
            break;
        app_pool_leave(&a->pool);
        agent_stop_enter(a, AGENT_LEAVING);
        break;
    case AGENT_LEAVING:
        if (requests > 0 && !late)
            break;
        if (requests > 0) {
            log_warn(NULL, "drain-timeout", "requests_cut=%zu", requests);
            front_cut(a->front);
        }
        stop_processes(a, false);
        break;
    case AGENT_STOPPING:
        if (phase_is_over(a, SUPERVISOR_END_MS) && !a->supervisor_gone) {
            log_error(NULL, "supervisor-stop-timeout", "pid=%ld",
                      (long)supervisor_link_pid(a->pool.supervisor));
            a->exit_code = EXIT_FAILURE;
            close_down(a);
        }
        break;
    case AGENT_CLOSING:
        if (phase_is_over(a, CLOSE_MS))
            front_cut(a->front);
        if (phase_is_over(a, (uint64_t)2 * CLOSE_MS)) {
            log_warn(NULL, "admin-connections-cut", "reason=\"not ended in time\"");
            daemon_exit(a->exit_code);
        }
        break;
    }
}

static void agent_stop_begin(struct agent *a)
{
    daemon_notify("STOPPING=1");
    timer_start(a->loop, &a->tick, TICK_MS);
}

/* Closes connections, then ends the loop: another agent has the processes. */
static void close_handed_over(struct agent *a)
{
    timer_start(a->loop, &a->tick, TICK_MS);
    close_down(a);
}

void agent_drain(void *context)
{
    struct agent *a = context;

    if (a->upgrade.stage == UPGRADE_HANDED_OVER) {
        log_info(NULL, "stop-ignored", "requests=%zu", app_pool_requests(&a->pool));
        return;
    }
    upgrade_abandon(&a->upgrade);
    if (a->phase != AGENT_RUNNING)
        return;
    agent_stop_begin(a);
    a->drain_until_ms = loop_active_ms(a->loop) + a->config->s.drain_timeout_ms;
    agent_stop_enter(a, AGENT_DRAINING);
    app_pool_drain(&a->pool);
}

void agent_stop_at_once(struct agent *a, int exit_code)
{
    a->exit_code = exit_code;
    if (a->phase >= AGENT_CLOSING)
        return;
    upgrade_abandon(&a->upgrade);
    if (a->upgrade.stage == UPGRADE_HANDED_OVER) {
        front_cut(a->front);
        close_handed_over(a);
        return;
    }
    if (a->phase == AGENT_RUNNING)
        agent_stop_begin(a);
    app_pool_leave(&a->pool);
    front_cut(a->front);
    stop_processes(a, true);
}

void agent_supervisor_lost(void *context)
{
    struct agent *a = context;

    a->supervisor_gone = true;
    if (a->upgrade.stage == UPGRADE_HANDED_OVER) {
        /* It was ended by the agent that has it now. */
        agent_stop_at_once(a, EXIT_SUCCESS);
        return;
    }
    if (a->phase == AGENT_STOPPING && list_empty(&a->pool.processes)) {
        close_down(a);
        return;
    }
    /* Its processes die with it (PR_SET_PDEATHSIG). Only a new agent can fork a new supervisor. */
    log_error(NULL, "supervisor-died", "pid=%ld action=\"exit, to be restarted\"",
              (long)supervisor_link_pid(a->pool.supervisor));
    app_pool_supervisor_lost(&a->pool);
    a->pool.empty = NULL;
    agent_stop_at_once(a, EXIT_FAILURE);
    close_down(a);
}

/* ---- an upgrade: what is passed ---- */

static const char *agent_stop_reject(void *context)
{
    const struct agent *a = context;

    if (a->phase != AGENT_RUNNING)
        return "shutting down";
    return inherited_from_old(a->pool.inherited) ? "the previous upgrade has not finished" : NULL;
}

static void pass_slot_socket(void *context, int fd, void *tag)
{
    const struct front_listener *listener = tag;

    upgrade_pass(context, "socket", listener->group->name,
                 listener->slot != NULL ? (int)listener->slot->core.n : -1, fd);
}

static void agent_stop_pass(void *context, struct upgrade *u)
{
    const struct agent *a = context;

    upgrade_pass(u, "lock", NULL, 0, a->lock_fd);
    http_server_each_socket(a->front->server, pass_slot_socket, u);
    admin_pass_sockets(a->admin, u);
}

/* ---- its stages ---- */

static void agent_stop_hold(struct agent *a, bool on)
{
    http_server_hold(a->front->server, on);
    admin_hold(a->admin, on);
}

static void agent_stop_release(void *context, struct upgrade *u)
{
    struct agent *a = context;

    agent_stop_hold(a, true);
    app_pool_hand_over(&a->pool);
    app_pool_each_process(&a->pool, app_process_report_busy);
    for (size_t i = 0; i < a->pool.ngroups; ++i) {
        const struct app_group *g = a->pool.groups[i];
        struct slot *s;

        list_for_each_entry (s, &g->core.slots, core.node) {
            struct text text = {0};

            slot_print_resume(s, &text);
            if (text.len > 0)
                upgrade_pass_text(u, "resume", g->name, (int)s->core.n, text_slice(&text));
            text_fini(&text);
        }
    }
}

static void agent_stop_drain(void *context)
{
    struct agent *a = context;

    a->cut = false;
    a->drain_until_ms = loop_active_ms(a->loop) + a->config->s.drain_timeout_ms;
    app_pool_hand_over_names(&a->pool);
    front_decline_idle(a->front, true, a->config);
}

static void resume_serving(void *context, bool draining)
{
    struct agent *a = context;

    if (draining)
        front_decline_idle(a->front, false, a->config);
    agent_stop_hold(a, false);
    app_pool_take_back(&a->pool);
    if (draining)
        daemon_notify("READY=1");
}

static void agent_stop_tick(void *context, struct upgrade *u)
{
    struct agent *a = context;
    bool late = loop_active_ms(a->loop) >= a->drain_until_ms;
    size_t requests = app_pool_requests(&a->pool);

    if (a->phase != AGENT_RUNNING)
        return;
    app_pool_each_process(&a->pool, app_process_report_busy);
    if (u->stage != UPGRADE_HANDED_OVER)
        return;
    /* Clients may still be connected. Their requests are passed on to the new agent, which may
     * have to end a process for them. */
    if (!a->pool.sealed && requests == 0) {
        a->pool.sealed = true;
        upgrade_pass(u, "sealed", NULL, 0, -1);
    }
    if ((requests == 0 && http_server_connections(a->front->server) == 0) || (late && a->cut)) {
        log_info(NULL, "upgrade-done", "pid=%ld requests_cut=%zu", (long)u->program.pid, requests);
        close_handed_over(a);
    } else if (late) {
        log_warn(NULL, "drain-timeout", "requests_cut=%zu", requests);
        a->cut = true;
        a->drain_until_ms = loop_active_ms(a->loop) + CUT_MS;
        front_cut(a->front);
    }
}

static const struct upgrade_ops ops = {.reject = agent_stop_reject,
                                       .pass = agent_stop_pass,
                                       .release = agent_stop_release,
                                       .drain = agent_stop_drain,
                                       .resume = resume_serving,
                                       .tick = agent_stop_tick};

void agent_stop_init(struct agent *a)
{
    timer_init(&a->tick, on_agent_stop_tick);
    upgrade_init(&a->upgrade, a->loop, &ops, a);
}

void agent_upgrade(void *context)
{
    struct agent *a = context;

    upgrade_begin(&a->upgrade,
                  &(struct upgrade_options){.argv = a->line->argv,
                                            .nofile = a->nofile,
                                            .timeout_ms = a->config->s.upgrade_timeout_ms,
                                            .release_ms = RELEASE_MS});
}
