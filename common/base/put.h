/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes many small pieces one after the other into a buffer that was allocated for all of them.
 * Most pieces are so short that a call of memcpy would cost more. Each function returns the
 * position for the next piece. Any thread.
 */
#ifndef RLB_BASE_PUT_H
#define RLB_BASE_PUT_H

#include "common/base/base.h"

/* Copies S, which must not overlap the destination. */
static inline __attribute__((always_inline)) char *put_slice(char *at, struct slice s)
{
    const char *p = s.p;
    size_t n = s.len;

    /* Two overlapping copies of a constant length cover every length between that and twice as
     * much. */
    if (n > 32) {
        memcpy(at, p, n);
    } else if (n >= 16) {
        memcpy(at, p, 16);
        memcpy(at + n - 16, p + n - 16, 16);
    } else if (n >= 8) {
        memcpy(at, p, 8);
        memcpy(at + n - 8, p + n - 8, 8);
    } else if (n >= 4) {
        memcpy(at, p, 4);
        memcpy(at + n - 4, p + n - 4, 4);
    } else if (n != 0) {
        at[0] = p[0];
        at[n / 2] = p[n / 2];
        at[n - 1] = p[n - 1];
    }
    return at + n;
}

static inline char *put_bytes(char *at, const char *p, size_t n)
{
    memcpy(at, p, n);
    return at + n;
}

/* A string literal. */
#define PUT(at, literal) put_bytes((at), "" literal, sizeof(literal) - 1)

/* Maximum number of decimal digits of 64 bits. */
enum { PUT_U64_MAX = 20 };

/* Writes V in decimal digits that end just before END. Returns the position of the first one. */
static inline char *put_u64_before(char *end, uint64_t v)
{
    do
        *--end = (char)('0' + v % 10);
    while ((v /= 10) != 0);
    return end;
}

/* Writes V in decimal digits, up to PUT_U64_MAX bytes. */
static inline char *put_u64(char *at, uint64_t v)
{
    char digits[PUT_U64_MAX];
    char *end = digits + sizeof(digits);

    if (v < 10) {
        *at = (char)('0' + v);
        return at + 1;
    }
    const char *begin = put_u64_before(end, v);
    size_t n = (size_t)(end - begin);
    if (n > sizeof(digits))
        __builtin_unreachable();
    return put_slice(at, (struct slice){begin, n});
}

/* Writes a header line, which takes four bytes more than NAME and VALUE. */
static inline char *put_line(char *at, struct slice name, struct slice value)
{
    /* In most cases both are still in the buffer from which they were parsed. */
    if (value.p == name.p + name.len + 2 && name.p[name.len] == ':' &&
        name.p[name.len + 1] == ' ') {
        at = put_slice(at, (struct slice){name.p, name.len + 2 + value.len});
    } else {
        at = PUT(put_slice(at, name), ": ");
        at = put_slice(at, value);
    }
    return PUT(at, "\r\n");
}
enum { PUT_LINE_EXTRA = 4 };
/* The same for a name that is a string literal. */
#define PUT_LINE(at, name, value) PUT(put_slice(PUT(at, name ": "), (value)), "\r\n")

#endif
