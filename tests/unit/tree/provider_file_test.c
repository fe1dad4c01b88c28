/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/file.h"
#include "common/tree/provider_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct file_fixture {
    char directory[64];
    char path[80];
};

static int setup(void **state)
{
    struct file_fixture *p = xcalloc(1, sizeof(*p));

    snprintf(p->directory, sizeof(p->directory), RLB_TEST_DIR "/rlb-provider-XXXXXX");
    assert_non_null(mkdtemp(p->directory));
    snprintf(p->path, sizeof(p->path), "%s/x", p->directory);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct file_fixture *p = *state;

    unlink(p->path);
    /* Fails when anything else was left behind. */
    assert_int_equal(rmdir(p->directory), 0);
    free(p);
    return 0;
}

static void expect_content(const char *path, const char *text)
{
    char got[64] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_true(read(fd, got, sizeof(got) - 1) >= 0);
    close(fd);
    assert_string_equal(got, text);
}

static void names_become_files_and_come_back(void **state)
{
    static const struct {
        const char *name;
        const char *file;
    } rows[] = {
        {"127.0.0.1:80", "127.0.0.1:80"},
        {"[::1]:80", "[::1]:80"},
        {"unix:/run/x", "unix:%2Frun%2Fx"},
        {"a%b", "a%25b"},
        {"..", "%2E."},
        {".hidden", "%2Ehidden"},
        {"properties.json", "%70roperties.json"},
        {"\x01 \x7f\xff", "%01%20%7F%FF"},
    };
    char file[PROVIDER_NAME_ROOM];
    char name[PROVIDER_NAME_ROOM];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        assert_true(provider_name_encode(rows[i].name, file));
        assert_string_equal(file, rows[i].file);
        assert_true(provider_name_decode(file, name));
        assert_string_equal(name, rows[i].name);
    }
}

static void other_names_are_rejected(void **state)
{
    static const char *const files[] = {
        "", ".new-1", "..", "properties.json", "%2f", "%", "%2", "a%00b", "%41", "a b", "%zz"};
    char name[PROVIDER_NAME_ROOM];
    char out[PROVIDER_NAME_ROOM];
    char longest[PROVIDER_NAME_ROOM + 1] = "";

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(files); ++i)
        assert_false(provider_name_decode(files[i], name));
    memset(longest, 'x', PROVIDER_NAME_ROOM - 1);
    assert_true(provider_name_encode(longest, out));
    longest[PROVIDER_NAME_ROOM - 1] = 'x';
    assert_false(provider_name_encode(longest, out));
    assert_false(provider_name_decode(longest, out));
    assert_false(provider_name_encode("", out));
}

