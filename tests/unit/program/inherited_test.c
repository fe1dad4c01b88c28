/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/program/inherited.h"

/* The old process's end of the channel; -1: closed. The other end is the new one's to close. */
static int old;

static int open_channel(void **state)
{
    char number[16];
    int pair[2];

    (void)state;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    old = pair[0];
    snprintf(number, sizeof(number), "%d", pair[1]);
    return setenv(UPGRADE_VARIABLE, number, 1);
}

static int close_channel(void **state)
{
    (void)state;
    if (old >= 0)
        close(old);
    return unsetenv(UPGRADE_VARIABLE);
}

/* Takes M; FD stays the caller's. */
static void send_message(json_t *m, int fd)
{
    assert_int_equal(packet_send(old, m, fd), ERR_OK);
    json_decref(m);
}

static void say_op(const char *op, int fd)
{
    send_message(json_pack("{s:s}", "op", op), fd);
}

static void pass(const char *op, const char *name, int number, int fd)
{
    send_message(json_pack("{s:s, s:s, s:i}", "op", op, "name", name, "number", number), fd);
}

static void assert_heard(const char *op)
{
    json_t *m;
    int passed;

    assert_int_equal(packet_receive(old, &m, &passed), ERR_OK);
    assert_string_equal(json_string_value(json_object_get(m, "op")), op);
    json_decref(m);
}

static int listening(const char *text, struct addr *at)
{
    const struct addr_listen_options o = {.reuse_port = true};
    int fd;

    assert_int_equal(addr_parse(slice_of(text), at), ERR_OK);
    assert_int_equal(addr_listen(at, &o, &fd), ERR_OK);
    assert_int_equal(addr_of_socket(fd, at), ERR_OK);
    return fd;
}

static int memory_file(const char *text)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    return fd;
}

static struct inherited *begin(void)
{
    struct inherited *h;

    send_message(json_pack("{s:s, s:i}", "op", "begin", "v", UPGRADE_VERSION), -1);
    assert_true(inherited_begin(&h));
    assert_true(inherited_from_old(h));
    assert_null(getenv(UPGRADE_VARIABLE));
    return h;
}

static void rejects(void)
{
    struct inherited *h;

    assert_false(inherited_begin(&h));
    assert_null(h);
    assert_null(getenv(UPGRADE_VARIABLE));
}

static int unused_end(void)
{
    return atoi(getenv(UPGRADE_VARIABLE));
}

/* ---- the beginning ---- */

static void without_the_variable_there_is_no_old_process(void **state)
{
    struct inherited *h;
    struct addr a;
    struct text text = {0};
    int *fds;

    (void)state;
    close(unused_end());
    unsetenv(UPGRADE_VARIABLE);
    assert_true(inherited_begin(&h));
    assert_false(inherited_from_old(h));
    assert_int_equal(addr_parse(SLICE_LIT("127.0.0.1:1"), &a), ERR_OK);
    assert_int_equal(inherited_take_socket(h, &a, "shop", 0), -1);
    assert_int_equal(inherited_take_listener(h, &a, "shop", &fds), 0);
    assert_null(fds);
    assert_false(inherited_take_text(h, "resume", "shop", 0, &text));
    assert_true(inherited_take_over(h));
    inherited_ready(&h, NULL, NULL, NULL);
    assert_null(h);
    assert_int_equal(inherited_take_socket(NULL, &a, "shop", 0), -1);
    assert_true(inherited_take_over(NULL));
    inherited_destroy(NULL);
}

static void a_number_that_is_no_channel_is_rejected(void **state)
{
    static const char *const bad[] = {"", "x", "-1", "0", "2", "99999", "3 ", "99999999999"};
    char number[16];
    int file = memory_file("");

    (void)state;
    close(unused_end());
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        setenv(UPGRADE_VARIABLE, bad[i], 1);
        rejects();
    }
    snprintf(number, sizeof(number), "%d", file);
    setenv(UPGRADE_VARIABLE, number, 1);
    rejects();
    close(file);
}

