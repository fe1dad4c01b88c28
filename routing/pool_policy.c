/* SPDX-License-Identifier: Apache-2.0
 *
 * Selection of the pool's policy, the calls to it (struct pool_rule), and the policies without a
 * state. A pool has one policy at a time. When the setting changes, the old policy's state is
 * destroyed and the new one's is created from the current members, because policies cannot use each
 * other's state.
 */
#include <stdlib.h>

#include "routing/pool_internal.h"

static const struct {
    const char *text;
    const struct pool_rule *rule;
} policies[POOL_POLICIES] = {
#define POLICY(name, text, rule, doc) [POOL_POLICY_##name] = {(text), &(rule)},
#include "routing/pool_policy.def"
};

const char *pool_policy_text(enum pool_policy policy)
{
    ASSERT((unsigned)policy < POOL_POLICIES);
    return policies[policy].text;
}

void pool_policy_adopt_locked(struct pool *p, struct worker *w, struct pool_pick *pick)
{
    if (p->rule->end == NULL || pick->counted_)
        return;
    pick->counted_ = true;
    if (p->rule->adopt != NULL)
        p->rule->adopt(p, w, &pick->hand_, pick->started_us);
}

void pool_policy_joined_locked(struct pool *p, struct worker *w)
{
    struct pool_pick *pick;

    ASSERT(p->held);
    if (w->policy == NULL && p->rule->worker_bytes != 0)
        w->policy = xcalloc(1, p->rule->worker_bytes);
    if (p->rule->joined != NULL)
        p->rule->joined(p, w);
    list_for_each_entry (pick, &w->in_flight, node_)
        pool_policy_adopt_locked(p, w, pick);
}

/* ---- another policy ---- */

static void forget_worker(struct worker *w)
{
    struct pool_pick *pick;

    list_for_each_entry (pick, &w->in_flight, node_) {
        pick->hand_ = (struct pool_hand){0};
        pick->counted_ = false;
    }
    free(w->policy);
    w->policy = NULL;
}

void pool_policy_set_locked(struct pool *p)
{
    struct worker *w;

    ASSERT(p->held);
    ASSERT((unsigned)p->settings.policy < POOL_POLICIES);
    const struct pool_rule *rule = policies[p->settings.policy].rule;
    if (rule == p->rule) {
        if (rule->changed != NULL)
            rule->changed(p);
        return;
    }
    if (p->rule != NULL) {
        if (p->rule->destroy != NULL)
            p->rule->destroy(p->state);
        p->state = NULL;
        list_for_each_entry (w, &p->members, member_node)
            forget_worker(w);
        list_for_each_entry (w, &p->leaving, state_node)
            forget_worker(w);
    }
    p->rule = rule;
    if (rule->create != NULL)
        p->state = rule->create(p);
    if (rule->balancers != NULL)
        rule->balancers(p);
    list_for_each_entry (w, &p->members, member_node)
        pool_policy_joined_locked(p, w);
    if (rule->set_eligible == NULL)
        return;
    list_for_each_entry (w, &p->eligible, state_node)
        rule->set_eligible(p, w, true);
}

/*
 * ---- policy classless ----
 *
 * The worker with the lowest backlog (including requests of other load
 * balancers), and of several the one nearest to the front. A worker activated because of overload
 * has the lowest backlog and needs no special rule.
 */

static void choose_least(struct pool *p, const struct pool_question *q, struct pool_choice *out)
{
    struct worker *best = q->front;
    uint64_t least = UINT64_MAX;

    /* Workers before FRONT may not be picked. */
    for (struct list *it = &q->front->state_node; it != &p->eligible && least != 0; it = it->next) {
        struct worker *w = list_entry(it, struct worker, state_node);
        uint64_t backlog = worker_backlog(w) + worker_others(w, q->since_ms);

        if (backlog < least && pool_may_choose(q, w)) {
            best = w;
            least = backlog;
        }
    }
    out->reason = PICK_CLASSLESS;
    out->worker = best;
    if (q->explain == NULL)
        return;
    struct worker *w;
    size_t may = 0;
    list_for_each_entry (w, &p->eligible, state_node) {
        uint64_t backlog = worker_backlog(w) + worker_others(w, q->since_ms);
        const char *why = backlog > least ? "more in flight" : NULL;

        if (pool_may_choose(q, w))
            ++may;
        else
            why = "not eligible";
        pool_explain_candidate(q->explain, w, 0, 0, why);
    }
    pool_explain_step(q->explain, "eligible workers, without those excluded for this request",
                      p->neligible, may);
    pool_explain_value(q->explain, "least_backlog", (double)least);
}

const struct pool_rule pool_rule_classless = {.choose = choose_least};

/*
 * ---- policy round_robin ----
 *
 * Each worker in turn, regardless of the class and of the requests in flight. The list of eligible
 * workers is ordered by the time of the last pick, least recent first, so its front is the next
 * worker. A new worker is next.
 */

static void choose_next(struct pool *p, const struct pool_question *q, struct pool_choice *out)
{
    out->worker = q->front;
    out->reason = PICK_ROUND_ROBIN;
    if (q->explain == NULL)
        return;
    pool_explain_candidate(q->explain, q->front, 0, 0, NULL);
    pool_explain_step(q->explain, "next in order", p->neligible, 1);
}

const struct pool_rule pool_rule_round_robin = {.choose = choose_next};
