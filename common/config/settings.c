/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything here walks rows; what depends on the type of a value is in setting.c. A value is
 * parsed into a struct setting_value first, and moved into its field only if it is valid.
 */
#include "common/config/settings.h"

#include <stdlib.h>

/* ---- fields ---- */

static void *field_at(const struct setting_row *row, void *s)
{
    return (char *)s + row->offset;
}

/* Returns the field as a value, which borrows the memory that the field owns. */
static struct setting_value field_get(const struct setting_row *row, const void *s)
{
    struct setting_value v = {0};

    memcpy((char *)&v + setting_types[row->type].offset, (const char *)s + row->offset,
           setting_types[row->type].size);
    return v;
}

static void field_free(const struct setting_row *row, void *s)
{
    if (row->type == SETTING_TEXT || row->type == SETTING_SECRET) {
        char **text = field_at(row, s);

        free(*text);
        *text = NULL;
    } else if (row->type == SETTING_LIST) {
        text_list_fini(field_at(row, s));
    }
}

/* Moves V into the field and frees the previous content of the field. */
static void field_put(const struct setting_row *row, void *s, const struct setting_value *v)
{
    field_free(row, s);
    memcpy(field_at(row, s), (const char *)v + setting_types[row->type].offset,
           setting_types[row->type].size);
}

/* ---- names ---- */

const struct setting_row *settings_find(const struct settings_table *t, struct slice name)
{
    for (size_t i = 0; i < t->n; ++i) {
        if (slice_is(name, t->rows[i].name))
            return &t->rows[i];
    }
    return NULL;
}

enum { NAME_COMPARED_MAX = 40 };

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/*
 * Returns the number of letters to insert, delete, replace or swap with their neighbor to convert A
 * into B (optimal string alignment). Both must be at most NAME_COMPARED_MAX long.
 */
static size_t edits_between(struct slice a, struct slice b)
{
    /* [i][k]: the edits between the first i letters of A and the first k of B. */
    size_t edits[NAME_COMPARED_MAX + 1][NAME_COMPARED_MAX + 1];

    for (size_t i = 0; i <= a.len; ++i) {
        for (size_t k = 0; k <= b.len; ++k) {
            size_t n = i + k;

            if (i > 0 && k > 0)
                n = min_size(edits[i - 1][k - 1] + (a.p[i - 1] != b.p[k - 1]),
                             min_size(edits[i - 1][k], edits[i][k - 1]) + 1);
            if (i > 1 && k > 1 && a.p[i - 1] == b.p[k - 2] && a.p[i - 2] == b.p[k - 1])
                n = min_size(n, edits[i - 2][k - 2] + 1);
            edits[i][k] = n;
        }
    }
    return edits[a.len][b.len];
}

/* Returns the known name that NAME is most likely a misspelling of, or NULL. */
static const char *nearest_name(const struct settings_table *t, struct slice name)
{
    const char *best = NULL;
    size_t best_edits = 2 + name.len / 5; /* more than that is another word */

    if (name.len > NAME_COMPARED_MAX)
        return NULL;
    for (size_t i = 0; i < t->n; ++i) {
        struct slice known = slice_of(t->rows[i].name);

        if (known.len > NAME_COMPARED_MAX)
            continue;
        size_t edits = edits_between(name, known);
        if (edits < best_edits) {
            best_edits = edits;
            best = t->rows[i].name;
        }
    }
    return best;
}

/* ---- from a configuration ---- */

static const char *kind_text(enum config_kind kind)
{
    return kind == CONFIG_SCALAR ? "a single value" : kind == CONFIG_LIST ? "a list" : "a map";
}

static bool read_field(const struct setting_row *row, const struct config *c,
                       const struct config_node *node, void *out, struct diag *d)
{
    struct setting_value v = {.node = node};
    char why[SETTINGS_WHY_ROOM] = "";
    unsigned errors_before = d->errors;

    if (row->type == SETTING_LIST && node->kind == CONFIG_LIST) {
        for (size_t i = 0; i < node->n; ++i) {
            const struct config_node *item = node->items[i];

            if (item->kind != CONFIG_SCALAR)
                config_complain(c, item, d, "%s: each item must be a text", row->name);
            else if (config_is_null(item))
                config_complain(c, item, d, "%s: this item is empty", row->name);
            else
                text_list_add(&v.list, item->text);
        }
        if (d->errors != errors_before) {
            text_list_fini(&v.list);
            return false;
        }
    } else if (row->type != SETTING_NODE) {
        if (node->kind != CONFIG_SCALAR)
            snprintf(why, sizeof(why), "expected %s, not %s", setting_types[row->type].expected,
                     kind_text(node->kind));
        if (node->kind != CONFIG_SCALAR ||
            setting_value_parse(row, node->text, &v, why) != ERR_OK) {
            config_complain(c, node, d, "%s: %s", row->name, why);
            return false;
        }
    }
    /* Files with secrets: the configuration itself, and files that it names in rows of this unit.
     */
    if (v.text != NULL && row->type == SETTING_SECRET)
        config_add_secret_file(c, c->file);
    else if (v.text != NULL && strcmp(row->unit, "SECRET_FILE") == 0)
        config_add_secret_file(c, v.text);
    field_put(row, out, &v);
    return true;
}