static void a_file_in_place_is_complete_and_held(void **state)
{
    struct file_fixture *p = *state;
    int f = -1;
    struct stat st;
    int fd = -1;

    assert_int_equal(provider_file_put(&f, p->path, SLICE_LIT("{}")), ERR_OK);
    assert_true(provider_file_in_place(f, p->path));
    assert_int_equal(fcntl(f, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    expect_content(p->path, "{}");
    assert_int_equal(plain_file_open(p->path, &fd, &st), ERR_OK);
    assert_true(provider_file_held(fd));
    provider_file_drop(&f, p->path);
    assert_false(provider_file_held(fd));
    close(fd);
    assert_int_equal(plain_file_open(p->path, &fd, &st), ERR_NOT_FOUND);
}

static void a_living_owner_is_never_replaced(void **state)
{
    struct file_fixture *p = *state;
    int mine = -1;
    int other = -1;

    assert_int_equal(provider_file_put(&mine, p->path, SLICE_LIT("mine")), ERR_OK);
    assert_int_equal(provider_file_put(&other, p->path, SLICE_LIT("other")), ERR_BUSY);
    assert_int_equal(other, -1);
    assert_int_equal(provider_file_clear(p->path), ERR_BUSY);
    expect_content(p->path, "mine");
    assert_int_equal(provider_file_put(&mine, p->path, SLICE_LIT("new")), ERR_OK);
    expect_content(p->path, "new");
    /* Its owner dies, as the kernel sees it. */
    close(mine);
    assert_int_equal(provider_file_put(&other, p->path, SLICE_LIT("other")), ERR_OK);
    expect_content(p->path, "other");
    provider_file_drop(&other, p->path);
}

static void only_the_own_file_is_unlinked(void **state)
{
    struct file_fixture *p = *state;
    int mine = -1;
    int other = -1;

    assert_int_equal(provider_file_put(&mine, p->path, SLICE_LIT("mine")), ERR_OK);
    unlink(p->path);
    assert_false(provider_file_in_place(mine, p->path));
    assert_int_equal(provider_file_put(&other, p->path, SLICE_LIT("other")), ERR_OK);
    /* The first one's lock is on a file that has no name any more. */
    assert_int_equal(provider_file_put(&mine, p->path, SLICE_LIT("again")), ERR_BUSY);
    provider_file_drop(&mine, p->path);
    expect_content(p->path, "other");
    provider_file_drop(&other, p->path);
}

static void a_path_that_is_not_a_file_is_neither_replaced_nor_cleared(void **state)
{
    struct file_fixture *p = *state;
    int f = -1;
    struct stat st;
    int fd;

    assert_int_equal(mkdir(p->path, 0770), 0);
    assert_int_equal(provider_file_put(&f, p->path, SLICE_LIT("{}")), ERR_SYSTEM);
    assert_int_equal(provider_file_clear(p->path), ERR_SYSTEM);
    assert_int_equal(plain_file_open(p->path, &fd, &st), ERR_UNSUPPORTED);
    assert_int_equal(rmdir(p->path), 0);
    assert_int_equal(mkfifo(p->path, 0660), 0);
    assert_int_equal(provider_file_put(&f, p->path, SLICE_LIT("{}")), ERR_SYSTEM);
    assert_int_equal(plain_file_open(p->path, &fd, &st), ERR_UNSUPPORTED);
    unlink(p->path);
    assert_int_equal(symlink("/etc/passwd", p->path), 0);
    assert_int_equal(provider_file_clear(p->path), ERR_SYSTEM);
    assert_int_equal(plain_file_open(p->path, &fd, &st), ERR_UNSUPPORTED);
}

static void a_missing_directory_is_an_error(void **state)
{
    struct file_fixture *p = *state;
    int f = -1;
    char *below = xasprintf("%s/y", p->path);

    assert_int_equal(provider_file_put(&f, below, SLICE_LIT("{}")), ERR_SYSTEM);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(f, -1);
    free(below);
}

static void reading_stops_at_its_limit(void **state)
{
    struct file_fixture *p = *state;
    int f = -1;
    struct text out = {0};
    struct stat st;
    int fd = -1;

    assert_int_equal(provider_file_put(&f, p->path, SLICE_LIT("12345")), ERR_OK);
    assert_int_equal(plain_file_open(p->path, &fd, &st), ERR_OK);
    assert_int_equal(file_read_from(fd, 4, &out), ERR_TOO_LARGE);
    assert_int_equal(out.len, 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(file_read_from(fd, 5, &out), ERR_OK);
    assert_true(slice_is(text_slice(&out), "12345"));
    close(fd);
    text_fini(&out);
    provider_file_drop(&f, p->path);
}

#define file_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_become_files_and_come_back),
        cmocka_unit_test(other_names_are_rejected),
        file_test(a_file_in_place_is_complete_and_held),
        file_test(a_living_owner_is_never_replaced),
        file_test(only_the_own_file_is_unlinked),
        file_test(a_path_that_is_not_a_file_is_neither_replaced_nor_cleared),
        file_test(a_missing_directory_is_an_error),
        file_test(reading_stops_at_its_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
