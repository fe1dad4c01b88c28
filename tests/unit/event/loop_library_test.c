/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns with and without libh2o's own: which of the two one is, and that nobody sees a difference.
 */
#include "common/base/clock.h"
#include "common/event/loop.h"
#include "common/event/loop_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <unistd.h>

#include <h2o.h>

#include <cmocka.h>

enum {
    LONG_MS = 60000, /* longer than the test may take */
    MORE_THAN_A_PIPE_HOLDS = 1024 * 1024,
};

static unsigned library_turns;
static unsigned wall_looks;
static time_t wall_is_set_by_s;

/* libc's, counted, and of a clock that somebody has set. */
int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec t;

    (void)zone;
    ++wall_looks;
    int failed = clock_gettime(CLOCK_REALTIME, &t);
    assert_int_equal(failed, 0);
    *now = (struct timeval){t.tv_sec + wall_is_set_by_s, t.tv_nsec / 1000};
    return 0;
}

/* libh2o's, counted. */
int h2o_evloop_run(h2o_evloop_t *l, int32_t max_wait)
{
    int (*run)(h2o_evloop_t *, int32_t) = NULL;
    void *found = dlsym(RTLD_NEXT, "h2o_evloop_run");

    assert_non_null(found);
    memcpy(&run, &found, sizeof(run));
    ++library_turns;
    return run(l, max_wait);
}

/* A socket of libh2o's that does not read, at an eventfd, and what its callback is to do. */
struct ringing {
    struct loop *loop;
    h2o_socket_t *sock;
    int fd;
    unsigned calls;
    unsigned *order; /* counts all calls */
    unsigned place;  /* of its last one */
    bool restarts;
    struct ringing *closes; /* not NULL: itself or another */
    h2o_timeout_t *links;
    h2o_timeout_entry_t entry;
    unsigned expired;
    uint64_t now_ms;
};

static void close_ringing(struct ringing *r)
{
    if (r->sock != NULL)
        h2o_socket_close(r->sock);
    r->sock = NULL;
}

static void on_expired(h2o_timeout_entry_t *entry)
{
    ++container_of(entry, struct ringing, entry)->expired;
}

static void on_ring(h2o_socket_t *sock, const char *err)
{
    struct ringing *r = sock->data;

    assert_null(err);
    ++r->calls;
    r->now_ms = h2o_now(loop_h2o(r->loop));
    if (r->order != NULL)
        r->place = ++*r->order;
    if (r->restarts) {
        h2o_socket_read_stop(sock);
        h2o_socket_read_start(sock, on_ring);
    }
    if (r->links != NULL && !h2o_timeout_is_linked(&r->entry))
        h2o_timeout_link(loop_h2o(r->loop), r->links, &r->entry);
    if (r->closes != NULL)
        close_ringing(r->closes);
}

/* It rings, and epoll knows of it, after the turn that this runs. */
static void start_ringing(struct loop *l, struct ringing *r, int flags)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    assert_int_not_equal(fd, -1);
    *r = (struct ringing){.loop = l, .fd = fd, .entry.cb = on_expired};
    r->sock = h2o_evloop_socket_create(loop_h2o(l), fd, H2O_SOCKET_FLAG_DONT_READ | flags);
    r->sock->data = r;
    h2o_socket_read_start(r->sock, on_ring);
    loop_turn(l, 0);
    assert_int_equal(eventfd_write(fd, 1), 0);
}

static int set_up(void **state)
{
    *state = loop_create(0);
    library_turns = 0;
    wall_is_set_by_s = 0;
    return 0;
}

static int tear_down(void **state)
{
    loop_destroy(*state);
    return 0;
}

static void readable_sockets_are_called_without_libh2os_turn(void **state)
{
    struct loop *l = *state;
    struct ringing r;

    start_ringing(l, &r, 0);
    assert_int_equal(library_turns, 1); /* epoll had to be told of it */
    loop_turn(l, LONG_MS);
    loop_turn(l, LONG_MS);
    assert_int_equal(r.calls, 2);
    assert_int_equal(library_turns, 1);
    close_ringing(&r);
}

