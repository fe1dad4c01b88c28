/* SPDX-License-Identifier: Apache-2.0
 *
 * What a table of counters is made of: for counter.c, and for counter_check.c, which asserts it.
 */
#ifndef RLB_LIMITER_COUNTER_INTERNAL_H
#define RLB_LIMITER_COUNTER_INTERNAL_H

#include "common/base/map.h"
#include "common/limiter/counter.h"

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

/* LOCK waits. Whether its key, and its type, have room for it by its own and the type's limits. */
bool counter_has_key_room(const struct counter_lock *lock);
bool counter_has_slot(const struct counter_lock *lock);

#endif
