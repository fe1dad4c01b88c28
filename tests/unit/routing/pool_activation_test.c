/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/pool_fixture.h"

static struct pool_settings activation_settings(enum pool_policy policy)
{
    struct pool_settings s = fixture_settings;

    s.policy = policy;
    s.spawn_backlog = 2;
    s.backlog_shared = true;
    s.backlog_max_age_ms = 2000;
    return s;
}

static void start(struct fixture *f, enum pool_policy policy)
{
    struct pool_settings s = activation_settings(policy);

    fixture_start(f, &s);
}

/* Adds N warm workers, each skilled at class "a" and with BACKLOG requests in flight. */
static void load(struct fixture *f, int n, int backlog)
{
    for (int i = 0; i < n; ++i)
        fixture_resume(f, i, "a=10");
    for (int i = 0; i < n * backlog; ++i)
        assert_in_range(fixture_get(f, "a"), 0, n - 1);
    for (int i = 0; i < n; ++i)
        assert_int_equal(fixture_backlog(f, i), backlog);
}

static bool overloaded(struct fixture *f, uint64_t now_ms, uint64_t expected_ms)
{
    uint64_t for_ms = 1;
    bool is = pool_overloaded(f->pool, now_ms, &for_ms);

    assert_int_equal(for_ms, expected_ms);
    return is;
}

static void the_pool_is_overloaded_if_each_worker_exceeds_spawn_backlog(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    load(&f, 3, 2);
    assert_false(overloaded(&f, 100, 0));
    for (int i = 0; i < 2; ++i)
        fixture_get(&f, "a");
    assert_false(overloaded(&f, 200, 0));
    fixture_get(&f, "a");
    assert_true(overloaded(&f, 300, 0));
    assert_true(overloaded(&f, 350, 50));
    assert_true(overloaded(&f, 1300, 1000));
    /* One check that finds a worker with less restarts the period. */
    fixture_put(&f, 1);
    assert_false(overloaded(&f, 1400, 0));
    fixture_get(&f, "a");
    assert_true(overloaded(&f, 1500, 0));
    assert_true(overloaded(&f, 1700, 200));
    pool_overload_forget(f.pool);
    assert_true(overloaded(&f, 1800, 0));
    fixture_end(&f);
}

static void a_worker_that_serves_several_at_once_may_have_so_many_for_each(void **state)
{
    struct pool_settings s = activation_settings(POOL_POLICY_CLASSLESS);
    struct pool *p = pool_create(&s, "");
    struct worker_options o = {
        .name = SLICE_LIT("w"), .instance = SLICE_LIT("i"), .concurrency = 4};
    struct worker *w = worker_create(&o);
    struct resume none = {0};
    struct pool_pick picks[9];
    uint64_t for_ms = 0;

    (void)state;
    pool_new_resume(p, w, &none, "", "", NULL);
    for (size_t i = 0; i < ARRAY_LEN(picks); ++i) {
        struct pool_request r = {.cls = SLICE_LIT("a")};

        assert_false(pool_overloaded(p, i, &for_ms));
        assert_int_equal(pool_get(p, &r, i, &picks[i]), ERR_OK);
    }
    assert_true(pool_overloaded(p, 10, &for_ms));
    for (size_t i = 0; i < ARRAY_LEN(picks); ++i)
        pool_put(p, &picks[i], NULL, NULL);
    pool_remove(p, w, NULL);
    worker_unref(w);
    pool_destroy(p);
}

static void requests_of_others_count_until_their_report_is_old(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    load(&f, 2, 2);
    worker_report(f.workers[0], 3, 5000);
    worker_report(f.workers[1], 3, 5000);
    assert_true(overloaded(&f, 5000, 0));
    assert_true(overloaded(&f, 6999, 1999));
    assert_false(overloaded(&f, 7000, 0));
    fixture_end(&f);
}

static void the_pool_is_never_overloaded_with_spawn_backlog_off(void **state)
{
    struct pool_settings s = activation_settings(POOL_POLICY_RESUME);
    struct fixture f;

    (void)state;
    s.spawn_backlog = 0;
    fixture_start(&f, &s);
    load(&f, 1, 9);
    assert_false(overloaded(&f, 1, 0));
    fixture_resume(&f, 1, "");
    pool_activate(f.pool, f.workers[1], POOL_ACTIVATION_WAKE, &f.released);
    assert_int_equal(fixture_get(&f, "a"), 0);
    fixture_end(&f);
}

