/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule of the original, exactly. Source: zc.resumelb lb.py Pool.get (formulas:
 * tests/oracle/README.md, section 2). Of equal scores the one given first wins.
 *
 * The requests in flight of other load balancers at a worker are added to its backlog where scores
 * are divided, and to its mean and the front's where the cutoff compares them. The means themselves
 * include our own requests only. Without reports, and without workers activated because of overload
 * (pool_activation.c), the results are bit for bit those of the original.
 */
#include "routing/pool_internal.h"

/* The first request in flight is free: a worker that serves one is as good as an idle one. */
static double effective_score(const struct skill *s, uint64_t others)
{
    uint64_t backlog = worker_backlog(s->worker) + others;

    return backlog > 1 ? s->score / (double)backlog : s->score;
}

/* Whether the cutoff passes over W. */
static bool is_over(const struct worker *w, uint64_t others, const struct pool_choice *out)
{
    return w->mean.mean + (double)others - out->min_backlog > out->max_backlog;
}

/* Requests of other load balancers only lower a score. Therefore they are read last, and only for
 * workers that would otherwise win. */
static struct worker *best_skilled(const struct pool_class *c, const struct pool_question *q,
                                   struct pool_choice *out)
{
    struct worker *best = NULL;
    double best_score = 0;

    for (uint32_t i = 0; i < c->n; ++i) {
        const struct skill *s = &c->skills[i];

        if (pool_excludes(q->request, s->worker))
            continue;
        if (is_over(s->worker, 0, out) || pool_spares(q, s->worker)) {
            ++out->skipped;
            continue;
        }
        double score = effective_score(s, 0);
        if (score <= best_score)
            continue;
        uint64_t others = worker_others(s->worker, q->since_ms);
        if (others != 0) {
            if (is_over(s->worker, others, out)) {
                ++out->skipped;
                continue;
            }
            score = effective_score(s, others);
        }
        if (score > best_score) {
            best = s->worker;
            best_score = score;
        }
    }
    return best;
}

static void policy_explain(const struct pool *p, const struct pool_class *c,
                           const struct pool_question *q, const struct pool_choice *out)
{
    size_t n = c != NULL ? c->n : 0;
    size_t within = 0;

    for (size_t i = 0; i < n; ++i) {
        const struct skill *s = &c->skills[i];
        uint64_t others = worker_others(s->worker, q->since_ms);
        const char *why = s->worker != out->worker ? "a lower score for its backlog" : NULL;

        if (pool_excludes(q->request, s->worker))
            why = "excluded";
        else if (pool_spares(q, s->worker))
            why = "rejected a request a moment ago";
        else if (is_over(s->worker, others, out))
            why = "over the cutoff";
        else
            ++within;
        pool_explain_candidate(q->explain, s->worker, effective_score(s, others), 0, why);
    }
    pool_explain_value(q->explain, "max_backlog", out->max_backlog);
    pool_explain_value(q->explain, "min_backlog", out->min_backlog);
    pool_explain_step(q->explain, "skilled at the class", p->neligible, n);
    pool_explain_step(q->explain, "within the cutoff", n, within);
}

static void policy_choose(struct pool *p, const struct pool_question *q, struct pool_choice *out)
{
    const struct pool_class *c = out->entry = pool_skills_find(p, q->request->cls);
    double spread = p->settings.variance * p->mean.mean / (double)p->neligible;

    out->max_backlog = spread > 1 ? spread : 1;
    out->min_backlog = q->front->mean.mean + (double)worker_others(q->front, q->since_ms) + 1;
    out->worker = c != NULL ? best_skilled(c, q, out) : NULL;
    if (out->worker != NULL) {
        out->reason = PICK_SKILLED;
    } else {
        out->reason = out->skipped != 0 ? PICK_OVERFLOW : PICK_UNSKILLED;
        out->worker = q->front;
    }
    if (q->explain != NULL)
        policy_explain(p, c, q, out);
}

/* A worker without a score for the class of its request gets an assigned score. */
static void policy_begin(struct pool *p, const struct pool_question *q, const struct pool_choice *c,
                         unused_ struct pool_hand *h)
{
    struct pool_class *known = c->entry;

    classes_request(&p->classes, known != NULL ? &known->base : NULL);
    if (c->reason != PICK_SKILLED && pool_skill_of(known, c->worker) == NULL)
        pool_skill_assign(p, c->worker, q->request->cls, p->settings.unskilled_score);
}

const struct pool_rule pool_rule_resume = {.choose = policy_choose, .begin = policy_begin};
