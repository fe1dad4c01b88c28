/* SPDX-License-Identifier: Apache-2.0
 *
 * Views of the homes, and the check of all invariants.
 */
#include <math.h>

#include "routing/homes/homes_internal.h"

void homes_view(struct homes *h, uint64_t now_us, struct homes_view *out)
{
    const struct homes_worker *least = homes_top(h, HOMES_BY_WORK);

    homes_tick(h, now_us);
    *out = (struct homes_view){
        .balancers = h->nbalancers,
        .workers = homes_eligible(h),
        .classes = h->classes.n,
        .homes = h->eligible_homes,
        .cold_us = h->cold_us,
        .mean_us = h->mean_us,
        .least_us = least != NULL ? least->key[HOMES_BY_WORK] : 0,
        .median_us = homes_median(h),
        .patience_us = homes_patience(h),
    };
}

void homes_view_worker(struct homes *h, const struct homes_worker *w, uint64_t now_us,
                       struct homes_worker_view *out)
{
    homes_tick(h, now_us);
    *out = (struct homes_worker_view){
        .eligible = w->eligible,
        .homes = w->nhomes,
        .in_flight = w->nin_flight,
        .work_us = homes_work_of(w),
        .stalled_us = w->stalled_us,
        .load = homes_load(h, w),
        .work = w->work / h->fade.weight / HOMES_TAU_US,
    };
}

size_t homes_of(struct homes *h, struct slice cls, struct homes_worker *out[], size_t max)
{
    struct class_entry *e = classes_find(&h->classes, cls);

    if (e == NULL)
        return 0;
    const struct homes_class *c = homes_class_of(e);
    for (size_t i = 0; i < c->nhomes && i < max; ++i)
        out[i] = c->pairs[i]->worker;
    return c->nhomes;
}

/* ---- one request ---- */

struct round {
    const struct homes *h;
    const struct homes_request *r;
    const struct homes_plan *plan;
    struct homes_sight *out;
    size_t n, max;
};

static void see(struct round *s, struct homes_worker *w, bool home)
{
    const struct homes_choice *c = &s->plan->choice;
    double work_us = homes_work_of(w);

    if (s->n++ >= s->max)
        return;
    s->out[s->n - 1] = (struct homes_sight){
        .worker = w,
        .home = home,
        .eligible = w->eligible,
        .refused = s->r->refuses != NULL && s->r->refuses(s->r->context, w->context),
        .work_us = work_us,
        .saves_us = c->homes != 0 ? c->home_us - work_us : 0,
        .cost = homes_load(s->h, w) + (work_us - c->least_us) / s->h->cold_us,
    };
}

static void see_homes(struct round *s, bool eligible)
{
    const struct homes_class *c = s->plan->cls;

    for (uint32_t i = 0; c != NULL && i < c->nhomes; ++i) {
        if (c->pairs[i]->worker->eligible == eligible)
            see(s, c->pairs[i]->worker, true);
    }
}

size_t homes_look_round(struct homes *h, const struct homes_request *r,
                        const struct homes_plan *plan, struct homes_sight out[], size_t max)
{
    const struct homes_heap *heap = &h->heaps[HOMES_BY_WORK];
    struct round s = {.h = h, .r = r, .plan = plan, .out = out, .max = max};

    see_homes(&s, true);
    see_homes(&s, false);
    for (size_t i = 0; i < heap->n; ++i) {
        if (!homes_is_home_of(plan->cls, heap->at[i]))
            see(&s, heap->at[i], false);
    }
    return s.n;
}

/* ---- invariants ---- */

static void check_pair(const struct homes_pair *p, const struct homes_class *c, uint32_t at)
{
    uint64_t own_us = 0;
    uint32_t n = 0;
    const struct homes_ticket *t;

    ASSERT(p->cls == c);
    ASSERT(p->at == at);
    ASSERT(!p->worker->gone);
    list_for_each_entry (t, &p->in_flight, of_pair) {
        ASSERT(t->pair == p);
        ASSERT(t->worker == p->worker);
        own_us += t->expected_us;
        ++n;
    }
    ASSERT(homes_is_home(p) || p->weight.sum == 0);
    ASSERT(p->own_us == own_us);
    ASSERT(p->in_flight_n == n);
}

