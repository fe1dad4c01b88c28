/* SPDX-License-Identifier: Apache-2.0
 *
 * The patterns of a pool counter, compiled: which requests it counts. Immutable; owned by its rule.
 * Any thread, several at once. Nothing is allocated for a request, whatever its path is (but the
 * scratch memory of searches, which is kept).
 */
#ifndef RLB_LB_LIMITS_LIMIT_MATCH_H
#define RLB_LB_LIMITS_LIMIT_MATCH_H

#include "lb/rules/classify.h"
#include "lb/settings/settings.h"

enum {
    /* exact: and prefix: are written by hand; so is a regex (classifiers/search.h). */
    LIMIT_PATTERN_MAX = 1024,
};

/* An error of a rule. */
struct limit_problem {
    const char *row; /* the setting at fault; constant */
    char why[SETTINGS_WHY_ROOM];
};

struct limit_match;
/* *OUT is NULL when no pattern is given: all requests fit. Returns false, with the reason in P. */
bool limit_match_compile(const struct counter_settings *s, struct limit_match **out,
                         struct limit_problem *p) must_check;
/* NULL is fine. */
void limit_match_destroy(struct limit_match *m);
/*
 * Returns true if a request of class CLS (encoded) matches all patterns; M may be NULL. A search
 * that exceeds its limits counts as a match, so that a hostile path cannot evade a limit.
 */
bool limit_match_fits(const struct limit_match *m, struct slice cls,
                      const struct classify_request *r);

#endif
