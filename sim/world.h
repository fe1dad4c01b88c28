/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers with caches, and the load balancers before them, in virtual time. The pools are those of
 * the server (routing/pool.h); a worker serves as many requests at once as it has places, in the
 * order in which they came, and takes for each, whatever is in the other places,
 *
 *     base + hits * hit + loads * load
 *
 * a load being an object that is not among those it used last. It measures its service times as an
 * agent does, and sends resumes. What is not modelled: the balancer's own time, the network's, and
 * time-outs. Deterministic. Owned by its creator; single-threaded.
 */
#pragma once

#include "routing/pool.h"
#include "sim/parts.h"
#include "sim/workload.h"

enum {
    WORLD_WORKERS_MAX = 4096,
    WORLD_BALANCERS_MAX = 64,
    WORLD_CACHE_MAX = 1 << 24,
    /* Objects in all caches together: 20 bytes each. */
    WORLD_CACHED_MAX = 64 << 20,
    WORLD_DB_SLOTS_MAX = 4096,
    WORLD_CONCURRENCY_MAX = 1000,
};

struct world_options {
    unsigned workers;     /* 1 .. WORLD_WORKERS_MAX */
    unsigned concurrency; /* places of each; 0: 1 */
    uint32_t cache;       /* objects of each worker */
    uint64_t base_ns, hit_ns, load_ns;
    unsigned db_slots;  /* maximum number of concurrent loads of all workers; 0: unbounded */
    unsigned history;   /* requests between a worker's resumes */
    unsigned balancers; /* requests go to them in turn */
    /* Delay after which the other balancers receive the number of requests in flight that a worker
     * reported in a response; 0: never, each balancer sees only its own responses. */
    uint64_t report_delay_ns;
    /* Interval at which workers publish the classes of which they are homes, so that balancers
     * agree; 0: never, each balancer decides alone. */
    uint64_t homes_delay_ns;
    /* All times of the work, of its arrivals and between runs are multiplied by this; 0: 1. The two
     * delays above are not: they belong to the balancers and agents, whatever the work. */
    double time_scale;
    /* The service time reported to policies is the time from sending a request to its response, as
     * measured by a balancer that sends requests to a queue; else the work alone. */
    bool queue_is_service;
};

struct sim_world;

struct sim_world *world_create(const struct world_options *o, const struct pool_settings *s);
void world_destroy(struct sim_world *w);

/* Something happens to a worker before the request at AT is issued. */
enum world_change {
    WORLD_KILL,    /* the process has exited, and its requests in flight are sent again */
    WORLD_LOSE,    /* the same, but the balancers expect that it returns */
    WORLD_START,   /* a process with an empty cache: a new worker, or one that returns */
    WORLD_DRAIN,   /* it announces its end: completes its requests, gets no new ones */
    WORLD_REPLACE, /* a new process with an empty cache; the old one completes its requests */
};
struct world_event {
    size_t at;
    enum world_change change;
    unsigned worker;
};

/* Requests, and how they come. */
struct world_run {
    const struct trace *trace;
    size_t first, n;         /* the requests of TRACE that come */
    const uint32_t *classes; /* of each request of TRACE, in NAMES */
    const struct names *names;
    /* Each sends its next request, or begins its next session, after a response. 0: at the due
     * times. */
    unsigned clients;
    double speed;                     /* due times are divided by it; > 0 */
    const struct world_event *events; /* by AT, which counts from FIRST; before the request at AT,
                                       * or the first after it that does not follow another */
    size_t nevents;
};

/* The result of a request. */
struct world_record {
    uint64_t start_us; /* from the start of the run: issued, or due in an open loop */
    uint64_t latency_us;
    uint64_t service_us;
    uint32_t cls;
    uint16_t worker;
    uint16_t hits, loads;
    uint16_t tag;
    uint8_t reason; /* enum pick_reason, of the last attempt */
    bool follows;   /* the record before this one is of the request that it follows */
    bool failed;    /* there was no worker */
};

/* Runs until all requests have their responses; then a moment of virtual time passes. OUT has room
 * for all requests of the trace; each record is stored at the index of its request. */
void world_run(struct sim_world *w, const struct world_run *run, struct world_record *out);

/* Contents of the caches. */
struct world_overlap {
    uint64_t cached, distinct;
    uint64_t shared; /* distinct objects in more than one cache */
};
void world_overlap(const struct sim_world *w, struct world_overlap *out);

/* Adds what shadow_policy has counted so far, of all balancers; TIMES -1: subtracts it. */
void world_add_shadow(const struct sim_world *w, int times, struct pool_shadow_counts *out);

/* ---- figures of a run ---- */

/* Which records. */
struct figures_part {
    size_t from, to; /* positions */
    int tag;         /* only these; -1: all */
};

struct sim_figures {
    size_t n, failed; /* what follows is of those that did not fail */
    double wall_s;    /* from the first start to the last end, failed ones included */
    double rate;      /* requests a second */
    double loads;     /* objects not in the cache, per request */
    double hit_share; /* of the objects that were needed */
    double mean_ms, p50_ms, p90_ms, p99_ms, max_ms;
    double moved;         /* of the requests that follow another: share that changed the worker */
    double share_max;     /* requests of the busiest worker, over the mean */
    double busy_max;      /* seconds of work of the busiest worker, over the mean */
    double busy;          /* seconds of work, over what all workers could have done */
    double workers;       /* number that got any */
    double class_workers; /* mean number that a class had, of classes with FIGURES_CLASS_MIN */
};

enum { FIGURES_CLASS_MIN = 10 };

void figures_of(const struct world_record *records, const struct figures_part *part,
                unsigned nworkers, struct sim_figures *out);
/* Share of the requests that the workers FIRST .. LAST - 1 got. */
double figures_share(const struct world_record *records, const struct figures_part *part,
                     unsigned first, unsigned last);
