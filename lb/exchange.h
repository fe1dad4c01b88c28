/* SPDX-License-Identifier: Apache-2.0
 *
 * One request's life: walks step.def and holds everything borrowed on the way. Lives and dies on
 * one data loop; owned by itself from exchange_create on, freed between turns after ACCOUNT.
 *
 * It has two sides, which end at different times:
 *   the worker's  from ROUTE to RELEASE: a place in a pool, a connection
 *   the client's  from exchange_create to http_reply's gone()
 * When both are over it is accounted for. The request dies with the client's side.
 *
 *   exchange.c  the walk itself, the client's side     forward.c  FORWARD: out, back, again
 *   connect.c   ROUTE and CONNECT                      account.c  ACCOUNT
 */
#ifndef RLB_LB_EXCHANGE_H
#define RLB_LB_EXCHANGE_H

#include "common/net/conn_pool.h"
#include "common/net/http1_client.h"
#include "common/net/http_server.h"
#include "common/wire/trace_context.h"
#include "lb/application.h"
#include "lb/classify.h"
#include "lb/lb.h"
#include "lb/member.h"
#include "lb/poison.h"
#include "lb/route_wait.h"

enum step {
#define STEP(name, to, doc) STEP_##name,
#include "lb/step.def"
#undef STEP
    STEPS
};
const char *step_text(enum step s);
/* Whether step.def has the edge. */
bool step_may(enum step from, enum step to);
/* The same as bits. */
extern const uint16_t step_successors[];

/* What the exchanges of one data loop share. */
struct exchange_loop {
    struct lb_loop *home;
    struct list spare; /* exchanges to be used again */
    size_t nspare;
    size_t live;             /* exchanges that are not freed yet */
    struct text head;        /* a request head while it is built */
    bool own_server;         /* the Server field of answers is ours */
    int64_t uncounted_bytes; /* buffered, not added to lb->buffered_bytes yet */
    /* Called between turns when the last exchange has been freed; or NULL. */
    void (*idle)(void *context);
    void *idle_context;
};

/* A request in text that outlives the server's: for the access line of a tunnel. */
struct exchange_text {
    struct slice method, target, referer, agent, host, request_id;
    char *bytes;
};

struct exchange {
    struct exchange_loop *shared;
    struct lb_loop *home;
    struct application *app;     /* NULL until found; never NULL from ROUTE on */
    struct application_loop *al; /* app's part on this loop */
    struct list node;            /* in al->exchanges; later in shared->spare */
    struct loop_deferred deferred;

    enum step step;       /* exchange_enter's */
    enum outcome outcome; /* how it ended, or will if nothing else happens */
    uint64_t entered_us;
    uint64_t step_us[STEPS]; /* time spent in each */
    uint64_t start_us, start_wall_ms;

    /* ---- the client's side ---- */
    struct http_request *req; /* NULL once it is gone */
    struct http_conn *conn;
    const struct body_file *body_file; /* of the request, or NULL */
    int status;                        /* of the answer; 0: none yet */
    int version;                       /* as the request's */
    size_t buffered;                   /* of reply.queued_bytes, as counted */
    uint64_t received_bytes, sent_bytes;
    struct slice authority, target; /* as a worker gets them */
    struct slice request_id;        /* the client's, or id */
    struct slice trace_id, span_id; /* trace_room; empty: none of ours (trace.c) */
    struct slice cls;               /* cls_room */
    struct slice peer;              /* peer_room: who is connected, without port */
    struct slice client;            /* client_room, or peer: who asks, without port (trust.c) */
    struct slice forwarded_host;    /* a trusted proxy's X-Forwarded-Host; or empty */
    struct exchange_text *text;     /* owned; tunnels */
    struct timer total_timer;

    int rate_status; /* of the refusal by a rate; 0: none */
    uint64_t rate_retry_ms;

    /* ---- pool counters (limit.c) ---- */
    struct limit_rules *limits; /* one reference; NULL: it has none */
    size_t next_rule;           /* of limits */
    struct list claims;         /* limit_claim, the newest first; when limits != NULL */
    unsigned nclaims, ndaemon_claims;
    const struct limit_rule *refusal; /* of limits: which refused it */
    struct limit_copying *copying;    /* taken from the request */
    struct copy_maker *copy_maker;    /* owned: the response's copy, while it is made */

    /* ---- the worker's side ---- */
    struct pool_pick pick;     /* counted while member != NULL */
    struct pool_served served; /* how that goes; not served until it is */
    struct member *member;
    /* The last worker tried, for the access line: counted by PICK, or by itself without a member.
     */
    struct worker *last;
    struct route_wait wait;
    struct conn_waiter conn_wait;
    struct http1_connect *attempt;
    uint64_t attempt_us;     /* when it began */
    struct http1_conn *http; /* checked out */
    uint64_t paused_since_us;
    uint64_t paused_us;       /* of the last try: no service of the worker's */
    uint64_t sent_us;         /* when the request was given to it */
    uint64_t service_us;      /* of the last try */
    struct http1_times times; /* of the last try */
    struct timer wait_timer;  /* for any worker, or a connection */
    struct refused_wait refused;
    uint64_t refused_since_ms; /* when it first waited there; 0: it has not */
    unsigned ntried;           /* of TRIED */
    unsigned nbarred;          /* the first of them: for good; the others have only refused it */
    unsigned retries;          /* used up */
    unsigned picks;
    enum pick_reason reason; /* of the last pick */
    enum outcome failure;    /* what the last try ended with, when ntried != 0 */

