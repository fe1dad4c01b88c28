/* SPDX-License-Identifier: Apache-2.0
 *
 * A random walk through all operations of a pool: workers are added and removed, send resumes of
 * changing versions, become unavailable; requests arrive with and without workers to avoid, wait,
 * time out; settings change. Every invariant is checked after each step; at the end all waiting
 * requests are served.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "routing/pool.h"
#include "sim/parts.h"
#include "tests/sim/seed.h"
#include "tests/support/pool_check.h"
#include "tests/support/resume_find.h"

enum { STEPS = 20000, WORKERS = 6, REQUESTS = 24, CLASSES = 60, EXCLUDED_MAX = 4 };

/* A request is idle, waits (parked, or woken and not yet retried), or is in flight. */
struct request {
    struct pool_waiter waiter;
    bool woken;
    struct pool_pick pick; /* worker != NULL: in flight */
    char cls[16];
};

struct walk {
    struct pool *pool;
    struct pool_settings settings;
    struct draw draw;
    struct worker *workers[WORKERS];
    bool available[WORKERS];
    struct request requests[REQUESTS];
    struct list released;
    unsigned long picks;
    unsigned long turns;
    unsigned long woken;
};

static uint32_t below(struct walk *w, uint32_t n)
{
    return draw_below(&w->draw, n);
}

/* As the loops do, but the wake-up stays undelivered until the walk comes by. */
static void collect_turns(struct walk *w)
{
    struct list *node;

    while ((node = list_pop_front(&w->released)) != NULL) {
        struct request *r = list_entry(node, struct pool_waiter, node)->context;

        assert_int_equal(r->waiter.state, WAITER_RELEASED);
        r->woken = true;
        ++w->turns;
    }
}

static void step_worker_joins(struct walk *w)
{
    uint32_t i = below(w, WORKERS);
    struct resume r = {0};
    char name[16];

    if (w->workers[i] == NULL) {
        struct worker_options o = {.name = SLICE_LIT("w"), .concurrency = 1 + below(w, 3)};

        w->workers[i] = worker_create(&o);
        w->available[i] = true;
    }
    for (uint32_t n = below(w, 12); n-- != 0;) {
        snprintf(name, sizeof(name), "c%u", below(w, CLASSES));
        if (resume_find(&r, slice_of(name)) == NULL)
            resume_push(&r, slice_of(name), (double)below(w, 8) - 1);
    }
    snprintf(name, sizeof(name), "%u", below(w, 3));
    pool_new_resume(w->pool, w->workers[i], &r, name, below(w, 10) != 0 ? "" : "other",
                    &w->released);
    resume_fini(&r);
}

static void step_worker_leaves(struct walk *w)
{
    uint32_t i = below(w, WORKERS);

    if (w->workers[i] == NULL)
        return;
    pool_remove(w->pool, w->workers[i], &w->released);
    /* Some come back as the same. */
    if (below(w, 3) == 0)
        return;
    worker_unref(w->workers[i]);
    w->workers[i] = NULL;
}

static void step_worker_available(struct walk *w)
{
    uint32_t i = below(w, WORKERS);

    if (w->workers[i] == NULL)
        return;
    w->available[i] = below(w, 2) != 0;
    pool_set_available(w->pool, w->workers[i], w->available[i], &w->released);
    if (!w->available[i] && below(w, 2) != 0)
        pool_hand_over(w->pool, w->workers[i], NULL);
}

static void step_worker_is_followed(struct walk *w)
{
    struct worker *from = w->workers[below(w, WORKERS)];
    struct worker *to = w->workers[below(w, WORKERS)];

    if (from != NULL && to != NULL && from != to)
        pool_hand_over(w->pool, from, to);
}

static void step_worker_rejects(struct walk *w)
{
    struct worker *worker = w->workers[below(w, WORKERS)];

    if (worker != NULL && below(w, 3) != 0)
        worker_declined(worker, w->picks);
    else if (worker != NULL)
        worker_responded(worker);
}

static void step_worker_activated(struct walk *w)
{
    struct worker *worker = w->workers[below(w, WORKERS)];
    uint64_t for_ms = 0;

    if (worker != NULL) {
        w->woken += pool_woke(w->pool, worker);
        pool_activate(w->pool, worker, (enum pool_activation)below(w, 3), &w->released);
    }
    if (pool_overloaded(w->pool, w->picks, &for_ms))
        assert_in_range(for_ms, 0, w->picks);
    else
        assert_int_equal(for_ms, 0);
}

static size_t some_workers(struct walk *w, struct worker *out[EXCLUDED_MAX])
{
    size_t n = below(w, 3) == 0 ? below(w, EXCLUDED_MAX + 1) : 0;

    for (size_t i = 0; i < n; ++i)
        out[i] = w->workers[below(w, WORKERS)];
    return n;
}

static void check_pick(const struct walk *w, const struct pool_request *asked,
                       const struct worker *worker)
{
    for (size_t i = 0; i < asked->nexcluded; ++i)
        assert_ptr_not_equal(asked->excluded[i], worker);
    for (size_t i = 0; i < WORKERS; ++i)
        assert_true(w->workers[i] != worker || w->available[i]);
}

