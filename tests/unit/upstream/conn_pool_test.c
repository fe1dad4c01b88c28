/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection pool on one loop; limits and ends.
 */
#include "tests/unit/upstream/conn_story.h"

/* ---- one loop ---- */

static void checkout_takes_the_latest_idle_connection_first(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *first = opened(f, 0);
    struct fake_conn *second = opened(f, 0);
    struct asker *a = asker();

    give_back(f, first);
    give_back(f, second);
    assert_int_equal(ask(f, 0, &any, a), CONN_REUSED);
    assert_ptr_equal(a->w.conn, &second->pooled);
    assert_int_equal(second->pooled.uses, 2);
    give_back(f, second);
    assert_int_equal(a->reported, 0);
    gone(a);
}

static void a_returned_connection_is_checked_until_its_loop_has_waited(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *first = opened(f, 0);
    struct fake_conn *second = opened(f, 0);
    struct asker *a = asker();
    struct asker *b = asker();

    give_back(f, first);
    turn(f, 0);
    give_back(f, second);
    assert_int_equal(ask(f, 0, &any, a), CONN_REUSED);
    assert_ptr_equal(a->w.conn, &first->pooled);
    /* Where no other is available it is used at once. */
    assert_int_equal(ask(f, 0, &any, b), CONN_REUSED);
    assert_ptr_equal(b->w.conn, &second->pooled);
    give_back(f, second);
    give_back(f, first);
    turn(f, 0);
    assert_int_equal(ask(f, 0, &any, a), CONN_REUSED);
    assert_ptr_equal(a->w.conn, &first->pooled); /* the latest, once a wait has seen both */
    give_back(f, first);
    gone(a);
    gone(b);
}

static void a_parked_connection_is_taken_by_one_that_finds_the_others_too_old(void **state)
{
    struct fixture *f = *state;
    const struct conn_checkout young = {.max_idle_ms = 3600 * 1000};
    struct fake_conn *old = opened(f, 0);
    struct fake_conn *new = opened(f, 0);
    struct asker *a = asker();

    give_back(f, old);
    turn(f, 0);
    old->pooled.idle_since_ms -= young.max_idle_ms;
    give_back(f, new);
    assert_int_equal(ask(f, 0, &young, a), CONN_REUSED);
    assert_ptr_equal(a->w.conn, &new->pooled);
    give_back(f, new);
    gone(a);
}

static void checkout_closes_dead_connections_in_transit(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *good = opened(f, 0);
    struct fake_conn *dead = opened(f, 0);
    struct asker *a = asker();

    give_back(f, good);
    give_back(f, dead);
    dead->dead = true;
    assert_int_equal(ask(f, 0, &any, a), CONN_REUSED);
    assert_ptr_equal(a->w.conn, &good->pooled);
    assert_int_equal(atomic_load(&f->counts.closed), 1);
    assert_true(conn_is_restricted(f->b, loop_now_ms(f->loops[0]))); /* it ended after one use */
    give_back(f, good);
    gone(a);
}

static void permissions_count_against_the_limit(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();

    assert_int_equal(ask(f, 0, &any, a), CONN_OPEN);
    assert_int_equal(ask(f, 1, &any, a), CONN_OPEN);
    assert_int_equal(ask(f, 2, &any, a), CONN_WAIT);
    assert_int_equal(view(f).opening, 2);
    conn_not_opened(f->b);
    turn(f, 2);
    conn_not_opened(f->b);
    reported_of(f, a, CONN_OPEN);
    assert_int_equal(view(f).opening, 0);
}

static void a_backend_without_limit_always_permits(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();

    conn_backend_set(f->b, 0, &settings);
    for (unsigned i = 0; i < 100; ++i)
        assert_int_equal(ask(f, i % LOOPS, &any, a), CONN_OPEN);
    for (unsigned i = 0; i < 100; ++i)
        conn_not_opened(f->b);
    gone(a);
}

static void checkin_goes_to_the_first_in_line(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct fake_conn *d = opened(f, 0);
    struct asker *first = asker();
    struct asker *second = asker();

    assert_int_equal(ask(f, 0, &any, first), CONN_WAIT);
    assert_int_equal(ask(f, 0, &any, second), CONN_WAIT);
    give_back(f, c);
    assert_int_equal(first->reported, 0); /* never inside a call */
    turn(f, 0);
    assert_int_equal(second->reported, 0);
    assert_ptr_equal(first->w.conn, &c->pooled);
    reported_of(f, first, CONN_REUSED);
    turn(f, 0);
    reported_of(f, second, CONN_REUSED);
    give_back(f, d);
}

