/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool counter's key template, compiled: text with {class} and {VARIABLE}s. Immutable; owned by
 * its rule. Any thread, several at once.
 *
 *   "{HTTP_X_TENANT}/{class}"  ->  "NAME:acme/search"
 *   none, with mode any        ->  "NAME:GET|https|example.com|/a?b=c"
 *
 * Values never run into one another: a value's blanks, control bytes, '%' and non-ASCII are
 * percent-encoded, and so is the byte of the template that follows it, which ends it; where another
 * value follows (or a '%'), it ends in '|'. So different values give different keys. {class} is
 * percent-encoded already. A variable that is not there is as an empty one;
 * host names are in lower case.
 */
#ifndef RLB_LB_LIMITS_LIMIT_KEY_H
#define RLB_LB_LIMITS_LIMIT_KEY_H

#include "lb/limits/limit_match.h"

enum {
    /* NAME ":" and what the template gives; a longer one is cut, and ends in a hash of all. */
    LIMIT_KEY_MAX = 400,
    /* A template is written by hand. */
    LIMIT_TEMPLATE_MAX = 256,
    /* Of texts and values; each HTTP_* looks through the header. */
    LIMIT_TEMPLATE_PARTS_MAX = 16,
    /* Hex digits at the end of a key that was cut. */
    LIMIT_KEY_HASH = 32,
};

struct limit_key;
/*
 * TEMPLATE NULL: what MODE (LIMIT_EACH, LIMIT_ANY) has by default. NULL on error; P names what is
 * wrong, and at which character.
 */
struct limit_key *limit_key_compile(const char *template, int mode, struct limit_problem *p);
/* NULL is fine. */
void limit_key_destroy(struct limit_key *k);
/*
 * NAME ":" and what the template gives, to OUT. What would be LIMIT_KEY_MAX bytes or more is cut to
 * exactly so many, which end in '~' and a hash (128 bits of SHA-256) of the whole: clients choose
 * what goes in, and must not find two that are the same.
 */
struct slice limit_key_make(const struct limit_key *k, const char *name, struct slice cls,
                            const struct classify_request *r, char out[LIMIT_KEY_MAX]);

#endif
