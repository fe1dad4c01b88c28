/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/backends/membership_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/base.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "tests/support/log_capture.h"

struct world {
    char state[64];               /* the directory of all state */
    char directory[80], file[96]; /* the application's, in it */
    char aside[100],
        nowhere[96]; /* FILE when it is set aside; a file where a directory should be */
    struct loop *loop;
};

static int setup(void **state)
{
    struct world *w = xcalloc(1, sizeof(*w));

    snprintf(w->state, sizeof(w->state), RLB_TEST_DIR "/rlb-drained-XXXXXX");
    assert_non_null(mkdtemp(w->state));
    snprintf(w->directory, sizeof(w->directory), "%s/shop", w->state);
    snprintf(w->file, sizeof(w->file), "%s/drained.json", w->directory);
    snprintf(w->aside, sizeof(w->aside), "%s.bad", w->file);
    snprintf(w->nowhere, sizeof(w->nowhere), "%s/nowhere", w->state);
    w->loop = loop_create(0);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    unlink(w->file);
    unlink(w->aside);
    unlink(w->nowhere);
    rmdir(w->directory);
    assert_int_equal(rmdir(w->state), 0);
    loop_destroy(w->loop);
    free(w);
    return 0;
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void put(const char *path, struct slice bytes)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes.p, 1, bytes.len, f), bytes.len);
    assert_int_equal(fclose(f), 0);
}

static void assert_says(const char *path, struct slice bytes)
{
    struct text text = {0};

    assert_int_equal(file_read(path, 4 << 20, &text), ERR_OK);
    assert_int_equal(text.len, bytes.len);
    assert_memory_equal(text.p, bytes.p, bytes.len);
    text_fini(&text);
}

/* {"v": 1, "drained": [...]} with the names FROM to TO - 1. */
static void add_file(struct text *out, int from, int to)
{
    text_add(out, SLICE_LIT("{\"v\":1,\"drained\":["));
    for (int i = from; i < to; ++i)
        text_addf(out, "%s\"10.0.0.1:%d\"", i == from ? "" : ",", i);
    text_add(out, SLICE_LIT("]}"));
}

/* Of as many names as MAX and MORE, the MORE oldest are forgotten, and no others. */
static void assert_forgotten(const struct drained_names *d, int more)
{
    for (int i = 0; i < DRAINED_NAMES_MAX + more; ++i) {
        char name[32];

        snprintf(name, sizeof(name), "10.0.0.1:%d", i);
        assert_int_equal(drained_names_has(d, name), i >= more);
    }
}

static void a_drained_worker_is_drained_in_the_next_process(void **state)
{
    struct world *w = *state;
    struct drained_names *d = drained_names_open(w->loop, w->state, "shop");

    assert_false(is_there(w->directory));
    drained_names_set(d, "10.0.0.1:80", true);
    drained_names_set(d, "unix:/run/a \"b\"", true);
    drained_names_set(d, "10.0.0.2:80", true);
    drained_names_set(d, "10.0.0.1:80", true);
    drained_names_set(d, "10.0.0.2:80", false);
    drained_names_set(d, "10.0.0.3:80", false);
    drained_names_close(d);

    d = drained_names_open(w->loop, w->state, "shop");
    assert_true(drained_names_has(d, "10.0.0.1:80"));
    assert_true(drained_names_has(d, "unix:/run/a \"b\""));
    assert_false(drained_names_has(d, "10.0.0.2:80"));
    assert_false(drained_names_has(d, "10.0.0.3:80"));
    struct drained_names *other = drained_names_open(w->loop, w->state, "blog");
    assert_false(drained_names_has(other, "10.0.0.1:80"));
    drained_names_close(other);
    /* Each was there once; without any there is no file. */
    drained_names_set(d, "10.0.0.1:80", false);
    assert_false(drained_names_has(d, "10.0.0.1:80"));
    assert_true(is_there(w->file));
    drained_names_set(d, "unix:/run/a \"b\"", false);
    assert_false(is_there(w->file));
    drained_names_close(d);
}

static void without_a_directory_it_is_so_in_this_process(void **state)
{
    struct world *w = *state;
    struct drained_names *d = drained_names_open(w->loop, NULL, "shop");

    drained_names_set(d, "10.0.0.1:80", true);
    assert_true(drained_names_has(d, "10.0.0.1:80"));
    drained_names_close(d);
    drained_names_close(NULL);
}

