/* SPDX-License-Identifier: Apache-2.0
 *
 * The metrics of an application's busiest classes, for /metrics: a bounded number of series, as
 * clients choose the classes. Owned by the observer, which feeds it; control thread.
 *
 * The set of classes with series changes as rarely as possible, as each change begins new series:
 *   - While fewer than metrics_classes have series, the busiest classes without series get some.
 *   - After that a class replaces another only with CLASS_METRICS_LEAD times as many requests over
 *     about the last CLASS_METRICS_FADE_S, and at least CLASS_METRICS_WORTH; one class at a time.
 *     A class that is not requested any more (less than CLASS_METRICS_QUIET) is replaced whenever
 *     another qualifies. A class with merely little traffic keeps its series.
 *
 * A class is counted from the moment it has series. The counts restart at 0 when it gets series
 * again (to Prometheus, a counter reset). Requests of all other classes are counted together as the
 * others, so that the sum of all series is the application's total.
 */
#pragma once

#include "common/base/text.h"

enum {
    CLASS_METRICS_MAX = 1000, /* of an application with series: limit of metrics_classes */
    CLASS_METRICS_FADE_S = 300,
    CLASS_METRICS_LEAD = 2,
    CLASS_METRICS_WORTH = 10, /* decayed number of requests from which a class gets series */
};
#define CLASS_METRICS_QUIET 0.5

struct class_metrics;
struct class_series;

/* Sums over requests, at least 0. Fractions occur if one sample represents several requests. */
struct class_figures {
    double requests, failed, limited, waited;
    double seconds, wait_seconds;
    double skilled, overflow, unskilled; /* requests for which a worker was picked */
};

void class_figures_add(struct class_figures *to, const struct class_figures *more);
void class_figures_scale(struct class_figures *f, double by);

/* A known class, and its decayed number of requests. */
struct class_rank {
    struct slice name;
    double requests;
};

struct class_metrics *class_metrics_create(void);
/* NULL is allowed. */
void class_metrics_destroy(struct class_metrics *m);
/* Returns the series of CLS, valid until class_metrics_choose(); NULL: counted with the others. */
struct class_series *class_metrics_find(const struct class_metrics *m, struct slice cls);
/* Adds to series S of M, or to the others if S is NULL. */
void class_metrics_add(struct class_metrics *m, struct class_series *s,
                       const struct class_figures *more);
/* Returns the number of classes with series. */
size_t class_metrics_count(const struct class_metrics *m);
/*
 * Selects the classes that have series from now on.
 *   ranks  every known class, once; sorted here
 *   limit  the maximum number of classes; <= CLASS_METRICS_MAX
 *   move   whether a class may replace another; else only free series are assigned
 * Returns true if the selection has changed.
 */
bool class_metrics_choose(struct class_metrics *m, struct class_rank *ranks, size_t n, size_t limit,
                          bool move);
/* Visits each class with series, in the order in which they got them; then the others (NULL). */
void class_metrics_each(const struct class_metrics *m,
                        void (*each)(void *context, const char *cls, const struct class_figures *f),
                        void *context);
