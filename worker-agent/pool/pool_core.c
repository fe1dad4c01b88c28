/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions and processes; pool_core_plan.c assigns processes to slots. For every reason, a process
 * leaves its slot in core_leave_slot only, and is then permanently detached.
 */
#include "worker-agent/pool/pool_core_internal.h"

#include <math.h>

/* The half-life of a group's traffic measure. */
enum { TRAFFIC_HALF_MS = 600000 };

void core_init(struct core *c)
{
    *c = (struct core){.max = 0};
    list_init(&c->groups);
    list_init(&c->replaces);
    list_init(&c->idle);
    list_init(&c->needs);
    list_init(&c->runnable);
    list_init(&c->to_end);
    list_init(&c->to_report);
}

void core_group_init(struct core *c, struct core_group *g)
{
    *g = (struct core_group){.core = c, .concurrency = 1};
    list_init(&g->waiting);
    list_init(&g->idle);
    list_init(&g->partly);
    list_push_back(&c->groups, &g->node);
}

void core_group_fini(struct core_group *g)
{
    ASSERT(g->nprocesses == 0);
    ASSERT(g->nwaiting == 0);
    for (unsigned n = 0; n < g->nslots; ++n) {
        list_remove(&g->slots[n]->need);
        list_remove(&g->slots[n]->runnable);
        list_remove(&g->slots[n]->report_node);
    }
    list_remove(&g->replaces);
    list_remove(&g->node);
}

void core_slot_init(struct core_group *g, struct core_slot *s, unsigned n)
{
    *s = (struct core_slot){.group = g, .n = n};
    list_init(&s->leaving);
    list_init(&s->waiting);
}

bool core_slot_enabled(const struct core_slot *s)
{
    const struct core_group *g = s->group;

    return g->max_processes == 0 || s->n < g->max_processes;
}

/* ---- where a process stands ---- */

/* P has had as many requests as it may have. */
static bool is_spent(const struct core_process *p)
{
    const struct core_group *g = p->slot->group;

    if (g->one_shot)
        return p->served > 0;
    /* Once nothing is started any more, it finishes what waits. */
    return g->max_requests != 0 && p->served >= g->max_requests && !g->core->stopped;
}

static bool has_place(const struct core_process *p)
{
    const struct core_group *g = p->slot->group;

    if (p->held || is_spent(p))
        return false;
    if (p->state == CORE_STARTING)
        return p->probing && p->sessions + p->elsewhere == 0;
    return p->state == CORE_READY && p->places + p->elsewhere < g->concurrency;
}

/*
 * Whether P is one that R may get. With one_shot that is a process of the current generation that
 * was started after R asked, so that each request is served by the newest code.
 */
static bool suits(const struct core_process *p, const struct core_request *r)
{
    const struct core_group *g = p->slot->group;

    return !g->one_shot || (p->generation == g->generation && p->born > r->turn);
}

void core_place(struct core_process *p)
{
    struct core_group *g = p->slot->group;
    struct core *c = g->core;
    struct list *home = NULL;
    bool idle = p->sessions + p->elsewhere == 0;

    if (p->state != CORE_READY || !idle)
        list_remove(&p->idle);
    else if (!list_linked(&p->idle))
        list_push_back(&c->idle, &p->idle);
    if (p->state == CORE_READY && has_place(p) && !g->one_shot)
        home = idle ? &g->idle : &g->partly;
    if (home == p->home)
        return;
    p->home = home;
    list_remove(&p->in_group);
    /* The process that became idle last is the next to be picked: its caches are warm, and the
       others idle long enough for max_idle_ms to end them. */
    if (home == &g->idle)
        list_push_front(home, &p->in_group);
    else if (home != NULL)
        list_push_back(home, &p->in_group);
}

void core_run_soon(struct core_slot *s)
{
    if (!list_linked(&s->runnable))
        list_push_back(&s->group->core->runnable, &s->runnable);
}

void core_report(struct core_slot *s)
{
    if (!list_linked(&s->report_node))
        list_push_back(&s->group->core->to_report, &s->report_node);
}

/* P, in no slot, is to be ended. */
static void end_now(struct core_process *p)
{
    struct core *c = p->slot->group->core;

    if (p->ending)
        return;
    p->ending = true;
    c->nending += p->marked != CORE_GIVES_WAY;
    list_remove(&p->leaving);
    list_push_back(&c->to_end, &p->leaving);
}

static void end_when_done(struct core_process *p)
{
    if (p->sessions == 0)
        end_now(p);
}

