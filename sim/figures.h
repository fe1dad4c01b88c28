/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run comes to, in numbers. Plain values made of records; any thread.
 */
#ifndef RLB_SIM_FIGURES_H
#define RLB_SIM_FIGURES_H

#include "sim/world.h"

/* Which records. */
struct figures_part {
    size_t from, to; /* positions */
    int tag;         /* only these; -1: all */
};

struct figures {
    size_t n, failed; /* what follows is of those that did not fail */
    double wall_s;    /* from the first start to the last end, failed ones included */
    double rate;      /* requests a second */
    double loads;     /* objects not in the cache, per request */
    double hit_share; /* of the objects that were needed */
    double mean_ms, p50_ms, p90_ms, p99_ms, max_ms;
    double share_max;     /* requests of the busiest worker, over the mean */
    double busy_max;      /* seconds of work of the busiest worker, over the mean */
    double busy;          /* seconds of work, over what all workers could have done */
    unsigned workers;     /* that got any */
    double class_workers; /* mean number that a class had, of classes with FIGURES_CLASS_MIN */
};

enum { FIGURES_CLASS_MIN = 10 };

void figures_of(const struct world_record *records, const struct figures_part *part,
                unsigned nworkers, struct figures *out);
/* Share of the requests that the workers FIRST .. LAST - 1 got. */
double figures_share(const struct world_record *records, const struct figures_part *part,
                     unsigned first, unsigned last);

#endif
