/* SPDX-License-Identifier: Apache-2.0
 *
 * A recursive descent parser with bounded depth. It stops at the first problem.
 */
#include "common/base/literal.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/json.h"

struct literal_reader {
    const char *start, *end; /* a copy of the text, which ends in a NUL */
    const char *p;           /* the next byte */
    size_t entries;          /* remaining number of values that may be parsed */
    enum err error;
    struct literal_problem problem;
};

/* The prefix of a string: none, u, b. It determines what \x and \u mean. */
enum literal_kind { PLAIN, UNICODE, BYTES };

enum { CODE_POINT_MAX = 0x10ffff };

#define DIGITS "0123456789"

/* Records the problem that ends the parsing. */
static json_t *literal_fail(struct literal_reader *r, enum err e, const char *at, const char *why)
{
    r->error = e;
    r->problem = (struct literal_problem){(size_t)(at - r->start), why};
    return NULL;
}

/* The same for functions that return whether they succeed. */
static bool literal_reject(struct literal_reader *r, enum err e, const char *at, const char *why)
{
    return literal_fail(r, e, at, why) != NULL;
}

/* ---- code points ---- */

static void add_code_point(struct text *out, uint32_t c)
{
    static const unsigned char heads[] = {0, 0xc0, 0xe0, 0xf0};
    unsigned more = (c >= 0x80) + (c >= 0x800) + (c >= 0x10000);

    text_add_char(out, (char)(heads[more] | c >> 6 * more));
    while (more-- != 0)
        text_add_char(out, (char)(0x80 | (c >> 6 * more & 0x3f)));
}

/* Control or invisible characters: controls, line ends, direction marks, fillers. */
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

/* Returns true if S, which is well-formed, has a control or invisible character of at least code
 * point LEAST. */
static bool has_invisible(struct slice s, uint32_t least)
{
    while (s.len != 0) {
        size_t len = utf8_length(s);
        uint32_t c = utf8_decode(s.p, len);

        if (c >= least && is_invisible(c))
            return true;
        s = (struct slice){s.p + len, s.len - len};
    }
    return false;
}

bool literal_is_visible(struct slice s)
{
    return utf8_valid(s) && !has_invisible(s, 0);
}

/* ---- escapes ---- */

