/* SPDX-License-Identifier: Apache-2.0
 *
 * That a table of settings is fit for use.
 */
#pragma once

#include <stdlib.h>

#include "common/config/settings.h"

/* TEXT (NULL: none) is a valid value of ROW. */
static inline void settings_check_text(const struct setting_row *row, const char *text)
{
    struct setting_value v = {0};
    char why[SETTINGS_WHY_ROOM];

    if (text == NULL)
        return;
    enum err err = setting_value_parse(row, slice_of(text), &v, why);
    ASSERT(err == ERR_OK);
    free(v.text);
    text_list_fini(&v.list);
}

/* The table is valid: unique names, defaults and bounds that parse. */
static inline void settings_check_table(const struct settings_table *t)
{
    for (size_t i = 0; i < t->n; ++i) {
        const struct setting_row *row = &t->rows[i];

        ASSERT(settings_find(t, slice_of(row->name)) == row);
        ASSERT(row->doc[0] != '\0');
        if (setting_types[row->type].ranged) {
            /* Each bound is within the bounds, so the lower is not above the upper. */
            settings_check_text(row, row->min);
            settings_check_text(row, row->max);
        } else {
            ASSERT((row->min != NULL) == (row->type == SETTING_CHOICE));
            ASSERT(row->max == NULL);
        }
        if (row->type == SETTING_NODE)
            ASSERT(row->deflt == NULL);
        else
            settings_check_text(row, row->deflt);
    }
}
