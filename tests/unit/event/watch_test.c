/* SPDX-License-Identifier: Apache-2.0
 *
 * Watched descriptors, each test with the watch beside epoll and with it inside, where a crowd of
 * younger ones has pushed it.
 */
#include "common/event/loop.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* setjmp.h, stdarg.h, stddef.h and stdint.h come first for cmocka. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum {
    CROWD = 20,
    TURNS_MAX = 1000,
    WAIT_MS = 10, /* of a turn that waits for another thread */
};

struct fixture;

struct watched {
    struct fixture *f;
    struct watch *watch;
    int fd, peer; /* a socket pair */
    unsigned reads, writes;
    unsigned place;                  /* of its last callback among all callbacks of the fixture */
    bool ended;                      /* said by its last READABLE */
    void (*then)(struct watched *w); /* called when readable */
    struct watched *other;
};

struct fixture {
    struct loop *loop;
    struct watched one, two;
    unsigned calls;
    struct watch *crowd[CROWD];
    int crowd_fds[CROWD];
};

static void never(void *context)
{
    (void)context;
    fail();
}

static void on_readable(void *context)
{
    struct watched *w = context;

    ++w->reads;
    w->place = ++w->f->calls;
    w->ended = watch_ended(w->watch);
    if (w->then != NULL)
        w->then(w);
}

static void on_writable(void *context)
{
    struct watched *w = context;

    ++w->writes;
    w->place = ++w->f->calls;
}

static void start(struct fixture *f, struct watched *w)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    *w = (struct watched){.f = f, .fd = pair[0], .peer = pair[1]};
    w->watch = watch_start(f->loop, w->fd, on_readable, w);
}

static void stop(struct watched *w)
{
    watch_stop(w->watch);
    close(w->fd);
    if (w->peer != -1)
        close(w->peer);
}

static struct fixture *set_up_two(void)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    f->loop = loop_create(0);
    for (unsigned i = 0; i < CROWD; ++i)
        f->crowd_fds[i] = -1;
    start(f, &f->one);
    start(f, &f->two);
    return f;
}

static int set_up_near(void **state)
{
    *state = set_up_two();
    return 0;
}

static int set_up_in_epoll(void **state)
{
    struct fixture *f = set_up_two();

    for (unsigned i = 0; i < CROWD; ++i) {
        f->crowd_fds[i] = eventfd(0, EFD_CLOEXEC);
        assert_int_not_equal(f->crowd_fds[i], -1);
        f->crowd[i] = watch_start(f->loop, f->crowd_fds[i], never, NULL);
    }
    loop_turn(f->loop, 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    stop(&f->one);
    stop(&f->two);
    for (unsigned i = 0; i < CROWD; ++i) {
        watch_stop(f->crowd[i]);
        if (f->crowd_fds[i] != -1)
            close(f->crowd_fds[i]);
    }
    loop_destroy(f->loop);
    free(f);
    return 0;
}

static void say(const struct watched *w)
{
    assert_int_equal(write(w->peer, "x", 1), 1);
}

static void hear(struct watched *w)
{
    char byte;

    assert_int_equal(read(w->fd, &byte, 1), 1);
}

static void a_readable_watch_is_reported_in_each_turn_until_it_is_read(void **state)
{
    struct fixture *f = *state;

    loop_turn(f->loop, 0);
    assert_int_equal(f->one.reads, 0);
    say(&f->one);
    say(&f->two);
    loop_turn(f->loop, 0);
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.reads, 2);
    assert_int_equal(f->two.reads, 2);
    hear(&f->one);
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.reads, 2);
    assert_int_equal(f->two.reads, 3);
}

static void stop_other(struct watched *w)
{
    watch_stop(w->other->watch);
    w->other->watch = NULL;
}

static void a_watch_that_is_stopped_in_a_turn_is_not_called_in_it(void **state)
{
    struct fixture *f = *state;

    f->one.then = stop_other;
    f->one.other = &f->two;
    f->two.then = stop_other;
    f->two.other = &f->one;
    say(&f->one);
    say(&f->two);
    loop_turn(f->loop, 0);
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.reads * f->two.reads, 0);
    assert_int_equal(f->one.reads + f->two.reads, 2);
}

