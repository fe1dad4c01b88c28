/* SPDX-License-Identifier: Apache-2.0
 *
 * For every reason, a process leaves its slot in core_detach only, permanently. Slots that need a
 * process are queued; the first that may have one gets it. If there is no room, an idle process is
 * ended: any idle process for requests that wait for a process, and only a spare one for
 * min_processes or for an additional process of a busy group.
 */
#include "worker-agent/pool/pool_core.h"

#include <math.h>

enum {
    /* The half-life of a group's traffic measure. */
    TRAFFIC_HALF_MS = 600000,
    /* Idle times that differ by less count as equal; traffic then decides. */
    TIE_MS = 1000,
    /* Minimum idle time of a process before it is ended for min_processes or for an additional
       process of a busy group: a recently used process is likely to be used again. */
    SPARE_IDLE_MS = 10000,
};

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
    list_init(&g->slots);
    list_init(&g->waiting);
    list_init(&g->idle);
    list_init(&g->partly);
    list_push_back(&c->groups, &g->node);
}

void core_group_fini(struct core_group *g)
{
    ASSERT(g->nprocesses == 0);
    ASSERT(g->nwaiting == 0);
    list_remove(&g->replaces);
    list_remove(&g->node);
}

void core_slot_init(struct core_group *g, struct core_slot *s)
{
    *s = (struct core_slot){.group = g, .n = g->nslots++};
    list_init(&s->leaving);
    list_init(&s->waiting);
    list_push_back(&g->slots, &s->node);
}

void core_slot_fini(struct core_slot *s)
{
    list_remove(&s->need);
    list_remove(&s->runnable);
    list_remove(&s->report_node);
    list_remove(&s->node);
    --s->group->nslots;
}

bool core_slot_enabled(const struct core_slot *s)
{
    const struct core_group *g = s->group;

    return g->max_processes == 0 || s->n < g->max_processes;
}

/* ---- the state of a process ---- */

