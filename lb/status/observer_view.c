/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the state as JSON. The pool's lock is taken briefly, once per class of the map.
 */
#include <stdlib.h>

#include "lb/status/observer_internal.h"

static void put_rounded(struct json_writer *w, const char *name, double v)
{
    /* Three decimals are sufficient, and halve the size. */
    json_put_real(w, name, (double)(int64_t)(v * 1000 + (v < 0 ? -0.5 : 0.5)) / 1000);
}

/* Writes V with microseconds. */
static void put_seconds(struct json_writer *w, const char *name, double v)
{
    json_put_real(w, name, v < 1e9 ? (double)(int64_t)(v * 1e6 + 0.5) / 1e6 : v);
}

/* Writes V, or null if it is not KNOWN. */
static void put_known_seconds(struct json_writer *w, const char *name, bool known, double v)
{
    if (known)
        put_seconds(w, name, v);
    else
        json_put_null(w, name);
}

static double rate_of(const struct observer *o, const struct fading *f)
{
    return observer_rate(o, fading_sum(f, &o->recent));
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
};

struct choice {
    struct busy rows[OBSERVER_ROWS_MAX];
    size_t n;
};

static bool contains(struct slice text, struct slice part)
{
    return part.len == 0 || memmem(text.p, text.len, part.p, part.len) != NULL;
}

/* Inserts CLS into the short sorted list. Most classes are smaller than its last one. */
static void offer(struct choice *c, struct seen_class *cls, double rate)
{
    if (c->n == OBSERVER_ROWS_MAX && rate <= c->rows[c->n - 1].rate)
        return;
    size_t at = c->n < OBSERVER_ROWS_MAX ? c->n++ : c->n - 1;
    for (; at != 0 && c->rows[at - 1].rate < rate; --at)
        c->rows[at] = c->rows[at - 1];
    c->rows[at] = (struct busy){cls, rate};
}

static void choose(struct observer *o, struct seen_app *a, struct slice q, struct choice *out)
{
    out->n = 0;
    map_for_each (struct seen_class, c, &a->classes, by_name) {
        if (!contains(map_key(&c->by_name), q))
            continue;
        observer_refresh(o, c);
        offer(out, c, observer_rate(o, c->recent.requests));
    }
}

/* Determines, for each worker, the classes with the most requests. */
static void rank_tops(struct seen_app *a, const struct choice *c,
                      struct seen_worker *const *workers)
{
    map_for_each (struct seen_worker, w, &a->workers, by_name)
        memset(w->top, 0, sizeof(w->top));
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
}

static void put_class(const struct observer *o, const struct seen_app *a,
                      const struct seen_class *c, struct json_writer *w)
{
    double requests = observer_rate(o, c->recent.requests);
    struct pool_class_view v;

    pool_class_view(a->app->pool, map_key(&c->by_name), &v);
    json_open_object(w, NULL);
    json_put_text(w, "name", map_key(&c->by_name));
    put_rounded(w, "requests_per_s", requests);
    put_rounded(w, "spilled_per_s", observer_rate(o, c->recent.spilled));
    put_rounded(w, "failed_per_s", observer_rate(o, c->recent.failed));
    put_rounded(w, "limited_per_s", observer_rate(o, c->recent.limited));
    put_rounded(w, "waited_per_s", observer_rate(o, c->recent.waited));
    put_known_seconds(w, "wait_mean_s", c->recent.requests / o->recent.weight > 0.001,
                      c->recent.wait_seconds / c->recent.requests);
    json_put_int(w, "skilled_workers", (int64_t)v.total);
    if (v.lives)
        json_put_int(w, "homes", (int64_t)v.homes);
    else
        json_put_null(w, "homes");
    json_close_object(w);
}

/* ---- the map ---- */

struct column {
    struct seen_worker *worker;
    double sum;
    int64_t home; /* number of rows in which it has the largest share */
};

static int by_sum(const void *a, const void *b)
{
    double x = ((const struct column *)a)->sum;
    double y = ((const struct column *)b)->sum;

    return (x < y) - (x > y);
}

static int by_name(const void *a, const void *b)
{
    return strverscmp(((const struct column *)a)->worker->name,
                      ((const struct column *)b)->worker->name);
}

/* Selects the workers with the largest shares of these classes, sorted by name. */
static size_t choose_columns(struct seen_app *a, const struct choice *c, size_t nrows,
                             struct seen_worker *const *workers, struct column **out)
{
    size_t room = map_count(&a->workers);
    struct column *all = xcalloc(room + 1, sizeof(*all));
    size_t n = 0;

