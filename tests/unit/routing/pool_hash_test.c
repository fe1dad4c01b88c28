/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/pool_fixture.h"

enum { CLASSES = 2000 };

static void start(struct fixture *f, uint64_t percent, int workers)
{
    struct pool_settings s = fixture_settings;

    s.policy = POOL_POLICY_HASH;
    s.hash_balance_percent = percent;
    fixture_start(f, &s);
    for (int i = 0; i < workers; ++i)
        fixture_resume(f, i, "");
}

static int owner(struct fixture *f, int cls)
{
    char name[32];
    struct pool_pick pick;

    snprintf(name, sizeof(name), "site-%d.example", cls);
    struct pool_request r = {.cls = slice_of(name)};
    assert_int_equal(pool_get(f->pool, &r, 1, &pick), ERR_OK);
    int worker = fixture_number(f, pick.worker);
    pool_put(f->pool, &pick, NULL, NULL);
    return worker;
}

static void owners(struct fixture *f, int *out)
{
    for (int i = 0; i < CLASSES; ++i)
        out[i] = owner(f, i);
    pool_check(f->pool);
}

static void a_class_stays_with_its_worker_whatever_order_workers_came_in(void **state)
{
    struct fixture f;
    struct fixture g;
    int here[CLASSES];
    int there[CLASSES];

    (void)state;
    start(&f, 0, 8);
    start(&g, 0, 0);
    for (int i = 7; i >= 0; --i)
        fixture_resume(&g, i, "");
    owners(&f, here);
    owners(&g, there);
    assert_memory_equal(here, there, sizeof(here));
    owners(&f, there);
    assert_memory_equal(here, there, sizeof(here));
    fixture_end(&f);
    fixture_end(&g);
}

static void classes_are_spread_over_all_workers(void **state)
{
    struct fixture f;
    int of[CLASSES];
    int n[FIXTURE_WORKERS] = {0};

    (void)state;
    start(&f, 0, 8);
    owners(&f, of);
    for (int i = 0; i < CLASSES; ++i)
        ++n[of[i]];
    for (int i = 0; i < 8; ++i) {
        assert_true(n[i] > CLASSES / 8 / 2);
        assert_true(n[i] < CLASSES / 8 * 2);
    }
    fixture_end(&f);
}

static void a_worker_that_leaves_moves_its_own_classes_only_and_gets_them_back(void **state)
{
    struct fixture f;
    int before[CLASSES];
    int without[CLASSES];
    int after[CLASSES];

    (void)state;
    start(&f, 0, 8);
    owners(&f, before);
    fixture_available(&f, 3, false);
    owners(&f, without);
    for (int i = 0; i < CLASSES; ++i) {
        assert_int_not_equal(without[i], 3);
        if (before[i] != 3)
            assert_int_equal(without[i], before[i]);
    }
    fixture_available(&f, 3, true);
    owners(&f, after);
    assert_memory_equal(before, after, sizeof(before));
    fixture_remove(&f, 3);
    owners(&f, after);
    assert_memory_equal(without, after, sizeof(before));
    fixture_end(&f);
}

static void a_newcomer_takes_its_share_and_nothing_else_moves(void **state)
{
    struct fixture f;
    int before[CLASSES];
    int after[CLASSES];
    int moved = 0;

    (void)state;
    start(&f, 0, 7);
    owners(&f, before);
    fixture_resume(&f, 7, "");
    owners(&f, after);
    for (int i = 0; i < CLASSES; ++i) {
        if (after[i] == before[i])
            continue;
        assert_int_equal(after[i], 7);
        ++moved;
    }
    print_message("%d of %d classes moved, %d would be an eighth\n", moved, CLASSES, CLASSES / 8);
    assert_true(moved > CLASSES / 8 / 2);
    assert_true(moved < CLASSES / 8 * 2);
    fixture_end(&f);
}

static void many_changes_before_a_request_come_to_the_same(void **state)
{
    struct fixture f;
    int before[CLASSES];
    int after[CLASSES];

    (void)state;
    start(&f, 0, 8);
    owners(&f, before);
    for (int round = 0; round < 5; ++round) {
        for (int i = 0; i < 8; ++i)
            fixture_available(&f, i, false);
        for (int i = 7; i >= 0; --i)
            fixture_available(&f, i, true);
        owners(&f, after);
        assert_memory_equal(before, after, sizeof(before));
    }
    fixture_end(&f);
}

static void no_worker_exceeds_the_bound(void **state)
{
    static const uint64_t percents[] = {101, 125, 200, 1000};
    struct fixture f;

    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(percents); ++k) {
        start(&f, percents[k], 8);
        for (int i = 0; i < 80; ++i) {
            /* Two classes that are requested often. */
            int w = fixture_get(&f, i % 3 != 0 ? "hot" : "warm");
            uint64_t most = ((uint64_t)(i + 1) * percents[k] + 799) / 800;

            assert_true(w >= 0);
            assert_true(fixture_backlog(&f, w) <= most);
        }
        fixture_end(&f);
    }
}

