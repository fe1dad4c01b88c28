/* SPDX-License-Identifier: Apache-2.0
 *
 * `rates` of an application: how often requests may come, by key. A rule is immutable once it is in
 * a snapshot; a set of them is reference counted. What a rule counts, over all loops, is in its
 * struct rate_counter: tables of keys, each behind a mutex of its own, and figures; it is reference
 * counted by the rules of its name, and so outlives their changes. What exchanges do by a rule is
 * in receive.c, what operators see in status.c. Any thread.
 */
#pragma once

#include "common/counters/rate.h"
#include "lb/limits/limit.h"

enum {
    /* Rules of one application: each request checks all of them. */
    RATE_RULES_MAX = 64,
    RATE_SHARDS = 8,
    /* With fewer keys than this all are in one table: the oldest of all is evicted first. */
    RATE_SHARDED_KEYS = 8192,
};

struct rate_shard {
    pthread_mutex_t lock; /* table */
    struct lru *table;
};

struct rate_counter {
    _Atomic unsigned refs;
    size_t max_keys;
    unsigned nshards;
    struct rate_shard shards[RATE_SHARDS];
    _Atomic uint64_t passed, rejected, shadow_rejected;
};

struct rate_view {
    uint64_t passed, rejected, shadow_rejected, keys, evicted;
};

struct rate_counter *rate_counter_create(size_t max_keys);
struct rate_counter *rate_counter_ref(struct rate_counter *c);
/* NULL is fine. */
void rate_counter_unref(struct rate_counter *c);
/* As rate_take. */
uint64_t rate_counter_take(struct rate_counter *c, uint64_t key, uint64_t now_ns,
                           const struct rate *r);
void rate_counter_view(struct rate_counter *c, struct rate_view *out);

struct rate_rule {
    char *name;
    struct rate rate;
    int status;
    bool retry_after, shadow;
    size_t max_keys;
    struct request_match *match;
    struct rate_counter *counter; /* one reference; NULL until rate_rules_attach */
};

struct rate_rules {
    _Atomic unsigned refs;
    size_t n;
    struct rate_rule rules[RATE_RULES_MAX];
};

/* NULL gives NULL. */
struct rate_rules *rate_rules_ref(struct rate_rules *r);
/* NULL is fine. */
void rate_rules_unref(struct rate_rules *r);
/* Each rule of R (NULL: none) has its counter after this: its own, or OLD's of that name and size,
 * else a new one. Control thread. */
void rate_rules_attach(struct rate_rules *r, const struct rate_rules *old);

/* `rates` at NODE (NULL: none); problems to D. One reference, or NULL when there are none. */
struct rate_rules *rate_rules_read(const struct config *c, const struct config_node *node,
                                   struct diag *d);
