/* SPDX-License-Identifier: Apache-2.0
 *
 * Policy adaptive in the pool: resumes, availability, overload, explanations, and a change of
 * policy with requests in flight. The rule itself is tested in homes_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/skills/classes.h"
#include "tests/unit/routing/pool_fixture.h"

static struct pool_settings adaptive_settings(void)
{
    struct pool_settings s = fixture_settings;

    s.policy = POOL_POLICY_ADAPTIVE;
    s.max_share = 0.4375;
    return s;
}

static void start(struct fixture *f, int workers)
{
    struct pool_settings s = adaptive_settings();

    fixture_start(f, &s);
    for (int i = 0; i < workers; ++i)
        fixture_resume(f, i, "");
}

/* One request of CLS, served. -> its worker */
static int serve(struct fixture *f, const char *cls)
{
    int w = fixture_get(f, cls);

    fixture_put(f, w);
    --f->npicks;
    return w;
}

static void a_class_keeps_its_worker(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 5);
    int home = serve(&f, "a");
    assert_int_equal(f.picks[0].reason, PICK_NEW);
    for (int i = 0; i < 20; ++i) {
        serve(&f, "b");
        assert_int_equal(serve(&f, "a"), home);
        assert_int_equal(f.picks[0].reason, PICK_HOME);
    }
    fixture_end(&f);
}

static void after_a_start_classes_are_where_resumes_state_they_are_known_best(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 0);
    fixture_resume(&f, 0, "a=10 b=5");
    fixture_resume(&f, 1, "a=30");
    fixture_resume(&f, 2, "a=20 b=50 c=1");
    fixture_resume(&f, 3, "");
    assert_int_equal(serve(&f, "a"), 1);
    assert_int_equal(f.picks[0].reason, PICK_WARM);
    assert_int_equal(serve(&f, "b"), 2);
    assert_int_equal(serve(&f, "c"), 2);
    serve(&f, "d");
    assert_int_equal(f.picks[0].reason, PICK_NEW);
    fixture_end(&f);
}

static void the_best_of_many_workers_that_know_a_class_is_taken(void **state)
{
    struct fixture f;
    char skills[FIXTURE_WORKERS][16];

    (void)state;
    start(&f, 0);
    for (int i = 0; i < FIXTURE_WORKERS; ++i) {
        /* The best of them comes last but one. */
        snprintf(skills[i], sizeof(skills[i]), "a=%d", i == FIXTURE_WORKERS - 2 ? 99 : i + 1);
        fixture_resume(&f, i, skills[i]);
    }
    assert_int_equal(serve(&f, "a"), FIXTURE_WORKERS - 2);
    pool_set_available(f.pool, f.workers[FIXTURE_WORKERS - 2], false, &f.released);
    serve(&f, "a");
    assert_int_equal(f.picks[0].reason, PICK_NEW);
    fixture_end(&f);
}

static void a_later_resume_moves_nothing(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 4);
    int home = serve(&f, "a");
    fixture_resume(&f, (home + 1) % 4, "a=1000");
    assert_int_equal(serve(&f, "a"), home);
    fixture_end(&f);
}

static void a_drained_worker_hands_its_classes_over_and_gets_none(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 4);
    int home = serve(&f, "a");
    pool_set_available(f.pool, f.workers[home], false, &f.released);
    int next = serve(&f, "a");
    assert_int_not_equal(next, home);
    pool_set_available(f.pool, f.workers[home], true, &f.released);
    assert_int_equal(serve(&f, "a"), next);
    fixture_end(&f);
}

static void a_further_try_is_overflow_that_moves_no_home(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 4);
    int home = serve(&f, "a");
    struct worker *tried[] = {f.workers[home]};
    struct pool_request r = {
        .cls = slice_of("a"), .excluded = tried, .nexcluded = 1, .retry = true};
    struct pool_pick pick;
    assert_int_equal(pool_get(f.pool, &r, 100, &pick), ERR_OK);
    assert_int_equal(pick.reason, PICK_RETRY);
    assert_ptr_not_equal(pick.worker, f.workers[home]);
    pool_put(f.pool, &pick, NULL, &f.released);
    assert_int_equal(serve(&f, "a"), home);
    fixture_end(&f);
}

