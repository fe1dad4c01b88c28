/* SPDX-License-Identifier: Apache-2.0
 *
 * A released waiter is owned only by the thread that got it in a RELEASED list,
 * and then by the message it posts. An exchange that gives up in between returns its grant at
 * once (pool_wait_cancel), so no grant is lost, and stays in memory until the message has run.
 */
#include "lb/core/route_wait.h"

static void on_route_wait_message(struct loop_message *m)
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
    w->message = (struct loop_message){.run = on_route_wait_message};
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
    const struct pool_waiter *waiter;

    /* Unlinked before it is posted: from then on its loop may have it parked again. */
    while ((waiter = list_pop_entry(released, struct pool_waiter, node)) != NULL) {
        struct route_wait *w = waiter->context;

        loop_post(w->loop, &w->message);
    }
}

/* ---- requests that every worker rejected ---- */

enum {
    /*
     * Time between two retries while no request gets a response. A waiting request loses half of it
     * on average when a worker has room again without reporting it.
     */
    TICK_MS = 20,
    /* Per response: two, so that a queue that moves again doubles its rate each time. */
    RELEASES_PER_RESPONSE = 2,
    /* Responses that come while a tick is due add up to no more than this. */
    RELEASES_MAX = 64,
};

static void start_tick(struct rejected_queue *line)
{
    if (!list_empty(&line->waiting) && !timer_running(&line->tick))
        timer_start(line->loop, &line->tick, TICK_MS);
}

static void take_out(struct rejected_queue *line, struct rejected_wait *w)
{
    list_remove(&w->node);
    w->in_line = false;
    atomic_fetch_sub_explicit(line->all, 1, memory_order_relaxed);
}

static void on_route_wait_tick(struct timer *t)
{
    struct rejected_queue *line = container_of(t, struct rejected_queue, tick);
    unsigned releases = line->releases != 0 ? line->releases : 1;
    struct rejected_wait *w;
    struct list going;

    line->releases = 0;
    list_init(&going);
    /* All leave first: one that comes back at once is not released a second time then. */
    for (; releases != 0 && !list_empty(&line->waiting); --releases) {
        w = list_first(&line->waiting, struct rejected_wait, node);
        take_out(line, w);
        list_push_back(&going, &w->node);
    }
    while ((w = list_pop_entry(&going, struct rejected_wait, node)) != NULL)
        w->go_on(w);
    start_tick(line);
}

void rejected_queue_init(struct rejected_queue *line, struct loop *l, _Atomic size_t *all)
{
    line->loop = l;
    line->releases = 0;
    line->all = all;
    list_init(&line->waiting);
    timer_init(&line->tick, on_route_wait_tick);
}

bool rejected_queue_join(struct rejected_queue *line, struct rejected_wait *w, size_t max,
                         bool again)
{
    if (!again && atomic_load_explicit(line->all, memory_order_relaxed) >= max)
        return false;
    atomic_fetch_add_explicit(line->all, 1, memory_order_relaxed);
    w->in_line = true;
    if (again)
        list_push_front(&line->waiting, &w->node);
    else
        list_push_back(&line->waiting, &w->node);
    start_tick(line);
    return true;
}

void rejected_queue_leave(struct rejected_queue *line, struct rejected_wait *w)
{
    if (!w->in_line) {
        list_remove(&w->node);
        return;
    }
    take_out(line, w);
    if (list_empty(&line->waiting))
        timer_stop(&line->tick);
}

void rejected_queue_served(struct rejected_queue *line)
{
    if (list_empty(&line->waiting))
        return;
    if (line->releases < RELEASES_MAX)
        line->releases += RELEASES_PER_RESPONSE;
    timer_start(line->loop, &line->tick, 0);
}
