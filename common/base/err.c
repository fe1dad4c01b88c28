/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/err.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const texts[ERR_COUNT] = {
#define ERROR(name, text) [ERR_##name] = (text),
#include "common/base/err.def"
};

const char *err_text(enum err e)
{
    ASSERT((unsigned)e < ERR_COUNT);
    return texts[e];
}

struct diag_line {
    char *file; /* NULL if unknown */
    size_t line, column;
    size_t bytes; /* length of the line in text */
};

void diag_fini(struct diag *d)
{
    for (size_t i = 0; i < d->nlines; ++i)
        free(d->lines[i].file);
    free(d->lines);
    free(d->text);
    *d = (struct diag){0};
}

static int compare_lines(const struct diag_line *a, const struct diag_line *b)
{
    if (a->file == NULL || b->file == NULL)
        return (a->file == NULL) - (b->file == NULL);
    int order = strcmp(a->file, b->file);

    /* 0, which means no position, becomes the largest. */
    if (order == 0)
        order = compare_u64((uint64_t)a->line - 1, (uint64_t)b->line - 1);
    return order != 0 ? order : compare_u64((uint64_t)a->column - 1, (uint64_t)b->column - 1);
}

void diag_vadd(struct diag *d, const char *file, size_t line, size_t column, const char *fmt,
               va_list args)
{
    char *message = NULL;
    size_t at = d->nlines;
    size_t offset = 0;

    int printed = vasprintf(&message, fmt, args);
    ASSERT(printed >= 0);
    char where[64] = "";
    if (line != 0)
        snprintf(where, sizeof(where), ":%zu:%zu", line, column);
    char *added =
        xasprintf("%s%s%s%s\n", file != NULL ? file : "", where, file != NULL ? ": " : "", message);
    struct diag_line p = {
        .file = xstrdup(file), .line = line, .column = column, .bytes = strlen(added)};
    const char *before = d->text != NULL ? d->text : "";
    /* The lines are sorted; equal ones are in the order in which they came. */
    d->lines = xrealloc(d->lines, (d->nlines + 1) * sizeof(*d->lines));
    while (at != 0 && compare_lines(&d->lines[at - 1], &p) > 0)
        --at;
    memmove(&d->lines[at + 1], &d->lines[at], (d->nlines - at) * sizeof(*d->lines));
    d->lines[at] = p;
    ++d->nlines;
    for (size_t i = 0; i < at; ++i)
        offset += d->lines[i].bytes;
    char *all = xasprintf("%.*s%s%s", (int)offset, before, added, before + offset);
    free(message);
    free(added);
    free(d->text);
    d->text = all;
    ++d->errors;
}

void diag_add(struct diag *d, const char *file, size_t line, size_t column, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    diag_vadd(d, file, line, column, fmt, args);
    va_end(args);
}
