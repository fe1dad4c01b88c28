/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/bytes.h"

bool bytes_eq_nocase(const char *a, const char *b, size_t len)
{
    if (len >= 8) {
        for (size_t i = 0; i + 8 <= len; i += 8) {
            if (!nocase_same(load_word(a + i), load_word(b + i)))
                return false;
        }
        /* The last eight bytes, some of which were already compared. */
        return len % 8 == 0 || nocase_same(load_word(a + len - 8), load_word(b + len - 8));
    }
    if (len >= 4)
        return nocase_same(load_short(a, len), load_short(b, len));
    for (size_t i = 0; i < len; ++i) {
        unsigned differ = (unsigned char)a[i] ^ (unsigned char)b[i];
        unsigned letter = ((unsigned)a[i] | 0x20u) - 'a';

        if (differ != 0 && (differ != 0x20 || letter > 'z' - 'a'))
            return false;
    }
    return true;
}

void ascii_lower_copy(char *to, struct slice from)
{
    size_t i = 0;
    uint64_t word;

    for (; i + 8 <= from.len; i += 8) {
        word = nocase_lower(load_word(from.p + i));
        memcpy(to + i, &word, sizeof(word));
    }
    if (from.len >= 8) {
        word = nocase_lower(load_word(from.p + from.len - 8));
        memcpy(to + from.len - 8, &word, sizeof(word));
    } else if (from.len >= 4) {
        word = nocase_lower(load_short(from.p, from.len));
        uint32_t first = (uint32_t)word;
        uint32_t last = (uint32_t)(word >> 32);

        memcpy(to, &first, sizeof(first));
        memcpy(to + from.len - sizeof(last), &last, sizeof(last));
    } else {
        for (; i < from.len; ++i)
            to[i] = ascii_lower(from.p[i]);
    }
}

int slice_compare(struct slice a, struct slice b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter != 0 ? memcmp(a.p, b.p, shorter) : 0;

    return order != 0 ? order : compare_u64(a.len, b.len);
}

bool slice_starts(struct slice s, struct slice prefix)
{
    return s.len >= prefix.len && slice_eq((struct slice){s.p, prefix.len}, prefix);
}

bool slice_ends(struct slice s, struct slice suffix)
{
    return s.len >= suffix.len &&
           slice_eq((struct slice){s.p + s.len - suffix.len, suffix.len}, suffix);
}

bool slice_is_word(struct slice s, const char *more)
{
    for (size_t i = 0; i < s.len; ++i) {
        char c = ascii_lower(s.p[i]);

        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
            slice_find(slice_of(more), c) == SIZE_MAX)
            return false;
    }
    return true;
}

struct slice slice_trim(struct slice s)
{
    while (s.len != 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
        ++s.p;
        --s.len;
    }
    while (s.len != 0 && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
        --s.len;
    return s;
}

void ascii_clean(char *s)
{
    for (; *s != '\0'; ++s) {
        if (*s < 0x20 || *s > 0x7e)
            *s = '?';
    }
}

size_t utf8_length(struct slice s)
{
    static const uint32_t least[] = {[2] = 0x80, [3] = 0x800, [4] = 0x10000};
    const unsigned char *p = (const unsigned char *)s.p;

    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    size_t len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (s.len < len)
        return 0;
    for (size_t i = 1; i < len; ++i) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    uint32_t c = utf8_decode(s.p, len);
    return c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : len;
}

uint32_t utf8_decode(const char *at, size_t len)
{
    const unsigned char *p = (const unsigned char *)at;
    uint32_t c = len == 1 ? p[0] : p[0] & (0x7fU >> len);

    for (size_t i = 1; i < len; ++i)
        c = c << 6 | (p[i] & 0x3f);
    return c;
}

struct slice utf8_skip_mark(struct slice s)
{
    const struct slice mark = SLICE_LIT("\xef\xbb\xbf");

