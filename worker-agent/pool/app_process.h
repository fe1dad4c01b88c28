/* SPDX-License-Identifier: Apache-2.0
 *
 * One application process: one incarnation, from the request to the supervisor to its burial. Made
 * for a slot (or adopted), in exactly one of the pool's lists, the one of its state; freed when it
 * has ended, between turns. Whether it is its slot's process, the replacement of that, or has left
 * the slot is decided by the core (pool_core.h). It reports to its slot by the events of the pool.
 * Control loop only.
 */
#ifndef RLB_AGENT_POOL_APP_PROCESS_H
#define RLB_AGENT_POOL_APP_PROCESS_H

#include "common/upstream/conn_pool.h"
#include "common/upstream/http_fetch.h"
#include "worker-agent/pool/model.h"
#include "worker-agent/supervisor/supervisor_link.h"

/*
 * Determines whether a process serves: requests its ready_probe until the response has a status
 * below 500, or, without a ready_probe, connects until that succeeds (for processes that bind their
 * address themselves). start_timeout limits the total time.
 */
struct readiness {
    bool running;
    unsigned delay_ms; /* before the next attempt */
    struct http_fetch fetch;
    struct timer retry;
    int last_status; /* of the last answer; 0: none */
};

struct app_process {
    struct log_subject subject;
    struct app_pool *pool;
    struct list state_node;
    enum process_state state;
    struct app_group *group;  /* NULL: adopted, of a removed application; only to be ended */
    struct slot *slot;        /* the slot it was made for; NULL: none, only to be ended */
    struct core_process core; /* while it has a slot */
    char id[INCARNATION_MAX + 1];
    char version[VERSION_MAX + 1]; /* the version that it runs */
    pid_t pid;                     /* 0: not yet */
    struct addr addr;
    struct conn_backend *backend; /* idle connections to it; from STARTING on */
    bool open;             /* STARTING without a ready_probe: it can accept its first request */
    bool failed;           /* its failure was handled */
    bool adopted;          /* taken over from an old agent */
    bool has_served;       /* it has answered a request, or an old agent found it ready */
    struct timer deadline; /* SPAWNING, STARTING: start_timeout; STOPPING: stop_timeout */
    struct timer shutdown; /* LEAVING: shutdown_timeout */
    struct timer held;     /* running: it gets no request until it expires (app_process_hold) */
    struct readiness readiness;
    struct warm_up warm_up; /* a replacement that is ready, before it takes its slot over */
    struct usage_target usage;
    struct process_output output;
    uint64_t since_ms, ready_since_ms;
    uint64_t requests;
    unsigned busy_elsewhere; /* requests of the old agent that are still in flight */
    unsigned busy_reported;  /* requests of this agent as last reported to the supervisor */
    struct loop_deferred freeing;
};

const char *process_state_text(enum process_state s);

static inline struct app_process *app_process_of(struct core_process *p)
{
    return container_of(p, struct app_process, core);
}

/* Requests the process ID for S from the supervisor. */
void app_process_spawn(struct slot *s, const char *id);
/*
 * One that the supervisor had: behind S, which is cold, or (S NULL) to be ended. Takes K's output
 * descriptor. NULL: it is to be ended.
 */
struct app_process *app_process_adopt(struct app_pool *pool, struct slot *s,
                                      struct kept_process *k);
/* State before the take-over. */
bool app_process_was_ready(const struct kept_process *k);
bool app_process_was_leaving(const struct kept_process *k);
/* P continues in the slot S: either WAS_READY, or to be found ready. */
void app_process_go_on(struct app_process *p, bool was_ready);

/* ---- going; any state, harmless when it is going already ---- */
/*
 * It is to go, because of WHY (one word or text without quotes, for the log): it is replaced first
 * where it would be missed, one process of the application at a time, and ends when it has nothing
 * to do any more.
 */
void app_process_mark(struct app_process *p, const char *why);
/* P receives no further requests and is ended when its requests are finished. */
void app_process_detach(struct app_process *p, const char *why);
/* Ends P immediately, even if requests are in flight: SIGTERM, and SIGKILL after stop_timeout. */
void app_process_stop(struct app_process *p);
/* Sends SIGKILL immediately. */
void app_process_kill(struct app_process *p);
/* Records for operators that P has failed, the reason HOW, and its last output, in its slot's
 * failure record and in the log. */
void app_process_failed(struct app_process *p, enum failure_kind kind, const char *how);
/* Connecting to P has failed. */
void app_process_unreachable(struct app_process *p);
/* The core has detached P from its slot; its requests continue. */
void app_process_leaves(struct app_process *p);
/* A request to P was lost. P may have exited, in which case a notification follows; no other
 * request is sent to it until then. */
void app_process_hold(struct app_process *p);
/* P's first request was sent / has finished; if it was ANSWERED, P is ready. */
void app_process_first_sent(struct app_process *p);
void app_process_first_done(struct app_process *p, bool answered);
/* Applies changed timeouts to idle connections. */
void app_process_settings_changed(struct app_process *p);

/* ---- another agent takes over ---- */
/* P now belongs to the new agent; this agent only finishes its requests at P. */
void app_process_hand_over(struct app_process *p);
/* P belongs to this agent again. */
void app_process_take_back(struct app_process *p);
/* The old agent has finished: ends the processes that were kept for it. */
void app_process_before_gone(struct app_process *p);
/* Notifies the supervisor of the number of our requests at P, if that has changed. */
void app_process_tell_busy(struct app_process *p);
/* Forget P. */
void app_process_let_go(struct app_process *p);

/* ---- from the supervisor ---- */
void app_process_on_spawned(struct app_process *p, pid_t pid, const char *address, int output_fd);
/* Could not be started, or has died; HOW for the log. P is freed at the end of this turn. */
void app_process_on_refused(struct app_process *p, const char *why);
void app_process_on_died(struct app_process *p, const char *how);

static inline bool app_process_ends(const struct app_process *p)
{
    return p->state >= PROCESS_STOPPING;
}

#endif
