/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operator sees: the pages of the admin address. Control thread.
 */
#ifndef RLB_LB_STATUS_STATUS_H
#define RLB_LB_STATUS_STATUS_H

#include <stdio.h>

#include "common/program/admin.h"
#include "common/stats/metrics.h"
#include "lb/core/lb.h"

/* Add every page to A, which LB outlives. */
void status_add(struct lb *lb, struct admin *a);

/* ---- the pages by themselves, appended to OUT ---- */
/* Selects what is shown of lists that may be long. */
struct status_choice {
    struct slice q; /* of the classes shown by name, those that contain this (empty: all) */
    /*
     * 0: every worker. Else at most so many, with q in their name, state or version, the busiest of
     * those; and how many there are: "workers_known", "workers_active", "workers_found".
     */
    size_t workers_max;
};
void status_json(struct lb *lb, const struct status_choice *choice, struct text *out);
void status_resumes(struct lb *lb, struct text *out);
/*
 * status_explain.c: which worker a request of a class would be routed to, and why. QUERY:
 * class=CLASS, and application=NAME if there are several. Returns the HTTP status: 200; or 400 or
 * 404 with {"error"}.
 */
int status_explain(struct lb *lb, struct slice query, struct text *body);
/* status_metrics.c */
void status_metrics(struct lb *lb, struct metrics *m);
/* The manual as Markdown (docs/reference/stats.md). */
void status_metrics_describe(FILE *out);

#endif
