/* SPDX-License-Identifier: Apache-2.0
 *
 * The contents and the invariants of a meter and of the records of homes.
 */
#pragma once

#include <math.h>

#include "common/skills/home_records.h"
#include "common/skills/meter_internal.h"
#include "tests/support/classes_check.h"

/* Returns the score of CLS, or NULL if it has none. Valid until the next call that modifies the
 * meter. */
static inline const double *meter_score(const struct meter *m, struct slice cls)
{
    struct class_entry *e = classes_find(&m->classes, cls);

    return e != NULL ? &metered_of(e)->score : NULL;
}

struct meter_class {
    struct slice cls;    /* borrowed from the meter */
    uint64_t generation; /* of its last request */
    double service_s;    /* decayed sum of service times */
    double requests;     /* decayed count; 0 for a loaded score that was never measured */
    double score;
};

/* Calls EACH for every class, in the order of meter_resume. */
static inline void meter_each(const struct meter *m,
                              void (*each)(void *context, const struct meter_class *c),
                              void *context)
{
    struct class_entry *e = NULL;

    while ((e = classes_next(&m->classes, e)) != NULL) {
        const struct metered *c = metered_of(e);

        each(context, &(struct meter_class){.cls = class_name(e),
                                            .generation = c->generation,
                                            .service_s = c->service.sum,
                                            .requests = c->service.weight,
                                            .score = c->score});
    }
}

/* Returns the factor by which totals decay with each request: 1 - 1/history. */
static inline double meter_decay(const struct meter *m)
{
    return m->decay;
}

static inline void meter_check_order(const struct meter *m, const struct list *least_recent_first)
{
    uint64_t last = 0;
    const struct metered *c;

    list_for_each_entry (c, least_recent_first, base.node) {
        ASSERT(isfinite(c->score));
        ASSERT(c->generation >= last);
        ASSERT(c->generation <= m->generation);
        last = c->generation;
    }
}

static inline void meter_check(const struct meter *m)
{
    classes_check(&m->classes);
    meter_check_order(m, &m->classes.known);
    meter_check_order(m, &m->classes.probation);
}

static inline void home_records_check(const struct home_records *h)
{
    const struct home_record *r;
    uint64_t change = 0;

    classes_check(&h->classes);
    list_for_each_entry (r, &h->changed, node) {
        ASSERT(r->change > change);
        ASSERT(r->since_us <= r->used_us);
        ASSERT((r->from != NULL) == (r->kind == HOME_REASSIGN));
        ASSERT(r->work_us >= 0);
        change = r->change;
    }
    ASSERT(change <= h->changes);
    ASSERT(list_length(&h->changed) == h->classes.n);
}
