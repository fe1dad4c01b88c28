/* SPDX-License-Identifier: Apache-2.0
 *
 * Which classes have series, and their figures.
 */
#include "lb/status/class_metrics.h"

#include <stdlib.h>

#include "common/base/map.h"

struct class_series {
    struct map_node by_name;
    struct class_figures figures;
    double requests; /* requests of its rank during a selection */
    char name[];
};

struct class_metrics {
    struct map series;
    struct class_figures others;
};

struct class_metrics *class_metrics_create(void)
{
    return xcalloc(1, sizeof(struct class_metrics));
}

static void class_metrics_drop(struct class_metrics *m, struct class_series *s)
{
    map_remove(&m->series, &s->by_name);
    free(s);
}

void class_metrics_destroy(struct class_metrics *m)
{
    if (m == NULL)
        return;
    map_for_each_safe (struct class_series, s, &m->series, by_name)
        class_metrics_drop(m, s);
    free(m);
}

struct class_series *class_metrics_find(const struct class_metrics *m, struct slice cls)
{
    const char *name = cls.p != NULL ? cls.p : "";

    return map_entry(map_find(&m->series, name, cls.len), struct class_series, by_name);
}

/* All members of struct class_figures are doubles. */
enum { CLASS_FIGURES = sizeof(struct class_figures) / sizeof(double) };

void class_figures_add(struct class_figures *to, const struct class_figures *more)
{
    for (size_t i = 0; i < CLASS_FIGURES; ++i)
        ((double *)to)[i] += ((const double *)more)[i];
}

void class_figures_scale(struct class_figures *f, double by)
{
    for (size_t i = 0; i < CLASS_FIGURES; ++i)
        ((double *)f)[i] *= by;
}

void class_metrics_add(struct class_metrics *m, struct class_series *s,
                       const struct class_figures *more)
{
    class_figures_add(s != NULL ? &s->figures : &m->others, more);
}

size_t class_metrics_count(const struct class_metrics *m)
{
    return map_count(&m->series);
}

/* ---- classes with series ---- */

static void class_metrics_admit(struct class_metrics *m, const struct class_rank *r)
{
    struct class_series *s = xcalloc(1, sizeof(*s) + r->name.len + 1);

    if (r->name.len != 0)
        memcpy(s->name, r->name.p, r->name.len);
    s->requests = r->requests;
    map_add(&m->series, &s->by_name, s->name, r->name.len);
}

/* Returns the series with the fewest requests. There must be at least one. */
static struct class_series *least_used(const struct class_metrics *m)
{
    struct class_series *found = NULL;

    map_for_each (struct class_series, s, &m->series, by_name) {
        if (found == NULL || s->requests < found->requests)
            found = s;
    }
    ASSERT(found != NULL);
    return found;
}

/* Sorts by descending requests; equal ones in a fixed order. */
static int by_requests(const void *a, const void *b)
{
    const struct class_rank *x = a;
    const struct class_rank *y = b;

    if (x->requests != y->requests)
        return x->requests < y->requests ? 1 : -1;
    size_t common = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = common != 0 ? memcmp(x->name.p, y->name.p, common) : 0;
    if (order != 0)
        return order;
    return (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

bool class_metrics_choose(struct class_metrics *m, struct class_rank *ranks, size_t n, size_t limit,
                          bool move)
{
    ASSERT(limit <= CLASS_METRICS_MAX);
    size_t left = 0;
    size_t next = 0;
    bool changed = false;

    /* Classes without series remain in RANKS, by descending requests. */
    map_for_each (struct class_series, s, &m->series, by_name)
        s->requests = 0;
    for (size_t i = 0; i < n; ++i) {
        struct class_series *s = class_metrics_find(m, ranks[i].name);

        if (s != NULL)
            s->requests = ranks[i].requests;
        else
            ranks[left++] = ranks[i];
    }
    qsort(ranks, left, sizeof(*ranks), by_requests);
    for (; class_metrics_count(m) > limit; changed = true)
        class_metrics_drop(m, least_used(m));
    for (; class_metrics_count(m) < limit && next < left; changed = true)
        class_metrics_admit(m, &ranks[next++]);
    if (limit == 0 || !move)
        return changed;
    for (bool moved = false; next < left; ++next) {
        struct class_series *s = least_used(m);
        bool quiet = s->requests < CLASS_METRICS_QUIET;
        double requests = ranks[next].requests;

        if (requests < CLASS_METRICS_WORTH || requests <= CLASS_METRICS_LEAD * s->requests ||
            (moved && !quiet))
            break;
        moved = moved || !quiet;
        class_metrics_drop(m, s);
        class_metrics_admit(m, &ranks[next]);
        changed = true;
    }
    return changed;
}

void class_metrics_each(const struct class_metrics *m,
                        void (*each)(void *context, const char *cls, const struct class_figures *f),
                        void *context)
{
    map_for_each (struct class_series, s, &m->series, by_name)
        each(context, s->name, &s->figures);
    each(context, NULL, &m->others);
}
