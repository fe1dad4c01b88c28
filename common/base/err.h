/* SPDX-License-Identifier: Apache-2.0
 *
 * Environmental failures as codes; texts come from err.def.
 * Constant data; any thread.
 */
#pragma once

#include "common/base/base.h"

#include <stdarg.h>

enum err {
#define ERROR(name, text) ERR_##name,
#include "common/base/err.def"
    ERR_COUNT
};

/* Returns the text of E, such as "connection refused". Never NULL. */
const char *err_text(enum err e);

/*
 * Collected diagnostics for users: one line "FILE:LINE:COLUMN: MESSAGE" each. The lines are sorted
 * by position, independent of the order in which they were added. Must be zero-initialized, and
 * released with diag_fini().
 */
struct diag_line;
struct diag {
    char *text;              /* newline-terminated lines, or NULL */
    unsigned errors;         /* number of lines, without warnings */
    struct diag_line *lines; /* positions of the lines in text; private to err.c */
    size_t nlines;
};

/* For "%.*s": expands to two arguments, the first line of D, which must have one. */
#define DIAG_FIRST_LINE(d) (int)strcspn((d)->text, "\n"), (d)->text

void diag_fini(struct diag *d);
/*
 * Adds a line. LINE and COLUMN count from 1; 0 omits them. FILE may be NULL. Lines without a
 * position follow those that have one.
 */
void diag_add(struct diag *d, const char *file, size_t line, size_t column, const char *fmt, ...)
    printf_like(5, 6);
void diag_vadd(struct diag *d, const char *file, size_t line, size_t column, const char *fmt,
               va_list args) printf_like(5, 0);
