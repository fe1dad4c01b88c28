/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker serves in the order in which requests come, so a request's end is known when it is sent:
 * the only events are arrivals and ends. Requests that a killed worker had in hand are sent again,
 * as the proxy would; their latency counts from the first time.
 */
#include "tests/sim/affinity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/lru.h"

enum {
    CACHE = 2000, /* objects; all caches together have room for nearly all there is */
    OBJECTS_PER_REQUEST = 20,
    SITE_BITS = 20,
    IN_HAND_MAX = 20000,
    DATABASE_MAX = 64,
    ATTACKER = AFFINITY_SITES, /* the site of the attack */
};

static const double BASE_S = 0.010;
static const double HIT_S = 20e-6;
static const double MISS_S = 0.002;
static const double COSTLY = 10;     /* times the base */
static const double OBJECTS_SD = 15; /* of a site, about its middle */
static const double ZIPF = 0.9;
static const double PAUSE_S = 0.1; /* between phases */

struct job {
    struct pool_pick pick;
    struct record *record;
    double start_s, end_s, cost; /* COST: times the base */
    uint64_t order;              /* of those that end at the same time */
    int worker;
    uint32_t site;
    size_t nobjects;
    uint64_t objects[OBJECTS_PER_REQUEST];
};

struct affinity {
    struct pool *pool;
    struct worker *workers[AFFINITY_WORKERS]; /* NULL: killed */
    struct lru *caches[AFFINITY_WORKERS];
    double free_s[AFFINITY_WORKERS]; /* when it will have served all */
    double database_s[DATABASE_MAX]; /* the same */
    size_t ndatabase;
    double popularity[AFFINITY_SITES]; /* cumulated */
    struct random random, attack_random;
    uint64_t seed;
    unsigned phases;
    unsigned lives;
    double now_s;
    struct job *in_hand[IN_HAND_MAX]; /* a heap by END_S */
    size_t nin_hand;
    uint64_t norders;
    struct record *records;
};

/* ---- the world ---- */

static void start_worker(struct affinity *a, int i)
{
    char name[24], life[24];
    struct worker_options o = {.concurrency = 1};
    struct resume none = {0};

    snprintf(name, sizeof(name), "10.0.0.%d:8000", i + 1);
    snprintf(life, sizeof(life), "life-%u", a->lives++);
    o.name = (struct slice){name, strlen(name)};
    o.incarnation = (struct slice){life, strlen(life)};
    a->workers[i] = worker_create(&o);
    lru_clear(a->caches[i]);
    a->free_s[i] = 0;
    pool_new_resume(a->pool, a->workers[i], &none, "", "", NULL);
}

struct affinity *affinity_create(enum pool_policy policy, uint64_t seed)
{
    struct pool_settings s = {
        .policy = policy,
        .variance = 4,
        .backlog_history = 9,
        .max_share = 0.4375,
        .unskilled_score = 1,
        .max_classes = 100000,
        .max_waiting = 1,
    };
    struct affinity *a = xcalloc(1, sizeof(*a));
    double sum = 0;

    a->seed = seed;
    a->pool = pool_create(&s, "");
    for (int i = 0; i < AFFINITY_WORKERS; ++i) {
        a->caches[i] = lru_create(CACHE);
        start_worker(a, i);
    }
    for (int i = 0; i < AFFINITY_SITES; ++i)
        a->popularity[i] = sum += pow(i + 1, -ZIPF);
    for (int i = 0; i < AFFINITY_SITES; ++i)
        a->popularity[i] /= sum;
    return a;
}

void affinity_destroy(struct affinity *a)
{
    affinity_kill(a, 0, AFFINITY_WORKERS);
    for (int i = 0; i < AFFINITY_WORKERS; ++i)
        lru_destroy(a->caches[i]);
    pool_destroy(a->pool);
    free(a->records);
    free(a);
}

void affinity_limit_database(struct affinity *a, size_t slots)
{
    ASSERT(slots <= DATABASE_MAX);
    a->ndatabase = slots;
}

