/* SPDX-License-Identifier: Apache-2.0
 *
 * Where classes live, rule by rule.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/homes/homes_fixture.h"

/* ---- homes ---- */

static void a_class_stays_at_its_home_while_the_others_have_work_too(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 8, 1);
    int home = serve(&f, "a", 10 * MS);
    assert_int_equal(f.choice.reason, HOMES_NEW);
    for (int i = 0; i < 50; ++i) {
        assert_int_equal(serve(&f, "a", 10 * MS), home);
        assert_int_equal(f.choice.reason, HOMES_HOME);
    }
    assert_int_equal(homes_count(&f, "a"), 1);
    lodgers_end(&f);
}

static void new_classes_spread_over_the_workers(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 8, 1);
    for (int i = 0; i < 64; ++i) {
        char cls[16];

        snprintf(cls, sizeof(cls), "c%d", i);
        serve(&f, cls, 10 * MS);
    }
    for (int w = 0; w < 8; ++w)
        assert_int_equal(view_of(&f, w).homes, 8);
    lodgers_end(&f);
}

static void a_class_with_one_request_at_a_time_has_one_home(void **state)
{
    struct lodgers f;
    int home = 0;

    (void)state;
    lodgers_start(&f, 8, 1);
    lodgers_serve_others(&f);
    for (int i = 0; i < 300; ++i)
        home = serve(&f, "session", 10 * MS);
    for (int w = 0; w < 8; ++w)
        f.rejected[w] = w != home;
    for (int i = 0; i < 3; ++i)
        ask(&f, "others");
    memset(f.rejected, 0, sizeof(f.rejected));
    /* It is worth another home, and half of the workers have nothing to do. */
    assert_int_equal(ask(&f, "session"), home);
    assert_true(f.choice.home_us > f.choice.least_us + 2 * f.choice.expected_us);
    assert_int_equal(f.choice.reason, HOMES_HOME);
    /* With two at a time it gets one. */
    ask(&f, "session");
    assert_int_equal(f.choice.reason, HOMES_REPLICATE);
    lodgers_end(&f);
}

static void a_class_does_not_wait_behind_a_long_queue_of_others_though_it_has_one_home(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 8, 1);
    lodgers_serve_others(&f);
    int home = serve(&f, "session", 10 * MS);
    for (int w = 0; w < 8; ++w)
        f.rejected[w] = w != home;
    for (int i = 0; i < 8; ++i)
        ask(&f, "others");
    memset(f.rejected, 0, sizeof(f.rejected));
    assert_int_not_equal(ask(&f, "session"), home);
    assert_int_equal(f.choice.reason, HOMES_REASSIGN);
    assert_int_equal(homes_count(&f, "session"), 1);
    lodgers_end(&f);
}

/* ---- victims ---- */

static void a_class_moves_away_from_a_home_that_others_have_flooded(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 8, 1);
    int home = serve(&f, "quiet", 10 * MS);
    /* All the others are rejected, so the flood is there. */
    for (int w = 0; w < 8; ++w)
        f.rejected[w] = w != home;
    for (int i = 0; i < 200; ++i)
        assert_int_equal(ask(&f, "loud"), home);
    memset(f.rejected, 0, sizeof(f.rejected));
    assert_int_not_equal(ask(&f, "quiet"), home);
    assert_int_equal(f.choice.reason, HOMES_REASSIGN);
    assert_ptr_equal(f.choice.from, f.workers[home]);
    assert_int_equal(homes_count(&f, "quiet"), 1);
    lodgers_end(&f);
}

