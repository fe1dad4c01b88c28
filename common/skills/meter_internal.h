/* SPDX-License-Identifier: Apache-2.0
 *
 * What a meter consists of, for meter.c and for the tests that check its invariants.
 */
#pragma once

#include "common/skills/classes.h"
#include "common/skills/meter.h"
#include "common/stats/decay.h"

struct metered {
    struct class_entry base;
    uint64_t generation; /* of its last request */
    struct decayed
        service; /* seconds; weight 0: loaded with a score of 0 or less, never requested */
    double score;
};

/* Usually few requests lie between two of the same class: the powers for these are cached. */
enum { METER_POWERS_CACHED = 64 };

struct meter {
    struct meter_settings settings;
    struct classes classes;
    double decay;
    double decay_after[METER_POWERS_CACHED]; /* [i]: the decay over I requests */
    uint64_t generation;
};

static inline struct metered *metered_of(struct class_entry *e)
{
    return container_of(e, struct metered, base);
}