/* P has had as many requests as it may have. */
static bool is_spent(const struct core_process *p)
{
    const struct core_group *g = p->slot->group;

    if (g->one_shot)
        return p->served > 0;
    /* If no process is started any more, this one continues with the waiting requests. */
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
static bool suits_request(const struct core_process *p, const struct core_request *r)
{
    const struct core_group *g = p->slot->group;

    return !g->one_shot || (p->generation == g->generation && p->born > r->order);
}

/* Inserts P into the lists that match its state. */
static void core_relist(struct core_process *p)
{
    struct core_group *g = p->slot->group;
    struct core *c = g->core;
    struct list *listed_in = NULL;
    bool idle = p->sessions + p->elsewhere == 0;

    if (p->state != CORE_READY || !idle)
        list_remove(&p->idle);
    else if (!list_linked(&p->idle))
        list_push_back(&c->idle, &p->idle);
    if (p->state == CORE_READY && has_place(p) && !g->one_shot)
        listed_in = idle ? &g->idle : &g->partly;
    if (listed_in == p->listed_in)
        return;
    p->listed_in = listed_in;
    list_remove(&p->in_group);
    /* The process that became idle last is the next to be picked: its caches are warm, and the
       others idle long enough for max_idle_ms to end them. */
    if (listed_in == &g->idle)
        list_push_front(listed_in, &p->in_group);
    else if (listed_in != NULL)
        list_push_back(listed_in, &p->in_group);
}

/* A request waiting at S may get a place now. */
static void run_soon(struct core_slot *s)
{
    if (!list_linked(&s->runnable))
        list_push_back(&s->group->core->runnable, &s->runnable);
}

static void core_report(struct core_slot *s)
{
    if (!list_linked(&s->report_node))
        list_push_back(&s->group->core->to_report, &s->report_node);
}

/* ---- which slots need a process ---- */

static bool has_reason(const struct core_slot *s)
{
    const struct core_group *g = s->group;

    if (s->process != NULL || g->core->stopped || !core_slot_enabled(s))
        return false;
    if (g->one_shot)
        return s->nwaiting > 0 || (s->for_group && g->nwaiting > 0);
    return s->nwaiting > 0 || s->renew || (s->for_min && g->nprocesses < g->min_processes) ||
           (s->for_group && list_empty(&g->idle));
}

/* Queues S for a process. No effect if S has one or must not have one. */
static void need_process(struct core_slot *s)
{
    struct core *c = s->group->core;

    c->changed = true;
    if (s->process != NULL || list_linked(&s->need) || !core_slot_enabled(s))
        return;
    list_push_back(&c->needs, &s->need);
    core_report(s);
}

/* All processes of G are busy: requests one more. */
static void need_more(struct core_group *g)
{
    struct core_slot *dormant = NULL;
    struct core_slot *s;

    g->core->changed = true;
    if (g->nstarting > 0)
        return;
    list_for_each_entry (s, &g->slots, node) {
        if (s->process != NULL || !core_slot_enabled(s))
            continue;
        if (s->for_group)
            return;
        if (dormant == NULL || s->not_before_ms < dormant->not_before_ms)
            dormant = s;
    }
    if (dormant == NULL)
        return;
    dormant->for_group = true;
    need_process(dormant);
}

/* Like need_process, but only if there is a reason for a process. */
static void need_again(struct core_slot *s)
{
    struct core_group *g = s->group;
    unsigned there = g->nprocesses;
    struct core_slot *dormant;

    if (has_reason(s))
        need_process(s);
    /* As many dormant slots as are missing to min_processes, from the first. */
    list_for_each_entry (dormant, &g->slots, node) {
        if (g->one_shot || there >= g->min_processes)
            break;
        if (dormant->process != NULL || !core_slot_enabled(dormant))
            continue;
        dormant->for_min = true;
        need_process(dormant);
        ++there;
    }
    if (g->nwaiting > 0)
        need_more(g);
}

/* ---- room ---- */

/* Number of processes that remain when those being ended or giving way have exited. */
static unsigned count_staying(const struct core *c)
{
    return c->count + c->strays - c->nending;
}

static bool has_room(const struct core *c)
{
    return c->max == 0 || c->count + c->strays < c->max;
}

/* Whether the exiting processes make room for one more process after BEFORE others. */
static bool room_comes(const struct core *c, unsigned before)
{
    return c->max != 0 && count_staying(c) + before < c->max;
}

static bool is_better_victim(const struct core_process *a, const struct core_process *b)
{
    const struct core_group *ga = a->slot->group;
    const struct core_group *gb = b->slot->group;
    bool spare_a = ga->nprocesses > ga->min_processes;
    bool spare_b = gb->nprocesses > gb->min_processes;

    if (spare_a != spare_b)
        return spare_a;
    if (a->last_used_ms + TIE_MS < b->last_used_ms)
        return true;
    return a->last_used_ms <= b->last_used_ms + TIE_MS && ga->traffic < gb->traffic;
}

/* The least valuable idle process, preferably of another group than G. NOW_MS, unless UINT64_MAX:
 * only processes idle for SPARE_IDLE_MS, in groups that have more than min_processes. */
static struct core_process *find_victim(const struct core *c, const struct core_group *g,
                                        uint64_t now_ms)
{
    struct core_process *best = NULL;
    struct core_process *own = NULL;
    struct core_process *p;

    list_for_each_entry (p, &c->idle, idle) {
        if (now_ms != UINT64_MAX && (p->slot->group->nprocesses <= p->slot->group->min_processes ||
                                     p->last_used_ms + SPARE_IDLE_MS > now_ms))
            continue;
        if (p->slot->group == g) {
            own = own != NULL ? own : p;
            continue;
        }
        if (best == NULL || is_better_victim(p, best))
            best = p;
    }
    return best != NULL ? best : own;
}

bool core_slot_crowded_out(const struct core_slot *s)
{
    const struct core_group *g = s->group;
    const struct core *c = g->core;

    /* With one_shot each process ends with its request, and makes room. */
    if (s->process != NULL || g->nprocesses == 0 || g->one_shot || has_room(c) || room_comes(c, 0))
        return false;
    const struct core_process *victim = find_victim(c, g, UINT64_MAX);
    return victim == NULL || victim->slot->group == g;
}

/* The order of the oldest request waiting at S or in its group; UINT64_MAX: none waits. */
static uint64_t first_order(const struct core_slot *s)
{
    const struct core_group *g = s->group;
    uint64_t order = UINT64_MAX;

    if (s->nwaiting > 0)
        order = list_first(&s->waiting, struct core_request, node)->order;
    if (s->for_group && g->nwaiting > 0) {
        uint64_t any = list_first(&g->waiting, struct core_request, node)->order;

        order = any < order ? any : order;
    }
    return order;
}

/* P must not take R: it is to make room for an older request of a group without a process. */
static bool must_yield(const struct core_process *p, const struct core_request *r, uint64_t now_ms)
{
    const struct core *c = p->slot->group->core;
    const struct core_slot *s;
    unsigned before = 0;

    /* Upgraded connections may last indefinitely. */
    if (c->max == 0 || p->state != CORE_READY || p->sessions != p->places || p->elsewhere > 0)
        return false;
    list_for_each_entry (s, &c->needs, need) {
        if (!has_reason(s) || now_ms < s->not_before_ms)
            continue;
        if (s->group->nprocesses == 0 && first_order(s) < r->order &&
            count_staying(c) + before >= c->max)
            return true;
        ++before;
    }
    return false;
}

/* ---- a process leaves its slot ---- */

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
    run_soon(s);
    ++g->nprocesses;
    g->nstarting += p->state == CORE_STARTING;
    if (p->marked != CORE_KEEP)
        add_marked(g);
    g->core->changed = true;
}