/* Another one of G's processes is to be replaced. */
static void add_marked(struct core_group *g)
{
    ++g->nmarked;
    if (!list_linked(&g->replaces))
        list_push_back(&g->core->replaces, &g->replaces);
}

/* The slot's process is P from now on. */
static void occupy_slot(struct core_slot *s, struct core_process *p)
{
    struct core_group *g = s->group;

    s->process = p;
    core_report(s);
    core_run_soon(s);
    ++g->nprocesses;
    g->nstarting += p->state == CORE_STARTING;
    if (p->marked != CORE_KEEP)
        add_marked(g);
    g->core->changed = true;
}

/* The slot then has no process any more, but maybe its replacement, ready or not. */
static void drop_from_slot(struct core_process *p)
{
    struct core_slot *s = p->slot;
    struct core_group *g = s->group;
    struct core_process *next = s->replacement;

    if (next != NULL)
        --g->core->replacements;
    s->replacement = NULL;
    if (s->process != p) {
        ASSERT(next == p);
        return;
    }
    --g->nprocesses;
    g->nstarting -= p->state == CORE_STARTING;
    g->nmarked -= p->marked != CORE_KEEP;
    s->process = NULL;
    core_report(s);
    if (next != NULL)
        occupy_slot(s, next);
    g->core->changed = true;
}

/* Requests that wait for any process may get a place at every slot. */
static void wake_group(struct core_group *g)
{
    for (unsigned n = 0; n < g->nslots; ++n) {
        if (g->slots[n]->process != NULL)
            core_run_soon(g->slots[n]);
    }
}

/* Moves requests for any process that were queued at this slot back to the group's queue. */
static void requeue_waiting(struct core_slot *s)
{
    struct core_group *g = s->group;
    struct core_request *r;

    list_for_each_entry_safe (r, &s->waiting, node) {
        if (!r->any)
            continue;
        list_remove(&r->node);
        --s->nwaiting;
        r->slot = NULL;
        struct list *at = g->waiting.next;
        while (at != &g->waiting && list_entry(at, struct core_request, node)->turn < r->turn)
            at = at->next;
        list_insert_before(at, &r->node);
        ++g->nwaiting;
    }
    if (g->nwaiting != 0)
        wake_group(g);
}

void core_leave_slot(struct core_process *p, enum core_reason why)
{
    struct core_slot *s = p->slot;

    ASSERT(p->state != CORE_LEAVING);
    drop_from_slot(p);
    p->state = CORE_LEAVING;
    ++s->group->core->leaving;
    s->group->core->nending += why == CORE_GIVES_WAY;
    p->marked = why;
    p->probing = false;
    core_place(p);
    list_push_back(&s->leaving, &p->leaving);
    core_report(s);
    end_when_done(p);
    if (s->process == NULL)
        requeue_waiting(s);
    core_need_again(s);
}

void core_mark(struct core_process *p, enum core_reason reason)
{
    struct core_slot *s = p->slot;

    if (p->state == CORE_LEAVING || p->marked != CORE_KEEP)
        return;
    p->marked = reason;
    if (s->process == p)
        add_marked(s->group);
    s->group->core->changed = true;
}

void core_detach(struct core_process *p, enum core_reason reason)
{
    if (p->state != CORE_LEAVING)
        core_leave_slot(p, reason);
}

void core_end(struct core_process *p, enum core_reason reason)
{
    core_detach(p, reason);
    end_now(p);
}

/* ---- processes come and go ---- */

void core_enter(struct core_slot *s, struct core_process *p, uint64_t now_ms)
{
    struct core_group *g = s->group;

    ASSERT(s->replacement == NULL);
    *p = (struct core_process){
        .slot = s, .state = CORE_STARTING, .generation = g->generation, .last_used_ms = now_ms};
    p->born = ++g->core->turns;
    list_init(&p->running);
    ++g->core->count;
    s->renew = s->for_group = s->for_min = false;
    list_remove(&s->need);
    core_report(s);
    if (s->process == NULL) {
        occupy_slot(s, p);
        return;
    }
    s->replacement = p;
    ++g->core->replacements;
}

void core_probing(struct core_process *p, bool probing)
{
    if (p->state != CORE_STARTING)
        return;
    p->probing = probing;
    core_run_soon(p->slot);
}

void core_ready(struct core_process *p, uint64_t now_ms)
{
    struct core_slot *s = p->slot;
    struct core_process *old = s->process;

    if (p->state != CORE_STARTING)
        return;
    core_report(s);
    if (s->replacement == p)
        core_leave_slot(old, old->marked);
    ASSERT(s->process == p);
    p->state = CORE_READY;
    p->probing = false;
    p->last_used_ms = now_ms;
    --s->group->nstarting;
    core_place(p);
    core_run_soon(s);
    s->group->core->changed = true;
}

