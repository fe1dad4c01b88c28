/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of the homes, included only by homes*.c. Times and work are in microseconds.
 *
 * A pair is a class at a worker. The worker is a home of the class, or was one (or served a single
 * request of it) and may still have the class in its cache.
 *
 *     class "a": pairs [ w1 home, w4 home, w2 past ]      homes first
 *     w2: pairs ( "a" past, "b" home, ... )               a list, used when it leaves
 */
#pragma once

#include "common/skills/classes.h"
#include "common/stats/decay.h"
#include "routing/homes/homes.h"

/* ---- the constants of the rule, all of them ---- */

/* The recent work of a class or a worker is that of about this many requests per worker. Requests,
 * not time, evict the contents of a cache, and a share of a few requests is random. */
#define HOMES_TAU HOME_TAU_REQUESTS
/* Weight of the newest request in a class's cost, and of the newest report of other load balancers'
 * requests in flight. */
#define HOMES_COST_STEP 0.2
/* Least weight of the newest request in the averages over all requests. The first ones have equal
 * weights. */
#define HOMES_STEP 0.05
/* One request counts at most this many times what was expected of it, or of a cold request. */
#define HOMES_OUTLIER 10.0
/* The price of a cold request, P, is this quantile of what cold requests took. */
#define HOMES_COLD_QUANTILE 0.8
/* A class with a share of s workers should have about this many times s homes. */
#define HOMES_PER_SHARE 1.7
/* A class gives up a home if its share, of work or of requests, per additional home is below this.
 */
#define HOMES_SHED_SHARE 0.08
/* V, how long a request may wait for its home: so many cold requests and medians of B. */
#define HOMES_PATIENCE 5.0
/* Most of the work in flight at a worker is of one class above this fraction; and a worker is idle
 * that has less than this fraction of its share of the work: it is new, or has recovered. */
#define HOMES_MOST 0.5
/* A class floods a worker if it has at least this many requests in flight there for each one that
 * the worker serves at once, and most of the work. */
#define HOMES_FLOODED_REQUESTS 14
/* Other classes leave a flooded worker when that saves more than this many cold requests; a worker
 * gets more cold requests than it serves at once when each saves as much; and a request is served
 * elsewhere, once, if half of the workers have less work in flight than SPARE cold requests. */
#define HOMES_SAVES_COLD 3.0
#define HOMES_SPARE_COLD 0.05
/* Maximum wait, in cold requests, at a home received by hand-over and not used yet. */
#define HOMES_CLAIM_COLD 1.5
/* Weight of the share of work in a worker's load; the rest is its share of homes. */
#define HOMES_LOAD_WORK 0.5
/* A class moves to the least loaded worker if the load of its home is higher by this many times the
 * class's own load ... */
#define HOMES_REBALANCE_OWN 2.0
/* ... to an idle worker by less: above 1 the move reduces the difference, and at 2 it removes it,
 * as if one worker has two equal classes and the other has none. */
#define HOMES_REBALANCE_OWN_IDLE 1.5
/* ... and this many times the random variation of the work of a worker's requests. */
#define HOMES_REBALANCE_NOISE 2.0
/* A class with several homes moves one to an idle worker only if workers have at most this many
 * homes on average: there may be hardly any classes with a single home. */
#define HOMES_REBALANCE_FEW 8
/* ... and if its share is at least this part of the usual share, multiplied by the difference, so
 * that few classes move. The usual share is the average over the requests. */
#define HOMES_REBALANCE_SHARE 0.3
/* The demand for a class is its work among the last requests, so many per worker, and the time in
 * which they came. Above this many times its room it is a flood; it may then have this part of it.
 */
#define HOMES_TAU_DEMAND 25.0
#define HOMES_FLOOD 1.2
#define HOMES_FLOOD_ROOM (3.0 / 7)
/* A class may exceed max_share if that leaves the others this many times what they use. */
#define HOMES_OTHERS_ROOM 6.0

