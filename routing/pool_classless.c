/* SPDX-License-Identifier: Apache-2.0
 *
 * The policy without resumes: the worker with the lowest backlog (including requests of other load
 * balancers), and of several the one nearest to the front. A worker activated because of overload
 * has the lowest backlog and needs no special rule.
 */
#include "routing/pool_internal.h"

static void explain(const struct pool *p, const struct pool_question *q, uint64_t least)
{
    struct list *it;
    size_t may = 0;

    list_for_each (it, &p->eligible) {
        struct worker *w = list_entry(it, struct worker, place_node);
        uint64_t backlog = worker_backlog(w) + worker_others(w, q->since_ms);
        const char *why = backlog > least ? "more in flight" : NULL;

        if (!pool_may_choose(q, w))
            why = "not eligible";
        else
            ++may;
        pool_explain_candidate(q->explain, w, 0, 0, why);
    }
    pool_explain_step(q->explain, "eligible workers, without those excluded for this request",
                      p->neligible, may);
    pool_explain_value(q->explain, "least_backlog", (double)least);
}

static void choose(struct pool *p, const struct pool_question *q, struct pool_choice *out)
{
    struct worker *best = q->front;
    uint64_t least = UINT64_MAX;

    /* Workers before FRONT may not be picked. */
    for (struct list *it = &q->front->place_node; it != &p->eligible && least != 0; it = it->next) {
        struct worker *w = list_entry(it, struct worker, place_node);
        uint64_t backlog = worker_backlog(w) + worker_others(w, q->since_ms);

        if (backlog < least && pool_may_choose(q, w)) {
            best = w;
            least = backlog;
        }
    }
    out->reason = PICK_CLASSLESS;
    out->worker = best;
    if (q->explain != NULL)
        explain(p, q, least);
}

const struct pool_rule pool_rule_classless = {.choose = choose};
