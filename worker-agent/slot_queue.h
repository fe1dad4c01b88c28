/* SPDX-License-Identifier: Apache-2.0
 *
 * What slot.c and slot_queue.c (requests of a slot) have between themselves, and with the stream.
 */
#ifndef RLB_AGENT_SLOT_QUEUE_H
#define RLB_AGENT_SLOT_QUEUE_H

#include "worker-agent/slot.h"

/* A process is wanted: now, after the back-off, or when the budget has room. Nothing if there is
 * one. */
void slot_want_process(struct slot *s);
/* Give places to those who wait, as far as there are places. */
void slot_dispatch(struct slot *s);
/* The process is gone: those who run have no place to give back any more. */
void slot_abandon_running(struct slot *s);
/* What stands in each resume line of the slot's. */
struct resume_line slot_line(const struct slot *s);

#endif
