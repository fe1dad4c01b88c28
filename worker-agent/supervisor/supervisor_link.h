/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's end of its socket to the supervisor. Opened (and the supervisor found or forked)
 * before the agent's first thread; then it belongs to the control loop. Owned by the agent;
 * outlives all processes.
 */
#ifndef RLB_AGENT_SUPERVISOR_SUPERVISOR_LINK_H
#define RLB_AGENT_SUPERVISOR_SUPERVISOR_LINK_H

#include "common/event/loop.h"
#include "worker-agent/supervisor/spawner.h"
#include "worker-agent/supervisor/supervisor.h"

struct supervisor_link;

/* A process that the supervisor had before this agent. */
struct kept_process {
    char id[INCARNATION_MAX + 1];
    char application[APP_NAME_MAX + 1];
    char spec[FINGERPRINT_LEN + 1];
    char address[ADDR_TEXT_MAX];
    char note[SUPERVISOR_WHY_MAX + 1];
    unsigned slot;
    pid_t pid;
    uint64_t age_ms;
    unsigned busy; /* requests of the old agent that are still in flight */
    int output_fd; /* ownership passes to the adopting process object */
};

struct kept_list {
    struct kept_process *items;
    size_t n;
};

/*
 * Connects to the supervisor in state_dir if one exists; otherwise forks one, unless O->follow is
 * set. Blocks for a limited time; errors are logged. OUT receives the existing processes; the
 * caller frees the items. Returns NULL if no supervisor is available.
 */
struct supervisor_link *supervisor_link_open(const struct supervisor_options *o,
                                             uint64_t adopt_timeout_ms, struct kept_list *out);

struct supervisor_link_events { /* on the loop */
    /* OUTPUT_FD is the receiver's. */
    void (*spawned)(void *context, const char *id, pid_t pid, const char *address, int output_fd);
    void (*refused)(void *context, const char *id, const char *why);
    void (*died)(void *context, const char *id, const char *how);
    /* Number of requests that the old agent still has at the process. */
    void (*busy)(void *context, const char *id, unsigned n);
    /* The new agent has died after it had started K. Ownership of K's output passes to the
     * receiver. */
    void (*left)(void *context, struct kept_process *k);
    /* The supervisor has exited, expectedly (after supervisor_link_bye) or not. */
    void (*lost)(void *context);
};
void supervisor_link_start(struct supervisor_link *k, struct loop *l,
                           const struct supervisor_link_events *e, void *context);
/* Requests a process. Ownership of MESSAGE (spawn_request_message) passes to the link. */
void supervisor_link_spawn(struct supervisor_link *k, json_t *message);
void supervisor_link_signal(struct supervisor_link *k, const char *id, int signal_number);
void supervisor_link_note(struct supervisor_link *k, const char *id, const char *note);
/* Reports the number of this agent's requests at the process, for the new agent. */
void supervisor_link_busy(struct supervisor_link *k, const char *id, unsigned n);
/* Requests that the supervisor end all processes and then exit. */
void supervisor_link_bye(struct supervisor_link *k);
/* Without a bye the supervisor takes it for the agent's death. */
void supervisor_link_destroy(struct supervisor_link *k);
pid_t supervisor_link_pid(const struct supervisor_link *k);

#endif
