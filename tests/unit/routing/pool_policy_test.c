/* SPDX-License-Identifier: Apache-2.0
 *
 * Common properties of all policies: explanations without effect, changes while requests are in
 * flight.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/pool_fixture.h"

static struct pool_settings settings_of(int policy)
{
    struct pool_settings s = fixture_settings;

    s.policy = (enum pool_policy)policy;
    s.hash_balance_percent = 150;
    s.seed = 5;
    return s;
}

static void class_of(int i, char *out, size_t room)
{
    snprintf(out, room, "c%d", (i * 7) % 13);
}

static void round_robin_gives_each_its_turn(void **state)
{
    struct fixture f;
    struct pool_settings s = settings_of(POOL_POLICY_ROUND_ROBIN);

    (void)state;
    fixture_start(&f, &s);
    for (int i = 0; i < 4; ++i)
        fixture_resume(&f, i, "a=9");
    int first[4];
    for (int i = 0; i < 4; ++i)
        first[i] = fixture_get(&f, "a");
    for (int i = 0; i < 40; ++i) {
        assert_int_equal(fixture_get(&f, "a"), first[i % 4]);
        assert_int_equal(fixture_latest(&f)->reason, PICK_ROUND_ROBIN);
    }
    fixture_end(&f);
}

static void least_backlog_is_classless_by_another_name(void **state)
{
    struct fixture f[2];

    (void)state;
    for (int k = 0; k < 2; ++k) {
        struct pool_settings s =
            settings_of(k == 0 ? POOL_POLICY_CLASSLESS : POOL_POLICY_LEAST_BACKLOG);

        fixture_start(&f[k], &s);
        for (int i = 0; i < 5; ++i)
            fixture_resume(&f[k], i, "");
    }
    for (int i = 0; i < 60; ++i) {
        char cls[16];

        class_of(i, cls, sizeof(cls));
        assert_int_equal(fixture_get(&f[0], cls), fixture_get(&f[1], cls));
        if (i % 3 == 0) {
            fixture_put(&f[0], fixture_number(&f[0], fixture_latest(&f[0])->worker));
            fixture_put(&f[1], fixture_number(&f[1], fixture_latest(&f[1])->worker));
        }
    }
    fixture_end(&f[0]);
    fixture_end(&f[1]);
}

/* Two pools, of which one is asked to explain before each request: they decide the same, and the
 * explanation names the worker that then gets it. */
static void an_explanation_foretells_the_pick_and_changes_nothing(void **state)
{
    (void)state;
    for (int policy = 0; policy < POOL_POLICIES; ++policy) {
        struct fixture f;
        struct fixture g;
        struct pool_settings s = settings_of(policy);

        fixture_start(&f, &s);
        fixture_start(&g, &s);
        for (int i = 0; i < 6; ++i) {
            fixture_resume(&f, i, "c1=5 c2=3");
            fixture_resume(&g, i, "c1=5 c2=3");
        }
        for (int i = 0; i < 90; ++i) {
            char cls[16];
            struct pool_explain e;

            class_of(i, cls, sizeof(cls));
            struct pool_request r = {.cls = slice_of(cls)};
            for (int k = 0; k < i % 3; ++k) {
                pool_explain(f.pool, &r, f.npicks + 1, &e);
                pool_explain_fini(&e);
            }
            pool_explain(f.pool, &r, f.npicks + 1, &e);
            pool_check(f.pool);
            int got = fixture_get(&f, cls);
            assert_int_equal(fixture_get(&g, cls), got);
            assert_ptr_equal(e.worker, f.workers[got]);
            assert_int_equal(e.reason, fixture_latest(&f)->reason);
            assert_string_equal(e.policy, pool_policy_text(s.policy));
            assert_int_equal(e.workers, 6);
            assert_true(e.nsteps >= 1);
            /* Only the selected worker has no reason for not being selected. */
            for (size_t k = 0; k < e.ncandidates; ++k)
                assert_int_equal(e.candidates[k].worker == e.worker, e.candidates[k].why == NULL);
            pool_explain_fini(&e);
            if (i % 4 == 0) {
                fixture_put(&f, got);
                fixture_put(&g, got);
            }
        }
        fixture_end(&f);
        fixture_end(&g);
    }
}

