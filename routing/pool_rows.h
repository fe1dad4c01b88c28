/* SPDX-License-Identifier: Apache-2.0
 *
 * From the settings of scope POOL, as they stand in a struct made of lb/config/settings.def, to
 * what the pool takes. The server and the simulator have structs of their own: hence a macro.
 */
#ifndef RLB_ROUTING_POOL_ROWS_H
#define RLB_ROUTING_POOL_ROWS_H

#include "routing/pool.h"

/* S: pointer to a struct with a field for each row. max_waiting is another scope's. */
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

/* Whether somebody is always below so many percent of the mean; 0 is no bound. */
static inline bool pool_hash_balances(uint64_t percent)
{
    return percent == 0 || percent > 100;
}

#endif