struct pool *affinity_pool(struct affinity *a)
{
    return a->pool;
}

double affinity_overlap(const struct affinity *a)
{
    size_t objects = 0;
    size_t in_several = 0;

    for (int i = 0; i < AFFINITY_WORKERS; ++i) {
        const uint64_t *keys;
        size_t n = lru_keys(a->caches[i], &keys);

        for (size_t k = 0; k < n; ++k) {
            bool before = false;
            bool after = false;

            for (int j = 0; j < AFFINITY_WORKERS; ++j) {
                if (j != i && lru_has(a->caches[j], keys[k]))
                    *(j < i ? &before : &after) = true;
            }
            /* Each object is counted where it comes first. */
            objects += !before;
            in_several += !before && after;
        }
    }
    return objects != 0 ? (double)in_several / (double)objects : 0;
}

/* ---- requests in hand, the first to end at the top ---- */

static bool sooner(const struct job *a, const struct job *b)
{
    return a->end_s < b->end_s || (a->end_s == b->end_s && a->order < b->order);
}

static void push(struct affinity *a, struct job *j)
{
    ASSERT(a->nin_hand < IN_HAND_MAX);
    size_t at = a->nin_hand++;
    for (; at != 0 && sooner(j, a->in_hand[(at - 1) / 2]); at = (at - 1) / 2)
        a->in_hand[at] = a->in_hand[(at - 1) / 2];
    a->in_hand[at] = j;
}

static struct job *pop(struct affinity *a)
{
    struct job *top = a->in_hand[0];
    struct job *last = a->in_hand[--a->nin_hand];
    size_t at = 0;

    for (size_t child; (child = 2 * at + 1) < a->nin_hand; at = child) {
        if (child + 1 < a->nin_hand && sooner(a->in_hand[child + 1], a->in_hand[child]))
            ++child;
        if (!sooner(a->in_hand[child], last))
            break;
        a->in_hand[at] = a->in_hand[child];
    }
    a->in_hand[at] = last;
    return top;
}

/* ---- a request ---- */

static double use_database(struct affinity *a, double from_s, double takes_s)
{
    size_t first = 0;

    if (a->ndatabase == 0 || takes_s <= 0)
        return from_s + takes_s;
    for (size_t i = 1; i < a->ndatabase; ++i) {
        if (a->database_s[i] < a->database_s[first])
            first = i;
    }
    double begins_s = fmax(from_s, a->database_s[first]);
    return a->database_s[first] = begins_s + takes_s;
}

static uint64_t microseconds(double s)
{
    return (uint64_t)(s * 1e6);
}

static int worker_number(const struct affinity *a, const struct worker *w)
{
    for (int i = 0; i < AFFINITY_WORKERS; ++i) {
        if (a->workers[i] == w)
            return i;
    }
    UNREACHABLE();
}

static void send_job(struct affinity *a, struct job *j)
{
    char cls[32];
    struct record *r = j->record;
    size_t misses = 0;

    snprintf(cls, sizeof(cls), "h%u.example", j->site);
    struct pool_request request = {.cls = {cls, strlen(cls)}};
    enum err e = pool_get(a->pool, &request, microseconds(a->now_s), &j->pick);
    ASSERT(e == ERR_OK);
    int w = j->worker = worker_number(a, j->pick.worker);
    for (size_t i = 0; i < j->nobjects; ++i)
        misses += !lru_use(a->caches[w], j->objects[i]);
    double begins_s = fmax(a->free_s[w], a->now_s);
    double busy_s = j->cost * BASE_S + (double)(j->nobjects - misses) * HIT_S;
    j->end_s = a->free_s[w] = use_database(a, begins_s + busy_s, (double)misses * MISS_S);
    j->order = a->norders++;
    r->service_s = j->end_s - begins_s;
    r->worker = (uint16_t)w;
    r->loads = (uint16_t)misses;
    push(a, j);
}

