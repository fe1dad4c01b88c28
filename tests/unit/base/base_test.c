/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/base.h"

static void an_array_grows_to_what_is_needed_and_keeps_its_elements(void **state)
{
    size_t room = 0;
    int *array = NULL;

    (void)state;
    for (int i = 0; i < 100; ++i) {
        array = xgrow(array, (size_t)i + 1, &room, sizeof(*array));
        assert_true(room > (size_t)i);
        array[i] = i;
    }
    int *before = array;
    array = xgrow(array, room, &room, sizeof(*array));
    assert_ptr_equal(array, before);
    for (int i = 0; i < 100; ++i)
        assert_int_equal(array[i], i);
    free(array);
}

static void lines_are_zeroed_and_begin_at_a_cache_line(void **state)
{
    static const char zeros[3 * CACHE_LINE_BYTES];

    (void)state;
    char *p = xcalloc_lines(3, CACHE_LINE_BYTES);
    assert_int_equal((uintptr_t)p % CACHE_LINE_BYTES, 0);
    assert_memory_equal(p, zeros, sizeof(zeros));
    free(p);
}

static void texts_are_copied_whole(void **state)
{
    (void)state;
    char *slice = xslicedup((struct slice){"workers", 4});
    char *empty = xslicedup(SLICE_NULL);
    char *text = xstrdup("text");
    char *printed = xasprintf("%s=%d", "port", 80);

    assert_string_equal(slice, "work");
    assert_string_equal(empty, "");
    assert_string_equal(text, "text");
    assert_null(xstrdup(NULL));
    assert_string_equal(printed, "port=80");
    free(slice);
    free(empty);
    free(text);
    free(printed);
}

static void a_false_assertion_reports_its_place_and_aborts(void **state)
{
    char report[4096];
    int ends[2];
    int status = 0;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL); /* not the test library's */
        assert_failed("1 > 2", "place.c", 7, "compare");
    }
    close(ends[1]);
    ssize_t got = read(ends[0], report, sizeof(report) - 1);
    assert_true(got > 0);
    report[got] = '\0';
    assert_int_equal(waitpid(child, &status, 0), child);
    close(ends[0]); /* the child writes a backtrace after the line */
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(report, "assertion failed: 1 > 2 at place.c:7 (compare)\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_array_grows_to_what_is_needed_and_keeps_its_elements),
        cmocka_unit_test(lines_are_zeroed_and_begin_at_a_cache_line),
        cmocka_unit_test(texts_are_copied_whole),
        cmocka_unit_test(a_false_assertion_reports_its_place_and_aborts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
