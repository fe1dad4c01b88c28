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
 * Parse TEXT as a value of ROW and check its range.  Everything but NODE.
 *   why  gets a reason on error
 * Errors: ERR_SYNTAX, ERR_RANGE; OUT is untouched then.
 */
enum err setting_value_parse(const struct setting_row *row, struct slice text,
                             struct setting_value *out, char why[SETTINGS_WHY_ROOM]) must_check;
/* Append what setting_value_parse would take back. */
void setting_value_print(const struct setting_row *row, const struct setting_value *v,
                         struct text *out);
/* "a time such as 250ms, 3.5s, 5m or 2h": what the type wants. */
const char *setting_type_wants(enum setting_type type);
/* Whether ROW takes "off": a TIME whose range or default has 0. */
bool setting_takes_off(const struct setting_row *row);

/* Room for setting_shown. */
#define SETTING_SHOWN_MAX 24
#define SETTING_SHOWN_ROOM (SETTING_SHOWN_MAX * 4 + 4)
/* S for a message: printable, and cut when long. */
const char *setting_shown(struct slice s, char out[SETTING_SHOWN_ROOM]);

#endif