/* Each in its own channel: a rejection closes it. */
static void invalid_messages_are_rejected(void **state)
{
    int file = memory_file("");
    int closed = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct {
        json_t *m;
        int fd;
    } bad[] = {
        {json_pack("{s:s, s:i}", "op", "begin", "v", UPGRADE_VERSION + 1), -1},
        {json_pack("{s:s}", "op", "begin"), -1},
        {json_pack("{s:i}", "v", 1), -1},
        {json_pack("{s:i}", "v", 1), file},
        {json_pack("{s:s}", "op", "lock"), -1},
        {json_pack("{s:s}", "op", "socket"), file},
        {json_pack("{s:s, s:s, s:i}", "op", "socket", "name", "shop", "number", 0), closed},
        {json_pack("{s:s}", "op", "go"), -1},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        send_message(bad[i].m, bad[i].fd);
        rejects();
        close(old);
        assert_int_equal(open_channel(state), 0);
    }
    close(file);
    close(closed);
}

static void an_old_process_that_exits_before_it_passed_all_is_not_followed(void **state)
{
    int file = memory_file("");

    (void)state;
    say_op("lock", file);
    close(file);
    close(old);
    old = -1;
    rejects();
}

/* ---- what was passed ---- */

static void assert_bound(int fd, const struct addr *to)
{
    struct addr bound;

    assert_true(fd >= 0);
    assert_int_equal(addr_of_socket(fd, &bound), ERR_OK);
    assert_true(addr_equal(&bound, to));
    close(fd);
}

static void a_socket_is_found_by_its_address_once(void **state)
{
    struct addr a, b, c;
    int fa = listening("127.0.0.1:0", &a);
    int fb = listening("127.0.0.1:0", &b);

    (void)state;
    close(listening("127.0.0.1:0", &c));
    pass("socket", "shop", 0, fa);
    say_op("socket", fb);
    struct inherited *h = begin();
    assert_int_equal(inherited_take_socket(h, &c, "shop", 0), -1);
    assert_bound(inherited_take_socket(h, &b, NULL, 0), &b);
    assert_int_equal(inherited_take_socket(h, &b, NULL, 0), -1);
    /* whatever its name was */
    assert_bound(inherited_take_socket(h, &a, "renamed", 7), &a);
    inherited_destroy(h);
    close(fa);
    close(fb);
}

static void a_socket_at_any_port_is_found_by_its_name_and_number(void **state)
{
    struct addr a, b, any;
    int fa = listening("127.0.0.1:0", &a);
    int fb = listening("127.0.0.1:0", &b);

    (void)state;
    assert_int_equal(addr_parse(SLICE_LIT("127.0.0.1:0"), &any), ERR_OK);
    pass("socket", "shop", 0, fa);
    pass("socket", "shop", 1, fb);
    struct inherited *h = begin();
    assert_int_equal(inherited_take_socket(h, &any, "wiki", 1), -1);
    assert_int_equal(inherited_take_socket(h, &any, NULL, 0), -1);
    assert_bound(inherited_take_socket(h, &any, "shop", 1), &b);
    inherited_destroy(h);
    close(fa);
    close(fb);
}

static size_t take_listener(struct inherited *h, const struct addr *address)
{
    char name[ADDR_TEXT_MAX];
    int *fds;
    size_t n = inherited_take_listener(h, address, addr_format(address, name), &fds);

    for (size_t i = 0; i < n; ++i)
        close(fds[i]);
    free(fds);
    return n;
}

static void each_listener_is_found_with_all_its_sockets_each_once(void **state)
{
    struct addr a, b, any;
    char text[ADDR_TEXT_MAX];
    int first = listening("127.0.0.1:0", &a);
    int second = listening(addr_format(&a, text), &a);
    int other = listening("127.0.0.1:0", &b);

    (void)state;
    assert_int_equal(addr_parse(SLICE_LIT("127.0.0.1:0"), &any), ERR_OK);
    pass("socket", "127.0.0.1:0", 0, first);
    pass("socket", "127.0.0.1:0", 0, second);
    /* Two loops shared it. */
    pass("socket", "127.0.0.1:0", 0, second);
    pass("socket", "127.0.0.1:0", 1, other);
    struct inherited *h = begin();
    assert_int_equal(take_listener(h, &any), 2);
    assert_int_equal(take_listener(h, &a), 0);
    /* Of the other by the address that it is bound to. */
    assert_int_equal(take_listener(h, &b), 1);
    assert_int_equal(take_listener(h, &any), 0);
    inherited_destroy(h);
    close(first);
    close(second);
    close(other);
}

