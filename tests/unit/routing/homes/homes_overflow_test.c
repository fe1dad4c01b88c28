/* SPDX-License-Identifier: Apache-2.0
 *
 * Overflow: requests that would wait behind others while half of the workers are idle.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/routing/homes/homes_fixture.h"

static void take_only(struct lodgers *f, int worker)
{
    for (int w = 0; w < 8; ++w)
        f->rejected[w] = w != worker;
}

/* "loud" and "quiet" have their home at the same worker of 8, as no class may have two homes; the
 * work of LOUD's requests there is above two cold ones, and below what makes a class move. Returns
 * the worker. */
static int queue_up(struct lodgers *f)
{
    struct homes_view v;
    char cls[32];

    lodgers_start(f, 8, 1);
    homes_set(f->homes,
              &(struct homes_settings){.max_classes = 1000, .max_share = 0.1, .always = true});
    for (int w = 0; w < 8; ++w) {
        take_only(f, w);
        snprintf(cls, sizeof(cls), "first%d", w);
        serve(f, cls, 10 * MS);
        snprintf(cls, sizeof(cls), "second%d", w);
        serve(f, cls, 10 * MS);
    }
    memset(f->rejected, 0, sizeof(f->rejected));
    int home = serve(f, "quiet", 10 * MS);
    take_only(f, home);
    /* It may have several requests in flight. */
    assert_int_equal(ask(f, "quiet"), home);
    assert_int_equal(serve(f, "quiet", 10 * MS), home);
    f->now_us += 10 * MS;
    response_how(f, --f->ntickets, false);
    homes_view(f->homes, f->now_us, &v);
    do
        assert_int_equal(ask(f, "loud"), home);
    while (f->choice.home_us < 3 * v.cold_us);
    memset(f->rejected, 0, sizeof(f->rejected));
    return home;
}

static void
who_would_wait_behind_others_goes_elsewhere_once_while_half_of_the_workers_idle(void **state)
{
    struct lodgers f;

    (void)state;
    int home = queue_up(&f);
    assert_int_not_equal(ask(&f, "quiet"), home);
    assert_int_equal(f.choice.reason, HOMES_OVERFLOW);
    assert_int_equal(homes_count(&f, "quiet"), 1);
    struct homes_worker *at;
    homes_of(f.homes, SLICE_LIT("quiet"), &at, 1);
    assert_ptr_equal(at, f.workers[home]);
    /* Not the class that causes the queue. */
    assert_int_equal(ask(&f, "loud"), home);
    assert_int_equal(f.choice.reason, HOMES_HOME);
    lodgers_end(&f);
}

static void a_request_waits_at_its_home_if_more_than_half_of_the_workers_are_busy(void **state)
{
    struct lodgers f;
    char cls[32];

    (void)state;
    int home = queue_up(&f);
    for (int w = 0; w < 5; ++w) {
        snprintf(cls, sizeof(cls), "first%d", (home + 1 + w) % 8);
        assert_int_not_equal(ask(&f, cls), home);
    }
    assert_int_equal(ask(&f, "quiet"), home);
    assert_int_equal(f.choice.reason, HOMES_HOME);
    lodgers_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            who_would_wait_behind_others_goes_elsewhere_once_while_half_of_the_workers_idle),
        cmocka_unit_test(a_request_waits_at_its_home_if_more_than_half_of_the_workers_are_busy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
