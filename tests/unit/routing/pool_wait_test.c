/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/pool_fixture.h"

enum { WAITERS = 8 };

struct queue {
    struct fixture f;
    struct pool_waiter waiters[WAITERS];
};

static void start(struct queue *q)
{
    *q = (struct queue){0};
    fixture_start(&q->f, &fixture_settings);
}

static enum err get_for(struct queue *q, int waiter, const char *cls)
{
    struct pool_request r = {
        .cls = slice_of(cls), .waiter = &q->waiters[waiter], .released = &q->f.released};
    enum err e = pool_get(q->f.pool, &r, 1, &q->f.picks[q->f.npicks]);

    q->f.npicks += e == ERR_OK;
    pool_check(q->f.pool);
    return e;
}

static bool cancel(struct queue *q, int waiter)
{
    bool ours = pool_wait_cancel(q->f.pool, &q->waiters[waiter], &q->f.released);

    pool_check(q->f.pool);
    return ours;
}

/* The number of the next waiter that was released, or -1. */
static int next_turn(struct queue *q)
{
    struct list *node = list_pop_front(&q->f.released);

    return node != NULL ? (int)(list_entry(node, struct pool_waiter, node) - q->waiters) : -1;
}

static void end(struct queue *q)
{
    for (int i = 0; i < WAITERS; ++i)
        cancel(q, i);
    fixture_end(&q->f);
}

static void a_joining_worker_lets_go_as_many_as_it_serves_at_once(void **state)
{
    struct queue q;

    (void)state;
    start(&q);
    worker_unref(q.f.workers[0]);
    q.f.workers[0] =
        worker_create(&(struct worker_options){.name = SLICE_LIT("w0"),
                                               .concurrency = 2,
                                               .context = &q.f,
                                               .context_release = fixture_context_release});
    for (int i = 0; i < 4; ++i)
        assert_int_equal(get_for(&q, i, "a"), ERR_BUSY);
    fixture_resume(&q.f, 0, "");
    assert_int_equal(next_turn(&q), 0);
    assert_int_equal(next_turn(&q), 1);
    assert_int_equal(next_turn(&q), -1);
    assert_int_equal(get_for(&q, 0, "a"), ERR_OK);
    assert_int_equal(get_for(&q, 1, "a"), ERR_OK);
    assert_int_equal(next_turn(&q), -1);
    /* The next at each finished request. */
    fixture_put(&q.f, 0);
    assert_int_equal(next_turn(&q), 2);
    fixture_put(&q.f, 0);
    assert_int_equal(next_turn(&q), 3);
    q.f.contexts_released = 0;
    end(&q);
}

static void a_new_request_stands_behind_those_that_wait(void **state)
{
    struct queue q;

    (void)state;
    start(&q);
    assert_int_equal(get_for(&q, 0, "a"), ERR_BUSY);
    assert_int_equal(get_for(&q, 1, "a"), ERR_BUSY);
    fixture_resume(&q.f, 0, "");
    assert_int_equal(get_for(&q, 2, "a"), ERR_BUSY);
    assert_int_equal(next_turn(&q), 0);
    assert_int_equal(get_for(&q, 0, "a"), ERR_OK);
    fixture_put(&q.f, 0);
    assert_int_equal(next_turn(&q), 1);
    assert_int_equal(get_for(&q, 1, "a"), ERR_OK);
    fixture_put(&q.f, 0);
    assert_int_equal(next_turn(&q), 2);
    assert_int_equal(get_for(&q, 2, "a"), ERR_OK);
    /* No request is waiting any more: the next ones need not queue, busy or not. */
    assert_int_equal(get_for(&q, 3, "a"), ERR_OK);
    end(&q);
}

static void a_full_queue_reports_it(void **state)
{
    struct queue q;

    (void)state;
    start(&q);
    for (int i = 0; i < 5; ++i)
        assert_int_equal(get_for(&q, i, "a"), ERR_BUSY);
    assert_int_equal(get_for(&q, 5, "a"), ERR_QUEUE_FULL);
    assert_int_equal(q.waiters[5].state, WAITER_IDLE);
    assert_true(cancel(&q, 3));
    assert_int_equal(get_for(&q, 5, "a"), ERR_BUSY);
    end(&q);
}

static void a_turn_given_back_goes_to_the_next(void **state)
{
    struct queue q;

    (void)state;
    start(&q);
    for (int i = 0; i < 3; ++i)
        assert_int_equal(get_for(&q, i, "a"), ERR_BUSY);
    fixture_resume(&q.f, 0, "");
    assert_int_equal(next_turn(&q), 0);
    /* A waiter that was released may have a wake-up in flight. */
    assert_false(cancel(&q, 0));
    assert_true(cancel(&q, 0));
    assert_int_equal(next_turn(&q), 1);
    /* A turn that finds all workers excluded is given back, too. */
    struct worker *tried[] = {q.f.workers[0]};
    struct pool_request r = {.cls = SLICE_LIT("a"),
                             .excluded = tried,
                             .nexcluded = 1,
                             .waiter = &q.waiters[1],
                             .released = &q.f.released};
    assert_int_equal(pool_get(q.f.pool, &r, 1, &q.f.picks[0]), ERR_NO_WORKER);
    assert_int_equal(next_turn(&q), 2);
    assert_int_equal(get_for(&q, 2, "a"), ERR_OK);
    end(&q);
}

