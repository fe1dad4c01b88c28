/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a page of another version of the program: any member may be missing or of another type.
 * Pure functions over borrowed values.
 */
#pragma once

#include "common/base/text.h"
#include "ctl/cli/ctl.h"

#include <jansson.h>

/* ---- tables ---- */

/*
 * Rows of cells, printed in aligned columns. Cells are copied and made safe for a terminal: what is
 * shown comes from other machines. Embedded; table_begin, table_fini.
 */

enum { TABLE_COLUMNS_MAX = 16 };

/* The color of a row, on terminals with colors. */
enum table_style { TABLE_PLAIN, TABLE_GOOD, TABLE_WARNING, TABLE_BAD, TABLE_FAINT };

struct table {
    struct {
        const char *format; /* for page_print_rows() */
        bool right;         /* numbers */
    } columns[TABLE_COLUMNS_MAX];
    size_t ncolumns;
    char *titles; /* of table_begin() */
    char **cells; /* row after row, the titles first */
    size_t ncells;
    unsigned char *styles; /* of each row; TABLE_PLAIN unless they are set */
};

/* The columns as text: "policy|>loads|>rate", '>' before those of numbers. */
void table_begin(struct table *t, const char *titles);
void table_fini(struct table *t);
/* Prints the table, indented by 2, and frees it. */
void table_end(struct table *t, struct text *out);
static inline bool table_has_rows(const struct table *t)
{
    return t->ncells > t->ncolumns;
}
/* The next cell, from left to right; a row ends with its last column. */
void table_add(struct table *t, struct slice cell);
void table_addf(struct table *t, const char *fmt, ...) printf_like(2, 3);
/* A cell for each word of what FMT makes, such as "%zu %.2f". */
void table_numbers(struct table *t, const char *fmt, ...) printf_like(2, 3);
/* The escape sequences that begin a style, by enum table_style, and end any style on a terminal. ""
 * for TABLE_PLAIN. */
extern const char *const table_styles[];
#define TABLE_STYLE_END "\033[0m"
/* Title line and rows, each after INDENT blanks. A table without rows prints nothing. */
void table_print(const struct table *t, size_t indent, struct text *out);

/* ---- pages ---- */

/* A number as integer; 0 for anything else. */
int64_t page_int(const json_t *object, const char *name);
/* As double; likewise. */
double page_number(const json_t *object, const char *name);
bool page_is_true(const json_t *object, const char *name);
/* Adds the program's text to a line for a human reader: quotes are not escaped; terminal control
 * characters are. */
void page_add_words(struct text *out, struct slice words);
/* Seconds as "3d 4h", "2h 5m", "1m 7s", "12s". */
void page_add_duration(struct text *out, double seconds);
/*
 * Adds FORMAT with members of OBJECT in the place of "{member}" or "{member.of.a.member}". One that
 * is missing or of another type is "-".
 *   {m}            a text, escaped
 *   {m:w}          a text by page_add_words()
 *   {m:i}, {m:d}   a whole number; with d, 0 if it is missing
 *   {m:%.2f s}     a number, as printf formats a double
 *   {m:t}          seconds as a duration
 *   {m:T}, {m:m}   seconds since the epoch as date and time, UTC; with m, without the seconds
 *   [ ... ]        left out if the first member in it is missing, false, 0 or empty
 *   {m:?}, {m:!}   nothing: a first member that is a condition; with !, the opposite one
 */
void page_add(struct text *out, const json_t *object, const char *format);
/* The same for each of the array OBJECTS. "{}" is one that is a text itself. */
void page_add_each(struct text *out, const json_t *objects, const char *format);
/* Whether the application's policy has a cutoff (max_backlog), or is unknown. */
bool page_has_cutoff(const json_t *application);

typedef enum table_style (*page_style_fn)(const json_t *object);

/*
 * The first TOP (0: all) of the array ROWS; nothing if it is empty. COLUMNS: as of table_begin(),
 * each with '=' and the format of its cells (page_add()), which begins with '{' or '['; an empty
 * cell is "-", unless the column has no title. STYLE NULL: without colors.
 */
void page_print_rows(const char *columns, const json_t *rows, size_t top, page_style_fn style,
                     struct text *out);

/* ---- applications ---- */

/* Errors: ERR_SYNTAX (no applications in it), ERR_NOT_FOUND (not the one that O asks for). */
enum err page_check(const json_t *page, const struct ctl_options *o) must_check;
typedef void (*page_application_fn)(const char *name, json_t *application,
                                    const struct ctl_options *o, struct text *out);
/* PRINT the one that O asks for, or all, with an empty line before each but the first of OUT.
 * Errors: as of page_check(). */
enum err page_each_application(const json_t *page, const struct ctl_options *o,
                               page_application_fn print, struct text *out) must_check;
