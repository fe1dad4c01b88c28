/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of cells, printed in aligned columns. Cells are copied and made safe for a terminal: what is
 * shown comes from other machines. Embedded; table_init, table_fini.
 */
#ifndef RLB_CTL_CLI_TABLE_H
#define RLB_CTL_CLI_TABLE_H

#include "common/base/text.h"

enum { TABLE_COLUMNS_MAX = 16 };

struct table_column {
    const char *title;
    bool right; /* numbers */
};

/* What a row tells, on a terminal that shows colours. */
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
/* What begins STYLE on a terminal, and what ends each. "" for TABLE_PLAIN. */
const char *table_style_begin(enum table_style style);
#define TABLE_STYLE_END "\033[0m"
/* Title line and rows, each after INDENT blanks. A table without rows prints nothing. */
void table_print(const struct table *t, size_t indent, struct text *out);

#endif
