/* SPDX-License-Identifier: Apache-2.0
 *
 * One parsed value of a setting, between its text and its field: what settings.c is made of, and of
 * no use elsewhere. Owned by its holder until it is moved into a field. Plain computation; any
 * thread.
 */
#ifndef RLB_CONFIG_SETTINGS_VALUE_H
#define RLB_CONFIG_SETTINGS_VALUE_H

#include "common/config/settings.h"

/* Which member counts, the row's type says. */
struct setting_value {
    bool yes;
    int64_t number;
    double real;
    uint64_t amount; /* TIME in ms, SIZE in bytes */
    int choice;
    char *text;            /* owned */
    struct text_list list; /* owned */
};

void text_list_add(struct text_list *l, struct slice item);
void text_list_fini(struct text_list *l);

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
/* Returns a description of the values that TYPE accepts: "a time such as 250ms, 3.5s, 5m or 2h". */
const char *setting_type_wants(enum setting_type type);
/* Whether ROW accepts "off": a TIME with 0 in its range or as its default. */
bool setting_takes_off(const struct setting_row *row);

/* Buffer size for setting_shown(). */
#define SETTING_SHOWN_MAX 24
#define SETTING_SHOWN_ROOM (SETTING_SHOWN_MAX * 4 + 4)
/* Formats S for a message: non-printable bytes are replaced, and long values are truncated. */
const char *setting_shown(struct slice s, char out[SETTING_SHOWN_ROOM]);

#endif
