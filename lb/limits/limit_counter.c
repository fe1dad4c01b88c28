/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limits/limit_counter.h"

#include <stdlib.h>

struct limit_counter *limit_counter_create(const char *name)
{
    struct limit_counter *c = xcalloc(1, sizeof(*c));

    atomic_init(&c->refs, 1);
    c->name = xstrdup(name);
    pthread_mutex_init(&c->lock, NULL);
    c->table = counter_table_create(LIMIT_KEYS_MAX, LIMIT_WAITERS_MAX);
    c->flights = counter_table_create(LIMIT_KEYS_MAX, LIMIT_WAITERS_MAX);
    c->top = topk_create(TOPK_ENTRIES, COUNTER_NAME_MAX);
    return c;
}

struct limit_counter *limit_counter_ref(struct limit_counter *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void limit_counter_unref(struct limit_counter *c)
{
    if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    counter_table_destroy(c->table);
    counter_table_destroy(c->flights);
    topk_destroy(c->top);
    pthread_mutex_destroy(&c->lock);
    free(c->name);
    free(c);
}
