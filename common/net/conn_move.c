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

enum way {
    WAY_NONE, /* no further than here, or over already */
    WAY_PARK, /* whoever takes it will look at it */
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

/* One connection that was to leave this loop. */
static void move_out(struct conn_shard *s, struct pooled_conn *c, enum way way)
{
    struct conn_backend *b = s->backend;
    const struct conn_pool_ops *ops = b->pool->ops;
    struct conn_work k;

    conn_work_init(&k);
    bool usable = way != WAY_ON || ops->alive(c, true);
    bool detaches = way != WAY_NONE && usable && ops->detach(c);
    pthread_mutex_lock(&b->mutex);
    c->detached |= detaches;
    if (c->detached)
        conn_send_locked(b, c, &k);
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
        enum way way = c != NULL ? way_of_locked(b, c) : WAY_NONE;
        conn_unlock_and_do(b, &k);
        if (c == NULL)
            return;
        move_out(s, c, way);
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
    c->detached = !attached;
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

/*
 * The end of a message, unless connections have come meanwhile: READY are those who are ready now.
 * From then on there may be another message. Not before, as what was noted up to here is done.
 */
static bool end_message(struct conn_shard *s, struct list *ready)
{
    struct conn_backend *b = s->backend;

    pthread_mutex_lock(&b->mutex);
    bool ends = list_empty(&s->leaving) && list_empty(&s->arriving);
    if (ends) {
        list_splice_back(ready, &s->ready);
        s->posted = false;
    }
    pthread_mutex_unlock(&b->mutex);
    return ends;
}

/* What their ready() leads to comes with another message. */
static void tell_ready(struct conn_backend *b, struct list *ready)
{
    struct conn_waiter *w;

    while ((w = take_ready(b, ready)) != NULL) {
        w->ready(w); /* W may be gone after this */
        conn_backend_release(b);
    }
}

void conn_shard_on_message(struct loop_message *m)
{
    struct conn_shard *s = container_of(m, struct conn_shard, message);
    struct conn_backend *b = s->backend;
    struct list ready;

    list_init(&ready);
    do {
        move_all_out(s);
        move_all_in(s);
    } while (!end_message(s, &ready));
    tell_ready(b, &ready);
    conn_backend_release(b); /* the message's */
}
