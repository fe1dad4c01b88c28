/* SPDX-License-Identifier: Apache-2.0
 *
 * The assembled agent: owns loop, supervisor's socket, pool, front, tree, writer and admin address;
 * builds them in order and drops them in reverse. agent.c starts and reloads; the other files are
 * named below. Main thread only.
 */
#ifndef RLB_AGENT_PROGRAM_AGENT_H
#define RLB_AGENT_PROGRAM_AGENT_H

#include <stdio.h>

#include "common/program/admin.h"
#include "common/program/daemon.h"
#include "common/program/inherited.h"
#include "common/stats/metrics.h"
#include "worker-agent/front/front.h"
#include "worker-agent/front/trace_log.h"
#include "worker-agent/pool/app_pool.h"

enum {
    /* Processes of other users have their sockets below it: they may pass, not look. */
    AGENT_STATE_DIR_MODE = 0711,
};

enum agent_phase {
    AGENT_RUNNING,
    AGENT_DRAINING, /* slots announce it; requests are served as before */
    AGENT_LEAVING,  /* streams have ended; new requests are refused, those there are finished */
    AGENT_STOPPING, /* processes are ended */
    AGENT_CLOSING   /* connections are closed; then the loop stops */
};

struct agent {
    const struct daemon_line *line;
    struct agent_config *config;
    struct loop *loop;
    struct supervisor_link *supervisor;
    bool supervisor_gone;
    struct app_pool pool;
    struct front *front;
    struct trace_log *trace; /* NULL: none */
    struct resume_store *store;
    struct tree *tree;
    struct conn_pool *conn_pool;
    struct admin *admin;
    struct daemon_watch *signals;
    struct timer each_second;
    char *name; /* host and pid, for registrations */
    char *state_dir;
    char *tree_url;         /* as at start; NULL: none */
    char *admin_text;       /* the first admin address; NULL: none */
    struct rlimit nofile;   /* as at birth */
    struct upgrade upgrade; /* to a new agent */
    int lock_fd;
    bool drop_later; /* agent_rights.c: still root, for the supervisor to be forked */
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

/* --describe settings|stats. False: no such page. */
bool agent_describe(const char *what, FILE *out);
/* Start, run until a signal, stop; the exit code. CONFIG is a struct agent_config, which is taken;
 * CONTEXT is not used. */
int agent_run(void *context, void *config, const struct daemon_line *line);

/* ---- agent_stop.c: the ways to end ---- */

const char *agent_phase_text(enum agent_phase p);
/* SIGTERM, SIGINT, and the loss of the supervisor. */
void agent_drain(struct agent *a);
void agent_stop_at_once(struct agent *a, int exit_code);
void agent_supervisor_lost(struct agent *a);
/* Close connections, then end the loop: no process is left, or another agent has them. */
void agent_close(struct agent *a);

/* ---- agent_rights.c: before any thread is there ---- */

/* The configuration is read, and it is known whether there is an old agent. False: it cannot be
 * (logged). */
bool agent_rights_settle(struct agent *a) must_check;
/* The supervisor is there: what rights are left are given up. False: they cannot be (logged). */
bool agent_rights_drop(struct agent *a) must_check;

/* ---- upgrade.c ---- */

void agent_upgrade_init(struct agent *a);
/* SIGUSR2. */
void agent_upgrade_begin(struct agent *a);
/* Whether a new agent serves: this one only finishes its requests. */
bool agent_handed_over(const struct agent *a);

/* Numbers of processes of an application by state. */
struct process_counts {
    size_t starting; /* including replacements */
    size_t busy, idle;
    size_t leaving; /* including those being ended */
};

/* ---- status.c: the admin pages and actions ---- */
void agent_status_add(struct agent *a);
void status_count(const struct app_group *g, struct process_counts *out);
/* Whether P, which is leaving or ending, belongs to G but no longer to one of its slots. */
bool status_has_left(const struct app_process *p, const struct app_group *g);

/* ---- status_json.c: appended to OUT ---- */
void status_json(const struct agent *a, struct text *out);
void status_resumes(const struct agent *a, struct text *out);

/* ---- status_metrics.c: appended to M; and their manual as Markdown ---- */
void status_metrics(const struct agent *a, struct metrics *m);
void status_metrics_describe(FILE *out);

#endif
