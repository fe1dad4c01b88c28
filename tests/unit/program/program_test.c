/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/text.h"
#include "common/program/upgrade.h"

static char directory[64];

static void make_file(const char *name, mode_t mode)
{
    char *path = xasprintf("%s/%s", directory, name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
    free(path);
}

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), RLB_TEST_DIR "/rlb-program-XXXXXX");
    if (mkdtemp(directory) == NULL)
        return -1;
    make_file("agent", 0755);
    make_file("notes", 0644);
    return 0;
}

static int remove_directory(void **state)
{
    static const char *const names[] = {"agent", "notes"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); ++i) {
        char *path = xasprintf("%s/%s", directory, names[i]);

        unlink(path);
        free(path);
    }
    return rmdir(directory);
}

static void a_name_with_a_slash_is_the_program(void **state)
{
    char *path = xasprintf("%s/agent", directory);
    char *notes = xasprintf("%s/notes", directory);
    char *got = program_find(path, "/bin");

    (void)state;
    assert_string_equal(got, path);
    assert_null(program_find(notes, "/bin"));
    assert_null(program_find(directory, "/bin"));
    assert_null(program_find("/nowhere/agent", directory));
    free(got);
    free(notes);
    free(path);
}

static void a_name_without_one_is_searched_for_in_path(void **state)
{
    char *expected = xasprintf("%s/agent", directory);
    char *path = xasprintf("/nowhere::%s:/bin", directory);
    char *got = program_find("agent", path);

    (void)state;
    assert_string_equal(got, expected);
    assert_null(program_find("agent", "/nowhere:/bin"));
    assert_null(program_find("notes", path));
    free(got);
    free(path);
    free(expected);
}

static void an_empty_entry_is_not_the_working_directory(void **state)
{
    char *before = getcwd(NULL, 0);

    (void)state;
    assert_int_equal(chdir(directory), 0);
    assert_null(program_find("agent", ":/nowhere:"));
    assert_int_equal(chdir(before), 0);
    free(before);
}

/* What the second run of this very program does. */
static int second_run(const char *what)
{
    if (strcmp(what, "exit") == 0)
        return 7;
    if (strcmp(what, "sleep") == 0) {
        for (;;)
            pause();
    }
    /* "write": to its only inherited descriptor. */
    const char *number = getenv(UPGRADE_VARIABLE);
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    dprintf(atoi(number), "%s %d %d", number, (int)limit.rlim_cur, fcntl(4, F_GETFD));
    return 0;
}

static void start(const char *what, int pass, struct program *out)
{
    char *const argv[] = {program_invocation_name, (char *)(uintptr_t)what, NULL};
    struct rlimit nofile;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &nofile), 0);
    nofile.rlim_cur = 100;
    assert_int_equal(program_start(argv, &nofile, pass, out), ERR_OK);
}

static void wait_for_end(const struct program *p)
{
    struct pollfd ended = {.fd = p->pidfd, .events = POLLIN};

    assert_int_equal(poll(&ended, 1, 60000), 1);
}

static void the_end_of_a_program_is_reported(void **state)
{
    struct program p;
    char how[40];

    (void)state;
    start("exit", STDERR_FILENO, &p);
    wait_for_end(&p);
    assert_int_not_equal(program_end(&p, false, how), 0);
    assert_string_equal(how, "exit 7");
    start("sleep", STDERR_FILENO, &p);
    assert_int_not_equal(program_end(&p, true, how), 0);
    assert_string_equal(how, "signal 9");
}

static void a_program_gets_one_descriptor_and_its_limit(void **state)
{
    struct program p;
    int pipe_fds[2];
    char how[40];
    char written[64] = "";

    (void)state;
    assert_int_equal(pipe(pipe_fds), 0);
    start("write", pipe_fds[1], &p);
    wait_for_end(&p);
    assert_int_equal(program_end(&p, false, how), 0);
    assert_true(read(pipe_fds[0], written, sizeof(written) - 1) > 0);
    assert_string_equal(written, "3 100 -1");
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_name_with_a_slash_is_the_program),
        TEST(a_name_without_one_is_searched_for_in_path),
        TEST(an_empty_entry_is_not_the_working_directory),
        cmocka_unit_test(the_end_of_a_program_is_reported),
        cmocka_unit_test(a_program_gets_one_descriptor_and_its_limit),
    };

    if (argc > 1)
        return second_run(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
