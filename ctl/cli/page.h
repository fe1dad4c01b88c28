/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a page of another version of the program: any member may be missing or of another type.
 * Pure functions over borrowed values.
 */
#ifndef RLB_CTL_CLI_PAGE_H
#define RLB_CTL_CLI_PAGE_H

#include "common/base/text.h"
#include "ctl/cli/ctl.h"

#include <jansson.h>

/* ---- tables ---- */

/*
 * Rows of cells, printed in aligned columns. Cells are copied and made safe for a terminal: what is
 * shown comes from other machines. Embedded; table_init, table_fini.
 */

enum { TABLE_COLUMNS_MAX = 16 };

struct table_column {
    const char *title;
    bool right; /* numbers */
};

/* The color of a row, on terminals with colors. */
enum table_style { TABLE_PLAIN, TABLE_GOOD, TABLE_WARNING, TABLE_BAD, TABLE_FAINT };

struct table {
    const struct table_column *columns;
    size_t ncolumns;
    char **cells; /* row after row */
    size_t ncells;
    unsigned char *styles; /* of each row that is complete */
    bool colours;          /* print them; may be set after table_init */
};

void table_init(struct table *t, const struct table_column *columns, size_t ncolumns);
void table_fini(struct table *t);
/* The next cell, from left to right; a row ends with its last column. */
void table_add(struct table *t, struct slice cell);
void table_addf(struct table *t, const char *fmt, ...) printf_like(2, 3);
/* How the last row, which is complete, is shown. */
void table_style(struct table *t, enum table_style style);
/* The escape sequences that begin STYLE and end any style on a terminal. "" for TABLE_PLAIN. */
const char *table_style_begin(enum table_style style);
#define TABLE_STYLE_END "\033[0m"
/* Title line and rows, each after INDENT blanks. A table without rows prints nothing. */
void table_print(const struct table *t, size_t indent, struct text *out);

/* ---- pages ---- */

/* A number as integer; 0 for anything else. */
int64_t page_int(const json_t *object, const char *name);
/* A cell for each kind of member; "-" when it is not there. */
void cell_text(struct table *t, const json_t *object, const char *name);
void cell_int(struct table *t, const json_t *object, const char *name);
/* FMT prints a double. */
void cell_real(struct table *t, const json_t *object, const char *name, const char *fmt);
/* Adds a text on one line, "-" if it is missing. */
void page_add_text(struct text *out, const json_t *object, const char *name);
/* Adds the program's text to a line for a human reader: quotes are not escaped; terminal control
 * characters are. */
void page_add_words(struct text *out, struct slice words);
/* Adds member "why" as text; "-" if it is missing. */
void page_add_why(struct text *out, const json_t *object);
void page_add_real(struct text *out, const json_t *object, const char *name);
/* Adds ", cutoff 9" if the application's policy has a cutoff, or is unknown. */
void page_add_cutoff(const json_t *application, struct text *out);
/* Seconds as "3d 4h", "2h 5m", "1m 7s", "12s". */
void page_add_duration(struct text *out, double seconds);

/* A line for each setting of the tree that is refused, and each link that does not resolve. */
void page_print_refused(const json_t *application, struct text *out);

/* Errors: ERR_SYNTAX (no applications in it), ERR_NOT_FOUND (not the one that O asks for). */
enum err page_check(const json_t *page, const struct ctl_options *o) must_check;
typedef void (*page_application_fn)(const char *name, json_t *application,
                                    const struct ctl_options *o, struct text *out);
/* PRINT the one that O asks for, or all, with an empty line before each but the first of OUT. */
void page_each_application(const json_t *page, const struct ctl_options *o,
                           page_application_fn print, struct text *out);

#endif
