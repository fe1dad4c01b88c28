/* SPDX-License-Identifier: Apache-2.0
 *
 * Three loops of one thread, turned by hand: a loop that is busy is one that is not turned.
 */
#include "common/http/http_balance.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PLACES = 3, GIVEN_AT_ONCE_MAX = 1000 };

struct fixture {
    struct http_balance *balance;
    struct loop *loops[PLACES];
    uint64_t now_ms;
    struct taker {
        unsigned n;
        int last_fd;
        unsigned last_listener;
    } takers[PLACES];
};

static void take(void *context, const struct http_accepted *a)
{
    struct taker *t = context;

    ++t->n;
    t->last_fd = a->fd;
    t->last_listener = a->listener;
}

static void join(struct fixture *f, unsigned i)
{
    http_balance_join(f->balance, i, f->loops[i], take, &f->takers[i]);
}

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    f->balance = http_balance_create(PLACES);
    for (unsigned i = 0; i < PLACES; ++i) {
        f->loops[i] = loop_create(i);
        join(f, i);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < PLACES; ++i) {
        http_balance_leave(f->balance, i);
        loop_destroy(f->loops[i]);
    }
    http_balance_destroy(f->balance);
    free(f);
    return 0;
}

static bool give(struct fixture *f, unsigned from, int fd)
{
    const struct http_accepted a = {.fd = fd, .listener = 7};

    return http_balance_pass_on(f->balance, from, &a, f->now_ms);
}

static void have(struct fixture *f, uint64_t a, uint64_t b, uint64_t c)
{
    http_balance_set_load(f->balance, 0, a);
    http_balance_set_load(f->balance, 1, b);
    http_balance_set_load(f->balance, 2, c);
}

static void the_loop_with_least_in_flight_gets_the_connection(void **state)
{
    struct fixture *f = *state;
    struct http_balance_view v;

    have(f, 100, 50, 10);
    assert_true(give(f, 0, 5));
    assert_int_equal(f->takers[2].n, 0);
    loop_turn(f->loops[2], 0);
    assert_int_equal(f->takers[2].n, 1);
    assert_int_equal(f->takers[2].last_fd, 5);
    assert_int_equal(f->takers[2].last_listener, 7);
    http_balance_view(f->balance, 0, &v);
    assert_int_equal(v.given, 1);
    assert_int_equal(v.in_flight, 100);
    http_balance_view(f->balance, 2, &v);
    assert_int_equal(v.taken, 1);
}

static void a_connection_stays_when_none_has_clearly_less(void **state)
{
    struct fixture *f = *state;

    have(f, 2, 0, 0);
    assert_false(give(f, 0, 5));
    have(f, 100, 95, 97);
    assert_false(give(f, 0, 5));
    have(f, 10, 50, 100);
    assert_false(give(f, 0, 5));
}

static void connections_in_transit_count_as_in_flight(void **state)
{
    struct fixture *f = *state;
    unsigned n = 0;

    have(f, 16, 4, 4);
    while (n < GIVEN_AT_ONCE_MAX && give(f, 0, (int)n))
        ++n;
    loop_turn(f->loops[1], 0);
    loop_turn(f->loops[2], 0);
    assert_int_equal(f->takers[1].n + f->takers[2].n, n);
    /* Until 16 is at most 4 and an eighth above them. */
    assert_int_equal(f->takers[1].n, 7);
    assert_int_equal(f->takers[2].n, 7);
}

static void a_loop_that_does_not_come_round_is_given_no_more(void **state)
{
    struct fixture *f = *state;
    have(f, 1000, UINT64_MAX, 0);
    assert_true(give(f, 0, 5));
    f->now_ms += 4;
    assert_true(give(f, 0, 6));
    f->now_ms += 1;
    assert_false(give(f, 0, 7));
    loop_turn(f->loops[2], 0);
    assert_int_equal(f->takers[2].n, 2);
    assert_true(give(f, 0, 7));
}

