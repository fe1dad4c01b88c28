/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/config/agent_stats.h"

static const struct stat_row rows[] = {
#define STAT(...) STATS_ROW(__VA_ARGS__)
#include "worker-agent/config/stats.def"
#undef STAT
};

const struct stats_table agent_stats_table = {rows, ARRAY_LEN(rows)};
