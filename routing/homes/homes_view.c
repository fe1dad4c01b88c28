/* SPDX-License-Identifier: Apache-2.0
 *
 * Views of the homes.
 */
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

size_t homes_of(struct homes *h, struct slice cls, struct homes_worker *out[], size_t max)
{
    const struct homes_class *c = homes_class_of(classes_find(&h->classes, cls));

    for (size_t i = 0; c != NULL && i < c->nhomes && i < max; ++i)
        out[i] = c->pairs[i]->worker;
    return c != NULL ? c->nhomes : 0;
}

/* ---- one request ---- */

static struct homes_sight sight_of(const struct homes *h, const struct homes_request *r,
                                   const struct homes_plan *plan, struct homes_worker *w, bool home)
{
    double work_us = homes_work_of(w);

    return (struct homes_sight){
        .worker = w,
        .home = home,
        .eligible = w->eligible,
        .refused = homes_refused(r, w),
        .work_us = work_us,
        .saves_us = plan->choice.homes != 0 ? plan->choice.home_us - work_us : 0,
        .cost = homes_load(h, w) + (work_us - plan->choice.least_us) / h->cold_us,
    };
}

size_t homes_look_round(struct homes *h, const struct homes_request *r,
                        const struct homes_plan *plan, struct homes_sight **out)
{
    const struct homes_heap *heap = &h->heaps[HOMES_BY_WORK];
    const struct homes_class *c = plan->cls;
    uint32_t nhomes = c != NULL ? c->nhomes : 0;
    size_t n = 0;

    *out = xcalloc(heap->n + nhomes + 1, sizeof(**out));
    for (int eligible = 1; eligible >= 0; --eligible) {
        for (uint32_t i = 0; i < nhomes; ++i) {
            struct homes_worker *w = c->pairs[i]->worker;

            if (w->eligible == eligible)
                (*out)[n++] = sight_of(h, r, plan, w, true);
        }
    }
    for (size_t i = 0; i < heap->n; ++i) {
        if (!homes_is_home_of(c, heap->at[i]))
            (*out)[n++] = sight_of(h, r, plan, heap->at[i], false);
    }
    return n;
}
