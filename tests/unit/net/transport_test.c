/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>

#include "common/base/text.h"
#include "common/net/transport.h"
#include "tests/support/raw_peer.h"

struct fixture {
    struct loop *loop;
    struct transport t;
    int peer;
    unsigned readable, writable;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    int fds[2];

    raw_ignore_sigpipe();
    if (f == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        return -1;
    f->loop = loop_create(0);
    transport_open(&f->t, fds[0]);
    f->peer = fds[1];
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    transport_close(&f->t);
    if (f->peer != -1)
        close(f->peer);
    loop_destroy(f->loop);
    free(f);
    return 0;
}

static void on_readable(void *context)
{
    struct fixture *f = context;
    char byte;

    if (transport_recv(&f->t, &byte, 1) == 1)
        ++f->readable;
}

static void on_writable(void *context)
{
    struct fixture *f = context;

    ++f->writable;
}

static bool was_readable(void *context)
{
    const struct fixture *f = context;

    return f->readable != 0;
}

static bool was_writable(void *context)
{
    const struct fixture *f = context;

    return f->writable != 0;
}

static struct iovec piece(char *text)
{
    return (struct iovec){text, strlen(text)};
}

static void pieces_are_sent_in_order_and_received(void **state)
{
    struct fixture *f = *state;
    char first[] = "one ";
    char second[] = "two";
    struct iovec iov[2] = {piece(first), piece(second)};
    char got[8] = "";

    assert_int_equal(transport_send(&f->t, iov, 2, 0), 7);
    assert_int_equal(recv(f->peer, got, sizeof(got), 0), 7);
    assert_string_equal(got, "one two");
    assert_int_equal(send(f->peer, "back", 4, 0), 4);
    assert_int_equal(transport_recv(&f->t, got, sizeof(got)), 4);
    assert_int_equal(transport_recv(&f->t, got, sizeof(got)), -1);
    assert_int_equal(errno, EAGAIN);
}

static void user_is_called_while_it_reads(void **state)
{
    struct fixture *f = *state;

    transport_attach(&f->t, f->loop, on_readable, f);
    assert_int_equal(send(f->peer, "ab", 2, 0), 2);
    transport_read(&f->t, false);
    loop_turn(f->loop, 0);
    assert_int_equal(f->readable, 0);
    transport_read(&f->t, true);
    raw_turn_until(f->loop, was_readable, f);
}

static void user_is_called_once_when_bytes_are_taken_again(void **state)
{
    struct fixture *f = *state;
    static char block[65536];
    struct iovec iov = {block, sizeof(block)};

    transport_attach(&f->t, f->loop, on_readable, f);
    while (transport_send(&f->t, &iov, 1, 0) > 0)
        ;
    assert_int_equal(errno, EAGAIN);
    transport_await_writable(&f->t, on_writable);
    loop_turn(f->loop, 0);
    assert_int_equal(f->writable, 0);
    while (recv(f->peer, block, sizeof(block), MSG_DONTWAIT) > 0)
        ;
    raw_turn_until(f->loop, was_writable, f);
    loop_turn(f->loop, 0);
    assert_int_equal(f->writable, 1);
}

static void another_loop_may_have_it(void **state)
{
    struct fixture *f = *state;
    struct loop *other = loop_create(1);

    transport_attach(&f->t, f->loop, on_readable, f);
    transport_detach(&f->t);
    transport_attach(&f->t, other, on_readable, f);
    assert_int_equal(send(f->peer, "a", 1, 0), 1);
    raw_turn_until(other, was_readable, f);
    transport_close(&f->t);
    loop_destroy(other);
}

static void bytes_and_an_end_are_not_quiet(void **state)
{
    struct fixture *f = *state;
    char byte;

    assert_true(transport_is_quiet(&f->t));
    assert_int_equal(send(f->peer, "a", 1, 0), 1);
    assert_false(transport_is_quiet(&f->t));
    assert_int_equal(transport_recv(&f->t, &byte, 1), 1);
    assert_true(transport_is_quiet(&f->t));
    close(f->peer);
    f->peer = -1;
    assert_false(transport_is_quiet(&f->t));
}

static void end_of_sending_leaves_receiving(void **state)
{
    struct fixture *f = *state;
    char byte;

    assert_int_equal(transport_end_sending(&f->t), 0);
    assert_int_equal(recv(f->peer, &byte, 1, 0), 0);
    assert_int_equal(send(f->peer, "a", 1, 0), 1);
    assert_int_equal(transport_recv(&f->t, &byte, 1), 1);
}

static void file_is_sent_from_where_it_is_reported(void **state)
{
    struct fixture *f = *state;
    char got[6] = "";
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "hello world", 11), 11);
    assert_int_equal(transport_send_file(&f->t, fd, 6, 5), 5);
    assert_int_equal(recv(f->peer, got, 5, 0), 5);
    assert_string_equal(got, "world");
    close(fd);
}

static void received_bytes_are_moved_into_a_pipe(void **state)
{
    struct fixture *f = *state;
    char got[6] = "";
    int pipe_fds[2];

    assert_int_equal(pipe2(pipe_fds, O_NONBLOCK | O_CLOEXEC), 0);
    assert_int_equal(transport_splice(&f->t, f->t.fd, pipe_fds[1], 100), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(send(f->peer, "moved", 5, 0), 5);
    assert_int_equal(transport_splice(&f->t, f->t.fd, pipe_fds[1], 100), 5);
    assert_int_equal(read(pipe_fds[0], got, 5), 5);
    assert_string_equal(got, "moved");
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

static void a_closed_transport_may_be_closed_again(void **state)
{
    struct fixture *f = *state;
    char byte;

    assert_true(transport_is_open(&f->t));
    transport_close(&f->t);
    assert_false(transport_is_open(&f->t));
    assert_int_equal(recv(f->peer, &byte, 1, 0), 0);
    transport_close(&f->t);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pieces_are_sent_in_order_and_received),
        TEST(user_is_called_while_it_reads),
        TEST(user_is_called_once_when_bytes_are_taken_again),
        TEST(another_loop_may_have_it),
        TEST(bytes_and_an_end_are_not_quiet),
        TEST(end_of_sending_leaves_receiving),
        TEST(file_is_sent_from_where_it_is_reported),
        TEST(received_bytes_are_moved_into_a_pipe),
        TEST(a_closed_transport_may_be_closed_again),
    };

    return cmocka_run_group_tests_name("transport", tests, NULL, NULL);
}
