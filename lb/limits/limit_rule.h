/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool counter as it is configured: which requests it counts, under which key, and what happens
 * to those over its limits. Immutable once made; a set of them (struct limit_rules) is part of an
 * application's snapshot, so that nothing changes in the middle of a turn. What is counted, over
 * all loops, is in the rule's struct limit_counter, which outlives every change of the rule: same
 * name, same counter. A counter is reference counted, by the rules that name it and by each request
 * that holds it or waits for it; so a rule may be removed while its locks are held. Any thread.
 */
#ifndef RLB_LB_LIMITS_LIMIT_RULE_H
#define RLB_LB_LIMITS_LIMIT_RULE_H

#include "common/base/map.h"
#include "common/limiter/counter.h"
#include "common/stats/topk.h"
#include "lb/limits/request_match.h"

#include <pthread.h>

enum {
    /* Maximum number of rules of an application: each request checks all of them. */
    LIMIT_RULES_MAX = 64,
    /* Maximum number of counters of a request; for further ones on_unreachable applies. */
    LIMIT_CLAIMS_MAX = 8,
    /* Maximum number of these at a daemon, each of which uses a connection. */
    LIMIT_DAEMON_CLAIMS_MAX = 4,
    /* Maximum length of a rule's name: a node of the tree, a label, and the type of its keys. */
    LIMIT_NAME_MAX = 64,
    /* Maximum number of keys of a counter in use; each has at least one request in flight. */
    LIMIT_KEYS_MAX = 1000000,
    LIMIT_WAITERS_MAX = 1000000,
};

/* Results of a counter. One cell for all loops, as counting is done under the mutex. */
struct limit_figures {
    _Atomic uint64_t coalesced, stale;              /* responses from a copy */
    _Atomic uint64_t refused_full, refused_timeout; /* responses of the load balancer */
    _Atomic uint64_t refused_connections;           /* responses of the load balancer */
    _Atomic uint64_t shadow_full, shadow_busy; /* would have been rejected, or would have waited */
    _Atomic uint64_t unreachable_open, unreachable_closed;
    _Atomic uint64_t abandoned;                   /* the client closed while the request waited */
    _Atomic uint64_t daemon_held, daemon_waiting; /* gauges, with where: daemon */
    _Atomic uint64_t daemon_locked, daemon_lost;
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
    bool used;            /* used by an effective rule */
};

struct limit_counter *limit_counter_create(const char *name);
struct limit_counter *limit_counter_ref(struct limit_counter *c);
/* NULL is allowed. */
void limit_counter_unref(struct limit_counter *c);

struct limit_rule {
    char *name;
    struct counter_settings s;
    bool copies;                   /* the rule coalesces or serves stale copies */
    struct text page;              /* page of its rejections; empty: that of the application */
    struct limit_counter *counter; /* one reference */
    struct request_match *match;
};

struct limit_rules {
    _Atomic unsigned refs;
    bool any_copies; /* some rule coalesces or serves stale copies */
    size_t n;
    struct limit_rule *rules; /* in the order they are acquired: YAML's, then the tree's by name */
};
/* NULL gives NULL. */
struct limit_rules *limit_rules_ref(struct limit_rules *r);
/* Any thread. NULL is allowed. */
void limit_rules_unref(struct limit_rules *r);

/*
 * Compiles S, the rule NAME, into OUT, without a page or a counter; both are copied. Checks the
 * rules across fields. Returns false with the reason in P; then OUT must not be freed.
 */
bool limit_rule_compile(const char *name, const struct counter_settings *s, struct limit_rule *out,
                        struct limit_problem *p) must_check;
void limit_rule_fini(struct limit_rule *rule);
/* Whether NAME is 1 to LIMIT_NAME_MAX of A-Z a-z 0-9 . _ - and does not begin with a dot. */
bool limit_name_is_valid(struct slice name);
/* Complains about NAME in the setting WHAT if it is not. */
void limit_name_check(const struct config *c, const struct config_node *at, const char *what,
                      struct slice name, struct diag *d);
/* Creates a set with one reference. Takes ownership of what RULES own; copies the array. */
struct limit_rules *limit_rules_create(const struct limit_rule *rules, size_t n);

#endif
