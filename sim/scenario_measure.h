/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the two halves of scenarios: where things happen. Only scenario*.c include this.
 */
#ifndef RLB_SIM_SCENARIO_MEASURE_H
#define RLB_SIM_SCENARIO_MEASURE_H

#include "sim/scenario.h"

/* Positions in the phase in which it happens, before scaling. */
enum {
    COLD_TO = 2000,
    HOT_FROM = 1500,
    HOT_TO = 9000,
    NEW_AT = 1500,
    FULL_LAST = 4000,
    CRASH_AT = 2000,
    DRAINED_AFTER = 300,
    JUST_AFTER = 1000,
    REPLACED_AT = 5000,
    SHIFT_AT = 2000,
    SHIFT_AFTER = 2000,
};

/* N requests of the benchmark, in this plan; at least one. */
size_t plan_scaled(const struct plan *p, size_t n);
/* Newworkers: those from this one on are new. */
static inline unsigned plan_first_new(const struct plan *p)
{
    return p->options.world.workers * 3 / 4;
}
/* Scenario crash: the number of the killed worker. */
static inline unsigned plan_crashed(const struct plan *p)
{
    enum { CRASHED = 5 };

    return CRASHED % p->options.world.workers;
}

#endif
