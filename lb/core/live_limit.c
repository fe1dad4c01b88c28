/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/core/live_limit.h"

#include <stdio.h>
#include <stdlib.h>

#include "lb/core/application_live.h"
#include "lb/core/lb.h"
#include "lb/core/limit_status.h"
#include "lb/limits/limit_rule.h"

/* ---- for the engine ---- */

static void describe(const struct log_subject *self, struct log_text *out)
{
    const struct live_limit *r = (const struct live_limit *)(const void *)self;

    log_put(out, "application=%s pool_counter=%s", r->app->name, r->name);
}

static bool check(void *context, const void *s, char why[SETTINGS_WHY_ROOM])
{
    const struct live_limit *r = context;
    struct limit_rule rule;
    struct limit_problem p;

    if (limit_rule_compile(r->name, s, &rule, &p)) {
        limit_rule_fini(&rule);
        return true;
    }
    snprintf(why, SETTINGS_WHY_ROOM, "%s", p.why);
    return false;
}

/*
 * Responses of one client that others get are the application's affair: the tree does not turn that
 * on. Of each of these rows the first choice, the default, shares nothing.
 */
static bool allowed(const struct setting_row *row, const void *s, const void *yaml,
                    char why[SETTINGS_WHY_ROOM])
{
    static const char *const sharing[] = {"mode", "on_full", "on_timeout", "on_busy"};

    for (size_t i = 0; i < ARRAY_LEN(sharing); ++i) {
        const int *choice = (const void *)((const char *)s + row->offset);

        if (strcmp(row->name, sharing[i]) != 0 || *choice == 0 || settings_same(row, s, yaml))
            continue;
        snprintf(why, SETTINGS_WHY_ROOM,
                 "shares responses between clients: the configuration file has to say the same");
        return false;
    }
    return true;
}

static uint64_t hold_ms(void *context, const void *now)
{
    const struct live_limit *r = context;

    (void)now;
    return r->app->settings->s.settings_hold_ms;
}

static bool is_away(void *context)
{
    const struct live_limit *r = context;

    return r->away != NULL && r->away(r->app);
}

static void on_changed(void *context, bool values)
{
    struct live_limit *r = context;
    struct live_settings_counts now;

    (void)values;
    live_settings_counts(r->engine, &now);
    application_count_settings(r->app, &now, &r->told);
    if (now.held || now.remembered)
        r->recalled = false;
    r->changed(r->context);
}

/* ---- life ---- */

static void set_page(struct live_limit *r, const struct limit_config *yaml)
{
    text_clear(&r->page);
    if (yaml != NULL)
        text_add(&r->page, text_slice(&yaml->page));
}

static const struct settings_table *const tables[] = {&counter_table, &match_table};

/* What YAML says, or would if it said nothing. */
struct base {
    struct counter_settings defaults;
    enum setting_origin *origins;
};

static void base_init(struct base *b)
{
    counter_settings_defaults(&b->defaults);
    b->origins = xcalloc(counter_table.n + match_table.n, sizeof(*b->origins));
}

static void base_fini(struct base *b)
{
    counter_settings_fini(&b->defaults);
    free(b->origins);
}

struct live_limit *live_limit_create(const struct live_limit_options *o,
                                     const struct limit_config *yaml, size_t place)
{
    struct live_limit *r = xcalloc(1, sizeof(*r));
    struct base base;

    r->subject.describe = describe;
    r->app = o->app;
    r->name = xstrdup(o->name);
    r->path = xasprintf("%s/%s", o->parent, o->name);
    r->part = xasprintf("pool-counters/%s", o->name);
    r->place = place;
    r->away = o->away;
    r->changed = o->changed;
    r->context = o->context;
    set_page(r, yaml);
    base_init(&base);
    r->engine = live_settings_create(
        &(struct live_settings_options){.loop = o->app->lb->control,
                                        .tables = tables,
                                        .ntables = ARRAY_LEN(tables),
                                        .yaml = yaml != NULL ? &yaml->s : &base.defaults,
                                        .origins = yaml != NULL ? yaml->origins : base.origins,
                                        .path = r->path,
                                        .subject = r,
                                        .check = check,
                                        .allowed = allowed,
                                        .hold_ms = hold_ms,
                                        .away = is_away,
                                        .changed = on_changed,
                                        .context = r});
    base_fini(&base);
    return r;
}

