/* SPDX-License-Identifier: Apache-2.0
 *
 * What the agent passes to a new one (common/program/upgrade.h), and its end.
 *
 * HANDING_OVER: neither agent accepts; connections wait in the queues of the sockets, which both
 * have, until the new agent got the processes from the supervisor. HANDED_OVER: the new agent
 * accepts. The old one finishes the requests it has, on connections that each get one more
 * response; if the new agent dies meanwhile, the old one takes everything back.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "worker-agent/pool/slot.h"
#include "worker-agent/program/agent.h"

enum {
    /* How long no agent may accept. */
    RELEASE_MS = 5000,
    /* After requests were cut: for clients to notice. */
    CUT_MS = 1000,
};

bool agent_handed_over(const struct agent *a)
{
    return a->upgrade.stage == UPGRADE_HANDED_OVER;
}

static const char *refuse(void *context)
{
    const struct agent *a = context;

    if (a->phase != AGENT_RUNNING)
        return "shutting down";
    return inherited_from_old(a->pool.inherited) ? "the previous upgrade has not finished" : NULL;
}

/* ---- what is passed ---- */

static void pass_slot_socket(void *context, int fd, void *tag)
{
    const struct front_listener *listener = tag;

    upgrade_pass(context, "socket", listener->group->name, front_listener_number(listener), fd);
}

static void pass_admin_socket(void *context, int fd, void *tag)
{
    (void)tag;
    upgrade_pass(context, "socket", NULL, 0, fd);
}

static void pass(void *context, struct upgrade *u)
{
    const struct agent *a = context;

    upgrade_pass(u, "lock", NULL, 0, a->lock_fd);
    http_server_each_socket(front_server(a->front), pass_slot_socket, u);
    if (a->admin != NULL)
        http_server_each_socket(admin_server(a->admin), pass_admin_socket, u);
}

static void pass_resumes(const struct agent *a, struct upgrade *u)
{
    for (size_t i = 0; i < a->pool.ngroups; ++i) {
        const struct app_group *g = a->pool.groups[i];

        for (unsigned n = 0; n < g->nslots; ++n) {
            struct text text = {0};

            slot_print_resume(g->slots[n], &text);
            if (text.len > 0)
                upgrade_pass_text(u, "resume", g->name, (int)n, text_slice(&text));
            text_fini(&text);
        }
    }
}

/* ---- the stages ---- */

static void hold(struct agent *a, bool on)
{
    http_server_hold(front_server(a->front), on);
    if (a->admin != NULL)
        http_server_hold(admin_server(a->admin), on);
}

static void release(void *context, struct upgrade *u)
{
    struct agent *a = context;

    hold(a, true);
    app_pool_hand_over(&a->pool);
    app_pool_tell_busy(&a->pool);
    pass_resumes(a, u);
}

static void drain(void *context)
{
    struct agent *a = context;

    a->cut = false;
    a->drain_until_ms = loop_now_ms(a->loop) + a->config->s.drain_timeout_ms;
    app_pool_hand_over_names(&a->pool);
    front_turn_away(a->front, true, a->config);
}

static void resume(void *context, bool draining)
{
    struct agent *a = context;

    if (draining)
        front_turn_away(a->front, false, a->config);
    hold(a, false);
    app_pool_take_back(&a->pool);
    if (draining)
        daemon_notify("READY=1");
}

/* Clients may still be connected. Their requests are passed on to the new agent, which may have to
 * end a process for them. */
static void seal_if_done(struct agent *a)
{
    if (a->pool.sealed || app_pool_requests(&a->pool) > 0)
        return;
    a->pool.sealed = true;
    upgrade_pass(&a->upgrade, "sealed", NULL, 0, -1);
}

static void step_handed_over(struct agent *a)
{
    bool late = loop_now_ms(a->loop) >= a->drain_until_ms;
    size_t requests = app_pool_requests(&a->pool);

    if ((requests == 0 && http_server_connections(front_server(a->front)) == 0) ||
        (late && a->cut)) {
        log_info(NULL, "upgrade-done", "pid=%ld requests_cut=%zu", (long)a->upgrade.program.pid,
                 requests);
        agent_close(a);
        return;
    }
    if (!late)
        return;
    log_warn(NULL, "drain-timeout", "requests_cut=%zu", requests);
    a->cut = true;
    a->drain_until_ms = loop_now_ms(a->loop) + CUT_MS;
    front_cut(a->front);
}

static void tick(void *context, struct upgrade *u)
{
    struct agent *a = context;

    if (a->phase != AGENT_RUNNING)
        return;
    app_pool_tell_busy(&a->pool);
    if (u->stage != UPGRADE_HANDED_OVER)
        return;
    seal_if_done(a);
    step_handed_over(a);
}

static const struct upgrade_ops ops = {.refuse = refuse,
                                       .pass = pass,
                                       .release = release,
                                       .drain = drain,
                                       .resume = resume,
                                       .tick = tick};

void agent_upgrade_init(struct agent *a)
{
    upgrade_init(&a->upgrade, a->loop, &ops, a);
}

void agent_upgrade_begin(struct agent *a)
{
    upgrade_begin(&a->upgrade,
                  &(struct upgrade_options){.args = a->line->args,
                                            .nofile = a->nofile,
                                            .timeout_ms = a->config->s.upgrade_timeout_ms,
                                            .release_ms = RELEASE_MS});
}
