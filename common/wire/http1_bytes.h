/* SPDX-License-Identifier: Apache-2.0
 *
 * Which bytes HTTP/1.x allows where: shared by the parsers of this directory. Pure functions over
 * borrowed bytes; any thread.
 */
#ifndef RLB_WIRE_HTTP1_BYTES_H
#define RLB_WIRE_HTTP1_BYTES_H

#include "common/base/text.h"

/* Whether every byte is permitted in a field value or a reason: no control characters but HTAB. */
bool http1_is_text(struct slice s);
/* Whether S is a token (RFC 9110 section 5.6.2): a method, a field name. Never empty. */
bool http1_is_token(struct slice s);
/* How many bytes of it are text as above, from its start on. */
size_t http1_text_length(struct slice s);
/* How many bytes at the start of S are of a token. */
size_t http1_token_length(struct slice s);
/*
 * A byte of a field's name as CGI-like interfaces see it: to them "Accept-Language" and
 * "accept_language" are one variable.
 */
static inline char http1_variable_byte(char c)
{
    if (c == '_')
        return '-';
    return ascii_lower(c);
}
/*
 * Split a header line (without CRLF) into NAME and VALUE, the latter without blanks around it.
 * False for anything but "token:text": a folded line, a blank before the colon, an empty name.
 */
bool http1_split_header(struct slice line, struct slice *name, struct slice *value);
/* The same of a line that http1_is_text has been asked about. */
bool http1_split_text(struct slice line, struct slice *name, struct slice *value);
/* Whether the comma-separated list VALUE has TOKEN (ASCII case-insensitive). */
bool http1_list_has(struct slice value, struct slice token);

/* ---- for the parsers of this directory ---- */

/*
 * The scans that each head of a message goes through, sixteen bytes at a time where the machine can
 * (SSE2, which every x86-64 has), else in words and bytes; inlined. The results are those of the
 * functions above.
 */

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* RFC 9110 section 5.6.2: tchar. */
extern const bool http1_token_bytes[256];
/*
 * RFC 3986, and what browsers send although it is in no URI: []{}|\^`. Not '#', which readers cut
 * off or do not; not what no browser sends raw: '"', '<', '>' and bytes of no ASCII.
 */
extern const bool http1_target_bytes[256];

/* On any machine. */
size_t http1_text_length_words(struct slice s);
/* http1_marks (http1_lines.h). */
uint64_t http1_marks_words(const char *p);
/* The same for the first N, fewer than 64. */
uint64_t http1_few_marks(const char *p, size_t n) noinline_;

static inline size_t http1_token_length_bytes(struct slice s, size_t from)
{
    while (from < s.len && http1_token_bytes[(unsigned char)s.p[from]])
        ++from;
    return from;
}

static inline size_t http1_target_length_bytes(struct slice s, size_t from)
{
    while (from < s.len && http1_target_bytes[(unsigned char)s.p[from]])
        ++from;
    return from;
}

#ifdef __SSE2__

static inline __m128i http1_load16(const char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* Per byte, all ones where V is at most MAX, taken as unsigned. */
static inline __m128i http1_at_most(__m128i v, char max)
{
    return _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(max)), v);
}

/* A bit for each of sixteen bytes that is a control character, but for HTAB. */
static inline unsigned http1_controls16(__m128i v)
{
    __m128i control = _mm_or_si128(http1_at_most(v, 0x1f), _mm_cmpeq_epi8(v, _mm_set1_epi8(0x7f)));

    return (unsigned)_mm_movemask_epi8(
        _mm_andnot_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('\t')), control));
}

/* A bit for each of sixteen bytes that is a digit. */
static inline unsigned http1_digits16(__m128i v)
{
    return (unsigned)_mm_movemask_epi8(http1_at_most(_mm_sub_epi8(v, _mm_set1_epi8('0')), 9));
}

