/* SPDX-License-Identifier: Apache-2.0
 *
 * The power of two choices: of two randomly chosen workers the one with less work in flight.
 * Source: Mitzenmacher, The Power of Two Choices in Randomized Load Balancing (IEEE TPDS 12, 2001).
 * Where it counts requests, this counts the seconds that they are expected to take, so that one
 * long request weighs as much as it occupies a worker: moving averages, per class and over all, of
 * what this load balancer has measured. Requests of other load balancers count as the average
 * request.
 *
 * The eligible workers are also stored in an array, from which one is chosen at random in constant
 * time; a worker that leaves is replaced by the last. If the random worker may not be used, the
 * next one in the array is used.
 */
#include <stdlib.h>

#include "routing/pool_internal.h"

/* ---- what a request of a class is expected to cost, in seconds of service ---- */

/* Weight of the newest value in an average. A class's cost changes within a few requests, when its
 * cache warms up; the average over all, the expected cost of new classes, is steady. */
static const double CLASS_SHARE = 0.2;
static const double ALL_SHARE = 0.01;
/* Before anything is known, each request counts for the same. */
static const double UNKNOWN_S = 0.01;
/* The shortest time that the clock can measure. */
static const double LEAST_S = 1e-6;

struct cost_class {
    struct class_entry base;
    double mean_s;     /* 0 before the first */
    struct list hands; /* pool_hand.node of its requests in flight */
};

struct p2c {
    /* Of struct cost_class. Requests of a dropped class count for the mean over all only. */
    struct classes classes;
    double mean_s;   /* over all; 0 before the first */
    uint64_t random; /* xorshift64's; never 0 */
    struct worker **eligible;
    uint32_t n;
    size_t room;
};

/* E may be NULL. */
static struct cost_class *p2c_class_of(struct class_entry *e)
{
    return (struct cost_class *)(void *)e;
}

static void on_drop(unused_ void *owner, struct class_entry *e)
{
    struct cost_class *c = p2c_class_of(e);
    struct list *node;

    while ((node = list_pop_front(&c->hands)) != NULL)
        list_entry(node, struct pool_hand, node)->entry = NULL;
}

/* Returns the expected cost of a request of C, which may be NULL [s]; > 0. */
static double cost_expected_s(const struct p2c *s, const struct cost_class *c)
{
    if (c != NULL && c->mean_s > 0)
        return c->mean_s;
    return s->mean_s > 0 ? s->mean_s : UNKNOWN_S;
}

static void update_mean(double *mean_s, double share, double value_s)
{
    *mean_s = *mean_s > 0 ? *mean_s + share * (value_s - *mean_s) : value_s;
}

/* ---- the policy ---- */

struct p2c_worker {
    double work_s;
    uint32_t index; /* in p2c.eligible, while it is eligible */
};

static struct p2c_worker *worker_data(const struct worker *w)
{
    return w->policy;
}

/* Returns 0 .. n-1: xorshift64 (Marsaglia, Xorshift RNGs, JSS 8, 2003), its upper half scaled. */
static uint32_t random_below(uint64_t *state, uint32_t n)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(((*state >> 32) * n) >> 32);
}

static void *p2c_create(struct pool *p)
{
    static const uint64_t OF_ZERO = 0x9e3779b97f4a7c15;
    struct p2c *s = xcalloc(1, sizeof(*s));

    s->random = p->settings.seed != 0 ? p->settings.seed : OF_ZERO;
    classes_init(&s->classes, sizeof(struct cost_class), p->settings.max_classes, on_drop, s);
    return s;
}

static void p2c_destroy(void *state)
{
    struct p2c *s = state;

    classes_fini(&s->classes);
    free(s->eligible);
    free(s);
}

static void p2c_changed(struct pool *p)
{
    struct p2c *s = p->state;

    classes_set_max(&s->classes, p->settings.max_classes);
}

static void p2c_set_eligible(struct pool *p, struct worker *w, bool eligible)
{
    struct p2c *s = p->state;

    if (eligible) {
        s->eligible = xgrow(s->eligible, s->n + 1, &s->room, sizeof(struct worker *));
        worker_data(w)->index = s->n;
        s->eligible[s->n++] = w;
        return;
    }
    struct worker *last = s->eligible[--s->n];
    s->eligible[worker_data(w)->index] = last;
    worker_data(last)->index = worker_data(w)->index;
}

