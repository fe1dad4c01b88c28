/* SPDX-License-Identifier: Apache-2.0
 *
 * What pool_core.c (sessions and processes) and pool_core_plan.c (who gets a process) have between
 * themselves.
 */
#ifndef RLB_AGENT_POOL_POOL_CORE_INTERNAL_H
#define RLB_AGENT_POOL_POOL_CORE_INTERNAL_H

#include "worker-agent/pool/pool_core.h"

/* ---- pool_core.c ---- */
/* P into the lists that it belongs in. */
void core_place(struct core_process *p);
/* Somebody who waits at S may have a place now. */
void core_run_soon(struct core_slot *s);
/* The owner is to be told of S. */
void core_tell(struct core_slot *s);
/* P is in its slot no longer: detached. It is ended when its last session is over. */
void core_leave_slot(struct core_process *p, enum core_reason why);
/* The next request that has a place at S begins there; NULL: none. */
struct core_request *core_dispatch(struct core_slot *s, uint64_t now_ms);
/* P is to be replaced because of max_requests: it is near them, or has had them. */
bool core_nearly_spent(const struct core_process *p);

/* ---- pool_core_plan.c ---- */
/* S wants a process; nothing if it has one or must not have one. */
void core_want(struct core_slot *s);
/* The same, if there is a reason. */
void core_want_again(struct core_slot *s);
/* All processes of G are busy: one more. */
void core_want_more(struct core_group *g);
/*
 * Whether P, instead of taking R, makes room for a request of a group without a process, which
 * asked before R.
 */
bool core_yields(const struct core_process *p, const struct core_request *r, uint64_t now_ms);

#endif
