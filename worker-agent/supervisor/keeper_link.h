/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's end of its socket to the keeper. Opened (and the keeper found or forked) before the
 * agent's first thread; then it belongs to the control loop. Owned by the agent; outlives all
 * processes.
 */
#ifndef RLB_AGENT_SUPERVISOR_KEEPER_LINK_H
#define RLB_AGENT_SUPERVISOR_KEEPER_LINK_H

#include "common/event/loop.h"
#include "worker-agent/supervisor/keeper.h"
#include "worker-agent/supervisor/spawner.h"

struct keeper_link;

/* A process that the keeper had before us. */
struct kept_process {
    char id[INCARNATION_MAX + 1];
    char application[APP_NAME_MAX + 1];
    char spec[FINGERPRINT_LEN + 1];
    char address[ADDR_TEXT_MAX];
    char note[KEEPER_WHY_MAX + 1];
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
 * Connects to the keeper in state_dir if one exists; otherwise forks one, unless O->follow is set.
 * Blocks for a limited time; errors are logged. OUT receives the existing processes; the caller
 * frees the items. Returns NULL if no keeper is available.
 */
struct keeper_link *keeper_link_open(const struct keeper_options *o, uint64_t adopt_timeout_ms,
                                     struct kept_list *out);

struct keeper_link_events { /* on the loop */
    /* OUTPUT_FD is the receiver's. */
    void (*spawned)(void *context, const char *id, pid_t pid, const char *address, int output_fd);
    void (*refused)(void *context, const char *id, const char *why);
    void (*died)(void *context, const char *id, const char *how);
    /* Number of requests that the old agent still has at the process. */
    void (*busy)(void *context, const char *id, unsigned n);
    /* The new agent has died after it had started K. Ownership of K's output passes to the
     * receiver. */
    void (*left)(void *context, struct kept_process *k);
    /* The keeper has exited, expectedly (after keeper_link_bye) or not. */
    void (*lost)(void *context);
};
void keeper_link_start(struct keeper_link *k, struct loop *l, const struct keeper_link_events *e,
                       void *context);
/* Requests a process. Ownership of MESSAGE (spawn_request_message) passes to the link. */
void keeper_link_spawn(struct keeper_link *k, json_t *message);
void keeper_link_signal(struct keeper_link *k, const char *id, int signal_number);
void keeper_link_note(struct keeper_link *k, const char *id, const char *note);
/* Reports the number of this agent's requests at the process, for the new agent. */
void keeper_link_busy(struct keeper_link *k, const char *id, unsigned n);
/* Requests that the keeper end all processes and then exit. */
void keeper_link_bye(struct keeper_link *k);
/* Without a bye the keeper takes it for the agent's death. */
void keeper_link_destroy(struct keeper_link *k);
pid_t keeper_link_pid(const struct keeper_link *k);

#endif