/* Returns the first worker from AT on, cyclically, that may be chosen and is not OTHER; or NULL. */
static struct worker *first_from(const struct p2c *s, const struct pool_question *q, uint32_t at,
                                 const struct worker *other)
{
    for (uint32_t i = 0; i < s->n; ++i) {
        struct worker *w = s->eligible[at];

        if (w != other && pool_may_choose(q, w))
            return w;
        at = at + 1 != s->n ? at + 1 : 0;
    }
    return NULL;
}

static double work_s(const struct p2c *s, const struct pool_question *q, const struct worker *w)
{
    uint64_t others = worker_others(w, q->since_ms);
    double foreign_s = others != 0 ? (double)others * cost_expected_s(s, NULL) : 0;

    return worker_data(w)->work_s + foreign_s;
}

static void p2c_choose(struct pool *p, const struct pool_question *q, struct pool_choice *out)
{
    const struct p2c *s = p->state;
    uint64_t random = s->random;
    uint32_t i = random_below(&random, s->n);
    struct worker *a = first_from(s, q, i, NULL);
    struct worker *b = NULL;

    if (s->n > 1) {
        /* One of the others: each pair is as likely. */
        uint32_t k = random_below(&random, s->n - 1);
        b = first_from(s, q, k < i ? k : k + 1, a);
    }
    out->worker = b != NULL && work_s(s, q, b) < work_s(s, q, a) ? b : a;
    out->reason = PICK_RANDOM_CHOICE;
    out->flags = random;
    if (q->explain == NULL)
        return;
    const struct cost_class *c = p2c_class_of(classes_find(&s->classes, q->request->cls));
    pool_explain_candidate(q->explain, a, 0, work_s(s, q, a),
                           a != out->worker ? "more work" : NULL);
    if (b != NULL)
        pool_explain_candidate(q->explain, b, 0, work_s(s, q, b),
                               b != out->worker ? "more work" : NULL);
    pool_explain_step(q->explain, "chosen at random", s->n, b != NULL ? 2 : 1);
    pool_explain_value(q->explain, "expected_s", cost_expected_s(s, c));
}

static void p2c_begin(struct pool *p, const struct pool_question *q, const struct pool_choice *c,
                      struct pool_hand *h)
{
    struct p2c *s = p->state;
    struct class_entry *e = classes_find(&s->classes, q->request->cls);

    s->random = c->flags;
    classes_request(&s->classes, e);
    if (e == NULL) {
        e = classes_add(&s->classes, q->request->cls);
        list_init(&p2c_class_of(e)->hands);
    }
    h->entry = p2c_class_of(e);
    h->work_s = cost_expected_s(s, h->entry);
    list_push_back(&p2c_class_of(e)->hands, &h->node);
    worker_data(c->worker)->work_s += h->work_s;
}

static void p2c_adopt(struct pool *p, struct worker *w, struct pool_hand *h,
                      unused_ uint64_t started_us)
{
    const struct p2c *s = p->state;

    h->work_s = cost_expected_s(s, NULL);
    worker_data(w)->work_s += h->work_s;
}

static void p2c_end(struct pool *p, struct worker *w, struct pool_hand *h,
                    const struct pool_served *how)
{
    struct p2c *s = p->state;
    struct cost_class *c = h->entry;

    worker_data(w)->work_s -= h->work_s;
    /* The remainder after rounding. */
    if (worker_backlog(w) == 0 || worker_data(w)->work_s < 0)
        worker_data(w)->work_s = 0;
    list_remove(&h->node);
    h->entry = NULL;
    /* Only successful requests count as a measurement of cost. */
    if (how->failed || how->service_us == 0)
        return;
    double took_s = (double)how->service_us / 1e6;
    if (took_s < LEAST_S)
        took_s = LEAST_S;
    update_mean(&s->mean_s, ALL_SHARE, took_s);
    if (c != NULL)
        update_mean(&c->mean_s, CLASS_SHARE, took_s);
}

const struct pool_rule pool_rule_p2c = {
    .worker_bytes = sizeof(struct p2c_worker),
    .create = p2c_create,
    .destroy = p2c_destroy,
    .changed = p2c_changed,
    .set_eligible = p2c_set_eligible,
    .choose = p2c_choose,
    .begin = p2c_begin,
    .adopt = p2c_adopt,
    .end = p2c_end,
};
