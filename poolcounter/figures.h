/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of stats.def by name. Constant; any thread.
 */
#ifndef RLB_POOLCOUNTER_FIGURES_H
#define RLB_POOLCOUNTER_FIGURES_H

#include "common/stats/stats.h"

enum poolcounter_stat {
#define STAT(name, kind, unit, doc) STAT_##name,
#include "poolcounter/stats.def"
#undef STAT
    POOLCOUNTER_STATS
};

extern const struct stats_table poolcounter_stats_table;
/* What metric names begin with. */
#define POOLCOUNTER_PREFIX "resumelb_poolcounter"

#endif
