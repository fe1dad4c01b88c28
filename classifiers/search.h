/* SPDX-License-Identifier: Apache-2.0
 *
 * A regular expression to search bytes from clients: the subject, the work and the memory of one
 * search are bounded. Immutable once compiled, except for the scratch memory of searches, which is
 * retained for the next; owned by its creator. Any thread, several at once.
 */
#ifndef RLB_CLASSIFIERS_SEARCH_H
#define RLB_CLASSIFIERS_SEARCH_H

#include "common/base/text.h"

#include <stdint.h>

enum {
    /* A pattern is written by hand. */
    SEARCH_PATTERN_BYTES_MAX = 4096,
    /* As long as a request line may sensibly be. */
    SEARCH_SUBJECT_BYTES_MAX = 8192,
};

enum search_result {
    SEARCH_NONE,
    SEARCH_FOUND,
    SEARCH_EXCEEDED, /* not known: the subject is too long, or a bound was reached */
};

struct search;

/* Room for a reason of search_compile. */
#define SEARCH_WHY_ROOM 200
/* NULL on error, with the reason in WHY, with the place within PATTERN. */
struct search *search_compile(const char *pattern, char why[SEARCH_WHY_ROOM]);
/* NULL is fine. */
void search_destroy(struct search *s);

enum search_group_result { SEARCH_GROUP_FOUND, SEARCH_GROUP_NONE, SEARCH_GROUP_SEVERAL };
/* The number of the group called NAME. */
enum search_group_result search_group(const struct search *s, const char *name, uint32_t *number);

/*
 * Search SUBJECT; bytes are bytes. When found, *PART is what group number GROUP has taken (0: all
 * of it), within SUBJECT; p == NULL when that group took no part.
 */
enum search_result search_run(const struct search *s, struct slice subject, uint32_t group,
                              struct slice *part);

#endif
