/* SPDX-License-Identifier: Apache-2.0
 *
 * A page of metrics in Prometheus' text format, as our programs write it, in OpenMetrics' instead.
 * Stateless.
 */
#ifndef RLB_BASE_METRICS_H
#define RLB_BASE_METRICS_H

#include "common/base/text.h"

#define METRICS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_OPEN_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* Whether ACCEPT (a field of that name; may be empty) prefers OpenMetrics 1.0 to plain text. */
bool metrics_wants_open(struct slice accept);
/*
 * Append PAGE as OpenMetrics 1.0: families of counters are named without "_total", quotes in HELP
 * are escaped, and a last line says that it is the last.
 *   page  whole lines; of each family HELP, TYPE and all samples, in this order
 */
void metrics_put_open(struct slice page, struct text *out);

#endif
