/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that decays, the two orders of workers (by B, the work in flight, and by L, the load), and
 * the pairs of classes and workers.
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

/*
 * ---- the heaps ----
 *
 * A binary heap of workers that store their positions, so that a key may change at any time. Its
 * first levels contain low keys, although not sorted: a good sample of candidates.
 */

static void index_put(struct homes_heap *h, size_t at, struct homes_worker *w, enum homes_key key)
{
    h->at[at] = w;
    w->pos[key] = at;
}

static void sift_up(struct homes_heap *h, struct homes_worker *w, enum homes_key key)
{
    size_t at = w->pos[key];

    for (; at != 0 && homes_before(w, h->at[(at - 1) / 2], key); at = (at - 1) / 2)
        index_put(h, at, h->at[(at - 1) / 2], key);
    index_put(h, at, w, key);
}

static void sift_down(struct homes_heap *h, struct homes_worker *w, enum homes_key key)
{
    size_t at = w->pos[key];

    for (size_t child; (child = 2 * at + 1) < h->n; at = child) {
        if (child + 1 < h->n && homes_before(h->at[child + 1], h->at[child], key))
            ++child;
        if (!homes_before(h->at[child], w, key))
            break;
        index_put(h, at, h->at[child], key);
    }
    index_put(h, at, w, key);
}

static void heap_add(struct homes_heap *h, struct homes_worker *w, enum homes_key key)
{
    h->at = xgrow(h->at, h->n + 1, &h->room, sizeof(struct homes_worker *));
    index_put(h, h->n++, w, key);
    sift_up(h, w, key);
}

static void heap_remove(struct homes_heap *h, struct homes_worker *w, enum homes_key key)
{
    ASSERT(h->at[w->pos[key]] == w);
    struct homes_worker *last = h->at[--h->n];
    if (last == w)
        return;
    index_put(h, w->pos[key], last, key);
    sift_up(h, last, key);
    sift_down(h, last, key);
}

/* W's key has become VALUE. */
static void heap_set(struct homes_heap *h, struct homes_worker *w, enum homes_key key, double value)
{
    double before = w->key[key];

    w->key[key] = value;
    if (value < before)
        sift_up(h, w, key);
    else if (value > before)
        sift_down(h, w, key);
}

/* ---- the two orders ---- */

double homes_work_of(const struct homes_worker *w)
{
    return real_of(w->own_us) * w->per_place + w->foreign_us + w->stalled_us;
}

void homes_work_changed(struct homes *h, struct homes_worker *w)
{
    if (w->eligible)
        heap_set(&h->heaps[HOMES_BY_WORK], w, HOMES_BY_WORK, homes_work_of(w));
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
    heap_set(&h->heaps[HOMES_BY_LOAD], w, HOMES_BY_LOAD, load_key(h, w));
}

double homes_load(const struct homes *h, const struct homes_worker *w)
{
    struct homes_worth worth = homes_worth(h);

    return homes_load_by(&worth, w);
}

void homes_set_eligible(struct homes *h, struct homes_worker *w, bool eligible, uint64_t now_us)
{
    ASSERT(!w->gone);
    homes_tick(h, now_us);
    if (w->eligible == eligible)
        return;
    w->eligible = eligible;
    if (eligible) {
        h->eligible_work += w->work;
        h->eligible_homes += w->nhomes;
        h->eligible_places += w->concurrency;
        w->key[HOMES_BY_WORK] = homes_work_of(w);
        w->key[HOMES_BY_LOAD] = load_key(h, w);
        heap_add(&h->heaps[HOMES_BY_WORK], w, HOMES_BY_WORK);
        heap_add(&h->heaps[HOMES_BY_LOAD], w, HOMES_BY_LOAD);
        homes_set_pace(h);
        return;
    }
    h->eligible_work -= w->work;
    h->eligible_homes -= w->nhomes;
    h->eligible_places -= w->concurrency;
    heap_remove(&h->heaps[HOMES_BY_WORK], w, HOMES_BY_WORK);
    heap_remove(&h->heaps[HOMES_BY_LOAD], w, HOMES_BY_LOAD);
    homes_set_pace(h);
    if (homes_eligible(h) == 0)
        h->eligible_work = 0;
}

/* The median of the work in flight, of a sample of every STEPth worker in the order of the heap.
 * For two workers the lesser value: patience by the greater one would never be exceeded. */
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
    for (size_t i = heap->n / 2; i-- != 0;)
        sift_down(heap, heap->at[i], HOMES_BY_LOAD);
}

/* Converts workers' work from the epoch that began at BEFORE_US. */
static noinline_ void convert_epoch(struct homes *h, uint64_t before_us)
{
    double by = fading_convert(1, before_us, &h->fade);
    struct homes_worker *w;

    list_for_each_entry (w, &h->workers, node)
        w->work *= by;
    h->eligible_work *= by;
    h->exchange = -1; /* the keys are of the old epoch */
    (void)homes_order(h);
}

void homes_set_pace(struct homes *h)
{
    size_t n = homes_eligible(h);

    h->step = HOMES_REQUEST * h->nbalancers / (n != 0 ? n : 1);
    h->growth = exp(real_of(h->step) * h->moment.per_us);
}

/* The weight of the momentary demand grows by the same factor with each request; the product is
 * replaced by its exact value before its error matters. */
static void advance_moment(struct homes *h)
{
    struct fading_clock *c = &h->moment;
    uint64_t now = c->now_us + h->step;

    if (real_of(now - c->anchor_us) > c->tau_us) {
        (void)fading_run_far(c, now);
        return;
    }
    c->now_us = now;
    c->weight *= h->growth;
}

