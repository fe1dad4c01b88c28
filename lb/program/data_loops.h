/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of the data loops, and calls to all of them. Owned by lb.c; control thread.
 */
#ifndef RLB_LB_PROGRAM_DATA_LOOPS_H
#define RLB_LB_PROGRAM_DATA_LOOPS_H

#include "lb/core/lb.h"

struct cpu_affinity;

/* Start LB->nloops threads, each with its loop in LB->loops. Returns when all have one. */
void data_loops_start(struct lb *lb, const struct cpu_affinity *affinity);
/*
 * Run EACH on every loop's thread, soon, in the order of calls; then DONE (may be NULL) here.
 * CONTEXT is borrowed till then.
 */
void data_loops_call(struct lb *lb, void (*each)(struct lb_loop *ll, void *context),
                     void (*done)(void *context), void *context);
/* On each loop from now on: new settings at the end of turns, idle connections to workers recycled.
 */
void data_loops_upkeep(struct lb *lb);
/* End them: nothing is left on any loop. Returns when all threads have ended. */
void data_loops_stop(struct lb *lb);

#endif
