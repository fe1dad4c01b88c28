/* SPDX-License-Identifier: Apache-2.0
 *
 * A recursive descent parser with bounded depth, over borrowed bytes. It stops at the first
 * problem.
 */
#include "common/base/literal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/base/json.h"

struct literal_reader {
    struct slice s;
    size_t at;
    size_t entries; /* remaining number of values that may be parsed */
    enum err error; /* the first one */
    struct literal_problem problem;
};

/* ---- strings: kinds, escapes, and characters that are not shown as they are ---- */

/* The prefix: none, u, b. It determines what \x and \u mean. */
enum kind { PLAIN, UNICODE, BYTES };

enum { CODE_POINT_MAX = 0x10ffff };

/* Records a problem, if it is the first. */
static void record(struct literal_reader *r, enum err e, size_t at, const char *why)
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

/* Returns true if a string follows, with or without a prefix. */
static bool string_begins(const struct literal_reader *r)
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

/* Parses N hex digits at R->at. */
static bool take_hex(struct literal_reader *r, unsigned n, uint32_t *out)
{
    uint32_t v = 0;

    for (unsigned i = 0; i < n; ++i) {
        int digit = ascii_hex_digit(byte_at(r, r->at));

        if (digit < 0) {
            record(r, ERR_SYNTAX, r->at, "expected a hexadecimal digit");
            return false;
        }
        v = v << 4 | (uint32_t)digit;
        ++r->at;
    }
    *out = v;
    return true;
}

/* Appends the value V of \xHH or \OOO: a byte, or a code point in a u'' string. */
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
        record(r, ERR_RANGE, start, "an octal escape over \\377");
        return false;
    }
    add_number(out, kind, v);
    return true;
}

/* Parses the digits of \uHHHH or \UHHHHHHHH after the letter. Python 2 writes a surrogate pair
 * for code points above U+FFFF. */
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
        record(r, ERR_RANGE, start,
               c > CODE_POINT_MAX ? "above U+10FFFF" : "half of a surrogate pair");
        return false;
    }
    add_code_point(out, c);
    return true;
}

/* Returns the character that a one-letter escape stands for, or 0. */
static char simple_escape(char c)
{
    static const char letters[] = "\\'\"abfnrtv";
    static const char means[] = "\\'\"\a\b\f\n\r\t\v";
    const char *at = c != '\0' ? strchr(letters, c) : NULL;

    return (char)(at != NULL ? means[at - letters] : '\0');
}

/* Parses an escape sequence after its backslash. */
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
        record(r, ERR_SYNTAX, r->at, "names of characters are not supported: use \\u");
        return false;
    }
    /* Python retains the backslash of an unknown escape. */
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
        record(r, ERR_SYNTAX, start, "raw strings are not supported: double the backslashes");
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
    record(r, ERR_SYNTAX, start, "unterminated string");
    return false;
}

/* Parses a string and those that follow it directly as one. Returns NULL with the problem in R. */
static json_t *parse_string(struct literal_reader *r)
{
    struct text all = {0};
    json_t *v = NULL;
    bool ok;

    do {
        ok = take_string(r, &all);
        while (ok && (byte_at(r, r->at) == ' ' || byte_at(r, r->at) == '\t'))
            ++r->at;
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

/* ---- all other values ---- */

static json_t *parse_value(struct literal_reader *r, size_t depth);

static json_t *fail(struct literal_reader *r, enum err e, size_t at, const char *why)
{
    record(r, e, at, why);
    return NULL;
}

static void skip_blanks(struct literal_reader *r)
{
    while (byte_at(r, r->at) == ' ' || byte_at(r, r->at) == '\t')
        ++r->at;
}

/* Skips blanks, and consumes the next byte if it is C. */
static bool take(struct literal_reader *r, char c)
{
    skip_blanks(r);
    if (byte_at(r, r->at) != c)
        return false;
    ++r->at;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    c = ascii_lower(c);
    return (c >= 'a' && c <= 'z') || c == '_';
}

/* ---- numbers ---- */

/* Parses the digits after 0x, 0o, 0b. */
static json_t *parse_based(struct literal_reader *r, size_t start, unsigned base, bool negative)
{
    uint64_t value = 0;
    bool any = false;

    for (;; ++r->at) {
        int digit = ascii_hex_digit(byte_at(r, r->at));

        if (digit < 0 || (unsigned)digit >= base)
            break;
        any = true;
        if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit, &value))
            return fail(r, ERR_RANGE, start, "more than 64 bits");
    }
    if (!any || is_letter(byte_at(r, r->at)) || is_digit(byte_at(r, r->at)))
        return fail(r, ERR_SYNTAX, r->at, "not a digit of this number");
    if (value > (uint64_t)INT64_MAX)
        return fail(r, ERR_RANGE, start, "more than 64 bits");
    return json_integer(negative ? -(json_int_t)value : (json_int_t)value);
}

