/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by observer.c (metrics, changes) and observer_view.c (JSON). Control thread.
 */
#ifndef RLB_LB_STATUS_OBSERVER_INTERNAL_H
#define RLB_LB_STATUS_OBSERVER_INTERNAL_H

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/stats/histogram.h"
#include "lb/core/application.h"
#include "lb/status/class_metrics.h"
#include "lb/status/observer.h"

/* A decaying sum of recent values. */
struct fading {
    double sum;
    double at_s; /* up to date then */
};

struct seen_worker {
    struct map_node by_name;
    uint32_t number; /* never used again */
    bool here;       /* at the last look */
    bool drained, ejected;
    bool was_in_pool;
    char state[16], version[64], incarnation[72];
    uint64_t requests, failures, service_us; /* of its member, at the last look */
    struct fading request_rate, failure_rate, service_s;
    struct {
        struct slice cls; /* borrowed from its class; for the time of one description */
        double rate;
    } top[OBSERVER_TOP_CLASSES];
    char name[];
};

struct class_worker {
    uint32_t number; /* of a seen_worker */
    float sum;       /* fades with its class */
};

struct seen_class {
    struct map_node by_name;
    struct list node; /* least recently seen first */
    double at_s;      /* the sums below are up to date then */
    struct class_figures recent;
    double lasting;              /* requests, fading with CLASS_METRICS_FADE_S */
    struct class_series *series; /* or NULL: it is counted with others */
    struct class_worker *workers;
    unsigned n;
    char name[];
};

struct seen_app {
    struct application *app;
    struct map workers, classes;
    struct list recent; /* seen_class.node */
    struct class_metrics *figures;
    unsigned looks; /* for its classes */
    struct fading requests, failed, placed, skilled;
    struct histogram times;
    char active_version[64];
    struct app_settings settings; /* at the last check */
    bool has_settings;
    char **refused; /* why, per row of app_row; or NULL */
    bool settled;   /* what was present at the start does not cause events */
};

struct observer {
    struct lb *lb;
    struct timer timer;
    struct events events;
    struct seen_app *apps;
    uint32_t numbers;
    double started_s, now_s;
    unsigned drains; /* since the last look, in quarters of a second */
    unsigned step;   /* how many of these the one to come stands for */
};

/* The rate per second of SUM, which was updated at AT_S. */
double observer_rate(const struct observer *o, double sum, double at_s);
/* Bring C's sums up to date. */
void observer_refresh(const struct observer *o, struct seen_class *c);

#endif
