/* SPDX-License-Identifier: Apache-2.0
 *
 * The reasons for a choice of the homes (homes_rule.c), worker by worker: how many are left after
 * each step of the rule, the work in flight of each, and why it was not selected.
 */
#include <stdlib.h>

#include "routing/homes/homes.h"
#include "routing/pool_internal.h"

struct story {
    const struct homes_choice *choice;
    const struct homes_worker *chosen; /* NULL: no worker may have it */
    double cold_us, price_us, patience_us;
    bool owned; /* with several load balancers: by this one */
    size_t nwarm;
    struct homes_sight *sights;
    size_t n;
};

/* ---- why not ---- */

static const char *why_no_home(const struct story *s, const struct homes_sight *x)
{
    static const char *const others[HOMES_REASONS] = {
        [HOMES_NEW] = "more load, or more work in flight, than the new home",
        [HOMES_WARM] = "not the best at the class by the published resumes",
        [HOMES_COPY] = "no home, and more load or work in flight than the new one",
        [HOMES_MOVE] = "no home, and more load or work in flight than the new home",
        [HOMES_DRAW] = "no home, and more load than the new home",
        [HOMES_DETOUR] = "no home, and more load or work in flight than the selected worker",
    };

    if (x->refused)
        return "not eligible now: tried before, just rejected a request, or has no process";
    if (s->choice->reason != HOMES_HOME)
        return others[s->choice->reason];
    if (x->saves_us <= 0)
        return "no home, and no less work in flight than the home";
    if (!s->owned)
        return "no home, and another load balancer assigns the homes of this class";
    if (s->choice->homes >= s->choice->homes_max)
        return "no home, and the class has the maximum number of homes";
    return "no home, and the wait it would save is not worth filling its cache";
}

static const char *why_not(const struct story *s, const struct homes_sight *x)
{
    static const char *const moved[HOMES_CAUSES] = {
        [HOMES_SLOW] = "a home that the class is moved from: it is slow because of other classes",
        [HOMES_FLOODED] = "a home that the class is moved from: another class floods it",
        [HOMES_UNSERVED] = "a home that inherited the class, and is too busy for it",
    };
    static const char *const left[HOMES_REASONS] = {
        [HOMES_HOME] = "a home with more work in flight, or not selected among equals",
        [HOMES_COPY] = "a home: waiting there costs more than one more home",
        [HOMES_DRAW] = "a home that the class is rebalanced from: it has much more load",
        [HOMES_DETOUR] = "a home, busy with other classes while half of the workers are idle",
    };

    if (x->worker == s->chosen)
        return NULL;
    if (!x->home)
        return why_no_home(s, x);
    if (!x->eligible)
        return "an ineligible home: drained, ejected, silent, or of another version";
    if (x->refused)
        return "a home that not eligible now: tried before, just rejected a request, or has no "
               "process";
    if (s->choice->reason == HOMES_MOVE)
        return x->worker == s->choice->from
                   ? moved[s->choice->cause]
                   : "a home with more work in flight than the one that the class is moved from";
    if (s->choice->reason == HOMES_DRAW && x->worker != s->choice->from)
        return "a home with less load than the one that the class is rebalanced from";
    return left[s->choice->reason];
}

/* ---- the steps ---- */

static size_t count(const struct story *s,
                    bool (*is)(const struct story *, const struct homes_sight *))
{
    size_t n = 0;

    for (size_t i = 0; i < s->n; ++i)
        n += is(s, &s->sights[i]);
    return n;
}

static bool is_open_home(const struct story *s, const struct homes_sight *x)
{
    (void)s;
    return x->home && x->eligible && !x->refused;
}

static bool is_other(const struct story *s, const struct homes_sight *x)
{
    (void)s;
    return !x->home && !x->refused;
}

static bool saves(const struct story *s, const struct homes_sight *x)
{
    return is_other(s, x) && x->saves_us > 0;
}