static void a_stopped_descriptor_may_go_to_another_watch(void **state)
{
    struct fixture *f = *state;

    watch_stop(f->one.watch);
    say(&f->one);
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.reads, 0);
    f->one.watch = watch_start(f->loop, f->one.fd, on_readable, &f->two);
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.reads, 0);
    assert_int_equal(f->two.reads, 1);
}

static void a_watch_that_does_not_read_is_not_notified_even_of_the_end(void **state)
{
    struct fixture *f = *state;

    watch_read(f->one.watch, false);
    assert_false(watch_reads(f->one.watch));
    close(f->one.peer);
    f->one.peer = -1;
    loop_turn(f->loop, 0);
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.reads, 0);
    watch_read(f->one.watch, true);
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.reads, 1);
}

static void interest_that_goes_and_comes_within_a_turn_is_as_if_it_had_not_gone(void **state)
{
    struct fixture *f = *state;

    watch_read(f->one.watch, false);
    watch_read(f->one.watch, true);
    say(&f->one);
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.reads, 1);
}

static void room_to_write_is_reported_once(void **state)
{
    struct fixture *f = *state;

    watch_write(f->one.watch, on_writable);
    assert_true(watch_writes(f->one.watch));
    loop_turn(f->loop, 0);
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.writes, 1);
    assert_false(watch_writes(f->one.watch));
    assert_int_equal(f->one.reads, 0);
    say(&f->one);
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.reads, 1);
}

static void a_watch_that_writes_only_is_notified_of_the_end(void **state)
{
    struct fixture *f = *state;

    watch_read(f->one.watch, false);
    watch_write(f->one.watch, on_writable);
    close(f->one.peer);
    f->one.peer = -1;
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.writes, 1);
    assert_int_equal(f->one.reads, 0);
}

static void bytes_and_room_are_reported_one_after_the_other(void **state)
{
    struct fixture *f = *state;

    watch_write(f->one.watch, on_writable);
    say(&f->one);
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.reads, 1);
    assert_int_equal(f->one.writes, 1);
}

static void stop_oneself(struct watched *w)
{
    watch_stop(w->watch);
    w->watch = NULL;
}

static void a_watch_that_stops_on_reading_is_not_notified_of_room(void **state)
{
    struct fixture *f = *state;

    f->one.then = stop_oneself;
    watch_write(f->one.watch, on_writable);
    say(&f->one);
    loop_turn(f->loop, 0);
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.reads, 1);
    assert_int_equal(f->one.writes, 0);
}

static void a_watch_serves_the_owner_it_was_handed_to(void **state)
{
    struct fixture *f = *state;

    watch_hand_over(f->one.watch, on_readable, &f->two);
    say(&f->one);
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.reads, 0);
    assert_int_equal(f->two.reads, 1);
}

/* ---- clients ---- */

