/* SPDX-License-Identifier: Apache-2.0
 *
 * The homes of classes: which workers serve a class, and where its next request goes. It is the
 * core of policy adaptive: plain computation, without I/O, clock or threads; the pool, the
 * simulator and the tests drive the same code.
 *
 * Each class is assigned to a few workers, its homes, which have in their caches what it needs. A
 * request goes to the home with the least work in flight. The class gets another home when waiting
 * costs more than filling a cache there. It moves when floods of other classes make its home slow,
 * and when its home has much more work than the least loaded worker. Everything is measured in
 * seconds of work and decays over time.
 *
 * Several load balancers in front of the same workers agree by means of what the workers publish
 * (homes_shared.c).
 *
 * Owned by the creator, which must serialize the calls. It owns its workers and classes; a ticket
 * is part of the caller's request and must not move from homes_begin to homes_end.
 */
#pragma once

#include "common/base/list.h"
#include "common/skills/home_records.h"

struct homes;
struct homes_class;
struct homes_pair;
struct homes_worker;

enum {
    /* Maximum number of workers expected to be warm for a new class, by their resumes. */
    HOMES_WARM_MAX = 8,
    /* Maximum number of load balancers that agree; if there are more, each decides alone. */
    HOMES_BALANCERS_MAX = 64,
};

/* How a request was assigned. */
enum homes_reason {
    HOMES_HOME,      /* to the home with the least work in flight */
    HOMES_NEW,       /* the class had no home and gets its first one */
    HOMES_WARM,      /* the same, at a worker that is skilled according to its published resume */
    HOMES_REPLICATE, /* to an additional home: waiting costs more than filling a cache */
    HOMES_REASSIGN,  /* the class moved away from a home that cannot serve it well (homes_cause) */
    HOMES_REBALANCE, /* the home has more work than the least loaded worker; the class moved there
                      */
    HOMES_OVERFLOW,  /* no home may serve it, or other workers are idle: elsewhere, this once */
    HOMES_REASONS
};

/* Why a class moves. */
enum homes_cause {
    HOMES_SLOW,     /* the wait exceeds the class's patience */
    HOMES_FLOODED,  /* another class floods the home */
    HOMES_UNSERVED, /* the home received the class by hand-over and has not served it yet */
    HOMES_CAUSES
};

/* The choice, in numbers; microseconds of work unless stated otherwise. */
struct homes_choice {
    enum homes_reason reason;
    enum homes_cause cause;    /* of REASSIGN */
    struct homes_worker *from; /* REASSIGN, REBALANCE: the previous home; else NULL */
    double expected_us;        /* expected cost of the request */
    double share;              /* s: the class's share of all work, in workers */
    double home_us;     /* lowest B of the homes, before the choice; 0 if there are no homes */
    double least_us;    /* lowest B of all workers */
    double price_us;    /* of one more home; 0 if it was not computed */
    double patience_us; /* V; 0 if it was not computed */
    size_t homes;       /* before the choice */
    size_t homes_max;   /* the number of homes the class may have now */
};

/* A request in flight. All members are private. */
struct homes_ticket {
    struct list of_worker; /* worker->in_flight, oldest first */
    struct list of_pair;
    struct homes_worker *worker; /* NULL: not in flight */
    struct homes_pair *pair;     /* NULL if its class or worker was deleted */
    uint64_t serve_us;           /* estimated start of service at the worker */
    uint32_t expected_us;        /* as added to the worker's work */
    bool serving;
    bool overtaken; /* its duration does not indicate whether the worker hangs */
    bool cold;      /* the first of its class at the worker */
    /* Report to the worker with the request; the worker publishes it to all load balancers. */
    enum home_kind kind;
    struct homes_worker *from; /* MOVE: the previous home; valid until the next call */
    bool passing;              /* the worker is not a home of the class; this is reported instead */
};

struct homes_settings {
    size_t max_classes; /* limit of stored classes, as in common/skills/classes.h */
    double max_share;   /* maximum fraction of the workers that are homes of one class; (0, 1] */
    bool always;        /* ... even if hardly any other class is requested */
};

struct homes_options {
    struct homes_settings settings;
    /* Sets OUT to the workers that are skilled at CLS, a new class, according to their resumes,
     * best first; returns their number, <= HOMES_WARM_MAX. NULL: there are no resumes. */
    size_t (*warm)(void *context, struct slice cls, struct homes_worker *out[]);
    void *context;
};

struct homes_request {
    struct slice cls;
    uint64_t cls_hash; /* class_hash of it; 0: not computed yet */
    uint64_t now_us;   /* monotonic */
    /* Returns true if the worker with this context may not have the request. NULL: all may. */
    bool (*rejects)(void *context, void *worker_context);
    void *context;
};

/* How a request is to be assigned. */
struct homes_plan {
    struct homes_choice choice;
    struct homes_worker *worker; /* NULL: no eligible worker may have it */
    /* The following members are private. */
    struct homes_class *cls; /* NULL: a new class */
    struct homes_pair *from; /* the home that the class leaves, or NULL */
    struct homes_pair *home; /* HOMES_HOME: the pair of the class and WORKER; else NULL */
    double work, demand, all_work, asked, all_asked;
    bool parallel; /* the class has, or had, several requests in flight */
    double worth;  /* the greater of its shares of work and of requests, in workers */
    size_t nwarm;
    struct homes_worker
        *warm[HOMES_WARM_MAX]; /* the last member, because unused entries are not cleared */
};

