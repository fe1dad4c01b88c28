/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the homes: only homes*.c include this. Times are in microseconds, so is work.
 *
 * A pair is a class at a worker: a home, or a worker that was one (or was passed a request once)
 * and may still have the class in its cache.
 *
 *     class "a": pairs [ w1 home, w4 home, w2 past ]      homes first
 *     w2: pairs ( "a" past, "b" home, ... )               a list, for when it leaves
 */
#ifndef RLB_ROUTING_HOMES_HOMES_INTERNAL_H
#define RLB_ROUTING_HOMES_HOMES_INTERNAL_H

#include "common/skills/classes.h"
#include "routing/homes/homes.h"
#include "routing/homes/homes_fading.h"

/* ---- the constants of the rule, all of them ---- */

/* What work counts as a class's, or a worker's, recent share: it decays with this. */
#define HOMES_TAU_US HOME_TAU_US
/* ... of time in which so many requests come in that time at least: with fewer it runs slower. What
 * a cache holds is driven out by requests, and a share of a few of them is chance. */
#define HOMES_TAU_REQUESTS 4000.0
/* ... and at its own pace for so long after it has had enough: all is forgotten then. */
#define HOMES_FADE_US (10 * HOMES_TAU_US)
/* The same for the demand of a moment, which tells a flood. */
#define HOMES_TAU_DEMAND_US 1e6
/* Weight of the newest request in a class's cost, and in the mean cost of all. */
#define HOMES_COST_STEP 0.2
#define HOMES_MEAN_STEP 0.01
/* ... and of the newest report of what others have in hand. */
#define HOMES_FOREIGN_STEP 0.3
/* What is assumed before anything was served: a mean cost, and the price of a cold request. */
#define HOMES_MEAN_FIRST_US 20e3
#define HOMES_COLD_FIRST_US 30e3
#define HOMES_COLD_LEAST_US 100.0
/* The price of a cold request is this quantile, found with steps of so much of itself. */
#define HOMES_COLD_QUANTILE 0.8
#define HOMES_COLD_STEP 0.05
/* A class of a share of s workers is worth about so many times s homes. */
#define HOMES_PER_SHARE 1.7
/* A home more than this share, of work or of requests, is worth is given up, one in so long. */
#define HOMES_SHED_SHARE 0.08
#define HOMES_SHED_US 3000000
/* V, how long a request may wait for its home: in cold requests, and in medians of work in hand. */
#define HOMES_PATIENCE_COLD 5.0
#define HOMES_PATIENCE_MEDIAN 4.0
/* A victim: its own requests are less than this part of the work before it. */
#define HOMES_VICTIM_OWN 0.5
/* ... and moving saves more than this part of V. */
#define HOMES_VICTIM_SAVES 0.5
/* A worker is flooded by a class that has at least so many requests in hand there, which are this
 * part of its work; others leave it when that saves more than so many cold requests. */
#define HOMES_FLOODED_REQUESTS 14
#define HOMES_FLOODED_PART 0.75
#define HOMES_FLOODED_COLD 4.0
/* A home that has served nothing yet, as its class was handed over to it, keeps the class waiting
 * for so many cold requests at the most. */
#define HOMES_CLAIM_COLD 1.5
/* Half of the workers have less in hand than this part of a cold request: there is room to spare,
 * and whoever would wait behind others for so many cold requests goes elsewhere, once. */
#define HOMES_SPARE_COLD 0.05
#define HOMES_DETOUR_COLD 2.0
/* A worker's load: how much of it is its share of the work; the rest is its share of homes. */
#define HOMES_LOAD_WORK 0.5
/* A class is drawn when its home's load is above the least by this, and by twice its own. */
#define HOMES_DRAW_GAP 0.05
#define HOMES_DRAW_OWN 2.0
/* ... to an idle worker by less: above 1 the move makes the difference smaller, and at 2 it leaves
 * none, as where one worker has two equal classes and the other is empty. Idle is a worker that has
 * less than this part of its share of the work: it is new, or has recovered. */
#define HOMES_DRAW_OWN_IDLE 1.5
#define HOMES_DRAW_IDLE 0.5
/* A home of a class with several is drawn to an idle worker where a worker has at most so many
 * homes on average: there may be hardly any class with one. */
