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

#include "common/net/packet.h"
#include "lb/predecessor.h"

/* The one before: its end of the channel. The other is the new one's to close. */
static int before;

static int open_channel(void **state)
{
    char number[16];
    int pair[2];

    (void)state;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    before = pair[0];
    snprintf(number, sizeof(number), "%d", pair[1]);
    return setenv(PREDECESSOR_VARIABLE, number, 1);
}

static int close_before(void **state)
{
    (void)state;
    if (before >= 0)
        close(before);
    return unsetenv(PREDECESSOR_VARIABLE);
}

/* Takes M; FD stays the caller's. */
static void say(json_t *m, int fd)
{
    assert_int_equal(packet_send(before, m, fd), ERR_OK);
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

static void say_listener(int n, const char *configured, int fd)
{
    say(json_pack("{s:s, s:i, s:s}", "op", "listener", "n", n, "address", configured), fd);
}

static struct predecessor *begin(void)
{
    struct predecessor *p;

    say(json_pack("{s:s, s:i}", "op", "begin", "v", PREDECESSOR_VERSION), -1);
    assert_true(predecessor_begin(&p));
    assert_non_null(p);
    assert_null(getenv(PREDECESSOR_VARIABLE));
    return p;
}

static void refuses(void)
{
    struct predecessor *p;

    assert_false(predecessor_begin(&p));
    assert_null(p);
}

static void without_the_variable_there_is_none_and_nothing_is_left(void **state)
{
    struct predecessor *p;
    struct addr a;
    int *fds;

    (void)state;
    int unused = atoi(getenv(PREDECESSOR_VARIABLE));
    close(unused);
    unsetenv(PREDECESSOR_VARIABLE);
    assert_true(predecessor_begin(&p));
    assert_null(p);
    assert_int_equal(addr_parse(SLICE_LIT("127.0.0.1:1"), &a), ERR_OK);
    assert_int_equal(predecessor_take_lock(p, "/"), -1);
    assert_false(predecessor_has_listener(p, &a));
    assert_int_equal(predecessor_take_listener(p, &a, &fds), 0);
    assert_int_equal(predecessor_take_admin(p, &a), -1);
    assert_false(predecessor_serving(p));
}

static void a_number_that_is_no_channel_is_refused(void **state)
{
    static const char *const bad[] = {"", "x", "-1", "2", "99999999999"};
    char number[16];
    int file = memfd_create("test", MFD_CLOEXEC);

    (void)state;
    int unused = atoi(getenv(PREDECESSOR_VARIABLE));
    close(unused);
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        setenv(PREDECESSOR_VARIABLE, bad[i], 1);
        refuses();
    }
    snprintf(number, sizeof(number), "%d", file);
    setenv(PREDECESSOR_VARIABLE, number, 1);
    refuses();
    close(file);
}

static void each_listener_is_found_with_all_its_sockets_each_once(void **state)
{
    struct addr a;
    struct addr b;
    struct addr any;
    int *fds;

    (void)state;
    int first = listening("127.0.0.1:0", &a);
    char text[ADDR_TEXT_MAX];
    int second = listening(addr_format(&a, text), &a);
    int other = listening("127.0.0.1:0", &b);
    say_listener(0, "127.0.0.1:0", first);
    say_listener(0, "127.0.0.1:0", second);
    /* Two loops shared it. */
    say_listener(0, "127.0.0.1:0", second);
    say_listener(1, "127.0.0.1:0", other);
    struct predecessor *p = begin();
    assert_int_equal(addr_parse(SLICE_LIT("127.0.0.1:0"), &any), ERR_OK);
    assert_true(predecessor_has_listener(p, &b));
    assert_int_equal(predecessor_take_listener(p, &any, &fds), 2);
    close(fds[0]);
    close(fds[1]);
    free(fds);
    assert_false(predecessor_has_listener(p, &a));
    /* Of the other by the address that it is bound to. */
    assert_int_equal(predecessor_take_listener(p, &b, &fds), 1);
    close(fds[0]);
    free(fds);
    assert_false(predecessor_has_listener(p, &any));
    predecessor_destroy(p);
    close(first);
    close(second);
    close(other);
}