static void end_job(struct affinity *a, struct job *j)
{
    /* What a proxy can measure: with what it waited for those before it at the worker. */
    struct pool_served how = {
        .now_us = microseconds(a->now_s),
        .service_us = microseconds(a->now_s - j->start_s),
    };

    j->record->latency_s = a->now_s - j->start_s;
    pool_put(a->pool, &j->pick, &how, NULL);
    free(j);
}

/* Its requests in hand come back, in the order of their ends. -> how many */
static size_t kill_worker(struct affinity *a, int w, struct job **lost)
{
    size_t nlost = 0;
    size_t nkept = 0;
    struct job **kept = xcalloc(a->nin_hand + 1, sizeof(struct job *));

    while (a->nin_hand != 0) {
        struct job *j = pop(a);

        if (j->worker == w)
            lost[nlost++] = j;
        else
            kept[nkept++] = j;
    }
    for (size_t i = 0; i < nkept; ++i)
        push(a, kept[i]);
    free(kept);
    for (size_t i = 0; i < nlost; ++i)
        pool_put(a->pool, &lost[i]->pick, NULL, NULL);
    pool_remove(a->pool, a->workers[w], NULL);
    worker_unref(a->workers[w]);
    a->workers[w] = NULL;
    return nlost;
}

void affinity_kill(struct affinity *a, int first, int end)
{
    struct job **lost = xcalloc(IN_HAND_MAX, sizeof(struct job *));

    for (int w = first; w < end; ++w) {
        if (a->workers[w] == NULL)
            continue;
        size_t n = kill_worker(a, w, lost);
        for (size_t i = 0; i < n; ++i)
            send_job(a, lost[i]);
    }
    free(lost);
}

/* ---- what is asked for ---- */

static double normal(struct random *r)
{
    return sqrt(-2 * log(1 - random_unit(r))) * cos(2 * M_PI * random_unit(r));
}

static uint32_t draw_site(struct affinity *a, size_t rotate)
{
    double u = random_unit(&a->random);
    uint32_t low = 0;
    uint32_t high = AFFINITY_SITES - 1;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (a->popularity[middle] < u)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)((low + rotate) % AFFINITY_SITES);
}

/* No object twice in one request. */
static void draw_objects(struct affinity *a, struct job *j, struct random *r, bool crawls)
{
    for (int i = 0; i < OBJECTS_PER_REQUEST; ++i) {
        int object = crawls ? (int)random_below(r, 1 << 30) : (int)(normal(r) * OBJECTS_SD);
        uint64_t key = (uint64_t)(object + (1 << 30)) << SITE_BITS | (j->site + 1);
        size_t k = 0;

        while (k < j->nobjects && j->objects[k] != key)
            ++k;
        if (k == j->nobjects)
            j->objects[j->nobjects++] = key;
    }
    (void)a;
}

/* One popular site and many others. */
static bool is_costly(uint32_t site, double part)
{
    uint32_t each = part > 0 ? (uint32_t)(1 / part) : 0;

    return each != 0 && (site == 2 || (site > 2 * each && site % each == 4 % each));
}

static struct job *make_job(struct affinity *a, const struct phase *ph, size_t i)
{
    const struct attack *attack = &ph->attack;
    struct job *j = xcalloc(1, sizeof(*j));
    bool attacked = i >= attack->from && i < attack->to;

    j->cost = 1;
    j->record = &a->records[i];
    if (attacked && random_unit(&a->attack_random) < attack->share) {
        j->site = ATTACKER;
        j->record->tag = 1;
        draw_objects(a, j, &a->attack_random, attack->crawls);
    } else {
        j->site = draw_site(a, ph->rotate);
        if (is_costly(j->site, ph->costly)) {
            j->cost = COSTLY;
            j->record->tag = 1;
        }
        draw_objects(a, j, &a->random, false);
    }
    j->record->site = j->site;
    return j;
}

/* ---- a phase ---- */

struct run {
    const struct phase *ph;
    size_t next; /* request */
    double begin_s;
    double arrive_s; /* open loop: of the next */
    size_t nevents;
};