#define HOMES_DRAW_FEW 8
/* ... and by so many times what chance makes of the work of a worker's few requests. */
#define HOMES_DRAW_NOISE 2.0
/* ... and when its share is at least this part of the difference: as few classes as possible move.
 */
#define HOMES_DRAW_SHARE 0.06
/* ... or this many times the usual share, of the class of a request, when that is less: where all
 * classes are small, small ones move. The usual share follows with this weight of the newest. */
#define HOMES_DRAW_USUAL 0.5
#define HOMES_USUAL_STEP 0.01
/* A demand of so many times its room makes a class a flood, which may have this part of it. */
#define HOMES_FLOOD 1.2
#define HOMES_FLOOD_ROOM (3.0 / 7)
/* A class that is nearly all there is may have more than max_share: what is left to the others is
 * so many times what they use. */
#define HOMES_OTHERS_ROOM 6.0
/* A demand beyond this part of the pool is a class's share at once. */
#define HOMES_SURGE 0.5625
/* A home beyond the first that has not been used for so long is none any more. */
#define HOMES_AGE_US HOME_AGE_US
/* A request that takes so long keeps nobody away from a worker that could serve others beside. */
#define HOMES_STALL_MAX_US 10000000

/* Reports of one moment, by way of several clocks, differ by less than this. */
#define HOMES_JITTER_US 100000

/* The order by load may be wrong by this part of the work (homes_load.c). */
#define HOMES_EXCHANGE_SLACK 0.01

/* What others use so long after we have given it up is a home. */
#define HOMES_FOLLOW_US 2e6

enum {
    /* How many workers one choice looks at; in a smaller pool, all. */
    HOMES_SCAN_MAX = 64,
    /* Workers that had a class and are no homes now, remembered for each class. */
    HOMES_PAST_MAX = 16,
    /* How often workers are looked at for signs of life; and so much later for each there is. */
    HOMES_LOOK_US = 5000,
    HOMES_LOOK_WORKER_US = 10,
    /* Classes that get another home in one call when their worker is about to leave: some ms, under
     * the pool's lock. */
    HOMES_HAND_OVER_MAX = 8192,
};

struct homes_pair {
    struct list of_worker; /* worker->pairs */
    struct homes_class *cls;
    struct homes_worker *worker;
    struct list in_hand; /* homes_ticket.of_pair */
    uint64_t used_us;    /* last */
    uint64_t settled_us; /* when it became a home */
    uint64_t own_us;     /* expected work in hand */
    uint32_t in_hand_n;
    uint32_t at;  /* cls->pairs[at] */
    bool touched; /* it had a request, or is known to be warm */

    /* As the worker has published it; with one load balancer, from before its first request. */
    enum home_kind kind;
    bool gone;            /* as of when homes_shared.c has looked at the class */
    bool heard;           /* the worker has published what it is, since we decided */
    uint64_t from;        /* MOVE: homes_worker.number, or HOMES_NOBODY */
    uint64_t from_name;   /* MOVE: of HOMES_NOBODY, as homes_options.name has it; 0: none */
    uint64_t since_us;    /* 0: no record */
    uint64_t made_us;     /* a home by our own decision; records from before do not know of it */
    uint64_t left_us;     /* no home by our own decision; one from before does not make it one */
    struct fading rate;   /* work that was published */
    struct fading weight; /* a home's part in worker->work */
};

#define HOMES_NOBODY UINT64_MAX

struct homes_class {
    struct class_entry base;
    struct homes_pair **pairs; /* [0, nhomes) are homes */
    uint32_t npairs, nhomes, room;
    float cost_us;      /* 0: nothing served yet */
    uint64_t shed_us;   /* when it last gave up a home that it was not worth */
    uint64_t oldest_us; /* no home of it was last used before this; 0: nobody has looked */
    struct fading work;
    struct fading demand;
    struct fading asked; /* requests */
};

enum homes_key { HOMES_BY_WORK, HOMES_BY_LOAD, HOMES_KEYS };

