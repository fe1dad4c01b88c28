/* SPDX-License-Identifier: Apache-2.0
 *
 *   data loops -- notes --> drain, up to four times a second --> classes, workers of classes, times
 *   pools, memberships, settings -- scanned once a second --> workers, events
 *
 * Sums are weighted by time (common/stats/decay.h), so a class without requests costs nothing.
 */
#include "lb/status/observer_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/tree/live_settings.h"
#include "lb/backends/member.h"
#include "lb/backends/membership.h"
#include "lb/core/traffic.h"

enum {
    DRAIN_MS = 250,
    DRAINS_A_SCAN = 4, /* once a second */
    /* If all loops together have so few notes, the next drain is the one before the scan. */
    NOTES_FEW = 32,
    MOVE_SCANS = 10, /* seconds between two checks for classes that replace others */
};

/* Decay of the histograms of times per second. */
static const double TIMES_KEEP = 0.935; /* exp(-1/15) */

/* A steady rate of r per second yields a sum of r * OBSERVER_FADE_S, and less shortly after the
 * start. */
double observer_rate(const struct observer *o, double sum)
{
    double age = (double)(o->recent.now_us - o->started_us) / 1e6;
    double full = OBSERVER_FADE_S * (1 - exp(-(age > 1 ? age : 1) / OBSERVER_FADE_S));

    return sum / o->recent.weight / full;
}

/* ---- classes ---- */

void observer_refresh(const struct observer *o, struct seen_class *c)
{
    if (c->epoch_us == o->recent.epoch_us)
        return;
    double by = fading_bring(1, c->epoch_us, &o->recent);
    c->epoch_us = o->recent.epoch_us;
    class_figures_scale(&c->recent, by);
    for (unsigned i = 0; i < c->n; ++i)
        c->workers[i].sum *= (float)by;
}

static void drop_class(struct seen_app *a, struct seen_class *c)
{
    map_remove(&a->classes, &c->by_name);
    list_remove(&c->node);
    free(c->workers);
    free(c);
}

static struct seen_class *class_of(struct observer *o, struct seen_app *a, struct slice name)
{
    struct seen_class *c =
        map_entry(map_find(&a->classes, name.p, name.len), struct seen_class, by_name);

    if (c != NULL) {
        list_remove(&c->node);
        list_push_back(&a->recent, &c->node);
        observer_refresh(o, c);
        return c;
    }
    if (map_count(&a->classes) >= OBSERVER_CLASSES_MAX)
        drop_class(a, list_first(&a->recent, struct seen_class, node));
    c = xcalloc(1, sizeof(*c) + name.len + 1);
    memcpy(c->name, name.p, name.len);
    c->epoch_us = o->recent.epoch_us;
    c->series = class_metrics_find(a->figures, name);
    list_push_back(&a->recent, &c->node);
    map_add(&a->classes, &c->by_name, c->name, name.len);
    return c;
}

/* Adds WEIGHT to the worker's share of the class. If there are too many workers, it replaces the
 * one with the smallest share. */
static void count_worker(struct seen_class *c, uint32_t number, double weight)
{
    struct class_worker *least = NULL;

    for (unsigned i = 0; i < c->n; ++i) {
        if (c->workers[i].number == number) {
            c->workers[i].sum += (float)weight;
            return;
        }
        if (least == NULL || c->workers[i].sum < least->sum)
            least = &c->workers[i];
    }
    if (c->n < OBSERVER_CLASS_WORKERS_MAX) {
        if ((c->n & (c->n - 1)) == 0)
            c->workers = xrealloc(c->workers, (c->n != 0 ? 2 * c->n : 1) * sizeof(*c->workers));
        least = &c->workers[c->n++];
    }
    *least = (struct class_worker){.number = number, .sum = (float)weight};
}

/* ---- the figures of classes on /metrics (class_metrics.h) ---- */

static double if_set(const struct traffic_note *n, unsigned flag, double weight)
{
    return (n->flags & flag) != 0 ? weight : 0;
}

