/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cli/ctl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static int run(const char *const *args)
{
    char *argv[8];
    int argc = 0;

    argv[argc++] = xstrdup("resumelbctl");
    while (args[argc - 1] != NULL) {
        argv[argc] = xstrdup(args[argc - 1]);
        ++argc;
    }
    argv[argc] = NULL;
    int code = ctl_main(argc, argv);
    for (int i = 0; i < argc; ++i)
        free(argv[i]);
    return code;
}

static void a_bad_command_line_is_bad_usage(void **state)
{
    static const char *const lines[][6] = {
        {NULL},
        {"nonsense", NULL},
        {"status", "shop", "more", NULL},
        {"--nonsense", "status", NULL},
        {"status", "-a", NULL},
        {"resumes", "-n", "x", NULL},
        {"detach", NULL},
        {"detach", "a", "b", NULL},
        {"resumes", "-n", "-1", NULL},
        {"status", "-t", "0", NULL},
        {"status", "-t", "1000000", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lines); ++i)
        assert_int_equal(run(lines[i]), CTL_USAGE);
}

static void help_and_version_need_no_word(void **state)
{
    (void)state;
    assert_int_equal(run((const char *const[]){"--help", NULL}), CTL_OK);
    assert_int_equal(run((const char *const[]){"-v", NULL}), CTL_OK);
}

static void an_unreachable_address_is_a_failure(void **state)
{
    static const char *const addresses[] = {"unix:/nonexistent/x", "127.0.0.1:1", "nonsense",
                                            "127.0.0.1:99999", ""};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(addresses); ++i)
        assert_int_equal(run((const char *const[]){"status", "-a", addresses[i], NULL}),
                         CTL_FAILED);
    assert_int_equal(
        run((const char *const[]){"status", "-T", "/nonexistent/token", "-a", "127.0.0.1:1", NULL}),
        CTL_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_command_line_is_bad_usage),
        cmocka_unit_test(help_and_version_need_no_word),
        cmocka_unit_test(an_unreachable_address_is_a_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
