/* SPDX-License-Identifier: Apache-2.0
 *
 *   candidate = yaml, then each property by its row -> check across fields -> publish
 *
 * `now` is what is in force, with the origin of each row; a property that is refused takes its row
 * from there. Refusals are those of the last reading; one is logged and counted when it is new.
 */
#include "lb/live_settings.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "lb/lb.h"

enum {
    /* Refusals shown; a node has not many more properties of ours than that. */
    REFUSED_MAX = 200,
    /* Unknown names remembered, so that each is warned about once. */
    UNKNOWN_MAX = 1000,
};

struct refusal {
    char *name, *why;
};

struct live_settings {
    struct application *app;
    void (*changed)(struct application *app);
    struct app_settings yaml, now;
    enum setting_origin *yaml_origins, *origins; /* per app_row() */
    json_t *properties;                          /* the last good ones, counted; NULL: none */
    struct refusal *refused;
    size_t nrefused;
    struct text_list unknown;
    bool held; /* the node is missing or broken; what it said stays until the timer */
    struct timer hold;
};

/* ---- refusals ---- */

static void refusals_free(struct refusal *r, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        free(r[i].name);
        free(r[i].why);
    }
    free(r);
}

static bool refused_before(const struct refusal *r, size_t n, const struct refusal *now)
{
    for (size_t i = 0; i < n; ++i) {
        if (strcmp(r[i].name, now->name) == 0 && strcmp(r[i].why, now->why) == 0)
            return true;
    }
    return false;
}

static void refuse(struct live_settings *l, const char *name, const char *why)
{
    char escaped[LOG_ESCAPED_ROOM];

    if (l->nrefused == REFUSED_MAX)
        return;
    l->refused = xrealloc(l->refused, (l->nrefused + 1) * sizeof(*l->refused));
    l->refused[l->nrefused].name = xstrdup(log_escape(slice_of(name), escaped));
    l->refused[l->nrefused].why = xstrdup(why);
    ++l->nrefused;
}

/* Logs and counts what BEFORE (N of them) has not. */
static void tell_refusals(const struct live_settings *l, const struct refusal *before, size_t n)
{
    for (size_t i = 0; i < l->nrefused; ++i) {
        const struct refusal *r = &l->refused[i];

        if (refused_before(before, n, r))
            continue;
        stat_add(application_control_stats(l->app), APP_STAT_settings_refused, 1);
        log_warn(NULL, "setting-refused", "application=%s setting=%s why=\"%s\"", l->app->name,
                 r->name, r->why);
    }
}

static void warn_unknown(struct live_settings *l, const char *name)
{
    char escaped[LOG_ESCAPED_ROOM];

    for (size_t i = 0; i < l->unknown.n; ++i) {
        if (strcmp(l->unknown.items[i], name) == 0)
            return;
    }
    if (l->unknown.n == UNKNOWN_MAX)
        return;
    l->unknown.items = xrealloc(l->unknown.items, (l->unknown.n + 1) * sizeof(char *));
    l->unknown.items[l->unknown.n++] = xstrdup(name);
    log_warn(NULL, "setting-unknown", "application=%s setting=%s", l->app->name,
             log_escape(slice_of(name), escaped));
}

/* ---- one reading ---- */

/* What a reading works on. */
struct candidate {
    struct app_settings s;
    enum setting_origin *origins;
};

static void keep_row(const struct live_settings *l, struct candidate *c, size_t i)
{
    settings_take(app_row(i), &l->now, &c->s);
    c->origins[i] = l->origins[i];
}

static bool is_link(const char *name)
{
    return slice_ends(slice_of(name), SLICE_LIT(" ->")) ||
           slice_ends(slice_of(name), SLICE_LIT(" =>"));
}

