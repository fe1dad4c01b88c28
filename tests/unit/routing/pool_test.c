/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/pool_fixture.h"

static void get_finds_no_worker_in_an_empty_pool(void **state)
{
    struct fixture f;

    (void)state;
    fixture_start(&f, &fixture_settings);
    assert_int_equal(fixture_get(&f, "a"), -1);
    assert_int_equal(fixture_classes(&f), 0);
    fixture_resume(&f, 0, "");
    assert_int_equal(fixture_get(&f, "a"), 0);
    fixture_remove(&f, 0);
    assert_int_equal(fixture_get(&f, "a"), -1);
    fixture_end(&f);
}

static void get_prefers_a_skilled_worker_until_its_backlog_exceeds_variance(void **state)
{
    struct fixture f;
    struct pool_settings s = fixture_settings;

    (void)state;
    s.variance = 1;
    fixture_start(&f, &s);
    fixture_resume(&f, 0, "a=2");
    fixture_resume(&f, 1, "");
    fixture_resume(&f, 2, "");
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(fixture_get(&f, "a"), 0);
        assert_int_equal(fixture_latest(&f)->reason, PICK_SKILLED);
        assert_int_equal(fixture_latest(&f)->skipped, 0);
    }
    while (fixture_get(&f, "a") == 0)
        continue;
    assert_int_equal(fixture_latest(&f)->reason, PICK_OVERFLOW);
    assert_int_equal(fixture_latest(&f)->skipped, 1);
    assert_true(fixture_latest(&f)->max_backlog >= 1);
    assert_true(fixture_latest(&f)->min_backlog == 1);
    fixture_end(&f);
}

static void get_teaches_the_least_recently_used_what_none_knows(void **state)
{
    struct fixture f;

    (void)state;
    fixture_start(&f, &fixture_settings);
    fixture_resume(&f, 0, "");
    fixture_resume(&f, 1, "");
    assert_string_equal(fixture_eligible(&f), "1 0");
    assert_int_equal(fixture_get(&f, "a"), 1);
    assert_int_equal(fixture_latest(&f)->reason, PICK_UNSKILLED);
    assert_string_equal(fixture_eligible(&f), "0 1");
    assert_true(fixture_score(&f, 1, "a") == 1);
    assert_true(isnan(fixture_score(&f, 0, "a")));
    assert_int_equal(fixture_get(&f, "a"), 1);
    assert_int_equal(fixture_latest(&f)->reason, PICK_SKILLED);
    fixture_end(&f);
}

static void get_takes_the_score_given_first_of_equals(void **state)
{
    struct fixture f;

    (void)state;
    fixture_start(&f, &fixture_settings);
    fixture_resume(&f, 0, "a=3");
    fixture_resume(&f, 1, "a=3");
    assert_int_equal(fixture_get(&f, "a"), 0);
    fixture_put(&f, 0);
    /* A new resume makes its scores the youngest, even unchanged. */
    fixture_resume(&f, 0, "a=3");
    assert_int_equal(fixture_get(&f, "a"), 1);
    fixture_end(&f);
}

static void a_second_request_in_flight_divides_the_score(void **state)
{
    struct fixture f;

    (void)state;
    fixture_start(&f, &fixture_settings);
    fixture_resume(&f, 0, "a=10");
    fixture_resume(&f, 1, "a=6");
    assert_int_equal(fixture_get(&f, "a"), 0);
    assert_int_equal(fixture_get(&f, "a"), 0);
    assert_int_equal(fixture_get(&f, "a"), 1);
    fixture_end(&f);
}

static void scores_of_zero_or_less_never_win_and_are_kept(void **state)
{
    struct fixture f;

    (void)state;
    fixture_start(&f, &fixture_settings);
    fixture_resume(&f, 0, "a=0");
    fixture_resume(&f, 1, "a=-2");
    assert_int_equal(fixture_get(&f, "a"), 1);
    assert_int_equal(fixture_latest(&f)->reason, PICK_UNSKILLED);
    assert_int_equal(fixture_get(&f, "a"), 0);
    assert_true(fixture_score(&f, 1, "a") == -2);
    assert_true(fixture_score(&f, 0, "a") == 0);
    fixture_end(&f);
}

