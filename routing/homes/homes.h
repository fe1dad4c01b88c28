/* SPDX-License-Identifier: Apache-2.0
 *
 * The homes of classes: which workers serve a class, and where its next request goes. It is the
 * core of policy adaptive: plain computation, without I/O, clock or threads; the pool, the
 * simulator and the tests drive the same code.
 *
 * A class lives at a few workers, its homes; their caches have what it needs. It goes to the home
 * with the least work in hand. It gets another home when waiting costs more than filling a cache
 * there, moves when others' floods make its home slow, and when its home has much more to do than
 * the least loaded worker. All is counted in seconds of work and decays by time.
 *
 * Several load balancers before the same workers agree by what the workers publish
 * (homes_shared.c).
 *
 * Owned by whoever made it, who serializes the calls. It owns its workers and classes; a ticket is
 * a part of the caller's request, and stays in place from homes_begin to homes_end.
 */
#ifndef RLB_ROUTING_HOMES_HOMES_H
#define RLB_ROUTING_HOMES_HOMES_H

#include "common/base/list.h"
#include "common/skills/home_records.h"

struct homes;
struct homes_class;
struct homes_pair;
struct homes_worker;

enum {
    /* Of the workers that publish a skill for a class that is new here, how many are remembered as
     * having it in their caches. */
    HOMES_WARM_MAX = 8,
    /* Load balancers that share the workers; further ones make the others decide alone. */
    HOMES_BALANCERS_MAX = 64,
};

/* What was done with a request. */
enum homes_reason {
    HOMES_HOME,   /* to the home with the least work in hand */
    HOMES_NEW,    /* the class had no home, and has its first now */
    HOMES_WARM,   /* the same, at a worker that is skilled by its published resume */
    HOMES_COPY,   /* to a further home: waiting costs more than filling a cache */
    HOMES_MOVE,   /* the home is slow because of others, or flooded, or was given the class by
                     hand-over and has no time for it yet: the class moved away */
    HOMES_DRAW,   /* the home has more to do than the least loaded worker, which drew the class */
    HOMES_DETOUR, /* no home may be had for this request, or others idle: elsewhere, once */
    HOMES_REASONS
};

/* Why a class moves. */
enum homes_cause {
    HOMES_SLOW,     /* waiting for those before it takes longer than its patience */
    HOMES_FLOODED,  /* another class floods its home */
    HOMES_UNSERVED, /* it was handed over to its home, which has served nothing of it yet */
    HOMES_CAUSES
};

/* The choice, in numbers; microseconds of work unless said otherwise. */
struct homes_choice {
    enum homes_reason reason;
    enum homes_cause cause;    /* of MOVE */
    struct homes_worker *from; /* MOVE, DRAW: where the class lived before; else NULL */
    double expected_us;        /* what the request is expected to cost */
    double share;              /* s: the class's share of all work, in workers */
    double home_us;            /* B of the home with the least, before the choice; 0 without one */
    double least_us;           /* the least B of all */
    double picked_us;          /* B of the worker picked */
    double price_us;           /* of one more home; 0 when a further home was not asked about */
    double patience_us;        /* V; 0 when it was not asked about */
    size_t homes;              /* before the choice */
    size_t homes_max;          /* as many as the class may have now */
};

/* A request in hand. All the core's. */
struct homes_ticket {
    struct list of_worker; /* worker->in_hand, oldest first */
    struct list of_pair;
    struct homes_worker *worker; /* NULL: not in hand */
    struct homes_pair *pair;     /* NULL when its class or worker has been forgotten */
    uint64_t start_us;
    uint64_t serve_us;    /* when the worker can have begun with it, as far as we can see */
    uint32_t expected_us; /* as counted in the worker's work */
    bool serving;
    bool overtaken; /* it says nothing of whether the worker hangs */
    bool cold;      /* the first of its class there */
    /* What the worker is to be told with the request, for all load balancers to know. */
    enum home_kind kind;
    struct homes_worker *from; /* MOVE: where the class lived; valid until the next call */
    bool passing;              /* the worker is no home of the class: it is told that instead */
};

