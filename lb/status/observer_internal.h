/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by observer.c (metrics, changes) and observer_view.c (JSON). Control thread.
 */
#ifndef RLB_LB_STATUS_OBSERVER_INTERNAL_H
#define RLB_LB_STATUS_OBSERVER_INTERNAL_H

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/stats/decay.h"
#include "common/stats/histogram.h"
#include "lb/core/application.h"
#include "lb/status/class_metrics.h"
#include "lb/status/observer.h"

struct seen_worker {
    struct map_node by_name;
    uint32_t number; /* unique; not reused */
    bool here;       /* at the last scan */
    bool drained, ejected;
    bool was_in_pool;
    char state[16], version[64], incarnation[72];
    uint64_t requests, failures, service_us; /* counts of its member at the last scan */
    struct fading request_rate, failure_rate, service_s;
    struct {
        struct slice cls; /* borrowed from its class; valid during one description */
        double rate;
    } top[OBSERVER_TOP_CLASSES];
    char name[];
};

struct class_worker {
    uint32_t number; /* number of a seen_worker */
    float sum;       /* weighted as its class */
};

struct seen_class {
    struct map_node by_name;
    struct list node;  /* least recently seen first */
    uint64_t epoch_us; /* the epoch of observer.recent by which these and WORKERS are weighted */
    struct class_figures recent;
    struct fading lasting;       /* number of requests, by observer.lasting */
    struct class_series *series; /* NULL: counted with the others */
    struct class_worker *workers;
    unsigned n;
    char name[];
};

struct seen_app {
    struct application *app;
    struct map workers, classes;
    struct list recent; /* seen_class.node */
    struct class_metrics *figures;
    unsigned scans; /* number of scans, for the selection of classes */
    struct fading requests, failed, placed, skilled;
    struct histogram times;
    char active_version[64];
    struct app_settings settings; /* at the last check */
    bool has_settings;
    char **refused; /* reason of the rejection per row of app_row, or NULL */
    bool settled;   /* workers that were present at the start do not cause events */
};

struct observer {
    struct lb *lb;
    struct timer timer;
    struct events events;
    struct seen_app *apps;
    uint32_t numbers;
    uint64_t started_us;
    struct fading_clock recent, lasting; /* OBSERVER_FADE_S, CLASS_METRICS_FADE_S */
    unsigned drains;                     /* quarters of a second since the last scan */
    unsigned step;                       /* number of quarters that the next drain covers */
};

/* The rate per second of SUM, weighted by the epoch of o->recent. */
double observer_rate(const struct observer *o, double sum);
/* Converts the sums of C to the epoch of o->recent. */
void observer_refresh(const struct observer *o, struct seen_class *c);

#endif
