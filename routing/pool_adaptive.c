/* SPDX-License-Identifier: Apache-2.0
 *
 * The homes of classes (homes.h) as a policy of the pool: eligible workers are its workers, their
 * publications determine the first home of a class that is new here, and the reported requests of
 * other load balancers are part of their work.
 */
#include <stdlib.h>

#include "routing/pool_internal.h"

/* When none is given. */
#define MAX_SHARE 0.4375

struct adaptive {
    struct homes *homes;    /* first: tests check it */
    struct homes_plan plan; /* from choose to begin */
};

static struct adaptive *state_of(const struct pool *p)
{
    return p->state;
}

static struct homes_worker *homes_of_worker(const struct worker *w)
{
    return *(struct homes_worker **)w->policy;
}

/* ---- what is known of a class before it has a home ---- */

/* Sets OUT to the workers with the best scores, best first. Returns their number. */
static size_t find_warm(void *context, struct slice cls, struct homes_worker *out[])
{
    const struct pool_class *c = pool_skills_find(context, cls);
    double scores[HOMES_WARM_MAX];
    size_t n = 0;

    for (uint32_t i = 0; c != NULL && i < c->n; ++i) {
        const struct skill *s = &c->skills[i];

        if (n == HOMES_WARM_MAX && s->score <= scores[n - 1])
            continue;
        size_t at = n < HOMES_WARM_MAX ? n++ : n - 1;
        for (; at != 0 && scores[at - 1] < s->score; --at) {
            scores[at] = scores[at - 1];
            out[at] = out[at - 1];
        }
        scores[at] = s->score;
        out[at] = homes_of_worker(s->worker);
    }
    return n;
}

static uint64_t adaptive_number_of(struct slice name)
{
    return class_hash(name) | 1;
}

/* ---- workers ---- */

static struct homes_settings settings_of(const struct pool *p)
{
    const struct pool_settings *s = &p->settings;

    return (struct homes_settings){.max_classes = s->max_classes,
                                   .max_share = s->max_share > 0 ? s->max_share : MAX_SHARE,
                                   .always = s->max_share_always};
}

static void *adaptive_create(struct pool *p)
{
    struct homes_options o = {.settings = settings_of(p), .warm = find_warm, .context = p};
    struct adaptive *a = xcalloc(1, sizeof(*a));

    a->homes = homes_create(&o);
    return a;
}

static void adaptive_destroy(void *state)
{
    struct adaptive *a = state;

    homes_destroy(a->homes);
    free(a);
}

static void adaptive_changed(struct pool *p)
{
    struct homes_settings s = settings_of(p);

    homes_set(state_of(p)->homes, &s);
}

static void on_joined(struct pool *p, struct worker *w)
{
    struct homes_worker **own = w->policy;

    *own =
        homes_join(state_of(p)->homes, w->concurrency, adaptive_number_of(worker_name_slice(w)), w);
}

static void on_left(struct pool *p, struct worker *w)
{
    homes_leave(state_of(p)->homes, homes_of_worker(w));
}

static void adaptive_set_eligible(struct pool *p, struct worker *w, bool eligible)
{
    homes_set_eligible(state_of(p)->homes, homes_of_worker(w), eligible, p->now_us);
}

/* A slot without a process is activated only when all workers are overloaded. */
static bool is_excluded(void *context, void *worker)
{
    const struct worker *w = worker;

    /* Without a request, spared workers, which depend on one, are not considered. */
    return w->of->activation == POOL_ACTIVATION_WAKE ||
           (context != NULL && !pool_may_choose(context, w));
}

static void on_leaving(struct pool *p, struct worker *w, struct worker *to)
{
    struct homes_request r = {.now_us = p->now_us, .rejects = is_excluded};

    homes_hand_over(state_of(p)->homes, homes_of_worker(w), to != NULL ? homes_of_worker(to) : NULL,
                    &r);
}

/*
 * ---- the explanation of a choice ----
 *
 * Worker by worker: how many are left after each step of the rule (homes_rule.c), the work in
 * flight of each, and why it was not selected.
 */

