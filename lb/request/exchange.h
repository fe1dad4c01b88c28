/* SPDX-License-Identifier: Apache-2.0
 *
 * One request's life: passes the steps of step.def and holds everything borrowed for them. Used on
 * one data loop only; owns itself from exchange_create on, freed between turns after ACCOUNT.
 *
 * It has two sides, which end at different times:
 *   the worker's  from ROUTE to RELEASE: a place in a pool, a connection
 *   the client's  from exchange_create to http_response's gone()
 * When both have ended it is accounted for. REQ ends with the client's side.
 *
 *   exchange.c  the walk itself, the client's side     connect.c  ROUTE and CONNECT
 *   receive.c   CLASSIFY                               forward.c  FORWARD: out, back, again
 *   limit.c     LIMIT                                  account.c  ACCOUNT
 *   slow_client.c  FORWARD and DELIVER to a client that is slower than the worker
 */
#pragma once

#include "common/http/http_server.h"
#include "common/upstream/conn_pool.h"
#include "common/upstream/http1_client.h"
#include "common/wire/trace_context.h"
#include "lb/backends/member.h"
#include "lb/core/application.h"
#include "lb/core/lb.h"
#include "lb/core/route_wait.h"
#include "lb/core/step.h"
#include "lb/limits/limit.h"
#include "lb/request/headers.h"
#include "lb/rules/classify.h"

/* The front of one data loop (front.h), which its exchanges share. */
struct lb_front {
    struct lb_loop *lb_loop;
    struct http_server *server;
    struct list spare; /* unused exchanges for reuse */
    size_t nspare;
    size_t live;              /* number of exchanges that are not freed */
    struct text head;         /* buffer for the request head that is being built */
    bool own_server;          /* the Server field of responses is that of the load balancer */
    int64_t uncounted_bytes;  /* buffered bytes not yet added to lb->buffered_bytes */
    struct spill_loop spills; /* responses in files */
    /* Draining: connections are closed, and DONE is called after the last exchange. */
    bool server_done;
    void (*done)(void *context);
    void *done_context;
};

/* Texts of the request for its access line; copied for a tunnel, which outlives the request. */
struct exchange_text {
    struct slice method, target, referer, agent, host, request_id;
};

/* What an exchange is queued for, in one queue at a time. */
enum exchange_wait {
    WAIT_NONE,
    WAIT_WORKER,    /* any worker */
    WAIT_REJECTED,  /* all workers rejected it (route_wait.h) */
    WAIT_CONNECTION /* to the picked worker */
};

/* Nodes in queues. Only few exchanges wait. */
struct exchange_waits {
    uint64_t rejected_since_ms; /* start of the first wait there; 0: none */
    struct http1_client_connect *attempt;
    struct timer timer; /* limits the wait for any worker or for a connection */
    struct rejected_wait rejected;
    /* Adjacent, because the end of CONN and the beginning of ROUTE are read for each request. */
    struct conn_waiter conn;
    struct route_wait route;
};

enum {
    /* Nothing is read if less room than this is left in response_buffer or in a file. */
    RESPONSE_ROOM_MIN = 4096,
};

struct slow_client;

/* Sorted by use: what every request uses comes first, so that most of an exchange is never loaded
 * into the caches; and by how the fields are initialized for a new exchange. */
struct exchange {
    /* ---- zeroed for a new exchange; used by every request ---- */
    _Alignas(CACHE_LINE_BYTES) struct lb_front *front;
    struct lb_loop *lb_loop;
    struct application *app;     /* NULL until selected; never NULL from ROUTE on */
    struct application_loop *al; /* the part of APP on this loop */
    struct http_request *req;    /* NULL after gone() */
    struct http_conn *conn;
    enum step step;       /* written by exchange_enter() only */
    enum outcome outcome; /* how it ended, or will end if nothing else happens */
    int status;           /* status of the response; 0: none yet */
    int version;          /* HTTP version of the request */

    struct member *member;
    /* The last worker tried. Its reference is that of PICK, or its own without MEMBER. */
    struct worker *last;
    struct http1_client_conn *http; /* leased connection, or NULL */
    struct list node;               /* in al->exchanges, or in front->spare after the end */
    struct loop_deferred deferred;

    uint64_t step_us[STEPS]; /* time spent in each step */

