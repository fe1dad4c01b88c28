/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables seen from outside: the manual page, and the check that a table is fit for use.
 */
#include "common/config/settings_value.h"

#include <stdlib.h>

/* Markdown tables are cut at "|", wherever it stands. */
static void put_cell(const char *s, FILE *out)
{
    for (; *s != '\0'; ++s) {
        if (*s == '|')
            fputc('\\', out);
        fputc(*s, out);
    }
}

static void put_lower(const char *s, FILE *out)
{
    for (; *s != '\0'; ++s)
        fputc(*s == '_' ? ' ' : ascii_lower(*s), out);
}

static void put_choices(const char *choices, FILE *out)
{
    struct slice rest = slice_of(choices);
    const char *between = "";

    while (rest.len != 0) {
        struct slice one = slice_cut(&rest, '|');

        fprintf(out, "%s`%.*s`", between, SLICE_FMT(one));
        between = ", ";
    }
}

static void put_type(const struct setting_row *row, FILE *out)
{
    switch (row->type) {
    case SETTING_BOOL:
        fputs("yes or no", out);
        break;
    case SETTING_INT:
    case SETTING_REAL:
        fputs(row->type == SETTING_INT ? "whole number" : "number", out);
        if (strcmp(row->unit, "NONE") != 0) {
            fputs(" (", out);
            put_lower(row->unit, out);
            fputc(')', out);
        }
        break;
    case SETTING_TIME:
        fputs("time", out);
        break;
    case SETTING_SIZE:
        fputs("size", out);
        break;
    case SETTING_TEXT:
        fputs("text", out);
        break;
    case SETTING_SECRET:
        fputs("secret text", out);
        break;
    case SETTING_CHOICE:
        put_choices(row->min, out);
        break;
    case SETTING_LIST:
        fputs("list", out);
        break;
    case SETTING_NODE:
        fputs("structure", out);
        break;
    }
}

static bool is_bounded(const struct setting_row *row)
{
    return row->type != SETTING_CHOICE && (row->min != NULL || row->max != NULL);
}

static bool is_zero(const struct setting_row *row, const char *time)
{
    struct setting_row unbounded = *row;
    struct setting_value v = {.amount = 1};
    char why[SETTINGS_WHY_ROOM];

    unbounded.min = NULL;
    unbounded.max = NULL;
    return time != NULL && setting_value_parse(&unbounded, slice_of(time), &v, why) == ERR_OK &&
           v.amount == 0;
}

static void put_range(const struct setting_row *row, FILE *out)
{
    if (!is_bounded(row))
        return;
    fputs(", ", out);
    if (row->min != NULL && row->max != NULL)
        fprintf(out, "%s to %s", row->min, row->max);
    else if (row->min != NULL)
        fprintf(out, "at least %s", row->min);
    else
        fprintf(out, "at most %s", row->max);
    if (setting_takes_off(row) && !is_zero(row, row->min))
        fputs(", or off", out);
}

static void put_default(const struct setting_row *row, FILE *out)
{
    bool may_lack = row->type == SETTING_TEXT || row->type == SETTING_SECRET ||
                    row->type == SETTING_LIST || row->type == SETTING_NODE;

    if (row->deflt == NULL)
        fputs(may_lack ? "none" : "required", out);
    else if (row->deflt[0] == '\0')
        fputs("empty", out);
    else
        fprintf(out, "`%s`", row->deflt);
}

static void put_row(const struct setting_row *row, FILE *out)
{
    fprintf(out, "| `%s` | ", row->name);
    put_type(row, out);
    put_range(row, out);
    fputs(" | ", out);
    put_default(row, out);
    fprintf(out, " | %s | ", setting_when_text(row->when));
    put_cell(row->doc, out);
    fputs(" |\n", out);
}

void settings_describe(const struct settings_table *const *tables, size_t n, FILE *out)
{
    for (size_t i = 0; i < n; ++i) {
        const struct settings_table *t = tables[i];

        fputs(i != 0 ? "\n### " : "### ", out);
        fprintf(out, "%s\n\n", t->where);
        fputs("| setting | value | default | when | meaning |\n| --- | --- | --- | --- | --- |\n",
              out);
        for (size_t k = 0; k < t->n; ++k)
            put_row(&t->rows[k], out);
    }
}

static void check_text(const struct setting_row *row, const char *text)
{
    struct setting_value v = {0};
    char why[SETTINGS_WHY_ROOM];

    if (text == NULL)
        return;
    ASSERT(setting_value_parse(row, slice_of(text), &v, why) == ERR_OK);
    free(v.text);
    text_list_fini(&v.list);
}

static void check_row(const struct setting_row *row)
{
    bool ranged = row->type == SETTING_INT || row->type == SETTING_REAL ||
                  row->type == SETTING_TIME || row->type == SETTING_SIZE;

    ASSERT(row->doc[0] != '\0');
    if (row->type == SETTING_CHOICE) {
        ASSERT(row->min != NULL);
        ASSERT(row->max == NULL);
    } else if (ranged) {
        /* Each bound is within the bounds, so the lower is not above the upper. */
        check_text(row, row->min);
        check_text(row, row->max);
    } else {
        ASSERT(row->min == NULL);
        ASSERT(row->max == NULL);
    }
    if (row->type == SETTING_NODE)
        ASSERT(row->deflt == NULL);
    else
        check_text(row, row->deflt);
}

void settings_check_table(const struct settings_table *t)
{
    for (size_t i = 0; i < t->n; ++i) {
        ASSERT(settings_find(t, slice_of(t->rows[i].name)) == &t->rows[i]);
        check_row(&t->rows[i]);
    }
}
