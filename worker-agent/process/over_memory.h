/* SPDX-License-Identifier: Apache-2.0
 *
 * How often an application's processes may be replaced for max_memory: at once when one has served
 * for some time; but where the next one is over the limit again soon after it was ready, the limit
 * is too low for what it runs, and replacing it at full speed would cost more than the memory.
 * A value, embedded in the group; zeroed at first, and again when the limit has changed.
 */
#ifndef RLB_AGENT_PROCESS_OVER_MEMORY_H
#define RLB_AGENT_PROCESS_OVER_MEMORY_H

#include "common/base/base.h"

enum {
    /* One that is found over the limit within this time of getting ready was so because of what it
       runs, not because of what it has served. */
    OVER_MEMORY_SOON_MS = 60000,
    /* Between two such replacements: doubled at each. At most as often as samples are taken anyway,
       by default, and then as seldom as somebody may be expected to look. */
    OVER_MEMORY_DELAY_MS = 1000,
    OVER_MEMORY_DELAY_MAX_MS = 600000,
};

struct over_memory {
    uint64_t delay_ms;      /* after the last replacement; 0: none */
    uint64_t not_before_ms; /* no other before */
    bool told;              /* somebody was told that the limit is too low */
};

/*
 * One that had been ready for READY_MS when it was found over the limit: whether it is to be
 * replaced now. True counts as done.
 */
bool over_memory_may_replace(struct over_memory *o, uint64_t ready_ms, uint64_t now_ms);
/* Whether it is time to tell somebody: the limit is too low. True once. */
bool over_memory_tell(struct over_memory *o);
/* How long from NOW_MS until the next may be replaced. */
uint64_t over_memory_wait_ms(const struct over_memory *o, uint64_t now_ms);

#endif
