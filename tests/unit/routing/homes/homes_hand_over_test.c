/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that say so before they leave: where their classes go, and what ends where it began.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/homes/homes_fixture.h"

/* Returns the number of homes that W hands over, to TO or to any worker with room (-1). */
static size_t hand_over(struct lodgers *f, int w, int to)
{
    struct homes_request r = {.now_us = f->now_us, .rejects = lodgers_rejects, .context = f};

    if (to < 0)
        homes_set_eligible(f->homes, f->workers[w], false, f->now_us);
    size_t n = homes_hand_over(f->homes, f->workers[w], to < 0 ? NULL : f->workers[to], &r);
    homes_check(f->homes);
    return n;
}

static int only_home(struct lodgers *f, const char *cls)
{
    struct homes_worker *home = NULL;

    assert_int_equal(homes_of(f->homes, slice_of(cls), &home, 1), 1);
    return (int)(uintptr_t)homes_worker_context(home) - 1;
}

/* 32 classes, the first of which has half of the work; served for a while. */
static void settle(struct lodgers *f)
{
    char cls[16];

    for (int i = 0; i < 640; ++i) {
        snprintf(cls, sizeof(cls), "c%d", i % 32);
        serve(f, cls, i % 32 == 0 ? 31 * MS : 1 * MS);
    }
}

/* Only W may have requests, or all (-1). */
static void allow_only(struct lodgers *f, int w)
{
    for (int i = 0; i < HOMES_WORKERS; ++i)
        f->rejected[i] = w >= 0 && i != w;
}

static void a_worker_that_leaves_hands_its_classes_to_the_others_before(void **state)
{
    struct lodgers f;
    char cls[16];
    size_t homes = 0;

    (void)state;
    lodgers_start(&f, 4, 1);
    settle(&f);
    for (int w = 0; w < 4; ++w)
        homes += view_of(&f, w).homes;
    int leaves = only_home(&f, "c1");
    size_t had = view_of(&f, leaves).homes;
    assert_int_equal(hand_over(&f, leaves, -1), had);
    assert_int_equal(view_of(&f, leaves).homes, 0);
    size_t now = 0;
    for (int w = 0; w < 4; ++w)
        now += view_of(&f, w).homes;
    assert_int_equal(now, homes);
    /* No worker got all of them. */
    for (int w = 0; w < 4; ++w)
        assert_true(view_of(&f, w).homes < homes - 8);
    for (int i = 0; i < 32; ++i) {
        snprintf(cls, sizeof(cls), "c%d", i);
        int home = only_home(&f, cls);
        assert_int_not_equal(home, leaves);
        assert_int_equal(serve(&f, cls, 1 * MS), home);
        assert_int_equal(f.choice.reason, HOMES_HOME);
    }
    lodgers_end(&f);
}

static void requests_in_flight_at_a_worker_that_leaves_end_there(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 4, 1);
    settle(&f);
    int home = ask(&f, "c1");
    assert_int_equal(ask(&f, "c1"), home);
    assert_true(hand_over(&f, home, -1) > 0);
    assert_int_not_equal(only_home(&f, "c1"), home);
    assert_int_equal(view_of(&f, home).in_flight, 2);
    f.now_us += 10 * MS;
    response_how(&f, 0, false);
    response_how(&f, 1, false);
    assert_int_equal(view_of(&f, home).in_flight, 0);
    homes_leave(f.homes, f.workers[home]);
    f.workers[home] = NULL;
    homes_check(f.homes);
    lodgers_end(&f);
}

static void an_excluded_worker_is_not_handed_a_class(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 4, 1);
    int home = serve(&f, "a", 10 * MS);
    int next = (home + 1) % 4;
    allow_only(&f, next);
    assert_int_equal(hand_over(&f, home, -1), 1);
    assert_int_equal(only_home(&f, "a"), next);
    /* If no worker may take it, it stays and waits. */
    assert_int_equal(hand_over(&f, next, -1), 0);
    assert_int_equal(only_home(&f, "a"), next);
    lodgers_end(&f);
}

static void a_class_with_another_home_keeps_that_one_only(void **state)
{
    struct homes_worker *homes[16];
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 16, 1);
    for (int i = 0; i < 100; ++i)
        ask(&f, "hot");
    size_t n = homes_of(f.homes, SLICE_LIT("hot"), homes, 16);
    assert_true(n > 1);
    int first = (int)(uintptr_t)homes_worker_context(homes[0]) - 1;
    assert_int_equal(hand_over(&f, first, -1), 1);
    assert_int_equal(homes_count(&f, "hot"), n - 1);
    lodgers_end(&f);
}

