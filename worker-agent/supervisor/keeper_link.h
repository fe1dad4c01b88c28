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
    unsigned busy; /* requests that the agent before us still has at it */
    int output_fd; /* taken over by who adopts it */
};

struct kept_list {
    struct kept_process *items;
    size_t n;
};

/*
 * Connect to the keeper in state_dir if one is there, else fork one (O->follow: do not). Blocks,
 * within bounds; logs what goes wrong. OUT: the processes that were there; the caller frees the
 * items. NULL: no keeper.
 */
struct keeper_link *keeper_link_open(const struct keeper_options *o, uint64_t adopt_timeout_ms,
                                     struct kept_list *out);

struct keeper_link_events { /* on the loop */
    /* OUTPUT_FD is the receiver's. */
    void (*spawned)(void *context, const char *id, pid_t pid, const char *address, int output_fd);
    void (*refused)(void *context, const char *id, const char *why);
    void (*died)(void *context, const char *id, const char *how);
    /* How many requests the agent that we follow still has at it. */
    void (*busy)(void *context, const char *id, unsigned n);
    /* The agent that followed us has died; it had started K, whose output is the receiver's. */
    void (*left)(void *context, struct kept_process *k);
    /* The keeper is gone, expected (after keeper_link_bye) or not. */
    void (*lost)(void *context);
};
void keeper_link_start(struct keeper_link *k, struct loop *l, const struct keeper_link_events *e,
                       void *context);
/* Takes MESSAGE (spawn_request_message). */
void keeper_link_spawn(struct keeper_link *k, json_t *message);
void keeper_link_signal(struct keeper_link *k, const char *id, int signal_number);
void keeper_link_note(struct keeper_link *k, const char *id, const char *note);
/* How many requests we have at it, for the agent that follows us. */
void keeper_link_busy(struct keeper_link *k, const char *id, unsigned n);
/* End all processes, then itself. */
void keeper_link_bye(struct keeper_link *k);
/* Without a bye the keeper takes it for the agent's death. */
void keeper_link_destroy(struct keeper_link *k);
pid_t keeper_link_pid(const struct keeper_link *k);

#endif