static struct class_figures figures_of(const struct traffic_note *n, double weight)
{
    bool by_skill = (n->flags & (TRAFFIC_SKILLED | TRAFFIC_SPILLED)) != 0;

    return (struct class_figures){
        .requests = weight,
        .failed = if_set(n, TRAFFIC_FAILED, weight),
        .limited = if_set(n, TRAFFIC_LIMITED, weight),
        .waited = if_set(n, TRAFFIC_WAITED, weight),
        .seconds = weight * (double)n->total_us / 1e6,
        .wait_seconds = weight * (double)n->wait_us / 1e6,
        .skilled = if_set(n, TRAFFIC_SKILLED, weight),
        .spilled = if_set(n, TRAFFIC_SPILLED, weight),
        .unskilled = n->worker.len != 0 && !by_skill ? weight : 0,
    };
}

const struct class_metrics *observer_class_metrics(const struct observer *o, size_t application)
{
    return o->apps[application].figures;
}

static void choose_classes(const struct observer *o, struct seen_app *a)
{
    size_t limit = (size_t)a->app->settings->s.metrics_classes;
    size_t known = map_count(&a->classes);
    size_t shown = class_metrics_count(a->figures);
    bool move = ++a->scans % MOVE_SCANS == 0;
    size_t n = 0;

    /* In most cases no class gains or loses its series. */
    if (shown <= limit && (shown == limit ? !move || limit == 0 : shown >= known))
        return;
    struct class_rank *ranks = xcalloc(known + 1, sizeof(*ranks));
    map_for_each (struct seen_class, c, &a->classes, by_name)
        ranks[n++] =
            (struct class_rank){map_key(&c->by_name), fading_value(&c->lasting, &o->lasting)};
    if (class_metrics_choose(a->figures, ranks, n, limit, move)) {
        map_for_each (struct seen_class, c, &a->classes, by_name)
            c->series = class_metrics_find(a->figures, map_key(&c->by_name));
    }
    free(ranks);
}

/* ---- notes ---- */

static struct seen_worker *worker_named(struct observer *o, struct seen_app *a, struct slice name)
{
    struct seen_worker *w =
        map_entry(map_find(&a->workers, name.p, name.len), struct seen_worker, by_name);

    if (w != NULL)
        return w;
    w = xcalloc(1, sizeof(*w) + name.len + 1);
    memcpy(w->name, name.p, name.len);
    w->number = ++o->numbers;
    map_add(&a->workers, &w->by_name, w->name, name.len);
    return w;
}

static void take_note(void *context, const struct traffic_note *n, double weight)
{
    struct observer *o = context;
    struct seen_app *a = &o->apps[n->application];
    struct seen_class *c = class_of(o, a, n->cls);

    struct class_figures f = figures_of(n, weight);

    class_metrics_add(a->figures, c->series, &f);
    class_figures_scale(&f, o->recent.weight);
    class_figures_add(&c->recent, &f);
    fading_add(&c->lasting, weight, &o->lasting);
    if (f.failed != 0)
        fading_add(&a->failed, weight, &o->recent);
    histogram_add(&a->times, n->total_us, weight);
    fading_add(&a->requests, weight, &o->recent);
    if (n->worker.len == 0)
        return;
    fading_add(&a->placed, weight, &o->recent);
    if (f.skilled != 0)
        fading_add(&a->skilled, weight, &o->recent);
    count_worker(c, worker_named(o, a, n->worker)->number, weight * o->recent.weight);
}

/*
 * ---- changes: scans of workers and settings ----
 *
 * Events are found by comparing the present state with that of a second ago: so the parts that
 * cause events do not depend on the observer, and a storm of changes is one event a second. A state
 * that lasts for less than a second is not seen here; logs have it.
 */

struct scan {
    struct observer *o;
    struct seen_app *app;
    uint64_t now_ms;
};

static void copy(char *out, size_t room, const char *s)
{
    size_t n = s != NULL ? strnlen(s, room - 1) : 0;

    if (n != 0)
        memcpy(out, s, n);
    out[n] = '\0';
}

