/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection's use: taken, waited for, opened, given back, forgotten. Each function takes the
 * backend's latch, moves (conn_place.c), notes in a struct conn_work what needs a call, and does
 * that after unlocking. The hot pair, an idle connection of the same loop taken and given back, is
 * one lock and one list operation each.
 */
#include "common/upstream/conn_pool_internal.h"

static struct conn_shard *shard_of(struct conn_backend *b, struct loop *l)
{
    struct conn_shard *s = &b->shards[loop_index(l)];

    ASSERT(s->loop == l);
    return s;
}

static bool young_enough(const struct pooled_conn *c, const struct conn_checkout *o,
                         uint64_t now_ms)
{
    return o->max_idle_ms == 0 || c->idle_since_ms + o->max_idle_ms > now_ms;
}

/*
 * The latest idle connection of this loop that has rested, as it needs no look of its own; else the
 * latest; if it will do. Used from now on.
 */
static struct pooled_conn *take_own_locked(struct conn_backend *b, struct conn_shard *s,
                                           const struct conn_checkout *o, uint64_t now_ms,
                                           struct conn_work *k)
{
    if (o->fresh)
        return NULL;
    conn_rested_locked(s);
    struct pooled_conn *c = conn_latest_locked(s);
    if (c != NULL && !young_enough(c, o, now_ms) && !list_empty(&s->resting))
        c = list_first(&s->resting, struct pooled_conn, stack_node);
    if (c == NULL || !young_enough(c, o, now_ms))
        return NULL;
    conn_enter_locked(b, c, PLACE_USED, k);
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
    if (!young_enough(c, o, now_ms))
        return NULL;
    if (c->loop_index != loop_index(l))
        b->parks_left = CONN_PARKS;
    conn_enter_locked(b, c, PLACE_USED, k);
    c->loop_index = loop_index(l);
    ++b->handed_over;
    return c;
}

/* On its loop, or on the one that it is to be attached to. */
static bool is_usable(const struct conn_pool *p, struct pooled_conn *c, struct loop *l, bool sure)
{
    if (c->detached) {
        c->detached = !p->ops->attach(c, l);
        if (c->detached)
            return false;
    }
    return p->ops->alive(c, sure);
}

/* An idle connection of another loop, or a parked one: the one least likely to be dead, or the
 * oldest if it is to be closed. */
static struct pooled_conn *find_elsewhere_locked(struct conn_backend *b,
                                                 const struct conn_shard *own, bool oldest)
{
    struct pooled_conn *best = NULL;

    if (!list_empty(&b->parked))
        best = list_entry(oldest ? b->parked.prev : b->parked.next, struct pooled_conn, stack_node);
    /* None to be found on loops, mostly, when all are wanted; there may be many loops. */
    unsigned left = b->idle - b->nparked - own->nidle;
    for (unsigned i = 0; i < b->pool->nloops && left != 0; ++i) {
        const struct conn_shard *s = &b->shards[i];
        if (s == own)
            continue;
        left -= s->nidle;
        struct pooled_conn *c = oldest ? conn_oldest_locked(s) : conn_latest_locked(s);
        if (c == NULL)
            continue;
        if (best == NULL || (c->idle_since_ms < best->idle_since_ms) == oldest)
            best = c;
    }
    return best;
}

static enum conn_result refuse_locked(struct conn_backend *b, struct conn_waiter *w, enum err e)
{
    ++b->refused;
    w->error = e;
    return CONN_REFUSED;
}

static enum conn_result open_locked(struct conn_backend *b)
{
    ++b->opening;
    conn_backend_ref(b);
    return CONN_OPEN;
}

