/* SPDX-License-Identifier: Apache-2.0
 *
 * Latches are annotated for the thread sanitizer. A child process performs the locking; the test
 * reads the sanitizer's report from its standard error.
 */
#include "common/base/latch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { REPORT_MAX = 65536 };

static void take_both(struct latch *first, struct latch *second)
{
    latch_lock(first);
    latch_lock(second);
    latch_unlock(second);
    latch_unlock(first);
}

static void in_one_order(struct latch latches[2])
{
    take_both(&latches[0], &latches[1]);
    take_both(&latches[0], &latches[1]);
}

static void in_both_orders(struct latch latches[2])
{
    take_both(&latches[0], &latches[1]);
    take_both(&latches[1], &latches[0]);
}

/* The standard error of a child that calls TAKE; the sanitizer may determine its exit status. */
static void report_of(void (*take)(struct latch[2]), char report[REPORT_MAX])
{
    size_t n = 0;
    ssize_t got;
    int ends[2], status;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct latch *latches = calloc(2, sizeof(*latches));

        dup2(ends[1], STDERR_FILENO);
        take(latches);
        free(latches);
        _exit(EXIT_SUCCESS);
    }
    close(ends[1]);
    while ((got = read(ends[0], report + n, REPORT_MAX - 1 - n)) > 0)
        n += (size_t)got;
    report[n] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void latches_taken_in_both_orders_are_reported(void **state)
{
    char report[REPORT_MAX];

    (void)state;
    report_of(in_both_orders, report);
#ifdef __SANITIZE_THREAD__
    assert_non_null(strstr(report, "lock-order-inversion"));
#else
    assert_string_equal(
        report, ""); /* not checked in this build, and sequential locking does not deadlock */
#endif
}

static void latches_taken_in_one_order_are_fine(void **state)
{
    char report[REPORT_MAX];

    (void)state;
    report_of(in_one_order, report);
    assert_string_equal(report, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latches_taken_in_both_orders_are_reported),
        cmocka_unit_test(latches_taken_in_one_order_are_fine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
