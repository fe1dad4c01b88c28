/* SPDX-License-Identifier: Apache-2.0
 *
 * A slot: a numbered, registered address with at most one process behind it, the requests that wait
 * for that process, its meters and its resume file. Owned by its group. Control loop only.
 *
 *   dormant -- needed --> starting -- ready --> ready -- process exits --> dormant, starting
 *
 * While its process is being replaced, the slot has a second process, the replacement. When the
 * replacement is ready, it takes over the slot under a new instance, and the old process
 * finishes its outstanding requests. pool_core.h decides which slot gets a process and when.
 *
 * slot.c: its life, its resume and registration. app_process.c: its processes. slot_queue.c:
 * requests. resume_stream.c: what load balancers are sent.
 */
#pragma once

#include "common/http/http_server.h"
#include "common/skills/home_records.h"
#include "common/skills/resume.h"
#include "common/upstream/conn_pool.h"
#include "common/upstream/http_fetch.h"
#include "worker-agent/pool/model.h"
#include "worker-agent/supervisor/supervisor.h"

/* ---- app_process.c: the processes ---- */

/*
 * One application process: one instance, from the request to the supervisor until it is reaped.
 * Made for a slot (or adopted); freed when it has ended, between turns. Whether it is its slot's
 * process, the replacement of that, or has left the slot is decided by the core (pool_core.h).
 */

struct app_process {
    struct log_subject subject;
    struct app_pool *pool;
    struct list node; /* pool->processes */
    enum process_state state;
    struct app_group *group;  /* NULL: adopted, of a removed application; only to be ended */
    struct slot *slot;        /* the slot it was made for; NULL: none, only to be ended */
    struct core_process core; /* while it has a slot */
    char id[INSTANCE_MAX + 1];
    char version[VERSION_MAX + 1]; /* the version that it runs */
    pid_t pid;                     /* 0: not yet */
    struct addr addr;              /* its owner is set from the start */
    struct conn_backend *backend;  /* idle connections to it; from STARTING on */
    bool adopted;                  /* taken over from an old agent */
    bool has_served;       /* it has responded to a request, or an old agent found it ready */
    struct timer deadline; /* SPAWNING, STARTING: start_timeout; STOPPING: stop_timeout */
    struct timer shutdown; /* LEAVING: shutdown_timeout */
    struct timer held;     /* running: it gets no request until it expires (app_process_hold) */
    /*
     * Whether it serves: its ready_probe is requested until the response has a status below 500,
     * or, without a ready_probe, it is connected to until that succeeds (for processes that bind
     * their address themselves). start_timeout limits the total time.
     */
    struct http_fetch probe;
    struct timer probe_retry;
    unsigned probe_delay_ms; /* before the next attempt */
    int probe_status;        /* of the last response; 0: none */
    struct warm_up warm_up;  /* a replacement that is ready, before it takes its slot over */
    struct usage_target usage;
    struct process_output output;
    uint64_t since_ms, ready_since_ms;
    unsigned busy_reported; /* requests of this agent as last reported to the supervisor */
    struct loop_deferred freeing;
};

extern const char *const process_state_texts[]; /* by enum process_state */

static inline struct app_process *app_process_of(struct core_process *p)
{
    return container_of(p, struct app_process, core);
}

/* Of idle connections to a process of G. */
static inline struct conn_pool_settings group_conn_settings(const struct app_group *g)
{
    return (struct conn_pool_settings){.idle_timeout_ms = g->s->idle_connection_timeout_ms,
                                       .max_waiting = 1};
}

/* Requests a process for S from the supervisor, or the replacement of the present one. */
void app_process_spawn(struct slot *s);
/*
 * Takes over K, which the supervisor had, as the process of S, which is dormant. Takes K's output
 * descriptor. Returns false if K is ended instead: S is NULL, or its address is invalid.
 */
bool app_process_adopt(struct app_pool *pool, struct slot *s, struct adoptable_process *k);
/* Notes stored with the supervisor for the next agent: the state before the take-over. */
#define PROCESS_NOTE_READY "ready"
#define PROCESS_NOTE_LEAVING "leaving"