static void the_admin_socket_and_listeners_are_not_mixed_up(void **state)
{
    struct addr a;

    (void)state;
    int fd = listening("127.0.0.1:0", &a);
    say(json_pack("{s:s}", "op", "admin"), fd);
    struct predecessor *p = begin();
    assert_false(predecessor_has_listener(p, &a));
    int taken = predecessor_take_admin(p, &a);
    assert_true(taken >= 0);
    assert_int_equal(predecessor_take_admin(p, &a), -1);
    close(taken);
    close(fd);
    predecessor_destroy(p);
}

static void a_lock_of_another_folder_stays_with_the_one_before(void **state)
{
    char folder[] = RLB_TEST_DIR "/predecessor-XXXXXX";
    char path[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/lock", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    say(json_pack("{s:s}", "op", "lock"), fd);
    struct predecessor *p = begin();
    assert_int_equal(predecessor_take_lock(p, NULL), -1);
    assert_int_equal(predecessor_take_lock(p, "/nowhere"), -1);
    int taken = predecessor_take_lock(p, folder);
    assert_true(taken >= 0);
    assert_int_equal(predecessor_take_lock(p, folder), -1);
    close(taken);
    close(fd);
    predecessor_destroy(p);
    unlink(path);
    rmdir(folder);
}

/* Each in its own channel: a refusal closes it. */
static void what_makes_no_sense_is_refused(void **state)
{
    struct addr a;
    int listener = listening("127.0.0.1:0", &a);
    int file = memfd_create("test", MFD_CLOEXEC);
    const struct {
        json_t *m;
        int fd;
    } bad[] = {
        {json_pack("{s:s, s:i}", "op", "begin", "v", PREDECESSOR_VERSION + 1), -1},
        {json_pack("{s:s}", "op", "begin"), -1},
        {json_pack("{s:i}", "v", 1), -1},
        {json_pack("{s:s}", "op", "lock"), -1},
        {json_pack("{s:s}", "op", "admin"), file},
        {json_pack("{s:s, s:s}", "op", "listener", "address", "127.0.0.1:0"), listener},
        {json_pack("{s:s, s:i, s:s}", "op", "listener", "n", 0, "address", "nonsense"), listener},
        {json_pack("{s:s, s:i, s:s}", "op", "listener", "n", 0, "address", "127.0.0.1:0"), file},
        {json_pack("{s:s, s:i}", "op", "go", "v", 1), -1},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        say(bad[i].m, bad[i].fd);
        refuses();
        close(before);
        assert_int_equal(open_channel(state), 0);
    }
    /* It ends before it has said all. */
    close(before);
    before = -1;
    refuses();
    close(listener);
    close(file);
}

struct told {
    struct loop *loop;
    unsigned times;
};

static void on_go(void *context)
{
    struct told *t = context;

    ++t->times;
    loop_stop(t->loop);
}

static void assert_heard(const char *op)
{
    json_t *m;
    int passed;

    assert_int_equal(packet_receive(before, &m, &passed), ERR_OK);
    assert_string_equal(json_string_value(json_object_get(m, "op")), op);
    json_decref(m);
}

static void it_goes_when_it_is_let_and_says_that_it_serves(void **state)
{
    struct told t = {.loop = loop_create(0)};

    (void)state;
    struct predecessor *p = begin();
    predecessor_prepared(p, t.loop, on_go, &t);
    assert_heard("prepared");
    assert_int_equal(t.times, 0);
    say(json_pack("{s:s}", "op", "go"), -1);
    loop_run(t.loop);
    assert_int_equal(t.times, 1);
    assert_true(predecessor_serving(p));
    assert_heard("ready");
    loop_destroy(t.loop);
}

static void it_goes_when_the_one_before_has_ended(void **state)
{
    struct told t = {.loop = loop_create(0)};

    (void)state;
    struct predecessor *p = begin();
    predecessor_prepared(p, t.loop, on_go, &t);
    close(before);
    before = -1;
    loop_run(t.loop);
    assert_int_equal(t.times, 1);
    assert_false(predecessor_serving(p));
    loop_destroy(t.loop);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_channel, close_before)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_the_variable_there_is_none_and_nothing_is_left),
        TEST(a_number_that_is_no_channel_is_refused),
        TEST(each_listener_is_found_with_all_its_sockets_each_once),
        TEST(the_admin_socket_and_listeners_are_not_mixed_up),
        TEST(a_lock_of_another_folder_stays_with_the_one_before),
        TEST(what_makes_no_sense_is_refused),
        TEST(it_goes_when_it_is_let_and_says_that_it_serves),
        TEST(it_goes_when_the_one_before_has_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