static size_t check_classes(const struct list *head)
{
    struct class_entry *e;
    size_t npairs = 0;

    list_for_each_entry (e, head, node) {
        const struct homes_class *c = homes_class_of(e);

        ASSERT(c->nhomes <= c->npairs);
        ASSERT(c->npairs <= c->room);
        ASSERT(c->cost_us >= 0);
        for (uint32_t i = 0; i < c->npairs; ++i)
            check_pair(c->pairs[i], c, i);
        npairs += c->npairs;
    }
    return npairs;
}

static size_t check_in_flight(const struct homes_worker *w)
{
    uint64_t own_us = 0;
    size_t n = 0;
    size_t nserving = 0;
    size_t ncold = 0;
    const struct homes_ticket *waiting = NULL;
    const struct homes_ticket *t;

    list_for_each_entry (t, &w->in_flight, of_worker) {
        ASSERT(t->worker == w);
        if (!t->serving && waiting == NULL)
            waiting = t;
        ASSERT(t->serving == (waiting == NULL));
        own_us += t->expected_us;
        nserving += t->serving;
        ncold += t->cold;
        ++n;
    }
    ASSERT(w->waiting == waiting);
    ASSERT(w->own_us == own_us);
    ASSERT(w->nserving == nserving);
    ASSERT(nserving <= w->concurrency);
    ASSERT(waiting == NULL || nserving == w->concurrency);
    ASSERT(w->ncold == ncold);
    ASSERT(w->nin_flight == n);
    return n;
}

static size_t check_worker(const struct homes *h, const struct homes_worker *w)
{
    size_t npairs = 0;
    size_t nhomes = 0;
    double weight_us = 0;
    const struct homes_pair *p;

    ASSERT(!w->gone);
    ASSERT(w->work >= 0);
    ASSERT(w->stalled_us >= 0);
    list_for_each_entry (p, &w->pairs, of_worker) {
        ASSERT(p->worker == w);
        nhomes += homes_is_home(p);
        weight_us += fading_value(&p->weight, &h->fade);
        ++npairs;
    }
    ASSERT(w->nhomes == nhomes);
    ASSERT(!homes_shared(h) || fabs(w->work / h->fade.weight - weight_us) <= 1e-6 * weight_us + 1);
    return npairs;
}

void homes_check(struct homes *h)
{
    size_t npairs = 0;
    size_t nin_flight = 0;
    size_t neligible = 0;
    size_t eligible_homes = 0;
    size_t eligible_places = 0;
    double eligible_work = 0;
    const struct homes_worker *w;

    classes_check(&h->classes);
    list_for_each_entry (w, &h->workers, node) {
        npairs += check_worker(h, w);
        nin_flight += check_in_flight(w);
        if (!w->eligible)
            continue;
        ASSERT(w->key[HOMES_BY_WORK] == homes_work_of(w));
        ++neligible;
        eligible_homes += w->nhomes;
        eligible_places += w->concurrency;
        eligible_work += w->work;
    }
    ASSERT(check_classes(&h->classes.known) + check_classes(&h->classes.probation) == npairs);
    /* Workers that were removed may have further records. */
    ASSERT(nin_flight <= h->ntickets);
    for (int i = 0; i < HOMES_KEYS; ++i) {
        ASSERT(h->heaps[i].n == neligible);
        homes_heap_check(&h->heaps[i], (enum homes_key)i);
    }
    ASSERT(h->eligible_homes == eligible_homes);
    ASSERT(h->eligible_places == eligible_places);
    ASSERT(fabs(h->eligible_work - eligible_work) <= 1e-6 * eligible_work + h->fade.weight);
    ASSERT(h->cold_us >= HOMES_COLD_LEAST_US);
}
