/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants of a pool (pool_internal.h): counts, lists, table of classes, policy, shadow.
 */
#pragma once

#include "routing/pool_internal.h"
#include "tests/support/homes_check.h"

static inline void pool_check_list(const struct list *head, size_t *nscored, size_t *nskills)
{
    struct class_entry *e;

    list_for_each_entry (e, head, node) {
        const struct pool_class *c = container_of(e, struct pool_class, base);

        ASSERT(c->n != 0 || c->base.known);
        ASSERT(c->n <= c->room);
        *nscored += c->n != 0;
        *nskills += c->n;
        for (uint32_t i = 0; i < c->n; ++i) {
            const struct skill *s = &c->skills[i];

            ASSERT(s->worker->state == WORKER_ELIGIBLE);
            ASSERT(s->slot < s->worker->nslots);
            ASSERT(s->worker->slots[s->slot].cls == c);
        }
    }
}

static inline void pool_skills_check(const struct pool *p)
{
    size_t nscored = 0;
    size_t nskills = 0;
    size_t nslots = 0;
    const struct worker *w;

    classes_check(&p->classes);
    pool_check_list(&p->classes.known, &nscored, &nskills);
    pool_check_list(&p->classes.probation, &nscored, &nskills);
    list_for_each_entry (w, &p->members, member_node)
        nslots += w->nslots;
    ASSERT(nscored == p->nscored);
    ASSERT(nskills == nslots);
}

struct pool_tally {
    size_t n;
    uint64_t backlog;
    uint64_t places;
};

static inline void pool_check_worker(const struct pool *p, const struct worker *w,
                                     enum worker_state state, struct pool_tally *t)
{
    uint64_t in_flight = 0;
    uint64_t backlog = worker_backlog(w);
    const struct pool_pick *pick;

    list_for_each_entry (pick, &w->in_flight, node_) {
        ASSERT(pick->worker == w);
        ++in_flight;
    }
    ASSERT(w->pool == p);
    ASSERT(w->state == state);
    ASSERT(backlog == in_flight);
    ASSERT(state != WORKER_LEAVING || w->activation == POOL_ACTIVATION_NONE);
    ASSERT(list_linked(&w->activated_node) ==
           (w->activation == POOL_ACTIVATION_WAKE || w->activation == POOL_ACTIVATION_RELIEVE));
    ASSERT(list_linked(&w->member_node) == (state != WORKER_LEAVING));
    ASSERT((w->version != NULL) == (state != WORKER_LEAVING));
    ASSERT(state == WORKER_ELIGIBLE || w->nslots == 0);
    ASSERT(state == WORKER_INELIGIBLE || w->stored.n == 0);
    ASSERT(state != WORKER_LEAVING || backlog != 0);
    ++t->n;
    t->backlog += backlog;
    if (backlog < w->concurrency)
        t->places += w->concurrency - backlog;
}

static inline struct pool_tally pool_check_state(const struct pool *p, const struct list *head,
                                                 enum worker_state state)
{
    struct pool_tally t = {0};
    const struct worker *w;

    list_for_each_entry (w, head, state_node)
        pool_check_worker(p, w, state, &t);
    return t;
}

static inline void pool_check_eligible(const struct pool *p)
{
    const struct worker *w;

    list_for_each_entry (w, &p->eligible, state_node) {
        ASSERT(!w->unavailable);
        ASSERT(!p->settings.single_version || w->version == p->active);
    }
    /* No worker that could serve is ineligible. */
    list_for_each_entry (w, &p->ineligible, state_node) {
        ASSERT(w->unavailable || w->activation == POOL_ACTIVATION_WOKEN_ ||
               (p->settings.single_version && w->version != p->active));
    }
}

static inline void pool_check_activated(const struct pool *p)
{
    const struct worker *w;

    list_for_each_entry (w, &p->activated, activated_node) {
        ASSERT(w->pool == p);
        ASSERT(w->state == WORKER_ELIGIBLE || w->state == WORKER_INELIGIBLE);
        ASSERT(w->activation == POOL_ACTIVATION_WAKE || w->activation == POOL_ACTIVATION_RELIEVE);
    }
}

