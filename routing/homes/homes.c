/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers join and leave, requests begin and end. homes_rule.c decides where a request goes.
 *
 * The time a worker spends on a request is unknown if several are in flight. The worker is assumed
 * to serve them in order, CONCURRENCY at once, so that one begins when another ends.
 */
#include "routing/homes/homes.h"

#include <stdlib.h>

#include "routing/homes/homes_internal.h"

static void check_settings(const struct homes_settings *s)
{
    ASSERT(s->max_classes >= 1);
    ASSERT(s->max_share > 0);
    ASSERT(s->max_share <= 1);
}

struct homes *homes_create(const struct homes_options *o)
{
    struct homes *h = xcalloc(1, sizeof(*h));

    check_settings(&o->settings);
    h->o = *o;
    h->mean_us = h->cold_us = h->mean_step = h->cold_step = 1;
    fading_clock_init(&h->fade, HOMES_TAU * HOMES_REQUEST);
    fading_clock_init(&h->moment, HOMES_TAU_DEMAND * HOMES_REQUEST);
    h->nbalancers = 1;
    list_init(&h->workers);
    list_init(&h->gone);
    classes_init(&h->classes, sizeof(struct homes_class), o->settings.max_classes,
                 homes_class_dropped, h);
    return h;
}

void homes_destroy(struct homes *h)
{
    struct homes_worker *w;

    if (h == NULL)
        return;
    classes_fini(&h->classes);
    list_splice_back(&h->gone, &h->workers);
    list_for_each_entry_safe (w, &h->gone, node)
        free(w);
    for (int i = 0; i < HOMES_KEYS; ++i)
        free(h->heaps[i].at);
    free(h);
}

void homes_set(struct homes *h, const struct homes_settings *s)
{
    check_settings(s);
    h->o.settings = *s;
    classes_set_max(&h->classes, s->max_classes);
}

/* ---- workers ---- */

struct homes_worker *homes_join(struct homes *h, unsigned concurrency, uint64_t name, void *context)
{
    struct homes_worker *w = xcalloc(1, sizeof(*w));

    ASSERT(concurrency >= 1);
    w->concurrency = concurrency;
    w->per_place = 1.0 / concurrency;
    w->name = name;
    w->context = context;
    w->number = h->njoined++;
    list_init(&w->pairs);
    list_init(&w->in_flight);
    list_push_back(&h->workers, &w->node);
    return w;
}

void homes_leave(struct homes *h, struct homes_worker *w)
{
    struct homes_pair *p;

    ASSERT(!w->gone);
    homes_set_eligible(h, w, false, h->now_us);
    list_for_each_entry_safe (p, &w->pairs, of_worker)
        homes_pair_free(h, p);
    list_remove(&w->node);
    w->gone = true;
    if (w->nin_flight == 0)
        free(w);
    else
        list_push_back(&h->gone, &w->node);
}

void *homes_worker_context(const struct homes_worker *w)
{
    return w->context;
}

/* ---- a request in flight ---- */

static void homes_start(struct homes_ticket *t, uint64_t now_us, double expected_us)
{
    *t = (struct homes_ticket){
        .serve_us = now_us, .expected_us = (uint32_t)(int64_t)expected_us, .kind = HOME_USED};
}

static void homes_serve(const struct homes *h, struct homes_worker *w, struct homes_ticket *t)
{
    t->serving = true;
    t->serve_us = h->now_us;
    ++w->nserving;
}

static void homes_enter(struct homes *h, struct homes_worker *w, struct homes_ticket *t)
{
    t->worker = w;
    list_push_back(&w->in_flight, &t->of_worker);
    ++w->nin_flight;
    w->ncold += t->cold;
    w->own_us += t->expected_us;
    if (w->nserving < w->concurrency)
        homes_serve(h, w, t);
    else if (w->waiting == NULL)
        w->waiting = t;
    homes_work_changed(h, w);
}

static struct homes_ticket *next_ticket(const struct homes_worker *w, const struct homes_ticket *t)
{
    struct list *next = t->of_worker.next;

    return next != &w->in_flight ? list_entry(next, struct homes_ticket, of_worker) : NULL;
}