static void report(const struct scan *l, const struct seen_worker *w, const char *kind, bool bad,
                   const char *text)
{
    if (l->app->settled)
        events_add(&l->o->events, kind, bad, l->app->app->name, w->name, text);
}

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

static void scan_member(const struct scan *l, struct seen_worker *w, struct member *m)
{
    bool ejected = relaxed(&m->ejected_until_ms) > l->now_ms;
    unsigned why = atomic_load_explicit(&m->ejected_why, memory_order_relaxed);
    const struct fading_clock *now = &l->o->recent;

    fading_add(&w->request_rate, (double)since(&w->requests, relaxed(&m->requests)), now);
    fading_add(&w->failure_rate, (double)since(&w->failures, relaxed(&m->failures)), now);
    fading_add(&w->service_s, (double)since(&w->service_us, relaxed(&m->service_us)) / 1e6, now);
    if (ejected != w->ejected)
        report(l, w, ejected ? "ejected" : "back", ejected,
               ejected ? worker_fault_text((enum worker_fault)why) : "its ejection has ended");
    w->ejected = ejected;
}

static void scan_version(const struct scan *l, struct seen_worker *w, const char *incarnation,
                         const char *version)
{
    char text[EVENT_TEXT_MAX];

    if (strcmp(w->version, version) != 0 && w->incarnation[0] != '\0') {
        snprintf(text, sizeof(text), "version %s -> %s", w->version, version);
        report(l, w, "version", false, text);
    } else if (strcmp(w->incarnation, incarnation) != 0 && w->incarnation[0] != '\0') {
        report(l, w, "restarted", false, "another process uses the address");
    }
    copy(w->version, sizeof(w->version), version);
    copy(w->incarnation, sizeof(w->incarnation), incarnation);
}

static void scan_state(const struct scan *l, struct seen_worker *w, const char *state)
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
        report(l, w, state[0] == 'r' ? "ready" : "state", is_bad, text);
    }
    copy(w->state, sizeof(w->state), state);
}

static void scan_worker(void *context, const struct backend *k)
{
    const struct scan *l = context;
    struct seen_worker *w = worker_named(l->o, l->app, slice_of(k->name));
    const char *state = backend_state(k);

    if (!w->was_in_pool && strcmp(state, "absent") != 0) {
        w->was_in_pool = true;
        report(l, w, "joined", false, state);
        copy(w->state, sizeof(w->state), state);
    }
    scan_state(l, w, state);
    w->here = true;
    if (k->worker == NULL)
        return;
    scan_version(l, w, worker_incarnation(k->worker),
                 k->streams ? k->last.version : member_of(k->worker)->version);
    scan_member(l, w, member_of(k->worker));
}

/* Workers present at the previous scan that are no longer registered. */
static void find_absent(const struct scan *l)
{
    map_for_each_safe (struct seen_worker, w, &l->app->workers, by_name) {
        if (w->here)
            continue;
        if (w->was_in_pool)
            report(l, w, "left", false, "neither listed nor registered");
        map_remove(&l->app->workers, &w->by_name);
        free(w);
    }
}

static void forget_settings(struct seen_app *a)
{
    for (size_t i = 0; a->refused != NULL && i < app_rows(); ++i)
        free(a->refused[i]);
    free(a->refused);
    a->refused = NULL;
    if (a->has_settings)
        app_settings_fini(&a->settings);
    a->has_settings = false;
}

static void report_setting(const struct scan *l, const struct setting_row *row)
{
    const struct application *a = l->app->app;
    struct text line = {0};

    settings_print(row, &l->app->settings, &line);
    text_add(&line, SLICE_LIT(" -> "));
    settings_print(row, &a->settings->s, &line);
    if (a->live != NULL)
        text_addf(&line, " (%s)", setting_origin_text(live_settings_origin(a->live, row)));
    events_add(&l->o->events, "setting", false, a->name, row->name, text_cstr(&line));
    text_fini(&line);
}