static void a_class_that_comes_with_its_hash_is_the_same_class(void **state)
{
    struct fixture f;
    struct slice cls = slice_of("a");
    struct pool_request r = {.cls = cls, .cls_hash = class_hash(cls)};
    struct pool_pick pick;

    (void)state;
    start(&f, 4);
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(pool_get(f.pool, &r, 100, &pick), ERR_OK);
        assert_int_equal(pick.reason, i == 0 ? PICK_NEW : PICK_HOME);
        struct worker *home = pick.worker;
        pool_put(f.pool, &pick, NULL, &f.released);
        assert_ptr_equal(f.workers[serve(&f, "a")], home);
    }
    fixture_end(&f);
}

static void a_slot_without_a_process_is_woken_only_when_all_workers_are_overloaded(void **state)
{
    struct fixture f;
    struct pool_settings s = adaptive_settings();

    (void)state;
    s.spawn_backlog = 2;
    fixture_start(&f, &s);
    fixture_resume(&f, 0, "");
    fixture_resume(&f, 1, "");
    pool_activate(f.pool, f.workers[1], POOL_ACTIVATION_WAKE, &f.released);
    for (int i = 0; i < 3; ++i)
        assert_int_equal(fixture_get(&f, "a"), 0);
    assert_int_equal(fixture_get(&f, "a"), 1);
    assert_int_equal(fixture_latest(&f)->reason, PICK_ACTIVATED);
    assert_true(pool_woke(f.pool, f.workers[1]));
    fixture_end(&f);
}

static void the_policy_may_change_with_requests_in_flight(void **state)
{
    struct fixture f;
    struct pool_settings s = adaptive_settings();

    (void)state;
    start(&f, 4);
    for (int i = 0; i < 10; ++i)
        fixture_get(&f, "a");
    s.policy = POOL_POLICY_CLASSLESS;
    pool_set(f.pool, &s);
    pool_check(f.pool);
    for (int i = 0; i < 10; ++i)
        fixture_get(&f, "b");
    s.policy = POOL_POLICY_ADAPTIVE;
    pool_set(f.pool, &s);
    pool_check(f.pool);
    for (int i = 0; i < 20; ++i) {
        pool_put(f.pool, &f.picks[i], NULL, &f.released);
        pool_check(f.pool);
    }
    int home = serve(&f, "a");
    assert_int_equal(serve(&f, "a"), home);
    fixture_end(&f);
}

static void requests_of_another_load_balancer_count(void **state)
{
    struct fixture f;
    struct pool_settings s = adaptive_settings();

    (void)state;
    s.backlog_shared = true;
    s.backlog_max_age_ms = 10000;
    fixture_start(&f, &s);
    fixture_resume(&f, 0, "");
    fixture_resume(&f, 1, "");
    int home = fixture_get(&f, "a");
    worker_report(f.workers[home], 50, 1);
    pool_put(f.pool, &f.picks[0], &(struct pool_served){.now_us = 2000, .service_us = 1000},
             &f.released);
    for (int i = 0; i < 5; ++i) {
        char cls[16];

        snprintf(cls, sizeof(cls), "b%d", i);
        assert_int_equal(serve(&f, cls), 1 - home);
    }
    fixture_end(&f);
}

static void a_choice_explains_itself_without_an_effect(void **state)
{
    struct fixture f;
    struct pool_explain e;
    struct pool_request r = {.cls = slice_of("a")};

    (void)state;
    start(&f, 4);
    for (int i = 0; i < 3; ++i) {
        pool_explain(f.pool, &r, 5, &e);
        assert_int_equal(e.reason, PICK_NEW);
        assert_int_equal(e.ncandidates, 4);
        pool_explain_fini(&e);
    }
    int home = serve(&f, "a");
    pool_explain(f.pool, &r, 5, &e);
    assert_int_equal(e.reason, PICK_HOME);
    assert_ptr_equal(e.worker, f.workers[home]);
    assert_int_equal(e.ncandidates, 4);
    assert_ptr_equal(e.candidates[0].worker, f.workers[home]);
    assert_null(e.candidates[0].why);
    for (size_t i = 1; i < e.ncandidates; ++i)
        assert_string_equal(e.candidates[i].why,
                            "no home, and no less work in flight than the home");
    assert_string_equal(e.steps[0].name, "homes of the class");
    assert_int_equal(e.steps[0].after, 1);
    assert_string_equal(e.steps[3].name, "others with less work in flight than the home");
    assert_int_equal(e.steps[3].after, 0);
    assert_true(e.nvalues >= 5);
    pool_explain_fini(&e);
    pool_set_available(f.pool, f.workers[home], false, &f.released);
    pool_explain(f.pool, &r, 5, &e);
    assert_int_equal(e.reason, PICK_NEW);
    assert_int_equal(e.ncandidates, 4);
    assert_ptr_equal(e.candidates[0].worker, f.workers[home]);
    assert_non_null(e.candidates[0].why);
    pool_explain_fini(&e);
    fixture_end(&f);
}