static void listeners_without_an_address_are_found_by_their_name(void **state)
{
    struct addr a, b;
    int fa = listening("127.0.0.1:0", &a);
    int fb = listening("127.0.0.1:0", &b);
    int *fds;

    (void)state;
    pass("socket", "listener", 0, fa);
    pass("socket", "listener", 0, fb);
    struct inherited *h = begin();
    assert_int_equal(inherited_take_listener(h, NULL, "other", &fds), 0);
    assert_int_equal(inherited_take_listener(h, NULL, "listener", &fds), 2);
    assert_bound(fds[0], &a);
    assert_bound(fds[1], &b);
    free(fds);
    inherited_destroy(h);
    close(fa);
    close(fb);
}

static void the_admin_socket_is_not_a_listeners(void **state)
{
    struct addr a;
    int fd = listening("127.0.0.1:0", &a);

    (void)state;
    say_op("socket", fd);
    struct inherited *h = begin();
    assert_int_equal(take_listener(h, &a), 0);
    assert_bound(inherited_take_socket(h, &a, NULL, 0), &a);
    inherited_destroy(h);
    close(fd);
}

static void a_directory_is_locked_by_one_process(void **state)
{
    char parent[] = RLB_TEST_DIR "/inherited-XXXXXX";
    char directory[64], path[80];

    assert_non_null(mkdtemp(parent));
    snprintf(directory, sizeof(directory), "%s/state", parent);
    snprintf(path, sizeof(path), "%s/lock", directory);
    int fd = inherited_lock_directory(NULL, directory, 0700, "lock");
    assert_true(fd >= 0);
    /* Of another directory. */
    int other = inherited_lock_directory(NULL, directory, 0700, "other");
    say_op("lock", other);
    struct inherited *h = begin();
    assert_int_equal(inherited_lock_directory(h, directory, 0700, "lock"), -1);
    inherited_destroy(h);
    close(old);
    assert_int_equal(open_channel(state), 0);
    say_op("lock", fd);
    h = begin();
    int passed = inherited_lock_directory(h, directory, 0700, "lock");
    assert_true(passed >= 0);
    assert_int_equal(inherited_lock_directory(h, directory, 0700, "lock"), -1);
    assert_int_equal(inherited_lock_directory(h, path, 0700, "lock"), -1);
    inherited_destroy(h);
    close(passed);
    close(fd);
    close(other);
    unlink(path);
    snprintf(path, sizeof(path), "%s/other", directory);
    unlink(path);
    rmdir(directory);
    rmdir(parent);
}

static void a_socket_is_bound_early_unless_it_was_passed(void **state)
{
    const struct privileges own = {.uid = getuid(), .gid = getgid()};
    struct addr a, b;
    int fa = listening("127.0.0.1:0", &a);

    (void)state;
    close(listening("127.0.0.1:0", &b));
    pass("socket", "shop", 0, fa);
    struct inherited *h = begin();
    assert_true(inherited_listen(h, &a, 0, &own));
    assert_true(inherited_listen(h, &b, 0, &own));
    assert_bound(inherited_take_socket(h, &a, "shop", 0), &a);
    assert_bound(inherited_take_socket(h, &b, NULL, 0), &b);
    assert_int_equal(inherited_take_socket(h, &b, NULL, 0), -1);
    assert_false(inherited_listen(h, &a, 0, &own));
    inherited_destroy(h);
    close(fa);
}

/* ---- the steps ---- */