static const char *why_not(const struct homes_plan *plan, const struct homes_evidence *s,
                           const struct homes_sight *x)
{
    static const char *const no_home[HOMES_REASONS] = {
        [HOMES_NEW] = "more load, or more work in flight, than the new home",
        [HOMES_WARM] = "not the best at the class by the published resumes",
        [HOMES_REPLICATE] = "no home, and more load or work in flight than the new one",
        [HOMES_REASSIGN] = "no home, and more load or work in flight than the new home",
        [HOMES_REBALANCE] = "no home, and more load than the new home",
        [HOMES_OVERFLOW] = "no home, and more load or work in flight than the selected worker",
    };
    static const char *const moved[HOMES_CAUSES] = {
        [HOMES_SLOW] = "a home that the class is moved from: it is slow because of other classes",
        [HOMES_FLOODED] = "a home that the class is moved from: another class floods it",
        [HOMES_UNSERVED] = "a home that inherited the class, and is too busy for it",
    };
    static const char *const left[HOMES_REASONS] = {
        [HOMES_HOME] = "a home with more work in flight, or not selected among equals",
        [HOMES_REPLICATE] = "a home: waiting there costs more than one more home",
        [HOMES_REBALANCE] = "a home that the class is rebalanced from: it has much more load",
        [HOMES_OVERFLOW] = "a home, busy with other classes while half of the workers are idle",
    };

    const struct homes_choice *c = &plan->choice;

    if (x->worker == plan->worker)
        return NULL;
    if (!x->home) {
        if (x->rejected)
            return "not eligible now: tried before, just rejected a request, or has no process";
        if (c->reason != HOMES_HOME)
            return no_home[c->reason];
        if (x->saves_us <= 0)
            return "no home, and no less work in flight than the home";
        if (!s->owned)
            return "no home, and another load balancer assigns the homes of this class";
        if (!plan->parallel)
            return "no home, and a class with one request at a time has one home";
        if (c->homes >= c->homes_max)
            return "no home, and the class has the maximum number of homes";
        return "no home, and the wait it would save is not worth filling its cache";
    }
    if (!x->eligible)
        return "an ineligible home: drained, ejected, silent, or of another version";
    if (x->rejected)
        return "a home that is not eligible now: tried before, just rejected a request, or has no "
               "process";
    if (c->reason == HOMES_REASSIGN)
        return x->worker == c->from
                   ? moved[c->cause]
                   : "a home with more work in flight than the one that the class is moved from";
    if (c->reason == HOMES_REBALANCE && x->worker != c->from)
        return "a home with less load than the one that the class is rebalanced from";
    return left[c->reason];
}

/* How many workers are left after each step. */
static void explain_steps(const struct homes_plan *plan, const struct homes_evidence *s,
                          size_t neligible, struct pool_explain *e)
{
    /* Facts that do not follow from the numbers of the previous steps. */
    static const char *const causes[HOMES_CAUSES] = {
        [HOMES_SLOW] =
            "the best of them; the class is moved there, because other classes keep its home busy",
        [HOMES_FLOODED] =
            "the best of them; the class is moved there, because another class floods its home",
        [HOMES_UNSERVED] = ("the best of them; the class is moved there, because its home has "
                            "served none of its requests"),
    };
    static const char rebalanced[] =
        "the least loaded of them, far below a home: the class is rebalanced to it";
    const struct homes_choice *c = &plan->choice;
    bool may_add =
        s->price_us <= s->patience_us && c->homes < c->homes_max && s->owned && plan->parallel;
    size_t open_homes = 0, others = 0, saving = 0, paying = 0, ways_out = 0;

    for (const struct homes_sight *x = s->sights; x < s->sights + s->n; ++x) {
        open_homes += x->home && x->eligible && !x->rejected;
        if (x->home || x->rejected)
            continue;
        ++others;
        saving += x->saves_us > 0;
        paying += may_add && x->saves_us > s->price_us;
        ways_out += x->saves_us > s->patience_us;
    }
    pool_explain_step(e, "homes of the class", neligible, c->homes);
    if (c->homes != 0)
        pool_explain_step(e, "eligible homes", c->homes, open_homes);
    pool_explain_step(e, "other eligible workers", neligible - c->homes, others);
    if (plan->nwarm != 0)
        pool_explain_step(e, "skilled at it, by what they publish", others, plan->nwarm);
    if (c->homes == 0 || open_homes == 0)
        return;
    pool_explain_step(e, "others with less work in flight than the home", others, saving);
    pool_explain_step(e, "others where a further home would pay off", others, paying);
    pool_explain_step(e, "others that save more than the tolerated wait", others, ways_out);
    if (c->reason == HOMES_REASSIGN || c->reason == HOMES_REBALANCE)
        pool_explain_step(e, c->reason == HOMES_REASSIGN ? causes[c->cause] : rebalanced, others,
                          1);
}