    /* ---- yes or no, of the client's side ---- */
    bool limit_waiting; /* for its turn at a pool counter */
    bool copies_wanted; /* the response is to be copied */
    bool client_over;   /* gone() was called */
    bool started;       /* an answer's head was given to the client's side */
    bool safe;          /* GET, HEAD: may run twice */
    bool websocket;     /* asks to be upgraded */
    bool tls;           /* its connection, or a trusted proxy's word for it */
    bool tunnel;        /* is upgraded */
    /* ... and of the worker's */
    bool waiting;         /* parked for any worker */
    bool refused_waiting; /* in the line of those whom all have refused */
    bool may_return;      /* one of TRIED failed, and has an agent, which brings another process */
    bool conn_waiting;    /* in line for a connection */
    bool permit;          /* may open a connection: conn_opened or conn_not_opened is due */
    bool active;          /* a request is under way on http */
    bool keep;            /* http may serve another */
    bool reused;          /* http was a kept one */
    bool fresh;           /* nothing but a new connection will do, for this pick */
    bool paused;          /* the client is slower than the worker */
    bool retrying;        /* counted in the application's retry_budget */

    /* ---- from here on nothing is zeroed for a new one ---- */
    char id[EXCHANGE_ID_LEN];
    struct http_reply reply;         /* the client's side; exchange_create's */
    struct worker *tried[TRIED_MAX]; /* counted: must not be picked (again) */
    char cls_room[CLASS_BYTES_MAX];
    char peer_room[ADDR_TEXT_MAX];
    char client_room[ADDR_TEXT_MAX];
    char trace_room[TRACE_PARENT_LEN];
    struct addr client_addr; /* that of client */
};

struct exchange_loop *exchange_loop_create(struct lb_loop *home);
/* No exchange is left. */
void exchange_loop_destroy(struct exchange_loop *l);

/* A complete request has come on CONN: serve it. */
void exchange_create(struct exchange_loop *l, struct http_request *req, struct http_conn *conn);
/* The load balancer stops: end it now, with an answer if none has begun. */
void exchange_cut(struct exchange *x);

/* ---- for the files named above ---- */

/* Asserts the edge, stamps the time. */
static inline void exchange_enter(struct exchange *x, enum step to)
{
    uint64_t now_us = loop_now_us(x->home->loop);

    ASSERT((step_successors[x->step] >> to & 1) != 0);
    x->step_us[x->step] += now_us - x->entered_us;
    x->entered_us = now_us;
    x->step = to;
}
/* An answer of which nothing has gone out to the client is as none: X is not started then. */
void exchange_take_back(struct exchange *x);
/*
 * The worker's side cannot give (the rest of) an answer and holds nothing any more: answer with O's
 * status, or let the client see the answer cut short. May end X's client side.
 */
void exchange_fail(struct exchange *x, enum outcome o);
/* A small answer of ours, whose fields are set, ends it: nothing is held of any worker. */
void exchange_answer_here(struct exchange *x, int status, const char *type, struct slice body);
/* The request as classifiers and rules see it; borrowed from X. */
void exchange_describe(const struct exchange *x, struct classify_request *out);
/* It is tried again no more; harmless when it was not. */
void exchange_end_retry(struct exchange *x);
/* RELEASE: give back the connection, and the worker's place. */
void exchange_release(struct exchange *x);
/* RELEASE of the connection alone: another one to the same worker is to follow. */
void exchange_release_connection(struct exchange *x);
/* Both sides are over. */
void exchange_account(struct exchange *x);
/* Count what the client's side has queued. */
void exchange_count_buffered(struct exchange *x);
/* How many bytes may be queued before reading from the worker pauses. */
size_t exchange_buffer_limit(const struct exchange *x);
/*
 * The picked worker is given back, and is not picked again; O: why, when nobody else serves it
 * either. BARRED: never; else it has not seen a byte, and may be asked again when all have refused.
 */
void exchange_exclude(struct exchange *x, enum outcome o, bool barred);

/* connect.c: pick a worker and go on from there. */
void exchange_route(struct exchange *x);
/* connect.c: get a connection to the picked worker and go on. */
void exchange_connect(struct exchange *x);
void exchange_connect_init(struct exchange *x);
/* connect.c: the picked worker has refused it; others are asked, and in the end all of them again.
 */
void exchange_refused(struct exchange *x, enum outcome o);
/* connect.c: leave every queue, stop connecting. */
void exchange_leave_queues_(struct exchange *x);
static inline void exchange_stop_waiting(struct exchange *x)
{
    /* Mostly it stands in none. */
    if (x->waiting || x->refused_waiting || x->conn_waiting || x->permit || x->attempt != NULL ||
        timer_running(&x->wait_timer))
        exchange_leave_queues_(x);
}
/* forward.c: a connection is there. */
void exchange_forward(struct exchange *x);
/* forward.c: the client has taken some. */
void exchange_drained(struct exchange *x);
/*
 * guard.c: X's worker, or its process, died with it. True: its class and path is refused now.
 */
bool guard_worker_died(struct exchange *x);
/* guard.c: it has an answer, which says something when there are suspects. */
void guard_answered_(const struct exchange *x);
static inline void guard_answered(const struct exchange *x)
{
    if (poison_any_suspects(x->app->poison))
        guard_answered_(x);
}
/* guard.c: whether its class and path is refused, workers having died of it. */
bool guard_refuses_(const struct exchange *x);
static inline bool guard_refuses(const struct exchange *x)
{
    return poison_any_held(x->app->poison) && guard_refuses_(x);
}
/* account.c */
void account(const struct exchange *x);
/* An access line for what never became an exchange: the server itself refused it. */
void account_refused(const struct lb_loop *home, const struct http_refusal *r);
/* account.c: keep what the access line needs of the request. */
void account_keep_text(struct exchange *x);

static inline const struct app_settings *exchange_settings(const struct exchange *x)
{
    return application_settings(x->al);
}

#endif
