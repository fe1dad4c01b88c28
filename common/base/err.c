/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *text;
    bool safe;
} errors[ERR_COUNT] = {
#define ERROR(name, safe_, text_) [ERR_##name] = {.text = (text_), .safe = (safe_)},
#include "common/base/err.def"
#undef ERROR
};

const char *err_text(enum err e)
{
    ASSERT((unsigned)e < ERR_COUNT);
    return errors[e].text;
}

bool err_safe_to_retry(enum err e)
{
    ASSERT((unsigned)e < ERR_COUNT);
    return errors[e].safe;
}

void diag_fini(struct diag *d)
{
    free(d->text);
    *d = (struct diag){0};
}

void diag_add(struct diag *d, const char *file, size_t line, size_t column, const char *fmt, ...)
{
    char *message = NULL;
    va_list args;

    va_start(args, fmt);
    int n = vasprintf(&message, fmt, args);
    va_end(args);
    ASSERT(n >= 0);
    char place[64] = "";
    if (line != 0)
        snprintf(place, sizeof(place), ":%zu:%zu", line, column);
    char *all = xasprintf("%s%s%s%s%s\n", d->text != NULL ? d->text : "", file != NULL ? file : "",
                          place, file != NULL ? ": " : "", message);
    free(message);
    free(d->text);
    d->text = all;
    ++d->errors;
}
