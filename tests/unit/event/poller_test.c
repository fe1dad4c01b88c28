/* SPDX-License-Identifier: Apache-2.0
 *
 * What a loop knows of its waits, and the system calls that it makes for them.
 */
#include "common/event/loop.h"

#include "common/base/clock.h"

#include <dlfcn.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    MORE_THAN_ONE_WAIT_TELLS = 300, /* of 256 */
};

/* The system calls of a loop. */
static unsigned timer_sets, polls, epoll_waits, epoll_changes;

int timerfd_settime(int fd, int flags, const struct itimerspec *new_value,
                    struct itimerspec *old_value)
{
    int (*real)(int, int, const struct itimerspec *, struct itimerspec *);
    void *found = dlsym(RTLD_NEXT, "timerfd_settime");

    memcpy(&real, &found, sizeof(real));
    ++timer_sets;
    return real(fd, flags, new_value, old_value);
}

/*
 * These are wrapped (--wrap): a loop polls and queries epoll by them (sys.h). If COMES_BETWEEN is
 * set, it becomes readable between the two. LOOP_THAT_WAITS must know nothing before its wait.
 */
static int comes_between = -1;
static bool has_polled;
static const struct loop *loop_that_waits;

static void note_call(bool is_poll, bool is_epoll_wait)
{
    polls += is_poll;
    epoll_waits += is_epoll_wait;
    if ((is_poll || is_epoll_wait) && loop_that_waits != NULL)
        assert_false(loop_reported_all(loop_that_waits));
    if (is_epoll_wait && has_polled && comes_between != -1)
        assert_int_equal(eventfd_write(comes_between, 1), 0);
    has_polled = is_poll;
}

int __real_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    ++epoll_changes;
    return __real_epoll_ctl(epoll, op, fd, event);
}

int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    note_call(true, false);
    return __real_poll(fds, n, timeout_ms);
}

int __real_epoll_pwait(int epoll, struct epoll_event *events, int max, int timeout_ms,
                       const sigset_t *mask);
int __wrap_epoll_pwait(int epoll, struct epoll_event *events, int max, int timeout_ms,
                       const sigset_t *mask);
int __wrap_epoll_pwait(int epoll, struct epoll_event *events, int max, int timeout_ms,
                       const sigset_t *mask)
{
    note_call(false, true);
    return __real_epoll_pwait(epoll, events, max, timeout_ms, mask);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long words[6];
    va_list rest;

    va_start(rest, number);
    /* Arguments beyond those of the call are undefined, as for syscall(2) itself. */
    for (size_t i = 0; i < 6; ++i)
        words[i] = va_arg(rest, long);
    va_end(rest);
#ifdef SYS_poll /* not on arm64, where poll() is called instead */
    const bool is_poll = number == SYS_poll;
#else
    const bool is_poll = false;
#endif
    note_call(is_poll, number == SYS_epoll_pwait);
    return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* A descriptor that is always readable, and a record of the calls of its callback. */
struct ringing {
    struct loop *loop;
    struct watch *watch;
    int fd;
    unsigned calls;
    bool reported_all; /* in the last call */
};

struct fixture {
    struct loop *loop;
    struct loop_deferred at_end;
    bool reported_all_at_end;
    unsigned ends;
};

static void on_end(struct loop_deferred *d)
{
    struct fixture *f = container_of(d, struct fixture, at_end);

    f->reported_all_at_end = loop_reported_all(f->loop);
    ++f->ends;
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    f->loop = loop_create(0);
    f->at_end.run = on_end;
    loop_each_turn(f->loop, &f->at_end);
    loop_turn(f->loop, 0); /* what the loop watches itself is in epoll from now on */
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    list_remove(&f->at_end.node);
    loop_destroy(f->loop);
    free(f);
    return 0;
}

static void on_ring(void *context)
{
    struct ringing *r = context;

    ++r->calls;
    r->reported_all = loop_reported_all(r->loop);
}

static void ring(struct fixture *f, struct ringing *r)
{
    *r = (struct ringing){.loop = f->loop, .fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC)};
    assert_int_not_equal(r->fd, -1);
    r->watch = watch_start(f->loop, r->fd, on_ring, r);
}

static void silence(struct ringing *r)
{
    watch_stop(r->watch);
    close(r->fd);
}

