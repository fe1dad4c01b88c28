/* SPDX-License-Identifier: Apache-2.0
 *
 * The homes compared with a model that implements the rule literally: no heaps, no scale of work,
 * all workers examined for each request. Workers are added, removed and made ineligible, requests
 * begin and end at random; each plan is that of the model (among equals, one of them), with the
 * same numbers, and every invariant holds. RLB_SEED in the environment selects another walk.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "tests/unit/routing/homes/homes_model.h"

/* ---- is the plan what the rule says? ---- */

static void check_other(struct model *m, int cls, const struct sight *s, int x)
{
    double best = HUGE_VAL;

    for (int w = 0; w < WORKERS; ++w) {
        if (m->workers[w].eligible && !m->classes[cls].home[w])
            best = fmin(best, s->l[w] + (s->b[w] - s->least) / m->cold);
    }
    assert_true(s->l[x] + (s->b[x] - s->least) / m->cold <= best + 1e-3);
}

static void check_figures(const struct model *m, const struct sight *s, const struct homes_plan *p)
{
    assert_true(near(p->choice.expected_us, s->cost));
    assert_true(near(p->choice.share * 1e6, s->share * 1e6));
    assert_true(near(p->choice.least_us, s->least));
    assert_true((double)p->choice.homes_max == s->room);
    assert_int_equal(p->choice.homes, s->nhomes);
    if (s->home >= 0)
        assert_true(near(p->choice.home_us, s->b[s->home]));
    if (p->choice.price_us > 0)
        assert_true(near(p->choice.price_us, m->cold * s->nhomes / (1.7 * s->share)));
    if (p->choice.patience_us > 0)
        assert_true(near(p->choice.patience_us, 5 * (m->cold + s->median)));
}

/* TIGHT: by how much each condition holds, at the least; negative when it does not. */
static double replicate_tight(const struct model *m, const struct sight *s, int x)
{
    double price = m->cold * s->nhomes / (1.7 * s->share);
    double patience = 5 * (m->cold + s->median);

    if (s->nhomes >= s->room || !s->parallel)
        return -HUGE_VAL;
    return fmin(s->b[s->home] - s->b[x] - price, patience - price);
}

static double move_tight(const struct model *m, int cls, const struct sight *s, int x)
{
    double patience = 5 * (m->cold + s->median);
    double tight =
        fmin(s->b[s->home] - s->least - patience, 0.5 * s->b[s->home] - own_work(m, s->home, cls));

    return fmin(tight, s->b[s->home] - s->b[x] - m->cold);
}

/* Another class has most of the work in flight at the home, and many requests. */
static double flee_tight(const struct model *m, int cls, const struct sight *s, int x)
{
    double tight = -HUGE_VAL;

    for (int c = 0; c < CLASSES; ++c) {
        if (c != cls && in_flight(m, s->home, c) >= 14 * (int)m->workers[s->home].concurrency)
            tight = fmax(tight, own_work(m, s->home, c) - 0.5 * own_work(m, s->home, -1));
    }
    return fmin(tight, s->b[s->home] - s->b[x] - 3 * m->cold);
}

/* The class would wait behind others, and half of the workers have nothing to do. */
static double overflow_tight(const struct model *m, int cls, const struct sight *s, int x)
{
    double tight = s->b[s->home] - s->b[x] - 3 * m->cold;

    tight = fmin(tight, 0.05 * m->cold - s->median);
    if (!s->parallel)
        return -HUGE_VAL;
    return fmin(tight, 0.5 * s->b[s->home] - own_work(m, s->home, cls));
}

/* What another cold request has to save at W, which may have its number already. */
static double cold_wait(const struct model *m, int w)
{
    unsigned n = 0;

    for (int i = 0; i < TICKETS; ++i) {
        const struct model_ticket *t = &m->tickets[i];

        n += t->active && t->cold && t->at == m->workers[w].homes;
    }
    return n >= m->workers[w].concurrency ? 3 * m->cold : 0;
}

