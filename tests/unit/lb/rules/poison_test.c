/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/poison.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/base/text.h"

static const struct poison_rule rule = {.deaths = 3, .window_ms = 60000, .hold_ms = 30000};
static const char workers[64];

static struct poison_key key(const char *cls, const char *path)
{
    return (struct poison_key){slice_of(cls), slice_of(path)};
}

/* Deaths of as many workers, a millisecond apart. */
static enum poison_verdict kill_workers(struct poison *p, const struct poison_key *k, int n,
                                        uint64_t now_ms)
{
    enum poison_verdict v = POISON_NOTHING;

    for (int i = 0; i < n; ++i)
        v = poison_death(p, &rule, k, &workers[i], now_ms + (uint64_t)i);
    return v;
}

static int set_up(void **state)
{
    *state = poison_create();
    return 0;
}

static int tear_down(void **state)
{
    poison_destroy(*state);
    return 0;
}

static void after_so_many_deaths_it_is_held_for_a_while(void **state)
{
    struct poison *p = *state;
    struct poison_key bad = key("shop", "/kill");
    struct poison_key same_class = key("shop", "/");
    struct poison_key same_path = key("blog", "/kill");

    assert_int_equal(kill_workers(p, &bad, 2, 1000), POISON_NOTHING);
    assert_false(poison_holds(p, &bad, 1002));
    assert_int_equal(poison_death(p, &rule, &bad, &workers[9], 1003), POISON_HELD);
    assert_true(poison_holds(p, &bad, 1003));
    assert_true(poison_holds(p, &bad, 31002));
    assert_false(poison_holds(p, &same_class, 1003));
    assert_false(poison_holds(p, &same_path, 1003));
    assert_false(poison_holds(p, &bad, 31003));
}

static void back_again_one_death_more_is_enough(void **state)
{
    struct poison *p = *state;
    struct poison_key bad = key("shop", "/kill");

    assert_int_equal(kill_workers(p, &bad, 3, 0), POISON_HELD);
    assert_false(poison_holds(p, &bad, 40000));
    assert_int_equal(poison_death(p, &rule, &bad, &workers[1], 40001), POISON_HELD);
    /* But not when it has been good for a whole window. */
    assert_false(poison_holds(p, &bad, 80000));
    assert_int_equal(poison_death(p, &rule, &bad, &workers[1], 140001), POISON_NOTHING);
}

static void deaths_outside_of_the_window_do_not_count(void **state)
{
    struct poison *p = *state;
    struct poison_key k = key("", "/slow");

    for (uint64_t i = 0; i < 20; ++i)
        assert_int_equal(poison_death(p, &rule, &k, &workers[i], i * 30001), POISON_NOTHING);
}

static void requests_that_end_with_one_worker_are_one_death(void **state)
{
    struct poison *p = *state;
    struct poison_key k = key("", "/poll");

    for (int i = 0; i < 50; ++i)
        assert_int_equal(poison_death(p, &rule, &k, &workers[0], 5000), POISON_NOTHING);
    assert_int_equal(poison_death(p, &rule, &k, &workers[1], 5000), POISON_NOTHING);
    assert_int_equal(poison_death(p, &rule, &k, &workers[0], 6000), POISON_HELD);
}

static void a_path_with_more_responses_than_deaths_is_not_blocked(void **state)
{
    struct poison *p = *state;
    struct poison_key home = key("shop", "/");

    assert_int_equal(kill_workers(p, &home, 1, 0), POISON_NOTHING);
    for (int i = 0; i < 10; ++i)
        poison_responded(p, &rule, &home, 10);
    for (int i = 1; i < 9; ++i)
        assert_int_equal(poison_death(p, &rule, &home, &workers[i], 20), POISON_NOTHING);
    assert_int_equal(poison_death(p, &rule, &home, &workers[9], 20), POISON_HELD);
}

static void a_clock_of_another_loop_may_be_behind(void **state)
{
    struct poison *p = *state;
    struct poison_key k = key("", "/kill");

    assert_int_equal(poison_death(p, &rule, &k, &workers[0], 1005), POISON_NOTHING);
    assert_int_equal(poison_death(p, &rule, &k, &workers[1], 1000), POISON_NOTHING);
    assert_int_equal(poison_death(p, &rule, &k, &workers[0], 1001), POISON_NOTHING);
    assert_int_equal(poison_death(p, &rule, &k, &workers[2], 1002), POISON_HELD);
}

