/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of other load balancers in flight at the workers: where they count, where not, and how
 * long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/pool_fixture.h"

enum { MAX_AGE_MS = 2000 };

static struct pool_settings shared_settings(enum pool_policy policy)
{
    struct pool_settings s = fixture_settings;

    s.policy = policy;
    s.backlog_shared = true;
    s.backlog_max_age_ms = MAX_AGE_MS;
    return s;
}

static void start(struct fixture *f, enum pool_policy policy)
{
    struct pool_settings s = shared_settings(policy);

    fixture_start(f, &s);
}

/* As fixture_get, at a time of the test's. */
static int get_at(struct fixture *f, const char *cls, uint64_t now_ms)
{
    struct pool_request r = {.cls = slice_of(cls)};
    struct pool_pick *pick = &f->picks[f->npicks++];

    assert_int_equal(pool_get(f->pool, &r, now_ms * 1000, pick), ERR_OK);
    pool_check(f->pool);
    return fixture_number(f, pick->worker);
}

/* The worker that would get a request; the request ends at once. */
static int ask_at(struct fixture *f, const char *cls, uint64_t now_ms)
{
    int worker = get_at(f, cls, now_ms);

    pool_put(f->pool, &f->picks[--f->npicks], NULL, &f->released);
    return worker;
}

static uint64_t others_at(struct fixture *f, int worker, uint64_t now_ms)
{
    struct pool_view v;
    uint64_t others = UINT64_MAX;

    pool_view(f->pool, false, &v);
    for (size_t i = 0; i < v.n; ++i) {
        if (v.workers[i].worker == f->workers[worker])
            others = pool_view_others(&v, &v.workers[i], now_ms);
    }
    pool_view_fini(&v);
    return others;
}

static void requests_of_others_divide_a_score_as_our_own_do(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    fixture_resume(&f, 0, "a=10");
    fixture_resume(&f, 1, "a=6");
    /* One request in flight is free, be it ours or another's. */
    worker_report(f.workers[0], 1, 1);
    assert_int_equal(ask_at(&f, "a", 1), 0);
    /* 10 / 2 < 6 */
    worker_report(f.workers[0], 2, 1);
    assert_int_equal(ask_at(&f, "a", 1), 1);
    fixture_end(&f);
}

static void ours_and_others_divide_together(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    fixture_resume(&f, 0, "a=10");
    fixture_resume(&f, 1, "a=4");
    assert_int_equal(get_at(&f, "a", 1), 0);
    /* 10 / 2, then with another's 10 / 3 < 4. */
    assert_int_equal(ask_at(&f, "a", 1), 0);
    worker_report(f.workers[0], 3, 1);
    assert_int_equal(others_at(&f, 0, 1), 2);
    assert_int_equal(ask_at(&f, "a", 1), 1);
    fixture_end(&f);
}

static void a_worker_with_too_many_requests_of_others_is_passed_over(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    fixture_resume(&f, 0, "a=1000");
    fixture_resume(&f, 1, "");
    /* No worker has had a request: the cutoff is 1 above the front's mean and 1. */
    worker_report(f.workers[0], 2, 1);
    assert_int_equal(get_at(&f, "a", 1), 0);
    fixture_put(&f, 0);
    worker_report(f.workers[0], 9, 1);
    assert_int_equal(get_at(&f, "a", 1), 1);
    assert_int_equal(fixture_latest(&f)->reason, PICK_OVERFLOW);
    assert_int_equal(fixture_latest(&f)->skipped, 1);
    fixture_end(&f);
}

static void requests_of_others_at_the_front_raise_the_bound_for_all(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    fixture_resume(&f, 0, "a=1000");
    fixture_resume(&f, 1, "");
    worker_report(f.workers[0], 9, 1);
    worker_report(f.workers[1], 8, 1);
    assert_int_equal(get_at(&f, "a", 1), 0);
    assert_true(fixture_latest(&f)->min_backlog == 9);
    assert_true(fixture_latest(&f)->max_backlog == 1);
    fixture_end(&f);
}

/* Two pools with the same requests at the same workers, one with reports. */
static void requests_of_others_enter_no_mean(void **state)
{
    struct fixture f[2];
    struct pool_view v[2];

    (void)state;
    for (int i = 0; i < 2; ++i) {
        start(&f[i], POOL_POLICY_RESUME);
        fixture_resume(&f[i], 0, "a=1");
        for (uint64_t now_ms = 1; now_ms < 20; ++now_ms) {
            if (i == 1)
                worker_report(f[i].workers[0], 100 + now_ms, now_ms);
            get_at(&f[i], "a", now_ms);
            if (now_ms % 3 != 0)
                fixture_put(&f[i], 0);
        }
        pool_view(f[i].pool, false, &v[i]);
    }
    assert_true(pool_view_others(&v[1], &v[1].workers[0], 20) > 100);
    assert_int_equal(v[0].workers[0].backlog, v[1].workers[0].backlog);
    assert_true(f[0].workers[0]->mean.sum == f[1].workers[0]->mean.sum);
    assert_true(v[0].workers[0].mean_backlog == v[1].workers[0].mean_backlog);
    assert_true(f[0].pool->mean.sum == f[1].pool->mean.sum);
    assert_true(v[0].mean_backlog == v[1].mean_backlog);
    assert_true(v[0].max_backlog == v[1].max_backlog);
    for (int i = 0; i < 2; ++i) {
        pool_view_fini(&v[i]);
        fixture_end(&f[i]);
    }
}

