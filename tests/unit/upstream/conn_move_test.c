/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections that move between loops, and requesters that stop waiting for them at each stage.
 */
#include "tests/unit/upstream/conn_story.h"

/* ---- from loop to loop ---- */

static void at_the_limit_an_idle_connection_of_another_loop_is_handed_over(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct fake_conn *c = hand_over_begins(f, a);

    turn(f, 0);
    assert_null(c->loop);
    turn(f, 1);
    assert_ptr_equal(a->w.conn, &c->pooled);
    reported_of(f, a, CONN_REUSED);
    turn(f, 1);
    assert_int_equal(view(f).handed_over, 1);
    assert_int_equal(view(f).idle, 2);
    assert_int_equal(c->pooled.loop_index, 1);
}

static void a_connection_given_back_is_handed_over_to_the_first_in_line(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct fake_conn *d = opened(f, 0);
    struct asker *a = asker();
    struct asker *own = asker();

    assert_int_equal(ask(f, 2, &any, a), CONN_WAIT);
    assert_int_equal(ask(f, 0, &any, own), CONN_WAIT);
    give_back(f, c);
    turn_all(f);
    assert_int_equal(own->reported, 0);
    assert_ptr_equal(c->loop, f->loops[2]);
    reported_of(f, a, CONN_REUSED);
    turn_all(f);
    reported_of(f, own, CONN_REUSED);
    give_back(f, d);
}

static void a_connection_that_cannot_leave_is_closed_for_the_one_that_waits(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct fake_conn *c = hand_over_begins(f, a);

    c->stuck = true;
    turn_all(f);
    assert_int_equal(atomic_load(&f->counts.closed), 1);
    reported_of(f, a, CONN_OPEN);
}

static void a_connection_that_cannot_arrive_is_closed_for_the_one_that_waits(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct fake_conn *c = hand_over_begins(f, a);

    c->unwelcome = true;
    turn_all(f);
    assert_int_equal(atomic_load(&f->counts.closed), 1);
    reported_of(f, a, CONN_OPEN);
}

static void a_connection_found_dead_before_it_leaves_makes_room(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct fake_conn *c = hand_over_begins(f, a);

    c->dead = true;
    turn_all(f);
    assert_int_equal(atomic_load(&f->counts.detached), 0);
    reported_of(f, a, CONN_OPEN);
}

static void a_connection_that_dies_while_leaving_makes_room(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct fake_conn *c = hand_over_begins(f, a);

    forget_and_close(f, c);
    turn_all(f);
    reported_of(f, a, CONN_OPEN);
}

static void a_waiter_of_a_connection_that_died_in_transit_is_served_before_the_queue(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct fake_conn *upper = hand_over_begins(f, a);
    struct asker *b = asker();
    struct asker *later = asker();

    assert_int_equal(ask(f, 1, &any, b), CONN_WAIT);
    assert_int_equal(ask(f, 2, &any, later), CONN_WAIT);
    forget_and_close(f, upper);
    turn_all(f);
    assert_int_equal(later->reported, 0);
    assert_int_equal(a->w.result, CONN_OPEN);
    assert_int_equal(b->w.result, CONN_REUSED);
    reported_of(f, a, CONN_OPEN);
    turn_all(f);
    reported_of(f, later, CONN_OPEN);
    reported_of(f, b, CONN_REUSED);
}

/* Two of them, which come back in the order they came in, though there is room for one only. */
static void waiters_served_in_vain_keep_their_order(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *both[] = {opened(f, 0), opened(f, 0)};
    struct asker *first = asker();
    struct asker *second = asker();

    for (unsigned i = 0; i < 2; ++i)
        give_back(f, both[i]);
    assert_int_equal(ask(f, 1, &any, first), CONN_WAIT);
    assert_int_equal(ask(f, 2, &any, second), CONN_WAIT);
    conn_backend_set(f->b, 1, &settings);
    both[0]->dead = both[1]->dead = true;
    turn_all(f);
    assert_int_equal(second->reported, 0);
    reported_of(f, first, CONN_OPEN);
    turn_all(f);
    reported_of(f, second, CONN_OPEN);
}

static void a_granted_connection_that_dies_before_it_is_notified_of_makes_room(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct fake_conn *d = opened(f, 0);
    struct asker *a = asker();

    assert_int_equal(ask(f, 0, &any, a), CONN_WAIT);
    give_back(f, c);
    forget_and_close(f, c);
    turn_all(f);
    reported_of(f, a, CONN_OPEN);
    give_back(f, d);
}

static void fresh_at_the_limit_closes_an_idle_one_of_its_own_loop(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct fake_conn *d = opened(f, 1);
    struct asker *a = asker();

    give_back(f, c);
    give_back(f, d);
    assert_int_equal(ask(f, 0, &fresh, a), CONN_OPEN);
    assert_int_equal(atomic_load(&f->counts.closed), 1);
    assert_ptr_equal(d->loop, f->loops[1]);
    conn_not_opened(f->b);
    gone(a);
}

static void fresh_at_the_limit_closes_an_idle_one_of_another_loop(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();

    (void)hand_over_begins(f, a);
    gone(a); /* it was only to make two idle ones */
    turn_all(f);
    a = asker();
    assert_int_equal(ask(f, 1, &fresh, a), CONN_WAIT);
    assert_int_equal(atomic_load(&f->counts.closed), 0);
    turn_all(f);
    assert_int_equal(atomic_load(&f->counts.closed), 1);
    reported_of(f, a, CONN_OPEN);
    assert_int_equal(view(f).idle, 1);
}