/* ---- what is not of the rule: bounds of computation, and times of the network ---- */

/* Reports of the same time, converted between clocks, differ by less than this. */
#define HOMES_JITTER_US 100000
/* A pair that others still use this long after it was given up here is a home: several intervals
 * at which agents publish. */
#define HOMES_FOLLOW_US 2e6
/* Tolerated relative error of work in the order by load (homes_index.c). */
#define HOMES_EXCHANGE_SLACK 0.01

enum {
    /* A request, as homes->fade counts: a clock has whole numbers. */
    HOMES_REQUEST = 1000000,
    /* Maximum number of workers that one choice examines; all in a smaller pool. */
    HOMES_SCAN_MAX = 64,
    /* Maximum number of former homes stored for each class. */
    HOMES_PAST_MAX = 16,
    /* Least interval of the check of workers for progress, for each eligible worker. */
    HOMES_LOOK_WORKER_US = 10,
    /* Maximum number of classes that get another home in one call when their worker is about to
     * leave: takes some ms, with the pool's lock held. */
    HOMES_HAND_OVER_MAX = 8192,
};

struct homes_pair {
    struct list of_worker; /* worker->pairs */
    struct homes_class *cls;
    struct homes_worker *worker;
    struct list in_flight; /* homes_ticket.of_pair */
    uint64_t used_us;      /* last */
    uint64_t own_us;       /* expected work in flight */
    uint32_t in_flight_n;
    uint32_t at;  /* cls->pairs[at] */
    bool touched; /* it had a request, or the cache is known to be warm */

    /* As published by the worker; with one load balancer, from before its first request. */
    enum home_kind kind;
    bool gone;          /* not a home, as of the last examination of the class by homes_shared.c */
    bool published;     /* the worker has published the pair since our decision */
    uint64_t from;      /* MOVE: homes_worker.number, or HOMES_NO_WORKER */
    uint64_t from_name; /* MOVE: of HOMES_NO_WORKER, as given to homes_join; 0: none */
    uint64_t since_us;  /* 0: no record */
    /* time of our own decision for this home; earlier records do not include it */
    uint64_t made_us;
    /* time of our own decision against this home; earlier records do not revoke it */
    uint64_t left_us;
    struct fading rate;   /* published work */
    struct fading weight; /* the pair's contribution to worker->work */
};

#define HOMES_NO_WORKER UINT64_MAX

struct homes_class {
    struct class_entry base;
    struct homes_pair **pairs; /* [0, nhomes) are homes */
    uint32_t npairs, nhomes, room;
    float cost_us; /* 0: nothing served yet */
    bool parallel; /* it has had several requests in flight */
    struct fading work;
    struct fading demand;
    struct fading asked; /* requests */
};

enum homes_key { HOMES_BY_WORK, HOMES_BY_LOAD, HOMES_KEYS };

struct homes_worker {
    void *context;
    uint64_t name;   /* as a number; 0: none */
    uint64_t number; /* in the order they joined; decides between equals */
    unsigned concurrency;
    double per_place; /* 1 / concurrency */
    bool eligible;
    bool gone;         /* left; freed with its last ticket */
    struct list node;  /* homes->workers, then ->gone */
    struct list pairs; /* homes_pair.of_worker */
    size_t nhomes;
    struct list in_flight; /* homes_ticket.of_worker */
    size_t nin_flight, nserving, ncold;
    struct homes_ticket *waiting; /* the first in flight that is not served yet, or NULL */
    struct homes_pair *most;      /* the pair that has had the most work in flight, or NULL */
    uint64_t own_us;              /* expected work in flight */
    double foreign_us;            /* of other load balancers, smoothed */
    double stalled_us;
    uint64_t alive_us; /* the last progress */
    double work;       /* decays; as homes->fade counts */
    double key[HOMES_KEYS];
    size_t pos[HOMES_KEYS];
};

