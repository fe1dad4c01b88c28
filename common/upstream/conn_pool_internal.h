/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of the connection pool, shared by conn_pool.c (the pool and its backends) and
 * conn_checkout.c (the use and the places of connections and waiters, and work on a loop that
 * another thread has requested).
 */
#pragma once

#include "common/base/latch.h"
#include "common/base/map.h"
#include "common/upstream/conn_pool.h"

#include <pthread.h>

/*
 * Where a connection is (pooled_conn.place). Each place has a list or none; only conn_enter_locked
 * changes the place.
 *
 *               +----------------------- conn_checkin ----------------------+
 *               v                                                           |
 *     USED -> IDLE -> USED                 taken by its own loop            |
 *     USED -> LEAVING -> HELD -> PARKED -> USED      detached; taken, and attached, by any loop
 *     USED, IDLE -> LEAVING -> HELD -> ARRIVING -> HELD -> GRANTED -> USED -+
 *             to a waiter on another loop  |  detached         |  attached
 *     USED -> GRANTED -> USED              |  to a waiter on the same loop
 *     any  -> GONE
 *
 * From LEAVING to GRANTED a connection has a waiter, unless it is to be parked or its waiter has
 * given up. In the latter case it continues to the loop it is attached to, and goes from there to
 * the first waiter in the queue.
 */
enum pooled_state {
    POOLED_GONE, /* not the pool's: before conn_opened, after conn_withdraw, or waiting to be closed
                  */
    POOLED_USED, /* a user has it; no list */
    POOLED_IDLE, /* its shard's idle stack, by way of the returned list */
    POOLED_LEAVING, /* its shard's leaving list: to be detached by its loop, or closed if marked for
                      that */
    POOLED_HELD,    /* its loop is detaching or attaching it, without the lock; no list */
    POOLED_ARRIVING, /* its new shard's arriving list: to be attached by that loop */
    POOLED_GRANTED,  /* attached to the waiter's loop; its ready() is called next; no list */
    POOLED_PARKED, /* idle and attached to no loop: the backend's stack; closed by its last loop */
};

/* Where a waiter is (conn_waiter.state); only waiter_enter_locked changes the state. */
enum waiter_state {
    WAITER_NONE,
    WAITER_QUEUED, /* the backend's queue: nothing is in transit to it */
    WAITER_COMING, /* a connection is in transit to it (or to be closed for it); no list */
    WAITER_READY,  /* its shard's ready list: result is set */
};

/*
 * One loop's part of a backend. Under the backend's latch. What another thread requests on this
 * loop is in its lists, and the one message only requests a check: nothing in a mailbox ever points
 * to a waiter or a connection, so both may go at any time.
 */
struct conn_shard {
    struct conn_backend *backend;
    struct loop *loop;
    struct list idle;     /* latest first: returned before the loop's wait number RETURNED_AT */
    struct list returned; /* latest first: returned after it */
    uint64_t returned_at;
    unsigned nidle; /* of both */
    struct list leaving, arriving;
    struct list ready;
    struct loop_message message;
    /* The message is, or is about to be, in the loop's mailbox, or is processing the lists; counts
     * as a reference. */
    bool posted;
    struct conn_shard *next_post; /* in conn_work.posts: while it is about to be posted */
} __attribute__((aligned(64)));

/*
 * Invariants, under the latch (tests/unit/upstream/conn_check.h): while a waiter is in the queue,
 * the backend is not retired, is at its limit, and has no idle connection on any loop; IDLE is the
 * sum of the shards' idle stacks and the parked connections.
 * References: one for each handle, connection, permission, waiter and posted message.
 */