static void a_new_resume_replaces_all_scores_and_keeps_place_and_backlog(void **state)
{
    struct fixture f;

    (void)state;
    fixture_start(&f, &fixture_settings);
    fixture_resume(&f, 0, "a=5 b=4 c=3");
    fixture_resume(&f, 1, "");
    assert_int_equal(fixture_get(&f, "d"), 1);
    assert_int_equal(fixture_get(&f, "a"), 0);
    fixture_resume(&f, 1, "b=7");
    fixture_resume(&f, 0, "c=1 e=2");
    assert_string_equal(fixture_eligible(&f), "1 0");
    assert_int_equal(fixture_backlog(&f, 0), 1);
    assert_true(isnan(fixture_score(&f, 0, "a")));
    assert_true(isnan(fixture_score(&f, 1, "d")));
    assert_true(fixture_score(&f, 0, "c") == 1);
    assert_true(fixture_score(&f, 1, "b") == 7);
    /* b, c, e: a class without a score at any worker takes no memory. */
    assert_int_equal(fixture_classes(&f), 3);
    fixture_end(&f);
}

static enum err get_without(struct fixture *f, const char *cls, struct worker *const *excluded,
                            size_t n)
{
    struct pool_request r = {
        .cls = slice_of(cls), .excluded = excluded, .nexcluded = n, .retry = true};
    enum err e = pool_get(f->pool, &r, 1, &f->picks[f->npicks]);

    f->npicks += e == ERR_OK;
    pool_check(f->pool);
    return e;
}

static void an_excluded_worker_is_neither_candidate_nor_front(void **state)
{
    struct fixture f;
    struct pool_settings s = fixture_settings;

    (void)state;
    s.variance = 1;
    fixture_start(&f, &s);
    fixture_resume(&f, 0, "a=9");
    fixture_resume(&f, 1, "");
    fixture_resume(&f, 2, "");
    struct worker *tried[] = {f.workers[0], f.workers[2]};
    assert_int_equal(get_without(&f, "a", tried, 2), ERR_OK);
    assert_ptr_equal(fixture_latest(&f)->worker, f.workers[1]);
    assert_int_equal(fixture_latest(&f)->reason, PICK_RETRY);
    assert_true(fixture_score(&f, 1, "a") == 1);
    /* The front that counts is 0 now, not 2; its mean is the one to compare with. */
    assert_string_equal(fixture_eligible(&f), "2 0 1");
    assert_int_equal(get_without(&f, "b", &tried[1], 1), ERR_OK);
    assert_ptr_equal(fixture_latest(&f)->worker, f.workers[0]);
    assert_int_equal(get_without(&f, "b", &tried[1], 1), ERR_OK);
    assert_true(fixture_latest(&f)->min_backlog > 1.9);
    fixture_end(&f);
}

static void get_finds_no_worker_when_all_are_excluded(void **state)
{
    struct fixture f;
    struct pool_waiter waiter = {0};

    (void)state;
    fixture_start(&f, &fixture_settings);
    fixture_resume(&f, 0, "a=9");
    fixture_resume(&f, 1, "");
    struct worker *tried[] = {f.workers[0], f.workers[1], f.workers[0]};
    struct pool_request r = {.cls = SLICE_LIT("a"),
                             .excluded = tried,
                             .nexcluded = 3,
                             .waiter = &waiter,
                             .released = &f.released};
    assert_int_equal(pool_get(f.pool, &r, 1, &f.picks[0]), ERR_NO_WORKER);
    /* Not even when they are ineligible, and might come back. */
    fixture_available(&f, 0, false);
    fixture_available(&f, 1, false);
    assert_int_equal(pool_get(f.pool, &r, 1, &f.picks[0]), ERR_NO_WORKER);
    assert_int_equal(waiter.state, WAITER_IDLE);
    fixture_end(&f);
}