static void a_wait_with_nothing_to_report_has_reported_all(void **state)
{
    struct fixture *f = *state;
    uint64_t before = loop_waits(f->loop);

    loop_turn(f->loop, 0);
    assert_true(f->reported_all_at_end);
    assert_int_equal(loop_waits(f->loop), before + 1);
}

static void between_turns_nothing_is_known(void **state)
{
    struct fixture *f = *state;

    loop_turn(f->loop, 0);
    assert_true(f->reported_all_at_end);
    assert_false(loop_reported_all(f->loop));
}

static void before_the_wait_nothing_is_known(void **state)
{
    struct fixture *f = *state;
    unsigned before = epoll_waits;

    loop_turn(f->loop, 0);
    loop_that_waits = f->loop;
    loop_turn(f->loop, 0);
    loop_that_waits = NULL;
    assert_int_equal(epoll_waits - before, 2);
    assert_true(f->reported_all_at_end);
}

static void while_another_socket_still_waits_to_be_called_not_all_is_reported(void **state)
{
    struct fixture *f = *state;
    struct ringing two[2];

    ring(f, &two[0]);
    ring(f, &two[1]);
    loop_turn(f->loop, 0);
    assert_int_equal(two[0].calls, 1);
    assert_int_equal(two[1].calls, 1);
    /* Only in the last callback had the events of both been delivered. */
    assert_int_equal(two[0].reported_all + two[1].reported_all, 1);
    assert_true(f->reported_all_at_end);
    silence(&two[0]);
    silence(&two[1]);
}

static void a_wait_that_could_not_reports_all_sockets_has_not_reported_all(void **state)
{
    struct fixture *f = *state;
    struct ringing many[MORE_THAN_ONE_WAIT_TELLS];
    unsigned calls = 0;

    for (unsigned i = 0; i < MORE_THAN_ONE_WAIT_TELLS; ++i)
        ring(f, &many[i]);
    f->reported_all_at_end = true;
    loop_turn(f->loop, 0);
    for (unsigned i = 0; i < MORE_THAN_ONE_WAIT_TELLS; ++i)
        calls += many[i].calls;
    assert_in_range(calls, 1, MORE_THAN_ONE_WAIT_TELLS - 1);
    assert_false(f->reported_all_at_end);
    for (unsigned i = 0; i < MORE_THAN_ONE_WAIT_TELLS; ++i)
        silence(&many[i]);
    loop_turn(f->loop, 0);
    assert_true(f->reported_all_at_end);
}

static void a_client_is_called_when_all_else_has_been(void **state)
{
    struct fixture *f = *state;
    struct ringing client, two[2];

    client = (struct ringing){.loop = f->loop, .fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC)};
    client.watch = watch_start_as_is(f->loop, client.fd, on_ring, &client);
    watch_set_client(client.watch);
    ring(f, &two[0]);
    ring(f, &two[1]);
    loop_turn(f->loop, 0);
    assert_int_equal(client.calls, 1);
    assert_true(client.reported_all);
    silence(&client);
    silence(&two[0]);
    silence(&two[1]);
}

/* ---- system calls ---- */

static void reset_counts(void)
{
    timer_sets = polls = epoll_waits = epoll_changes = 0;
}

/* The callback of a request: interest is dropped, and resumed later in the turn. */
static void on_ring_and_pause(void *context)
{
    struct ringing *r = context;

    on_ring(context);
    watch_read_level(r->watch, WATCH_FAILURE);
    watch_write(r->watch, NULL);
    watch_read_level(r->watch, WATCH_BYTES);
}

static void on_no_timer(struct timer *t)
{
    (void)t;
    fail();
}

static void a_turn_of_watches_that_stay_makes_one_system_call(void **state)
{
    enum { STAYING = 20, TURNS = 100 };
    struct fixture *f = *state;
    struct ringing rings[STAYING];
    struct timer t;

    timer_init(&t, on_no_timer);
    timer_start(f->loop, &t, 3600 * 1000);
    for (unsigned i = 0; i < STAYING; ++i) {
        ring(f, &rings[i]);
        watch_hand_over(rings[i].watch, on_ring_and_pause, &rings[i]);
    }
    loop_turn(f->loop, UINT_MAX); /* the oldest are registered, */
    loop_turn(f->loop, UINT_MAX); /* and now all */
    reset_counts();
    for (unsigned i = 0; i < TURNS; ++i)
        loop_turn(f->loop, UINT_MAX);
    assert_int_equal(epoll_waits, TURNS);
    assert_int_equal(polls + epoll_changes + timer_sets, 0);
    for (unsigned i = 0; i < STAYING; ++i) {
        assert_int_equal(rings[i].calls, TURNS + 2);
        silence(&rings[i]);
    }
    timer_stop(&t);
}

