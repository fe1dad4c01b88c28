/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "poolcounter/configuration.h"

struct given {
    int letter;
    const char *value;
};

static void take(const struct given *given, size_t n, struct command_line *out)
{
    *out = (struct command_line){.naddresses = 0};
    for (size_t i = 0; i < n; ++i)
        assert_true(command_line_option(out, given[i].letter, given[i].value));
}

static void expect_listen(const struct given *given, size_t n, const char *const *wanted,
                          size_t nwanted)
{
    struct command_line line;
    char text[ADDR_TEXT_MAX];

    take(given, n, &line);
    assert_true(command_line_finish(&line));
    assert_int_equal(line.nlisten, nwanted);
    for (size_t i = 0; i < nwanted; ++i)
        assert_string_equal(addr_format(&line.listen[i], text), wanted[i]);
}

static void addresses_take_the_port_or_have_their_own(void **state)
{
    static const struct given all[] = {{'l', "127.0.0.1"},
                                       {'l', "::1"},
                                       {'l', "127.0.0.2:99"},
                                       {'l', "[::1]:98"},
                                       {'l', "unix:/run/x"}};
    static const char *const all_wanted[] = {"127.0.0.1:7531", "[::1]:7531", "127.0.0.2:99",
                                             "[::1]:98", "unix:/run/x"};
    static const struct given with_port[] = {{'l', "1.2.3.4"}, {'p', "77"}};
    static const char *const with_port_wanted[] = {"1.2.3.4:77"};
    static const struct given alone[] = {{'p', "77"}};
    static const char *const alone_wanted[] = {"127.0.0.1:77"};
    static const struct given both[] = {{'l', "::"}};
    static const char *const both_wanted[] = {"[::]:7531", "0.0.0.0:7531"};

    (void)state;
    expect_listen(all, ARRAY_LEN(all), all_wanted, ARRAY_LEN(all_wanted));
    expect_listen(with_port, ARRAY_LEN(with_port), with_port_wanted, 1);
    expect_listen(alone, ARRAY_LEN(alone), alone_wanted, 1);
    expect_listen(both, ARRAY_LEN(both), both_wanted, 2);
    expect_listen(NULL, 0, NULL, 0);
}

static void an_address_that_is_not_valid_is_rejected(void **state)
{
    static const char *const bad[] = {"localhost", "localhost:1", "127.1", "0x7f.0.0.1",
                                      "1.2.3.4:",  "::1%lo",      "unix:", "unix:x"};
    struct command_line line;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        const struct given given[] = {{'l', "127.0.0.1"}, {'l', bad[i]}};

        take(given, ARRAY_LEN(given), &line);
        assert_false(command_line_finish(&line));
    }
}

static void a_port_that_is_not_valid_is_bad_usage(void **state)
{
    static const char *const bad[] = {"65536", "1x", "", "-1"};
    struct command_line line = {.naddresses = 0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i)
        assert_false(command_line_option(&line, 'p', bad[i]));
}

static void the_number_of_addresses_is_bounded(void **state)
{
    struct command_line line = {.naddresses = 0};

    (void)state;
    for (size_t i = 0; i < LISTENERS_MAX; ++i)
        assert_true(command_line_option(&line, 'l', "127.0.0.1"));
    assert_false(command_line_option(&line, 'l', "127.0.0.1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_take_the_port_or_have_their_own),
        cmocka_unit_test(an_address_that_is_not_valid_is_rejected),
        cmocka_unit_test(a_port_that_is_not_valid_is_bad_usage),
        cmocka_unit_test(the_number_of_addresses_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
