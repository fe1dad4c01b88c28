/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which slot gets a process, which process is ended to make room, and which one is
 * replaced. Slots that need a process are queued; the first that may have one gets it. If there is
 * no room, an idle process is ended: any idle process for requests that wait for a process, and
 * only a spare one for min_processes or for an additional process of a busy group.
 */
#include "worker-agent/pool/pool_core_internal.h"

enum {
    /* Idle times that differ by less count as equal; traffic then decides. */
    TIE_MS = 1000,
    /* Minimum idle time of a process before it is ended for min_processes or for an additional
       process of a busy group: a recently used process is likely to be used again. */
    SPARE_IDLE_MS = 10000,
};

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

void core_need_process(struct core_slot *s)
{
    struct core *c = s->group->core;

    c->changed = true;
    if (s->process != NULL || list_linked(&s->need) || !core_slot_enabled(s))
        return;
    list_push_back(&c->needs, &s->need);
    core_report(s);
}

void core_need_again(struct core_slot *s)
{
    struct core_group *g = s->group;
    unsigned there = g->nprocesses;

    if (has_reason(s))
        core_need_process(s);
    /* As many cold slots as are missing to min_processes, from the first. */
    for (unsigned n = 0; n < g->nslots && there < g->min_processes && !g->one_shot; ++n) {
        struct core_slot *cold = g->slots[n];

        if (cold->process != NULL || !core_slot_enabled(cold))
            continue;
        cold->for_min = true;
        core_need_process(cold);
        ++there;
    }
    if (g->nwaiting > 0)
        core_need_more(g);
}

void core_need_more(struct core_group *g)
{
    struct core_slot *cold = NULL;

    g->core->changed = true;
    if (g->nstarting > 0)
        return;
    for (unsigned n = 0; n < g->nslots; ++n) {
        struct core_slot *s = g->slots[n];

        if (s->process != NULL || !core_slot_enabled(s))
            continue;
        if (s->for_group)
            return;
        if (cold == NULL || s->not_before_ms < cold->not_before_ms)
            cold = s;
    }
    if (cold == NULL)
        return;
    cold->for_group = true;
    core_need_process(cold);
}

/* ---- room ---- */

/* Number of processes that remain when those being ended or giving way have exited. */
static unsigned staying(const struct core *c)
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
    return c->max != 0 && staying(c) + before < c->max;
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

/*
 * Returns the least valuable idle process, preferably of another group than G.
 *   spare_ms  not 0: only processes last used before that time, in groups that have more than
 *             min_processes
 */
static struct core_process *find_victim(const struct core *c, const struct core_group *g,
                                        uint64_t spare_ms)
{
    struct core_process *best = NULL;
    struct core_process *own = NULL;
    struct core_process *p;

    list_for_each_entry (p, &c->idle, idle) {
        if (spare_ms != 0 && (p->slot->group->nprocesses <= p->slot->group->min_processes ||
                              p->last_used_ms > spare_ms))
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
    const struct core_process *victim = find_victim(c, g, 0);
    return victim == NULL || victim->slot->group == g;
}

/* ---- deciding ---- */

/* Whether requests wait for a process at S. */
static bool is_urgent(const struct core_slot *s)
{
    return s->nwaiting > 0 || (s->for_group && s->group->nprocesses == 0);
}

/* The turn of the oldest request waiting at S or in its group; UINT64_MAX: none waits. */
static uint64_t first_turn(const struct core_slot *s)
{
    const struct core_group *g = s->group;
    uint64_t turn = UINT64_MAX;

    if (s->nwaiting > 0)
        turn = list_first(&s->waiting, struct core_request, node)->turn;
    if (s->for_group && g->nwaiting > 0) {
        uint64_t any = list_first(&g->waiting, struct core_request, node)->turn;

        turn = any < turn ? any : turn;
    }
    return turn;
}

bool core_yields(const struct core_process *p, const struct core_request *r, uint64_t now_ms)
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
        if (s->group->nprocesses == 0 && first_turn(s) < r->turn && staying(c) + before >= c->max)
            return true;
        ++before;
    }
    return false;
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
            victim = find_victim(c, s->group, is_urgent(s) ? 0 : now_ms - SPARE_IDLE_MS);
        if (victim != NULL)
            core_leave_slot(victim, CORE_GIVES_WAY);
        before += room_comes(c, before);
    }
    return false;
}

/* The coldest process of G that is to be replaced; NULL: none can be at present. */
static struct core_process *coldest_marked(const struct core_group *g)
{
    struct core_process *best = NULL;

    for (unsigned n = 0; n < g->nslots; ++n) {
        struct core_process *p = g->slots[n]->process;

        if (p == NULL || p->marked == CORE_KEEP || p->state != CORE_READY ||
            !core_slot_enabled(p->slot))
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
        core_leave_slot(p, p->marked);
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
         * precede dispatch: under load there is always a request that would take an idle process.
         */
        while (c->max != 0 && c->count - c->leaving - c->replacements > c->max &&
               (victim = find_victim(c, NULL, 0)) != NULL)
            core_leave_slot(victim, CORE_OVER_MAX);
        struct core_slot *s = list_pop_entry(&c->to_report, struct core_slot, report_node);
        if (s != NULL)
            return (struct core_action){.what = CORE_REPORT, .slot = s};
        struct core_process *p = list_pop_entry(&c->to_end, struct core_process, leaving);
        if (p != NULL)
            return (struct core_action){.what = CORE_END, .process = p, .why = p->marked};
        s = list_pop_entry(&c->runnable, struct core_slot, runnable);
        if (s != NULL) {
            struct core_request *r = core_dispatch(s, now_ms);

            if (r == NULL)
                continue;
            core_run_soon(s);
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
    struct core_process *p;

    list_for_each_entry (g, &c->groups, node) {
        for (unsigned n = 0; n < g->nslots; ++n) {
            struct core_slot *s = g->slots[n];

            p = s->process;
            if (p == NULL) {
                core_need_again(s);
            } else if (!core_slot_enabled(s)) {
                /* And its replacement, if there is one. */
                while (s->process != NULL)
                    core_leave_slot(s->process, CORE_OVER_MAX);
            } else {
                if (p->generation < g->generation)
                    core_mark(p, CORE_OUTDATED);
                else if (core_nearly_spent(p))
                    core_mark(p, CORE_SPENT);
                core_place(p);
                core_run_soon(s);
            }
        }
    }
    list_for_each_entry_safe (p, &c->idle, idle) {
        g = p->slot->group;
        if (g->max_idle_ms != 0 && now_ms - p->last_used_ms >= g->max_idle_ms &&
            g->nprocesses > g->min_processes && g->replacing != p->slot)
            core_leave_slot(p, CORE_IDLE);
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