static void a_turn_that_comes_to_nothing_keeps_its_place(void **state)
{
    struct queue q;

    (void)state;
    start(&q);
    for (int i = 0; i < 5; ++i)
        assert_int_equal(get_for(&q, i, "a"), ERR_BUSY);
    fixture_resume(&q.f, 0, "");
    fixture_resume(&q.f, 1, "");
    fixture_resume(&q.f, 2, "");
    for (int i = 0; i < 3; ++i)
        assert_int_equal(next_turn(&q), i);
    for (int i = 0; i < 3; ++i)
        fixture_remove(&q.f, i);
    /* They come back in any order, and may do so although the queue is at its limit. */
    assert_int_equal(get_for(&q, 1, "a"), ERR_BUSY);
    assert_int_equal(get_for(&q, 2, "a"), ERR_BUSY);
    assert_int_equal(get_for(&q, 0, "a"), ERR_BUSY);
    for (int i = 0; i < 5; ++i) {
        fixture_resume(&q.f, i, "");
        assert_int_equal(next_turn(&q), i);
    }
    end(&q);
}

static void an_idle_newcomer_gets_a_turn_whatever_the_others_have_in_flight(void **state)
{
    struct queue q;

    (void)state;
    start(&q);
    fixture_resume(&q.f, 0, "a=9");
    for (int i = 0; i < 4; ++i)
        assert_int_equal(fixture_get(&q.f, "a"), 0);
    fixture_available(&q.f, 0, false);
    for (int i = 0; i < 3; ++i)
        assert_int_equal(get_for(&q, i, "b"), ERR_BUSY);
    fixture_available(&q.f, 0, true);
    assert_int_equal(next_turn(&q), -1);
    fixture_resume(&q.f, 1, "");
    assert_int_equal(next_turn(&q), 0);
    assert_int_equal(get_for(&q, 0, "b"), ERR_OK);
    assert_int_equal(next_turn(&q), -1);
    fixture_put(&q.f, 1);
    assert_int_equal(next_turn(&q), 1);
    end(&q);
}

static void a_turn_used_elsewhere_leaves_the_free_place_to_the_next(void **state)
{
    struct queue q;

    (void)state;
    start(&q);
    fixture_resume(&q.f, 0, "a=9");
    assert_int_equal(fixture_get(&q.f, "a"), 0);
    fixture_available(&q.f, 0, false);
    assert_int_equal(get_for(&q, 0, "a"), ERR_BUSY);
    assert_int_equal(get_for(&q, 1, "b"), ERR_BUSY);
    fixture_available(&q.f, 0, true);
    fixture_resume(&q.f, 1, "");
    assert_int_equal(next_turn(&q), 0);
    assert_int_equal(next_turn(&q), -1);
    /* It goes to the worker with the skill, and 1 is still idle. */
    assert_int_equal(get_for(&q, 0, "a"), ERR_OK);
    assert_ptr_equal(fixture_latest(&q.f)->worker, q.f.workers[0]);
    assert_int_equal(next_turn(&q), 1);
    assert_int_equal(get_for(&q, 1, "b"), ERR_OK);
    assert_ptr_equal(fixture_latest(&q.f)->worker, q.f.workers[1]);
    end(&q);
}

static void without_a_list_a_turn_is_owed_until_there_is_one(void **state)
{
    struct queue q;

    (void)state;
    start(&q);
    for (int i = 0; i < 2; ++i)
        assert_int_equal(get_for(&q, i, "a"), ERR_BUSY);
    fixture_resume(&q.f, 0, "");
    assert_int_equal(next_turn(&q), 0);
    assert_false(pool_wait_cancel(q.f.pool, &q.waiters[0], NULL));
    pool_check(q.f.pool);
    assert_int_equal(next_turn(&q), -1);
    fixture_resume(&q.f, 0, "");
    assert_int_equal(next_turn(&q), 1);
    end(&q);
}

static void without_a_waiter_none_waits(void **state)
{
    struct queue q;

    (void)state;
    start(&q);
    assert_int_equal(fixture_get(&q.f, "a"), -1);
    assert_int_equal(get_for(&q, 0, "a"), ERR_BUSY);
    assert_int_equal(get_for(&q, 1, "a"), ERR_BUSY);
    fixture_resume(&q.f, 0, "");
    assert_int_equal(fixture_get(&q.f, "a"), 0);
    end(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_joining_worker_lets_go_as_many_as_it_serves_at_once),
        cmocka_unit_test(a_new_request_stands_behind_those_that_wait),
        cmocka_unit_test(a_full_queue_reports_it),
        cmocka_unit_test(a_turn_given_back_goes_to_the_next),
        cmocka_unit_test(a_turn_that_comes_to_nothing_keeps_its_place),
        cmocka_unit_test(an_idle_newcomer_gets_a_turn_whatever_the_others_have_in_flight),
        cmocka_unit_test(a_turn_used_elsewhere_leaves_the_free_place_to_the_next),
        cmocka_unit_test(without_a_list_a_turn_is_owed_until_there_is_one),
        cmocka_unit_test(without_a_waiter_none_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
