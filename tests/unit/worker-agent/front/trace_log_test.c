/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/front/trace_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/trace_line.h"

struct fixture {
    char directory[40], file[60], moved[60];
    struct trace_log *log;
    struct text read;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    strcpy(f->directory, RLB_TEST_DIR "/trace-log-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    snprintf(f->file, sizeof(f->file), "%s/log", f->directory);
    snprintf(f->moved, sizeof(f->moved), "%s/log.1", f->directory);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    unlink(f->file);
    unlink(f->moved);
    rmdir(f->directory);
    text_fini(&f->read);
    free(f);
    return 0;
}

static void start(struct fixture *f)
{
    assert_int_equal(trace_log_create(f->file, &f->log), ERR_OK);
}

static void read_file(struct fixture *f, const char *file)
{
    char buffer[4096];
    ssize_t n;
    int fd = open(file, O_RDONLY);

    assert_true(fd >= 0);
    while ((n = read(fd, buffer, sizeof(buffer))) > 0)
        text_add(&f->read, (struct slice){buffer, (size_t)n});
    close(fd);
}

/* The next record of what was read; each line has to be one. */
static struct trace_line take(struct slice *rest)
{
    struct trace_line l;
    const char *why = trace_line_parse(slice_cut(rest, '\n'), &l);

    if (why != NULL)
        fail_msg("%s", why);
    return l;
}

static void stages_are_written_in_order(void **state)
{
    struct fixture *f = *state;
    struct trace_request r;
    struct trace_line l;

    start(f);
    trace_log_mark(f->log, 'S', NULL);
    trace_request_begin(&r, f->log, SLICE_LIT("POST"), SLICE_LIT("/a\n"), 7);
    trace_request_activated(&r);
    trace_request_activated(&r);
    trace_request_responded(&r, 201, UINT64_MAX);
    trace_request_ended(&r);
    trace_request_ended(&r);
    trace_request_failed(&r, "resumelb.gone", SLICE_LIT("late"));
    trace_log_mark(f->log, 'X', NULL);
    trace_log_destroy(f->log);
    read_file(f, f->file);
    struct slice rest = text_slice(&f->read);

    assert_int_equal(take(&rest).stage, 'S');
    l = take(&rest);
    assert_int_equal(l.stage, 'B');
    assert_true(slice_is(l.method, "POST"));
    assert_true(slice_is(l.path, "/a\\x0a"));
    l = take(&rest);
    assert_int_equal(l.stage, 'I');
    assert_true(l.bytes == 7);
    assert_int_equal(take(&rest).stage, 'C');
    assert_true(slice_is(take(&rest).name, "resumelb.again"));
    l = take(&rest);
    assert_int_equal(l.status, 201);
    assert_true(l.bytes == TRACE_LINE_UNKNOWN);
    assert_int_equal(take(&rest).stage, 'E');
    l = take(&rest);
    assert_int_equal(l.stage, 'X');
    assert_true(slice_is(l.id, "0"));
    assert_int_equal(rest.len, 0);
}

static void without_a_log_nothing_happens(void **state)
{
    (void)state;
    struct trace_request r;
    uint64_t written;
    uint64_t dropped;

    trace_log_mark(NULL, 'S', NULL);
    trace_request_begin(&r, NULL, SLICE_LIT("GET"), SLICE_LIT("/"), 0);
    trace_request_activated(&r);
    trace_request_failed(&r, "resumelb.gone", SLICE_NULL);
    trace_log_reopen(NULL);
    trace_log_count(NULL, &written, &dropped);
    assert_int_equal(written + dropped, 0);
    trace_log_destroy(NULL);
}

static void a_file_that_cannot_be_opened_is_rejected(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(trace_log_create("/nowhere/at/all", &f->log), ERR_SYSTEM);
}

struct rotation {
    struct fixture *f;
    int turns;
};

static void *rotate(void *arg)
{
    const struct rotation *r = arg;

    for (int i = 0; i < r->turns; ++i)
        trace_log_reopen(r->f->log);
    return NULL;
}

static void a_rotation_in_between_loses_nothing(void **state)
{
    struct fixture *f = *state;
    struct rotation turns = {f, 200};
    struct trace_request r;
    pthread_t other;
    enum { REQUESTS = 5000 };
    size_t records = 0;

    start(f);
    assert_int_equal(pthread_create(&other, NULL, rotate, &turns), 0);
    for (int i = 0; i < REQUESTS; ++i) {
        if (i == REQUESTS / 2) {
            assert_int_equal(rename(f->file, f->moved), 0);
            trace_log_reopen(f->log);
        }
        trace_request_begin(&r, f->log, SLICE_LIT("GET"), SLICE_LIT("/"), 0);
        trace_request_ended(&r);
    }
    pthread_join(other, NULL);
    trace_log_destroy(f->log);
    read_file(f, f->moved);
    read_file(f, f->file);
    struct slice rest = text_slice(&f->read);

    for (; rest.len != 0; ++records)
        (void)take(&rest);
    assert_int_equal(records, 3 * REQUESTS);
}

static void lines_without_a_reader_are_dropped_and_counted(void **state)
{
    struct fixture *f = *state;
    struct trace_request r;
    uint64_t written;
    uint64_t dropped = 0;

    assert_int_equal(mkfifo(f->file, 0600), 0);
    int reader = open(f->file, O_RDONLY | O_NONBLOCK);

    assert_true(reader >= 0);
    start(f);
    /* Bounded: the buffers and the FIFO hold less. */
    for (int i = 0; i < 2000000 && dropped == 0; ++i) {
        trace_request_begin(&r, f->log, SLICE_LIT("GET"), SLICE_LIT("/"), 0);
        trace_log_count(f->log, &written, &dropped);
    }
    assert_true(dropped > 0);
    trace_log_destroy(f->log);
    close(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stages_are_written_in_order, setup, teardown),
        cmocka_unit_test(without_a_log_nothing_happens),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_opened_is_rejected, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rotation_in_between_loses_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(lines_without_a_reader_are_dropped_and_counted, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
