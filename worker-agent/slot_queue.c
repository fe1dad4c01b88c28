/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of a slot: waiting in order, running up to `concurrency`. A request is in one of the two
 * lists or in none, as its state says.
 *
 * A process without ready_probe gets its first request while it is STARTING, alone: that is its
 * probe.
 */
#include "worker-agent/slot_queue.h"

#include "worker-agent/app_group.h"
#include "worker-agent/app_pool.h"

/* How long a process whose connection broke may take to be reported dead. */
enum { HOLD_MS = 50 };

static void count_lists(struct slot *s, int waiting, int running)
{
    s->nwaiting += (size_t)waiting;
    s->nrunning += (size_t)running;
    if (waiting != 0)
        stat_add(s->group->cell, AGENT_STAT_requests_waiting, waiting);
    if (running != 0)
        stat_add(s->group->cell, AGENT_STAT_requests_running, running);
}

static void leave_list(struct slot_request *r)
{
    if (r->state == SLOT_REQUEST_WAITING)
        count_lists(r->slot, -1, 0);
    if (r->state == SLOT_REQUEST_RUNNING)
        count_lists(r->slot, 0, -1);
    list_remove(&r->node);
    timer_stop(&r->timeout);
    r->state = SLOT_REQUEST_NONE;
}

/* ---- places ---- */

static size_t places(const struct slot *s)
{
    if (timer_running(&s->held))
        return 0;
    if (s->attached != NULL)
        return (size_t)s->group->s->concurrency;
    if (s->process == NULL)
        return 0;
    size_t taken = s->process->busy_elsewhere;
    if (s->process->state == PROCESS_READY) {
        size_t all = (size_t)s->group->s->concurrency;

        return all > taken ? all - taken : 0;
    }
    if (taken > 0)
        return 0;
    return s->process->state == PROCESS_STARTING && s->process->takes_first ? 1 : 0;
}

static void run(struct slot *s, struct slot_request *r)
{
    struct conn_backend *backend = s->attached_backend;

    leave_list(r);
    r->state = SLOT_REQUEST_RUNNING;
    list_push_back(&s->running, &r->node);
    count_lists(s, 0, 1);
    stat_observe(s->group->cell, AGENT_STAT_queue_wait_us,
                 loop_now_us(s->group->pool->loop) - r->asked_us);
    if (s->attached != NULL) {
        r->addr = *s->attached;
    } else {
        r->addr = s->process->addr;
        backend = s->process->backend;
        ++s->process->requests;
        r->first = s->process->state == PROCESS_STARTING;
        if (r->first)
            app_process_first_sent(s->process);
    }
    r->backend = conn_backend_ref(backend);
}

void slot_dispatch(struct slot *s)
{
    while (s->nwaiting > 0 && s->nrunning < places(s)) {
        struct slot_request *r = list_first(&s->waiting, struct slot_request, node);

        run(s, r);
        r->go(r);
    }
}

static void on_timeout(struct timer *t)
{
    struct slot_request *r = container_of(t, struct slot_request, timeout);

    leave_list(r);
    r->refused(r, SLOT_QUEUE_TIMEOUT);
}

/* A process that fails to start again and again is no reason to wait. */
static bool will_not_start(const struct slot *s)
{
    return s->attached == NULL && s->process == NULL && s->start_failures > 0 &&
           loop_now_ms(s->group->pool->loop) < s->not_before_ms;
}

static bool has_ready_process(const struct slot *s)
{
    return s->attached != NULL || (s->process != NULL && s->process->state == PROCESS_READY);
}

enum slot_answer slot_ask(struct slot *s, struct slot_request *r, enum slot_refusal *why)
{
    const struct app_settings *a = s->group->s;
    uint64_t wait_ms = a->queue_timeout_ms + (has_ready_process(s) ? 0 : a->start_timeout_ms);

    r->slot = s;
    r->asked_us = loop_now_us(s->group->pool->loop);
    if (s->group->pool->leaving ||
        (s->group->pool->draining && s->process == NULL && s->attached == NULL)) {
        *why = SLOT_STOPPED;
        return SLOT_REFUSED;
    }
    if (s->nwaiting == 0 && s->nrunning < places(s)) {
        run(s, r);
        return SLOT_GO;
    }
    if (will_not_start(s)) {
        *why = SLOT_NOT_STARTED;
        return SLOT_REFUSED;
    }
    if (s->nwaiting >= (size_t)a->max_queue && (has_ready_process(s) || s->nwaiting > 0)) {
        *why = SLOT_QUEUE_FULL;
        return SLOT_REFUSED;
    }
    r->state = SLOT_REQUEST_WAITING;
    list_push_back(&s->waiting, &r->node);
    count_lists(s, 1, 0);
    timer_init(&r->timeout, on_timeout);
    timer_start(s->group->pool->loop, &r->timeout, wait_ms);
    slot_want_process(s);
    return SLOT_WAIT;
}

void slot_leave(struct slot_request *r)
{
    struct slot *s = r->slot;
    bool ran = r->state == SLOT_REQUEST_RUNNING;

    if (r->backend != NULL)
        conn_backend_release(r->backend);
    r->backend = NULL;
    if (r->state == SLOT_REQUEST_NONE)
        return;
    leave_list(r);
    if (!ran)
        return;
    if (r->first && s->process != NULL)
        app_process_first_done(s->process, false);
    slot_dispatch(s);
}

void slot_answered(struct slot_request *r)
{
    bool first = r->first;

    if (r->state != SLOT_REQUEST_RUNNING || !first)
        return;
    r->first = false;
    if (r->slot->process != NULL)
        app_process_first_done(r->slot->process, true);
}

size_t slot_backlog(const struct slot_request *r)
{
    return r->slot->nwaiting + r->slot->nrunning + (r->state == SLOT_REQUEST_NONE ? 1 : 0);
}

void slot_hold(struct slot *s)
{
    if (s->attached == NULL && s->process != NULL)
        timer_start(s->group->pool->loop, &s->held, HOLD_MS);
}

void slot_process_stuck(struct slot_request *r)
{
    struct slot *s = r->slot;

    if (r->state != SLOT_REQUEST_RUNNING || s->process == NULL || s->group->s->concurrency > 1)
        return;
    log_warn(s->process, "process-stuck",
             "first_byte_timeout_ms=%llu action=\"end it, start another\"",
             (unsigned long long)s->group->s->first_byte_timeout_ms);
    app_process_failed(s->process, FAILURE_STUCK, "");
    app_process_stop(s->process);
}

void slot_abandon_running(struct slot *s)
{
    while (!list_empty(&s->running)) {
        struct slot_request *r = list_first(&s->running, struct slot_request, node);

        leave_list(r);
        r->first = false;
    }
}

void slot_refuse_waiting(struct slot *s, enum slot_refusal why)
{
    /* Those who wait now: who is refused may come again. */
    for (size_t n = s->nwaiting; n > 0 && !list_empty(&s->waiting); --n) {
        struct slot_request *r = list_first(&s->waiting, struct slot_request, node);

        leave_list(r);
        r->refused(r, why);
    }
}
