/* SPDX-License-Identifier: Apache-2.0
 *
 * A waiter is in its key's queue. If its key has a type, it is also either in the type's line (it
 * only waits for a slot) or among the type's blocked waiters (its key was full when that was last
 * checked). A key's two queues are rings without a head, because most keys have no waiter and a key
 * should be small.
 *
 * Two invariants hold between any two calls; counter_check asserts them.
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
 * - counter_limit changes what room is; it sorts all the type's waiters again.
 *
 * The project's allocator aborts if out of memory. Keys and types are created by requests of
 * untrusted clients, and are the most numerous objects in the process: here an allocation may fail,
 * and the failure is reported to the requester.
 */
#include "common/limiter/counter.h"
#include "common/base/map.h"

#include <stdlib.h>

struct counter_type {
    struct split_node node;
    struct list line;    /* waiters for a slot only, by order; some of them no longer */
    struct list blocked; /* its other waiters, in no order: their key is full */
    struct counter_limits limits;
    size_t keys;
    size_t held;
    char name[];
};

/* A million of these: one allocation each, the name in it. */
struct counter_key {
    struct split_node node;
    struct counter_lock *queue[COUNTER_KINDS]; /* the oldest of a ring by in_key, or NULL */
    struct counter_type *type;                 /* or NULL */
    uint32_t held;
    uint32_t waiting;
    char name[];
};

/* The key or type of a node; NULL for NULL. */
static inline struct counter_key *counter_key_at(struct split_node *node)
{
    return node != NULL ? container_of(node, struct counter_key, node) : NULL;
}

static inline struct counter_type *counter_type_at(struct split_node *node)
{
    return node != NULL ? container_of(node, struct counter_type, node) : NULL;
}

struct counter_table {
    struct split_map keys;
    struct split_map types;
    struct list holders; /* in the order of their grants */
    size_t max_keys;
    size_t max_waiters;
    size_t limited; /* types with limits of their own */
    uint64_t order; /* of the newest waiter */
    struct counter_stats stats;
};

static const uint64_t ORDER_MASK = (UINT64_C(1) << 56) - 1;

_Static_assert(sizeof(struct counter_lock) == 64, "a lock is one line of the cache");

/* The clock is monotonic; if it were not, a sum should not leap by 2^64. */
static uint64_t elapsed(uint64_t since_us, uint64_t now_us)
{
    return now_us > since_us ? now_us - since_us : 0;
}

/* The smaller of two limits, where 0 means no limit. */
static uint32_t lower_limit(uint32_t a, uint32_t b)
{
    if (a == 0 || b == 0)
        return a + b;
    return a < b ? a : b;
}

static bool below(size_t held, uint32_t limit)
{
    return limit == 0 || held < limit;
}

/* KEY may be one to be made, and TYPE too: NULL. */
static bool key_has_room(const struct counter_key *key, const struct counter_type *type,
                         uint32_t workers)
{
    return below(key != NULL ? key->held : 0,
                 lower_limit(workers, type != NULL ? type->limits.workers : 0));
}

static bool type_has_room(const struct counter_type *type, uint32_t slots)
{
    return type == NULL || below(type->held, lower_limit(slots, type->limits.slots));
}

/* LOCK waits. Whether its key, and its type, have room for it by its own and the type's limits. */
static bool counter_has_key_room(const struct counter_lock *lock)
{
    return key_has_room(lock->key, lock->key->type, lock->workers);
}

static bool counter_has_slot(const struct counter_lock *lock)
{
    return type_has_room(lock->key->type, lock->slots);
}

/* ---- keys and types come and go ---- */

static struct counter_key *find_key(const struct counter_table *t, struct slice name)
{
    return counter_key_at(split_map_find(&t->keys, name));
}

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

static bool is_limited(struct counter_limits limits)
{
    return limits.workers != 0 || limits.slots != 0;
}

static void drop_type_if_unused(struct counter_table *t, struct counter_type *type)
{
    if (type->keys != 0 || is_limited(type->limits))
        return;
    ASSERT(type->held == 0);
    ASSERT(list_empty(&type->line));
    ASSERT(list_empty(&type->blocked));
    split_map_remove(&t->types, &type->node);
    free(type);
}

