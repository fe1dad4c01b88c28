/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cli/page.h"
#include "common/base/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- tables ---- */

/* CELL is escaped. */
static void add_cell(struct table *t, struct slice cell)
{
    /* Room in powers of two. */
    if ((t->ncells & (t->ncells - 1)) == 0) {
        size_t room = t->ncells == 0 ? 1 : t->ncells * 2;

        t->cells = xrealloc(t->cells, room * sizeof(t->cells[0]));
        t->styles = xrealloc(t->styles, room); /* more than there are rows */
    }
    t->styles[t->ncells / t->ncolumns] = TABLE_PLAIN;
    t->cells[t->ncells++] = xslicedup(cell);
}

void table_begin(struct table *t, const char *titles)
{
    char *rest = xstrdup(titles);
    char *title;

    *t = (struct table){.titles = rest, .ncolumns = TABLE_COLUMNS_MAX};
    for (size_t n = 0; (title = strsep(&rest, "|")) != NULL; ++n) {
        bool right = title[0] == '>';
        char *format = strpbrk(title, "{[");

        ASSERT(n < TABLE_COLUMNS_MAX);
        if (format != NULL)
            format[-1] = '\0';
        t->columns[n].format = format;
        t->columns[n].right = right;
        add_cell(t, slice_of(title + right));
    }
    t->ncolumns = t->ncells;
}

void table_end(struct table *t, struct text *out)
{
    table_print(t, 2, out);
    table_fini(t);
}

void table_fini(struct table *t)
{
    for (size_t i = 0; i < t->ncells; ++i)
        free(t->cells[i]);
    free(t->cells);
    free(t->styles);
    free(t->titles);
}

void table_add(struct table *t, struct slice cell)
{
    struct text safe = {0};

    text_add_escaped(&safe, cell);
    add_cell(t, text_slice(&safe));
    text_fini(&safe);
}

const char *const table_styles[] = {
    [TABLE_PLAIN] = "",         [TABLE_GOOD] = "\033[32m", [TABLE_WARNING] = "\033[33m",
    [TABLE_BAD] = "\033[1;31m", [TABLE_FAINT] = "\033[2m",
};

void table_addf(struct table *t, const char *fmt, ...)
{
    char cell[128];
    va_list args;

    va_start(args, fmt);
    vsnprintf(cell, sizeof(cell), fmt, args);
    va_end(args);
    table_add(t, slice_of(cell));
}

void table_print(const struct table *t, size_t indent, struct text *out)
{
    size_t widths[TABLE_COLUMNS_MAX] = {0};

    ASSERT(t->ncells % t->ncolumns == 0);
    if (!table_has_rows(t))
        return;
    for (size_t i = 0; i < t->ncells; ++i) {
        size_t *width = &widths[i % t->ncolumns];
        size_t len = strlen(t->cells[i]);

        *width = len > *width ? len : *width;
    }
    for (size_t i = 0; i < t->ncells; ++i) {
        enum table_style style = t->styles[i / t->ncolumns];
        size_t column = i % t->ncolumns;
        bool right = t->columns[column].right;
        int blanks = (int)(widths[column] - strlen(t->cells[i]));

        if (column == 0)
            text_add(out, slice_of(table_styles[style]));
        text_addf(out, "%*s", (int)(column == 0 ? indent : 2) + (right ? blanks : 0), "");
        text_add(out, slice_of(t->cells[i]));
        /* No blanks at the end of a line; a terminal may scroll there. */
        if (column + 1 != t->ncolumns)
            text_addf(out, "%*s", right ? 0 : blanks, "");
        else
            text_add(out, style != TABLE_PLAIN ? SLICE_LIT(TABLE_STYLE_END "\n") : SLICE_LIT("\n"));
    }
}

