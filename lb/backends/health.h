/* SPDX-License-Identifier: Apache-2.0
 *
 * Passive ejection: a worker that refuses connections, or fails several requests in a row, gets no
 * requests for a while (ejection_rule.h); one whose connections fail, until it accepts one, which
 * is tried without any request. It fails open: the only one available is not ejected, and who finds
 * none but ejected ones has them all back. Begun by data loops, ended by the control loop.
 */
#ifndef RLB_LB_BACKENDS_HEALTH_H
#define RLB_LB_BACKENDS_HEALTH_H

#include "lb/core/application.h"
#include "routing/worker.h"

/* Control thread: workers have gone; when only ejected ones are left, they come back at once. */
void health_check(struct application *a);
/*
 * Any loop: a request finds nobody but the workers it has TRIED. False when no other is ejected;
 * else all come back at once.
 */
bool health_fail_open(struct application *a, struct worker *const *tried, size_t ntried) rare;
/* Control thread, when no data loop runs any more: drops what is under way. */
void health_stop(struct application *a);

#endif
