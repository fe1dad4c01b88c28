/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants of the algorithm, as its source lists them and as ours adds to them. For tests.
 */
#include "worker-agent/pool/pool_core_internal.h"

struct sums {
    unsigned processes, successors, leaving, active, idle, ending, sessions;
};

static size_t length(const struct list *l)
{
    struct list *it;
    size_t n = 0;

    list_for_each (it, l)
        ++n;
    return n;
}

static void check_process(const struct core_process *p, const struct core_slot *s, struct sums *sum)
{
    ASSERT(p->slot == s);
    ASSERT(p->places <= p->sessions);
    ASSERT(length(&p->running) == p->sessions);
    ASSERT(list_linked(&p->idle) == (p->state == CORE_READY && p->sessions + p->elsewhere == 0));
    ASSERT(p->state == CORE_READY || p->home == NULL);
    ASSERT((p->home != NULL) == list_linked(&p->in_group));
    sum->active += p->sessions > 0;
    sum->idle += list_linked(&p->idle);
    sum->sessions += p->sessions;
}

static void check_slot(const struct core_slot *s, struct sums *sum)
{
    struct list *it;

    ASSERT(length(&s->waiting) == s->nwaiting);
    ASSERT(s->process != NULL || s->successor == NULL);
    if (s->process != NULL) {
        ASSERT(s->process->state == CORE_STARTING || s->process->state == CORE_READY);
        ASSERT(!s->process->ending);
        check_process(s->process, s, sum);
        ++sum->processes;
    }
    if (s->successor != NULL) {
        ASSERT(s->successor->state == CORE_STARTING);
        check_process(s->successor, s, sum);
        ++sum->successors;
    }
    /* Detached is for ever. */
    list_for_each (it, &s->leaving) {
        const struct core_process *p = list_entry(it, struct core_process, leaving);

        ASSERT(p->state == CORE_LEAVING && p != s->process && p != s->successor);
        ASSERT(p->sessions > 0 && !p->ending);
        check_process(p, s, sum);
        ++sum->leaving;
    }
}

static unsigned check_group(const struct core_group *g, struct sums *sum)
{
    unsigned before = sum->processes;
    unsigned starting = 0;
    unsigned doomed = 0;

    for (unsigned n = 0; n < g->nslots; ++n) {
        const struct core_slot *s = g->slots[n];

        check_slot(s, sum);
        starting += s->process != NULL && s->process->state == CORE_STARTING;
        doomed += s->process != NULL && s->process->doomed != CORE_KEEP;
    }
    ASSERT(sum->processes - before == g->nprocesses);
    ASSERT(starting == g->nstarting);
    ASSERT(doomed == g->ndoomed);
    ASSERT(length(&g->waiting) == g->nwaiting);
    ASSERT(list_linked(&g->replaces) || (doomed == 0 && g->replacing == NULL));
    return g->nprocesses;
}

/* When core_next() has returned CORE_NOTHING, no request waits while a place is free. */
static void check_no_lost_wakeup(const struct core *c, const struct core_group *g)
{
    if (!list_empty(&c->runnable))
        return;
    for (unsigned n = 0; n < g->nslots; ++n) {
        const struct core_process *p = g->slots[n]->process;

        if (p == NULL)
            continue;
        bool first =
            p->state == CORE_STARTING && p->probing && p->sessions + p->elsewhere == 0 && !p->held;
        if (p->home != NULL || (first && !g->one_shot && p->served == 0))
            ASSERT(g->slots[n]->nwaiting == 0 && g->nwaiting == 0);
        /* One that was started before its request asked is not kept. */
        if (g->one_shot && !p->held)
            ASSERT(!list_linked(&p->idle));
    }
}

void core_check(const struct core *c)
{
    struct sums sum = {0};
    struct list *it;
    unsigned in_groups = 0;

    list_for_each (it, &c->groups) {
        const struct core_group *g = list_entry(it, struct core_group, node);

        in_groups += check_group(g, &sum);
        check_no_lost_wakeup(c, g);
    }
    ASSERT(in_groups == sum.processes);
    ASSERT(sum.processes + c->successors + c->leaving == c->count);
    ASSERT(sum.successors == c->successors);
    /* END was issued for the other LEAVING processes, which may still have sessions. */
    ASSERT(sum.leaving + c->nending == c->leaving);
    ASSERT(c->active <= c->count);
    ASSERT(sum.active <= c->active);
    ASSERT(length(&c->idle) == sum.idle);
    ASSERT(length(&c->to_end) <= c->nending);
}
