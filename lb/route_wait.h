/* SPDX-License-Identifier: Apache-2.0
 *
 * Who waits for any worker: one queue per application across loops, parked under the pool's lock (pool.h).
 * This is its other half: waking those whose turn has come, each on its own loop.
 */
#ifndef RLB_LB_ROUTE_WAIT_H
#define RLB_LB_ROUTE_WAIT_H

#include "common/base/list.h"

/* Any thread: wake the exchanges of the waiters in RELEASED (as pool functions fill it); it is empty then. */
void route_wait_wake(struct list *released);

#endif