/* Detaches P from its slot, which then has its replacement, ready or not, or no process. */
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
    struct core_slot *s;

    list_for_each_entry (s, &g->slots, node) {
        if (s->process != NULL)
            run_soon(s);
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
        while (at != &g->waiting && list_entry(at, struct core_request, node)->order < r->order)
            at = at->next;
        list_insert_before(at, &r->node);
        ++g->nwaiting;
    }
    if (g->nwaiting != 0)
        wake_group(g);
}

void core_detach(struct core_process *p, enum core_reason reason)
{
    struct core_slot *s = p->slot;

    if (p->state == CORE_LEAVING)
        return;
    drop_from_slot(p);
    p->state = CORE_LEAVING;
    ++s->group->core->leaving;
    s->group->core->nending += reason == CORE_GIVES_WAY;
    p->marked = reason;
    p->probing = false;
    core_relist(p);
    list_push_back(&s->leaving, &p->leaving);
    core_report(s);
    if (p->sessions == 0)
        end_now(p);
    if (s->process == NULL)
        requeue_waiting(s);
    need_again(s);
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
    p->born = ++g->core->orders;
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
    run_soon(p->slot);
}

void core_ready(struct core_process *p, uint64_t now_ms)
{
    struct core_slot *s = p->slot;
    struct core_process *old = s->process;

    if (p->state != CORE_STARTING)
        return;
    core_report(s);
    if (s->replacement == p)
        core_detach(old, old->marked);
    ASSERT(s->process == p);
    p->state = CORE_READY;
    p->probing = false;
    p->last_used_ms = now_ms;
    --s->group->nstarting;
    core_relist(p);
    run_soon(s);
    s->group->core->changed = true;
}

void core_elsewhere(struct core_process *p, unsigned n)
{
    p->elsewhere = n;
    if (p->state == CORE_LEAVING)
        return;
    core_relist(p);
    run_soon(p->slot);
    p->slot->group->core->changed = true;
}

void core_hold(struct core_process *p, bool held)
{
    p->held = held;
    core_relist(p);
    run_soon(p->slot);
}

/* Ends R's session. The caller must update the lists of the process (core_relist). */
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

void core_exited(struct core_process *p)
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
    p->listed_in = NULL;
    list_remove(&p->idle);
    list_remove(&p->in_group);
    p->slot = NULL;
    if (s->process == NULL)
        requeue_waiting(s);
    need_again(s);
    c->changed = true;
}

/* ---- sessions ---- */

