/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/pool_fixture.h"

static void start(struct fixture *f, uint64_t seed, int workers)
{
    struct pool_settings s = fixture_settings;

    s.policy = POOL_POLICY_P2C;
    s.seed = seed;
    fixture_start(f, &s);
    for (int i = 0; i < workers; ++i)
        fixture_resume(f, i, "");
}

/* Serves one request of CLS that takes SERVICE_US; returns the number of its worker. */
static int serve(struct fixture *f, const char *cls, uint64_t service_us, bool failed)
{
    struct pool_request r = {.cls = slice_of(cls)};
    struct pool_served how = {.now_us = 1, .service_us = service_us, .failed = failed};
    struct pool_pick pick;

    assert_int_equal(pool_get(f->pool, &r, 1, &pick), ERR_OK);
    int worker = fixture_number(f, pick.worker);
    assert_int_equal(pick.reason, PICK_RANDOM_CHOICE);
    pool_put(f->pool, &pick, &how, NULL);
    pool_check(f->pool);
    return worker;
}

static void two_pools_of_one_seed_choose_the_same(void **state)
{
    struct fixture f;
    struct fixture g;
    bool differed = false;

    (void)state;
    start(&f, 7, 10);
    start(&g, 7, 10);
    for (int i = 0; i < 100; ++i)
        assert_int_equal(serve(&f, "a", 1000, false), serve(&g, "a", 1000, false));
    fixture_end(&g);
    start(&g, 8, 10);
    for (int i = 0; i < 100; ++i)
        differed = differed || serve(&f, "a", 1000, false) != serve(&g, "a", 1000, false);
    assert_true(differed);
    fixture_end(&f);
    fixture_end(&g);
}

static void every_worker_is_chosen(void **state)
{
    struct fixture f;
    int n[FIXTURE_WORKERS] = {0};

    (void)state;
    start(&f, 1, 10);
    for (int i = 0; i < 2000; ++i)
        ++n[serve(&f, "a", 1000, false)];
    for (int i = 0; i < 10; ++i) {
        assert_true(n[i] > 100);
        assert_true(n[i] < 400);
    }
    fixture_end(&f);
}

static void the_one_of_two_with_less_work_gets_the_request(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 1, 2);
    for (int i = 0; i < 20; ++i) {
        (void)serve(&f, "dear", 1000000, false);
        (void)serve(&f, "cheap", 1000, false);
    }
    /* One long request is more than many short ones. */
    int busy = fixture_get(&f, "dear");
    for (int i = 0; i < 20; ++i)
        assert_int_equal(fixture_get(&f, "cheap"), 1 - busy);
    fixture_end(&f);
}

static void fast_errors_do_not_make_a_class_cheap(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 1, 2);
    for (int i = 0; i < 20; ++i)
        (void)serve(&f, "dear", 1000000, false);
    for (int i = 0; i < 20; ++i)
        (void)serve(&f, "cheap", 1000, false);
    for (int i = 0; i < 100; ++i)
        (void)serve(&f, "dear", 10, true);
    int busy = fixture_get(&f, "dear");
    for (int i = 0; i < 20; ++i)
        assert_int_equal(fixture_get(&f, "cheap"), 1 - busy);
    fixture_end(&f);
}

static void requests_of_others_count_as_work(void **state)
{
    struct fixture f;
    struct pool_settings s = fixture_settings;

    (void)state;
    start(&f, 1, 2);
    s.policy = POOL_POLICY_P2C;
    s.backlog_shared = true;
    s.backlog_max_age_ms = 1000;
    pool_set(f.pool, &s);
    worker_report(f.workers[0], 5, 0);
    for (int i = 0; i < 5; ++i)
        assert_int_equal(fixture_get(&f, "a"), 1);
    fixture_end(&f);
}

static void an_excluded_worker_is_not_chosen(void **state)
{
    struct fixture f;
    struct worker *tried[2];

    (void)state;
    start(&f, 3, 4);
    fixture_available(&f, 2, false);
    tried[0] = f.workers[0];
    tried[1] = f.workers[3];
    for (int i = 0; i < 20; ++i) {
        struct pool_request r = {.cls = SLICE_LIT("a"), .excluded = tried, .nexcluded = 2};

        assert_int_equal(pool_get(f.pool, &r, 1, &f.picks[f.npicks]), ERR_OK);
        assert_int_equal(fixture_number(&f, f.picks[f.npicks++].worker), 1);
    }
    fixture_end(&f);
}

static void classes_that_are_dropped_let_their_requests_go(void **state)
{
    struct fixture f;
    struct pool_settings s = fixture_settings;
    char name[16];

    (void)state;
    s.policy = POOL_POLICY_P2C;
    s.max_classes = 10;
    fixture_start(&f, &s);
    fixture_resume(&f, 0, "");
    fixture_resume(&f, 1, "");
    for (int i = 0; i < 60; ++i) {
        snprintf(name, sizeof(name), "c%d", i);
        assert_true(fixture_get(&f, name) >= 0);
    }
    s.max_classes = 2;
    pool_set(f.pool, &s);
    pool_check(f.pool);
    for (size_t i = 0; i < f.npicks; ++i) {
        struct pool_served how = {.now_us = 100, .service_us = 1000};

        pool_put(f.pool, &f.picks[i], &how, NULL);
        pool_check(f.pool);
    }
    f.npicks = 0;
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_pools_of_one_seed_choose_the_same),
        cmocka_unit_test(every_worker_is_chosen),
        cmocka_unit_test(the_one_of_two_with_less_work_gets_the_request),
        cmocka_unit_test(fast_errors_do_not_make_a_class_cheap),
        cmocka_unit_test(requests_of_others_count_as_work),
        cmocka_unit_test(an_excluded_worker_is_not_chosen),
        cmocka_unit_test(classes_that_are_dropped_let_their_requests_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
