/* SPDX-License-Identifier: Apache-2.0
 *
 * `rates` of an application: how often requests may come, by key. A rule is immutable once it is in
 * a snapshot; a set of them is reference counted. Which requests a rule is about, and under which
 * key, is as with pool counters (limit_match.h, limit_key.h). What exchanges do by it is in
 * receive.c, what operators see in status.c.
 */
#ifndef RLB_LB_LIMITS_RATE_RULE_H
#define RLB_LB_LIMITS_RATE_RULE_H

#include "lb/limits/limit_rule.h"
#include "lb/limits/rate_counter.h"

enum {
    /* Rules of one application: each request checks all of them. */
    RATE_RULES_MAX = 64,
};

struct rate_rule {
    char *name;
    struct rate rate;
    int status;
    bool retry_after, shadow;
    size_t max_keys;
    struct limit_match *match; /* NULL: all requests */
    struct limit_key *key;
    struct rate_counter *counter; /* one reference; NULL until rate_rules_attach */
};

struct rate_rules {
    _Atomic unsigned refs;
    size_t n;
    struct rate_rule rules[RATE_RULES_MAX];
};

/*
 * Compiles the rule NAME of S, with the patterns of MATCH (class, path, method), into OUT. Returns
 * false with the error in P; then OUT need not be freed.
 */
bool rate_rule_compile(const char *name, const struct rate_settings *s,
                       const struct counter_settings *match, struct rate_rule *out,
                       struct limit_problem *p) must_check;
void rate_rule_fini(struct rate_rule *rule);

/* NULL gives NULL. */
struct rate_rules *rate_rules_ref(struct rate_rules *r);
/* NULL is fine. */
void rate_rules_unref(struct rate_rules *r);
/* Each rule has its counter after this: OLD's of that name and size, else a new one. Control
 * thread. */
void rate_rules_attach(struct rate_rules *r, const struct rate_rules *old);

/* `rates` at NODE (NULL: none); problems to D. One reference, or NULL when there are none. */
struct rate_rules *rate_rules_read(const struct config *c, const struct config_node *node,
                                   struct diag *d);

#endif