static void a_full_line_rejects(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct fake_conn *d = opened(f, 0);
    struct asker *waiting[3];
    struct asker *late = asker();

    for (unsigned i = 0; i < 3; ++i) {
        waiting[i] = asker();
        assert_int_equal(ask(f, i, &any, waiting[i]), CONN_WAIT);
    }
    assert_int_equal(ask(f, 0, &any, late), CONN_REJECTED);
    assert_int_equal(late->w.error, ERR_QUEUE_FULL);
    assert_int_equal(view(f).rejected, 1);
    assert_int_equal(view(f).waiting, 3);
    for (unsigned i = 0; i < 3; ++i)
        gone(waiting[i]);
    gone(late);
    give_back(f, c);
    give_back(f, d);
    assert_int_equal(view(f).waiting, 0);
}

static void a_forgotten_connection_leaves_room_for_the_next(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *used = opened(f, 0);
    struct fake_conn *idle = opened(f, 1);
    struct asker *a = asker();

    give_back(f, idle);
    forget_and_close(f, idle);
    assert_int_equal(view(f).idle, 0);
    idle = opened(f, 1);
    assert_int_equal(ask(f, 2, &any, a), CONN_WAIT);
    forget_and_close(f, used);
    turn(f, 2);
    reported_of(f, a, CONN_OPEN);
    give_back(f, idle);
}

static void a_connection_that_became_something_else_keeps_its_place(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *tunnel = opened(f, 0);
    struct fake_conn *other = opened(f, 0);
    struct asker *a = asker();

    conn_retain_permission(&tunnel->pooled);
    assert_null(tunnel->pooled.backend);
    assert_int_equal(view(f).in_use, 1);
    assert_int_equal(view(f).opening, 1);
    assert_int_equal(ask(f, 0, &any, a), CONN_WAIT);
    turn(f, 0);
    assert_int_equal(a->reported, 0);
    conn_not_opened(f->b);
    turn(f, 0);
    reported_of(f, a, CONN_OPEN);
    give_back(f, other);
    atomic_store(&tunnel->taken, false);
    fake_close(&tunnel->pooled);
}

/* Let at least MS pass. */
static void on_passed(struct timer *t)
{
    (void)t;
}

static void pass_ms(struct loop *l, uint64_t ms)
{
    struct timer t;

    timer_init(&t, on_passed);
    timer_start(l, &t, ms);
    while (timer_running(&t))
        loop_turn(l, 1000);
}

static void connections_idle_for_too_long_are_not_taken(void **state)
{
    struct fixture *f = *state;
    const struct conn_checkout recent = {.max_idle_ms = 2};
    const struct conn_checkout patient = {.max_idle_ms = 3600 * 1000};
    struct fake_conn *old = opened(f, 0);
    struct asker *a = asker();

    give_back(f, old);
    pass_ms(f->loops[0], 3);
    assert_int_equal(ask(f, 0, &patient, a), CONN_REUSED);
    give_back(f, old);
    pass_ms(f->loops[0], 3);
    assert_int_equal(ask(f, 0, &recent, a), CONN_OPEN);
    assert_int_equal(atomic_load(&f->counts.closed), 0);
    assert_int_equal(ask(f, 0, &recent, a), CONN_OPEN); /* at the limit: in place of the old one */
    assert_int_equal(atomic_load(&f->counts.closed), 1);
    conn_not_opened(f->b);
    conn_not_opened(f->b);
    gone(a);
}

static void
a_backend_that_ends_connections_after_their_first_use_is_restricted_for_a_minute(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct asker *a = asker();

    give_back(f, c);
    uint64_t now_ms = loop_now_ms(f->loops[0]);
    conn_ended_idle(&c->pooled, now_ms + 1000); /* it was idle for long */
    assert_false(conn_is_restricted(f->b, now_ms + 1000));
    conn_ended_idle(&c->pooled, now_ms + 999);
    assert_true(conn_is_restricted(f->b, now_ms + 999 + 59999));
    assert_false(conn_is_restricted(f->b, now_ms + 999 + 60000));
    assert_int_equal(ask(f, 0, &any, a), CONN_REUSED);
    give_back(f, c);
    conn_ended_idle(&c->pooled, now_ms + 60999); /* it was used twice */
    assert_false(conn_is_restricted(f->b, now_ms + 60999));
    gone(a);
}

