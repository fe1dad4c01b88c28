/* SPDX-License-Identifier: Apache-2.0
 *
 * One application process: one incarnation, from the request to the keeper to its burial. Made by
 * its slot (or adopted), in exactly one of the pool's lists, the one of its state; freed when it
 * has ended, between turns. The slot's pointer to it goes first. Control loop only.
 */
#ifndef RLB_AGENT_APP_PROCESS_H
#define RLB_AGENT_APP_PROCESS_H

#include "common/base/log.h"
#include "common/net/addr.h"
#include "common/net/conn_pool.h"
#include "worker-agent/failures.h"
#include "worker-agent/keeper_link.h"
#include "worker-agent/process_output.h"
#include "worker-agent/readiness.h"

enum process_state {
#define STATE(name, text, next, doc) PROCESS_##name,
#include "worker-agent/process_state.def"
#undef STATE
};
enum { PROCESS_STATES = PROCESS_ENDED + 1 };

struct app_group;
struct app_pool;
struct slot;

struct app_process {
    struct log_subject subject;
    struct app_pool *pool;
    struct list state_node;
    enum process_state state;
    struct app_group *group; /* NULL: adopted, but of no application any more; only to be ended */
    struct slot *slot;       /* NULL: of no slot any more; only to be ended */
    char id[INCARNATION_MAX + 1];
    char version[VERSION_MAX + 1]; /* what it runs */
    pid_t pid;                     /* 0: not yet */
    struct addr addr;
    struct conn_backend *backend; /* kept connections to it; from STARTING on */
    /* Without a ready_probe, STARTING: its first request may be sent; that has been so at some
     * time. */
    bool takes_first, open;
    struct timer deadline; /* SPAWNING, STARTING: start_timeout; STOPPING: stop_timeout */
    struct readiness readiness;
    struct process_output output;
    uint64_t since_ms, ready_since_ms;
    uint64_t requests;
    unsigned busy_elsewhere; /* requests that the agent before us still has at it */
    struct loop_deferred freeing;
};

const char *process_state_text(enum process_state s);

/* Ask the keeper for a process behind S, incarnation S->incarnation. */
struct app_process *app_process_spawn(struct app_pool *pool, struct slot *s);
/* One that the keeper had: behind S, or (S NULL) to be ended. Takes K's output descriptor. */
struct app_process *app_process_adopt(struct app_pool *pool, struct slot *s,
                                      struct kept_process *k);
/* S, which knows it now, lets it go on: WAS_READY, or to be found ready. */
void app_process_go_on(struct app_process *p, bool was_ready);
/* End it: SIGTERM, after stop_timeout SIGKILL. Any state; harmless when it is ending already. */
void app_process_stop(struct app_process *p);
/* SIGKILL now. */
void app_process_kill(struct app_process *p);
/* Keep for operators that it has failed, HOW, and what it wrote last: its slot's failure, the log.
 */
void app_process_failed(struct app_process *p, enum failure_kind kind, const char *how);
/* Its first request is on its way / has come back: ANSWERED shows that it is ready. */
void app_process_first_sent(struct app_process *p);
void app_process_first_done(struct app_process *p, bool answered);
/* New time-outs are in force: kept connections follow them. */
void app_process_settings_changed(struct app_process *p);

/* ---- from the keeper ---- */
void app_process_on_spawned(struct app_process *p, pid_t pid, const char *address, int output_fd);
/* Could not be started, or has died; HOW for the log. P is freed at the end of this turn. */
void app_process_on_refused(struct app_process *p, const char *why);
void app_process_on_died(struct app_process *p, const char *how);

static inline bool app_process_ends(const struct app_process *p)
{
    return p->state >= PROCESS_STOPPING;
}

#endif