static void a_watch_that_is_alone_costs_no_call_to_start_and_to_stop(void **state)
{
    struct fixture *f = *state;
    struct ringing r;

    reset_counts();
    ring(f, &r);
    loop_turn(f->loop, UINT_MAX);
    loop_turn(f->loop, UINT_MAX);
    silence(&r);
    assert_int_equal(r.calls, 2);
    assert_int_equal(polls, 2);
    assert_int_equal(epoll_waits + epoll_changes + timer_sets, 0);
}

static void interest_that_changes_costs_one_call_before_the_wait(void **state)
{
    enum { ENOUGH_FOR_EPOLL = 12 };
    struct fixture *f = *state;
    struct ringing rings[ENOUGH_FOR_EPOLL];

    for (unsigned i = 0; i < ENOUGH_FOR_EPOLL; ++i)
        ring(f, &rings[i]);
    loop_turn(f->loop, 0);
    loop_turn(f->loop, 0);
    reset_counts();
    watch_read_level(rings[0].watch, WATCH_FAILURE);
    watch_read_level(rings[0].watch, WATCH_END);
    assert_int_equal(epoll_changes, 0);
    loop_turn(f->loop, 0);
    assert_int_equal(epoll_changes, 1);
    assert_int_equal(rings[0].calls, 2);
    for (unsigned i = 0; i < ENOUGH_FOR_EPOLL; ++i)
        silence(&rings[i]);
}

struct posting {
    struct ringing ringing;
    struct loop_message message;
    unsigned messages;
};

static void on_message(struct loop_message *m)
{
    ++container_of(m, struct posting, message)->messages;
}

static void ring_and_post(void *context)
{
    struct posting *p = container_of(context, struct posting, ringing);

    watch_stop(p->ringing.watch);
    loop_post(p->ringing.loop, &p->message);
}

static void a_loop_that_posts_to_itself_is_not_woken_for_it(void **state)
{
    struct fixture *f = *state;
    struct posting p = {.message.run = on_message};

    ring(f, &p.ringing);
    watch_stop(p.ringing.watch);
    p.ringing.watch = watch_start(f->loop, p.ringing.fd, ring_and_post, &p.ringing);
    loop_turn(f->loop, 1000); /* polls the socket before it sleeps */
    assert_int_equal(p.messages, 1);
    uint64_t began_us = clock_mono_us();
    loop_turn(f->loop, 20);
    assert_true(clock_mono_us() - began_us >= 20000); /* nothing has ended its wait */
    close(p.ringing.fd);
}

/* A timer, and when it expired, of those of its test. */
struct expiring {
    struct timer timer;
    unsigned *expired;
    unsigned at; /* 1: first */
};

static void on_expired(struct timer *t)
{
    struct expiring *e = container_of(t, struct expiring, timer);

    e->at = ++*e->expired;
}

static void start(struct fixture *f, struct expiring *e, unsigned *expired, unsigned delay_ms)
{
    *e = (struct expiring){.expired = expired};
    timer_init(&e->timer, on_expired);
    timer_start(f->loop, &e->timer, delay_ms);
}

static void waits_for_the_same_timer_set_the_clocks_once(void **state)
{
    struct fixture *f = *state;
    struct ringing r;
    struct expiring e;
    unsigned expired = 0;

    ring(f, &r);
    start(f, &e, &expired, 3600 * 1000);
    loop_turn(f->loop, UINT_MAX);
    unsigned before = timer_sets;
    for (unsigned i = 0; i < 100; ++i)
        loop_turn(f->loop, UINT_MAX);
    assert_int_equal(r.calls, 101);
    /* The timer wheel sets the clock again when it moves a distant timer to a nearer wheel. */
    assert_in_range(timer_sets - before, 0, 2);
    timer_stop(&e.timer);
    silence(&r);
}

