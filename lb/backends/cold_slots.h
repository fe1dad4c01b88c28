/* SPDX-License-Identifier: Apache-2.0
 *
 * Selects which workers without a process (cold), or with a starting process, are in the pool. They
 * are kept out of the pool, so that new classes do not start every available process. One is
 * brought in if no warm worker exists (a starting one first), or when the backlog of every warm
 * worker stayed above spawn_backlog for spawn_after. Embedded in the membership of an application;
 * control thread.
 *
 *   out, cold -- overload --> in, to be woken -- its request --> out, starting --> in, warm
 *        ^                         |                                   |           (by its stream)
 *        '--- overload has gone ---'------------ it failed ------------'
 *
 * Slots are activated one at a time: the wait of spawn_after for the next one restarts after the
 * activated slot has become warm, has failed, or has taken too long. Every starting process counts
 * as an activated slot, whatever started it: if several load balancers are overloaded at the same
 * time, the process that the first one starts serves all of them.
 */
#ifndef RLB_LB_BACKENDS_COLD_SLOTS_H
#define RLB_LB_BACKENDS_COLD_SLOTS_H

#include "common/event/loop.h"
#include "lb/backends/known_worker.h"

struct membership;

struct cold_slots {
    struct membership *membership;
    struct timer look;
    struct known_worker *called; /* because of overload; cold or starting; NULL: none */
    uint64_t called_ms;
    uint64_t woken_ms; /* when it was seen to have got its request; 0: not */
    bool overloaded;   /* as of the last look */
};

void cold_slots_init(struct cold_slots *c, struct membership *ms);
void cold_slots_fini(struct cold_slots *c);
/* K was of the kind FROM and is of K->kind now. */
void cold_slots_moved(struct cold_slots *c, struct known_worker *k, enum worker_kind from);
/* K will be freed. */
void cold_slots_forget(struct cold_slots *c, const struct known_worker *k);
/* Some worker's kind, or a setting, has changed: bring in, take out, as above. */
void cold_slots_settle(struct cold_slots *c);

#endif