static void a_report_counts_until_it_is_backlog_max_age_old(void **state)
{
    static const uint64_t times_ms[] = {0, 1, 1999, 2000, 123456789};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(times_ms); ++i) {
        uint64_t at_ms = times_ms[i];
        struct fixture f;

        start(&f, POOL_POLICY_RESUME);
        fixture_resume(&f, 0, "a=10");
        fixture_resume(&f, 1, "a=6");
        worker_report(f.workers[0], 2, at_ms);
        assert_int_equal(others_at(&f, 0, at_ms + MAX_AGE_MS - 1), 2);
        assert_int_equal(ask_at(&f, "a", at_ms + MAX_AGE_MS - 1), 1);
        assert_int_equal(others_at(&f, 0, at_ms + MAX_AGE_MS), 0);
        assert_int_equal(ask_at(&f, "a", at_ms + MAX_AGE_MS), 0);
        fixture_end(&f);
    }
}

static void loops_whose_clocks_differ_a_little_agree(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    fixture_resume(&f, 0, "a=10");
    fixture_resume(&f, 1, "a=6");
    worker_report(f.workers[0], 2, 5001);
    assert_int_equal(ask_at(&f, "a", 5000), 1);
    fixture_end(&f);
}

static void requests_of_others_are_the_report_without_our_own_at_the_response(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    fixture_resume(&f, 0, "a=10");
    for (int i = 0; i < 3; ++i)
        assert_int_equal(get_at(&f, "a", 1), 0);
    worker_report(f.workers[0], 5, 1);
    assert_int_equal(others_at(&f, 0, 1), 2);
    /* Ours that come and go afterwards change nothing of it. */
    fixture_put(&f, 0);
    fixture_put(&f, 0);
    assert_int_equal(others_at(&f, 0, 1), 2);
    get_at(&f, "a", 1);
    assert_int_equal(others_at(&f, 0, 1), 2);
    /* What we have on the way to it is not in its total yet: not less than none. */
    worker_report(f.workers[0], 1, 1);
    assert_int_equal(others_at(&f, 0, 1), 0);
    worker_report(f.workers[0], 0, 1);
    assert_int_equal(others_at(&f, 0, 1), 0);
    worker_report(f.workers[0], WORKER_REPORT_MAX, 1);
    assert_int_equal(others_at(&f, 0, 1), WORKER_REPORT_MAX - 2);
    fixture_end(&f);
}

static void reports_do_not_count_when_they_are_switched_off(void **state)
{
    struct pool_settings s = shared_settings(POOL_POLICY_RESUME);
    struct fixture f;

    (void)state;
    fixture_start(&f, &s);
    fixture_resume(&f, 0, "a=10");
    fixture_resume(&f, 1, "a=6");
    worker_report(f.workers[0], 5, 1);
    assert_int_equal(ask_at(&f, "a", 1), 1);
    s.backlog_shared = false;
    pool_set(f.pool, &s);
    assert_int_equal(others_at(&f, 0, 1), 0);
    assert_int_equal(ask_at(&f, "a", 1), 0);
    s.policy = POOL_POLICY_CLASSLESS;
    pool_set(f.pool, &s);
    assert_int_equal(ask_at(&f, "a", 1), 1);
    assert_int_equal(ask_at(&f, "a", 1), 0);
    fixture_end(&f);
}

static void classless_takes_the_least_of_all_that_is_in_flight(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_CLASSLESS);
    for (int i = 0; i < 3; ++i)
        fixture_resume(&f, i, "");
    worker_report(f.workers[2], 3, 1);
    worker_report(f.workers[1], 1, 1);
    assert_int_equal(get_at(&f, "a", 1), 0);
    assert_int_equal(get_at(&f, "a", 1), 1);
    assert_int_equal(get_at(&f, "a", 1), 0);
    assert_int_equal(get_at(&f, "a", 1), 1);
    /* 0: 2 of ours, 1: 2 and 1, 2: 3 of others'. */
    assert_int_equal(get_at(&f, "a", 1), 0);
    assert_int_equal(get_at(&f, "a", 1), 2);
    fixture_end(&f);
}

