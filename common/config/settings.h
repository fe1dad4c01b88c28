/* SPDX-License-Identifier: Apache-2.0
 *
 * Generic reading of settings as declared in a program's settings.def, where every setting is one
 * row:
 *
 *   APPLICATION(connect_timeout, TIME, MS, "3500ms", "1ms", "60s", LIVE, "How long ...")
 *
 * The name of the row macro is the scope: the map of the YAML file that contains the setting, and
 * the struct that has its field. A program declares a struct and a table per scope by including its
 * settings.def twice (see SETTINGS_STRUCT and SETTINGS_ROW). Each row defines the field, YAML
 * parsing with file:line:column, range checks, live changes, --describe settings, the documentation
 * and the status page. Defaults are text and are parsed like configured values. Values are plain
 * structs, owned by the code that embeds them; TEXT and LIST fields own memory (settings_fini).
 * Tables are constant; any thread.
 */
#pragma once

#include "common/config/setting.h"

#include <stdio.h>

struct settings_table {
    const char *scope; /* "APPLICATION" */
    const char *where; /* place in the file, and title in the manual: "applications.NAME" */
    const struct setting_row *rows;
    size_t n;
    size_t bytes; /* sizeof the struct */
    /* All tables of the program, used to suggest the correct scope for a misplaced name. NULL: no
     * suggestion is made. */
    const struct settings_table *const *all;
    size_t nall;
};

/* Defines NAME_table with the rows NAME_rows for the struct STRCT. NTABLES: of ALL_TABLES. */
#define SETTINGS_TABLE_OF(all_tables, ntables, name, text, place, strct)                           \
    const struct settings_table name##_table = {.scope = (text),                                   \
                                                .where = (place),                                  \
                                                .rows = name##_rows,                               \
                                                .n = ARRAY_LEN(name##_rows),                       \
                                                .bytes = sizeof(strct),                            \
                                                .all = (all_tables),                               \
                                                .nall = (ntables)}

/* Fields and rows, for the including program:
 *   struct app_settings {
 *   #define APPLICATION(...) SETTINGS_FIELD(__VA_ARGS__)
 *   #include "lb/settings/settings.def"
 *   };
 *   static const struct setting_row rows[] = {
 *   #define APPLICATION(...) SETTINGS_ROW(struct app_settings, __VA_ARGS__)
 *   #include "lb/settings/settings.def"
 *   };
 * A .def defines the macros that are missing as empty, and undefines all at its end. */
#define SETTINGS_FIELD(name, type, unit, deflt, min, max, when, doc) SETTINGS_FIELD_##type(name)
#define SETTINGS_ROW(strct, name_, type_, unit_, deflt_, min_, max_, when_, doc_)                  \
    {.name = #name_,                                                                               \
     .unit = #unit_,                                                                               \
     .deflt = (deflt_),                                                                            \
     .min = (min_),                                                                                \
     .max = (max_),                                                                                \
     .doc = (doc_),                                                                                \
     .offset = offsetof(strct, SETTINGS_MEMBER_##type_(name_)),                                    \
     .type = SETTING_##type_,                                                                      \
     .when = SETTING_##when_},
#define SETTINGS_MEMBER_BOOL(name) name
#define SETTINGS_MEMBER_FLAG(name) is_##name
#define SETTINGS_MEMBER_INT(name) name
#define SETTINGS_MEMBER_REAL(name) name
#define SETTINGS_MEMBER_TIME(name) name##_ms
#define SETTINGS_MEMBER_SIZE(name) name##_bytes
#define SETTINGS_MEMBER_TEXT(name) name
#define SETTINGS_MEMBER_SECRET(name) name
#define SETTINGS_MEMBER_CHOICE(name) name
#define SETTINGS_MEMBER_LIST(name) name
#define SETTINGS_MEMBER_NODE(name) name
#define SETTINGS_FIELD_BOOL(name) bool name;
#define SETTINGS_FIELD_FLAG(name) bool is_##name;
#define SETTINGS_FIELD_INT(name) int64_t name;
#define SETTINGS_FIELD_REAL(name) double name;
#define SETTINGS_FIELD_TIME(name) uint64_t name##_ms;
#define SETTINGS_FIELD_SIZE(name) uint64_t name##_bytes;
#define SETTINGS_FIELD_TEXT(name) char *name;
#define SETTINGS_FIELD_SECRET(name) char *name;
#define SETTINGS_FIELD_CHOICE(name) int name;
#define SETTINGS_FIELD_LIST(name) struct text_list name;
#define SETTINGS_FIELD_NODE(name) const struct config_node *name;

/* Sets every field to its default, or to zero without one. OUT is overwritten (not freed). */
void settings_defaults(const struct settings_table *t, void *out);
/*
 * Sets OUT to the defaults, then reads the settings in MAP (NULL: none). Adds each problem to D:
 * unknown names (with the most similar one, or where the name belongs), wrong kinds, values out of
 * range, missing settings; such fields keep their default. OUT must be freed in any case. ORIGINS:
 * t->n entries, or NULL.
 */
void settings_read(const struct settings_table *t, const struct config *c,
                   const struct config_node *map, void *out, enum setting_origin *origins,
                   struct diag *d);
void settings_fini(const struct settings_table *t, void *s);
/* TO is overwritten (not freed); texts and lists are copied. NODE fields become NULL, because nodes
 * belong to a configuration file. */
void settings_copy(const struct settings_table *t, const void *from, void *to);

const struct setting_row *settings_find(const struct settings_table *t, struct slice name);
/*
 * Sets one field of S from TEXT. WHY receives a short reason on error.
 * Errors: ERR_SYNTAX, ERR_RANGE; S is unchanged then.
 */
enum err settings_set(const struct setting_row *row, struct slice text, void *s,
                      char why[SETTINGS_WHY_ROOM]) must_check;
/* Copies ROW's field of FROM to TO, where the previous value is freed. */
void settings_take(const struct setting_row *row, const void *from, void *to);
bool settings_same(const struct setting_row *row, const void *a, const void *b);
/* Appends the value as text that settings_set() accepts; secrets as ***; NODEs as "...". */
void settings_print(const struct setting_row *row, const void *s, struct text *out);
const char *setting_when_text(enum setting_when w);
const char *setting_origin_text(enum setting_origin o);
/* Writes the manual of N tables as Markdown, a section each (docs/reference/settings.md). */
void settings_describe(const struct settings_table *const *tables, size_t n, FILE *out);
