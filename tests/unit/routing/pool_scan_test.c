/* SPDX-License-Identifier: Apache-2.0
 *
 * A scan of the pool in pieces: what may change between two of them, and what may not. The linker
 * replaces pool_let_in by a function of the test (--wrap), which does what another thread could
 * have done at that point.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "routing/pool.h"
#include "tests/support/pool_check.h"
#include "tests/support/resume_find.h"

#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 5 * POOL_LOOK_WORKERS + 4, SKILLS = 3 * POOL_LOOK_SKILLS + 1 };

static const struct pool_settings settings = {.variance = 4,
                                              .backlog_history = 9,
                                              .unskilled_score = 1,
                                              .max_classes = 1000,
                                              .max_waiting = 5};

struct stage {
    struct pool *pool;
    struct worker *workers[WORKERS];
    struct list released;
    void (*meanwhile)(struct stage *s, unsigned unlocks); /* or NULL */
    unsigned unlocks;
    bool inside; /* what is done meanwhile has unlocks of its own */
    unsigned seed;
    struct pool_pick pick;
};

static struct stage *now; /* the test that runs */

void __real_pool_let_in(struct pool *p);
void __wrap_pool_let_in(struct pool *p);

void __wrap_pool_let_in(struct pool *p)
{
    __real_pool_let_in(p);
    if (now != NULL && now->meanwhile != NULL && !now->inside) {
        now->inside = true;
        now->meanwhile(now, ++now->unlocks);
        now->inside = false;
    }
}

static void resume_of(struct stage *s, struct worker *w, size_t skills, const char *version)
{
    struct resume r = {0};
    char name[32];

    for (size_t i = 0; i < skills; ++i) {
        snprintf(name, sizeof(name), "class-%zu", i);
        resume_push(&r, slice_of(name), (double)(i + 1));
    }
    pool_new_resume(s->pool, w, &r, version, "", &s->released);
    resume_fini(&r);
}

static struct worker *make_worker(int i)
{
    char name[32];

    snprintf(name, sizeof(name), "worker-%d", i);
    return worker_create(&(struct worker_options){
        .name = slice_of(name), .instance = SLICE_LIT("life"), .concurrency = 1});
}

static void start(struct stage *s, int n, size_t skills)
{
    *s = (struct stage){.pool = pool_create(&settings, "")};
    list_init(&s->released);
    for (int i = 0; i < WORKERS; ++i)
        s->workers[i] = make_worker(i);
    for (int i = 0; i < n; ++i)
        resume_of(s, s->workers[i], skills, "1");
    now = s;
}

static void end(struct stage *s)
{
    s->meanwhile = NULL;
    now = NULL;
    pool_check(s->pool);
    for (int i = 0; i < WORKERS; ++i)
        pool_remove(s->pool, s->workers[i], &s->released);
    if (s->pick.worker != NULL)
        pool_put(s->pool, &s->pick, NULL, &s->released);
    for (int i = 0; i < WORKERS; ++i)
        worker_unref(s->workers[i]);
    pool_destroy(s->pool);
}

/* How often W is in V. */
static unsigned times(const struct pool_view *v, const struct worker *w)
{
    unsigned n = 0;

    for (size_t i = 0; i < v->n + v->ndetached; ++i)
        n += v->workers[i].worker == w;
    return n;
}

static void an_idle_pool_looks_the_same_in_pieces_and_at_once(void **state)
{
    struct stage s;
    struct pool_view pieces;
    struct pool_view whole;

    (void)state;
    start(&s, WORKERS, 3);
    pool_set_available(s.pool, s.workers[7], false, &s.released);
    pool_scan(s.pool, true, &pieces);
    pool_view(s.pool, true, &whole);
    assert_int_equal(pieces.n, WORKERS);
    assert_int_equal(pieces.ndetached, 0);
    assert_int_equal(pieces.nactive, whole.nactive);
    assert_int_equal(pieces.classes, 3);
    for (size_t i = 0; i < whole.n; ++i) {
        const struct worker_view *w = &whole.workers[i];

        assert_int_equal(times(&pieces, w->worker), 1);
        for (size_t k = 0; k < pieces.n; ++k) {
            const struct worker_view *p = &pieces.workers[k];

            if (p->worker != w->worker)
                continue;
            assert_string_equal(p->name, w->name);
            assert_string_equal(p->instance, w->instance);
            assert_string_equal(p->version, w->version);
            assert_int_equal(p->active, w->active);
            assert_int_equal(p->available, w->available);
            assert_int_equal(p->nskills, w->nskills);
            assert_int_equal(p->skills.n, 3);
            for (size_t n = 0; n < 3; ++n)
                assert_true(*resume_find(&w->skills, p->skills.rows[n].cls) ==
                            p->skills.rows[n].score);
        }
    }
    pool_view_fini(&whole);
    pool_view_fini(&pieces);
    end(&s);
}

