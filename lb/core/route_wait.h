/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that wait for any worker. There is one queue per application across all loops,
 * maintained under the pool's lock (pool.h). This module wakes the requests that the pool released
 * from the queue, each on its own loop. A struct route_wait is embedded in an exchange, which owns
 * it and keeps it until it is idle again: a wake-up posted by another thread cannot be canceled.
 */
#ifndef RLB_LB_CORE_ROUTE_WAIT_H
#define RLB_LB_CORE_ROUTE_WAIT_H

#include "common/event/loop.h"
#include "routing/pool.h"

struct route_wait {
    struct pool_waiter waiter; /* pass it to pool_get; its context is this */
    struct loop *loop;
    struct loop_message message;
    bool owed; /* cancelled while a wake-up was in flight: only its arrival is awaited */
    /* On the loop: the waiter was released; call pool_get again with it, or route_wait_cancel. */
    void (*woken)(struct route_wait *w);
    /* On the loop: the wake-up that route_wait_cancel left owed has arrived; nothing refers to it
     * now. */
    void (*settled)(struct route_wait *w);
};

void route_wait_init(struct route_wait *w, struct loop *l);
/* Leave the queue, giving back a turn that came. True: settled() follows, and W must stay till
 * then. */
bool route_wait_cancel(struct route_wait *w, struct pool *p);

/* Any thread: wake the exchanges of the waiters in RELEASED (as pool functions fill it); it is
 * empty then. */
void route_wait_wake_all_(struct list *released);
static inline void route_wait_wake(struct list *released)
{
    if (!list_empty(released))
        route_wait_wake_all_(released);
}

#endif
