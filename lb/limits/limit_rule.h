/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool counter as it is configured: which requests it counts, under which key, and what happens
 * to those over its limits. Immutable once made; a set of them (struct limit_rules) is part of an
 * application's snapshot, so that nothing changes in the middle of a turn. What is counted is in
 * the rule's struct limit_counter, which outlives every change of the rule: same name, same
 * counter. Any thread.
 */
#ifndef RLB_LB_LIMITS_LIMIT_RULE_H
#define RLB_LB_LIMITS_LIMIT_RULE_H

#include "lb/limits/limit_key.h"
#include "lb/limits/limit_match.h"

enum {
    /* Rules of one application, YAML's and the tree's together: each request checks all of them. */
    LIMIT_RULES_MAX = 64,
    /* Counters that one request may hold: rules that fit beyond it refuse the request, 500. */
    LIMIT_CLAIMS_MAX = 8,
    /* Of these at a daemon, each with a connection of its own. */
    LIMIT_DAEMON_CLAIMS_MAX = 4,
    /* A rule's name is a node's name in the tree, a label in metrics and the type of its keys. */
    LIMIT_NAME_MAX = 64,
};

struct limit_counter;

struct limit_rule {
    char *name;
    struct counter_settings s;
    struct text page;              /* of its refusals; empty: the application's */
    struct limit_counter *counter; /* one reference */
    struct limit_match *match;
    struct limit_key *key;
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

/* Whether RULE counts this request. */
bool limit_rule_fits(const struct limit_rule *rule, struct slice cls,
                     const struct classify_request *r);
/* The request's key under RULE, written to OUT: "NAME:...". */
struct slice limit_rule_key(const struct limit_rule *rule, struct slice cls,
                            const struct classify_request *r, char out[LIMIT_KEY_MAX]);

#endif
