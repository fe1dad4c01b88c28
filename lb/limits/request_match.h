/* SPDX-License-Identifier: Apache-2.0
 *
 * What a limit or a rate counts, compiled: the patterns that a request must match, and the
 * template of the key under which it is counted. Immutable; owned by its limit or rate. Any thread,
 * several at once. Matching allocates no memory for a request, whatever its path is (except for the
 * scratch memory of searches, which is reused).
 *
 *   "{HTTP_X_TENANT}/{class}"  ->  "NAME:acme/search"
 *   none, with mode any        ->  "NAME:GET|https|example.com|/a?b=c"
 *
 * Values never run into one another: a value's blanks, control bytes, '%' and non-ASCII are
 * percent-encoded, and so is the byte of the template that follows it, which ends it; where another
 * value follows (or a '%'), it ends in '|'. So different values give different keys. {class} is
 * percent-encoded already. A missing variable is like an empty one; host names are in lower case.
 */
#pragma once

#include "lb/rules/classify.h"
#include "lb/settings/settings.h"

enum {
    /* Maximum length of exact: and prefix: patterns; for regex: see classifiers/search.h. */
    LIMIT_PATTERN_MAX = 1024,
    /* NAME ":" and what the template gives; a longer one is cut, and ends in a hash of all. */
    LIMIT_KEY_MAX = 400,
    /* Maximum length of a key's template. */
    LIMIT_TEMPLATE_MAX = 256,
    /* Hex digits at the end of a key that was cut. */
    LIMIT_KEY_HASH = 32,
};

/* An error of a limit or a rate. */
struct limit_problem {
    const char *row; /* the setting at fault; constant */
    char why[SETTINGS_WHY_ROOM];
};

/* Sets P. Returns false, so that the caller can return the result. */
bool limit_problem_set(struct limit_problem *p, const char *row, const char *why);

/* Returns the node of setting ROW in MAP or in its `match`; MAP if neither has it. */
const struct config_node *limit_row_node(const struct config_node *map, const char *row);
/* Whether MAP, the setting WHAT, is a map of at most MAX rules; complains if not. */
bool limit_map_check(const struct config *c, const struct config_node *map, const char *what,
                     size_t max, struct diag *d);

struct request_match;
/*
 * The patterns (class, path, method) of S, and the key template KEY; KEY NULL: what MODE
 * (LIMIT_EACH, LIMIT_ANY) has by default. Returns NULL on error; P names the error.
 */
struct request_match *request_match_compile(const struct limit_settings *s, const char *key,
                                            int mode, struct limit_problem *p);
/* NULL is fine. */
void request_match_destroy(struct request_match *m);
/*
 * Returns true if a request of class CLS (encoded) matches all patterns. A search that exceeds its
 * limits counts as a match, so that a hostile path cannot evade a limit.
 */
bool request_match_fits(const struct request_match *m, struct slice cls,
                        const struct classify_request *r);
/*
 * NAME ":" and what the template gives, to OUT. What would be LIMIT_KEY_MAX bytes or more is cut to
 * exactly so many, which end in '~' and a hash (128 bits of SHA-256) of the whole: clients choose
 * what goes in, and must not find two that are the same.
 */
struct slice request_match_key(const struct request_match *m, const char *name, struct slice cls,
                               const struct classify_request *r, char out[LIMIT_KEY_MAX]);
