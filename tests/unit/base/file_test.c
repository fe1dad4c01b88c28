/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/file.h"
#include "tests/support/log_capture.h"

struct temp_directory {
    char path[64];
    char *file;
    char *bad;
};

static int make_directory(void **state)
{
    struct temp_directory *f = xcalloc(1, sizeof(*f));

    snprintf(f->path, sizeof(f->path), RLB_TEST_DIR "/file_test.XXXXXX");
    if (mkdtemp(f->path) == NULL)
        return -1;
    f->file = xasprintf("%s/kept", f->path);
    f->bad = xasprintf("%s/kept.bad", f->path);
    *state = f;
    return 0;
}

static int drop_directory(void **state)
{
    struct temp_directory *f = *state;

    unlink(f->file);
    unlink(f->bad);
    /* Fails when anything else was left behind. */
    int result = rmdir(f->path);
    free(f->file);
    free(f->bad);
    free(f);
    return result;
}

static void a_written_file_is_read_back(void **state)
{
    struct temp_directory *f = *state;
    struct text t = {0};

    text_add(&t, SLICE_LIT("before "));
    assert_int_equal(file_write(f->file, (struct slice){"a\0b", 3}, 0640), ERR_OK);
    assert_int_equal(file_read(f->file, 3, &t), ERR_OK);
    assert_true(slice_eq(text_slice(&t), (struct slice){"before a\0b", 10}));
    assert_int_equal(file_write(f->file, SLICE_NULL, 0640), ERR_OK);
    text_clear(&t);
    assert_int_equal(file_read(f->file, 0, &t), ERR_OK);
    assert_int_equal(t.len, 0);
    text_fini(&t);
}

static void a_file_over_the_bound_is_rejected(void **state)
{
    struct temp_directory *f = *state;
    struct text t = {0};
    struct text big = {0};

    memset(text_reserve(&big, 200000), 'x', 200000);
    big.len = 200000;
    text_add_char(&t, '!');
    assert_int_equal(file_write(f->file, text_slice(&big), 0640), ERR_OK);
    assert_int_equal(file_read(f->file, 199999, &t), ERR_TOO_LARGE);
    assert_int_equal(t.len, 1);
    assert_int_equal(file_read(f->file, 200000, &t), ERR_OK);
    assert_int_equal(t.len, 200001);
    text_fini(&t);
    text_fini(&big);
}

static void a_missing_file_is_no_system_error(void **state)
{
    struct temp_directory *f = *state;
    struct text t = {0};

    assert_int_equal(file_read(f->file, 10, &t), ERR_NOT_FOUND);
    assert_int_equal(file_read(f->path, 10, &t), ERR_SYSTEM);
    assert_int_equal(errno, EISDIR);
    text_fini(&t);
}

