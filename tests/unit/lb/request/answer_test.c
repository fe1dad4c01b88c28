/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/request/answer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void expect(const struct answer *a, const char *page)
{
    struct text out = {0};

    answer_page(a, &out);
    assert_string_equal(text_cstr(&out), page);
    text_fini(&out);
}

static void the_built_in_page_states_status_reason_and_request(void **state)
{
    struct answer a = {.status = 503, .request_id = SLICE_LIT("id-7")};

    (void)state;
    expect(&a, "<!DOCTYPE html>\n<html><head><title>503 Service Unavailable</title></head>\n"
               "<body><h1>503 Service Unavailable</h1>\n<p>Request id-7</p></body></html>\n");
}

static void a_configured_page_gets_its_values_wherever_it_wants_them(void **state)
{
    struct answer a = {.status = 404,
                       .request_id = SLICE_LIT("x"),
                       .page = SLICE_LIT("${status}${status}-${reason}")};

    (void)state;
    expect(&a, "404404-Not Found");
}

static void what_is_no_value_of_ours_stays(void **state)
{
    struct answer a = {.status = 404, .page = SLICE_LIT("$ $${status} ${} ${other} ${status $")};

    (void)state;
    expect(&a, "$ $404 ${} ${other} ${status $");
}

static void a_request_id_cannot_become_markup(void **state)
{
    struct answer a = {
        .status = 404, .page = SLICE_LIT("${request_id}"), .request_id = SLICE_LIT("<a b='\"'>&")};

    (void)state;
    expect(&a, "&lt;a b=&#39;&quot;&#39;&gt;&amp;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_built_in_page_states_status_reason_and_request),
        cmocka_unit_test(a_configured_page_gets_its_values_wherever_it_wants_them),
        cmocka_unit_test(what_is_no_value_of_ours_stays),
        cmocka_unit_test(a_request_id_cannot_become_markup),
    };

    return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}