static void off_is_off(void **state)
{
    struct poison *p = *state;
    const struct poison_rule off = {.deaths = 0, .window_ms = 60000, .hold_ms = 30000};
    struct poison_key k = key("", "/kill");

    for (int i = 0; i < 64; ++i)
        assert_int_equal(poison_death(p, &off, &k, &workers[i], 0), POISON_NOTHING);
    assert_false(poison_holds(p, &k, 0));
}

static void a_full_table_blocks_no_further_path(void **state)
{
    struct poison *p = *state;
    char path[32];

    for (int i = 0; i < POISON_HELD_MAX; ++i) {
        snprintf(path, sizeof(path), "/%d", i);
        struct poison_key k = key("", path);
        assert_int_equal(kill_workers(p, &k, 3, 0), POISON_HELD);
    }
    struct poison_key more = key("", "/more");
    struct poison_key first = key("", "/0");
    struct poison_view v;

    poison_view(p, 10, &v);
    assert_int_equal(v.nheld, POISON_HELD_MAX);
    assert_int_equal(kill_workers(p, &more, 3, 0), POISON_TOO_MANY);
    assert_false(poison_holds(p, &more, 10));
    assert_false(poison_holds(p, &first, 10));
    poison_view(p, 10, &v);
    assert_int_equal(v.nheld, 0);
}

static void only_so_many_suspects_are_remembered_those_of_late(void **state)
{
    struct poison *p = *state;
    char path[32];
    struct poison_key old = key("", "/old");
    struct poison_key late = key("", "/late");

    kill_workers(p, &old, 2, 0);
    kill_workers(p, &late, 2, 0);
    for (int i = 0; i < POISON_KEYS_MAX - 1; ++i) {
        snprintf(path, sizeof(path), "/%d", i);
        struct poison_key k = key("", path);
        kill_workers(p, &k, 1, 10);
    }
    assert_int_equal(poison_death(p, &rule, &late, &workers[5], 20), POISON_HELD);
    assert_int_equal(poison_death(p, &rule, &old, &workers[5], 20), POISON_NOTHING);
}

static void blocked_paths_are_shown_cut_to_their_room(void **state)
{
    struct poison *p = *state;
    char longer[2 * POISON_PATH_MAX];
    struct poison_view v;

    memset(longer, 'a', sizeof(longer));
    struct poison_key k = {slice_of("shop"), {longer, sizeof(longer)}};
    assert_int_equal(kill_workers(p, &k, 3, 100), POISON_HELD);
    poison_view(p, 10102, &v);
    assert_int_equal(v.nheld, 1);
    assert_string_equal(v.held[0].cls, "shop");
    assert_int_equal(strlen(v.held[0].path), POISON_PATH_MAX);
    assert_int_equal(v.held[0].for_ms, 20000);
}

enum { THREADS = 4, ROUNDS = 20000 };

static void *many_calls(void *arg)
{
    struct poison *p = arg;
    char path[32];

    for (int i = 0; i < ROUNDS; ++i) {
        snprintf(path, sizeof(path), "/%d", i % 40);
        struct poison_key k = key("", path);
        uint64_t now_ms = (uint64_t)i * 7;

        poison_death(p, &rule, &k, &workers[i % 64], now_ms);
        poison_responded(p, &rule, &k, now_ms);
        poison_holds(p, &k, now_ms);
    }
    return NULL;
}

static void threads_share_it(void **state)
{
    struct poison *p = *state;
    pthread_t threads[THREADS];
    struct poison_view v;

    for (int i = 0; i < THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, many_calls, p), 0);
    for (int i = 0; i < THREADS; ++i)
        pthread_join(threads[i], NULL);
    poison_view(p, ROUNDS * 7, &v);
    assert_true(v.nheld <= POISON_HELD_MAX);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(after_so_many_deaths_it_is_held_for_a_while),
        TEST(back_again_one_death_more_is_enough),
        TEST(deaths_outside_of_the_window_do_not_count),
        TEST(requests_that_end_with_one_worker_are_one_death),
        TEST(a_path_with_more_responses_than_deaths_is_not_blocked),
        TEST(a_clock_of_another_loop_may_be_behind),
        TEST(off_is_off),
        TEST(a_full_table_blocks_no_further_path),
        TEST(only_so_many_suspects_are_remembered_those_of_late),
        TEST(blocked_paths_are_shown_cut_to_their_room),
        TEST(threads_share_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
