/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/base.h"

#include <execinfo.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Returns false if the reader of standard error does not read, which must not prevent the end. */
static bool wait_for_stderr(void)
{
    enum { STDERR_WAIT_MS = 1000 };
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&p, 1, STDERR_WAIT_MS) != 0;
}

void assert_failed(const char *expr, const char *file, int line, const char *func)
{
    void *frames[64];

    /* stdio only for the one line: the backtrace goes straight to the descriptor, as the heap may
     * be broken. */
    if (wait_for_stderr()) {
        dprintf(STDERR_FILENO, "assertion failed: %s at %s:%d (%s)\n", expr, file, line, func);
        backtrace_symbols_fd(frames, backtrace(frames, (int)ARRAY_LEN(frames)), STDERR_FILENO);
    }
    abort();
}

void out_of_memory(void)
{
    if (wait_for_stderr())
        dprintf(STDERR_FILENO, "out of memory\n");
    abort();
}

static void *check_allocated(void *p)
{
    if (p == NULL)
        out_of_memory();
    return p;
}

void *xmalloc(size_t bytes)
{
    return check_allocated(malloc(bytes != 0 ? bytes : 1));
}

void *xcalloc(size_t n, size_t bytes)
{
    return check_allocated(calloc(n != 0 ? n : 1, bytes != 0 ? bytes : 1));
}

void *xcalloc_lines(size_t n, size_t bytes)
{
    size_t all = 0;

    ASSERT(bytes % CACHE_LINE_BYTES == 0);
    bool overflows = __builtin_mul_overflow(n != 0 ? n : 1, bytes, &all);
    ASSERT(!overflows);
    void *p = check_allocated(aligned_alloc(CACHE_LINE_BYTES, all != 0 ? all : CACHE_LINE_BYTES));
    return memset(p, 0, all);
}

void *xrealloc(void *p, size_t bytes)
{
    return check_allocated(realloc(p, bytes != 0 ? bytes : 1));
}

void *xgrow(void *p, size_t n, size_t *room, size_t bytes)
{
    enum { FIRST_ROOM = 16 };

    if (n <= *room && p != NULL)
        return p;
    if (*room == 0)
        *room = FIRST_ROOM;
    while (*room < n)
        *room *= 2;
    return xrealloc(p, *room * bytes);
}

char *xstrdup(const char *s)
{
    return s != NULL ? check_allocated(strdup(s)) : NULL;
}

char *xslicedup(struct slice s)
{
    char *copy = xmalloc(s.len + 1);

    if (s.len != 0)
        memcpy(copy, s.p, s.len);
    copy[s.len] = '\0';
    return copy;
}

char *xasprintf(const char *fmt, ...)
{
    char *out = NULL;
    va_list args;

    va_start(args, fmt);
    int len = vasprintf(&out, fmt, args);
    va_end(args);
    return check_allocated(len >= 0 ? out : NULL);
}
