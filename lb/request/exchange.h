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
 *   exchange.c  the walk itself, the client's side     connect.c  ROUTE and CONNECT
 *   receive.c   CLASSIFY                               forward.c  FORWARD: out, back, again
 *   limit.c     LIMIT                                  account.c  ACCOUNT
 *   slow_client.c  FORWARD and DELIVER to a client that is slower than the worker
 */
#ifndef RLB_LB_REQUEST_EXCHANGE_H
#define RLB_LB_REQUEST_EXCHANGE_H

#include "common/http/http_server.h"
#include "common/upstream/conn_pool.h"
#include "common/upstream/http1_client.h"
#include "common/wire/trace_context.h"
#include "lb/backends/member.h"
#include "lb/core/application.h"
#include "lb/core/lb.h"
#include "lb/core/route_wait.h"
#include "lb/core/step.h"
#include "lb/limits/limit_rule.h"
#include "lb/rules/classify.h"
#include "lb/rules/poison.h"

/* Shared by the exchanges of one data loop. */
struct exchange_loop {
    struct lb_loop *home;
    struct list spare; /* exchanges to be used again */
    size_t nspare;
    size_t live;              /* exchanges that are not freed yet */
    struct text head;         /* a request head while it is built */
    bool own_server;          /* the Server field of answers is ours */
    int64_t uncounted_bytes;  /* buffered, not added to lb->buffered_bytes yet */
    struct spill_loop spills; /* responses in files */
    /* Called between turns when the last exchange has been freed; or NULL. */
    void (*idle)(void *context);
    void *idle_context;
};

/* A request in text that outlives the server's: for the access line of a tunnel. */
struct exchange_text {
    struct slice method, target, referer, agent, host, request_id;
    char *bytes;
};

/* Of one that waits, in its queues; few do. */
struct exchange_waits {
    uint64_t refused_since_ms; /* when it first waited there; 0: it has not */
    struct http1_connect *attempt;
    struct timer timer; /* for any worker, or a connection */
    struct refused_wait refused;
    /* The end and the beginning of these two are read for each request. */
    struct conn_waiter conn;
    struct route_wait route;
};

enum {
    /* With less room than that in response_buffer, or in a file, nothing is read into it. */
    RESPONSE_ROOM_MIN = 4096,
};

struct answer;
struct slow_client;

/*
 * Sorted by use: the fields that every request uses come first, so that most of an exchange is
 * never loaded into the caches. There are four parts, which differ in how they are initialized for
 * a new exchange.
 */
struct exchange {
    /* ---- zeroed for a new one; in use on the way of each, ... ---- */
    _Alignas(CACHE_LINE_BYTES) struct exchange_loop *shared;
    struct lb_loop *home;
    struct application *app;     /* NULL until found; never NULL from ROUTE on */
    struct application_loop *al; /* app's part on this loop */
    struct http_request *req;    /* NULL once it is gone */
    struct http_conn *conn;
    enum step step;       /* exchange_enter's */
    enum outcome outcome; /* how it ended, or will if nothing else happens */
    int status;           /* of the answer; 0: none yet */
    int version;          /* as the request's */

    struct member *member;
    /* The last worker tried, for the access line: counted by PICK, or by itself without a member.
     */
    struct worker *last;
    struct http1_conn *http; /* checked out */
    struct list node;        /* in al->exchanges; later in shared->spare */
    struct loop_deferred deferred;

    uint64_t step_us[STEPS]; /* time spent in each */

    uint64_t entered_us;
    uint64_t start_us, start_wall_ms;
    uint64_t received_bytes, sent_bytes;
    size_t buffered;               /* of reply.queued_bytes, as counted */
    struct limit_rules *limits;    /* one reference; NULL: it has none */
    struct copy_maker *copy_maker; /* owned: the response's copy, while it is made */

    struct http1_times times; /* of the last try */
    uint64_t service_us;      /* of the last try */
    unsigned ntried;          /* of TRIED */
    unsigned picks;
    enum pick_reason reason; /* of the last pick */
    /* Yes or no, of the client's side ... */
    bool client_over;   /* gone() was called */
    bool started;       /* an answer's head was given to the client's side */
    bool safe;          /* GET, HEAD: may run twice */
    bool websocket;     /* asks to be upgraded */
    bool tls;           /* its connection, or a trusted proxy's word for it */
    bool tunnel;        /* is upgraded */
    bool tunnel_place;  /* has one of its worker's max_tunnels */
    bool tunnels_full;  /* the last pick left out workers that have no such place */
    bool limit_waiting; /* for its turn at a pool counter */
    bool copies_wanted; /* the response is to be copied */
    bool event_stream;  /* the response is one: it is not put into a file */
    bool has_user;      /* came with what identifies its user: not to be copied */
    /* ... and of the worker's */
    bool active;          /* a request is in progress on http */
    bool keep;            /* http may serve another */
    bool reused;          /* http was a kept one */
    bool fresh;           /* nothing but a new connection will do, for this pick */
    bool paused;          /* the client is slower than the worker */
    bool retrying;        /* counted in the application's retry_budget */
    bool may_return;      /* one of TRIED failed, and has an agent, which brings another process */
    bool permit;          /* may open a connection: conn_opened or conn_not_opened is due */
    bool has_waited;      /* in one of the next three: WAITS are not as they were made */
    bool waiting;         /* parked for any worker */
    bool refused_waiting; /* queued, as all workers rejected it (route_wait.h) */
    bool conn_waiting;    /* in line for a connection */

