/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/event/worker_thread.h"
#include "tests/support/wait_limit.h"

enum { JOBS = 100 };

struct job {
    struct worker_job base;
    int begun_fd, wait_fd; /* -1: none; says that it works, and does until this is readable */
    unsigned *clock;
    unsigned worked, reported, dropped;
};

static void work(struct worker_job *base)
{
    struct job *j = container_of(base, struct job, base);
    struct pollfd p = {.fd = j->wait_fd, .events = POLLIN};

    if (j->wait_fd >= 0) {
        assert_int_equal(write(j->begun_fd, "x", 1), 1);
        poll(&p, 1, -1);
    }
    j->worked = ++*j->clock;
}

static void done(struct worker_job *base, bool dropped)
{
    struct job *j = container_of(base, struct job, base);

    ++j->reported;
    j->dropped += dropped;
}

static void start(struct worker_thread *t, struct job *j, unsigned *clock)
{
    *j = (struct job){.base = {.work = work, .done = done}, .wait_fd = -1, .clock = clock};
    worker_thread_add(t, &j->base, 0);
}

static void jobs_are_worked_on_in_order_and_reported_once(void **state)
{
    struct loop *l = loop_create(0);
    struct worker_thread *t = worker_thread_create(l);
    uint64_t until_us = clock_mono_us() + WAIT_LIMIT_MS * 1000;
    static struct job jobs[JOBS];
    unsigned clock = 0;

    (void)state;
    for (size_t i = 0; i < JOBS; ++i)
        start(t, &jobs[i], &clock);
    assert_int_equal(jobs[0].reported, 0);
    while (jobs[JOBS - 1].reported == 0 && clock_mono_us() < until_us)
        loop_turn(l, 10);
    for (size_t i = 0; i < JOBS; ++i) {
        assert_int_equal(jobs[i].worked, i + 1);
        assert_int_equal(jobs[i].reported, 1);
        assert_int_equal(jobs[i].dropped, 0);
    }
    assert_true(worker_thread_destroy(t, WORKER_THREAD_WAIT));
    loop_destroy(l);
}

static void jobs_left_at_the_end_are_dropped(void **state)
{
    struct loop *l = loop_create(0);
    static struct job jobs[JOBS];

    (void)state;
    /* Ended at once, or while its message is on the way. */
    for (int round = 0; round < 20; ++round) {
        struct worker_thread *t = worker_thread_create(l);
        unsigned clock = 0;

        for (size_t i = 0; i < JOBS; ++i)
            start(t, &jobs[i], &clock);
        if (round % 2 == 1)
            loop_turn(l, 0);
        assert_true(worker_thread_destroy(t, WORKER_THREAD_WAIT));
        for (size_t i = 0; i < JOBS; ++i)
            assert_int_equal(jobs[i].reported, 1);
        if (round % 3 == 0)
            loop_turn(l, 0);
    }
    loop_destroy(l);
}

static char read_byte(int fd)
{
    char byte = 0;

    assert_int_equal(read(fd, &byte, 1), 1);
    return byte;
}

static void write_byte(int fd, char byte)
{
    assert_int_equal(write(fd, &byte, 1), 1);
}

/* The end of a left-behind job: on the thread. */
static void done_late(struct worker_job *base, bool dropped)
{
    struct job *j = container_of(base, struct job, base);

    write_byte(j->begun_fd, dropped ? 'd' : 'r');
}

static void a_job_that_hangs_is_left_behind_and_dropped_when_it_returns(void **state)
{
    struct loop *l = loop_create(0);
    struct worker_thread *t = worker_thread_create(l);
    struct job next;
    unsigned clock = 0;
    struct job stuck = {.base = {.work = work, .done = done_late}, .clock = &clock};
    int begun[2];
    int ends[2];

    (void)state;
    assert_int_equal(pipe(begun), 0);
    assert_int_equal(pipe(ends), 0);
    stuck.begun_fd = begun[1];
    stuck.wait_fd = ends[0];
    worker_thread_add(t, &stuck.base, 0);
    assert_int_equal(read_byte(begun[0]), 'x');
    start(t, &next, &clock);
    assert_false(worker_thread_destroy(t, 10));
    assert_int_equal(next.dropped, 1);
    write_byte(ends[1], 'x');
    assert_int_equal(read_byte(begun[0]), 'd');
    loop_turn(l, 0);
    loop_destroy(l);
    for (int i = 0; i < 2; ++i) {
        close(begun[i]);
        close(ends[i]);
    }
}

/* A job without done(); what it does is seen by pipes. */
struct silent {
    struct worker_job base;
    struct worker_thread *thread;
    int says, waits; /* says: its name, each time; waits: for a byte; -1: not */
    char name;
    unsigned again; /* how often it adds itself */
    bool frees;
};

static void work_silently(struct worker_job *base)
{
    struct silent *s = container_of(base, struct silent, base);

    write_byte(s->says, s->name);
    if (s->waits >= 0)
        (void)read_byte(s->waits);
    if (s->again > 0) {
        --s->again;
        worker_thread_add(s->thread, base, 0);
    }
    if (s->frees)
        free(s);
}