static void a_class_flees_a_flooded_home_before_it_would_leave_a_slow_one(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 8, 1);
    int home = serve(&f, "quiet", 10 * MS);
    for (int i = 0; i < 200; ++i)
        serve(&f, "others", 10 * MS);
    for (int w = 0; w < 8; ++w)
        f.rejected[w] = w != home;
    do
        assert_int_equal(ask(&f, "loud"), home);
    while (f.choice.home_us < 125 * MS);
    memset(f.rejected, 0, sizeof(f.rejected));
    assert_int_not_equal(ask(&f, "quiet"), home);
    assert_int_equal(f.choice.reason, HOMES_REASSIGN);
    /* Longer than four cold requests of 30 ms, not as long as V. */
    assert_true(f.choice.home_us < 150 * MS);
    lodgers_end(&f);
}

static void homes_that_the_class_is_not_worth_are_given_up(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 16, 1);
    lodgers_serve_others(&f);
    for (int i = 0; i < 100; ++i)
        ask(&f, "small");
    assert_int_equal(homes_count(&f, "small"), 7);
    for (size_t i = 0; i < f.ntickets; ++i)
        response_how(&f, i, false);
    f.ntickets = 0;
    /* A fiftieth of the work is a third of a worker's: worth five homes. All are used alternately.
     */
    for (int i = 0; i < 20000; ++i) {
        for (int w = 0; w < 16 && i % 50 == 0; ++w)
            f.rejected[w] = w != i / 50 % 16;
        serve(&f, i % 50 == 0 ? "small" : "large", 10 * MS);
        memset(f.rejected, 0, sizeof(f.rejected));
    }
    assert_int_equal(homes_count(&f, "small"), 5);
    lodgers_end(&f);
}

static void a_class_does_not_move_away_from_work_of_its_own(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 2, 1);
    lodgers_serve_others(&f);
    int home = serve(&f, "a", 10 * MS);
    /* One home is as many as it may have of two. */
    for (int i = 0; i < 100; ++i)
        assert_int_equal(ask(&f, "a"), home);
    lodgers_end(&f);
}

/* ---- new workers ---- */

static void a_new_worker_gets_classes_one_cold_request_at_a_time(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 4, 1);
    for (int round = 0; round < 5; ++round) {
        for (int i = 0; i < 40; ++i) {
            char cls[16];

            snprintf(cls, sizeof(cls), "c%d", i);
            serve(&f, cls, 10 * MS);
        }
    }
    f.n = 5;
    lodgers_join(&f, 4, 1);
    size_t got = 0;
    for (int round = 0; round < 5; ++round) {
        for (int i = 0; i < 40; ++i) {
            char cls[16];

            snprintf(cls, sizeof(cls), "c%d", i);
            int w = ask(&f, cls);
            bool rebalanced = f.choice.reason == HOMES_REBALANCE;
            got += rebalanced;
            assert_true(!rebalanced || w == 4);
            /* While what it has got is cold, it gets no more. */
            if (rebalanced) {
                char next[16];

                snprintf(next, sizeof(next), "c%d", (i + 1) % 40);
                ask(&f, next);
                assert_int_not_equal(f.choice.reason, HOMES_REBALANCE);
                f.now_us += 30 * MS;
                response_how(&f, --f.ntickets, false);
            }
            f.now_us += 10 * MS;
            response_how(&f, --f.ntickets, false);
        }
    }
    /* Its fair share is 8 of 40. */
    assert_in_range(got, 5, 8);
    assert_int_equal(view_of(&f, 4).homes, got);
    lodgers_end(&f);
}

static void a_new_worker_gets_its_part_where_all_classes_are_small(void **state)
{
    enum { CLASSES = 400, NEW = 4 };
    struct lodgers f;
    size_t got = 0;

    (void)state;
    lodgers_start(&f, NEW, 1);
    for (int i = 0; i < 3 * CLASSES; ++i) {
        char cls[16];

        if (i == CLASSES)
            lodgers_join(&f, f.n++, 1);
        snprintf(cls, sizeof(cls), "c%d", i % CLASSES);
        int w = serve(&f, cls, 10 * MS);
        got += w == NEW && f.choice.reason == HOMES_REBALANCE;
        /* A part of one worker's work. */
        assert_true(i < CLASSES || f.choice.share < 0.05);
    }
    /* A fifth of all is fair. */
    assert_in_range(got, CLASSES / 10, CLASSES / 5);
    assert_int_equal(view_of(&f, NEW).homes, got);
    lodgers_end(&f);
}

