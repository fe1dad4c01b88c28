/* SPDX-License-Identifier: Apache-2.0
 *
 * ASCII letters without regard to their case, eight bytes at a time. For comparing with a word that
 * is known when this is compiled there is SLICE_IS_WORD: it becomes a few instructions. Pure
 * functions over borrowed bytes; any thread.
 */
#ifndef RLB_BASE_NOCASE_H
#define RLB_BASE_NOCASE_H

#include "common/base/base.h"

#define NOCASE_EACH_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

static inline uint64_t nocase_load(const char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

/* Loads four to seven bytes as a word; bytes in the middle are in it twice. */
static inline uint64_t nocase_load_short(const char *p, size_t len)
{
    uint32_t first;
    uint32_t last;

    memcpy(&first, p, sizeof(first));
    memcpy(&last, p + len - sizeof(last), sizeof(last));
    return (uint64_t)last << 32 | first;
}

/* Eight bytes at once: the top bit of each is used to mark whether it is between 'A' and 'Z'. */
static inline uint64_t nocase_lower(uint64_t word)
{
    uint64_t low_bits = word & NOCASE_EACH_BYTE(0x7f);
    uint64_t from_a = low_bits + NOCASE_EACH_BYTE(0x80 - 'A');
    uint64_t after_z = low_bits + NOCASE_EACH_BYTE(0x80 - 'Z' - 1);
    uint64_t capital = (from_a ^ after_z) & ~word & NOCASE_EACH_BYTE(0x80);

    return word | capital >> 2;
}

/* Words that are equal mostly are identical, and words that differ mostly differ in more than
 * the bit of the case, so the conversion is rarely needed. */
static inline bool nocase_same(uint64_t a, uint64_t b)
{
    uint64_t differ = a ^ b;

    if (differ == 0)
        return true;
    return (differ & ~NOCASE_EACH_BYTE(0x20)) == 0 && nocase_lower(a) == nocase_lower(b);
}

/* Compares LEN bytes of A and B. */
static inline bool nocase_eq(const char *a, const char *b, size_t len)
{
    if (len >= 8) {
        for (size_t i = 0; i + 8 <= len; i += 8) {
            if (!nocase_same(nocase_load(a + i), nocase_load(b + i)))
                return false;
        }
        /* The last eight bytes, some of which were already compared. */
        return len % 8 == 0 || nocase_same(nocase_load(a + len - 8), nocase_load(b + len - 8));
    }
    if (len >= 4)
        return nocase_same(nocase_load_short(a, len), nocase_load_short(b, len));
    for (size_t i = 0; i < len; ++i) {
        unsigned differ = (unsigned char)a[i] ^ (unsigned char)b[i];
        unsigned letter = ((unsigned)a[i] | 0x20u) - 'a';

        if (differ != 0 && (differ != 0x20 || letter > 'z' - 'a'))
            return false;
    }
    return true;
}

/* Returns a word with 0x20 in each byte that is a small letter in WORD. */
static inline uint64_t nocase_letters(uint64_t word)
{
    uint64_t low_bits = word & NOCASE_EACH_BYTE(0x7f);
    uint64_t from_a = low_bits + NOCASE_EACH_BYTE(0x80 - 'a');
    uint64_t after_z = low_bits + NOCASE_EACH_BYTE(0x80 - 'z' - 1);

    return ((from_a ^ after_z) & ~word & NOCASE_EACH_BYTE(0x80)) >> 2;
}

/* Returns the bits in which A differs from KNOWN, apart from the case of letters. KNOWN has no
 * capitals. */
static inline uint64_t nocase_differ(uint64_t a, uint64_t known)
{
    return (a ^ known) & ~nocase_letters(known);
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
            differ |= nocase_differ(nocase_load(a + i), nocase_load(known + i));
        differ |= nocase_differ(nocase_load(a + len - 8), nocase_load(known + len - 8));
    } else if (len >= 4) {
        differ = nocase_differ(nocase_load_short(a, len), nocase_load_short(known, len));
    } else {
        for (size_t i = 0; i < len; ++i)
            differ |= nocase_differ((unsigned char)a[i], (unsigned char)known[i]);
    }
    return differ == 0;
}

/* True if S equals the string literal WORD, which has no capitals, regardless of case. */
#define SLICE_IS_WORD(s, word)                                                                     \
    ((s).len == sizeof(word) - 1 && nocase_eq_known((s).p, "" word, sizeof(word) - 1))

#endif
