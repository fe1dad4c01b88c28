/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of cells, printed in aligned columns. Cells are copied and made safe for a terminal: what is
 * shown comes from other machines. Embedded; table_init, table_fini.
 */
#ifndef RLB_CTL_TABLE_H
#define RLB_CTL_TABLE_H

#include "common/base/text.h"

enum { TABLE_COLUMNS_MAX = 16 };

struct table_column {
    const char *title;
    bool right; /* numbers */
};

struct table {
    const struct table_column *columns;
    size_t ncolumns;
    char **cells; /* row after row */
    size_t ncells;
};

void table_init(struct table *t, const struct table_column *columns, size_t ncolumns);
void table_fini(struct table *t);
/* The next cell, from left to right; a row ends with its last column. */
void table_add(struct table *t, struct slice cell);
void table_addf(struct table *t, const char *fmt, ...) printf_like(2, 3);
/* Title line and rows, each after INDENT blanks. A table without rows prints nothing. */
void table_print(const struct table *t, size_t indent, struct text *out);

#endif
