/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that decays, and the two orders of workers: by B, the work in hand, and by L, the load.
 *
 * L = LOAD_WORK * work / mean work + (1 - LOAD_WORK) * homes / mean homes. The means change with
 * every request, which would change all the keys; so the heap is by
 *
 *     homes + exchange * work      exchange = what one unit of work is worth in homes
 *
 * which is the same order, and the exchange rate is renewed only when it has moved by
 * EXCHANGE_SLACK.
 */
#include <math.h>
#include <stdlib.h>

#include "lb/homes_internal.h"

/* The order by load may be wrong by this part of the work. */
#define EXCHANGE_SLACK 0.01
/* The scale of work begins anew after so many times its decay. */
#define EPOCH_TAUS 50

double fading_part(const struct fading *f, uint64_t now_us, double tau_us)
{
    return exp(-(double)(now_us - f->at_us) / tau_us);
}

double fading_value(const struct fading *f, uint64_t now_us, double tau_us)
{
    return f->sum * fading_part(f, now_us, tau_us);
}

void fading_add(struct fading *f, double value, uint64_t now_us, double tau_us)
{
    double sum = fading_value(f, now_us, tau_us) + value;

    *f = (struct fading){.sum = sum > 0 ? sum : 0, .at_us = now_us};
}

double homes_work_of(const struct homes_worker *w)
{
    return (double)w->own_us / w->concurrency + w->foreign_us + w->stalled_us;
}

void homes_work_changed(struct homes *h, struct homes_worker *w)
{
    if (w->in_line)
        homes_heap_set(&h->heaps[HOMES_BY_WORK], w, HOMES_BY_WORK, homes_work_of(w));
}

/* A worker that serves several at once can do as much more. */
static double work_per_place(const struct homes_worker *w)
{
    return w->work / w->concurrency;
}

static double load_key(const struct homes *h, const struct homes_worker *w)
{
    return (double)w->nhomes + h->exchange * work_per_place(w);
}

void homes_load_add(struct homes *h, struct homes_worker *w, double work_us, int homes)
{
    double before = w->work;

    w->work += work_us * h->scale;
    if (w->work < 0)
        w->work = 0;
    w->nhomes += homes;
    if (!w->in_line)
        return;
    h->line_work += w->work - before;
    h->line_homes += homes;
    homes_heap_set(&h->heaps[HOMES_BY_LOAD], w, HOMES_BY_LOAD, load_key(h, w));
}

double homes_load_of_home(const struct homes *h)
{
    return (1 - HOMES_LOAD_WORK) * (double)homes_line(h) /
           (double)(h->line_homes != 0 ? h->line_homes : 1);
}

double homes_load(const struct homes *h, const struct homes_worker *w)
{
    double work = h->line_work > 0 ? work_per_place(w) * (double)h->line_places / h->line_work : 0;

    return HOMES_LOAD_WORK * work + homes_load_of_home(h) * (double)w->nhomes;
}

void homes_line_add(struct homes *h, struct homes_worker *w)
{
    w->in_line = true;
    h->line_work += w->work;
    h->line_homes += w->nhomes;
    h->line_places += w->concurrency;
    w->key[HOMES_BY_WORK] = homes_work_of(w);
    w->key[HOMES_BY_LOAD] = load_key(h, w);
    homes_heap_add(&h->heaps[HOMES_BY_WORK], w, HOMES_BY_WORK);
    homes_heap_add(&h->heaps[HOMES_BY_LOAD], w, HOMES_BY_LOAD);
}

void homes_line_remove(struct homes *h, struct homes_worker *w)
{
    w->in_line = false;
    h->line_work -= w->work;
    h->line_homes -= w->nhomes;
    h->line_places -= w->concurrency;
    homes_heap_remove(&h->heaps[HOMES_BY_WORK], w, HOMES_BY_WORK);
    homes_heap_remove(&h->heaps[HOMES_BY_LOAD], w, HOMES_BY_LOAD);
    if (homes_line(h) == 0)
        h->line_work = 0;
}

/* Of the work in hand; of a sample of every STEPth in the order of the heap, from the least to the
 * most. Of two workers the lesser: no queue is longer than four times itself. */
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

