/* SPDX-License-Identifier: Apache-2.0
 *
 * A waiter is in its key's queue. If its key has a type, it is also either in the type's line (it
 * only waits for a slot) or among the type's blocked waiters (its key was full when that was last
 * checked). A key's two queues are rings without a head, because most keys have no waiter and a key
 * should be small.
 *
 * Two invariants hold between any two calls; counter_check of the tests asserts them.
 *
 *   (1) A waiter with room at its key is in the line.
 *   (2) No waiter has room by both its key and its type.
 *
 * "Room" means held < workers for a key and held < slots for a type, each with the smaller of the
 * waiter's own limit and the type's limit. They hold although the line is not updated when a key
 * fills up:
 *
 * - The number held of a key falls only if a holder leaves and no waiter of the key takes its
 *   place. That happens (a) if the key has no waiter, (b) if the type's own `slots` forbid it, or
 *   (c) if the type's own `workers` forbid it. In case (a), (1) applies to no waiter. In case (c),
 *   the key still holds as many as the limit, so it has no room. In case (b), some waiters may have
 *   gained room at the key: the key's queues are scanned, and these waiters are inserted into the
 *   line by order. Therefore a waiter that reaches the head of the line while its key is full can
 *   be unlinked and not checked again: as long as it waits, its key holds no less, except in case
 *   (b). This does not depend on its neighbors' `workers`, because the key's holders hand over to
 *   the key's next waiter without checking the `workers` of that one. It also applies to a key
 *   without holders: such a key has room for every waiter (`workers` are at least 1), so all its
 *   waiters have always had room, or gained it in case (b), and are in the line.
 * - The number held of a type falls only if a leaver's place is not taken. Either the type's own
 *   `slots` forbid that: then there is still no free slot. Or no waiter in its line has room at its
 *   key, so by (1) no waiter of the type has: (2) holds by the keys alone.
 * - counter_set_limits changes what room is; it sorts all the type's waiters again.
 *
 * The project's allocator aborts if out of memory. Keys and types are created by requests of
 * untrusted clients, and are the most numerous objects in the process: here an allocation may fail,
 * and the failure is reported to the requester.
 */
#include "common/counters/counter_internal.h"

#include <stdlib.h>

static const uint64_t ORDER_MASK = (UINT64_C(1) << 56) - 1;

_Static_assert(sizeof(struct counter_lease) == 64, "a lease is one line of the cache");

/* The clock is monotonic; if it were not, a sum should not leap by 2^64. */
static uint64_t elapsed_us(uint64_t since_us, uint64_t now_us)
{
    return now_us > since_us ? now_us - since_us : 0;
}

/* ---- creation and removal of keys and types ---- */

static struct counter_type *find_type(const struct counter_table *t, struct slice name)
{
    if (name.len == 0)
        return NULL;
    return counter_type_at(split_map_find(&t->types, name));
}

/* NULL: out of memory, or the name is too long. */
static struct counter_type *make_type(struct counter_table *t, struct slice name)
{
    struct counter_type *type = NULL;

    if (name.len <= COUNTER_NAME_MAX)
        type = malloc(sizeof(*type) + name.len);
    if (type == NULL)
        return NULL;
    *type = (struct counter_type){0};
    list_init(&type->line);
    list_init(&type->blocked);
    memcpy(type->name, name.p, name.len);
    if (!split_map_add(&t->types, &type->node, name.len)) {
        free(type);
        return NULL;
    }
    return type;
}

static void drop_type_if_unused(struct counter_table *t, struct counter_type *type)
{
    if (type->keys != 0 || counter_is_limited(type->limits))
        return;
    ASSERT(type->held == 0);
    ASSERT(list_empty(&type->line));
    ASSERT(list_empty(&type->blocked));
    split_map_remove(&t->types, &type->node);
    free(type);
}

/* TYPE: the type of ASK; NULL: it does not exist yet, or ASK has none. Returns NULL if no room. */
static struct counter_key *counter_make_key(struct counter_table *t,
                                            const struct counter_request *ask,
                                            struct counter_type *type)
{
    struct counter_key *key = NULL;

    if (split_map_count(&t->keys) < t->max_keys && ask->key.len <= COUNTER_NAME_MAX)
        key = malloc(sizeof(*key) + ask->key.len);
    if (key == NULL)
        return NULL;
    if (type == NULL && ask->type.len != 0) {
        type = make_type(t, ask->type);
        if (type == NULL) {
            free(key);
            return NULL;
        }
    }
    *key = (struct counter_key){.type = type};
    if (ask->key.len != 0)
        memcpy(key->name, ask->key.p, ask->key.len);
    if (!split_map_add(&t->keys, &key->node, ask->key.len)) {
        free(key);
        if (type != NULL)
            drop_type_if_unused(t, type);
        return NULL;
    }
    if (type != NULL)
        ++type->keys;
    ++t->stats.keys;
    return key;
}

