/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers begin, say that they will leave, are replaced, and die.
 */
#include <stdio.h>

#include "sim/world_internal.h"

void world_send_resume(struct world *w, struct member *m)
{
    struct resume r = {0};

    meter_resume(m->meter, SIZE_MAX, &r);
    for (unsigned b = 0; b < w->options.balancers; ++b)
        pool_new_resume(w->pools[b], m->known[b], &r, "", "", NULL);
    resume_fini(&r);
}

/* The worker begins a life: cold, and knowing nothing. */
void world_start_member(struct world *w, struct member *m)
{
    enum { CLASSES_MAX = 100000 };
    char name[24];
    char incarnation[24];
    struct meter_settings s = {.history = w->options.history,
                               .max_skill_age = METER_SKILL_AGE_DEFAULT,
                               .max_classes = CLASSES_MAX};

    ASSERT(!m->up);
    m->up = true;
    ++m->life;
    m->free_ns = 0;
    m->meter = meter_create(&s);
    m->homes = home_records_create(CLASSES_MAX);
    m->homes_told = 0;
    snprintf(name, sizeof(name), "w%u", m->index);
    snprintf(incarnation, sizeof(incarnation), "%u", m->life);
    for (unsigned b = 0; b < w->options.balancers; ++b) {
        struct worker_options o = {.name = slice_of(name),
                                   .incarnation = slice_of(incarnation),
                                   .concurrency = 1,
                                   .context = m};
        m->known[b] = worker_create(&o);
    }
    world_send_resume(w, m);
}

/* Ends the process, with its cache; the balancers still have their records of the worker. */
static void end_process(struct member *m)
{
    ASSERT(m->up);
    m->up = false;
    meter_destroy(m->meter);
    m->meter = NULL;
    home_records_destroy(m->homes);
    m->homes = NULL;
    lru_clear(m->cache);
}

void world_stop_member(struct world *w, struct member *m)
{
    for (unsigned b = 0; b < w->options.balancers; ++b)
        pool_remove(w->pools[b], m->known[b], NULL);
    end_process(m);
}

void world_forget_member(struct world *w, struct member *m)
{
    for (unsigned b = 0; b < w->options.balancers; ++b) {
        worker_unref(m->known[b]);
        m->known[b] = NULL;
    }
}

/* The process has exited; its requests are sent again, in order. Their ends, which are in the queue
 * of events, are recognized by LIFE. */
static void kill_member(struct world *w, struct member *m)
{
    struct pool_served how = {.now_us = world_now_us(w), .failed = true};
    struct list lost;
    struct list *it;

    list_init(&lost);
    world_stop_member(w, m);
    while (!list_empty(&m->jobs)) {
        struct job *old = list_entry(m->jobs.next, struct job, node);
        struct job *j = world_take_job(w);

        /* The old one stays where the queue of events knows it. */
        j->balancer = old->balancer;
        j->request = old->request;
        j->start_ns = old->start_ns;
        pool_put(w->pools[old->balancer], &old->pick, &how, NULL);
        list_remove(&old->node);
        list_push_back(&lost, &j->node);
    }
    m->in_hand = 0;
    world_forget_member(w, m);
    while ((it = lost.next) != &lost) {
        list_remove(it);
        world_send(w, list_entry(it, struct job, node));
    }
}

static void drain_member(struct world *w, struct member *m)
{
    for (unsigned b = 0; b < w->options.balancers; ++b) {
        pool_set_available(w->pools[b], m->known[b], false, NULL);
        pool_hand_over(w->pools[b], m->known[b], NULL);
    }
}

/* The old process's requests in flight are not jobs of the member any more (finish_past). */
static void replace_member(struct world *w, struct member *m)
{
    struct worker *old[WORLD_BALANCERS_MAX] = {NULL};

    for (unsigned b = 0; b < w->options.balancers; ++b)
        old[b] = m->known[b];
    end_process(m);
    while (!list_empty(&m->jobs))
        list_remove(m->jobs.next);
    m->in_hand = 0;
    world_start_member(w, m);
    for (unsigned b = 0; b < w->options.balancers; ++b) {
        pool_hand_over(w->pools[b], old[b], m->known[b]);
        pool_remove(w->pools[b], old[b], NULL);
        worker_unref(old[b]);
    }
}

void world_change(struct world *w, const struct world_event *e)
{
    ASSERT(e->worker < w->options.workers);
    struct member *m = &w->members[e->worker];

    if (e->change == WORLD_KILL && m->up)
        kill_member(w, m);
    else if (e->change == WORLD_START && !m->up)
        world_start_member(w, m);
    else if (e->change == WORLD_DRAIN && m->up)
        drain_member(w, m);
    else if (e->change == WORLD_REPLACE && m->up)
        replace_member(w, m);
}
