/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limits/limit_lease.h"
#include "tests/support/counter_check.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    LOOPS = 3,
    CLAIMANTS = 12, /* on each loop */
    ROUNDS = 400,   /* of each claimant */
    KEYS = 2,
    WORKERS = 2,
    /* A test that hangs fails. */
    TURNS_MAX = 2000000,
};

static struct limit make_limit(int mode, uint64_t timeout_ms)
{
    struct limit_problem p;
    struct limit limit;
    struct limit_settings s;

    settings_defaults(&limit_table, &s);
    s.mode = mode;
    s.workers = WORKERS;
    s.maxqueue = 1000;
    s.timeout_ms = timeout_ms;
    assert_true(limit_compile("some", &s, &limit, &p));
    limit.counter = limit_counter_create("some");
    limit_counter_set(limit.counter, (struct counter_limits){.workers = WORKERS});
    return limit;
}

static void end_limit(struct limit *limit)
{
    struct counter_table *tables[] = {limit->counter->table, limit->counter->coalescing};

    for (size_t i = 0; i < ARRAY_LEN(tables); ++i) {
        const struct counter_stats *s = counter_stats(tables[i]);

        counter_check(tables[i]);
        assert_int_equal(s->held, 0);
        assert_int_equal(s->waiting, 0);
        assert_int_equal(s->keys, 0);
    }
    limit_fini(limit);
}

/* ---- one loop ---- */

struct one {
    struct loop *loop;
    struct limit limit;
    struct limit_lease *leases[4];
    enum counter_result reported[4];
    int nreported;
};

static void on_lease_result(struct limit_lease *c, enum counter_result r)
{
    struct one *o = c->owner;

    for (int i = 0; i < 4; ++i) {
        if (o->leases[i] == c)
            o->reported[i] = r;
    }
    ++o->nreported;
}

static struct limit_lease *begin(struct one *o, int i, enum counter_kind kind)
{
    struct limit_lease *c = limit_lease_create(&o->limit, SLICE_LIT("some:x"), kind, o->loop, NULL);

    c->owner = o;
    c->on_result = on_lease_result;
    o->leases[i] = c;
    o->reported[i] = COUNTER_WAIT;
    return c;
}

static void give_back(struct one *o, int i, bool done)
{
    limit_lease_release(o->leases[i], done);
    o->leases[i] = NULL;
}

static void turn_until(struct one *o, int nreported)
{
    for (int i = 0; o->nreported < nreported; ++i) {
        assert_true(i < TURNS_MAX);
        loop_turn(o->loop, 50);
    }
}

static int setup_mode(void **state, int mode, uint64_t timeout_ms)
{
    struct one *o = calloc(1, sizeof(*o));

    o->loop = loop_create(0);
    o->limit = make_limit(mode, timeout_ms);
    *state = o;
    return 0;
}

static int setup_each(void **state)
{
    return setup_mode(state, LIMIT_EACH, 60000);
}

static int setup_any(void **state)
{
    return setup_mode(state, LIMIT_ANY, 60000);
}

static int setup_hasty(void **state)
{
    return setup_mode(state, LIMIT_EACH, 5);
}

static int teardown(void **state)
{
    struct one *o = *state;

    for (int i = 0; i < 4; ++i) {
        if (o->leases[i] != NULL)
            give_back(o, i, false);
    }
    loop_turn(o->loop, 0);
    end_limit(&o->limit);
    loop_destroy(o->loop);
    free(o);
    return 0;
}

static void the_next_one_is_reported_never_inside_of_a_call(void **state)
{
    struct one *o = *state;

    assert_int_equal(limit_lease_acquire(begin(o, 0, COUNTER_ME), true), COUNTER_LOCKED);
    assert_int_equal(limit_lease_acquire(begin(o, 1, COUNTER_ME), true), COUNTER_LOCKED);
    assert_int_equal(limit_lease_acquire(begin(o, 2, COUNTER_ME), true), COUNTER_WAIT);
    give_back(o, 0, true);
    assert_int_equal(o->nreported, 0);
    turn_until(o, 1);
    assert_int_equal(o->reported[2], COUNTER_LOCKED);
}

static void a_request_that_may_not_wait_is_notified_at_once_and_may_ask_again(void **state)
{
    struct one *o = *state;

    assert_int_equal(limit_lease_acquire(begin(o, 0, COUNTER_ME), true), COUNTER_LOCKED);
    assert_int_equal(limit_lease_acquire(begin(o, 1, COUNTER_ME), true), COUNTER_LOCKED);
    struct limit_lease *c = begin(o, 2, COUNTER_ME);
    assert_int_equal(limit_lease_acquire(c, false), COUNTER_TIMEOUT);
    assert_int_equal(limit_lease_acquire(c, true), COUNTER_WAIT);
    give_back(o, 1, true);
    turn_until(o, 1);
    assert_int_equal(o->reported[2], COUNTER_LOCKED);
}

