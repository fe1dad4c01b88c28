/* SPDX-License-Identifier: Apache-2.0
 *
 * Work on one loop's part of a backend that was noted there, perhaps by another thread: connections
 * that leave for another loop or are to be closed, connections that arrive, waiters to be told.
 * While a connection is detached or attached the lock is not held. Meanwhile its waiter may cancel,
 * the backend may be retired and its limit lowered; so all is looked at anew afterwards. The
 * connection itself is nobody else's then (HELD).
 */
#include "common/net/conn_pool_internal.h"

#include <stdlib.h>

static struct pooled_conn *take_first_locked(struct conn_backend *b, struct list *from,
                                             struct conn_work *k)
{
    if (list_empty(from))
        return NULL;
    struct pooled_conn *c = list_first(from, struct pooled_conn, stack_node);
    conn_enter_locked(b, c, PLACE_HELD, k);
    return c;
}

/* C has been detached from its loop. Send it to its waiter, or to the first in line, or back where
 * it was. */
static void send_locked(struct conn_backend *b, struct pooled_conn *c, struct conn_work *k)
{
    struct conn_waiter *w = c->waiter;

    if (b->retired || c->condemned) {
        conn_drop_locked(b, c, k);
        return;
    }
    if (w == NULL && !list_empty(&b->line)) {
        w = list_first(&b->line, struct conn_waiter, node);
        if (w->fresh) {
            conn_drop_locked(b, c, k); /* which makes room for it */
            return;
        }
        conn_pair(c, w);
        waiter_enter_locked(b, w, WAITER_COMING, k);
    }
    if (w != NULL)
        c->loop_index = loop_index(w->loop);
    conn_enter_locked(b, c, PLACE_ARRIVING, k);
}

/* One connection that is to leave this loop. */
static void move_out(struct conn_shard *s, struct pooled_conn *c, bool close)
{
    struct conn_backend *b = s->backend;
    const struct conn_pool_ops *ops = b->pool->ops;
    struct conn_work k;

    conn_work_init(&k);
    bool usable = close || ops->alive(c, true);
    bool detached = !close && usable && ops->detach(c);
    pthread_mutex_lock(&b->mutex);
    if (detached)
        send_locked(b, c, &k);
    else if (usable && c->waiter == NULL)
        conn_settle_locked(b, c, &k); /* nobody wants it elsewhere any more */
    else
        conn_drop_locked(b, c, &k); /* its waiter may open one instead */
    conn_unlock_and_do(b, &k);
}

static void move_all_out(struct conn_shard *s)
{
    struct conn_backend *b = s->backend;

    for (;;) {
        struct conn_work k;

        conn_work_init(&k);
        pthread_mutex_lock(&b->mutex);
        struct pooled_conn *c = take_first_locked(b, &s->leaving, &k);
        /* Without a waiter it need not leave, and is settled here. */
        bool stays =
            c != NULL && (c->waiter == NULL || c->waiter->fresh || c->condemned || b->retired);
        conn_unlock_and_do(b, &k);
        if (c == NULL)
            return;
        move_out(s, c, stays);
    }
}

/* Attached even when nobody wants it any more: it can only be closed by the loop it belongs to. */
static void move_in(struct conn_shard *s, struct pooled_conn *c)
{
    struct conn_backend *b = s->backend;
    struct conn_work k;

    conn_work_init(&k);
    bool attached = b->pool->ops->attach(c, s->loop);
    pthread_mutex_lock(&b->mutex);
    if (attached)
        ++b->handed_over;
    if (!attached || b->retired || c->condemned)
        conn_drop_locked(b, c, &k);
    else if (c->waiter != NULL)
        waiter_grant_locked(b, c->waiter, c, &k);
    else
        conn_settle_locked(b, c, &k);
    conn_unlock_and_do(b, &k);
}

static void move_all_in(struct conn_shard *s)
{
    struct conn_backend *b = s->backend;

    for (;;) {
        struct conn_work k;

        conn_work_init(&k);
        pthread_mutex_lock(&b->mutex);
        struct pooled_conn *c = take_first_locked(b, &s->arriving, &k);
        conn_unlock_and_do(b, &k);
        if (c == NULL)
            return;
        move_in(s, c);
    }
}

/* Take the first waiter of READY, whose result is final then. NULL: none left. */
static struct conn_waiter *take_ready(struct conn_backend *b, struct list *ready)
{
    struct conn_waiter *w = NULL;
    struct conn_work k;

    conn_work_init(&k);
    pthread_mutex_lock(&b->mutex);
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

/* Those who are ready now; what their ready() leads to comes with another message. */
static void tell_ready(struct conn_shard *s)
{
    struct conn_backend *b = s->backend;
    struct conn_waiter *w;
    struct list ready;

    list_init(&ready);
    pthread_mutex_lock(&b->mutex);
    list_splice_back(&ready, &s->ready);
    pthread_mutex_unlock(&b->mutex);
    while ((w = take_ready(b, &ready)) != NULL) {
        w->ready(w); /* W may be gone after this */
        conn_backend_release(b);
    }
}

void conn_shard_on_message(struct loop_message *m)
{
    struct conn_shard *s = container_of(m, struct conn_shard, message);
    struct conn_backend *b = s->backend;

    pthread_mutex_lock(&b->mutex);
    s->posted = false;
    pthread_mutex_unlock(&b->mutex);
    move_all_out(s);
    move_all_in(s);
    tell_ready(s);
    conn_backend_release(b); /* the message's */
}
