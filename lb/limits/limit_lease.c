/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock is granted under its counter's mutex, by the thread that released one. There the lease is
 * marked as having a message in flight, so that its owner, which checks this under the same mutex,
 * retains the lease until the message has arrived. The message is posted after the mutex is
 * released.
 */
#include "lb/limits/limit_lease.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "lb/limits/response_store.h"

enum { US_PER_MS = 1000 };

static void lease_count(_Atomic uint64_t *figure)
{
    atomic_fetch_add_explicit(figure, 1, memory_order_relaxed);
}

/* ---- under the counter's mutex ---- */

/* Empties WOKEN. The result must be posted without the mutex; leases are not freed before. */
static struct limit_lease *mark_locked(struct list *woken)
{
    struct limit_lease *first = NULL;
    struct limit_lease **end = &first;
    struct limit_lease *c;

    while ((c = list_pop_entry(woken, struct limit_lease, lease.in_key)) != NULL) {
        ASSERT(!c->posted);
        c->posted = true;
        c->next_reported = NULL;
        *end = c;
        end = &c->next_reported;
    }
    return first;
}

/* In order. A lease may be freed as soon as it is posted. */
static void post_reported(struct limit_lease *c)
{
    while (c != NULL) {
        struct limit_lease *next = c->next_reported;

        loop_post(c->loop, &c->message);
        c = next;
    }
}

static void count_wait_locked(struct limit_lease *c, uint64_t now_us)
{
    uint64_t waited_us = now_us > c->since_us ? now_us - c->since_us : 0;

    c->waited_us += waited_us;
    topk_add(c->counter->top, c->key, waited_us);
}

/* The table that LEASE is in, if it is in one. */
static struct counter_table *table_of(const struct limit_lease *c)
{
    return c->coalescing ? c->counter->coalescing : c->counter->table;
}

static enum counter_result acquire_lock(struct limit_lease *c, const struct counter_request *ask)
{
    pthread_mutex_lock(&c->counter->lock);
    c->since_us = clock_mono_us();
    enum counter_result a = counter_acquire(table_of(c), &c->lease, ask, c->since_us);
    pthread_mutex_unlock(&c->counter->lock);
    if (a == COUNTER_WAIT)
        timer_start(c->loop, &c->timer, ask->timeout_ms);
    return a == COUNTER_NO_ROOM ? COUNTER_QUEUE_FULL : a;
}

void limit_counter_set(struct limit_counter *c, struct counter_limits limits)
{
    struct list woken = LIST_INIT(woken);
    enum err e = ERR_OK;

    pthread_mutex_lock(&c->lock);
    /* A table has one type, or none: there is room. */
    if (c->limits.workers != limits.workers || c->limits.slots != limits.slots)
        e = counter_set_limits(c->table, slice_of(c->name), limits, clock_mono_us(), &woken);
    ASSERT(e == ERR_OK);
    c->limits = limits;
    struct limit_lease *marked = mark_locked(&woken);
    pthread_mutex_unlock(&c->lock);
    post_reported(marked);
}

/* ---- asking ---- */

/* By the settings of the limit. */
static struct counter_request ask_of(const struct limit_lease *c, bool wait)
{
    const struct limit_settings *s = &c->limit->s;
    uint64_t now_us = wait ? clock_mono_us() : c->due_us;
    uint64_t left_us = now_us < c->due_us ? c->due_us - now_us : 0;

    return (struct counter_request){.key = c->key,
                                    .type = slice_of(c->counter->name),
                                    .kind = c->kind,
                                    .workers = (uint32_t)s->workers,
                                    .maxqueue = (uint32_t)s->maxqueue,
                                    .slots = (uint32_t)s->slots,
                                    .timeout_ms = (left_us + US_PER_MS - 1) / US_PER_MS};
}

/*
 * The effective limits are the counter's own (limit_counter_set): a change applies at once, also to
 * waiting requests. A shadow's counter does not have limits.
 */
static enum counter_result ask_table(struct limit_lease *c, bool wait)
{
    struct counter_request ask = ask_of(c, wait);

    if (!c->limit->s.shadow) {
        ask.workers = UINT32_MAX;
        ask.slots = 0;
    }
    return acquire_lock(c, &ask);
}