struct pipes {
    struct worker_thread *thread;
    int says[2], go_on[2];
    struct silent first; /* holds the thread until GO_ON */
};

static struct silent silent_job(const struct pipes *p, char name)
{
    return (struct silent){.base.work = work_silently,
                           .thread = p->thread,
                           .says = p->says[1],
                           .waits = -1,
                           .name = name};
}

static int set_up(void **state)
{
    struct pipes *p = calloc(1, sizeof(*p));

    assert_int_equal(pipe(p->says), 0);
    assert_int_equal(pipe(p->go_on), 0);
    p->thread = worker_thread_create(NULL);
    p->first = silent_job(p, 'f');
    p->first.waits = p->go_on[0];
    worker_thread_add(p->thread, &p->first.base, 0);
    assert_int_equal(read_byte(p->says[0]), 'f');
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct pipes *p = *state;

    for (int i = 0; i < 2; ++i) {
        close(p->says[i]);
        close(p->go_on[i]);
    }
    free(p);
    return 0;
}

static void expect_names(struct pipes *p, const char *names)
{
    for (; *names != '\0'; ++names)
        assert_int_equal(read_byte(p->says[0]), *names);
    assert_true(worker_thread_destroy(p->thread, WORKER_THREAD_WAIT));
    struct pollfd none = {.fd = p->says[0], .events = POLLIN};
    assert_int_equal(poll(&none, 1, 0), 0);
}

static void a_job_that_waits_is_worked_on_once(void **state)
{
    struct pipes *p = *state;
    struct silent a = silent_job(p, 'a');
    struct silent b = silent_job(p, 'b');

    worker_thread_add(p->thread, &a.base, 0);
    worker_thread_add(p->thread, &b.base, 0);
    worker_thread_add(p->thread, &a.base, 0);
    write_byte(p->go_on[1], 'x');
    expect_names(p, "ab");
}

static void a_job_that_is_added_while_it_is_worked_on_is_worked_on_again(void **state)
{
    struct pipes *p = *state;

    worker_thread_add(p->thread, &p->first.base, 0);
    worker_thread_add(p->thread, &p->first.base, 0);
    write_byte(p->go_on[1], 'x');
    write_byte(p->go_on[1], 'x');
    expect_names(p, "f");
}

static void a_job_may_add_itself(void **state)
{
    struct pipes *p = *state;
    struct silent a = silent_job(p, 'a');

    a.again = 3;
    worker_thread_add(p->thread, &a.base, 0);
    write_byte(p->go_on[1], 'x');
    expect_names(p, "aaaa");
}

static void a_job_that_is_not_reported_may_free_itself(void **state)
{
    struct pipes *p = *state;
    struct silent *a = calloc(1, sizeof(*a));

    *a = silent_job(p, 'a');
    a->frees = true;
    worker_thread_add(p->thread, &a->base, 0);
    write_byte(p->go_on[1], 'x');
    expect_names(p, "a");
}

static void jobs_are_due_after_their_delays(void **state)
{
    enum { NEVER_MS = 3600 * 1000 };
    struct pipes *p = *state;
    struct silent a = silent_job(p, 'a');
    struct silent b = silent_job(p, 'b');
    struct silent c = silent_job(p, 'c');
    struct silent d = silent_job(p, 'd');

    worker_thread_add(p->thread, &d.base, NEVER_MS);
    worker_thread_add(p->thread, &b.base, 1);
    worker_thread_add(p->thread, &a.base, 20);
    worker_thread_add(p->thread, &c.base, 0);
    write_byte(p->go_on[1], 'x');
    expect_names(p, "cba");
}

static void the_earlier_of_two_times_counts(void **state)
{
    enum { NEVER_MS = 3600 * 1000 };
    struct pipes *p = *state;
    struct silent a = silent_job(p, 'a');
    struct silent b = silent_job(p, 'b');

    worker_thread_add(p->thread, &a.base, NEVER_MS);
    write_byte(p->go_on[1], 'x');
    worker_thread_add(p->thread, &b.base, 1);
    assert_int_equal(read_byte(p->says[0]), 'b');
    worker_thread_add(p->thread, &a.base, 1);
    worker_thread_add(p->thread, &a.base, NEVER_MS);
    expect_names(p, "a");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_worked_on_in_order_and_reported_once),
        cmocka_unit_test(jobs_left_at_the_end_are_dropped),
        cmocka_unit_test(a_job_that_hangs_is_left_behind_and_dropped_when_it_returns),
        TEST(a_job_that_waits_is_worked_on_once),
        TEST(a_job_that_is_added_while_it_is_worked_on_is_worked_on_again),
        TEST(a_job_may_add_itself),
        TEST(a_job_that_is_not_reported_may_free_itself),
        TEST(jobs_are_due_after_their_delays),
        TEST(the_earlier_of_two_times_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