void table_numbers(struct table *t, const char *fmt, ...)
{
    char cells[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(cells, sizeof(cells), fmt, args);
    va_end(args);
    for (struct slice rest = slice_of(cells); rest.len != 0;)
        table_add(t, slice_cut(&rest, ' '));
}

/* ---- pages ---- */

static int64_t int_of(const json_t *v)
{
    return json_is_real(v) ? (int64_t)json_real_value(v) : (int64_t)json_integer_value(v);
}

int64_t page_int(const json_t *object, const char *name)
{
    return int_of(json_object_get(object, name));
}

double page_number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

bool page_is_true(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

void page_add_words(struct text *out, struct slice words)
{
    for (size_t i = 0; i < words.len; ++i) {
        if (words.p[i] == '"' || words.p[i] == '\\')
            text_add_char(out, words.p[i]);
        else
            text_add_escaped(out, (struct slice){words.p + i, 1});
    }
}

bool page_has_cutoff(const json_t *application)
{
    const char *policy = json_string_value(json_object_get(application, "policy"));

    return policy == NULL || strcmp(policy, "resume") == 0;
}

void page_add_duration(struct text *out, double seconds)
{
    enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR };
    /* Beyond any uptime; also keeps the conversion defined. */
    uint64_t s = seconds > 0 && seconds < 1e12 ? (uint64_t)seconds : 0;

    if (s >= DAY)
        text_addf(out, "%" PRIu64 "d %" PRIu64 "h", s / DAY, s % DAY / HOUR);
    else if (s >= HOUR)
        text_addf(out, "%" PRIu64 "h %" PRIu64 "m", s / HOUR, s % HOUR / MINUTE);
    else if (s >= MINUTE)
        text_addf(out, "%" PRIu64 "m %" PRIu64 "s", s / MINUTE, s % MINUTE);
    else
        text_addf(out, "%" PRIu64 "s", s);
}

/* Formats are literals of ours. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void add_member(struct text *out, const json_t *v, struct slice kind)
{
    char format[32];
    char letter = kind.len != 0 ? kind.p[0] : 's';

    if (letter == 'd' || (letter == 'i' && json_is_number(v))) {
        text_addf(out, "%" PRId64, int_of(v));
    } else if (letter == 't' && json_is_number(v)) {
        page_add_duration(out, json_number_value(v));
    } else if ((letter == 'T' || letter == 'm') && json_is_number(v)) {
        /* UTC, without the fraction, which is one of microseconds. */
        double seconds = json_number_value(v);
        time_t second = seconds > 0 && seconds < 1e11 ? (time_t)(seconds + 5e-7) : 0;
        struct tm utc;

        gmtime_r(&second, &utc);
        strftime(format, sizeof(format), letter == 'T' ? "%Y-%m-%d %H:%M:%S" : "%Y-%m-%d %H:%M",
                 &utc);
        text_add(out, slice_of(format));
    } else if (letter == '%' && json_is_number(v)) {
        snprintf(format, sizeof(format), "%.*s", SLICE_FMT(kind));
        text_addf(out, format, json_number_value(v));
    } else if (letter == 'w' && json_is_string(v)) {
        page_add_words(out, json_slice(v));
    } else if (letter == 's' && json_is_string(v)) {
        text_add_escaped(out, json_slice(v));
    } else {
        text_add_char(out, '-');
    }
}
#pragma GCC diagnostic pop

void page_add(struct text *out, const json_t *object, const char *format)
{
    bool decides = false; /* the next member is the first one of a part */
    bool shown = true;
    size_t part = 0;

    for (struct slice rest = slice_of(format); rest.len != 0;) {
        char c = *rest.p++;

        --rest.len;
        if (c == '[' || c == ']') {
            decides = c == '[';
            shown = true;
            part = out->len;
        } else if (c == '{') {
            struct slice kind = slice_cut(&rest, '}');
            struct slice path = slice_cut(&kind, ':');
            const json_t *v = object;

            while (path.len != 0) {
                struct slice name = slice_cut(&path, '.');

                v = json_object_getn(v, name.p, name.len);
            }
            bool given = json_is_true(v) || json_number_value(v) != 0 ||
                         json_string_length(v) != 0 || json_object_size(v) != 0;

            if (decides)
                shown = given != slice_is(kind, "!");
            if (!shown && decides)
                out->len = part;
            else if (shown && !slice_is(kind, "!") && !slice_is(kind, "?"))
                add_member(out, v, kind);
            decides = false;
        } else if (shown) {
            text_add_char(out, c);
        }
    }
}

void page_add_each(struct text *out, const json_t *objects, const char *format)
{
    const json_t *object;
    size_t i;

    json_array_foreach (objects, i, object)
        page_add(out, object, format);
}

/* ---- tables of objects ---- */

void page_print_rows(const char *columns, const json_t *rows, size_t top, page_style_fn style,
                     struct text *out)
{
    struct table t;
    struct text cell = {0};
    const json_t *row;
    size_t i;

    table_begin(&t, columns);
    json_array_foreach (rows, i, row) {
        if (top != 0 && i == top)
            break;
        for (size_t k = 0; k < t.ncolumns; ++k) {
            text_clear(&cell);
            page_add(&cell, row, t.columns[k].format);
            if (cell.len == 0 && t.cells[k][0] != '\0')
                text_add_char(&cell, '-');
            add_cell(&t, text_slice(&cell));
        }
        if (style != NULL)
            t.styles[i + 1] = (unsigned char)style(row);
    }
    text_fini(&cell);
    table_end(&t, out);
}

/* ---- applications ---- */

enum err page_check(const json_t *page, const struct ctl_options *o)
{
    const json_t *applications = json_object_get(page, "applications");

    if (!json_is_object(applications))
        return ERR_SYNTAX;
    if (o->application != NULL && json_object_get(applications, o->application) == NULL)
        return ERR_NOT_FOUND;
    return ERR_OK;
}

enum err page_each_application(const json_t *page, const struct ctl_options *o,
                               page_application_fn print, struct text *out)
{
    json_t *applications = json_object_get(page, "applications");
    enum err e = page_check(page, o);
    const char *name;
    json_t *a;

    if (e != ERR_OK)
        return e;
    if (json_object_size(applications) == 0)
        text_add(out, SLICE_LIT("no applications\n"));
    json_object_foreach (applications, name, a) {
        if (o->application != NULL && strcmp(o->application, name) != 0)
            continue;
        if (out->len != 0)
            text_add_char(out, '\n');
        print(name, a, o, out);
    }
    return ERR_OK;
}
