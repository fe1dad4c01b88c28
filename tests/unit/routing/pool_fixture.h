/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of the pool share: a pool with workers by number, requests by number, and the list
 * that waiters are released to. Include after <cmocka.h>. One test, one thread.
 */
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/text.h"
#include "routing/pool.h"
#include "tests/support/pool_check.h"
#include "tests/support/resume_find.h"

enum { FIXTURE_WORKERS = 10, FIXTURE_PICKS = 100 };

struct fixture {
    struct pool *pool;
    struct worker *workers[FIXTURE_WORKERS];
    struct pool_pick picks[FIXTURE_PICKS];
    size_t npicks;
    struct list released;
    unsigned contexts_released;
};

static const struct pool_settings fixture_settings = {
    .variance = 4,
    .backlog_history = 9,
    .unskilled_score = 1,
    .max_classes = 1000,
    .max_waiting = 5,
};

static inline void fixture_context_release(void *context)
{
    ++((struct fixture *)context)->contexts_released;
}

/* CONCURRENCY: requests that a worker serves at once. */
static inline void fixture_start_with(struct fixture *f, const struct pool_settings *s,
                                      unsigned concurrency)
{
    *f = (struct fixture){.pool = pool_create(s, "")};
    list_init(&f->released);
    for (int i = 0; i < FIXTURE_WORKERS; ++i) {
        char name[16];
        struct worker_options o = {.concurrency = concurrency, .context = f};

        snprintf(name, sizeof(name), "w%d", i);
        o.name = slice_of(name);
        o.instance = SLICE_LIT("life");
        o.context_release = fixture_context_release;
        f->workers[i] = worker_create(&o);
    }
}

static inline void fixture_start(struct fixture *f, const struct pool_settings *s)
{
    fixture_start_with(f, s, 1);
}

/* All that is still there leaves in an order that has not been tested otherwise. */
static inline void fixture_end(struct fixture *f)
{
    pool_check(f->pool);
    for (int i = 0; i < FIXTURE_WORKERS; ++i)
        pool_remove(f->pool, f->workers[i], &f->released);
    for (size_t i = 0; i < f->npicks; ++i) {
        if (f->picks[i].worker != NULL)
            pool_put(f->pool, &f->picks[i], NULL, &f->released);
    }
    pool_check(f->pool);
    for (int i = 0; i < FIXTURE_WORKERS; ++i)
        worker_unref(f->workers[i]);
    assert_int_equal(f->contexts_released, FIXTURE_WORKERS);
    pool_destroy(f->pool);
}

/* SKILLS: "class=score class=score". */
static inline void fixture_resume_of(struct fixture *f, int worker, const char *version,
                                     const char *skills)
{
    struct resume r = {0};
    struct slice rest = slice_of(skills);

    while (rest.len != 0) {
        struct slice row = slice_cut(&rest, ' ');
        struct slice cls = slice_cut(&row, '=');
        double score = 0;

        assert_true(parse_double(row, &score));
        resume_push(&r, cls, score);
    }
    pool_new_resume(f->pool, f->workers[worker], &r, version, "", &f->released);
    resume_fini(&r);
    pool_check(f->pool);
}

static inline void fixture_resume(struct fixture *f, int worker, const char *skills)
{
    fixture_resume_of(f, worker, "", skills);
}

static inline int fixture_number(const struct fixture *f, const struct worker *w)
{
    for (int i = 0; i < FIXTURE_WORKERS; ++i) {
        if (f->workers[i] == w)
            return i;
    }
    return -1;
}

/* Classes with at least one score. */
static inline size_t fixture_classes(struct fixture *f)
{
    struct pool_view v;

    pool_view(f->pool, false, &v);
    size_t n = v.classes;
    pool_view_fini(&v);
    return n;
}

/* The number of the worker picked, or -1. The pick is the latest of f->picks. */
static inline int fixture_get(struct fixture *f, const char *cls)
{
    struct pool_request r = {.cls = slice_of(cls)};

    assert_true(f->npicks < FIXTURE_PICKS);
    struct pool_pick *pick = &f->picks[f->npicks];
    if (pool_get(f->pool, &r, f->npicks + 1, pick) != ERR_OK)
        return -1;
    pool_check(f->pool);
    ++f->npicks;
    return fixture_number(f, pick->worker);
}

static inline const struct pool_pick *fixture_latest(const struct fixture *f)
{
    return &f->picks[f->npicks - 1];
}

/* The oldest request in flight of WORKER is done. */
static inline void fixture_put(struct fixture *f, int worker)
{
    for (size_t i = 0; i < f->npicks; ++i) {
        if (f->picks[i].worker != f->workers[worker])
            continue;
        pool_put(f->pool, &f->picks[i], NULL, &f->released);
        pool_check(f->pool);
        return;
    }
    fail_msg("worker %d has no request in flight", worker);
}

static inline void fixture_remove(struct fixture *f, int worker)
{
    pool_remove(f->pool, f->workers[worker], &f->released);
    pool_check(f->pool);
}

static inline void fixture_available(struct fixture *f, int worker, bool available)
{
    pool_set_available(f->pool, f->workers[worker], available, &f->released);
    pool_check(f->pool);
}

/* The list of eligible workers as "0 2 1", front first. */
static inline const char *fixture_eligible(struct fixture *f)
{
    static char eligible[FIXTURE_WORKERS * 2 + 1];
    struct pool_view v;
    size_t n = 0;

    eligible[0] = '\0';
    pool_view(f->pool, false, &v);
    for (size_t i = 0; i < v.nactive; ++i)
        n += (size_t)snprintf(eligible + n, sizeof(eligible) - n, i != 0 ? " %d" : "%d",
                              fixture_number(f, v.workers[i].worker));
    pool_view_fini(&v);
    return eligible;
}

/* Score of a member, active or not; NAN when it has none. */
static inline double fixture_score(struct fixture *f, int worker, const char *cls)
{
    struct pool_view v;
    double score = (double)NAN;

    pool_view(f->pool, true, &v);
    for (size_t i = 0; i < v.n; ++i) {
        const double *found = resume_find(&v.workers[i].skills, slice_of(cls));

        if (v.workers[i].worker == f->workers[worker] && found != NULL)
            score = *found;
    }
    pool_view_fini(&v);
    return score;
}

static inline uint64_t fixture_backlog(struct fixture *f, int worker)
{
    struct pool_view v;
    uint64_t backlog = UINT64_MAX;

    pool_view(f->pool, false, &v);
    for (size_t i = 0; i < v.n + v.ndetached; ++i) {
        if (v.workers[i].worker == f->workers[worker])
            backlog = v.workers[i].backlog;
    }
    pool_view_fini(&v);
    return backlog;
}
