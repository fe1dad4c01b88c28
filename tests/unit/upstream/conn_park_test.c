/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections that idle beside the loops while one lacks what another has.
 */
#include "tests/unit/upstream/conn_story.h"

/* Loop 1 has lacked a connection, got one of loop 0 and uses it; loop 0 retains the other one. */
static struct fake_conn *loops_are_short(struct fixture *f, struct asker *a)
{
    struct fake_conn *c = hand_over_begins(f, a);

    turn_all(f);
    assert_int_equal(a->reported, 1);
    assert_ptr_equal(a->w.conn, &c->pooled);
    assert_int_equal(view(f).parked, 0);
    return c;
}

/* The same, and the one that loop 1 had is parked. */
static struct fake_conn *one_is_parked(struct fixture *f)
{
    struct asker *a = asker();
    struct fake_conn *c = loops_are_short(f, a);

    give_back(f, c);
    gone(a);
    /* Not at once: it may be returned from within its callback, which checks it again. */
    assert_ptr_equal(c->loop, f->loops[1]);
    turn(f, 1);
    assert_int_equal(view(f).parked, 1);
    assert_int_equal(view(f).idle, 2);
    assert_null(c->loop);
    return c;
}

static void while_a_loop_is_short_what_is_given_back_is_taken_by_any_other_at_once(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = one_is_parked(f);
    struct asker *a = asker();

    assert_int_equal(ask(f, 2, &any, a), CONN_REUSED);
    assert_ptr_equal(a->w.conn, &c->pooled);
    assert_ptr_equal(c->loop, f->loops[2]);
    assert_int_equal(view(f).parked, 0);
    assert_int_equal(view(f).handed_over, 2);
    assert_int_equal(c->pooled.uses, 3);
    give_back(f, c);
    gone(a);
}

static void where_no_loop_was_short_nothing_is_parked(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct fake_conn *d = opened(f, 1);

    give_back(f, c);
    give_back(f, d);
    turn_all(f);
    assert_int_equal(view(f).parked, 0);
    assert_int_equal(atomic_load(&f->counts.detached), 0);
}

static void below_the_limit_nothing_is_parked(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct fake_conn *c = loops_are_short(f, a);

    conn_backend_set(f->b, 3, &settings);
    give_back(f, c);
    turn(f, 1);
    gone(a);
    assert_int_equal(view(f).parked, 0);
}

static void a_loop_keeps_a_quarter_of_its_part_of_the_connections_and_parks_the_rest(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *all[8 * LOOPS];
    struct asker *a = asker();

    conn_backend_set(f->b, 8 * LOOPS, &settings);
    for (unsigned i = 0; i < 8 * LOOPS; ++i)
        all[i] = opened(f, 0);
    give_back(f, all[0]);
    assert_int_equal(ask(f, 1, &any, a), CONN_WAIT);
    turn_all(f);
    reported_of(f, a, CONN_REUSED); /* which loop 1 retains */
    for (unsigned i = 1; i < 8 * LOOPS; ++i)
        give_back(f, all[i]);
    turn(f, 0);
    assert_int_equal(view(f).parked, 8 * LOOPS - 3);
    assert_int_equal(view(f).idle, 8 * LOOPS);
}

static void a_loop_takes_its_own_before_what_is_parked_and_that_before_it_opens(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *parked = one_is_parked(f);
    struct asker *a = asker();
    struct asker *b = asker();

    conn_backend_set(f->b, 3, &settings);
    assert_int_equal(ask(f, 0, &any, a), CONN_REUSED);
    struct fake_conn *own = fake_of(a->w.conn);
    assert_ptr_not_equal(own, parked);
    assert_int_equal(ask(f, 0, &any, b), CONN_REUSED);
    assert_ptr_equal(b->w.conn, &parked->pooled);
    give_back(f, own);
    give_back(f, parked);
    gone(a);
    gone(b);
}

static void parking_ends_when_no_other_loop_takes_what_is_parked(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = one_is_parked(f);
    struct asker *a = asker();
    unsigned parks = 1;

    while (view(f).parked != 0) {
        assert_int_equal(ask(f, 1, &any, a), CONN_REUSED);
        assert_ptr_equal(a->w.conn, &c->pooled);
        give_back(f, c);
        turn(f, 1);
        assert_in_range(++parks, 1, CONN_PARKS + 1);
    }
    assert_int_equal(parks, CONN_PARKS + 1);
    assert_ptr_equal(c->loop, f->loops[1]);
    gone(a);
}

static void a_parked_connection_that_has_died_is_closed_by_one_that_would_take_it(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = one_is_parked(f);
    struct asker *a = asker();

    c->dead = true;
    assert_int_equal(ask(f, 2, &any, a), CONN_OPEN);
    assert_int_equal(atomic_load(&f->counts.closed), 1);
    conn_not_opened(f->b);
    gone(a);
}

static void a_parked_connection_that_cannot_be_attached_is_closed(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = one_is_parked(f);
    struct asker *a = asker();

    c->unwelcome = true;
    assert_int_equal(ask(f, 2, &any, a), CONN_OPEN);
    assert_int_equal(atomic_load(&f->counts.closed), 1);
    conn_not_opened(f->b);
    gone(a);
}