struct homes_worker {
    void *context;
    uint64_t number; /* in the order they joined: of equals, the first */
    unsigned concurrency;
    double per_place; /* 1 / concurrency */
    bool in_line;
    bool gone;         /* left; freed with its last ticket */
    struct list node;  /* homes->workers, then ->gone */
    struct list pairs; /* homes_pair.of_worker */
    size_t nhomes;
    struct list in_hand; /* homes_ticket.of_worker */
    size_t nin_hand, nserving, ncold;
    struct homes_ticket *waiting; /* the first in hand that is not served yet, or NULL */
    struct homes_pair *most;      /* has had the most work in hand of its pairs, or NULL */
    uint64_t own_us;              /* expected work in hand */
    double foreign_us;            /* others', smoothed */
    double stalled_us;
    uint64_t alive_us; /* the last sign of life */
    double work;       /* decays; as homes->fade counts */
    double key[HOMES_KEYS];
    size_t pos[HOMES_KEYS];
};

/* Workers, the least key first. Each knows its place. */
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
    struct list workers; /* in the line or not */
    uint64_t njoined;
    struct list gone; /* left, with tickets */
    size_t ntickets;
    struct fading work; /* of all classes */
    struct fading asked;
    double mean_us;
    double cold_us;
    double usual_share; /* of the class of a request, in workers */
    /* What work decays by, and requests. Workers' work is counted in its epoch, so that their order
     * stays as it is while nothing happens. */
    struct fading_clock fade;
    uint64_t fade_left_us;      /* how much further it may run before another request comes */
    struct fading_clock moment; /* what demand decays by: the time itself */
    uint64_t now_us;
    double line_work;   /* of those in the line; as fade counts */
    size_t line_homes;  /* the same */
    double exchange;    /* homes per unit of work, as fade counts it, as in the keys by load */
    size_t line_places; /* sum of concurrency */
    uint64_t look_us;   /* the next */
};

/* As fmax and fmin for what is a number; those are calls. */
static inline double greater_of(double a, double b)
{
    return a > b ? a : b;
}

static inline double lesser_of(double a, double b)
{
    return a < b ? a : b;
}

/* Of microseconds and of counts, which are below 2^63: signed numbers convert in one instruction.
 */
static inline double real_of(uint64_t n)
{
    return (double)(int64_t)n;
}

static inline size_t homes_line(const struct homes *h)
{
    return h->heaps[HOMES_BY_WORK].n;
}

/* Whether A is before B by KEY. */
static inline bool homes_before(const struct homes_worker *a, const struct homes_worker *b,
                                enum homes_key key)
{
    return a->key[key] < b->key[key] || (a->key[key] == b->key[key] && a->number < b->number);
}

static inline struct homes_worker *homes_top(const struct homes *h, enum homes_key key)
{
    return h->heaps[key].n != 0 ? h->heaps[key].at[0] : NULL;
}

/* homes_heap.c */
void homes_heap_add(struct homes_heap *h, struct homes_worker *w, enum homes_key key);
void homes_heap_remove(struct homes_heap *h, struct homes_worker *w, enum homes_key key);
/* W's key has become VALUE. */
void homes_heap_set(struct homes_heap *h, struct homes_worker *w, enum homes_key key, double value);
/* Many keys have changed. */
void homes_heap_build(struct homes_heap *h, enum homes_key key);
void homes_heap_check(const struct homes_heap *h, enum homes_key key);

/* homes_load.c: work that decays, and the two orders of workers */
/* Workers' work is of the epoch that began at BEFORE_US. */
void homes_bring_over(struct homes *h, uint64_t before_us) rare;
/* Looks at all workers for signs of life. */
void homes_look(struct homes *h);
/* To be called first, with the time of each call. As far as there are requests, work decays with
 * the time that has passed; the first time there is nothing that could have. */