static void a_pool_without_workers_can_be_read(void **state)
{
    struct stage s;
    struct pool_view v;

    (void)state;
    start(&s, 0, 0);
    pool_scan(s.pool, true, &v);
    assert_int_equal(v.n + v.ndetached, 0);
    pool_view_fini(&v);
    end(&s);
}

static void nothing(struct stage *s, unsigned unlocks)
{
    (void)s;
    (void)unlocks;
}

static void pieces_are_as_many_as_the_bound_asks_for(void **state)
{
    struct stage s;
    struct pool_view v;

    (void)state;
    start(&s, WORKERS, 1);
    s.meanwhile = nothing;
    pool_scan(s.pool, false, &v);
    /* The totals, a start for each of two lists, six pieces with members, one without. */
    assert_int_equal(s.unlocks, 1 + 2 + 6 + 1);
    pool_view_fini(&v);
    end(&s);
}

/* Removes the two workers next in the scan, and one that it has already visited. */
static void take_out(struct stage *s, unsigned unlocks)
{
    if (unlocks != 3)
        return;
    pool_remove(s->pool, s->workers[POOL_LOOK_WORKERS], &s->released);
    pool_remove(s->pool, s->workers[POOL_LOOK_WORKERS + 1], &s->released);
    pool_remove(s->pool, s->workers[0], &s->released);
}

static void a_worker_that_leaves_during_a_scan_hides_no_other(void **state)
{
    struct stage s;
    struct pool_view v;

    (void)state;
    start(&s, WORKERS, 1);
    s.meanwhile = take_out;
    pool_scan(s.pool, false, &v);
    assert_int_equal(times(&v, s.workers[0]), 1);
    assert_int_equal(times(&v, s.workers[POOL_LOOK_WORKERS]), 0);
    assert_int_equal(times(&v, s.workers[POOL_LOOK_WORKERS + 1]), 0);
    for (int i = 0; i < WORKERS; ++i) {
        if (i != POOL_LOOK_WORKERS && i != POOL_LOOK_WORKERS + 1)
            assert_int_equal(times(&v, s.workers[i]), 1);
    }
    pool_view_fini(&v);
    end(&s);
}

/* A worker with a request in flight leaves; it is then among those that have left. */
static void leave_in_flight(struct stage *s, unsigned unlocks)
{
    if (unlocks == 4)
        pool_remove(s->pool, s->pick.worker, &s->released);
}

static void a_worker_that_leaves_with_a_request_in_flight_is_reported_once(void **state)
{
    struct stage s;
    struct pool_view v;

    (void)state;
    start(&s, WORKERS, 1);
    struct pool_request r = {.cls = SLICE_LIT("class-0"), .released = &s.released};
    assert_int_equal(pool_get(s.pool, &r, 1, &s.pick), ERR_OK);
    s.meanwhile = leave_in_flight;
    pool_scan(s.pool, false, &v);
    for (int i = 0; i < WORKERS; ++i)
        assert_int_equal(times(&v, s.workers[i]), 1);
    assert_int_equal(v.n + v.ndetached, WORKERS);
    pool_view_fini(&v);
    s.meanwhile = NULL;
    pool_scan(s.pool, false, &v);
    assert_int_equal(v.n, WORKERS - 1);
    assert_int_equal(v.ndetached, 1);
    assert_ptr_equal(v.workers[WORKERS - 1].worker, s.pick.worker);
    pool_view_fini(&v);
    end(&s);
}

