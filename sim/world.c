/* SPDX-License-Identifier: Apache-2.0
 *
 * As workers serve in the order of arrival, the end of a request is known when it comes: the only
 * events are ends of requests, reports that reach other balancers, and requests that follow others.
 *
 *     due, or a client is free -> pool_get -> end = begin + service -> report, pool_put
 */
#include "sim/world.h"
#include "common/base/list.h"
#include "common/base/lru.h"
#include "common/skills/home_records.h"
#include "common/skills/meter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

static const char NAME[] = "w";

/* A request in flight. */
struct world_job {
    struct list node; /* member->jobs, in the order of arrival */
    struct pool_pick pick;
    struct world_worker *member; /* NULL: the request is due then */
    unsigned life;               /* of the worker */
    unsigned balancer;
    size_t request;
    uint64_t start_ns, sent_ns, service_ns;
    uint16_t hits, loads;
    /* Not a request but a report to the other balancers, of so many in flight. */
    bool is_report;
    uint64_t in_flight;
};

/* A worker. Each balancer knows it by a struct worker of its own. */
struct world_worker {
    unsigned index; /* its name is NAME with this number */
    bool up;
    bool lost; /* the balancers still know it */
    unsigned life;
    struct worker **known; /* by balancer */
    struct meter *meter;
    struct home_records *homes;
    uint64_t homes_reported; /* the cursor */
    uint64_t published_ns;
    struct lru *cache;
    uint64_t *free_ns; /* of each place */
    size_t in_flight;
    struct list jobs;
};

struct sim_world {
    struct world_options options;
    struct pool **pools;
    struct world_worker *members;
    uint64_t *db_free_ns; /* of each slot */
    struct event_queue events;
    uint64_t now_ns;
    size_t ngiven; /* requests given to balancers */

    /* Of this run. */
    const struct world_run *run;
    struct world_record *records;
    uint64_t begin_ns;
    size_t next, next_event;
    size_t in_flight; /* ... or a later request of the session will be */
};

static uint64_t now_us(const struct sim_world *w)
{
    return w->now_ns / NS_PER_US;
}

static void send_job(struct sim_world *w, struct world_job *j);

/* ---- workers start, drain, are replaced, and are killed ---- */

static void send_resume(struct sim_world *w, struct world_worker *m)
{
    struct resume r = {0};

    meter_resume(m->meter, SIZE_MAX, &r);
    for (unsigned b = 0; b < w->options.balancers; ++b)
        pool_new_resume(w->pools[b], m->known[b], &r, "", "", NULL);
    resume_fini(&r);
}

/* Starts a process with an empty cache and without measurements. */
static void start_member(struct sim_world *w, struct world_worker *m)
{
    enum { CLASSES_MAX = 100000 };
    char name[24];
    char instance[24];
    struct meter_settings s = {.history = w->options.history,
                               .max_skill_age = METER_SKILL_AGE_DEFAULT,
                               .max_classes = CLASSES_MAX};

    ASSERT(!m->up);
    m->up = true;
    ++m->life;
    memset(m->free_ns, 0, w->options.concurrency * sizeof(m->free_ns[0]));
    m->meter = meter_create(&s);
    m->homes = home_records_create(CLASSES_MAX);
    m->homes_reported = 0;
    snprintf(name, sizeof(name), "%s%u", NAME, m->index);
    snprintf(instance, sizeof(instance), "%u", m->life);
    for (unsigned b = 0; b < w->options.balancers; ++b) {
        struct worker_options o = {.name = slice_of(name),
                                   .instance = slice_of(instance),
                                   .concurrency = w->options.concurrency,
                                   .context = m};

        if (m->lost)
            pool_set_available(w->pools[b], m->known[b], true, NULL);
        else
            m->known[b] = worker_create(&o);
    }
    m->lost = false;
    send_resume(w, m);
}

