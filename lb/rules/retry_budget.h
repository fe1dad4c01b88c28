/* SPDX-License-Identifier: Apache-2.0
 *
 * How many of an application's requests may be retries at once: when much fails, tries of what has
 * failed already must not be a second load on what is left. Embedded in the application; any
 * thread.
 */
#ifndef RLB_LB_RULES_RETRY_BUDGET_H
#define RLB_LB_RULES_RETRY_BUDGET_H

#include "common/base/base.h"

struct retry_budget {
    _Atomic size_t taken; /* requests in flight that are retries */
};

/*
 * Reserves a retry of a request. Returns false if the budget is exhausted.
 *   active  requests in flight, including this one
 *   share   permitted fraction of them, 0..1
 *   least   number that is always permitted
 */
bool retry_budget_take(struct retry_budget *b, size_t active, double share, size_t least);
/* Once for each that was taken. */
void retry_budget_give(struct retry_budget *b) noinline_;

#endif