static void a_wait_ends_with_its_time(void **state)
{
    struct one *o = *state;

    assert_int_equal(limit_lease_acquire(begin(o, 0, COUNTER_ME), true), COUNTER_LOCKED);
    assert_int_equal(limit_lease_acquire(begin(o, 1, COUNTER_ME), true), COUNTER_LOCKED);
    assert_int_equal(limit_lease_acquire(begin(o, 2, COUNTER_ME), true), COUNTER_WAIT);
    turn_until(o, 1);
    assert_int_equal(o->reported[2], COUNTER_TIMEOUT);
}

static void a_turn_that_comes_to_one_that_has_left_continues_to_the_next(void **state)
{
    struct one *o = *state;

    assert_int_equal(limit_lease_acquire(begin(o, 0, COUNTER_ME), true), COUNTER_LOCKED);
    assert_int_equal(limit_lease_acquire(begin(o, 1, COUNTER_ME), true), COUNTER_LOCKED);
    assert_int_equal(limit_lease_acquire(begin(o, 2, COUNTER_ME), true), COUNTER_WAIT);
    assert_int_equal(limit_lease_acquire(begin(o, 3, COUNTER_ME), true), COUNTER_WAIT);
    give_back(o, 0, true); /* the grant is in transit to 2 */
    give_back(o, 2, false);
    turn_until(o, 1);
    assert_int_equal(o->reported[3], COUNTER_LOCKED);
}

static void the_work_done_once_is_reported_to_all_that_want_any(void **state)
{
    struct one *o = *state;

    assert_int_equal(limit_lease_acquire(begin(o, 0, COUNTER_ANY), true), COUNTER_LOCKED);
    assert_int_equal(limit_lease_acquire(begin(o, 1, COUNTER_ANY), true), COUNTER_LOCKED);
    assert_int_equal(limit_lease_acquire(begin(o, 2, COUNTER_ANY), true), COUNTER_WAIT);
    assert_int_equal(limit_lease_acquire(begin(o, 3, COUNTER_ANY), true), COUNTER_WAIT);
    give_back(o, 0, true);
    turn_until(o, 2);
    assert_int_equal(o->reported[2], COUNTER_DONE);
    assert_int_equal(o->reported[3], COUNTER_DONE);
    /* ... and one that has no use for it does it itself */
    assert_int_equal(limit_lease_again(o->leases[2], false), COUNTER_LOCKED);
    assert_int_equal(limit_lease_again(o->leases[3], false), COUNTER_WAIT);
}

static void work_that_failed_is_the_next_ones(void **state)
{
    struct one *o = *state;

    assert_int_equal(limit_lease_acquire(begin(o, 0, COUNTER_ANY), true), COUNTER_LOCKED);
    assert_int_equal(limit_lease_acquire(begin(o, 1, COUNTER_ANY), true), COUNTER_LOCKED);
    assert_int_equal(limit_lease_acquire(begin(o, 2, COUNTER_ANY), true), COUNTER_WAIT);
    assert_int_equal(limit_lease_acquire(begin(o, 3, COUNTER_ANY), true), COUNTER_WAIT);
    give_back(o, 0, false);
    turn_until(o, 1);
    assert_int_equal(o->reported[2], COUNTER_LOCKED);
    assert_int_equal(o->reported[3], COUNTER_WAIT);
}

static void limits_that_are_raised_let_waiters_continue(void **state)
{
    struct one *o = *state;

    limit_counter_set(o->limit.counter, (struct counter_limits){.workers = 1});
    assert_int_equal(limit_lease_acquire(begin(o, 0, COUNTER_ME), true), COUNTER_LOCKED);
    assert_int_equal(limit_lease_acquire(begin(o, 1, COUNTER_ME), true), COUNTER_WAIT);
    limit_counter_set(o->limit.counter, (struct counter_limits){.workers = 2});
    turn_until(o, 1);
    assert_int_equal(o->reported[1], COUNTER_LOCKED);
}

/* ---- many loops ---- */

struct crowd;

struct claimant {
    struct thread *thread;
    struct limit_lease *lease;
    struct timer pause;
    unsigned rounds;
    unsigned key;
    bool holds;
};

struct thread {
    struct crowd *crowd;
    pthread_t id;
    struct loop *loop;
    uint64_t random;
    unsigned left; /* claimants */
    struct claimant claimants[CLAIMANTS];
};

struct crowd {
    struct limit limit;
    atomic_int held[KEYS];
    atomic_uint served, timed_out, left;
    pthread_barrier_t all_done;
    struct thread threads[LOOPS];
};

static unsigned pick(struct thread *t, unsigned n)
{
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(t->random >> 33) % n;
}

static void ask_anew(struct claimant *m);

static void end_round(struct claimant *m, bool done)
{
    if (m->holds)
        atomic_fetch_sub(&m->thread->crowd->held[m->key], 1);
    m->holds = false;
    limit_lease_release(m->lease, done);
    m->lease = NULL;
    ask_anew(m);
}