static void a_connection_that_cannot_be_detached_idles_on_its_loop(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct fake_conn *c = loops_are_short(f, a);

    c->stuck = true;
    give_back(f, c);
    turn(f, 1);
    assert_int_equal(view(f).parked, 0);
    assert_int_equal(view(f).idle, 2);
    assert_ptr_equal(c->loop, f->loops[1]);
    gone(a);
}

static void a_checkout_of_a_new_connection_closes_a_parked_one(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct asker *b = asker();

    (void)one_is_parked(f);
    /* Its own first; then that of another loop, or what is parked: of these the oldest. */
    assert_int_equal(ask(f, 2, &fresh, a), CONN_WAIT);
    assert_int_equal(ask(f, 2, &fresh, b), CONN_WAIT);
    turn_all(f);
    assert_int_equal(atomic_load(&f->counts.closed), 2);
    assert_int_equal(view(f).parked, 0);
    reported_of(f, a, CONN_OPEN);
    reported_of(f, b, CONN_OPEN);
}

static void a_parked_one_about_to_be_closed_for_one_that_left_parks_again(void **state)
{
    struct fixture *f = *state;
    struct asker *own = asker();
    struct asker *left = asker();
    struct fake_conn *c = one_is_parked(f);

    assert_int_equal(ask(f, 0, &any, own), CONN_REUSED);
    assert_ptr_not_equal(own->w.conn, &c->pooled);
    assert_int_equal(ask(f, 2, &fresh, left), CONN_WAIT);
    assert_int_equal(view(f).parked, 0);
    gone(left);
    turn_all(f);
    assert_int_equal(view(f).parked, 1);
    assert_null(c->loop);
    give_back(f, fake_of(own->w.conn));
    gone(own);
}

static void a_lowered_limit_closes_parked_ones_too(void **state)
{
    struct fixture *f = *state;

    (void)one_is_parked(f);
    conn_backend_set(f->b, 1, &settings);
    turn_all(f);
    assert_int_equal(view(f).idle, 1);
    conn_backend_retire(f->b);
    turn_all(f);
    assert_int_equal(view(f).idle, 0);
    assert_int_equal(view(f).parked, 0);
    assert_int_equal(atomic_load(&f->counts.live), 0);
}

static void recycling_closes_parked_ones_on_the_loop_that_had_them_last(void **state)
{
    const struct conn_pool_settings brief = {.idle_timeout_ms = 1, .max_waiting = 3};
    struct fixture *f = *state;
    struct fake_conn *c = one_is_parked(f);
    uint64_t parked_ms = c->pooled.idle_since_ms;

    conn_backend_set(f->b, 2, &brief);
    while (loop_now_ms(f->loops[0]) <= parked_ms + 1)
        turn(f, 0);
    conn_pool_recycle(f->pool, f->loops[0]);
    conn_pool_recycle(f->pool, f->loops[2]);
    assert_int_equal(view(f).parked, 1);
    conn_pool_recycle(f->pool, f->loops[1]);
    assert_int_equal(view(f).parked, 0);
    assert_int_equal(atomic_load(&f->counts.live), 0);
}

static void a_connection_about_to_park_goes_to_a_waiter_that_came_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct asker *b = asker();
    struct asker *own = asker();
    struct fake_conn *c = loops_are_short(f, a);

    assert_int_equal(ask(f, 0, &any, own), CONN_REUSED);
    give_back(f, c);
    assert_int_equal(ask(f, 2, &any, b), CONN_WAIT); /* nothing is idle yet */
    turn_all(f);
    assert_ptr_equal(b->w.conn, &c->pooled);
    reported_of(f, b, CONN_REUSED);
    give_back(f, fake_of(own->w.conn));
    gone(own);
    gone(a);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(while_a_loop_is_short_what_is_given_back_is_taken_by_any_other_at_once),
        TEST(where_no_loop_was_short_nothing_is_parked),
        TEST(below_the_limit_nothing_is_parked),
        TEST(a_loop_keeps_a_quarter_of_its_part_of_the_connections_and_parks_the_rest),
        TEST(a_loop_takes_its_own_before_what_is_parked_and_that_before_it_opens),
        TEST(parking_ends_when_no_other_loop_takes_what_is_parked),
        TEST(a_parked_connection_that_has_died_is_closed_by_one_that_would_take_it),
        TEST(a_parked_connection_that_cannot_be_attached_is_closed),
        TEST(a_connection_that_cannot_be_detached_idles_on_its_loop),
        TEST(a_checkout_of_a_new_connection_closes_a_parked_one),
        TEST(a_parked_one_about_to_be_closed_for_one_that_left_parks_again),
        TEST(a_lowered_limit_closes_parked_ones_too),
        TEST(recycling_closes_parked_ones_on_the_loop_that_had_them_last),
        TEST(a_connection_about_to_park_goes_to_a_waiter_that_came_meanwhile),
    };

    return cmocka_run_group_tests_name("conn_park", tests, NULL, NULL);
}
