/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "common/event/line_writer.h"

enum {
    LINE_BYTES = 1000,
    LINES = 500, /* more than a pipe takes */
};

static void print(void *context, struct slice *records, struct text *lines)
{
    (void)context;
    text_add(lines, slice_cut(records, '\n'));
    text_add_char(lines, '\n');
}

static void a_stuck_reader_of_standard_output_does_not_hold_up_the_end(void **state)
{
    const struct line_writer_options o = {
        .file = "-", .nbuffers = 1, .print = print, .open_event = "a", .write_event = "b"};
    char line[LINE_BYTES];
    struct line_writer *w;
    int pair[2];

    (void)state;
    fflush(stdout);
    int old = dup(STDOUT_FILENO);
    assert_int_equal(pipe(pair), 0);
    assert_true(old >= 0 && dup2(pair[1], STDOUT_FILENO) >= 0);
    enum err e = line_writer_create(&o, &w);
    assert_true(dup2(old, STDOUT_FILENO) >= 0);
    assert_int_equal(e, ERR_OK);
    memset(line, 'x', sizeof(line));
    line[LINE_BYTES - 1] = '\n';
    for (size_t i = 0; i < LINES; ++i) {
        struct text *t = line_writer_begin(w, 0);

        assert_non_null(t);
        text_add(t, (struct slice){line, sizeof(line)});
        line_writer_end(w, 0);
    }
    assert_true(line_writer_destroy(w));
    /* What fits was written. */
    assert_int_equal(read(pair[0], line, sizeof(line)), sizeof(line));
    close(pair[0]);
    close(pair[1]);
    close(old);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stuck_reader_of_standard_output_does_not_hold_up_the_end),
    };

    return cmocka_run_group_tests_name("line_writer", tests, NULL, NULL);
}
