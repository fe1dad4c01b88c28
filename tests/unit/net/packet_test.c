/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/packet.h"

static int pair[2];

static int open_pair(void **state)
{
    (void)state;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int close_pair(void **state)
{
    (void)state;
    close(pair[0]);
    if (pair[1] >= 0)
        close(pair[1]);
    return 0;
}

static void a_message_arrives_whole_with_its_descriptor(void **state)
{
    json_t *m = json_pack("{s:s}", "op", "spawned");
    json_t *got = NULL;
    int pipe_fds[2];
    int passed;
    char byte = 0;

    (void)state;
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    assert_int_equal(packet_send(pair[0], m, pipe_fds[0]), ERR_OK);
    assert_int_equal(packet_receive(pair[1], &got, &passed), ERR_OK);
    assert_true(json_equal(m, got));
    assert_true(passed >= 0);
    assert_true((fcntl(passed, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(write(pipe_fds[1], "x", 1), 1);
    assert_int_equal(read(passed, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(passed);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    json_decref(m);
    json_decref(got);
}

static void an_empty_socket_is_busy_and_a_closed_peer_is_closed(void **state)
{
    json_t *got;
    int passed;

    (void)state;
    assert_int_equal(packet_receive(pair[0], &got, &passed), ERR_BUSY);
    close(pair[1]);
    pair[1] = -1;
    assert_int_equal(packet_receive(pair[0], &got, &passed), ERR_PEER_CLOSED);
    json_t *m = json_object();
    assert_int_equal(packet_send(pair[0], m, -1), ERR_PEER_CLOSED);
    json_decref(m);
}

static void a_packet_arrives_though_its_sender_closed_without_reading(void **state)
{
    json_t *m = json_pack("{s:s}", "op", "bye");
    json_t *got = NULL;
    int passed;

    (void)state;
    assert_int_equal(packet_send(pair[0], m, -1), ERR_OK);
    assert_int_equal(packet_send(pair[1], m, -1), ERR_OK);
    close(pair[1]);
    pair[1] = -1;
    assert_int_equal(packet_receive(pair[0], &got, &passed), ERR_OK);
    assert_true(json_equal(m, got));
    json_decref(got);
    assert_int_equal(packet_receive(pair[0], &got, &passed), ERR_PEER_CLOSED);
    json_decref(m);
}

static void a_packet_that_is_not_an_object_is_dropped_with_its_descriptor(void **state)
{
    static const char *const bad[] = {"{", "[]", "7", "{\"a\":1,\"a\":2}"};
    json_t *got;
    int passed;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        assert_true(send(pair[0], bad[i], strlen(bad[i]), 0) > 0);
        assert_int_equal(packet_receive(pair[1], &got, &passed), ERR_SYNTAX);
        assert_int_equal(passed, -1);
    }
    assert_int_equal(packet_receive(pair[1], &got, &passed), ERR_BUSY);
}

static void a_message_over_the_limit_is_neither_sent_nor_taken(void **state)
{
    size_t bytes = PACKET_BYTES_MAX + 100;
    char *large = xmalloc(bytes);
    json_t *got;
    int passed;

    (void)state;
    memset(large, 'x', bytes);
    json_t *m = json_pack("{s:s#}", "note", large, (int)bytes);
    assert_int_equal(packet_send(pair[0], m, -1), ERR_TOO_LARGE);
    json_decref(m);
    assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int)), 0);
    assert_int_equal(send(pair[0], large, bytes, 0), bytes);
    assert_int_equal(packet_receive(pair[1], &got, &passed), ERR_SYNTAX);
    free(large);
}

static void a_full_socket_is_busy(void **state)
{
    json_t *m = json_pack("{s:s}", "op", "signal");
    enum err e;

    (void)state;
    do
        e = packet_send(pair[0], m, -1);
    while (e == ERR_OK);
    assert_int_equal(e, ERR_BUSY);
    json_decref(m);
}

static void our_own_process_is_ours(void **state)
{
    (void)state;
    assert_true(packet_peer_is(pair[0], geteuid()));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_pair, close_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_message_arrives_whole_with_its_descriptor),
        TEST(an_empty_socket_is_busy_and_a_closed_peer_is_closed),
        TEST(a_packet_arrives_though_its_sender_closed_without_reading),
        TEST(a_packet_that_is_not_an_object_is_dropped_with_its_descriptor),
        TEST(a_message_over_the_limit_is_neither_sent_nor_taken),
        TEST(a_full_socket_is_busy),
        TEST(our_own_process_is_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
