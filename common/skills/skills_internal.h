/* SPDX-License-Identifier: Apache-2.0
 *
 * What a meter and the records of homes consist of, for their own files and for the tests that
 * check their invariants.
 */
#ifndef RLB_SKILLS_SKILLS_INTERNAL_H
#define RLB_SKILLS_SKILLS_INTERNAL_H

#include "common/skills/home_records.h"
#include "common/skills/meter.h"
#include "common/stats/decay.h"

struct home_records {
    struct classes classes; /* of struct home_record */
    struct list changed;    /* the longest unchanged first */
    uint64_t changes;
    uint64_t decided; /* the last change that was a decision */
};

struct metered {
    struct class_entry base;
    uint64_t generation; /* of its last request */
    struct decayed
        service; /* seconds; weight 0: loaded with a score of 0 or less, never requested */
    double score;
};

/* Most requests for a class come few requests of others after its last: their powers are cached. */
enum { METER_POWERS_CACHED = 64 };

struct meter {
    struct meter_settings settings;
    struct classes classes;
    double decay;
    double decay_after[METER_POWERS_CACHED]; /* decay_steps of the index */
    uint64_t generation;
};

static inline struct metered *metered_of(struct class_entry *e)
{
    return container_of(e, struct metered, base);
}

#endif