static void read_property(struct live_settings *l, struct candidate *c, const char *name,
                          const json_t *value)
{
    size_t i = app_row_find(slice_of(name));
    char why[SETTINGS_WHY_ROOM] = "not a single value";
    struct text text = {0};

    /* Links have been followed; `type` is the tree's own. */
    if (is_link(name) || strcmp(name, "type") == 0)
        return;
    if (i == SIZE_MAX) {
        warn_unknown(l, name);
        return;
    }
    const struct setting_row *row = app_row(i);
    if (row->when != SETTING_LIVE) {
        snprintf(why, sizeof(why), "%s",
                 row->when == SETTING_LOCAL ? "is taken from the configuration file only"
                                            : "needs a restart");
        refuse(l, name, why);
        return;
    }
    const struct settings_table *t = i < application_table.n ? &application_table : &pool_table;
    if (json_scalar_text(value, &text) &&
        settings_set(t, row, text_slice(&text), &c->s, why) == ERR_OK) {
        c->origins[i] = ORIGIN_TREE;
    } else {
        refuse(l, name, why);
        keep_row(l, c, i);
    }
    text_fini(&text);
}

/* The rules across fields: all rows that this reading changes are refused together. */
static void check_across(struct live_settings *l, struct candidate *c)
{
    char why[SETTINGS_WHY_ROOM];
    uint64_t total =
        atomic_load_explicit(&l->app->lb->response_buffers_total, memory_order_relaxed);

    if (app_settings_check(&c->s, total, why))
        return;
    for (size_t i = 0; i < app_rows(); ++i) {
        if (settings_same(app_row(i), &c->s, &l->now))
            continue;
        refuse(l, app_row(i)->name, why);
        keep_row(l, c, i);
    }
}

/* One line per changed row. Returns how many. */
static size_t tell_changes(const struct live_settings *l, const struct candidate *c)
{
    struct text before = {0};
    struct text after = {0};
    size_t n = 0;

    for (size_t i = 0; i < app_rows(); ++i) {
        const struct setting_row *row = app_row(i);
        char old_shown[LOG_ESCAPED_ROOM];
        char new_shown[LOG_ESCAPED_ROOM];

        if (settings_same(row, &c->s, &l->now))
            continue;
        ++n;
        text_clear(&before);
        text_clear(&after);
        settings_print(row, &l->now, &before);
        settings_print(row, &c->s, &after);
        log_info(NULL, "setting-changed", "application=%s setting=%s from=%s to=%s origin=%s",
                 l->app->name, row->name, log_escape(text_slice(&before), old_shown),
                 log_escape(text_slice(&after), new_shown), setting_origin_text(c->origins[i]));
    }
    text_fini(&before);
    text_fini(&after);
    return n;
}

static void publish(struct live_settings *l, struct candidate *c)
{
    size_t changes = tell_changes(l, c);

    app_settings_fini(&l->now);
    free(l->origins);
    l->now = c->s;
    l->origins = c->origins;
    if (changes == 0)
        return;
    stat_add(application_control_stats(l->app), APP_STAT_settings_changes, (int64_t)changes);
    application_publish(l->app, &l->now);
    l->changed(l->app);
}

static void read_again(struct live_settings *l)
{
    struct candidate c = {.origins = xcalloc(app_rows(), sizeof(enum setting_origin))};
    struct refusal *before = l->refused;
    size_t nbefore = l->nrefused;
    const char *name = NULL;
    json_t *value = NULL;

    l->refused = NULL;
    l->nrefused = 0;
    app_settings_copy(&l->yaml, &c.s);
    memcpy(c.origins, l->yaml_origins, app_rows() * sizeof(*c.origins));
    if (l->properties != NULL) {
        json_object_foreach(l->properties, name, value) read_property(l, &c, name, value);
        check_across(l, &c);
    }
    tell_refusals(l, before, nbefore);
    refusals_free(before, nbefore);
    publish(l, &c);
}

/* ---- the node ---- */

static void on_hold_over(struct timer *t)
{
    struct live_settings *l = container_of(t, struct live_settings, hold);

    log_warn(NULL, "settings-given-up", "application=%s why=\"the node did not come back\"",
             l->app->name);
    json_decref(l->properties);
    l->properties = NULL;
    l->held = false;
    read_again(l);
}

