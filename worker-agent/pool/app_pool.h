/* SPDX-License-Identifier: Apache-2.0
 *
 * All applications of this host under one budget of processes, and their shared parts: loop,
 * keeper, writer, tree, idle connections. Owned by the agent; outlives groups, slots, processes and
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
    const char *admin;    /* administration address, for registrations; or NULL */
    uint64_t tree_start_wait_ms;
    uint64_t settings_hold_ms;
    struct inherited
        *inherited; /* NULL: this agent serves, and the old agent does not exist or has exited */
    void (*keeper_lost)(void *context);
    void (*empty)(void *context); /* set before app_pool_stop: no process is left */
    void *context;
    /* The rest is app_pool.c's. */
    struct host_settings *host;
    bool configuring; /* a configuration is being applied, group by group */
    struct app_group **groups;
    size_t ngroups;
    struct app_group **attached; /* of them, those with a core of their own */
    size_t nattached;
    struct list by_state[PROCESS_STATES]; /* processes */
    size_t count;                         /* of them, except ENDED */
    struct core core;                     /* assigns processes to slots */
    struct process_usage *usage;          /* resource usage of processes */
    struct restart_watch *restarts;       /* restart.txt of all applications */
    struct loop_deferred settling; /* linked: core_next() must be called before the loop waits */
    struct timer due, tick;
    bool draining;     /* no more processes are started; slots report that */
    bool handed_over;  /* to another agent: nothing is started, ended, published or stored */
    bool sealed;       /* and this agent sends no more requests to processes */
    bool before_sends; /* the old agent may still send requests to its processes */
    struct timer thaw; /* running: the new agent has died, and the keeper is reporting the processes
                          that it started */
    bool leaving;      /* streams are closed, no slot is registered, new requests are refused */
};

/* The shared parts of POOL must be set. */
void app_pool_init(struct app_pool *pool);
void app_pool_fini(struct app_pool *pool);
/* Creates the groups. Ownership of the ADOPTED processes passes to the pool, including descriptors.
 * Returns false if a slot cannot listen (logged). */
bool app_pool_start(struct app_pool *pool, const struct agent_config *c, struct kept_list *adopted);
/* Applies the live settings and the budget of a re-read configuration. The previous configuration
 * is not used afterwards. */
void app_pool_configure(struct app_pool *pool, const struct agent_config *c);

/*
 * Schedules the core's decisions to be carried out before the loop waits again. Must be called
 * after every event reported to the core. Safe at any time, because nothing is carried out inside
 * the call.
 */
void app_pool_settle(struct app_pool *pool);

/* ---- keeper's messages ---- */
extern const struct keeper_link_events app_pool_keeper_events; /* context: the pool */
/* Handles the loss of the keeper: all processes are treated as dead. */
void app_pool_keeper_lost(struct app_pool *pool);
/* Called by app_process.c when P has entered a state. */
void app_pool_process_moved(struct app_pool *pool, struct app_process *p);

/* ---- another agent takes over ---- */
/* From now on nothing is started, ended, published or stored. */
void app_pool_hand_over(struct app_pool *pool);
/* The new agent has died: reverts app_pool_hand_over(). */
void app_pool_take_back(struct app_pool *pool);
/* The new agent serves: slots are unregistered, and streams are closed. */
void app_pool_hand_over_names(struct app_pool *pool);
/* The old agent no longer sends requests to processes: ends those of its processes that are to be
 * replaced. */
void app_pool_before_gone(struct app_pool *pool);
/* Must be called after the handover when no request is left: further requests are refused or passed
 * on to the new agent. */
void app_pool_seal(struct app_pool *pool);
/* Reports changes in the number of this agent's requests at each process to the keeper. */
void app_pool_tell_busy(struct app_pool *pool);
/* Releases all processes without ending them. */
void app_pool_let_go(struct app_pool *pool);

/* ---- the end ---- */
/* Begins the drain: slots report it, and continue to serve. */
void app_pool_drain(struct app_pool *pool);
/* Closes streams, unregisters slots and refuses new requests; outstanding requests continue. */
void app_pool_leave(struct app_pool *pool);
/* Number of requests that wait or run. */
size_t app_pool_requests(const struct app_pool *pool);
/* Refuses all waiting requests and ends all processes (AT_ONCE: SIGKILL). Then empty() is called,
 * possibly inside this call. */
void app_pool_stop(struct app_pool *pool, bool at_once);
void app_pool_stop_listening(struct app_pool *pool);

#endif