static void drop_key_if_unused(struct counter_table *t, struct counter_key *key)
{
    struct counter_type *type = key->type;

    if (key->held != 0 || key->waiting != 0)
        return;
    split_map_remove(&t->keys, &key->node);
    free(key);
    --t->stats.keys;
    if (type == NULL)
        return;
    --type->keys;
    drop_type_if_unused(t, type);
}

/* ---- a lease's changes of state: the only places where one is linked and counted ---- */

static void counter_hold(struct counter_table *t, struct counter_lease *lease,
                         struct counter_key *key, uint64_t now_us)
{
    lease->state = COUNTER_HELD;
    lease->key = key;
    lease->since_us = now_us;
    list_push_back(&t->holders, &lease->in_type);
    ++key->held;
    if (key->type != NULL)
        ++key->type->held;
    ++t->stats.held;
    ++t->stats.acquired;
}

static void stop_holding(struct counter_table *t, struct counter_lease *lease, uint64_t now_us)
{
    list_remove(&lease->in_type);
    list_remove(&lease->in_key); /* a WOKEN list that has not been read */
    --lease->key->held;
    if (lease->key->type != NULL)
        --lease->key->type->held;
    --t->stats.held;
    ++t->stats.processed;
    t->stats.processing_us += elapsed_us(lease->since_us, now_us);
    lease->state = COUNTER_FREE;
    lease->key = NULL;
}

/* Links LEASE into TYPE's line, before AT, if its key has room; else into the blocked waiters. */
static void file_under_type(struct counter_type *type, struct counter_lease *lease, struct list *at)
{
    lease->in_line = counter_has_key_room(lease);
    list_insert_before(lease->in_line ? at : &type->blocked, &lease->in_type);
}

static void start_waiting(struct counter_table *t, struct counter_lease *lease,
                          struct counter_key *key, uint64_t now_us)
{
    struct counter_lease **first = &key->queue[lease->kind];

    lease->state = COUNTER_WAITING;
    lease->key = key;
    lease->since_us = now_us;
    lease->order = ++t->order & ORDER_MASK; /* at 1e6 waiters a second it wraps in 2,000 years */
    list_init(&lease->in_key);
    if (*first == NULL)
        *first = lease;
    else
        list_push_back(&(*first)->in_key, &lease->in_key);
    if (key->type != NULL)
        file_under_type(key->type, lease, &key->type->line);
    ++key->waiting;
    ++t->stats.waiting;
}

static void counter_stop_waiting(struct counter_table *t, struct counter_lease *lease)
{
    struct counter_key *key = lease->key;
    struct counter_lease **first = &key->queue[lease->kind];

    ASSERT(key != NULL);
    if (*first == lease)
        *first = list_linked(&lease->in_key)
                     ? list_first(&lease->in_key, struct counter_lease, in_key)
                     : NULL;
    list_remove(&lease->in_key);
    list_remove(&lease->in_type);
    lease->in_line = false;
    --key->waiting;
    --t->stats.waiting;
    lease->state = COUNTER_FREE;
    lease->key = NULL;
}

/* LEASE's wait ends with RESULT, LOCKED or DONE; *WAITED_US is the sum of such waits. */
static void wake_lock(struct counter_table *t, struct counter_lease *lease,
                      enum counter_result result, uint64_t *waited_us, uint64_t now_us,
                      struct list *woken)
{
    *waited_us += elapsed_us(lease->since_us, now_us);
    counter_stop_waiting(t, lease);
    lease->woken = result == COUNTER_DONE ? COUNTER_DONE : COUNTER_LOCKED;
    list_push_back(woken, &lease->in_key);
}

static void wake_locked(struct counter_table *t, struct counter_lease *lease, uint64_t now_us,
                        struct list *woken)
{
    struct counter_key *key = lease->key;

    wake_lock(t, lease, COUNTER_LOCKED,
              lease->kind == COUNTER_ME ? &t->stats.waited_me_us : &t->stats.waited_any_us, now_us,
              woken);
    counter_hold(t, lease, key, now_us);
}

/* ---- succession ---- */