/* No idle connection of this loop will do. */
static noinline_ enum conn_result
open_or_wait_locked(struct conn_backend *b, struct conn_shard *own, const struct conn_checkout *o,
                    uint64_t now_ms, struct conn_waiter *w, struct conn_work *k)
{
    if (b->retired)
        return refuse_locked(b, w, ERR_NO_WORKER);
    if (conn_has_room_locked(b))
        return open_locked(b);
    struct pooled_conn *oldest = conn_oldest_of_locked(b, loop_index(own->loop));
    if (oldest != NULL) {
        /* Too old for this one, or it wants a fresh one: make room at once. */
        conn_drop_locked(b, oldest, k);
        ASSERT(conn_has_room_locked(b));
        return open_locked(b);
    }
    struct pooled_conn *c = find_elsewhere_locked(b, own, o->fresh);
    if (c == NULL && b->in_line >= b->settings.max_waiting)
        return refuse_locked(b, w, ERR_QUEUE_FULL);
    ++b->waits;
    conn_backend_ref(b);
    w->queued = true;
    w->fresh = o->fresh || (c != NULL && !young_enough(c, o, now_ms));
    if (c != NULL)
        b->parks_left = CONN_PARKS;
    if (c == NULL) {
        waiter_enter_locked(b, w, WAITER_IN_LINE, k);
        return CONN_WAIT;
    }
    conn_pair(c, w);
    waiter_enter_locked(b, w, WAITER_COMING, k);
    conn_enter_locked(b, c, PLACE_LEAVING, k);
    return CONN_WAIT;
}