/* What it says of WORKER; fails when it says nothing. */
static const char *why_of(const struct pool_explain *e, const struct worker *w)
{
    for (size_t i = 0; i < e->ncandidates; ++i) {
        if (e->candidates[i].worker == w)
            return e->candidates[i].why;
    }
    fail_msg("not a candidate: %s", worker_name(w));
    return NULL;
}

static void a_further_home_is_explained_by_what_waiting_would_cost(void **state)
{
    struct fixture f;
    struct pool_explain e;
    struct pool_request r = {.cls = slice_of("a")};

    (void)state;
    start(&f, 4);
    int home = fixture_get(&f, "a");
    pool_explain(f.pool, &r, 5, &e);
    assert_int_equal(e.reason, PICK_REPLICATE);
    assert_string_equal(why_of(&e, f.workers[home]),
                        "a home: waiting there costs more than one more home");
    assert_null(why_of(&e, e.worker));
    assert_string_equal(e.steps[4].name, "others where a further home would pay off");
    assert_int_equal(e.steps[4].before, 3);
    assert_int_equal(e.steps[4].after, 3);
    pool_explain_fini(&e);
    fixture_end(&f);
}

/* Its home was handed over to one that is busy with something else. */
static void a_move_is_explained_by_its_cause(void **state)
{
    struct fixture f;
    struct pool_explain e;
    struct pool_request r = {.cls = slice_of("a")};

    (void)state;
    start(&f, 3);
    int home = serve(&f, "a");
    fixture_resume(&f, 3, "");
    pool_hand_over(f.pool, f.workers[home], f.workers[3]);
    fixture_remove(&f, home);
    for (int i = 0; i < 3; ++i) {
        struct pool_request other = {.cls = slice_of("b")};
        struct worker *all[FIXTURE_WORKERS];
        size_t n = 0;

        /* Whatever the rule says: to that one. */
        for (int k = 0; k < FIXTURE_WORKERS; ++k) {
            if (k != 3)
                all[n++] = f.workers[k];
        }
        other.excluded = all;
        other.nexcluded = n < TRIED_MAX ? n : TRIED_MAX;
        assert_int_equal(pool_get(f.pool, &other, 5, &f.picks[f.npicks++]), ERR_OK);
    }
    pool_explain(f.pool, &r, 5, &e);
    assert_int_equal(e.reason, PICK_REASSIGN);
    assert_ptr_not_equal(e.worker, f.workers[3]);
    assert_string_equal(why_of(&e, f.workers[3]),
                        "a home that inherited the class, and is too busy for it");
    assert_string_equal(e.steps[e.nsteps - 1].name,
                        "the best of them; the class is moved there, because its home has served "
                        "none of its requests");
    assert_int_equal(e.steps[e.nsteps - 1].after, 1);
    pool_explain_fini(&e);
    fixture_end(&f);
}

/* One request of CLS at WORKER of 4, not served. */
static void get_at(struct fixture *f, const char *cls, int worker, struct pool_pick *pick)
{
    struct worker *others[3];

    for (int i = 0; i < 3; ++i)
        others[i] = f->workers[(worker + 1 + i) % 4];
    struct pool_request r = {.cls = slice_of(cls), .excluded = others, .nexcluded = 3};
    assert_int_equal(pool_get(f->pool, &r, 5, pick), ERR_OK);
    assert_ptr_equal(pick->worker, f->workers[worker]);
}

