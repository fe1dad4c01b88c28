/* SPDX-License-Identifier: Apache-2.0
 *
 * One queue for all loops, in the order of tickets. A turn is the right to call pool_get although
 * other requests wait. Turns are granted while fewer of them are outstanding than the eligible
 * workers have free places:
 *
 *     waiting == 0  or  released >= places  or  owes_turns                (pool_check)
 *
 * Each event that adds a free place or ends a turn grants the next: a worker that joins, a put, a
 * get that picked another worker or none, a cancel. Thus, as long as there is a free place, a
 * released request is about to use it.
 */
#include "routing/pool_internal.h"

static struct pool_waiter *waiter_at(struct list *node)
{
    return list_entry(node, struct pool_waiter, node);
}

bool pool_must_park(const struct pool *p, const struct pool_waiter *w)
{
    return w != NULL && w->state != WAITER_RELEASED && p->nwaiting != 0;
}

/* Used only for a waiter that was released in vain, so its place is near the front: few steps.
 */
static void insert_by_ticket(struct pool *p, struct pool_waiter *w)
{
    struct list *at = p->waiting.next;

    while (at != &p->waiting && waiter_at(at)->ticket_ < w->ticket_)
        at = at->next;
    list_insert_before(at, &w->node);
}

enum err pool_park_locked(struct pool *p, struct pool_waiter *w)
{
    ASSERT(p->held);
    ASSERT(w->state != WAITER_PARKED);
    ASSERT(!list_linked(&w->node));
    if (w->state == WAITER_RELEASED) {
        pool_end_turn_locked(p, w);
        insert_by_ticket(p, w);
    } else {
        /* Outstanding turns count, because each may return to the queue. */
        if (p->nwaiting + p->nreleased >= p->settings.max_waiting)
            return ERR_QUEUE_FULL;
        w->ticket_ = p->next_ticket++;
        list_push_back(&p->waiting, &w->node);
    }
    w->state = WAITER_PARKED;
    ++p->nwaiting;
    return ERR_BUSY;
}

void pool_end_turn_locked(struct pool *p, struct pool_waiter *w)
{
    ASSERT(p->held);
    if (w == NULL || w->state != WAITER_RELEASED)
        return;
    ASSERT(p->nreleased != 0);
    --p->nreleased;
    w->state = WAITER_IDLE;
}

static bool turn_is_due(const struct pool *p)
{
    return p->nwaiting != 0 && p->nreleased < p->places;
}

void pool_release_waiting_locked_(struct pool *p, struct list *released)
{
    ASSERT(p->held);
    while (turn_is_due(p) && released != NULL) {
        struct list *node = list_pop_front(&p->waiting);

        ASSERT(node != NULL);
        struct pool_waiter *w = waiter_at(node);
        w->state = WAITER_RELEASED;
        --p->nwaiting;
        ++p->nreleased;
        list_push_back(released, &w->node);
    }
    p->owes_turns = turn_is_due(p);
}

bool pool_wait_cancel(struct pool *p, struct pool_waiter *w, struct list *released)
{
    bool still_ours = true;

    pool_lock(p);
    if (w->state == WAITER_PARKED) {
        list_remove(&w->node);
        w->state = WAITER_IDLE;
        --p->nwaiting;
    } else if (w->state == WAITER_RELEASED) {
        pool_end_turn_locked(p, w);
        still_ours = false;
    }
    pool_release_locked(p, released);
    pool_unlock(p);
    return still_ours;
}
