/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds are checked before jansson parses the bytes, because its use of stack grows with the
 * nesting, and its use of memory with the number of entries. Printing does not use jansson, so that
 * real numbers have as few digits as possible for human readers.
 */
#include "common/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/limits.h"

/* ---- parsing ---- */

/*
 * Counts nesting and entries without parsing, by the brackets and commas outside of strings. The
 * counts are never too low for the part of a text that jansson would read. For valid JSON the
 * nesting is exact; an empty array or object counts as one entry.
 */
static enum err check_bounds(struct slice s, char *why)
{
    size_t depth = 0;
    size_t entries = 0;
    bool in_string = false;

    for (size_t i = 0; i < s.len; ++i) {
        char c = s.p[i];

        if (in_string) {
            if (c == '\\')
                ++i;
            in_string = c != '"';
            continue;
        }
        in_string = c == '"';
        if (c == '[' || c == '{')
            ++depth;
        else if ((c == ']' || c == '}') && depth != 0)
            --depth;
        entries += c == '[' || c == '{' || c == ',';
        if (depth > JSON_DEPTH_MAX)
            snprintf(why, JSON_WHY_ROOM, "nested deeper than %d", JSON_DEPTH_MAX);
        else if (entries > JSON_ENTRIES_MAX)
            snprintf(why, JSON_WHY_ROOM, "more than %d values", JSON_ENTRIES_MAX);
        else
            continue;
        return ERR_TOO_LARGE;
    }
    return ERR_OK;
}

enum err json_parse(struct slice bytes, size_t max_bytes, json_t **out, char why[JSON_WHY_ROOM])
{
    char unwanted[JSON_WHY_ROOM];
    json_error_t error;

