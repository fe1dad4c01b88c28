/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker-agent/heir.h"
#include "worker-agent/keeper_wire.h"

/* The one before: its end of the channel, and the new one's. */
static int before, after;

static int open_channel(void **state)
{
    char number[16];
    int pair[2];

    (void)state;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    before = pair[0];
    after = pair[1];
    snprintf(number, sizeof(number), "%d", after);
    return setenv(HEIR_VARIABLE, number, 1);
}

static int close_before(void **state)
{
    (void)state;
    if (before >= 0)
        close(before);
    return unsetenv(HEIR_VARIABLE);
}

/* Takes M and FD. */
static void say(json_t *m, int fd)
{
    assert_int_equal(packet_send(before, m, fd), ERR_OK);
    json_decref(m);
    if (fd >= 0)
        close(fd);
}

static json_t *of_slot(const char *op, const char *application, int slot)
{
    return json_pack("{s:s, s:s, s:i}", "op", op, "application", application, "slot", slot);
}

static int listening(struct addr *at)
{
    const struct addr_listen_options o = {0};
    int fd;

    assert_int_equal(addr_parse(SLICE_LIT("127.0.0.1:0"), at), ERR_OK);
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

static void say_lock(void)
{
    say(json_pack("{s:s}", "op", "lock"), memory_file(""));
}

static void say_begin(void)
{
    say(json_pack("{s:s, s:i}", "op", "begin", "v", HEIR_VERSION), -1);
}

static struct heir *begin(void)
{
    struct heir *h;

    say_begin();
    assert_true(heir_begin(&h));
    assert_non_null(h);
    return h;
}

static void refuses(void)
{
    struct heir *h;

    assert_false(heir_begin(&h));
    assert_null(h);
}

static void without_the_variable_there_is_none_before(void **state)
{
    struct heir *h;

    (void)state;
    unsetenv(HEIR_VARIABLE);
    close(after);
    assert_true(heir_begin(&h));
    assert_null(h);
    assert_int_equal(heir_take_socket(NULL, &(struct addr){0}, "shop", 0), -1);
    assert_false(heir_take_resume(NULL, "shop", 0, &(struct text){0}));
}

static void a_variable_that_names_no_channel_is_refused(void **state)
{
    static const char *const bad[] = {"", "x", "-1", "0", "2", "99999", "3 "};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        setenv(HEIR_VARIABLE, bad[i], 1);
        refuses();
        assert_null(getenv(HEIR_VARIABLE));
    }
    close(after);
}

static void a_socket_is_found_by_its_address_once(void **state)
{
    struct addr a, b, c;
    int fa = listening(&a);
    int fb = listening(&b);
    struct addr bound;

    (void)state;
    close(listening(&c));
    say_lock();
    say(of_slot("socket", "shop", 0), fa);
    say(json_pack("{s:s}", "op", "socket"), fb);
    struct heir *h = begin();
    assert_int_equal(heir_take_socket(h, &c, "shop", 0), -1);
    int got = heir_take_socket(h, &b, NULL, 0);
    assert_true(got >= 0);
    assert_int_equal(addr_of_socket(got, &bound), ERR_OK);
    assert_true(addr_equal(&bound, &b));
    assert_int_equal(heir_take_socket(h, &b, NULL, 0), -1);
    close(got);
    /* whatever its name was */
    got = heir_take_socket(h, &a, "renamed", 7);
    assert_true(got >= 0);
    close(got);
    heir_destroy(h);
}

static void a_socket_at_any_port_is_found_by_its_slot(void **state)
{
    struct addr a, b, any, bound;

    (void)state;
    int fa = listening(&a);
    int fb = listening(&b);
    assert_int_equal(addr_parse(SLICE_LIT("127.0.0.1:0"), &any), ERR_OK);
    say_lock();
    say(of_slot("socket", "shop", 0), fa);
    say(of_slot("socket", "shop", 1), fb);
    struct heir *h = begin();
    assert_int_equal(heir_take_socket(h, &any, "wiki", 1), -1);
    assert_int_equal(heir_take_socket(h, &any, NULL, 0), -1);
    int got = heir_take_socket(h, &any, "shop", 1);
    assert_true(got >= 0);
    assert_int_equal(addr_of_socket(got, &bound), ERR_OK);
    assert_true(addr_equal(&bound, &b));
    close(got);
    heir_destroy(h);
}

static void the_lock_is_taken_once(void **state)
{
    (void)state;
    say_lock();
    struct heir *h = begin();
    int fd = heir_take_lock(h);
    assert_true(fd >= 0);
    assert_int_equal(heir_take_lock(h), -1);
    close(fd);
    heir_destroy(h);
}

static void without_a_lock_it_is_refused(void **state)
{
    (void)state;
    say_begin();
    refuses();
}

static void another_version_is_refused(void **state)
{
    (void)state;
    say_lock();
    say(json_pack("{s:s, s:i}", "op", "begin", "v", HEIR_VERSION + 1), -1);
    refuses();
}

static void a_socket_that_does_not_listen_is_refused(void **state)
{
    (void)state;
    say_lock();
    say(of_slot("socket", "shop", 0), socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    refuses();
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    say(json_pack("{s:s}", "op", "present"), memory_file("x"));
    refuses();
}

static void who_dies_before_saying_all_is_not_followed(void **state)
{
    (void)state;
    say_lock();
    close(before);
    before = -1;
    refuses();
}

static void what_was_measured_comes_with_the_word_to_go(void **state)
{
    json_t *heard = NULL;
    struct text text = {0};
    int passed;

    (void)state;
    say_lock();
    struct heir *h = begin();
    say(of_slot("resume", "shop", 3), memory_file("a line\n"));
    say(json_pack("{s:s}", "op", "go"), -1);
    assert_true(heir_take_over(h));
    assert_int_equal(packet_receive(before, &heard, &passed), ERR_OK);
    assert_string_equal(json_string_value(json_object_get(heard, "op")), "prepared");
    json_decref(heard);
    assert_false(heir_take_resume(h, "shop", 2, &text));
    assert_true(heir_take_resume(h, "shop", 3, &text));
    assert_string_equal(text_cstr(&text), "a line\n");
    assert_false(heir_take_resume(h, "shop", 3, &text));
    text_fini(&text);
    heir_destroy(h);
}

static void who_dies_instead_of_letting_go_has_let_go(void **state)
{
    (void)state;
    say_lock();
    struct heir *h = begin();
    close(before);
    before = -1;
    assert_true(heir_take_over(h));
    heir_destroy(h);
}

static void a_message_out_of_turn_is_not_taken_for_the_word_to_go(void **state)
{
    (void)state;
    say_lock();
    struct heir *h = begin();
    say_begin();
    assert_false(heir_take_over(h));
    heir_destroy(h);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_channel, close_before)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_the_variable_there_is_none_before),
        TEST(a_variable_that_names_no_channel_is_refused),
        TEST(a_socket_is_found_by_its_address_once),
        TEST(a_socket_at_any_port_is_found_by_its_slot),
        TEST(the_lock_is_taken_once),
        TEST(without_a_lock_it_is_refused),
        TEST(another_version_is_refused),
        TEST(a_socket_that_does_not_listen_is_refused),
        TEST(nonsense_is_refused),
        TEST(who_dies_before_saying_all_is_not_followed),
        TEST(what_was_measured_comes_with_the_word_to_go),
        TEST(who_dies_instead_of_letting_go_has_let_go),
        TEST(a_message_out_of_turn_is_not_taken_for_the_word_to_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