    map_for_each (struct seen_worker, w, &a->workers, by_name) {
        double sum = 0;

        for (size_t i = 0; i < nrows; ++i) {
            const struct seen_class *s = c->rows[i].cls;

            for (unsigned k = 0; k < s->n; ++k)
                sum += workers[s->workers[k].number] == w ? (double)s->workers[k].sum : 0;
        }
        all[n++] = (struct column){.worker = w, .sum = sum};
    }
    qsort(all, n, sizeof(*all), by_sum);
    n = n < OBSERVER_MAP_WORKERS ? n : OBSERVER_MAP_WORKERS;
    qsort(all, n, sizeof(*all), by_name);
    *out = all;
    return n;
}

static double traffic_to(const struct seen_class *s, uint32_t number)
{
    for (unsigned k = 0; k < s->n; ++k) {
        if (s->workers[k].number == number)
            return (double)s->workers[k].sum;
    }
    return 0;
}

static double score_of(const struct pool_class_view *v, const char *name)
{
    for (size_t i = 0; i < v->n; ++i) {
        if (strcmp(v->rows[i].name, name) == 0)
            return v->rows[i].score;
    }
    return 0;
}

struct map_row {
    struct seen_class *cls;
    size_t home; /* column with the largest share of its traffic */
    double rate;
};

static int by_home(const void *a, const void *b)
{
    const struct map_row *x = a;
    const struct map_row *y = b;

    if (x->home != y->home)
        return x->home < y->home ? -1 : 1;
    return (x->rate < y->rate) - (x->rate > y->rate);
}

static void put_map_row(const struct observer *o, const struct seen_app *a, const struct map_row *r,
                        const struct column *columns, size_t ncolumns, struct json_writer *w)
{
    struct pool_class_view v;
    double requests = r->cls->recent.requests > 0 ? r->cls->recent.requests : 1;

    pool_class_view(a->app->pool, map_key(&r->cls->by_name), &v);
    json_open_object(w, NULL);
    json_put_text(w, "class", map_key(&r->cls->by_name));
    put_rounded(w, "requests_per_s", observer_rate(o, r->cls->recent.requests));
    json_open_array(w, "share");
    for (size_t i = 0; i < ncolumns; ++i)
        put_rounded(w, NULL, traffic_to(r->cls, columns[i].worker->number) / requests);
    json_close_array(w);
    json_open_array(w, "score");
    for (size_t i = 0; i < ncolumns; ++i)
        put_rounded(w, NULL, score_of(&v, columns[i].worker->name));
    json_close_array(w);
    json_close_object(w);
}

static void put_map(struct observer *o, struct seen_app *a, const struct choice *c,
                    struct seen_worker *const *workers, struct json_writer *w)
{
    size_t nrows = c->n < OBSERVER_MAP_CLASSES ? c->n : OBSERVER_MAP_CLASSES;
    struct map_row rows[OBSERVER_MAP_CLASSES];
    struct column *columns;
    size_t n = choose_columns(a, c, nrows, workers, &columns);

    for (size_t i = 0; i < nrows; ++i) {
        double most = -1;

        rows[i] = (struct map_row){.cls = c->rows[i].cls, .rate = c->rows[i].rate};
        for (size_t k = 0; k < n; ++k) {
            double sum = traffic_to(rows[i].cls, columns[k].worker->number);

            if (sum > most) {
                most = sum;
                rows[i].home = k;
            }
        }
    }
    /* Sorts classes of the same worker next to each other, so that settled classes form a
     * diagonal. */
    qsort(rows, nrows, sizeof(rows[0]), by_home);
    json_open_object(w, "map");
    json_open_array(w, "workers");
    for (size_t i = 0; i < n; ++i)
        json_put_text(w, NULL, slice_of(columns[i].worker->name));
    json_close_array(w);
    json_open_array(w, "classes");
    for (size_t i = 0; i < nrows; ++i)
        put_map_row(o, a, &rows[i], columns, n, w);
    json_close_array(w);
    json_close_object(w);
    free(columns);
}

void observer_describe_classes(struct observer *o, size_t application, struct slice q,
                               struct json_writer *w)
{
    struct seen_app *a = &o->apps[application];
    struct seen_worker **workers = xcalloc((size_t)o->numbers + 1, sizeof(*workers));
    struct choice c;

    map_for_each (struct seen_worker, x, &a->workers, by_name)
        workers[x->number] = x;
    choose(o, a, q, &c);
    rank_tops(a, &c, workers);
    json_open_array(w, "classes_now");
    for (size_t i = 0; i < c.n; ++i)
        put_class(o, a, c.rows[i].cls, w);
    json_close_array(w);
    put_map(o, a, &c, workers, w);
    free(workers);
}
