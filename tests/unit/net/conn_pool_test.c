/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection pool step by step: three loops on one thread, turned by hand, so that each stage
 * of a hand-over can be met. The threads are in conn_pool_thread_test.c.
 */
#include "common/base/text.h"
#include "tests/unit/net/conn_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LOOPS = 3 };

struct fixture {
    struct loop *loops[LOOPS];
    struct conn_pool *pool;
    struct conn_backend *b;
    struct fake_counts counts;
};

/* Allocated one by one, so that the address sanitizer sees a pool that touches one too late. */
struct asker {
    struct conn_waiter w;
    int told;
};

static const struct conn_pool_settings settings = {.idle_timeout_ms = 0, .max_waiting = 3};
static const struct conn_checkout any = {.fresh = false};
static const struct conn_checkout fresh = {.fresh = true};

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    for (unsigned i = 0; i < LOOPS; ++i)
        f->loops[i] = loop_create(i);
    f->pool = conn_pool_create(&fake_ops, f->loops, LOOPS);
    f->b = conn_pool_backend(f->pool, SLICE_LIT("10.0.0.1:80"), SLICE_LIT("life1"), 2, &settings);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    conn_pool_check(f->pool);
    for (unsigned i = 0; i < LOOPS; ++i)
        conn_pool_close_loop(f->pool, f->loops[i]);
    conn_backend_release(f->b);
    for (unsigned i = 0; i < LOOPS; ++i)
        loop_destroy(f->loops[i]);
    assert_int_equal(atomic_load(&f->counts.live), 0);
    conn_pool_destroy(f->pool);
    free(f);
    return 0;
}

/* ---- the parts of a story ---- */

static void on_ready(struct conn_waiter *w)
{
    ++container_of(w, struct asker, w)->told;
}

static struct asker *asker(void)
{
    struct asker *a = xcalloc(1, sizeof(*a));

    a->w.ready = on_ready;
    return a;
}

static void gone(struct asker *a)
{
    conn_cancel(&a->w);
    free(a);
}

static void turn(struct fixture *f, unsigned loop)
{
    loop_turn(f->loops[loop], 0);
    conn_pool_check(f->pool);
}

static void turn_all(struct fixture *f)
{
    for (unsigned i = 0; i < 3 * LOOPS; ++i)
        turn(f, i % LOOPS);
}

static enum conn_result ask(struct fixture *f, unsigned loop, const struct conn_checkout *o,
                            struct asker *a)
{
    enum conn_result r = conn_checkout(f->b, f->loops[loop], o, &a->w);

    conn_pool_check(f->pool);
    return r;
}

static struct fake_conn *opened(struct fixture *f, unsigned loop)
{
    struct asker *a = asker();

    assert_int_equal(ask(f, loop, &fresh, a), CONN_OPEN);
    gone(a);
    return fake_open(f->b, f->loops[loop], &f->counts);
}

static void give_back(struct fixture *f, struct fake_conn *c)
{
    struct pooled_conn *p = &c->pooled;

    atomic_store(&c->taken, false);
    conn_checkin(&p, c->loop);
    assert_null(p);
    conn_pool_check(f->pool);
}

static void forget_and_close(struct fixture *f, struct fake_conn *c)
{
    conn_forget(&c->pooled);
    atomic_store(&c->taken, false);
    fake_close(&c->pooled);
    conn_pool_check(f->pool);
}

static struct conn_backend_view view(struct fixture *f)
{
    struct conn_backend_view v;

    conn_backend_view(f->b, &v);
    return v;
}

/* A story's last words: A was told once, of R; what it got goes back. */
static void told_of(struct fixture *f, struct asker *a, enum conn_result r)
{
    assert_int_equal(a->told, 1);
    assert_int_equal(a->w.result, r);
    if (r == CONN_REUSED) {
        struct fake_conn *c = fake_of(a->w.conn);
        assert_ptr_equal(c->loop, a->w.loop);
        give_back(f, c);
    } else if (r == CONN_OPEN) {
        conn_not_opened(f->b);
    }
    gone(a);
}

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
    assert_int_equal(a->told, 0);
    gone(a);
}

