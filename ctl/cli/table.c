/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cli/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void table_init(struct table *t, const struct table_column *columns, size_t ncolumns)
{
    ASSERT(ncolumns <= TABLE_COLUMNS_MAX);
    *t = (struct table){.columns = columns, .ncolumns = ncolumns};
}

void table_fini(struct table *t)
{
    for (size_t i = 0; i < t->ncells; ++i)
        free(t->cells[i]);
    free(t->cells);
    free(t->styles);
    t->cells = NULL;
    t->styles = NULL;
    t->ncells = 0;
}

void table_add(struct table *t, struct slice cell)
{
    struct text safe = {0};

    text_add_escaped(&safe, cell);
    /* Room in powers of two. */
    if ((t->ncells & (t->ncells - 1)) == 0) {
        size_t room = t->ncells == 0 ? 1 : t->ncells * 2;

        t->cells = xrealloc(t->cells, room * sizeof(t->cells[0]));
        t->styles = xrealloc(t->styles, room); /* more than there are rows */
    }
    t->styles[t->ncells / t->ncolumns] = TABLE_PLAIN;
    t->cells[t->ncells++] = xslicedup(text_slice(&safe));
    text_fini(&safe);
}

void table_style(struct table *t, enum table_style style)
{
    ASSERT(t->ncells != 0);
    ASSERT(t->ncells % t->ncolumns == 0);
    t->styles[t->ncells / t->ncolumns - 1] = (unsigned char)style;
}

const char *table_style_begin(enum table_style style)
{
    static const char *const begins[] = {
        [TABLE_PLAIN] = "",         [TABLE_GOOD] = "\033[32m", [TABLE_WARNING] = "\033[33m",
        [TABLE_BAD] = "\033[1;31m", [TABLE_FAINT] = "\033[2m",
    };

    ASSERT((unsigned)style < ARRAY_LEN(begins));
    return begins[style];
}

void table_addf(struct table *t, const char *fmt, ...)
{
    char cell[128];
    va_list args;

    va_start(args, fmt);
    vsnprintf(cell, sizeof(cell), fmt, args);
    va_end(args);
    table_add(t, slice_of(cell));
}

static void pad(struct text *out, size_t n)
{
    while (n-- != 0)
        text_add_char(out, ' ');
}

static void print_row(const struct table *t, const char *const *cells, const size_t *widths,
                      struct text *out)
{
    for (size_t i = 0; i < t->ncolumns; ++i) {
        size_t len = strlen(cells[i]);

        if (i != 0)
            pad(out, 2);
        if (t->columns[i].right)
            pad(out, widths[i] - len);
        text_add(out, slice_of(cells[i]));
        /* No blanks at the end of a line. */
        if (!t->columns[i].right && i + 1 != t->ncolumns)
            pad(out, widths[i] - len);
    }
    text_add_char(out, '\n');
}

void table_print(const struct table *t, size_t indent, struct text *out)
{
    size_t widths[TABLE_COLUMNS_MAX];
    const char *titles[TABLE_COLUMNS_MAX];

    ASSERT(t->ncells % t->ncolumns == 0);
    if (t->ncells == 0)
        return;
    for (size_t i = 0; i < t->ncolumns; ++i) {
        titles[i] = t->columns[i].title;
        widths[i] = strlen(titles[i]);
    }
    for (size_t i = 0; i < t->ncells; ++i) {
        size_t len = strlen(t->cells[i]);

        if (len > widths[i % t->ncolumns])
            widths[i % t->ncolumns] = len;
    }
    pad(out, indent);
    print_row(t, titles, widths, out);
    for (size_t i = 0; i < t->ncells; i += t->ncolumns) {
        enum table_style style = t->colours ? t->styles[i / t->ncolumns] : TABLE_PLAIN;

        text_add(out, slice_of(table_style_begin(style)));
        pad(out, indent);
        print_row(t, (const char *const *)t->cells + i, widths, out);
        if (style != TABLE_PLAIN) {
            /* Before the end of the line, where a terminal may scroll. */
            --out->len;
            text_add(out, SLICE_LIT(TABLE_STYLE_END "\n"));
        }
    }
}