static bool is_required(const struct setting_row *row)
{
    return row->deflt == NULL && row->type != SETTING_TEXT && row->type != SETTING_SECRET &&
           row->type != SETTING_LIST && row->type != SETTING_NODE;
}

static void complain_unknown(const struct settings_table *t, const struct config *c,
                             const struct config_node *key, struct diag *d)
{
    char buf[SETTING_SHOWN_ROOM];
    const char *near = nearest_name(t, key->text);

    setting_shown(key->text, buf);
    for (size_t i = 0; i < t->nall; ++i) {
        if (settings_find(t->all[i], key->text) != NULL) {
            config_complain(c, key, d, "\"%s\" does not belong here, but in: %s", buf,
                            t->all[i]->where);
            return;
        }
    }
    const char *where = NULL;

    for (size_t i = 0; near == NULL && i < t->nall; ++i) {
        near = nearest_name(t->all[i], key->text);
        where = t->all[i]->where;
    }
    if (near == NULL)
        config_complain(c, key, d, "unknown setting \"%s\"", buf);
    else if (where == NULL)
        config_complain(c, key, d, "unknown setting \"%s\" (did you mean \"%s\"?)", buf, near);
    else
        config_complain(c, key, d, "unknown setting \"%s\" (did you mean \"%s\", of: %s?)", buf,
                        near, where);
}

void settings_read(const struct settings_table *t, const struct config *c,
                   const struct config_node *map, void *out, enum setting_origin *origins,
                   struct diag *d)
{
    bool *present = xcalloc(t->n + 1, sizeof(bool));

    settings_defaults(t, out);
    for (size_t i = 0; origins != NULL && i < t->n; ++i)
        origins[i] = ORIGIN_DEFAULT;
    if (map != NULL && map->kind != CONFIG_MAP && !config_is_null(map)) {
        config_complain(c, map, d, "expected \"name: value\" lines here, not %s",
                        kind_text(map->kind));
        goto out;
    }
    for (size_t i = 0; map != NULL && i < map->n; ++i) {
        const struct setting_row *row = settings_find(t, map->keys[i]->text);

        if (row == NULL) {
            complain_unknown(t, c, map->keys[i], d);
            continue;
        }
        if (config_is_null(map->items[i]))
            continue;
        size_t index = (size_t)(row - t->rows); /* once: config_parse() rejects duplicates */
        present[index] = true;
        if (read_field(row, c, map->items[i], out, d) && origins != NULL)
            origins[index] = ORIGIN_YAML;
    }
    for (size_t i = 0; i < t->n; ++i) {
        if (is_required(&t->rows[i]) && !present[i])
            config_complain(c, map, d, "%s: is required and missing", t->rows[i].name);
    }
out:
    free(present);
}

/* ---- whole structs ---- */

void settings_defaults(const struct settings_table *t, void *out)
{
    char why[SETTINGS_WHY_ROOM];

    memset(out, 0, t->bytes);
    for (size_t i = 0; i < t->n; ++i) {
        const struct setting_row *row = &t->rows[i];

        if (row->deflt == NULL)
            continue;
        enum err err = settings_set(row, slice_of(row->deflt), out, why);
        ASSERT(err == ERR_OK);
    }
}

void settings_fini(const struct settings_table *t, void *s)
{
    for (size_t i = 0; i < t->n; ++i)
        field_free(&t->rows[i], s);
}

void settings_take(const struct setting_row *row, const void *from, void *to)
{
    struct setting_value v = field_get(row, from);
    struct text_list copy = {0};

    /* Copied before the previous value is freed, because FROM and TO may be the same. */
    v.text = xstrdup(v.text);
    for (size_t i = 0; i < v.list.n; ++i)
        text_list_add(&copy, slice_of(v.list.items[i]));
    v.list = copy;
    field_put(row, to, &v);
}

