/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants of a table of counters between two calls. The locks of each key are counted
 * through the sum of a hash of their key, so that a wrong count of one key is detected without a
 * separate count for each key.
 */
#include "common/base/map.h"
#include "common/limiter/counter_internal.h"

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
