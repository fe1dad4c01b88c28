/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker is about to leave, and says so before it does. What it has in hand ends there; its
 * classes get other homes now, rather than each with its next request:
 *
 *     to whoever takes its place    all of them, and its work: one cache is lost, nothing else
 * moves to nobody                     each to the worker of the least L, the ones with the most
 * work first
 *
 * In this order large classes find room while there is some, and small ones even out what is left:
 * each is counted with its work before the next one goes. B, the work in hand, has no say, as it is
 * that of this moment, and all would go to whoever is idle now. Whether there is room when the
 * first request comes is asked then: a home that has served nothing yet has no great claim on its
 * class (homes_rule.c).
 *
 * With several load balancers a home is told to the worker with a request, so that all agree; there
 * classes without a successor move with their next requests, as from a worker that stands aside.
 * Of a successor all know by themselves.
 */
#include <stdlib.h>

#include "routing/homes/homes_internal.h"

struct parcel {
    struct homes_pair *pair;
    double work_us;
};

/* ---- to whoever takes its place ---- */

static void move_in(struct homes *h, struct homes_pair *p, struct homes_worker *to)
{
    double weight_us = fading_value(&p->weight, &h->fade);
    struct homes_class *c = p->cls;

    homes_unsettle(h, p, 0);
    struct homes_pair *next = homes_pair_get(h, c, to, p->used_us);
    if (!homes_is_home(next))
        homes_settle(h, next, weight_us / (double)h->nbalancers);
}

/* What it has done of late is what its successor will have to do. */
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

/* ---- to nobody in particular ---- */

static int most_work_first(const void *a, const void *b)
{
    double x = ((const struct parcel *)a)->work_us;
    double y = ((const struct parcel *)b)->work_us;

    return (x < y) - (x > y);
}

/* Homes of FROM, each with the work that it has there; as many as there are. */
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
        if (c->pairs[i]->worker->in_line)
            return true;
    }
    return false;
}

/* Of the line, and may have requests; or NULL. */
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

/* False: nobody in the line may have it. */
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
    ASSERT(!from->in_line);
    return homes_shared(h) ? 0 : spread(h, from, r);
}
