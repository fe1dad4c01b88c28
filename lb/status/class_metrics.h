/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of an application's busiest classes, for /metrics: a bounded number of series, as
 * whoever asks chooses the classes. Owned by the observer, which feeds it; control thread.
 *
 * Which classes have series changes as little as it can, as each change begins new ones:
 *   - as long as there is room (metrics_classes), the busiest classes without series get some;
 *   - then a class gets the series of another only with CLASS_METRICS_LEAD times as many requests
 *     over the last CLASS_METRICS_FADE_S or so, and CLASS_METRICS_WORTH at least; one class at a
 * time. One that nobody asks for any more (less than CLASS_METRICS_QUIET) goes whenever another is
 * worth it. A class that is merely quiet keeps its series. What is counted for a class is counted
 * from the moment it has series, and begins at 0 when it has them anew (to Prometheus, a counter
 * that was reset); what belongs to none of them is counted with the others', so that all together
 * are the application's.
 */
#ifndef RLB_LB_STATUS_CLASS_METRICS_H
#define RLB_LB_STATUS_CLASS_METRICS_H

#include "common/base/text.h"

enum {
    CLASS_METRICS_MAX = 1000, /* classes of an application with series; max of metrics_classes */
    CLASS_METRICS_FADE_S = 300,
    CLASS_METRICS_LEAD = 2,
    CLASS_METRICS_WORTH = 10, /* requests that have not faded */
};
#define CLASS_METRICS_QUIET 0.5

struct class_metrics;
struct class_series;

/* What requests add to; each at least 0. Not whole where one note stands for several requests. */
struct class_figures {
    double requests, failed, limited, waited;
    double seconds, wait_seconds;
    double skilled, spilled, unskilled; /* of those that a worker was picked for */
};

/* A class that is known, and its requests that have not faded. */
struct class_rank {
    struct slice name;
    double requests;
};

struct class_metrics *class_metrics_create(void);
/* NULL is fine. */
void class_metrics_destroy(struct class_metrics *m);
/* The series of CLS until the next class_metrics_choose; NULL: it is one of the others. */
struct class_series *class_metrics_find(const struct class_metrics *m, struct slice cls);
/* S: of M, or NULL for the others. */
void class_metrics_add(struct class_metrics *m, struct class_series *s,
                       const struct class_figures *more);
/* Classes with series. */
size_t class_metrics_count(const struct class_metrics *m);
/*
 * Who has series from now on.
 *   ranks  every class that is known, once; sorted here
 *   limit  at most so many; <= CLASS_METRICS_MAX
 *   move   whether one may take another's series; else those are only filled up
 * Returns whether it is others than before.
 */
bool class_metrics_choose(struct class_metrics *m, struct class_rank *ranks, size_t n, size_t limit,
                          bool move);
/* Each class with series, in the order they got them; last, with CLS NULL, the others. */
void class_metrics_each(const struct class_metrics *m,
                        void (*each)(void *context, const char *cls, const struct class_figures *f),
                        void *context);

#endif
