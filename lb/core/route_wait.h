/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that wait for a worker: for any, or for one with room.
 *
 * Those that wait for any are in one queue per application across all loops, maintained under the
 * pool's lock (pool.h). This module wakes the requests that the pool released from the queue, each
 * on its own loop. A struct route_wait is embedded in an exchange, which owns it and retains it
 * until it is idle again: a wake-up posted by another thread cannot be canceled.
 *
 * Those that every worker rejected are in a bounded queue, and retried instead of failed, as the
 * workers' queues get shorter and processes that died are replaced. One queue for each data loop
 * and application, in order of arrival. Each response allows two retries, and each tick
 * one. So a queue of any length costs overloaded workers only a few requests a second, and it
 * empties as fast as they serve once they accept requests again. A struct rejected_wait is embedded
 * in an exchange, which owns it.
 */
#pragma once

#include "common/event/loop.h"
#include "routing/pool.h"

struct route_wait {
    struct pool_waiter waiter; /* pass it to pool_get; its context is this */
    struct loop *loop;
    struct loop_message message;
    bool owed; /* cancelled while a wake-up was in flight: only its arrival is awaited */
    /* On the loop: the waiter was released; call pool_get again with it, or route_wait_cancel. */
    void (*woken)(struct route_wait *w);
    /* On the loop: the wake-up that a cancel left owed has arrived; nothing refers to W. */
    void (*settled)(struct route_wait *w);
};

void route_wait_init(struct route_wait *w, struct loop *l);
/* Leaves the queue, returns a grant. True: settled() follows, and W must stay until then. */
bool route_wait_cancel(struct route_wait *w, struct pool *p);

/* Any thread: wakes the exchanges of the waiters in RELEASED, which is empty then. */
void route_wait_wake_all_(struct list *released);
static inline void route_wait_wake(struct list *released)
{
    if (!list_empty(released))
        route_wait_wake_all_(released);
}

/* ---- requests that every worker rejected ---- */

struct rejected_wait {
    struct list node;
    bool in_line; /* counted; else NODE is in the list of released ones, or in no list */
    /* On the loop, never inside a call of this module: try again; it has left the queue. */
    void (*go_on)(struct rejected_wait *w);
};

struct rejected_queue {
    struct loop *loop;
    struct list waiting;
    struct timer tick;
    unsigned releases;   /* how many the next tick releases; 0: one */
    _Atomic size_t *all; /* how many wait in the queues of all loops */
};

void rejected_queue_init(struct rejected_queue *line, struct loop *l, _Atomic size_t *all);

/* AGAIN: W goes to the front, and MAX does not apply. False: MAX already wait, on all loops. */
bool rejected_queue_join(struct rejected_queue *line, struct rejected_wait *w, size_t max,
                         bool again);
/* Cancels the wait: go_on is not called any more. Harmless if it is not in the queue. */
void rejected_queue_leave(struct rejected_queue *line, struct rejected_wait *w);
/* A worker has responded to a request. */
void rejected_queue_served(struct rejected_queue *line);