static void recycling_closes_what_has_been_idle_for_the_time_out(void **state)
{
    struct fixture *f = *state;
    const struct conn_pool_settings brief = {.idle_timeout_ms = 50, .max_waiting = 3};
    struct fake_conn *old = opened(f, 0);
    struct fake_conn *elsewhere = opened(f, 1);

    conn_backend_set(f->b, 2, &brief);
    give_back(f, old);
    give_back(f, elsewhere);
    conn_pool_recycle(f->pool, f->loops[0]);
    assert_int_equal(view(f).idle, 2);
    pass_ms(f->loops[0], 51);
    conn_pool_recycle(f->pool, f->loops[0]);
    assert_int_equal(view(f).idle, 1);
    conn_pool_recycle(f->pool, f->loops[1]);
    assert_int_equal(view(f).idle, 0);
    assert_int_equal(atomic_load(&f->counts.closed), 2);
}

static void
room_is_made_by_the_connection_that_has_idled_longest_here_else_by_another_loop(void **state)
{
    struct fixture *f = *state;
    struct conn_backend *other =
        conn_pool_backend(f->pool, SLICE_LIT("10.0.0.2:80"), SLICE_LIT("life1"), 2, &settings);
    struct fake_conn *young = opened(f, 0);
    struct fake_conn *elsewhere = opened(f, 1);
    struct asker *a = asker();

    assert_int_equal(conn_checkout(other, f->loops[0], &any, &a->w), CONN_OPEN);
    struct fake_conn *old = fake_open(other, f->loops[0], &f->counts);
    assert_false(conn_pool_make_room(f->pool, f->loops[0])); /* all are in use */
    give_back(f, old);
    give_back(f, elsewhere);
    pass_ms(f->loops[0], 2);
    give_back(f, young);

    assert_true(conn_pool_make_room(f->pool, f->loops[0]));
    assert_int_equal(atomic_load(&f->counts.closed), 1);
    assert_int_equal(view(f).idle, 2); /* it was the other backend's */
    assert_true(conn_pool_make_room(f->pool, f->loops[0]));
    assert_int_equal(view(f).idle, 1);
    assert_false(conn_pool_make_room(f->pool, f->loops[0]));
    assert_int_equal(atomic_load(&f->counts.closed), 2);
    turn(f, 1);
    assert_int_equal(atomic_load(&f->counts.closed), 3);
    conn_backend_release(other);
    gone(a);
}

/* ---- limits and ends ---- */

static void a_raised_limit_serves_those_that_wait_at_once(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct fake_conn *d = opened(f, 0);
    struct asker *a = asker();

    assert_int_equal(ask(f, 1, &any, a), CONN_WAIT);
    conn_backend_set(f->b, 3, &settings);
    turn(f, 1);
    reported_of(f, a, CONN_OPEN);
    give_back(f, c);
    give_back(f, d);
}

static void a_lowered_limit_closes_idle_ones_and_then_those_given_back(void **state)
{
    struct fixture *f = *state;
    conn_backend_set(f->b, 4, &settings);
    struct fake_conn *used[3] = {opened(f, 0), opened(f, 1), opened(f, 2)};
    struct fake_conn *idle = opened(f, 1);
    struct asker *a = asker();

    give_back(f, idle);
    conn_backend_set(f->b, 1, &settings);
    assert_int_equal(view(f).idle, 0);
    assert_int_equal(ask(f, 0, &any, a), CONN_WAIT);
    turn_all(f);
    assert_int_equal(atomic_load(&f->counts.closed), 1);
    give_back(f, used[0]);
    give_back(f, used[1]);
    assert_int_equal(atomic_load(&f->counts.closed), 3);
    turn_all(f);
    assert_int_equal(a->reported, 0);
    give_back(f, used[2]);
    turn_all(f);
    reported_of(f, a, CONN_REUSED);
}

