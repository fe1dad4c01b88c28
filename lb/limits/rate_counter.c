/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limits/rate_counter.h"

#include <stdlib.h>

struct rate_counter *rate_counter_create(size_t max_keys)
{
    struct rate_counter *c = xcalloc(1, sizeof(*c));

    atomic_init(&c->refs, 1);
    c->max_keys = max_keys;
    c->nshards = max_keys < RATE_SHARDED_KEYS ? 1 : RATE_SHARDS;
    for (unsigned i = 0; i < c->nshards; ++i) {
        pthread_mutex_init(&c->shards[i].lock, NULL);
        c->shards[i].table = rate_table_create(max_keys / c->nshards);
    }
    return c;
}

struct rate_counter *rate_counter_ref(struct rate_counter *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void rate_counter_unref(struct rate_counter *c)
{
    if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (unsigned i = 0; i < c->nshards; ++i) {
        rate_table_destroy(c->shards[i].table);
        pthread_mutex_destroy(&c->shards[i].lock);
    }
    free(c);
}

uint64_t rate_counter_take(struct rate_counter *c, uint64_t key, uint64_t now_ns,
                           const struct rate *r)
{
    /* Tables go by the low bits. */
    struct rate_shard *s = &c->shards[(key >> 48) % c->nshards];

    pthread_mutex_lock(&s->lock);
    uint64_t wait_ns = rate_take(s->table, key, now_ns, r);
    pthread_mutex_unlock(&s->lock);
    return wait_ns;
}

void rate_counter_view(struct rate_counter *c, struct rate_view *out)
{
    *out = (struct rate_view){.passed = atomic_load_explicit(&c->passed, memory_order_relaxed),
                              .refused = atomic_load_explicit(&c->refused, memory_order_relaxed),
                              .shadow_refused =
                                  atomic_load_explicit(&c->shadow_refused, memory_order_relaxed)};
    for (unsigned i = 0; i < c->nshards; ++i) {
        struct rate_shard *s = &c->shards[i];

        pthread_mutex_lock(&s->lock);
        out->keys += rate_table_keys(s->table);
        out->evicted += rate_table_evicted(s->table);
        pthread_mutex_unlock(&s->lock);
    }
}
