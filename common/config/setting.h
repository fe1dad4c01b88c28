/* SPDX-License-Identifier: Apache-2.0
 *
 * One setting: its row in a settings.def (see settings.h), and its value after parsing. The code
 * that has parsed a value owns it until it is moved into a field. Plain computation; any thread.
 */
#pragma once

#include "common/base/text.h"
#include "common/config/config.h"

/*
 * Value syntax. In YAML, a value of any type may be quoted or not; a plain "name:", "~" or "null"
 * selects the default.
 */
enum setting_type {
    SETTING_BOOL, /* true false yes no on off */
    SETTING_INT,  /* int64_t */
    SETTING_REAL, /* double */
    /* "250ms" "3.5s" "5m" "2h" "1d", whole milliseconds; a bare number is seconds; field NAME_ms.
     * "off" is 0, where MIN is NULL or 0 or the default is "off" (then off, or at least MIN). */
    SETTING_TIME,
    SETTING_SIZE,   /* "256KiB" "32MiB" "1.5GiB", bare bytes; field NAME_bytes */
    SETTING_TEXT,   /* char *; where the default is NULL, an empty text is NULL */
    SETTING_SECRET, /* as TEXT, printed as *** */
    SETTING_CHOICE, /* int: index into the choices, which are listed in MIN as "resume|classless" */
    /* struct text_list: a YAML list of scalars. As one text: "a, b"; an item that is empty, starts
     * with a quote, contains a comma, or begins or ends with a blank is in double quotes, with \"
     * and \\ inside. */
    SETTING_LIST,
    SETTING_NODE, /* const struct config_node *, for the program to read further; borrowed from the
                     config */
};
/* A BOOL with a C keyword as its name: its field is called is_NAME. */
#define SETTING_FLAG SETTING_BOOL
/* When a change takes effect: see docs/reference/settings.md. */
enum setting_when { SETTING_BOOT, SETTING_RELOAD, SETTING_LIVE, SETTING_LOCAL };
enum setting_origin { ORIGIN_DEFAULT, ORIGIN_YAML, ORIGIN_TREE };

struct setting_row {
    const char *name;
    const char *unit;      /* "MS", "RATIO", ... for the manual; SECRET_FILE: see
                              config_warn_exposed() */
    const char *deflt;     /* text, or NULL: required unless TEXT, SECRET, LIST, NODE */
    const char *min, *max; /* text, or NULL */
    const char *doc;
    size_t offset; /* of the field in the scope's struct */
    enum setting_type type;
    enum setting_when when;
};

/* ---- values ---- */

#define SETTINGS_WHY_ROOM 160

/* The row's type determines which member is valid. */
struct setting_value {
    bool yes;
    int64_t number;
    double real;
    uint64_t amount; /* TIME in ms, SIZE in bytes */
    int choice;
    char *text;            /* owned */
    struct text_list list; /* owned */
    const struct config_node *node;
};

/*
 * Parses TEXT as a value of ROW, of any type but NODE, and checks its range.
 *   why  set to the reason on error
 * Errors: ERR_SYNTAX, ERR_RANGE; OUT is not changed then.
 */
enum err setting_value_parse(const struct setting_row *row, struct slice text,
                             struct setting_value *out, char why[SETTINGS_WHY_ROOM]) must_check;
/* Appends V in the syntax that setting_value_parse() accepts. */
void setting_value_print(const struct setting_row *row, const struct setting_value *v,
                         struct text *out);
/* Whether ROW accepts "off": a TIME with 0 in its range or as its default. */
bool setting_takes_off(const struct setting_row *row);
/* Whether TEXT (may be NULL) is a time of 0. */
bool setting_is_off(const char *text);

/* By enum setting_type. */
struct setting_type_info {
    const char *expected; /* "a time such as 250ms, 3.5s, 5m or 2h" */
    const char *manual;   /* "time"; NULL: the choices */
    bool ranged;          /* a row has MIN and MAX */
    size_t offset, size;  /* of its member of a struct setting_value */
};
extern const struct setting_type_info setting_types[];

/* Buffer size for setting_shown(). */
#define SETTING_SHOWN_MAX 24
#define SETTING_SHOWN_ROOM (SETTING_SHOWN_MAX * 4 + 4)
/* Formats S for a message: non-printable bytes are replaced, and long values are truncated. */
const char *setting_shown(struct slice s, char out[SETTING_SHOWN_ROOM]);