struct homes_settings {
    size_t max_classes; /* classes kept, as in common/skills/classes.h */
    double max_share;   /* the part of the workers that one class may live at; (0, 1] */
    bool always;        /* ... even where there is hardly anything else */
};

struct homes_options {
    struct homes_settings settings;
    /*
     * The workers that are skilled at CLS by what they have published, best first; asked for a
     * class that is new here. NULL: nobody has published anything.
     *   -> how many, <= HOMES_WARM_MAX
     */
    size_t (*warm)(void *context, struct slice cls, struct homes_worker *out[]);
    /* A number for the name of a worker, not 0, the same whenever it joins. NULL: they have none.
     */
    uint64_t (*name)(void *context, void *worker_context);
    void *context;
};

struct homes_request {
    struct slice cls;
    uint64_t cls_hash; /* class_hash of it; 0: nobody has made it yet */
    uint64_t now_us;   /* monotonic */
    /* Workers that may not have it, by their contexts; or NULL: any may. */
    bool (*refuses)(void *context, void *worker_context);
    void *context;
};

/* What is to be done with a request. */
struct homes_plan {
    struct homes_choice choice;
    struct homes_worker *worker; /* NULL: nobody in the line may have it */
    /* The core's. */
    struct homes_class *cls; /* NULL: new here */
    struct homes_pair *from; /* the home it moves away from, or NULL */
    struct homes_pair *home; /* HOMES_HOME: the class at WORKER; else NULL */
    double work, demand, all_work, asked, all_asked;
    double worth; /* its share, of work or of requests, in workers: the greater */
    size_t nwarm;
    struct homes_worker *warm[HOMES_WARM_MAX]; /* last: what is not used is not cleared */
};

struct homes *homes_create(const struct homes_options *o);
/* Whatever is still there goes with it; no ticket may be ended after that. NULL is fine. */
void homes_destroy(struct homes *h);
void homes_set(struct homes *h, const struct homes_settings *s);

/* A worker with nothing in its cache, not yet in the line. CONCURRENCY >= 1: requests at once. */
struct homes_worker *homes_join(struct homes *h, unsigned concurrency, void *context);
/* It is gone for good, and what it had in its cache. Its tickets are still to be ended. */
void homes_leave(struct homes *h, struct homes_worker *w);
/*
 * Whether W gets requests. A class whose home stands aside moves with its next request, so that the
 * busiest go first, one by one; what has not moved until W is back still has its home there.
 */
void homes_set_in_line(struct homes *h, struct homes_worker *w, bool in_line, uint64_t now_us);
void *homes_worker_context(const struct homes_worker *w);

/*
 * Where R would go; nothing changes by it.
 * Cost: O(homes of the class); where it may get another home also O(HOMES_SCAN_MAX).
 */
void homes_plan(struct homes *h, const struct homes_request *r, struct homes_plan *out);
/*
 * Do as planned, right after that, and count the request on its worker. Pair with homes_end.
 *   w  who gets it: of the line; another than planned changes nothing of the class's homes
 */
void homes_begin(struct homes *h, const struct homes_request *r, const struct homes_plan *plan,
                 struct homes_worker *w, struct homes_ticket *t);
/*
 * FROM is about to leave for good: its classes get other homes now, rather than each with its next
 * request. What it has in hand still ends there.
 *   to  who takes its place, with nothing in its cache: all classes that live at FROM live there
 *       from now on, and what FROM did of late counts as its work.
 *       NULL: nobody does, and FROM stands aside. The classes that have no other home in the line
 *       get one each, at the least loaded worker, those with the most work first, at most
 *       HOMES_HAND_OVER_MAX. The rest move with their next requests; so do all with several load
 *       balancers
 *   r   now_us, and who may not have any; its class is not looked at
 * -> how many homes have been handed over.
 * Cost: O(n log n) for n homes at FROM.
 */
size_t homes_hand_over(struct homes *h, struct homes_worker *from, struct homes_worker *to,
                       const struct homes_request *r);
