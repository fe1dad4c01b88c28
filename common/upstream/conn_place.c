/* SPDX-License-Identifier: Apache-2.0
 *
 * The places of connections and waiters: every change of place in one backend, under its latch.
 * Nothing here calls callbacks; calls that are needed are noted in a struct conn_work and done
 * after unlocking.
 */
#include "common/upstream/conn_pool_internal.h"

#include <stdlib.h>

static noinline_ void want_post_locked(struct conn_shard *s, struct conn_work *k)
{
    if (s->posted)
        return;
    s->posted = true;
    conn_backend_ref(s->backend);
    s->next_post = k->posts;
    k->posts = s;
}

void conn_work_do_all_(struct conn_pool *p, struct conn_work *k)
{
    struct list *node;

    /* First, so that a waiter that is notified of the room finds it. */
    while ((node = list_pop_front(&k->closing)) != NULL) {
        struct pooled_conn *c = list_entry(node, struct pooled_conn, stack_node);
        struct conn_backend *b = c->backend;
        c->backend = NULL;
        p->ops->close(c);
        conn_backend_release(b);
    }
    while (k->posts != NULL) {
        struct conn_shard *s = k->posts;
        k->posts = s->next_post; /* before posting: then it is the loop's */
        loop_post(s->loop, &s->message);
    }
}

/*
 * The number that counts against the limit. Connections marked for closing do not count: they
 * result from a lowered limit, or from the end of the backend.
 */
static unsigned total_locked(const struct conn_backend *b)
{
    return b->in_use + b->idle + b->opening - b->marked;
}

bool conn_has_room_locked(const struct conn_backend *b)
{
    return b->max_connections == 0 || total_locked(b) < b->max_connections;
}

static bool over_limit_locked(const struct conn_backend *b)
{
    return b->max_connections != 0 && total_locked(b) > b->max_connections;
}

struct pooled_conn *conn_latest_locked(const struct conn_shard *s)
{
    const struct list *from = list_empty(&s->idle) ? &s->resting : &s->idle;

    return list_empty(from) ? NULL : list_first(from, struct pooled_conn, stack_node);
}

struct pooled_conn *conn_oldest_locked(const struct conn_shard *s)
{
    const struct list *from = list_empty(&s->idle) ? &s->resting : &s->idle;

    return list_empty(from) ? NULL : list_entry(from->prev, struct pooled_conn, stack_node);
}

struct pooled_conn *conn_oldest_of_locked(const struct conn_backend *b, unsigned loop)
{
    struct pooled_conn *c = conn_oldest_locked(&b->shards[loop]);

    for (struct list *it = b->parked.prev; it != &b->parked; it = it->prev) {
        struct pooled_conn *parked = list_entry(it, struct pooled_conn, stack_node);
        if (c != NULL && c->idle_since_ms <= parked->idle_since_ms)
            break;
        if (parked->loop_index == loop)
            return parked;
    }
    return c;
}

void conn_rested_now_locked_(struct conn_shard *s)
{
    s->rested_at = loop_waits(s->loop);
    if (list_empty(&s->resting))
        return;
    list_splice_back(&s->resting, &s->idle);
    list_splice_back(&s->idle, &s->resting);
}

/* Counts C at its place: BY is 1 after it has entered it, and -1 before it leaves. */
static inline void count_locked(struct conn_backend *b, const struct pooled_conn *c, int by)
{
    if (c->place == PLACE_IDLE) {
        b->shards[c->loop_index].nidle += (unsigned)by;
        b->idle += (unsigned)by;
    } else if (c->place == PLACE_PARKED) {
        b->nparked += (unsigned)by;
        b->idle += (unsigned)by;
    } else if (c->place != PLACE_GONE) {
        b->in_use += (unsigned)by;
    }
}

/* In transit between loops, or available to any. */
static void list_elsewhere_locked(struct conn_backend *b, struct pooled_conn *c, enum conn_place to,
                                  struct conn_work *k)
{
    struct conn_shard *s = &b->shards[c->loop_index];

    switch (to) {
    case PLACE_GONE:
    case PLACE_USED:
    case PLACE_IDLE:
    case PLACE_HELD:
    case PLACE_GRANTED:
        break;
    case PLACE_PARKED:
        list_push_front(&b->parked, &c->stack_node);
        break;
    case PLACE_LEAVING:
        list_push_back(&s->leaving, &c->stack_node);
        want_post_locked(s, k);
        break;
    case PLACE_ARRIVING:
        list_push_back(&s->arriving, &c->stack_node);
        want_post_locked(s, k);
        break;
    }
}

