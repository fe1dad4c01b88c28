/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that was queued for one loop's part of a backend, perhaps by another thread: connections
 * that leave for another loop or are to be closed, connections that arrive, and waiters to be
 * notified. The lock is not held while a connection is detached or attached. Meanwhile its waiter
 * may cancel, the backend may be retired and its limit may be lowered, so all of this is checked
 * again afterwards. The connection itself is not used by others then (HELD).
 */
#include "common/upstream/conn_pool_internal.h"

#include <stdlib.h>

enum way {
    WAY_NONE, /* not to be detached, or detached already */
    WAY_PARK, /* checked when it is taken */
    WAY_ON,   /* to its waiter */
};

static enum way way_of_locked(const struct conn_backend *b, const struct pooled_conn *c)
{
    if (c->detached || c->condemned || b->retired)
        return WAY_NONE;
    if (c->waiter != NULL)
        return c->waiter->fresh ? WAY_NONE : WAY_ON;
    return conn_should_park_locked(b, c) ? WAY_PARK : WAY_NONE;
}

/* One connection that leaves this loop or arrives there. */
struct job {
    struct pooled_conn *c; /* HELD */
    bool arrives;
    enum way way;
    bool usable, moved; /* done without the lock */
};

static bool take_job_locked(struct conn_shard *s, struct job *j, struct conn_work *k)
{
    struct conn_backend *b = s->backend;
    struct list *from = !list_empty(&s->leaving) ? &s->leaving : &s->arriving;

    if (list_empty(from))
        return false;
    *j = (struct job){.c = list_first(from, struct pooled_conn, stack_node),
                      .arrives = from == &s->arriving};
    j->way = j->arrives ? WAY_NONE : way_of_locked(b, j->c);
    conn_enter_locked(b, j->c, PLACE_HELD, k);
    return true;
}

/* Attached even if it is not wanted any more: only the loop that it is attached to can close it. */
static void do_job(const struct conn_shard *s, struct job *j)
{
    const struct conn_pool_ops *ops = s->backend->pool->ops;

    if (j->arrives) {
        j->moved = ops->attach(j->c, s->loop);
        return;
    }
    j->usable = j->way != WAY_ON || ops->alive(j->c, true);
    j->moved = j->way != WAY_NONE && j->usable && ops->detach(j->c);
}

static void end_leaving_locked(struct conn_backend *b, const struct job *j, struct conn_work *k)
{
    struct pooled_conn *c = j->c;

    c->detached |= j->moved;
    if (c->detached)
        conn_send_locked(b, c, k);
    else if (j->usable && c->waiter == NULL)
        conn_settle_locked(b, c, k); /* not wanted on another loop any more */
    else
        conn_drop_locked(b, c, k); /* its waiter may open one instead */
}

static void end_arriving_locked(struct conn_backend *b, const struct job *j, struct conn_work *k)
{
    struct pooled_conn *c = j->c;

    c->detached = !j->moved;
    if (j->moved)
        ++b->handed_over;
    if (!j->moved || b->retired || c->condemned)
        conn_drop_locked(b, c, k);
    else if (c->waiter != NULL)
        waiter_grant_locked(b, c->waiter, c, k);
    else
        conn_settle_locked(b, c, k);
}

/* Takes the first waiter of READY; its result is final. Returns NULL if READY is empty. */
static struct conn_waiter *take_ready(struct conn_backend *b, struct list *ready)
{
    struct conn_waiter *w = NULL;
    struct conn_work k;

    conn_work_init(&k);
    latch_lock(&b->latch);
    if (!list_empty(ready)) {
        w = list_first(ready, struct conn_waiter, node);
        waiter_enter_locked(b, w, WAITER_NONE, &k);
        w->queued = false;
        if (w->result == CONN_REUSED) {
            struct pooled_conn *c = w->conn;
            (void)conn_unpair(c);
            w->conn = c;
            conn_enter_locked(b, c, PLACE_USED, &k);
            ++c->uses;
            ++b->reused;
        }
    }
    conn_unlock_and_do(b, &k);
    return w;
}

/* Calls ready() of each waiter. Work that this causes is queued with another message. */
static void tell_ready(struct conn_backend *b, struct list *ready)
{
    struct conn_waiter *w;

    while ((w = take_ready(b, ready)) != NULL) {
        w->ready(w); /* W may be gone after this */
        conn_backend_release(b);
    }
}

/*
 * The message has been handled when no connection is left to be moved; the ready waiters are then
 * notified. From then on, another message may be posted; it would be useless earlier, because work
 * queued until then is done here. The lock is taken once for each connection, and once more.
 */
void conn_shard_on_message(struct loop_message *m)
{
    struct conn_shard *s = container_of(m, struct conn_shard, message);
    struct conn_backend *b = s->backend;
    struct list ready;
    struct conn_work k;
    struct job j;

    list_init(&ready);
    conn_work_init(&k);
    latch_lock(&b->latch);
    while (take_job_locked(s, &j, &k)) {
        conn_unlock_and_do(b, &k);
        do_job(s, &j);
        latch_lock(&b->latch);
        if (j.arrives)
            end_arriving_locked(b, &j, &k);
        else
            end_leaving_locked(b, &j, &k);
    }
    list_splice_back(&ready, &s->ready);
    s->posted = false;
    bool any = !list_empty(&ready);
    conn_unlock_and_do(b, &k);
    if (any)
        tell_ready(b, &ready);
    conn_backend_release(b); /* the message's */
}
