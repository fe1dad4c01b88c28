/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cli/page.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- tables ---- */

void table_init(struct table *t, const struct table_column *columns, size_t ncolumns)
{
    ASSERT(ncolumns <= TABLE_COLUMNS_MAX);
    *t = (struct table){.columns = columns, .ncolumns = ncolumns};
}

void table_fini(struct table *t)
{
    for (size_t i = 0; i < t->ncells; ++i)
        free(t->cells[i]);
    free(t->cells);
    free(t->styles);
    t->cells = NULL;
    t->styles = NULL;
    t->ncells = 0;
}

void table_add(struct table *t, struct slice cell)
{
    struct text safe = {0};

    text_add_escaped(&safe, cell);
    /* Room in powers of two. */
    if ((t->ncells & (t->ncells - 1)) == 0) {
        size_t room = t->ncells == 0 ? 1 : t->ncells * 2;

        t->cells = xrealloc(t->cells, room * sizeof(t->cells[0]));
        t->styles = xrealloc(t->styles, room); /* more than there are rows */
    }
    t->styles[t->ncells / t->ncolumns] = TABLE_PLAIN;
    t->cells[t->ncells++] = xslicedup(text_slice(&safe));
    text_fini(&safe);
}

void table_style(struct table *t, enum table_style style)
{
    ASSERT(t->ncells != 0);
    ASSERT(t->ncells % t->ncolumns == 0);
    t->styles[t->ncells / t->ncolumns - 1] = (unsigned char)style;
}

const char *table_style_begin(enum table_style style)
{
    static const char *const begins[] = {
        [TABLE_PLAIN] = "",         [TABLE_GOOD] = "\033[32m", [TABLE_WARNING] = "\033[33m",
        [TABLE_BAD] = "\033[1;31m", [TABLE_FAINT] = "\033[2m",
    };

    ASSERT((unsigned)style < ARRAY_LEN(begins));
    return begins[style];
}

void table_addf(struct table *t, const char *fmt, ...)
{
    char cell[128];
    va_list args;

    va_start(args, fmt);
    vsnprintf(cell, sizeof(cell), fmt, args);
    va_end(args);
    table_add(t, slice_of(cell));
}

static void pad(struct text *out, size_t n)
{
    while (n-- != 0)
        text_add_char(out, ' ');
}

static void print_row(const struct table *t, const char *const *cells, const size_t *widths,
                      struct text *out)
{
    for (size_t i = 0; i < t->ncolumns; ++i) {
        size_t len = strlen(cells[i]);

        if (i != 0)
            pad(out, 2);
        if (t->columns[i].right)
            pad(out, widths[i] - len);
        text_add(out, slice_of(cells[i]));
        /* No blanks at the end of a line. */
        if (!t->columns[i].right && i + 1 != t->ncolumns)
            pad(out, widths[i] - len);
    }
    text_add_char(out, '\n');
}

void table_print(const struct table *t, size_t indent, struct text *out)
{
    size_t widths[TABLE_COLUMNS_MAX];
    const char *titles[TABLE_COLUMNS_MAX];

    ASSERT(t->ncells % t->ncolumns == 0);
    if (t->ncells == 0)
        return;
    for (size_t i = 0; i < t->ncolumns; ++i) {
        titles[i] = t->columns[i].title;
        widths[i] = strlen(titles[i]);
    }
    for (size_t i = 0; i < t->ncells; ++i) {
        size_t len = strlen(t->cells[i]);

        if (len > widths[i % t->ncolumns])
            widths[i % t->ncolumns] = len;
    }
    pad(out, indent);
    print_row(t, titles, widths, out);
    for (size_t i = 0; i < t->ncells; i += t->ncolumns) {
        enum table_style style = t->colours ? t->styles[i / t->ncolumns] : TABLE_PLAIN;

        text_add(out, slice_of(table_style_begin(style)));
        pad(out, indent);
        print_row(t, (const char *const *)t->cells + i, widths, out);
        if (style != TABLE_PLAIN) {
            /* Before the end of the line, where a terminal may scroll. */
            --out->len;
            text_add(out, SLICE_LIT(TABLE_STYLE_END "\n"));
        }
    }
}

/* ---- pages ---- */

int64_t page_int(const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);

    if (json_is_real(v))
        return (int64_t)json_real_value(v);
    return json_integer_value(v);
}

void cell_text(struct table *t, const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);
    struct slice s = {json_string_value(v), json_string_length(v)};

    table_add(t, s.len != 0 ? s : SLICE_LIT("-"));
}

void cell_int(struct table *t, const json_t *object, const char *name)
{
    if (json_is_number(json_object_get(object, name)))
        table_addf(t, "%" PRId64, page_int(object, name));
    else
        table_add(t, SLICE_LIT("-"));
}

/* FMT is always a literal of ours. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
void cell_real(struct table *t, const json_t *object, const char *name, const char *fmt)
{
    const json_t *v = json_object_get(object, name);

    if (json_is_number(v))
        table_addf(t, fmt, json_number_value(v));
    else
        table_add(t, SLICE_LIT("-"));
}
#pragma GCC diagnostic pop

void page_add_text(struct text *out, const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);

    if (json_is_string(v))
        text_add_escaped(out, (struct slice){json_string_value(v), json_string_length(v)});
    else
        text_add_char(out, '-');
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

void page_add_why(struct text *out, const json_t *object)
{
    const json_t *v = json_object_get(object, "why");

    if (json_is_string(v))
        page_add_words(out, (struct slice){json_string_value(v), json_string_length(v)});
    else
        text_add_char(out, '-');
}

void page_add_real(struct text *out, const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);

    if (json_is_number(v))
        text_addf(out, "%.4g", json_number_value(v));
    else
        text_add_char(out, '-');
}

void page_add_cutoff(const json_t *application, struct text *out)
{
    const char *policy = json_string_value(json_object_get(application, "policy"));

    if (policy != NULL && strcmp(policy, "resume") != 0)
        return;
    text_add(out, SLICE_LIT(", cutoff "));
    page_add_real(out, application, "max_backlog");
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

void page_print_refused(const json_t *application, struct text *out)
{
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(application, "refused"), i, row)
    {
        text_add(out, SLICE_LIT("  rejected setting "));
        page_add_text(out, row, "name");
        text_add(out, SLICE_LIT(": "));
        page_add_why(out, row);
        text_add_char(out, '\n');
    }
    json_array_foreach(json_object_get(application, "broken_links"), i, row)
    {
        text_add(out, SLICE_LIT("  a link in the tree does not resolve: "));
        text_add_escaped(out, (struct slice){json_string_value(row), json_string_length(row)});
        text_add_char(out, '\n');
    }
}

enum err page_check(const json_t *page, const struct ctl_options *o)
{
    const json_t *applications = json_object_get(page, "applications");

    if (!json_is_object(applications))
        return ERR_SYNTAX;
    if (o->application != NULL && json_object_get(applications, o->application) == NULL)
        return ERR_NOT_FOUND;
    return ERR_OK;
}

void page_each_application(const json_t *page, const struct ctl_options *o,
                           page_application_fn print, struct text *out)
{
    json_t *applications = json_object_get(page, "applications");
    const char *name;
    json_t *a;

    if (json_object_size(applications) == 0)
        text_add(out, SLICE_LIT("no applications\n"));
    json_object_foreach(applications, name, a)
    {
        if (o->application != NULL && strcmp(o->application, name) != 0)
            continue;
        if (out->len != 0)
            text_add_char(out, '\n');
        print(name, a, o, out);
    }
}
