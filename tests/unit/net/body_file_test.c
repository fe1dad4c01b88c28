/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/body_file.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "common/net/transport.h"

static void file_is_sent_from_wherever_it_was_left(void **state)
{
    struct body_file *file = body_file_create("/tmp");
    char got[12];
    int ends[2];
    struct transport to;

    (void)state;
    signal(SIGPIPE, SIG_IGN); /* as the servers do */
    assert_non_null(file);
    assert_true(body_file_add(file, SLICE_LIT("hello ")));
    assert_true(body_file_add(file, SLICE_LIT("world")));
    assert_true(slice_is(body_file_map(file), "hello world"));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    transport_open(&to, ends[0]);
    assert_int_equal(body_file_send(file, &to, 5), 5);
    assert_int_equal(body_file_send(file, &to, 11), 11);
    assert_int_equal(recv(ends[1], got, 5, MSG_WAITALL), 5);
    assert_memory_equal(got, "world", 5);
    assert_int_equal(recv(ends[1], got, 11, MSG_WAITALL), 11);
    assert_memory_equal(got, "hello world", 11);
    close(ends[1]);
    assert_int_equal(body_file_send(file, &to, 11), -1);
    transport_close(&to);
    body_file_destroy(file);
}

static struct body_file *file_of(size_t bytes)
{
    static char piece[1 << 20];
    struct body_file *file = body_file_create("/tmp");

    assert_non_null(file);
    for (; bytes != 0; bytes -= sizeof(piece))
        assert_true(body_file_add(file, (struct slice){piece, sizeof(piece)}));
    return file;
}

static void large_file_is_given_back_in_pieces_and_a_small_one_at_once(void **state)
{
    struct loop *l = loop_create(0);
    struct body_file_bin bin;
    unsigned turns = 0;

    (void)state;
    body_file_bin_init(&bin, l);
    body_file_throw(&bin, NULL);
    body_file_throw(&bin, file_of(1 << 20));
    assert_true(list_empty(&bin.files));
    body_file_throw(&bin, file_of(48 << 20));
    body_file_throw(&bin, file_of(32 << 20));
    while (!list_empty(&bin.files)) {
        loop_turn(l, 1000);
        assert_true(++turns < 1000);
    }
    /* Three and two pieces, none at once with another. */
    assert_true(turns >= 5);
    assert_false(timer_running(&bin.timer));
    /* What is there at the end is freed as well, which the leak checker verifies. */
    body_file_throw(&bin, file_of(32 << 20));
    body_file_bin_fini(&bin);
    loop_destroy(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_is_sent_from_wherever_it_was_left),
        cmocka_unit_test(large_file_is_given_back_in_pieces_and_a_small_one_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
