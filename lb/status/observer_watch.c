/* SPDX-License-Identifier: Apache-2.0
 *
 * Events are found by comparing the present state with that of a second ago: so the parts that
 * cause events do not depend on the observer, and a storm of changes is one event a second. A state
 * that lasts for less than a second is not seen here; logs have it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/tree/live_settings.h"
#include "lb/backends/member.h"
#include "lb/backends/membership.h"
#include "lb/core/application_live.h"
#include "lb/status/observer_internal.h"

struct look {
    struct observer *o;
    struct seen_app *app;
    uint64_t now_ms;
};

static void copy(char *out, size_t room, const char *s)
{
    text_copy(out, room, s != NULL ? s : "");
}

static void tell(const struct look *l, const struct seen_worker *w, const char *kind, bool bad,
                 const char *text)
{
    if (l->app->settled)
        events_add(&l->o->events, kind, bad, l->app->app->name, w->name, text);
}

/* ---- workers ---- */

static uint64_t relaxed(_Atomic uint64_t *n)
{
    return atomic_load_explicit(n, memory_order_relaxed);
}

static uint64_t since(uint64_t *last, uint64_t now)
{
    uint64_t n = now >= *last ? now - *last : now;

    *last = now;
    return n;
}

static void look_at_member(const struct look *l, struct seen_worker *w, struct member *m)
{
    bool ejected = relaxed(&m->ejected_until_ms) > l->now_ms;
    unsigned why = atomic_load_explicit(&m->ejected_why, memory_order_relaxed);

    observer_add(l->o, &w->request_rate, (double)since(&w->requests, relaxed(&m->requests)));
    observer_add(l->o, &w->failure_rate, (double)since(&w->failures, relaxed(&m->failures)));
    observer_add(l->o, &w->service_s, (double)since(&w->service_us, relaxed(&m->service_us)) / 1e6);
    if (ejected != w->ejected)
        tell(l, w, ejected ? "ejected" : "back", ejected,
             ejected ? worker_fault_text((enum worker_fault)why) : "its ejection has ended");
    w->ejected = ejected;
}

static void look_at_version(const struct look *l, struct seen_worker *w, const char *incarnation,
                            const char *version)
{
    char text[EVENT_TEXT_MAX];

    if (strcmp(w->version, version) != 0 && w->incarnation[0] != '\0') {
        snprintf(text, sizeof(text), "version %s -> %s", w->version, version);
        tell(l, w, "version", false, text);
    } else if (strcmp(w->incarnation, incarnation) != 0 && w->incarnation[0] != '\0') {
        tell(l, w, "restarted", false, "another process uses the address");
    }
    copy(w->version, sizeof(w->version), version);
    copy(w->incarnation, sizeof(w->incarnation), incarnation);
}

static void look_at_state(const struct look *l, struct seen_worker *w, const char *state)
{
    static const char *const bad[] = {"absent", "silent", "unhealthy"};
    char text[EVENT_TEXT_MAX];
    bool is_bad = false;

    if (strcmp(w->state, state) == 0)
        return;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i)
        is_bad |= strcmp(state, bad[i]) == 0;
    if (w->state[0] != '\0') {
        snprintf(text, sizeof(text), "%s -> %s", w->state, state);
        tell(l, w, state[0] == 'r' ? "ready" : "state", is_bad, text);
    }
    copy(w->state, sizeof(w->state), state);
}

static void look_at_worker(void *context, const struct known_worker *k)
{
    const struct look *l = context;
    struct seen_worker *w = observer_worker(l->o, l->app, slice_of(k->name));
    const char *state = known_worker_state(k);

    if (!w->was_in_pool && strcmp(state, "absent") != 0) {
        w->was_in_pool = true;
        tell(l, w, "joined", false, state);
        copy(w->state, sizeof(w->state), state);
    }
    look_at_state(l, w, state);
    w->here = true;
    if (k->worker == NULL)
        return;
    look_at_version(l, w, worker_incarnation(k->worker),
                    k->streams ? k->last.version : member_of(k->worker)->version);
    look_at_member(l, w, member_of(k->worker));
}

