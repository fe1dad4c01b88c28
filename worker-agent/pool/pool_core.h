/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which slot gets a process, which process ends, and which request goes to which process:
 * the ApplicationPool algorithm as plain computation. No I/O, no allocation, and no clock except
 * the time passed in. The owner embeds the structs below, reports events, and then carries out the
 * decisions of core_next() until it returns CORE_NOTHING:
 *
 *   core_request_process, core_leave, core_ready, core_exited, core_tick ... ──► core_next ──►
 *     REPORT a slot | GO a request | SPAWN for a slot | END a process
 *
 * Origin: Phusion Passenger 3, "ApplicationPool algorithm". Difference: a process belongs to a
 * slot, an address known to load balancers, and requests for a slot wait for that slot's process.
 *
 *   slot:  dormant ── needed, room ─► process (STARTING ──► READY) ──► LEAVING ──► gone
 *                                   replacement (STARTING) ─ ready: takes its place ─┘
 */
#pragma once

#include "common/base/list.h"

enum core_queue { CORE_QUEUE_PRIVATE, CORE_QUEUE_GLOBAL };

enum core_process_state {
    CORE_STARTING, /* process or replacement of its slot; counted; at most one session, the probe */
    CORE_READY,
    CORE_LEAVING, /* permanently detached from its slot; ended when its sessions are over */
};

/* Why a process is ended, or replaced. */
enum core_reason {
    CORE_KEEP,      /* not marked */
    CORE_IDLE,      /* max_idle_time */
    CORE_GIVES_WAY, /* another group needs its room */
    CORE_OVER_MAX,  /* a maximum was lowered */
    CORE_OUTDATED,  /* restart.txt; another configuration */
    CORE_SPENT,     /* max_requests, or one request where each process serves one */
    CORE_REPLACED,  /* over max_memory, or detached by an operator */
};

enum core_request_state { CORE_REQUEST_NONE, CORE_REQUEST_WAITING, CORE_REQUEST_RUNNING };

struct core;
struct core_group;
struct core_slot;

struct core_process {
    struct core_slot *slot; /* the slot it was made for; constant, also while LEAVING */
    struct list idle;       /* READY without sessions: core->idle, longest idle first */
    struct list in_group;   /* READY with free places: in *listed_in */
    struct list *listed_in; /* its group's idle or partly; NULL: neither */
    struct list leaving;    /* LEAVING: in its slot; then, while it is to be ended, core->to_end */
    struct list running;    /* core_request */
    enum core_process_state state;
    enum core_reason marked;   /* why it is to be replaced; LEAVING: why it is ended */
    bool probing;              /* STARTING: it takes one request, which shows whether it serves */
    bool ending;               /* END was issued, or is about to be */
    bool held;                 /* new sessions are temporarily held */
    unsigned sessions, places; /* places: sessions that hold a place */
    unsigned elsewhere;        /* places used by requests of another agent (core_elsewhere) */
    uint64_t served;           /* sessions started */
    uint64_t last_used_ms;
    uint64_t generation; /* of its group when it was made */
    uint64_t born;       /* core->orders when it was made */
    double warmth;       /* the owner's measure of the value of its caches */
};

struct core_slot {
    struct core_group *group;
    struct list node; /* group->slots */
    unsigned n;
    struct core_process *process;     /* STARTING or READY; NULL: dormant */
    struct core_process *replacement; /* STARTING; takes over when it is ready */
    struct list leaving;              /* former processes of the slot */
    struct list waiting;              /* core_request */
    size_t nwaiting;
    uint64_t not_before_ms;  /* no process is started earlier; the owner's back-off */
    bool renew;              /* its process was ended in order to start another one in this slot */
    bool for_group;          /* a process is needed because all others of the group were busy */
    bool for_min;            /* a process is needed because the group has less than min_processes */
    struct list need;        /* core->needs: has no process and is to get one soon */
    struct list runnable;    /* core->runnable */
    struct list report_node; /* core->to_report */
};

struct core_group {
    struct core *core;
    struct list node;  /* core->groups */
    struct list slots; /* core_slot; nslots, by n */
    unsigned nslots;
    /* Settings; call core_tick() after a change. */
    unsigned min_processes;
    unsigned max_processes; /* 0: nslots */
    uint64_t max_requests;  /* maximum sessions of a process; 0: no limit */
    uint64_t max_idle_ms;   /* 0: never ended for idling */
    unsigned concurrency;   /* sessions a process may have; >= 1 */
    enum core_queue queue;
    size_t max_queue; /* requests that may wait at a slot, and at the group */
    /* always_restart.txt: each request gets a process that is started after it asked, and that
       ends after it. Raise the generation when this is set. min_processes does not count. */
    bool one_shot;
    /* Incremented by the owner: every process made earlier is replaced. */
    uint64_t generation;
    /* Set by the owner after a replacement failed: no replacement is started earlier. */
    uint64_t replace_not_before_ms;
    /* The core's. */
    struct list waiting; /* requests for any process */
    size_t nwaiting;
    struct list replaces;        /* core->replaces */
    struct list idle, partly;    /* READY ones with free places: without sessions, and with */
    unsigned nprocesses;         /* of its slots; LEAVING ones and replacements do not count */
    unsigned nstarting;          /* of those */
    unsigned nmarked;            /* of those */
    struct core_slot *replacing; /* the one that has a replacement, or waits for its renewal */
    double traffic;              /* decayed sum of sessions */
    uint64_t traffic_ms;
};