static void reading_that_stops_and_starts_again_is_no_change(void **state)
{
    struct loop *l = *state;
    struct ringing r;

    start_ringing(l, &r, H2O_SOCKET_FLAG_IS_ACCEPTED_CONNECTION);
    r.restarts = true;
    loop_turn(l, LONG_MS);
    loop_turn(l, LONG_MS);
    assert_int_equal(r.calls, 2);
    assert_int_equal(library_turns, 1);
    close_ringing(&r);
}

static void epoll_is_told_of_a_socket_that_stops_reading_and_starts_later(void **state)
{
    struct loop *l = *state;
    struct ringing r;

    start_ringing(l, &r, 0);
    h2o_socket_read_stop(r.sock);
    loop_turn(l, 0);
    loop_turn(l, 0);
    assert_int_equal(r.calls, 0);
    assert_int_equal(library_turns, 2);
    h2o_socket_read_start(r.sock, on_ring);
    loop_turn(l, LONG_MS);
    assert_int_equal(r.calls, 1);
    assert_int_equal(library_turns, 3);
    close_ringing(&r);
}

static void socket_closed_by_anothers_callback_is_not_called(void **state)
{
    struct loop *l = *state;
    struct ringing two[2];

    start_ringing(l, &two[0], 0);
    start_ringing(l, &two[1], 0);
    two[0].calls = 0; /* the first has been called while the second was set up */
    two[0].closes = &two[1];
    two[1].closes = &two[0];
    loop_turn(l, LONG_MS);
    assert_int_equal(two[0].calls + two[1].calls, 1);
    two[0].closes = two[1].closes = NULL;
    unsigned closed = two[0].sock == NULL ? 0 : 1;
    loop_turn(l, LONG_MS);
    assert_int_equal(two[closed].calls, 0);
    assert_int_equal(two[1 - closed].calls, 2);
    close_ringing(&two[0]);
    close_ringing(&two[1]);
}

static void on_watch(void *context)
{
    struct ringing *r = context;

    ++r->calls;
    r->place = ++*r->order;
}

static void watches_are_called_before_accepted_sockets(void **state)
{
    struct loop *l = *state;
    unsigned order = 0;
    struct ringing accepted, watched = {.order = &order};

    start_ringing(l, &accepted, H2O_SOCKET_FLAG_IS_ACCEPTED_CONNECTION);
    accepted.order = &order;
    watched.fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
    struct watch *w = watch_start(l, watched.fd, on_watch, &watched);
    loop_turn(l, LONG_MS);
    assert_int_equal(watched.place, 1);
    assert_int_equal(accepted.place, 2);
    assert_int_equal(library_turns, 1);
    watch_stop(w);
    close(watched.fd);
    close_ringing(&accepted);
}

/* ---- writing ---- */

struct writing {
    h2o_socket_t *sock;
    int fds[2];
    char *bytes;
    unsigned completed;
};

static void on_written(h2o_socket_t *sock, const char *err)
{
    assert_null(err);
    ++((struct writing *)sock->data)->completed;
}

static void drain(struct writing *w)
{
    while (read(w->fds[0], w->bytes, MORE_THAN_A_PIPE_HOLDS) > 0)
        continue;
}

