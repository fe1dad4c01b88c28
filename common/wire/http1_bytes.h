/* SPDX-License-Identifier: Apache-2.0
 *
 * Which bytes HTTP/1.x allows where: shared by the parsers of this directory. Pure functions over
 * borrowed bytes; any thread.
 */
#pragma once

#include "common/base/bytes.h"
#include "common/base/limits.h"
#include "common/base/text.h"

/* Whether every byte is permitted in a field value or a reason: no control characters but HTAB. */
bool http1_is_text(struct slice s);
/* Whether S is a token (RFC 9110 section 5.6.2): a method, a field name. Never empty. */
bool http1_is_token(struct slice s);
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
/* Whether the comma-separated list VALUE has TOKEN (ASCII case-insensitive). */
bool http1_list_has(struct slice value, struct slice token);

/* Removes the first N bytes of *S, or all if there are fewer, and returns them. */
static inline struct slice slice_take(struct slice *s, size_t n)
{
    size_t len = n < s->len ? n : s->len;
    struct slice taken = {s->p, len};

    if (len != 0) /* P may be NULL */
        s->p += len;
    s->len -= len;
    return taken;
}

/* ---- for the parsers of this directory ---- */

/*
 * The scans that each head of a message goes through, sixteen bytes at a time where the machine can
 * (SSE2, which every x86-64 has), else in words and bytes; with the results of those above.
 */

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* RFC 9110 section 5.6.2: tchar. */
extern const bool http1_token_bytes[256];
/*
 * The bytes of RFC 3986, and []{}|\^`, which browsers send unescaped. Not '#', after which some
 * recipients cut the target; not '"', '<', '>' and non-ASCII bytes, which browsers escape.
 */
extern const bool http1_target_bytes[256];

/* http1_marks, on any machine. */
uint64_t http1_marks_words(const char *p);
/* The same for the first N, fewer than 64. */
uint64_t http1_few_marks(const char *p, size_t n) noinline_;

static inline size_t http1_token_length_bytes(struct slice s, size_t from)
{
    while (from < s.len && http1_token_bytes[(unsigned char)s.p[from]])
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

/* A bit for each of sixteen bytes that is a digit. */
static inline unsigned http1_digits16(__m128i v)
{
    return (unsigned)_mm_movemask_epi8(http1_at_most(_mm_sub_epi8(v, _mm_set1_epi8('0')), 9));
}

/* A bit for each of sixteen bytes that is a letter or '-'. */
static inline unsigned http1_word16(__m128i v)
{
    /* Moves letters of either case to the lowest signed values: one comparison finds them. */
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

#endif

/* How many bytes at the start of S are in http1_target_bytes. */
static inline size_t http1_scan_target(struct slice s)
{
    size_t i = 0;

#ifdef __SSE2__
    for (; s.len - i >= 16; i += 16) {
        unsigned found = http1_no_target16(s.p + i);

        if (found != 0)
            return i + (size_t)__builtin_ctz(found);
    }
#endif
    while (i < s.len && http1_target_bytes[(unsigned char)s.p[i]])
        ++i;
    return i;
}

static inline bool http1_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* ---- the lines of a head ---- */

/*
 * The lines of a head and the fields in them, for the two parsers of heads, which have all of this
 * inlined. Bytes that end text are marked for 64 bytes at once, a bit each; then lines go from one
 * mark to the next:
 *
 *     Host: a.example\r\nAccept: *\r\n\r\n
 *                     ^ ^            ^ ^ ^ ^
 *
 * Nothing is read beyond the end of the bytes: the last 64 of them are examined again instead.
 */

enum { HTTP1_BLOCK = 64 };

struct http1_lines {
    const char *at;    /* where the next line begins */
    const char *end;   /* of all bytes */
    const char *begin; /* of all bytes */
    const char *block; /* what the marks are of: as many bytes, or those that are left */
    uint64_t marks;    /* of bytes that no line has passed */
};

#define http1_inline_ static inline __attribute__((always_inline))

/* A bit for each of 64 bytes that is a control character, HTAB too. */
http1_inline_ uint64_t http1_marks(const char *p)
{
#ifdef __SSE2__
    uint64_t first = http1_low16(p) | http1_low16(p + 16) << 16;
    uint64_t second = http1_low16(p + 32) | http1_low16(p + 48) << 16;

    return first | second << 32;
#else
    return http1_marks_words(p);
#endif
}

/* The block that begins at FROM. */
http1_inline_ void http1_lines_scan(struct http1_lines *l, const char *from)
{
    size_t left = (size_t)(l->end - from);
    unsigned before = 0;

    l->block = from;
    if (left < HTTP1_BLOCK) {
        if (l->end - l->begin < HTTP1_BLOCK) {
            l->marks = http1_few_marks(from, left);
            return;
        }
        before = HTTP1_BLOCK - (unsigned)left;
        from = l->end - HTTP1_BLOCK;
    }
    l->marks = http1_marks(from) >> before;
}

/* The lines of BYTES. */
http1_inline_ struct http1_lines http1_lines_of(struct slice bytes)
{
    /* Nothing is counted from NULL. */
    const char *p = bytes.len != 0 ? bytes.p : "";
    struct http1_lines l = {.at = p, .end = p + bytes.len, .begin = p};

    http1_lines_scan(&l, p);
    return l;
}

enum http1_line {
    HTTP1_LINE,     /* text followed by CRLF */
    HTTP1_LINE_BAD, /* contains a byte that is not text */
    HTTP1_LINE_CUT, /* the bytes end before the line does */
};

/* Returns the next line without its CRLF in LINE. */
http1_inline_ enum http1_line http1_lines_take(struct http1_lines *l, struct slice *line)
{
    static const char crlf[2] = "\r\n";

    for (;;) {
        while (l->marks == 0) {
            const char *from = l->block + HTTP1_BLOCK;

            /* The LF of the last line may have been the first byte of the next block. */
            if (from < l->at)
                from = l->at;
            if (from >= l->end)
                return HTTP1_LINE_CUT;
            http1_lines_scan(l, from);
        }
        const char *mark = l->block + (unsigned)__builtin_ctzll(l->marks);
        if (mark + 1 < l->end && memcmp(mark, crlf, 2) == 0) {
            *line = (struct slice){l->at, (size_t)(mark - l->at)};
            l->at = mark + 2;
            /* Clears the marks of CR and LF; the LF may belong to the next block. */
            l->marks &= l->marks - 1;
            l->marks &= l->marks - 1;
            return HTTP1_LINE;
        }
        if (*mark != '\t')
            return *mark == '\r' && mark + 1 == l->end ? HTTP1_LINE_CUT : HTTP1_LINE_BAD;
        l->marks &= l->marks - 1;
    }
}

/*
 * Returns the number of letters and '-' at P, within a line of L: at most sixteen, and possibly
 * fewer than there are if the fast path cannot determine it. The byte after them is within L.
 */
http1_inline_ size_t http1_lines_word(unused_ const struct http1_lines *l, unused_ const char *p)
{
#ifdef __SSE2__
    if (l->end - p >= 16)
        return (unsigned)__builtin_ctz(~http1_word16(http1_load16(p)));
    /* The last sixteen, of which P is one. */
    unsigned early = 16 - (unsigned)(l->end - p);
    if (l->end - l->begin >= 16)
        return (unsigned)__builtin_ctz(~(http1_word16(http1_load16(p - early)) >> early));
#endif
    return 0;
}

/*
 * Whether VALUE, which must be within a line of L and not empty, is a host name or IPv4 address,
 * without a port or with one below 60,000. False: this fast path cannot determine it.
 */
http1_inline_ bool http1_lines_plain_host(unused_ const struct http1_lines *l,
                                          unused_ struct slice value)
{
#ifdef __SSE2__
    if (value.len > 16 || l->end - value.p < 16)
        return false;
    __m128i v = http1_load16(value.p);
    unsigned digits = http1_digits16(v);
    unsigned dots = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8('.')));
    size_t name = (unsigned)__builtin_ctz(~(http1_word16(v) | digits | dots));

    if (name >= value.len)
        return true;
    size_t port = value.len - name - 1;
    unsigned all = (1u << port) - 1;
    bool fits = port < 5 || (port == 5 && value.p[name + 1] < '6');
    return name != 0 && value.p[name] == ':' && fits && (digits >> (name + 1) & all) == all;
#else
    return false;
#endif
}