/* P is near max_requests: its replacement should be ready before P is spent. */
static bool nearly_spent(const struct core_process *p)
{
    enum { PARTS = 10 };
    const struct core_group *g = p->slot->group;

    return !g->one_shot && g->max_requests != 0 &&
           p->served >= g->max_requests - g->max_requests / PARTS;
}

static void core_begin(struct core_request *r, struct core_process *p, uint64_t now_ms)
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
    if (nearly_spent(p))
        core_mark(p, CORE_SPENT);
    g->traffic = g->traffic * exp2(-halves) + 1;
    g->traffic_ms = now_ms;
    core_relist(p);
}

static void leave_queue(struct core_request *r)
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
        leave_queue(r);
    if (p == NULL)
        return;
    session_over(r);
    p->last_used_ms = now_ms;
    core_relist(p);
    if (p->state == CORE_LEAVING && p->sessions == 0)
        end_now(p);
    run_soon(p->slot);
    p->slot->group->core->changed = true;
}

void core_upgraded(struct core_request *r, uint64_t now_ms)
{
    if (r->state != CORE_REQUEST_RUNNING || r->placeless)
        return;
    r->placeless = true;
    --r->process->places;
    r->process->last_used_ms = now_ms;
    core_relist(r->process);
    run_soon(r->process->slot);
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
 * responding to a request, which would otherwise go to the old process. When that one is at
 * max_requests, the replacement takes any request, like the first process of a slot.
 */
static bool accepts_probe(const struct core_slot *s, const struct core_request *r)
{
    const struct core_process *p = s->replacement;

    return p != NULL && has_place(p) && suits_request(p, r) &&
           (r->may_probe || is_spent(s->process));
}

static enum core_result ask_slot(struct core_slot *s, struct core_request *r, uint64_t now_ms)
{
    const struct core_group *g = s->group;
    struct core_process *p = s->process;
    bool ready = p != NULL && p->state == CORE_READY;

    if (!core_slot_enabled(s))
        return CORE_QUEUE_FULL;
    if (accepts_probe(s, r))
        p = s->replacement;
    if (p != NULL && s->nwaiting == 0 && has_place(p) && suits_request(p, r) &&
        !must_yield(p, r, now_ms)) {
        core_begin(r, p, now_ms);
        return CORE_GO_NOW;
    }
    /* A dormant slot queues one request even if max_queue is 0: it activates the slot. */
    if (s->nwaiting >= g->max_queue && (ready || s->nwaiting > 0))
        return CORE_QUEUE_FULL;
    wait_in(r, s);
    need_process(s);
    run_soon(s);
    return CORE_WAIT;
}

static enum core_result ask_group(struct core_group *g, struct core_request *r, uint64_t now_ms)
{
    const struct list *free = list_empty(&g->idle) ? &g->partly : &g->idle;
    struct core_process *p = NULL;
    struct core_slot *s = NULL; /* where R waits; NULL: in the group's queue */
    struct core_slot *other;
    size_t least = SIZE_MAX;

    if (g->nwaiting == 0 && g->replacing != NULL && g->replacing->nwaiting == 0 &&
        accepts_probe(g->replacing, r)) {
        core_begin(r, g->replacing->replacement, now_ms);
        return CORE_GO_NOW;
    }
    if (g->nwaiting == 0 && !list_empty(free))
        p = list_first(free, struct core_process, in_group);
    if (p != NULL && !must_yield(p, r, now_ms)) {
        core_begin(r, p, now_ms);
        return CORE_GO_NOW;
    }
    /* The slot with the lowest load; none if the group has no process. */
    if (g->queue == CORE_QUEUE_PRIVATE) {
        list_for_each_entry (other, &g->slots, node) {
            p = other->process;
            if (p != NULL && core_slot_enabled(other) && p->places + other->nwaiting < least) {
                least = p->places + other->nwaiting;
                s = other;
            }
        }
    }
    if ((s != NULL ? s->nwaiting : g->nwaiting) >= g->max_queue &&
        (g->nprocesses > 0 || g->nwaiting > 0))
        return CORE_QUEUE_FULL;
    wait_in(r, s);
    need_more(g);
    if (s != NULL)
        run_soon(s);
    else
        wake_group(g);
    return CORE_WAIT;
}

enum core_result core_request_process(struct core_group *g, struct core_slot *s,
                                      struct core_request *r, uint64_t now_ms)
{
    ASSERT(r->state == CORE_REQUEST_NONE);
    r->group = g;
    r->slot = s;
    r->process = NULL;
    r->order = ++g->core->orders;
    r->any = s == NULL;
    return s != NULL ? ask_slot(s, r, now_ms) : ask_group(g, r, now_ms);
}

/* ---- assigning places ---- */

/* Starts the next waiting request that can have a place at S and returns it, or NULL. */
static struct core_request *start_waiting(struct core_slot *s, uint64_t now_ms)
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

        r = r != NULL && r->order < any->order ? r : any;
    }
    /* With one_shot, a process that has nothing to do, and will not get R, is of no use. */
    if (g->one_shot && (p->state == CORE_READY || p->probing) && p->places + p->elsewhere == 0 &&
        (is_spent(p) || r == NULL || !suits_request(p, r))) {
        core_detach(p, CORE_SPENT);
        return NULL;
    }
    if (r == NULL)
        return NULL;
    if (accepts_probe(s, r))
        p = s->replacement;
    if (!has_place(p) || !suits_request(p, r))
        return NULL;
    if (must_yield(p, r, now_ms)) {
        core_detach(p, CORE_GIVES_WAY);
        return NULL;
    }
    leave_queue(r);
    core_begin(r, p, now_ms);
    /* The others that wait may need a process of their own. */
    if (g->nwaiting > 0)
        need_more(g);
    return r;
}