static void ineligible_workers_do_not_count_for_overload(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    load(&f, 1, 3);
    fixture_resume(&f, 1, "");
    assert_false(overloaded(&f, 1, 0));
    fixture_available(&f, 1, false);
    assert_true(overloaded(&f, 2, 0));
    fixture_remove(&f, 1);
    assert_true(overloaded(&f, 3, 1));
    fixture_end(&f);
}

static void
one_that_is_to_be_woken_gets_one_request_that_would_go_to_an_overloaded_one(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    load(&f, 2, 3);
    fixture_resume(&f, 5, "a=1");
    pool_activate(f.pool, f.workers[5], POOL_ACTIVATION_WAKE, &f.released);
    pool_check(f.pool);
    /* The new worker itself does not count as a sign that the load has fallen. */
    assert_true(overloaded(&f, 1, 0));
    assert_false(pool_woke(f.pool, f.workers[5]));
    assert_int_equal(fixture_get(&f, "a"), 5);
    assert_int_equal(fixture_latest(&f)->reason, PICK_ACTIVATED);
    assert_true(pool_woke(f.pool, f.workers[5]));
    assert_true(overloaded(&f, 2, 1));
    /* The rest go to other workers, even if its request was aborted. */
    assert_in_range(fixture_get(&f, "a"), 0, 1);
    assert_int_equal(fixture_latest(&f)->reason, PICK_SKILLED);
    assert_in_range(fixture_get(&f, "new"), 0, 1);
    fixture_put(&f, 5);
    assert_in_range(fixture_get(&f, "a"), 0, 1);
    pool_activate(f.pool, f.workers[5], POOL_ACTIVATION_NONE, &f.released);
    assert_false(pool_woke(f.pool, f.workers[5]));
    assert_int_equal(fixture_get(&f, "other"), 5);
    fixture_end(&f);
}

static void a_dormant_worker_is_not_woken_while_another_has_room(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    load(&f, 2, 2);
    fixture_resume(&f, 5, "");
    pool_activate(f.pool, f.workers[5], POOL_ACTIVATION_WAKE, &f.released);
    for (int i = 0; i < 2; ++i) {
        assert_in_range(fixture_get(&f, "a"), 0, 1);
        assert_false(pool_woke(f.pool, f.workers[5]));
    }
    assert_int_equal(fixture_get(&f, "a"), 5);
    fixture_end(&f);
}

static void an_excluded_dormant_worker_is_not_woken_by_that_request(void **state)
{
    struct fixture f;
    struct pool_pick pick;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    load(&f, 1, 3);
    fixture_resume(&f, 5, "");
    pool_activate(f.pool, f.workers[5], POOL_ACTIVATION_WAKE, &f.released);
    struct pool_request r = {
        .cls = SLICE_LIT("a"), .excluded = &f.workers[5], .nexcluded = 1, .retry = true};
    assert_int_equal(pool_get(f.pool, &r, 1, &pick), ERR_OK);
    assert_ptr_equal(pick.worker, f.workers[0]);
    assert_false(pool_woke(f.pool, f.workers[5]));
    pool_put(f.pool, &pick, NULL, &f.released);
    fixture_end(&f);
}

static void a_new_process_takes_what_the_others_have_too_much_of(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    load(&f, 2, 6);
    fixture_resume(&f, 5, "");
    /* The rule alone leaves it without: all are overloaded alike, and none knows it for "a". */
    assert_in_range(fixture_get(&f, "a"), 0, 1);
    pool_activate(f.pool, f.workers[5], POOL_ACTIVATION_RELIEVE, &f.released);
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(fixture_get(&f, "a"), 5);
        assert_int_equal(fixture_latest(&f)->reason, PICK_ACTIVATED);
    }
    assert_true(fixture_score(&f, 5, "a") == 1);
    /* It has enough: the policy selects again, and the next worker may be activated. */
    assert_in_range(fixture_get(&f, "a"), 0, 1);
    assert_true(overloaded(&f, 1, 0));
    fixture_put(&f, 5);
    assert_false(overloaded(&f, 2, 0));
    assert_int_equal(fixture_get(&f, "a"), 5);
    fixture_end(&f);
}

