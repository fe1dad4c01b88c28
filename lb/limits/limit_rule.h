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
#include <stdatomic.h>

enum {
    /* Rules of one application, YAML's and the tree's together: each request checks all of them. */
    LIMIT_RULES_MAX = 64,
    /* Counters that one request may hold: rules that fit beyond it refuse the request, 500. */
    LIMIT_CLAIMS_MAX = 8,
    /* Of these at a daemon, each with a connection of its own. */
    LIMIT_DAEMON_CLAIMS_MAX = 4,
    /* A rule's name is a node's name in the tree, a label in metrics and the type of its keys. */
    LIMIT_NAME_MAX = 64,
    /* Keys of one counter with a holder or a waiter; each has at least one request in flight. */
    LIMIT_KEYS_MAX = 1000000,
    LIMIT_WAITERS_MAX = 1000000,
};

/* Results of a counter; one cell for all loops, because each count is made under the mutex. */
struct limit_figures {
    _Atomic uint64_t coalesced, stale;              /* answers from a copy */
    _Atomic uint64_t refused_full, refused_timeout; /* answers of ours */
    _Atomic uint64_t refused_connections;           /* the same */
    _Atomic uint64_t shadow_full, shadow_busy;      /* would have been refused; would have waited */
    _Atomic uint64_t unreachable_open, unreachable_closed;
    _Atomic uint64_t abandoned;                   /* the client left while it waited */
    _Atomic uint64_t daemon_held, daemon_waiting; /* gauges, of where: daemon */
    _Atomic uint64_t daemon_locked, daemon_lost;
};

struct limit_counter {
    _Atomic unsigned refs;
    char *name;
    pthread_mutex_t lock; /* table, coalescing, top, limits */
    struct counter_table *table;
    /* where: daemon with mode any: requests of this load balancer for the same key. Separate, as
     * the limits of `table` bind requests that stay there when `where` changes. */
    struct counter_table *coalescing;
    struct topk *top;             /* keys by time waited */
    struct counter_limits limits; /* as set last */
    struct limit_figures figures;

    /* The control thread's (limits_live.c). */
    struct map_node node; /* counters by name */
    bool used;            /* by an effective rule */
};

struct limit_counter *limit_counter_create(const char *name);
struct limit_counter *limit_counter_ref(struct limit_counter *c);
/* NULL is fine. */
void limit_counter_unref(struct limit_counter *c);

struct limit_rule {
    char *name;
    struct counter_settings s;
    bool copies;                   /* it coalesces or serves stale copies */
    struct text page;              /* of its refusals; empty: the application's */
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
/* Any thread. NULL is fine. */
void limit_rules_unref(struct limit_rules *r);

/*
 * The rule called NAME of S, both copied, without a page or a counter, to OUT; and the rules across
 * its fields. Returns false, with the reason in P, and OUT is nothing to free.
 */
bool limit_rule_compile(const char *name, const struct counter_settings *s, struct limit_rule *out,
                        struct limit_problem *p) must_check;
void limit_rule_fini(struct limit_rule *rule);
/* Letters, digits, . _ - and at most LIMIT_NAME_MAX of them, not beginning with a dot. */
bool limit_name_is_good(struct slice name);
/*
 * N rules as a set with one reference. Takes what the rules have; not the array, which is copied.
 */
struct limit_rules *limit_rules_create(const struct limit_rule *rules, size_t n);

#endif
