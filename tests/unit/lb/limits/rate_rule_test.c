/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limits/rate_rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND 1000000000ULL

enum { THREADS = 4, TURNS = 20000, KEYS = 64, BURST = 100 };

struct taker {
    pthread_t thread;
    struct rate_counter *counter;
    uint64_t passed;
};

static void *take_many(void *context)
{
    struct taker *t = context;
    const struct rate r = {.interval_ns = 3600 * SECOND / BURST, .burst = BURST};

    for (uint64_t i = 0; i < TURNS; ++i) {
        uint64_t key = i % KEYS * 0x9e3779b97f4a7c15ULL;

        t->passed += rate_counter_take(t->counter, key, SECOND, &r) == 0;
    }
    return NULL;
}

static void all_threads_together_get_what_one_would(void **state)
{
    static const size_t sizes[] = {KEYS, RATE_SHARDED_KEYS};
    struct taker takers[THREADS];

    (void)state;
    for (size_t s = 0; s < ARRAY_LEN(sizes); ++s) {
        struct rate_counter *c = rate_counter_create(sizes[s]);
        struct rate_view v;
        uint64_t passed = 0;

        for (int i = 0; i < THREADS; ++i) {
            takers[i] = (struct taker){.counter = rate_counter_ref(c)};
            assert_int_equal(pthread_create(&takers[i].thread, NULL, take_many, &takers[i]), 0);
        }
        rate_counter_view(c, &v);
        assert_true(v.keys <= KEYS);
        for (int i = 0; i < THREADS; ++i) {
            pthread_join(takers[i].thread, NULL);
            passed += takers[i].passed;
            rate_counter_unref(takers[i].counter);
        }
        rate_counter_view(c, &v);
        assert_int_equal(passed, KEYS * BURST);
        assert_int_equal(v.keys, KEYS);
        assert_int_equal(v.evicted, 0);
        rate_counter_unref(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_threads_together_get_what_one_would),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
