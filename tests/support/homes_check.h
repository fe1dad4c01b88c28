/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants of the homes (homes_internal.h), and a worker as they see it.
 */
#pragma once

#include <math.h>

#include "routing/homes/homes_internal.h"
#include "tests/support/classes_check.h"

struct homes_view {
    size_t classes;
    size_t homes;     /* pairs of a class and an eligible worker that is its home */
    double cold_us;   /* P */
    double median_us; /* of B; estimated from a sample if there are many workers */
};

static inline void homes_view(struct homes *h, uint64_t now_us, struct homes_view *out)
{
    homes_tick(h, now_us);
    *out = (struct homes_view){
        .classes = h->classes.n,
        .homes = h->eligible_homes,
        .cold_us = h->cold_us,
        .median_us = homes_median(h),
    };
}

struct homes_worker_view {
    bool eligible;
    size_t homes;
    size_t in_flight;
    double work_us;    /* B */
    double stalled_us; /* the part of B that is time without progress */
    double load;       /* L; 1 is the mean */
    double work;       /* decayed work, in workers if it is that of homes_tau_us() */
};

static inline void homes_view_worker(struct homes *h, const struct homes_worker *w, uint64_t now_us,
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
        .work = w->work / h->fade.weight / homes_tau_us(h),
    };
}

static inline void homes_heap_check(const struct homes_heap *h, enum homes_key key)
{
    for (size_t i = 0; i < h->n; ++i) {
        ASSERT(h->at[i]->pos[key] == i);
        ASSERT(i == 0 || !homes_before(h->at[i], h->at[(i - 1) / 2], key));
    }
}

static inline void homes_check_pair(const struct homes_pair *p, const struct homes_class *c,
                                    uint32_t at)
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

static inline size_t homes_check_classes(const struct list *head)
{
    struct class_entry *e;
    size_t npairs = 0;

    list_for_each_entry (e, head, node) {
        const struct homes_class *c = homes_class_of(e);

        ASSERT(c->nhomes <= c->npairs);
        ASSERT(c->npairs <= c->room);
        ASSERT(c->cost_us >= 0);
        for (uint32_t i = 0; i < c->npairs; ++i)
            homes_check_pair(c->pairs[i], c, i);
        npairs += c->npairs;
    }
    return npairs;
}

static inline void homes_check_in_flight(const struct homes_worker *w)
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
}

static inline size_t homes_check_worker(const struct homes *h, const struct homes_worker *w)
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

static inline void homes_check(struct homes *h)
{
    size_t npairs = 0;
    size_t neligible = 0;
    size_t eligible_homes = 0;
    size_t eligible_places = 0;
    double eligible_work = 0;
    const struct homes_worker *w;

    classes_check(&h->classes);
    list_for_each_entry (w, &h->workers, node) {
        npairs += homes_check_worker(h, w);
        homes_check_in_flight(w);
        if (!w->eligible)
            continue;
        ASSERT(w->key[HOMES_BY_WORK] == homes_work_of(w));
        ++neligible;
        eligible_homes += w->nhomes;
        eligible_places += w->concurrency;
        eligible_work += w->work;
    }
    ASSERT(homes_check_classes(&h->classes.known) + homes_check_classes(&h->classes.probation) ==
           npairs);
    for (int i = 0; i < HOMES_KEYS; ++i) {
        ASSERT(h->heaps[i].n == neligible);
        homes_heap_check(&h->heaps[i], (enum homes_key)i);
    }
    ASSERT(h->eligible_homes == eligible_homes);
    ASSERT(h->eligible_places == eligible_places);
    ASSERT(fabs(h->eligible_work - eligible_work) <= 1e-6 * eligible_work + h->fade.weight);
    ASSERT(h->cold_us >= 1);
}
