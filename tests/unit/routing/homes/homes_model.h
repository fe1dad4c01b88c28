/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of homes_model_test.c: workers, classes, requests and the rule, without heaps and
 * without a scale of work; everything is recomputed each time. Include after <cmocka.h>.
 */
#pragma once

#include <math.h>

#include "routing/homes/homes.h"
#include "tests/support/homes_check.h"

enum { WORKERS = 12, CLASSES = 30, TICKETS = 200, STEPS = 60000, SECOND = 1000000 };

/* Requests per worker in which work decays. */
#define TAU 1000.0
#define TAU_DEMAND 25.0
#define MAX_SHARE 0.4375
/* Of the work in a load, by which the order of workers may be off. */
#define SLACK 0.03

struct model_worker {
    struct homes_worker *homes; /* NULL: none */
    bool eligible;
    unsigned concurrency;
    double work; /* decayed to the model's time */
    double foreign;
};

struct model_ticket {
    struct homes_ticket ticket;
    bool active, cold, serving, detached;
    int cls, worker;
    uint32_t expected;
    uint64_t serve_us, order;
    struct homes_worker *at;
};

struct model_class {
    double work, demand, asked, cost;
    bool home[WORKERS], touched[WORKERS];
    bool parallel;
};

struct model {
    struct homes *homes;
    struct model_worker workers[WORKERS];
    struct model_class classes[CLASSES];
    struct model_ticket tickets[TICKETS];
    double work, asked, mean, cold, usual;
    double passed; /* decayed time between requests */
    uint64_t begun_us;
    double ncold, nserved; /* observations of cold and mean */
    uint64_t now_us, orders;
    uint64_t seed;
    unsigned seen[HOMES_REASONS];
    bool alone; /* no other load balancer uses the workers */
};

static inline uint64_t next_random(struct model *m)
{
    m->seed ^= m->seed << 13;
    m->seed ^= m->seed >> 7;
    m->seed ^= m->seed << 17;
    return m->seed >> 11;
}

static inline int below(struct model *m, int n)
{
    return (int)(next_random(m) % (uint64_t)n);
}

static inline int eligible(const struct model *m)
{
    int n = 0;

    for (int w = 0; w < WORKERS; ++w)
        n += m->workers[w].eligible;
    return n;
}

/* After a request. */
static inline void age(struct model *m)
{
    double fade = exp(-1 / TAU / eligible(m));
    double momentary = exp(-1 / TAU_DEMAND / eligible(m));

    if (m->begun_us != 0)
        m->passed += fmin((double)(m->now_us - m->begun_us), 20e6);
    m->passed *= momentary;
    m->begun_us = m->now_us;

    m->work *= fade;
    m->asked *= fade;
    for (int w = 0; w < WORKERS; ++w)
        m->workers[w].work *= fade;
    for (int c = 0; c < CLASSES; ++c) {
        m->classes[c].work *= fade;
        m->classes[c].asked *= fade;
        m->classes[c].demand *= momentary;
    }
}

/* ---- what the rule is made of ---- */

static inline double places_of(const struct model *m)
{
    double n = 0;

    for (int w = 0; w < WORKERS; ++w)
        n += m->workers[w].eligible ? m->workers[w].concurrency : 0;
    return n;
}

static inline int homes_at(const struct model *m, int w)
{
    int n = 0;

    for (int c = 0; c < CLASSES; ++c)
        n += m->classes[c].home[w];
    return n;
}

static inline double own_work(const struct model *m, int w, int cls)
{
    double sum = 0;

    for (int i = 0; i < TICKETS; ++i) {
        const struct model_ticket *t = &m->tickets[i];

        if (t->active && t->at == m->workers[w].homes && (cls < 0 || t->cls == cls))
            sum += t->expected;
    }
    return sum / m->workers[w].concurrency;
}

/* The time without a sign of life is taken from the core: homes_test.c is about that. */
static inline double work_in_flight(struct model *m, int w)
{
    struct homes_worker_view v;

    homes_view_worker(m->homes, m->workers[w].homes, m->now_us, &v);
    return own_work(m, w, -1) + m->workers[w].foreign + v.stalled_us;
}

static inline double load_of(const struct model *m, int w)
{
    double work = 0;
    int homes = 0;
    int places = 0;

    for (int i = 0; i < WORKERS; ++i) {
        if (!m->workers[i].eligible)
            continue;
        work += m->workers[i].work;
        homes += homes_at(m, i);
        places += (int)m->workers[i].concurrency;
    }
    const struct model_worker *x = &m->workers[w];
    return 0.5 * (work > 0 ? x->work / x->concurrency * places / work : 0) +
           0.5 * homes_at(m, w) * eligible(m) / (homes != 0 ? homes : 1);
}

struct sight {
    double b[WORKERS], l[WORKERS];
    double least, median, least_load;
    double cost, share, worth, room;
    bool parallel;
    int nhomes;
    int home; /* with the least work; -1 */
};

static inline int in_flight(const struct model *m, int w, int cls)
{
    int n = 0;

    for (int i = 0; i < TICKETS; ++i) {
        const struct model_ticket *t = &m->tickets[i];

        n += t->active && t->at == m->workers[w].homes && t->cls == cls;
    }
    return n;
}

static inline struct sight look(struct model *m, int cls)
{
    struct sight s = {.least = HUGE_VAL, .least_load = HUGE_VAL, .home = -1};
    struct model_class *c = &m->classes[cls];
    double sorted[WORKERS];
    int n = 0;

    for (int w = 0; w < WORKERS; ++w) {
        if (!m->workers[w].eligible)
            continue;
        s.b[w] = work_in_flight(m, w);
        s.l[w] = load_of(m, w);
        s.least = fmin(s.least, s.b[w]);
        s.least_load = fmin(s.least_load, s.l[w]);
        s.nhomes += c->home[w];
        s.parallel |= c->home[w] && in_flight(m, w, cls) != 0;
        if (c->home[w] && (s.home < 0 || s.b[w] < s.b[s.home]))
            s.home = w;
        int at = n++;
        for (; at > 0 && sorted[at - 1] > s.b[w]; --at)
            sorted[at] = sorted[at - 1];
        sorted[at] = s.b[w];
    }
    s.median = n != 0 ? sorted[n > 2 ? n / 2 : 0] : 0;
    s.cost = fmax(c->cost > 0 ? c->cost : m->mean, 1);
    s.share = n * (c->work + s.cost) / (m->work + s.cost);
    s.worth = fmax(s.share, n * (c->asked + 1) / (m->asked + 1));
    double others = 1 - (c->work + s.cost) / (m->work + s.cost);
    double time = fmax(m->passed, TAU_DEMAND * m->mean / 2);
    double demand = (c->demand + s.cost) / time * n / places_of(m);
    double part = demand > 1.2 * MAX_SHARE * n ? MAX_SHARE * 3 / 7 : MAX_SHARE;
    s.room = fmax(1, ceil(fmax(part, 1 - 6 * others) * n - 1e-9));
    s.parallel |= c->parallel;
    return s;
}

static inline bool near(double a, double b)
{
    return fabs(a - b) <= 1e-4 * (fabs(a) + fabs(b)) + 2;
}