enum conn_result conn_checkout(struct conn_backend *b, struct loop *l,
                               const struct conn_checkout *o, struct conn_waiter *w)
{
    struct conn_shard *s = shard_of(b, l);
    uint64_t now_ms = loop_now_ms(l);
    enum conn_result result = CONN_REUSED;
    struct pooled_conn *c;
    struct conn_work k;

    ASSERT(!w->queued);
    conn_work_init(&k);
    latch_lock(&b->latch);
    while ((c = take_own_locked(b, s, o, now_ms, &k)) != NULL ||
           (c = take_parked_locked(b, l, o, now_ms, &k)) != NULL) {
        ++b->reused;
        ++c->uses;
        latch_unlock(&b->latch);
        if (is_usable(b->pool, c, l, o->sure))
            break;
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
        w->conn = c; /* else W may be others' business already */
    conn_work_do(b->pool, &k);
    return result;
}

void conn_cancel(struct conn_waiter *w)
{
    bool permission = false;
    struct conn_work k;

    if (!w->queued)
        return;
    struct conn_backend *b = w->backend;
    w->queued = false;
    conn_work_init(&k);
    latch_lock(&b->latch);
    struct pooled_conn *c = w->conn;
    bool granted = w->state == WAITER_READY && w->result == CONN_REUSED;
    permission = w->state == WAITER_READY && w->result == CONN_OPEN;
    waiter_enter_locked(b, w, WAITER_NONE, &k);
    if (c != NULL)
        (void)conn_unpair(c); /* one in transit is handled where it arrives */
    if (granted)
        conn_settle_locked(b, c, &k);
    if (permission) {
        --b->opening;
        conn_serve_locked(b, &k);
    }
    conn_unlock_and_do(b, &k);
    if (permission)
        conn_backend_release(b);
    conn_backend_release(b);
}

void conn_opened(struct conn_backend *b, struct pooled_conn *c, struct loop *l)
{
    struct conn_work k;

    conn_work_init(&k);
    *c = (struct pooled_conn){
        .backend = b, .loop_index = loop_index(l), .uses = 1, .place = PLACE_GONE};
    list_init(&c->stack_node);
    latch_lock(&b->latch);
    ASSERT(b->opening != 0);
    --b->opening; /* its reference is the connection's now */
    ++b->opened;
    conn_enter_locked(b, c, PLACE_USED, &k);
    conn_unlock_and_do(b, &k);
}

void conn_not_opened(struct conn_backend *b)
{
    struct conn_work k;

    conn_work_init(&k);
    latch_lock(&b->latch);
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
    conn_work_init(&k);
    latch_lock(&b->latch);
    ASSERT(c->place == PLACE_USED);
    c->idle_since_ms = now_ms;
    /* Not detached here: the caller may have been called because of C, and may check C again. */
    if (conn_should_park_locked(b, c))
        conn_enter_locked(b, c, PLACE_LEAVING, &k);
    else
        conn_settle_locked(b, c, &k);
    conn_unlock_and_do(b, &k);
}

void conn_forget(struct pooled_conn *c)
{
    struct conn_backend *b = c->backend;
    struct conn_work k;

    if (b == NULL)
        return; /* the pool has closed it, or never had it */
    conn_work_init(&k);
    latch_lock(&b->latch);
    ASSERT(c->place != PLACE_GONE);
    ASSERT(c->place != PLACE_HELD);
    ASSERT(c->place != PLACE_ARRIVING);
    conn_leave_locked(b, c, &k);
    c->backend = NULL;
    conn_unlock_and_do(b, &k);
    conn_backend_release(b);
}

void conn_keep_place(struct pooled_conn *c)
{
    struct conn_backend *b = c->backend;
    struct conn_work k;

    conn_work_init(&k);
    latch_lock(&b->latch);
    ASSERT(c->place == PLACE_USED);
    ++b->opening; /* with the connection's reference; first, so that the place stays occupied */
    conn_leave_locked(b, c, &k);
    c->backend = NULL;
    conn_unlock_and_do(b, &k);
}

bool conn_in_use(struct pooled_conn *c)
{
    struct conn_backend *b = c->backend;

    if (b == NULL)
        return true;
    latch_lock(&b->latch);
    bool used = c->place == PLACE_USED;
    latch_unlock(&b->latch);
    return used;
}

/* ---- check ---- */

static unsigned count_places(const struct list *list, enum conn_place place, unsigned loop)
{
    unsigned n = 0;
    struct list *it;

    list_for_each (it, list) {
        const struct pooled_conn *c = list_entry(it, struct pooled_conn, stack_node);
        ASSERT(c->place == (int)place);
        ASSERT(c->loop_index == loop);
        ASSERT(c->waiter == NULL || c->waiter->conn == c);
        ++n;
    }
    return n;
}

static unsigned count_parked(const struct conn_backend *b)
{
    unsigned n = 0;
    struct list *it;

    list_for_each (it, &b->parked) {
        const struct pooled_conn *c = list_entry(it, struct pooled_conn, stack_node);
        ASSERT(c->place == PLACE_PARKED);
        ASSERT(c->detached);
        ASSERT(c->waiter == NULL);
        ASSERT(c->loop_index < b->pool->nloops);
        ++n;
    }
    return n;
}

static unsigned count_waiters(const struct list *list, enum waiter_state state)
{
    unsigned n = 0;
    struct list *it;

    list_for_each (it, list) {
        const struct conn_waiter *w = list_entry(it, struct conn_waiter, node);
        ASSERT(w->state == (int)state);
        if (state == WAITER_IN_LINE && it->next != list)
            ASSERT(w->ticket < list_entry(it->next, struct conn_waiter, node)->ticket);
        ++n;
    }
    return n;
}

static void check_backend_locked(struct conn_backend *b)
{
    unsigned idle = b->nparked;
    unsigned moving = 0;
    unsigned ready = 0;

    ASSERT(b->nparked == count_parked(b));
    for (unsigned i = 0; i < b->pool->nloops; ++i) {
        struct conn_shard *s = &b->shards[i];
        ASSERT(s->nidle ==
               count_places(&s->idle, PLACE_IDLE, i) + count_places(&s->resting, PLACE_IDLE, i));
        idle += s->nidle;
        moving += count_places(&s->leaving, PLACE_LEAVING, i);
        moving += count_places(&s->arriving, PLACE_ARRIVING, i);
        ready += count_waiters(&s->ready, WAITER_READY);
    }
    ASSERT(b->idle == idle);
    ASSERT(b->in_use >= moving);
    ASSERT(b->in_use >= b->marked);
    ASSERT(b->in_line == count_waiters(&b->line, WAITER_IN_LINE));
    ASSERT(b->waiting >= b->in_line + ready);
    if (b->in_line != 0) {
        ASSERT(!b->retired);
        ASSERT(!conn_has_room_locked(b));
        ASSERT(b->idle == 0);
    }
    if (b->retired)
        ASSERT(b->idle == 0);
}

void conn_pool_check(struct conn_pool *p)
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