static void on_pause(struct timer *t)
{
    struct claimant *m = container_of(t, struct claimant, pause);

    if (m->lease == NULL) {
        ask_anew(m);
        return;
    }
    if (!m->holds)
        atomic_fetch_add(&m->thread->crowd->left, 1);
    end_round(m, pick(m->thread, 2) != 0);
}

static void on_result(struct claimant *m, enum counter_result r)
{
    struct crowd *c = m->thread->crowd;

    if (r == COUNTER_LOCKED) {
        int now = atomic_fetch_add(&c->held[m->key], 1) + 1;

        assert_true(now <= WORKERS);
        m->holds = true;
        atomic_fetch_add(&c->served, 1);
    } else if (r == COUNTER_TIMEOUT) {
        atomic_fetch_add(&c->timed_out, 1);
    } else if (r == COUNTER_DONE && pick(m->thread, 2) != 0) {
        r = limit_lease_again(m->lease, false);
        if (r != COUNTER_WAIT)
            on_result(m, r);
        return;
    }
    /* What is held is held for a while; a wait may be given up in between; else all is over. */
    if (r != COUNTER_LOCKED && r != COUNTER_WAIT)
        timer_start(m->thread->loop, &m->pause, 0);
    else if (r == COUNTER_LOCKED || pick(m->thread, 4) == 0)
        timer_start(m->thread->loop, &m->pause, pick(m->thread, 3));
}

static void on_crowd_result(struct limit_lease *c, enum counter_result r)
{
    struct claimant *m = c->owner;

    timer_stop(&m->pause);
    on_result(m, r);
}

static void ask_anew(struct claimant *m)
{
    struct thread *t = m->thread;
    static const char *const names[KEYS] = {"some:x", "some:y"};

    if (m->rounds == 0) {
        --t->left;
        return;
    }
    --m->rounds;
    m->key = pick(t, KEYS);
    m->lease = limit_lease_create(&t->crowd->limit, slice_of(names[m->key]),
                                  pick(t, 2) != 0 ? COUNTER_ANY : COUNTER_ME, t->loop, NULL);
    m->lease->owner = m;
    m->lease->on_result = on_crowd_result;
    on_result(m, limit_lease_acquire(m->lease, true));
}

static void *run(void *arg)
{
    struct thread *t = arg;

    t->loop = loop_create((unsigned)(t - t->crowd->threads));
    t->left = CLAIMANTS;
    for (int i = 0; i < CLAIMANTS; ++i) {
        struct claimant *m = &t->claimants[i];

        m->thread = t;
        m->rounds = ROUNDS;
        timer_init(&m->pause, on_pause);
        timer_start(t->loop, &m->pause, 0);
    }
    for (int i = 0; t->left != 0; ++i) {
        assert_true(i < TURNS_MAX);
        loop_turn(t->loop, 50);
    }
    /* Grants may be in transit to leases that have left. */
    pthread_barrier_wait(&t->crowd->all_done);
    loop_destroy(t->loop);
    return NULL;
}

static void on_many_loops_no_turn_is_lost_and_no_limit_passed(void **state)
{
    struct crowd *c = calloc(1, sizeof(*c));

    (void)state;
    c->limit = make_limit(LIMIT_ANY, 20);
    pthread_barrier_init(&c->all_done, NULL, LOOPS);
    for (unsigned i = 0; i < LOOPS; ++i) {
        c->threads[i].crowd = c;
        c->threads[i].random = 20261121 + i;
        assert_int_equal(pthread_create(&c->threads[i].id, NULL, run, &c->threads[i]), 0);
    }
    for (unsigned i = 0; i < LOOPS; ++i)
        pthread_join(c->threads[i].id, NULL);
    print_message("%u served, %u timed out, %u left\n", c->served, c->timed_out, c->left);
    assert_true(c->served > LOOPS * CLAIMANTS * ROUNDS / 10);
    for (unsigned i = 0; i < KEYS; ++i)
        assert_int_equal(c->held[i], 0);
    end_limit(&c->limit);
    pthread_barrier_destroy(&c->all_done);
    free(c);
}

int main(void)
{
#define CASE(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(the_next_one_is_reported_never_inside_of_a_call, setup_each),
        CASE(a_request_that_may_not_wait_is_notified_at_once_and_may_ask_again, setup_each),
        CASE(a_wait_ends_with_its_time, setup_hasty),
        CASE(a_turn_that_comes_to_one_that_has_left_continues_to_the_next, setup_each),
        CASE(the_work_done_once_is_reported_to_all_that_want_any, setup_any),
        CASE(work_that_failed_is_the_next_ones, setup_any),
        CASE(limits_that_are_raised_let_waiters_continue, setup_each),
        cmocka_unit_test(on_many_loops_no_turn_is_lost_and_no_limit_passed),
    };
#undef CASE

    return cmocka_run_group_tests(tests, NULL, NULL);
}