void homes_age(struct homes *h)
{
    uint64_t epoch_us = h->fade.epoch_us;
    double us = h->begun_us != 0 ? real_of(h->now_us - h->begun_us) : 0;

    /* A pause is not the pace of requests. */
    fading_add(&h->passed, us < HOME_TAU_US ? us : HOME_TAU_US, &h->moment);
    h->begun_us = h->now_us;
    advance_moment(h);
    if (fading_advance(&h->fade, h->fade.now_us + h->step))
        convert_epoch(h, epoch_us);
}

/* Returns how long W has made no progress beyond the expected time of its request. An overtaken
 * request is slow by itself; so is, after ten times what it counts at most, one at a worker
 * with free places. */
static double stall_of(const struct homes *h, struct homes_worker *w)
{
    struct homes_ticket *t;

    list_for_each_entry (t, &w->in_flight, of_worker) {
        if (t->overtaken)
            continue;
        if (!t->serving)
            break;
        uint64_t since_us = w->alive_us > t->serve_us ? w->alive_us : t->serve_us;
        double expected = t->cold && h->cold_us > t->expected_us ? h->cold_us : t->expected_us;
        double over = (double)(h->now_us - since_us) - expected;
        if (over <= HOMES_OUTLIER * HOMES_OUTLIER * expected || w->nin_flight >= w->concurrency)
            return over > 0 ? over : 0;
        t->overtaken = true;
    }
    return 0;
}

void homes_check_progress(struct homes *h)
{
    struct homes_worker *w;

    /* Less often if there are many workers, so that the cost per time is bounded. */
    h->look_us = h->now_us + (uint64_t)h->mean_us / 2 + homes_eligible(h) * HOMES_LOOK_WORKER_US;
    /* Computed again, so that rounding errors do not grow with the scale. */
    h->eligible_work = 0;
    list_for_each_entry (w, &h->workers, node) {
        double stalled = w->nin_flight != 0 && homes_knows(h) ? stall_of(h, w) : 0;

        if (w->eligible)
            h->eligible_work += w->work;
        if (stalled == 0 && w->stalled_us == 0)
            continue;
        w->stalled_us = stalled;
        homes_work_changed(h, w);
    }
}

/*
 * ---- pairs of a class and a worker ----
 *
 * Those with requests in flight stay, whatever their number; requests in flight are bounded
 * elsewhere.
 */

static void swap_pairs(struct homes_class *c, uint32_t a, uint32_t b)
{
    struct homes_pair *p = c->pairs[a];

    c->pairs[a] = c->pairs[b];
    c->pairs[b] = p;
    c->pairs[a]->at = a;
    c->pairs[b]->at = b;
}

void homes_add_home(struct homes *h, struct homes_pair *p, double work_us)
{
    ASSERT(!homes_is_home(p));
    swap_pairs(p->cls, p->at, p->cls->nhomes++);
    homes_load_add(h, p->worker, 0, 1);
    homes_weigh(h, p, work_us);
}

void homes_weigh(struct homes *h, struct homes_pair *p, double work_us)
{
    if (homes_shared(h)) {
        /* The other load balancers are assumed to have as much of the class. */
        double before = fading_value(&p->weight, &h->fade);

        fading_add(&p->weight, work_us * (double)h->nbalancers, &h->fade);
        work_us = fading_value(&p->weight, &h->fade) - before;
    }
    homes_load_add(h, p->worker, work_us, 0);
}

void homes_remove_home(struct homes *h, struct homes_pair *p, double work_us)
{
    ASSERT(homes_is_home(p));
    swap_pairs(p->cls, p->at, --p->cls->nhomes);
    if (homes_shared(h))
        work_us = fading_value(&p->weight, &h->fade);
    p->weight = (struct fading){0};
    homes_load_add(h, p->worker, -work_us, -1);
}

void homes_pair_free(struct homes *h, struct homes_pair *p)
{
    struct homes_class *c = p->cls;
    struct list *node;

    if (homes_is_home(p))
        homes_remove_home(h, p, 0);
    while ((node = list_pop_front(&p->in_flight)) != NULL)
        list_entry(node, struct homes_ticket, of_pair)->pair = NULL;
    list_remove(&p->of_worker);
    if (p->worker->most == p)
        p->worker->most = NULL;
    swap_pairs(c, p->at, --c->npairs);
    free(p);
    if (c->npairs == 0) {
        free(c->pairs);
        c->pairs = NULL;
        c->room = 0;
    }
}

void homes_class_dropped(void *owner, struct class_entry *e)
{
    struct homes_class *c = homes_class_of(e);

    while (c->npairs != 0)
        homes_pair_free(owner, c->pairs[c->npairs - 1]);
}

struct homes_pair *homes_pair_get(struct homes *h, struct homes_class *c, struct homes_worker *w,
                                  uint64_t now_us)
{
    struct homes_pair *oldest = NULL; /* of the past */
    struct homes_pair *p;

    for (uint32_t i = 0; i < c->npairs; ++i) {
        p = c->pairs[i];
        if (p->worker == w)
            return p;
        if (i >= c->nhomes && p->in_flight_n == 0 &&
            (oldest == NULL || p->used_us < oldest->used_us))
            oldest = p;
    }
    if (c->npairs - c->nhomes >= HOMES_PAST_MAX && oldest != NULL)
        homes_pair_free(h, oldest);
    if (c->npairs == c->room) {
        c->room = c->room != 0 ? c->room * 2 : 1;
        c->pairs = xrealloc(c->pairs, c->room * sizeof(struct homes_pair *));
    }
    p = xmalloc(sizeof(*p));
    *p = (struct homes_pair){.cls = c, .worker = w, .used_us = now_us, .at = c->npairs};
    list_init(&p->in_flight);
    list_push_back(&w->pairs, &p->of_worker);
    c->pairs[c->npairs++] = p;
    return p;
}
