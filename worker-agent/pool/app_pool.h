/* SPDX-License-Identifier: Apache-2.0
 *
 * All applications of this host under one budget of processes, and what they share: loop, keeper,
 * writer, tree, kept connections. Owned by the agent; outlives groups, slots, processes and
 * requests. Control loop only.
 */
#ifndef RLB_AGENT_POOL_APP_POOL_H
#define RLB_AGENT_POOL_APP_POOL_H

#include "common/tree/tree.h"
#include "worker-agent/config/agent_config.h"
#include "worker-agent/pool/app_group.h"
#include "worker-agent/pool/host_settings.h"
#include "worker-agent/pool/pool_core.h"
#include "worker-agent/pool/restart_watch.h"
#include "worker-agent/pool/resume_store.h"
#include "worker-agent/process/app_process.h"
#include "worker-agent/process/process_usage.h"

struct front;
struct inherited;

struct app_pool {
    struct loop *loop;
    struct keeper_link *keeper;
    struct resume_store *store;
    struct tree *tree; /* NULL: none */
    struct conn_pool *conn_pool;
    struct front *front;
    const char *agent_name; /* for registrations */
    const char *state_dir;
    const char *tree_url; /* NULL: none */
    const char *admin;    /* where operators connect, for registrations; or NULL */
    uint64_t tree_start_wait_ms;
    uint64_t settings_hold_ms;
    struct inherited *inherited; /* NULL: it serves, and there is no old agent, or it exited */
    void (*keeper_lost)(void *context);
    void (*empty)(void *context); /* set before app_pool_stop: no process is left */
    void *context;
    /* The rest is app_pool.c's. */
    struct host_settings *host;
    bool configuring; /* a configuration is being taken over, group by group */
    struct app_group **groups;
    size_t ngroups;
    struct app_group **attached; /* of them, those with a core of their own */
    size_t nattached;
    struct list by_state[PROCESS_STATES]; /* processes */
    size_t count;                         /* of them, but for ENDED */
    struct core core;                     /* who gets a process, and who has to go */
    struct process_usage *usage;          /* what processes use */
    struct restart_watch *restarts;       /* restart.txt of all applications */
    struct loop_deferred settling; /* linked: the core is to be asked, before the loop waits */
    struct timer due, tick;
    bool draining;     /* no process is started any more; slots say so */
    bool handed_over;  /* to another agent: nothing is started, ended, published or stored */
    bool sealed;       /* and no process gets anything from us any more */
    bool before_sends; /* the agent before us may still send to the processes that it had */
    struct timer thaw; /* running: it has died, and the keeper is telling what it had started */
    bool leaving;      /* streams have ended, no slot is registered, new requests are refused */
};

/* POOL: the shared parts are set. */
void app_pool_init(struct app_pool *pool);
void app_pool_fini(struct app_pool *pool);
/* Make the groups; ADOPTED (descriptors and all) are taken over. False: a slot cannot listen
 * (logged). */
bool app_pool_start(struct app_pool *pool, const struct agent_config *c, struct kept_list *adopted);
/* A configuration read anew: its groups' live settings and budget. OLD is not used after this. */
void app_pool_configure(struct app_pool *pool, const struct agent_config *c);

/*
 * Something has happened that the core was told: before the loop waits again, what it decides is
 * carried out. The end of whatever calls the core; at any time, as nothing happens inside.
 */
void app_pool_settle(struct app_pool *pool);

/* ---- keeper's messages ---- */
extern const struct keeper_link_events app_pool_keeper_events; /* context: the pool */
/* All processes are as good as dead: see to it. */
void app_pool_keeper_lost(struct app_pool *pool);
/* app_process.c's: P has entered a state. */
void app_pool_process_moved(struct app_pool *pool, struct app_process *p);

/* ---- another agent takes over ---- */
/* From here on nothing is started, ended, published or stored. */
void app_pool_hand_over(struct app_pool *pool);
/* It has died: all is as before. */
void app_pool_take_back(struct app_pool *pool);
/* It serves: no slot is registered, streams end. */
void app_pool_hand_over_names(struct app_pool *pool);
/* The agent before us sends to no process any more: end those of its processes that are to go. */
void app_pool_before_gone(struct app_pool *pool);
/* Handed over, and no request left: whatever comes is refused, or passed on. */
void app_pool_seal(struct app_pool *pool);
/* Tell the keeper of changes in how many requests each process has from us. */
void app_pool_tell_busy(struct app_pool *pool);
/* Forget all processes; they live on. */
void app_pool_let_go(struct app_pool *pool);

/* ---- the end ---- */
/* Begin the drain: slots say so, and go on serving. */
void app_pool_drain(struct app_pool *pool);
/* Streams end, slots are no longer registered, new requests are refused; those there are go on. */
void app_pool_leave(struct app_pool *pool);
/* Requests that wait or run. */
size_t app_pool_requests(const struct app_pool *pool);
/* Refuse who still waits, end all processes (AT_ONCE: SIGKILL); then empty(), maybe inside this
 * call. */
void app_pool_stop(struct app_pool *pool, bool at_once);
void app_pool_stop_listening(struct app_pool *pool);

#endif
