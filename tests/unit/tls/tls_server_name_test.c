/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "common/tls/tls_names.h"

#define EXTENSION(bytes) ((struct slice){bytes, sizeof(bytes) - 1})

static void the_one_name_is_found(void **state)
{
    struct slice name = SLICE_NULL;

    (void)state;
    assert_true(tls_server_name(EXTENSION("\x00\x06\x00\x00\x03www"), &name));
    assert_true(slice_is(name, "www"));
}

static void a_name_has_at_most_255_bytes(void **state)
{
    char bytes[5 + TLS_NAME_MAX + 1] = {0};
    struct slice name = SLICE_NULL;

    (void)state;
    memset(bytes + 5, 'a', TLS_NAME_MAX + 1);
    memcpy(bytes, "\x01\x02\x00\x00\xff", 5);
    assert_true(tls_server_name((struct slice){bytes, 5 + TLS_NAME_MAX}, &name));
    assert_int_equal(name.len, TLS_NAME_MAX);
    memcpy(bytes, "\x01\x03\x00\x01\x00", 5);
    assert_false(tls_server_name((struct slice){bytes, 5 + TLS_NAME_MAX + 1}, &name));
}

static void an_invalid_extension_has_no_name(void **state)
{
    const struct slice bad[] = {
        {NULL, 0},
        EXTENSION("\x00\x03\x00\x00\x00"),               /* empty */
        EXTENSION("\x00\x07\x00\x00\x03www"),            /* truncated list */
        EXTENSION("\x00\x06\x00\x00\x04www"),            /* truncated name */
        EXTENSION("\x00\x06\x00\x00\x02www"),            /* bytes after the name */
        EXTENSION("\x00\x06\x01\x00\x03www"),            /* another type */
        EXTENSION("\x00\x08\x00\x00\x01w\x00\x00\x01w"), /* two */
        EXTENSION("\x00\x06\x00\x00\x03w\0w"),
    };
    struct slice name = SLICE_NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        assert_false(tls_server_name(bad[i], &name));
        assert_null(name.p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_one_name_is_found),
        cmocka_unit_test(a_name_has_at_most_255_bytes),
        cmocka_unit_test(an_invalid_extension_has_no_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
