/* SPDX-License-Identifier: Apache-2.0
 *
 * The assembled agent: owns loop, pool, front, admin address, and what the pool refers to; builds
 * them in order and drops them in reverse. agent.c starts and reloads; the other files are
 * named below. Main thread only.
 */
#pragma once

#include <stdio.h>

#include "common/program/admin.h"
#include "common/program/daemon.h"
#include "common/program/inherited.h"
#include "common/stats/metrics.h"
#include "worker-agent/front/front.h"
#include "worker-agent/front/trace_log.h"
#include "worker-agent/pool/app_pool.h"

enum agent_phase {
    AGENT_RUNNING,
    AGENT_DRAINING, /* slots announce it; requests are served as before */
    AGENT_LEAVING,  /* streams have ended; new requests are rejected, those there are finished */
    AGENT_STOPPING, /* processes are ended */
    AGENT_CLOSING   /* connections are closed; then the loop stops */
};

struct agent {
    const struct daemon_line *line;
    struct agent_config *first;  /* at the start; settings that need a restart are read from it */
    struct agent_config *config; /* the newest */
    struct loop *loop;
    bool supervisor_gone;
    struct app_pool pool;
    struct agent_front *front;
    struct trace_log *trace; /* NULL: none */
    struct admin *admin;
    struct daemon_watch *signals;
    struct timer each_second;
    struct rlimit nofile;   /* as at birth */
    struct upgrade upgrade; /* to a new agent */
    int lock_fd;
    bool drop_later; /* still root, for the supervisor to be forked */
    int exit_code;
    uint64_t started_ms;
    /* agent_stop.c's: */
    enum agent_phase phase;
    struct timer tick;
    uint64_t phase_since_ms;
    uint64_t drain_until_ms;
    bool cut;                /* after a hand-over: requests were cut */
    uint64_t quiet_since_ms; /* no request since; 0: there are some */
};

/* ---- agent_stop.c: the ways to end ---- */

/* SIGTERM, SIGUSR2, and the loss of the supervisor; CONTEXT: the agent. */
void agent_drain(void *context);
void agent_upgrade(void *context);
void agent_supervisor_lost(void *context);
/* SIGINT. */
void agent_stop_at_once(struct agent *a, int exit_code);
extern const char *const agent_phase_texts[]; /* by enum agent_phase */
/* Call before the others, once there is a loop. */
void agent_stop_init(struct agent *a);

/* Numbers of processes of an application by state. */
struct process_counts {
    size_t starting; /* including replacements */
    size_t busy, idle;
    size_t leaving; /* including those being ended */
};

/* ---- status.c: the admin pages and actions ---- */
void agent_status_add(struct agent *a);
void status_count(const struct app_group *g, struct process_counts *out);

/* ---- status_metrics.c: appended to M; and their manual as Markdown ---- */
void status_metrics(void *agent, struct metrics *m);
void status_metrics_describe(FILE *out);
