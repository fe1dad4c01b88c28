/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/event/log_writer.h"

enum {
    VALUE_BYTES = 3500,
    /* More than the buffers have room for. */
    LINES_MAX = 10000,
    /* More than a pipe has room for. */
    FEW_LINES = 100,
};

/* A standard error of which the reader is the test. */
struct reader {
    int fd, stderr_before;
    uint64_t dropped_before;
    struct text seen;
};

static void reader_start(struct reader *r, bool is_socket, unsigned patience_ms)
{
    int pair[2];

    *r = (struct reader){.stderr_before = dup(STDERR_FILENO), .dropped_before = log_dropped()};
    assert_int_equal(is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, pair) : pipe(pair), 0);
    assert_true(dup2(pair[1], STDERR_FILENO) >= 0);
    close(pair[1]);
    r->fd = pair[0];
    fcntl(r->fd, F_SETFL, O_NONBLOCK);
    log_open(patience_ms);
}

/* Reads what there is. Returns false if there was nothing. */
static bool read_some(struct reader *r)
{
    ssize_t n = read(r->fd, text_reserve(&r->seen, 65536), 65536);

    r->seen.len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

static bool has_seen(struct reader *r, const char *what)
{
    return strstr(text_cstr(&r->seen), what) != NULL;
}

static uint64_t dropped_now(const struct reader *r)
{
    return log_dropped() - r->dropped_before;
}

static void reader_stop(struct reader *r)
{
    struct output o = log_output();

    dup2(r->stderr_before, STDERR_FILENO);
    close(r->stderr_before);
    close(o.fd);
    close(r->fd);
    text_fini(&r->seen);
    log_open(LOG_PATIENCE_MS);
}

static void log_number(unsigned number)
{
    static char value[VALUE_BYTES + 1];

    memset(value, 'x', VALUE_BYTES);
    log_info(NULL, "numbered", "number=%u value=%s end=%u", number, value, number);
}

/* Every line is whole, their numbers rise, and what is missing between two is what is reported. */
static void assert_in_order(struct reader *r, unsigned next, uint64_t expected_dropped)
{
    struct slice rest = text_slice(&r->seen);
    unsigned long long reported = 0;

    while (rest.len != 0) {
        struct text line = {0};
        unsigned long long gap;
        unsigned number, end;

        text_add(&line, slice_cut(&rest, '\n'));
        const char *s = text_cstr(&line);
        const char *report = strstr(s, " warn log-lines-dropped lines=");
        if (report != NULL) {
            assert_int_equal(sscanf(report, " warn log-lines-dropped lines=%llu", &gap), 1);
            reported += gap;
            next += (unsigned)gap;
        } else {
            assert_non_null(strstr(s, " end="));
            assert_int_equal(sscanf(strstr(s, "number="), "number=%u", &number), 1);
            assert_int_equal(sscanf(strstr(s, " end="), " end=%u", &end), 1);
            assert_int_equal(number, next++);
            assert_int_equal(end, number);
        }
        text_fini(&line);
    }
    assert_int_equal(reported, expected_dropped);
}

/* Logs until lines are dropped, then reads until the last line is there. */
static void fill_and_read(struct reader *r)
{
    unsigned n = 0;

    while (n < LINES_MAX && dropped_now(r) < 3)
        log_number(n++);
    assert_true(n < LINES_MAX);
    uint64_t dropped = dropped_now(r);
    assert_false(has_seen(r, "log-lines-dropped"));
    while (!has_seen(r, "log-lines-dropped")) {
        /* As a server does each second. */
        log_flush();
        (void)read_some(r);
    }
    log_number(n);
    char last[32];
    snprintf(last, sizeof(last), " end=%u\n", n);
    while (!has_seen(r, last))
        (void)read_some(r);
    assert_int_equal(dropped_now(r), dropped);
    assert_in_order(r, 0, dropped);
}

static void lines_without_room_are_counted_and_reported_in_their_place(void **state)
{
    struct reader r;

    (void)state;
    reader_start(&r, false, LOG_PATIENCE_MS);
    log_writer_start();
    fill_and_read(&r);
    log_writer_stop();
    reader_stop(&r);
}

static void a_stuck_reader_of_a_socket_is_not_waited_for(void **state)
{
    struct reader r;

    (void)state;
    reader_start(&r, true, LOG_PATIENCE_MS);
    log_writer_start();
    fill_and_read(&r);
    log_writer_stop();
    reader_stop(&r);
}

static void without_a_thread_lines_without_room_are_dropped_too(void **state)
{
    struct reader r;

    (void)state;
    reader_start(&r, false, 0);
    fill_and_read(&r);
    reader_stop(&r);
    reader_start(&r, true, 0);
    fill_and_read(&r);
    reader_stop(&r);
}

static void a_stuck_reader_does_not_prevent_the_end_of_the_writer(void **state)
{
    struct reader r;
    uint64_t whole = 0;

    (void)state;
    reader_start(&r, false, LOG_PATIENCE_MS);
    log_writer_start();
    for (unsigned i = 0; i < FEW_LINES; ++i)
        log_number(i);
    assert_int_equal(dropped_now(&r), 0);
    log_writer_stop();
    uint64_t dropped = dropped_now(&r);
    assert_true(dropped > 0 && dropped < FEW_LINES);
    while (read_some(&r))
        ;
    for (size_t i = 0; i < r.seen.len; ++i)
        whole += r.seen.p[i] == '\n';
    assert_int_equal(whole, FEW_LINES - dropped);
    assert_in_order(&r, 0, 0);
    reader_stop(&r);
}

static void a_failed_assertion_ends_the_process_although_its_reader_is_stuck(void **state)
{
    struct reader r;
    int status;

    (void)state;
    reader_start(&r, false, 0);
    for (unsigned i = 0; i < FEW_LINES; ++i)
        log_number(i);
    assert_true(dropped_now(&r) > 0);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        assert_failed("never", "file", 1, "function");
    }
    assert_int_equal(TEMP_FAILURE_RETRY(waitpid(pid, &status, 0)), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    reader_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_without_room_are_counted_and_reported_in_their_place),
        cmocka_unit_test(a_stuck_reader_of_a_socket_is_not_waited_for),
        cmocka_unit_test(without_a_thread_lines_without_room_are_dropped_too),
        cmocka_unit_test(a_stuck_reader_does_not_prevent_the_end_of_the_writer),
        cmocka_unit_test(a_failed_assertion_ends_the_process_although_its_reader_is_stuck),
    };

    return cmocka_run_group_tests_name("log_writer", tests, NULL, NULL);
}
