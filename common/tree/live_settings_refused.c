/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node says that is not in force: rows that are refused, and names that nobody knows.
 */
#include "common/tree/live_settings_internal.h"

#include <stdlib.h>

#include "common/base/log.h"

enum {
    /* Unknown names remembered, so that each is warned about once; beyond it they are not spoken
       of. */
    WARNED_MAX = 100,
    /* Bytes by which such a name is remembered. */
    WARNED_NAME_MAX = 128,
    /* Bytes of a refused value that are shown. */
    VALUE_SHOWN_MAX = 128,
};

/* ---- refused ---- */

/* At most VALUE_SHOWN_MAX bytes of TEXT. */
static char *cut(struct slice text)
{
    bool whole = text.len <= VALUE_SHOWN_MAX;

    return xasprintf("%.*s%s", (int)(whole ? text.len : VALUE_SHOWN_MAX), text.p,
                     whole ? "" : "...");
}

/* What stands in the tree; secrets are nobody's to read. */
static char *show(const struct setting_row *row, const json_t *value)
{
    struct text text = {0};
    char *shown;

    if (value == NULL)
        return xstrdup("(absent)");
    if (row->type == SETTING_SECRET)
        return xstrdup("***");
    if (!json_scalar_text(value, &text)) {
        char *dumped = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

        text_add(&text, slice_of(dumped != NULL ? dumped : "?"));
        free(dumped);
    }
    shown = cut(text_slice(&text));
    text_fini(&text);
    return shown;
}

void live_settings_tell_refusals(struct live_settings *l)
{
    for (size_t i = 0; i < l->nrows; l->refusals[i++].untold = false) {
        const struct refusal *r = &l->refusals[i];

        if (r->untold)
            log_warn(l->o.subject, "setting-refused", "path=%s setting=%s value=\"%s\" why=\"%s\"",
                     l->path, live_settings_row(l, i)->name, r->value, r->why);
    }
}

void live_settings_refuse(struct live_settings *l, size_t i, const char *why)
{
    struct refusal *r = &l->refusals[i];
    struct refusal old = *r;

    *r = (struct refusal){0};
    if (why != NULL) {
        const struct setting_row *row = live_settings_row(l, i);

        /* Reasons may quote the value. */
        r->why =
            xstrdup(row->type == SETTING_SECRET && row->when == SETTING_LIVE ? "bad value" : why);
        r->value = show(row, live_settings_property(l, i));
        /* *R was cleared before it was freed. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        r->untold = old.untold;
        if (old.why == NULL || strcmp(old.why, r->why) != 0 || strcmp(old.value, r->value) != 0) {
            ++l->counts.refusals;
            r->untold = true;
        }
    }
    free(old.value);
    free(old.why);
}

void live_settings_describe_refused(const struct live_settings *l, struct json_writer *w)
{
    json_open_array(w, "refused");
    for (size_t i = 0; i < l->nrows; ++i) {
        const struct refusal *r = &l->refusals[i];

        if (r->why == NULL)
            continue;
        json_open_object(w, NULL);
        json_put_text(w, "path", slice_of(l->path));
        json_put_text(w, "name", slice_of(live_settings_row(l, i)->name));
        json_put_text(w, "value", slice_of(r->value));
        json_put_text(w, "why", slice_of(r->why));
        json_close_object(w);
    }
    json_close_array(w);
}

void live_settings_free_refusals(struct live_settings *l)
{
    for (size_t i = 0; i < l->nrows; ++i) {
        free(l->refusals[i].value);
        free(l->refusals[i].why);
    }
    free(l->refusals);
}

/* ---- unknown ---- */

static bool is_known(const struct live_settings *l, struct slice name)
{
    for (size_t t = 0; t < l->o.ntables; ++t) {
        if (settings_find(l->o.tables[t], name) != NULL)
            return true;
    }
    return false;
}

static bool is_link(struct slice name)
{
    return slice_ends(name, SLICE_LIT(" ->")) || slice_ends(name, SLICE_LIT(" =>"));
}

/* Not yet spoken of, and from now on it is. */
static bool is_news(struct live_settings *l, const char *name)
{
    size_t n = strnlen(name, WARNED_NAME_MAX);

    /* Links have been followed; `type` is the tree's own. */
    if (json_object_size(l->warned) >= WARNED_MAX || json_object_getn(l->warned, name, n) != NULL ||
        strcmp(name, "type") == 0 || is_link(slice_of(name)) || is_known(l, slice_of(name)))
        return false;
    json_object_setn_new_nocheck(l->warned, name, n, json_true());
    return true;
}

void live_settings_tell_unknown(struct live_settings *l)
{
    const char *name;
    json_t *value;

    json_object_foreach(l->properties, name, value)
    {
        char shown[LOG_CUT_ROOM];

        if (is_news(l, name))
            log_warn(l->o.subject, "setting-unknown", "path=%s setting=\"%s\"", l->path,
                     log_cut(slice_of(name), shown));
    }
}
