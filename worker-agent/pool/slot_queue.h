/* SPDX-License-Identifier: Apache-2.0
 *
 * Interface between slot.c and slot_queue.c (requests of a slot), also used by the pool and the
 * stream.
 */
#ifndef RLB_AGENT_POOL_SLOT_QUEUE_H
#define RLB_AGENT_POOL_SLOT_QUEUE_H

#include "worker-agent/pool/slot.h"

/* The core has assigned a place to R. */
void slot_request_go(struct core_request *r);
/* P is about to be removed: its running requests have no place to release any more. */
void slot_abandon_running(struct core_process *p);
/* The common fields of all resume lines of the slot. */
struct resume_line slot_line(const struct slot *s);

#endif