struct conn_backend {
    struct conn_pool *pool;
    struct map_node in_backends; /* under the pool's lock, as are the next two */
    struct list all_node;
    bool in_map;
    char *key;
    atomic_uint refs; /* 0 is final */
    _Atomic uint64_t restricted_until_ms;
    struct latch latch; /* all below */
    bool retired;
    unsigned max_connections;
    struct conn_pool_settings settings;
    unsigned in_use; /* every place but IDLE, PARKED and GONE */
    unsigned idle, opening, marked;
    struct list parked; /* idle connections beside the loops, latest first */
    unsigned nparked;
    unsigned parks_left; /* how many more may be parked; CONN_PARKS again when a loop lacks one */
    struct list queue;   /* of waiters, by ticket */
    uint64_t next_ticket;
    unsigned nqueued, waiting; /* waiting: in the queue, coming and ready */
    uint64_t reused, opened, handed_over, waits, rejected;
    struct conn_shard shards[];
};

struct conn_pool {
    const struct conn_pool_ops *ops;
    unsigned nloops;
    struct loop **loops;
    atomic_bool *loop_closed;
    pthread_rwlock_t lock;
    struct map backends; /* under lock: those that conn_pool_backend finds */
    struct list all;     /* under lock: retired ones too, until they are freed */
};

enum {
    /* A worker that has ended an idle connection under a request will probably do so again: it has
     * a short keep-alive time-out, or a limit of requests per connection. */
    CONN_RESTRICTED_MS = 60 * 1000,
    /* An end within this time after the first use of a connection is due to that use. */
    CONN_EARLY_MS = 1000,
    /* Maximum number of connections parked before another loop takes one. */
    CONN_PARKS = 64,
    /* While others lack connections, a loop retains one in so many of its part of the limit. If it
     * retained all, the others would request connections too often, by two messages each; if none,
     * it would have to take its own from the parked ones. */
    CONN_PART_RETAINED = 4,
};

/* Actions after the latch is released: posting and closing are call-outs. */
struct conn_work {
    struct conn_shard *posts;
    struct list closing; /* connections of the calling loop; each still holds its reference */
};

static inline void conn_work_init(struct conn_work *k)
{
    k->posts = NULL;
    list_init(&k->closing);
}
/* Takes the latch of B; K is empty. Pair with conn_unlock_and_do. */
static inline void conn_lock(struct conn_backend *b, struct conn_work *k)
{
    conn_work_init(k);
    latch_lock(&b->latch);
}
/* Without any lock held. May free backends. */
void conn_work_do_all_(struct conn_pool *p, struct conn_work *k);
static inline void conn_work_do(struct conn_pool *p, struct conn_work *k)
{
    /* Mostly there is none. */
    if (k->posts != NULL || !list_empty(&k->closing))
        conn_work_do_all_(p, k);
}
static inline void conn_unlock_and_do(struct conn_backend *b, struct conn_work *k)
{
    struct conn_pool *p = b->pool;

    latch_unlock(&b->latch);
    conn_work_do(p, k);
}

/* ---- conn_checkout.c; all but the last expect the backend's latch ---- */

bool conn_has_room_locked(const struct conn_backend *b);
/* Unlinks C and its waiter from each other. Returns the waiter, or NULL if there is none. */
struct conn_waiter *conn_unpair(struct pooled_conn *c);
void waiter_reject_locked(struct conn_backend *b, struct conn_waiter *w, enum err e,
                          struct conn_work *k);
/* While there is room, the first in the queue may open. */
void conn_serve_locked(struct conn_backend *b, struct conn_work *k);
/* Removes C, which must be attached to the calling loop, from the backend, and closes it. The room
 * is given to the first in the queue, to which C's waiter, if any, returns. */
void conn_drop_locked(struct conn_backend *b, struct pooled_conn *c, struct conn_work *k) cold_;
/* The oldest idle connection of loop LOOP_INDEX, including parked ones last attached to it. */
struct pooled_conn *conn_oldest_of_locked(const struct conn_backend *b, unsigned loop_index);
/* Marks C, an idle connection of any loop, and requests by message that its loop closes it. */
void conn_mark_locked(struct conn_backend *b, struct pooled_conn *c, struct conn_work *k);

void conn_shard_on_message(struct loop_message *m);