/* After each piece, a random worker with an odd number is added, removed or changes its version. */
static void churn(struct stage *s, unsigned unlocks)
{
    (void)unlocks;
    for (int i = 0; i < 5; ++i) {
        s->seed = s->seed * 1103515245u + 12345u;
        struct worker *w = s->workers[(s->seed >> 8) % (WORKERS / 2) * 2 + 1];

        if ((s->seed >> 4) % 3 == 0)
            pool_remove(s->pool, w, &s->released);
        else
            resume_of(s, w, 1, (s->seed >> 5) % 2 != 0 ? "1" : "2");
    }
}

static void a_worker_that_stays_is_reported_once_whatever_others_do(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 100; ++seed) {
        struct stage s;
        struct pool_view v;

        start(&s, WORKERS - 1, 1);
        s.seed = seed;
        s.meanwhile = churn;
        pool_scan(s.pool, true, &v);
        s.meanwhile = NULL;
        for (int i = 0; i < WORKERS - 1; ++i) {
            if (i % 2 == 0)
                assert_int_equal(times(&v, s.workers[i]), 1);
            else
                assert_true(times(&v, s.workers[i]) <= 1);
        }
        assert_null(v.active_version);
        pool_check(s.pool);
        pool_view_fini(&v);
        end(&s);
    }
}

/* The first score goes while others are being copied, so that the last takes its place. */
static void forget_first(struct stage *s, unsigned unlocks)
{
    if (unlocks == 6)
        pool_forget(s->pool, s->workers[0], &SLICE_LIT("class-0"));
}

static void skills_are_of_one_moment_each_class_once(void **state)
{
    struct stage s;
    struct pool_view v;

    (void)state;
    start(&s, 1, SKILLS);
    s.meanwhile = forget_first;
    pool_scan(s.pool, true, &v);
    assert_true(s.unlocks > 6);
    assert_int_equal(v.workers[0].nskills, SKILLS);
    assert_int_equal(v.workers[0].skills.n, SKILLS - 1);
    for (size_t i = 1; i < SKILLS; ++i) {
        char name[32];

        snprintf(name, sizeof(name), "class-%zu", i);
        assert_non_null(resume_find(&v.workers[0].skills, slice_of(name)));
    }
    pool_view_fini(&v);
    end(&s);
}

/* Never two pieces alike. */
static void always_another(struct stage *s, unsigned unlocks)
{
    resume_of(s, s->workers[0], 0, "1");
    resume_of(s, s->workers[0], SKILLS - unlocks % 2, "1");
}

static void constantly_changing_skills_are_copied_all_the_same(void **state)
{
    struct stage s;
    struct pool_view v;

    (void)state;
    start(&s, 1, SKILLS);
    s.meanwhile = always_another;
    pool_scan(s.pool, true, &v);
    assert_true(v.workers[0].skills.n == SKILLS || v.workers[0].skills.n == SKILLS - 1);
    pool_view_fini(&v);
    end(&s);
}

static void the_skills_of_ineligible_workers_are_reported_too(void **state)
{
    struct stage s;
    struct pool_view v;

    (void)state;
    start(&s, 1, SKILLS);
    pool_set_available(s.pool, s.workers[0], false, &s.released);
    pool_scan(s.pool, true, &v);
    assert_false(v.workers[0].active);
    assert_int_equal(v.workers[0].skills.n, SKILLS);
    pool_view_fini(&v);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_pool_looks_the_same_in_pieces_and_at_once),
        cmocka_unit_test(a_pool_without_workers_can_be_read),
        cmocka_unit_test(pieces_are_as_many_as_the_bound_asks_for),
        cmocka_unit_test(a_worker_that_leaves_during_a_scan_hides_no_other),
        cmocka_unit_test(a_worker_that_leaves_with_a_request_in_flight_is_reported_once),
        cmocka_unit_test(a_worker_that_stays_is_reported_once_whatever_others_do),
        cmocka_unit_test(skills_are_of_one_moment_each_class_once),
        cmocka_unit_test(constantly_changing_skills_are_copied_all_the_same),
        cmocka_unit_test(the_skills_of_ineligible_workers_are_reported_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