    uint64_t entered_us;
    uint64_t start_us, start_wall_ms;
    uint64_t received_bytes, sent_bytes;
    size_t buffered;                   /* part of response.queued_bytes that was counted */
    struct limit_set *limits;          /* counted reference, or NULL */
    struct stored_maker *stored_maker; /* owned: stores the response, or NULL */

    struct http1_client_times times; /* of the last attempt */
    uint64_t service_us;             /* of the last attempt */
    unsigned ntried;                 /* number of entries in TRIED */
    unsigned picks;
    enum exchange_wait wait;
    /* Flags of the client's side. */
    bool client_over;    /* gone() was called */
    bool started;        /* a response head was passed to the client's side */
    bool safe;           /* GET or HEAD, which may be repeated */
    bool websocket;      /* requests an upgrade */
    bool tls;            /* the client uses TLS, by its connection or a trusted proxy's field */
    bool tunnel;         /* was upgraded */
    bool tunnel_counted; /* counted in max_tunnels of the worker */
    bool tunnels_full;   /* the last pick excluded workers at max_tunnels */
    bool limit_waiting;  /* waits for a limit */
    bool store_wanted;   /* the response is to be stored */
    bool event_stream;   /* the response is an event stream, which is not put into a file */
    bool spilling;       /* received bytes go to the end of the file of SLOW */
    bool has_user;       /* the request identifies its user, so responses are not stored */
    /* Flags of the worker's side. */
    bool fresh;      /* this pick requires a new connection */
    bool left_over;  /* a reused one had bytes of another response: all picks require new ones */
    bool may_repeat; /* the worker of that one may get it again if no other one is available */
    bool paused;     /* reading from the worker is paused for the client */
    bool retrying;   /* counted in the application's retry_budget */
    bool retry_due;  /* the next pick is a retry, to be counted */
    bool may_return; /* a worker in TRIED failed, and its agent starts another process */
    bool has_waited; /* has been in a queue, or connected: WAITS were modified */

    struct slice authority, target; /* as sent to the worker */
    struct slice request_id;        /* the client's request id, or ID */
    struct slice cls;               /* in TEXTS */
    uint64_t cls_hash;              /* class_hash() of CLS */
    struct slice peer;              /* in TEXTS: the connected client or proxy, without port */
    struct slice client;         /* in CLIENT_ROOM, or PEER: the client, without port (receive.c) */
    struct slice forwarded_host; /* a trusted proxy's X-Forwarded-Host; or empty */
    const struct body_file *body_file; /* body of the request if it is in a file, else NULL */
    struct exchange_text *text;        /* owned, with its bytes behind it; set for tunnels */
    struct slow_client *slow;          /* owned; NULL unless the client has been slow */

    /* ---- zeroed as well; used by few requests ---- */
    struct slice trace_id, span_id; /* in TRACE_ROOM; empty if none was created (receive.c) */
    int rate_status;                /* status of a rejection by a rate limit; 0: none */
    unsigned nbarred;               /* first entries of TRIED: excluded permanently */
    unsigned retries;               /* number of retries so far */
    unsigned nleases, ndaemon_leases;
    const struct limit *rejection;       /* of LIMITS: the one that rejected the request */
    struct limit_storing *storing;       /* allocated with the request's memory */
    struct conn_backend *tunnel_backend; /* counted: holds a place for the tunnel; or NULL */

    /* ---- not zeroed, but written before it is read ---- */
    uint64_t sent_us;          /* start of sending the request to the worker */
    uint64_t paused_us;        /* time of the last attempt in which reading was paused */
    struct pool_served served; /* how the pick ended */

    /* ---- initialized once, and restored before the exchange is reused ---- */
    struct timer total_timer;

    /* ---- not zeroed ---- */
    struct pool_pick pick; /* counted while member is not NULL; valid while LAST is not NULL */
    struct http_response response; /* the client's side */

    /* ---- initialized once ---- */
    struct exchange_waits waits;

    /* ---- not zeroed: buffers used by every request ---- */
    _Alignas(CACHE_LINE_BYTES) char id[EXCHANGE_ID_LEN];
    struct addr client_addr;                     /* address of CLIENT */
    char texts[ADDR_TEXT_MAX + CLASS_BYTES_MAX]; /* PEER, followed by CLS */

