/* SPDX-License-Identifier: Apache-2.0
 *
 * What the status page knows beyond the counters: rates of the last seconds, times, which class
 * goes to which worker, and what happened (events.h). Fed once to four times a second with the data
 * loops' notes (traffic.h) and with a look at who is there. Owned by lb.c; control thread only; it
 * reads pools and memberships, and changes nothing.
 *
 * All rates are means that fade with OBSERVER_FADE_S: "now" is about the last quarter of a minute.
 */
#ifndef RLB_LB_STATUS_OBSERVER_H
#define RLB_LB_STATUS_OBSERVER_H

#include "common/base/json.h"
#include "common/stats/events.h"
#include "lb/core/lb.h"

enum {
    OBSERVER_FADE_S = 15,
    OBSERVER_CLASSES_MAX = 16384,    /* of an application; the one quiet for longest goes first */
    OBSERVER_CLASS_WORKERS_MAX = 24, /* of a class that are told apart */
    OBSERVER_ROWS_MAX = 100,         /* classes described at once */
    OBSERVER_MAP_CLASSES = 24,       /* rows of the map of classes and workers */
    OBSERVER_MAP_WORKERS = 24,       /* its columns */
    OBSERVER_TOP_CLASSES = 3,        /* told of a worker */
};

struct observer;

/* Once applications and loops are there. */
struct observer *observer_create(struct lb *lb);
/* After the data loops. NULL is fine. */
void observer_destroy(struct observer *o);
const struct events *observer_events(const struct observer *o);
/* Tell an event of an operator's doing. KIND is constant. */
void observer_tell(struct observer *o, const char *kind, bool bad, const char *application,
                   const char *subject, const char *text);

struct class_metrics;
/* Of the application's busiest classes. */
const struct class_metrics *observer_class_metrics(const struct observer *o, size_t application);
/* Members of an application's object: "now": rates and times. */
void observer_describe(struct observer *o, size_t application, struct json_writer *w);
/*
 * "classes_now": the busiest OBSERVER_ROWS_MAX classes whose name has Q in it (empty: all), and
 * "map": of the busiest of these, the scores and the shares of traffic by worker.
 */
void observer_describe_classes(struct observer *o, size_t application, struct slice q,
                               struct json_writer *w);
/* Requests a second of a worker; 0 when it is not known. */
double observer_worker_rate(const struct observer *o, size_t application, const char *name);
/* Members of a worker's object; nothing when it is not known. */
void observer_describe_worker(struct observer *o, size_t application, const char *name,
                              struct json_writer *w);

#endif