/* Case (b): inserts the waiters of one queue that have gained room at their key into the line. */
static void put_in_line(struct counter_type *type, struct counter_lease *first)
{
    struct counter_lease *lease = first;
    struct list *at = type->line.next;

    if (first == NULL)
        return;
    do {
        if (!lease->in_line && counter_has_key_room(lease)) {
            while (at != &type->line &&
                   list_entry(at, struct counter_lease, in_type)->order < lease->order)
                at = at->next;
            list_remove(&lease->in_type);
            file_under_type(type, lease, at);
        }
        lease = list_first(&lease->in_key, struct counter_lease, in_key);
    } while (lease != first);
}

/* A holder of KEY has left. Its place goes to the next waiter of KEY: of kind ME, else ANY. */
static void hand_over(struct counter_table *t, struct counter_key *key, uint64_t now_us,
                      struct list *woken)
{
    struct counter_type *type = key->type;
    struct counter_lease *next =
        key->queue[COUNTER_ME] != NULL ? key->queue[COUNTER_ME] : key->queue[COUNTER_ANY];

    if (!counter_type_has_room(type, 0)) {
        for (int kind = 0; kind < COUNTER_KINDS; ++kind)
            put_in_line(type, key->queue[kind]);
    } else if (next != NULL && (type == NULL || counter_below(key->held, type->limits.workers))) {
        wake_locked(t, next, now_us, woken);
    } else if (type != NULL) {
        /* To the oldest waiter of the type with room at its key. */
        while ((next = list_pop_entry(&type->line, struct counter_lease, in_type)) != NULL &&
               !counter_has_key_room(next)) {
            next->in_line = false;
            list_push_back(&type->blocked, &next->in_type);
        }
        if (next != NULL)
            wake_locked(t, next, now_us, woken);
    }
}

/* ---- the calls ---- */

struct counter_table *counter_table_create(size_t max_keys, size_t max_waiters)
{
    struct counter_table *t = malloc(sizeof(*t));

    ASSERT(max_keys >= 1);
    ASSERT(max_waiters >= 1);
    if (t == NULL)
        return NULL;
    *t = (struct counter_table){.max_keys = max_keys, .max_waiters = max_waiters};
    split_map_init(&t->keys,
                   offsetof(struct counter_key, name) - offsetof(struct counter_key, node));
    split_map_init(&t->types,
                   offsetof(struct counter_type, name) - offsetof(struct counter_type, node));
    list_init(&t->holders);
    return t;
}

void counter_table_destroy(struct counter_table *t)
{
    if (t == NULL)
        return;
    ASSERT(split_map_count(&t->keys) == 0);
    for (struct counter_type *type;
         (type = counter_type_at(split_map_next(&t->types, NULL))) != NULL;) {
        type->limits = (struct counter_limits){0};
        drop_type_if_unused(t, type);
    }
    split_map_fini(&t->keys);
    split_map_fini(&t->types);
    free(t);
}

struct slice counter_type_of(struct slice key)
{
    const char *colon = key.len != 0 ? memchr(key.p, ':', key.len) : NULL;

    if (colon != NULL)
        key.len = (size_t)(colon - key.p);
    return key;
}

static enum counter_result count_outcome(uint64_t *count, enum counter_result result)
{
    ++*count;
    return result;
}

enum counter_result counter_acquire(struct counter_table *t, struct counter_lease *lease,
                                    const struct counter_request *ask, uint64_t now_us)
{
    struct counter_key *key = counter_key_at(split_map_find(&t->keys, ask->key));
    struct counter_type *type = key != NULL ? key->type : find_type(t, ask->type);

    ASSERT(lease->state == COUNTER_FREE);
    ASSERT(!list_linked(&lease->in_key));
    ASSERT(ask->workers >= 1);
    ASSERT(ask->maxqueue >= 1);
    if (key != NULL && (uint64_t)key->held + key->waiting >= ask->maxqueue)
        return count_outcome(&t->stats.full, COUNTER_QUEUE_FULL);
    bool room =
        counter_key_has_room(key, type, ask->workers) && counter_type_has_room(type, ask->slots);
    if (!room && ask->timeout_ms == 0)
        return count_outcome(&t->stats.timeouts_at_once, COUNTER_TIMEOUT);
    if (!room && t->stats.waiting >= t->max_waiters)
        return count_outcome(&t->stats.no_room, COUNTER_NO_ROOM);
    if (key == NULL)
        key = counter_make_key(t, ask, type);
    if (key == NULL)
        return count_outcome(&t->stats.no_room, COUNTER_NO_ROOM);
    lease->kind = ask->kind == COUNTER_ANY;
    lease->workers = ask->workers;
    lease->slots = ask->slots;
    if (room)
        counter_hold(t, lease, key, now_us);
    else
        start_waiting(t, lease, key, now_us);
    return room ? COUNTER_LOCKED : COUNTER_WAIT;
}