static void checkout_closes_dead_connections_on_its_way(void **state)
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
    told_of(f, a, CONN_OPEN);
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
    assert_int_equal(first->told, 0); /* never inside a call */
    turn(f, 0);
    assert_int_equal(second->told, 0);
    assert_ptr_equal(first->w.conn, &c->pooled);
    told_of(f, first, CONN_REUSED);
    turn(f, 0);
    told_of(f, second, CONN_REUSED);
    give_back(f, d);
}

static void a_full_line_refuses(void **state)
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
    assert_int_equal(ask(f, 0, &any, late), CONN_REFUSED);
    assert_int_equal(late->w.error, ERR_QUEUE_FULL);
    assert_int_equal(view(f).refused, 1);
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
    told_of(f, a, CONN_OPEN);
    give_back(f, idle);
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

/* ---- from loop to loop ---- */

/* Two idle connections on loop 0, at the limit; A on loop 1 waits for one of them. */
static struct fake_conn *hand_over_begins(struct fixture *f, struct asker *a)
{
    struct fake_conn *lower = opened(f, 0);
    struct fake_conn *upper = opened(f, 0);

    give_back(f, lower);
    give_back(f, upper);
    assert_int_equal(ask(f, 1, &any, a), CONN_WAIT);
    return upper;
}

static void at_the_limit_an_idle_connection_of_another_loop_is_handed_over(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct fake_conn *c = hand_over_begins(f, a);

    turn(f, 0);
    assert_null(c->loop);
    turn(f, 1);
    assert_ptr_equal(a->w.conn, &c->pooled);
    told_of(f, a, CONN_REUSED);
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
    assert_int_equal(own->told, 0);
    assert_ptr_equal(c->loop, f->loops[2]);
    told_of(f, a, CONN_REUSED);
    turn_all(f);
    told_of(f, own, CONN_REUSED);
    give_back(f, d);
}

static void a_connection_that_cannot_leave_is_closed_for_the_one_who_waits(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct fake_conn *c = hand_over_begins(f, a);

    c->stuck = true;
    turn_all(f);
    assert_int_equal(atomic_load(&f->counts.closed), 1);
    told_of(f, a, CONN_OPEN);
}

static void a_connection_that_cannot_arrive_is_closed_for_the_one_who_waits(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct fake_conn *c = hand_over_begins(f, a);

    c->unwelcome = true;
    turn_all(f);
    assert_int_equal(atomic_load(&f->counts.closed), 1);
    told_of(f, a, CONN_OPEN);
}

static void a_connection_found_dead_before_it_leaves_makes_room(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct fake_conn *c = hand_over_begins(f, a);

    c->dead = true;
    turn_all(f);
    assert_int_equal(atomic_load(&f->counts.detached), 0);
    told_of(f, a, CONN_OPEN);
}

static void a_connection_that_dies_while_leaving_makes_room(void **state)
{
    struct fixture *f = *state;
    struct asker *a = asker();
    struct fake_conn *c = hand_over_begins(f, a);

    forget_and_close(f, c);
    turn_all(f);
    told_of(f, a, CONN_OPEN);
}

static void a_granted_connection_that_dies_before_it_is_told_of_makes_room(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct fake_conn *d = opened(f, 0);
    struct asker *a = asker();

    assert_int_equal(ask(f, 0, &any, a), CONN_WAIT);
    give_back(f, c);
    forget_and_close(f, c);
    turn_all(f);
    told_of(f, a, CONN_OPEN);
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
    told_of(f, a, CONN_OPEN);
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
    told_of(f, a, CONN_OPEN);
    give_back(f, d);
}

/* ---- giving up ---- */

static void one_who_left_the_line_gets_nothing(void **state)
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
    told_of(f, stayed, CONN_REUSED);
    give_back(f, d);
}

static void a_permission_on_its_way_to_one_who_left_goes_to_the_next(void **state)
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
    told_of(f, stayed, CONN_OPEN);
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
    told_of(f, stayed, CONN_REUSED);
    told_of(f, other, CONN_REUSED);
}

static void a_connection_about_to_leave_for_one_who_left_goes_to_the_next(void **state)
{
    leave_after(*state, 0);
}

static void a_connection_about_to_arrive_for_one_who_left_goes_to_the_next(void **state)
{
    leave_after(*state, 1);
}

static void a_granted_connection_of_one_who_left_goes_to_the_next_or_is_idle(void **state)
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
    told_of(f, stayed, CONN_REUSED);
    left = asker();
    give_back(f, d);
    assert_int_equal(view(f).idle, 2);
    gone(left);
}

