/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/packet.h"

static int pair[2];
static struct packet_queue queue;

static int open_pair(void **state)
{
    (void)state;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    packet_queue_init(&queue, pair[0]);
    return 0;
}

static int close_pair(void **state)
{
    (void)state;
    queue.fd = -1;
    packet_queue_close(&queue);
    if (pair[0] >= 0)
        close(pair[0]);
    if (pair[1] >= 0)
        close(pair[1]);
    return 0;
}

static json_t *numbered(int n)
{
    return json_pack("{s:i}", "n", n);
}

static int number_received(int *passed)
{
    json_t *m = NULL;

    assert_int_equal(packet_receive(pair[1], &m, passed), ERR_OK);
    int n = (int)json_integer_value(json_object_get(m, "n"));
    json_decref(m);
    return n;
}

static void packets_that_a_full_socket_does_not_take_are_sent_later_in_order(void **state)
{
    enum { MANY = 3000 };
    int passed;
    int got = 0;

    (void)state;
    for (int i = 0; i < MANY; ++i)
        packet_queue_add(&queue, numbered(i), -1);
    enum err e = packet_queue_flush(&queue);
    assert_int_equal(e, ERR_BUSY);
    while (got < MANY) {
        assert_int_equal(number_received(&passed), got++);
        assert_int_equal(passed, -1);
        e = packet_queue_flush(&queue);
        assert_true(e == ERR_OK || e == ERR_BUSY);
    }
    assert_int_equal(e, ERR_OK);
}

static void a_descriptor_may_be_closed_before_it_is_sent(void **state)
{
    int pipe_fds[2];
    int passed;
    char byte = 0;

    (void)state;
    assert_int_equal(pipe(pipe_fds), 0);
    packet_queue_add(&queue, numbered(1), pipe_fds[0]);
    close(pipe_fds[0]);
    assert_int_equal(packet_queue_flush(&queue), ERR_OK);
    assert_int_equal(number_received(&passed), 1);
    assert_int_equal(write(pipe_fds[1], "x", 1), 1);
    assert_int_equal(read(passed, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(passed);
    close(pipe_fds[1]);
}

static void a_message_over_the_limit_is_left_out(void **state)
{
    char *long_text = xcalloc(1, PACKET_BYTES_MAX + 1);
    int passed;

    (void)state;
    memset(long_text, 'x', PACKET_BYTES_MAX);
    packet_queue_add(&queue, json_pack("{s:s}", "text", long_text), -1);
    packet_queue_add(&queue, numbered(2), -1);
    assert_int_equal(packet_queue_flush(&queue), ERR_OK);
    assert_int_equal(number_received(&passed), 2);
    free(long_text);
}

static void a_peer_that_has_gone_is_reported(void **state)
{
    (void)state;
    close(pair[1]);
    pair[1] = -1;
    packet_queue_add(&queue, numbered(1), -1);
    assert_int_equal(packet_queue_flush(&queue), ERR_PEER_CLOSED);
}

static void closed_it_is_empty_and_its_peer_is_reported(void **state)
{
    json_t *m;
    int passed;

    (void)state;
    packet_queue_add(&queue, numbered(1), -1);
    packet_queue_close(&queue);
    assert_int_equal(queue.fd, -1);
    assert_true(list_empty(&queue.items));
    assert_int_equal(packet_receive(pair[1], &m, &passed), ERR_PEER_CLOSED);
    /* There is nothing more to be closed. */
    packet_queue_close(&queue);
    pair[0] = -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(packets_that_a_full_socket_does_not_take_are_sent_later_in_order),
        TEST(a_descriptor_may_be_closed_before_it_is_sent),
        TEST(a_message_over_the_limit_is_left_out),
        TEST(a_peer_that_has_gone_is_reported),
        TEST(closed_it_is_empty_and_its_peer_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
