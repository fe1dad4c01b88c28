/* SPDX-License-Identifier: Apache-2.0
 *
 * Who gets a process, who gives one up, which request goes where: the ApplicationPool algorithm as
 * plain computation. No I/O, no clock but the one it is given, no allocation. The owner embeds the
 * structs below, tells what happens, and then carries out what core_next() decides, until it has
 * nothing more to say:
 *
 *   core_ask, core_leave, core_ready, core_gone, core_tick ... ──► core_next ──► TELL of a slot
 *                                                                              GO a request
 *                                                                              SPAWN for a slot
 *                                                                              END a process
 *
 * Source of the shape: Phusion Passenger 3, "ApplicationPool algorithm". Ours: a process belongs to
 * a slot, an address that load balancers know, and requests for a slot wait for that slot's
 * process.
 *
 *   slot:  cold ── wanted, room ──► process (STARTING ──► READY) ──► LEAVING ──► gone
 *                                   successor (STARTING) ── ready: takes its place ──┘
 */
#ifndef RLB_AGENT_POOL_POOL_CORE_H
#define RLB_AGENT_POOL_POOL_CORE_H

#include "common/base/list.h"

enum core_queue { CORE_QUEUE_PRIVATE, CORE_QUEUE_GLOBAL };

enum core_process_state {
    CORE_STARTING, /* in its slot, or its successor; counted; no sessions but a first one */
    CORE_READY,
    CORE_LEAVING, /* detached for ever: in no slot; its sessions go on, then it is ended */
};

/* Why a process is ended, or replaced. */
enum core_reason {
    CORE_KEEP,      /* it is not */
    CORE_IDLE,      /* max_idle_time */
    CORE_GIVES_WAY, /* another group needs its room */
    CORE_OVER_MAX,  /* a maximum was lowered */
    CORE_OUTDATED,  /* restart.txt; another configuration */
    CORE_SPENT,     /* max_requests, or one request where each process serves one */
    CORE_CONDEMNED, /* somebody said so: over max_memory, detached by hand */
};

enum core_request_state { CORE_REQUEST_NONE, CORE_REQUEST_WAITING, CORE_REQUEST_RUNNING };

struct core;
struct core_group;
struct core_slot;

struct core_process {
    struct core_slot *slot; /* whom it was made for, for ever; of a LEAVING one not its process */
    struct list idle;       /* READY without sessions: core->idle, longest idle first */
    struct list in_group;   /* READY with free places: in *home */
    struct list *home;      /* its group's idle or partly; NULL: neither */
    struct list leaving;    /* LEAVING: in its slot; then, while it is to be ended, core->to_end */
    struct list running;    /* core_request */
    enum core_process_state state;
    enum core_reason doomed;   /* it is to be replaced; of a LEAVING one why it goes */
    bool probing;              /* STARTING: it takes one request, which shows whether it serves */
    bool ending;               /* END was said, or is about to be */
    bool held;                 /* no session begins for a moment */
    unsigned sessions, places; /* of them, those that hold a place */
    unsigned elsewhere;        /* places that somebody else takes (core_elsewhere) */
    uint64_t served;           /* sessions that have begun */
    uint64_t last_used_ms;
    uint64_t generation; /* of its group when it was made */
    uint64_t born;       /* core->turns when it was made */
    double warmth;       /* the owner's measure of what it would be a pity to lose */
};

struct core_slot {
    struct core_group *group;
    unsigned n;
    struct core_process *process;   /* STARTING or READY; NULL: cold */
    struct core_process *successor; /* STARTING; takes over when it is ready */
    struct list leaving;            /* processes that were its own */
    struct list waiting;            /* core_request */
    size_t nwaiting;
    uint64_t not_before_ms; /* no process is made before: the owner's back-off */
    bool renew;             /* its process was ended to make another one here */
    bool for_group;         /* one is wanted because all others of the group were busy */
    bool for_min;           /* one is wanted because the group has less than min_processes */
    struct list want;       /* core->wants */
    struct list runnable;   /* core->runnable */
    struct list told;       /* core->to_tell */
};

struct core_group {
    struct core *core;
    struct list node;         /* core->groups */
    struct core_slot **slots; /* nslots; borrowed */
    unsigned nslots;
    /* Settings; call core_settings_changed() after a change. */
    unsigned min_processes;
    unsigned max_processes; /* 0: nslots */
    uint64_t max_requests;  /* sessions that a process gets at most; 0: no limit */
    uint64_t max_idle_ms;   /* 0: never ended for idling */
    unsigned concurrency;   /* sessions a process may have; >= 1 */
    enum core_queue queue;
    size_t max_queue; /* requests that may wait at a slot, and at the group */
    /* always_restart.txt: each request gets a process that is started after it asked, and that
       ends after it. Raise the generation when this is set. min_processes does not count. */
    bool one_shot;
    /* Raise by one: every process made before is replaced. */
    uint64_t generation;
    /* A successor that failed: none before this. The owner's. */
    uint64_t replace_not_before_ms;
    /* The core's. */
    struct list waiting; /* requests for whichever process */
    size_t nwaiting;
    struct list replaces;        /* core->replaces */
    struct list idle, partly;    /* READY ones with free places: without sessions, and with */
    unsigned nprocesses;         /* of its slots; LEAVING ones and successors do not count */
    unsigned nstarting;          /* of those */
    unsigned ndoomed;            /* of those */
    struct core_slot *replacing; /* the one that has a successor, or waits for its renewal */
    double traffic;              /* decayed sum of sessions */
    uint64_t traffic_ms;
};