static inline void pool_check_waiting(const struct pool *p)
{
    uint64_t next_ticket = 0;
    size_t n = 0;
    const struct pool_waiter *w;

    list_for_each_entry (w, &p->waiting, node) {
        ASSERT(w->state == WAITER_PARKED);
        ASSERT(w->ticket_ >= next_ticket);
        next_ticket = w->ticket_ + 1;
        ++n;
    }
    ASSERT(n == p->nwaiting);
    ASSERT(next_ticket <= p->next_ticket);
    ASSERT(p->nwaiting == 0 || p->nreleased >= p->places || p->owes_grants);
}

/* The requests that have not ended for the shadow. */
static inline void pool_shadow_check(const struct pool *p)
{
    const struct shadow_clock *c = p->shadow_clock;
    const struct shadow_request *r;
    size_t n[2] = {0};

    for (size_t served = 0; served < ARRAY_LEN(n); ++served) {
        list_for_each_entry (r, served ? &c->served : &c->waiting, reported_node) {
            ASSERT(r->reported);
            ASSERT(r->live == NULL);
            ASSERT(r->here.serving == served);
            ASSERT((r->at != SIZE_MAX) == served);
            ++n[served];
        }
    }
    ASSERT(n[1] == c->ndue);
    ASSERT(n[0] + n[1] == c->nreported);
    ASSERT(c->nreported <= SHADOW_BEHIND_MAX);
    for (size_t i = 0; i < c->ndue; ++i) {
        ASSERT(c->due[i]->at == i);
        ASSERT(i == 0 || c->due[(i - 1) / 2]->due_us <= c->due[i]->due_us);
    }
    /* A request that was in flight before the shadow was enabled has none. */
    ASSERT(p->shadow->backlog <= p->backlog + c->nreported);
}

static inline void pool_check(struct pool *p)
{
    const struct worker *w;

    pool_lock(p);
    struct pool_tally eligible = pool_check_state(p, &p->eligible, WORKER_ELIGIBLE);
    struct pool_tally ineligible = pool_check_state(p, &p->ineligible, WORKER_INELIGIBLE);
    struct pool_tally leaving = pool_check_state(p, &p->leaving, WORKER_LEAVING);
    ASSERT(eligible.n == p->neligible);
    ASSERT(eligible.n + ineligible.n == p->nmembers);
    ASSERT(leaving.n == p->nleaving);
    ASSERT(eligible.backlog + ineligible.backlog + leaving.backlog == p->backlog);
    ASSERT(eligible.places == p->places);
    pool_check_eligible(p);
    pool_check_activated(p);
    pool_check_waiting(p);
    pool_skills_check(p);
    list_for_each_entry (w, &p->members, member_node) {
        ASSERT((w->mirror != NULL) == (p->shadow != NULL));
        ASSERT(w->mirror == NULL || w->mirror->of == w);
        ASSERT(w->mirror == NULL || w->mirror->state == w->state);
    }
    if (p->shadow != NULL) {
        ASSERT(p->shadow->neligible == p->neligible);
        ASSERT(p->shadow->nmembers == p->nmembers);
        pool_shadow_check(p);
        pool_check(p->shadow);
    }
    if (p->rule == &pool_rule_adaptive)
        homes_check(*(struct homes **)p->state);
    pool_unlock(p);
}

/* pool_scan(), with the list of eligible workers from front to back, then the ineligible ones, then
 * those that left. No other thread uses P. */
static inline void pool_view(struct pool *p, bool skills, struct pool_view *out)
{
    const struct list *const lists[] = {&p->eligible, &p->ineligible, &p->leaving};
    size_t n = 0;

    pool_scan(p, false, out);
    for (size_t i = 0; i < ARRAY_LEN(lists); ++i) {
        struct worker *w;

        list_for_each_entry (w, lists[i], state_node) {
            struct worker_view *at = &out->workers[n];
            struct worker_view first = *at;

            while (at->worker != w)
                ++at;
            out->workers[n] = *at;
            *at = first;
            if (skills)
                pool_skills_copy(w, &out->workers[n].skills);
            ++n;
        }
    }
    ASSERT(n == out->n + out->ndetached);
}
