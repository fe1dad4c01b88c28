/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of two, as while it grows from one: no class has a second home there, so it is moves that
 * keep one worker from idling beside another's queue.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/homes/homes_fixture.h"

static const char *const sites[] = {"a", "b", "c", "d"};

enum { SITES = 4, SEEN_ONCE = 200 };

/*
 * All requested classes have their home at worker 0; those of 1 were requested once, before 0 was
 * added. Because of its many homes, 1 is not the less loaded one, so no class is rebalanced to it.
 */
static void lodge_all_at_one(struct lodgers *f)
{
    char cls[16];

    lodgers_start(f, 2, 1);
    f->rejected[0] = true;
    for (int i = 0; i < SEEN_ONCE; ++i) {
        snprintf(cls, sizeof(cls), "once%d", i);
        assert_int_equal(serve(f, cls, 20 * MS), 1);
    }
    f->rejected[0] = false;
    f->rejected[1] = true;
    for (int i = 0; i < 10 * SITES; ++i)
        assert_int_equal(serve(f, sites[i % SITES], 50 * MS), 0);
    /* They may have several requests in flight. */
    for (int i = 0; i < 2 * SITES; ++i)
        assert_int_equal(ask(f, sites[i / 2]), 0);
    for (size_t i = 0; i < 2 * SITES; ++i) {
        f->now_us += 50 * MS;
        response_how(f, i, false);
    }
    f->ntickets = 0;
}

/* N requests more for each site, while worker 1 takes none. */
static void queue_at_one(struct lodgers *f, int n)
{
    f->rejected[1] = true;
    for (int i = 0; i < n * SITES; ++i)
        assert_int_equal(ask(f, sites[i % SITES]), 0);
    f->rejected[1] = false;
}

static void classes_leave_the_longer_queue_of_two_until_it_is_no_longer_too_long(void **state)
{
    struct lodgers f;
    struct homes_view v;

    (void)state;
    lodge_all_at_one(&f);
    queue_at_one(&f, 10);
    assert_int_equal(ask(&f, "a"), 1);
    assert_int_equal(f.choice.reason, HOMES_REASSIGN);
    assert_ptr_equal(f.choice.from, f.workers[0]);
    for (int i = 0; i < 40 * SITES; ++i)
        ask(&f, sites[i % SITES]);
    homes_view(f.homes, f.now_us, &v);
    double gap = view_of(&f, 0).work_us - view_of(&f, 1).work_us;
    assert_true(gap < 5 * (v.cold_us + v.median_us));
    assert_true(view_of(&f, 1).in_flight > 10);
    lodgers_end(&f);
}

static void a_short_queue_of_two_is_waited_in(void **state)
{
    struct lodgers f;
    struct homes_view v;

    (void)state;
    lodge_all_at_one(&f);
    homes_view(f.homes, f.now_us, &v);
    f.rejected[1] = false;
    while (view_of(&f, 0).work_us <= 3 * v.cold_us) {
        assert_int_equal(ask(&f, sites[f.ntickets % SITES]), 0);
        assert_int_equal(f.choice.reason, HOMES_HOME);
    }
    assert_true(f.ntickets > 0);
    /* The other has nothing to do: it gets one, and has something now. */
    assert_int_equal(ask(&f, sites[f.ntickets % SITES]), 1);
    assert_int_equal(f.choice.reason, HOMES_OVERFLOW);
    while (view_of(&f, 0).work_us <= 5 * v.cold_us) {
        assert_int_equal(ask(&f, sites[f.ntickets % SITES]), 0);
        assert_int_equal(f.choice.reason, HOMES_HOME);
    }
    lodgers_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_leave_the_longer_queue_of_two_until_it_is_no_longer_too_long),
        cmocka_unit_test(a_short_queue_of_two_is_waited_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
