/* SPDX-License-Identifier: Apache-2.0
 *
 * What one request rate of an application counts, over all loops: tables of keys, each behind a
 * mutex of its own, and figures. Reference counted, by the rules of its name: it outlives their
 * changes. Any thread.
 */
#ifndef RLB_LB_LIMITS_RATE_COUNTER_H
#define RLB_LB_LIMITS_RATE_COUNTER_H

#include "common/limiter/rate.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    RATE_SHARDS = 8,
    /* With fewer keys than this all are in one table: the oldest of all goes first. */
    RATE_SHARDED_KEYS = 8192,
};

struct rate_shard {
    pthread_mutex_t lock; /* table */
    struct rate_table *table;
};

struct rate_counter {
    _Atomic unsigned refs;
    size_t max_keys;
    unsigned nshards;
    struct rate_shard shards[RATE_SHARDS];
    _Atomic uint64_t passed, refused, shadow_refused;
};

struct rate_view {
    uint64_t passed, refused, shadow_refused, keys, evicted;
};

struct rate_counter *rate_counter_create(size_t max_keys);
struct rate_counter *rate_counter_ref(struct rate_counter *c);
/* NULL is fine. */
void rate_counter_unref(struct rate_counter *c);
/* As rate_take. */
uint64_t rate_counter_take(struct rate_counter *c, uint64_t key, uint64_t now_ns,
                           const struct rate *r);
void rate_counter_view(struct rate_counter *c, struct rate_view *out);

#endif