static void ticket_leave(struct homes *h, struct homes_ticket *t)
{
    struct homes_worker *w = t->worker;

    if (t->pair != NULL) {
        t->pair->own_us -= t->expected_us;
        --t->pair->in_flight_n;
        list_remove(&t->of_pair);
    }
    if (w->waiting == t)
        w->waiting = next_ticket(w, t);
    w->nserving -= t->serving;
    if (w->waiting != NULL && w->nserving < w->concurrency) {
        struct homes_ticket *next = w->waiting;

        w->waiting = next_ticket(w, next);
        homes_serve(h, w, next);
    }
    list_remove(&t->of_worker);
    --w->nin_flight;
    w->ncold -= t->cold;
    w->own_us -= t->expected_us;
    t->worker = NULL;
    if (w->gone && w->nin_flight == 0) {
        list_remove(&w->node);
        free(w);
    } else {
        homes_work_changed(h, w);
    }
}

/* ---- homes are added and removed, as planned ---- */

/* Removes P as a home, by our decision. */
static noinline_ void homes_give_up(struct homes *h, struct homes_pair *p, double work_us)
{
    homes_remove_home(h, p, work_us);
    p->left_us = h->now_us;
}

/* Removes homes in excess: at workers with the most homes; if shared the oldest, as all do. */
static void drop_above(struct homes *h, struct homes_class *c, const struct homes_worker *keep,
                       const struct homes_plan *plan)
{
    if (c->nhomes <= plan->choice.homes_max)
        return;

    double part_us = plan->work / c->nhomes;

    while (c->nhomes > plan->choice.homes_max) {
        struct homes_pair *most = homes_shared(h) ? homes_oldest(c, keep) : NULL;

        for (uint32_t i = 0; i < c->nhomes && !homes_shared(h); ++i) {
            struct homes_pair *p = c->pairs[i];

            if (p->worker != keep && (most == NULL || p->worker->nhomes > most->worker->nhomes))
                most = p;
        }
        if (most == NULL)
            return;
        homes_give_up(h, most, part_us);
    }
}

/* A class with too many homes gives up the one at the most loaded worker. */
static void shed_home(struct homes *h, struct homes_class *c, const struct homes_worker *keep,
                      const struct homes_plan *plan)
{
    struct homes_pair *most = NULL;

    /* Other load balancers would not be notified, and would continue to use the home. */
    if (homes_shared(h) || c->nhomes < 2 || plan->worth >= HOMES_SHED_SHARE * (c->nhomes - 1))
        return;
    for (uint32_t i = 0; i < c->nhomes; ++i) {
        struct homes_pair *p = c->pairs[i];

        if (p->worker != keep &&
            (most == NULL || homes_load(h, p->worker) > homes_load(h, most->worker)))
            most = p;
    }
    if (most != NULL)
        homes_remove_home(h, most, plan->work / c->nhomes);
}

static void apply_plan(struct homes *h, struct homes_class *c, const struct homes_plan *plan)
{
    enum homes_reason reason = plan->choice.reason;

    for (size_t i = 0; i < plan->nwarm; ++i)
        homes_pair_get(h, c, plan->warm[i], h->now_us)->touched = true;
    /* The plan counts eligible homes only; if there are others, they are given up now. */
    uint32_t n = c->nhomes;
    if (reason != HOMES_OVERFLOW && plan->choice.homes != n) {
        for (uint32_t i = n; i-- != 0;) {
            if (!c->pairs[i]->worker->eligible)
                homes_give_up(h, c->pairs[i], plan->work / n);
        }
    }
    n = c->nhomes;
    if (reason == HOMES_REASSIGN || reason == HOMES_REBALANCE) {
        /* The work at the old home moves as well; that of other homes does not change. */
        double work_us = plan->work / n;

        homes_give_up(h, plan->from, work_us);
        homes_add_home(h, homes_pair_get(h, c, plan->worker, h->now_us), work_us);
    } else if (reason == HOMES_NEW || reason == HOMES_WARM || reason == HOMES_REPLICATE) {
        /* The other homes share their work with it. */
        for (uint32_t i = 0; i < n; ++i)
            homes_weigh(h, c->pairs[i], plan->work / (n + 1) - plan->work / n);
        homes_add_home(h, homes_pair_get(h, c, plan->worker, h->now_us), plan->work / (n + 1));
    }
}

