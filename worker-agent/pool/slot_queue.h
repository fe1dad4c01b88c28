/* SPDX-License-Identifier: Apache-2.0
 *
 * What slot.c and slot_queue.c (requests of a slot) have between themselves, with the pool, and
 * with the stream.
 */
#ifndef RLB_AGENT_POOL_SLOT_QUEUE_H
#define RLB_AGENT_POOL_SLOT_QUEUE_H

#include "worker-agent/pool/slot.h"

/* R, as the core has decided, has a place now. */
void slot_request_go(struct core_request *r);
/* P is about to be gone: those who run have no place to give back any more. */
void slot_abandon_running(struct core_process *p);
/* What stands in each resume line of the slot's. */
struct resume_line slot_line(const struct slot *s);

#endif
