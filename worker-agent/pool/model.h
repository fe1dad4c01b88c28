/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool's data: struct app_pool (shared by all applications of the host), struct app_group (one
 * application) and struct slot (one of its slots). Each is owned by the one before and refers to
 * it. Processes (slot.h) belong to slots. The functions are in app_pool.h and slot.h. Control loop
 * only.
 */
#pragma once

#include "common/base/log.h"
#include "common/event/loop.h"
#include "common/net/addr.h"
#include "common/tree/live_settings.h"
#include "common/tree/tree.h"
#include "worker-agent/config/agent_config.h"
#include "worker-agent/pool/pool_core.h"
#include "worker-agent/pool/slot_meter.h"
#include "worker-agent/process/process_output.h"
#include "worker-agent/process/process_usage.h"
#include "worker-agent/process/warm_up.h"

enum process_state {
#define STATE(name, text, next, doc) PROCESS_##name,
#include "worker-agent/config/process_state.def"
};

struct app_group;
struct app_process;
struct agent_front;
struct http_listener;
struct slot;

/* Where requests come in: at a slot, which embeds it, or at an application's own address. */
struct front_listener {
    struct app_group *group;
    struct slot *slot; /* NULL: the application's own address; in an upgrade its number is -1 */
    struct addr addr;  /* as bound; unset when slots have no addresses */
    struct http_listener *listener; /* NULL: no address, or not listening */
};

/* All applications of this host under one budget of processes, and their shared parts. Owned by the
 * agent; outlives groups, slots, processes and requests. */
struct app_pool {
    struct loop *loop;
    struct supervisor_link *supervisor;
    struct tree *tree; /* NULL: none */
    struct conn_pool *conn_pool;
    /* front_listen() and its first argument. */
    struct agent_front *front;
    bool (*listen)(struct agent_front *f, struct front_listener *l);
    /* As at the start; owned by the pool. */
    char *agent_name; /* for registrations */
    struct inherited
        *inherited; /* NULL: this agent serves, and the old agent does not exist or has exited */
    void (*supervisor_lost)(void *context);
    void (*empty)(void *context); /* set before app_pool_stop: no process is left */
    void *context;
    /* The rest is set by app_pool.c. */
    /* The settings of the host: the top of the file, LIVE ones overridden by its node. */
    const struct agent_config *at_start; /* settings fixed at the start; outlives the pool */
    struct live_settings *live;
    const struct agent_settings *s; /* effective: live's; NODEs are NULL */
    struct snapshot *snapshot;      /* NULL: no tree, or no node */
    bool configuring;               /* a configuration is being applied, group by group */
    struct resume_store *store;
    struct app_group **groups;
    size_t ngroups;
    struct list processes;          /* all except ENDED */
    struct core core;               /* assigns processes to slots */
    struct core attached;           /* the same for processes of others, which are in no budget */
    struct process_usage *usage;    /* resource usage of processes */
    struct restart_watch *restarts; /* restart.txt of all applications */
    struct loop_deferred settling;  /* linked: core_next() must be called before the loop waits */
    struct timer due, tick;
    bool draining;        /* no more processes are started; slots report that */
    bool handed_over;     /* to another agent: nothing is started, ended, published or stored */
    bool sealed;          /* and no request is left: further ones are rejected or passed on */
    bool old_agent_sends; /* the old agent may still send requests to its processes */
    struct timer thaw;    /* running: the new agent has died, and the supervisor is reporting the
                             processes that it started */
    bool leaving;         /* streams are closed, no slot is registered, new requests are rejected */
};

/* Has the core's decisions carried out before the loop waits again: to be called after every event
 * reported to the core. Nothing is carried out inside the call. */
static inline void app_pool_settle(struct app_pool *pool)
{
    loop_defer_once(pool->loop, &pool->settling);
}

/* One application: its settings (YAML and tree), its slots, its metrics. */
struct app_group {
    struct log_subject subject;
    struct app_pool *pool;
    const struct app_config *config; /* of the newest configuration */
    /* The one at the start: address, listen, advertise, path and attach stay as they are in it,
     * regardless of later configurations. It outlives the group. */
    const struct app_config *at_start;
    const struct agent_app_settings *s; /* effective: live's */
    struct live_settings *live;
    struct live_settings_counts reported; /* the counts that the metrics already include */
    const char *name;
    struct stats *stats;
    struct stats_cell *cell;
    struct core_group core; /* with its slots: as many as were ever needed, max_processes in use */
    bool started;           /* further slots are created as they are needed */
    uint64_t replace_delay_ms; /* of the last back-off; 0: none */
    struct over_memory over_memory;
    uint64_t max_memory_bytes;                   /* the limit of over_memory */
    struct front_listener *own_listeners;        /* at_start->nlisten_addrs of them */
    const struct failure *last_failure;          /* the newest of its slots'; NULL: none */
    struct restart_directory *restart_directory; /* NULL: none is watched */
    int64_t oldest_ns; /* wall clock: when the oldest process that was adopted was started */
    struct snapshot *snapshot; /* of its node in the tree; NULL: no tree */
};

static inline void group_count(const struct app_group *g, enum agent_stat row)
{
    stat_add(g->cell, row, 1);
}

struct slot {
    struct log_subject subject;
    struct app_group *group;
    struct core_slot core; /* with its number, core.n */
    char name[ADDR_TEXT_MAX];
    struct front_listener listens;
    char instance[INSTANCE_MAX + 1]; /* of the process, or of the next one */
    bool instance_used;              /* a process uses this instance */
    uint64_t life;                   /* incremented when the process changes */
    const struct addr *attached;     /* external process; NULL: ours */
    struct core_process attached_process;
    struct conn_backend *attached_backend;
    size_t nrunning;         /* at all its processes; an upgraded connection runs until it ends */
    size_t ntunnels;         /* of those: upgraded, so in no backlog */
    uint64_t delay_ms;       /* of the last back-off; 0: none */
    unsigned start_failures; /* processes in a row that died without getting ready */
    double warmth;           /* the sum of its scores */
    struct slot_meters meters;
    struct warm_targets targets; /* requests replayed to a new process before it takes over */
    struct tree_registration *registration; /* PATH/providers/ADDRESS; NULL: not registered */
    struct list streams;                    /* resume_stream.c */
    uint64_t served;
    struct failure *failure; /* the last one of its processes; NULL: none */
};
