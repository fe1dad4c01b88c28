/* SPDX-License-Identifier: Apache-2.0 */
#include "poolcounter/figures.h"

static const struct stat_row rows[] = {
#define STAT(...) STATS_ROW(__VA_ARGS__)
#include "poolcounter/stats.def"
#undef STAT
};

const struct stats_table poolcounter_stats_table = {rows, ARRAY_LEN(rows)};