void homes_begin(struct homes *h, const struct homes_request *r, const struct homes_plan *plan,
                 struct homes_worker *w, struct homes_ticket *t)
{
    static const enum home_kind kinds[HOMES_REASONS] = {
        [HOMES_NEW] = HOME_NEW,
        [HOMES_WARM] = HOME_NEW,
        [HOMES_REPLICATE] = HOME_REPLICATE,
        [HOMES_REASSIGN] = HOME_REASSIGN,
        [HOMES_REBALANCE] = HOME_REASSIGN,
    };

    ASSERT(w->eligible);
    struct homes_class *c = plan->cls;
    classes_request(&h->classes, c != NULL ? &c->base : NULL);
    if (c == NULL)
        c = homes_class_of(classes_add(&h->classes, r->cls));
    c->work = fading_of(plan->work, &h->fade);
    c->demand = fading_of(plan->demand, &h->moment);
    c->parallel = plan->parallel;
    c->asked = fading_of(plan->asked, &h->fade);
    h->work = fading_of(plan->all_work, &h->fade);
    h->asked = fading_of(plan->all_asked, &h->fade);
    h->usual_share += HOMES_STEP * (plan->choice.share - h->usual_share);
    if (w == plan->worker)
        apply_plan(h, c, plan);
    struct homes_pair *p =
        w == plan->worker && plan->home != NULL ? plan->home : homes_pair_get(h, c, w, h->now_us);
    p->used_us = h->now_us;
    homes_start(t, h->now_us, plan->choice.expected_us);
    t->passing = !homes_is_home(p);
    /* The first request of a class that was handed over to W is expected to cost a cold request. */
    if (homes_is_home(p) && !p->touched && plan->choice.reason == HOMES_HOME &&
        h->cold_us > t->expected_us)
        t->expected_us = (uint32_t)h->cold_us;
    if (w == plan->worker && homes_is_home(p)) {
        t->kind = kinds[plan->choice.reason];
        t->from = t->kind == HOME_REASSIGN ? plan->choice.from : NULL;
        if (t->kind == HOME_USED && homes_shared(h) && homes_owns(h, r->cls)) {
            t->from = homes_stray(h, p);
            t->kind = t->from != NULL ? HOME_REASSIGN : HOME_USED;
        }
        if (t->kind != HOME_USED)
            homes_made(h, p, t->kind, t->from);
    }
    t->pair = p;
    t->cold = !p->touched;
    p->touched = true;
    p->own_us += t->expected_us;
    ++p->in_flight_n;
    if (w->most == NULL || p->own_us > w->most->own_us)
        w->most = p;
    list_push_back(&p->in_flight, &t->of_pair);
    homes_enter(h, w, t);
    drop_above(h, c, w, plan);
    shed_home(h, c, w, plan);
    homes_age(h);
}

void homes_adopt(struct homes *h, struct homes_worker *w, uint64_t started_us,
                 struct homes_ticket *t)
{
    homes_start(t, started_us, h->mean_us);
    homes_enter(h, w, t);
}

/* ---- what is learned from a request ---- */

/* The first observations count equally; STEP was the weight of the last one. */
static double next_step(double step, double least)
{
    return greater_of(step / (1 + step), least);
}

static void learn_cold(struct homes *h, double service)
{
    double step = h->cold_step * h->cold_us;

    if (h->cold_step == 1)
        h->cold_us = greater_of(service, 1);
    else
        h->cold_us =
            greater_of(h->cold_us + step * (service > h->cold_us ? HOMES_COLD_QUANTILE
                                                                 : HOMES_COLD_QUANTILE - 1),
                       1);
    h->cold_step = next_step(h->cold_step, HOMES_STEP);
}

static void learn_service(struct homes *h, struct homes_ticket *t, const struct homes_end *e)
{
    struct homes_worker *w = t->worker;
    uint64_t took_us = h->now_us - t->serve_us;
    /* The measured time may include the wait at the worker for earlier requests. */
    double service =
        real_of(e->service_us != 0 && e->service_us < took_us ? e->service_us : took_us);

    if (e->failed && service < t->expected_us)
        service = t->expected_us;
    /* A worker that hung has not worked meanwhile, and its class is not as slow. A class that has
     * become that slow is known after a few requests. */
    double most = HOMES_OUTLIER * greater_of(t->expected_us, h->cold_us);
    if (homes_knows(h) && service > most)
        service = most;
    /* A fast error is not a measurement. */
    if (!e->failed) {
        w->alive_us = h->now_us;
        /* Earlier requests still in flight are slow at a worker that makes progress. */
        for (struct list *it = t->of_worker.prev; it != &w->in_flight; it = it->prev) {
            struct homes_ticket *before = list_entry(it, struct homes_ticket, of_worker);

            if (before->overtaken)
                break;
            before->overtaken = true;
        }
        if (t->cold)
            learn_cold(h, service);
    }
    if (t->pair != NULL) {
        struct homes_class *c = t->pair->cls;
        double before = c->cost_us > 0 ? (double)c->cost_us : service;

        c->cost_us = (float)(before + HOMES_COST_STEP * (service - before));
    }
    h->mean_us += h->mean_step * (service - h->mean_us);
    h->mean_step = next_step(h->mean_step, HOMES_STEP);
    /* The time until a worker failed is not work. */
    if (!homes_shared(h))
        homes_load_add(h, w, e->failed ? t->expected_us : service, 0);
}