/* Ask for a worker, whether for the first time or after a wake-up. */
static void ask(struct walk *w, struct request *r, struct worker *const *excluded, size_t nexcluded)
{
    struct pool_request asked = {.cls = slice_of(r->cls),
                                 .excluded = excluded,
                                 .nexcluded = nexcluded,
                                 .retry = nexcluded != 0,
                                 .waiter = r->woken || below(w, 4) != 0 ? &r->waiter : NULL,
                                 .released = &w->released};
    enum err e = pool_get(w->pool, &asked, w->picks, &r->pick);

    r->woken = false;
    switch (e) {
    case ERR_OK:
        check_pick(w, &asked, r->pick.worker);
        ++w->picks;
        break;
    case ERR_BUSY:
        assert_int_equal(r->waiter.state, WAITER_PARKED);
        return;
    case ERR_QUEUE_FULL:
    case ERR_NO_WORKER:
        break;
    default:
        fail_msg("pool_get: %s", err_text(e));
    }
    assert_int_equal(r->waiter.state, WAITER_IDLE);
}

static void step_request(struct walk *w)
{
    struct request *r = &w->requests[below(w, REQUESTS)];
    struct worker *excluded[EXCLUDED_MAX];

    if (r->pick.worker != NULL) {
        pool_put(w->pool, &r->pick, NULL, &w->released);
        return;
    }
    if (r->waiter.state == WAITER_PARKED || (r->woken && below(w, 8) == 0)) {
        /* Most are patient. */
        if (r->woken || below(w, 8) == 0) {
            bool was_parked = r->waiter.state == WAITER_PARKED;

            assert_int_equal(pool_wait_cancel(w->pool, &r->waiter, &w->released), was_parked);
            r->woken = false;
        }
        return;
    }
    if (!r->woken)
        snprintf(r->cls, sizeof(r->cls), "c%u", below(w, CLASSES));
    size_t n = some_workers(w, excluded);
    ask(w, r, excluded, n);
}

static void step_settings(struct walk *w)
{
    struct pool_settings *s = &w->settings;

    s->policy = (enum pool_policy)below(w, POOL_POLICIES);
    s->hash_balance_percent = below(w, 2) * (101 + below(w, 200));
    s->shadowed = below(w, 2) != 0;
    s->shadow = (enum pool_policy)below(w, POOL_POLICIES);
    s->single_version = below(w, 2) != 0;
    s->max_share = 0.25 * (1 + below(w, 4));
    s->variance = below(w, 5);
    s->backlog_history = 1 + below(w, 20);
    s->max_classes = 1 + below(w, 80);
    s->max_waiting = below(w, REQUESTS);
    s->spawn_backlog = below(w, 3);
    pool_set(w->pool, s);
}

static void take_step(struct walk *w)
{
    uint32_t kind = below(w, 100);

    if (kind < 10)
        step_worker_joins(w);
    else if (kind < 16)
        step_worker_leaves(w);
    else if (kind < 22)
        step_worker_available(w);
    else if (kind < 25)
        step_worker_activated(w);
    else if (kind < 26)
        step_worker_rejects(w);
    else if (kind < 27)
        step_settings(w);
    else if (kind < 28)
        step_worker_is_followed(w);
    else
        step_request(w);
    collect_turns(w);
    pool_check(w->pool);
}

/* One worker remains and serves all waiting requests, without new requests that trigger it. */
static void serve_all_that_wait(struct walk *w)
{
    bool waiting = true;

    for (size_t i = 0; i < REQUESTS; ++i) {
        if (w->requests[i].pick.worker != NULL)
            pool_put(w->pool, &w->requests[i].pick, NULL, &w->released);
        collect_turns(w);
    }
    for (int round = 0; waiting; ++round) {
        assert_true(round <= REQUESTS);
        waiting = false;
        for (size_t i = 0; i < REQUESTS; ++i) {
            struct request *r = &w->requests[i];

            if (r->woken) {
                ask(w, r, NULL, 0);
                assert_non_null(r->pick.worker);
                pool_put(w->pool, &r->pick, NULL, &w->released);
                collect_turns(w);
            }
            waiting = waiting || r->woken || r->waiter.state == WAITER_PARKED;
        }
        pool_check(w->pool);
    }
}

static void end(struct walk *w)
{
    struct worker_options o = {.name = SLICE_LIT("last"), .concurrency = 1};
    struct worker *last = worker_create(&o);
    struct resume none = {0};

    for (size_t i = 0; i < WORKERS; ++i) {
        if (w->workers[i] == NULL)
            continue;
        pool_remove(w->pool, w->workers[i], &w->released);
        worker_unref(w->workers[i]);
        collect_turns(w);
    }
    pool_new_resume(w->pool, last, &none, "", "", &w->released);
    collect_turns(w);
    serve_all_that_wait(w);
    pool_remove(w->pool, last, &w->released);
    worker_unref(last);
    pool_check(w->pool);
    pool_destroy(w->pool);
}

static void run(uint64_t seed)
{
    static const struct pool_settings settings = {.variance = 1,
                                                  .backlog_history = 9,
                                                  .unskilled_score = 1,
                                                  .max_classes = 40,
                                                  .max_waiting = REQUESTS / 2};
    struct walk w = {
        .settings = settings, .pool = pool_create(&settings, ""), .draw = draw_of(seed)};

    list_init(&w.released);
    for (size_t i = 0; i < REQUESTS; ++i)
        w.requests[i].waiter.context = &w.requests[i];
    for (int i = 0; i < STEPS; ++i)
        take_step(&w);
    print_message("seed %llu: %lu picks, %lu turns, %lu woken\n", (unsigned long long)seed, w.picks,
                  w.turns, w.woken);
    assert_true(w.picks > STEPS / 20);
    assert_true(w.turns > STEPS / 200);
    assert_true(w.woken > 0);
    end(&w);
}

static void every_walk_keeps_the_pool_consistent_and_serves_all_that_wait(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 5; ++i)
        run(simulation_seed() + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_walk_keeps_the_pool_consistent_and_serves_all_that_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
