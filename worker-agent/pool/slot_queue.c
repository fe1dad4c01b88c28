/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of slots and of whole applications. The core decides which requests wait and run; this
 * file has their timeouts and metrics, and sets the backend and the address of their process.
 *
 * A process without ready_probe receives one request while it is STARTING, which serves as its
 * probe.
 */
#include "worker-agent/pool/slot.h"

#include "common/base/log.h"

static struct loop *loop_of(const struct slot_request *r)
{
    return r->group->pool->loop;
}

struct app_process *slot_request_process(const struct slot_request *r)
{
    if (r->core.process == NULL || r->slot == NULL || r->slot->attached != NULL)
        return NULL;
    return app_process_of(r->core.process);
}

/* R does not wait any more. */
static void slot_queue_stop_waiting(struct slot_request *r)
{
    stat_add(r->group->cell, AGENT_STAT_requests_waiting, -1);
    timer_stop(&r->timeout);
}

/* R does not run at its process any more. */
static void stop_running(struct slot_request *r)
{
    stat_add(r->group->cell, AGENT_STAT_requests_running, -1);
    stat_add(r->group->cell, AGENT_STAT_tunnels_open, -(int64_t)r->core.placeless);
    --r->slot->nrunning;
    r->slot->ntunnels -= r->core.placeless;
    r->first = false;
}

/* ---- places ---- */

static void slot_queue_run(struct slot_request *r)
{
    struct slot *s = slot_of(r->core.process->slot);
    struct conn_backend *backend = s->attached_backend;

    r->slot = s;
    r->life = s->life;
    ++s->nrunning;
    stat_add(s->group->cell, AGENT_STAT_requests_running, 1);
    stat_observe(s->group->cell, AGENT_STAT_queue_wait_us, loop_now_us(loop_of(r)) - r->asked_us);
    if (s->attached != NULL) {
        r->addr = *s->attached;
    } else {
        struct app_process *p = app_process_of(r->core.process);

        r->addr = p->addr;
        backend = p->backend;
        r->first = p->state == PROCESS_STARTING;
        if (r->first)
            timer_start(p->pool->loop, &p->deadline, p->group->s->start_timeout_ms);
    }
    r->backend = conn_backend_ref(backend);
}

void slot_request_continue(struct core_request *core)
{
    struct slot_request *r = container_of(core, struct slot_request, core);

    slot_queue_stop_waiting(r);
    slot_queue_run(r);
    r->go(r);
}

static void on_slot_queue_timeout(struct timer *t)
{
    struct slot_request *r = container_of(t, struct slot_request, timeout);

    core_leave(&r->core, loop_now_ms(loop_of(r)));
    slot_queue_stop_waiting(r);
    r->rejected(r, OUTCOME_QUEUE_WAIT);
}

/* ---- asking ---- */

/* Whether S has no process because starts fail repeatedly; a request must not wait for that. */
static bool will_not_start(const struct slot *s)
{
    return s->core.process == NULL && s->start_failures > 0 &&
           loop_now_ms(s->group->pool->loop) < s->core.not_before_ms;
}

static bool has_ready_process(const struct app_group *g, const struct slot *s)
{
    if (s == NULL)
        return g->core.nprocesses > g->core.nstarting;
    return s->core.process != NULL && s->core.process->state == CORE_READY;
}

/* Whether the request must be rejected without asking the core; *WHY is the reason. */
static bool is_hopeless(const struct app_group *g, const struct slot *s, enum agent_outcome *why)
{
    const struct slot *other;
    bool any = s != NULL ? s->core.process != NULL : g->core.nprocesses > 0;

    *why = OUTCOME_STOPPING;
    if (g->pool->leaving || g->pool->sealed ||
        ((g->pool->draining || g->pool->handed_over) && !any))
        return true;
    *why = OUTCOME_NO_ROOM;
    if (s != NULL && core_slot_crowded_out(&s->core))
        return true;
    *why = OUTCOME_NOT_STARTED;
    if (s != NULL)
        return !core_slot_enabled(&s->core) || will_not_start(s);
    list_for_each_entry (other, &g->core.slots, core.node) {
        if (core_slot_enabled(&other->core) && !will_not_start(other))
            return false;
    }
    return g->core.nprocesses == 0;
}

enum slot_result slot_acquire(struct app_group *g, struct slot *s, struct slot_request *r,
                              enum agent_outcome *why)
{
    uint64_t starts;

