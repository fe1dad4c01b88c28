/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that decays, and the two orders of workers: by B, the work in flight, and by L, the load.
 *
 * L = LOAD_WORK * work / mean work + (1 - LOAD_WORK) * homes / mean homes. The means change with
 * every request, which would change all the keys; so the heap is by
 *
 *     homes + exchange * work      exchange = what one unit of work is worth in homes
 *
 * which is the same order, and the exchange rate is renewed only when it has moved by
 * HOMES_EXCHANGE_SLACK (homes_order, in the header).
 */
#include <math.h>
#include <stdlib.h>

#include "routing/homes/homes_internal.h"

double homes_work_of(const struct homes_worker *w)
{
    return real_of(w->own_us) * w->per_place + w->foreign_us + w->stalled_us;
}

void homes_work_changed(struct homes *h, struct homes_worker *w)
{
    if (w->eligible)
        homes_heap_set(&h->heaps[HOMES_BY_WORK], w, HOMES_BY_WORK, homes_work_of(w));
}

static double load_key(const struct homes *h, const struct homes_worker *w)
{
    return real_of(w->nhomes) + h->exchange * homes_work_per_place(w);
}

void homes_load_add(struct homes *h, struct homes_worker *w, double work_us, int homes)
{
    double before = w->work;

    w->work += work_us * h->fade.weight;
    if (w->work < 0)
        w->work = 0;
    w->nhomes += homes;
    if (!w->eligible)
        return;
    h->eligible_work += w->work - before;
    h->eligible_homes += homes;
    homes_heap_set(&h->heaps[HOMES_BY_LOAD], w, HOMES_BY_LOAD, load_key(h, w));
}

double homes_load(const struct homes *h, const struct homes_worker *w)
{
    struct homes_worth worth = homes_worth(h);

    return homes_load_by(&worth, w);
}

void homes_eligible_add(struct homes *h, struct homes_worker *w)
{
    w->eligible = true;
    h->eligible_work += w->work;
    h->eligible_homes += w->nhomes;
    h->eligible_places += w->concurrency;
    w->key[HOMES_BY_WORK] = homes_work_of(w);
    w->key[HOMES_BY_LOAD] = load_key(h, w);
    homes_heap_add(&h->heaps[HOMES_BY_WORK], w, HOMES_BY_WORK);
    homes_heap_add(&h->heaps[HOMES_BY_LOAD], w, HOMES_BY_LOAD);
}

void homes_eligible_remove(struct homes *h, struct homes_worker *w)
{
    w->eligible = false;
    h->eligible_work -= w->work;
    h->eligible_homes -= w->nhomes;
    h->eligible_places -= w->concurrency;
    homes_heap_remove(&h->heaps[HOMES_BY_WORK], w, HOMES_BY_WORK);
    homes_heap_remove(&h->heaps[HOMES_BY_LOAD], w, HOMES_BY_LOAD);
    if (homes_eligible(h) == 0)
        h->eligible_work = 0;
}

/* The median of the work in flight, of a sample of every STEPth worker in the order of the heap,
 * from the least to the most. For two workers the lesser value: no queue is longer than four times
 * itself. */
double homes_median(const struct homes *h)
{
    const struct homes_heap *heap = &h->heaps[HOMES_BY_WORK];
    double seen[HOMES_SCAN_MAX];
    size_t step = (heap->n + HOMES_SCAN_MAX - 1) / HOMES_SCAN_MAX;
    size_t n = 0;

    for (size_t i = 0; i < heap->n; i += step) {
        double v = heap->at[i]->key[HOMES_BY_WORK];
        size_t at = n++;

        for (; at != 0 && seen[at - 1] > v; --at)
            seen[at] = seen[at - 1];
        seen[at] = v;
    }
    if (n == 0)
        return 0;
    return seen[n > 2 ? n / 2 : 0];
}

/* ---- time ---- */

void homes_exchange_at(struct homes *h, double rate)
{
    struct homes_heap *heap = &h->heaps[HOMES_BY_LOAD];

    h->exchange = rate;
    for (size_t i = 0; i < heap->n; ++i)
        heap->at[i]->key[HOMES_BY_LOAD] = load_key(h, heap->at[i]);
    homes_heap_build(heap, HOMES_BY_LOAD);
}

void homes_bring_over(struct homes *h, uint64_t before_us)
{
    double by = fading_bring(1, before_us, &h->fade);
    struct list *it;

    list_for_each (it, &h->workers)
        list_entry(it, struct homes_worker, node)->work *= by;
    h->eligible_work *= by;
    h->exchange = -1; /* the keys are of the old epoch */
    (void)homes_order(h);
}

/*
 * How long W has shown no sign of life beyond what its request was expected to take. One that
 * others have overtaken is a slow one at a worker that lives; so is, after a while, one that leaves
 * room beside it.
 */
static double stall_of(const struct homes *h, struct homes_worker *w)
{
    struct list *it;

    list_for_each (it, &w->in_flight) {
        struct homes_ticket *t = list_entry(it, struct homes_ticket, of_worker);

        if (t->overtaken)
            continue;
        if (!t->serving)
            break;
        uint64_t since_us = w->alive_us > t->serve_us ? w->alive_us : t->serve_us;
        double expected = t->cold && h->cold_us > t->expected_us ? h->cold_us : t->expected_us;
        double over = (double)(h->now_us - since_us) - expected;
        if (over <= HOMES_STALL_MAX_US || w->nin_flight >= w->concurrency)
            return over > 0 ? over : 0;
        t->overtaken = true;
    }
    return 0;
}

void homes_look(struct homes *h)
{
    struct list *it;

    /* Less often if there are many workers, so that the cost per time is constant. */
    h->look_us = h->now_us + HOMES_LOOK_US + homes_eligible(h) * HOMES_LOOK_WORKER_US;
    /* Computed again, so that rounding errors do not grow with the scale. */
    h->eligible_work = 0;
    list_for_each (it, &h->workers) {
        struct homes_worker *w = list_entry(it, struct homes_worker, node);
        double stalled = w->nin_flight != 0 ? stall_of(h, w) : 0;

        if (w->eligible)
            h->eligible_work += w->work;
        if (stalled == 0 && w->stalled_us == 0)
            continue;
        w->stalled_us = stalled;
        homes_work_changed(h, w);
    }
}

void homes_let_fade(struct homes *h)
{
    h->fade_left_us += (uint64_t)(HOMES_TAU_US / HOMES_TAU_REQUESTS);
    if (h->fade_left_us > (uint64_t)HOMES_FADE_US)
        h->fade_left_us = (uint64_t)HOMES_FADE_US;
}
