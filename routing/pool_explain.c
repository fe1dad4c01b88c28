/* SPDX-License-Identifier: Apache-2.0
 *
 * Explains which worker would get a request, and why. The policy chooses as usual and adds its
 * intermediate results; the request is not begun.
 */
#include "routing/pool_internal.h"

void pool_explain_value(struct pool_explain *e, const char *name, double value)
{
    if (e == NULL || e->nvalues == EXPLAIN_VALUES_MAX)
        return;
    e->values[e->nvalues].name = name;
    e->values[e->nvalues++].value = value;
}

void pool_explain_step(struct pool_explain *e, const char *name, size_t before, size_t after)
{
    if (e == NULL || e->nsteps == EXPLAIN_STEPS_MAX)
        return;
    e->steps[e->nsteps].name = name;
    e->steps[e->nsteps].before = before;
    e->steps[e->nsteps++].after = after;
}

/* The place for one more; of those passed over the last gives way to one that was not. */
static struct explain_candidate *place_for(struct pool_explain *e, const char *why)
{
    if (e->ncandidates < EXPLAIN_CANDIDATES_MAX)
        return &e->candidates[e->ncandidates++];
    for (size_t i = EXPLAIN_CANDIDATES_MAX; why == NULL && i-- != 0;) {
        if (e->candidates[i].why != NULL)
            return &e->candidates[i];
    }
    return NULL;
}

void pool_explain_candidate(struct pool_explain *e, struct worker *w, double score, double work_s,
                            const char *why)
{
    if (e == NULL)
        return;
    ++e->considered;
    struct explain_candidate *c = place_for(e, why);
    if (c == NULL)
        return;
    worker_unref(c->worker);
    *c = (struct explain_candidate){
        .worker = worker_ref(w), .score = score, .work_s = work_s, .why = why};
}

static void add_backlogs(struct pool_explain *e, const struct pool_question *q)
{
    for (size_t i = 0; i < e->ncandidates; ++i) {
        struct explain_candidate *c = &e->candidates[i];

        c->backlog = worker_backlog(c->worker) + worker_others(c->worker, q->since_ms);
    }
}

/* Marks the chosen worker as the only one not passed over. It may be a fallback, or a worker
 * activated instead. */
static void settle(struct pool_explain *e, struct worker *chosen)
{
    bool listed = false;

    for (size_t i = 0; i < e->ncandidates; ++i) {
        struct explain_candidate *c = &e->candidates[i];

        if (c->worker == chosen) {
            c->why = NULL;
            listed = true;
        } else if (c->why == NULL) {
            c->why = "above spawn_backlog, and another was activated";
        }
    }
    if (!listed)
        pool_explain_candidate(e, chosen, 0, 0, NULL);
}

void pool_explain(struct pool *p, const struct pool_request *r, uint64_t now_us,
                  struct pool_explain *out)
{
    struct pool_question q;
    struct pool_choice c = {0};

    ASSERT(r->nexcluded <= TRIED_MAX);
    pool_lock(p);
    *out = (struct pool_explain){.policy = pool_policy_text(p->settings.policy),
                                 .workers = p->neligible};
    if (pool_question_locked(p, r, now_us, &q)) {
        q.explain = out;
        pool_policy_choose_locked(p, &q, &c);
        out->worker = worker_ref(c.worker);
        out->reason = r->retry ? PICK_RETRY : c.reason;
        settle(out, c.worker);
        add_backlogs(out, &q);
    }
    pool_unlock(p);
}

bool pool_explain_shadow(struct pool *p, const struct pool_request *r, uint64_t now_us,
                         struct pool_explain *out)
{
    *out = (struct pool_explain){0};
    pool_lock(p);
    bool shadowed = p->shadow != NULL;
    if (shadowed) {
        if (now_us > p->now_us)
            p->now_us = now_us;
        pool_shadow_catch_up_locked(p);
        pool_explain(p->shadow, r, now_us, out);
    }
    pool_unlock(p);
    return shadowed;
}

void pool_explain_fini(struct pool_explain *e)
{
    for (size_t i = 0; i < e->ncandidates; ++i)
        worker_unref(e->candidates[i].worker);
    worker_unref(e->worker);
    *e = (struct pool_explain){0};
}