static void skills_of_another_fingerprint_do_not_count(void **state)
{
    struct resume r = {0};
    struct fixture f;

    (void)state;
    fixture_start(&f, &fixture_settings);
    pool_destroy(f.pool);
    f.pool = pool_create(&fixture_settings, "0123456789abcdef");
    resume_push(&r, SLICE_LIT("a"), 9);
    pool_new_resume(f.pool, f.workers[0], &r, "", "fedcba9876543210", &f.released);
    pool_new_resume(f.pool, f.workers[1], &r, NULL, NULL, &f.released);
    assert_int_equal(fixture_classes(&f), 0);
    assert_string_equal(fixture_eligible(&f), "1 0");
    pool_new_resume(f.pool, f.workers[0], &r, "", "0123456789abcdef", &f.released);
    assert_true(fixture_score(&f, 0, "a") == 9);
    resume_fini(&r);
    fixture_end(&f);
}

static void an_unavailable_worker_comes_back_to_the_front_as_it_was(void **state)
{
    struct fixture f;

    (void)state;
    fixture_start(&f, &fixture_settings);
    fixture_resume(&f, 0, "a=9");
    fixture_resume(&f, 1, "");
    assert_int_equal(fixture_get(&f, "b"), 1);
    assert_int_equal(fixture_get(&f, "c"), 0);
    fixture_available(&f, 0, false);
    fixture_available(&f, 0, false);
    assert_string_equal(fixture_eligible(&f), "1");
    assert_int_equal(fixture_get(&f, "a"), 1);
    assert_true(fixture_score(&f, 0, "c") == 1);
    fixture_available(&f, 0, true);
    assert_string_equal(fixture_eligible(&f), "0 1");
    assert_int_equal(fixture_backlog(&f, 0), 1);
    assert_true(fixture_score(&f, 0, "a") == 9);
    assert_true(fixture_score(&f, 0, "c") == 1);
    fixture_end(&f);
}

static uint64_t fixture_picks(struct fixture *f, enum pick_reason reason)
{
    struct pool_view v;

    pool_view(f->pool, false, &v);
    uint64_t n = v.picks[reason];
    pool_view_fini(&v);
    return n;
}

static void a_request_can_be_counted_at_a_worker_that_is_not_available(void **state)
{
    (void)state;

    for (int policy = 0; policy < POOL_POLICIES; ++policy) {
        struct pool_settings s = fixture_settings;
        struct fixture f;

        s.policy = (enum pool_policy)policy;
        fixture_start(&f, &s);
        fixture_resume(&f, 0, "a=1");
        fixture_resume(&f, 1, "a=1");
        fixture_available(&f, 0, false);
        for (uint64_t i = 0; i < 2; ++i) {
            assert_true(pool_get_at(f.pool, f.workers[0], f.npicks + 1, &f.picks[f.npicks]));
            ++f.npicks;
            pool_check(f.pool);
            assert_ptr_equal(fixture_latest(&f)->worker, f.workers[0]);
            assert_int_equal(fixture_latest(&f)->reason, PICK_PROBE);
            assert_int_equal(fixture_latest(&f)->backlog, i);
            assert_int_equal(fixture_backlog(&f, 0), i + 1);
            assert_int_equal(fixture_picks(&f, PICK_PROBE), i + 1);
            if (policy == POOL_POLICY_ADAPTIVE)
                assert_true(fixture_latest(&f)->counted_); /* its model has the request */
        }
        /* No other request goes there. */
        assert_string_equal(fixture_eligible(&f), "1");
        assert_int_equal(fixture_get(&f, "a"), 1);
        /* One of them has passed. */
        fixture_put(&f, 0);
        fixture_available(&f, 0, true);
        assert_int_equal(fixture_backlog(&f, 0), 1);
        fixture_put(&f, 0);
        assert_int_equal(fixture_backlog(&f, 0), 0);
        /* An eligible worker likewise. */
        assert_true(pool_get_at(f.pool, f.workers[0], f.npicks + 1, &f.picks[f.npicks]));
        ++f.npicks;
        pool_check(f.pool);
        /* It leaves while the request is in flight. */
        fixture_remove(&f, 0);
        assert_false(pool_get_at(f.pool, f.workers[0], f.npicks + 1, &f.picks[f.npicks]));
        assert_false(pool_get_at(f.pool, f.workers[2], f.npicks + 1, &f.picks[f.npicks]));
        fixture_put(&f, 0);
        fixture_end(&f);
    }
}

