/* SPDX-License-Identifier: Apache-2.0
 *
 * Scenarios of a connection pool, executed step by step: three loops on one thread, turned by the
 * test, so that each stage of a hand-over can be reached. Threads: conn_pool_thread_test.c.
 */
#pragma once

#include "common/base/text.h"
#include "tests/unit/upstream/conn_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LOOPS = 3 };

struct fixture {
    struct loop *loops[LOOPS];
    struct conn_pool *pool;
    struct conn_backend *b;
    struct fake_counts counts;
};

/* Allocated one by one, so that the address sanitizer sees a pool that touches one too late. */
struct asker {
    struct conn_waiter w;
    int reported;
};

static const struct conn_pool_settings settings = {.idle_timeout_ms = 0, .max_waiting = 3};
static const struct conn_checkout any = {.fresh = false};
static const struct conn_checkout fresh = {.fresh = true};

static inline int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    for (unsigned i = 0; i < LOOPS; ++i)
        f->loops[i] = loop_create(i);
    f->pool = conn_pool_create(&fake_ops, f->loops, LOOPS);
    f->b = conn_pool_backend(f->pool, SLICE_LIT("10.0.0.1:80"), SLICE_LIT("life1"), 2, &settings);
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;

    conn_pool_check(f->pool);
    for (unsigned i = 0; i < LOOPS; ++i)
        conn_pool_close_loop(f->pool, f->loops[i]);
    conn_backend_release(f->b);
    for (unsigned i = 0; i < LOOPS; ++i)
        loop_destroy(f->loops[i]);
    assert_int_equal(atomic_load(&f->counts.live), 0);
    conn_pool_destroy(f->pool);
    free(f);
    return 0;
}

/* ---- the parts of a story ---- */

static inline void on_ready(struct conn_waiter *w)
{
    ++container_of(w, struct asker, w)->reported;
}

static inline struct asker *asker(void)
{
    struct asker *a = xcalloc(1, sizeof(*a));

    a->w.ready = on_ready;
    return a;
}

static inline void gone(struct asker *a)
{
    conn_cancel(&a->w);
    free(a);
}

static inline void turn(struct fixture *f, unsigned loop)
{
    loop_turn(f->loops[loop], 0);
    conn_pool_check(f->pool);
}

static inline void turn_all(struct fixture *f)
{
    for (unsigned i = 0; i < 3 * LOOPS; ++i)
        turn(f, i % LOOPS);
}

static inline enum conn_result ask(struct fixture *f, unsigned loop, const struct conn_checkout *o,
                                   struct asker *a)
{
    enum conn_result r = conn_checkout(f->b, f->loops[loop], o, &a->w);

    conn_pool_check(f->pool);
    return r;
}

static inline struct fake_conn *opened(struct fixture *f, unsigned loop)
{
    struct asker *a = asker();

    assert_int_equal(ask(f, loop, &fresh, a), CONN_OPEN);
    gone(a);
    return fake_open(f->b, f->loops[loop], &f->counts);
}

static inline void give_back(struct fixture *f, struct fake_conn *c)
{
    struct pooled_conn *p = &c->pooled;

    atomic_store(&c->taken, false);
    conn_checkin(&p, c->loop);
    assert_null(p);
    conn_pool_check(f->pool);
}

static inline void forget_and_close(struct fixture *f, struct fake_conn *c)
{
    conn_withdraw(&c->pooled);
    atomic_store(&c->taken, false);
    fake_close(&c->pooled);
    conn_pool_check(f->pool);
}

static inline struct conn_backend_view view(struct fixture *f)
{
    struct conn_backend_view v;

    conn_backend_view(f->b, &v);
    return v;
}

/* The end of a scenario: A was called back once, with R; its connection is returned. */
static inline void reported_of(struct fixture *f, struct asker *a, enum conn_result r)
{
    assert_int_equal(a->reported, 1);
    assert_int_equal(a->w.result, r);
    if (r == CONN_REUSED) {
        struct fake_conn *c = fake_of(a->w.conn);
        assert_ptr_equal(c->loop, a->w.loop);
        give_back(f, c);
    } else if (r == CONN_OPEN) {
        conn_not_opened(f->b);
    }
    gone(a);
}

/* Two idle connections on loop 0, at the limit; A on loop 1 waits for one of them. */
static inline struct fake_conn *hand_over_begins(struct fixture *f, struct asker *a)
{
    struct fake_conn *lower = opened(f, 0);
    struct fake_conn *upper = opened(f, 0);

    give_back(f, lower);
    give_back(f, upper);
    assert_int_equal(ask(f, 1, &any, a), CONN_WAIT);
    return upper;
}