/* ---- ending; any state, harmless if it is ending already ---- */
/* By order of an operator: P gets no more requests, and ends when those it has are finished. */
void app_process_detach(struct app_process *p);
/* Ends P immediately, even if requests are in flight: SIGTERM, and SIGKILL after stop_timeout. */
void app_process_stop(struct app_process *p);
/* Sends SIGKILL immediately. */
void app_process_kill(struct app_process *p);
/* Records that P has failed, HOW, and its last output, in its slot's failure record and the log. */
void app_process_failed(struct app_process *p, enum failure_kind kind, const char *how);
/* Connecting to P has failed: no other request is sent to it. */
void app_process_unreachable(struct app_process *p);
/* The core has detached P from its slot; its requests continue. */
void app_process_begin_leaving(struct app_process *p);
/* A request to P was lost. It may have exited: it gets no other request until that is known. */
void app_process_hold(struct app_process *p);
/* P's first request has finished; if it was RESPONDED, P is ready. */
void app_process_first_done(struct app_process *p, bool responded);
/* Applies changed timeouts to idle connections. */
void app_process_settings_changed(struct app_process *p);

/* ---- another agent takes over ---- */
/* P now belongs to the new agent; this agent only finishes its requests at P. */
void app_process_hand_over(struct app_process *p);
/* P belongs to this agent again. */
void app_process_take_back(struct app_process *p);
/* The old agent has finished: ends the processes that were retained for it. */
void app_process_old_agent_exited(struct app_process *p);
/* Notifies the supervisor of the number of our requests at P, if that has changed. */
void app_process_report_busy(struct app_process *p);
/* Releases P without ending it. */
void app_process_release(struct app_process *p);

/* ---- from the supervisor ---- */
void app_process_on_spawned(struct app_process *p, pid_t pid, const char *address, int output_fd);
/* P could not be started (WHY), or has died (HOW). P is freed at the end of this turn. */
void app_process_on_start_rejected(struct app_process *p, const char *why);
void app_process_on_died(struct app_process *p, const char *how);

static inline bool app_process_is_ending(const struct app_process *p)
{
    return p->state >= PROCESS_STOPPING;
}

/* ---- slot.c ---- */

/* What the agent responds by itself. Slots reject requests with the "unprocessed" ones of them. */
enum agent_outcome {
#define OUTCOME(name, status, note, figure, text, doc) OUTCOME_##name,
#include "worker-agent/config/outcome.def"
    OUTCOMES
};

/* Embedded in a request (front_exchange.c); zeroed before its first use. */
struct slot_request {
    struct core_request core; /* may_probe is the owner's to set */
    struct app_group *group;
    struct slot *slot; /* NULL: of no slot, until it has a process */
    uint64_t life;     /* slot->life when it got its process */
    struct timer timeout;
    uint64_t asked_us;
    bool housed;          /* the slot's homes know of it ... */
    uint64_t housed_life; /* ... of the process of this life */
    bool first;           /* it is the probe of a process without ready_probe */
    /* The assigned backend: a counted reference, held until slot_leave. */
    struct conn_backend *backend;
    struct addr addr;
    /* R got a place (go), or gets none (rejected). Not in slot_acquire or after slot_leave. */
    void (*go)(struct slot_request *r);
    void (*rejected)(struct slot_request *r, enum agent_outcome why);
};

/* A new slot, the last of G. */
struct slot *slot_create(struct app_group *g);
/* Starts listening. Returns false on failure; errors are logged. */
bool slot_listen(struct slot *s);
void slot_settings_changed(struct slot *s);
/* Appends the current measurements in resume file format; nothing if there are none. */
void slot_print_resume(struct slot *s, struct text *out);
/* The name it is registered under: its address, or its port at the application's `advertise`. */
void slot_registered_name(const struct slot *s, char out[ADDR_TEXT_MAX]);
/* Deletes the scores of CLS (NULL: all), in its file too, and publishes; returns how many. */
size_t slot_forget(struct slot *s, const struct slice *cls);
/* Stops listening; removes the file of a unix socket, unless another agent has taken over. */
void listener_close(struct front_listener *l);
void slot_destroy(struct slot *s);
/* The state reported to load balancers. */
enum resume_state slot_state(const struct slot *s);
/* The slot is beyond max_processes and without work: load balancers must remove it. */
bool slot_is_retired(const struct slot *s);

static inline struct slot *slot_of(struct core_slot *s)
{
    return container_of(s, struct slot, core);
}

/* The process that gets the slot's requests once it is ready. NULL: none, or managed externally. */
static inline struct app_process *slot_process(const struct slot *s)
{
    return s->core.process != NULL && s->attached == NULL ? app_process_of(s->core.process) : NULL;
}

