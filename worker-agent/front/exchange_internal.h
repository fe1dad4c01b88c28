/* SPDX-License-Identifier: Apache-2.0
 *
 * A request under way, for front_exchange.c and front_pass_on.c.
 */
#ifndef RLB_AGENT_FRONT_EXCHANGE_INTERNAL_H
#define RLB_AGENT_FRONT_EXCHANGE_INTERNAL_H

#include "worker-agent/front/front_internal.h"
#include "worker-agent/front/trace_log.h"

struct exchange {
    struct list node; /* in the front's */
    struct front *front;
    const struct front_door *door;
    struct slot_request place;
    struct http_reply *reply; /* NULL: the client has gone */
    size_t counted_bytes;     /* of the reply's queue, in front->buffered_bytes */
    struct text head;
    struct slice body;                 /* the request's, while there is a reply */
    const struct body_file *body_file; /* the same; NULL: it is in no file */
    struct request_class cls;
    struct trace_request trace;
    bool is_head, safe, upgrade;
    /* The process's end. */
    struct conn_waiter waiter;
    struct http1_connect *attempt;
    struct http1_conn *conn;
    struct timer abandoned; /* the client has left, within the response */
    uint64_t started_us;    /* when the process got it */
    bool unready;         /* first request of a process: its time does not count as service time */
    bool reused, retried; /* the connection was reused; this is the second attempt */
    unsigned tries;       /* processes that could not be connected to */
    bool touched;         /* a byte of it may have reached a process */
    bool passed_on;       /* sent to the new agent instead of a process */
    bool has_head, paused, tunnel, worker_done, ended;
    int status;
    struct loop_deferred freeing;
};

static inline const struct app_settings *settings(const struct exchange *x)
{
    return x->door->group->s;
}

/* By the application's own address, not by a slot's. */
static inline bool is_direct(const struct exchange *x)
{
    return x->door->slot == NULL;
}

/* The subject of log lines. */
static inline const void *subject(const struct exchange *x)
{
    return x->place.slot != NULL ? (const void *)x->place.slot : x->door->group;
}

static inline void count(const struct exchange *x, enum agent_stat row)
{
    group_count(x->door->group, row);
}

/* ---- front_pass_on.c ---- */

/*
 * X was refused because of WHY. Returns true if X is to be passed on to the new agent; X->place
 * then refers to that agent instead of a process, and the caller must connect to it.
 */
bool exchange_pass_on(struct exchange *x, enum slot_refusal why);
/* Copies the response's headers into the reply, which must exist, and adds the headers for load
 * balancers. */
void exchange_copy_headers(struct exchange *x, const struct http1_head *head);

#endif
