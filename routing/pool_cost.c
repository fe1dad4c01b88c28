/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/pool_cost.h"

#include "common/base/list.h"

/* How much of an average the newest value is. A class's: its cost changes when its worker's cache
 * warms up, which should be seen after a few requests. Over all: steady, as newcomers go by it. */
static const double CLASS_SHARE = 0.2;
static const double ALL_SHARE = 0.01;
/* Before anything is known, each request counts for the same. */
static const double UNKNOWN_S = 0.01;
/* The shortest time that the clock can measure. */
static const double LEAST_S = 1e-6;

struct cost_class {
    struct class_entry base;
    double mean_s; /* 0 before the first */
    struct list hands;
};

static struct cost_class *class_of(struct class_entry *e)
{
    return container_of(e, struct cost_class, base);
}

static void on_drop(void *owner, struct class_entry *e)
{
    struct cost_class *c = class_of(e);
    struct list *node;

    (void)owner;
    while ((node = list_pop_front(&c->hands)) != NULL)
        list_entry(node, struct pool_hand, node)->entry = NULL;
}

void cost_init(struct cost_table *t, size_t max_classes)
{
    t->mean_s = 0;
    classes_init(&t->classes, sizeof(struct cost_class), max_classes, on_drop, t);
}

void cost_fini(struct cost_table *t)
{
    classes_fini(&t->classes);
}

struct cost_class *cost_find(const struct cost_table *t, struct slice cls)
{
    struct class_entry *e = classes_find(&t->classes, cls);

    return e != NULL ? class_of(e) : NULL;
}

double cost_expected_s(const struct cost_table *t, const struct cost_class *c)
{
    if (c != NULL && c->mean_s > 0)
        return c->mean_s;
    return t->mean_s > 0 ? t->mean_s : UNKNOWN_S;
}

void cost_begin(struct cost_table *t, struct slice cls, struct pool_hand *h)
{
    struct cost_class *c = cost_find(t, cls);

    classes_request(&t->classes, c != NULL ? &c->base : NULL);
    if (c == NULL) {
        c = class_of(classes_add(&t->classes, cls));
        list_init(&c->hands);
    }
    h->entry = c;
    h->work_s = cost_expected_s(t, c);
    list_push_back(&c->hands, &h->node);
}

static void add(double *mean_s, double share, double value_s)
{
    *mean_s = *mean_s > 0 ? *mean_s + share * (value_s - *mean_s) : value_s;
}

void cost_end(struct cost_table *t, struct pool_hand *h, const struct pool_served *how)
{
    struct cost_class *c = h->entry;

    list_remove(&h->node);
    h->entry = NULL;
    if (how->failed || how->service_us == 0)
        return;
    double took_s = (double)how->service_us / 1e6;
    if (took_s < LEAST_S)
        took_s = LEAST_S;
    add(&t->mean_s, ALL_SHARE, took_s);
    if (c != NULL)
        add(&c->mean_s, CLASS_SHARE, took_s);
}