static void the_first_home_of_a_class_is_a_worker_that_has_published_skill_at_it(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 8, 1);
    f.published[0] = 5;
    f.published[1] = 3;
    f.npublished = 2;
    assert_int_equal(serve(&f, "warm.example", 10 * MS), 5);
    assert_int_equal(f.choice.reason, HOMES_WARM);
    assert_int_equal(homes_count(&f, "warm.example"), 1);
    lodgers_end(&f);
}

static void scores_of_an_excluded_worker_have_no_effect(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 8, 1);
    f.published[0] = 5;
    f.published[1] = 3;
    f.npublished = 2;
    f.rejected[5] = true;
    homes_set_eligible(f.homes, f.workers[3], false, f.now_us);
    int w = serve(&f, "warm.example", 10 * MS);
    assert_int_not_equal(w, 5);
    assert_int_not_equal(w, 3);
    assert_int_equal(f.choice.reason, HOMES_NEW);
    lodgers_end(&f);
}

/* ---- workers go ---- */

static void the_classes_of_an_ineligible_worker_move_one_by_one_and_wait_for_it(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 4, 1);
    int home = serve(&f, "a", 10 * MS);
    int other = home;
    /* Another class that lives there too. */
    for (int w = 0; w < 4; ++w)
        f.rejected[w] = w != home;
    assert_int_equal(serve(&f, "b", 10 * MS), other);
    memset(f.rejected, 0, sizeof(f.rejected));
    homes_set_eligible(f.homes, f.workers[home], false, f.now_us);
    assert_int_not_equal(serve(&f, "a", 10 * MS), home);
    assert_int_equal(f.choice.reason, HOMES_NEW);
    homes_set_eligible(f.homes, f.workers[home], true, f.now_us);
    assert_int_equal(serve(&f, "b", 10 * MS), other);
    assert_int_equal(f.choice.reason, HOMES_HOME);
    lodgers_end(&f);
}

static void a_worker_that_has_left_has_no_homes_and_its_requests_still_end(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 4, 1);
    int home = ask(&f, "a");
    homes_leave(f.homes, f.workers[home]);
    f.workers[home] = NULL;
    homes_check(f.homes);
    assert_int_equal(homes_count(&f, "a"), 0);
    f.now_us += 10 * MS;
    response_how(&f, 0, false);
    homes_check(f.homes);
    assert_int_not_equal(ask(&f, "a"), home);
    lodgers_end(&f);
}

static void no_eligible_worker_is_none_to_choose(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 2, 1);
    homes_set_eligible(f.homes, f.workers[0], false, f.now_us);
    homes_set_eligible(f.homes, f.workers[1], false, f.now_us);
    assert_int_equal(ask(&f, "a"), -1);
    f.rejected[0] = true;
    homes_set_eligible(f.homes, f.workers[0], true, f.now_us);
    assert_int_equal(ask(&f, "a"), -1);
    lodgers_end(&f);
}

static void overflow_leaves_the_homes_as_they_are(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 4, 1);
    int home = serve(&f, "a", 10 * MS);
    f.rejected[home] = true;
    assert_int_not_equal(serve(&f, "a", 10 * MS), home);
    assert_int_equal(f.choice.reason, HOMES_OVERFLOW);
    f.rejected[home] = false;
    assert_int_equal(serve(&f, "a", 10 * MS), home);
    assert_int_equal(homes_count(&f, "a"), 1);
    lodgers_end(&f);
}

/* ---- the choice reported for a request ---- */