static json_t *parse_decimal(struct literal_reader *r, size_t start, struct slice digits)
{
    char text[24];
    char *end = NULL;

    /* Python 3 rejects 010, and Python 2 reads it as 8. */
    const char *first = digits.p + (digits.p[0] == '-' ? 1 : 0);
    if (first[0] == '0' && digits.p + digits.len - first > 1)
        return fail(r, ERR_SYNTAX, start, "number begins with 0");
    if (digits.len >= sizeof(text))
        return fail(r, ERR_RANGE, start, "more than 64 bits");
    memcpy(text, digits.p, digits.len);
    text[digits.len] = '\0';
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0)
        return fail(r, ERR_RANGE, start, "more than 64 bits");
    return json_integer(value);
}

static void skip_digits(struct literal_reader *r)
{
    while (is_digit(byte_at(r, r->at)))
        ++r->at;
}

/* Scans digits, fraction and exponent, and checks the next byte. Sets *REAL if there is a
 * fraction or an exponent. */
static bool scan_number(struct literal_reader *r, bool *real)
{
    size_t start = r->at;

    skip_digits(r);
    size_t digits = r->at - start;
    if (byte_at(r, r->at) == '.') {
        *real = true;
        start = ++r->at;
        skip_digits(r);
        digits += r->at - start;
    }
    if (digits != 0 && ascii_lower(byte_at(r, r->at)) == 'e') {
        *real = true;
        ++r->at;
        if (byte_at(r, r->at) == '+' || byte_at(r, r->at) == '-')
            ++r->at;
        start = r->at;
        skip_digits(r);
        digits = r->at - start;
    }
    return digits != 0;
}

static json_t *parse_number(struct literal_reader *r)
{
    size_t start = r->at;
    bool negative = byte_at(r, r->at) == '-';
    bool real = false;
    double value;

    if (negative || byte_at(r, r->at) == '+')
        ++r->at;
    size_t from = negative ? start : r->at;
    if (byte_at(r, r->at) == '0' && r->at + 1 < r->s.len) {
        char kind = ascii_lower(r->s.p[r->at + 1]);

        if (kind == 'x' || kind == 'o' || kind == 'b') {
            r->at += 2;
            return parse_based(r, start, kind == 'x' ? 16 : kind == 'o' ? 8 : 2, negative);
        }
    }
    if (!scan_number(r, &real))
        return fail(r, ERR_SYNTAX, start, "not a number");
    struct slice digits = {r->s.p + from, r->at - from};
    /* The suffix of long numbers in Python 2. */
    if (!real && ascii_lower(byte_at(r, r->at)) == 'l')
        ++r->at;
    if (is_letter(byte_at(r, r->at)) || byte_at(r, r->at) == '.')
        return fail(r, ERR_SYNTAX, r->at, "not part of a number");
    if (!real)
        return parse_decimal(r, start, digits);
    if (!parse_double(digits, &value))
        return fail(r, ERR_RANGE, start, "number out of range");
    return json_real(value);
}

/* ---- words ---- */

static json_t *parse_word(struct literal_reader *r)
{
    size_t start = r->at;

    while (is_letter(byte_at(r, r->at)) || is_digit(byte_at(r, r->at)))
        ++r->at;
    struct slice word = {r->s.p + start, r->at - start};
    if (slice_is(word, "True"))
        return json_true();
    if (slice_is(word, "False"))
        return json_false();
    if (slice_is(word, "None"))
        return json_null();
    return fail(r, ERR_SYNTAX, start, "expected a string, number, list, dict, True, False or None");
}

/* ---- lists and dicts ---- */

/* Parses a value within another one, where bytes must be valid text. */
static json_t *parse_inner(struct literal_reader *r, size_t depth)
{
    skip_blanks(r);
    size_t start = r->at;
    json_t *v = parse_value(r, depth);

    if (json_is_string(v) &&
        !literal_is_text((struct slice){json_string_value(v), json_string_length(v)})) {
        json_decref(v);
        return fail(r, ERR_SYNTAX, start,
                    "bytes that are not text are not permitted inside a value");
    }
    return v;
}

