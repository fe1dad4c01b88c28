/* SPDX-License-Identifier: Apache-2.0
 *
 * One application: its hosts and paths, classifier, pool, connection pool, workers, live settings.
 * Made and destroyed by the control thread (lb/program); outlives every exchange of its own. Fields
 * are constant while data loops run unless their comment names a lock or a thread.
 */
#pragma once

#include "classifiers/registry.h"
#include "common/base/log.h"
#include "common/net/networks.h"
#include "common/stats/stats.h"
#include "common/tree/live_settings.h"
#include "common/upstream/conn_pool.h"
#include "common/wire/cache_rules.h"
#include "lb/config/tls_config.h"
#include "lb/core/route_wait.h"
#include "lb/core/step.h"
#include "lb/limits/response_store.h"
#include "lb/rules/budget.h"
#include "lb/rules/ejection_rule.h"
#include "lb/rules/error_page.h"
#include "lb/settings/settings.h"
#include "routing/pool.h"

#include <pthread.h>

enum app_stat {
#define STAT(name, kind, unit, doc) APP_STAT_##name,
#include "lb/core/stats.def"
    APP_STATS
};

struct application_index;
struct lb;
struct limits_live;
struct poison;
struct membership;
struct application_config;
struct pool_counter_health;
struct header_rules;
struct limit_set;
struct rate_rules;

/*
 * The settings of an application, and what is computed from them: immutable and reference counted.
 * Each loop holds the one that it uses, and replaces it between turns.
 */
struct app_snapshot {
    _Atomic unsigned refs;
    struct app_settings s;
    struct networks trusted;            /* of s.trusted_proxies */
    struct networks route_trace;        /* of s.route_trace */
    struct networks providers;          /* of s.provider_networks */
    struct cache_names private_headers; /* of s.private_headers */
    struct limit_set *limits;           /* one reference, or NULL: no limits */
    struct header_rules *headers;       /* one reference, or NULL: no header rules */
    struct rate_rules *rates;           /* one reference, or NULL: no rates */
};
/* A copy of S with one reference; and with rules (NULL: none), of which it acquires references. */
struct app_snapshot *app_snapshot_create(const struct app_settings *s, struct limit_set *limits,
                                         struct header_rules *headers, struct rate_rules *rates);
struct app_snapshot *app_snapshot_ref(struct app_snapshot *s);
/* Any thread. NULL is fine. */
void app_snapshot_unref(struct app_snapshot *s);

/* State of one application on one data loop; written by that loop alone, on own cache lines. */
struct application_loop {
    _Alignas(CACHE_LINE_BYTES) struct application *app;
    struct app_snapshot *settings; /* the effective snapshot on this loop; one reference */
    struct app_snapshot *next;     /* from the end of this turn on; one reference, or NULL */
    struct stats_cell *stats;
    _Atomic uint64_t outcomes[OUTCOMES];
    struct list exchanges; /* in progress on this loop; for drain and status */
    struct rejected_queue rejected;
    struct pool_counter_client *counters; /* to pool counter daemons; NULL: none was needed yet */
};