static void a_fast_error_lowers_no_cost(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 4, 1);
    for (int i = 0; i < 50; ++i)
        serve(&f, "a", 40 * MS);
    for (int i = 0; i < 50; ++i) {
        ask(&f, "a");
        f.now_us += 1 * MS;
        response_how(&f, --f.ntickets, true);
    }
    ask(&f, "a");
    assert_true(f.choice.expected_us > 39 * MS);
    lodgers_end(&f);
}

static void time_in_the_queue_is_no_service(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 1, 1);
    for (int round = 0; round < 30; ++round) {
        for (int i = 0; i < 10; ++i)
            ask(&f, "a");
        for (size_t i = 0; i < 10; ++i) {
            f.now_us += 10 * MS;
            response_how(&f, i, false);
        }
        f.ntickets = 0;
    }
    ask(&f, "a");
    assert_true(f.choice.expected_us < 11 * MS);
    lodgers_end(&f);
}

static void work_of_others_is_a_workers_work(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 2, 1);
    serve(&f, "a", 10 * MS);
    int home = ask(&f, "a");
    f.now_us += 10 * MS;
    struct homes_end e = {.now_us = f.now_us, .others = 100};
    homes_end(f.homes, &f.tickets[0], &e);
    assert_true(view_of(&f, home).work_us > SECOND / 8);
    /* A new class goes where there is less. */
    assert_int_equal(ask(&f, "b"), 1 - home);
    lodgers_end(&f);
}

/* ---- time ---- */

static void a_hung_worker_gets_less_and_less_though_nothing_happens(void **state)
{
    struct lodgers f;
    int there = 0;

    (void)state;
    lodgers_start(&f, 4, 1);
    int home = 0;
    for (int i = 0; i < 40; ++i)
        home = serve(&f, "a", 10 * MS);
    for (int i = 0; i < 40; ++i)
        serve(&f, "b", 10 * MS);
    ask(&f, "a"); /* which will not get a response */
    for (int i = 0; i < 100; ++i) {
        f.now_us += 10 * MS;
        if (ask(&f, "a") == home) {
            ++there;
            continue;
        }
        f.now_us += 10 * MS;
        response_how(&f, --f.ntickets, false);
    }
    assert_true(there < 25);
    assert_true(view_of(&f, home).stalled_us > 500 * MS);
    assert_int_not_equal(ask(&f, "a"), home);
    lodgers_end(&f);
}

static void a_long_poll_keeps_none_from_a_worker_that_serves_others_beside(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 2, 4);
    int home = ask(&f, "poll");
    for (int w = 0; w < 2; ++w)
        f.rejected[w] = w != home;
    for (int i = 0; i < 200; ++i) {
        serve(&f, "a", 10 * MS);
        assert_true(view_of(&f, home).stalled_us == 0);
        f.now_us += 90 * MS;
    }
    lodgers_end(&f);
}

static void a_long_poll_alone_keeps_others_away_for_a_while_only(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 2, 4);
    serve(&f, "other", 10 * MS);
    int home = ask(&f, "poll");
    f.now_us += SECOND;
    ask(&f, "other");
    assert_true(view_of(&f, home).stalled_us > SECOND / 2);
    f.now_us += 20 * SECOND;
    assert_true(view_of(&f, home).stalled_us == 0);
    lodgers_end(&f);
}

static void load_is_forgotten_with_requests_not_with_time(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 4, 1);
    int home = serve(&f, "a", 10 * MS);
    double before = view_of(&f, home).work;
    f.now_us += 3600 * (uint64_t)SECOND;
    assert_true(fabs(view_of(&f, home).work - before) < before / 1000);
    for (int w = 0; w < 4; ++w)
        f.rejected[w] = w == home;
    for (int i = 0; i < 4 * 8000; ++i)
        serve(&f, "b", 10);
    assert_true(view_of(&f, home).work < before / 1000);
    lodgers_end(&f);
}