static void retiring_closes_idle_ones_each_on_its_loop_and_fails_all_that_wait(void **state)
{
    struct fixture *f = *state;
    conn_backend_set(f->b, 3, &settings);
    struct fake_conn *used = opened(f, 2);
    struct asker *coming = asker();
    (void)hand_over_begins(f, coming);
    struct asker *second = asker();
    struct asker *in_line = asker();

    assert_int_equal(ask(f, 1, &any, second), CONN_WAIT);
    assert_int_equal(ask(f, 1, &any, in_line), CONN_WAIT);
    turn(f, 0); /* both are between the loops now */
    conn_backend_retire(f->b);
    conn_pool_check(f->pool);
    turn_all(f);
    assert_int_equal(coming->w.error, ERR_NO_WORKER);
    reported_of(f, coming, CONN_REJECTED);
    reported_of(f, second, CONN_REJECTED);
    reported_of(f, in_line, CONN_REJECTED);
    assert_int_equal(atomic_load(&f->counts.live), 1);
    give_back(f, used);
    assert_int_equal(atomic_load(&f->counts.live), 0);
    struct asker *late = asker();
    assert_int_equal(ask(f, 0, &any, late), CONN_REJECTED);
    assert_int_equal(late->w.error, ERR_NO_WORKER);
    gone(late);
}

static void a_retired_instance_is_not_found_again(void **state)
{
    struct fixture *f = *state;

    conn_backend_retire(f->b);
    struct conn_backend *b =
        conn_pool_backend(f->pool, SLICE_LIT("10.0.0.1:80"), SLICE_LIT("life1"), 2, &settings);
    assert_ptr_not_equal(b, f->b);
    conn_backend_release(b);
}

static void backends_are_distinguished_by_address_and_instance(void **state)
{
    struct fixture *f = *state;
    struct conn_backend *same =
        conn_pool_backend(f->pool, SLICE_LIT("10.0.0.1:80"), SLICE_LIT("life1"), 2, &settings);
    struct conn_backend *other =
        conn_pool_backend(f->pool, SLICE_LIT("10.0.0.1:80"), SLICE_LIT("life2"), 2, &settings);
    struct conn_backend *x =
        conn_pool_backend(f->pool, SLICE_LIT("unix:/a#b"), SLICE_LIT("c"), 2, &settings);
    struct conn_backend *y =
        conn_pool_backend(f->pool, SLICE_LIT("unix:/a"), SLICE_LIT("b#c"), 2, &settings);

    assert_ptr_equal(same, f->b);
    assert_ptr_not_equal(other, f->b);
    assert_ptr_not_equal(x, y);
    conn_backend_release(same);
    conn_backend_release(other);
    conn_backend_release(x);
    conn_backend_release(y);
}

static void a_released_backend_keeps_its_idle_connections_until_they_close(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct asker *a = asker();

    give_back(f, c);
    conn_backend_release(f->b);
    f->b = conn_pool_backend(f->pool, SLICE_LIT("10.0.0.1:80"), SLICE_LIT("life1"), 2, &settings);
    assert_int_equal(ask(f, 0, &any, a), CONN_REUSED);
    assert_ptr_equal(a->w.conn, &c->pooled);
    give_back(f, c);
    gone(a);
}

static void on_a_closed_loop_nothing_becomes_idle(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);

    conn_pool_close_loop(f->pool, f->loops[0]);
    give_back(f, c);
    assert_int_equal(atomic_load(&f->counts.live), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(checkout_takes_the_latest_idle_connection_first),
        TEST(a_returned_connection_is_checked_until_its_loop_has_waited),
        TEST(a_parked_connection_is_taken_by_one_that_finds_the_others_too_old),
        TEST(checkout_closes_dead_connections_in_transit),
        TEST(permissions_count_against_the_limit),
        TEST(a_backend_without_limit_always_permits),
        TEST(checkin_goes_to_the_first_in_line),
        TEST(a_full_line_rejects),
        TEST(a_forgotten_connection_leaves_room_for_the_next),
        TEST(a_connection_that_became_something_else_keeps_its_place),
        TEST(connections_idle_for_too_long_are_not_taken),
        TEST(a_backend_that_ends_connections_after_their_first_use_is_restricted_for_a_minute),
        TEST(recycling_closes_what_has_been_idle_for_the_time_out),
        TEST(room_is_made_by_the_connection_that_has_idled_longest_here_else_by_another_loop),
        TEST(a_raised_limit_serves_those_that_wait_at_once),
        TEST(a_lowered_limit_closes_idle_ones_and_then_those_given_back),
        TEST(retiring_closes_idle_ones_each_on_its_loop_and_fails_all_that_wait),
        TEST(a_retired_instance_is_not_found_again),
        TEST(backends_are_distinguished_by_address_and_instance),
        TEST(a_released_backend_keeps_its_idle_connections_until_they_close),
        TEST(on_a_closed_loop_nothing_becomes_idle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
