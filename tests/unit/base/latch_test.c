/* SPDX-License-Identifier: Apache-2.0 */
/* This test inspects the internals of the latch under the thread sanitizer, too. */
#define LATCH_NOT_ANNOTATED
#include "common/base/latch.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

enum { THREADS = 4, ROUNDS = 50000, LONG_ROUNDS = 300, WAIT_S = 60 };

struct shared {
    struct latch latch;
    uint64_t counted; /* under it */
    atomic_uint inside;
    atomic_uint most_inside;
    unsigned rounds;
    bool sleeping; /* the holder sleeps, so that the others have to wait */
};

static void hold(struct shared *s)
{
    unsigned inside = atomic_fetch_add(&s->inside, 1) + 1;

    if (inside > atomic_load(&s->most_inside))
        atomic_store(&s->most_inside, inside);
    ++s->counted;
    if (s->sleeping)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    atomic_fetch_sub(&s->inside, 1);
}

static void *take_and_give(void *context)
{
    struct shared *s = context;

    for (unsigned i = 0; i < s->rounds; ++i) {
        latch_lock(&s->latch);
        hold(s);
        latch_unlock(&s->latch);
    }
    return NULL;
}

static void run(struct shared *s)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, s), 0);
    for (int i = 0; i < THREADS; ++i)
        pthread_join(threads[i], NULL);
    assert_int_equal(s->counted, (uint64_t)THREADS * s->rounds);
    assert_int_equal(s->most_inside, 1);
    assert_int_equal(s->latch.state, LATCH_FREE);
}

static void one_thread_has_it_at_a_time(void **state)
{
    struct shared s = {.rounds = ROUNDS};

    (void)state;
    run(&s);
}

static void a_thread_that_sleeps_for_the_latch_gets_it(void **state)
{
    struct shared s = {.rounds = LONG_ROUNDS, .sleeping = true};

    (void)state;
    run(&s);
}

static void a_thread_that_waits_marks_the_latch_awaited_and_gets_it_on_release(void **state)
{
    struct shared s = {.rounds = 1};
    struct timespec until;
    struct timespec now;
    pthread_t thread;

    (void)state;
    latch_lock(&s.latch);
    assert_int_equal(s.latch.state, LATCH_HELD);
    assert_int_equal(pthread_create(&thread, NULL, take_and_give, &s), 0);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_S;
    while (atomic_load(&s.latch.state) != LATCH_AWAITED) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        assert_true(now.tv_sec < until.tv_sec);
        sched_yield();
    }
    assert_int_equal(s.counted, 0);
    latch_unlock(&s.latch);
    pthread_join(thread, NULL);
    assert_int_equal(s.counted, 1);
    assert_int_equal(s.latch.state, LATCH_FREE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_has_it_at_a_time),
        cmocka_unit_test(a_thread_that_sleeps_for_the_latch_gets_it),
        cmocka_unit_test(a_thread_that_waits_marks_the_latch_awaited_and_gets_it_on_release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
