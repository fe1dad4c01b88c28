/* SPDX-License-Identifier: Apache-2.0
 *
 * The pages of the admin address: `/`, /status.json, /metrics, /healthz, /readyz. Made of a copy
 * that the server's thread hands out. The control loop.
 */
#ifndef RLB_POOLCOUNTER_STATUS_H
#define RLB_POOLCOUNTER_STATUS_H

#include "common/stats/metrics.h"
#include "poolcounter/program.h"

void status_add(struct poolcounter *p);
/* --describe stats: the metrics, as Markdown. */
void status_describe(FILE *out);

#define COUNTER_METRICS 18
/* What the counters themselves count: of struct counter_stats. */
extern const struct metric counter_metrics[COUNTER_METRICS];

/* ---- pure, for tests ---- */
void status_metrics(const struct server_snapshot *s, const struct stats *stats, struct metrics *m);
void status_json(const struct server_snapshot *s, const struct stats *stats, struct text *out);

#endif
