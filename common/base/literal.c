/* SPDX-License-Identifier: Apache-2.0
 *
 * A recursive descent parser with bounded depth, over borrowed bytes. It stops at the first
 * problem. Strings, the largest part, are parsed in literal_string.c.
 */
#include "common/base/literal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/base/literal_string.h"

#include "common/base/json.h"

static json_t *parse_value(struct literal_reader *r, size_t depth);

static json_t *fail(struct literal_reader *r, enum err e, size_t at, const char *why)
{
    literal_fail(r, e, at, why);
    return NULL;
}

static char peek(const struct literal_reader *r)
{
    return (char)(r->at < r->s.len ? r->s.p[r->at] : '\0');
}

static void skip_blanks(struct literal_reader *r)
{
    while (peek(r) == ' ' || peek(r) == '\t')
        ++r->at;
}

/* Skips blanks, and consumes the next byte if it is C. */
static bool take(struct literal_reader *r, char c)
{
    skip_blanks(r);
    if (peek(r) != c)
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

/* What follows 0x, 0o, 0b. */
static json_t *parse_based(struct literal_reader *r, size_t start, unsigned base, bool negative)
{
    uint64_t value = 0;
    bool any = false;

    for (;; ++r->at) {
        int digit = ascii_hex_digit(peek(r));

        if (digit < 0 || (unsigned)digit >= base)
            break;
        any = true;
        if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit, &value))
            return fail(r, ERR_RANGE, start, "more than 64 bits");
    }
    if (!any || is_letter(peek(r)) || is_digit(peek(r)))
        return fail(r, ERR_SYNTAX, r->at, "not a digit of this number");
    if (value > (uint64_t)INT64_MAX)
        return fail(r, ERR_RANGE, start, "more than 64 bits");
    return json_integer(negative ? -(json_int_t)value : (json_int_t)value);
}

static json_t *parse_decimal(struct literal_reader *r, size_t start, struct slice digits)
{
    char text[24];
    char *end = NULL;

    /* Python 3 refuses 010, Python 2 takes it for 8. */
    const char *first = digits.p + (digits.p[0] == '-' ? 1 : 0);
    if (first[0] == '0' && digits.p + digits.len - first > 1)
        return fail(r, ERR_SYNTAX, start, "a number that begins with 0");
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
    while (is_digit(peek(r)))
        ++r->at;
}