static void without_a_bound_a_class_stays_whatever_its_worker_has_in_flight(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 0, 8);
    int first = fixture_get(&f, "hot");
    for (int i = 0; i < 50; ++i) {
        assert_int_equal(fixture_get(&f, "hot"), first);
        assert_int_equal(fixture_latest(&f)->reason, PICK_HASHED);
    }
    fixture_end(&f);
}

static void a_worker_that_the_bound_skips_gets_its_class_back(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 125, 8);
    int first = fixture_get(&f, "hot");
    int second = fixture_get(&f, "hot");
    assert_int_not_equal(second, first);
    assert_int_equal(fixture_latest(&f)->reason, PICK_HASH_NEXT);
    assert_int_equal(fixture_latest(&f)->skipped, 1);
    fixture_put(&f, first);
    assert_int_equal(fixture_get(&f, "hot"), first);
    fixture_end(&f);
}

static void a_worker_that_was_tried_before_is_passed_over(void **state)
{
    struct fixture f;
    struct worker *tried[TRIED_MAX];

    (void)state;
    start(&f, 0, 8);
    int first = owner(&f, 1);
    tried[0] = f.workers[first];
    struct pool_request r = {
        .cls = SLICE_LIT("site-1.example"), .excluded = tried, .nexcluded = 1, .retry = true};
    struct pool_pick pick;
    assert_int_equal(pool_get(f.pool, &r, 1, &pick), ERR_OK);
    assert_int_not_equal(fixture_number(&f, pick.worker), first);
    assert_int_equal(pick.reason, PICK_RETRY);
    pool_put(f.pool, &pick, NULL, NULL);
    fixture_end(&f);
}

/* The bound that the policy uses is that of the requests in flight at the eligible workers. */
static void check_bound(struct fixture *f, uint64_t percent)
{
    struct pool_request r = {.cls = SLICE_LIT("site-1.example")};
    struct pool_explain e;
    struct pool_view v;
    uint64_t in_flight = 0;

    pool_view(f->pool, false, &v);
    for (size_t i = 0; i < v.nactive; ++i)
        in_flight += v.workers[i].backlog;
    uint64_t parts = 100 * (uint64_t)v.nactive;
    pool_explain(f->pool, &r, 1, &e);
    assert_string_equal(e.values[0].name, "in_flight_limit");
    assert_true(e.values[0].value == (double)(((in_flight + 1) * percent + parts - 1) / parts));
    pool_explain_fini(&e);
    pool_view_fini(&v);
}

static void the_bound_follows_requests_and_eligible_workers(void **state)
{
    struct fixture f;
    char cls[32];

    (void)state;
    start(&f, 125, 8);
    for (int i = 0; i < 60; ++i) {
        snprintf(cls, sizeof(cls), "site-%d.example", i % 9);
        assert_true(fixture_get(&f, cls) >= 0);
        check_bound(&f, 125);
        fixture_available(&f, i % 8, i % 3 == 0);
        check_bound(&f, 125);
        if (f.picks[f.npicks / 2].worker != NULL)
            pool_put(f.pool, &f.picks[f.npicks / 2], NULL, NULL);
        fixture_available(&f, (i + 5) % 8, true);
        check_bound(&f, 125);
    }
    fixture_remove(&f, 0);
    check_bound(&f, 125);
    fixture_end(&f);
}

static void the_bound_counts_what_was_in_flight_before_the_policy(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 125, 4);
    struct pool_settings s = fixture_settings;
    pool_set(f.pool, &s); /* resume: the class stays where it was learned */
    int first = fixture_get(&f, "hot");
    assert_int_equal(fixture_get(&f, "hot"), first);
    s.policy = POOL_POLICY_HASH;
    s.hash_balance_percent = 125;
    pool_set(f.pool, &s);
    check_bound(&f, 125);
    for (int i = 0; i < 3; ++i)
        assert_int_not_equal(fixture_get(&f, "other"), first);
    fixture_put(&f, first);
    fixture_put(&f, first);
    check_bound(&f, 125);
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_stays_with_its_worker_whatever_order_workers_came_in),
        cmocka_unit_test(classes_are_spread_over_all_workers),
        cmocka_unit_test(a_worker_that_leaves_moves_its_own_classes_only_and_gets_them_back),
        cmocka_unit_test(a_newcomer_takes_its_share_and_nothing_else_moves),
        cmocka_unit_test(many_changes_before_a_request_come_to_the_same),
        cmocka_unit_test(no_worker_exceeds_the_bound),
        cmocka_unit_test(without_a_bound_a_class_stays_whatever_its_worker_has_in_flight),
        cmocka_unit_test(a_worker_that_the_bound_skips_gets_its_class_back),
        cmocka_unit_test(a_worker_that_was_tried_before_is_passed_over),
        cmocka_unit_test(the_bound_follows_requests_and_eligible_workers),
        cmocka_unit_test(the_bound_counts_what_was_in_flight_before_the_policy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
