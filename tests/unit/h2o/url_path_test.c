/* SPDX-License-Identifier: Apache-2.0 */
#include "common/h2o/url_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/text.h"

static void paths_have_one_form(void **state)
{
    static const struct {
        struct slice target, path;
    } rows[] = {
#define ROW(target, path)                                                                          \
    {                                                                                              \
        {target, sizeof(target) - 1},                                                              \
        {                                                                                          \
            path, sizeof(path) - 1                                                                 \
        }                                                                                          \
    }
        ROW("", "/"),
        ROW("/", "/"),
        ROW("/a/b", "/a/b"),
        ROW("/a?", "/a"),
        ROW("/a?b=/../c%41?d", "/a"),
        ROW("/?x", "/"),
        ROW("?x", "/"),
        ROW("*", "/*"),
        ROW("a/b?c", "/a/b"),
        ROW("/a/./b", "/a/b"),
        ROW("/a/../b?q", "/b"),
        ROW("/a/b/..", "/a/"),
        ROW("/a/b/.", "/a/b/"),
        ROW("/../../a", "/a"),
        ROW("/..", "/"),
        ROW("/a/.../b", "/a/.../b"),
        ROW("/.a/..b", "/.a/..b"),
        ROW("/a//b", "/a//b"),
        ROW("/%61%2fb", "/a/b"),
        ROW("/a%2F%2e%2E/b", "/b"),
        ROW("/%2e%2e/%2e", "/"),
        ROW("/%00", "/\0"),
        ROW("/%3fa?b", "/?a"),
        ROW("/%252e", "/%2e"),
        ROW("/%", "/%"),
        ROW("/%4", "/%4"),
        ROW("/%4?1", "/%4"),
        ROW("/%g0", "/%g0"),
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        struct slice target = rows[i].target;
        /* Exactly as large as promised: the sanitizers would report a byte more. */
        char *copy = malloc(target.len + 1);
        char *out = malloc(URL_PATH_ROOM(target.len));

        memcpy(copy, target.p, target.len);
        struct slice path = url_path_normalize((struct slice){copy, target.len}, out);
        if (!slice_eq(path, rows[i].path))
            fail_msg("%s: %.*s", target.p, SLICE_FMT(path));
        assert_memory_equal(copy, target.p, target.len);
        free(copy);
        free(out);
    }
}

static void path_in_normal_form_is_not_copied(void **state)
{
    static const char target[] = "/a/b/c.html?d=e";
    char out[URL_PATH_ROOM(sizeof(target))];

    (void)state;
    struct slice path = url_path_normalize((struct slice){target, sizeof(target) - 1}, out);
    assert_ptr_equal(path.p, target);
    assert_int_equal(path.len, slice_find(slice_of(target), '?'));
}

static void long_path_is_normalized(void **state)
{
    enum { SEGMENTS = 20000 };
    struct text target = {0};

    (void)state;
    for (int i = 0; i < SEGMENTS; ++i)
        text_add(&target, SLICE_LIT("/a/.."));
    char *out = malloc(URL_PATH_ROOM(target.len));
    struct slice path = url_path_normalize(text_slice(&target), out);
    assert_true(slice_eq(path, SLICE_LIT("/")));
    free(out);
    text_fini(&target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_have_one_form),
        cmocka_unit_test(path_in_normal_form_is_not_copied),
        cmocka_unit_test(long_path_is_normalized),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
