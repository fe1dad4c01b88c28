/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/access/access_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/json.h"
#include "common/base/text.h"

enum { LOOPS = 3 };

struct fixture {
    char directory[40], file[60], moved[60];
    struct access_log *log;
    struct text read;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    strcpy(f->directory, RLB_TEST_DIR "/access-log-XXXXXX");
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

static struct access_options all_in(enum access_format format)
{
    return (struct access_options){.format = format, .fields = ACCESS_ALL_FIELDS, .sample = 1};
}

static void start(struct fixture *f, enum access_format format)
{
    struct access_options o = all_in(format);

    assert_int_equal(access_log_create(f->file, &o, LOOPS, &f->log), ERR_OK);
}

static struct access_counts counts(const struct fixture *f)
{
    struct access_counts c;

    access_log_count(f->log, &c);
    return c;
}

/* All that is in FILE once the log has stopped. */
static const char *stop_and_read(struct fixture *f, const char *file)
{
    char buffer[4096];
    ssize_t n;

    access_log_destroy(f->log);
    f->log = NULL;
    text_clear(&f->read);
    int fd = open(file, O_RDONLY);

    assert_true(fd >= 0);
    while ((n = read(fd, buffer, sizeof(buffer))) > 0)
        text_add(&f->read, (struct slice){buffer, (size_t)n});
    close(fd);
    return text_cstr(&f->read);
}

static struct access_entry entry(void)
{
    return (struct access_entry){
        .fixed.wall_ms = 1795224806123,
        .client = SLICE_LIT("192.0.2.7"),
        .method = SLICE_LIT("GET"),
        .target = SLICE_LIT("/x?y"),
        .fixed.protocol = "HTTP/1.1",
        .fixed.status = 200,
        .fixed.sent_bytes = 12,
        .agent = SLICE_LIT("t/1"),
        .host = SLICE_LIT("a.example"),
        .fixed.application = "shop",
        .cls = SLICE_LIT("a.example"),
        .worker = SLICE_LIT("127.0.0.1:9000"),
        .fixed.reason = "skilled",
        .fixed.backlog = 3,
        .fixed.tries = 1,
        .fixed.service_us = 1500,
        .fixed.deliver_us = 70,
        .fixed.total_us = 1600,
        .fixed.outcome = "responded",
        .request_id = SLICE_LIT("id"),
    };
}

static void a_line_is_combined_with_our_figures_behind(void **state)
{
    struct fixture *f = *state;
    struct access_entry e = entry();

    start(f, ACCESS_COMBINED);
    access_log_add(f->log, 1, &e);
    assert_string_equal(
        stop_and_read(f, f->file),
        "192.0.2.7 - - [21/Nov/2026:01:33:26 +0000] \"GET /x?y HTTP/1.1\" 200 12 \"-\" \"t/1\" "
        "host=\"a.example\" application=\"shop\" class=\"a.example\" "
        "worker=\"127.0.0.1:9000\" reason=\"skilled\" backlog=3 tries=1 received_bytes=0 "
        "limit_wait_us=0 worker_wait_us=0 connection_wait_us=0 first_byte_us=0 service_us=1500 "
        "deliver_us=70 total_us=1600 outcome=\"responded\" request_id=\"id\" "
        "trace_id=\"\" span_id=\"\"\n");
}

static void hostile_bytes_can_neither_end_a_line_nor_a_field(void **state)
{
    struct fixture *f = *state;
    struct access_entry e = entry();

    e.target = SLICE_LIT("/\"\n\\\x80");
    e.agent = SLICE_LIT("a\" 200 1 \"b");
    start(f, ACCESS_COMBINED);
    access_log_add(f->log, 0, &e);
    const char *line = stop_and_read(f, f->file);

    assert_non_null(strstr(line, "\"GET /\\x22\\x0a\\x5c\\x80 HTTP/1.1\""));
    assert_non_null(strstr(line, "\"a\\x22 200 1 \\x22b\" host="));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

static void a_field_is_cut_when_it_is_endless(void **state)
{
    struct fixture *f = *state;
    struct access_entry e = entry();
    char *target = malloc(100000);

    memset(target, 'x', 100000);
    e.target = (struct slice){target, 100000};
    start(f, ACCESS_COMBINED);
    access_log_add(f->log, 0, &e);
    assert_in_range(strlen(stop_and_read(f, f->file)), 4096, 5000);
    free(target);
}

static void a_json_line_is_json_whatever_it_states(void **state)
{
    struct fixture *f = *state;
    struct access_entry e = entry();
    json_t *v = NULL;

    e.target = SLICE_LIT("/\"\n\xff");
    start(f, ACCESS_JSON);
    access_log_add(f->log, 0, &e);
    const char *line = stop_and_read(f, f->file);

    assert_int_equal(json_parse((struct slice){line, strlen(line) - 1}, 1 << 20, &v, NULL), ERR_OK);
    assert_true(slice_is(json_text(v, "time"), "2026-11-21T01:33:26.123Z"));
    assert_true(slice_is(json_text(v, "worker"), "127.0.0.1:9000"));
    assert_int_equal(json_integer_value(json_object_get(v, "total_us")), 1600);
    json_decref(v);
}

static void reopening_continues_in_a_new_file(void **state)
{
    struct fixture *f = *state;
    struct access_entry e = entry();

    start(f, ACCESS_COMBINED);
    access_log_add(f->log, 0, &e);
    assert_int_equal(rename(f->file, f->moved), 0);
    access_log_reopen(f->log);
    while (access(f->file, F_OK) != 0)
        sched_yield();
    e.client = SLICE_LIT("198.51.100.1");
    access_log_add(f->log, 0, &e);
    assert_memory_equal(stop_and_read(f, f->file), "198.51.100.1 ", 13);
    struct fixture old = *f;

    old.read = (struct text){0};
    assert_memory_equal(stop_and_read(&old, f->moved), "192.0.2.7 ", 10);
    text_fini(&old.read);
}

static void a_file_that_cannot_be_written_costs_lines_and_counts_them(void **state)
{
    struct fixture *f = *state;
    struct access_entry e = entry();

    struct access_options o = all_in(ACCESS_COMBINED);

    assert_int_equal(access_log_create("/dev/full", &o, LOOPS, &f->log), ERR_OK);
    for (unsigned i = 0; i < LOOPS; ++i)
        access_log_add(f->log, i, &e);
    while (counts(f).dropped != LOOPS)
        sched_yield();
    assert_int_equal(counts(f).written, 0);
    access_log_destroy(f->log);
    assert_int_equal(access_log_create("/nowhere/log", &o, 1, &f->log), ERR_SYSTEM);
}

static void only_the_fields_that_are_asked_for_are_written(void **state)
{
    struct fixture *f = *state;
    struct access_entry e = entry();
    struct access_options o = all_in(ACCESS_COMBINED);

    start(f, ACCESS_COMBINED);
    o.fields = (uint64_t)1 << access_field_find(SLICE_LIT("class")) |
               (uint64_t)1 << access_field_find(SLICE_LIT("total_us")) |
               (uint64_t)1 << access_field_find(SLICE_LIT("status"));
    access_log_set(f->log, &o);
    access_log_add(f->log, 0, &e);
    while (counts(f).written != 1)
        sched_yield();
    o.format = ACCESS_JSON;
    access_log_set(f->log, &o);
    access_log_add(f->log, 0, &e);
    assert_string_equal(
        stop_and_read(f, f->file),
        "192.0.2.7 - - [21/Nov/2026:01:33:26 +0000] \"GET /x?y HTTP/1.1\" 200 12 \"-\" \"t/1\" "
        "class=\"a.example\" total_us=1600\n"
        "{\"time\":\"2026-11-21T01:33:26.123Z\",\"status\":200,\"class\":\"a.example\","
        "\"total_us\":1600}\n");
}

/* ---- what strangers have written ---- */

static struct access_entry entry_of(struct slice each)
{
    struct access_entry e = {.fixed.protocol = "HTTP/1.1",
                             .fixed.application = "a",
                             .fixed.reason = "",
                             .fixed.outcome = "ok"};
    struct slice *texts = &e.client;

    for (size_t i = 0; i < ACCESS_TEXTS; ++i)
        texts[i] = each;
#define NUMBER(name, key, doc) e.fixed.name = UINT64_MAX;
#include "lb/access/access_field.def"
    return e;
}

static size_t count(struct slice s, const char *of)
{
    size_t n = 0;

    for (size_t i = 0; i + strlen(of) <= s.len; ++i)
        n += memcmp(s.p + i, of, strlen(of)) == 0;
    return n;
}

/* The line of E with FIELDS. */
static const char *line_of(struct fixture *f, const struct access_entry *e, uint64_t fields)
{
    struct access_options o = {.format = ACCESS_COMBINED, .fields = fields, .sample = 1};

    assert_int_equal(access_log_create(f->file, &o, LOOPS, &f->log), ERR_OK);
    access_log_add(f->log, 0, e);
    return stop_and_read(f, f->file);
}

static void the_longest_line_that_there_can_be_is_written_whole(void **state)
{
    struct fixture *f = *state;
    char *bytes = xmalloc(ACCESS_TEXT_MAX);

    memset(bytes, 1, ACCESS_TEXT_MAX);
    struct access_entry e = entry_of((struct slice){bytes, ACCESS_TEXT_MAX});
    const char *line = line_of(f, &e, ACCESS_ALL_FIELDS);
    assert_int_equal(count(slice_of(line), "\\x01"), (size_t)ACCESS_TEXTS * ACCESS_TEXT_MAX);
    assert_int_equal(line[strlen(line) - 1], '\n');
    free(bytes);
}

static void an_absent_value_is_a_dash_in_the_combined_part_and_empty_behind_it(void **state)
{
    struct fixture *f = *state;

    struct access_entry e = entry_of(SLICE_NULL);
    e.fixed.status = 200;
    e.fixed.sent_bytes = 7;
    assert_string_equal(line_of(f, &e, (uint64_t)1 << ACCESS_FIELD_host),
                        " - - [01/Jan/1970:00:00:00 +0000] \"-\" 200 7 "
                        "\"-\" \"-\" host=\"\"\n");
}

static void bytes_that_would_end_a_text_or_a_line_are_escaped(void **state)
{
    struct fixture *f = *state;

    struct access_entry e = entry_of(SLICE_LIT("a\"b\\c\nd\x7f\xff"));
    const char *line = line_of(f, &e, (uint64_t)1 << ACCESS_FIELD_host);
    assert_int_equal(count(slice_of(line), "a\\x22b\\x5cc\\x0ad\\x7f\\xff"), 6);
    assert_int_equal(count(slice_of(line), "\n"), 1);
}

static void each_field_is_found_by_its_name_and_no_other(void **state)
{
    static const char *const names[] = {
#define TEXT(name, key, doc) key,
#define WORD(name, key, doc) key,
#define NUMBER(name, key, doc) key,
#include "lb/access/access_field.def"
    };

    (void)state;
    for (int i = 0; i < ACCESS_FIELDS; ++i)
        assert_int_equal(access_field_find(slice_of(names[i])), i);
    assert_int_equal(access_field_find(SLICE_LIT("cls")), ACCESS_FIELDS);
    assert_int_equal(access_field_find(SLICE_LIT("")), ACCESS_FIELDS);
}

enum { ASKED = 100000 };

static void a_sample_is_about_as_large_as_asked_and_has_every_error(void **state)
{
    struct fixture *f = *state;
    struct access_options o = all_in(ACCESS_COMBINED);
    int wanted = 0;
    int errors = 0;

    start(f, ACCESS_COMBINED);
    o.sample = 0.1;
    o.keep_errors = true;
    access_log_set(f->log, &o);
    for (int i = 0; i < ASKED; ++i) {
        wanted += access_log_wants(f->log, 1, false);
        errors += access_log_wants(f->log, 1, true);
    }
    assert_int_equal(errors, ASKED);
    /* Ten standard deviations: the numbers are the same in each run anyway. */
    assert_in_range(wanted, ASKED / 10 - 950, ASKED / 10 + 950);
    assert_int_equal(counts(f).left_out, ASKED - wanted);
    o.keep_errors = false;
    o.sample = 0;
    access_log_set(f->log, &o);
    assert_false(access_log_wants(f->log, 1, true));
    o.sample = 1;
    access_log_set(f->log, &o);
    assert_true(access_log_wants(f->log, 1, false));
    stop_and_read(f, f->file);
}

static void a_reader_that_takes_nothing_holds_no_other_up_and_costs_lines(void **state)
{
    struct fixture *f = *state;
    struct access_options o = all_in(ACCESS_COMBINED);
    struct access_entry e = entry();
    size_t added = 0;

    assert_int_equal(mkfifo(f->file, 0600), 0);
    /* A FIFO without a reader: the start fails instead of blocking. */
    assert_int_equal(access_log_create(f->file, &o, LOOPS, &f->log), ERR_SYSTEM);
    int reader = open(f->file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    assert_true(reader >= 0);
    assert_int_equal(access_log_create(f->file, &o, LOOPS, &f->log), ERR_OK);
    /* More than a buffer holds, and never a wait: else this would not end. */
    while (counts(f).dropped == 0) {
        access_log_add(f->log, 0, &e);
        ++added;
    }
    assert_in_range(added, (4 << 20) / 1024, (4 << 20) / 64 * 4);
    access_log_destroy(f->log);
    close(reader);
}

enum { LINES = 5000 };

static void *write_lines(void *arg)
{
    struct fixture *f = ((void **)arg)[0];
    unsigned loop = *(unsigned *)((void **)arg)[1];
    struct access_entry e = entry();

    for (int i = 0; i < LINES; ++i)
        access_log_add(f->log, loop, &e);
    return NULL;
}

static void lines_of_several_loops_stay_whole(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[LOOPS];
    unsigned loops[LOOPS];
    void *args[LOOPS][2];
    size_t lines = 0;
    size_t line_bytes = 0;

    start(f, ACCESS_COMBINED);
    for (unsigned i = 0; i < LOOPS; ++i) {
        loops[i] = i;
        args[i][0] = f;
        args[i][1] = &loops[i];
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, args[i]), 0);
    }
    for (unsigned i = 0; i < LOOPS; ++i)
        pthread_join(threads[i], NULL);
    uint64_t dropped = counts(f).dropped;
    struct slice rest = slice_of(stop_and_read(f, f->file));

    while (rest.len != 0) {
        struct slice line = slice_cut(&rest, '\n');

        line_bytes = line_bytes == 0 ? line.len : line_bytes;
        assert_int_equal(line.len, line_bytes);
        ++lines;
    }
    assert_int_equal(lines + dropped, LOOPS * LINES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_line_is_combined_with_our_figures_behind),
        TEST(hostile_bytes_can_neither_end_a_line_nor_a_field),
        TEST(a_field_is_cut_when_it_is_endless),
        TEST(a_json_line_is_json_whatever_it_states),
        TEST(reopening_continues_in_a_new_file),
        TEST(a_file_that_cannot_be_written_costs_lines_and_counts_them),
        TEST(only_the_fields_that_are_asked_for_are_written),
        TEST(the_longest_line_that_there_can_be_is_written_whole),
        TEST(an_absent_value_is_a_dash_in_the_combined_part_and_empty_behind_it),
        TEST(bytes_that_would_end_a_text_or_a_line_are_escaped),
        TEST(each_field_is_found_by_its_name_and_no_other),
        TEST(a_sample_is_about_as_large_as_asked_and_has_every_error),
        TEST(a_reader_that_takes_nothing_holds_no_other_up_and_costs_lines),
        TEST(lines_of_several_loops_stay_whole),
    };

    return cmocka_run_group_tests_name("access_log", tests, NULL, NULL);
}