/*
 * Parses up to CLOSE, which ends a list or tuple. "(v)" is not a tuple: *ALONE is set if there was
 * no comma.
 */
static json_t *parse_items(struct literal_reader *r, char close, size_t depth, bool *alone)
{
    json_t *list = json_array();

    *alone = false;
    while (!take(r, close)) {
        json_t *v = parse_inner(r, depth);

        if (v == NULL)
            goto bad;
        json_array_append_new(list, v);
        *alone = false;
        if (take(r, ','))
            continue;
        *alone = json_array_size(list) == 1;
        if (!take(r, close)) {
            fail(r, ERR_SYNTAX, r->at,
                 close == ']' ? "expected ',' or ']'" : "expected ',' or ')'");
            goto bad;
        }
        break;
    }
    return list;
bad:
    json_decref(list);
    return NULL;
}

static json_t *parse_list(struct literal_reader *r, size_t depth)
{
    bool tuple = byte_at(r, r->at) == '(';
    bool alone = false;

    ++r->at;
    json_t *list = parse_items(r, tuple ? ')' : ']', depth, &alone);
    if (list == NULL || !tuple || !alone)
        return list;
    json_t *only = json_incref(json_array_get(list, 0));
    json_decref(list);
    return only;
}

/* Parses KEY: VALUE and adds it to DICT. */
static bool parse_member(struct literal_reader *r, json_t *dict, size_t depth)
{
    skip_blanks(r);
    size_t start = r->at;
    json_t *key = parse_inner(r, depth);
    bool ok = false;

    if (key == NULL)
        return false;
    if (!json_is_string(key))
        fail(r, ERR_SYNTAX, start, "a key must be a string");
    else if (json_object_get(dict, json_string_value(key)) != NULL)
        fail(r, ERR_SYNTAX, start, "duplicate key");
    else if (!take(r, ':'))
        fail(r, ERR_SYNTAX, r->at, "expected ':'");
    else
        ok = true;
    json_t *v = ok ? parse_inner(r, depth) : NULL;
    if (v != NULL)
        json_object_set_new(dict, json_string_value(key), v);
    json_decref(key);
    return v != NULL;
}

static json_t *parse_dict(struct literal_reader *r, size_t depth)
{
    json_t *dict = json_object();

    ++r->at;
    while (!take(r, '}')) {
        if (!parse_member(r, dict, depth))
            goto bad;
        if (take(r, ','))
            continue;
        if (take(r, '}'))
            break;
        fail(r, ERR_SYNTAX, r->at, "expected ',' or '}'");
        goto bad;
    }
    return dict;
bad:
    json_decref(dict);
    return NULL;
}

static json_t *parse_value(struct literal_reader *r, size_t depth)
{
    skip_blanks(r);
    char c = byte_at(r, r->at);
    bool inner = c == '[' || c == '(' || c == '{';

    /* Counted as json_parse() does: each bracket and each comma. */
    size_t costs = inner ? 2 : 1;
    if (r->entries < costs)
        return fail(r, ERR_TOO_LARGE, r->at, "too many values in one node");
    r->entries -= costs;
    if (inner && depth == LITERAL_DEPTH_MAX)
        return fail(r, ERR_TOO_LARGE, r->at, "nested too deep");
    if (r->at == r->s.len)
        return fail(r, ERR_SYNTAX, r->at, "value is missing");
    if (c == '{')
        return parse_dict(r, depth + 1);
    if (inner)
        return parse_list(r, depth + 1);
    if (is_digit(c) || c == '.' || c == '-' || c == '+')
        return parse_number(r);
    if (string_begins(r))
        return parse_string(r);
    return parse_word(r);
}

enum err literal_parse(struct slice s, size_t *entries, json_t **out, struct literal_problem *p)
{
    struct literal_reader r = {.s = s, .entries = *entries};
    json_t *v = parse_value(&r, 0);

    if (v != NULL) {
        skip_blanks(&r);
        if (r.at != s.len) {
            json_decref(v);
            v = fail(&r, ERR_SYNTAX, r.at, "unexpected text after the value");
        }
    }
    if (v == NULL) {
        *p = r.problem;
        return r.error;
    }
    *entries = r.entries;
    *out = v;
    return ERR_OK;
}

/* ---- printing ---- */

void literal_print(const json_t *v, struct text *out)
{
    static const struct json_style python = {", ",    ": ",   "True",
                                             "False", "None", literal_print_string};

    json_print_as(v, &python, out);
}
