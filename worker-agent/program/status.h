/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators see of the agent, each page by itself. Control loop.
 */
#ifndef RLB_AGENT_PROGRAM_STATUS_H
#define RLB_AGENT_PROGRAM_STATUS_H

#include <stdio.h>

#include "common/stats/metrics.h"

struct agent;
struct app_group;
struct app_process;

/* Numbers of processes of an application by state. */
struct process_counts {
    size_t starting; /* including successors */
    size_t busy, idle;
    size_t leaving; /* including those being ended */
};

/* ---- status.c, which has agent_status_add() (agent_internal.h) ---- */
void status_count(const struct app_group *g, struct process_counts *out);
/* Whether P, which is leaving or ending, belongs to G but no longer to one of its slots. */
bool status_has_left(const struct app_process *p, const struct app_group *g);

/* status_json.c: appended to OUT. */
void status_json(const struct agent *a, struct text *out);
void status_resumes(const struct agent *a, struct text *out);

/* status_metrics.c: appended to M; and their manual as Markdown. */
void status_metrics(const struct agent *a, struct metrics *m);
void status_metrics_describe(FILE *out);

#endif
