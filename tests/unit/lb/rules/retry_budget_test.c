/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/retry_budget.h"

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
        assert_true(retry_budget_take(&b, 100, 0.2, 10));
    assert_false(retry_budget_take(&b, 100, 0.2, 10));
    assert_true(retry_budget_take(&b, 105, 0.2, 10));
    retry_budget_give(&b);
    retry_budget_give(&b);
    assert_true(retry_budget_take(&b, 100, 0.2, 10));
    assert_false(retry_budget_take(&b, 100, 0.2, 10));
}

static void some_may_be_when_there_are_few_requests(void **state)
{
    (void)state;
    struct retry_budget b = {0};

    for (int i = 0; i < 10; ++i)
        assert_true(retry_budget_take(&b, 1, 0.2, 10));
    assert_false(retry_budget_take(&b, 1, 0.2, 10));
}

static void no_share_and_no_least_is_no_retry(void **state)
{
    (void)state;
    struct retry_budget b = {0};

    assert_false(retry_budget_take(&b, 1000000, 0, 0));
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
        if (!retry_budget_take(&s->budget, 4, 0.5, LEAST))
            continue;
        int now = atomic_fetch_add(&s->holders, 1) + 1;
        int most = atomic_load(&s->most);

        while (now > most && !atomic_compare_exchange_weak(&s->most, &most, now))
            ;
        atomic_fetch_add(&s->takes, 1);
        atomic_fetch_sub(&s->holders, 1);
        retry_budget_give(&s->budget);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_of_the_requests_may_be_retries),
        cmocka_unit_test(some_may_be_when_there_are_few_requests),
        cmocka_unit_test(no_share_and_no_least_is_no_retry),
        cmocka_unit_test(threads_never_take_more_than_there_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
