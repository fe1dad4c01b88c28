/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/retry_budget.h"

#include <stdatomic.h>

bool retry_budget_take(struct retry_budget *b, size_t active, double share, size_t least)
{
    size_t by_share = (size_t)(share * (double)active);
    size_t most = by_share > least ? by_share : least;
    size_t taken = atomic_load_explicit(&b->taken, memory_order_relaxed);

    do {
        if (taken >= most)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&b->taken, &taken, taken + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void retry_budget_give(struct retry_budget *b)
{
    size_t before = atomic_fetch_sub_explicit(&b->taken, 1, memory_order_relaxed);

    ASSERT(before > 0);
}