/* Ends LEASE. DONE: the work is done, so the key's waits of kind ANY end as well. */
static void counter_end(struct counter_table *t, struct counter_lease *lease, bool done,
                        uint64_t now_us, struct list *woken)
{
    struct counter_key *key = lease->key;
    bool held = lease->state == COUNTER_HELD;
    uint64_t held_us = held ? elapsed_us(lease->since_us, now_us) : 0;

    ASSERT(lease->state != COUNTER_FREE);
    if (held) {
        stop_holding(t, lease, now_us);
    } else {
        counter_stop_waiting(t, lease);
        ++t->stats.given_up;
    }
    while (done && key->queue[COUNTER_ANY] != NULL) {
        t->stats.gained_us += held_us;
        ++t->stats.done;
        wake_lock(t, key->queue[COUNTER_ANY], COUNTER_DONE, &t->stats.waited_good_us, now_us,
                  woken);
    }
    if (held)
        hand_over(t, key, now_us, woken);
    drop_key_if_unused(t, key);
}

void counter_release(struct counter_table *t, struct counter_lease *lease, uint64_t now_us,
                     struct list *woken)
{
    ++t->stats.released;
    counter_end(t, lease, true, now_us, woken);
}

void counter_leave(struct counter_table *t, struct counter_lease *lease, uint64_t now_us,
                   struct list *woken)
{
    counter_end(t, lease, false, now_us, woken);
}

void counter_expire(struct counter_table *t, struct counter_lease *lease, uint64_t now_us)
{
    struct counter_key *key = lease->key;

    ASSERT(lease->state == COUNTER_WAITING);
    counter_stop_waiting(t, lease);
    ++t->stats.timeouts;
    t->stats.wasted_us += elapsed_us(lease->since_us, now_us);
    drop_key_if_unused(t, key);
}

const struct counter_stats *counter_stats(const struct counter_table *t)
{
    return &t->stats;
}

const struct counter_lease *counter_oldest(const struct counter_table *t)
{
    if (list_empty(&t->holders))
        return NULL;
    return list_first(&t->holders, struct counter_lease, in_type);
}

struct slice counter_key_of(const struct counter_lease *lease)
{
    return (struct slice){lease->key->name, lease->key->node.len};
}

/* ---- a type's own limits ---- */

static int compare_orders(const void *a, const void *b)
{
    const struct counter_lease *x = *(struct counter_lease *const *)a;
    const struct counter_lease *y = *(struct counter_lease *const *)b;

    return compare_u64(x->order, y->order);
}

/* Wakes the waiters that have room under the current limits, oldest first; files the others again.
 */
static void judge_all(struct counter_table *t, struct counter_type *type, uint64_t now_us,
                      struct list *woken)
{
    struct counter_lease **waiters =
        xmalloc((t->stats.waiting + 1) * sizeof(struct counter_lease *));
    struct counter_lease *lease;
    size_t n = 0;

    list_splice_back(&type->line, &type->blocked);
    while ((lease = list_pop_entry(&type->line, struct counter_lease, in_type)) != NULL)
        waiters[n++] = lease;
    qsort(waiters, n, sizeof(struct counter_lease *), compare_orders);
    for (size_t i = 0; i < n; ++i) {
        if (counter_has_key_room(waiters[i]) && counter_type_has_room(type, waiters[i]->slots))
            wake_locked(t, waiters[i], now_us, woken);
        else
            file_under_type(type, waiters[i], &type->line);
    }
    free(waiters);
}

enum err counter_set_limits(struct counter_table *t, struct slice name,
                            struct counter_limits limits, uint64_t now_us, struct list *woken)
{
    struct counter_type *type = find_type(t, name);
    bool was_limited = type != NULL && counter_is_limited(type->limits);

    if (name.len == 0 || name.len > COUNTER_NAME_MAX)
        return ERR_RANGE;
    if (counter_is_limited(limits) && !was_limited && t->limited >= COUNTER_LIMITED_MAX)
        return ERR_TOO_LARGE;
    if (type == NULL && !counter_is_limited(limits))
        return ERR_OK;
    if (type == NULL)
        type = make_type(t, name);
    if (type == NULL)
        return ERR_TOO_LARGE;
    t->limited -= was_limited;
    t->limited += counter_is_limited(limits);
    type->limits = limits;
    judge_all(t, type, now_us, woken);
    drop_type_if_unused(t, type);
    return ERR_OK;
}
