/* SPDX-License-Identifier: Apache-2.0
 *
 * A regular expression to search bytes from clients: the subject, the work and the memory of one
 * search are bounded. Immutable once compiled, except for the scratch memory of searches, which is
 * retained for the next; owned by its creator. Any thread, several at once.
 */
#pragma once

#include "common/base/text.h"

#include <stdint.h>

enum {
    /* Maximum length of a pattern, which is written by hand. */
    SEARCH_PATTERN_BYTES_MAX = 4096,
    /* Maximum length of a subject: that of a reasonable request line. */
    SEARCH_SUBJECT_BYTES_MAX = 8192,
};

enum search_result {
    SEARCH_NONE,
    SEARCH_FOUND,
    SEARCH_EXCEEDED, /* unknown: the subject is too long, or a bound was reached */
};

struct search;

/* Buffer size for a reason of search_compile(). */
#define SEARCH_WHY_ROOM 200
/* Returns NULL on error, with the reason and its position in PATTERN in WHY. */
struct search *search_compile(const char *pattern, char why[SEARCH_WHY_ROOM]);
/* NULL is allowed. */
void search_destroy(struct search *s);

/* Returns the number of the group NAME; 0 if there is none, < 0 if there are several. */
int search_group(const struct search *s, const char *name);

/*
 * Searches SUBJECT bytewise. On a match, *PART is the part of SUBJECT that group number GROUP has
 * matched (0: the whole match); p is NULL if that group did not take part.
 */
enum search_result search_run(struct search *s, struct slice subject, uint32_t group,
                              struct slice *part);
