/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that a keeper has, and how they are signalled. The keeper's own; one thread.
 *
 * While one agent follows another (keeper.h), the one before may still have requests at a process
 * (`busy`, which it reports): SIGTERM then waits until these are over, SIGKILL does not.
 */
#ifndef RLB_AGENT_SUPERVISOR_KEEPER_KEPT_H
#define RLB_AGENT_SUPERVISOR_KEEPER_KEPT_H

#include <signal.h>

#include "common/base/list.h"
#include "worker-agent/supervisor/spawner.h"

struct kept { /* one process */
    struct list node;
    char id[INCARNATION_MAX + 1];
    char application[APP_NAME_MAX + 1];
    char spec[FINGERPRINT_LEN + 1];
    char *note;
    unsigned slot;
    uint64_t stop_timeout_ms;
    uint64_t started_ms;
    uint64_t kill_ms;   /* while ending: when SIGTERM turns into SIGKILL */
    uint64_t agent;     /* number of the agent that had it started */
    unsigned busy;      /* requests that the agent before the present one has at it */
    bool term_deferred; /* SIGTERM as soon as it is not busy */
    struct spawned spawned;
};

struct kept_all {
    struct list items;
    size_t n;
};

void kept_init(struct kept_all *all);
/* Take over what SPAWNED is; its note is empty. */
struct kept *kept_add(struct kept_all *all, const struct spawn_request *r,
                      const struct spawned *spawned, uint64_t agent, uint64_t now_ms);
/* Buried: forget it. */
void kept_remove(struct kept_all *all, struct kept *p);
/* The one whose "id" MESSAGE has, or NULL. */
struct kept *kept_of_message(const struct kept_all *all, const json_t *message);
struct kept *kept_of_pid(const struct kept_all *all, pid_t pid);

void kept_set_note(struct kept *p, const char *note);
/* SIGTERM or SIGKILL to all of its group. */
void kept_signal(struct kept *p, int signal_number);
/* Requests of the agent before; none: a deferred SIGTERM is sent. */
void kept_set_busy(struct kept *p, unsigned busy);

/* What an agent is told of it ("process"); its output goes beside that. */
json_t *kept_message(const struct kept *p, uint64_t now_ms);
/* What it died of: its exit or signal, or why it never came to be (from the error pipe). */
void kept_describe_death(const struct kept *p, const siginfo_t *si, char out[KEEPER_WHY_MAX]);

/* SIGTERM to all; kept_kill_overdue sees to those that outlive their stop_timeout. */
void kept_end_all(struct kept_all *all, uint64_t now_ms);
void kept_kill_overdue(struct kept_all *all, uint64_t now_ms);

#endif