static void a_bad_file_is_set_aside_as_it_is(void **state)
{
    static const struct slice bad[] = {
        SLICE_LIT(""),
        SLICE_LIT("nonsense"),
        SLICE_LIT("[]"),
        SLICE_LIT("{\"v\":2,\"drained\":[]}"),
        SLICE_LIT("{\"v\":1}"),
        SLICE_LIT("{\"v\":1,\"drained\":\"10.0.0.1:80\"}"),
        SLICE_LIT("{\"v\":1,\"drained\":[\"10.0.0.1:80\",7]}"),
        SLICE_LIT("{\"v\":1,\"drained\":[\"10.0.0.1:80\"]"),
    };
    struct world *w = *state;

    assert_int_equal(mkdir(w->directory, 0770), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        put(w->file, bad[i]);
        struct drained_names *d = drained_names_open(w->loop, w->state, "shop");
        assert_false(drained_names_has(d, "10.0.0.1:80"));
        assert_false(is_there(w->file));
        assert_says(w->aside, bad[i]);
        unlink(w->aside);
        /* There is room for a good one. */
        drained_names_set(d, "10.0.0.2:80", true);
        assert_says(w->file, SLICE_LIT("{\"drained\":[\"10.0.0.2:80\"],\"v\":1}"));
        drained_names_close(d);
    }
}

static void a_file_beyond_any_of_ours_is_set_aside(void **state)
{
    struct world *w = *state;
    struct text bytes = {0};

    assert_int_equal(mkdir(w->directory, 0770), 0);
    add_file(&bytes, 0, 100000);
    put(w->file, text_slice(&bytes));
    struct drained_names *d = drained_names_open(w->loop, w->state, "shop");
    assert_false(drained_names_has(d, "10.0.0.1:99999"));
    assert_says(w->aside, text_slice(&bytes));
    text_fini(&bytes);
    drained_names_close(d);
}

static void the_oldest_name_is_dropped_above_the_limit_and_reported(void **state)
{
    struct world *w = *state;
    struct text bytes = {0};
    struct log_capture c;

    assert_int_equal(mkdir(w->directory, 0770), 0);
    add_file(&bytes, 0, DRAINED_NAMES_MAX);
    put(w->file, text_slice(&bytes));
    struct drained_names *d = drained_names_open(w->loop, w->state, "shop");
    assert_forgotten(d, 0);
    log_capture_start(&c);
    for (int i = 0; i < 3; ++i) {
        char name[32];

        snprintf(name, sizeof(name), "10.0.0.1:%d", DRAINED_NAMES_MAX + i);
        drained_names_set(d, name, true);
    }
    assert_non_null(strstr(log_capture_end(&c),
                           "drained-list-full application=shop worker=10.0.0.1:0 reason="));
    assert_forgotten(d, 3);
    /* Undraining a worker makes room for one; the file has no more entries either. */
    drained_names_set(d, "10.0.0.1:100", false);
    drained_names_set(d, "10.0.0.1:100", true);
    assert_forgotten(d, 3);
    drained_names_close(d);
    d = drained_names_open(w->loop, w->state, "shop");
    assert_forgotten(d, 3);
    drained_names_close(d);
    text_fini(&bytes);
}

static void the_oldest_of_too_many_names_in_a_file_are_dropped(void **state)
{
    struct world *w = *state;
    struct text bytes = {0};

    assert_int_equal(mkdir(w->directory, 0770), 0);
    add_file(&bytes, 0, DRAINED_NAMES_MAX + 5);
    put(w->file, text_slice(&bytes));
    struct drained_names *d = drained_names_open(w->loop, w->state, "shop");
    assert_forgotten(d, 5);
    drained_names_close(d);
    text_fini(&bytes);
}

static void the_longest_names_fit_the_file(void **state)
{
    enum { PATH_BYTES = 107 };
    struct world *w = *state;
    char name[8 + PATH_BYTES];
    struct text bytes = {0};

    assert_int_equal(mkdir(w->directory, 0770), 0);
    text_add(&bytes, SLICE_LIT("{\"v\":1,\"drained\":["));
    for (int i = 0; i < DRAINED_NAMES_MAX; ++i)
        text_addf(&bytes, "%s\"unix:/%0*d\"", i == 0 ? "" : ",", PATH_BYTES - 1, i);
    text_add(&bytes, SLICE_LIT("]}"));
    put(w->file, text_slice(&bytes));
    struct drained_names *d = drained_names_open(w->loop, w->state, "shop");
    snprintf(name, sizeof(name), "unix:/%0*d", PATH_BYTES - 1, 0);
    assert_true(drained_names_has(d, name));
    snprintf(name, sizeof(name), "unix:/%0*d", PATH_BYTES - 1, DRAINED_NAMES_MAX - 1);
    assert_true(drained_names_has(d, name));
    drained_names_close(d);
    text_fini(&bytes);
}