/* Ends the process, with its cache; the balancers still have their records of the worker. */
static void end_process(struct world_worker *m)
{
    ASSERT(m->up);
    m->up = false;
    meter_destroy(m->meter);
    home_records_destroy(m->homes);
    lru_clear(m->cache);
}

/* Removes the worker from the pools; requests in flight refer to it. */
static void forget_member(struct sim_world *w, struct world_worker *m)
{
    for (unsigned b = 0; b < w->options.balancers; ++b) {
        pool_remove(w->pools[b], m->known[b], NULL);
        worker_unref(m->known[b]);
    }
}

/* The same, and ends the process. */
static void stop_member(struct sim_world *w, struct world_worker *m)
{
    forget_member(w, m);
    end_process(m);
}

/* The process has exited; its requests are sent again, in order. Their ends, which are in the queue
 * of events, are recognized by LIFE. LOST: the balancers do not remove it. */
static void kill_member(struct sim_world *w, struct world_worker *m, bool lost)
{
    struct pool_served how = {.now_us = now_us(w), .failed = true};
    struct list resent;

    list_init(&resent);
    m->lost = lost;
    if (lost) {
        for (unsigned b = 0; b < w->options.balancers; ++b)
            pool_set_available(w->pools[b], m->known[b], false, NULL);
        end_process(m);
    } else {
        stop_member(w, m);
    }
    while (!list_empty(&m->jobs)) {
        struct world_job *old = list_entry(m->jobs.next, struct world_job, node);
        struct world_job *j = xcalloc(1, sizeof(struct world_job));

        /* The old job remains in the queue of events, and is freed with its event. */
        j->balancer = old->balancer;
        j->request = old->request;
        j->start_ns = old->start_ns;
        pool_put(w->pools[old->balancer], &old->pick, &how, NULL);
        list_remove(&old->node);
        list_push_back(&resent, &j->node);
    }
    m->in_flight = 0;
    while (!list_empty(&resent))
        send_job(w, list_entry(list_pop_front(&resent), struct world_job, node));
}

/* The old process's requests in flight are not jobs of the member any more (finish). */
static void replace_member(struct sim_world *w, struct world_worker *m)
{
    struct worker *old[WORLD_BALANCERS_MAX] = {NULL};

    for (unsigned b = 0; b < w->options.balancers; ++b)
        old[b] = m->known[b];
    end_process(m);
    while (!list_empty(&m->jobs))
        list_remove(m->jobs.next);
    m->in_flight = 0;
    start_member(w, m);
    for (unsigned b = 0; b < w->options.balancers; ++b) {
        pool_hand_over(w->pools[b], old[b], m->known[b]);
        pool_remove(w->pools[b], old[b], NULL);
        worker_unref(old[b]);
    }
}

static void change_member(struct sim_world *w, const struct world_event *e)
{
    ASSERT(e->worker < w->options.workers);
    struct world_worker *m = &w->members[e->worker];

    if (m->up == (e->change == WORLD_START))
        return;
    switch (e->change) {
    case WORLD_KILL:
    case WORLD_LOSE:
        kill_member(w, m, e->change == WORLD_LOSE);
        break;
    case WORLD_START:
        start_member(w, m);
        break;
    case WORLD_DRAIN:
        for (unsigned b = 0; b < w->options.balancers; ++b) {
            pool_set_available(w->pools[b], m->known[b], false, NULL);
            pool_hand_over(w->pools[b], m->known[b], NULL);
        }
        break;
    case WORLD_REPLACE:
        replace_member(w, m);
        break;
    }
}

/* ---- the world ---- */

/* Pools take 0 for "never". */
static const uint64_t FIRST_NS = 10000000000;
/* Between two runs. */
static const double PAUSE_NS = 1e8;
/* Workers publish decisions so many times as often as the rest. */
enum { DECISIONS_PER_DELAY = 10 };