static bool pays(const struct story *s, const struct homes_sight *x)
{
    return is_other(s, x) && x->saves_us > s->price_us && s->price_us <= s->patience_us &&
           s->choice->homes < s->choice->homes_max && s->owned;
}

static bool is_a_way_out(const struct story *s, const struct homes_sight *x)
{
    return is_other(s, x) && x->saves_us > s->patience_us;
}

/* Facts that do not follow from the numbers of the previous steps. */
static void tell_last_step(const struct story *s, size_t others, struct pool_explain *e)
{
    static const char *const causes[HOMES_CAUSES] = {
        [HOMES_SLOW] =
            "the best of them; the class is moved there, because other classes keep its home busy",
        [HOMES_FLOODED] =
            "the best of them; the class is moved there, because another class floods its home",
        [HOMES_UNSERVED] = "the best of them; the class is moved there, because its home has "
                           "served none of its requests",
    };

    if (s->choice->reason == HOMES_MOVE)
        pool_explain_step(e, causes[s->choice->cause], others, 1);
    if (s->choice->reason == HOMES_DRAW)
        pool_explain_step(
            e, "the least loaded of them, far below a home: the class is rebalanced to it", others,
            1);
}

static void tell_steps(const struct story *s, size_t neligible, struct pool_explain *e)
{
    size_t homes = s->choice->homes;
    size_t others = count(s, is_other);

    pool_explain_step(e, "homes of the class", neligible, homes);
    if (homes != 0)
        pool_explain_step(e, "eligible homes", homes, count(s, is_open_home));
    pool_explain_step(e, "other eligible workers", neligible - homes, others);
    if (s->nwarm != 0)
        pool_explain_step(e, "skilled at it, by what they publish", others, s->nwarm);
    if (homes == 0 || count(s, is_open_home) == 0)
        return;
    pool_explain_step(e, "others with less work in flight than the home", others, count(s, saves));
    pool_explain_step(e, "others where a further home would pay off", others, count(s, pays));
    pool_explain_step(e, "others that save more than the tolerated wait", others,
                      count(s, is_a_way_out));
    tell_last_step(s, others, e);
}

static void tell_values(const struct story *s, struct pool_explain *e)
{
    const struct homes_choice *c = s->choice;

    pool_explain_value(e, "owned", s->owned);
    pool_explain_value(e, "expected_s", c->expected_us / 1e6);
    pool_explain_value(e, "share_workers", c->share);
    pool_explain_value(e, "homes_max", (double)c->homes_max);
    pool_explain_value(e, "cold_request_s", s->cold_us / 1e6);
    pool_explain_value(e, "least_work_s", c->least_us / 1e6);
    if (c->homes == 0)
        return;
    pool_explain_value(e, "home_work_s", c->home_us / 1e6);
    pool_explain_value(e, "price_of_a_home_s", s->price_us / 1e6);
    pool_explain_value(e, "patience_s", s->patience_us / 1e6);
}

void pool_adaptive_explain(struct homes *h, const struct pool_question *q,
                           const struct homes_request *r, const struct homes_plan *plan)
{
    struct homes_view v;

    homes_view(h, r->now_us, &v);
    size_t n = homes_look_round(h, r, plan, NULL, 0);
    struct story s = {.choice = &plan->choice,
                      .chosen = plan->worker,
                      .cold_us = v.cold_us,
                      .price_us = homes_price(h, plan),
                      .patience_us = v.patience_us,
                      .owned = homes_owns(h, r->cls),
                      .nwarm = plan->nwarm,
                      .sights = xcalloc(n + 1, sizeof(struct homes_sight)),
                      .n = n};
    (void)homes_look_round(h, r, plan, s.sights, n);
    for (size_t i = 0; i < n; ++i) {
        const struct homes_sight *x = &s.sights[i];

        pool_explain_candidate(q->explain, homes_worker_context(x->worker), x->cost,
                               x->work_us / 1e6, why_not(&s, x));
    }
    tell_steps(&s, v.workers, q->explain);
    tell_values(&s, q->explain);
    free(s.sights);
}
