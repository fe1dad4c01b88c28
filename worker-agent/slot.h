/* SPDX-License-Identifier: Apache-2.0
 *
 * A slot: a numbered, registered address with at most one process behind it, the requests that wait
 * for that process, its meters and its resume file. Owned by its group. Control loop only.
 *
 *   cold -- request --> starting -- ready --> ready -- process dies --> starting (n <
 * min_processes) ^                    |                                                   or cold
 *     +---- n >= min ------+ start fails
 */
#ifndef RLB_AGENT_SLOT_H
#define RLB_AGENT_SLOT_H

#include "common/net/addr.h"
#include "common/net/loop.h"
#include "common/wire/resume_line.h"
#include "worker-agent/app_process.h"
#include "worker-agent/registration.h"
#include "worker-agent/slot_meter.h"

struct http_listener;

/* Why a request will not reach a process; it is answered "Resumelb-Unprocessed". */
enum slot_refusal {
    SLOT_QUEUE_FULL,
    SLOT_QUEUE_TIMEOUT,
    SLOT_NOT_STARTED, /* the process has died, or does not start */
    SLOT_STOPPED      /* the agent ends */
};

enum slot_request_state { SLOT_REQUEST_NONE, SLOT_REQUEST_WAITING, SLOT_REQUEST_RUNNING };

/* Embedded in a request (front_exchange.h); zeroed before its first use. */
struct slot_request {
    struct list node; /* in the slot's waiting or running list */
    enum slot_request_state state;
    struct slot *slot;
    struct timer timeout;
    uint64_t asked_us;
    bool first; /* it is the probe of a process without ready_probe */
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
    struct addr addr;
    char name[ADDR_TEXT_MAX];
    struct http_listener *listener;
    struct app_process *process;           /* NULL: none */
    char incarnation[INCARNATION_MAX + 1]; /* of the process, or of the next one */
    const struct addr *attached;           /* the process is somebody else's; NULL: ours */
    struct conn_backend *attached_backend;
    struct list waiting, running;
    size_t nwaiting, nrunning; /* an upgraded connection runs until it ends */
    struct timer held;         /* running: no request goes out until it expires (slot_hold) */
    struct timer spawn;        /* running: a process is wanted, and comes when it expires */
    struct list starved_node;
    uint64_t not_before_ms;  /* no process is started before */
    uint64_t delay_ms;       /* of the last back-off; 0: none */
    unsigned start_failures; /* processes in a row that died without getting ready */
    struct slot_meters meters;
    struct registration registration;
    struct list streams; /* resume_stream.h */
    uint64_t served;
};

struct slot *slot_create(struct app_group *g, unsigned n);
/* Errors are logged. */
bool slot_listen(struct slot *s);
/* Register, and have a process if n < min_processes. */
void slot_start(struct slot *s);
void slot_settings_changed(struct slot *s);
void slot_stop_listening(struct slot *s);
void slot_destroy(struct slot *s);
/* What load balancers are told. */
enum resume_state slot_state(const struct slot *s);

/* ---- requests ---- */
enum slot_answer { SLOT_GO, SLOT_WAIT, SLOT_REFUSED };
/*
 * Ask for a place at the process: there is one (R->backend, R->addr), or it will come, or (*WHY)
 * not. A cold slot starts a process. Places are given in the order of asking, `concurrency` at
 * once.
 */
enum slot_answer slot_ask(struct slot *s, struct slot_request *r, enum slot_refusal *why);
/* R has done with its place, or gives up waiting. Harmless when it has neither. */
void slot_leave(struct slot_request *r);
/* The process has answered R (its head is there): so it serves. */
void slot_answered(struct slot_request *r);
/* A request was lost on the way; the process may have died, which we shall hear in a moment: hold
 * the next. */
void slot_hold(struct slot *s);
/* Requests that R's slot has in hand, waiting and running, whoever sent them; R is one of them even
 * when it has left. */
size_t slot_backlog(const struct slot_request *r);
/* R's process did not answer in time. */
void slot_process_stuck(struct slot_request *r);
/* Count a served request. Not those that a starting process got: they waited for its start. */
void slot_served(struct slot *s, struct slice fingerprint, struct slice cls, uint64_t service_us,
                 bool failed);

/* ---- from its process and the pool ---- */
void slot_adopt(struct slot *s, struct kept_process *k);
void slot_process_moved(struct slot *s);
void slot_process_ended(struct slot *s, bool was_ready, bool expected);
void slot_may_spawn(struct slot *s);
/* Tell everybody who listens (tree, streams) what state it is in now. */
void slot_publish(struct slot *s);
/* Answer all who wait. */
void slot_refuse_waiting(struct slot *s, enum slot_refusal why);

#endif