static void overflow_is_explained_by_one_that_has_no_work(void **state)
{
    struct fixture f;
    struct pool_explain e;
    struct pool_request r = {.cls = slice_of("a")};
    struct pool_settings s = adaptive_settings();

    (void)state;
    s.max_share = 0.1;
    s.max_share_always = true;
    fixture_start(&f, &s);
    for (int i = 0; i < 4; ++i)
        fixture_resume(&f, i, "");
    struct pool_pick picks[5];
    char cls[16];
    for (int i = 0; i < 16; ++i) {
        snprintf(cls, sizeof(cls), "c%d", i);
        get_at(&f, cls, i % 4, &picks[0]);
        pool_put(f.pool, &picks[0], NULL, &f.released);
    }
    int home = serve(&f, "a");
    /* A class with one request at a time would wait. */
    for (int i = 0; i < 2; ++i)
        get_at(&f, "a", home, &picks[i]);
    for (int i = 0; i < 2; ++i)
        pool_put(f.pool, &picks[i], NULL, &f.released);
    for (int i = 0; i < 4; ++i)
        get_at(&f, "b", home, &picks[i]);
    pool_explain(f.pool, &r, 5, &e);
    assert_int_equal(e.reason, PICK_OVERFLOW);
    assert_string_equal(why_of(&e, f.workers[home]),
                        "a home, busy with other classes while half of the workers are idle");
    assert_null(why_of(&e, e.worker));
    pool_explain_fini(&e);
    for (int i = 0; i < 4; ++i)
        pool_put(f.pool, &picks[i], NULL, &f.released);
    fixture_end(&f);
}

static void a_replaced_worker_leaves_its_classes_to_its_replacement(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 3);
    int home = fixture_get(&f, "a");
    fixture_resume(&f, 3, "");
    pool_hand_over(f.pool, f.workers[home], f.workers[3]);
    fixture_remove(&f, home);
    assert_int_equal(serve(&f, "a"), 3);
    assert_int_equal(fixture_backlog(&f, home), 1);
    fixture_put(&f, home);
    fixture_end(&f);
}

static void a_worker_that_leaves_for_good_has_no_class_left_at_the_next_request(void **state)
{
    struct fixture f;
    struct pool_explain e;
    struct pool_request r = {.cls = slice_of("a")};

    (void)state;
    start(&f, 3);
    int home = serve(&f, "a");
    fixture_available(&f, home, false);
    pool_hand_over(f.pool, f.workers[home], NULL);
    pool_explain(f.pool, &r, 5, &e);
    assert_int_equal(e.reason, PICK_HOME);
    assert_ptr_not_equal(e.worker, f.workers[home]);
    int next = fixture_number(&f, e.worker);
    pool_explain_fini(&e);
    /* A worker outside the pool has nothing to hand over, and cannot receive homes. */
    fixture_remove(&f, home);
    pool_hand_over(f.pool, f.workers[home], NULL);
    pool_hand_over(f.pool, f.workers[next], f.workers[home]);
    assert_int_equal(serve(&f, "a"), next);
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_keeps_its_worker),
        cmocka_unit_test(after_a_start_classes_are_where_resumes_state_they_are_known_best),
        cmocka_unit_test(the_best_of_many_workers_that_know_a_class_is_taken),
        cmocka_unit_test(a_later_resume_moves_nothing),
        cmocka_unit_test(a_drained_worker_hands_its_classes_over_and_gets_none),
        cmocka_unit_test(a_further_try_is_overflow_that_moves_no_home),
        cmocka_unit_test(a_class_that_comes_with_its_hash_is_the_same_class),
        cmocka_unit_test(a_slot_without_a_process_is_woken_only_when_all_workers_are_overloaded),
        cmocka_unit_test(the_policy_may_change_with_requests_in_flight),
        cmocka_unit_test(requests_of_another_load_balancer_count),
        cmocka_unit_test(a_choice_explains_itself_without_an_effect),
        cmocka_unit_test(a_further_home_is_explained_by_what_waiting_would_cost),
        cmocka_unit_test(overflow_is_explained_by_one_that_has_no_work),
        cmocka_unit_test(a_move_is_explained_by_its_cause),
        cmocka_unit_test(a_replaced_worker_leaves_its_classes_to_its_replacement),
        cmocka_unit_test(a_worker_that_leaves_for_good_has_no_class_left_at_the_next_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
