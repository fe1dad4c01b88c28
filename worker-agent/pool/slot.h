/* SPDX-License-Identifier: Apache-2.0
 *
 * A slot: a numbered, registered address with at most one process behind it, the requests that wait
 * for that process, its meters and its resume file. Owned by its group. Control loop only.
 *
 *   cold -- wanted --> starting -- ready --> ready -- process dies or ends --> cold, or starting
 *
 * While its process is being replaced, the slot has a second one, the successor; when that is ready
 * the slot is its, another incarnation, and the old one finishes what it has. Who gets a process
 * when is decided in pool_core.h.
 */
#ifndef RLB_AGENT_POOL_SLOT_H
#define RLB_AGENT_POOL_SLOT_H

#include "common/event/loop.h"
#include "common/net/addr.h"
#include "common/skills/resume_line.h"
#include "worker-agent/pool/front_door.h"
#include "worker-agent/pool/registration.h"
#include "worker-agent/pool/slot_homes.h"
#include "worker-agent/pool/slot_meter.h"
#include "worker-agent/process/app_process.h"
#include "worker-agent/process/warm_targets.h"

/* Why a request will not reach a process; it is answered "Resumelb-Unprocessed". */
enum slot_refusal {
    SLOT_QUEUE_FULL,
    SLOT_QUEUE_TIMEOUT,
    SLOT_NOT_STARTED, /* the process has died, or does not start */
    SLOT_NO_ROOM,     /* another process would be too many; others of the application are there */
    SLOT_STOPPED      /* the agent ends */
};

enum slot_request_state { SLOT_REQUEST_NONE, SLOT_REQUEST_WAITING, SLOT_REQUEST_RUNNING };

struct http_listener;

/* Embedded in a request (front_exchange.c); zeroed before its first use. */
struct slot_request {
    struct core_request core;      /* may_probe is the owner's to set */
    enum slot_request_state state; /* as counted */
    struct app_group *group;
    struct slot *slot; /* NULL: of no slot, until it has a process */
    uint64_t life;     /* slot->life when it got its process */
    struct timer timeout;
    uint64_t asked_us;
    bool housed;          /* the slot's homes know of it (slot_homes.h) ... */
    uint64_t housed_life; /* ... of the process of this life */
    bool first;           /* it is the probe of a process without ready_probe */
    bool tunnel;          /* slot_upgraded: runs, but is in no backlog */
    /* Whom it got: a counted reference, until slot_leave. */
    struct conn_backend *backend;
    struct addr addr;
    /* Later, never inside slot_ask, not after slot_leave: a place is there, or will not be. */
    void (*go)(struct slot_request *r);
    void (*refused)(struct slot_request *r, enum slot_refusal why);
};

struct slot {
    struct log_subject subject;
    struct app_group *group;
    unsigned n;
    struct core_slot core;
    struct addr addr; /* unset when slots have no addresses */
    char name[ADDR_TEXT_MAX];
    struct front_door door;
    struct http_listener *listener;        /* NULL: it has no address, or listens no more */
    char incarnation[INCARNATION_MAX + 1]; /* of the process, or of the next one */
    bool incarnated;                       /* a process has that incarnation */
    uint64_t life;                         /* raised when the process is another one */
    const struct addr *attached;           /* the process is somebody else's; NULL: ours */
    struct core_process attached_process;
    struct conn_backend *attached_backend;
    size_t nrunning;         /* at all its processes; an upgraded connection runs until it ends */
    size_t ntunnels;         /* of those: upgraded, so in no backlog */
    uint64_t delay_ms;       /* of the last back-off; 0: none */
    unsigned start_failures; /* processes in a row that died without getting ready */
    double warmth;           /* the sum of its scores */
    struct slot_meters meters;
    struct slot_homes homes;
    struct warm_targets targets; /* what a new process is asked before it takes over */
    struct registration registration;
    struct list streams; /* resume_stream.h */
    uint64_t served;
};

struct slot *slot_create(struct app_group *g, unsigned n);
/* Errors are logged. */
bool slot_listen(struct slot *s);
/* Register. */
void slot_start(struct slot *s);
void slot_settings_changed(struct slot *s);
/* What it has measured up to now, as a resume file has it; nothing when there is nothing. */
void slot_print_resume(struct slot *s, struct text *out);
/* Forget what it knows of CLS, or of all (NULL), in its file too; load balancers are told. Returns
 * how many scores went. */