static void years_of_work_stay_within_numbers(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 4, 1);
    for (int i = 0; i < 200; ++i) {
        serve(&f, "a", 10 * MS);
        serve(&f, "b", 10 * MS);
        f.now_us += 5000ULL * SECOND * (uint64_t)(i % 7);
        homes_check(f.homes);
    }
    for (int w = 0; w < 4; ++w)
        assert_true(view_of(&f, w).load < 4.01);
    lodgers_end(&f);
}

/* ---- bounds ---- */

static void classes_that_clients_make_up_are_forgotten_with_their_requests_in_flight(void **state)
{
    struct lodgers f;
    struct homes_view v;

    (void)state;
    lodgers_start(&f, 4, 1);
    for (int i = 0; i < 3000; ++i) {
        char cls[16];

        snprintf(cls, sizeof(cls), "c%d", i);
        ask(&f, cls);
    }
    homes_check(f.homes);
    homes_view(f.homes, f.now_us, &v);
    assert_true(v.classes <= 1000);
    for (size_t i = 0; i < f.ntickets; ++i)
        response_how(&f, i, false);
    homes_check(f.homes);
    for (int w = 0; w < 4; ++w)
        assert_int_equal(view_of(&f, w).in_flight, 0);
    lodgers_end(&f);
}

static void requests_that_another_policy_has_begun_end_here(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 2, 1);
    homes_adopt(f.homes, f.workers[1], f.now_us, &f.tickets[f.ntickets++]);
    homes_check(f.homes);
    assert_int_equal(view_of(&f, 1).in_flight, 1);
    assert_int_equal(ask(&f, "a"), 0);
    f.now_us += 10 * MS;
    response_how(&f, 0, false);
    assert_int_equal(view_of(&f, 1).in_flight, 0);
    lodgers_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_stays_at_its_home_while_the_others_have_work_too),
        cmocka_unit_test(new_classes_spread_over_the_workers),
        cmocka_unit_test(a_class_moves_away_from_a_home_that_others_have_flooded),
        cmocka_unit_test(a_class_flees_a_flooded_home_before_it_would_leave_a_slow_one),
        cmocka_unit_test(a_class_with_one_request_at_a_time_has_one_home),
        cmocka_unit_test(
            a_class_does_not_wait_behind_a_long_queue_of_others_though_it_has_one_home),
        cmocka_unit_test(homes_that_the_class_is_not_worth_are_given_up),
        cmocka_unit_test(a_class_does_not_move_away_from_work_of_its_own),
        cmocka_unit_test(a_new_worker_gets_classes_one_cold_request_at_a_time),
        cmocka_unit_test(a_new_worker_gets_its_part_where_all_classes_are_small),
        cmocka_unit_test(the_first_home_of_a_class_is_a_worker_that_has_published_skill_at_it),
        cmocka_unit_test(scores_of_an_excluded_worker_have_no_effect),
        cmocka_unit_test(the_classes_of_an_ineligible_worker_move_one_by_one_and_wait_for_it),
        cmocka_unit_test(a_worker_that_has_left_has_no_homes_and_its_requests_still_end),
        cmocka_unit_test(no_eligible_worker_is_none_to_choose),
        cmocka_unit_test(overflow_leaves_the_homes_as_they_are),
        cmocka_unit_test(a_fast_error_lowers_no_cost),
        cmocka_unit_test(time_in_the_queue_is_no_service),
        cmocka_unit_test(work_of_others_is_a_workers_work),
        cmocka_unit_test(a_hung_worker_gets_less_and_less_though_nothing_happens),
        cmocka_unit_test(a_long_poll_keeps_none_from_a_worker_that_serves_others_beside),
        cmocka_unit_test(a_long_poll_alone_keeps_others_away_for_a_while_only),
        cmocka_unit_test(load_is_forgotten_with_requests_not_with_time),
        cmocka_unit_test(years_of_work_stay_within_numbers),
        cmocka_unit_test(classes_that_clients_make_up_are_forgotten_with_their_requests_in_flight),
        cmocka_unit_test(requests_that_another_policy_has_begun_end_here),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
