/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a table of counters, for counter.c and for the tests that check their invariants.
 */
#pragma once

#include "common/base/map.h"
#include "common/counters/counter.h"

struct counter_type {
    struct split_node node;
    struct list line;    /* waiters for a slot only, by order; some keys may be full again */
    struct list blocked; /* its other waiters, in no order: their key is full */
    struct counter_limits limits;
    size_t keys;
    size_t held;
    char name[];
};

/* There may be a million of these: each is one allocation, which includes its name. */
struct counter_key {
    struct split_node node;
    struct counter_lease *queue[COUNTER_KINDS]; /* the oldest of a ring by in_key, or NULL */
    struct counter_type *type;                  /* or NULL */
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

/* The smaller of two limits, where 0 means no limit. */
static inline uint32_t counter_lower_limit(uint32_t a, uint32_t b)
{
    if (a == 0 || b == 0)
        return a + b;
    return a < b ? a : b;
}

static inline bool counter_below(size_t held, uint32_t limit)
{
    return limit == 0 || held < limit;
}

/* KEY and TYPE are NULL if they do not exist yet; TYPE also if the key has none. */
static inline bool counter_key_has_room(const struct counter_key *key,
                                        const struct counter_type *type, uint32_t workers)
{
    return counter_below(key != NULL ? key->held : 0,
                         counter_lower_limit(workers, type != NULL ? type->limits.workers : 0));
}

static inline bool counter_type_has_room(const struct counter_type *type, uint32_t slots)
{
    return type == NULL ||
           counter_below(type->held, counter_lower_limit(slots, type->limits.slots));
}

/* LEASE waits. Whether its key has room for it by its own and the type's limits. */
static inline bool counter_has_key_room(const struct counter_lease *lease)
{
    return counter_key_has_room(lease->key, lease->key->type, lease->workers);
}

static inline bool counter_is_limited(struct counter_limits limits)
{
    return limits.workers != 0 || limits.slots != 0;
}
