/* SPDX-License-Identifier: Apache-2.0
 *
 * What the status page shows beyond the counters: recent rates, times, which class is routed to
 * which worker, and events (events.h). Fed one to four times a second with the data loops' notes
 * (traffic.h) and by scanning the workers. Owned by lb/program; control thread only. It reads pools
 * and memberships, and changes nothing.
 *
 * All rates are means that fade with OBSERVER_FADE_S: "now" is about the last 15 seconds.
 */
#pragma once

#include "common/base/json.h"
#include "common/stats/events.h"
#include "lb/core/lb.h"

enum {
    OBSERVER_FADE_S = 15,
    OBSERVER_CLASSES_MAX = 16384, /* per application; the one idle for longest is removed first */
    OBSERVER_CLASS_WORKERS_MAX = 24, /* counted separately for each class */
    OBSERVER_ROWS_MAX = 100,         /* classes described at once */
    OBSERVER_MAP_CLASSES = 24,       /* rows of the map of classes and workers */
    OBSERVER_MAP_WORKERS = 24,       /* its columns */
    OBSERVER_TOP_CLASSES = 3,        /* shown for each worker */
};

struct observer;

/* Must be called after applications and loops were created. */
struct observer *observer_create(struct lb *lb);
/* Must be called after the data loops have ended. NULL is allowed. */
void observer_destroy(struct observer *o);
const struct events *observer_events(const struct observer *o);
struct class_metrics;
/* Returns the metrics of the application's busiest classes. */
const struct class_metrics *observer_class_metrics(const struct observer *o, size_t application);
/* Writes the member "now" of an application's object: rates and times. */
void observer_describe(struct observer *o, size_t application, struct json_writer *w);
/*
 * Writes "classes_now", the busiest OBSERVER_ROWS_MAX classes that have Q in their name (empty:
 * all), and "map", the scores and the shares of traffic by worker for the busiest of these.
 */
void observer_describe_classes(struct observer *o, size_t application, struct slice q,
                               struct json_writer *w);
/* Returns the requests per second of a worker; 0 if it is unknown. */
double observer_worker_rate(const struct observer *o, size_t application, const char *name);
/* Writes members of a worker's object; nothing if it is unknown. */
void observer_describe_worker(struct observer *o, size_t application, const char *name,
                              struct json_writer *w);