static double rebalance_tight(const struct model *m, int cls, const struct sight *s, int x)
{
    int homes = 0;
    double work = 0, places = 0, most = 0;

    for (int w = 0; w < WORKERS; ++w) {
        if (!m->workers[w].eligible)
            continue;
        homes += homes_at(m, w);
        work += m->workers[w].work;
        places += m->workers[w].concurrency;
        if (m->classes[cls].home[w])
            most = fmax(most, s->l[w]);
    }
    if (s->nhomes == 0)
        return -HUGE_VAL;
    double share = s->share / s->nhomes;
    double own = 0.5 * share + 0.5 * eligible(m) / (homes != 0 ? homes : 1);
    double gap = most - s->l[x];
    double heavy = share - 0.3 * m->usual * gap;
    double wide = gap - 2 * 0.5 / sqrt((m->asked + 1) / eligible(m));
    double done = m->workers[x].work / m->workers[x].concurrency * places / fmax(work, 1e-9);
    double tight = fmin(wide - 1.5 * own, 0.5 - done);

    if (s->nhomes == 1)
        tight = fmax(tight, wide - 2 * own);
    else if (homes > 8 * eligible(m))
        return -HUGE_VAL;
    return fmin(fmin(tight, heavy), s->b[s->home] - s->b[x] - cold_wait(m, x) + 2);
}

/* Whether some other worker would have had to get the class. */
static void check_stays(struct model *m, int cls, const struct sight *s)
{
    int x = -1;

    for (int w = 0; w < WORKERS; ++w) {
        double load = s->l[w] + (s->b[w] - s->least) / m->cold;

        if (!m->workers[w].eligible || m->classes[cls].home[w])
            continue;
        if (x < 0 || load < s->l[x] + (s->b[x] - s->least) / m->cold - 1e-3)
            x = w;
        /* The only one that is lightest; of several, another may have been asked. */
        if (s->l[w] <= s->least_load && rebalance_tight(m, cls, s, w) > SLACK &&
            s->b[s->home] > s->b[w] + cold_wait(m, w) + 2) {
            for (int other = 0; other < WORKERS; ++other) {
                if (other != w && m->workers[other].eligible &&
                    s->l[other] <= s->least_load + SLACK)
                    return;
            }
            fail_msg("worker %d should have got class %d", w, cls);
        }
    }
    if (x < 0)
        return;
    /* Among equals, the core may have considered another one. */
    for (int w = 0; w < WORKERS; ++w) {
        if (w != x && m->workers[w].eligible && !m->classes[cls].home[w] &&
            fabs(s->l[w] + (s->b[w] - s->least) / m->cold - s->l[x] -
                 (s->b[x] - s->least) / m->cold) < 2e-3)
            return;
    }
    assert_true(replicate_tight(m, s, x) <= 10);
    assert_true(move_tight(m, cls, s, x) <= 10);
    assert_true(overflow_tight(m, cls, s, x) <= 10);
    /* Fleeing may be due: the class with the most work at a worker is updated at its next request.
     */
}

static void check_plan(struct model *m, int cls, const struct sight *s, const struct homes_plan *p,
                       int x)
{
    check_figures(m, s, p);
    switch (p->choice.reason) {
    case HOMES_NEW:
        assert_int_equal(s->nhomes, 0);
        check_other(m, cls, s, x);
        break;
    case HOMES_HOME:
        assert_true(m->classes[cls].home[x]);
        assert_true(near(s->b[x], s->b[s->home]));
        check_stays(m, cls, s);
        break;
    case HOMES_REPLICATE:
        check_other(m, cls, s, x);
        assert_true(replicate_tight(m, s, x) >= -10);
        break;
    case HOMES_REASSIGN:
        check_other(m, cls, s, x);
        assert_true(fmax(move_tight(m, cls, s, x), flee_tight(m, cls, s, x)) >= -10);
        break;
    case HOMES_REBALANCE:
        assert_true(s->l[x] <= s->least_load + SLACK);
        assert_true(rebalance_tight(m, cls, s, x) >= -1e-3);
        break;
    case HOMES_OVERFLOW: /* not a rejection */
        check_other(m, cls, s, x);
        assert_true(overflow_tight(m, cls, s, x) >= -10);
        break;
    case HOMES_WARM:
    case HOMES_REASONS:
        fail_msg("no worker has published anything");
    }
    ++m->seen[p->choice.reason];
}