static enum counter_result ask_daemon(struct limit_lease *c, bool wait)
{
    struct counter_request ask = ask_of(c, wait);

    if (c->client == NULL)
        return COUNTER_UNREACHABLE;
    c->since_us = clock_mono_us();
    lease_count(&c->counter->figures.daemon_waiting);
    pool_counter_client_acquire(c->client, &c->call, &ask);
    return COUNTER_WAIT;
}

/* The daemon knows one request per key only: `maxqueue` of those that wait for it applies here. */
static enum counter_result ask_coalescing(struct limit_lease *c, bool wait)
{
    struct counter_request ask = ask_of(c, wait);

    ask.type = SLICE_NULL;
    ask.workers = 1; /* of the requests for a key, one asks the daemon at a time */
    ask.slots = 0;
    c->coalescing = true;
    enum counter_result a = acquire_lock(c, &ask);
    c->coalescing = a == COUNTER_LOCKED || a == COUNTER_WAIT;
    return a == COUNTER_LOCKED ? ask_daemon(c, wait) : a;
}

/* Counts what the limits would have done, and joins in any case. */
static enum counter_result ask_shadow(struct limit_lease *c)
{
    struct counter_request any = ask_of(c, false);
    struct limit_figures *f = &c->counter->figures;
    enum counter_result a = ask_table(c, false);

    if (a == COUNTER_LOCKED)
        return a;
    lease_count(a == COUNTER_QUEUE_FULL ? &f->shadow_full : &f->shadow_busy);
    any.kind = COUNTER_ME;
    any.workers = any.maxqueue = UINT32_MAX;
    any.slots = 0;
    (void)acquire_lock(c, &any);
    return COUNTER_LOCKED;
}

enum counter_result limit_lease_acquire(struct limit_lease *c, bool wait)
{
    const struct limit_settings *s = &c->limit->s;

    if (c->begun_us == 0) {
        c->begun_us = clock_mono_us();
        c->due_us = c->begun_us + s->timeout_ms * US_PER_MS;
    }
    if (s->where == LIMIT_LOCAL)
        return s->shadow ? ask_shadow(c) : ask_table(c, wait);
    if (c->kind == COUNTER_ANY && !s->shadow && !c->coalescing)
        return ask_coalescing(c, wait);
    return ask_daemon(c, wait && !s->shadow);
}

enum counter_result limit_lease_again(struct limit_lease *c, bool any)
{
    ASSERT(c->call.state == POOL_COUNTER_CALL_FREE);
    /* With DONE from the daemon the lock for coalescing is held. */
    if (any && !c->coalescing && c->rounds < RESPONSE_STORE_VARIANTS_MAX) {
        ++c->rounds;
        return limit_lease_acquire(c, true);
    }
    c->kind = COUNTER_ME;
    return c->limit->s.where == LIMIT_LOCAL ? ask_table(c, true) : ask_daemon(c, true);
}

/* ---- notifications ---- */

static void on_lease_message(struct loop_message *m)
{
    struct limit_lease *c = container_of(m, struct limit_lease, message);

    if (c->owner == NULL) {
        free(c);
        return;
    }
    timer_stop(&c->timer);
    pthread_mutex_lock(&c->counter->lock);
    c->posted = false;
    enum counter_result r = c->lease.woken;
    count_wait_locked(c, clock_mono_us());
    pthread_mutex_unlock(&c->counter->lock);
    if (c->coalescing && r == COUNTER_LOCKED)
        r = ask_daemon(c, true);
    else if (c->coalescing)
        c->coalescing = false;
    if (r != COUNTER_WAIT)
        c->on_result(c, r);
}

static void on_lease_timeout(struct timer *t)
{
    struct limit_lease *c = container_of(t, struct limit_lease, timer);

    pthread_mutex_lock(&c->counter->lock);
    uint64_t now_us = clock_mono_us();
    bool expired = c->lease.state == COUNTER_WAITING;
    if (expired) {
        count_wait_locked(c, now_us);
        counter_expire(table_of(c), &c->lease, now_us);
    }
    pthread_mutex_unlock(&c->counter->lock);
    /* Otherwise it was granted at the same moment, and the message is in flight. */
    if (expired)
        c->on_result(c, COUNTER_TIMEOUT);
}