/* ---- deciding ---- */

/* Whether requests wait for a process at S. */
static bool is_urgent(const struct core_slot *s)
{
    return s->nwaiting > 0 || (s->for_group && s->group->nprocesses == 0);
}

static bool decide_needs(struct core *c, uint64_t now_ms, struct core_action *out)
{
    struct core_slot *s;
    unsigned before = 0;

    list_for_each_entry_safe (s, &c->needs, need) {
        if (!has_reason(s)) {
            s->renew = s->for_group = s->for_min = false;
            list_remove(&s->need);
            core_report(s);
            continue;
        }
        if (now_ms < s->not_before_ms)
            continue;
        if (has_room(c)) {
            list_remove(&s->need);
            *out = (struct core_action){.what = CORE_SPAWN, .slot = s};
            return true;
        }
        struct core_process *victim = NULL;
        if (!room_comes(c, before) && (is_urgent(s) || s->for_min || s->for_group))
            victim = find_victim(c, s->group, is_urgent(s) ? UINT64_MAX : now_ms);
        if (victim != NULL)
            core_detach(victim, CORE_GIVES_WAY);
        before += room_comes(c, before);
    }
    return false;
}

/* The coldest process of G that is to be replaced; NULL: none can be at present. */
static struct core_process *coldest_marked(const struct core_group *g)
{
    struct core_process *best = NULL;
    const struct core_slot *s;

    list_for_each_entry (s, &g->slots, node) {
        struct core_process *p = s->process;

        if (p == NULL || p->marked == CORE_KEEP || p->state != CORE_READY || !core_slot_enabled(s))
            continue;
        if (best == NULL || p->warmth < best->warmth ||
            (p->warmth <= best->warmth && p->served < best->served))
            best = p;
    }
    return best;
}

/* Begins to replace one process of G. Returns true if OUT is the action for it. */
static bool replace_one(struct core_group *g, uint64_t now_ms, struct core_action *out)
{
    struct core *c = g->core;
    const struct core_slot *now = g->replacing;

    /* Whether that replacement is over. */
    if (now != NULL && now->replacement == NULL && !(now->renew && has_reason(now)) &&
        (now->process == NULL || now->process->state != CORE_STARTING))
        g->replacing = NULL;
    if (g->nmarked == 0 || g->replacing != NULL || now_ms < g->replace_not_before_ms)
        return false;
    struct core_process *p = coldest_marked(g);
    if (p == NULL || c->stopped || g->one_shot)
        return false;
    struct core_slot *s = p->slot;
    if (has_room(c) || (c->overlap && c->count + c->strays <= c->max)) {
        g->replacing = s;
        *out = (struct core_action){.what = CORE_SPAWN, .slot = s};
        return true;
    }
    /* There is never room for both, so the old process is detached first. It finishes its sessions
     * but receives no new ones; under load it would never be without a session. */
    if (!c->overlap && !room_comes(c, 0)) {
        g->replacing = s;
        s->renew = true;
        core_detach(p, p->marked);
        list_remove(&s->need);
        list_push_front(&c->needs, &s->need);
    }
    return false;
}