/* ---- what follows ---- */

static void take(struct model *m, int w, double work)
{
    m->workers[w].work = fmax(0, m->workers[w].work + work);
}

static int count_homes(const struct model_class *c)
{
    int n = 0;

    for (int w = 0; w < WORKERS; ++w)
        n += c->home[w];
    return n;
}

static void drop(struct model *m, struct model_class *c, int w, double part)
{
    take(m, w, -part);
    c->home[w] = false;
}

static void settle(struct model *m, struct model_class *c, const struct homes_plan *p, int x)
{
    if (p->choice.reason == HOMES_OVERFLOW)
        return;
    double part = c->work / count_homes(c);

    for (int w = WORKERS; w-- != 0;) {
        if (c->home[w] && !m->workers[w].eligible)
            drop(m, c, w, part);
    }
    int n = count_homes(c);
    if (p->choice.reason == HOMES_REASSIGN || p->choice.reason == HOMES_REBALANCE) {
        for (int w = 0; w < WORKERS; ++w) {
            if (m->workers[w].homes == p->choice.from)
                drop(m, c, w, c->work / n);
        }
        take(m, x, c->work / n);
    } else if (p->choice.reason == HOMES_NEW || p->choice.reason == HOMES_REPLICATE) {
        for (int w = 0; w < WORKERS; ++w) {
            if (c->home[w])
                take(m, w, c->work / (n + 1) - c->work / n);
        }
        take(m, x, c->work / (n + 1));
    }
    c->home[x] = true;
}

/* IS: the homes that the core has now; of equals, it is for the core to say which go. */
static void shrink(struct model *m, struct model_class *c, int room, int keep, const bool *is)
{
    double part = c->work / count_homes(c);

    while (count_homes(c) > room) {
        int most = -1;

        for (int w = 0; w < WORKERS; ++w) {
            if (!c->home[w] || w == keep)
                continue;
            int more = most < 0 ? 1 : homes_at(m, w) - homes_at(m, most);
            if (more > 0 || (more == 0 && is[most] && !is[w]))
                most = w;
        }
        if (most < 0)
            return;
        drop(m, c, most, part);
    }
}

/* A home that the class is not worth goes: the most loaded. IS as in shrink. */
static void shed(struct model *m, struct model_class *c, double worth, int keep, const bool *is)
{
    int n = count_homes(c);
    int most = -1;

    for (int w = 0; w < WORKERS; ++w) {
        if (!c->home[w])
            continue;
        if (w == keep)
            continue;
        double more = most < 0 ? 1 : load_of(m, w) - load_of(m, most);
        if (more > SLACK || (more > -SLACK && is[most] && !is[w]))
            most = w;
    }
    if (most >= 0 && worth < 0.08 * (n - 1))
        drop(m, c, most, c->work / n);
}

static void serve_next(struct model *m, const struct homes_worker *at, unsigned concurrency)
{
    for (;;) {
        struct model_ticket *first = NULL;
        unsigned serving = 0;

        for (int i = 0; i < TICKETS; ++i) {
            struct model_ticket *t = &m->tickets[i];

            if (!t->active || t->at != at)
                continue;
            serving += t->serving;
            if (!t->serving && (first == NULL || t->order < first->order))
                first = t;
        }
        if (first == NULL || serving >= concurrency)
            return;
        first->serving = true;
        first->serve_us = m->now_us;
    }
}

static int worker_of(const struct model *m, const struct homes_worker *h)
{
    for (int w = 0; w < WORKERS; ++w) {
        if (m->workers[w].homes == h)
            return w;
    }
    return -1;
}

