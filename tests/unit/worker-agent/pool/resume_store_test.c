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

#include "common/base/clock.h"
#include "common/base/file.h"
#include "tests/support/wait_limit.h"
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

static void a_file_that_is_removed_last_is_gone(void **state)
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

static void await_unsaved(size_t n)
{
    uint64_t deadline_us = clock_mono_us() + WAIT_LIMIT_MS * UINT64_C(1000);

    while (state_files_unsaved() != n) {
        assert_true(clock_mono_us() < deadline_us);
        poll(NULL, 0, 1);
    }
}

/* A store with a state that cannot be written while the file BLOCKER is in its directory's place.
 */
struct blocked {
    struct resume_store *store;
    char *blocker, *path;
};

static struct blocked put_blocked(void)
{
    struct blocked b = {.store = resume_store_create()};

    b.blocker = xasprintf("%s/state", directory);
    b.path = xasprintf("%s/slot-0.json", b.blocker);
    FILE *f = fopen(b.blocker, "we");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    resume_store_put(b.store, b.path, SLICE_LIT("x\n"));
    await_unsaved(1);
    return b;
}

static void unblock(struct blocked *b, const char *written)
{
    struct text found = {0};

    assert_int_equal(unlink(b->blocker), 0);
    await_unsaved(0);
    assert_int_equal(file_read(b->path, 100, &found), ERR_OK);
    assert_string_equal(text_cstr(&found), written);
    resume_store_destroy(b->store);
    text_fini(&found);
    assert_int_equal(unlink(b->path) | rmdir(b->blocker), 0);
    free(b->path);
    free(b->blocker);
}

static void a_file_that_cannot_be_written_is_listed_and_written_later(void **state)
{
    struct blocked b = put_blocked();

    (void)state;
    unblock(&b, "x\n");
}

static void the_newest_of_the_files_that_cannot_be_written_is_written(void **state)
{
    struct blocked b = put_blocked();

    (void)state;
    resume_store_put(b.store, b.path, SLICE_LIT("y\n"));
    unblock(&b, "y\n");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_newest_of_many_is_there_in_the_end),
        TEST(a_file_that_is_removed_last_is_gone),
        TEST(a_directory_that_is_not_there_is_no_end_of_it),
        TEST(a_file_that_cannot_be_written_is_listed_and_written_later),
        TEST(the_newest_of_the_files_that_cannot_be_written_is_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
