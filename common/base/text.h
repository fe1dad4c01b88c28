/* SPDX-License-Identifier: Apache-2.0
 *
 * Slices, parsing of numbers, and a growing text. A struct text owns its bytes; other arguments are
 * only borrowed during the call. Any thread; a struct text is used by one thread at a time.
 */
#pragma once

#include "common/base/base.h"

static inline struct slice slice_of(const char *s)
{
    return (struct slice){s, s != NULL ? strlen(s) : 0};
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    /* The length of B is a compile-time constant in most calls. */
    return a.len == b.len && (b.len == 0 || memcmp(a.p, b.p, b.len) == 0);
}

/* Compares LEN bytes of A and B, ignoring the case of ASCII letters, independent of the locale. */
bool bytes_eq_nocase(const char *a, const char *b, size_t len);
static inline bool slice_eq_nocase(struct slice a, struct slice b)
{
    /* Most strings already differ in their first letter. */
    return a.len == b.len &&
           (a.len == 0 || (((a.p[0] ^ b.p[0]) & ~0x20) == 0 && bytes_eq_nocase(a.p, b.p, a.len)));
}
/* Compares bytes, then lengths. Returns a number less than, equal to, or greater than 0. */
int slice_compare(struct slice a, struct slice b);
static inline bool slice_is(struct slice a, const char *s)
{
    return slice_eq(a, slice_of(s));
}
bool slice_starts(struct slice s, struct slice prefix);
bool slice_ends(struct slice s, struct slice suffix);
/* Returns true if all bytes of S are letters, digits, or among the characters of MORE. */
bool slice_is_word(struct slice s, const char *more);
/* Returns S without leading and trailing blanks and tabs. */
struct slice slice_trim(struct slice s);
/* Returns the index of the first C, or SIZE_MAX. */
static inline size_t slice_find(struct slice s, char c)
{
    const char *at = s.len != 0 ? memchr(s.p, c, s.len) : NULL;

    return at != NULL ? (size_t)(at - s.p) : SIZE_MAX;
}
/* Returns the part before the first C, and removes both from *REST. If there is no C, returns
 * all, and *REST is empty afterwards. */
static inline struct slice slice_cut(struct slice *rest, char c)
{
    struct slice whole = *rest;
    size_t at = slice_find(whole, c);

    if (at == SIZE_MAX) {
        *rest = SLICE_NULL;
        return whole;
    }
    *rest = (struct slice){whole.p + at + 1, whole.len - at - 1};
    return (struct slice){whole.p, at};
}

static inline char ascii_lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

/* Returns the value of C as a hexadecimal digit of either case, or -1. */
static inline int ascii_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Copies FROM in lower case to TO, which must have room for FROM.len bytes and not overlap FROM. */
void ascii_lower_copy(char *to, struct slice from);

/* Replaces every byte of S that is neither visible ASCII nor a space with '?'. */
void ascii_clean(char *s);
/*
 * Returns the length of the well-formed UTF-8 sequence at the start of S, which must not be empty;
 * 0 if the sequence is not well-formed (Unicode 15, table 3-7: overlong forms, surrogates and code
 * points above U+10FFFF are invalid).
 */
size_t utf8_length(struct slice s);
/* Returns the code point of the well-formed sequence of LEN bytes at P. */
uint32_t utf8_decode(const char *p, size_t len);
/* Returns S without the byte order mark that some editors put at the start of a file. */
struct slice utf8_skip_mark(struct slice s);
/* Returns true if all of S is well-formed UTF-8. */
bool utf8_valid(struct slice s);

/*
 * Parses decimal digits only: no sign, no blanks. Returns false and leaves *OUT unchanged for
 * anything else, and for values over MAX.
 */
bool parse_u64(struct slice s, uint64_t max, uint64_t *out) must_check;
/* Parses an IP address without zone, port and brackets. FAMILY is AF_INET or AF_INET6; OUT is a
 * struct in_addr or in6_addr. */
