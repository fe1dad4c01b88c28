/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/live_settings.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/wire/json.h"

/* Unknown names remembered; beyond it they are not spoken of. */
enum { WARNED_MAX = 100 };

static void log_change(const struct live_settings *l, const struct setting_row *row,
                       const struct app_settings *next, enum setting_origin origin)
{
    struct text before = {0};
    struct text after = {0};

    settings_print(row, &l->now, &before);
    settings_print(row, next, &after);
    log_info(l->subject, "setting-changed", "name=%s from=\"%s\" to=\"%s\" origin=%s", row->name,
             text_cstr(&before), text_cstr(&after), setting_origin_text(origin));
    text_fini(&before);
    text_fini(&after);
}

/* Remember (and say once) why row I of the tree is not in force; NULL: it is fine. */
static void set_refusal(struct live_settings *l, size_t i, const char *why)
{
    char *old = l->refusals[i];

    if (why != NULL && (old == NULL || strcmp(old, why) != 0)) {
        log_warn(l->subject, "setting-refused", "name=%s reason=\"%s\"", app_table.rows[i].name,
                 why);
        ++l->refused;
    }
    l->refusals[i] = xstrdup(why);
    free(old);
}

/* Row I of NEXT from the property V. False: WHY. */
static bool take_property(size_t i, const json_t *v, struct app_settings *next,
                          char why[SETTINGS_WHY_ROOM])
{
    const struct setting_row *row = &app_table.rows[i];
    struct text value = {0};
    bool good = false;

    if (row->when == SETTING_LOCAL)
        snprintf(why, SETTINGS_WHY_ROOM, "is taken from the YAML file only");
    else if (row->when != SETTING_LIVE)
        snprintf(why, SETTINGS_WHY_ROOM, "needs a restart, with the YAML file");
    else if (!json_scalar_text(v, &value))
        snprintf(why, SETTINGS_WHY_ROOM, "must be a number, a text, true or false");
    else
        good = settings_set(&app_table, row, text_slice(&value), next, why) == ERR_OK;
    text_fini(&value);
    return good;
}

static void warn_unknown(struct live_settings *l)
{
    const char *name;
    json_t *value;

    json_object_foreach(l->properties, name, value)
    {
        char shown[LOG_ESCAPED_ROOM];

        if (settings_find(&app_table, slice_of(name)) != NULL ||
            json_object_get(l->warned, name) != NULL || json_object_size(l->warned) >= WARNED_MAX)
            continue;
        json_object_set_new(l->warned, name, json_true());
        log_warn(l->subject, "setting-unknown", "name=%s where=tree",
                 log_escape(slice_of(name), shown));
    }
}

/* NEXT: the base with the tree's properties above it, the bad ones as they were. */
static void compose(struct live_settings *l, struct app_settings *next,
                    enum setting_origin *origins)
{
    settings_copy(&app_table, l->base, next);
    memcpy(origins, l->origins, app_table.n * sizeof(*origins));
    for (size_t i = 0; i < app_table.n; ++i) {
        const json_t *v =
            l->properties != NULL ? json_object_get(l->properties, app_table.rows[i].name) : NULL;
        char why[SETTINGS_WHY_ROOM];

        if (v == NULL) {
            set_refusal(l, i, NULL);
        } else if (take_property(i, v, next, why)) {
            set_refusal(l, i, NULL);
            origins[i] = ORIGIN_TREE;
        } else {
            set_refusal(l, i, why);
            if (l->now_origins[i] != ORIGIN_TREE)
                continue;
            settings_take(&app_table.rows[i], &l->now, next);
            origins[i] = ORIGIN_TREE;
        }
    }
}

/* All rows that the tree would change stay as they are. */
static void refuse_changes(struct live_settings *l, struct app_settings *next,
                           enum setting_origin *origins, const char *why)
{
    for (size_t i = 0; i < app_table.n; ++i) {
        const struct setting_row *row = &app_table.rows[i];

        if (row->when != SETTING_LIVE || settings_same(row, &l->now, next))
            continue;
        if (origins[i] == ORIGIN_TREE)
            set_refusal(l, i, why);
        settings_take(row, &l->now, next);
        origins[i] = l->now_origins[i];
    }
}

static void apply(struct live_settings *l)
{
    struct app_settings next;
    enum setting_origin *origins = xcalloc(app_table.n, sizeof(*origins));
    char why[SETTINGS_WHY_ROOM];
    uint64_t refused_before = l->refused;
    uint64_t changes_before = l->changes;

    compose(l, &next, origins);
    if (!app_settings_check(&next, why))
        refuse_changes(l, &next, origins, why);
    for (size_t i = 0; i < app_table.n; ++i) {
        const struct setting_row *row = &app_table.rows[i];

        if (row->type == SETTING_NODE || settings_same(row, &l->now, &next))
            continue;
        log_change(l, row, &next, origins[i]);
        ++l->changes;
    }
    settings_fini(&app_table, &l->now);
    l->now = next;
    free(l->now_origins);
    l->now_origins = origins;
    if (l->changed != NULL && (l->changes != changes_before || l->refused != refused_before))
        l->changed(l);
}

static void drop_properties(struct live_settings *l)
{
    json_decref(l->properties);
    l->properties = NULL;
    l->held = false;
}

static void on_hold_over(struct timer *t)
{
    struct live_settings *l = container_of(t, struct live_settings, hold);

    log_warn(l->subject, "settings-hold-over", "action=\"the tree's settings are dropped\"");
    drop_properties(l);
    apply(l);
}

void live_settings_init(struct live_settings *l, struct loop *loop, const struct app_settings *base,
                        const enum setting_origin *origins)
{
    *l = (struct live_settings){.loop = loop, .base = base, .origins = origins};
    settings_copy(&app_table, base, &l->now);
    l->now_origins = xcalloc(app_table.n, sizeof(*l->now_origins));
    memcpy(l->now_origins, origins, app_table.n * sizeof(*origins));
    l->refusals = xcalloc(app_table.n, sizeof(*l->refusals));
    l->warned = json_object();
    timer_init(&l->hold, on_hold_over);
}

void live_settings_fini(struct live_settings *l)
{
    timer_stop(&l->hold);
    for (size_t i = 0; i < app_table.n; ++i)
        free(l->refusals[i]);
    free(l->refusals);
    free(l->now_origins);
    settings_fini(&app_table, &l->now);
    json_decref(l->properties);
    json_decref(l->warned);
}

void live_settings_base(struct live_settings *l, const struct app_settings *base,
                        const enum setting_origin *origins)
{
    l->base = base;
    l->origins = origins;
    apply(l);
}

void live_settings_node(struct live_settings *l, const struct tree_node *node, uint64_t hold_ms)
{
    if (!node->exists || !node->parses) {
        if (l->properties == NULL || l->held)
            return;
        l->held = true;
        log_warn(l->subject, "settings-held", "reason=\"%s\" settings_hold_ms=%llu",
                 node->problem != NULL ? node->problem : "the node is gone",
                 (unsigned long long)hold_ms);
        timer_start(l->loop, &l->hold, hold_ms);
        return;
    }
    timer_stop(&l->hold);
    drop_properties(l);
    l->properties = json_deep_copy(node->properties);
    warn_unknown(l);
    apply(l);
}