static void core_homes(const struct model *m, int cls, bool *is)
{
    struct homes_worker *homes[WORKERS];
    char name[16];

    snprintf(name, sizeof(name), "c%d", cls);
    size_t n = homes_of(m->homes, slice_of(name), homes, WORKERS);
    memset(is, 0, WORKERS * sizeof(*is));
    for (size_t i = 0; i < n; ++i)
        is[worker_of(m, homes[i])] = true;
}

static void step_begin(struct model *m)
{
    int cls = below(m, 4) != 0 ? below(m, 4) : below(m, CLASSES);
    char name[16];
    struct homes_plan p;
    int i = 0;

    while (i < TICKETS && m->tickets[i].active)
        ++i;
    if (i == TICKETS)
        return;
    snprintf(name, sizeof(name), "c%d", cls);
    struct homes_request r = {.cls = slice_of(name), .now_us = m->now_us};
    struct sight s = look(m, cls);
    homes_plan(m->homes, &r, &p);
    if (p.worker == NULL) {
        assert_int_equal(eligible(m), 0);
        return;
    }
    int x = worker_of(m, p.worker);
    check_plan(m, cls, &s, &p, x);
    homes_begin(m->homes, &r, &p, p.worker, &m->tickets[i].ticket);
    struct model_class *c = &m->classes[cls];
    c->work += s.cost;
    m->work += s.cost;
    c->asked += 1;
    m->asked += 1;
    c->parallel = s.parallel;
    c->demand += s.cost;
    m->usual += 0.05 * (s.share - m->usual);
    settle(m, c, &p, x);
    m->tickets[i].active = true;
    m->tickets[i].cls = cls;
    m->tickets[i].at = p.worker;
    m->tickets[i].worker = x;
    m->tickets[i].cold = !c->touched[x];
    m->tickets[i].serving = m->tickets[i].detached = false;
    m->tickets[i].order = ++m->orders;
    m->tickets[i].serve_us = m->now_us;
    m->tickets[i].expected = (uint32_t)p.choice.expected_us;
    c->touched[x] = true;
    bool is[WORKERS];
    core_homes(m, cls, is);
    shrink(m, c, (int)p.choice.homes_max, x, is);
    shed(m, c, s.worth, x, is);
    assert_memory_equal(c->home, is, sizeof(is));
    serve_next(m, p.worker, m->workers[x].concurrency);
    age(m);
}

static void learn(struct model *m, const struct model_ticket *t, double service)
{
    if (t->cold) {
        double step = fmax(0.05, 1 / ++m->ncold) * m->cold;

        if (m->ncold == 1)
            m->cold = fmax(1, service);
        else
            m->cold += service > m->cold ? step * 0.8 : -step * 0.2;
    }
    /* As the core keeps it. */
    double cost = m->classes[t->cls].cost > 0 ? m->classes[t->cls].cost : service;
    if (!t->detached)
        m->classes[t->cls].cost = (double)(float)(cost + 0.2 * (service - cost));
    m->mean += fmax(0.05, 1 / ++m->nserved) * (service - m->mean);
}

static void end_ticket(struct model *m, struct model_ticket *t)
{
    struct homes_end e = {.now_us = m->now_us,
                          .others = !m->alone && below(m, 5) == 0 ? (uint64_t)below(m, 4) : 0};
    double service = (double)(m->now_us - t->serve_us);
    int w = worker_of(m, t->at);
    unsigned concurrency = t->at == NULL || w < 0 ? 1 : m->workers[w].concurrency;
    homes_end(m->homes, &t->ticket, &e);
    if (m->ncold != 0)
        service = fmin(service, 10 * fmax(t->expected, m->cold));
    learn(m, t, service);
    if (w >= 0) {
        m->workers[w].foreign +=
            0.2 * ((double)e.others * m->mean / concurrency - m->workers[w].foreign);
        take(m, w, service);
    }
    t->active = false;
    if (w >= 0)
        serve_next(m, t->at, concurrency);
}

