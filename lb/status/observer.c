/* SPDX-License-Identifier: Apache-2.0
 *
 *   data loops -- notes --> drain, up to four times a second --> classes, workers of classes, times
 *   pools, memberships, settings -- scanned once a second --> workers, events
 *
 * Sums are weighted by time (common/stats/decay.h), so a class without requests costs nothing.
 */
#include "lb/status/observer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/stats/decay.h"
#include "common/stats/histogram.h"
#include "common/tree/live_settings.h"
#include "lb/backends/member.h"
#include "lb/backends/membership.h"
#include "lb/core/application.h"
#include "lb/core/traffic.h"
#include "lb/status/class_metrics.h"

enum {
    DRAIN_MS = 250,
    DRAINS_A_SCAN = 4, /* once a second */
    /* If all loops together have so few notes, the next drain is the one before the scan. */
    NOTES_FEW = 32,
    MOVE_SCANS = 10, /* seconds between two checks for classes that replace others */
};

/* Decay of the histograms of times per second. */
static const double TIMES_KEEP = 0.935; /* exp(-1/15) */

struct seen_worker {
    struct map_node by_name;
    uint32_t number; /* unique; not reused */
    bool here;       /* at the last scan */
    bool ejected;
    bool was_in_pool;
    char state[16], version[VERSION_MAX + 1], instance[72];
    uint64_t requests, failures, service_us; /* counts of its member at the last scan */
    struct fading request_rate, failure_rate, service_s;
    struct {
        struct slice cls; /* borrowed from its class; valid during one description */
        double rate;
    } top[OBSERVER_TOP_CLASSES];
    char name[];
};

struct class_worker {
    uint32_t number; /* number of a seen_worker */
    float sum;       /* weighted as its class */
};

struct seen_class {
    struct map_node by_name;
    struct list node;  /* least recently seen first */
    uint64_t epoch_us; /* the epoch of observer.recent by which these and WORKERS are weighted */
    struct class_figures recent;
    struct fading lasting;       /* number of requests, by observer.lasting */
    struct class_series *series; /* NULL: counted with the others */
    struct class_worker *workers;
    unsigned n;
    char name[];
};

struct seen_app {
    struct observer *observer;
    struct application *app;
    struct map workers, classes;
    struct list recent; /* seen_class.node */
    struct class_metrics *figures;
    unsigned scans; /* number of scans, for the selection of classes */
    struct fading requests, failed, placed, skilled;
    struct histogram times;
    char active_version[VERSION_MAX + 1];
    struct app_settings settings; /* at the last check */
    bool has_settings;
    char **rejected; /* reason of the rejection per row of app_row, or NULL */
    bool settled;    /* workers that were present at the start do not cause events */
};

struct observer {
    struct lb *lb;
    struct timer timer;
    struct events events;
    struct seen_app *apps;
    uint32_t numbers;
    uint64_t started_us;
    struct fading_clock recent, lasting; /* OBSERVER_FADE_S, CLASS_METRICS_FADE_S */
    unsigned drains;                     /* quarters of a second since the last scan */
    unsigned step;                       /* number of quarters that the next drain covers */
};

/* A rate of r per second yields a sum of r * OBSERVER_FADE_S; less shortly after the start. */
static double rate_per_s(const struct observer *o, double sum)
{
    double age = (double)(o->recent.now_us - o->started_us) / 1e6;
    double full = OBSERVER_FADE_S * (1 - exp(-(age > 1 ? age : 1) / OBSERVER_FADE_S));

    return sum / o->recent.weight / full;
}

/* ---- classes ---- */

