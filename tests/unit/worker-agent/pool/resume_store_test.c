/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"
#include "worker-agent/pool/resume_store.h"

static char directory[64];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), RLB_TEST_DIR "/rlb-store-XXXXXX");
    return mkdtemp(directory) != NULL ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

static void the_newest_of_many_is_there_in_the_end(void **state)
{
    struct resume_store *s = resume_store_create();
    char *path = xasprintf("%s/slot-0.json", directory);
    struct text found = {0};
    char bytes[20];

    (void)state;
    for (int i = 0; i <= 500; ++i) {
        snprintf(bytes, sizeof(bytes), "%d\n", i);
        resume_store_put(s, path, slice_of(bytes));
    }
    resume_store_destroy(s);
    assert_int_equal(file_read(path, 100, &found), ERR_OK);
    assert_string_equal(text_cstr(&found), "500\n");
    text_fini(&found);
    assert_int_equal(unlink(path), 0);
    free(path);
}

static void what_is_removed_last_is_gone(void **state)
{
    struct resume_store *s = resume_store_create();
    char *path = xasprintf("%s/slot-0.json", directory);

    (void)state;
    resume_store_put(s, path, SLICE_LIT("x\n"));
    resume_store_put(s, path, SLICE_NULL);
    resume_store_destroy(s);
    assert_int_not_equal(access(path, F_OK), 0);
    free(path);
}

static void a_directory_that_is_not_there_is_no_end_of_it(void **state)
{
    struct resume_store *s = resume_store_create();
    char *path = xasprintf("%s/slot-0.json", directory);

    (void)state;
    resume_store_put(s, "/nonexistent/directory/x", SLICE_LIT("x\n"));
    resume_store_put(s, path, SLICE_LIT("y\n"));
    resume_store_destroy(s);
    assert_int_equal(unlink(path), 0);
    free(path);
}

static void what_cannot_be_written_is_listed_and_written_when_it_can_be(void **state)
{
    struct resume_store *s = resume_store_create();
    char *file = xasprintf("%s/state", directory);
    char *path = xasprintf("%s/slot-0.json", file);
    struct text found = {0};
    FILE *f = fopen(file, "we");

    (void)state;
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    resume_store_put(s, path, SLICE_LIT("x\n"));
    while (state_files_unsaved() == 0)
        poll(NULL, 0, 1);
    /* The newest one is written, although the older one was the one that failed. */
    resume_store_put(s, path, SLICE_LIT("y\n"));
    assert_int_equal(unlink(file), 0);
    while (state_files_unsaved() != 0)
        poll(NULL, 0, 1);
    assert_int_equal(file_read(path, 100, &found), ERR_OK);
    assert_string_equal(text_cstr(&found), "y\n");
    resume_store_destroy(s);
    text_fini(&found);
    assert_int_equal(unlink(path) | rmdir(file), 0);
    free(path);
    free(file);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_newest_of_many_is_there_in_the_end),
        TEST(what_is_removed_last_is_gone),
        TEST(a_directory_that_is_not_there_is_no_end_of_it),
        TEST(what_cannot_be_written_is_listed_and_written_when_it_can_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