    struct slice authority, target; /* as a worker gets them */
    struct slice request_id;        /* the client's, or id */
    struct slice cls;               /* texts */
    uint64_t cls_hash;              /* class_hash of it */
    struct slice peer;              /* texts: the connected client or proxy, without port */
    struct slice client;            /* client_room, or peer: the client, without port (receive.c) */
    struct slice forwarded_host;    /* a trusted proxy's X-Forwarded-Host; or empty */
    const struct body_file *body_file; /* of the request, or NULL */
    struct exchange_text *text;        /* owned; tunnels */
    struct slow_client *slow;          /* owned; NULL as long as the client takes what comes */

    /* ... or of few ---- */
    struct slice trace_id, span_id; /* trace_room; empty: none of ours (receive.c) */
    int rate_status;                /* of the refusal by a rate; 0: none */
    unsigned nbarred; /* the first of TRIED: for good; the others have only refused it */
    unsigned retries; /* used up */
    unsigned nclaims, ndaemon_claims;
    const struct limit_rule *refusal;    /* of limits: which refused it */
    struct limit_copying *copying;       /* taken from the request */
    struct conn_backend *tunnel_backend; /* counted: one of its places, until the tunnel ends; NULL:
                                            it has none */

    /* ---- not zeroed, but written before it is read ---- */
    uint64_t sent_us;          /* when the request was given to the worker */
    uint64_t paused_us;        /* of the last try: no service of the worker's */
    struct pool_served served; /* how the pick goes; not served until it is */

    /* ---- made once, and as it was then whenever the exchange is free (make_memory) ---- */
    struct timer total_timer;

    /* ---- again not zeroed ---- */
    struct pool_pick pick;   /* counted while member != NULL; filled while last != NULL */
    struct http_reply reply; /* the client's side; exchange_create's */

    /* ---- again made once ---- */
    struct exchange_waits waits;

    /* ---- and again not zeroed: in use for each no further than they are filled, ... ---- */
    _Alignas(CACHE_LINE_BYTES) char id[EXCHANGE_ID_LEN];
    struct addr client_addr;                     /* that of client */
    char texts[ADDR_TEXT_MAX + CLASS_BYTES_MAX]; /* the peer's, and then the class */

    /* ... or for few ---- */
    enum outcome failure; /* what the last try ended with, when ntried != 0 */
    uint64_t rate_retry_ms;
    uint64_t attempt_us; /* when it began */
    uint64_t paused_since_us;
    size_t next_rule;                /* of limits, as is the next: limit.c */
    struct list claims;              /* limit_claim, the newest first; when limits != NULL */
    struct worker *tried[TRIED_MAX]; /* counted: must not be picked (again) */
    char client_room[ADDR_TEXT_MAX];
    char trace_room[TRACE_PARENT_LEN];
};

struct exchange_loop *exchange_loop_create(struct lb_loop *home);
/* No exchange is left. */
void exchange_loop_destroy(struct exchange_loop *l);

/* Serves REQ, a complete request received on CONN. */
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
void exchange_fail(struct exchange *x, enum outcome o) cold_;
/*
 * Ends X with a small response of our own. Additional header fields must have been added before. X
 * must not hold a worker.
 */
void exchange_answer_here(struct exchange *x, int status, const char *type, struct slice body);
/* The request as classifiers and rules see it; borrowed from X. */
void exchange_describe(const struct exchange *x, struct classify_request *out) noinline_;
/* It is tried again no more; harmless when it was not. */
void exchange_end_retry(struct exchange *x);
/* RELEASE: give back the connection, and the worker's place. */
void exchange_release(struct exchange *x);
/*
 * The request is over for the pool: its place in the worker's backlog goes back. Harmless when it
 * has none.
 */
void exchange_release_place(struct exchange *x);
/* RELEASE of the connection alone: another one to the same worker is to follow. */
void exchange_release_connection(struct exchange *x);
/* Both sides are over. */
void exchange_account(struct exchange *x);
/* Count what the client's side has queued. */
void exchange_count_buffered(struct exchange *x);
/* How many bytes may be queued before reading from the worker pauses. */
size_t exchange_buffer_limit(const struct exchange *x);
/*
 * Releases the picked worker and excludes it from further picks. O: the outcome if no other worker
 * serves the request. BARRED: excluded for good; else the worker has not received a byte of the
 * request, and may be picked again when all have rejected it.
 */
void exchange_exclude(struct exchange *x, enum outcome o, bool barred);