    return slice_starts(s, mark) ? (struct slice){s.p + mark.len, s.len - mark.len} : s;
}

bool utf8_valid(struct slice s)
{
    while (s.len != 0) {
        size_t len = utf8_length(s);

        if (len == 0)
            return false;
        s = (struct slice){s.p + len, s.len - len};
    }
    return true;
}

bool parse_u64(struct slice s, uint64_t max, uint64_t *out)
{
    uint64_t v = 0;

    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] < '0' || s.p[i] > '9' || __builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v))
            return false;
    }
    if (s.len == 0 || v > max)
        return false;
    *out = v;
    return true;
}

bool parse_ip(struct slice s, int family, void *out)
{
    char text[INET6_ADDRSTRLEN];

    if (s.len == 0 || s.len >= sizeof(text) || memchr(s.p, '\0', s.len) != NULL)
        return false;
    memcpy(text, s.p, s.len);
    text[s.len] = '\0';
    return inet_pton(family, text, out) == 1;
}

enum { DOUBLE_TEXT_MAX = 64 };

bool parse_double(struct slice s, double *out)
{
    char buf[DOUBLE_TEXT_MAX + 1];
    char *end = NULL;

    if (s.len == 0 || s.len > DOUBLE_TEXT_MAX)
        return false;
    for (size_t i = 0; i < s.len; ++i) {
        /* strtod() would also accept hex, inf, nan and leading blanks. */
        if (strchr("0123456789+-.eE", s.p[i]) == NULL || s.p[i] == '\0')
            return false;
    }
    memcpy(buf, s.p, s.len);
    buf[s.len] = '\0';
    errno = 0;
    double v = strtod(buf, &end);
    if (*end != '\0' || end == buf || !isfinite(v))
        return false;
    *out = v;
    return true;
}

/* Sets the top bit of each byte that equals B; the caller masks the other bits. A borrow of the
 * subtraction can set a wrong top bit only above a right one. */
static inline uint64_t bytes_equal(uint64_t word, unsigned char b)
{
    uint64_t other = word ^ EACH_BYTE(b);

    return (other - EACH_BYTE(0x01)) & ~other;
}

/* Returns the top bit of each byte that percent_encode() has to encode, and possibly of others. */
static inline uint64_t maybe_encoded(uint64_t word)
{
    return (word | (word - EACH_BYTE(0x21)) | bytes_equal(word, 0x7f) | bytes_equal(word, '%')) &
           EACH_BYTE(0x80);
}

static bool is_plain(unsigned char c)
{
    return c >= 0x21 && c <= 0x7e && c != '%';
}

static bool all_plain(struct slice raw)
{
    for (size_t i = 0; i < raw.len; ++i) {
        if (!is_plain((unsigned char)raw.p[i]))
            return false;
    }
    return true;
}

bool percent_plain(struct slice raw)
{
    uint64_t any = 0;

    if (raw.len < 8)
        return all_plain(raw);
    for (size_t i = 0; i + 8 <= raw.len; i += 8)
        any |= maybe_encoded(load_word(raw.p + i));
    any |= maybe_encoded(load_word(raw.p + raw.len - 8));
    return any == 0 || all_plain(raw);
}

size_t percent_encode(struct slice raw, char *out, size_t max)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;

    if (raw.len <= max && percent_plain(raw)) {
        put_slice(out, raw);
        return raw.len;
    }
    for (size_t i = 0; i < raw.len; ++i) {
        unsigned char c = (unsigned char)raw.p[i];
        bool plain = is_plain(c);

        if (n + (plain ? 1 : 3) > max)
            return SIZE_MAX;
        if (plain) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = hex[c >> 4];
            out[n++] = hex[c & 15];
        }
    }
    return n;
}

