/* SPDX-License-Identifier: Apache-2.0
 *
 * One application: its hosts and paths, classifier, pool, connection pool, workers, live settings.
 * Made and destroyed by the control thread (lb.c); outlives every exchange of its own. Fields are
 * constant while data loops run unless their comment names a lock or a thread.
 */
#ifndef RLB_LB_APPLICATION_H
#define RLB_LB_APPLICATION_H

#include "classifiers/registry.h"
#include "common/base/stats.h"
#include "common/net/conn_pool.h"
#include "lb/settings.h"

enum app_stat {
#define STAT(name, kind, unit, doc) APP_STAT_##name,
#include "lb/stats.def"
#undef STAT
    APP_STATS
};

enum outcome {
#define OUTCOME(name, text, status, retry, doc) OUTCOME_##name,
#include "lb/outcome.def"
#undef OUTCOME
    OUTCOMES
};

struct lb;
struct membership;

/* What one data loop has of one application; written by that loop only. */
struct application_loop {
    struct application *app;
    struct app_snapshot *settings; /* the snapshot in force on this loop; one reference */
    struct stats_cell *stats;
    _Atomic uint64_t outcomes[OUTCOMES];
    struct list exchanges; /* under way on this loop; for drain and status */
};

struct application {
    struct lb *lb;
    char *name;
    struct text_list hosts; /* lower case */
    bool is_default;
    struct slice path; /* prefix without a trailing slash; "" is everything */
    struct classifier *classifier;
    struct pool *pool;           /* its own lock */
    struct conn_pool *conn_pool; /* its own locks */
    struct stats *stats;         /* a cell per data loop, one more for the control loop (index nloops) */
    struct application_loop *loops; /* per data loop */
    struct membership *membership; /* control thread only */
    struct app_snapshot *settings; /* control thread only: the newest */
    struct text error_page;        /* configured template; empty: built in */
};

/*
 * The application that serves HOST (as sent, with port) and PATH, or NULL. Exact host before the longest
 * wildcard before the default; within a host the longest path prefix. Any thread.
 */
struct application *application_find(const struct lb *lb, struct slice host, struct slice path);

/* Exchanges of this loop read settings here, afresh in each turn. */
static inline const struct app_settings *application_settings(const struct application_loop *al)
{
    return &al->settings->s;
}

const char *outcome_text(enum outcome o);
int outcome_status(enum outcome o);

#endif
