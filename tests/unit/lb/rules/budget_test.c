/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/budget.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

static void a_share_of_the_requests_may_be_retries(void **state)
{
    (void)state;
    struct retry_budget b = {0};

    for (int i = 0; i < 20; ++i)
        assert_true(retry_budget_acquire(&b, 100, 0.2, 10));
    assert_false(retry_budget_acquire(&b, 100, 0.2, 10));
    assert_true(retry_budget_acquire(&b, 105, 0.2, 10));
    retry_budget_release(&b);
    retry_budget_release(&b);
    assert_true(retry_budget_acquire(&b, 100, 0.2, 10));
    assert_false(retry_budget_acquire(&b, 100, 0.2, 10));
}

static void a_minimum_of_retries_is_permitted_at_few_requests(void **state)
{
    (void)state;
    struct retry_budget b = {0};

    for (int i = 0; i < 10; ++i)
        assert_true(retry_budget_acquire(&b, 1, 0.2, 10));
    assert_false(retry_budget_acquire(&b, 1, 0.2, 10));
}

static void no_share_and_no_least_is_no_retry(void **state)
{
    (void)state;
    struct retry_budget b = {0};

    assert_false(retry_budget_acquire(&b, 1000000, 0, 0));
    assert_int_equal(atomic_load(&b.taken), 0);
}

enum { THREADS = 4, ROUNDS = 50000, LEAST = 2 };

struct shared {
    struct retry_budget budget;
    _Atomic int holders, most, takes;
};

static void *take_and_give(void *arg)
{
    struct shared *s = arg;

    for (int i = 0; i < ROUNDS; ++i) {
        if (!retry_budget_acquire(&s->budget, 4, 0.5, LEAST))
            continue;
        int now = atomic_fetch_add(&s->holders, 1) + 1;
        int most = atomic_load(&s->most);

        while (now > most && !atomic_compare_exchange_weak(&s->most, &most, now))
            ;
        atomic_fetch_add(&s->takes, 1);
        atomic_fetch_sub(&s->holders, 1);
        retry_budget_release(&s->budget);
    }
    return NULL;
}

static void threads_never_take_more_than_there_are(void **state)
{
    (void)state;
    struct shared s = {0};
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &s), 0);
    for (int i = 0; i < THREADS; ++i)
        pthread_join(threads[i], NULL);
    assert_in_range(atomic_load(&s.most), 1, LEAST);
    assert_true(atomic_load(&s.takes) > 0);
    assert_int_equal(atomic_load(&s.budget.taken), 0);
}

/* ---- tunnels ---- */

static void a_place_is_taken_until_the_handshake_fails_or_the_tunnel_ends(void **state)
{
    (void)state;
    struct tunnel_limit t = {0};

    tunnel_limit_set(&t, 2);
    assert_true(tunnel_limit_has_room(&t));
    assert_true(tunnel_limit_acquire(&t));
    assert_int_equal(tunnel_limit_open(&t), 0); /* a handshake does not count as a tunnel */
    tunnel_limit_opened(&t);
    assert_true(tunnel_limit_acquire(&t));
    assert_int_equal(tunnel_limit_open(&t), 1);
    assert_false(tunnel_limit_has_room(&t));
    assert_false(tunnel_limit_acquire(&t));
    tunnel_limit_release(&t);
    assert_int_equal(tunnel_limit_open(&t), 1);
    assert_true(tunnel_limit_acquire(&t));
    tunnel_limit_closed(&t);
    assert_int_equal(tunnel_limit_open(&t), 0);
    assert_true(tunnel_limit_acquire(&t));
    assert_false(tunnel_limit_acquire(&t));
}

static void zero_is_no_limit(void **state)
{
    (void)state;
    struct tunnel_limit t = {0};

    for (int i = 0; i < 100000; ++i)
        assert_true(tunnel_limit_acquire(&t));
    assert_true(tunnel_limit_has_room(&t));
}

static void a_lower_limit_ends_nothing_and_admits_none_until_there_is_room(void **state)
{
    (void)state;
    struct tunnel_limit t = {0};

    tunnel_limit_set(&t, 3);
    for (int i = 0; i < 3; ++i) {
        assert_true(tunnel_limit_acquire(&t));
        tunnel_limit_opened(&t);
    }
    tunnel_limit_set(&t, 1);
    assert_int_equal(tunnel_limit_open(&t), 3);
    assert_int_equal(tunnel_limit_max(&t), 1);
    for (int i = 0; i < 3; ++i) {
        assert_false(tunnel_limit_acquire(&t));
        tunnel_limit_closed(&t);
    }
    assert_true(tunnel_limit_acquire(&t));
    assert_false(tunnel_limit_acquire(&t));
    tunnel_limit_set(&t, 2);
    assert_true(tunnel_limit_acquire(&t));
}

enum { MOST = 2 };

struct shared_limit {
    struct tunnel_limit limit;
    _Atomic int holders, over, takes;
};

static void *take_and_end(void *arg)
{
    struct shared_limit *s = arg;

    for (int i = 0; i < ROUNDS; ++i) {
        if (!tunnel_limit_acquire(&s->limit))
            continue;
        if (atomic_fetch_add(&s->holders, 1) + 1 > MOST)
            atomic_fetch_add(&s->over, 1);
        atomic_fetch_add(&s->takes, 1);
        atomic_fetch_sub(&s->holders, 1);
        if (i % 2 == 0) {
            tunnel_limit_release(&s->limit);
        } else {
            tunnel_limit_opened(&s->limit);
            tunnel_limit_closed(&s->limit);
        }
    }
    return NULL;
}

static void the_limit_holds_over_all_loops(void **state)
{
    (void)state;
    struct shared_limit s = {0};
    pthread_t threads[THREADS];

    tunnel_limit_set(&s.limit, MOST);
    for (int i = 0; i < THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_end, &s), 0);
    for (int i = 0; i < THREADS; ++i)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&s.over), 0);
    assert_true(atomic_load(&s.takes) > 0);
    assert_int_equal(atomic_load(&s.limit.places), 0);
    assert_int_equal(tunnel_limit_open(&s.limit), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_of_the_requests_may_be_retries),
        cmocka_unit_test(a_minimum_of_retries_is_permitted_at_few_requests),
        cmocka_unit_test(no_share_and_no_least_is_no_retry),
        cmocka_unit_test(threads_never_take_more_than_there_are),
        cmocka_unit_test(a_place_is_taken_until_the_handshake_fails_or_the_tunnel_ends),
        cmocka_unit_test(zero_is_no_limit),
        cmocka_unit_test(a_lower_limit_ends_nothing_and_admits_none_until_there_is_room),
        cmocka_unit_test(the_limit_holds_over_all_loops),
    };

    return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