static void a_connection_on_its_way_to_one_who_left_becomes_idle_where_it_arrives(void **state)
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

/* ---- limits and ends ---- */

static void a_raised_limit_serves_those_who_wait_at_once(void **state)
{
    struct fixture *f = *state;
    struct fake_conn *c = opened(f, 0);
    struct fake_conn *d = opened(f, 0);
    struct asker *a = asker();

    assert_int_equal(ask(f, 1, &any, a), CONN_WAIT);
    conn_backend_set(f->b, 3, &settings);
    turn(f, 1);
    told_of(f, a, CONN_OPEN);
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
    assert_int_equal(a->told, 0);
    give_back(f, used[2]);
    turn_all(f);
    told_of(f, a, CONN_REUSED);
}

static void retiring_closes_idle_ones_each_on_its_loop_and_fails_all_who_wait(void **state)
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
    told_of(f, coming, CONN_REFUSED);
    told_of(f, second, CONN_REFUSED);
    told_of(f, in_line, CONN_REFUSED);
    assert_int_equal(atomic_load(&f->counts.live), 1);
    give_back(f, used);
    assert_int_equal(atomic_load(&f->counts.live), 0);
    struct asker *late = asker();
    assert_int_equal(ask(f, 0, &any, late), CONN_REFUSED);
    assert_int_equal(late->w.error, ERR_NO_WORKER);
    gone(late);
}

static void a_retired_incarnation_is_not_found_again(void **state)
{
    struct fixture *f = *state;

    conn_backend_retire(f->b);
    struct conn_backend *b =
        conn_pool_backend(f->pool, SLICE_LIT("10.0.0.1:80"), SLICE_LIT("life1"), 2, &settings);
    assert_ptr_not_equal(b, f->b);
    conn_backend_release(b);
}

static void backends_are_told_apart_by_address_and_incarnation(void **state)
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
        TEST(checkout_closes_dead_connections_on_its_way),
        TEST(permissions_count_against_the_limit),
        TEST(a_backend_without_limit_always_permits),
        TEST(checkin_goes_to_the_first_in_line),
        TEST(a_full_line_refuses),
        TEST(a_forgotten_connection_leaves_room_for_the_next),
        TEST(connections_idle_for_too_long_are_not_taken),
        TEST(recycling_closes_what_has_been_idle_for_the_time_out),
        TEST(at_the_limit_an_idle_connection_of_another_loop_is_handed_over),
        TEST(a_connection_given_back_is_handed_over_to_the_first_in_line),
        TEST(a_connection_that_cannot_leave_is_closed_for_the_one_who_waits),
        TEST(a_connection_that_cannot_arrive_is_closed_for_the_one_who_waits),
        TEST(a_connection_found_dead_before_it_leaves_makes_room),
        TEST(a_connection_that_dies_while_leaving_makes_room),
        TEST(a_granted_connection_that_dies_before_it_is_told_of_makes_room),
        TEST(fresh_at_the_limit_closes_an_idle_one_of_its_own_loop),
        TEST(fresh_at_the_limit_closes_an_idle_one_of_another_loop),
        TEST(fresh_in_line_gets_the_room_of_a_connection_given_back),
        TEST(one_who_left_the_line_gets_nothing),
        TEST(a_permission_on_its_way_to_one_who_left_goes_to_the_next),
        TEST(a_connection_about_to_leave_for_one_who_left_goes_to_the_next),
        TEST(a_connection_about_to_arrive_for_one_who_left_goes_to_the_next),
        TEST(a_granted_connection_of_one_who_left_goes_to_the_next_or_is_idle),
        TEST(a_connection_on_its_way_to_one_who_left_becomes_idle_where_it_arrives),
        TEST(cancelling_twice_or_without_waiting_is_harmless),
        TEST(a_raised_limit_serves_those_who_wait_at_once),
        TEST(a_lowered_limit_closes_idle_ones_and_then_those_given_back),
        TEST(retiring_closes_idle_ones_each_on_its_loop_and_fails_all_who_wait),
        TEST(a_retired_incarnation_is_not_found_again),
        TEST(backends_are_told_apart_by_address_and_incarnation),
        TEST(a_released_backend_keeps_its_idle_connections_until_they_close),
        TEST(on_a_closed_loop_nothing_becomes_idle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
