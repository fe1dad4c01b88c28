/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits how often processes of an application are replaced because of max_memory. A process that
 * has served for some time is replaced immediately. If the next one exceeds the limit again soon
 * after it was ready, the limit is too low for the application, and replacing processes at full
 * speed would cost more than the memory. A plain value, embedded in the group; zeroed initially,
 * and again when the limit changes.
 */
#ifndef RLB_AGENT_PROCESS_OVER_MEMORY_H
#define RLB_AGENT_PROCESS_OVER_MEMORY_H

#include "common/base/base.h"

enum {
    /* A process that exceeds the limit within this time after it was ready does so because of the
       application itself, not because of the requests it has served. */
    OVER_MEMORY_SOON_MS = 60000,
    /* Delay between two such replacements, doubled each time: from the default sampling interval to
       an interval at which operators may be expected to check. */
    OVER_MEMORY_DELAY_MS = 1000,
    OVER_MEMORY_DELAY_MAX_MS = 600000,
};

struct over_memory {
    uint64_t delay_ms;      /* after the last replacement; 0: none */
    uint64_t not_before_ms; /* no replacement earlier */
    bool told;              /* the warning that the limit is too low was logged */
};

/*
 * Returns whether a process that exceeded the limit READY_MS after it was ready is to be replaced
 * now. Returning true counts as a replacement.
 */
bool over_memory_may_replace(struct over_memory *o, uint64_t ready_ms, uint64_t now_ms);
/* Returns true once, when the warning that the limit is too low is to be logged. */
bool over_memory_tell(struct over_memory *o);
/* Time from NOW_MS until the next replacement is permitted (ms). */
uint64_t over_memory_wait_ms(const struct over_memory *o, uint64_t now_ms);

#endif
