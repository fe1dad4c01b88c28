/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants of a connection pool (conn_pool_internal.h), for every backend.
 */
#pragma once

#include "common/upstream/conn_pool_internal.h"

static inline unsigned count_places(const struct list *list, enum pooled_state place, unsigned loop)
{
    unsigned n = 0;
    struct list *it;

    list_for_each (it, list) {
        const struct pooled_conn *c = list_entry(it, struct pooled_conn, stack_node);
        ASSERT(c->state == (int)place);
        ASSERT(c->loop_index == loop);
        ASSERT(c->waiter == NULL || c->waiter->conn == c);
        ++n;
    }
    return n;
}

static inline unsigned count_parked(const struct conn_backend *b)
{
    unsigned n = 0;
    struct list *it;

    list_for_each (it, &b->parked) {
        const struct pooled_conn *c = list_entry(it, struct pooled_conn, stack_node);
        ASSERT(c->state == POOLED_PARKED);
        ASSERT(c->detached);
        ASSERT(c->waiter == NULL);
        ASSERT(c->loop_index < b->pool->nloops);
        ++n;
    }
    return n;
}

static inline unsigned count_waiters(const struct list *list, enum waiter_state state)
{
    unsigned n = 0;
    struct list *it;

    list_for_each (it, list) {
        const struct conn_waiter *w = list_entry(it, struct conn_waiter, node);
        ASSERT(w->state == (int)state);
        if (state == WAITER_QUEUED && it->next != list)
            ASSERT(w->ticket < list_entry(it->next, struct conn_waiter, node)->ticket);
        ++n;
    }
    return n;
}

static inline void check_backend_locked(struct conn_backend *b)
{
    unsigned idle = b->nparked;
    unsigned moving = 0;
    unsigned ready = 0;

    ASSERT(b->nparked == count_parked(b));
    for (unsigned i = 0; i < b->pool->nloops; ++i) {
        struct conn_shard *s = &b->shards[i];
        ASSERT(s->nidle ==
               count_places(&s->idle, POOLED_IDLE, i) + count_places(&s->returned, POOLED_IDLE, i));
        idle += s->nidle;
        moving += count_places(&s->leaving, POOLED_LEAVING, i);
        moving += count_places(&s->arriving, POOLED_ARRIVING, i);
        ready += count_waiters(&s->ready, WAITER_READY);
    }
    ASSERT(b->idle == idle);
    ASSERT(b->in_use >= moving);
    ASSERT(b->in_use >= b->marked);
    ASSERT(b->nqueued == count_waiters(&b->queue, WAITER_QUEUED));
    ASSERT(b->waiting >= b->nqueued + ready);
    if (b->nqueued != 0) {
        ASSERT(!b->retired);
        ASSERT(!conn_has_room_locked(b));
        ASSERT(b->idle == 0);
    }
    if (b->retired)
        ASSERT(b->idle == 0);
}

static inline void conn_pool_check(struct conn_pool *p)
{
    struct list *it;

    pthread_rwlock_rdlock(&p->lock);
    list_for_each (it, &p->all) {
        struct conn_backend *b = list_entry(it, struct conn_backend, all_node);
        latch_lock(&b->latch);
        check_backend_locked(b);
        latch_unlock(&b->latch);
    }
    pthread_rwlock_unlock(&p->lock);
}