static void a_timer_set_before_the_one_waited_for_comes_first(void **state)
{
    struct fixture *f = *state;
    struct ringing r;
    struct expiring late, soon;
    unsigned expired = 0;

    ring(f, &r);
    start(f, &late, &expired, 3600 * 1000);
    loop_turn(f->loop, UINT_MAX);
    assert_int_equal(r.calls, 1); /* has waited with the late one in view */
    silence(&r);
    start(f, &soon, &expired, 20);
    while (expired == 0)
        loop_turn(f->loop, UINT_MAX);
    assert_int_equal(soon.at, 1);
    assert_int_equal(late.at, 0);
    timer_stop(&late.timer);
}

static void a_stopped_timer_that_the_clock_was_set_for_delays_no_later_timer(void **state)
{
    struct fixture *f = *state;
    struct ringing r;
    struct expiring gone, stays;
    unsigned expired = 0;

    ring(f, &r);
    start(f, &gone, &expired, 10);
    start(f, &stays, &expired, 40);
    loop_turn(f->loop, UINT_MAX);
    timer_stop(&gone.timer);
    silence(&r);
    while (expired == 0)
        loop_turn(f->loop, UINT_MAX);
    assert_int_equal(stays.at, 1);
    assert_int_equal(gone.at, 0);
}

struct silent {
    struct loop_deferred at_end;
    struct watch *watch;
    unsigned calls;
    bool current; /* at the end of the last turn */
};

static void on_sound(void *context)
{
    struct silent *s = context;

    ++s->calls;
}

static void on_end_of_silent(struct loop_deferred *d)
{
    struct silent *s = container_of(d, struct silent, at_end);

    s->current = watch_is_current(s->watch);
}

static void an_event_after_the_poll_is_not_taken_for_reported(void **state)
{
    enum { ENOUGH_FOR_EPOLL = 12 };
    struct fixture *f = *state;
    struct ringing rings[ENOUGH_FOR_EPOLL];
    struct silent s = {.at_end.run = on_end_of_silent};
    eventfd_t value;
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    for (unsigned i = 0; i < ENOUGH_FOR_EPOLL; ++i)
        ring(f, &rings[i]);
    loop_turn(f->loop, 0);
    for (unsigned i = 1; i < ENOUGH_FOR_EPOLL; ++i)
        silence(&rings[i]);
    s.watch = watch_start(f->loop, fd, on_sound, &s);
    loop_each_turn(f->loop, &s.at_end);
    comes_between = fd;
    has_polled = false;
    loop_turn(f->loop, 0);
    comes_between = -1;
    assert_int_equal(eventfd_read(fd, &value), 0); /* the event has arrived */
    assert_int_equal(s.calls, 0);
    assert_true(f->reported_all_at_end);
    assert_false(s.current);
    /* From then on it is in epoll, which delivers events in the order of their arrival. */
    loop_turn(f->loop, 0);
    assert_true(f->reported_all_at_end && s.current);
    list_remove(&s.at_end.node);
    watch_stop(s.watch);
    close(fd);
    silence(&rings[0]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_wait_with_nothing_to_report_has_reported_all),
        TEST(between_turns_nothing_is_known),
        TEST(before_the_wait_nothing_is_known),
        TEST(while_another_socket_still_waits_to_be_called_not_all_is_reported),
        TEST(a_wait_that_could_not_reports_all_sockets_has_not_reported_all),
        TEST(an_event_after_the_poll_is_not_taken_for_reported),
        TEST(a_client_is_called_when_all_else_has_been),
        TEST(a_turn_of_watches_that_stay_makes_one_system_call),
        TEST(a_watch_that_is_alone_costs_no_call_to_start_and_to_stop),
        TEST(interest_that_changes_costs_one_call_before_the_wait),
        TEST(a_loop_that_posts_to_itself_is_not_woken_for_it),
        TEST(waits_for_the_same_timer_set_the_clocks_once),
        TEST(a_timer_set_before_the_one_waited_for_comes_first),
        TEST(a_stopped_timer_that_the_clock_was_set_for_delays_no_later_timer),
    };

    return cmocka_run_group_tests_name("poller", tests, NULL, NULL);
}
