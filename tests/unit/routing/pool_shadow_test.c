/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/pool_fixture.h"

enum { WORKERS = 6, REQUESTS = 600, IN_FLIGHT_MAX = 20 };

/* One run: the same requests end at the same times, whichever worker has them. */
struct life {
    struct fixture f;
    int got[REQUESTS];
};

static uint32_t some(uint32_t i)
{
    return (i + 1) * 2654435761u >> 8;
}

static void come_and_go(struct fixture *f, int i)
{
    if (i % 97 == 50)
        fixture_available(f, (i / 97) % WORKERS, false);
    if (i % 97 == 60)
        fixture_available(f, (i / 97) % WORKERS, true);
    if (i % 131 == 40)
        fixture_remove(f, (i / 131) % WORKERS);
    /* It returns while it still has requests in flight: with none it would be a new worker to the
     * shadow, whatever it has in flight there. */
    if (i % 131 == 41)
        fixture_resume(f, (i / 131) % WORKERS, "c3=9");
    if (i % 53 == 20)
        fixture_resume(f, i / 53 % WORKERS == 0 ? 0 : 1, "c1=5 c2=3");
}

static void end_one(struct fixture *f, size_t which)
{
    struct pool_served how = {.now_us = 1, .service_us = 500 + some((uint32_t)which) % 20000};

    if (f->picks[which].worker == NULL)
        return;
    pool_put(f->pool, &f->picks[which], &how, NULL);
    pool_check(f->pool);
}

static void live(struct life *l, const struct pool_settings *s, unsigned concurrency)
{
    fixture_start_with(&l->f, s, concurrency);
    for (int i = 0; i < WORKERS; ++i)
        fixture_resume(&l->f, i, "");
    for (int i = 0; i < REQUESTS; ++i) {
        char cls[16];
        size_t place = (size_t)i % IN_FLIGHT_MAX;

        come_and_go(&l->f, i);
        snprintf(cls, sizeof(cls), "c%u", some((uint32_t)i) % 17);
        struct pool_request r = {.cls = slice_of(cls)};
        end_one(&l->f, place);
        assert_int_equal(pool_get(l->f.pool, &r, 1, &l->f.picks[place]), ERR_OK);
        pool_check(l->f.pool);
        l->got[i] = fixture_number(&l->f, l->f.picks[place].worker);
        if (some((uint32_t)i) % 3 == 0)
            end_one(&l->f, some((uint32_t)i) / 3 % IN_FLIGHT_MAX);
    }
    l->f.npicks = IN_FLIGHT_MAX;
}

static struct pool_shadow_counts counts(struct life *l)
{
    struct pool_view v;

    pool_view(l->f.pool, false, &v);
    struct pool_shadow_counts c = v.shadow;
    pool_view_fini(&v);
    return c;
}

static struct pool_settings settings_of(int policy)
{
    struct pool_settings s = fixture_settings;

    s.policy = (enum pool_policy)policy;
    s.hash_balance_percent = 150;
    s.seed = 3;
    return s;
}

static void a_shadow_of_the_same_policy_never_differs(void **state)
{
    static struct life l;

    (void)state;
    for (int policy = 0; policy < POOL_POLICIES; ++policy) {
        struct pool_settings s = settings_of(policy);

        s.shadowed = true;
        s.shadow = s.policy;
        live(&l, &s, 1);
        struct pool_shadow_counts c = counts(&l);
        assert_int_equal(c.requests, REQUESTS);
        assert_int_equal(c.differed, 0);
        assert_int_equal(c.live_skilled, c.shadow_skilled);
        assert_true(c.live_skilled > 0);
        fixture_end(&l.f);
    }
}

/* Against a pool in which the shadow's policy is obeyed, and one without a shadow. Nothing waits at
 * any worker, so that the end of a request does not depend on the worker that has it. */
static void a_shadow_decides_as_if_it_were_obeyed_and_is_not(void **state)
{
    static struct life shadowed;
    static struct life alone;
    static struct life obeyed;

    (void)state;
    for (int policy = 0; policy < POOL_POLICIES; ++policy) {
        for (int shadow = 0; shadow < POOL_POLICIES; ++shadow) {
            struct pool_settings s = settings_of(policy);
            uint64_t differ = 0;

            live(&alone, &s, IN_FLIGHT_MAX);
            s.shadowed = true;
            s.shadow = (enum pool_policy)shadow;
            live(&shadowed, &s, IN_FLIGHT_MAX);
            s = settings_of(shadow);
            live(&obeyed, &s, IN_FLIGHT_MAX);
            for (int i = 0; i < REQUESTS; ++i)
                differ += alone.got[i] != obeyed.got[i];
            assert_memory_equal(shadowed.got, alone.got, sizeof(alone.got));
            assert_int_equal(counts(&shadowed).requests, REQUESTS);
            assert_int_equal(counts(&shadowed).differed, differ);
            fixture_end(&shadowed.f);
            fixture_end(&alone.f);
            fixture_end(&obeyed.f);
        }
    }
}

