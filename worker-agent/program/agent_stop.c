/* SPDX-License-Identifier: Apache-2.0
 *
 *   SIGTERM                        quiet, or grace over           no request left, or drain_timeout
 *   RUNNING ----------> DRAINING ----------------------> LEAVING -----------------------+
 *      |                                                                                v
 *      +--- SIGINT, supervisor lost ----------------------------------------------> STOPPING:
 * processes end
 *                                                                                       |
 *                                                        loop stops <---- CLOSING <-----+
 * supervisor has ended
 *
 * DRAINING: slots publish "draining" and continue to serve until load balancers have reacted: no
 * request for a while, or the grace period is over. Listening sockets close last: connections in
 * their backlog at that time are lost.
 */
#include "worker-agent/program/agent.h"

#include <signal.h>
#include <stdlib.h>

#include "common/base/log.h"

enum {
    TICK_MS = 20,
    GRACE_MS = 2000,
    /* For load balancers to take the last bytes of answers. */
    CLOSE_MS = 2000,
    /* Processes have their stop_timeout, then SIGKILL; this is for a supervisor that does not end.
     */
    SUPERVISOR_END_MS = 60000,
};

static const char *const phase_texts[] = {"running", "draining", "leaving", "stopping", "closing"};

const char *agent_phase_text(enum agent_phase p)
{
    return phase_texts[p];
}

static void enter(struct agent *a, enum agent_phase phase)
{
    log_info(NULL, "agent-phase-changed", "from=%s to=%s requests=%zu connections=%zu",
             phase_texts[a->phase], phase_texts[phase], app_pool_requests(&a->pool),
             http_server_connections(front_server(a->front)));
    a->phase = phase;
    a->phase_since_ms = loop_now_ms(a->loop);
}

static void on_admin_closed(void *context)
{
    struct agent *a = context;

    timer_stop(&a->tick);
    loop_stop(a->loop);
}

static void on_closed(void *context)
{
    struct agent *a = context;

    if (a->admin != NULL)
        admin_stop(a->admin, on_admin_closed, a);
    else
        on_admin_closed(a);
}

/* The supervisor has ended, and with it every process. */
static void close_down(struct agent *a)
{
    if (a->phase == AGENT_CLOSING)
        return;
    enter(a, AGENT_CLOSING);
    app_pool_stop_listening(&a->pool);
    http_server_drain(front_server(a->front), on_closed, a);
}

static void on_empty(void *context)
{
    struct agent *a = context;

    if (a->supervisor_gone)
        close_down(a);
    else
        supervisor_link_bye(a->supervisor);
}

static void stop_processes(struct agent *a, bool at_once)
{
    enter(a, AGENT_STOPPING);
    a->pool.empty = on_empty;
    app_pool_stop(&a->pool, at_once);
}

static bool over(const struct agent *a, uint64_t ms)
{
    return loop_now_ms(a->loop) - a->phase_since_ms >= ms;
}

static void note_quiet(struct agent *a)
{
    if (app_pool_requests(&a->pool) > 0)
        a->quiet_since_ms = 0;
    else if (a->quiet_since_ms == 0)
        a->quiet_since_ms = loop_now_ms(a->loop);
}

static bool is_quiet(const struct agent *a)
{
    return a->quiet_since_ms != 0 && loop_now_ms(a->loop) - a->quiet_since_ms >= FRONT_QUIET_MS;
}

static void step(struct agent *a)
{
    bool late = loop_now_ms(a->loop) >= a->drain_until_ms;

    note_quiet(a);
    switch (a->phase) {
    case AGENT_RUNNING:
        break;
    case AGENT_DRAINING:
        if (!is_quiet(a) && !over(a, GRACE_MS) && !late)
            break;
        app_pool_leave(&a->pool);
        enter(a, AGENT_LEAVING);
        break;
    case AGENT_LEAVING:
        if (app_pool_requests(&a->pool) > 0 && !late)
            break;
        if (app_pool_requests(&a->pool) > 0) {
            log_warn(NULL, "drain-timeout", "requests_cut=%zu", app_pool_requests(&a->pool));
            front_cut(a->front);
        }
        stop_processes(a, false);
        break;
    case AGENT_STOPPING:
        if (over(a, SUPERVISOR_END_MS) && !a->supervisor_gone) {
            log_error(NULL, "supervisor-stop-timeout", "pid=%ld",
                      (long)supervisor_link_pid(a->supervisor));
            a->exit_code = EXIT_FAILURE;
            close_down(a);
        }
        break;
    case AGENT_CLOSING:
        if (over(a, CLOSE_MS))
            front_cut(a->front);
        if (over(a, (uint64_t)2 * CLOSE_MS)) {
            log_warn(NULL, "admin-connections-cut", "reason=\"not ended in time\"");
            exit(a->exit_code);
        }
        break;
    }
}

static void on_tick(struct timer *t)
{
    struct agent *a = container_of(t, struct agent, tick);

    timer_start(a->loop, t, TICK_MS);
    step(a);
}

static void begin(struct agent *a)
{
    daemon_notify("STOPPING=1");
    timer_init(&a->tick, on_tick);
    timer_start(a->loop, &a->tick, TICK_MS);
}

void agent_close(struct agent *a)
{
    timer_init(&a->tick, on_tick);
    timer_start(a->loop, &a->tick, TICK_MS);
    close_down(a);
}

void agent_drain(struct agent *a)
{
    if (agent_handed_over(a)) {
        log_info(NULL, "stop-ignored", "requests=%zu", app_pool_requests(&a->pool));
        return;
    }
    upgrade_abandon(&a->upgrade);
    if (a->phase != AGENT_RUNNING)
        return;
    begin(a);
    a->drain_until_ms = loop_now_ms(a->loop) + a->config->s.drain_timeout_ms;
    enter(a, AGENT_DRAINING);
    app_pool_drain(&a->pool);
}

void agent_stop_at_once(struct agent *a, int exit_code)
{
    a->exit_code = exit_code;
    if (a->phase >= AGENT_CLOSING)
        return;
    upgrade_abandon(&a->upgrade);
    if (agent_handed_over(a)) {
        front_cut(a->front);
        agent_close(a);
        return;
    }
    if (a->phase == AGENT_RUNNING)
        begin(a);
    app_pool_leave(&a->pool);
    front_cut(a->front);
    stop_processes(a, true);
}

void agent_supervisor_lost(struct agent *a)
{
    a->supervisor_gone = true;
    if (agent_handed_over(a)) {
        /* It was ended by the agent that has it now. */
        agent_stop_at_once(a, EXIT_SUCCESS);
        return;
    }
    if (a->phase == AGENT_STOPPING && a->pool.count == 0) {
        close_down(a);
        return;
    }
    /* Its processes die with it (PR_SET_PDEATHSIG). A new supervisor can only come from a new
     * agent. */
    log_error(NULL, "supervisor-died", "pid=%ld action=\"exit, to be restarted\"",
              (long)supervisor_link_pid(a->supervisor));
    app_pool_supervisor_lost(&a->pool);
    a->pool.empty = NULL;
    agent_stop_at_once(a, EXIT_FAILURE);
    close_down(a);
}
