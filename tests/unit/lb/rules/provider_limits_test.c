/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/provider_limits.h"

#include "common/base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static struct addr parsed(const char *text)
{
    struct addr a;

    assert_int_equal(addr_parse(slice_of(text), &a), ERR_OK);
    return a;
}

static bool allowed(const struct provider_limits *l, const char *text)
{
    struct addr a = parsed(text);

    return provider_limits_rejection(l, &a) == NULL;
}

static void a_remote_tree_reaches_no_service_of_this_machine_alone(void **state)
{
    static const char *const inside[] = {
        "127.0.0.1:1",
        "127.9.9.9:1",
        "[::1]:1",
        "[::ffff:127.0.0.1]:1",
        "0.0.0.0:1",
        "[::]:1",
        "[::ffff:0.0.0.0]:1",
        "169.254.169.254:80",
        "[fe80::1]:1",
        "[::ffff:169.254.1.1]:1",
        "unix:/run/x.sock",
        "unix:@abstract",
    };
    static const char *const outside[] = {"10.0.0.1:1", "192.0.2.1:1", "[2001:db8::1]:1",
                                          "[::ffff:10.0.0.1]:1", "169.253.255.255:1"};
    const struct provider_limits remote = {.remote = true};
    const struct provider_limits local = {.remote = false};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(inside); ++i) {
        assert_false(allowed(&remote, inside[i]));
        assert_true(allowed(&local, inside[i]));
    }
    for (size_t i = 0; i < ARRAY_LEN(outside); ++i) {
        assert_true(allowed(&remote, outside[i]));
        assert_true(allowed(&local, outside[i]));
    }
}

static void configured_networks_are_all_that_is_allowed(void **state)
{
    static const struct {
        const char *networks[3];
        const char *address;
        bool allowed;
    } rows[] = {
        {{"10.0.0.0/8"}, "10.1.2.3:80", true},
        {{"10.0.0.0/8"}, "[::ffff:10.1.2.3]:80", true},
        {{"10.0.0.0/8"}, "11.0.0.1:80", false},
        {{"10.0.0.0/8"}, "127.0.0.1:80", false},
        {{"10.0.0.0/8"}, "0.0.0.0:80", false},
        {{"10.0.0.0/8"}, "unix:/run/x.sock", false},
        {{"loopback"}, "127.0.0.2:80", true},
        {{"loopback"}, "[::1]:80", true},
        {{"loopback"}, "0.0.0.0:80", true},
        {{"loopback"}, "10.0.0.1:80", false},
        {{"unix"}, "unix:/run/x.sock", true},
        {{"unix"}, "127.0.0.1:80", false},
        {{"fd00::/8", "169.254.0.0/16"}, "169.254.1.1:80", true},
        {{"0.0.0.0/0", "::/0", "unix"}, "127.0.0.1:80", true},
        {{"0.0.0.0/0", "::/0", "unix"}, "[::1]:80", true},
        {{"0.0.0.0/0", "::/0", "unix"}, "unix:@x", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        struct networks n = {0};

        for (size_t k = 0; k < 3 && rows[i].networks[k] != NULL; ++k)
            assert_int_equal(networks_add(&n, slice_of(rows[i].networks[k])), ERR_OK);
        for (int remote = 0; remote < 2; ++remote) {
            const struct provider_limits l = {.networks = &n, .remote = remote != 0};

            if (allowed(&l, rows[i].address) != rows[i].allowed)
                fail_msg("%s in %s", rows[i].address, rows[i].networks[0]);
        }
        networks_fini(&n);
    }
}

static void own_listeners_are_never_allowed(void **state)
{
    static const struct {
        const char *own, *address;
        bool allowed;
    } rows[] = {
        {"127.0.0.1:8080", "127.0.0.1:8080", false},
        {"127.0.0.1:8080", "[::ffff:127.0.0.1]:8080", false},
        {"127.0.0.1:8080", "0.0.0.0:8080", false},
        {"127.0.0.1:8080", "127.0.0.1:8081", true},
        {"127.0.0.1:8080", "127.0.0.2:8080", true},
        {"127.0.0.1:8080", "[::1]:8080", true},
        {"[::ffff:127.0.0.1]:8080", "127.0.0.1:8080", false},
        {"10.9.9.9:8080", "10.9.9.9:8080", false},
        {"[::1]:8080", "[::]:8080", false},
        /* A wildcard is every address of this machine, and of no other. */
        {"0.0.0.0:8080", "127.0.0.1:8080", false},
        {"0.0.0.0:8080", "127.3.2.1:8080", false},
        {"0.0.0.0:8080", "0.0.0.0:8080", false},
        {"0.0.0.0:8080", "[::ffff:127.0.0.1]:8080", false},
        {"0.0.0.0:8080", "127.0.0.1:8081", true},
        {"0.0.0.0:8080", "192.0.2.1:8080", true},
        {"0.0.0.0:8080", "[::1]:8080", true},
        {"[::ffff:0.0.0.0]:8080", "127.0.0.1:8080", false},
        {"[::]:8080", "[::]:8080", false},
        {"[::]:8080", "[::1]:8080", false},
        {"[::]:8080", "127.0.0.1:8080", true},
        /* Not bound yet: the port is unknown. */
        {"127.0.0.1:0", "127.0.0.1:8080", true},
        {"unix:@lb", "unix:@lb", false},
        {"unix:@lb", "unix:@other", true},
        {"unix:/run/lb.sock", "unix:/run/lb.sock", false},
        {"unix:/run/lb.sock", "127.0.0.1:8080", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        struct addr own[2] = {parsed("10.255.255.254:1"), parsed(rows[i].own)};
        const struct provider_limits l = {.own = own, .nown = 2};

        if (allowed(&l, rows[i].address) != rows[i].allowed)
            fail_msg("%s, of %s", rows[i].address, rows[i].own);
    }
}

static void a_unix_socket_is_known_under_any_path(void **state)
{
    char directory[] = RLB_TEST_DIR "/rlb-limits-XXXXXX";
    char path[64];
    char alias[64];
    char by_directory[96];
    const struct addr_listen_options o = {0};
    int fd = -1;

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "unix:%s/a", directory);
    snprintf(alias, sizeof(alias), "unix:%s/b", directory);
    snprintf(by_directory, sizeof(by_directory), "unix:%s/../%s/a", directory,
             directory + strlen(RLB_TEST_DIR "/"));
    struct addr own = parsed(path);
    const struct provider_limits l = {.own = &own, .nown = 1};
    assert_int_equal(addr_listen(&own, &o, &fd), ERR_OK);
    assert_true(allowed(&l, alias));
    assert_int_equal(symlink(path + strlen("unix:"), alias + strlen("unix:")), 0);
    assert_false(allowed(&l, path));
    assert_false(allowed(&l, alias));
    assert_false(allowed(&l, by_directory));
    close(fd);
    unlink(alias + strlen("unix:"));
    unlink(path + strlen("unix:"));
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_remote_tree_reaches_no_service_of_this_machine_alone),
        cmocka_unit_test(configured_networks_are_all_that_is_allowed),
        cmocka_unit_test(own_listeners_are_never_allowed),
        cmocka_unit_test(a_unix_socket_is_known_under_any_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