static void on_responded(struct pool_counter_call *call, enum counter_result r)
{
    struct limit_lease *c = container_of(call, struct limit_lease, call);
    struct limit_figures *f = &c->counter->figures;

    pthread_mutex_lock(&c->counter->lock);
    count_wait_locked(c, clock_mono_us());
    pthread_mutex_unlock(&c->counter->lock);
    atomic_fetch_sub_explicit(&f->daemon_waiting, 1, memory_order_relaxed);
    if (r == COUNTER_LOCKED) {
        lease_count(&f->daemon_held);
        lease_count(&f->daemon_acquired);
        c->on_result(c, COUNTER_LOCKED);
        return;
    }
    /* The limits of a shadow limit do not reject requests. */
    if (c->limit->s.shadow) {
        if (r == COUNTER_QUEUE_FULL)
            lease_count(&f->shadow_full);
        else if (r == COUNTER_TIMEOUT)
            lease_count(&f->shadow_busy);
        r = r == COUNTER_UNREACHABLE || r == COUNTER_NO_ROOM ? COUNTER_UNREACHABLE : COUNTER_LOCKED;
    }
    c->on_result(c, r);
}

static void on_lost(struct pool_counter_call *call)
{
    struct limit_lease *c = container_of(call, struct limit_lease, call);

    /* The request continues: it began under the limit, and cannot be stopped. */
    lease_count(&c->counter->figures.daemon_lost);
}

/* ---- making and ending ---- */

struct limit_lease *limit_lease_create(const struct limit *limit, struct slice key,
                                       enum counter_kind kind, struct loop *l,
                                       struct pool_counter_client *client)
{
    struct limit_lease *c = xmalloc(sizeof(*c));

    ASSERT(key.len <= LIMIT_KEY_MAX);
    /* The room needs no zeros. */
    memset(c, 0, offsetof(struct limit_lease, room));
    c->limit = limit;
    c->counter = limit_counter_ref(limit->counter);
    c->kind = kind;
    c->loop = l;
    c->client = client;
    memcpy(c->room, key.p, key.len);
    c->key = (struct slice){c->room, key.len};
    c->message.run = on_lease_message;
    c->call.responded = on_responded;
    c->call.lost = on_lost;
    timer_init(&c->timer, on_lease_timeout);
    return c;
}

void limit_lease_release(struct limit_lease *c, bool done)
{
    struct limit_counter *counter = c->counter;
    bool held = c->call.state == POOL_COUNTER_CALL_HELD || c->call.state == POOL_COUNTER_CALL_LOST;
    struct list woken = LIST_INIT(woken);

    timer_stop(&c->timer);
    /* First at the daemon, before the next request for the key asks it. */
    if (c->call.state != POOL_COUNTER_CALL_FREE) {
        if (held && done)
            pool_counter_client_release(&c->call);
        else
            pool_counter_client_leave(&c->call);
        if (!held) {
            lease_count(&counter->figures.abandoned);
            pthread_mutex_lock(&counter->lock);
            count_wait_locked(c, clock_mono_us());
            pthread_mutex_unlock(&counter->lock);
        }
        atomic_fetch_sub_explicit(held ? &counter->figures.daemon_held
                                       : &counter->figures.daemon_waiting,
                                  1, memory_order_relaxed);
    }
    pthread_mutex_lock(&counter->lock);
    uint64_t now_us = clock_mono_us();
    if (c->lease.state == COUNTER_WAITING) {
        count_wait_locked(c, now_us);
        counter_leave(table_of(c), &c->lease, now_us, &woken);
        lease_count(&counter->figures.abandoned);
    } else if (c->lease.state == COUNTER_HELD) {
        if (done && c->lease.kind == COUNTER_ANY)
            counter_release(table_of(c), &c->lease, now_us, &woken);
        else
            counter_leave(table_of(c), &c->lease, now_us, &woken);
    }
    bool posted = c->posted;
    struct limit_lease *marked = mark_locked(&woken);
    pthread_mutex_unlock(&counter->lock);
    post_reported(marked);
    if (posted)
        c->owner = NULL; /* on_lease_message frees it */
    else
        free(c);
    limit_counter_unref(counter);
}
