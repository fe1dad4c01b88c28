/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "poolcounter/command_line.h"

enum { WORDS_MAX = 200 };

/* WORDS is "-a b c": parted at blanks. */
static void parse(const char *words, struct command_line *out)
{
    static char copy[WORDS_MAX];
    char *argv[WORDS_MAX / 2 + 2];
    int argc = 0;
    char *rest = copy;

    snprintf(copy, sizeof(copy), "%s", words);
    argv[argc++] = copy + strlen(copy); /* getopt says its name, which is empty here */
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        if (*word != '\0')
            argv[argc++] = word;
    }
    argv[argc] = NULL;
    command_line_parse(argc, argv, out);
}

static void expect_listen(const char *words, const char *const *wanted, size_t n)
{
    struct command_line line;
    char text[ADDR_TEXT_MAX];

    parse(words, &line);
    assert_int_equal(line.command, COMMAND_RUN);
    assert_int_equal(line.nlisten, n);
    for (size_t i = 0; i < n; ++i)
        assert_string_equal(addr_format(&line.listen[i], text), wanted[i]);
}

static void addresses_take_the_port_or_have_their_own(void **state)
{
    const char *const all[] = {"127.0.0.1:7531", "[::1]:7531", "127.0.0.2:99", "[::1]:98",
                               "unix:/run/x"};
    const char *const with_port[] = {"1.2.3.4:77"};
    const char *const alone[] = {"127.0.0.1:77"};
    const char *const both[] = {"[::]:7531", "0.0.0.0:7531"};

    (void)state;
    expect_listen("-l 127.0.0.1 -l ::1 -l 127.0.0.2:99 -l [::1]:98 -l unix:/run/x", all,
                  ARRAY_LEN(all));
    expect_listen("-l 1.2.3.4 -p 77", with_port, 1);
    expect_listen("-p 77", alone, 1);
    expect_listen("-l ::", both, 2);
    expect_listen("", NULL, 0);
}

static void an_address_that_is_none_is_told(void **state)
{
    static const char *const bad[] = {"localhost", "localhost:1", "127.1", "0x7f.0.0.1",
                                      "1.2.3.4:",  "::1%lo",      "unix:", "unix:x"};
    char words[WORDS_MAX];
    struct command_line line;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        snprintf(words, sizeof(words), "-l 127.0.0.1 -l %s", bad[i]);
        parse(words, &line);
        assert_int_equal(line.command, COMMAND_BAD);
        assert_string_equal(line.bad_address, bad[i]);
    }
}

static void bad_usage_is_no_bad_address(void **state)
{
    static const char *const bad[] = {"-x", "-l", "-p 65536", "-p 1x", "--nothing", "-c"};
    struct command_line line;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        parse(bad[i], &line);
        assert_int_equal(line.command, COMMAND_BAD);
        assert_null(line.bad_address);
    }
}

static void further_words_are_ignored(void **state)
{
    struct command_line line;

    (void)state;
    parse("one -c file two -t", &line);
    assert_int_equal(line.command, COMMAND_TEST);
    assert_string_equal(line.file, "file");
    parse("--describe stats -x", &line);
    assert_int_equal(line.command, COMMAND_DESCRIBE);
    assert_string_equal(line.what, "stats");
}

static void there_is_a_bound_to_addresses(void **state)
{
    char *argv[2 * LISTENERS_MAX + 5];
    char option[] = "-l";
    char address[] = "127.0.0.1";
    struct command_line line;
    int argc = 0;

    (void)state;
    argv[argc++] = option;
    for (size_t i = 0; i < LISTENERS_MAX + 1; ++i) {
        argv[argc++] = option;
        argv[argc++] = address;
    }
    argv[argc] = NULL;
    command_line_parse(argc, argv, &line);
    assert_int_equal(line.command, COMMAND_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_take_the_port_or_have_their_own),
        cmocka_unit_test(an_address_that_is_none_is_told),
        cmocka_unit_test(bad_usage_is_no_bad_address),
        cmocka_unit_test(further_words_are_ignored),
        cmocka_unit_test(there_is_a_bound_to_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