static void a_worker_may_be_unavailable_before_it_joins(void **state)
{
    struct fixture f;

    (void)state;
    fixture_start(&f, &fixture_settings);
    fixture_available(&f, 0, false);
    fixture_resume(&f, 0, "a=9");
    assert_int_equal(fixture_get(&f, "a"), -1);
    fixture_resume(&f, 0, "a=8");
    fixture_available(&f, 0, true);
    assert_true(fixture_score(&f, 0, "a") == 8);
    assert_int_equal(fixture_get(&f, "a"), 0);
    fixture_end(&f);
}

static void a_worker_that_left_lives_until_its_last_request_is_put(void **state)
{
    struct pool_view v;
    struct fixture f;

    (void)state;
    fixture_start(&f, &fixture_settings);
    fixture_resume(&f, 0, "a=9");
    fixture_resume(&f, 1, "");
    assert_int_equal(fixture_get(&f, "a"), 0);
    assert_int_equal(fixture_get(&f, "a"), 0);
    fixture_remove(&f, 0);
    fixture_remove(&f, 0);
    worker_unref(f.workers[0]);
    pool_view(f.pool, false, &v);
    assert_int_equal(v.n, 1);
    assert_int_equal(v.ndetached, 1);
    assert_int_equal(v.workers[1].backlog, 2);
    assert_int_equal(v.backlog, 2);
    pool_view_fini(&v);
    fixture_put(&f, 0);
    assert_int_equal(f.contexts_released, 0);
    fixture_put(&f, 0);
    assert_int_equal(f.contexts_released, 1);
    f.workers[0] =
        worker_create(&(struct worker_options){.name = SLICE_LIT("w0"),
                                               .concurrency = 1,
                                               .context = &f,
                                               .context_release = fixture_context_release});
    f.contexts_released = 0;
    fixture_end(&f);
}

static void a_worker_that_rejoins_keeps_what_it_has_in_flight(void **state)
{
    struct fixture f;

    (void)state;
    fixture_start(&f, &fixture_settings);
    fixture_resume(&f, 0, "a=9");
    assert_int_equal(fixture_get(&f, "a"), 0);
    fixture_remove(&f, 0);
    fixture_resume(&f, 0, "b=9");
    assert_int_equal(fixture_backlog(&f, 0), 1);
    assert_true(isnan(fixture_score(&f, 0, "a")));
    fixture_put(&f, 0);
    fixture_remove(&f, 0);
    fixture_resume(&f, 0, "");
    assert_int_equal(fixture_backlog(&f, 0), 0);
    fixture_end(&f);
}

static void settings_are_effective_from_the_next_call_on(void **state)
{
    struct pool_settings s = fixture_settings;
    struct pool_view v;
    struct fixture f;

    (void)state;
    fixture_start(&f, &fixture_settings);
    fixture_resume(&f, 0, "a=9");
    fixture_resume(&f, 1, "");
    assert_int_equal(fixture_get(&f, "a"), 0);
    s.policy = POOL_POLICY_CLASSLESS;
    s.backlog_history = 20;
    s.unskilled_score = 0.25;
    pool_set(f.pool, &s);
    assert_int_equal(fixture_get(&f, "a"), 1);
    assert_int_equal(fixture_latest(&f)->reason, PICK_CLASSLESS);
    pool_view(f.pool, false, &v);
    assert_true(fabs(f.pool->worker_decay - (1 - 1 / 40.0)) < 1e-12);
    assert_true(fabs(f.pool->decay - (1 - 1 / 80.0)) < 1e-12);
    assert_true(v.mean_backlog == 1);
    pool_view_fini(&v);
    /* Scores have survived the other policy. */
    s.policy = POOL_POLICY_RESUME;
    pool_set(f.pool, &s);
    assert_int_equal(fixture_get(&f, "a"), 0);
    assert_int_equal(fixture_get(&f, "b"), 1);
    assert_true(fixture_score(&f, 1, "b") == 0.25);
    fixture_end(&f);
}