size_t percent_decode(struct slice raw, char *out, size_t room)
{
    size_t n = 0;

    for (size_t i = 0; i < raw.len && n < room; ++i) {
        int high = raw.p[i] == '%' && raw.len - i > 2 ? ascii_hex_digit(raw.p[i + 1]) : -1;
        int low = high >= 0 ? ascii_hex_digit(raw.p[i + 2]) : -1;

        if (low >= 0) {
            out[n++] = (char)(high * 16 + low);
            i += 2;
        } else {
            out[n++] = raw.p[i];
        }
    }
    return n;
}

size_t path_normalize(struct slice raw, char *out)
{
    size_t n = percent_decode(raw, out, raw.len);
    size_t to = 0;
    bool ends_open = true; /* the last segment is empty, "." or "..": the path ends in '/' */

    if (n == 0 || out[0] != '/')
        return n;
    for (size_t at = 1; at <= n; ++at) {
        struct slice rest = {out + at, n - at};
        size_t len = slice_find(rest, '/');
        struct slice segment = {rest.p, len != SIZE_MAX ? len : rest.len};

        at += segment.len;
        ends_open = true;
        if (slice_is(segment, "..")) {
            while (to > 0 && out[--to] != '/')
                ;
        } else if (segment.len != 0 && !slice_is(segment, ".")) {
            out[to++] = '/';
            memmove(out + to, segment.p, segment.len);
            to += segment.len;
            ends_open = false;
        }
    }
    if (ends_open)
        out[to++] = '/';
    return to;
}

bool path_is_normal(struct slice raw)
{
    char before = '\0';

    for (size_t i = 0; i < raw.len; ++i) {
        char c = raw.p[i];

        if (c == '%' || (before == '/' && (c == '/' || c == '.')))
            return false;
        before = c;
    }
    return true;
}

struct slice host_without_port(struct slice host)
{
    if (host.len != 0 && host.p[0] == '[') {
        size_t end = slice_find(host, ']');

        return end == SIZE_MAX ? host : (struct slice){host.p, end + 1};
    }
    return slice_cut(&host, ':');
}

void text_fini(struct text *t)
{
    free(t->p);
    *t = (struct text){0};
}

void text_grow(struct text *t, size_t n)
{
    enum { FIRST_ROOM = 256 };
    size_t room = t->room != 0 ? t->room * 2 : FIRST_ROOM;

    while (room - t->len < n)
        room *= 2;
    t->p = xrealloc(t->p, room);
    t->room = room;
}

void text_add_u64(struct text *t, uint64_t v)
{
    t->len = (size_t)(put_u64(text_reserve(t, PUT_U64_MAX), v) - t->p);
}

void text_addf(struct text *t, const char *fmt, ...)
{
    enum { USUAL = 64 };
    va_list args;
    va_list again;

    va_start(args, fmt);
    va_copy(again, args);
    /* Room for the NUL of vsnprintf() is included. Most texts fit into the room that is usually
     * free. */
    char *at = text_reserve(t, USUAL);
    int n = vsnprintf(at, t->room - t->len, fmt, args);
    va_end(args);
    ASSERT(n >= 0);
    if ((size_t)n >= t->room - t->len)
        vsnprintf(text_reserve(t, (size_t)n + 1), (size_t)n + 1, fmt, again);
    va_end(again);
    t->len += (size_t)n;
}

/*
 * Appends V as N / 10^PLACES with the fewest places, up to MAX_PLACES, that convert back to V. Both
 * are whole numbers that a double represents exactly, so their quotient is what strtod() makes of
 * the digits. Returns false if there is no such number, or if it is too large.
 */
static bool add_decimal(struct text *t, double v)
{
    enum { MAX_PLACES = 6 };
    static const uint64_t powers[MAX_PLACES + 1] = {1, 10, 100, 1000, 10000, 100000, 1000000};
    const double most = 1e15; /* whole numbers below this are exact in a double */
    double size = fabs(v);
    uint64_t n = 0;
    unsigned places = 0;

    /* %g of printf() uses an exponent there. */
    if (size != 0 && size < 1e-4)
        return false;
    for (;; ++places) {
        if (places > MAX_PLACES || !(size * (double)powers[places] < most))
            return false;
        n = (uint64_t)(size * (double)powers[places] + 0.5);
        if ((double)n / (double)powers[places] == size)
            break;
    }
    if (signbit(v))
        text_add_char(t, '-');
    text_add_u64(t, n / powers[places]);
    if (places == 0)
        return true;
    text_add_char(t, '.');
    for (unsigned i = places; i-- != 0;)
        text_add_char(t, (char)('0' + n / powers[i] % 10));
    return true;
}

