/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/core/route_wait.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "tests/support/pool_check.h"

struct fixture {
    struct loop *loop;
    struct pool *pool;
    struct worker *worker;
    struct route_wait wait;
    struct pool_pick pick;
    int woken, settled;
};

static struct fixture *fixture_of(struct route_wait *w)
{
    return container_of(w, struct fixture, wait);
}

static enum err get(struct fixture *f)
{
    struct list released;
    struct pool_request r = {.waiter = &f->wait.waiter, .released = &released};

    list_init(&released);
    enum err e = pool_get(f->pool, &r, 1, &f->pick);

    route_wait_wake(&released);
    return e;
}

static void on_woken(struct route_wait *w)
{
    ++fixture_of(w)->woken;
}

static void on_settled(struct route_wait *w)
{
    ++fixture_of(w)->settled;
}

/* One request that is parked, as there is no worker. */
static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct pool_settings s = {.variance = 4,
                              .backlog_history = 9,
                              .unskilled_score = 1,
                              .max_classes = 100,
                              .max_waiting = 10};

    f->loop = loop_create(0);
    f->pool = pool_create(&s, "");
    f->worker = worker_create(&(struct worker_options){.name = SLICE_LIT("w"), .concurrency = 1});
    route_wait_init(&f->wait, f->loop);
    f->wait.woken = on_woken;
    f->wait.settled = on_settled;
    assert_int_equal(get(f), ERR_BUSY);
    *state = f;
    return 0;
}

static void *join_pool(void *arg)
{
    struct fixture *f = arg;
    struct resume none = {0};
    struct list released;

    list_init(&released);
    pool_new_resume(f->pool, f->worker, &none, "", "", &released);
    route_wait_wake(&released);
    assert_false(list_linked(&released));
    return NULL;
}

static void join_from_another_thread(struct fixture *f)
{
    pthread_t t;

    assert_int_equal(pthread_create(&t, NULL, join_pool, f), 0);
    pthread_join(t, NULL);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    struct list released;

    list_init(&released);
    if (f->pick.worker != NULL)
        pool_put(f->pool, &f->pick, NULL, &released);
    pool_remove(f->pool, f->worker, &released);
    assert_false(list_linked(&released));
    worker_unref(f->worker);
    pool_destroy(f->pool);
    loop_destroy(f->loop);
    free(f);
    return 0;
}

static void a_turn_given_by_another_thread_wakes_on_its_own_loop(void **state)
{
    struct fixture *f = *state;

    join_from_another_thread(f);
    assert_int_equal(f->woken, 0);
    loop_turn(f->loop, 1000);
    assert_int_equal(f->woken, 1);
    assert_int_equal(f->settled, 0);
    assert_int_equal(get(f), ERR_OK);
}

static void leaving_the_queue_owes_nothing(void **state)
{
    struct fixture *f = *state;

    assert_false(route_wait_cancel(&f->wait, f->pool));
    join_from_another_thread(f);
    loop_turn(f->loop, 0);
    assert_int_equal(f->woken + f->settled, 0);
}

static void leaving_after_the_turn_was_given_settles_when_the_message_has_come(void **state)
{
    struct fixture *f = *state;

    join_from_another_thread(f);
    assert_true(route_wait_cancel(&f->wait, f->pool));
    pool_check(f->pool);
    assert_int_equal(f->settled, 0);
    loop_turn(f->loop, 1000);
    assert_int_equal(f->settled, 1);
    assert_int_equal(f->woken, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_turn_given_by_another_thread_wakes_on_its_own_loop),
        TEST(leaving_the_queue_owes_nothing),
        TEST(leaving_after_the_turn_was_given_settles_when_the_message_has_come),
    };

    return cmocka_run_group_tests_name("route_wait", tests, NULL, NULL);
}