/* A bit for each of sixteen bytes that is a letter or '-'. */
static inline unsigned http1_word16(__m128i v)
{
    /* Letters of either case, as signed numbers, are moved to the least there are. */
    __m128i low = _mm_or_si128(_mm_set1_epi8(0x20), v);
    __m128i moved = _mm_add_epi8(low, _mm_set1_epi8((char)(0x80 - 'a')));
    __m128i letter = _mm_cmpgt_epi8(_mm_set1_epi8((char)(0x80 + 'z' - 'a' + 1)), moved);

    return (unsigned)_mm_movemask_epi8(_mm_or_si128(letter, _mm_cmpeq_epi8(v, _mm_set1_epi8('-'))));
}

/* A bit for each of the sixteen bytes at P that is a control character, HTAB too. */
static inline uint64_t http1_low16(const char *p)
{
    __m128i v = http1_load16(p);

    return (unsigned)_mm_movemask_epi8(
        _mm_or_si128(http1_at_most(v, 0x1f), _mm_cmpeq_epi8(v, _mm_set1_epi8(0x7f))));
}

/* A bit for each of sixteen bytes that is not in http1_target_bytes. */
static inline unsigned http1_no_target16(const char *p)
{
    __m128i v = http1_load16(p);
    __m128i too_low = http1_at_most(v, 0x20);
    __m128i too_high = _mm_cmpeq_epi8(_mm_max_epu8(v, _mm_set1_epi8(0x7f)), v);
    /* Two pairs, each of which differ in one bit: '"' and '#', '<' and '>'. */
    __m128i first = _mm_cmpeq_epi8(_mm_or_si128(v, _mm_set1_epi8('"' ^ '#')), _mm_set1_epi8('#'));
    __m128i second = _mm_cmpeq_epi8(_mm_or_si128(v, _mm_set1_epi8('<' ^ '>')), _mm_set1_epi8('>'));

    return (unsigned)_mm_movemask_epi8(
        _mm_or_si128(_mm_or_si128(too_low, too_high), _mm_or_si128(first, second)));
}

static inline size_t http1_scan_text(struct slice s)
{
    size_t i = 0;

    for (; s.len - i >= 16; i += 16) {
        unsigned found = http1_controls16(http1_load16(s.p + i));

        if (found != 0)
            return i + (size_t)__builtin_ctz(found);
    }
    return i + http1_text_length_words((struct slice){s.p + i, s.len - i});
}

/* Nearly all names are letters, digits and '-', and shorter than sixteen bytes. */
static inline size_t http1_scan_token(struct slice s)
{
    size_t n = 0;

    if (s.len >= 16)
        n = (size_t)__builtin_ctz(~http1_word16(http1_load16(s.p)));
    return http1_token_length_bytes(s, n);
}

static inline size_t http1_scan_target(struct slice s)
{
    size_t i = 0;

    for (; s.len - i >= 16; i += 16) {
        unsigned found = http1_no_target16(s.p + i);

        if (found != 0)
            return i + (size_t)__builtin_ctz(found);
    }
    return http1_target_length_bytes(s, i);
}

#else

static inline size_t http1_scan_text(struct slice s)
{
    return http1_text_length_words(s);
}

static inline size_t http1_scan_token(struct slice s)
{
    return http1_token_length_bytes(s, 0);
}

static inline size_t http1_scan_target(struct slice s)
{
    return http1_target_length_bytes(s, 0);
}

#endif

static inline bool http1_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* http1_split_text of a LINE that begins with at least TOKEN bytes of a token. */
static inline bool http1_scan_field(struct slice line, size_t token, struct slice *name,
                                    struct slice *value)
{
    const char *p = line.p;
    size_t end = line.len;

    if (token >= end || p[token] != ':')
        token = http1_token_length_bytes(line, token);
    if (token == 0 || token >= end || p[token] != ':')
        return false;
    size_t start = token + 1;
    while (start < end && http1_is_blank(p[start]))
        ++start;
    while (end > start && http1_is_blank(p[end - 1]))
        --end;
    *name = (struct slice){p, token};
    *value = (struct slice){p + start, end - start};
    return true;
}

#endif