/* A time of the work, multiplied. */
static uint64_t scale_time(const struct sim_world *w, double ns)
{
    return (uint64_t)(ns * w->options.time_scale);
}

struct sim_world *world_create(const struct world_options *o, const struct pool_settings *s)
{
    struct sim_world *w = xcalloc(1, sizeof(*w));
    uint64_t ids[WORLD_BALANCERS_MAX];

    ASSERT(o->workers >= 1);
    ASSERT(o->workers <= WORLD_WORKERS_MAX);
    ASSERT(o->balancers >= 1);
    ASSERT(o->balancers <= WORLD_BALANCERS_MAX);
    ASSERT(o->db_slots <= WORLD_DB_SLOTS_MAX);
    ASSERT(o->concurrency <= WORLD_CONCURRENCY_MAX);
    w->options = *o;
    if (w->options.concurrency == 0)
        w->options.concurrency = 1;
    if (w->options.time_scale <= 0)
        w->options.time_scale = 1;
    w->options.base_ns = scale_time(w, (double)o->base_ns);
    w->options.hit_ns = scale_time(w, (double)o->hit_ns);
    w->options.load_ns = scale_time(w, (double)o->load_ns);
    w->now_ns = FIRST_NS;
    w->pools = xcalloc(o->balancers, sizeof(struct pool *));
    w->members = xcalloc(o->workers, sizeof(w->members[0]));
    w->db_free_ns = xcalloc(o->db_slots != 0 ? o->db_slots : 1, sizeof(w->db_free_ns[0]));
    for (unsigned b = 0; b < o->balancers; ++b) {
        struct pool_settings own = *s;

        /* Each has its own random numbers. */
        own.seed = draw_mix(s->seed, b);
        w->pools[b] = pool_create(&own, "");
        ids[b] = draw_mix(0, b);
    }
    /* They know of each other. */
    for (unsigned b = 0; b < o->balancers && o->homes_delay_ns != 0; ++b)
        pool_set_balancers(w->pools[b], ids, o->balancers, b);
    for (unsigned i = 0; i < o->workers; ++i) {
        struct world_worker *m = &w->members[i];

        m->index = i;
        m->known = xcalloc(o->balancers, sizeof(struct worker *));
        m->free_ns = xcalloc(w->options.concurrency, sizeof(m->free_ns[0]));
        m->cache = lru_create(o->cache);
        list_init(&m->jobs);
        /* Not all in the same moment. */
        m->published_ns = w->now_ns - o->homes_delay_ns * i / o->workers;
        start_member(w, m);
    }
    return w;
}

void world_destroy(struct sim_world *w)
{
    if (w == NULL)
        return;
    for (unsigned i = 0; i < w->options.workers; ++i) {
        struct world_worker *m = &w->members[i];

        if (m->up)
            stop_member(w, m);
        else if (m->lost)
            forget_member(w, m);
        lru_destroy(m->cache);
        free(m->free_ns);
        free(m->known);
    }
    for (unsigned b = 0; b < w->options.balancers; ++b)
        pool_destroy(w->pools[b]);
    event_queue_fini(&w->events);
    free(w->db_free_ns);
    free(w->members);
    free(w->pools);
    free(w);
}

/* ---- a worker's work ---- */

/* Of N places, the one that is free first. */
static uint64_t *earliest_of(uint64_t *free_ns, unsigned n)
{
    uint64_t *first = &free_ns[0];

    for (unsigned i = 1; i < n; ++i) {
        if (free_ns[i] < *first)
            first = &free_ns[i];
    }
    return first;
}