static void a_name_that_cannot_be_written_applies_and_is_written_later(void **state)
{
    struct world *w = *state;
    struct text page = {0};
    struct json_writer json = {.out = &page};
    struct log_capture c;

    put(w->nowhere, SLICE_LIT("a file"));
    struct drained_names *d = drained_names_open(w->loop, w->nowhere, "shop");
    log_capture_start(&c);
    drained_names_set(d, "10.0.0.1:80", true);
    drained_names_set(d, "10.0.0.2:80", true);
    const char *text = log_capture_end(&c);
    const char *line = strstr(text, "state-file-not-written file=");
    assert_non_null(line);
    assert_non_null(strstr(line, "/nowhere/shop/drained.json reason=\"Not a directory\""));
    /* Once, until it changes. */
    assert_null(strstr(line + 1, "state-file-not-written"));
    assert_true(drained_names_has(d, "10.0.0.1:80"));
    assert_string_equal(drained_names_unsaved(d), "Not a directory");
    assert_int_equal(state_files_unsaved(), 1);
    json_open_object(&json, NULL);
    state_files_describe(&json);
    json_close_object(&json);
    assert_non_null(strstr(text_cstr(&page), "/nowhere/shop/drained.json\",\"reason\":\"Not a "));
    text_fini(&page);

    /* The next attempt, some seconds later, finds directories. */
    assert_int_equal(unlink(w->nowhere), 0);
    assert_int_equal(mkdir(w->nowhere, 0770), 0);
    log_capture_start(&c);
    while (state_files_unsaved() != 0)
        loop_turn(w->loop, 1000);
    assert_non_null(strstr(log_capture_end(&c), "state-file-written file="));
    assert_null(drained_names_unsaved(d));
    drained_names_close(d);
    char inner[128], file[160];
    snprintf(inner, sizeof(inner), "%s/shop", w->nowhere);
    snprintf(file, sizeof(file), "%s/drained.json", inner);
    d = drained_names_open(w->loop, w->nowhere, "shop");
    assert_true(drained_names_has(d, "10.0.0.1:80") && drained_names_has(d, "10.0.0.2:80"));
    drained_names_close(d);
    assert_int_equal(unlink(file) | rmdir(inner) | rmdir(w->nowhere), 0);
}

static void a_repeated_request_and_the_end_write_what_is_not_saved(void **state)
{
    struct world *w = *state;

    put(w->directory, SLICE_LIT("a file"));
    struct drained_names *d = drained_names_open(w->loop, w->state, "shop");
    drained_names_set(d, "10.0.0.1:80", true);
    assert_non_null(drained_names_unsaved(d));
    assert_int_equal(unlink(w->directory), 0);
    drained_names_set(d, "10.0.0.1:80", true);
    assert_null(drained_names_unsaved(d));
    assert_true(is_there(w->file));

    assert_int_equal(unlink(w->file) | rmdir(w->directory), 0);
    put(w->directory, SLICE_LIT("a file"));
    drained_names_set(d, "10.0.0.2:80", true);
    assert_non_null(drained_names_unsaved(d));
    assert_int_equal(unlink(w->directory), 0);
    drained_names_close(d);
    assert_true(is_there(w->file));
    assert_int_equal(state_files_unsaved(), 0);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_drained_worker_is_drained_in_the_next_process),
        TEST(without_a_directory_it_is_so_in_this_process),
        TEST(a_bad_file_is_set_aside_as_it_is),
        TEST(a_file_beyond_any_of_ours_is_set_aside),
        TEST(the_oldest_name_is_dropped_above_the_limit_and_reported),
        TEST(the_oldest_of_too_many_names_in_a_file_are_dropped),
        TEST(the_longest_names_fit_the_file),
        TEST(a_name_that_cannot_be_written_applies_and_is_written_later),
        TEST(a_repeated_request_and_the_end_write_what_is_not_saved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