void core_elsewhere(struct core_process *p, unsigned n)
{
    p->elsewhere = n;
    if (p->state == CORE_LEAVING)
        return;
    core_place(p);
    core_run_soon(p->slot);
    p->slot->group->core->changed = true;
}

void core_hold(struct core_process *p, bool held)
{
    p->held = held;
    core_place(p);
    core_run_soon(p->slot);
}

/* R's session is over; what that means for its process is the caller's. */
static void session_over(struct core_request *r)
{
    struct core_process *p = r->process;

    ASSERT(p != NULL);
    list_remove(&r->node);
    r->state = CORE_REQUEST_NONE;
    r->process = NULL;
    p->places -= !r->placeless;
    --p->sessions;
    p->slot->group->core->active -= p->sessions == 0;
}

void core_gone(struct core_process *p)
{
    struct core_slot *s = p->slot;
    struct core *c = s->group->core;

    while (!list_empty(&p->running))
        session_over(list_first(&p->running, struct core_request, node));
    if (p->state == CORE_LEAVING) {
        list_remove(&p->leaving);
        --c->leaving;
        c->nending -= p->ending || p->marked == CORE_GIVES_WAY;
    } else {
        drop_from_slot(p);
    }
    --c->count;
    p->state = CORE_LEAVING;
    p->home = NULL;
    list_remove(&p->idle);
    list_remove(&p->in_group);
    p->slot = NULL;
    if (s->process == NULL)
        requeue_waiting(s);
    core_need_again(s);
    c->changed = true;
}

/* ---- sessions ---- */

/* Its replacement is to be ready before P is spent. */
bool core_nearly_spent(const struct core_process *p)
{
    enum { PARTS = 10 };
    const struct core_group *g = p->slot->group;

    return !g->one_shot && g->max_requests != 0 &&
           p->served >= g->max_requests - g->max_requests / PARTS;
}

static void begin(struct core_request *r, struct core_process *p, uint64_t now_ms)
{
    struct core_group *g = p->slot->group;
    double halves = (double)(now_ms - g->traffic_ms) / TRAFFIC_HALF_MS;

    r->state = CORE_REQUEST_RUNNING;
    r->process = p;
    r->placeless = false;
    list_push_back(&p->running, &r->node);
    g->core->active += p->sessions == 0;
    ++p->sessions;
    ++p->places;
    ++p->served;
    p->last_used_ms = now_ms;
    if (core_nearly_spent(p))
        core_mark(p, CORE_SPENT);
    g->traffic = g->traffic * exp2(-halves) + 1;
    g->traffic_ms = now_ms;
    core_place(p);
}

static void leave_line(struct core_request *r)
{
    list_remove(&r->node);
    r->state = CORE_REQUEST_NONE;
    if (r->slot != NULL)
        --r->slot->nwaiting;
    else
        --r->group->nwaiting;
}

void core_leave(struct core_request *r, uint64_t now_ms)
{
    struct core_process *p = r->process;

    if (r->state == CORE_REQUEST_WAITING)
        leave_line(r);
    if (p == NULL)
        return;
    session_over(r);
    p->last_used_ms = now_ms;
    core_place(p);
    if (p->state == CORE_LEAVING)
        end_when_done(p);
    core_run_soon(p->slot);
    p->slot->group->core->changed = true;
}

void core_upgraded(struct core_request *r, uint64_t now_ms)
{
    if (r->state != CORE_REQUEST_RUNNING || r->placeless)
        return;
    r->placeless = true;
    --r->process->places;
    r->process->last_used_ms = now_ms;
    core_place(r->process);
    core_run_soon(r->process->slot);
}

/* ---- asking ---- */

static void wait_in(struct core_request *r, struct core_slot *s)
{
    r->state = CORE_REQUEST_WAITING;
    r->slot = s;
    if (s != NULL) {
        list_push_back(&s->waiting, &r->node);
        ++s->nwaiting;
    } else {
        list_push_back(&r->group->waiting, &r->node);
        ++r->group->nwaiting;
    }
}

/*
 * Whether R is what the slot's replacement waits for: without a ready_probe it becomes ready by
 * answering a request, which would otherwise go to the old process. When that one is at
 * max_requests, the replacement takes any request, like the first process of a slot.
 */
static bool accepts_probe(const struct core_slot *s, const struct core_request *r)
{
    const struct core_process *p = s->replacement;

    return p != NULL && has_place(p) && suits(p, r) && (r->may_probe || is_spent(s->process));
}

