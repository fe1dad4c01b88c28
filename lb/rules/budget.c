/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/budget.h"

static bool acquire(_Atomic size_t *used, size_t most)
{
    size_t n = atomic_load_explicit(used, memory_order_relaxed);

    do {
        if (n >= most)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(used, &n, n + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

static void release(_Atomic size_t *used)
{
    size_t before = atomic_fetch_sub_explicit(used, 1, memory_order_relaxed);

    ASSERT(before > 0);
}

bool retry_budget_take(struct retry_budget *b, size_t active, double share, size_t least)
{
    size_t by_share = (size_t)(share * (double)active);

    return acquire(&b->taken, by_share > least ? by_share : least);
}

void retry_budget_give(struct retry_budget *b)
{
    release(&b->taken);
}

void tunnel_limit_set(struct tunnel_limit *t, unsigned max)
{
    atomic_store_explicit(&t->max, max, memory_order_relaxed);
}

static size_t most_of(const struct tunnel_limit *t)
{
    size_t max = tunnel_limit_max(t);

    return max != 0 ? max : SIZE_MAX;
}

bool tunnel_limit_has_room(const struct tunnel_limit *t)
{
    return atomic_load_explicit(&t->places, memory_order_relaxed) < most_of(t);
}

bool tunnel_limit_take(struct tunnel_limit *t)
{
    return acquire(&t->places, most_of(t));
}

void tunnel_limit_give(struct tunnel_limit *t)
{
    release(&t->places);
}

void tunnel_limit_opened(struct tunnel_limit *t)
{
    atomic_fetch_add_explicit(&t->open, 1, memory_order_relaxed);
}

void tunnel_limit_closed(struct tunnel_limit *t)
{
    release(&t->open);
    release(&t->places);
}
