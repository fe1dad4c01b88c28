/* SPDX-License-Identifier: Apache-2.0
 *
 * Homes with numbered workers (the context of a worker is its number) and numbered requests; the
 * test sets the clock. Include after <cmocka.h>.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "common/base/text.h"
#include "routing/homes/homes.h"
#include "tests/support/homes_check.h"

enum { HOMES_WORKERS = 24, HOMES_TICKETS = 4000, MS = 1000, SECOND = 1000000 };

struct lodgers {
    struct homes *homes;
    size_t n;
    struct homes_worker *workers[HOMES_WORKERS];
    struct homes_ticket tickets[HOMES_TICKETS];
    size_t ntickets;
    uint64_t now_us;
    struct homes_choice choice; /* the last */
    bool rejected[HOMES_WORKERS];
    /* What is published of "warm.example". */
    int published[HOMES_WARM_MAX];
    size_t npublished;
};

static inline size_t lodgers_warm(void *context, struct slice cls, struct homes_worker *out[])
{
    const struct lodgers *f = context;

    if (!slice_eq(cls, SLICE_LIT("warm.example")))
        return 0;
    for (size_t i = 0; i < f->npublished; ++i)
        out[i] = f->workers[f->published[i]];
    return f->npublished;
}

static inline uint64_t lodgers_name(size_t i)
{
    return 1001 + i;
}

static inline void lodgers_join(struct lodgers *f, size_t i, unsigned concurrency)
{
    f->workers[i] = homes_join(f->homes, concurrency, lodgers_name(i), (void *)(uintptr_t)(i + 1));
    homes_set_eligible(f->homes, f->workers[i], true, f->now_us);
}

/* N eligible workers of CONCURRENCY. */
static inline void lodgers_start(struct lodgers *f, size_t n, unsigned concurrency)
{
    struct homes_options o = {
        .settings = {.max_classes = 1000, .max_share = 0.4375}, .warm = lodgers_warm, .context = f};

    *f = (struct lodgers){.n = n, .now_us = 1000 * SECOND};
    f->homes = homes_create(&o);
    for (size_t i = 0; i < n; ++i)
        lodgers_join(f, i, concurrency);
}

static inline void lodgers_end(struct lodgers *f)
{
    homes_check(f->homes);
    for (size_t i = 0; i < f->n; ++i) {
        if (f->workers[i] != NULL)
            homes_leave(f->homes, f->workers[i]);
    }
    for (size_t i = 0; i < f->ntickets; ++i) {
        struct homes_end e = {.now_us = f->now_us, .failed = true, .unserved = true};

        if (f->tickets[i].worker != NULL)
            homes_end(f->homes, &f->tickets[i], &e);
    }
    homes_check(f->homes);
    homes_destroy(f->homes);
}

static inline bool lodgers_rejects(void *context, void *worker)
{
    return ((const struct lodgers *)context)->rejected[(uintptr_t)worker - 1];
}

/* -> the number of the worker that gets a request of CLS, or -1; the request is ntickets - 1. */
static inline int ask(struct lodgers *f, const char *cls)
{
    struct homes_request r = {
        .cls = slice_of(cls), .now_us = f->now_us, .rejects = lodgers_rejects, .context = f};
    struct homes_plan plan;

    homes_plan(f->homes, &r, &plan);
    f->choice = plan.choice;
    if (plan.worker == NULL)
        return -1;
    assert_true(f->ntickets < HOMES_TICKETS);
    homes_begin(f->homes, &r, &plan, plan.worker, &f->tickets[f->ntickets++]);
    return (int)(uintptr_t)homes_worker_context(plan.worker) - 1;
}

static inline void response_how(struct lodgers *f, size_t ticket, bool failed)
{
    struct homes_end e = {.now_us = f->now_us, .failed = failed};

    homes_end(f->homes, &f->tickets[ticket], &e);
}

/* One request of CLS, responded after TOOK_US. -> its worker */
static inline int serve(struct lodgers *f, const char *cls, uint64_t took_us)
{
    int w = ask(f, cls);

    f->now_us += took_us;
    response_how(f, f->ntickets - 1, false);
    --f->ntickets;
    return w;
}

static inline struct homes_worker_view view_of(struct lodgers *f, int worker)
{
    struct homes_worker_view v;

    homes_view_worker(f->homes, f->workers[worker], f->now_us, &v);
    return v;
}

static inline size_t homes_count(struct lodgers *f, const char *cls)
{
    return homes_of(f->homes, slice_of(cls), NULL, 0);
}

/* Two seconds of it, so that there is something beside what comes. */
static inline void lodgers_serve_others(struct lodgers *f)
{
    for (int i = 0; i < 200; ++i)
        serve(f, "others", 10 * MS);
}
