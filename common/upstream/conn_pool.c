/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool and its backends: creation, look-up, limits, retirement, release. The use of connections
 * is in conn_checkout.c.
 */
#include "common/base/text.h"
#include "common/upstream/conn_pool_internal.h"

#include <stdlib.h>

/* ---- pool ---- */

struct conn_pool *conn_pool_create(const struct conn_pool_ops *ops, struct loop *const *loops,
                                   unsigned nloops)
{
    struct conn_pool *p = xcalloc(1, sizeof(*p));

    ASSERT(nloops != 0);
    p->ops = ops;
    p->nloops = nloops;
    p->loops = xcalloc(nloops, sizeof(struct loop *));
    p->loop_closed = xcalloc(nloops, sizeof(*p->loop_closed));
    for (unsigned i = 0; i < nloops; ++i) {
        ASSERT(loop_index(loops[i]) == i);
        p->loops[i] = loops[i];
        atomic_init(&p->loop_closed[i], false);
    }
    list_init(&p->all);
    int failed = pthread_rwlock_init(&p->lock, NULL);
    ASSERT(failed == 0);
    return p;
}

void conn_pool_destroy(struct conn_pool *p)
{
    if (p == NULL)
        return;
    ASSERT(list_empty(&p->all));
    pthread_rwlock_destroy(&p->lock);
    free(p->loop_closed);
    free(p->loops);
    free(p);
}

void conn_pool_recycle(struct conn_pool *p, struct loop *l)
{
    bool all = atomic_load(&p->loop_closed[loop_index(l)]);
    uint64_t now_ms = loop_now_ms(l);
    struct pooled_conn *oldest;
    struct conn_backend *b;
    struct conn_work k;

    conn_work_init(&k);
    pthread_rwlock_rdlock(&p->lock);
    list_for_each_entry (b, &p->all, all_node) {
        latch_lock(&b->latch);
        uint64_t timeout_ms = b->settings.idle_timeout_ms;
        while ((oldest = conn_oldest_of_locked(b, loop_index(l))) != NULL) {
            if (!all && (timeout_ms == 0 || oldest->idle_since_ms + timeout_ms >= now_ms))
                break;
            conn_drop_locked(b, oldest, &k);
        }
        latch_unlock(&b->latch);
    }
    pthread_rwlock_unlock(&p->lock);
    conn_work_do(p, &k);
}

void conn_pool_close_loop(struct conn_pool *p, struct loop *l)
{
    atomic_store(&p->loop_closed[loop_index(l)], true);
    conn_pool_recycle(p, l);
}

bool conn_pool_make_room(struct conn_pool *p, struct loop *l)
{
    unsigned own = loop_index(l);
    struct pooled_conn *c = NULL;
    struct conn_backend *b;
    bool closed = false;
    struct conn_work k;

    conn_work_init(&k);
    pthread_rwlock_rdlock(&p->lock);
    for (unsigned i = 0; i < p->nloops && c == NULL; ++i) {
        unsigned index = (own + i) % p->nloops;
        struct conn_backend *longest = NULL; /* with what has been idle longest on that loop */
        uint64_t since_ms = UINT64_MAX;
        list_for_each_entry (b, &p->all, all_node) {
            latch_lock(&b->latch);
            const struct pooled_conn *oldest = conn_oldest_of_locked(b, index);
            if (oldest != NULL && oldest->idle_since_ms < since_ms) {
                longest = b;
                since_ms = oldest->idle_since_ms;
            }
            latch_unlock(&b->latch);
        }
        if (longest == NULL)
            continue;
        latch_lock(&longest->latch);
        c = conn_oldest_of_locked(longest, index);
        closed = c != NULL && index == own;
        if (closed)
            conn_drop_locked(longest, c, &k);
        else if (c != NULL)
            conn_mark_locked(longest, c, &k);
        latch_unlock(&longest->latch);
    }
    pthread_rwlock_unlock(&p->lock);
    conn_work_do(p, &k);
    return closed;
}

/* ---- backends ---- */

bool conn_is_restricted(const struct conn_backend *b, uint64_t now_ms)
{
    return now_ms < atomic_load_explicit(&b->restricted_until_ms, memory_order_relaxed);
}

void conn_restrict(struct conn_backend *b, uint64_t now_ms)
{
    atomic_store_explicit(&b->restricted_until_ms, now_ms + CONN_RESTRICTED_MS,
                          memory_order_relaxed);
}

void conn_ended_idle(const struct pooled_conn *c, uint64_t now_ms)
{
    if (c->backend != NULL && c->uses == 1 && now_ms < c->idle_since_ms + CONN_EARLY_MS)
        conn_restrict(c->backend, now_ms);
}

static struct conn_backend *create_backend(struct conn_pool *p)
{
    struct conn_backend *b = xcalloc_lines(1, sizeof(*b) + p->nloops * sizeof(b->shards[0]));

    b->pool = p;
    atomic_init(&b->refs, 1);
    list_init(&b->parked);
    list_init(&b->queue);
    for (unsigned i = 0; i < p->nloops; ++i) {
        struct conn_shard *shard = &b->shards[i];
        shard->backend = b;
        shard->loop = p->loops[i];
        shard->message.run = conn_shard_on_message;
        list_init(&shard->idle);
        list_init(&shard->returned);
        list_init(&shard->leaving);
        list_init(&shard->arriving);
        list_init(&shard->ready);
    }
    return b;
}