static void texts_come_up_to_the_word_to_go(void **state)
{
    struct text text = {0};
    int file = memory_file("a line\n");

    (void)state;
    struct inherited *h = begin();
    pass("resume", "shop", 3, file);
    close(file);
    say_op("go", -1);
    assert_true(inherited_take_over(h));
    assert_heard("prepared");
    assert_false(inherited_take_text(h, "resume", "shop", 2, &text));
    assert_false(inherited_take_text(h, "other", "shop", 3, &text));
    assert_true(inherited_take_text(h, "resume", "shop", 3, &text));
    assert_string_equal(text_cstr(&text), "a line\n");
    assert_false(inherited_take_text(h, "resume", "shop", 3, &text));
    text_fini(&text);
    inherited_ready(&h, NULL, NULL, NULL);
    assert_heard("ready");
}

static void an_old_process_that_exits_has_released_all(void **state)
{
    (void)state;
    struct inherited *h = begin();
    close(old);
    old = -1;
    assert_true(inherited_take_over(h));
    inherited_ready(&h, NULL, NULL, NULL);
}

static void a_message_out_of_turn_is_not_taken_for_the_word_to_go(void **state)
{
    (void)state;
    struct inherited *h = begin();
    send_message(json_pack("{s:s, s:i}", "op", "begin", "v", UPGRADE_VERSION), -1);
    assert_false(inherited_take_over(h));
    inherited_destroy(h);
}

static void the_path_of_a_socket_that_is_not_taken_is_removed_after_ready_only(void **state)
{
    char directory[] = RLB_TEST_DIR "/inherited-XXXXXX";
    char text[64], path[64];
    struct addr a;

    assert_non_null(mkdtemp(directory));
    snprintf(text, sizeof(text), "unix:%s/socket", directory);
    snprintf(path, sizeof(path), "%s/socket", directory);
    int fd = listening(text, &a);
    pass("socket", "shop", 0, fd);
    inherited_destroy(begin());
    assert_int_equal(access(path, F_OK), 0);
    close(old);
    assert_int_equal(open_channel(state), 0);
    pass("socket", "shop", 0, fd);
    struct inherited *h = begin();
    inherited_ready(&h, NULL, NULL, NULL);
    assert_int_equal(access(path, F_OK), -1);
    close(fd);
    rmdir(directory);
}

struct received {
    struct loop *loop;
    struct inherited *inherited;
    char op[16];
};

static void on_message(void *context, const char *op)
{
    struct received *received = context;

    snprintf(received->op, sizeof(received->op), "%s", op);
    close(old);
    old = -1;
}

static void on_gone(void *context)
{
    struct received *received = context;

    inherited_destroy(received->inherited);
    loop_stop(received->loop);
}

static void the_old_process_is_reported_until_it_exits(void **state)
{
    static const struct inherited_events events = {on_message, on_gone};
    struct received received = {.loop = loop_create(0), .inherited = begin()};

    (void)state;
    inherited_ready(&received.inherited, received.loop, &events, &received);
    assert_heard("ready");
    say_op("sealed", -1);
    loop_run(received.loop);
    assert_string_equal(received.op, "sealed");
    loop_destroy(received.loop);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_channel, close_channel)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_the_variable_there_is_no_old_process),
        TEST(a_number_that_is_no_channel_is_rejected),
        TEST(invalid_messages_are_rejected),
        TEST(an_old_process_that_exits_before_it_passed_all_is_not_followed),
        TEST(a_socket_is_found_by_its_address_once),
        TEST(a_socket_at_any_port_is_found_by_its_name_and_number),
        TEST(each_listener_is_found_with_all_its_sockets_each_once),
        TEST(listeners_without_an_address_are_found_by_their_name),
        TEST(the_admin_socket_is_not_a_listeners),
        TEST(a_directory_is_locked_by_one_process),
        TEST(a_socket_is_bound_early_unless_it_was_passed),
        TEST(texts_come_up_to_the_word_to_go),
        TEST(an_old_process_that_exits_has_released_all),
        TEST(a_message_out_of_turn_is_not_taken_for_the_word_to_go),
        TEST(the_path_of_a_socket_that_is_not_taken_is_removed_after_ready_only),
        TEST(the_old_process_is_reported_until_it_exits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
