/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's strings: kinds, escapes, and which characters are better not shown as they are.
 */
#include "common/base/literal_string.h"

#include <stdlib.h>

/* The prefix: none, u, b. It says what \x and \u mean. */
enum kind { PLAIN, UNICODE, BYTES };

enum { CODE_POINT_MAX = 0x10ffff };

void literal_fail(struct literal_reader *r, enum err e, size_t at, const char *why)
{
    if (r->error == ERR_OK) {
        r->error = e;
        r->problem = (struct literal_problem){at, why};
    }
}

static char byte_at(const struct literal_reader *r, size_t at)
{
    return (char)(at < r->s.len ? r->s.p[at] : '\0');
}

static bool is_quote(char c)
{
    return c == '\'' || c == '"';
}

bool literal_string_begins(const struct literal_reader *r)
{
    char first = ascii_lower(byte_at(r, r->at));

    return is_quote(first) ||
           ((first == 'u' || first == 'b' || first == 'r') && is_quote(byte_at(r, r->at + 1)));
}

/* ---- code points ---- */

static void add_code_point(struct text *out, uint32_t c)
{
    if (c < 0x80) {
        text_add_char(out, (char)c);
    } else if (c < 0x800) {
        text_add_char(out, (char)(0xc0 | c >> 6));
        text_add_char(out, (char)(0x80 | (c & 0x3f)));
    } else if (c < 0x10000) {
        text_add_char(out, (char)(0xe0 | c >> 12));
        text_add_char(out, (char)(0x80 | (c >> 6 & 0x3f)));
        text_add_char(out, (char)(0x80 | (c & 0x3f)));
    } else {
        text_add_char(out, (char)(0xf0 | c >> 18));
        text_add_char(out, (char)(0x80 | (c >> 12 & 0x3f)));
        text_add_char(out, (char)(0x80 | (c >> 6 & 0x3f)));
        text_add_char(out, (char)(0x80 | (c & 0x3f)));
    }
}

/* Of the well-formed sequence P of LEN bytes. */
static uint32_t code_point(const char *p, size_t len)
{
    static const unsigned char first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = (unsigned char)p[0] & first_bits[len];

    for (size_t i = 1; i < len; ++i)
        c = c << 6 | ((unsigned char)p[i] & 0x3f);
    return c;
}

/* What a terminal obeys, or an eye misses: controls, line ends, marks of direction, fillers. */
static bool is_invisible(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
           (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe0fff);
}

bool literal_is_text(struct slice s)
{
    return slice_find(s, '\0') == SIZE_MAX && utf8_valid(s);
}

bool literal_is_visible(struct slice s)
{
    while (s.len != 0) {
        size_t len = utf8_length(s);

        if (len == 0 || is_invisible(code_point(s.p, len)))
            return false;
        s = (struct slice){s.p + len, s.len - len};
    }
    return true;
}

/* ---- escapes ---- */

/* N hex digits at R->at. */
static bool take_hex(struct literal_reader *r, unsigned n, uint32_t *out)
{
    uint32_t v = 0;

    for (unsigned i = 0; i < n; ++i) {
        int digit = ascii_hex_digit(byte_at(r, r->at));

        if (digit < 0) {
            literal_fail(r, ERR_SYNTAX, r->at, "want a hexadecimal digit");
            return false;
        }
        v = v << 4 | (uint32_t)digit;
        ++r->at;
    }
    *out = v;
    return true;
}

/* \xHH and \OOO: a byte, or in a u'' string the code point of that number. */
static void add_number(struct text *out, enum kind kind, uint32_t v)
{
    if (kind == UNICODE)
        add_code_point(out, v);
    else
        text_add_char(out, (char)v);
}

static bool take_octal(struct literal_reader *r, enum kind kind, struct text *out)
{
    size_t start = r->at;
    uint32_t v = 0;

    for (int i = 0; i < 3 && byte_at(r, r->at) >= '0' && byte_at(r, r->at) <= '7'; ++i)
        v = v * 8 + (uint32_t)(byte_at(r, r->at++) - '0');
    if (v > 0xff) {
        literal_fail(r, ERR_RANGE, start, "an octal escape over \\377");
        return false;
    }
    add_number(out, kind, v);
    return true;
}

