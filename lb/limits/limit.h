/* SPDX-License-Identifier: Apache-2.0
 *
 * A limit as it is configured: which requests it counts, under which key, and what happens to
 * those over it. Immutable once made; a set of them (struct limit_set) is part of an
 * application's snapshot, so that nothing changes in the middle of a turn. What is counted, over
 * all loops, is in the limit's struct limit_counter, which outlives every change of the limit: same
 * name, same counter. A counter is reference counted, by the limits that name it and by each
 * request that holds it or waits for it; so a limit may be removed while its leases are held. Any
 * thread.
 */
#pragma once

#include "common/base/map.h"
#include "common/counters/counter.h"
#include "common/stats/topk.h"
#include "lb/limits/request_match.h"

#include <pthread.h>

enum {
    /* Maximum number of limits of an application: each request checks all of them. */
    LIMITS_MAX = 64,
    /* Maximum number of leases of a request; for further ones on_unreachable applies. */
    LIMIT_LEASES_MAX = 8,
    /* Maximum number of these at a daemon, each of which uses a connection. */
    LIMIT_DAEMON_LEASES_MAX = 4,
    /* Maximum length of a limit's name: a node of the tree, a label, and the type of its keys. */
    LIMIT_NAME_MAX = 64,
    /* Maximum number of keys of a counter in use; each has at least one request in flight. */
    LIMIT_KEYS_MAX = 1000000,
    LIMIT_WAITERS_MAX = 1000000,
};

/* Results of a counter. One cell for all loops, as counting is done under the mutex. */
struct limit_figures {
    _Atomic uint64_t coalesced, stale;                /* stored responses served */
    _Atomic uint64_t rejected_full, rejected_timeout; /* responses of the load balancer */
    _Atomic uint64_t rejected_connections;            /* responses of the load balancer */
    _Atomic uint64_t shadow_full, shadow_busy; /* would have been rejected, or would have waited */
    _Atomic uint64_t unreachable_open, unreachable_closed;
    _Atomic uint64_t abandoned;                   /* the client closed while the request waited */
    _Atomic uint64_t daemon_held, daemon_waiting; /* gauges, with where: daemon */
    _Atomic uint64_t daemon_acquired, daemon_lost;
};

struct limit_counter {
    _Atomic unsigned refs;
    char *name;
    pthread_mutex_t lock; /* protects table, coalescing, top and limits */
    struct counter_table *table;
    /* where: daemon with mode any: requests of this load balancer for the same key. Separate, as
     * the limits of `table` bind requests that stay there when `where` changes. */
    struct counter_table *coalescing;
    struct topk *top;             /* keys by waiting time */
    struct counter_limits limits; /* last limits set */
    struct limit_figures figures;

    /* Used by the control thread (limits_live.c). */
    struct map_node node; /* in the table of counters, by name */
    bool used;            /* used by an effective limit */
};

struct limit_counter *limit_counter_create(const char *name);
struct limit_counter *limit_counter_ref(struct limit_counter *c);
/* NULL is allowed. */
void limit_counter_unref(struct limit_counter *c);

struct limit {
    char *name;
    struct limit_settings s;
    bool stores;                   /* the limit coalesces or serves stale responses */
    struct text page;              /* page of its rejections; empty: that of the application */
    struct limit_counter *counter; /* one reference */
    struct request_match *match;
};

struct limit_set {
    _Atomic unsigned refs;
    bool any_stores; /* some limit coalesces or serves stale responses */
    size_t n;
    struct limit *limits; /* in the order they are acquired: YAML's, then the tree's by name */
};
/* NULL gives NULL. */
struct limit_set *limit_set_ref(struct limit_set *r);
/* Any thread. NULL is allowed. */
void limit_set_unref(struct limit_set *r);

/*
 * Compiles S, the limit NAME, into OUT, without a page or a counter; both are copied. Checks the
 * limits across fields. Returns false with the reason in P; then OUT must not be freed.
 */
bool limit_compile(const char *name, const struct limit_settings *s, struct limit *out,
                   struct limit_problem *p) must_check;
void limit_fini(struct limit *limit);
/* Whether NAME is 1 to LIMIT_NAME_MAX of A-Z a-z 0-9 . _ - and does not begin with a dot. */
bool limit_name_is_valid(struct slice name);
/* Complains about NAME in the setting WHAT if it is not. */
void limit_name_check(const struct config *c, const struct config_node *at, const char *what,
                      struct slice name, struct diag *d);
/* Creates a set with one reference. Takes ownership of what LIMITS own; copies the array. */
struct limit_set *limit_set_create(const struct limit *limits, size_t n);
