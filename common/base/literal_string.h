/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside literal.[ch]: its strings, and where a reader of literals is.
 */
#ifndef RLB_BASE_LITERAL_STRING_H
#define RLB_BASE_LITERAL_STRING_H

#include "common/base/literal.h"

struct literal_reader {
    struct slice s;
    size_t at;
    size_t entries; /* that may still come */
    enum err error; /* the first one */
    struct literal_problem problem;
};

/* Note a problem, if it is the first. */
void literal_fail(struct literal_reader *r, enum err e, size_t at, const char *why);
/* Whether a string, with or without a prefix, is next. */
bool literal_string_begins(const struct literal_reader *r);
/* It, and those that follow it directly, as one. NULL: R has the problem. */
json_t *literal_parse_string(struct literal_reader *r);
/* S in quotes. */
void literal_print_string(struct slice s, struct text *out);

#endif
