/* SPDX-License-Identifier: Apache-2.0
 *
 * What tree_status() tells, as figures for status pages and metrics of any program: one row each.
 * Plain computation.
 */
#ifndef RLB_TREE_TREE_FIGURES_H
#define RLB_TREE_TREE_FIGURES_H

#include "common/base/json.h"
#include "common/stats/metrics.h"
#include "common/tree/tree.h"

#define TREE_METRICS 6
/* Of struct tree_status; without `each`. */
extern const struct metric tree_metrics[TREE_METRICS];

/* Members of what is open in W. */
void tree_status_describe(const struct tree_status *s, struct json_writer *w);

#endif