void homes_order(struct homes *h)
{
    struct homes_heap *heap = &h->heaps[HOMES_BY_LOAD];
    double n = (double)(heap->n != 0 ? heap->n : 1);
    double homes = (double)(h->line_homes != 0 ? h->line_homes : 1);
    double places = (double)h->line_places;
    double worth = h->line_work > 0 ? places / h->line_work : 0;
    double rate = HOMES_LOAD_WORK / (1 - HOMES_LOAD_WORK) * homes / n * worth;

    if (fabs(rate - h->exchange) <= EXCHANGE_SLACK * h->exchange)
        return;
    h->exchange = rate;
    for (size_t i = 0; i < heap->n; ++i)
        heap->at[i]->key[HOMES_BY_LOAD] = load_key(h, heap->at[i]);
    homes_heap_build(heap, HOMES_BY_LOAD);
}

static void begin_epoch(struct homes *h)
{
    double by = exp(-(double)(h->fade_us - h->epoch_us) / HOMES_TAU_US);
    struct list *it;

    list_for_each (it, &h->workers)
        list_entry(it, struct homes_worker, node)->work *= by;
    h->line_work *= by;
    h->epoch_us = h->fade_us;
    h->scale = 1;
    h->exchange = -1; /* the keys are of the old scale */
    homes_order(h);
}

/*
 * How long W has shown no sign of life beyond what its request was expected to take. One that
 * others have overtaken is a slow one at a worker that lives; so is, after a while, one that leaves
 * room beside it.
 */
static double stall_of(const struct homes *h, struct homes_worker *w)
{
    struct list *it;

    list_for_each (it, &w->in_hand) {
        struct homes_ticket *t = list_entry(it, struct homes_ticket, of_worker);

        if (t->overtaken)
            continue;
        if (!t->serving)
            break;
        uint64_t since_us = w->alive_us > t->serve_us ? w->alive_us : t->serve_us;
        double expected = t->cold && h->cold_us > t->expected_us ? h->cold_us : t->expected_us;
        double over = (double)(h->now_us - since_us) - expected;
        if (over <= HOMES_STALL_MAX_US || w->nin_hand >= w->concurrency)
            return over > 0 ? over : 0;
        t->overtaken = true;
    }
    return 0;
}

static void look(struct homes *h)
{
    struct list *it;

    /* Summed up anew, lest what rounding leaves over grows with the scale. */
    h->line_work = 0;
    list_for_each (it, &h->workers) {
        struct homes_worker *w = list_entry(it, struct homes_worker, node);
        double stalled = w->nin_hand != 0 ? stall_of(h, w) : 0;

        if (w->in_line)
            h->line_work += w->work;
        if (stalled == 0 && w->stalled_us == 0)
            continue;
        w->stalled_us = stalled;
        homes_work_changed(h, w);
    }
}

/* Time has passed: as far as there are requests, work decays with it. */
static void fade(struct homes *h, uint64_t us)
{
    if (us > h->fade_left_us)
        us = h->fade_left_us;
    h->fade_left_us -= us;
    h->fade_us += us;
    if ((double)(h->fade_us - h->epoch_us) > EPOCH_TAUS * HOMES_TAU_US)
        begin_epoch(h);
    else
        h->scale = exp((double)(h->fade_us - h->epoch_us) / HOMES_TAU_US);
}

void homes_let_fade(struct homes *h)
{
    h->fade_left_us += (uint64_t)(HOMES_TAU_US / HOMES_TAU_REQUESTS);
    if (h->fade_left_us > (uint64_t)HOMES_FADE_US)
        h->fade_left_us = (uint64_t)HOMES_FADE_US;
}

void homes_tick(struct homes *h, uint64_t now_us)
{
    if (now_us <= h->now_us)
        return;
    /* The first time there is nothing that could have faded. */
    fade(h, h->now_us != 0 ? now_us - h->now_us : 0);
    h->now_us = now_us;
    if (now_us >= h->look_us) {
        /* With many workers less often: it costs the same in the end. */
        h->look_us = now_us + HOMES_LOOK_US + homes_line(h) * HOMES_LOOK_WORKER_US;
        look(h);
    }
}
