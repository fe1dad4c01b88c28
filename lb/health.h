/* SPDX-License-Identifier: Apache-2.0
 *
 * Passive ejection: a worker that refuses connections gets no requests for eject_time, unless it is
 * the only one available. Begun by data loops, ended by a timer of the control loop.
 */
#ifndef RLB_LB_HEALTH_H
#define RLB_LB_HEALTH_H

#include "lb/application.h"

/* Control thread: workers have gone; when only ejected ones are left, they come back at once. */
void health_check(struct application *a);
/* Control thread, when no data loop runs any more: drops what is under way. */
void health_stop(struct lb *lb);

#endif