size_t slot_forget(struct slot *s, const struct slice *cls);
void slot_stop_listening(struct slot *s);
/* Nobody's process is behind it any more. Before the group's core ends. */
void slot_end_attached(struct slot *s);
void slot_destroy(struct slot *s);
/* What load balancers are told. */
enum resume_state slot_state(const struct slot *s);
/* It is one too many (max_processes), and has nothing left to do: load balancers are to forget it.
 */
bool slot_is_out(const struct slot *s);

static inline struct slot *slot_of(struct core_slot *s)
{
    return container_of(s, struct slot, core);
}

/* The one that gets its requests, if it is ready; NULL: none, or somebody else's. */
static inline struct app_process *slot_process(const struct slot *s)
{
    return s->core.process != NULL && s->attached == NULL ? app_process_of(s->core.process) : NULL;
}

/* What is to take the place of that; NULL: nothing. */
static inline struct app_process *slot_successor(const struct slot *s)
{
    return s->core.successor != NULL ? app_process_of(s->core.successor) : NULL;
}

/* ---- requests ---- */
enum slot_answer { SLOT_GO, SLOT_WAIT, SLOT_REFUSED };
/*
 * Ask for a place at the process of S, or (S NULL) at whichever process of G: there is one
 * (R->backend, R->addr, R->slot), or it will come, or (*WHY) not. Where there is no process one is
 * started. Places are given in the order of asking, `concurrency` at once.
 */
enum slot_answer slot_ask(struct app_group *g, struct slot *s, struct slot_request *r,
                          enum slot_refusal *why);
/* R, which was refused, is to be had at TO instead of a process; it takes no place. Takes BACKEND.
 */
void slot_pass_on(struct slot_request *r, const struct addr *to, struct conn_backend *backend);
/* R has done with its place, or gives up waiting. Harmless when it has neither. */
void slot_leave(struct slot_request *r);
/* The process has answered R (its head is there): so it serves. */
void slot_answered(struct slot_request *r);
/* R was lost on the way; the process may have died, which we shall hear in a moment: hold the next.
 */
void slot_hold(struct slot_request *r);
/* R's process could not be connected to: nobody else gets it. */
void slot_not_reached(struct slot_request *r);
/* Upgraded connections that R's process has. */
unsigned slot_upgrades(const struct slot_request *r);
/* R is an upgraded connection now: its place goes to others, and it leaves the backlog. */
void slot_upgraded(struct slot_request *r);
/* The backlog of S: requests waiting and running, of all senders, without upgraded connections. */
size_t slot_in_hand(const struct slot *s);
/* The same of R's slot; R is one of them even when it has left. */
size_t slot_backlog(const struct slot_request *r);
/* R's process did not answer in time. */
void slot_process_stuck(struct slot_request *r);
/* Count R, which was served. Not those that a starting process got: they waited for its start. */
void slot_served(const struct slot_request *r, struct slice fingerprint, struct slice cls,
                 uint64_t service_us, bool failed);

/* ---- from its processes and the pool ---- */
void slot_adopt(struct slot *s, struct kept_process *k);
/* The incarnation of the process that it gets next. */
void slot_next_incarnation(const struct slot *s, char out[INCARNATION_MAX + 1]);
/* P, of its slot, serves. */
void slot_process_ready(struct app_process *p);
/* P has failed: the next one has to wait. Before it leaves the slot. */
void slot_process_failed(struct app_process *p);
/* P is no more. */
void slot_process_gone(struct app_process *p);
/* Its processes, or whether it wants one, have changed. */
void slot_changed(struct slot *s);
/* Tell everybody who listens (tree, streams) what state it is in now. */
void slot_publish(struct slot *s);
/* Answer all who wait at the slot, or for whichever process of the group. */
void slot_refuse_waiting(struct slot *s, enum slot_refusal why);
void slot_refuse_waiting_any(struct app_group *g, enum slot_refusal why);
/* The same of those at S, or of its group, who wait for a process that will not come: the agent
   ends, or another one starts it. */
void slot_refuse_hopeless(struct slot *s);

#endif