bool parse_ip(struct slice s, int family, void *out) must_check;
/* Parses a finite decimal number with optional sign, fraction and exponent; hex, inf, nan and
 * blanks are rejected. */
bool parse_double(struct slice s, double *out) must_check;

/*
 * Percent-encodes a class name: every byte outside 0x21-0x7E, and '%', becomes %XX (upper case).
 * OUT has room for MAX bytes. Returns the encoded length, or SIZE_MAX if it would exceed MAX.
 */
size_t percent_encode(struct slice raw, char *out, size_t max);
/* Returns true if percent_encode() would not change RAW. */
bool percent_plain(struct slice raw);
/*
 * Percent-decodes RAW once, as WSGI servers do, and writes at most ROOM bytes to OUT. Invalid
 * escapes are copied unchanged. Returns the number of bytes written.
 */
size_t percent_decode(struct slice raw, char *out, size_t room);
/*
 * Writes the normalized path of RAW to OUT, which must have room for RAW.len bytes, and returns its
 * length. RAW is percent-decoded once; empty and "." segments are removed, and ".." is removed with
 * the preceding segment, if there is one: "/a//b/./%2e%2E/c" becomes "/a/c". If RAW does not begin
 * with '/', it is only decoded.
 */
size_t path_normalize(struct slice raw, char *out);
/* Returns true if path_normalize() would not change RAW. May return false for such a path if it has
 * a '%' or a segment that begins with a dot. */
bool path_is_normal(struct slice raw);
/* Returns HOST without its port: "[::1]" for "[::1]:80", "a.example" for "a.example:80". */
struct slice host_without_port(struct slice host);

/* A growing text. Must be zero-initialized, and freed with text_fini(). Only text_cstr() NUL-
 * terminates it. */
struct text {
    char *p;
    size_t len;
    size_t room;
};

void text_fini(struct text *t);
static inline void text_clear(struct text *t)
{
    t->len = 0;
}
static inline struct slice text_slice(const struct text *t)
{
    return (struct slice){t->p, t->len};
}
void text_grow(struct text *t, size_t n) cold_;
/* Reserves room for N more bytes and returns their position. The caller adds the number of bytes
 * written to ->len. */
static inline char *text_reserve(struct text *t, size_t n)
{
    if (t->room - t->len < n)
        text_grow(t, n);
    return t->p + t->len;
}
static inline void text_add(struct text *t, struct slice s)
{
    if (s.len == 0)
        return;
    memcpy(text_reserve(t, s.len), s.p, s.len);
    t->len += s.len;
}
static inline void text_add_char(struct text *t, char c)
{
    *text_reserve(t, 1) = c;
    ++t->len;
}
/* Appends V in decimal digits. */
void text_add_u64(struct text *t, uint64_t v);
void text_addf(struct text *t, const char *fmt, ...) printf_like(2, 3);
/* Appends the shortest text that strtod() converts back to V. */
void text_add_real(struct text *t, double v);
/* Returns the number of bytes at the start of S that need no escape within quotes: visible ASCII
 * and blanks, except '"' and '\\'. */
size_t text_plain_length(struct slice s);
/* Appends S for a log line: control bytes, quotes, backslashes and non-ASCII bytes become \xNN. */
void text_add_escaped(struct text *t, struct slice s);
/*
 * Appends S for display: tabs, visible ASCII and well-formed UTF-8 are unchanged; control bytes,
 * other bytes, and characters that reorder or hide their neighbors (such as U+202E) become \xNN.
 */
void text_add_visible(struct text *t, struct slice s);
/* Appends S as text of an HTML page: & < > " ' become entities, the rest is as in
 * text_add_visible(). */
void text_add_html(struct text *t, struct slice s);
/* NUL-terminates (not counted in ->len) and returns the bytes. */
const char *text_cstr(struct text *t);

/* A list of texts. Must be zero-initialized, and freed with text_list_fini(). */
struct text_list {
    char **items;
    size_t n;
};

void text_list_add(struct text_list *l, struct slice item);
void text_list_fini(struct text_list *l);
