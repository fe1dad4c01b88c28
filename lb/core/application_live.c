/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/core/application_live.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "lb/core/lb.h"

struct application_live {
    struct log_subject subject;
    struct application *app;
    struct live_settings *engine;
    struct live_settings_counts reported; /* what the figures have of its counts */
    void (*changed)(struct application *a);
    bool (*away)(struct application *a);
};

static void describe(const struct log_subject *self, struct log_text *out)
{
    log_put(out, "application=%s",
            ((const struct application_live *)(const void *)self)->app->name);
}

static bool check(void *context, const void *s, char why[SETTINGS_WHY_ROOM])
{
    const struct application_live *l = context;
    uint64_t total =
        atomic_load_explicit(&l->app->lb->response_buffers_total, memory_order_relaxed);

    return app_settings_check(s, total, why);
}

static uint64_t hold_ms(void *context, const void *now)
{
    (void)context;
    return ((const struct app_settings *)now)->settings_hold_ms;
}

static bool is_away(void *context)
{
    const struct application_live *l = context;

    return l->away != NULL && l->away(l->app);
}

/* LOCAL rows that only snapshots carry follow SIGHUP, the others need a restart. */
static bool is_frozen(const struct setting_row *row)
{
    return row->when == SETTING_LOCAL && !app_row_by_snapshot(row);
}

void application_count_settings(struct application *a, const struct live_settings_counts *now,
                                struct live_settings_counts *reported)
{
    struct stats_cell *cell = application_control_stats(a);

    stat_add(cell, APP_STAT_settings_changes, (int64_t)(now->changes - reported->changes));
    stat_add(cell, APP_STAT_settings_refused, (int64_t)(now->refusals - reported->refusals));
    stat_add(cell, APP_STAT_refused_settings, (int64_t)now->refused - (int64_t)reported->refused);
    stat_add(cell, APP_STAT_settings_held, (int64_t)now->held - (int64_t)reported->held);
    *reported = *now;
}

static void on_changed(void *context, bool values)
{
    struct application_live *l = context;
    struct live_settings_counts now;

    live_settings_counts(l->engine, &now);
    application_count_settings(l->app, &now, &l->reported);
    if (!values)
        return;
    application_publish(l->app, live_settings_now(l->engine));
    l->changed(l->app);
}

struct application_live *application_live_create(struct application *a,
                                                 const struct application_config *config,
                                                 const char *path,
                                                 void (*changed)(struct application *a),
                                                 bool (*away)(struct application *a))
{
    static const struct settings_table *const tables[] = {&application_table, &pool_table};
    struct application_live *l = xcalloc(1, sizeof(*l));
    const struct live_settings_options o = {.loop = a->lb->control,
                                            .tables = tables,
                                            .ntables = ARRAY_LEN(tables),
                                            .yaml = &config->s,
                                            .origins = config->origins,
                                            .path = path,
                                            .subject = l,
                                            .check = check,
                                            .hold_ms = hold_ms,
                                            .away = is_away,
                                            .frozen = is_frozen,
                                            .changed = on_changed,
                                            .context = l};

    l->subject.describe = describe;
    l->app = a;
    l->changed = changed;
    l->away = away;
    l->engine = live_settings_create(&o);
    return l;
}

void application_live_destroy(struct application_live *l)
{
    if (l == NULL)
        return;
    live_settings_destroy(l->engine);
    free(l);
}

struct live_settings *application_live_engine(struct application_live *l)
{
    return l->engine;
}

void application_live_describe(const struct application_live *l, struct json_writer *w)
{
    live_settings_describe(l->engine, w);
}
