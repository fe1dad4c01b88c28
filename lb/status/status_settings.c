/* SPDX-License-Identifier: Apache-2.0
 *
 * /settings.json: each effective setting with the source of its value, and rejected settings with
 * the reason. Secrets are not shown (settings_print).
 */
#include "lb/status/status.h"

#include "lb/backends/membership.h"
#include "lb/core/application_live.h"
#include "lb/core/limits_live.h"

static void put_program(const struct lb *lb, struct json_writer *w)
{
    struct text value = {0};

    json_open_object(w, "program");
    json_put_text(w, "file", slice_of(lb->file));
    json_open_object(w, "settings");
    for (size_t i = 0; i < program_table.n; ++i) {
        const struct setting_row *row = &program_table.rows[i];

        if (row->type == SETTING_NODE)
            continue;
        text_clear(&value);
        settings_print(row, &lb->settings, &value);
        json_open_object(w, row->name);
        json_put_text(w, "value", text_slice(&value));
        json_put_text(w, "origin", slice_of(setting_origin_text(lb->origins[i])));
        json_put_text(w, "when", slice_of(setting_when_text(row->when)));
        json_close_object(w);
    }
    json_close_object(w);
    json_close_object(w);
    text_fini(&value);
}

void status_settings(struct lb *lb, struct text *out)
{
    struct json_writer w = {.out = out};

    json_open_object(&w, NULL);
    put_program(lb, &w);
    json_open_object(&w, "applications");
    for (size_t i = 0; i < lb->napplications; ++i) {
        const struct application *a = lb->applications[i];

        json_open_object(&w, a->name);
        if (a->live != NULL)
            application_live_describe(a->live, &w);
        if (a->limits != NULL)
            limits_live_describe(a->limits, &w);
        if (a->membership != NULL)
            membership_describe(a->membership, &w);
        json_close_object(&w);
    }
    json_close_object(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
}
