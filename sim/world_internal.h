/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a world: only world*.c include this.
 */
#ifndef RLB_SIM_WORLD_INTERNAL_H
#define RLB_SIM_WORLD_INTERNAL_H

#include "common/base/list.h"
#include "common/skills/home_records.h"
#include "common/skills/meter.h"
#include "sim/event_queue.h"
#include "sim/lru.h"
#include "sim/world.h"

#define WORLD_NS_PER_MS UINT64_C(1000000)
#define WORLD_NS_PER_US UINT64_C(1000)

/* A request in hand. */
struct job {
    struct list node; /* member->jobs, in the order of arrival; or world->free_jobs */
    struct pool_pick pick;
    struct member *member;
    unsigned life; /* of the worker */
    unsigned balancer;
    size_t request;
    uint64_t start_ns, sent_ns, service_ns;
    uint16_t hits, loads;
};

/* A worker. Each balancer knows it by a struct worker of its own. */
struct member {
    unsigned index;
    bool up;
    unsigned life;
    struct worker **known; /* by balancer */
    struct meter *meter;
    struct home_records *homes;
    uint64_t homes_told; /* the cursor */
    uint64_t published_ns;
    struct lru *cache;
    uint64_t free_ns;
    size_t in_hand;
    struct list jobs;
};

struct world {
    struct world_options options;
    struct pool **pools;
    struct member *members;
    uint64_t *db_free_ns; /* of each slot */
    struct event_queue events;
    struct list free_jobs;
    uint64_t now_ns;
    size_t turn; /* requests given to balancers */

    /* Of this run. */
    const struct world_run *run;
    struct world_record *records;
    uint64_t begin_ns;
    size_t next, next_event;
    size_t in_hand;
};

static inline uint64_t world_now_ms(const struct world *w)
{
    return w->now_ns / WORLD_NS_PER_MS;
}

static inline uint64_t world_now_us(const struct world *w)
{
    return w->now_ns / WORLD_NS_PER_US;
}

/* world.c */
struct job *world_take_job(struct world *w);
/* To a worker, or nowhere. */
void world_send(struct world *w, struct job *j);

/* world_life.c: workers begin and end */
void world_send_resume(struct world *w, struct member *m);
void world_start_member(struct world *w, struct member *m);
void world_stop_member(struct world *w, struct member *m);
/* The balancers no longer have a record of it. */
void world_forget_member(struct world *w, struct member *m);
void world_change(struct world *w, const struct world_event *e);

#endif
