/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/request/front.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void the_host_stays_and_the_port_is_the_settings(void **state)
{
    static const struct {
        unsigned port;
        const char *authority, *target, *location;
    } cases[] = {
        {443, "a.example", "/", "https://a.example/"},
        {443, "a.example:80", "/x?y=1", "https://a.example/x?y=1"},
        {8443, "a.example:8080", "/", "https://a.example:8443/"},
        {8443, "a.example:", "/", "https://a.example:8443/"},
        {443, "[2001:db8::1]:80", "/", "https://[2001:db8::1]/"},
        {444, "[2001:db8::1]", "/", "https://[2001:db8::1]:444/"},
        {443, "a.example", "*", "https://a.example/"},
        {443, "a.example", "//b.example/", "https://a.example//b.example/"},
        {443, "a.example", "/\xc3\xa9", "https://a.example/%C3%A9"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        struct text out = {0};

        assert_true(redirect_location(cases[i].port, slice_of(cases[i].authority),
                                      slice_of(cases[i].target), &out));
        assert_string_equal(text_cstr(&out), cases[i].location);
        text_fini(&out);
    }
}

static void a_request_without_a_host_is_not_redirected(void **state)
{
    struct text out = {0};

    (void)state;
    assert_false(redirect_location(443, SLICE_LIT(""), SLICE_LIT("/"), &out));
    assert_int_equal(out.len, 0);
    text_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_stays_and_the_port_is_the_settings),
        cmocka_unit_test(a_request_without_a_host_is_not_redirected),
    };

    return cmocka_run_group_tests_name("redirect", tests, NULL, NULL);
}