/* What the Connection fields of a head list. */
struct http1_options {
    bool close, keep_alive;
    size_t n; /* of OTHERS, the rest of which is not initialized */
    struct slice others[CONNECTION_OPTIONS_MAX];
};

/* Adds the options in the list VALUE to O. False: there are more than CONNECTION_OPTIONS_MAX. */
bool http1_note_options(struct slice value, struct http1_options *o) noinline_;
/* Whether NAME is one of the options beside close and keep-alive. */
bool http1_options_have(const struct http1_options *o, struct slice name);

/* http1_note_options() of a Connection field's VALUE, which is nearly always one of two words. */
http1_inline_ bool http1_note_connection(struct slice value, struct http1_options *o)
{
    if (SLICE_IS_WORD(value, "keep-alive")) {
        o->keep_alive = true;
        return true;
    }
    if (SLICE_IS_WORD(value, "close")) {
        o->close = true;
        return true;
    }
    return http1_note_options(value, o);
}

/* Split LINE, one of L's that is not empty, as http1_split_header does; its bytes are text. */
http1_inline_ bool http1_lines_field(const struct http1_lines *l, struct slice line,
                                     struct slice *name, struct slice *value)
{
    const char *end = line.p + line.len;
    size_t token = http1_lines_word(l, line.p);

    if (line.p[token] != ':')
        token = http1_token_length_bytes(line, token);
    if (token == 0 || line.p[token] != ':')
        return false;
    *name = (struct slice){line.p, token};
    const char *start = line.p + token + 1;
    /* Of the bytes of a line only blanks are at most ' '; so is the CR after it. */
    if (start[0] == ' ' && (unsigned char)start[1] > ' ' && (unsigned char)end[-1] > ' ') {
        ++start;
    } else {
        while (start < end && http1_is_blank(*start))
            ++start;
        while (end > start && http1_is_blank(end[-1]))
            --end;
    }
    *value = (struct slice){start, (size_t)(end - start)};
    return true;
}