void conn_enter_locked(struct conn_backend *b, struct pooled_conn *c, enum conn_place to,
                       struct conn_work *k)
{
    list_remove(&c->stack_node);
    count_locked(b, c, -1);
    c->place = (int)to;
    count_locked(b, c, 1);
    /* Mostly it goes from the stack to a user and back. */
    if (to == PLACE_IDLE) {
        struct conn_shard *s = &b->shards[c->loop_index];

        conn_rested_locked(s);
        list_push_front(&s->resting, &c->stack_node);
    } else if (to != PLACE_USED) {
        list_elsewhere_locked(b, c, to, k);
    }
}

/* Only a waiter that was served in vain has later ones in line: few steps, from the front. */
static void rejoin_line_locked(struct conn_backend *b, struct conn_waiter *w)
{
    struct list *at = b->line.next;

    while (at != &b->line && list_entry(at, struct conn_waiter, node)->ticket < w->ticket)
        at = at->next;
    list_insert_before(at, &w->node);
}

void waiter_enter_locked(struct conn_backend *b, struct conn_waiter *w, enum waiter_state to,
                         struct conn_work *k)
{
    struct conn_shard *s = &b->shards[loop_index(w->loop)];

    list_remove(&w->node);
    b->waiting -= w->state != WAITER_NONE;
    b->in_line -= w->state == WAITER_IN_LINE;
    b->waiting += to != WAITER_NONE;
    b->in_line += to == WAITER_IN_LINE;
    bool comes = w->state == WAITER_NONE;
    if (comes)
        w->ticket = b->next_ticket++;
    w->state = (int)to;
    switch (to) {
    case WAITER_NONE:
    case WAITER_COMING:
        break;
    case WAITER_IN_LINE:
        if (comes)
            list_push_back(&b->line, &w->node);
        else
            rejoin_line_locked(b, w);
        break;
    case WAITER_READY:
        list_push_back(&s->ready, &w->node);
        want_post_locked(s, k);
        break;
    }
}

void conn_pair(struct pooled_conn *c, struct conn_waiter *w)
{
    ASSERT(c->waiter == NULL);
    ASSERT(w->conn == NULL);
    c->waiter = w;
    w->conn = c;
}

struct conn_waiter *conn_unpair(struct pooled_conn *c)
{
    struct conn_waiter *w = c->waiter;

    if (w != NULL)
        w->conn = NULL;
    c->waiter = NULL;
    return w;
}

void waiter_refuse_locked(struct conn_backend *b, struct conn_waiter *w, enum err e,
                          struct conn_work *k)
{
    w->result = CONN_REFUSED;
    w->error = e;
    ++b->refused;
    waiter_enter_locked(b, w, WAITER_READY, k);
}

/* W is to get C, which is attached to W's loop. */
static noinline_ void waiter_grant_locked(struct conn_backend *b, struct conn_waiter *w,
                                          struct pooled_conn *c, struct conn_work *k)
{
    ASSERT(c->loop_index == loop_index(w->loop));
    if (c->waiter != w)
        conn_pair(c, w);
    w->result = CONN_REUSED;
    conn_enter_locked(b, c, PLACE_GRANTED, k);
    waiter_enter_locked(b, w, WAITER_READY, k);
}

static struct conn_waiter *first_in_line(struct conn_backend *b)
{
    return list_empty(&b->line) ? NULL : list_first(&b->line, struct conn_waiter, node);
}

void conn_serve_locked(struct conn_backend *b, struct conn_work *k)
{
    struct conn_waiter *w;

    while ((w = first_in_line(b)) != NULL && conn_has_room_locked(b)) {
        ++b->opening;
        conn_backend_ref(b);
        w->result = CONN_OPEN;
        waiter_enter_locked(b, w, WAITER_READY, k);
    }
}

