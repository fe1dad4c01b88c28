/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/inspect/inspect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void only_the_id_of_a_process_can_be_detached(void **state)
{
    static const char *const ids[] = {
        "",
        "a b",
        "a/b",
        "../x",
        "a?b",
        "\xc3\xa4",
        "0123456789012345678901234567890123456789012345678901234567890123x"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ids); ++i) {
        struct ctl_options o = {.address = "127.0.0.1:1", .timeout_ms = 1000};

        assert_int_equal(ctl_detach(&o, ids[i]), ERR_SYNTAX);
        assert_int_equal(o.out.len, 0);
        assert_int_equal(o.diag.errors, 1);
        diag_fini(&o.diag);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_id_of_a_process_can_be_detached),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