struct application {
    struct log_subject subject;
    struct lb *lb;
    char *name;
    unsigned number; /* its place among lb->applications */
    bool is_default;
    char *path_text;
    struct slice path; /* path_text: prefix without a trailing slash; "" is everything */
    struct classifier *classifier;
    struct pool *pool;            /* its own lock */
    struct response_store *store; /* its own lock; for limits */
    struct stored_memory stored_memory;
    struct conn_pool *conn_pool; /* its own locks */
    struct stats *stats; /* a cell per data loop, one more for the control loop (index nloops) */
    struct application_loop *loops; /* per data loop */
    struct membership *membership;  /* control thread only */
    struct tree *tree;              /* control thread only; NULL: none */
    struct live_settings *live;     /* control thread only; NULL: not followed */
    struct limits_live *limits;     /* control thread only */
    struct app_snapshot *settings;  /* control thread only: the newest */
    struct tls_workers worker_tls;  /* control thread only */
    struct error_pages error_pages; /* configured templates; none: built in */
    /*
     * Which members are in the pool and which of them may be picked (member.c). Held over calls of
     * pool.h, so that the pool sees changes in their order: members_lock before the pool's.
     */
    pthread_mutex_t members_lock;
    size_t njoined;             /* in the pool */
    struct list members;        /* these; member.c's */
    bool tiered;                /* some have a priority number above 0 */
    unsigned best_priority;     /* then: the number of those that are used */
    size_t navailable;          /* of those, for no reason unavailable */
    struct list ejections;      /* effective ones; member.c's, under members_lock */
    struct ejection_rule eject; /* under members_lock */
    _Atomic size_t noffered;    /* ejected workers that the next GET probes (member.c) */
    _Atomic size_t nrejected;   /* in the queues of all loops (route_wait.h) */
    struct retry_budget retry_budget;
    struct poison *poison;                           /* its own lock */
    struct pool_counter_health *pool_counter_health; /* its own lock: of the pool counter daemons */
    struct live_settings_counts live_reported;       /* counts of `live` that the metrics include */
    void (*live_changed)(struct application *a);
};

extern const struct stats_table application_stats;

/* Takes classifier, error page and TLS of CONFIG. No loops or workers yet. Control thread. */
struct application *application_create(struct lb *lb, struct application_config *config);
/* Creates the connection pool and each loop's part. The NLOOPS data loops must exist. */
void application_attach(struct application *a, struct loop *const *loops, unsigned nloops);
/* Must be called when no worker, exchange or running loop is left. NULL is fine. */
void application_destroy(struct application *a);

/* Publishes S: here, in the pool, and on each loop at the end of its next turn. Control thread. */
void application_publish(struct application *a, const struct app_settings *s);
/*
 * The same with other limits, header rules and rates (NULL: none), of which it acquires
 * references. A rate of the same name continues with the counts.
 */
void application_set_rules(struct application *a, struct limit_set *limits,
                           struct header_rules *headers, struct rate_rules *rates);
/* The same with other limits alone. */
void application_set_limits(struct application *a, struct limit_set *limits);
/* On a data loop, after each turn: makes the latest published snapshot effective, if any. */
void application_take_settings(struct application_loop *al);
/* On data loop L: its client of the pool counter daemons, created when it is first needed. */
struct pool_counter_client *application_counters(struct application_loop *al, struct loop *l);
/* On a data loop, at its end: no exchange is left. */
void application_loop_end(struct application_loop *al);
/* The control thread's cell of A->stats. */
struct stats_cell *application_control_stats(const struct application *a);

/*
 * Sets A->live: the engine of common/tree/live_settings.h over the application's two tables, with
 * its rules across fields. Control thread; live_settings_destroy ends it.
 *   path     its node in the tree, for people
 *   changed  called after each publication
 */
void application_live_start(struct application *a, const struct application_config *config,
                            const char *path, void (*changed)(struct application *a));
/*
 * Adds to A's metrics the difference between NOW, the counts of live settings, and the counts that
 * were added before (the last parameter), which are then set to NOW.
 */
void application_count_settings(struct application *a, const struct live_settings_counts *now,
                                struct live_settings_counts *reported);

/* Hosts of all applications to the application: made after they are, constant while loops run. */
struct application_index *application_index_create(struct application *const *applications,
                                                   size_t n);
void application_index_destroy(struct application_index *x);

/*
 * The application that serves HOST (as sent, with port) and PATH, or NULL. Exact host before the
 * longest wildcard before the default; within a host the longest path prefix. Any thread.
 */
struct application *application_find(const struct lb *lb, struct slice host, struct slice path);
/* The application that serves every host and path, or NULL if there is none. Any thread. */
struct application *application_only(const struct lb *lb);

/* Where exchanges of a loop find their part of an application. */
static inline struct application_loop *application_on(struct application *a, unsigned loop_index)
{
    return &a->loops[loop_index];
}

/* What exchanges of this loop read of AL->settings is valid for this turn. */
static inline const struct app_settings *application_settings(const struct application_loop *al)
{
    return &al->settings->s;
}