static void fresh_in_line_gets_the_room_of_a_connection_given_back(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct fake_conn *d = opened(f, 0);
    struct asker *a = asker();

    assert_int_equal(ask(f, 0, &fresh, a), CONN_WAIT);
    give_back(f, c);
    turn_all(f);
    assert_int_equal(atomic_load(&f->counts.closed), 1);
    reported_of(f, a, CONN_OPEN);
    give_back(f, d);
}

/* ---- giving up ---- */

static void a_waiter_that_left_the_queue_gets_no_connection(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct fake_conn *d = opened(f, 0);
    struct asker *left = asker();
    struct asker *stayed = asker();

    assert_int_equal(ask(f, 1, &any, left), CONN_WAIT);
    assert_int_equal(ask(f, 2, &any, stayed), CONN_WAIT);
    gone(left);
    give_back(f, c);
    turn_all(f);
    reported_of(f, stayed, CONN_REUSED);
    give_back(f, d);
}

static void a_permission_in_transit_to_one_that_left_goes_to_the_next(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct fake_conn *d = opened(f, 0);
    struct asker *left = asker();
    struct asker *stayed = asker();

    assert_int_equal(ask(f, 1, &any, left), CONN_WAIT);
    assert_int_equal(ask(f, 2, &any, stayed), CONN_WAIT);
    forget_and_close(f, c);
    gone(left);
    turn_all(f);
    reported_of(f, stayed, CONN_OPEN);
    give_back(f, d);
}

/* LEFT leaves when TURNS turns of loop 0, from where its connection comes, have passed. */
static void leave_after(struct fixture *f, unsigned turns)
{
    struct asker *left = asker();
    struct fake_conn *c = hand_over_begins(f, left);
    struct asker *other = asker();
    struct asker *stayed = asker();

    assert_int_equal(ask(f, 2, &any, other), CONN_WAIT); /* is sent the other idle one */
    assert_int_equal(ask(f, 2, &any, stayed), CONN_WAIT);
    for (unsigned i = 0; i < turns; ++i)
        turn(f, 0);
    assert_ptr_equal(c->loop, turns != 0 ? NULL : f->loops[0]);
    gone(left);
    turn_all(f);
    assert_ptr_equal(stayed->w.conn, &c->pooled);
    reported_of(f, stayed, CONN_REUSED);
    reported_of(f, other, CONN_REUSED);
}

static void a_connection_about_to_leave_for_one_that_left_goes_to_the_next(void **state)
{
    leave_after(*state, 0);
}

static void a_connection_about_to_arrive_for_one_that_left_goes_to_the_next(void **state)
{
    leave_after(*state, 1);
}

static void a_granted_connection_of_one_that_left_goes_to_the_next_or_is_idle(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct fake_conn *d = opened(f, 0);
    struct asker *left = asker();
    struct asker *stayed = asker();

    assert_int_equal(ask(f, 0, &any, left), CONN_WAIT);
    assert_int_equal(ask(f, 1, &any, stayed), CONN_WAIT);
    give_back(f, c);
    gone(left);
    turn_all(f);
    reported_of(f, stayed, CONN_REUSED);
    left = asker();
    give_back(f, d);
    assert_int_equal(view(f).idle, 2);
    gone(left);
}

static void a_connection_in_transit_to_one_that_left_becomes_idle_where_it_arrives(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct fake_conn *c = hand_over_begins(f, a);

    turn(f, 0);
    gone(a);
    turn_all(f);
    assert_ptr_equal(c->loop, f->loops[1]);
    assert_int_equal(view(f).idle, 2);
    a = asker();
    assert_int_equal(ask(f, 1, &any, a), CONN_REUSED);
    give_back(f, c);
    gone(a);
}

static void cancelling_twice_or_without_waiting_is_harmless(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();

    conn_cancel(&a->w);
    assert_int_equal(ask(f, 0, &any, a), CONN_OPEN);
    conn_cancel(&a->w);
    assert_int_equal(view(f).opening, 1);
    conn_not_opened(f->b);
    gone(a);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(at_the_limit_an_idle_connection_of_another_loop_is_handed_over),
        TEST(a_connection_given_back_is_handed_over_to_the_first_in_line),
        TEST(a_connection_that_cannot_leave_is_closed_for_the_one_that_waits),
        TEST(a_connection_that_cannot_arrive_is_closed_for_the_one_that_waits),
        TEST(a_connection_found_dead_before_it_leaves_makes_room),
        TEST(a_connection_that_dies_while_leaving_makes_room),
        TEST(a_waiter_of_a_connection_that_died_in_transit_is_served_before_the_queue),
        TEST(waiters_served_in_vain_keep_their_order),
        TEST(a_granted_connection_that_dies_before_it_is_notified_of_makes_room),
        TEST(fresh_at_the_limit_closes_an_idle_one_of_its_own_loop),
        TEST(fresh_at_the_limit_closes_an_idle_one_of_another_loop),
        TEST(fresh_in_line_gets_the_room_of_a_connection_given_back),
        TEST(a_waiter_that_left_the_queue_gets_no_connection),
        TEST(a_permission_in_transit_to_one_that_left_goes_to_the_next),
        TEST(a_connection_about_to_leave_for_one_that_left_goes_to_the_next),
        TEST(a_connection_about_to_arrive_for_one_that_left_goes_to_the_next),
        TEST(a_granted_connection_of_one_that_left_goes_to_the_next_or_is_idle),
        TEST(a_connection_in_transit_to_one_that_left_becomes_idle_where_it_arrives),
        TEST(cancelling_twice_or_without_waiting_is_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