static bool decide_replacements(struct core *c, uint64_t now_ms, struct core_action *out)
{
    struct core_group *g;

    list_for_each_entry_safe (g, &c->replaces, replaces) {
        if (replace_one(g, now_ms, out)) {
            /* If there is room for only one replacement, the groups take turns. */
            list_remove(&g->replaces);
            list_push_back(&c->replaces, &g->replaces);
            return true;
        }
        if (g->nmarked == 0 && g->replacing == NULL)
            list_remove(&g->replaces);
    }
    return false;
}

struct core_action core_next(struct core *c, uint64_t now_ms)
{
    struct core_action out = {.what = CORE_NOTHING};

    for (;;) {
        struct core_process *victim = NULL;

        /* After a maximum was lowered: detaches one idle process for each excess process. Must
         * precede dispatch: under load some request always takes an idle process. */
        while (c->max != 0 && c->count - c->leaving - c->replacements > c->max &&
               (victim = find_victim(c, NULL, UINT64_MAX)) != NULL)
            core_detach(victim, CORE_OVER_MAX);
        struct core_slot *s = list_pop_entry(&c->to_report, struct core_slot, report_node);
        if (s != NULL)
            return (struct core_action){.what = CORE_REPORT, .slot = s};
        struct core_process *p = list_pop_entry(&c->to_end, struct core_process, leaving);
        if (p != NULL)
            return (struct core_action){.what = CORE_END, .process = p};
        s = list_pop_entry(&c->runnable, struct core_slot, runnable);
        if (s != NULL) {
            struct core_request *r = start_waiting(s, now_ms);

            if (r == NULL)
                continue;
            run_soon(s);
            return (struct core_action){.what = CORE_GO, .request = r};
        }
        if (!c->changed)
            return out;
        c->changed = decide_needs(c, now_ms, &out) || decide_replacements(c, now_ms, &out);
        if (c->changed)
            return out;
    }
}

/* ---- time ---- */

void core_tick(struct core *c, uint64_t now_ms)
{
    struct core_group *g;
    struct core_slot *s;
    struct core_process *p;

    list_for_each_entry (g, &c->groups, node) {
        list_for_each_entry (s, &g->slots, node) {
            p = s->process;
            if (p == NULL) {
                need_again(s);
            } else if (!core_slot_enabled(s)) {
                /* And its replacement, if there is one. */
                while (s->process != NULL)
                    core_detach(s->process, CORE_OVER_MAX);
            } else {
                if (p->generation < g->generation)
                    core_mark(p, CORE_OUTDATED);
                else if (nearly_spent(p))
                    core_mark(p, CORE_SPENT);
                core_relist(p);
                run_soon(s);
            }
        }
    }
    list_for_each_entry_safe (p, &c->idle, idle) {
        g = p->slot->group;
        if (g->max_idle_ms != 0 && now_ms - p->last_used_ms >= g->max_idle_ms &&
            g->nprocesses > g->min_processes && g->replacing != p->slot)
            core_detach(p, CORE_IDLE);
    }
    c->changed = true;
}

uint64_t core_due_ms(const struct core *c, uint64_t now_ms)
{
    uint64_t due = UINT64_MAX;
    const struct core_slot *s;
    const struct core_group *g;

    list_for_each_entry (s, &c->needs, need) {
        if (s->not_before_ms > now_ms && s->not_before_ms < due)
            due = s->not_before_ms;
    }
    list_for_each_entry (g, &c->replaces, replaces) {
        if (g->nmarked > 0 && g->replace_not_before_ms > now_ms && g->replace_not_before_ms < due)
            due = g->replace_not_before_ms;
    }
    return due;
}