static void hold(struct live_settings *l, const char *why)
{
    struct text escaped = {0};

    /* What never said anything has nothing to hold. */
    if (l->held || l->properties == NULL)
        return;
    l->held = true;
    text_add_escaped(&escaped, slice_of(why));
    log_warn(NULL, "settings-held", "application=%s why=\"%s\" for_ms=%llu", l->app->name,
             text_cstr(&escaped), (unsigned long long)l->now.settings_hold_ms);
    text_fini(&escaped);
    timer_start(l->app->lb->control, &l->hold, l->now.settings_hold_ms);
}

void live_settings_node(struct live_settings *l, const struct tree_node *node)
{
    if (!node->exists) {
        hold(l, "the node is gone");
        return;
    }
    if (!node->parses) {
        hold(l, node->problem != NULL ? node->problem : "not JSON");
        return;
    }
    timer_stop(&l->hold);
    l->held = false;
    if (l->properties != NULL && json_equal(l->properties, node->properties))
        return;
    json_decref(l->properties);
    l->properties = json_deep_copy(node->properties);
    read_again(l);
}

void live_settings_set_yaml(struct live_settings *l, const struct app_settings *yaml,
                            const enum setting_origin *origins)
{
    for (size_t i = 0; i < app_rows(); ++i) {
        if (app_row(i)->when == SETTING_LOCAL && !app_row_by_snapshot(app_row(i)))
            continue;
        settings_take(app_row(i), yaml, &l->yaml);
        l->yaml_origins[i] = origins[i];
    }
    read_again(l);
}

/* ---- life ---- */

static enum setting_origin *origins_copy(const enum setting_origin *from)
{
    enum setting_origin *to = xcalloc(app_rows(), sizeof(*to));

    memcpy(to, from, app_rows() * sizeof(*to));
    return to;
}

struct live_settings *live_settings_create(struct application *app, const struct app_settings *yaml,
                                           const enum setting_origin *origins,
                                           void (*changed)(struct application *app))
{
    struct live_settings *l = xcalloc(1, sizeof(*l));

    l->app = app;
    l->changed = changed;
    app_settings_copy(yaml, &l->yaml);
    app_settings_copy(yaml, &l->now);
    l->yaml_origins = origins_copy(origins);
    l->origins = origins_copy(origins);
    timer_init(&l->hold, on_hold_over);
    return l;
}

void live_settings_destroy(struct live_settings *l)
{
    if (l == NULL)
        return;
    timer_stop(&l->hold);
    json_decref(l->properties);
    refusals_free(l->refused, l->nrefused);
    for (size_t i = 0; i < l->unknown.n; ++i)
        free(l->unknown.items[i]);
    free(l->unknown.items);
    app_settings_fini(&l->yaml);
    app_settings_fini(&l->now);
    free(l->yaml_origins);
    free(l->origins);
    free(l);
}

void live_settings_describe(const struct live_settings *l, struct json_writer *w)
{
    struct text value = {0};

    json_open_object(w, "settings");
    for (size_t i = 0; i < app_rows(); ++i) {
        const struct setting_row *row = app_row(i);

        if (row->type == SETTING_NODE)
            continue;
        text_clear(&value);
        settings_print(row, &l->now, &value);
        json_open_object(w, row->name);
        json_put_text(w, "value", text_slice(&value));
        json_put_text(w, "origin", slice_of(setting_origin_text(l->origins[i])));
        json_close_object(w);
    }
    json_close_object(w);
    json_open_array(w, "refused");
    for (size_t i = 0; i < l->nrefused; ++i) {
        json_open_object(w, NULL);
        json_put_text(w, "name", slice_of(l->refused[i].name));
        json_put_text(w, "why", slice_of(l->refused[i].why));
        json_close_object(w);
    }
    json_close_array(w);
    json_put_bool(w, "held", l->held);
    text_fini(&value);
}