    r->group = g;
    r->slot = s;
    r->asked_us = loop_now_us(g->pool->loop);
    if (is_hopeless(g, s, why))
        return SLOT_REJECTED;
    app_pool_settle(g->pool);
    switch (core_request_process(&g->core, s != NULL ? &s->core : NULL, &r->core,
                                 loop_now_ms(loop_of(r)))) {
    case CORE_GO_NOW:
        slot_queue_run(r);
        return SLOT_GO;
    case CORE_WAIT:
        stat_add(g->cell, AGENT_STAT_requests_waiting, 1);
        timer_init(&r->timeout, on_slot_queue_timeout);
        starts = has_ready_process(g, s) ? 0 : 1;
        /* With one_shot a process is started for each request before it, and for itself. */
        if (g->core.one_shot)
            starts = (s != NULL ? s->core.nwaiting : g->core.nwaiting) + 1;
        timer_start(loop_of(r), &r->timeout,
                    g->s->queue_timeout_ms + starts * g->s->start_timeout_ms);
        return SLOT_WAIT;
    case CORE_QUEUE_FULL:
        break;
    }
    *why = OUTCOME_QUEUE_FULL;
    return SLOT_REJECTED;
}

/* ---- going ---- */

void slot_leave(struct slot_request *r)
{
    struct app_process *p = slot_request_process(r);
    bool first = r->first;

    conn_backend_release(r->backend);
    r->backend = NULL;
    if (r->core.state == CORE_REQUEST_NONE)
        return;
    if (r->core.state == CORE_REQUEST_WAITING)
        slot_queue_stop_waiting(r);
    else
        stop_running(r);
    core_leave(&r->core, loop_now_ms(loop_of(r)));
    if (first && p != NULL)
        app_process_first_done(p, false);
    app_pool_settle(r->group->pool);
}

void slot_responded(struct slot_request *r)
{
    struct app_process *p = slot_request_process(r);
    bool first = r->first;

    if (r->core.state != CORE_REQUEST_RUNNING)
        return;
    r->first = false;
    if (p != NULL)
        p->has_served = true;
    if (p != NULL && first)
        app_process_first_done(p, true);
}

void slot_upgraded(struct slot_request *r)
{
    if (r->core.state != CORE_REQUEST_RUNNING)
        return;
    ASSERT(!r->core.placeless);
    ++r->slot->ntunnels;
    stat_add(r->group->cell, AGENT_STAT_tunnels_open, 1);
    core_upgraded(&r->core, loop_now_ms(loop_of(r)));
    app_pool_settle(r->group->pool);
}

size_t slot_in_flight(const struct slot *s)
{
    return s->core.nwaiting + s->nrunning - s->ntunnels;
}

size_t slot_backlog(const struct slot_request *r)
{
    if (r->slot == NULL)
        return r->group->core.nwaiting + 1;
    return slot_in_flight(r->slot) + (r->core.state == CORE_REQUEST_NONE ? 1 : 0);
}

void slot_process_stuck(struct slot_request *r, const char *setting)
{
    struct app_process *p = slot_request_process(r);

    if (r->core.state != CORE_REQUEST_RUNNING || p == NULL || r->group->s->concurrency != 1)
        return;
    log_warn(p, "process-stuck", "setting=%s action=\"stop it, start another\"", setting);
    app_process_failed(p, FAILURE_STUCK, "");
    app_process_stop(p);
    /* Another worker may serve waiting requests before the next process is ready. */
    if (!has_ready_process(r->group, r->slot))
        slot_reject_waiting(r->group, r->slot, OUTCOME_NOT_STARTED);
}

void slot_abandon_running(struct core_process *p)
{
    struct core_request *core;

    list_for_each_entry (core, &p->running, node)
        stop_running(container_of(core, struct slot_request, core));
}

/* ---- rejecting ---- */

void slot_reject_waiting(struct app_group *g, struct slot *s, enum agent_outcome why)
{
    struct list *waiting = s != NULL ? &s->core.waiting : &g->core.waiting;

    /* Only the requests waiting now: a rejected one may be queued again. */
    for (size_t n = s != NULL ? s->core.nwaiting : g->core.nwaiting; n > 0 && !list_empty(waiting);
         --n) {
        struct core_request *core = list_first(waiting, struct core_request, node);
        struct slot_request *r = container_of(core, struct slot_request, core);

        core_leave(core, loop_now_ms(loop_of(r)));
        slot_queue_stop_waiting(r);
        r->rejected(r, why);
    }
}

void slot_reject_hopeless(struct slot *s)
{
    const struct app_pool *pool = s->group->pool;

    if (pool->leaving || (pool->handed_over && s->core.process == NULL))
        slot_reject_waiting(s->group, s, OUTCOME_STOPPING);
    if (pool->leaving || (pool->handed_over && s->group->core.nprocesses == 0))
        slot_reject_waiting(s->group, NULL, OUTCOME_STOPPING);
}