static void world_serve(struct sim_world *w, struct world_worker *m, struct world_job *j)
{
    const struct trace *t = w->run->trace;
    const struct workload_request *r = &t->requests[j->request];
    const struct trace_page *page = &t->pages[r->page];
    uint64_t *place = earliest_of(m->free_ns, w->options.concurrency);
    uint64_t begin_ns = *place > w->now_ns ? *place : w->now_ns;

    j->hits = j->loads = 0;
    for (uint32_t i = 0; i < page->nobjects; ++i) {
        if (lru_use(m->cache, t->objects[page->object + i]))
            ++j->hits;
        else
            ++j->loads;
    }
    uint64_t load_ns = j->loads * w->options.load_ns;
    *place = begin_ns + r->factor * w->options.base_ns + j->hits * w->options.hit_ns;
    if (w->options.db_slots != 0 && load_ns != 0) {
        uint64_t *slot = earliest_of(w->db_free_ns, w->options.db_slots);

        if (*slot > *place)
            *place = *slot;
        *slot = *place + load_ns;
    }
    *place += load_ns;
    j->service_ns = *place - begin_ns;
    j->member = m;
    j->life = m->life;
    list_push_back(&m->jobs, &j->node);
    ++m->in_flight;
    event_queue_add(&w->events, *place, j);
}

/* ---- a request's path ---- */

static void record_job(struct sim_world *w, const struct world_job *j, bool failed)
{
    struct world_record *r = &w->records[j->request];

    *r = (struct world_record){
        .start_us = (j->start_ns - w->begin_ns) / NS_PER_US,
        .latency_us = (w->now_ns - j->start_ns) / NS_PER_US,
        .service_us = j->service_ns / NS_PER_US,
        .cls = w->run->classes[j->request],
        .worker = failed ? 0 : (uint16_t)j->member->index,
        .hits = j->hits,
        .loads = j->loads,
        .tag = w->run->trace->requests[j->request].tag,
        .reason = (uint8_t)j->pick.reason,
        .follows = w->run->trace->requests[j->request].follows,
        .failed = failed,
    };
}

/* The result of J is final: the request that follows it will be due, or the client is free. */
static void end_job(struct sim_world *w, const struct world_job *j, bool failed)
{
    const struct world_run *run = w->run;
    size_t next = j->request + 1;

    record_job(w, j, failed);
    if (next == run->first + run->n || !run->trace->requests[next].follows) {
        --w->in_flight;
        return;
    }
    struct world_job *due = xcalloc(1, sizeof(struct world_job));
    double wait_ns = (double)run->trace->requests[next].due_ns;
    due->request = next;
    event_queue_add(&w->events, w->now_ns + scale_time(w, wait_ns), due);
}

/* Sends J to a worker; records it as failed and frees it if there is none. */
static void send_job(struct sim_world *w, struct world_job *j)
{
    struct pool_request r = {.cls = names_get(w->run->names, w->run->classes[j->request])};

    if (pool_get(w->pools[j->balancer], &r, now_us(w), &j->pick) == ERR_OK) {
        const struct worker *from = j->pick.home_from;
        struct slice from_name = from != NULL ? slice_of(worker_name(from)) : SLICE_NULL;

        j->sent_ns = w->now_ns;
        world_serve(w, worker_context(j->pick.worker), j);
        /* Reports to the worker what the policy decided about the class's homes. */
        if (!j->pick.passing)
            home_records_use(j->member->homes, r.cls, j->pick.home, from_name, now_us(w));
        return;
    }
    j->service_ns = 0;
    end_job(w, j, true);
    free(j);
}

