/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants of a table of counters (counter_internal.h).
 */
#pragma once

#include "common/counters/counter_internal.h"
#include "tests/support/split_map_check.h"

static inline size_t counter_check_queue(const struct counter_key *key, int kind)
{
    const struct counter_lease *lock = key->queue[kind];
    uint64_t order = 0;
    size_t n = 0;

    while (lock != NULL) {
        bool key_room = counter_has_key_room(lock);

        ASSERT(lock->state == COUNTER_WAITING);
        ASSERT(lock->key == key);
        ASSERT(lock->kind == kind);
        ASSERT(lock->workers >= 1);
        ASSERT(list_linked(&lock->in_type) == (key->type != NULL));
        ASSERT(key->type != NULL || !lock->in_line);
        ASSERT(lock->in_line || !key_room);
        ASSERT(!key_room || !counter_type_has_room(key->type, lock->slots));
        ASSERT(lock->order > order);
        order = lock->order;
        ++n;
        lock = list_first(&lock->in_key, struct counter_lease, in_key);
        if (lock == key->queue[kind])
            break;
    }
    return n;
}

static inline size_t counter_check_list(const struct counter_type *type, const struct list *head,
                                        bool in_line)
{
    const struct counter_lease *lock;
    uint64_t order = 0;
    size_t n = 0;

    list_for_each_entry (lock, head, in_type) {
        ASSERT(lock->state == COUNTER_WAITING);
        ASSERT(lock->key->type == type);
        ASSERT(lock->in_line == in_line);
        ASSERT(!in_line || lock->order > order);
        order = lock->order;
        ++n;
    }
    return n;
}

/* The sums over the keys of TYPE, or over all keys if TYPE is NULL. */
struct counter_sums {
    size_t keys, held, waiting;
};

static inline struct counter_sums counter_sum_keys(const struct counter_table *t,
                                                   const struct counter_type *type)
{
    struct counter_sums sum = {0};
    struct split_node *node = NULL;

    while ((node = split_map_next(&t->keys, node)) != NULL) {
        const struct counter_key *key = counter_key_at(node);

        if (type != NULL && key->type != type)
            continue;
        ++sum.keys;
        sum.held += key->held;
        sum.waiting += key->waiting;
    }
    return sum;
}

/* Asserts all invariants. The cost is quadratic. */
static inline void counter_check(const struct counter_table *t)
{
    struct counter_sums all = counter_sum_keys(t, NULL);
    struct split_node *node = NULL;
    size_t limited = 0;

    split_map_check(&t->types);
    while ((node = split_map_next(&t->types, node)) != NULL) {
        const struct counter_type *type = counter_type_at(node);
        struct counter_sums sum = counter_sum_keys(t, type);

        ASSERT(counter_is_limited(type->limits) || type->keys > 0);
        limited += counter_is_limited(type->limits);
        ASSERT(counter_check_list(type, &type->line, true) +
                   counter_check_list(type, &type->blocked, false) ==
               sum.waiting);
        ASSERT(type->held == sum.held);
        ASSERT(type->keys == sum.keys);
    }
    ASSERT(limited == t->limited);
    split_map_check(&t->keys);
    while ((node = split_map_next(&t->keys, node)) != NULL) {
        const struct counter_key *key = counter_key_at(node);
        const struct counter_lease *lock;
        size_t held = 0;

        ASSERT(counter_check_queue(key, COUNTER_ME) + counter_check_queue(key, COUNTER_ANY) ==
               key->waiting);
        list_for_each_entry (lock, &t->holders, in_type) {
            ASSERT(lock->state == COUNTER_HELD);
            held += lock->key == key;
        }
        ASSERT(key->held == held);
        ASSERT(key->held + key->waiting > 0);
    }
    ASSERT(list_length(&t->holders) == all.held);
    ASSERT(t->stats.held == all.held);
    ASSERT(t->stats.waiting == all.waiting);
    ASSERT(t->stats.waiting <= t->max_waiters);
    ASSERT(t->stats.keys == split_map_count(&t->keys));
    ASSERT(t->stats.keys == all.keys);
    ASSERT(t->stats.keys <= t->max_keys);
    ASSERT(t->stats.acquired - t->stats.processed == t->stats.held);
}