static void a_replacement_has_all_classes_of_the_one_before_and_its_share_of_work(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 4, 1);
    settle(&f);
    int old = only_home(&f, "c0");
    struct homes_worker_view before = view_of(&f, old);
    struct homes_worker_view other = view_of(&f, (old + 1) % 4);
    f.n = 5;
    lodgers_join(&f, 4, 1);
    assert_int_equal(hand_over(&f, old, 4), before.homes);
    homes_leave(f.homes, f.workers[old]);
    f.workers[old] = NULL;
    assert_int_equal(view_of(&f, 4).homes, before.homes);
    assert_true(view_of(&f, 4).load > 0.99 * before.load);
    assert_true(view_of(&f, 4).load < 1.01 * before.load);
    assert_int_equal(view_of(&f, (old + 1) % 4).homes, other.homes);
    assert_int_equal(only_home(&f, "c0"), 4);
    lodgers_end(&f);
}

static void a_home_that_has_served_nothing_gives_a_class_up_rather_than_have_it_wait(void **state)
{
    struct homes_request r = {.cls = SLICE_LIT("c1")};
    struct lodgers f;
    struct homes_plan plan;
    struct homes_view v;
    int stayed = 0;

    (void)state;
    lodgers_start(&f, 4, 1);
    settle(&f);
    f.n = 5;
    lodgers_join(&f, 4, 1);
    int old = only_home(&f, "c1");
    assert_true(hand_over(&f, old, 4) > 0);
    homes_leave(f.homes, f.workers[old]);
    f.workers[old] = NULL;
    r.now_us = f.now_us;
    homes_view(f.homes, f.now_us, &v);
    for (;; ++stayed) {
        homes_plan(f.homes, &r, &plan);
        if (plan.choice.home_us > 1.5 * v.cold_us)
            break;
        assert_int_equal(plan.choice.reason, HOMES_HOME);
        allow_only(&f, 4);
        assert_int_equal(ask(&f, "other"), 4);
        allow_only(&f, -1);
    }
    assert_true(stayed > 0);
    assert_int_equal(plan.choice.reason, HOMES_REASSIGN);
    assert_ptr_equal(plan.choice.from, f.workers[4]);
    /* Where it has been served it would not move for so little. */
    allow_only(&f, 4);
    assert_int_equal(ask(&f, "c1"), 4);
    allow_only(&f, -1);
    homes_plan(f.homes, &r, &plan);
    assert_int_not_equal(plan.choice.reason, HOMES_REASSIGN);
    lodgers_end(&f);
}

static void the_first_request_at_a_handed_over_home_counts_for_a_cold_one(void **state)
{
    struct lodgers f;
    struct homes_view v;

    (void)state;
    lodgers_start(&f, 2, 1);
    int home = serve(&f, "a", 30 * MS);
    for (int i = 0; i < 40; ++i)
        assert_int_equal(serve(&f, "a", 2 * MS), home);
    homes_view(f.homes, f.now_us, &v);
    assert_true(v.cold_us > 10 * MS);
    assert_int_equal(hand_over(&f, home, -1), 1);
    assert_int_equal(ask(&f, "a"), 1 - home);
    assert_true(view_of(&f, 1 - home).work_us >= v.cold_us - 1);
    assert_int_equal(ask(&f, "a"), 1 - home);
    assert_true(view_of(&f, 1 - home).work_us < v.cold_us + 5 * MS);
    lodgers_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_leaves_hands_its_classes_to_the_others_before),
        cmocka_unit_test(requests_in_flight_at_a_worker_that_leaves_end_there),
        cmocka_unit_test(an_excluded_worker_is_not_handed_a_class),
        cmocka_unit_test(a_class_with_another_home_keeps_that_one_only),
        cmocka_unit_test(a_replacement_has_all_classes_of_the_one_before_and_its_share_of_work),
        cmocka_unit_test(a_home_that_has_served_nothing_gives_a_class_up_rather_than_have_it_wait),
        cmocka_unit_test(the_first_request_at_a_handed_over_home_counts_for_a_cold_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