static void no_more_is_in_transit_to_a_loop_than_there_is_room_for(void **state)
{
    struct fixture *f = *state;
    unsigned n = 0;

    have(f, 1000000, UINT64_MAX, 0);
    while (n < GIVEN_AT_ONCE_MAX && give(f, 0, (int)n))
        ++n;
    assert_in_range(n, 1, 32);
    loop_turn(f->loops[2], 0);
    assert_int_equal(f->takers[2].n, n);
}

static void a_loop_that_can_take_no_more_gets_none(void **state)
{
    struct fixture *f = *state;

    have(f, 100, UINT64_MAX, UINT64_MAX);
    assert_false(give(f, 0, 5));
}

static void a_loop_that_leaves_takes_its_connections_and_gets_no_more(void **state)
{
    struct fixture *f = *state;

    have(f, 100, 100, 0);
    assert_true(give(f, 0, 5));
    http_balance_leave(f->balance, 2);
    assert_int_equal(f->takers[2].n, 1);
    assert_false(give(f, 0, 6));
    loop_turn(f->loops[2], 0); /* the message finds nothing */
    assert_int_equal(f->takers[2].n, 1);
}

/* ---- threads ---- */

enum { EACH_GIVES = 20000 };

struct runner {
    pthread_t thread;
    struct http_balance *balance;
    unsigned index;
    pthread_barrier_t *barrier;
    atomic_uint *live; /* loops that still give */
    struct taker taker;
    unsigned kept;
};

static void *run(void *context)
{
    struct runner *r = context;
    struct loop *l = loop_create(r->index);
    const struct http_accepted a = {.fd = (int)r->index};

    http_balance_join(r->balance, r->index, l, take, &r->taker);
    pthread_barrier_wait(r->barrier);
    for (unsigned i = 0; i < EACH_GIVES; ++i) {
        http_balance_set_load(r->balance, r->index, i % 50);
        r->kept += !http_balance_pass_on(r->balance, r->index, &a, loop_now_ms(l));
        if (i % 16 == 0)
            loop_turn(l, 0);
    }
    atomic_fetch_sub(r->live, 1);
    while (atomic_load(r->live) != 0)
        loop_turn(l, 1);
    http_balance_leave(r->balance, r->index);
    pthread_barrier_wait(r->barrier); /* no thread posts any more */
    loop_destroy(l);
    return NULL;
}

static void between_threads_no_connection_is_lost_or_served_twice(void **state)
{
    (void)state;
    struct http_balance *b = http_balance_create(PLACES);
    struct runner runners[PLACES] = {0};
    pthread_barrier_t barrier;
    atomic_uint live = PLACES;
    unsigned served = 0;
    unsigned taken = 0;

    pthread_barrier_init(&barrier, NULL, PLACES);
    for (unsigned i = 0; i < PLACES; ++i) {
        runners[i] = (struct runner){.balance = b, .index = i, .barrier = &barrier, .live = &live};
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run, &runners[i]), 0);
    }
    for (unsigned i = 0; i < PLACES; ++i) {
        struct http_balance_view v;

        pthread_join(runners[i].thread, NULL);
        http_balance_view(b, i, &v);
        assert_int_equal(v.taken, runners[i].taker.n);
        assert_int_equal(v.given, EACH_GIVES - runners[i].kept);
        served += runners[i].kept + runners[i].taker.n;
        taken += runners[i].taker.n;
    }
    assert_int_equal(served, PLACES * EACH_GIVES);
    assert_int_not_equal(taken, 0);
    pthread_barrier_destroy(&barrier);
    http_balance_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(the_loop_with_least_in_flight_gets_the_connection),
        TEST(a_connection_stays_when_none_has_clearly_less),
        TEST(connections_in_transit_count_as_in_flight),
        TEST(a_loop_that_does_not_come_round_is_given_no_more),
        TEST(no_more_is_in_transit_to_a_loop_than_there_is_room_for),
        TEST(a_loop_that_can_take_no_more_gets_none),
        TEST(a_loop_that_leaves_takes_its_connections_and_gets_no_more),
#undef TEST
        cmocka_unit_test(between_threads_no_connection_is_lost_or_served_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
