/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker announces that it is about to leave. Its requests in flight end there; its classes get
 * other homes now, instead of each with its next request:
 *
 *     with a successor     all of them, and their work, to the successor: one cache is lost, and
 *                          nothing else moves
 *     without a successor  each to the worker with the lowest L, those with the most work first
 *
 * In this order large classes are placed while there is room, and small ones level the rest: the
 * work of each is added before the next one is placed. B, the work in flight, is not considered: it
 * is momentary, and all classes would go to the worker that is idle now. Whether there is room is
 * checked when the first request arrives: a class leaves a home that has not served it yet after a
 * short wait (homes_rule.c).
 *
 * With several load balancers, homes are reported to workers with requests, so that all agree;
 * without a successor, classes therefore move with their next requests, as from an
 * ineligible worker. All load balancers know a successor by themselves.
 */
#include <stdlib.h>

#include "routing/homes/homes_internal.h"

struct parcel {
    struct homes_pair *pair;
    double work_us;
};

/* ---- with a successor ---- */

static void move_in(struct homes *h, struct homes_pair *p, struct homes_worker *to)
{
    double weight_us = fading_value(&p->weight, &h->fade);
    struct homes_class *c = p->cls;

    homes_unsettle(h, p, 0);
    struct homes_pair *next = homes_pair_get(h, c, to, p->used_us);
    if (!homes_is_home(next))
        homes_settle(h, next, weight_us / (double)h->nbalancers);
}

/* The recent work of FROM is the expected work of its successor. */
static void take_work(struct homes *h, struct homes_worker *from, struct homes_worker *to)
{
    double work_us = from->work / h->fade.weight;

    if (homes_shared(h))
        return;
    homes_load_add(h, from, -work_us, 0);
    homes_load_add(h, to, work_us, 0);
}

static size_t succeed(struct homes *h, struct homes_worker *from, struct homes_worker *to)
{
    struct list *it, *tmp;
    size_t n = 0;

    ASSERT(!to->gone);
    list_for_each_safe (it, tmp, &from->pairs) {
        struct homes_pair *p = list_entry(it, struct homes_pair, of_worker);

        if (!homes_is_home(p))
            continue;
        move_in(h, p, to);
        ++n;
    }
    take_work(h, from, to);
    return n;
}

/* ---- without a successor ---- */

static int most_work_first(const void *a, const void *b)
{
    double x = ((const struct parcel *)a)->work_us;
    double y = ((const struct parcel *)b)->work_us;

    return (x < y) - (x > y);
}

/* Returns the homes of FROM, each with its work there; FROM->nhomes entries. The caller frees them.
 */
static struct parcel *pack(const struct homes *h, const struct homes_worker *from)
{
    struct parcel *all = xcalloc(from->nhomes, sizeof(*all));
    struct list *it;
    size_t n = 0;

    list_for_each (it, &from->pairs) {
        struct homes_pair *p = list_entry(it, struct homes_pair, of_worker);
        const struct homes_class *c = p->cls;

        if (homes_is_home(p))
            all[n++] = (struct parcel){p, fading_value(&c->work, &h->fade) / c->nhomes};
    }
    ASSERT(n == from->nhomes);
    qsort(all, n, sizeof(*all), most_work_first);
    return all;
}

static bool has_other_home(const struct homes_class *c)
{
    for (uint32_t i = 0; i < c->nhomes; ++i) {
        if (c->pairs[i]->worker->eligible)
            return true;
    }
    return false;
}

/* Returns the least loaded eligible worker that may have requests; or NULL. */
static struct homes_worker *least_loaded(struct homes *h, const struct homes_request *r)
{
    const struct homes_heap *heap = &h->heaps[HOMES_BY_LOAD];
    struct homes_worker *best = NULL;

    (void)homes_order(h);
    for (size_t i = 0; i < heap->n; ++i) {
        struct homes_worker *w = heap->at[i];

        if (best != NULL && !homes_before(w, best, HOMES_BY_LOAD))
            continue;
        if (r->refuses != NULL && r->refuses(r->context, w->context))
            continue;
        best = w;
        if (i == 0)
            break; /* of all */
    }
    return best;
}

/* Returns false if no eligible worker may have it. */
static bool rehouse(struct homes *h, const struct parcel *parcel, const struct homes_request *r)
{
    struct homes_pair *p = parcel->pair;
    struct homes_class *c = p->cls;

    if (!has_other_home(c)) {
        struct homes_worker *x = least_loaded(h, r);

        if (x == NULL)
            return false;
        homes_settle(h, homes_pair_get(h, c, x, p->used_us), parcel->work_us);
    }
    homes_unsettle(h, p, parcel->work_us);
    return true;
}

static size_t spread(struct homes *h, const struct homes_worker *from,
                     const struct homes_request *r)
{
    size_t nhomes = from->nhomes;
    size_t n = 0;

    if (nhomes == 0)
        return 0;
    struct parcel *all = pack(h, from);
    while (n < nhomes && n < HOMES_HAND_OVER_MAX && rehouse(h, &all[n], r))
        ++n;
    free(all);
    return n;
}

size_t homes_hand_over(struct homes *h, struct homes_worker *from, struct homes_worker *to,
                       const struct homes_request *r)
{
    ASSERT(!from->gone);
    ASSERT(from != to);
    homes_tick(h, r->now_us);
    if (to != NULL)
        return succeed(h, from, to);
    ASSERT(!from->eligible);
    return homes_shared(h) ? 0 : spread(h, from, r);
}