/* PAST: the process was replaced, so its response does not describe its successor. */
static void world_finish(struct sim_world *w, struct world_job *j, bool past)
{
    struct world_worker *m = j->member;
    struct slice cls = names_get(w->run->names, w->run->classes[j->request]);
    uint64_t total = m->in_flight < WORKER_REPORT_MAX ? m->in_flight : WORKER_REPORT_MAX;
    uint64_t service_ns = w->options.queue_is_service ? w->now_ns - j->sent_ns : j->service_ns;
    struct pool_served how = {.now_us = now_us(w), .service_us = service_ns / NS_PER_US};
    bool resume_due = false;

    end_job(w, j, false);
    if (!past) {
        worker_report(j->pick.worker, total, w->now_ns / NS_PER_MS);
        if (w->options.balancers > 1 && w->options.report_delay_ns != 0) {
            /* The other balancers receive the report later. */
            struct world_job *report = xcalloc(1, sizeof(struct world_job));

            *report = (struct world_job){.member = m,
                                         .life = j->life,
                                         .balancer = j->balancer,
                                         .is_report = true,
                                         .in_flight = total};
            event_queue_add(&w->events, w->now_ns + w->options.report_delay_ns, report);
        }
        resume_due = meter_add(m->meter, cls, (double)j->service_ns / 1e9, false);
        home_records_served(m->homes, cls, j->service_ns / NS_PER_US, now_us(w));
        --m->in_flight;
        list_remove(&j->node);
    }
    pool_put(w->pools[j->balancer], &j->pick, &how, NULL);
    if (resume_due)
        send_resume(w, m);
}

/* ---- publication of homes ---- */

/* Publishes the changes since the last publication. */
static void publish_homes(struct sim_world *w)
{
    if (w->options.homes_delay_ns == 0 || w->options.balancers == 1)
        return;
    for (unsigned i = 0; i < w->options.workers; ++i) {
        struct world_worker *m = &w->members[i];
        uint64_t delay_ns = w->options.homes_delay_ns;

        if (!m->up)
            continue;
        /* An agent publishes decisions soon, and the rest periodically. */
        if (home_records_decided(m->homes, m->homes_reported))
            delay_ns /= DECISIONS_PER_DELAY;
        if (w->now_ns - m->published_ns < delay_ns)
            continue;
        const struct home_record *r = home_records_after(m->homes, m->homes_reported);
        for (; r != NULL; r = home_records_next(m->homes, r)) {
            struct slice number = slice_of(r->from);
            const struct world_worker *from = NULL;
            uint64_t k;

            (void)slice_cut(&number, NAME[0]);
            if (r->kind == HOME_REASSIGN && parse_u64(number, w->options.workers - 1, &k) &&
                w->members[k].up)
                from = &w->members[k];
            for (unsigned b = 0; b < w->options.balancers; ++b) {
                struct pool_home home = {.cls = class_name(&r->base),
                                         .kind = r->kind,
                                         .from = from != NULL ? from->known[b] : NULL,
                                         .since_us = r->since_us,
                                         .used_us = r->used_us,
                                         .rate = home_record_rate(m->homes, r, now_us(w))};

                pool_new_homes(w->pools[b], m->known[b], &home, 1, now_us(w));
            }
            m->homes_reported = r->change;
        }
        m->published_ns = w->now_ns;
    }
}

/* ---- a run ---- */

static const uint64_t NEVER_NS = UINT64_MAX;

/* J is given to the next balancer. */
static void issue_job(struct sim_world *w, struct world_job *j)
{
    publish_homes(w);
    j->balancer = (unsigned)(w->ngiven++ % w->options.balancers);
    j->start_ns = w->now_ns;
    send_job(w, j);
}

static void run_next_event(struct sim_world *w)
{
    struct queued_event e = event_queue_take(&w->events);
    struct world_job *j = e.what;

    w->now_ns = e.at_ns;
    if (j->member == NULL) {
        issue_job(w, j);
        return;
    }
    bool past = !j->member->up || j->life != j->member->life;
    if (j->is_report && !past) {
        for (unsigned b = 0; b < w->options.balancers; ++b) {
            if (b != j->balancer)
                worker_report(j->member->known[b], j->in_flight, w->now_ns / NS_PER_MS);
        }
    } else if (!j->is_report && (!past || j->pick.worker != NULL)) {
        world_finish(w, j, past);
    }
    free(j);
}