/* Digits, fraction, exponent; what may follow is checked. *REAL: it has one of the latter two. */
static bool scan_number(struct literal_reader *r, bool *real)
{
    size_t start = r->at;

    skip_digits(r);
    size_t digits = r->at - start;
    if (peek(r) == '.') {
        *real = true;
        start = ++r->at;
        skip_digits(r);
        digits += r->at - start;
    }
    if (digits != 0 && ascii_lower(peek(r)) == 'e') {
        *real = true;
        ++r->at;
        if (peek(r) == '+' || peek(r) == '-')
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
    bool negative = peek(r) == '-';
    bool real = false;
    double value;

    if (negative || peek(r) == '+')
        ++r->at;
    size_t from = negative ? start : r->at;
    if (peek(r) == '0' && r->at + 1 < r->s.len) {
        char kind = ascii_lower(r->s.p[r->at + 1]);

        if (kind == 'x' || kind == 'o' || kind == 'b') {
            r->at += 2;
            return parse_based(r, start, kind == 'x' ? 16 : kind == 'o' ? 8 : 2, negative);
        }
    }
    if (!scan_number(r, &real))
        return fail(r, ERR_SYNTAX, start, "not a number");
    struct slice digits = {r->s.p + from, r->at - from};
    /* Python 2 writes its long numbers so. */
    if (!real && ascii_lower(peek(r)) == 'l')
        ++r->at;
    if (is_letter(peek(r)) || peek(r) == '.')
        return fail(r, ERR_SYNTAX, r->at, "not part of a number");
    if (!real)
        return parse_decimal(r, start, digits);
    if (!parse_double(digits, &value))
        return fail(r, ERR_RANGE, start, "not a number that can be held");
    return json_real(value);
}

/* ---- words ---- */

static json_t *parse_word(struct literal_reader *r)
{
    size_t start = r->at;

    while (is_letter(peek(r)) || is_digit(peek(r)))
        ++r->at;
    struct slice word = {r->s.p + start, r->at - start};
    if (slice_is(word, "True"))
        return json_true();
    if (slice_is(word, "False"))
        return json_false();
    if (slice_is(word, "None"))
        return json_null();
    return fail(r, ERR_SYNTAX, start, "want a string, number, list, dict, True, False or None");
}

/* ---- lists and dicts ---- */

/* A value inside another one: there bytes must be text. */
static json_t *parse_inner(struct literal_reader *r, size_t depth)
{
    skip_blanks(r);
    size_t start = r->at;
    json_t *v = parse_value(r, depth);

    if (json_is_string(v) &&
        !literal_is_text((struct slice){json_string_value(v), json_string_length(v)})) {
        json_decref(v);
        return fail(r, ERR_SYNTAX, start, "bytes that are no text cannot be inside a value");
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
            fail(r, ERR_SYNTAX, r->at, close == ']' ? "want ',' or ']'" : "want ',' or ')'");
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
    bool tuple = peek(r) == '(';
    bool alone = false;

    ++r->at;
    json_t *list = parse_items(r, tuple ? ')' : ']', depth, &alone);
    if (list == NULL || !tuple || !alone)
        return list;
    json_t *only = json_incref(json_array_get(list, 0));
    json_decref(list);
    return only;
}

/* KEY: VALUE into DICT. */
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
        fail(r, ERR_SYNTAX, start, "a key that is there already");
    else if (!take(r, ':'))
        fail(r, ERR_SYNTAX, r->at, "want ':'");
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
        fail(r, ERR_SYNTAX, r->at, "want ',' or '}'");
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
    char c = peek(r);
    bool inner = c == '[' || c == '(' || c == '{';

    /* As JSON's bounds count them: each bracket, and each comma. */
    size_t costs = inner ? 2 : 1;
    if (r->entries < costs)
        return fail(r, ERR_TOO_LARGE, r->at, "too many values in one node");
    r->entries -= costs;
    if (inner && depth == LITERAL_DEPTH_MAX)
        return fail(r, ERR_TOO_LARGE, r->at, "nested too deep");
    if (r->at == r->s.len)
        return fail(r, ERR_SYNTAX, r->at, "ends where a value should be");
    if (c == '{')
        return parse_dict(r, depth + 1);
    if (inner)
        return parse_list(r, depth + 1);
    if (is_digit(c) || c == '.' || c == '-' || c == '+')
        return parse_number(r);
    if (literal_string_begins(r))
        return literal_parse_string(r);
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
            v = fail(&r, ERR_SYNTAX, r.at, "more behind the value");
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

static void print_dict(const json_t *v, struct text *out)
{
    const char **names = json_sorted_names(v);
    size_t n = json_object_size(v);

    text_add_char(out, '{');
    for (size_t i = 0; i < n; ++i) {
        text_add(out, slice_of(i != 0 ? ", " : ""));
        literal_print_string(slice_of(names[i]), out);
        text_add(out, SLICE_LIT(": "));
        literal_print(json_object_get(v, names[i]), out);
    }
    text_add_char(out, '}');
    free(names);
}

static void print_list(const json_t *v, struct text *out)
{
    text_add_char(out, '[');
    for (size_t i = 0; i < json_array_size(v); ++i) {
        text_add(out, slice_of(i != 0 ? ", " : ""));
        literal_print(json_array_get(v, i), out);
    }
    text_add_char(out, ']');
}

static void print_real(double v, struct text *out)
{
    size_t before = out->len;

    text_add_real(out, v);
    /* It was a real number and is to remain one. */
    if (strcspn(text_cstr(out) + before, ".e") == out->len - before)
        text_add(out, SLICE_LIT(".0"));
}

void literal_print(const json_t *v, struct text *out)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        print_dict(v, out);
        break;
    case JSON_ARRAY:
        print_list(v, out);
        break;
    case JSON_STRING:
        literal_print_string((struct slice){json_string_value(v), json_string_length(v)}, out);
        break;
    case JSON_INTEGER:
        text_addf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        break;
    case JSON_REAL:
        print_real(json_real_value(v), out);
        break;
    case JSON_TRUE:
        text_add(out, SLICE_LIT("True"));
        break;
    case JSON_FALSE:
        text_add(out, SLICE_LIT("False"));
        break;
    case JSON_NULL:
        text_add(out, SLICE_LIT("None"));
        break;
    }
}