/* W has had a request since STARTED_US of which nothing else is known. Pair with homes_end. */
void homes_adopt(struct homes *h, struct homes_worker *w, uint64_t started_us,
                 struct homes_ticket *t);
struct homes_end {
    uint64_t now_us;
    uint64_t service_us; /* as measured, with what it waited at the worker; 0: not measured */
    bool failed;         /* its time says nothing of what the class costs, unless it was long */
    bool unserved;       /* its time says nothing at all */
    uint64_t others;     /* requests that the worker has in hand from other load balancers */
};
void homes_end(struct homes *h, struct homes_ticket *t, const struct homes_end *e);

/* ---- several load balancers ---- */

/*
 * Who sends requests to the same workers: IDS, which all of them know each other by, SELF the place
 * of this one. With one (or none) it decides alone.
 * Each is taken to get the same part of each class's requests.
 * Cost: O(all homes) when it is alone no more, or again; else O(N).
 */
void homes_set_balancers(struct homes *h, const uint64_t ids[], size_t n, size_t self,
                         uint64_t now_us);

/* What W has published of a class. Times are this machine's, as far as they can be told. */
struct homes_record {
    enum home_kind kind;
    const struct homes_worker *from; /* MOVE; NULL: it is not known here, or not yet ... */
    uint64_t from_name;              /* ... and has this name (homes_options.name); 0: none */
    uint64_t since_us, used_us;
    double rate; /* work it did of late, in workers' worth */
};
/*
 * One that decides alone takes it only for classes of which it has had no request yet.
 * Cost: O(pairs of the class), and the square of its moves when something was decided.
 */
void homes_published(struct homes *h, struct homes_worker *w, struct slice cls,
                     const struct homes_record *r, uint64_t now_us);
/* Whether this load balancer gives CLS further homes, and has it drawn. */
bool homes_owns(const struct homes *h, struct slice cls);

/* ---- for status pages and tests ---- */

struct homes_view {
    size_t balancers; /* >= 1 */
    size_t workers;   /* in the line */
    size_t classes;
    size_t homes;       /* pairs of a class and a worker in the line that is its home */
    double cold_us;     /* P */
    double mean_us;     /* of a request's service */
    double least_us;    /* of B */
    double median_us;   /* of B; of a sample, with many workers */
    double patience_us; /* V */
};
/* Of one more home, for the class of PLAN; 0 when it has none. */
double homes_price(const struct homes *h, const struct homes_plan *plan);
struct homes_worker_view {
    bool in_line;
    size_t homes;
    size_t in_hand;
    double work_us;    /* B */
    double stalled_us; /* the part of B that is time without any sign of life */
    double load;       /* L; 1 is the mean */
    double work;       /* decayed work, in workers' worth */
};
void homes_view(struct homes *h, uint64_t now_us, struct homes_view *out);
void homes_view_worker(struct homes *h, const struct homes_worker *w, uint64_t now_us,
                       struct homes_worker_view *out);
/* A worker as the rule sees it for a request; microseconds of work. */
struct homes_sight {
    struct homes_worker *worker;
    bool home;      /* of the class */
    bool in_line;   /* homes may stand aside */
    bool refused;   /* it may not have the request */
    double work_us; /* B */
    double
        saves_us; /* that much less than the home with the least has; <= 0: nothing, or no home */
    /* L + (B - min B) / P: a class that needs a home, or another one, gets the least of these. */
    double cost;
};
/*
 * Everybody, as PLAN (of R, just made) has seen them: homes in the line, homes that stand aside,
 * the others by B roughly. At most MAX. -> how many there are.
 */
size_t homes_look_round(struct homes *h, const struct homes_request *r,
                        const struct homes_plan *plan, struct homes_sight out[], size_t max);
/* The homes of a class, at most MAX. -> how many it has. */
size_t homes_of(struct homes *h, struct slice cls, struct homes_worker *out[], size_t max);
/* Asserts every invariant; for tests. */
void homes_check(struct homes *h);

#endif
