/* SPDX-License-Identifier: Apache-2.0
 *
 * Overload, and the workers activated because of it.
 *
 * Whether all workers are overloaded is checked periodically, not counted at each get and put. The
 * reports of other load balancers' requests arrive without the pool's lock and expire without an
 * event that could be counted; and the check costs a request nothing. A check ends at the first
 * worker that is not overloaded, usually the one at the front of the list of eligible workers.
 *
 * The policy alone would leave a new worker without work. A worker without known skills gets only
 * new classes, and classes of workers with far more work than the others; if all are equally
 * overloaded, there are none of the latter. Therefore it gets the requests that the policy would
 * assign to a worker above spawn_backlog, as long as it is not above that itself and has not
 * reported skills of its own.
 */
#include "routing/pool_internal.h"

enum {
    /* Activated workers that one request examines; one that gets it moves to the end. */
    ACTIVATED_LOOK_MAX = 8,
};

static bool is_above(const struct pool *p, const struct worker *w, uint64_t others)
{
    return worker_backlog(w) + others > p->settings.spawn_backlog * w->concurrency;
}

/* ---- detection ---- */

bool pool_overloaded(struct pool *p, uint64_t now_ms, uint64_t *for_ms)
{
    const struct worker *w;

    pool_lock(p);
    uint64_t since_ms = pool_reports_since(&p->settings, now_ms);
    bool above = p->settings.spawn_backlog != 0;
    list_for_each_entry (w, &p->eligible, state_node) {
        if (!above)
            break;
        /* A slot without a process does not indicate the load of the others. */
        if (w->activation != POOL_ACTIVATION_WAKE)
            above = is_above(p, w, worker_others(w, since_ms));
    }
    if (above && !p->above)
        p->above_since_ms = now_ms;
    p->above = above;
    *for_ms = above ? now_ms - p->above_since_ms : 0;
    pool_unlock(p);
    return above;
}

void pool_overload_forget(struct pool *p)
{
    pool_lock(p);
    p->above = false;
    pool_unlock(p);
}

/* ---- activated workers ---- */

void pool_deactivate_locked(struct pool *p, struct worker *w)
{
    ASSERT(p->held);
    list_remove(&w->activated_node);
    w->activation = POOL_ACTIVATION_NONE;
}

void pool_activate(struct pool *p, struct worker *w, enum pool_activation how,
                   struct list *released)
{
    pool_lock(p);
    bool is_member = worker_is_member(w);
    bool woke = w->activation == POOL_ACTIVATION_WOKEN_;
    pool_deactivate_locked(p, w);
    if (is_member && how != POOL_ACTIVATION_NONE &&
        (how == POOL_ACTIVATION_WAKE || !w->has_shown)) {
        w->activation = how;
        list_push_back(&p->activated, &w->activated_node);
    }
    if (woke && is_member) {
        pool_update_eligible_locked(p);
        pool_release_locked(p, released);
    }
    pool_unlock(p);
}

bool pool_woke(struct pool *p, const struct worker *w)
{
    pool_lock(p);
    bool woke = w->activation == POOL_ACTIVATION_WOKEN_;
    pool_unlock(p);
    return woke;
}

void pool_activated_took_locked(struct pool *p, struct worker *w)
{
    ASSERT(p->held);
    list_remove(&w->activated_node);
    if (w->activation == POOL_ACTIVATION_WAKE) {
        w->activation = POOL_ACTIVATION_WOKEN_;
        pool_update_eligible_locked(p);
    } else if (w->activation == POOL_ACTIVATION_RELIEVE) {
        list_push_back(&p->activated, &w->activated_node);
    }
}

void pool_activated_locked(struct pool *p, const struct pool_question *q, struct pool_choice *out)
{
    struct worker *w;
    int looked = 0;

    ASSERT(p->held);
    if (p->settings.spawn_backlog == 0 ||
        !is_above(p, out->worker, worker_others(out->worker, q->since_ms)))
        return;
    list_for_each_entry (w, &p->activated, activated_node) {
        if (++looked > ACTIVATED_LOOK_MAX)
            return;
        if (w->state != WORKER_ELIGIBLE || !pool_may_choose(q, w))
            continue;
        uint64_t others = worker_others(w, q->since_ms);
        /* To be woken: one request only, which may wait long for the process to start. */
        if (w->activation == POOL_ACTIVATION_WAKE ? worker_backlog(w) + others == 0
                                                  : !is_above(p, w, others)) {
            out->worker = w;
            out->reason = PICK_ACTIVATED;
            return;
        }
    }
}
