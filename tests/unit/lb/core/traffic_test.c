/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "lb/core/traffic.h"

enum { MANY = 100000 };

struct seen {
    size_t n;
    double weight;
    uint64_t last_us; /* of the newest */
    bool in_order;
};

/* The class of each says its time, and is of its own length. */
static void add(struct traffic *t, uint64_t i)
{
    char cls[256];
    int len = snprintf(cls, sizeof(cls), "%0*llu", (int)(20 + i % 200), (unsigned long long)i);
    struct traffic_note n = {.application = 3,
                             .flags = TRAFFIC_SKILLED,
                             .cls = {cls, (size_t)len},
                             .worker = SLICE_LIT("127.0.0.1:1"),
                             .total_us = i,
                             .wait_us = UINT64_MAX};

    traffic_add(t, &n);
}

static void look(void *context, const struct traffic_note *n, double weight)
{
    struct seen *s = context;
    char cls[256];
    int len = snprintf(cls, sizeof(cls), "%0*llu", (int)(20 + n->total_us % 200),
                       (unsigned long long)n->total_us);

    assert_true(slice_eq(n->cls, (struct slice){cls, (size_t)len}));
    assert_true(slice_is(n->worker, "127.0.0.1:1"));
    assert_int_equal(n->application, 3);
    assert_int_equal(n->wait_us, UINT32_MAX);
    s->in_order = s->n == 0 || n->total_us > s->last_us;
    assert_true(s->in_order);
    s->last_us = n->total_us;
    ++s->n;
    s->weight += weight;
}

static void notes_arrive_whole_and_in_order(void **state)
{
    struct traffic *t = traffic_create();
    struct seen s = {0};

    (void)state;
    for (uint64_t i = 1; i <= 5000; ++i) {
        add(t, i);
        if (i % 50 == 0)
            traffic_drain(t, look, &s);
    }
    assert_int_equal(s.n, 5000);
    assert_true(s.weight == 5000);
    traffic_destroy(t);
}

static void count(void *context, const struct traffic_note *n, double weight)
{
    size_t *seen = context;

    (void)weight;
    assert_true(slice_is(n->cls, "thirteen byte"));
    ++*seen;
}

static void the_rest_of_the_ring_may_be_shorter_than_a_head(void **state)
{
    struct traffic *t = traffic_create();
    /* 48 bytes, so that 16 are left behind the 1365th. */
    struct traffic_note n = {.cls = SLICE_LIT("thirteen byte"), .worker = SLICE_LIT("127.0.0.1:1")};
    size_t seen = 0;

    (void)state;
    for (int i = 1; i <= 3000; ++i) {
        traffic_add(t, &n);
        if (i % 50 == 0)
            traffic_drain(t, count, &seen);
    }
    assert_int_equal(seen, 3000);
    traffic_destroy(t);
}

static void notes_that_fit_represent_those_that_do_not(void **state)
{
    struct traffic *t = traffic_create();
    struct seen s = {0};

    (void)state;
    for (uint64_t i = 1; i <= 5000; ++i)
        add(t, i);
    traffic_drain(t, look, &s);
    assert_true(s.n > 100);
    assert_true(s.n < 5000);
    assert_true(s.weight > 4999.9);
    assert_true(s.weight < 5000.1);
    add(t, 9000);
    s = (struct seen){0};
    traffic_drain(t, look, &s);
    assert_int_equal(s.n, 1);
    assert_true(s.weight == 1);
    traffic_destroy(t);
}

static void *write_many(void *context)
{
    for (uint64_t i = 1; i <= MANY; ++i)
        add(context, i);
    return NULL;
}

static void a_thread_reads_while_another_writes(void **state)
{
    struct traffic *t = traffic_create();
    struct seen s = {0};
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, write_many, t), 0);
    for (unsigned i = 0; i < 1000; ++i)
        traffic_drain(t, look, &s);
    pthread_join(thread, NULL);
    size_t before = s.n;
    size_t notes = traffic_drain(t, look, &s);
    assert_int_equal(notes, s.n - before);
    assert_int_equal(traffic_drain(t, look, &s), 0);
    assert_true(s.n > 0);
    assert_true(s.n <= MANY);
    traffic_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_arrive_whole_and_in_order),
        cmocka_unit_test(the_rest_of_the_ring_may_be_shorter_than_a_head),
        cmocka_unit_test(notes_that_fit_represent_those_that_do_not),
        cmocka_unit_test(a_thread_reads_while_another_writes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