static enum core_answer ask_slot(struct core_slot *s, struct core_request *r, uint64_t now_ms)
{
    const struct core_group *g = s->group;
    struct core_process *p = s->process;
    bool ready = p != NULL && p->state == CORE_READY;

    if (!core_slot_enabled(s))
        return CORE_QUEUE_FULL;
    if (accepts_probe(s, r))
        p = s->replacement;
    if (p != NULL && s->nwaiting == 0 && has_place(p) && suits(p, r) &&
        !core_yields(p, r, now_ms)) {
        begin(r, p, now_ms);
        return CORE_GO_NOW;
    }
    /* A cold slot queues one request even if max_queue is 0, because a request is needed to
     * activate it. */
    if (s->nwaiting >= g->max_queue && (ready || s->nwaiting > 0))
        return CORE_QUEUE_FULL;
    wait_in(r, s);
    core_need_process(s);
    core_run_soon(s);
    return CORE_WAIT;
}

/* Returns the slot with the lowest load; NULL if the group has no process. */
static struct core_slot *least_loaded(const struct core_group *g)
{
    struct core_slot *best = NULL;
    size_t least = 0;

    for (unsigned n = 0; n < g->nslots; ++n) {
        struct core_slot *s = g->slots[n];

        if (s->process == NULL || !core_slot_enabled(s))
            continue;
        size_t load = s->process->places + s->nwaiting;
        if (best == NULL || load < least) {
            best = s;
            least = load;
        }
    }
    return best;
}

static enum core_answer ask_group(struct core_group *g, struct core_request *r, uint64_t now_ms)
{
    const struct list *free = list_empty(&g->idle) ? &g->partly : &g->idle;
    struct core_process *p = NULL;
    struct core_slot *s = NULL;

    if (g->nwaiting == 0 && g->replacing != NULL && g->replacing->nwaiting == 0 &&
        accepts_probe(g->replacing, r)) {
        begin(r, g->replacing->replacement, now_ms);
        return CORE_GO_NOW;
    }
    if (g->nwaiting == 0 && !list_empty(free))
        p = list_first(free, struct core_process, in_group);
    if (p != NULL && !core_yields(p, r, now_ms)) {
        begin(r, p, now_ms);
        return CORE_GO_NOW;
    }
    if (g->queue == CORE_QUEUE_PRIVATE)
        s = least_loaded(g);
    if ((s != NULL ? s->nwaiting : g->nwaiting) >= g->max_queue &&
        (g->nprocesses > 0 || g->nwaiting > 0))
        return CORE_QUEUE_FULL;
    wait_in(r, s);
    core_need_more(g);
    if (s != NULL)
        core_run_soon(s);
    else
        wake_group(g);
    return CORE_WAIT;
}

enum core_answer core_ask(struct core_group *g, struct core_slot *s, struct core_request *r,
                          uint64_t now_ms)
{
    ASSERT(r->state == CORE_REQUEST_NONE);
    r->group = g;
    r->slot = s;
    r->process = NULL;
    r->turn = ++g->core->turns;
    r->any = s == NULL;
    return s != NULL ? ask_slot(s, r, now_ms) : ask_group(g, r, now_ms);
}

/* ---- giving places ---- */

struct core_request *core_dispatch(struct core_slot *s, uint64_t now_ms)
{
    struct core_process *p = s->process;
    struct core_group *g = s->group;
    struct core_request *r = NULL;

    if (p == NULL)
        return NULL;
    /* The older of the first ones in its own queue and in the group's. */
    if (s->nwaiting > 0)
        r = list_first(&s->waiting, struct core_request, node);
    if (g->nwaiting > 0) {
        struct core_request *any = list_first(&g->waiting, struct core_request, node);

        r = r != NULL && r->turn < any->turn ? r : any;
    }
    /* With one_shot, a process that has nothing to do, and will not get R, is of no use. */
    if (g->one_shot && (p->state == CORE_READY || p->probing) && p->places + p->elsewhere == 0 &&
        (is_spent(p) || r == NULL || !suits(p, r))) {
        core_leave_slot(p, CORE_SPENT);
        return NULL;
    }
    if (r == NULL)
        return NULL;
    if (accepts_probe(s, r))
        p = s->replacement;
    if (!has_place(p) || !suits(p, r))
        return NULL;
    if (core_yields(p, r, now_ms)) {
        core_leave_slot(p, CORE_GIVES_WAY);
        return NULL;
    }
    leave_line(r);
    begin(r, p, now_ms);
    /* The others that wait may need a process of their own. */
    if (g->nwaiting > 0)
        core_need_more(g);
    return r;
}