/* The process that will replace slot_process(), or NULL. */
static inline struct app_process *slot_replacement(const struct slot *s)
{
    return s->core.replacement != NULL ? app_process_of(s->core.replacement) : NULL;
}

/* ---- requests ---- */
enum slot_result { SLOT_GO, SLOT_WAIT, SLOT_REJECTED };
/*
 * Requests a place at the process of S, or (S NULL) at any process of G. Starts a process if there
 * is none. Places are assigned in the order of requests, up to `concurrency` at a time. Returns
 * SLOT_GO if R->backend, R->addr and R->slot are set, SLOT_WAIT if R->go or R->rejected will be
 * called, and SLOT_REJECTED with the reason in *WHY.
 */
enum slot_result slot_acquire(struct app_group *g, struct slot *s, struct slot_request *r,
                              enum agent_outcome *why);
/* Releases R's place or cancels its wait. No effect if R has neither. */
void slot_leave(struct slot_request *r);
/* Reports that the process has responded to R (response head received), which shows that it serves.
 */
void slot_responded(struct slot_request *r);
/* R's process if it has one that the agent manages, or NULL. */
struct app_process *slot_request_process(const struct slot_request *r);
/* R is an upgraded connection now: it holds no place, and does not count in the backlog. */
void slot_upgraded(struct slot_request *r);
/* The backlog of S: requests waiting and running, of all senders, without upgraded connections. */
size_t slot_in_flight(const struct slot *s);
/* The backlog of R's slot. R is included even after slot_leave. */
size_t slot_backlog(const struct slot_request *r);
/* Reports that R's process did not respond, or take R, until the time-out SETTING expired. */
void slot_process_stuck(struct slot_request *r, const char *setting);
/* Counts served R; not one sent to a starting process, because its time includes the start. */
void slot_served(const struct slot_request *r, struct slice fingerprint, struct slice cls,
                 uint64_t service_us, bool failed);

/* ---- from its processes and the pool ---- */
/* P did not start, or failed: arms the back-off and detaches P. No effect if P is detached. */
void slot_process_failed(struct app_process *p);
/* The core has assigned a place to R. */
void slot_request_continue(struct core_request *r);
/* The slot's processes, or whether it needs one, have changed. */
void slot_changed(struct slot *s);
/* Publishes the current state to the tree and to all streams. */
void slot_publish(struct slot *s);
/* Removes it from the tree. */
void slot_unregister(struct slot *s);
/* Rejects all requests that wait at S, or (S NULL) for any process of G. */
void slot_reject_waiting(struct app_group *g, struct slot *s, enum agent_outcome why);
/* Rejects the requests waiting at S, or for any process of its group, for which no process will be
 * started here: the agent is shutting down, or another agent starts it. */
void slot_reject_hopeless(struct slot *s);

/* Takes the running requests off P, which is about to be removed: they have no place any more. */
void slot_abandon_running(struct core_process *p);

/* ---- resume streams: resume_stream.c ---- */

/*
 * GET RESUME_STREAM_PATH at a slot stays open. It sends the slot's current resume immediately, and
 * the newest one whenever a resume is published or the slot's state changes
 * (docs/reference/protocols.md). Each stream belongs to its HTTP request and is in its slot's list.
 * A slow reader receives only the newest resume.
 */
#define RESUME_STREAM_PATH "/.well-known/resumelb/resume"

/* Starts a stream of the resume for the classifier with FINGERPRINT; if that is malformed, for the
 * most recently used one. HOMES: reports the slot's home classes too, in separate lines. */
void resume_stream_start(struct slot *s, struct http_request *req, struct http_conn *conn,
                         struct slice fingerprint, bool homes);
/* Must be called when the slot's resume or state has changed. */
void resume_streams_changed(struct slot *s);
/* Sends the last line and ends all streams of S. */
void resume_streams_end(struct slot *s, enum resume_end why);
/* The common fields of all resume lines of the slot. */
struct resume_line slot_line(const struct slot *s);

/*
 * Notes that R runs at its process or waits for it. The load balancer that made this process a home
 * did so before the request arrived, and other load balancers must be notified before R has waited.
 * Noted once per process, so call this in both cases. A NULL home_report means that no home data
 * was received with R.
 */
void slot_homes_use(struct slot_request *r, struct slice fingerprint, struct slice cls,
                    const struct home_report *reported);
/* Records that R was served. */
void slot_homes_served(const struct slot_request *r, struct slice fingerprint, struct slice cls,
                       uint64_t service_us);
