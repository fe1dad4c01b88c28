/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <unistd.h>

#include "common/base/json.h"
#include "tests/support/raw_peer.h"
#include "worker-agent/process/process_output.h"

struct fixture {
    struct loop *loop;
    struct process_output output;
    int process; /* the end that the process has */
};

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    f->loop = loop_create(0);
    f->process = ends[1];
    /* A reader that reads too little must not block the test. */
    assert_int_equal(fcntl(f->process, F_SETFL, O_NONBLOCK), 0);
    process_output_start(&f->output, f->loop, ends[0], NULL, NULL);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    process_output_stop(&f->output);
    last_lines_fini(&f->output.last);
    close(f->process);
    loop_destroy(f->loop);
    free(f);
    return 0;
}

static void writes(struct fixture *f, const char *bytes, size_t n)
{
    assert_int_equal(write(f->process, bytes, n), (ssize_t)n);
}

static void says(struct fixture *f, const char *text)
{
    writes(f, text, strlen(text));
}

static void assert_line(const struct last_lines *l, size_t i, const char *expected)
{
    struct text t = {0};

    last_lines_show(l, i, &t);
    assert_string_equal(text_cstr(&t), expected);
    text_fini(&t);
}

static void last_lines_are_those_written_so_far(void **state)
{
    struct fixture *f = *state;
    const struct last_lines *l;

    says(f, "one\n\n  two\r\nthr");
    l = process_output_last(&f->output);
    assert_int_equal(l->n, 2);
    assert_line(l, 0, "one");
    assert_line(l, 1, "  two");
    says(f, "ee\n");
    assert_line(process_output_last(&f->output), 2, "three");
}

static void last_lines_outlive_the_process(void **state)
{
    struct fixture *f = *state;
    const struct last_lines *l;

    says(f, "Traceback\n  no line end");
    close(f->process);
    process_output_stop(&f->output);
    f->process = -1;
    l = process_output_last(&f->output);
    assert_int_equal(l->n, 2);
    assert_line(l, 1, "  no line end");
}

static void the_oldest_line_gives_way(void **state)
{
    struct fixture *f = *state;
    const struct last_lines *l;
    char line[32];

    for (int i = 0; i < 3 * LAST_LINES_MAX + 5; ++i) {
        snprintf(line, sizeof(line), "line %d\n", i);
        says(f, line);
    }
    l = process_output_last(&f->output);
    assert_int_equal(l->n, LAST_LINES_MAX);
    snprintf(line, sizeof(line), "line %d", 2 * LAST_LINES_MAX + 5);
    assert_line(l, 0, line);
    snprintf(line, sizeof(line), "line %d", 3 * LAST_LINES_MAX + 4);
    assert_line(l, LAST_LINES_MAX - 1, line);
}

static void more_lines_than_the_log_takes_are_kept_all_the_same(void **state)
{
    struct fixture *f = *state;
    struct text many = {0};

    for (int i = 0; i < OUTPUT_LINES_PER_S + 100; ++i)
        text_addf(&many, "%d\n", i);
    writes(f, many.p, many.len);
    loop_turn(f->loop, 0); /* all in one turn: its time does not change */
    assert_int_equal(f->output.dropped, 100);
    const struct last_lines *l = process_output_last(&f->output);
    text_clear(&many);
    text_addf(&many, "%d", OUTPUT_LINES_PER_S + 99);
    assert_line(l, l->n - 1, text_cstr(&many));
    text_fini(&many);
}

static void a_line_without_end_is_one_line_cut(void **state)
{
    struct fixture *f = *state;
    const struct last_lines *l;
    char piece[4096];

    says(f, "before\n");
    memset(piece, 'x', sizeof(piece));
    for (int i = 0; i < 256; ++i) {
        writes(f, piece, sizeof(piece));
        (void)process_output_last(&f->output);
    }
    says(f, "\nafter\n");
    l = process_output_last(&f->output);
    assert_int_equal(l->n, 3);
    assert_line(l, 0, "before");
    assert_int_equal(l->at[1].len, LAST_LINE_BYTES_MAX);
    assert_true(l->at[1].cut);
    assert_line(l, 2, "after");
    assert_false(l->at[2].cut);
}

static void hostile_bytes_are_shown_harmless(void **state)
{
    struct fixture *f = *state;

    writes(f, "\x1b]0;owned\x07<script>\0\xff\n", 22);
    const struct last_lines *l = process_output_last(&f->output);
    assert_int_equal(l->n, 1);
    assert_line(l, 0, "\\x1b]0;owned\\x07<script>\\x00\\xff");
}

/* ---- failures ---- */

static json_t *described(const struct failure *x, uint64_t now_ms)
{
    struct text t = {0};
    struct json_writer w = {.out = &t};
    json_t *all;

    json_open_object(&w, NULL);
    failure_describe(x, "last_failure", now_ms, &w);
    json_close_object(&w);
    assert_int_equal(json_parse(text_slice(&t), t.len, &all, NULL), ERR_OK);
    text_fini(&t);
    return all;
}

static void a_failure_keeps_what_the_process_reported(void **state)
{
    struct fixture *f = *state;
    struct failure *x = NULL;
    const struct failure what = {.kind = FAILURE_DIED_STARTING,
                                 .slot = 2,
                                 .pid = 77,
                                 .id = "abc",
                                 .how = "exit status 3\x1b",
                                 .at_ms = 1000};
    struct text t = {0};

    says(f, "ImportError: <shop>\n");
    failure_record(&x, &what, process_output_last(&f->output));
    failure_add_summary(x, &t);
    assert_string_equal(text_cstr(&t),
                        "slot 2: process 77 (abc) died before it was ready: exit status 3\\x1b");
    json_t *page = described(x, 3500);
    const json_t *o = json_object_get(page, "last_failure");
    assert_true(json_real_value(json_object_get(o, "ago_s")) == 2.5);
    assert_int_equal(json_array_size(json_object_get(o, "lines")), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(o, "lines"), 0)),
                        "ImportError: <shop>");
    json_decref(page);
    text_fini(&t);
    failure_destroy(x);
}

static void the_newest_failure_of_a_slot_takes_the_place_of_the_last(void **state)
{
    struct last_lines lines = {0};
    struct failure *x = NULL;

    (void)state;
    last_lines_add(&lines, SLICE_LIT("out of memory"));
    failure_record(&x, &(struct failure){.slot = 1, .pid = 1, .at_ms = 1}, &lines);
    assert_int_equal(x->lines.n, 1);
    failure_record(&x, &(struct failure){.slot = 1, .pid = 3, .at_ms = 3}, NULL);
    assert_int_equal(x->pid, 3);
    assert_int_equal(x->lines.n, 0);
    failure_destroy(x);
    last_lines_fini(&lines);
    json_t *page = described(NULL, 0);
    assert_true(json_is_null(json_object_get(page, "last_failure")));
    json_decref(page);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(last_lines_are_those_written_so_far),
        TEST(last_lines_outlive_the_process),
        TEST(the_oldest_line_gives_way),
        TEST(more_lines_than_the_log_takes_are_kept_all_the_same),
        TEST(a_line_without_end_is_one_line_cut),
        TEST(hostile_bytes_are_shown_harmless),
        TEST(a_failure_keeps_what_the_process_reported),
        TEST(the_newest_failure_of_a_slot_takes_the_place_of_the_last),
    };

    return cmocka_run_group_tests_name("process output", tests, NULL, NULL);
}
