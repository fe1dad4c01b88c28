/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers with caches before one pool, in virtual time. A request is for some objects of its site,
 * which is its class; a worker serves one request at a time, first come first served, and loads
 * what is not in its cache (LRU). Clients are a closed loop (each sends its next request when it
 * has its answer) or arrivals at random times.
 *
 *     site (zipf) -> objects (normal around the site's middle) -> pool_get -> worker's queue ->
 *     base + hits * hit + misses * miss -> pool_put
 *
 * One test owns a world; it goes through phases of requests, and each leaves its figures.
 */
#ifndef RLB_TESTS_SIM_AFFINITY_H
#define RLB_TESTS_SIM_AFFINITY_H

#include "lb/pool.h"
#include "tests/sim/random.h"

enum { AFFINITY_WORKERS = 16, AFFINITY_SITES = 500 };

/* A class that comes on top of the others: its part of all requests while it does. */
struct attack {
    size_t from, to; /* requests of the phase */
    double share;
    bool crawls; /* it never asks for an object twice */
};

struct phase {
    size_t requests;
    size_t clients; /* closed loop */
    double rate;    /* else, per second */
    size_t rotate;  /* each rank has the popularity of so many ranks on */
    double costly;  /* the part of the sites that cost ten times as much */
    struct attack attack;
    /* Before this request of the phase the workers [first, end) are killed, or started anew. */
    struct {
        size_t at;
        int first, end;
        bool start;
    } events[2];
    size_t nevents;
};

struct record {
    double start_s, latency_s, service_s;
    uint32_t site;
    uint16_t worker;
    uint16_t loads;
    uint8_t tag; /* 1: of the attack, or of a costly site */
};

struct affinity;

struct affinity *affinity_create(enum pool_policy policy, uint64_t seed);
void affinity_destroy(struct affinity *a);
/* How many the database serves at a time; 0: any number. Before the first phase. */
void affinity_limit_database(struct affinity *a, size_t slots);
/* The workers [first, end) go. */
void affinity_kill(struct affinity *a, int first, int end);
/* Run PH. The records of its requests, in their order, until the next phase. */
const struct record *affinity_run(struct affinity *a, const struct phase *ph);
/* The part of the objects in caches that is in more than one. */
double affinity_overlap(const struct affinity *a);
struct pool *affinity_pool(struct affinity *a);

struct figures {
    size_t n;
    double loads;                   /* per request */
    double rate;                    /* per second */
    double p50, p90, p99;           /* ms */
    double share[AFFINITY_WORKERS]; /* of the requests */
    double busiest;                 /* requests of the busiest worker, over the mean */
    size_t workers;                 /* that had any */
};
enum { TAG_ANY = 2 };
/* Of RECORDS [from, to), those with TAG. */
struct figures affinity_figures(const struct record *records, size_t from, size_t to, unsigned tag);

#endif
