/* SPDX-License-Identifier: Apache-2.0
 *
 * Described work as a trace: sites of which few are asked for often, pages that need objects near
 * the middle of their site's, drawn by a seed. Plain values; any thread.
 */
#ifndef RLB_SIM_WORKLOAD_H
#define RLB_SIM_WORKLOAD_H

#include "sim/trace.h"

enum {
    WORKLOAD_SITES_MAX = 1000000,
    WORKLOAD_SITE_OBJECTS_MAX = 1000000,
};

struct workload {
    uint32_t sites;           /* 1 .. WORKLOAD_SITES_MAX */
    double zipf;              /* the site of rank r gets a share in proportion to r^-zipf; >= 0 */
    bool simul;               /* instead: shares as in zc.resumelb's simul.py, nearly even */
    uint32_t site_objects;    /* four standard deviations of a normal distribution */
    uint32_t request_objects; /* drawn for each page, with repetitions; <= TRACE_PAGE_OBJECTS_MAX */
    uint64_t seed;
};

/* A class that comes on top of the others for a while. */
enum workload_hot {
    WORKLOAD_NO_HOT,
    WORKLOAD_FLASH, /* its objects are those of a site */
    WORKLOAD_CRAWL, /* it never needs an object twice */
};

/* One stretch of a workload. Positions are numbers of requests from its start. */
struct workload_part {
    size_t n;
    uint64_t seed; /* of this part, in the workload's */
    double rate;   /* requests a second, at random times; 0: closed loop, due times are 0 */
    size_t shift_at;
    uint32_t shift; /* from SHIFT_AT on, rank r is the site that had rank r + SHIFT; 0: never */
    bool costly;    /* one site in ten costs WORKLOAD_COSTLY times as much; those are tagged */
    enum workload_hot hot;
    size_t hot_from, hot_to;
    double hot_share; /* of the requests in between; the normal ones keep their rate; tagged */
};

enum { WORKLOAD_COSTLY = 10 };

/* Append a part to OUT. Errors: ERR_TOO_LARGE: the trace is full. */
enum err workload_draw(const struct workload *w, const struct workload_part *part,
                       struct trace *out) must_check;

#endif
