/* SPDX-License-Identifier: Apache-2.0
 *
 * Environmental failures as codes; texts come from err.def.
 * Constant data; any thread.
 */
#ifndef RLB_BASE_ERR_H
#define RLB_BASE_ERR_H

#include "common/base/base.h"

enum err {
#define ERROR(name, text) ERR_##name,
#include "common/base/err.def"
#undef ERROR
    ERR_COUNT
};

/* "connection refused". Never NULL. */
const char *err_text(enum err e);

/*
 * Problems for humans, collected: "FILE:LINE:COLUMN: MESSAGE", one line each, all in one go and in
 * the order of their places, whoever found them. Zero-initialise, diag_fini at the end.
 */
struct diag_place;
struct diag {
    char *text;                /* newline-terminated lines, or NULL */
    unsigned errors;           /* how many lines, warnings not counted */
    struct diag_place *places; /* of the lines in text; err.c's own */
    size_t nplaces;
};

void diag_fini(struct diag *d);
/*
 * LINE and COLUMN count from 1; 0 leaves them out. FILE may be NULL. What has no place stands
 * behind what has one.
 */
void diag_add(struct diag *d, const char *file, size_t line, size_t column, const char *fmt, ...)
    printf_like(5, 6);

#endif
