/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/program/privileges.h"

static void no_user_wants_nothing_and_a_group_alone_is_rejected(void **state)
{
    struct privileges p;

    (void)state;
    assert_null(privileges_find(NULL, NULL, &p));
    assert_false(p.required);
    assert_false(privileges_differ(&p));
    assert_true(user_rights_drop("nobody", &p));
    assert_string_equal(privileges_find(NULL, "root", &p), "requires user");
}

static void an_unknown_user_or_group_is_not_found(void **state)
{
    struct privileges p;

    (void)state;
    assert_string_equal(privileges_find("no-such-user", NULL, &p), "unknown user");
    assert_string_equal(privileges_find("root", "no-such-group", &p), "unknown group");
}

/* In a child: it cannot come back from it. */
static int become_nobody(const struct privileges *p)
{
    if (!user_rights_drop("nobody", p))
        return 1;
    return setuid(0) == 0 || getuid() != p->uid || getegid() != p->gid ? 3 : 0;
}

static void root_becomes_the_user_for_good_and_none_else_can(void **state)
{
    struct privileges p;
    int status;

    (void)state;
    assert_null(privileges_find("nobody", NULL, &p));
    assert_true(p.required);
    pid_t pid = fork();
    if (pid == 0)
        _exit(become_nobody(&p));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), geteuid() == 0 || geteuid() == p.uid ? 0 : 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_user_wants_nothing_and_a_group_alone_is_rejected),
        cmocka_unit_test(an_unknown_user_or_group_is_not_found),
        cmocka_unit_test(root_becomes_the_user_for_good_and_none_else_can),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