/* The oldest at a worker chosen by chance; sometimes any. */
static void step_end(struct model *m)
{
    struct model_ticket *t = &m->tickets[below(m, TICKETS)];
    bool any = below(m, 20) == 0;

    for (int i = 0; i < TICKETS && t->active && !any; ++i) {
        struct model_ticket *other = &m->tickets[i];

        if (other->active && other->at == t->at && other->order < t->order)
            t = other;
    }
    if (t->active)
        end_ticket(m, t);
}

/* All workers but one have finished their work. */
static void step_calm(struct model *m)
{
    const struct homes_worker *busy = m->workers[below(m, WORKERS)].homes;

    for (int i = 0; i < TICKETS; ++i) {
        if (m->tickets[i].active && m->tickets[i].at != busy)
            end_ticket(m, &m->tickets[i]);
    }
}

static void step_worker(struct model *m)
{
    int i = below(m, WORKERS);
    struct model_worker *w = &m->workers[i];

    if (w->homes == NULL) {
        *w = (struct model_worker){.concurrency = 1 + (unsigned)below(m, 2)};
        w->homes = homes_join(m->homes, w->concurrency, 0, w);
    } else if (below(m, 3) != 0) {
        w->eligible = !w->eligible;
        homes_set_eligible(m->homes, w->homes, w->eligible, m->now_us);
    } else {
        homes_leave(m->homes, w->homes);
        for (int t = 0; t < TICKETS; ++t) {
            if (m->tickets[t].active && m->tickets[t].at == w->homes) {
                /* Of no worker any more; it began where it began. */
                m->tickets[t].detached = true;
                struct homes_end e = {.now_us = m->now_us, .failed = true, .unserved = true};
                homes_end(m->homes, &m->tickets[t].ticket, &e);
                m->tickets[t].active = false;
            }
        }
        *w = (struct model_worker){0};
        for (int c = 0; c < CLASSES; ++c) {
            m->classes[c].home[i] = false;
            m->classes[c].touched[i] = false;
        }
    }
}

static void finish(struct model *m)
{
    for (int w = 0; w < WORKERS; ++w) {
        if (m->workers[w].homes != NULL)
            homes_leave(m->homes, m->workers[w].homes);
    }
    homes_check(m->homes);
    homes_destroy(m->homes);
}

static void the_core_does_what_the_rule_states_at_every_step(void **state)
{
    static struct model m;
    struct homes_options o = {.settings = {.max_classes = 1000, .max_share = MAX_SHARE}};
    uint64_t seed;

    (void)state;
    if (!parse_u64(slice_of(getenv("RLB_SEED")), UINT64_MAX, &seed))
        seed = 20;
    printf("seed %llu\n", (unsigned long long)seed);
    m = (struct model){.seed = seed * 0x9E3779B97F4A7C15ULL + 1,
                       .homes = homes_create(&o),
                       .now_us = SECOND,
                       .mean = 1,
                       .cold = 1};
    struct homes_view start;
    homes_view(m.homes, m.now_us, &start); /* which updates its clock */
    for (int i = 0; i < STEPS; ++i) {
        int what = below(&m, 1000);

        m.alone = i >= STEPS / 2;
        m.now_us += (uint64_t)below(&m, 5000) + (what == 7 ? (uint64_t)below(&m, 30 * SECOND) : 0);
        if (what < 5)
            step_worker(&m);
        else if (what < 40)
            step_calm(&m);
        else if (what < 500)
            step_end(&m);
        else
            step_begin(&m);
        homes_check(m.homes);
    }
    /* The walk has been everywhere. */
    assert_true(m.seen[HOMES_NEW] > 20);
    assert_true(m.seen[HOMES_HOME] > 1000);
    assert_true(m.seen[HOMES_REPLICATE] > 20);
    assert_true(m.seen[HOMES_REASSIGN] > 0);
    assert_true(m.seen[HOMES_REBALANCE] > 0);
    assert_true(m.seen[HOMES_OVERFLOW] > 0);
    finish(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_core_does_what_the_rule_states_at_every_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