static void a_worker_that_returns_has_no_report(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    fixture_resume(&f, 0, "a=10");
    get_at(&f, "a", 1);
    worker_report(f.workers[0], 8, 1);
    fixture_remove(&f, 0);
    fixture_resume(&f, 0, "a=10");
    assert_int_equal(fixture_backlog(&f, 0), 1);
    assert_int_equal(others_at(&f, 0, 1), 0);
    fixture_end(&f);
}

static void the_active_version_and_its_line_do_not_depend_on_reports(void **state)
{
    struct pool_settings s = shared_settings(POOL_POLICY_RESUME);
    struct fixture f;

    (void)state;
    s.single_version = true;
    fixture_start(&f, &s);
    fixture_resume_of(&f, 0, "blue", "a=1");
    fixture_resume_of(&f, 1, "blue", "");
    fixture_resume_of(&f, 2, "green", "a=99");
    worker_report(f.workers[0], 50, 1);
    worker_report(f.workers[1], 70, 1);
    assert_string_equal(fixture_eligible(&f), "1 0");
    assert_int_equal(ask_at(&f, "a", 1), 0);
    assert_string_equal(fixture_eligible(&f), "1 0");
    fixture_end(&f);
}

/* ---- what a worker rejected ---- */

static void a_worker_that_rejected_a_request_is_spared_for_a_while(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    fixture_resume(&f, 0, "a=1000");
    fixture_resume(&f, 1, "");
    worker_declined(f.workers[0], 1000);
    assert_int_equal(ask_at(&f, "a", 1000), 1);
    assert_int_equal(ask_at(&f, "a", 1000 + WORKER_REJECTION_MS - 1), 1);
    assert_int_equal(ask_at(&f, "new", 1000 + WORKER_REJECTION_MS - 1), 1);
    assert_int_equal(ask_at(&f, "a", 1000 + WORKER_REJECTION_MS), 0);
    fixture_end(&f);
}

static void the_next_response_of_a_spared_worker_ends_the_pause(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    fixture_resume(&f, 0, "a=1000");
    fixture_resume(&f, 1, "");
    worker_declined(f.workers[0], 1000);
    assert_int_equal(get_at(&f, "a", 1000), 1);
    assert_int_equal(fixture_latest(&f)->reason, PICK_OVERFLOW);
    assert_int_equal(fixture_latest(&f)->skipped, 1);
    worker_responded(f.workers[0]);
    assert_int_equal(get_at(&f, "a", 1000), 0);
    assert_int_equal(fixture_latest(&f)->reason, PICK_SKILLED);
    fixture_end(&f);
}

static void workers_are_not_spared_when_all_have_rejected_a_request(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    fixture_resume(&f, 0, "a=10");
    fixture_resume(&f, 1, "b=10");
    for (int i = 0; i < 2; ++i)
        worker_declined(f.workers[i], 1000);
    assert_int_equal(get_at(&f, "a", 1000), 0);
    assert_int_equal(get_at(&f, "b", 1000), 1);
    fixture_end(&f);
}

static void without_classes_one_that_rejected_is_spared_too(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_CLASSLESS);
    for (int i = 0; i < 2; ++i)
        fixture_resume(&f, i, "");
    worker_declined(f.workers[0], 1000);
    for (int i = 0; i < 3; ++i)
        assert_int_equal(get_at(&f, "a", 1000), 1);
    worker_responded(f.workers[0]);
    assert_int_equal(get_at(&f, "a", 1000), 0);
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_of_others_divide_a_score_as_our_own_do),
        cmocka_unit_test(ours_and_others_divide_together),
        cmocka_unit_test(a_worker_with_too_many_requests_of_others_is_passed_over),
        cmocka_unit_test(requests_of_others_at_the_front_raise_the_bound_for_all),
        cmocka_unit_test(requests_of_others_enter_no_mean),
        cmocka_unit_test(a_report_counts_until_it_is_backlog_max_age_old),
        cmocka_unit_test(loops_whose_clocks_differ_a_little_agree),
        cmocka_unit_test(requests_of_others_are_the_report_without_our_own_at_the_response),
        cmocka_unit_test(reports_do_not_count_when_they_are_switched_off),
        cmocka_unit_test(classless_takes_the_least_of_all_that_is_in_flight),
        cmocka_unit_test(a_worker_that_returns_has_no_report),
        cmocka_unit_test(a_worker_that_rejected_a_request_is_spared_for_a_while),
        cmocka_unit_test(the_next_response_of_a_spared_worker_ends_the_pause),
        cmocka_unit_test(workers_are_not_spared_when_all_have_rejected_a_request),
        cmocka_unit_test(without_classes_one_that_rejected_is_spared_too),
        cmocka_unit_test(the_active_version_and_its_line_do_not_depend_on_reports),
    };

    return cmocka_run_group_tests_name("pool_backlog", tests, NULL, NULL);
}
