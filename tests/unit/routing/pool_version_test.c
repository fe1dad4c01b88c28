/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/pool_fixture.h"

static void start(struct fixture *f, enum pool_policy policy)
{
    struct pool_settings s = fixture_settings;

    s.policy = policy;
    s.single_version = true;
    fixture_start(f, &s);
}

static const char *active_version(struct fixture *f)
{
    static char name[32];
    struct pool_view v;

    pool_view(f->pool, false, &v);
    snprintf(name, sizeof(name), "%s", v.active_version != NULL ? v.active_version : "none");
    pool_view_fini(&v);
    return name;
}

static void the_version_changes_when_another_has_strictly_more_workers(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    assert_string_equal(active_version(&f), "none");
    fixture_resume_of(&f, 0, "blue", "a=1");
    fixture_resume_of(&f, 1, "blue", "");
    fixture_resume_of(&f, 2, "green", "a=5");
    fixture_resume_of(&f, 3, "green", "");
    assert_string_equal(active_version(&f), "blue");
    assert_string_equal(fixture_eligible(&f), "1 0");
    assert_int_equal(fixture_get(&f, "a"), 0);
    fixture_resume_of(&f, 4, "green", "");
    assert_string_equal(active_version(&f), "green");
    /* Joined in reverse order, so that the first to join is at the front. */
    assert_string_equal(fixture_eligible(&f), "2 3 4");
    assert_int_equal(fixture_get(&f, "a"), 2);
    fixture_end(&f);
}

static void a_version_comes_back_with_backlog_and_scores(void **state)
{
    static const enum pool_policy policies[] = {POOL_POLICY_RESUME, POOL_POLICY_CLASSLESS};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(policies); ++i) {
        struct fixture f;

        start(&f, policies[i]);
        fixture_resume_of(&f, 0, "blue", "a=3");
        assert_int_equal(fixture_get(&f, "a"), 0);
        fixture_resume_of(&f, 1, "green", "");
        fixture_resume_of(&f, 2, "green", "");
        assert_string_equal(active_version(&f), "green");
        assert_int_equal(fixture_backlog(&f, 0), 1);
        fixture_remove(&f, 1);
        assert_string_equal(active_version(&f), "green");
        fixture_remove(&f, 2);
        assert_string_equal(active_version(&f), "blue");
        assert_int_equal(fixture_backlog(&f, 0), 1);
        assert_true(fixture_score(&f, 0, "a") == 3);
        fixture_put(&f, 0);
        assert_int_equal(fixture_backlog(&f, 0), 0);
        assert_int_equal(fixture_get(&f, "a"), 0);
        fixture_end(&f);
    }
}

static void the_first_seen_of_equally_large_versions_wins(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    fixture_resume_of(&f, 0, "red", "");
    fixture_resume_of(&f, 1, "red", "");
    fixture_resume_of(&f, 2, "green", "");
    fixture_resume_of(&f, 3, "blue", "");
    fixture_resume_of(&f, 4, "blue", "");
    fixture_resume_of(&f, 5, "green", "");
    fixture_remove(&f, 0);
    assert_string_equal(active_version(&f), "green");
    fixture_end(&f);
}

static void no_version_is_a_version_like_any_other(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    fixture_resume_of(&f, 0, NULL, "");
    fixture_resume_of(&f, 1, "blue", "");
    assert_string_equal(active_version(&f), "");
    assert_string_equal(fixture_eligible(&f), "0");
    fixture_resume_of(&f, 2, "", "");
    assert_string_equal(fixture_eligible(&f), "2 0");
    fixture_remove(&f, 0);
    fixture_remove(&f, 2);
    assert_string_equal(active_version(&f), "blue");
    fixture_end(&f);
}

static void a_worker_may_change_its_version_with_a_resume(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    fixture_resume_of(&f, 0, "blue", "");
    fixture_resume_of(&f, 1, "blue", "");
    fixture_resume_of(&f, 2, "blue", "");
    fixture_resume_of(&f, 0, "green", "a=2");
    assert_string_equal(fixture_eligible(&f), "2 1");
    assert_true(fixture_score(&f, 0, "a") == 2);
    fixture_resume_of(&f, 2, "green", "a=3");
    assert_string_equal(active_version(&f), "green");
    assert_string_equal(fixture_eligible(&f), "0 2");
    fixture_end(&f);
}

static void a_version_without_an_available_worker_gives_way(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    fixture_resume_of(&f, 0, "blue", "");
    fixture_resume_of(&f, 1, "blue", "");
    fixture_resume_of(&f, 2, "green", "");
    fixture_available(&f, 0, false);
    assert_string_equal(active_version(&f), "blue");
    fixture_available(&f, 1, false);
    assert_string_equal(fixture_eligible(&f), "2");
    fixture_available(&f, 0, true);
    assert_string_equal(active_version(&f), "blue");
    assert_string_equal(fixture_eligible(&f), "0");
    fixture_end(&f);
}

static void versions_matter_from_the_moment_they_are_asked_for(void **state)
{
    struct pool_settings s = fixture_settings;
    struct fixture f;

    (void)state;
    fixture_start(&f, &s);
    fixture_resume_of(&f, 0, "blue", "a=1");
    fixture_resume_of(&f, 1, "green", "");
    fixture_resume_of(&f, 2, "green", "");
    assert_string_equal(fixture_eligible(&f), "2 1 0");
    s.single_version = true;
    pool_set(f.pool, &s);
    pool_check(f.pool);
    assert_string_equal(fixture_eligible(&f), "2 1");
    s.single_version = false;
    pool_set(f.pool, &s);
    pool_check(f.pool);
    assert_string_equal(fixture_eligible(&f), "0 2 1");
    assert_true(fixture_score(&f, 0, "a") == 1);
    fixture_end(&f);
}

static void a_long_life_with_many_versions_remembers_few(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, POOL_POLICY_RESUME);
    for (int i = 0; i < 1000; ++i) {
        char version[16];

        snprintf(version, sizeof(version), "1.%d", i);
        fixture_resume_of(&f, i % 2, version, "");
        fixture_remove(&f, (i + 1) % 2);
        assert_string_equal(active_version(&f), version);
    }
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_version_changes_when_another_has_strictly_more_workers),
        cmocka_unit_test(a_version_comes_back_with_backlog_and_scores),
        cmocka_unit_test(the_first_seen_of_equally_large_versions_wins),
        cmocka_unit_test(no_version_is_a_version_like_any_other),
        cmocka_unit_test(a_worker_may_change_its_version_with_a_resume),
        cmocka_unit_test(a_version_without_an_available_worker_gives_way),
        cmocka_unit_test(versions_matter_from_the_moment_they_are_asked_for),
        cmocka_unit_test(a_long_life_with_many_versions_remembers_few),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