void homes_end(struct homes *h, struct homes_ticket *t, const struct homes_end *e)
{
    struct homes_worker *w = t->worker;

    ASSERT(w != NULL);
    homes_tick(h, e->now_us);
    if (!e->unserved) {
        w->stalled_us = 0;
        learn_service(h, t, e);
    }
    double others = real_of(e->others) * h->mean_us * w->per_place;
    w->foreign_us += HOMES_COST_STEP * (others - w->foreign_us);
    ticket_leave(h, t);
}

/*
 * ---- a worker is about to leave ----
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

/* Returns the number of homes handed over. The recent work of FROM is the expected work of TO. */
static size_t pass_homes(struct homes *h, struct homes_worker *from, struct homes_worker *to)
{
    struct homes_pair *p;
    size_t n = 0;

    ASSERT(!to->gone);
    list_for_each_entry_safe (p, &from->pairs, of_worker) {
        if (!homes_is_home(p))
            continue;
        double weight_us = fading_value(&p->weight, &h->fade);
        homes_remove_home(h, p, 0);
        struct homes_pair *next = homes_pair_get(h, p->cls, to, p->used_us);
        if (!homes_is_home(next))
            homes_add_home(h, next, weight_us / (double)h->nbalancers);
        ++n;
    }
    if (!homes_shared(h)) {
        double work_us = from->work / h->fade.weight;

        homes_load_add(h, from, -work_us, 0);
        homes_load_add(h, to, work_us, 0);
    }
    return n;
}

/* A home of the worker that leaves, with its work there. */
struct parcel {
    double work_us;
    struct homes_pair *pair;
};

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
        if (homes_rejected(r, w))
            continue;
        best = w;
        if (i == 0)
            break; /* the least loaded of all */
    }
    return best;
}

/* Gives each class that has no other eligible home another one. */
static size_t spread_homes(struct homes *h, const struct homes_worker *from,
                           const struct homes_request *r)
{
    struct parcel *all = xcalloc(from->nhomes + 1, sizeof(*all));
    struct homes_pair *p;
    size_t n = 0;
    size_t handed = 0;

    list_for_each_entry (p, &from->pairs, of_worker) {
        const struct homes_class *c = p->cls;

        if (homes_is_home(p))
            all[n++] = (struct parcel){fading_value(&c->work, &h->fade) / c->nhomes, p};
    }
    ASSERT(n == from->nhomes);
    qsort(all, n, sizeof(*all), descending_reals);
    for (; handed < n && handed < HOMES_HAND_OVER_MAX; ++handed) {
        p = all[handed].pair;
        struct homes_class *c = p->cls;
        uint32_t i = 0;

        while (i < c->nhomes && !c->pairs[i]->worker->eligible)
            ++i;
        if (i == c->nhomes) {
            struct homes_worker *x = least_loaded(h, r);

            if (x == NULL)
                break;
            homes_add_home(h, homes_pair_get(h, c, x, p->used_us), all[handed].work_us);
        }
        homes_remove_home(h, p, all[handed].work_us);
    }
    free(all);
    return handed;
}

size_t homes_hand_over(struct homes *h, struct homes_worker *from, struct homes_worker *to,
                       const struct homes_request *r)
{
    ASSERT(!from->gone);
    ASSERT(from != to);
    homes_tick(h, r->now_us);
    if (to != NULL)
        return pass_homes(h, from, to);
    ASSERT(!from->eligible);
    return homes_shared(h) ? 0 : spread_homes(h, from, r);
}