static void what_waits_to_be_written_is_written_whoever_else_is_ready(void **state)
{
    struct loop *l = *state;
    unsigned order = 0;
    struct ringing r, watched = {.order = &order};
    struct writing w = {.bytes = xcalloc(1, MORE_THAN_A_PIPE_HOLDS)};
    h2o_iovec_t iov = h2o_iovec_init(w.bytes, MORE_THAN_A_PIPE_HOLDS);

    assert_int_equal(pipe2(w.fds, O_CLOEXEC | O_NONBLOCK), 0);
    start_ringing(l, &r, H2O_SOCKET_FLAG_IS_ACCEPTED_CONNECTION);
    watched.fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
    w.sock = h2o_evloop_socket_create(loop_h2o(l), w.fds[1], 0);
    w.sock->data = &w;
    h2o_socket_write(w.sock, &iov, 1, on_written);
    loop_turn(l, 0); /* tells epoll */
    assert_int_equal(w.completed, 0);
    unsigned before = library_turns;
    loop_turn(l, LONG_MS); /* the pipe is full: only the other is ready */
    assert_int_equal(library_turns, before);
    struct watch *watch = watch_start(l, watched.fd, on_watch, &watched);
    for (unsigned turns = 0; w.completed == 0 && turns < MORE_THAN_A_PIPE_HOLDS; ++turns) {
        unsigned calls = r.calls + watched.calls;
        drain(&w);
        loop_turn(l, LONG_MS);
        assert_int_equal(r.calls + watched.calls, calls + 2);
    }
    assert_int_equal(w.completed, 1);
    assert_true(library_turns > before);
    h2o_socket_close(w.sock);
    close(w.fds[0]);
    watch_stop(watch);
    close(watched.fd);
    close_ringing(&r);
    free(w.bytes);
}

/* ---- time ---- */

static void timer_of_libh2os_ends_a_wait(void **state)
{
    struct loop *l = *state;
    struct ringing r;
    h2o_timeout_t soon, late;

    start_ringing(l, &r, 0);
    close_ringing(&r);
    loop_turn(l, 0);
    unsigned before = library_turns;
    h2o_timeout_init(loop_h2o(l), &late, LONG_MS);
    h2o_timeout_init(loop_h2o(l), &soon, 20);
    h2o_timeout_link(loop_h2o(l), &soon, &r.entry);
    for (unsigned turns = 0; r.expired == 0; ++turns)
        loop_turn(l, LONG_MS); /* or the test times out */
    assert_int_equal(r.expired, 1);
    assert_int_equal(library_turns, before);
    h2o_timeout_dispose(loop_h2o(l), &soon);
    h2o_timeout_dispose(loop_h2o(l), &late);
}

static void timer_that_has_gone_ends_one_wait(void **state)
{
    struct loop *l = *state;
    struct ringing gone, due;
    h2o_timeout_t soon, later;

    start_ringing(l, &gone, 0);
    close_ringing(&gone);
    start_ringing(l, &due, 0);
    close_ringing(&due);
    loop_turn(l, 0);
    h2o_timeout_init(loop_h2o(l), &soon, 10);
    h2o_timeout_init(loop_h2o(l), &later, 200);
    h2o_timeout_link(loop_h2o(l), &soon, &gone.entry);
    h2o_timeout_link(loop_h2o(l), &later, &due.entry);
    h2o_timeout_unlink(&gone.entry);
    unsigned turns = 0;
    for (; due.expired == 0; ++turns)
        loop_turn(l, LONG_MS);    /* or the test times out */
    assert_in_range(turns, 1, 3); /* one more if the clock was looked at meanwhile */
    assert_int_equal(gone.expired, 0);
    h2o_timeout_dispose(loop_h2o(l), &soon);
    h2o_timeout_dispose(loop_h2o(l), &later);
}

static void timer_without_delay_runs_in_the_turn_that_sets_it(void **state)
{
    struct loop *l = *state;
    struct ringing r;
    h2o_timeout_t at_once;

    start_ringing(l, &r, 0);
    h2o_timeout_init(loop_h2o(l), &at_once, 0);
    r.links = &at_once;
    loop_turn(l, LONG_MS);
    assert_int_equal(r.calls, 1);
    assert_int_equal(r.expired, 1);
    close_ringing(&r);
    h2o_timeout_dispose(loop_h2o(l), &at_once);
}

/* As a libh2o does whose calls stay inside it. */
static void link_inside(h2o_loop_t *h2o, h2o_timeout_t *timeout, h2o_timeout_entry_t *entry)
{
    void (*real)(h2o_loop_t *, h2o_timeout_t *, h2o_timeout_entry_t *);
    void *found = dlsym(RTLD_NEXT, "h2o_timeout_link");

    memcpy(&real, &found, sizeof(real));
    real(h2o, timeout, entry);
}