static noinline_ void adaptive_explain(const struct pool *p, const struct pool_question *q,
                                       const struct homes_request *r, const struct homes_plan *plan)
{
    struct pool_explain *e = q->explain;
    const struct homes_choice *c = &plan->choice;
    struct homes_evidence s;

    homes_evaluate(state_of(p)->homes, r, plan, &s);
    for (const struct homes_sight *x = s.sights; x < s.sights + s.n; ++x)
        pool_explain_candidate(e, homes_worker_context(x->worker), x->cost, x->work_us / 1e6,
                               why_not(plan, &s, x));
    explain_steps(plan, &s, p->neligible, e);
    free(s.sights);
    pool_explain_value(e, "owned", s.owned);
    pool_explain_value(e, "parallel", plan->parallel);
    pool_explain_value(e, "expected_s", c->expected_us / 1e6);
    pool_explain_value(e, "share_workers", c->share);
    pool_explain_value(e, "homes_max", (double)c->homes_max);
    pool_explain_value(e, "cold_request_s", s.cold_us / 1e6);
    pool_explain_value(e, "least_work_s", c->least_us / 1e6);
    if (c->homes == 0)
        return;
    pool_explain_value(e, "home_work_s", c->home_us / 1e6);
    pool_explain_value(e, "price_of_a_home_s", s.price_us / 1e6);
    pool_explain_value(e, "patience_s", s.patience_us / 1e6);
}

/* ---- requests ---- */

static void adaptive_choose(struct pool *p, const struct pool_question *q, struct pool_choice *out)
{
    static const enum pick_reason reasons[HOMES_REASONS] = {
        [HOMES_HOME] = PICK_HOME,         [HOMES_NEW] = PICK_NEW,
        [HOMES_WARM] = PICK_WARM,         [HOMES_REPLICATE] = PICK_REPLICATE,
        [HOMES_REASSIGN] = PICK_REASSIGN, [HOMES_REBALANCE] = PICK_REBALANCE,
        [HOMES_OVERFLOW] = PICK_OVERFLOW,
    };
    struct adaptive *a = state_of(p);
    struct homes_request r = {.cls = q->request->cls,
                              .cls_hash = q->request->cls_hash,
                              .now_us = p->now_us,
                              .rejects = is_excluded,
                              .context = (void *)(uintptr_t)q};

    homes_plan(a->homes, &r, &a->plan);
    out->worker = a->plan.worker != NULL ? homes_worker_context(a->plan.worker) : q->front;
    out->reason = a->plan.worker != NULL ? reasons[a->plan.choice.reason] : PICK_OVERFLOW;
    if (q->explain != NULL)
        adaptive_explain(p, q, &r, &a->plan);
}

static void adaptive_begin(struct pool *p, const struct pool_question *q,
                           const struct pool_choice *c, struct pool_hand *hand)
{
    struct adaptive *a = state_of(p);
    struct homes_request r = {.cls = q->request->cls, .now_us = p->now_us};

    homes_begin(a->homes, &r, &a->plan, homes_of_worker(c->worker), &hand->homes);
}

static void adaptive_adopt(struct pool *p, struct worker *w, struct pool_hand *hand,
                           uint64_t started_us)
{
    homes_adopt(state_of(p)->homes, homes_of_worker(w), started_us, &hand->homes);
}

static void adaptive_end(struct pool *p, struct worker *w, struct pool_hand *hand,
                         const struct pool_served *how)
{
    uint64_t now_ms = p->now_us / 1000;
    struct homes_end e = {
        .now_us = p->now_us,
        .service_us = how->service_us,
        .failed = how->failed,
        /* Given up, or never sent: the worker may not even have seen it. */
        .unserved = how->failed && how->service_us == 0,
        .others = worker_others(w, pool_reports_since(&p->settings, now_ms)),
    };

    homes_end(state_of(p)->homes, &hand->homes, &e);
}

static void set_balancers(struct pool *p)
{
    homes_set_balancers(state_of(p)->homes, p->balancers, p->nbalancers, p->self, p->now_us);
}

static void publish_home(struct pool *p, struct worker *w, const struct pool_home *home)
{
    const struct worker *from = home->from;
    bool known = from != NULL && from->pool == p && from->state != WORKER_LEAVING;
    struct homes_record r = {.kind = home->kind,
                             .from = known ? homes_of_worker(from) : NULL,
                             .from_name = known ? 0 : adaptive_number_of(home->from_name),
                             .since_us = home->since_us,
                             .used_us = home->used_us,
                             .rate = home->rate};

    homes_published(state_of(p)->homes, homes_of_worker(w), home->cls, &r, p->now_us);
}

static size_t homes_of_class(struct pool *p, struct slice cls)
{
    return homes_of(state_of(p)->homes, cls, NULL, 0);
}

const struct pool_rule pool_rule_adaptive = {
    .worker_bytes = sizeof(struct homes_worker *),
    .create = adaptive_create,
    .destroy = adaptive_destroy,
    .changed = adaptive_changed,
    .joined = on_joined,
    .left = on_left,
    .set_eligible = adaptive_set_eligible,
    .leaves = on_leaving,
    .choose = adaptive_choose,
    .begin = adaptive_begin,
    .adopt = adaptive_adopt,
    .end = adaptive_end,
    .balancers = set_balancers,
    .housed = publish_home,
    .homes_of = homes_of_class,
};