static bool take_hex(struct literal_reader *r, unsigned n, uint32_t *out)
{
    *out = 0;
    for (; n != 0; --n, ++r->p) {
        int digit = ascii_hex_digit(*r->p);

        if (digit < 0)
            return literal_reject(r, ERR_SYNTAX, r->p, "expected a hexadecimal digit");
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

/* Parses the digits of \uHHHH or \UHHHHHHHH after the letter. Python 2 writes a surrogate pair
 * for code points above U+FFFF. */
static bool take_code_point(struct literal_reader *r, unsigned digits, struct text *out)
{
    const char *start = r->p;
    uint32_t c;
    uint32_t low;

    if (!take_hex(r, digits, &c))
        return false;
    if (c >= 0xd800 && c < 0xdc00 && r->p[0] == '\\' && r->p[1] == 'u') {
        r->p += 2;
        if (!take_hex(r, 4, &low))
            return false;
        if (low >= 0xdc00 && low < 0xe000)
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (c > CODE_POINT_MAX || (c >= 0xd800 && c < 0xe000))
        return literal_reject(r, ERR_RANGE, start,
                              c > CODE_POINT_MAX ? "above U+10FFFF" : "half of a surrogate pair");
    add_code_point(out, c);
    return true;
}

/* Parses an escape sequence after its backslash. */
static bool take_escape(struct literal_reader *r, enum literal_kind kind, struct text *out)
{
    static const char letters[] = "\\'\"abfnrtv";
    static const char meanings[] = "\\'\"\a\b\f\n\r\t\v";
    const char *start = r->p;
    char c = *start;
    const char *letter = c != '\0' ? strchr(letters, c) : NULL;
    uint32_t v = 0;

    if (letter != NULL) {
        text_add_char(out, meanings[letter - letters]);
        ++r->p;
        return true;
    }
    if (c == 'x' || (c >= '0' && c <= '7')) {
        if (c == 'x') {
            ++r->p;
            if (!take_hex(r, 2, &v))
                return false;
        } else {
            for (; r->p - start < 3 && *r->p >= '0' && *r->p <= '7'; ++r->p)
                v = v * 8 + (uint32_t)(*r->p - '0');
        }
        if (v > 0xff)
            return literal_reject(r, ERR_RANGE, start, "an octal escape over \\377");
        /* A byte, or a code point in a u'' string. */
        if (kind == UNICODE)
            add_code_point(out, v);
        else
            text_add_char(out, (char)v);
        return true;
    }
    if ((c == 'u' || c == 'U') && kind != BYTES) {
        ++r->p;
        return take_code_point(r, c == 'u' ? 4 : 8, out);
    }
    if (c == 'N' && kind != BYTES)
        return literal_reject(r, ERR_SYNTAX, start,
                              "names of characters are not supported: use \\u");
    /* Python retains the backslash of an unknown escape. */
    text_add_char(out, '\\');
    return true;
}

/* ---- strings ---- */

static void skip_blanks(struct literal_reader *r)
{
    r->p += strspn(r->p, " \t");
}

/* Returns true if a string follows, with or without a prefix. */
static bool string_begins(const struct literal_reader *r)
{
    bool prefixed = *r->p != '\0' && strchr("uUbBrR", *r->p) != NULL;
    char quote = r->p[prefixed];

    return quote == '\'' || quote == '"';
}

static bool take_string(struct literal_reader *r, struct text *out)
{
    const char *start = r->p;
    char prefix = ascii_lower(*r->p);
    enum literal_kind kind = prefix == 'u' ? UNICODE : prefix == 'b' ? BYTES : PLAIN;

    if (prefix == 'r')
        return literal_reject(r, ERR_SYNTAX, start,
                              "raw strings are not supported: double the backslashes");
    r->p += kind != PLAIN;
    char quote = *r->p++;
    while (r->p < r->end) {
        char c = *r->p++;

        if (c == quote)
            return true;
        if (c != '\\')
            text_add_char(out, c);
        else if (!take_escape(r, kind, out))
            return false;
    }
    return literal_reject(r, ERR_SYNTAX, start, "unterminated string");
}

/* Parses a string and those that follow it directly as one. */
static json_t *parse_string(struct literal_reader *r)
{
    struct text all = {0};
    json_t *v = NULL;
    bool ok;

    do {
        ok = take_string(r, &all);
        skip_blanks(r);
    } while (ok && string_begins(r));
    if (ok)
        v = json_stringn_nocheck(text_cstr(&all), all.len);
    text_fini(&all);
    return v;
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
    else if (has_invisible(s, 0x80))
        text_add_char(out, 'u');
    text_add_char(out, quote);
    while (s.len != 0) {
        size_t len = text ? utf8_length(s) : 1;

        if (text || (unsigned char)s.p[0] < 0x80)
            print_code_point(utf8_decode(s.p, len), quote, out);
        else
            text_addf(out, "\\x%02x", (unsigned char)s.p[0]);
        s = (struct slice){s.p + len, s.len - len};
    }
    text_add_char(out, quote);
}

/* ---- numbers and words ---- */

/* Skips blanks, and consumes the next byte if it is C. */
static bool literal_take(struct literal_reader *r, char c)
{
    skip_blanks(r);
    if (*r->p != c)
        return false;
    ++r->p;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word_char(char c)
{
    c = ascii_lower(c);
    return (c >= 'a' && c <= 'z') || c == '_';
}

/* Scans digits, fraction and exponent. Returns false if it is not a number. *REAL: whether there is
 * a fraction or an exponent. */
static bool scan_number(struct literal_reader *r, bool *real)
{
    size_t digits = strspn(r->p, DIGITS);

    r->p += digits;
    *real = *r->p == '.';
    if (*real) {
        size_t more = strspn(++r->p, DIGITS);

        digits += more;
        r->p += more;
    }
    if (digits != 0 && ascii_lower(*r->p) == 'e') {
        *real = true;
        ++r->p;
        r->p += *r->p == '+' || *r->p == '-';
        digits = strspn(r->p, DIGITS);
        r->p += digits;
    }
    return digits != 0;
}

static json_t *parse_number(struct literal_reader *r)
{
    const char *start = r->p;
    bool real;
    double value;

    r->p += *start == '-' || *start == '+';
    const char *first = r->p;
    char kind = (char)(*first == '0' ? ascii_lower(first[1]) : '\0');
    if (kind == 'x' || kind == 'o' || kind == 'b') {
        const char *digits = first + 2;

        r->p = digits;
        r->p += strspn(digits, kind == 'x'   ? DIGITS "abcdefABCDEF"
                               : kind == 'o' ? "01234567"
                                             : "01");
        if (r->p == digits || is_word_char(*r->p) || is_digit(*r->p))
            return literal_fail(r, ERR_SYNTAX, r->p, "not a digit of this number");
        errno = 0;
        unsigned long long n = strtoull(digits, NULL, kind == 'x' ? 16 : kind == 'o' ? 8 : 2);
        if (errno != 0 || n > INT64_MAX)
            return literal_fail(r, ERR_RANGE, start, "more than 64 bits");
        return json_integer(*start == '-' ? -(json_int_t)n : (json_int_t)n);
    }
    if (!scan_number(r, &real))
        return literal_fail(r, ERR_SYNTAX, start, "not a number");
    const char *end = r->p;
    /* The suffix of long numbers in Python 2. */
    if (!real && ascii_lower(*r->p) == 'l')
        ++r->p;
    if (is_word_char(*r->p) || *r->p == '.')
        return literal_fail(r, ERR_SYNTAX, r->p, "not part of a number");
    if (real) {
        const char *from = *start == '-' ? start : first;

        return parse_double((struct slice){from, (size_t)(end - from)}, &value)
                   ? json_real(value)
                   : literal_fail(r, ERR_RANGE, start, "number out of range");
    }
    /* Python 3 rejects 010, and Python 2 reads it as 8. */
    if (*first == '0' && end - first > 1)
        return literal_fail(r, ERR_SYNTAX, start, "number begins with 0");
    errno = 0;
    long long whole = strtoll(start, NULL, 10);
    return errno == 0 ? json_integer(whole)
                      : literal_fail(r, ERR_RANGE, start, "more than 64 bits");
}

static json_t *parse_word(struct literal_reader *r)
{
    const char *start = r->p;

    while (is_word_char(*r->p) || is_digit(*r->p))
        ++r->p;
    struct slice word = {start, (size_t)(r->p - start)};
    if (slice_is(word, "True"))
        return json_true();
    if (slice_is(word, "False"))
        return json_false();
    if (slice_is(word, "None"))
        return json_null();
    return literal_fail(r, ERR_SYNTAX, start,
                        "expected a string, number, list, dict, True, False or None");
}

/* ---- lists and dicts ---- */

static json_t *parse_value(struct literal_reader *r, size_t depth);

/* Parses a value within another one, where bytes must be valid text. */
static json_t *parse_inner(struct literal_reader *r, size_t depth)
{
    skip_blanks(r);
    const char *start = r->p;
    json_t *v = parse_value(r, depth);

    if (json_is_string(v) && !literal_is_text(json_slice(v))) {
        json_decref(v);
        return literal_fail(r, ERR_SYNTAX, start,
                            "bytes that are not text are not permitted inside a value");
    }
    return v;
}

/* Parses KEY: VALUE and adds it to DICT. */
static bool parse_member(struct literal_reader *r, json_t *dict, size_t depth)
{
    skip_blanks(r);
    const char *start = r->p;
    json_t *key = parse_inner(r, depth);
    json_t *v = NULL;

    if (key == NULL)
        return false;
    if (!json_is_string(key))
        literal_fail(r, ERR_SYNTAX, start, "a key must be a string");
    else if (json_object_get(dict, json_string_value(key)) != NULL)
        literal_fail(r, ERR_SYNTAX, start, "duplicate key");
    else if (!literal_take(r, ':'))
        literal_fail(r, ERR_SYNTAX, r->p, "expected ':'");
    else
        v = parse_inner(r, depth);
    if (v != NULL)
        json_object_set_new(dict, json_string_value(key), v);
    json_decref(key);
    return v != NULL;
}

/* Parses a dict, list or tuple; a tuple becomes a list. "(v)" is not a tuple, but V. */
static json_t *parse_collection(struct literal_reader *r, size_t depth)
{
    char open = *r->p++;
    char close = (char)(open == '[' ? ']' : open == '(' ? ')' : '}');
    json_t *all = open == '{' ? json_object() : json_array();
    bool comma = true; /* another value may follow */

    while (!literal_take(r, close)) {
        bool good = false;

        if (!comma) {
            literal_fail(r, ERR_SYNTAX, r->p,
                         close == ']'   ? "expected ',' or ']'"
                         : close == ')' ? "expected ',' or ')'"
                                        : "expected ',' or '}'");
        } else if (open == '{') {
            good = parse_member(r, all, depth);
        } else {
            /* Appending NULL fails. */
            good = json_array_append_new(all, parse_inner(r, depth)) == 0;
        }
        if (!good) {
            json_decref(all);
            return NULL;
        }
        comma = literal_take(r, ',');
    }
    if (open != '(' || comma || json_array_size(all) != 1)
        return all;
    json_t *only = json_incref(json_array_get(all, 0));
    json_decref(all);
    return only;
}

static json_t *parse_value(struct literal_reader *r, size_t depth)
{
    skip_blanks(r);
    char c = *r->p;
    bool inner = c == '[' || c == '(' || c == '{';

    /* At least what json_parse() would count: one for the comma, one for the bracket. */
    size_t costs = inner ? 2 : 1;
    if (r->entries < costs)
        return literal_fail(r, ERR_TOO_LARGE, r->p, "too many values in one node");
    r->entries -= costs;
    if (inner && depth == LITERAL_DEPTH_MAX)
        return literal_fail(r, ERR_TOO_LARGE, r->p, "nested too deep");
    if (r->p == r->end)
        return literal_fail(r, ERR_SYNTAX, r->p, "value is missing");
    if (inner)
        return parse_collection(r, depth + 1);
    if (is_digit(c) || c == '.' || c == '-' || c == '+')
        return parse_number(r);
    return string_begins(r) ? parse_string(r) : parse_word(r);
}

enum err literal_parse(struct slice s, size_t *entries, json_t **out, struct literal_problem *p)
{
    char *copy = xslicedup(s);
    struct literal_reader r = {
        .start = copy, .end = copy + s.len, .p = copy, .entries = *entries, .error = ERR_OK};
    json_t *v = parse_value(&r, 0);

    if (v != NULL)
        skip_blanks(&r);
    if (v != NULL && r.p != r.end) {
        json_decref(v);
        v = literal_fail(&r, ERR_SYNTAX, r.p, "unexpected text after the value");
    }
    if (v != NULL) {
        *entries = r.entries;
        *out = v;
    } else {
        *p = r.problem;
    }
    free(copy);
    return r.error;
}

/* ---- printing ---- */

void literal_print(const json_t *v, struct text *out)
{
    static const struct json_style python = {", ",    ": ",   "True",
                                             "False", "None", literal_print_string};

    json_print_as(v, &python, out);
}