static void an_output_replaces_regular_files_only(void **state)
{
    struct temp_directory *f = *state;
    struct text out = {0};
    struct stat st;
    char got[8];

    /* A new file, and a regular one, which is another one then. */
    assert_int_equal(file_write_output(f->file, SLICE_LIT("first one"), 0640), ERR_OK);
    assert_int_equal(lstat(f->file, &st), 0);
    ino_t before = st.st_ino;
    assert_int_equal(file_write_output(f->file, SLICE_LIT("second"), 0640), ERR_OK);
    assert_int_equal(lstat(f->file, &st), 0);
    assert_true(st.st_ino != before);
    /* A symbolic link stays; what it leads to is written. */
    assert_int_equal(symlink(f->file, f->bad), 0);
    assert_int_equal(file_write_output(f->bad, SLICE_LIT("3rd"), 0640), ERR_OK);
    assert_true(lstat(f->bad, &st) == 0 && S_ISLNK(st.st_mode));
    assert_int_equal(file_read(f->file, 100, &out), ERR_OK);
    assert_string_equal(text_cstr(&out), "3rd");
    text_fini(&out);
    assert_int_equal(unlink(f->bad), 0);
    /* So does a device, which may fail. */
    assert_int_equal(symlink("/dev/full", f->bad), 0);
    assert_int_equal(file_write_output(f->bad, SLICE_LIT("x"), 0640), ERR_SYSTEM);
    assert_int_equal(errno, ENOSPC);
    assert_true(stat(f->bad, &st) == 0 && S_ISCHR(st.st_mode));
    assert_int_equal(unlink(f->bad), 0);
    /* And a pipe. */
    assert_int_equal(mkfifo(f->bad, 0600), 0);
    int fd = open(f->bad, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_int_equal(file_write_output(f->bad, SLICE_LIT("piped"), 0640), ERR_OK);
    assert_int_equal(read(fd, got, sizeof(got)), 5);
    assert_true(lstat(f->bad, &st) == 0 && S_ISFIFO(st.st_mode));
    close(fd);
    assert_int_equal(unlink(f->bad) | unlink(f->file), 0);
}

static void a_failed_write_leaves_nothing_behind(void **state)
{
    struct temp_directory *f = *state;
    char *nowhere = xasprintf("%s/no/such", f->path);

    assert_int_equal(file_write(nowhere, SLICE_LIT("x"), 0640), ERR_SYSTEM);
    assert_int_equal(errno, ENOENT);
    /* A directory cannot be replaced by a file. */
    assert_int_equal(file_write(f->path, SLICE_LIT("x"), 0640), ERR_SYSTEM);
    free(nowhere);
}

static void a_bad_file_is_set_aside_over_an_older_one(void **state)
{
    struct temp_directory *f = *state;
    struct text t = {0};

    assert_int_equal(file_write(f->bad, SLICE_LIT("older"), 0640), ERR_OK);
    assert_int_equal(file_write(f->file, SLICE_LIT("newer"), 0640), ERR_OK);
    assert_int_equal(file_set_aside(f->file), ERR_OK);
    assert_int_equal(file_read(f->bad, 100, &t), ERR_OK);
    assert_string_equal(text_cstr(&t), "newer");
    assert_int_equal(file_read(f->file, 100, &t), ERR_NOT_FOUND);
    assert_int_equal(file_set_aside(f->file), ERR_SYSTEM);
    text_fini(&t);
}

static void a_lock_is_rejected_while_others_have_it_and_waited_for_when_asked(void **state)
{
    struct temp_directory *f = *state;
    int fd = file_lock(f->file, 0);
    char byte;
    int ends[2];

    assert_true(fd >= 0);
    assert_int_equal(file_lock(f->file, 0), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    /* A child that has inherited it has it too, until it closes it. */
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 1 ? 0 : 1);
    }
    assert_true(child > 0);
    close(fd);
    assert_int_equal(file_lock(f->file, 50), -1);
    assert_int_equal(write(ends[1], "x", 1), 1);
    fd = file_lock(f->file, 60000);
    assert_true(fd >= 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(fd);
    close(ends[0]);
    close(ends[1]);
}

static void links_in_a_state_dir_are_not_followed(void **state)
{
    struct temp_directory *f = *state;
    struct text t = {0};
    char *tmp = xasprintf("%s.tmp.%ld", f->file, (long)getpid());

    /* Where the temporary file is to be there is a link to another file, which stays as it is. */
    assert_int_equal(file_write(f->bad, SLICE_LIT("precious"), 0640), ERR_OK);
    assert_int_equal(symlink(f->bad, tmp), 0);
    assert_int_equal(file_write(f->file, SLICE_LIT("new"), 0640), ERR_OK);
    assert_int_equal(file_read_state(f->bad, 100, &t), ERR_OK);
    assert_string_equal(text_cstr(&t), "precious");
    text_clear(&t);
    assert_int_equal(file_read_state(f->file, 100, &t), ERR_OK);
    assert_string_equal(text_cstr(&t), "new");
    /* Nor is one read, or locked. */
    assert_int_equal(unlink(f->file), 0);
    assert_int_equal(symlink(f->bad, f->file), 0);
    assert_int_equal(file_read_state(f->file, 100, &t), ERR_SYSTEM);
    assert_int_equal(errno, ELOOP);
    assert_int_equal(file_lock(f->file, 0), -1);
    assert_int_equal(errno, ELOOP);
    /* Writing replaces it. */
    assert_int_equal(file_write(f->file, SLICE_LIT("newer"), 0640), ERR_OK);
    text_clear(&t);
    assert_int_equal(file_read_state(f->file, 100, &t), ERR_OK);
    assert_string_equal(text_cstr(&t), "newer");
    text_fini(&t);
    free(tmp);
}

static void a_fifo_in_a_state_dir_stops_nothing(void **state)
{
    struct temp_directory *f = *state;
    struct text t = {0};

    /* Opening one waits for a writer, which never comes. */
    alarm(60);
    assert_int_equal(mkfifo(f->file, 0600), 0);
    assert_int_equal(file_read_state(f->file, 100, &t), ERR_OK);
    assert_int_equal(t.len, 0);
    assert_int_equal(file_write(f->file, SLICE_LIT("new"), 0640), ERR_OK);
    assert_int_equal(file_read_state(f->file, 100, &t), ERR_OK);
    assert_string_equal(text_cstr(&t), "new");
    alarm(0);
    text_fini(&t);
}

static void a_secret_that_others_may_read_is_warned_of(void **state)
{
    struct temp_directory *f = *state;
    struct log_capture c;
    char *expected =
        xasprintf(" secret-file-exposed file=%s mode=0604 hint=\"chmod o-r\"\n", f->file);

    assert_int_equal(file_write(f->file, SLICE_LIT("secret"), 0640), ERR_OK);
    log_capture_start(&c);
    file_warn_exposed(f->file);
    assert_int_equal(chmod(f->file, 0660), 0);
    file_warn_exposed(f->file);
    file_warn_exposed(f->bad);
    file_warn_exposed(f->path);
    assert_string_equal(log_capture_end(&c), "");
    assert_int_equal(chmod(f->file, 0604), 0);
    log_capture_start(&c);
    file_warn_exposed(f->file);
    const char *text = log_capture_end(&c);
    assert_non_null(strstr(text, expected));
    assert_non_null(strstr(text, "warn"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    free(expected);
}

#define with_directory(test) cmocka_unit_test_setup_teardown(test, make_directory, drop_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_directory(a_written_file_is_read_back),
        with_directory(a_file_over_the_bound_is_rejected),
        with_directory(a_missing_file_is_no_system_error),
        with_directory(an_output_replaces_regular_files_only),
        with_directory(a_failed_write_leaves_nothing_behind),
        with_directory(a_bad_file_is_set_aside_over_an_older_one),
        with_directory(links_in_a_state_dir_are_not_followed),
        with_directory(a_fifo_in_a_state_dir_stops_nothing),
        with_directory(a_secret_that_others_may_read_is_warned_of),
        with_directory(a_lock_is_rejected_while_others_have_it_and_waited_for_when_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