    if (why == NULL)
        why = unwanted;
    if (bytes.len > max_bytes) {
        snprintf(why, JSON_WHY_ROOM, "longer than %zu bytes", max_bytes);
        return ERR_TOO_LARGE;
    }
    /* jansson skips a NUL between tokens. */
    if (slice_find(bytes, '\0') != SIZE_MAX) {
        snprintf(why, JSON_WHY_ROOM, "a NUL byte");
        return ERR_SYNTAX;
    }
    enum err e = check_bounds(bytes, why);
    if (e != ERR_OK)
        return e;
    /* Without JSON_ALLOW_NUL, NULs are rejected; without JSON_DISABLE_EOF_CHECK, bytes after the
     * value are. */
    json_t *v = json_loadb(bytes.p != NULL ? bytes.p : "", bytes.len,
                           JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (v == NULL) {
        snprintf(why, JSON_WHY_ROOM, "line %d, column %d: %.100s", error.line, error.column,
                 error.text);
        /* The messages of jansson quote the input, so unprintable bytes are removed before they
         * reach a log. */
        ascii_clean(why);
        return ERR_SYNTAX;
    }
    *out = v;
    return ERR_OK;
}

/* ---- numbers and strings ---- */

bool json_scalar_text(const json_t *v, struct text *out)
{
    /* json_object_get() returns NULL for a missing member. */
    if (v == NULL || json_is_null(v) || json_is_array(v) || json_is_object(v))
        return false;
    if (json_is_string(v))
        text_add(out, json_slice(v));
    else if (json_is_real(v))
        text_add_real(out, json_real_value(v));
    else
        json_print(v, out);
    return true;
}

static void add_string(struct slice s, struct text *out)
{
    text_reserve(out, s.len + 2);
    text_add_char(out, '"');
    for (;;) {
        size_t plain = text_plain_length(s);

        text_add(out, (struct slice){s.p, plain});
        if (plain == s.len)
            break;
        s = (struct slice){s.p + plain, s.len - plain};
        size_t len = utf8_length(s);
        /* U+0080 to U+009F, which terminals interpret as control characters. */
        bool c1 = len == 2 && s.p[0] == '\xc2' && (unsigned char)s.p[1] < 0xa0;

        if (s.p[0] == '"' || s.p[0] == '\\')
            text_addf(out, "\\%c", s.p[0]);
        else if (s.p[0] == '\n')
            text_add(out, SLICE_LIT("\\n"));
        else if (len == 1 || c1)
            text_addf(out, "\\u%04x", (unsigned char)s.p[len - 1]);
        else if (len == 0)
            text_add(out, SLICE_LIT("\xef\xbf\xbd")); /* U+FFFD */
        else
            text_add(out, (struct slice){s.p, len});
        len = len != 0 ? len : 1;
        s = (struct slice){s.p + len, s.len - len};
    }
    text_add_char(out, '"');
}

/* ---- the writer ---- */

static void begin_value(struct json_writer *w, struct slice name)
{
    if (w->need_comma)
        text_add_char(w->out, ',');
    w->need_comma = true;
    if (name.p != NULL) {
        add_string(name, w->out);
        text_add_char(w->out, ':');
    }
}

static void open_with(struct json_writer *w, const char *name, char bracket)
{
    begin_value(w, slice_of(name));
    text_add_char(w->out, bracket);
    w->need_comma = false;
}

void json_open_object(struct json_writer *w, const char *name)
{
    open_with(w, name, '{');
}

void json_open_array(struct json_writer *w, const char *name)
{
    open_with(w, name, '[');
}

void json_close_object(struct json_writer *w)
{
    text_add_char(w->out, '}');
    w->need_comma = true;
}

void json_close_array(struct json_writer *w)
{
    text_add_char(w->out, ']');
    w->need_comma = true;
}

void json_put_text(struct json_writer *w, const char *name, struct slice v)
{
    begin_value(w, slice_of(name));
    add_string(v, w->out);
}

void json_put_int(struct json_writer *w, const char *name, int64_t v)
{
    begin_value(w, slice_of(name));
    if (v < 0)
        text_add_char(w->out, '-');
    text_add_u64(w->out, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

static void put_real(struct json_writer *w, struct slice name, double v)
{
    begin_value(w, name);
    if (isfinite(v))
        text_add_real(w->out, v);
    else
        text_add(w->out, SLICE_LIT("null"));
}

void json_put_real(struct json_writer *w, const char *name, double v)
{
    put_real(w, slice_of(name), v);
}

void json_put_real_named(struct json_writer *w, struct slice name, double v)
{
    /* An empty name from outside is valid, unlike a NULL name. */
    put_real(w, name.p != NULL ? name : SLICE_LIT(""), v);
}

void json_put_bool(struct json_writer *w, const char *name, bool v)
{
    begin_value(w, slice_of(name));
    text_add(w->out, v ? SLICE_LIT("true") : SLICE_LIT("false"));
}

void json_put_null(struct json_writer *w, const char *name)
{
    begin_value(w, slice_of(name));
    text_add(w->out, SLICE_LIT("null"));
}

/* ---- printing trees ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char **json_sorted_names(const json_t *v)
{
    const char **names = xmalloc((json_object_size(v) + 1) * sizeof(char *));
    size_t n = 0;
    /* The iterators of jansson do not modify V, but take a pointer that is not const. */
    json_t *walked = (json_t *)(uintptr_t)v;

    for (void *it = json_object_iter(walked); it != NULL; it = json_object_iter_next(walked, it))
        names[n++] = json_object_iter_key(it);
    qsort(names, n, sizeof(char *), by_name);
    return names;
}

static void print_object(const json_t *v, const struct json_style *style, struct text *out)
{
    size_t n = json_object_size(v);
    const char **names = json_sorted_names(v);

    text_add_char(out, '{');
    for (size_t i = 0; i < n; ++i) {
        text_add(out, slice_of(i != 0 ? style->comma : ""));
        style->add_string(slice_of(names[i]), out);
        text_add(out, slice_of(style->colon));
        json_print_as(json_object_get(v, names[i]), style, out);
    }
    text_add_char(out, '}');
    free(names);
}

/* Recurses as deep as V is nested, which json_parse() bounds; values built by the program are
 * flat. */
void json_print_as(const json_t *v, const struct json_style *style, struct text *out)
{
    size_t before = out->len;

    switch (v != NULL ? json_typeof(v) : JSON_NULL) {
    case JSON_OBJECT:
        print_object(v, style, out);
        break;
    case JSON_ARRAY:
        text_add_char(out, '[');
        for (size_t i = 0; i < json_array_size(v); ++i) {
            text_add(out, slice_of(i != 0 ? style->comma : ""));
            json_print_as(json_array_get(v, i), style, out);
        }
        text_add_char(out, ']');
        break;
    case JSON_STRING:
        style->add_string(json_slice(v), out);
        break;
    case JSON_REAL:
        text_add_real(out, json_real_value(v));
        /* A real number without a fraction must remain a real number. */
        if (strcspn(text_cstr(out) + before, ".e") == out->len - before)
            text_add(out, SLICE_LIT(".0"));
        break;
    case JSON_INTEGER:
        text_addf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        text_add(out, slice_of(json_is_true(v) ? style->yes : style->no));
        break;
    case JSON_NULL:
        text_add(out, slice_of(style->none));
        break;
    }
}

void json_print(const json_t *v, struct text *out)
{
    static const struct json_style json = {",", ":", "true", "false", "null", add_string};

    json_print_as(v, &json, out);
}
