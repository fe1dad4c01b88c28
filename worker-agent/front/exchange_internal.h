/* SPDX-License-Identifier: Apache-2.0
 *
 * A request under way, for front_exchange.c and front_pass_on.c.
 */
#ifndef RLB_AGENT_FRONT_EXCHANGE_INTERNAL_H
#define RLB_AGENT_FRONT_EXCHANGE_INTERNAL_H

#include "worker-agent/front/front_internal.h"
#include "worker-agent/front/trace_log.h"
#include "worker-agent/pool/app_group.h"

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
    bool unready;           /* it was the first of a process: its time is no service time */
    bool reused, retried;   /* the connection was a kept one; this is the second try */
    unsigned tries;         /* processes that could not be connected to */
    bool touched;           /* a byte of it may have reached a process */
    bool passed_on;         /* what stands for its process is the agent that has taken over */
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

/* Whom log lines are about. */
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
 * X is refused, for WHY: whether the agent that has taken over from us is to have it. Then that
 * stands for its process (X->place), to be connected to.
 */
bool exchange_pass_on(struct exchange *x, enum slot_refusal why);
/* The response's headers into the reply, which there is, and what load balancers are told beside.
 */
void exchange_copy_headers(struct exchange *x, const struct http1_head *head);

#endif
