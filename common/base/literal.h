/* SPDX-License-Identifier: Apache-2.0
 *
 * Values as Python writes them: strings, numbers, lists, tuples, dicts, True, False, None. They are
 * read, never evaluated. A string may turn out to be bytes that are no text; jansson's string then
 * holds them all the same. Pure functions; any thread.
 */
#ifndef RLB_BASE_LITERAL_H
#define RLB_BASE_LITERAL_H

#include "common/base/err.h"
#include "common/base/limits.h"
#include "common/base/text.h"

#include <jansson.h>

enum {
    /* Of lists and dicts: as deep as JSON may be inside a node's own object. */
    LITERAL_DEPTH_MAX = JSON_DEPTH_MAX - 1,
};

struct literal_problem {
    size_t at; /* byte of the text */
    const char *why;
};

/*
 * Read all of S, blanks around it allowed, as one value; a tuple is a list. In a plain or b''
 * string \xHH and \OOO are bytes (what zc.zk wrote in Python 2 means that), in a u'' string
 * code points; \uHHHH is a code point in both but b''.
 *   entries  how many values may still come, counted down
 * Errors: ERR_SYNTAX, ERR_TOO_LARGE, ERR_RANGE (a number), all told in P.
 */
enum err literal_parse(struct slice s, size_t *entries, json_t **out,
                       struct literal_problem *p) must_check;
/*
 * V on one line, appended, so that it reads back as the same value, and on a terminal does no harm.
 * Keys are sorted. A u prefix stands only where an escape needs it, b only where bytes are no text.
 */
void literal_print(const json_t *v, struct text *out);

/* Whether S is text as JSON can hold it: well-formed UTF-8 without NUL. */
bool literal_is_text(struct slice s);
/* Whether S may be shown as it is: UTF-8 without control and invisible characters. */
bool literal_is_visible(struct slice s);

#endif
