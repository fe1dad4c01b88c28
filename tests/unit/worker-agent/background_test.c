/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/support/wait_limit.h"
#include "worker-agent/background.h"

enum { JOBS = 100 };

struct job {
    struct background_job base;
    int begun_fd, wait_fd; /* -1: none; says that it works, and does until this is readable */
    unsigned *clock;
    unsigned worked, reported, dropped;
};

static void work(struct background_job *base)
{
    struct job *j = container_of(base, struct job, base);
    struct pollfd p = {.fd = j->wait_fd, .events = POLLIN};

    if (j->wait_fd >= 0) {
        assert_int_equal(write(j->begun_fd, "x", 1), 1);
        poll(&p, 1, -1);
    }
    j->worked = ++*j->clock;
}

static void done(struct background_job *base, bool dropped)
{
    struct job *j = container_of(base, struct job, base);

    ++j->reported;
    j->dropped += dropped;
}

static void start(struct background *b, struct job *j, unsigned *clock)
{
    *j = (struct job){.base = {.work = work, .done = done}, .wait_fd = -1, .clock = clock};
    background_add(b, &j->base);
}

static void jobs_are_worked_on_in_order_and_reported_once(void **state)
{
    struct loop *l = loop_create(0);
    struct background *b = background_create(l);
    uint64_t until_us = clock_mono_us() + WAIT_LIMIT_MS * 1000;
    static struct job jobs[JOBS];
    unsigned clock = 0;

    (void)state;
    for (size_t i = 0; i < JOBS; ++i)
        start(b, &jobs[i], &clock);
    assert_int_equal(jobs[0].reported, 0);
    while (jobs[JOBS - 1].reported == 0 && clock_mono_us() < until_us)
        loop_turn(l, 10);
    for (size_t i = 0; i < JOBS; ++i) {
        assert_int_equal(jobs[i].worked, i + 1);
        assert_int_equal(jobs[i].reported, 1);
        assert_int_equal(jobs[i].dropped, 0);
    }
    assert_true(background_destroy(b));
    loop_destroy(l);
}

static void what_is_left_at_the_end_is_dropped(void **state)
{
    struct loop *l = loop_create(0);
    static struct job jobs[JOBS];

    (void)state;
    /* Ended at once, or while its message is on the way. */
    for (int round = 0; round < 20; ++round) {
        struct background *b = background_create(l);
        unsigned clock = 0;

        for (size_t i = 0; i < JOBS; ++i)
            start(b, &jobs[i], &clock);
        if (round % 2 == 1)
            loop_turn(l, 0);
        assert_true(background_destroy(b));
        for (size_t i = 0; i < JOBS; ++i)
            assert_int_equal(jobs[i].reported, 1);
        if (round % 3 == 0)
            loop_turn(l, 0);
    }
    loop_destroy(l);
}

static void a_job_that_hangs_is_left_behind_and_never_reported(void **state)
{
    struct loop *l = loop_create(0);
    /* Stays, as its thread does. */
    static struct background *b;
    static struct job next;
    static unsigned clock;
    static struct job stuck = {.base = {.work = work, .done = done}, .clock = &clock};
    int begun[2];
    int ends[2];
    char byte;

    (void)state;
    assert_int_equal(pipe(begun), 0);
    assert_int_equal(pipe(ends), 0);
    b = background_create(l);
    stuck.begun_fd = begun[1];
    stuck.wait_fd = ends[0];
    background_add(b, &stuck.base);
    assert_int_equal(read(begun[0], &byte, 1), 1);
    start(b, &next, &clock);
    uint64_t began_us = clock_mono_us();
    assert_false(background_destroy(b));
    assert_true(clock_mono_us() - began_us >= BACKGROUND_STUCK_MS * 1000);
    assert_int_equal(next.dropped, 1);
    /* It goes on one day, and finds nobody. */
    assert_int_equal(write(ends[1], "x", 1), 1);
    loop_turn(l, 100);
    assert_int_equal(stuck.reported, 0);
    loop_destroy(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_worked_on_in_order_and_reported_once),
        cmocka_unit_test(what_is_left_at_the_end_is_dropped),
        cmocka_unit_test(a_job_that_hangs_is_left_behind_and_never_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