    /* ---- not zeroed: used by few requests ---- */
    enum outcome failure; /* outcome of the last attempt, valid if NTRIED is not 0 */
    uint64_t rate_retry_ms;
    uint64_t attempt_us; /* start of opening the connection */
    uint64_t paused_since_us;
    size_t next_limit;  /* index in LIMITS of the next one (limit.c) */
    struct list leases; /* of limit_lease, the newest first; valid if LIMITS is not NULL */
    struct worker *tried[TRIED_MAX]; /* counted references; must not be picked again */
    char client_room[ADDR_TEXT_MAX];
    char trace_room[TRACE_PARENT_LEN];
};

/* Serves REQ, a complete request received on CONN; on_request of the server of FRONT. */
void exchange_create(void *front, struct http_request *req, struct http_conn *conn);
/* Of struct http_server_options: whether the method of REQ is not allowed (405, 501). */
bool exchange_declines(void *front, const struct http_request *req, struct http_conn *conn);
/* Ends X at once because the load balancer stops; with an error response if none has begun. */
void exchange_cut(struct exchange *x);

/* ---- internal: for the files named above ---- */

/* Moves X to step TO: asserts that this is permitted, and records the time. */
static inline void exchange_enter(struct exchange *x, enum step to)
{
    uint64_t now_us = loop_now_us(x->lb_loop->loop);

    ASSERT((step_successors[x->step] >> to & 1) != 0);
    x->step_us[x->step] += now_us - x->entered_us;
    x->entered_us = now_us;
    x->step = to;
}
/* Withdraws a response of which nothing was sent to the client. X is not started then. */
void exchange_take_back(struct exchange *x);
/*
 * Fails X with outcome O: sends an error response, or aborts the response if it has started. The
 * worker's side must have been released. May end the client's side of X.
 */
void exchange_fail(struct exchange *x, enum outcome o) cold_;
/* Appends the error page for STATUS to OUT: the template PAGE with ${status}, ${reason} and
 * ${request_id}, escaped for HTML; the built-in one if it is empty. */
void exchange_error_page(struct slice page, const char *type, int status, struct slice request_id,
                         struct text *out);
/* The request as classifiers and rules see it; borrowed from X. */
void exchange_describe(const struct exchange *x, struct classify_request *out) noinline_;
/* Ends the retries of X in the retry budget. No effect if there were none. */
void exchange_end_retry(struct exchange *x);
/* Enters RELEASE: returns the connection and the worker's place. */
void exchange_release(struct exchange *x);
/* Removes the request from the worker's backlog in the pool. No effect if it is not there. */
void exchange_release_place(struct exchange *x);
/* Returns only the connection; another one to the same worker will follow. */
void exchange_release_connection(struct exchange *x);
/* Enters ACCOUNT, after both sides have ended. */
void exchange_account(struct exchange *x);
/* Updates the count of bytes queued by the client's side. */
void exchange_count_buffered(struct exchange *x);
/* Returns the number of bytes that may be queued before reading from the worker pauses. */
size_t exchange_buffer_limit(const struct exchange *x);
/*
 * Releases the picked worker and excludes it from further picks. O is the outcome if no other
 * worker serves the request. If BARRED, the exclusion is permanent; otherwise the worker has not
 * received a byte of the request, and may be picked again after all have rejected it.
 */
void exchange_exclude(struct exchange *x, enum outcome o, bool barred);

/* Adds the field Allow to the response of X. */
void exchange_add_allow(struct exchange *x);
/* receive.c: replaces *ADDRESS, which is TRUSTED, by that of the client that FIELDS report. Returns
 * false if they report none. */
bool exchange_find_client(const struct networks *trusted, const struct message_fields *fields,
                          struct addr *address);
/* receive.c: enters CLASSIFY, and continues with LIMIT. */
void exchange_receive(struct exchange *x);
/* receive.c: class and path, which are rejected if workers die with such requests. */
struct poison_key exchange_poison_key(const struct exchange *x);
/* receive.c: true if they are rejected now. */
bool exchange_is_poisoned(const struct exchange *x);
/* connect.c: picks a worker and continues from there. */
void exchange_route(struct exchange *x);
/* connect.c: gets a connection to the selected worker and continues. */
void exchange_connect(struct exchange *x);
/* connect.c: initializes the queue nodes of X, which is new, or has waited and is to be reused. */
void exchange_make_waits(struct exchange *x);
/* connect.c: excludes the picked worker for good, and picks another one; after TRIED_MAX, or if
 * there is none, X fails with O. */
void exchange_reroute(struct exchange *x, enum outcome o) cold_;
/* connect.c: the same, but the picked worker has only rejected X: after all workers have done so, X
 * waits and they are tried again. */