/* A heap of workers, the lowest key first. Each worker stores its position. */
struct homes_heap {
    struct homes_worker **at;
    size_t n, room;
};

struct homes {
    struct homes_options o;
    uint64_t balancers[HOMES_BALANCERS_MAX];
    size_t nbalancers; /* >= 1; with more than one, homes are shared */
    size_t self;
    struct classes classes; /* of struct homes_class */
    struct homes_heap heaps[HOMES_KEYS];
    struct list workers; /* eligible or not */
    uint64_t njoined;
    struct list gone;   /* removed workers with outstanding tickets */
    struct fading work; /* of all classes */
    struct fading asked;
    double mean_us;
    double cold_us;
    double mean_step, cold_step; /* weight of the next observation */
    double usual_share;          /* of the class of a request, in workers */
    /* The clock by which work and requests decay: it counts requests per eligible worker, in
     * HOMES_REQUEST. Workers' work is counted in its epoch, so that their order does not change
     * without events. */
    struct fading_clock fade;
    struct fading_clock moment; /* the same, by which demand decays */
    uint64_t step;              /* what a request adds to both ... */
    double growth;              /* ... and by what it multiplies the weight of MOMENT */
    uint64_t now_us;
    struct fading passed;  /* time between requests, as MOMENT counts */
    uint64_t begun_us;     /* when the last one came */
    double eligible_work;  /* of eligible workers; in units of fade */
    size_t eligible_homes; /* the same */
    double exchange; /* homes per unit of work (in units of fade), as used in the keys by load */
    size_t eligible_places; /* sum of concurrency */
    uint64_t look_us;       /* time of the next check of progress */
};

/* Returns true if W may not have the request. */
static inline bool homes_rejected(const struct homes_request *r, const struct homes_worker *w)
{
    return r->rejects != NULL && r->rejects(r->context, w->context);
}

/* Like fmax, but not for NaN, and without a function call. */
static inline double greater_of(double a, double b)
{
    return a > b ? a : b;
}

/* For microseconds and counts, below 2^63: signed numbers convert in one instruction. */
static inline double real_of(uint64_t n)
{
    return (double)(int64_t)n;
}

static inline size_t homes_eligible(const struct homes *h)
{
    return h->heaps[HOMES_BY_WORK].n;
}

/* Returns true if A is before B in the order by KEY. */
static inline bool homes_before(const struct homes_worker *a, const struct homes_worker *b,
                                enum homes_key key)
{
    return a->key[key] < b->key[key] || (a->key[key] == b->key[key] && a->number < b->number);
}

static inline struct homes_worker *homes_top(const struct homes *h, enum homes_key key)
{
    return h->heaps[key].n != 0 ? h->heaps[key].at[0] : NULL;
}

