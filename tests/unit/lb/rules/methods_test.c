/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/methods.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lb/request/headers.h"

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

/* What Max-Forwards VALUE is read as; the error as a negative number. */
static int forwards(const char *const *values, size_t n)
{
    struct http_request req;
    uint64_t out = 0;

    http_request_init(&req, NULL, 0);
    for (size_t i = 0; i < n; ++i)
        http_request_add(&req, &req.fields, SLICE_LIT("Max-Forwards"), slice_of(values[i]));
    enum err e = headers_max_forwards(&req.fields, &out);
    http_request_fini(&req);
    return e == ERR_OK ? (int)out : -(int)e;
}

static void max_forwards_is_one_number_and_bounded(void **state)
{
    static const char *const bad[] = {"", "-1", "+1", "1 ", "0x1", "1, 2", "many"};

    (void)state;
    assert_int_equal(forwards(NULL, 0), -(int)ERR_NOT_FOUND);
    assert_int_equal(forwards((const char *[]){"0"}, 1), 0);
    assert_int_equal(forwards((const char *[]){"007"}, 1), 7);
    assert_int_equal(forwards((const char *[]){"99999999999999999999999999"}, 1),
                     MAX_FORWARDS_MAX + 1);
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i)
        assert_int_equal(forwards(&bad[i], 1), -(int)ERR_SYNTAX);
    assert_int_equal(forwards((const char *[]){"1", "1"}, 2), -(int)ERR_SYNTAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_methods_has_tokens_each_once),
        cmocka_unit_test(a_list_of_methods_has_an_end),
        cmocka_unit_test(a_method_is_registered_in_its_own_case_only),
        cmocka_unit_test(max_forwards_is_one_number_and_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
