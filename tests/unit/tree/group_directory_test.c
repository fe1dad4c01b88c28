/* SPDX-License-Identifier: Apache-2.0
 * What is made in a directory that its group may write to is the group's, whatever the umask. */
#include "common/tree/provider_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/text.h"

/* An unused group, different from that of the test. */
enum { OTHER_GROUP = 65533 };

static char base[] = RLB_TEST_DIR "/rlb-group-XXXXXX";

static int setup(void **state)
{
    (void)state;
    umask(0077);
    return mkdtemp(base) == NULL || chmod(base, 0770) != 0;
}

static int teardown(void **state)
{
    char *command = xasprintf("rm -rf %s", base);
    int failed = system(command);

    (void)state;
    free(command);
    return failed;
}

static void expect(const char *path, gid_t group, mode_t mode)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_gid, group);
    assert_int_equal(st.st_mode & 07777, mode);
}

static void expect_both(const char *name, gid_t group)
{
    char *directory = xasprintf("%s/%s", base, name);
    char *file = xasprintf("%s/file", directory);
    int fd;

    assert_true(group_directory_make(directory));
    expect(directory, group, 0770);
    fd = open(file, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_true(group_file_share(fd, file));
    close(fd);
    expect(file, group, 0660);
    free(file);
    free(directory);
}

static void the_umask_does_not_keep_the_group_out(void **state)
{
    (void)state;
    expect_both("own", getegid());
}

static void directories_made_by_root_belong_to_the_group_that_may_write_there(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(chown(base, (uid_t)-1, OTHER_GROUP), 0);
    expect_both("given", OTHER_GROUP);
    expect_both("given/deeper", OTHER_GROUP);
    /* Where the group may not write, it is not asked for. */
    assert_int_equal(chmod(base, 0750), 0);
    expect_both("kept", getegid());
}

static void a_directory_that_is_there_is_reported_as_such(void **state)
{
    (void)state;
    assert_false(group_directory_make(base));
    assert_int_equal(errno, EEXIST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_umask_does_not_keep_the_group_out),
        cmocka_unit_test(directories_made_by_root_belong_to_the_group_that_may_write_there),
        cmocka_unit_test(a_directory_that_is_there_is_reported_as_such),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