struct homes *homes_create(const struct homes_options *o);
/* Frees all workers and classes; no ticket may be ended afterwards. H may be NULL. */
void homes_destroy(struct homes *h);
void homes_set(struct homes *h, const struct homes_settings *s);

/* Adds a worker with an empty cache, ineligible. CONCURRENCY: requests served at once; >= 1. NAME:
 * a number for its name, the same each time it joins; 0: none. */
struct homes_worker *homes_join(struct homes *h, unsigned concurrency, uint64_t name,
                                void *context);
/* Removes the worker permanently; its cache is lost. Outstanding tickets must still be ended. */
void homes_leave(struct homes *h, struct homes_worker *w);
/* Sets whether W gets requests. If the home of a class is not eligible, the class moves with its
 * next request. A class without a request meanwhile still has W as its home when W returns. */
void homes_set_eligible(struct homes *h, struct homes_worker *w, bool eligible, uint64_t now_us);
void *homes_worker_context(const struct homes_worker *w);

/* Determines where R would go; no side effects. Cost: O(homes of the class), plus O(HOMES_SCAN_MAX)
 * if it may get another home. */
void homes_plan(struct homes *h, const struct homes_request *r, struct homes_plan *out);
/* Executes the plan and counts the request at W, which is eligible; if it is not the planned
 * worker, the class's homes do not change. Must follow homes_plan directly; pair with homes_end. */
void homes_begin(struct homes *h, const struct homes_request *r, const struct homes_plan *plan,
                 struct homes_worker *w, struct homes_ticket *t);
/*
 * FROM is about to leave permanently: its classes get other homes now, instead of each with its
 * next request. Its requests in flight still end there.
 *   to  the worker that takes its place, with an empty cache: it becomes the home of all classes of
 *       FROM, and the recent work of FROM counts as its work. NULL: no worker does; FROM must not
 *       be eligible. Each class that has no other eligible home gets one at the least loaded
 *       worker, those with the most work first, at most HOMES_HAND_OVER_MAX. The rest move with
 *       their next requests, as do all classes if there are several load balancers
 *   r   provides now_us and the workers that may not be used; its class is ignored
 * Returns the number of homes that were handed over.
 * Cost: O(n log n) for n homes at FROM.
 */
size_t homes_hand_over(struct homes *h, struct homes_worker *from, struct homes_worker *to,
                       const struct homes_request *r);
/* Adds a request of unknown class, at W since STARTED_US. Pair with homes_end. */
void homes_adopt(struct homes *h, struct homes_worker *w, uint64_t started_us,
                 struct homes_ticket *t);
struct homes_end {
    uint64_t now_us;
    uint64_t service_us; /* as measured, including the wait at the worker; 0: not measured */
    bool failed;         /* its time does not indicate the cost of the class, unless it was long */
    bool unserved;       /* its time has no meaning */
    uint64_t others;     /* requests in flight at the worker from other load balancers */
};
void homes_end(struct homes *h, struct homes_ticket *t, const struct homes_end *e);

/* ---- several load balancers ---- */

/* Sets the load balancers that send requests to the same workers, each the same fraction of each
 * class: IDS, the same numbers for all of them, and SELF, the index of this one. With one or none
 * it decides alone. Cost: O(all homes) on a change between one and several; else O(N). */
void homes_set_balancers(struct homes *h, const uint64_t ids[], size_t n, size_t self,
                         uint64_t now_us);

/* A record of W about a class; times are converted to this clock as far as possible. */
struct homes_record {
    enum home_kind kind;
    const struct homes_worker *from; /* MOVE; NULL: not known here, or not yet ... */
    uint64_t from_name;              /* ... and has this name (homes_join); 0: none */
    uint64_t since_us, used_us;
    double rate; /* recent work, in workers */
};
/* A load balancer that decides alone uses records only for classes of which it has had no request.
 * Cost: O(pairs of the class), plus the square of its moves if the record has a new decision or the
 * class has several homes. */
void homes_published(struct homes *h, struct homes_worker *w, struct slice cls,
                     const struct homes_record *r, uint64_t now_us);
/* Whether this load balancer assigns additional homes to CLS and rebalances it. */
bool homes_owns(const struct homes *h, struct slice cls);

/* ---- for status pages and tests ---- */

/* A worker as evaluated by the rule for a request; microseconds of work. */
struct homes_sight {
    struct homes_worker *worker;
    bool home;       /* of the class */
    bool eligible;   /* homes may be ineligible */
    bool rejected;   /* it may not have the request */
    double work_us;  /* B */
    double saves_us; /* difference to the home with the least work; <= 0: no saving, or no home */
    /* L + (B - min B) / P: the lowest gets a class that needs a home, or another one. */
    double cost;
};
/* What the rule knew when it made a plan. */
struct homes_evidence {
    double cold_us;     /* P */
    double price_us;    /* of one more home for the class; 0 if it has none */
    double patience_us; /* V */
    bool owned;         /* homes_owns() */
    /* Eligible homes, homes that are not eligible, then the other workers roughly by B. */
    struct homes_sight *sights;
    size_t n;
};
/* Evaluates PLAN, which was just made for R. The caller frees OUT->sights. */
void homes_evaluate(const struct homes *h, const struct homes_request *r,
                    const struct homes_plan *plan, struct homes_evidence *out);
/* Sets OUT to at most MAX homes of a class. Returns the number of its homes. */
size_t homes_of(struct homes *h, struct slice cls, struct homes_worker *out[], size_t max);