void live_limit_destroy(struct live_limit *r, bool forget)
{
    struct live_settings_counts none = {0};

    if (r == NULL)
        return;
    if (forget && r->snapshot != NULL)
        snapshot_forget(r->snapshot, r->part);
    live_limit_unwatch(r);
    live_settings_destroy(r->engine);
    none.changes = r->told.changes;
    none.refusals = r->told.refusals;
    application_count_settings(r->app, &none, &r->told);
    text_fini(&r->page);
    free(r->part);
    free(r->path);
    free(r->name);
    free(r);
}

void live_limit_set_yaml(struct live_limit *r, const struct limit_config *config, size_t place)
{
    struct base base;

    r->place = place;
    set_page(r, config);
    base_init(&base);
    live_settings_set_yaml(r->engine, config != NULL ? &config->s : &base.defaults,
                           config != NULL ? config->origins : base.origins);
    base_fini(&base);
}

void live_limit_watch(struct live_limit *r, struct tree *t, const char *node_path,
                      struct snapshot *m, uint64_t wait_ms)
{
    r->snapshot = m;
    r->watch = settings_watch_start(t, node_path, r->engine, m, r->part, wait_ms);
}

void live_limit_unwatch(struct live_limit *r)
{
    settings_watch_stop(r->watch);
    r->watch = NULL;
    r->snapshot = NULL;
}

/* ---- what it is ---- */

const struct counter_settings *live_limit_now(const struct live_limit *r)
{
    return live_settings_now(r->engine);
}

static const struct setting_row *row_called(const char *name)
{
    const struct setting_row *row = settings_find(&counter_table, slice_of(name));

    return row != NULL ? row : settings_find(&match_table, slice_of(name));
}

static bool from_tree(const struct live_limit *r, const char *name)
{
    return live_settings_origin(r->engine, row_called(name)) == ORIGIN_TREE;
}

const char *live_limit_idle_reason(const struct live_limit *r)
{
    static const char *const subjects[] = {"key", "class", "path", "method"};
    bool any = false;

    if (r->crowded_out)
        return "there are too many pool counters";
    if (r->place != LIVE_LIMIT_NOWHERE)
        return NULL;
    if (!from_tree(r, "workers"))
        return "the configuration file does not have it, and the tree gives no workers";
    for (size_t i = 0; i < ARRAY_LEN(subjects); ++i) {
        if (from_tree(r, subjects[i]))
            any = true;
        else if (live_settings_refused(r->engine, row_called(subjects[i])) != NULL)
            return "what it matches, or its key, is refused";
    }
    return any ? NULL
               : "the configuration file does not have it, and the tree gives neither key, class, "
                 "path nor method";
}

static bool says_something(const struct live_limit *r)
{
    for (size_t t = 0; t < ARRAY_LEN(tables); ++t) {
        for (size_t i = 0; i < tables[t]->n; ++i) {
            if (live_settings_origin(r->engine, &tables[t]->rows[i]) == ORIGIN_TREE)
                return true;
        }
    }
    return false;
}

bool live_limit_is_over(const struct live_limit *r)
{
    struct live_settings_counts now;

    live_settings_counts(r->engine, &now);
    return r->place == LIVE_LIMIT_NOWHERE && !r->listed && !r->recalled && !now.held &&
           !now.remembered && !says_something(r);
}

void live_limit_describe(const struct live_limit *r, struct json_writer *w)
{
    bool in_yaml = r->place != LIVE_LIMIT_NOWHERE;
    const char *why = live_limit_idle_reason(r);

    json_open_object(w, NULL);
    json_put_text(w, "name", slice_of(r->name));
    json_put_text(w, "origin", slice_of(setting_origin_text(in_yaml ? ORIGIN_YAML : ORIGIN_TREE)));
    json_put_bool(w, "in_force", why == NULL);
    if (why != NULL)
        json_put_text(w, "why", slice_of(why));
    live_settings_describe(r->engine, w);
    limit_status_put(r->app, r->name, w);
    json_close_object(w);
}
