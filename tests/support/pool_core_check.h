/* SPDX-License-Identifier: Apache-2.0
 *
 * Asserts every invariant of the agent's pool (pool_core.h): those that the source of the algorithm
 * lists, and ours. Walks everything.
 */
#pragma once

#include "worker-agent/pool/pool_core.h"

struct sums {
    unsigned processes, replacements, leaving, active, idle, ending, sessions;
};

static void check_process(const struct core_process *p, const struct core_slot *s, struct sums *sum)
{
    ASSERT(p->slot == s);
    ASSERT(p->places <= p->sessions);
    ASSERT(list_length(&p->running) == p->sessions);
    ASSERT(list_linked(&p->idle) == (p->state == CORE_READY && p->sessions + p->elsewhere == 0));
    ASSERT(p->state == CORE_READY || p->listed_in == NULL);
    ASSERT((p->listed_in != NULL) == list_linked(&p->in_group));
    sum->active += p->sessions > 0;
    sum->idle += list_linked(&p->idle);
    sum->sessions += p->sessions;
}

static void check_slot(const struct core_slot *s, struct sums *sum)
{
    const struct core_process *p;

    ASSERT(list_length(&s->waiting) == s->nwaiting);
    ASSERT(s->process != NULL || s->replacement == NULL);
    if (s->process != NULL) {
        ASSERT(s->process->state == CORE_STARTING || s->process->state == CORE_READY);
        ASSERT(!s->process->ending);
        check_process(s->process, s, sum);
        ++sum->processes;
    }
    if (s->replacement != NULL) {
        ASSERT(s->replacement->state == CORE_STARTING);
        check_process(s->replacement, s, sum);
        ++sum->replacements;
    }
    /* Detached is for ever. */
    list_for_each_entry (p, &s->leaving, leaving) {
        ASSERT(p->state == CORE_LEAVING && p != s->process && p != s->replacement);
        ASSERT(p->sessions > 0 && !p->ending);
        check_process(p, s, sum);
        sum->leaving += p->marked != CORE_GIVES_WAY;
    }
}

static unsigned check_group(const struct core_group *g, struct sums *sum)
{
    unsigned before = sum->processes;
    unsigned starting = 0;
    unsigned marked = 0;

    const struct core_slot *s;

    list_for_each_entry (s, &g->slots, node) {
        check_slot(s, sum);
        starting += s->process != NULL && s->process->state == CORE_STARTING;
        marked += s->process != NULL && s->process->marked != CORE_KEEP;
    }
    ASSERT(sum->processes - before == g->nprocesses);
    ASSERT(starting == g->nstarting);
    ASSERT(marked == g->nmarked);
    ASSERT(list_length(&g->waiting) == g->nwaiting);
    ASSERT(list_linked(&g->replaces) || (marked == 0 && g->replacing == NULL));
    return g->nprocesses;
}

/* When core_next() has returned CORE_NOTHING, no request waits while a place is free. */
static void check_no_lost_wakeup(const struct core *c, const struct core_group *g)
{
    const struct core_slot *s;

    if (!list_empty(&c->runnable))
        return;
    list_for_each_entry (s, &g->slots, node) {
        const struct core_process *p = s->process;

        if (p == NULL)
            continue;
        bool first =
            p->state == CORE_STARTING && p->probing && p->sessions + p->elsewhere == 0 && !p->held;
        if (p->listed_in != NULL || (first && !g->one_shot && p->served == 0))
            ASSERT(s->nwaiting == 0 && g->nwaiting == 0);
        /* One that was started before its request asked is not kept. */
        if (g->one_shot && !p->held)
            ASSERT(!list_linked(&p->idle));
    }
}

static inline void core_check(const struct core *c)
{
    struct sums sum = {0};
    const struct core_group *g;
    unsigned in_groups = 0;

    list_for_each_entry (g, &c->groups, node) {
        in_groups += check_group(g, &sum);
        check_no_lost_wakeup(c, g);
    }
    ASSERT(in_groups == sum.processes);
    ASSERT(sum.processes + c->replacements + c->leaving == c->count);
    ASSERT(sum.replacements == c->replacements);
    /* The other LEAVING processes give way, or END was issued for them; they may still have
     * sessions. */
    ASSERT(sum.leaving + c->nending == c->leaving);
    ASSERT(c->active <= c->count);
    ASSERT(sum.active <= c->active);
    ASSERT(list_length(&c->idle) == sum.idle);
    ASSERT(list_length(&c->to_end) <= c->nending);
}