static void scan_refusal(const struct scan *l, size_t i, const char *why)
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

static void scan_settings(const struct scan *l)
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
            report_setting(l, row);
            settings_take(row, &a->settings->s, &s->settings);
        }
        if (a->live != NULL)
            scan_refusal(l, i, live_settings_refused(a->live, row));
    }
    if (s->has_settings)
        return;
    app_settings_copy(&a->settings->s, &s->settings);
    s->has_settings = true;
}

static void scan_pool(const struct scan *l)
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

static void scan(struct observer *o)
{
    for (size_t i = 0; i < o->lb->napplications; ++i) {
        struct seen_app *s = &o->apps[i];
        struct scan l = {.o = o, .app = s, .now_ms = clock_mono_us() / 1000};

        map_for_each (struct seen_worker, w, &s->workers, by_name)
            w->here = false;
        if (s->app->membership != NULL)
            membership_each(s->app->membership, scan_worker, &l);
        find_absent(&l);
        scan_settings(&l);
        scan_pool(&l);
        s->settled = o->lb->phase != LB_STARTING;
    }
}

/* ---- life ---- */

/* Processes all notes. Returns their number. */
static size_t drain(struct observer *o)
{
    uint64_t now_us = clock_mono_us();
    size_t notes = 0;

    fading_run(&o->recent, now_us);
    fading_run(&o->lasting, now_us);
    for (unsigned i = 0; i < o->lb->nloops; ++i)
        notes += traffic_drain(o->lb->loops[i].traffic, take_note, o);
    return notes;
}

static void on_timer(struct timer *t)
{
    struct observer *o = container_of(t, struct observer, timer);

    size_t notes = drain(o);
    o->drains += o->step;
    if (o->drains >= DRAINS_A_SCAN) {
        o->drains = 0;
        for (size_t i = 0; i < o->lb->napplications; ++i)
            histogram_scale(&o->apps[i].times, TIMES_KEEP);
        scan(o);
        for (size_t i = 0; i < o->lb->napplications; ++i)
            choose_classes(o, &o->apps[i]);
    }
    /* With little traffic the thread is woken less often: the rings have room for a thousand
     * notes. */
    o->step = notes < NOTES_FEW ? DRAINS_A_SCAN - o->drains : 1;
    timer_start(o->lb->control, &o->timer, (uint64_t)o->step * DRAIN_MS);
}

struct observer *observer_create(struct lb *lb)
{
    struct observer *o = xcalloc(1, sizeof(*o));

    o->lb = lb;
    o->apps = xcalloc(lb->napplications + 1, sizeof(*o->apps));
    o->started_us = clock_mono_us();
    fading_clock_init(&o->recent, OBSERVER_FADE_S * 1e6);
    fading_clock_init(&o->lasting, CLASS_METRICS_FADE_S * 1e6);
    fading_run(&o->recent, o->started_us);
    fading_run(&o->lasting, o->started_us);
    for (size_t i = 0; i < lb->napplications; ++i) {
        o->apps[i].app = lb->applications[i];
        o->apps[i].figures = class_metrics_create();
        list_init(&o->apps[i].recent);
    }
    o->step = 1;
    timer_init(&o->timer, on_timer);
    timer_start(lb->control, &o->timer, DRAIN_MS);
    return o;
}

static void fini_app(struct seen_app *a)
{
    while (!list_empty(&a->recent))
        drop_class(a, list_first(&a->recent, struct seen_class, node));
    map_for_each_safe (struct seen_worker, w, &a->workers, by_name) {
        map_remove(&a->workers, &w->by_name);
        free(w);
    }
    class_metrics_destroy(a->figures);
    forget_settings(a);
}

void observer_destroy(struct observer *o)
{
    if (o == NULL)
        return;
    timer_stop(&o->timer);
    for (size_t i = 0; i < o->lb->napplications; ++i)
        fini_app(&o->apps[i]);
    events_fini(&o->events);
    free(o->apps);
    free(o);
}

const struct events *observer_events(const struct observer *o)
{
    return &o->events;
}