void world_run(struct sim_world *w, const struct world_run *run, struct world_record *out)
{
    ASSERT(run->clients != 0 || run->speed > 0);
    w->run = run;
    w->records = out;
    w->begin_ns = w->now_ns;
    w->next = run->first;
    w->next_event = 0;
    for (;;) {
        const struct queued_event *e = event_queue_peek(&w->events);
        uint64_t due = w->now_ns; /* when the next request is; the past counts as now */

        if (w->next == run->first + run->n || (run->clients != 0 && w->in_flight >= run->clients)) {
            due = NEVER_NS; /* none is left, or all clients are busy */
        } else if (run->clients == 0) {
            double due_ns = (double)run->trace->requests[w->next].due_ns / run->speed;

            if (w->begin_ns + scale_time(w, due_ns) > due)
                due = w->begin_ns + scale_time(w, due_ns);
        }

        if (due != NEVER_NS && (e == NULL || due <= e->at_ns)) {
            w->now_ns = due;
            while (w->next_event < run->nevents &&
                   run->first + run->events[w->next_event].at <= w->next)
                change_member(w, &run->events[w->next_event++]);
            struct world_job *j = xcalloc(1, sizeof(struct world_job));
            j->request = w->next++;
            while (w->next != run->first + run->n && run->trace->requests[w->next].follows)
                ++w->next;
            ++w->in_flight;
            issue_job(w, j);
        } else if (e != NULL) {
            run_next_event(w);
        } else {
            break;
        }
    }
    ASSERT(w->next == run->first + run->n);
    ASSERT(w->in_flight == 0);
    w->run = NULL;
    w->now_ns += scale_time(w, PAUSE_NS);
}

void world_overlap(const struct sim_world *w, struct world_overlap *out)
{
    size_t n = 0;
    size_t at = 0;

    for (unsigned i = 0; i < w->options.workers; ++i)
        n += lru_count(w->members[i].cache);
    uint64_t *keys = xcalloc(n != 0 ? n : 1, sizeof(keys[0]));
    for (unsigned i = 0; i < w->options.workers; ++i) {
        lru_keys(w->members[i].cache, keys + at);
        at += lru_count(w->members[i].cache);
    }
    qsort(keys, n, sizeof(keys[0]), ascending_u64);
    *out = (struct world_overlap){.cached = n};
    for (size_t i = 0; i < n; ++i) {
        if (i != 0 && keys[i] == keys[i - 1])
            continue;
        ++out->distinct;
        out->shared += i + 1 < n && keys[i + 1] == keys[i];
    }
    free(keys);
}

void world_add_shadow(const struct sim_world *w, int times, struct pool_shadow_counts *out)
{
    uint64_t n = (uint64_t)times;

    for (unsigned b = 0; b < w->options.balancers; ++b) {
        struct pool_view v;

        pool_scan(w->pools[b], false, &v);
        /* All its members are counters. */
        for (size_t i = 0; i < sizeof(*out) / sizeof(n); ++i)
            ((uint64_t *)out)[i] += n * ((const uint64_t *)&v.shadow)[i];
        pool_view_fini(&v);
    }
}

/* ---- figures ---- */

static const double US_PER_S = 1e6;
static const double US_PER_MS = 1e3;

static bool is_part(const struct world_record *r, const struct figures_part *part)
{
    return part->tag < 0 || r->tag == part->tag;
}

/* The mean number of workers of a class. PAIRS is room to sort class and worker of each request,
 * which takes less memory than classes times workers. */
static double class_workers(const struct world_record *records, const struct figures_part *part,
                            uint64_t *pairs)
{
    size_t n = 0;
    size_t classes = 0;
    size_t workers = 0;

    for (size_t i = part->from; i < part->to; ++i) {
        if (is_part(&records[i], part) && !records[i].failed)
            pairs[n++] = (uint64_t)records[i].cls << 16 | records[i].worker;
    }
    qsort(pairs, n, sizeof(pairs[0]), ascending_u64);
    for (size_t i = 0; i < n;) {
        size_t begin = i;
        size_t own = 0;

        for (; i < n && pairs[i] >> 16 == pairs[begin] >> 16; ++i)
            own += i == begin || pairs[i] != pairs[i - 1];
        if (i - begin >= FIGURES_CLASS_MIN) {
            ++classes;
            workers += own;
        }
    }
    return classes != 0 ? (double)workers / (double)classes : 0;
}

