/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection's use: taken, waited for, opened, given back, forgotten; and its places. Each public
 * function takes the backend's latch, moves, notes in a struct conn_work what needs a call, and
 * does that after unlocking. The hot pair, an idle connection of the same loop taken and given
 * back, is one lock and one list operation each.
 */
#include "common/upstream/conn_pool_internal.h"

/* ---- places: every change of place in one backend, under its latch ---- */

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
    struct pooled_conn *c;

    /* First, so that a waiter that is notified of the room finds it. */
    while ((c = list_pop_entry(&k->closing, struct pooled_conn, stack_node)) != NULL) {
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

/* The latest idle connection of a shard (of those seen idle by a wait, if any), or its oldest; or
 * NULL. */
static struct pooled_conn *idle_of_locked(const struct conn_shard *s, bool oldest)
{
    const struct list *from = list_empty(&s->idle) ? &s->returned : &s->idle;
    struct list *node = oldest ? from->prev : from->next;

    return node == from ? NULL : list_entry(node, struct pooled_conn, stack_node);
}

struct pooled_conn *conn_oldest_of_locked(const struct conn_backend *b, unsigned loop)
{
    struct pooled_conn *c = idle_of_locked(&b->shards[loop], true);

    for (struct list *it = b->parked.prev; it != &b->parked; it = it->prev) {
        struct pooled_conn *parked = list_entry(it, struct pooled_conn, stack_node);
        if (c != NULL && c->idle_since_ms <= parked->idle_since_ms)
            break;
        if (parked->loop_index == loop)
            return parked;
    }
    return c;
}

/* On the shard's loop: moves those returned before its last wait to IDLE. */
static noinline_ void move_returned_locked(struct conn_shard *s)
{
    s->returned_at = loop_waits(s->loop);
    if (list_empty(&s->returned))
        return;
    list_splice_back(&s->returned, &s->idle);
    list_splice_back(&s->idle, &s->returned);
}

static inline void update_idle_locked(struct conn_shard *s)
{
    if (s->returned_at != loop_waits(s->loop))
        move_returned_locked(s);
}

/* Counts C at its place: BY is 1 after it has entered it, and -1 before it leaves. */
static inline void count_locked(struct conn_backend *b, const struct pooled_conn *c, int by)
{
    if (c->state == POOLED_IDLE) {
        b->shards[c->loop_index].nidle += (unsigned)by;
        b->idle += (unsigned)by;
    } else if (c->state == POOLED_PARKED) {
        b->nparked += (unsigned)by;
        b->idle += (unsigned)by;
    } else if (c->state != POOLED_GONE) {
        b->in_use += (unsigned)by;
    }
}

static void conn_enter_locked(struct conn_backend *b, struct pooled_conn *c, enum pooled_state to,
                              struct conn_work *k)
{
    struct conn_shard *s = &b->shards[c->loop_index];

    list_remove(&c->stack_node);
    count_locked(b, c, -1);
    c->state = (int)to;
    count_locked(b, c, 1);
    if (to == POOLED_IDLE) {
        update_idle_locked(s);
        list_push_front(&s->returned, &c->stack_node);
    } else if (to == POOLED_PARKED) {
        list_push_front(&b->parked, &c->stack_node);
    } else if (to == POOLED_LEAVING || to == POOLED_ARRIVING) {
        list_push_back(to == POOLED_LEAVING ? &s->leaving : &s->arriving, &c->stack_node);
        want_post_locked(s, k);
    }
}

static void waiter_enter_locked(struct conn_backend *b, struct conn_waiter *w, enum waiter_state to,
                                struct conn_work *k)
{
    struct conn_shard *s = &b->shards[loop_index(w->loop)];
    struct list *at = &b->queue;
    bool comes = w->state == WAITER_NONE;

    list_remove(&w->node);
    b->waiting -= !comes;
    b->nqueued -= w->state == WAITER_QUEUED;
    b->waiting += to != WAITER_NONE;
    b->nqueued += to == WAITER_QUEUED;
    if (comes)
        w->ticket = b->next_ticket++;
    w->state = (int)to;
    if (to == WAITER_QUEUED) {
        /* Only a waiter that was served in vain has later ones in the queue: few steps, from the
         * front. */
        if (!comes) {
            for (at = b->queue.next; at != &b->queue; at = at->next) {
                if (list_entry(at, struct conn_waiter, node)->ticket >= w->ticket)
                    break;
            }
        }
        list_insert_before(at, &w->node);
    } else if (to == WAITER_READY) {
        list_push_back(&s->ready, &w->node);
        want_post_locked(s, k);
    }
}

/* C is in transit to W from now on. */
static noinline_ void conn_pair(struct pooled_conn *c, struct conn_waiter *w)
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

static enum conn_result reject_locked(struct conn_backend *b, struct conn_waiter *w, enum err e)
{
    ++b->rejected;
    w->error = e;
    return CONN_REJECTED;
}

void waiter_reject_locked(struct conn_backend *b, struct conn_waiter *w, enum err e,
                          struct conn_work *k)
{
    w->result = reject_locked(b, w, e);
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
    conn_enter_locked(b, c, POOLED_GRANTED, k);
    waiter_enter_locked(b, w, WAITER_READY, k);
}

static struct conn_waiter *first_queued(struct conn_backend *b)
{
    return list_empty(&b->queue) ? NULL : list_first(&b->queue, struct conn_waiter, node);
}

static enum conn_result grant_open_locked(struct conn_backend *b)
{
    ++b->opening;
    conn_backend_ref(b);
    return CONN_OPEN;
}

void conn_serve_locked(struct conn_backend *b, struct conn_work *k)
{
    struct conn_waiter *w;

    while ((w = first_queued(b)) != NULL && conn_has_room_locked(b)) {
        w->result = grant_open_locked(b);
        waiter_enter_locked(b, w, WAITER_READY, k);
    }
}

/*
 * Removes C from the backend. Its waiter, if any, returns to its position in the queue, and the
 * room is given to the first in the queue. The caller must close C, or use conn_drop_locked
 * instead.
 */
static void conn_leave_locked(struct conn_backend *b, struct pooled_conn *c, struct conn_work *k)
{
    struct conn_waiter *w = conn_unpair(c);

    conn_enter_locked(b, c, POOLED_GONE, k);
    b->marked -= c->marked;
    c->marked = false;
    if (w != NULL && b->retired)
        waiter_reject_locked(b, w, ERR_NO_WORKER, k);
    else if (w != NULL)
        waiter_enter_locked(b, w, WAITER_QUEUED, k);
    conn_serve_locked(b, k);
}

void conn_drop_locked(struct conn_backend *b, struct pooled_conn *c, struct conn_work *k)
{
    conn_leave_locked(b, c, k);
    list_push_back(&k->closing, &c->stack_node);
}

static bool unwanted_locked(const struct conn_backend *b, const struct pooled_conn *c)
{
    bool over_limit = b->max_connections != 0 && total_locked(b) > b->max_connections;

    return b->retired || c->marked || over_limit ||
           atomic_load(&b->pool->loop_closed[c->loop_index]);
}

/*
 * While other loops lack connections that this one has idle, it retains a share of its part of all
 * that there may be, and parks the rest: what others take there needs no message, which would wake
 * two loops. Parking costs an epoll_ctl, and so does taking; so it ends when the others take
 * nothing more.
 */
static bool should_park_locked(const struct conn_backend *b, const struct pooled_conn *c)
{
    return b->parks_left != 0 && list_empty(&b->queue) && !unwanted_locked(b, c) &&
           !conn_has_room_locked(b) &&
           b->shards[c->loop_index].nidle >=
               b->max_connections / b->pool->nloops / CONN_PART_RETAINED;
}

/*
 * C has no user, and is attached to the calling loop or detached. It goes to its waiter or to the
 * first in the queue; or it becomes idle or, if detached, is parked for any loop; or it is closed.
 */
static void conn_supply_locked(struct conn_backend *b, struct pooled_conn *c, struct conn_work *k)
{
    struct conn_waiter *w = c->waiter != NULL ? c->waiter : first_queued(b);

    ASSERT(c->detached || c->waiter == NULL);
    if (unwanted_locked(b, c) || (w != NULL && w->fresh)) {
        conn_drop_locked(b, c, k); /* which makes room for a waiter */
        return;
    }
    if (w == NULL) {
        b->parks_left -= c->detached && b->parks_left != 0;
        conn_enter_locked(b, c, c->detached ? POOLED_PARKED : POOLED_IDLE, k);
        return;
    }
    if (!c->detached && loop_index(w->loop) == c->loop_index) {
        waiter_grant_locked(b, w, c, k);
        return;
    }
    if (c->waiter == NULL) {
        conn_pair(c, w);
        waiter_enter_locked(b, w, WAITER_COMING, k);
    }
    if (c->detached)
        c->loop_index = loop_index(w->loop);
    conn_enter_locked(b, c, c->detached ? POOLED_ARRIVING : POOLED_LEAVING, k);
}

void conn_mark_locked(struct conn_backend *b, struct pooled_conn *c, struct conn_work *k)
{
    ASSERT(!c->marked);
    c->marked = true;
    ++b->marked;
    conn_enter_locked(b, c, POOLED_LEAVING, k);
}

/* ---- use ---- */

/* Whether C has been idle for a time that O permits. */
static bool right_age(const struct pooled_conn *c, const struct conn_checkout *o, uint64_t now_ms)
{
    return o->max_idle_ms == 0 || c->idle_since_ms + o->max_idle_ms > now_ms;
}

/*
 * The latest idle connection of this loop that a wait has seen idle, as it needs no check of its
 * own; else the latest; if it will do. Used from now on.
 */
static struct pooled_conn *take_own_locked(struct conn_backend *b, struct conn_shard *s,
                                           const struct conn_checkout *o, uint64_t now_ms,
                                           struct conn_work *k)
{
    if (o->fresh)
        return NULL;
    update_idle_locked(s);
    struct pooled_conn *c = idle_of_locked(s, false);
    if (c != NULL && !right_age(c, o, now_ms) && !list_empty(&s->returned))
        c = list_first(&s->returned, struct pooled_conn, stack_node);
    if (c == NULL || !right_age(c, o, now_ms))
        return NULL;
    conn_enter_locked(b, c, POOLED_USED, k);
    return c;
}

/* The latest that is attached to no loop, if it will do; used from now on, and yet to be attached
 * to L. */
static noinline_ struct pooled_conn *take_parked_locked(struct conn_backend *b, struct loop *l,
                                                        const struct conn_checkout *o,
                                                        uint64_t now_ms, struct conn_work *k)
{
    if (o->fresh || b->retired || list_empty(&b->parked))
        return NULL;
    struct pooled_conn *c = list_first(&b->parked, struct pooled_conn, stack_node);
    if (!right_age(c, o, now_ms))
        return NULL;
    if (c->loop_index != loop_index(l))
        b->parks_left = CONN_PARKS;
    conn_enter_locked(b, c, POOLED_USED, k);
    c->loop_index = loop_index(l);
    ++b->handed_over;
    return c;
}

/* An idle connection of another loop, or a parked one: the one least likely to be dead, or the
 * oldest if it is to be closed. */
static struct pooled_conn *find_elsewhere_locked(struct conn_backend *b,
                                                 const struct conn_shard *own, bool oldest)
{
    struct pooled_conn *best = NULL;

    if (!list_empty(&b->parked))
        best = list_entry(oldest ? b->parked.prev : b->parked.next, struct pooled_conn, stack_node);
    /* None to be found on loops, mostly, when all are in use; there may be many loops. */
    unsigned left = b->idle - b->nparked - own->nidle;
    for (unsigned i = 0; i < b->pool->nloops && left != 0; ++i) {
        const struct conn_shard *s = &b->shards[i];
        if (s == own)
            continue;
        left -= s->nidle;
        struct pooled_conn *c = idle_of_locked(s, oldest);
        if (c == NULL)
            continue;
        if (best == NULL || (c->idle_since_ms < best->idle_since_ms) == oldest)
            best = c;
    }
    return best;
}

/* No idle connection of this loop will do. */
static noinline_ enum conn_result
open_or_wait_locked(struct conn_backend *b, struct conn_shard *own, const struct conn_checkout *o,
                    uint64_t now_ms, struct conn_waiter *w, struct conn_work *k)
{
    if (b->retired)
        return reject_locked(b, w, ERR_NO_WORKER);
    if (conn_has_room_locked(b))
        return grant_open_locked(b);
    struct pooled_conn *oldest = conn_oldest_of_locked(b, loop_index(own->loop));
    if (oldest != NULL) {
        /* Too old for this one, or it needs a new one: make room at once. */
        conn_drop_locked(b, oldest, k);
        ASSERT(conn_has_room_locked(b));
        return grant_open_locked(b);
    }
    struct pooled_conn *c = find_elsewhere_locked(b, own, o->fresh);
    if (c == NULL && b->nqueued >= b->settings.max_waiting)
        return reject_locked(b, w, ERR_QUEUE_FULL);
    ++b->waits;
    conn_backend_ref(b);
    w->queued = true;
    w->fresh = o->fresh || (c != NULL && !right_age(c, o, now_ms));
    if (c == NULL) {
        waiter_enter_locked(b, w, WAITER_QUEUED, k);
        return CONN_WAIT;
    }
    b->parks_left = CONN_PARKS;
    conn_pair(c, w);
    waiter_enter_locked(b, w, WAITER_COMING, k);
    conn_enter_locked(b, c, POOLED_LEAVING, k);
    return CONN_WAIT;
}

enum conn_result conn_checkout(struct conn_backend *b, struct loop *l,
                               const struct conn_checkout *o, struct conn_waiter *w)
{
    struct conn_shard *s = &b->shards[loop_index(l)];
    uint64_t now_ms = loop_now_ms(l);
    enum conn_result result = CONN_REUSED;
    struct pooled_conn *c;
    struct conn_work k;

    ASSERT(s->loop == l);
    ASSERT(!w->queued);
    conn_lock(b, &k);
    while ((c = take_own_locked(b, s, o, now_ms, &k)) != NULL ||
           (c = take_parked_locked(b, l, o, now_ms, &k)) != NULL) {
        ++b->reused;
        ++c->uses;
        latch_unlock(&b->latch);
        if (c->detached)
            c->detached = !b->pool->ops->attach(c, l);
        if (!c->detached && b->pool->ops->alive(c))
            break;
        --c->uses;
        conn_ended_idle(c, now_ms);
        latch_lock(&b->latch);
        --b->reused;
        conn_drop_locked(b, c, &k);
    }
    if (c == NULL) {
        w->conn = NULL;
        w->loop = l;
        w->backend = b;
        w->state = WAITER_NONE;
        result = open_or_wait_locked(b, s, o, now_ms, w, &k);
        latch_unlock(&b->latch);
    }
    if (c != NULL)
        w->conn = c; /* otherwise W may be accessed by other threads already */
    conn_work_do(b->pool, &k);
    return result;
}

void conn_cancel(struct conn_waiter *w)
{
    struct conn_work k;

    if (!w->queued)
        return;
    struct conn_backend *b = w->backend;
    w->queued = false;
    conn_lock(b, &k);
    struct pooled_conn *c = w->conn;
    bool granted = w->state == WAITER_READY && w->result == CONN_REUSED;
    bool permission = w->state == WAITER_READY && w->result == CONN_OPEN;
    waiter_enter_locked(b, w, WAITER_NONE, &k);
    if (c != NULL)
        (void)conn_unpair(c); /* one in transit is handled where it arrives */
    if (granted)
        conn_supply_locked(b, c, &k);
    conn_unlock_and_do(b, &k);
    if (permission)
        conn_not_opened(b);
    conn_backend_release(b);
}

void conn_opened(struct conn_backend *b, struct pooled_conn *c, struct loop *l)
{
    struct conn_work k;

    *c = (struct pooled_conn){
        .backend = b, .loop_index = loop_index(l), .uses = 1, .state = POOLED_GONE};
    list_init(&c->stack_node);
    conn_lock(b, &k);
    ASSERT(b->opening != 0);
    --b->opening; /* its reference is the connection's now */
    ++b->opened;
    conn_enter_locked(b, c, POOLED_USED, &k);
    conn_unlock_and_do(b, &k);
}

void conn_not_opened(struct conn_backend *b)
{
    struct conn_work k;

    conn_lock(b, &k);
    ASSERT(b->opening != 0);
    --b->opening;
    conn_serve_locked(b, &k);
    conn_unlock_and_do(b, &k);
    conn_backend_release(b);
}

void conn_checkin(struct pooled_conn **conn, struct loop *l)
{
    struct pooled_conn *c = *conn;
    struct conn_backend *b = c->backend;
    uint64_t now_ms = loop_now_ms(l);
    struct conn_work k;

    *conn = NULL;
    ASSERT(b != NULL);
    ASSERT(c->loop_index == loop_index(l));
    conn_lock(b, &k);
    ASSERT(c->state == POOLED_USED);
    c->idle_since_ms = now_ms;
    /* Not detached here: the caller may have been called because of C, and may check C again. */
    if (should_park_locked(b, c))
        conn_enter_locked(b, c, POOLED_LEAVING, &k);
    else
        conn_supply_locked(b, c, &k);
    conn_unlock_and_do(b, &k);
}

void conn_withdraw(struct pooled_conn *c)
{
    struct conn_backend *b = c->backend;
    struct conn_work k;

    if (b == NULL)
        return; /* the pool has closed it, or never had it */
    conn_lock(b, &k);
    ASSERT(c->state != POOLED_GONE);
    ASSERT(c->state != POOLED_HELD);
    ASSERT(c->state != POOLED_ARRIVING);
    conn_leave_locked(b, c, &k);
    c->backend = NULL;
    conn_unlock_and_do(b, &k);
    conn_backend_release(b);
}

void conn_retain_permission(struct pooled_conn *c)
{
    struct conn_backend *b = c->backend;

    latch_lock(&b->latch);
    ASSERT(c->state == POOLED_USED);
    (void)grant_open_locked(b); /* first, so that the place stays occupied */
    latch_unlock(&b->latch);
    conn_withdraw(c);
}

bool conn_in_use(struct pooled_conn *c)
{
    struct conn_backend *b = c->backend;

    if (b == NULL)
        return true;
    latch_lock(&b->latch);
    bool used = c->state == POOLED_USED;
    latch_unlock(&b->latch);
    return used;
}

/* ---- work on a loop, requested by another thread ---- */

/*
 * Work that was queued for one loop's part of a backend, perhaps by another thread: connections
 * that leave for another loop or are to be closed, connections that arrive, and waiters to be
 * notified. The lock is not held while a connection is detached or attached. Meanwhile its waiter
 * may cancel, the backend may be retired and its limit may be lowered, so all of this is checked
 * again afterwards. The connection itself is not used by others then (HELD).
 */

static void leave_locked(struct conn_shard *s, struct pooled_conn *c, struct conn_work *k)
{
    struct conn_backend *b = s->backend;
    const struct conn_pool_ops *ops = b->pool->ops;
    const struct conn_waiter *w = c->waiter;
    /* To its waiter; or to be parked, and checked when it is taken. */
    bool moves = !c->detached && !c->marked && !b->retired &&
                 (w != NULL ? !w->fresh : should_park_locked(b, c));
    bool check = moves && w != NULL;

    conn_enter_locked(b, c, POOLED_HELD, k);
    conn_unlock_and_do(b, k);
    bool usable = !check || ops->alive(c);
    bool moved = moves && usable && ops->detach(c);
    latch_lock(&b->latch);
    c->detached |= moved;
    if (c->detached || (usable && c->waiter == NULL)) /* or not needed on another loop any more */
        conn_supply_locked(b, c, k);
    else
        conn_drop_locked(b, c, k); /* its waiter may open one instead */
}

/* Attached even if it is not needed any more: only the loop that it is attached to can close it. */
static void arrive_locked(struct conn_shard *s, struct pooled_conn *c, struct conn_work *k)
{
    struct conn_backend *b = s->backend;

    conn_enter_locked(b, c, POOLED_HELD, k);
    conn_unlock_and_do(b, k);
    bool moved = b->pool->ops->attach(c, s->loop);
    latch_lock(&b->latch);
    c->detached = !moved;
    b->handed_over += moved;
    if (!moved || b->retired || c->marked)
        conn_drop_locked(b, c, k);
    else if (c->waiter != NULL)
        waiter_grant_locked(b, c->waiter, c, k);
    else
        conn_supply_locked(b, c, k);
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

    list_init(&ready);
    conn_lock(b, &k);
    while (!list_empty(&s->leaving) || !list_empty(&s->arriving)) {
        if (!list_empty(&s->leaving))
            leave_locked(s, list_first(&s->leaving, struct pooled_conn, stack_node), &k);
        else
            arrive_locked(s, list_first(&s->arriving, struct pooled_conn, stack_node), &k);
    }
    list_splice_back(&ready, &s->ready);
    s->posted = false;
    while (!list_empty(&ready)) {
        struct conn_waiter *w = list_first(&ready, struct conn_waiter, node);

        waiter_enter_locked(b, w, WAITER_NONE, &k);
        w->queued = false;
        if (w->result == CONN_REUSED) {
            struct pooled_conn *c = w->conn;
            (void)conn_unpair(c);
            w->conn = c;
            conn_enter_locked(b, c, POOLED_USED, &k);
            ++c->uses;
            ++b->reused;
        }
        conn_unlock_and_do(b, &k);
        w->ready(w); /* W may be gone after this; its result is final before */
        conn_backend_release(b);
        conn_lock(b, &k); /* work that this has caused is queued with another message */
    }
    conn_unlock_and_do(b, &k);
    conn_backend_release(b); /* the message's */
}
