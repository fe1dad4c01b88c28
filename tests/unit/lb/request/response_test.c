/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/request/exchange.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void expect(int status, const char *template, const char *request_id, const char *page)
{
    struct text out = {0};

    exchange_error_page(slice_of(template), error_page_type(NULL), status, slice_of(request_id),
                        &out);
    assert_string_equal(text_cstr(&out), page);
    text_fini(&out);
}

static void the_built_in_page_states_status_reason_and_request(void **state)
{
    (void)state;
    expect(503, "", "id-7",
           "<!DOCTYPE html>\n<html><head><title>503 Service Unavailable</title></head>\n"
           "<body><h1>503 Service Unavailable</h1>\n<p>Request id-7</p></body></html>\n");
}

static void a_configured_page_gets_its_values_wherever_it_wants_them(void **state)
{
    (void)state;
    expect(404, "${status}${status}-${reason}", "x", "404404-Not Found");
}

static void an_unknown_placeholder_stays(void **state)
{
    (void)state;
    expect(404, "$ $${status} ${} ${other} ${status $", "", "$ $404 ${} ${other} ${status $");
}

static void a_request_id_cannot_become_markup(void **state)
{
    (void)state;
    expect(404, "${request_id}", "<a b='\"'>&", "&lt;a b=&#39;&quot;&#39;&gt;&amp;");
}

static void values_are_not_escaped_where_there_is_no_markup(void **state)
{
    struct text out = {0};

    (void)state;
    exchange_error_page(SLICE_LIT("{\"${reason}\": \"${request_id}\"}"), "application/json", 404,
                        SLICE_LIT("a>'"), &out);
    assert_string_equal(text_cstr(&out), "{\"Not Found\": \"a>'\"}");
    text_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_built_in_page_states_status_reason_and_request),
        cmocka_unit_test(a_configured_page_gets_its_values_wherever_it_wants_them),
        cmocka_unit_test(an_unknown_placeholder_stays),
        cmocka_unit_test(a_request_id_cannot_become_markup),
        cmocka_unit_test(values_are_not_escaped_where_there_is_no_markup),
    };

    return cmocka_run_group_tests_name("response", tests, NULL, NULL);
}