/* The busiest worker's requests or work, over the mean of NWORKERS. */
static double busiest_share(const uint64_t *of_workers, unsigned nworkers, double sum)
{
    uint64_t most = 0;

    for (unsigned i = 0; i < nworkers; ++i)
        most = of_workers[i] > most ? of_workers[i] : most;
    return (double)most * nworkers / sum;
}

void figures_of(const struct world_record *records, const struct figures_part *part,
                unsigned nworkers, struct sim_figures *out)
{
    uint64_t *latencies = xcalloc(part->to - part->from + 1, sizeof(latencies[0]));
    uint64_t *requests = xcalloc(nworkers, sizeof(requests[0]));
    uint64_t *busy_us = xcalloc(nworkers, sizeof(busy_us[0]));
    uint64_t begin_us = UINT64_MAX, end_us = 0;
    uint64_t hits = 0, loads = 0, latency_us = 0, service_us = 0;
    size_t n = 0, turns = 0, moved = 0;

    ASSERT(part->from <= part->to);
    *out = (struct sim_figures){0};
    for (size_t i = part->from; i < part->to; ++i) {
        const struct world_record *r = &records[i];

        if (!is_part(r, part))
            continue;
        ++out->n;
        begin_us = r->start_us < begin_us ? r->start_us : begin_us;
        end_us = r->start_us + r->latency_us > end_us ? r->start_us + r->latency_us : end_us;
        if (r->failed)
            continue;
        latencies[n++] = r->latency_us;
        latency_us += r->latency_us;
        service_us += r->service_us;
        hits += r->hits;
        loads += r->loads;
        out->workers += requests[r->worker]++ == 0;
        busy_us[r->worker] += r->service_us;
        turns += r->follows;
        moved += r->follows && r->worker != records[i - 1].worker;
    }
    out->failed = out->n - n;
    if (n != 0) {
        double served = (double)n;

        qsort(latencies, n, sizeof(latencies[0]), ascending_u64);
        out->wall_s = (double)(end_us - begin_us) / US_PER_S;
        out->rate = served / fmax(out->wall_s, 1e-9);
        out->loads = (double)loads / served;
        out->hit_share = (double)hits / fmax((double)(hits + loads), 1);
        out->mean_ms = (double)latency_us / served / US_PER_MS;
        out->p50_ms = (double)latencies[n * 50 / 100] / US_PER_MS;
        out->p90_ms = (double)latencies[n * 90 / 100] / US_PER_MS;
        out->p99_ms = (double)latencies[n * 99 / 100] / US_PER_MS;
        out->max_ms = (double)latencies[n - 1] / US_PER_MS;
        out->moved = (double)moved / fmax((double)turns, 1);
        out->share_max = busiest_share(requests, nworkers, served);
        out->busy_max = busiest_share(busy_us, nworkers, fmax((double)service_us, 1));
        out->busy = (double)service_us / US_PER_S / fmax(out->wall_s, 1e-9) / nworkers;
        out->class_workers = class_workers(records, part, latencies);
    }
    free(busy_us);
    free(requests);
    free(latencies);
}

double figures_share(const struct world_record *records, const struct figures_part *part,
                     unsigned first, unsigned last)
{
    size_t all = 0;
    size_t selected = 0;

    for (size_t i = part->from; i < part->to; ++i) {
        const struct world_record *r = &records[i];

        if (r->failed || !is_part(r, part))
            continue;
        ++all;
        selected += r->worker >= first && r->worker < last;
    }
    return all != 0 ? (double)selected / (double)all : 0;
}