struct core_request {
    struct list node;
    enum core_request_state state;
    struct core_group *group;
    struct core_slot *slot;       /* NULL: any */
    struct core_process *process; /* RUNNING */
    uint64_t order;               /* order of requests; the same counter as core_process.born */
    bool any;                     /* it requested any process of the group */
    bool placeless;               /* an upgraded connection: holds its process, but no place */
    /* Set by the owner: an unproven replacement may get it, as it can be retried elsewhere. */
    bool may_probe;
};

struct core {
    struct list groups;
    unsigned max; /* processes in all; 0: no limit */
    bool overlap; /* one process beyond max while another is being replaced */
    bool stopped; /* no more processes are spawned */
    /* Processes without a group that are exiting; they count against max. Set by the owner. */
    unsigned strays;
    /* The core's. */
    unsigned count;   /* existing processes: STARTING, READY, LEAVING */
    unsigned active;  /* of them with sessions */
    unsigned leaving; /* of them LEAVING */
    unsigned nending; /* of those, for which END was issued, or that give way */
    unsigned replacements;
    uint64_t orders;
    bool changed;         /* since processes were last assigned to slots */
    struct list replaces; /* groups with processes marked for replacement or a replacement in
                             progress; only these are scanned for replacements */
    struct list idle, needs, runnable, to_end, to_report;
};

void core_init(struct core *c);
void core_group_init(struct core *c, struct core_group *g);
/* Must be called when the group has no processes and no requests. */
void core_group_fini(struct core_group *g);
/* Appends S to the slots of G; and removes it from them. */
void core_slot_init(struct core_group *g, struct core_slot *s);
void core_slot_fini(struct core_slot *s);

enum core_result { CORE_GO_NOW, CORE_WAIT, CORE_QUEUE_FULL };
/*
 * Requests a process for R: of slot S, or (S NULL) any process of G. CORE_WAIT: core_next() returns
 * GO later. CORE_GO_NOW: R->process is assigned.
 */
enum core_result core_request_process(struct core_group *g, struct core_slot *s,
                                      struct core_request *r, uint64_t now_ms);
/* Ends R's session or cancels its wait. No effect if R has neither. */
void core_leave(struct core_request *r, uint64_t now_ms);
/* R was upgraded (WebSocket): its place is released, but its process still ends only after R. */
void core_upgraded(struct core_request *r, uint64_t now_ms);

/* ---- processes, as the owner sees them ---- */
/* P was created for S as SPAWN requested, or is of a previous agent, and S is dormant. */
void core_enter(struct core_slot *s, struct core_process *p, uint64_t now_ms);
/* Without a ready_probe: P accepts one request, which serves as the probe. */
void core_probing(struct core_process *p, bool probing);
void core_ready(struct core_process *p, uint64_t now_ms);
/* N requests of another agent are in flight at P, which reduces its free places by N. */
void core_elsewhere(struct core_process *p, unsigned n);
/* While HELD is true, P starts no session. */
void core_hold(struct core_process *p, bool held);
/* P has exited, requested or not. Its sessions are over; its requests have no process any more. */
void core_exited(struct core_process *p);
/* Marks P for replacement because of REASON. A replacement is started only where P is needed. */
void core_mark(struct core_process *p, enum core_reason reason);
/* Detaches P from its slot: it gets no more requests; END follows when its sessions are over. */
void core_detach(struct core_process *p, enum core_reason reason);
/* Like core_detach, but END follows immediately, even if sessions are active. */
void core_end(struct core_process *p, enum core_reason reason);

/* ---- decisions ---- */
/* To be called after a change of settings, of max, or of a back-off, and periodically. */
void core_tick(struct core *c, uint64_t now_ms);

enum core_decision { CORE_NOTHING, CORE_REPORT, CORE_GO, CORE_SPAWN, CORE_END };
struct core_action {
    enum core_decision what;
    struct core_request *request; /* GO: it runs on request->process */
    /* SPAWN: call core_enter() at once. REPORT: the slot's process, whether it needs one, or its
     * leaving processes have changed. */
    struct core_slot *slot;
    struct core_process *process; /* END, because of process->marked */
};
/* Call repeatedly until it returns CORE_NOTHING. */
struct core_action core_next(struct core *c, uint64_t now_ms);
/* Latest time of the next core_tick() call, because of back-offs; UINT64_MAX: none. */
uint64_t core_due_ms(const struct core *c, uint64_t now_ms);

/* Whether S may have a process: it is one of the first max_processes slots. */
bool core_slot_enabled(const struct core_slot *s);
/*
 * Whether waiting at S is useless: S has no process, and gets one only after another process of its
 * group ended, which could serve the request as well.
 */
bool core_slot_crowded_out(const struct core_slot *s);