static double gap(struct affinity *a, const struct phase *ph, size_t i)
{
    bool attacked = i >= ph->attack.from && i < ph->attack.to;
    /* The attack comes on top of what comes anyway. */
    double rate = attacked ? ph->rate / (1 - ph->attack.share) : ph->rate;

    return -log(1 - random_unit(&a->random)) / rate;
}

static void have_events(struct affinity *a, struct run *run)
{
    const struct phase *ph = run->ph;

    for (; run->nevents < ph->nevents && ph->events[run->nevents].at <= run->next; ++run->nevents) {
        int first = ph->events[run->nevents].first;
        int end = ph->events[run->nevents].end;

        if (!ph->events[run->nevents].start)
            affinity_kill(a, first, end);
        for (int w = first; ph->events[run->nevents].start && w < end; ++w)
            start_worker(a, w);
    }
}

static void issue(struct affinity *a, struct run *run, double start_s)
{
    have_events(a, run);
    struct job *j = make_job(a, run->ph, run->next++);
    j->start_s = start_s;
    j->record->start_s = start_s - run->begin_s;
    send_job(a, j);
}

static void run_closed(struct affinity *a, struct run *run)
{
    for (;;) {
        while (run->next < run->ph->requests && a->nin_hand < run->ph->clients)
            issue(a, run, a->now_s);
        if (a->nin_hand == 0)
            return;
        struct job *j = pop(a);
        a->now_s = j->end_s;
        end_job(a, j);
    }
}

static void run_open(struct affinity *a, struct run *run)
{
    run->arrive_s = a->now_s + gap(a, run->ph, 0);
    while (run->next < run->ph->requests || a->nin_hand != 0) {
        bool more = run->next < run->ph->requests;

        if (more && (a->nin_hand == 0 || run->arrive_s <= a->in_hand[0]->end_s)) {
            a->now_s = run->arrive_s;
            issue(a, run, a->now_s);
            run->arrive_s += gap(a, run->ph, run->next);
        } else {
            struct job *j = pop(a);
            a->now_s = j->end_s;
            end_job(a, j);
        }
    }
}

const struct record *affinity_run(struct affinity *a, const struct phase *ph)
{
    struct run run = {.ph = ph, .begin_s = a->now_s};

    free(a->records);
    a->records = xcalloc(ph->requests, sizeof(*a->records));
    a->random = random_of(a->seed * 1000 + ++a->phases);
    a->attack_random = random_of(a->seed * 1000 + 500 + a->phases);
    if (ph->clients != 0)
        run_closed(a, &run);
    else
        run_open(a, &run);
    pool_check(a->pool);
    a->now_s += PAUSE_S;
    return a->records;
}

/* ---- figures ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void quantiles(double *latencies, size_t n, struct figures *out)
{
    qsort(latencies, n, sizeof(*latencies), by_value);
    out->p50 = latencies[n / 2] * 1000;
    out->p90 = latencies[n * 9 / 10] * 1000;
    out->p99 = latencies[n * 99 / 100] * 1000;
}

struct figures affinity_figures(const struct record *records, size_t from, size_t to, unsigned tag)
{
    struct figures f = {0};
    double *latencies = xcalloc(to - from, sizeof(*latencies));
    double first_s = records[from].start_s;
    double last_s = 0;

    for (size_t i = from; i < to; ++i) {
        const struct record *r = &records[i];

        if (tag != TAG_ANY && r->tag != tag)
            continue;
        latencies[f.n++] = r->latency_s;
        f.loads += r->loads;
        f.share[r->worker] += 1;
        first_s = fmin(first_s, r->start_s);
        last_s = fmax(last_s, r->start_s + r->latency_s);
    }
    ASSERT(f.n != 0);
    f.loads /= (double)f.n;
    f.rate = (double)f.n / (last_s - first_s);
    for (int w = 0; w < AFFINITY_WORKERS; ++w) {
        f.workers += f.share[w] > 0;
        f.share[w] /= (double)f.n;
        f.busiest = fmax(f.busiest, f.share[w] * AFFINITY_WORKERS);
    }
    quantiles(latencies, f.n, &f);
    free(latencies);
    return f;
}
