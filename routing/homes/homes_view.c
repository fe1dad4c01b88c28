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