struct core_request {
    struct list node;
    enum core_request_state state;
    struct core_group *group;
    struct core_slot *slot;       /* NULL: any */
    struct core_process *process; /* RUNNING */
    uint64_t turn;                /* order of asking; counted with the births of processes */
    bool any;                     /* it asked for whichever process */
    bool placeless;               /* an upgraded connection: holds its process, but no place */
    /* The owner's: it may be sent to a successor that nothing has shown to serve; another process
       could have it after that. */
    bool may_probe;
};

struct core {
    struct list groups;
    unsigned max; /* processes in all; 0: no limit */
    bool overlap; /* one process beyond max while another is being replaced */
    bool stopped; /* nothing is spawned any more */
    /* Processes of no group, which are on their way out: they take room. The owner's. */
    unsigned strays;
    /* The core's. */
    unsigned count;   /* processes that are not gone: STARTING, READY, LEAVING */
    unsigned active;  /* of them with sessions */
    unsigned leaving; /* of them LEAVING */
    unsigned nending; /* of those, told to end */
    unsigned ngiving; /* of those, not told yet, that give way */
    unsigned successors;
    uint64_t turns;
    bool changed;         /* since it was last decided who gets a process */
    struct list replaces; /* groups that have doomed processes, or a replacement under way: no other
                             is looked at for that */
    struct list idle, wants, runnable, to_end, to_tell;
};

void core_init(struct core *c);
void core_group_init(struct core *c, struct core_group *g);
/* It has no processes and no requests. */
void core_group_fini(struct core_group *g);
void core_slot_init(struct core_group *g, struct core_slot *s, unsigned n);

enum core_answer { CORE_GO_NOW, CORE_WAIT, CORE_QUEUE_FULL };
/*
 * R is for slot S, or (NULL) for whichever process of G. CORE_WAIT: core_next() says GO later;
 * CORE_GO_NOW: R->process has taken it.
 */
enum core_answer core_ask(struct core_group *g, struct core_slot *s, struct core_request *r,
                          uint64_t now_ms);
/* R has done with its process, or gives up waiting. Harmless when it has neither. */
void core_leave(struct core_request *r, uint64_t now_ms);
/* R was upgraded (WebSocket): its place goes to others; its process waits for it all the same. */
void core_upgraded(struct core_request *r, uint64_t now_ms);

/* ---- processes, as the owner sees them ---- */
/* P was made for S, as SPAWN said. */
void core_spawned(struct core_slot *s, struct core_process *p, uint64_t now_ms);
/* P, which there was before us, stands behind S, which is cold. */
void core_adopted(struct core_slot *s, struct core_process *p, uint64_t now_ms);
/* Without a ready_probe: P takes one request, its probe. */
void core_probing(struct core_process *p, bool probing);
void core_ready(struct core_process *p, uint64_t now_ms);
/* N requests of others are at P: so many places fewer. */
void core_elsewhere(struct core_process *p, unsigned n);
/* P takes no session until it does again. */
void core_hold(struct core_process *p, bool held);
/* P is gone, told to or not; its sessions are over, RUNNING requests have no process any more. */
void core_gone(struct core_process *p, uint64_t now_ms);
/* P is to go for REASON: replaced where it would be missed. */
void core_condemn(struct core_process *p, enum core_reason reason);
/* P is out of its slot now: nobody gets it any more. END follows when its sessions are over. */
void core_detach(struct core_process *p, enum core_reason reason);
/* The same, but whoever it serves: END follows at once. */
void core_end(struct core_process *p, enum core_reason reason);

/* ---- decisions ---- */
/* Settings, or max, or a back-off, have changed; and now and then, for what time brings. */
void core_tick(struct core *c, uint64_t now_ms);

enum core_decision { CORE_NOTHING, CORE_TELL, CORE_GO, CORE_SPAWN, CORE_END };
struct core_action {
    enum core_decision what;
    struct core_request *request; /* GO: it runs on request->process */
    /* SPAWN: call core_spawned() at once. TELL: it has another process, or none, or wants one, or
       has one that is leaving. */
    struct core_slot *slot;
    struct core_process *process; /* END */
    enum core_reason why;         /* END */
};
/* What is to be done next. Ask again until CORE_NOTHING. */
enum core_decision core_next(struct core *c, uint64_t now_ms, struct core_action *out);
/* When to ask again at the latest, for back-offs; UINT64_MAX: no need. */
uint64_t core_due_ms(const struct core *c, uint64_t now_ms);

/* Whether S would get a process if it were wanted: it is one of the first max_processes. */
bool core_slot_enabled(const struct core_slot *s);
/*
 * Whether there is no sense in waiting at S: it has no process, and would get none before one of
 * its own group's ended, which could serve the request as well.
 */
bool core_slot_crowded_out(const struct core_slot *s);
/* Whether S has no process, and is to have one as soon as may be. */
bool core_slot_wants(const struct core_slot *s);
/* Asserts every invariant. For tests; walks everything. */
void core_check(const struct core *c);

#endif