struct conn_backend *conn_backend_ref(struct conn_backend *b)
{
    unsigned before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);

    ASSERT(before != 0);
    return b;
}

void conn_backend_release(struct conn_backend *b)
{
    if (b == NULL)
        return;
    unsigned before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
    ASSERT(before != 0);
    if (before != 1)
        return;
    struct conn_pool *p = b->pool;

    pthread_rwlock_wrlock(&p->lock);
    if (b->in_map)
        map_remove(&p->backends, &b->in_backends);
    list_remove(&b->all_node);
    pthread_rwlock_unlock(&p->lock);
    ASSERT(b->in_use == 0);
    ASSERT(b->idle == 0);
    ASSERT(b->opening == 0);
    ASSERT(b->waiting == 0);
    free(b->key);
    free(b);
}

struct conn_backend *conn_pool_backend(struct conn_pool *p, struct slice address,
                                       struct slice instance, unsigned max_connections,
                                       const struct conn_pool_settings *s)
{
    struct text key = {0};

    /* The length distinguishes "a#b" + "c" from "a" + "b#c". */
    text_addf(&key, "%zu ", address.len);
    text_add(&key, address);
    text_add_char(&key, '#');
    text_add(&key, instance);
    pthread_rwlock_wrlock(&p->lock);
    struct conn_backend *b =
        map_entry(map_find(&p->backends, key.p, key.len), struct conn_backend, in_backends);
    unsigned refs = b != NULL ? atomic_load(&b->refs) : 0;
    while (refs != 0 && !atomic_compare_exchange_weak(&b->refs, &refs, refs + 1))
        continue;
    if (b != NULL && refs == 0) {
        /* Its last reference was released, and the releasing thread waits for our lock. */
        map_remove(&p->backends, &b->in_backends);
        b->in_map = false;
        b = NULL;
    }
    if (b == NULL) {
        b = create_backend(p);
        b->key = xslicedup(text_slice(&key));
        b->in_map = true;
        map_add(&p->backends, &b->in_backends, b->key, key.len);
        list_push_back(&p->all, &b->all_node);
    }
    pthread_rwlock_unlock(&p->lock);
    text_fini(&key);
    conn_backend_set(b, max_connections, s);
    return b;
}

/* Marks N idle connections for closing, the oldest of each loop first. */
static void mark_idle_locked(struct conn_backend *b, unsigned n, struct conn_work *k)
{
    while (n != 0 && b->idle != 0) {
        for (unsigned i = 0; i < b->pool->nloops && n != 0; ++i) {
            struct pooled_conn *oldest = conn_oldest_of_locked(b, i);
            if (oldest == NULL)
                continue;
            conn_mark_locked(b, oldest, k);
            --n;
        }
    }
}

void conn_backend_set(struct conn_backend *b, unsigned max_connections,
                      const struct conn_pool_settings *s)
{
    struct conn_work k;

    conn_lock(b, &k);
    b->settings = *s;
    b->max_connections = max_connections;
    unsigned total = b->in_use + b->idle + b->opening - b->marked;
    if (max_connections != 0 && total > max_connections)
        mark_idle_locked(b, total - max_connections, &k);
    conn_serve_locked(b, &k);
    conn_unlock_and_do(b, &k);
}

/* The waiters that the connections of LIST were in transit to are rejected. */
static void reject_waiters_of_locked(struct conn_backend *b, struct list *list, struct conn_work *k)
{
    struct pooled_conn *c;

    list_for_each_entry (c, list, stack_node) {
        struct conn_waiter *w = conn_unpair(c);
        if (w != NULL)
            waiter_reject_locked(b, w, ERR_NO_WORKER, k);
    }
}

void conn_backend_retire(struct conn_backend *b)
{
    struct conn_pool *p = b->pool;
    struct conn_work k;

    conn_work_init(&k);
    pthread_rwlock_wrlock(&p->lock);
    if (b->in_map)
        map_remove(&p->backends, &b->in_backends);
    b->in_map = false;
    pthread_rwlock_unlock(&p->lock);

    latch_lock(&b->latch);
    b->retired = true;
    while (!list_empty(&b->queue))
        waiter_reject_locked(b, list_first(&b->queue, struct conn_waiter, node), ERR_NO_WORKER, &k);
    for (unsigned i = 0; i < p->nloops; ++i) {
        reject_waiters_of_locked(b, &b->shards[i].leaving, &k);
        reject_waiters_of_locked(b, &b->shards[i].arriving, &k);
    }
    mark_idle_locked(b, b->idle, &k);
    conn_unlock_and_do(b, &k);
}

void conn_backend_view(struct conn_backend *b, struct conn_backend_view *out)
{
    latch_lock(&b->latch);
    *out = (struct conn_backend_view){
        .in_use = b->in_use,
        .idle = b->idle,
        .parked = b->nparked,
        .opening = b->opening,
        .waiting = b->waiting,
        .max_connections = b->max_connections,
        .reused = b->reused,
        .opened = b->opened,
        .handed_over = b->handed_over,
        .waits = b->waits,
        .rejected = b->rejected,
    };
    latch_unlock(&b->latch);
}