static void the_figures_report_what_keeps_a_class_with_few_workers(void **state)
{
    struct fixture f;
    struct pool_settings s = settings_of(POOL_POLICY_ROUND_ROBIN);
    struct pool_view v;

    (void)state;
    s.shadowed = true;
    s.shadow = POOL_POLICY_HASH;
    s.hash_balance_percent = 0;
    fixture_start(&f, &s);
    for (int i = 0; i < FIXTURE_WORKERS; ++i)
        fixture_resume(&f, i, "");
    for (int i = 0; i < 200; ++i) {
        char cls[16];
        struct pool_request r = {.cls = slice_of(cls)};
        struct pool_pick pick;

        snprintf(cls, sizeof(cls), "c%d", i % 20);
        r.cls = slice_of(cls);
        assert_int_equal(pool_get(f.pool, &r, 1, &pick), ERR_OK);
        pool_put(f.pool, &pick, NULL, NULL);
    }
    pool_view(f.pool, false, &v);
    assert_int_equal(v.shadow.requests, 200);
    /* Each class is new once to its worker; in turn, two classes come to each of ten workers. */
    assert_int_equal(v.shadow.shadow_skilled, 180);
    assert_int_equal(v.shadow.live_skilled, 180);
    pool_view_fini(&v);
    for (int i = 0; i < 210; ++i) {
        char cls[16];
        struct pool_request r = {0};
        struct pool_pick pick;

        snprintf(cls, sizeof(cls), "d%d", i % 21);
        r.cls = slice_of(cls);
        assert_int_equal(pool_get(f.pool, &r, 1, &pick), ERR_OK);
        pool_put(f.pool, &pick, NULL, NULL);
    }
    /* 21 classes do not go into 10 turns: each comes to another worker each time. */
    pool_view(f.pool, false, &v);
    assert_int_equal(v.shadow.shadow_skilled, 180 + 189);
    assert_int_equal(v.shadow.live_skilled, 180);
    pool_view_fini(&v);
    fixture_end(&f);
}

static void a_shadow_is_switched_on_and_off_with_requests_in_flight(void **state)
{
    struct fixture f;
    struct pool_settings s = settings_of(POOL_POLICY_RESUME);
    struct pool_view v;

    (void)state;
    fixture_start(&f, &s);
    for (int i = 0; i < 4; ++i)
        fixture_resume(&f, i, "a=5");
    for (int round = 0; round < 12; ++round) {
        s.shadowed = round % 3 != 2;
        s.shadow = (enum pool_policy)(round % POOL_POLICIES);
        pool_set(f.pool, &s);
        pool_check(f.pool);
        for (int i = 0; i < 6; ++i)
            assert_true(fixture_get(&f, i % 2 != 0 ? "a" : "b") >= 0);
        if (round % 4 == 1)
            fixture_remove(&f, 1);
        if (round % 4 == 3)
            fixture_resume(&f, 1, "b=2");
    }
    pool_view(f.pool, false, &v);
    assert_int_equal(v.shadow.requests, 8 * 6);
    pool_view_fini(&v);
    for (int i = 0; i < 4; ++i) {
        while (fixture_backlog(&f, i) != 0 && fixture_backlog(&f, i) != UINT64_MAX)
            fixture_put(&f, i);
    }
    fixture_end(&f);
}

static void a_retry_is_a_retry_for_the_shadow_too(void **state)
{
    struct fixture f;
    struct pool_settings s = settings_of(POOL_POLICY_RESUME);
    struct worker *tried[2];
    struct pool_view v;

    (void)state;
    s.shadowed = true;
    s.shadow = POOL_POLICY_HASH;
    fixture_start(&f, &s);
    for (int i = 0; i < 3; ++i)
        fixture_resume(&f, i, "");
    tried[0] = f.workers[0];
    tried[1] = f.workers[2];
    struct pool_request r = {
        .cls = SLICE_LIT("a"), .excluded = tried, .nexcluded = 2, .retry = true};
    /* Only one is left to either. */
    for (int i = 0; i < 10; ++i)
        assert_int_equal(pool_get(f.pool, &r, 1, &f.picks[f.npicks++]), ERR_OK);
    pool_view(f.pool, false, &v);
    assert_int_equal(v.shadow.requests, 10);
    assert_int_equal(v.shadow.differed, 0);
    pool_view_fini(&v);
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shadow_of_the_same_policy_never_differs),
        cmocka_unit_test(a_shadow_decides_as_if_it_were_obeyed_and_is_not),
        cmocka_unit_test(the_figures_report_what_keeps_a_class_with_few_workers),
        cmocka_unit_test(a_shadow_is_switched_on_and_off_with_requests_in_flight),
        cmocka_unit_test(a_retry_is_a_retry_for_the_shadow_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