static void the_first_skills_of_a_relieving_worker_end_its_priority(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    load(&f, 1, 6);
    fixture_resume(&f, 5, "");
    pool_activate(f.pool, f.workers[5], POOL_ACTIVATION_RELIEVE, &f.released);
    fixture_resume(&f, 5, "");
    assert_int_equal(fixture_get(&f, "a"), 5);
    fixture_resume(&f, 5, "b=3");
    assert_int_equal(fixture_get(&f, "a"), 0);
    assert_int_equal(fixture_get(&f, "b"), 5);
    /* A worker that starts with skills competes by them from the start. */
    fixture_resume(&f, 6, "c=3");
    pool_activate(f.pool, f.workers[6], POOL_ACTIVATION_RELIEVE, &f.released);
    assert_int_equal(fixture_get(&f, "a"), 0);
    fixture_end(&f);
}

static void relieving_workers_take_turns(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    load(&f, 1, 6);
    for (int i = 5; i < 8; ++i) {
        fixture_resume(&f, i, "");
        pool_activate(f.pool, f.workers[i], POOL_ACTIVATION_RELIEVE, &f.released);
    }
    for (int i = 0; i < 9; ++i)
        assert_int_equal(fixture_get(&f, "a"), 5 + i % 3);
    assert_int_equal(fixture_get(&f, "a"), 0);
    fixture_end(&f);
}

static void a_worker_that_leaves_is_no_longer_activated(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    load(&f, 1, 6);
    fixture_resume(&f, 5, "");
    pool_activate(f.pool, f.workers[5], POOL_ACTIVATION_WAKE, &f.released);
    assert_int_equal(fixture_get(&f, "a"), 5);
    fixture_remove(&f, 5);
    assert_false(pool_woke(f.pool, f.workers[5]));
    fixture_resume(&f, 5, "");
    assert_string_equal(fixture_eligible(&f), "5 0");
    assert_int_equal(fixture_get(&f, "a"), 0);
    pool_activate(f.pool, f.workers[5], POOL_ACTIVATION_RELIEVE, &f.released);
    pool_activate(f.pool, f.workers[5], POOL_ACTIVATION_NONE, &f.released);
    assert_int_equal(fixture_get(&f, "a"), 0);
    fixture_end(&f);
}

static void an_ineligible_relieving_worker_is_not_picked(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    load(&f, 1, 6);
    fixture_resume(&f, 5, "");
    pool_activate(f.pool, f.workers[5], POOL_ACTIVATION_RELIEVE, &f.released);
    fixture_available(&f, 5, false);
    assert_int_equal(fixture_get(&f, "a"), 0);
    fixture_available(&f, 5, true);
    assert_int_equal(fixture_get(&f, "a"), 5);
    fixture_end(&f);
}

static void without_classes_the_least_backlog_wakes_it(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_CLASSLESS);
    load(&f, 2, 3);
    fixture_resume(&f, 5, "");
    pool_activate(f.pool, f.workers[5], POOL_ACTIVATION_WAKE, &f.released);
    assert_true(overloaded(&f, 1, 0));
    assert_int_equal(fixture_get(&f, "a"), 5);
    assert_int_equal(fixture_latest(&f)->reason, PICK_CLASSLESS);
    assert_true(pool_woke(f.pool, f.workers[5]));
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pool_is_overloaded_if_each_worker_exceeds_spawn_backlog),
        cmocka_unit_test(a_worker_that_serves_several_at_once_may_have_so_many_for_each),
        cmocka_unit_test(requests_of_others_count_until_their_report_is_old),
        cmocka_unit_test(the_pool_is_never_overloaded_with_spawn_backlog_off),
        cmocka_unit_test(ineligible_workers_do_not_count_for_overload),
        cmocka_unit_test(
            one_that_is_to_be_woken_gets_one_request_that_would_go_to_an_overloaded_one),
        cmocka_unit_test(a_dormant_worker_is_not_woken_while_another_has_room),
        cmocka_unit_test(an_excluded_dormant_worker_is_not_woken_by_that_request),
        cmocka_unit_test(a_new_process_takes_what_the_others_have_too_much_of),
        cmocka_unit_test(the_first_skills_of_a_relieving_worker_end_its_priority),
        cmocka_unit_test(relieving_workers_take_turns),
        cmocka_unit_test(a_worker_that_leaves_is_no_longer_activated),
        cmocka_unit_test(an_ineligible_relieving_worker_is_not_picked),
        cmocka_unit_test(without_classes_the_least_backlog_wakes_it),
    };

    return cmocka_run_group_tests_name("pool_activation", tests, NULL, NULL);
}
