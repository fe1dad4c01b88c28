/* SPDX-License-Identifier: Apache-2.0
 *
 * The homes of classes (homes.h) as a policy of the pool: eligible workers are its workers, their
 * publications determine the first home of a class that is new here, and the reported requests of
 * other load balancers are part of their work.
 */
#include <stdlib.h>

#include "routing/homes/homes.h"
#include "routing/pool_internal.h"

/* When none is given. */
#define MAX_SHARE 0.4375

struct adaptive {
    struct homes *homes;
    struct homes_plan plan; /* from choose to begin */
};

/* worker->policy */
struct lodging {
    struct homes_worker *homes;
};

static struct adaptive *state_of(const struct pool *p)
{
    return p->state;
}

static struct homes_worker *homes_of_worker(const struct worker *w)
{
    return ((struct lodging *)w->policy)->homes;
}

static struct worker *worker_of(const struct homes_worker *w)
{
    return homes_worker_context(w);
}

/* ---- what is known of a class before it has a home ---- */

/* The best scores, best first. */
static size_t warm(void *context, struct slice cls, struct homes_worker *out[])
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

static uint64_t number_of(struct slice name)
{
    return class_hash(name) | 1;
}

static uint64_t name(void *context, void *worker)
{
    (void)context;
    return number_of(worker_name_slice(worker));
}

/* ---- the pool's hooks ---- */

static struct homes_settings settings_of(const struct pool *p)
{
    const struct pool_settings *s = &p->settings;

    return (struct homes_settings){.max_classes = s->max_classes,
                                   .max_share = s->max_share > 0 ? s->max_share : MAX_SHARE,
                                   .always = s->max_share_always};
}

static void *create(struct pool *p)
{
    struct homes_options o = {.settings = settings_of(p), .warm = warm, .name = name, .context = p};
    struct adaptive *a = xcalloc(1, sizeof(*a));

    a->homes = homes_create(&o);
    return a;
}

static void destroy(struct pool *p, void *state)
{
    struct adaptive *a = state;

    (void)p;
    homes_destroy(a->homes);
    free(a);
}

static void changed(struct pool *p)
{
    struct homes_settings s = settings_of(p);

    homes_set(state_of(p)->homes, &s);
}

static void joined(struct pool *p, struct worker *w)
{
    struct lodging *l = w->policy;

    l->homes = homes_join(state_of(p)->homes, w->concurrency, w);
}

static void left(struct pool *p, struct worker *w)
{
    homes_leave(state_of(p)->homes, homes_of_worker(w));
}

static void became_eligible(struct pool *p, struct worker *w)
{
    homes_set_eligible(state_of(p)->homes, homes_of_worker(w), true, p->now_us);
}

static void became_ineligible(struct pool *p, struct worker *w)
{
    homes_set_eligible(state_of(p)->homes, homes_of_worker(w), false, p->now_us);
}

/* A slot without a process gets nothing by the rule: it is activated when all workers are
 * overloaded. */
static bool refuses(void *context, void *worker)
{
    const struct worker *w = worker;

    return w->of->call == WORKER_TO_WAKE || !pool_may_choose(context, w);
}

/* Used without a request, so spared workers, which depend on one, are not considered. */
static bool has_no_process(void *context, void *worker)
{
    (void)context;
    return ((const struct worker *)worker)->of->call == WORKER_TO_WAKE;
}

static void leaves(struct pool *p, struct worker *w, struct worker *to)
{
    struct homes_request r = {.now_us = p->now_us, .refuses = has_no_process};

    homes_hand_over(state_of(p)->homes, homes_of_worker(w), to != NULL ? homes_of_worker(to) : NULL,
                    &r);
}

static enum pick_reason reason_of(enum homes_reason r)
{
    static const enum pick_reason reasons[HOMES_REASONS] = {
        [HOMES_HOME] = PICK_HOME,     [HOMES_NEW] = PICK_NEW,   [HOMES_WARM] = PICK_WARM,
        [HOMES_COPY] = PICK_COPY,     [HOMES_MOVE] = PICK_MOVE, [HOMES_DRAW] = PICK_DRAW,
        [HOMES_DETOUR] = PICK_DETOUR,
    };

    return reasons[r];
}

static void choose(struct pool *p, const struct pool_question *q, struct pool_choice *out)
{
    struct adaptive *a = state_of(p);
    struct homes_request r = {.cls = q->request->cls,
                              .cls_hash = q->request->cls_hash,
                              .now_us = q->now_us,
                              .refuses = refuses,
                              .context = (void *)(uintptr_t)q};

    homes_plan(a->homes, &r, &a->plan);
    out->worker = a->plan.worker != NULL ? worker_of(a->plan.worker) : q->front;
    out->reason = a->plan.worker != NULL ? reason_of(a->plan.choice.reason) : PICK_DETOUR;
    if (q->explain != NULL)
        pool_adaptive_explain(a->homes, q, &r, &a->plan);
}

static void begin(struct pool *p, const struct pool_question *q, const struct pool_choice *c,
                  struct pool_hand *hand)
{
    struct adaptive *a = state_of(p);
    struct homes_request r = {.cls = q->request->cls, .now_us = q->now_us};

    homes_begin(a->homes, &r, &a->plan, homes_of_worker(c->worker), &hand->homes);
}

static void adopt(struct pool *p, struct worker *w, struct pool_hand *hand, uint64_t started_us)
{
    homes_adopt(state_of(p)->homes, homes_of_worker(w), started_us, &hand->homes);
}

static void end(struct pool *p, struct worker *w, struct pool_hand *hand,
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

static void balancers(struct pool *p)
{
    homes_set_balancers(state_of(p)->homes, p->balancers, p->nbalancers, p->self, p->now_us);
}

static void housed(struct pool *p, struct worker *w, const struct pool_home *home)
{
    const struct worker *from = home->from;
    bool known = from != NULL && from->pool == p && from->place != WORKER_LEAVING;
    struct homes_record r = {.kind = home->kind,
                             .from = known ? homes_of_worker(from) : NULL,
                             .from_name = known ? 0 : number_of(home->from_name),
                             .since_us = home->since_us,
                             .used_us = home->used_us,
                             .rate = home->rate};

    homes_published(state_of(p)->homes, homes_of_worker(w), home->cls, &r, p->now_us);
}

static size_t homes_of_class(struct pool *p, struct slice cls)
{
    return homes_of(state_of(p)->homes, cls, NULL, 0);
}

static void check(struct pool *p)
{
    homes_check(state_of(p)->homes);
}

const struct pool_rule pool_rule_adaptive = {
    .worker_bytes = sizeof(struct lodging),
    .create = create,
    .destroy = destroy,
    .changed = changed,
    .joined = joined,
    .left = left,
    .became_eligible = became_eligible,
    .became_ineligible = became_ineligible,
    .leaves = leaves,
    .choose = choose,
    .begin = begin,
    .adopt = adopt,
    .end = end,
    .balancers = balancers,
    .housed = housed,
    .homes_of = homes_of_class,
    .check = check,
};