/* homes_index.c: work that decays, the two orders of workers, and pairs */
/* Called with each request: earlier work counts less. */
void homes_age(struct homes *h);
/* The number of eligible workers or of load balancers has changed. */
void homes_set_pace(struct homes *h);
/* False until a cold request was served: no price is known. */
static inline bool homes_knows(const struct homes *h)
{
    return h->cold_step < 1;
}
/* Checks all workers for progress. */
void homes_check_progress(struct homes *h);
/* Must be called first in each public call, with its time. */
static inline void homes_tick(struct homes *h, uint64_t now_us)
{
    if (now_us <= h->now_us)
        return;
    h->now_us = now_us;
    if (now_us >= h->look_us)
        homes_check_progress(h);
}
/* B has changed. */
void homes_work_changed(struct homes *h, struct homes_worker *w);
double homes_work_of(const struct homes_worker *w);
/* W's decayed work changes by WORK_US, its homes by HOMES. */
void homes_load_add(struct homes *h, struct homes_worker *w, double work_us, int homes);
/* L; 1 is the mean. */
double homes_load(const struct homes *h, const struct homes_worker *w);
/* Weights in L of a unit of work at a place, as fade counts it, and of a home. */
struct homes_worth {
    double work, home;
};
static inline struct homes_worth homes_worth(const struct homes *h)
{
    double n = real_of(homes_eligible(h));
    double homes = real_of(h->eligible_homes != 0 ? h->eligible_homes : 1);

    return (struct homes_worth){
        .work = h->eligible_work > 0
                    ? HOMES_LOAD_WORK * real_of(h->eligible_places) / h->eligible_work
                    : 0,
        .home = (1 - HOMES_LOAD_WORK) * n / homes,
    };
}
/* Recomputes all keys by load with this exchange rate. */
void homes_exchange_at(struct homes *h, double rate) noinline_;
/* Recomputes the keys by load if necessary; must be called before the order by load is used. */
static inline struct homes_worth homes_order(struct homes *h)
{
    struct homes_worth worth = homes_worth(h);
    double rate = homes_eligible(h) != 0 ? worth.work / worth.home : 0;

    if (__builtin_fabs(rate - h->exchange) > HOMES_EXCHANGE_SLACK * h->exchange)
        homes_exchange_at(h, rate);
    return worth;
}
/* A worker that serves several requests at once has proportionally more capacity. */
static inline double homes_work_per_place(const struct homes_worker *w)
{
    return w->work * w->per_place;
}
/* L, with WORTH computed once for several workers. */
static inline double homes_load_by(const struct homes_worth *worth, const struct homes_worker *w)
{
    return worth->work * homes_work_per_place(w) + worth->home * real_of(w->nhomes);
}
double homes_median(const struct homes *h) noinline_;

/* homes_rule.c: returns the maximum number of homes of a class with OWN_US of ALL_US of work: PART
 * of the eligible workers, or more. */
size_t homes_room(const struct homes *h, double part, double own_us, double all_us);

/* homes_index.c */
/* E may be NULL. */
static inline struct homes_class *homes_class_of(struct class_entry *e)
{
    return (struct homes_class *)(void *)e;
}
void homes_class_dropped(void *owner, struct class_entry *e);
/* Creates the pair if missing. May free a pair of the past without requests in flight. */
struct homes_pair *homes_pair_get(struct homes *h, struct homes_class *c, struct homes_worker *w,
                                  uint64_t now_us);
void homes_pair_free(struct homes *h, struct homes_pair *p);
/* Makes P a home, or a past home; WORK_US is added or removed. */
void homes_add_home(struct homes *h, struct homes_pair *p, double work_us);
void homes_remove_home(struct homes *h, struct homes_pair *p, double work_us) noinline_;
static inline bool homes_is_home(const struct homes_pair *p)
{
    return p->at < p->cls->nhomes;
}

/* Adds WORK_US, an estimate from our own requests, to the work of P, a home. */
void homes_weigh(struct homes *h, struct homes_pair *p, double work_us);

/* homes_shared.c */
static inline bool homes_shared(const struct homes *h)
{
    return h->nbalancers > 1;
}
/* The time in which work decays here, for what is published by time: HOMES_TAU requests. */
static inline double homes_tau_us(const struct homes *h)
{
    return home_tau_us(fading_value(&h->passed, &h->moment) / HOMES_TAU_DEMAND);
}
/* Returns a worker that has ceased to be a home of HOME's class for this load balancer, which owns
 * the class, but not for others; or NULL. Cost: O(workers stored for the class). */
struct homes_worker *homes_stray(const struct homes *h, const struct homes_pair *home) noinline_;
/* Records that P has become a home by our decision; FROM is NULL except for a MOVE. */
void homes_made(struct homes *h, struct homes_pair *p, enum home_kind kind,
                const struct homes_worker *from) noinline_;
/* Returns the home with the oldest record, excluding KEEP; or NULL. */
struct homes_pair *homes_oldest(const struct homes_class *c,
                                const struct homes_worker *keep) noinline_;
