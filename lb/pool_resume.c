/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule of the original, exactly. Source: zc.resumelb lb.py Pool.get (formulas:
 * tests/oracle/README.md, section 2). Of equal scores the one given first wins.
 *
 * What other load balancers have in hand at a worker is added to its backlog where scores are
 * divided, and to its mean and the front's where the cutoff compares them. The means themselves are
 * of our own requests: theirs have decayed in theirs. Without reports, and without workers brought
 * in because of overload (pool_called.c), to the bit the original.
 */
#include "lb/pool_internal.h"

/* The first request in hand is free: a worker that serves one is as good as an idle one. */
static double effective_score(const struct skill *s, uint64_t others)
{
    uint64_t backlog = worker_backlog(s->worker) + others;

    return backlog > 1 ? s->score / (double)backlog : s->score;
}

/* Whether the cutoff passes over W. */
static bool is_over(const struct worker *w, uint64_t others, const struct pool_pick *out)
{
    return w->mean.mean + (double)others - out->min_backlog > out->max_backlog;
}

/* More of others' can only make a worker worse: asked for last, of the few that would be the best.
 */
static struct worker *best_skilled(const struct pool_class *c, const struct pool_request *r,
                                   uint64_t since_ms, struct pool_pick *out)
{
    struct worker *best = NULL;
    double best_score = 0;

    for (uint32_t i = 0; i < c->n; ++i) {
        const struct skill *s = &c->skills[i];

        if (pool_excludes(r, s->worker))
            continue;
        if (is_over(s->worker, 0, out) || pool_spares(out, s->worker)) {
            ++out->skipped;
            continue;
        }
        double score = effective_score(s, 0);
        if (score <= best_score)
            continue;
        uint64_t others = worker_others(s->worker, since_ms);
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

/* W, who gets one of CLS without being known to be good at it. C may be NULL. */
static struct worker *learn(struct pool *p, const struct pool_class *c, struct worker *w,
                            struct slice cls)
{
    if (pool_skill_of(c, w) == NULL)
        pool_skill_assign(p, w, cls, p->settings.unskilled_score);
    return w;
}

static struct worker *pick(struct pool *p, const struct pool_request *r, struct worker *front,
                           struct pool_pick *out)
{
    struct pool_class *c = pool_skills_request(p, r->cls);
    uint64_t since_ms = pool_reports_since(&p->settings, out->started_ms);
    double spread = p->settings.variance * p->mean.mean / (double)p->nline;

    out->max_backlog = spread > 1 ? spread : 1;
    out->min_backlog = front->mean.mean + (double)worker_others(front, since_ms) + 1;
    struct worker *best = c != NULL ? best_skilled(c, r, since_ms, out) : NULL;
    struct worker *called =
        list_empty(&p->called)
            ? NULL
            : pool_called_locked(p, r, best != NULL ? best : front, since_ms, out);
    if (called != NULL) {
        out->reason = PICK_CALLED;
        return learn(p, c, called, r->cls);
    }
    if (best != NULL) {
        out->reason = PICK_SKILLED;
        return best;
    }
    out->reason = out->skipped != 0 ? PICK_SPILL : PICK_UNSKILLED;
    return learn(p, c, front, r->cls);
}

const struct pool_rule pool_rule_resume = {.pick = pick};
