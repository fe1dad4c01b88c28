/* SPDX-License-Identifier: Apache-2.0
 *
 * Interface between pool_core.c (sessions and processes) and pool_core_plan.c (assignment of
 * processes to slots).
 */
#ifndef RLB_AGENT_POOL_POOL_CORE_INTERNAL_H
#define RLB_AGENT_POOL_POOL_CORE_INTERNAL_H

#include "worker-agent/pool/pool_core.h"

/* ---- pool_core.c ---- */
/* Inserts P into the lists that match its state. */
void core_place(struct core_process *p);
/* Schedules S for dispatch: a request waiting at S may get a place now. */
void core_run_soon(struct core_slot *s);
/* Schedules a REPORT of S for the owner. */
void core_report(struct core_slot *s);
/* Detaches P from its slot. P is ended when its last session is over. */
void core_leave_slot(struct core_process *p, enum core_reason why);
/* Starts the next waiting request that can have a place at S and returns it, or NULL. */
struct core_request *core_dispatch(struct core_slot *s, uint64_t now_ms);
/* Whether P has reached max_requests or is close to it, and must therefore be replaced. */
bool core_nearly_spent(const struct core_process *p);

/* ---- pool_core_plan.c ---- */
/* Queues S for a process. No effect if S has one or must not have one. */
void core_need_process(struct core_slot *s);
/* Like core_need_process, but only if there is a reason for a process. */
void core_need_again(struct core_slot *s);
/* All processes of G are busy: requests one more. */
void core_need_more(struct core_group *g);
/*
 * Whether P must not take R, so that P becomes idle and can make room for an older request of a
 * group without a process.
 */
bool core_yields(const struct core_process *p, const struct core_request *r, uint64_t now_ms);

#endif