/* \uHHHH and \UHHHHHHHH, the letter taken. Python 2 writes two halves for what is above U+FFFF. */
static bool take_code_point(struct literal_reader *r, unsigned digits, struct text *out)
{
    size_t start = r->at;
    uint32_t c = 0;
    uint32_t low = 0;

    if (!take_hex(r, digits, &c))
        return false;
    if (c >= 0xd800 && c < 0xdc00 && byte_at(r, r->at) == '\\' && byte_at(r, r->at + 1) == 'u') {
        r->at += 2;
        if (!take_hex(r, 4, &low))
            return false;
        if (low >= 0xdc00 && low < 0xe000)
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (c > CODE_POINT_MAX || (c >= 0xd800 && c < 0xe000)) {
        literal_fail(r, ERR_RANGE, start,
                     c > CODE_POINT_MAX ? "above U+10FFFF" : "half of a surrogate pair");
        return false;
    }
    add_code_point(out, c);
    return true;
}

/* What one letter means; 0: nothing. */
static char simple_escape(char c)
{
    static const char letters[] = "\\'\"abfnrtv";
    static const char means[] = "\\'\"\a\b\f\n\r\t\v";
    const char *at = c != '\0' ? strchr(letters, c) : NULL;

    return (char)(at != NULL ? means[at - letters] : '\0');
}

/* What follows a backslash, which is taken. */
static bool take_escape(struct literal_reader *r, enum kind kind, struct text *out)
{
    char c = byte_at(r, r->at);
    uint32_t v = 0;

    if (simple_escape(c) != '\0') {
        text_add_char(out, simple_escape(c));
        ++r->at;
        return true;
    }
    if (c >= '0' && c <= '7')
        return take_octal(r, kind, out);
    if (c == 'x') {
        ++r->at;
        if (!take_hex(r, 2, &v))
            return false;
        add_number(out, kind, v);
        return true;
    }
    if ((c == 'u' || c == 'U') && kind != BYTES) {
        ++r->at;
        return take_code_point(r, c == 'u' ? 4 : 8, out);
    }
    if (c == 'N' && kind != BYTES) {
        literal_fail(r, ERR_SYNTAX, r->at, "names of characters are not known here: use \\u");
        return false;
    }
    /* Python keeps a backslash that means nothing. */
    text_add_char(out, '\\');
    return true;
}

/* ---- strings ---- */

static bool take_string(struct literal_reader *r, struct text *out)
{
    size_t start = r->at;
    char prefix = ascii_lower(byte_at(r, r->at));
    enum kind kind = prefix == 'u' ? UNICODE : prefix == 'b' ? BYTES : PLAIN;

    if (prefix == 'r') {
        literal_fail(r, ERR_SYNTAX, start,
                     "raw strings are not known here: double the backslashes");
        return false;
    }
    r->at += kind != PLAIN;
    char quote = byte_at(r, r->at++);
    while (r->at < r->s.len) {
        char c = r->s.p[r->at++];

        if (c == quote)
            return true;
        if (c != '\\')
            text_add_char(out, c);
        else if (!take_escape(r, kind, out))
            return false;
    }
    literal_fail(r, ERR_SYNTAX, start, "a string without its end");
    return false;
}

json_t *literal_parse_string(struct literal_reader *r)
{
    struct text all = {0};
    json_t *v = NULL;
    bool ok;

    do {
        ok = take_string(r, &all);
        while (ok && (byte_at(r, r->at) == ' ' || byte_at(r, r->at) == '\t'))
            ++r->at;
    } while (ok && literal_string_begins(r));
    if (ok)
        v = json_stringn_nocheck(text_cstr(&all), all.len);
    text_fini(&all);
    return v;
}

static bool has_invisible(struct slice s)
{
    while (s.len != 0) {
        size_t len = utf8_length(s);
        uint32_t c = code_point(s.p, len);

        if (c >= 0x80 && is_invisible(c))
            return true;
        s = (struct slice){s.p + len, s.len - len};
    }
    return false;
}

static void print_code_point(uint32_t c, char quote, struct text *out)
{
    if (c == '\\' || c == (unsigned char)quote)
        text_addf(out, "\\%c", (char)c);
    else if (c == '\n')
        text_add(out, SLICE_LIT("\\n"));
    else if (c == '\r')
        text_add(out, SLICE_LIT("\\r"));
    else if (c == '\t')
        text_add(out, SLICE_LIT("\\t"));
    else if (!is_invisible(c))
        add_code_point(out, c);
    else if (c < 0x100)
        text_addf(out, "\\x%02x", c);
    else if (c < 0x10000)
        text_addf(out, "\\u%04x", c);
    else
        text_addf(out, "\\U%08x", c);
}

void literal_print_string(struct slice s, struct text *out)
{
    bool single = slice_find(s, '\'') != SIZE_MAX && slice_find(s, '"') == SIZE_MAX;
    char quote = (char)(single ? '"' : '\'');
    bool text = utf8_valid(s);

    if (!text)
        text_add_char(out, 'b');
    else if (has_invisible(s))
        text_add_char(out, 'u');
    text_add_char(out, quote);
    while (s.len != 0) {
        size_t len = text ? utf8_length(s) : 1;

        if (text || (unsigned char)s.p[0] < 0x80)
            print_code_point(code_point(s.p, len), quote, out);
        else
            text_addf(out, "\\x%02x", (unsigned char)s.p[0]);
        s = (struct slice){s.p + len, s.len - len};
    }
    text_add_char(out, quote);
}
