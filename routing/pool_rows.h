/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts the settings of scope POOL, in a struct generated from routing/pool_settings.def, to
 * the pool's settings. A macro, because the server and the simulator have different structs.
 */
#ifndef RLB_ROUTING_POOL_ROWS_H
#define RLB_ROUTING_POOL_ROWS_H

#include "routing/pool.h"

/* S: pointer to a struct with a field for each row. max_waiting belongs to another scope. */
#define POOL_SETTINGS_OF(s)                                                                        \
    ((struct pool_settings){                                                                       \
        .policy = (enum pool_policy)(s)->policy,                                                   \
        .single_version = (s)->single_version,                                                     \
        .variance = (s)->variance,                                                                 \
        .backlog_history = (uint64_t)(s)->backlog_history,                                         \
        .max_share = (s)->max_share,                                                               \
        .max_share_always = (s)->max_share_always,                                                 \
        .unskilled_score = (s)->unskilled_score,                                                   \
        .max_classes = (size_t)(s)->max_classes,                                                   \
        .backlog_shared = (s)->backlog_shared,                                                     \
        .backlog_max_age_ms = (s)->backlog_max_age_ms,                                             \
        .spawn_backlog = (uint64_t)(s)->spawn_backlog,                                             \
        .shadowed = (s)->shadow_policy != 0,                                                       \
        .shadow = (enum pool_policy)((s)->shadow_policy != 0 ? (s)->shadow_policy - 1 : 0),        \
        .hash_balance_percent = (uint64_t)(s)->hash_balance_factor,                                \
    })

/* Returns true if at least one worker is always below PERCENT of the mean; 0 means unbounded. */
static inline bool pool_hash_balances(uint64_t percent)
{
    return percent == 0 || percent > 100;
}

#endif
