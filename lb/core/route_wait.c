/* SPDX-License-Identifier: Apache-2.0
 *
 * A released waiter is owned only by the thread that got it in a RELEASED list,
 * and then by the message it posts. An exchange that gives up in between gives its turn back at
 * once (pool_wait_cancel), so no turn is lost, and stays in memory until the message has run.
 */
#include "lb/core/route_wait.h"

static void on_message(struct loop_message *m)
{
    struct route_wait *w = container_of(m, struct route_wait, message);

    if (w->owed) {
        w->owed = false;
        w->settled(w);
    } else {
        w->woken(w);
    }
}

void route_wait_init(struct route_wait *w, struct loop *l)
{
    w->waiter = (struct pool_waiter){.context = w};
    w->loop = l;
    w->message = (struct loop_message){.run = on_message};
    w->owed = false;
}

bool route_wait_cancel(struct route_wait *w, struct pool *p)
{
    struct list released;

    ASSERT(!w->owed);
    list_init(&released);
    w->owed = !pool_wait_cancel(p, &w->waiter, &released);
    route_wait_wake(&released);
    return w->owed;
}

void route_wait_wake_all_(struct list *released)
{
    struct list *node;

    /* Unlinked before it is posted: from then on its loop may have it parked again. */
    while ((node = list_pop_front(released)) != NULL) {
        struct route_wait *w = list_entry(node, struct pool_waiter, node)->context;

        loop_post(w->loop, &w->message);
    }
}