void settings_copy(const struct settings_table *t, const void *from, void *to)
{
    memset(to, 0, t->bytes);
    for (size_t i = 0; i < t->n; ++i) {
        if (t->rows[i].type != SETTING_NODE)
            settings_take(&t->rows[i], from, to);
    }
}

enum err settings_set(const struct setting_row *row, struct slice text, void *s,
                      char why[SETTINGS_WHY_ROOM])
{
    struct setting_value v = {0};

    if (row->type == SETTING_NODE) {
        snprintf(why, SETTINGS_WHY_ROOM, "cannot be written as a single value");
        return ERR_SYNTAX;
    }
    enum err e = setting_value_parse(row, text, &v, why);
    if (e == ERR_OK)
        field_put(row, s, &v);
    return e;
}

bool settings_same(const struct setting_row *row, const void *a, const void *b)
{
    struct setting_value x = field_get(row, a);
    struct setting_value y = field_get(row, b);
    bool same = x.yes == y.yes && x.number == y.number && x.real == y.real &&
                x.amount == y.amount && x.choice == y.choice && x.node == y.node &&
                (x.text == NULL) == (y.text == NULL) &&
                (x.text == NULL || strcmp(x.text, y.text) == 0) && x.list.n == y.list.n;

    for (size_t i = 0; same && i < x.list.n; ++i)
        same = strcmp(x.list.items[i], y.list.items[i]) == 0;
    return same;
}

void settings_print(const struct setting_row *row, const void *s, struct text *out)
{
    struct setting_value v = field_get(row, s);

    setting_value_print(row, &v, out);
}

const char *setting_when_text(enum setting_when w)
{
    static const char *const texts[] = {"boot", "reload", "live", "local"};

    return texts[w];
}

const char *setting_origin_text(enum setting_origin o)
{
    static const char *const texts[] = {"default", "yaml", "tree"};

    return texts[o];
}

/* ---- the manual ---- */

/* The type, unit and range of a value. */
static void settings_put_value(const struct setting_row *row, FILE *out)
{
    bool has_unit = row->type == SETTING_INT || row->type == SETTING_REAL;
    struct slice choices = slice_of(row->type == SETTING_CHOICE ? row->min : NULL);

    for (const char *between = ""; choices.len != 0; between = ", ") {
        struct slice one = slice_cut(&choices, '|');

        fprintf(out, "%s`%.*s`", between, SLICE_FMT(one));
    }
    if (row->type == SETTING_CHOICE)
        return;
    fputs(setting_types[row->type].manual, out);
    if (has_unit && strcmp(row->unit, "NONE") != 0) {
        fputs(" (", out);
        for (const char *s = row->unit; *s != '\0'; ++s)
            fputc(*s == '_' ? ' ' : ascii_lower(*s), out);
        fputc(')', out);
    }
    if (row->min != NULL && row->max != NULL)
        fprintf(out, ", %s to %s", row->min, row->max);
    else if (row->min != NULL)
        fprintf(out, ", at least %s", row->min);
    else if (row->max != NULL)
        fprintf(out, ", at most %s", row->max);
    else
        return;
    if (setting_takes_off(row) && !setting_is_off(row->min))
        fputs(", or off", out);
}

void settings_describe(const struct settings_table *const *tables, size_t n, FILE *out)
{
    for (size_t i = 0; i < n; ++i) {
        const struct settings_table *t = tables[i];

        fprintf(out, "%s### %s\n\n", i != 0 ? "\n" : "", t->where);
        fputs("| setting | value | default | when | meaning |\n| --- | --- | --- | --- | --- |\n",
              out);
        for (const struct setting_row *row = t->rows; row < t->rows + t->n; ++row) {
            fprintf(out, "| `%s` | ", row->name);
            settings_put_value(row, out);
            if (row->deflt == NULL)
                fputs(is_required(row) ? " | required" : " | none", out);
            else if (row->deflt[0] == '\0')
                fputs(" | empty", out);
            else
                fprintf(out, " | `%s`", row->deflt);
            fprintf(out, " | %s | ", setting_when_text(row->when));
            /* A "|" separates the cells of a Markdown table, even within code. */
            for (const char *s = row->doc; *s != '\0'; ++s)
                fprintf(out, "%s%c", *s == '|' ? "\\" : "", *s);
            fputs(" |\n", out);
        }
    }
}
