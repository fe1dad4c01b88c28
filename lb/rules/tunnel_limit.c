/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/tunnel_limit.h"

void tunnel_limit_set(struct tunnel_limit *t, unsigned max)
{
    atomic_store_explicit(&t->max, max, memory_order_relaxed);
}

static bool has_room(const struct tunnel_limit *t, unsigned places)
{
    unsigned max = tunnel_limit_max(t);

    return max == 0 || places < max;
}

bool tunnel_limit_has_room(const struct tunnel_limit *t)
{
    return has_room(t, atomic_load_explicit(&t->places, memory_order_relaxed));
}

bool tunnel_limit_take(struct tunnel_limit *t)
{
    unsigned places = atomic_load_explicit(&t->places, memory_order_relaxed);

    do {
        if (!has_room(t, places))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&t->places, &places, places + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void tunnel_limit_give(struct tunnel_limit *t)
{
    unsigned before = atomic_fetch_sub_explicit(&t->places, 1, memory_order_relaxed);

    ASSERT(before != 0);
}

void tunnel_limit_opened(struct tunnel_limit *t)
{
    atomic_fetch_add_explicit(&t->open, 1, memory_order_relaxed);
}

void tunnel_limit_closed(struct tunnel_limit *t)
{
    unsigned before = atomic_fetch_sub_explicit(&t->open, 1, memory_order_relaxed);

    ASSERT(before != 0);
    tunnel_limit_give(t);
}
