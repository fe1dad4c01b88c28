/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of stats.def by name. Constant; any thread.
 */
#ifndef RLB_AGENT_CONFIG_AGENT_STATS_H
#define RLB_AGENT_CONFIG_AGENT_STATS_H

#include "common/stats/stats.h"

enum agent_stat {
#define STAT(name, kind, unit, doc) AGENT_STAT_##name,
#include "worker-agent/config/stats.def"
#undef STAT
    AGENT_STATS
};

extern const struct stats_table agent_stats_table;
/* What metric names begin with. */
#define AGENT_STATS_PREFIX "resumelb_agent"

#endif