static void an_explanation_keeps_within_its_room(void **state)
{
    enum { WORKERS = EXPLAIN_CANDIDATES_MAX + 8 };
    struct pool_settings s = settings_of(POOL_POLICY_RESUME);
    struct pool *p = pool_create(&s, "");
    struct worker *workers[WORKERS];
    struct resume r = {0};
    struct pool_explain e;

    (void)state;
    for (int i = 0; i < WORKERS; ++i) {
        struct worker_options o = {.name = SLICE_LIT("w"), .concurrency = 1};

        workers[i] = worker_create(&o);
        resume_push(&r, SLICE_LIT("a"), 1 + i);
        pool_new_resume(p, workers[i], &r, "", "", NULL);
        resume_fini(&r);
    }
    struct pool_request asked = {.cls = SLICE_LIT("a")};
    pool_explain(p, &asked, 1, &e);
    assert_int_equal(e.ncandidates, EXPLAIN_CANDIDATES_MAX);
    assert_int_equal(e.considered, WORKERS);
    assert_ptr_equal(e.worker, workers[WORKERS - 1]);
    /* The last of all that were considered, and there all the same. */
    assert_ptr_equal(e.candidates[EXPLAIN_CANDIDATES_MAX - 1].worker, e.worker);
    pool_explain_fini(&e);
    for (int i = 0; i < WORKERS; ++i) {
        pool_remove(p, workers[i], NULL);
        worker_unref(workers[i]);
    }
    pool_explain(p, &asked, 1, &e);
    assert_null(e.worker);
    assert_int_equal(e.ncandidates, 0);
    pool_explain_fini(&e);
    pool_destroy(p);
}

static void any_policy_follows_any_other_with_requests_in_flight(void **state)
{
    (void)state;
    for (int from = 0; from < POOL_POLICIES; ++from) {
        for (int to = 0; to < POOL_POLICIES; ++to) {
            struct fixture f;
            struct pool_settings s = settings_of(from);
            char cls[16];

            fixture_start(&f, &s);
            for (int i = 0; i < 5; ++i)
                fixture_resume(&f, i, "c1=5 c2=3");
            for (int i = 0; i < 20; ++i) {
                class_of(i, cls, sizeof(cls));
                assert_true(fixture_get(&f, cls) >= 0);
            }
            fixture_available(&f, 1, false);
            fixture_remove(&f, 2);
            s = settings_of(to);
            pool_set(f.pool, &s);
            pool_check(f.pool);
            /* It comes back while its requests of the other policy are in flight. */
            fixture_resume(&f, 2, "c3=1");
            fixture_available(&f, 1, true);
            for (int i = 0; i < 20; ++i) {
                class_of(i, cls, sizeof(cls));
                assert_true(fixture_get(&f, cls) >= 0);
            }
            for (int i = 0; i < 5; ++i) {
                while (fixture_backlog(&f, i) != 0)
                    fixture_put(&f, i);
            }
            assert_true(fixture_get(&f, "c1") >= 0);
            fixture_end(&f);
        }
    }
}

/* As what leaves out workers that are full of tunnels. */
struct unfit {
    struct fixture *f;
    unsigned numbers; /* bits */
};

static bool is_unfit(void *context, const struct worker *w)
{
    const struct unfit *u = context;

    return (u->numbers >> fixture_number(u->f, w) & 1) != 0;
}

/* Two pools, of which one is asked in vain, too: both give the same class to the same worker. */
static void an_unfit_worker_is_not_picked_and_a_failed_pick_changes_nothing(void **state)
{
    enum { WORKERS = 6 };

    (void)state;
    for (int policy = 0; policy < POOL_POLICIES; ++policy) {
        struct fixture f;
        struct fixture g;
        struct pool_settings s = settings_of(policy);
        struct unfit u = {.f = &f};

        fixture_start(&f, &s);
        fixture_start(&g, &s);
        for (int i = 0; i < WORKERS; ++i) {
            fixture_resume(&f, i, "c1=5 c2=3");
            fixture_resume(&g, i, "c1=5 c2=3");
        }
        for (int i = 0; i < 80; ++i) {
            char cls[16];
            struct pool_pick pick;

            class_of(i, cls, sizeof(cls));
            struct pool_request r = {.cls = slice_of(cls), .unfit = is_unfit, .unfit_context = &u};
            u.numbers = (1u << WORKERS) - 1;
            assert_int_equal(pool_get(f.pool, &r, f.npicks + 1, &pick), ERR_NO_WORKER);
            pool_check(f.pool);
            int got = fixture_get(&f, cls);
            assert_int_equal(fixture_get(&g, cls), got);
            if (i % 4 == 0) {
                fixture_put(&f, got);
                fixture_put(&g, got);
            }
        }
        for (unsigned left = 0; left < WORKERS; ++left) {
            struct pool_pick pick;
            struct pool_request r = {
                .cls = SLICE_LIT("c1"), .unfit = is_unfit, .unfit_context = &u};

            u.numbers = ((1u << WORKERS) - 1) & ~(1u << left);
            assert_int_equal(pool_get(f.pool, &r, f.npicks + 1, &pick), ERR_OK);
            assert_int_equal(fixture_number(&f, pick.worker), left);
            pool_put(f.pool, &pick, NULL, &f.released);
        }
        fixture_end(&f);
        fixture_end(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_robin_gives_each_its_turn),
        cmocka_unit_test(least_backlog_is_classless_by_another_name),
        cmocka_unit_test(an_explanation_foretells_the_pick_and_changes_nothing),
        cmocka_unit_test(an_explanation_keeps_within_its_room),
        cmocka_unit_test(an_unfit_worker_is_not_picked_and_a_failed_pick_changes_nothing),
        cmocka_unit_test(any_policy_follows_any_other_with_requests_in_flight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