/* Adds Allow to X's answer. */
void exchange_add_allow(struct exchange *x);
/* receive.c: CLASSIFY, and then on to LIMIT. */
void exchange_receive(struct exchange *x);
/* connect.c: picks a worker and continues from there. */
void exchange_route(struct exchange *x);
/* connect.c: gets a connection to the selected worker and continues. */
void exchange_connect(struct exchange *x);
/* connect.c: X is of new memory, or one that has waited is free: it waits for nothing. */
void exchange_make_waits(struct exchange *x);
/* connect.c: the picked worker has refused it; others are asked, and in the end all of them again.
 */
void exchange_refused(struct exchange *x, enum outcome o) cold_;
/* connect.c: leave every queue, stop connecting. */
void exchange_leave_queues_(struct exchange *x) noinline_;
static inline void exchange_stop_waiting(struct exchange *x)
{
    /* Mostly it has stood in none. */
    if (x->has_waited || x->permit)
        exchange_leave_queues_(x);
}
/* forward.c: the head that the worker gets, but for what depends on the worker; borrowed until the
 * next call. */
struct slice exchange_head(struct exchange *x);
/* forward.c: a connection is there. */
void exchange_forward(struct exchange *x);
/* slow_client.c: response_buffer is full. Reading from the worker stops, or continues into a file.
 */
void exchange_slow(struct exchange *x) cold_;
/*
 * slow_client.c: BODY, LAST or not, was received from the worker, and X is slow. Returns true if it
 * was taken over, to follow the bytes in the file.
 */
bool exchange_slow_body(struct exchange *x, struct http1_body *body, bool last) noinline_;
/* slow_client.c: whether what comes from the worker goes into a file; X is slow. */
bool exchange_slow_spills(const struct exchange *x);
/* slow_client.c: the client has taken some, and X is slow. May end X's client side. */
void exchange_slow_drained(struct exchange *x) noinline_;
/* slow_client.c: the rest of the response will not come, and X is slow: abort it behind what is in
 * the file. */
void exchange_slow_abort(struct exchange *x) cold_;
/* slow_client.c: bytes that wait in memory beside the reply's queue; X is slow. */
size_t exchange_slow_bytes(const struct exchange *x);
/* slow_client.c: reading from the worker is not stopped (any more). */
void exchange_end_pause(struct exchange *x);
/* slow_client.c: the client's side is over. X->slow is NULL then. */
void exchange_slow_end(struct exchange *x) noinline_;
/* forward.c: whether its class and path is refused, workers having died of it. */
bool guard_refuses_(const struct exchange *x) cold_;
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

/*
 * ---- limit.c: LIMIT ----
 *
 * The passage through the pool counters of its application. Each matching rule is claimed, in
 * order. Claims are held until the worker's side has ended (with at most response_buffer bytes left
 * for the client). A request above a limit waits, receives a copy of another request's response, or
 * is rejected.
 */

/* Go through them, then on to ROUTE. */
void exchange_limit(struct exchange *x);
/*
 * The worker's side is over, or will not begin: everything claimed goes back, what is waited for is
 * left. Harmless when there is nothing.
 *   done  the work is: a whole response is there, and no failure of the server's
 */
void limit_give_all_back_(struct exchange *x, bool done);
static inline void limit_give_back(struct exchange *x, bool done)
{
    if (x->limits != NULL)
        limit_give_all_back_(x, done);
}
/* X is a tunnel now: what is not held until its end (hold_tunnels) goes back. */
void limit_give_upgraded_back_(struct exchange *x);
static inline void limit_upgraded(struct exchange *x)
{
    if (x->limits != NULL)
        limit_give_upgraded_back_(x);
}
/* Between turns: X goes. */
void limit_fini(struct exchange *x);
/* Status and page of a rejection by a rule, instead of the application's. */
void limit_refusal(const struct exchange *x, struct answer *a);

/* Whether X has what identifies its user (cache_check_user), as its fields are now. */
bool limit_has_user(struct exchange *x);
/*
 * X has its application, and its fields are those of the client: header rules, which may remove or
 * rename what identifies the user, come after it.
 */
static inline void limit_note_user(struct exchange *x)
{
    const struct limit_rules *rules = x->al->settings->limits;

    if (rules != NULL && rules->any_copies)
        x->has_user = limit_has_user(x);
}
/* The worker's response: its head, the pieces of its body, its end; or it is taken back. */
void limit_copy_head(struct exchange *x, const struct http1_head *head);
void limit_copy_body(struct exchange *x, const struct http1_body *body);
void limit_copy_end(struct exchange *x);
void limit_copy_drop(struct exchange *x);

/* ---- header_apply.c: the application's header rules ---- */

/* X has its class: change the request's fields, for keys, copies and workers. */
void exchange_change_request(struct exchange *x);
/* Whether an answer of a worker's would be changed. */
bool exchange_changes_response(const struct exchange *x);
/*
 * Change the fields of X's answer, which are in its request's response.
 *   ours  the answer is none of a worker's: what describes a body or its keeping is left alone
 */
void exchange_change_response(struct exchange *x, bool ours);

static inline void exchange_count(_Atomic uint64_t *figure)
{
    atomic_fetch_add_explicit(figure, 1, memory_order_relaxed);
}

static inline const struct app_settings *exchange_settings(const struct exchange *x)
{
    return application_settings(x->al);
}

#endif