void exchange_reroute_rejected(struct exchange *x, enum outcome o) cold_;
/* connect.c: removes X from every queue, and stops connecting. */
void exchange_leave_queues_(struct exchange *x) noinline_;
static inline void exchange_stop_waiting(struct exchange *x)
{
    /* Most requests were in no queue. */
    if (x->has_waited)
        exchange_leave_queues_(x);
}
/* forward.c: the head for the worker, with HOME (or NULL). Borrowed until the next call. */
struct slice exchange_head(struct exchange *x, const struct home_report *home);
/* forward.c: sends X on its connection. */
void exchange_forward(struct exchange *x);
/* slow_client.c: response_buffer is full. Reading stops, or continues into a file. */
void exchange_slow(struct exchange *x) cold_;
/* slow_client.c: BODY of X, which is slow, was received; LAST: it is the end. Returns true if
 * ownership was taken, because BODY follows the bytes in the file. */
bool exchange_slow_body(struct exchange *x, struct body_piece *body, bool last) noinline_;
/* slow_client.c: the client of X, which is slow, has received bytes. May end its side of X. */
void exchange_slow_drained(struct exchange *x) noinline_;
/* slow_client.c: aborts the response of X, which is slow, after the bytes in the file. */
void exchange_slow_abort(struct exchange *x) cold_;
/* slow_client.c: returns the bytes in memory that are not in the response's queue. X must be slow.
 */
size_t exchange_slow_bytes(const struct exchange *x);
/* slow_client.c: ends a pause of reading from the worker. */
void exchange_end_pause(struct exchange *x);
/* Frees the body of the request, which no worker will get again. */
void exchange_drop_body(struct exchange *x);
/* slow_client.c: the client's side has ended. X->slow is NULL afterwards. */
void exchange_slow_end(struct exchange *x) noinline_;
/* front.c: calls done() once the server of F has ended, if no exchange is left. */
void front_check_done(struct lb_front *f);
/* account.c: counts X, and writes its access line. */
void account_exchange(const struct exchange *x);
/* Writes an access line for a request that the HTTP server of FRONT has rejected. */
void account_rejected(void *front, const struct http_rejection *r);
/* account.c: copies the texts of the request that the access line needs. */
void account_retain_text(struct exchange *x);

/*
 * ---- limit.c: LIMIT ----
 *
 * The passage through the limits of its application. A lease of each matching one is acquired, in
 * order. Leases are held until the worker's side has ended (with at most response_buffer bytes left
 * for the client). A request above a limit waits, receives the stored response of another request,
 * or is rejected.
 */

/* Acquires the matching limits of X, and continues with ROUTE. */
void exchange_limit(struct exchange *x);
/* Releases all leases and leaves queues: the worker's side has ended, or will not begin. DONE: a
 * complete response with a status below 500 was received. */
void limit_release(struct exchange *x, bool done);
/* X is a tunnel now: releases all leases except those of limits with hold_tunnels. */
void limit_upgraded(struct exchange *x);
/* Whether requests with a user may share responses, by the settings of X (cache_has_user). */
struct cache_policy limit_cache_policy(const struct exchange *x);
/* Storing of the response: begun with its head; done at its end; or dropped. */
void limit_store_head(struct exchange *x, const struct http1_head *head);
void limit_store_end(struct exchange *x);
void limit_store_drop(struct exchange *x);

/* ---- header_apply.c: the application's header rules ---- */

/* Changes the request's fields, as seen by keys, the store and workers. X must have its class. */
void exchange_change_request(struct exchange *x);
/* Returns true if the rules change a worker's response. */
bool exchange_changes_response(const struct exchange *x);
/* Changes the fields of the response of X; if OURS, not those that describe body or caching. */
void exchange_change_response(struct exchange *x, bool ours);

/* What headers.h needs of X for a response that is passed on. */
static inline struct headers_response exchange_response(const struct exchange *x)
{
    const struct app_settings *s = application_settings(x->al);

    return (struct headers_response){.req = x->req,
                                     .via = s->via,
                                     .request_id = s->request_id ? x->request_id : SLICE_NULL,
                                     .own_server = x->front->own_server,
                                     .websocket = x->tunnel};
}

static inline void exchange_count(_Atomic uint64_t *figure)
{
    atomic_fetch_add_explicit(figure, 1, memory_order_relaxed);
}

static inline const struct app_settings *exchange_settings(const struct exchange *x)
{
    return application_settings(x->al);
}