static inline void homes_tick(struct homes *h, uint64_t now_us)
{
    uint64_t epoch_us = h->fade.epoch_us;

    if (now_us <= h->now_us)
        return;
    uint64_t us = h->now_us != 0 ? now_us - h->now_us : 0;
    if (us > h->fade_left_us)
        us = h->fade_left_us;
    h->fade_left_us -= us;
    h->now_us = now_us;
    if (fading_run(&h->fade, h->fade.now_us + us))
        homes_bring_over(h, epoch_us);
    if (now_us >= h->look_us)
        homes_look(h);
}
/* A request has come. */
void homes_let_fade(struct homes *h);
/* B has changed. */
void homes_work_changed(struct homes *h, struct homes_worker *w);
double homes_work_of(const struct homes_worker *w);
/* W's decayed work changes by WORK_US, its homes by HOMES. */
void homes_load_add(struct homes *h, struct homes_worker *w, double work_us, int homes);
/* L; 1 is the mean. */
double homes_load(const struct homes *h, const struct homes_worker *w);
/* What a unit of work at a place, as fade counts it, and a home are worth in L. */
struct homes_worth {
    double work, home;
};
static inline struct homes_worth homes_worth(const struct homes *h)
{
    double n = real_of(homes_line(h));
    double homes = real_of(h->line_homes != 0 ? h->line_homes : 1);

    return (struct homes_worth){
        .work = h->line_work > 0 ? HOMES_LOAD_WORK * real_of(h->line_places) / h->line_work : 0,
        .home = (1 - HOMES_LOAD_WORK) * n / homes,
    };
}
/* All keys by load anew, with this exchange rate. */
void homes_exchange_at(struct homes *h, double rate) apart;
/* The same; to be called before the order by load is used. */
static inline struct homes_worth homes_order(struct homes *h)
{
    struct homes_worth worth = homes_worth(h);
    double rate = homes_line(h) != 0 ? worth.work / worth.home : 0;

    if (__builtin_fabs(rate - h->exchange) > HOMES_EXCHANGE_SLACK * h->exchange)
        homes_exchange_at(h, rate);
    return worth;
}
/* A worker that serves several at once can do as much more. */
static inline double homes_work_per_place(const struct homes_worker *w)
{
    return w->work * w->per_place;
}
/* L, for several workers one after the other. */
static inline double homes_load_by(const struct homes_worth *worth, const struct homes_worker *w)
{
    return worth->work * homes_work_per_place(w) + worth->home * real_of(w->nhomes);
}
double homes_median(const struct homes *h) apart;
void homes_line_add(struct homes *h, struct homes_worker *w);
void homes_line_remove(struct homes *h, struct homes_worker *w);

/* homes_rule.c: at how many workers a class may live that is OWN_US of ALL_US of work: PART of
 * those in the line, or more. */
size_t homes_room(const struct homes *h, double part, double own_us, double all_us);

/* homes_pairs.c */
struct homes_class *homes_class_of(struct class_entry *e);
void homes_class_dropped(void *owner, struct class_entry *e);
struct homes_pair *homes_pair_find(const struct homes_class *c, const struct homes_worker *w);
/* The pair, made if it is not there. May forget another that is no home and has nothing in hand. */
struct homes_pair *homes_pair_get(struct homes *h, struct homes_class *c, struct homes_worker *w,
                                  uint64_t now_us);
void homes_pair_free(struct homes *h, struct homes_pair *p);
/* P becomes a home, or none; WORK_US comes or goes with it. */
void homes_settle(struct homes *h, struct homes_pair *p, double work_us);
void homes_unsettle(struct homes *h, struct homes_pair *p, double work_us) apart;
static inline bool homes_is_home(const struct homes_pair *p)
{
    return p->at < p->cls->nhomes;
}

/* P, a home, has WORK_US more to do: an estimate from our own requests. */
void homes_weigh(struct homes *h, struct homes_pair *p, double work_us);

/* homes_shared.c */
static inline bool homes_shared(const struct homes *h)
{
    return h->nbalancers > 1;
}
/* Of a class that is ours, which has HOME: a worker that is none any more for us, but for others;
 * or NULL. Cost: O(workers remembered for the class). */
struct homes_worker *homes_stray(const struct homes *h, const struct homes_pair *home) apart;
/* P is a home from now on, by our decision; FROM is NULL but for a MOVE. */
void homes_made(struct homes *h, struct homes_pair *p, enum home_kind kind,
                const struct homes_worker *from) apart;

/* homes_rule.c */
double homes_patience(const struct homes *h);
/* Of a class with homes: the one whose record is the oldest, KEEP left out; or NULL. */
struct homes_pair *homes_oldest(const struct homes_class *c, const struct homes_worker *keep) apart;
bool homes_is_home_of(const struct homes_class *c, const struct homes_worker *w);

#endif
