/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/base.h"
#include "common/base/clock.h"
#include "common/net/packet.h"

enum { LONG_MS = 60000, SHORT_MS = 20 };

static int pair[2];

static int set_up(void **state)
{
    (void)state;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < 2; ++i) {
        if (pair[i] >= 0)
            close(pair[i]);
    }
    return 0;
}

/* What was taken, in order: 'a' and 'b'; the descriptor of a 'b' is kept. */
struct taken {
    char ops[8];
    size_t n;
    int fd;
};

static bool take(void *context, const json_t *m, int *passed)
{
    struct taken *t = context;

    if (t->n == sizeof(t->ops) - 1 || !(packet_is(m, "a") || packet_is(m, "b")))
        return false;
    t->ops[t->n++] = packet_is(m, "a") ? 'a' : 'b';
    if (packet_is(m, "b")) {
        t->fd = *passed;
        *passed = -1;
    }
    return true;
}

static void send_with(const char *op, int fd)
{
    json_t *m = json_pack("{s:s}", "op", op);

    assert_int_equal(packet_send(pair[0], m, fd), ERR_OK);
    json_decref(m);
}

static size_t open_descriptors(void)
{
    size_t n = 0;

    for (int fd = 0; fd < 256; ++fd)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void messages_are_passed_on_until_the_last_one(void **state)
{
    struct taken t = {.fd = -1};
    json_t *last;

    (void)state;
    assert_int_equal(packet_send_op(pair[0], "a"), ERR_OK);
    send_with("b", 0);
    assert_int_equal(packet_send_op(pair[0], "end"), ERR_OK);
    assert_int_equal(packet_send_op(pair[0], "a"), ERR_OK);
    assert_int_equal(packet_receive_until(pair[1], "end", LONG_MS, take, &t, &last), ERR_OK);
    assert_string_equal(t.ops, "ab");
    assert_true(t.fd >= 0);
    close(t.fd);
    assert_true(packet_is(last, "end"));
    assert_false(packet_is(last, "en"));
    json_decref(last);
}

static void descriptors_that_none_takes_are_closed(void **state)
{
    struct taken t = {.fd = -1};
    size_t before = open_descriptors();
    json_t *last;

    (void)state;
    send_with("a", 0);
    /* The last message has none: with one it is another. */
    send_with("end", 0);
    assert_int_equal(packet_receive_until(pair[1], "end", LONG_MS, take, &t, &last), ERR_SYNTAX);
    assert_string_equal(t.ops, "a");
    assert_int_equal(open_descriptors(), before);
}

static void an_invalid_message_ends_the_exchange(void **state)
{
    static const char *const bad[] = {"{\"op\":\"c\"}", "{\"op\":7}", "{}", "["};
    struct taken t = {.fd = -1};
    json_t *last;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        assert_true(send(pair[0], bad[i], strlen(bad[i]), 0) > 0);
        assert_int_equal(packet_receive_until(pair[1], "end", LONG_MS, take, &t, &last),
                         ERR_SYNTAX);
    }
    assert_int_equal(t.n, 0);
}

static void silence_is_waited_for_as_long_as_specified(void **state)
{
    struct taken t = {.fd = -1};
    json_t *last;
    uint64_t before = clock_mono_us();

    (void)state;
    assert_int_equal(packet_receive_until(pair[1], "end", SHORT_MS, take, &t, &last), ERR_TIMEOUT);
    assert_true(clock_mono_us() - before >= SHORT_MS * 1000);
}

static void the_end_of_the_other_side_is_reported_at_once(void **state)
{
    struct taken t = {.fd = -1};
    json_t *last;

    (void)state;
    assert_int_equal(packet_send_op(pair[0], "a"), ERR_OK);
    close(pair[0]);
    pair[0] = -1;
    assert_int_equal(packet_receive_until(pair[1], "end", LONG_MS, take, &t, &last),
                     ERR_PEER_CLOSED);
    assert_string_equal(t.ops, "a");
    assert_int_equal(packet_send_op(pair[1], "a"), ERR_PEER_CLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_are_passed_on_until_the_last_one, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(descriptors_that_none_takes_are_closed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_invalid_message_ends_the_exchange, set_up, tear_down),
        cmocka_unit_test_setup_teardown(silence_is_waited_for_as_long_as_specified, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_end_of_the_other_side_is_reported_at_once, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests_name("packet_talk", tests, NULL, NULL);
}