static void timers_that_libh2o_does_not_tell_of_are_found(void **state)
{
    struct ringing r = {.loop = *state};
    struct loop_library lib;
    h2o_timeout_t soon;

    loop_library_init(&lib, h2o_evloop_create());
    h2o_timeout_init(lib.h2o, &soon, 20);
    r.entry.cb = on_expired;
    link_inside(lib.h2o, &soon, &r.entry);
    lib.told = true;
    assert_true(loop_library_until_ms(&lib, UINT64_MAX) == UINT64_MAX);
    lib.told = false;
    assert_true(loop_library_until_ms(&lib, UINT64_MAX) < UINT64_MAX);
    while (r.expired == 0) { /* or the test times out */
        loop_library_set_clock(&lib, clock_mono_us());
        loop_library_run(&lib);
    }
    assert_int_equal(r.expired, 1);
    assert_true(loop_library_until_ms(&lib, UINT64_MAX) == UINT64_MAX);
    h2o_timeout_dispose(lib.h2o, &soon);
    loop_library_fini(&lib);
    h2o_evloop_destroy(lib.h2o);
}

static uint64_t wall_ms(void)
{
    struct timeval now;

    gettimeofday(&now, NULL);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_usec / 1000;
}

static void libh2os_clock_is_right_when_it_is_called(void **state)
{
    struct loop *l = *state;
    struct ringing r;

    start_ringing(l, &r, 0);
    for (uint64_t began_ms = wall_ms(); wall_ms() < began_ms + 2;)
        continue;
    uint64_t before_ms = wall_ms();
    loop_turn(l, LONG_MS);
    assert_int_equal(r.calls, 1);
    assert_in_range(r.now_ms, before_ms, wall_ms());
    close_ringing(&r);
}

static void only_the_monotonic_clock_is_read_in_a_turn(void **state)
{
    struct loop *l = *state;
    struct ringing r;

    start_ringing(l, &r, 0);
    unsigned before = wall_looks;
    uint64_t began_us = clock_mono_us();
    for (unsigned i = 0; i < 1000; ++i)
        loop_turn(l, LONG_MS);
    assert_int_equal(r.calls, 1000);
    /* And the other once a second. */
    assert_in_range(wall_looks - before, 0, (clock_mono_us() - began_us) / 1000000 + 1);
    close_ringing(&r);
}

static void wall_clock_that_is_set_is_followed(void **state)
{
    struct loop *l = *state;
    struct ringing r;

    start_ringing(l, &r, 0);
    loop_turn(l, LONG_MS);
    uint64_t before_ms = r.now_ms;
    wall_is_set_by_s = 3600;
    while (r.now_ms < before_ms + 3600 * 1000)
        loop_turn(l, LONG_MS); /* or the test times out */
    assert_in_range(r.now_ms, before_ms + 3600 * 1000, wall_ms());
    wall_is_set_by_s = -3600;
    while (r.now_ms > before_ms)
        loop_turn(l, LONG_MS);
    assert_in_range(r.now_ms, before_ms - 3600 * 1000, wall_ms());
    close_ringing(&r);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(readable_sockets_are_called_without_libh2os_turn),
        TEST(reading_that_stops_and_starts_again_is_no_change),
        TEST(epoll_is_told_of_a_socket_that_stops_reading_and_starts_later),
        TEST(socket_closed_by_anothers_callback_is_not_called),
        TEST(watches_are_called_before_accepted_sockets),
        TEST(what_waits_to_be_written_is_written_whoever_else_is_ready),
        TEST(timer_of_libh2os_ends_a_wait),
        TEST(timer_that_has_gone_ends_one_wait),
        TEST(timer_without_delay_runs_in_the_turn_that_sets_it),
        TEST(timers_that_libh2o_does_not_tell_of_are_found),
        TEST(libh2os_clock_is_right_when_it_is_called),
        TEST(only_the_monotonic_clock_is_read_in_a_turn),
        TEST(wall_clock_that_is_set_is_followed),
    };

    return cmocka_run_group_tests_name("loop_library", tests, NULL, NULL);
}