/* Workers present at the previous scan that are no longer registered. */
static void look_for_absent(const struct look *l)
{
    map_for_each_safe (struct seen_worker, w, &l->app->workers, by_name) {
        if (w->here)
            continue;
        if (w->was_in_pool)
            tell(l, w, "left", false, "neither listed nor registered");
        map_remove(&l->app->workers, &w->by_name);
        free(w);
    }
}

/* ---- settings ---- */

void observer_forget_settings(struct seen_app *a)
{
    for (size_t i = 0; a->refused != NULL && i < app_rows(); ++i)
        free(a->refused[i]);
    free(a->refused);
    a->refused = NULL;
    if (a->has_settings)
        app_settings_fini(&a->settings);
    a->has_settings = false;
}

static void tell_setting(const struct look *l, const struct setting_row *row)
{
    const struct application *a = l->app->app;
    struct live_settings *live = a->live != NULL ? application_live_engine(a->live) : NULL;
    struct text line = {0};

    settings_print(row, &l->app->settings, &line);
    text_add(&line, SLICE_LIT(" -> "));
    settings_print(row, &a->settings->s, &line);
    if (live != NULL)
        text_addf(&line, " (%s)", setting_origin_text(live_settings_origin(live, row)));
    events_add(&l->o->events, "setting", false, a->name, row->name, text_cstr(&line));
    text_fini(&line);
}

static void look_at_refusal(const struct look *l, size_t i, const char *why)
{
    char **was = &l->app->refused[i];

    if (why != NULL && (*was == NULL || strcmp(*was, why) != 0))
        events_add(&l->o->events, "refused", true, l->app->app->name, app_row(i)->name, why);
    if (why == NULL && *was != NULL)
        events_add(&l->o->events, "setting", false, l->app->app->name, app_row(i)->name,
                   "no longer rejected");
    if (why != NULL && *was != NULL && strcmp(*was, why) == 0)
        return;
    free(*was);
    *was = xstrdup(why);
}

static void look_at_settings(const struct look *l)
{
    struct seen_app *s = l->app;
    const struct application *a = s->app;

    if (s->refused == NULL)
        s->refused = xcalloc(app_rows() + 1, sizeof(*s->refused));
    for (size_t i = 0; i < app_rows(); ++i) {
        const struct setting_row *row = app_row(i);

        if (row->type == SETTING_NODE)
            continue;
        if (s->has_settings && !settings_same(row, &s->settings, &a->settings->s)) {
            tell_setting(l, row);
            settings_take(row, &a->settings->s, &s->settings);
        }
        if (a->live != NULL)
            look_at_refusal(l, i, live_settings_refused(application_live_engine(a->live), row));
    }
    if (s->has_settings)
        return;
    app_settings_copy(&a->settings->s, &s->settings);
    s->has_settings = true;
}

/* ---- pool ---- */

static void look_at_pool(const struct look *l)
{
    char text[EVENT_TEXT_MAX];
    char active[sizeof(l->app->active_version)];

    pool_active_version(l->app->app->pool, active, sizeof(active));
    if (strcmp(active, l->app->active_version) == 0)
        return;
    if (l->app->settled && l->app->active_version[0] != '\0') {
        snprintf(text, sizeof(text), "%s -> %s", l->app->active_version, active);
        events_add(&l->o->events, "switched", false, l->app->app->name, "active version", text);
    }
    copy(l->app->active_version, sizeof(l->app->active_version), active);
}

void observer_look(struct observer *o)
{
    for (size_t i = 0; i < o->lb->napplications; ++i) {
        struct seen_app *s = &o->apps[i];
        struct look l = {.o = o, .app = s, .now_ms = clock_mono_us() / 1000};

        map_for_each (struct seen_worker, w, &s->workers, by_name)
            w->here = false;
        if (s->app->membership != NULL)
            membership_each(s->app->membership, look_at_worker, &l);
        look_for_absent(&l);
        look_at_settings(&l);
        look_at_pool(&l);
        s->settled = o->lb->phase != LB_STARTING;
    }
}
