/* SPDX-License-Identifier: Apache-2.0
 *
 * What every file may use: attributes, slices, assertions, memory that never fails.
 * Nothing here owns anything; safe from any thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define must_check __attribute__((warn_unused_result))
#define printf_like(fmt, args) __attribute__((format(printf, fmt, args)))
#define no_return __attribute__((noreturn))
/* Called only on errors or rarely: the branches that lead to it are moved out of the hot path,
 * and the function is optimized for size. */
#define cold_ __attribute__((cold))
/* Never inlined: most requests do not need the function, and its code would lengthen their path
 * through the caller. */
#define noinline_ __attribute__((noinline))
#define returns_nonnull_ __attribute__((returns_nonnull))
/* A parameter that the type of the function requires, and this function does not need. */
#define unused_ __attribute__((unused))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Borrowed bytes, not NUL-terminated. An empty slice may have p == NULL. */
struct slice {
    const char *p;
    size_t len;
};

#define SLICE_LIT(s) ((struct slice){("" s), sizeof(s) - 1})
#define SLICE_NULL ((struct slice){NULL, 0})
/* For "%.*s": expands to two arguments. */
#define SLICE_FMT(s) (int)(s).len, ((s).p != NULL ? (s).p : "")

/*
 * Assertion of an invariant. Always compiled in: prints the expression, its location and a
 * backtrace, then aborts. Each assertion states one condition.
 */
#define ASSERT(expr)                                                                               \
    do {                                                                                           \
        if (__builtin_expect(!(expr), 0))                                                          \
            assert_failed(#expr, __FILE__, __LINE__, __func__);                                    \
    } while (0)
#define UNREACHABLE() assert_failed("unreachable", __FILE__, __LINE__, __func__)

void assert_failed(const char *expr, const char *file, int line, const char *func) no_return cold_;

/* For sorting: returns a number less than, equal to, or greater than 0, as A is to B. */
static inline int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* For qsort() of elements that begin with a uint64_t: the smallest first. */
static inline int ascending_u64(const void *a, const void *b)
{
    return compare_u64(*(const uint64_t *)a, *(const uint64_t *)b);
}

/* Reads a counter that other threads increment. */
static inline uint64_t load_relaxed(const _Atomic uint64_t *n)
{
    return atomic_load_explicit(n, memory_order_relaxed);
}

/* Defines TYPE_ref(), which returns P with one more reference; NULL for NULL. */
#define DEFINE_REF(type)                                                                           \
    struct type *type##_ref(struct type *p)                                                        \
    {                                                                                              \
        if (p != NULL)                                                                             \
            atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);                          \
        return p;                                                                                  \
    }

/* For qsort() of elements that begin with a double: the greatest first. */
static inline int descending_reals(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x < y) - (x > y);
}

/*
 * Memory allocation. Sizes from outside are bounded by the caller, so these functions abort instead
 * of returning NULL when memory runs out. Free the result with free().
 */
void out_of_memory(void) no_return cold_;
void *xmalloc(size_t bytes) returns_nonnull_ __attribute__((malloc));
void *xcalloc(size_t n, size_t bytes) returns_nonnull_ __attribute__((malloc));
/*
 * Returns zeroed memory aligned to a cache line, for data that one thread writes and other threads
 * do not. BYTES must be a multiple of the line size (as for a type with _Alignas(CACHE_LINE_BYTES)
 * on its first member).
 */
enum { CACHE_LINE_BYTES = 64 };
void *xcalloc_lines(size_t n, size_t bytes) returns_nonnull_ __attribute__((malloc));
void *xrealloc(void *p, size_t bytes) returns_nonnull_;
/* Returns P, an array with room for *ROOM elements of BYTES each, reallocated so that at least N
 * fit; *ROOM is then updated. P may be NULL if *ROOM is 0. */
void *xgrow(void *p, size_t n, size_t *room, size_t bytes) returns_nonnull_;
/* Returns a NUL-terminated copy; xstrdup(NULL) returns NULL. */
char *xstrdup(const char *s);
char *xslicedup(struct slice s) returns_nonnull_;
char *xasprintf(const char *fmt, ...) printf_like(1, 2) returns_nonnull_;

/*
 * Defined in builds with the address sanitizer. Memory that would be retained for reuse is freed
 * instead in these builds, so that the sanitizer detects uses after free.
 */
#ifndef __has_feature
#define __has_feature(name) 0 /* GCC defines __SANITIZE_... instead */
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define RLB_CHECKED
#endif
