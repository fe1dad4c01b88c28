/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on eight bytes at a time, for the path of each request: comparison regardless of case,
 * and writing of short pieces one after the other. Pure functions over borrowed bytes; any thread.
 */
#pragma once

#include "common/base/base.h"

/* ---- comparing without regard to case ---- */

#define EACH_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

static inline uint64_t load_word(const char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

/* Loads four to seven bytes as a word; bytes in the middle are in it twice. */
static inline uint64_t load_short(const char *p, size_t len)
{
    uint32_t first;
    uint32_t last;

    memcpy(&first, p, sizeof(first));
    memcpy(&last, p + len - sizeof(last), sizeof(last));
    return (uint64_t)last << 32 | first;
}

/* Returns a word with 0x20 in each byte of WORD that is from A to Z (letters of one case), eight
 * bytes at once: the top bit of each is used to mark it. */
static inline uint64_t nocase_letters(uint64_t word, unsigned char a, unsigned char z)
{
    uint64_t low_bits = word & EACH_BYTE(0x7f);
    uint64_t from_a = low_bits + EACH_BYTE(0x80U - a);
    uint64_t after_z = low_bits + EACH_BYTE(0x80U - z - 1);

    return ((from_a ^ after_z) & ~word & EACH_BYTE(0x80)) >> 2;
}

static inline uint64_t nocase_lower(uint64_t word)
{
    return word | nocase_letters(word, 'A', 'Z');
}

/* Words that are equal mostly are identical, and words that differ mostly differ in more than
 * the bit of the case, so the conversion is rarely needed. */
static inline bool nocase_same(uint64_t a, uint64_t b)
{
    uint64_t differ = a ^ b;

    if (differ == 0)
        return true;
    return (differ & ~EACH_BYTE(0x20)) == 0 && nocase_lower(a) == nocase_lower(b);
}

/* Returns the bits in which A differs from KNOWN, apart from the case of letters. KNOWN has no
 * capitals. */
static inline uint64_t nocase_differ(uint64_t a, uint64_t known)
{
    return (a ^ known) & ~nocase_letters(known, 'a', 'z');
}

/*
 * Compares LEN bytes of A with KNOWN, which has no capitals. KNOWN and LEN are compile-time
 * constants, so that only comparisons with constants remain.
 */
static inline __attribute__((always_inline)) bool nocase_eq_known(const char *a, const char *known,
                                                                  size_t len)
{
    uint64_t differ = 0;

    if (len >= 8) {
        for (size_t i = 0; i + 8 <= len; i += 8)
            differ |= nocase_differ(load_word(a + i), load_word(known + i));
        differ |= nocase_differ(load_word(a + len - 8), load_word(known + len - 8));
    } else if (len >= 4) {
        differ = nocase_differ(load_short(a, len), load_short(known, len));
    } else {
        for (size_t i = 0; i < len; ++i)
            differ |= nocase_differ((unsigned char)a[i], (unsigned char)known[i]);
    }
    return differ == 0;
}

/* True if S equals the string literal WORD, which has no capitals, regardless of case. */
#define SLICE_IS_WORD(s, word)                                                                     \
    ((s).len == sizeof(word) - 1 && nocase_eq_known((s).p, "" word, sizeof(word) - 1))

/*
 * ---- writing ---- Many small pieces into a buffer that was allocated for all of them. Most are so
 * short that a call of memcpy would cost more. Each function returns the position for the next
 * piece.
 */

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