static void refresh_class(const struct observer *o, struct seen_class *c)
{
    if (c->epoch_us == o->recent.epoch_us)
        return;
    double by = fading_convert(1, c->epoch_us, &o->recent);
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

static struct seen_class *seen_class_of(struct observer *o, struct seen_app *a, struct slice name)
{
    struct seen_class *c =
        map_entry(map_find(&a->classes, name.p, name.len), struct seen_class, by_name);

    if (c != NULL) {
        list_move_back(&a->recent, &c->node);
        refresh_class(o, c);
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

static void take_note(void *context, const struct traffic_note *n, double weight)
{
    struct observer *o = context;
    struct seen_app *a = &o->apps[n->application];
    struct seen_class *c = seen_class_of(o, a, n->cls);
    bool by_skill = (n->flags & (TRAFFIC_SKILLED | TRAFFIC_OVERFLOW)) != 0;
    struct class_figures f = {
        .requests = weight,
        .failed = (n->flags & TRAFFIC_FAILED) != 0 ? weight : 0,
        .limited = (n->flags & TRAFFIC_LIMITED) != 0 ? weight : 0,
        .waited = (n->flags & TRAFFIC_WAITED) != 0 ? weight : 0,
        .seconds = weight * (double)n->total_us / 1e6,
        .wait_seconds = weight * (double)n->wait_us / 1e6,
        .skilled = (n->flags & TRAFFIC_SKILLED) != 0 ? weight : 0,
        .overflow = (n->flags & TRAFFIC_OVERFLOW) != 0 ? weight : 0,
        .unskilled = n->worker.len != 0 && !by_skill ? weight : 0,
    };

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

static void observer_report(const struct seen_app *a, const struct seen_worker *w, const char *kind,
                            bool bad, const char *text)
{
    if (a->settled)
        events_add(&a->observer->events, kind, bad, a->app->name, w->name, text);
}

static uint64_t count_since(uint64_t *last, uint64_t now)
{
    uint64_t n = now >= *last ? now - *last : now;

    *last = now;
    return n;
}

static void scan_worker(void *context, const struct backend *k)
{
    static const char *const bad[] = {"absent", "silent", "unhealthy"};
    struct seen_app *a = context;
    const struct fading_clock *now = &a->observer->recent;
    struct seen_worker *w = worker_named(a->observer, a, slice_of(k->name));
    const char *state = backend_state(k);
    char text[EVENT_TEXT_MAX];
    bool is_bad = false;

    if (!w->was_in_pool && strcmp(state, "absent") != 0) {
        w->was_in_pool = true;
        observer_report(a, w, "joined", false, state);
        snprintf(w->state, sizeof(w->state), "%s", state);
    }
    if (w->state[0] != '\0' && strcmp(w->state, state) != 0) {
        for (size_t i = 0; i < ARRAY_LEN(bad); ++i)
            is_bad |= strcmp(state, bad[i]) == 0;
        snprintf(text, sizeof(text), "%s -> %s", w->state, state);
        observer_report(a, w, state[0] == 'r' ? "ready" : "state", is_bad, text);
    }
    snprintf(w->state, sizeof(w->state), "%s", state);
    w->here = true;
    if (k->worker == NULL)
        return;
    struct member *m = member_of(k->worker);
    const char *version = k->streams ? k->last.version : m->version;
    if (strcmp(w->version, version) != 0 && w->instance[0] != '\0') {
        snprintf(text, sizeof(text), "version %s -> %s", w->version, version);
        observer_report(a, w, "version", false, text);
    } else if (strcmp(w->instance, worker_instance(k->worker)) != 0 && w->instance[0] != '\0') {
        observer_report(a, w, "restarted", false, "another process uses the address");
    }
    snprintf(w->version, sizeof(w->version), "%.*s", (int)sizeof(w->version) - 1, version);
    snprintf(w->instance, sizeof(w->instance), "%s", worker_instance(k->worker));
    fading_add(&w->request_rate, (double)count_since(&w->requests, load_relaxed(&m->requests)),
               now);
    fading_add(&w->failure_rate, (double)count_since(&w->failures, load_relaxed(&m->failures)),
               now);
    fading_add(&w->service_s,
               (double)count_since(&w->service_us, load_relaxed(&m->service_us)) / 1e6, now);
    bool ejected = load_relaxed(&m->ejected_until_ms) != 0;
    unsigned why = atomic_load_explicit(&m->ejected_why, memory_order_relaxed);
    if (ejected != w->ejected)
        observer_report(a, w, ejected ? "ejected" : "back", ejected,
                        ejected ? worker_fault_text((enum worker_fault)why)
                                : "its ejection has ended");
    w->ejected = ejected;
}

static void scan_settings(struct seen_app *s)
{
    const struct application *a = s->app;
    struct events *events = &s->observer->events;

    if (s->rejected == NULL)
        s->rejected = xcalloc(app_rows() + 1, sizeof(*s->rejected));
    for (size_t i = 0; i < app_rows(); ++i) {
        const struct setting_row *row = app_row(i);

        if (row->type == SETTING_NODE)
            continue;
        if (s->has_settings && !settings_same(row, &s->settings, &a->settings->s)) {
            struct text line = {0};

            settings_print(row, &s->settings, &line);
            text_add(&line, SLICE_LIT(" -> "));
            settings_print(row, &a->settings->s, &line);
            if (a->live != NULL)
                text_addf(&line, " (%s)", setting_origin_text(live_settings_origin(a->live, row)));
            events_add(events, "setting", false, a->name, row->name, text_cstr(&line));
            text_fini(&line);
            settings_take(row, &a->settings->s, &s->settings);
        }
        if (a->live == NULL)
            continue;
        const char *why = live_settings_rejection(a->live, row);
        char *was = s->rejected[i];
        bool same = why != NULL && was != NULL ? strcmp(was, why) == 0 : why == was;
        if (same)
            continue;
        events_add(events, why != NULL ? "rejected" : "setting", why != NULL, a->name, row->name,
                   why != NULL ? why : "no longer rejected");
        s->rejected[i] = xstrdup(why);
        free(was);
    }
    if (s->has_settings)
        return;
    app_settings_copy(&a->settings->s, &s->settings);
    s->has_settings = true;
}

static void drop_worker(struct seen_app *a, struct seen_worker *w)
{
    map_remove(&a->workers, &w->by_name);
    free(w);
}

static void scan_applications(struct observer *o)
{
    for (size_t i = 0; i < o->lb->napplications; ++i) {
        struct seen_app *s = &o->apps[i];
        char active[sizeof(s->active_version)];
        char text[EVENT_TEXT_MAX];

        map_for_each (struct seen_worker, w, &s->workers, by_name)
            w->here = false;
        if (s->app->membership != NULL)
            membership_each(s->app->membership, scan_worker, s);
        map_for_each_safe (struct seen_worker, w, &s->workers, by_name) {
            if (w->here)
                continue;
            if (w->was_in_pool)
                observer_report(s, w, "left", false, "neither listed nor registered");
            drop_worker(s, w);
        }
        scan_settings(s);
        pool_active_version(s->app->pool, active, sizeof(active));
        if (s->settled && s->active_version[0] != '\0' && strcmp(active, s->active_version) != 0) {
            snprintf(text, sizeof(text), "%s -> %s", s->active_version, active);
            events_add(&o->events, "switched", false, s->app->name, "active version", text);
        }
        snprintf(s->active_version, sizeof(s->active_version), "%s", active);
        s->settled = o->lb->phase != LB_STARTING;
    }
}

/* ---- life ---- */

/* Processes all notes. Returns their number. */
static size_t observer_drain(struct observer *o)
{
    uint64_t now_us = clock_mono_us();
    size_t notes = 0;

    fading_advance(&o->recent, now_us);
    fading_advance(&o->lasting, now_us);
    for (unsigned i = 0; i < o->lb->nloops; ++i)
        notes += traffic_drain(o->lb->loops[i].traffic, take_note, o);
    return notes;
}

static void on_observer_timer(struct timer *t)
{
    struct observer *o = container_of(t, struct observer, timer);

    size_t notes = observer_drain(o);
    o->drains += o->step;
    if (o->drains >= DRAINS_A_SCAN) {
        o->drains = 0;
        for (size_t i = 0; i < o->lb->napplications; ++i)
            histogram_scale(&o->apps[i].times, TIMES_KEEP);
        scan_applications(o);
        for (size_t i = 0; i < o->lb->napplications; ++i)
            choose_classes(o, &o->apps[i]);
    }
    /* With little traffic less often: the rings have room for a thousand notes. */
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
    fading_advance(&o->recent, o->started_us);
    fading_advance(&o->lasting, o->started_us);
    for (size_t i = 0; i < lb->napplications; ++i) {
        o->apps[i].observer = o;
        o->apps[i].app = lb->applications[i];
        o->apps[i].figures = class_metrics_create();
        list_init(&o->apps[i].recent);
    }
    o->step = 1;
    timer_init(&o->timer, on_observer_timer);
    timer_start(lb->control, &o->timer, DRAIN_MS);
    return o;
}

void observer_destroy(struct observer *o)
{
    if (o == NULL)
        return;
    timer_stop(&o->timer);
    for (size_t i = 0; i < o->lb->napplications; ++i) {
        struct seen_app *a = &o->apps[i];

        while (!list_empty(&a->recent))
            drop_class(a, list_first(&a->recent, struct seen_class, node));
        map_for_each_safe (struct seen_worker, w, &a->workers, by_name)
            drop_worker(a, w);
        class_metrics_destroy(a->figures);
        if (a->rejected != NULL) {
            for (size_t k = 0; k < app_rows(); ++k)
                free(a->rejected[k]);
        }
        free(a->rejected);
        if (a->has_settings)
            app_settings_fini(&a->settings);
    }
    events_fini(&o->events);
    free(o->apps);
    free(o);
}

const struct events *observer_events(const struct observer *o)
{
    return &o->events;
}

/* ---- JSON: the lock of the pool is taken briefly, once per class of the map ---- */

static void put_rounded(struct json_writer *w, const char *name, double v)
{
    /* Three decimals are sufficient, and halve the size. */
    json_put_real(w, name, (double)(int64_t)(v * 1000 + (v < 0 ? -0.5 : 0.5)) / 1000);
}

/* Writes V with microseconds, or null if it is not KNOWN. */
static void put_known_seconds(struct json_writer *w, const char *name, bool known, double v)
{
    if (known)
        json_put_real(w, name, v < 1e9 ? (double)(int64_t)(v * 1e6 + 0.5) / 1e6 : v);
    else
        json_put_null(w, name);
}

static double rate_of(const struct observer *o, const struct fading *f)
{
    return rate_per_s(o, fading_sum(f, &o->recent));
}

void observer_describe(struct observer *o, size_t application, struct json_writer *w)
{
    const struct seen_app *a = &o->apps[application];
    double placed = rate_of(o, &a->placed);

    json_open_object(w, "now");
    put_rounded(w, "requests_per_s", rate_of(o, &a->requests));
    put_rounded(w, "failed_per_s", rate_of(o, &a->failed));
    if (placed > 0.001)
        put_rounded(w, "skilled_share", rate_of(o, &a->skilled) / placed);
    else
        json_put_null(w, "skilled_share");
    bool timed = histogram_count(&a->times) > 0.5;
    put_known_seconds(w, "p50_s", timed, histogram_quantile(&a->times, 0.5) / 1e6);
    put_known_seconds(w, "p99_s", timed, histogram_quantile(&a->times, 0.99) / 1e6);
    json_put_int(w, "classes", (int64_t)map_count(&a->classes));
    json_close_object(w);
}

static const struct seen_worker *find_worker(const struct observer *o, size_t application,
                                             const char *name)
{
    return map_entry(map_find(&o->apps[application].workers, name, strlen(name)),
                     struct seen_worker, by_name);
}

double observer_worker_rate(const struct observer *o, size_t application, const char *name)
{
    const struct seen_worker *s = find_worker(o, application, name);

    return s != NULL ? rate_of(o, &s->request_rate) : 0;
}

void observer_describe_worker(struct observer *o, size_t application, const char *name,
                              struct json_writer *w)
{
    const struct seen_worker *s = find_worker(o, application, name);

    if (s == NULL)
        return;
    double requests = rate_of(o, &s->request_rate);
    double service = rate_of(o, &s->service_s);
    put_rounded(w, "requests_per_s", requests);
    put_rounded(w, "failures_per_s", rate_of(o, &s->failure_rate));
    /* Current duration of a request. */
    put_known_seconds(w, "service_mean_s", requests > 0.001, service / requests);
    json_open_array(w, "top_classes");
    for (size_t i = 0; i < OBSERVER_TOP_CLASSES && s->top[i].rate > 0; ++i)
        json_put_text(w, NULL, s->top[i].cls);
    json_close_array(w);
}

/* ---- the busiest classes ---- */

struct busy {
    struct seen_class *cls;
    double rate;
    size_t busiest; /* column of the map with the largest share of its traffic */
};

struct choice {
    struct busy rows[OBSERVER_ROWS_MAX];
    size_t n;
};

/* Determines, for each worker, the classes with the most requests. */
static void rank_tops(struct seen_app *a, const struct choice *c)
{
    struct seen_worker **workers = xcalloc((size_t)a->observer->numbers + 1, sizeof(*workers));

    map_for_each (struct seen_worker, w, &a->workers, by_name) {
        workers[w->number] = w;
        memset(w->top, 0, sizeof(w->top));
    }
    for (size_t i = 0; i < c->n; ++i) {
        const struct seen_class *s = c->rows[i].cls;

        for (unsigned k = 0; k < s->n; ++k) {
            struct seen_worker *w = workers[s->workers[k].number];
            double rate = (double)s->workers[k].sum;
            size_t at = OBSERVER_TOP_CLASSES;

            while (w != NULL && at != 0 && w->top[at - 1].rate < rate)
                --at;
            if (w == NULL || at == OBSERVER_TOP_CLASSES)
                continue;
            memmove(&w->top[at + 1], &w->top[at],
                    (OBSERVER_TOP_CLASSES - at - 1) * sizeof(w->top[0]));
            w->top[at].cls = map_key(&s->by_name);
            w->top[at].rate = rate;
        }
    }
    free(workers);
}

/* ---- the map ---- */

struct column {
    double sum;
    struct seen_worker *worker;
};

static int by_name(const void *a, const void *b)
{
    return strverscmp(((const struct column *)a)->worker->name,
                      ((const struct column *)b)->worker->name);
}

static double traffic_to(const struct seen_class *s, uint32_t number)
{
    for (unsigned k = 0; k < s->n; ++k) {
        if (s->workers[k].number == number)
            return (double)s->workers[k].sum;
    }
    return 0;
}

static int by_busiest(const void *a, const void *b)
{
    const struct busy *x = a;
    const struct busy *y = b;

    if (x->busiest != y->busiest)
        return x->busiest < y->busiest ? -1 : 1;
    return (x->rate < y->rate) - (x->rate > y->rate);
}

/* Writes the map of the first rows of C, which it sorts by worker. */
static void put_map(struct observer *o, struct seen_app *a, struct choice *c, struct json_writer *w)
{
    size_t nrows = c->n < OBSERVER_MAP_CLASSES ? c->n : OBSERVER_MAP_CLASSES;
    struct column *columns = xcalloc(map_count(&a->workers) + 1, sizeof(*columns));
    size_t n = 0;

    /* The workers with the largest shares of these classes, sorted by name. */
    map_for_each (struct seen_worker, s, &a->workers, by_name) {
        columns[n].worker = s;
        for (size_t i = 0; i < nrows; ++i)
            columns[n].sum += traffic_to(c->rows[i].cls, s->number);
        ++n;
    }
    qsort(columns, n, sizeof(*columns), descending_reals);
    n = n < OBSERVER_MAP_WORKERS ? n : OBSERVER_MAP_WORKERS;
    qsort(columns, n, sizeof(*columns), by_name);
    for (size_t i = 0; i < nrows; ++i) {
        double most = -1;

        for (size_t k = 0; k < n; ++k) {
            double sum = traffic_to(c->rows[i].cls, columns[k].worker->number);

            if (sum > most) {
                most = sum;
                c->rows[i].busiest = k;
            }
        }
    }
    /* Settled classes form a diagonal then. */
    qsort(c->rows, nrows, sizeof(c->rows[0]), by_busiest);
    json_open_object(w, "map");
    json_open_array(w, "workers");
    for (size_t i = 0; i < n; ++i)
        json_put_text(w, NULL, slice_of(columns[i].worker->name));
    json_close_array(w);
    json_open_array(w, "classes");
    for (size_t i = 0; i < nrows; ++i) {
        const struct seen_class *s = c->rows[i].cls;
        double requests = s->recent.requests > 0 ? s->recent.requests : 1;
        struct pool_class_view v;

        pool_class_view(a->app->pool, map_key(&s->by_name), &v);
        json_open_object(w, NULL);
        json_put_text(w, "class", map_key(&s->by_name));
        put_rounded(w, "requests_per_s", rate_per_s(o, s->recent.requests));
        json_open_array(w, "share");
        for (size_t k = 0; k < n; ++k)
            put_rounded(w, NULL, traffic_to(s, columns[k].worker->number) / requests);
        json_close_array(w);
        json_open_array(w, "score");
        for (size_t k = 0; k < n; ++k) {
            size_t row = 0;

            while (row < v.n && strcmp(v.rows[row].name, columns[k].worker->name) != 0)
                ++row;
            put_rounded(w, NULL, row < v.n ? v.rows[row].score : 0);
        }
        json_close_array(w);
        json_close_object(w);
    }
    json_close_array(w);
    json_close_object(w);
    free(columns);
}

void observer_describe_classes(struct observer *o, size_t application, struct slice q,
                               struct json_writer *w)
{
    struct seen_app *a = &o->apps[application];
    struct choice c;

    c.n = 0;
    map_for_each (struct seen_class, s, &a->classes, by_name) {
        struct slice name = map_key(&s->by_name);

        if (q.len != 0 && memmem(name.p, name.len, q.p, q.len) == NULL)
            continue;
        refresh_class(o, s);
        double rate = rate_per_s(o, s->recent.requests);
        /* Most classes are smaller than the last one of the full list. */
        if (c.n == OBSERVER_ROWS_MAX && rate <= c.rows[c.n - 1].rate)
            continue;
        size_t at = c.n < OBSERVER_ROWS_MAX ? c.n++ : c.n - 1;
        for (; at != 0 && c.rows[at - 1].rate < rate; --at)
            c.rows[at] = c.rows[at - 1];
        c.rows[at] = (struct busy){s, rate, 0};
    }
    rank_tops(a, &c);
    json_open_array(w, "classes_now");
    for (size_t i = 0; i < c.n; ++i) {
        const struct seen_class *s = c.rows[i].cls;
        struct pool_class_view v;

        pool_class_view(a->app->pool, map_key(&s->by_name), &v);
        json_open_object(w, NULL);
        json_put_text(w, "name", map_key(&s->by_name));
        put_rounded(w, "requests_per_s", c.rows[i].rate);
        put_rounded(w, "overflow_per_s", rate_per_s(o, s->recent.overflow));
        put_rounded(w, "failed_per_s", rate_per_s(o, s->recent.failed));
        put_rounded(w, "limited_per_s", rate_per_s(o, s->recent.limited));
        put_rounded(w, "waited_per_s", rate_per_s(o, s->recent.waited));
        put_known_seconds(w, "wait_mean_s", s->recent.requests / o->recent.weight > 0.001,
                          s->recent.wait_seconds / s->recent.requests);
        json_put_int(w, "skilled_workers", (int64_t)v.total);
        json_put_real(w, "homes", v.lives ? (double)v.homes : (double)NAN);
        json_close_object(w);
    }
    json_close_array(w);
    put_map(o, a, &c, w);
}