void conn_leave_locked(struct conn_backend *b, struct pooled_conn *c, struct conn_work *k)
{
    struct conn_waiter *w = conn_unpair(c);

    conn_enter_locked(b, c, PLACE_GONE, k);
    b->marked -= c->marked;
    c->marked = false;
    if (w != NULL && b->retired)
        waiter_refuse_locked(b, w, ERR_NO_WORKER, k);
    else if (w != NULL)
        waiter_enter_locked(b, w, WAITER_IN_LINE, k);
    conn_serve_locked(b, k);
}

void conn_drop_locked(struct conn_backend *b, struct pooled_conn *c, struct conn_work *k)
{
    conn_leave_locked(b, c, k);
    list_push_back(&k->closing, &c->stack_node);
}

static bool unwanted_locked(const struct conn_backend *b, const struct pooled_conn *c)
{
    return b->retired || c->marked || over_limit_locked(b) ||
           atomic_load(&b->pool->loop_closed[c->loop_index]);
}

/*
 * While other loops lack connections that this one has idle, it keeps a share of its part of all
 * that there may be, and parks the rest: what others take there needs no message, which would wake
 * two loops. Parking costs an epoll_ctl, and so does taking; so it ends when the others take
 * nothing more.
 */
bool conn_should_park_locked(const struct conn_backend *b, const struct pooled_conn *c)
{
    return b->parks_left != 0 && list_empty(&b->line) && !unwanted_locked(b, c) &&
           !conn_has_room_locked(b) &&
           b->shards[c->loop_index].nidle >= b->max_connections / b->pool->nloops / CONN_PART_KEPT;
}

/*
 * C, detached, goes to its waiter or to the first in line; else it parks, for any loop to take; or
 * it is closed.
 */
static void conn_send_locked(struct conn_backend *b, struct pooled_conn *c, struct conn_work *k)
{
    struct conn_waiter *w = c->waiter;

    ASSERT(c->detached);
    if (w == NULL)
        w = first_in_line(b);
    if (unwanted_locked(b, c) || (w != NULL && w->fresh)) {
        conn_drop_locked(b, c, k); /* which makes room for a waiter */
        return;
    }
    if (w == NULL) {
        b->parks_left -= b->parks_left != 0;
        conn_enter_locked(b, c, PLACE_PARKED, k);
        return;
    }
    if (c->waiter == NULL) {
        conn_pair(c, w);
        waiter_enter_locked(b, w, WAITER_COMING, k);
    }
    c->loop_index = loop_index(w->loop);
    conn_enter_locked(b, c, PLACE_ARRIVING, k);
}

void conn_settle_locked(struct conn_backend *b, struct pooled_conn *c, struct conn_work *k)
{
    struct conn_waiter *w = first_in_line(b);

    ASSERT(c->waiter == NULL);
    ASSERT(!c->detached);
    if (unwanted_locked(b, c) || (w != NULL && w->fresh)) {
        conn_drop_locked(b, c, k);
    } else if (w == NULL) {
        conn_enter_locked(b, c, PLACE_IDLE, k);
    } else if (loop_index(w->loop) == c->loop_index) {
        waiter_grant_locked(b, w, c, k);
    } else {
        conn_pair(c, w);
        waiter_enter_locked(b, w, WAITER_COMING, k);
        conn_enter_locked(b, c, PLACE_LEAVING, k);
    }
}

void conn_mark_locked(struct conn_backend *b, struct pooled_conn *c, struct conn_work *k)
{
    ASSERT(!c->marked);
    c->marked = true;
    ++b->marked;
    conn_enter_locked(b, c, PLACE_LEAVING, k);
}

/* ---- work on a loop, requested by another thread ---- */

/*
 * Work that was queued for one loop's part of a backend, perhaps by another thread: connections
 * that leave for another loop or are to be closed, connections that arrive, and waiters to be
 * notified. The lock is not held while a connection is detached or attached. Meanwhile its waiter
 * may cancel, the backend may be retired and its limit may be lowered, so all of this is checked
 * again afterwards. The connection itself is not used by others then (HELD).
 */

enum way {
    WAY_NONE, /* not to be detached, or detached already */
    WAY_PARK, /* checked when it is taken */
    WAY_ON,   /* to its waiter */
};

static enum way way_of_locked(const struct conn_backend *b, const struct pooled_conn *c)
{
    if (c->detached || c->marked || b->retired)
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
    if (!j->moved || b->retired || c->marked)
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
 * queued until then is done here. The lock is taken once for each connection, plus once.
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
