/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/methods.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static bool check(const char *const *items, size_t n, size_t *at)
{
    char *mine[METHODS_MAX + 1];
    char why[SETTINGS_WHY_ROOM] = "";

    for (size_t i = 0; i < n; ++i)
        mine[i] = xstrdup(items[i]);
    bool good =
        settings_list_check("methods", &(struct text_list){mine, n}, method_problem, at, why);
    for (size_t i = 0; i < n; ++i)
        free(mine[i]);
    assert_true(good || why[0] != '\0');
    return good;
}

static void a_list_of_methods_has_tokens_each_once(void **state)
{
    size_t at = 0;

    (void)state;
    assert_true(check((const char *[]){"GET", "get", "X-My.Method"}, 3, &at));
    assert_false(check((const char *[]){"GET", "POST", "GET"}, 3, &at));
    assert_int_equal(at, 2);
    assert_false(check((const char *[]){"GET", "CONNECT"}, 2, &at));
    assert_int_equal(at, 1);
    assert_false(check((const char *[]){"G T"}, 1, &at));
    assert_false(check((const char *[]){"G\r\nX"}, 1, &at));
    assert_false(check((const char *[]){""}, 1, &at));
    assert_false(check((const char *[]){"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG"}, 1, &at));
}

static void a_list_of_methods_has_an_end(void **state)
{
    char room[METHODS_MAX + 1][8];
    const char *items[METHODS_MAX + 1];
    size_t at = 0;

    (void)state;
    for (size_t i = 0; i <= METHODS_MAX; ++i) {
        snprintf(room[i], sizeof(room[i]), "M%zu", i);
        items[i] = room[i];
    }
    assert_true(check(items, METHODS_MAX, &at));
    assert_false(check(items, METHODS_MAX + 1, &at));
    assert_int_equal(at, METHODS_MAX);
}

static void a_method_is_registered_in_its_own_case_only(void **state)
{
    (void)state;
    assert_true(method_is_registered(SLICE_LIT("PATCH")));
    assert_true(method_is_registered(SLICE_LIT("PROPFIND")));
    assert_true(method_is_registered(SLICE_LIT("TRACE")));
    assert_false(method_is_registered(SLICE_LIT("patch")));
    assert_false(method_is_registered(SLICE_LIT("BREW")));
    assert_false(method_is_registered(SLICE_LIT("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_methods_has_tokens_each_once),
        cmocka_unit_test(a_list_of_methods_has_an_end),
        cmocka_unit_test(a_method_is_registered_in_its_own_case_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
