/* SPDX-License-Identifier: Apache-2.0
 *
 * Values as Python writes them: strings, numbers, lists, tuples, dicts, True, False, None. They are
 * read, never evaluated. A string may be bytes that are not text; jansson's string then
 * holds these bytes. Pure functions; any thread.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/limits.h"
#include "common/base/text.h"

#include <jansson.h>

enum {
    /* Nesting of lists and dicts: the limit of JSON, less the node's own object. */
    LITERAL_DEPTH_MAX = JSON_DEPTH_MAX - 1,
};

struct literal_problem {
    size_t at; /* byte offset in the text */
    const char *why;
};

/*
 * Parses all of S, which may have blanks around it, as one value, and sets *OUT to a new reference
 * to it. A tuple becomes a list. In a plain or b'' string, \xHH and \OOO are bytes (as in zc.zk
 * under Python 2); in a u'' string they are code points, as is \uHHHH in plain and u'' strings.
 *   entries  remaining number of values; on success reduced by 1 for each, by 2 for collections
 * Errors: ERR_SYNTAX, ERR_TOO_LARGE, ERR_RANGE (a number); P describes each of them.
 */
enum err literal_parse(struct slice s, size_t *entries, json_t **out,
                       struct literal_problem *p) must_check;
/*
 * Appends V on one line in a form that parses to the same value and is safe to print on a terminal.
 * Keys are sorted. The prefix u is used only where an escape needs it, and b only for bytes that
 * are not valid text.
 */
void literal_print(const json_t *v, struct text *out);

/* Appends S in quotes, as literal_print does. */
void literal_print_string(struct slice s, struct text *out);

/* Returns true if JSON can represent S: well-formed UTF-8 without NUL. */
bool literal_is_text(struct slice s);
/* Returns true if S may be displayed unchanged: UTF-8 without control and invisible characters. */
bool literal_is_visible(struct slice s);