/* TYPE is that of the ask, or NULL: it is to be made, if it has one. */
static struct counter_key *make_key(struct counter_table *t, const struct counter_ask *ask,
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

/* ---- a lock's changes of state: the only places where one is linked and counted ---- */

static void hold(struct counter_table *t, struct counter_lock *lock, uint64_t now_us)
{
    lock->state = COUNTER_HELD;
    lock->since_us = now_us;
    list_push_back(&t->holders, &lock->in_type);
    ++lock->key->held;
    if (lock->key->type != NULL)
        ++lock->key->type->held;
    ++t->stats.held;
    ++t->stats.acquired;
}

static void stop_holding(struct counter_table *t, struct counter_lock *lock, uint64_t now_us)
{
    list_remove(&lock->in_type);
    list_remove(&lock->in_key); /* a WOKEN list that has not been read */
    --lock->key->held;
    if (lock->key->type != NULL)
        --lock->key->type->held;
    --t->stats.held;
    ++t->stats.processed;
    t->stats.processing_us += elapsed(lock->since_us, now_us);
    lock->state = COUNTER_FREE;
    lock->key = NULL;
}

/* Into the line when its key has room, else to the blocked; AT is a place in the line. */
static void file_under_type(struct counter_type *type, struct counter_lock *lock, struct list *at)
{
    lock->in_line = counter_has_key_room(lock);
    list_insert_before(lock->in_line ? at : &type->blocked, &lock->in_type);
}

static void start_waiting(struct counter_table *t, struct counter_lock *lock, uint64_t now_us)
{
    struct counter_key *key = lock->key;
    struct counter_lock **first = &key->queue[lock->kind];

    lock->state = COUNTER_WAITING;
    lock->since_us = now_us;
    lock->order = ++t->order & ORDER_MASK; /* at 1e6 waiters a second it wraps in 2,000 years */
    list_init(&lock->in_key);
    if (*first == NULL)
        *first = lock;
    else
        list_push_back(&(*first)->in_key, &lock->in_key);
    if (key->type != NULL)
        file_under_type(key->type, lock, &key->type->line);
    ++key->waiting;
    ++t->stats.waiting;
}

static void stop_waiting(struct counter_table *t, struct counter_lock *lock)
{
    struct counter_key *key = lock->key;
    struct counter_lock **first = &key->queue[lock->kind];

    ASSERT(key != NULL);
    if (*first == lock)
        *first = list_linked(&lock->in_key) ? list_first(&lock->in_key, struct counter_lock, in_key)
                                            : NULL;
    list_remove(&lock->in_key);
    list_remove(&lock->in_type);
    lock->in_line = false;
    --key->waiting;
    --t->stats.waiting;
    lock->state = COUNTER_FREE;
}

static void give_up(struct counter_table *t, struct counter_lock *lock)
{
    stop_waiting(t, lock);
    lock->key = NULL;
    ++t->stats.given_up;
}

static void wake_locked(struct counter_table *t, struct counter_lock *lock, uint64_t now_us,
                        struct list *woken)
{
    uint64_t waited_us = elapsed(lock->since_us, now_us);

    stop_waiting(t, lock);
    if (lock->kind == COUNTER_ME)
        t->stats.waited_me_us += waited_us;
    else
        t->stats.waited_any_us += waited_us;
    hold(t, lock, now_us);
    lock->woken = COUNTER_LOCKED;
    list_push_back(woken, &lock->in_key);
}

static void wake_done(struct counter_table *t, struct counter_lock *lock, uint64_t now_us,
                      struct list *woken)
{
    stop_waiting(t, lock);
    lock->key = NULL;
    t->stats.waited_good_us += elapsed(lock->since_us, now_us);
    ++t->stats.done;
    lock->woken = COUNTER_DONE;
    list_push_back(woken, &lock->in_key);
}

/* ---- succession ---- */

/* Wakes the oldest waiter of TYPE with room at its key. */
static void serve_line(struct counter_table *t, struct counter_type *type, uint64_t now_us,
                       struct list *woken)
{
    struct list *node = NULL;

    while ((node = list_pop_front(&type->line)) != NULL) {
        struct counter_lock *lock = list_entry(node, struct counter_lock, in_type);

        if (counter_has_key_room(lock)) {
            wake_locked(t, lock, now_us, woken);
            return;
        }
        lock->in_line = false;
        list_push_back(&type->blocked, &lock->in_type);
    }
}

/* Case (b): inserts the waiters of one queue that have gained room at their key into the line. */
static void put_in_line(struct counter_type *type, struct counter_lock *first)
{
    struct counter_lock *lock = first;
    struct list *at = type->line.next;

    if (first == NULL)
        return;
    do {
        if (!lock->in_line && counter_has_key_room(lock)) {
            while (at != &type->line &&
                   list_entry(at, struct counter_lock, in_type)->order < lock->order)
                at = at->next;
            list_remove(&lock->in_type);
            file_under_type(type, lock, at);
        }
        lock = list_first(&lock->in_key, struct counter_lock, in_key);
    } while (lock != first);
}

/* A holder of KEY has left. NEXT is the waiter of KEY to take its place, or NULL if none is left.
 */
static void hand_over(struct counter_table *t, struct counter_key *key, struct counter_lock *next,
                      uint64_t now_us, struct list *woken)
{
    struct counter_type *type = key->type;

    if (type == NULL) {
        if (next != NULL)
            wake_locked(t, next, now_us, woken);
        return;
    }
    if (!type_has_room(type, 0)) {
        for (int kind = 0; kind < COUNTER_KINDS; ++kind)
            put_in_line(type, key->queue[kind]);
        return;
    }
    if (next != NULL && below(key->held, type->limits.workers))
        wake_locked(t, next, now_us, woken);
    else
        serve_line(t, type, now_us, woken);
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

static enum counter_answer counted(uint64_t *count, enum counter_answer answer)
{
    ++*count;
    return answer;
}

enum counter_answer counter_acquire(struct counter_table *t, struct counter_lock *lock,
                                    const struct counter_ask *ask, uint64_t now_us)
{
    struct counter_key *key = find_key(t, ask->key);
    struct counter_type *type = key != NULL ? key->type : find_type(t, ask->type);

    ASSERT(lock->state == COUNTER_FREE);
    ASSERT(!list_linked(&lock->in_key));
    ASSERT(ask->workers >= 1);
    ASSERT(ask->maxqueue >= 1);
    if (key != NULL && (uint64_t)key->held + key->waiting >= ask->maxqueue)
        return counted(&t->stats.full, COUNTER_QUEUE_FULL);
    bool room = key_has_room(key, type, ask->workers) && type_has_room(type, ask->slots);
    if (!room && ask->timeout_ms == 0)
        return counted(&t->stats.timeouts_at_once, COUNTER_TIMEOUT);
    if (!room && t->stats.waiting >= t->max_waiters)
        return counted(&t->stats.no_room, COUNTER_NO_ROOM);
    if (key == NULL)
        key = make_key(t, ask, type);
    if (key == NULL)
        return counted(&t->stats.no_room, COUNTER_NO_ROOM);
    lock->key = key;
    lock->kind = ask->kind == COUNTER_ANY;
    lock->workers = ask->workers;
    lock->slots = ask->slots;
    if (room)
        hold(t, lock, now_us);
    else
        start_waiting(t, lock, now_us);
    return room ? COUNTER_LOCKED : COUNTER_WAIT;
}

void counter_release(struct counter_table *t, struct counter_lock *lock, uint64_t now_us,
                     struct list *woken)
{
    struct counter_key *key = lock->key;
    bool held = lock->state == COUNTER_HELD;
    uint64_t held_us = held ? elapsed(lock->since_us, now_us) : 0;

    ASSERT(lock->state != COUNTER_FREE);
    ++t->stats.released;
    if (held)
        stop_holding(t, lock, now_us);
    else
        give_up(t, lock);
    while (key->queue[COUNTER_ANY] != NULL) {
        t->stats.gained_us += held_us;
        wake_done(t, key->queue[COUNTER_ANY], now_us, woken);
    }
    if (held)
        hand_over(t, key, key->queue[COUNTER_ME], now_us, woken);
    drop_key_if_unused(t, key);
}

void counter_leave(struct counter_table *t, struct counter_lock *lock, uint64_t now_us,
                   struct list *woken)
{
    struct counter_key *key = lock->key;

    ASSERT(lock->state != COUNTER_FREE);
    if (lock->state == COUNTER_HELD) {
        struct counter_lock *next = key->queue[COUNTER_ME];

        stop_holding(t, lock, now_us);
        hand_over(t, key, next != NULL ? next : key->queue[COUNTER_ANY], now_us, woken);
    } else {
        give_up(t, lock);
    }
    drop_key_if_unused(t, key);
}

void counter_expire(struct counter_table *t, struct counter_lock *lock, uint64_t now_us)
{
    struct counter_key *key = lock->key;

    ASSERT(lock->state == COUNTER_WAITING);
    stop_waiting(t, lock);
    lock->key = NULL;
    ++t->stats.timeouts;
    t->stats.wasted_us += elapsed(lock->since_us, now_us);
    drop_key_if_unused(t, key);
}

const struct counter_stats *counter_stats(const struct counter_table *t)
{
    return &t->stats;
}

const struct counter_lock *counter_oldest(const struct counter_table *t)
{
    if (list_empty(&t->holders))
        return NULL;
    return list_first(&t->holders, struct counter_lock, in_type);
}

struct slice counter_key_of(const struct counter_lock *lock)
{
    return (struct slice){lock->key->name, lock->key->node.len};
}

/* ---- a type's own limits ---- */

/* A and B are by order; B is empty then. */
static void merge(struct list *a, struct list *b)
{
    struct list *at = a->next;

    while (at != a && !list_empty(b)) {
        if (list_first(b, struct counter_lock, in_type)->order <
            list_entry(at, struct counter_lock, in_type)->order)
            list_insert_before(at, list_pop_front(b));
        else
            at = at->next;
    }
    list_splice_back(a, b);
}

/* Merge sort; of RUNS the i-th is empty or 2^i long. */
static void sort_by_order(struct list *waiters)
{
    struct list runs[64];
    struct list run = LIST_INIT(run);
    struct list *node = NULL;

    for (size_t i = 0; i < ARRAY_LEN(runs); ++i)
        list_init(&runs[i]);
    while ((node = list_pop_front(waiters)) != NULL) {
        size_t i = 0;

        list_push_back(&run, node);
        for (; !list_empty(&runs[i]); ++i)
            merge(&run, &runs[i]);
        list_splice_back(&runs[i], &run);
    }
    for (size_t i = 0; i < ARRAY_LEN(runs); ++i)
        merge(waiters, &runs[i]);
}

/* Wakes the waiters that have room under the current limits, oldest first; files the others again.
 */
static void judge_all(struct counter_table *t, struct counter_type *type, uint64_t now_us,
                      struct list *woken)
{
    struct list waiters = LIST_INIT(waiters);
    struct list *node = NULL;

    list_splice_back(&waiters, &type->line);
    list_splice_back(&waiters, &type->blocked);
    sort_by_order(&waiters);
    while ((node = list_pop_front(&waiters)) != NULL) {
        struct counter_lock *lock = list_entry(node, struct counter_lock, in_type);

        if (counter_has_key_room(lock) && counter_has_slot(lock))
            wake_locked(t, lock, now_us, woken);
        else
            file_under_type(type, lock, &type->line);
    }
}

enum err counter_limit(struct counter_table *t, struct slice name, struct counter_limits limits,
                       uint64_t now_us, struct list *woken)
{
    struct counter_type *type = find_type(t, name);
    bool was_limited = type != NULL && is_limited(type->limits);

    if (name.len == 0 || name.len > COUNTER_NAME_MAX)
        return ERR_RANGE;
    if (is_limited(limits) && !was_limited && t->limited >= COUNTER_LIMITED_MAX)
        return ERR_TOO_LARGE;
    if (type == NULL && !is_limited(limits))
        return ERR_OK;
    if (type == NULL)
        type = make_type(t, name);
    if (type == NULL)
        return ERR_TOO_LARGE;
    t->limited -= was_limited;
    t->limited += is_limited(limits);
    type->limits = limits;
    judge_all(t, type, now_us, woken);
    drop_type_if_unused(t, type);
    return ERR_OK;
}

/* ---- assertions ---- */

static uint64_t hash_of(const void *p)
{
    return map_hash(&p, sizeof(p));
}

static void check_waiter(const struct counter_key *key, const struct counter_lock *lock, int kind)
{
    ASSERT(lock->state == COUNTER_WAITING);
    ASSERT(lock->key == key);
    ASSERT(lock->kind == kind);
    ASSERT(lock->workers >= 1);
    ASSERT(list_linked(&lock->in_type) == (key->type != NULL));
    if (key->type == NULL) {
        ASSERT(!lock->in_line);
        ASSERT(!counter_has_key_room(lock));
        return;
    }
    ASSERT(lock->in_line || !counter_has_key_room(lock));
    ASSERT(!counter_has_key_room(lock) || !counter_has_slot(lock));
}

static size_t check_queue(const struct counter_key *key, int kind)
{
    const struct counter_lock *first = key->queue[kind];
    const struct counter_lock *lock = first;
    uint64_t order = 0;
    size_t n = 0;

    if (first == NULL)
        return 0;
    do {
        check_waiter(key, lock, kind);
        ASSERT(lock->order > order);
        order = lock->order;
        ++n;
        lock = list_first(&lock->in_key, struct counter_lock, in_key);
    } while (lock != first);
    return n;
}

/* The sums over all keys, and what they have to be equal to. */
struct sums {
    size_t held, waiting, keys_typed;
    uint64_t key_hashes;   /* per held: of its key */
    uint64_t type_hashes;  /* per held: of its type */
    uint64_t owner_hashes; /* per typed key: of its type */
};

static void check_key(const struct counter_key *key, struct sums *sum)
{
    size_t waiting = 0;

    for (int kind = 0; kind < COUNTER_KINDS; ++kind)
        waiting += check_queue(key, kind);
    ASSERT(waiting == key->waiting);
    ASSERT(key->held + waiting > 0);
    sum->held += key->held;
    sum->waiting += waiting;
    sum->key_hashes += key->held * hash_of(key);
    if (key->type == NULL)
        return;
    ++sum->keys_typed;
    sum->type_hashes += key->held * hash_of(key->type);
    sum->owner_hashes += hash_of(key->type);
}

static size_t check_list(const struct counter_type *type, const struct list *head, bool in_line)
{
    struct list *it = NULL;
    uint64_t order = 0;
    size_t n = 0;

    list_for_each (it, head) {
        const struct counter_lock *lock = list_entry(it, struct counter_lock, in_type);

        ASSERT(lock->state == COUNTER_WAITING);
        ASSERT(lock->key->type == type);
        ASSERT(lock->in_line == in_line);
        ASSERT(!in_line || lock->order > order);
        order = lock->order;
        ++n;
    }
    return n;
}

static const struct counter_type *next_type(const struct counter_table *t,
                                            const struct counter_type *type)
{
    return counter_type_at(split_map_next(&t->types, &type->node));
}

static const struct counter_key *next_key(const struct counter_table *t,
                                          const struct counter_key *key)
{
    return counter_key_at(split_map_next(&t->keys, &key->node));
}

static void check_types(const struct counter_table *t, const struct sums *sum, size_t waiting_typed)
{
    uint64_t type_hashes = 0, owner_hashes = 0;
    size_t limited = 0, listed = 0;

    split_map_check(&t->types);
    for (const struct counter_type *type = counter_type_at(split_map_next(&t->types, NULL));
         type != NULL; type = next_type(t, type)) {
        bool own = type->limits.workers != 0 || type->limits.slots != 0;

        ASSERT(own || type->keys > 0);
        limited += own;
        listed += check_list(type, &type->line, true) + check_list(type, &type->blocked, false);
        type_hashes += type->held * hash_of(type);
        owner_hashes += type->keys * hash_of(type);
    }
    ASSERT(limited == t->limited);
    ASSERT(listed == waiting_typed);
    ASSERT(type_hashes == sum->type_hashes);
    ASSERT(owner_hashes == sum->owner_hashes);
}

static void check_holders(const struct counter_table *t, const struct sums *sum)
{
    uint64_t key_hashes = 0;
    struct list *it = NULL;
    size_t n = 0;

    list_for_each (it, &t->holders) {
        const struct counter_lock *lock = list_entry(it, struct counter_lock, in_type);

        ASSERT(lock->state == COUNTER_HELD);
        key_hashes += hash_of(lock->key);
        ++n;
    }
    ASSERT(n == sum->held);
    ASSERT(key_hashes == sum->key_hashes);
}

void counter_check(const struct counter_table *t)
{
    struct sums sum = {0};
    size_t waiting_typed = 0;

    split_map_check(&t->keys);
    for (const struct counter_key *key = counter_key_at(split_map_next(&t->keys, NULL));
         key != NULL; key = next_key(t, key)) {
        check_key(key, &sum);
        waiting_typed += key->type != NULL ? key->waiting : 0;
    }
    check_types(t, &sum, waiting_typed);
    check_holders(t, &sum);
    ASSERT(t->stats.held == sum.held);
    ASSERT(t->stats.waiting == sum.waiting);
    ASSERT(t->stats.waiting <= t->max_waiters);
    ASSERT(t->stats.keys == split_map_count(&t->keys));
    ASSERT(t->stats.keys <= t->max_keys);
    ASSERT(t->stats.acquired - t->stats.processed == t->stats.held);
}
