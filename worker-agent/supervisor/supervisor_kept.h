/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that a supervisor has, and how they are signalled. The supervisor's own; one
 * thread.
 *
 * While one agent follows another (supervisor.h), the one before may still have requests at a
 * process
 * (`busy`, which it reports): SIGTERM then waits until these are over, SIGKILL does not.
 */
#ifndef RLB_AGENT_SUPERVISOR_SUPERVISOR_KEPT_H
#define RLB_AGENT_SUPERVISOR_SUPERVISOR_KEPT_H

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
/* Removes P, which must have been reaped. */
void kept_remove(struct kept_all *all, struct kept *p);
/* The process with the "id" of MESSAGE, or NULL. */
struct kept *kept_of_message(const struct kept_all *all, const json_t *message);
struct kept *kept_of_pid(const struct kept_all *all, pid_t pid);

void kept_set_note(struct kept *p, const char *note);
/* Sends SIGTERM or SIGKILL to its process group. */
void kept_signal(struct kept *p, int signal_number);
/* Sets the number of requests of the old agent at P. At 0, a deferred SIGTERM is sent. */
void kept_set_busy(struct kept *p, unsigned busy);

/* The "process" message about P for an agent; the output descriptor is sent with it. */
json_t *kept_message(const struct kept *p, uint64_t now_ms);
/* Describes the cause of its death: exit status, signal, or start error (from the error pipe). */
void kept_describe_death(const struct kept *p, const siginfo_t *si, char out[SUPERVISOR_WHY_MAX]);

/* Sends SIGTERM to all; kept_kill_overdue ends those that exceed their stop_timeout. */
void kept_end_all(struct kept_all *all, uint64_t now_ms);
void kept_kill_overdue(struct kept_all *all, uint64_t now_ms);

#endif