static void classless_takes_the_least_backlog_nearest_to_the_front(void **state)
{
    struct pool_settings s = {
        .policy = POOL_POLICY_CLASSLESS, .variance = 4, .backlog_history = 9, .max_classes = 10};
    struct fixture f;

    (void)state;
    fixture_start(&f, &s);
    for (int i = 0; i < 3; ++i)
        fixture_resume(&f, i, "a=9");
    assert_int_equal(fixture_get(&f, "a"), 2);
    assert_int_equal(fixture_get(&f, "a"), 1);
    assert_int_equal(fixture_get(&f, "a"), 0);
    assert_int_equal(fixture_get(&f, "a"), 2);
    fixture_put(&f, 0);
    assert_int_equal(fixture_get(&f, "a"), 0);
    assert_string_equal(fixture_eligible(&f), "1 2 0");
    struct worker *tried[] = {f.workers[1]};
    assert_int_equal(get_without(&f, "a", tried, 1), ERR_OK);
    assert_ptr_equal(fixture_latest(&f)->worker, f.workers[0]);
    fixture_end(&f);
}

static void the_view_counts_picks_by_reason_and_knows_the_oldest_request(void **state)
{
    struct pool_view v;
    struct fixture f;

    (void)state;
    fixture_start(&f, &fixture_settings);
    fixture_resume(&f, 0, "a=9");
    fixture_get(&f, "a");
    fixture_get(&f, "b");
    fixture_get(&f, "b");
    pool_view(f.pool, false, &v);
    assert_int_equal(v.picks[PICK_SKILLED], 2);
    assert_int_equal(v.picks[PICK_UNSKILLED], 1);
    assert_int_equal(v.classes, 2);
    assert_int_equal(v.workers[0].oldest_us, 1);
    assert_string_equal(v.workers[0].name, "w0");
    assert_string_equal(v.workers[0].instance, "life");
    assert_null(v.active_version);
    pool_view_fini(&v);
    fixture_put(&f, 0);
    pool_view(f.pool, false, &v);
    assert_int_equal(v.workers[0].oldest_us, 2);
    pool_view_fini(&v);
    assert_string_equal(pick_reason_text(PICK_OVERFLOW), "overflow");
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(get_finds_no_worker_in_an_empty_pool),
        cmocka_unit_test(get_prefers_a_skilled_worker_until_its_backlog_exceeds_variance),
        cmocka_unit_test(get_teaches_the_least_recently_used_what_none_knows),
        cmocka_unit_test(get_takes_the_score_given_first_of_equals),
        cmocka_unit_test(a_second_request_in_flight_divides_the_score),
        cmocka_unit_test(scores_of_zero_or_less_never_win_and_are_kept),
        cmocka_unit_test(a_new_resume_replaces_all_scores_and_keeps_place_and_backlog),
        cmocka_unit_test(an_excluded_worker_is_neither_candidate_nor_front),
        cmocka_unit_test(get_finds_no_worker_when_all_are_excluded),
        cmocka_unit_test(skills_of_another_fingerprint_do_not_count),
        cmocka_unit_test(an_unavailable_worker_comes_back_to_the_front_as_it_was),
        cmocka_unit_test(a_request_can_be_counted_at_a_worker_that_is_not_available),
        cmocka_unit_test(a_worker_may_be_unavailable_before_it_joins),
        cmocka_unit_test(a_worker_that_left_lives_until_its_last_request_is_put),
        cmocka_unit_test(a_worker_that_rejoins_keeps_what_it_has_in_flight),
        cmocka_unit_test(settings_are_effective_from_the_next_call_on),
        cmocka_unit_test(classless_takes_the_least_backlog_nearest_to_the_front),
        cmocka_unit_test(the_view_counts_picks_by_reason_and_knows_the_oldest_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