void text_add_real(struct text *t, double v)
{
    char digits[40];

    if (add_decimal(t, v))
        return;
    for (int precision = 15; precision <= 17; ++precision) {
        snprintf(digits, sizeof(digits), "%.*g", precision, v);
        if (strtod(digits, NULL) == v)
            break;
    }
    text_add(t, slice_of(digits));
}

size_t text_plain_length(struct slice s)
{
    size_t n = 0;

    for (; s.len - n >= sizeof(uint64_t); n += sizeof(uint64_t)) {
        uint64_t word = load_word(s.p + n);
        uint64_t low = (word - EACH_BYTE(0x20)) & ~word;
        uint64_t special =
            low | word | bytes_equal(word, 0x7f) | bytes_equal(word, '"') | bytes_equal(word, '\\');

        if ((special & EACH_BYTE(0x80)) != 0)
            break;
    }
    while (n < s.len && s.p[n] >= 0x20 && s.p[n] < 0x7f && s.p[n] != '"' && s.p[n] != '\\')
        ++n;
    return n;
}

void text_add_escaped(struct text *t, struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        unsigned char c = (unsigned char)s.p[i];

        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
            text_addf(t, "\\x%02x", c);
        else
            text_add_char(t, (char)c);
    }
}

/*
 * Returns true for characters that are invisible or change the display of others: controls except
 * the tab, the soft hyphen, direction marks and isolates, zero-width characters, line and paragraph
 * separators, tags, private use.
 */
static bool is_invisible(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0, 0x08},        {0x0a, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},        {0x61c, 0x61c},
        {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},    {0xe000, 0xf8ff},
        {0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0x10ffff},
    };

    for (size_t i = 0; i < ARRAY_LEN(ranges); ++i) {
        if (c <= ranges[i].last)
            return c >= ranges[i].first;
    }
    return false;
}

void text_add_visible(struct text *t, struct slice s)
{
    while (s.len != 0) {
        size_t len = utf8_length(s);

        if (len != 0 && !is_invisible(utf8_decode(s.p, len))) {
            text_add(t, (struct slice){s.p, len});
        } else {
            text_addf(t, "\\x%02x", (unsigned char)s.p[0]);
            len = 1;
        }
        s = (struct slice){s.p + len, s.len - len};
    }
}

void text_add_html(struct text *t, struct slice s)
{
    static const char *const entities[] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;", ['\''] = "&#39;"};
    size_t from = 0;

    for (size_t i = 0; i < s.len; ++i) {
        unsigned char c = (unsigned char)s.p[i];

        if (c >= ARRAY_LEN(entities) || entities[c] == NULL)
            continue;
        text_add_visible(t, (struct slice){s.p + from, i - from});
        text_add(t, slice_of(entities[c]));
        from = i + 1;
    }
    text_add_visible(t, (struct slice){s.p + from, s.len - from});
}

const char *text_cstr(struct text *t)
{
    *text_reserve(t, 1) = '\0';
    return t->p;
}

void text_list_add(struct text_list *l, struct slice item)
{
    /* Powers of two, without a field for the room. */
    if ((l->n & (l->n - 1)) == 0)
        l->items = xrealloc(l->items, (l->n != 0 ? l->n * 2 : 1) * sizeof(char *));
    l->items[l->n++] = xslicedup(item);
}

void text_list_fini(struct text_list *l)
{
    for (size_t i = 0; i < l->n; ++i)
        free(l->items[i]);
    free(l->items);
    *l = (struct text_list){0};
}