/* A connection over loopback. */
static void tcp_pair(int pair[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_not_equal(listener, -1);
    assert_int_equal(bind(listener, (const struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    pair[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_not_equal(pair[1], -1);
    assert_int_equal(connect(pair[1], (const struct sockaddr *)&a, len), 0);
    pair[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_int_not_equal(pair[0], -1);
    close(listener);
}

/* W is watched as a client's connection instead, in epoll if its fixture has a crowd. */
static void become_client(struct watched *w)
{
    int pair[2];

    stop(w);
    tcp_pair(pair);
    *w = (struct watched){.f = w->f, .fd = pair[0], .peer = pair[1]};
    w->watch = watch_start_as_is(w->f->loop, w->fd, on_readable, w);
    watch_set_client(w->watch);
    if (w->f->crowd[0] == NULL)
        return;
    /* As many younger ones as are polled. */
    for (unsigned i = 0; i < CROWD; ++i) {
        watch_stop(w->f->crowd[i]);
        w->f->crowd[i] = watch_start(w->f->loop, w->f->crowd_fds[i], never, NULL);
    }
    loop_turn(w->f->loop, 0);
}

static void wait_for_reads(struct watched *w, unsigned reads)
{
    while (w->reads < reads)
        loop_turn(w->f->loop, WAIT_MS); /* or the test times out */
}

static void turns_without_a_call(struct watched *w)
{
    unsigned reads = w->reads;

    for (unsigned i = 0; i < 10; ++i)
        loop_turn(w->f->loop, 0);
    assert_int_equal(w->reads, reads);
}

static void reset(struct watched *w)
{
    struct linger at_once = {.l_onoff = 1};

    assert_int_equal(setsockopt(w->peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    close(w->peer);
    w->peer = -1;
}

static void a_client_is_called_after_all_others(void **state)
{
    struct fixture *f = *state;

    become_client(&f->one);
    say(&f->one);
    wait_for_reads(&f->one, 1);
    watch_write(f->one.watch, on_writable);
    watch_write(f->two.watch, on_writable);
    say(&f->two);
    f->calls = 0;
    loop_turn(f->loop, 0);
    assert_int_equal(f->two.reads + f->two.writes, 2);
    assert_int_equal(f->one.reads, 2);
    assert_int_equal(f->one.writes, 1);
    assert_int_equal(f->two.place, 2);
    assert_int_equal(f->one.place, 4);
}

static void the_event_reports_whether_the_peer_has_ended(void **state)
{
    struct fixture *f = *state;

    become_client(&f->one);
    say(&f->one);
    wait_for_reads(&f->one, 1);
    assert_false(f->one.ended);
    assert_int_equal(shutdown(f->one.peer, SHUT_WR), 0);
    while (!f->one.ended)
        loop_turn(f->loop, WAIT_MS); /* or the test times out */
    hear(&f->one);
    wait_for_reads(&f->one, f->one.reads + 1);
    assert_true(f->one.ended);
}

static void the_end_is_reported_behind_unread_bytes(void **state)
{
    struct fixture *f = *state;

    become_client(&f->one);
    say(&f->one);
    wait_for_reads(&f->one, 1);
    watch_read_level(f->one.watch, WATCH_END);
    assert_false(watch_reads(f->one.watch));
    turns_without_a_call(&f->one);
    assert_int_equal(shutdown(f->one.peer, SHUT_WR), 0);
    wait_for_reads(&f->one, 2);
    assert_true(f->one.ended);
    hear(&f->one);
    wait_for_reads(&f->one, 3);
}

static void a_half_closed_peer_is_no_failure_but_a_reset_is(void **state)
{
    struct fixture *f = *state;

    become_client(&f->one);
    say(&f->one);
    assert_int_equal(shutdown(f->one.peer, SHUT_WR), 0);
    while (!f->one.ended)
        loop_turn(f->loop, WAIT_MS); /* or the test times out */
    watch_read_level(f->one.watch, WATCH_FAILURE);
    turns_without_a_call(&f->one);
    f->one.ended = false;
    unsigned reads = f->one.reads;
    reset(&f->one);
    wait_for_reads(&f->one, reads + 1);
    assert_true(f->one.ended);
    watch_read_level(f->one.watch, WATCH_NOTHING);
    turns_without_a_call(&f->one);
}

static void a_reset_is_reported_to_reader_and_writer(void **state)
{
    struct fixture *f = *state;

    become_client(&f->one);
    watch_read_level(f->one.watch, WATCH_FAILURE);
    loop_turn(f->loop, 0);
    watch_write(f->one.watch, on_writable);
    reset(&f->one);
    while (f->one.reads == 0 || f->one.writes == 0)
        loop_turn(f->loop, WAIT_MS); /* or the test times out */
    assert_true(f->one.ended);
    assert_int_equal(f->one.writes, 1);
}

static void the_level_can_be_raised_again(void **state)
{
    struct fixture *f = *state;

    become_client(&f->one);
    for (unsigned i = 1; i <= 3; ++i) {
        watch_read_level(f->one.watch, WATCH_NOTHING);
        loop_turn(f->loop, 0);
        watch_read_level(f->one.watch, i % 2 == 0 ? WATCH_END : WATCH_FAILURE);
        loop_turn(f->loop, 0);
        say(&f->one);
        turns_without_a_call(&f->one);
        watch_read_level(f->one.watch, WATCH_BYTES);
        wait_for_reads(&f->one, f->one.reads + 1);
        hear(&f->one);
    }
}

/* ---- messages ---- */

struct letter {
    struct loop_message message;
    _Atomic unsigned runs;
};

static void on_letter(struct loop_message *m)
{
    struct letter *letter = container_of(m, struct letter, message);

    atomic_fetch_add(&letter->runs, 1);
}

struct sender {
    struct loop *loop;
    struct letter *letter;
};

static void *send_letter(void *context)
{
    struct sender *s = context;

    loop_post(s->loop, &s->letter->message);
    return NULL;
}

/* The eventfd that wakes the loop is never read. */
static void each_of_many_messages_wakes_a_loop_that_watches(void **state)
{
    struct fixture *f = *state;
    struct letter letter = {.message.run = on_letter};

    for (unsigned i = 0; i < 10; ++i) {
        struct sender s = {.loop = f->loop, .letter = &letter};
        pthread_t thread;
        unsigned turns = 0;

        assert_int_equal(pthread_create(&thread, NULL, send_letter, &s), 0);
        while (atomic_load(&letter.runs) == i && ++turns < TURNS_MAX)
            loop_turn(f->loop, 3600 * 1000); /* for ever, if it were not woken */
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&letter.runs), i + 1);
        say(&f->one);
        loop_turn(f->loop, WAIT_MS);
        hear(&f->one);
        assert_int_equal(f->one.reads, i + 1);
    }
}

/* By then epoll has reported more than one event. */
static void a_watch_stays_reported_when_it_goes_into_epoll(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 10; ++i) {
        struct letter letter = {.message.run = on_letter};
        struct sender s = {.loop = f->loop, .letter = &letter};
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, send_letter, &s), 0);
        for (unsigned turns = 0; atomic_load(&letter.runs) == 0 && turns < TURNS_MAX; ++turns)
            loop_turn(f->loop, WAIT_MS);
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&letter.runs), 1);
    }
    assert_int_equal(f->one.reads, 0);
    say(&f->one);
    loop_turn(f->loop, 0);
    assert_int_equal(f->one.reads, 1);
}

#define BOTH(test)                                                                                 \
    {#test " (near)", test, set_up_near, tear_down, NULL},                                         \
    {                                                                                              \
#test " (in epoll)", test, set_up_in_epoll, tear_down, NULL                                \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(a_readable_watch_is_reported_in_each_turn_until_it_is_read),
        BOTH(a_watch_that_is_stopped_in_a_turn_is_not_called_in_it),
        BOTH(a_stopped_descriptor_may_go_to_another_watch),
        BOTH(a_watch_that_does_not_read_is_not_notified_even_of_the_end),
        BOTH(interest_that_goes_and_comes_within_a_turn_is_as_if_it_had_not_gone),
        BOTH(room_to_write_is_reported_once),
        BOTH(a_watch_that_writes_only_is_notified_of_the_end),
        BOTH(bytes_and_room_are_reported_one_after_the_other),
        BOTH(a_watch_that_stops_on_reading_is_not_notified_of_room),
        BOTH(a_watch_serves_the_owner_it_was_handed_to),
        BOTH(a_client_is_called_after_all_others),
        BOTH(the_event_reports_whether_the_peer_has_ended),
        BOTH(the_end_is_reported_behind_unread_bytes),
        BOTH(a_half_closed_peer_is_no_failure_but_a_reset_is),
        BOTH(a_reset_is_reported_to_reader_and_writer),
        BOTH(the_level_can_be_raised_again),
        BOTH(each_of_many_messages_wakes_a_loop_that_watches),
        BOTH(a_watch_stays_reported_when_it_goes_into_epoll),
    };

    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
