/* SPDX-License-Identifier: Apache-2.0
 *
 * Passive ejection: a worker that fails several requests in a row receives no requests for a while
 * (ejection_rule.h). A worker to which connections fail receives none until it accepts a
 * connection, which is probed without sending a request. Ejection fails open: the only available
 * worker is not ejected, and a request that finds only ejected workers ends all ejections.
 * Ejections are started by data loops and ended by the control loop.
 */
#ifndef RLB_LB_BACKENDS_HEALTH_H
#define RLB_LB_BACKENDS_HEALTH_H

#include "lb/core/application.h"
#include "routing/worker.h"

/* Control thread: workers have gone; when only ejected ones are left, they come back at once. */
void health_check(struct application *a);
/*
 * Any loop: to be called when a request finds no worker besides those in TRIED. Ends all ejections
 * at once. Returns false if no other worker is ejected.
 */
bool health_fail_open(struct application *a, struct worker *const *tried, size_t ntried) rare;
/* Control thread, when no data loop runs any more: drops what is under way. */
void health_stop(struct application *a);

#endif
